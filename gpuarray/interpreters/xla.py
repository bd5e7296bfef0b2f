"""The remaining parts of `jax.interpreters.xla` without XLA: values of new types, one operation.

Floor 6.
"""

from __future__ import annotations

from typing import Any

from gpuarray.core import trace as traces
from gpuarray.core.avals import values_by_type as canonicalize_dtype_handlers
from gpuarray.core.primitive import Primitive
from gpuarray.names import explain_names as _explain_names
from gpuarray.runtime.client import Client as Backend

__all__ = ["Backend", "apply_primitive", "canonicalize_dtype_handlers"]


def apply_primitive(prim: Primitive, *args: Any, **params: Any) -> Any:
    """The result of an operation on values, outside of all transformations.

    >>> from gpuarray.extend.core import primitives
    >>> from gpuarray.interpreters import xla
    >>> xla.apply_primitive(primitives.neg_p, 2.0)
    Array(-2., dtype=float32, weak_type=True)
    """
    with traces.base_trace():
        return prim.bind(*args, **params)


__getattr__ = _explain_names(__name__)
