"""Who takes part: gpuarray with and without fusion, NumPy, and the libraries that are installed.

In: what can be imported. Out: Peers with one face, and for each absent one the reason. Every
workload is written against that face: a namespace with NumPy's names, `jit`, arrays in and out,
and waiting for a result.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import os
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.runtime import lazy


class Names:
    """A library's functions under NumPy's names; `extra` replaces those that differ."""

    def __init__(self, module: Any, **extra: Any):
        self._module = module
        self.__dict__.update(extra)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        self.__dict__[name] = found  # the next look-up costs what an attribute costs
        return found


def _identity(x: Any) -> Any:
    return x


@dataclass(frozen=True)
class Peer:
    """One contestant.

    family: whose texts it takes (versions.py), where it has none of its own
    array, host: from a NumPy array, and to one of float64
    jit: compiles a function (identity where there is nothing of the sort)
    send: starts what was only recorded; wait: returns when a result is there
    around: the context its calls run in
    clock: what measures on the device, see clocks.py; free: gives back memory that is kept
    """

    name: str
    version: str
    names: Names
    array: Callable[[np.ndarray], Any]
    jit: Callable[[Callable], Callable]
    wait: Callable[[Any], Any]
    around: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext
    family: str = "common"
    host: Callable[[Any], np.ndarray] = functools.partial(np.asarray, dtype=np.float64)
    send: Callable[[Any], Any] = _identity
    clock: str = ""
    free: Callable[[], Any] = lambda: None


FUSED, UNFUSED, NUMPY, JAX, TORCH = "fused", "unfused", "numpy", "jax", "torch"
TORCH_COMPILE, TORCH_AUTOTUNE = "torch.compile", "torch.compile max-autotune"
CUPY, CUPY_FUSE = "cupy", "cupy.fuse"
OURS = (FUSED, UNFUSED)
ALL = (FUSED, UNFUSED, NUMPY, JAX, TORCH)
GPU = (FUSED, UNFUSED, JAX, TORCH, TORCH_COMPILE, TORCH_AUTOTUNE, CUPY, CUPY_FUSE)
#: The module that must be there.
NEEDS = {JAX: "jax", TORCH: "torch", TORCH_COMPILE: "torch", TORCH_AUTOTUNE: "torch"}
NEEDS |= {CUPY: "cupy", CUPY_FUSE: "cupy"}


def _ours(fuse: bool, gpu: bool) -> Peer:
    names = Names(
        gnp,
        erf=lax.erf,
        vjp=ga.vjp,
        value_and_grad=ga.value_and_grad,
        uniform=ga.random.uniform,
        repeat=lambda n, step, first: lax.fori_loop(0, n, lambda _, state: step(state), first),
    )

    def send(result: Any) -> Any:
        lazy.flush_all()
        return result

    return Peer(
        FUSED if fuse else UNFUSED,
        ga.__version__,
        names,
        gnp.asarray,
        ga.jit,
        ga.block_until_ready,
        contextlib.nullcontext if fuse else functools.partial(ga.fusion, False),
        send=send,
        clock="ours" if gpu else "",
        free=ga.free,
    )


def _repeat(n: int, step: Callable, state: Any) -> Any:
    for _ in range(n):
        state = step(state)
    return state


def _plain(module: Any, **extra: Any) -> Names:
    """Names of a library that is as NumPy."""

    def astype(x: Any, dtype: Any) -> Any:
        return x.astype(dtype, copy=False)

    return Names(module, **({"astype": astype, "repeat": _repeat} | extra))


def _numpy(gpu: bool) -> Peer:
    rng = np.random.default_rng(0)
    names = _plain(
        np, erf=scipy.special.erf, uniform=lambda key, shape: rng.random(shape, np.float32)
    )
    quiet = functools.partial(np.errstate, all="ignore")  # what runs away does so on purpose
    return Peer(
        NUMPY, np.__version__, names, np.asarray, _identity, _identity, quiet, family="numpy"
    )


def exact() -> Names:
    """NumPy in float64, whatever the text asks for."""
    return _plain(np, erf=scipy.special.erf, float32=np.float64)


def _jax(gpu: bool) -> Peer:
    if not gpu:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp

    if gpu and jax.default_backend() != "gpu":
        raise ImportError(f"JAX computes on {jax.default_backend()} here, not on the GPU")
    names = Names(
        jnp,
        erf=jax.lax.erf,
        vjp=jax.vjp,
        value_and_grad=jax.value_and_grad,
        uniform=jax.random.uniform,
        repeat=lambda n, step, first: jax.lax.fori_loop(0, n, lambda _, s: step(s), first),
    )
    return Peer(JAX, jax.__version__, names, jnp.asarray, jax.jit, jax.block_until_ready)


def _torch(gpu: bool, name: str = TORCH, **compile: Any) -> Peer:
    # Its threads spin for a while after each operation, on the cores of whoever comes next.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch

    if gpu and not torch.cuda.is_available():
        raise ImportError("PyTorch sees no GPU")
    where = "cuda" if gpu else "cpu"

    def array(x: np.ndarray) -> Any:
        flat = np.ascontiguousarray(x)
        if x.dtype.name == "bfloat16":  # known to both by its width only
            return torch.from_numpy(flat.view(np.int16)).view(torch.bfloat16).to(where, copy=True)
        return torch.from_numpy(flat).to(where, copy=True)  # some of its functions write to it

    def host(x: Any) -> np.ndarray:
        return x.detach().to("cpu", torch.float64).numpy()

    def wait(result: Any) -> Any:
        if gpu:
            torch.cuda.synchronize()
        return result

    def value_and_grad(fun: Callable, argnums: Any = 0) -> Callable:
        def both(*args):
            gradients, value = torch.func.grad_and_value(fun, argnums)(*args)
            return value, gradients

        return both

    names = Names(
        torch,
        max=lambda x, axis, keepdims=False: torch.amax(x, dim=axis, keepdim=keepdims),
        var=lambda x, axis: torch.var(x, dim=axis, correction=0),
        astype=lambda x, dtype: x.to(dtype),
        arange=functools.partial(torch.arange, device=where),
        uniform=lambda key, shape: torch.rand(shape, device=where),
        vjp=torch.func.vjp,
        value_and_grad=value_and_grad,
        repeat=_repeat,
        concatenate=torch.cat,
    )
    numbers = itertools.count()

    def compiled(fun: Any) -> Callable:
        # Code of its own: what is compiled is kept by code, and after a few kinds of arguments for
        # the same code nothing is compiled any more, without a word. `fullgraph`: all or an error.
        code = fun.__code__.replace(co_name=f"{fun.__name__}_{next(numbers)}")
        own = types.FunctionType(code, fun.__globals__, None, None, fun.__closure__)
        return torch.compile(own, dynamic=False, fullgraph=True, **compile)

    return Peer(
        name,
        torch.__version__,
        names,
        array,
        compiled if compile else _identity,
        wait,
        family="torch compiled" if compile else "torch",
        host=host,
        clock="torch" if gpu else "",
        free=torch.cuda.empty_cache,
    )


def _cupy(gpu: bool, fuse: bool = False) -> Peer:
    import cupy
    import cupyx.scipy.special

    names = _plain(
        cupy,
        erf=cupyx.scipy.special.erf,
        uniform=lambda key, shape: cupy.random.random(shape, dtype=cupy.float32),
    )

    def wait(result: Any) -> Any:
        cupy.cuda.get_current_stream().synchronize()
        return result

    return Peer(
        CUPY_FUSE if fuse else CUPY,
        cupy.__version__,
        names,
        cupy.asarray,
        cupy.fuse if fuse else _identity,
        wait,
        family="cupy",
        host=lambda x: cupy.asnumpy(x).astype(np.float64),
        clock="cupy",
        free=cupy.get_default_memory_pool().free_all_blocks,
    )


_MAKERS: dict[str, Callable[[bool], Peer]] = {
    FUSED: functools.partial(_ours, True),
    UNFUSED: functools.partial(_ours, False),
    NUMPY: _numpy,
    JAX: _jax,
    TORCH: _torch,
    TORCH_COMPILE: functools.partial(_torch, name=TORCH_COMPILE, mode="default"),
    TORCH_AUTOTUNE: functools.partial(
        _torch, name=TORCH_AUTOTUNE, mode="max-autotune-no-cudagraphs"
    ),
    CUPY: _cupy,
    CUPY_FUSE: functools.partial(_cupy, fuse=True),
}


def gather(
    wanted: tuple[str, ...] = ALL, gpu: bool = False
) -> tuple[dict[str, Peer], dict[str, str]]:
    """The peers that are here, by name, and why the others are not."""
    here: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    for name in wanted:
        if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
            missing[name] = "not installed"
            continue
        try:
            here[name] = _MAKERS[name](gpu)
        except Exception as error:  # a broken installation fails in many ways
            missing[name] = f"installed, but does not work: {type(error).__name__}: {error}"
    return here, missing
