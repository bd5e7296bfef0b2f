"""What moves data on a GPU: kernels of its own, or index maps inside the kernels that read it.

In: the samples of every primitive that is neither pointwise nor a reduction, and programs. Out:
their kernels run on the simulator, in several orders of threads, with the results of the NumPy
driver; and plans with as few steps as there should be.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.backends import simulator
from gpuarray.backends.numpy import program as host
from gpuarray.compiler.cuda.emit import emit
from gpuarray.compiler.explain.source import emitted
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.config import config, strict
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.index import contiguous_offset
from gpuarray.core.primitive import Kind, registry
from tests.golden import shape
from tests.samples import Sample, samples, values
from tests.support import kernels, simulated
from tests.support.nearness import SUMS, assert_near, terms_of, ulps

simulated.need_compiler()

#: Half units in the last place by which results may differ, those of sums of the sizes of their
#: terms: sums in another order, and logarithms of logarithms.
LIMITS = dict.fromkeys(SUMS, 64) | dict.fromkeys(
    ("cumprod", "cumlogsumexp", "associative_scan"), 16
)
LIMITS |= {"random_gamma": 64}
#: What has no type in CUDA text.
FOREIGN = ("float8_e4m3fn", "float8_e5m2", "int4")
#: Kinds whose samples are run elsewhere.
ELSEWHERE = (Kind.POINTWISE, Kind.REDUCTION)


def graph_of(sample: Sample) -> Graph:
    """One call of a primitive."""
    ins = [Var(a) for a in sample.avals]
    outs = [Var(a) for a in sample.primitive.out_avals(sample.avals, sample.params)]
    return Graph(ins, outs, [Eqn(sample.primitive, ins, outs, sample.params)])


def typed(sample: Sample) -> bool:
    return not any(name in FOREIGN for _, name in sample.operands)


CHOSEN = [
    s
    for s in samples(lambda p: kernels.has_kernel(p) and p.kind not in ELSEWHERE)
    if s.primitive.name != "empty" and typed(s)
]


def library_steps(graph: Graph) -> list[str]:
    """The steps of a plan that are no kernels, by name."""
    return simulator.on_host(plan_graph(graph))


# ---- every primitive ----


def test_what_has_no_kernel_is_a_library_step_by_design():
    found: dict[str, set[bool]] = {}
    for s in samples(lambda p: p.kind not in (Kind.CALL, Kind.COLLECTIVE)):
        if typed(s) and all(a.size for a in s.primitive.out_avals(s.avals, s.params)):
            with ga.enable_x64(s.wide):
                found.setdefault(s.primitive.name, set()).add(not library_steps(graph_of(s)))
    assert {n for n, seen in found.items() if True not in seen} == kernels.LIBRARY & set(found)
    # `rbg` keys of the unsafe kind are split and mixed on the host; large products are a library's.
    mixed = {n for n, seen in found.items() if len(seen) == 2}
    assert mixed <= {"reduce", "reduce_window", "dot_general", "conv_general_dilated"}


@pytest.fixture(scope="module")
def compiled():
    """The samples as functions, all made before any is compiled."""
    made = {}
    for s in CHOSEN:
        with ga.enable_x64(s.wide), strict(True):
            made[str(s)] = simulated.built(graph_of(s))
    return made


@pytest.mark.parametrize("name", list(dict.fromkeys(s.primitive.name for s in CHOSEN)))
def test_primitive(name, compiled):
    for s in (s for s in CHOSEN if s.primitive.name == name):
        rule = s.primitive.numpy_function(s.avals, s.params)
        with ga.enable_x64(s.wide):
            expected = host.local.run(rule, *values(s))
            listed = expected if s.primitive.multiple_results else [expected]
            for seed in simulated.SEEDS:
                found = simulated.run(compiled[str(s)], values(s), seed)
                for f, e, t in zip(found, map(np.asarray, listed), terms_of(s), strict=True):
                    distance = ulps(f, e, t)
                    assert distance <= LIMITS.get(name, 0), f"{s}: got\n{f}\nexpected\n{e}"


# ---- one kernel each ----


def padded(x):
    p = gnp.pad(x, 1)
    return 0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]) - x


def floats(*lengths: int, dtype: str = "float32") -> np.ndarray:
    made = np.random.default_rng(lengths).standard_normal(lengths)
    return made.astype(getattr(gnp, dtype))


def indices(end: int, *lengths: int) -> np.ndarray:
    """Some of them negative, some beyond the end."""
    return np.random.default_rng(end).integers(-end - 2, end + 2, lengths).astype(np.int32)


def some_of(end: int, count: int) -> np.ndarray:
    """Distinct indices."""
    return np.random.default_rng(end).permutation(end)[:count].astype(np.int32)


AT = np.int32(3)
# name: (function, arguments)
ONE_KERNEL = {
    "stencil": (padded, (floats(20, 22),)),
    "concatenate": (lambda a, b: gnp.concatenate([a, b]) * 2 + 1, (floats(40), floats(60))),
    "concatenate, vectors": (lambda a, b: gnp.concatenate([a, b]), (floats(3, 8), floats(5, 8))),
    "concatenate, many": (
        lambda *xs: gnp.concatenate(xs, 1) + 1,
        tuple(floats(2, n) for n in range(1, 12)),
    ),
    "of computed": (lambda a, b: gnp.concatenate([a * 2, b]) - 1, (floats(40), floats(60))),
    "stack": (lambda a, b: gnp.stack([a, b], 1) * a[:, None], (floats(12), floats(12) + 1)),
    "tile": (lambda a: gnp.tile(a, (2, 3)) + 1, (floats(5, 7),)),
    "roll": (lambda x: gnp.roll(x, 3, 0), (floats(17, 4),)),
    "gather": (
        lambda x, i, w, b: x[i] * w + b,
        (floats(50, 16), indices(50, 9), floats(16), floats(16)),
    ),
    "gather, odd": (lambda x, i: x[i] + 1, (floats(50, 15), indices(50, 9))),
    "gather, filled": (
        lambda x, i: x.at[i].get(mode="fill", fill_value=-1.0) * 2,
        (floats(50, 16), indices(50, 9)),
    ),
    "gather, clipped": (lambda x, i: x.at[i].get(mode="clip"), (floats(50), indices(50, 9))),
    "gather, promised": (
        lambda x, i: x.at[i].get(mode="promise_in_bounds") + 1,
        (floats(50), np.abs(indices(40, 9)) % 40),
    ),
    "gather, points": (
        lambda x, i, j: x[i, j] * 2,
        (floats(9, 8), indices(9, 30), indices(8, 30)),
    ),
    "gather, bfloat16": (lambda x, i: x[i] * 2, (floats(50, 8, dtype="bfloat16"), indices(50, 9))),
    "gather of a gather": (
        lambda x, i, j: x[i[j]] + 1,
        (floats(50), indices(50, 9), indices(9, 4)),
    ),
    "two gathers, one index": (
        lambda x, y, i: x[i] * y[i],
        (floats(50, 8), floats(50, 8) + 1, indices(50, 9)),
    ),
    "gather and sum": (lambda x, i: gnp.sum(x[i], 1), (floats(50, 64), indices(50, 9))),
    "gather and softmax": (lambda x, i: nn.softmax(x[i]), (floats(50, 64), indices(50, 9))),
    "gather and softmax, odd": (lambda x, i: nn.softmax(x[i]), (floats(50, 63), indices(50, 9))),
    "pad and sum": (lambda x: gnp.sum(gnp.pad(x, 2), 0), (floats(30, 33),)),
    "set": (lambda x, i, v: x.at[i].set(v) * 2, (floats(30), AT, np.float32(7))),
    "set, alone": (lambda x, i, v: x.at[i].set(v), (floats(30, 4), AT, floats(4))),
    "add, few": (lambda x, i, v: x.at[i].add(v), (floats(5), indices(5, 7), floats(7))),
    "dynamic_slice": (
        lambda x, i: lax.dynamic_slice(x, (i, 0), (4, 8)) * 2,
        (floats(20, 8), np.int32(18)),
    ),
    "dynamic_update_slice": (
        lambda x, u, i: lax.dynamic_update_slice(x, u * 2, (i, 1)) + 1,
        (floats(20, 8), floats(3, 4), np.int32(-2)),
    ),
    "max pool": (
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (3, 3), (2, 2), "SAME") * 2,
        (floats(13, 12),),
    ),
    "search": (lambda a, v: gnp.searchsorted(a, v) + 1, (np.sort(floats(20)), floats(31))),
    "keys": (
        lambda k: ga.random.uniform(ga.random.fold_in(ga.random.wrap_key_data(k), 3), (40,)),
        (np.array([1, 2], np.uint32),),
    ),
    "cumsum": (lambda x: gnp.cumsum(x * 2, 1), (floats(7, 50),)),
    "transposed and kept": (lambda x: gnp.transpose(x[:, ::-1]), (floats(33, 40),)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(ONE_KERNEL))
def test_is_one_kernel(name):
    function, arguments = ONE_KERNEL[name]
    with strict(True):
        (step,) = ga.jit(function).lower(*arguments).plan.device_steps
    assert isinstance(step, Kernel)
    limit = 256 if "sum" in name or "softmax" in name else 0
    simulated.compare([(function, arguments)], limit)


#: Scans and scatters at sizes that take each of their ways.
WAYS = {
    "rows, several a block": (lambda x: gnp.cumsum(x, 1), (floats(101, 12),)),
    "rows, a warp": (lambda x: gnp.cumsum(x, 1), (floats(7, 33),)),
    "rows, vectors": (lambda x: lax.cummax(x, 1), (floats(3, 5000),)),
    "rows, from the end": (lambda x: lax.cumsum(x, 1, reverse=True), (floats(5, 701),)),
    "rows, in pieces": (lambda x: gnp.cumsum(x + 1), (floats(40001),)),
    "rows, in pieces from the end": (lambda x: lax.cummin(x, 1, reverse=True), (floats(2, 40000),)),
    "rows, integers": (lambda x: gnp.cumsum(x), (np.arange(30000, dtype=np.int32),)),
    "rows, complex": (lambda x: lax.cumsum(x, 0), (floats(9000, 2).view(np.complex64)[:, 0],)),
    "rows, log of sums": (lambda x: lax.cumlogsumexp(x, 0), (floats(30000),)),
    "columns": (lambda x: gnp.cumsum(x, 0), (floats(50, 70),)),
    "columns, in pieces": (lambda x: lax.cumsum(x, 0, reverse=True), (floats(5000, 3),)),
    "columns, in the middle": (lambda x: lax.cumprod(x, 1), (1 + floats(5, 40, 6) / 10,)),
    "scan of a padded array": (
        lambda x: gnp.cumsum(gnp.pad(x, 2, constant_values=1.0)),
        (floats(20),),
    ),
    "scan of a gather": (lambda x, i: lax.cumsum(x[i], 1), (floats(50, 40), indices(50, 20))),
    "sort": (lambda x: gnp.sort(x, 1), (floats(7, 50),)),
    "sort, several a block": (lambda x: gnp.sort(x[:, ::-1] * 2, 1), (floats(33, 5),)),
    "sort columns": (lambda x: gnp.argsort(x, 0), (indices(9, 40, 6),)),
    "sort, long": (lambda x: gnp.sort(x), (floats(3000),)),
    "sort by two keys": (
        lambda a, b, c: lax.sort((a, b, c), num_keys=2),
        (indices(3, 4, 100), indices(3, 4, 100) // 2, floats(4, 100)),
    ),
    "sort, special": (
        lambda x: gnp.sort(x),
        (np.array([np.nan, 1, -0.0, 0.0, np.inf, -np.inf, np.nan, -2], np.float32),),
    ),
    "top_k": (lambda x: lax.top_k(x, 5), (floats(6, 1000),)),
    "top_k, bfloat16": (lambda x: lax.top_k(x, 3), (floats(6, 40, dtype="bfloat16"),)),
    "top_k, special": (
        lambda x: lax.top_k(x, 8),
        (np.array([np.nan, 1, -0.0, 0.0, np.inf, -np.inf, np.nan, -2], np.float32),),
    ),
    "top_k, integers": (lambda x: lax.top_k(x, 4), (indices(3, 5, 20),)),
    "add, sorted": (
        lambda x, i, v: x.at[i].add(v),
        (floats(20, 8), indices(20, 100), floats(100, 8)),
    ),
    "add, dropped": (
        lambda x, i, v: x.at[i].add(v, mode="drop"),
        (floats(20, 8), indices(20, 100), floats(100, 8)),
    ),
    "add, clipped": (
        lambda x, i, v: x.at[i].add(v, mode="clip"),
        (floats(20, 8), indices(20, 100), floats(100, 8)),
    ),
    "set, the last one wins": (
        lambda x, i, v: x.at[i].set(v),
        (floats(20, 8), indices(20, 100), floats(100, 8)),
    ),
    "add to columns": (
        lambda x, i, v: x.at[:, i].add(v),
        (floats(9, 20), indices(20, 50), floats(9, 50)),
    ),
    "add to windows": (
        lambda x, i, v: lax.scatter_add(
            x, i, v, lax.ScatterDimensionNumbers((1, 2), (), (0, 1))
        ),
        (floats(12, 9), indices(12, 40, 2), floats(40, 2, 3)),
    ),
    "max, sorted": (lambda x, i, v: x.at[i].max(v), (floats(30), indices(30, 500), floats(500))),
    "mul, bfloat16": (
        lambda x, i, v: x.at[i].mul(v),
        (floats(30, dtype="bfloat16"), indices(30, 99), floats(99, dtype="bfloat16")),
    ),
    "apply": (lambda x, i: x.at[i].apply(gnp.abs), (floats(30), indices(30, 20))),
    "add, integers": (lambda x, i: x.at[i].add(1), (np.zeros(30, np.int32), indices(30, 900))),
    "max, integers": (
        lambda x, i, v: x.at[i].max(v),
        (np.zeros(30, np.int32), indices(30, 900), indices(99, 900)),
    ),
    "set, unique": (
        lambda x, i, v: x.at[i].set(v, unique_indices=True),
        (floats(200, 8), some_of(200, 50), floats(50, 8)),
    ),
    "mul, unique, bfloat16": (
        lambda x, i, v: x.at[i].mul(v, unique_indices=True),
        (
            floats(200, dtype="bfloat16"),
            some_of(200, 50),
            floats(50, dtype="bfloat16"),
        ),
    ),
    "a large array, a small part": (
        lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 0)),
        (floats(300, 100), floats(4, 100), AT),
    ),
    "a row of a large array": (
        lambda x, i, v: x.at[i].set(v),
        (floats(300, 100), -AT, floats(100)),
    ),
    "an update from itself": (lambda x, i: x.at[i].add(x[0]), (floats(300, 100), AT)),
    "gradient of a lookup": (
        lambda w, i: ga.grad(lambda w: gnp.sum(gnp.sin(w[i])))(w),
        (floats(20, 16), indices(20, 64)),
    ),
    "bincount": (lambda i: gnp.bincount(i, length=10), (np.abs(indices(9, 500)),)),
    "segment_sum": (
        lambda x, i: ga.ops.segment_sum(x, i, 7),
        (floats(100, 3), np.sort(np.abs(indices(6, 100)) % 7)),
    ),
}  # fmt: skip
#: Those that add in another order than NumPy, or take functions of the C library.
APPROXIMATE = ("rows", "columns", "scan", "gradient", "add,", "segment_sum")


@pytest.mark.parametrize("name", list(WAYS))
def test_way(name):
    function, arguments = WAYS[name]
    lowered = ga.jit(function).lower(*arguments)
    assert set(library_steps(lowered.jaxpr)) <= {"sort"}
    if not name.startswith(APPROXIMATE):
        simulated.compare([(function, arguments)])
        return
    with strict(True):
        made = simulated.built(lowered.jaxpr)
    first = simulated.run(made, arguments, 1)
    for f, e in zip(first, ga.tree.leaves(ga.jit(function)(*arguments)), strict=True):
        assert_near(f, np.asarray(e))
    for seed in simulated.SEEDS[1:]:
        for f, again in zip(first, simulated.run(made, arguments, seed), strict=True):
            assert f.tobytes() == again.tobytes()


# ---- how many steps ----


def names(function, *arguments) -> list[str]:
    """The steps of a function on a GPU: operations of library calls and copies, else forms."""
    steps = ga.jit(function).lower(*arguments).plan.device_steps
    found = []
    for step in steps:
        eqn = step if isinstance(step, Eqn) else step.group.copy_of
        found.append(step.form if eqn is None else eqn.primitive.name)
    return found


def test_views_that_are_memory_as_it_lies_stay_views():
    def f(x):
        return x.reshape(6, 4), x[2:4], gnp.squeeze(x[1:2], 0), gnp.split(x, 3)[1]

    steps = ga.jit(f).lower(shape("float32", 6, 2, 2)).plan.device_steps
    views = [s for s in steps if isinstance(s, Eqn)]
    assert len(views) == len(steps)
    assert all(v.primitive.kind is Kind.VIEW and len(v.outvars) == 1 for v in views)
    offsets = {v.outvars[0].aval.shape: contiguous_offset(v) for v in views}
    assert offsets == {(6, 4): 0, (2, 2, 2): 8, (1, 2, 2): 4, (2, 2): 0}


def test_views_that_are_not_are_copied():
    steps = names(lambda x: (x.T, x[:, 1:], x @ x[:, ::2]), shape("float32", 4, 4))
    assert steps == ["transpose", "slice", "slice", "dot_general"] or sorted(steps) == sorted(
        ["slice", "dot_general", "transpose", "slice"]
    )


def test_a_value_that_must_exist_is_read_from_memory():
    def f(a, b):
        both = gnp.concatenate([a, b])
        return both, both * 2

    assert names(f, shape("float32", 8), shape("float32", 8)) == ["concatenate", "map"]


def test_what_is_dear_is_not_made_again_and_again():
    def around(x):
        p = gnp.pad(gnp.sin(x) ** 3 / x, 1)
        return p[:-2] + p[1:-1] + p[2:] + p[2:] * 2

    large = shape("float32", 1_000_000)
    assert names(around, large) == ["pad", "map"]
    assert names(around, shape("float32", 1000)) == ["map"]  # a launch would take longer
    assert names(lambda x: gnp.pad(gnp.sin(x) ** 3 / x, 1), large) == ["pad"]


def test_gathered_rows_that_many_read_are_gathered_once():
    def f(x, i):
        rows = x[i]
        return rows[:, None] * rows[None]

    assert len(names(f, shape("float32", 5000), shape("int32", 30_000))) == 2


def test_many_arrays_side_by_side_take_several_kernels():
    for function in (gnp.concatenate, gnp.stack):
        arrays = [floats(3, 2) + i for i in range(150)]
        steps = ga.jit(lambda *xs, f=function: f(xs)).lower(*arrays).plan.device_steps
        assert all(not isinstance(s, Eqn) and len(s.inputs) <= 96 for s in steps)
        simulated.compare([(lambda *xs, f=function: f(xs), tuple(arrays))])


def test_sums_down_gathered_columns_read_along_them():
    lowered = ga.jit(lambda x, i: gnp.sum(x[i], 0)).lower(
        shape("float32", 500, 256), shape("int32", 4096)
    )
    (kernel,) = [k for _, k in emitted(lowered.plan) if k]
    assert kernel.kernel.form == "columns"


def test_without_fusion_each_movement_is_a_kernel():
    def f(a, b):
        return gnp.pad(gnp.concatenate([a, b]), 1) * 2

    with ga.fusion(False):
        assert len(names(f, shape("float32", 8), shape("float32", 8))) == 3
    assert len(names(f, shape("float32", 8), shape("float32", 8))) == 1


def test_an_update_in_place_says_what_it_begins_as():
    lowered = ga.jit(lambda x, u: lax.dynamic_update_slice(x, u, (3, 0))).lower(
        shape("float32", 300, 100), shape("float32", 4, 100)
    )
    (group,) = lowered.plan.device_steps
    kernel = emit(group)
    x, u = lowered.plan.graph.invars
    (out,) = kernel.outputs
    assert kernel.kernel.aliases == {out: x}
    assert kernel.inputs == [u] and set(group.inputs) == {x, u}


def test_sums_of_floats_take_atomics_only_where_that_is_asked_for():
    def f(x, i, v):
        return x.at[i].add(v)

    arguments = floats(20, 8), indices(20, 100), np.ones((100, 8), np.float32)
    assert names(f, *arguments) == ["tables", "map"]
    config.update("scatter_atomics", True)
    assert names(f, *arguments) == ["scatter"]
    kernels_made = (k for _, k in emitted(ga.jit(f).lower(*arguments).plan))
    (text,) = [k.text for k in kernels_made if k and k.kernel.aliases]
    assert "ga_atomic_add(out0" in text


def test_explain_says_what_a_kernel_moves():
    def f(x, i, w):
        return x[i] * w

    lookup = shape("float32", 50, 16), shape("int32", 9), shape("float32", 16)
    (kernel,) = ga.explain(f, platform="cuda")(*lookup).kernels
    assert kernel.ops == ("lt", "add", "select_n", "gather", "mul")
    assert len(kernel.inputs) == 3 and "ga_clip(" in kernel.source
    (moved,) = ga.explain(lambda x: gnp.roll(x, 2), platform="cuda")(shape("float32", 50)).kernels
    assert moved.ops == ("concatenate",) and moved.name == "k0_map"


def test_registered_primitives_with_kernels_have_samples():
    sampled = {s.primitive.name for s in CHOSEN}
    wanted = {n for n, p in registry.items() if kernels.has_kernel(p) and p.kind not in ELSEWHERE}
    assert wanted - sampled <= {"empty"}


def test_an_update_of_one_element_is_a_kernel():
    x = np.arange(6, dtype=np.float32)
    with strict(True), ga.default_device(ga.devices("simulator")[0]):
        got = ga.jit(lambda v: v.at[2].set(-1.0).at[4].add(1.0))(gnp.asarray(x))
        np.testing.assert_array_equal(got, [0, 1, -1, 3, 5, 5])
        whole = ga.jit(lambda v: v.at[()].set(3.0))(gnp.float32(1))
        assert float(whole) == 3.0


# ---- what the transforms of all primitives found ----


def columns_searched(x, q):
    """A search reads on from an address: what it searches in must lie there as it is."""
    merged = gnp.concatenate([x[:, 0], x[:, 0] + 100])
    return (
        ga.vmap(gnp.searchsorted, in_axes=(1, None))(x, q),
        gnp.searchsorted(x[:, 1], q) * 2,
        gnp.searchsorted(gnp.sort(x.T.reshape(-1))[3:], q),
        gnp.searchsorted(merged, q) + q,
    )


def beside_nothing(x, y):
    """An empty result takes none of the others along."""
    return gnp.sin(y), x + gnp.sin(y)


def test_searches_and_empty_neighbours():
    sorted_columns = np.sort(np.random.default_rng(0).integers(0, 99, (6, 4)), 0)
    queries = np.arange(0, 99, 7).astype(np.float32)
    empty = np.zeros((0, 3), np.float32)
    simulated.compare([(columns_searched, (sorted_columns.astype(np.float32), queries))])
    simulated.compare([(beside_nothing, (empty, np.ones(3, np.float32)))], 8)
