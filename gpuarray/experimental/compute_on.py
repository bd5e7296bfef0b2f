"""Marking where parts of a program should run: `compute_on`.

Floor 6. In: "device", "device_host" and similar names. Out: named scopes. Here a whole program runs
on its device, so such programs run unchanged; `explain` shows the scopes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from gpuarray.functions.inspect import named_scope
from gpuarray.functions.jit import jit
from gpuarray.names import explain_names as _explain_names
from gpuarray.pytree import tree
from gpuarray.runtime.transfer import device_put
from gpuarray.util import wraps, wrong_type

__all__ = ["compute_on", "compute_on2"]


def compute_on(compute_type: str) -> named_scope:
    """Mark where the operations in a block should run; they run on the device of their arrays.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental.compute_on import compute_on
    >>> @ga.jit
    ... def f(x):
    ...     with compute_on("device_host"):
    ...         return gnp.sin(x)
    >>> f(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    if not isinstance(compute_type, str):
        raise TypeError(
            f"`compute_on`'s compute_type argument must be a string, got {compute_type!r}."
        )
    if not re.fullmatch(r"device|device_host|tpu_sparsecore|gpu_stream:.*", compute_type):
        raise ValueError(
            f"Invalid compute type {compute_type}. Current supported values are `device_host`, "
            "`device`, `tpu_sparsecore`, and `gpu_stream:#`."
        )
    return named_scope(f"compute_on={compute_type}")


def compute_on2(
    f: Callable[..., Any] | None = None,
    *,
    compute_type: str,
    out_memory_spaces: Any,
    compiler_options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Make a function one call, marked to run somewhere; without a function, a decorator.

    Parameters
    ----------
    out_memory_spaces :
        In which memory results are: a prefix of their pytree, of memory.Space.
    compiler_options :
        Taken for programs that give them.

    Examples
    --------

    >>> import gpuarray as ga
    >>> from gpuarray.experimental.compute_on import compute_on2
    >>> space = ga.memory.Space.Device
    >>> compute_on2(lambda x: 2 * x, compute_type="device_host", out_memory_spaces=space)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    if f is None:
        return functools.partial(
            compute_on2,
            compute_type=compute_type,
            out_memory_spaces=out_memory_spaces,
            compiler_options=compiler_options,
        )
    if compiler_options is not None and not isinstance(compiler_options, Mapping):
        raise wrong_type(compiler_options, "a dict of options")
    scope, called = compute_on(compute_type).name, jit(f)

    @wraps(f)
    def call(*args: Any) -> Any:
        with named_scope(scope):
            found, spec = tree.flatten(called(*args))
            spaces = tree.prefix_broadcast(
                out_memory_spaces,
                tree.unflatten(spec, found),
                None,
                "compute_on out_memory_spaces",
            )
            return tree.unflatten(
                spec, [device_put(x, s) for x, s in zip(found, spaces, strict=True)]
            )

    return call


__getattr__ = _explain_names(__name__)
