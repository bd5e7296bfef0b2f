"""Which arguments the options `*_argnums` and `*_argnames` of the transforms mean.

Floor 6. In: those options and the signature of the function. Out: numbers and names, checked.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import numpy as np


def indices(value, name: str) -> tuple[int, ...]:
    """The numbers that an option holds; TypeError for anything but integers."""
    if value is None:
        return ()
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return (int(value),)
    if isinstance(value, Iterable) and not isinstance(value, str):
        items = tuple(value)
        if all(isinstance(i, (int, np.integer)) for i in items):
            return tuple(int(i) for i in items)
    raise TypeError(f"{name} must be an int or a sequence of ints, got {value!r}")


def names(value, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    items = tuple(value)
    if all(isinstance(i, str) for i in items):
        return items
    raise TypeError(f"{name} must be a str or an iterable of str, got {value!r}")


def nums_and_names(sig: inspect.Signature | None, nums, names, what: str):
    """Numbers and names of the same parameters: whichever the user gives, both are known."""
    if sig is None:
        return nums, names
    params = list(sig.parameters.values())
    positional = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keywords = [p.name for p in params if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in params)
    takes_names = any(p.kind is p.VAR_KEYWORD for p in params)
    for n in nums:
        if not takes_any and not -len(positional) <= n < len(positional):
            raise ValueError(
                f"jitted function has {what}_argnums={nums}, but only accepts {len(positional)} "
                f"positional "
                "arguments."
            )
    for name in names:
        if not takes_names and name not in keywords:
            raise ValueError(
                f"jitted function has invalid argname {{{name!r}}} in {what}_argnames. "
                f"Function does not take these args: it takes "
                f"{', '.join(keywords) or 'none by name'}."
            )
    if nums and not names:
        names = tuple(
            positional[n]
            for n in nums
            if -len(positional) <= n < len(positional) and positional[n] in keywords
        )
    elif names and not nums:
        nums = tuple(positional.index(n) for n in names if n in positional)
    return nums, names
