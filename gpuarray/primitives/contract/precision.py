"""Precision of products: `Precision`, named algorithms, and how arguments are read.

Floor 2. In: a `precision=` argument. Out: None, a pair of `Precision`, or an algorithm (named or
described), which the contraction primitives keep among their params.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import numpy as np

from gpuarray import config
from gpuarray.core import dtypes

# Names that JAX accepts, by the member they mean.
_SYNONYMS = {
    "highest": "HIGHEST",
    "float32": "HIGHEST",
    "high": "HIGH",
    "bfloat16_3x": "HIGH",
    "tensorfloat32": "HIGH",
    "default": "DEFAULT",
    "bfloat16": "DEFAULT",
    "fastest": "DEFAULT",
    None: "DEFAULT",
}


class Precision(enum.Enum):
    """Precision of products of float32 and complex64.

    DEFAULT and HIGH let libraries round operands to TF32, which has ten bits behind the point, on
    GPUs that multiply it (compute capability 8.0 and later); HIGHEST keeps float32. On a CPU all
    three are float32. No precision of an operation, nor a default one (`default_matmul_precision`),
    means DEFAULT.

    >>> Precision("float32"), Precision("tensorfloat32"), Precision(None)
    (Precision.HIGHEST, Precision.HIGH, Precision.DEFAULT)
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value):
        # Enum calls it for values that are not members: strings and None.
        name = _SYNONYMS.get(value) if value is None or isinstance(value, str) else None
        return None if name is None else cls[name]

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    def __str__(self) -> str:
        return self.name


class DotAlgorithm(NamedTuple):
    """A way to multiply matrices: the types of the operands and the type of the sums.

    The component counts are the numbers of narrow numbers that represent one wide operand (bf16_3x
    has 2 and 2), and `num_primitive_operations` is the number of narrow products in one wide
    product.

    >>> DotAlgorithm(np.float16, np.float16, np.float32).accumulation_type.__name__
    'float32'
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Algorithms by name: lhs type, rhs type, type of the sums, how many products are added.

    >>> DotAlgorithmPreset.BF16_BF16_F32
    DotAlgorithmPreset.BF16_BF16_F32
    """

    DEFAULT = 1
    ANY_F8_ANY_F8_F32 = 2
    ANY_F8_ANY_F8_F32_FAST_ACCUM = 3
    ANY_F8_ANY_F8_ANY = 4
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = 5
    F16_F16_F16 = 6
    F16_F16_F32 = 7
    BF16_BF16_BF16 = 8
    BF16_BF16_F32 = 9
    BF16_BF16_F32_X3 = 10
    BF16_BF16_F32_X6 = 11
    BF16_BF16_F32_X9 = 12
    TF32_TF32_F32 = 13
    TF32_TF32_F32_X3 = 14
    F32_F32_F32 = 15
    F64_F64_F64 = 16

    @property
    def accumulation_type(self) -> Any:
        """The dtype that sums are kept in, if the name gives one."""
        names = {"F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32}
        names["F64"] = dtypes.float64
        # "BF16_BF16_F32_X3" -> "F32"; DEFAULT and the ANY names give none.
        parts = self.name.split("_X")[0].removesuffix("_FAST_ACCUM").split("_")
        return names.get(parts[-1])

    def __repr__(self) -> str:
        return f"DotAlgorithmPreset.{self.name}"

    def __str__(self) -> str:
        return self.name


#: Types of the `precision=` argument of a contraction.
PrecisionLike = (
    None | str | Precision | tuple[str, str] | tuple[Precision, Precision]
    | DotAlgorithm | DotAlgorithmPreset
)  # fmt: skip


def _one(given) -> Any:
    """Return the precision meant by one string or value, None if there is none."""
    if isinstance(given, (Precision, DotAlgorithm, DotAlgorithmPreset)):
        return given
    # Precision's own names first, then those of algorithms.
    if isinstance(given, str):
        if given in _SYNONYMS:
            return Precision(given)
        return DotAlgorithmPreset.__members__.get(given)
    return None


def canonicalize_precision(precision) -> Any:
    """Return None, a pair of Precision, or an algorithm, for a user's argument.

    None reads the setting `default_matmul_precision`.

    >>> canonicalize_precision("highest")
    (Precision.HIGHEST, Precision.HIGHEST)
    """
    if precision is None:
        precision = config.state.default_matmul_precision
        if precision is None:
            return None
    # One value for both operands, an algorithm, or a pair.
    found = _one(precision)
    if isinstance(found, Precision):
        return (found, found)
    if found is not None:
        return found
    if isinstance(precision, (tuple, list)) and len(precision) == 2:
        both = tuple(map(_one, precision))
        if all(isinstance(p, Precision) for p in both):
            return both
    words = [w for w in _SYNONYMS if w is not None]
    raise ValueError(
        f"Precision argument must be one of: None, a string in {words}, a lax.Precision, a tuple "
        "of two of these, a lax.DotAlgorithmPreset or the name of one, or a lax.DotAlgorithm; but "
        f"got {precision}."
    )


def allows_tf32(precision) -> bool:
    """Whether products of float32 may keep only the precision of TF32.

    >>> allows_tf32(None), allows_tf32(canonicalize_precision("highest"))
    (True, False)
    """
    # A pair has a precision for each operand; TF32 only if both allow it.
    if isinstance(precision, tuple) and not isinstance(precision, DotAlgorithm):
        return Precision.HIGHEST not in precision
    return precision in (None, DotAlgorithmPreset.DEFAULT, DotAlgorithmPreset.TF32_TF32_F32)


def names_algorithm(precision) -> bool:
    """Whether a precision, in its canonical form, names an algorithm."""
    return isinstance(precision, DotAlgorithm | DotAlgorithmPreset)


def rounding_of(precision) -> tuple[Any, Any, Any]:
    """Return an algorithm's (lhs dtype, rhs dtype, sum dtype); None leaves one unchanged.

    Algorithms that add up several narrow products (X3, X6, X9) exist to come near float32: the CPU,
    which has float32, uses it. Named bf16 and TF32 algorithms trade exactness for speed that a CPU
    would not gain.
    """
    # An algorithm that a user described: X3 and the like have several narrow products.
    if isinstance(precision, DotAlgorithm):
        wide = precision.num_primitive_operations > 1
        operands = (precision.lhs_precision_type, precision.rhs_precision_type)
        left, right = (None, None) if wide else map(dtypes.as_dtype, operands)
        return left, right, dtypes.as_dtype(precision.accumulation_type)
    if precision is DotAlgorithmPreset.F16_F16_F16 or precision is DotAlgorithmPreset.F16_F16_F32:
        return dtypes.float16, dtypes.float16, np.dtype(np.float32)
    if precision is DotAlgorithmPreset.F64_F64_F64:
        return None, None, np.dtype(np.float64)
    return None, None, None


def rounded_types(precision, *given) -> list[Any]:
    """Return for the dtype of each operand the one that an algorithm rounds it to, or None.

    >>> rounded_types(DotAlgorithmPreset.F16_F16_F32, dtypes.float32, dtypes.float16)
    [dtype('float16'), None]
    """
    # Only floats, and only to something narrower: no algorithm adds precision.
    return [
        to if to and dtypes.kind_of(dtype) == "f" and to.itemsize < dtype.itemsize else None
        for dtype, to in zip(given, rounding_of(precision)[:2], strict=True)
    ]
