"""Where two trees differ, with the path of each place: as prefix and whole, and as equals.

Floor 1. In: two trees, or two structures. Out: for each difference its key path, and the words of
an error about it. Trees are walked here only when something has gone wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from gpuarray import util
from gpuarray.pytree.kinds import (
    LIST,
    TUPLE,
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    SequenceKey,
    kinds,
)
from gpuarray.pytree.structure import PyTreeDef, same_aux, says_leaf, unflatten

KeyEntry = TypeVar("KeyEntry")
KeyPath = tuple[KeyEntry, ...]
IsLeaf = Callable[..., bool] | None


# --- paths as text --------------------------------------------------------------------------------


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Return a key path as text; `simple` leaves out brackets, quotes and dots.

    >>> path = DictKey("layers"), SequenceKey(0)
    >>> keystr(path), keystr(path, simple=True, separator="/")
    ("['layers'][0]", 'layers/0')
    """
    if not isinstance(separator, str):
        raise util.wrong_type(separator, "a str")
    return separator.join([str(_bare(k)) if simple else str(k) for k in keys])


def _bare(key: Any) -> Any:
    """Return the index, dict key or attribute name that a key of a path holds."""
    match key:
        case SequenceKey(k) | DictKey(k) | GetAttrKey(k) | FlattenedIndexKey(k):
            return k
    return key


def _names(keys: Iterable) -> str:
    return " ".join([str(_bare(k)) for k in keys])


# --- a tree that should be a prefix of another ----------------------------------------------------


def prefix_errors(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None
) -> list[Callable[[str], ValueError]]:
    """Return a function that makes the error for each place where a tree is no prefix of another.

    The functions take the name by which a user knows the prefix.

    >>> [make] = prefix_errors({"a": (0, 0)}, {"a": (1, 2, 3)})
    >>> print(make("in_axes"))
    pytree structure error: different lengths of tuple at key path
        in_axes['a']
    The prefix has a tuple of length 2 here, and the full tree has one of length 3.
    """
    return list(_prefix_errors((), prefix_tree, full_tree, is_leaf))


def _prefix_errors(
    path: KeyPath, prefix: Any, full: Any, is_leaf: IsLeaf
) -> Iterator[Callable[[str], ValueError]]:
    kind = kinds[type(prefix)]
    # A leaf is a prefix of anything.
    if kind is None or (is_leaf is not None and says_leaf(is_leaf(prefix))):
        return
    difference = _difference(prefix, full)
    if difference is not None:
        head = f"pytree structure error: {difference.head} at key path\n    "

        def make(name: str) -> ValueError:
            return ValueError(head + f"{name}{keystr(path)}\n" + difference.in_prefix)

        # Bound to `difference` and `path` of this call; not called here, since most are never
        # shown.
        yield make
        return
    keys, children, _ = kind.open_with_keys(prefix)
    # The roots agree, so the children pair up.
    for key, child, other in zip(keys, children, kind.open_with_keys(full)[1]):
        yield from _prefix_errors((*path, key), child, other, is_leaf)


class _Difference(NamedTuple):
    """How the roots of two trees differ, in the words of both kinds of message."""

    head: str  # the kind of difference
    in_prefix: str  # both sides, when one should be a prefix of the other
    first: str  # the first side, when they should be equal ...
    second: str  # ... the second side ...
    why: str  # ... and why they are not


def _difference(a: Any, b: Any) -> _Difference | None:
    """Compare the roots of two trees, of which the first is a node."""
    # In the order in which JAX looks for them: type, length, keys, metadata. The first is reported.
    if type(a) is not type(b):
        return _Difference(
            "different types",
            f"The prefix has a node of type\n    {type(a)}\nhere, and the full tree has\n"
            f"    {type(b)}.",
            f"{type(a)}",
            f"{type(b)}",
            "their Python types differ",
        )
    kind = kinds[type(a)]
    assert kind is not None
    a_keys, a_children, a_aux = kind.open_with_keys(a)
    b_keys, b_children, b_aux = kind.open_with_keys(b)
    n, m = len(a_children), len(b_children)
    if n != m and kind in (TUPLE, LIST):
        name = kind.type.__name__
        return _Difference(
            f"different lengths of {name}",
            f"The prefix has a {name} of length {n} here, and the full tree has one of length {m}.",
            f"{name} of length {n}",
            f"{name} of length {m}",
            "the lengths do not match",
        )
    # Name the children that only one side has.
    if n != m:
        a_odd = [k for k in a_keys if k not in b_keys]
        odd = a_odd + [k for k in b_keys if k not in a_keys]
        return _Difference(
            "different numbers of pytree children",
            f"The prefix has a {kind.type} with {n} child keys here,\n    {_names(a_keys)}\n"
            f"and the full tree has one with {m}:\n    {_names(b_keys)}\n"
            f"Only one of them has\n    {_names(odd)}",
            f"{kind.type} with {n} child{'ren' * (n != 1)}",
            f"{kind.type} with {m} child{'ren' * (m != 1)}",
            "the numbers of children do not match, with the symmetric difference of key sets: "
            f"{{{', '.join([repr(_bare(k)) for k in odd])}}}",
        )
    if not same_aux(a_aux, b_aux):
        return _Difference(
            "different pytree metadata",
            f"The prefix has a {kind.type} here with metadata (dict keys, static fields)\n"
            f"    {a_aux}\nand the full tree has one with\n    {b_aux}",
            f"{kind.type} with pytree metadata {a_aux}",
            f"{kind.type} with pytree metadata {b_aux}",
            "the pytree node metadata does not match",
        )
    return None


# --- trees that should be equal -------------------------------------------------------------------


def equality_errors(
    tree1: Any, tree2: Any, is_leaf: IsLeaf = None
) -> Iterator[tuple[KeyPath, str, str, str]]:
    """Yield (key path, part of tree1, part of tree2, reason) for each difference.

    >>> [(path, one, two, why)] = equality_errors({"a": [1]}, {"a": [1, 2]})
    >>> f"at {keystr(path)}: {one}, {two}, so {why}"
    "at ['a']: list of length 1, list of length 2, so the lengths do not match"
    """
    yield from _equality_errors((), tree1, tree2, is_leaf)


def _equality_errors(
    path: KeyPath, a: Any, b: Any, is_leaf: IsLeaf
) -> Iterator[tuple[KeyPath, str, str, str]]:
    def opens(x: Any) -> bool:
        return kinds[type(x)] is not None and not (is_leaf is not None and says_leaf(is_leaf(x)))

    # Two leaves never differ here: only structure is compared.
    if not (opens(a) and opens(b)):
        if opens(a) or opens(b):
            one, two = (f"{type(x)}" if x is not _LEAF_HERE else "pytree leaf" for x in (a, b))
            yield path, one, two, "their Python types differ"
        return
    difference = _difference(a, b)
    if difference is not None:
        yield path, difference.first, difference.second, difference.why
        return
    kind = kinds[type(a)]
    assert kind is not None
    keys, children, _ = kind.open_with_keys(a)
    for key, child, other in zip(keys, children, kind.open_with_keys(b)[1]):
        yield from _equality_errors((*path, key), child, other, is_leaf)


# Represents a leaf in trees rebuilt from structures.
_LEAF_HERE = object()


def equality_errors_treedef(
    spec1: PyTreeDef, spec2: PyTreeDef
) -> Iterator[tuple[KeyPath, str, str, str]]:
    """`equality_errors` of two structures.

    >>> from gpuarray.pytree.structure import structure
    >>> [(path, one, two, _)] = equality_errors_treedef(structure([0, 0]), structure([0, (0,)]))
    >>> f"{keystr(path)}: {one}, {two}"
    "[1]: pytree leaf, <class 'tuple'>"
    """
    # Rebuilt with placeholders, so that one comparison serves both.
    trees = [unflatten(s, [_LEAF_HERE] * s.num_leaves) for s in (spec1, spec2)]
    yield from _equality_errors((), trees[0], trees[1], None)
