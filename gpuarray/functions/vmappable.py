"""Objects that `vmap` maps as a whole: sparse arrays, and classes that libraries register.

Floor 6. In: for a class, how an element comes out of an object and how results are made into one.
Out: trees in which such objects are leaves. Without this a pytree is mapped as the arrays in it,
and what it knows of their shapes would be wrong inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuarray.core import trace as traces
from gpuarray.pytree import tree
from gpuarray.transforms.batch import matched


class _Ways(NamedTuple):
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
    """Say how `vmap` maps objects of a class, which is a pytree of arrays.

    to_elt(part, get_axis, x, axis): an element of x, made with part(array, axis) for the arrays
    in it. from_elt(part, size, element, axis): results as one object, made with part(size, array,
    axis). make_iota: for objects whose own lengths say how often a function is mapped; None.

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
    if spec_type is not int or axis_size_type is not int:
        raise TypeError(
            "axes of a vmappable class are ints here, got "
            f"{spec_type.__name__} and {axis_size_type.__name__}"
        )
    if make_iota is not None:
        raise TypeError("make_iota is None here: the lengths of arrays say how often to map")
    _ways[data_type] = _Ways(to_elt, from_elt)


def unregister_vmappable(data_type: type) -> None:
    """Forget what `register_vmappable` said of a class.

    >>> from gpuarray.interpreters.batching import unregister_vmappable
    >>> unregister_vmappable(int)  # nothing is known of it
    """
    _ways.pop(data_type, None)


class Whole:
    """An object that is mapped as a whole, in the place of a leaf."""

    __slots__ = ("x",)

    def __init__(self, x: Any):
        self.x = x

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)

    def element(self, axis: int | None) -> Any:
        """An element, its arrays traced by the vmap that is being entered."""
        trace: Any = traces.state.trace
        # JAX hands over a function of (array, axis) for the arrays inside, and one of the axis
        # size, which nothing here needs.
        box = lambda array, dim: trace.box(traces.immutable(array), dim)
        return _ways[type(self.x)].element(box, None, self.x, axis)

    def parts(self) -> list:
        """The arrays in it."""
        return tree.flatten(self.x)[0]

    def rebuilt(self, values: Sequence, dims: Sequence, axis: int | None, size: int) -> Any:
        """The object of all results, from its parts as they came out of the vmap."""
        given = self.parts()
        # All elements are alike: the results are the object's arrays as they are.
        if axis is None:
            return tree.unflatten(tree.flatten(self.x)[1], values)
        # By identity: the class asks for its own arrays by handing them over.
        places = {id(part): i for i, part in enumerate(given)}

        def part(_: int, array: Any, dim: int) -> Any:
            i = places[id(array)]
            return matched(values[i], dims[i], dim, size)

        return _ways[type(self.x)].whole(part, size, self.x, axis)


def closed(x: Any) -> Any:
    """A tree with each object of a registered class as one leaf, a `Whole`."""
    if not _ways:
        return x
    is_whole = lambda v: type(v) in _ways
    return tree.tree_map(lambda v: Whole(v) if is_whole(v) else v, x, is_leaf=is_whole)
