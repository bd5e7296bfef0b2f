"""Products of matrices of integers by native code: types, roles, instructions, threads.

In: integers up to the ends of their types. Out: sums that wrap as NumPy's do.
"""

import itertools

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends import hostcc
from gpuarray.backends.native import library
from gpuarray.config import config
from tests.support import natively

natively.need_compiler()

TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]

#: einsum's letters, and the lengths of i, j, k and of a batch b: whole panels, and none.
PRODUCTS = [
    ("ik,kj->ij", (64, 64, 64, 1)),
    ("ik,kj->ij", (37, 45, 131, 1)),
    ("ki,kj->ij", (21, 130, 66, 1)),
    ("ik,jk->ij", (40, 33, 65, 1)),
    ("ki,jk->ij", (5, 13, 600, 1)),
    ("bik,bkj->bij", (40, 17, 50, 3)),
    ("bik,kj->bij", (40, 70, 35, 2)),
    ("kbi,kj->bij", (35, 32, 63, 4)),
    # Axes that are not one in memory.
    ("ik,bkj->ibj", (70, 36, 60, 3)),
    ("kbj,ik->bji", (70, 36, 60, 3)),
    ("ibk,jbk->bij", (40, 33, 64, 5)),
]


def ends(dtype: str, shape, rng) -> np.ndarray:
    """Integers of the whole range, the ends among them."""
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    x[rng.random(shape) < 0.15], x[rng.random(shape) < 0.15] = info.min, info.max
    return x


def program(words: str, left: str, right: str, out: str | None, lengths, rng):
    """A product of random integers, its operands, and what NumPy makes of them."""
    size = dict(zip("ijkb", lengths, strict=True))
    one, two = words.partition("->")[0].split(",")
    x, y = ends(left, [size[c] for c in one], rng), ends(right, [size[c] for c in two], rng)
    f = lambda x, y: gnp.einsum(words, x, y, preferred_element_type=out)
    p = natively.written(ga.jit(f).lower(x, y).jaxpr)
    assert not p.writer.by_host, (words, left, right)
    wanted = np.einsum(words, x.astype(np.int64), y.astype(np.int64))
    return p, (x, y), wanted


def check(cases) -> None:
    """Compile and run the programs; sums are those of 64 bits, cut to the type of the result."""
    natively.compile_all([p for p, _, _ in cases])
    for p, operands, wanted in cases:
        (found,) = p(*operands)
        assert "ga_integer_product<" in p.kernels[0].text
        np.testing.assert_array_equal(found, wanted.astype(found.dtype), p.kernels[0].text[-500:])


def test_any_types(rng):
    pairs = [*itertools.product(TYPES[:4], TYPES[:4]), *((t, t) for t in TYPES[4:])]
    pairs += [("int8", "int32"), ("uint32", "int16"), ("int64", "int8")]
    with ga.enable_x64(True):
        cases = [
            program("ik,kj->ij", x, y, out, (37, 45, 131, 1), rng)
            for x, y in pairs
            for out in (None, "int32", "int64")
            if out is None or np.result_type(x, y).itemsize <= np.dtype(out).itemsize
        ]
    check(cases)


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_any_roles(dtype, rng):
    check([program(words, dtype, dtype, "int32", n, rng) for words, n in PRODUCTS])


@pytest.mark.parametrize("without", ["-mno-avx512vnni", "-mno-avx512f -mno-avx2", "-mno-avx512f"])
def test_any_instructions(without, rng, monkeypatch):
    monkeypatch.setattr(library, "_LINKED", (*library._LINKED, *without.split()))
    if not all(hostcc.accepts(hostcc.compiler(), w) for w in without.split()):
        return  # another kind of CPU, which has none of them
    bytes_of = itertools.product(TYPES[:2], TYPES[:2])
    cases = [program("ik,kj->ij", x, y, "int32", (37, 45, 131, 1), rng) for x, y in bytes_of]
    cases += [program("ik,jk->ij", "int16", "int16", "int32", (37, 45, 131, 1), rng)]
    cases += [program("ik,kj->ij", "int32", "int32", "int32", (37, 45, 131, 1), rng)]
    check(cases)


def test_in_a_loop_for_any_number_of_threads(rng):
    x, w = ends("int8", (300, 120), rng), ends("int8", (120, 120), rng)

    def f(x, w):
        def step(x, _):
            y = gnp.matmul(x, w, preferred_element_type="int32")
            return (y >> 3).astype("int8"), y.sum(1)

        return lax.scan(step, x, None, length=3)

    p = natively.written(ga.jit(f).lower(x, w).jaxpr)
    assert "ga_integer_product<" in p.kernels[0].text
    natively.compile_all([p])
    before, found = config.num_threads, []
    for n in (1, 2, 7):
        config.update("num_threads", n)
        found.append(p(x, w))
    config.update("num_threads", before)
    for several in zip(*found, strict=True):
        assert all(np.array_equal(several[0], other) for other in several[1:])
    for _ in range(3):
        x = (x.astype(np.int32) @ w.astype(np.int32) >> 3).astype(np.int8)
    np.testing.assert_array_equal(found[0][0], x)
