"""Layouts: along which axes of a mesh a value may vary."""

import pickle

from gpuarray.core.layout import joined, names_of, varying


def test_equal_layouts_are_one_object():
    assert varying(["x", "y"]) is varying(("y", "x"))
    assert varying(["x"]) is not varying(["y"])
    assert pickle.loads(pickle.dumps(varying(["x"]))) is varying(["x"])
    assert repr(varying(["y", "x"])) == "Layout(varying={'x', 'y'})"


def test_nothing_is_none():
    assert varying([]) is None
    assert names_of(None) == frozenset()
    assert names_of(varying(["x"])) == {"x"}


def test_results_vary_where_an_operand_does():
    x, y = varying(["x"]), varying(["y"])
    assert joined([]) is None
    assert joined([None, None]) is None
    assert joined([None, x, x]) is x
    assert joined([x, None, y]) is varying(["x", "y"])
