"""Clusters of points in the plane by k-means: distances, nearest centres and new means.

Run: python examples/kmeans.py [POINTS]
"""

import sys

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import random

CENTRES = 5


def sample(key, points: int):
    """Points around random centres."""
    where, which, noise = random.split(key, 3)
    centres = random.uniform(where, (CENTRES, 2), minval=-10.0, maxval=10.0)
    chosen = random.randint(which, (points,), 0, CENTRES)
    return centres[chosen] + random.normal(noise, (points, 2))


@ga.jit
def step(x, centres):
    """Give every point to its nearest centre; move each centre to the mean of its points.

    x: (points, 2), centres: (k, 2) -> new centres (k, 2), mean squared distance ()
    """
    square = gnp.sum((x[:, None, :] - centres[None, :, :]) ** 2, axis=2)  # (points, k)
    nearest = gnp.argmin(square, axis=1)
    mine = (nearest[:, None] == gnp.arange(centres.shape[0])).astype(x.dtype)  # (points, k)
    count = gnp.maximum(gnp.sum(mine, axis=0), 1.0)
    return mine.T @ x / count[:, None], gnp.mean(gnp.min(square, axis=1))


def main(points: int) -> None:
    x = sample(random.PRNGKey(3), points)
    centres = x[:CENTRES]
    print(ga.explain(step)(x, centres), "\n")
    before = float("inf")
    for i in range(100):
        centres, distance = step(x, centres)
        print(f"step {i:2}: mean squared distance {distance:.4f}")
        if before - float(distance) < 1e-4:
            break
        before = float(distance)
    print(centres)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
