"""Convolution with strides, padding, dilations of both operands and both kinds of groups.

Floor 2. In: lhs (images), rhs (kernels) and where each has its batch, feature and spatial axes.
Out: the primitive `conv_general_dilated`. Its NumPy rule lays the windows out as rows (im2col), in
pieces of bounded size, and leaves the sums to BLAS.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import util
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.dims import larger
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.rewrite import Rewrite
from gpuarray.core.target import PROCESSOR
from gpuarray.primitives.contract import convolution_transforms as rules
from gpuarray.primitives.contract.convolution_transforms import dilated as dilated
from gpuarray.primitives.contract.elements import CONVOLUTION
from gpuarray.primitives.contract.factors import conv_factors
from gpuarray.primitives.contract.ops import matrix_product, working_dtype
from gpuarray.primitives.contract.rewrites import windows
from gpuarray.primitives.define import ANY, check_dtype, check_same_dtypes


class ConvDimensionNumbers(NamedTuple):
    """Positions of axes: (batch, feature, *spatial) of lhs and out, (out, in, *spatial) of rhs.

    >>> ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)).lhs_spec
    (0, 3, 1, 2)
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


#: Types of the `dimension_numbers=` argument of a convolution.
ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]


def _window_count(length: int, window: int, stride: int) -> int:
    """Return how many windows fit into an axis."""
    return larger((length - window) // stride + 1, 0)


def conv_shape(lhs, rhs, strides, padding, batch_group_count: int = 1) -> tuple[int, ...]:
    """Return the result shape (batch, feature, *spatial) for dilated operands in standard order.

    >>> conv_shape((1, 4, 5, 5), (6, 4, 3, 3), (1, 1), [(0, 0), (1, 1)])
    (1, 6, 3, 5)
    """
    if len(padding) != len(lhs) - 2:
        raise TypeError(
            f"Wrong number of explicit pads for convolution: expected {len(lhs) - 2}, got "
            f"{len(padding)}."
        )
    spatial = []
    for n, k, stride, (low, high) in zip(lhs[2:], rhs[2:], strides, padding, strict=True):
        if n + low + high < 0:
            raise ValueError(
                "Negative padding is larger than the size of the corresponding dimension: got "
                f"padding={tuple(padding)} for lhs_shape[2:]={tuple(lhs[2:])}"
            )
        spatial.append(_window_count(n + low + high, k, stride))
    return (lhs[0] // util.index(batch_group_count), rhs[0], *spatial)


def _check_counts(name: str, count: int, lhs_size: int, rhs_size: int) -> None:
    if count < 1:
        raise ValueError(f"conv_general_dilated {name} must be a positive integer, got {count}.")
    if rhs_size % count:
        raise ValueError(
            f"conv_general_dilated rhs output feature dimension size must be a multiple of {name}, "
            f"but {rhs_size} is not a multiple of {count}."
        )


def _check_conv(lhs: ShapedArray, rhs: ShapedArray, p: dict) -> None:
    numbers = p["dimension_numbers"]
    if lhs.ndim < 2:
        raise TypeError(
            "conv_general_dilated needs operands with batch and feature axes, got shape "
            f"{lhs.shape}."
        )
    n, lhs_feature = (lhs.shape[d] for d in numbers.lhs_spec[:2])
    out_feature, in_feature = (rhs.shape[d] for d in numbers.rhs_spec[:2])
    groups, batch_groups = util.index(p["feature_group_count"]), util.index(p["batch_group_count"])
    # Before the divisions below, which 0 would break; other counts are checked after them, as in
    # JAX.
    if groups < 1:
        _check_counts("feature_group_count", groups, lhs_feature, out_feature)
    if lhs_feature // groups != in_feature or lhs_feature % groups:
        raise ValueError(
            "conv_general_dilated lhs feature dimension size divided by feature_group_count must "
            f"equal the rhs input feature dimension size, but {lhs_feature} // {groups} != "
            f"{in_feature}."
        )
    _check_counts("feature_group_count", groups, lhs_feature, out_feature)
    if batch_groups < 1:
        _check_counts("batch_group_count", batch_groups, n, out_feature)
    if n % batch_groups:
        raise ValueError(
            "conv_general_dilated batch_group_count must divide lhs batch dimension size, but "
            f"{batch_groups} does not divide {n}."
        )
    _check_counts("batch_group_count", batch_groups, n, out_feature)
    if groups > 1 and batch_groups > 1:
        raise ValueError(
            "At most one of batch_group_count and feature_group_count may be > 1, got "
            f"batch_group_count={batch_groups} and feature_group_count={groups}"
        )
    spatial = lhs.ndim - 2
    for name in ("window_strides", "lhs_dilation", "rhs_dilation"):
        if len(p[name]) != spatial:
            raise ValueError(
                f"conv_general_dilated window and {name} must have the same number of dimensions, "
                f"but got {spatial} and {len(p[name])}"
            )
    if not all(s > 0 for s in p["window_strides"]):
        raise ValueError(f"window_strides must all be positive, got {p['window_strides']}.")
    for name in ("lhs_dilation", "rhs_dilation"):
        if not all(d > 0 for d in p[name]):
            raise TypeError(f"All dilations must be positive, got {p[name]}.")


def _result_dtype(dtype, preferred):
    if preferred is None:
        return dtype
    kinds = dtypes.kind_of(dtype), dtypes.kind_of(preferred)
    # Integers may become floats and bools any number, but otherwise the kind cannot change.
    if kinds[0] == "b":
        compatible = kinds[1] in "biufc"
    elif kinds[0] in "iu":
        compatible = kinds[1] in "iuf"
    else:
        compatible = kinds[0] == kinds[1]
    if not compatible:
        raise TypeError(
            "Input type is incompatible with `preferred_element_type`. The compatible "
            "combinations of (input_type, preferred_element_type) are (integral, integral), "
            f"(integral, floating), (floating, floating), (complex, complex); got ({dtype.name}, "
            f"{preferred.name})."
        )
    same_sort = kinds[1] in "iu" if kinds[0] in "iu" else kinds[0] == kinds[1]
    if same_sort and dtypes.itemsize_bits(preferred) < dtypes.itemsize_bits(dtype):
        raise TypeError(
            "`preferred_element_type` must not be narrower than the original type, got "
            f"{preferred.name} for {dtype.name}."
        )
    return preferred


def _conv_aval(lhs: ShapedArray, rhs: ShapedArray, **p) -> ShapedArray:
    check_dtype("conv_general_dilated", lhs.dtype, ANY, 0)
    check_same_dtypes("conv_general_dilated", (lhs, rhs))
    _check_conv(lhs, rhs, p)
    dtype = _result_dtype(lhs.dtype, p["preferred_element_type"])
    lhs_spec, rhs_spec, out_spec = p["dimension_numbers"]
    if lhs.ndim != rhs.ndim:
        raise ValueError(
            "conv_general_dilated lhs and rhs must have the same number of dimensions, but got "
            f"{lhs.shape} and {rhs.shape}."
        )
    if any(sorted(spec) != list(range(lhs.ndim)) for spec in (lhs_spec, rhs_spec, out_spec)):
        raise ValueError(
            "conv_general_dilated dimension numbers must name every axis once, got "
            f"{p['dimension_numbers']} for operands of {lhs.ndim} dimensions."
        )
    # Shapes in standard order, with dilations as holes.
    left = [lhs.shape[d] for d in lhs_spec]
    right = [rhs.shape[d] for d in rhs_spec]
    left[2:] = [dilated(n, d) for n, d in zip(left[2:], p["lhs_dilation"], strict=True)]
    right[2:] = [dilated(n, d) for n, d in zip(right[2:], p["rhs_dilation"], strict=True)]
    shape = conv_shape(left, right, p["window_strides"], p["padding"], p["batch_group_count"])
    # Back to the order of axes that the caller wants.
    placed = [0] * len(shape)
    for axis, n in zip(out_spec, shape, strict=True):
        placed[axis] = n
    weak = lhs.weak_type and rhs.weak_type
    return ShapedArray(tuple(placed), dtype, weak, p.get("out_sharding"))


# ---- the NumPy rule ----


def _prepared(x: np.ndarray, padding, dilation) -> np.ndarray:
    """Insert zeros between and around the elements of [N, C, *spatial]; negative padding cuts."""
    trivial = all(d == 1 for d in dilation) and not any(itertools.chain(*padding))
    if trivial:
        return x
    lengths = [dilated(n, d) for n, d in zip(x.shape[2:], dilation, strict=True)]
    shape = [n + low + high for n, (low, high) in zip(lengths, padding, strict=True)]
    out = np.zeros((*x.shape[:2], *(max(n, 0) for n in shape)), x.dtype)
    source, target = [slice(None)] * 2, [slice(None)] * 2
    for n, total, d, (low, _) in zip(x.shape[2:], shape, dilation, padding, strict=True):
        # Element i lands at low + i * d: keep those inside.
        first = max(0, math.ceil(-low / d))
        last = min(n, math.ceil((total - low) / d))
        # No element lands inside: the result is all padding.
        if last <= first:
            return out
        source.append(slice(first, last))
        target.append(slice(low + first * d, low + (last - 1) * d + 1, d))
    out[tuple(target)] = x[tuple(source)]
    return out


def _conv_numpy(avals, **p) -> Callable[..., Any]:
    aval = _conv_aval(*avals, **p)
    lhs_spec, rhs_spec, out_spec = p["dimension_numbers"]
    groups, batch_groups = util.index(p["feature_group_count"]), util.index(p["batch_group_count"])
    # Everything that does not depend on the elements is computed here, once.
    working = working_dtype(avals[0].dtype, aval.dtype)
    strides, padding = p["window_strides"], p["padding"]
    lhs_dilation, rhs_dilation = p["lhs_dilation"], p["rhs_dilation"]
    product = matrix_product(working, aval.dtype)

    def conv(lhs, rhs):
        x, w = lhs.transpose(lhs_spec), rhs.transpose(rhs_spec)
        g = groups
        if batch_groups > 1:
            # Group b of the batch sees part b of the kernels: move the groups from the batch to the
            # features, where they are feature groups.
            g = batch_groups
            split = x.reshape(g, x.shape[0] // g, *x.shape[1:])
            x = split.swapaxes(0, 1).reshape(split.shape[1], g * x.shape[1], *x.shape[2:])
        # The product itself widens integers, since it knows their range.
        floats = dtypes.kind_of(working) in "fc"
        if floats:
            x, w = x.astype(working, copy=False), w.astype(working, copy=False)
        x = _prepared(x, padding, lhs_dilation)
        result = np.empty(aval.shape, aval.dtype)
        out = result.transpose(out_spec)  # batch, feature, *spatial
        # An empty sum is 0.
        if out.size == 0 or w.size == 0:
            result[...] = 0
        # Three special cases are faster than windows: see each function.
        elif floats and _one_signal(x, w, strides, rhs_dilation):
            # np.correlate conjugates its second operand.
            kernel = w[0, 0].conj() if w.dtype.kind == "c" else w[0, 0]
            out[0, 0] = np.correlate(x[0, 0], kernel, "valid")
        elif floats and g > 1 and w.shape[1] == 1:
            _depthwise(out, x, w, g, strides, rhs_dilation)
        else:
            _by_windows(out, x, w, g, strides, rhs_dilation, product)
        return result

    return conv


def _one_signal(x, w, strides, dilation) -> bool:
    """Whether it is one channel and one dimension with unit steps, which np.correlate computes."""
    return (
        x.ndim == 3
        and x.shape[:2] == w.shape[:2] == (1, 1)
        and strides[0] == dilation[0] == 1
        and x.shape[2] >= w.shape[2]
    )


def _depthwise(out, x, w, groups: int, strides, dilation) -> None:
    """Convolve each channel separately: the sum over kernel positions of shifted images."""
    # Output features of each channel.
    per = w.shape[0] // groups
    spatial = out.shape[2:]
    total = np.zeros((x.shape[0], groups, per, *spatial), w.dtype)
    flat = w.reshape(groups, per, -1)
    # At each tap, all windows' elements are one strided slice.
    for position, tap in enumerate(np.ndindex(w.shape[2:])):
        shifted = tuple(
            slice(t * d, t * d + s * (m - 1) + 1, s)
            for t, d, s, m in zip(tap, dilation, strides, spatial, strict=True)
        )
        weights = flat[:, :, position].reshape(groups, per, *(1 for _ in spatial))
        total += x[(slice(None), slice(None), *shifted)][:, :, None] * weights
    out[...] = total.reshape(out.shape)


def _by_windows(out, x, w, groups: int, strides, dilation, product) -> None:
    """Multiply windows as a matrix by kernels as a matrix (im2col), piece by piece.

    The layout follows the images': with channels last, every window is a row; with channels first,
    a column. Either way the innermost copies are long runs.
    """
    n, features, per = x.shape[0], w.shape[0], w.shape[1]
    kernel, spatial = w.shape[2:], out.shape[2:]
    rank, depth = len(spatial), per * math.prod(kernel)
    # Strides from one window to the next, and from one element of a window to the next.
    outer = [s * k for s, k in zip(x.strides[2:], strides, strict=True)]
    inner = [s * k for s, k in zip(x.strides[2:], dilation, strict=True)]
    # All windows as one view: [group, image, *out, *kernel, channel].
    view = np.lib.stride_tricks.as_strided(
        x,
        (groups, n, *spatial, *kernel, per),
        (per * x.strides[1], x.strides[0], *outer, *inner, x.strides[1]),
        writeable=False,
    )
    target = out.reshape(n, groups, features // groups, *spatial)
    target = target.transpose(1, 0, *range(3, 3 + rank), 2)  # [group, image, *out, feature]
    # Kernels as [group, feature, depth], in the order of the windows' elements.
    matrix = np.moveaxis(w.reshape(groups, features // groups, per, *kernel), 2, -1)
    matrix = matrix.reshape(groups, features // groups, depth)
    # Channels are closer together in memory than pixels.
    rows_first = rank == 0 or x.strides[1] < x.strides[-1]
    to_columns = (0, *range(2 + rank, 3 + 2 * rank), *range(1, 2 + rank))

    # Elements of windows for one step of the first axis.
    line = groups * depth * math.prod(spatial[1:])
    lines = spatial[0] if rank else 1
    # As many lines of output as fit a piece; several images if a whole one fits.
    piece = max(PROCESSOR.windows_near, PROCESSOR.windows_together * groups * depth)
    piece = min(PROCESSOR.windows_laid, piece)
    step = max(1, min(lines, piece // max(1, line)))
    images = max(1, piece // max(1, line * lines)) if step == lines else 1
    for first, start in itertools.product(range(0, n, images), range(0, lines, step)):
        where = (slice(None), slice(first, first + images), slice(start, start + step))
        where = where if rank else where[:2]
        part, place = view[where], target[where]
        if rows_first:
            rows = part.reshape(groups, -1, depth)
            place[...] = product(rows, matrix.swapaxes(1, 2)).reshape(place.shape)
        else:
            columns = part.transpose(to_columns).reshape(groups, depth, -1)
            # Features are the matrix's rows: put them in front of the positions.
            sums = np.moveaxis(place, -1, 1)
            sums[...] = product(matrix, columns).reshape(sums.shape)


#: out[n, o, s] = sum_{c, k} lhs[n, c, s * stride + k] * rhs[o, c, k]
conv_general_dilated_p = Primitive(
    "conv_general_dilated",
    Kind.LIBRARY,
    element=CONVOLUTION,
    aval=_conv_aval,
    numpy_pick=_conv_numpy,
    jvp=(rules.conv_left, rules.conv_right),
    transpose=rules.conv_transpose,
    batch=rules.conv_batch,
    factors=conv_factors,
    rewrite=Rewrite(windows=windows),
    weight=2.0,
)
