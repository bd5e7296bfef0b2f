"""Control flow that is part of the program: branches and loops on values that are not known yet.

Floor 6. In: Python functions, traced once. Out: results of `cond`, `while` and `scan` primitives,
which every transformation goes through. With `disable_jit` they run as plain Python.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import config, errors
from gpuarray.api.vmap import vmap
from gpuarray.control.cond import cond_p
from gpuarray.control.scan import scan_p
from gpuarray.control.surgery import chosen, cut, merged, opened, opened_together, others, reordered
from gpuarray.control.while_loop import while_p
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph, evaluate
from gpuarray.core.trace import Tracer, owned
from gpuarray.core.tracebacks import boundary
from gpuarray.lax.args import integer, times_unrolled
from gpuarray.lax.bodies import (
    Body,
    check_branches,
    check_carry,
    check_operands,
    derived,
    first_argument,
    promoted,
    stage_body,
)
from gpuarray.lax.convert import convert, convert_element_type
from gpuarray.lax.elementwise import add, clamp, lt, ne
from gpuarray.lax.shapes import concatenate, expand_dims, reshape
from gpuarray.lax.slicing import index_in_dim, slice
from gpuarray.pytree import tree
from gpuarray.transforms.references import Ref, threaded, threading, values_of, write_back

_UNGIVEN: Any = object()


def _operands(operands: tuple, operand: Any) -> tuple:
    if operand is _UNGIVEN:
        return operands
    if operands:
        raise TypeError(
            "if 'operand' keyword is passed then no positional operands can be passed, got "
            f"operand={operand} and positional operands {operands}"
        )
    return (operand,)


@boundary
def cond(
    pred: Any,
    true_fun: Callable,
    false_fun: Callable,
    *operands: Any,
    operand: Any = _UNGIVEN,
    **_ignored: Any,
) -> Any:
    """`true_fun(*operands)` if `pred` else `false_fun(*operands)`; only one of them runs.

    `pred` is a scalar; both functions return pytrees of the same structure, shapes and dtypes.
    Under vmap with a mapped `pred` both run and the results are selected.

    >>> from gpuarray import lax
    >>> lax.cond(True, lambda x: x + 1, lambda x: x * 10, 5)
    Array(6, dtype=int32, weak_type=True)
    """
    if _ignored.keys() - {"linear"}:
        raise TypeError(f"cond() got unexpected keyword arguments {sorted(_ignored)}")
    if not callable(true_fun) and len(operands) == 2 and callable(operands[1]):
        # The older order: pred, true_operand, true_fun, false_operand, false_fun.
        on_true, on_false, pair = false_fun, operands[1], (true_fun, operands[0])
        return cond(pred, lambda t, _: on_true(t), lambda _, f: on_false(f), *pair)
    if not (callable(true_fun) and callable(false_fun)):
        raise TypeError("lax.cond: true_fun and false_fun arguments should be callable.")
    operands = _operands(operands, operand)
    pred = _predicate(pred)
    if config.state.disable_jit and not isinstance(pred, Tracer):
        return true_fun(*operands) if pred else false_fun(*operands)
    if aval_of(pred).dtype != np.bool_:
        pred = ne(pred, aval_of(pred).dtype.type(0))
    index = convert_element_type(pred, np.dtype("int32"))
    return _branch("cond", index, (false_fun, true_fun), ("false_fun", "true_fun"), operands)


def _predicate(pred: Any) -> Any:
    if pred is None:
        raise TypeError("cond predicate is None: pass a boolean or a number")
    if not isinstance(pred, Tracer) and isinstance(pred, (list, tuple, str, dict)):
        raise TypeError(f"Pred must be a scalar, got {pred} of type {type(pred)}")
    (pred,) = check_operands([pred])
    aval = aval_of(pred)
    if aval.shape:
        raise TypeError(
            f"Pred must be a scalar, got {pred} of shape {aval.shape}. Reduce it with .any() or "
            ".all(), or select by element with gpuarray.numpy.where."
        )
    if dtypes.kind_of(aval.dtype) == "c" or isinstance(aval.dtype, dtypes.KeyDtype):
        raise TypeError(f"Pred type must be either boolean or number, got {aval.dtype.name}.")
    return pred


@boundary
def switch(
    index: Any, branches: Sequence[Callable], *operands: Any, operand: Any = _UNGIVEN
) -> Any:
    """`branches[index](*operands)`, the index clamped into range; only that branch runs.

    `index` is an integer scalar; the branches return pytrees of one structure, shapes and dtypes.

    >>> from gpuarray import lax
    >>> lax.switch(2, [lambda x: x, lambda x: 2 * x, lambda x: 3 * x], 5)
    Array(15, dtype=int32, weak_type=True)
    """
    if not isinstance(branches, Iterable) or not all(callable(b) for b in branches):
        raise TypeError(
            f"lax.switch: branches argument should be a sequence of callables, got {branches!r}."
        )
    operands = _operands(operands, operand)
    if index is None or isinstance(index, (str, list, tuple, dict)):
        raise TypeError(f"Index type must be an integer, got {index!r} of type {type(index)}")
    (index,) = check_operands([index])
    aval = aval_of(index)
    if aval.shape:
        raise TypeError(f"Branch index must be scalar, got {index} of shape {aval.shape}.")
    if dtypes.kind_of(aval.dtype) not in "iu":
        raise TypeError(f"Index type must be an integer, got {index} as {aval.dtype.name}")
    branches = tuple(branches)
    if not branches:
        raise ValueError("Empty branch sequence")
    if len(branches) == 1:
        return branches[0](*tree.tree_map(owned, operands))
    last = len(branches) - 1
    if config.state.disable_jit and not isinstance(index, Tracer):
        return branches[min(max(int(index), 0), last)](*operands)
    index = convert_element_type(index, np.dtype("int32"))
    index = clamp(np.int32(0), index, np.int32(last))
    names = ["branch 0", *(f"branch{i}" for i in range(1, len(branches)))]
    return _branch("switch", index, branches, names, operands)


def _branch(
    what: str, index: Any, branches: Sequence[Callable], names: Sequence[str], operands: tuple
) -> Any:
    def attempt(refs: list[Ref]) -> Any:
        if not refs:
            return _bind_branches(what, index, branches, names, operands)
        pure = [threaded(b, refs) for b in branches]
        given = (values_of(refs), *operands)
        values, out = _bind_branches(what, index, pure, names, given)
        write_back(refs, values)
        return out

    return threading(attempt)


def _bind_branches(
    what: str, index: Any, branches: Sequence[Callable], names: Sequence[str], operands: tuple
) -> Any:
    leaves, spec = tree.flatten(operands)
    leaves = check_operands(leaves)
    avals = [aval_of(x) for x in leaves]
    bodies = [stage_body(b, what, spec, avals, owner=b) for b in branches]
    key = ("branches", *(id(b.graph) for b in bodies))
    together = derived(bodies[0].graph, key, lambda: _together(what, bodies, names))
    out = cond_p.bind(index, *together.consts, *leaves, branches=together.graphs)
    return tree.unflatten(bodies[0].out_spec, out)


class _Branches(NamedTuple):
    """Branches that take the constants of all of them."""

    graphs: tuple[Graph, ...]
    consts: list
    bodies: Sequence[Body]  # kept, so that no other Graph gets one of their ids


def _together(what: str, bodies: Sequence[Body], names: Sequence[str]) -> _Branches:
    if what == "cond":  # messages speak of the true branch first
        check_branches(what, bodies[::-1], names[::-1])
    else:
        check_branches(what, bodies, names)
    graphs, consts = opened_together([b.graph for b in bodies])
    return _Branches(tuple(graphs), consts, bodies)


# ---- loops ----


@boundary
def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    *,
    max_steps: int | None = None,
) -> Any:
    """Apply `body_fun` to the value, from `init_val` on, as long as `cond_fun` of it is true.

    The value is a pytree whose structure, shapes and dtypes stay the same. With `max_steps` the
    loop ends after so many steps at the latest, and has reverse-mode derivatives.

    >>> from gpuarray import lax
    >>> lax.while_loop(lambda x: x < 100, lambda x: 3 * x, 1)
    Array(243, dtype=int32, weak_type=True)
    """
    if not (callable(body_fun) and callable(cond_fun)):
        raise TypeError("lax.while_loop: body_fun and cond_fun arguments should be callable.")
    if config.state.disable_jit and max_steps is None:
        leaves = tree.flatten(init_val)[0]
        if not any(isinstance(x, Tracer) for x in leaves):
            value = init_val
            while cond_fun(value):
                value = body_fun(value)
            return value
    return _while(cond_fun, body_fun, init_val, body_fun, "while_loop", max_steps)


def _while(
    cond_fun: Callable,
    body_fun: Callable,
    init_val: Any,
    body_owner: Callable,
    kind: str,
    max_steps: int | None = None,
) -> Any:
    """A while loop. What the body does is said by `body_owner` and `kind`, one of few words."""

    def attempt(refs: list[Ref]) -> Any:
        if not refs:
            return _bind_while(cond_fun, body_fun, init_val, body_owner, kind, max_steps)
        test, body = threaded(cond_fun, refs), threaded(body_fun, refs)

        def going(state):
            values, result = test(*state)
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
    while True:
        avals = [aval_of(x) for x in init]
        body = stage_body(body_fun, "while_loop", args_spec, avals, None, body_owner, kind)
        if body.out_spec != spec:
            break
        changed = promoted(init, body.graph.out_avals)
        if changed is None:
            break
        init = changed
    name = first_argument(body_owner, "val")
    check_carry("while_loop body", name, spec, avals, body.out_spec, body.graph.out_avals)
    test = stage_body(cond_fun, "while_cond", args_spec, avals, owner=cond_fun)
    _check_condition(test)
    if max_steps is not None:
        return tree.unflatten(spec, _bounded(test.graph, body.graph, init, max_steps))
    out = while_p.bind(
        *test.graph.consts,
        *body.graph.consts,
        *init,
        cond_jaxpr=test.opened,
        body_jaxpr=body.opened,
        cond_nconsts=len(test.graph.consts),
        body_nconsts=len(body.graph.consts),
    )
    # What the body passes on as it came does not go through the loop, nor does its derivative.
    kept = [v is a for v, a in zip(body.graph.invars, body.graph.outvars, strict=True)]
    out = [as_array(x) if k else y for x, k, y in zip(init, kept, out, strict=True)]
    return tree.unflatten(spec, _as_strong(out, avals))


def _as_strong(values: list, avals: list[ShapedArray]) -> list:
    """What a loop carried, strongly typed where it began so."""
    return [
        x if a.weak_type or not aval_of(x).weak_type else convert(x, a.dtype)
        for x, a in zip(values, avals, strict=True)
    ]


def _check_condition(test: Body) -> None:
    out = test.graph.out_avals
    if test.out_spec != tree.LEAF:
        raise TypeError(f"cond_fun must return a boolean scalar, but got pytree {test.out_spec}.")
    if out[0].shape or out[0].dtype != np.bool_:
        raise TypeError(
            f"cond_fun must return a boolean scalar, but got output type(s) {out}. Compare, or "
            "reduce with .any() or .all()."
        )


def _bounded(test: Graph, body: Graph, init: list, max_steps: int) -> list:
    """A while loop as a scan: steps after its end pass their values on."""
    if operator.index(max_steps) < 0:
        raise ValueError(f"max_steps must not be negative, got {max_steps}")

    def step(carry, _):
        (going,) = evaluate(test, *carry)
        return cond(going, lambda *c: evaluate(body, *c), lambda *c: list(c), *carry), None

    return scan(step, init, None, length=operator.index(max_steps))[0]


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
    lower, upper = check_operands([lower, upper])
    lower, upper = _same_type(lower, upper)
    first, last = aval_of(lower), aval_of(upper)
    if first.dtype != last.dtype or first.shape or last.shape:
        raise TypeError(
            "lower and upper arguments to fori_loop must have equal types, got "
            f"{_type_name(first)} and {_type_name(last)}: both are scalars of one integer dtype"
        )
    known = not (isinstance(lower, Tracer) or isinstance(upper, Tracer))
    if known:
        lower, upper = int(lower), int(upper)
        length = max(upper - lower, 0)

        def step(loop_carry, _):
            i, value = loop_carry
            return (add(i, 1), body_fun(i, value)), None

        step.__name__ = getattr(body_fun, "__name__", "body_fun")
        times = 1 if unroll is None else unroll
        init = (lower, init_val)
        return _scan(step, init, None, length, False, times, body_fun, "fori_loop")[0][1]
    if unroll is not None and unroll is not False and unroll != 1:
        raise ValueError(
            "Can only use `unroll` in `fori_loop` if the loop bounds are statically known."
        )

    def body(carry):
        i, end, value = carry
        return add(i, first.dtype.type(1)), end, body_fun(i, value)

    return _while(_below, body, (lower, upper, init_val), body_fun, "fori_loop")[2]


def _below(carry):
    return lt(carry[0], carry[1])


def _same_type(lower: Any, upper: Any) -> tuple[Any, Any]:
    """Python ints take the dtype of the other bound, if that is signed."""
    if type(lower) is int and type(upper) is not int:
        other = aval_of(upper).dtype
        if dtypes.kind_of(other) == "i" and other != dtypes.default_int():
            lower = other.type(lower)
    elif type(upper) is int and type(lower) is not int:
        other = aval_of(lower).dtype
        if dtypes.kind_of(other) == "i" and other != dtypes.default_int():
            upper = other.type(upper)
    return lower, upper


def _type_name(aval: ShapedArray) -> str:
    return aval.str_short() if aval.shape else aval.dtype.name


@boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """Run `carry, y = f(carry, x)` for each x along the first axis of `xs`: last carry, all ys.

    Shapes: leaves of xs [length, ...], of ys [length, ...]; the carry keeps its structure and
    types. Without xs, f gets None and `length` says how often. reverse: from the last x to the
    first.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.scan(lambda total, x: (total + x, total * x), 0.0, gnp.arange(3.0))
    (Array(3., dtype=float32), Array([0., 0., 2.], dtype=float32))
    """
    if not callable(f):
        raise TypeError("lax.scan: f argument should be a callable.")
    return _scan(f, init, xs, length, reverse, unroll, f, "scan")


def _scan(
    f: Callable,
    init: Any,
    xs: Any,
    length: Any,
    reverse: bool,
    unroll: Any,
    owner: Callable,
    kind: str,
) -> tuple[Any, Any]:
    """A scan. What `f` does is said by `owner` and `kind`, one of few words."""

    def attempt(refs: list[Ref]) -> tuple[Any, Any]:
        if not refs:
            return _scan_plain(f, init, xs, length, reverse, unroll, owner, kind)
        pure = threaded(f, refs)

        def step(state, x):
            values, out = pure(*state, x)
            if not (isinstance(out, (tuple, list)) and len(out) == 2):
                return out  # not the pair that a body returns, which is said there
            return (values, out[0]), out[1]

        start = (values_of(refs), init)
        (values, carry), ys = _scan_plain(step, start, xs, length, reverse, unroll, step, "scan")
        write_back(refs, values)
        return carry, ys

    return threading(attempt)


def _scan_plain(
    f: Callable,
    init: Any,
    xs: Any,
    length: Any,
    reverse: bool,
    unroll: Any,
    owner: Callable,
    kind: str,
) -> tuple[Any, Any]:
    arrays, xs_spec = tree.flatten(xs)
    arrays = check_operands(arrays)
    length = _length(arrays, length)
    unroll = times_unrolled(unroll, length)
    if config.state.disable_jit:
        return _python_scan(f, init, arrays, xs_spec, length, reverse)
    values, spec = tree.flatten(init)
    values = check_operands(values)
    args_spec = tree.treedef_tuple([spec, xs_spec])
    x_avals = [ShapedArray(a.shape[1:], a.dtype, a.weak_type) for a in (aval_of(x) for x in arrays)]

    def step(carry, x):
        out = f(carry, x)
        if not (isinstance(out, (tuple, list)) and len(out) == 2):
            raise TypeError(f"scan body output must be a pair, got {_typed(out)}.")
        return tuple(out)

    while True:
        avals = [aval_of(x) for x in values]
        body = stage_body(step, "scan", args_spec, [*avals, *x_avals], f, owner, kind)
        carry_spec, ys_spec = tree.treedef_children(body.out_spec)
        out_avals = body.graph.out_avals[: carry_spec.num_leaves]
        changed = promoted(values, out_avals) if carry_spec == spec else None
        if changed is None:
            break
        values = changed
    name = first_argument(f, "carry")
    check_carry("scan body", name, spec, avals, carry_spec, out_avals)
    carry, ys = _bind_scan(body.graph, values, arrays, length, bool(reverse), unroll)
    carry = _as_strong(carry, avals)
    return tree.unflatten(spec, carry), tree.unflatten(ys_spec, ys)


def _bind_scan(
    graph: Graph, init: list, xs: list, length: int, reverse: bool, unroll: int
) -> tuple[list, list]:
    """Bind the primitive. What the body passes on as it came (a carry, an x) needs no loop."""
    kept, passed, body = derived(graph, ("step", len(init)), lambda: _step(graph, len(init)))
    out = scan_p.bind(
        *graph.consts,
        *chosen(init, kept),
        *others(init, kept),
        *xs,
        jaxpr=body,
        length=length,
        reverse=reverse,
        unroll=unroll,
        num_consts=len(graph.consts) + sum(kept),
        num_carry=kept.count(False),
    )
    carry, ys = cut(out, kept.count(False))
    direct = [as_array(xs[i]) for i in passed if i is not None]
    return (
        merged(kept, chosen(init, kept), carry),
        merged([i is not None for i in passed], direct, ys),
    )


class _Step(NamedTuple):
    """The body of a scan as its primitive wants it."""

    kept: list[bool]  # carries that are passed on as they came
    passed: list[int | None]  # for each y the x that it is, if it is one
    body: Graph


def _step(graph: Graph, carries: int) -> _Step:
    carry_in, x_in = cut(graph.invars, carries)
    carry_out, ys_out = cut(graph.outvars, carries)
    kept = [v is a for v, a in zip(carry_in, carry_out, strict=True)]
    passed = [x_in.index(a) if a in x_in else None for a in ys_out]
    body = reordered(
        opened(graph),
        [*graph.constvars, *chosen(carry_in, kept), *others(carry_in, kept), *x_in],
        [*others(carry_out, kept), *(a for a, i in zip(ys_out, passed, strict=True) if i is None)],
    )
    return _Step(kept, passed, body)


def _typed(value: Any) -> Any:
    return tree.tree_map(aval_of, value)


def _length(arrays: list, length: Any) -> int:
    for x in arrays:
        if not aval_of(x).ndim:
            raise ValueError(f"scan got value with no leading axis to scan over: {x}.")
    sizes = sorted({aval_of(x).shape[0] for x in arrays})
    if isinstance(length, Tracer):
        raise errors.ConcretizationTypeError(
            length,
            "The `length` argument to `scan` expects a concrete `int` value. For scan-like "
            "iteration with a dynamic length, use `while_loop` or `fori_loop`.",
        )
    if length is not None:
        length = integer("scan", "length", length)
        if any(n != length for n in sizes):
            raise ValueError(
                f"scan got `length` argument of {length} which disagrees with leading axis sizes "
                f"{[aval_of(x).shape[0] for x in arrays]}."
            )
        return max(length, 0)
    if len(sizes) > 1:
        found = ", ".join(str(aval_of(x).shape[0]) for x in arrays)
        raise ValueError(f"scan got values with different leading axis sizes: {found}.")
    if not sizes:
        raise ValueError("scan got no values to scan over and `length` not provided.")
    return sizes[0]


def _python_scan(f: Callable, init: Any, arrays: list, spec: Any, length: int, reverse: bool):
    if length == 0:
        raise ValueError(
            "zero-length scan is not supported in disable_jit() mode because the output type is "
            "unknown."
        )
    carry, ys = init, []
    for i in reversed(range(length)) if reverse else range(length):
        x = tree.unflatten(spec, [index_in_dim(a, i, keepdims=False) for a in arrays])
        carry, y = f(carry, x)
        ys.append(y)
    if reverse:
        ys.reverse()

    def stack(*column):
        return concatenate([expand_dims(as_array(y), (0,)) for y in column], 0)

    return carry, tree.tree_map(stack, *ys)


def as_array(x: Any) -> Any:
    """A bindable value as an array of its own aval."""
    aval = aval_of(x)
    return convert(x, aval.dtype, aval.weak_type) if not hasattr(x, "aval") else x


@boundary
def map(f: Callable, xs: Any, *, batch_size: int | None = None) -> Any:
    """`f(x)` for every x along the first axis of `xs`, one after another, the results stacked.

    Shapes: leaves of xs [n, ...], of the result [n, ...]. batch_size: so many at a time, by vmap.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.map(lambda x: x * x, gnp.arange(4))
    Array([0, 1, 4, 9], dtype=int32)
    """
    if not callable(f):
        raise TypeError(f"lax.map: f argument should be callable, got {f!r}")
    if not batch_size:
        return _scan(lambda _, x: ((), f(x)), (), xs, None, False, 1, f, "map")[1]
    batch_size = integer("lax.map", "batch_size", batch_size)
    if batch_size < 0:
        raise ValueError(f"lax.map: batch_size must be positive, got {batch_size}")
    arrays, spec = tree.flatten(xs)
    n = _length(check_operands(arrays), None)
    batches = n // batch_size
    full = batches * batch_size
    many = vmap(f)
    # How a result is laid out is the same for a batch of one and of many.
    head = [
        reshape(_part(x, 0, full), (batches, batch_size, *aval_of(x).shape[1:])) for x in arrays
    ]
    rest = [_part(x, full, n) for x in arrays] if full < n else None
    xs = tree.unflatten(spec, head)
    out = _scan(lambda _, x: ((), many(x)), (), xs, None, False, 1, f, "map of batches")[1]
    tail = None if rest is None else many(tree.unflatten(spec, rest))
    out = tree.tree_map(lambda y: reshape(y, (full, *y.shape[2:])), out)
    return out if tail is None else tree.tree_map(lambda a, b: concatenate([a, b], 0), out, tail)


def _part(x: Any, start: int, stop: int) -> Any:
    shape = aval_of(x).shape
    return slice(x, (start, *(0 for _ in shape[1:])), (stop, *shape[1:]))
