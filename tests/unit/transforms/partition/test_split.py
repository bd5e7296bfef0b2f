"""Splitting programs: the same values, in the exchanges that theory says, told with their lines."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as jnp
from gpuarray import lax
from gpuarray.core.grid import Grid
from gpuarray.sharding import Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P
from gpuarray.transforms.partition.split import Partitioned, partition
from tests.support.devices import exchanges, grid_of, mesh_of, piece_of, places_of, run_pieces

pytestmark = pytest.mark.devices

rng = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


def split(
    fun: Callable, values: Sequence[Any], ins: Sequence[P], outs: Sequence[P | None] | None = None,
    shape: tuple[int, ...] = (4, 2),
) -> tuple[Partitioned, Grid]:  # fmt: skip
    graph = ga.make_jaxpr(fun)(*values).jaxpr
    mesh, grid = mesh_of(shape), grid_of(shape)
    given = [grid.spec(mesh, p, v.aval.ndim) for p, v in zip(ins, graph.invars, strict=True)]
    outs = [None] * len(graph.outvars) if outs is None else outs
    wanted = [
        None if p is None else grid.spec(mesh, p, v.aval.ndim)
        for p, v in zip(outs, graph.outvars, strict=True)
    ]
    return partition(graph, given, wanted, grid), grid


def sent(
    fun: Callable, values: Sequence[Any], ins: Sequence[P], outs: Sequence[P | None] | None = None
) -> dict:
    """Split a program, check what it computes on all devices, and count its exchanges."""
    flat = [np.asarray(v) for v in ga.tree.leaves(list(values))]
    parts, grid = split(fun, values, ins, outs)
    wanted = [np.asarray(w) for w in ga.tree.leaves(fun(*ga.tree.map(jnp.asarray, list(values))))]
    results = run_pieces(parts, grid, flat)
    for place, row in zip(places_of(grid.sizes), results, strict=True):
        for found, want, spec in zip(row, wanted, parts.outs, strict=True):
            piece = piece_of(want, spec, place, grid.sizes)
            np.testing.assert_allclose(found, piece, rtol=2e-5, atol=2e-5)
    count = exchanges(parts.local)
    told = {n.sent for n in parts.notes}
    assert set(count) <= told, "an exchange without a note"
    return dict(count)


# ---- training ----


def loss(params, x, y):
    for w, b in params:
        x = jnp.tanh(x @ w + b)
    return jnp.mean((x - y) ** 2)


def sgd(params, x, y):
    return ga.tree.map(lambda p, g: p - 0.1 * g, params, ga.grad(loss)(params, x, y))


W, X, Y = (
    [(normal(16, 32), normal(32)), (normal(32, 16), normal(16))],
    normal(32, 16), normal(32, 16),
)  # fmt: skip
ROWS = [P("x"), P("x")]
WHOLE = [P(), P(), P(), P()]
#: The first layer by columns, the second by rows.
CUT_PAIR = [P(None, "y"), P("y"), P("y"), P()]


def test_data_parallel_training_sums_each_gradient_once():
    assert sent(sgd, (W, X, Y), [*WHOLE, *ROWS], WHOLE) == {"psum": 4}


def test_gradients_that_are_wanted_cut_are_scattered():
    assert sent(sgd, (W, X, Y), [*WHOLE, *ROWS], [P("x")] * 4) == {"reduce_scatter": 4}


def test_a_pair_of_layers_cut_along_the_inner_axis_sums_once():
    assert sent(loss, (W, X, Y), [*CUT_PAIR, P(), P()]) == {"psum": 1}
    # Backward, nobody asks for the cotangent of x: the one sum is that of the forward pass.
    assert sent(sgd, (W, X, Y), [*CUT_PAIR, P(), P()], CUT_PAIR) == {"psum": 1}


def test_the_gradient_of_such_a_pair_sums_once_more():
    def forward(params, x):
        (w, b), (v, c) = params
        return jnp.sum((jnp.tanh(x @ w + b) @ v + c) ** 2)

    found = sent(lambda p, x: ga.grad(forward, 1)(p, x), (W, X), [*CUT_PAIR, P()])
    assert found == {"psum": 2}


def test_both_kinds_of_parallel_training_together():
    # One sum forward along y, four of gradients along x.
    assert sent(sgd, (W, X, Y), [*CUT_PAIR, *ROWS], CUT_PAIR) == {"psum": 5}


def test_parameters_in_pieces_are_gathered_and_their_gradients_scattered():
    x, y = normal(1024, 16), normal(1024, 16)
    cut = [P("x")] * 4
    found = sent(sgd, (W, x, y), [*cut, *ROWS], cut)
    assert found["reduce_scatter"] == 4
    assert set(found) == {"reduce_scatter", "all_gather"}


# ---- where partial sums are combined ----


def test_sums_of_partial_sums_are_combined_once():
    def fun(a, b, c, d):
        return -(a @ b + c @ d).T

    values = [normal(8, 16), normal(16, 8), normal(8, 16), normal(16, 8)]
    assert sent(fun, values, [P(None, "x"), P("x")] * 2) == {"psum": 1}


def test_what_several_read_is_combined_once():
    def fun(a, b):
        c = a @ b
        return c.T, c + 1, c * 2

    assert sent(fun, [normal(8, 16), normal(16, 8)], [P(None, "x"), P("x")]) == {"psum": 1}


@pytest.mark.parametrize("fold", [jnp.max, jnp.min, jnp.prod, jnp.all, jnp.any, jnp.sum])
def test_folds_along_cut_axes(fold):
    x = normal(8, 6)
    x[3] = 0
    x = x > 0 if fold in (jnp.all, jnp.any) else x
    for spec in (P("x"), P("y"), P(("x", "y"))):
        found = sent(lambda x: fold(x, axis=0), [x], [spec])
        assert sum(found.values()) == 1, found


# ---- layouts that are wanted ----


def test_replicated_values_are_cut_where_the_result_is_wanted_so():
    def fun(x, y):
        z = jnp.arange(64, dtype=jnp.float32).reshape(8, 8) + jnp.zeros((8, 8))
        return jnp.sin(x + y.T) * z

    parts, _ = split(fun, [normal(8, 8), normal(8, 8)], [P(), P()], [P("x", "y")])
    assert not exchanges(parts.local)
    shapes = {
        v.aval.shape for e in parts.local.eqns for v in e.outvars if e.primitive.name == "sin"
    }
    assert shapes == {(2, 4)}, "every device computes its piece only"
    assert sent(fun, [normal(8, 8), normal(8, 8)], [P(), P()], [P("x", "y")]) == {}


def test_readers_that_disagree_do_not_cut():
    def fun(x):
        y = jnp.sin(x)
        return y, y

    assert sent(fun, [normal(8, 8)], [P()], [P("x"), P(None, "x")]) == {}


def test_random_numbers_do_not_depend_on_the_layout():
    def fun(key):
        return ga.random.normal(key, (16, 8)), ga.random.uniform(key, (8, 16))

    key = ga.random.key(3)
    with ga.threefry_partitionable(True):
        wanted = [np.asarray(w) for w in fun(key)]
        sharding = NamedSharding(mesh_of((4, 2)), P("x", "y"))
        for found, want in zip(ga.jit(fun, out_shardings=sharding)(key), wanted, strict=True):
            assert found.sharding == sharding
            np.testing.assert_allclose(np.asarray(found), want, rtol=1e-6)


# ---- loops ----

W_INVERTIBLE = 4 * np.eye(8, dtype=np.float32) + normal(8, 8) / 4


def test_what_each_step_of_a_loop_needs_whole_is_gathered_before_it():
    def fun(w, x):
        step = lambda i, x: jnp.tanh(x @ jnp.linalg.inv(w))
        return lax.fori_loop(0, 5, step, x)

    parts, _ = split(fun, [W_INVERTIBLE, normal(4, 8)], [P("x"), P()])
    (gather,) = [e for e in parts.local.eqns if e.primitive.name == "all_gather"]
    assert exchanges(parts.local).total() == 1, "none inside"
    assert sent(fun, [W_INVERTIBLE, normal(4, 8)], [P("x"), P()]) == {gather.primitive.name: 1}


def test_a_loop_keeps_what_it_carries_in_pieces():
    def fun(w, x):
        return lax.scan(lambda x, w: (jnp.tanh(x * w), x.sum(1)), x, w)

    assert sent(fun, [normal(5, 8, 8), normal(8, 8)], [P(None, "x"), P("x")]) == {}
    # What begins whole is cut from the start, if the body makes it so.
    assert sent(fun, [normal(5, 8, 8), normal(8, 8)], [P(None, "x"), P()]) == {}


# ---- notes ----


def test_every_gather_is_told_with_the_users_line():
    def fun(x):
        y = x * 2
        return jnp.sort(y, axis=0) + 1  # HERE

    parts, _ = split(fun, [normal(8, 3)], [P("x")])
    (note,) = parts.notes
    lines, start = inspect.getsourcelines(fun)
    here = start + next(i for i, text in enumerate(lines) if "HERE" in text)
    assert note.sent == "all_gather"
    assert (note.site.filename, note.site.line) == (__file__, here)
    assert note.aval.shape == (8, 3)
    assert note.why == "sort needs it whole"


def test_sums_are_told_where_they_were_made():
    def fun(x):
        total = x.sum(0)  # HERE
        return total * 2

    parts, _ = split(fun, [normal(8, 3)], [P("x")])
    (note,) = parts.notes
    lines, start = inspect.getsourcelines(fun)
    here = start + next(i for i, text in enumerate(lines) if "HERE" in text)
    assert (note.sent, note.site.line) == ("psum", here)


@pytest.mark.parametrize("spec", [P("x"), P("x", "y"), P(None, "y"), P("y", "x"), P()])
def test_loops_under_vmap_stop_element_by_element(spec):
    """Without exchanges each device stops by itself; with a sum along a cut axis all go on."""
    grow = lambda c: c * 2.0 + 1.0
    loops = {
        "by itself": lambda v: lax.while_loop(lambda c: c[0] < 50, grow, v),
        "with a sum": lambda v: lax.while_loop(
            lambda c: c.max() < 50, lambda c: grow(c) + 0.125 * c.sum(), v
        ),
        "of two": lambda v: lax.while_loop(
            lambda c: c[1] < 40, lambda c: (grow(c[0]), c[1] + c[0].sum()), (v, 0.0)
        )[0],
    }
    x = np.arange(1, 33, dtype=np.float32).reshape(8, 4)
    mesh = Mesh(np.array(ga.devices()).reshape(4, 2), ("x", "y"))
    for name, loop in loops.items():
        found = ga.jit(ga.vmap(loop))(ga.device_put(x, NamedSharding(mesh, spec)))
        np.testing.assert_allclose(found, ga.vmap(loop)(x), rtol=1e-6, err_msg=name)


THROUGH = {
    "a branch": lambda x: lax.cond(x[0] > 0, jnp.sin, lambda a: a * 2, jnp.outer(x, x)),
    "a loop": lambda x: lax.fori_loop(0, 3, lambda _, a: jnp.sin(a) + 1, jnp.outer(x, x)),
    "a while": lambda x: lax.while_loop(
        lambda c: c[0] < x.sum(), lambda c: (c[0] + 1, jnp.sin(c[1])), (0.0, jnp.outer(x, x))
    )[1],
    "results of steps": lambda x: lax.scan(
        lambda c, i: (c, jnp.sin(c) * i), jnp.outer(x, x), jnp.arange(2.0)
    )[1][1],
    "what a step reads": lambda x: lax.scan(
        lambda c, _: (c + jnp.outer(x, x), None), jnp.zeros((16, 16)), None, length=2
    )[0],
}  # fmt: skip


@pytest.mark.parametrize("name", THROUGH)
def test_what_is_wanted_reaches_what_makes_it(name):
    """A result that is to be cut is made in pieces before the loop, and nowhere whole."""
    parts, _ = split(THROUGH[name], [normal(16)], [P()], [P("x", "y")])
    sizes = [v.aval.size for e in parts.local.eqns for v in e.outvars]
    assert max(sizes) <= 2 * 256 // 8, sizes
    assert sent(THROUGH[name], [normal(16)], [P()], [P("x", "y")]) == {}


def test_branches_that_want_different_layouts():
    def fun(x):
        return lax.cond(x[0, 0] > 0, lambda a: a.T, lambda a: a + 1, jnp.sin(x))

    sent(fun, [normal(16, 16)], [P()], [P("x", "y")])
    sent(fun, [normal(16, 16)], [P("y")], [P("x")])
