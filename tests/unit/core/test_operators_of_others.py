"""Operators of other classes: they get their turn, also those of classes of lists and tuples."""

import operator

import pytest

import gpuarray.numpy as gnp

#: Operators, and the method of the right operand that Python asks.
TURNS = {
    **{name: f"__r{name}__" for name in "add sub mul truediv floordiv mod pow matmul".split()},
    **{name: f"__r{name}__" for name in "lshift rshift xor".split()},
    "and_": "__rand__",
    "or_": "__ror__",
    "lt": "__gt__",
    "gt": "__lt__",
    "le": "__ge__",
    "ge": "__le__",
    "eq": "__eq__",
    "ne": "__ne__",
}


@pytest.mark.parametrize("base", [list, tuple, object])
@pytest.mark.parametrize("name", TURNS)
def test_the_other_operand_gets_its_turn(name, base):
    own = type("Own", (base,), {TURNS[name]: lambda self, other: "mine"})
    assert getattr(operator, name)(gnp.ones(3, "int32"), own()) == "mine"
    # Without an operator of its own, a class of lists is a list.
    if base is not object:
        plain = type("Plain", (base,), {})
        with pytest.raises(TypeError, match="'ArrayImpl' and 'Plain'. A Plain would be converted"):
            getattr(operator, name)(gnp.ones(3, "int32"), plain())
