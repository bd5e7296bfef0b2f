"""Row kernels of several passes: what one of them computes, later ones do not compute again.

In: chains of normalisations over rows of many lengths. Out: texts that name each operation once
where a row fits registers or shared memory, and the values of the NumPy driver everywhere.
"""

import re

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import nn
from gpuarray.backends import simulator
from gpuarray.compiler.cuda.emit import KernelSource, emit
from tests import golden
from tests.support import simulated
from tests.support.targets import plan_for

simulated.need_compiler()


def normal_twice(x):
    """Results from the first, a middle and the last of six levels."""
    raised = gnp.exp(x)
    once = nn.softmax(raised - raised.mean(-1, keepdims=True), -1)
    again = gnp.tanh(once * 3) - once.max(-1, keepdims=True)
    return raised, once, again / (again * again).sum(-1, keepdims=True)


def emitted(function, *avals) -> KernelSource:
    (group,) = ga.jit(function).lower(*avals).plan.on_device.groups
    return emit(group)


def calls(text: str, name: str) -> int:
    return len(re.findall(rf"\b{name}\(", text))


@pytest.mark.parametrize(
    "dtype, shape, held",
    [
        ("float32", (7, 5), "registers"),
        ("float32", (64, 48), "registers"),
        ("float32", (9, 1000), "registers"),
        ("float32", (300, 12000), "registers"),
        ("bfloat16", (3, 9001), "shared memory"),
    ],
)
def test_each_operation_is_written_once_where_rows_are_held(dtype, shape, held):
    kernel = emitted(normal_twice, golden.shape(dtype, *shape))
    assert f"held in {held}" in kernel.text
    assert calls(kernel.text, "ga_exp") == 2 and calls(kernel.text, "ga_tanh") == 1
    assert kernel.text.count("in0 + ") + kernel.text.count("in0[") == 1  # the row is read once


def test_rows_that_are_too_long_are_computed_again(monkeypatch):
    plan_for(monkeypatch, launch_bytes=1 << 40)
    text = emitted(normal_twice, golden.shape("float32", 300, 100000)).text
    assert "held" not in text and calls(text, "ga_exp") > 2


# ---- shared memory that a launch sets aside ----


def scaled(x, y):
    """Two operands that three passes read, and one that only the last does."""
    z = (x - x.mean(-1, keepdims=True)) * y
    return z / gnp.abs(z).sum(-1, keepdims=True) + gnp.arange(x.shape[-1], dtype=x.dtype)


@pytest.fixture
def small_machine(monkeypatch):
    """One whose shared memory holds few rows: blocks are of 1024 threads all the same."""
    small = {"threads_held": 128, "row_vectors": 1, "row_bytes": 32, "row_shared_bytes": 64}
    plan_for(monkeypatch, shared_held=24 << 10, launch_bytes=1 << 40, **small)


@pytest.fixture
def a_block_a_row(small_machine, monkeypatch):
    """Few rows are not shared by several blocks."""
    plan_for(monkeypatch, long_row=1 << 30)


def test_long_rows_are_held_where_a_launch_sets_memory_aside():
    kernel = emitted(nn.softmax, golden.shape("bfloat16", 8192, 50257))
    assert "held in shared memory of the launch;" in kernel.text and kernel.room == 2 * (
        50257 // 8 * 8
    )
    assert kernel.traffic.total == 4 * 8192 * 50257
    # Too long for shared memory alone: the beginning is in registers.
    kernel = emitted(nn.softmax, golden.shape("bfloat16", 8192, 131072))
    assert "and registers" in kernel.text and kernel.room == (131072 - 2 * 8192) * 2
    # What one pass finds is held nowhere.
    assert emitted(nn.logsumexp, golden.shape("bfloat16", 8192, 131072)).room == 0


@pytest.mark.parametrize("room", [None, 1, 1 / 3])
@pytest.mark.parametrize(
    ("length", "dtypes"), [(4800, "ff"), (1101, "ff"), (1101, "Ef"), (8200, "EE")], ids=str
)
def test_values_of_rows_that_are_held_apart(length, dtypes, room, small_machine):
    """On a GPU with all the shared memory that was planned for, with a third of it, and none."""
    kinds = {"f": np.dtype("f4"), "E": np.dtype("bfloat16")}
    rng = np.random.default_rng(length)
    inputs = [rng.normal(size=(2, length)).astype(kinds[d]) for d in dtypes]
    kernel = emitted(scaled, *inputs)
    assert kernel.room
    if room is not None:
        least = max(1, int(kernel.room * room)) if room < 1 else 1
        given = kernel.text.replace(f"GA_ROOM(room, {kernel.room})", f"GA_ROOM(room, {least})")
        assert given != kernel.text
        kernel = kernel.replace(text=given)
    (want,) = [np.asarray(ga.jit(scaled)(*inputs))]
    found = []
    for seed in simulated.SEEDS:
        with simulator.order_drawn_from(seed):
            found.append(simulator.Launcher(kernel)(*inputs)[0])
    np.testing.assert_allclose(found[0].astype("f4"), want.astype("f4"), rtol=0.02, atol=0.05)
    assert len({x.tobytes() for x in found}) == 1


def test_a_pass_that_reads_nothing_of_rows_held_apart(small_machine):
    """Its loops go over the beginning of the row and over the rest, each once."""

    def spread(x):
        middle = (x - x.mean(-1, keepdims=True)).max(-1, keepdims=True)
        places = gnp.arange(x.shape[-1], dtype=x.dtype) * middle
        return places.sum(-1), x / gnp.abs(places).sum(-1, keepdims=True)

    x = np.random.default_rng(0).normal(size=(2, 8200)).astype("f4")
    assert "and registers" in emitted(spread, x).text
    check(spread, (x,))


def test_few_vectors_that_registers_do_not_hold(small_machine, monkeypatch):
    plan_for(monkeypatch, row_bytes=8)
    inputs = np.random.default_rng(0).normal(size=(2, 2, 1000)).astype("f4")
    assert emitted(scaled, *inputs).room
    check(lambda x, y: (scaled(x, y),), inputs)


# ---- what threads wait for ----


def loops_that_read(function, *avals) -> list[str]:
    """The loops of a kernel in which its operand is read."""
    return [x for x in emitted(function, *avals).text.split("\n    for (")[1:] if "in0" in x]


def test_reads_come_before_branches():
    """A quotient has a branch for small numbers, past which no compiler moves a read."""
    tall = golden.shape("float32", 1 << 11, 8192)
    first, last = loops_that_read(lambda x: nn.softmax(x, 0), tall)
    assert "// read" in first and "// read" in last
    (many,) = loops_that_read(lambda x: gnp.sum(1 / x, 0), tall)
    assert "// read" in many
    # Of a plain sum the compiler moves them itself.
    (one,) = loops_that_read(lambda x: gnp.sum(x, 0), tall)
    assert "// read" not in one


@pytest.mark.parametrize("axis", [0, 1])
def test_turns_that_go_backwards(axis):
    """Distances of their reads from the first one are negative."""
    x = np.random.default_rng(0).normal(size=(3000, 5)).astype("f4")
    x = x if axis == 0 else np.tile(x.T, 3)
    check(lambda x: (nn.logsumexp(gnp.flip(x, axis), axis), gnp.flip(x, axis).std(axis)), (x,))


@pytest.mark.parametrize("length", [140000, 140001])
def test_of_many_turns_only_the_last_one_has_tests(length):
    folded = lambda x: nn.logsumexp(x, -1)
    first, last = loops_that_read(folded, golden.shape("bfloat16", 8192, length))
    assert "continue" not in first and "continue" in last
    # Few are one loop.
    assert len(loops_that_read(folded, golden.shape("bfloat16", 8192, 17001))) == 1


# ---- rows that begin within a vector ----

ODD = {
    "one pass": lambda x, y: gnp.argmax(x * y, -1),
    "joined passes": lambda x, y: nn.logsumexp(x - y, -1),
    "held apart": lambda x, y: nn.softmax(x * y, -1),
    "with positions": scaled,
    "several results": lambda x, y: (x.min(-1), x * y.max(-1, keepdims=True)),
}


@pytest.mark.parametrize("length", [8195, 40001])
@pytest.mark.parametrize("dtypes", ["ff", "EE", "Ef"])
@pytest.mark.parametrize("what", ODD)
def test_values_of_rows_that_begin_within_a_vector(what, dtypes, length, a_block_a_row):
    kinds = {"f": np.dtype("f4"), "E": np.dtype("bfloat16")}
    rng = np.random.default_rng(length)
    # Few different values: which of them comes first matters to argmax.
    inputs = [rng.integers(-9, 9, size=(5, length)).astype(kinds[d]) / 8 for d in dtypes]
    with ga.enable_x64(True):
        kernel = emitted(ODD[what], *inputs)
        assert "head" in kernel.text
        given = [np.asarray(x) for x in inputs]
        want = ga.jit(ODD[what])(*given)
        want = [np.asarray(x) for x in (want if isinstance(want, tuple) else (want,))]
    for seed in simulated.SEEDS:
        with simulator.order_drawn_from(seed):
            found = simulator.Launcher(kernel)(*inputs)
        for f, w in zip(sorted(found, key=np.ndim), want, strict=True):
            exact = f.dtype.kind == "i"
            np.testing.assert_allclose(
                f.astype("f8"), w.astype("f8"), rtol=0 if exact else 0.01, atol=0 if exact else 0.05
            )


def first(x):
    return gnp.argmax(x, -1)


@pytest.mark.parametrize(
    "cut, wide",
    [
        (lambda x, y: first(x[1:, :8197] + y[1:, :8197]), True),  # rows of the same memory
        (lambda x, y: first(x[:, 3:8200] + y[:, 3:8200]), True),
        (lambda x, y: first(x[:, 2:8199] + y[:, 6:8203]), True),  # four elements apart
        (lambda x, y: first(x[:, 3:8200] + y[:, 2:8199]), False),
        (lambda x, y: first(x[:, 8199:2:-1] + y[:, 8199:2:-1]), False),
        (lambda x, y: first(x[:, :8197] + y[0, :8197]), False),  # one begins its rows elsewhere
    ],
)
def test_rows_of_several_arrays_begin_at_the_same_place(cut, wide, a_block_a_row):
    rng = np.random.default_rng(0)
    inputs = [rng.integers(0, 99, size=(4, 8203)).astype("f4") for _ in range(2)]
    kernel = emitted(cut, *inputs)
    assert ("head" in kernel.text) == wide
    want = np.asarray(ga.jit(cut)(*inputs))
    np.testing.assert_array_equal(simulator.Launcher(kernel)(*inputs)[0], want)


@pytest.mark.parametrize("length", [8200, 9000, 50257])
def test_values_of_every_number_of_turns(length):
    x = np.random.default_rng(length).normal(size=(2, length)).astype("f4")
    check(lambda x: (nn.logsumexp(x, -1), x.std(-1)), (x,))


# ---- the first of the largest ----

EXTREMES = [
    [-np.inf] * 5,
    [-np.inf, 2, 3, 3, -np.inf],
    [1, np.nan, 7, np.nan, np.inf],
    [np.inf, -np.inf, np.inf, 0, 0],
    [-0.0, 0.0, -0.0, -1, -2],
    [np.nan] * 5,
]


@pytest.mark.parametrize("at", [0, 3000])
@pytest.mark.parametrize("lay", [(0, 1), (1, 0)], ids=str)
def test_positions_of_extremes(lay, at):
    """Those of NumPy, whichever thread sees an element, along rows and down columns."""
    x = np.full((len(EXTREMES), 9001), -np.inf, "f4")
    x[:, at : at + 5] = EXTREMES
    found = lambda x: (gnp.argmax(x, lay[1]), gnp.argmin(-x, lay[1]))
    check(found, (np.ascontiguousarray(x.transpose(lay)),))


@pytest.mark.parametrize("channels, across", [(8, 2), (4, 4), (16, 1), (6, 1)])
def test_rows_that_fill_a_sector_together_share_a_block(channels, across, monkeypatch):
    """A block reads 16 bytes of each 32 for every pixel of a group of 8 channels."""

    def group_norm(x):
        x = x.reshape(*x.shape[:2], 4, channels)
        less = x - x.mean((1, 3), keepdims=True)
        return less / gnp.sqrt((less * less).mean((1, 3), keepdims=True) + 1e-5), x.max((1, 3))

    plan_for(monkeypatch, multiprocessors=1)
    x = np.random.default_rng(0).normal(size=(2, 700, 4 * channels)).astype("bfloat16")
    kernel = emitted(group_norm, x)
    assert kernel.schedule.rows_a_block == across
    check(group_norm, (x,))


def test_short_columns_have_a_thread_each():
    x = np.random.default_rng(0).normal(size=(5, 1 << 16)).astype("f4")
    assert "columns of 5, a thread each" in emitted(lambda x: gnp.mean(x, 0), x).text
    check(lambda x: (x - x.mean(0), gnp.argmax(x, 0), x.std(0)), (x,))


def test_outputs_are_stored_where_they_are_made():
    def text(rows):
        return emitted(normal_twice, golden.shape("float32", rows, 256)).text

    first, last = (text(n).index("out0 + row") for n in (64, 61))
    assert first < text(64).index("pass 2") and last > text(61).index("return;")


def test_slots_are_taken_again():
    def deep(x):
        for _ in range(8):
            x = gnp.tanh(x - x.mean(-1, keepdims=True))
        return x

    text = emitted(deep, golden.shape("float32", 64, 256)).text
    assert calls(text, "ga_tanh") == 8
    assert len(set(re.findall(r"\bkept\d+", text))) <= 3


def check(function, inputs) -> None:
    """A function on the simulator against the NumPy driver, and the same in every order."""
    made = simulated.built(ga.jit(function).lower(*inputs).jaxpr)
    found = simulated.run(made, inputs)
    exact = inputs[0].dtype == np.float32
    for one, want in zip(found, ga.jit(function)(*inputs), strict=True):
        tolerance = {"rtol": 1e-5, "atol": 2e-6} if exact else {"rtol": 0.02, "atol": 0.02}
        np.testing.assert_allclose(one.astype("f4"), np.asarray(want).astype("f4"), **tolerance)
    for seed in (2, 3):
        again = simulated.run(made, inputs, seed)
        assert [x.tobytes() for x in again] == [x.tobytes() for x in found]


@pytest.mark.parametrize(
    "dtype, shape",
    [("f4", (7, 5)), ("f4", (64, 48)), ("f4", (33, 40)), ("f4", (3, 1000)), ("f4", (2, 2050))]
    + [("f4", (1, 9000)), ("f4", (2, 50000)), ("bfloat16", (33, 48)), ("bfloat16", (2, 9001))],
)
def test_values(dtype, shape):
    x = np.random.default_rng(0).normal(size=shape).astype(np.dtype(dtype))
    check(normal_twice, (x,))


def test_values_that_are_only_kept_to_be_stored():
    def centred(x):
        less = x - x[0, 0]
        return less, less.sum(-1)

    check(centred, (np.arange(27, dtype="f4").reshape(3, 9),))


@pytest.mark.parametrize("shape", [(40, 64), (40, 33), (700, 32)])
def test_values_of_columns(shape):
    def centred(x):
        raised = gnp.exp(x)
        return raised, raised - raised.mean(0), nn.softmax(x, 0)

    check(centred, (np.random.default_rng(0).normal(size=shape).astype("f4"),))
