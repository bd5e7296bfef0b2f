"""Functions in C, called from programs on the host.

Floor 6. In: the address of a C function, from ctypes or in a capsule. Out: a function of arrays.
There are two kinds. A handler of XLA's typed interface, `XLA_FFI_Error* f(XLA_FFI_CallFrame*)`,
which XLA's header `xla/ffi/api/ffi.h` builds from a C++ function, gets arrays with shapes and
dtypes, and attributes (`api/handlers.py`). A function of version 0, `void f(void* out, const void**
in)`, gets only pointers: `out` points to the one result, or to a list of pointers if there are
several; `in` lists the operands' pointers.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import util
from gpuarray.api import handlers
from gpuarray.api.callbacks import FlatCallback, promised_avals
from gpuarray.control.callbacks import METHODS, io_callback_p, pure_callback_p
from gpuarray.core import dtypes
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.formats import Layout
from gpuarray.core.value import Array
from gpuarray.names import explain_names as _explain_names
from gpuarray.primitives.random.ops import random_unwrap_p
from gpuarray.pytree import tree

__all__ = [
    "ffi_call",
    "include_dir",
    "pycapsule",
    "register_ffi_target",
    "register_ffi_type",
    "register_ffi_type_id",
]

_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_NAME = b"xla._CUSTOM_CALL_TARGET"


class _Target(NamedTuple):
    stages: tuple[tuple[str, int], ...]  # names of stages, and the addresses of their functions
    typed: bool

    @property
    def address(self) -> int:
        """The function that executes."""
        return dict(self.stages)["execute"]


#: Functions by name and platform.
_targets: dict[tuple[str, str], _Target] = {}
#: Keeps registered objects alive: programs may still call a function after another one took its
#: name.
_alive: dict[int, Any] = {}
_kept_types: list[Any] = []


def pycapsule(funcptr: Any) -> Any:
    """A C function of ctypes as a capsule, which `register_ffi_target` takes.

    >>> import ctypes, gpuarray as ga
    >>> type(ga.ffi.pycapsule(ctypes.CDLL(None).abs)).__name__
    'PyCapsule'
    """
    # The name that JAX's own registration looks for, so that its capsules and ours are alike.
    address = ctypes.c_void_p
    new = util.c_function("PyCapsule_New", ctypes.py_object, address, ctypes.c_char_p, address)
    return new(ctypes.cast(funcptr, ctypes.c_void_p), _NAME, None)


def _address(fn: Any) -> int:
    if type(fn).__name__ == "PyCapsule":
        return util.address_in(fn)
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
    fn :
        A capsule or a function of ctypes. For a handler also a dict of them by stage: "execute",
        and before it "instantiate", once for each place of a program, "prepare" and "initialize",
        at each call. Later stages find what earlier ones stored (`State` in C++).
    platform :
        "cpu". Functions for other platforms are noted, and refused when they are called.
    api_version :
        1 for handlers of XLA's typed interface, 0 for functions that get memory alone.
    kwargs :
        `traits=`, a handler's description of itself for XLA, is accepted.

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
    if api_version not in (0, 1):
        raise NotImplementedError(
            f"register_ffi_target with api_version={api_version}: there are 1, handlers of XLA's "
            "typed interface, and 0, `void f(void* out, const void** in)`"
        )
    if not isinstance(platform, str):
        raise util.wrong_type(platform, 'the name of a platform, "cpu"')
    if kwargs.keys() - {"traits"} or (kwargs and api_version == 0):
        raise TypeError(
            f"register_ffi_target takes no {', '.join(kwargs)} with api_version={api_version}"
        )
    if not isinstance(name, str):
        raise util.wrong_type(name, "the name of a target, a str")
    stages = fn if isinstance(fn, Mapping) else {"execute": fn}
    wrong = set(stages) - set(handlers.STAGES) or (api_version == 0 and len(stages) > 1)
    if wrong or "execute" not in stages:
        raise ValueError(
            f"register_ffi_target of functions for {sorted(stages)}: the stages of a handler are "
            f"{', '.join(handlers.STAGES)}; it has the last at least, and of version 0 only that"
        )
    found = tuple([(s, _address(stages[s])) for s in handlers.STAGES if s in stages])
    _targets[name, platform.lower()] = _Target(found, api_version == 1)
    _alive.update({address: stages[stage] for stage, address in found})


def include_dir() -> str:
    """The folder with XLA's headers for handlers, of jaxlib if that is installed.

    >>> import gpuarray as ga
    >>> ga.ffi.include_dir()  # doctest: +SKIP
    '/usr/lib/python3/site-packages/jaxlib/include'
    """
    # On the path: `import jaxlib` may mean this library (`install_as_jax`).
    found = importlib.machinery.PathFinder.find_spec("jaxlib")
    for folder in (found and found.submodule_search_locations) or ():
        path = os.path.join(folder, "include")
        if os.path.isdir(path):
            return path
    raise FileNotFoundError(
        "XLA's headers, xla/ffi/api/ffi.h, are not part of gpuarray: install jaxlib, which has "
        "them (pip install jaxlib), or compile with a copy of your own"
    )


def register_ffi_type(
    name: str, type_registration: Mapping[str, Any], platform: str = "cpu"
) -> None:
    """Register a type of the state that handlers keep between their stages.

    Parameters
    ----------
    type_registration :
        A dict of capsules or addresses: "type_id", that of the type's `TypeId`, which receives its
        number, and "type_info", that of its `TypeInfo`, which has the deleter of a state.

    Examples
    --------

    >>> import ctypes, gpuarray as ga
    >>> number = ctypes.c_int64(0)
    >>> ga.ffi.register_ffi_type("my_state", {"type_id": ctypes.pointer(number)})
    >>> number.value > 0
    True
    """
    if not isinstance(platform, str):
        raise util.wrong_type(platform, 'the name of a platform, "cpu"')
    if not isinstance(type_registration, Mapping) or "type_id" not in type_registration:
        raise util.wrong_type(type_registration, 'a dict with "type_id", and "type_info"')
    kind = ctypes.cast(_address(type_registration["type_id"]), ctypes.POINTER(ctypes.c_int64))
    info = type_registration.get("type_info")
    address = None if info is None else _address(info)
    handlers.raise_if(handlers.register_type(name.encode(), kind, address))
    _kept_types.append(type_registration)


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """Refused, as in JAX 0.10, in which `register_ffi_type` has taken its place.

    >>> from gpuarray import ffi
    >>> ffi.register_ffi_type_id("state", None)
    Traceback (most recent call last):
        ...
    ValueError: register_ffi_type_id is not supported after jaxlib version 381.
    """
    raise ValueError("register_ffi_type_id is not supported after jaxlib version 381.")


class _Call(NamedTuple):
    """A call of a C function on arrays of the host: equal for equal functions."""

    target: _Target
    instance: handlers.Instance | None  # of a handler
    single: bool
    orders: tuple[tuple[int, ...], ...]  # memory order of the axes of operands and results
    aliases: tuple[tuple[int, int], ...]  # operands that share memory with a result
    attributes: tuple[tuple[str, tuple], ...]

    def __call__(self, avals: Sequence, buffers: Sequence, result_avals: Sequence) -> list:
        every, count = (*avals, *result_avals), len(avals)
        # Axes that vmap added are in front.
        orders = [_behind(o, len(a.shape)) for o, a in zip(self.orders, every, strict=True)]
        # C functions write to new memory: arrays do not change.
        given = [
            np.ascontiguousarray(np.asarray(x).transpose(order))
            for x, order in zip(buffers, orders[:count], strict=True)
        ]
        made = [
            np.empty([a.shape[i] for i in order], a.dtype)
            for a, order in zip(result_avals, orders[count:], strict=True)
        ]
        for i, k in self.aliases:
            made[k][...] = given[i]
            given[i] = made[k]
        if self.instance is not None:
            shapes = [a.shape for a in every]
            handlers.call(
                self.instance,
                list(zip(given, shapes[:count], strict=True)),
                list(zip(made, shapes[count:], strict=True)),
                self.attributes,
            )
        else:
            addresses = lambda xs: (ctypes.c_void_p * max(1, len(xs)))(*(x.ctypes.data for x in xs))
            ins, outs = addresses(given), addresses(made)
            out = made[0].ctypes.data if self.single else ctypes.addressof(outs)
            _SIGNATURE(self.target.address)(out, ctypes.addressof(ins))
        return [x.transpose(np.argsort(o)) for x, o in zip(made, orders[count:], strict=True)]


class _Later(NamedTuple):
    """A call of a C function that is looked up when the call is made."""

    name: str
    single: bool
    orders: tuple[tuple[int, ...], ...]
    aliases: tuple[tuple[int, int], ...]
    attributes: tuple[tuple[str, tuple], ...]

    def found(self, traced: bool) -> _Call:
        """The call of the function that has the name now."""
        target = _target_of(self.name)
        if self.attributes and not target.typed:
            raise NotImplementedError(
                f"ffi_call with attributes ({', '.join(k for k, _ in self.attributes)}): a "
                "function of version 0 has none; give them as operands"
            )
        instance = _instance(target, self.attributes, traced) if target.typed else None
        return _Call(target, instance, *self[1:])

    def __call__(self, avals: Sequence, buffers: Sequence, result_avals: Sequence) -> list:
        return self.found(False)(avals, buffers, result_avals)


class _Foreign(FlatCallback):
    """A call in programs: an error is the function's own, and not one of a callback."""

    def __init__(self, name: str, call: _Call | _Later):
        super().__init__(call, None, "ffi_call")
        self.name = name

    def __repr__(self) -> str:
        return f"<C function {self.name!r}>"

    @property
    def no_derivative(self) -> str:
        return (
            f"The FFI call to `{self.name}` cannot be differentiated. You can use "
            "`gpuarray.custom_jvp` or `gpuarray.custom_vjp` to add support."
        )

    def __call__(self, avals: Sequence, buffers: Sequence, result_avals: Sequence) -> list:
        return self.callback_func(avals, buffers, result_avals)


@functools.lru_cache(1 << 10)
def _shared(key: tuple[_Target, Any]) -> handlers.Instance:
    return handlers.Instance(dict(key[0].stages))


def _instance(target: _Target, attributes: Any, traced: bool) -> handlers.Instance:
    """A handler at one place of a program, with its own state if it has any.

    Equal calls outside of programs share theirs.
    """
    if len(target.stages) == 1:
        return _shared((target, ()))
    if traced:
        return handlers.Instance(dict(target.stages))
    return _shared((target, attributes))


def _behind(order: Sequence[int], rank: int) -> tuple[int, ...]:
    """The order of all axes, given that of the last ones."""
    extra = rank - len(order)
    return (*range(extra), *(extra + i for i in order))


def _orders(what: str, layouts: Any, ranks: Sequence[int]) -> list[tuple[int, ...]]:
    """The axes of arrays, slowest first, as layouts say: row by row without any."""
    wanted = "a layout, an order of axes or None for each array"
    layouts = [None] * len(ranks) if layouts is None else list(util.elements(layouts, wanted))
    if len(layouts) != len(ranks):
        raise ValueError(
            f"The number of {what}s ({len(ranks)}) must equal the number of their layouts "
            f"({len(layouts)})."
        )
    found = []
    for layout, rank in zip(layouts, ranks, strict=True):
        order = layout.major_to_minor if isinstance(layout, Layout) else layout
        order = tuple(range(rank)) if order is None else util.indices(order)
        if sorted(order) != list(range(rank)):
            raise ValueError(
                f"{what} layouts: {layout} is no order of the {rank} axes of an array, the slowest "
                "first"
            )
        found.append(order)
    return found


def _target_of(name: str) -> _Target:
    if target := _targets.get((name, "cpu")):
        return target
    elsewhere = [platform for known, platform in _targets if known == name]
    if elsewhere:
        raise NotImplementedError(
            f"the function {name!r} is registered for {', '.join(elsewhere)} only: C functions run "
            "on the host. Register one for platform='cpu'; for a kernel on the GPU there is "
            "gpuarray.cuda_op"
        )
    raise ValueError(
        f"no function {name!r} is registered: gpuarray.ffi.register_ffi_target does it"
    )


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

    Keyword arguments of the result are attributes of a handler: numbers (of Python, as int64 and
    float64), strings, NumPy arrays, and dicts of them.

    Parameters
    ----------
    result_shape_dtypes :
        Shape and dtype of the result, or a list of them.
    vmap_method :
        How it is mapped, as in `pure_callback`: "sequential", or with axes in front of operands and
        results.
    input_layouts, output_layouts :
        For each operand, and result, None or the memory order of its axes, slowest first; without
        layouts, row-major.
    input_output_aliases :
        Operands, by number, whose memory is that of a result: the function finds the operand there.

    Examples
    --------

    >>> import gpuarray as ga
    >>> ga.ffi.ffi_call("nobody", ga.ShapeDtypeStruct((), "float32"))()
    Traceback (most recent call last):
    ...
    ValueError: no function 'nobody' is registered: gpuarray.ffi.register_ffi_target does it
    """
    if legacy_backend_config is not None:
        if custom_call_api_version >= 4:
            raise ValueError(
                "The use of the legacy_backend_config parameter requires custom_call_api_version < "
                f"4; got {custom_call_api_version}."
            )
        raise NotImplementedError(
            "ffi_call with legacy_backend_config: a function of version 0 has no attributes; give "
            "them as operands"
        )
    if vmap_method not in (None, *METHODS):
        raise ValueError(
            f"vmap_method must be on of the allowed methods {[*METHODS, None]}, but got: "
            f"{vmap_method}"
        )
    structs, spec = tree.tree_flatten(result_shape_dtypes, is_leaf=lambda x: x is None)
    for i, s in enumerate(structs):
        if not (hasattr(s, "shape") and hasattr(s, "dtype")):
            raise ValueError(
                "All elements of result_shape_dtypes must have 'shape' and 'dtype' attributes. Got "
                f"{s} at position {i}."
            )
    single = len(structs) == 1 and tree.treedef_is_leaf(spec)
    _, out_avals = promised_avals(structs)
    results = tuple([(a.shape, a.dtype) for a in out_avals])
    out_layouts = [output_layouts] if single else output_layouts
    out_orders = _orders("output", out_layouts, [len(shape) for shape, _ in results])

    def wrapped(*args: Any, **attributes: Any) -> Array | Sequence[Array]:
        # C functions get the words of random keys.
        keys = [isinstance(getattr(x, "dtype", None), dtypes.KeyDtype) for x in args]
        args = tuple([random_unwrap_p.bind(x) if k else x for x, k in zip(args, keys, strict=True)])
        avals = [aval_of(x) for x in args]
        orders = (*_orders("input", input_layouts, [len(a.shape) for a in avals]), *out_orders)
        aliases = _aliases(input_output_aliases, avals, results, orders)
        frozen = tuple([(k, handlers.frozen(k, v)) for k, v in sorted(attributes.items())])
        # Looked up now: a target that is registered again later does not change this program. A
        # target that is not registered yet is looked up when the program runs, since tracing does
        # not need it.
        call: _Call | _Later = _Later(target_name, single, orders, aliases, frozen)
        if (target_name, "cpu") in _targets:
            call = call.found(any(isinstance(x, traces.Tracer) for x in args))
        params: dict[str, Any] = {
            "callback": _Foreign(target_name, call),
            "result_avals": out_avals,
            "sharding": None,
        }
        if has_side_effect:
            found = io_callback_p.bind(*args, ordered=False, **params)
        else:
            found = pure_callback_p.bind(*args, vmap_method=vmap_method, **params)
        return tree.unflatten(spec, found)

    return wrapped


def _aliases(
    given: Mapping[int, int] | None, avals: Sequence[Any], results: Sequence, orders: Sequence
) -> tuple[tuple[int, int], ...]:
    """Pairs of an operand and the result that has its memory."""
    if given is None:
        return ()
    wanted = "a dict from numbers of operands to numbers of results"
    if not isinstance(given, Mapping):
        raise util.wrong_type(given, wanted)
    pairs = sorted((util.index(i, wanted), util.index(k, wanted)) for i, k in given.items())
    found = []
    for i, k in pairs:
        pair = f"input_output_aliases contains the mapping '{i}:{k}'"
        for what, number, count in (("input", i, len(avals)), ("output", k, len(results))):
            if not 0 <= number < count:
                raise ValueError(
                    f"{pair} with {what} index {number} outside the range [0, {count})."
                )
        if (avals[i].shape, avals[i].dtype) != results[k]:
            shape, dtype = results[k]
            raise ValueError(
                f"{pair} referring to an input with abstract value {avals[i].str_short()} and an "
                f"output with a different abstract value {dtype.name}{list(shape)}."
            )
        if orders[i] != orders[len(avals) + k]:
            raise ValueError(
                f"{pair} referring to an input with layout {orders[i]} and an output with a "
                f"different layout {orders[len(avals) + k]}."
            )
        found.append((i, k))
    return tuple(found)


__getattr__ = _explain_names(__name__)
