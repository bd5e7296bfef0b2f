"""Random programs as native code: what NumPy makes of them, in double.

--fuzz N tries N of them (a twentieth of it here: the compiler takes its time), --fuzz-from SEED
others than these.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends.numpy import program as host
from gpuarray.compiler.pipeline import plan_graph
from tests.support import mixed_programs, mixed_values, natively, programs

natively.need_compiler()

RTOL, ATOL = 1e-9, 1e-11
TOGETHER = 20


def seeds(count, first):
    """The first seed of each unit for the compiler."""
    return range(first, first + max(TOGETHER, count // 20), TOGETHER)


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
def test_random_programs(way, fuzz_count, fuzz_from):
    written, reference = WAYS[way]
    with ga.enable_x64(True):
        for first in seeds(fuzz_count, fuzz_from):
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


def test_random_programs_of_all_dtypes(fuzz_count, fuzz_from):
    """Views of views, updates, folds and loops over every dtype. Integers, and floats made by what
    IEEE rounds, have the same bits; donated arrays are written over only where they are given.
    """
    for first in seeds(fuzz_count, fuzz_from):
        made = []
        for seed in range(first, first + TOGETHER):
            drawn = mixed_programs.draw(seed)
            with np.errstate(all="ignore"):
                graph, near = mixed_programs.graph_of(drawn)
            donated = frozenset([0] if seed % 3 == 0 else [])
            with ga.enable_x64(True):
                made.append((drawn, graph, near, donated, natively.written(graph, donated)))
        natively.compile_all([native for *_, native in made])
        for drawn, graph, near, donated, native in made:
            plan = plan_graph(graph, fusion=False)
            plain = host.build(plan, [np.asarray(c) for c in plan.graph.consts])
            expected = [np.asarray(x) for x in host.local.run(plain, *drawn.inputs)]
            for owned in [set(), {0}] if donated else [None]:
                given = [x.copy() for x in drawn.inputs]
                found = native(*given, *([owned] if donated else []))
                what = f"seed {drawn.seed}, {owned=}"
                for f, e, n in zip(found, expected, near, strict=True):
                    mixed_values.compare(f, e, n, what)
                for k, (x, y) in enumerate(zip(given, drawn.inputs, strict=True)):
                    assert k in (owned or ()) or x.tobytes() == y.tobytes(), f"{what}: input {k}"
        ga.clear_caches()
