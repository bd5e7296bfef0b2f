"""Exchanges of pieces of different lengths between the elements along a named axis.

Floor 6. In: rows, and the receiver of each. Out: rows received from others. It is built from
collectives and ordinary operations, so every transformation and every kind of device supports it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.lax.args import operands
from gpuarray.lax.collectives import AxisName, all_gather, all_to_all, grouped
from gpuarray.lax.creation import iota
from gpuarray.lax.elementwise import select
from gpuarray.lax.shapes import broadcast_in_dim, reshape


def ragged_all_to_all(
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    axis_name: AxisName,
    axis_index_groups: Any = None,
) -> Any:
    """Send slices of rows of different lengths from every element along a named axis to the others.

    Parameters
    ----------
    operand, output :
        Rows to send from, and rows that are overwritten by the received ones.
    input_offsets, send_sizes, output_offsets, recv_sizes :
        For each slice that is sent, where it starts in `operand`, how many rows it has, and where
        its receiver writes it; and how many rows each received slice has. With K slices and an
        axis of length n, the first K / n go to (and come from) element 0, the next to element 1,
        and so on.
    axis_name, axis_index_groups :
        As in `all_to_all`.

    Notes
    -----
    Shape contract: the shape of `output`. `operand` is sent to every element whole.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> def send(rows):  # element 0 sends two rows to itself and one to element 1, which sends none
    ...     first = ga.lax.axis_index("i") == 0
    ...     sizes = gnp.where(first, gnp.array([2, 1]), 0)
    ...     got = gnp.where(first, gnp.array([2, 0]), gnp.array([1, 0]))
    ...     starts, zero = gnp.array([0, 2]), gnp.zeros(2, int)
    ...     return ragged_all_to_all(rows, 0 * rows, starts, sizes, zero, got, axis_name="i")
    >>> ga.vmap(send, axis_name="i")(gnp.arange(6).reshape(2, 3))
    Array([[0, 1, 0],
           [2, 0, 0]], dtype=int32)
    """
    operand, output = operands("ragged_all_to_all", operand, output)
    meta = operands("ragged_all_to_all", input_offsets, send_sizes, output_offsets, recv_sizes)
    names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    axis_index_groups, size = grouped(names, axis_index_groups)
    _check(aval_of(operand), aval_of(output), [aval_of(x) for x in meta], size)
    starts, _, targets, counts = meta
    # Only the offsets are exchanged one for one. Shapes are static, so no message can be as long as
    # its slice: the rows come from a gathered copy of every operand instead.
    send = lambda x: all_to_all(x, axis_name, 0, 0, axis_index_groups=axis_index_groups, tiled=True)
    # Of each slice that comes here: where its rows are at the sender, and where they go.
    starts, targets = send(starts), send(targets)
    slices, (length, *rest) = aval_of(counts).size, operand.shape
    rows = iota(np.int32, output.shape[0])
    # inside[k, r]: whether slice k is written to row r.
    inside = (targets[:, None] <= rows[None]) & (rows[None] < (targets + counts)[:, None])
    # The last slice written to a row wins; -1 where there is none.
    chosen = (inside * iota(np.int32, slices)[:, None] - ~inside).max(0)
    known = chosen.clip(0)
    # Slices are in the order of their senders, as many from each.
    sender = known // (slices // size)
    # Row r of a slice that is written from `targets` on is row r - targets of it; the sender's rows
    # begin at sender * length.
    at = sender * length + starts[known] + rows - targets[known]
    everyone = all_gather(operand, axis_name, axis_index_groups=axis_index_groups)
    received = reshape(everyone, (size * length, *rest))[at]
    given = broadcast_in_dim(chosen >= 0, output.shape, (0,))
    return select(given, received, output)


def _check(operand: Any, output: Any, meta: list, size: int) -> None:
    """Refuse operands that do not fit each other."""
    if operand.dtype != output.dtype:
        raise ValueError(
            "ragged_all_to_all input and output must have the same dtype, but got "
            f"{operand.dtype} and {output.dtype}"
        )
    if not operand.ndim or operand.shape[1:] != output.shape[1:]:
        raise ValueError(
            "ragged_all_to_all input and output must have the same shape, except for the leading "
            f"dimension, but got {operand.shape} and {output.shape}"
        )
    names = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")
    for name, aval in zip(names, meta, strict=True):
        if not dtypes.issubdtype(aval.dtype, np.integer):
            raise ValueError(f"ragged_all_to_all {name} must be integer type, got {aval.dtype}")
        if aval.ndim != 1 or aval.shape != meta[0].shape:
            raise ValueError(
                f"ragged_all_to_all {name} must be one-dimensional and as long as the others, got "
                f"shape {aval.shape} (input_offsets has {meta[0].shape})"
            )
    if not meta[0].size or meta[0].size % size:
        raise ValueError(
            f"ragged_all_to_all sends {meta[0].size} slices along an axis of length {size}, which "
            "must divide them: as many to each element"
        )
