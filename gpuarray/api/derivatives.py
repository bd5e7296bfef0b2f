"""Helpers shared by the derivative transformations: flat functions, checks, tangents as arrays.

Floor 6. In: functions of pytrees, and their arguments. Out: functions of leaves, and errors that
show the wrong argument.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.layout import cuts_of
from gpuarray.core.linear import Zero, is_zero, tangent_aval
from gpuarray.core.trace import immutable
from gpuarray.core.value import Array
from gpuarray.functions.argnums import indices
from gpuarray.lax.creation import varying_along
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.primitives.linear import instantiate
from gpuarray.primitives.reshard import as_typed
from gpuarray.pytree import tree
from gpuarray.pytree.registration import register_node

# In a pytree a symbolic zero is structure: it has no leaf to compute with.
register_node(Zero, lambda zero: ((), zero.aval), lambda aval, _: Zero(aval))


class FlatFunction:
    """A function of pytrees as a function of leaves; remembers the structure of the last result."""

    def __init__(
        self, fun: Callable, args: tuple, kwargs: dict | None = None, has_aux: bool = False
    ):
        self.fun = fun
        # Never differentiated, as in JAX: only arguments by position are.
        self.kwargs = kwargs or {}
        self.has_aux = has_aux
        leaves, self.in_spec = tree.flatten(args)
        # NumPy arrays become Arrays, so that the caller may write to them afterwards.
        self.leaves = [immutable(x) for x in leaves]
        self.out_spec: Any = None
        self.aux: Any = None

    def __call__(self, *leaves):
        result = self.fun(*tree.unflatten(self.in_spec, leaves), **self.kwargs)
        if self.has_aux:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise TypeError(
                    "With has_aux=True the function must return a two-element tuple "
                    "(output, aux), got "
                    f"{type(result).__name__}"
                )
            result, aux = result
            # Only the current derivative ends here: those of enclosing traces continue. `aux` is a
            # side result: this derivative does not pass through it.
            trace: Any = traces.state.trace
            self.aux = tree.tree_map(trace.primal_of, aux)
        out, self.out_spec = tree.flatten(result)
        for x in out:
            aval_of(x)  # raises for values that are not arrays
        return out

    def result(self, leaves: Sequence[Any]) -> Any:
        return tree.unflatten(self.out_spec, leaves)


def check_callable(fun: Any) -> None:
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}")


def check_tangent(
    primal: Any,
    tangent: Any,
    what: str = "primal and tangent arguments to jax.jvp do not match",
    error: type[Exception] = TypeError,
) -> Any:
    """Check that a tangent has the type that its primal requires.

    Parameters
    ----------
    what, error :
        What is expected, for the message, and the type of the error.
    """
    want, given = tangent_aval(aval_of(primal)), aval_of_tangent(tangent)
    if want.dtype != given.dtype:
        raise error(
            f"{what}; dtypes must be equal, or float0 for the tangent of an integer: the primal is "
            f"{aval_of(primal).str_short()}, so the tangent must be {want.str_short()}, got "
            f"{given.str_short()}"
        )
    if want.shape != given.shape:
        called = "jvp called with" if error is TypeError else f"{what}:"
        raise ValueError(
            f"{called} different primal and tangent shapes; got primal shape "
            f"{want.shape} and tangent shape {given.shape}"
        )
    # The tangent of an integer is a float0: it needs no values.
    if want.dtype == dtypes.float0:
        return Zero(want)
    # Along Explicit axes a tangent is sharded like its primal.
    return tangent if cuts_of(want.layout) is cuts_of(given.layout) else as_typed(tangent, want)


def check_varies_alike(
    primal: ShapedArray,
    given: ShapedArray,
    role: str,
    place: str,
    what: str,
    error: type[Exception],
) -> None:
    """Refuse a value that varies along more mesh axes than the linear function was made for."""
    if more := sorted(given.vma - primal.vma, key=str):
        names = f"({', '.join(map(repr, more))}{',' * (len(more) == 1)})"
        raise error(
            f"{what}: the {role} is {given.str_short(True)}, which varies along {names}, and the "
            f"primal is {primal.str_short(True)}, which does not. This might be fixed by applying "
            f"`jax.lax.pcast(..., {names}, to='varying')` to {place}, or by a psum of the {role}."
        )


def aval_of_tangent(x: Any) -> ShapedArray:
    """The aval of a tangent, which may be a NumPy array of float0."""
    # float0 is a dtype of NumPy's records: no Array holds it.
    if isinstance(x, np.ndarray) and x.dtype == dtypes.float0:
        return ShapedArray(x.shape, dtypes.float0)
    return aval_of(x)


def real_array(x: Any, primal: ShapedArray | None = None) -> Any:
    """A (co)tangent as an array: symbolic zeros and scalars of rules made real.

    It varies between the devices of a `shard_map` wherever `primal` may vary.
    """
    aval = x.aval if is_zero(x) else primal
    x = instantiate(x)
    if isinstance(x, np.ndarray) and x.dtype == dtypes.float0:
        return x
    return asarray(x) if aval is None else varying_along(asarray(x), aval.vma)


def like_its_primal(ct: Any, primal: ShapedArray) -> Any:
    """A gradient as an array, strongly typed where the argument is."""
    # A weak gradient of a strong argument would promote otherwise than the argument does.
    ct = real_array(ct, primal)
    if isinstance(ct, Array) and ct.weak_type and not primal.weak_type:
        return as_type(ct, ct.dtype)
    return ct


def argnums_of(argnums: int | Sequence[int], count: int, error: type[Exception]) -> tuple[int, ...]:
    # One number gives a single derivative, a sequence a tuple of them; the checks are the same.
    single = indices(argnums, "argnums")
    for n in single:
        if not -count <= n < count:
            raise error(
                f"differentiating with respect to argnums={argnums} requires at least {n + 1} "
                f"positional arguments to be passed by the caller, but got only {count} positional "
                "arguments."
            )
    # Negative numbers count from the end, as in a list.
    return tuple(n % count for n in single)


def check_input(x: Any, what: str, holomorphic: bool, allow_int: bool) -> None:
    if isinstance(x, np.ndarray) and x.dtype == object:
        raise TypeError(
            f"{what} got an array of dtype object, which is not a valid JAX type: expected "
            "numbers, such as .astype(float)"
        )
    aval = aval_of(x)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        raise TypeError(
            f"{what} with input element type {aval.dtype.name}: keys have no derivative"
        )
    is_complex = dtypes.issubdtype(aval.dtype, np.complexfloating)
    # A holomorphic function has a complex derivative, which the real rules give unchanged.
    if holomorphic:
        if not is_complex:
            raise TypeError(
                f"{what} with holomorphic=True requires inputs with complex dtype, but got "
                f"{aval.dtype.name}."
            )
        return
    if not dtypes.issubdtype(aval.dtype, np.inexact):
        if not allow_int:
            raise TypeError(
                f"{what} requires real- or complex-valued inputs (input dtype that is a sub-dtype "
                f"of np.inexact), but got {aval.dtype.name}. If you want to use Boolean- or "
                "integer-valued inputs, use vjp or set allow_int to True."
            )
    elif is_complex and what == "jacfwd":
        raise TypeError(
            f"{what} requires real-valued inputs (input dtype that is a sub-dtype of np.floating), "
            f"but got {aval.dtype.name}. For holomorphic differentiation, pass holomorphic=True; "
            "for functions of complex numbers that are not, use jvp."
        )


def check_output(aval: ShapedArray, what: str, holomorphic: bool) -> None:
    is_complex = dtypes.issubdtype(aval.dtype, np.complexfloating)
    if holomorphic and not is_complex:
        raise TypeError(
            f"{what} with holomorphic=True requires outputs with complex dtype, but got "
            f"{aval.dtype.name}."
        )
    if not holomorphic and not dtypes.issubdtype(aval.dtype, np.floating):
        hint = (
            " For holomorphic differentiation, pass holomorphic=True. For differentiation of "
            "non-holomorphic functions involving complex outputs, use jax.vjp directly."
            if is_complex
            else ""
        )
        raise TypeError(
            f"{what} requires real-valued outputs (output dtype that is a sub-dtype of "
            f"np.floating), but got {aval.dtype.name}.{hint}"
        )


class LikePartial(functools.partial):
    """A partial that compares equal to another with equal arguments, so that `jit` reuses its
    trace.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LikePartial) and self.args == other.args

    def __hash__(self) -> int:
        return hash(self.args)
