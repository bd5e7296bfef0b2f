"""Prices of European call options, by formula and by simulation, each fused into few kernels.

Run: python examples/black_scholes.py [PATHS]
"""

import sys

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, random

RATE, VOLATILITY, YEARS = 0.02, 0.3, 1.0


def normal_cdf(x):
    return 0.5 * (1.0 + lax.erf(x * 0.7071067811865476))


@ga.jit
def by_formula(spot, strike):
    """The price that Black and Scholes derived."""
    spread = VOLATILITY * YEARS**0.5
    d1 = (gnp.log(spot / strike) + (RATE + VOLATILITY**2 / 2) * YEARS) / spread
    discount = gnp.exp(-RATE * YEARS)
    return spot * normal_cdf(d1) - strike * discount * normal_cdf(d1 - spread)


@ga.jit
def by_simulation(z, spot, strike):
    """The mean payoff over random ends of the year: one draw z for each."""
    drift = (RATE - VOLATILITY**2 / 2) * YEARS
    end = spot * gnp.exp(drift + VOLATILITY * YEARS**0.5 * z)
    payoff = gnp.maximum(end - strike, 0.0) * gnp.exp(-RATE * YEARS)
    return gnp.mean(payoff), gnp.std(payoff) / z.size**0.5


def main(paths: int) -> None:
    spot = 100.0
    z = random.normal(random.PRNGKey(0), (paths,))
    print(ga.explain(by_simulation)(z, spot, spot), "\n")
    print("strike   formula   simulated")
    for strike in (80.0, 90.0, 100.0, 110.0, 120.0):
        price = by_formula(spot, strike)
        mean, error = by_simulation(z, spot, strike)
        print(f"{strike:6.0f}  {price:8.3f}  {mean:8.3f} +- {error:.3f}")
        if abs(mean - price) > 5 * error:
            raise SystemExit("formula and simulation disagree")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
