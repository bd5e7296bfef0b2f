"""Which types are pytree nodes, how each comes apart and goes together, and the keys of a path.

In: classes with their flatten and unflatten functions. Out: a `Kind` for every node type, found by
`kinds[type(x)]` (None for a leaf). structure.py works on these; users register through tree.py.
Floor 1: imports nothing of gpuarray.
"""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

Opened = tuple[Sequence, Any, Any]  # children, aux, exact(aux)
Builder = Callable[[Iterator], Any]  # takes its leaves from an iterator and returns a subtree


# --- keys: one step of the way from the root of a tree to a leaf ----------------------------------


class _Key:
    """A step: a value that does not change, equal to steps of its class that hold an equal one."""

    __slots__ = ("_held",)
    __match_args__: tuple[str] = ("held",)
    _held: Any

    def __init__(self, held: Any):
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


def _number(kind: type, place: Any) -> int:
    if not isinstance(place, int):
        raise TypeError(f"{kind.__name__} takes the number of a child, got {place!r}")
    return place


class SequenceKey(_Key):
    """The step into a list or tuple.

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
    """The step into a dict, an OrderedDict or a defaultdict.

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
    """The step into an attribute: of a named tuple, a dataclass, or a class that asks for it.

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
    """The step into a registered node that gave its children no names.

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


class Kind:
    """One node type.

    `open(x)` gives `(children, aux, exact)`: two nodes have the same `exact` only when their aux is
    made of the same objects. `close(aux, children)` gives x back. `items` marks the types whose
    children are what iterating gives and whose aux is None: they need no `open`.
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

        `parts` are the builders of its children, None for those that are leaves.
        """
        close, n = self.close, len(parts)
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
        """Return aux in the form that users see: a dict's keys are a list."""
        return list(aux) if self is DICT else aux


def exact(aux: Any) -> Any:
    """Return a key that only an aux made of the same objects (or equal strings) has too.

    Plain equality would find {True: 0} where {1: 0} is looked for, and give back the wrong one.
    """
    t = type(aux)
    if t is str or aux is None:
        return aux
    return tuple(map(exact, aux)) if t is tuple else id(aux)


class _Kinds(dict[type, "Kind | None"]):
    """The kind of each type met so far, None for leaf types; every type is looked at once."""

    LEAF_TYPES = 4096  # a program that makes classes without end must not fill the memory

    def __missing__(self, t: type) -> Kind | None:
        kind = None
        if issubclass(t, tuple) and hasattr(t, "_fields"):
            kind = _named_tuple_kind(t)
        elif len(self) > self.LEAF_TYPES:
            for leaf in [u for u, k in list(self.items()) if k is None]:
                self.pop(leaf, None)
        return self.setdefault(t, kind)  # two threads may come at once: one kind wins


def _named_tuple_kind(t: Any) -> Kind:
    def keys(aux: Any, children: Sequence) -> tuple:
        if len(t._fields) != len(children):
            raise ValueError(
                f"A namedtuple's _fields attribute should have the same size as the tuple: {t} has "
                f"_fields = {t._fields!r} and {len(children)} items."
            )
        return tuple(map(GetAttrKey, t._fields))

    # A named tuple may have its own idea of its length and items (a stack of rotations has); what
    # it is made of are its fields.
    methods = "__len__", "__getitem__", "__iter__"
    own = any(getattr(t, m) is not getattr(tuple, m) for m in methods)
    opened = _open_fields if own else _open_items
    return Kind(t, opened, lambda _, c: t(*c), keys, items=not own, named_tuple=True)


def _open_fields(x: tuple) -> Opened:
    return tuple.__getitem__(x, slice(None)), None, None


def _open_items(x: Sequence) -> Opened:
    return x, None, None


# Keys as a dict holds them -> (sorted keys, getter of their values). Only for keys that are all
# str: the structure is found by their value.
_NO_KEYS: dict = {(): ((), lambda x: ())}
orders: dict[tuple, tuple[tuple, Callable[[Any], tuple]]] = dict(_NO_KEYS)
_ORDERS = 4096


def _getter(names: tuple, attributes: bool = False) -> Callable[[Any], tuple]:
    """Return the function x -> tuple of x's items (or attributes) of these names."""
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
    if {*map(type, keys)} != {str}:
        return [x[k] for k in keys], keys, exact(keys)
    if len(orders) >= _ORDERS:
        orders.clear()
        orders.update(_NO_KEYS)
    get = _getter(keys)
    orders[tuple(x)] = keys, get
    return get(x), keys, keys


def _open_defaultdict(x: collections.defaultdict) -> Opened:
    try:
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
    keys = tuple(x)
    return tuple(x.values()), keys, exact(keys)


TUPLE = Kind(tuple, _open_items, lambda _, c: tuple(c), _index_keys, items=True)
LIST = Kind(list, _open_items, lambda _, c: list(c), _index_keys, items=True)
DICT = Kind(dict, _open_dict, lambda keys, c: dict(zip(keys, c)), _dict_keys)
NONE = Kind(type(None), lambda x: ((), None, None), lambda _, c: None)
_ORDERED = Kind(
    collections.OrderedDict,
    _open_ordered,
    lambda keys, c: collections.OrderedDict(zip(keys, c)),
    _dict_keys,
)
_DEFAULT = Kind(
    collections.defaultdict,
    _open_defaultdict,
    lambda aux, c: collections.defaultdict(aux[0], zip(aux[1], c)),
    lambda aux, c: _dict_keys(aux[1], c),
)

kinds = _Kinds()
_registered: set[type] = set()


def _add(kind: Kind) -> None:
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
    """Check what a user's flatten function gave: a pair, the first of the two iterable."""
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
    """Make instances of `nodetype` nodes; tree.py's `register_pytree_node` says how."""
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

    with_keys = open_with_keys if to_iterable_with_keys is not None else None
    _add(Kind(nodetype, open_, close, open_with_keys=with_keys))


def register_dataclass_node(
    nodetype: type, data_fields: Iterable[str], meta_fields: Iterable[str]
) -> None:
    """Make instances of `nodetype` nodes: children are attributes, and keywords build it again."""
    data, meta = tuple(data_fields), tuple(meta_fields)
    get_data, get_meta = _getter(data, attributes=True), _getter(meta, attributes=True)
    keys = tuple(map(GetAttrKey, data))

    def open_(x: Any) -> Opened:
        aux = get_meta(x)
        return get_data(x), aux, exact(aux)

    def close(aux: tuple, children: Iterable) -> Any:
        return nodetype(**dict(zip(data, children)), **dict(zip(meta, aux)))

    _add(Kind(nodetype, open_, close, lambda aux, children: keys))
