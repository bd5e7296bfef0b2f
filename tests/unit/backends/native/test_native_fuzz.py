"""Random programs as native code: what NumPy makes of them, in double.

--fuzz N tries N of them (a twentieth of it here: the compiler takes its time).
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.support import natively, programs

natively.need_compiler()

RTOL, ATOL = 1e-9, 1e-11
TOGETHER = 20


def as_it_is(body):
    return body


def in_a_loop(body):
    """Three turns, each on operands that the one before has changed."""

    def looped(*xs):
        def turn(_, xs):
            made = body(*xs)
            shift = sum(gnp.tanh(m).sum() for m in made) * 0.01
            return tuple(x + shift for x in xs)

        return body(*lax.fori_loop(0, 3, turn, tuple(map(gnp.asarray, xs))))

    return looped


def looped_by_numpy(program, xs):
    for _ in range(3):
        made = programs.run(program, np, xs)
        shift = sum(np.tanh(m).sum() for m in made) * 0.01
        xs = [x + shift for x in xs]
    return programs.run(program, np, xs)


WAYS = {
    "as it is": (as_it_is, lambda program, xs: programs.run(program, np, xs)),
    "in a loop": (in_a_loop, looped_by_numpy),
}


@pytest.mark.parametrize("way", WAYS)
def test_random_programs(way, fuzz_count):
    written, reference = WAYS[way]
    with ga.enable_x64(True):
        for first in range(0, max(TOGETHER, fuzz_count // 20), TOGETHER):
            drawn = [(s, programs.generate(s)) for s in range(first, first + TOGETHER)]
            made = []
            for seed, program in drawn:
                body = written(lambda *xs, p=program: programs.run(p, gnp, list(xs)))
                graph = ga.jit(body).lower(*programs.inputs_of(program, seed)).jaxpr
                made.append(natively.written(graph))
            natively.compile_all(made)
            for (seed, program), native in zip(drawn, made, strict=True):
                inputs = programs.inputs_of(program, seed)
                with np.errstate(all="ignore"):
                    expected = reference(program, inputs)
                for e, g in zip(expected, native(*inputs), strict=True):
                    assert np.shape(e) == g.shape, f"seed {seed}:\n{program}"
                    np.testing.assert_allclose(g, e, RTOL, ATOL, err_msg=f"seed {seed}:\n{program}")
            ga.clear_caches()
