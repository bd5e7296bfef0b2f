"""Kernels whose operands lie across one another: one kernel, turned in shared memory.

In: transposes, batches of them, results that cross, with sizes that fit tiles and that do not. The
simulator runs them in several orders and checks each access; NVRTC says what they take.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.compiler.cuda.emit import KernelSource, emit
from gpuarray.compiler.lower.schedule import schedule_tiles
from gpuarray.core import dtypes
from tests import golden
from tests.support import nvrtc, simulated

simulated.need_compiler()

DTYPES = ("bool int8 bfloat16 float16 int16 int32 float32 float64 complex64 complex128").split()
SIZES = ((64, 128), (33, 17), (70, 130), (16, 100), (72, 136))


def filled(dtype: str, *shape: int) -> np.ndarray:
    """Values of which any two that stand apart differ, as far as the dtype can."""
    n = int(np.prod(shape))
    return (np.arange(n) * 37 % 251 - 100).reshape(shape).astype(getattr(dtypes, dtype, dtype))


def kernels(function, *arrays) -> list[KernelSource]:
    with ga.enable_x64(True):
        arguments = [golden.shape(x.dtype.name, *x.shape) for x in arrays]
        return [emit(g) for g in ga.jit(function).lower(*arguments).plan.on_device.groups]


def crossing(dtype: str, m: int, n: int) -> list[tuple]:
    """Functions whose operands cross, and their arguments."""
    a, b = filled(dtype, m, n), filled(dtype, n, m)
    wide = filled("float32", m, n)
    return [
        (lambda a, b: gnp.where(a.T == b, a.T, b[:1]), (a, b)),
        (lambda a, w: gnp.where(w.T > 0, a.T, a.T[::-1]), (a, wide)),
        (lambda a, b: (a.T == b, a == b.T), (a, b)),
    ]


OTHERS = {
    "batches": (
        lambda a, b: gnp.swapaxes(a, 1, 2) + b,
        (filled("bfloat16", 3, 40, 72), filled("bfloat16", 3, 72, 40)),
    ),
    "three axes": (
        lambda a, b, c: (gnp.transpose(a, (2, 0, 1)) + b) * c[:, None, None],
        (filled("float32", 20, 30, 40), filled("float32", 40, 20, 30), filled("float32", 40)),
    ),
    "and a row": (
        lambda a, b, c: (a.T + b + c[:, None], b * 2),
        (filled("float32", 50, 70), filled("float32", 70, 50), filled("float32", 70)),
    ),
    "cut and shifted": (
        lambda a, b: a.T[1:-1, 1:-1] + a.T[2:, 1:-1] + a.T[1:-1, :-2] + b,
        (filled("float32", 52, 72), filled("float32", 70, 50)),
    ),
    "reversed": (
        lambda a, b: gnp.flip(a, 0).T + b,
        (filled("float32", 52, 72), filled("float32", 72, 52)),
    ),
    "stride 0": (
        lambda a, b: gnp.broadcast_to(a[:, None, :], (20, 3, 36)).transpose(1, 2, 0) + b,
        (filled("float32", 20, 36), filled("float32", 3, 36, 20)),
    ),
    "many operands": (
        lambda *xs: sum((x.T for x in xs[1:]), xs[0]),
        (filled("float32", 40, 40), *(filled("float32", 40, 40) + k for k in range(14))),
    ),
    "short": (lambda a, b: a.T + b, (filled("float32", 100, 3), filled("float32", 3, 100))),
    "empty": (lambda a, b: a.T + b, (filled("float32", 0, 64), filled("float32", 64, 0))),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_turned_values_are_right(dtype):
    cases = [case for m, n in SIZES for case in crossing(dtype, m, n)]
    assert all(k.kernel.form == "tiles" for f, xs in cases for k in kernels(f, *xs))
    with ga.enable_x64(True):
        simulated.compare(cases)


def test_turned_among_other_axes_and_operands():
    assert {n for n, (f, xs) in OTHERS.items() if kernels(f, *xs)[0].kernel.form != "tiles"} == {
        "short",
        "empty",
    }
    simulated.compare(OTHERS.values())


@pytest.mark.parametrize("shape", [(64, 96), (33, 47), (3, 500)])
@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float32", "complex128"])
def test_a_view_is_copied_with_its_axes_turned(dtype, shape):
    x = filled(dtype, *shape)
    with ga.enable_x64(True):
        (kernel,) = kernels(lambda x: x.T, x)
    assert kernel.kernel.form == ("tiles" if min(shape) > 16 else "map")
    given, made = simulated.Sparse(x.nbytes), simulated.Sparse(x.nbytes)
    given.at(0, x.dtype, x.size)[:] = x.ravel()
    for seed in simulated.SEEDS:
        simulated.launch(kernel, [given, made], seed)
        assert made.at(0, x.dtype, x.size).tobytes() == x.T.tobytes()


# ---- how ----


def test_one_kernel_with_a_tile():
    (kernel,) = golden.kernels("transposed_add")
    assert kernel.kernel.form == "tiles" and "__shared__ float tile0[32][33];" in kernel.text
    assert "in0 turned in shared memory" in kernel.text and kernel.threads_meet
    function, arguments = golden.programs()["transposed_add"]
    (shown,) = ga.explain(function, platform="cuda")(*arguments).kernels
    assert shown.facts["form"] == "tiles" and "tile0" in shown.source


def test_the_axis_of_most_bytes_is_not_turned():
    (kernel,) = golden.kernels("transposed_away")
    assert "out0 turned" in kernel.text and kernel.text.count("tile0[") == 3


def test_barriers_are_outside_all_conditions():
    for f, xs in OTHERS.values():
        for kernel in kernels(f, *xs):
            lines = kernel.text.splitlines()
            assert "return" not in kernel.text or kernel.kernel.form == "map"
            assert all(len(x) - len(x.lstrip()) == 4 for x in lines if "__syncthreads" in x)


def banks_used(itemsize: int, places: list[int]) -> int:
    """How often the busiest of 32 banks is asked for different words."""
    words = {w for p in places for w in range(p * itemsize // 4, ((p + 1) * itemsize + 3) // 4)}
    return max(sum(w % 32 == bank for w in words) for bank in range(32))


@pytest.mark.parametrize(
    ("itemsize", "width"),
    [(n, w) for n in (1, 2, 4, 8, 16) for w in (1, 2, 4, 8, 16) if n * w <= 16],
)
def test_no_two_threads_wait_for_one_bank(itemsize, width):
    s = schedule_tiles([512, 512], [itemsize], width)
    (stride,) = s.strides
    assert s.side * stride * itemsize <= 48 << 10 and s.lanes * s.width == s.side
    together = min(32, 128 // itemsize)
    for first in range(0, s.threads, together):
        for u in range(s.steps):
            threads = range(first, first + together)
            at = [(t // s.lanes, t % s.lanes * s.width) for t in threads]
            rows = s.side // s.steps
            at = [(d * s.steps + u if s.near else u * rows + d, lane) for d, lane in at]
            for e in range(s.width):
                assert banks_used(itemsize, [d * stride + lane + e for d, lane in at]) == 1
                assert banks_used(itemsize, [(lane + e) * stride + d for d, lane in at]) == 1


@nvrtc.needed
def test_tiles_are_filled_and_written_16_bytes_at_a_time():
    for name in ("transposed_add", "transposed_batches"):
        (kernel,) = golden.kernels(name)
        text = nvrtc.ptx(kernel)
        assert len(re.findall(r"ld\.global(?:\.nc)?\.v4\.[fbu]32", text)) >= 2
        assert "st.global.v4" in text and "st.shared" in text and "bar.sync" in text


@nvrtc.needed
@pytest.mark.parametrize("arch", nvrtc.SOME_ARCHS)
def test_tiles_assemble_without_spills(arch):
    found = [k for d in DTYPES for f, xs in crossing(d, 72, 136) for k in kernels(f, *xs)]
    found += [k for f, xs in OTHERS.values() for k in kernels(f, *xs)]
    for source in nvrtc.sources(nvrtc.distinct(("", k) for k in found)):
        made = nvrtc.compiled(source, arch)
        assert {r.spills for r in made.kernels.values()} == {0}
        assert max(r.shared for r in made.kernels.values()) <= 48 << 10
