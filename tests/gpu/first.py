"""The first questions to a GPU: `python -m tests.gpu.first NAME`, a line of JSON each.

In: the name of a question. Out: what reading the driver cannot settle: whether a result is there
when it says so, who owns memory, what calls cost; the exit status is 1 where an answer is wrong.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.backends.cuda import cudnn, device, kernels, shared_libraries
from gpuarray.backends.cuda import graphs as recording
from gpuarray.backends.cuda.fused_products import library
from gpuarray.core.target import has_tensor_cores
from tests.support.nearness import largest, ulps

Answer = dict[str, Any]
QUESTIONS: dict[str, Callable[[], Answer]] = {}

FILL = 'extern "C" __global__ void fill(float* out) { out[threadIdx.x] = 3.0f; }'


def question(function: Callable[[], Answer]) -> Callable[[], Answer]:
    QUESTIONS[function.__name__] = function
    return function


def near(found: Any, expected: np.ndarray, units: float = 2048) -> bool:
    """Whether sums of products are right up to rounding."""
    expected = expected.astype(np.asarray(found).dtype)
    return ulps(np.asarray(found), expected, largest(expected)) <= units


def microseconds(call: Callable[[], Any], times: int) -> float:
    """What a call costs the host at best, the work behind it not counted."""
    (gpu, *_), best = device.gpus(), float("inf")
    for _ in range(3):
        gpu.wait()
        start = time.perf_counter()
        for _ in range(times):
            call()
        best = min(best, time.perf_counter() - start)
    gpu.wait()
    return round(best / times * 1e6, 2)


@question
def products() -> Answer:
    """A stack of products leaves the library as it is: is it there when it says so?"""
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, (8, n, n)).astype(np.float32) for n in (SIZE, SIZE))
    made = ga.jit(lambda x, y: x @ y)(gnp.asarray(a), gnp.asarray(b))
    ticket, reached = made._buffer().ticket, device.gpus()[0]._reached
    value = np.asarray(made)  # read at once
    right = near(value, a.astype(float) @ b.astype(float))
    return {"ok": right and ticket > 0, "right": right, "ticket": ticket, "reached": reached}


@question
def fused_products() -> Answer:
    """Products that cuBLASLt computes, beside the same by other ways."""
    import ml_dtypes

    rng = np.random.default_rng(0)
    wide = [rng.uniform(-1, 1, s).astype(np.float32) for s in ((SIZE, SIZE), (SIZE, SIZE), (SIZE,))]
    (gpu, *_), found, right = device.gpus(), {}, []
    gelu = lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    rules = {
        "bias": (lambda x, w, b: x @ w + b, lambda x: x),
        "relu": (lambda x, w, b: nn.relu(x @ w + b), lambda x: np.maximum(x, 0)),
        "gelu": (lambda x, w, b: nn.gelu(x @ w + b), gelu),
    }
    for dtype, off in ((np.float32, 1e-3), (np.float16, 0.1), (ml_dtypes.bfloat16, 0.5)):
        args = [a.astype(dtype) for a in wide]
        exact = [a.astype(float) for a in args]
        there = [gnp.asarray(a) for a in args]
        for name, (ours, theirs) in rules.items():
            made = np.asarray(ga.jit(ours)(*there)).astype(float)
            worst = float(np.abs(made - theirs(exact[0] @ exact[1] + exact[2])).max())
            found[f"{name} of {np.dtype(dtype).name}, off by"] = worst
            right.append(worst < off)
    q, v = (rng.integers(-128, 128, (SIZE, SIZE)).astype(np.int8) for _ in range(2))
    made = ga.jit(lambda q, v: lax.dot(q, v, preferred_element_type=np.int32))(q, v)
    right.append(bool((np.asarray(made) == q.astype(np.float64) @ v).all()))
    e, f = (a.astype(ml_dtypes.float8_e4m3fn) for a in wide[:2])
    made = ga.jit(lambda e, f: lax.dot(e, f, preferred_element_type=np.float32))(e, f)
    worst = float(np.abs(np.asarray(made) - e.astype(float) @ f.astype(float)).max())
    found["fp8, off by"] = worst
    right.append(worst < 0.1)
    # A NaN goes through ReLU in JAX; what the library makes of it is told.
    nan = gnp.asarray(np.full((32, 32), np.nan, np.float32))
    found["ReLU of NaN"] = str(np.asarray(ga.jit(lambda x: nn.relu(x @ x))(nan))[0, 0])
    # A refusal leaves an answer, by other ways, and this says so.
    found["said"] = sorted(shared_libraries._said)
    found["calls prepared"] = len(library(gpu)._kept)
    return {"ok": all(right) and not found["said"], **found}


@question
def convolutions() -> Answer:
    """Convolutions that cuDNN computes, and their derivatives, beside float64 on the host."""
    rng, found, right = np.random.default_rng(0), {}, []
    x, w = (rng.uniform(-1, 1, s).astype(np.float32) for s in ((4, 56, 57, 64), (3, 3, 64, 32)))

    def conv(strides, padding, groups, x, w):
        names = ("NHWC", "HWIO", "NHWC")
        w = w[:, :, : 64 // groups]
        return lax.conv_general_dilated(x, w, strides, padding, None, None, names, groups)

    def all_three(strides, padding, groups, x, w):
        made = functools.partial(conv, strides, padding, groups)
        loss = lambda x, w: (made(x, w) ** 2).sum()
        return made(x, w), *ga.grad(loss, (0, 1))(x, w)

    ways = {
        "plain": ((1, 1), "SAME", 1),
        "steps": ((2, 2), "SAME", 1),
        "uneven": ((1, 2), ((2, 0), (0, 3)), 1),
        "groups": ((1, 1), "VALID", 4),
    }
    for name, way in ways.items():
        f = functools.partial(all_three, *way)
        with ga.enable_x64(True), ga.default_device(ga.devices("cpu")[0]):
            exact = [np.asarray(e) for e in f(x.astype(float), w.astype(float))]
        for dtype, off in ((np.float32, 1e-4), (np.float16, 0.05)):
            made = ga.jit(f)(x.astype(dtype), w.astype(dtype))
            worst = [
                float(np.abs(np.asarray(m).astype(float) - e).max() / np.abs(e).max())
                for m, e in zip(made, exact, strict=True)
            ]
            found[f"{name} of {np.dtype(dtype).name}, off by"] = worst
            right.append(max(worst) < off)
    found["installed"], found["said"] = cudnn.installed(), sorted(shared_libraries._said)
    return {"ok": all(right) and not found["said"], **found}


@question
def coarse() -> Answer:
    """Products whose precision nobody chose are rounded to TF32 where the GPU multiplies that:
    those of matrices by libraries, and no others.
    """
    rng, found, right = np.random.default_rng(0), {}, []
    draw = lambda *shape: rng.uniform(-1, 1, shape).astype(np.float32)
    names = ("NHWC", "HWIO", "NHWC")
    conv = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=names)
    x, w, images, kernel = (
        draw(*s) for s in ((SIZE, SIZE),) * 2 + ((4, 56, 57, 64), (3, 3, 64, 32))
    )
    asked = {
        "product": (lambda x, w: x @ w, (x, w), True),
        "fused": (lambda x, w: nn.relu(x @ w + w[0]), (x, w), True),
        "convolution": (conv, (images, kernel), True),
        "with a vector": (lambda x, w: x @ w[0], (x, w), False),
        "covariance": (lambda x: gnp.cov(x), (x,), False),
    }
    rounds = has_tensor_cores(device.gpus()[0].arch)
    for name, (f, args, rounded) in asked.items():
        with ga.enable_x64(True), ga.default_device(ga.devices("cpu")[0]):
            exact = np.asarray(f(*(a.astype(float) for a in args)))
        for precision in (None, "highest"):
            with ga.default_matmul_precision(precision):
                made = np.asarray(ga.jit(f)(*args)).astype(float)
            off = float(np.abs(made - exact).max() / np.abs(exact).max())
            found[f"{name}, {precision}"] = off
            is_coarse = rounds and rounded and precision is None
            right.append(1e-5 < off < 1e-2 if is_coarse else off < 1e-5)
    return {"ok": all(right), **found}


@question
def conversions() -> Answer:
    """Instructions of a GPU that round to narrow types, beside the host on bits of all kinds."""
    import ml_dtypes

    rng, found, right = np.random.default_rng(0), {}, []
    x = rng.integers(0, 1 << 32, SIZE << 12, np.uint32).view(np.float32)
    narrow = "bfloat16 float8_e4m3fn float8_e5m2".split()
    floats = [np.dtype(getattr(ml_dtypes, name)) for name in narrow] + [np.dtype(np.float16)]
    with np.errstate(all="ignore"):
        for dtype in floats:
            made = np.asarray(ga.jit(lambda v, to=dtype: v.astype(to).astype(np.float32))(x))
            exact = x.astype(dtype).astype(np.float32)
            found[f"to {dtype.name}, differ"] = int((~((made == exact) | (exact != exact))).sum())
        for dtype in map(np.dtype, (np.int8, np.uint8, np.int16, np.uint16, np.int32)):
            made = np.asarray(ga.jit(lambda v, to=dtype: v.astype(to))(x))
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            exact = np.clip(np.nan_to_num(np.trunc(x.astype(float)), nan=0), low, high)
            found[f"to {dtype.name}, differ"] = int((made != exact).sum())
        # Arithmetic of bfloat16 that rounds at once; a subnormal result may be nearer than by way
        # of a float.
        a, b = (rng.integers(0, 1 << 16, x.size, np.uint16).view(floats[0]) for _ in range(2))
        for name in ("add", "subtract", "multiply", "divide"):
            made = np.asarray(ga.jit(getattr(gnp, name))(a, b)).astype(np.float32)
            exact = getattr(np, name)(*(v.astype(np.float32) for v in (a, b))).astype(a.dtype)
            exact = exact.astype(np.float32)
            known = (exact == exact) & (np.abs(exact) >= np.finfo(np.float32).tiny)
            found[f"{name} of bfloat16, differ"] = int((made != exact)[known].sum())
    right = all(v == 0 for v in found.values())
    return {"ok": right, **found}


@question
def attention() -> Answer:
    """Sweeps by tensor cores, and number by number, beside float64: with masks and derivatives."""
    rng, found, right = np.random.default_rng(0), {}, []
    shape = (2, SIZE, 4, 40)
    given = [rng.normal(size=shape).astype(np.float32) for _ in range(4)]

    def exact(q, k, v, ct, shown):
        s = np.where(shown, np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1]), -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        dp = np.einsum("bqhd,bkhd->bhqk", ct, v)
        ds = p * (dp - (p * dp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
        out = np.einsum("bhqk,bkhd->bqhd", p, v)
        dq, dk = np.einsum("bhqk,bkhd->bqhd", ds, k), np.einsum("bhqk,bqhd->bkhd", ds, q)
        return out, dq, dk, np.einsum("bhqk,bqhd->bkhd", p, ct)

    def both(causal, q, k, v, ct):
        f = functools.partial(nn.dot_product_attention, is_causal=causal)
        out, back = ga.vjp(f, q, k, v)
        return out, *back(ct)

    ways = {
        "bfloat16": ("bfloat16", "default", 3e-2), "float16": ("float16", "default", 4e-3),
        "TF32": ("float32", "default", 4e-3), "float32": ("float32", "highest", 2e-5),
    }  # fmt: skip
    for causal in (False, True):
        shown = np.tril(np.ones((SIZE, SIZE), bool)) if causal else True
        wanted = exact(*(x.astype(float) for x in given), shown)
        for name, (dtype, precision, off) in ways.items():
            args = [gnp.asarray(x).astype(dtype) for x in given]
            with ga.default_matmul_precision(precision):
                made = ga.jit(functools.partial(both, causal))(*args)
                alone = ga.jit(functools.partial(nn.dot_product_attention, is_causal=causal))(
                    *args[:3]
                )
            worst = [
                float(np.abs(np.asarray(m).astype(float) - e).max() / np.abs(e).max())
                for m, e in zip((alone, *made), (wanted[0], *wanted), strict=True)
            ]
            found[f"{name}{', causal' if causal else ''}, off by"] = worst
            right.append(max(worst) < off)
    return {"ok": all(right), **found}


@question
def donation() -> Answer:
    """Memory given away is used again; what was exported or is read elsewhere is left alone."""
    import cupy

    line = np.arange(6000, dtype=np.float32)
    x = gnp.asarray(line) + 0
    there = x._buffer().pointer
    again = ga.jit(lambda v: v * 2, donate_argnums=0)(x)._buffer().pointer == there
    x = gnp.asarray(line) + 0
    consumer = cupy.from_dlpack(x)
    ga.jit(lambda v: v * 0 + 99, donate_argnums=0)(x).block_until_ready()
    kept = bool((cupy.asnumpy(consumer) == line).all())
    x = gnp.asarray(line) + 0
    rolled = np.asarray(ga.jit(lambda v: gnp.roll(v, 1) + v, donate_argnums=0)(x))
    right = bool((rolled == np.roll(line, 1) + line).all())
    return {"ok": again and kept and right, "used again": again, "kept": kept, "rolled": right}


@question
def costs() -> Answer:
    """Microseconds of the host for what every program does."""
    import cupy

    (gpu, *_) = device.gpus()
    module = cupy.cuda.function.Module()
    module.load(kernels._compile(FILL, gpu.arch, ()).binary)
    fill, out = module.get_function("fill"), gpu.empty((32,), np.dtype(np.float32))
    x, host = gnp.ones(1024).block_until_ready(), np.ones(16, np.float32)
    one = ga.jit(lambda v: v + 1)
    ten = ga.jit(lambda v: [v := gnp.cumsum(v) * 0.5 for _ in range(10)][-1])
    with gpu.device:
        found = {
            "launch": microseconds(lambda: fill((1,), (32,), (out.pointer,), 0, gpu.stream), TIMES),
            "malloc and free": microseconds(lambda: gpu.allocate(4096), TIMES),
            "event": microseconds(lambda: cupy.cuda.Event().record(gpu.stream), TIMES),
        }
    found |= {
        "jit of one kernel": microseconds(lambda: one(x), TIMES),
        "jit of ten and more": microseconds(lambda: ten(x), TIMES // 5),
        "eager": microseconds(lambda: (x + 1).is_ready(), TIMES),
        "upload of 64 bytes": microseconds(lambda: gnp.asarray(host), TIMES),
        "operation and download": microseconds(lambda: np.asarray(x + 1), TIMES // 5),
    }
    return {"ok": True, **found}


@question
def graphs() -> Answer:
    """Programs and loops are replayed, at the addresses that a real pool hands out, after garbage
    was collected, and give what they gave before.
    """
    line = np.arange(4 * SIZE, dtype=np.int32)
    steps = lambda v: [v := (gnp.cumsum(v) ^ v.sum()) % 97 for _ in range(12)][-1]
    turns = lambda v: lax.fori_loop(0, 40, lambda i, c: (gnp.cumsum(c) ^ c.sum()) % 97, v)
    until = lambda v: lax.while_loop(
        lambda c: (c[1] < 30) & (c[0].max() >= 0),
        lambda c: ((gnp.cumsum(c[0]) ^ c[0].sum()) % 97, c[1] + 1),
        (v, 0),
    )[0]

    def exact(v: np.ndarray, times: int) -> np.ndarray:
        for _ in range(times):
            v = (np.cumsum(v, dtype=np.int32) ^ v.sum(dtype=np.int32)) % 97
        return v

    found: Answer = {}
    right, launched, recorded = [], [], []
    replay, record = recording.Replay.__call__, recording.record
    recording.Replay.__call__ = lambda self, *a: launched.append(self) or replay(self, *a)
    recording.record = lambda *a: recorded.append(a[1]) or record(*a)
    try:
        for name, f, times in (("run", steps, 12), ("scan", turns, 40), ("while", until, 30)):
            f, v = ga.jit(f), gnp.asarray(line)
            recorded.clear()
            for _ in range(12):
                made = f(v)  # the result before is there until this one is
                gc.collect()
            right.append(bool((np.asarray(made) == exact(line, times)).all()))
            found[f"graphs of {name}"] = len(recorded)
        found["replays"] = sum(r._used for r in {id(r): r for r in launched}.values())
    finally:
        recording.Replay.__call__, recording.record = replay, record
    replayed = found["replays"] >= 4 and all(found[f"graphs of {n}"] for n in ("run", "scan"))
    return {"ok": all(right) and replayed and not recording._said, "right": right, **found}


@question
def blocks() -> Answer:
    """Blocks that wait for one another, and that have more shared memory than a text may say, come
    to the same bits many times.
    """
    rng, found, right = np.random.default_rng(0), {}, []
    line = rng.integers(-9, 9, SIZE * SIZE * 4).astype(np.int32)
    wide = rng.normal(size=(2, 40 * SIZE)).astype(np.float32)
    soft = np.exp(wide.astype(float) - wide.max(1, keepdims=True))
    calls = {
        "sum of all": (gnp.sum, line, line.sum(dtype=np.int32)),
        "running sum": (gnp.cumsum, line, np.cumsum(line, dtype=np.int32)),
        "running sums down": (
            lambda v: gnp.cumsum(v.reshape(-1, 16), 0),
            line,
            np.cumsum(line.reshape(-1, 16), 0, dtype=np.int32),
        ),
        "histogram": (lambda v: gnp.bincount(v + 9, length=18), line, np.bincount(line + 9)),
        "softmax of long rows": (nn.softmax, wide, soft / soft.sum(1, keepdims=True)),
    }
    for name, (f, given, exact) in calls.items():
        f, there = ga.jit(f), gnp.asarray(given)
        first = np.asarray(f(there))
        same = all((np.asarray(f(there)) == first).all() for _ in range(REPEATS))
        off = float(np.abs(first.astype(float) - exact).max() / np.abs(exact).max())
        found[name] = {"same": bool(same), "off by": off}
        right.append(same and off < (1e-5 if given is wide else 1e-12))
    return {"ok": all(right), **found}


@question
def routines() -> Answer:
    """Every library that CuPy calls, on small operands, beside NumPy."""
    rng, found, right = np.random.default_rng(0), {}, []
    a = rng.normal(size=(3, 8, 8))
    spd, line = a @ a.swapaxes(1, 2) + 8 * np.eye(8), rng.normal(size=(4, 1500))
    both = lambda f: (lambda m: f(gnp.linalg, m), lambda m: f(np.linalg, m))
    calls = {
        "cholesky": (*both(lambda linalg, m: linalg.cholesky(m)), spd),
        "solve": (*both(lambda linalg, m: linalg.solve(m, m[..., :2])), spd),
        "inverse": (*both(lambda linalg, m: linalg.inv(m)), spd),
        "determinant": (*both(lambda linalg, m: linalg.det(m)), spd),
        "qr": (*both(lambda linalg, m: abs(linalg.qr(m)[1])), a),
        "svd": (*both(lambda linalg, m: linalg.svd(m)[1]), a[:, :, :5]),
        "eigh": (*both(lambda linalg, m: linalg.eigh(m)[0]), spd),
        "eig": (
            lambda m: gnp.sort(gnp.abs(gnp.linalg.eig(m)[0])),
            lambda m: np.sort(np.abs(np.linalg.eig(m)[0])),
            a,
        ),
        "fft": (lambda v: gnp.abs(gnp.fft.fft(v)), lambda v: np.abs(np.fft.fft(v)), line),
        "rfft2": (lambda v: gnp.abs(gnp.fft.rfft2(v)), lambda v: np.abs(np.fft.rfft2(v)), line),
        "irfft": (gnp.fft.irfft, np.fft.irfft, line),
        "sort": (gnp.sort, np.sort, line),
        "argsort": (gnp.argsort, lambda v: np.argsort(v, kind="stable"), line),
        "searchsorted": (
            lambda v: gnp.searchsorted(gnp.sort(v[0]), v[1]),
            lambda v: np.searchsorted(np.sort(v[0]), v[1]),
            line,
        ),
    }
    for dtype, off in ((np.float32, 2e-3), (np.float64, 1e-9)):
        for name, (ours, theirs, given) in calls.items():
            given = given.astype(dtype)
            try:
                with ga.enable_x64(dtype == np.float64):
                    made = np.asarray(ga.jit(ours)(given))
                exact = theirs(given.astype(dtype if "sort" in name else float))
                worst = float(np.abs(made - exact).max() / np.abs(exact).max())
            except Exception as error:
                worst = f"{type(error).__name__}: {error}"[:300]
            found[f"{name} of {np.dtype(dtype).name}"] = worst
            right.append(isinstance(worst, float) and worst < off)
    return {"ok": all(right), **found}


@question
def threads() -> Answer:
    """Threads share one stream: what each gets is its own."""
    f = ga.jit(lambda v, k: gnp.cumsum(gnp.sort(v * k))[-1] + (v @ v) * k)
    v = np.arange(512, dtype=np.float32) % 7

    def work(k: int) -> bool:
        exact = v.sum() * k + (v @ v) * k
        return all(float(f(v, np.float32(k))) == exact for _ in range(REPEATS))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        right = list(pool.map(work, range(1, 9)))
    return {"ok": all(right), "right": right}


ENDS = """
import numpy as np, gpuarray as ga, gpuarray.numpy as gnp
from gpuarray import lax
f = ga.jit(lambda x: lax.fori_loop(0, 40, lambda i, c: (gnp.cumsum(c) ^ c.sum()) % 97, x))
kept = [f(gnp.arange(4096)) for _ in range(4)]
large = [gnp.sort(gnp.ones(1 << 22) * k) @ gnp.ones(1 << 22) for k in range(8)]
print("last line")
"""


@question
def ends() -> Answer:
    """A process ends in silence while work is under way and programs are there."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ENDS],
        capture_output=True,
        text=True,
        timeout=80,
        check=False,
    )
    silent = not done.stderr and done.stdout == "last line\n"
    return {"ok": done.returncode == 0 and silent, "status": done.returncode,
            "said": done.stderr[-1500:]}  # fmt: skip


@question
def nothing() -> Answer:
    """Arrays of no elements through kernels and libraries."""
    empty = np.zeros((0, 3), np.float32)
    calls = {
        "sort": (lambda: gnp.sort(gnp.asarray(empty)), (0, 3)),
        "argsort": (lambda: gnp.argsort(gnp.asarray(empty.T)), (3, 0)),
        "sum": (lambda: gnp.asarray(empty).sum(0), (3,)),
        "product": (lambda: gnp.asarray(empty).T @ gnp.asarray(empty), (3, 3)),
        "fft": (lambda: gnp.fft.fft(gnp.asarray(empty)), (0, 3)),
        "cholesky": (lambda: gnp.linalg.cholesky(gnp.zeros((0, 2, 2))), (0, 2, 2)),
    }
    found: Answer = {}
    for name, (call, shape) in calls.items():
        try:
            found[name] = np.asarray(call()).shape == shape
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"[:200]
    return {"ok": all(x is True for x in found.values()), **found}


@question
def ptx() -> Answer:
    """A GPU that NVIDIA's compiler does not know yet gets PTX, which the driver translates."""
    import cupy

    (gpu, *_), api = device.gpus(), cupy.cuda.nvrtc
    known = api.getSupportedArchs
    api.getSupportedArchs = lambda: [75, 80]
    try:
        compiled = kernels._compile(FILL, gpu.arch, ())
    finally:
        api.getSupportedArchs = known
    module = cupy.cuda.function.Module()
    out = gpu.empty((32,), np.dtype(np.float32))
    with gpu.device:
        module.load(compiled.binary)
        module.get_function("fill")((1,), (32,), (out.pointer,), 0, gpu.stream)
    value = float(np.asarray(out)[5])
    return {"ok": value == 3.0, "begins": repr(compiled.binary[:16]), "value": value}


@question
def pools() -> Answer:
    """Memory that one part of the library keeps is there for every other part."""
    import cupy

    (gpu, *_) = device.gpus()
    with gpu.device:
        free, _ = cupy.cuda.Device(gpu.index).mem_info
    count = int(free * 0.7) // 4
    # A length that a transform takes apart: by a large prime factor it takes several times as much.
    length = 1 << ((count // 16).bit_length() - 1)
    gnp.zeros(count, "float32").block_until_ready()  # kept by the pool from here on
    for call in (gnp.sort, gnp.fft.rfft):
        ga.jit(call)(gnp.zeros(length, "float32")).block_until_ready()
    gnp.zeros(count, "float32").block_until_ready()
    stats = gpu.memory_stats()
    return {"ok": True, "freed": gpu.free(), **stats}


#: The side of matrices, how often `costs` calls, and others: a test makes them smaller.
SIZE, TIMES, REPEATS = 1024, 500, 20


def main() -> int:
    """Ask the questions that are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    good = True
    # What is compared closely is not to be rounded to TF32.
    ga.config.update("jax_default_matmul_precision", "highest")
    for name in parser.parse_args().names or QUESTIONS:
        start = time.perf_counter()
        try:
            found = QUESTIONS[name]()
        except Exception as error:
            found = {"ok": False, "why": f"{type(error).__name__}: {error}"[:2000]}
        good &= found["ok"]
        seconds = round(time.perf_counter() - start, 2)
        print(json.dumps({"name": name, **found, "seconds": seconds}), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
