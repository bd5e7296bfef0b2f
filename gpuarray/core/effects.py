"""Side effects of operations, as values: the elements of `Graph.effects`.

Floor 1. In: the parameters of an equation. Out: an Effect. Two effects of one class are equal, so
that a set of effects lists the kinds present.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class Effect:
    """Base of the classes that identify a side effect in programs."""

    def __str__(self) -> str:
        return type(self).__name__.removesuffix("Effect")


class _Kind(Effect):
    """An effect without parameters: all instances are equal."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class DebugEffect(_Kind):
    """The effect of `debug.print` and `debug.callback`: it may happen at any time.

    >>> import gpuarray as ga
    >>> program = ga.make_jaxpr(lambda x: ga.debug.print("{}", x))(1.0)
    >>> any(isinstance(e, ga.debug.DebugEffect) for e in program.effects)
    True
    """


class OrderedDebugEffect(_Kind):
    """The same with `ordered=True`: effects happen in program order.

    >>> import gpuarray as ga
    >>> str(ga.debug.OrderedDebugEffect())
    'OrderedDebug'
    """


class IOEffect(_Kind):
    """The effect of `io_callback`."""


class OrderedIOEffect(_Kind):
    """The effect of `io_callback` with `ordered=True`."""


def refuse_io(effects: Iterable[Effect], where: str) -> None:
    """Refuse effects of `io_callback` where rows that do not take part would have them, too."""
    if any(isinstance(e, (IOEffect, OrderedIOEffect)) for e in effects):
        raise NotImplementedError(
            f"IO effect not supported in {where}: the rows are computed together, so the "
            "callback would be called for those that do not take this way. Map over the rows with "
            "lax.map, or call it outside."
        )


#: The type of `Primitive.effect`: whether there is one, or a function of the parameters that gives
#: it.
HasEffect = bool | Callable[..., Effect]


def debug_effect(*, effect: str = "", ordered: bool = False, **_: Any) -> Effect:
    """The effect of a callback without results."""
    return OrderedDebugEffect() if ordered or effect == "OrderedDebugEffect" else DebugEffect()


def io_effect(*, ordered: bool, **_: Any) -> Effect:
    """The effect of a callback with results."""
    return OrderedIOEffect() if ordered else IOEffect()
