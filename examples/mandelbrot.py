"""The Mandelbrot set: how long z -> z² + c stays near the origin, by a loop inside one program.

Run: python examples/mandelbrot.py [WIDTH] [picture.pgm]
"""

import sys
from pathlib import Path

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax

STEPS = 60


@ga.jit
def escape(c):
    """For every complex number, the steps until z leaves the circle of radius 2; at most STEPS."""

    def step(_, state):
        z, count = state
        inside = z.real**2 + z.imag**2 <= 4.0
        # A point that has left stays where it is, so that nothing overflows.
        return gnp.where(inside, z * z + c, z), count + inside

    return lax.fori_loop(0, STEPS, step, (gnp.zeros_like(c), gnp.zeros(c.shape, gnp.int32)))[1]


def plane(width: int, height: int):
    """Complex numbers on a grid (height, width)."""
    x = gnp.linspace(-2.1, 0.6, width)
    y = gnp.linspace(1.2, -1.2, height)
    return x[None, :] + 1j * y[:, None]


def main(width: int, path: Path | None) -> None:
    c = plane(width, width * 8 // 9)
    count = np.asarray(escape(c))
    rows, columns = (np.linspace(0, n - 1, m).astype(int) for n, m in zip(count.shape, (24, 72)))
    shades = " .,:;-=+*#%@"
    for row in count[np.ix_(rows, columns)]:
        print("".join(shades[int(n) * (len(shades) - 1) // STEPS] for n in row).rstrip())
    print(f"{np.mean(count == STEPS):.4f} of the points stayed for {STEPS} steps")
    if path:
        header = f"P5 {count.shape[1]} {count.shape[0]} {STEPS}\n".encode()
        path.write_bytes(header + count.astype(np.uint8).tobytes())


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 360,
        Path(sys.argv[2]) if len(sys.argv) > 2 else None,
    )
