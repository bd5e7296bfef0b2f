"""Pullbacks: what `vjp` returns, a function of cotangents and a pytree of what it keeps.

Floor 6. In: a linearised function, and the structures of its arguments and its result. Out: a
Pullback.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph
from gpuarray.core.linear import Zero, tangent_aval
from gpuarray.core.tracebacks import boundary
from gpuarray.numpy.construct import asarray
from gpuarray.primitives.linear import instantiate
from gpuarray.pytree import tree
from gpuarray.transforms.linearize import Linearized
from gpuarray.transforms.transpose import transpose_flat


def aval_of_tangent(x: Any) -> ShapedArray:
    """The aval of a tangent, which may be a NumPy array of float0."""
    if isinstance(x, np.ndarray) and x.dtype == dtypes.float0:
        return ShapedArray(x.shape, dtypes.float0)
    return aval_of(x)


def real_array(x: Any) -> Any:
    """A (co)tangent as an array: symbolic zeros and scalars of rules made real."""
    x = instantiate(x)
    return x if isinstance(x, np.ndarray) and x.dtype == dtypes.float0 else asarray(x)


class PullbackForm(NamedTuple):
    """All of a pullback but the values it keeps, which `graph` has places for."""

    graph: Graph
    in_linear: tuple[bool, ...]
    out_linear: tuple[bool, ...]
    in_avals: tuple
    out_avals: tuple
    in_spec: Any
    out_spec: Any


class Pullback:
    """What `vjp` returns: cotangents of the result to cotangents of the arguments.

    It is a pytree of the values kept from the forward pass, so that jit takes and returns it.
    """

    def __init__(self, primals: Sequence[Any], in_spec: Any, out_spec: Any, lin: Linearized):
        self.in_spec, self.out_spec, self.lin = in_spec, out_spec, lin
        self.in_avals = [aval_of(p) for p in primals]
        self.out_avals = [aval_of(x) for x in lin.outputs]
        self._form: PullbackForm | None = None

    def take_apart(self) -> tuple[list, PullbackForm]:
        """The values it keeps, and the rest."""
        if self._form is None:
            lin = self.lin
            avals = tuple(self.in_avals), tuple(self.out_avals)
            self._form = PullbackForm(
                lin.graph.with_consts([None] * len(lin.graph.consts)),
                tuple(lin.in_linear), tuple(lin.out_linear), *avals, self.in_spec, self.out_spec,
            )  # fmt: skip
        return self.lin.graph.consts, self._form

    @classmethod
    def put_together(cls, form: PullbackForm, values: Sequence[Any]) -> Pullback:
        """The inverse of `take_apart`."""
        new = object.__new__(cls)
        graph = form.graph.with_consts(values)
        new.lin = Linearized([], graph, list(form.in_linear), list(form.out_linear))
        new.in_avals, new.out_avals = list(form.in_avals), list(form.out_avals)
        new.in_spec, new.out_spec, new._form = form.in_spec, form.out_spec, form
        return new

    def __repr__(self) -> str:
        return f"Pullback(from {self.out_spec} to {self.in_spec}, {self.lin.graph})"

    @boundary
    def __call__(self, cotangents):
        leaves, spec = tree.flatten(cotangents)
        if spec != self.out_spec:
            raise ValueError(
                "unexpected tree structure of argument to vjp function: the cotangent must have "
                "the tree "
                f"structure of the function's output, {self.out_spec}, got {spec}"
            )
        for want, ct in zip(self.out_avals, leaves, strict=True):
            given = aval_of_tangent(ct)
            expected = tangent_aval(want)
            if (given.shape, given.dtype) != (expected.shape, expected.dtype):
                raise ValueError(
                    "unexpected JAX type (e.g. shape/dtype) for argument to vjp function: got "
                    f"{given.str_short()}, but expected {expected.str_short()} because the "
                    f"corresponding "
                    f"output of the function has type {want.str_short()}"
                )
        return tree.unflatten(self.in_spec, [real_array(ct) for ct in self.pull(leaves)])

    def pull(self, cotangents: Sequence[Any]) -> list:
        """Flat cotangents of all arguments, Zero where there is none."""
        lin = self.lin
        given = [ct for ct, linear in zip(cotangents, lin.out_linear, strict=True) if linear]
        found = iter(transpose_flat(lin.graph, [True] * len(lin.graph.invars), [], given))
        return [
            next(found) if linear else Zero(tangent_aval(a))
            for linear, a in zip(lin.in_linear, self.in_avals, strict=True)
        ]


tree.register_pytree_node(Pullback, Pullback.take_apart, Pullback.put_together)
