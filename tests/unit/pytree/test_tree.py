"""Pytrees: what is a node, what a structure is and compares to, paths, prefixes, registration.

In: tables of trees with their leaves and printed structure (the reference's own), random trees, and
misuse with the error it must give. Out: assertions on pytree/tree.py through the public namespaces.
"""

import collections
import copy
import dataclasses
import enum
import functools
import gc
import pickle
import threading
import time
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuarray import tree
from gpuarray import tree_util as tu
from gpuarray.pytree import kinds as treekinds
from gpuarray.pytree import structure as treedef
from gpuarray.pytree import tree as core

OD, DD = collections.OrderedDict, collections.defaultdict
Pt = collections.namedtuple("Pt", "x y")


class SubPt(Pt):
    pass


class SubDict(dict):
    pass


class SubTuple(tuple):
    pass


class Color(enum.StrEnum):
    RED = "r"
    GREEN = "g"


class Node:
    """Registered without keys; any number of children, any aux data."""

    def __init__(self, *children, aux=None):
        self.children, self.aux = children, aux

    def __eq__(self, other):
        return type(other) is Node and (self.children, self.aux) == (other.children, other.aux)

    __hash__ = None  # type: ignore[assignment]


class Named:
    """Registered with keys."""

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __eq__(self, other):
        return type(other) is Named and (self.a, self.b) == (other.a, other.b)

    __hash__ = None  # type: ignore[assignment]


tu.register_pytree_node(Node, lambda n: (n.children, n.aux), lambda aux, c: Node(*c, aux=aux))
tu.register_pytree_with_keys(
    Named,
    lambda n: (((tu.GetAttrKey("a"), n.a), (tu.GetAttrKey("b"), n.b)), None),
    lambda _, c: Named(*c),
)


@tu.register_dataclass
@dataclasses.dataclass
class Data:
    x: object
    y: object = 0
    mode: str = dataclasses.field(default="s", metadata={"static": True})


@tu.register_static
@dataclasses.dataclass(frozen=True)
class Setting:
    value: object


# tree, its leaves, its structure in print, its paths
TREES = [
    (1, [1], "*", [""]),
    (None, [], "None", []),
    ((), [], "()", []),
    ([], [], "[]", []),
    ({}, [], "{}", []),
    ((1,), [1], "(*,)", ["[0]"]),
    ((1, 2), [1, 2], "(*, *)", ["[0]", "[1]"]),
    ([1, [2]], [1, 2], "[*, [*]]", ["[0]", "[1][0]"]),
    ([None, 1], [1], "[None, *]", ["[1]"]),
    ({"b": 1, "a": (2, 3)}, [2, 3, 1], "{'a': (*, *), 'b': *}", ["['a'][0]", "['a'][1]", "['b']"]),
    ({2: 1, 1: 2}, [2, 1], "{1: *, 2: *}", ["[1]", "[2]"]),
    ({(1, 2): 3, (0, 5): 4}, [4, 3], "{(0, 5): *, (1, 2): *}", ["[(0, 5)]", "[(1, 2)]"]),
    ({None: 1}, [1], "{None: *}", ["[None]"]),
    (OD(b=1, a=2), [1, 2], "CustomNode(OrderedDict[('b', 'a')], [*, *])", ["['b']", "['a']"]),
    (
        OD([((1, 2), 3), ("a", 4)]),
        [3, 4],
        "CustomNode(OrderedDict[((1, 2), 'a')], [*, *])",
        ["[(1, 2)]", "['a']"],
    ),
    (
        DD(int, b=1, a=2),
        [2, 1],
        "CustomNode(defaultdict[(<class 'int'>, ('a', 'b'))], [*, *])",
        ["['a']", "['b']"],
    ),
    (DD(None), [], "CustomNode(defaultdict[(None, ())], [])", []),
    (Pt(1, (2,)), [1, 2], "CustomNode(namedtuple[Pt], [*, (*,)])", [".x", ".y[0]"]),
    (SubPt(1, 2), [1, 2], "CustomNode(namedtuple[SubPt], [*, *])", [".x", ".y"]),
    (
        Node(1, 2),
        [1, 2],
        "CustomNode(Node[None], [*, *])",
        ["[<flat index 0>]", "[<flat index 1>]"],
    ),
    (Node(1, aux="q"), [1], "CustomNode(Node[q], [*])", ["[<flat index 0>]"]),
    (Node(1, aux=[1]), [1], "CustomNode(Node[[1]], [*])", ["[<flat index 0>]"]),
    (Named([1], None), [1], "CustomNode(Named[None], [[*], None])", [".a[0]"]),
    (Data(1, [2]), [1, 2], "CustomNode(Data[('s',)], [*, [*]])", [".x", ".y[0]"]),
    (Setting(3), [], "CustomNode(Setting[Setting(value=3)], [])", []),
]
LEAVES = [
    SubDict(a=1),
    SubTuple((1, 2)),
    collections.deque([1]),
    time.gmtime(0),
    {1, 2},
    "abc",
    np.ones(2),
    int,
]


@pytest.mark.parametrize("x, leaves, shown, paths", TREES, ids=[t[2] for t in TREES])
def test_a_tree_comes_apart_and_goes_together(x, leaves, shown, paths):
    got, spec = tu.tree_flatten(x)
    assert got == leaves
    assert repr(spec) == str(spec) == f"PyTreeDef({shown})"
    back = tu.tree_unflatten(spec, got)
    assert back == x and type(back) is type(x)
    assert [tu.keystr(p) for p, _ in tu.tree_leaves_with_path(x)] == paths
    assert tu.tree_flatten_with_path(x) == ([*zip(core_paths(x), leaves)], spec)
    assert core.flatten_with_is_leaf(x, lambda _: False) == (leaves, spec)
    assert spec.flatten_up_to(x) == leaves
    assert spec.num_leaves == len(leaves)
    assert spec.num_nodes == 1 + sum(c.num_nodes for c in spec.children())
    node_data = spec.node_data()
    again = tu.PyTreeDef.from_node_data_and_children(
        tu.default_registry, node_data, spec.children()
    )
    assert again is spec
    if node_data is not None:
        assert tu.is_tree_node(type(x))
        children, _ = tu.flatten_one_level(x)
        assert [tu.tree_structure(c) for c in children] == spec.children()
        pairs, _ = tu.flatten_one_level_with_keys(x)
        assert all(c is d for (_, c), d in zip(pairs, children, strict=True))


def core_paths(x):
    return [path for path, _ in core.flatten_with_path(x)[0]]


@pytest.mark.parametrize("x", LEAVES, ids=repr)
def test_everything_else_is_a_leaf(x):
    leaves, spec = tu.tree_flatten([x])
    assert leaves[0] is x and repr(spec) == "PyTreeDef([*])"
    assert tu.all_leaves([x]) and not tu.is_tree_node(type(x))
    assert tu.default_registry.flatten_one_level(x) is None
    with pytest.raises(ValueError, match="can't tree-flatten type"):
        tu.flatten_one_level(x)


def test_the_order_of_a_dict_is_that_of_its_sorted_keys_after_unflatten_too():
    assert list(tu.tree_map(lambda v: v, {"b": 1, "a": 2})) == ["a", "b"]
    assert list(tu.tree_map(lambda v: v, {"b": [1], "a": 2})) == ["a", "b"]
    assert list(tu.tree_map(lambda v: v, OD(b=1, a=2))) == ["b", "a"]


containers = st.recursive(
    st.one_of(st.integers(), st.none(), st.just("leaf")),
    lambda t: st.one_of(
        st.lists(t, max_size=4),
        st.lists(t, max_size=4).map(tuple),
        st.dictionaries(st.sampled_from("abcdef"), t, max_size=4),
        st.dictionaries(st.integers(0, 5), t, max_size=3),
        st.dictionaries(st.sampled_from("abc"), t, max_size=3).map(OD),
        st.tuples(t, t).map(lambda p: Pt(*p)),
        st.tuples(t, t).map(lambda p: Node(*p, aux="aux")),
        st.tuples(t, t).map(lambda p: Data(*p)),
    ),
    max_leaves=25,
)


@given(containers)
def test_random_trees(x):
    leaves, spec = tu.tree_flatten(x)
    assert tu.tree_unflatten(spec, leaves) == x
    assert tu.tree_unflatten(spec, iter(leaves)) == x
    assert tu.tree_structure(copy.deepcopy(x)) is spec
    assert core.flatten_with_is_leaf(x, lambda _: None)[1] is spec
    assert tu.tree_structure(spec.unflatten(range(spec.num_leaves))) is spec
    assert pickle.loads(pickle.dumps(spec)) is spec and copy.deepcopy(spec) is spec
    assert spec.compose(tu.tree_structure(0)) is spec
    assert spec.compose(tu.tree_structure([0, 0])).num_leaves == 2 * len(leaves)
    assert tu.tree_map(lambda a, b: (a, b), x, x) == spec.unflatten([(v, v) for v in leaves])
    assert tu.tree_broadcast(7, x) == spec.unflatten([7] * len(leaves))
    assert core.prefix_broadcast(x, x) == leaves
    assert not core.prefix_errors(x, x) and not [*core.equality_errors(x, x)]
    assert spec.walk(lambda c, _: sum(c), lambda _: 1, leaves) == len(leaves)


@given(containers, containers)
def test_random_pairs(x, y):
    one, two = tu.tree_structure(x), tu.tree_structure(y)
    assert (one == two) is (one is two) is (repr(one) == repr(two))
    assert (one == two) is not bool([*core.equality_errors_treedef(one, two)])
    try:
        one.flatten_up_to(y)
    except ValueError:
        assert core.prefix_errors(x, y)
        with pytest.raises(ValueError, match="pytree structure error: different"):
            tu.tree_map(lambda a, b: a, x, y)
    else:
        assert not core.prefix_errors(x, y)


# --- structures as keys ---------------------------------------------------------------------------


def test_the_same_structure_is_the_same_object():
    assert tu.tree_structure({"a": (1, [2])}) is tu.tree_structure(
        {"a": ("x", [None and 0, 5][1:])}
    )
    assert tu.tree_structure(Data(1, mode="m")) is tu.tree_structure(Data(2, mode="m"))
    assert len({tu.tree_structure(x) for x in [(1, 2), [1, 2], {"a": 1, "b": 1}, 1, None]}) == 5


def test_equal_keys_and_aux_data_are_not_mixed_up():
    """1 == True == 1.0, and an enum member equals its string: each must come back as it was."""
    same = tu.tree_map
    for key in (1, True, 1.0, "r", Color.RED):
        assert [*map(type, same(lambda v: v, {key: 0}))] == [type(key)]
        assert [*map(type, same(lambda v: v, OD({key: 0})))] == [type(key)]
        assert type(same(lambda v: v, Node(0, aux=key)).aux) is type(key)
        assert type(same(lambda v: v, Node(0, aux=("a", (key,)))).aux[1][0]) is type(key)
        assert type(same(lambda v: v, Setting(key)).value) is type(key)
    assert tu.tree_structure({1: 0}) == tu.tree_structure({True: 0})
    assert hash(tu.tree_structure({1: 0})) == hash(tu.tree_structure({True: 0}))
    assert tu.tree_structure(Node(0, aux=1)) == tu.tree_structure(Node(0, aux=True))


def test_metadata_decides_and_hash_never_fails():
    one, two = (tu.tree_structure([Node(1, aux=[k])]) for k in (1, 2))
    assert one != two and one == tu.tree_structure([Node(1, aux=[1])])
    assert hash(one) == hash(tu.tree_structure([Node(1, aux=[1])]))
    array = Node(1, aux=np.ones(2))
    assert tu.tree_structure(array) == tu.tree_structure(array)
    assert isinstance(hash(tu.tree_structure(array)), int)
    with pytest.raises(ValueError, match="Exception raised while checking equality of metadata"):
        assert tu.tree_structure(array) == tu.tree_structure(Node(1, aux=np.ones(2)))


def test_comparison_with_something_else():
    spec = tu.tree_structure((1, 2))
    assert spec != 1 and spec != None and spec != "PyTreeDef((*, *))"  # noqa: E711
    with pytest.raises(TypeError, match="not supported"):
        assert spec < spec
    with pytest.raises(TypeError, match="no constructor"):
        tu.PyTreeDef()


def test_structures_do_not_keep_a_users_objects():
    class Big:
        pass

    aux = Big()
    gone = weakref.ref(aux)
    tu.tree_map(lambda v: v, [Node(1, aux=aux)])
    del aux
    gc.collect()
    assert gone() is None


def test_the_tables_stay_bounded():
    interned = len(treedef._interned)
    for i in range(3000):
        tu.tree_structure({f"key {i}": 1, "other": (i,) * (i % 7)})
        tu.tree_structure(type(f"Leaf{i}", (), {})())
    assert len(treedef._interned) <= interned + 1024 + 8
    for i in range(6000):
        tu.tree_structure([type("Leaf", (), {})(), {f"k{i}": 0}])
    assert len(treekinds.kinds) < 6000 and len(treekinds.orders) <= 4096 + 1
    # What was dropped is found again, in its kind.
    assert (
        repr(tu.tree_structure([SubTuple(), {"key 0": 1}, {}]))
        == "PyTreeDef([*, {'key 0': *}, {}])"
    )


def test_threads_agree():
    trees = [{"a": [(i,) * (i % 5)], f"k{i % 50}": Pt(i, {"z": i})} for i in range(400)]
    found: list = []

    def work():
        specs = [tu.tree_structure(x) for x in trees]
        found.append(specs)
        assert [s.unflatten(tu.tree_leaves(x)) for s, x in zip(specs, trees, strict=True)] == trees

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 8 and all(specs == found[0] for specs in found)


# --- functions ------------------------------------------------------------------------------------


def is_tuple(x):
    return isinstance(x, tuple)


def is_none(x):
    return x is None


def add(x, y=0):
    return x + y


S = tu.tree_structure
TWO = S((1, 2))
RESULTS = [
    (lambda: tu.tree_flatten([(1, 2), [3]], is_tuple), ([(1, 2), 3], S([0, [0]]))),
    (lambda: tu.tree_leaves([1, None], is_leaf=is_none), [1, None]),
    (lambda: tu.tree_leaves([1], lambda x: True), [[1]]),
    (lambda: tu.tree_unflatten(TWO, [None, (1, 2)]), (None, (1, 2))),
    (lambda: tu.tree_unflatten(TWO, {"x": 1, "y": 2}), ("x", "y")),
    (lambda: tu.tree_map(lambda a, b, c: a + b + c, [1, 2], [3, 4], [5, 6]), [9, 12]),
    (lambda: tu.tree_map(lambda a, b: (a, b), [1, [2]], [[5], [6]]), [(1, [5]), [(2, 6)]]),
    (lambda: tu.tree_map(lambda a, b: (a, b), 5, None), (5, None)),
    (lambda: tu.tree_map(lambda a, b: (a, b), [None], [4], is_leaf=is_none), [(None, 4)]),
    (lambda: tu.tree_map(lambda a, b: (a, b), {True: 1}, {1: 2}), {True: (1, 2)}),
    (lambda: tu.tree_map(lambda x: None, [1, 2]), [None, None]),
    (lambda: tu.tree_map(3, []), []),
    (lambda: tu.tree_all([True, 1, None]), True),
    (lambda: tu.tree_all([None], is_leaf=is_none), False),
    (lambda: tu.tree_reduce(add, [1, (2, 3)], 10), 16),
    (lambda: tu.tree_reduce(add, [], 7), 7),
    (lambda: tu.tree_reduce(lambda a, b: (a, b), [1], None), (None, 1)),
    (lambda: tu.tree_reduce(add, [(1,), (2,)], (), is_tuple), (1, 2)),
    (
        lambda: tu.tree_reduce_associative(lambda a, b: f"({a}{b})", list("abcdefghi")),
        "(((ab)(cd))((ef)(g(hi))))",
    ),
    (lambda: tu.tree_reduce_associative(add, [], identity=5), 5),
    (lambda: tu.tree_reduce_associative(add, [1, 2], identity=5), 3),
    (lambda: tu.all_leaves([1, (2,)]), False),
    (lambda: tu.all_leaves([1, (2,)], is_tuple), True),
    (
        lambda: tu.tree_transpose(S({"a": 0, "b": 0}), S((0, 0)), {"a": (1, 2), "b": (4, 5)}),
        ({"a": 1, "b": 4}, {"a": 2, "b": 5}),
    ),
    (lambda: tu.tree_transpose(S([0, 0]), None, [(1, 2), (3, 4)]), ([1, 3], [2, 4])),
    (lambda: tu.tree_transpose(S([0]), S(()), [()]), ()),
    (lambda: tu.treedef_tuple([S(1), S([1])]), S((1, [1]))),
    (lambda: [*map(tu.treedef_is_leaf, [S(1), S(()), S(None), S((1,))])], [True] * 3 + [False]),
    (lambda: tu.treedef_children(S([1, (2,)])), [S(1), S((1,))]),
    (lambda: S(None).compose(S([1])), S(None)),
    (lambda: S({"a": 1, "b": (2, 3)}).from_iterable_tree([5, [6, 7]]), {"a": 5, "b": (6, 7)}),
    (
        lambda: S([1, Node(2, aux=3), Pt(1, 2), {"k": None}]).walk(
            lambda c, data: (c, data), None, [10, 20, 30, 40]
        ),
        ((10, ((20,), 3), ((30, 40), Pt), ((((), None),), ["k"])), None),
    ),
    (lambda: tu.tree_broadcast((1, 2), ({"a": 1}, [2, 3])), ({"a": 1}, [2, 2])),
    (lambda: tu.tree_broadcast(0, [None, 1]), [None, 0]),
    (lambda: tu.tree_broadcast([None, 1], [1, (2, 3)], is_leaf=is_none), [None, (1, 1)]),
    (lambda: core.prefix_broadcast((None, 0), (1, (2, 3)), is_leaf=is_none), [None, 0, 0]),
    (lambda: core.leaf_paths({"b": 1, "a": [2]}), ["['a'][0]", "['b']"]),
    (
        lambda: tu.tree_map_with_path(lambda p, x, y: (tu.keystr(p), x, y), {"a": [1]}, {"a": [3]}),
        {"a": [("['a'][0]", 1, 3)]},
    ),
    (
        lambda: tu.tree_map_with_path(
            lambda p, x: (len(p), x),
            [(1, 2), [3]],
            is_leaf=lambda p, x: len(p) == 1,
            is_leaf_takes_path=True,
        ),
        [(1, (1, 2)), (1, [3])],
    ),
    (
        lambda: tu.tree_leaves_with_path([None], is_leaf=is_none),
        [((tu.SequenceKey(0),), None)],
    ),
    (lambda: tu.flatten_one_level(Pt(1, 2)), ([1, 2], Pt)),
    (lambda: tu.flatten_one_level(None), ((), None)),
    (lambda: tu.default_registry.flatten([1, (2,)], is_tuple), ([1, (2,)], S([1, 2]))),
    (lambda: tu.default_registry.flatten_with_path([1]), ([((tu.SequenceKey(0),), 1)], S([1]))),
    (lambda: tu.default_registry.is_node(list), True),
    (lambda: tu.Partial(add, y=2)(1), 3),
    (lambda: tu.tree_leaves(tu.Partial(add, 1, y=2)), [1, 2]),
    (lambda: tu.tree_leaves(tu.Partial(functools.partial(add, 1), 2)), [2]),
    (lambda: tu.tree_map(lambda v: 10 * v, tu.Partial(tu.Partial(add, 1), y=2))(), 21),
    (lambda: S(tu.Partial(add, 1)) == S(tu.Partial(add, 2)), True),
    (lambda: S(tu.Partial(tu.Partial(add))) == S(tu.Partial(tu.Partial(add))), False),
    (lambda: tree.static(default=3, metadata={"a": 1}).metadata, {"static": True, "a": 1}),
]


@pytest.mark.parametrize("call, expected", RESULTS, ids=range(len(RESULTS)))
def test_result(call, expected):
    assert call() == expected


def test_is_leaf_sees_every_subtree_on_the_way_down():
    seen: list = []
    tu.tree_flatten({"b": [1, None], "a": (2,)}, is_leaf=seen.append)
    assert seen == [{"b": [1, None], "a": (2,)}, (2,), 2, [1, None], 1, None]


def test_keys_of_paths():
    keys = [tu.SequenceKey(0), tu.DictKey("a"), tu.GetAttrKey("b"), tu.FlattenedIndexKey(3)]
    assert tu.keystr((*keys, "raw", 5)) == "[0]['a'].b[<flat index 3>]raw5"
    assert tu.keystr((*keys, "raw"), simple=True, separator="/") == "0/a/b/3/raw"
    assert tu.keystr(()) == ""
    assert len({*keys, *keys}) == 4 and tu.SequenceKey(3) != tu.FlattenedIndexKey(3)
    assert [repr(k) for k in keys[:2]] == ["SequenceKey(idx=0)", "DictKey(key='a')"]
    for key in keys:
        assert pickle.loads(pickle.dumps(key)) == key
        with pytest.raises(AttributeError):
            setattr(key, key.__match_args__[0], 1)


def test_partial_is_a_functools_partial():
    p = tu.Partial(max, 1, key=abs)
    assert isinstance(p, functools.partial)
    assert (p.args, p.keywords) == ((1,), {"key": abs})
    # Python 3.13 writes the module in front.
    assert repr(tu.Partial(max, 1)).endswith("Partial(<built-in function max>, 1)")
    assert pickle.loads(pickle.dumps(tu.Partial(max, 1))).args == (1,)
    assert pickle.loads(pickle.dumps(S([tu.Partial(max, 1)]))) == S([tu.Partial(max, 0)])


# --- registration ---------------------------------------------------------------------------------


def make_dataclass(**kwargs):
    @dataclasses.dataclass(**kwargs)
    class C:
        x: int = 1
        y: int = 2
        mode: str = tree.static(default="s")

    return C


@pytest.mark.parametrize("kwargs", [{}, {"frozen": True}, {"kw_only": True}, {"slots": True}])
def test_dataclasses(kwargs):
    cls = tu.register_dataclass(make_dataclass(**kwargs))
    leaves, spec = tu.tree_flatten(cls(x=5, y=(6, 7)))
    assert leaves == [5, 6, 7] and str(spec) == "PyTreeDef(CustomNode(C[('s',)], [*, (*, *)]))"
    assert spec.unflatten("abc") == cls(x="a", y=("b", "c"))
    assert S(cls(mode="t")) != S(cls())


def test_fields_can_be_named_and_dropped():
    cls = make_dataclass()
    tu.register_dataclass(cls, data_fields=["y"], meta_fields=["mode"], drop_fields=["x"])
    assert tu.tree_map(lambda v: -v, cls(8, 9, "t")) == cls(1, -9, "t")
    cls = make_dataclass()
    tu.register_dataclass(cls, drop_fields=["y"])
    assert tu.tree_map(lambda v: -v, cls(8, 9)) == cls(-8, 2)

    class Plain:
        def __init__(self, x, y):
            self.x, self.y = x, y

    tu.register_dataclass(Plain, data_fields=["x"], meta_fields=["y"])
    assert tu.tree_leaves(Plain(1, 2)) == [1] and tu.tree_map(str, Plain(1, 2)).x == "1"


def test_decorated_classes():
    @tu.register_pytree_node_class
    class A:
        def __init__(self, *xs):
            self.xs = xs

        def tree_flatten(self):
            return iter(self.xs), "aux"

        @classmethod
        def tree_unflatten(cls, aux, children):
            assert aux == "aux" and type(children) is tuple
            return cls(*children)

    assert tu.tree_map(lambda v: -v, A(1, 2)).xs == (-1, -2)

    @tu.register_pytree_with_keys_class
    class B(A):
        def tree_flatten_with_keys(self):
            return ((f".{i}", x) for i, x in enumerate(self.xs)), "aux"

    assert core.leaf_paths([B(1, (2,))]) == ["[0].0", "[0].1[0]"]
    assert tu.tree_map(lambda v: -v, B(1, 2)).xs == (-1, -2)


def test_a_named_tuple_class_can_be_registered():
    cls = collections.namedtuple("cls", "x y")
    assert tu.tree_leaves(cls(1, 2)) == [1, 2]
    tu.register_pytree_node(cls, lambda t: ((t.y,), None), lambda _, c: cls(0, *c))
    assert tu.tree_map(lambda v: v + 1, cls(1, 2)) == cls(0, 3)


def flattening_to(out):
    cls = type("Bad", (), {})
    tu.register_pytree_node(cls, lambda _: out, lambda aux, c: None)
    return lambda: tu.tree_flatten([cls()])


def with_keys(pairs):
    cls = type("Bad", (), {})
    tu.register_pytree_with_keys(cls, lambda _: (pairs, None), lambda aux, c: None)
    return lambda: tu.tree_flatten_with_path(cls())


def m(a, b, **kwargs):
    return lambda: tu.tree_map(lambda x, y: x, a, b, **kwargs)


def up_to(a, b):
    return lambda: S(a).flatten_up_to(b)


def register(cls=None, **kwargs):
    return lambda: tu.register_dataclass(cls or make_dataclass(), **kwargs)


AT = "pytree structure error: different {} at key path\n    tree_map tree{}\n"
ERRORS = [
    (lambda: TWO.unflatten([1]), ValueError, "Too few leaves for PyTreeDef; expected 2, got 1"),
    (lambda: TWO.unflatten([1, 2, 3]), ValueError, "Too many leaves for PyTreeDef; expected 2"),
    (lambda: S(0).unflatten([]), ValueError, "Too few leaves for PyTreeDef; expected 1, got 0"),
    (lambda: S(None).unflatten([1]), ValueError, "Too many leaves for PyTreeDef; expected 0"),
    (lambda: tu.tree_unflatten(TWO, 3), TypeError, "not iterable"),
    (lambda: tu.tree_unflatten((1, 2), [1, 2]), AttributeError, "'unflatten'"),
    (lambda: tu.tree_leaves({"a": 1, 1: 2}), ValueError, "Comparator raised exception while"),
    (lambda: tu.tree_leaves({1j: 1, 2j: 2}), ValueError, "sorting pytree dictionary keys"),
    (lambda: tu.tree_leaves(DD(int, {1: 1, "a": 2})), TypeError, "'<' not supported between"),
    (lambda: tu.tree_leaves([1], lambda _: "s"), ValueError, "non-boolean value 's'; expected a"),
    (lambda: tu.tree_leaves([1], lambda _: np.True_), ValueError, "non-boolean value np.True_"),
    (lambda: tu.tree_leaves([1], 3), TypeError, "is_leaf must be None or a function"),
    (lambda: tu.tree_leaves([1], lambda _: 1 / 0), ZeroDivisionError, "division"),
    (up_to([1, 2], [1]), ValueError, "List arity mismatch: 1 != 2; list: [1]."),
    (up_to((1, 2), (1, 2, 3)), ValueError, "Tuple arity mismatch: 3 != 2; tuple: (1, 2, 3)."),
    (up_to([1, 2], (1, 2)), ValueError, "Expected list, got (1, 2)."),
    (up_to((1, 2), Pt(1, 2)), ValueError, "Expected tuple, got Pt(x=1, y=2)."),
    (up_to({"a": 1}, OD(a=1)), ValueError, "Expected dict, got OrderedDict"),
    (up_to({"a": 1}, {"b": 1}), ValueError, "Dict key mismatch; expected keys: ['a']; present"),
    (up_to({"a": 1}, {"a": 1, "b": 2}), ValueError, "present keys: ['a', 'b']."),
    (up_to(None, 5), ValueError, "Expected None, got 5."),
    (up_to(Node(1), 2), ValueError, "Custom node type mismatch: expected type: <class"),
    (up_to(Node(1), Node(1, 2)), ValueError, "Custom type arity mismatch: 2 != 1; value: "),
    (up_to(Node(1, aux=1), Node(1, aux=2)), ValueError, "Mismatch custom node data: 1 != 2; value"),
    (up_to(OD(a=1, b=2), OD(b=1, a=2)), ValueError, "Mismatch custom node data: ('a', 'b') !="),
    (up_to(Pt(1, 2), (1, 2)), ValueError, "Expected named tuple, got (1, 2)."),
    (up_to(Pt(1, 2), SubPt(1, 2)), ValueError, "Named tuple type mismatch: expected type"),
    (up_to(Pt(1, 2), tuple.__new__(Pt, (1,))), ValueError, "Named tuple arity mismatch: 1 != 2"),
    (m([1, 2], [1]), ValueError, AT.format("lengths of list", "")),
    (
        m({"a": [1, (2, 3)]}, {"a": [1, (2,)]}),
        ValueError,
        AT.format("lengths of tuple", "['a'][1]"),
    ),
    (m([1, 2], (1, 2)), ValueError, AT.format("types", "")),
    (m([Named(1, [2])], [Named(1, (2,))]), ValueError, AT.format("types", "[0].b")),
    (m({"x": {"a": 1}}, {"x": {"b": 1}}), ValueError, AT.format("pytree metadata", "['x']")),
    (m({"a": 1}, {"a": 1, "b": 2}), ValueError, AT.format("numbers of pytree children", "")),
    (m(Node(1, aux=2), Node(1, 2, aux=3)), ValueError, AT.format("numbers of pytree children", "")),
    (m(Setting(1), Setting(2)), ValueError, AT.format("pytree metadata", "")),
    (m(None, 5), ValueError, AT.format("types", "")),
    (m([None, (1,)], [2, [1]], is_leaf=is_none), ValueError, AT.format("types", "[1]")),
    (m({"a": 1}, {"a": 1, 2: 2}), ValueError, "Comparator raised exception"),
    (
        lambda: tu.tree_map(lambda a, b: 0, tuple.__new__(Pt, (1,)), 3),
        ValueError,
        "different types",
    ),
    (lambda: tu.tree_leaves_with_path(tuple.__new__(Pt, (1,))), ValueError, "namedtuple's _fields"),
    (lambda: tu.tree_map_with_path(print, [1], (1,)), ValueError, "tree_map_with_path tree\n"),
    (lambda: tu.tree_broadcast((0,), (1, 2)), ValueError, "tree_broadcast prefix_tree\n"),
    (
        lambda: core.prefix_broadcast(((0,), 0), ((1, 2), 3), name="vmap in_axes"),
        ValueError,
        "different lengths of tuple at key path\n    vmap in_axes[0]\n",
    ),
    (lambda: tu.tree_map(3, [1]), TypeError, "'int' object is not callable"),
    (lambda: tu.tree_reduce(add, []), TypeError, "reduce() of empty iterable with no initial"),
    (lambda: tu.tree_reduce_associative(add, []), TypeError, "Must specify identity for parallel"),
    (lambda: tu.tree_transpose(S([0, 0]), None, [(1, 2), (3,)]), TypeError, "Mismatch\nPyTreeDef"),
    (lambda: tu.tree_transpose(S([]), None, []), IndexError, "pass inner_treedef"),
    (lambda: tu.treedef_tuple([1]), TypeError, "PyTreeDefs, got 1"),
    (lambda: tu.treedef_children(1), AttributeError, "children"),
    (lambda: S(0).compose(1), TypeError, "compose takes a PyTreeDef"),
    (lambda: S([1, 2]).walk(max, None, [1]), ValueError, "Too few leaves for PyTreeDef"),
    (lambda: S([1, 2]).walk(max, None, [1, 2, 3]), ValueError, "Too many leaves for PyTreeDef"),
    (lambda: S([1, 2]).from_iterable_tree([5]), ValueError, "Arity mismatch between trees"),
    (
        lambda: tu.PyTreeDef.from_node_data_and_children(tu.default_registry, (int, 0), []),
        RuntimeError,
        "Could not find type: <class 'int'>.",
    ),
    (
        lambda: tu.PyTreeDef.from_node_data_and_children(tu.default_registry, (dict, ["a"]), []),
        RuntimeError,
        "Number of keys and entries does not match",
    ),
    (
        lambda: tu.PyTreeDef.from_node_data_and_children(tu.default_registry, None, [TWO]),
        RuntimeError,
        "did not yield a singleton",
    ),
    (lambda: tu.keystr(3), TypeError, "not iterable"),
    (lambda: tu.Partial(3), TypeError, "the first argument must be callable"),
    (lambda: tu.Partial(), TypeError, "missing 1 required positional argument: 'func'"),
    (
        lambda: tu.register_pytree_node(Node, lambda n: ((), None), lambda a, c: 0),
        ValueError,
        "Duplicate custom PyTreeDef type registration for <class",
    ),
    (lambda: tu.register_static(list), ValueError, "Duplicate custom PyTreeDef type registration"),
    (lambda: tu.register_static(3), TypeError, "must be a class, got 3"),
    (lambda: tu.register_pytree_node(SubDict, 3, 4), TypeError, "must be callable, got 3"),
    (lambda: tu.register_pytree_node_class(SubDict), AttributeError, "tree_flatten"),
    (flattening_to(3), ValueError, "should return a (children, aux_data) tuple, got 3"),
    (flattening_to(((), 1, 2)), ValueError, "(children, aux_data) tuple, got ((), 1, 2)"),
    (flattening_to((3, None)), ValueError, "where 'children' is iterable, got (3, None)"),
    (with_keys((1, 2)), ValueError, "should return a (key_leaf_pairs, aux_data) tuple"),
    (with_keys(3), ValueError, "where 'key_leaf_pairs' is iterable"),
    (register(data_fields=["x"], meta_fields=["mode"]), ValueError, "Missing fields: {'y'}. Add"),
    (
        register(data_fields=["x", "y", "w"], meta_fields=["mode"]),
        ValueError,
        "Unexpected fields: ",
    ),
    (register(data_fields=["x", "y"], meta_fields=["mode", "y"]), ValueError, "must not overlap."),
    (register(data_fields=["x", "y"]), TypeError, "must both be specified when either"),
    (register(SubDict), TypeError, "required when nodetype is not a dataclass"),
    (register(Data), ValueError, "Duplicate custom PyTreeDef type registration"),
]


@pytest.mark.parametrize("call, error, phrase", ERRORS, ids=[e[2][:60] for e in ERRORS])
def test_error(call, error, phrase):
    with pytest.raises(error) as caught:
        call()
    assert phrase in str(caught.value)


def test_a_field_without_init_is_refused():
    @dataclasses.dataclass
    class C:
        x: int
        z: int = dataclasses.field(default=0, init=False)

    with pytest.raises(ValueError, match="Unexpected fields: {'z'}"):
        tu.register_dataclass(C)
    tu.register_dataclass(C, drop_fields=["z"])
    assert tu.tree_map(lambda v: -v, C(1)) == C(-1)


def test_all_prefix_errors_are_found():
    errors = core.prefix_errors([[0], (1,), 3], [[1, 2], (1, 2), [3]])
    assert [str(e("p")).split("\n")[:2] for e in errors] == [
        ["pytree structure error: different lengths of list at key path", "    p[0]"],
        ["pytree structure error: different lengths of tuple at key path", "    p[1]"],
    ]


EQUALITY = [
    (1, 2, []),
    (1, None, [("", "<class 'int'>", "<class 'NoneType'>", "their Python types differ")]),
    ((0,), (1, 2), [("", "tuple of length 1", "tuple of length 2", "the lengths do not match")]),
    (
        {"a": 0},
        {"a": 1, "b": 2},
        [
            (
                "",
                "<class 'dict'> with 1 child",
                "<class 'dict'> with 2 children",
                "the numbers of children do not match, with the symmetric difference of key sets: "
                "{'b'}",
            )
        ],
    ),
    (
        [1, OD(a=1, b=2), 3],
        [(), OD(b=1, a=2), 3],
        [
            ("[0]", "<class 'int'>", "<class 'tuple'>", "their Python types differ"),
            (
                "[1]",
                "<class 'collections.OrderedDict'> with pytree metadata ('a', 'b')",
                "<class 'collections.OrderedDict'> with pytree metadata ('b', 'a')",
                "the pytree node metadata does not match",
            ),
        ],
    ),
]


@pytest.mark.parametrize("one, two, expected", EQUALITY, ids=range(len(EQUALITY)))
def test_equality_errors(one, two, expected):
    assert [(tu.keystr(p), *rest) for p, *rest in core.equality_errors(one, two)] == expected


def test_short_names_are_the_same_functions():
    for name in tree.__dict__:
        if not name.startswith("_") and name != "static":
            assert getattr(tree, name) is getattr(tu, f"tree_{name}"), name
    public = {n for n in dir(tree) if not n.startswith("_")}
    assert {n[5:] for n in tu.__all__ if n.startswith("tree_")} | {"static"} == public


def test_keys_of_sequences_are_numbers():
    for key in (tu.SequenceKey, tu.FlattenedIndexKey):
        with pytest.raises(TypeError, match="number of a child"):
            key("a")
