"""Profiles: what ran and when, and which arrays hold memory.

Floor 6. In: a block of a program. Out: a trace in the format of Chrome and Perfetto, written when
it stops; ranges of the user's own in it; the arrays alive in the format of pprof.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gpuarray.api import profile_server, traces
from gpuarray.core import ranges
from gpuarray.runtime import device as devices
from gpuarray.runtime.memory import live_arrays
from gpuarray.util import wraps

__all__ = [
    "ProfileOptions", "StepTraceAnnotation", "TraceAnnotation", "annotate_function",
    "device_memory_profile", "register_subprocess", "save_device_memory_profile", "start_server",
    "start_trace", "stop_server", "stop_trace", "trace",
]  # fmt: skip


# ---- traces ----
class ProfileOptions:
    """What a trace records.

    Parameters
    ----------
    host_tracer_level :
        0 nothing on the host, 1 annotations, 2 (the default) also calls of jitted functions,
        compiling, operations that run immediately, copies, and named scopes.
    device_tracer_level :
        0 no programs, 1 (the default) each program with its steps.
    python_tracer_level :
        0, for calls of Python functions are not traced.

    Examples
    --------

    >>> import gpuarray as ga
    >>> options = ga.profiler.ProfileOptions()
    >>> options.host_tracer_level = 1
    """

    # The default of each level, and the values it may have.
    _LEVELS = {
        "host_tracer_level": (2, range(3)),
        "device_tracer_level": (1, range(2)),
        "python_tracer_level": (0, range(1)),
    }
    host_tracer_level: int
    device_tracer_level: int
    python_tracer_level: int

    def __init__(self):
        self.__dict__.update({name: default for name, (default, _) in self._LEVELS.items()})

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._LEVELS:
            raise AttributeError(
                f"ProfileOptions has no {name!r}: a trace takes {', '.join(self._LEVELS)}"
            )
        levels = self._LEVELS[name][1]
        if value not in levels:
            raise ValueError(f"{name} must be one of {[*levels]}, got {value!r}")
        self.__dict__[name] = int(value)

    def _kinds(self) -> frozenset[str]:
        # Each level of the host holds the one below it.
        all_of_host = "annotation", "jit", "compile", "operation", "scope", "copy"
        host = (), ("annotation",), all_of_host
        device = ("run", "step", "scope", "kernel") if self.device_tracer_level else ()
        return frozenset((*host[self.host_tracer_level], *device))


class _Running:
    """The trace that is being taken."""

    def __init__(self, folder: str, also_perfetto: bool, session: ranges.Session):
        self.folder, self.also_perfetto, self.session = folder, also_perfetto, session


_running: _Running | None = None
_lock = threading.Lock()


def _forget() -> None:
    """A forked child takes no trace."""
    global _running, _lock, _server
    _running, _lock, _server = None, threading.Lock(), None


os.register_at_fork(after_in_child=_forget)


def start_trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> None:
    """Begin to take a trace, which `stop_trace` writes below `log_dir`; see `trace`.

    One is taken at a time, of all threads: to start another is a RuntimeError.

    >>> import gpuarray as ga, gpuarray.numpy as gnp, tempfile
    >>> ga.profiler.start_trace(tempfile.mkdtemp())
    >>> x = gnp.sin(gnp.ones(3)).block_until_ready()
    >>> ga.profiler.stop_trace()
    """
    if create_perfetto_link:
        raise NotImplementedError(
            "create_perfetto_link would serve the trace to a browser, which gpuarray does not: "
            "pass create_perfetto_trace=True and open the file at https://ui.perfetto.dev"
        )
    folder = os.fsdecode(os.fspath(log_dir))
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise NotADirectoryError(f"log_dir must be a folder, got the file {folder!r}")
    if profiler_options is not None and not isinstance(profiler_options, ProfileOptions):
        raise TypeError(
            f"profiler_options must be a gpuarray.profiler.ProfileOptions, got {profiler_options!r}"
        )
    _begin(folder, bool(create_perfetto_trace), profiler_options)


def _begin(folder: str, also_perfetto: bool, options: ProfileOptions | None) -> _Running:
    global _running
    kinds = None if options is None else options._kinds()
    with _lock:
        if _running is not None:
            raise RuntimeError(
                f"a trace for {_running.folder!r} is being taken already, and there is one at a "
                "time: call gpuarray.profiler.stop_trace() first"
            )
        # Created under the lock: two threads may start a trace simultaneously.
        session = ranges.Session(kinds)
        _running = _Running(folder, also_perfetto, session)
        ranges.begin(session)
        return _running


def _end(wanted: _Running | None = None) -> _Running | None:
    """End the current trace (only if it is `wanted`, when given); return it, or None if there is
    none.
    """
    global _running
    with _lock:
        # Taken away first, so that a trace is written once even if two threads stop it.
        if wanted is not None and _running is not wanted:
            return None
        running, _running = _running, None
        ranges.end()
        return running


def stop_trace() -> None:
    """End the trace and write it to `log_dir`/plugins/profile/<time>/<host>.trace.json.gz.

    Work that is still running is not in it: wait for results first (`block_until_ready`).
    """
    running = _end()
    if running is None:
        raise RuntimeError(
            "no trace is being taken: call gpuarray.profiler.start_trace(log_dir) first"
        )
    if running.session.left_out:
        warnings.warn(
            f"the trace holds the first {ranges.LIMIT} ranges; {running.session.left_out} that "
            "ended later are left out. Trace fewer steps, or choose less by ProfileOptions.",
            stacklevel=2,
        )
    running.session.finish()
    traces.write(traces.as_json(running.session), running.folder, running.also_perfetto)


@contextlib.contextmanager
def trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> Iterator[None]:
    """Trace everything that runs in the block, and write the trace when the block ends, however it
    ends.

    The file, `log_dir`/plugins/profile/<time>/<host>.trace.json.gz, shows for each thread when it
    called jitted functions, compiled, copied, and ran programs, with a range for each step: a
    kernel, a library routine, a loop, an exchange, and the line that recorded it. `named_scope`s
    are ranges around what was recorded in them. https://ui.perfetto.dev and chrome://tracing open
    it. On a CPU the length of a step's range is its run time. On a GPU the host's range is the
    launch, and a separate row shows how long the GPU took for each step. With several devices, each
    has its own row. The ranges are also NVTX ranges, which NVIDIA's Nsight Systems shows above the
    kernels.

    Parameters
    ----------
    create_perfetto_trace :
        Whether to write it as perfetto_trace.json.gz, too.
    create_perfetto_link :
        Not supported.
    profiler_options :
        What not to record.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp, pathlib, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with ga.profiler.trace(folder):
    ...     x = gnp.sin(gnp.ones(3)).block_until_ready()
    >>> len([*pathlib.Path(folder).rglob("*.trace.json.gz")])
    1
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


# ---- ranges of the user's ----
class TraceAnnotation:
    """A block as a range of this name in the trace that is being taken, and, once a GPU is in use,
    an NVTX range, which Nsight Systems shows.

    Further keywords are shown with it in the trace.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> with ga.profiler.TraceAnnotation("load data", batch=3):
    ...     x = gnp.ones(3)
    """

    def __init__(self, name: str, /, **kwargs: Any):
        if not isinstance(name, str):
            raise TypeError(f"the name of an annotation must be a string, got {name!r}")
        self._name = name
        self._args = kwargs
        # A stack: one annotation may be entered again inside itself.
        self._open: list[ranges.Range] = []

    @staticmethod
    def is_enabled() -> bool:
        """Whether a trace is being taken."""
        return ranges.session is not None

    def set_metadata(self, **kwargs: Any) -> None:
        """Add to the metadata shown with the range."""
        self._args.update(kwargs)
        for each in self._open:
            each.args = _plain(self._args)

    def __enter__(self) -> TraceAnnotation:
        args = _plain(self._args) if self._args and self.is_enabled() else {}
        self._open.append(ranges.Range(self._name, "annotation", args).__enter__())
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.pop().__exit__()


class StepTraceAnnotation(TraceAnnotation):
    """A block as one step of a training loop: an annotation that carries the `step_num`.

    >>> import gpuarray as ga
    >>> for number in range(2):
    ...     with ga.profiler.StepTraceAnnotation("train", step_num=number):
    ...         pass
    """


def _plain(args: dict[str, Any]) -> dict[str, Any]:
    """Values as JSON has them."""
    return {k: x if isinstance(x, (bool, int, float, str)) else str(x) for k, x in args.items()}


def annotate_function(
    func: Callable[..., Any], name: str | None = None, **decorator_kwargs: Any
) -> Callable[..., Any]:
    """Annotate each call of a function, under its own name unless another is given.

    >>> import gpuarray as ga
    >>> @ga.profiler.annotate_function
    ... def double(x):
    ...     return 2 * x
    >>> double(3)
    6
    """
    if not callable(func):
        raise TypeError(f"annotate_function takes a function, got {func!r}")
    label = name or getattr(func, "__qualname__", None) or type(func).__name__

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(label, **decorator_kwargs):
            return func(*args, **kwargs)

    return call


# ---- over the network ----
_server: profile_server.ProfilerServer | None = None


def start_server(port: int, requires_backend: bool = True) -> profile_server.ProfilerServer:
    """Let other programs of this machine take traces of this one, until `stop_server`.

    `python -m gpuarray.collect_profile PORT MILLISECONDS`, or `gpuarray.collect_profile` in a
    program, requests one; so does a GET of `http://127.0.0.1:PORT/trace?duration_in_ms=1000`, which
    answers with a file for https://ui.perfetto.dev. TensorBoard's protocol is not supported. Any
    user of this machine may send requests: a trace contains names and lines of the program, and no
    values.

    Parameters
    ----------
    port :
        Port on the address 127.0.0.1; 0 takes a free one, which the result has as `port`.
    requires_backend :
        Whether to look for devices first.

    Examples
    --------

    >>> import gpuarray as ga
    >>> server = ga.profiler.start_server(0)
    >>> ga.profiler.stop_server()
    """
    global _server
    if not isinstance(port, int):
        raise TypeError(f"the port of a profiler server must be a number, got {port!r}")
    if requires_backend:
        devices.devices()
    with _lock:
        if _server is not None:
            raise ValueError(
                f"Only one profiler server can be active at a time, and there is one on port "
                f"{_server.port}: call gpuarray.profiler.stop_server() first"
            )
        _server = profile_server.ProfilerServer(port, _taken)
        return _server


def _taken(wait: Callable[[], Any], levels: dict[str, int]) -> bytes:
    """Take a trace while something waits; return it as compressed JSON."""
    options = ProfileOptions()
    for name, level in levels.items():
        setattr(options, name, level)
    session = _begin("a trace that was asked of the profiler server", False, options)
    try:
        wait()
    finally:
        ended = _end(session)
    if not ended:
        raise RuntimeError("the trace was stopped in the program, and written there")
    session.session.finish()
    return traces.as_json(session.session)


def stop_server() -> None:
    """End the profiler server; ValueError if there is none.

    >>> import gpuarray as ga
    >>> server = ga.profiler.start_server(0)
    >>> ga.profiler.stop_server()
    """
    global _server
    with _lock:
        ended, _server = _server, None
    if ended is None:
        raise ValueError("No active profiler server: gpuarray.profiler.start_server starts one.")
    ended.stop()


def register_subprocess(pid: int, port: int) -> Callable[[], None]:
    """Not supported: a trace covers one process; use `collect_profile` on the other one's server.

    >>> import gpuarray as ga
    >>> try:
    ...     ga.profiler.register_subprocess(pid=1, port=9999)
    ... except NotImplementedError:
    ...     pass  # take a trace in that process
    """
    raise NotImplementedError(
        f"a trace of gpuarray is of one process: ask the server of process {pid!r} for its own, "
        f"with `python -m gpuarray.collect_profile {port!r} 1000`"
    )


# ---- memory ----
def device_memory_profile(backend: str | None = None) -> bytes:
    """The live arrays (of one platform), compressed in the format of the tool `pprof`: the count
    for each dtype, shape and device, and their bytes.

    >>> import gpuarray as ga
    >>> ga.profiler.device_memory_profile()[:2] == bytes([0x1F, 0x8B])  # gzip
    True
    """
    counts: dict[tuple[str, str], list[int]] = {}
    # For each kind of array: how many there are, and their bytes.
    for array in live_arrays(backend):
        count = counts.setdefault((array.aval.str_short(), str(array.device)), [0, 0])
        count[0] += 1
        count[1] += array.nbytes
    return gzip.compress(_pprof(counts))


def save_device_memory_profile(
    filename: os.PathLike[str] | str, backend: str | None = None
) -> None:
    """Write `device_memory_profile` to a file.

    >>> import gpuarray as ga, tempfile
    >>> ga.profiler.save_device_memory_profile(tempfile.mkdtemp() + "/memory.prof")
    """
    profile = device_memory_profile(backend)
    with open(filename, "wb") as file:
        file.write(profile)


def _pprof(counts: dict[tuple[str, str], list[int]]) -> bytes:
    """A message `Profile` (github.com/google/pprof, proto/profile.proto): a sample for each kind of
    array, which pprof shows as a function called by its device.
    """
    # Strings are stored once and named by their position; the first has to be empty.
    texts: dict[str, int] = {"": 0}
    number = lambda text: texts.setdefault(text, len(texts))
    # Numbers of functions and of places start at 1: 0 means none.
    functions: dict[str, int] = {}
    place = lambda name: functions.setdefault(name, len(functions) + 1)
    out = b""
    # Field 1: the meaning of the two numbers of each sample.
    for kind, unit in (("objects", "count"), ("space", "bytes")):
        out += _field(1, _field(1, number(kind)) + _field(2, number(unit)))
    for (aval, device), values in counts.items():
        # Field 2: the samples, each with a stack of places, its numbers and a label.
        label = _field(1, number("device")) + _field(2, number(device))
        stack = _packed(1, [place(aval), place(device)])  # the innermost first
        out += _field(2, stack + _packed(2, values) + _field(3, label))
    # Fields 4 and 5: a function, and one place in it, with the same number.
    for name, i in functions.items():
        out += _field(4, _field(1, i) + _field(4, _field(1, i)))  # a place in code
        out += _field(5, _field(1, i) + _field(2, number(name)))  # the function it is in
    out += _field(14, number("space"))  # the number shown by default
    # The strings come after all others have requested their numbers.
    out += b"".join(_field(6, text.encode()) for text in texts)
    return out + _field(9, time.time_ns())


def _varint(value: int) -> bytes:
    # Protobuf's integers: seven bits a byte, lowest first; the top bit means that more bytes
    # follow.
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: int | bytes) -> bytes:
    # A field begins with its number and its wire type: 0 for integers, 2 for bytes of a length.
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _packed(number: int, values: Iterable[int]) -> bytes:
    return _field(number, b"".join(map(_varint, values)))


# Names of JAX that read traces in XLA's own format.
_XPLANE = ("ProfileData", "ProfileEvent", "ProfilePlane")


def __getattr__(name: str) -> Any:
    if name in _XPLANE:
        raise AttributeError(
            f"gpuarray.profiler has no {name}, which reads XLA's format: its traces are JSON, read "
            "them with gzip and json"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
