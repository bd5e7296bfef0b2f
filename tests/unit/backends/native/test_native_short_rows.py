"""Short rows as native code: computed side by side, in vectors that go over the rows.

In: softmaxes and the like of 2 to 31 elements, rows in any number and any layout; bools and updates
beside them. Out: NumPy's values, and texts in which it is so.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.special

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import nn
from gpuarray.scipy import special
from tests.support import natively

natively.need_compiler()

_rng = np.random.default_rng(0)


def floats(*shape, dtype: type = np.float32):
    return _rng.standard_normal(shape).astype(dtype)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def entropy_gradient(x, labels):
    p = softmax(x)
    p[np.arange(len(x)), labels] -= 1
    return p / len(x)


def cross_entropy(x, labels):
    picked = gnp.take_along_axis(nn.log_softmax(x), labels[:, None], 1)
    return -gnp.mean(picked)


#: Ours, NumPy's, operands.
CASES: dict = {}
for n, k in [
    (8, 6),
    (511, 5),
    (300, 3),
    (9000, 8),
    (513, 10),
    (2000, 31),
    (40, 2),
    (1030, 4),
    (600, 3),
    (9, 7),
]:
    CASES[f"softmax {n}x{k}"] = nn.softmax, softmax, (floats(n, k),)
CASES |= {
    "softmax of three axes": (nn.softmax, softmax, (floats(7, 33, 6),)),
    "softmax of halves": (
        nn.softmax,
        lambda x: softmax(x.astype(np.float32)),
        (floats(50, 6, dtype=np.float16),),
    ),
    "logsumexp over two axes": (
        lambda x: special.logsumexp(x, (1, 2)),
        lambda x: scipy.special.logsumexp(x, (1, 2)),
        (floats(130, 3, 5),),
    ),
    "turned": (
        lambda x: nn.softmax(x.T * 2).T,
        lambda x: softmax(x.T * 2).T,
        (floats(6, 700),),
    ),
    "rows with a row of each": (
        lambda x, b: (gnp.exp(x - b[:, None]).sum(1), gnp.tanh(x).max(1)),
        lambda x, b: (np.exp(x - b[:, None]).sum(1), np.tanh(x).max(1)),
        (floats(90, 11), floats(90)),
    ),
    "all pairs": (
        lambda x, y: ((x[:, None] - y) ** 2).sum(-1),
        lambda x, y: ((x[:, None] - y) ** 2).sum(-1),
        (floats(37, 2), floats(70, 2)),
    ),
    "all pairs of long rows, farther apart": (
        lambda x, y: abs(x[:, None, :17] - y[:, :17]).max(-1) / (x[:, None, 17] + 9),
        lambda x, y: abs(x[:, None, :17] - y[:, :17]).max(-1) / (x[:, None, 17] + 9),
        (floats(21, 32), floats(600, 32)),
    ),
    "columns of turned stacks": (
        lambda x: (x.transpose(1, 0, 2, 3) * 2).sum(2),
        lambda x: (x.transpose(1, 0, 2, 3) * 2).sum(2),
        (floats(3, 4, 5, 12),),
    ),
    "rows of turned stacks": (
        lambda x: nn.softmax(x.transpose(1, 0, 2, 3)),
        lambda x: softmax(x.transpose(1, 0, 2, 3)),
        (floats(3, 4, 16, 6),),
    ),
    "places of the largest": (
        lambda x: gnp.argmax(gnp.sin(x), 1),
        lambda x: np.argmax(np.sin(x), 1),
        (floats(300, 9),),
    ),
    "gradient of the cross entropy": (
        ga.grad(cross_entropy),
        entropy_gradient,
        (floats(400, 10), _rng.integers(0, 10, 400).astype(np.int32)),
    ),
    "choices of much work": (
        lambda x, y, m: gnp.where(m, gnp.exp(x), gnp.log1p(gnp.abs(y))) * gnp.tanh(x),
        lambda x, y, m: np.where(m, np.exp(x), np.log1p(np.abs(y))) * np.tanh(x),
        (floats(13, 19), floats(13, 19), _rng.random((13, 19)) < 0.5),
    ),
    "choices that are broadcast": (
        lambda x, m: gnp.where(m[:, None], gnp.exp(x), x[::-1]),
        lambda x, m: np.where(m[:, None], np.exp(x), x[::-1]),
        (floats(13, 19), _rng.random(13) < 0.5),
    ),
    "updates of much work": (
        lambda x, i: gnp.zeros((50, 6)).at[gnp.arange(50), i].add(gnp.exp(x) * gnp.sin(x)),
        lambda x, i: np.where(np.arange(6) == i[:, None], (np.exp(x) * np.sin(x))[:, None], 0),
        (floats(50), _rng.integers(0, 6, 50).astype(np.int32)),
    ),
    "few of much work": (
        lambda x, i: gnp.exp(x)[i],
        lambda x, i: np.exp(x)[i],
        (floats(5000), np.array([3, 4999, 0], np.int32)),
    ),
    "two sums of exponentials, and these": (
        lambda x: (e := gnp.exp(x)) / (e.sum(1, keepdims=True) + (e * e).sum(1, keepdims=True)),
        lambda x: (e := np.exp(x)) / (e.sum(1) + (e * e).sum(1))[:, None],
        (floats(37, 10),),
    ),
    "joined work": (
        lambda x, y: gnp.concatenate([gnp.exp(x), gnp.log1p(y * y)], 1),
        lambda x, y: np.concatenate([np.exp(x), np.log1p(y * y)], 1),
        (floats(20, 13), floats(20, 9)),
    ),
}


def lowered(name: str):
    function, _, xs = CASES[name]
    return ga.jit(function).lower(*(ga.ShapeDtypeStruct(x.shape, x.dtype) for x in xs))


@pytest.fixture(scope="module")
def programs():
    found = {name: natively.written(lowered(name).jaxpr) for name in CASES}
    natively.compile_all(list(found.values()))
    return found


@pytest.mark.parametrize("name", CASES)
def test_values(name, programs):
    _, reference, xs = CASES[name]
    expected = reference(*xs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for found, want in zip(programs[name](*xs), expected, strict=True):
        tolerance = 2e-3 if found.dtype == np.float16 else 3e-6
        assert found.shape == want.shape
        assert np.abs(found.astype(np.float64) - want).max() <= tolerance * np.abs(want).max()


def test_bits_do_not_depend_on_threads(programs):
    found = {}
    try:
        for threads in (1, 3):
            ga.config.update("num_threads", threads)
            found[threads] = [[x.tobytes() for x in p(*CASES[n][2])] for n, p in programs.items()]
    finally:
        ga.config.update("num_threads", 0)
    assert found[1] == found[3]


def test_short_rows_stand_side_by_side():
    assert "lane < width" in lowered("softmax 513x10").cpp_source()
    # What is ten apart is read in vectors only where that is not seen; four: written.
    assert "in0[i0 * apart10" in lowered("softmax 513x10").cpp_source()
    four = lowered("softmax 1030x4").cpp_source()
    assert "in0[i0 * 4" in four
    assert "out0[i0 * apart4" in four


def test_what_takes_long_is_kept_for_the_passes_that_follow():
    source = lowered("two sums of exponentials, and these").cpp_source()
    assert re.findall(r"= ga_exp\((\w+)\)", source) == ["x0"]
    # Where the rows that stand side by side are as large as a cache, it is computed again.
    x = ga.ShapeDtypeStruct((5000, 300), "float32")
    long = ga.jit(lambda x: nn.softmax(x, 0)).lower(x).cpp_source()
    assert len(re.findall(r"= ga_exp\((\w+)\)", long)) == 2


def step_of_a_chain(keys, x):
    """What a random walk of several chains does in a turn."""

    def moved(key, x):
        ours, theirs = ga.random.split(key)
        y = x + ga.random.normal(ours, x.shape)
        return gnp.where(ga.random.uniform(theirs) < gnp.exp(-(y**2).sum()), y, x)

    return ga.vmap(moved)(keys, x)


def test_keys_are_split_once_and_not_for_each_number():
    source = ga.jit(step_of_a_chain).lower(ga.random.split(ga.random.key(0), 16), floats(16, 10))
    functions = source.cpp_source().split("\nGA_TASKS ")[1:]
    split = [f for f in functions if "split<" in f or "ga_split(" in f]
    assert len(split) == 1
    assert "ga_erf_inv(" not in split[0]


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (gnp.sum, (513, 10)),
        (gnp.sum, (40, 50, 10)),
        (nn.softmax, (513, 40)),
        (nn.softmax, (4, 10)),
        (nn.softmax, (513, 2)),
    ],
)
def test_cheap_long_and_few_rows_do_not(function, shape):
    lowered = ga.jit(lambda x: function(x, -1)).lower(ga.ShapeDtypeStruct(shape, "float32"))
    assert "lane < width" not in lowered.cpp_source()


def test_little_is_computed_of_what_few_read():
    """An index into much work does not ask for all of it."""
    plan = lowered("few of much work").plan.on_native
    assert len(plan.steps) == 1


def test_bools_of_short_loops_are_read_before():
    source = lowered("choices of much work").cpp_source()
    assert "int flags0[247];" in source
    assert "= flags0[i0] != 0;" in source


def chosen(mask, x):
    return gnp.where(mask, gnp.exp(x), gnp.log(x))


#: Bools, their length, and how many of them are read before the loop.
BOOLS = {
    "at a position": (chosen, 100, 1),
    "some way off": (lambda m, x: chosen(m[2:], x[:-2]), 100, 1),
    "two of them": (lambda m, x: chosen(m, x) * chosen(m[::-1], x), 100, 2),
    "anywhere": (lambda m, x: chosen(m[gnp.argsort(x)], x), 100, 0),
    "in whole vectors": (chosen, 128, 0),
    "too many to keep": (chosen, 5000, 0),
    "of little work": (lambda m, x: gnp.where(m, x, -x), 100, 0),
}


@pytest.mark.parametrize("name", BOOLS)
def test_which_bools_are_read_before(name):
    function, length, count = BOOLS[name]
    operands = ga.ShapeDtypeStruct((length,), "bool"), ga.ShapeDtypeStruct((length,), "float32")
    source = ga.jit(function).lower(*operands).cpp_source()
    assert source.count("GA_LOCAL int flags") == count


@pytest.mark.parametrize("length", [2, 3, 16, 31])
def test_cheap_rows_of_pairs_stand_side_by_side(length):
    """To find where a row begins in each operand takes as long as its elements."""
    x, y = (ga.ShapeDtypeStruct((n, length), "float32") for n in (30, 40))
    lowered = ga.jit(lambda x, y: abs(x[:, None] - y).sum(-1)).lower(x, y)
    assert "lane < width" in lowered.cpp_source()
