"""Operand checks shared by the special functions.

Floor 6. In: the caller's arguments. Out: Arrays of one floating dtype whose shapes broadcast, or an
error that names the wrong dtype.
"""

from __future__ import annotations

from typing import Any

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.numpy.construct import as_type
from gpuarray.numpy.promotion import (
    check_arraylike,
    common_dtype,
    promote_dtypes_inexact,
    promote_shapes,
    value,
)

#: More would take minutes to record and to compile.
MOST_STEPS = 10_000


def inexact(name: str, *xs: Any) -> list[Array]:
    """Array-likes as Arrays of one floating or complex dtype; Python scalars stay weakly typed."""
    check_arraylike(name, *xs)
    values = [value(x) for x in xs]
    dtype, weak = common_dtype(name, values, dtypes.to_inexact_dtype)
    ask = dtype if dtypes.is_beyond(dtype) else None  # so that no setting narrows a scalar
    return [as_type(gnp.asarray(x, ask), dtype, weak) for x in promote_shapes(name, *values)]


def real(name: str, *xs: Any) -> list[Array]:
    """As `inexact`; ValueError for complex numbers."""
    return _no_complex(name, inexact(name, *xs))


def strong(xs: list[Array]) -> list[Array]:
    """The same Arrays, strongly typed."""
    return [as_type(x, x.dtype) for x in xs]


def strong_with_axes(xs: list[Array]) -> list[Array]:
    """The same Arrays; if one of them has axes, strongly typed."""
    # JAX keeps the weak type of scalars alone here.
    return strong(xs) if any(x.ndim for x in xs) else xs


def any_real(name: str, *xs: Any) -> list[Array]:
    """As `real`, strongly typed, of one shape; lists are taken too."""
    found = strong(_no_complex(name, [gnp.asarray(x) for x in promote_dtypes_inexact(*xs)]))
    return list(gnp.broadcast_arrays(*found))


def _no_complex(name: str, xs: list[Array]) -> list[Array]:
    if dtypes.kind_of(xs[0].dtype) == "c":
        raise ValueError(
            f"{name} does not support complex-valued inputs. Pass x.real, or its parts one by one."
        )
    return xs


def single_or_double(x: Any, name: str) -> Array:
    """An array of float32 or float64, strongly typed; TypeError for every other dtype."""
    if isinstance(x, str):
        check_arraylike(name, x)
    x = gnp.asarray(x)
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(
            f"x.dtype={x.dtype} is not supported, see docstring for supported types: {name} takes "
            "float32 and float64. Convert x first with x.astype('float32')."
        )
    return as_type(x, x.dtype)


def recorded_steps(name: str, argument: str, steps: Any) -> int:
    """The value of an argument that sets how many steps are recorded; ValueError for too many."""
    steps = util.index(steps)
    if steps > MOST_STEPS:
        raise ValueError(
            f"{name}: {argument} is {steps}, and at most {MOST_STEPS} steps of a recurrence are "
            f"recorded. Give a smaller {argument}."
        )
    return steps


def like(number: float | complex, x: Array) -> Array:
    """A number as a constant of the shape and type of x."""
    return lax.full_like(x, number)


def polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    """Horner's rule, the highest power first."""
    out = like(coefficients[0], x)
    for c in coefficients[1:]:
        out = out * x + c
    return out
