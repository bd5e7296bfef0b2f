"""`gpuarray.flatten_util`: pytrees as vectors.

Floor 6. In: a pytree of arrays. Out: one vector, and the way back.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.names import explain_names as _explain_names
from gpuarray.tree_util import tree_flatten, tree_unflatten


def ravel_pytree(pytree: Any) -> tuple[Array, Callable[[Array], Any]]:
    """Concatenate a pytree's elements into one vector; also return a function that restores the
    pytree.

    The vector's dtype is the promotion of the leaves' dtypes, and leaves get theirs back; if all
    leaves have one dtype, restored leaves take the dtype of the vector.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.flatten_util import ravel_pytree
    >>> flat, unravel = ravel_pytree({"a": gnp.zeros(2), "b": gnp.ones(1)})
    >>> flat, unravel(flat + 1)["b"]
    (Array([0., 0., 1.], dtype=float32), Array([2.], dtype=float32))
    """
    leaves, spec = tree_flatten(pytree)
    if not leaves:
        # Nothing to concatenate, but the structure must still be restored.
        return gnp.zeros(0), lambda flat: tree_unflatten(spec, [])
    arrays = [gnp.asarray(x) for x in leaves]
    # Leaf after leaf, each in C order; different dtypes are promoted to one.
    flat = gnp.concatenate([x.ravel() for x in arrays])
    shapes, kinds = tuple(x.shape for x in arrays), tuple(x.dtype for x in arrays)
    return flat, _Unravel(spec, shapes, kinds, flat.dtype)


@dataclasses.dataclass(frozen=True)
class _Unravel:
    """Restores a pytree from a vector. Equal for equal structures, so it may be a static argument
    of jit.
    """

    spec: Any
    shapes: tuple[tuple[int, ...], ...]
    kinds: tuple[Any, ...]
    dtype: Any

    def __call__(self, flat: Any) -> Any:
        flat = gnp.asarray(flat)
        # With one dtype throughout, a vector of another (a complex one, say) may keep its own.
        alike = all(kind == self.dtype for kind in self.kinds)
        if not alike and flat.dtype != self.dtype:
            raise TypeError(
                f"unravel function given array of dtype {flat.dtype}, but expected dtype "
                f"{self.dtype}"
            )
        # Where each leaf ends in the vector; the next one starts there.
        ends = np.cumsum([math.prod(shape) for shape in self.shapes]).tolist()
        if flat.shape != (ends[-1],):
            raise ValueError(
                f"Sum of sizes {ends[-1]} must be equal to dimension 0 of the operand shape "
                f"{list(flat.shape)}"
            )
        pieces = []
        for shape, kind, start, end in zip(self.shapes, self.kinds, [0, *ends], ends, strict=False):
            piece = flat[start:end].reshape(shape)
            pieces.append(piece if alike else lax.convert_element_type(piece, kind))
        return tree_unflatten(self.spec, pieces)


__getattr__ = _explain_names(__name__)
