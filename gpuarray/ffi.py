"""Functions in C, called from programs on the host.

Floor 6. In: the address of a C function `void f(void* out, const void** in)`, as ctypes has it or
in a capsule. Out: a function of arrays. `out` is the memory of the one result, or for several a
list of theirs, `in` the list of the operands' memory; that is what XLA's custom calls of version 0
get. Handlers of later versions take structures of XLA's C API, which is not here: they are
refused.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import util
from gpuarray.api.callbacks import io_callback, pure_callback
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.names import explain_names as _explain_names
from gpuarray.pytree import tree

__all__ = ["ffi_call", "pycapsule", "register_ffi_target", "register_ffi_type_id"]

_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_NAME = b"xla._CUSTOM_CALL_TARGET"
#: The address of each function, and what keeps it alive.
_targets: dict[str, tuple[int, Any]] = {}


def pycapsule(funcptr: Any) -> Any:
    """A C function of ctypes as a capsule, which `register_ffi_target` takes.

    >>> import ctypes, gpuarray as ga
    >>> type(ga.ffi.pycapsule(ctypes.CDLL(None).abs)).__name__
    'PyCapsule'
    """
    # The name that JAX's own registration looks for, so that its capsules and ours are alike.
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.cast(funcptr, ctypes.c_void_p), _NAME, None)


def _address(fn: Any) -> int:
    if type(fn).__name__ == "PyCapsule":
        # A capsule is opened by the name that it was made with, whatever that is.
        name = ctypes.pythonapi.PyCapsule_GetName
        name.restype, name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        return pointer(fn, name(fn))
    try:
        found = ctypes.cast(fn, ctypes.c_void_p).value
    except (ctypes.ArgumentError, TypeError):
        found = None
    if not found:
        raise util.wrong_type(fn, "a C function: a capsule, or a function of ctypes")
    return found


def register_ffi_target(
    name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any
) -> None:
    """Give a C function a name for `ffi_call`.

    Parameters
    ----------
    api_version :
        0, the functions that are described above.
    platform :
        "cpu".

    Examples
    --------

    >>> import ctypes, gpuarray as ga, gpuarray.numpy as gnp, numpy as np
    >>> @ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_void_p))
    ... def double(out, operands):
    ...     x = ctypes.cast(operands[0], ctypes.POINTER(ctypes.c_float))
    ...     out[0] = 2 * x[0]
    >>> ga.ffi.register_ffi_target("double", double, api_version=0)
    >>> ga.ffi.ffi_call("double", ga.ShapeDtypeStruct((), np.float32))(gnp.float32(21))
    Array(42., dtype=float32)
    """
    if api_version != 0:
        raise NotImplementedError(
            f"register_ffi_target with api_version={api_version}: such handlers take structures of "
            "XLA's C API, which is not here. Register `void f(void* out, const void** in)` with "
            "api_version=0; for a kernel on the GPU there is gpuarray.cuda_op"
        )
    if not isinstance(platform, str):
        raise util.wrong_type(platform, 'the name of a platform, "cpu"')
    if platform.lower() != "cpu":
        raise NotImplementedError(
            f"register_ffi_target for platform {platform!r}: C functions run on the host; for a "
            "kernel on the GPU there is gpuarray.cuda_op"
        )
    if kwargs:
        raise TypeError(f"register_ffi_target takes no {', '.join(kwargs)} with api_version=0")
    if not isinstance(name, str):
        raise util.wrong_type(name, "the name of a target, a str")
    _targets[name] = (_address(fn), fn)


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """Refused, as in JAX 0.10: C functions are called with memory, and keep no state here.

    >>> from gpuarray import ffi
    >>> ffi.register_ffi_type_id("state", None)
    Traceback (most recent call last):
        ...
    ValueError: register_ffi_type_id is not supported after jaxlib version 381.
    """
    raise ValueError("register_ffi_type_id is not supported after jaxlib version 381.")


class _Call(NamedTuple):
    """A call of a C function on arrays of the host: equal for equal functions."""

    address: int
    results: tuple[tuple[tuple[int, ...], Any], ...]
    single: bool

    def __call__(self, *operands: Any) -> Any:
        # C functions are given memory row by row, and write to new memory: arrays do not change.
        given = [np.ascontiguousarray(x) for x in operands]
        made = [np.empty(shape, dtype) for shape, dtype in self.results]
        addresses = lambda xs: (ctypes.c_void_p * max(1, len(xs)))(*(x.ctypes.data for x in xs))
        ins, outs = addresses(given), addresses(made)
        out = made[0].ctypes.data if self.single else ctypes.addressof(outs)
        _SIGNATURE(self.address)(out, ctypes.addressof(ins))
        return made[0] if self.single else made


def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence | None = None,
    output_layouts: Any = None,
    input_output_aliases: Any = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: Any = None,
) -> Callable[..., Any]:
    """A function that calls a registered C function.

    Parameters
    ----------
    result_shape_dtypes :
        Shape and dtype of the result, or a list of them.
    vmap_method :
        How it is mapped, as in `pure_callback`. Operands and results lie row by row.

    Examples
    --------

    >>> import gpuarray as ga
    >>> ga.ffi.ffi_call("nobody", ga.ShapeDtypeStruct((), "float32"))
    Traceback (most recent call last):
    ...
    ValueError: no function 'nobody' is registered: gpuarray.ffi.register_ffi_target does it
    """
    refused = {
        "input_layouts": input_layouts,
        "output_layouts": output_layouts,
        "input_output_aliases": input_output_aliases,
        "legacy_backend_config": legacy_backend_config,
    }
    for option, given in refused.items():
        if given is not None:
            raise NotImplementedError(
                f"ffi_call with {option}: operands and results are arrays of their own, row by row"
            )
    del custom_call_api_version  # of XLA's call; the function's own is known
    if target_name not in _targets:
        raise ValueError(
            f"no function {target_name!r} is registered: gpuarray.ffi.register_ffi_target does it"
        )
    structs, spec = tree.tree_flatten(result_shape_dtypes)
    single = tree.treedef_is_leaf(spec)
    results = tuple((tuple(s.shape), dtypes.canonicalize_dtype(s.dtype)) for s in structs)
    # Looked up now: a target that is registered again later does not change this function.
    call = _Call(_targets[target_name][0], results, single)

    def wrapped(*args: Any, **attributes: Any) -> Array | Sequence[Array]:
        if attributes:
            raise NotImplementedError(
                f"ffi_call with attributes ({', '.join(attributes)}): a function of version 0 has "
                "none; give them as operands"
            )
        wanted = result_shape_dtypes if single else list(structs)
        if has_side_effect:
            found = io_callback(call, wanted, *args)
        else:
            found = pure_callback(call, wanted, *args, vmap_method=vmap_method)
        return found if single else tree.unflatten(spec, found)

    return wrapped


__getattr__ = _explain_names(__name__)
