"""Updates of zeros that are added to something: updates of that, and values stay the same.

In: gradients of several lookups in one table. Out: how many arrays of zeros and sums are left, and
the values.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.compiler.rewrite.contributions import add_where_it_is
from gpuarray.compiler.rewrite.simplify import simplify
from gpuarray.core.graph import evaluate


def changed(function, *arguments):
    graph = simplify(ga.jit(function).lower(*arguments).jaxpr)
    return graph, add_where_it_is(graph)


def names(graph) -> list[str]:
    return [e.primitive.name for e in graph.eqns]


@pytest.mark.parametrize("lookups", [2, 3, 5])
def test_gradients_of_several_lookups(lookups, rng):
    table = gnp.asarray(rng.integers(-3, 4, (20, 4)).astype(np.float32))
    places = gnp.asarray(rng.integers(0, 20, (lookups, 6)))
    loss = lambda t, i: sum((t[i[k]] ** 2).sum() * (k + 1) for k in range(lookups)) + (t**3).sum()
    graph, found = changed(ga.grad(loss), table, places)
    assert names(graph).count("add_any") == lookups
    assert names(found).count("add_any") == 0
    assert names(found).count("scatter-add") == lookups
    (wanted,), (got,) = evaluate(graph, table, places), evaluate(found, table, places)
    np.testing.assert_array_equal(got, wanted)


def test_what_is_read_elsewhere_or_narrow_stays(rng):
    table = gnp.asarray(rng.integers(-3, 4, (20, 4)).astype(np.float32))
    places = gnp.asarray(rng.integers(0, 20, 6))
    loss = lambda t: (t[places] ** 2).sum() + (t**3).sum()
    graph, found = changed(lambda t: gnp.where(t > 0, 1, ga.grad(loss)(t)), table)
    assert len(found.eqns) == len(graph.eqns) - 1
    # A sum of the user's is none of contributions.
    added = lambda t: t + gnp.zeros_like(t).at[places].add(1)
    graph, found = changed(added, table)
    assert found is graph
    graph, found = changed(ga.grad(loss), table.astype("float16"))
    assert found is graph
