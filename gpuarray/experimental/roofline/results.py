"""Arguments and results of roofline rules: shapes, a context, and figures that add up.

Floor 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gpuarray.core.avals import ShapedArray
from gpuarray.core.primitive import Primitive
from gpuarray.util import Struct, wrong_type


class RooflineShape(Struct):
    """The shape and the dtype of an operand.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental.roofline import RooflineShape
    >>> shape = RooflineShape.from_aval(ga.typeof(gnp.ones((2, 3))))
    >>> shape.size, shape.bytes
    (6, 24)
    """

    shape: tuple[int, ...]
    dtype: Any

    @classmethod
    def from_aval(cls, aval: ShapedArray) -> RooflineShape:
        """The shape of an aval."""
        if not isinstance(aval, ShapedArray):
            raise wrong_type(aval, "the type of an array, as `typeof` gives it")
        return cls(aval.shape, aval.dtype)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """The memory that they take."""
        return self.size * self.dtype.itemsize

    @classmethod
    def total_bytes(cls, avals: Sequence[ShapedArray]) -> int:
        """The memory of several."""
        return sum(cls.from_aval(aval).bytes for aval in avals)


class RooflineRuleContext(Struct):
    """A rule's information about an equation, besides the shapes of its operands and its params.

    Attributes
    ----------
    mesh :
        The devices that `roofline` was given, for collectives.
    pin_lhs_in_vmem, pin_rhs_in_vmem :
        Whether operands of matrix products are assumed to be in fast memory.
    """

    name_stack: str
    primitive: Primitive
    avals_in: Sequence[ShapedArray]
    avals_out: Sequence[ShapedArray]
    jaxpr_eqn_ctx: Any = None
    mesh: Any = None
    pin_lhs_in_vmem: bool = False
    pin_rhs_in_vmem: bool = False


class RooflineResult(Struct):
    """Operations and bytes; results of parts add up, the peak is the largest.

    >>> from gpuarray.experimental.roofline import RooflineResult
    >>> total = RooflineResult(flops=2, peak_hbm_bytes=8) + 3 * RooflineResult(flops=1)
    >>> total.flops, total.peak_hbm_bytes
    (5, 8)

    Attributes
    ----------
    flops, hbm_bytes :
        Of matrix products, which are separate steps whatever else is fused.
    unfused_flops, unfused_hbm_bytes :
        Of all operations, each as a separate step.
    ici_bytes, ici_latency :
        By axis of the mesh: the bytes that links carry, and how many steps that takes.
    peak_hbm_bytes :
        The peak of memory, with each value alive until it is last read.
    """

    flops: int = 0
    unfused_flops: int = 0
    ici_bytes: dict[str, int] = {}
    ici_latency: dict[str, int] = {}
    hbm_bytes: int = 0
    peak_hbm_bytes: int = 0
    unfused_hbm_bytes: int = 0

    @classmethod
    def zeros(cls) -> RooflineResult:
        """A result of zeros."""
        return cls()

    def __add__(self, other: RooflineResult) -> RooflineResult:
        def both(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
            return {key: a.get(key, 0) + b.get(key, 0) for key in a | b}

        return RooflineResult(
            flops=self.flops + other.flops,
            unfused_flops=self.unfused_flops + other.unfused_flops,
            ici_bytes=both(self.ici_bytes, other.ici_bytes),
            ici_latency=both(self.ici_latency, other.ici_latency),
            hbm_bytes=self.hbm_bytes + other.hbm_bytes,
            peak_hbm_bytes=max(self.peak_hbm_bytes, other.peak_hbm_bytes),
            unfused_hbm_bytes=self.unfused_hbm_bytes + other.unfused_hbm_bytes,
        )

    def __mul__(self, constant: float) -> RooflineResult:
        def times(x: Any) -> Any:
            if isinstance(x, dict):
                return {key: int(n * constant) for key, n in x.items()}
            return int(x * constant)

        return RooflineResult(*(times(getattr(self, name)) for name in self.__match_args__))

    __rmul__ = __mul__
