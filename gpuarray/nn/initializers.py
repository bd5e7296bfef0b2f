"""Initializers: functions (key, shape, dtype) -> Array that give weights their first values.

Floor 6. In: a random key and a shape. Out: an Array. The scaled ones preserve the variance of
activations through a layer: variance = scale / n with n the number of inputs (`fan_in`), of outputs
(`fan_out`), or a mean of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from gpuarray import numpy as gnp
from gpuarray import random, util
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike, canonicalize_shape
from gpuarray.names import explain_names as _explain_names
from gpuarray.runtime.transfer import placed

Axes = int | Sequence[int]
Mode = Literal["fan_in", "fan_out", "fan_avg", "fan_geo_avg"]
Distribution = Literal["truncated_normal", "normal", "uniform"]

# Standard deviations of a normal distribution cut at +-2, and of a complex one cut at radius 2.
_TRUNCATED_STDDEV = 0.87962566103423978
_TRUNCATED_STDDEV_COMPLEX = 0.95311164380491208


@runtime_checkable
class Initializer(Protocol):
    """The interface of an initializer: a function of a key, a shape and a dtype."""

    def __call__(
        self, key: Array, shape: Any, dtype: Any = None, out_sharding: Any = None
    ) -> Array:
        raise NotImplementedError


def zeros(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Array:
    """An array of zeros; the key is not used. The result has the given shape.

    >>> zeros(None, (2,))
    Array([0., 0.], dtype=float32)
    """
    return constant(0)(key, shape, dtype, out_sharding)


def ones(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Array:
    """An array of ones; the key is not used. The result has the given shape.

    >>> ones(None, (2,))
    Array([1., 1.], dtype=float32)
    """
    return constant(1)(key, shape, dtype, out_sharding)


# In all of these, the dtype given to the maker is the default of the function it returns.
def constant(value: ArrayLike, dtype: Any = None) -> Initializer:
    """An initializer that fills with a value, which broadcasts to the requested shape.

    >>> constant(2.5)(None, (2,))
    Array([2.5, 2.5], dtype=float32)
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        return _placed(gnp.full(shape, value, dtype=_float_dtype(dtype)), out_sharding)

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer that draws uniformly from [0, scale), for real dtypes.

    >>> from gpuarray import random
    >>> bool((uniform(3.0)(random.key(0), (100,)) < 3.0).all())
    True
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        dtype = _float_dtype(dtype)
        # Drawn from [0, 1), then scaled.
        drawn = random.uniform(key, _shape(shape), dtype)
        return _placed(drawn * gnp.array(scale, dtype), out_sharding)

    return init


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer that draws from a normal distribution with mean 0, for real or complex dtypes.

    >>> from gpuarray import random
    >>> normal(5.0)(random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        dtype = _float_dtype(dtype)
        drawn = random.normal(key, _shape(shape), dtype)
        return _placed(drawn * gnp.array(stddev, dtype), out_sharding)

    return init


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
) -> Initializer:
    """An initializer that draws from a normal distribution cut at `lower` and `upper`, then scales.

    The bounds count in standard deviations, before `stddev` multiplies; cutting makes the deviation
    smaller.

    >>> from gpuarray import random
    >>> bool((abs(truncated_normal(5.0)(random.key(0), (100,))) <= 10.0).all())
    True
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        dtype = _float_dtype(dtype)
        # The bounds stretch with `stddev`.
        drawn = random.truncated_normal(key, lower, upper, _shape(shape), dtype)
        return _placed(drawn * gnp.array(stddev, dtype), out_sharding)

    return init


def variance_scaling(
    scale: Any,
    mode: Mode,
    distribution: Distribution,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """An initializer whose variance is scale / n, with n the fan that `mode` names.

    Axes that are neither inputs, outputs nor independent layers are a receptive field.

    Parameters
    ----------
    mode :
        "fan_in", "fan_out", or their mean: "fan_avg" (arithmetic) or "fan_geo_avg" (geometric).
    distribution :
        "truncated_normal" (cut at two deviations, then widened to the variance), "normal" or
        "uniform".
    in_axis, out_axis :
        Axes of inputs and outputs.
    batch_axis :
        Axes of independent layers.

    Examples
    --------

    >>> from gpuarray import random
    >>> variance_scaling(1.0, "fan_in", "normal")(random.key(0), (64, 8)).shape
    (64, 8)
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        shape, dtype = _shape(shape), _float_dtype(dtype)
        fan = _fan(shape, mode, in_axis, out_axis, batch_axis)
        variance = gnp.array(scale / fan, dtype=dtype)
        draw = _DISTRIBUTIONS.get(distribution)
        if draw is None:
            raise ValueError(
                f"invalid distribution for variance scaling initializer: {distribution}. Expected "
                f"one of {', '.join(map(repr, _DISTRIBUTIONS))}."
            )
        return _placed(draw(key, shape, dtype, variance), out_sharding)

    return init


def _draw_uniform(key, shape, dtype, variance):
    if dtypes.issubdtype(dtype, np.complexfloating):
        for_radius, for_angle = random.split(key)
        # Evenly over a disc: the radius is the root of a uniform number.
        radius = gnp.sqrt(2 * _unit(for_radius, shape, dtype)).astype(dtype)
        # A disc of radius sqrt(2) has variance 1.
        return _turned(radius, for_angle) * gnp.sqrt(variance)
    # The variance of the even distribution over [-1, 1) is 1/3.
    return random.uniform(key, shape, dtype, -1) * gnp.sqrt(3 * variance)


def _draw_normal(key, shape, dtype, variance):
    return random.normal(key, shape, dtype) * gnp.sqrt(variance)


def _draw_truncated_normal(key, shape, dtype, variance):
    if dtypes.issubdtype(dtype, np.complexfloating):
        # The radius of a complex normal is Rayleigh distributed; cut at 2, by inversion.
        for_radius, for_angle = random.split(key)
        unit = _unit(for_radius, shape, dtype).astype(dtype)
        radius = gnp.sqrt(-gnp.log(1 - (1 - gnp.exp(gnp.array(-4.0, dtype))) * unit))
        # Cutting made the deviation smaller; this makes up for it.
        stddev = gnp.sqrt(variance) / gnp.array(_TRUNCATED_STDDEV_COMPLEX, dtype)
        return _turned(radius, for_angle) * stddev
    stddev = gnp.sqrt(variance) / gnp.array(_TRUNCATED_STDDEV, dtype)
    return random.truncated_normal(key, -2, 2, shape, dtype) * stddev


_DISTRIBUTIONS = {
    "truncated_normal": _draw_truncated_normal,
    "normal": _draw_normal,
    "uniform": _draw_uniform,
}


def _unit(key, shape, dtype):
    """Real numbers from [0, 1), as precise as the parts of a complex dtype."""
    return random.uniform(key, shape, np.finfo(dtype).dtype)


def _turned(radius, key):
    """Complex numbers of a radius, at random angles."""
    angle = 2 * np.pi * _unit(key, radius.shape, radius.dtype).astype(radius.dtype)
    return radius * gnp.exp(1j * angle)


def _fan(shape: tuple[int, ...], mode: str, in_axis: Axes, out_axis: Axes, batch_axis: Axes):
    """The number that the variance is divided by."""
    if len(shape) <= 1 and in_axis == -2:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor "
            "with default in_axis. Must be at least 2D or specify in_axis explicitly."
        )
    n_in, n_out = _length(shape, in_axis, "in_axis"), _length(shape, out_axis, "out_axis")
    known = n_in * n_out * _length(shape, batch_axis, "batch_axis")
    if not known:
        raise ZeroDivisionError(
            f"the weights of shape {shape} have no inputs or no outputs, so their variance, scale "
            "divided by that number, is not defined: division by zero"
        )
    # All other axes: every input of a convolution counts once for each place of its window.
    field = math.prod(shape) / known
    counts = {
        "fan_in": lambda: n_in,
        "fan_out": lambda: n_out,
        "fan_avg": lambda: (n_in + n_out) / 2,
        "fan_geo_avg": lambda: math.sqrt(n_in * n_out),
    }
    if mode not in counts:
        raise ValueError(
            f"invalid mode for variance scaling initializer: {mode}. Expected one of "
            f"{', '.join(map(repr, counts))}."
        )
    return counts[mode]() * field


def _length(shape: tuple[int, ...], axes: Axes, name: str) -> int:
    axes = (axes,) if isinstance(axes, int) else util.indices(axes, "an int or a sequence of ints")
    for axis in axes:
        if not -len(shape) <= axis < len(shape):
            raise IndexError(
                f"{name} {axis} is out of bounds for weights of shape {shape}: give an axis "
                "they have."
            )
    return util.prod(shape[axis] for axis in axes)


def glorot_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Uniform, variance 1 / mean(fan_in, fan_out) (Glorot, 2010); also called xavier_uniform.

    >>> from gpuarray import random
    >>> glorot_uniform()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Truncated normal, variance 1 / mean(fan_in, fan_out); also called xavier_normal.

    >>> from gpuarray import random
    >>> glorot_normal()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(
        1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype
    )


def lecun_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Uniform, variance 1 / fan_in.

    >>> from gpuarray import random
    >>> lecun_uniform()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Truncated normal, variance 1 / fan_in.

    >>> from gpuarray import random
    >>> lecun_normal()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Uniform, variance 2 / fan_in, for rectifiers (He et al., 2015); also called kaiming_uniform.

    >>> from gpuarray import random
    >>> he_uniform()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Truncated normal, variance 2 / fan_in, for rectifiers; also called kaiming_normal.

    >>> from gpuarray import random
    >>> he_normal()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of uniformly drawn matrices with orthonormal rows or columns, times `scale`.

    Shape contract: at least two axes; `column_axis` numbers the columns, all others together the
    rows.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import random
    >>> q = orthogonal()(random.key(0), (3, 3))
    >>> bool(gnp.allclose(q @ q.T, gnp.eye(3), atol=1e-5))
    True
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        shape, dtype = _shape(shape), _float_dtype(dtype)
        if len(shape) < 2:
            raise ValueError(f"orthogonal initializer requires at least a 2D shape, got {shape}")
        columns = _length(shape, column_axis, "column_axis")
        # Orthogonal as a matrix of all other axes by this one.
        rest = tuple(np.delete(shape, column_axis).tolist())
        drawn = random.orthogonal(key, math.prod(rest), m=columns, dtype=dtype)
        placed = gnp.moveaxis(drawn.reshape(*rest, columns), -1, column_axis)
        return _placed(scale * placed, out_sharding)

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of convolution kernels: an orthogonal map at the centre, 0 around it.

    Shape contract: (*window, fan_in, fan_out) with one to three window axes and fan_in <= fan_out.

    >>> from gpuarray import random
    >>> delta_orthogonal()(random.key(0), (3, 1, 1))[::2, 0, 0]
    Array([0., 0.], dtype=float32)
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        shape, dtype = _shape(shape), _float_dtype(dtype)
        if len(shape) not in (3, 4, 5):
            raise ValueError(
                f"Delta orthogonal initializer requires a 3D, 4D or 5D shape, got {shape}."
            )
        if shape[-1] < shape[-2]:
            raise ValueError(
                f"`fan_in` must be less or equal than `fan_out`. Got {shape[-2]} and {shape[-1]}."
            )
        middle = orthogonal(scale, column_axis)(key, shape[-2:], dtype)
        # The identity in space: only the middle of the window is not zero.
        centre = tuple((n - 1) // 2 for n in shape[:-2])
        return _placed(gnp.zeros(shape, dtype).at[centre].set(middle), out_sharding)

    return init


def _shape(shape: Any) -> tuple[int, ...]:
    """The shape as a tuple of lengths, none of them negative."""
    lengths = canonicalize_shape(shape)
    if any(n < 0 for n in lengths):
        raise TypeError(f"Only non-negative lengths are allowed in a shape, but got {lengths}.")
    return lengths


def _float_dtype(dtype: Any) -> Any:
    """The requested dtype in canonical form; the default float if there is none."""
    return dtypes.default_float() if dtype is None else dtypes.check_user_dtype(dtype, "init")


def _placed(x: Array, out_sharding: Any) -> Array:
    return placed("an initializer", x, out_sharding)


__getattr__ = _explain_names(__name__)
