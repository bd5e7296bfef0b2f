"""Dtypes that NumPy does not know: random keys, and what others may add.

Floor 1: imports nothing of gpuarray. In: a description of a random generator. Out: hashable dtype
objects with a name, a size and an abstract type. `core.dtypes` offers them next to NumPy's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class extended(np.generic):
    """Abstract scalar type of all dtypes that NumPy does not know."""


class prng_key(extended):
    """Abstract scalar type of random keys."""


class ExtendedDType:
    """Base of dtypes that NumPy does not know; `name`, `itemsize` and `type` describe them."""

    __slots__ = ()

    name: str
    itemsize: int
    type: Any
    kind = "k"

    def __repr__(self) -> str:
        return self.name


class KeyDtype(ExtendedDType):
    """The dtype of typed random keys; keys of one generator (`impl`) share it.

    `impl` is a hashable description of the generator with a short `tag` and a `key_shape`.
    """

    __slots__ = ("_impl",)
    type = prng_key

    def __init__(self, impl: Any):
        self._impl = impl

    @property
    def impl(self) -> Any:
        return self._impl

    @property
    def name(self) -> str:
        return f"key<{self._impl.tag}>"

    @property
    def itemsize(self) -> int:
        # Key words are uint32.
        return 4 * math.prod(self._impl.key_shape)

    @property
    def storage(self) -> np.dtype:
        """The NumPy dtype that stores a key as one element, so that keys move like numbers."""
        # Standard dtypes for one, two and four words: NumPy is slower with void ones.
        standard = {4: "uint32", 8: "uint64", 16: "complex128"}
        return np.dtype(standard.get(self.itemsize, f"V{self.itemsize}"))

    def __eq__(self, other: object) -> bool:
        # By value: keys made with equal generators mix.
        return isinstance(other, KeyDtype) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash((KeyDtype, self._impl))

    def __reduce__(self):
        return KeyDtype, (self._impl,)
