"""`jit`: its options, checked, and the Jitted function that they give.

Floor 6. In: a Python function and options. Out: a Jitted function (jitted.py), which traces,
compiles and launches; or an error that names the wrong option.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpuarray.backends.cuda import cubins
from gpuarray.functions import argnums
from gpuarray.functions.compiler_options import check_options
from gpuarray.functions.jitted import JitOptions, Jitted
from gpuarray.functions.shardings import UNSPECIFIED, sharding_options
from gpuarray.runtime import cache
from gpuarray.transforms import trace_cache
from gpuarray.transforms.tracing import inferred

cache.watch(inferred)


def clear_caches() -> None:
    """Drop the traced and compiled programs of all functions."""
    cache.clear()
    trace_cache.forget()
    cubins.forget()


_UNGIVEN: Any = object()


def jit(
    fun: Callable = _UNGIVEN,
    /,
    *,
    in_shardings: Any = UNSPECIFIED,
    out_shardings: Any = UNSPECIFIED,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """Compile a function: traced once for each kind of arguments, fused into few kernels, then only
    launched.

    Parameters
    ----------
    static_argnums, static_argnames :
        Arguments that are Python values instead of arrays: the function is traced for each of their
        values.
    donate_argnums, donate_argnames :
        Arguments whose memory the results may use; they are deleted.
    in_shardings, out_shardings :
        The shardings of arguments and results: a Sharding, a PartitionSpec under a mesh, or None to
        leave it open, each a prefix of their pytree.
    device, backend :
        The one device, or the platform, that the function runs on.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> @ga.jit
    ... def f(x):
    ...     return gnp.sum(x * x)
    >>> f(gnp.arange(3.0))
    Array(5., dtype=float32)
    """
    options = {
        "in_shardings": in_shardings,
        "out_shardings": out_shardings,
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames,
        "keep_unused": keep_unused,
        "device": device,
        "backend": backend,
        "inline": inline,
        "compiler_options": compiler_options,
    }
    if fun is _UNGIVEN:
        return functools.partial(jit, **options)
    return jit_as("jit", fun, **options)


def jit_as(
    what: str,
    fun: Callable,
    *,
    in_shardings: Any,
    out_shardings: Any,
    static_argnums: int | Sequence[int] | None,
    static_argnames: str | Iterable[str] | None,
    donate_argnums: int | Sequence[int] | None,
    donate_argnames: str | Iterable[str] | None,
    keep_unused: bool,
    device: Any,
    backend: str | None,
    inline: bool,
    compiler_options: dict[str, Any] | None,
) -> Jitted:
    """A jitted function with checked options; messages use the name `what`."""
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}")
    if inspect.isgeneratorfunction(fun):
        raise TypeError(
            f"Expected a function, got a generator function: {fun}. Return a list instead of "
            "yielding."
        )
    if isinstance(fun, staticmethod):
        raise TypeError(
            f"staticmethod arguments are not supported, got {fun}: write @staticmethod above "
            f"@{what}."
        )
    # Numbers and names of the same parameters, so that a call by name finds them too.
    sig = argnums.signature_of(fun)
    static_nums, static_names = argnums.nums_and_names(
        sig, static_argnums, static_argnames, "static"
    )
    donate_nums, donate_names = argnums.nums_and_names(
        sig, donate_argnums, donate_argnames, "donate"
    )
    # A static argument has no memory to give away.
    both = set(static_nums) & set(donate_nums) | set(static_names) & set(donate_names)
    if both:
        raise ValueError(
            "static_argnames and donate_argnames cannot intersect (nor static_argnums and "
            f"donate_argnums): both name {sorted(map(str, both))}"
        )
    check_options(compiler_options)
    if device is not None and backend is not None:
        raise ValueError(
            f"can't specify both a device and a backend for jit, got {device=} and {backend=}"
        )
    options = JitOptions(
        static_nums,
        static_names,
        donate_nums,
        donate_names,
        bool(keep_unused),
        bool(inline),
        sharding_options(
            device if device is not None else backend, in_shardings, out_shardings, what
        ),
    )
    return Jitted(fun, options)
