"""Reductions defined by a user: elements that are lifted, results that are finished, wide states.

In: definitions that no built-in reduction has, over shapes on both sides of every threshold. Out:
eager, jit and the simulator agree with NumPy.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.backends.numpy.sums import summed_products
from gpuarray.compiler.cuda import emit
from gpuarray.compiler.lower.schedule import schedule_columns
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.compiler.text.expressions import Reducer
from gpuarray.core.fold import ELEMENT, MOST_STATE, POSITION, Fold, Identity, state_bytes
from gpuarray.core.primitive import Kind, Sentinel, registry
from gpuarray.core.target import TARGET
from gpuarray.primitives.define import reduction
from gpuarray.primitives.elementwise.arithmetic import abs_p, add_p, max_p, square_p
from gpuarray.primitives.elementwise.transcendental import sqrt_p
from tests.support import simulated


def _define(name, numpy, fold, **rules):
    return reduction(name, numpy=numpy, fold=fold, register=False, **rules)


def _positions(x, axes):
    """The position of each element in its row, over the axes that go, the last the fastest."""
    shape = [x.shape[d] if d in axes else 1 for d in range(x.ndim)]
    return np.arange(int(np.prod(shape))).reshape(shape)


def _spread(x, axes):
    x = np.asarray(x, np.float64)
    if 0 in [x.shape[a] for a in axes]:
        return np.zeros([n for d, n in enumerate(x.shape) if d not in axes])
    return x.max(axes) - x.min(axes) + x.sum(axes)


def _pairs(parts: list):
    """Parts as pairs of pairs, as the states of wide folds are."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return _pairs(parts[:half]), _pairs(parts[half:])


def _wide(count: int) -> Fold:
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
    return Fold(
        _pairs([Identity.LOWEST, Identity.HIGHEST, *[Identity.ZERO] * (count - 2)]),
        f"[]({kind} p, {kind} q) -> {kind} {{{{ return {of(merged)}; }}}}({{0}}, {{1}})",
        state=_pairs([np.float64] * count),
        lift=of(["(double){0}"] * count),
        finish=f"({{T}})({largest} < {smallest} ? 0.0 : {largest} - {smallest} + {last})",
    )


ZERO = Identity.ZERO
ADD = "{0} + {1}"
SQUARES = _define(
    "sum_of_squares",
    lambda x, axes: np.add.reduce(x * x, axis=axes),
    Fold(ZERO, ADD, lift="{0} * {0}", ufunc=np.add),
)
#: The same without a CUDA rule: nobody can tell that it is no plain sum but by not guessing.
UNWRITTEN = _define(
    "sum_of_squares_here",
    SQUARES.numpy,
    Fold(ZERO, ADD, lift=Sentinel("HERE", "it is for NumPy alone"), ufunc=np.add),
)
LARGEST_SQUARE = _define(
    "largest_square",
    lambda x, axes: np.maximum.reduce(x * x, axis=axes, initial=0),
    Fold(ZERO, "ga_max({0}, {1})", lift="{0} * {0}", ufunc=np.maximum),
)
NORM = _define(
    "norm",
    lambda x, axes: np.sqrt(np.add.reduce(x.astype(np.float64) ** 2, axis=axes)).astype(x.dtype),
    Fold(
        ZERO, ADD, state=np.float64, lift="(double){0} * {0}", finish="({T})sqrt({0})", ufunc=np.add
    ),
)
TWICE = _define(
    "twice_the_sum",
    lambda x, axes: np.add.reduce(x, axis=axes) * np.float32(2),
    Fold(ZERO, ADD, finish="{0} * 2", ufunc=np.add),
)
PLACED = _define(
    "sum_by_position",
    lambda x, axes: (x * (_positions(x, axes) % 997)).sum(axes, np.float64).astype(x.dtype),
    Fold(ZERO, ADD, state=np.float64, lift="(double){0} * ({1} % 997u)", finish="({T})({0})"),
)
COUNT = _define(
    "count_positive",
    lambda x, axes: np.sum(x > 0, axis=axes, dtype=np.int32),
    Fold(ZERO, ADD, state=np.int32, lift="({0} > 0 ? 1 : 0)", ufunc=np.add),
    result=lambda dtype: np.dtype("int32"),
)
#: In one pass: the largest element so far, and the sum of exponentials beside it.
LOG_SUM_EXP = _define(
    "log_sum_exp_in_one_pass",
    lambda x, axes: np.logaddexp.reduce(x.astype(np.float64), axis=axes).astype(x.dtype),
    Fold(
        (Identity.LOWEST, ZERO),
        "[]({T} p, {T} q) -> {T} {{ const auto top = ga_max(p.re, q.re);"
        " if (top == -GA_INF) return p;"
        " return {{top, p.im * ga_exp(p.re - top) + q.im * ga_exp(q.re - top)}}; }}({0}, {1})",
        state=(ELEMENT, ELEMENT),
        lift="ga_complex<{T}>{{{0}, ({T})1}}",
        finish="{0}.re + ga_log({0}.im)",
    ),
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


@pytest.mark.on_cpu("a fold of one's own may have a NumPy rule alone")
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


def test_results_merge_only_where_they_are_not_finished():
    """`ufunc` merges partial results; a finished one is none any more."""
    for prim in (NORM, TWICE):
        assert prim.fold.ufunc is np.add and prim.fold.result_ufunc is None
    for prim in (SQUARES, UNWRITTEN, COUNT):
        assert prim.fold.result_ufunc is np.add


#: What is said in primitives alone: NumPy's rule follows from it, as the text does.
SAID = {
    "squares": Fold(ZERO, add_p, lift=square_p, ufunc=np.add),
    "length": Fold(ZERO, add_p, lift=square_p, finish=sqrt_p, ufunc=np.add),
    "farthest": Fold(ZERO, max_p, lift=abs_p, ufunc=np.maximum, selects=True),
}
WANTED = {
    "squares": lambda x, axes: (x * x).sum(axes),
    "length": lambda x, axes: np.sqrt((x * x).sum(axes)),
    "farthest": lambda x, axes: np.abs(x).max(axes, initial=0),
}
FROM_PARTS = {name: _define(f"{name}_from_parts", None, fold) for name, fold in SAID.items()}


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize(("shape", "axes"), [*LADDER, ((700, 1000), (0, 1))], ids=str)
def test_numpy_rules_follow_from_folds_of_primitives(shape, axes, dtype):
    names = [n for n in SAID if dtype != "int32" or n != "length"]
    x = (_numbers(shape) % 2).astype(dtype)
    both = _each([FROM_PARTS[n] for n in names], axes)
    with np.errstate(over="ignore"):  # 350,000 is infinite as a float16
        wanted = [WANTED[n](x.astype(np.float64), axes).astype(dtype) for n in names]
    for got in (both(gnp.asarray(x)), ga.jit(lambda x: both(x + 0))(x)):
        for g, w in zip(got, wanted, strict=True):
            assert g.dtype == dtype
            np.testing.assert_allclose(np.asarray(g), w, rtol=1e-3 if dtype == "float16" else 2e-7)


@pytest.mark.parametrize(("shape", "axes"), LADDER, ids=str)
def test_folds_of_primitives_on_the_simulator(shape, axes):
    simulated.need_compiler()
    x = _numbers(shape)
    wanted = [WANTED[n](x.astype(np.float64), axes) for n in SAID]
    with ga.default_device("simulator"):
        _same(ga.jit(lambda x: _each(FROM_PARTS.values(), axes)(x + 0))(x), wanted)


@pytest.mark.parametrize(("shape", "axes"), LADDER, ids=str)
def test_two_numbers_make_a_logsumexp_of_one_pass(shape, axes):
    simulated.need_compiler()
    x = _numbers(shape) * np.float32(40)
    x[x < -150] = -np.inf
    f = lambda x: LOG_SUM_EXP.bind(x, axes=axes)
    wanted = LOG_SUM_EXP.numpy(x, axes=axes)
    np.testing.assert_allclose(np.asarray(ga.jit(f)(x)), wanted, rtol=1e-6)
    with ga.default_device("simulator"):
        np.testing.assert_allclose(np.asarray(ga.jit(f)(x)), wanted, rtol=1e-6)


def test_a_sum_of_products_takes_any_plain_sum():
    """NumPy sums products in one call by what a Fold says, not for one name."""
    mine = _define("my_sum", None, Fold(ZERO, add_p, ufunc=np.add))
    x = np.tile(_numbers((1000,)), 700).reshape(700, 1000)
    graph = ga.make_jaxpr(lambda x: mine.bind(x * x, axes=(1,)))(x)
    (group,) = plan_graph(graph).groups
    members, functions = summed_products(group.members, group.outputs)
    assert len(members) == 1 and list(functions) == members
    np.testing.assert_allclose(functions[members[0]](x, x), (x * x).sum(1))
    graph = ga.make_jaxpr(lambda x: SQUARES.bind(x * x, axes=(1,)))(x)
    (group,) = plan_graph(graph).groups
    assert not summed_products(group.members, group.outputs)[1]


@pytest.mark.parametrize(
    ("state", "size"),
    [
        (ELEMENT, 16), (np.float32, 4), ((np.float32, POSITION), 16), ((np.float64, POSITION), 16),
        (np.complex128, 16), ((np.complex128, POSITION), 32), ((np.float64, np.float64), 16),
        ((np.complex128, np.complex128), 32), (((np.int32, POSITION), (np.int32, POSITION)), 32),
        ((np.int8, POSITION), 16), ((ELEMENT, POSITION), 32),
    ],
)  # fmt: skip
def test_the_size_of_a_state(state, size):
    fold = Fold(_each_part(ZERO, state), ADD, state=state)
    assert state_bytes(fold.state) == size


def _each_part(identity, state):
    return tuple(_each_part(identity, s) for s in state) if isinstance(state, tuple) else identity


@pytest.mark.parametrize("state", [np.float64, ELEMENT])
def test_a_state_without_room_is_refused(state):
    wide = _pairs([state] * 16)
    with pytest.raises(TypeError, match=f"room for {MOST_STATE}"):
        Fold(_each_part(ZERO, (wide, wide)), ADD, state=(wide, wide))


@pytest.mark.parametrize(
    "state",
    ["float", "ga_complex<float>", np.float16, (np.float32, np.int32), (np.float32,), None, ()],
)
def test_a_state_of_unknown_size_is_refused(state):
    with pytest.raises(TypeError, match="size is not known"):
        Fold(ZERO, ADD, state=state)


@pytest.mark.parametrize(
    ("identity", "state"), [("0.0", ELEMENT), (0, ELEMENT), (ZERO, (ELEMENT, POSITION))], ids=str
)
def test_an_identity_has_a_value_for_each_part_of_the_state(identity, state):
    with pytest.raises(TypeError, match="an Identity for each part"):
        Fold(identity, ADD, state=state)


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "float32", "complex64"])
def test_a_running_fold_begins_with_what_changes_nothing(dtype):
    """Bit by bit, -0.0 included."""
    floats = "sum prod max min"
    names = {"i": f"{floats} and or xor", "u": f"{floats} and or xor", "f": floats, "c": "sum"}
    some = np.array([-0.0, 1, 3], dtype)
    for name in names[some.dtype.kind].split():
        fold = registry[f"reduce_{name}"].fold
        got = fold.ufunc(fold.neutral.of(some.dtype), some)
        assert got.dtype == dtype and got.tobytes() == some.tobytes(), name


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
    sizes = [Reducer(m.eqn).bytes for m in emitted.kernel.group.members]
    assert sizes == [4, 32, 128]
    assert emitted.workspace == emitted.schedule.splits * (16 + 32 + 128) + 16


def test_a_fold_without_text_is_for_numpy_alone():
    """Strict mode names the reduction; NumPy runs it, and merges what tiles leave."""
    assert not UNWRITTEN.has_fold and SQUARES.has_fold
    graph = ga.make_jaxpr(lambda x: UNWRITTEN.bind(x, axes=(0,)))(np.ones(7, "f"))
    (group,) = plan_graph(graph).groups
    with pytest.raises(TypeError, match="without a Fold"):
        emit.emit(group)
    with pytest.raises(TypeError, match="'sum_of_squares_here'.*a part of its Fold has no CUDA"):
        Reducer(group.members[0].eqn)
