"""Blocks of turns that convert halves: every half, every rest behind the blocks, beside NumPy.

In: all halves, in pairs by chance. Out: results to the bit, halves and floats; instructions that
convert whole vectors.
"""

from __future__ import annotations

import re
import weakref

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.backends.native import library
from tests.support import natively
from tests.unit.compiler.native.test_native_text import assembly, needs_packed

natively.need_compiler()

ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def program(x, y, s):
    """Values and conditions of a stage that later ones read, places in the array, floats."""
    product = x * y
    places = gnp.arange(x.shape[0], dtype="float32")
    return (
        gnp.maximum(product + x, 0) * y - s,
        (x / y).astype("float32") * 2,
        gnp.where(product > 1, x + y, gnp.abs(y)),
        (gnp.sqrt(gnp.abs(x)).astype("float32") + places).astype("float16"),
    )


def reference(x, y, s):
    """The same in float32, rounded after every operation, which NumPy does for halves."""
    places = np.arange(x.shape[0], dtype=np.float32)
    root = np.sqrt(np.abs(x)).astype(np.float32)
    return (
        np.maximum(x * y + x, np.float16(0)) * y - s,
        (x / y).astype(np.float32) * np.float32(2),
        np.where(x * y > 1, x + y, np.abs(y)),
        (root + places).astype(np.float16),
    )


def check(sizes):
    rng = np.random.default_rng(0)
    x, y, s = rng.permutation(ALL), rng.permutation(ALL), np.float16(0.3)
    shape = ga.ShapeDtypeStruct
    graphs = [
        ga.jit(program).lower(shape((n,), "float16"), shape((n,), "float16"), s).jaxpr
        for n in sizes
    ]
    programs = [natively.written(graph) for graph in graphs]
    natively.compile_all(programs)
    assert "ga_as_halves(" in programs[-1].kernels[0].text
    for n, function in zip(sizes, programs, strict=True):
        with np.errstate(all="ignore"):
            wanted = reference(x[:n], y[:n], s)
        for found, want in zip(function(x[:n], y[:n], s), wanted, strict=True):
            assert found.dtype == want.dtype
            np.testing.assert_array_equal(found, want)
            signs = np.signbit(found.astype(float)) == np.signbit(want.astype(float))
            assert (signs | np.isnan(want.astype(float))).all()


def test_halves_in_blocks():
    check([1, 16, 47, 1 << 16])


@needs_packed
@pytest.mark.parametrize("machine", ["x86-64-v3", "x86-64-v2"])
def test_halves_of_older_machines(machine, monkeypatch):
    """Those with shorter vectors, and those without such instructions."""
    if not all(name in library._processor() for name in ("avx2", "f16c")):
        pytest.skip("this CPU cannot run the code of all of them")
    monkeypatch.setattr(library, "_tuned", lambda cxx: (f"-march={machine}",))
    monkeypatch.setattr(library, "_units", weakref.WeakValueDictionary())
    check([47, 1 << 16])


def views(x):
    """Rows that begin anywhere, backwards, broadcast, one after another."""
    return (
        gnp.transpose(x, (1, 0, 2))[:, ::-1] * 2 + x[1:, :1],
        gnp.concatenate([x, x * 3], 2)[:, :, ::-1] * 2,
    )


def test_halves_through_views():
    x = np.resize(ALL, (2, 16, 160))[:, :, 3:150]
    x = np.where(np.isfinite(x), x, np.float16(1))
    graph = ga.jit(views).lower(x).jaxpr
    function = natively.written(graph)
    natively.compile_all([function])
    with np.errstate(all="ignore"):
        wanted = (
            np.transpose(x, (1, 0, 2))[:, ::-1] * np.float16(2) + x[1:, :1],
            np.concatenate([x, x * np.float16(3)], 2)[:, :, ::-1] * np.float16(2),
        )
    for found, want in zip(function(x), wanted, strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, m, b: (x > 0, x * 2),
        lambda x, m, b: gnp.where(m, x * 2 + 1, 0),
        lambda x, m, b: x * b + 1,
    ],
)
def test_bytes_are_not_mixed_with_halves_in_blocks(function):
    """g++ makes no vectors of so short a loop over both."""
    shape = ga.ShapeDtypeStruct
    given = [shape((1000,), kind) for kind in ("float16", "bool", "int8")]
    assert "ga_as_halves" not in ga.jit(function).lower(*given).cpp_source()


@needs_packed
def test_halves_are_converted_many_at_a_time():
    if "f16c" not in library._processor():
        pytest.skip("this CPU has no instructions for halves")
    x = ga.ShapeDtypeStruct((1 << 20,), "float16")
    code = assembly(lambda x, y: gnp.exp(x * y) + x, x, x)
    assert len(re.findall(r"\bvcvtps2ph\b", code)) >= 3  # two roundings, and the result
    assert len(re.findall(r"\bvcvtph2ps\b", code)) >= 4
