"""Products that cuBLASLt computes: with a bias and an activation behind them, and of 8 bits.

In: programs, and a stand-in for the library that checks what it is given. Out: what NumPy computes;
where the library refuses, in whichever call, the same by other ways, and nothing is lost.
"""

from __future__ import annotations

import functools
import gc
import logging
import threading

import ml_dtypes
import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.backends.cuda import cublaslt, device, shared_libraries
from tests.fake_cupy import installed
from tests.fake_cupy.cublaslt import library
from tests.support import simulated
from tests.support.nearness import assert_near

simulated.need_compiler()
BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
RNG = np.random.default_rng(0)
X, W, B = (RNG.normal(size=s).astype(np.float32) for s in ((24, 32), (32, 48), (48,)))
CALLS = sorted(n for n in cublaslt.PROTOTYPES if not n.endswith("Destroy"))


@pytest.fixture
def gpu(fake_gpu, monkeypatch):
    """A GPU whose library answers as it should; warnings have not been said yet."""
    monkeypatch.setattr(shared_libraries, "_said", set())
    return fake_gpu


def dense(x, w, b):
    return nn.gelu(x @ w + b)


def gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "bias": (lambda x, w, b: x @ w + b, lambda x: x),
    "relu": (lambda x, w, b: nn.relu(x @ w + b), lambda x: np.maximum(x, 0)),
    "gelu": (dense, gelu),
}


def near(found, expected, dtype=np.float32):
    """Equal up to rounding of sums, and of the result."""
    assert found.dtype == dtype
    units = 64 if dtype == np.float32 else 1
    assert_near(np.asarray(found).astype(np.float64), expected.astype(dtype).astype(np.float64),
                units=units * 2.0 ** (52 - ga.dtypes.finfo(dtype).nmant))  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
def test_epilogues(gpu, name, dtype):
    ours, theirs = ACTIVATIONS[name]
    args = [a.astype(dtype) for a in (X, W, B)]
    wide = [a.astype(np.float64) for a in args]
    near(ga.jit(ours)(*args), theirs(wide[0] @ wide[1] + wide[2]), dtype)
    assert library.called["cublasLtMatmul"] == 1
    assert gpu.counts["launch"] == 0


C = RNG.normal(size=(24, 48)).astype(np.float32)
ADDED = {
    "a matrix": (lambda x, w, b, c: x @ w + c, lambda x: x),
    "in front": (lambda x, w, b, c: c + x @ w, lambda x: x),
    "and a bias": (lambda x, w, b, c: x @ w + b + c, lambda x: x),
    "and a bias behind": (lambda x, w, b, c: x @ w + c + b, lambda x: x),
    "a matrix with a bias": (lambda x, w, b, c: c + b + x @ w, lambda x: x),
    "and ReLU": (lambda x, w, b, c: nn.relu(c + (x @ w + b)), lambda x: np.maximum(x, 0)),
    "and GELU": (lambda x, w, b, c: nn.gelu(x @ w + c), gelu),
}


@pytest.mark.parametrize("name", ADDED)
@pytest.mark.parametrize("rows", [24, 1])
@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_a_matrix_is_added(gpu, name, rows, dtype):
    """The residual of a network: read by the product, which writes the sum."""
    ours, theirs = ADDED[name]
    x, w, b, c = (a.astype(dtype) for a in (X[:rows], W, B, C[:rows]))
    wide = [a.astype(np.float64) for a in (x, w, b, c)]
    total = wide[0] @ wide[1] + wide[3] + (wide[2] if "bias" in name or "ReLU" in name else 0)
    near(ga.jit(ours)(x, w, b, c), theirs(total), dtype)
    # A vector of float32 is multiplied by a kernel, which adds too.
    by_kernel = rows == 1 and dtype == np.float32
    assert (library.called["cublasLtMatmul"], gpu.counts["launch"]) == (not by_kernel, by_kernel)


def test_the_sum_of_two_products(gpu):
    f = lambda x, w: x @ w + (2 * x) @ (w + 1)
    near(ga.jit(f)(X, W), X.astype(np.float64) @ W + 2.0 * X @ (W + 1.0))
    assert library.called["cublasLtMatmul"] == 1


def test_what_is_added_may_be_donated(gpu):
    f = ga.jit(lambda x, w, c: x @ w + c, donate_argnums=2)
    near(f(X, W, gnp.asarray(C)), X.astype(np.float64) @ W + C)


LAYOUTS = {
    "turned left": (lambda x, w, b: nn.relu(x.T @ w + b), X.T.copy(), W),
    "turned right": (lambda x, w, b: nn.relu(x @ w.T + b), X, W.T.copy()),
    "both": (lambda x, w, b: nn.relu(x.T @ w.T + b), X.T.copy(), W.T.copy()),
    "a stack": (lambda x, w, b: nn.relu(x @ w + b), np.stack([X, -X, 2 * X]), np.stack([W, W, -W])),
    "rows of a stack": (lambda x, w, b: nn.relu(x @ w + b), np.stack([X, -X]), W),
    "one row": (lambda x, w, b: nn.relu(x @ w + b), X[:1].astype(BF16), W.astype(BF16)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(gpu, name):
    f, x, w = LAYOUTS[name]
    with ga.default_device(ga.devices("cpu")[0]):
        expected = np.asarray(f(gnp.asarray(x), gnp.asarray(w), gnp.asarray(B)))
    near(ga.jit(f)(x, w, B.astype(x.dtype)), expected, x.dtype)
    assert library.called["cublasLtMatmul"] == 1


def test_tf32_unless_refused(gpu):
    """By the rule of all products."""
    f = lambda precision, x, w, b: nn.relu(lax.dot(x, w, precision=precision) + b)
    full = np.maximum(X.astype(np.float64) @ W + B, 0)
    with ga.default_matmul_precision(None):
        coarse = np.asarray(ga.jit(functools.partial(f, None))(X, W, B))
    exact = np.asarray(ga.jit(functools.partial(f, "highest"))(X, W, B))
    assert abs(exact - full).max() < 1e-5 < abs(coarse - full).max() < 2e-2


# ---- 8 bits ----
Q, V = (RNG.integers(-128, 128, s).astype(np.int8) for s in ((24, 32), (32, 48)))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("out", [np.int32, np.int8])
def test_int8(gpu, turned, out):
    f = lambda q, v: lax.dot(q, v.T if turned else v, preferred_element_type=out)
    found = ga.jit(f)(Q, V.T.copy() if turned else V)
    assert found.dtype == out
    assert (np.asarray(found) == (Q.astype(np.int64) @ V).astype(out)).all()
    assert library.called["cublasLtMatmul"] == 1


@pytest.mark.parametrize("kinds", [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3)])
@pytest.mark.parametrize("out", [np.float32, BF16])
def test_float8(gpu, kinds, out):
    x, w = X.astype(kinds[0]), W.astype(kinds[1])
    f = lambda x, w: lax.dot(x, w, preferred_element_type=out)
    near(ga.jit(f)(x, w), x.astype(np.float64) @ w.astype(np.float64), out)
    assert library.called["cublasLtMatmul"] == 1


OTHERS = {
    "two wide ones": (X.astype(E5M2), W.astype(E5M2), np.float32),
    "rows of 31": (X[:, :31].astype(E4M3), W[:31].astype(E4M3), np.float32),
    "40 columns": (Q, V[:, :40], np.int32),
    "unsigned": (Q.view(np.uint8), V.view(np.uint8), np.uint32),
    "16 bits": (Q, V, np.int16),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_the_library_does_not_multiply(gpu, name):
    a, b, out = OTHERS[name]
    f = lambda a, b: lax.dot(a, b, preferred_element_type=out)
    wide = np.int64 if np.dtype(out).kind in "iu" else np.float64
    expected = (a.astype(wide) @ b.astype(wide)).astype(out)
    assert_near(np.asarray(ga.jit(f)(a, b)), expected, units=64)
    assert library.called["cublasLtMatmul"] == 0


# ---- what goes wrong ----
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("status", [3, 13, 15])
def test_another_way_where_the_library_refuses(gpu, call, status, caplog):
    library.refused[call] = status
    args = np.stack([X, -X]), np.stack([W, W]), B, np.stack([C, C])
    expected = gelu(args[0].astype(np.float64) @ W + B + C)
    dense = lambda x, w, b, c: nn.gelu(x @ w + b + c)
    f = ga.jit(dense)
    with caplog.at_level(logging.WARNING, "gpuarray"):
        for _ in range(3):
            near(f(*args), expected)
        near(ga.jit(lambda *a: dense(*a) + 1)(*args), expected + 1)
    # What it has no code for is no fault; all else is said once.
    assert len(caplog.records) == (status != 15)
    assert all(f"{call} returned {status}" in r.getMessage() for r in caplog.records)
    # What was refused once is not tried at each call.
    assert library.called["cublasLtMatmul"] == (call == "cublasLtMatmul")


def test_another_way_for_8_bits(gpu):
    library.refused["cublasLtMatmulAlgoGetHeuristic"] = 15
    x, w = X.astype(E4M3), W.astype(E4M3)
    dot = lambda out: ga.jit(lambda x, w: lax.dot(x, w, preferred_element_type=out))
    near(dot(np.float32)(x, w), x.astype(np.float64) @ w.astype(np.float64))
    assert (np.asarray(dot(np.int32)(Q, V)) == Q.astype(np.int32) @ V).all()


def test_no_library(gpu, monkeypatch):
    """It is looked for once."""
    asked = []

    def load(name, versions):
        asked.append((name, list(versions)))
        raise shared_libraries.Refused("there is none")

    monkeypatch.setattr(shared_libraries, "load", load)
    expected = gelu(X.astype(np.float64) @ W + B)
    near(ga.jit(dense)(X, W, B), expected)
    near(ga.jit(lambda *a: dense(*a))(X, W, B), expected)
    assert asked == [("cublasLt", [13])]


def test_an_old_library(gpu, monkeypatch):
    """One function is missing."""
    monkeypatch.delitem(library.functions, "cublasLtMatmulPreferenceCreate")
    near(ga.jit(dense)(X, W, B), gelu(X.astype(np.float64) @ W + B))


# ---- memory and order ----
def test_descriptors_are_shared_and_go_with_programs(gpu):
    f = ga.jit(dense)
    for _ in range(3):
        f(X, W, B)
    ga.jit(lambda *a: dense(*a))(X, W, B)  # another program with the same product
    assert library.called["cublasLtMatmulAlgoGetHeuristic"] == 1
    for rows in range(2, 8):
        f(X[:rows], W, B)
    assert library.called["cublasLtMatmulAlgoGetHeuristic"] == 7
    ga.clear_caches()
    gc.collect()
    assert library.called["cublasLtMatmulDescDestroy"] == 7
    assert not device.gpus()[0].libraries["cuBLASLt"]._kept


def test_a_workspace_is_given_back(gpu):
    f = ga.jit(dense)
    made = f(X, W, B)
    made.block_until_ready()
    used = device.gpus()[0].memory_stats()["bytes_in_use"]
    again = f(X, W, B)
    again.block_until_ready()
    grown = device.gpus()[0].memory_stats()["bytes_in_use"] - used
    assert 0 < grown <= 24 * 48 * 4 + 512 * 4  # operands and result alone


def test_no_memory_for_a_workspace(gpu):
    """Everything unused is given back, and then there is some."""
    f = ga.jit(dense)
    f(X, W, B).block_until_ready()
    gpu.fail("allocation", 1)
    near(f(X, W, B), gelu(X.astype(np.float64) @ W + B))


def test_donated_operands(gpu):
    square = W[:, :32]
    f = ga.jit(lambda x, w, b: dense(x * 2, w, b), donate_argnums=0)
    for _ in range(3):
        near(f(gnp.asarray(X), square, B[:32]), gelu(2 * X.astype(np.float64) @ square + B[:32]))


def test_layers_and_their_gradients(gpu):
    def loss(params, x):
        for w, b in params:
            x = nn.relu(x @ w + b)
        return (x**2).sum()

    params = [(W, B), (W.T.copy(), B[:32])]
    with ga.default_device(ga.devices("cpu")[0]):
        expected = ga.tree.leaves(ga.grad(loss)(params, X))
    for found, e in zip(ga.tree.leaves(ga.jit(ga.grad(loss))(params, X)), expected, strict=True):
        assert_near(np.asarray(found), np.asarray(e), units=256)


def test_in_a_loop(gpu):
    square = W[:, :32]
    step = lambda c, b: (nn.gelu(c @ square + b), c[0])
    rows = RNG.normal(size=(12, 32)).astype(np.float32)
    with ga.default_device(ga.devices("cpu")[0]):
        expected = lax.scan(step, X, rows)
    for found, e in zip(ga.jit(lambda x, r: lax.scan(step, x, r))(X, rows), expected, strict=True):
        assert_near(np.asarray(found), np.asarray(e), units=1024)
    assert library.called["cublasLtMatmul"] == 12


def test_threads_have_their_own_bias(gpu):
    """The address of a bias is part of the descriptors, which all calls share."""
    f, biases, wrong = ga.jit(dense), RNG.normal(size=(4, 48)).astype(np.float32), []
    expected = [gelu(X.astype(np.float64) @ W + b) for b in biases]
    f(X, W, B)

    def work(k):
        for _ in range(8):
            found = np.asarray(f(X, W, biases[k]))
            if abs(found - expected[k]).max() > 1e-4:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_each_gpu_has_a_handle():
    with installed(devices=2):
        f = ga.jit(dense)
        for place in ga.devices():
            near(f(*(ga.device_put(a, place) for a in (X, W, B))),
                 gelu(X.astype(np.float64) @ W + B))  # fmt: skip
        assert library.called["cublasLtCreate"] == 2
