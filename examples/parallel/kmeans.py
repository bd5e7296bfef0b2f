"""k-means with the points cut over eight devices; the centres are the same on all.

A device gives its own points to their nearest centres, and adds them up for each centre. It sends
those sums and counts alone, whose size does not depend on how many points there are.

Run: python examples/parallel/kmeans.py [POINTS]
"""

import sys

import numpy as np

import gpuarray as ga

ga.config.update("num_cpu_devices", 8)  # before the first array

from exchanges import show  # noqa: E402

import gpuarray.numpy as gnp  # noqa: E402
from gpuarray import lax  # noqa: E402
from gpuarray.sharding import AxisType, NamedSharding  # noqa: E402
from gpuarray.sharding import PartitionSpec as P  # noqa: E402

CENTRES = 5


def sample(points: int) -> np.ndarray:
    """Points (points, 2) around random centres."""
    rng = np.random.default_rng(3)
    centres = rng.uniform(-10.0, 10.0, (CENTRES, 2))
    chosen = rng.integers(0, CENTRES, points)
    return (centres[chosen] + rng.normal(size=(points, 2))).astype(np.float32)


def totals(x, centres):
    """Of some points (n, 2): sums by nearest centre (k, 2), counts (k,), squared distances ()."""
    square = gnp.sum((x[:, None, :] - centres[None, :, :]) ** 2, axis=2)  # (n, k)
    nearest = gnp.argmin(square, axis=1)
    mine = (nearest[:, None] == gnp.arange(CENTRES)).astype(x.dtype)
    return mine.T @ x, gnp.sum(mine, axis=0), gnp.sum(gnp.min(square, axis=1))


def moved(sums, counts, distance):
    """The new centres, and the mean squared distance to the old ones."""
    return sums / gnp.maximum(counts, 1.0)[:, None], distance / gnp.sum(counts)


def plain_step(x, centres):
    """A step on one device."""
    return moved(*totals(x, centres))


def step_of_one_device(x, centres):
    """A step of the device that has these points."""
    return moved(*lax.psum(totals(x, centres), "points"))


def run(step, x, centres, steps: int = 20):
    """The centres and the distance after so many steps."""
    for _ in range(steps):
        centres, distance = step(x, centres)
    return np.asarray(centres), float(distance)


def main(points: int) -> None:
    x = sample(points)
    mesh = ga.make_mesh((8,), ("points",), axis_types=(AxisType.Auto,))
    step = ga.jit(
        ga.shard_map(
            step_of_one_device, mesh=mesh, in_specs=(P("points"), P()), out_specs=(P(), P())
        )
    )
    laid = ga.device_put(x, NamedSharding(mesh, P("points")))
    show("one step", step, laid, x[:CENTRES])

    # The same function for all points, as one program that the compiler cuts.
    automatic = ga.jit(plain_step)
    show("cut by the compiler", automatic, laid, x[:CENTRES])

    centres, distance = run(step, laid, x[:CENTRES])
    print(f"mean squared distance: {distance:.4f}")
    for name, other, where in (("one device's", ga.jit(plain_step), x), ("jit's", automatic, laid)):
        theirs, _ = run(other, where, x[:CENTRES])
        print(f"equal to {name}: {np.allclose(centres, theirs, atol=1e-3)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 80_000)
