"""Pytrees to leaves and back: `flatten`, `unflatten`, and `PyTreeDef`, the structure.

Floor 1: imports nothing of gpuarray beside kinds.py. In: nested containers. Out: a list of leaves
and a `PyTreeDef`. Every jitted call flattens its arguments, so this is a hot path: a `PyTreeDef` is
interned (the same structure made of the same parts is the same object), and a cache with one in its
key finds it by identity. Paths, map and prefixes are built on this in tree.py, which re-exports
these names.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from gpuarray.pytree.kinds import (
    DICT,
    LIST,
    NONE,
    TUPLE,
    Builder,
    NodeKind,
    exact,
    kinds,
    orders,
    register_dataclass_node,
    register_node,
)


class PyTreeDef:
    """The structure of a pytree, without its leaves.

    >>> structure({"b": 1, "a": (2, None)})
    PyTreeDef({'a': (*, None), 'b': *})
    """

    __slots__ = (
        "kind",  # None for a leaf
        "aux",
        "inner",  # the structures of the children
        "num_leaves",
        "num_nodes",
        "_simple",
        "_hash",
        "_builder",
        "__weakref__",
    )

    kind: NodeKind | None
    aux: Any
    inner: tuple[PyTreeDef, ...]
    num_leaves: int
    num_nodes: int
    _simple: bool
    _hash: int | None
    _builder: Builder | None

    def __init__(self) -> None:
        raise TypeError("PyTreeDef: no constructor defined; tree_structure(tree) makes one")

    def __eq__(self, other: object) -> bool:
        # Interned, so this usually decides; the rest is for structures with equal but not identical
        # aux.
        if self is other:
            return True
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        return (
            self.kind is other.kind
            and self.num_nodes == other.num_nodes
            and len(self.inner) == len(other.inner)
            and same_aux(self.aux, other.aux)
            and self.inner == other.inner
        )

    def __hash__(self) -> int:
        if self._hash is None:
            # Computed once: structures are keys of caches.
            try:
                aux = hash(self.aux)
            except TypeError:  # structures that are equal still hash alike
                aux = 0
            self._hash = hash((self.kind, aux, self.inner))
        return self._hash

    def __reduce__(self) -> tuple:
        if self.kind is None:
            return _get_leaf, ()
        return _unpickle, (self.kind.type, self.aux, self.inner)

    def __repr__(self) -> str:
        return f"PyTreeDef({_show(self)})"

    def unflatten(self, leaves: Iterable) -> Any:
        """Return the tree of this structure with the given leaves.

        >>> structure([0, (0, 0)]).unflatten("abc")
        ['a', ('b', 'c')]
        """
        return unflatten(self, leaves)

    def flatten_up_to(self, tree: Any) -> list:
        """Return the subtrees of `tree` at the leaves of this structure, which is a prefix of it.

        >>> structure([0, 0]).flatten_up_to([(1, 2), {"a": 3}])
        [(1, 2), {'a': 3}]
        """
        out: list = []
        _up_to(self, tree, out)
        return out

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """Return this structure with `inner` in place of each leaf.

        >>> structure([0, 0]).compose(structure((0, None)))
        PyTreeDef([(*, None), (*, None)])
        """
        if not isinstance(inner, PyTreeDef):
            raise TypeError(f"compose takes a PyTreeDef, got {inner!r}")
        if self.kind is None:
            return inner
        return make_node(self.kind, self.aux, [c.compose(inner) for c in self.inner])

    def children(self) -> list[PyTreeDef]:
        """Return the structures one level down.

        >>> structure([0, (0,)]).children()
        [PyTreeDef(*), PyTreeDef((*,))]
        """
        return list(self.inner)

    def node_data(self) -> tuple[type, Any] | None:
        """Return the root's type and aux data (of a dict: its sorted keys); None for a leaf.

        >>> structure({"b": 0, "a": 0}).node_data()
        (<class 'dict'>, ['a', 'b'])
        """
        return None if self.kind is None else (self.kind.type, self.kind.data(self.aux))

    @staticmethod
    def from_node_data_and_children(
        registry: PyTreeRegistry, node_data: tuple[type, Any] | None, children: Iterable[PyTreeDef]
    ) -> PyTreeDef:
        """Return the structure that has this `node_data()` and these `children()`.

        >>> s = structure({"b": 0, "a": (0,)})
        >>> PyTreeDef.from_node_data_and_children(default_registry, s.node_data(), s.children())
        PyTreeDef({'a': (*,), 'b': *})
        """
        inner = list(children)
        if node_data is None:
            if inner:
                raise RuntimeError(
                    f"PyTreeDef traversal did not yield a singleton: node data None stands for a "
                    f"leaf, and {len(inner)} children came with it."
                )
            return LEAF
        type_, aux = node_data
        kind = kinds[type_]
        if kind is None:
            raise RuntimeError(f"Could not find type: {type_}. It is not a registered pytree node.")
        if kind is DICT:
            # `node_data` gives the keys of a dict as a list.
            aux = tuple(aux)
            if len(aux) != len(inner):
                raise RuntimeError(
                    "Number of keys and entries does not match: "
                    f"{len(aux)} keys, {len(inner)} children."
                )
        return make_node(kind, aux, inner)

    def from_iterable_tree(self, tree: Any) -> Any:
        """Return the tree of this structure from nested iterables of the same shape.

        >>> structure({"a": 0, "b": (0, 0)}).from_iterable_tree([1, [2, 3]])
        {'a': 1, 'b': (2, 3)}
        """
        if self.kind is None:
            return tree
        parts = list(tree)
        if len(parts) != len(self.inner):
            raise ValueError(
                "Arity mismatch between trees: "
                f"{len(parts)} parts for the {len(self.inner)} children of {self}."
            )
        return self.kind.close(
            self.aux, [c.from_iterable_tree(part) for c, part in zip(self.inner, parts)]
        )

    def walk(
        self,
        f_node: Callable[[tuple, Any], Any],
        f_leaf: Callable[[Any], Any] | None,
        leaves: Iterable,
    ) -> Any:
        """Rebuild bottom up: `f_leaf(leaf)` at leaves, `f_node(children, aux data)` at nodes.

        >>> structure([0, (0, 0)]).walk(lambda c, _: sum(c), lambda x: 10 * x, [1, 2, 3])
        60
        """
        leaves = self._check_count(leaves, self.num_leaves)
        return self._walked(f_node, f_leaf, iter(leaves))

    # A method, and no function inside of `walk`: that would refer to itself, a cycle of references
    # that keeps the leaves until cycles are collected. So do those below.
    def _walked(self, f_node: Callable, f_leaf: Callable | None, leaves: Iterator) -> Any:
        kind = self.kind
        if kind is None:
            leaf = next(leaves)
            return leaf if f_leaf is None else f_leaf(leaf)
        # As in JAX, a named tuple's data is its class.
        data = kind.type if kind.named_tuple else kind.data(self.aux)
        return f_node(tuple([c._walked(f_node, f_leaf, leaves) for c in self.inner]), data)

    def _check_count(self, leaves: Iterable, n: int) -> list | tuple:
        known = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(known) != n:
            raise ValueError(
                f"Too {'few' if len(known) < n else 'many'} leaves for PyTreeDef; "
                f"expected {n}, got {len(known)}. The structure is {self}."
            )
        return known


def _show(node: PyTreeDef) -> str:
    kind, inner = node.kind, [_show(c) for c in node.inner]
    if kind is None:
        return "*"
    if kind is NONE:
        return "None"
    if kind is TUPLE:
        return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
    if kind is LIST:
        return f"[{', '.join(inner)}]"
    if kind is DICT:
        return "{" + ", ".join(f"{k!r}: {v}" for k, v in zip(node.aux, inner)) + "}"
    name = kind.type.__name__
    head = f"namedtuple[{name}]" if kind.named_tuple else f"{name}[{node.aux}]"
    return f"CustomNode({head}, [{', '.join(inner)}])"


def same_aux(a: Any, b: Any) -> bool:
    """Whether two aux data are equal; ValueError if comparing them fails."""
    try:
        # An array compares element by element: bool() of that raises.
        return a is b or bool(a == b)
    except Exception as e:
        raise ValueError(
            "Exception raised while checking equality of metadata fields of pytree. They must be "
            "hashable, and == of two must give one True or False: an array cannot be a metadata "
            f"field. Compared were {a!r} and {b!r}."
        ) from e


# --- interning ------------------------------------------------------------------------------------

# A key is (kind, exact aux, then for each child 0 if it is a leaf, else the id of its structure).
# An entry is removed with its structure, which keeps aux and children alive, so no id in a live
# entry is used again. A missed entry, or one made twice by two threads, only costs time, since ==
# compares structures.
_interned: dict[tuple, _Entry] = {}
# Keep unreferenced structures alive for a while, so that a loop over tree_map finds them again; but
# not those that contain users' objects, which may be large.
_recent: collections.deque[PyTreeDef] = collections.deque(maxlen=1024)


class _Entry(weakref.ref):
    # A weak reference that knows its key, so that the callback can remove it.
    __slots__ = ("key",)
    key: tuple


def _forget(entry: _Entry, interned: dict = _interned) -> None:
    # Unless another structure has taken the key in the meantime.
    if interned.get(entry.key) is entry:
        del interned[entry.key]


# Whether aux holds plain values only.
def _is_simple(aux: Any) -> bool:
    if type(aux) is tuple:
        return all(map(_is_simple, aux))
    return aux is None or type(aux) in (str, int, bool, float, type)


def _new(kind: NodeKind | None, aux: Any, inner: tuple[PyTreeDef, ...]) -> PyTreeDef:
    # Past __init__, which refuses: structures are made here only, so that all are interned.
    node = object.__new__(PyTreeDef)
    node.kind = kind
    node.aux = aux
    node.inner = inner
    node.num_leaves = 1 if kind is None else sum([c.num_leaves for c in inner])
    node.num_nodes = 1 + sum([c.num_nodes for c in inner])
    node._simple = _is_simple(aux) and all(c._simple for c in inner)
    node._hash = node._builder = None
    return node


LEAF = _new(None, None, ())


def _intern(key: tuple, kind: NodeKind, aux: Any, nodes: list[PyTreeDef]) -> PyTreeDef:
    """Make and store the structure for `key`; `nodes` are its children that are not leaves."""
    rest = iter(nodes)
    node = _new(kind, aux, tuple([next(rest) if i else LEAF for i in key[2:]]))
    entry = _Entry(node, _forget)
    entry.key = key
    _interned[key] = entry
    if node._simple:
        _recent.append(node)
    return node


def make_node(kind: NodeKind, aux: Any, inner: Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the (interned) structure of a node of this kind, with this aux and these children."""
    inner = list(inner)
    for c in inner:
        if not isinstance(c, PyTreeDef):
            raise TypeError(f"the children of a PyTreeDef are PyTreeDefs, got {c!r}")
    key = (kind, exact(aux), *[0 if c is LEAF else id(c) for c in inner])
    entry = _interned.get(key)
    return (entry and entry()) or _intern(key, kind, aux, [c for c in inner if c is not LEAF])


# --- flatten --------------------------------------------------------------------------------------


def _grow(kind: NodeKind, x: Any, leaves: list) -> PyTreeDef:
    """Append the leaves of the node `x` to `leaves`, and return its structure."""
    # The three cases from the fastest to the slowest.
    if kind.items:
        children, aux, exact_aux = x, None, None
    elif (
        kind is DICT
        and (order := orders.get(given := tuple(x))) is not None
        # An enum member can equal a known string. The keys of a dict tend to be of one type, so
        # testing two of them is enough.
        and (not given or type(given[0]) is str is type(given[-1]))
    ):
        aux = exact_aux = order[0]
        children = order[1](x)
    else:
        children, aux, exact_aux = kind.open(x)
    # The key of the structure, in the form that `_interned` has.
    parts: list = [kind, exact_aux]
    nodes = []
    for child in children:
        inner = kinds[type(child)]
        if inner is None:
            leaves.append(child)
            parts.append(0)
        else:
            node = _grow(inner, child, leaves)
            nodes.append(node)
            parts.append(id(node))
    key = tuple(parts)
    entry = _interned.get(key)
    return (entry and entry()) or _intern(key, kind, aux, nodes)


def flatten(x: Any) -> tuple[list, PyTreeDef]:
    """Return the leaves of a tree, left to right, and its structure.

    >>> flatten({"b": 1, "a": (2, None)})
    ([2, 1], PyTreeDef({'a': (*, None), 'b': *}))
    """
    kind = kinds[type(x)]
    if kind is None:
        return [x], LEAF
    leaves: list = []
    return leaves, _grow(kind, x, leaves)


def says_leaf(answer: Any) -> bool:
    """Return the answer of an `is_leaf` function, checked to be a bool or None."""
    if answer is True or answer is False or answer is None:
        return answer is True
    raise ValueError(
        f"is_leaf predicate returned a non-boolean value {answer!r}; expected a boolean"
    )


def flatten_with_is_leaf(x: Any, is_leaf: Callable[[Any], bool] | None) -> tuple[list, PyTreeDef]:
    """`flatten` that treats a subtree as a leaf where `is_leaf(subtree)` is True.

    >>> flatten_with_is_leaf([(1, 2), None], lambda t: t is None)
    ([1, 2, None], PyTreeDef([(*, *), *]))
    """
    if is_leaf is None:
        return flatten(x)
    if not callable(is_leaf):
        raise TypeError(f"is_leaf must be None or a function of a subtree, got {is_leaf!r}")
    leaves: list = []
    return leaves, _grown(x, is_leaf, leaves)


def _grown(x: Any, is_leaf: Callable[[Any], bool], leaves: list) -> PyTreeDef:
    """The structure of a tree, whose leaves are appended."""
    kind = None if says_leaf(is_leaf(x)) else kinds[type(x)]
    if kind is None:
        leaves.append(x)
        return LEAF
    children, aux, _ = kind.open(x)
    # By make_node, not by a key built here: `is_leaf` already costs a call for each subtree.
    return make_node(kind, aux, [_grown(c, is_leaf, leaves) for c in children])


def flatten_with_path(
    x: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[tuple, Any]], PyTreeDef]:
    """`flatten` with (key path, leaf) pairs as leaves.

    >>> flatten_with_path({"a": [5]})[0]
    [((DictKey(key='a'), SequenceKey(idx=0)), 5)]
    """
    found: list[tuple[tuple, Any]] = []
    ask = is_leaf
    if is_leaf is not None and not is_leaf_takes_path:
        ask = lambda _, x: is_leaf(x)
    return found, _visited((), x, ask, found)


def _visited(path: tuple, x: Any, is_leaf: Callable[..., bool] | None, found: list) -> PyTreeDef:
    """The structure of a tree, whose leaves are appended with their paths."""
    kind = kinds[type(x)]
    if is_leaf is not None:
        kind = None if says_leaf(is_leaf(path, x)) else kind
    if kind is None:
        found.append((path, x))
        return LEAF
    keys, children, aux = kind.open_with_keys(x)
    inner = [_visited((*path, k), c, is_leaf, found) for k, c in zip(keys, children)]
    return make_node(kind, aux, inner)


def structure(x: Any) -> PyTreeDef:
    """Return the structure of a tree.

    >>> structure((1, [2]))
    PyTreeDef((*, [*]))
    """
    return flatten(x)[1]


# --- unflatten ------------------------------------------------------------------------------------


# Made at the first unflatten, then kept with the structure.
def _builder_of(node: PyTreeDef) -> Builder:
    build = node._builder
    if build is None:
        parts = [None if c is LEAF else _builder_of(c) for c in node.inner]
        build = node._builder = node.kind.builder(node.aux, parts)  # type: ignore[union-attr]
    return build


def unflatten(spec: PyTreeDef, leaves: Iterable) -> Any:
    """Return the tree of structure `spec` with these leaves: the inverse of `flatten`.

    >>> unflatten(structure({"a": (0, None), "b": 0}), [1, 2])
    {'a': (1, None), 'b': 2}
    """
    # A list of the right length, as flatten returns it, needs no copy.
    if type(leaves) is not list or len(leaves) != spec.num_leaves:
        leaves = spec._check_count(leaves, spec.num_leaves)
    if spec is LEAF:
        return leaves[0]
    return (spec._builder or _builder_of(spec))(iter(leaves))


# Appends the subtrees of `x` at the leaves of `node`; raises where it is no prefix.
def _up_to(node: PyTreeDef, x: Any, out: list) -> None:
    kind, inner = node.kind, node.inner
    if kind is None:
        out.append(x)
        return
    # A subclass is another type, as in JAX.
    if kinds[type(x)] is not kind:
        _refuse_type(kind, x)
    children: Any = x
    # The keys of a dict may come in any order.
    if kind is DICT:
        keys = node.aux
        try:
            children = [x[k] for k in keys]
        except KeyError:
            _refuse_aux(kind, keys, tuple(x), x)
        if len(keys) != len(x):
            _refuse_aux(kind, keys, tuple(x), x)
    elif not kind.items:
        children, aux, _ = kind.open(x)
        # Equal aux is sufficient here: this is not a lookup by identity.
        if not same_aux(node.aux, aux):
            _refuse_aux(kind, node.aux, aux, x)
    if len(children) != len(inner):
        _refuse_arity(kind, len(inner), len(children), x)
    if node.num_leaves == len(inner) == node.num_nodes - 1:  # only leaves
        out += children
        return
    for c, child in zip(inner, children):
        if c is LEAF:
            out.append(child)
        else:
            _up_to(c, child, out)


def _refuse_type(kind: NodeKind, x: Any) -> NoReturn:
    if kind is NONE:
        raise ValueError(
            f"Expected None, got {x!r}. None is a node without leaves; is_leaf=lambda x: x is None "
            "makes a leaf of it."
        )
    if kind in (TUPLE, LIST, DICT):
        raise ValueError(f"Expected {kind.type.__name__}, got {x!r}.")
    if not kind.named_tuple:
        raise ValueError(f"Custom node type mismatch: expected type: {kind.type}, value: {x!r}.")
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        raise ValueError(f"Named tuple type mismatch: expected type: {kind.type}, tuple: {x!r}.")
    raise ValueError(f"Expected named tuple, got {x!r}.")


def _refuse_aux(kind: NodeKind, expected: Any, aux: Any, x: Any) -> NoReturn:
    if kind is DICT:
        raise ValueError(
            f"Dict key mismatch; expected keys: {list(expected)}; present keys: {list(aux)}."
        )
    raise ValueError(f"Mismatch custom node data: {expected!r} != {aux!r}; value: {x!r}.")


def _refuse_arity(kind: NodeKind, expected: int, got: int, x: Any) -> NoReturn:
    name = {TUPLE: "Tuple", LIST: "List"}.get(kind, "Custom type")
    if kind.named_tuple:
        name, x = "Named tuple", tuple(x)  # its own repr needs as many items as names
    what = name.lower() if kind.items else "value"
    raise ValueError(f"{name} arity mismatch: {got} != {expected}; {what}: {x!r}.")


def _get_leaf() -> PyTreeDef:
    return LEAF


def _unpickle(type_: type, aux: Any, inner: tuple[PyTreeDef, ...]) -> PyTreeDef:
    # The type is registered by its module, which may not have been imported here.
    kind = kinds[type_]
    if kind is None:
        raise ValueError(f"this PyTreeDef needs {type_} to be registered as a pytree node first")
    return make_node(kind, aux, inner)


# --- the registry, as an object -------------------------------------------------------------------


class PyTreeRegistry:
    """The table of node types; there is one, `default_registry`."""

    register_node = staticmethod(register_node)
    register_dataclass_node = staticmethod(register_dataclass_node)

    def is_node(self, type_: type) -> bool:
        """Whether instances of `type_` are nodes (and not leaves)."""
        return kinds[type_] is not None

    def flatten(
        # JAX's interface of a registry.
        self,
        tree: Any,
        leaf_predicate: Callable[[Any], bool] | None = None,
    ) -> tuple[list, PyTreeDef]:
        """Return leaves and structure."""
        return flatten_with_is_leaf(tree, leaf_predicate)

    def flatten_with_path(
        self, tree: Any, leaf_predicate: Callable[[Any], bool] | None = None
    ) -> tuple[list[tuple[tuple, Any]], PyTreeDef]:
        """Return (key path, leaf) pairs and structure."""
        return flatten_with_path(tree, leaf_predicate)

    def flatten_one_level(self, tree: Any) -> tuple[tuple, Any] | None:
        """Return `(children, aux data)` of the root, None for a leaf."""
        kind = kinds[type(tree)]
        if kind is None:
            return None
        children, aux, _ = kind.open(tree)
        return tuple(children), kind.type if kind.named_tuple else aux

    def flatten_one_level_with_keys(self, tree: Any) -> tuple[tuple, Any] | None:
        """Return `((key, child) pairs, aux data)` of the root, None for a leaf."""
        kind = kinds[type(tree)]
        if kind is None:
            return None
        keys, children, aux = kind.open_with_keys(tree)
        return tuple(zip(keys, children)), kind.type if kind.named_tuple else aux


default_registry = PyTreeRegistry()
