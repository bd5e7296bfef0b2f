"""Boxes of arrays on one GPU: parts cut out, and put into others.

Floor 4. In: Buffers of one GPU, and the corner of a box. Out: copies of rows, on the GPU's stream.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from gpuarray.backends.cuda.availability import cupy
from gpuarray.backends.cuda.device import Buffer

#: Largest pitch between the rows of one copy: a limit of CUDA.
_PITCH = (1 << 31) - 1


def part(source: Buffer, starts: Sequence[int], shape: tuple[int, ...]) -> Buffer:
    """Return a box of a buffer as a new buffer of the same GPU, which must be the current one."""
    made = source.gpu.empty(shape, source.dtype)
    write(made, (0,) * len(shape), source, starts, shape)
    return made


def write(
    target: Buffer, to: Sequence[int], source: Buffer, start: Sequence[int], shape: tuple[int, ...]
) -> None:
    """Copy the box of `source` that begins at `start` to that of `target` at `to`."""
    if not math.prod(shape):
        return
    gpu, itemsize, runtime = target.gpu, source.dtype.itemsize, cupy.cuda.runtime
    # Axes that are whole in both form one run with the axis in front of them, and those runs rows.
    axis = len(shape)
    while axis and shape[axis - 1] == target.shape[axis - 1] == source.shape[axis - 1]:
        axis -= 1
    axis = max(axis - 1, 0)
    width = math.prod(shape[axis:]) * itemsize
    rows = shape[axis - 1] if axis else 1
    # The pitch of rows in each array: CUDA copies all rows of a box in one call.
    pitches = [math.prod(x.shape[axis:]) * itemsize for x in (target, source)]
    for index in itertools.product(*map(range, shape[: max(axis - 1, 0)])):
        there, here = _address(target, to, index), _address(source, start, index)
        # Plain copies: a single one begins earlier than that of many rows.
        if rows == 1 or max(pitches) > _PITCH:
            for row in range(rows):
                gpu.write(there + row * pitches[0], here + row * pitches[1], width)
            continue
        runtime.memcpy2DAsync(
            there, pitches[0], here, pitches[1], width, rows,
            runtime.memcpyDefault, gpu.stream.ptr,
        )  # fmt: skip
    # The buffer is ready when all work enqueued so far is done.
    target.ticket = gpu.launched()


def _address(buffer: Buffer, start: Sequence[int], index: tuple[int, ...]) -> int:
    """Return where the run of a box begins that has this index in the leading axes."""
    number = 0
    for i, (first, n) in enumerate(zip(start, buffer.shape, strict=True)):
        number = number * n + first + (index[i] if i < len(index) else 0)
    return buffer.pointer + number * buffer.dtype.itemsize
