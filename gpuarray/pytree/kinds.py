"""Pytree node types: how each is flattened and rebuilt, and the keys of paths.

Floor 1: imports nothing of gpuarray. In: classes with their flatten and unflatten functions. Out: a
`NodeKind` for every node type, found by `kinds[type(x)]` (None for a leaf). structure.py uses
these; users register types through tree.py.
"""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

Opened = tuple[Sequence, Any, Any]  # children, aux, exact(aux)
Builder = Callable[[Iterator], Any]  # takes its leaves from an iterator and returns a subtree


# --- keys: one step on the path from the root of a tree to a leaf ---------------------------------


class _Key:
    """An immutable step of a path, equal to steps of the same class with an equal value."""

    __slots__ = ("_held",)
    __match_args__: tuple[str] = ("held",)
    _held: Any

    def __init__(self, held: Any):
        # Round __setattr__, which refuses.
        object.__setattr__(self, "_held", held)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self!r} cannot be changed: make a new one")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._held == other._held  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self._held))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__match_args__[0]}={self._held!r})"

    def __reduce__(self) -> tuple:
        return type(self), (self._held,)


# One check for both kinds of keys that count children.
def _number(kind: type, place: Any) -> int:
    if not isinstance(place, int):
        raise TypeError(f"{kind.__name__} takes the number of a child, got {place!r}")
    return place


class SequenceKey(_Key):
    """Step into a list or tuple.

    >>> str(SequenceKey(2))
    '[2]'
    """

    __slots__ = ()
    __match_args__ = ("idx",)

    def __init__(self, idx: int):
        super().__init__(_number(type(self), idx))

    @property
    def idx(self) -> int:
        return self._held

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


class DictKey(_Key):
    """Step into a dict, an OrderedDict or a defaultdict.

    >>> str(DictKey("w"))
    "['w']"
    """

    __slots__ = ()
    __match_args__ = ("key",)

    def __init__(self, key: Hashable):
        super().__init__(key)

    @property
    def key(self) -> Hashable:
        return self._held

    def __str__(self) -> str:
        return f"[{self.key!r}]"


class GetAttrKey(_Key):
    """Step into an attribute of a named tuple, a dataclass, or a class registered with names.

    >>> str(GetAttrKey("bias"))
    '.bias'
    """

    __slots__ = ()
    __match_args__ = ("name",)

    def __init__(self, name: str):
        super().__init__(name)

    @property
    def name(self) -> str:
        return self._held

    def __str__(self) -> str:
        return f".{self.name}"


class FlattenedIndexKey(_Key):
    """Step into a registered node whose children have no names.

    >>> str(FlattenedIndexKey(0))
    '[<flat index 0>]'
    """

    __slots__ = ()
    __match_args__ = ("key",)

    def __init__(self, key: int):
        super().__init__(_number(type(self), key))

    @property
    def key(self) -> int:
        return self._held

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


def _index_keys(aux: Any, children: Sequence) -> tuple:
    return tuple(map(SequenceKey, range(len(children))))


def _flat_keys(aux: Any, children: Sequence) -> tuple:
    return tuple(map(FlattenedIndexKey, range(len(children))))


def _dict_keys(aux: tuple, children: Sequence) -> tuple:
    return tuple(map(DictKey, aux))


# --- kinds ----------------------------------------------------------------------------------------


class NodeKind:
    """One node type.

    Attributes
    ----------
    open : x -> (children, aux, exact)
        Flattens one level. Two nodes have the same `exact` only if their aux is made of the same
        objects.
    close : (aux, children) -> x
        Rebuilds the node.
    open_with_keys : x -> (keys, children, aux)
        Flattens one level, with the keys of the children.
    items :
        Whether iterating over x gives its children and aux is None: such types need no `open`.
    named_tuple :
        Whether it is the kind of a named tuple class.
    """

    __slots__ = ("type", "open", "close", "open_with_keys", "items", "named_tuple")

    def __init__(
        self,
        type_: type,
        open_: Callable[[Any], Opened],
        close: Callable[[Any, Iterable], Any],
        keys: Callable[[Any, Sequence], tuple] = _flat_keys,
        open_with_keys: Callable[[Any], tuple[tuple, Sequence, Any]] | None = None,
        items: bool = False,
        named_tuple: bool = False,
    ):
        # Keys follow from the number of children (or from aux) if the type defines none.
        def number(x: Any) -> tuple[tuple, Sequence, Any]:
            children, aux, _ = open_(x)
            return keys(aux, children), children, aux

        self.type = type_
        self.open = open_
        self.close = close
        self.open_with_keys = open_with_keys or number  # x -> keys, children, aux
        self.items = items
        self.named_tuple = named_tuple

    def builder(self, aux: Any, parts: list[Builder | None]) -> Builder:
        """Return the function that makes a node from an iterator of the leaves below it.

        `parts` are the builders of its children, None for children that are leaves. Builders are
        made once for each structure, so that rebuilding a tree does no unnecessary work.
        """
        close, n = self.close, len(parts)
        # A dict from zip or a comprehension is twice as fast as `close` on a list.
        if self is DICT:
            if not any(parts):
                return lambda leaves: dict(zip(aux, leaves))
            pairs = [(key, part or next) for key, part in zip(aux, parts)]
            return lambda leaves: {key: part(leaves) for key, part in pairs}
        if not any(parts):
            return lambda leaves: close(aux, islice(leaves, n))
        steps = [part or next for part in parts]
        return lambda leaves: close(aux, [step(leaves) for step in steps])

    def data(self, aux: Any) -> Any:
        """Return aux as users see it: the keys of a dict are a list."""
        return list(aux) if self is DICT else aux


def exact(aux: Any) -> Any:
    """Return a key that only an aux made of the same objects (or equal strings) has.

    By plain equality {True: 0} would be found for {1: 0}, and the wrong tree rebuilt.
    """
    t = type(aux)
    # Equal strings cannot be told apart, so they may share a structure.
    if t is str or aux is None:
        return aux
    return tuple(map(exact, aux)) if t is tuple else id(aux)


class _Kinds(dict[type, "NodeKind | None"]):
    """The kind of each type seen so far, None for leaf types; each type is examined once."""

    LEAF_TYPES = 4096  # a program that makes classes without end must not fill the memory

    def __missing__(self, t: type) -> NodeKind | None:
        kind = None
        # Named tuples need no registration.
        if issubclass(t, tuple) and hasattr(t, "_fields"):
            kind = _named_tuple_kind(t)
        # Leaf types are found again when they are met again.
        elif len(self) > self.LEAF_TYPES:
            for leaf in [u for u, k in list(self.items()) if k is None]:
                self.pop(leaf, None)
        return self.setdefault(t, kind)  # two threads may race: one kind wins


def _named_tuple_kind(t: Any) -> NodeKind:
    def keys(aux: Any, children: Sequence) -> tuple:
        if len(t._fields) != len(children):
            raise ValueError(
                f"A namedtuple's _fields attribute should have the same size as the tuple: {t} has "
                f"_fields = {t._fields!r} and {len(children)} items."
            )
        return tuple(map(GetAttrKey, t._fields))

    # A named tuple may define its own length and items (a stack of rotations does): its children
    # are its fields.
    methods = "__len__", "__getitem__", "__iter__"
    own = any(getattr(t, m) is not getattr(tuple, m) for m in methods)
    opened = _open_fields if own else _open_items
    return NodeKind(t, opened, lambda _, c: t(*c), keys, items=not own, named_tuple=True)


def _open_fields(x: tuple) -> Opened:
    return tuple.__getitem__(x, slice(None)), None, None


def _open_items(x: Sequence) -> Opened:
    return x, None, None


# Keys in a dict's own order -> (sorted keys, getter of their values). Only for keys that are all
# strings, since structures are found by them.
_NO_KEYS: dict = {(): ((), lambda x: ())}
orders: dict[tuple, tuple[tuple, Callable[[Any], tuple]]] = dict(_NO_KEYS)
#: Remembered orders of keys, at most.
_ORDERS = 4096


def _getter(names: tuple, attributes: bool = False) -> Callable[[Any], tuple]:
    """Return the function x -> tuple of x's items (or attributes) of these names."""
    # With a single name, itemgetter returns the item and no tuple.
    if len(names) > 1:
        return operator.attrgetter(*names) if attributes else operator.itemgetter(*names)
    if attributes:
        return lambda x: tuple([getattr(x, n) for n in names])
    return lambda x: tuple([x[n] for n in names])


def _open_dict(x: dict) -> Opened:
    try:
        keys = tuple(sorted(x))
    except Exception as e:
        raise ValueError(_unsortable(x)) from e
    # Other keys (an enum, an int beside a bool) may be equal to keys of another type.
    if {*map(type, keys)} != {str}:
        return [x[k] for k in keys], keys, exact(keys)
    # A program that makes dicts of ever new keys must not fill the memory.
    if len(orders) >= _ORDERS:
        orders.clear()
        orders.update(_NO_KEYS)
    get = _getter(keys)
    orders[tuple(x)] = keys, get
    return get(x), keys, keys


def _open_defaultdict(x: collections.defaultdict) -> Opened:
    try:
        # Not remembered as a dict's keys are: defaultdicts are rare.
        keys = tuple(sorted(x))
    except TypeError as e:
        raise TypeError(f"{e}. {_unsortable(x)}") from e
    aux = (x.default_factory, keys)
    return [x[k] for k in keys], aux, exact(aux)


def _unsortable(x: dict) -> str:
    types = ", ".join(dict.fromkeys(type(k).__name__ for k in x))
    return (
        "Comparator raised exception while sorting pytree dictionary keys.\n"
        f"The keys are {list(x)!r}, of type {types}; the leaves of a dict come in the order of its "
        "sorted keys. Use keys of one sortable type, or a collections.OrderedDict, which keeps the "
        "order of insertion."
    )


def _open_ordered(x: collections.OrderedDict) -> Opened:
    # The order of insertion is part of the structure.
    keys = tuple(x)
    return tuple(x.values()), keys, exact(keys)


TUPLE = NodeKind(tuple, _open_items, lambda _, c: tuple(c), _index_keys, items=True)
LIST = NodeKind(list, _open_items, lambda _, c: list(c), _index_keys, items=True)
DICT = NodeKind(dict, _open_dict, lambda keys, c: dict(zip(keys, c)), _dict_keys)
# None has no leaves: it is a node without children.
NONE = NodeKind(type(None), lambda x: ((), None, None), lambda _, c: None)
_ORDERED = NodeKind(
    collections.OrderedDict,
    _open_ordered,
    lambda keys, c: collections.OrderedDict(zip(keys, c)),
    _dict_keys,
)
_DEFAULT = NodeKind(
    collections.defaultdict,
    _open_defaultdict,
    lambda aux, c: collections.defaultdict(aux[0], zip(aux[1], c)),
    lambda aux, c: _dict_keys(aux[1], c),
)

kinds = _Kinds()
# Separate from `kinds`, which also contains types that were merely seen.
_registered: set[type] = set()


def _add(kind: NodeKind) -> None:
    if kind.type in _registered:
        raise ValueError(
            f"Duplicate custom PyTreeDef type registration for {kind.type}. A type is registered "
            "once, and a subclass of it counts as another type."
        )
    kinds[kind.type] = kind
    _registered.add(kind.type)


for _kind in (TUPLE, LIST, DICT, NONE, _ORDERED, _DEFAULT):
    _add(_kind)


# --- registration ---------------------------------------------------------------------------------


def _pair(out: Any, wanted: str, part: str) -> tuple[tuple, Any]:
    """Check the result of a user's flatten function: a pair whose first item is iterable."""
    if type(out) is not tuple or len(out) != 2:
        raise ValueError(f"{wanted}, got {out!r}")
    try:
        items = iter(out[0])
    except TypeError:
        raise ValueError(f"{wanted} where '{part}' is iterable, got {out!r}") from None
    return tuple(items), out[1]


def register_node(
    nodetype: type,
    to_iterable: Callable[[Any], tuple[Iterable, Any]],
    from_iterable: Callable[[Any, tuple], Any],
    to_iterable_with_keys: Callable[[Any], tuple[Iterable, Any]] | None = None,
) -> None:
    """Make instances of `nodetype` nodes; see `register_pytree_node` in registration.py."""
    if not isinstance(nodetype, type):
        raise TypeError(f"a pytree node type must be a class, got {nodetype!r}")
    given = {"flatten": to_iterable, "unflatten": from_iterable}
    if to_iterable_with_keys is not None:
        given["flatten_with_keys"] = to_iterable_with_keys
    for what, f in given.items():
        if not callable(f):
            raise TypeError(f"the {what} function for {nodetype} must be callable, got {f!r}")
    head = "The {} function for a custom PyTree node should return a {} tuple"
    wanted = head.format("to_iterable", "(children, aux_data)")
    wanted_with_keys = head.format("to_iterable_with_keys", "(key_leaf_pairs, aux_data)")

    # Users' functions are checked at every call: they may return anything.
    def open_(x: Any) -> Opened:
        children, aux = _pair(to_iterable(x), wanted, "children")
        return children, aux, exact(aux)

    def open_with_keys(x: Any) -> tuple[tuple, Sequence, Any]:
        out = to_iterable_with_keys(x)  # type: ignore[misc]
        pairs, aux = _pair(out, wanted_with_keys, "key_leaf_pairs")
        for pair in pairs:
            if type(pair) is not tuple or len(pair) != 2:
                raise ValueError(
                    f"{wanted_with_keys} of (key, child) pairs, got {pair!r} among them"
                )
        return tuple([key for key, _ in pairs]), [child for _, child in pairs], aux

    def close(aux: Any, children: Iterable) -> Any:
        return from_iterable(aux, tuple(children))

    # The children without keys serve where no path is wanted, which is nearly always.
    with_keys = open_with_keys if to_iterable_with_keys is not None else None
    _add(NodeKind(nodetype, open_, close, open_with_keys=with_keys))


def register_dataclass_node(
    nodetype: type, data_fields: Iterable[str], meta_fields: Iterable[str]
) -> None:
    """Make instances of `nodetype` nodes: children are attributes, passed back by keyword."""
    data, meta = tuple(data_fields), tuple(meta_fields)
    get_data, get_meta = _getter(data, attributes=True), _getter(meta, attributes=True)
    keys = tuple(map(GetAttrKey, data))

    def open_(x: Any) -> Opened:
        aux = get_meta(x)
        return get_data(x), aux, exact(aux)

    def close(aux: tuple, children: Iterable) -> Any:
        # Fields that are neither data nor static get their defaults from the class.
        return nodetype(**dict(zip(data, children)), **dict(zip(meta, aux)))

    _add(NodeKind(nodetype, open_, close, lambda aux, children: keys))
