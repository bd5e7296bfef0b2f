"""All settings of gpuarray, in one table, with thread-local overrides.

Floor 0: imports nothing of gpuarray. In: the table below, the environment (read once, on import),
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
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpuarray.xla_settings import XLA_SETTINGS


class Setting(NamedTuple):
    """A row of the table: valid values of a setting, its default, and what depends on it."""

    name: str
    kind: Any  # bool, int, float, str; a tuple of choices; a range; or a check(value) function
    default: Any
    doc: str
    traced: bool = False  # whether it changes what is traced, and so is part of cache keys
    jax: bool = True  # a setting of JAX's, which also has the names JAX_<NAME> and jax_<name>
    sets: tuple[str, ...] = ()  # settings that are set along with it
    idle: str = ""  # why other values than the default have no effect: setting one warns


def _check_device(value: Any) -> Any:
    if isinstance(value, str) or hasattr(value, "platform") or hasattr(value, "device_set"):
        return value
    raise ValueError(
        "default_device must be a Device (such as `devices('cpu')[0]`), a platform name like "
        f"'cpu' or 'gpu', or None, got: {value!r}"
    )


def _check_static(value: Any) -> bool:
    if value in (False, 0, "0", "false", "False"):
        return False
    raise ValueError(f"dynamic_shapes can only be False (every shape is static), got {value!r}")


_GUARDS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
# Words, then types, then the names of JAX's DotAlgorithmPreset.
# fmt: off
_PRECISIONS = (
    "default", "high", "highest", "bfloat16", "tensorfloat32", "float32",
    "ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM",
    "ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16", "F16_F16_F32",
    "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9",
    "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64",
)
# fmt: on
_PRNGS = ("threefry2x32", "threefry4x32", "philox2x32", "philox4x32", "rbg", "unsafe_rbg")

# fmt: off
_ROWS = (
    # numbers
    Setting("enable_x64", bool, False, "Keep 64-bit types; otherwise they become 32-bit.", True),
    Setting("default_dtype_bits", ("32", "64"), "64",
            "With x64 on: width of the types that Python numbers take.", True),
    Setting("numpy_dtype_promotion", ("standard", "strict"), "standard",
            "'strict' refuses implicit conversion between array types.", True),
    Setting("numpy_rank_promotion", ("allow", "warn", "raise"), "allow",
            "What happens when arrays of unequal rank broadcast.", True),
    Setting("default_matmul_precision", _PRECISIONS, None,
            "Precision of matrix products and convolutions that name none.", True),
    Setting("allow_f16_reductions", bool, True, "Allow sums that carry float16.", True),
    Setting("auto_pcast", bool, True,
            "In shard_map, let operations mix values that vary between devices and others.", True),
    Setting("softmax_custom_jvp", bool, False, "Differentiate softmax by its own rule.", True),
    Setting("remove_size_one_mesh_axis_from_type", bool, False,
            "Types leave out Explicit mesh axes of one device.", True),
    # random numbers
    Setting("threefry_partitionable", bool, False,
            "Use the threefry stream that splits over devices (JAX's newer one).", True),
    Setting("default_prng_impl", _PRNGS, "threefry2x32", "Generator behind new random keys.", True),
    Setting("enable_custom_prng", bool, False, "PRNGKey returns typed keys, as `key` does.", True),
    Setting("legacy_prng_key", ("allow", "warn", "error"), "allow",
            "What happens when a raw uint32 key is used.", True),
    Setting("random_seed_offset", int, 0, "Added to every seed that makes a key.", True),
    # checks and debugging
    Setting("debug_nans", bool, False, "Raise where a NaN first appears.", True),
    Setting("debug_infs", bool, False, "Raise where an infinity first appears.", True),
    Setting("debug_key_reuse", bool, False, "Raise when a random key is used twice.", True),
    Setting("check_tracer_leaks", bool, False, "Raise when a tracer outlives its function."),
    Setting("enable_checks", bool, False, "Type-check every recorded graph."),
    Setting("disable_jit", bool, False, "Run jitted functions and loops step by step.", True),
    Setting("no_tracing", bool, False, "Raise when a function would be traced again."),
    Setting("no_execution", bool, False, "Raise when something would run on a device.", True),
    Setting("log_compiles", bool, False, "Log each trace and compile as a warning."),
    Setting("explain_cache_misses", bool, False, "Log why a call was traced again."),
    Setting("traceback_filtering", ("auto", "off", "tracebackhide", "remove_frames",
                                    "quiet_remove_frames"), "auto",
            "How gpuarray's own frames are left out of tracebacks."),
    Setting("array_garbage_collection_guard", ("allow", "log", "fatal"), None,
            "What happens when an array is freed by the cycle collector."),
    Setting("array_tracebacks", bool, False, "Keep for each array the calls that made it.",
            False, False),
    Setting("thread_guard", bool, False, "Raise when multi-host code runs on several threads.",
            idle="it guards programs that run on several hosts at once"),
    Setting("pprint_use_color", bool, False, "Colour printed graphs on a terminal.",
            idle="graphs are printed without colours"),
    # devices
    Setting("platforms", str, "", "Platforms to use, first the default: 'cuda,cpu'; '' = all."),
    Setting("platform_name", str, "", "Older name: the default platform, when `platforms` is ''."),
    Setting("num_cpu_devices", range(-1, 1 << 16), -1,
            "How many CPU devices (and simulators) to simulate; -1 = one."),
    Setting("num_gpu_devices", range(-1, 1 << 16), -1,
            "How many GPUs to show: fewer than there are, or several logical ones on each; "
            "-1 = those that there are.", False, False),
    Setting("default_device", _check_device, None, "Where new arrays live.", True),
    Setting("transfer_guard", _GUARDS, None, "Rule for all copies between host and devices.",
            sets=("transfer_guard_host_to_device", "transfer_guard_device_to_host",
                  "transfer_guard_device_to_device")),
    Setting("transfer_guard_host_to_device", _GUARDS, None, "Rule for copies to a device."),
    Setting("transfer_guard_device_to_host", _GUARDS, None, "Rule for copies to the host."),
    Setting("transfer_guard_device_to_device", _GUARDS, None, "Rule for copies among devices."),
    Setting("collective_timeout", range(1 << 31), 1800,
            "Seconds after which a process that waits for others ends the job; 0 = never.",
            False, False),
    # compiled code
    Setting("enable_compilation_cache", bool, True, "Keep compiled kernels on disk."),
    Setting("compilation_cache_dir", str, None, "Folder of compiled kernels; wins over cache_dir."),
    Setting("compile_cache_entries", range(1, 1 << 62), 1 << 14,
            "Programs kept in memory, each counted as traced and as compiled; unused ones go.",
            False, False),
    Setting("compile_cache_bytes", range(1, 1 << 62), 1 << 28,
            "Memory, estimated, of the programs that are kept; unused ones go.", False, False),
    Setting("dynamic_shapes", _check_static, False, "Shapes are always static: only False."),
    # gpuarray's own
    Setting("fusion", bool, True, "Fuse operations; off, each runs as a kernel of its own.",
            True, False),
    Setting("oob", ("clip", "raise"), "clip", "What an out-of-bounds index does.", True, False),
    Setting("permissive", bool, False, "Accept lists and tuples where arrays are expected.",
            True, False),
    Setting("strict", bool, False, "Raise where an operation would run elsewhere than asked.",
            True, False),
    Setting("debug", range(5), 0,
            "Print: 1 launches, 2 groups, 3 graphs, 4 kernel source.", False, False),
    Setting("check_plans", bool, False,
            "Verify a program after every pass of the compiler, as `debug` does.", False, False),
    Setting("dump", str, "", "Folder that receives graphs and kernel source.", False, False),
    Setting("no_custom", bool, False, "Refuse CUDA source written by users.", False, False),
    Setting("cache_dir", str, "", "Folder of compiled kernels; '' = the user's cache folder.",
            False, False),
    Setting("scatter_atomics", bool, False,
            "Add scattered floats in any order: quicker, but the last digits may change.",
            True, False),
    Setting("cuda_graphs", bool, True,
            "Replay programs of ten kernels and more, and turns of loops, as CUDA graphs.",
            True, False),
    Setting("num_threads", range(1 << 16), 0,
            "CPU threads, those of BLAS too where threadpoolctl is installed; "
            "0 = as many as the machine offers.", False, False),
    Setting("native", ("auto", "wait", "off"), "auto" if sys.platform == "linux" else "off",
            "CPU: compile kernels with the host's C++ compiler, while NumPy answers (auto) or "
            "before the first call (wait).", True, False),
    Setting("native_after", range(1 << 31), 100,
            "Milliseconds that NumPy has worked on a program before it is compiled (auto).",
            False, False),
    Setting("lazy_threshold", range(1 << 62), 1 << 16,
            "CPU arrays with at least so many elements are recorded, smaller ones run at once.",
            False, False),
)
# fmt: on

settings: dict[str, Setting] = {row.name: row for row in _ROWS}

# The words of Python's former `distutils.util.strtobool`; an empty variable means False.
_TRUE, _FALSE = ("1", "true", "t", "yes", "y", "on"), ("", "0", "false", "f", "no", "n", "off")


def _choice(value: Any) -> Any:
    # Enums like JAX's have the plain value in `.value`.
    return getattr(value, "value", value)


def _checked(row: Setting, value: Any) -> Any:
    """Return `value` in the setting's type, or raise a ValueError that lists what is valid."""
    kind = row.kind
    # None is a value where it is the default: not set.
    if value is None and row.default is None:
        return None
    if kind is bool:
        # 0 and 1 count as booleans; other numbers are mistakes.
        if isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1)):
            return bool(value)
        if isinstance(value, str) and value.lower() in _TRUE + _FALSE:
            return value.lower() in _TRUE
        expected = "True or False"
    elif kind is int or isinstance(kind, range):
        # True is an int for Python, but a mistake in a setting that counts.
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            if not isinstance(kind, range) or value in kind:
                return int(value)
        expected = f"an int from {kind[0]} to {kind[-1]}" if isinstance(kind, range) else "an int"
    elif kind is str:
        if isinstance(value, (str, os.PathLike)):
            return os.fspath(value)
        if value is None:
            return ""
        expected = "a str"
    elif isinstance(kind, tuple):
        if _choice(value) in kind:
            return _choice(value)
        options = ", ".join(repr(c) for c in kind)
        expected = f"one of {options}" + (" or None" if row.default is None else "")
    else:
        # A function, which checks the value and raises by itself.
        return kind(value)
    raise ValueError(f"invalid value for {row.name}: expected {expected}, got {value!r}")


def _parse(row: Setting, text: str) -> Any:
    """Convert an environment variable's text to the setting's type."""
    # A variable cannot hold None; it can be empty, or hold the word.
    if row.default is None and text.lower() in ("", "none"):
        return None
    if row.kind is int or isinstance(row.kind, range):
        try:
            return _checked(row, int(text))
        except ValueError:
            pass  # raise the error below, which says what is expected
    return _checked(row, text)


def _from_environment(environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the settings given by the environment, and its unknown GPUARRAY_ variables."""
    found: dict[str, Any] = {}
    # The way in which JAX programs simulate several CPU devices.
    for word in environ.get("XLA_FLAGS", "").split():
        flag, _, count = word.partition("=")
        if flag == "--xla_force_host_platform_device_count":
            found["num_cpu_devices"] = _from_variable("num_cpu_devices", "XLA_FLAGS", count)
    for name, row in settings.items():
        # GPUARRAY_ variables come last and win.
        for prefix in ("JAX_", "GPUARRAY_") if row.jax else ("GPUARRAY_",):
            variable = prefix + name.upper()
            if variable in environ:
                found[name] = _from_variable(name, variable, environ[variable])
    # A setting that sets others does not override those given by name.
    for name in list(found):
        for other in settings[name].sets:
            found.setdefault(other, found[name])
    known = {"GPUARRAY_" + name.upper() for name in settings}
    unknown = [v for v in environ if v.startswith("GPUARRAY_") and v not in known]
    return found, sorted(unknown)


def _from_variable(name: str, variable: str, text: str) -> Any:
    try:
        return _parse(settings[name], text)
    except ValueError as e:
        raise ValueError(f"environment variable {variable}={text!r}: {e}") from None


class TraceKey:
    """A combination of the settings that affect tracing; equal combinations are the same object.

    `context` is what else this thread works with (`set_context`). `canonical` and `promotions` are
    memos of functions that depend on these settings.
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


# In the order of the table, as in TraceKey.values.
_TRACED = tuple(row.name for row in _ROWS if row.traced)
#: Keys that are in use, and the latest ones, which keep their memos.
_trace_keys: weakref.WeakValueDictionary[tuple, TraceKey] = weakref.WeakValueDictionary()
_latest_keys: collections.deque[TraceKey] = collections.deque(maxlen=64)
# Reentrant: a garbage collection while it is held may run code that takes it again.
_lock = threading.RLock()
# A forked child has only the forking thread: nobody would release a lock held by another.
os.register_at_fork(after_in_child=_lock._at_fork_reinit)  # pyright: ignore[reportAttributeAccessIssue]
# The values for threads that do not override them.
_global: dict[str, Any] = {row.name: row.default for row in _ROWS}
# Stands for "no value given", since None is a value.
_UNSET: Any = object()


class _Thread:
    """One thread's settings: the values (shared with `state`), and which of them it overrides."""

    def __init__(self, values: dict[str, Any]):
        self.values = values
        self.overrides: dict[str, Any] = {}
        self.context: Any = None

    # Recompute some values and the trace key after a change.
    def refresh(self, *names: str) -> None:
        values = self.values
        for name in names:
            values[name] = self.overrides.get(name, _global[name])
        # One object for equal combinations, so that caches compare keys by identity.
        key = tuple(values[name] for name in _TRACED)
        found = _trace_keys.get((key, self.context))
        if found is None:
            found = _trace_keys[key, self.context] = TraceKey(key, self.context)
            _latest_keys.append(found)
        values["trace_key"] = found


# All threads that have read a setting and still run: a global update rewrites their copies.
_threads: weakref.WeakSet[_Thread] = weakref.WeakSet()


class _State(threading.local):
    """This thread's settings as plain attributes, one for each row, and `trace_key`."""

    trace_key: TraceKey

    def __init__(self):
        with _lock:
            # Runs in each thread at its first read; the attributes are the values themselves.
            thread = _Thread(self.__dict__)
            thread.refresh(*settings)
            self._thread = thread
            _threads.add(thread)

    if TYPE_CHECKING:  # a real __getattr__ would double the cost of every read

        def __getattr__(self, name: str) -> Any: ...


state = _State()


def set_context(context: Any) -> None:
    """Make what this thread traces depend on something else too, such as a mesh in context.

    It is part of `state.trace_key`, and costs nothing where nobody sets it.
    """
    with _lock:
        thread: _Thread = state._thread
        thread.context = context
        thread.refresh()


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
        value = _checked(row, value)
        _warn_idle(row, value)
        # Hooks may refuse the value, so they come first.
        for hook in self._hooks.get(plain, ()):
            hook(value)
        # Some settings set others along with them.
        names = (plain, *row.sets)
        with _lock:
            _global.update(dict.fromkeys(names, value))
            for thread in list(_threads):
                thread.refresh(*names)

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

        The flags are absl's as they are written, and absl is not needed for them.

        >>> config.parse_flags_with_absl()
        """
        for flag in itertools.takewhile(lambda a: a != "--", sys.argv[1:]):
            name, given, text = flag.lstrip("-").partition("=")
            off = not given and name.startswith("nojax_")
            row = settings.get(_plain(name.removeprefix("no") if off else name))
            if row and flag.startswith("-") and name.removeprefix("no").startswith("jax_"):
                self.update(row.name, _parse(row, text if given else str(not off)))

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


def _warn_xla_only(name: str) -> None:
    warnings.warn(f"the setting {name!r} tunes XLA and has no effect in gpuarray", stacklevel=3)


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
        # Old values of each entry, as a stack.
        self._entered: list[list[Any]] = []

    def __enter__(self) -> None:
        thread = state._thread
        with _lock:
            # What this thread had overridden before, to be restored at the end.
            self._entered.append([thread.overrides.get(n, _UNSET) for n in self._names])
            for name in self._names:
                thread.overrides[name] = self._value
            thread.refresh(*self._names)

    def __exit__(self, *exc: object) -> None:
        thread = state._thread
        with _lock:
            for name, old in zip(self._names, self._entered.pop(), strict=True):
                if old is _UNSET:
                    thread.overrides.pop(name, None)
                else:
                    thread.overrides[name] = old
            thread.refresh(*self._names)

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
        value = _checked(row, new_val)
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


def _load_environment() -> None:
    found, unknown = _from_environment(os.environ)
    _global.update(found)
    # At import: no other thread has a copy yet.
    state._thread.refresh(*found)
    if unknown:
        known = ["GPUARRAY_" + name.upper() for name in settings]
        words = []
        for variable in unknown:
            near = difflib.get_close_matches(variable, known, 1, 0.7)
            words.append(variable + (f" (did you mean {near[0]}?)" if near else ""))
        warnings.warn(f"unknown environment variable: {', '.join(words)}", stacklevel=2)


_load_environment()
