"""Data movement costs no memory: alone, behind something computed, and before a reduction.

In: every kind of movement of a large array and of its `tanh`, whose result is returned as it is
or summed. Out: on a GPU each moves little more bytes than it must read and write, but for those
that are named with the reason.
"""

from __future__ import annotations

import math

import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.golden import shape

X = shape("float32", 4096, 2048)
#: Some bytes more are blocks' partial results, and the ends of what is read in part.
ENOUGH = 1.04

MOVEMENTS = {
    "transpose": lambda x: x.T,
    "backwards": lambda x: x[::-1, ::-1],
    "slice": lambda x: x[100:, 64:],
    "every other row": lambda x: x[::2],
    "every other column": lambda x: x[:, ::2],
    "roll": lambda x: gnp.roll(x, 5, 0),
    "pad": lambda x: gnp.pad(x, ((3, 4), (8, 8))),
    "pad by the edge": lambda x: gnp.pad(x, ((3, 4), (8, 8)), mode="edge"),
    "pad by reflection": lambda x: gnp.pad(x, ((3, 4), (8, 8)), mode="reflect"),
    "joined": lambda x: gnp.concatenate([x, x + 1], 1),
    "stacked": lambda x: gnp.stack([x, x + 1], -1),
    "tiled": lambda x: gnp.tile(x, (2, 1)),
    "repeated": lambda x: gnp.repeat(x, 2, 1),
    "heads": lambda x: x.reshape(4, 1024, 16, 128).transpose(0, 2, 1, 3),
    "blocks": lambda x: x.reshape(64, 64, 32, 64).transpose(0, 2, 1, 3),
    "last axis first": lambda x: gnp.moveaxis(x.reshape(64, 64, 32, 64), 3, 1),
    "diagonal": lambda x: gnp.diagonal(x),
    "lower triangle": lambda x: gnp.tril(x),
    "split": lambda x: gnp.split(x, 2, 1),
    "differences": lambda x: gnp.diff(x, axis=1),
    "turned": lambda x: gnp.rot90(x),
    "dynamic slice": lambda x: lax.dynamic_slice(x, (5, 7), (4000, 2000)),
    "interleaved": lambda x: gnp.stack([x[:, ::2], x[:, 1::2]], -1).reshape(4096, 2048),
    "halves turned": lambda x: gnp.concatenate([-x[:, 1024:], x[:, :1024]], -1),
}
#: What moves more, with `tanh` before it and a sum behind it.
REASONS = {
    "repeated": "a fold of elements that are read twice does not compute them itself",
}


def size(tree) -> tuple[int, int]:
    """Elements and bytes of some arrays."""
    leaves = ga.tree.leaves(tree)
    return sum(math.prod(x.shape) for x in leaves), sum(x.size * x.dtype.itemsize for x in leaves)


@pytest.mark.parametrize("behind", ["alone", "summed"])
@pytest.mark.parametrize("before", ["of an argument", "of a computed value"])
@pytest.mark.parametrize("name", MOVEMENTS)
def test_movements_are_free(name, before, behind):
    computed = gnp.tanh if before == "of a computed value" else lambda x: x
    moved = lambda x: MOVEMENTS[name](computed(x))
    last = (lambda y: y.sum(0)) if behind == "summed" else lambda y: y
    function = lambda x: ga.tree.map(last, moved(x))
    read = min(size(X)[1], 4 * size(ga.eval_shape(moved, X))[0])
    least = read + size(ga.eval_shape(function, X))[1]
    times = ga.explain(function, platform="cuda")(X).bytes_moved / least
    expected = name in REASONS and before == "of a computed value" and behind == "summed"
    assert (times > ENOUGH) == expected, times
