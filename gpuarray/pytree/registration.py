"""Registration of classes as pytree nodes, and `Partial`.

Floor 1: imports nothing of gpuarray beside kinds.py. In: classes, with functions that flatten and
rebuild their instances. Out: entries in the table of kinds.py. Users find these functions in
gpuarray.tree_util.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from gpuarray.pytree.kinds import register_dataclass_node, register_node

T = TypeVar("T")


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable, Any]],
    unflatten_func: Callable[[Any, tuple], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable, Any]] | None = None,
) -> None:
    """Make instances of a class nodes: `flatten_func(x)` is (children, aux data).

    `unflatten_func(aux, children)` gives x back. Aux data is part of the structure: it must have ==
    and hash, and cannot hold arrays. `flatten_with_keys_func(x)` is ((key, child) pairs, aux data).

    >>> from gpuarray.tree_util import tree_leaves
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda _, ab: Pair(*ab))
    >>> tree_leaves([Pair(1, 2), 3])
    [1, 2, 3]
    """
    register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_node_class(cls: type[T]) -> type[T]:
    """Decorate a class that has `tree_flatten(self)` and the classmethod `tree_unflatten`.

    >>> from gpuarray.tree_util import tree_map
    >>> @register_pytree_node_class
    ... class Scaled:
    ...     def __init__(self, x, by):
    ...         self.x, self.by = x, by
    ...     def tree_flatten(self):
    ...         return (self.x,), self.by
    ...     @classmethod
    ...     def tree_unflatten(cls, aux, children):
    ...         return cls(*children, aux)
    >>> tree_map(lambda x: -x, Scaled(3, by=2)).x
    -3
    """
    register_node(cls, _method(cls, "tree_flatten"), _method(cls, "tree_unflatten"))
    return cls


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable, Any]],
    unflatten_func: Callable[[Any, tuple], Any],
    flatten_func: Callable[[Any], tuple[Iterable, Any]] | None = None,
) -> None:
    """Make instances of a class nodes: `flatten_with_keys(x)` is ((key, child) pairs, aux data).

    `flatten_func(x)`, a faster way to (children, aux data), is made from it when not given.

    >>> from gpuarray.tree_util import GetAttrKey, keystr, tree_leaves_with_path
    >>> class Layer:
    ...     def __init__(self, w):
    ...         self.w = w
    >>> register_pytree_with_keys(
    ...     Layer, lambda x: (((GetAttrKey("w"), x.w),), None), lambda _, c: Layer(*c)
    ... )
    >>> keystr(tree_leaves_with_path(Layer(0))[0][0])
    '.w'
    """

    # Slower than a function of the class's own, since the keys are made and thrown away.
    def drop_keys(x: Any) -> tuple[list, Any]:
        pairs, aux = flatten_with_keys(x)
        return [child for _, child in pairs], aux

    register_node(nodetype, flatten_func or drop_keys, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls: type[T]) -> type[T]:
    """Decorate a class that has `tree_flatten_with_keys` and the classmethod `tree_unflatten`.

    A `tree_flatten`, if there is one, is the faster way to flatten without keys.

    >>> from gpuarray.tree_util import GetAttrKey, keystr, tree_leaves_with_path
    >>> @register_pytree_with_keys_class
    ... class Point:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def tree_flatten_with_keys(self):
    ...         return ((GetAttrKey("x"), self.x),), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux, children):
    ...         return cls(*children)
    >>> keystr(tree_leaves_with_path([Point(0)])[0][0])
    '[0].x'
    """
    register_pytree_with_keys(
        cls,
        _method(cls, "tree_flatten_with_keys"),
        _method(cls, "tree_unflatten"),
        getattr(cls, "tree_flatten", None),
    )
    return cls


def _method(cls: Any, name: str) -> Callable[..., Any]:
    try:
        return getattr(cls, name)
    except AttributeError as e:
        raise AttributeError(f"{e}; a pytree node class has to define it") from None


def register_static(cls: type[T]) -> type[T]:
    """Decorate a class whose instances are nodes without leaves: all structure, like an option.

    The class needs == and hash, since its instances become part of cache keys.

    >>> from gpuarray.tree_util import tree_leaves
    >>> @register_static
    ... class Mode(str):
    ...     pass
    >>> tree_leaves([Mode("train"), 1])
    [1]
    """
    # The instance itself is the aux data: rebuilding it returns the same object.
    register_node(cls, lambda x: ((), x), lambda x, _: x)
    return cls


def register_dataclass(
    nodetype: type[T],
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> type[T]:
    """Make instances of a dataclass nodes: `data_fields` are children, `meta_fields` are static.

    If neither is given, fields with `field(metadata=dict(static=True))` are static and the others
    are data. `drop_fields` get their defaults. It can be used as a decorator.

    >>> from gpuarray.tree_util import tree_structure
    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Dense:
    ...     w: float
    ...     act: str = dataclasses.field(default="relu", metadata=dict(static=True))
    >>> tree_structure(Dense(0.5))
    PyTreeDef(CustomNode(Dense[('relu',)], [*]))
    """
    is_dataclass = isinstance(nodetype, type) and dataclasses.is_dataclass(nodetype)
    dropped = set(drop_fields)
    if data_fields is None and meta_fields is None:
        if not is_dataclass:
            raise TypeError(
                "register_dataclass: data_fields and meta_fields are required when nodetype is not "
                f"a dataclass. Got nodetype={nodetype}."
            )
        # Declared in the class itself: static fields say so in their metadata.
        given = [f for f in dataclasses.fields(nodetype) if f.name not in dropped]  # type: ignore[arg-type]
        data = tuple([f.name for f in given if not f.metadata.get("static", False)])
        meta = tuple([f.name for f in given if f.metadata.get("static", False)])
    elif data_fields is None or meta_fields is None:
        raise TypeError(
            "register_dataclass: data_fields and meta_fields must both be specified when either is "
            f"specified. Got data_fields={data_fields} meta_fields={meta_fields}."
        )
    else:
        data, meta = tuple(data_fields), tuple(meta_fields)
    # A mistake here would show as a wrong number of leaves, far from its cause.
    _check_fields(nodetype if is_dataclass else None, set(data), set(meta), dropped)
    register_dataclass_node(nodetype, data, meta)
    return nodetype


def _check_fields(cls: Any, data: set[str], meta: set[str], dropped: set[str]) -> None:
    if both := data & meta:
        raise ValueError(
            f"data_fields and meta_fields must not overlap. Overlapping fields: {both}."
        )
    # Of a class that is no dataclass, only its users know the fields.
    if cls is None:
        return
    head = (
        "data_fields and meta_fields must include all dataclass fields with ``init=True`` and only "
        "them. "
    )
    # Fields with init=False cannot be passed back to the constructor.
    wanted = {f.name for f in dataclasses.fields(cls) if f.init} - dropped
    if missing := wanted - data - meta:
        raise ValueError(
            f"{head}Missing fields: {missing}. Add them to drop_fields to suppress this error."
        )
    if unexpected := (data | meta) - wanted:
        raise ValueError(f"{head}Unexpected fields: {unexpected}.")


class _Opaque:
    """Hides from functools.partial that a callable is a partial, which it would merge."""

    def __init__(self, fun: Callable[..., Any]):
        # Compares and hashes as the function it hides, since it is part of a structure.
        self.fun = fun

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fun(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name not in ("func", "args", "keywords"):
            raise AttributeError(name)
        return getattr(self.fun, name)

    def __eq__(self, other: object) -> bool:
        return self.fun == (other.fun if isinstance(other, _Opaque) else other)

    def __hash__(self) -> int:
        return hash(self.fun)

    def __repr__(self) -> str:
        return repr(self.fun)


class Partial(functools.partial):
    """A `functools.partial` that is a pytree: its arguments are children, its function is static.

    >>> from gpuarray.tree_util import tree_leaves
    >>> add_one = Partial(lambda x, y: x + y, 1)
    >>> add_one(5), tree_leaves(add_one)
    (6, [1])
    """

    __module__ = "gpuarray.tree_util"  # where users and pickle find it

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **kw: Any) -> Partial:
        # The arguments of a partial given as function stay in it: they are part of the function.
        whole = _Opaque(func) if isinstance(func, functools.partial) else func
        return super().__new__(cls, whole, *args, **kw)


register_node(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda func, parts: Partial(func, *parts[0], **parts[1]),
)
