"""Messages for names that a public module does not have: names of JAX are reported as missing,
names of other libraries come with a replacement, names of another module with their place, and
typos with the nearest name.

Floor 1. In: a module's name. Out: its `__getattr__`, which Python calls only for names that do not
exist, so that existing ones cost nothing. The list of missing names loads with the first such call.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from gpuarray.util import lazy_module

_PACKAGE = __name__.partition(".")[0]
_list: Any = lazy_module("gpuarray.missing")
#: How alike two names have to be, from 0 to 1, for one to be offered for the other.
_ALIKE = 0.75


def explain_names(module: str, parts: tuple[str, ...] = ()) -> Any:
    """The `__getattr__` of a module; `parts` are submodules that load on first use.

    The result is declared as Any, not as a function: type checkers assume that a module with a
    `__getattr__` function has every name.

    >>> load = explain_names("gpuarray.scipy", ("fft",))
    >>> load("fft").__name__
    'gpuarray.scipy.fft'
    """

    def __getattr__(name: str) -> Any:
        # Python sets the module as an attribute once it is imported, so this runs once for each.
        if name in parts:
            return importlib.import_module(f"{module}.{name}")
        raise no_attribute(module, name)

    return __getattr__


def list_names(module: str, parts: tuple[str, ...]) -> Callable[[], list[str]]:
    """The `__dir__` of a module, including submodules that load on first use."""
    return lambda: sorted({*vars(sys.modules[module]), *parts})


def no_attribute(module: str, name: str) -> AttributeError:
    """The error for a name that a module does not have."""
    # `obj` without `name`: with both, Python would append its own suggestion to the message.
    return AttributeError(_message(module, name), obj=sys.modules[module])


# Libraries probe with hasattr, some at each call: looking for near names takes a millisecond.
@functools.lru_cache(1024)
def _message(module: str, name: str) -> str:
    plain = f"module {module!r} has no attribute {name!r}"
    # Probes for dunder and private names are frequent, and no typos.
    if name.startswith("_"):
        return plain
    if reason := _missing(f"{module}.{name}"):
        return f"{plain}: {reason}"
    path = f"{module}.{name}".removeprefix(f"{_PACKAGE}.")
    if instead := _list.REMOVED.get(path):
        return f"{plain}: jax.{path} is deprecated, and gone from JAX 0.10. Use {instead}"
    # JAX does not have the name either: another library's, one of another module, or a typo.
    if other := _list.ELSEWHERE.get(path if "." in path else f".{path}"):
        return f"{plain}: write {other}"
    for there in _list.NAMESPACES:
        space = f"{_PACKAGE}.{there}".rstrip(".")
        found = vars(importlib.import_module(space))
        if name in found and _is_public(name, found[name]):
            return f"{plain} (did you mean '{space}.{name}'?)"
    known = [n for n in dir(sys.modules[module]) if not n.startswith("_")]
    near = difflib.get_close_matches(name, known, 1, _ALIKE)
    return f"{plain} (did you mean {near[0]!r}?)" if near else plain


def _is_public(name: str, value: Any) -> bool:
    # Public modules explain missing names; other modules are only where code is defined.
    inside = isinstance(value, ModuleType) and "__getattr__" not in vars(value)
    return not name.startswith("_") and not inside


def _missing(path: str) -> str | None:
    """Why `gpuarray.a.b` is missing, if `jax.a.b` exists; None if JAX does not have it either."""
    name = path.removeprefix(f"{_PACKAGE}.")
    group = _list.find(name)
    if group is None:
        return None
    return (
        f"jax.{name} is not in gpuarray. It belongs to {group.title}: {group.why}. "
        "docs/differences.md lists what is missing, under 'Names of JAX that are not here'."
    )


class _Finder:
    """Last finder on `sys.meta_path`: explains imports of modules that JAX has and this library
    lacks.

    `from gpuarray import pmap` comes here too, as a last attempt: where `__getattr__` raises,
    Python drops its error and looks for a module of that name.
    """

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: ModuleType | None = None) -> None:
        if fullname.startswith(f"{_PACKAGE}.") and (reason := _missing(fullname)):
            # Without `name=`: Python suppresses an error that names the imported module.
            raise ModuleNotFoundError(f"no module or name {fullname!r}: {reason}")


sys.meta_path.append(_Finder)
