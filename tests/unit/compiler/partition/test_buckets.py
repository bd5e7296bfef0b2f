"""Buckets: which exchanges become one, that they stay in order, that no bit of a result changes."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as jnp
from gpuarray import lax
from gpuarray.backends import lockstep
from gpuarray.backends.numpy.program import build
from gpuarray.backends.shared import SharedMemory
from gpuarray.compiler.partition.buckets import bucketed
from gpuarray.compiler.partition.network import Level, Network, network_named
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.core.axes import NamedAxis, named_axes
from gpuarray.core.graph import Graph, verify
from gpuarray.core.primitive import Kind
from tests.support.exchanging import exchanging

COUNT = 4
CPU = network_named("cpu")


def traced(fun, *values) -> Graph:
    with named_axes({"i": NamedAxis(COUNT)}):
        return ga.make_jaxpr(fun)(*values).jaxpr


def sums(graph: Graph) -> list[tuple[str, int]]:
    """The collectives of a Graph in order, each with the number of its operands."""
    talking = [e for e in graph.eqns if e.primitive.kind is Kind.COLLECTIVE]
    return [(e.primitive.name, len(e.invars)) for e in talking]


def together(fun, *values, network=CPU) -> Graph:
    found = bucketed(traced(fun, *values), {"i": COUNT}, network)
    verify(found)
    return found


def results(graph: Graph, rows) -> list[list[bytes]]:
    plan = plan_graph(graph)
    function = build(plan, [np.asarray(c) for c in plan.graph.consts])
    found = lockstep.run([function(*row) for row in rows], SharedMemory({"i": COUNT}))
    return [[np.asarray(x).tobytes() for x in row] for row in found]


def psum(x):
    return lax.psum(x, "i")


X = np.linspace(-1, 2, 6, dtype=np.float32)


def test_independent_sums_are_one():
    found = together(lambda x: (psum(x), psum(x * 2) + 1, psum(x.sum())), X)
    assert sums(found) == [("psum", 3)]


def test_a_sum_that_needs_another_comes_later():
    found = together(lambda x: psum(jnp.sin(psum(x))) + psum(jnp.cos(x)), X)
    assert sums(found) == [("psum", 1), ("psum", 2)] or sums(found) == [("psum", 2), ("psum", 1)]


def test_kinds_dtypes_and_groups_stay_apart():
    def fun(x):
        half = x.astype(np.float16)
        groups = [[0, 1], [2, 3]]
        few = lax.psum(x, "i", axis_index_groups=groups)
        return psum(x), lax.pmax(x, "i"), psum(half), few, psum(x + 1), psum(half * 2)

    assert sorted(sums(together(fun, X))) == [("pmax", 1), ("psum", 1), ("psum", 2), ("psum", 2)]


def test_two_buckets_do_not_need_each_other():
    """A maximum needs one sum, and the other sum needs another maximum."""

    def fun(x):
        a = psum(x)
        b = lax.pmax(a * 2, "i")
        c = lax.pmax(x + 1, "i")
        return b, psum(c * x)

    assert sorted(sums(together(fun, X))) in (
        [("pmax", 1), ("pmax", 1), ("psum", 2)],
        [("pmax", 2), ("psum", 1), ("psum", 1)],
    )


def test_a_bucket_holds_what_the_network_says():
    x = np.ones(1000, np.float32)

    def fun(x):
        return [psum(x * i) for i in range(8)]

    # In the microsecond of an empty sum, 10 kB of each of the four are read and of the sum written.
    network = Network((Level(alpha=1e-6, bytes_per_s=5 * 10e9, shared=True),))
    assert sums(together(fun, x, network=network)) == [("psum", 2)] * 4
    large = Network((Level(alpha=1e-9, bytes_per_s=1e9, shared=True),))
    assert sums(together(fun, x, network=large)) == [("psum", 1)] * 8


def test_what_nobody_needs_is_not_kept_alive():
    def fun(x):
        psum(x * 3)
        return psum(x), psum(x + 1)

    assert sums(together(fun, X)) == [("psum", 2)]


def test_bodies_of_loops_have_buckets():
    def step(carry, _):
        a, b = carry
        return (psum(a) / 4, psum(b) / 4), None

    graph = together(lambda x: lax.scan(step, (x, x + 1), None, length=3)[0], X)
    (loop,) = [e for e in graph.eqns if e.primitive.name == "scan"]
    assert sums(loop.params["jaxpr"]) == [("psum", 2)]


def gathered(x, **params):
    return lax.all_gather(x, "i", **params)


def scattered(x, **params):
    return lax.psum_scatter(x, "i", **params)


def test_gathers_along_any_of_their_axes_are_one():
    def fun(x):
        return gathered(x), gathered(x + 1, axis=0, tiled=True), gathered(x[:2], axis=1), x

    assert sums(together(fun, X)) == [("all_gather_together", 3)]


def test_scattered_sums_are_one():
    def fun(x):
        pieces = jnp.outer(x, jnp.ones(COUNT))
        return scattered(pieces, scatter_dimension=1), scattered(pieces.T * 2, tiled=True)

    assert sums(together(fun, X)) == [("reduce_scatter_together", 2)]


def test_gathers_of_other_groups_dtypes_and_kinds_stay_apart():
    def fun(x):
        half = x.astype(np.float16)
        few = gathered(x, axis_index_groups=[[0, 1], [2, 3]])
        return (
            gathered(x),
            gathered(half),
            few,
            scattered(gathered(x * 2)),
            psum(x),
            gathered(x.sum()),
        )

    assert sorted(sums(together(fun, X))) == [
        ("all_gather", 1),
        ("all_gather", 1),
        ("all_gather_together", 3),
        ("psum", 1),
        ("reduce_scatter", 1),
    ]


def test_a_bucket_of_gathers_holds_what_the_network_says():
    x = np.ones(1000, np.float32)
    # In the microsecond of an empty message 10 kB are sent, which is two and a half of these.
    network = Network((Level(alpha=1e-6, bytes_per_s=10e9),))
    found = sums(together(lambda x: [gathered(x * i) for i in range(4)], x, network=network))
    assert found == [("all_gather_together", 2)] * 2
    assert network.bucket_bytes(COUNT, "all_gather") == 10000


@pytest.mark.on_cpu("its programs are compared")
@pytest.mark.parametrize("dtype", ["float16", "int8", "bool", "complex64", "float32"])
def test_gathers_and_scattered_sums_keep_every_bit(dtype):
    """As alone, and as along an axis of vmap; also of no elements, and of scalars."""

    def fun(x):
        many = [x, x[0], x[:, :0], x[:1].T]
        found = [gathered(v, axis=v.ndim) for v in many]
        found += [gathered(x, axis=1, tiled=True)]
        if dtype != "bool":
            found += [scattered(x), scattered(x.T * x.dtype.type(3), scatter_dimension=1)]
            found += [scattered(x, tiled=True), scattered(x[:, 0])]
        return found

    rng = np.random.default_rng(3)
    given = (rng.normal(size=(COUNT, COUNT, 6)) * 50).astype(dtype)
    graph = traced(fun, given[0])
    found = bucketed(graph, {"i": COUNT}, CPU)
    verify(found)
    assert all(count > 1 for _, count in sums(found))
    rows = [[x] for x in given]
    assert results(found, rows) == results(graph, rows)
    along_vmap = ga.vmap(fun, axis_name="i")(given)
    for i, row in enumerate(results(found, rows)):
        assert row == [np.asarray(x[i]).tobytes() for x in along_vmap]


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_keep_every_bit(seed):
    fun, rows = exchanging(seed, COUNT)
    graph = traced(fun, *rows[0])
    found = bucketed(graph, {"i": COUNT}, CPU)
    verify(found)
    assert results(found, rows) == results(graph, rows)
    assert str(bucketed(graph, {"i": COUNT}, CPU)) == str(found)
