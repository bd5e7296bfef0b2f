"""Axes split at reshapes: both sides of a reshape are one kernel, and results stay the same.

In: programs as people write them, and random chains of reshapes, transposes, elementwise work and
reductions. Out: launches and bytes; values on the NumPy driver, as native code and on the
simulator, against NumPy itself.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.compiler import pipeline
from gpuarray.compiler.rewrite.simplify import simplify
from gpuarray.compiler.rewrite.split_axes import split_axes
from gpuarray.core.target import TARGET
from tests.golden import shape
from tests.support import natively, programs, simulated
from tests.support.programs import Program, Step

# ---- programs, over NumPy or its like here ----


def group_norm(xp, x, scale, shift):
    n, h, w, c = x.shape
    groups = x.reshape(n, h, w, c // 4, 4)
    mean = xp.mean(groups, axis=(1, 2, 4), keepdims=True)
    variance = xp.mean((groups - mean) ** 2, axis=(1, 2, 4), keepdims=True)
    y = (groups - mean) / xp.sqrt(variance + np.float32(1e-5))
    return y.reshape(x.shape) * scale + shift


def residual_group_norm(xp, x, residual, scale, shift):
    h = x + residual
    return group_norm(xp, h, scale, shift) + h


def quantised(xp, x):
    """Blocks of 32 as 8-bit numbers, and back."""
    blocks = (x * 2).reshape(-1, 32)
    scale = xp.max(xp.abs(blocks), axis=1, keepdims=True) / 127
    whole = xp.round(blocks / scale).astype("int8")
    return (whole.astype("float32") * scale).reshape(-1) + x


def stored_in_blocks(xp, x):
    blocks = xp.tanh(x).reshape(-1, 32)
    scale = xp.max(xp.abs(blocks), axis=1, keepdims=True) / 127
    return xp.round(blocks / scale).astype("int8").reshape(-1), scale[:, 0]


def over_its_block(xp, x):
    return x / xp.repeat(xp.max(xp.abs(x.reshape(-1, 32)), axis=1) + 1, 32)


def rotated_heads(xp, x, bias, cos, sin):
    n, wide = x.shape
    x = (x + bias).reshape(n, 4, wide // 4)
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    turned = xp.concatenate([-b, a], -1)
    return (x * cos[:, None] + turned * sin[:, None]).transpose(1, 0, 2) * np.float32(0.125)


def normed_heads(xp, x, bias):
    n, wide = x.shape
    x = (x + bias).reshape(n, 4, wide // 4)
    x = x / xp.sqrt(xp.mean(x * x, -1, keepdims=True) + np.float32(1e-6))
    return x.transpose(1, 0, 2).reshape(4, -1) * np.float32(0.125)


def joined_heads(xp, x, bias):
    h, n, d = x.shape
    return xp.tanh(x * 2).transpose(1, 0, 2).reshape(n, h * d) + bias


def softmax_of_heads(xp, x):
    n, wide = x.shape
    y = (x * 2).reshape(n, 4, wide // 4)
    e = xp.exp(y - xp.max(y, -1, keepdims=True))
    return (e / xp.sum(e, -1, keepdims=True)).reshape(n, wide) * 3


def pooled(xp, x, bias):
    n, h, w, c = x.shape
    windows = xp.maximum(x * 2 + 1, 0).reshape(n, h // 2, 2, w // 2, 2, c)
    return (xp.mean(windows, (2, 4)) + bias).reshape(n, -1) * 2


def shuffled_pixels(xp, x, bias):
    n, h, w, c = x.shape
    y = (x + bias).reshape(n, h, w, 2, 2, c // 4).transpose(0, 1, 3, 2, 4, 5)
    return xp.tanh(y.reshape(n, h * 2, w * 2, c // 4)) * 2


def patches(xp, x, mean):
    n, h, w, c = x.shape
    x = ((x - mean) * 2).reshape(n, h // 8, 8, w // 8, 8, c).transpose(0, 1, 3, 2, 4, 5)
    rows = x.reshape(n, (h // 8) * (w // 8), 8 * 8 * c)
    return rows - xp.mean(rows, -1, keepdims=True)


class Case(NamedTuple):
    """A program, its arguments in a size for a GPU and in one for the simulator, and the launches
    that it takes with whole axes.
    """

    function: object
    large: tuple
    small: tuple
    whole: int


def f32(*lengths):
    return shape("float32", *lengths)


CASES = {
    "group norm": Case(
        group_norm, (f32(8, 64, 64, 256), *[f32(256)] * 2), ((2, 3, 5, 16), 16, 16), 2
    ),
    "group norm, small": Case(
        group_norm, (f32(256, 16, 16, 256), *[f32(256)] * 2), ((3, 2, 2, 12), 12, 12), 2
    ),
    "residual group norm": Case(
        residual_group_norm,
        (*[f32(256, 16, 16, 256)] * 2, *[f32(256)] * 2),
        ((2, 4, 3, 8), (2, 4, 3, 8), 8, 8),
        2,
    ),
    "quantised": Case(quantised, (f32(1 << 22),), (32 * 9,), 2),
    "stored in blocks": Case(stored_in_blocks, (f32(1 << 22),), (32 * 9,), 2),
    "over its block": Case(over_its_block, (f32(1 << 22),), (32 * 9,), 2),
    "rotated heads": Case(
        rotated_heads,
        (f32(4096, 1024), f32(1024), f32(4096, 256), f32(4096, 256)),
        ((9, 32), 32, (9, 8), (9, 8)),
        1,
    ),
    "normed heads": Case(normed_heads, (f32(4096, 1024), f32(1024)), ((9, 32), 32), 2),
    "joined heads": Case(joined_heads, (f32(16, 4096, 64), f32(1024)), ((3, 9, 4), 12), 1),
    "softmax of heads": Case(softmax_of_heads, (f32(4096, 1024),), ((9, 40),), 2),
    "pooled": Case(pooled, (f32(32, 64, 64, 128), f32(128)), ((2, 4, 6, 5), 5), 2),
    "shuffled pixels": Case(
        shuffled_pixels, (f32(32, 64, 64, 128), f32(128)), ((2, 3, 4, 8), 8), 1
    ),
    "patches": Case(patches, (f32(32, 224, 224, 3), f32(3)), ((2, 16, 24, 3), 3), 1),
}


def arguments(case: Case) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.standard_normal(s).astype("float32") for s in case.small]


def on_numpy(case: Case, inputs) -> list[np.ndarray]:
    out = case.function(np, *inputs)
    return [np.asarray(x) for x in (out if isinstance(out, tuple) else (out,))]


def jitted(case: Case):
    return ga.jit(lambda *xs: case.function(gnp, *xs))


@pytest.mark.parametrize("name", list(CASES))
def test_is_one_kernel(name):
    case = CASES[name]
    e = ga.explain(lambda *xs: case.function(gnp, *xs), platform="cuda")(*case.large)
    results = ga.tree.leaves(ga.eval_shape(lambda *xs: case.function(gnp, *xs), *case.large))
    least = sum(np.prod(v.shape) * np.dtype(v.dtype).itemsize for v in (*case.large, *results))
    assert e.launches == 1
    assert e.bytes_moved <= 1.01 * least


@pytest.mark.parametrize("name", list(CASES))
def test_with_whole_axes_some_are_more(monkeypatch, name):
    case = CASES[name]
    monkeypatch.setattr(pipeline, "split_axes", lambda graph: graph)
    e = ga.explain(lambda *xs: case.function(gnp, *xs), platform="cuda")(*case.large)
    assert e.launches == case.whole


def test_computes_the_same():
    simulated.need_compiler()
    inputs = {name: arguments(case) for name, case in CASES.items()}
    graphs = {n: jitted(c).lower(*inputs[n]).jaxpr for n, c in CASES.items()}
    kernels = {n: simulated.built(g) for n, g in graphs.items()}
    native = {n: natively.written(g) for n, g in graphs.items()}
    natively.compile_all(list(native.values()))
    for name, case in CASES.items():
        expected = on_numpy(case, inputs[name])
        found = [[np.asarray(x) for x in ga.tree.leaves(jitted(case)(*inputs[name]))]]
        found.append(native[name](*inputs[name]))
        found += [simulated.run(kernels[name], inputs[name], seed) for seed in simulated.SEEDS]
        for results in found:
            for f, e in zip(results, expected, strict=True):
                assert (f.shape, f.dtype) == (e.shape, e.dtype), name
                np.testing.assert_allclose(f, e, 2e-5, 2e-5, err_msg=name)


# ---- what stays ----


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.reshape(8, 12) * 2,  # of what is in memory
        lambda x: (x * 2).reshape(8, 12),  # a result
        lambda x: (x * 2).reshape(8, 12) @ gnp.ones((12, 3)),  # for a library
        lambda x: (x @ x.T).reshape(-1) * 2,  # from one
        lambda x: gnp.sum(x, 0).reshape(1, -1) * 2,  # no axis is split
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 2), "VALID").reshape(-1) * 2,
    ],
)
def test_other_programs_stay_as_they_are(function):
    graph = ga.jit(function).lower(f32(6, 16)).plan.graph
    assert split_axes(graph) is graph


def test_an_axis_of_which_positions_are_wanted_stays_whole():
    def f(x):
        y = gnp.tanh(x)
        best = gnp.argmax(y, axis=1)
        return best, gnp.sum(y.reshape(6, 4, 4) * 2, axis=2), gnp.max(y, axis=1)

    x = np.random.default_rng(0).standard_normal((6, 16)).astype("float32")
    y = np.tanh(x)
    best, sums, most = ga.jit(f)(x)
    np.testing.assert_array_equal(best, y.argmax(1))
    np.testing.assert_allclose(sums, (y.reshape(6, 4, 4) * 2).sum(2), 1e-5, 1e-5)
    np.testing.assert_allclose(most, y.max(1), 1e-6)


def test_of_two_ways_to_split_an_axis_the_first_wins():
    def f(xp, x):
        y = xp.tanh(x)
        one = xp.sum(y.reshape(4, 6) * 2 + y.reshape(4, 6), axis=1)
        return one, xp.sum(y.reshape(6, 4) * 3 + xp.exp(y.reshape(6, 4)), axis=1), y

    x = np.random.default_rng(0).standard_normal(24).astype("float32")
    for a, b in zip(ga.jit(lambda x: f(gnp, x))(x), f(np, x), strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-5)


def test_axes_have_few_parts():
    """A chain of reshapes that would cut an axis again and again."""

    def f(xp, x):
        for n in (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048):
            y = x.reshape(n, -1)
            x = (y - xp.max(y, axis=1, keepdims=True)).reshape(-1)
        return x

    x = np.random.default_rng(0).standard_normal(4096).astype("float32")
    graph = ga.jit(lambda x: f(gnp, x)).lower(x).plan.graph
    assert max(v.aval.ndim for e in graph.eqns for v in e.outvars) <= TARGET.axis_parts
    np.testing.assert_allclose(ga.jit(lambda x: f(gnp, x))(x), f(np, x), 1e-5, 1e-5)


def test_loops_and_products_read_what_they_read_before():
    def f(x, w):
        y = gnp.tanh(x).reshape(6, 4, 4)
        y = (y - gnp.mean(y, axis=2, keepdims=True)).reshape(6, 16)
        return y @ w, lax.fori_loop(0, 3, lambda i, c: c * y, y), gnp.sort(y, axis=1)

    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype("float32") for s in ((6, 16), (16, 5)))
    y = np.tanh(x).reshape(6, 4, 4)
    y = (y - y.mean(2, keepdims=True)).reshape(6, 16)
    for found, e in zip(ga.jit(f)(x, w), (y @ w, y**4, np.sort(y, 1)), strict=True):
        np.testing.assert_allclose(found, e, 1e-4, 1e-5)


def test_many_arrays_still_share_a_launch():
    simulated.need_compiler()

    def f(arrays):
        made = [gnp.tanh(x) for x in arrays]
        return [(y, y.reshape(-1, 4) ** 2 + gnp.sin(y.reshape(-1, 4))) for y in made]

    arrays = [np.linspace(-1, 1, 64 * k + 64).astype("float32") for k in range(8)]
    assert ga.explain(f, platform="cuda")(arrays).launches == 1
    simulated.compare([(lambda *xs: f(xs), tuple(arrays))], limit=16)


# ---- random chains ----

PRIMES = ([2, 2, 3, 4], [2, 3, 2, 5], [2, 2, 2, 2, 3], [3, 4, 6], [2, 8, 5])


def chain(seed: int) -> Program:
    """A program of reshapes, transposes, elementwise work and reductions."""
    rng = random.Random(seed)
    primes = rng.choice(PRIMES)

    def lengths(parts: list[int]) -> tuple[int, ...]:
        """The parts in a row, some of them joined."""
        joined = parts[:1]
        for p in parts[1:]:
            joined = [*joined[:-1], joined[-1] * p] if rng.random() < 0.45 else [*joined, p]
        return tuple(joined)

    first = lengths(primes)
    known = [np.zeros(first), np.zeros(first[-1:])]
    steps: list[Step] = []

    def add(op: str, *args: int, param: object = None) -> int:
        steps.append(Step(op, args, param))
        known.append(programs._apply(np, steps[-1], known))
        return len(known) - 1

    last = 0
    while len(steps) < rng.randint(4, 18):
        x = known[last]
        kinds = ["unary", "reshape", "transpose", "norm", "fold", "binary", "along"]
        (what,) = rng.choices(kinds, [4, 5, 2, 4, 1, 2, 1])
        axes = tuple(i for i in range(x.ndim) if rng.random() < 0.5)
        if what == "unary":
            op = rng.choice(["sin", "tanh", "root", "decay"])  # no steps: rounding may cross one
            last = add(op, last)
        elif what == "reshape" and x.size > 1:
            parts = _prime_factors(x.size)
            if rng.random() < 0.25:
                rng.shuffle(parts)
            else:  # the axes that there are, split and joined
                parts = [p for n in x.shape for p in _prime_factors(n)]
            last = add("reshape", last, param=lengths(parts))
        elif what == "transpose":
            last = add("transpose", last, param=tuple(rng.sample(range(x.ndim), x.ndim)))
        elif what == "norm":
            op = rng.choice(["mean", "amax", "var"])
            last = add(rng.choice(["sub", "div", "max"]), last, add(op, last, param=(axes, True)))
        elif what == "fold" and x.ndim > 1 and x.size > 8:
            last = add(rng.choice(["sum", "amin"]), last, param=((rng.randrange(x.ndim),), False))
        elif what == "along" and x.ndim:
            last = add(rng.choice(["cumsum", "sort"]), last, param=rng.randrange(x.ndim))
        elif what == "binary":
            fits = [k for k, y in enumerate(known) if y.shape in (x.shape, x.shape[-1:])]
            last = add(rng.choice(["add", "mul", "min"]), last, rng.choice(fits or [last]))
    others = rng.sample(range(2, len(known)), rng.randint(0, 2))
    return Program((first, first[-1:]), tuple(steps), tuple(sorted({last, *others})))


def _prime_factors(n: int) -> list[int]:
    return next(([p, *_prime_factors(n // p)] for p in range(2, n + 1) if n % p == 0), [])


def wrong(program: Program, seed: int, run) -> str:
    """Where results are not NumPy's; empty where they are."""
    inputs = programs.inputs_of(program, seed)
    expected = programs.run(program, np, inputs)
    for e, g in zip(expected, map(np.asarray, run(*inputs)), strict=True):
        if np.shape(e) != g.shape or not np.allclose(g, e, 1e-9, 1e-10):
            return f"seed {seed}: {g.ravel()[:5]}, expected {np.ravel(e)[:5]}\n{program}"
    return ""


def of_chain(program: Program):
    return ga.jit(lambda *xs: programs.run(program, gnp, list(xs)))


def test_random_chains(fuzz_count):
    split = 0
    with ga.enable_x64(True):
        for seed in range(fuzz_count // 2):
            program = chain(seed)
            run = of_chain(program)
            assert not (said := wrong(program, seed, run)), said
            inputs = programs.inputs_of(program, seed)
            with ga.fusion(False):
                assert not (said := wrong(program, seed, of_chain(program))), said
            if seed < 100:
                graph = simplify(run.lower(*inputs).jaxpr)
                split += split_axes(graph) is not graph
    assert split >= min(fuzz_count // 2, 100) // 3  # else the chains do not try what they should


def test_random_chains_as_kernels(every):
    simulated.need_compiler()
    count = 200 if every else 40
    with ga.enable_x64(True):
        chains = [chain(seed) for seed in range(1000, 1000 + count)]
        graphs = [of_chain(p).lower(*programs.inputs_of(p, 0)).jaxpr for p in chains]
        kernels = [simulated.built(g) for g in graphs]
        native = [natively.written(g) for g in graphs]
        natively.compile_all(native)
        for k, program in enumerate(chains):
            for seed in simulated.SEEDS:
                run = lambda *xs, k=k, seed=seed: simulated.run(kernels[k], xs, seed)
                assert not (said := wrong(program, 1000 + k, run)), said
            assert not (said := wrong(program, 1000 + k, native[k])), said
