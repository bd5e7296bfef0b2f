"""Arguments by number and by name: `*_argnums`, `*_argnames`, and the names used in messages.

Floor 6. In: those options, and the signature of the function. Out: numbers and names, checked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gpuarray.core.avals import aval_of
from gpuarray.pytree import tree
from gpuarray.runtime import host


def indices(value, name: str) -> tuple[int, ...]:
    """The numbers that an option holds; TypeError for anything but integers."""
    if value is None:
        return ()
    # bool is an int in Python, but static_argnums=True is a mistake.
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return (int(value),)
    if isinstance(value, Iterable) and not isinstance(value, str):
        items = tuple(value)
        if all(isinstance(i, (int, np.integer)) for i in items):
            return tuple(int(i) for i in items)
    raise TypeError(f"{name} must be an int or a sequence of ints, got {value!r}")


def names_in(value, name: str) -> tuple[str, ...]:
    """The names that an option holds; TypeError for anything but strings."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    items = tuple(value) if isinstance(value, Iterable) else None
    if items is not None and all(isinstance(i, str) for i in items):
        return items
    raise TypeError(f"{name} must be a str or an iterable of str, got {value!r}")


def nums_and_names(sig: inspect.Signature | None, argnums: Any, argnames: Any, what: str):
    """Numbers and names of the same parameters: where the user gives one of the two, both are
    known.
    """
    nums, names = indices(argnums, f"{what}_argnums"), names_in(argnames, f"{what}_argnames")
    # Without a signature one cannot be found from the other.
    if sig is None:
        if what == "donate" and names:
            raise ValueError(
                "Getting the signature of function failed. Pass donate_argnums instead of "
                "donate_argnames."
            )
        return nums, names
    params = list(sig.parameters.values())
    positional = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keywords = [p.name for p in params if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    # With *args or **kwargs any number or name may be right.
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in params)
    takes_names = any(p.kind is p.VAR_KEYWORD for p in params)
    # Numbers that no call can have.
    for n in nums:
        if not takes_any and not -len(positional) <= n < len(positional):
            raise ValueError(
                f"jitted function has {what}_argnums={nums}, but only accepts {len(positional)} "
                "positional arguments."
            )
    # Names that no call can have.
    named = {p.name for p in params}
    for name in names:
        if name not in keywords and (name in named or not takes_names):
            raise ValueError(
                f"jitted function has invalid argname {{{name!r}}} in {what}_argnames. Function "
                f"does not take these args: it takes {', '.join(keywords) or 'none by name'}."
            )
    # If only one was given, the other follows from it; if both were given they are used unchanged.
    if argnames is None:
        names = tuple(
            positional[n]
            for n in nums
            if -len(positional) <= n < len(positional) and positional[n] in keywords
        )
    elif argnums is None:
        nums = tuple(positional.index(n) for n in names if n in positional)
    return nums, names


def leaf_names(
    signature: inspect.Signature | None,
    args: tuple,
    kwargs: dict,
    fixed: frozenset[int] = frozenset(),
) -> list[str]:
    """A name for every leaf, for messages: the parameter's, with the path inside the argument.

    Parameters
    ----------
    fixed :
        Positions that `args` leaves out, because they are static.
    """
    params = [] if signature is None else list(signature.parameters.values())
    known = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = next((p.name for p in params if p.kind is p.VAR_POSITIONAL), None)

    def name(i: int) -> str:
        if i < len(known):
            return known[i]
        return f"args[{i}]" if variadic is None else f"{variadic}[{i - len(known)}]"

    names: list[str] = []
    positions = [i for i in range(len(args) + len(fixed)) if i not in fixed]
    for i, arg in zip(positions, args, strict=True):
        names += [name(i) + path for path in tree.leaf_paths(arg)]
    # By name, in the order in which a dict is flattened.
    for key in sorted(kwargs):
        names += [key + path for path in tree.leaf_paths(kwargs[key])]
    return names


def explain_bad_leaf(
    fun: Callable, signature: inspect.Signature | None, args: tuple, kwargs: dict, error: Exception
) -> None:
    """Raise an error that names the first argument that is not an array; `error` does not."""
    for name, x in zip(
        leaf_names(signature, args, kwargs),
        tree.flatten_raw((args, kwargs))[0],
        strict=True,
    ):
        try:
            # All together failed: try them one by one.
            host.from_host(x, aval_of(x))
        except OverflowError:
            raise OverflowError(
                "An overflow was encountered while parsing an argument to a jitted "
                f"computation, whose argument path is {name}. Got {type(x)} with value {x}; "
                "int32 holds up to 2147483647. Use a float, or switch on 64-bit types "
                "(jax_enable_x64)."
            ) from error
        except TypeError as reason:
            if hasattr(x, "__jax_array__"):
                raise ValueError(
                    "Triggering __jax_array__() during abstractification is no longer "
                    f"supported. Call it before, or register {type(x)}, which was passed to "
                    f"the function at path {name}, as a pytree."
                ) from None
            # A leaked tracer, for example, has a type; `own` gives the reason.
            if hasattr(x, "aval"):
                raise TypeError(
                    f"Argument '{name}' of shape {x.aval.str_short()} of type {type(x)} is not "
                    f"a valid JAX type. {reason}"
                ) from None
            raise TypeError(
                f"Error interpreting argument to {fun} as an abstract array. The "
                f"problematic value is of type {type(x)} and was passed to the function at "
                f"path {name}. A jitted function takes arrays and containers of arrays: mark "
                "other arguments static with static_argnums or static_argnames, or register "
                "their class as a pytree."
            ) from None


def signature_of(fun: Any) -> inspect.Signature | None:
    """The signature of a function; None for those that have none, as some builtins."""
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None


def hashable(value: Any, where: int | str) -> Any:
    """Return a static argument; raise ValueError if it has no hash."""
    try:
        hash(value)
    except TypeError as error:
        name = f"argument {where}" if isinstance(where, int) else f"argument {where!r}"
        raise ValueError(
            "Non-hashable static arguments are not supported. An error occurred while trying to "
            f"hash an object of type {type(value)}, {value}, passed as {name}. The error was: "
            f"TypeError: {str(error).rstrip('.')}. Pass a tuple instead of a list, or leave the "
            "argument traced."
        ) from None
    return value


def uncomparable(name: str, statics: tuple, error: Exception) -> ValueError:
    """The error for static arguments whose comparison with earlier ones failed."""
    return ValueError(
        f"static arguments should be comparable using __eq__, and among those of {name}, "
        f"{dict(statics)}, are some that are not: it raised {type(error).__name__}: {error}"
    )


class Statics(tuple):
    """Static arguments, with their places: alike if values and types are.

    1, 1.0 and True are equal, and so are 0.0 and -0.0; programs made for them differ.
    """

    __slots__ = ()
    __hash__ = tuple.__hash__

    def __eq__(self, other: object) -> bool:
        # Types first: values of different types may not be comparable, as np.int64(1) and (2, 0).
        return isinstance(other, Statics) and _alike(self, other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def _alike(a: Any, b: Any) -> bool:
    """Whether values are of the same types, inside of tuples too, and numbers written alike."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_alike, a, b))
    if type(a) is not type(b):
        return False
    # 0.0 == -0.0, of Python's numbers and NumPy's.
    return repr(a) == repr(b) if isinstance(a, float | complex | np.generic) else True
