"""Sums of products for cuBLAS: contractions as stacks of matrix products.

Floor 4. In: the equations. Out: the same in terms of transposes and conversions, which are kernels,
and `gemm`, which is one call of cuBLAS. cuBLAS reads transposed matrices in place and sums 16-bit
floats in float32. Integers, which it does not multiply, are summed by a kernel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.backends.cuda.availability import cupy
from gpuarray.backends.cuda.device import Buffer, Gpu
from gpuarray.backends.cuda.fused_products import (
    gemm_aval,
    gemm_lt_p,
    multiplies_bytes,
    sides,
)
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Eqn
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.target import has_tensor_cores
from gpuarray.primitives.contract.epilogues import as_matrices, with_epilogue
from gpuarray.primitives.contract.ops import _side, dot_aval, joined_dtype, working_dtype
from gpuarray.primitives.contract.precision import Precision, allows_tf32, rounding_of
from gpuarray.primitives.define import do

# ---- the matrix product ----
#: cuBLAS's numbers of element types (cudaDataType) and of compute types (cublasComputeType).
_ELEMENT = {
    "float32": 0,
    "float64": 1,
    "float16": 2,
    "complex64": 4,
    "complex128": 5,
    "bfloat16": 14,
}
_COMPUTE = {"float32": 68, "complex64": 68, "float64": 70, "complex128": 70}
#: alpha and beta, by compute type; they are read by their addresses.
_FACTORS = {name: np.array([1, 0], name) for name in _COMPUTE}
_TF32 = 77
#: Types whose products cuBLAS may compute from operands rounded to TF32.
TF32_TYPES = (np.float32, np.complex64)
_DEFAULT_ALGORITHM = -1


# The reference, for tests: half precision is summed in float32.
def _gemm_numpy(a, b, *, transposed: tuple[bool, bool], dtype, tf32: bool) -> np.ndarray:
    wide = np.promote_types(np.float32, dtype) if dtype.kind in "fc" else np.float32
    a, b = (x.swapaxes(1, 2) if t else x for x, t in zip((a, b), transposed, strict=True))
    return np.matmul(a.astype(wide), b.astype(wide)).astype(dtype)


#: [batch, m, k] x [batch, k, n] -> [batch, m, n]; `transposed`: operands stored with the last two
#: axes swapped.
gemm_p = Primitive("gemm", Kind.LIBRARY, aval=gemm_aval, numpy=_gemm_numpy, register=False)


def gemm(avals: list[ShapedArray], params: dict, gpu: Gpu) -> Callable[[Buffer, Buffer], Buffer]:
    """Return `gemm_p` as one call of cuBLAS."""
    # The result's shape follows from the stored shapes of the operands.
    aval = gemm_aval(*avals, **params)
    batch, m, n = aval.shape
    _, _, k = sides(avals[0].shape, params["transposed"][0])
    dtype = aval.dtype
    # The scalars alpha and beta are of the compute type, which is float32 for half precision.
    wide = np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    one = _FACTORS[wide.name].ctypes.data
    zero = one + wide.itemsize
    # cuBLAS expects column-major matrices. Row-major ones are read as their transposes; the result
    # is the product of the transposes in reverse order.
    transposed_a, transposed_b = params["transposed"]
    # Each operand: element type, leading dimension, elements of one matrix.
    left = (_ELEMENT[avals[1].dtype.name], k if transposed_b else n, k * n)
    right = (_ELEMENT[avals[0].dtype.name], m if transposed_a else k, m * k)
    out_type, turned = _ELEMENT[dtype.name], (int(transposed_b), int(transposed_a))
    compute = _TF32 if params["tf32"] and has_tensor_cores(gpu.arch) else _COMPUTE[wide.name]

    def product(a: Buffer, b: Buffer, out: Buffer) -> None:
        with gpu.device, gpu.stream:
            cupy.cuda.cublas.gemmStridedBatchedEx(
                cupy.cuda.device.get_cublas_handle(),
                *turned, n, m, k, one, b.pointer, *left, a.pointer, *right, zero,
                out.pointer, out_type, n, m * n, batch, compute, _DEFAULT_ALGORITHM,
            )  # fmt: skip

    def run(a: Buffer, b: Buffer) -> Buffer:
        out = gpu.empty(aval.shape, dtype)
        # An empty result needs no call, and cuBLAS would refuse it.
        if out.size:
            gpu.retried(product, a, b, out)
        return out

    return run


def rounds(eqn: Eqn, arch: str) -> bool:
    """Whether an equation is of products that libraries may round to TF32."""
    if not has_tensor_cores(arch) or not allows_tf32(
        eqn.params.get("precision", Precision.HIGHEST)
    ):
        return False
    if any(a.aval.dtype not in TF32_TYPES for a in eqn.invars[:2]):
        return False
    rules = eqn.primitive.rewrite.product
    return rules is None or min(map(math.prod, rules.extents(eqn)[1:3])) > 1


# ---- operations on top of it ----
def cast(x: Any, dtype: Any) -> Any:
    """Convert a value to a dtype."""
    if aval_of(x).dtype == dtype:
        return x
    return do.convert_element_type(x, new_dtype=dtype, weak_type=False, sharding=None)


def full(value: float, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Return an array of one value."""
    return do.broadcast_in_dim(
        np.asarray(value, dtype)[()], shape=shape, broadcast_dimensions=(), sharding=None
    )


def shaped(x: Any, shape: tuple[int, ...]) -> Any:
    """Reshape a value."""
    if aval_of(x).shape == shape:
        return x
    return do.reshape(x, new_sizes=shape, dimensions=None, sharding=None)


def permuted(x: Any, permutation: tuple[int, ...]) -> Any:
    """Transpose a value."""
    if permutation == tuple(range(len(permutation))):
        return x
    return do.transpose(x, permutation=permutation)


def product(
    a: Any,
    b: Any,
    transposed: tuple[bool, bool],
    working: Any,
    out: Any,
    tf32: bool,
    epilogue: tuple[Sequence[Any], str] | None = None,
) -> Any:
    """Multiply stacks of matrices of any dtypes; `epilogue`: the addends, and an activation."""
    avals = aval_of(a), aval_of(b)
    left, right = (sides(x.shape, t) for x, t in zip(avals, transposed, strict=True))
    wide = multiplies_bytes(*avals, left[2], right[2], out)
    if wide is not None and epilogue is None:
        return cast(_byte_product(a, b, transposed, wide), out)
    if dtypes.kind_of(working) in "biu":
        return _integer_product(a, b, transposed, working, out)
    return _float_product(a, b, transposed, working, out, tf32, epilogue)


def _float_product(a, b, transposed, working, out, tf32: bool, epilogue=None) -> Any:
    """Multiply floats that cuBLAS takes, converted where they are others."""
    given = [aval_of(x).dtype for x in (a, b)]
    left, right = (sides(aval_of(x).shape, t) for x, t in zip((a, b), transposed, strict=True))
    # 16-bit operands are not converted: cuBLAS sums them in float32.
    narrow = given[0] == given[1] and given[0].name in ("float16", "bfloat16")
    if not narrow or working != np.float32:
        a, b = cast(a, working), cast(b, working)
        narrow = False
    result = out if out == working or (narrow and out == given[0]) else working
    # Products with vectors are bound by memory: rounding would gain nothing.
    tf32 = tf32 and working in TF32_TYPES and not narrow and min(left[1], right[2]) > 1
    # cuBLAS takes no empty matrices; an empty sum is 0.
    empty = 0 in (aval_of(a).size, aval_of(b).size)
    params = {"transposed": transposed, "dtype": result, "tf32": tf32}
    if empty:
        aval = gemm_aval(aval_of(a), aval_of(b), transposed=transposed, dtype=out)
        made = do.broadcast_in_dim(
            np.zeros((), out), shape=aval.shape, broadcast_dimensions=(), sharding=None
        )
    elif epilogue is not None and result == out and working == np.float32:
        added, activation = epilogue
        return gemm_lt_p.bind(a, b, *added, activation=activation, **params)
    else:
        made = gemm_p.bind(a, b, **params)
        # A complex product for a real result: the imaginary part is dropped, as on the host.
        if dtypes.kind_of(result) == "c" != dtypes.kind_of(out):
            made = do.real(made)
        made = cast(made, out)
    return made if epilogue is None else with_epilogue(made, *epilogue)


def _byte_product(a: Any, b: Any, transposed: tuple[bool, bool], out: Any) -> Any:
    """Multiply 8-bit numbers directly, which cuBLASLt does for rows contiguous along the summed
    axis.
    """
    a = permuted(a, (0, 2, 1)) if transposed[0] else a
    b = b if transposed[1] else permuted(b, (0, 2, 1))
    return gemm_lt_p.bind(a, b, transposed=(False, True), dtype=out, tf32=False, activation="")


def gemm_lt_parts(a, b, *added, transposed, dtype, tf32: bool, activation: str) -> Any:
    """`gemm_lt` without cuBLASLt: a product by cuBLAS or a kernel, followed by a kernel."""
    if dtypes.kind_of(dtype) == "i":
        return _integer_product(a, b, transposed, dtype, dtype)
    made = _float_product(a, b, transposed, np.dtype(np.float32), dtype, tf32)
    return with_epilogue(made, added, activation)


def _integer_product(a, b, transposed, working, out):
    """Multiply and sum integers in one kernel."""
    # Transposes are views here: the kernel reads the elements in place.
    a = permuted(a, (0, 2, 1)) if transposed[0] else a
    b = permuted(b, (0, 2, 1)) if transposed[1] else b
    (batch, m, k), n = aval_of(a).shape, aval_of(b).shape[2]
    broadcast = functools.partial(do.broadcast_in_dim, shape=(batch, m, n, k), sharding=None)
    a = broadcast(cast(a, working), broadcast_dimensions=(0, 1, 3))
    b = broadcast(permuted(cast(b, working), (0, 2, 1)), broadcast_dimensions=(0, 2, 3))
    if dtypes.kind_of(working) == "b":
        return cast(do.reduce_or(getattr(do, "and")(a, b), axes=(3,)), out)
    return cast(do.reduce_sum(do.mul(a, b), axes=(3,)), out)


def dot_parts(lhs, rhs, *, epilogue=None, out_sharding=None, **params):
    """`dot_general`: both operands as stacks of matrices, as on the host."""
    avals = aval_of(lhs), aval_of(rhs)
    out = dot_aval(*avals, **params)
    precision = params["precision"]
    (lc, rc), (lb, rb) = params["dimension_numbers"]
    # The same choice of dtypes as the NumPy rule makes.
    *_, accumulate = rounding_of(precision)
    joined = joined_dtype("dot_general", avals[0].dtype, avals[1].dtype)
    working = working_dtype(joined, out.dtype, accumulate)
    matrices = []
    for x, batch, contract, last in ((lhs, lb, lc, True), (rhs, rb, rc, False)):
        side = _side(aval_of(x).shape, tuple(batch), tuple(contract), last)
        matrices.append((shaped(permuted(x, side.permutation), side.shape), side.swap))
    (a, transposed_a), (b, transposed_b) = matrices
    tf32 = allows_tf32(precision)
    transposed = transposed_a, transposed_b
    if epilogue is not None:
        added, activation = epilogue
        stack = gemm_aval(aval_of(a), aval_of(b), transposed=transposed, dtype=out.dtype).shape
        shapes = as_matrices(stack, map(aval_of, added))
        epilogue = [shaped(x, s) for x, s in zip(added, shapes, strict=True)], activation
    made = product(a, b, transposed, working, out.dtype, tf32, epilogue)
    return shaped(made, out.shape)


def epilogue_parts(lhs, rhs, *added, activation: str, **params):
    """A product with addends and an activation: likewise, in the same call."""
    return dot_parts(lhs, rhs, epilogue=(added, activation), **params)
