"""Every float32 through every function of one operand: `python -m tests.gpu.ulps [NAME...]`.

In: names of FUNCTIONS, none: all. Out: a line of JSON for each: the largest error in units in the
last place, where, and whether NaN comes where it should. The judge is the same function in float64,
of CuPy where it is (a second for all 2^32 operands), else of NumPy and SciPy.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax

#: Operands at a time.
CHUNK = 1 << 24
#: Ours, and the judge's name, in `cupy` or `numpy` or, where it has one dot, in their `special`.
FUNCTIONS: dict[str, tuple[Callable, str]] = {
    name: (getattr(gnp, name), name)
    for name in (
        "sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh "
        "arcsinh arccosh arctanh cbrt floor ceil trunc rint square reciprocal"
    ).split()
}
FUNCTIONS |= {
    name: (getattr(lax, name), f"special.{judge}")
    for name, judge in (
        ("erf", "erf"),
        ("erfc", "erfc"),
        ("erf_inv", "erfinv"),
        ("lgamma", "gammaln"),
        ("digamma", "digamma"),
    )
}
FUNCTIONS["rsqrt"] = (lax.rsqrt, "rsqrt")
FUNCTIONS["logistic"] = (lax.logistic, "special.expit")
#: Units in the last place that are allowed; others may be off by 4. In the tails of erf_inv x x is
#: rounded as JAX rounds it, so that normal numbers are the same: 1 - x x has lost digits there.
LIMITS = {"lgamma": 64, "digamma": 256, "erf_inv": 80, "erfc": 16}
LIMITS |= dict.fromkeys("sqrt floor ceil trunc rint square reciprocal".split(), 0.5001)


def judge(name: str, cupy: Any) -> tuple[Any, Callable]:
    """The module that judges, and its function."""
    if name == "rsqrt":
        module = cupy or np
        return module, lambda x: 1.0 / module.sqrt(x)
    if not name.startswith("special."):
        module = cupy or np
        return module, getattr(module, name)
    special = importlib.import_module("cupyx.scipy.special" if cupy else "scipy.special")
    return cupy or np, getattr(special, name.removeprefix("special."))


def off(found: Any, wanted: Any, xp: Any) -> tuple[Any, Any]:
    """Units in the last place between float32 results and float64 ones; where NaNs differ."""
    _, exponent = xp.frexp(wanted)
    unit = xp.ldexp(xp.ones_like(wanted), xp.maximum(exponent - 24, -149))
    exact = found.astype(xp.float64)
    # Beyond the largest float32 the nearest result is infinity, or the largest one.
    largest = float(np.finfo(np.float32).max)
    clipped = xp.clip(wanted, -largest, largest)
    # Below the smallest normal number results may be zero: the hardware's choice is not an error
    # of more than what is lost.
    error = xp.abs(xp.clip(exact, -largest, largest) - clipped) / unit
    nan = xp.isnan(exact) | xp.isnan(wanted)
    return xp.where(nan, 0.0, error), xp.isnan(exact) != xp.isnan(wanted)


def measure(name: str, cupy: Any = None, chunks: range = range(1 << 8)) -> dict[str, Any]:
    """The worst of all operands, or of some chunks of them."""
    ours, title = FUNCTIONS[name]
    xp, function = judge(title, cupy)
    run = ga.jit(ours)
    worst, at, nans = -1.0, 0.0, 0
    for i in chunks:
        bits = np.arange(i * CHUNK, (i + 1) * CHUNK, dtype=np.uint32)
        x = gnp.asarray(bits.view(np.float32))
        found = np.asarray(run(x))
        with np.errstate(all="ignore"):
            operand = xp.asarray(bits.view(np.float32))
            error, differ = off(xp.asarray(found), function(operand.astype(xp.float64)), xp)
            where = int(xp.argmax(error))
        nans += int(xp.sum(differ))
        if float(error[where]) > worst:
            worst, at = float(error[where]), float(operand[where])
    limit = LIMITS.get(name, 4)
    ok = worst <= limit and nans == 0
    return {"name": name, "ok": ok, "ulps": worst, "at": at, "limit": limit, "other_nans": nans}


def main() -> int:
    """Measure those that are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    cupy = importlib.import_module("cupy")
    good = True
    for name in args.names or FUNCTIONS:
        try:
            found = measure(name, cupy)
        except Exception as error:
            found = {"name": name, "ok": False, "why": f"{type(error).__name__}: {error}"[:2000]}
        good &= found["ok"]
        print(json.dumps(found), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
