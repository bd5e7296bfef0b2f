"""Operations that run once for all devices: calls of Python functions, draws of one generator.

Floor 2. In: an operation, and operands that all devices have whole. Out: a collective that an
engine runs as that operation on the operands of the first device, with its results given to all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuarray.core.effects import Effect, HasEffect
from gpuarray.core.primitive import NOT_DIFFERENTIABLE, NOT_LINEAR, Kind, Primitive, Sentinel


def _avals(*avals, operation: Primitive, given: dict, axes: tuple):
    return operation.out_avals(avals, given)


def _unbound(*_, operation: Primitive, **__):
    raise RuntimeError(f"{operation.name} is to run once for several devices, and there is one")


def _once(name: str, effect: HasEffect) -> Primitive:
    return Primitive(
        name,
        Kind.COLLECTIVE,
        multiple_results=True,
        aval=_avals,
        numpy=_unbound,
        jvp=NOT_DIFFERENTIABLE,
        transpose=NOT_LINEAR,
        batch=Sentinel("NOT_BATCHED", "it is made behind all transformations"),
        effect=effect,
    )


def _effect(*, operation: Primitive, given: dict, **_: Any) -> Effect:
    named = operation.effect
    return named(**given) if callable(named) else Effect()


#: Made where a program is partitioned, behind all transformations.
once_p, once_with_effect_p = _once("once", False), _once("once_with_effect", _effect)


def once(operation: Primitive, operands: Sequence[Any], given: dict, axes: Sequence) -> list:
    """Bind an operation with parameters `given` so that it runs once for all devices."""
    prim = once_with_effect_p if operation.effect else once_p
    return prim.bind(*operands, operation=operation, given=given, axes=tuple(axes))
