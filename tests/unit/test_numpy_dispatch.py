"""NumPy's own functions given our arrays (`gpuarray/numpy/dispatch.py`)."""

import sys

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp

X = gnp.arange(4.0)
N = np.ones(4, np.float32)

STAYS = {
    "ufunc": lambda: np.sin(X),
    "ufunc of two": lambda: np.add(N, X),
    "operator of an ndarray": lambda: N + X,
    "comparison by an ndarray": lambda: N == X,
    "scalar of NumPy": lambda: np.float32(3) * X,
    "reduce": lambda: np.add.reduce(X),
    "accumulate": lambda: np.maximum.accumulate(X),
    "outer": lambda: np.multiply.outer(X, X),
    "list operand": lambda: np.add(X, [1.0, 2.0, 3.0, 4.0]),
    "dtype": lambda: np.add(X, 1, dtype=np.float16),
    "function": lambda: np.sum(X),
    "function of a list": lambda: np.concatenate([X, N]),
    "where": lambda: np.where(X > 1, X, N),
    "einsum": lambda: np.einsum("i,i", X, X),
    "linalg": lambda: np.linalg.norm(X),
    "fft": lambda: np.fft.fft(X),
    "like": lambda: np.zeros_like(X),
}


@pytest.mark.parametrize("name", STAYS)
def test_result_is_ours_and_numpys_value(name):
    ours = STAYS[name]()
    assert isinstance(ours, ga.Array)
    saved, globals()["X"] = X, np.asarray(X)
    try:
        theirs = STAYS[name]()
    finally:
        globals()["X"] = saved
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_several_results():
    quotient, rest = np.divmod(X, 2)
    assert isinstance(quotient, ga.Array)
    np.testing.assert_array_equal(rest, [0, 1, 0, 1])


def test_inside_jit_and_grad():
    f = lambda x: np.mean(np.cos(x) * N)
    np.testing.assert_allclose(ga.jit(f)(X), np.cos(np.arange(4.0)).mean(), rtol=1e-6)
    np.testing.assert_allclose(ga.grad(f)(X), -np.sin(np.arange(4.0)) / 4, rtol=1e-6)


def test_numpy_array_as_target():
    target = np.ones(4, np.float32)
    target += X
    np.testing.assert_array_equal(target, [1, 2, 3, 4])
    assert np.multiply(X, 2, out=target) is target
    np.testing.assert_array_equal(target, [0, 2, 4, 6])
    total = np.zeros((), np.float32)
    assert np.sum(X, out=total) is total and total == 6
    np.copyto(target, X)
    np.testing.assert_array_equal(target, [0, 1, 2, 3])


@pytest.mark.parametrize(
    "call",
    [lambda: np.add(N, N, out=X), lambda: np.add.at(X, [0], 1), lambda: np.sum(N, out=X)],
    ids=["ufunc", "at", "function"],
)
def test_nothing_changes_in_place(call):
    with pytest.raises(TypeError, match="immutable"):
        call()
    np.testing.assert_array_equal(X, [0, 1, 2, 3])


def test_functions_without_counterpart_answer_as_for_numpy_arrays(tmp_path):
    assert np.array2string(X) == "[0. 1. 2. 3.]"
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), X)
    special = pytest.importorskip("scipy.special")
    assert type(special.erf(X)) is np.ndarray


def test_bytes_are_those_of_the_memory():
    x = gnp.arange(3, dtype="int16")
    assert bytes(x) == x.tobytes() == np.arange(3, dtype="int16").tobytes()
    assert bytes(gnp.ones((2, 2))) == np.ones((2, 2), "float32").tobytes()
    assert bytes(gnp.int32(3)) == bytes(3)
    view = x.__buffer__(0)
    assert view.format == "h" and view.tolist() == [0, 1, 2] and view.readonly
    if sys.version_info >= (3, 12):
        assert bytearray(x) == x.tobytes() and memoryview(x).shape == (3,)
