"""Which kernels move 16 bytes a thread though they make what they read: masks from positions,
pieces side by side, rotated halves.

In: programs with guards along the axis of vectors. The simulator runs them against NumPy; the texts
say how wide their accesses are.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.backends import simulator
from gpuarray.compiler.cuda.emit import KernelSource, emit
from gpuarray.compiler.lower.schedule import schedule_columns
from gpuarray.compiler.text.prelude import complete
from tests import golden
from tests.support import nvrtc, simulated
from tests.support.targets import plan_for
from tests.unit.compiler.cuda.test_tiles import filled

simulated.need_compiler()


def kernels(function, *arrays) -> list[KernelSource]:
    """The kernels of a function on a GPU, where most of what moves data is made by its reader."""
    return [emit(g) for g in ga.jit(function).lower(*arrays).plan.on_device.groups]


def rotated(x, cos, sin):
    """Pairs of elements, half a row apart, turned in their plane."""
    a, b = gnp.split(x, 2, -1)
    return gnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


ROTATED = (filled("bfloat16", 3, 5, 64), filled("bfloat16", 5, 32), filled("bfloat16", 5, 32))
FLOATS = filled("float32", 12, 64)

WIDE = {
    "rotated halves": (rotated, ROTATED),
    "pieces": (lambda a, b: gnp.concatenate([a * 2, b + 1], 1), (FLOATS, FLOATS[:, :32])),
    "below the diagonal": (lambda x: gnp.tril(x) + 1, (filled("float32", 4, 32, 32),)),
    "causal softmax": (
        lambda x: nn.softmax(gnp.where(gnp.tri(64, dtype=bool), x, -gnp.inf)),
        (filled("float32", 3, 64, 64),),
    ),
    "one hot": (lambda i: nn.one_hot(i, 40), (np.arange(9, dtype=np.int32) * 5,)),
    "padded by a vector": (lambda x: gnp.pad(x, ((0, 0), (4, 8))) * 2, (FLOATS,)),
    "written into": (
        lambda x, y: lax.dynamic_update_slice(x * 2, y, (3, 16)) + 1,
        (FLOATS, FLOATS[:4, :16]),
    ),
    "rolled": (lambda x: gnp.roll(x, 8, 1) * 2, (FLOATS,)),
    "read by place": (lambda x, i: x[i] * 2, (FLOATS[0], np.arange(64, dtype=np.int32)[::-1] % 50)),
    "looked up": (
        lambda t, i, y: gnp.concatenate([t[i] * y, y], 0),
        (FLOATS[0], np.arange(64, dtype=np.int32)[::-1] % 50, FLOATS[1]),
    ),
    "groups of channels": (
        lambda x: gnp.concatenate([x - gnp.repeat(x[:, ::4], 4, 1), x * 2], 1) + 1,
        (FLOATS,),
    ),
    "positions": (lambda: gnp.arange(64.0) * 2, ()),
    "windows of channels": (
        lambda x: lax.reduce_window(x, -gnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") * 2,
        (filled("bfloat16", 2, 9, 7, 16),),
    ),
    "sums of channels": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        (filled("float32", 2, 8, 6, 12),),
    ),
    "a filter a channel": (
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=8
        ),
        (filled("float32", 2, 9, 7, 8), filled("float32", 3, 3, 1, 8)),
    ),
}
ALONE = {
    "odd pieces": (lambda a, b: gnp.concatenate([a * 2, b + 1], 1), (FLOATS, FLOATS[:, :31])),
    "an odd start": (lambda x: gnp.pad(x, ((0, 0), (3, 5))) * 2, (FLOATS,)),
    "neighbours": (lambda x: gnp.roll(x, 1, 1) + gnp.roll(x, -1, 1) - 2 * x, (FLOATS,)),
    "guards inside": (
        lambda x, y: gnp.concatenate([gnp.pad(x, ((0, 0), (4, 4))) * y, y], 1),
        (FLOATS, filled("float32", 12, 72)),
    ),
    "windows": (
        lambda x: lax.reduce_window(x, -gnp.inf, lax.max, (2, 2), (2, 2), "VALID"),
        (FLOATS,),
    ),
}


@pytest.mark.parametrize("name", WIDE)
def test_made_where_it_is_read_and_still_in_vectors(name):
    function, arrays = WIDE[name]
    for kernel in kernels(function, *arrays):
        assert kernel.schedule.width > 1, kernel.text
        assert "ga_load<" in kernel.text or not kernel.inputs or name == "one hot"


@pytest.mark.parametrize("name", ALONE)
def test_what_neighbours_need_apart_is_read_by_neighbouring_threads(name):
    function, arrays = ALONE[name]
    assert [k.schedule.width for k in kernels(function, *arrays)] == [1]


def test_values_are_those_of_single_elements():
    simulated.compare([*WIDE.values(), *ALONE.values()], limit=8)


def test_pieces_of_every_length():
    cases = []
    for n, m in [(4, 60), (6, 58), (8, 8), (2, 2), (1, 63), (36, 28)]:
        for dtype in ("float32", "int8", "float16", "complex64"):
            a, b = filled(dtype, 5, n), filled(dtype, 5, m)
            cases.append((lambda a, b: gnp.concatenate([a + a, b], 1), (a, b)))
            cases.append((lambda a, b: gnp.concatenate([b, a + a, b], 1) * 2, (a, b)))
    simulated.compare(cases)


@nvrtc.needed
def test_rotated_halves_are_read_and_written_16_bytes_at_a_time():
    (kernel,) = kernels(rotated, *ROTATED)
    text = nvrtc.ptx(kernel)
    assert text.count("ld.global.nc.v4") + text.count("ld.global.v4") >= 4
    assert text.count("st.global.v4") == 1 and "ld.global.nc.u16" not in text


def test_a_few_columns_share_a_warp_with_the_next_rows():
    assert schedule_columns(10, 10**6, True).rows_a_block == 16
    assert schedule_columns(3, 10**6, True).rows_a_block == 4
    assert schedule_columns(3, 10**6, True).threads == 256
    (kernel,) = kernels(lambda x: gnp.sum(x, 0), filled("float32", 5000, 3))
    assert "lane = threadIdx.x % 4u" in kernel.text and "blockIdx.x % 1u" not in kernel.text
    simulated.compare(
        (lambda x: gnp.max(x * 2, 0), (filled("float32", n, k),))
        for k in (2, 3, 5, 10, 16, 31)
        for n in (40, 3000)
    )


def test_with_batches_and_under_grad():
    x, cos, sin = (gnp.asarray(a, "float32") for a in ROTATED)
    gradient = ga.grad(lambda x, c, s: (rotated(x, c, s) ** 2).sum(), (0, 1))
    simulated.compare(
        [(gradient, (x, cos, sin)), (ga.vmap(rotated, (0, None, None)), (x, cos, sin))], limit=64
    )


def test_threads_side_by_side_fold_a_row_of_a_scatter():
    """A vector a thread would go through the updates once for each of its elements."""
    table, rows = filled("float32", 50, 64), (np.arange(40, dtype=np.int32) * 7) % 50

    def added(table, rows, updates):
        return table.at[rows].add(updates)

    updates = filled("float32", 40, 64)
    kernel = kernels(added, table, rows, updates)[-1]
    assert kernel.schedule.width == 1
    # Where the loop ends is searched for once.
    (loop,) = [line for line in kernel.text.splitlines() if "for (" in line]
    assert "< ga_search<true" not in loop and kernel.text.count("ga_search<") == 2
    simulated.compare([(added, (table, rows, updates))])


BETWEEN = {
    "every other": (lambda x: x[:, ::2] * 2, (FLOATS,)),
    "both of each pair": (lambda x: x[:, 1::2] * 2 + x[:, ::2], (FLOATS,)),
    "each fourth": (lambda x: x[:, 2::4] * 2, (FLOATS,)),
    "pairs of halves": (lambda x: x[..., ::2] * x[..., 1::2], (ROTATED[0],)),
}


@nvrtc.needed
@pytest.mark.parametrize("name", BETWEEN)
def test_strided_elements_come_with_those_between_them(name):
    function, arrays = BETWEEN[name]
    (kernel,) = kernels(function, *arrays)
    assert "ld.global.v2.b64" in nvrtc.ptx(kernel)


def test_no_vector_ends_behind_the_array():
    flat = filled("float32", 33 * 16).reshape(-1)
    cases = [*BETWEEN.values()]
    for cut in range(9):
        for step in (2, 3, 4, 5):
            part = flat[: flat.size - cut].copy()
            cases.append((lambda x, step=step: x[step - 1 :: step] * 2, (part,)))
            cases.append((lambda x, step=step: x[: x.size // 8 * 8 : step] * 2, (part,)))
    simulated.compare(cases, limit=8)


def test_what_is_read_for_narrow_numbers_has_16_bytes_a_vector_too(monkeypatch):
    """Buffers begin at multiples of 16 bytes, not of the 32 that four doubles have."""
    plan_for(monkeypatch, long_row=1 << 11, waiting_row=1 << 9, waiting_rows=1 << 10)

    def scaled(x):
        narrow = (x * 2).astype("float32") * gnp.tanh(x).astype("float32")
        return (narrow / gnp.abs(narrow).max()).astype("float16")

    memory = np.empty(8 * 8208 + 32, np.uint8)
    start = -memory.ctypes.data % 32 + 16
    x = memory[start : start + 8 * 8208].view("f8")
    x[:] = np.arange(8208) - 4104
    with ga.enable_x64(True):
        kernel = kernels(scaled, x)[-1]
        want = np.asarray(ga.jit(scaled)(x))
    (found,) = simulator.Launcher(kernel)(x, np.full((), 8208, "f4"))
    np.testing.assert_allclose(found, want, rtol=1e-3)
    assert "ga_load<2>(in0" in kernel.text


# ---- lengths that no vector divides ----

ENDS = {
    "map": lambda x, y: (x * 2 + y, gnp.where(x > y, x, y)),
    "positions": lambda x, y: (x * gnp.arange(x.size, dtype=x.dtype) + y,),
    "sum": lambda x, y: ((x * y).sum(),),
    "first of the largest": lambda x, y: (gnp.argmax(gnp.abs(x - y)), gnp.argmin(x)),
    "joined folds": lambda x, y: (nn.logsumexp((x + y)[None], -1),),
    "parts": lambda x, y: ((x[3:] * y[3:]).sum(),),
    "few long rows": lambda x, y: ((x * y)[1:].reshape(2, -1).max(1),),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("name", ENDS)
def test_ends_are_taken_one_by_one(name, dtype, monkeypatch):
    """As by NumPy: what is read in vectors, and the elements before and behind them."""
    plan_for(monkeypatch, full_threads=1 << 8, multiprocessors=3)
    if dtype == "int8" and name == "joined folds":
        dtype = "bfloat16"
    n, rng = 20_011, np.random.default_rng(len(name))
    x, y = (rng.integers(-5, 6, n).astype(dtype) for _ in range(2))
    (kernel,) = kernels(ENDS[name], x, y)
    assert "vector" in kernel.text and kernel.schedule.width == 16 // x.dtype.itemsize
    want = [np.asarray(w) for w in ga.jit(ENDS[name])(x, y)]
    for seed in simulated.SEEDS:
        with simulator.order_drawn_from(seed):
            found = simulator.Launcher(kernel)(x, y)
        for f, w in zip(found, want, strict=True):
            np.testing.assert_allclose(f.astype("f8"), w.astype("f8"), rtol=1e-2)


@pytest.mark.parametrize("length", [20_008, 20_010])
def test_guards_within_a_vector(length, monkeypatch):
    """Elements that are looked for in rare updates, up to a bound that no vector ends at."""
    plan_for(monkeypatch, full_threads=1 << 8, multiprocessors=3, searchers=1)
    x = filled("float32", length + 3)
    rows = np.arange(0, length, 5, dtype=np.int32)[::-1].copy()

    def updated(x, rows):
        return gnp.concatenate([gnp.zeros(length).at[rows].set(2.0), gnp.ones(3)]) * x

    simulated.compare([(updated, (x, rows))])
    last = kernels(updated, x, rows)[-1]
    assert last.schedule.width == (4 if length % 4 == 0 else 1)


@nvrtc.needed
@pytest.mark.parametrize("arch", nvrtc.SOME_ARCHS)
def test_kernels_with_ends_compile(arch):
    """As they are for a large GPU, at which rows are long enough."""
    long, rows = golden.shape("bfloat16", (1 << 26) + 1), golden.shape("bfloat16", 8192, 50257)
    found = [k for name in ("map", "sum", "joined folds") for k in kernels(ENDS[name], long, long)]
    found += [k for f in (nn.softmax, lambda x: gnp.argmax(x, -1)) for k in kernels(f, rows)]
    assert all(k.schedule.width == 8 for k in found)
    for kernel in found:
        nvrtc.check(complete(kernel.text), arch)


@nvrtc.needed
def test_registers_hold_what_a_turn_reads_of_many_arrays():
    def folded(*xs):
        return sum((x / (y * y + 1)).sum() for x, y in itertools.pairwise(xs))

    (kernel,) = kernels(folded, *[golden.shape("float32", (1 << 26) + 1)] * 8)
    (used,) = nvrtc.resources([kernel], "sm_90")
    assert kernel.schedule.width == 4 and used.spills == 0


def test_few_elements_have_a_thread_each():
    x = filled("float32", 1001)
    (kernel,) = kernels(lambda x: x * 2, x)
    assert kernel.schedule.width == 1


def test_long_texts_are_not_written_for_the_ends():
    def many(x):
        for k in range(80):
            x = gnp.sin(x) + k
        return x

    (kernel,) = kernels(many, golden.shape("bfloat16", (1 << 26) + 1))
    assert kernel.schedule.width == 1
