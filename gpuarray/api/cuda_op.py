"""`cuda_op`: a CUDA kernel written as text, used like any other operation.

Floor 6. In: the text, the types of its results, and how many threads run it. Out: a function of
arrays that works inside `jit`, and under `grad` and `vmap` if rules are given. It runs on a GPU; on
the simulator, which checks its accesses; and on the CPU if a NumPy function is given too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray.compiler.lower.user import UserSource
from gpuarray.config import state
from gpuarray.core.avals import ShapedArray
from gpuarray.core.linear import is_inexact
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.functions.custom_vjp import custom_vjp
from gpuarray.numpy import asarray, broadcast_to, moveaxis, zeros
from gpuarray.pytree import tree
from gpuarray.util import read_only

_NAME = re.compile(r"[A-Za-z_]\w*")


def cuda_op(
    source: str,
    name: str,
    out: Any,
    *,
    grid: int | Callable[..., int] | None = None,
    block: int = 256,
    numpy: Callable[..., Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    vmap: str | Callable[..., Any] = "sequential",
) -> Callable[..., Any]:
    """An operation from CUDA source: a function of arrays, and of numbers given by keyword.

    The setting GPUARRAY_NO_CUSTOM=1 refuses all of it.

    Parameters
    ----------
    source :
        CUDA C++ with `extern "C" __global__ void name(const T* in0, ..., U* out0, ...)`: a pointer
        for each input, then one for each result, all contiguous. Numbers given by keyword are
        macros in it, and so are sizes: IN0_SIZE, IN0_DIM1, OUT0_SIZE and so on.
    out :
        The type of the result: an object with `shape` and `dtype`, a tuple of them, or a function
        of the inputs' (and the keywords) that returns it.
    grid :
        How many blocks: a number, or a function as `out`; by default a thread for each element of
        the first result.
    numpy :
        The same as a function of NumPy arrays: it runs on the CPU, and tests compare with it.
    vjp :
        Cotangents of the inputs: vjp(inputs, results, cotangents, **keywords), None for integers.
    vmap :
        "sequential" runs one call for each element; "elementwise" means that the kernel works on
        each element independently, so larger arrays are fine; or batch(args, dims, **keywords) ->
        (results, dims).

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> axpy = ga.cuda_op(
    ...     '''
    ...     extern "C" __global__ void axpy(const float* x, const float* y, float* out) {
    ...         const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    ...         if (i < OUT0_SIZE) out[i] = A * x[i] + y[i];
    ...     }
    ...     ''',
    ...     "axpy",
    ...     out=lambda x, y, A: x,
    ...     numpy=lambda x, y, A: A * x + y,
    ...     vmap="elementwise",
    ... )
    >>> ga.jit(lambda x: axpy(x, x, A=2) + 1)(gnp.arange(3.0))
    Array([1., 4., 7.], dtype=float32)
    """
    if state.no_custom:
        raise PermissionError(
            f"cuda_op({name!r}): CUDA source written by users is refused here, because the setting "
            "no_custom (GPUARRAY_NO_CUSTOM) is on."
        )
    if not _NAME.fullmatch(name):
        raise ValueError(f"a kernel's name must be a C++ identifier, got {name!r}")
    # Mistakes that NVRTC would report with lines of generated text.
    if not re.search(rf"\b{name}\s*\(", source) or "__global__" not in source:
        raise ValueError(
            f'the source has no kernel {name!r}: expected `extern "C" __global__ void {name}(...)`'
        )
    if isinstance(vmap, str) and vmap not in ("sequential", "elementwise"):
        raise ValueError(f'vmap must be "sequential", "elementwise" or a function, got {vmap!r}')
    if numpy is not None and not callable(numpy):
        raise util.wrong_type(numpy, "a function of NumPy arrays")
    # Whole warps, and CUDA's limit for a block.
    if util.index(block) % 32 or not 32 <= block <= 1024:
        raise ValueError(f"block must be a multiple of 32 from 32 to 1024, got {block}")
    if grid is not None and not callable(grid):
        grid = util.index(grid)
    return _Op(source, name, out, grid, block, numpy, vjp, vmap)


class _Op:
    """The function that `cuda_op` returns."""

    def __init__(
        self,
        source: str,
        name: str,
        out: Any,
        grid: int | Callable[..., int] | None,
        block: int,
        numpy: Callable[..., Any] | None,
        vjp: Callable[..., Any] | None,
        vmap: str | Callable[..., Any],
    ):
        self.__name__ = self.__qualname__ = name
        self.out, self.grid, self.numpy, self.batch = out, grid, numpy, vmap
        self.block = block
        prim = Primitive(
            name,
            Kind.LIBRARY,
            multiple_results=True,
            # Names are the user's, and several operations may have one.
            register=False,
            aval=self._avals,
            numpy_pick=self._reference,
            cuda=UserSource(source, name, self._blocks, block),
            batch=self._batch,
        )
        self.prim = prim
        # Without a rule a derivative raises an error that names the operation.
        self.call = prim.bind if vjp is None else _with_vjp(prim, vjp)

    def __call__(self, *args: Any, **numbers: Any) -> Any:
        # Keywords become macros of the text: only finite Python numbers have one spelling.
        for key, value in numbers.items():
            if not isinstance(value, (bool, int, float)) or not math.isfinite(value):
                raise TypeError(
                    f"{self.__name__}({key}=...): what is given by keyword is a constant of the "
                    f"kernel and must be a finite Python number, got {value!r}. Pass arrays by "
                    "position."
                )
        leaves = [asarray(x) for x in args]
        results = self.call(*leaves, **numbers)
        # One result if `out` is one type, a tuple if it is a tuple.
        given = self._given([x.aval for x in leaves], numbers)
        return tuple(results) if isinstance(given, (tuple, list)) else results[0]

    def __repr__(self) -> str:
        return f"<cuda_op {self.__name__}>"

    def _given(self, avals: list[ShapedArray], numbers: dict[str, Any]) -> Any:
        return self.out(*avals, **numbers) if callable(self.out) else self.out

    def _avals(self, *avals: ShapedArray, **numbers: Any) -> list[ShapedArray]:
        given = self._given(list(avals), numbers)
        listed = given if isinstance(given, (tuple, list)) else [given]
        try:
            return [ShapedArray(tuple(x.shape), x.dtype) for x in listed]
        except AttributeError:
            raise TypeError(
                f"cuda_op {self.__name__!r}: `out` must say shape and dtype, as ShapeDtypeStruct "
                f"or an array does, got {given!r}"
            ) from None

    def _blocks(self, avals: list[ShapedArray], **numbers: Any) -> int:
        if self.grid is None:
            # Rounded up: the last block may be partly idle.
            blocks = -(-self._avals(*avals, **numbers)[0].size // self.block)
        else:
            blocks = self.grid(*avals, **numbers) if callable(self.grid) else self.grid
        # CUDA refuses a launch of no blocks.
        return max(1, int(blocks))

    def _reference(self, avals: list[ShapedArray], **numbers: Any) -> Callable[..., list]:
        """The NumPy function as the primitive's rule."""
        function, outs = self.numpy, self._avals(*avals, **numbers)

        def run(*buffers: Any) -> list:
            if function is None:
                raise TypeError(
                    f"cuda_op {self.__name__!r} has no NumPy function, so it cannot run on the "
                    "CPU: give numpy=..., or choose the platform cuda or simulator."
                )
            given = function(*map(read_only, buffers), **numbers)
            listed = list(given) if isinstance(given, (tuple, list)) else [given]
            found = [np.array(x) for x in listed]  # the user may keep the returned array
            if [x.shape for x in found] != [a.shape for a in outs]:
                raise ValueError(
                    f"the NumPy function of cuda_op {self.__name__!r} returned shapes "
                    f"{[x.shape for x in found]}, expected {[a.shape for a in outs]}"
                )
            return [x.astype(a.dtype, copy=False) for x, a in zip(found, outs, strict=True)]

        return run

    def _batch(self, axis, args: list, dims: list, **numbers: Any):
        # The user's rule.
        if callable(self.batch):
            made: Any = self.batch(args, dims, **numbers)
            out, out_dims = made
            many = isinstance(out, (tuple, list))
            return (list(out), list(out_dims)) if many else ([out], [out_dims])
        # Every operand gets the axis in front, also those that are the same for all.
        moved = [
            broadcast_to(x, (axis.size, *x.shape)) if d is None else moveaxis(x, d, 0)
            for x, d in zip(args, dims, strict=True)
        ]
        if self.batch == "elementwise":
            out = self.prim.bind(*moved, **numbers)
        elif axis.size:
            out = lax.map(lambda xs: self.prim.bind(*xs, **numbers), moved)
        else:
            # No elements: the shapes of the results follow from one that does not exist.
            one = [x.aval.update(shape=x.shape[1:]) for x in moved]
            out = [zeros((0, *a.shape), a.dtype) for a in self._avals(*one, **numbers)]
        return list(out), [0] * len(out)


def _with_vjp(prim: Primitive, vjp: Callable[..., Any]) -> Callable[..., Any]:
    """The primitive with a user's rule for cotangents."""

    def call(*args: Any, **numbers: Any) -> list:
        # Made for each call: keywords are part of the function.
        @custom_vjp
        def op(*xs):
            return prim.bind(*xs, **numbers)

        def forward(*xs):
            out = prim.bind(*xs, **numbers)
            return out, (xs, out)

        def backward(kept, cotangents):
            xs, out = kept
            one = len(out) == 1
            given = vjp(xs, out[0] if one else out, cotangents[0] if one else cotangents, **numbers)
            listed = given if isinstance(given, (tuple, list)) else (given,)
            if len(listed) != len(xs):
                raise TypeError(
                    f"the vjp of cuda_op {prim.name!r} must return a cotangent for each of its "
                    f"{len(xs)} inputs, got {tree.tree_structure(given)}"
                )
            return tuple(
                # Integers have no cotangent, whatever the rule returns.
                None if ct is None or not is_inexact(x.aval) else ct
                for ct, x in zip(listed, xs, strict=True)
            )

        op.defvjp(forward, backward)
        return op(*args)

    return call
