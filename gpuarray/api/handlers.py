"""Handlers of XLA's typed foreign function interface, called with memory of the host.

Floor 6. In: the address of a handler, `XLA_FFI_Error* f(XLA_FFI_CallFrame*)`, the arrays that it
reads and writes, and attributes. Out: nothing, or the error that the handler made. The structures
have the layout of the interface's C header (version 0.3). A handler that needs memory or threads
requests them through a table of functions, which is made here once.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.backends import hostcc
from gpuarray.backends.hostcc import NoCompilerError
from gpuarray.errors import CompileError, JaxRuntimeError

VERSION = (0, 3)

# ---- structures ----

# Each begins with its size and a list of extensions, which is empty for a call.
_HEAD = [("struct_size", c_size_t), ("extension", c_void_p)]


class _Buffer(Structure):
    _fields_ = [
        *_HEAD,
        ("dtype", c_int),
        ("data", c_void_p),
        ("rank", c_int64),
        ("dims", c_void_p),
    ]


class _Span(Structure):
    _fields_ = [("data", c_char_p), ("size", c_size_t)]


class _Scalar(Structure):
    _fields_ = [("dtype", c_int), ("value", c_void_p)]


class _Array(Structure):
    _fields_ = [("dtype", c_int), ("size", c_size_t), ("data", c_void_p)]


class _Buffers(Structure):  # operands, or results
    _fields_ = [*_HEAD, ("size", c_int64), ("types", c_void_p), ("items", c_void_p)]


class _Attributes(Structure):
    _fields_ = [
        *_HEAD,
        ("size", c_int64),
        ("types", c_void_p),
        ("names", c_void_p),
        ("items", c_void_p),
    ]


class _Frame(Structure):
    _fields_ = [
        *_HEAD,
        ("api", c_void_p),
        ("context", c_void_p),
        ("stage", c_int),
        ("operands", _Buffers),
        ("results", _Buffers),
        ("attributes", _Attributes),
        ("future", c_void_p),
    ]


#: The stages of a handler, in the order of their numbers. The first is called once for each place
#: of a program, the others at each call; only the last gets arrays.
STAGES = ("instantiate", "prepare", "initialize", "execute")
_BUFFER = 1
_ARRAY, _DICTIONARY, _SCALAR, _STRING = 1, 2, 3, 4
# fmt: off
_DTYPES = {
    "bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8,
    "uint64": 9, "float16": 10, "float32": 11, "float64": 12, "complex64": 15, "bfloat16": 16,
    "complex128": 18, "float8_e5m2": 19, "float8_e4m3fn": 20, "float8_e4m3b11fnuz": 23,
    "float8_e5m2fnuz": 24, "float8_e4m3fnuz": 25, "float8_e4m3": 28, "float8_e3m4": 29,
    "float8_e8m0fnu": 33,
}
_CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
    "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)
# fmt: on


def _code_of(dtype: np.dtype) -> int:
    try:
        return _DTYPES[dtype.name]
    except KeyError:
        raise TypeError(f"ffi_call takes no arrays of {dtype.name}: convert them first") from None


# ---- attributes ----


def frozen(name: str, value: Any) -> tuple:
    """An attribute as hashable data: (kind, ...). Numbers have the dtypes that JAX gives them."""
    if isinstance(value, Mapping):
        return _DICTIONARY, tuple([(k, frozen(k, v)) for k, v in sorted(value.items())])
    if isinstance(value, (str, bytes)):
        return _STRING, value.encode() if isinstance(value, str) else value
    if isinstance(value, np.ndarray):
        return _ARRAY, _code_of(value.dtype), value.size, value.tobytes()
    for kind, dtype in ((bool, "bool"), (int, "int64"), (float, "float64")):
        if isinstance(value, kind) and not isinstance(value, np.generic):
            value = np.dtype(dtype).type(value)  # OverflowError: no such int64
    if isinstance(value, np.generic) and value.dtype.kind in "biufV":
        return _SCALAR, _code_of(value.dtype), value.tobytes()
    if type(value).__hash__ is None:
        raise TypeError(f"Non-hashable keyword argument to ffi_call {name}: {value}")
    raise util.wrong_type(
        value, f"the attribute {name!r}: a real number, str, bytes, NumPy array or dict"
    )


def _pointers(structs: Sequence[Any], keep: list) -> Any:
    found = (c_void_p * max(1, len(structs)))(*map(ctypes.addressof, structs))
    keep.extend([found, *structs])
    return ctypes.addressof(found)


def _codes(codes: Sequence[int], keep: list) -> Any:
    found = (c_int * max(1, len(codes)))(*codes)
    keep.append(found)
    return ctypes.addressof(found)


def _attributes(pairs: Sequence[tuple[str, tuple]], keep: list) -> _Attributes:
    """Attributes in the order of their names, by which handlers look them up."""
    items: list[Any] = []
    for _, (kind, *rest) in pairs:
        if kind == _DICTIONARY:
            items.append(_attributes(rest[0], keep))
        elif kind == _STRING:
            items.append(_Span(rest[0], len(rest[0])))
        else:
            data = ctypes.create_string_buffer(rest[-1], max(1, len(rest[-1])))
            keep.append(data)
            kinds = _Scalar if kind == _SCALAR else _Array
            items.append(kinds(*rest[:-1], ctypes.addressof(data)))
    texts = [name.encode() for name, _ in pairs]
    names = [_Span(text, len(text)) for text in texts]
    return _Attributes(
        ctypes.sizeof(_Attributes),
        None,
        len(pairs),
        _codes([kind for _, (kind, *_) in pairs], keep),
        _pointers(names, keep),
        _pointers(items, keep),
    )


def _buffers(arrays: Sequence[tuple[np.ndarray, tuple[int, ...]]], keep: list) -> _Buffers:
    made = []
    for memory, shape in arrays:
        dims = (c_int64 * max(1, len(shape)))(*shape)
        keep.extend([memory, dims])
        made.append(
            _Buffer(
                ctypes.sizeof(_Buffer),
                None,
                _code_of(memory.dtype),
                memory.ctypes.data,
                len(shape),
                ctypes.addressof(dims),
            )
        )
    return _Buffers(
        ctypes.sizeof(_Buffers),
        None,
        len(made),
        _codes([_BUFFER] * len(made), keep),
        _pointers(made, keep),
    )


# ---- the table of functions for handlers ----

_numbers = itertools.count(1)
_errors: dict[int, tuple[int, bytes]] = {}
_memory: dict[int, np.ndarray] = {}
_type_ids: dict[bytes, int] = {}
_deleters: dict[int, int] = {}  # by the number of the type


class _TypeInfo(Structure):
    _fields_ = [*_HEAD, ("deleter", c_void_p)]


class Instance:
    """A handler at one place of a program, with the state that its stages share.

    `stages` has the address of a function for each stage that there is.
    """

    def __init__(self, stages: Mapping[str, int]):
        self.stages = stages
        self.number = next(_numbers)
        self.lock = threading.RLock()
        self.begun = False
        #: By stage: the number of the type, and the address.
        self.states: dict[int, tuple[int, int]] = {}
        _instances[self.number] = self
        weakref.finalize(self, _delete, self.states)


_instances: weakref.WeakValueDictionary[int, Instance] = weakref.WeakValueDictionary()


def _delete(states: dict[int, tuple[int, int]], stages: Sequence[int] = range(len(STAGES))) -> None:
    """Delete the stages' states with the deleters of their types."""
    for stage in stages:
        kind, address = states.pop(stage, (0, 0))
        if deleter := _deleters.get(kind):
            ctypes.CFUNCTYPE(None, c_void_p)(deleter)(address)


def register_type(name: bytes, type_id: Any, info: int | None) -> int | None:
    """Assign a number to a state type and write it to `type_id`; return an error or None."""
    known = _type_ids.setdefault(name, type_id[0] or len(_type_ids) + 1)
    if type_id[0] not in (0, known):
        return _error(_CODES.index("INVALID_ARGUMENT"), b"this type has another number already")
    type_id[0] = known
    if info and (deleter := _TypeInfo.from_address(info).deleter):
        _deleters[known] = deleter
    return None


class _Future:
    """The future that a handler returns when it finishes asynchronously."""

    def __init__(self):
        self.done, self.error = threading.Event(), 0


_futures: dict[int, _Future] = {}
_services: list[tuple[Any, Any]] = []


def _service(*fields: tuple[str, Any]) -> Callable:
    """A function of the table: it gets the structure of its arguments, and returns an error."""

    class Arguments(Structure):
        _fields_ = [*_HEAD, *fields]

    def register(fun: Callable) -> Callable:
        kind = ctypes.CFUNCTYPE(c_void_p, POINTER(Arguments))
        _services.append((kind(lambda given: fun(given.contents)), fun))
        return fun

    return register


def _error(code: int, message: bytes) -> int:
    number = next(_numbers)
    _errors[number] = (code, message)
    return number


def _refused(what: str, *fields: tuple[str, Any]) -> None:
    message = f"{what}: not available to handlers that gpuarray calls".encode()
    _service(*fields)(lambda _: _error(_CODES.index("UNIMPLEMENTED"), message))


# In the order of the table.
@_service(("message", c_char_p), ("code", c_int))
def _error_create(given: Any) -> int:
    return _error(given.code, given.message or b"")


@_service(("error", c_void_p), ("message", c_char_p))
def _error_message(given: Any) -> None:
    given.message = _errors[given.error][1]


@_service(("error", c_void_p))
def _error_destroy(given: Any) -> None:
    _errors.pop(given.error, None)


_refused("registering handlers from C")
_refused("streams")


@_service(("name", _Span), ("type_id", POINTER(c_int64)), ("info", c_void_p))
def _type_register(given: Any) -> int | None:
    name = ctypes.string_at(given.name.data, given.name.size)
    return register_type(name, given.type_id, given.info)


_refused("data of the execution context")
_STATE = [("context", c_void_p), ("stage", c_int), ("type_id", POINTER(c_int64))]


@_service(*_STATE, ("state", c_void_p))
def _state_set(given: Any) -> int | None:
    states = _instances[given.context].states
    if given.stage in states:
        return _error(_CODES.index("FAILED_PRECONDITION"), b"this stage has a state already")
    states[given.stage] = (given.type_id[0], given.state)
    return None


@_service(*_STATE, ("state", c_void_p))
def _state_get(given: Any) -> int | None:
    kind, address = _instances[given.context].states.get(given.stage, (0, 0))
    if kind != given.type_id[0] or not kind:
        stage = STAGES[given.stage]
        why = f"the stage {stage} has no state of this type: {stage!r} must set it, and be given "
        why += "to register_ffi_target"
        return _error(_CODES.index("NOT_FOUND"), why.encode())
    given.state = address
    return None


@_service(("context", c_void_p), ("size", c_size_t), ("alignment", c_size_t), ("data", c_void_p))
def _allocate(given: Any) -> None:
    align = max(1, given.alignment)
    block = np.empty(given.size + align, np.uint8)
    given.data = -(-block.ctypes.data // align) * align
    _memory[given.data] = block


@_service(("context", c_void_p), ("size", c_size_t), ("data", c_void_p))
def _free(given: Any) -> None:
    _memory.pop(given.data, None)


@_service(("context", c_void_p), ("task", ctypes.CFUNCTYPE(None, c_void_p)), ("data", c_void_p))
def _schedule(given: Any) -> None:
    # Tasks may run in the thread of the caller: the interface promises no others.
    given.task(given.data)


@_service(("context", c_void_p), ("count", POINTER(c_int64)))
def _threads(given: Any) -> None:
    given.count[0] = 1


@_service(("future", c_void_p))
def _future_create(given: Any) -> None:
    given.future = next(_numbers)
    _futures[given.future] = _Future()


@_service(("future", c_void_p))
def _future_available(given: Any) -> None:
    _futures[given.future].done.set()


@_service(("future", c_void_p), ("error", c_void_p))
def _future_error(given: Any) -> None:
    future = _futures[given.future]
    future.error = given.error
    future.done.set()


@_service(("context", c_void_p), ("run_id", c_int64))
def _run_id(given: Any) -> None:
    given.run_id = next(_numbers)


@_service(("context", c_void_p), ("ordinal", c_int32))
def _ordinal(given: Any) -> None:
    given.ordinal = 0


class _Version(Structure):
    _fields_ = [*_HEAD, ("major", c_int), ("minor", c_int)]


class _Table(Structure):
    _fields_ = [
        *_HEAD,
        ("version", _Version),
        ("internal", c_void_p),
        ("functions", c_void_p * len(_services)),
    ]


_TABLE = _Table(
    ctypes.sizeof(_Table),
    None,
    _Version(ctypes.sizeof(_Version), None, *VERSION),
    None,
    (c_void_p * len(_services))(*[ctypes.cast(f, c_void_p).value for f, _ in _services]),
)
_HANDLER = ctypes.CFUNCTYPE(c_void_p, c_void_p)
_ROOM = 1 << 12  # of the message of an exception

# ---- calls ----


def raise_if(number: int | None) -> None:
    """Raise the error of this number, if there is one."""
    if number:
        _raise(number)


def _raise(number: int) -> None:
    code, message = _errors.pop(number)
    name = _CODES[code] if 0 <= code < len(_CODES) else "UNKNOWN"
    raise JaxRuntimeError(f"{name}: {message.decode(errors='replace')}")


@functools.cache
def _catching() -> Any:
    """Return the function that calls a handler and catches exceptions; None without a compiler."""
    try:
        library = hostcc.load_host("handler.cpp", "-fexceptions")
    except (NoCompilerError, CompileError):
        return None
    library.ga_call_handler.restype = c_void_p
    library.ga_call_handler.argtypes = (c_void_p, c_void_p, c_char_p, c_size_t)
    return library.ga_call_handler


def _run(address: int, frame: _Frame) -> None:
    """Call a handler's function; raise its error, or the exception it threw."""
    catching = _catching()
    if catching is None:
        error = _HANDLER(address)(ctypes.addressof(frame))
    else:
        text = ctypes.create_string_buffer(_ROOM)
        error = catching(address, ctypes.addressof(frame), text, _ROOM)
        if text.value:
            message = text.value.decode(errors="replace")
            raise JaxRuntimeError(f"INTERNAL: a C++ exception left the handler: {message}")
    if error:
        _raise(error)


_Arrays = Sequence[tuple[np.ndarray, tuple[int, ...]]]


def _frame(instance: Instance, stage: int, arrays: Sequence[_Arrays], given: Any, keep: list):
    return _Frame(
        _Frame.future.offset,
        None,
        ctypes.addressof(_TABLE),
        instance.number,
        stage,
        *(_buffers(each, keep) for each in arrays),
        _attributes(given, keep),
        None,
    )


def call(
    instance: Instance,
    operands: _Arrays,
    results: _Arrays,
    attributes: Sequence[tuple[str, tuple]],
) -> None:
    """Run a handler. Operands and results are pairs of memory and a shape."""
    keep: list[Any] = []  # the objects that the frame points to
    stages = instance.stages
    # Stages share state in the instance, so calls are serialised.
    with instance.lock if len(stages) > 1 else contextlib.nullcontext():
        for number, stage in enumerate(STAGES[:-1]):
            if stage in stages and not (number == 0 and instance.begun):
                _run(stages[stage], _frame(instance, number, ((), ()), attributes, keep))
        instance.begun = True
        frame = _frame(instance, STAGES.index("execute"), (operands, results), attributes, keep)
        try:
            _run(stages["execute"], frame)
            if frame.future:
                # The memory has to live until the promise is kept.
                future = _futures[frame.future]
                future.done.wait()
                del _futures[frame.future]
                if future.error:
                    _raise(future.error)
        finally:
            _delete(instance.states, range(1, len(STAGES)))
