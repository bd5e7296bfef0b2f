"""A GraphIndex says who makes and who reads the values of a Graph, and keeps up with changes."""

from __future__ import annotations

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.core.graph import Literal

X = np.ones((3, 4), "float32")


def traced(function, *args):
    """The flat Graph of a function and its index."""
    graph = ga.jit(function).lower(*args).jaxpr
    return graph, GraphIndex(graph)


def test_results_of_the_graph_count_as_reads():
    graph, index = traced(lambda x: ((y := lax.sin(x)) * y, y), X)
    (x,), (y, z) = graph.invars, [e.outvars[0] for e in graph.eqns]
    assert [index.uses.get(v, 0) for v in (x, y, z)] == [1, 3, 1]
    assert index.maker(x) is None and index.maker(Literal(1.0)) is None
    assert index.maker(y) is graph.eqns[0]


def test_base_is_behind_the_whole_chain():
    graph, index = traced(lambda x: lax.rev(lax.sin(x).T[1:], (0,)), X)
    sine, *views = graph.eqns
    base, chain = index.base(graph.outvars[0])
    assert base is sine.outvars[0] and list(chain) == views
    assert index.base(base) == (base, ())


def test_base_goes_through_what_it_is_told_to():
    graph, index = traced(lambda x: gnp.split(x, 2)[1].T, np.ones((4, 2), "float32"))
    (split, transpose), (x,) = graph.eqns, graph.invars
    assert index.base(graph.outvars[0]) == (split.outvars[1], (transpose,))  # one result each
    seen = []

    def everywhere(eqn, v):
        seen.append(v)
        return True

    assert index.base(graph.outvars[0], everywhere) == (x, (split, transpose))
    assert seen == [transpose.outvars[0], split.outvars[1]]


def test_an_index_keeps_up_with_a_pass():
    graph, index = traced(lambda x: lax.cos(lax.sin(x)), X)
    sine, cosine = graph.eqns
    other = cosine.replace(invars=sine.invars)
    index.remove(cosine)
    index.add([other])
    assert index.maker(cosine.outvars[0]) is other
    assert (index.uses[sine.outvars[0]], index.uses[graph.invars[0]]) == (0, 2)
    index.remove(sine)
    assert index.maker(sine.outvars[0]) is None and index.uses[graph.invars[0]] == 1
