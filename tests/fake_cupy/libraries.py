"""Routines of the GPU's libraries that NumPy has not under the same name.

In: what CuPy takes: arrays, or numbers as cuBLAS takes them. Out: SciPy's or NumPy's results, as
work of the current stream.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import warnings
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import scipy.linalg

from tests.fake_cupy.arrays import call, ndarray
from tests.fake_cupy.errors import CUDARuntimeError
from tests.fake_cupy.memory import use_of, view
from tests.fake_cupy.world import world

# ---- cuBLAS ----
_TYPES = {
    0: np.float32, 1: np.float64, 2: np.float16, 4: np.complex64, 5: np.complex128,
    14: ml_dtypes.bfloat16,
}  # fmt: skip
#: What sums are kept in, and whether products keep ten bits of their factors only.
_COMPUTE = {68: (np.float32, False), 70: (np.float64, False), 77: (np.float32, True)}


def get_cublas_handle() -> int:
    """The current device's cuBLAS."""
    return 0xB1A5 + world.thread.device


def gemmStridedBatchedEx(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int,
    A: int, Atype: int, lda: int, strideA: int,
    B: int, Btype: int, ldb: int, strideB: int, beta: int,
    C: int, Ctype: int, ldc: int, strideC: int,
    batchCount: int, computeType: int, algo: int,
) -> None:  # fmt: skip
    """C = alpha op(A) op(B) + beta C of a stack of matrices that lie columns first."""
    queue = world.find(world.current(world.thread.device))
    if queue.captured is not None:
        raise NotImplementedError("calling cuBLAS API during stream capture is unsupported")
    world.count("library")
    if world.idle:
        return
    if handle != get_cublas_handle():
        raise CUDARuntimeError(400)
    sums, coarse = _COMPUTE[computeType]
    real = np.dtype(sums)
    scale = np.result_type(real, np.complex64) if _is_complex(Ctype) else real
    factors = [np.frombuffer(ctypes.string_at(p, scale.itemsize), scale)[0] for p in (alpha, beta)]
    shapes = {
        "a": (A, Atype, lda, strideA, (k, m) if transa else (m, k)),
        "b": (B, Btype, ldb, strideB, (n, k) if transb else (k, n)),
        "c": (C, Ctype, ldc, strideC, (m, n)),
    }
    views, uses = {}, []
    with world.lock:
        for name, (pointer, kind, lead, step, (rows, columns)) in shapes.items():
            dtype = np.dtype(_TYPES[kind])
            if lead < rows:
                raise CUDARuntimeError(1)
            size = ((batchCount - 1) * step + (columns - 1) * lead + rows) * dtype.itemsize
            uses.append(use_of(pointer, size, name == "c"))
            strides = tuple(s * dtype.itemsize for s in (step, 1, lead))
            shape = (batchCount, rows, columns)
            views[name] = np.ndarray(shape, dtype, view(pointer, size).data, 0, strides)
        a, b, c = views["a"], views["b"], views["c"]

        def run() -> None:
            left, right = (
                _turned(x.astype(np.result_type(scale, real)), how, coarse)
                for x, how in ((a, transa), (b, transb))
            )
            with np.errstate(all="ignore"):
                found = factors[0] * np.matmul(left, right)
                if factors[1]:
                    found = found + factors[1] * c.astype(scale)
                c[...] = found.astype(c.dtype)

        world.put(queue, "matrix product", run, uses)


def _is_complex(kind: int) -> bool:
    return np.dtype(_TYPES[kind]).kind == "c"


def _turned(x: np.ndarray, how: int, coarse: bool) -> np.ndarray:
    if coarse:  # TF32 has ten bits behind the point
        bits = np.ascontiguousarray(x).view(np.uint32)
        x = ((bits + 0x1000) & np.uint32(0xFFFFE000)).view(x.dtype)
    x = x.swapaxes(1, 2) if how else x
    return x.conj() if how == 2 else x


# ---- what a factorisation does with a matrix that has none ----
class _Config(threading.local):
    linalg = "ignore"


_config = _Config()


def seterr(*, divide=None, over=None, under=None, invalid=None, linalg=None) -> dict:
    """Whether a failed factorisation is an error ("raise") or rubbish ("ignore", as CuPy does)."""
    before = {"linalg": _config.linalg}
    if linalg is not None:
        _config.linalg = linalg
    return before


@contextlib.contextmanager
def errstate(*, divide=None, over=None, under=None, invalid=None, linalg=None) -> Iterator[None]:
    before = seterr(linalg=linalg)
    try:
        yield
    finally:
        seterr(**before)


def cholesky(a: ndarray) -> ndarray:
    return call(_cholesky, a)


def _cholesky(a: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        if _config.linalg == "raise":
            raise
        return np.tril(a)


def eig(a: ndarray) -> tuple[ndarray, ndarray]:
    return call(_eig, a)


def _eig(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if world.old_solver:
        raise RuntimeError("geev is not available")
    if not np.isfinite(a).all():
        raise AssertionError("cuSOLVER is not asked about numbers that are not finite")
    wide = np.result_type(a.dtype, np.complex64)  # complex, be all eigenvalues real
    return tuple(x.astype(wide) for x in np.linalg.eig(a))


# ---- SciPy's ----
def lu_factor(a: ndarray, overwrite_a=False, check_finite=True) -> tuple[ndarray, ndarray]:
    return call(_lu_factor, a)


def _lu_factor(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    (getrf,) = scipy.linalg.get_lapack_funcs(("getrf",), (a,))
    packed, pivots, info = getrf(a)
    packed[np.isnan(packed)] = 0  # cuSOLVER's own choice of pivots loses them
    if info > 0:
        warnings.warn(f"Diagonal number {info} is exactly zero.", RuntimeWarning, stacklevel=2)
    return packed, pivots


def solve_triangular(
    a: ndarray, b: ndarray, trans=0, lower=False, unit_diagonal=False, overwrite_b=False,
    check_finite=False,
) -> ndarray:  # fmt: skip
    return call(_solve_triangular, a, b, trans, lower, unit_diagonal)


def _solve_triangular(a: np.ndarray, b: np.ndarray, trans, lower, unit_diagonal) -> np.ndarray:
    (trsm,) = scipy.linalg.get_blas_funcs(("trsm",), (a, b))  # it divides by zero
    return trsm(1.0, a, b, lower=lower, trans_a=trans, diag=unit_diagonal)


# ---- between devices and the host ----
def asnumpy(a, stream=None, order="C", out=None, *, blocking=True) -> np.ndarray:
    return a.get() if isinstance(a, ndarray) else np.asarray(a)


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False) -> ndarray:
    if isinstance(a, ndarray):
        return a if dtype is None else a.astype(dtype, copy=False)
    return call(np.array, a, dtype)
