"""Kernels: functions of references to blocks of arrays, run once for each position of a grid.

Floor 6. In: a kernel, a grid, and how arrays are cut into blocks. Out: a function of arrays.

The kernel is traced once, to a Graph from the values of its references to the new ones. Programs
run one after another, as in JAX's interpreter; along the axes of the grid where every program
writes other blocks, and none depends on scratch contents left by another, they run side by side:
the Graph is batched over them, blocks become axes of the arrays, and the compiler makes kernels of
that as of anything else. Like any function, programs can be jitted, batched and differentiated,
also in reverse mode.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import lax
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph, evaluate, has_effect
from gpuarray.core.value import Array
from gpuarray.experimental.pallas import blocks, programs, tiles
from gpuarray.experimental.pallas.blocks import POSITION
from gpuarray.experimental.pallas.dependence import depending
from gpuarray.experimental.pallas.hints import CompilerParams
from gpuarray.experimental.pallas.specs import (
    CostEstimate,
    GridSpec,
    no_block_spec,
    scratch_of,
    uninitialised,
)
from gpuarray.functions.jit import jit
from gpuarray.numpy.construct import asarray
from gpuarray.pytree import tree
from gpuarray.transforms.references import Ref, threaded, threading, values_of, write_back
from gpuarray.transforms.tracing import TracedFunction, stage
from gpuarray.util import index, name_of


def pallas_call(
    kernel: Callable[..., None],
    out_shape: Any,
    *,
    grid_spec: GridSpec | None = None,
    grid: Any = (),
    in_specs: Any = no_block_spec,
    out_specs: Any = no_block_spec,
    scratch_shapes: Any = (),
    input_output_aliases: Mapping[int, int] = {},
    debug: bool = False,
    interpret: Any = False,
    name: str | None = None,
    compiler_params: Any = None,
    cost_estimate: CostEstimate | None = None,
    metadata: dict[str, str] | None = None,
) -> Callable[..., Any]:
    """A function of arrays that runs `kernel` once for each position of a grid.

    The kernel gets a reference for each input, each output and each scratch, in this order: to the
    block that the specs give the program. Elements beyond the end of an array read as NaN (or the
    least integer, or False), and are dropped when written; so does an output before it is written.

    Parameters
    ----------
    out_shape :
        Shapes and dtypes of the outputs, a pytree.
    grid :
        The number of programs along each axis; they run in order, the last axis fastest.
    in_specs, out_specs :
        A BlockSpec for each input and output; without, each program sees whole arrays.
    grid_spec :
        The grid and the specs in one.
    scratch_shapes :
        Types of references that programs leave to the next one: pl.ANY(shape, dtype). A dict
        passes them by name.
    input_output_aliases :
        {number of an input: number of an output that begins with its values}.
    interpret :
        Run programs one after another also where they could run side by side.
    debug :
        Print the kernel as it was traced.
    name :
        The name of the function in `explain` and in profiles.
    compiler_params, cost_estimate, metadata :
        For portable programs, without effect: the cost of a kernel follows from its operations.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental import pallas as pl
    >>> def add(x_ref, y_ref, out_ref):
    ...     out_ref[...] = x_ref[...] + y_ref[...]
    >>> block = pl.BlockSpec((4,), lambda i: (i,))
    >>> x = gnp.arange(8.0)
    >>> pl.pallas_call(add, x, grid=(2,), in_specs=[block, block], out_specs=block)(x, x)
    Array([ 0.,  2.,  4.,  6.,  8., 10., 12., 14.], dtype=float32)
    """
    if not callable(kernel):
        raise TypeError(f"pallas_call takes a kernel, a function of references, got {kernel!r}.")
    # 1. Check the options: refuse those that would change the result elsewhere, and not here.
    if grid_spec is None:
        grid_spec = GridSpec(grid, in_specs, out_specs, scratch_shapes)
    elif grid or in_specs is not no_block_spec or out_specs is not no_block_spec or scratch_shapes:
        raise ValueError(
            "If `grid_spec` is specified, then `grid`, `in_specs`, `out_specs` and "
            "`scratch_shapes` must not be: it has them."
        )
    if not isinstance(grid_spec, GridSpec):
        raise TypeError(f"grid_spec must be a pl.GridSpec, got {grid_spec!r}.")
    if compiler_params is not None and not isinstance(compiler_params, CompilerParams):
        raise NotImplementedError(
            f"compiler_params={compiler_params!r} are for the compilers of Triton and Mosaic. "
            "Leave them out, or give triton.CompilerParams: threads and memories are chosen by the "
            "compiler; `explain` shows how."
        )
    if not isinstance(interpret, (bool, np.bool_)):
        raise NotImplementedError(
            f"interpret={interpret!r}: simulators of one kind of device are not here. Give True to "
            "run programs one after another."
        )
    if cost_estimate is not None and not isinstance(cost_estimate, CostEstimate):
        raise TypeError(f"cost_estimate must be a pl.CostEstimate, got {cost_estimate!r}.")
    if not isinstance(input_output_aliases, Mapping):
        raise TypeError(
            "input_output_aliases must be a dict {number of an input: number of an output}, got "
            f"{input_output_aliases!r}."
        )
    if metadata is not None and not (
        isinstance(metadata, Mapping)
        and all(isinstance(x, str) for pair in metadata.items() for x in pair)
    ):
        raise TypeError(f"metadata must be a dict from str to str, got {metadata!r}.")
    # 2. The types of the outputs, which are known without the kernel.
    aliases = {index(i): index(o) for i, o in input_output_aliases.items()}
    out_shape = tuple(out_shape) if isinstance(out_shape, list) else out_shape
    outs, out_spec = tree.flatten(out_shape)
    for x in outs:
        if not (hasattr(x, "shape") and hasattr(x, "dtype")):
            raise ValueError(f"Invalid out_shape type: {type(x)}. Give a ShapeDtypeStruct.")
    results = [ShapedArray(tuple(x.shape), x.dtype) for x in outs]
    request = _Request(
        kernel, grid_spec, results, out_spec, aliases, bool(debug), bool(interpret), name
    )

    def run(*args: Any) -> Any:
        return tree.unflatten(out_spec, _run(request, args))

    run.__name__ = run.__qualname__ = name or name_of(kernel, "kernel")
    if any(hasattr(n, "_trace") for n in grid_spec.grid):
        return run  # the lengths of the grid are values of the trace around
    return jit(run)


class _Request(NamedTuple):
    """The caller's arguments, checked."""

    kernel: Callable[..., None]
    spec: GridSpec
    results: list[ShapedArray]
    out_tree: Any
    aliases: dict[int, int]
    debug: bool
    interpret: bool
    name: str | None


class TracedKernel(NamedTuple):
    """A traced kernel, with its operands.

    The Graph takes the positions in the grid, its traced lengths, the blocks of inputs and of
    outputs and the values that programs leave to the next one; it returns all but the first two.
    """

    graph: Graph
    grid: tuple[Any, ...]
    inputs: list[blocks.Mapping]
    outputs: list[blocks.Mapping]
    arrays: list[Array]  # of the inputs, padded
    first: list[Array]  # of the outputs, padded: their initial contents
    kept: list[Array]  # passed from program to program: scratch, outside references

    @property
    def lengths(self) -> list[Any]:
        """The traced lengths of the grid."""
        return [n for n in self.grid if not isinstance(n, int)]

    def apply(self, ids: Sequence[Any], *values: Any) -> list[Any]:
        """The Graph at a position, with its traced lengths."""
        return evaluate(self.graph, *ids, *self.lengths, *values)

    def writes_inputs(self) -> bool:
        """Whether the kernel writes to an input."""
        first = len(self.grid) + len(self.lengths)
        # A reference that was not written to still holds the variable that it was given.
        given = self.graph.invars[first : first + len(self.inputs)]
        return any(a is not v for a, v in zip(self.graph.outvars, given, strict=False))


def _run(request: _Request, args: tuple) -> list[Array]:
    """Trace the kernel for these arguments and run it over the grid: the flat outputs."""
    leaves, in_tree = tree.flatten(args)
    arrays = [asarray(x) for x in leaves]
    grid = request.spec.grid
    names = [f"args{path}" for path in tree.leaf_paths(args)]
    inputs = _mappings("in_specs", request.spec.in_specs, in_tree, names, arrays, grid)
    names = [f"outputs[{i}]" for i in range(len(request.results))]
    results = request.results
    outputs = _mappings("out_specs", request.spec.out_specs, request.out_tree, names, results, grid)
    _check_aliases(request, arrays)
    # The initial contents of outputs.
    begin = {o: arrays[i] for i, o in request.aliases.items()}
    first = [
        m.pad(begin[i] if i in begin else uninitialised(m.shape, m.dtype))
        for i, m in enumerate(outputs)
    ]
    scratch, scratch_tree = tree.flatten(request.spec.scratch_shapes)
    kept = [scratch_of(s).get() for s in scratch]
    padded = [m.pad(x) for m, x in zip(inputs, arrays, strict=True)]

    def attempt(refs: list[Ref]) -> list[Array]:
        whole = [*kept, *values_of(refs)]
        graph = _traced(request, in_tree, inputs, outputs, scratch_tree, whole, refs)
        kernel = TracedKernel(graph, grid, inputs, outputs, padded, first, whole)
        # A reference from outside is shared by all programs: they run in turn.
        found, left = _over_grid(kernel, request.interpret or bool(refs))
        write_back(refs, left[len(kept) :])
        return found

    found = threading(attempt)
    return [m.cut(x) for m, x in zip(outputs, found, strict=True)]


def _mappings(
    what: str, specs: Any, structure: Any, names: list[str], avals: Sequence[Any], grid: tuple
) -> list[blocks.Mapping]:
    flat = [no_block_spec] * len(avals)
    if specs is not no_block_spec:
        flat, given = tree.flatten(specs)
        if given != structure:
            raise ValueError(
                f"`{what}` must have the structure of the arrays: one BlockSpec for each. Got "
                f"{given}, expected {structure}."
            )
    return [
        blocks.mapping(name, aval, spec, grid)
        for name, aval, spec in zip(names, avals, flat, strict=True)
    ]


def _check_aliases(request: _Request, arrays: list[Array]) -> None:
    for i, o in request.aliases.items():
        for kind, number, among in (("input", i, arrays), ("output", o, request.results)):
            if not 0 <= number < len(among):
                raise ValueError(
                    f"input_output_aliases contains the mapping '{i}:{o}' with {kind} index "
                    f"{number} outside the range [0, {len(among)})"
                )
        mine, theirs = aval_of(arrays[i]), request.results[o]
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            raise ValueError(
                f"input_output_aliases contains the mapping '{i}:{o}' referring to an input with "
                f"abstract value {mine} and to an output with a different abstract value {theirs}."
            )


def _traced(
    request: _Request,
    in_tree: Any,
    inputs: list[blocks.Mapping],
    outputs: list[blocks.Mapping],
    scratch_tree: Any,
    kept: list[Array],
    outside: list[Ref],
) -> Graph:
    """The kernel as a Graph; `outside`: references that it closes over, last among `kept`."""
    grid = request.spec.grid
    traced = [i for i, n in enumerate(grid) if not isinstance(n, int)]
    own = len(kept) - len(outside)

    def body(ids: Sequence[Any], sizes: Sequence[Any], refs: list[Ref]) -> None:
        given, made, scratch = _parted(refs, len(inputs), len(outputs))
        made = tree.unflatten(request.out_tree, made)
        made = made if isinstance(made, tuple) else (made,)
        scratch = tree.unflatten(scratch_tree, scratch)
        # A dict of scratch is passed by keyword, a sequence after the outputs.
        named = scratch if isinstance(scratch, dict) else {}
        rest = () if isinstance(scratch, dict) else scratch
        rest = rest if isinstance(rest, (tuple, list)) else (rest,)
        with programs.at(ids, sizes):
            out = request.kernel(*tree.unflatten(in_tree, given), *made, *rest, **named)
        if out is not None:
            raise ValueError(
                f"The kernel function {info} in a pallas_call should return None. It returns "
                f"{out!r}: write it to a reference."
            )

    def flat(*values: Any) -> list[Any]:
        ids, lengths, rest = _parted(values, len(grid), len(traced))
        sizes: list[Any] = list(grid)
        for i, n in zip(traced, lengths, strict=True):
            sizes[i] = n
        count = len(rest) - len(outside)
        refs = [Ref(x) for x in rest[:count]]
        # Outside references enter and leave the Graph as values, like blocks.
        new, _ = threaded(lambda: body(ids, sizes, refs), outside)(rest[count:])
        return [*(ref.get() for ref in refs), *new]

    info = TracedFunction(request.kernel, "pallas_call")
    avals = [ShapedArray(m.block, m.dtype) for m in (*inputs, *outputs)]
    lengths = [POSITION] * len(traced)
    values = [*avals, *map(aval_of, kept)]
    graph = stage(flat, [POSITION] * len(grid) + lengths + values, info, threads=True)
    if request.debug:
        print(f"The kernel {info} of pallas_call, of {own} scratch values:\n{graph}")
    return graph


def _parted(values: Sequence[Any], *counts: int) -> tuple[Any, ...]:
    """Values in parts of these lengths, and the rest."""
    parts, at = [], 0
    for n in counts:
        parts.append(values[at : at + n])
        at += n
    return (*parts, values[at:])


def _over_grid(kernel: TracedKernel, in_turn: bool) -> tuple[list[Array], list[Array]]:
    """Run all programs: outputs (padded), and final scratch contents."""
    if 0 in [n for n in kernel.grid if isinstance(n, int)]:
        return kernel.first, kernel.kept
    axes = () if in_turn else _side_by_side(kernel)
    return tiles.run(kernel, axes) if axes else _in_turn(kernel)


def _side_by_side(kernel: TracedKernel) -> tuple[int, ...]:
    """The axes of the grid along which programs may run side by side."""
    grid = kernel.grid
    # A traced length cannot be the length of an axis; writes to inputs, and effects, have an order.
    if kernel.lengths or kernel.writes_inputs() or any(map(has_effect, kernel.graph.eqns)):
        return ()
    if not all(m.is_tiled(grid) for m in kernel.outputs):
        return ()
    # Every output has to have other blocks for other positions along the axis.
    axes = [a for a, n in enumerate(grid) if all(a in m.sources or n == 1 for m in kernel.outputs)]
    if axes and kernel.kept and _depends(kernel, {}, last=False):
        # A program's scratch is passed to the program that runs next. Only outer axes can run side
        # by side, each of whose programs is a whole run of the inner axes.
        inner = next((a for a, n in enumerate(grid) if n > 1 and a not in axes), len(grid))
        axes = [a for a in axes if a < inner]
        while axes and _carried(kernel, axes):
            axes.pop()
    # Along axes of one program nothing can run side by side.
    return tuple(axes) if math.prod(grid[a] for a in axes) > 1 else ()


def _carried(kernel: TracedKernel, axes: Sequence[int]) -> bool:
    """Whether programs along these axes depend on scratch contents left by others."""
    grid = kernel.grid
    rest = {a: 0 for a in range(len(grid)) if a not in axes}
    # The first program of each run must not; if it is the only one, its final scratch contents are
    # not read.
    return _depends(kernel, rest, last=any(grid[a] > 1 for a in rest))


def _depends(kernel: TracedKernel, ids: dict[int, int], last: bool) -> bool:
    """Whether outputs of the program at a position depend on the previous scratch contents, or with
    `last` whether its final scratch contents do. `ids`: the position along the axes where it is
    known.
    """
    grid, graph = kernel.grid, kernel.graph
    # With positions known, conditions such as `program_id(1) == 0` are decided, so that the branch
    # that resets the scratch is recognised.
    known: list[Any] = [np.int32(ids[a]) if a in ids else None for a in range(len(grid))]
    known += [None] * (len(graph.invars) - len(grid))
    first = len(graph.invars) - len(kernel.kept)
    marks, _ = depending(graph, known, [i >= first for i in range(len(graph.invars))])
    return any(marks if last else marks[: len(marks) - len(kernel.kept)])


def _in_turn(kernel: TracedKernel) -> tuple[list[Array], list[Array]]:
    """One program after another, in the order of the grid."""
    # Inputs that are not written are not part of the loop's state.
    mappings = [*kernel.inputs, *kernel.outputs]
    fixed = 0 if kernel.writes_inputs() else len(kernel.inputs)
    state = [*kernel.arrays, *kernel.first]

    def step(number: Any, carry: tuple[list, list]) -> tuple[list, list]:
        ids = programs.positions(number, kernel.grid)
        arrays = [*state[:fixed], *carry[0]]
        starts = [m.starts(ids) for m in mappings]
        given = [m.read(x, s) for m, x, s in zip(mappings, arrays, starts, strict=True)]
        new, kept = _parted(kernel.apply(ids, *given, *carry[1]), len(mappings))
        wanted = list(zip(mappings, arrays, new, starts, strict=True))[fixed:]
        return [m.write(x, block, s) for m, x, block, s in wanted], list(kept)

    begin = state[fixed:], list(kernel.kept)
    # Without a grid there is one program: no loop is needed around it.
    if kernel.grid == ():
        arrays, kept = step(0, begin)
    else:
        steps: Any = functools.reduce(operator.mul, kernel.grid)
        arrays, kept = lax.fori_loop(0, steps, step, begin)
    return arrays[len(kernel.inputs) - fixed :], kept
