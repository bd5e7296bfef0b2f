"""Random programs: fused = unfused = eager = NumPy, in float64, with tiles so small that every
program is cut.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.backends.numpy import tiles
from gpuarray.config import config
from tests.support import programs

#: What may differ: the order of additions inside reductions.
RTOL, ATOL = 1e-9, 1e-11


@pytest.fixture
def tiny_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "TILE", 8)
    monkeypatch.setattr(tiles, "TILED_FROM", 12)


def ways(program):
    """The program in each way the library can run it, as functions of NumPy inputs."""

    def body(*xs):
        return programs.run(program, gnp, list(xs))

    def unfused(*xs):
        with ga.fusion(False):
            return ga.jit(lambda *xs: body(*xs))(*xs)

    def lazily(*xs):
        old = config.lazy_threshold
        config.update("lazy_threshold", 1)
        try:
            return ga.block_until_ready(body(*map(gnp.asarray, xs)))
        finally:
            config.update("lazy_threshold", old)

    return {
        "fused": ga.jit(lambda *xs: body(*xs)),
        "unfused": unfused,
        "lazy": lazily,
        "eager": lambda *xs: body(*map(gnp.asarray, xs)),
    }


def disagreement(program, seed, names=("fused", "unfused", "lazy", "eager")):
    inputs = programs.inputs_of(program, seed)
    with np.errstate(all="ignore"):
        expected = programs.run(program, np, inputs)
    for name in names:
        got = ways(program)[name](*inputs)
        for e, g in zip(expected, map(np.asarray, got), strict=True):
            if np.shape(e) != g.shape:
                return f"{name}: shape {g.shape}, expected {np.shape(e)}"
            if not np.allclose(g, e, rtol=RTOL, atol=ATOL, equal_nan=True):
                return f"{name}: {g.ravel()[:5]}, expected {np.ravel(e)[:5]}"
    return None


def test_random_programs(tiny_tiles, fuzz_count):
    with ga.enable_x64(True):
        for seed in range(fuzz_count):
            program = programs.generate(seed)
            wrong = disagreement(program, seed)
            if wrong:

                def fails(p, seed=seed):
                    try:
                        return disagreement(p, seed) is not None
                    except Exception:
                        return False

                small = programs.shrink(program, fails)
                pytest.fail(f"seed {seed}: {wrong}\n{small}\n{disagreement(small, seed)}")
            if seed % 200 == 199:
                ga.clear_caches()


def test_the_oracle_can_fail(tiny_tiles, monkeypatch):
    """A planted fault in the tile runner is found and shrunk to a few steps."""
    honest = tiles._TiledPass.run

    def faulty(self, loads, values):
        honest(self, loads, values)
        for v in self.pass_.stored:
            values[v].reshape(-1)[-1] += 1.0

    monkeypatch.setattr(tiles._TiledPass, "run", faulty)
    with ga.enable_x64(True):
        for seed in range(50):
            program = programs.generate(seed)
            if disagreement(program, seed, ("fused",)):
                small = programs.shrink(
                    program, lambda p, s=seed: disagreement(p, s, ("fused",)) is not None
                )
                assert len(small.steps) <= len(program.steps)
                return
    pytest.fail("no program noticed the fault")
