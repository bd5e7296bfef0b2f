"""Messages along a named axis in two halves, to send and to receive: `psend` and `precv`.

Floor 6. In: one element's value, and pairs of sender and receiver. Out: a token, then the value
that was sent. The token holds the value of its `psend`, so the two are one exchange, which every
platform supports; and a program whose halves do not match, which would otherwise deadlock, is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuarray import errors
from gpuarray.core.avals import aval_of
from gpuarray.core.dtypes import as_dtype
from gpuarray.lax.collectives import AxisName, ppermute
from gpuarray.pytree import tree
from gpuarray.pytree.registration import register_pytree_node


class SendToken:
    """Returned by `psend` and taken by `precv`: a pytree that orders operations by data
    dependence.
    """

    def __init__(self, value: Any, names: tuple, perm: tuple):
        self._value, self.names, self.perm = value, names, perm

    def __repr__(self) -> str:
        return f"SendToken(axis_name={self.names}, perm={self.perm})"


# A pytree, so that transformations carry the value inside as any other.
register_pytree_node(
    SendToken,
    lambda token: ((token._value,), (token.names, token.perm)),
    lambda aux, children: SendToken(children[0], *aux),
)


def _names(axis_name: AxisName) -> tuple:
    return tuple(axis_name) if isinstance(axis_name, (list, tuple)) else (axis_name,)


def _pairs(perm: Sequence[tuple[int, int]]) -> tuple:
    return tuple((int(a), int(b)) for a, b in perm)


def psend(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Send a value along a named axis to the elements that take it by `precv`.

    Parameters
    ----------
    x :
        An array, or a pytree of them.
    axis_name :
        Name of an axis of the `shard_map`, `pmap` or `vmap` around, or several.
    perm :
        Pairs (from, to). No two have the same source or the same target, and they close no circle,
        in which each would wait for the one before it.

    Returns
    -------
    A token for each array, which `precv` and `optimization_barrier` take.

    Examples
    --------

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> def to_the_right(x):
    ...     token = lax.psend(x, "i", [(0, 1), (1, 2)])
    ...     return lax.precv(token, x, "i", [(0, 1), (1, 2)])
    >>> ga.vmap(to_the_right, axis_name="i")(ga.numpy.arange(1.0, 4.0))
    Array([0., 1., 2.], dtype=float32)
    """
    names, pairs = _names(axis_name), _pairs(perm)
    targets = dict(pairs)
    if len(targets) != len(pairs) or len(set(targets.values())) != len(pairs):
        raise ValueError(f"psend sources and destinations must be unique, got {list(perm)}")
    # The exchange is done here, and `precv` returns its result.
    received = ppermute(x, axis_name, pairs)
    # Follow each sender to whom it sends, and so on: back at the start is a circle.
    for start in targets:
        at = targets[start]
        while at in targets and at != start:
            at = targets[at]
        if at == start:
            raise errors.JaxRuntimeError(
                "Expected send and recv instructions to have non-cyclical source-target pairs, got "
                f"{list(pairs)}: each would wait for the one before it. Use lax.ppermute."
            )
    return tree.tree_map(lambda leaf: SendToken(leaf, names, pairs), received)


def precv(token: Any, out_shape: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Receive the value that another element sent along a named axis by `psend`.

    Parameters
    ----------
    token :
        The token of that `psend`.
    out_shape :
        An object with the shape and dtype of the sent value, such as a ShapeDtypeStruct.
    axis_name, perm :
        As `psend` was given them.

    Returns
    -------
    The value that was sent here; zeros where nothing was.

    Examples
    --------

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> def first_to_last(x):
    ...     return lax.precv(lax.psend(x, "i", [(0, 2)]), x, "i", [(0, 2)])
    >>> ga.vmap(first_to_last, axis_name="i")(ga.numpy.arange(7, 10))
    Array([0, 0, 7], dtype=int32)
    """
    names, pairs = _names(axis_name), _pairs(perm)
    if not isinstance(token, SendToken):
        raise errors.JaxRuntimeError(
            "Expected send to match recv: precv takes the token of the lax.psend whose value it "
            f"receives, got {token!r} of type {type(token).__name__}"
        )
    if (names, pairs) != (token.names, token.perm):
        raise errors.JaxRuntimeError(
            f"Deadlock detected: what psend sends along {token.names} by {list(token.perm)}, precv "
            f"expects along {names} by {list(pairs)}. Give both the same."
        )
    if not (hasattr(out_shape, "shape") and hasattr(out_shape, "dtype")):
        raise TypeError(
            "precv out_shape has the shape and dtype of what was sent, as a ShapeDtypeStruct has: "
            f"got {out_shape!r} of type {type(out_shape).__name__}"
        )
    aval = aval_of(token._value)
    if (tuple(out_shape.shape), as_dtype(out_shape.dtype)) != (aval.shape, aval.dtype):
        raise ValueError(
            f"precv out_shape is {as_dtype(out_shape.dtype).name}{list(out_shape.shape)}, and "
            f"what was sent is {aval.str_short()}"
        )
    return token._value
