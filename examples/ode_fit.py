"""Foxes and rabbits: the rates of a differential equation found from noisy counts.

The equation is solved by Runge-Kutta steps inside `lax.scan`; the gradient of the misfit goes back
through every step.

Run: python examples/ode_fit.py [STEPS]
"""

import sys
from typing import NamedTuple

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, random, tree

TIME_STEP, SAMPLES, PER_SAMPLE = 0.1, 30, 4


class Rates(NamedTuple):
    """Logarithms of the rates, so that they stay positive; any such tree can be differentiated."""

    birth: float
    eaten: float
    death: float
    thriving: float


def slope(rates: Rates, state):
    """How fast (rabbits, foxes) change."""
    rabbits, foxes = state
    birth, eaten, death, thriving = (gnp.exp(r) for r in rates)
    return gnp.stack(
        [
            birth * rabbits - eaten * rabbits * foxes,
            thriving * rabbits * foxes - death * foxes,
        ]
    )


def runge_kutta(rates: Rates, state, h: float):
    """The state (2,) after a time h."""
    a = slope(rates, state)
    b = slope(rates, state + h / 2 * a)
    c = slope(rates, state + h / 2 * b)
    d = slope(rates, state + h * c)
    return state + h / 6 * (a + 2 * b + 2 * c + d)


def solve(rates: Rates, start):
    """The states (SAMPLES, 2) at the times of the counts."""

    def between(state, _):
        state = lax.fori_loop(0, PER_SAMPLE, lambda _, s: runge_kutta(rates, s, TIME_STEP), state)
        return state, state

    return lax.scan(between, start, None, length=SAMPLES)[1]


def misfit(rates: Rates, start, counts):
    """The mean squared difference of the logarithms."""
    return gnp.mean((gnp.log(solve(rates, start)) - gnp.log(counts)) ** 2)


@ga.jit
def step(rates: Rates, mean, square, n, start, counts):
    """One step of Adam: rates, running means of slopes and their squares, and the misfit before."""
    value, slopes = ga.value_and_grad(misfit)(rates, start, counts)
    mean = tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slopes)
    square = tree.map(lambda s, g: 0.99 * s + 0.01 * g**2, square, slopes)

    def moved(r, m, s):
        return r - 0.05 * (m / (1 - 0.9**n)) / (gnp.sqrt(s / (1 - 0.99**n)) + 1e-8)

    return tree.map(moved, rates, mean, square), mean, square, value


def main(steps: int) -> None:
    truth = Rates(1.1, 0.4, 0.4, 0.1)
    start = gnp.array([10.0, 5.0])
    exact = solve(tree.map(gnp.log, truth), start)
    counts = exact * gnp.exp(0.05 * random.normal(random.PRNGKey(0), exact.shape))

    rates = tree.map(gnp.log, Rates(0.8, 0.3, 0.6, 0.2))
    mean = square = tree.map(gnp.zeros_like, rates)
    for n in range(1, steps + 1):
        rates, mean, square, value = step(rates, mean, square, float(n), start, counts)
        if n == 1 or n % max(steps // 5, 1) == 0:
            print(f"step {n:4}: misfit {float(value):.5f}")
    print("rate       true   found")
    for name, true, found in zip(Rates._fields, truth, rates):
        print(f"{name:9} {true:5.3f}   {float(gnp.exp(found)):5.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
