"""cuDNN: convolutions and their derivatives.

Floor 4. In: a convolution of images x with filters w to y, and which of the three is computed of
the other two. Out: an object that puts it on a stream.

CuPy has no bindings for this library, and does not include it: the extra `cudnn` does. Its
constants and the sizes of its structures are those of its C interface, version 9.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
from collections.abc import Sequence
from ctypes import POINTER, c_float, c_int, c_size_t, c_void_p
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from gpuarray.backends.cuda import shared_libraries
from gpuarray.backends.cuda.availability import cupy
from gpuarray.backends.cuda.shared_libraries import Functions, Owned, Refused
from gpuarray.core.target import TARGET
from gpuarray.util import Struct

#: Versions of the library that have this interface.
VERSIONS = (9,)
#: cudnnDataType of elements.
ELEMENT = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}
_DEFAULT_MATH, _TENSOR_MATH, _FMA_MATH = 0, 1, 3
_CHANNELS_FIRST, _CHANNELS_LAST = 0, 1
_CROSS_CORRELATION = 1
_DETERMINISTIC = 1
#: Algorithms that the library is asked to propose: it has no more.
_PROPOSALS = 10

_STATUSES = {
    1001: "NOT_INITIALIZED",
    1002: "SUBLIBRARY_VERSION_MISMATCH",
    1008: "SUBLIBRARY_LOADING_FAILED",
    2000: "BAD_PARAM",
    3000: "NOT_SUPPORTED",
    4000: "INTERNAL_ERROR",
    4004: "INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    5000: "EXECUTION_FAILED",
}
#: Statuses that mean the library has no code for a request.
_UNSUPPORTED = frozenset(range(3000, 3100))

#: For each computed tensor (x, w or y): its name in functions, and the order of their arguments.
KINDS = {
    "forward": ("Forward", "xwy"),
    "data": ("BackwardData", "wyx"),
    "filter": ("BackwardFilter", "xyw"),
}


class _Proposal(ctypes.Structure):
    """cudnnConvolution...AlgoPerf: an algorithm, and its measurements."""

    _fields_ = (
        ("algorithm", c_int),
        ("status", c_int),
        ("time", c_float),
        ("memory", c_size_t),
        ("determinism", c_int),
        ("math", c_int),
        ("reserved", c_int * 3),
    )


_MADE, _INTS = POINTER(c_void_p), POINTER(c_int)
PROTOTYPES: dict[str, Sequence[Any]] = {
    "cudnnCreate": (_MADE,),
    "cudnnDestroy": (c_void_p,),
    "cudnnSetStream": (c_void_p, c_void_p),
    "cudnnSetTensorNdDescriptor": (c_void_p, c_int, c_int, _INTS, _INTS),
    "cudnnSetFilterNdDescriptor": (c_void_p, c_int, c_int, c_int, _INTS),
    "cudnnSetConvolutionNdDescriptor": (c_void_p, c_int, _INTS, _INTS, _INTS, c_int, c_int),
    "cudnnSetConvolutionGroupCount": (c_void_p, c_int),
    "cudnnSetConvolutionMathType": (c_void_p, c_int),
}
for _thing in ("Tensor", "Filter", "Convolution"):
    PROTOTYPES[f"cudnnCreate{_thing}Descriptor"] = (_MADE,)
    PROTOTYPES[f"cudnnDestroy{_thing}Descriptor"] = (c_void_p,)
for _kind, _ in KINDS.values():
    PROTOTYPES[f"cudnnGetConvolution{_kind}Algorithm_v7"] = (
        *(c_void_p,) * 5, c_int, _INTS, POINTER(_Proposal),
    )  # fmt: skip
    PROTOTYPES[f"cudnnGetConvolution{_kind}WorkspaceSize"] = (
        *(c_void_p,) * 5, c_int, POINTER(c_size_t),
    )  # fmt: skip
    PROTOTYPES[f"cudnnConvolution{_kind}"] = (
        c_void_p, c_void_p,  # handle, alpha
        c_void_p, c_void_p, c_void_p, c_void_p,  # two operands: descriptor, address
        c_void_p, c_int, c_void_p, c_size_t,  # convolution, algorithm, workspace, its size
        c_void_p, c_void_p, c_void_p,  # beta, the result: descriptor, address
    )  # fmt: skip


class ConvolutionCall(Struct):
    """The parameters of a convolution.

    Attributes
    ----------
    kind :
        A key of KINDS: y of x and w, x of w and y, or w of x and y.
    last :
        Whether channels are the last axis in memory, after the spatial axes; else they come before
        these.
    x, w, y :
        Lengths of (images, channels, *space), (features, channels of a group, *window) and (images,
        features, *space).
    padding, strides, dilation :
        Along each axis of space: zeros on either side of x, from one window to the next, and from
        one element of a window to the next.
    tf32 :
        Whether float32 may be rounded to TF32.
    """

    kind: str
    dtype: str
    last: bool
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    padding: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    tf32: bool


def load() -> Any:
    """Return the library, loaded; raise Refused where it is not here."""
    return shared_libraries.load("cudnn", VERSIONS)


def cuda_version(library: Any) -> int:
    """Return the major version of CUDA that the library was built for."""
    asked = library.cudnnGetCudartVersion
    asked.argtypes, asked.restype = [], c_size_t
    return asked() // 1000


def _check_cuda(library: Any) -> None:
    """Raise Refused for a library that was built for another CUDA than CuPy: it would crash."""
    theirs, ours = cuda_version(library), cupy.cuda.runtime.runtimeGetVersion() // 1000
    if theirs != ours:
        raise Refused(
            f"cuDNN is built for CUDA {theirs}, and CuPy for CUDA {ours}: install "
            f"nvidia-cudnn-cu{ours} in place of nvidia-cudnn-cu{theirs}"
        )


def installed() -> bool:
    """Whether the library is here."""
    try:
        load()
    except Refused:
        return False
    return True


class Cudnn:
    """The library on one GPU: a handle, and the convolutions that programs hold."""

    def __init__(self, gpu: Any):
        found = load()
        _check_cuda(found)
        self.call = Functions(found, PROTOTYPES, _STATUSES, _UNSUPPORTED)
        #: A handle is for one thread at a time.
        self.lock = threading.Lock()
        self._kept: WeakValueDictionary[ConvolutionCall, PreparedConvolution] = (
            WeakValueDictionary()
        )
        self._stream = 0
        # Parts of the library look for cuBLAS and NVRTC by name: CuPy knows where they are.
        with contextlib.suppress(ImportError):
            _ = cupy.cuda.cublas, cupy.cuda.nvrtc.getVersion()
        with gpu.device:
            self.handle = Owned(self.call, "cudnn{}")

    def prepared(self, asked: ConvolutionCall) -> PreparedConvolution:
        """Return a convolution with its descriptors and an algorithm that the library proposes."""
        with self.lock:
            found = self._kept.get(asked)
            if found is None:
                found = self._kept[asked] = PreparedConvolution(self, asked)
            return found

    def run(
        self, made: PreparedConvolution, addresses: Sequence[int], workspace: int, stream: int
    ) -> None:
        """Put a convolution on a stream, given the addresses of its operands and its result."""
        with self.lock:
            if stream != self._stream:
                self.call("cudnnSetStream", self.handle.pointer, stream)
                self._stream = stream
            made(addresses, workspace)


class PreparedConvolution:
    """A convolution as the library wants it described, ready to run."""

    def __init__(self, owner: Cudnn, asked: ConvolutionCall):
        call = self._call = owner.call
        self._name, order = KINDS[asked.kind]
        self._function = f"cudnnConvolution{self._name}"
        element = ELEMENT[asked.dtype]
        wide = np.dtype(np.float64 if asked.dtype == "float64" else np.float32)
        self._one, self._zero = (np.full(1, n, wide) for n in (1, 0))
        # The library has no one-dimensional convolutions: add an axis of length 1.
        short = len(asked.strides) == 1
        more = lambda numbers, n: (*numbers, n) if short else numbers
        made = {
            "x": _tensor(call, element, more(asked.x, 1), asked.last),
            "y": _tensor(call, element, more(asked.y, 1), asked.last),
            "w": _filter(call, element, more(asked.w, 1), asked.last),
        }
        self._parts = [made[k] for k in order]
        self._how = how = Owned(call, "cudnn{}ConvolutionDescriptor")
        numbers = more(asked.padding, 0), more(asked.strides, 1), more(asked.dilation, 1)
        call(
            "cudnnSetConvolutionNdDescriptor", how.pointer, len(numbers[0]), *map(_ints, numbers),
            _CROSS_CORRELATION, ELEMENT[wide.name],
        )  # fmt: skip
        call("cudnnSetConvolutionGroupCount", how.pointer, asked.groups)
        full = _DEFAULT_MATH if asked.tf32 or asked.dtype == "float64" else _FMA_MATH
        narrow = asked.dtype in ("float16", "bfloat16")
        math = _TENSOR_MATH if narrow else full
        call("cudnnSetConvolutionMathType", how.pointer, math)
        found = self._proposed(owner.handle)
        if narrow:  # the type the algorithm was proposed for
            call("cudnnSetConvolutionMathType", how.pointer, found.math)
        self._algorithm, size = found.algorithm, c_size_t(0)
        call(
            f"cudnnGetConvolution{self._name}WorkspaceSize", owner.handle.pointer,
            *self._described(), self._algorithm, ctypes.byref(size),
        )  # fmt: skip
        self.workspace = int(size.value)
        # Numbers, since they are passed with each call.
        things = (owner.handle, how, *self._parts)
        self._places = [x.pointer.value for x in things]
        self._factors = [x.ctypes.data for x in (self._one, self._zero)]

    def _described(self) -> tuple[c_void_p, ...]:
        """Return the descriptors in the order in which functions take them."""
        one, two, result = (p.pointer for p in self._parts)
        return one, two, self._how.pointer, result

    def _proposed(self, handle: Owned) -> _Proposal:
        """Return the first proposal that gives the same bits each time, in the memory allowed."""
        found, count = (_Proposal * _PROPOSALS)(), c_int(0)
        self._call(
            f"cudnnGetConvolution{self._name}Algorithm_v7", handle.pointer, *self._described(),
            _PROPOSALS, ctypes.byref(count), found,
        )  # fmt: skip
        for one in itertools.islice(found, count.value):
            right = not one.status and one.determinism == _DETERMINISTIC
            if right and one.memory <= TARGET.convolution_workspace:
                return one
        raise Refused(f"cudnnGetConvolution{self._name}Algorithm_v7 found no algorithm", True)

    def __call__(self, addresses: Sequence[int], workspace: int) -> None:
        handle, how, one, two, result = self._places
        first, second, out = addresses
        alpha, beta = self._factors
        self._call(
            self._function, handle, alpha, one, first, two, second, how, self._algorithm, workspace,
            self.workspace, beta, result, out,
        )  # fmt: skip


def _ints(numbers: Sequence[int]) -> Any:
    return (c_int * len(numbers))(*numbers)


def _tensor(call: Functions, element: int, lengths: Sequence[int], last: bool) -> Owned:
    """Describe images; lengths and strides are given channels first, whatever the memory order."""
    order = (0, *range(2, len(lengths)), 1) if last else range(len(lengths))
    apart, distance = [0] * len(lengths), 1
    for axis in reversed(order):
        apart[axis] = distance
        distance *= lengths[axis]
    made = Owned(call, "cudnn{}TensorDescriptor")
    call(
        "cudnnSetTensorNdDescriptor", made.pointer, element, len(lengths), _ints(lengths),
        _ints(apart),
    )  # fmt: skip
    return made


def _filter(call: Functions, element: int, lengths: Sequence[int], last: bool) -> Owned:
    made = Owned(call, "cudnn{}FilterDescriptor")
    layout = _CHANNELS_LAST if last else _CHANNELS_FIRST
    call("cudnnSetFilterNdDescriptor", made.pointer, element, layout, len(lengths), _ints(lengths))
    return made
