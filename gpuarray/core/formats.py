"""Memory orders: `Layout`, and `Format`, which adds the sharding.

Floor 1. In: a user's description of an array's memory. Out: plain data, and an error if an array
cannot be stored that way: here each device holds its piece in row-major order, without tiles, as
NumPy does by default.

`Layout` is its public name in JAX. Other modules here import it as `MemoryLayout`, because the
Layout of a value's type is its layout over devices (core/layout.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from gpuarray.core.sharding import Sharding


class _Auto:
    """The type of `Layout.AUTO`."""

    def __repr__(self) -> str:
        return "AUTO"

    def __reduce__(self) -> str:
        return "AUTO"


AUTO = _Auto()


class Layout:
    """The order of an array's elements in the memory of a device.

    Parameters
    ----------
    major_to_minor :
        The axes, from the one with the largest stride to the one with stride 1.
    tiling :
        Shapes of tiles, one within the other; None or () for none.
    sub_byte_element_size_in_bits :
        Bits of an element that has less than a byte; 0 for others.

    Examples
    --------

    >>> from gpuarray.experimental.layout import Layout
    >>> Layout((0, 1))
    Layout(major_to_minor=(0, 1), tiling=None, sub_byte_element_size_in_bits=0)
    """

    #: The order is left to the compiler.
    AUTO: ClassVar[_Auto] = AUTO

    def __init__(
        self,
        major_to_minor: Sequence[int],
        tiling: Sequence[Sequence[int]] | None = None,
        sub_byte_element_size_in_bits: int = 0,
    ):
        self.major_to_minor = tuple(major_to_minor)
        self.tiling = None if tiling is None else tuple(tuple(tile) for tile in tiling)
        self.sub_byte_element_size_in_bits = sub_byte_element_size_in_bits

    def _fields(self) -> dict[str, Any]:
        names = ("major_to_minor", "tiling", "sub_byte_element_size_in_bits")
        return {name: getattr(self, name) for name in names}

    def update(self, **changes: Any) -> Layout:
        """The same layout with some fields changed."""
        return Layout(**self._fields() | changes)

    def check_compatible_aval(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError where an array of this shape has another number of axes."""
        if len(shape) != len(self.major_to_minor):
            raise ValueError(
                "Length of major_to_minor and the rank of the value should match. Got "
                f"major_to_minor={self.major_to_minor} and shape={tuple(shape)}"
            )

    def check_possible(self, shape: tuple[int, ...], what: str) -> None:
        """Raise ValueError if an array of this shape cannot be stored that way."""
        try:
            self.check_compatible_aval(shape)
        except ValueError as error:
            raise ValueError(
                f"{what} is incompatible with its layout annotation {self}: {error}"
            ) from None
        # Refused, not ignored: a program that requests an order relies on it.
        if self.major_to_minor != tuple(range(len(shape))) or self.tiling:
            raise ValueError(
                f"{what} cannot lie as {self} says: arrays lie row by row here, which is "
                f"Layout({tuple(range(len(shape)))}), without tiles. Give that, Layout.AUTO or no "
                "layout; programs read and write arrays in any order."
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(tuple(self._fields().values()))

    def __repr__(self) -> str:
        return f"Layout({', '.join(f'{name}={value}' for name, value in self._fields().items())})"


class Format:
    """How an array is sharded over devices, and the memory order of each piece.

    Parameters
    ----------
    layout :
        A `Layout`, `Layout.AUTO`, or None if unspecified.
    sharding :
        A Sharding; a `Layout` needs one.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.ones((2, 3)).format.layout
    Layout(major_to_minor=(0, 1), tiling=(), sub_byte_element_size_in_bits=0)
    """

    __slots__ = ("layout", "sharding")

    def __init__(self, layout: Layout | _Auto | None = None, sharding: Sharding | None = None):
        if not (layout is None or layout is AUTO or isinstance(layout, Layout)):
            raise TypeError(
                "Invalid value received for the layout argument. Expected values are `None`, "
                f"`Layout.AUTO` or an instance of `Layout`. Got {layout} of type {type(layout)}"
            )
        if not (sharding is None or isinstance(sharding, Sharding)):
            raise TypeError(
                "Invalid value received for the sharding argument. Expected values are `None` or "
                f"an instance of `Sharding`. Got {sharding} of type {type(sharding)}"
            )
        if isinstance(layout, Layout) and sharding is None:
            raise ValueError(
                f"Sharding has to be concrete when layout is of type {Layout}. Please pass a "
                "`NamedSharding` or `SingleDeviceSharding` to the sharding argument. Got sharding "
                "None"
            )
        self.layout = layout
        self.sharding = sharding

    def sharding_of(self, shape: tuple[int, ...], what: str) -> Sharding | None:
        """Return the sharding of an array of this shape; raise if it cannot be sharded that way."""
        if isinstance(self.layout, Layout):
            self.layout.check_possible(shape, what)
        return self.sharding

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Format):
            return NotImplemented
        return self.layout == other.layout and self.sharding == other.sharding

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"


def format_of(ndim: int, sharding: Sharding) -> Format:
    """Return the Format of arrays with `ndim` axes under a sharding.

    >>> import gpuarray as ga
    >>> format_of(1, ga.sharding.SingleDeviceSharding(ga.devices()[0])).layout.major_to_minor
    (0,)
    """
    return Format(Layout(tuple(range(ndim)), ()), sharding)
