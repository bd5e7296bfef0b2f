"""Kernels written by users (`gpuarray.cuda_op`): on the CPU, on the simulator, under transforms."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import errors
from gpuarray.config import config

AXPY = """
extern "C" __global__ void axpy(const float* x, const float* y, float* out) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < OUT0_SIZE) out[i] = A * x[i] + y[i % IN1_SIZE];
}
"""
ROWS = """
extern "C" __global__ void row_ends(const float* x, float* low, int* at) {
    __shared__ float best[32];
    __shared__ int where[32];
    const unsigned lane = threadIdx.x, row = blockIdx.x;
    best[lane] = 1e30f;
    where[lane] = -1;
    for (unsigned j = lane; j < IN0_DIM1; j += 32u) {
        const float v = x[row * IN0_DIM1 + j];
        if (v < best[lane]) { best[lane] = v; where[lane] = (int)j; }
    }
    __syncthreads();
    if (lane == 0) {
        for (unsigned k = 1; k < 32u; ++k)
            if (best[k] < best[0]) { best[0] = best[k]; where[0] = where[k]; }
        low[row] = best[0];
        at[row] = where[0];
    }
}
"""


def axpy(**options):
    return ga.cuda_op(
        AXPY,
        "axpy",
        out=lambda x, y, A: x,
        numpy=lambda x, y, A: (A * x.ravel() + np.resize(y, x.size)).reshape(x.shape),
        **options,
    )


def row_ends(**options):
    return ga.cuda_op(
        ROWS,
        "row_ends",
        out=lambda x: (
            ga.ShapeDtypeStruct(x.shape[:1], np.float32),
            ga.ShapeDtypeStruct(x.shape[:1], np.int32),
        ),
        grid=lambda x: x.shape[0],
        block=32,
        numpy=lambda x: (x.min(1), x.argmin(1).astype(np.int32)),
        **options,
    )


X = np.linspace(-2, 2, 300, dtype=np.float32).reshape(3, 100)
PLACES = ["cpu", "simulator"]


@pytest.mark.parametrize("place", PLACES)
def test_same_everywhere(place):
    f = axpy()
    with ga.default_device(ga.devices(place)[0]):
        x = gnp.asarray(X)
        np.testing.assert_allclose(f(x, x, A=2), 3 * X, rtol=1e-6)
        np.testing.assert_allclose(ga.jit(lambda v: f(v.T, v, A=0.5) + 1)(x).shape, (100, 3))
        np.testing.assert_allclose(
            ga.jit(lambda v: gnp.exp(f(v * 2, gnp.float32(3), A=-1)))(x),
            np.exp(3 - 2 * X),
            rtol=1e-5,
        )


@pytest.mark.parametrize("place", PLACES)
def test_transposed_and_sliced_operands_arrive_in_order(place):
    f = axpy()
    with ga.default_device(ga.devices(place)[0]):
        got = ga.jit(lambda v: f(v.T[10:20], v[1, :10], A=1))(gnp.asarray(X))
        part = X.T[10:20]
        want = part.ravel() + np.resize(X[1, :10], part.size)
        np.testing.assert_allclose(got, want.reshape(part.shape), rtol=1e-6)


@pytest.mark.parametrize("place", PLACES)
def test_several_results(place):
    x = np.cos(np.arange(5 * 70, dtype=np.float32)).reshape(5, 70)
    with ga.default_device(ga.devices(place)[0]):
        low, at = ga.jit(row_ends())(x)
        np.testing.assert_array_equal(low, x.min(1))
        np.testing.assert_array_equal(at, x.argmin(1))
        assert at.dtype == np.int32


@pytest.mark.parametrize("vmap", ["sequential", "elementwise"])
@pytest.mark.parametrize("size", [0, 1, 4])
def test_vmap(vmap, size):
    f = axpy(vmap=vmap)
    x = gnp.arange(size * 6.0).reshape(size, 2, 3)
    mapped = ga.vmap(lambda a, b: f(a, b, A=3))(x, x)
    assert mapped.shape == x.shape
    np.testing.assert_allclose(mapped, 4 * np.asarray(x), rtol=1e-6)


def test_vmap_by_a_rule_and_over_one_operand():
    calls = []

    def rule(args, dims):
        calls.append(dims)
        (x,), (d,) = args, dims
        x = gnp.moveaxis(x, d, 0)
        low, at = op(x.reshape(-1, x.shape[-1]))
        return (low.reshape(x.shape[:2]), at.reshape(x.shape[:2])), (0, 0)

    op = row_ends(vmap=rule)
    x = gnp.cos(gnp.arange(2 * 3 * 40.0)).reshape(3, 2, 40)
    low, _ = ga.vmap(op, 1)(x)
    np.testing.assert_array_equal(low, np.asarray(x).min(2).T)
    assert calls == [(1,)] or calls == [[1]]
    f = axpy()
    got = ga.vmap(lambda a: f(a, gnp.ones(40), A=1))(x[0])
    np.testing.assert_allclose(got, np.asarray(x[0]) + 1)


def test_derivative():
    f = axpy(vjp=lambda ins, out, ct, A: (A * ct, ct))
    x = gnp.asarray(X)
    np.testing.assert_allclose(ga.grad(lambda v: (f(v, v, A=3) ** 2).sum())(x), 32 * X, rtol=1e-5)
    np.testing.assert_allclose(
        ga.jit(ga.grad(lambda v: f(v, 2 * v, A=3).sum()))(x), np.full_like(X, 5.0)
    )
    with pytest.raises(TypeError, match="Differentiation rule for 'axpy'"):
        ga.grad(lambda v: axpy()(v, v, A=3).sum())(x)
    with pytest.raises(TypeError, match="cotangent for each of its 2 inputs"):
        wrong = axpy(vjp=lambda ins, out, ct, A: (ct,))
        ga.grad(lambda v: wrong(v, v, A=3).sum())(x)


def test_the_simulator_sees_what_is_wrong():
    beyond = ga.cuda_op(AXPY.replace("i < OUT0_SIZE", "i <= OUT0_SIZE"), "axpy", lambda x, y, A: x)
    with ga.default_device(ga.devices("simulator")[0]), pytest.raises(errors.DeviceError):
        np.asarray(beyond(gnp.ones(10), gnp.ones(10), A=1))
    race = ga.cuda_op(ROWS.replace("    __syncthreads();\n", ""), "row_ends",
                      (ga.ShapeDtypeStruct((2,), "float32"), ga.ShapeDtypeStruct((2,), "int32")),
                      grid=2, block=32)  # fmt: skip
    with ga.default_device(ga.devices("simulator")[0]), pytest.raises(errors.DeviceError):
        np.asarray(race(gnp.ones((2, 40)))[0])


def test_shown():
    text = ga.jit(lambda x: axpy()(x, x, A=2) + 1).lower(gnp.ones(5)).cuda_source()
    assert "written by hand" in text and "#define A (2)" in text and "OUT0_SIZE (5)" in text
    explained = ga.explain(lambda x: axpy()(x, x, A=2) + 1, platform="cuda")(gnp.ones(5))
    assert explained.launches == 2


MISUSE = {
    "not a name": (lambda: ga.cuda_op(AXPY, "a-b", None), ValueError, "identifier"),
    "no such kernel": (lambda: ga.cuda_op(AXPY, "other", None), ValueError, "no kernel 'other'"),
    "block": (lambda: axpy(block=100), ValueError, "multiple of 32"),
    "vmap": (lambda: axpy(vmap="all"), ValueError, "sequential"),
    "array by keyword": (lambda: axpy()(X, X, A=X), TypeError, "by position"),
    "infinite": (lambda: axpy()(X, X, A=float("inf")), TypeError, "finite"),
    "out": (
        lambda: ga.cuda_op(AXPY, "axpy", lambda x, y, A: 3, numpy=np.add)(X, X, A=1),
        TypeError,
        "`out` must say",
    ),
    "no numpy": (
        lambda: ga.cuda_op(AXPY, "axpy", lambda x, y, A: x)(X, X, A=1),
        TypeError,
        "cannot run on the CPU",
    ),
    "numpy of another shape": (
        lambda: ga.cuda_op(AXPY, "axpy", lambda x, y, A: x, numpy=lambda x, y, A: x[0])(X, X, A=1),
        ValueError,
        "returned shapes",
    ),
}


@pytest.mark.on_cpu("two of them are about the NumPy function")
@pytest.mark.parametrize("name", MISUSE)
def test_misuse(name):
    call, error, message = MISUSE[name]
    with pytest.raises(error, match=message):
        call()


def test_switched_off():
    config.update("no_custom", True)
    try:
        with pytest.raises(PermissionError, match="GPUARRAY_NO_CUSTOM"):
            axpy()
    finally:
        config.update("no_custom", False)
