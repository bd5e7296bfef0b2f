"""Cache of machine code for GPUs: the same text for the same GPU is compiled once.

Floor 4. In: CUDA C++ text, an architecture, the compiler's options and version, and the function
that compiles. Out: a `Cubin`, from memory, from the user's private folder (backends/store.py), or
from the compiler, which runs once even if several threads need it.
"""

from __future__ import annotations

import json
import pathlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpuarray import util
from gpuarray.backends.cuda import nvrtc
from gpuarray.backends.cuda.nvrtc import CompileResult, Resources
from gpuarray.backends.store import Store, StoredCode
from gpuarray.compiler.text.plain import without_comments

#: Bytes of machine code that are kept in memory.
IN_MEMORY = 1 << 26

_store = Store("cubins", ".cubin")


class Cubin(NamedTuple):
    """Machine code of one source.

    Attributes
    ----------
    path :
        A file that begins with the code.
    data :
        The same bytes, checked: for loaders that take bytes.
    resources :
        Each kernel's use of a multiprocessor's resources.
    """

    path: pathlib.Path
    data: bytes
    resources: dict[str, Resources]


_lock = util.lock()
_known: OrderedDict[bytes, Cubin] = OrderedDict()  # most recently used last
_held = 0  # bytes of them
_turns: dict[bytes, threading.RLock] = {}  # held by the thread that compiles a source


def load(
    source: str,
    arch: str,
    options: Sequence[str],
    compiler_version: Sequence[int],
    compile: Callable[[str, str, Sequence[str]], CompileResult],
) -> Cubin:
    """Return the cubin of a source.

    Comments are removed before compiling: a change in them is no reason to compile again.

    Parameters
    ----------
    arch :
        Such as "sm_90".
    options :
        Options that `compile` passes on beyond `nvrtc.OPTIONS`.
    compiler_version :
        Such as (13, 0).
    compile :
        `nvrtc.compile`, or a function like it.
    """
    source = without_comments(source)
    key = _key(source, arch, options, compiler_version)
    found = _in_memory(key)
    if found is not None:
        return found
    with _lock:
        # One lock for each key: different sources are compiled in parallel.
        turn = _turns.setdefault(key, util.lock())
    try:
        # One thread compiles, others wait for their turn and then find the result.
        with turn:
            return _find(key, source, arch, options, compile)
    finally:
        with _lock:
            _turns.pop(key, None)


def find(
    source: str, arch: str, options: Sequence[str], compiler_version: Sequence[int]
) -> Cubin | None:
    """Return the cubin of a source if it is kept, in memory or in the folder."""
    key = _key(without_comments(source), arch, options, compiler_version)
    found = _in_memory(key)
    if found is None and (entry := _store.find(key)) is not None:
        found = _keep(key, entry)
    return found


def _key(source: str, arch: str, options: Sequence[str], version: Sequence[int]) -> bytes:
    # JSON delimits the parts, so two different requests never have the same key.
    return json.dumps([arch, list(version), [*nvrtc.OPTIONS], [*options], source]).encode()


def _in_memory(key: bytes) -> Cubin | None:
    # Cached code is valid only while its file exists: some loaders take a path.
    with _lock:
        found = _known.get(key)
        if found is None or not found.path.exists():  # the folder may have been emptied
            return None
        _known.move_to_end(key)
        return found


def _find(key: bytes, source: str, arch: str, options: Sequence[str], compile) -> Cubin:
    """Return a cubin that was not in memory a moment ago."""
    found = _in_memory(key)
    if found is not None:  # made by the thread before this one
        return found

    def make() -> tuple[bytes, bytes]:
        made = compile(source, arch, options)
        # The compiler's report is stored with the code.
        return made.binary, json.dumps(made.kernels).encode()

    return _keep(key, _store.load(key, make))


def _keep(key: bytes, entry: StoredCode) -> Cubin:
    resources = {name: Resources(*numbers) for name, numbers in json.loads(entry.note).items()}
    cubin = Cubin(entry.path, entry.code, resources)
    global _held
    with _lock:
        before = _known.pop(key, None)
        _held += len(cubin.data) - (len(before.data) if before else 0)
        _known[key] = cubin
        # Drop the least recently used.
        while len(_known) > 1 and _held > IN_MEMORY:
            _held -= len(_known.popitem(last=False)[1].data)
    return cubin


def folder() -> pathlib.Path:
    """Return the folder in which cubins are kept."""
    return _store.path()


def forget() -> None:
    """Empty the cache in memory; files stay."""
    global _held
    with _lock:
        _known.clear()
        _held = 0
