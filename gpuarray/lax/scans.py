"""Loops over the first axis of arrays: `scan` and `map`.

Floor 6. In: a Python function, traced once. Out: the results of the `scan` primitive, which every
transformation handles. With `disable_jit` they run as plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuarray import config, errors
from gpuarray.control.graph_edits import (
    chosen,
    cut,
    merged,
    opened,
    others,
    reordered,
)
from gpuarray.control.scan import scan_p
from gpuarray.control.typed import element
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Graph
from gpuarray.core.trace import Tracer
from gpuarray.core.tracebacks import boundary
from gpuarray.functions.vmap import vmap
from gpuarray.lax.args import integer, times_unrolled
from gpuarray.lax.bodies import (
    argument_names,
    check_carry,
    check_operands,
    derived,
    first_argument,
    promoted,
    stage_body,
)
from gpuarray.lax.convert import convert
from gpuarray.lax.shapes import concatenate, expand_dims, reshape
from gpuarray.lax.slicing import index_in_dim, slice
from gpuarray.pytree import tree
from gpuarray.transforms.passing import check_aliases, taken_out, with_values
from gpuarray.transforms.references import Ref, threaded, threading, values_of, write_back


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
    types. Without xs, f gets None, and `length` is the number of steps. reverse: from the last x
    to the first.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.scan(lambda total, x: (total + x, total * x), 0.0, gnp.arange(3.0))
    (Array(3., dtype=float32), Array([0., 0., 2.], dtype=float32))
    """
    if not callable(f):
        raise TypeError("lax.scan: f argument should be a callable.")
    return run_scan(f, init, xs, length, reverse, unroll, f, "scan")


def run_scan(
    f: Callable,
    init: Any,
    xs: Any,
    length: Any,
    reverse: bool,
    unroll: Any,
    owner: Callable,
    kind: str,
) -> tuple[Any, Any]:
    """Run a scan. `owner` and `kind` (one of a few words) identify `f` for the trace cache."""

    check_aliases([f], (init, xs), kind, lambda: argument_names(f, (init, xs)))
    if any(isinstance(x, Ref) for x in tree.flatten(xs)[0]):
        return _over_references(f, init, xs, length, reverse, unroll)

    def attempt(refs: list[Ref]) -> tuple[Any, Any]:
        if not refs:
            return _scan_plain(f, init, xs, length, reverse, unroll, owner, kind)
        # The values of the references are part of the carry.
        pure = threaded(f, refs)

        def step(state, x):
            values, out = pure(*state, x)
            if not (isinstance(out, (tuple, list)) and len(out) == 2):
                return out  # not a pair, which is reported there
            # The pair again, with the references' values in the carry.
            return (values, out[0]), out[1]

        start = (values_of(refs), init)
        (values, carry), ys = _scan_plain(step, start, xs, length, reverse, unroll, step, "scan")
        write_back(refs, values)
        return carry, ys

    return threading(attempt)


def _over_references(
    f: Callable, init: Any, xs: Any, length: Any, reverse: bool, unroll: Any
) -> tuple[Any, Any]:
    """Scan over references in `xs`: each step takes and returns the value of one element."""
    refs, slotted = taken_out(xs, "scan")

    def step(carry: Any, x: Any) -> Any:
        (values, x) = x
        new, out = with_values(lambda x: f(carry, x), refs, values, x)
        if not (isinstance(out, (tuple, list)) and len(out) == 2):
            return out
        return out[0], (new, out[1])

    given = (values_of(refs), slotted)
    carry, (values, ys) = run_scan(step, init, given, length, reverse, unroll, step, "scan")
    write_back(refs, values)
    return carry, ys


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
    # The scanned arrays, all of one length.
    arrays, xs_spec = tree.flatten(xs)
    arrays = check_operands(arrays)
    length = _length(arrays, length)
    unroll = times_unrolled(unroll, length)
    # Plain Python, step by step.
    if config.state.disable_jit:
        return _python_scan(f, init, arrays, xs_spec, length, reverse)
    # The carry, and the types of one x.
    values, spec = tree.flatten(init)
    values = check_operands(values)
    args_spec = tree.treedef_tuple([spec, xs_spec])
    given = [aval_of(x) for x in arrays]
    x_avals = [a.update(shape=a.shape[1:], layout=element(a)) for a in given]

    def step(carry, x):
        out = f(carry, x)
        if not (isinstance(out, (tuple, list)) and len(out) == 2):
            raise TypeError(f"scan body output must be a pair, got {_typed(out)}.")
        return tuple(out)

    # Trace until the carry's types stay: a weak initial value takes the dtype that the body
    # returns.
    while True:
        # The dtypes only ever widen, so this ends after a few rounds.
        avals = [aval_of(x) for x in values]
        body = stage_body(step, "scan", args_spec, [*avals, *x_avals], f, owner, kind)
        carry_spec, ys_spec = tree.treedef_children(body.out_spec)
        out_avals = body.graph.out_avals[: carry_spec.num_leaves]
        changed = promoted(values, out_avals) if carry_spec == spec else None
        if changed is None:
            break
        values = changed
    # Remaining differences are the user's mistake, reported with the parameter's name.
    name = first_argument(f, "carry")
    check_carry("scan body", name, spec, avals, carry_spec, out_avals)
    carry, ys = _bind_scan(body.graph, values, arrays, length, bool(reverse), unroll)
    return tree.unflatten(spec, carry), tree.unflatten(ys_spec, ys)


def _bind_scan(
    graph: Graph, init: list, xs: list, length: int, reverse: bool, unroll: int
) -> tuple[list, list]:
    """Bind the primitive; carries and xs that the body returns unchanged stay out of the loop."""
    # `kept` carries are constants of the loop; `passed` ys are xs.
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
    # In the order of the results: those that bypass the loop, and those it computes.
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
    # The inputs and outputs of the body by kind.
    carry_in, x_in = cut(graph.invars, carries)
    carry_out, ys_out = cut(graph.outvars, carries)
    kept = [v is a for v, a in zip(carry_in, carry_out, strict=True)]
    passed = [x_in.index(a) if a in x_in else None for a in ys_out]
    # Constants first, among them the carries that never change; then carries, then xs.
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
    # No lengths are compared before all are known, so that a message can list them.
    sizes = sorted({aval_of(x).shape[0] for x in arrays})
    # A scan's results have its length as an axis, so it has to be known.
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
        # As in JAX, a negative length counts as 0.
        return max(length, 0)
    if len(sizes) > 1:
        found = ", ".join(str(aval_of(x).shape[0]) for x in arrays)
        raise ValueError(f"scan got values with different leading axis sizes: {found}.")
    if not sizes:
        raise ValueError("scan got no values to scan over and `length` not provided.")
    return sizes[0]


def _python_scan(f: Callable, init: Any, arrays: list, spec: Any, length: int, reverse: bool):
    # There is no step that would show the type of the ys.
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
    # The ys are in the order of the xs, in either direction.
    if reverse:
        ys.reverse()

    def stack(*column):
        return concatenate([expand_dims(as_array(y), (0,)) for y in column], 0)

    return carry, tree.tree_map(stack, *ys)


def as_array(x: Any) -> Any:
    """A bindable value as an array with the same aval."""
    aval = aval_of(x)
    return convert(x, aval.dtype, aval.weak_type) if not hasattr(x, "aval") else x


@boundary
def map(f: Callable, xs: Any, *, batch_size: int | None = None) -> Any:
    """`f(x)` for every x along the first axis of `xs`, one after another, the results stacked.

    Shapes: leaves of xs [n, ...], of the result [n, ...]. batch_size: how many xs
    a step takes, by vmap.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.map(lambda x: x * x, gnp.arange(4))
    Array([0, 1, 4, 9], dtype=int32)
    """
    if not callable(f):
        raise TypeError(f"lax.map: f argument should be callable, got {f!r}")
    # None and 0: one at a time.
    if not batch_size:
        return run_scan(lambda _, x: ((), f(x)), (), xs, None, False, 1, f, "map")[1]
    batch_size = integer("lax.map", "batch_size", batch_size)
    if batch_size < 0:
        raise ValueError(f"lax.map: batch_size must be positive, got {batch_size}")
    arrays, spec = tree.flatten(xs)
    n = _length(check_operands(arrays), None)
    batches = n // batch_size
    full = batches * batch_size
    many = vmap(f)
    # Whole batches in a scan; the remainder in one more call.
    head = [
        reshape(_part(x, 0, full), (batches, batch_size, *aval_of(x).shape[1:])) for x in arrays
    ]
    rest = [_part(x, full, n) for x in arrays] if full < n else None
    xs = tree.unflatten(spec, head)
    out = run_scan(lambda _, x: ((), many(x)), (), xs, None, False, 1, f, "map of batches")[1]
    tail = None if rest is None else many(tree.unflatten(spec, rest))
    # [batches, batch_size, ...] back to one leading axis.
    out = tree.tree_map(lambda y: reshape(y, (full, *y.shape[2:])), out)
    return out if tail is None else tree.tree_map(lambda a, b: concatenate([a, b], 0), out, tail)


def _part(x: Any, start: int, stop: int) -> Any:
    shape = aval_of(x).shape
    return slice(x, (start, *(0 for _ in shape[1:])), (stop, *shape[1:]))
