"""Pytrees: `tree_util` and `tree`."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import calls, expressions

SECTION = "tree"

TREES = [
    "1", "None", "()", "[]", "{}", "(1, 2)", "[1, [2, (3,)]]", "{'b': 1, 'a': 2}",
    "{'a': {'z': 1, 'b': [2, None]}, 'c': (3, 4)}", "{2: 'x', 1: 'y'}", "{1: 2, 'a': 3}",
    "collections.OrderedDict([('b', 1), ('a', 2)])",
    "collections.defaultdict(list, {'b': 1, 'a': 2})", "Point(1, [2, 3])",
    "Pair(1, {'k': 2}, 'tag')", "Record(1, [2], 'nm')", "Keyed(1, (2, 3))", "Fixed(3)",
    "(Fixed(3), 1)", "tree_util.Partial(max, 1, key=2)", "f32(3)", "[f32(2), None, 'a']", "{1, 2}",
    "np.arange(3)", "(None, (None,), [])", "slice(1, 2)", "range(3)", "lambda: 0",
    "collections.deque([1, 2])", "1j",
]
MAPS = [
    "lambda x: x + 1, (1, [2, {'a': 3}])", "lambda x, y: x + y, {'a': 1, 'b': 2}, {'a': 3, 'b': 4}",
    "lambda x, y: (x, y), [1, 2], [[3, 4], (5,)]", "lambda x: x, (1, None)",
    "lambda x, y: x, (1, 2), (1, 2, 3)", "lambda x, y: x, (1, 2), [1, 2]",
    "lambda x, y: x, {'a': 1}, {'b': 1}", "lambda x, y: x, (1, 2), 3", "lambda x, y: x, None, 3",
    "lambda x, y: x, None, None", "lambda x: x, [(1, 2)], is_leaf=lambda t: isinstance(t, tuple)",
    "lambda x: 0 if x is None else x, [None, 1], is_leaf=lambda t: t is None",
    "lambda x: x * 2, Pair(1, 2)", "lambda x, y: x + y, Pair(1, 2, 'a'), Pair(1, 2, 'b')",
    "lambda x: x * 2, Record(f32(2), 3)", "lambda x: x, Point(1, 2)",
    "lambda x, y: x + y, Point(1, 2), Point(3, 4)", "lambda x, y: x + y, Point(1, 2), (3, 4)",
    "None, (1,)", "lambda x: x, {1: 2, 'a': 3}",
    "lambda x: x, collections.OrderedDict([('b', 1), ('a', 2)])",
    "lambda x, y: x, {'a': 1, 'b': 2}, collections.OrderedDict([('a', 1), ('b', 2)])",
]
TUPLE = "lambda t: isinstance(t, tuple)"
PATHS = [f"{t}" for t in TREES[5:20]]
STRUCTURE = "tree_util.tree_structure"
REDUCE = [
    "operator.add, (1, [2, 3])", "operator.add, (1, [2, 3]), 10", "operator.add, ()",
    "operator.add, (), 0", "lambda a, b: a + b, {'a': 'x', 'b': 'y'}",
    "max, [(1, 2)], is_leaf=" + TUPLE,
]
ASSOC = [
    "operator.add, (1, [2, 3])", "operator.add, ()", "operator.add, (), identity=0",
    "lambda a, b: f'({a}{b})', list('abcde')",
    "lambda a, b: f'({a}{b})', list('abcdef'), identity='e'",
]
ALLS = [
    "(True, [1])", "(True, 0)", "()", "{'a': None}", "[False, 1]", "f32(2)",
    "(True, (0, 1)), is_leaf=" + TUPLE,
]
BROADCAST = [
    "1, (2, 3)", "(1, 2), ((3, 4), {'a': 5})", "{'a': 1}, {'a': [1, 2]}", "(1, 2), (1, 2, 3)",
    "None, (1,)", "(1, 2), [3, 4]", "1, (2, (3,)), is_leaf=" + TUPLE,
]
FLATTEN = [
    *TREES, "((1, 2), 3), is_leaf=" + TUPLE, "((1, 2), 3), lambda t: isinstance(t, list)",
    "[None], is_leaf=lambda t: t is None",
]
UNFLATTEN = [
    f"{STRUCTURE}((1, [2, 3])), [4, 5, 6]", f"{STRUCTURE}({{'b': 1, 'a': None}}), [7]",
    f"{STRUCTURE}(Pair(1, 2, 'q')), [7, 8]", f"{STRUCTURE}((1, 2)), [1]",
    f"{STRUCTURE}((1, 2)), [1, 2, 3]", f"{STRUCTURE}(1), ['x']", f"{STRUCTURE}(None), []",
    f"{STRUCTURE}((1, 2)), iter([1, 2])", f"{STRUCTURE}((1, 2)), 5", "5, [1]",
]
TRANSPOSE = [
    f"{STRUCTURE}([0, 0]), {STRUCTURE}({{'a': 0, 'b': 0}}), [{{'a': 1, 'b': 2}}, {{'a': 3, 'b': 4}}]",
    f"{STRUCTURE}([0, 0]), None, [(1, 2), (3, 4)]",
    f"{STRUCTURE}([0, 0]), {STRUCTURE}((0, 0)), [(1, 2), (3,)]",
    f"{STRUCTURE}([0, 0]), {STRUCTURE}((0, 0)), [1, 2]",
    f"{STRUCTURE}(0), {STRUCTURE}((0, 0)), (1, 2)",
]
WITH_PATH = [
    "lambda p, x: (tree_util.keystr(p), x), {'a': [1, 2], 'b': Record(3, 4)}",
    "lambda p, x, y: (len(p), x + y), (1, [2]), (3, [4])", "lambda p, x: p, Keyed(1, 2)",
    "lambda p, x: x, 5", "lambda p, x: (len(p), x), (1, None, [2]), is_leaf=lambda v: v is None",
    "lambda p, x, y: x, (1, 2), (1,)", "lambda p, x: str(p), Pair(1, {'k': 2})", "5, (1, 2)",
    "lambda p, x: len(p), {'a': (1, 2)}, is_leaf=lambda p, v: len(p) == 1, is_leaf_takes_path=True",
]

TABLE = [
    ("tree_flatten tree_leaves tree_structure", FLATTEN),
    ("tree_flatten_with_path tree_leaves_with_path", [
        *PATHS, "5", "((1, 2), 3), is_leaf=" + TUPLE,
        "((1, 2), 3), is_leaf=lambda p, t: len(p) == 1, is_leaf_takes_path=True",
    ]),
    ("tree_map", MAPS),
    ("tree_map_with_path", WITH_PATH),
    ("tree_unflatten", UNFLATTEN),
    ("tree_reduce", REDUCE),
    ("tree_reduce_associative", ASSOC),
    ("tree_all", ALLS),
    ("tree_broadcast", BROADCAST),
    ("tree_transpose", TRANSPOSE),
    (
        "all_leaves",
        ["[1, 2]", "[1, (2,)]", "[]", "[None]", "(1, 'a')", "[(1, 2)], is_leaf=" + TUPLE],
    ),
    ("is_tree_node", [
        "list", "tuple", "dict", "int", "Pair", "Point", "type(None)", "collections.OrderedDict",
        "Fixed",
    ]),
    ("flatten_one_level", TREES[5:19]),
    ("flatten_one_level_with_keys", TREES[5:19]),
    ("treedef_children", [f"{STRUCTURE}({t})" for t in TREES[:16]]),
    ("treedef_is_leaf", [f"{STRUCTURE}({t})" for t in TREES[:10]]),
    ("treedef_tuple", [
        f"[{STRUCTURE}((1, 2)), {STRUCTURE}({{'a': 1}})]", "[]", "(tree_util.tree_structure(1),)",
        "5", "[1, 2]", "iter([tree_util.tree_structure(None)])",
        "[tree_util.tree_structure(Pair(1, 2)), tree_util.tree_structure([])]",
    ]),
    ("keystr", [
        "(tree_util.DictKey('a'), tree_util.SequenceKey(1))",
        "(tree_util.GetAttrKey('x'), tree_util.FlattenedIndexKey(2))", "()",
        "(tree_util.DictKey('a'), tree_util.GetAttrKey('b')), simple=True, separator='/'",
        "('odd',)",
    ]),
    ("DictKey", ["'a'", "1", "key='b'"]),
    ("SequenceKey", ["1", "idx=2"]),
    ("GetAttrKey", ["'a'", "name='b'"]),
    ("FlattenedIndexKey", ["1", "key=3"]),
    ("Partial", ["max, 1, 2", "lambda x: x, 1", "functools.partial(max, 1), 2", "5"]),
    ("register_pytree_node", ["Pair, None, None"]),
]
NODE = f"{STRUCTURE}({{'a': (1, 2), 'b': None}})"
EXPRESSIONS = [
    ("tree_util.PyTreeDef", [
        *[
            f"{NODE}.{m}"
            for m in (
                "num_leaves", "num_nodes", "children()", "node_data()", "unflatten([1, 2])",
                "flatten_up_to({'a': (1, [2]), 'b': None})",
            )
        ],
        f"{NODE}.flatten_up_to({{'a': (1,), 'b': None}})",
        f"{NODE}.flatten_up_to({{'a': 1, 'b': None}})", f"{NODE} == {NODE}",
        f"{NODE} != {STRUCTURE}((1, 2))", f"hash({NODE}) == hash({NODE})",
        f"{STRUCTURE}((1, 2)).compose({STRUCTURE}([1]))", f"{STRUCTURE}((1, 2)).num_leaves",
        f"{STRUCTURE}(1).node_data()", f"{STRUCTURE}(1).num_nodes", f"{STRUCTURE}(None).num_leaves",
        f"isinstance({NODE}, tree_util.PyTreeDef)", f"{NODE} is None", f"len({NODE}.children())",
        f"str({STRUCTURE}((1, {{'x': [2]}}, None, Point(1, 2))))", "tree_util.PyTreeDef",
    ]),
    ("tree_util.Partial", [
        "tree_util.Partial(max, 1)(5)", "tree_util.Partial(sorted, reverse=True)([1, 3, 2])",
        "jax.jit(lambda f: f(2.0))(tree_util.Partial(jnp.add, 1.0))",
        "tree_util.tree_leaves(tree_util.Partial(max, 1, key=2))",
    ]),
    ("tree_util.register_pytree_node_class", [
        "tree_util.register_pytree_node_class(type('Q', (), {'tree_flatten': lambda s: ((1,), None), 'tree_unflatten': classmethod(lambda c, a, k: c())})).__name__"
    ]),
    ("tree_util.register_pytree_with_keys_class", [
        "tree_util.register_pytree_with_keys_class(type('Q2', (), {'tree_flatten_with_keys': lambda s: (((tree_util.GetAttrKey('a'), 1),), None), 'tree_unflatten': classmethod(lambda c, a, k: c())})).__name__"
    ]),
    ("tree_util.register_pytree_with_keys", ["tree_util.tree_leaves_with_path(Keyed(1, 2))"]),
    ("tree_util.register_dataclass", [
        "tree_util.tree_leaves(Record(1, 2, 'z'))",
        "tree_util.register_dataclass(type('R0', (), {}))",
        "tree_util.register_dataclass(dataclasses.make_dataclass('R1', ['a', 'b']), ['a'], [])",
    ]),
    ("tree_util.register_static", [
        "tree_util.tree_structure(Fixed(2)) == tree_util.tree_structure(Fixed(2))",
        "tree_util.tree_structure(Fixed(2)) == tree_util.tree_structure(Fixed(3))",
    ]),
    ("tree_util.default_registry", [
        "tree_util.default_registry.flatten((1, [2]))[0]",
        "tree_util.default_registry.flatten_one_level([1, 2])",
        "tree_util.default_registry.flatten({'b': 1, 'a': None})[0]",
        "tree_util.default_registry.flatten_one_level(5)",
        "tree_util.default_registry.flatten([(1, 2)], lambda x: isinstance(x, tuple))[0]",
        "tree_util.default_registry.flatten_with_path((1, [2]))[0]",
        "tree_util.default_registry.flatten(Pair(1, 2))[1] == tree_util.tree_structure(Pair(1, 2))",
        "tree_util.default_registry.flatten_one_level(None)",
    ]),
    *[(f"tree_util.{n}", [f"tree_util.{n} is not None"]) for n in ("KeyPath", "KeyEntry")],
    *[
        (
            f"tree_util.{k}",
            [
                f"tree_util.{k}({a}) == tree_util.{k}({a})", f"str(tree_util.{k}({a}))",
                f"hash(tree_util.{k}({a})) == hash(tree_util.{k}({a}))", f"tree_util.{k}()",
                f"tree_util.{k}({a}) == {a}", f"tree_util.{k}('b') == tree_util.{k}({a})",
                f"tree_util.keystr((tree_util.{k}({a}),), simple=True)", f"tree_util.{k}({a}, 1)",
                f"setattr(tree_util.{k}({a}), 'other', 1)",
            ],
        )
        for k, a in (
            ("DictKey", "'a'"),
            ("GetAttrKey", "'a'"),
            ("SequenceKey", "1"),
            ("FlattenedIndexKey", "2"),
        )
    ],
    ("tree.static", [
        "tree.static(default=3).metadata['static']", "tree.static(metadata={'a': 1}).metadata['a']",
        "(lambda c: tree_util.tree_leaves(c(1, 2)))(tree_util.register_dataclass(dataclasses.make_dataclass('S0', ['a', ('b', int, tree.static(default=5))])))",
        "(lambda c: tree_util.tree_structure(c(1, 2)) == tree_util.tree_structure(c(1, 3)))(tree_util.register_dataclass(dataclasses.make_dataclass('S1', ['a', ('b', int, tree.static(default=5))])))",
    ]),
    ("tree_util.register_pytree_node_class", [
        "(lambda c: (tree_util.register_pytree_node_class(c), tree_util.tree_leaves([c(), 3]))[1])(type('Q10', (), {'tree_flatten': lambda s: ((1, 2), 'aux'), 'tree_unflatten': classmethod(lambda c, a, k: (c.__name__, a, tuple(k)))}))",
        "(lambda c: (tree_util.register_pytree_node_class(c), tree_util.tree_map(lambda v: v + 1, c()))[1])(type('Q11', (), {'tree_flatten': lambda s: ((1, 2), 'aux'), 'tree_unflatten': classmethod(lambda c, a, k: (c.__name__, a, tuple(k)))}))",
        "(lambda c: (tree_util.register_pytree_node_class(c), tree_util.tree_leaves_with_path(c()))[1])(type('Q12', (), {'tree_flatten': lambda s: ((1, 2), 'aux'), 'tree_unflatten': classmethod(lambda c, a, k: (c.__name__, a, tuple(k)))}))",
        "(lambda c: (tree_util.register_pytree_node_class(c), tree_util.register_pytree_node_class(c))[1])(type('Q13', (), {'tree_flatten': lambda s: ((1, 2), 'aux'), 'tree_unflatten': classmethod(lambda c, a, k: (c.__name__, a, tuple(k)))}))",
        "tree_util.register_pytree_node_class(5)",
        "tree_util.register_pytree_node_class(type('Q14', (), {}))",
        "tree_util.register_pytree_node_class(list)",
    ]),
    ("tree_util.register_pytree_node", [
        "(lambda c: (tree_util.register_pytree_node(c, lambda s: ((1, [2]), 'x'), lambda a, k: (a, list(k))), tree_util.tree_map(lambda v: v * 2, c()))[1])(type('P0', (), {}))",
        "(lambda c: (tree_util.register_pytree_node(c, lambda s: ((1, 2), 'x'), lambda a, k: k, flatten_with_keys_func=lambda s: (((tree_util.DictKey('p'), 1), (tree_util.DictKey('q'), 2)), 'x')), tree_util.tree_leaves_with_path(c()))[1])(type('P1', (), {}))",
        "(lambda c: (tree_util.register_pytree_node(c, lambda s: 5, lambda a, k: k), tree_util.tree_leaves(c()))[1])(type('P2', (), {}))",
        "tree_util.register_pytree_node(5, None, None)",
        "tree_util.register_pytree_node(tuple, lambda t: (t, None), lambda a, k: k)",
        "(lambda c: (tree_util.register_pytree_node(c, lambda s: ((1,), ['unhashable']), lambda a, k: k), jax.jit(lambda x: x)(c()))[1])(type('P3', (), {}))",
        "(lambda c: (tree_util.register_pytree_node(c, lambda s: ((1, 2), None), lambda a, k: k), tree_util.tree_leaves_with_path(c()))[1])(type('P4', (), {}))",
    ]),
    ("tree_util.register_pytree_with_keys", [
        "tree_util.tree_map(lambda v: v + 1, Keyed(1, [2]))",
        "tree_util.tree_map_with_path(lambda p, v: tree_util.keystr(p), Keyed(1, [2]))",
        "tree_util.register_pytree_with_keys(Keyed, None, None)",
        "(lambda c: (tree_util.register_pytree_with_keys(c, lambda s: ((('raw', 1),), None), lambda a, k: k), tree_util.tree_leaves_with_path(c()))[1])(type('K0', (), {}))",
        "(lambda c: (tree_util.register_pytree_with_keys(c, lambda s: (((tree_util.DictKey('z'), 1),), None), lambda a, k: k, flatten_func=lambda s: ((7,), None)), tree_util.tree_leaves(c()), tree_util.tree_leaves_with_path(c()))[1:])(type('K1', (), {}))",
        "tree_util.register_pytree_with_keys(5, None, None)",
    ]),
    ("tree_util.register_pytree_with_keys_class", [
        "(lambda c: (tree_util.register_pytree_with_keys_class(c), tree_util.tree_leaves_with_path([c()]))[1])(type('Q20', (), {'tree_flatten_with_keys': lambda s: (((tree_util.GetAttrKey('a'), 1), (tree_util.GetAttrKey('b'), None)), 'aux'), 'tree_unflatten': classmethod(lambda c, a, k: (a, tuple(k)))}))",
        "(lambda c: (tree_util.register_pytree_with_keys_class(c), tree_util.tree_map(lambda v: v + 1, c()))[1])(type('Q21', (), {'tree_flatten_with_keys': lambda s: (((tree_util.GetAttrKey('a'), 1), (tree_util.GetAttrKey('b'), None)), 'aux'), 'tree_unflatten': classmethod(lambda c, a, k: (a, tuple(k)))}))",
        "(lambda c: (tree_util.register_pytree_with_keys_class(c), tree_util.tree_leaves(c()))[1])(type('Q22', (), {'tree_flatten_with_keys': lambda s: (((tree_util.GetAttrKey('a'), 1), (tree_util.GetAttrKey('b'), None)), 'aux'), 'tree_unflatten': classmethod(lambda c, a, k: (a, tuple(k)))}))",
        "(lambda c: (tree_util.register_pytree_with_keys_class(c), tree_util.register_pytree_with_keys_class(c))[1])(type('Q23', (), {'tree_flatten_with_keys': lambda s: (((tree_util.GetAttrKey('a'), 1), (tree_util.GetAttrKey('b'), None)), 'aux'), 'tree_unflatten': classmethod(lambda c, a, k: (a, tuple(k)))}))",
        "tree_util.register_pytree_with_keys_class(type('Q24', (), {}))",
        "tree_util.register_pytree_with_keys_class(5)",
    ]),
    ("tree_util.register_dataclass", [
        "(lambda c: tree_util.tree_leaves_with_path(c(1, [2])))(tree_util.register_dataclass(dataclasses.make_dataclass('R2', ['a', 'b']), ['a', 'b'], []))",
        "(lambda c: tree_util.tree_leaves(c(1, 2)))(tree_util.register_dataclass(dataclasses.make_dataclass('R3', ['a', 'b']), ['b'], ['a']))",
        "tree_util.register_dataclass(dataclasses.make_dataclass('R4', ['a', 'b']), ['a', 'zz'], ['b'])",
        "(lambda c: tree_util.tree_map(lambda v: v + 1, c(1, 2)))(tree_util.register_dataclass(dataclasses.make_dataclass('R5', ['a', 'b'])))",
        "(lambda c: tree_util.tree_leaves(c(1)))(tree_util.register_dataclass(dataclasses.make_dataclass('R6', ['a', ('b', int, dataclasses.field(default=2))]), ['a'], [], drop_fields=['b']))",
        "tree_util.register_dataclass(5)",
        "tree_util.register_dataclass(dataclasses.make_dataclass('R7', ['a']), ['a'])",
        "tree_util.register_dataclass(dataclasses.make_dataclass('R8', ['a', 'b']), ['a', 'a'], ['b'])",
    ]),
    ("tree_util.register_static", [
        "tree_util.tree_leaves(Fixed(2))", "tree_util.tree_map(lambda v: v, (Fixed(2), 1))",
        "jax.jit(lambda f, x: x * f.v)(Fixed(2), 1.0)", "tree_util.register_static(Fixed)",
        "tree_util.register_static(5)",
        "(lambda c: (tree_util.register_static(c), tree_util.tree_leaves([c(), 1]))[1])(type('St0', (), {}))",
    ]),
    ("tree_util.KeyPath", [
        "isinstance(tree_util.tree_leaves_with_path({'a': 1})[0][0], tuple)",
        "tree_util.KeyPath == tuple[typing.Any, ...]",
    ]),
]
SHORT = [
    ("flatten leaves structure", FLATTEN[5:12]),
    ("flatten_with_path leaves_with_path", PATHS[:6]),
    ("map", MAPS[:12]),
    ("map_with_path", WITH_PATH),
    ("unflatten", UNFLATTEN[:5]),
    ("reduce", REDUCE),
    ("reduce_associative", ASSOC),
    ("all", ALLS),
    ("broadcast", BROADCAST),
    ("transpose", TRANSPOSE),
    ("static", [
        "default=3", "", "default_factory=list", "metadata={'a': 1}",
        "default=1, default_factory=list", "nonsense=1", "default=2, metadata={'static': False}",
    ]),
]

CASES = [
    *calls(SECTION, "tree_util.", TABLE), *expressions(SECTION, EXPRESSIONS),
    *calls(SECTION, "tree.", SHORT),
]
