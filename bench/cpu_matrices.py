"""Rows of `python -m bench --cpu`: stacks of small matrices, and images as products with matrices.

In: nothing. Out: MATRICES, in the form of `bench/cpu_operations.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.cpu_operations import Row, matrices, normal


def _rotations(m) -> Callable:
    def rotations(x):
        u, _, vt = m.np.linalg.svd(x)
        return u @ vt

    return rotations


def _root(m) -> Callable:
    def root(x):
        values, vectors = m.np.linalg.eigh(x)
        scaled = vectors * m.np.sqrt(m.np.maximum(values, 0.0))[:, None]
        return scaled @ m.np.swapaxes(vectors, 1, 2)

    return root


def _resized(m) -> Callable:
    return lambda x: m.top.image.resize(x, (x.shape[0] // 2, x.shape[1] // 2, 3), "linear")


MATRICES = (
    Row(
        "svd_3x3",
        "orthogonal matrices next to 2,000 of 3x3, by SVD",
        _rotations,
        normal(2000, 3, 3),
    ),
    Row(
        "eigh_8x8",
        "square roots of 1,000 matrices of 8x8, by eigh",
        _root,
        matrices(1000, 8),
        tolerance=1e-3,
    ),
    Row(
        "resize",
        "half of an image of 720x1280, bilinear",
        _resized,
        normal(720, 1280, 3),
    ),
)
