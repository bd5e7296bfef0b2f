"""Where an operation was recorded: the user's line, and the names of the scopes around it.

Floor 6. In: this thread. Out: the `source_info` of equations, and contexts that change it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from gpuarray import sites
from gpuarray.core.graph import SourceInfo
from gpuarray.names import explain_names as _explain_names

__all__ = [
    "NameStack",
    "SourceInfo",
    "current",
    "current_name_stack",
    "extend_name_stack",
    "new_name_stack",
    "new_source_info",
    "register_exclusion",
    "reset_name_stack",
    "set_name_stack",
    "summarize",
    "transform_name_stack",
    "user_context",
]


class NameStack(NamedTuple):
    """The names of scopes, from the outermost.

    >>> str(NameStack(("model",)) + NameStack(("layer",)))
    'model/layer'
    """

    stack: tuple[str, ...] = ()

    def extend(self, name: str) -> NameStack:
        """The names with one more inside."""
        return NameStack((*self.stack, name))

    def __add__(self, other: NameStack) -> NameStack:  # pyright: ignore[reportIncompatibleMethodOverride]
        return NameStack(self.stack + other.stack)

    def __len__(self) -> int:
        return len(self.stack)

    def __str__(self) -> str:
        return "/".join(self.stack)


def new_name_stack(name: str = "") -> NameStack:
    """A stack of one name, or an empty one.

    >>> from gpuarray.extend import source_info_util
    >>> str(source_info_util.new_name_stack("model"))
    'model'
    """
    return NameStack((name,) if name else ())


def current_name_stack() -> NameStack:
    """The names of the scopes that this thread is in.

    >>> import gpuarray as ga
    >>> from gpuarray.extend import source_info_util
    >>> with ga.named_scope("model"):
    ...     str(source_info_util.current_name_stack())
    'model'
    """
    return _split(sites.current_scope())


def _split(scope: str) -> NameStack:
    return NameStack(tuple(scope.split("/")) if scope else ())


@contextlib.contextmanager
def set_name_stack(name_stack: NameStack) -> Iterator[None]:
    """A context in which the names are these, whatever they were around it."""
    before = sites.current_scope()
    try:
        try:
            sites.enter_scope(str(name_stack))
            yield
        finally:
            sites.enter_scope(before)
    except BaseException:  # an interrupt (Ctrl-C) in the line above, perhaps
        sites.enter_scope(before)
        raise


def reset_name_stack():
    """A context without names."""
    return set_name_stack(NameStack())


@contextlib.contextmanager
def extend_name_stack(name: str) -> Iterator[NameStack]:
    """A context with one more name; it gives all of them."""
    names = current_name_stack().extend(name)
    with set_name_stack(names):
        yield names


@contextlib.contextmanager
def transform_name_stack(name: str) -> Iterator[NameStack]:
    """A context in which names are wrapped in that of a transformation: 'jvp(model/layer)'."""
    names = NameStack((f"{name}({current_name_stack()})",))
    with set_name_stack(names):
        yield names


def new_source_info() -> SourceInfo:
    """A source_info without a line."""
    return SourceInfo(None, "")


def current() -> SourceInfo:
    """The user's line that is running, and the names around it."""
    site = sites.user_frame()
    return SourceInfo(site, site.scope)


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """The line in words; a place has one frame, so `num_frames` makes no difference.

    >>> import gpuarray as ga
    >>> from gpuarray.extend import source_info_util
    >>> eqn = ga.make_jaxpr(lambda x: x * 2)(1.0).eqns[0]
    >>> "<lambda>" in source_info_util.summarize(eqn.source_info)
    True
    """
    site = source_info.site
    return "unknown" if site is None else f"{site.filename}:{site.line} ({site.function})"


@contextlib.contextmanager
def user_context(
    traceback: sites.Site | None, *, name_stack: NameStack | None = None
) -> Iterator[None]:
    """A context for repeating work recorded at a place, an equation's site: an error inside it
    names the place.

    >>> from gpuarray.extend import source_info_util
    >>> inner = source_info_util.new_name_stack("inner")
    >>> with source_info_util.user_context(None, name_stack=inner):
    ...     str(source_info_util.current_name_stack())
    'inner'
    """
    with set_name_stack(current_name_stack() if name_stack is None else name_stack):
        try:
            yield
        except Exception as error:
            if traceback is not None:
                error.add_note(f"The operation was recorded at {traceback}.")
            raise


def register_exclusion(path: str) -> None:
    """Treat frames of a file, or of the files in a folder, as a library's: source locations of
    operations and shortened tracebacks are those of its callers.
    """
    sites.excluded.append(path)


__getattr__ = _explain_names(__name__)
