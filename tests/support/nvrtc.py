"""NVRTC for tests: the compiler of the wheel `nvidia-cuda-nvrtc`, which needs no GPU.

In: kernels (`KernelSource`). Out: they compiled, many in one source, each source once in a run.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence

import pytest

from gpuarray.backends.cuda import nvrtc
from gpuarray.compiler.cuda.emit import KernelSource
from gpuarray.compiler.text.prelude import complete

#: Turing, Ampere, Hopper, Blackwell for servers and for others.
ARCHS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
#: The same for tests: the oldest and the one that kernels are tuned for in every run. The prelude
#: tells only Turing from the others.
SOME_ARCHS = [
    a if a in ("sm_75", "sm_90") else pytest.param(a, marks=pytest.mark.slow) for a in ARCHS
]
#: The one alone: for many kernels, of which all are checked for both.
FEWEST_ARCHS = [a if a == "sm_90" else pytest.param(a, marks=pytest.mark.slow) for a in ARCHS]

needed = pytest.mark.skipif(
    not nvrtc.available(),
    reason="NVRTC is not here: install the wheel nvidia-cuda-nvrtc to compile emitted kernels",
)


@functools.cache
def compiled(source: str, arch: str) -> nvrtc.CompileResult:
    """A source for an architecture, once."""
    return nvrtc.compile(source, arch)


def check(source: str, arch: str) -> None:
    """Raise CompileError unless a source is valid: the front end alone, a tenth of a compile."""
    nvrtc.compile(source, arch, ["--fdevice-syntax-only"])


def ptx(kernel: KernelSource, arch: str = "compute_90") -> str:
    """A kernel as PTX."""
    return compiled(complete(kernel.text), arch).ptx


def distinct(kernels: Iterable[tuple[str, KernelSource]]) -> dict[str, str]:
    """Bodies that differ, without their comments and names, and where each was first seen."""
    found: dict[str, str] = {}
    for origin, kernel in kernels:
        found.setdefault(_body(kernel), origin)
    return found


def _body(kernel: KernelSource) -> str:
    body = re.sub(r"^//.*\n", "", kernel.text, flags=re.MULTILINE)
    return body.replace(f" {kernel.name}(", " NAME(")


def sources(bodies: Iterable[str], size: int = 60) -> Iterator[str]:
    """Bodies put together, `size` in a source: one compile of many costs far less than many."""
    some = list(bodies)
    for start in range(0, len(some), size):
        named = [b.replace(" NAME(", f" k{i}(") for i, b in enumerate(some[start : start + size])]
        yield complete("\n".join(named))


def resources(kernels: Sequence[KernelSource], arch: str) -> list[nvrtc.Resources]:
    """What each kernel uses of a multiprocessor."""
    bodies = list(distinct(("", k) for k in kernels))
    (source,) = sources(bodies, len(bodies))
    made = compiled(source, arch).kernels
    used = {body: made[f"k{i}"] for i, body in enumerate(bodies)}
    return [used[_body(k)] for k in kernels]
