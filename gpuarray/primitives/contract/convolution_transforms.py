"""Transform rules of convolution, whose transposes and batches are convolutions too.

Floor 2. In: the operands of a rule. Out: values computed by convolutions and reshapes. In the
transpose strides become dilations and dilations strides; groups of features become groups of the
batch and vice versa.
"""

from __future__ import annotations

from typing import Any

from gpuarray.core.avals import aval_of
from gpuarray.core.linear import is_undefined
from gpuarray.core.primitive import registry
from gpuarray.primitives.axes import move_axis
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import as_factor, cast_like, zeros


def dilated(length: int, dilation: int) -> int:
    """Return the length of an axis with its elements `dilation` apart."""
    return 0 if length == 0 else 1 + dilation * (length - 1)


# ---- splitting and merging axes ----


def _cut(x: Any, axis: int, outer: int) -> Any:
    """Split an axis into `outer` blocks and the elements of each."""
    shape = aval_of(x).shape
    # Blocks are runs of neighbours, so a reshape splits them.
    new = (*shape[:axis], outer, shape[axis] // outer, *shape[axis + 1 :])
    return do.reshape(x, new_sizes=new, dimensions=None, sharding=None)


def _joined(x: Any, source: int, destination: int) -> Any:
    """Move an axis in front of another (counted without it), and merge the two."""
    shape = aval_of(x).shape
    order = [i for i in range(len(shape)) if i != source]
    order.insert(destination, source)
    sizes = [shape[i] for i in order]
    sizes[destination : destination + 2] = [sizes[destination] * sizes[destination + 1]]
    # Neighbours in order need no transpose.
    in_order = order == sorted(order)
    dimensions = None if in_order else tuple(order)
    return do.reshape(x, new_sizes=tuple(sizes), dimensions=dimensions, sharding=None)


def _blocks_to(x: Any, source: int, destination: int, count: int) -> Any:
    """Move the `count` blocks of one axis to another, in front of the elements there."""
    # One block is the whole axis.
    return x if count == 1 else _joined(_cut(x, source, count), source, destination)


# ---- derivatives ----


# Convolution is linear in each operand.
def conv_left(t, out, lhs, rhs, **params):
    return do.conv_general_dilated(t, rhs, **params)


def conv_right(t, out, lhs, rhs, **params):
    return do.conv_general_dilated(lhs, t, **params)


def conv_transpose(ct, lhs, rhs, **params):
    to_right = is_undefined(rhs)
    wanted, other = (rhs.aval, lhs) if to_right else (lhs.aval, rhs)
    # An empty operand gets zeros: an empty convolution has no windows.
    if not (wanted.size and aval_of(other).size and aval_of(ct).size):
        return (None, zeros(wanted)) if to_right else (zeros(wanted), None)
    # Both factors have one dtype: that of the operands, or of the cotangent if it holds more.
    ct = as_factor(ct, wanted, other)
    other = cast_like(other, aval_of(ct))
    if params["preferred_element_type"] != aval_of(ct).dtype:
        params = params | {"preferred_element_type": None}
    if to_right:
        return None, cast_like(_to_right(ct, other, wanted, **params), wanted)
    return cast_like(_to_left(ct, wanted, other, **params), wanted), None


def _lengths(lhs, rhs, ct, p) -> list[tuple[int, int, int]]:
    """Return the dilated lengths of lhs, rhs and the result along each spatial axis."""
    numbers = p["dimension_numbers"]
    return [
        (dilated(lhs.shape[a], d), dilated(rhs.shape[b], e), dilated(ct.shape[c], s))
        for a, b, c, d, e, s in zip(
            numbers.lhs_spec[2:],
            numbers.rhs_spec[2:],
            numbers.out_spec[2:],
            p["lhs_dilation"],
            p["rhs_dilation"],
            p["window_strides"],
            strict=True,
        )
    ]


def _to_left(ct, lhs, rhs, **p):
    """Return the cotangent of lhs: each element collects from the results it went into.

    It is the convolution of `ct` with flipped kernels, full where the other was valid.
    """
    numbers, batches = p["dimension_numbers"], p["batch_group_count"]
    lhs_spec, rhs_spec, out_spec = map(tuple, numbers)
    groups = max(p["feature_group_count"], batches)
    padding = []
    lengths = _lengths(lhs, aval_of(rhs), aval_of(ct), p)
    # Padding such that the result has the length of lhs; the padding of both sides is
    # complementary.
    for (n, k, m), (low, _) in zip(lengths, p["padding"], strict=True):
        before = k - 1 - low
        padding.append((before, n + k - 1 - m - before))
    # Feature groups stay groups, with inputs and outputs of each swapped.
    kernel = _blocks_to(rhs, rhs_spec[0], rhs_spec[1], groups)
    # Flipped along all spatial axes: the result at i saw the element at i + k through weight k.
    if rhs_spec[2:]:
        kernel = do.rev(kernel, dimensions=rhs_spec[2:])
    grad = do.conv_general_dilated(
        ct,
        kernel,
        **p
        | {
            "window_strides": p["lhs_dilation"],
            "padding": tuple(padding),
            "lhs_dilation": p["window_strides"],
            "dimension_numbers": type(numbers)(out_spec, _swapped(rhs_spec), lhs_spec),
            "feature_group_count": groups,
            "batch_group_count": 1,
        },
    )
    return _blocks_to(grad, lhs_spec[1], lhs_spec[0], batches)


def _to_right(ct, lhs, rhs, **p):
    """Return the cotangent of rhs: each weight collects over the batch.

    It is a convolution in which lhs's features are the batch, and its batch is summed over.
    """
    numbers = p["dimension_numbers"]
    lhs_spec, rhs_spec, out_spec = map(tuple, numbers)
    padding = []
    # Padding such that the result has the length of the kernels.
    lengths = _lengths(aval_of(lhs), rhs, aval_of(ct), p)
    for (n, k, m), (low, _) in zip(lengths, p["padding"], strict=True):
        padding.append((low, k - 1 + m - n - low))
    return do.conv_general_dilated(
        lhs,
        ct,
        **p
        | {
            "window_strides": p["rhs_dilation"],
            "padding": tuple(padding),
            "rhs_dilation": p["window_strides"],
            "dimension_numbers": type(numbers)(
                _swapped(lhs_spec), _swapped(out_spec), _swapped(rhs_spec)
            ),
            "feature_group_count": p["batch_group_count"],
            "batch_group_count": p["feature_group_count"],
        },
    )


def _swapped(spec):
    """Swap the first two axes."""
    return (spec[1], spec[0], *spec[2:])


# ---- batches ----


def conv_batch(axis, args, dims, **params):
    """Merge the batch axis into that of the images, the features of the kernels, or the groups."""
    (lhs, rhs), (d, e) = args, dims
    lhs_spec, rhs_spec, out_spec = map(tuple, params["dimension_numbers"])
    features, batches = params["feature_group_count"], params["batch_group_count"]
    # A convolution needs at least one group.
    if axis.size == 0:
        return _no_results(args, dims, params), 0
    if d is not None and e is not None:
        # Each batch element has its own images and kernels: it becomes a group.
        by_batch = batches > 1
        lhs = _with_blocks(lhs, d, lhs_spec[0 if by_batch else 1], 1)
        rhs = _with_blocks(rhs, e, rhs_spec[0], 1)
        name, count = ("batch", batches) if by_batch else ("feature", features)
        params |= {f"{name}_group_count": count * axis.size}
        place, groups = out_spec[1], 1
    elif d is not None:
        # Separate images, shared kernels: more images.
        lhs = _with_blocks(lhs, d, lhs_spec[0], batches)
        place, groups = out_spec[0], 1
    else:
        assert e is not None  # a batch rule is asked only where some operand has the axis
        # Separate kernels: more output features, inside each group.
        groups = max(features, batches)
        rhs = _with_blocks(rhs, e, rhs_spec[0], groups)
        place = out_spec[1]
    out = do.conv_general_dilated(lhs, rhs, **params)
    if groups == 1:
        return _cut(out, place, axis.size), place
    # Features are ordered (groups, batch axis, features of a group): take the middle axis out.
    out = _cut(_cut(out, place, groups), place + 1, axis.size)
    out = move_axis(out, place + 1, 0)
    return _joined(out, place + 1, place + 1), 0


def _with_blocks(x: Any, dim: int, axis: int, groups: int) -> Any:
    """Merge the batch axis into another (counted without it), inside each of its groups."""
    if groups == 1:
        return _joined(x, dim, axis)
    # Split the axis into groups, put the batch axis inside each, and merge all three.
    x = _cut(move_axis(x, dim, 0), axis + 1, groups)
    return _joined(_joined(x, 0, axis + 1), axis, axis)


def _no_results(args, dims, params) -> Any:
    """Return the result for a batch of no elements."""
    # Shapes of one batch element: there is no batch element.
    one = [
        a if d is None else a.update(shape=a.shape[:d] + a.shape[d + 1 :])
        for a, d in zip(map(aval_of, args), dims, strict=True)
    ]
    (out,) = registry["conv_general_dilated"].out_avals(one, params)
    return zeros(out.update(shape=(0, *out.shape)))
