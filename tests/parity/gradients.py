"""Random differentiable programs: the gradient fused, unfused, eager and of the jitted function is
JAX's, in float64.

`python -m tests.parity.gradients [--count N] [--first SEED]`, in an environment that has both
libraries. Out: the first program that differs, shrunk; exit status 1 then.
"""

from __future__ import annotations

import argparse
import sys

import jax
import jax.numpy as jnp
import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.cli.progress import Progress
from tests.support import programs

#: What may differ: the order of additions, and what that does to sharp functions.
RTOL, ATOL = 1e-8, 1e-9


def objective(program: programs.Program, xp):
    """A number of all outputs, no two elements of which count alike."""

    def number(*xs):
        total = 0.0
        for k, out in enumerate(programs.run(program, xp, list(xs))):
            weights = np.cos(np.arange(out.size) + k).reshape(out.shape)
            total = total + xp.sum(xp.sin(out) * weights)
        return total

    return number


def gradients(program: programs.Program, seed: int) -> dict[str, list[np.ndarray]]:
    """The gradient for all inputs, each way, JAX's first."""
    inputs = programs.inputs_of(program, seed)
    numbers = tuple(range(len(inputs)))
    ours = objective(program, gnp)
    arrays = [gnp.asarray(x) for x in inputs]

    def unfused():
        with ga.fusion(False):
            return ga.jit(ga.grad(objective(program, gnp), numbers))(*arrays)

    with jax.enable_x64(True):
        found = {"JAX": jax.grad(objective(program, jnp), numbers)(*map(jnp.asarray, inputs))}
    found["fused"] = ga.jit(ga.grad(ours, numbers))(*arrays)
    found["of the jitted function"] = ga.grad(ga.jit(ours), numbers)(*arrays)
    found["eager"] = ga.grad(ours, numbers)(*arrays)
    found["unfused"] = unfused()
    return {name: [np.asarray(g) for g in result] for name, result in found.items()}


def disagreement(program: programs.Program, seed: int) -> str | None:
    """Which way differs from JAX's, and how; None where none does."""
    found = gradients(program, seed)
    expected = found.pop("JAX")
    for name, result in found.items():
        for number, (e, g) in enumerate(zip(expected, result, strict=True)):
            if e.shape != g.shape or e.dtype != g.dtype:
                return f"{name}, input {number}: {g.dtype}{g.shape}, JAX {e.dtype}{e.shape}"
            if not np.allclose(g, e, rtol=RTOL, atol=ATOL, equal_nan=True):
                return f"{name}, input {number}: {g.ravel()[:5]}, JAX {e.ravel()[:5]}"
    return None


def main() -> int:
    """Compare; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.gradients")
    parser.add_argument("--count", type=int, default=2000, metavar="N", help="programs to compare")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="where to begin")
    args = parser.parse_args()
    with ga.enable_x64(True), Progress(args.count, "gradients") as progress:
        for seed in range(args.first, args.first + args.count):
            progress.step(f"program {seed}")
            program = programs.generate(seed, longest=15)
            wrong = disagreement(program, seed)
            if wrong:

                def differs(p: programs.Program, seed: int = seed) -> bool:
                    try:
                        return disagreement(p, seed) is not None
                    except Exception:
                        return False

                small = programs.shrink(program, differs)
                print(f"seed {seed}: {wrong}\n{small}\n{disagreement(small, seed)}")
                return 1
            if seed % 100 == 99:
                ga.clear_caches()
                jax.clear_caches()
    print(f"gradients of {args.count} random programs agree with JAX's, four ways")
    return 0


if __name__ == "__main__":
    sys.exit(main())
