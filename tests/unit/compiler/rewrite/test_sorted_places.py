"""Sorts of short rows of which few places are read write these alone.

In: medians, quantiles, the first few of each row. Out: what is written, and values of the simulator
against those of NumPy.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.golden import shape
from tests.support import simulated

simulated.need_compiler()

RANDOM = np.random.default_rng(0)
X = RANDOM.integers(-9, 9, (37, 24)).astype("f4")
HOLES = np.where(RANDOM.random((37, 24)) < 0.02, np.nan, X).astype("f4")
ODD = RANDOM.standard_normal((5, 9, 3)).astype("f4")


def payload(x, y):
    """What stands beside the smallest, and the second of all keys."""
    keys, values = lax.sort((x, y), dimension=1, num_keys=1)
    return values[:, 0], keys[:, 1]


def window(x):
    """The median of three by three around each point."""
    p = gnp.pad(x, 1, mode="edge")
    near = [p[i : i + x.shape[0], j : j + x.shape[1]] for i in range(3) for j in range(3)]
    return gnp.median(gnp.stack(near), axis=0)


#: name: (function, arguments, places that are kept)
FEW = {
    "median": (lambda x: gnp.median(x, axis=1), (X,), 3),
    "median, odd": (lambda x: gnp.median(x, axis=1), (ODD,), 2),
    "not a number": (lambda x: gnp.median(x, axis=1), (HOLES,), 3),
    "quantile": (lambda x: gnp.quantile(x, 0.9, axis=0), (X,), 3),
    "first": (lambda x: gnp.sort(x, axis=1)[:, :4] * 2, (X,), 4),
    "two runs": (lambda x: (s := gnp.sort(x, 1))[:, 1:3].sum(1) + s[:, -2], (X,), 3),
    "halves": (lambda x: gnp.sort(x.astype("bfloat16"), 1)[:, 5], (X,), 1),
    "doubles": (lambda x: gnp.sort(x, 1)[:, 5:7], (X.astype("f8"),), 2),
    "payload": (payload, (X, RANDOM.integers(0, 99, X.shape).astype("i4")), 2),
    "window": (window, (X,), 2),
}


def explained(name: str):
    function, arguments, _ = FEW[name]
    return ga.explain(function, platform="cuda")(*arguments)


def test_values():
    with ga.enable_x64(True):
        simulated.compare([(f, xs) for f, xs, _ in FEW.values()])


@pytest.mark.parametrize("name", FEW)
def test_places_that_are_kept(name):
    with ga.enable_x64(True):
        (sort,) = [s for s in explained(name).steps if s.kind == "sort"]
    assert f", {FEW[name][2]} places kept" in sort.source


@pytest.mark.parametrize(
    "function",
    [
        lambda x: gnp.sort(x, 1),
        lambda x: (s := gnp.sort(x, 1), s[:, 0])[1] + s.sum(1),
        lambda x: gnp.sort(x, 1)[:, ::3],
        lambda x: gnp.sort(x, 1)[:, :20],
        lambda x: gnp.sort(x, 1)[3, 4],
        lambda x: gnp.sort(x, 1)[:, gnp.int32(x[0, 0])],
    ],
)
def test_others_are_sorted_whole(function):
    steps = ga.explain(function, platform="cuda")(shape("float32", 37, 24)).steps
    assert not any("places kept" in (getattr(s, "source", "") or "") for s in steps)


def test_medians_read_each_row_once():
    rows = shape("float32", 1 << 20, 64)
    found = ga.explain(lambda x: gnp.median(x, axis=1), platform="cuda")(rows)
    assert found.launches == 2 and found.bytes_moved < 1.12 * 4 * 64 * (1 << 20)
