"""Parts of padded values: what nothing reads is not padded, and values stay the same.

In: random paddings (negative ones and holes too) and what is cut out of them. Out: the values that
an index gives, and how many equations are left.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.compiler.rewrite.crops import crop
from gpuarray.compiler.rewrite.simplify import simplify
from gpuarray.core.graph import evaluate


def cropped(function, *arguments):
    graph = simplify(ga.jit(function).lower(*arguments).jaxpr)
    return graph, crop(graph)


def names(graph) -> list[str]:
    return [e.primitive.name for e in graph.eqns]


def padded(x, config) -> np.ndarray:
    """What `lax.pad` makes, element by element, -1 elsewhere."""
    spread = [(n - 1) * (holes + 1) + 1 if n else 0 for n, (_, _, holes) in zip(x.shape, config)]
    shape = [low + n + high for n, (low, high, _) in zip(spread, config)]
    out = np.full(shape, -1, x.dtype)
    for at in np.ndindex(*x.shape):
        to = tuple(i * (holes + 1) + low for i, (low, _, holes) in zip(at, config))
        if all(0 <= i < n for i, n in zip(to, shape)):
            out[to] = x[at]
    return out


@pytest.mark.parametrize("seed", range(60))
def test_values(seed):
    draw = random.Random(seed)
    shape = [draw.randint(1, 5) for _ in range(draw.randint(1, 3))]
    config, cuts = [], []
    for n in shape:
        holes = draw.choice((0, 0, 0, 1, 2))
        spread = (n - 1) * (holes + 1) + 1
        low, high = draw.randint(-1, 4), draw.randint(-1, 4)
        if spread + low + high < 1:
            low = high = 0
        length = low + spread + high
        begin = draw.randint(0, length - 1)
        config.append((low, high, holes))
        cuts.append(slice(begin, draw.randint(begin + 1, length), draw.choice((1, 1, 1, 2))))
    x = np.arange(1.0, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    _, graph = cropped(lambda x: lax.pad(x, np.float32(-1), config)[tuple(cuts)] * 2, x)
    (found,) = evaluate(graph, x)
    assert np.array_equal(np.asarray(found), padded(x, config)[tuple(cuts)] * 2)


def test_what_is_cut_off_is_not_padded():
    x = ga.ShapeDtypeStruct((8, 31), "float32")
    before, after = cropped(lambda x: gnp.pad(x, ((0, 0), (2, 0)))[:, :-2] + x, x)
    assert names(before) == ["pad", "slice", "add"]
    assert names(after) == ["pad", "add"]
    (config,) = (e.params["padding_config"] for e in after.eqns[:1])
    assert config == ((0, 0, 0), (2, -2, 0))


def test_what_others_read_stays():
    def both(x):
        wide = gnp.pad(x, ((0, 0), (2, 2)))
        return wide[:, :-2], wide.sum()

    before, after = cropped(both, ga.ShapeDtypeStruct((8, 31), "float32"))
    assert after is before


def test_padding_alone_stays():
    """Nothing of the operand would be left."""
    before, after = cropped(lambda x: gnp.pad(x, (9, 0))[:4], ga.ShapeDtypeStruct((3,), "float32"))
    assert after is before
