"""`python -m gpuarray launch -n 4 script.py`: start a program as several processes on this machine.

Floor 8. In: how many processes, and the program. Out: the mpiexec line and its environment, run;
its exit status.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

_INSTALL = "`pip install 'gpuarray-runtime[mpi]'` brings mpi4py and an MPI"
#: Threads of the libraries behind NumPy: each process would use all cores.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GPUARRAY_NUM_THREADS")
#: MPICH on one machine: shared memory only, so that no rank listens on the network.
_ONE_HOST = {"MPIR_CVAR_CH4_NETMOD": "ucx", "UCX_TLS": "self,sm"}


def run(argv: Sequence[str]) -> int:
    """Start the processes; the exit status of the program."""
    args = parser().parse_args(argv)
    try:
        line = command(args)
    except RuntimeError as error:
        print(f"gpuarray launch: {error}", file=sys.stderr)
        return 2
    settings = environment(args.n, args.local_devices, os.environ)
    if args.dry_run:
        print(shlex.join([*(f"{k}={v}" for k, v in settings.items()), *line]))
        return 0
    process = subprocess.Popen(line, env={**os.environ, **settings})
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            continue  # mpiexec got it, too, and ends the processes
        # Killed by a signal: use the shell's exit code.
        return code if code >= 0 else 128 - code


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m gpuarray launch",
        description="Start a program as several processes on this machine, with mpiexec. The "
        "program calls gpuarray.distributed.initialize().",
    )
    parser.add_argument("-n", type=_positive, required=True, help="number of processes")
    parser.add_argument(
        "--local-devices", type=_positive, metavar="K", help="CPU devices of each process"
    )
    parser.add_argument(
        "--isolated",
        action="store_true",
        help="in a network namespace of their own: nothing listens where others can reach it",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the command instead of running it"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT names a module")
    parser.add_argument("script", help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its own arguments")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text}")
    return number


def command(args: argparse.Namespace) -> list[str]:
    """Return the line that starts the processes; RuntimeError where something it needs lacks."""
    mpiexec = find_mpiexec()
    if mpiexec is None:
        raise RuntimeError(f"there is no mpiexec: {_INSTALL}")
    if importlib.util.find_spec("mpi4py") is None:
        raise RuntimeError(f"mpi4py is not installed: {_INSTALL}")
    program = ["-m", args.script] if args.module else [args.script]
    line = [mpiexec, "-n", str(args.n), sys.executable, *program, *args.arguments]
    if args.isolated:
        unshare = shutil.which("unshare")
        if unshare is None:
            raise RuntimeError("--isolated needs the program unshare, of util-linux")
        # Some systems have the program but forbid its use: try it on a command that does nothing.
        if subprocess.run([unshare, "-rn", "true"], capture_output=True, check=False).returncode:
            raise RuntimeError("--isolated: this system does not permit namespaces (unshare -rn)")
        line = [unshare, "-rn", *line]
    return line


def find_mpiexec() -> str | None:
    """Return the mpiexec of this environment, else the one on PATH; None if there is none."""
    own = Path(sysconfig.get_path("scripts")) / "mpiexec"
    return str(own) if own.is_file() else shutil.which("mpiexec")


def environment(count: int, local_devices: int | None, given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to set for `count` processes; those that are set already stay."""
    affinity = getattr(os, "sched_getaffinity", None)
    # The cores of this process, which may be fewer than the machine's.
    cores = (len(affinity(0)) if affinity else os.cpu_count()) or 1
    made = dict.fromkeys(_THREADS, str(max(1, cores // count)))
    made |= _ONE_HOST
    if count > cores:
        # A waiting process yields its core immediately.
        made["MPIR_CVAR_POLLS_BEFORE_YIELD"] = "0"
    # Keep the user's own settings.
    made = {name: value for name, value in made.items() if name not in given}
    if local_devices is not None:
        made["GPUARRAY_NUM_CPU_DEVICES"] = str(local_devices)
    return made
