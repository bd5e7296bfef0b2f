"""Planted faults in what splits a program: each is found by comparing with the whole."""

import numpy as np
import pytest

import gpuarray.numpy as jnp
from gpuarray import lax
from gpuarray.sharding import PartitionSpec as P
from gpuarray.transforms.partition import divide, moves, split, windows
from gpuarray.transforms.partition import halos as rims
from gpuarray.transforms.partition import pieces as known
from tests.unit.transforms.partition.test_split import W_INVERTIBLE, normal, sent
from tests.unit.transforms.partition.test_windows import heat

pytestmark = pytest.mark.devices


def mixed(a, b):
    c = a @ b
    return c.sum(0), jnp.sort(c, 1).T, c.max(), jnp.cumsum(a, 0), a + jnp.arange(8.0)[:, None]


def steps(a, b):
    body = lambda c, r: (c * 0.5 + r.sum(), c @ b)
    return lax.scan(body, a[:, 0], a), jnp.roll(a, 3, 0), a.at[1:-1].set(heat(a)), a[2:4].min(0)


def branches(a, b):
    return lax.cond(a[0, 0] > 9, lambda a: a * 2, lambda a: a[::-1] - 1, a), jnp.prod(b, 1)


def halos(a, b):
    image, kernel = a[None, None], b[None, None, :3, :3]
    same = lax.conv_general_dilated(image, kernel, (1, 1), "SAME")
    part = lax.reduce_window(a[1:-1], -jnp.inf, lax.max, (3, 1), (1, 1), "SAME").min(0)
    folds = lax.cumprod(a, 0), lax.cummin(a, 0, True), jnp.cumsum(a[1:], 0).sum(0)
    return same, part, folds, jnp.pad(a, ((3, 5), (0, 0)), constant_values=2.0)


PROGRAMS = [
    (halos, [P("x"), P()], None),
    (halos, [P("y", None), P()], None),
    (mixed, [P("x"), P("y")], None),
    (
        mixed,
        [P(None, ("y", "x")), P("x", "y")],
        [P("x"), P(("x", "y")), P(), P(None, "x"), P("y", "x")],
    ),
    (mixed, [P("y", "x"), P(("x", "y"))], [P(), P(None, "x"), P(), P("y"), P(None, ("y", "x"))]),
    (steps, [P("x"), P(None, "y")], None),
    (steps, [P("x", "y"), P("x")], None),
    (branches, [P("x"), P("x", "y")], [P("y"), P()]),
    (
        lambda a, b: (a + 1, b + 1, b + 2),
        [P(("x", "y")), P(("x", "y"))],
        [P(), P(None, ("x", "y")), P("x", "y")],
    ),
    (lambda a, b: (a @ b, b), [P(None, "x"), P("x")], [P(None, "x"), P()]),
    (lambda a, b: ((a @ b) * ((a + 1) @ b), a.sum()), [P(None, "x"), P("x")], None),
    (lambda a, b: (jnp.sin(a), b), [P(), P()], [P(("y", "x")), P("x", "y")]),
    (lambda a, b: (a.T, b), [P(("x", "y")), P("x")], [P(("y", "x")), P("y", "x")]),
]


def check() -> None:
    divide.known.clear()  # what another fault, or none, left there
    for fun, ins, outs in PROGRAMS:
        sent(fun, [W_INVERTIBLE, normal(8, 8)], ins, outs)


def _reversed(names, sizes):
    return moves_position(tuple(names[::-1]), sizes)


moves_position = moves.position


def _first(names, sizes):
    return np.int32(0)


def _fewer(x, how, names, sizes):
    return SUMMED(x, how, names[:-1], sizes) if names[:-1] else (x, "psum")


SUMMED, SCATTERED, GATHERED = moves.summed, moves.scattered, moves.gathered
EXCHANGED, SLICED, PAIRS = moves.exchanged, moves.sliced, moves._pairs
REACHED, ENLARGED = rims._reached, rims.Rims.enlarged
SHIFTED, BETWEEN = windows.WindowedEquation.shifted, windows.WindowedEquation.between
OTHER = {"pick": "min", "sum": "max", "max": "min", "min": "max", "prod": "sum"}

MUTANTS = {
    "a sum is dropped": (moves, "summed", lambda x, how, names, sizes: (x, "psum")),
    "a sum over too few": (moves, "summed", _fewer),
    "a sum is another fold": (
        moves,
        "summed",
        lambda x, how, names, sizes: SUMMED(x, OTHER[how], names, sizes),
    ),
    "a sum twice": (
        moves,
        "summed",
        lambda x, how, names, sizes: SUMMED(SUMMED(x, how, names, sizes)[0], "sum", names, sizes),
    ),
    "gathered in another order": (
        moves,
        "gathered",
        lambda x, axis, names, sizes: GATHERED(x, axis, names[::-1], sizes),
    ),
    "exchanged the other way": (
        moves,
        "exchanged",
        lambda x, old, new, names, sizes: EXCHANGED(x, new, old, names, sizes),
    ),
    "exchanged in another order": (
        moves,
        "exchanged",
        lambda x, old, new, names, sizes: EXCHANGED(x, old, new, names[::-1], sizes),
    ),
    "sliced along another axis": (
        moves,
        "sliced",
        lambda x, axis, names, sizes: SLICED(x, (axis + 1) % x.ndim, names, sizes),
    ),
    "positions minor first": (moves, "position", _reversed),
    "every piece the first": (moves, "position", _first),
    "starts are missing": (split, "start_of", lambda names, length, sizes: np.int32(0)),
    "starts of other pieces": (
        split,
        "start_of",
        lambda names, length, sizes: moves.start_of(names, length + 1, sizes),
    ),
    "passed on to others": (
        moves,
        "_pairs",
        lambda changed, names, sizes: PAIRS([(b, a) for a, b in changed], names, sizes),
    ),
    "nothing is passed on": (
        moves,
        "_pairs",
        lambda *a: tuple((i, i) for i, _ in enumerate(PAIRS(*a))),
    ),
    "shifted the other way": (
        windows.WindowedEquation,
        "shifted",
        lambda self, x, axis, names, by, size: SHIFTED(self, x, axis, names, -by, size),
    ),
    "shifted by one more": (
        windows.WindowedEquation,
        "shifted",
        lambda self, x, axis, names, by, size: SHIFTED(self, x, axis, names, by + 1, size),
    ),
    "not shifted": (windows.WindowedEquation, "shifted", lambda self, x, *_: x),
    "a rim too many": (
        windows.WindowedEquation,
        "between",
        lambda self, x, axis, names, start, stop: BETWEEN(self, x, axis, names, start, stop + 1),
    ),
    "a part that begins late": (
        windows.WindowedEquation,
        "between",
        lambda self, x, axis, names, start, stop: BETWEEN(self, x, axis, names, start + 1, stop),
    ),
    "nothing outside of parts": (
        windows,
        "_NEUTRAL",
        {n: lambda aval: aval.dtype.type(-50) for n in windows._NEUTRAL},
    ),
    "partial sums stay so": (
        split._Splitter,
        "settle",
        lambda self, piece, want, aval: setattr(piece, "owed", None),
    ),
    "linear is everything": (
        known,
        "_LINEAR",
        frozenset({"exp", "mul", "reduce_max", "sort", "add"}),
    ),
    "results swapped": (
        divide,
        "spec_of",
        lambda axes, cut: tuple(
            tuple(n for f in axis for n in cut.get(f, ())) for axis in axes[::-1]
        ),
    ),
    "windows that begin late": (
        rims,
        "_reached",
        lambda first, *rest: REACHED(first + 1, *rest),
    ),
    "rims of zeros": (rims.Rims, "passed", lambda self, x, *_: x * 0),
    "rims from the other side": (
        rims.Rims,
        "enlarged",
        lambda self, x, axis, names, left, right: ENLARGED(self, x, axis, names, right, left),
    ),
    "windows over what is around": (rims, "like", lambda value, x: x if x.ndim else value),
    "totals of the piece itself": (rims, "position", lambda *a: moves_position(*a) + np.int32(1)),
    "totals of nothing": (
        rims,
        "_FOLDS",
        {n: f._replace(merge=lambda a, b: b) for n, f in rims._FOLDS.items()},
    ),
    "folds from what is around": (
        rims,
        "_FOLDS",
        {n: f._replace(neutral=lambda a: a.dtype.type(3)) for n, f in rims._FOLDS.items()},
    ),
    "scattered without a sum": (
        moves,
        "scattered",
        lambda x, axis, names, sizes: SLICED(x, axis, names, sizes),
    ),
}


def test_without_a_fault_all_is_right():
    check()


def test_faults_are_found(monkeypatch):
    missed = []
    for name, (where, attribute, fault) in MUTANTS.items():
        with monkeypatch.context() as patch:
            patch.setattr(where, attribute, fault)
            try:
                check()
            except Exception:  # of any kind: shapes that do not fit are found too
                continue
        missed.append(name)
    divide.known.clear()
    assert len(missed) <= 0.05 * len(MUTANTS), missed
