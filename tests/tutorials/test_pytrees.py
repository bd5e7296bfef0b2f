"""The tutorials "pytrees" and "custom pytrees": what is a node, tree.map and its kin, key paths,
training with trees of parameters, classes registered, and the gotchas.
"""

import collections
import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import tree_util
from gpuarray.flatten_util import ravel_pytree

# ---- containers and leaves ----


@pytest.mark.parametrize(
    "tree, leaves",
    [
        ([1, "a", 2.5], [1, "a", 2.5]),
        ((1, (2, 3), ()), [1, 2, 3]),
        ([1, {"b": 2, "a": (3, 4)}, 5], [1, 3, 4, 2, 5]),
        ({"a": 2, "b": (2, None)}, [2, 2]),
        (None, []),
        (7, [7]),
        (collections.OrderedDict(z=1, a=2), [1, 2]),
        (collections.defaultdict(list, z=1, a=2), [2, 1]),
        ({1, 2}, [{1, 2}]),
    ],
)
def test_leaves(tree, leaves):
    assert jax.tree.leaves(tree) == leaves
    flat, structure = jax.tree.flatten(tree)
    assert flat == leaves and jax.tree.unflatten(structure, flat) == tree
    assert structure.num_leaves == len(leaves)


def test_an_array_is_a_leaf():
    (leaf,) = jax.tree.leaves(jnp.array([1, 2, 3]))
    assert leaf.shape == (3,)


@pytest.mark.parametrize(
    "tree, text",
    [
        ([1.0, (2.0, 3.0)], "PyTreeDef([*, (*, *)])"),
        ((1.0, {"b": 2.0, "a": 3.0}), "PyTreeDef((*, {'a': *, 'b': *}))"),
        (1.0, "PyTreeDef(*)"),
        (object, "PyTreeDef(*)"),
        (None, "PyTreeDef(None)"),
        ((1,), "PyTreeDef((*,))"),
        ([], "PyTreeDef([])"),
    ],
)
def test_structures(tree, text):
    assert str(jax.tree.structure(tree)) == text


def test_map():
    rows = [[1, 2, 3], [1, 2], [1, 2, 3, 4]]
    assert jax.tree.map(lambda x: x * 2, rows) == [[2, 4, 6], [2, 4], [2, 4, 6, 8]]
    assert jax.tree.map(lambda x, y: x + y, rows, rows)[1] == [2, 4]
    assert jax.tree.map(lambda x, y: (x, y), {"a": 1}, {"a": [2, 3]}) == {"a": (1, [2, 3])}
    for other in ([1, 2, 3], (1, 2)):
        with pytest.raises(ValueError, match="[Ee]xpected|mismatch|different"):
            jax.tree.map(lambda x, y: x, [1, 2], other)


def test_reduce_and_all():
    tree = {"a": [1, 2], "b": 3}
    assert jax.tree.reduce(lambda x, y: x + y, tree) == 6
    assert jax.tree.reduce(lambda x, y: x + y, tree, 10) == 16
    assert jax.tree.all({"a": True, "b": (1, True)}) and not jax.tree.all([True, False])


def test_structure_prefixes():
    outer = jax.tree.structure([0, 0])
    inner = jax.tree.structure({"t": 0, "s": 0})
    steps = [{"t": 1, "s": 3}, {"t": 2, "s": 4}]
    expected = {"s": [3, 4], "t": [1, 2]}
    assert jax.tree.transpose(outer, inner, steps) == expected
    assert jax.tree.transpose(outer, None, steps) == expected
    assert jax.tree.map(lambda *xs: list(xs), *steps) == expected
    assert jax.tree.broadcast(1, {"a": 0, "b": [0, 0]}) == {"a": 1, "b": [1, 1]}


# ---- parameters ----


def layers(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"w": jax.random.normal(k, (m, n)) * np.sqrt(2 / m), "b": jnp.ones(n)}
        for k, m, n in zip(keys, sizes[:-1], sizes[1:])
    ]


def test_shapes_of_parameters():
    params = layers(jax.random.key(0), [1, 16, 1])
    assert jax.tree.map(jnp.shape, params) == [
        {"b": (16,), "w": (1, 16)},
        {"b": (1,), "w": (16, 1)},
    ]


def test_training_a_network():
    def forward(params, x):
        *hidden, last = params
        for p in hidden:
            x = jax.nn.relu(x @ p["w"] + p["b"])
        return x @ last["w"] + last["b"]

    def loss(params, x, y):
        return jnp.mean((forward(params, x) - y) ** 2)

    @jax.jit
    def update(params, x, y):
        grads = jax.grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)

    params = layers(jax.random.key(1), [1, 32, 32, 1])
    x = jnp.linspace(-2, 2, 32)[:, None]
    y = x**2
    before = float(loss(params, x, y))
    structure = jax.tree.structure(params)
    for _ in range(60):
        params = update(params, x, y)
    assert jax.tree.structure(params) == structure
    assert float(loss(params, x, y)) < 0.2 * before


# ---- key paths ----

Named = collections.namedtuple("Named", ["name"])
TREE = [1, {"k1": 2, "k2": (3, 4)}, Named("foo")]


def test_key_paths():
    found, _ = jax.tree_util.tree_flatten_with_path(TREE)
    assert [(tree_util.keystr(path), value) for path, value in found] == [
        ("[0]", 1),
        ("[1]['k1']", 2),
        ("[1]['k2'][0]", 3),
        ("[1]['k2'][1]", 4),
        ("[2].name", "foo"),
    ]
    assert [repr(path) for path, _ in found] == [
        "(SequenceKey(idx=0),)",
        "(SequenceKey(idx=1), DictKey(key='k1'))",
        "(SequenceKey(idx=1), DictKey(key='k2'), SequenceKey(idx=0))",
        "(SequenceKey(idx=1), DictKey(key='k2'), SequenceKey(idx=1))",
        "(SequenceKey(idx=2), GetAttrKey(name='name'))",
    ]


def test_maps_that_see_the_path():
    out = jax.tree.map_with_path(lambda path, x: f"{tree_util.keystr(path)}={x}", TREE)
    assert out[1]["k2"] == ("[1]['k2'][0]=3", "[1]['k2'][1]=4")
    short = [
        tree_util.keystr(p, simple=True, separator="/") for p, _ in jax.tree.leaves_with_path(TREE)
    ]
    assert short == ["0", "1/k1", "1/k2/0", "1/k2/1", "2/name"]


# ---- gotchas ----


def test_shapes_are_trees():
    arrays = [jnp.zeros((2, 3)), jnp.zeros((3, 4))]
    wrong = jax.tree.map(jnp.ones, jax.tree.map(lambda x: x.shape, arrays))
    assert [tuple(x.shape for x in pair) for pair in wrong] == [((2,), (3,)), ((3,), (4,))]
    right = jax.tree.map(
        jnp.ones, [x.shape for x in arrays], is_leaf=lambda s: isinstance(s, tuple)
    )
    assert [x.shape for x in right] == [(2, 3), (3, 4)]


def test_none_is_no_leaf():
    assert jax.tree.leaves([None, None]) == []
    assert jax.tree.leaves([None, None], is_leaf=lambda x: x is None) == [None, None]
    with pytest.raises(ValueError):
        jax.tree.map(lambda x, y: x, {"a": None}, {"a": 1})


def test_keys_that_do_not_compare():
    with pytest.raises(ValueError, match="Comparator raised exception while sorting pytree dict"):
        jax.tree.map(lambda x: x + 1, {1: 7, "y": 42})


# ---- classes of one's own ----


class Pair:
    def __init__(self, x, y):
        self.x, self.y = x, y


class Registered(Pair):
    def __repr__(self):
        return f"Registered({self.x}, {self.y})"


tree_util.register_pytree_node(
    Registered, lambda p: ((p.x, p.y), None), lambda _, children: Registered(*children)
)


@tree_util.register_pytree_node_class
class Decorated(Pair):
    def tree_flatten(self):
        return (self.x,), self.y

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children, aux)


def test_an_unknown_class_is_a_leaf():
    pairs = [Pair(0, 1), Pair(2, 4)]
    assert jax.tree.leaves(pairs) == pairs
    with pytest.raises(TypeError, match=r"unsupported operand type.*'Pair' and 'int'"):
        jax.tree.map(lambda x: x + 1, pairs)


def test_a_registered_class_is_a_node():
    out = jax.tree.map(lambda x: x + 1, [Registered(0, 1), Registered(2, 4)])
    assert repr(out) == "[Registered(1, 2), Registered(3, 5)]"
    assert jax.tree.leaves(Decorated(1, "static")) == [1]
    assert jax.tree.map(lambda x: x * 2, Decorated(1, "static")).y == "static"
    got = jax.jit(lambda d: d.x * len(d.y))(Decorated(3, "four"))
    assert int(got) == 12


def test_registering_twice():
    with pytest.raises(ValueError, match="[Dd]uplicate"):
        tree_util.register_pytree_node(Registered, lambda p: ((), None), lambda _, c: None)


def test_structures_with_different_aux_differ():
    a, b = Decorated(1, "s"), Decorated(2, "t")
    assert jax.tree.structure(a) != jax.tree.structure(b)
    with pytest.raises(ValueError, match="mismatch|[Ee]xpected|different"):
        jax.tree.map(lambda x, y: x, a, b)


class Box(NamedTuple):
    name: str
    a: Any
    b: Any


@functools.partial(tree_util.register_dataclass, data_fields=["a", "b"], meta_fields=["name"])
@dataclasses.dataclass
class DataBox:
    name: str
    a: Any
    b: Any


@tree_util.register_dataclass
@dataclasses.dataclass
class Inferred:
    a: Any
    kind: str = dataclasses.field(metadata={"static": True})


def test_named_tuples_and_dataclasses():
    assert jax.tree.leaves([Box("x", 1, 2), Box("y", 3, 4)]) == ["x", 1, 2, "y", 3, 4]
    assert jax.tree.leaves([DataBox("x", 5.3, 1.2), DataBox("y", 3, None)]) == [5.3, 1.2, 3]
    assert jax.tree.leaves(Inferred(4, "k")) == [4]
    assert (
        str(tree_util.tree_flatten_with_path(DataBox("x", 1, 2))[0][1][0])
        == "(GetAttrKey(name='b'),)"
    )


def test_strings_in_named_tuples_are_no_arguments():
    f = jax.jit(lambda box: box.a + box.b)
    assert int(f(DataBox("static", 1, 2))) == 3
    with pytest.raises(
        TypeError, match=r"abstract array.*<class 'str'>.*at path box\.name"
    ) as caught:
        f(Box("leaf", 1, 2))
    assert "problematic value" in str(caught.value)


class Converting:
    """Its constructor wants an array: transformations hand it other things."""

    def __init__(self, a):
        self.a = jnp.asarray(a)


class Careful(Converting):
    """Put together again without its constructor."""

    @classmethod
    def from_children(cls, _, children):
        new = object.__new__(cls)
        (new.a,) = children
        return new


tree_util.register_pytree_node(Converting, lambda t: ((t.a,), None), lambda _, c: Converting(*c))
tree_util.register_pytree_node(Careful, lambda t: ((t.a,), None), Careful.from_children)


def test_constructors_that_convert():
    out = jax.vmap(lambda x: x)(Converting(jnp.arange(5.0)))
    assert out.a.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises((TypeError, ValueError), match="not a valid"):
        jax.jacobian(lambda x: x)(Converting(jnp.arange(2.0)))
    j = jax.jacobian(lambda x: x)(Careful(jnp.arange(2.0)))
    assert j.a.a.tolist() == [[1, 0], [0, 1]]


def test_partial_is_a_node():
    f = tree_util.Partial(jnp.add, jnp.ones(2))
    assert len(jax.tree.leaves(f)) == 1
    assert jax.jit(lambda f, x: f(x))(f, 1.0).tolist() == [2, 2]


def test_ravel_a_tree():
    flat, unravel = ravel_pytree({"a": jnp.arange(3.0), "b": (1.0, jnp.ones((1, 2)))})
    assert flat.tolist() == [0, 1, 2, 1, 1, 1]
    assert unravel(flat * 2)["b"][1].tolist() == [[2, 2]]
