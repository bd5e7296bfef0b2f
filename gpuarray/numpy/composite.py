"""Functions of several primitives that run as one where that is faster.

Floor 6. In: a function of arrays. Out: the same function. On small arrays it runs compiled, one
call for all its primitives; also over several devices, where intermediate values then need not be
replicated. On big or pending arrays its primitives are recorded, so that they fuse with preceding
and following ones; in a traced function it is one `jit` equation, or its primitives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import config
from gpuarray.core.trace import is_base
from gpuarray.core.tracebacks import clean
from gpuarray.core.value import Array
from gpuarray.functions.jit import jit
from gpuarray.runtime.array import ArrayImpl

_state = config.state


def composite(
    function: Callable[..., Any] | None = None,
    *,
    static: tuple[str, ...] = (),
    inline: bool = False,
    eager: bool = True,
    name: str | None = None,
) -> Any:
    """Make a function of arrays a unit.

    Parameters
    ----------
    static :
        Arguments that are not arrays, given by keyword.
    inline :
        Whether a traced function shows the primitives instead of the unit.
    eager :
        Whether small arrays run compiled (not worth it for a single primitive).
    name :
        The name of the unit, if it is not the function's name.
    """
    if function is None:
        return functools.partial(composite, static=static, inline=inline, eager=eager, name=name)
    # Printed programs show this name.
    function.__name__ = name or function.__name__
    # Wrapped once, at import; traced when a small array first comes.
    compiled = jit(function, static_argnames=static or None)
    # A function of the user's own operands (`promotion.binary`) has such a check; compiled, it has
    # none.
    check = getattr(function, "check", None)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if check is not None:
                check(*args)
            # Compiling pays only for small ready arrays. Big or pending ones are recorded, so that
            # they fuse with other operations.
            limit = _state.lazy_threshold
            for a in args:
                if type(a) is ArrayImpl:
                    if a._place.is_spread and is_base():
                        return compiled(*args, **kwargs)
                    # Pending, or big.
                    if a._work is not None or a.aval.size >= limit:
                        return function(*args, **kwargs)
                elif not isinstance(a, _PLAIN):  # lists and the like: the function raises the error
                    return function(*args, **kwargs)
            # Within a trace the unit is one `jit` equation, unless `inline` says to show its
            # primitives.
            if not (eager if is_base() else not inline):
                return function(*args, **kwargs)
            return compiled(*args, **kwargs)
        except Exception as error:
            # A boundary of tracebacks, without the cost of another function.
            clean(error)
            raise

    return call


# Arguments of a compiled unit: None represents an omitted optional argument.
_PLAIN = (Array, np.generic, bool, int, float, complex, type(None))
