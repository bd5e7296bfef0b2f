"""CuPy, loaded on first use, and why no GPU can be used where none can.

Floor 4. In: nothing. Out: `cupy`, whose attributes raise an error that says how to install it;
`missing()`, the reason in words.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import sys

from gpuarray.util import lazy_module

INSTALL = (
    "Install CuPy with the extra that fits NVIDIA's driver: `gpuarray-runtime[cuda13]`, or "
    "`gpuarray-runtime[cuda12]` for an older one. `python -m gpuarray doctor` says which."
)
cupy = lazy_module("cupy", INSTALL)


#: CuPy has a distribution for each version of CUDA; all of them install the package `cupy`.
DISTRIBUTIONS = ("cupy", "cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x")


def distributions() -> list[tuple[str, str]]:
    """Return CuPy's distributions that are installed, with their versions."""
    found = []
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append((name, importlib.metadata.version(name)))
    return found


@functools.cache
def missing() -> str:
    """Return why no GPU can be used here; empty if one can."""
    # Found without importing CuPy, which takes a second.
    if "cupy" not in sys.modules and importlib.util.find_spec("cupy") is None:
        return f"CuPy is not installed. {INSTALL}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # a broken installation fails in many ways
        return f"CuPy found no GPU: {type(error).__name__}: {error}. {INSTALL}"
    return "" if count else "CuPy found no GPU: look at CUDA_VISIBLE_DEVICES."
