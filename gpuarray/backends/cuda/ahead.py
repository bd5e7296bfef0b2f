"""Programs compiled for a GPU that is not here.

Floor 4. In: a Plan and an architecture. Out: its machine code in the cache folder, under the keys
that a process with such a GPU looks up; and how much of it was there already.

The plan's function is written as for a real GPU, so that exactly the code that will be needed is
compiled: also loop bodies, branches and parts of operations. Nothing is loaded or run.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.backends.cuda import cubins, kernels, nvrtc
from gpuarray.backends.cuda.program import InnerFunctions, build
from gpuarray.compiler.cuda.emit import KernelSource
from gpuarray.compiler.pipeline import Plan
from gpuarray.errors import CompileError


class _Memory:
    """Memory that is nowhere."""

    ptr = pointer = 0


class AbsentGpu:
    """The methods of a GPU that are used while the function of a plan is written.

    Attributes
    ----------
    found, made : int
        How many sources were in the folder, and how many were compiled.
    kernels : int
        How many kernels are in all of them.
    """

    index, stream, device = 0, None, contextlib.nullcontext()

    def __init__(self, arch: str):
        self.arch = arch
        self.recent: deque[Any] = deque(maxlen=0)
        self.found = self.made = self.kernels = 0

    def load(self, wanted: Sequence[KernelSource], gpu: Any) -> kernels.Loaded:
        """Compile kernels without loading them."""
        if not wanted:
            return kernels.Loaded({}, {}, {}, "", b"")
        made = []

        def compile(source: str, arch: str, options: Sequence[str]) -> nvrtc.CompileResult:
            # Called only for code that is not in the cache yet.
            made.append(source)
            return nvrtc.compile(source, arch, options)

        form, found = kernels.compiled(wanted, self.arch, nvrtc.version(), compile)
        self.made += len(made)
        self.found += len(found) - len(made)
        self.kernels += sum(len(source.names) for source in form.sources)
        lengths = {k: given for k, (_, given) in form.calls.items()}
        functions = dict.fromkeys(form.calls, self.run)
        return kernels.Loaded(functions, lengths, {}, form.text, b"")

    def run(self, *arguments: Any) -> Any:
        """Refuse to run."""
        raise CompileError(f"a program that was compiled for an absent {self.arch} cannot run here")

    allocate = write = copy = launched = run

    def upload(self, value: np.ndarray) -> Any:
        """Return the place of a constant."""
        return _Memory()

    zeroed = upload


def compile_plan(plan: Plan, donated: frozenset[int], arch: str) -> AbsentGpu:
    """Fill the cache folder with the code of a plan; return statistics."""
    if not nvrtc.available():
        raise CompileError(
            f"compiling for {arch} needs NVIDIA's compiler as a library, NVRTC, and none is found "
            "here. No GPU and no driver are needed: install the wheel `nvidia-cuda-nvrtc` (for "
            "CUDA 12 `nvidia-cuda-nvrtc-cu12`), of the version that is beside CuPy where the "
            "program is to run, or a CUDA toolkit."
        )
    gpu: Any = AbsentGpu(arch)
    build(plan, (), donated, gpu=gpu, inside=InnerFunctions(gpu, load=gpu.load))
    return gpu


def folder() -> Any:
    """Return where machine code is kept."""
    return cubins.folder()
