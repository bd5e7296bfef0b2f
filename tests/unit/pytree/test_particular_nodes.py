"""Nodes whose constructors look at what they are given: they get arrays, tracers or avals."""

import collections

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.pytree.tree import flatten_one_level


@ga.tree_util.register_pytree_node_class
class Diagonal:
    """A matrix by its diagonal: as TensorFlow Probability's operators, it checks in `__init__`."""

    def __init__(self, entries):
        if len(entries.shape) < 1 or not entries.dtype:
            raise ValueError("a diagonal has at least one dimension")
        self.entries = entries

    def tree_flatten(self):
        return (self.entries,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


double = lambda d: Diagonal(d.entries * 2)

TRANSFORMED = {
    "jit": ga.jit(double),
    "lower": lambda d: ga.jit(double).lower(d).compile()(d),
    "cond": lambda d: lax.cond(True, double, lambda d: d, d),
    "scan": lambda d: lax.scan(lambda c, _: (double(c), None), d, None, length=1)[0],
    "while": lambda d: lax.fori_loop(0, 1, lambda _, c: double(c), d),
    "vmap": lambda d: ga.vmap(lambda d, _: (double(d), 0), out_axes=(None, 0), in_axes=(None, 0))(
        d, gnp.arange(2)
    )[0],
    "pmap": lambda d: ga.pmap(lambda d, _: (double(d), 0), out_axes=(None, 0), in_axes=(None, 0))(
        d, gnp.arange(1)
    )[0],
    "checkpoint": ga.checkpoint(double),
    "vjp": lambda d: ga.vjp(double, d)[1](d)[0],
    "shapes": lambda d: double(d) if ga.eval_shape(double, d).entries.shape == (3,) else None,
}


@pytest.mark.parametrize("how", TRANSFORMED)
def test_a_node_that_checks_its_children(how):
    d = Diagonal(gnp.arange(3.0))
    for _ in range(2):  # the second call goes the fast way
        np.testing.assert_array_equal(TRANSFORMED[how](d).entries, [0.0, 2.0, 4.0])


def test_messages_about_such_a_node():
    d, longer = Diagonal(gnp.arange(3.0)), Diagonal(gnp.arange(4.0))
    with pytest.raises(TypeError, match="branches must have equal output types"):
        lax.cond(True, lambda: d, lambda: longer)
    with pytest.raises(TypeError, match="carry input and carry output must have equal types"):
        lax.fori_loop(0, 1, lambda *_: longer, d)


def test_children_of_the_root_are_a_list_where_the_container_has_an_order():
    Pair = collections.namedtuple("Pair", "a b")
    for tree, children in (
        ([1, 2], [1, 2]),
        ((1, 2), (1, 2)),
        (Pair(1, 2), [1, 2]),
        (collections.OrderedDict(b=1, a=2), [1, 2]),
        ({"b": 1, "a": 2}, (2, 1)),
        (None, ()),
    ):
        found = flatten_one_level(tree)[0]
        assert type(found) is type(children) and found == children
