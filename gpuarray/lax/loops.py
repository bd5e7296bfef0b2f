"""Loops whose number of steps may depend on values: `while_loop` and `fori_loop`.

Floor 6. In: Python functions, each traced once. Out: the results of the `while` primitive, or of
`scan` where the number of steps is known. With `disable_jit` they run as plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import config, util
from gpuarray.control.while_loop import while_p
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph, evaluate
from gpuarray.core.trace import Tracer, immutable
from gpuarray.core.tracebacks import boundary
from gpuarray.lax.bodies import (
    Body,
    argument_names,
    check_carry,
    check_operands,
    first_argument,
    promoted,
    stage_body,
)
from gpuarray.lax.branches import cond
from gpuarray.lax.convert import convert_element_type
from gpuarray.lax.elementwise import add, lt
from gpuarray.lax.scans import as_array, run_scan, scan
from gpuarray.pytree import tree
from gpuarray.transforms.passing import check_aliases
from gpuarray.transforms.references import Ref, threaded, threading, values_of, write_back
from gpuarray.util import name_of


@boundary
def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    *,
    max_steps: int | None = None,
) -> Any:
    """Apply `body_fun` repeatedly, from `init_val` on, while `cond_fun` of the value is true.

    The value is a pytree whose structure, shapes and dtypes stay the same. With `max_steps` the
    loop stops after at most that many steps, and has reverse-mode derivatives.

    >>> from gpuarray import lax
    >>> lax.while_loop(lambda x: x < 100, lambda x: 3 * x, 1)
    Array(243, dtype=int32, weak_type=True)
    """
    if not (callable(body_fun) and callable(cond_fun)):
        raise TypeError("lax.while_loop: body_fun and cond_fun arguments should be callable.")
    # Plain Python, where the values are known.
    if config.state.disable_jit and max_steps is None:
        leaves = check_operands(tree.flatten(init_val)[0])
        if not any(isinstance(x, Tracer) for x in leaves):
            # Arrays, which `x += 1` does not write to, and which a loop without steps returns.
            init_val = tree.tree_map(lambda x: as_array(immutable(x)), init_val)
            # A traced condition, traced possibly because of values it closes over, cannot be
            # decided here: the rest of the loop stays in the program.
            while not isinstance(test := cond_fun(init_val), Tracer):
                if not test:
                    return init_val
                init_val = body_fun(init_val)
    return _while(cond_fun, body_fun, init_val, body_fun, "while_loop", max_steps)


def _while(
    cond_fun: Callable,
    body_fun: Callable,
    init_val: Any,
    body_owner: Callable,
    kind: str,
    max_steps: int | None = None,
) -> Any:
    """Run a while loop. `body_owner` and `kind` identify the body for the trace cache."""
    called = lambda: argument_names(body_fun, (init_val,))
    check_aliases([cond_fun, body_fun], (init_val,), kind, called)

    def attempt(refs: list[Ref]) -> Any:
        if not refs:
            return _bind_while(cond_fun, body_fun, init_val, body_owner, kind, max_steps)
        # The values of the references are part of the carry.
        test, body = threaded(cond_fun, refs), threaded(body_fun, refs)

        def going(state):
            values, result = test(*state)
            # A condition has no place to return a new value to.
            if any(a is not b for a, b in zip(values, state[0], strict=True)):
                raise ValueError("cond_fun of while_loop writes a mutable array reference")
            return result

        def step(state):
            return body(*state)

        start = (values_of(refs), init_val)
        values, out = _bind_while(going, step, start, step, "while_loop", max_steps)
        write_back(refs, values)
        return out

    return threading(attempt)


def _bind_while(
    cond_fun: Callable,
    body_fun: Callable,
    init_val: Any,
    body_owner: Callable,
    kind: str,
    max_steps: int | None,
) -> Any:
    init, spec = tree.flatten(init_val)
    init = check_operands(init)
    args_spec = tree.treedef_tuple([spec])
    # Trace until the types stay the same: a weak initial value takes the dtype of the body's
    # result.
    while True:
        avals = [aval_of(x) for x in init]
        body = stage_body(body_fun, "while_loop", args_spec, avals, None, body_owner, kind)
        # Structures are compared, and the error raised, below.
        if body.out_spec != spec:
            break
        changed = promoted(init, body.graph.out_avals)
        if changed is None:
            break
        init = changed
    name = first_argument(body_owner, "val")
    check_carry("while_loop body", name, spec, avals, body.out_spec, body.graph.out_avals)
    # The condition sees the carry's final types.
    test = stage_body(cond_fun, "while_cond", args_spec, avals, owner=cond_fun)
    _check_condition(test)
    # A bound makes a scan of it, which reverse mode can go through.
    if max_steps is not None:
        return tree.unflatten(spec, _bounded(test.graph, body.graph, init, max_steps))
    # Constants first, those of the condition before those of the body, as the primitive cuts them.
    out = while_p.bind(
        *test.graph.consts,
        *body.graph.consts,
        *init,
        cond_jaxpr=test.opened,
        body_jaxpr=body.opened,
        cond_nconsts=len(test.graph.consts),
        body_nconsts=len(body.graph.consts),
    )
    # Carries that the body returns unchanged do not go through the loop, and neither does their
    # derivative.
    kept = [v is a for v, a in zip(body.graph.invars, body.graph.outvars, strict=True)]
    out = [as_array(x) if k else y for x, k, y in zip(init, kept, out, strict=True)]
    return tree.unflatten(spec, out)


def _check_condition(test: Body) -> None:
    out = test.graph.out_avals
    # One boolean, not a container of one.
    if test.out_spec != tree.LEAF:
        raise TypeError(f"cond_fun must return a boolean scalar, but got pytree {test.out_spec}.")
    if out[0].shape or out[0].dtype != np.bool_:
        raise TypeError(
            f"cond_fun must return a boolean scalar, but got output type(s) {out}. Compare, or "
            "reduce with .any() or .all()."
        )


def _bounded(test: Graph, body: Graph, init: list, max_steps: int) -> list:
    """A while loop as a scan of `max_steps` steps; steps after its end have no effect."""
    if util.index(max_steps) < 0:
        raise ValueError(f"max_steps must not be negative, got {max_steps}")

    def step(carry, _):
        # `cond`, not `select`: the body must not see values beyond the end, which may be nan.
        (going,) = evaluate(test, *carry)
        return cond(going, lambda *c: evaluate(body, *c), lambda *c: list(c), *carry), None

    return scan(step, init, None, length=util.index(max_steps))[0]


@boundary
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """`value = body_fun(i, value)` for every i from `lower` up to, not including, `upper`.

    Bounds are integer scalars. Known ones make a scan, which has reverse-mode derivatives; traced
    ones make a while loop.

    >>> from gpuarray import lax
    >>> lax.fori_loop(0, 5, lambda i, total: total + i, 0)
    Array(10, dtype=int32, weak_type=True)
    """
    if not callable(body_fun):
        raise TypeError("lax.fori_loop: body_fun argument should be callable.")
    # Both bounds as scalars of one integer dtype.
    lower, upper = check_operands([lower, upper])
    lower, upper = _same_type(lower, upper)
    first, last = aval_of(lower), aval_of(upper)
    if first.dtype != last.dtype or first.shape or last.shape:
        raise TypeError(
            "lower and upper arguments to fori_loop must have equal types, got "
            f"{_type_name(first)} and {_type_name(last)}: both are scalars of one integer dtype"
        )
    # A number of steps that is known now makes a scan, which has a reverse derivative.
    known = not (isinstance(lower, Tracer) or isinstance(upper, Tracer))
    if known:
        lower, upper = int(lower), int(upper)
        length = max(upper - lower, 0)
        if not length and config.state.disable_jit:
            return init_val

        # The number of the step is part of the carry: xs would be an array of all of them.
        def step(loop_carry, _):
            i, value = loop_carry
            return (add(i, 1), body_fun(i, value)), None

        # Printed programs and messages name the user's function.
        step.__name__ = name_of(body_fun, "body_fun")
        times = 1 if unroll is None else unroll
        # run_scan returns (carry, ys), and the carry is (i, value).
        init = (lower, init_val)
        return run_scan(step, init, None, length, False, times, body_fun, "fori_loop")[0][1]
    # A while loop cannot be unrolled.
    if unroll is not None and unroll is not False and unroll != 1:
        raise ValueError(
            "Can only use `unroll` in `fori_loop` if the loop bounds are statically known."
        )

    def body(carry):
        # `upper` is carried too, because the condition sees only the carry.
        i, end, value = carry
        return add(i, first.dtype.type(1)), end, body_fun(i, value)

    return _while(_below, body, (lower, upper, init_val), body_fun, "fori_loop")[2]


# At module level, so that every `fori_loop` has the same condition, which is traced once.
def _below(carry):
    return lt(carry[0], carry[1])


def _same_type(lower: Any, upper: Any) -> tuple[Any, Any]:
    """Python ints take the dtype of the other bound, if that is signed."""
    # An unsigned bound is not converted: the caller reports the different types.
    if type(lower) is int and type(upper) is not int:
        other = aval_of(upper).dtype
        if dtypes.kind_of(other) == "i" and other != dtypes.default_int():
            lower = other.type(lower)
    elif type(upper) is int and type(lower) is not int:
        other = aval_of(lower).dtype
        if dtypes.kind_of(other) == "i" and other != dtypes.default_int():
            upper = other.type(upper)
    # A traced Python int has a weak type, too.
    first, last = aval_of(lower), aval_of(upper)
    if first.dtype != last.dtype and first.weak_type != last.weak_type:
        weak, other = (first, last.dtype) if first.weak_type else (last, first.dtype)
        if weak.dtype == dtypes.default_int() and dtypes.kind_of(other) == "i":
            lower, upper = (convert_element_type(x, other) for x in (lower, upper))
    return lower, upper


def _type_name(aval: ShapedArray) -> str:
    return aval.str_short() if aval.shape else aval.dtype.name
