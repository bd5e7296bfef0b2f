"""Errors as values, and the checks that make them.

Floor 6. In: conditions, and messages for failures. Out: without `checkify`, a callback that raises;
under `checkify`, an equation that it recognises, and the Error that it returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import numpy as gnp
from gpuarray import random
from gpuarray.control.callbacks import debug_callback_p
from gpuarray.control.graph_edits import cut
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.dtypes import KeyDtype
from gpuarray.core.value import Array
from gpuarray.pytree import tree
from gpuarray.runtime import array as arrays
from gpuarray.tree_util import register_pytree_node
from gpuarray.util import Struct

# ---- kinds of errors ----


class JaxException(Exception):
    """Base class of the errors that `Error.get_exception` returns."""


class FailedCheckError(JaxException):
    """A `check` that did not hold."""


class NaNError(JaxException):
    """An operation that made a NaN."""


class DivisionByZeroError(JaxException):
    """A division by zero."""


class OOBError(JaxException):
    """An index out of bounds."""


class JaxRuntimeError(ValueError):
    """A check that failed, raised."""


ErrorCategory = type[JaxException]
user_checks = frozenset({FailedCheckError})
nan_checks = frozenset({NaNError})
index_checks = frozenset({OOBError})
div_checks = frozenset({DivisionByZeroError})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks


class CheckSite(Struct):
    """A place that can fail, with its message and the avals of the payload to format into it."""

    kind: type[JaxException]
    text: str
    payload: tuple[ShapedArray, ...] = ()
    spec: Any = None  # of (args, kwargs) of a user's check
    keys: tuple[KeyDtype | None, ...] = ()  # of those in the payload that are words of random keys
    inner: tuple[CheckSite, ...] = ()  # of an error that is checked again, or one for each device

    def message(self, payload: Sequence) -> str:
        """The message, from concrete numbers."""
        if self.inner:
            return Error(payload[0], payload[1:], self.inner).get() or ""
        if self.spec is not None:
            leaves = map(_shown, payload, self.keys)
            args, kwargs = tree.unflatten(self.spec, list(leaves))
            return self.text.format(*args, **kwargs) + " (`check` failed)"
        return self.text.format(*map(int, payload))

    def exception(self, payload: Sequence) -> JaxException:
        """The exception, from concrete numbers."""
        if self.inner:
            found = Error(payload[0], payload[1:], self.inner).get_exception()
            return self.kind("") if found is None else found
        return self.kind(self.message(payload))


def _shown(value: Any, key: KeyDtype | None) -> Array:
    """Convert to the Array to be formatted: numbers or random keys."""
    found = np.asarray(value)
    if key is None:
        return arrays.rebuild(found, False)
    return arrays.rebuild_key(np.ascontiguousarray(found).view(key.storage)[..., 0], key)


def _own_payload(sites: Sequence[CheckSite], code: int, payload: Sequence) -> Sequence:
    # The payloads of all sites are concatenated, in the order of their numbers.
    return cut(payload, *(len(s.payload) for s in sites))[code]


def _message(sites: Sequence[CheckSite], code: int, payload: Sequence) -> str:
    return sites[code].message(_own_payload(sites, code, payload))


def _exception(sites: Sequence[CheckSite], code: int, payload: Sequence) -> JaxException:
    return sites[code].exception(_own_payload(sites, code, payload))


class Error:
    """The first error of a run, or none: a pytree, so it goes through jit, vmap and cond.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental import checkify
    >>> def f(x):
    ...     checkify.check(x > 0, "x is {}", x)
    ...     return x
    >>> error, _ = checkify.checkify(ga.jit(f))(-1.)
    >>> print(error.get())
    x is -1.0 (`check` failed)
    """

    def __init__(self, code: Any, payload: Sequence = (), sites: tuple[CheckSite, ...] = ()):
        self.code = code  # the number of the site that failed, or -1
        self.payload = tuple(payload)
        self.sites = sites

    def _failures(self) -> list[tuple[tuple[int, ...], int, list]]:
        # Under vmap there is a code for each element.
        codes = np.asarray(self.code)
        found = []
        for at in np.ndindex(codes.shape):
            if codes[at] >= 0:
                found.append((at, int(codes[at]), [np.asarray(p)[at] for p in self.payload]))
        return found

    def get(self) -> str | None:
        """The message, or None; one line for every element that failed under vmap."""
        lines = []
        for at, code, payload in self._failures():
            where = f"at mapped index {', '.join(map(str, at))}: " if at else ""
            lines.append(where + _message(self.sites, code, payload))
        return "\n".join(lines) or None

    def get_exception(self) -> JaxException | None:
        """The exception of the first failure, not raised; None if there is none."""
        for _, code, payload in self._failures():
            return _exception(self.sites, code, payload)
        return None

    def throw(self) -> None:
        """Raise JaxRuntimeError with the message, if there is one."""
        check_error(self)

    def __repr__(self) -> str:
        if isinstance(self.code, (Array, np.ndarray, np.generic, int)) and not isinstance(
            self.code, traces.Tracer
        ):
            return f"Error({self.get()!r})"
        return f"Error(code={self.code!r})"


register_pytree_node(
    Error,
    lambda e: ((e.code, *e.payload), e.sites),
    lambda sites, leaves: Error(leaves[0], leaves[1:], sites),
)
init_error = Error(np.int32(-1))


# ---- checks ----


class CheckCallback(Struct):
    """The callback of a check outside of checkify: raise when it fails."""

    site: CheckSite
    debug: bool

    def __call__(self, avals: Sequence, buffers: Sequence, result_avals: Sequence) -> list:
        holds, *payload = buffers
        if not self.debug and not np.asarray(holds).all():
            raise JaxRuntimeError(self.site.message(payload))
        return []


def _assert(holds: Any, site: CheckSite, payload: Sequence, debug: bool) -> None:
    # While tracing the check is an equation, which checkify finds; outside it raises here.
    if not traces.is_base() or isinstance(holds, traces.Tracer):
        callback = CheckCallback(site, debug)
        debug_callback_p.bind(
            holds, *payload, callback=callback, effect="DebugEffect", partitioned=False
        )
    elif not debug and not bool(holds):
        raise JaxRuntimeError(site.message(payload))


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Require that `pred`, a boolean, holds; otherwise report `msg.format(*fmt_args,
    **fmt_kwargs)`.

    Under `checkify` a check that fails becomes the function's Error; elsewhere it raises
    JaxRuntimeError where it runs. debug: it only counts under `checkify`.

    >>> from gpuarray.experimental import checkify
    >>> checkify.check(2 > 1, "two is {}", 2)
    """
    aval = aval_of(pred)
    if aval.shape or aval.dtype != np.bool_:
        name = "debug_check" if debug else "check"
        raise TypeError(f"{name} takes a scalar pred as argument, got {pred}")
    leaves, spec = tree.flatten((fmt_args, fmt_kwargs))
    for x in leaves:
        if not isinstance(x, (Array, np.ndarray, np.generic, bool, int, float, complex)):
            raise TypeError(
                "Formatting arguments to checkify.check need to be PyTrees of arrays, but got "
                f"{x!r} of type {type(x)}."
            )
    # The payload of a failed check has fixed types, so that loops can carry it.
    keys = tuple(a.dtype if isinstance(a.dtype, KeyDtype) else None for a in map(aval_of, leaves))
    leaves = [x if key is None else random.key_data(x) for x, key in zip(leaves, keys, strict=True)]
    avals = tuple(aval_of(x).strip_weak_type() for x in leaves)
    site = CheckSite(FailedCheckError, msg, avals, spec, keys)
    site.message([np.zeros(a.shape, a.dtype) for a in avals])  # a bad format shows itself now
    _assert(pred, site, leaves, debug)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """`check(..., debug=True)`: it counts under `checkify` and has no effect elsewhere.

    >>> from gpuarray.experimental import checkify
    >>> checkify.debug_check(1 > 2, "never seen here")
    """
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def _first(error: Error) -> Error:
    """The Error of the first element that failed, of those of many under vmap or scan."""
    shape = aval_of(error.code).shape
    if not shape:
        return error
    codes = gnp.ravel(error.code)
    at = gnp.argmax(gnp.greater_equal(codes, 0))  # 0 where none failed
    flat = lambda x: gnp.reshape(x, (-1, *aval_of(x).shape[len(shape) :]))
    return Error(codes[at], [flat(x)[at] for x in error.payload], error.sites)


def check_error(error: Error) -> None:
    """Raise JaxRuntimeError if there is an error; inside `checkify` it is an error there, too.

    >>> from gpuarray.experimental import checkify
    >>> checkify.check_error(checkify.init_error)
    """
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes an Error as argument, got type {type(error)} instead.")
    if not error.sites:
        return
    if not any(isinstance(x, traces.Tracer) for x in (error.code, *error.payload)):
        # Of several elements or devices, the first that failed: libraries look for its message.
        found = error.get_exception()
        if found is not None:
            raise JaxRuntimeError(str(found))
        return
    error = _first(error)
    leaves = [error.code, *error.payload]
    avals = tuple(aval_of(x).strip_weak_type() for x in leaves)
    site = CheckSite(FailedCheckError, "", avals, inner=error.sites)
    _assert(gnp.less(error.code, 0), site, leaves, debug=False)
