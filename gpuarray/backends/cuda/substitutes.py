"""Equations without a kernel: as Graphs of their parts, or on the host.

Floor 4. In: an equation, or a whole Plan, and a GPU. Out: functions on Buffers. Steps run by NumPy
are reported: by a warning, or an error in strict mode.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.backends.cuda import library
from gpuarray.backends.cuda.device import Buffer, Gpu
from gpuarray.backends.cuda.loops import graph_of
from gpuarray.backends.numpy import program as host
from gpuarray.compiler.pipeline import Plan
from gpuarray.config import state
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Atom, Eqn, Graph, storage_dtype
from gpuarray.core.layout import unclear_is_whole
from gpuarray.errors import FallbackError, FallbackWarning
from gpuarray.primitives.random.ops import implementation

#: Keys for fresh random bits, counted anew in each process.
_draws = itertools.count()


def parts_graph(parts: Callable[..., Any], eqn: Eqn, first: Sequence[ShapedArray] = ()) -> Graph:
    """Return an equation as the Graph of its parts, which may take further operands `first`."""

    def fun(*values):
        out = parts(*values)
        return list(out) if eqn.primitive.multiple_results else [out]

    # Numbers of the parts' own are with the operands, in whichever memory those are.
    with unclear_is_whole():
        return graph_of(fun, [*first, *(a.aval for a in eqn.invars)], eqn.primitive.name)


def drawing(eqn: Eqn, inside: Callable[..., Any], gpu: Gpu) -> Callable[..., Any]:
    """Return a function of an equation that draws random bits, with a new key at each call."""
    # The key is 64 bits of a counter, so no two draws have the same.
    key = ShapedArray((), dtypes.KeyDtype(implementation("threefry2x32")))
    parts = functools.partial(library.FRESH[eqn.primitive.name], **eqn.params)
    made = inside(parts_graph(parts, eqn, [key]))
    return lambda *buffers: made(gpu.upload(np.uint64(next(_draws))), *buffers)[0]


def fall_back(what: str, why: object) -> None:
    """Warn, or in strict mode raise, that something runs by the NumPy rules."""
    message = f"NumPy runs {what} on the host: {why}"
    if state.strict:
        raise FallbackError(f"{message}. Strict mode refuses that: switch `strict` off.")
    warnings.warn(message, FallbackWarning, stacklevel=2)


def uploaded(values: Sequence[Atom]) -> frozenset[int]:
    """Return the numbers of values that get separate memory when uploaded.

    Scalars do not: uploads of equal ones are shared.
    """
    return frozenset(i for i, v in enumerate(values) if v.aval.shape)


def by_host(eqn: Eqn, gpu: Gpu) -> Callable[..., Any]:
    """Return a function that runs an equation by its NumPy rule, with copies to and from it."""
    function = host.function_of(eqn.primitive, [a.aval for a in eqn.invars], eqn.params)
    dtypes = [storage_dtype(v.aval) for v in eqn.outvars]

    def run(*buffers: Buffer) -> Any:
        out = host.local.run(function, *map(np.asarray, buffers))
        values = out if eqn.primitive.multiple_results else [out]
        made = [gpu.upload(np.asarray(x, d)) for x, d in zip(values, dtypes, strict=True)]
        return made if eqn.primitive.multiple_results else made[0]

    return run


def whole_on_host(
    plan: Plan, consts: Sequence, donated: frozenset[int], gpu: Gpu
) -> Callable[..., list]:
    """Return a function that runs a whole plan by the NumPy rules."""
    inside = host.build(plan, [np.asarray(c) for c in consts])
    count = len(plan.graph.invars)
    if inside.talks:  # pyright: ignore[reportFunctionMemberAccess]
        return _stepping(inside, count, gpu)

    def run(*buffers: Any) -> list:
        values = map(np.asarray, buffers[:count])  # without the set of donated inputs
        return [gpu.upload(np.asarray(x)) for x in host.local.run(inside, *values)]

    # Attributes of every program of this backend; here no kernel is launched.
    run.source, run.sites = inside.source, {}
    run.fresh = inside.fresh & uploaded(plan.graph.outvars)
    run.cuda, run.cubin, run.talks = "", b"", False
    return run


def _stepping(inside: Callable[..., Any], count: int, gpu: Gpu) -> Callable[..., Any]:
    """Return the program of a plan with collectives, whose other steps NumPy runs."""

    def run(*buffers: Any) -> Any:
        # A plan with collectives is a generator: it yields each with its operands, and is sent the
        # results. They come from and go to GPU memory, as in other plans.
        program, answer = inside(*map(np.asarray, buffers[:count])), None
        while True:
            try:
                eqn, operands = host.local.run(program.send, answer)
            except StopIteration as end:
                return [gpu.upload(np.asarray(x)) for x in end.value]
            answer = yield eqn, [gpu.upload(np.asarray(x)) for x in operands]
            answer = [np.asarray(x) for x in answer]

    run.source, run.sites = inside.source, {}
    run.fresh, run.cuda, run.cubin, run.talks = frozenset(), "", b"", True
    return run
