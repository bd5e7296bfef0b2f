"""Collectives between devices that share memory: ordinary Graphs on the operands of all of them.

Floor 4. In: a collective's equation, and the operands of each device. Out: the results of each.

The meaning of a collective is its batch rule: the operands of a group of devices, stacked, are a
batch, and its elements are the results. So `vmap(axis_name=)` and devices cannot differ.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpuarray.backends import lockstep
from gpuarray.backends.numpy.program import compile_graph
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Graph, params_key
from gpuarray.primitives.axes import add_axis
from gpuarray.primitives.batching import BatchAxis, batch_of
from gpuarray.primitives.collective import ops, together
from gpuarray.primitives.collective.once import once_p, once_with_effect_p
from gpuarray.primitives.define import do
from gpuarray.primitives.elementwise.arithmetic import add_p, largest_p, smallest_p
from gpuarray.transforms.tracing import TracedFunction, stage
from gpuarray.util import Recent

#: The name of the axis of devices in the Graph of a collective.
_GROUP = "devices"
#: From this many elements on, a sum over devices adds arrays, and does not stack them first.
_ADDED_FROM = 4096

#: How the collectives among these merge two arrays.
_added = {ops.psum_p: add_p, ops.pmax_p: largest_p, ops.pmin_p: smallest_p}


class SharedMemory:
    """The engine of the devices of one process that share memory.

    Parameters
    ----------
    sizes :
        The axes of the grid of devices, in order, with their lengths.
    compile :
        Compiles a Graph to a function on buffers.
    """

    def __init__(self, sizes: Mapping[Any, int], compile: Callable = compile_graph):
        self.sizes = dict(sizes)
        self.compile = compile
        self.count = math.prod(self.sizes.values())
        self._made: Recent = Recent(1 << 10)
        # By equation, whose params and avals need not be looked at again.
        self._by_eqn: dict[int, tuple[Eqn, Callable]] = {}
        self._groups_by_eqn: dict[int, tuple[Eqn, list]] = {}

    def __call__(self, eqn: Eqn, operands: list[list]) -> list[list]:
        # By id: the equation is stored too, so the id cannot be reused.
        known = self._by_eqn.get(id(eqn))
        if known is None:
            known = self._by_eqn[id(eqn)] = (eqn, self._exchange(eqn))
        return known[1](operands)

    def among(self, eqn: Eqn) -> list[tuple[list[int], Callable[[list], list]]]:
        """Return the groups of devices of an exchange, and a function for each."""
        known = self._groups_by_eqn.get(id(eqn))
        if known is None:
            known = self._groups_by_eqn[id(eqn)] = (eqn, self._parts(eqn))
        return known[1]

    def _parts(self, eqn: Eqn) -> list[tuple[list[int], Callable[[list], list]]]:
        prim, params = eqn.primitive, eqn.params
        if prim in (once_p, once_with_effect_p):
            return [(list(range(self.count)), self._once(eqn))]
        groups = groups_of(self.sizes, ops.names_in(params), params.get("axis_index_groups"))
        # A device knows its own index without waiting.
        if prim is ops.axis_index_p:
            return [([i], _saying(n)) for i, n in enumerate(numbers_in(groups))]
        if prim is ops.pcast_p:
            return [([i], lambda operands: operands) for i in range(self.count)]
        # One function for each size of a group, since shapes follow from it.
        functions = {n: self._function(eqn, n) for n in map(len, groups)}
        return [(group, functions[len(group)]) for group in groups]

    def _exchange(self, eqn: Eqn) -> Callable[[list[list]], list[list]]:
        parts = self._parts(eqn)
        if eqn.primitive is ops.axis_index_p:
            answer = [row for _, said in parts for row in said([])]
            return lambda operands: answer
        # One group of all devices, in order, needs no permutation.
        if [group for group, _ in parts] == [list(range(self.count))]:
            return parts[0][1]
        return lockstep.of_all(parts)

    def _once(self, eqn: Eqn) -> Callable[[list[list]], list[list]]:
        """Return an operation that runs on the first device's operands, for all."""
        run = run_once(eqn)
        return lambda operands: [run(operands[0])] * len(operands)

    def _function(self, eqn: Eqn, size: int) -> Callable[[list[list]], list[list]]:
        """Return the collective of one group as a function of its devices' operands."""
        prim, avals = eqn.primitive, tuple(a.aval for a in eqn.invars)
        key = (prim, avals, params_key(eqn.params), size)
        found = self._made.find(key)
        return found or self._made.put(key, meaning(prim, avals, eqn.params, size, self.compile))


def _saying(number: np.int32) -> Callable[[list], list]:
    return lambda operands: [[number]]


def run_once(eqn: Eqn) -> Callable[[list], list]:
    """Return the operation of an equation that runs once, as a function of whole operands."""
    operation, given = eqn.params["operation"], eqn.params["given"]
    function = operation.numpy_function([a.aval for a in eqn.invars], given)
    return lambda operands: (
        list(function(*operands)) if operation.multiple_results else [function(*operands)]
    )


def groups_of(sizes: Mapping[Any, int], names: tuple, chosen: Any = None) -> list[list[int]]:
    """Return the numbers of the devices that talk to each other, in the order of the named axes.

    >>> groups_of({"x": 2, "y": 3}, ("x",))
    [[0, 3], [1, 4], [2, 5]]
    """
    # Devices are numbered in row-major order over the grid; those of a group differ only along the
    # named axes.
    grid = np.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
    order = list(sizes)
    along = [order.index(name) for name in names]
    rest = [i for i in range(len(order)) if i not in along]
    rows = grid.transpose([*rest, *along]).reshape(-1, math.prod(sizes[n] for n in names))
    groups = rows.tolist()
    if chosen is not None:
        # `axis_index_groups` names places within each group.
        groups = [[group[i] for i in some] for group in groups for some in chosen]
    return groups


def numbers_in(groups: list[list[int]]) -> list[np.int32]:
    """Return for each device its place in its group."""
    found = {device: i for group in groups for i, device in enumerate(group)}
    return [np.int32(found[device]) for device in range(len(found))]


def along_group(params: dict) -> dict:
    """Return the params of a collective, with the one name of the axis of devices."""
    params = dict(params)
    if "axes" in params:
        numbers = tuple(a for a in params["axes"] if isinstance(a, int))
        # Axes given by number are those of operands, and stay.
        params["axes"] = (*numbers, _GROUP)
    else:
        params["axis_name"] = (_GROUP,)
    if "axis_index_groups" in params:
        # The batch has just the one group.
        params["axis_index_groups"] = None
    return params


def _batch_rule(prim: Any, stacked: Sequence, params: dict, size: int) -> tuple[list, list]:
    """Apply a collective's batch rule to stacks of operands; return results and their axes."""
    out, dims = batch_of(prim, BatchAxis(size, _GROUP), [*stacked], [0] * len(stacked), params)
    return (out, dims) if prim.multiple_results else ([out], [dims])


def of_stack(prim: Any, avals: Sequence[ShapedArray], params: dict, size: int, i: int) -> Graph:
    """Return the results of element `i` as a Graph of a group's stacked operands."""
    params = along_group(params)

    def fun(*stacked: Any) -> list:
        out, dims = _batch_rule(prim, stacked, params, size)
        pairs = zip(out, dims, strict=True)
        return [x if dim is None else _element(x, dim, i) for x, dim in pairs]

    stacks = [a.update(shape=(size, *a.shape), layout=None) for a in avals]
    return stage(fun, stacks, TracedFunction(fun, "a collective"))


def meaning(
    prim: Any,
    avals: tuple[ShapedArray, ...],
    params: dict,
    size: int,
    compile: Callable = compile_graph,
    on_host: bool = True,
) -> Callable[[list[list]], list[list]]:
    """Return a collective among `size` devices as a function of the operands of each.

    `on_host` means that operands are NumPy's, which it stacks itself; else the program does.
    """
    # 1. Several operands in one exchange: handle each separately.
    one = together.alone(prim)
    if one is not prim or (
        prim in _added and len(avals) > 1
    ):  # a bucket: each as it would be alone
        own = together.members(prim, params, len(avals))
        parts = [
            meaning(one, (a,), p, size, compile, on_host) for a, p in zip(avals, own, strict=True)
        ]

        def each(operands: list[list]) -> list[list]:
            columns = zip(*operands, strict=True)
            found = [
                part([[x] for x in column]) for part, column in zip(parts, columns, strict=True)
            ]
            return [[x for (x,) in row] for row in zip(*found, strict=True)]

        return each
    # 2. Large operands are added up array by array; others are stacked, by NumPy where they are in
    # the memory of the host, else by the program.
    large = bool(avals) and all(a.size >= _ADDED_FROM and a.dtype.itemsize >= 4 for a in avals)
    if prim is ops.reduce_scatter_p and on_host and large:
        return _scattered(avals, params, size, compile)
    # Pure data movement: copy each operand once, from source to destination.
    if on_host and prim is ops.ppermute_p and np.all(np.less(params["perm"], size)):
        return _permuted(params["perm"])
    if on_host and prim is ops.all_to_all_p and large:
        return _to_all(params["split_axis"], params["concat_axis"], size)
    params = along_group(params)
    numbers = [a for a in params.get("axes", ()) if isinstance(a, int)]
    # Filled while the function is traced: the device axis of each result.
    outputs: list[int | None] = []

    def batched(*stacked: Any) -> list:
        out, dims = _batch_rule(prim, stacked, params, size)
        # A result without a batch axis is the same for all devices, and there only once.
        outputs.extend(dims)
        return out

    def taken_apart(*values: Any) -> list:
        columns = [values[i * size : (i + 1) * size] for i in range(len(avals))]
        out, found = batched(*map(_stack, columns)), []
        for x, dim in zip(out, outputs, strict=True):
            found += [x] if dim is None else [_element(x, dim, i) for i in range(size)]
        return found

    def added(*values: Any) -> list:
        merge = _added[prim]
        found = []
        for i in range(len(avals)):
            total, *rest = values[i * size : (i + 1) * size]
            for x in rest:
                total = merge.bind(total, x)
            # All devices get the same sum.
            outputs.append(None)
            found.append(total)
        return found

    # One pass over large operands, without a stack of copies. Narrow floats are added up in
    # float32 and rounded once, which the batch rule does.
    one_pass = prim in _added and large and not numbers
    stacks = on_host and not one_pass
    fun = added if one_pass else batched if stacks else taken_apart
    if stacks:
        flat = [a.update(shape=(size, *a.shape), layout=None) for a in avals]
    else:
        flat = [a.update(layout=None) for a in avals for _ in range(size)]
    # 3. Trace and compile the function once for this group.
    compiled = compile(stage(fun, flat, TracedFunction(fun, "a collective")))
    shared = all(dim is None for dim in outputs)

    # 4. At each call: transpose operands by device into columns, run, and give each device its
    # results.
    def exchange(operands: list[list]) -> list[list]:
        columns = zip(*operands, strict=True)
        found = compiled(*map(np.array, columns) if stacks else itertools.chain(*columns))
        if shared:
            return [found] * size
        results, rows = iter(found), []
        for dim in outputs:
            if dim is None:
                rows.append([next(results)] * size)
            elif stacks:
                rows.append(list(np.moveaxis(next(results), dim, 0)))
            else:
                rows.append([next(results) for _ in range(size)])
        return [list(row) for row in zip(*rows, strict=True)]

    return exchange


def _scattered(
    avals: tuple[ShapedArray, ...], params: dict, size: int, compile: Callable
) -> Callable[[list[list]], list[list]]:
    """Return a reduce_scatter as a sum of the operands, whose parts are the results."""
    axis, tiled = params["scatter_dimension"], params["tiled"]
    summed = {"axes": ops.names_in(params), "axis_index_groups": None}
    total = meaning(ops.psum_p, avals, summed, size, compile)

    def exchange(operands: list[list]) -> list[list]:
        (whole,) = total(operands)[0]
        # Views of one sum, without copies.
        parts = np.split(np.asarray(whole), size, axis)
        return [[part if tiled else part.squeeze(axis)] for part in parts]

    return exchange


def _permuted(perm: Sequence[tuple[int, int]]) -> Callable[[list[list]], list[list]]:
    """Return a ppermute as copies of operands: a sender may write over its own before they are
    read.
    """

    def exchange(operands: list[list]) -> list[list]:
        results: list = [None] * len(operands)
        for source, target in perm:
            results[target] = [np.array(operands[source][0])]
        pairs = zip(results, operands, strict=True)
        return [[np.zeros_like(x)] if row is None else row for row, (x,) in pairs]

    return exchange


def _to_all(split: int, joined: int, size: int) -> Callable[[list[list]], list[list]]:
    """Return an all_to_all as a concatenation of parts of the operands for each device."""

    def exchange(operands: list[list]) -> list[list]:
        parts = [np.split(np.asarray(x), size, split) for (x,) in operands]
        return [[np.concatenate(column, joined)] for column in zip(*parts, strict=True)]

    return exchange


def _stack(column: tuple) -> Any:
    return do.concatenate(*[add_axis(x, 0) for x in column], dimension=0)


def _element(x: Any, dim: int, i: int) -> Any:
    shape = x.aval.shape
    start = [0] * len(shape)
    stop = list(shape)
    start[dim], stop[dim] = i, i + 1
    piece = do.slice(x, start_indices=tuple(start), limit_indices=tuple(stop), strides=None)
    return do.squeeze(piece, dimensions=(dim,))
