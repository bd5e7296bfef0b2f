"""Functions that move elements and make arrays: values, dtypes, weak types and errors."""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
from gpuarray import lax
from gpuarray.core.avals import ShapedArray
from gpuarray.core.primitive import Kind, registry
from gpuarray.lax.shapes import as_array
from tests import samples_folds, samples_indexing, samples_movement
from tests.samples import dtype_named, samples, values
from tests.support.sampled import each_sample

X = np.arange(12, dtype=np.float32).reshape(3, 4)
I = X.astype(np.int32)
V = np.arange(4, dtype=np.float32)

#: A call, and its result as NumPy computes it.
VALUES = {
    "broadcast_in_dim": (
        lambda: lax.broadcast_in_dim(X, (2, 3, 4), (1, 2)),
        np.broadcast_to(X, (2, 3, 4)),
    ),
    "broadcast_in_dim of a column": (
        lambda: lax.broadcast_in_dim(V, (4, 2), (0,)),
        np.repeat(V[:, None], 2, 1),
    ),
    "broadcast_in_dim turned": (lambda: lax.broadcast_in_dim(X, (4, 3), (1, 0)), X.T),
    "broadcast": (lambda: lax.broadcast(V, (2, 1)), np.broadcast_to(V, (2, 1, 4))),
    "broadcast_to_rank": (lambda: lax.broadcast_to_rank(V, 3), V[None, None]),
    "broadcast_like": (lambda: lax.broadcast_like(V, X), np.broadcast_to(V, (3, 4))),
    "reshape": (lambda: lax.reshape(X, (4, 3)), X.reshape(4, 3)),
    "reshape turned": (lambda: lax.reshape(X, (4, 3), (1, 0)), X.T.reshape(4, 3)),
    "collapse": (lambda: lax.collapse(X[None], 0, 2), X),
    "collapse nothing": (lambda: lax.collapse(X, 1, 1), X[:, None]),
    "squeeze": (lambda: lax.squeeze(X[:1], (-2,)), X[0]),
    "expand_dims": (lambda: lax.expand_dims(X, (0, -1)), X[None, :, :, None]),
    "transpose": (lambda: lax.transpose(X, (1, 0)), X.T),
    "rev": (lambda: lax.rev(X, (1,)), X[:, ::-1]),
    "slice": (lambda: lax.slice(X, (1, 0), (3, 4), (1, 3)), X[1:3, 0:4:3]),
    "slice of nothing": (lambda: lax.slice(X, (3, 0), (3, 4)), X[3:3]),
    "slice_in_dim": (lambda: lax.slice_in_dim(X, -3, None, 2, 1), X[:, -3::2]),
    "index_in_dim": (lambda: lax.index_in_dim(X, -1, 1, False), X[:, -1]),
    "pad": (
        lambda: lax.pad(V, np.float32(9), [(1, 2, 1)]),
        np.array([9, 0, 9, 1, 9, 2, 9, 3, 9, 9], np.float32),
    ),
    "pad by less than nothing": (
        lambda: lax.pad(V, np.float32(9), [(-1, -2, 1)]),
        np.array([9, 1, 9, 2], np.float32),
    ),
    "pad with all cut off": (lambda: lax.pad(X, 0.0, [(-3, 0, 0), (0, 0, 0)]), X[:0]),
    "concatenate": (lambda: lax.concatenate([X, X[:, :0], X], 1), np.concatenate([X, X], 1)),
    "stack": (lambda: lax.stack([V, V + 1], 1), np.stack([V, V + 1], 1)),
    "unstack": (lambda: lax.unstack(X, -1)[2], X[:, 2]),
    "split": (lambda: lax.split(X, (1, 0, 3), -1)[2], X[:, 1:]),
    "tile": (lambda: lax.tile(X, (2, 3)), np.tile(X, (2, 3))),
    "tile of a tile": (lambda: lax.tile(X, (0, 1)), X[:0]),
    "full": (lambda: lax.full((2, 3), 7, np.int8), np.full((2, 3), 7, np.int8)),
    "full wraps": (lambda: lax.full((1,), 300, np.int8), np.array([44], np.int8)),
    "full saturates": (lambda: lax.full((1,), 300.5, np.int8), np.array([127], np.int8)),
    "full_like": (lambda: lax.full_like(I, 2.5), np.full((3, 4), 2, np.int32)),
    "iota": (lambda: lax.iota(np.float32, 3), np.arange(3, dtype=np.float32)),
    "iota wraps": (lambda: lax.iota(np.int8, 200), np.arange(200).astype(np.int8)),
    "iota rounds": (lambda: lax.iota(np.float16, 2100), np.arange(2100).astype(np.float16)),
    "broadcasted_iota": (lambda: lax.broadcasted_iota(np.int32, (2, 3), 1), np.indices((2, 3))[1]),
    "dynamic_slice": (lambda: lax.dynamic_slice(X, (1, 2), (2, 2)), X[1:, 2:]),
    "dynamic_slice moved inside": (lambda: lax.dynamic_slice(X, (2, 9), (2, 2)), X[1:, 2:]),
    "dynamic_slice from the end": (lambda: lax.dynamic_slice(X, (-1, -2), (1, 2)), X[2:, 2:]),
    "dynamic_slice far before": (lambda: lax.dynamic_slice(X, (-9, 0), (1, 2)), X[:1, :2]),
    "dynamic_slice by an array": (
        lambda: lax.dynamic_slice(X, as_array(np.array([-1, 1])), (1, 2)),
        X[2:, 1:3],
    ),
    "dynamic_slice by one unsigned": (
        lambda: lax.dynamic_slice(V, (as_array(np.uint8(200)),), (2,)),
        V[2:],
    ),
    "dynamic_slice_in_dim": (lambda: lax.dynamic_slice_in_dim(X, 1, 2, -1), X[:, 1:3]),
    "dynamic_index_in_dim": (lambda: lax.dynamic_index_in_dim(X, -1, 0, False), X[2]),
    "dynamic_update_slice": (
        lambda: lax.dynamic_update_slice(V, -V[:2], (9,)),
        np.array([0, 1, -0.0, -1], np.float32),
    ),
    "dynamic_update_slice_in_dim": (
        lambda: lax.dynamic_update_slice_in_dim(X, -X[:1], 1, 0),
        np.stack([X[0], -X[0], X[2]]),
    ),
    "dynamic_update_index_in_dim": (
        lambda: lax.dynamic_update_index_in_dim(X, -X[0], -1, 0),
        np.stack([X[0], X[1], -X[0]]),
    ),
    "index_take": (
        lambda: lax.index_take(X, (np.array([0, 7]), np.array([1, -1])), (0, 1)),
        X[[0, 1], [1, 3]],
    ),
    "shape_as_value": (lambda: lax.shape_as_value((2, 3)), np.array([2, 3], np.int32)),
}


@pytest.mark.parametrize("name", VALUES)
def test_value(name):
    call, expected = VALUES[name]
    got = call()
    assert got.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(got), expected)
    if expected.dtype != np.int64:
        assert got.dtype == expected.dtype


#: A call, the type of its error, and the words that must be in it.
ERRORS = {
    "broadcast_in_dim repeats": (
        lambda: lax.broadcast_in_dim(X, (2, 3, 4), (1, 1)),
        TypeError,
        "broadcast_dimensions must be distinct",
    ),
    "broadcast_in_dim too few": (
        lambda: lax.broadcast_in_dim(X, (2, 3, 4), (1,)),
        TypeError,
        "must have length equal to operand ndim",
    ),
    "broadcast_in_dim beyond": (
        lambda: lax.broadcast_in_dim(X, (2, 3, 4), (1, 3)),
        TypeError,
        "must be a subset of output dimensions",
    ),
    "broadcast_in_dim negative": (
        lambda: lax.broadcast_in_dim(X, (2, 3, -4), (0, 1)),
        TypeError,
        "shape must have every element be nonnegative",
    ),
    "broadcast_in_dim stretches": (
        lambda: lax.broadcast_in_dim(X, (2, 3, 5), (1, 2)),
        TypeError,
        "must either be 1, or be equal",
    ),
    "reshape size": (
        lambda: lax.reshape(X, (5,)),
        ValueError,
        r"number of output elements \(5\).*expected number of elements \(12\)",
    ),
    "reshape -1": (lambda: lax.reshape(X, (-1,)), TypeError, "gpuarray.numpy.reshape"),
    "reshape float": (lambda: lax.reshape(X, (3.0, 4)), TypeError, "Shapes must be 1D sequences"),
    "reshape order": (lambda: lax.reshape(X, (4, 3), (0,)), TypeError, "must be a permutation"),
    "squeeze": (lambda: lax.squeeze(X, (0,)), ValueError, "size not equal to one"),
    "squeeze beyond": (lambda: lax.squeeze(X, (2,)), ValueError, "axis 2 is out of bounds"),
    "squeeze twice": (lambda: lax.squeeze(X[:1], (0, -2)), ValueError, "not unique"),
    "expand_dims twice": (lambda: lax.expand_dims(X, (1, -3)), ValueError, "repeated axis"),
    "transpose": (lambda: lax.transpose(X, (0, 0)), TypeError, "isn't a permutation"),
    "rev beyond": (lambda: lax.rev(X, (2,)), TypeError, "less than operand ndim"),
    "rev twice": (lambda: lax.rev(X, (0, 0)), TypeError, "must be unique"),
    "slice beyond": (lambda: lax.slice(X, (0, 0), (9, 4)), TypeError, "limit_indices must be less"),
    "slice backwards": (lambda: lax.slice(X, (2, 0), (1, 4)), TypeError, "greater than or equal"),
    "slice stride": (lambda: lax.slice(X, (0, 0), (3, 4), (0, 1)), TypeError, "must be positive"),
    "slice rank": (lambda: lax.slice(X, (0,), (3,)), TypeError, "number of dimensions"),
    "index_in_dim": (lambda: lax.index_in_dim(X, 3), IndexError, "index 3 is out of bounds"),
    "pad dtype": (lambda: lax.pad(X, 0, [(0, 0, 0)] * 2), TypeError, "must be same dtype"),
    "pad rank": (lambda: lax.pad(X, 0.0, [(0, 0, 0)]), ValueError, "length of padding_config"),
    "pad interior": (
        lambda: lax.pad(X, 0.0, [(0, 0, -1), (0, 0, 0)]),
        ValueError,
        "interior padding",
    ),
    "pad size": (
        lambda: lax.pad(X, 0.0, [(-2, -2, 0), (0, 0, 0)]),
        ValueError,
        "Dimension size after padding is not at least 0",
    ),
    "pad value": (
        lambda: lax.pad(X, V, [(0, 0, 0)] * 2),
        ValueError,
        "padding_value must be a scalar",
    ),
    "concatenate nothing": (lambda: lax.concatenate([], 0), ValueError, "non-empty"),
    "concatenate dtypes": (lambda: lax.concatenate([X, I], 0), TypeError, "same dtypes"),
    "concatenate ranks": (lambda: lax.concatenate([X, V], 0), TypeError, "different numbers"),
    "concatenate shapes": (
        lambda: lax.concatenate([X, X[:, :2]], 0),
        TypeError,
        "differ in dimensions other than",
    ),
    "concatenate axis": (lambda: lax.concatenate([X, X], 2), TypeError, "out of bounds"),
    "stack ranks": (lambda: lax.stack([X, V]), ValueError, "different numbers"),
    "unstack scalar": (lambda: lax.unstack(1.0), ValueError, "axis 0 is out of bounds"),
    "split sum": (lambda: lax.split(X, (1, 1)), ValueError, "Sum of sizes 2 must be equal"),
    "split sign": (lambda: lax.split(X, (-1, 4)), ValueError, "must be nonnegative"),
    "tile": (lambda: lax.tile(X, (2,)), TypeError, "reps length"),
    "full of a list": (lambda: lax.full((2,), [1]), TypeError, "scalar fill_value"),
    "full of text": (lambda: lax.full((2,), "a"), TypeError, "full"),
    "full_like of a list": (lambda: lax.full_like([1], 2), TypeError, "Cannot determine dtype"),
    "iota bool": (lambda: lax.iota(bool, 3), TypeError, "iota does not accept dtype bool"),
    "iota axis": (
        lambda: lax.broadcasted_iota(np.int32, (3, 4), 2),
        ValueError,
        "iota dimension must be between",
    ),
    "dynamic_slice rank": (
        lambda: lax.dynamic_slice(X, (0,), (2, 2)),
        ValueError,
        r"1 vs \(3, 4\)",
    ),
    "dynamic_slice size": (
        lambda: lax.dynamic_slice(X, (0, 0), (4, 2)),
        TypeError,
        "slice_sizes must be less than or equal",
    ),
    "dynamic_slice float": (
        lambda: lax.dynamic_slice(X, (0, 0.0), (2, 2)),
        TypeError,
        "must be integers of the same type, got: int32, float32",
    ),
    "dynamic_slice vector": (
        lambda: lax.dynamic_slice(X, (0, V), (2, 2)),
        TypeError,
        "must be scalars",
    ),
    "dynamic_slice negative": (
        lambda: lax.dynamic_slice(V, (-1,), (1,), allow_negative_indices=False),
        ValueError,
        "Index -1 is out of bounds for dimension 4",
    ),
    "dynamic_update_slice rank": (
        lambda: lax.dynamic_update_slice(X, V, (0, 0)),
        TypeError,
        "same rank as operand",
    ),
    "dynamic_update_slice dtype": (
        lambda: lax.dynamic_update_slice(X, I, (0, 0)),
        TypeError,
        "same dtypes",
    ),
    "broadcast_shapes": (
        lambda: lax.broadcast_shapes((2,), (3,)),
        ValueError,
        "Incompatible shapes for broadcasting",
    ),
    "broadcast_like": (lambda: lax.broadcast_like(X, V), ValueError, "fewer dimensions"),
    "collapse": (lambda: lax.collapse(X, 2, 1), ValueError, "Invalid dimension range"),
    "a list": (lambda: lax.transpose([1.0], (0,)), TypeError, "to transpose as a JAX value"),
    "rng_uniform dtypes": (lambda: lax.rng_uniform(0, 1.0, (2,)), ValueError, "identical dtypes"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(name):
    call, kind, words = ERRORS[name]
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (((2, 1), (3,), ()), (2, 3)),
        (((0,), (1,)), (0,)),
        (((4, 1, 3), (5, 1)), (4, 5, 3)),
        (((),), ()),
    ],
)
def test_broadcast_shapes(shapes, expected):
    assert lax.broadcast_shapes(*shapes) == expected


def test_weak_types_follow_the_elements():
    weak = lax.full((3,), 1.0)
    assert weak.weak_type and lax.rev(weak, (0,)).weak_type and lax.stack([weak, weak]).weak_type
    assert not lax.full((3,), 1.0, np.float32).weak_type
    assert not lax.concatenate([weak, as_array(V)], 0).weak_type
    assert not lax.pad(weak, np.float32(0), [(0, 0, 1)]).weak_type
    assert lax.full_like(weak, 2).weak_type and not lax.full_like(V, 2).weak_type


def test_arrays_that_need_no_change_are_returned():
    x = as_array(X)
    same = [
        lax.reshape(x, (3, 4)),
        lax.transpose(x, (0, 1)),
        lax.squeeze(x, ()),
        lax.broadcast(x, ()),
        lax.concatenate([x], 0),
    ]
    assert all(y is x for y in same)


def test_rng_uniform_stays_in_its_interval():
    got = np.asarray(lax.rng_uniform(np.float32(2), np.float32(3), (1000,)))
    assert got.min() >= 2 and got.max() < 3 and got.std() > 0.2
    whole = np.asarray(lax.rng_uniform(2, 5, (1000,)))
    assert set(whole.tolist()) == {2, 3, 4}


def test_random_keys_move_as_elements():
    key = dtype_named("key<fry>")
    words = np.array([1, 2, 3], np.uint64)
    padded = registry["pad"].numpy_function(
        [ShapedArray((3,), key), ShapedArray((), key)], {"padding_config": ((1, 0, 1),)}
    )
    np.testing.assert_array_equal(padded(words, words[0]), [1, 1, 1, 2, 1, 3])
    filled = registry["broadcast_in_dim"].numpy_function(
        [ShapedArray((), key)], {"shape": (2,), "broadcast_dimensions": (), "sharding": None}
    )
    np.testing.assert_array_equal(filled(words[2]), [3, 3])


OWN = {*samples_movement.SAMPLES, *samples_indexing.SAMPLES, *samples_folds.SAMPLES}


@each_sample(samples(lambda p: p.name in OWN))
def test_rules_leave_operands_alone(sample):
    """Operands are never written, and only views may share their memory."""
    with ga.enable_x64(True):
        avals = sample.avals
        given = values(sample)
        before = [x.tobytes() for x in given]
        rule = sample.primitive.numpy_function(avals, sample.params)
        with np.errstate(all="ignore"):
            out = rule(*given)
        wanted = sample.primitive.out_avals(avals, sample.params)
    out = list(out) if sample.primitive.multiple_results else [out]
    assert [x.tobytes() for x in given] == before
    assert [np.shape(x) for x in out] == [a.shape for a in wanted]
    if sample.primitive.kind is not Kind.VIEW:
        shared = [np.may_share_memory(x, y) for x in out for y in given if np.size(x)]
        assert not any(shared)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: lax.broadcast_shapes((-1,)), "non-negative"),
        (lambda: lax.broadcast_shapes((2.5,), (1,)), "integer"),
        (lambda: lax.shape_as_value(5), "iterable"),
        (lambda: lax.padtype_to_pads((5,), (3,), (1,), [(1, 1)]), "Unknown padding type"),
        (lambda: lax.index_take(V, (I[:1],), (0,)), "one axis"),
        (lambda: lax.linalg.symmetric_product(V, X), "rank at least 2"),
        (lambda: lax.conv_general_dilated_patches(X[None], (3, 3), (1,), "VALID"), "filter_shape"),
    ],
)
def test_what_is_no_shape(call, error):
    with pytest.raises(TypeError, match=error):
        call()


def test_what_has_no_dtype_and_what_does_not_broadcast():
    with pytest.raises(ValueError, match="Invalid argument to dtype"):
        lax.dtype(None)
    with pytest.raises(ValueError, match="Incompatible"):
        lax.broadcast_like(V, V[:2])
    with pytest.raises(NameError, match="unbound axis name: 5"):
        lax.axis_index(5)
