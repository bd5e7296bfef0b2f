"""Rows of `python -m bench --cpu`: stacks of small matrices, and images with few channels.

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


def _diffused(m) -> Callable:
    def diffused(image):
        kernel = m.np.array([[0.0, 0.1, 0.0], [0.1, 0.6, 0.1], [0.0, 0.1, 0.0]])[None, None]

        def step(_, x):
            return m.lax.conv_general_dilated(x, kernel, (1, 1), "SAME")

        return m.lax.fori_loop(0, 50, step, image[None, None])

    return diffused


def _frequencies(m) -> Callable:
    return lambda x: m.np.sort(abs(m.np.linalg.eigvals(x)), axis=-1)


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
    Row(
        "diffusion",
        "50 convolutions of 3x3 of an image of 200x200",
        _diffused,
        normal(200, 200),
    ),
    Row(
        "eigvals_8x8",
        "sizes of eigenvalues of 1,000 matrices of 8x8",
        _frequencies,
        normal(1000, 8, 8),
        tolerance=1e-3,
    ),
)
