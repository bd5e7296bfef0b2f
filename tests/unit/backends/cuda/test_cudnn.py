"""Convolutions that cuDNN computes, and their derivatives.

In: convolutions of all kinds, and a stand-in for the library that checks what it is given. Out:
what the CPU computes; where the library refuses, in whichever call, the same by products of
matrices of windows, and nothing is lost.
"""

from __future__ import annotations

import functools
import gc
import logging

import ml_dtypes
import numpy as np
import pytest

import gpuarray as ga
from gpuarray import lax
from gpuarray.backends.cuda import cudnn, device, shared_libraries
from tests.fake_cupy import cudnn as stand_in
from tests.fake_cupy import installed
from tests.fake_cupy.cudnn import library
from tests.support import simulated
from tests.support.nearness import assert_near

simulated.need_compiler()
RNG = np.random.default_rng(0)
LAST, FIRST = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")
KINDS = ("Forward", "BackwardData", "BackwardFilter")
CALLS = sorted(n for n in cudnn.PROTOTYPES if "Destroy" not in n and "Backward" not in n)


@pytest.fixture
def gpu(fake_gpu, monkeypatch):
    """A GPU whose library answers as it should; warnings have not been said yet."""
    monkeypatch.setattr(shared_libraries, "_said", set())
    return fake_gpu


def numbers(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def on_cpu(f, *args):
    with ga.default_device(ga.devices("cpu")[0]):
        return [np.asarray(x) for x in ga.tree.leaves(f(*args))]


def called() -> dict[str, int]:
    """How often each kind of convolution was called since this was asked last."""
    found = {k: library.called.pop(f"cudnnConvolution{k}", 0) for k in KINDS}
    return {k: n for k, n in found.items() if n}


def check(f, *args, units=512):
    found = ga.jit(f)(*args)
    for one, expected in zip(ga.tree.leaves(found), on_cpu(f, *args), strict=True):
        assert one.dtype == expected.dtype
        assert_near(np.asarray(one), expected, units=units)


def conv(x, w, strides=1, padding="SAME", dilation=1, groups=1, spread=1, names=LAST, **more):
    rank = x.ndim - 2
    each = lambda n: (n,) * rank if isinstance(n, int) else n
    return lax.conv_general_dilated(
        x, w, each(strides), padding, each(spread), each(dilation), names, groups, **more
    )


def with_gradients(f):
    return lambda x, w: (f(x, w), ga.grad(lambda x, w: (f(x, w) ** 2).sum(), (0, 1))(x, w))


X, W = numbers(2, 12, 13, 6), numbers(3, 3, 6, 8)
GEOMETRIES = {
    "plain": {},
    "valid": {"padding": "VALID"},
    "steps": {"strides": 2},
    "other steps": {"strides": (2, 3), "padding": "VALID"},
    "holes": {"dilation": 2},
    "steps and holes": {"strides": (3, 2), "dilation": (1, 2)},
    "uneven padding": {"padding": ((2, 0), (0, 3)), "strides": 2},
    "cut": {"padding": ((-1, 1), (2, -1)), "strides": (1, 2)},
    "wide padding": {"padding": ((5, 5), (4, 6))},
}


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("last", [True, False])
def test_geometries_and_their_derivatives(gpu, name, last):
    how = GEOMETRIES[name]
    x, w = (X, W) if last else (X.transpose(0, 3, 1, 2).copy(), W.transpose(3, 2, 0, 1).copy())
    f = functools.partial(conv, names=LAST if last else FIRST, **how)
    called()
    check(with_gradients(f), x, w)
    stretched = how.get("strides", 1) != 1
    wanted = {"Forward": 2 - stretched, "BackwardData": 1, "BackwardFilter": 1}
    assert called() == (wanted if stretched else {"Forward": 2, "BackwardFilter": 1})


@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("groups", [2, 6])
def test_groups(gpu, groups, strides):
    w = numbers(3, 3, 6 // groups, 12)
    f = functools.partial(conv, groups=groups, strides=strides)
    called()
    check(with_gradients(f), X, w)
    assert called().get("BackwardFilter", 0) == 1


def test_transposed_convolutions(gpu):
    f = lambda x, w: lax.conv_transpose(x, w, (2, 3), "SAME", dimension_numbers=LAST)
    called()
    check(with_gradients(f), X, W)
    assert called() == {"Forward": 1, "BackwardData": 1, "BackwardFilter": 1}


RANKS = {
    "one axis": (numbers(3, 20, 4), numbers(5, 4, 6), ("NWC", "WIO", "NWC")),
    "one axis, channels first": (numbers(3, 4, 20), numbers(6, 4, 5), ("NCW", "OIW", "NCW")),
    "three axes": (numbers(2, 5, 6, 7, 3), numbers(2, 3, 2, 3, 4), ("NDHWC", "DHWIO", "NDHWC")),
    "no axis": (numbers(4, 5), numbers(5, 6), ("NC", "IO", "NC")),
    "orders that the library has not": (
        numbers(12, 2, 6, 13), numbers(3, 8, 6, 3), ("HNCW", "HOIW", "CHNW"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("name", RANKS)
def test_ranks_and_orders_of_axes(gpu, name, strides):
    x, w, names = RANKS[name]
    called()
    check(with_gradients(functools.partial(conv, names=names, strides=strides)), x, w)
    assert bool(called()) == (name != "no axis")


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize(
    ("x", "w"),
    [
        ((2, 9, 8, 4), (11, 3, 4, 6)),  # no place for the kernel
        ((2, 9, 8, 4), (0, 3, 4, 6)),
        ((2, 9, 8, 0), (3, 3, 0, 6)),
        ((0, 9, 8, 4), (3, 3, 4, 6)),
    ],
)
def test_sums_of_nothing(gpu, monkeypatch, here, x, w):
    monkeypatch.setattr(cudnn, "installed", lambda: here)
    found = np.asarray(ga.jit(lambda x, w: conv(x, w, padding="VALID"))(numbers(*x), numbers(*w)))
    # As many places as numpy.convolve has: of n elements and a kernel of k, n - k + 1.
    assert found.shape == (x[0], max(x[1] - w[0] + 1, 0), x[2] - w[1] + 1, w[3])
    assert not found.any()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_short_floats_are_summed_in_float32(gpu, dtype):
    x, w = X.astype(dtype), W.astype(dtype)
    found = np.asarray(ga.jit(conv)(x, w)).astype(np.float32)
    (exact,) = on_cpu(conv, x.astype(np.float64), w.astype(np.float64))
    assert abs(found - exact).max() <= 2.0 ** -ga.dtypes.finfo(dtype).nmant * abs(exact).max()


def test_float64(gpu):
    with ga.enable_x64(True):
        check(with_gradients(conv), X.astype(np.float64), W.astype(np.float64))


def test_tf32_unless_refused(gpu):
    """By the rule of all products."""
    (full,) = on_cpu(conv, X.astype(np.float64), W.astype(np.float64))
    with ga.default_matmul_precision(None):
        coarse = np.asarray(ga.jit(conv)(X, W))
    exact = np.asarray(ga.jit(functools.partial(conv, precision="highest"))(X, W))
    assert abs(exact - full).max() < 5e-5 < abs(coarse - full).max() < 5e-2


OTHERS = {
    "integers": (np.int32, {}),
    "complex numbers": (np.complex64, {}),
    "wider results": (np.float16, {"preferred_element_type": np.float32}),
    "bools": (np.bool_, {}),
    "pairs of bools": (np.bool_, {"preferred_element_type": np.float32}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_the_library_does_not_do(gpu, name):
    dtype, how = OTHERS[name]
    called()
    check(functools.partial(conv, **how), (9 * X).astype(dtype), (9 * W).astype(dtype))
    assert not called()


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(s, marks=pytest.mark.slow) for s in range(8, 32))]
)
def test_any_geometry(gpu, seed):
    rng = np.random.default_rng(seed)
    draw = lambda low, high: tuple(int(n) for n in rng.integers(low, high, 2))
    groups, strides, dilation, spread = int(rng.integers(1, 4)), draw(1, 4), draw(1, 3), (1, 1)
    if seed % 3 == 0:
        strides, spread = spread, draw(1, 4)
    window, low, high = draw(1, 5), draw(-2, 6), draw(-2, 6)
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    sides = [int(rng.integers(r + 5, r + 12)) for r in reach]
    x = rng.normal(size=(3, *sides, 2 * groups)).astype(np.float32)
    w = rng.normal(size=(*window, 2, 3 * groups)).astype(np.float32)
    f = functools.partial(
        conv, strides=strides, padding=tuple(zip(low, high, strict=True)), dilation=dilation,
        groups=groups, spread=spread,
    )  # fmt: skip
    check(with_gradients(f), x, w)


# ---- what goes wrong ----
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("status", [2000, 3000, 5000])
def test_another_way_where_the_library_refuses(gpu, call, status, caplog):
    library.refused[call] = status
    f = ga.jit(conv)
    (expected,) = on_cpu(conv, X, W)
    with caplog.at_level(logging.WARNING, "gpuarray"):
        for _ in range(3):
            assert_near(np.asarray(f(X, W)), expected, units=512)
        assert_near(np.asarray(ga.jit(lambda x, w: conv(x, w) + 1)(X, W)), expected + 1, units=512)
    assert len(caplog.records) == (status != 3000)
    assert all(f"{call} returned {status}" in r.getMessage() for r in caplog.records)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", [{"strides": 2}, {"groups": 2}, {"padding": ((2, 0), (0, 3))}])
def test_another_way_for_derivatives(gpu, kind, how):
    library.refused[f"cudnnConvolution{kind}"] = 5000
    w = W[:, :, : 6 // how.get("groups", 1)]
    check(with_gradients(functools.partial(conv, **how)), X, w)
    turned = functools.partial(conv, names=FIRST, **how)
    check(with_gradients(turned), X.transpose(0, 3, 1, 2).copy(), w.transpose(3, 2, 0, 1).copy())


def test_no_library(gpu, monkeypatch):
    """Convolutions are products of matrices of windows, and nobody is told at each."""

    def load(name, versions):
        raise shared_libraries.Refused("there is none")

    monkeypatch.setattr(shared_libraries, "load", load)
    check(with_gradients(conv), X, W)
    assert not cudnn.installed() and "cuDNN" not in device.gpus()[0].libraries


def test_a_library_for_another_cuda(gpu, monkeypatch, caplog):
    monkeypatch.setattr(stand_in, "cuda", [12090])
    with caplog.at_level(logging.WARNING, "gpuarray"):
        check(conv, X, W)
        check(lambda x, w: conv(x, w) + 1, X, W)
    assert [r.getMessage().count("install nvidia-cudnn-cu13") for r in caplog.records] == [1]
    assert not library.called


def test_descriptors_are_shared_and_go_with_programs(gpu):
    f = ga.jit(conv)
    for _ in range(3):
        f(X, W)
    ga.jit(lambda x, w: conv(x, w) * 2)(X, W)
    assert library.called["cudnnGetConvolutionForwardAlgorithm_v7"] == 1
    assert library.called["cudnnSetStream"] == 1
    for rows in range(4, 9):
        f(X[:, :rows], W)
    ga.clear_caches()
    gc.collect()
    assert library.called["cudnnDestroyConvolutionDescriptor"] == 6


def test_no_memory_for_a_workspace(gpu):
    f = ga.jit(conv)
    f(X, W).block_until_ready()
    gpu.fail("allocation", 1)
    check(conv, X, W)


def test_each_gpu_has_a_handle():
    with installed(devices=2):
        f, (expected,) = ga.jit(conv), on_cpu(conv, X, W)
        for place in ga.devices():
            found = np.asarray(f(ga.device_put(X, place), ga.device_put(W, place)))
            assert_near(found, expected, units=512)
        assert library.called["cudnnCreate"] == 2


def test_bytes_and_launches(monkeypatch):
    """The filter is brought in the library's order; images are read and written once."""
    monkeypatch.setattr(cudnn, "installed", lambda: True)
    found = ga.explain(conv, platform="cuda")(X, W)
    filters, made = W.nbytes, 2 * 12 * 13 * 8 * 4
    assert found.bytes_moved == X.nbytes + made + 3 * filters
    assert found.launches == 2
