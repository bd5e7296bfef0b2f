"""Lifetimes: whose memory values are in and until when it is read, whatever says what a view is.

The drivers' use of it is tested in tests/unit/backends/test_lifetimes.py.
"""

from __future__ import annotations

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.compiler.lower.lifetimes import Lifetimes
from gpuarray.core.primitive import Kind


def lives_of(function, *shapes):
    """The lifetimes of the equations of a function, in which every view is one; and its graph."""
    arguments = [ga.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    graph = ga.make_jaxpr(function)(*arguments).jaxpr
    is_view = lambda eqn: eqn.primitive.kind is Kind.VIEW
    own = lambda eqn: range(len(eqn.outvars))
    return Lifetimes(graph.outvars, graph.eqns, is_view, own), graph


def test_views_are_in_the_memory_that_they_look_into():
    def f(x):
        y = lax.exp(x)
        part = lax.slice(lax.reshape(y, (6, 2)), (1, 0), (3, 2))
        return lax.sin(part)

    lives, graph = lives_of(f, (3, 4))
    made, whole, part, out = (e.outvars[0] for e in graph.eqns)
    assert lives.root(whole) is lives.root(part) is made
    assert (lives.is_whole(whole), lives.is_whole(part)) == (True, False)
    assert lives.owned == {made, out}
    # The argument is read first, what is made of it by the last step, the result behind that.
    assert [lives.last[v] for v in (graph.invars[0], made, out)] == [0, 3, 4]
    assert part not in lives.last


def test_what_nothing_reads_has_no_last_step():
    lives, graph = lives_of(lambda x: (lax.exp(x), lax.sin(x))[1], (3,))
    unread = [e.outvars[0] for e in graph.eqns if e.outvars[0] not in graph.outvars]
    assert all(v not in lives.last for v in unread)
    assert lives.fresh_outputs() == {0}


def test_results_in_one_memory_are_nobodys_own():
    def f(x):
        y = gnp.exp(x)
        return y, y.reshape(4, 3), gnp.sin(x)

    assert lives_of(f, (3, 4))[0].fresh_outputs() == {2}
