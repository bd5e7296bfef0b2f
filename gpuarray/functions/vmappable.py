"""Objects that `vmap` maps as a whole: sparse arrays, and classes that libraries register.

Floor 6. In: for a class, how to take an element out of an object and how to combine results into
one. Out: trees in which such objects are leaves. Without this a pytree is mapped as its arrays, and
shapes that it stores would be wrong inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuarray.core import trace as traces
from gpuarray.pytree import tree
from gpuarray.transforms.batch import matched


class _Ways(NamedTuple):
    spec: type
    element: Callable[..., Any]
    whole: Callable[..., Any]


_ways: dict[type, _Ways] = {}


def register_vmappable(
    data_type: type,
    spec_type: type,
    axis_size_type: type,
    to_elt: Callable[..., Any],
    from_elt: Callable[..., Any],
    make_iota: Callable[..., Any] | None,
) -> None:
    """Define how `vmap` maps objects of a class.

    in_axes and out_axes of such an object are of `spec_type`: an int, or a class of the library
    that identifies the axis.

    to_elt(part, get_axis, x, axis): an element of x, made with part(array, axis) for its arrays.
    from_elt(part, size, element, axis): results as one object, made with part(size, array, axis).
    make_iota: for objects whose own lengths give the number of elements to map over; None
    otherwise.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.interpreters.batching import register_vmappable, unregister_vmappable
    >>> class Table:
    ...     def __init__(self, rows):
    ...         self.rows, self.shape = rows, rows.shape
    >>> _ = ga.tree_util.register_pytree_node(Table, lambda t: ((t.rows,), None),
    ...                                       lambda _, rows: Table(*rows))
    >>> register_vmappable(Table, int, int,
    ...                    lambda part, _, t, axis: Table(part(t.rows, axis)),
    ...                    lambda part, size, t, axis: Table(part(size, t.rows, axis)), None)
    >>> ga.vmap(lambda t: t.shape[0] * t.rows.sum())(Table(gnp.ones((2, 3))))
    Array([9., 9.], dtype=float32)
    >>> unregister_vmappable(Table)
    """
    if axis_size_type is not int:
        raise TypeError(
            f"a function is mapped a whole number of times: axis_size_type is int, got "
            f"{axis_size_type.__name__}"
        )
    if make_iota is not None:
        raise TypeError("make_iota is None here: the lengths of arrays say how often to map")
    _ways[data_type] = _Ways(spec_type, to_elt, from_elt)


def unregister_vmappable(data_type: type) -> None:
    """Undo `register_vmappable` for a class.

    >>> from gpuarray.interpreters.batching import unregister_vmappable
    >>> unregister_vmappable(int)  # nothing is known of it
    """
    _ways.pop(data_type, None)


def is_spec(x: Any) -> bool:
    """Whether an object is a library's way of naming the mapped axis of one of its own objects."""
    return any(type(x) is ways.spec for ways in _ways.values())


class Whole:
    """An object that is mapped as a whole, in the place of a leaf."""

    __slots__ = ("x",)

    def __init__(self, x: Any):
        self.x = x

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Its shape, if it has one."""
        found = getattr(self.x, "shape", None)
        return None if found is None else tuple(found)

    def element(self, axis: Any) -> Any:
        """An element, its arrays traced by the vmap that is being entered."""
        trace: Any = traces.state.trace
        # JAX passes a function of (array, axis) for the arrays inside, and one of the axis size,
        # which is not needed here.
        box = lambda array, dim: trace.box(traces.immutable(array), dim)
        return _ways[type(self.x)].element(box, None, self.x, axis)

    def rebuilt(self, size: int, axis: Any, unlike: Callable[[int], Exception]) -> Any:
        """The object of all results, built from one element by the vmap that is ending.

        unlike(dim): the error if elements that are declared equal are not.
        """
        trace: Any = traces.state.trace

        def part(_: int, array: Any, dim: int | None) -> Any:
            value, its = trace.split(traces.immutable(array))
            if dim is None and its is not None:
                raise unlike(its)
            with traces.current(trace.parent):
                return matched(value, its, dim, size)

        # All elements are equal: the results are the object's unchanged arrays.
        if axis is None:
            return tree.tree_map(lambda array: part(size, array, None), self.x)
        return _ways[type(self.x)].whole(part, size, self.x, axis)


def closed(x: Any) -> Any:
    """A tree with each object of a registered class as one leaf, a `Whole`."""
    if not _ways:
        return x
    is_whole = lambda v: type(v) in _ways
    return tree.tree_map(lambda v: Whole(v) if is_whole(v) else v, x, is_leaf=is_whole)
