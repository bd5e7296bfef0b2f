"""cuBLASLt: products with epilogues, and of numbers of 8 bits.

Floor 4. In: the shapes and types of a product. Out: an object that enqueues it on a stream.
Matrices are column-major; a caller with row-major ones exchanges the operands.

CuPy has no bindings for this library, but loads it, since cuBLAS uses it. Its constants and the
sizes of its structures are those of its C interface, which versions 12 and 13 share.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Sequence
from ctypes import c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from gpuarray.backends.cuda import shared_libraries
from gpuarray.backends.cuda.availability import cupy
from gpuarray.backends.cuda.device import ALIGNMENT
from gpuarray.backends.cuda.shared_libraries import Functions, Owned, Refused
from gpuarray.core.target import TARGET
from gpuarray.util import Struct

#: cudaDataType of elements.
ELEMENT = {
    "float32": 0,
    "float16": 2,
    "int8": 3,
    "int32": 10,
    "bfloat16": 14,
    "float8_e4m3fn": 28,
    "float8_e5m2": 29,
}
#: cublasComputeType: sums in float32, with operands rounded to TF32, in int32.
FLOAT32, TF32, INT32 = 68, 77, 72
#: cublasLtEpilogue, by the name of the activation and whether there is a bias.
EPILOGUE = {
    ("", False): 1,
    ("relu", False): 2,
    ("", True): 4,
    ("relu", True): 6,
    ("gelu", False): 32,
    ("gelu", True): 36,
}
#: Numbers of attributes: of a product, of a layout, of an algorithm's requirements.
_TRANSA, _TRANSB, _EPILOGUE, _BIAS_POINTER, _BIAS_TYPE = 3, 4, 7, 8, 26
_BATCH_COUNT, _BATCH_STRIDE = 5, 6
_MOST_WORKSPACE, _ALIGNMENTS = 1, (5, 6, 7, 8)

_STATUSES = {
    1: "NOT_INITIALIZED",
    3: "ALLOC_FAILED",
    7: "INVALID_VALUE",
    8: "ARCH_MISMATCH",
    11: "MAPPING_ERROR",
    13: "EXECUTION_FAILED",
    14: "INTERNAL_ERROR",
    15: "NOT_SUPPORTED",
    16: "LICENSE_ERROR",
}


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult: an algorithm, and its requirements."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


_MADE = ctypes.POINTER(c_void_p)
_SET = (c_void_p, c_int, c_void_p, c_size_t)
PROTOTYPES: dict[str, Sequence[Any]] = {
    "cublasLtCreate": (_MADE,),
    "cublasLtDestroy": (c_void_p,),
    "cublasLtMatmulDescCreate": (_MADE, c_int, c_int),
    "cublasLtMatmulDescDestroy": (c_void_p,),
    "cublasLtMatmulDescSetAttribute": _SET,
    "cublasLtMatrixLayoutCreate": (_MADE, c_int, c_uint64, c_uint64, c_int64),
    "cublasLtMatrixLayoutDestroy": (c_void_p,),
    "cublasLtMatrixLayoutSetAttribute": _SET,
    "cublasLtMatmulPreferenceCreate": (_MADE,),
    "cublasLtMatmulPreferenceDestroy": (c_void_p,),
    "cublasLtMatmulPreferenceSetAttribute": _SET,
    "cublasLtMatmulAlgoGetHeuristic": (
        *(c_void_p,) * 7, c_int, ctypes.POINTER(_Heuristic), ctypes.POINTER(c_int),
    ),
    "cublasLtMatmul": (
        c_void_p, c_void_p, c_void_p,  # handle, product, alpha
        c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,  # A and B with layouts, beta
        c_void_p, c_void_p, c_void_p, c_void_p,  # C and D with layouts
        c_void_p, c_void_p, c_size_t, c_void_p,  # algorithm, workspace, its size, stream
    ),
}  # fmt: skip


class Matrices(Struct):
    """A stack of matrices, columns first and close together; `transposed`: it is read so."""

    type: int
    rows: int
    columns: int
    transposed: bool = False


class LtProduct(Struct):
    """D = activation(op(A) op(B) + bias + C) for each of `batch` pairs of matrices.

    `bias` and `added` tell whether there are a bias and C, which has the layout of D.
    """

    batch: int
    a: Matrices
    b: Matrices
    d: Matrices
    compute: int
    activation: str = ""
    bias: bool = False
    added: bool = False

    @property
    def scale(self) -> Any:
        """The dtype of alpha and beta."""
        return np.dtype(np.int32 if self.compute == INT32 else np.float32)


def library() -> Functions:
    """Return the functions of the library that is beside CuPy's cuBLAS."""
    with contextlib.suppress(ImportError):
        _ = cupy.cuda.cublas  # CuPy loads both, from wherever it finds them
    version = cupy.cuda.runtime.runtimeGetVersion() // 1000
    found = shared_libraries.load("cublasLt", [version])
    return Functions(found, PROTOTYPES, _STATUSES, frozenset((8, 15)))


class CublasLt:
    """The library on one GPU: a handle, and the products that programs hold."""

    def __init__(self, gpu: Any):
        self.call = library()
        self._lock = threading.Lock()
        self._kept: WeakValueDictionary[LtProduct, Prepared] = WeakValueDictionary()
        with gpu.device:
            self.handle = Owned(self.call, "cublasLt{}")

    def prepared(self, product: LtProduct) -> Prepared:
        """Return a product with its descriptors and the algorithm that the library proposes."""
        with self._lock:
            found = self._kept.get(product)
            if found is None:
                found = self._kept[product] = Prepared(self, product)
            return found


class Prepared:
    """A product as the library wants it described, ready to run."""

    def __init__(self, owner: CublasLt, product: LtProduct):
        self._call, self._handle = owner.call, owner.handle
        self._lock = threading.Lock()
        call = owner.call
        scale = ELEMENT[product.scale.name]
        self._one, self._beta = (np.full(1, x, product.scale) for x in (1, product.added))
        self._product = made = Owned(call, "cublasLtMatmulDesc{}", product.compute, scale)
        made.set(_TRANSA, c_int32(product.a.transposed))
        made.set(_TRANSB, c_int32(product.b.transposed))
        made.set(_EPILOGUE, c_uint32(EPILOGUE[product.activation, product.bias]))
        if product.bias:
            made.set(_BIAS_TYPE, c_int32(product.d.type))
            # The library takes the address of a bias into account when it proposes an algorithm. It
            # is not read: it stands for the least aligned address possible.
            made.set(_BIAS_POINTER, c_void_p(ALIGNMENT))
        self._layouts = [_layout(call, product, m) for m in (product.a, product.b, product.d)]
        self._heuristic = self._proposed(made)
        self.workspace = int(self._heuristic.workspace)
        # Numbers, since they are passed with each call.
        self._places = [x.pointer.value for x in (owner.handle, made, *self._layouts)]
        self._factors = [x.ctypes.data for x in (self._one, self._beta)]
        self._algorithm = ctypes.addressof(self._heuristic.algorithm)

    def _proposed(self, product: Owned) -> _Heuristic:
        """Return the algorithm that the library proposes."""
        preference = Owned(self._call, "cublasLtMatmulPreference{}")
        preference.set(_MOST_WORKSPACE, c_uint64(TARGET.library_workspace))
        for attribute in _ALIGNMENTS:
            preference.set(attribute, c_uint32(ALIGNMENT))
        a, b, d = (x.pointer for x in self._layouts)
        found, count = _Heuristic(), c_int(0)
        self._call(
            "cublasLtMatmulAlgoGetHeuristic", self._handle.pointer, product.pointer, a, b, d, d,
            preference.pointer, 1, ctypes.byref(found), ctypes.byref(count),
        )  # fmt: skip
        if count.value < 1 or found.state:
            raise Refused("cublasLtMatmulAlgoGetHeuristic found no algorithm", expected=True)
        return found

    def __call__(
        self, a: int, b: int, bias: int | None, c: int, d: int, workspace: int, stream: int
    ) -> None:
        """Put the product on a stream, given addresses."""
        handle, product, at_a, at_b, at_d = self._places
        one, beta = self._factors
        # The address of the bias is an attribute: one call at a time.
        with self._lock:
            if bias is not None:
                self._product.set(_BIAS_POINTER, c_void_p(bias))
            self._call(
                "cublasLtMatmul", handle, product, one, a, at_a, b, at_b, beta, c, at_d, d, at_d,
                self._algorithm, workspace, self.workspace, stream,
            )  # fmt: skip


def _layout(call: Functions, product: LtProduct, matrices: Matrices) -> Owned:
    rows, columns = matrices.rows, matrices.columns
    made = Owned(call, "cublasLtMatrixLayout{}", matrices.type, rows, columns, rows)
    if product.batch > 1:
        made.set(_BATCH_COUNT, c_int32(product.batch))
        made.set(_BATCH_STRIDE, c_int64(rows * columns))
    return made
