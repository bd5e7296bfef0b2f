"""Attention and what is like it as sweeps: products whose elements never are in memory.

In: attention as users write it, and its derivative. Out: the formulas in float64 on NumPy, on the
simulator in three orders of threads with races checked; fewer bytes; and nothing else rewritten.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.compiler.cuda.emit import Options, emit
from gpuarray.compiler.lower.kernel import Kernel, Sweep
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.core.graph import Eqn
from tests.support import simulated
from tests.support.targets import plan_for

simulated.need_compiler()


@pytest.fixture(autouse=True)
def full_precision():
    """Products of float32 are compared closely, but where a test asks for TF32."""
    with ga.default_matmul_precision("highest"):
        yield


@pytest.fixture
def sweeping(monkeypatch):
    """Small arrays are worth a sweep."""
    return plan_for(monkeypatch, swept_bytes=1, swept_scores=1, multiprocessors=1)


def steps(f, *args) -> list:
    return plan_graph(ga.jit(f).lower(*args).jaxpr).device_steps


def sweeps(f, *args) -> list:
    return [s for s in steps(f, *args) if isinstance(s, Sweep)]


def largest(f, *args) -> int:
    """Bytes of the largest value that is in memory between kernels."""
    outs = [v for s in steps(f, *args) for v in (s.outputs if isinstance(s, Kernel) else s.outvars)]
    return max(v.aval.nbytes for v in outs)


# ---- the formulas, in float64 ----
def attention64(q, k, v, scale=None, bias=None, mask=None, ct=None):
    """softmax(scale q k^T + bias) v of (B, T, N, H) arrays, and its derivatives along `ct`."""
    q, k, v = (np.asarray(x).astype(np.float64) for x in (q, k, v))
    group = q.shape[2] // k.shape[2]
    kk, vv = np.repeat(k, group, 2), np.repeat(v, group, 2)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    s = np.einsum("btnh,bsnh->bnts", q, kk) * scale
    if bias is not None:
        s = s + np.asarray(bias).astype(np.float64)
    if mask is not None:
        s = np.where(mask, s, -2.38e38)
    e = np.exp(s - s.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    out = np.einsum("bnts,bsnh->btnh", p, vv)
    if ct is None:
        return out
    dv = np.einsum("bnts,btnh->bsnh", p, ct)
    dp = np.einsum("btnh,bsnh->bnts", ct, vv)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))
    if mask is not None:
        ds = np.where(mask, ds, 0)
    dq = np.einsum("bnts,bsnh->btnh", ds, kk) * scale
    dk = np.einsum("bnts,btnh->bsnh", ds, q) * scale
    shared = (*k.shape[:3], group, k.shape[-1])
    dk, dv = (x.reshape(*k.shape[:2], k.shape[2], group, -1).sum(3) for x in (dk, dv))
    assert len(shared) == 5
    return out, dq, dk, dv


def operands(seed, batch=2, t=70, s=50, heads=2, shared=1, width=8, dtype="float32"):
    rng = np.random.default_rng(seed)
    draw = lambda *shape: gnp.asarray(rng.standard_normal(shape).astype(np.float32), dtype=dtype)
    qkv = draw(batch, t, heads, width), draw(batch, s, shared, width), draw(batch, s, shared, width)
    mask = rng.random((batch, 1, t, s)) < 0.7
    return qkv, mask, rng.standard_normal((1, heads, t, s)).astype(np.float32)


def on_simulator(f, args) -> list[np.ndarray]:
    """The same bits in three orders of threads; races and bounds are checked."""
    made = simulated.built(ga.jit(f).lower(*args).jaxpr)
    inputs = [np.asarray(a) for a in args]
    first, *others = [simulated.run(made, inputs, seed) for seed in simulated.SEEDS]
    for other in others:
        for a, b in zip(first, other, strict=True):
            assert np.array_equal(a, b, equal_nan=True)
    return first


def near(found, right, dtype="float32") -> None:
    allowed = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    found = np.asarray(found).astype(np.float64)
    assert found.shape == right.shape
    assert np.abs(found - right).max() <= allowed * max(1, np.abs(right).max())


# ---- as users write it ----
def by_einsum(q, k, v):
    scores = gnp.einsum("btnh,bsnh->bnts", q, k) / math.sqrt(q.shape[-1])
    return gnp.einsum("bnts,bsnh->btnh", nn.softmax(scores, axis=-1), v)


def by_matmul(q, k, v):
    q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]))
    e = gnp.exp(scores - scores.max(-1, keepdims=True))
    return ((e / e.sum(-1, keepdims=True)) @ v).transpose(0, 2, 1, 3)


@pytest.mark.parametrize("f", [by_einsum, by_matmul])
def test_plain_attention_is_one_kernel(sweeping, f):
    (q, k, v), _, _ = operands(1, shared=2)
    assert [type(s) for s in steps(f, q, k, v)] == [Sweep]
    near(on_simulator(f, (q, k, v))[0], attention64(q, k, v))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("width", [4, 12, 24, 64])
def test_every_width_of_short_floats(sweeping, width, dtype):
    """Tensor cores take 16 features at a time, and vectors 8: what is missing is zero."""
    long = 2 * width + 70
    (q, k, v), _, _ = operands(5, 1, long, long + 1, 2, 2, width, dtype)
    (kernel,) = sweeps(nn.dot_product_attention, q, k, v)
    assert "ga_add_product<" in emit(kernel).text
    found = on_simulator(nn.dot_product_attention, (q, k, v))[0]
    near(found, attention64(q, k, v), dtype)


@pytest.mark.parametrize("f", ["nn", "einsum", "gradient"])
def test_float32_may_be_rounded(sweeping, f):
    """As JAX does by default on such a GPU: with ten bits behind the point, by tensor cores."""
    (q, k, v), _, _ = operands(7, 1, 100, 90, 2, 2, 12)
    plain = nn.dot_product_attention if f != "einsum" else by_einsum
    ct = np.random.default_rng(3).standard_normal(q.shape).astype(np.float32)

    def both(q, k, v):
        out, back = ga.vjp(plain, q, k, v)
        return out, *back(ct)

    with ga.default_matmul_precision("default"):
        called = both if f == "gradient" else plain
        found = on_simulator(called, (q, k, v))
        made = sweeps(called, q, k, v)
        told = ga.explain(called, platform="cuda")(q, k, v).kernels
    assert made and all("ga_add_product<float>" in emit(kernel).text for kernel in made)
    said = [x.facts.get("rounded to") for x in told if x.facts["form"] == "sweep"]
    assert said and set(said) == {"TF32"}
    right = attention64(q, k, v, ct=ct)
    for one, exact in zip(found, right, strict=False):
        off = np.abs(one - exact).max() / np.abs(exact).max()
        assert 1e-5 < off < 5e-3
    # A GPU without such cores computes the same as always.
    plain_texts = [emit(kernel, Options(tensor_cores=False)).text for kernel in made]
    assert not any("ga_add_product" in text for text in plain_texts)


@pytest.mark.parametrize("options", [{"is_causal": True}, {"local_window_size": (20, 3)}])
def test_hidden_tiles(sweeping, options):
    """Masks that depend on places alone are computed, and tiles that they hide are left out: those
    after a row's own column, and those far behind it once it has seen a score. The last rows see
    none in the window: all of their columns weigh the same.
    """
    (q, k, v), _, _ = operands(6, 1, 200, 140, 1, 1, 16, "bfloat16")
    f = lambda q, k, v: nn.dot_product_attention(q, k, v, **options)
    (kernel,) = [s for s in steps(f, q, k, v) if isinstance(s, Kernel)]
    assert "bool adds" in emit(kernel).text
    row, column = np.arange(200)[:, None], np.arange(140)
    shown = column <= row
    if "is_causal" not in options:
        shown = (column >= row - 20) & (column <= row + 3)
    near(on_simulator(f, (q, k, v))[0], attention64(q, k, v, mask=shown), "bfloat16")


#: Masks as functions of a module's `arange`: integers that wrap, and places of one axis alone.
MASKS = {
    "sums of bytes": lambda at: at(150, "uint8")[:, None] + at(130, "uint8") < 100,
    "bits of bytes": lambda at: ~at(150, "uint8")[:, None] + 0 * at(130, "uint8") < 150,
    "products of shorts": lambda at: at(150, "int16")[:, None] * (at(130, "int16") * 9) < 99,
    "no column": lambda at: at(150, "int32")[:, None] >= 0 * at(130, "int32") + 40,
    "no row": lambda at: 0 * at(150, "int32")[:, None] + 7 < at(130, "int32"),
    "differences": lambda at: at(150, "uint32")[:, None] - at(130, "uint32") < 100,
}


def test_masks_of_places(sweeping):
    """Every kind of mask that is computed in a sweep is what NumPy computes."""
    (q, k, v), _, _ = operands(9, 1, 150, 130, 1, 1, 16, "bfloat16")
    iota = lambda n, dtype: lax.iota(dtype, n)
    one_row = lambda: lax.broadcasted_iota("int32", (1, 130), 0)
    one_column = lambda: lax.broadcasted_iota("int32", (150, 1), 0)

    def f(q, k, v):
        masks = [m(iota) for m in MASKS.values()] + [one_row() <= one_column() - 50]
        return [nn.dot_product_attention(q, k, v, mask=m[None, None]) for m in masks]

    made = [emit(s).text for s in sweeps(f, q, k, v)]
    assert len(made) == len(MASKS) + 1 and all("bool adds" in text for text in made)
    shown = [m(lambda n, dtype: np.arange(n).astype(dtype)) for m in MASKS.values()]
    shown += [np.broadcast_to(np.arange(150)[:, None] >= 50, (150, 130))]
    for found, one in zip(on_simulator(f, (q, k, v)), shown, strict=True):
        near(found, attention64(q, k, v, mask=one), "bfloat16")


def test_a_mask_of_nan_is_seen(sweeping):
    """A tile that makes a row nan is not one that adds nothing."""
    (q, k, v), _, _ = operands(9, 1, 150, 130, 1, 1, 16, "bfloat16")

    def f(q, k, v):
        scores = gnp.einsum("btnh,bsnh->bnts", q, k).astype("float32")
        scores = gnp.where(gnp.tri(150, 130, dtype=bool), scores, gnp.nan)
        return gnp.einsum("bnts,bsnh->btnh", nn.softmax(scores, axis=-1).astype(q.dtype), v)

    assert len(sweeps(f, q, k, v)) == 1
    found = on_simulator(f, (q, k, v))[0].astype(np.float32)
    assert np.isnan(found[0, :129]).all() and np.isfinite(found[0, 129:]).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("case", ["plain", "scale", "causal", "mask", "bias", "all"])
def test_dot_product_attention(sweeping, case, dtype):
    (q, k, v), mask, bias = operands(2, dtype=dtype)
    options: dict = {}
    right: dict = {}
    if case in ("scale", "all"):
        options["scale"] = right["scale"] = 0.25
    if case in ("bias", "all"):
        right["bias"] = bias
    shown: np.ndarray = np.ones((1, 1, 70, 50), bool)
    if case in ("mask", "all"):
        shown = shown & mask
    if case in ("causal", "all"):
        options["is_causal"] = True
        shown = shown & (np.arange(50) <= np.arange(70)[:, None])
    arrays: dict = {"bias": bias} if "bias" in right else {}
    if case in ("mask", "all"):
        arrays["mask"] = mask
    names = list(arrays)
    f = lambda q, k, v, *more: nn.dot_product_attention(
        q, k, v, **dict(zip(names, more, strict=True)), **options
    )
    args = (q, k, v, *arrays.values())
    assert len(sweeps(f, *args)) == 1
    near(on_simulator(f, args)[0], attention64(q, k, v, mask=shown, **right), dtype)


@pytest.mark.parametrize(
    "t, s, width",
    [(129, 128, 2), (150, 135, 7), (129, 128, 16), (150, 135, 33), (130, 129, 64), (201, 200, 100)],
)
def test_widths_and_lengths_that_fill_no_tile(sweeping, t, s, width):
    (q, k, v), _, _ = operands(3, 1, t, s, 1, 1, width)
    assert len(sweeps(nn.dot_product_attention, q, k, v)) == 1
    near(on_simulator(nn.dot_product_attention, (q, k, v))[0], attention64(q, k, v))


@pytest.mark.parametrize(
    "f, dtype",
    [("nn", "float32"), ("nn", "bfloat16"), (by_einsum, "float32"), (by_matmul, "float32")],
)
def test_the_derivative_keeps_no_scores_either(sweeping, f, dtype):
    batch = 2 if dtype == "bfloat16" else 1  # halves are worth it where there are more of them
    (q, k, v), mask, bias = operands(4, batch, shared=1 if f == "nn" else 2, dtype=dtype)
    ct = gnp.asarray(np.random.default_rng(5).standard_normal(q.shape), dtype=dtype)
    right = {"mask": mask, "bias": bias} if f == "nn" else {}
    if f == "nn":
        f = lambda q, k, v: nn.dot_product_attention(q, k, v, bias=bias, mask=mask)

    def both(q, k, v, ct):
        out, back = ga.vjp(f, q, k, v)
        return out, *back(ct)

    args = (q, k, v, ct)
    assert not any(e.primitive.rewrite.product for e in steps(both, *args) if isinstance(e, Eqn))
    scores = batch * 2 * 70 * 50 * q.dtype.itemsize
    assert largest(both, *args) < scores / 2
    expected = attention64(q, k, v, ct=np.asarray(ct).astype(np.float64), **right)
    for found, wanted in zip(on_simulator(both, args), expected, strict=True):
        near(found, wanted, dtype)


def test_rows_that_see_nothing_and_infinite_scores(sweeping):
    """What NumPy gives by the same formula: nan where all scores are -inf."""
    (q, k, v), _, _ = operands(6, 1, 70, 50, 1, 1)
    bias = np.zeros((1, 1, 70, 50), np.float32)
    bias[0, 0, 3] = -np.inf
    bias[0, 0, 5, 40:] = -np.inf
    bias[0, 0, 7, :33] = -np.inf

    def f(q, k, v, bias):
        scores = gnp.einsum("btnh,bsnh->bnts", q, k) + bias
        return gnp.einsum("bnts,bsnh->btnh", nn.softmax(scores, axis=-1), v)

    (found,) = on_simulator(f, (q, k, v, gnp.asarray(bias)))
    assert np.isnan(found[0, 3]).all()
    right: Any = attention64(q, k, v, scale=1, bias=np.where(np.isinf(bias), -1e30, bias))
    for row in (0, 5, 7, 69):
        near(found[:, row], right[:, row])


def test_other_uses_of_scores_that_are_folded(sweeping):
    """Sigmoids instead of a softmax, and a sum of what the rows have."""
    (q, k, v), _, _ = operands(7, shared=2)

    def f(q, k, v):
        weights = nn.sigmoid(gnp.einsum("btnh,bsnh->bnts", q, k))
        return gnp.einsum("bnts,bsnh->bnth", weights, v), weights.sum(-1), weights.max(-2)

    made = sweeps(f, q, k, v)
    assert len(made) == 3
    q64, k64, v64 = (np.asarray(x, np.float64) for x in (q, k, v))
    weights = 1 / (1 + np.exp(-np.einsum("btnh,bsnh->bnts", q64, k64)))
    right = np.einsum("bnts,bsnh->bnth", weights, v64), weights.sum(-1), weights.max(-2)
    for found, expected in zip(on_simulator(f, (q, k, v)), right, strict=True):
        near(found, expected)


# ---- bytes ----
def test_bytes_of_a_large_model():
    """64 heads of 4096 x 4096: the scores are 4.3 GB, the operands 34 MB each."""
    shape = ga.ShapeDtypeStruct((4, 4096, 16, 64), "bfloat16")
    f = lambda q, k, v: nn.dot_product_attention(q, k, v)
    made = ga.explain(f, platform="cuda")(shape, shape, shape)
    assert made.launches == 1 and made.bytes_moved == 4 * 4 * 4096 * 16 * 64 * 2
    assert largest(f, shape, shape, shape) == shape.size * 2


@pytest.mark.parametrize("dtype, moved", [("bfloat16", 0.8), ("float32", 1.6)])
def test_bytes_of_its_derivative(dtype, moved):
    """26.9 and 45.2 GB with the scores in memory, which are 2.1 and 4.3 GB."""
    shape = ga.ShapeDtypeStruct((4, 4096, 16, 64), dtype)

    def both(q, k, v, ct):
        out, back = ga.vjp(nn.dot_product_attention, q, k, v)
        return out, *back(ct)

    made = ga.explain(both, platform="cuda")(*[shape] * 4)
    assert made.launches == 7 and made.bytes_moved < moved * 1e9
    assert largest(both, *[shape] * 4) == shape.size * shape.dtype.itemsize


def test_where_it_is_not_worth_it():
    small = ga.ShapeDtypeStruct((2, 128, 4, 64), "float32")
    assert not sweeps(nn.dot_product_attention, small, small, small)
    # Derivatives make scores again: of short floats with wide heads they stay, as long as they fit.
    wide = ga.ShapeDtypeStruct((1, 2048, 16, 64), "bfloat16")
    narrow = ga.ShapeDtypeStruct((1, 2048, 16, 32), "bfloat16")
    long = ga.ShapeDtypeStruct(wide.shape, "float32")
    assert all(sweeps(nn.dot_product_attention, x, x, x) for x in (wide, narrow, long))
    loss = lambda *a: nn.dot_product_attention(*a).astype("float32").sum()
    assert not sweeps(ga.grad(loss, (0, 1, 2)), wide, wide, wide)
    assert sweeps(ga.grad(loss, (0, 1, 2)), narrow, narrow, narrow)
    # One query at a time has nothing to sweep for.
    one = ga.ShapeDtypeStruct((8, 1, 16, 64), "float32")
    cache = ga.ShapeDtypeStruct((8, 4096, 16, 64), "float32")
    assert not sweeps(nn.dot_product_attention, one, cache, cache)


def test_scores_that_somebody_keeps_stay(sweeping):
    (q, k, v), _, _ = operands(8, shared=2)

    def f(q, k, v):
        weights = nn.softmax(gnp.einsum("btnh,bsnh->bnts", q, k), axis=-1)
        return gnp.einsum("bnts,bsnh->btnh", weights, v), weights

    def turned(q, k, v):
        weights = nn.softmax(gnp.einsum("btnh,bsnh->bnts", q, k), axis=-1)
        return gnp.einsum("bnts,bsnh->btnh", weights, v), weights[:, 0]

    def precise(q, k, v):
        scores = gnp.einsum("btnh,bsnh->bnts", q, k, precision="BF16_BF16_F32")
        return gnp.einsum("bnts,bsnh->btnh", nn.softmax(scores, axis=-1), v)

    for g in (f, turned, precise):
        assert not sweeps(g, q, k, v)


def test_doubles_and_wide_features_are_the_librarys(sweeping):
    (q, k, v), _, _ = operands(9, 1, 600, 600, 1, 1, 160)
    assert not sweeps(nn.dot_product_attention, q, k, v)
    with ga.enable_x64(True):
        (q, k, v), _, _ = operands(9, shared=2, dtype="float64")
        assert not sweeps(by_einsum, q, k, v)


def test_a_layer_between_two_narrow_ones(sweeping):
    """x W, something pointwise, times V: not only attention."""
    rng = np.random.default_rng(10)
    x, w, v = (rng.standard_normal(s).astype(np.float32) for s in ((200, 9), (9, 100), (100, 12)))
    f = lambda x, w, v: gnp.tanh(x @ w) @ v
    assert [type(s) for s in steps(f, x, w, v)] == [Sweep]
    right = np.tanh(x.astype(np.float64) @ w) @ v.astype(np.float64)
    near(on_simulator(f, tuple(map(gnp.asarray, (x, w, v))))[0], right)


def test_two_layers_are_two_sweeps(sweeping):
    (q, k, v), _, _ = operands(11, 2, 70, 70, 1, 1)

    def f(q, k, v):
        first = by_einsum(q, k, v)
        return by_einsum(first + q, k, lax.stop_gradient(v))

    assert len(sweeps(f, q, k, v)) == 2
    first = attention64(q, k, v)
    right = attention64(first + np.asarray(q, np.float64), k, v)
    near(on_simulator(f, (q, k, v))[0], right)
