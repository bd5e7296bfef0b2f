"""Kernels where it gets tight: offsets beyond 31 bits, buffers that begin anywhere, empty and
single elements, every special number, as many blocks as a launch has.

In: one program for each form of a kernel. Out: what the simulator computes and refuses. Buffers of
gigabytes exist only where they are touched, and only the blocks at their ends run.
"""

from __future__ import annotations

import functools
import itertools
import re

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import nn
from gpuarray.compiler.cuda.emit import KernelSource, Options, emit
from gpuarray.compiler.lower.kernel import NoKernel
from gpuarray.core import dtypes
from gpuarray.errors import DeviceError
from tests import golden
from tests.support import nvrtc, simulated

simulated.need_compiler()


def kernel_of(function, *arguments, aligned: bool = True) -> KernelSource:
    """The one kernel of a function."""
    with ga.enable_x64(True):
        (group,) = ga.jit(function).lower(*arguments).plan.on_device.groups
    return emit(group, Options(aligned=aligned))


# ---- offsets that 32 bits do not hold ----

G = 1 << 30
LAST, ROW, ROWS, COLUMNS = np.s_[-16:], np.s_[-1:], np.s_[-2:], np.s_[:, -32:]
CORNER, BATCH = np.s_[-40:, -40:], np.s_[-1:, -40:, -40:]


def less_peak(axis):
    """Each element less the largest of its row or column."""
    return lambda xp, x: x - xp.max(x, axis, keepdims=True)


def long_peaks(xp, x):
    return xp.max(x, 1)


def swapped(xp, a, b):
    return xp.swapaxes(a, -1, -2) | b


def numbered(xp, x):
    """The number of an element is the number it has in the whole."""
    n = xp.arange(4 * G + 16, dtype="int64") if xp is gnp else np.arange(4 * G, 4 * G + 16)
    return x + n.astype("int8")


# name: (function, shapes of int8, form, blocks that run, the part of inputs and results they see)
LARGE = {
    "map": (lambda xp, x, y: x | y, [(4 * G + 4112,)] * 2, "map", 2, LAST),
    "map, unrolled": (lambda xp, x: x + x, [(4 * G + 8192,)], "map", 1, LAST),
    "map, one by one": (
        lambda xp, x, y: x * y,
        [(G // 512 + 9, 1031), (G // 512 + 9, 1)],
        "map",
        5,
        ROW,
    ),
    "map, numbered": (numbered, [(4 * G + 16,)], "map", 1, LAST),
    "tiles": (swapped, [(65600, 65664), (65664, 65600)], "tiles", 1, CORNER),
    "tiles, ragged": (swapped, [(65581, 65593), (65593, 65581)], "tiles", 1, CORNER),
    "tiles, out": (lambda xp, a, b: a.T | b.T, [(65581, 65593)] * 2, "tiles", 1, CORNER),
    "tiles, batches": (swapped, [(3, 32816, 32824), (3, 32824, 32816)], "tiles", 1, BATCH),
    "rows, several a block": (less_peak(1), [(G // 4 + 8, 16)], "rows", 1, ROWS),
    "rows, a block each": (less_peak(1), [(G // 2048, 8192)], "rows", 2, ROWS),
    "rows, odd": (less_peak(1), [(G // 512 + 1, 1031)], "rows", 2, ROWS),
    "rows, in shared memory": (less_peak(1), [(G // 4096, 9001)], "rows", 2, ROWS),
    "rows, long": (less_peak(1), [(G // 32768, 140000)], "rows", 2, ROWS),
    "rows, with ends": (less_peak(1), [(G // 16384, 70001)], "rows", 2, ROWS),
    "several blocks a row": (long_peaks, [(130, G // 64 + 16)], "rows", 2, ROW),
    "columns": (less_peak(0), [(3, G + 32)], "columns", 1, COLUMNS),
}


@pytest.mark.parametrize("name", list(LARGE))
def test_offsets_beyond_31_bits(name):
    function, shapes, kind, many, part = LARGE[name]
    arguments = [golden.shape("int8", *s) for s in shapes]
    kernel = kernel_of(lambda *xs: function(gnp, *xs), *arguments)
    avals = [v.aval for v in (*kernel.inputs, *kernel.outputs)]
    assert (
        kernel.kernel.form == kind and "ull" in kernel.text and max(a.size for a in avals) > 2 * G
    )
    buffers = [simulated.Sparse(a.size) for a in avals]
    arrays = [
        b.at(0, np.int8, a.size).reshape(a.shape) for a, b in zip(avals, buffers, strict=True)
    ]
    rng = np.random.default_rng(0)
    for x in arrays[:-1]:
        x[part] = rng.integers(-60, 60, x[part].shape)
    simulated.launch(kernel, buffers, 1, (kernel.schedule.grid - many, many))
    expected = function(np, *(x[part] for x in arrays[:-1]))
    assert np.any(expected) and np.array_equal(arrays[-1][part], expected)


def test_offsets_beyond_31_bits_in_the_parts_of_columns():
    """One block of many that share a column, here the one with the last row, leaves what it found
    in the workspace.
    """
    shape = (G // 16 + 8, 40)
    kernel = kernel_of(lambda x: gnp.max(x, 0), golden.shape("int8", *shape))
    assert kernel.kernel.form == "columns" and kernel.schedule.splits > 100 and "ull" in kernel.text
    given, made = simulated.Sparse(shape[0] * shape[1]), simulated.Sparse(40)
    x = given.at(0, np.int8, shape[0] * shape[1]).reshape(shape)
    x[-1] = np.arange(40)
    s = kernel.schedule
    cut = (shape[0] - 1) // s.lanes % s.splits
    across = s.grid // s.splits
    work = simulated.launch(kernel, [given, made], 1, (cut * across + across - 1, 1))
    slots = work.at(0, np.int8, kernel.workspace).reshape(-1, 16)[:, 0]
    assert set(np.arange(32, 40)) <= set(slots) and slots.max() == 39


def test_a_launch_has_no_more_blocks_than_there_are():
    def peaks(rows):
        repeated = lambda x: gnp.max(gnp.broadcast_to(x, (rows, 4096)), axis=1)
        return kernel_of(repeated, golden.shape("int16", 4096))

    rows = 2**31 - 1
    kernel = peaks(rows)
    assert kernel.schedule.grid == rows
    given, made = simulated.Sparse(8192), simulated.Sparse(2 * rows)
    given.at(0, np.int16, 4096)[7] = 5
    simulated.launch(kernel, [given, made], 1, (rows - 1, 1))
    assert made.at(2 * rows - 4, np.int16, 2).tolist() == [0, 5]
    with pytest.raises(NoKernel, match="2147483648 blocks, and a launch has at most 2147483647"):
        peaks(rows + 1)


# ---- buffers that begin anywhere ----

# name: (function, shapes of float32)
SHAPES = {
    "map": (lambda x, y: x * y + 1, [(4096,)] * 2),
    "map, unrolled": (lambda x: gnp.abs(x), [(1 << 24,)]),
    "tiles": (lambda a, b: a.T + b, [(96, 64), (64, 96)]),
    "rows": (lambda x: x - gnp.max(x, 1, keepdims=True), [(40, 512)]),
    "rows with ends": (lambda x: x - gnp.max(x, 1, keepdims=True), [(160, 11269)]),
    "map with an end": (lambda x, y: x * y + 1, [((1 << 19) + 1,)] * 2),
    "several blocks a row": (lambda x: gnp.max(x), [(1 << 16,)]),
    "columns": (lambda x: gnp.max(x, 0), [(64, 96)]),
}


@pytest.mark.parametrize("name", list(SHAPES))
def test_buffers_that_begin_anywhere(name):
    function, shapes = SHAPES[name]
    arguments = [golden.shape("float32", *s) for s in shapes]
    vectors, scalars = (kernel_of(function, *arguments, aligned=a) for a in (True, False))
    assert (scalars.alignment, scalars.schedule.width) == (1, 1)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s, np.float32) for s in shapes]
    expected = np.asarray(ga.jit(function)(*arrays))
    last = vectors.schedule.grid if expected.size < 1 << 20 else 1
    for kernel, offset in ((vectors, 0), (scalars, 4), (vectors, 4)):
        buffers = [simulated.Sparse(x.nbytes, offset) for x in (*arrays, expected)]
        for x, b in zip(arrays, buffers, strict=False):
            b.at(0, np.float32, x.size)[:] = x.ravel()
        run = functools.partial(simulated.launch, kernel, buffers)
        blocks = (0, 0) if last > 1 or expected.size == 1 else (kernel.schedule.grid - 1, 1)
        if offset and kernel.alignment > 1:
            with pytest.raises(DeviceError, match="misaligned: byte"):
                run(blocks=blocks)
            continue
        run(blocks=blocks)
        found = buffers[-1].at(expected.nbytes - 4, np.float32, 1)
        assert found == expected.ravel()[-1]
        if blocks == (0, 0):
            whole = buffers[-1].at(0, np.float32, expected.size)
            assert np.array_equal(whole, expected.ravel())


# ---- empty, single, repeated, reversed ----

TIGHT = {
    "pointwise": lambda x: (x * x + x, -x),
    "whole": lambda x: (gnp.sum(x * 2), gnp.sum(x, keepdims=True) + x),
    "last axis": lambda x: (gnp.sum(x, -1), x - gnp.sum(x, -1, keepdims=True)),
    "first axis": lambda x: (gnp.sum(x, 0), x - gnp.sum(x, 0, keepdims=True)),
    "softmax": lambda x: nn.softmax(x, -1),
    "turned": lambda x: x.T + 1,
    "turned twice": lambda x: x.T * x[..., None].T[0] if x.ndim > 1 else x.T * x,
    "reversed": lambda x: gnp.flip(x) + x,
    "reversed and cut": lambda x: x[::-1][::2] * 3,
    "repeated": lambda x: gnp.broadcast_to(x, (3, *x.shape)) + gnp.arange(3.0).reshape(
        3, *(1,) * x.ndim
    ),
    "a row for all": lambda x: x[:1] + x,
}  # fmt: skip
TIGHT_SHAPES = [
    (), (1,), (0,), (2,), (1, 1), (0, 3), (3, 0), (1, 5), (5, 1), (2, 1, 3), (1, 17, 1), (0, 0),
    (4, 0, 2), (1, 64), (64, 1), (31, 33), (1, 1, 1, 1, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize("name", list(TIGHT))
def test_empty_single_repeated_reversed(name):
    function, rng = TIGHT[name], np.random.default_rng(0)
    arrays = [np.round(rng.uniform(-9, 9, s)).astype(np.float32) for s in TIGHT_SHAPES]
    if "axis" in name or name in ("softmax", "reversed and cut", "a row for all"):
        arrays = [x for x in arrays if x.ndim]
    simulated.compare([(function, (x,)) for x in arrays], 8 if name == "softmax" else 0)


# ---- every special number ----

NUMBERS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 \
complex64 complex128".split()


def specials(dtype: np.dtype) -> list:
    """Numbers that are easily written down wrong."""
    kind = dtypes.kind_of(dtype)
    if kind == "b":
        return [True, False]
    if kind in "iu":
        info = np.iinfo(dtype)
        return [info.min, info.min + 1, info.max, info.max - 1, 0, 1]
    part = dtypes.to_real_dtype(dtype) if kind == "c" else dtype
    info = dtypes.finfo(part)
    reals = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1 / 3, 1e-4, 9999999.0, 65504.0, -7e22]
    reals += [float(x) for x in (info.smallest_subnormal, info.smallest_normal, info.max, info.eps)]
    with np.errstate(over="ignore"):
        reals = [np.asarray(r).astype(part)[()] for r in reals]
    return [complex(a, b) for a, b in itertools.product(reals, reals)] if kind == "c" else reals


def chosen(dtype: np.dtype, one, other):
    """A function that answers with two constants, to the bit."""
    a, b = np.asarray(one).astype(dtype)[()], np.asarray(other).astype(dtype)[()]
    return lambda m: gnp.where(m, gnp.asarray(a), gnp.asarray(b))


@pytest.mark.parametrize("name", NUMBERS)
def test_special_numbers_are_written_to_the_bit(name):
    dtype = np.dtype(getattr(dtypes, name, name))
    with ga.enable_x64(True), np.errstate(all="ignore"):
        listed = specials(dtype)
        pairs = list(zip(listed, listed[1:] + listed[:1], strict=True))
        mask = np.arange(9) % 2 == 0
        made = [simulated.built(ga.jit(chosen(dtype, *p)).lower(mask).jaxpr) for p in pairs]
        for pair, function in zip(pairs, made, strict=True):
            (found,) = simulated.run(function, [mask])
            one, other = (np.full(9, x).astype(dtype) for x in pair)
            expected = np.where(mask, one, other)
            assert found.dtype == dtype
            same = found.view(np.uint8) == expected.view(np.uint8)
            assert np.all(same.reshape(9, -1).all(1) | np.isnan(expected)), (pair, found)


@nvrtc.needed
def test_special_numbers_compile():
    found = []
    with ga.enable_x64(True):
        # A choice between truths is its condition.
        for name in (name for name in NUMBERS if name != "bool"):
            dtype = np.dtype(getattr(dtypes, name, name))
            for value in specials(dtype)[:40]:
                function = chosen(dtype, value, 0)
                found.append(kernel_of(function, golden.shape("bool", 9)))
    bodies = nvrtc.distinct(("", k) for k in found)
    assert len(bodies) > 100
    for source in nvrtc.sources(bodies):
        assert ".entry" in nvrtc.compiled(source, "compute_90").ptx


# ---- 16 bytes at a time ----


@nvrtc.needed
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_chains_access_16_bytes_a_thread(dtype):
    for size, vectors in ((1 << 20, 1), (1 << 28, 2)):
        kernel = kernel_of(golden.chain, golden.shape(dtype, size))
        text = nvrtc.ptx(kernel)
        assert kernel.schedule.steps == vectors
        assert len(re.findall(r"ld\.global(?:\.nc)?\.v4\.[fbu]32", text)) == vectors
        assert len(re.findall(r"st\.global\.v4\.[fbu]32", text)) == vectors
        assert not re.findall(r"(?:ld|st)\.global(?:\.nc)?\.[fbu]\d+", text)


@nvrtc.needed
@pytest.mark.parametrize("arch", nvrtc.FEWEST_ARCHS)
def test_nothing_agreed_spills(arch):
    kernels = [(name, k) for name in golden.programs() for k in golden.kernels(name)]
    made = nvrtc.resources([k for _, k in kernels], arch)
    for (name, kernel), used in zip(kernels, made, strict=True):
        # There the assembler would rather store two registers than hold one block less.
        assert used.spills <= (8 if arch in ("sm_80", "sm_120") else 0), name
        assert 0 < used.registers * kernel.schedule.threads <= 65536, name
