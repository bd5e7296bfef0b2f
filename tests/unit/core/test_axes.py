"""Named axes: who knows them, and for how long."""

import threading

import pytest

from gpuarray.core.axes import (
    NamedAxis,
    axis_env,
    axis_size,
    known_names,
    named_axes,
    typed_names,
)
from gpuarray.errors import UnboundAxisError


def test_the_innermost_axis_of_a_name_counts():
    with named_axes({"i": NamedAxis(4), "j": NamedAxis(3, typed=True)}):
        assert (axis_size("i"), axis_size("j")) == (4, 3)
        assert typed_names(("i", "j")) == {"j"}
        outer = axis_env()
        with named_axes({"i": NamedAxis(2)}):
            assert axis_size("i") == 2
            assert axis_env() != outer
        assert axis_size("i") == 4
        assert axis_env() == outer
        assert set(known_names()) == {"i", "j"}
    assert known_names() == []
    assert axis_env() == ()


def test_axes_end_with_an_error():
    with pytest.raises(ZeroDivisionError), named_axes({"i": NamedAxis(4)}):
        _ = 1 / 0
    assert known_names() == []


def test_unknown_names_are_told_with_the_known_ones():
    with (
        named_axes({"rows": NamedAxis(4), "columns": NamedAxis(2)}),
        pytest.raises(UnboundAxisError, match="unbound axis name: row.*columns, rows"),
    ):
        axis_size("row")
    with pytest.raises(UnboundAxisError, match="known here: none"):
        axis_size("i")


def test_each_thread_has_its_own():
    seen: list = []
    with named_axes({"i": NamedAxis(4)}):
        thread = threading.Thread(target=lambda: seen.append(known_names()))
        thread.start()
        thread.join()
    assert seen == [[]]
