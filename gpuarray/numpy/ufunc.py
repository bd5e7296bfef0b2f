"""`ufunc` objects: functions that also reduce, accumulate, update some elements, combine all pairs.

Floor 6. In: a function of one or two arguments, and its optimised reductions. Out: the class, and
`frompyfunc`; ufuncs.py has the instances in the public namespace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuarray import config, lax, util
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array
from gpuarray.functions.inspect import eval_shape
from gpuarray.functions.stages import struct_of
from gpuarray.numpy import (
    indexing,
    updates,
)
from gpuarray.numpy.axes import moveaxis
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.numpy.functional import vectorize
from gpuarray.numpy.promotion import arrays, broadcast_to, select
from gpuarray.util import Recent, canonical_axis, name_of


class ufunc:
    """A function that works element by element, with the methods NumPy gives such functions.

    reduce folds an axis, accumulate keeps the steps, reduceat folds slices, outer combines all
    pairs, at updates some elements. Made with `frompyfunc`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.add.reduce(gnp.arange(4)), gnp.multiply.outer(gnp.arange(2), gnp.arange(3)).shape
    (Array(6, dtype=int32), (2, 3))
    """

    __name__: str
    nin: int
    nout: int
    nargs: int
    identity: Any
    #: The plain function, for frequent calls.
    function: Callable[..., Any]
    _func: Callable[..., Any]
    _reduce: Callable[..., Any] | None
    _accumulate: Callable[..., Any] | None
    _at: Callable[..., Any] | None
    _reduceat: Callable[..., Any] | None
    _steps: _Steps
    _outcomes: Recent

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: Callable[..., Any] | None = None,
        reduceat: Callable[..., Any] | None = None,
    ):
        # Round __setattr__, which refuses: a ufunc is a key of caches.
        vars(self).update(
            __name__=name or name_of(func, "ufunc"),
            __doc__=func.__doc__,
            __wrapped__=func,
            nin=util.index(nin),
            nout=util.index(nout),
            nargs=util.index(nargs or nin),
            identity=identity,
            function=call or func,
            _func=func,
            _reduce=reduce,
            _accumulate=accumulate,
            _at=at,
            _reduceat=reduceat,
            # Made once, so that a scan finds the same function and is not traced again.
            _steps=_steps(call or func),
            _outcomes=Recent(256),
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self} is read-only: {name!r} cannot be set")

    def _key(self) -> tuple:
        return type(self), self._func, self.nin, self.nout, self.identity

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"

    def __call__(self, *args: Any, out: None = None, where: None = None) -> Any:
        if out is not None or where is not None:
            given = "out" if out is not None else "where"
            raise NotImplementedError(
                f"{given} argument of {self}: arrays are immutable, use the result (and "
                "gpuarray.numpy.where)"
            )
        return self.function(*arrays(self.__name__, *args))

    def _elements(self, name: str, a: Array, dtype: Any) -> Array:
        """An array converted to the dtype in which it is folded."""
        return typed_as(name, a, dtype)

    def _outcome(self, *operands: Array) -> Any:
        """The dtype that the function has for single elements of these arrays."""
        # The result's dtype by tracing, remembered by the operands' dtypes.
        key = (config.state.trace_key, *(x.dtype for x in operands))
        found = self._outcomes.find(key)
        if found is None:
            elements = [struct_of(ShapedArray((), x.dtype)) for x in operands]
            found = self._outcomes.put(key, eval_shape(self.function, *elements).dtype)
        return found

    def _result(self, a: Array, dtype: Any) -> Any:
        """The dtype of a fold: the one given, or the result type of two elements."""
        if dtype is not None:
            return dtypes.check_user_dtype(dtype, self.__name__)
        return self._outcome(a, a)

    def _binary(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ValueError(f"{method} only supported for binary ufuncs, {self} is none")

    def reduce(
        self,
        a,
        axis: Any = 0,
        dtype=None,
        out: None = None,
        keepdims: bool = False,
        initial=None,
        where=None,
    ) -> Array:
        """Fold the elements along `axis` from left to right.

        Shape contract: the axis goes, or becomes 1 with `keepdims`; None folds them all.

        >>> import gpuarray.numpy as gnp
        >>> gnp.subtract.reduce(gnp.array([10, 1, 2]))
        Array(7, dtype=int32)
        """
        name = f"{self.__name__}.reduce"
        self._binary("reduce")
        _no_out(name, out)
        (a,) = arrays(name, a)
        # There may be no elements to fold, and no value for that case.
        if where is not None and self.identity is None and initial is None:
            raise ValueError(
                f"reduction operation {self.__name__!r} does not have an identity, so to use a "
                "where mask one has to specify 'initial'."
            )
        if not isinstance(axis, tuple) and axis is not None:
            axis = canonical_axis(axis, a.ndim)
        # Known folds use dedicated reductions.
        if self._reduce is not None:
            return self._reduce(
                a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
            )
        return self._fold(a, axis, dtype, keepdims, initial, where)

    def _fold(self, a: Array, axis: Any, dtype, keepdims: bool, initial, where) -> Array:
        if isinstance(axis, tuple):
            raise NotImplementedError(
                f"{self.__name__}.reduce over a tuple of axes: fold them in turn"
            )
        a, shape = self._elements(self.__name__, a, dtype), a.shape
        result = self._result(a, dtype)
        if where is not None:
            where = broadcast_to(asarray(where), shape)
        at = 0 if axis is None else axis
        if axis is None:
            a = lax.reshape(a, (a.size,))
            where = None if where is None else lax.reshape(where, (a.size,))
        # A masked or empty axis starts from the identity.
        if initial is None and (where is not None or a.shape[at] == 0):
            initial = self.identity
        if initial is None and a.shape[at] == 0:
            raise ValueError(
                f"zero-size array to reduction operation {self.__name__} which has no identity"
            )
        xs = moveaxis(a, at, 0)
        masks = None if where is None else moveaxis(where, at, 0)
        # The first element starts the fold where no identity is needed.
        if initial is None:
            start, xs = xs[0], xs[1:]
            masks = None if masks is None else masks[1:]
        else:
            start = broadcast_to(asarray(initial), xs.shape[1:])
        # The carry of a scan keeps its dtype, so it starts with that of the result.
        start = as_type(start, result)
        if masks is None:
            acc = lax.scan(self._steps.fold, start, xs)[0]
        else:
            acc = lax.scan(self._steps.masked, start, (xs, masks))[0]
        if not keepdims:
            return acc
        return lax.reshape(acc, (1,) * len(shape)) if axis is None else lax.expand_dims(acc, (at,))

    def accumulate(self, a, axis: int | None = 0, dtype=None, out: None = None) -> Array:
        """Fold the elements along `axis` and keep every step.

        Shape contract: the shape of a; None flattens it first.

        >>> import gpuarray.numpy as gnp
        >>> gnp.subtract.accumulate(gnp.array([10, 1, 2]))
        Array([10,  9,  7], dtype=int32)
        """
        name = f"{self.__name__}.accumulate"
        self._binary("accumulate")
        _no_out(name, out)
        (a,) = arrays(name, a)
        if axis is None or isinstance(axis, (tuple, list)):
            if a.ndim != 1:
                raise ValueError("accumulate does not allow multiple axes: fold them in turn")
            axis = 0
        at = canonical_axis(axis, a.ndim)
        if self._accumulate is not None:
            return self._accumulate(a, axis=at, dtype=dtype)
        a = self._elements(name, a, dtype)
        result = self._result(a, dtype)
        # No elements to accumulate.
        if not a.shape[at]:
            return as_type(a, result)
        xs = moveaxis(a, at, 0)
        first = as_type(xs[0], result)
        steps = lax.scan(self._steps.kept, first, xs[1:])[1]
        return moveaxis(lax.concatenate([lax.expand_dims(first, (0,)), steps], 0), 0, at)

    def at(self, a, indices, b=None, /, *, inplace: bool = True) -> Array:
        """`a` with the function applied at some positions, once for every time they are named.

        Shape contract: the shape of a; b broadcasts against a[indices]. Arrays are immutable, so
        `inplace=False` is required and the result must be used.

        >>> import gpuarray.numpy as gnp
        >>> gnp.add.at(gnp.zeros(3, int), gnp.array([0, 2, 2]), 1, inplace=False)
        Array([1, 0, 2], dtype=int32)
        """
        if inplace:
            raise NotImplementedError(
                "Because JAX arrays are immutable, jnp.ufunc.at() cannot operate inplace like "
                "np.ufunc.at(), and neither can gpuarray's. Pass inplace=False and use the result: "
                f"arr = {self.__name__}.at(arr, ind, val, inplace=False)."
            )
        if (b is None) != (self.nin == 1):
            raise ValueError(f"{self.__name__}.at takes {self.nin + 1} arguments")
        (a,) = arrays(f"{self.__name__}.at", a)
        if self._at is not None:
            return self._at(a, indices, b)
        # The flat position of every element that the index names, in its order.
        places = indexing.getitem(
            lax.reshape(lax.iota(dtypes.default_int(), a.size), a.shape), indices
        )
        others = [] if b is None else [_flat(broadcast_to(asarray(b), places.shape))]
        flat = as_type(_flat(a), self._outcome(a, *others))
        places = _flat(places)
        # All together if no position occurs twice; one after the other otherwise.
        if _all_different(places):
            new = self.function(indexing.getitem(flat, places), *others)
            flat = updates.at(flat)[places].set(as_type(new, flat.dtype))
        else:  # one named twice is updated twice
            flat = lax.scan(self._steps.update, flat, (places, *others))[0]
        return lax.reshape(flat, a.shape)

    def reduceat(self, a, indices, axis: int = 0, dtype=None, out: None = None) -> Array:
        """Fold the slices a[indices[i] : indices[i + 1]]; the last one goes to the end.

        Shape contract: the axis gets the length of indices. An empty slice gives its first element.

        >>> import gpuarray.numpy as gnp
        >>> gnp.add.reduceat(gnp.arange(8), gnp.array([0, 4, 6]))
        Array([ 6,  9, 13], dtype=int32)
        """
        name = f"{self.__name__}.reduceat"
        self._binary("reduceat")
        _no_out(name, out)
        a, starts = arrays(name, a, indices)
        if starts.ndim != 1 or dtypes.kind_of(starts.dtype) not in "iu":
            raise ValueError(f"{name}: indices must be one-dimensional integers")
        a = self._elements(name, a, dtype)
        at = canonical_axis(axis, a.ndim)
        n = a.shape[at]
        if not starts.shape[0]:
            return indexing.getitem(a, (slice(None),) * at + (slice(0),))
        # A slice ends where the next one begins, the last one at the end of the axis.
        ends = lax.concatenate(
            [indexing.getitem(starts, slice(1, None)), lax.full((1,), n, starts.dtype)], 0
        )
        # Each slice has at least its first element, as in NumPy even where it would be empty.
        acc = indexing.getitem(a, (slice(None),) * at + (starts,))
        # Starts and ends along the axis, against all other axes.
        spread = [1] * a.ndim
        spread[at] = starts.shape[0]
        starts, ends = lax.reshape(starts, tuple(spread)), lax.reshape(ends, tuple(spread))

        # One pass over the axis: every slice takes the elements that are its own.
        def step(acc, element):
            j, x = element
            # The first element of a slice is there already; those after it are taken in turn.
            own = lax.bitwise_and(lax.lt(starts, j), lax.gt(ends, j))
            new = self.function(acc, broadcast_to(lax.expand_dims(x, (at,)), acc.shape))
            return select(own, as_type(new, acc.dtype), acc), None

        positions = lax.iota(starts.dtype, n)
        return lax.scan(step, acc, (positions[1:], moveaxis(a, at, 0)[1:]))[0]

    def outer(self, A, B, /) -> Array:
        """The function of all pairs of elements.

        Shape contract: A.shape + B.shape.

        >>> import gpuarray.numpy as gnp
        >>> gnp.add.outer(gnp.arange(2), gnp.arange(3))
        Array([[0, 1, 2],
               [1, 2, 3]], dtype=int32)
        """
        self._binary("outer")
        A, B = arrays(f"{self.__name__}.outer", A, B)
        rank = A.ndim + B.ndim
        return self.function(
            lax.expand_dims(A, range(A.ndim, rank)), lax.expand_dims(B, range(A.ndim))
        )


ufunc.__module__ = "gpuarray.numpy"


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A ufunc of a Python function of scalars, which is traced as any other.

    Shape contract: the function is mapped over arrays that are broadcast together.

    >>> import gpuarray.numpy as gnp
    >>> gnp.frompyfunc(lambda a, b: 10 * a + b, 2, 1).reduce(gnp.array([1, 2, 3]))
    Array(123, dtype=int32)
    """
    return ufunc(func, nin, nout, identity=identity, call=vectorize(func))


def _no_out(name: str, out: None) -> None:
    if out is not None:
        raise NotImplementedError(f"out argument of {name}(): arrays are immutable, use the result")


def typed_as(name: str, a: Array, dtype: Any) -> Array:
    """An array in the requested dtype; unchanged if none is requested."""
    return a if dtype is None else as_type(a, dtypes.check_user_dtype(dtype, name))


def _flat(x: Array) -> Array:
    return lax.reshape(x, (x.size,))


def _all_different(places: Array) -> bool:
    """Whether all positions are known to be distinct."""
    # Not known: they might be the same.
    if isinstance(places, Tracer):
        return places.size < 2
    return np.unique(np.asarray(places)).size == places.size


class _Steps(NamedTuple):
    """The bodies of the scans in which a function is applied to one element after another."""

    fold: Callable[..., Any]
    masked: Callable[..., Any]
    kept: Callable[..., Any]
    update: Callable[..., Any]


def _steps(function: Callable[..., Any]) -> _Steps:
    def fold(carry, x):
        return as_type(asarray(function(carry, x)), carry.dtype), None

    def masked(carry, x_and_mask):
        x, mask = x_and_mask
        return select(mask, fold(carry, x)[0], carry), None

    def kept(carry, x):
        new, _ = fold(carry, x)
        return new, new

    def update(flat, place_and_others):
        place, *others = place_and_others
        old = lax.dynamic_index_in_dim(flat, place, keepdims=False)
        new = as_type(asarray(function(old, *others)), flat.dtype)
        return lax.dynamic_update_index_in_dim(flat, new, place, 0), None

    return _Steps(fold, masked, kept, update)
