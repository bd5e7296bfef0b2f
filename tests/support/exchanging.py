"""Random programs of one device that exchange values along an axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import gpuarray.numpy as gnp
from gpuarray import lax


def exchanging(
    seed: int, count: int, steps: int = 25, name: str = "i"
) -> tuple[Callable[..., list], list]:
    """A program of two arrays along an axis, and what each of its `count` devices is given."""

    def fun(x, y):
        rng = np.random.default_rng(seed)
        ring = [(i, (i + 1) % count) for i in range(count)]
        one = [
            lambda a, b: lax.psum(a, name) / count,
            lambda a, b: lax.psum(a * b.mean(), name) / count,
            lambda a, b: lax.pmax(a, name),
            lambda a, b: lax.ppermute(a, name, ring),
            lambda a, b: lax.all_gather(a, name, axis=a.ndim, to="invarying")[..., 1],
            lambda a, b: lax.all_gather(a[None], name, tiled=True)[-1],
            lambda a, b: lax.psum_scatter(
                gnp.stack([a] * count, -1), name, scatter_dimension=a.ndim
            ),
            lambda a, b: lax.psum_scatter(
                gnp.tile(a[None], (count, *[1] * a.ndim)), name, tiled=True
            )[0],
            lambda a, b: gnp.sin(a),
            lambda a, b: a * 0.5,
            lambda a, b: a - b.mean(),
            lambda a, b: gnp.cumsum(a) if a.ndim else a,  # in memory of its own
            lambda a, b: a.at[0].set(b.mean()) if a.ndim else a,  # written over, if it dies here
        ]
        values = [x, y, x.sum(), y[:1]]
        for _ in range(steps):
            a, b = (values[i] for i in rng.integers(len(values), size=2))
            values.append(one[rng.integers(len(one))](a, b))
        return [values[i] for i in rng.integers(4, len(values), size=6)]

    given = np.random.default_rng(seed).normal(size=(2, count, 6)).astype(np.float32)
    return fun, list(zip(*given, strict=True))
