"""NVIDIA's libraries for which CuPy has no names, called by their C functions.

Floor 4. In: the name of a library. Out: its functions, which raise an error that names them on
failure; `missing()`, the reason why a library is not available.

A library is looked for where CuPy's are: among those that the process has loaded, in the folders of
NVIDIA's wheels, and where the system has its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_log = logging.getLogger("gpuarray")
#: Libraries for which the log has already reported a refused request.
_said: set[str] = set()


class Refused(RuntimeError):
    """A function of a library did not succeed, or the library is not here.

    `expected`: the library has no code for the request, which is not a fault.
    """

    def __init__(self, text: str, expected: bool = False):
        super().__init__(text)
        self.expected = expected

    def again(self) -> Refused:
        """Return an equal error, which was raised nowhere."""
        return Refused(str(self), self.expected)


def names(name: str, version: int) -> list[str]:
    """Return the names of a library's file.

    >>> names("cublasLt", 13)[0] if sys.platform == "linux" else "libcublasLt.so.13"
    'libcublasLt.so.13'
    """
    if sys.platform == "win32":
        return [f"{name}64_{version}.dll"]
    return [f"lib{name}.so.{version}"]


def folders() -> Iterator[Path]:
    """Return the folders of NVIDIA's wheels that hold libraries."""
    found = importlib.util.find_spec("nvidia")
    for place in () if found is None else found.submodule_search_locations or ():
        for inner in ("*/lib", "*/bin", "*/bin/x86_64"):
            yield from sorted(Path(place).glob(inner))


def path(name: str, versions: Sequence[int]) -> Path | None:
    """Return the file of a library among NVIDIA's wheels, without loading it."""
    wanted = [n for v in versions for n in names(name, v)]
    files = (folder / n for folder in folders() for n in wanted)
    return next((f for f in files if f.is_file()), None)


def load(name: str, versions: Sequence[int]) -> Any:
    """Return a library, loaded; raise Refused with the names tried."""
    wanted = [n for v in versions for n in names(name, v)]
    # A library already loaded by the process is the one that other libraries use, too.
    if hasattr(os, "RTLD_NOLOAD"):
        for file in wanted:
            with contextlib.suppress(OSError):
                return ctypes.CDLL(file, os.RTLD_NOLOAD | os.RTLD_LAZY)
    found = path(name, versions)
    tried = []
    for file in [*([] if found is None else [str(found)]), *wanted]:
        try:
            return ctypes.CDLL(file)
        except OSError as error:
            tried.append(str(error))
    raise Refused(f"{name} does not load: {'; '.join(tried)}")


class Functions:
    """The functions of a library, by `prototypes`: the types of each one's arguments.

    `statuses` has the names of the numbers that they return; `expected` are those that mean the
    library has no code for a request.
    """

    def __init__(
        self,
        library: Any,
        prototypes: Mapping[str, Sequence[Any]],
        statuses: Mapping[int, str],
        expected: frozenset[int],
    ):
        self.statuses, self.expected = statuses, expected
        self._functions: dict[str, Callable[..., int]] = {}
        for name, arguments in prototypes.items():
            try:
                function = getattr(library, name)
            except AttributeError as error:
                raise Refused(f"the library has no {name}: {error}") from None
            function.argtypes, function.restype = list(arguments), ctypes.c_int
            self._functions[name] = function

    def __call__(self, name: str, *arguments: Any) -> None:
        status = self._functions[name](*arguments)
        if status:
            said = self.statuses.get(status, "?")
            raise Refused(f"{name} returned {status} ({said})", status in self.expected)

    def attempt(self, name: str, *arguments: Any) -> None:
        """Call a function whose failure does not matter: one that releases something."""
        self._functions[name](*arguments)


class Owned:
    """An object of a library, which is released when it is no longer referenced.

    `kind` is the name of its functions with {} in place of Create, Destroy or SetAttribute.
    """

    def __init__(self, call: Functions, kind: str, *arguments: Any):
        self._call, self._kind, self._process = call, kind, os.getpid()
        self.pointer = ctypes.c_void_p()
        call(kind.format("Create"), ctypes.byref(self.pointer), *arguments)

    def set(self, attribute: int, value: Any) -> None:
        """Set an attribute to one of ctypes' numbers."""
        size = ctypes.sizeof(value)
        name = self._kind.format("SetAttribute")
        self._call(name, self.pointer, attribute, ctypes.byref(value), size)

    def __del__(self):
        # At the end of a process the library may be unloaded already, and another process does not
        # own it.
        if self.pointer and not sys.is_finalizing() and self._process == os.getpid():
            self._call.attempt(self._kind.format("Destroy"), self.pointer)


def kept(libraries: dict[str, Any], name: str, make: Callable[[], Any]) -> Any:
    """Return a library of a GPU, loaded on first use; raise Refused if it is not available.

    That it is not is kept, too.
    """
    found = libraries.get(name)
    if found is None:
        try:
            found = make()
        except Refused as error:
            # The error itself would hold the frames that it came through.
            found = error.again()
        libraries[name] = found
    if isinstance(found, Refused):
        raise found.again()
    return found


def or_instead(
    library: str, call: Callable[..., Any], instead: Callable[[], Callable[..., list]]
) -> Callable[..., Any]:
    """Return a function that calls a library or, once that has refused, a program made then."""
    made: list[Callable[..., list]] = []

    def run(*operands: Any) -> Any:
        if not made:
            try:
                return call(*operands)
            except Refused as error:
                tell(library, error)
                made.append(instead())
        return made[0](*operands)[0]

    return run


def tell(library: str, error: Refused) -> None:
    """Log that a library refused a request, as a warning the first time."""
    quiet = error.expected or library in _said
    if not error.expected:
        _said.add(library)
    _log.log(
        logging.DEBUG if quiet else logging.WARNING,
        "%s is not used (%s): other libraries and kernels compute the same, in more launches.",
        library,
        str(error),
    )
