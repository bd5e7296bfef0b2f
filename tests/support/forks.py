"""Programs in processes of their own, without starting a Python for each.

In: texts. Out: what each prints, run in a fork of one Python that has imported the package and done
nothing else, as if the text began with that import.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

_SERVER = """
import json, os, sys, gpuarray
for line in sys.stdin:
    text, *paths = json.loads(line)
    child = os.fork()
    if child == 0:
        for stream, path in enumerate(paths, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        exec(text, {"__name__": "__main__", "gpuarray": gpuarray})
        break  # and end as any program does
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@contextlib.contextmanager
def forks(place: pathlib.Path) -> Iterator[Callable[[str], str]]:
    """A function that runs a program, which must not fail, and returns what it printed."""
    paths = [place / "out", place / "err"]
    command, pipe = [sys.executable, "-c", _SERVER], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as server:
        requests, answers = server.stdin, server.stdout
        assert requests is not None and answers is not None

        def run(text: str) -> str:
            request = json.dumps([textwrap.dedent(text), *map(str, paths)])
            print(request, file=requests, flush=True)
            status = answers.readline()
            assert status == "0\n", f"{status}{paths[1].read_text()}"
            return paths[0].read_text().strip()

        yield run
