"""Take a profile of a running program from outside.

Floor 6. In: the port of `gpuarray.profiler.start_server` in that program. Out: a trace, as
`gpuarray.profiler.trace` writes it. As a command:
`python -m gpuarray.collect_profile PORT DURATION_IN_MS [--log_dir DIR]`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import types
from collections.abc import Mapping, Sequence
from typing import Any

from gpuarray.api import profile_server, traces
from gpuarray.names import explain_names as _explain_names

__all__ = ["collect_profile", "main"]
__getattr__ = _explain_names(__name__)


def collect_profile(
    port: int,
    duration_in_ms: int,
    host: str = profile_server.HERE,
    log_dir: os.PathLike[str] | str | None = None,
    no_perfetto_link: bool = True,
    xprof_options: Mapping[str, Any] | None = None,
) -> None:
    """Ask the server on a port for a trace of `duration_in_ms`; write it below `log_dir`.

    Parameters
    ----------
    host :
        The machine of the server: servers listen to their own machine only.
    log_dir :
        Folder for the profile; default: a new temporary one.
    no_perfetto_link :
        Must be true: open the file, which is written for that, at https://ui.perfetto.dev.
    xprof_options :
        Levels, as the attributes of `gpuarray.profiler.ProfileOptions`.

    Examples
    --------

    >>> import gpuarray as ga, tempfile
    >>> server = ga.profiler.start_server(0)  # any free port
    >>> folder = tempfile.mkdtemp()
    >>> ga.collect_profile.collect_profile(server.port, 10, log_dir=folder)  # doctest: +ELLIPSIS
    written: ...trace.json.gz
    >>> ga.profiler.stop_server()
    """
    if not no_perfetto_link:
        raise NotImplementedError(
            "no_perfetto_link=False would serve the trace to a browser, which gpuarray does not: "
            "open the file that is written at https://ui.perfetto.dev"
        )
    if not isinstance(host, str):
        raise TypeError(f"host must be the name of a machine, as a string, got {host!r}")
    if not isinstance(xprof_options, (Mapping, types.NoneType)):
        raise TypeError(
            f"xprof_options must be a dict of levels, {{'host_tracer_level': 1}} say, got "
            f"{xprof_options!r}"
        )
    folder = tempfile.mkdtemp() if log_dir is None else os.fsdecode(os.fspath(log_dir))
    text = profile_server.ask(host, port, duration_in_ms, dict(xprof_options or {}))
    print(f"written: {traces.write(text, folder, True, f'{host}_{port}')}")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command with the given arguments, by default those of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m gpuarray.collect_profile",
        description="Take a trace of a program that has called gpuarray.profiler.start_server.",
    )
    parser.add_argument("port", type=int, help="the port of its server")
    parser.add_argument("duration_in_ms", type=int, help="how long to look, in milliseconds")
    parser.add_argument("--log_dir", help="where to write it (default: a temporary folder)")
    parser.add_argument("--host", default=profile_server.HERE, help="default: %(default)s")
    parser.add_argument("--no_perfetto_link", action="store_true", help="always: there is none")
    for name in ("host_tracer_level", "device_tracer_level", "python_tracer_level"):
        parser.add_argument(f"--{name}", type=int, help="see gpuarray.profiler.ProfileOptions")
    given = vars(parser.parse_args(argv))
    # Levels that were not given stay the server's.
    levels = {k: given.pop(k) for k in list(given) if k.endswith("_level")}
    given["no_perfetto_link"] = True
    collect_profile(**given, xprof_options={k: v for k, v in levels.items() if v is not None})


if __name__ == "__main__":
    main()
