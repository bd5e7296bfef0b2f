"""Transform rules of convolutions: its transposes are convolutions, and so are batches of them.

Floor 2. The rules of convolution.py. A transposed convolution takes steps where the other had
holes and has holes where it took steps; groups of features turn into groups of the batch and back.
"""

from __future__ import annotations

from typing import Any

from gpuarray.core.avals import aval_of
from gpuarray.core.linear import is_undefined
from gpuarray.core.primitive import registry
from gpuarray.primitives.axes import move_axis
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import cast_like, zeros


def dilated(length: int, dilation: int) -> int:
    """The length of an axis whose elements stand `dilation` apart."""
    return 0 if length == 0 else 1 + dilation * (length - 1)


# ---- axes cut and joined ----


def _cut(x: Any, axis: int, outer: int) -> Any:
    """An axis as two: `outer` blocks, and what is in each."""
    shape = aval_of(x).shape
    new = (*shape[:axis], outer, shape[axis] // outer, *shape[axis + 1 :])
    return do.reshape(x, new_sizes=new, dimensions=None, sharding=None)


def _joined(x: Any, source: int, destination: int) -> Any:
    """An axis put in front of another (counted without it), and both made one."""
    shape = aval_of(x).shape
    order = [i for i in range(len(shape)) if i != source]
    order.insert(destination, source)
    moved = [shape[i] for i in order]
    moved[destination : destination + 2] = [moved[destination] * moved[destination + 1]]
    in_order = order == sorted(order)
    dimensions = None if in_order else tuple(order)
    return do.reshape(x, new_sizes=tuple(moved), dimensions=dimensions, sharding=None)


def _blocks_to(x: Any, source: int, destination: int, count: int) -> Any:
    """The `count` blocks of one axis become blocks of another, in front of what is there."""
    return x if count == 1 else _joined(_cut(x, source, count), source, destination)


# ---- derivatives ----


def conv_left(t, out, lhs, rhs, **params):
    return do.conv_general_dilated(t, rhs, **params)


def conv_right(t, out, lhs, rhs, **params):
    return do.conv_general_dilated(lhs, t, **params)


def conv_transpose(ct, lhs, rhs, **params):
    to_left = is_undefined(lhs)
    wanted, other = (lhs.aval, aval_of(rhs)) if to_left else (rhs.aval, aval_of(lhs))
    if not (wanted.size and other.size and aval_of(ct).size):
        return (zeros(wanted), None) if to_left else (None, zeros(wanted))
    ct = cast_like(ct, other)
    if params["preferred_element_type"] != wanted.dtype:
        params = params | {"preferred_element_type": None}
    if to_left:
        return _to_left(ct, wanted, rhs, **params), None
    return None, _to_right(ct, lhs, wanted, **params)


def _lengths(lhs, rhs, ct, p) -> list[tuple[int, int, int]]:
    """Of every spatial axis: how long lhs, rhs and the result are with their holes."""
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
    """Every element of lhs collects from the results it went into: kernels turned around."""
    numbers, batches = p["dimension_numbers"], p["batch_group_count"]
    lhs_spec, rhs_spec, out_spec = map(tuple, numbers)
    groups = max(p["feature_group_count"], batches)
    padding = []
    lengths = _lengths(lhs, aval_of(rhs), aval_of(ct), p)
    for (n, k, m), (low, _) in zip(lengths, p["padding"], strict=True):
        before = k - 1 - low
        padding.append((before, n + k - 1 - m - before))
    kernel = _blocks_to(rhs, rhs_spec[0], rhs_spec[1], groups)
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
    """Every weight collects over the batch: images are the batch's features, results kernels."""
    numbers = p["dimension_numbers"]
    lhs_spec, rhs_spec, out_spec = map(tuple, numbers)
    padding = []
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
    """The first two axes change places."""
    return (spec[1], spec[0], *spec[2:])


# ---- batches ----


def conv_batch(axis, args, dims, **params):
    """The extra axis joins the images' batch, the kernels' features, or makes groups of both."""
    (lhs, rhs), (d, e) = args, dims
    lhs_spec, rhs_spec, out_spec = map(tuple, params["dimension_numbers"])
    features, batches = params["feature_group_count"], params["batch_group_count"]
    if axis.size == 0:
        return _no_results(args, dims, params), 0
    if d is not None and e is not None:
        # Each element sees its own part of everything.
        by_batch = batches > 1
        lhs = _with_blocks(lhs, d, lhs_spec[0 if by_batch else 1], 1)
        rhs = _with_blocks(rhs, e, rhs_spec[0], 1)
        name, count = ("batch", batches) if by_batch else ("feature", features)
        params |= {f"{name}_group_count": count * axis.size}
        place, groups = out_spec[1], 1
    elif d is not None:
        lhs = _with_blocks(lhs, d, lhs_spec[0], batches)
        place, groups = out_spec[0], 1
    else:
        assert e is not None  # a batch rule is asked only where some operand has the axis
        groups = max(features, batches)
        rhs = _with_blocks(rhs, e, rhs_spec[0], groups)
        place = out_spec[1]
    out = do.conv_general_dilated(lhs, rhs, **params)
    if groups == 1:
        return _cut(out, place, axis.size), place
    # (groups, extra axis, features of a group): take the middle out.
    out = _cut(_cut(out, place, groups), place + 1, axis.size)
    out = move_axis(out, place + 1, 0)
    return _joined(out, place + 1, place + 1), 0


def _with_blocks(x: Any, dim: int, axis: int, groups: int) -> Any:
    """The extra axis joined to another (counted without it), inside each of its groups."""
    if groups == 1:
        return _joined(x, dim, axis)
    x = _cut(move_axis(x, dim, 0), axis + 1, groups)
    return _joined(_joined(x, 0, axis + 1), axis, axis)


def _no_results(args, dims, params) -> Any:
    """What a batch of nothing gives."""
    one = [
        a if d is None else a.update(shape=a.shape[:d] + a.shape[d + 1 :])
        for a, d in zip(map(aval_of, args), dims, strict=True)
    ]
    (out,) = registry["conv_general_dilated"].out_avals(one, params)
    return zeros(out.update(shape=(0, *out.shape)))
