"""The public functions with the keywords they take, and their examples with another value for one.

In: the package as it is. Out: `public()`, `examples()`, `given`, which lets every call of a
function have a value for a keyword, wherever the function stands, and `registrations_put_back`,
around whatever runs an example.
"""

import contextlib
import doctest
import importlib
import inspect
import pkgutil
import re
import types
from typing import Any

import gpuarray as ga
from gpuarray import ffi
from gpuarray.export import values
from tests.support.sampled import profiling_ended

#: What users do not import: the floors below the public one.
INTERNAL = {
    *("__main__", "cli", "compat", "compiler", "control", "core", "runtime"),
    *("parallel", "transforms", "primitives", "pytree", "backends", "functions", "api"),
}
#: Packages whose files are chapters of one namespace; these of them are namespaces themselves.
CHAPTERS = ("gpuarray.numpy", "gpuarray.lax", "gpuarray.random", "gpuarray.custom_derivatives")
NAMESPACES = {"gpuarray.numpy.fft", "gpuarray.lax.linalg"}


@contextlib.contextmanager
def registrations_put_back():
    """Forget the names that an example registers classes and functions under: another run does so
    again, and a function whose module's names are gone must not be called.
    """
    tables = values._by_name, values._by_type, ffi._targets
    before = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, entries in zip(tables, before, strict=True):
            table.clear()
            table.update(entries)


def modules():
    yield ga
    for info in pkgutil.walk_packages(ga.__path__, "gpuarray."):
        parts = info.name.split(".")[1:]
        internal = parts[0] in INTERNAL
        chapter = info.name.startswith(tuple(f"{c}." for c in CHAPTERS)) and not info.ispkg
        private = any(part.startswith("_") for part in parts)
        if not (internal or private or chapter and info.name not in NAMESPACES):
            yield importlib.import_module(info.name)


def public():
    """Every public function, with the places where it stands."""
    found = {}
    for module in modules():
        text = inspect.getsource(module)
        for name, value in vars(module).items():
            kind = isinstance(value, types.FunctionType) or hasattr(value, "__wrapped__")
            home = str(getattr(value, "__module__", ""))
            if name.startswith("_") or not kind or not home.startswith("gpuarray"):
                continue
            given = rf"\bas {name}\b|^{name} = "
            # A package has what it imports from its own files; a `main` is a command.
            own = hasattr(module, "__path__") and home.startswith(f"{module.__name__}.")
            if name == "main":
                continue
            if home == module.__name__ or own or re.search(given, text, re.MULTILINE):
                found.setdefault(id(value), (value, []))[1].append((module, name))
    return [both for both in found.values() if not inspect.isclass(both[0])]


def label(places) -> str:
    names = [f"{module.__name__}.{name}".removeprefix("gpuarray.") for module, name in places]
    return min(names, key=lambda name: (name.count("."), len(name)))


def keywords(function) -> list[str]:
    """The parameters of a function that have defaults."""
    return [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.default is not p.empty and not p.name.startswith("_")
    ]


def examples():
    """Functions with keywords: where each stands, its name, its example as code, its keywords."""
    for function, places in public():
        if inspect.signature(function).return_annotation == "NoReturn" or not keywords(function):
            continue
        name = label(places)
        steps = doctest.DocTestParser().get_examples(inspect.getdoc(function) or "")
        code = compile("".join(step.source for step in steps), name, "exec") if steps else None
        yield function, places, name, code, keywords(function)


@contextlib.contextmanager
def given(function, places, keyword: str, value: Any):
    """Let every call of a function, wherever it stands, have a value for a keyword."""
    calls, signature = [], inspect.signature(function)

    def stand_in(*args, **kwargs):
        calls.append(keyword)
        bound = signature.bind(*args, **kwargs)
        bound.arguments[keyword] = value
        return function(*bound.args, **bound.kwargs)

    stand_in.__dict__.update(getattr(function, "__dict__", {}))
    for module, name in places:
        setattr(module, name, stand_in)
    try:
        with registrations_put_back():
            yield calls
    finally:
        for module, name in places:
            setattr(module, name, function)
        profiling_ended()  # an example that failed in its middle ended nothing that it began


def names_in(places) -> dict[str, Any]:
    """What an example can name: all that its function's module has."""
    return {**vars(places[0][0]), "__name__": "example"}
