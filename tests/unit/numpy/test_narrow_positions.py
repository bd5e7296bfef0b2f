"""Positions and counts in types too narrow for the length of the axis that they are about."""

import ml_dtypes
import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp

X = np.arange(300.0, dtype=np.float32)
POSITIONS = {
    np.int8: [1, -1, 100],
    np.uint8: [1, 200, 100],
    np.int16: [1, -1, 299],
    np.uint16: [1, 299, 130],
    np.uint32: [1, 5, 299],
    ml_dtypes.int4: [1, -1, 7],
    ml_dtypes.uint4: [1, 15, 7],
}


def put(x, i, mode):
    out = x.copy()
    np.put(out, i, [7.0, 8.0, 9.0], mode=mode)
    return out


def added(x, i):
    out = x.copy()
    np.add.at(out, i, 1.0)
    return out


#: What ours does with an array and positions, and what NumPy does with 64-bit ones.
TAKING = {
    "getitem": (lambda x, i: x[i], lambda x, i: x[i]),
    "add": (lambda x, i: x.at[i].add(1.0), added),
    "insert": (lambda x, i: gnp.insert(x, i, 7.0), lambda x, i: np.insert(x, i, 7.0)),
    "delete": (lambda x, i: gnp.delete(x, i), np.delete),
    "put": (
        lambda x, i: gnp.put(x, i, gnp.array([7.0, 8.0, 9.0]), inplace=False),
        lambda x, i: put(x, i % 300, "clip"),
    ),
    "put wrap": (
        lambda x, i: gnp.put(x, i, gnp.array([7.0, 8.0, 9.0]), mode="wrap", inplace=False),
        lambda x, i: put(x, i, "wrap"),
    ),
}


@pytest.mark.parametrize("dtype", POSITIONS, ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("name", TAKING)
def test_positions(name, dtype):
    ours, numpys = TAKING[name]
    wide = np.array(POSITIONS[dtype])
    narrow = wide.astype(dtype)
    expected = numpys(X, wide)
    for i in (narrow, gnp.asarray(narrow)):
        np.testing.assert_array_equal(ours(gnp.asarray(X), i), expected)


@pytest.mark.parametrize("dtype", POSITIONS, ids=lambda t: np.dtype(t).name)
def test_segments_without_a_number(dtype):
    ids = np.abs(POSITIONS[dtype])
    sums = ga.ops.segment_sum(gnp.asarray(X[:3]), ids.astype(dtype))
    np.testing.assert_array_equal(sums, np.bincount(ids, X[:3]))


@pytest.mark.parametrize("position", [np.int8(-1), np.int8(100), np.uint8(200), np.int16(-300)])
def test_one_position(position):
    x = gnp.asarray(X)
    assert x[position] == X[int(position)]
    assert x[None, position][0] == X[int(position)]
    np.testing.assert_array_equal(x.at[position].set(-1.0), np.where(X == X[int(position)], -1, X))
    np.testing.assert_array_equal(gnp.insert(x, position, 0.5), np.insert(X, int(position), 0.5))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32])
@pytest.mark.parametrize("total", [100, 300, 320])
def test_repeats_within_a_program(dtype, total):
    counts = np.array([100, 100, 100], dtype)
    x = gnp.array([1.0, 2.0, 3.0])
    made = ga.jit(lambda n: gnp.repeat(x, n, total_repeat_length=total))(counts)
    whole = np.repeat([1.0, 2.0, 3.0], [100, 100, 120])
    np.testing.assert_array_equal(made, whole[:total])
