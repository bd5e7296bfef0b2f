"""Any layout to any layout: the right pieces, and no more sent than has to be."""

import itertools

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.core.grid import Spec
from gpuarray.transforms.partition.moves import received, steps_between
from gpuarray.transforms.partition.split import partition
from tests.support.devices import exchanges, grid_of, piece_of, places_of, run_pieces

SIZES = {"x": 4, "y": 2}


def layouts(names: tuple, ndim: int = 2) -> list[Spec]:
    """All ways to cut an array along some axes of a grid, in every order."""
    found = []
    for count in range(len(names) + 1):
        for some in itertools.permutations(names, count):
            for ends in itertools.combinations_with_replacement(range(count + 1), ndim - 1):
                at = (0, *ends, count)
                found.append(tuple(some[a:b] for a, b in itertools.pairwise(at)))
    return sorted(set(found))


def how(old: Spec, new: Spec, sizes: dict | None = None) -> list[str]:
    return [step.how for step in steps_between(old, new, sizes or SIZES)]


def test_what_is_sent():
    x, y, xy, no = ("x",), ("y",), ("x", "y"), ()
    assert how((x, no), (x, no)) == []
    # An axis that is cut further is a slice, which sends nothing.
    assert how((no, no), (x, y)) == ["slice", "slice"]
    assert how((x, no), (xy, no)) == ["slice"]
    # One that is cut no longer is gathered, and the others are not.
    assert how((xy, no), (x, no)) == ["all_gather"]
    assert how((x, y), (x, no)) == ["all_gather"]
    # An axis that changes places is exchanged.
    assert how((x, no), (no, x)) == ["all_to_all"]
    assert how((xy, no), (x, y)) == ["all_to_all"]
    assert how((x, y), (xy, no)) == ["all_to_all"]
    # First what sends nothing: then the exchange is of less.
    assert how((x, no), (no, ("y", "x"))) == ["slice", "all_to_all"]
    # The same pieces on other devices are passed on.
    assert how((xy, no), (("y", "x"), no)) == ["ppermute"]
    assert how((x, no), (y, no), {"x": 2, "y": 2}) == ["ppermute"]
    assert how((x, y), (y, x), {"x": 2, "y": 2}) == ["ppermute"]
    # What stays is made major, and only the rest is gathered.
    assert how((("y", "x"), no), (x, no)) == ["ppermute", "all_gather"]


def test_what_a_move_costs():
    x, no = ("x",), ()
    assert received((no, no), (x, no), 64, SIZES) == 0
    assert received((x, no), (no, no), 64, SIZES) == 48  # three pieces of 16
    assert received((x, no), (no, x), 64, SIZES) == 12  # of its piece a quarter stays


@pytest.mark.parametrize("shape", [(4, 2), (2, 2, 2)])
@pytest.mark.devices
def test_any_layout_to_any_layout(shape):
    grid = grid_of(shape)
    value = np.arange(64, dtype=np.float32).reshape(8, 8)
    graph = ga.make_jaxpr(lambda x: x)(value).jaxpr
    pairs = list(itertools.product(layouts(tuple(grid.sizes)), repeat=2))
    some = np.random.default_rng(0).permutation(len(pairs))[:200]
    for old, new in (pairs[i] for i in some):
        parts = partition(graph, [old], [new], grid)
        assert parts.outs == (new,)
        sent = exchanges(parts.local)
        gone = {n for names in old for n in names} - {n for names in new for n in names}
        swapped = all(set(a) & set(b) for a, b in zip(old, reversed(new), strict=True))
        if not gone and not swapped:
            # Every cut has a place, and no other cut is in the way: it is brought there.
            assert not sent["all_gather"], (old, new)
        if all(b[: len(a)] == a for a, b in zip(old, new, strict=True)):
            assert not sent, (old, new)
        assert sent.total() == len(parts.notes)
        for place, (found,) in zip(
            places_of(grid.sizes), run_pieces(parts, grid, [value]), strict=True
        ):
            np.testing.assert_array_equal(found, piece_of(value, new, place, grid.sizes))
