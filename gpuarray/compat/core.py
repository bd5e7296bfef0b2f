"""`jax.core`: the names of extend.core and a few more.

Floor 6.
"""

from __future__ import annotations

import sys
from typing import Any

from gpuarray.core.avals import avals_by_type as pytype_aval_mappings
from gpuarray.core.trace import Tracer
from gpuarray.extend import core as _extend
from gpuarray.extend.core import AbstractValue as AbstractValue
from gpuarray.extend.core import Atom as Atom
from gpuarray.extend.core import ShapedArray as ShapedArray
from gpuarray.extend.core import Trace as Trace
from gpuarray.extend.core import eval_jaxpr as eval_jaxpr
from gpuarray.extend.tracing import known_primal
from gpuarray.functions.inspect import ensure_compile_time_eval as ensure_compile_time_eval
from gpuarray.functions.inspect import ensure_compile_time_eval as eval_context

__all__ = [
    "AbstractValue",
    "Atom",
    "ParamDict",
    "ShapedArray",
    "Trace",
    "Tracer",
    "Value",
    "ensure_compile_time_eval",
    "eval_context",
    "eval_jaxpr",
    "is_concrete",
    "max_dim",
    "min_dim",
    "pytype_aval_mappings",
]

#: The type of an equation's params.
ParamDict = dict[str, Any]
Value = Any

# Lengths are known numbers here, also while tracing.
max_dim, min_dim = max, min


def is_concrete(x: Any) -> bool:
    """Whether a value is known: no traced one, or one that is only differentiated."""
    return not isinstance(known_primal(x), Tracer)


def __getattr__(name: str) -> Any:
    # extend.core's, with its messages for missing names.
    return getattr(_extend, name)


def __dir__() -> list[str]:
    return sorted({*vars(sys.modules[__name__]), *dir(_extend)})
