"""The values of all settings, with thread-local overrides.

Floor 0. In: the table of settings (settings.py), the environment (read once, on import),
`config.update` and context managers. Out: `state`, whose plain attributes (`state.enable_x64`) are
this thread's values, and `state.trace_key`, one shared object for each combination of the settings
that change what is traced.

Reading is one attribute load, because every thread has a full copy of the values; a global update
rewrites the copies of all threads. A thread's own overrides win over global values.
"""

from __future__ import annotations

import collections
import contextlib
import difflib
import itertools
import logging
import operator
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gpuarray.settings import Setting as Setting
from gpuarray.settings import checked, from_environment, parse
from gpuarray.settings import settings as settings
from gpuarray.xla_settings import IDLE, XLA_SETTINGS


class TraceKey:
    """A combination of the settings that affect tracing; equal combinations are the same object.

    `context` is whatever else this thread's traces depend on (`set_context`). `canonical` and
    `promotions` are memos of functions that depend on these settings.
    """

    __slots__ = ("__weakref__", "canonical", "context", "promotions", "values")

    def __init__(self, values: tuple, context: Any = None):
        self.values = values
        self.context = context
        self.canonical: dict = {}
        self.promotions: dict = {}

    def __repr__(self) -> str:
        rows = zip(_TRACED, self.values, strict=True)
        changed = [f"{n}={v!r}" for n, v in rows if v != settings[n].default]
        return f"TraceKey({', '.join(changed)})"

    def differing(self, other: TraceKey) -> list[tuple[str, Any, Any]]:
        """Return the settings in which two keys differ, with the old and the new value."""
        rows = [*zip(_TRACED, self.values, other.values, strict=True)]
        rows.append(("context", self.context, other.context))
        return [row for row in rows if row[1] != row[2]]

    def differences(self, other: TraceKey) -> list[str]:
        """Return the settings in which two keys differ, as 'name: old -> new'."""
        return [f"{name}: {old!r} -> {new!r}" for name, old, new in self.differing(other)]


# Means "no value given", since None is a valid value.
_UNSET: Any = object()
# In the order of the table, as in TraceKey.values.
_TRACED = tuple(row.name for row in settings.values() if row.traced)
#: Keys that are in use, and the latest ones, which keep their memos.
_trace_keys: weakref.WeakValueDictionary[tuple, TraceKey] = weakref.WeakValueDictionary()
_latest_keys: collections.deque[TraceKey] = collections.deque(maxlen=64)
# Reentrant: a garbage collection while it is held may run code that takes it again.
_lock = threading.RLock()
# A forked child has only the forking thread: a lock held by another would never be released.
os.register_at_fork(after_in_child=_lock._at_fork_reinit)  # pyright: ignore[reportAttributeAccessIssue]
# The values for threads that do not override them; another dict after each change.
_global: dict[str, Any] = {row.name: row.default for row in settings.values()}
# Latest values of everything else that traces depend on in every thread.
_shared: tuple = ()


class _Thread:
    """One thread's settings: the values (shared with `state`), and which of them it overrides."""

    def __init__(self, values: dict[str, Any]):
        self.values = values
        # Stored with the values, so that one call changes everything.
        values.update(_overrides={}, _context=None)

    @property
    def overrides(self) -> dict[str, Any]:
        """The settings that this thread overrides; a new dict after each change."""
        return self.values["_overrides"]

    def refresh(
        self,
        names: Iterable[str],
        overrides: dict[str, Any] | None = None,
        context: Any = _UNSET,
    ) -> None:
        """Recompute some values and the trace key, after a change or to make one: all or nothing.

        Steps that may raise (an interrupt, too deep a recursion) come before any change.
        """
        values = self.values
        overrides = self.overrides if overrides is None else overrides
        context = values["_context"] if context is _UNSET else context
        after = {name: overrides.get(name, _global[name]) for name in names}
        # One object for equal combinations, so that caches compare keys by identity.
        key = tuple([after[name] if name in after else values[name] for name in _TRACED])
        seen = (context, _shared) if _shared else context
        found = _trace_keys.get((key, seen))
        if found is None:
            found = _trace_keys[key, seen] = TraceKey(key, seen)
            _latest_keys.append(found)
        values.update(after, _overrides=overrides, _context=context, trace_key=found)

    def stands_on(self) -> tuple:
        """The objects from which all other values follow, compared by identity."""
        return self.overrides, self.values["_context"], _global, _shared

    def override(self, given: dict[str, Any]) -> None:
        """Override these settings; `_UNSET` removes an override. All or nothing."""
        with _lock:
            both = {**self.overrides, **given}
            self.refresh(given, {name: v for name, v in both.items() if v is not _UNSET})


# All threads that have read a setting and still run: a global update rewrites their copies.
_threads: weakref.WeakSet[_Thread] = weakref.WeakSet()


class _State(threading.local):
    """This thread's settings as plain attributes, one for each row, and `trace_key`."""

    trace_key: TraceKey

    def __init__(self):
        with _lock:
            # Runs in each thread at its first read; the attributes are the values themselves.
            thread = _Thread(self.__dict__)
            thread.refresh(settings)
            self._thread = thread
            _threads.add(thread)

    if TYPE_CHECKING:  # a real __getattr__ would double the cost of every read

        def __getattr__(self, name: str) -> Any: ...


state = _State()


def set_context(context: Any) -> None:
    """Make this thread's traces depend on something else too, such as a mesh in context.

    It becomes part of `state.trace_key`, and costs nothing when it is not used.
    """
    with _lock:
        state._thread.refresh((), context=context)


def set_shared(name: Any, value: Any) -> None:
    """Make the traces of all threads depend on a value too, stored under any hashable name."""
    global _shared
    with _lock:
        _shared = (*(entry for entry in _shared if entry[0] is not name), (name, value))
        for thread in list(_threads):
            thread.refresh(())


def _unknown(name: str) -> str:
    plain = _plain(name)
    near = difflib.get_close_matches(plain, settings, 1, 0.6)
    hint = f" (did you mean {_public(near[0])!r}?)" if near else ""
    return f"Unrecognized config option: {name}{hint}"


def _plain(name: str) -> str:
    # The table's names have no prefix.
    return name.removeprefix("jax_").removeprefix("gpuarray_")


def _public(name: str) -> str:
    return "jax_" + name if settings[name].jax else name


class Config:
    """Global settings: read as attributes (`config.jax_enable_x64`), changed by `update`.

    Names may be written with or without JAX's prefix.
    """

    def __init__(self):
        # Past __setattr__, which refuses assignments.
        self.__dict__["_hooks"] = {}
        # `from gpuarray import config` may give the module or this object: both have `state`.
        self.__dict__["state"] = state
        self.__dict__["_xla_only"] = dict(XLA_SETTINGS)

    def update(self, name: str, value: Any) -> None:
        """Set a setting for all threads; inside an override, a thread keeps its own value.

        >>> config.update("jax_log_compiles", False)
        """
        plain = _plain(name)
        if plain in self._xla_only:
            _warn_xla_only(name)
            self._xla_only[plain] = value
            return
        if plain not in settings:
            raise AttributeError(_unknown(name))
        row = settings[plain]
        value = checked(row, value)
        _warn_idle(row, value)
        # Hooks may refuse the value, so they come first.
        for hook in self._hooks.get(plain, ()):
            hook(value)
        # Some settings set others along with them.
        names = (plain, *row.sets)
        try:
            _set_globally(names, value)
        except BaseException:  # an interrupt (Ctrl-C): all threads hear of it all the same
            _set_globally(names, value)
            raise

    def read(self, name: str) -> Any:
        """Return this thread's value of a setting.

        >>> config.read("jax_numpy_rank_promotion")
        'allow'
        """
        plain = _plain(name)
        if plain in settings:
            return getattr(state, plain)
        if plain in self._xla_only:
            return self._xla_only[plain]
        raise AttributeError(_unknown(name))

    # Libraries written for JAX call it by this name.
    _read = read

    def parse_flags_with_absl(self) -> None:
        """Take settings from the command line, up to `--`: `--jax_enable_x64=true`.

        The flags are absl's, but absl is not needed for them.

        >>> config.parse_flags_with_absl()
        """
        for flag in itertools.takewhile(lambda a: a != "--", sys.argv[1:]):
            name, given, text = flag.lstrip("-").partition("=")
            off = not given and name.startswith("nojax_")
            row = settings.get(_plain(name.removeprefix("no") if off else name))
            if row and flag.startswith("-") and name.removeprefix("no").startswith("jax_"):
                self.update(row.name, parse(row, text if given else str(not off)))

    def __getattr__(self, name: str) -> Any:
        return self.read("enable_x64" if name == "x64_enabled" else name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"settings cannot be assigned; write config.update({name!r}, {value!r}) instead"
        )

    def __dir__(self) -> list[str]:
        return ["read", "update", "values", *self.values]

    @property
    def values(self) -> dict[str, Any]:
        """All settings by their public names, as this thread sees them."""
        return {_public(name): getattr(state, name) for name in settings}

    def on_update(self, name: str, hook: Callable[[Any], None]) -> None:
        """Call `hook(new_value)` before `name` is set, globally or for a `with` block.

        It may raise to refuse the value.
        """
        self._hooks.setdefault(_plain(name), []).append(hook)

    def __repr__(self) -> str:
        rows = ", ".join(f"{n}={v!r}" for n, v in self.values.items())
        return f"Config({rows})"


def _set_globally(names: tuple[str, ...], value: Any) -> None:
    global _global
    with _lock:
        _global = {**_global, **dict.fromkeys(names, value)}
        for thread in list(_threads):
            thread.refresh(names)


def _warn_xla_only(name: str) -> None:
    why = next(group.why for group in IDLE if _plain(name) in group.defaults)
    warnings.warn(f"the setting {name!r} has no effect in gpuarray: {why}", stacklevel=3)


def _warn_idle(row: Setting, value: Any) -> None:
    if row.idle and value not in (row.default, "off"):
        warnings.warn(
            f"the setting {row.name}={value!r} has no effect in gpuarray: {row.idle}", stacklevel=3
        )


config = Config()


class _Override(contextlib.ContextDecorator):
    """Context manager and decorator that sets values for this thread; it may be re-entered."""

    def __init__(self, names: tuple[str, ...], value: Any):
        self._names = names
        self._value = value
        # As a stack, for each entry: the previous overrides, the previous values, and what those
        # values were computed from.
        self._entered: list[tuple[dict[str, Any], dict[str, Any], tuple]] = []

    def __enter__(self) -> None:
        thread = state._thread
        before = {name: thread.overrides.get(name, _UNSET) for name in self._names}
        values = {name: thread.values[name] for name in (*self._names, "_overrides", "trace_key")}
        try:
            thread.override(dict.fromkeys(self._names, self._value))
            self._entered.append((before, values, thread.stands_on()))
        except BaseException:  # Python does not call `__exit__`
            thread.values.update(values)
            raise

    def __exit__(self, *exc: object) -> None:
        try:
            self._leave()
        except BaseException:  # an interrupt (Ctrl-C)
            self._leave()
            raise
        finally:
            self._entered.pop()

    def _leave(self) -> None:
        thread = state._thread
        before, values, stands_on = self._entered[-1]
        with _lock:
            if all(map(operator.is_, stands_on, thread.stands_on())):
                # Nothing else was changed, so one call restores it: the recursion may be too deep
                # for more.
                thread.values.update(values)
            elif thread.overrides is not values["_overrides"]:
                thread.override(before)

    def _recreate_cm(self) -> _Override:  # for decorated functions, which threads may share
        return _Override(self._names, self._value)


class Context:
    """Makes thread-local overrides of a setting: `with enable_x64(True): ...`."""

    def __init__(self, name: str, default: Any = _UNSET, keyword: str = "new_val"):
        self._row = settings[name]
        self._keyword = keyword  # the name of the value, for calls by name
        # `with debug_nans():` turns a switch on; other settings need a value.
        self._default = True if default is _UNSET and self._row.kind is bool else default
        self.__name__ = name
        self.__doc__ = f"Override for a `with` block, in this thread. {self._row.doc}"

    def __call__(self, new_val: Any = _UNSET, **named: Any) -> _Override:
        if named.keys() - {self._keyword} or (named and new_val is not _UNSET):
            raise TypeError(f"{self.__name__}() takes one value, {self._keyword}, got {named}")
        new_val = named.get(self._keyword, new_val)
        if new_val is _UNSET:
            new_val = self._default
        if new_val is _UNSET:
            raise TypeError(f"{self.__name__}() needs the value to use, such as {self._example}")
        row = self._row
        value = checked(row, new_val)
        _warn_idle(row, value)
        # A refused value raises here, before any block is entered.
        for hook in config._hooks.get(row.name, ()):
            hook(value)
        return _Override((row.name, *row.sets), value)

    @property
    def _example(self) -> str:
        kind = self._row.kind
        return f"{self.__name__}({kind[-1] if isinstance(kind, (tuple, range)) else 'cpu'!r})"

    @property
    def value(self) -> Any:
        """The value in this thread."""
        return getattr(state, self._row.name)

    @property
    def name(self) -> str:
        """The name of the setting, as `config.update` takes it."""
        return _public(self._row.name)

    def get_global(self) -> Any:
        """Return the value outside of `with` blocks."""
        return _global[self._row.name]

    def set_global(self, value: Any) -> None:
        """Set the value for all threads, as `config.update` does."""
        config.update(self._row.name, value)

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self.__name__} is a context manager, not a flag; read "
            f"config.{_public(self._row.name)} or {self.__name__}.value"
        )

    def __repr__(self) -> str:
        return f"<context manager {self.__name__}, now {self.value!r}>"


# ---- one context manager for each setting that is often set for a block ----
allow_f16_reductions = Context("allow_f16_reductions")
array_garbage_collection_guard = Context("array_garbage_collection_guard")
auto_pcast = Context("auto_pcast")
check_tracer_leaks = Context("check_tracer_leaks")
checking_leaks = Context("check_tracer_leaks", True)
debug_infs = Context("debug_infs")
debug_key_reuse = Context("debug_key_reuse")
debug_nans = Context("debug_nans")
default_device = Context("default_device")
default_matmul_precision = Context("default_matmul_precision")
default_prng_impl = Context("default_prng_impl")
disable_jit = Context("disable_jit", True, "disable")
enable_checks = Context("enable_checks")
enable_custom_prng = Context("enable_custom_prng")
remove_size_one_mesh_axis_from_type = Context("remove_size_one_mesh_axis_from_type")
enable_x64 = Context("enable_x64")
explain_cache_misses = Context("explain_cache_misses")
fusion = Context("fusion")
legacy_prng_key = Context("legacy_prng_key")
log_compiles = Context("log_compiles")
no_execution = Context("no_execution")
no_tracing = Context("no_tracing")
numpy_dtype_promotion = Context("numpy_dtype_promotion")
numpy_rank_promotion = Context("numpy_rank_promotion")
oob = Context("oob")
permissive = Context("permissive")
softmax_custom_jvp = Context("softmax_custom_jvp")
strict = Context("strict")
thread_guard = Context("thread_guard")
threefry_partitionable = Context("threefry_partitionable")
transfer_guard = Context("transfer_guard")
transfer_guard_device_to_device = Context("transfer_guard_device_to_device")
transfer_guard_device_to_host = Context("transfer_guard_device_to_host")
transfer_guard_host_to_device = Context("transfer_guard_host_to_device")


# ---- messages ----
_log = logging.getLogger("gpuarray")


def _print_log(level: str, modules: str) -> None:
    """Print the messages of the package from a level on; all of them if any module is named."""
    level = "DEBUG" if modules else level
    # A program with logging handlers of its own already prints the messages.
    if level != "NOTSET" and not _log.hasHandlers():
        _log.addHandler(logging.StreamHandler())
    _log.setLevel(level)


config.on_update("logging_level", lambda level: _print_log(level, state.debug_log_modules))
config.on_update("debug_log_modules", lambda modules: _print_log(state.logging_level, modules))


def _load_environment() -> None:
    found, unknown = from_environment(os.environ)
    global _global
    _global = {**_global, **found}
    if {"logging_level", "debug_log_modules"} & found.keys():
        _print_log(_global["logging_level"], _global["debug_log_modules"])
    # At import no other thread has a copy yet.
    state._thread.refresh(found)
    if unknown:
        known = ["GPUARRAY_" + name.upper() for name in settings]
        words = []
        for variable in unknown:
            near = difflib.get_close_matches(variable, known, 1, 0.7)
            words.append(variable + (f" (did you mean {near[0]}?)" if near else ""))
        warnings.warn(f"unknown environment variable: {', '.join(words)}", stacklevel=2)


_load_environment()
