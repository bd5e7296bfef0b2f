"""The laws of test_primitives.py on a GPU that is not there, in strict mode.

In: one cheap sample of each primitive, the stand-in for CuPy. Out: the same tests as on the CPU,
but for those of NumPy's rules. A plain run tries a few primitives, one of each sort of step; all
are tried with --slow.
"""

from __future__ import annotations

import contextlib

import pytest

import gpuarray as ga
from gpuarray.config import strict
from gpuarray.core.primitive import Kind
from tests.fake_cupy import installed
from tests.generic import test_primitives as generic
from tests.samples import Sample, samples
from tests.support import simulated

simulated.need_compiler()

#: One of each: a map, a reduction, a scan, an update, keys, a product, a routine, parts, a loop.
FEW = (
    "tanh reduce_sum cumsum scatter_add random_split dot_general cholesky householder_product while"
).split()


def cheapest() -> list[Sample]:
    """The smallest sample of each primitive that has elements in it."""
    found: dict[str, Sample] = {}
    for s in sorted(samples(lambda p: p.kind is not Kind.COLLECTIVE), key=_price):
        if all(a.size for a in s.avals) and s.primitive.name not in generic.RANDOM:
            found.setdefault(s.primitive.name, s)
    return list(found.values())


def _price(sample: Sample) -> tuple[bool, int]:
    """Arrays of one element come last: they say little."""
    sizes = [a.size for a in sample.avals]
    return max(sizes, default=0) < 2, sum(sizes)


CHEAPEST = [
    pytest.param(s, id=str(s), marks=[] if s.primitive.name in FEW else [pytest.mark.slow])
    for s in cheapest()
]


@pytest.fixture(scope="module")
def gpu():
    """One GPU for all tests here; at the end nothing may be wrong, nor memory be taken."""
    with installed(seed=11) as world:
        yield world


@pytest.mark.parametrize("sample", CHEAPEST)
def test_laws(gpu, sample):
    with ga.enable_x64(True) if sample.wide else contextlib.nullcontext(), strict(True):
        assert ga.default_backend() == "gpu"
        generic.test_result_is_what_the_rule_says.check(sample)
        generic.test_every_way_of_running_agrees.check(sample)
        generic.test_fused_with_neighbours.check(sample)
        generic.test_traced_graph_is_lawful.check(sample)
