"""Searches in sorted arrays that a kernel makes: wherever the array comes from, NumPy's places."""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.core.avals import ShapedArray
from gpuarray.core.element import Applied, Constant
from gpuarray.core.index import Index
from gpuarray.primitives.order.elements import SEARCHSORTED
from tests.support import simulated

simulated.need_compiler()

ROW = np.sort(np.random.default_rng(0).standard_normal(40).astype(np.float32))
QUERY = np.random.default_rng(1).standard_normal((7, 5)).astype(np.float32)

each = ga.vmap(gnp.searchsorted)
#: What is searched is computed, moved or made by the program itself, or empty.
SEARCHES = {
    "an argument": lambda a, q: gnp.searchsorted(a, q),
    "every second": lambda a, q: gnp.searchsorted(a[::2], q),
    "backwards": lambda a, q: gnp.searchsorted(-a[::-1], q),
    "one element, repeated": lambda a, q: gnp.searchsorted(gnp.broadcast_to(a[3], (9,)), q),
    "zeros": lambda a, q: gnp.searchsorted(gnp.zeros(9, q.dtype), q),
    "counted": lambda a, q: gnp.searchsorted(gnp.arange(9, dtype=q.dtype) - 4, q),
    "put together": lambda a, q: gnp.searchsorted(gnp.concatenate([a - 9, a]), q),
    "padded": lambda a, q: gnp.searchsorted(gnp.pad(a, (0, 3), constant_values=99), q),
    "computed": lambda a, q: gnp.searchsorted(gnp.sinh(a), q) * 2,
    "a sum": lambda a, q: gnp.searchsorted(gnp.sum(a)[None], q),
    "rows": lambda a, q: each(gnp.sinh(a).reshape(5, 8), q.T),
    "columns": lambda a, q: each(a.reshape(8, 5).T, q.T),
    "anew each turn": lambda a, q: lax.map(lambda v: gnp.searchsorted(gnp.cumsum(v**2), v), q),
    "a carry": lambda a, q: lax.fori_loop(
        0, 3, lambda i, s: (s[0] * 2, s[1] + gnp.searchsorted(s[0], q)), (a, gnp.zeros_like(q, int))
    )[1],
    "nothing": lambda a, q: gnp.searchsorted(a[:0], q),
    "rows of nothing": lambda a, q: each(a.reshape(5, 8)[:, :0], q.T),
}


@pytest.fixture(scope="module")
def compared():
    """All of them compiled in one go."""
    jitted = {name: ga.jit(f) for name, f in SEARCHES.items()}
    return {n: (simulated.built(f.lower(ROW, QUERY).jaxpr), f) for n, f in jitted.items()}


@pytest.mark.parametrize("name", list(SEARCHES))
def test_places(compared, name):
    made, reference = compared[name]
    expected = np.asarray(reference(ROW, QUERY))
    for seed in simulated.SEEDS:
        (found,) = simulated.run(made, (ROW, QUERY), seed)
        np.testing.assert_array_equal(found, expected)


def test_only_what_is_empty_counts_as_empty():
    """An array that is not in memory has no address: that is a mistake of the compiler, and no
    reason to find nothing in it.
    """

    def rule_of(n: int):
        shapes = ga.ShapeDtypeStruct((n,), "float32"), ga.ShapeDtypeStruct((4,), "float32")
        (eqn,) = (e for e in ga.make_jaxpr(gnp.searchsorted)(*shapes).eqns if e.primitive.element)
        computed = Applied((), eqn.invars[0].aval)
        return SEARCHSORTED.make(eqn, 0, [Index.axis(0, 4)], lambda operand, at: computed)

    assert rule_of(0) == Constant(0, ShapedArray((), np.dtype(np.int32)))
    with pytest.raises(TypeError, match="an address is that of an element in memory"):
        rule_of(3)
