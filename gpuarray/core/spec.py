"""How the axes of an array are sharded over the named axes of a mesh, as plain values.

Floor 1. In: names of mesh axes. Out: `PartitionSpec` and `ManualAxisType`. Equal ones are the same
object, so that they compare and hash by identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, Self

from gpuarray.util import Interned


class Frozen:
    """A base for values that others share: their fields are set once, through `_with`."""

    __slots__ = ()

    @classmethod
    def _with(cls, **fields: Any) -> Any:
        made = object.__new__(cls)
        for name, value in fields.items():
            # Around `__setattr__` below, which refuses.
            object.__setattr__(made, name, value)
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete field {name!r}")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict) -> Self:
        return self


class _Unconstrained:
    """The layout of an array axis that is left to the compiler."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self):
        return _unconstrained, ()


UNCONSTRAINED = _Unconstrained()
_specs = Interned(4096)
_manual_types = Interned(1024)
_NOTHING: frozenset = frozenset()


def _unconstrained() -> _Unconstrained:
    return UNCONSTRAINED


def names_of(part: Any) -> tuple:
    """Return the mesh axes that an entry of a spec names, major first.

    >>> names_of(("x", "y")), names_of("x"), names_of(None)
    (('x', 'y'), ('x',), ())
    """
    if isinstance(part, tuple):
        return part
    return () if part is None or part is UNCONSTRAINED else (part,)


def _normal(part: Any) -> Any:
    # A tuple of one name is that name, so that equal specs compare equal.
    if isinstance(part, list):
        part = tuple(part)
    if isinstance(part, tuple):
        for name in part:
            if isinstance(name, (tuple, list)):
                raise ValueError(
                    "A tuple inside PartitionSpec cannot contain a nested tuple. Got partition: "
                    f"{part} and the nested tuple: {name}. Give the mesh axes of an axis in one "
                    "tuple, as in P(('x', 'y'), None)."
                )
        if len(part) <= 1:
            return part[0] if part else None
    return part


def _axes(what: str, axes: Any) -> frozenset:
    if not isinstance(axes, (set, frozenset)):
        raise TypeError(
            f"{what} should be of type `frozenset` or `set`, got {axes!r} of type {type(axes)}"
        )
    return frozenset(axes)


class PartitionSpec(Frozen):
    """The mesh axis (or axes) along which each axis of an array is split; None where it is not.

    Over the mesh axes `unreduced` a sum of the devices' arrays is still owed; `reduced` are those
    over which the gradient's is.

    >>> from gpuarray.sharding import PartitionSpec as P
    >>> P("x", None, ("y", "z"))
    P('x', None, ('y', 'z'))
    >>> P("x", unreduced={"y"})
    P('x', unreduced={'y'})
    """

    __slots__ = ("__weakref__", "partitions", "reduced", "unreduced")

    #: The layout of an axis that is left to the compiler.
    UNCONSTRAINED = UNCONSTRAINED

    #: The entries, one for each axis.
    partitions: tuple
    unreduced: frozenset
    reduced: frozenset

    def __new__(
        cls,
        *partitions: Any,
        unreduced: set | frozenset = _NOTHING,
        reduced: set | frozenset = _NOTHING,
    ) -> PartitionSpec:
        parts = tuple([_normal(part) for part in partitions])
        # By identity: almost all specs leave both at their default, and need no check.
        if unreduced is not _NOTHING or reduced is not _NOTHING:
            unreduced = _axes("unreduced argument of PartitionSpec", unreduced)
            reduced = _axes("reduced argument of PartitionSpec", reduced)
            _check(parts, unreduced, reduced)
        key = (parts, unreduced, reduced)
        # Specs are made at every call of some programs: a hit is one look-up.
        found = _specs.recent.get(key)
        if found is None:
            make = lambda: cls._with(partitions=parts, unreduced=unreduced, reduced=reduced)
            found = _specs.put(key, make)
        return found

    def __init_subclass__(cls, **_: Any) -> NoReturn:
        raise TypeError(
            "Subclassing `jax.P` is prohibited: equal PartitionSpecs are the same object"
        )

    def __iter__(self) -> Iterator[Any]:
        # Code that splits it into entries would lose the sums.
        self._only_parts("*spec", "*spec.partitions")
        return iter(self.partitions)

    def __len__(self) -> int:
        return len(self.partitions)

    def __getitem__(self, i):
        self._only_parts("spec[...]", "spec.partitions[...]")
        return self.partitions[i]

    def _only_parts(self, used: str, instead: str) -> None:
        if self.unreduced or self.reduced:
            raise ValueError(
                f"Using {used} is dangerous when PartitionSpec has non-empty unreduced/reduced "
                f"set. Please use {instead}; got {self}."
            )

    def __add__(self, other):
        if isinstance(other, PartitionSpec):
            return PartitionSpec(
                *self.partitions,
                *other.partitions,
                unreduced=self.unreduced | other.unreduced,
                reduced=self.reduced | other.reduced,
            )
        return self._beside(other, "__add__", self.partitions, other)

    def __radd__(self, other):
        return self._beside(other, "__radd__", other, self.partitions)

    def _beside(self, other: Any, method: str, left: Any, right: Any) -> Any:
        if not isinstance(other, tuple):
            return NotImplemented
        for owed in ("unreduced", "reduced"):
            if getattr(self, owed):
                raise TypeError(
                    f"other {other} cannot be of instance `tuple` when self {self} has {owed} in "
                    f"`{method}` of PartitionSpec."
                )
        return PartitionSpec(*left, *right)

    def index(self, value: Any) -> int:
        """The position of an entry; ValueError if it is not present."""
        return self.partitions.index(_normal(value))

    def count(self, value: Any) -> int:
        """The number of entries like `value`."""
        return self.partitions.count(_normal(value))

    def update(
        self, partitions: Any = None, unreduced: Any = None, reduced: Any = None
    ) -> PartitionSpec:
        """The same spec with the given fields replaced."""
        return PartitionSpec(
            *(self.partitions if partitions is None else partitions),
            unreduced=self.unreduced if unreduced is None else unreduced,
            reduced=self.reduced if reduced is None else reduced,
        )

    def to_lo(self) -> list[PartitionSpec]:
        """The specs of the arrays that a value with this spec consists of."""
        return [self]

    def to_tangent_spec(self) -> PartitionSpec:
        """The spec of a tangent of a value with this spec."""
        return self

    def to_ct_spec(self) -> PartitionSpec:
        """The spec of a cotangent: unreduced and reduced axes change places."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def __repr__(self) -> str:
        owed = [f"{n}={set(s)!r}" for n in ("unreduced", "reduced") if (s := getattr(self, n))]
        if not owed:
            return f"P{self.partitions}"
        return f"P({', '.join([*map(repr, self.partitions), *owed])})"

    def __reduce__(self):
        return _restored_spec, (self.partitions, self.unreduced, self.reduced)


P = PartitionSpec


def _check(parts: tuple, unreduced: frozenset, reduced: frozenset) -> None:
    split = {name for part in parts for name in names_of(part)}
    for what, axes in (("unreduced", unreduced), ("reduced", reduced)):
        if None in axes:
            raise ValueError(
                f"{what} cannot contain None. All elements in {what} should refer to the mesh axes."
            )
        if axes & split:
            raise ValueError(
                f"partitions cannot overlap with {what} axes passed to PartitionSpec. Got "
                f"partitions: {parts} and {what} axes: {axes}"
            )
    if unreduced & reduced:
        raise ValueError(
            "`unreduced` and `reduced` argument to PartitionSpec cannot overlap. Got unreduced: "
            f"{unreduced} and reduced: {reduced}"
        )


# Through `__new__`, so that a spec that was pickled is the same object again.
def _restored_spec(parts: tuple, unreduced: frozenset, reduced: frozenset) -> PartitionSpec:
    return PartitionSpec(*parts, unreduced=unreduced, reduced=reduced)


class ManualAxisType(Frozen):
    """The type of a value inside shard_map with respect to the manual mesh axes.

    Devices along the axes `varying` may hold different values; over `unreduced` a sum is still
    owed; `reduced` are those over which the gradient's is.

    >>> from gpuarray.sharding import ManualAxisType
    >>> ManualAxisType(varying={"x"}).varying
    frozenset({'x'})
    """

    __slots__ = ("__weakref__", "reduced", "unreduced", "varying")

    varying: frozenset
    unreduced: frozenset
    reduced: frozenset

    def __new__(
        cls,
        *,
        varying: set | frozenset = _NOTHING,
        unreduced: set | frozenset = _NOTHING,
        reduced: set | frozenset = _NOTHING,
    ) -> ManualAxisType:
        key = tuple(
            _axes(f"{what} argument of ManualAxisType", axes)
            for what, axes in (("varying", varying), ("unreduced", unreduced), ("reduced", reduced))
        )
        for what, axes in (("unreduced", key[1]), ("reduced", key[2])):
            # A value that differs between devices is neither unreduced nor reduced along that axis.
            if key[0] & axes:
                raise ValueError(
                    f"varying and {what} cannot have common mesh axes. Got varying={key[0]} and "
                    f"{what}={axes}"
                )
        make = lambda: cls._with(varying=key[0], unreduced=key[1], reduced=key[2])
        return _manual_types.put(key, make)

    def update(self, **kwargs: Any) -> ManualAxisType:
        """The same type with the given axes replaced."""
        same = {"varying": self.varying, "unreduced": self.unreduced, "reduced": self.reduced}
        return ManualAxisType(**{**same, **kwargs})

    def to_ct_mat(self) -> ManualAxisType:
        """The type of a cotangent: unreduced and reduced axes change places."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    @property
    def empty(self) -> bool:
        """Whether no axis is named: the same value everywhere, and no sum pending."""
        return not self.vur

    @property
    def vur(self) -> frozenset:
        """All axes that are named."""
        return self.varying | self.unreduced | self.reduced

    def invarying(self, mesh: Any) -> frozenset:
        """The manual axes of a mesh along which all devices hold the same value."""
        return frozenset(mesh.manual_axes) - self.vur

    def __repr__(self) -> str:
        return (
            f"ManualAxisType(varying={self.varying}, unreduced={self.unreduced}, "
            f"reduced={self.reduced})"
        )

    def __reduce__(self):
        return _restored_type, (self.varying, self.unreduced, self.reduced)


def _restored_type(varying: frozenset, unreduced: frozenset, reduced: frozenset) -> ManualAxisType:
    return ManualAxisType(varying=varying, unreduced=unreduced, reduced=reduced)
