"""Who takes part: gpuarray with and without fusion, NumPy, and the libraries that are installed.

In: what can be imported. Out: Peers with one face, and for each absent one the reason. Every
workload is written once against that face: a namespace with NumPy's names, `jit`, and waiting for
a result.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax


class Names:
    """A library's functions under NumPy's names; `extra` replaces those that differ."""

    def __init__(self, module: Any, **extra: Callable):
        self._module = module
        self.__dict__.update(extra)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        self.__dict__[name] = found  # the next look-up costs what an attribute costs
        return found


@dataclass(frozen=True)
class Peer:
    """One contestant.

    jit: compiles a function (identity where there is nothing of the sort)
    wait: returns when a result is there; around: the context its calls run in
    lazy: whether it is ours, so that plans can be looked at
    """

    name: str
    version: str
    names: Names
    array: Callable[[np.ndarray], Any]
    jit: Callable[[Callable], Callable]
    wait: Callable[[Any], Any]
    around: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext
    ours: bool = False


FUSED, UNFUSED, NUMPY, JAX, TORCH = "fused", "unfused", "numpy", "jax", "torch"
OURS = (FUSED, UNFUSED)
ALL = (FUSED, UNFUSED, NUMPY, JAX, TORCH)


def _identity(x: Any) -> Any:
    return x


def _ours(fuse: bool) -> Peer:
    return Peer(
        FUSED if fuse else UNFUSED,
        ga.__version__,
        Names(gnp, erf=lax.erf),
        gnp.asarray,
        ga.jit,
        ga.block_until_ready,
        contextlib.nullcontext if fuse else functools.partial(ga.fusion, False),
        ours=True,
    )


def _numpy() -> Peer:
    names = Names(np, erf=scipy.special.erf)
    return Peer(NUMPY, np.__version__, names, np.asarray, _identity, _identity)


def _jax() -> Peer:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import jax.numpy as jnp

    names = Names(jnp, erf=jax.lax.erf)
    return Peer(JAX, jax.__version__, names, jnp.asarray, jax.jit, jax.block_until_ready)


def _torch() -> Peer:
    # Its threads spin for a while after each operation, on the cores of whoever comes next.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch

    def array(x: np.ndarray) -> Any:
        return torch.from_numpy(np.ascontiguousarray(x))

    names = Names(
        torch,
        max=lambda x, axis, keepdims=False: torch.amax(x, dim=axis, keepdim=keepdims),
        var=lambda x, axis: torch.var(x, dim=axis, correction=0),
    )
    # Eager: its compiler needs a C++ compiler and tens of seconds a function.
    return Peer(TORCH, torch.__version__, names, array, _identity, _identity)


_MAKERS: dict[str, Callable[[], Peer]] = {
    FUSED: lambda: _ours(True),
    UNFUSED: lambda: _ours(False),
    NUMPY: _numpy,
    JAX: _jax,
    TORCH: _torch,
}


def gather(wanted: tuple[str, ...] = ALL) -> tuple[dict[str, Peer], dict[str, str]]:
    """The peers that are here, by name, and why the others are not."""
    here: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    for name in wanted:
        if name in (JAX, TORCH) and importlib.util.find_spec(name) is None:
            missing[name] = "not installed"
            continue
        try:
            here[name] = _MAKERS[name]()
        except ImportError as error:
            missing[name] = f"installed, but does not import: {error}"
    return here, missing
