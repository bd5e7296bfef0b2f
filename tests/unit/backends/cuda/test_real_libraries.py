"""NVIDIA's own cuBLASLt and cuDNN, as far as they answer where there is no GPU.

In: the libraries of the wheels `nvidia-cublas` (CUDA 13) or `nvidia-cublas-cu12`, and
`nvidia-cudnn-cu13` or `nvidia-cudnn-cu12`, where they are installed; no test downloads them. Out:
their functions take the types and the numbers that we give.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_uint32, c_uint64, c_void_p

import pytest

from gpuarray.backends.cuda import cublaslt, cudnn, shared_libraries
from gpuarray.backends.cuda.shared_libraries import Functions, Owned, Refused

LT = shared_libraries.path("cublasLt", [13, 12])
needs_lt = pytest.mark.skipif(LT is None, reason="no wheel of NVIDIA's with cuBLASLt is installed")

_GET = (c_void_p, ctypes.c_int, c_void_p, ctypes.c_size_t, c_void_p)


@pytest.fixture(scope="module")
def lt() -> Functions:
    getters = {
        f"cublasLt{kind}GetAttribute": _GET
        for kind in ("MatmulDesc", "MatrixLayout", "MatmulPreference")
    }
    library = ctypes.CDLL(str(LT))
    return Functions(library, cublaslt.PROTOTYPES | getters, cublaslt._STATUSES, frozenset((8, 15)))


def read(call: Functions, made: Owned, attribute: int, kind: type) -> int:
    """An attribute, of as many bytes as the library says that it has."""
    value, written = kind(), ctypes.c_size_t()
    size = ctypes.sizeof(value)
    at = ctypes.byref(value), size, ctypes.byref(written)
    call(made._kind.format("GetAttribute"), made.pointer, attribute, *at)
    assert written.value == size
    return value.value


@needs_lt
@pytest.mark.parametrize("compute", [cublaslt.FLOAT32, cublaslt.TF32, cublaslt.INT32])
def test_products(lt, compute):
    scale = cublaslt.ELEMENT["int32" if compute == cublaslt.INT32 else "float32"]
    made = Owned(lt, "cublasLtMatmulDesc{}", compute, scale)
    assert (read(lt, made, 0, c_int32), read(lt, made, 1, c_int32)) == (compute, scale)
    values = [
        (cublaslt._TRANSA, c_int32(1)),
        (cublaslt._TRANSB, c_int32(1)),
        (cublaslt._BIAS_POINTER, c_void_p(0x1230)),
        (cublaslt._BIAS_TYPE, c_int32(cublaslt.ELEMENT["bfloat16"])),
        *((cublaslt._EPILOGUE, c_uint32(number)) for number in cublaslt.EPILOGUE.values()),
    ]
    for attribute, value in values:
        made.set(attribute, value)
        assert read(lt, made, attribute, type(value)) == value.value


@needs_lt
@pytest.mark.parametrize("dtype", cublaslt.ELEMENT)
def test_layouts(lt, dtype):
    made = Owned(lt, "cublasLtMatrixLayout{}", cublaslt.ELEMENT[dtype], 48, 32, 64)
    stored = [
        read(lt, made, attribute, kind)
        for attribute, kind in ((0, c_uint32), (2, c_uint64), (3, c_uint64), (4, c_int64))
    ]
    assert stored == [cublaslt.ELEMENT[dtype], 48, 32, 64]
    made.set(cublaslt._BATCH_COUNT, c_int32(7))
    made.set(cublaslt._BATCH_STRIDE, c_int64(1 << 33))
    assert read(lt, made, cublaslt._BATCH_COUNT, c_int32) == 7
    assert read(lt, made, cublaslt._BATCH_STRIDE, c_int64) == 1 << 33


@needs_lt
def test_preferences(lt):
    made = Owned(lt, "cublasLtMatmulPreference{}")
    made.set(cublaslt._MOST_WORKSPACE, c_uint64(1 << 25))
    assert read(lt, made, cublaslt._MOST_WORKSPACE, c_uint64) == 1 << 25
    for attribute in cublaslt._ALIGNMENTS:
        # What the library assumes of addresses unless it is told otherwise.
        assert read(lt, made, attribute, c_uint32) == 256
        made.set(attribute, c_uint32(16))
        assert read(lt, made, attribute, c_uint32) == 16


@needs_lt
def test_values_of_other_sizes_are_refused(lt):
    made = Owned(lt, "cublasLtMatmulDesc{}", cublaslt.FLOAT32, 0)
    with pytest.raises(Refused, match=r"returned 7 \(INVALID_VALUE\)"):
        made.set(cublaslt._EPILOGUE, c_uint64(36))


@needs_lt
def test_what_an_algorithm_is_takes_as_much_memory_as_ours():
    # 64 bytes of algorithm, its workspace, its status, how full the GPU is, 4 reserved numbers.
    assert ctypes.sizeof(cublaslt._Heuristic) == 64 + 8 + 4 + 4 + 16
    assert cublaslt._Heuristic.workspace.offset == 64


@needs_lt
def test_names_of_statuses(lt):
    name = ctypes.CDLL(str(LT)).cublasLtGetStatusName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.c_int]
    for number, ours in cublaslt._STATUSES.items():
        assert name(number).decode() == f"CUBLAS_STATUS_{ours}"


# ---- cuDNN ----
DNN = shared_libraries.path("cudnn", cudnn.VERSIONS)
needs_dnn = pytest.mark.skipif(DNN is None, reason="no wheel of NVIDIA's with cuDNN is installed")
_INTS = ctypes.POINTER(ctypes.c_int)


@pytest.fixture(scope="module")
def dnn() -> Functions:
    getters = {
        "cudnnGetTensorNdDescriptor": (c_void_p, ctypes.c_int, _INTS, _INTS, _INTS, _INTS),
        "cudnnGetFilterNdDescriptor": (c_void_p, ctypes.c_int, _INTS, _INTS, _INTS, _INTS),
        "cudnnGetConvolutionMathType": (c_void_p, _INTS),
        "cudnnGetConvolutionGroupCount": (c_void_p, _INTS),
        "cudnnGetConvolutionNdForwardOutputDim": (
            c_void_p, c_void_p, c_void_p, ctypes.c_int, _INTS,
        ),
    }  # fmt: skip
    library = ctypes.CDLL(str(DNN))
    return Functions(library, cudnn.PROTOTYPES | getters, cudnn._STATUSES, cudnn._UNSUPPORTED)


@needs_dnn
@pytest.mark.parametrize("dtype", cudnn.ELEMENT)
@pytest.mark.parametrize("last", [True, False])
def test_images_and_filters(dnn, dtype, last):
    element, lengths = cudnn.ELEMENT[dtype], (2, 6, 12, 13)
    kind, rank, shape, apart = ctypes.c_int(), ctypes.c_int(), cudnn._ints(lengths), (
        ctypes.c_int * 4
    )()  # fmt: skip
    at = ctypes.byref(kind), ctypes.byref(rank), shape, apart
    made = cudnn._tensor(dnn, element, lengths, last)
    dnn("cudnnGetTensorNdDescriptor", made.pointer, 4, *at)
    assert (kind.value, rank.value, tuple(shape)) == (element, 4, lengths)
    assert tuple(apart) == ((936, 1, 78, 6) if last else (936, 156, 13, 1))
    layout = ctypes.c_int()
    at = ctypes.byref(kind), ctypes.byref(layout), ctypes.byref(rank), shape
    made = cudnn._filter(dnn, element, (8, 6, 3, 5), last)
    dnn("cudnnGetFilterNdDescriptor", made.pointer, 4, *at)
    assert (kind.value, layout.value, tuple(shape)) == (element, int(last), (8, 6, 3, 5))


@needs_dnn
def test_the_cuda_that_it_is_built_for():
    assert cudnn.cuda_version(ctypes.CDLL(str(DNN))) in (12, 13)


@needs_dnn
def test_it_is_found_and_found_again():
    first, again = cudnn.load(), cudnn.load()
    assert first._handle == again._handle


@needs_dnn
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("math", [cudnn._DEFAULT_MATH, cudnn._TENSOR_MATH, cudnn._FMA_MATH])
def test_convolutions(dnn, groups, math):
    how = Owned(dnn, "cudnn{}ConvolutionDescriptor")
    numbers = map(cudnn._ints, ((1, 2), (2, 1), (1, 3)))
    dnn("cudnnSetConvolutionNdDescriptor", how.pointer, 2, *numbers, cudnn._CROSS_CORRELATION, 0)
    dnn("cudnnSetConvolutionGroupCount", how.pointer, groups)
    dnn("cudnnSetConvolutionMathType", how.pointer, math)
    stored = ctypes.c_int(), ctypes.c_int()
    dnn("cudnnGetConvolutionGroupCount", how.pointer, stored[0])
    dnn("cudnnGetConvolutionMathType", how.pointer, stored[1])
    assert [v.value for v in stored] == [groups, math]
    x = cudnn._tensor(dnn, 0, (2, 6, 12, 13), True)
    w = cudnn._filter(dnn, 0, (8, 6 // groups, 3, 4), True)
    y = cudnn._ints((0, 0, 0, 0))
    dnn("cudnnGetConvolutionNdForwardOutputDim", how.pointer, x.pointer, w.pointer, 4, y)
    # (12 + 2 - 3) // 2 + 1 and 13 + 4 - 10 + 1
    assert tuple(y) == (2, 8, 6, 8)


@needs_dnn
def test_what_is_wrong_is_refused(dnn):
    made = Owned(dnn, "cudnn{}TensorDescriptor")
    with pytest.raises(Refused, match=r"cudnnSetTensorNdDescriptor returned [23]"):
        dnn("cudnnSetTensorNdDescriptor", made.pointer, 0, 4, *[cudnn._ints((2, 0, 3, 3))] * 2)


@needs_dnn
def test_what_a_proposal_is_takes_as_much_memory_as_ours():
    # Three numbers of 4 bytes, a size, and five numbers.
    assert ctypes.sizeof(cudnn._Proposal) == 48
    assert cudnn._Proposal.memory.offset == 16


@needs_dnn
def test_names_of_cudnn_statuses(dnn):
    name = ctypes.CDLL(str(DNN)).cudnnGetErrorString
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.c_int]
    for number, ours in cudnn._STATUSES.items():
        assert name(number).decode() == f"CUDNN_STATUS_{ours}"
