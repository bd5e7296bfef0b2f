"""Products with an epilogue, and of numbers of 8 bits, for cuBLASLt.

Floor 4. In: an equation of `gemm_lt`. Out: a function of Buffers: one call of the library or, if
that has no algorithm or fails, the program of its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.backends.cuda import cublaslt, shared_libraries
from gpuarray.backends.cuda.cublaslt import CublasLt, Matrices, Prepared
from gpuarray.backends.cuda.device import Buffer, Gpu
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.target import has_tensor_cores
from gpuarray.primitives.contract import epilogues
from gpuarray.primitives.contract.ops import integer_product

#: Its key in `Gpu.libraries`.
_NAME = "cuBLASLt"


def gemm_aval(
    a: ShapedArray, b: ShapedArray, *_: ShapedArray, transposed: tuple[bool, bool], dtype, **others
) -> ShapedArray:
    """Return the stack of products of two stacks of matrices."""
    batch, m = sides(a.shape, transposed[0])[:2]
    return ShapedArray((batch, m, sides(b.shape, transposed[1])[2]), dtype)


def sides(shape: tuple[int, ...], transposed: bool) -> tuple[int, int, int]:
    """Return (batch, rows, columns) of matrices stored with the last two axes swapped, or not."""
    batch, rows, columns = shape
    return (batch, columns, rows) if transposed else (batch, rows, columns)


# The reference, for tests: sums of floats, and the epilogue, are in float32.
def _gemm_numpy(a, b, *added, transposed, dtype, tf32: bool, activation: str) -> np.ndarray:
    a, b = (x.swapaxes(1, 2) if t else x for x, t in zip((a, b), transposed, strict=True))
    if np.dtype(dtype).kind == "i":
        return integer_product(a, b, np.dtype(dtype))
    made = np.matmul(a.astype(np.float32), b.astype(np.float32))
    return epilogues.in_numpy(made, added, activation, dtype)


#: activation([batch, m, k] x [batch, k, n] + bias[n] + c[batch, m, n]), as `gemm` has it; the bias
#: and c may be missing.
gemm_lt_p = Primitive("gemm_lt", Kind.LIBRARY, aval=gemm_aval, numpy=_gemm_numpy, register=False)


def _product(avals: list[ShapedArray], params: dict, tf32: bool) -> cublaslt.LtProduct:
    """Return a product as the library describes it."""
    batch, m, n = gemm_aval(*avals, **params).shape
    transposed_a, transposed_b = params["transposed"]
    k = sides(avals[0].shape, transposed_a)[2]
    left, right = (cublaslt.ELEMENT[a.dtype.name] for a in avals[:2])
    # The library expects column-major matrices. Row-major ones are read as their transposes; the
    # result is the product of the transposes in reverse order.
    a = Matrices(right, k if transposed_b else n, n if transposed_b else k, transposed_b)
    b = Matrices(left, m if transposed_a else k, k if transposed_a else m, transposed_a)
    d = Matrices(cublaslt.ELEMENT[params["dtype"].name], n, m)
    compute = cublaslt.TF32 if params["tf32"] and tf32 else cublaslt.FLOAT32
    compute = cublaslt.INT32 if params["dtype"].kind == "i" else compute
    ranks, activation = [a.ndim for a in avals[2:]], params.get("activation", "")
    return cublaslt.LtProduct(batch, a, b, d, compute, activation, 1 in ranks, 3 in ranks)


def routine(
    eqn: Eqn, gpu: Gpu, instead: Callable[[], Callable[..., list]]
) -> Callable[..., Buffer]:
    """Return `gemm_lt`, or `gemm`, as one call of cuBLASLt.

    Parameters
    ----------
    instead :
        Makes the program of its parts, which runs where the library does not do this product.
    """
    avals = [a.aval for a in eqn.invars]
    made: list[Prepared] = []
    product, aval = (
        _product(avals, eqn.params, has_tensor_cores(gpu.arch)),
        gemm_aval(*avals, **eqn.params),
    )

    def called(a: Buffer, b: Buffer, *added: Buffer) -> Buffer:
        if not made:
            made.append(library(gpu).prepared(product))
        ready = made[0]  # another thread may have prepared it too
        out = gpu.empty(aval.shape, aval.dtype)
        bias = next((x.pointer for x in added if x.ndim == 1), None)
        c = next((x.pointer for x in added if x.ndim == 3), out.pointer)

        def call() -> None:
            # Freed immediately: its next user comes later in the stream.
            space = gpu.allocate(ready.workspace) if ready.workspace else None
            at = 0 if space is None else space.ptr
            with gpu.device:
                ready(b.pointer, a.pointer, bias, c, out.pointer, at, gpu.stream.ptr)

        gpu.retried(call)
        return out

    return shared_libraries.or_instead(_NAME, called, instead)


def multiplies(eqn: Eqn) -> bool:
    """Whether a product, `gemm` or `gemm_lt`, may be one call of cuBLASLt."""
    avals = [a.aval for a in (*eqn.invars, *eqn.outvars)]
    return all(a.dtype.name in cublaslt.ELEMENT and a.size for a in avals)


def library(gpu: Gpu) -> CublasLt:
    """Return the library on a GPU; raise Refused where it is not here."""
    return shared_libraries.kept(gpu.libraries, _NAME, lambda: CublasLt(gpu))


# ---- operand layouts of the library ----
# 8-bit numbers are contiguous along the summed axis: columns of both operands are multiples of 16
# bytes.
_COLUMNS = 16
_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
#: Most terms of a sum of products of int8 that cannot overflow.
_TERMS = 1 << 17


def multiplies_bytes(a: ShapedArray, b: ShapedArray, steps: int, columns: int, out: Any) -> Any:
    """Return the dtype in which the library gives a product of numbers of 8 bits.

    None if it cannot multiply these.
    """
    names = [a.dtype.name, b.dtype.name]
    if 0 in (a.size, b.size) or steps % _COLUMNS or columns % _COLUMNS:
        return None
    if names == ["int8", "int8"] and out.name in ("int8", "int32") and steps <= _TERMS:
        return np.dtype(np.int32)
    # It cannot multiply two of the wider ones either.
    floats = all(n in _FLOAT8 for n in names) and _FLOAT8[0] in names
    if floats and out.name in ("float16", "bfloat16", "float32", *_FLOAT8):
        return np.dtype(np.float32) if out.itemsize == 1 else out
    return None
