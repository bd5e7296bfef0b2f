"""Machine code for GPUs, kept: the same text for the same GPU is compiled once.

Floor 4. In: CUDA C++ text, an architecture, the compiler's options and version, and the function
that compiles. Out: a `Cubin`, from memory, from the user's private folder (backends/store.py), or
from the compiler, which then is asked once however many threads want it.
"""

from __future__ import annotations

import json
import pathlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import NamedTuple

from gpuarray import util
from gpuarray.backends.cuda import nvrtc
from gpuarray.backends.cuda.nvrtc import Compiled, Resources
from gpuarray.backends.store import Store

#: Bytes of machine code that stay in memory.
IN_MEMORY = 1 << 26

_store = Store("cubins", ".cubin")


class Cubin(NamedTuple):
    """Machine code of one source.

    path: a file that begins with it; data: the same bytes, checked, which is what to load where
    the loader takes bytes
    resources: what each kernel takes of a multiprocessor
    """

    path: pathlib.Path
    data: bytes
    resources: dict[str, Resources]


_lock = util.lock()
_known: OrderedDict[bytes, Cubin] = OrderedDict()  # the last used comes last
_turns: dict[bytes, threading.RLock] = {}  # who compiles a source holds its lock


def load(
    source: str,
    arch: str,
    options: Sequence[str],
    compiler_version: Sequence[int],
    compile: Callable[[str, str, Sequence[str]], Compiled],
) -> Cubin:
    """The cubin of a source.

    arch: such as "sm_90"; options: all that `compile` passes on beyond `nvrtc.OPTIONS`
    compiler_version: such as (13, 0); compile: `nvrtc.compile`, or a function like it
    """
    # Two different requests never have one key: JSON says where each part ends.
    parts = [arch, list(compiler_version), [*nvrtc.OPTIONS], [*options], source]
    key = json.dumps(parts).encode()
    with _lock:
        found = _known.get(key)
        if found is not None and found.path.exists():  # a folder may be emptied under us
            _known.move_to_end(key)
            return found
        turn = _turns.setdefault(key, util.lock())
    try:
        with turn:
            return _find(key, source, arch, options, compile)
    finally:
        with _lock:
            _turns.pop(key, None)


def _find(key: bytes, source: str, arch: str, options: Sequence[str], compile) -> Cubin:
    """A cubin that was not in memory a moment ago."""
    with _lock:
        found = _known.get(key)
    if found is not None and found.path.exists():  # by the thread whose turn it was before
        return found

    def make() -> tuple[bytes, bytes]:
        made = compile(source, arch, options)
        return made.binary, json.dumps({n: astuple(r) for n, r in made.kernels.items()}).encode()

    entry = _store.load(key, make)
    resources = {name: Resources(*numbers) for name, numbers in json.loads(entry.note).items()}
    cubin = Cubin(entry.path, entry.code, resources)
    with _lock:
        _known[key] = cubin
        while len(_known) > 1 and sum(len(c.data) for c in _known.values()) > IN_MEMORY:
            _known.popitem(last=False)
    return cubin


def forget() -> None:
    """Empty the memory; what is on disk stays."""
    with _lock:
        _known.clear()
