"""NumPy functions of pointwise operations, chosen by the dtype of the operands.

Floor 2. In: a function for each class of dtypes that an operation treats in its own way. Out:
`numpy_pick` rules. They handle floats and integers narrower than NumPy's own too: these are
computed in float32 or int8, then rounded or wrapped.

Two laws hold for every pointwise rule:

- the result never shares memory with an operand, since a fused run reuses the memory of operands
  that are no longer needed;
- no operand is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.primitives.narrow_floats import in_float32 as in_float32

#: The integer of the other signedness and the same width.
SIGNED_TWIN: dict[Any, Any] = {
    getattr(dtypes, f"uint{n}"): getattr(dtypes, f"int{n}") for n in (1, 2, 4, 8, 16, 32, 64)
}
UNSIGNED_TWIN: dict[Any, Any] = {s: u for u, s in SIGNED_TWIN.items()}


def is_narrow(dtype) -> bool:
    """Whether `dtype` is a float below 32 bits or an integer below 8.

    >>> is_narrow(dtypes.bfloat16), is_narrow(dtypes.int8), is_narrow(dtypes.uint4)
    (True, False, True)
    """
    kind = dtypes.kind_of(dtype)
    bits = dtypes.itemsize_bits(dtype)
    return (kind == "f" and bits < 32) or (kind in "iu" and bits < 8)


def in_int8(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` for integers below 8 bits: computed in 8 bits and wrapped."""

    def rule(*xs):
        wide = np.int8 if dtypes.kind_of(xs[0].dtype) == "i" else np.uint8
        return function(*[x.astype(wide) for x in xs]).astype(xs[0].dtype)

    return rule


#: Floats that have no nan: -0.0 stands for one.
WITHOUT_NAN = {dtypes.float4_e2m1fn, dtypes.float6_e2m3fn, dtypes.float6_e3m2fn}


def without_nan(x, dtype):
    """Convert floats to a type that has no nan: -0.0 for each, whatever its sign.

    That of `inf - inf` depends on the processor, and NumPy's conversion gives 0.0 for one.

    >>> without_nan(np.float32([-np.nan, np.nan]), np.dtype(dtypes.float4_e2m1fn))
    array([-0, -0], dtype='float4_e2m1fn')
    """
    return np.where(np.isnan(x), x.dtype.type(np.nan), x).astype(dtype)


def in_finite(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` for floats without nan: computed in float32, rounded once."""

    def rule(*xs):
        found = function(*[x.astype(np.float32) for x in xs])
        return without_nan(found, xs[0].dtype) if found.dtype == np.float32 else found

    return rule


#: Below this many elements np.where is faster: the bit operations have a fixed cost.
CHOSEN_SINGLY = 4096
#: Elements in one pass, so that intermediate results stay in cache.
CHOSEN_AT_ONCE = 1 << 14


def choose(mask, yes, no, out=None):
    """`np.where(mask, yes, no)` for operands of one dtype, by bit operations instead of branches.

    np.where branches on each element, and a processor mispredicts every other branch of a random
    mask, which costs ten times as much as computing both sides. The result is in `out` if it is
    given, which may be one of the operands.

    >>> mask = np.arange(5000) % 2 == 0
    >>> choose(mask, np.float32(1), np.arange(5000, dtype=np.float32))[:4]
    array([1., 1., 1., 3.], dtype=float32)
    """
    bits = _WORDS.get(yes.dtype.itemsize)
    operands = [a for a in (mask, yes, no, out) if a is not None and a.ndim]
    # Blocks need contiguous operands; scalars are passed unchanged.
    found = None
    if bits is None or mask.size < CHOSEN_SINGLY:
        # No integer of this width (complex128), or too few elements to be worth it.
        found = np.where(mask, yes, no)
    elif not all(a.shape == mask.shape and a.flags.c_contiguous for a in operands):
        found = _choose_bits(mask.view(np.int8), yes.view(bits), no.view(bits)).view(yes.dtype)
    if found is not None:
        if out is None:
            return found
        out[...] = found
        return out
    assert bits is not None
    found = np.empty(mask.shape, yes.dtype) if out is None else out
    words, marks = found.reshape(-1).view(bits), mask.reshape(-1)
    flat = [a.view(bits).reshape(-1) if a.ndim else a.view(bits) for a in (yes, no)]
    spare = np.empty((2, min(CHOSEN_AT_ONCE, mask.size)), bits)
    for start in range(0, mask.size, CHOSEN_AT_ONCE):
        part = slice(start, start + CHOSEN_AT_ONCE)
        m, (y, n) = marks[part], (a[part] if a.ndim else a for a in flat)
        # Often all are chosen alike, as where negative indices count from the end.
        if not m.any():
            words[part] = n
        elif m.all():
            words[part] = y
        else:
            _choose_bits(m.view(np.int8), y, n, words[part], *spare[:, : m.size])
    return found


_WORDS: dict[int, Any] = {
    np.dtype(word).itemsize: word for word in (np.int8, np.int16, np.int32, np.int64)
}


# Integer words of each item size: bits are selected, whatever their meaning. `out` is written last;
# `chosen` and `differing` are buffers for intermediates, if all operands have one shape.
def _choose_bits(mask, yes, no, out=None, chosen=None, differing=None):
    room = chosen
    # 1 becomes a word of ones.
    chosen = np.negative(mask, out=room, dtype=yes.dtype)
    # A choice against zero needs one operation: keep or clear the bits.
    if no.ndim == 0 and no == 0:
        return np.bitwise_and(chosen, yes, out=out)
    if yes.ndim == 0 and yes == 0:
        return np.bitwise_and(np.bitwise_not(chosen, out=chosen), no, out=out)
    # no ^ (mask & (yes ^ no)) is yes where the mask is ones and no elsewhere.
    differing = np.bitwise_xor(yes, no, out=differing)
    chosen = np.bitwise_and(chosen, differing, out=room)
    return np.bitwise_xor(chosen, no, out=out)


def by_dtype(
    *,
    integer: Callable[..., Any] | None = None,
    unsigned: Callable[..., Any] | None = None,
    floating: Callable[..., Any] | None = None,
    complex: Callable[..., Any] | None = None,
    boolean: Callable[..., Any] | None = None,
    key: Callable[..., Any] | None = None,
) -> Callable[..., Callable[..., Any]]:
    """Return a `numpy_pick` rule: the function for the dtype of the first operand.

    `unsigned` defaults to `integer`. A ufunc handles the narrow floats itself; any other function
    gets them as float32.
    """
    classes = {
        "b": boolean,
        "i": integer,
        "u": unsigned or integer,
        "f": floating,
        "c": complex,
        "k": key,
    }
    # Found once for each dtype: wrapping is not paid at every call.
    chosen: dict[Any, Callable[..., Any]] = {}

    def pick(avals, **_):
        dtype = avals[0].dtype
        function = chosen.get(dtype)
        if function is None:
            kind = "k" if isinstance(dtype, dtypes.ExtendedDType) else dtypes.kind_of(dtype)
            function = classes.get(kind)
            if function is None:
                raise TypeError(f"no NumPy function for elements of dtype {dtype.name}")
            if is_narrow(dtype):
                # int4, uint4 and the like.
                if kind != "f":
                    function = in_int8(function)
                elif dtype in WITHOUT_NAN:
                    function = in_finite(function)
                elif not isinstance(function, np.ufunc) or dtype == dtypes.bfloat16:
                    function = in_float32(function)
            chosen[dtype] = function
        return function

    return pick


def next_after(x, y):
    """The next number of a float towards another; that one itself, sign and all, if it is equal."""
    found = np.nextafter(x, y)
    # NumPy's for float16 gives 0.0 for the step from 0.0 to -0.0.
    return np.where(x == y, y, found) if found.dtype == np.float16 else found


def fresh(x):
    """Return a copy of `x`, array or NumPy scalar."""
    # np.positive would refuse bools, and a view would share memory.
    return x.copy()


def is_foreign(dtype) -> bool:
    """Whether a dtype is one of ml_dtypes, whose kind may be that of NumPy's own floats.

    >>> is_foreign(np.dtype(dtypes.float8_e5m2)), is_foreign(np.dtype("float16"))
    (True, False)
    """
    return dtype.isbuiltin == 2


def bits_of(x):
    """The elements' bits as signed integers of the same width (a view)."""
    return x.view(f"i{x.dtype.itemsize}")


def join(real, imag, dtype):
    """Combine two real arrays into a complex one."""
    # Assigning parts preserves -0.0, inf and nan, which real + 1j * imag would not.
    out = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), dtype)
    out.real, out.imag = real, imag
    return out


def order_key(x):
    """Return integers that compare as the floats `x` do in total order.

    The order is -nan < -inf < ... < -0.0 < 0.0 < ... < inf < nan.

    >>> order_key(np.array([-1.0, -0.0, 0.0, 1.0], np.float16)).tolist()
    [-15361, -1, 0, 15360]
    """
    # Of formats of 8 bits and less the highest bit may be no sign; they are exact in float32.
    bits = bits_of(x.astype(np.float32) if x.dtype.itemsize == 1 else x)
    # Floats are sign and magnitude, integers two's complement: flip the magnitude of negative ones.
    return bits ^ ((bits >> (8 * bits.dtype.itemsize - 1)) & np.iinfo(bits.dtype).max)
