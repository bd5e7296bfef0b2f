"""CUDA graphs: launches and turns of loops, recorded and replayed, on the stand-in for CuPy.

In: programs of many kernels and loops outside registers, seeds of orders of execution, failures.
Out: NumPy's values, no race, fewer launches, and kernels one by one where no graph can be had.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import weakref
from collections import Counter

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
import gpuarray.tree_util as trees
from gpuarray import lax, nn
from gpuarray.backends.cuda import (
    device,
    fused_products,
    graphs,
    library,
    shared_libraries,
    turns,
)
from gpuarray.config import config
from gpuarray.core.target import TARGET
from gpuarray.errors import DeviceError
from tests.fake_cupy import cublaslt, errors, installed
from tests.support import simulated
from tests.support.targets import plan_for

if "cuda" in os.environ.get("GPUARRAY_PLATFORMS", ""):
    pytest.skip("CuPy itself, with a GPU, is in use here", allow_module_level=True)
simulated.need_compiler()

X = np.arange(16, dtype=np.float32).reshape(4, 4)
RNG = np.random.default_rng(0)
#: What kernels made of their inputs, from one order of execution to the next.
remembered: dict = {}


@pytest.fixture(autouse=True)
def turns_are_launches(monkeypatch):
    """Loops over short vectors would run in registers, as one kernel."""
    plan_for(monkeypatch, carried_components=1)


def many(x, np=gnp):
    """A dozen kernels or so: each sum waits for the one before it."""
    for i in range(20):
        x = (x - x.sum(i % 2, keepdims=True)) % 7
        x = (x + x.max(1 - i % 2, keepdims=True)) % 11
    return x


def launches_of(world, run) -> Counter:
    """What a function starts on the GPU."""
    before = world.counts.copy()
    run()
    return world.counts - before


def few(x):
    for i in range(2):
        x = (x + x.sum(i % 2, keepdims=True)) % 11
    return x


def launches(world, f, *args) -> dict[str, int]:
    before = world.counts.copy()
    np.asarray(f(*args))
    return dict(world.counts - before)


# ---- programs ----
def test_programs_of_ten_kernels_are_graphs_by_default(fake_gpu):
    f, g = ga.jit(many), ga.jit(few)
    x, right = ga.device_put(X), many(X, np)
    for _ in range(8):  # until the pool hands out the same addresses again
        assert np.array_equal(f(x), right)
        g(x).block_until_ready()
    assert launches(fake_gpu, f, x).get("launch", 0) == 0
    assert launches(fake_gpu, f, x)["graph"] == 1
    found = launches(fake_gpu, g, x)
    assert found["launch"] >= 2 and "graph" not in found


@pytest.mark.parametrize("how", ["setting", "debug", "blocking"])
def test_without_graphs_each_kernel_is_launched(fake_gpu, monkeypatch, capsys, how):
    if how == "blocking":
        monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    else:
        config.update(*(("cuda_graphs", False) if how == "setting" else ("debug", 1)))
    try:
        f, x = ga.jit(many), ga.device_put(X)
        for _ in range(4):
            f(x).block_until_ready()
        assert fake_gpu.counts["graph"] == 0
    finally:
        config.update("cuda_graphs", True)
        config.update("debug", 0)


def test_a_setting_that_changes_acts_on_functions_that_ran(fake_gpu):
    f, x = ga.jit(many), ga.device_put(X)
    for _ in range(8):
        f(x).block_until_ready()
    config.update("cuda_graphs", False)
    try:
        assert "graph" not in launches(fake_gpu, f, x)
    finally:
        config.update("cuda_graphs", True)
    f(x).block_until_ready()
    assert launches(fake_gpu, f, x)["graph"] == 1


def counted(monkeypatch, size: int) -> list[tuple]:
    plan_for(monkeypatch, graphs=size)
    made = []
    honest = graphs.Replay._recorded
    monkeypatch.setattr(
        graphs.Replay, "_recorded", lambda self, a: made.append(a) or honest(self, a)
    )
    return made


def test_graphs_are_bounded_and_those_used_longest_ago_go(fake_gpu, monkeypatch):
    made = counted(monkeypatch, 2)
    f = ga.jit(many)
    xs = [ga.device_put(X + i) for i in range(3)]
    right = [many(X + i, np) for i in range(3)]

    def call(i: int) -> None:
        found = np.asarray(f(xs[i]))
        assert np.array_equal(found, right[i])

    for i in [0] * 8 + [1] * 8:
        call(i)
    assert len(made) == 2
    call(0)  # used last: the other one goes
    for i in [2] * 8 + [0] * 8:
        call(i)
    assert len(made) == 3
    for i in [1] * 8:
        call(i)
    assert len(made) == 4 and len(set(made)) == 3


def test_few_graphs_are_made_where_they_are_thrown_away_unused(fake_gpu, monkeypatch):
    made = counted(monkeypatch, 2)
    f = ga.jit(many)
    xs = [ga.device_put(X + i) for i in range(6)]
    for _ in range(10):
        for x in xs:
            f(x).block_until_ready()
    assert len(made) <= 8  # of 60 calls


# ---- loops ----
def step(carry, row):
    """Kernels of a turn outside registers: each element depends on a sum."""
    a, b = carry
    n = (a + row).sum() % 7
    return (b, (a * 2 + n) % 13), n + b[::-1].sum() % 3


def scanned(x, rows, reverse=False):
    return lax.scan(step, (x, x + 1), rows, reverse=reverse)


def scanned_right(x, rows, reverse=False):
    carry, ys = (x, x + 1), [np.float32(0)] * len(rows)
    for i in range(len(rows))[:: -1 if reverse else 1]:
        carry, ys[i] = step(carry, rows[i])
    return carry, np.array(ys, np.float32)


def whiled(x, most):
    def body(c):
        a, b, k = c
        n = a.sum() % 7
        return (b + (b[::-1] * n).sum() % 5) % 16, (a * 2 + n) % 13, k + 1

    return lax.while_loop(lambda c: (c[2] < most) & (c[0].sum() > -5), body, (x, x + 1, 0))


def whiled_right(x, most):
    a, b = x, x + 1
    for _ in range(most):
        n = a.sum() % 7
        a, b = (b + (b[::-1] * n).sum() % 5) % 16, (a * 2 + n) % 13
    return a, b, most


def in_place(x, rows):
    """Carries that are changed where they lie, and one that is a constant's neighbour."""

    def body(carry, row):
        i, total = row[0].astype("int32") % 16, carry.sum() % 7
        return carry.at[i].set((total + row.sum()) % 9), total

    return lax.scan(body, x, rows)


def in_place_right(x, rows):
    x, totals = x.copy(), []
    for row in rows:
        totals.append(x.sum() % 7)
        x[int(row[0]) % 16] = (totals[-1] + row.sum()) % 9
    return x, np.array(totals, np.float32)


def check(found, right) -> None:
    for a, b in zip(trees.tree_leaves(found), trees.tree_leaves(right), strict=True):
        assert np.array_equal(np.asarray(a), b)


ROWS = (np.arange(37 * 16).reshape(37, 16) % 5).astype(np.float32)
V = np.arange(16, dtype=np.float32)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [8, 17, 37])
def test_turns_of_a_scan_are_few_graphs(fake_gpu, monkeypatch, length, reverse):
    plan_for(monkeypatch, graph_nodes=5)
    f = ga.jit(lambda x, rows: scanned(x, rows, reverse))
    right = scanned_right(V, ROWS[:length], reverse)
    rows = ga.device_put(ROWS[:length])
    for _ in range(3):
        check(f(ga.device_put(V), rows), right)
    before = fake_gpu.counts.copy()
    check(f(ga.device_put(V), rows), right)
    now = fake_gpu.counts - before
    count = length // -(-length // 5)  # five turns at most
    assert now["graph"] == length // count
    assert now["launch"] <= length % count + 1  # turns that are left over, and the first x + 1


def test_the_turns_of_a_while_loop_are_a_graph_each(fake_gpu, monkeypatch):
    plan_for(monkeypatch, graph_run=2)
    f = ga.jit(whiled)
    for most in (0, 1, 9, 9, 4):
        check(f(ga.device_put(V), most), whiled_right(V, most))
    before = fake_gpu.counts.copy()
    check(f(ga.device_put(V), 9), whiled_right(V, 9))
    now = fake_gpu.counts - before
    assert now["graph"] == 9 and now["launch"] <= 4


def test_new_constants_are_another_graph_and_two_are_kept(fake_gpu, monkeypatch):
    plan_for(monkeypatch, graph_nodes=8)
    f = ga.jit(lambda x, w: lax.fori_loop(0, 8, lambda i, c: (c * w + c.sum()) % 17, x))

    def right(x, w):
        for _ in range(8):
            x = (x * w + x.sum()) % 17
        return x

    ws = [ga.device_put(V % (3 + i)) for i in range(4)]
    for i in (0, 0, 1, 1, 2, 2, 0, 0, 3, 2, 1, 0):
        assert np.array_equal(f(ga.device_put(V), ws[i]), right(V, V % (3 + i)))
    assert fake_gpu.counts["graph"] >= 6


def test_constants_that_never_come_again_are_not_recorded_for_ever(fake_gpu, monkeypatch):
    plan_for(monkeypatch, graph_nodes=8)  # 8 turns are two graphs of 4: long enough to record
    monkeypatch.setattr(turns, "TARGET", turns.TARGET.replace(graph_turns=2))
    f = ga.jit(lambda x, w: lax.fori_loop(0, 8, lambda i, c: (c * w + c.sum()) % 17, x))
    ws = [ga.device_put(V % (3 + i)) for i in range(12)]
    for w in ws:
        f(ga.device_put(V), w).block_until_ready()
    assert 0 < fake_gpu.counts["capture"] <= 4
    del ws, w


def test_recorded_turns_outlive_the_program_that_was_recorded(fake_gpu, monkeypatch):
    """Its kernels, its constants, and the workspaces in which sums of many blocks meet."""
    plan_for(monkeypatch, graph_nodes=8, graph_run=2, long_row=64, full_threads=256)
    rows = np.arange(600, dtype=np.float32) % 7
    turn = lambda c, np: (c + c.sum() % 5 * rows[::-1]) % 11
    scans = ga.jit(lambda x: lax.fori_loop(0, 40, lambda i, c: turn(c, gnp), x))

    def until(x):
        loop = lambda c: (turn(c[0], gnp), c[1] + 1)
        return lax.while_loop(lambda c: (c[1] < 9) & (c[0].sum() > -1), loop, (x, 0))[0]

    for f, many_turns in ((scans, 40), (ga.jit(until), 9)):
        right = rows
        for _ in range(many_turns):
            right = turn(right, np)
        for _ in range(4):
            check(f(ga.device_put(rows)), right)
            gc.collect()  # the program, which nothing but the graph needs any more
    assert fake_gpu.counts["graph"] >= 3 * 9


def test_turns_with_shared_memory_of_the_launch_are_recorded(fake_gpu, monkeypatch):
    small = {"threads_held": 128, "row_vectors": 1, "row_bytes": 32, "row_shared_bytes": 64}
    plan_for(monkeypatch, shared_held=24 << 10, launch_bytes=1 << 40, graph_nodes=8, **small)
    x = RNG.normal(size=(2, 4800)).astype(np.float32)
    f = ga.jit(lambda x: lax.fori_loop(0, 16, lambda i, c: nn.softmax(c * 2 + gnp.flip(c, 1)), x))
    rooms, driver = [], sys.modules["cupy"].cuda.driver
    told = driver.funcSetAttribute
    monkeypatch.setattr(driver, "funcSetAttribute", lambda *a: rooms.append(a[2]) or told(*a))
    right = x
    for _ in range(16):
        right = right * 2 + right[:, ::-1]
        right = np.exp(right - right.max(1, keepdims=True))
        right /= right.sum(1, keepdims=True)
    for _ in range(2):
        np.testing.assert_allclose(np.asarray(f(x)), right, rtol=1e-5)
    assert fake_gpu.counts["graph"] and rooms


def test_a_program_that_is_dropped_ends_its_work_first(fake_gpu):
    """Its code and its graphs go when what was launched from them has run, and in no recording."""
    fake_gpu.eager = 0.0
    f, x = ga.jit(many), ga.device_put(X)
    for _ in range(8):
        found = f(x)
    assert fake_gpu.counts["graph"]
    del f
    ga.clear_caches()
    gc.collect()
    assert np.array_equal(np.asarray(found), many(X, np))


def test_what_is_held_outlives_recordings(fake_gpu):
    (gpu,) = device.gpus()

    class Code:
        """What unloads itself when it goes."""

    held = Code()
    gone = weakref.ref(held)
    with gpu.recording():
        gpu.hold(held)
        del held
        gpu.wait()
        gpu.look()
        assert gone() is not None
    gpu.look()
    assert gone() is None


# ---- products in loops ----
SQUARE = np.arange(100, dtype=np.float32).reshape(10, 10) % 3


def squared(x):
    return lax.fori_loop(0, 20, lambda i, c: (c @ c + c.sum()) % 5, x)


def squared_right(x):
    for _ in range(20):
        x = (x @ x + x.sum()) % 5
    return x


def cell(carry, row, w, b):
    """A product with what stands behind it, one of stacks, one turned: all of whole numbers."""
    x, y = carry
    x = nn.relu(x @ w + b) % 7
    y = (gnp.einsum("bij,bkj->bik", y, y) + row) % 5
    return (x, y), (w.T @ x.T).sum() % 11


def cells(x, y, rows, w, b):
    return lax.scan(lambda c, row: cell(c, row, w, b), (x, y), rows)


def cells_right(x, y, rows, w, b):
    totals = []
    for row in rows:
        x = np.maximum(x @ w + b, 0) % 7
        y = (y @ y.swapaxes(1, 2) + row) % 5
        totals.append((w.T @ x.T).sum() % 11)
    return (x, y), np.array(totals, np.float32)


def halved(x, w):
    """Until little is left: how many turns that takes, nobody knows."""

    def body(c):
        x, k = c
        return ((x @ w) * 0.5 - x.sum() * 0.0).astype(x.dtype), k + 1

    return lax.while_loop(lambda c: (c[0].sum() > 2) & (c[1] < 40), body, (x, 0))


def halved_right(x, w):
    k = 0
    while x.sum() > 2:
        x, k = (x @ w) * x.dtype.type(0.5), k + 1
    return x, k


def whole(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(shape).integers(0, 3, shape).astype(dtype)


PRODUCTS = {
    "fori": (squared, squared_right, (SQUARE,)),
    "scan": (
        cells,
        cells_right,
        (whole(4, 8), whole(2, 3, 3), whole(12, 2, 3, 3), whole(8, 8), whole(8)),
    ),
    "while": (halved, halved_right, (whole(8, 8) + 1, np.eye(8, dtype=np.float32))),
    "half precision": (halved, halved_right, (whole(8, 8, dtype="f2"), np.eye(8, dtype="f2"))),
}


@pytest.mark.parametrize("name", list(PRODUCTS))
def test_products_are_in_the_graphs_of_loops(fake_gpu, monkeypatch, name):
    plan_for(monkeypatch, graph_nodes=24, graph_run=2)
    fun, right, args = PRODUCTS[name]
    f, expected = ga.jit(fun), right(*args)
    operands = [ga.device_put(a) for a in args]
    for _ in range(3):
        check(f(*operands), expected)
    now = launches_of(fake_gpu, lambda: check(f(*operands), expected))
    # Two turns of twenty are left over; a loop of unknown length asks for its condition.
    assert now["graph"] >= 2 and now["library"] <= 2 and now["launch"] <= 8
    assert not fake_gpu.faults


@pytest.mark.parametrize("name", list(PRODUCTS))
def test_products_in_loops_race_in_no_order(monkeypatch, name, every):
    plan_for(monkeypatch, graph_nodes=24, graph_run=2)
    fun, right, args = PRODUCTS[name]
    f, expected = ga.jit(fun, donate_argnums=(0,)), right(*args)
    with installed() as world:
        world.remembered = remembered
        others = [ga.device_put(a) for a in args[1:]]
        for seed in range(200 if every else 40):
            world.reseed(seed)
            check(f(ga.device_put(args[0]), *others), expected)
            assert not world.faults, f"seed {seed}: " + "\n".join(world.faults)
        assert world.counts["graph"] > 50
        del others  # which hold the GPU


def test_every_turn_multiplies_by_one_library(fake_gpu, monkeypatch):
    """Others sum in another order: turns that are left over, and calls before the graph."""
    called = []
    honest = fused_products.routine
    monkeypatch.setattr(fused_products, "routine", lambda e, *a: called.append(e) or honest(e, *a))
    monkeypatch.setattr(library.products, "gemm", lambda *_: pytest.fail)
    plan_for(monkeypatch, graph_nodes=21)  # 7 turns, and 6 are left over
    for _ in range(3):
        f = ga.jit(squared)
        check(f(ga.device_put(SQUARE)), squared_right(SQUARE))
    assert called and fake_gpu.counts["graph"]


def test_loops_with_other_calls_run_turn_by_turn(fake_gpu):
    """Products of a type that cuBLASLt is not asked for, and routines of CuPy."""

    def transformed(c):
        return (gnp.fft.fft(c).real @ c + c.sum()) % 5

    f = ga.jit(lambda x: lax.fori_loop(0, 20, lambda i, c: transformed(c), x))
    for _ in range(3):
        f(ga.device_put(SQUARE)).block_until_ready()
    with ga.enable_x64():
        f = ga.jit(squared)
        for _ in range(3):
            check(f(ga.device_put(SQUARE.astype(np.float64))), squared_right(SQUARE))
    assert fake_gpu.counts["library"] >= 120 and not fake_gpu.counts["capture"]


@pytest.mark.parametrize("refuses", ["cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul", ""])
def test_a_product_that_the_library_refuses_costs_no_answer(fake_gpu, monkeypatch, refuses, unsaid):
    """The recording ends where cuBLAS is called instead, as where there is no such library: turns
    run one by one.
    """

    def not_here(*_):
        raise shared_libraries.Refused("it is not here")

    if refuses:
        cublaslt.library.refused[refuses] = cublaslt.UNSUPPORTED
    else:
        monkeypatch.setattr(shared_libraries, "load", not_here)
    f, x = ga.jit(squared), ga.device_put(SQUARE)
    for _ in range(4):
        check(f(x), squared_right(SQUARE))
    assert fake_gpu.counts["library"] >= 80 and not fake_gpu.counts["graph"]


# ---- orders of execution ----
LOOPS = {
    "scan": (scanned, scanned_right, (V, ROWS[:12])),
    "while": (whiled, whiled_right, (V, 5)),
    "in place": (in_place, in_place_right, (V, ROWS[:12])),
}


@pytest.mark.parametrize("donated", [False, True], ids=["kept", "donated"])
@pytest.mark.parametrize("name", ["program", *LOOPS])
def test_no_race_in_any_order(monkeypatch, name, donated, every):
    """Many seeds: the clocks of the stand-in compare whatever touches the same memory."""
    plan_for(monkeypatch, graph_nodes=8, graph_run=2)
    fun, right, args = LOOPS.get(name, (many, lambda x: many(x, np), (X,)))
    f = ga.jit(fun, donate_argnums=(0,) if donated else ())
    with installed() as world:
        world.remembered = remembered
        expected = right(*args)
        for seed in range(200 if every else 100):
            world.reseed(seed)
            first, *others = args
            found = f(ga.device_put(first), *others)
            for _ in range(seed % 3):  # their memory comes back in another order
                check(f(ga.device_put(first), *others), expected)
            check(found, expected)
            del found
            assert not world.faults, f"seed {seed}: " + "\n".join(world.faults)
        assert world.counts["graph"] > 50


# ---- failures ----
@pytest.fixture
def unsaid():
    graphs._said.clear()
    yield
    graphs._said.clear()


PROGRAMS = {
    "program": (many, lambda x: many(x, np), (X,)),
    "scan": LOOPS["scan"],
    "while": LOOPS["while"],
}


@pytest.mark.parametrize("when", ["capture", "instantiate", "graph"])
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_graph_that_fails_costs_no_answer(fake_gpu, monkeypatch, caplog, unsaid, name, when):
    """Not recorded, not made, or not launched: the kernels are launched one by one."""
    plan_for(monkeypatch, graph_nodes=8, graph_run=2)
    fun, right, args = PROGRAMS[name]
    f, expected = ga.jit(fun), right(*args)
    operands = [ga.device_put(a) if isinstance(a, np.ndarray) else a for a in args]
    refusal = errors.CUDARuntimeError(2 if when == "graph" else 900)
    fake_gpu.fail(when, 1 if when == "graph" else 0, refusal, times=np.inf)
    with caplog.at_level(logging.WARNING, "gpuarray"):
        for _ in range(6):
            check(f(*operands), expected)
    told = [r.getMessage() for r in caplog.records if "CUDA graph" in r.getMessage()]
    assert len(told) == 1 and "GPUARRAY_CUDA_GRAPHS=0" in told[0] and "cudaError" in told[0]
    fake_gpu.repair()
    before = fake_gpu.counts.copy()
    check(f(*operands), expected)
    assert (fake_gpu.counts - before)["graph"] == 0


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_launch_that_fails_while_recorded_is_told_as_ever(fake_gpu, monkeypatch, unsaid, name):
    """A kernel that cannot be launched fails in the recording, and again by itself."""
    plan_for(monkeypatch, graph_nodes=8, graph_run=2)
    fun, right, args = PROGRAMS[name]
    f, expected = ga.jit(fun), right(*args)
    operands = [ga.device_put(a) if isinstance(a, np.ndarray) else a for a in args]
    check(f(*operands), expected)
    fake_gpu.fail("launch", 0, times=np.inf)
    with pytest.raises(DeviceError, match="LAUNCH_OUT_OF_RESOURCES"):
        f(*operands)
    fake_gpu.repair()
    check(f(*operands), expected)


def test_a_gpu_that_failed_is_no_refusal(fake_gpu, monkeypatch, unsaid):
    plan_for(monkeypatch, graph_nodes=8, graph_run=2)
    f, x = ga.jit(many), ga.device_put(X)
    for _ in range(8):
        f(x).block_until_ready()
    fake_gpu.fail("graph", 0, times=1)  # cudaErrorUnknown: nothing works any more
    with pytest.raises(DeviceError, match="start a new one"):
        f(x)


def test_thresholds_are_the_targets():
    assert TARGET.graph_kernels == 10 and TARGET.graph_run <= TARGET.graph_kernels
