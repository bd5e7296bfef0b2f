"""Structs: shapes and dtypes used in place of arrays, and of mutable references to them.

Floor 6. In: what a user declares, or avals. Out: `ShapeDtypeStruct`, which tracing takes in place
of arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.formats import Format
from gpuarray.core.formats import Layout as MemoryLayout
from gpuarray.core.layout import cuts_of, with_names
from gpuarray.core.mesh import NamedSharding, PartitionSpec, contexts
from gpuarray.core.mesh_context import sharding_in_context
from gpuarray.core.sharding import Sharding
from gpuarray.pytree import tree
from gpuarray.runtime.array import ArrayImpl
from gpuarray.transforms.references import Ref


class ShapeDtypeStruct:
    """Shape and dtype of an array that need not exist: returned by `eval_shape`, accepted by
    `lower`.

    With `is_ref` it represents a mutable reference to such an array.

    >>> ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("_exact", "_layout", "_sharding", "_stated", "is_ref")

    def __init__(
        self, shape, dtype, *, sharding=None, weak_type: bool = False, is_ref: bool = False
    ):
        # JAX refuses None here, although NumPy reads it as float64.
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        self._stated = ShapedArray(tuple(shape), dtypes.as_dtype(dtype), weak_type)
        self.is_ref = bool(is_ref)
        self._exact = False  # whether it is the type of an existing array
        self._layout = None
        if isinstance(sharding, Format):
            if sharding.layout is MemoryLayout.AUTO:
                raise TypeError(
                    "`Layout.AUTO` cannot be used in place of a Layout in a `ShapeDtypeStruct`. "
                    f"Got {sharding}"
                )
            self._layout = sharding.layout
            sharding = sharding.sharding_of(self._stated.shape, "ShapeDtypeStruct")
        # Refuse impossible values here, not where the struct is used.
        if not (sharding is None or isinstance(sharding, (Sharding, PartitionSpec))):
            raise ValueError(
                "sharding should be an instance of `jax.sharding.Sharding`, "
                "`jax.sharding.PartitionSpec` or `jax.experimental.layout.Format`. Got "
                f"{sharding} of type {type(sharding)}."
            )
        if isinstance(sharding, PartitionSpec) and len(sharding.partitions) > self._stated.ndim:
            raise ValueError(
                f"PartitionSpec {sharding} is only valid for values of rank at least "
                f"{len(sharding.partitions)}, but was applied to a value of rank {self.ndim}."
            )
        if isinstance(sharding, Sharding):
            sharding.check_compatible_aval(self._stated.shape)
        self._sharding = sharding
        # Along Explicit axes of a mesh, the sharding is part of the type.
        known = isinstance(sharding, NamedSharding) or contexts.abstract is not None
        if sharding is not None and known:
            self._stated = self._stated.update(sharding=self.sharding)

    @property
    def aval(self) -> ShapedArray:
        """The type of an array that is like this: 64-bit types are narrowed where x64 is off."""
        stated = self._stated
        if self._exact:
            return stated
        dtype = dtypes.canonicalize_dtype(stated.dtype, allow_extended_dtype=True)
        return stated if dtype == stated.dtype else stated.update(dtype=dtype)

    @property
    def format(self) -> Format:
        """The array's sharding, with its memory layout."""
        return Format(self._layout, self.sharding)

    @property
    def sharding(self):
        """The array's sharding; a PartitionSpec uses the mesh of `set_mesh`."""
        if not isinstance(self._sharding, PartitionSpec):
            return self._sharding
        if contexts.concrete is None and contexts.abstract is None:
            raise TypeError(
                "When specifying PartitionSpec to `ShapeDtypeStruct`, the context mesh cannot be "
                f"empty: got {self._sharding}. Set one with gpuarray.set_mesh(mesh), or give "
                "NamedSharding(mesh, spec)."
            )
        return sharding_in_context(self._sharding, "ShapeDtypeStruct", "sharding", entered=False)

    shape = property(lambda self: self._stated.shape)
    dtype = property(lambda self: self._stated.dtype)
    weak_type = property(lambda self: self._stated.weak_type)
    ndim = property(lambda self: self._stated.ndim)
    size = property(lambda self: self._stated.size)

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The shape and dtype of an array, or of anything that has them.

        >>> import gpuarray.numpy as gnp
        >>> ShapeDtypeStruct.like(gnp.ones((2, 3)))
        ShapeDtypeStruct(shape=(2, 3), dtype=float32)
        """
        aval = aval_of(x)
        if isinstance(x, cls):
            return x.update()
        # A default place is not a request: record it only for committed arrays.
        committed = isinstance(x, ArrayImpl) and x._place.committed
        sharding = x.sharding if committed else _told(aval)
        return cls(aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type)

    def update(self, **changes) -> ShapeDtypeStruct:
        """The same struct with some fields changed."""
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "sharding": self._sharding if self._layout is None else self.format,
            "weak_type": self.weak_type,
            "is_ref": self.is_ref,
        } | changes
        return ShapeDtypeStruct(fields.pop("shape"), fields.pop("dtype"), **fields)

    # As arrays have it.
    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        sharding = f", sharding={self._sharding}" if self._sharding is not None else ""
        layout = f", format={self._layout}" if self._layout is not None else ""
        ref = ", is_ref=True" if self.is_ref else ""
        return (
            f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{sharding}{layout}{weak}"
            f"{ref})"
        )

    def __eq__(self, other) -> bool:
        if not isinstance(other, ShapeDtypeStruct):
            return False
        mine = self._sharding, self._layout, self.is_ref
        its = other._sharding, other._layout, other.is_ref
        return self._stated is other._stated and mine == its

    def __hash__(self) -> int:
        return hash((self._stated, self._sharding, self._layout, self.is_ref))


def check_stated(leaves: Sequence[Any], info: Any) -> None:
    """Refuse structs over a mesh of another size than that in context."""
    around = contexts.abstract
    for name, x in zip(info.arg_names, leaves, strict=True):
        sharding = x.sharding if isinstance(x, ShapeDtypeStruct) else None
        if around is None or not isinstance(sharding, NamedSharding):
            continue
        if sharding.mesh.size != around.size:
            raise ValueError(
                f"Received incompatible devices for jitted computation. Got argument {name} of "
                f"{info.name} with shape {x.aval.str_short()} over {sharding.mesh}, and the mesh "
                f"in context is {around}. Give it a sharding over that, or trace the function "
                "outside of set_mesh."
            )


def _told(aval: ShapedArray) -> NamedSharding | None:
    """Return the sharding recorded in a type; None if the compiler decides."""
    # With only Explicit axes in the context mesh, types also record that a value is whole.
    around = contexts.abstract
    told = cuts_of(aval.layout) is not None or (around is not None and around.are_all_axes_explicit)
    return aval.sharding if told else None


def struct_of(aval: ShapedArray) -> ShapeDtypeStruct:
    """An aval as the public struct."""
    made = ShapeDtypeStruct(aval.shape, aval.dtype, sharding=_told(aval), weak_type=aval.weak_type)
    made._exact = True
    if aval.vma:  # inside of a shard_map
        made._stated = made._stated.update(layout=with_names(made._stated.layout, aval.vma))
    return made


def with_references(args: Any) -> Any:
    """Arguments to trace for, with Refs in place of the structs that represent them."""
    leaves, spec = tree.flatten_raw(args)
    stated = [isinstance(x, ShapeDtypeStruct) and x.is_ref for x in leaves]
    if not any(stated):
        return args
    # Tracing reads the value of a Ref only for its type.
    made = [
        Ref(x.update(is_ref=False)) if of_ref else x
        for x, of_ref in zip(leaves, stated, strict=True)
    ]
    return tree.unflatten_raw(spec, made)
