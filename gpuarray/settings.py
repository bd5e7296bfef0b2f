"""The table of settings: valid values, default, and what depends on each.

Floor 0: imports nothing of gpuarray. In: values that users give, and the environment. Out:
`settings`, the table by name, and values in the types of their rows. config.py holds the current
values.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


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


#: Platforms that can be named. The simulator is never the default: it is slow, and for tests.
PLATFORMS = ("cpu", "gpu", "simulator")
#: Other names of platforms.
ALIASES = {"cuda": "gpu"}


def _check_device(value: Any) -> Any:
    # runtime/device.py checks whether the device exists.
    if isinstance(value, str):
        if value in PLATFORMS or value in ALIASES:
            return value
    elif hasattr(value, "platform") or hasattr(value, "device_set"):
        return value
    raise ValueError(
        "default_device must be a Device (such as `devices('cpu')[0]`), a platform name like "
        f"'cpu' or 'gpu', or None, got: {value!r}"
    )


def _check_static(value: Any) -> bool:
    if value in (False, 0, "0", "false", "False"):
        return False
    raise ValueError(f"dynamic_shapes can only be False (every shape is static), got {value!r}")


def _check_visible(value: Any) -> str:
    text = value if isinstance(value, str) else ",".join(map(str, value))
    if text == "all" or all(word.strip().isdigit() for word in text.split(",")):
        return text
    raise ValueError(
        f"cuda_visible_devices must be 'all' or numbers of GPUs like '0,2', got: {value!r}"
    )


_LEVELS = ("NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
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
    Setting("explicit_x64_dtypes", ("warn", "error", "allow"), "warn",
            "Without x64: what happens when a 64-bit type is asked for by name.", True),
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
    Setting("high_dynamic_range_gumbel", bool, False,
            "Gumbel numbers take mode='high' where none is given.", True),
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
    Setting("check_static_indices", bool, False,
            "Raise where an index known while tracing is out of bounds.", True),
    Setting("disallow_mesh_context_manager", bool, False,
            "Raise at `with mesh:`, the older form of `with set_mesh(mesh):`."),
    Setting("pallas_enable_debug_checks", bool, False, "Let pallas.debug_check check.", True),
    Setting("logging_level", _LEVELS, "NOTSET", "From which level on messages are printed."),
    Setting("debug_log_modules", str, "",
            "Print debug messages; any modules turn on all: one logger has them."),
    Setting("log_checkpoint_residuals", bool, False,
            "Log as a warning what checkpointed functions save."),
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
    Setting("cuda_visible_devices", _check_visible, "all",
            "GPUs to use, 'all' or numbers like '0,2'; CUDA_VISIBLE_DEVICES is applied before."),
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


def checked(row: Setting, value: Any) -> Any:
    """Return `value` in the setting's type, or raise a ValueError that lists the valid values."""
    kind = row.kind
    # None is valid only as the default: not set.
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
        # A dtype is equal to its name, and is no choice.
        if not isinstance(value, np.dtype) and _choice(value) in kind:
            return _choice(value)
        options = ", ".join(repr(c) for c in kind)
        expected = f"one of {options}" + (" or None" if row.default is None else "")
    else:
        # A function that checks the value and raises its own error.
        return kind(value)
    raise ValueError(f"invalid value for {row.name}: expected {expected}, got {value!r}")


def parse(row: Setting, text: str) -> Any:
    """Convert an environment variable's text to the setting's type."""
    # A variable cannot hold None; it can be empty, or contain "none".
    if row.default is None and text.lower() in ("", "none"):
        return None
    if row.kind is int or isinstance(row.kind, range):
        try:
            return checked(row, int(text))
        except ValueError:
            pass  # raise the error below, which lists what is expected
    return checked(row, text)


def from_environment(environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
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
        return parse(settings[name], text)
    except ValueError as e:
        raise ValueError(f"environment variable {variable}={text!r}: {e}") from None
