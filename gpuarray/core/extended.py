"""Dtypes that NumPy does not have: random keys, and those that libraries add.

Floor 1: imports nothing of gpuarray. In: a description of a random generator. Out: hashable dtype
objects with a name, a size and an abstract type. `core.dtypes` offers them next to NumPy's.
"""

from __future__ import annotations

import dataclasses
import math
import types
from typing import Any

import numpy as np


class extended(np.generic):
    """Abstract scalar type of all dtypes that NumPy does not know."""


class prng_key(extended):
    """Abstract scalar type of random keys."""


class ExtendedDType:
    """Base of dtypes that NumPy does not know.

    A subclass is hashable, and has a `name`, a `type` (a subclass of `extended`), and `_rules`, an
    object or class with these functions:

    - `physical_element_aval(dtype)`: the shape and dtype of the numbers in one element.
    - `allow_conversion`: whether `lax.convert_element_type` makes elements of them, and back; or
      `convert_to(from, dtype)` and `convert_from(dtype, to)`, which say for which dtypes.
    - `tangent_dtype(dtype)`: the dtype of tangents. Without it there are none.
    - `add(dtype, x, y)`: the sum of two cotangents of this dtype; without it, they are not added.
    - `zero(dtype)`: a scalar zero; without it, that of the numbers.
    - `full(shape, value, dtype)`: an array of this dtype, filled with one number.
    """

    __slots__ = ()

    name: str
    type: Any
    _rules: Any = None
    kind = "k"

    @property
    def element(self) -> tuple[tuple[int, ...], np.dtype]:
        """The shape and dtype of the numbers that one element is."""
        found = getattr(self._rules, "physical_element_aval", None)
        if found is None:
            raise NotImplementedError(
                f"the dtype {self!r} does not say what its elements are made of: give it `_rules` "
                "with physical_element_aval(dtype), which returns something with a shape and dtype."
            )
        aval = found(self)
        return tuple(aval.shape), np.dtype(aval.dtype)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        shape, dtype = self.element
        return math.prod(shape) * dtype.itemsize

    @property
    def storage(self) -> np.dtype:
        """The NumPy dtype that stores an element as one, so that it moves like a number."""
        # Prefer standard dtypes: NumPy is slower with void ones.
        return np.dtype(_STORED.get(self.itemsize, f"V{self.itemsize}"))

    def rule(self, name: str) -> Any:
        """The function of this name in `_rules`, or None."""
        return getattr(self._rules, name, None)

    def __repr__(self) -> str:
        return self.name


#: Dtypes that store elements, by their bytes. Equal bits are equal numbers, except in the last.
_STORED = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}


class primal_tangent(extended):
    """Abstract scalar type of numbers with tangents of another dtype."""


@dataclasses.dataclass(frozen=True, repr=False)
class PrimalTangentDtype(ExtendedDType):
    """The dtype of numbers whose tangents have another dtype, such as weights of 8 bits."""

    primal_dtype: np.dtype
    tangent_dtype: np.dtype
    name: str
    type = primal_tangent

    @property
    def _rules(self) -> Any:
        return types.SimpleNamespace(
            physical_element_aval=lambda d: types.SimpleNamespace(shape=(), dtype=d.primal_dtype),
            tangent_dtype=lambda d: d.tangent_dtype,
            allow_conversion=True,
        )


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
    def element(self) -> tuple[tuple[int, ...], np.dtype]:
        return self._impl.key_shape, np.dtype(np.uint32)

    def __eq__(self, other: object) -> bool:
        # By value: keys made with equal generators mix.
        return isinstance(other, KeyDtype) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash((KeyDtype, self._impl))

    def __reduce__(self):
        return KeyDtype, (self._impl,)
