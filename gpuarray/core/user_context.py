"""Users' values on which traces depend: functions are traced once for each of them.

Floor 1. In: values that can be compared and hashed. Out: context managers; the value is part of the
keys under which traces and compiled programs are kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator
from typing import Any

from gpuarray import config
from gpuarray.core.mesh import contexts


class UserContext:
    """A value of this thread, `value`, which `with context(value):` replaces for a block."""

    def __init__(self, default: Hashable = None):
        self._default = default

    @property
    def value(self) -> Any:
        """The value that holds here."""
        # The latest one, which is the innermost.
        for context, _, value in reversed(contexts.users):
            if context is self:
                return value
        return self._default

    def get_global(self) -> Any:
        """Return the value outside of `with` blocks."""
        return self._default

    def set_global(self, new_value: Hashable) -> None:
        """Set the value outside of `with` blocks, in all threads."""
        self._default = _hashable(new_value)
        # As in blocks, programs made for 1, 1.0 and True differ.
        config.set_shared(self, (type(new_value), new_value))

    @contextlib.contextmanager
    def __call__(self, new_value: Hashable) -> Iterator[None]:
        """Replace the value for a `with` block or a decorated function."""
        _hashable(new_value)
        # Programs made for 1, 1.0 and True differ.
        others = tuple(entry for entry in contexts.users if entry[0] is not self)
        with contexts.changed(users=(*others, (self, type(new_value), new_value))):
            yield

    def __repr__(self) -> str:
        return f"UserContext(value={self.value!r})"


def _hashable(value: Hashable) -> Hashable:
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"the value of a context must be hashable, got {value!r} of type {type(value)}: it is "
            "part of the keys of what is traced. Give a tuple instead of a list."
        ) from None
    return value


def make_user_context(default_value: Hashable = None) -> UserContext:
    """Make a context whose value functions may depend on: they are traced again for another one.

    >>> import gpuarray as ga
    >>> scale = ga.make_user_context(1)
    >>> f = ga.jit(lambda x: x * scale.value)
    >>> f(3), scale.value
    (Array(3, dtype=int32, weak_type=True), 1)
    >>> with scale(2):
    ...     f(3)
    Array(6, dtype=int32, weak_type=True)
    """
    return UserContext(default_value)
