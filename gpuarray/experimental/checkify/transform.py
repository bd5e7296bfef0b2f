"""`checkify(f)`: the function that returns its first error with its result.

Floor 6. In: functions with checks in them. Out: functions that run under jit, vmap, grad and pmap
and return (Error, result). The function is traced, every equation that can fail gets a number, and
its graph is run with additional values: the number of the first one that failed, and the values for
its message.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.control.call import jit_p
from gpuarray.control.callbacks import ForEach, debug_callback_p
from gpuarray.control.checkpoint import remat_p
from gpuarray.control.cond import cond_p
from gpuarray.control.custom_jvp import custom_jvp_call_p
from gpuarray.control.custom_vjp import custom_vjp_call_p, forward_p
from gpuarray.control.custom_vmap import custom_vmap_call_p
from gpuarray.control.graph_edits import cut, staged
from gpuarray.control.linear_call import linear_call_p
from gpuarray.control.scan import scan_p
from gpuarray.control.shard_map import axes_inside, shard_map_p
from gpuarray.control.while_loop import while_p
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Eqn, Graph, Literal, graphs_in, last_uses
from gpuarray.core.mesh import PartitionSpec
from gpuarray.core.primitive import Kind
from gpuarray.core.tracebacks import boundary
from gpuarray.core.value import is_operand
from gpuarray.experimental.checkify.errors import (
    CheckCallback,
    CheckSite,
    DivisionByZeroError,
    Error,
    ErrorCategory,
    FailedCheckError,
    NaNError,
    OOBError,
    user_checks,
)
from gpuarray.primitives.collective.ops import pcast_p
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
from gpuarray.transforms.tracing import TracedFunction, stage_aux
from gpuarray.util import prod, wraps

# ---- which equations can fail ----

_SCATTERS = (scatter_p, scatter_add_p, scatter_sub_p, scatter_mul_p, scatter_min_p, scatter_max_p)
_INDEXED = (gather_p, dynamic_slice_p, dynamic_update_slice_p, *_SCATTERS)
# Calls of one Graph with the equation's own operands, and the parameter that holds it.
_CALLS = {
    jit_p: "jaxpr",
    remat_p: "jaxpr",
    custom_jvp_call_p: "call_jaxpr",
    custom_vjp_call_p: "call_jaxpr",
    forward_p: "jaxpr",
    custom_vmap_call_p: "call",
    linear_call_p: "callee",
}


def _user_check(eqn: Eqn) -> CheckCallback | None:
    """The check that a callback is, below any number of vmaps."""
    if eqn.primitive is not debug_callback_p:
        return None
    callback = eqn.params["callback"]
    # Under vmap the callback is wrapped, once an axis.
    while isinstance(callback, ForEach):
        callback = callback.callback
    return callback if isinstance(callback, CheckCallback) else None


def _sites_of(eqn: Eqn, errors: frozenset) -> list[CheckSite]:
    """The failures of an equation itself (not of a Graph in it), in the order of its tests."""
    found = []
    raiser = _user_check(eqn)
    if raiser is not None and FailedCheckError in errors:
        found.append(raiser.site)
    prim = eqn.primitive
    if prim is div_p and DivisionByZeroError in errors:
        found.append(CheckSite(DivisionByZeroError, "division by zero"))
    # The errors of all devices are one: their concatenated codes and payloads.
    if prim is shard_map_p and (inside := _Numbers(eqn.params["jaxpr"], errors)).sites:
        n = prod(eqn.params["mesh"].shape[name] for name in eqn.params["manual_axes"])
        avals = [ShapedArray((), np.dtype(np.int32)), *inside.payload]
        avals = tuple(a.update(shape=(n, *a.shape)) for a in avals)
        found.append(CheckSite(FailedCheckError, "", avals, inner=tuple(inside.sites)))
    # Which index, along which axis, of what length.
    if prim in _INDEXED and OOBError in errors:
        shape = eqn.invars[0].aval.shape
        number = ShapedArray((), np.dtype(np.int32))
        text = (
            f"out-of-bounds indexing for array of shape {shape}: index {{0}} is out of bounds for "
            "axis {1} with size {2}. "
        )
        found.append(CheckSite(OOBError, text, (number,) * 3))
    # Moving nan to other places does not create any.
    computes = prim.kind is not Kind.VIEW and prim not in _INDEXED
    if computes and NaNError in errors and any(_is_float(v.aval) for v in eqn.outvars):
        if prim is not convert_element_type_p and not _opened(eqn):
            found.append(CheckSite(NaNError, f"nan generated by primitive: {prim.name}."))
    return found


def _is_float(aval: ShapedArray) -> bool:
    return dtypes.kind_of(aval.dtype) in "fc"


def _opened(eqn: Eqn) -> bool:
    """Whether the Graphs of an equation are transformed, too."""
    return eqn.primitive in _CALLS or eqn.primitive in (cond_p, while_p, scan_p, shard_map_p)


class _Numbers:
    """The numbers of all sites of a Graph and the Graphs inside it."""

    def __init__(self, graph: Graph, errors: frozenset):
        self.errors = errors
        self.sites: list[CheckSite] = []
        self.of: dict[int, list[int]] = {}  # by equation
        self._inside: dict[int, bool] = {}  # whether an equation, or one in it, needs a look
        self.found = self._collect(graph)

    def _collect(self, graph: Graph) -> bool:
        found = False
        for eqn in graph.eqns:
            # A graph may be used several times: its equations keep their numbers.
            if id(eqn) not in self._inside:
                own = _sites_of(eqn, self.errors)
                self.of[id(eqn)] = list(range(len(self.sites), len(self.sites) + len(own)))
                self.sites += own
                # A device's errors are numbered separately: the site of the equation holds them.
                enter = _opened(eqn) and eqn.primitive is not shard_map_p
                deep = [self._collect(g) for g in graphs_in(eqn.params)] if enter else []
                if eqn.primitive is shard_map_p:
                    deep = [_Numbers(eqn.params["jaxpr"], self.errors).found]
                # A check that is not requested is removed, so its Graph must be transformed.
                self._inside[id(eqn)] = bool(own) or any(deep) or _user_check(eqn) is not None
            found |= self._inside[id(eqn)]
        return found

    @property
    def payload(self) -> list[ShapedArray]:
        """The types of the values in messages, of all sites in order."""
        return [aval for site in self.sites for aval in site.payload]

    def concerns(self, eqn: Eqn) -> bool:
        """Whether an equation, or one in it, can fail or is a check."""
        return self._inside[id(eqn)]


# ---- running a graph with its errors ----


class _Run:
    """Runs graphs of one checkified function. A state is (code, payloads of all sites)."""

    def __init__(self, numbers: _Numbers):
        self.numbers = numbers

    def start(self) -> list:
        # No failure yet, and room for the payload of each site.
        return [np.int32(-1), *(np.zeros(a.shape, a.dtype) for a in self.numbers.payload)]

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
        # Like `evaluate`, with the error state passed from equation to equation.
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
        # It cannot fail: run it unchanged, with its kernels.
        if not self.numbers.concerns(eqn):
            out = prim.bind(*values, **params)
            return state, list(out) if prim.multiple_results else [out]
        # Enter calls and control flow: they take and return the state.
        if prim in _CALLS:
            return self.graph(params[_CALLS[prim]], state, values)
        if prim is cond_p:
            return self.cond(params["branches"], state, values)
        if prim is while_p:
            return self.loop(params, state, values)
        if prim is scan_p:
            return self.scan(params, state, values)
        numbers = iter(self.numbers.of[id(eqn)])
        if prim is shard_map_p:
            errors, out = self.by_device(params, values)
            for number in numbers:
                state = self.failed(state, number, (errors[0] >= 0).any(), errors)
            return state, out
        if raiser is not None:
            # If user checks are not requested, the check is dropped: a checkified function does not
            # raise.
            if FailedCheckError in self.numbers.errors:
                failure, payload = _last_failure(params["callback"], values)
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
                nans = [gnp.isnan(x).any() for x, v in zip(outs, eqn.outvars) if _is_float(v.aval)]
                state = self.failed(state, number, functools.reduce(gnp.logical_or, nans))
        return state, outs

    def by_device(self, params: dict, values: list) -> tuple[list, list]:
        """The state that each device comes to, with one more axis for the devices, and results."""
        graph, mesh, manual = params["jaxpr"], params["mesh"], params["manual_axes"]
        names = tuple(n for n in mesh.axis_names if n in manual)
        run = _Run(_Numbers(graph, self.numbers.errors))

        def device(*pieces: Any) -> list:
            state = run.start()
            if params["check_vma"]:
                # Loops and branches keep types: a device's errors are its own from the start.
                state = [pcast_p.bind(gnp.asarray(x), axis_name=names) for x in state]
            state, out = run.graph(graph, state, pieces)
            return [*(gnp.expand_dims(x, 0) for x in state), *out]

        with axes_inside(mesh, manual, params["check_vma"]):
            checked = staged(device, graph.in_avals, "checkify", graph.debug_name)
        count = 1 + len(run.numbers.payload)
        # Each device's error is one row of an axis over all devices.
        specs = (*[PartitionSpec(names)] * count, *params["out_specs"])
        found = shard_map_p.bind(*values, **params | {"jaxpr": checked, "out_specs": specs})
        errors, out = cut(found, count)
        return errors, out

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


def _last_failure(callback: Any, values: list) -> tuple[Any, list]:
    """Whether a check fails for any element of the enclosing vmaps, and the payload of the last
    one.
    """
    # One check, or one for each element: the last that fails counts, as in JAX.
    if not isinstance(callback, ForEach):
        holds, *payload = values
        return gnp.logical_not(holds), payload
    inner = callback.callback
    levels = []
    for i in range(callback.size):
        given = [v[i] if m else v for v, m in zip(values, callback.mapped, strict=True)]
        levels.append(_last_failure(inner, given))
    # Mapped over no elements: it cannot fail, and the payload is never read.
    if not levels:
        return np.bool_(False), values[1:]
    failures = gnp.stack([f for f, _ in levels])
    at = len(levels) - 1 - gnp.argmax(failures[::-1])
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
    @wraps(f)
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        given, spec = tree.flatten((args, kwargs))
        # Values that Python code may use (flags, strings, objects) are not traced.
        traced = [not isinstance(x, bool) and is_operand(x) for x in given]
        leaves = [x for x, t in zip(given, traced, strict=True) if t]

        def flat(*values: Any) -> tuple[list, Any]:
            tracers = iter(values)
            whole = [next(tracers) if t else x for x, t in zip(given, traced, strict=True)]
            args, kwargs = tree.unflatten(spec, whole)
            return tree.flatten(f(*args, **kwargs))

        # Trace, number the equations that can fail, and run the graph with the state.
        info = TracedFunction(f, "checkify")
        graph, out_spec = stage_aux(flat, [aval_of(x) for x in leaves], info)
        numbers = _Numbers(graph, frozenset(util.elements(errors, "a set of kinds of errors")))
        run = _Run(numbers)
        (code, *payload), out = run.graph(graph, run.start(), leaves)
        error = Error(gnp.asarray(code), [gnp.asarray(p) for p in payload], tuple(numbers.sites))
        return error, tree.unflatten(out_spec, out)

    return checked
