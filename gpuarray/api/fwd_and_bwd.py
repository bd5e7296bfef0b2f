"""The forward and backward pass of a function as two separate functions, each compiled once.

Floor 6. In: a function, and which of its arguments to differentiate. Out: `fwd`, which returns the
result and a pullback, and `bwd`, which takes that pullback and cotangents of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.api.vjp import vjp
from gpuarray.functions.jit import jit


def fwd_and_bwd(
    fun: Callable, argnums: int | Sequence[int], has_aux: bool = False, jitted: bool = True
) -> tuple[Callable, Callable]:
    """Two functions: `fwd(*args)` returns the result of `fun` and the residuals; `bwd(residuals,
    cotangents)` returns the cotangents of the arguments `argnums`.

    A jitted `vjp` inside a loop is compiled anew for each pullback; these are compiled once.

    Parameters
    ----------
    has_aux :
        Whether `fun` returns a pair whose second part is auxiliary; `fwd` then returns that last.
    jitted :
        Whether to compile both. (A compiled `bwd` of an uncompiled `fwd` would be compiled at each
        call.)

    Examples
    --------

    >>> import gpuarray as ga
    >>> fwd, bwd = ga.fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
    >>> y, residuals = fwd(2.0, 3.0)
    >>> bwd(residuals, 1.0)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    if not callable(fun):
        raise TypeError(f"fwd_and_bwd takes a function, got {fun!r} of type {type(fun).__name__}")
    single = not isinstance(argnums, Sequence)
    wanted = (argnums,) if single else tuple(argnums)

    def fwd(*args) -> tuple:
        for n in wanted:
            if not -len(args) <= n < len(args):
                raise ValueError(
                    "Positional argument indices must be at least -len(args) and less than "
                    f"len(args), but argnums has {n} where len(args) is {len(args)}."
                )
        # Only now the number of arguments is known, so negative numbers can be counted from the
        # end.
        places = [n % len(args) for n in wanted]

        def partial(*chosen):
            full = list(args)
            for n, value in zip(places, chosen, strict=True):
                full[n] = value
            return fun(*full)

        # A Pullback is a pytree, so a jitted `fwd` can return it and a jitted `bwd` take it.
        return vjp(partial, *(args[n] for n in places), has_aux=has_aux)

    def bwd(residuals: Any, cotangents: Any) -> Any:
        pulled = residuals(cotangents)
        return pulled[0] if single else pulled

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
