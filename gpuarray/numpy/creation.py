"""Creating arrays: constants, ranges, grids, and values read from buffers and functions.

Floor 6. In: shapes, dtypes, ends of ranges, known while tracing. Out: Arrays. Ranges and grids are
an iota and arithmetic on it, which fuses with its consumers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray import errors, lax, util
from gpuarray.config import numpy_dtype_promotion
from gpuarray.core import dtypes, promotion
from gpuarray.core.avals import aval_of
from gpuarray.core.dims import Dim, larger
from gpuarray.core.lengths import count_between
from gpuarray.core.sharding import Sharding
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array
from gpuarray.lax.args import canonicalize_shape
from gpuarray.lax.creation import varying_like
from gpuarray.lax.lengths import typed
from gpuarray.lax.ranks import check_ranks
from gpuarray.numpy.arithmetic import add, multiply, power, sign, true_divide
from gpuarray.numpy.composite import composite
from gpuarray.numpy.construct import array as array
from gpuarray.numpy.construct import as_type, aval_like
from gpuarray.numpy.construct import asarray as asarray
from gpuarray.numpy.functions import floor, log10
from gpuarray.numpy.promotion import (
    arrays,
    broadcast_to,
    check_arraylike,
    is_arraylike,
    select,
    value,
)
from gpuarray.runtime.transfer import placed, placed_like, sharding_like
from gpuarray.util import canonical_axis

kind_of = dtypes.kind_of


def _placed(x: Array, device: Any, out_sharding: Any = None) -> Array:
    if device is None and out_sharding is None:
        return x
    return placed("the function", x, out_sharding, device)


def _filled(shape: Any, fill: Any, dtype: Any, device: Any, out_sharding: Any) -> Array:
    sharding = device if isinstance(device, Sharding) and out_sharding is None else None
    out = lax.full(canonicalize_shape(shape), fill, dtype, sharding=sharding)
    return out if sharding is not None else _placed(out, device, out_sharding)


def _dtype(
    dtype: Any, name: str, default: Callable[[], Any] = dtypes.default_float, shape: Any = None
) -> Any:
    try:
        return default() if dtype is None else dtypes.requested_dtype(dtype, name)
    except TypeError as error:
        if not isinstance(dtype, int):
            raise
        raise TypeError(
            f"{error} Did you accidentally write `jax.numpy.{name}({shape}, {dtype})` when you "
            f"meant `jax.numpy.{name}(({shape}, {dtype}))`?"
        ) from None


# ---- constants ----


def zeros(shape, dtype=None, *, device=None, out_sharding=None) -> Array:
    """An array of zeros.

    Shape contract: `shape` is an int or a sequence of them, known while tracing; float by default.

    >>> import gpuarray.numpy as gnp
    >>> gnp.zeros((2, 3))
    Array([[0., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    return _filled(shape, 0, _dtype(dtype, "zeros", shape=shape), device, out_sharding)


def ones(shape, dtype=None, *, device=None, out_sharding=None) -> Array:
    """An array of ones.

    Shape contract: as `zeros`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.ones(3, int)
    Array([1, 1, 1], dtype=int32)
    """
    return _filled(shape, 1, _dtype(dtype, "ones", shape=shape), device, out_sharding)


def empty(shape, dtype=None, *, device=None, out_sharding=None) -> Array:
    """A new array of unspecified values (in fact zeros, so that programs are deterministic).

    Shape contract: as `zeros`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.empty((2, 3)).shape
    (2, 3)
    """
    return _filled(shape, 0, _dtype(dtype, "empty", shape=shape), device, out_sharding)


def full(shape, fill_value, dtype=None, *, device=None, out_sharding=None) -> Array:
    """An array of one value, or of values that broadcast to the shape.

    Shape contract: as `zeros`; without `dtype` that of fill_value, weak for a Python scalar.

    >>> import gpuarray.numpy as gnp
    >>> gnp.full((2, 2), gnp.array([1.0, 2.0]))
    Array([[1., 2.],
           [1., 2.]], dtype=float32)
    """
    check_arraylike("full", fill_value)
    wanted = None if dtype is None else dtypes.requested_dtype(dtype, "full")
    shape = canonicalize_shape(shape)
    fill = value(fill_value)
    # An array of values is broadcast; a scalar is a constant of the program.
    if getattr(fill, "shape", ()):
        fill = fill if wanted is None else as_type(fill, wanted)
        return _placed(_spread(fill, shape), device, out_sharding)
    # Without a dtype, a weakly typed value gives a weak array, unless it is put on a device, as in
    # JAX; a layout over the mesh in context changes no type.
    if wanted is None and device is not None:
        wanted = aval_of(fill).dtype
    return _filled(shape, fill, wanted, device, out_sharding)


def _spread(fill: Any, shape: tuple[int, ...]) -> Any:
    """Values broadcast to a requested shape; ValueError if they do not fit."""
    given = fill.shape
    lined_up = zip(given[::-1], shape[::-1], strict=False)
    if len(given) > len(shape) or any(m not in (1, n) for m, n in lined_up):
        raise ValueError(
            f"Incompatible types for broadcasting: the fill value has shape {given} and the result "
            f"{shape}. Every length of the fill value has to be 1 or that of the result."
        )
    return broadcast_to(fill, shape)


def zeros_like(a, dtype=None, shape=None, *, device=None, out_sharding=None) -> Array:
    """Zeros of the shape and dtype of another array (or anything with a shape and a dtype).

    >>> import gpuarray.numpy as gnp
    >>> gnp.zeros_like(gnp.arange(3))
    Array([0, 0, 0], dtype=int32)
    """
    return _like("zeros_like", a, 0, dtype, shape, device, out_sharding)


def ones_like(a, dtype=None, shape=None, *, device=None, out_sharding=None) -> Array:
    """Ones of the shape and dtype of another array (or anything with a shape and a dtype).

    >>> import gpuarray.numpy as gnp
    >>> gnp.ones_like(gnp.arange(3), dtype=float)
    Array([1., 1., 1.], dtype=float32)
    """
    return _like("ones_like", a, 1, dtype, shape, device, out_sharding)


def empty_like(prototype, dtype=None, shape=None, *, device=None, out_sharding=None) -> Array:
    """A new array like another one, of unspecified values (in fact zeros).

    >>> import gpuarray.numpy as gnp
    >>> gnp.empty_like(gnp.arange(3)).dtype
    dtype('int32')
    """
    return _like("empty_like", prototype, 0, dtype, shape, device, out_sharding)


def full_like(a, fill_value, dtype=None, shape=None, *, device=None, out_sharding=None) -> Array:
    """One value, or values that broadcast, in the shape and dtype of another array.

    >>> import gpuarray.numpy as gnp
    >>> gnp.full_like(gnp.arange(3), 7)
    Array([7, 7, 7], dtype=int32)
    """
    check_arraylike("full_like", fill_value)
    return _like("full_like", a, fill_value, dtype, shape, device, out_sharding)


def _like(name: str, a, fill, dtype, shape, device, out_sharding) -> Array:
    if not (hasattr(a, "shape") and hasattr(a, "dtype")):
        check_arraylike(name, a)
    aval = aval_like(a)
    # Like its model, weak type included; as in `full`.
    weak = dtype is None and aval.weak_type and device is None
    dtype = aval.dtype if dtype is None else dtypes.requested_dtype(dtype, name)
    shape = aval.shape if shape is None else canonicalize_shape(shape)
    like = sharding_like(a, shape) if device is None and out_sharding is None else None
    if isinstance(device, Sharding) and out_sharding is None:
        like = device

    def laid(made: Array) -> Array:
        out = _placed(made, device, out_sharding) if like is None else placed_like(made, like)
        return varying_like(out, a)

    fill = value(fill)
    if getattr(fill, "shape", ()):
        return laid(_spread(as_type(fill, dtype), shape))
    # Through as_type, which warns where an imaginary part is discarded.
    if isinstance(fill, np.complexfloating):
        fill = as_type(asarray(fill), dtype)
    return laid(as_type(lax.full(shape, fill, dtype), dtype, weak))


# ---- ranges ----


def arange(start, stop=None, step=None, dtype=None, *, device=None, out_sharding=None) -> Array:
    """The numbers start, start + step, ... before stop; with one argument, from 0 on.

    Shape contract: one axis of ceil((stop - start) / step) numbers, known while tracing.

    >>> import gpuarray.numpy as gnp
    >>> gnp.arange(2, 10, 3)
    Array([2, 5, 8], dtype=int32)
    """
    given = {"start": start, "stop": stop, "step": step}
    # Lengths are part of a shape: the ends have to be known.
    ends = {name: _end(name, v, stop is None) for name, v in given.items() if v is not None}
    if "start" not in ends:
        raise TypeError("jax.numpy.arange: the first argument must be a number, not None")
    wanted = None if dtype is None else dtypes.requested_dtype(dtype, "arange")
    # Without a dtype the ends promote, so that arange(3.0) is of floats.
    typed = [0 if isinstance(given[n], Dim) else given[n] for n in ends]
    kind = promotion.result_type(*typed) if wanted is None else wanted
    if kind_of(kind) == "b":
        raise TypeError(
            "iota does not accept dtype bool. Accepted dtypes are subtypes of integer, floating, "
            "complexfloating: a range of booleans has no numbers in it."
        )
    # The usual call is an iota alone.
    if stop is None and step is None:
        length: Any = ends["start"]
        length = length if isinstance(length, Dim) else math.ceil(length)
        return _placed(_iota(kind, length), device, out_sharding)
    # A single argument is where the range stops.
    first = ends["start"] if stop is not None else 0
    last = ends["stop"] if stop is not None else ends["start"]
    by = ends.get("step", 1)
    # start + i * step, in the dtype of the result, as JAX computes it.
    out = _iota(kind, _steps(first, last, by))
    if step is not None:
        out = lax.mul(_number(by, kind), out)
    if step is not None or isinstance(first, Dim) or first != 0:
        out = lax.add(_number(first, kind), out)
    return _placed(out, device, out_sharding)


def _end(name: str, x: Any, alone: bool) -> Any:
    """An end of a range as a Python number; the first argument `alone` is where the range stops."""
    name = "stop" if alone and name == "start" else name
    if isinstance(x, Dim):
        return x
    if isinstance(x, Tracer):
        raise errors.ConcretizationTypeError(
            x, f"It arose in the jnp.arange argument '{name}': the length of a range must be known."
        )
    if not is_arraylike(x):
        raise TypeError(f"jax.numpy.arange: {name} must be a real number, got {x!r} of {type(x)}")
    if getattr(x, "shape", ()):
        raise ValueError(f"jax.numpy.arange: arguments must be scalars; got {name}={x}")
    number = x.item() if hasattr(x, "item") else x
    if isinstance(number, complex):
        raise ValueError(
            "Passing complex start/stop/step to jnp.arange is no longer supported, got "
            f"{name}={x}: complex numbers have no order"
        )
    return number


def _steps(first: Any, last: Any, by: Any) -> Any:
    if Dim in map(type, (first, last, by)):
        if not all(isinstance(n, (int, Dim)) for n in (first, last, by)):
            raise ValueError(
                "jax.numpy.arange: with symbolic arguments all of them must be either dimension "
                f"expressions or integers, got start={first}, stop={last}, step={by}"
            )
        if by == 0:
            raise ValueError(f"jax.numpy.arange: a range from {first} to {last} has step == 0")
        return count_between(first, last, by)
    if all(isinstance(n, int) for n in (first, last, by)):
        return max(0, -((first - last) // by))  # exact for any size
    return max(0, math.ceil((last - first) / by))


def _iota(dtype: Any, n: int) -> Array:
    # A range that ends before it starts is empty.
    return lax.iota(dtype, larger(0, n))


def _number(x: Any, dtype: Any) -> Any:
    if isinstance(x, Dim):
        return typed(x, dtype)
    with np.errstate(all="ignore"):
        # The range itself may wrap in a narrow dtype; NumPy's warnings would name a scalar.
        return np.asarray(x).astype(dtype)[()]


@check_ranks("start", "stop")
def linspace(
    start,
    stop,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype=None,
    axis: int = 0,
    *,
    device=None,
) -> Any:
    """`num` numbers from start to stop at equal distances; without `endpoint`, stop is left out.

    Shape contract: an axis of length num at `axis`, before those start and stop broadcast to. With
    `retstep`, a pair with the distance.

    >>> import gpuarray.numpy as gnp
    >>> gnp.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    num = util.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    check_arraylike("linspace", start, stop)
    wanted = None if dtype is None else dtypes.requested_dtype(dtype, "linspace")
    statics = {"num": num, "endpoint": bool(endpoint), "dtype": wanted, "axis": axis}
    out, step = _linspace(start, stop, **statics)
    return (_placed(out, device), step) if retstep else _placed(out, device)


@composite(static=("num", "endpoint", "dtype", "axis"))
def _linspace(start, stop, *, num, endpoint, dtype, axis):
    # Computed in floats, at least as wide as the requested dtype.
    through = dtypes.to_inexact_dtype(promotion.result_type(start, stop))
    a, b = arrays("linspace", start, stop)
    wanted = through if dtype is None else dtype
    if kind_of(wanted) in "fc":
        through = promotion.wider(through, wanted)
    # Ends may be arrays: one range for each pair of their elements.
    shape = np.broadcast_shapes(a.shape, b.shape)
    a, b = (broadcast_to(as_type(x, through), shape) for x in (a, b))
    gaps: Any = num - 1 if endpoint else num
    step = lax.full((), np.nan, through)  # undefined
    symbolic = isinstance(num, util.Symbolic)
    if symbolic:
        count = typed(gaps, through)
        step = lax.div(lax.sub(b, a), lax.select(count > 0, count, lax.full_like(count, np.nan)))
    elif gaps > 0:
        step = lax.div(lax.sub(b, a), through.type(gaps))
    # One point is the start, whatever the end.
    if not symbolic and num <= 1:
        out = broadcast_to(lax.expand_dims(a, (0,)), (num, *shape))
    else:
        real = dtypes.to_real_dtype(through)
        # (1 - f) start + f stop: exact at both ends, and the last point is `stop` itself.
        fraction = lax.div(lax.iota(real, gaps), typed(gaps, real))
        fraction = lax.reshape(as_type(fraction, through), (gaps,) + (1,) * len(shape))
        rest = lax.sub(through.type(1), fraction)
        out = add(multiply(a, rest), multiply(b, fraction))
        if endpoint:
            # Of a symbolic number the last point may be the only one.
            last = lax.select(typed(gaps, b.dtype) > 0, b, a) if symbolic else b
            out = lax.concatenate([out, lax.expand_dims(last, (0,))], 0)
    # Integers are rounded down, as in NumPy.
    if kind_of(wanted) in "iu" and kind_of(through) == "f":
        out = floor(out)
    return as_type(_axis_to(out, axis), wanted), step


def _axis_to(x: Array, axis: int) -> Array:
    """The first axis moved to `axis`."""
    to = canonical_axis(axis, x.ndim)
    order = [*range(1, to + 1), 0, *range(to + 1, x.ndim)]
    return lax.transpose(x, order) if to else x


@check_ranks("start", "stop")
def logspace(
    start,
    stop,
    num: int = 50,
    endpoint: bool = True,
    base=10.0,
    dtype=None,
    axis: int = 0,
) -> Array:
    """The powers of `base` whose exponents are linspace(start, stop, num).

    Shape contract: as `linspace`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    check_arraylike("logspace", start, stop, base)
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "logspace")
    statics = {"num": util.index(num), "endpoint": bool(endpoint), "axis": axis}
    return _logspace(start, stop, base, dtype=wanted, **statics)


@composite(static=("num", "endpoint", "dtype", "axis"))
def _logspace(start, stop, base, *, num, endpoint, dtype, axis):
    out = power(base, linspace(start, stop, num, endpoint, axis=axis))
    return as_type(out, out.dtype if dtype is None else dtype)


@check_ranks("start", "stop")
def geomspace(
    start, stop, num: int = 50, endpoint: bool = True, dtype=None, axis: int = 0
) -> Array:
    """`num` numbers from start to stop at equal ratios.

    Shape contract: as `linspace`; start and stop have one sign and are not zero, else there is no
    ratio, and all are nan.

    >>> import gpuarray.numpy as gnp
    >>> gnp.geomspace(1, 8, 4).round(4)
    Array([1., 2., 4., 8.], dtype=float32)
    """
    check_arraylike("geomspace", start, stop)
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "geomspace")
    statics = {"num": util.index(num), "endpoint": bool(endpoint), "axis": axis}
    return _geomspace(start, stop, dtype=wanted, **statics)


@composite(static=("num", "endpoint", "dtype", "axis"))
def _geomspace(start, stop, *, num, endpoint, dtype, axis):
    a, b = arrays("geomspace", start, stop)
    through = dtypes.to_inexact_dtype(promotion.result_type(start, stop))
    shape = np.broadcast_shapes(a.shape, b.shape)
    a, b = (broadcast_to(as_type(x, through), shape) for x in (a, b))
    # Negative or complex ends: divided by the direction of the start, multiplied by it again below.
    turn = sign(a)
    exponents = linspace(log10(true_divide(a, turn)), log10(true_divide(b, turn)), num, endpoint)
    out = multiply(turn, power(through.type(10), exponents))
    if num > 0:  # the ends are given: they are not computed
        ends = [lax.expand_dims(x, (0,)) for x in (a, b)]
        if not endpoint or num == 1:
            out = lax.concatenate([ends[0], lax.slice_in_dim(out, 1, num)], 0)
        else:
            middle = lax.slice_in_dim(out, 1, num - 1)
            out = lax.concatenate([ends[0], middle, ends[1]], 0)
    # Real ends of different signs have no geometric path between them.
    if num > 1 and dtypes.kind_of(through) == "f":
        out = select(lax.gt(multiply(turn, sign(b)), through.type(0)), out, through.type(np.nan))
    return as_type(_axis_to(out, axis), through if dtype is None else dtype)


# ---- grids ----


def meshgrid(*xi, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Array]:
    """Coordinate arrays of the grid that one-dimensional coordinates span.

    Shape contract: n arrays, the i-th varying along axis i ("ij"; for "xy" the first two swap);
    with `sparse` all its other axes have length 1.

    >>> import gpuarray.numpy as gnp
    >>> gnp.meshgrid(gnp.arange(2), gnp.arange(3), indexing="ij")[0]
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int32)
    """
    axes = arrays("meshgrid", *xi)
    if not copy:
        raise ValueError("jax.numpy.meshgrid only supports copy=True: arrays are immutable")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")
    if any(a.ndim != 1 for a in axes):
        shapes = [a.shape for a in axes]
        raise ValueError(f"Arguments to jax.numpy.meshgrid must be 1D, got shapes {shapes}")
    order = list(range(len(axes)))
    # Cartesian order: the first two axes are swapped.
    if indexing == "xy" and len(axes) >= 2:
        order[:2] = 1, 0
    # The grid's length along each axis.
    lengths = [0] * len(axes)
    for a, i in zip(axes, order, strict=True):
        lengths[i] = a.shape[0]
    out: dict[int, Array] = {}
    for i, place in sorted((i, place) for place, i in enumerate(order)):
        shape = [n if j == i or not sparse else 1 for j, n in enumerate(lengths)]
        out[place] = lax.broadcast_in_dim(axes[place], tuple(shape), (i,))
    return [out[place] for place in range(len(axes))]


def sliced(key: slice, name: str) -> Array:
    """The range that a slice between the brackets of `jnp.name` means."""
    for part in ("start", "stop", "step"):
        if isinstance(getattr(key, part), Tracer):
            raise errors.ConcretizationTypeError(
                getattr(key, part), f"It is the slice {part} of jnp.{name}: a length must be known."
            )
    start = 0 if key.start is None else key.start
    # 0:1:5j means five points, both ends included.
    if isinstance(key.step, complex):
        return linspace(start, key.stop, int(abs(key.step)))
    return arange(start, key.stop, 1 if key.step is None else key.step)


class _Grid:
    """Shared code of `mgrid` and `ogrid`: slices in an index become ranges."""

    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name}: index it with slices, as in {self._name}[0:3, 0:1:5j]>"

    def _range(self, key: Any) -> Array:
        if not isinstance(key, slice):
            raise TypeError(f"{self._name} takes slices, got {key!r}")
        return sliced(key, self._name)

    def _ranges(self, keys: Sequence[Any]) -> list[Array]:
        """The ranges in the dtype they have in common."""
        ranges = [self._range(k) for k in keys]
        # Only the user's arrays are subject to a setting that forbids mixing dtypes, not numbers of
        # one grid.
        with numpy_dtype_promotion("standard"):
            return [as_type(r, promotion.result_type(*ranges)) for r in ranges]


class _OpenGrid(_Grid):
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._range(key)
        return meshgrid(*self._ranges(key), indexing="ij", sparse=True)


class _FullGrid(_Grid):
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._range(key)
        grids = meshgrid(*self._ranges(key), indexing="ij")
        return lax.stack(grids, 0) if grids else zeros((0,), int)


#: `mgrid[0:2, 0:1:5j]`: the stacked coordinates of a grid; an imaginary step is a number of points.
mgrid = _FullGrid("mgrid")
#: `ogrid[0:2, 0:1:5j]`: a list of coordinates that broadcast to a grid.
ogrid = _OpenGrid("ogrid")

# ---- from buffers and functions ----


def frombuffer(buffer, dtype=float, count: int = -1, offset: int = 0) -> Array:
    """The elements stored in a buffer (bytes, bytearray, memoryview), copied.

    Shape contract: one axis of `count` elements, or of all there are, from byte `offset` on.

    >>> import gpuarray.numpy as gnp
    >>> gnp.frombuffer(b"abc", dtype="uint8")
    Array([97, 98, 99], dtype=uint8)
    """
    return asarray(
        np.frombuffer(buffer, dtypes.as_dtype(dtype), util.index(count), util.index(offset))
    )


def fromstring(string: str, dtype=float, count: int = -1, *, sep: str) -> Array:
    """The numbers written in a text, with `sep` between them.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fromstring("1 2 3", sep=" ")
    Array([1., 2., 3.], dtype=float32)
    """
    return asarray(np.fromstring(string, dtypes.as_dtype(dtype), util.index(count), sep=sep))


def fromfile(*args, **kwargs):
    """Not offered: reading a file is no pure function. Use asarray(np.fromfile(...))."""
    raise NotImplementedError(
        "jnp.fromfile() is not implemented because it may be non-pure and thus unsafe for use with "
        "JIT and other transformations. Use gpuarray.numpy.asarray(np.fromfile(...)) instead."
    )


def fromiter(*args, **kwargs):
    """Not offered: consuming an iterator is no pure function. Use asarray(np.fromiter(...))."""
    raise NotImplementedError(
        "jnp.fromiter() is not implemented because it may be non-pure and thus unsafe for use with "
        "JIT and other transformations. Use gpuarray.numpy.asarray(np.fromiter(...)) instead."
    )
