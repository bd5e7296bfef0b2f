"""Places in a user's program: which line recorded an operation, and in which named scopes.

Floor 0: imports nothing of gpuarray. In: stack frames. Out: `Site`s, for error messages, printed
graphs and `explain`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import CodeType

#: Where this library's files are.
PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Libraries that call back into gpuarray: their frames do not help a user to find the place.
_THROUGH = tuple(f"-packages{os.sep}{p}{os.sep}" for p in ("numpy", "opt_einsum"))
# The standard library, apart from packages installed in one of its folders.
_STANDARD = os.path.dirname(os.__file__) + os.sep
_INSTALLED = (_STANDARD + "site-packages" + os.sep, _STANDARD + "dist-packages" + os.sep)
#: Files of ours, and names of texts that are generated.
_OURS = (PACKAGE, "<frozen ", "<plan>", "<fast>")
# Source file name -> is it ours (or a library in between)? Asked at every recorded operation.
_inside: dict[str, bool] = {}


class _Excluded(list):
    """Files and folders, registered by libraries, whose frames do not help a user either."""

    def append(self, path: str) -> None:
        super().append(path)
        _inside.clear()

    def remove(self, path: str) -> None:
        super().remove(path)
        _inside.clear()


excluded: list[str] = _Excluded()


def is_hidden(filename: str) -> bool:
    """Whether tracebacks leave a source file out: it is this library's, or one of `excluded`."""
    return filename.startswith((PACKAGE, *excluded))


def is_standard(filename: str) -> bool:
    """Whether a source file is of Python's standard library."""
    return filename.startswith(_STANDARD) and not filename.startswith(_INSTALLED)


def is_inside(filename: str) -> bool:
    """Whether a source file belongs to this library, or to one that calls back into it.

    The standard library does: `contextlib` and `functools` call the functions they decorate.
    """
    known = filename.startswith((*_OURS, *excluded)) or is_standard(filename)
    known = known or any(p in filename for p in _THROUGH)
    if len(_inside) >= 4096:  # notebooks name every cell
        _inside.clear()
    _inside[filename] = known
    return known


class Site:
    """A place in a user's program; its line number is computed on demand."""

    __slots__ = ("_code", "_lasti")

    def __init__(self, code: CodeType, lasti: int):
        self._code = code
        self._lasti = lasti

    @property
    def code(self) -> CodeType:
        return self._code

    @property
    def lasti(self) -> int:
        return self._lasti

    @property
    def filename(self) -> str:
        return self._code.co_filename

    @property
    def function(self) -> str:
        # Without the enclosing functions, which the line number already identifies.
        return self._code.co_qualname.rpartition("<locals>.")[2]

    @property
    def line(self) -> int:
        # Offsets of instructions, in order, with the lines they were compiled from.
        for start, end, line in self._code.co_lines():
            if start <= self._lasti < end and line is not None:
                return line
        return self._code.co_firstlineno

    @property
    def scope(self) -> str:
        """The names of the scopes around it, from the outermost: 'model/layer'; '' without any."""
        return ""

    def transposed(self) -> Site:
        """The same place for the transposed equations: its scopes say so where they say `jvp`."""
        return self

    def within(self, scope: str) -> Site:
        """The same place inside of more scopes."""
        names = f"{scope}/{self.scope}".strip("/")
        return ScopedSite(self._code, self._lasti, names) if names else self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Site):
            return NotImplemented
        same = self._code is other._code and self._lasti == other._lasti
        return same and self.scope == other.scope

    def __hash__(self) -> int:
        # Code objects hash by their contents, which takes long; they compare here by identity.
        return hash((id(self._code), self._lasti))

    def __iter__(self):
        """Unpack as `filename, line, function`."""
        return iter((self.filename, self.line, self.function))

    def __str__(self) -> str:
        return f"{os.path.basename(self.filename)}:{self.line} ({self.function})"

    def __repr__(self) -> str:
        return f"Site({self.filename}:{self.line} ({self.function}))"


class ScopedSite(Site):
    """A place that was reached inside of named scopes."""

    __slots__ = ("_scope",)

    def __init__(self, code: CodeType, lasti: int, scope: str):
        super().__init__(code, lasti)
        self._scope = scope

    @property
    def scope(self) -> str:
        return self._scope

    def transposed(self) -> Site:
        around, jvp, inside = self._scope.partition("jvp(")
        if not jvp or "transpose(" in around:
            return self
        first, slash, rest = inside.partition("/")
        scope = f"{around}transpose(jvp({first}){slash}{rest}"
        return ScopedSite(self._code, self._lasti, scope)

    def __str__(self) -> str:
        return f"{super().__str__()} in {self._scope}"


#: The names of the scopes a thread is in, by the thread's number: empty if scopes are not used.
scopes: dict[int, str] = {}


def enter_scope(scope: str) -> str:
    """Set the scope in which this thread records ('' for none); return the previous one."""
    thread = threading.get_ident()
    before = scopes.get(thread, "")
    if scope:
        scopes[thread] = scope
    else:
        scopes.pop(thread, None)
    return before


def current_scope() -> str:
    """The scope that this thread is in."""
    return scopes.get(threading.get_ident(), "")


# Per thread, since each thread binds its own equations.
class _Replay(threading.local):
    site: Site | None = None


#: The place of the operation that a function which binds old equations again is at.
replaying = _Replay()
# The code of functions marked by `replays`: found on the stack, they end the search. By identity:
# to compare codes takes longer than all else that is done for a frame.
_replayers: dict[int, CodeType] = {}


def replays(fun: Callable) -> Callable:
    """Mark a function that sets `replaying`: operations recorded below it take their place from
    there.
    """
    _replayers[id(fun.__code__)] = fun.__code__
    return fun


def user_frame() -> Site:
    """Return the innermost stack frame that is outside gpuarray, as a `Site`.

    Cheap enough for every recorded operation: one dict lookup a frame, no line numbers. When all
    frames are gpuarray's own (its command line), the outermost one is returned. Where an operation
    is recorded because an older one is replayed (under a transformation), the older one's place.
    """
    frame = sys._getframe(1)
    known = _inside.get
    older = replaying.site
    while True:
        name = frame.f_code.co_filename
        inside = known(name)
        if inside is None:
            inside = is_inside(name)
        # Reached from the replay, not from a user's function that it calls.
        if older is not None and id(frame.f_code) in _replayers:
            return older
        back = frame.f_back
        if not inside or back is None:
            # `scopes` is empty in most programs, which costs one test.
            if scopes and (scope := scopes.get(threading.get_ident())):
                return ScopedSite(frame.f_code, frame.f_lasti, scope)
            return Site(frame.f_code, frame.f_lasti)
        frame = back


#: Rooms and files whose frames lie between the line that says `x + y` and the recording.
_ON_THE_WAY = tuple(
    PACKAGE + os.path.join(*parts)
    for parts in (
        ("core", ""),
        ("lax", ""),
        ("runtime", ""),
        ("transforms", ""),
        ("numpy", "composite.py"),
        ("numpy", "dispatch.py"),
        ("numpy", "promotion.py"),
        ("numpy", "selection.py"),
        ("numpy", "ufunc.py"),
        ("numpy", "ufuncs.py"),
    )
)


#: Files through which a user's call reaches a public function: methods of arrays, decorators.
_WRAPPERS = tuple(PACKAGE + os.path.join(*p) for p in (("core", "value.py"), ("lax", "ranks.py")))


def is_users_expression() -> bool:
    """Whether the current operation was written in a user's program, and not in a function of this
    library that consists of several: settings that forbid unintended effects (promotion, nan) apply
    only to the former.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        if not (name.startswith(_ON_THE_WAY) or is_standard(name)):
            break
        frame = frame.f_back
    return not is_inside(frame.f_code.co_filename)


def level_of_user() -> int:
    """The `stacklevel` with which the caller's warning names the innermost line outside this
    library: Python shows a warning once for each line.
    """
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        if not (is_inside(name) or is_standard(name)):
            break
        frame, level = frame.f_back, level + 1
    return level


def called_from_inside() -> bool:
    """Whether this library itself called the current public function: the first frame outside the
    files that calls pass through belongs to the library.
    """
    frame = sys._getframe(3)  # beyond the check of the argument
    public = (frame.f_code.co_filename, *_WRAPPERS)
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        if not (name in public or is_standard(name)):
            break
        frame = frame.f_back
    return is_inside(frame.f_code.co_filename)
