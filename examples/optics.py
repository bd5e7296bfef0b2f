"""A phase mask that focuses a beam into a ring, found by the gradient of the light behind it.

Light is carried from plane to plane by its angular spectrum: a Fourier transform, a phase for each
direction, and the transform back. `grad` goes through all of it.

Run: python examples/optics.py [STEPS]
"""

import sys

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import random

SIZE, PITCH, WAVELENGTH = 64, 1.0, 0.5  # samples along a side; micrometres
DISTANCE = 120.0


def coordinates(size: int = SIZE):
    """Where the samples are, with the origin in the middle: (n, 1) and (1, n)."""
    x = (gnp.arange(size) - (size - 1) / 2) * PITCH
    return x[:, None], x[None, :]


def propagate(field, distance: float):
    """A complex field (n, n) after a distance; waves too steep to travel fade away."""
    f = gnp.fft.fftfreq(field.shape[0], PITCH)
    square = 1 / WAVELENGTH**2 - f[:, None] ** 2 - f[None, :] ** 2
    phase = 2 * gnp.pi * distance * gnp.sqrt(gnp.maximum(square, 0.0))
    carried = gnp.where(square > 0.0, gnp.exp(1j * phase), 0.0)
    return gnp.fft.ifft2(gnp.fft.fft2(field) * carried)


def beam():
    """A round beam of total power 1."""
    y, x = coordinates()
    amplitude = gnp.exp(-(x**2 + y**2) / 20.0**2)
    return amplitude / gnp.sqrt(gnp.sum(amplitude**2))


def ring():
    """1 where the light should go."""
    y, x = coordinates()
    radius = gnp.sqrt(x**2 + y**2)
    return gnp.where((radius > 10.0) & (radius < 15.0), 1.0, 0.0)


def intensity(mask):
    """The power at each point of the far plane behind a mask of phases (n, n)."""
    return gnp.abs(propagate(beam() * gnp.exp(1j * mask), DISTANCE)) ** 2


def lost(mask):
    """The share of the power that misses the ring."""
    return 1.0 - gnp.sum(intensity(mask) * ring())


@ga.jit
def step(mask, speed):
    """A step downhill with momentum: the new mask and speed, and the loss before."""
    value, slope = ga.value_and_grad(lost)(mask)
    speed = 0.8 * speed - 1500.0 * slope
    return mask + speed, speed, value


def check_gradient(mask, key) -> float:
    """The relative difference of the gradient from a quotient of differences, along one way."""
    way = random.normal(key, mask.shape)
    by_gradient = gnp.sum(ga.grad(lost)(mask) * way)
    eps = 1e-2
    by_difference = (lost(mask + eps * way) - lost(mask - eps * way)) / (2 * eps)
    return float(abs(by_gradient - by_difference) / abs(by_difference))


def picture(image) -> str:
    """An image as text, two rows of it to a line."""
    rows = gnp.asarray(image)[::2]
    return "\n".join(
        "".join(" .:-=+*#%@"[int(v)] for v in row)
        for row in (9.99 * rows / gnp.max(rows)).astype(int).tolist()
    )


def main(steps: int) -> None:
    mask = random.normal(random.PRNGKey(0), (SIZE, SIZE))
    error = check_gradient(mask, random.PRNGKey(1))
    print(f"the gradient differs from a difference quotient by {error:.1e}")
    speed = gnp.zeros_like(mask)
    for i in range(steps + 1):
        mask, speed, value = step(mask, speed)
        if i % max(steps // 5, 1) == 0:
            print(f"step {i:4}: {1 - float(value):6.1%} of the light on the ring")
    print(picture(intensity(mask)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
