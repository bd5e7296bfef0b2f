"""Side effects of operations, as values: what `Graph.effects` holds.

Floor 1. In: the parameters of an equation. Out: an Effect. Two of one class are equal, so that sets
of effects say which kinds there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class Effect:
    """Base of the classes by which programs name a side effect."""

    def __str__(self) -> str:
        return type(self).__name__.removesuffix("Effect")


class _Kind(Effect):
    """An effect of which there is one kind."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class DebugEffect(_Kind):
    """What `debug.print` and `debug.callback` have: it may happen at any time.

    >>> import gpuarray as ga
    >>> program = ga.make_jaxpr(lambda x: ga.debug.print("{}", x))(1.0)
    >>> any(isinstance(e, ga.debug.DebugEffect) for e in program.effects)
    True
    """


class OrderedDebugEffect(_Kind):
    """What they have with `ordered=True`: it happens in the order of the program.

    >>> import gpuarray as ga
    >>> str(ga.debug.OrderedDebugEffect())
    'OrderedDebug'
    """


class IOEffect(_Kind):
    """What `io_callback` has."""


class OrderedIOEffect(_Kind):
    """What `io_callback` has with `ordered=True`."""


def refuse_io(effects: Iterable[Effect], where: str) -> None:
    """Refuse effects of `io_callback` where rows that do not take part would have them, too."""
    if any(isinstance(e, (IOEffect, OrderedIOEffect)) for e in effects):
        raise NotImplementedError(
            f"IO effect not supported in {where}: the rows are computed together, so the "
            "callback would be called for those that do not take this way. Map over the rows with "
            "lax.map, or call it outside."
        )


#: What `Primitive.effect` is: whether there is one, or a function of the parameters that names it.
HasEffect = bool | Callable[..., Effect]


def debug_effect(*, effect: str = "", ordered: bool = False, **_: Any) -> Effect:
    """The effect of a callback without results."""
    return OrderedDebugEffect() if ordered or effect == "OrderedDebugEffect" else DebugEffect()


def io_effect(*, ordered: bool, **_: Any) -> Effect:
    """The effect of a callback with results."""
    return OrderedIOEffect() if ordered else IOEffect()
