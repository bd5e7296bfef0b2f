"""Many groups of one structure: one launch, whatever their number and sizes.

In: optimizer steps over lists of parameters, lengths of gradients. Kernels run on the simulator;
results are those of the NumPy driver.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends import simulator
from gpuarray.backends.numpy import program as host
from gpuarray.compiler.cuda.batch import tiles_of
from gpuarray.compiler.cuda.emit import emit
from gpuarray.compiler.lower.kernel import Batch
from gpuarray.config import strict
from gpuarray.core import dtypes
from gpuarray.core.target import TARGET
from gpuarray.runtime import cache
from tests import golden
from tests.golden import shape
from tests.support import nvrtc, simulated

SIZES = ((64, 3), (100,), (4096,), (7, 3), (), (1,), (1, 5), (2500,))

TILE = 4 * TARGET.block_threads


def adam(params, grads, first, second, step):
    t = step + 1
    one, two = 1 - 0.9**t, 1 - 0.999**t

    def update(p, g, m, v):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        return p - 1e-3 * (m / one) / (gnp.sqrt(v / two) + 1e-8), m, v

    return [update(*x) for x in zip(params, grads, first, second, strict=True)], t


def parameters(count: int):
    shapes = [shape("float32", *SIZES[i % len(SIZES)]) for i in range(count)]
    return (*(shapes,) * 4, shape("float32"))


def plan(function, *arguments):
    return ga.jit(function).lower(*arguments).plan.on_device


def numbers(*lengths: int, dtype: str = "float32") -> np.ndarray:
    x = np.random.default_rng(lengths).uniform(0.1, 1, lengths)
    return x.astype(getattr(dtypes, dtype, dtype))


# ---- one launch ----


def test_adam_over_many_parameters_is_few_launches():
    e = ga.explain(adam, platform="cuda")(*parameters(200))
    assert e.launches <= 4
    many = [k for k in e.kernels if k.kind == "batch"]
    assert sum(k.facts["groups"] for k in many) >= 180  # the others are single numbers
    assert "groups" in str(many[0]) and len(many[0].operations) == 14


def test_text_does_not_depend_on_the_number_of_groups():
    def texts(count):
        sizes = [shape("float32", 3 + i % 50, 7) for i in range(count)]
        kernels = [
            emit(g)
            for g in plan(adam, *(sizes,) * 4, shape("float32")).groups
            if isinstance(g, Batch)
        ]
        return [k.text for k in kernels]

    assert texts(10) == texts(200) and len(texts(10)) == 1


def test_few_groups_stay_alone():
    p = plan(lambda xs: [x * 2 for x in xs], [shape("float32", 8 + i) for i in range(3)])
    assert len(p.groups) == TARGET.fewest_alike - 1
    assert not any(isinstance(g, Batch) for g in p.groups)


def test_large_groups_are_together_too():
    sizes = [shape("float32", TARGET.small_group * 3 + 8 * i) for i in range(5)]
    (together,) = plan(lambda xs: [x * 2 for x in xs], sizes).groups
    assert isinstance(together, Batch) and len(together.parts) == 5
    # A block has more of them, and there are enough blocks to fill the machine several times.
    assert TARGET.batch_grid / 2 <= emit(together).schedule.grid <= TARGET.batch_grid + 5


def test_large_groups_stay_alone_where_they_would_take_memory():
    """Each is read by a product that comes next, and need not be there any longer."""

    def f(x, ws):
        return [gnp.sum((w * 2 + 1) @ x) for w in ws]

    x = shape("float32", 2048, 2048)
    groups = plan(f, x, [x] * 6).groups
    assert not any(isinstance(g, Batch) and x in g.group.axes for g in groups)
    before = plan(lambda x, ws: f(x, ws[:2]), x, [x] * 6).temporary_bytes
    assert plan(f, x, [x] * 6).temporary_bytes <= before + TARGET.launch_bytes


def test_other_work_on_other_arrays_is_another_kernel():
    def f(xs, ys):
        return [x * 2 for x in xs], [gnp.sin(y) for y in ys]

    xs = [shape("float32", 5 + i) for i in range(6)]
    ys = [shape("bfloat16" if i % 2 else "float32", 50 + i) for i in range(12)]
    assert [len(g.parts) for g in plan(f, xs, ys).groups] == [6, 6, 6]


def test_groups_that_need_one_another_are_not_together():
    def f(xs):
        ys = [x * 2 for x in xs]
        total = sum(gnp.sum(y) for y in ys)
        return [y * total * 2 for y in ys]

    for group in plan(f, [shape("float32", 9 + i) for i in range(8)]).groups:
        parts = group.parts if isinstance(group, Batch) else ()
        made = {v for part in parts for v in part.outputs}
        assert not any(v in made for part in parts for v in part.inputs)


def test_updates_of_gradients_made_one_after_another_are_together():
    """Each gradient is there at another time; the updates are at the end all the same."""

    def loss(ws, x):
        for w in ws:
            x = gnp.tanh(x @ w)
        return gnp.sum(x)

    def step(ws, x):
        return [w - 0.1 * g for w, g in zip(ws, ga.grad(loss)(ws, x), strict=True)]

    ws = [shape("float32", 8, 8)] * 12
    many = [g for g in plan(step, ws, shape("float32", 4, 8)).groups if isinstance(g, Batch)]
    assert [len(g.parts) for g in many if "sub" in str(emit(g).text.splitlines()[0])] == [12]


# ---- reductions ----


def test_clipping_many_gradients_is_three_launches():
    """Their sums of squares, what follows from these, and the products."""
    gradients = [shape("float32", 3 + i % 50, 700 + i) for i in range(200)]
    gradients += [shape("float32", 3000, 3000)]
    steps = plan(clipped, gradients).groups
    assert [s.name for s in steps] == ["k0_batch", "k1_map", "k2_batch"]
    assert [len(g.parts) for g in steps if isinstance(g, Batch)] == [201, 201]
    # Each gradient is read twice and written once.
    moved = 3 * sum(4 * g.size for g in gradients)
    assert moved <= sum(emit(g).traffic.total for g in steps) < 1.01 * moved


@pytest.mark.parametrize("name", ["lengths of each", "lengths of updates"])
def test_lengths_of_arrays_are_one_launch_and_what_they_scale_another(name):
    function, arguments = PROGRAMS[name]
    wide = [g for g in plan(function, *arguments).groups if isinstance(g, Batch)]
    assert [len(g.parts) for g in wide] == [len(SIZES)] * 2 or len(wide) <= 4


def test_text_of_reductions_does_not_depend_on_sizes():
    def texts(count, size):
        sizes = [shape("float32", size + i % 50, 7) for i in range(count)]
        kernels = [emit(g) for g in plan(clipped, sizes).groups if isinstance(g, Batch)]
        return [k.text for k in kernels]

    assert texts(10, 3) == texts(200, 10**5) and len(texts(10, 3)) == 2


def test_reductions_that_wait_for_one_another_are_as_before():
    def powers(a, x):
        for _ in range(6):
            x = a * x
            x = x / gnp.sqrt(gnp.sum(x * x))
        return x

    x = shape("float32", 1 << 12)
    assert not any(isinstance(g, Batch) for g in plan(powers, x, x).groups)
    assert len(plan(powers, x, x).groups) <= 6


def test_lengths_of_many_arrays_are_three_launches():
    arrays = [shape("float32", 512, 64 + i % 50) for i in range(218)]
    assert ga.explain(lengths, platform="cuda")(arrays).launches == 3


@pytest.mark.parametrize("count", [100, 481, 1000])
@pytest.mark.parametrize("together", [gnp.stack, sum])
def test_arrays_of_one_shape_are_reduced_in_blocks_of_their_own(count, together):
    """Not in those of one array, each of which would go over the others as well: they would keep
    an address of each in registers, and most of the machine idle.
    """
    arrays = [shape("float32", 64, 65)] * count
    e = ga.explain(lambda xs: together([gnp.linalg.norm(x) for x in xs]), platform="cuda")(arrays)
    assert min(float(k.facts["grade"]) for k in e.kernels) > 0.75
    assert e.launches <= 2 + count // 100
    assert e.bytes_moved < 1.01 * count * 4 * arrays[0].size


def test_places_are_one_launch():
    """They count from the beginning of each array, in whichever tile they are."""
    arrays = [shape("float32", 50 + i, 900) for i in range(8)]
    (group,) = plan(lambda xs: [gnp.argmax(x) for x in xs], arrays).groups
    assert isinstance(group, Batch)


# ---- what they compute ----


def sgd(params, grads, rate):
    return [p - rate * g for p, g in zip(params, grads, strict=True)]


def clipped(gradients):
    """Gradients whose common length is 1 at most."""
    length = gnp.sqrt(sum(gnp.sum(g**2) for g in gradients))
    return [g * gnp.minimum(1, 1 / length).astype(g.dtype) for g in gradients], length


def lars(params, grads):
    """Each step as long as its array, relative to the gradient."""

    def update(p, g):
        return p - 0.1 * gnp.sqrt(gnp.sum(p * p)) / (gnp.sqrt(gnp.sum(g * g)) + 1) * g

    return [update(*x) for x in zip(params, grads, strict=True)]


def lamb(params, grads, first, second):
    """The same for Adam, whose updates are computed where they are read."""

    def update(p, g, m, v):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        u = m / (gnp.sqrt(v) + 1e-6) + 0.01 * p
        return p - 0.1 * gnp.sqrt(gnp.sum(p * p) / gnp.sum(u * u)) * u, m, v

    return [update(*x) for x in zip(params, grads, first, second, strict=True)]


def finite(gradients):
    """Gradients, or zeros if a number of any of them is none."""
    good = functools.reduce(gnp.logical_and, [gnp.all(gnp.isfinite(g)) for g in gradients])
    return [gnp.where(good, g, 0) for g in gradients]


def both(xs):
    """Two folds of each array, one of them of pairs, and its elements."""
    ys = [x * 3 - 1 for x in xs]
    return ys, [ga.nn.logsumexp(y) + gnp.max(y) for y in ys]


def mixed(xs):
    """Integers, halves, booleans, and results that are results of others."""
    ys = [x + 1 for x in xs]
    return ys, [lax.select(y > 2, y, -y) for y in ys]


def places(xs):
    """Where the largest and the smallest lie, the first of equal ones; of whole arrays."""
    return [(gnp.argmax(x), gnp.argmin(x) + 1) for x in xs]


def by_function(xs):
    """Folds by a function of two numbers each: the larger, and what lies beside it."""

    def larger(p, q):
        mine = (p[0] > q[0]) | ((p[0] == q[0]) & (p[1] > q[1]))
        return gnp.where(mine, p[0], q[0]), gnp.where(mine, p[1], q[1])

    start = np.float32(-99), np.float32(0)
    return [lax.reduce((x, x * x + 1), start, larger, tuple(range(x.ndim))) for x in xs]


def lengths(xs):
    """The common length, as optimisers compute it: by that of each array."""
    each = gnp.stack([gnp.linalg.norm(x) for x in xs])
    return each, gnp.linalg.norm(each)


def tied(n: int, dtype: str = "float32") -> np.ndarray:
    """Extremes in several places, in the first and the last tile."""
    x = np.round(numbers(n, dtype="float32") * 9)
    x[[n // 3, n - 1]] = 11
    x[[n // 2, n - 2]] = -11
    return x.astype(dtype)


def parts_of(dtype: str, lengths):
    return [numbers(n, dtype=dtype) for n in lengths]


PROGRAMS = {
    "adam": (adam, (*([numbers(*s) + k for s in SIZES] for k in range(4)), np.float32(3))),
    "sgd": (sgd, (*(parts_of("float32", (5, TILE, TILE + 1, 3 * TILE, 1)),) * 2, np.float32(0.5))),
    "bfloat16": (sgd, (*(parts_of("bfloat16", (5, 70, 900, 31)),) * 2, np.float32(0.5))),
    "float16": (sgd, (*(parts_of("float16", (5, 70, 900, TILE, 31)),) * 2, np.float16(0.5))),
    "clipped": (clipped, (parts_of("float32", (5, 3, 7 * TILE + 3, TILE, 1, 70, 4096)),)),
    "clipped in 16 bits": (clipped, (parts_of("bfloat16", (5, 70, 9 * TILE + 1, 31, 2)),)),
    "lengths of each": (lars, (*([numbers(*s) for s in SIZES],) * 2,)),
    "lengths of updates": (lamb, (*([numbers(*s) + k for s in SIZES] for k in range(4)),)),
    "all finite": (finite, ([numbers(*s) for s in SIZES],)),
    "folds of pairs": (both, ([numbers(*s) for s in SIZES if s],)),
    "places": (places, ([*map(tied, (5, TILE, 7 * TILE + 3)), tied(90).reshape(9, 10)],)),
    "places of integers": (places, ([tied(n, "int32") for n in (5, 70, 9 * TILE + 1, 31)],)),
    "by a function": (by_function, ([numbers(*s) for s in SIZES if s],)),
    "lengths, stacked": (lengths, ([numbers(2 + k % 7, 3) for k in range(100)],)),
    "mixed": (mixed, ([np.arange(n, dtype=np.int32) for n in (5, 9, 33, 70, 2000)],)),
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_computes_what_the_groups_do(name):
    simulated.need_compiler()
    function, arguments = PROGRAMS[name]
    whole = ga.jit(function).lower(*arguments).plan
    assert any(isinstance(g, Batch) for g in whole.on_device.groups)
    with strict(True):
        run = simulator.build(whole, [np.asarray(c) for c in whole.graph.consts])
    expected = ga.tree.leaves(ga.jit(function)(*arguments))
    for seed in (1, 2):
        with simulator.order_drawn_from(seed):
            found = host.local.run(run, *ga.tree.leaves(arguments))
        for f, e in zip(found, map(np.asarray, expected), strict=True):
            assert (f.shape, f.dtype) == (e.shape, e.dtype)
            np.testing.assert_allclose(f.astype("float64"), e.astype("float64"), 1e-6)


@nvrtc.needed
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_kernels_assemble(arch):
    plans = [plan(function, *arguments) for function, arguments in PROGRAMS.values()]
    for used in nvrtc.resources([emit(g) for p in plans for g in p.groups], arch):
        assert used.spills == 0 and used.registers <= 64


def test_tiles_cover_every_element_once():
    sizes = [1, TILE, TILE + 1, 5, 10 * TILE - 3]
    rows = tiles_of(sizes, TILE)
    assert rows.dtype == np.uint32 and rows[:, 2].max() <= TILE
    for k, n in enumerate(sizes):
        mine = rows[rows[:, 0] == k]
        assert mine[:, 2].sum() == n
        assert np.array_equal(np.cumsum(mine[:, 2])[:-1], mine[1:, 1])


def test_the_table_names_arrays_part_by_part():
    (group,) = [g for g in plan(sgd, *PROGRAMS["sgd"][1]).groups if isinstance(g, Batch)]
    kernel = emit(group)
    assert len(kernel.table) == len(group.parts) * 4 and kernel.tiles is not None
    assert set(kernel.table) == {*kernel.inputs, *kernel.outputs}
    assert kernel.schedule.grid == len(kernel.tiles)
    assert golden.kernels("saxpy")[0].table == []


def test_small_eager_work_is_one_program_and_one_launch_on_a_device():
    """Without `jit`, little work waits for more where a launch costs as much as it does."""
    (device,) = ga.devices("simulator")
    xs = [ga.device_put(np.full(3 + i % 5, i, np.float32), device) for i in range(300)]
    before = cache._executables.values()
    ys = [x * 2 + 1 for x in xs]  # 600 operations
    assert np.array_equal(np.asarray(ys[299]), np.full(3 + 299 % 5, 599, np.float32))
    (made,) = [e for e in cache._executables.values() if e not in before]
    device_plan = made.plan.on_device
    assert [g.name for g in device_plan.groups] == ["k0_batch"]
