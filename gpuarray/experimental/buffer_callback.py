"""Python functions that write their results into memory that they are given: `buffer_callback`.

Floor 6. In: a function of a context, buffers for results and buffers of operands. Out: a function
of arrays. It is called on the host, as `pure_callback` is.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpuarray.api.callbacks import io_callback, pure_callback
from gpuarray.core.avals import aval_of
from gpuarray.errors import JaxRuntimeError
from gpuarray.names import explain_names as _explain_names
from gpuarray.pytree import tree
from gpuarray.util import Struct, index, wrong_type

__all__ = ["Buffer", "ExecutionContext", "ExecutionStage", "buffer_callback"]


class Buffer:
    """Memory of an array while a callback runs: `numpy.asarray(buffer)` is a view of it.

    `writeable` is true for the buffer of a result.
    """

    __slots__ = ("_memory",)

    def __init__(self, memory: np.ndarray):
        self._memory = memory

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the elements."""
        return self._memory.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self._memory.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._memory.ndim

    @property
    def writeable(self) -> bool:
        """Whether it may be written to."""
        return self._memory.flags.writeable

    def unsafe_buffer_pointer(self) -> int:
        """The address of the first element."""
        return self._memory.ctypes.data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._memory, dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._memory.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._memory.__dlpack_device__()


class ExecutionStage(enum.Enum):
    """The reason for calling a callback: here always EXECUTE."""

    INSTANTIATE = 0
    PREPARE = 1
    INITIALIZE = 2
    EXECUTE = 3


class ExecutionContext(Struct):
    """The information that a callback receives about the program."""

    stage: ExecutionStage = ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        """The stream of a GPU, which callbacks do not have: they run on the host."""
        raise JaxRuntimeError(
            "XLA FFI GPU context is not available: a callback runs on the host, with NumPy's arrays"
        )


class _InPlace(Struct):
    """A callback as a function from NumPy arrays to NumPy arrays: equal for equal functions."""

    callback: Callable[..., None]
    out_tree: Any
    results: tuple[tuple[tuple[int, ...], np.dtype], ...]
    aliases: tuple[tuple[int, int], ...]
    ranks: tuple[int, ...]  # of the operands, without axes that vmap adds in front

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree.tree_flatten((args, kwargs))
        operands = [np.asarray(x).view() for x in leaves]
        for x in operands:
            # Operands may share memory with arrays, which never change.
            x.flags.writeable = False
        # vmap calls it with whole batches: their axes are in front, and the results get them all.
        added = [x.shape[: x.ndim - n] for x, n in zip(operands, self.ranks, strict=True)]
        batch = np.broadcast_shapes(*added)
        made = [np.zeros(batch + shape, dtype) for shape, dtype in self.results]
        # An alias is a promise that the output starts as the input: here it is a copy.
        for i, o in self.aliases:
            made[o][...] = operands[i]
        given, named = tree.tree_unflatten(spec, map(Buffer, operands))
        out = tree.tree_unflatten(self.out_tree, map(Buffer, made))
        if self.callback(ExecutionContext(), out, *given, **named) is not None:
            raise ValueError("buffer_callback callback must not return any values.")
        return tree.tree_unflatten(self.out_tree, made)


def buffer_callback(
    callback: Callable[..., None],
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    command_buffer_compatible: bool = False,
) -> Callable[..., Any]:
    """A function of arrays that calls `callback(context, out, *args)`, which writes to `out`.

    Parameters
    ----------
    result_shape_dtypes :
        A pytree of objects with `shape` and `dtype`; `out` has its structure.
    has_side_effect :
        Whether it is to be called even where no result is used.
    vmap_method :
        As for `pure_callback`.
    input_output_aliases :
        {number of an operand: number of a result that begins with its values}.
    command_buffer_compatible :
        Taken for programs that give it.

    Examples
    --------

    >>> import numpy as np, gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental.buffer_callback import buffer_callback
    >>> def add_one(context, out, x):
    ...     np.asarray(out)[...] = np.asarray(x) + 1
    >>> x = gnp.array(41, dtype=gnp.int32)
    >>> ga.jit(buffer_callback(add_one, ga.ShapeDtypeStruct.like(x)))(x)
    Array(42, dtype=int32)
    """
    if not callable(callback):
        raise TypeError(f"buffer_callback takes a function, got {callback!r}")
    if input_output_aliases is not None and not isinstance(input_output_aliases, Mapping):
        raise wrong_type(input_output_aliases, "a dict {number of an input: number of an output}")
    structs, out_tree = tree.tree_flatten(result_shape_dtypes)
    results = tuple((tuple(s.shape), np.dtype(s.dtype)) for s in structs)
    aliases = tuple((index(i), index(o)) for i, o in (input_output_aliases or {}).items())

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves = tree.tree_leaves((args, kwargs))
        _check_aliases(aliases, leaves, results)
        ranks = tuple(aval_of(x).ndim for x in leaves)
        call = _InPlace(callback, out_tree, results, aliases, ranks)
        if has_side_effect:
            return io_callback(call, result_shape_dtypes, *args, **kwargs)
        return pure_callback(call, result_shape_dtypes, *args, vmap_method=vmap_method, **kwargs)

    return wrapped


def _check_aliases(
    aliases: Sequence[tuple[int, int]], leaves: Sequence[Any], results: Sequence[tuple]
) -> None:
    for i, o in aliases:
        for kind, number, count in (("input", i, len(leaves)), ("output", o, len(results))):
            if not 0 <= number < count:
                raise ValueError(
                    f"input_output_aliases contains the mapping '{i}:{o}' with {kind} index "
                    f"{number} outside the range [0, {count})."
                )
        aval = aval_of(leaves[i])
        if (aval.shape, aval.dtype) != results[o]:
            raise ValueError(
                f"input_output_aliases contains the mapping '{i}:{o}' referring to an input with "
                f"abstract value {aval} and an output of another shape or dtype, {results[o]}."
            )


__getattr__ = _explain_names(__name__)
