"""Convolutions: plain, transposed, as patches, and with kernels that differ from place to place.

Floor 6. In: images, kernels, and strides, paddings and dilations as a user writes them. Out:
`conv_general_dilated`, with every parameter spelled out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.core import dtypes
from gpuarray.core.dims import larger
from gpuarray.core.layout import out_given
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike, dtype_of, operands, shape_of
from gpuarray.lax.contract import PrecisionLike, dot_general
from gpuarray.primitives.contract.convolution import ConvDimensionNumbers as ConvDimensionNumbers
from gpuarray.primitives.contract.convolution import (
    ConvGeneralDilatedDimensionNumbers as ConvGeneralDilatedDimensionNumbers,
)
from gpuarray.primitives.contract.convolution import conv_general_dilated_p, conv_shape, dilated
from gpuarray.primitives.contract.precision import Precision, canonicalize_precision
from gpuarray.primitives.elementwise.arithmetic import add_p, eq_p
from gpuarray.primitives.elementwise.convert import convert_element_type_p
from gpuarray.primitives.movement.generate import iota_p
from gpuarray.primitives.movement.ops import broadcast_in_dim_p, reshape_p, rev_p, transpose_p
from gpuarray.runtime.transfer import placed
from gpuarray.util import prod

Padding = str | Sequence[tuple[int, int]]


def _ints(values: Sequence[int]) -> tuple[int, ...]:
    return util.indices(values)


# ---- where axes are ----


def conv_general_permutations(dimension_numbers):
    """Strings such as ("NHWC", "HWIO", "NHWC") as permutations to batch, feature, *spatial.

    >>> from gpuarray import lax
    >>> lax.conv_general_permutations(("NHWC", "HWIO", "NCHW"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 1, 2, 3))
    """
    lhs, rhs, out = dimension_numbers
    if not all(isinstance(spec, str) for spec in (lhs, rhs, out)):
        raise TypeError(
            f"convolution dimension_numbers must be three strings, got {dimension_numbers}"
        )
    for i, (spec, (first, second)) in enumerate(zip((lhs, rhs, out), ("NC", "OI", "NC"))):
        if spec.count(first) != 1 or spec.count(second) != 1:
            raise TypeError(
                f"convolution dimension_numbers[{i}] must contain the characters '{first}' and "
                f"'{second}' exactly once, got {spec}."
            )
        if len(set(spec)) != len(spec):
            raise TypeError(
                f"convolution dimension_numbers[{i}] cannot have duplicate characters, got {spec}."
            )
    # The spatial axes of all three are listed in the order of the kernel's.
    spatial = [c for c in rhs if c not in "OI"]
    if not set(lhs) - set("NC") == set(spatial) == set(out) - set("NC"):
        raise TypeError(
            "convolution dimension_numbers elements must each have the same set of spatial "
            f"characters, got {dimension_numbers}."
        )

    # A permutation: where the axes of the standard order are found in `spec`.
    def places(spec: str, ends: str) -> tuple[int, ...]:
        return tuple(spec.index(c) for c in (*ends, *spatial))

    return places(lhs, "NC"), places(rhs, "OI"), places(out, "NC")


def conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers) -> ConvDimensionNumbers:
    """Any form of `dimension_numbers` as a `ConvDimensionNumbers`; None means channels first.

    >>> from gpuarray import lax
    >>> lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    # Checked when it was made.
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    rank = len(lhs_shape)
    if rank != len(rhs_shape):
        raise TypeError(
            f"convolution requires lhs and rhs ndim to be equal, got {rank} and {len(rhs_shape)}."
        )
    if dimension_numbers is None:
        order = tuple(range(rank))
        return ConvDimensionNumbers(order, order, order)
    if not isinstance(dimension_numbers, (list, tuple)):
        raise TypeError(
            "convolution dimension_numbers must be tuple/list or None, got "
            f"{type(dimension_numbers)}."
        )
    if len(dimension_numbers) != 3:
        raise TypeError(
            "convolution dimension_numbers list/tuple must be length 3, got "
            f"{len(dimension_numbers)}."
        )
    for i, spec in enumerate(dimension_numbers):
        if not isinstance(spec, str):
            raise TypeError(
                f"convolution dimension_numbers elements must be strings, got {type(spec)} at {i}."
            )
        if len(spec) != rank:
            raise TypeError(
                f"convolution dimension_numbers[{i}] must have len equal to the ndim of lhs and "
                f"rhs, got {len(spec)} for lhs and rhs shapes {tuple(lhs_shape)} and "
                f"{tuple(rhs_shape)}."
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


# ---- paddings and shapes ----


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Any,
) -> list[tuple[int, int]]:
    """'SAME', 'SAME_LOWER' or 'VALID' as (low, high) pairs, one a spatial axis.

    >>> from gpuarray import lax
    >>> lax.padtype_to_pads((5, 6), (3, 3), (2, 2), "SAME")
    [(1, 1), (0, 1)]
    """
    # XLA's enum of paddings has the names that the strings are.
    if not isinstance(getattr(padding, "name", padding), str):
        raise TypeError(
            f"Unknown padding type: {padding}. Pairs are pads already; give 'SAME', 'SAME_LOWER' "
            "or 'VALID'."
        )
    # A string, or a member of an enum.
    name = str(getattr(padding, "name", padding)).upper()
    if name == "VALID":
        return [(0, 0)] * len(in_shape)
    if name not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(
            f"Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got {padding}."
        )
    pads = []
    for n, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        # SAME: ceil(n / stride) windows, so the last one starts at (ceil(n / stride) - 1) * stride.
        total = larger((-(-n // stride) - 1) * stride + window - n, 0)
        # An odd one goes to the end, or to the beginning with SAME_LOWER.
        less, more = total // 2, total - total // 2
        pads.append((less, more) if name == "SAME" else (more, less))
    return [(util.index(low), util.index(high)) for low, high in pads]


def _pads(padding: Padding, lhs, rhs, strides) -> Sequence[tuple[int, int]]:
    """Either form of padding as pairs, for shapes in standard order."""
    if isinstance(padding, str):
        return padtype_to_pads(lhs[2:], rhs[2:], strides, padding)
    return padding


def conv_shape_tuple(lhs_shape, rhs_shape, strides, pads, batch_group_count: int = 1):
    """The result shape of a convolution whose operands have batch, feature, *spatial axes.

    >>> from gpuarray import lax
    >>> lax.conv_shape_tuple((1, 4, 5, 5), (6, 4, 3, 3), (1, 1), "SAME")
    (1, 6, 5, 5)
    """
    pads = _pads(pads, lhs_shape, rhs_shape, strides)
    return conv_shape(lhs_shape, rhs_shape, strides, pads, batch_group_count)


def _placed(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    # The inverse of a permutation: axis `order[i]` of the result has length `shape[i]`.
    out = [0] * len(shape)
    for axis, n in zip(order, shape, strict=True):
        out[axis] = int(n)
    return tuple(out)


def conv_general_shape_tuple(lhs_shape, rhs_shape, window_strides, padding, dimension_numbers):
    """The result shape of a convolution with axes as three strings say.

    >>> from gpuarray import lax
    >>> names = ("NHWC", "HWIO", "NHWC")
    >>> lax.conv_general_shape_tuple((1, 5, 5, 4), (3, 3, 4, 6), (2, 2), "VALID", names)
    (1, 2, 2, 6)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    left, right = [lhs_shape[d] for d in lhs], [rhs_shape[d] for d in rhs]
    return _placed(conv_shape_tuple(left, right, window_strides, padding), out)


def conv_transpose_shape_tuple(lhs_shape, rhs_shape, window_strides, padding, dimension_numbers):
    """The result shape of a transposed convolution with axes as three strings say.

    >>> from gpuarray import lax
    >>> names = ("NHWC", "HWIO", "NHWC")
    >>> lax.conv_transpose_shape_tuple((1, 5, 5, 4), (3, 3, 4, 6), (2, 2), "SAME", names)
    (1, 10, 10, 6)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    left, right = [lhs_shape[d] for d in lhs], [rhs_shape[d] for d in rhs]
    if isinstance(padding, str):
        padding = [_transposed_pads(k, s, padding) for k, s in zip(right[2:], window_strides)]
    # Transposing a strided convolution is a plain one over images with holes.
    left[2:] = [dilated(n, s) for n, s in zip(left[2:], window_strides, strict=True)]
    return _placed(conv_shape(left, right, [1] * len(window_strides), padding), out)


# ---- convolutions ----


def conv_general_dilated(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The general convolution: kernels slide over images, unflipped, and channels are summed.

    Axes are batch, feature, *spatial for `lhs` and the result and out feature, in feature, *spatial
    for `rhs`, unless `dimension_numbers` say otherwise. A spatial length n with kernel k becomes
    (dilated n + padding - dilated k) // stride + 1.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> x, k = gnp.arange(5.).reshape(1, 1, 5), gnp.array([[[1., 0., -1.]]])
    >>> lax.conv_general_dilated(x, k, (1,), "VALID")
    Array([[[-2., -2., -2.]]], dtype=float32)
    """
    lhs, rhs = operands("conv_general_dilated", lhs, rhs)
    left, right = shape_of(lhs), shape_of(rhs)
    numbers = conv_dimension_numbers(left, right, dimension_numbers)
    if len(left) < 2:
        raise TypeError(
            f"conv_general_dilated needs operands with batch and feature axes, got shapes {left} "
            f"and {right}."
        )
    # Geometry with every default spelled out.
    ones = (1,) * (len(left) - 2)
    strides = _ints(window_strides)
    lhs_dilation = ones if lhs_dilation is None else _ints(lhs_dilation)
    rhs_dilation = ones if rhs_dilation is None else _ints(rhs_dilation)
    if isinstance(padding, str):
        # With a dilated image, "SAME" would be ambiguous.
        if any(d != 1 for d in lhs_dilation):
            raise ValueError(
                "String padding is not implemented for transposed convolution using this op. "
                "Please either exactly specify the required padding or use conv_transpose."
            )
        for name, given in (("window_strides", strides), ("rhs_dilation", rhs_dilation)):
            if len(given) != len(ones):
                raise ValueError(
                    f"conv_general_dilated window and {name} must have the same number of "
                    f"dimensions, but got {len(ones)} and {len(given)}"
                )
        window = [right[d] for d in numbers.rhs_spec[2:]]
        window = [dilated(n, d) for n, d in zip(window, rhs_dilation)]
        images = [left[d] for d in numbers.lhs_spec[2:]]
        padding = padtype_to_pads(images, window, strides, padding)
    else:
        try:
            padding = [(util.index(low), util.index(high)) for low, high in padding]
        except (TypeError, ValueError):
            raise ValueError(
                "padding argument to conv_general_dilated should be a string or a sequence of "
                f"(low, high) pairs, got {padding}"
            ) from None
    wanted = preferred_element_type
    # Not in a helper of another file: `requested_dtype` checks whether this library is the caller.
    if wanted is not None:
        wanted = dtypes.requested_dtype(wanted, "conv_general_dilated")
    with out_given(out_sharding):
        out = conv_general_dilated_p.bind(
            lhs,
            rhs,
            window_strides=strides,
            padding=tuple(padding),
            lhs_dilation=lhs_dilation,
            rhs_dilation=rhs_dilation,
            dimension_numbers=numbers,
            feature_group_count=feature_group_count,
            batch_group_count=batch_group_count,
            precision=canonicalize_precision(precision),
            preferred_element_type=wanted,
            out_sharding=None,
        )
    return placed("conv_general_dilated", out, out_sharding)


def conv(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: str,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Array:
    """Convolution of [batch, channel, *spatial] images with [out, in, *spatial] kernels.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.conv(gnp.ones((1, 1, 3, 3)), gnp.ones((2, 1, 3, 3)), (1, 1), "SAME")[0, 1, 1]
    Array([6., 9., 6.], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Array:
    """`conv` with paddings as pairs and dilations of both operands.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> x, k = gnp.ones((1, 1, 4)), gnp.ones((1, 1, 2))
    >>> lax.conv_with_general_padding(x, k, (1,), [(1, 0)], None, (2,))
    Array([[[1., 2., 2.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def _transposed_pads(k: int, s: int, padding: str) -> tuple[int, int]:
    """Paddings that give n * s elements ('SAME') or n * s + max(k - s, 0) ('VALID')."""
    name = padding.upper()
    if name == "SAME":
        total = k + s - 2
        # JAX's rule: the sum is fixed, and an odd one goes low.
        low = k - 1 if s > k - 1 else -(-total // 2)
    elif name == "VALID":
        total = k + s - 2 + max(k - s, 0)
        low = k - 1
    else:
        raise ValueError(f"padding of conv_transpose must be 'SAME' or 'VALID', got {padding!r}.")
    return low, total - low


def conv_transpose(
    lhs: Array,
    rhs: Array,
    strides: Sequence[int],
    padding: Padding,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Array:
    """The transposed ("fractionally strided") convolution, which enlarges images `strides` times.

    Axes are channels-last unless `dimension_numbers` say otherwise. With `transpose_kernel` the
    kernel is that of the convolution being transposed: it is flipped, and its feature axes are
    swapped. Explicit paddings count from the dilated image, or with `use_consistent_padding` as the
    forward convolution's would.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> x, k = gnp.array([[[1.], [2.]]]), gnp.ones((2, 1, 1))
    >>> lax.conv_transpose(x, k, (2,), "SAME")[0, :, 0]
    Array([1., 1., 2., 2.], dtype=float32)
    """
    lhs, rhs = operands("conv_transpose", lhs, rhs)
    left, right = shape_of(lhs), shape_of(rhs)
    rank = len(left)
    if rank != len(right) or rank < 2:
        raise TypeError(
            f"convolution requires lhs and rhs ndim to be equal and at least 2, got {rank} and "
            f"{len(right)}."
        )
    # Channels last by default, unlike conv_general_dilated: as in JAX.
    if dimension_numbers is None:
        if rank > 5:
            raise ValueError(
                "No 4+ dimensional dimension_number defaults: give dimension_numbers for "
                f"{rank - 2} spatial axes."
            )
        spatial = {0: "", 1: "H", 2: "HW", 3: "HWD"}[rank - 2]
        dimension_numbers = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    numbers = conv_dimension_numbers(left, right, dimension_numbers)
    window = [right[d] for d in numbers.rhs_spec[2:]]
    dilation = (1,) * (rank - 2) if rhs_dilation is None else _ints(rhs_dilation)
    strides = _ints(strides)
    # The span of the kernel with its holes.
    window = [dilated(k, d) for k, d in zip(window, dilation, strict=True)]
    if isinstance(padding, str):
        pads = [_transposed_pads(k, s, padding) for k, s in zip(window, strides, strict=True)]
    elif use_consistent_padding:
        # The padding of the gradient of a convolution that was padded by (low, high).
        pads = [(k - 1 - low, k - 1 - high) for k, (low, high) in zip(window, padding, strict=True)]
    else:
        pads = padding
    # The gradient of a convolution: kernel flipped, features swapped.
    if transpose_kernel:
        for axis in numbers.rhs_spec[2:]:
            rhs = rev_p.bind(rhs, dimensions=(axis,))
        order = list(range(rank))
        out_axis, in_axis = numbers.rhs_spec[:2]
        order[out_axis], order[in_axis] = in_axis, out_axis
        rhs = transpose_p.bind(rhs, permutation=tuple(order))
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * (rank - 2),
        pads,
        strides,
        rhs_dilation,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


# ---- patches ----


def _identity(n: int, dtype) -> Array:
    # Row number equal to column number.
    shape = {"dtype": np.dtype(np.int32), "shape": (n, n), "sharding": None}
    rows = add_p.bind(iota_p.bind(dimension=0, **shape), np.int32(0))
    columns = iota_p.bind(dimension=1, **shape)
    same = eq_p.bind(rows, columns)
    return convert_element_type_p.bind(same, new_dtype=dtype, weak_type=False, sharding=None)


def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: Precision | None = None,
    preferred_element_type: Any = None,
) -> Array:
    """The windows that a convolution reads, arranged along the feature axis, channel first.

    A result has c * prod(filter_shape) features where `lhs` has c.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.conv_general_dilated_patches(gnp.arange(4.).reshape(1, 1, 4), (2,), (1,), "VALID")[0]
    Array([[0., 1., 2.],
           [1., 2., 3.]], dtype=float32)
    """
    (lhs,) = operands("conv_general_dilated_patches", lhs)
    filter_shape = _ints(filter_shape)
    shape = shape_of(lhs)
    if len(filter_shape) != len(shape) - 2:
        raise TypeError(
            f"conv_general_dilated_patches: filter_shape {filter_shape} must have a length for "
            f"each of the {len(shape) - 2} spatial axes of lhs {shape}"
        )
    # There is no kernel yet; only its rank is checked, which is that of the image.
    numbers = conv_dimension_numbers(shape, shape, dimension_numbers)
    channels = shape[numbers.lhs_spec[1]]
    n = prod(filter_shape)
    # The kernel that picks place j of a window has a one there: a stack of identity matrices.
    kernel = broadcast_in_dim_p.bind(
        _identity(n, dtype_of(lhs)),
        shape=(channels, n, n),
        broadcast_dimensions=(1, 2),
        sharding=None,
    )
    sizes = (channels * n, 1, *filter_shape)
    # One group for each channel, so that channels do not mix.
    kernel = reshape_p.bind(kernel, new_sizes=sizes, dimensions=None, sharding=None)
    # The kernel was made in standard order: move its axes to where the numbers expect them.
    order = tuple(np.argsort(numbers.rhs_spec).tolist())
    if order != tuple(range(len(order))):
        kernel = transpose_p.bind(kernel, permutation=order)
    # Only the images need the requested precision: ones and zeros are exact in any. By default they
    # are moved as they are.
    asked = Precision.HIGHEST if precision is None else Precision(precision)
    chosen = asked, Precision.DEFAULT
    return conv_general_dilated(
        lhs,
        kernel,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        feature_group_count=channels,
        precision=chosen,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
) -> Array:
    """A convolution whose kernel is another one at every place: rhs has the result's spatial axes.

    In standard order rhs is [out feature, c * prod(filter_shape), *result spatial].

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> x, k = gnp.ones((1, 1, 3)), gnp.array([[[1., 2.], [1., 2.]]])
    >>> lax.conv_general_dilated_local(x, k, (1,), "VALID", (2,))
    Array([[[2., 4.]]], dtype=float32)
    """
    lhs, rhs = operands("conv_general_dilated_local", lhs, rhs)
    chosen = canonicalize_precision(precision)
    # In a pair of precisions, the first is that of lhs.
    image_precision = chosen[0] if isinstance(chosen, tuple) else None
    # All windows first, then one product for each place.
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        image_precision,
    )
    shape = shape_of(lhs)
    numbers = conv_dimension_numbers(shape, shape_of(rhs), dimension_numbers)
    lhs_spec, rhs_spec, out_spec = numbers
    # Places of the result are the batch; the elements of a window are summed.
    batch = (tuple(out_spec[2:]), tuple(rhs_spec[2:]))
    product = dot_general(patches, rhs, (((out_spec[1],), (rhs_spec[1],)), batch), precision=chosen)
    # The product has its spatial axes first, then batch and feature.
    rank = len(shape)
    order = (rank - 2, rank - 1, *range(rank - 2))
    places = [0] * rank
    for axis, source in zip(out_spec, order, strict=True):
        places[axis] = source
    return transpose_p.bind(product, permutation=tuple(places))
