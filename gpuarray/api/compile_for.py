"""`compile_for`: a function compiled for a GPU that need not be here.

Floor 6. In: a Python function, the types of its arguments, an architecture. Out: machine code in
the folder of compiled code, for other processes and, when it is shipped, other machines.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from typing import Any

from gpuarray.backends.cuda import ahead
from gpuarray.config import state
from gpuarray.functions.jit import jit
from gpuarray.functions.jitted import Jitted
from gpuarray.runtime import cache
from gpuarray.util import Struct


class CompiledFor(Struct):
    """The result of `compile_for`.

    Attributes
    ----------
    folder :
        Where the machine code is; `GPUARRAY_CACHE_DIR` names the folder that it is in.
    kernels :
        How many kernels the function has.
    compiled, found :
        How many sources were compiled for it, and how many were there already.
    """

    folder: pathlib.Path
    arch: str
    kernels: int
    compiled: int
    found: int


def compile_for(fun: Callable, *args: Any, arch: str = "sm_90", **kwargs: Any) -> CompiledFor:
    """Compile a function for a GPU of architecture `arch`, and keep the machine code on disk.

    Neither a GPU nor a driver is needed, but NVRTC is (the wheel `nvidia-cuda-nvrtc`). So a
    container image can be built that compiles nothing when it starts: set `GPUARRAY_CACHE_DIR` to a
    folder of the image, for the build and for the program, and install the same NVRTC in both,
    since its version is part of the cache key. The folder has to belong to the user who runs the
    program.

    Operations that a process runs outside `fun` are compiled as usual.

    Parameters
    ----------
    fun :
        A function, jitted or not; it is traced as by `jit`.
    args, kwargs :
        Its arguments: arrays or ShapeDtypeStructs.
    arch :
        Such as "sm_80" (A100), "sm_90" (H100, H200), "sm_100" (B200).

    Examples
    --------
    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> step = ga.jit(lambda x: gnp.tanh(x) * 2)
    >>> x = ga.ShapeDtypeStruct((4096, 512), gnp.float32)
    >>> done = ga.compile_for(step, x, arch="sm_90")  # doctest: +SKIP
    >>> done.kernels, done.compiled  # doctest: +SKIP
    (1, 1)
    """
    if not callable(fun):
        raise TypeError(f"compile_for takes a function, got {fun!r}")
    if not isinstance(arch, str) or not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
        raise ValueError(f"arch must be the name of an architecture, such as 'sm_90', got {arch!r}")
    if not state.enable_compilation_cache:
        raise ValueError(
            "compile_for keeps machine code on disk, which the setting enable_compilation_cache "
            "(GPUARRAY_ENABLE_COMPILATION_CACHE) switches off"
        )
    jitted = fun if isinstance(fun, Jitted) else jit(fun)
    traced = jitted.trace(*args, **kwargs)
    executable, _ = cache.compiled_graph(
        traced.jaxpr, jitted.__name__, "compiled ahead", traced._given_away
    )
    if executable.meshes:
        raise ValueError(
            f"compile_for compiles programs of one device, and {jitted.__name__} runs on a mesh: "
            f"{executable.meshes[0]}"
        )
    done = ahead.compile_plan(executable.plan, executable.donated, arch)
    return CompiledFor(ahead.folder(), arch, done.kernels, done.made, done.found)
