"""NumPy's own functions given our arrays (`gpuarray/numpy/dispatch.py`)."""

import sys
from pathlib import Path

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.config import strict

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
    assert np.add(target, X, out=target) is target
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


@pytest.mark.parametrize(
    "write",
    [
        lambda a, v: np.copyto(a, v),
        lambda a, v: np.copyto(dst=a, src=v, where=v > 1),
        lambda a, v: np.copyto(src=v, dst=a),
        lambda a, v: np.put(v=v, ind=[0, 2], a=a),
        lambda a, v: np.place(a, np.asarray(v) > 1, v),
        lambda a, v: np.putmask(a, v > 1, v),
        lambda a, v: np.put_along_axis(a, np.array([3, 1]), v[:2], 0),
        lambda a, v: np.fill_diagonal(a.reshape(2, 2), v[:2]),
        lambda a, v: np.add.at(a, [0, 0, 2], v[:3]),
        lambda a, v: np.add(v, [1, 2, 3, 4], out=a),
        lambda a, v: np.add(v, 1, a),
        lambda a, v: np.add(v, 1, where=v > 1, out=a),
        lambda a, v: np.add(v, 1, where=[True, False, True, False], out=(a,)),
        lambda a, v: np.add.accumulate(v, out=a),
        lambda a, v: np.add.reduce(v, out=a[1, ...]),
        lambda a, v: np.multiply.outer(v, 2, out=a),
        lambda a, v: np.cumsum(v, out=a),
        lambda a, v: np.cumsum(v, 0, None, a),
        lambda a, v: np.clip(v, 1, 2, out=a),
        lambda a, v: np.clip(v, 1, 2, a),
        lambda a, v: np.concatenate([v[:2], [7, 8]], out=a),
        lambda a, v: np.dot(np.eye(4, dtype=np.float32), v, out=a),
        lambda a, v: np.take(v, [3, 2, 1, 0], out=a),
        lambda a, v: np.einsum("i,i->i", v, v, out=a),
        lambda a, v: np.stack([v, v], out=a.reshape(4, 1)[:, 0][None].repeat(2, 0)),
        lambda a, v: np.modf(v, a),
        lambda a, v: np.median(v, out=a[0, ...]),
        lambda a, v: np.multiply(v, 2, out=a, casting="unsafe", dtype=np.float32),
    ],
)
def test_writes_into_numpy_arrays(write):
    """As NumPy does, whatever is ours among the other arguments; and no fallback."""
    a, b = np.full(4, 9.0, np.float32), np.full(4, 9.0, np.float32)
    value = np.array([0.5, 1.5, 2.5, 0.0], np.float32)
    with strict(True):
        write(a, gnp.asarray(value))
    write(b, value)
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "call",
    [
        lambda: np.copyto(X, N),
        lambda: np.put(X, [0], 1),
        lambda: np.place(X, N > 0, 1),
        lambda: np.putmask(X, N > 0, 1),
        lambda: np.fill_diagonal(gnp.eye(2), 1),
        lambda: np.put_along_axis(X, np.array([0]), 1, 0),
        lambda: np.cumsum(N, 0, None, X),
        lambda: np.clip(N, 0, 1, X),
        lambda: np.modf(N, out=(None, X)),
        lambda: np.median(N, out=X),
        lambda: np.add.reduceat(N, [0, 1, 2, 3], out=X),
    ],
)
def test_every_way_of_writing_into_an_array_is_refused(call):
    with pytest.raises(TypeError, match="immutable"):
        call()
    np.testing.assert_array_equal(X, [0, 1, 2, 3])


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda x: np.concatenate([x, [[1.0]]]), ValueError),
        (lambda x: np.take(x, [0, 9]), IndexError),
        (lambda x: np.take(x, 9), IndexError),
        (lambda x: np.take_along_axis(x, np.array([9]), 0), IndexError),
        (lambda x: np.delete(x, 9), IndexError),
        (lambda x: np.sum(x, axis=3), np.exceptions.AxisError),
        (lambda x: np.add(x, [1, 2]), ValueError),
        (lambda x: np.add(x, 1, dtype=np.int32), TypeError),
        (lambda x: np.sqrt(x, casting="no", dtype=np.float16), TypeError),
        (lambda x: np.stack([x, x], dtype=np.int32), TypeError),
        (lambda x: np.concatenate([x, x], dtype=np.float16, casting="safe"), TypeError),
        (lambda x: np.reshape(x, (3, 3)), ValueError),
        (lambda x: np.sum(x, out=np.zeros(5)), ValueError),
        (lambda x: np.add(x, 1, out=np.zeros(4, np.int32)), TypeError),
        (lambda x: np.sort(x, order="field"), ValueError),
        (lambda x: np.percentile(x, 101), ValueError),
        (lambda x: np.linalg.inv(x), np.linalg.LinAlgError),
        (lambda x: np.linalg.inv(np.outer(x, x)), np.linalg.LinAlgError),
        (lambda x: np.linalg.solve(np.outer(x, x), [1, 2, 3, 4]), np.linalg.LinAlgError),
        (lambda x: np.linalg.cholesky(-np.diag(x + 1)), np.linalg.LinAlgError),
        (lambda x: np.linalg.svd(np.outer(x, x) * np.nan), np.linalg.LinAlgError),
        (lambda x: np.maximum.reduce(x[:0]), ValueError),
        (lambda x: np.where([True, False], x), ValueError),
    ],
)
def test_what_numpy_refuses_is_refused_with_its_error(call, error):
    with pytest.raises(error):
        call(np.arange(4, dtype=np.float32))
    with pytest.raises(error):
        call(X)


def test_lists_inside_jit():
    def f(x):
        y = np.concatenate([x, [1.0]]) + np.percentile(x, [25, 75])[0]
        z = np.where([True, False, True], y[:3], np.sort(x, kind="stable")[:3])
        return z, np.allclose(x, x)

    expected, same = f(np.arange(4.0))
    found, traced = ga.jit(f)(X)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert bool(traced) is same is True
    np.testing.assert_array_equal(ga.jit(lambda x: np.take(x, [2, 0]))(X), [2, 0])
    slope = ga.grad(lambda x: np.interp(0.5, [0, 1, 2, 3], x) + np.dot(x, [1, 2, 3, 4]))(X)
    np.testing.assert_allclose(slope, [1.5, 2.5, 3, 4])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.emath.sqrt(x),
        lambda x: np.array2string(x),
        lambda x: np.copyto(np.zeros(4), x),
        lambda x: np.add(x, 1, out=np.zeros(4)),
    ],
)
def test_values_that_are_not_known_yet_cannot_leave_the_device(call):
    with pytest.raises(ga.errors.TracerArrayConversionError):
        ga.jit(call)(X)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.polymul(x + 1, [1, 2]),
        lambda x: np.polydiv(x + 1, [1, 2])[0],
        lambda x: np.linalg.lstsq(x[:, None], [1, 2, 3, 4])[0],
        lambda x: np.array_equal(x, [0, 1, 2, 3]),
        lambda x: np.histogram(x, [0, 1, 2, 4])[0],
        lambda x: np.stack(np.meshgrid(x, [1, 2])),
        lambda x: np.where(x > 1, np.add(x, 1, where=[False, False, True, True], out=None), 0),
        lambda x: np.linalg.inv(np.diag(x + 1)),
        lambda x: x * len(np.einsum_path("i,i,ij", x, [1, 2, 3, 4], np.ones((4, 2)))[0]),
    ],
)
def test_inside_jit_as_outside(call):
    np.testing.assert_allclose(ga.jit(call)(X), call(np.arange(4.0)), rtol=1e-5, atol=1e-6)


def test_inside_jit_our_own_refusal_is_the_error():
    with pytest.raises(ga.errors.ConcretizationTypeError):
        ga.jit(lambda x: np.nonzero(x)[0])(X)
    with pytest.raises(ga.errors.ConcretizationTypeError):
        ga.jit(lambda x: np.roots(np.array([1, -3, 2], like=x)))(X)
    with pytest.raises(TypeError, match="argument"):
        ga.jit(lambda x: np.clip(x, 0, 1, dtype=np.float32))(X)


def test_settings_about_promotion_are_not_about_numpys_functions():
    """In JAX these get NumPy arrays, which promote as ever."""
    n, two = gnp.arange(4), np.ones((2, 4), "f")
    with ga.numpy_rank_promotion("raise"), ga.numpy_dtype_promotion("strict"):
        assert np.add(two, gnp.asarray(n, "float32")).shape == (2, 4)
        assert np.add(X, n).dtype == np.concatenate([X, n]).dtype == np.float32
        assert np.add.outer(X, n).shape == (4, 4)
        # Those of this library, and the operators of arrays, are.
        for refused in (lambda: gnp.add(X, n), lambda: X + n, lambda: gnp.add(gnp.ones((2, 4)), X)):
            with pytest.raises(ValueError, match="promotion"):
                refused()


def test_derivatives_of_integers_have_no_values():
    none = ga.grad(lambda n: gnp.sum(n + 0.0), allow_int=True)(np.arange(4))
    for call in (lambda: none + X, lambda: np.add(none, X), lambda: np.concatenate([none, X])):
        with strict(False), pytest.raises(TypeError, match="float0s do not support"):
            call()


def test_a_fallback_names_itself_and_the_caller():
    with strict(False), pytest.warns(ga.errors.FallbackWarning) as noticed:
        np.partition(X, [1, 2])
        np.matmul(X, X, axes=[(0,), (0,), ()])
    assert [Path(w.filename).name for w in noticed] == [Path(__file__).name] * 2
    assert "np.partition" in str(noticed[0].message)
    assert "np.matmul" in str(noticed[1].message)


def test_what_numpy_computed_goes_back_to_its_device():
    device = ga.devices("simulator")[0]
    with strict(False), pytest.warns(ga.errors.FallbackWarning):
        assert np.partition(ga.device_put(X, device), [1, 2]).devices() == {device}


def test_nan_goes_through_linear_algebra_where_numpy_lets_it():
    assert np.isnan(np.linalg.inv(gnp.full((2, 2), np.nan))).all()
    np.testing.assert_array_equal(ga.jit(np.linalg.inv)(gnp.zeros((1, 1))), [[np.inf]])


def test_integers_that_do_not_fit_are_not_cut():
    with strict(False), pytest.raises(OverflowError):
        np.add(gnp.arange(4), [2**40] * 4)
    with ga.enable_x64(True):
        assert np.add(gnp.arange(4), [2**40] * 4)[3] == 2**40 + 3


def test_astype_takes_dtype_by_name():
    assert X.astype(dtype=np.int32).dtype == np.int32
    assert X.astype(np.int32, copy=True).dtype == np.int32


def test_an_array_of_another_library_gets_its_say():
    class Other:
        def __array_function__(self, function, types, args, kwargs):
            return "theirs"

    assert np.concatenate([X, Other()]) == "theirs"


def test_files(tmp_path):
    np.savez(tmp_path / "z.npz", X, x=X)
    np.savez_compressed(tmp_path / "c.npz", x=X)
    np.savetxt(tmp_path / "t.txt", X)
    for name in ("z.npz", "c.npz"):
        np.testing.assert_array_equal(np.load(tmp_path / name)["x"], X)
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "t.txt"), X)
    assert isinstance(np.loadtxt(tmp_path / "t.txt", like=X), ga.Array)


def test_precision_is_that_of_our_arrays():
    assert np.add(X, np.ones(4)).dtype == np.mean(gnp.arange(4)).dtype == np.float32
    with ga.enable_x64(True):
        assert np.add(X, [1.0, 2, 3, 4]).dtype == np.float64
        assert np.mean(gnp.arange(4)).dtype == np.float64


def test_functions_without_counterpart_answer_as_for_numpy_arrays(tmp_path):
    assert np.array2string(X) == "[0. 1. 2. 3.]"
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), X)
    special = pytest.importorskip("scipy.special")
    assert type(special.erf(X)) is np.ndarray


@pytest.mark.on_cpu("the buffer protocol is for the host's memory")
def test_bytes_are_those_of_the_memory():
    x = gnp.arange(3, dtype="int16")
    assert bytes(x) == x.tobytes() == np.arange(3, dtype="int16").tobytes()
    assert bytes(gnp.ones((2, 2))) == np.ones((2, 2), "float32").tobytes()
    assert bytes(gnp.int32(3)) == bytes(3)
    view = x.__buffer__(0)
    assert view.format == "h" and view.tolist() == [0, 1, 2] and view.readonly
    if sys.version_info >= (3, 12):
        assert bytearray(x) == x.tobytes() and memoryview(x).shape == (3,)
    with pytest.raises(BufferError, match="type bfloat16 are not supported.*give the bits"):
        gnp.ones(2, "bfloat16").__buffer__(0)


def test_texts_and_none_are_broadcast_beside_arrays():
    # What matplotlib's bars ask for; strict mode is on, so nothing falls back.
    x, width, hatch, text = np.broadcast_arrays(X, 0.8, None, "a")
    assert isinstance(x, ga.Array) and x.shape == width.shape == text.shape == (4,)
    assert list(hatch) == [None] * 4 and list(width) == [0.8] * 4
