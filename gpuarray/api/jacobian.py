"""Matrices of derivatives: `jacfwd`, `jacrev` and `hessian`.

Floor 6. In: functions of pytrees. Out: functions that return the derivative of every output with
respect to every input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.api.derivatives import (
    FlatFunction,
    argnums_of,
    check_callable,
    check_input,
    check_output,
)
from gpuarray.api.vjp import Pullback
from gpuarray.core.avals import aval_of
from gpuarray.core.linear import is_inexact
from gpuarray.core.tracebacks import boundary
from gpuarray.functions.vmap import vmap
from gpuarray.lax.creation import varying_along
from gpuarray.numpy.construct import as_type
from gpuarray.numpy.matrices import eye
from gpuarray.primitives.linear import instantiate, zeros
from gpuarray.primitives.reshard import as_typed
from gpuarray.pytree import tree
from gpuarray.transforms.batch import BatchAxis, batch_aux, matched
from gpuarray.transforms.jvp import jvp_flat
from gpuarray.transforms.linearize import linearize_flat
from gpuarray.util import wraps


def _basis(leaves: Sequence[Any]) -> tuple[list[Any], int]:
    """Unit vectors over all leaves together: arrays of shape (total, *leaf)."""
    avals = [aval_of(x) for x in leaves]
    total = sum(a.size for a in avals)
    out, start = [], 0
    for a in avals:
        # Rows of an identity matrix: the diagonal starts at this leaf's first element.
        block = as_type(eye(total, a.size, -start, dtype=a.dtype), a.dtype, a.weak_type)
        block = block.reshape((total, *a.shape))
        if a.layout is not None and a.layout.cuts is not None:
            # Each unit vector has the layout of the leaf.
            block = as_typed(block, aval_of(block).update(layout=a.layout.with_axis()))
        out.append(varying_along(block, a.vma))
        start += a.size
    return out, total


def _unstacked(x: Any, axis: int, leaves: Sequence[Any]) -> list[Any]:
    """Split an axis that runs over all leaves together into one piece for each leaf, in the leaf's
    shape.
    """
    pieces, start = [], 0
    for leaf in leaves:
        a = aval_of(leaf)
        index = (slice(None),) * axis + (slice(start, start + a.size),)
        piece = x[index]
        shape = (*x.shape[:axis], *a.shape, *x.shape[axis + 1 :])
        pieces.append(piece.reshape(shape))
        start += a.size
    return pieces


def _jacobian_fun(
    fun: Callable, argnums, has_aux: bool, holomorphic: bool, allow_int: bool, run, name
):
    check_callable(fun)

    @boundary
    @wraps(fun)
    def jacobian_fun(*args, **kwargs):
        nums = argnums_of(argnums, len(args), ValueError)
        chosen = tuple(args[n] for n in nums)
        for x in tree.flatten(chosen)[0]:
            check_input(x, name, holomorphic, allow_int)

        def partial(*values):
            full = list(args)
            for n, value in zip(nums, values, strict=True):
                full[n] = value
            return fun(*full, **kwargs)

        jac, aux = run(partial, chosen)
        # A row has a block for each chosen argument; if argnums is one number, a row is that block.
        if isinstance(argnums, (int, np.integer)):
            jac = tree.tree_map(lambda row: row[0], jac, is_leaf=lambda x: isinstance(x, _Row))
        else:
            jac = tree.tree_map(tuple, jac, is_leaf=lambda x: isinstance(x, _Row))
        return (jac, aux) if has_aux else jac

    return jacobian_fun


class _Row(tuple):
    """The derivatives of one output leaf with respect to all chosen arguments."""

    __slots__ = ()


def jacfwd(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable:
    """The Jacobian of `fun`, a column at a time by forward mode: good for few inputs.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.jacfwd(lambda x: x**2)(gnp.arange(2.0))
    Array([[0., 0.],
           [0., 2.]], dtype=float32)
    """

    def run(partial, chosen):
        flat = FlatFunction(partial, chosen, has_aux=has_aux)
        basis, total = _basis(flat.leaves)

        def push(*tangents):
            # One directional derivative; vmap below makes it one for each unit vector.
            out, out_tangents = jvp_flat(flat, flat.leaves, tangents)
            # Integer arguments have no derivative: zeros of their own dtype.
            columns = [
                instantiate(t) if is_inexact(aval_of(x)) else zeros(aval_of(x))
                for x, t in zip(out, out_tangents, strict=True)
            ]
            aux, aux_spec = tree.flatten(flat.aux)
            return [*columns, *aux], aux_spec

        # All columns together. The function is traced once, however many there are.
        found, dims, aux_spec = batch_aux(push, BatchAxis(total), basis, [0] * len(basis))
        # The columns, followed by the auxiliary results.
        count = flat.out_spec.num_leaves
        columns = [
            matched(c, d, aval_of(c).ndim - (d is not None), total)
            for c, d in zip(found[:count], dims, strict=False)
        ]
        rows = [
            _Row(tree.unflatten(flat.in_spec, _unstacked(c, c.ndim - 1, flat.leaves)))
            for c in columns
        ]
        # No tangent enters the auxiliary results: they are the same for all columns.
        aux = [
            x if d is None else x[(slice(None),) * d + (0,)]
            for x, d in zip(found[count:], dims[count:], strict=True)
        ]
        return flat.result(rows), tree.unflatten(aux_spec, aux)

    return _jacobian_fun(fun, argnums, has_aux, holomorphic, False, run, "jacfwd")


def jacrev(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable:
    """The Jacobian of `fun`, a row at a time by reverse mode: good for few outputs.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.jacrev(lambda x: x**2)(gnp.arange(2.0))
    Array([[0., 0.],
           [0., 2.]], dtype=float32)
    """

    def run(partial, chosen):
        flat = FlatFunction(partial, chosen, has_aux=has_aux)
        # One forward run, then one pullback for each element of the results, all together.
        lin = linearize_flat(flat, flat.leaves, "jacrev")
        for x in lin.outputs:
            check_output(aval_of(x), "jacrev", holomorphic)
        pullback = Pullback(flat.leaves, flat.in_spec, flat.out_spec, lin)
        # Unit cotangents.
        basis, _ = _basis(lin.outputs)
        pulled = vmap(lambda *cts: pullback.typed(pullback.pull(cts)))(*basis)
        # pulled[k] has a leading axis over all outputs together.
        by_input = [_unstacked(p, 0, lin.outputs) for p in pulled]
        rows = [
            _Row(tree.unflatten(flat.in_spec, [pieces[o] for pieces in by_input]))
            for o in range(len(lin.outputs))
        ]
        return flat.result(rows), flat.aux

    return _jacobian_fun(fun, argnums, has_aux, holomorphic, allow_int, run, "jacrev")


def jacobian(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable:
    """The Jacobian of `fun`: another name of `jacrev`.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.jacobian(lambda x: 2.0 * x)(gnp.ones(2))
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    return jacrev(fun, argnums, has_aux, holomorphic, allow_int)


def hessian(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable:
    """The matrix of second derivatives: forward over reverse.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.hessian(lambda x: (x**3).sum())(gnp.arange(2.0))
    Array([[0., 0.],
           [0., 6.]], dtype=float32)
    """
    # Forward over reverse: the outer pass has one column for each input, and keeps no residuals.
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )
