"""Struct against a dataclass of the same fields: how it is made and printed, what it refuses."""

import copy
import dataclasses
import pickle
from typing import Any, ClassVar

import pytest

from gpuarray.util import Struct


class Point(Struct):
    x: int
    y: int = 2
    kind: ClassVar[str] = "point"


class Point3(Point):
    z: int = 3


class Node(Struct, frozen=False, eq=False):
    name: str
    children: list[Any] = []


@dataclasses.dataclass(frozen=True)
class Plain:
    x: int
    y: int = 2


CALLS = {
    "in order": lambda of: of(1, 5),
    "with a default": lambda of: of(1),
    "by name": lambda of: of(y=4, x=3),
    "both": lambda of: of(1, y=4),
    "nothing": lambda of: of(),
    "too many": lambda of: of(1, 2, 3),
    "twice": lambda of: of(1, x=1),
    "an unknown name": lambda of: of(1, w=3),
}


@pytest.mark.parametrize("how", CALLS)
def test_calls_are_those_of_a_dataclass(how):
    try:
        wanted = CALLS[how](Plain)
    except TypeError as e:
        with pytest.raises(TypeError) as refused:
            CALLS[how](Point)
        assert str(refused.value) == str(e).replace("Plain", "Point")
        return
    made = CALLS[how](Point)
    assert (made.x, made.y) == (wanted.x, wanted.y)
    assert repr(made) == repr(wanted).replace("Plain", "Point")
    assert hash(made) == hash(wanted)
    assert made == Point(wanted.x, wanted.y)
    assert made != wanted


def test_it_does_not_change():
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 3  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x  # pyright: ignore[reportAttributeAccessIssue]
    assert point.replace(y=7) == Point(1, 7)
    assert point == Point(1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'w'"):
        point.replace(w=7)


def test_subclasses_have_the_fields_of_their_base_first():
    assert Point3.__match_args__ == ("x", "y", "z")
    assert Point3(1) == Point3(1, 2, 3)
    assert Point3(1) != Point(1)
    match Point3(5, 6):
        case Point(x, y):
            assert (x, y) == (5, 6)


def test_what_may_change_is_compared_by_identity():
    one, other = Node("a"), Node("a")
    assert one != other
    assert len({one, other}) == 2
    one.children.append(other)
    assert other.children == Node("b").children == []
    one.name = "c"
    assert repr(one) == "Node(name='c', children=[Node(name='a', children=[])])"


def test_copies_and_pickles_are_equal():
    point = Point3(1, z=5)
    assert copy.copy(point) == copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point
