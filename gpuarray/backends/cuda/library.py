"""Routines of CuPy's libraries: products, sorting, transforms, factorisations.

Floor 4. In: an equation and a GPU. Out: a function from Buffers to Buffers, or None.

- PARTS has functions that express an equation in primitives which a GPU runs.
- ROUTINES has makers of functions on CuPy arrays, by primitive; a maker gets the avals and params,
  and refuses operands that the library does not take with NoKernel.
- HOST has equations that run on the host by design.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.backends.cuda import (
    convolutions,
    fused_products,
    products,
    recurrences,
    reflectors,
    sorting,
)
from gpuarray.backends.cuda.availability import cupy
from gpuarray.backends.cuda.device import Buffer, Gpu
from gpuarray.backends.cuda.failures import is_failure
from gpuarray.backends.cuda.pinned import pinned
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Eqn, storage_dtype
from gpuarray.core.memories import Space
from gpuarray.core.primitive import Kind, NoKernel, Primitive, registry
from gpuarray.primitives.contract.fft import FftType
from gpuarray.primitives.contract.precision import Precision
from gpuarray.primitives.define import do
from gpuarray.primitives.memory import to_memory_p
from gpuarray.primitives.random import parts as random_parts
from gpuarray.primitives.random.elements import is_known
from gpuarray.util import lazy_module

cupyx = lazy_module("cupyx")
_solvers = lazy_module("cupyx.scipy.linalg")


def routine(
    eqn: Eqn, gpu: Gpu, instead: Callable[[], Callable[..., list]], recordable: bool = False
) -> Callable[..., Any] | None:
    """Return the library routine of an equation, or None.

    Parameters
    ----------
    instead :
        Makes the program of its parts, for routines that may turn out to be missing.
    recordable :
        Whether the library has to be one that can be called while a graph is recorded, where there
        is one.
    """
    avals = [a.aval for a in eqn.invars]
    # cuBLAS is called directly, without CuPy arrays.
    if eqn.primitive is products.gemm_p:
        by_cublas = products.gemm(avals, eqn.params, gpu)
        if recordable and fused_products.multiplies(eqn):
            return fused_products.routine(eqn, gpu, lambda: lambda a, b: [by_cublas(a, b)])
        return by_cublas
    if eqn.primitive is fused_products.gemm_lt_p:
        return fused_products.routine(eqn, gpu, instead)
    if eqn.primitive is convolutions.convolution_p:
        return convolutions.routine(eqn, gpu, instead)
    if eqn.primitive is to_memory_p:
        moved = pinned if eqn.params["space"] is Space.Host else Gpu.copy
        return lambda buffer: moved(gpu, buffer)
    if eqn.primitive.same_bytes and len(eqn.invars) == len(eqn.outvars) == 1:
        (out,) = (v.aval for v in eqn.outvars)
        return lambda buffer: buffer.viewed(out.shape, storage_dtype(out))
    maker = ROUTINES.get(eqn.primitive.name)
    if maker is None:
        return None
    try:
        function = maker(avals, **eqn.params)
    except NoKernel:  # the library does not take these operands
        return None
    # CuPy may return other dtypes of the same kind.
    types = [(v.aval.shape, storage_dtype(v.aval)) for v in eqn.outvars]

    # Arguments and results are Buffers; between them CuPy arrays over the same memory.
    def on_arrays(*buffers: Buffer) -> list[Buffer]:
        out = function(*(b.cupy() for b in buffers))
        several = out if eqn.primitive.multiple_results else [out]
        return [gpu.adopt(x, *t) for x, t in zip(several, types, strict=True)]

    def run(*buffers: Buffer) -> Any:
        made = gpu.call(on_arrays, *buffers)
        return made if eqn.primitive.multiple_results else made[0]

    return run


def parts(eqn: Eqn) -> Callable[..., Any] | None:
    """Return an equation as a function of values in terms of other primitives, or None."""
    found = PARTS.get(eqn.primitive.name, eqn.primitive.decompose)
    if found is None:
        return None
    params = dict(eqn.params)
    # These need something of the result, which their params do not say.
    if found is convolutions.conv_parts:
        params["result"] = eqn.outvars[0].aval
    if found is sorting.approx_top_k_parts:
        params = {k: params[k] for k in ("k", "reduction_dimension", "is_max_k")}
        params["length"] = eqn.outvars[0].aval.shape[params["reduction_dimension"]]
    return lambda *values: found(*values, **params)


def product_parts(eqn: Eqn) -> Callable[..., Any] | None:
    """Return the same for a product, else None."""
    of_products = products.dot_parts, products.epilogue_parts
    return parts(eqn) if PARTS.get(eqn.primitive.name) in of_products else None


# ---- products ----
def _symmetric_product_parts(a, c, *, alpha: float, beta: float):
    """`symmetric_product`: alpha a a^T + beta c, in float32 for half precision."""
    dtype, rank = aval_of(a).dtype, aval_of(a).ndim
    # In float32 throughout: half precision would round the product before the sum.
    wide = np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    lead = tuple(range(rank - 2))
    numbers = (((rank - 1,), (rank - 1,)), (lead, lead))
    full = (Precision.HIGHEST, Precision.HIGHEST)
    product = do.dot_general(
        a, a, dimension_numbers=numbers, precision=full, preferred_element_type=wide,
        out_sharding=None,
    )  # fmt: skip
    scaled = [do.mul(x, products.full(s, wide, aval_of(x).shape)) for x, s in
              ((product, alpha), (products.cast(c, wide), beta))]  # fmt: skip
    return products.cast(do.add(*scaled), dtype)


# ---- transforms ----
def _fft(avals, *, fft_type: FftType, fft_lengths: tuple[int, ...]):
    # Empty transform: use the NumPy rule.
    if not fft_lengths or avals[0].size == 0:
        raise NoKernel("nothing to transform")
    axes = tuple(range(avals[0].ndim - len(fft_lengths), avals[0].ndim))
    name = {FftType.FFT: "fftn", FftType.IFFT: "ifftn", FftType.RFFT: "rfftn"}.get(
        fft_type, "irfftn"
    )
    # Only the inverse real transform has a length that its operand does not say.
    lengths = fft_lengths if fft_type is FftType.IRFFT else None
    return lambda x: getattr(cupy.fft, name)(x, s=lengths, axes=axes)


# ---- linear algebra ----
def _each(function: Callable[[Any], Sequence]) -> Callable[[Any], list]:
    """Extend a function of one matrix to a stack of matrices."""

    def run(a):
        if a.ndim == 2:
            return list(function(a))
        # The same for each matrix of the stack, then the results as stacks.
        lead, flat = a.shape[:-2], a.reshape(-1, *a.shape[-2:])
        columns = zip(*map(function, flat), strict=True)
        return [cupy.stack(c).reshape(*lead, *c[0].shape) for c in columns]

    return run


def _of_finite(function: Callable[[Any], Sequence]) -> Callable[[Any], tuple]:
    """Extend a function of a matrix by nan for one that is not finite, on which cuSOLVER's
    iterations may not end, and return what they please.
    """

    def run(a):
        finite = cupy.all(cupy.isfinite(a))
        found = function(cupy.where(finite, a, a.dtype.type(0)))
        return tuple(cupy.where(finite, x, x.dtype.type(np.nan)) for x in found)

    return run


# The dtypes of cuSOLVER's factorisations.
def _factorised(avals) -> None:
    if avals[0].size == 0 or avals[0].dtype.name not in (
        "float32",
        "float64",
        "complex64",
        "complex128",
    ):
        raise NoKernel("CuPy does not factorise that")


def _cholesky(avals):
    _factorised(avals)

    # cuSOLVER's status must be queried; a failure gives nan, as on the host.
    def one(a):
        try:
            with cupyx.errstate(linalg="raise"):
                return (cupy.linalg.cholesky(a),)
        except np.linalg.LinAlgError:  # not positive definite
            return (cupy.full_like(a, np.nan),)

    each = _each(one)
    return lambda a: each(a)[0]


def _packed_lu(avals):
    _factorised(avals)

    # Packed as in LAPACK: L below the diagonal, U on and above it; pivots are swaps of rows.
    def one(a):
        with warnings.catch_warnings():  # a singular matrix has an LU decomposition too
            warnings.simplefilter("ignore", RuntimeWarning)
            packed, pivots = _solvers.lu_factor(a, check_finite=False)
        return packed, pivots.astype(np.int32)

    return _each(one)


#: Factors and row swaps of `lu`, without the permutation, which is computed from the swaps.
packed_lu_p = Primitive(
    "packed_lu",
    Kind.LIBRARY,
    aval=lambda a: registry["lu"].out_avals([a], {})[:2],
    multiple_results=True,
    register=False,
)


def _lu_parts(a):
    if aval_of(a).size == 0:
        raise NoKernel("nothing to factorise")
    packed, pivots = packed_lu_p.bind(a)
    # cuSOLVER makes of nan what its choice of pivots makes of it: on the host all is nan.
    aval, axes = aval_of(a), tuple(range(aval_of(a).ndim - 2))
    known = do.reduce_and(do.eq(a, a), axes=(aval.ndim - 2, aval.ndim - 1), out_sharding=None)
    known = do.broadcast_in_dim(known, shape=aval.shape, broadcast_dimensions=axes, sharding=None)
    packed = do.select_n(known, products.full(np.nan, aval.dtype, aval.shape), packed)
    size = aval.shape[-2]
    return [packed, pivots, do.lu_pivots_to_permutation(pivots, permutation_size=size)]


def _geqrf(avals):
    _factorised(avals)

    def one(a):
        packed, taus = cupy.linalg.qr(a, "raw")  # in cuSOLVER's column-major order
        return packed.T, taus

    return _each(one)


def _qr(avals, *, pivoting: bool, full_matrices: bool, **_):
    _factorised(avals)
    if pivoting:
        raise NoKernel("CuPy's QR has no pivots: reflectors.py has")
    mode = "complete" if full_matrices else "reduced"
    return _each(lambda a: cupy.linalg.qr(a, mode))


def _eigh(avals, *, lower: bool, subset_by_index, **_):
    # CuPy computes all eigenvalues; select the subset.
    _factorised(avals)
    part = slice(None) if subset_by_index is None else slice(*subset_by_index)

    def one(a):
        values, vectors = cupy.linalg.eigh(a, UPLO="L" if lower else "U")
        return vectors[:, part], values[part]

    return _each(_of_finite(one))


def _eig(avals, *, compute_left_eigenvectors, compute_right_eigenvectors, **params):
    _factorised(avals)
    if compute_left_eigenvectors:
        raise NoKernel(HOST["eig"])
    params["compute_left_eigenvectors"] = False
    params["compute_right_eigenvectors"] = compute_right_eigenvectors
    matrix = ShapedArray(avals[0].shape[-2:], avals[0].dtype)

    def one(a):
        try:
            values, vectors = cupy.linalg.eig(a)
        except RuntimeError as error:
            if is_failure(error):
                raise
            # This cuSOLVER has no such routine: compute on the host.
            found = registry["eig"].numpy_function([matrix], params)(cupy.asnumpy(a))
            return tuple(map(cupy.asarray, found))
        return (values, vectors) if compute_right_eigenvectors else (values,)

    return _each(_of_finite(one))


def _svd(avals, *, full_matrices: bool, compute_uv: bool, subset_by_index, **_):
    _factorised(avals)
    part = slice(None) if subset_by_index is None else slice(*subset_by_index)

    def one(a):
        if not compute_uv:
            return (cupy.linalg.svd(a, compute_uv=False)[part],)
        # The thin form has as many vectors as singular values, so both are cut.
        u, s, vt = cupy.linalg.svd(a, full_matrices=full_matrices)
        return (s[part], u, vt) if full_matrices else (s[part], u[:, part], vt[part])

    return _each(_of_finite(one))


def _triangular(avals, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    _factorised(avals)
    if avals[1].size == 0:
        raise NoKernel("nothing to solve")

    def solve(a, b):
        a = a.conj() if conjugate_a else a
        # x op(a) = b is op(a)^T x^T = b^T.
        trans, b = (transpose_a, b) if left_side else (not transpose_a, b.swapaxes(-1, -2))
        # Solved one by one: CuPy's function takes single matrices.
        flat = [x.reshape(-1, *x.shape[-2:]) for x in (a, b)]
        solved = [
            _solvers.solve_triangular(
                one, right, trans=int(trans), lower=lower, unit_diagonal=unit_diagonal
            )
            for one, right in zip(*flat, strict=True)
        ]
        x = cupy.stack(solved).reshape(b.shape)
        return x if left_side else x.swapaxes(-1, -2)

    return solve


def _triangular_parts(a, b, **params):
    """`triangular_solve` of 16-bit floats, in float32."""
    dtype = aval_of(b).dtype
    if dtype.itemsize != 2 or aval_of(b).size == 0:
        raise NoKernel("float32 and wider numbers are for the library")
    wide = [products.cast(x, np.dtype(np.float32)) for x in (a, b)]
    return products.cast(do.triangular_solve(*wide, **params), dtype)


# Asked after ROUTINES; NoKernel means that a function is not for these operands.
PARTS: dict[str, Callable[..., Any]] = {
    "dot_general": products.dot_parts,
    "product_add": products.epilogue_parts,
    "product_relu": products.epilogue_parts,
    "product_gelu": products.epilogue_parts,
    "gemm_lt": products.gemm_lt_parts,
    "conv_general_dilated": convolutions.conv_parts,
    "convolution": convolutions.call_parts,
    "sort": sorting.sort_parts,
    "top_k": sorting.top_k_parts,
    "approx_top_k": sorting.approx_top_k_parts,
    "symmetric_product": _symmetric_product_parts,
    "hessenberg": reflectors.hessenberg_parts,
    "tridiagonal": reflectors.tridiagonal_parts,
    "lu": _lu_parts,
    "triangular_solve": _triangular_parts,
    "qr": reflectors.qr_parts,
    "householder_product": reflectors.householder_product_parts,
    "ormqr": reflectors.ormqr_parts,
    "lu_pivots_to_permutation": recurrences.pivots_parts,
    "tridiagonal_solve": recurrences.tridiagonal_solve_parts,
    "cholesky_update": recurrences.cholesky_update_parts,
    "ragged_dot_general": recurrences.ragged_parts,
}
ROUTINES: dict[str, Callable[..., Callable[..., Any]]] = {
    "sort": sorting.sort,
    "library_sort": sorting.library_sort,
    "searchsorted": sorting.searchsorted,
    "fft": _fft,
    "cholesky": _cholesky,
    "packed_lu": _packed_lu,
    "geqrf": _geqrf,
    "qr": _qr,
    "eig": _eig,
    "eigh": _eigh,
    "svd": _svd,
    "triangular_solve": _triangular,
}
#: Functions like PARTS that draw random bits: they take a fresh key as first argument.
FRESH: dict[str, Callable[..., Any]] = {"rng_uniform": random_parts.uniform_parts}

_PYTHON = "a Python function runs where Python does"
#: Primitives that run on the host by design, in strict mode too, with the reason. Operands are
#: copied to the host, and results back.
HOST: dict[str, str] = {
    "eig": "cuSOLVER finds no left eigenvectors, and right ones only since CUDA 12.6",
    "schur": "no library for GPUs has a Schur decomposition",
    "pure_callback": _PYTHON,
    "io_callback": _PYTHON,
    "debug_callback": _PYTHON,
    "debug_print": _PYTHON,
}


def host_reason(eqn: Eqn) -> str | None:
    """Return why an equation of a GPU program runs on the host by design, or None."""
    name = eqn.primitive.name
    # Right eigenvectors come from cuSOLVER where that has the routine.
    if name == "eig" and not eqn.params["compute_left_eigenvectors"]:
        return None
    if name in HOST:
        return HOST[name]
    avals = [a.aval for a in (*eqn.invars, *eqn.outvars)]
    if not all(dtypes.in_kernels(a.dtype) for a in avals):
        return "kernels have no type for its elements"
    keys = [a for a in avals if isinstance(a.dtype, dtypes.KeyDtype)]
    return None if all(map(is_known, keys)) else "a generator of the user's own is Python"


def remarks(eqn: Eqn, arch: str) -> dict[str, str]:
    """Return what `explain` says about an equation that is no kernel."""
    reason = host_reason(eqn)
    said = {} if reason is None else {"on the host": reason}
    return said | ({"rounded to": "TF32"} if products.rounds(eqn, arch) else {})
