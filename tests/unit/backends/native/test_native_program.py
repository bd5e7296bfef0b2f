"""Programs with native kernels: lengths about which loops are cut, and any number of threads.

In: functions over arrays that are long enough for lanes, blocks and pieces. Out: NumPy's values, in
float64 where they are sums, and the same bits whatever shares the work.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.backends.native import arrays, background, later, library
from gpuarray.backends.numpy import program as host
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.core.target import PROCESSOR
from tests.support import natively

natively.need_compiler()

LANES, BLOCK, PIECE = PROCESSOR.lanes, PROCESSOR.columns, PROCESSOR.piece
#: About one, four times the lanes, where they begin to be used.
LENGTHS = (1, 7, 31, 32, 33, 4 * LANES - 1, 4 * LANES, 4 * LANES + 1, 1000)


def softmax64(x, axis):
    e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def norm64(x):
    x = x.astype(np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def norm(x):
    mean = gnp.mean(x, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(gnp.var(x, -1, keepdims=True) + 1e-5)


def wide(f):
    """A function of NumPy's on float64."""
    return lambda *xs: f(*[x.astype(np.float64) if x.dtype.kind == "f" else x for x in xs])


#: Name -> function, the same by NumPy, shapes and dtypes of the operands.
CASES: dict = {
    f"rows of {n}: {name}": (f, g, [((5, n), "float32")])
    for n in LENGTHS
    for name, f, g in (
        ("softmax", lambda x: nn.softmax(x, axis=-1), lambda x: softmax64(x, -1)),
        ("norm", norm, norm64),
        ("argmax", lambda x: gnp.argmax(x, -1), lambda x: np.argmax(x, -1)),
    )
}
CASES |= {
    f"{n} columns of {m}: {name}": (f, g, [((m, n), "float32")])
    for n, m in ((3, 40), (BLOCK, 9), (BLOCK + 1, 9), (2 * BLOCK - 1, 5), (2, 2 * PIECE + 5))
    for name, f, g in (
        ("variance", lambda x: gnp.var(x, 0), wide(lambda x: x.var(0))),
        ("softmax", lambda x: nn.softmax(x, axis=0), lambda x: softmax64(x, 0)),
        ("argmin", lambda x: gnp.argmin(x, 0), lambda x: np.argmin(x, 0)),
    )
}
CASES |= {
    "all": (
        lambda x: gnp.sum(x * x),
        wide(lambda x: (x * x).sum()),
        [((3 * PIECE + 17,), "float32")],
    ),
    "largest": (gnp.max, np.max, [((2 * PIECE + 1,), "float32")]),
    "where": (gnp.argmax, np.argmax, [((2 * PIECE + 1,), "float32")]),
    "mean of few rows": (
        lambda x: gnp.mean(x, 1),
        wide(lambda x: x.mean(1)),
        [((3, PIECE + 9), "float32")],
    ),
    "softmax of one row": (nn.softmax, lambda x: softmax64(x, -1), [((2 * PIECE + 3,), "float32")]),
    "norm of columns": (
        lambda x: (x - x.mean(0)) / gnp.sqrt(x.var(0) + 1),
        wide(lambda x: (x - x.mean(0)) / np.sqrt(x.var(0) + 1)),
        [((PIECE, 4), "float32")],
    ),
    "middle axis": (lambda x: gnp.sum(x, 1), wide(lambda x: x.sum(1)), [((4, 50, 33), "float32")]),
    "outer axes": (
        lambda x: gnp.sum(x, (0, 2)),
        wide(lambda x: x.sum((0, 2))),
        [((40, 5, 130), "float32")],
    ),
    "half": (lambda x: gnp.sum(x, 1), wide(lambda x: x.sum(1)), [((4, 500), "float16")]),
    "integers": (lambda x: gnp.sum(x * 3, 1), lambda x: (x * 3).sum(1), [((4, 500), "int32")]),
    "count": (lambda x: gnp.sum(x > 0), lambda x: (x > 0).sum(), [((2 * PIECE + 1,), "float32")]),
    "any": (lambda x: gnp.any(x > 3, 1), lambda x: (x > 3).any(1), [((9, 700), "float32")]),
    "chain": (
        lambda x, y: (x * y + 1) / 2,
        lambda x, y: (x * y + 1) / 2,
        [((PIECE + 1,), "float32")] * 2,
    ),
    "broadcast": (
        lambda x, b: gnp.where(x > b, x, b),
        lambda x, b: np.where(x > b, x, b),
        [((300, 501), "float32"), ((501,), "float32")],
    ),
    "two long rows": (
        lambda x, b: x - b,
        lambda x, b: x - b,
        [((2, 3 * PIECE), "float32"), ((2, 1), "float32")],
    ),
    "short rows": (
        lambda x, b: x + b,
        lambda x, b: x + b,
        [((900, 5, 3), "float32"), ((3,), "float32")],
    ),
    "turned": (
        lambda x, y: x.T + y,
        lambda x, y: x.T + y,
        [((130, 70), "float32"), ((70, 130), "float32")],
    ),
    "gathered": (
        lambda x, i: x[i] * 2,
        lambda x, i: x[i] * 2,
        [((70, 40), "float32"), ((90,), "int32")],
    ),
    "padded": (
        lambda x: gnp.pad(x, 2)[:-1] + 1,
        lambda x: np.pad(x, 2)[:-1] + 1,
        [((50, 60), "float32")],
    ),
    "joined": (
        lambda x, y: gnp.concatenate([x, y], 1) * 2,
        lambda x, y: np.concatenate([x, y], 1) * 2,
        [((20, 60), "float32"), ((20, 9), "float32")],
    ),
    "beside one number": (
        lambda x, s: (x * gnp.sin(s), gnp.sin(s) + 1),
        wide(lambda x, s: (x * np.sin(s), np.sin(s) + 1)),
        [((2 * PIECE,), "float32"), ((), "float32")],
    ),
    "beside numbers of rows": (
        lambda x, s: (x * gnp.sin(s), gnp.sin(s) + 1),
        wide(lambda x, s: (x * np.sin(s), np.sin(s) + 1)),
        [((2, 3 * PIECE), "float32"), ((2, 1), "float32")],
    ),
    "beside numbers of columns": (
        lambda x, s: (x * gnp.sin(s), gnp.sin(s) + 1),
        wide(lambda x, s: (x * np.sin(s), np.sin(s) + 1)),
        [((300, 70), "float32"), ((70,), "float32")],
    ),
    "empty rows": (lambda x: gnp.sum(x, 1), lambda x: x.sum(1), [((7, 0), "float32")]),
    "nothing": (lambda x: x + 1, lambda x: x + 1, [((0, 7), "float32")]),
    "no axes": (lambda x: x + 1, lambda x: x + 1, [((), "float32")]),
}

# Sums in the order of their elements, along short axes. (g++ 12 reads those of reversed ones from
# the wrong places.)
CASES |= {
    f"reversed rows of {n}": (
        lambda x: gnp.sum(x[..., ::-1] * 2),
        wide(lambda x: (x * 2).sum()),
        [((21, n), "float32")],
    )
    for n in (2, 3, 5, 8, 16)
}
# Kernels that take turns, block by block, and such as may not.
MANY = 4 * PROCESSOR.chained + 5
CASES |= {
    f"places {name}": (
        lambda x, turn=turn: _at(gnp, x, turn(gnp.argmin(x, 1))),
        lambda x, turn=turn: _at(np, x, turn(np.argmin(x, 1))),
        [((MANY, 4), "float32")],
    )
    for name, turn in (("as found", lambda i: i), ("of others", lambda i: i[::-1]))
}


def _at(m, x, places):
    return m.take_along_axis(x, places[:, None], 1)[:, 0] * 2


def operand(rng, shape, dtype):
    if dtype == "int32":
        return rng.integers(0, 40, shape, dtype=dtype)
    return rng.standard_normal(shape).astype(dtype)


@pytest.fixture(scope="module")
def programs():
    """All cases, compiled together."""
    rng = np.random.default_rng(0)
    found = {}
    for name, (f, g, operands) in CASES.items():
        xs = [operand(rng, *o) for o in operands]
        graph = ga.jit(f).lower(*[ga.ShapeDtypeStruct(x.shape, x.dtype) for x in xs]).jaxpr
        found[name] = natively.written(graph), g, xs
    natively.compile_all([w for w, _, _ in found.values()])
    return found


def test_every_case_has_kernels(programs):
    assert [name for name, (w, _, _) in programs.items() if not w.kernels] == []


def test_kernels_over_the_same_elements_take_turns():
    def text(turn):
        lowered = ga.jit(lambda x: _at(gnp, x, turn(gnp.argmin(x, 1)))).lower(
            ga.ShapeDtypeStruct((MANY, 4), "float32")
        )
        return lowered.cpp_source().partition("_steps(")[2]

    assert "ga_blocks" in text(lambda i: i)
    assert "ga_blocks" not in text(lambda i: i[::-1])


@pytest.mark.parametrize("name", CASES)
def test_values(name, programs):
    written, reference, xs = programs[name]
    found, expected = written(*xs), reference(*xs)
    for f, e in zip(found, expected if isinstance(expected, tuple) else [expected], strict=True):
        near(f, np.asarray(e))


def near(found, expected):
    assert found.shape == expected.shape
    if found.dtype.kind != "f":
        assert np.array_equal(found, expected)
    else:
        tolerance = 2e-3 if found.dtype == np.float16 else 5e-6
        scale = np.abs(expected).max(initial=1)
        assert np.abs(found - expected).max(initial=0) <= tolerance * scale


def test_bits_do_not_depend_on_threads(programs):
    """Pieces are merged in order: one, two and seven threads find the same."""
    found = {}
    try:
        for threads in (1, 2, 7):
            ga.config.update("num_threads", threads)
            found[threads] = {n: w(*xs)[0].tobytes() for n, (w, _, xs) in programs.items()}
    finally:
        ga.config.update("num_threads", 0)
    assert found[1] == found[2] == found[7]


def test_operands_in_any_layout(programs):
    """Turned, with gaps, unaligned, read-only, or a scalar: copied where that is needed."""
    written, reference, (x, b) = programs["broadcast"]
    expected = reference(x, b)
    gaps = np.zeros((2 * x.shape[0], x.shape[1]), x.dtype)[::2]
    gaps[...] = x
    shifted = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    shifted[...] = x
    read_only = x.copy()
    read_only.flags.writeable = False
    for same in (np.asfortranarray(x), gaps, shifted, read_only):
        (found,) = written(same, b)
        assert np.array_equal(found, expected)
    written, reference, (x,) = programs["no axes"]
    assert written(np.float32(2.0))[0] == np.float32(3.0)


def test_threads_of_python_share_the_pool(programs):
    """Who finds the pool busy works alone."""
    written, _, xs = programs["all"]
    expected = written(*xs)[0].tobytes()
    found: list[bytes] = []
    callers = [
        threading.Thread(target=lambda: found.extend(written(*xs)[0].tobytes() for _ in range(30)))
        for _ in range(4)
    ]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert len(found) == 120
    assert set(found) == {expected}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_child_has_threads_of_its_own(programs):
    written, _, xs = programs["all"]
    expected = written(*xs)[0].tobytes()  # the workers of this process exist
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        os._exit(0 if written(*xs)[0].tobytes() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


# ---- arrays ----


def test_arrays_are_laid_out_as_native_code_reads_them():
    assert arrays.are_readable()


def test_a_layout_that_is_not_known_is_noticed(monkeypatch):
    fields = (("head", ctypes.c_char * 16), *arrays._Array._fields_[1:])
    monkeypatch.setattr(arrays, "_Array", type("Moved", (ctypes.Structure,), {"_fields_": fields}))
    arrays.are_readable.cache_clear()
    try:
        assert not arrays.are_readable()
    finally:
        arrays.are_readable.cache_clear()


# ---- the setting ----


def test_the_setting_chooses(rng):
    """The same function compiled and not: programs of their own, and nearly the same values."""
    x = rng.standard_normal(1000).astype(np.float32)
    f = ga.jit(lambda x: gnp.exp(x) * 2)
    plain = np.asarray(f(x))
    with native_set("wait"):
        assert f.lower(x).compile() is not None
        compiled = np.asarray(f(x))
    assert np.allclose(plain, compiled, rtol=1e-6)
    assert library._units


def programs_after(monkeypatch, calls: int, seconds: float, after: int = 100) -> tuple[int, bool]:
    """How many compiles are asked for when NumPy has taken so long for each of some calls, and
    whether the time of a call is still taken.
    """
    jobs: list = []
    monkeypatch.setattr(background, "submit", jobs.append)
    clock = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock) * seconds)
    plan = plan_graph(ga.make_jaxpr(lambda x: gnp.sin(x) + calls)(gnp.ones(3)).jaxpr)
    ga.config.update("native_after", after)
    function: Any = later.build_later(plan, [], frozenset())
    for _ in range(calls):
        np.testing.assert_allclose(function(np.ones(3, np.float32))[0], np.sin(1) + calls)
    return len(jobs), "begun" in function.__code__.co_varnames


def test_a_program_is_compiled_when_numpy_has_worked_for_a_while(monkeypatch):
    asked = functools.partial(programs_after, monkeypatch)
    assert asked(1, 5.0) == (0, True)  # never at its first call
    assert asked(9, 0.01) == (0, True)
    assert asked(200, 0.01) == (1, True)
    assert asked(3, 0.0, after=0) == (1, True)
    # A program of a few microseconds is left to NumPy, and is no longer watched.
    assert asked(500, 1e-6) == (0, False)


class native_set:
    """Context manager: `GPUARRAY_NATIVE` for a block."""

    def __init__(self, value: str):
        self.value = value

    def __enter__(self):
        ga.config.update("native", self.value)

    def __exit__(self, *_):
        ga.config.update("native", "off")


def interrupted(x):
    """NumPy sorts between the updates."""
    y = x.at[gnp.arange(50)].set(gnp.exp(gnp.arange(50.0) / 50))
    s = gnp.sort(gnp.tanh(y))
    z = y.at[gnp.arange(100)].add(s[:100])
    return z.at[gnp.arange(100, 150)].add(gnp.cos(s[:50])), gnp.sum(s * 2)


DONATED = {
    "interrupted": interrupted,
    "one": lambda x: x.at[3].set(7.0),
    "a chain": lambda x: x.at[3].set(7.0).at[1:9].add(2.0).at[-1].min(-1.0),
    "constants": lambda x: x.at[0].set(-1.0).at[1].set(-2.0).at[0].set(-3.0),
    "some": lambda x: x.at[gnp.array([5, 1, 5])].add(gnp.array([1.0, 2.0, 3.0])),
    "of itself": lambda x: x.at[gnp.array([5, 1])].set(x[2:4] * 2),
    "read before": lambda x: (gnp.sum(x[:100] * 2), x.at[3].set(7.0) + 0)[::-1],
    "read after": lambda x: (x.at[3].set(7.0), x[3] + 1),
    "a view after": lambda x: (x.at[3].set(7.0), x[::-2]),
    "two": lambda x: (x.at[3].set(7.0), x.at[4].set(8.0)),
    "both": lambda x: (x.at[3].set(7.0).at[4].set(1.0), x.at[3].set(7.0) * 2),
    "sums": lambda x: x.at[gnp.arange(90) % 7].add(gnp.exp(-x[:90])),
}


@pytest.mark.parametrize("how", ["as it is", "turned"])
@pytest.mark.parametrize("name", DONATED)
def test_donated_operands_of_updates(name, how):
    """Written over or not, and in one piece or not, the values are the same."""
    f = DONATED[name]
    x = np.linspace(0, 1, 2000).astype("float32")
    expected = [np.asarray(y) for y in ga.tree.leaves(f(gnp.array(x)))]
    graph = ga.jit(f, donate_argnums=0).lower(ga.ShapeDtypeStruct(x.shape, x.dtype)).jaxpr
    made = natively.written(graph, frozenset([0]))
    natively.compile_all([made])
    for owned in ({0}, set()):
        given = x.copy() if how == "as it is" else np.ascontiguousarray(x[::-1])[::-1]
        kept = None if owned else given.copy()
        found = made(given, owned)
        for y, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(y, e, 1e-6)
        if kept is not None:
            np.testing.assert_array_equal(given, kept)


#: What follows a sum decides how the compiler lays out the numbers side by side.
AFTER = {
    "stored": lambda np_, s: s,
    "divided": lambda np_, s: s // np_.maximum(s & 7, 1),
    "scaled": lambda np_, s: s * 3 + 1,
    "chosen": lambda np_, s: np_.where(s > 5, s % 7, -s),
}
SHORT_AND_LONG = [
    ("int8", "int8"), ("int8", "int32"), ("uint8", "int32"), ("bool", "int32"), ("int16", "int16"),
    ("int16", "int64"), ("int32", "int32"), ("int32", "int64"), ("int64", "int64"),
    ("uint16", "uint16"), ("uint8", "uint64"),
]  # fmt: skip


#: A half of the cases, or the other half if slow: the compiler takes its time.
TURNS = pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.slow)])


@TURNS
def test_sums_of_integers_side_by_side(turn, rng):
    """In few columns, in lanes, of several axes; converted before, or not. (g++ 12 makes wrong code
    of some loops over them.)
    """
    cases = []
    with ga.enable_x64(True):
        for (n, (short, wide)), (name, after) in itertools.product(
            enumerate(SHORT_AND_LONG), AFTER.items()
        ):
            for k, (shape, axis) in enumerate(
                [((33, 16, 2), 1), ((33, 16, 4), 1), ((9, 20, 3), 1), ((7, 64), 1), ((40, 8), 0)]
                + [((5, 6, 7), (0, 2)), ((3, 2, 40), (1, 2)), ((16, 16), 0)]
            ):
                if (n + k) % 4 != 2 * turn:
                    continue
                x = (rng.integers(0, 18, shape) - (9 if short[0] == "i" else 0)).astype(short)

                def f(x, np_=gnp, axis=axis, wide=wide, after=after):
                    return after(np_, np_.sum(x.astype(wide), axis, dtype=wide))

                written = natively.written(ga.jit(f).lower(x).jaxpr)
                with np.errstate(over="ignore"):
                    cases.append(((shape, axis, short, wide, name), written, x, f(x, np)))
    natively.compile_all([written for _, written, _, _ in cases])
    for what, written, x, expected in cases:
        (found,) = written(x)
        assert found.dtype == expected.dtype, what
        np.testing.assert_array_equal(found, expected, str(what))


@TURNS
def test_integers_carried_by_loops(turn, rng):
    """The same in loops around small arrays."""
    cases = []
    with ga.enable_x64(True):
        for n, (short, wide) in enumerate(SHORT_AND_LONG[1:8]):
            ways = itertools.product((2, 3, 4, 8, 16), enumerate(AFTER.items()))
            for size, (k, (name, after)) in ways:
                if (n + k + size) % 2 != turn:
                    continue
                x = rng.integers(0, 9, (12, size)).astype(short)

                def f(x, wide=wide, after=after):
                    zero = gnp.zeros(x.shape[1], wide)
                    s, _ = lax.scan(lambda c, r: (c + r.astype(wide), None), zero, x)
                    return after(gnp, s)

                expected = after(np, x.astype(wide).sum(0, dtype=wide))
                written = natively.written(ga.jit(f).lower(x).jaxpr)
                cases.append(((size, short, wide, name), written, x, expected))
    natively.compile_all([written for _, written, _, _ in cases])
    for what, written, x, expected in cases:
        np.testing.assert_array_equal(written(x)[0], expected, str(what))


CONDITIONS = {
    "joined": lambda x: gnp.concatenate([x, x * 0.5], 0),
    "joined inside": lambda x: gnp.concatenate([x, x], 1),
    "padded": lambda x: gnp.pad(x, 1),
    "shifted": lambda x: gnp.roll(x, 1, 0) + gnp.roll(x, 1, 1),
    "some": lambda x: gnp.where(gnp.arange(x.shape[1]) % 3 == 1, x, 0.0),
}


def test_reads_under_conditions_beside_loops(rng):
    """Small arrays joined and padded, with a loop or a fold behind them. (g++ 12 reads zeros.)"""
    cases = []
    for (name, f), shape in itertools.product(
        CONDITIONS.items(), [(4, 2), (4, 3), (8, 8), (3, 16), (2, 33), (16, 4)]
    ):
        x = rng.standard_normal(shape).astype("float32")
        for way, g in {
            "loop": lambda y: lax.fori_loop(0, 3, lambda i, c: c * 0.5 + 1, y),
            "rows": lambda y: gnp.sum(y, 1),
            "columns": lambda y: gnp.max(y, 0),
        }.items():
            graph = ga.jit(lambda x, f=f, g=g: g(f(x))).lower(x).jaxpr
            cases.append(((name, way, shape), natively.written(graph), graph, x))
    natively.compile_all([written for _, written, *_ in cases])
    for what, written, graph, x in cases:
        plain = host.build(plan_graph(graph, fusion=False), [])
        for found, expected in zip(written(x), host.local.run(plain, x), strict=True):
            np.testing.assert_allclose(found, expected, 1e-5, 1e-6, err_msg=str(what))


def test_short_integers_inside_expressions(rng):
    """C computes with them as ints: what is inlined somewhere else has to be cut all the same."""

    def f(x, y):
        z = gnp.pad((x[::-1] + x.dtype.type(100)) & y[:1], 1)
        w = gnp.concatenate([x * y, ~x])
        return (
            gnp.maximum(z, x.dtype.type(3)) % x.dtype.type(7),
            z > x.dtype.type(90),
            w.astype("float32"),
            gnp.where(gnp.pad(x << 3, 1) == 8, 1, 0),
            gnp.sum(gnp.flip(x - y), dtype="int32"),
            lax.rem(gnp.pad(gnp.sign(x[:1]) - y[:1], 3), x.dtype.type(17)),
            gnp.pad(gnp.sign(x[:1]) - y[:1], 3) > x.dtype.type(17),
        )

    cases = []
    for dtype in ("int8", "uint8", "int16", "uint16"):
        x, y = rng.integers(0, 120, (2, 50)).astype(dtype)
        graph = ga.jit(f).lower(x, y).jaxpr
        cases.append((natively.written(graph), graph, x, y))
    natively.compile_all([written for written, *_ in cases])
    for written, graph, x, y in cases:
        plain = host.build(plan_graph(graph, fusion=False), [])
        for found, expected in zip(written(x, y), host.local.run(plain, x, y), strict=True):
            np.testing.assert_array_equal(found, expected, str(x.dtype))


def test_folds_of_one_element_beside_longer_ones(rng):
    """An argmax over an axis of length 1 is no fold, whatever else the kernel folds."""

    def f(x):
        at = gnp.argmax(x, 1)
        some = at.astype("float32") + x[:, 0]
        return gnp.sum(some, keepdims=True), at, some

    x = rng.standard_normal((7, 1)).astype("float32")
    written = natively.written(ga.jit(f).lower(x).jaxpr)
    natively.compile_all([written])
    total, at, some = written(x)
    np.testing.assert_allclose(total, [x.sum()], 1e-6)
    np.testing.assert_array_equal(at, np.zeros(7))
    np.testing.assert_array_equal(some, x[:, 0])
