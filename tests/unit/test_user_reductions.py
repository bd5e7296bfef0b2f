"""Reductions defined by a user: elements that are lifted, results that are finished, wide states.

In: definitions that no built-in reduction has, over shapes on both sides of every threshold. Out:
eager, jit and the simulator agree with NumPy.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.compiler.cuda import emit
from gpuarray.compiler.cuda.schedule import schedule_columns
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.compiler.target import TARGET
from gpuarray.compiler.text.expressions import Reducer
from gpuarray.core.primitive import MOST_STATE, Combine, Kind, registry, state_bytes
from gpuarray.primitives.define import reduction
from tests import simulated


def _define(name, numpy, cuda, combine=None, **rules):
    return reduction(name, numpy=numpy, cuda=cuda, combine=combine, register=False, **rules)


def _positions(x, axes):
    """The position of each element in its row, over the axes that go, the last the fastest."""
    shape = [x.shape[d] if d in axes else 1 for d in range(x.ndim)]
    return np.arange(int(np.prod(shape))).reshape(shape)


def _spread(x, axes):
    x = np.asarray(x, np.float64)
    if 0 in [x.shape[a] for a in axes]:
        return np.zeros([n for d, n in enumerate(x.shape) if d not in axes])
    return x.max(axes) - x.min(axes) + x.sum(axes)


def _wide(count: int) -> Combine:
    """Largest, smallest, and `count` - 2 numbers more, each of which is the sum."""

    def of(parts: list[str]) -> str:
        if len(parts) == 1:
            return parts[0]
        half = len(parts) // 2
        return f"{state(len(parts))}{{{{{of(parts[:half])}, {of(parts[half:])}}}}}"

    def state(n: int) -> str:
        return "double" if n == 1 else f"ga_complex<{state(n // 2)}>"

    def part(of: str, k: int, n: int) -> str:
        if n == 1:
            return of
        return part(f"{of}.im" if 2 * k >= n else f"{of}.re", k % (n // 2), n // 2)

    def parts(of: str) -> list[str]:
        return [part(of, k, count) for k in range(count)]

    (p0, p1, *p), (q0, q1, *q) = parts("p"), parts("q")
    merged = [f"ga_max({p0}, {q0})", f"ga_min({p1}, {q1})", *map("{} + {}".format, p, q)]
    largest, smallest, *_, last = parts("{0}")
    kind = state(count)
    return Combine(
        of(["-GA_INF", "GA_INF", *["0.0"] * (count - 2)]),
        f"[]({kind} p, {kind} q) -> {kind} {{{{ return {of(merged)}; }}}}({{0}}, {{1}})",
        state=kind,
        lift=of(["(double){0}"] * count),
        finish=f"({{T}})({largest} < {smallest} ? 0.0 : {largest} - {smallest} + {last})",
    )


ADD = "{0} + {1}"
SQUARES = _define(
    "sum_of_squares",
    lambda x, axes: np.add.reduce(x * x, axis=axes),
    Combine("{ZERO}", ADD, lift="{0} * {0}"),
    combine=np.add,
)
#: The same without a CUDA rule: nobody can tell that it is no plain sum but by not guessing.
UNWRITTEN = _define("sum_of_squares_here", SQUARES.numpy, None, combine=np.add)
LARGEST_SQUARE = _define(
    "largest_square",
    lambda x, axes: np.maximum.reduce(x * x, axis=axes, initial=0),
    Combine("{ZERO}", "ga_max({0}, {1})", lift="{0} * {0}"),
    combine=np.maximum,
)
NORM = _define(
    "norm",
    lambda x, axes: np.sqrt(np.add.reduce(x.astype(np.float64) ** 2, axis=axes)).astype(x.dtype),
    Combine("0.0", ADD, state="double", lift="(double){0} * {0}", finish="({T})sqrt({0})"),
)
TWICE = _define(
    "twice_the_sum",
    lambda x, axes: np.add.reduce(x, axis=axes) * np.float32(2),
    Combine("{ZERO}", ADD, finish="{0} * 2"),
)
PLACED = _define(
    "sum_by_position",
    lambda x, axes: (x * (_positions(x, axes) % 997)).sum(axes, np.float64).astype(x.dtype),
    Combine("0.0", ADD, state="double", lift="(double){0} * ({1} % 997u)", finish="({T})({0})"),
)
COUNT = _define(
    "count_positive",
    lambda x, axes: np.sum(x > 0, axis=axes, dtype=np.int32),
    Combine("0", ADD, state="int", lift="({0} > 0 ? 1 : 0)"),
    combine=np.add,
    result=lambda dtype: np.dtype("int32"),
)
WIDE = {
    count: _define(
        f"spread_{count}", lambda x, axes: _spread(x, axes).astype(x.dtype), _wide(count)
    )
    for count in (4, 16)
}
ALL = (SQUARES, LARGEST_SQUARE, NORM, TWICE, PLACED, COUNT, *WIDE.values())

#: Shapes and axes on both sides of the thresholds of each form: none and one element, axes of
#: length 1, short vectors, parts of a warp, a warp, a block, registers, several blocks a row, down
#: columns, several blocks a column, several axes.
LADDER = [
    ((0,), (0,)), ((1,), (0,)), ((0, 3), (0,)), ((3, 0), (0,)), ((3, 0), (1,)), ((4,), ()),
    ((1, 3), (0,)), ((3, 1), (1,)), ((1, 1), (0, 1)), ((3000, 3), (1,)), ((3000, 3), (0,)),
    ((2000, 4), (0, 1)), ((5, 31), (1,)), ((5, 33), (1,)), ((300, 130), (1,)), ((3, 5000), (1,)),
    ((2, 9000), (1,)), ((70_000,), (0,)), ((31, 40), (0,)), ((400, 33), (0,)), ((5000, 4), (0,)),
    ((7, 20, 30), (0, 2)), ((7, 20, 30), (1, 2)), ((7, 20, 30), (0, 1)),
]  # fmt: skip


def _numbers(shape) -> np.ndarray:
    """Small whole numbers, whose sums are exact in any order, and different along every axis."""
    return ((np.arange(np.prod(shape, dtype=int)) * 7) % 11 - 5).reshape(shape).astype("f")


def _each(primitives, axes):
    return lambda x: [p.bind(x, axes=axes) for p in primitives]


def _same(got, wanted):
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(g), w, rtol=2e-7)


@pytest.mark.parametrize(("shape", "axes"), LADDER, ids=str)
def test_eager_and_jit(shape, axes):
    x = _numbers(shape)
    wanted = [p.numpy(x + 1, axes=axes) for p in (*ALL, UNWRITTEN)]
    both = _each((*ALL, UNWRITTEN), axes)
    _same(both(gnp.asarray(x) + 1), wanted)
    _same(ga.jit(lambda x: both(x + 1))(x), wanted)


@pytest.mark.parametrize(("shape", "axes"), LADDER, ids=str)
def test_simulator(shape, axes):
    simulated.need_compiler()
    x = _numbers(shape)
    wanted = [p.numpy(x + 1, axes=axes) for p in ALL]
    with ga.default_device("simulator"):
        got = ga.jit(lambda x: _each(ALL, axes)(x + 1))(x)
    _same(got, wanted)


@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (0, 2), (1,)], ids=str)
def test_positions_of_what_lies_otherwise(axes):
    """Positions are those in the operand, in whatever order its elements are in memory."""
    simulated.need_compiler()
    x = _numbers((13, 40, 70))
    both = lambda x: PLACED.bind(x.transpose(2, 0, 1) + 1, axes=axes)
    wanted = PLACED.numpy(x.transpose(2, 0, 1) + 1, axes=axes)
    _same([both(gnp.asarray(x)), ga.jit(both)(x)], [wanted] * 2)
    with ga.default_device("simulator"):
        _same([ga.jit(both)(x)], [wanted])


@pytest.mark.parametrize("shape", [(40, 50), (6, 9000), (3000, 3)], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_several_passes(shape, axis):
    """What is written over the whole space, from reductions over a part of it."""
    simulated.need_compiler()
    x = _numbers(shape)

    def f(x):
        made = [p.bind(x, axes=(axis,)) for p in (SQUARES, WIDE[16], NORM)]
        return sum(x * gnp.expand_dims(m, axis) for m in made)

    wide = x.astype(np.float64)
    made = [p.numpy(wide, axes=(axis,)) for p in (SQUARES, WIDE[16], NORM)]
    wanted = sum(wide * np.expand_dims(m, axis) for m in made)
    bound = 1e-6 * np.abs(wanted).max()
    np.testing.assert_allclose(ga.jit(f)(x), wanted, atol=bound)
    with ga.default_device("simulator"):
        np.testing.assert_allclose(np.asarray(ga.jit(f)(x)), wanted, atol=bound)


def test_tiles_of_large_arrays():
    """Where the CPU works in tiles, results of the parts are merged."""
    x = np.tile(_numbers((1000,)), 700).reshape(700, 1000)
    for axes in ((0,), (1,), (0, 1)):
        wanted = [p.numpy(x + 1, axes=axes) for p in ALL]
        _same(ga.jit(lambda x: _each(ALL, axes)(x + 1))(x), wanted)  # noqa: B023


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_prod"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32"])
def test_parts_merge_in_the_dtype_of_the_result(name, dtype):
    """NumPy would merge the parts of an int8 sum in int64."""
    x = (np.arange(600 * 1024) % 3 + 1).astype(dtype).reshape(600, 1024)
    params = {"axes": (0, 1), "out_sharding": None}

    def f(x):
        result = registry[name].bind(x + x, **params)
        return result, result.astype("float32")

    fold = np.add if name == "reduce_sum" else np.multiply
    wanted = fold.reduce((x + x).ravel(), dtype=dtype)
    for got in map(np.asarray, ga.jit(f)(x)):
        assert got == wanted.astype(got.dtype)
    assert np.asarray(ga.jit(f)(x)[0]).dtype == dtype


# ---- what a definition says ----


def test_a_plain_fold_is_known_from_its_definition():
    plain = {
        n for n, p in registry.items() if p.kind is Kind.REDUCTION and p.plain_fold is not None
    }
    assert plain >= {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and"}
    assert not plain & {"argmax", "argmin"}
    for prim in (*ALL, UNWRITTEN):
        assert prim.plain_fold is None, prim


def test_results_that_are_finished_cannot_be_merged():
    with pytest.raises(TypeError, match="leave out `combine`"):
        _define("wrong", SQUARES.numpy, Combine("{ZERO}", ADD, finish="sqrt({0})"), combine=np.add)


@pytest.mark.parametrize(
    ("state", "size"),
    [
        ("{T}", 16), ("float", 4), ("ga_arg<float>", 16), ("ga_arg<double>", 16), ("ga_c128", 16),
        ("ga_arg<ga_c128>", 32), ("ga_complex<double>", 16), ("ga_complex<ga_c128>", 32),
        ("ga_complex<ga_arg<int>>", 32), ("ga_arg<signed char>", 16),
    ],
)  # fmt: skip
def test_the_size_of_a_state(state, size):
    assert state_bytes(state) == size
    assert Combine("{ZERO}", ADD, state=state).state == state


@pytest.mark.parametrize(
    "state", ["ga_complex<" * 5 + "double" + ">" * 5, "ga_complex<" * 4 + "{T}" + ">" * 4]
)
def test_a_state_without_room_is_refused(state):
    with pytest.raises(TypeError, match=f"room for {MOST_STATE}"):
        Combine("{ZERO}", ADD, state=state)


@pytest.mark.parametrize(
    "state", ["mine", "std::array<float, 3>", "ga_vec<float, 4>", "float*", ""]
)
def test_a_state_of_unknown_size_is_refused(state):
    with pytest.raises(TypeError, match="size is not known"):
        Combine("{ZERO}", ADD, state=state)


def test_states_fit_in_shared_memory():
    for state in (0, 4, 16, 68, MOST_STATE, 3 * MOST_STATE):
        for columns in (1, 2, 7, 32, 4000):
            for length in (10, 1000, 100_000):
                for split in (False, True):
                    s = schedule_columns(columns, length, split, state=state)
                    assert s.threads * state <= TARGET.shared_bytes
                    assert s.threads >= 32


def test_slots_hold_what_is_put_in():
    """Workspace: each block's partial results, then the tickets."""
    graph = ga.make_jaxpr(lambda x: _each((SQUARES, WIDE[4], WIDE[16]), (0,))(x))(
        np.ones(70_000, "f")
    )
    (group,) = plan_graph(graph).on_device.groups
    emitted = emit.emit(group)
    sizes = [Reducer(m.eqn).bytes for m in group.members]
    assert sizes == [4, 32, 128]
    assert emitted.workspace == emitted.schedule.splits * (16 + 32 + 128) + 16
