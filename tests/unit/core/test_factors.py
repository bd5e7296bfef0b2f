"""Factors as data: pieces of shapes, and axes that consist of several factors."""

import numpy as np
import pytest

from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import Factors


def test_shapes_and_params_of_pieces():
    a, b, out = (ShapedArray(s, np.float32) for s in ((4, 6), (6, 8), (4, 8)))
    f = Factors.named(
        [a, b],
        [out],
        [["row", "sum"], ["sum", "column"]],
        [["row", "column"]],
        owed={"sum": "sum"},
        resize=lambda params, ins, outs: params | {"shape": outs[0]},
    )
    assert (f.ins, f.outs) == ((((0,), (1,)), ((1,), (2,))), (((0,), (2,)),))
    assert (f.sizes, f.owed) == ((4, 6, 8), {1: "sum"})
    assert f.shapes({0: 2, 1: 3, 2: 8}) == ([(2, 2), (2, 1)], [(2, 1)])
    assert f.local({"shape": (4, 8)}, {0: 2, 2: 4}) == {"shape": (2, 2)}


def test_cuts_of_an_axis_of_several_factors():
    split, whole = ShapedArray((3, 4), np.float32), ShapedArray((12,), np.float32)
    sizes = {"major": 3, "minor": 4}
    names = ["major", "minor"]
    f = Factors.named([split], [whole], [names], [[tuple(names)]], sizes=sizes)
    ((merged,),) = f.outs
    expected = {1: {}, 2: None, 3: {0: 3}, 4: None, 6: {0: 3, 1: 2}, 12: {0: 3, 1: 4}}
    for parts, cuts in expected.items():
        assert f.cuts_of(merged, parts) == cuts
        if cuts is not None:
            assert f.parts_of(merged, cuts) == parts
    assert f.parts_of(merged, {1: 2}) is None
    assert f.cuts_of((), 1) == {}
    assert f.cuts_of((), 2) is None


def test_factors_that_do_not_make_an_axis():
    a = ShapedArray((4, 6), np.float32)
    with pytest.raises(ValueError, match="'x' have 4 positions, and an axis of length 6"):
        Factors.named([a], [a], [["x", "x"]], [["x", "x"]])
