"""Results of traced functions: arrays, or errors that name the part of the result that is not an
array.

Floor 6. In: the leaves of what a function returned. Out: values that a Graph can return.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core.value import Array
from gpuarray.functions.stages import ShapeDtypeStruct
from gpuarray.primitives.linear import zeros
from gpuarray.pytree import tree
from gpuarray.transforms.references import refuse_reference
from gpuarray.transforms.tracing import TracedFunction


def checked_output(x: Any, result: Any, number: int, info: TracedFunction) -> Any:
    """Return leaf `number` of a function's result as a value; TypeError if it is not an array."""
    if isinstance(x, (Array, np.ndarray, np.generic, bool, int, float, complex)):
        return x
    # JAX's protocol for objects that convert to an array.
    if hasattr(x, "__jax_array__"):
        return x.__jax_array__()
    refuse_reference(x, info)
    if isinstance(x, ShapeDtypeStruct):
        if info.purpose == "eval_shape":  # sufficient, since no values are needed
            return zeros(x.aval)
        raise TypeError(
            "A ShapeDtypeStruct does not have a value and cannot be a result: function "
            f"{info} traced for {info.purpose} returned {x}. Return an array, such as "
            "zeros(x.shape, x.dtype)."
        )
    # Found only now: paths cost more than all checks above.
    path = tree.leaf_paths(result)[number]
    at = f" at output component {path}" if path else ""
    raise TypeError(
        f"function {info} traced for {info.purpose} returned a value of type {type(x)}{at}, which "
        "is not a valid JAX type: return arrays, Python scalars, or containers of them."
    )
