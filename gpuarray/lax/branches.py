"""Branches that are part of the program: `cond` and `switch`.

Floor 6. In: a predicate or an index that may not be known yet, and Python functions, each traced
once. Out: the results of the `cond` primitive, which every transformation handles. With
`disable_jit` the branch runs as plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import config
from gpuarray.control.cond import cond_p
from gpuarray.control.graph_edits import (
    opened_together,
)
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Graph
from gpuarray.core.trace import Tracer, immutable
from gpuarray.core.tracebacks import boundary
from gpuarray.lax.bodies import (
    Body,
    argument_names,
    check_branches,
    check_operands,
    derived,
    stage_body,
)
from gpuarray.lax.convert import convert_element_type
from gpuarray.lax.elementwise import clamp, ne
from gpuarray.pytree import tree
from gpuarray.transforms.passing import check_aliases, closed_over
from gpuarray.transforms.references import Ref, threaded, threading, values_of, write_back

# None is a valid operand.
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
    # JAX took `linear` once and still lets it pass.
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
    # Plain Python, where the predicate has a value.
    if config.state.disable_jit and not isinstance(pred, Tracer):
        return true_fun(*operands) if pred else false_fun(*operands)
    # Any number is a predicate: true where it is not zero.
    if aval_of(pred).dtype != np.bool_:
        pred = ne(pred, aval_of(pred).dtype.type(0))
    # False and True are the numbers of the branches.
    index = convert_element_type(pred, np.dtype("int32"))
    return _branch("cond", index, (false_fun, true_fun), ("false_fun", "true_fun"), operands)


def _predicate(pred: Any) -> Any:
    if pred is None:
        raise TypeError("cond predicate is None: pass a boolean or a number")
    # Raised here, since a list would otherwise be taken for a pytree of operands.
    if not isinstance(pred, Tracer) and isinstance(pred, (list, tuple, str, dict)):
        raise TypeError(f"Pred must be a scalar, got {pred} of type {type(pred)}")
    if callable(pred):  # for misordered arguments
        raise TypeError(f"Pred type must be either boolean or number, got {pred}")
    (pred,) = check_operands([pred])
    aval = aval_of(pred)
    if aval.shape:
        raise TypeError(
            f"Pred must be a scalar, got {pred} of shape {aval.shape}. Reduce it with .any() or "
            ".all(), or select by element with gpuarray.numpy.where."
        )
    if dtypes.kind_of(aval.dtype) == "c" or isinstance(aval.dtype, dtypes.ExtendedDType):
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
    if index is None or callable(index) or isinstance(index, (str, list, tuple, dict)):
        raise TypeError(f"Index type must be an integer, got {index!r} of type {type(index)}")
    (index,) = check_operands([index])
    aval = aval_of(index)
    if aval.shape:
        raise TypeError(f"Branch index must be scalar, got {index} of shape {aval.shape}.")
    if dtypes.kind_of(aval.dtype) not in "iu":
        raise TypeError(f"Index type must be an integer, got {index} as {aval.dtype.name}")
    # A generator can be read only once.
    branches = tuple(branches)
    if not branches:
        raise ValueError("Empty branch sequence")
    # No choice: the branch is part of the program around.
    if len(branches) == 1:
        return branches[0](*tree.tree_map(immutable, operands))
    last = len(branches) - 1
    if config.state.disable_jit and not isinstance(index, Tracer):
        return branches[min(max(int(index), 0), last)](*operands)
    index = convert_element_type(index, np.dtype("int32"))
    # Clamped here, so that no backend has to.
    index = clamp(np.int32(0), index, np.int32(last))
    # JAX's spelling, the odd space included.
    names = ["branch 0", *(f"branch{i}" for i in range(1, len(branches)))]
    return _branch("switch", index, branches, names, operands)


def _branch(
    what: str, index: Any, branches: Sequence[Callable], names: Sequence[str], operands: tuple
) -> Any:
    # A mutable reference that is passed is one that all branches close over.
    called = lambda: argument_names(branches[-1], operands)
    check_aliases(branches, operands, what, called)
    branches, operands = closed_over(branches, operands, what, called)

    def attempt(refs: list[Ref]) -> Any:
        # First without mutable references; `threading` calls again with those that were touched.
        if not refs:
            return _bind_branches(what, index, branches, names, operands)
        # Every branch takes and returns the values of all of them.
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
    # Trace each function once, here and as long as it lives: it owns its trace.
    traced = {
        id(b): stage_body(b, what, spec, avals, owner=b)
        for b in {id(b): b for b in branches}.values()
    }
    bodies = [traced[id(b)] for b in branches]
    # Results derived from these branches together are cached with the first one's graph.
    key = ("branches", *(id(b.graph) for b in bodies))
    combined = derived(bodies[0].graph, key, lambda: _combined(what, bodies, names))
    out = cond_p.bind(index, *combined.consts, *leaves, branches=combined.graphs)
    return tree.unflatten(bodies[0].out_spec, out)


class _Branches(NamedTuple):
    """Branches that all take the same constants as leading operands."""

    graphs: tuple[Graph, ...]
    consts: list
    bodies: Sequence[Body]  # kept alive, so that no other Graph gets one of their ids


def _combined(what: str, bodies: Sequence[Body], names: Sequence[str]) -> _Branches:
    if what == "cond":  # messages mention the true branch first
        check_branches(what, bodies[::-1], names[::-1])
    else:
        check_branches(what, bodies, names)
    graphs, consts = opened_together([b.graph for b in bodies])
    return _Branches(tuple(graphs), consts, bodies)
