"""Argument checks of lax functions: operands become bindable values, shapes plain tuples.

Floor 6. In: whatever the caller wrote. Out: values that `Primitive.bind` accepts, or a TypeError
that names the function, the position and the fix. lax never promotes: the primitive checks dtypes.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gpuarray import errors
from gpuarray.core import dtypes
from gpuarray.core.avals import FLOAT0, MASKED, aval_of
from gpuarray.core.dims import Dim
from gpuarray.core.primitive import Primitive
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array

#: What functions accept as an array.
ArrayLike = Array | np.ndarray | np.generic | bool | int | float | complex

#: Types whose every value can be bound directly. Array classes are added when first seen, so the
#: usual call costs one set lookup for each operand.
DIRECT: set[type] = {bool, int, float, complex}

# Queries of NumPy's type lattice are slow; there are few dtypes, so cache each answer.
_numeric: dict[Any, bool] = {}


def _is_numeric(dtype) -> bool:
    """Whether elements of `dtype` are numbers or booleans of a size that arrays here can hold."""
    known = _numeric.get(dtype)
    if known is None:
        number = dtype == np.bool_ or dtypes.issubdtype(dtype, np.number)
        widest = 16 if dtype.kind == "c" else 8  # long doubles have no counterpart on any device
        known = _numeric[dtype] = bool(number) and dtype.itemsize <= widest
    return known


def operand(op_name: str, x, position: int = 0) -> Any:
    """`x` as a value that can be bound: itself, or the result of its `__jax_array__`."""
    # Ordered by frequency: the first test is one set lookup.
    kind = type(x)
    if kind in DIRECT:
        return x
    if isinstance(x, Array):
        # Array, or the tracer class of a transformation: every instance can be bound.
        DIRECT.add(kind)
        return x
    if isinstance(x, np.generic):
        # A NumPy scalar's type fixes its dtype, so the next one is found directly.
        if _is_numeric(x.dtype):
            DIRECT.add(kind)
            return x
    elif isinstance(x, np.ma.MaskedArray):
        # A subclass of ndarray whose mask would be lost without a word.
        raise ValueError(f"{op_name} got a masked array at position {position}: {MASKED}")
    elif isinstance(x, np.ndarray):
        if _is_numeric(x.dtype):
            return x
    elif isinstance(x, (bool, int, float, complex)):
        # Subclasses of Python's numbers.
        return x
    elif not isinstance(x, type) and hasattr(x, "__jax_array__"):
        # JAX's protocol; a class has the method too, unbound.
        return operand(op_name, x.__jax_array__(), position)
    raise TypeError(
        f"Error interpreting argument to {op_name} as a JAX value. The problematic value is of "
        f"type {kind} and was passed to {op_name} at position {position}.{_how_to_fix(x)}"
    )


def _how_to_fix(x) -> str:
    if isinstance(x, (list, tuple)):
        return " Convert it first, for example with gpuarray.numpy.asarray(x)."
    if isinstance(x, (np.ndarray, np.generic)):
        if x.dtype == dtypes.float0:
            return f" {FLOAT0}"
        return f" Its dtype {x.dtype} is not a number or a boolean: convert it with x.astype(...)."
    return " Pass an array, a NumPy value or a Python scalar."


def operands(op_name: str, *xs) -> list[Any]:
    """All of `xs` as bindable values."""
    return [x if type(x) in DIRECT else operand(op_name, x, i) for i, x in enumerate(xs)]


def unary(prim: Primitive, x) -> Any:
    """Bind a primitive of one operand and no params."""
    # The set lookup is repeated here: it saves most operations a call of `operand`.
    return prim.bind(x if type(x) in DIRECT else operand(prim.name, x))


def binary(prim: Primitive, x, y) -> Any:
    """Bind a primitive of two operands and no params."""
    if type(x) not in DIRECT:
        x = operand(prim.name, x)
    if type(y) not in DIRECT:
        y = operand(prim.name, y, 1)
    return prim.bind(x, y)


def shape_of(x) -> tuple[int, ...]:
    """The shape of a bindable value: Python scalars have shape ()."""
    return x.shape if hasattr(x, "shape") else ()


def dtype_of(x) -> Any:
    """The dtype that a bindable value has as an array: 32-bit for 64-bit unless x64 is on."""
    return aval_of(x).dtype


def canonicalize_shape(shape: Any, context: str = "") -> tuple[int, ...]:
    """A shape as a tuple of Python ints: from any sequence of integers, or from one integer.

    >>> canonicalize_shape([2, np.int64(3)]), canonicalize_shape(4)
    ((2, 3), (4,))
    """
    # The usual case first: a tuple of ints is returned unchanged.
    if type(shape) is tuple:
        for n in shape:
            if type(n) is not int:
                break
        else:
            return shape
    try:
        # A zero-dimensional array has __iter__ as well, but iterating over it raises an error.
        one = getattr(shape, "ndim", None) == 0 or not hasattr(shape, "__iter__")
        items: Any = [shape] if one else shape
        # A symbolic length is kept: only `export` has such shapes.
        sizes: Any = [n if type(n) is Dim else operator.index(n) for n in items]
        return tuple(sizes)
    except TypeError:
        pass
    message = f"Shapes must be 1D sequences of concrete values of integer type, got {shape}."
    if context:
        message += f" {context}"
    given = [shape] if isinstance(shape, Tracer) else shape
    # Tell where traced lengths came from.
    traced = [n for n in given if isinstance(n, Tracer)] if hasattr(given, "__iter__") else []
    if traced:
        message += (
            "\nIf using `jit`, try using `static_argnums` or applying `jit` to smaller "
            "subfunctions. A shape computed from x.shape with NumPy (np.prod(x.shape)) is "
            "concrete; with gpuarray.numpy it is traced."
        )
        message += "".join(f"\n{origin}" for n in traced if (origin := n.origin()))
    raise TypeError(message)


def integer(what: str, name: str, given: Any, wanted: str = "an int") -> int:
    """An argument as an int; a TypeError or a ValueError if it is not an integer."""
    try:
        return operator.index(given)
    except TypeError:
        pass
    # A float with an integral value is accepted, as JAX does.
    if isinstance(given, float) and given.is_integer():
        return int(given)
    error = ValueError if isinstance(given, float) else TypeError
    raise error(
        f"`{name}` of {what} must be {wanted}, got {given!r} of type {type(given).__name__}."
    )


def times_unrolled(unroll: Any, length: int) -> int:
    """The number of steps of a loop that are written out together."""
    # A bool is an int in Python, so test for it first.
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    if isinstance(unroll, Tracer):
        raise errors.ConcretizationTypeError(
            unroll, "The `unroll` argument of a loop must be a concrete `int` or `bool`."
        )
    times = integer("a loop", "unroll", unroll, "a bool or a non-negative int")
    if times < 0:
        raise ValueError(f"`unroll` must be a `bool` or a non-negative `int`, got {unroll}.")
    return times
