"""`pjit`: `jit` under the name it had for programs over several devices.

Floor 6. In: a Python function. Out: the same as `jit` makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpuarray.functions.jit import jit_as
from gpuarray.functions.jitted import Jitted
from gpuarray.functions.shardings import UNSPECIFIED
from gpuarray.lax.programs import with_sharding_constraint as with_sharding_constraint

__all__ = ["pjit", "with_sharding_constraint"]


def pjit(
    fun: Callable,
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
) -> Jitted:
    """`jit`, which also reads PartitionSpecs by the mesh of `with mesh:`.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental.pjit import pjit
    >>> with ga.set_mesh(ga.make_mesh((1,), ("x",))):
    ...     pjit(lambda x: x + 1, in_shardings=ga.P("x"))(gnp.arange(3))
    Array([1, 2, 3], dtype=int32)
    """
    return jit_as(
        "pjit",
        fun,
        in_shardings=in_shardings,
        out_shardings=out_shardings,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        donate_argnums=donate_argnums,
        donate_argnames=donate_argnames,
        keep_unused=keep_unused,
        device=device,
        backend=backend,
        inline=inline,
        compiler_options=compiler_options,
    )
