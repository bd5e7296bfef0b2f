"""The setting numpy_rank_promotion, for operands of different ranks.

Floor 6. In: the operands of a function that broadcasts them. Out: an error or a warning, where the
setting wants one.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gpuarray import config
from gpuarray.sites import is_users_expression


def check_rank_promotion(name: str, shapes: Sequence[tuple[int, ...]]) -> None:
    """Warn or raise if the setting numpy_rank_promotion requires it."""
    setting = config.state.numpy_rank_promotion
    listed = " ".join(str(s) for s in shapes if s)
    if setting == "raise":
        raise ValueError(
            f"Operands could not be broadcast together for {name} on shapes {listed} and with the "
            "config option jax_numpy_rank_promotion='raise'. Add axes with reshape or x[None], or "
            "set the option to 'allow'."
        )
    if setting == "warn":
        warnings.warn(
            f"Following NumPy automatic rank promotion for {name} on shapes {listed}. Set the "
            "jax_numpy_rank_promotion config option to 'allow' to disable this warning.",
            stacklevel=4,
        )


def check_ranks(
    *parameters: str, **cores: int
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that applies `numpy_rank_promotion` to a function made of several operations.

    The setting does not apply to the library's own operations, so the user's operands are checked
    before the first of them.

    Parameters
    ----------
    parameters :
        The names of those that broadcast together. One named `shape` is a shape; `*name` is a
        sequence of operands.
    cores :
        Those with axes at their end that do not broadcast, and how many these are at most.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        code = inspect.unwrap(function).__code__
        names = code.co_varnames[: code.co_argcount]

        @functools.wraps(function)
        def call(*xs: Any, **named: Any) -> Any:
            if config.state.numpy_rank_promotion != "allow" and is_users_expression():
                given = dict(zip(names, xs, strict=False)) | named
                shapes = list(_shapes(given, parameters, cores))
                if len({rank for _, rank in shapes}) > 1:
                    check_rank_promotion(function.__name__, [shape for shape, _ in shapes])
            return function(*xs, **named)

        return call

    return decorate


def _shapes(
    given: dict[str, Any], parameters: tuple[str, ...], cores: dict[str, int]
) -> Iterator[tuple[tuple[int, ...], int]]:
    """The shapes of the operands that are there, and how many axes of each broadcast."""
    for name in (*parameters, *cores):
        found = given.get(name.lstrip("*"))
        if found is None:
            continue
        if name == "shape":
            shapes = [tuple(found) if np.iterable(found) else (found,)]
        elif name.startswith("*") and not hasattr(found, "shape"):
            shapes = [np.shape(x) for x in found]
        else:
            shapes = [np.shape(found)[name.startswith("*") :]]
        for shape in shapes:
            if shape:  # numbers broadcast without an axis
                yield shape, len(shape) - min(cores.get(name, 0), len(shape))
