"""`select_and_scatter_p` against a loop over windows."""

import itertools
import operator

import numpy as np
import pytest

import gpuarray as ga
from gpuarray import lax

MERGES = {"add": operator.add, "sub": operator.sub, "max": np.maximum}


def by_loops(x, source, keeps, merge, window, strides, padding):
    """Each window's choice among its elements, in their order; what is padded is left out."""
    out = np.full(x.shape, 1.5, x.dtype)
    for at in np.ndindex(*source.shape):
        starts = [i * s - low for i, s, (low, _) in zip(at, strides, padding, strict=True)]
        ranges = [range(a, a + n) for a, n in zip(starts, window, strict=True)]
        there = [p for p in itertools.product(*ranges)
                 if all(0 <= i < n for i, n in zip(p, x.shape, strict=True))]  # fmt: skip
        if not there:  # all of it is padded: nothing is chosen
            continue
        best = there[0]
        for place in there[1:]:
            best = best if keeps(x[best], x[place]) else place
        out[best] = merge(out[best], source[at])
    return out


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("keeps", ["ge", "lt"])
@pytest.mark.parametrize(
    ("window", "strides", "padding"),
    [
        ((2, 2), (2, 2), ((0, 0), (0, 0))),
        ((2, 3), (1, 2), ((1, 0), (1, 1))),
        ((1, 2), (2, 1), ((0, 1), (0, 0))),
    ],
)
def test_select_and_scatter(window, strides, padding, keeps, merge):
    rng = np.random.default_rng(3)
    x = rng.integers(-5, 5, (4, 5)).astype(np.float32)
    counts = lax.reduce_window_shape_tuple(x.shape, window, strides, padding)
    source = rng.normal(size=counts).astype(np.float32)
    graph = lambda f: ga.make_jaxpr(f)(np.float32(0), np.float32(0)).jaxpr
    call = lambda x, y: lax.select_and_scatter_p.bind(
        x,
        y,
        np.float32(1.5),
        select_jaxpr=graph(getattr(lax, keeps)),
        select_consts=(),
        scatter_jaxpr=graph(getattr(lax, merge)),
        scatter_consts=(),
        window_dimensions=window,
        window_strides=strides,
        padding=padding,
    )
    expected = by_loops(
        x, source, getattr(operator, keeps), MERGES[merge], window, strides, padding
    )
    np.testing.assert_allclose(ga.jit(call)(x, source), expected, rtol=1e-6)
