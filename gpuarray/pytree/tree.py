"""Operations on pytrees: map, reduce, transpose, paths and prefixes.

Floor 1: imports nothing of gpuarray beside this package. In: nested containers. Out: trees, lists
of leaves, and key paths. The hot entries are `flatten(x) -> (leaves, spec)` and
`unflatten(spec, leaves)`; a spec goes into a cache key as it is. This is the module that others
import: names of kinds.py (types and keys), structure.py (flatten), registration.py and
differences.py (where two trees differ) are found here too.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpuarray import util
from gpuarray.pytree.differences import (
    IsLeaf,
    KeyEntry,
    KeyPath,
    equality_errors,
    equality_errors_treedef,
    keystr,
    prefix_errors,
)
from gpuarray.pytree.kinds import (
    TUPLE,
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    SequenceKey,
    kinds,
)
from gpuarray.pytree.registration import (
    Partial,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
)
from gpuarray.pytree.structure import (
    LEAF,
    PyTreeDef,
    default_registry,
    flatten,
    flatten_with_is_leaf,
    flatten_with_path,
    make_node,
    says_leaf,
    structure,
    unflatten,
)

# Marks an argument that was not given, since None is a valid tree.
_UNSPECIFIED: Any = object()

# The PyTreeDef itself is what a cache should hold: it is interned, and so found by identity.
flatten_raw = flatten
unflatten_raw = unflatten


def from_raw(spec: PyTreeDef) -> PyTreeDef:
    """Return the PyTreeDef for the result of `flatten_raw`: the same object."""
    return spec


# --- leaves and structure -------------------------------------------------------------------------


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list, PyTreeDef]:
    """Return the leaves of a tree, left to right, and its structure.

    Lists, tuples, named tuples, dicts (in the order of their sorted keys), OrderedDicts,
    defaultdicts, None (no leaves) and registered classes are nodes; everything else is a leaf, and
    so is a subtree where `is_leaf(subtree)` is True.

    >>> tree_flatten({"b": 1, "a": (2, None)})
    ([2, 1], PyTreeDef({'a': (*, None), 'b': *}))
    """
    return flatten(tree) if is_leaf is None else flatten_with_is_leaf(tree, is_leaf)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable) -> Any:
    """Return the tree of this structure with these leaves: the inverse of `tree_flatten`.

    >>> tree_unflatten(tree_structure([0, (0, 0)]), "abc")
    ['a', ('b', 'c')]
    """
    if not isinstance(treedef, PyTreeDef):
        raise AttributeError(
            f"tree_unflatten takes a PyTreeDef and its leaves; {treedef!r} has no attribute "
            "'unflatten'. tree_structure(tree) makes a PyTreeDef."
        )
    return unflatten(treedef, leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list:
    """Return the leaves of a tree, left to right.

    >>> tree_leaves({"b": 1, "a": (2, None)})
    [2, 1]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> PyTreeDef:
    """Return the structure of a tree.

    >>> tree_structure({"b": 1, "a": (2, None)})
    PyTreeDef({'a': (*, None), 'b': *})
    """
    return tree_flatten(tree, is_leaf)[1]


def all_leaves(iterable: Iterable, is_leaf: IsLeaf = None) -> bool:
    """Whether every item is a leaf, not a node.

    >>> all_leaves([1, "a"]), all_leaves([1, (2,)]), all_leaves([None])
    (True, False, False)
    """
    if is_leaf is None:
        return not any(kinds[type(x)] for x in iterable)
    util.function(is_leaf)
    return all(says_leaf(is_leaf(x)) or kinds[type(x)] is None for x in iterable)


def is_tree_node(typ: type) -> bool:
    """Whether instances of a type are nodes.

    >>> is_tree_node(dict), is_tree_node(set)
    (True, False)
    """
    return kinds[typ] is not None


def flatten_one_level(tree: Any) -> tuple[Sequence, Any]:
    """Return the children of a tree's root and its aux data.

    >>> flatten_one_level({"b": [1], "a": 2})
    ((2, [1]), ('a', 'b'))
    """
    out = default_registry.flatten_one_level(tree)
    if out is None:
        raise ValueError(f"can't tree-flatten type: {type(tree)}")
    # Ordered containers give their children as a list.
    listed = isinstance(tree, (list, OrderedDict)) or hasattr(tree, "_fields")
    return (list(out[0]), out[1]) if listed else out


def flatten_one_level_with_keys(tree: Any) -> tuple[tuple, Any]:
    """Return the (key, child) pairs of a tree's root and its aux data.

    >>> flatten_one_level_with_keys([5])
    (((SequenceKey(idx=0), 5),), None)
    """
    out = default_registry.flatten_one_level_with_keys(tree)
    if out is None:
        raise ValueError(f"can't tree-flatten type: {type(tree)}")
    return out


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures one level down.

    >>> treedef_children(tree_structure([0, (0,)]))
    [PyTreeDef(*), PyTreeDef((*,))]
    """
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure is a single node: a leaf, None or an empty container.

    >>> treedef_is_leaf(tree_structure(0)), treedef_is_leaf(tree_structure([0]))
    (True, False)
    """
    return treedef.num_nodes == 1


def treedef_is_strict_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure is a leaf.

    >>> treedef_is_strict_leaf(tree_structure(0)), treedef_is_strict_leaf(tree_structure(None))
    (True, False)
    """
    return treedef is LEAF


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the structure of a tuple of trees of these structures.

    >>> treedef_tuple([tree_structure(0), tree_structure([0])])
    PyTreeDef((*, [*]))
    """
    return make_node(TUPLE, None, treedefs)


# --- map and reduce -------------------------------------------------------------------------------


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Map f(leaf, ...) over the leaves of `tree`, which must be a prefix of each tree in `rest`.

    >>> tree_map(lambda x, y: x + sum(y), [1, (2,)], [(10, 20), ((30,),)])
    [31, (32,)]
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    if not rest:
        return unflatten(spec, [f(x) for x in leaves])
    columns = _flatten_rest("tree_map", tree, spec, rest, is_leaf)
    return unflatten(spec, [f(*xs) for xs in zip(leaves, *columns)])


def _flatten_rest(
    name: str, tree: Any, spec: PyTreeDef, rest: Sequence[Any], is_leaf: IsLeaf
) -> list[list]:
    columns = []
    for other in rest:
        # The error message costs a walk over both trees: it is made only when needed.
        try:
            columns.append(spec.flatten_up_to(other))
        except ValueError as e:
            for mismatch in prefix_errors(tree, other, is_leaf):
                raise mismatch(f"{name} tree") from e
            raise
    return columns


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _UNSPECIFIED,
    is_leaf: IsLeaf = None,
) -> Any:
    """Return f(...f(f(initializer, leaf0), leaf1)..., leafn), from left to right.

    >>> tree_reduce(lambda total, x: total + x, [1, (2, 3)])
    6
    """
    leaves = tree_leaves(tree, is_leaf)
    # None is a valid initial value, so a marker represents a missing one.
    if initializer is _UNSPECIFIED:
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def _combined(operation: Callable[[Any, Any], Any], leaves: list) -> Any:
    # Halves, so that independent operations come side by side.
    middle = len(leaves) // 2
    if not middle:
        return leaves[0]
    return operation(_combined(operation, leaves[:middle]), _combined(operation, leaves[middle:]))


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _UNSPECIFIED,
    is_leaf: IsLeaf = None,
) -> Any:
    """Combine the leaves by an associative operation, as a balanced tree of depth log2(n).

    `identity` is the result for a tree without leaves.

    >>> tree_reduce_associative(lambda a, b: f"({a}{b})", list("abcde"))
    '((ab)(c(de)))'
    """
    leaves = tree_leaves(tree, is_leaf)
    if leaves:
        return _combined(operation, leaves)
    if identity is _UNSPECIFIED:
        raise TypeError(
            "Must specify identity for parallel reduction of empty sequence: the tree has no leaves"
        )
    return identity


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves are true.

    >>> tree_all({"a": True, "b": [1, None]}), tree_all([True, 0])
    (True, False)
    """
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Transpose an outer tree of inner trees into an inner tree of outer trees.

    With None for `inner_treedef`, the structure of the first inner tree is taken.

    >>> tree_transpose(tree_structure({"x": 0, "y": 0}), None, {"x": (1, 2), "y": (3, 4)})
    ({'x': 1, 'y': 3}, {'x': 2, 'y': 4})
    """
    leaves, spec = flatten(pytree_to_transpose)
    rows = outer_treedef.num_leaves
    if inner_treedef is None:
        if rows == 0:
            raise IndexError(
                f"tree_transpose cannot take the inner structure from the first leaf of "
                f"{outer_treedef}, which has none: pass inner_treedef"
            )
        inner_treedef = structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    columns = inner_treedef.num_leaves
    if spec.num_leaves != rows * columns:
        raise TypeError(f"Mismatch\n{spec}\n != \n{outer_treedef.compose(inner_treedef)}")
    # `leaves` is a matrix with a row for each inner tree; take its columns.
    return inner_treedef.unflatten(
        [outer_treedef.unflatten(leaves[j::columns]) for j in range(columns)] if leaves else ()
    )


# --- paths ----------------------------------------------------------------------------------------


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """Return the (key path, leaf) pairs of a tree, left to right, and its structure.

    `is_leaf` is called with the path too when `is_leaf_takes_path`.

    >>> tree_flatten_with_path({"a": [5]})[0]
    [((DictKey(key='a'), SequenceKey(idx=0)), 5)]
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)


def tree_leaves_with_path(
    tree: Any, is_leaf: IsLeaf = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """Return the (key path, leaf) pairs of a tree, left to right.

    >>> tree_leaves_with_path([7])
    [((SequenceKey(idx=0),), 7)]
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: IsLeaf = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Map f(key path, leaf, ...) over the leaves of a tree; see `tree_map`.

    >>> tree_map_with_path(lambda path, x: keystr(path) + f" = {x}", {"w": [1, 2]})
    {'w': ["['w'][0] = 1", "['w'][1] = 2"]}
    """
    found, spec = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    # The trees in `rest` are compared without paths.
    one_leaf = is_leaf if not is_leaf_takes_path else None
    columns = _flatten_rest("tree_map_with_path", tree, spec, rest, one_leaf)
    return unflatten(spec, [f(path, x, *xs) for (path, x), *xs in zip(found, *columns)])


def leaf_paths(tree: Any, is_leaf: IsLeaf = None) -> list[str]:
    """Return the key path of each leaf as text, left to right, to follow an argument's name.

    >>> leaf_paths({"b": 1, "a": (2, None, 3)})
    ["['a'][0]", "['a'][2]", "['b']"]
    """
    return [keystr(path) for path, _ in flatten_with_path(tree, is_leaf, False)[0]]


# --- prefixes -------------------------------------------------------------------------------------


def prefix_broadcast(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None, name: str = "prefix tree"
) -> list:
    """Return for each leaf of `full_tree` the leaf of the prefix above it.

    `name` is the user's name for the prefix ("vmap in_axes"), used in the ValueError that shows
    where the trees differ.

    >>> prefix_broadcast((0, None), ([1, 2], {"a": 3}), is_leaf=lambda x: x is None)
    [0, 0, None]
    """
    leaves, spec = tree_flatten(prefix_tree, is_leaf)
    # As in `_flatten_rest`: the walk that explains a mismatch is made only where there is one.
    try:
        subtrees = spec.flatten_up_to(full_tree)
    except ValueError as e:
        details = [make(name) for make in prefix_errors(prefix_tree, full_tree, is_leaf)]
        if not details:
            raise
        listed = "\n".join(map(str, details))
        raise ValueError(
            f"{name} specification must be a tree prefix of the corresponding value; got "
            f"specification {prefix_tree!r} for a value of structure {structure(full_tree)}.\n\n"
            f"Mismatch details ({len(details)} found):\n{listed}"
        ) from e
    out: list = []
    for leaf, subtree in zip(leaves, subtrees):
        # A leaf above a subtree applies to each of its leaves.
        out += [leaf] * (1 if kinds[type(subtree)] is None else structure(subtree).num_leaves)
    return out


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Return a tree like `full_tree` with the leaves of the prefix above them.

    >>> tree_broadcast((1, 2), ([0, 0], {"a": 0}))
    ([1, 1], {'a': 2})
    """
    leaves = prefix_broadcast(prefix_tree, full_tree, is_leaf, "tree_broadcast prefix_tree")
    return unflatten(structure(full_tree), leaves)


__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "LEAF",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "default_registry",
    "equality_errors",
    "equality_errors_treedef",
    "flatten",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "flatten_raw",
    "flatten_with_is_leaf",
    "flatten_with_path",
    "from_raw",
    "is_tree_node",
    "keystr",
    "leaf_paths",
    "prefix_broadcast",
    "prefix_errors",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "structure",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_is_strict_leaf",
    "treedef_tuple",
    "unflatten",
    "unflatten_raw",
]
