"""How the caller of a kernel cuts arrays into blocks: `BlockSpec`, `GridSpec`.

Floor 6. In: block shapes and functions of grid positions. Out: checked descriptions of them.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.value import Array
from gpuarray.experimental.pallas.hints import Buffered
from gpuarray.experimental.pallas.semaphores import semaphore
from gpuarray.lax.creation import full
from gpuarray.transforms.references import AbstractRef, Ref
from gpuarray.util import Struct


class Blocked(Struct):
    """An axis in blocks: the index map gives the number of the block. An int means the same."""

    block_size: int


class Element(Struct):
    """An axis in windows: the index map gives the first element. `padding`: added at the ends."""

    block_size: int
    padding: tuple[int, int] = (0, 0)


class Squeezed:
    """An axis along which the index map picks one element; the kernel does not see it. None means
    the same.
    """

    def __repr__(self) -> str:
        return "Squeezed()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Squeezed)

    def __hash__(self) -> int:
        return hash(Squeezed)


#: The one that is always meant.
squeezed = Squeezed()


class MemorySpace(enum.Enum):
    """Where a block is: arrays have one memory here, so that all are the same.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.ANY((2, 3), "float32").shape
    (2, 3)
    """

    ANY = "any"
    DEFAULT = "default"
    HOST = "host"

    def __str__(self) -> str:
        return self.value

    def __call__(self, shape: Sequence[int], dtype: Any) -> MemoryRef:
        """The type of a reference, for `scratch_shapes` and `run_scoped`."""
        if dtype is semaphore:
            return MemoryRef(_aval(shape, "int32"), self, is_semaphore=True)
        return MemoryRef(_aval(shape, dtype), self)

    def from_type(self, type: Any) -> MemoryRef:
        """The type of a reference to an array of this type."""
        return MemoryRef(type, self)


class MemoryRef(Struct):
    """The type of a reference: of the array that it holds, and of its memory.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.ANY((2, 3), "float32").dtype
    dtype('float32')
    """

    inner_aval: Any
    memory_space: Any = MemorySpace.ANY
    is_semaphore: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.inner_aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the array."""
        return self.inner_aval.dtype

    def get_array_aval(self) -> ShapedArray:
        """The type of the array.

        >>> from gpuarray.experimental import pallas as pl
        >>> pl.ANY((2, 3), "float32").get_array_aval()
        ShapedArray(float32[2,3])
        """
        return _aval(self.shape, self.dtype)

    def get_ref_aval(self) -> AbstractRef:
        """The type of the reference.

        >>> from gpuarray.experimental import pallas as pl
        >>> pl.ANY((2, 3), "float32").get_ref_aval()
        Ref{float32[2,3]}
        """
        return AbstractRef(self.get_array_aval())


def _aval(shape: Sequence[int], dtype: Any) -> ShapedArray:
    sizes = (shape,) if isinstance(shape, int) else tuple(operator.index(n) for n in shape)
    return ShapedArray(sizes, dtypes.canonicalize_dtype(dtype))


def uninitialised(shape: Sequence[int], dtype: Any) -> Array:
    """The contents of uninitialised memory: NaN, the least integer, or False."""
    # As in JAX's interpreter: reads of uninitialised memory are visible.
    kind = dtypes.kind_of(dtype)
    if kind in "fc":
        return full(shape, math.nan, dtype)
    return full(shape, int(dtypes.iinfo(dtype).min) if kind in "iu" else False, dtype)


def scratch_of(type: Any) -> Ref:
    """An uninitialised reference."""
    if not hasattr(type, "shape") or not hasattr(type, "dtype"):
        raise TypeError(
            f"Scratch is described by a shape and a dtype, got {type!r}: write "
            "pl.ANY(shape, dtype). Memories of one kind of device are not here."
        )
    aval = _aval(type.shape, type.dtype)
    if getattr(type, "is_semaphore", False):
        return Ref(full(aval.shape, 0, aval.dtype))
    return Ref(uninitialised(aval.shape, aval.dtype))


class CostEstimate(Struct):
    """The declared cost of a kernel. Programs are planned by the kernel's actual operations
    instead.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.CostEstimate(flops=10, transcendentals=0, bytes_accessed=80).flops
    10
    """

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0


class NoBlockSpec:
    """The default of `in_specs` and `out_specs`: every program sees whole arrays."""

    def __repr__(self) -> str:
        return "NoBlockSpec"


no_block_spec = NoBlockSpec()


class BlockSpec:
    """How an array is cut into blocks, and which of them a program of the grid gets.

    Parameters
    ----------
    block_shape :
        A length for each axis (or Blocked, Element, Squeezed, None); None for all of it.
    index_map :
        Function from the grid position to a position for each axis; None for zeros.
    pipeline_mode, memory_space :
        pl.Buffered(n) and pl.ANY, pl.HOST, for portable kernels: they have no effect.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental import pallas as pl
    >>> rows = pl.BlockSpec((1, 4), lambda i: (i, 0))
    >>> def kernel(x_ref, out_ref):
    ...     out_ref[...] = x_ref[...] * pl.program_id(0)
    >>> x = gnp.ones((3, 4))
    >>> pl.pallas_call(kernel, x, grid=(3,), in_specs=[rows], out_specs=rows)(x)[:, 0]
    Array([0., 1., 2.], dtype=float32)
    """

    def __init__(
        self,
        block_shape: Sequence[Any] | None = None,
        index_map: Callable[..., Any] | None = None,
        pipeline_mode: Any = None,
        *,
        memory_space: Any = None,
    ):
        if index_map is not None and not callable(index_map):
            raise TypeError(
                f"index_map must be a function of the grid position, got {index_map!r}."
            )
        if memory_space is not None and not isinstance(memory_space, MemorySpace):
            raise NotImplementedError(
                f"memory_space={memory_space!r}: an array has one memory here. Leave it out."
            )
        if pipeline_mode is not None and not isinstance(pipeline_mode, Buffered):
            raise NotImplementedError(
                f"pipeline_mode={pipeline_mode!r} says how blocks are copied ahead of the program; "
                "here the compiler decides what is read when. Leave it out, or give pl.Buffered."
            )
        self.block_shape = None if block_shape is None else tuple(map(_dim, block_shape))
        self.index_map, self.memory_space = index_map, memory_space
        self.pipeline_mode = pipeline_mode

    def replace(self, **changes: Any) -> BlockSpec:
        """Another one, with these arguments changed.

        >>> from gpuarray.experimental import pallas as pl
        >>> pl.BlockSpec((8,)).replace(block_shape=(4,))
        BlockSpec(block_shape=(Blocked(block_size=4),), index_map=None)
        """
        names = ("block_shape", "index_map", "pipeline_mode", "memory_space")
        return BlockSpec(**({name: getattr(self, name) for name in names} | changes))

    def __repr__(self) -> str:
        return f"BlockSpec(block_shape={self.block_shape}, index_map={self.index_map})"


def _dim(size: Any) -> Blocked | Element | Squeezed:
    if size is None:
        return squeezed
    if not isinstance(size, (Blocked, Element, Squeezed)):
        try:
            size = Blocked(operator.index(size))
        except TypeError:
            raise ValueError(
                f"Unsupported block dimension: {size!r} of type {type(size).__name__}. Each is an "
                "int, None, or one of pl.Blocked, pl.Element and pl.Squeezed."
            ) from None
    if not isinstance(size, Squeezed) and size.block_size < 1:
        raise ValueError(f"The length of a block must be at least 1, got {size.block_size}.")
    return size


class GridSpec:
    """A grid and the blocks of its programs, as one argument of `pallas_call`.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.GridSpec(4, in_specs=[pl.BlockSpec((8,), lambda i: (i,))]).grid
    (4,)
    """

    def __init__(
        self,
        grid: Any = (),
        in_specs: Any = no_block_spec,
        out_specs: Any = no_block_spec,
        scratch_shapes: Any = (),
    ):
        if in_specs is not no_block_spec and not isinstance(in_specs, (tuple, list)):
            raise ValueError(f"`in_specs` must be a tuple or a list. Found: {in_specs}")
        self.in_specs = tuple(in_specs) if isinstance(in_specs, list) else in_specs
        self.out_specs = tuple(out_specs) if isinstance(out_specs, list) else out_specs
        self.scratch_shapes = scratch_shapes
        self.grid = tuple(map(_steps, grid if isinstance(grid, (tuple, list)) else (grid,)))
        # Axes of a grid have no names here (see `_steps`); JAX's attribute is read by libraries.
        self.grid_names: tuple[Hashable, ...] | None = None


def _steps(n: Any) -> Any:
    """The number of programs along an axis of the grid; a traced one is checked by its type."""
    if isinstance(n, tuple):
        raise NotImplementedError(
            f"The axis {n} of the grid has a name, which collectives of meshes would use. Give the "
            "number alone, and ask for the position with pl.program_id(axis)."
        )
    try:
        aval = aval_of(n)
    except TypeError:
        aval = None
    if aval is None or aval.shape or dtypes.kind_of(aval.dtype) not in "iu":
        raise ValueError(f"Grid must be a tuple of integers or jax.Array, got {n!r} in it.")
    # A traced number: its value is not known yet.
    if hasattr(n, "_trace"):
        return n
    if (n := operator.index(n)) < 0:
        raise ValueError(f"A grid has no negative lengths, got {n}.")
    return n
