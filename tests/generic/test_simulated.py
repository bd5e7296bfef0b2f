"""The transforms of every primitive as kernels: the values that NumPy has, no access out of place.

In: the programs of transformed.py. Out: each run on the simulator, against the NumPy driver's run
of the same Graph. One sample of a primitive and kind of number in every run; all of them, in
several orders of threads, in a slow one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.backends import simulator
from gpuarray.backends.numpy import program as host
from gpuarray.config import strict
from gpuarray.core.graph import Graph
from tests.generic.smooth import DIFFERENTIABLE, ROWS, one_of_each, refusal
from tests.generic.transformed import (
    SIZE,
    TRANSFORMS,
    Program,
    batches,
    derivatives,
    few_axes,
)
from tests.samples import Sample
from tests.support import nvrtc, simulated
from tests.support.nearness import assert_near

simulated.need_compiler()

#: Units in the last place of the largest result by which others may differ.
ULPS = 64
#: What is known to fewer digits: differences, and sums of many terms of either sign.
LOOSE = {
    "igamma": 1 << 10,
    "igammac": 1 << 10,
    "igamma_grad_a": 1 << 12,
    "random_gamma_grad": 1 << 12,
    "random_gamma": 1 << 12,
    "pow": 1 << 10,
    "expn": 1 << 8,
    "hyp1f1": 1 << 13,
    "hyp2f1": 1 << 13,
    "hyp1f1_slope": 1 << 16,
    "hyp2f1_slope": 1 << 16,
}


#: The same program as "grad" once calls are written out, and that as "vjp" of ones: next to none of
#: their kernels is new.
REPEATED = "grad of jit", "grad"


class Built(NamedTuple):
    """A program, its Graph, and its kernels, which wait for the first launch."""

    program: Program
    graph: Graph
    function: Callable


def built(sample: Sample, programs: Iterator[Program]) -> list[Built]:
    found = []
    for p in programs:
        if not refusal(sample, p.transform):
            graph = p.graph()
            found.append(Built(p, graph, simulated.built(graph)))
    return found


def derivatives_of(sample: Sample, transforms=TRANSFORMS) -> list[Built]:
    with ga.enable_x64(True), strict(True):
        return built(sample, derivatives(sample, transforms))


def batches_of(sample: Sample, **how) -> list[Built]:
    with ga.enable_x64(sample.wide), strict(True):
        return built(sample, batches(sample, **how))


def check(made: Built) -> None:
    p, seeds = made.program, simulated.SEEDS
    ulps = LOOSE.get(p.sample.primitive.name, ULPS)
    expected = host.local.run(host.compile_graph(made.graph), *p.inputs)
    first = simulated.run(made.function, p.inputs, seeds[0])
    for f, e in zip(first, map(np.asarray, expected), strict=True):
        assert_near(f, e, str(p), ulps)
    for seed in seeds[1:]:
        again = simulated.run(made.function, p.inputs, seed)
        assert [x.tobytes() for x in first] == [x.tobytes() for x in again], str(p)


# ---- in every run ----


def by_name(found: list[Sample]) -> dict[str, list[Sample]]:
    named: dict[str, list[Sample]] = {}
    for s in found:
        named.setdefault(s.primitive.name, []).append(s)
    return named


#: What has no type in CUDA text is converted before it gets to a kernel.
TYPED = [s for s in ROWS if not any(name == "int4" for _, name in s.operands)]
SMOOTH, EVERY = by_name(DIFFERENTIABLE), by_name(TYPED)
FEW_SMOOTH, FEW = by_name(one_of_each(DIFFERENTIABLE)), by_name(one_of_each(TYPED))


@pytest.fixture(scope="module")
def waiting():
    """All programs of a run, made before any is compiled, or the error that one ended in."""
    found: dict[tuple[str, str], list[Built] | Exception] = {}
    for name, some in FEW_SMOOTH.items():
        found["derivatives", name] = made_or_failed(few_derivatives_of, some)
    for name, some in FEW.items():
        found["batches", name] = made_or_failed(few_batches_of, some)
    return found


def few_derivatives_of(sample: Sample) -> list[Built]:
    return derivatives_of(sample, [t for t in TRANSFORMS if t not in REPEATED])


def few_batches_of(sample: Sample) -> list[Built]:
    return batches_of(sample, sizes=(SIZE,), places=few_axes)


def made_or_failed(make, some: list[Sample]) -> list[Built] | Exception:
    try:
        return [b for s in some for b in make(s)]
    except Exception as error:  # the test of this primitive raises it
        return error


def check_all(made: list[Built] | Exception) -> None:
    if isinstance(made, Exception):
        raise made
    for one in made:
        check(one)


def bodies_of(waiting) -> dict[str, set[str]]:
    """The kernels of each transform, each text once."""
    kinds = ("vmap", *TRANSFORMS)
    bodies: dict[str, set[str]] = {kind: set() for kind in kinds if kind not in REPEATED}
    for made in waiting.values():
        for one in made if isinstance(made, list) else []:
            kind = "vmap" if one.program.transform.startswith("vmap 3") else one.program.transform
            space = one.function.__globals__.values()
            bodies[kind] |= {v.body for v in space if isinstance(v, simulator.Launcher)}
    return bodies


def test_every_transform_has_kernels(waiting):
    """What is run below: how much of it there is, and that no transform is left out."""
    bodies = bodies_of(waiting)
    assert min(map(len, bodies.values())) > 150, {k: len(v) for k, v in bodies.items()}
    assert len(set().union(*bodies.values())) > 2000


@nvrtc.needed
@pytest.mark.slow
def test_kernels_are_valid_cuda(waiting):
    for source in nvrtc.sources(sorted(set().union(*bodies_of(waiting).values()))):
        assert ".entry" in nvrtc.compiled(source, "compute_90").ptx


@pytest.mark.parametrize("name", FEW_SMOOTH)
def test_derivatives(name, waiting):
    check_all(waiting["derivatives", name])


@pytest.mark.parametrize("name", FEW)
def test_batches(name, waiting):
    check_all(waiting["batches", name])


# ---- all of them ----


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_of_all_samples(name):
    made = [b for s in SMOOTH[name] for b in derivatives_of(s)]
    for one in made:
        check(one)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_batches_of_all_samples(name):
    made = [b for s in EVERY[name] for b in batches_of(s)]
    for one in made:
        check(one)
