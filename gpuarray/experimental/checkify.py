"""Errors that depend on values, as values: `checkify(f)` returns f's first error with its result.

Floor 6. In: functions with checks in them. Out: functions that run under jit, vmap and grad and
return (Error, result). The function is traced, every equation that can fail is given a number, and
its graph is run with one more value: the number of the first one that failed, and what its message
is made of. Outside checkify a check is a callback that raises.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray import lax, random, util
from gpuarray import numpy as gnp
from gpuarray.control.call import jit_p
from gpuarray.control.callbacks import ForEach, debug_callback_p
from gpuarray.control.checkpoint import remat_p
from gpuarray.control.cond import cond_p
from gpuarray.control.custom_jvp import custom_jvp_call_p
from gpuarray.control.custom_vjp import custom_vjp_call_p
from gpuarray.control.custom_vmap import custom_vmap_call_p
from gpuarray.control.graph_edits import cut
from gpuarray.control.linear_call import linear_call_p
from gpuarray.control.scan import scan_p
from gpuarray.control.while_loop import while_p
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.dtypes import KeyDtype
from gpuarray.core.graph import Eqn, Graph, Literal, graphs_in, last_uses
from gpuarray.core.linear import is_inexact
from gpuarray.core.primitive import Kind
from gpuarray.core.tracebacks import boundary
from gpuarray.core.value import Array, is_operand
from gpuarray.names import explain_names as _explain_names
from gpuarray.primitives.elementwise.arithmetic import div_p
from gpuarray.primitives.elementwise.convert import convert_element_type_p
from gpuarray.primitives.indexing.ops import (
    gather_p,
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from gpuarray.primitives.movement.ops import dynamic_slice_p, dynamic_update_slice_p
from gpuarray.pytree import tree
from gpuarray.runtime import array as arrays
from gpuarray.transforms.tracing import TracedFunction, stage
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


class Site(Struct):
    """A place that can fail, with its message and the avals of the payload to format into it."""

    kind: type[JaxException]
    text: str
    payload: tuple[ShapedArray, ...] = ()
    spec: Any = None  # of (args, kwargs) of a user's check
    keys: tuple[KeyDtype | None, ...] = ()  # of those in the payload that are words of random keys
    inner: tuple[Site, ...] = ()  # of an error that is checked again

    def message(self, payload: Sequence) -> str:
        """The message, from concrete numbers."""
        if self.inner:
            code, *rest = payload
            return _message(self.inner, int(code), rest)
        if self.spec is not None:
            leaves = map(_shown, payload, self.keys)
            args, kwargs = tree.unflatten(self.spec, list(leaves))
            return self.text.format(*args, **kwargs) + " (`check` failed)"
        return self.text.format(*map(int, payload))

    def exception(self, payload: Sequence) -> JaxException:
        """The exception, from concrete numbers."""
        if self.inner:
            code, *rest = payload
            return _exception(self.inner, int(code), rest)
        return self.kind(self.message(payload))


def _shown(value: Any, key: KeyDtype | None) -> Array:
    """What is formatted: an Array as the user has it, of numbers or random keys."""
    found = np.asarray(value)
    if key is None:
        return arrays.rebuild(found, False)
    return arrays.rebuild_key(np.ascontiguousarray(found).view(key.storage)[..., 0], key)


def _own_payload(sites: Sequence[Site], code: int, payload: Sequence) -> Sequence:
    # The payloads of all sites lie one after the other, in the order of their numbers.
    return cut(payload, *(len(s.payload) for s in sites))[code]


def _message(sites: Sequence[Site], code: int, payload: Sequence) -> str:
    return sites[code].message(_own_payload(sites, code, payload))


def _exception(sites: Sequence[Site], code: int, payload: Sequence) -> JaxException:
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

    def __init__(self, code: Any, payload: Sequence = (), sites: tuple[Site, ...] = ()):
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
        """The exception of the first failure, not raised, or None."""
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


class _Raise(Struct):
    """The callback of a check outside of checkify: raise when it fails."""

    site: Site
    debug: bool

    def __call__(self, avals: Sequence, buffers: Sequence, result_avals: Sequence) -> list:
        holds, *payload = buffers
        if not self.debug and not np.asarray(holds).all():
            raise JaxRuntimeError(self.site.message(payload))
        return []


def _assert(holds: Any, site: Site, payload: Sequence, debug: bool) -> None:
    # While tracing the check is an equation, which checkify finds; outside it raises here.
    if not traces.is_base() or isinstance(holds, traces.Tracer):
        callback = _Raise(site, debug)
        debug_callback_p.bind(
            holds, *payload, callback=callback, effect="DebugEffect", partitioned=False
        )
    elif not debug and not bool(holds):
        raise JaxRuntimeError(site.message(payload))


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Say that `pred`, a boolean, must hold; `msg.format(*fmt_args, **fmt_kwargs)` when not.

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
    # What a failed check carries has fixed types: it goes through loops.
    keys = tuple(a.dtype if isinstance(a.dtype, KeyDtype) else None for a in map(aval_of, leaves))
    leaves = [x if key is None else random.key_data(x) for x, key in zip(leaves, keys, strict=True)]
    avals = tuple(aval_of(x).strip_weak_type() for x in leaves)
    site = Site(FailedCheckError, msg, avals, spec, keys)
    site.message([np.zeros(a.shape, a.dtype) for a in avals])  # a bad format shows itself now
    _assert(pred, site, leaves, debug)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """`check(..., debug=True)`: it counts under `checkify` and does nothing elsewhere.

    >>> from gpuarray.experimental import checkify
    >>> checkify.debug_check(1 > 2, "never seen here")
    """
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


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
        message = error.get()
        if message is not None:
            raise JaxRuntimeError(message)
        return
    if aval_of(error.code).shape:
        raise ValueError("check_error within a traced function takes the Error of one element")
    leaves = [error.code, *error.payload]
    avals = tuple(aval_of(x).strip_weak_type() for x in leaves)
    _assert(gnp.less(error.code, 0), Site(FailedCheckError, "", avals, inner=error.sites), leaves,
            debug=False)  # fmt: skip


# ---- which equations can fail ----

_SCATTERS = (scatter_p, scatter_add_p, scatter_sub_p, scatter_mul_p, scatter_min_p, scatter_max_p)
_INDEXED = (gather_p, dynamic_slice_p, dynamic_update_slice_p, *_SCATTERS)
# Calls of one Graph with the equation's own operands, and the parameter that holds it.
_CALLS = {
    jit_p: "jaxpr",
    remat_p: "jaxpr",
    custom_jvp_call_p: "call_jaxpr",
    custom_vjp_call_p: "call_jaxpr",
    custom_vmap_call_p: "call",
    linear_call_p: "callee",
}


def _user_check(eqn: Eqn) -> _Raise | None:
    """The check that a callback is, below any number of vmaps."""
    if eqn.primitive is not debug_callback_p:
        return None
    callback = eqn.params["callback"]
    # Under vmap the callback is wrapped, once an axis.
    while isinstance(callback, ForEach):
        callback = callback.callback
    return callback if isinstance(callback, _Raise) else None


def _sites_of(eqn: Eqn, errors: frozenset) -> list[Site]:
    """The failures of an equation itself (not of a Graph in it), in the order of its tests."""
    found = []
    raiser = _user_check(eqn)
    if raiser is not None and FailedCheckError in errors:
        found.append(raiser.site)
    prim = eqn.primitive
    if prim is div_p and DivisionByZeroError in errors:
        found.append(Site(DivisionByZeroError, "division by zero"))
    # Which index, along which axis, of what length.
    if prim in _INDEXED and OOBError in errors:
        shape = eqn.invars[0].aval.shape
        number = ShapedArray((), np.dtype(np.int32))
        text = (
            f"out-of-bounds indexing for array of shape {shape}: index {{0}} is out of bounds for "
            "axis {1} with size {2}. "
        )
        found.append(Site(OOBError, text, (number,) * 3))
    # Moving nan about makes none.
    computes = prim.kind is not Kind.VIEW and prim not in _INDEXED
    if computes and NaNError in errors and any(is_inexact(v.aval) for v in eqn.outvars):
        if prim is not convert_element_type_p and not _opened(eqn):
            found.append(Site(NaNError, f"nan generated by primitive: {prim.name}."))
    return found


def _opened(eqn: Eqn) -> bool:
    """Whether the Graphs of an equation are gone into."""
    return eqn.primitive in _CALLS or eqn.primitive in (cond_p, while_p, scan_p)


class _Numbers:
    """The numbers of all sites of a Graph and the Graphs inside it."""

    def __init__(self, graph: Graph, errors: frozenset):
        self.errors = errors
        self.sites: list[Site] = []
        self.of: dict[int, list[int]] = {}  # by equation
        self._inside: dict[int, bool] = {}  # whether an equation, or one in it, can fail
        self._collect(graph)

    def _collect(self, graph: Graph) -> bool:
        found = False
        for eqn in graph.eqns:
            # A graph may be used several times: its equations keep their numbers.
            if id(eqn) not in self._inside:
                own = _sites_of(eqn, self.errors)
                self.of[id(eqn)] = list(range(len(self.sites), len(self.sites) + len(own)))
                self.sites += own
                deep = [self._collect(g) for g in graphs_in(eqn.params)] if _opened(eqn) else []
                self._inside[id(eqn)] = bool(own) or any(deep)
            found |= self._inside[id(eqn)]
        return found

    def can_fail(self, eqn: Eqn) -> bool:
        return self._inside[id(eqn)]


# ---- running a graph with its errors ----


class _Run:
    """Runs graphs of one checkified function. A state is (code, payloads of all sites)."""

    def __init__(self, numbers: _Numbers):
        self.numbers = numbers

    def start(self) -> list:
        payload = [a for s in self.numbers.sites for a in s.payload]
        # No failure yet, and room for what each site may carry.
        return [np.int32(-1), *(np.zeros(a.shape, a.dtype) for a in payload)]

    def failed(self, state: list, number: int, failure: Any, payload: Sequence = ()) -> list:
        """The state after a test: the first failure stays."""
        code, *rest = state
        # Only the first failure is kept.
        first = gnp.logical_and(failure, gnp.less(code, 0))
        groups = cut(rest, *(len(s.payload) for s in self.numbers.sites))
        avals = self.numbers.sites[number].payload
        groups[number] = [
            gnp.where(first, lax.convert_element_type(new, a.dtype), old)
            for new, old, a in zip(payload, groups[number], avals, strict=True)
        ]
        code = gnp.where(first, np.int32(number), code)
        return [lax.convert_element_type(code, np.int32), *(p for group in groups for p in group)]

    def graph(self, graph: Graph, state: list, args: Sequence) -> tuple[list, list]:
        """(state, results) of a Graph."""
        # As `evaluate`, with the error state handed from equation to equation.
        env: dict = dict(zip(graph.constvars, graph.consts, strict=True))
        env.update(zip(graph.invars, args, strict=True))
        last_use = last_uses(graph)
        for index, eqn in enumerate(graph.eqns):
            values = [a.operand if isinstance(a, Literal) else env[a] for a in eqn.invars]
            state, out = self.equation(eqn, state, values)
            env.update(zip(eqn.outvars, out, strict=True))
            # Values are dropped after their last use, so that their memory can be used again.
            for v in last_use.get(index, ()):
                env.pop(v, None)
        return state, [a.operand if isinstance(a, Literal) else env[a] for a in graph.outvars]

    def equation(self, eqn: Eqn, state: list, values: list) -> tuple[list, list]:
        prim, params = eqn.primitive, eqn.params
        raiser = _user_check(eqn)
        # Nothing in it can fail: it runs as it is, kernels and all.
        if raiser is None and not self.numbers.can_fail(eqn):
            out = prim.bind(*values, **params)
            return state, list(out) if prim.multiple_results else [out]
        # Calls and control flow are opened: the state goes in and comes out.
        if prim in _CALLS:
            return self.graph(params[_CALLS[prim]], state, values)
        if prim is cond_p:
            return self.cond(params["branches"], state, values)
        if prim is while_p:
            return self.loop(params, state, values)
        if prim is scan_p:
            return self.scan(params, state, values)
        numbers = iter(self.numbers.of[id(eqn)])
        if raiser is not None:
            if FailedCheckError in self.numbers.errors:
                failure, payload = _first_failure(params["callback"], values)
                state = self.failed(state, next(numbers), failure, payload)
            return state, []
        # Run it, then look at operands or results.
        out = prim.bind(*values, **params)
        outs = list(out) if prim.multiple_results else [out]
        for number in numbers:
            kind = self.numbers.sites[number].kind
            if kind is DivisionByZeroError:
                state = self.failed(state, number, gnp.equal(values[1], 0).any())
            elif kind is OOBError:
                state = self.failed(state, number, *_outside(eqn, values))
            else:
                nans = [gnp.isnan(x).any() for x, v in zip(outs, eqn.outvars) if is_inexact(v.aval)]
                state = self.failed(state, number, functools.reduce(gnp.logical_or, nans))
        return state, outs

    def cond(self, branches: Sequence[Graph], state: list, values: list) -> tuple[list, list]:
        index, *operands = values

        def branch(graph: Graph) -> Callable:
            return lambda state, operands: self.graph(graph, state, operands)

        return lax.switch(index, [branch(g) for g in branches], state, operands)

    def loop(self, params: dict, state: list, values: list) -> tuple[list, list]:
        condition, body = params["cond_jaxpr"], params["body_jaxpr"]
        if condition.out_avals[0].shape:
            raise ValueError(
                "Checkify does not support batched while-loops (checkify-of-vmap-of-while). \n"
                "Hint: if possible, move the vmap to the outer level to get "
                "vmap-of-checkify-of-while."
            )
        first, second, carry = cut(values, params["cond_nconsts"], params["body_nconsts"])

        # The condition may fail too: it runs in the body, and its answer is carried.
        def tested(state: list, carry: list) -> tuple:
            state, (going,) = self.graph(condition, state, [*first, *carry])
            return state, carry, going

        def step(value: tuple) -> tuple:
            state, carry, _ = value
            return tested(*self.graph(body, state, [*second, *carry]))

        state, carry, _ = lax.while_loop(lambda v: v[2], step, tested(state, carry))
        return state, carry

    def scan(self, params: dict, state: list, values: list) -> tuple[list, list]:
        consts, carry, xs = cut(values, params["num_consts"], params["num_carry"])

        def step(value: tuple, x: list) -> tuple:
            state, carry = value
            state, out = self.graph(params["jaxpr"], state, [*consts, *carry, *x])
            carry, y = cut(out, len(carry))
            return (state, carry), y

        (state, carry), ys = lax.scan(
            step, (state, carry), xs, length=params["length"], reverse=params["reverse"]
        )
        return state, [*carry, *ys]


def _first_failure(callback: Any, values: list) -> tuple[Any, list]:
    """Whether a check fails for any element of the vmaps around it, and the first one's payload."""
    # One check, or one for each element: the first that fails counts.
    if not isinstance(callback, ForEach):
        holds, *payload = values
        return gnp.logical_not(holds), payload
    inner = callback.callback
    levels = []
    for i in range(callback.size):
        given = [v[i] if m else v for v, m in zip(values, callback.mapped, strict=True)]
        levels.append(_first_failure(inner, given))
    # Mapped over no elements: nothing can fail, and the payload is never read.
    if not levels:
        return np.bool_(False), values[1:]
    failures = gnp.stack([f for f, _ in levels])
    at = gnp.argmax(failures)
    payload = [gnp.stack(column)[at] for column in zip(*(p for _, p in levels), strict=True)]
    return failures.any(), payload


def _outside(eqn: Eqn, values: list) -> tuple[Any, list]:
    """Whether a window sticks out, and the first index that makes one: (index, axis, size)."""
    shape = eqn.invars[0].aval.shape
    if eqn.primitive in (dynamic_slice_p, dynamic_update_slice_p):
        # Where the start indices begin among the operands.
        first = 1 if eqn.primitive is dynamic_slice_p else 2
        sizes = eqn.outvars[0].aval.shape if first == 1 else eqn.invars[1].aval.shape
        axes = list(range(len(shape)))
        indices = gnp.stack([lax.convert_element_type(i, np.int32) for i in values[first:]])[None]
    else:
        numbers = eqn.params["dimension_numbers"]
        if eqn.primitive is gather_p:
            axes, sizes = list(numbers.start_index_map), eqn.params["slice_sizes"]
        else:
            axes = list(numbers.scatter_dims_to_operand_dims)
            sizes = _window_sizes(eqn, numbers)
        indices = values[1].reshape(-1, len(axes))
    if not axes or indices.size == 0:
        return np.bool_(False), [np.int32(0)] * 3
    # The last place where a whole window fits.
    last = np.array([shape[a] - sizes[a] for a in axes])
    bad = gnp.logical_or(gnp.less(indices, 0), gnp.greater(indices, last.astype(np.int32)))
    # The first index that is wrong.
    at = gnp.argmax(bad.ravel())
    axis = at % len(axes)
    pick = lambda table: gnp.asarray(np.array(table, np.int32))[axis]
    return bad.any(), [indices.ravel()[at], pick(axes), pick([shape[a] for a in axes])]


def _window_sizes(eqn: Eqn, numbers: Any) -> list[int]:
    """How long a scatter's window is along every axis of its operand."""
    updates = eqn.invars[2].aval.shape
    windows = iter(updates[d] for d in numbers.update_window_dims)
    alone = {*numbers.inserted_window_dims, *getattr(numbers, "operand_batching_dims", ())}
    return [1 if d in alone else next(windows) for d in range(eqn.invars[0].aval.ndim)]


# ---- the transform ----


def checkify(
    f: Callable[..., Any], errors: frozenset[ErrorCategory] = user_checks
) -> Callable[..., tuple[Error, Any]]:
    """The function that gives (Error, f's result), for the kinds of errors in `errors`.

    Parameters
    ----------
    errors :
        `user_checks` (those of `check`), `nan_checks`, `div_checks`, `index_checks`,
        `float_checks`, `automatic_checks`, `all_checks`, or unions of them.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental import checkify
    >>> error, value = ga.jit(checkify.checkify(gnp.log, errors=checkify.nan_checks))(-1.)
    >>> print(error.get())
    nan generated by primitive: log.
    """
    if not callable(f):
        raise TypeError(f"Expected a callable value, got {f}")

    @boundary
    @functools.wraps(f)
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        given, spec = tree.flatten((args, kwargs))
        # What `if` or a dict of the function's may ask for stays as it is: flags, texts, objects.
        traced = [not isinstance(x, bool) and is_operand(x) for x in given]
        leaves = [x for x, t in zip(given, traced, strict=True) if t]
        out_spec: Any = None

        def flat(*values: Any) -> list:
            nonlocal out_spec
            tracers = iter(values)
            whole = [next(tracers) if t else x for x, t in zip(given, traced, strict=True)]
            args, kwargs = tree.unflatten(spec, whole)
            out, out_spec = tree.flatten(f(*args, **kwargs))
            return out

        # Trace, number what can fail, and run the graph with the state.
        graph = stage(flat, [aval_of(x) for x in leaves], TracedFunction(f, "checkify"))
        numbers = _Numbers(graph, frozenset(util.elements(errors, "a set of kinds of errors")))
        run = _Run(numbers)
        (code, *payload), out = run.graph(graph, run.start(), leaves)
        error = Error(gnp.asarray(code), [gnp.asarray(p) for p in payload], tuple(numbers.sites))
        return error, tree.unflatten(out_spec, out)

    return checked


__getattr__ = _explain_names(__name__)
