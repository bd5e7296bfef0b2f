"""Groups with few long rows are a kernel for each pass on a GPU, and compute what one kernel would.

In: normalisations over shapes that give one kernel too few blocks. The simulator runs small ones
that are cut all the same.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.compiler.lower import split_passes
from gpuarray.compiler.lower.schedule import schedule_columns
from tests import golden
from tests.support import programs, simulated
from tests.support.targets import plan_for

simulated.need_compiler()


def batch_norm(x, gain, offset):
    """Channels last, over all images."""
    mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return nn.relu((x - mean) * lax.rsqrt(var + 1e-5) * gain + offset)


def standard(x):
    return (x - x.mean()) / x.std()


def count(function, *shapes, dtype: str = "float32") -> int:
    arguments = [golden.shape(dtype, *s) for s in shapes]
    return len(ga.explain(function, platform="cuda")(*arguments).kernels)


@pytest.mark.parametrize(
    ("function", "shapes", "kernels"),
    [
        (batch_norm, [(32, 56, 56, 64), (64,), (64,)], 2),  # mean and variance are one pass
        (lambda x: nn.softmax(x), [(2, 1_000_000)], 2),
        (lambda x: nn.softmax(x), [(2000, 3000)], 1),
        (lambda x: nn.softmax(x, 0), [(4096, 1024)], 2),
        (lambda x: nn.softmax(x, 0), [(512, 8448)], 1),
        (lambda x: nn.softmax(x, 0), [(100_000, 64)], 2),
        (lambda x: nn.softmax(x), [(1, 4096)], 1),  # quicker than another launch
        (lambda x: nn.softmax(x), [(1, 30_000)], 2),
        (lambda x: nn.softmax(x), [(2000, 131_072)], 1),
        (lambda x: nn.softmax(x), [(133, 131_072)], 2),  # one block more than multiprocessors
        (lambda x: nn.logsumexp(x, axis=1), [(8, 500_000)], 1),
        (lambda x: x.sum(1), [(2, 4_000_000)], 1),  # one pass is shared by many blocks anyway
    ],
)
def test_what_is_cut(function, shapes, kernels):
    assert count(function, *shapes) == kernels


def test_each_pass_reads_the_input_and_the_last_one_alone_writes():
    shapes = [(32, 56, 56, 64), (64,), (64,)]
    found = ga.explain(batch_norm, platform="cuda")(*(golden.shape("float32", *s) for s in shapes))
    whole = 4 * 32 * 56 * 56 * 64
    assert [k.bytes_read // whole for k in found.kernels] == [1, 1]
    assert [k.bytes_written // whole for k in found.kernels] == [0, 1]
    assert all(k.grid * k.block >= 1 << 16 for k in found.kernels)
    assert {b.reason for b in found.why_not_fused} == {split_passes.WHY}
    assert "too few to fill a GPU" in str(found)


@pytest.fixture
def always(monkeypatch):
    """Launches cost nothing: whatever has too few rows is cut."""
    plan_for(monkeypatch, launch_bytes=0)


def filled(*shape: int) -> np.ndarray:
    n = int(np.prod(shape))
    return ((np.arange(n) * 37 % 251 - 100) / 16).reshape(shape).astype(np.float32)


def weighted(x):
    """Values over rows alone that are read turned, and several results."""
    mean = x.mean(1)
    wide = x - mean[:, None]
    spread = (wide * wide).sum(1)
    return mean, wide, spread, (wide.T / (1 + spread)).T, mean[::-1] + spread


CASES = {
    "columns": (batch_norm, (filled(3, 5, 4, 8), filled(8), filled(8))),
    "channels first": (
        lambda x: (x - x.mean((0, 2), keepdims=True)) / x.std((0, 2), keepdims=True),
        (filled(4, 6, 50),),
    ),
    "softmax": (lambda x: nn.softmax(x, 1), (filled(3, 5000),)),
    "softmax down": (lambda x: nn.softmax(x, 0), (filled(700, 5),)),
    "one row": (standard, (filled(40_000),)),
    "all axes": (standard, (filled(20, 30, 40),)),
    "several results": (weighted, (filled(6, 900),)),
    "of one another": (
        lambda x: gnp.sum(x / gnp.max(x, 1, keepdims=True), 1),
        (filled(4, 3000) + 20,),
    ),
    "places": (
        lambda x: x - gnp.take_along_axis(x, gnp.argmax(x, 1)[:, None], 1),
        (filled(5, 2000),),
    ),
    "padded": (lambda x: standard(gnp.pad(x, 3)), (filled(50, 60),)),
    "numbers": (
        lambda x: standard(x + ga.random.normal(ga.random.key(0), x.shape)),
        (filled(9000),),
    ),
}  # fmt: skip


@pytest.mark.usefixtures("always")
def test_cut_groups_compute_what_whole_ones_do():
    made = {name: count(f, *(x.shape for x in xs)) for name, (f, xs) in CASES.items()}
    assert min(made.values()) > 1, made
    for name, (function, inputs) in CASES.items():
        lowered = simulated.built(ga.jit(function).lower(*inputs).jaxpr)
        expected = [np.asarray(x) for x in ga.tree.leaves(ga.jit(function)(*inputs))]
        runs = [simulated.run(lowered, inputs, seed) for seed in simulated.SEEDS]
        for found, e in zip(runs[0], expected, strict=True):
            np.testing.assert_allclose(found, e, rtol=2e-5, atol=2e-5, err_msg=name)
        for other in runs[1:]:
            assert all(a.tobytes() == b.tobytes() for a, b in zip(runs[0], other, strict=True))


@pytest.mark.usefixtures("always")
def test_random_programs_with_every_group_cut_that_can_be():
    cut = 0
    for seed in range(60):
        program = programs.generate(seed, longest=12)
        inputs = programs.inputs_of(program, seed)
        with ga.enable_x64(True):
            function = ga.jit(lambda *xs, p=program: programs.run(p, gnp, list(xs)))
            expected = [np.asarray(x) for x in ga.tree.leaves(function(*inputs))]
            made = simulated.built(function.lower(*inputs).jaxpr)
            found = simulated.run(made, inputs)
            shown = ga.explain(function, platform="cuda")(*inputs)
            cut += any(b.reason == split_passes.WHY for b in shown.why_not_fused)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True)
    assert cut >= 4


# ---- down columns ----


@pytest.mark.parametrize(
    ("columns", "length", "threads", "across"),
    [(3000, 2000, 1024, 32), (1024, 4096, 1024, 16), (64, 100_000, 1024, 8), (64, 100, 512, 32)],
)
def test_few_columns_have_more_threads_and_narrower_blocks(columns, length, threads, across):
    s = schedule_columns(columns, length, False)
    assert (s.threads, s.rows_a_block) == (threads, across)
    assert s.grid == -(-columns // across) and s.splits == 1
    assert schedule_columns(columns, length, False, 100).threads <= 512


def test_columns_of_every_depth():
    shapes = [(100, 40), (300, 40), (600, 40), (1100, 40), (2100, 33), (130, 9), (70, 8)]
    simulated.compare(
        (lambda x: (x * 2 - gnp.max(x, 0)) - gnp.min(x, 0), (filled(*s),)) for s in shapes
    )
