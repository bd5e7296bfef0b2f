"""Every primitive as native code: the values that NumPy has.

In: the samples, and the programs of transformed.py. Out: each run by compiled kernels, against the
NumPy driver's run of the same Graph. One sample of a primitive and kind of number in every run, if
test_native_ends.py has none; all of them, and their transforms, in a slow one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.backends.numpy import program as host
from gpuarray.core.graph import Graph
from gpuarray.core.primitive import Kind
from tests.generic.smooth import DIFFERENTIABLE, ROWS, one_of_each, refusal
from tests.generic.test_native_ends import suits as at_their_ends
from tests.generic.transformed import Program, batches, derivatives
from tests.samples import Sample, samples, values
from tests.support import natively
from tests.support.nearness import assert_near

natively.need_compiler()

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
#: Results that are not a function of the operands.
RANDOM = {"empty", "rng_uniform"}
#: Pointwise primitives without native text.
WITHOUT = {"stop_gradient"}  # the identity


class Case(NamedTuple):
    what: str
    name: str
    graph: Graph
    inputs: list[np.ndarray]
    written: natively.Written


def case(what: str, name: str, graph: Graph, inputs) -> Case:
    return Case(what, name, graph, list(inputs), natively.written(graph))


def of_sample(sample: Sample) -> Case:
    with ga.enable_x64(sample.wide):
        bind = lambda *xs: sample.primitive.bind(*xs, **sample.params)
        avals = [ga.ShapeDtypeStruct(a.shape, a.dtype) for a in sample.avals]
        graph = ga.jit(bind).lower(*avals).jaxpr
    return case(str(sample), sample.primitive.name, graph, values(sample))


def of_program(p: Program) -> Case:
    return case(str(p), p.sample.primitive.name, p.graph(), p.inputs)


def check(made: Case) -> None:
    expected = host.local.run(host.compile_graph(made.graph), *made.inputs)
    found = made.written(*made.inputs)
    for f, e in zip(found, map(np.asarray, expected), strict=True):
        assert (f.shape, f.dtype) == (e.shape, e.dtype), made.what
        assert_near(f, e, made.what, LOOSE.get(made.name, ULPS))


ALL = [s for s in samples() if s.primitive.name not in RANDOM and s.primitive.kind is not Kind.CALL]
#: Reductions of more than a few elements; what makes them long is in the unit tests.
FOLDS = [
    s
    for s in ALL
    if s.primitive.kind is Kind.REDUCTION
    and s.operands[0][0] == (5, 7)
    and s.operands[0][1] in ("float32", "int32", "bool", "complex64", "bfloat16")
]
FEW = list({str(s): s for s in (*one_of_each(ALL), *FOLDS)}.values())


@pytest.fixture(scope="module")
def few():
    """The samples of every run as programs."""
    return {str(s): of_sample(s) for s in FEW}


def test_pointwise_work_and_reductions_have_native_kernels(few):
    """None of these primitives silently stays with NumPy."""
    kinds = {s.primitive.name: s.primitive.kind for s in FEW}
    fused = {name for name, kind in kinds.items() if kind in (Kind.POINTWISE, Kind.REDUCTION)}
    compiled = {c.name for c in few.values() if c.written.kernels}
    assert len(fused) > 100
    assert fused - compiled <= WITHOUT


def test_every_primitive(few):
    # The others are compiled and compared, on more numbers, in test_native_ends.py.
    made = [few[str(s)] for s in FEW if not at_their_ends(s)]
    natively.compile_all([c.written for c in made])
    for one in made:
        check(one)


@pytest.mark.slow
def test_all_samples():
    made = [of_sample(s) for s in ALL]
    natively.compile_all([c.written for c in made])
    for one in made:
        check(one)


@pytest.mark.slow
def test_derivatives():
    with ga.enable_x64(True):
        made = [
            of_program(p)
            for s in one_of_each(DIFFERENTIABLE)
            for p in derivatives(s)
            if not refusal(s, p.transform)
        ]
    natively.compile_all([c.written for c in made])
    for one in made:
        check(one)


@pytest.mark.slow
def test_batches():
    made = []
    for s in one_of_each(ROWS):
        with ga.enable_x64(s.wide):
            made += [of_program(p) for p in batches(s) if not refusal(s, p.transform)]
    natively.compile_all([c.written for c in made])
    for one in made:
        check(one)
