"""Types for annotations: what functions accept as an array, and as a dtype.

Floor 6.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

from gpuarray.core.value import Array
from gpuarray.names import explain_names as _explain_names


class SupportsDType(Protocol):
    """Anything with a dtype of its own."""

    @property
    def dtype(self) -> np.dtype: ...


#: What can be used where an array is expected: lists and tuples cannot.
ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
#: What functions accept as a dtype.
DTypeLike: TypeAlias = str | type[Any] | np.dtype | SupportsDType

__all__ = ["ArrayLike", "DTypeLike"]

__getattr__ = _explain_names(__name__)
