"""Checking derivatives: against differences, and forward against reverse mode.

Floor 6. In: a function and arguments. Out: nothing, or an AssertionError that shows the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.api.jvp import jvp
from gpuarray.api.vjp import vjp
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.names import explain_names as _explain_names
from gpuarray.pytree import tree

#: Relative errors to allow, by dtype: the accuracy lost in a difference of two rounded values.
_TOLERANCE = {"float16": 1e-2, "bfloat16": 1e-1, "float32": 2e-3, "complex64": 2e-3}
_FINE = 1e-5
#: Step of the finite differences, by dtype: a smaller step would show rounding, a larger one the
#: curvature between the two points.
_STEPS = {"float16": 2**-4, "bfloat16": 2**-3, "float32": 2**-9, "complex64": 2**-9}
_FINE_STEP = 1e-4


def _random_like(rng: np.random.Generator, x: Any) -> Any:
    """A random direction of the type that tangents of `x` have."""
    aval = aval_of(x)
    # Integers have no direction to move in.
    if not dtypes.issubdtype(aval.dtype, np.inexact):
        return np.zeros(aval.shape, dtypes.float0)
    value = rng.standard_normal(aval.shape)
    if dtypes.issubdtype(aval.dtype, np.complexfloating):
        value = value + 1j * rng.standard_normal(aval.shape)
    return np.asarray(value).astype(aval.dtype)


def _random_tree(rng: np.random.Generator, x: Any) -> Any:
    return tree.tree_map(lambda leaf: _random_like(rng, leaf), x)


def _is_float(x: Any) -> bool:
    return dtypes.issubdtype(aval_of(x).dtype, np.inexact)


def _moved(x: Any, t: Any, step: float) -> Any:
    """x + step * t, for every leaf that has a derivative."""

    def move(leaf, direction):
        if not _is_float(leaf):
            return leaf
        return (np.asarray(leaf) + step * direction).astype(aval_of(leaf).dtype)

    return tree.tree_map(move, x, t)


def _wide(x: Any) -> np.ndarray:
    value = np.asarray(x)
    # Sums and differences here must not round as the function under test does.
    return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)


def _difference(f: Callable, args: tuple, direction: Any, eps: float | None) -> list:
    """The central difference of `f` along a direction, leaf by leaf."""
    if eps is None:
        # The coarsest dtype among the arguments decides.
        names = (aval_of(x).dtype.name for x in tree.flatten(args)[0] if _is_float(x))
        eps = max((_STEPS.get(n, _FINE_STEP) for n in names), default=_FINE_STEP)
    # A central difference, computed in double precision.
    ahead = tree.flatten(f(*_moved(args, direction, eps / 2)))[0]
    behind = tree.flatten(f(*_moved(args, direction, -eps / 2)))[0]
    return [
        (_wide(a) - _wide(b)) / eps if _is_float(a) else None
        for a, b in zip(ahead, behind, strict=True)
    ]


def _tolerance(given: float | dict | None, x: Any) -> float:
    name = aval_of(x).dtype.name
    if isinstance(given, dict):
        # A dict by dtype, as in JAX: dtypes that are not in it keep the strict tolerance.
        return {np.dtype(k).name: v for k, v in given.items()}.get(name, _FINE)
    return _TOLERANCE.get(name, _FINE) if given is None else given


def _compare(found: Any, expected: Any, like: Any, atol, rtol, what: str) -> None:
    np.testing.assert_allclose(
        found,
        expected,
        atol=_tolerance(atol, like),
        rtol=_tolerance(rtol, like),
        err_msg=what,
    )


def check_jvp(
    f: Callable,
    f_jvp: Callable,
    args: Sequence[Any],
    atol: float | dict | None = None,
    rtol: float | dict | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Compare `f_jvp(primals, tangents)` with a central difference of `f` in a random direction.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> check_jvp(gnp.sin, lambda p, t: ga.jvp(gnp.sin, p, t), (gnp.ones(3),), eps=1e-2)
    """
    # A fixed seed: a check that fails does so again.
    rng = np.random.default_rng(0)
    args = tuple(args)
    # Random directions: a wrong derivative fails along almost any of them.
    direction = _random_tree(rng, args)
    out, tangent = f_jvp(args, direction)
    leaves, spec = tree.flatten(out)
    if spec != tree.flatten(tangent)[1]:
        raise AssertionError(f"the jvp's output and tangent differ in structure. {err_msg}")
    for a, b in zip(leaves, tree.flatten(f(*args))[0], strict=True):
        _compare(np.asarray(a), np.asarray(b), b, atol, rtol, f"JVP primal {err_msg}")
    expected = _difference(f, args, direction, eps)
    for x, t, e in zip(leaves, tree.flatten(tangent)[0], expected, strict=True):
        if e is not None:
            _compare(_wide(t), e, x, atol, rtol, f"JVP tangent {err_msg}")


def check_vjp(
    f: Callable,
    f_vjp: Callable,
    args: Sequence[Any],
    atol: float | dict | None = None,
    rtol: float | dict | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Compare `f_vjp(*args)`, an output and a pullback, with a central difference of `f`.

    For a random direction t and cotangent ct, <ct, difference along t> is <pullback(ct), t>.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> check_vjp(gnp.sin, lambda x: ga.vjp(gnp.sin, x), (gnp.ones(3),), eps=1e-2)
    """
    rng = np.random.default_rng(1)
    args = tuple(args)
    out, pullback = f_vjp(*args)
    for a, b in zip(tree.flatten(out)[0], tree.flatten(f(*args))[0], strict=True):
        _compare(np.asarray(a), np.asarray(b), b, atol, rtol, f"VJP primal {err_msg}")
    direction = _random_tree(rng, args)
    expected = _difference(f, args, direction, eps)
    # Integers on either side have no derivative and take no part in the products.
    cotangent = _random_tree(rng, out)
    pulled = tree.flatten(pullback(cotangent))[0]
    leaves = tree.flatten(args)[0]
    moved = tree.flatten(direction)[0]
    # <pullback(c), t> = <c, f'(t)>, for random c and t.
    by_input = sum(
        np.sum(_wide(p) * _wide(t))
        for x, p, t in zip(leaves, pulled, moved, strict=True)
        if _is_float(x)
    )
    by_output = sum(
        np.sum(_wide(c) * e)
        for c, e in zip(tree.flatten(cotangent)[0], expected, strict=True)
        if e is not None
    )
    # The tolerance depends on the dtype of the first float result.
    like = next((x for x in tree.flatten(out)[0] if _is_float(x)), 0.0)
    _compare(np.real(by_input), np.real(by_output), like, atol, rtol, f"VJP cotangent {err_msg}")


def check_grads(
    f: Callable,
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | dict | None = None,
    rtol: float | dict | None = None,
    eps: float | None = None,
) -> None:
    """Compare derivatives of `f` up to an order with differences, in forward and reverse mode.

    >>> import gpuarray.numpy as gnp
    >>> check_grads(gnp.sin, (gnp.ones(3),), order=2, eps=1e-2)
    """
    unknown = set(util.elements(modes, "a sequence of 'fwd' and 'rev'")) - {"fwd", "rev"}
    if unknown:
        raise ValueError(f"modes may hold 'fwd' and 'rev', got {sorted(unknown)}")
    args = tuple(args)

    def check(f: Callable, args: tuple, order: int, message: str) -> None:
        if "fwd" in modes:
            text = f"{message}JVP of " if message else "JVP of "

            def f_jvp(primals, tangents):
                return jvp(f, primals, tangents)

            check_jvp(f, f_jvp, args, atol, rtol, eps, text)
            if order > 1:
                direction = _random_tree(np.random.default_rng(2), args)
                # Check the derivative along a fixed direction as a function in its own right.
                check(lambda *xs: jvp(f, xs, direction), args, order - 1, text)
        if "rev" in modes:
            text = f"{message}VJP of " if message else "VJP of "
            check_vjp(f, lambda *xs: vjp(f, *xs), args, atol, rtol, eps, text)
            if order > 1:
                out = f(*args)
                cotangent = _random_tree(np.random.default_rng(3), out)

                # Likewise the pullback of a fixed cotangent; cotangents of integers are left out.
                def pulled(*xs):
                    value, pullback = vjp(f, *xs)
                    floats = [
                        ct for x, ct in zip(xs, pullback(cotangent), strict=True) if _all_float(x)
                    ]
                    return value, floats

                check(pulled, args, order - 1, text)

    check(f, args, order, "")


def _all_float(x: Any) -> bool:
    return all(map(_is_float, tree.flatten(x)[0]))


__getattr__ = _explain_names(__name__)
