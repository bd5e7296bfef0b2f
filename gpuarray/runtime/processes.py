"""Several processes that run one program together: how they find each other, and how they end.

Floor 5. In: MPI, the environment, and the arguments of `distributed.initialize`. Out: this
process's number, the engine of programs over several processes, and a thread that reports where a
process waits for others that do not arrive.

MPI is imported by `initialize`, never before. No socket is opened here, and no data from a network
is unpickled.
"""

from __future__ import annotations

import array
import atexit
import hashlib
import importlib.util
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any

try:
    import fcntl
    import termios
except ImportError:  # not on Windows
    fcntl = termios = None

from gpuarray import config, sites
from gpuarray.backends.cuda import device as cuda
from gpuarray.backends.cuda import nccl
from gpuarray.backends.cuda.availability import missing
from gpuarray.backends.mpi import Processes, World
from gpuarray.backends.shared import SharedMemory
from gpuarray.compiler.partition.network import Network, network_named
from gpuarray.core.graph import Eqn, Graph, subgraphs
from gpuarray.core.grid import Grid
from gpuarray.core.primitive import Kind
from gpuarray.core.sharding import Device
from gpuarray.primitives.collective import ops
from gpuarray.runtime import device as devices
from gpuarray.util import Recent

#: Seconds after which a waiting process reports where it waits.
SAID_AFTER = 30
#: The exit status of a job that the watchdog ends.
STUCK = 70
#: Variables by which the launchers of MPI tell a process that it is one of several.
_LAUNCHED = ("PMI_RANK", "PMIX_RANK", "PMI_ID", "OMPI_COMM_WORLD_RANK", "PALS_RANKID")
_COMMAND = "python -m gpuarray launch -n 4 script.py"


class _Job:
    """The state made by `initialize`: None for `world` if there is one process."""

    def __init__(self, world: World | None, end: Callable[[], None]):
        self.world = world
        self.end = end


_job: _Job | None = None
#: The comparisons made, and the processes that made them. It is the same in all of these, whatever
#: each of them has dropped from its caches of programs.
_agreed = Recent(1 << 14)


def initialize(
    num_processes: int | None,
    process_id: int | None,
    gpus: Sequence[int] | None,
    start_limit: float,
    end_limit: float,
) -> None:
    """Join the processes that a launcher of MPI has started."""
    global _job
    if _job is not None:
        raise RuntimeError("distributed.initialize should only be called once.")
    # Devices that exist cannot be renumbered, and their numbers depend on all processes.
    used = devices.first_use()
    if used is not None:
        raise RuntimeError(
            "distributed.initialize() must be called before any array is made or devices are asked "
            f"for; devices were first asked for at {used}. Call it first."
        )
    # Started without a launcher: a single process, whatever was meant. MPI is not even
    # imported.
    if not any(name in os.environ for name in _LAUNCHED):
        if num_processes != 1 or process_id not in (None, 0):
            raise RuntimeError(
                f"distributed.initialize: num_processes={num_processes}, process_id={process_id}, "
                f"and no launcher has started this process. Start the program with `{_COMMAND}` "
                "or with mpiexec, or give num_processes=1."
            )
        if gpus is not None:
            devices.join(0, (devices.cpu_count(),), _checked_gpus(gpus))
        _job = _Job(None, lambda: None)
        return
    if importlib.util.find_spec("mpi4py") is None:
        raise RuntimeError(
            "distributed.initialize: a launcher has started this process as one of several, and "
            "mpi4py is not installed. `pip install 'gpuarray-runtime[mpi]'` brings it, with an MPI."
        )
    if gpus is not None:
        gpus = _checked_gpus(gpus)
    # 1. MPI gives this process's number; the caller's arguments must agree with it.
    world = World()
    for name, given, found in (
        ("num_processes", num_processes, world.size),
        ("process_id", process_id, world.rank),
    ):
        if given not in (None, found):
            raise ValueError(
                f"distributed.initialize: {name}={given}, but MPI says {found}: leave it out, or "
                f"start as many processes as are meant, as in `{_COMMAND}`"
            )
    # 2. A watched meeting: a process that never comes must not look like a program that is
    # slow.
    stop = threading.Event()
    threading.Thread(
        target=_watch, args=(world, stop), name="gpuarray-watchdog", daemon=True
    ).start()
    try:
        world.connect(start_limit)
    except BaseException:
        stop.set()
        raise
    # 3. An uncaught error here would leave the others waiting: it ends all of them.
    before = sys.excepthook
    if world.size > 1:
        sys.excepthook = _excepthook(world, before)
    # 4. Devices: how many each process has, and which GPU of this machine is ours where the
    # launcher has not said.
    own = devices.cpu_count()
    everyone = tuple(range(world.size))
    counts = world.gathered(str(own).encode(), everyone, "the numbers of devices")
    here = [] if missing() else cuda.gpus()
    if gpus is None and world.local_size > 1 and not os.environ.get("CUDA_VISIBLE_DEVICES"):
        # Processes of one machine share its GPUs round-robin.
        gpus = [world.local_rank % len(here)] if here else None
    own_gpus = [(g.index, g.name) for g in here if gpus is None or g.index in gpus]
    lists = world.gathered(json.dumps(own_gpus).encode(), everyone, "the GPUs of each process")
    devices.join(
        world.rank,
        tuple(map(int, counts)),
        gpus,
        [(p, i, name) for p, found in enumerate(lists) for i, name in json.loads(found)],
    )
    ended = False

    def end(limit: float = end_limit) -> None:
        nonlocal ended
        if not ended:
            ended = True
            # With a timeout: MPI's own finalisation waits for the others silently.
            world.barrier("the end of the other processes", limit)
            stop.set()
            sys.excepthook = before

    # Not after an error: then the others may never come.
    atexit.register(lambda: end(0))
    _job = _Job(world, end)


def is_initialized() -> bool:
    """Whether `initialize` was called, and `shutdown` was not."""
    return _job is not None


def shutdown() -> None:
    """Wait for the other processes; programs over several processes cannot run afterwards."""
    global _job
    if _job is not None:
        job, _job = _job, None
        job.end()


def world() -> World | None:
    """Return the processes; None if there is only one."""
    found = None if _job is None else _job.world
    if found is None and devices.process_count() > 1:
        raise RuntimeError(
            "a computation over several processes, after distributed.shutdown() was called"
        )
    return found


def _checked_gpus(gpus: Sequence[int]) -> list[int]:
    reason = missing()
    if reason:
        raise ValueError(
            f"distributed.initialize: local_device_ids={list(gpus)} chooses GPUs, and none can be "
            f"used here: {reason}. Leave it out; GPUARRAY_NUM_CPU_DEVICES sets the number of CPU "
            "devices of a process."
        )
    known = [gpu.index for gpu in cuda.gpus()]
    if unknown := set(gpus).difference(known):
        raise ValueError(
            f"distributed.initialize: local_device_ids names {sorted(unknown)}; the GPUs here are "
            f"{known}"
        )
    return list(gpus)


# ---- engines ----


def engine(grid: Grid, compile: Callable) -> Any:
    """Return the engine of the devices of a grid; `compile` makes the programs of collectives."""
    sizes = grid.sizes or {"one": 1}
    if all(device.is_addressable for device in grid.devices):
        return SharedMemory(sizes, compile)
    found = world()
    assert found is not None
    return Processes(sizes, [d.process_index for d in grid.devices], found)


def party(grid: Grid) -> nccl.Party:
    """Return the NCCL description of the GPUs of other processes in a grid."""
    found = world()
    assert found is not None

    def told(processes: tuple[int, ...], data: bytes) -> bytes:
        return found.gathered(data, processes, "the name of a communicator of NCCL")[0]

    return nccl.Party(tuple(d.process_index for d in grid.devices), Device.here, told)


def network(grid: Grid) -> Network:
    """Return a default network for the devices of a grid, if nothing better is known."""
    if grid.devices[0].platform == "gpu":
        return network_named("h100-ib")
    here = all(device.is_addressable for device in grid.devices)
    return network_named("cpu" if here else "mpi")


def compare(graph: Graph, grid: Grid) -> None:
    """Raise on all processes of a grid if they are about to run different programs.

    The sequence of collectives is compared: programs whose collectives differ would wait for each
    other forever, or confuse values.
    """
    processes = _of(grid.devices)
    if Device.here not in processes:
        return
    found = world()
    assert found is not None
    # A hash first: 8 bytes from each process. Whole lists are sent only to say where they
    # differ.
    rows = list(_exchanges(graph))
    text = "\n".join(what for what, _ in rows)
    code = hashlib.blake2b(text.encode(), digest_size=8)
    key = (_number(code), processes)
    if _agreed.find(key):
        return
    if found.agree(key[0], processes, f"the first run of {graph.debug_name}"):
        _agreed.put(key, True)
        return
    shown = "\n".join(f"    {what} at {site}" for what, site in rows)
    mine = f"  {graph.debug_name}, {len(rows)} collectives:\n{shown}".encode()
    lists = found.gathered(mine, processes, f"the programs that differ from {graph.debug_name}")
    told = "\n".join(
        f"process {p} runs\n{part.decode()}" for p, part in zip(processes, lists, strict=True)
    )
    raise RuntimeError(
        "the processes are about to run different programs: all must run the same computations "
        "over common devices, in the same order. Look for a branch on process_index(), for "
        f"values that differ between processes, and for sets that are iterated over.\n{told}"
    )


def _exchanges(graph: Graph) -> Iterator[tuple[str, Any]]:
    """Yield the collectives of a Graph, in order: in words, and the line that recorded each."""
    for eqn in graph.eqns:
        prim = eqn.primitive
        if prim.kind is Kind.COLLECTIVE:
            if prim not in (ops.axis_index_p, ops.pcast_p):
                yield _shown(eqn), eqn.site
        elif prim.kind is Kind.CALL:
            inner = [row for held in subgraphs(eqn) for row in _exchanges(held)]
            if inner:
                yield f"{prim.name}:", eqn.site
                yield from inner


def _shown(eqn: Eqn) -> str:
    # A parameter of an operation that runs once may be a function, which prints as its address.
    given = {k: v for k, v in eqn.params.items() if v is not None and k != "given"}
    params = ", ".join(f"{k}={v}" for k, v in sorted(given.items()))
    avals = ", ".join(a.aval.str_short() for a in eqn.invars)
    return f"{eqn.primitive.name}({avals}; {params})"


# ---- the end of a job ----


def _excepthook(world: World, before: Callable) -> Callable[..., None]:
    """Return a hook for uncaught errors: they end all processes, not just this one."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        print(f"process {world.rank} of {world.size}:", file=sys.stderr)
        before(kind, error, trace)
        _end(world, 1)

    return hook


def _end(world: World, code: int) -> None:
    """End all processes, once the output of this one is on its way."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # An mpiexec discards unread output in its pipes when a job is aborted.
    until = time.monotonic() + 5
    while time.monotonic() < until and any(map(_unread, (1, 2))):
        time.sleep(0.05)
    time.sleep(1)
    world.abort(code)


def _unread(descriptor: int) -> bool:
    """Whether a pipe that this process writes to holds unread data."""
    if fcntl is None or termios is None:
        return False
    found = array.array("i", [0])
    try:
        fcntl.ioctl(descriptor, termios.FIONREAD, found)
    except OSError:
        return False
    return found[0] > 0


def _watch(world: World, stop: threading.Event) -> None:
    """Say where this process waits for others, and end the job when it has waited too long."""
    said = 0
    while not stop.wait(0.25):
        now = world.waiting
        if now is None:
            continue
        age = time.monotonic() - now.since
        limit = now.limit or config.state.collective_timeout
        over = limit and age > limit
        # Once for each exchange: a long wait is reported once.
        if (age > SAID_AFTER or over) and said != now.number:
            said = now.number
            frame = sys._current_frames().get(now.thread)
            stack = [] if frame is None else traceback.extract_stack(frame)
            lines = [f"{f.filename}:{f.lineno}" for f in stack if not sites.is_inside(f.filename)]
            _say(
                f"process {world.rank} of {world.size} has waited {age:.0f} s for other processes "
                f"in exchange number {now.number}: {now.what}. It is at "
                f"{lines[-1] if lines else 'no line of the program'}:\n"
                + "".join(traceback.format_list(stack))
            )
        if over:
            _say(
                f"process {world.rank} of {world.size} ends the job: {now.what} has waited longer "
                f"than {limit} s (the setting collective_timeout; 0 waits for ever)"
            )
            _end(world, STUCK)


def _say(text: str) -> None:
    print(f"gpuarray: {text}", file=sys.stderr, flush=True)


def same_bytes(parts: Iterable[Any], over: Iterable[Device], what: str) -> bool:
    """Whether the processes of some devices give the same bytes; each must call it."""
    found = world()
    if found is None:
        return True
    code = hashlib.blake2b(digest_size=8)
    for part in parts:
        code.update(part)
    return found.agree(_number(code), _of(over), what)


def _of(over: Iterable[Device]) -> tuple[int, ...]:
    """Return the processes of some devices, in order."""
    return tuple(sorted({device.process_index for device in over}))


# Of 62 bits: its negative is a number of the same kind.
def _number(code: Any) -> int:
    return int.from_bytes(code.digest(), "big") >> 2


def gathered(data: bytes, what: str) -> list[bytes]:
    """Return the bytes that each process gives; each must call it."""
    found = world()
    return [data] if found is None else found.gathered(data, tuple(range(found.size)), what)
