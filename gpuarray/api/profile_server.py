"""A server that takes profiles of the running program when a client on this machine requests one.

Floor 6. In: a port. Out: at `GET /trace?duration_in_ms=1000` on 127.0.0.1, a trace of what runs
during this time, as compressed JSON. Nothing else is served, and other machines cannot connect.
"""

from __future__ import annotations

import threading
import urllib.parse
from collections.abc import Callable
from typing import Any

from gpuarray.util import lazy_module

socket: Any = lazy_module("socket")
server: Any = lazy_module("http.server")
client: Any = lazy_module("http.client")

#: The longest duration of a trace.
LONGEST = 600_000
HERE = "127.0.0.1"


class ProfilerServer:
    """A server, ended by `stop`. `port` is its actual port, also if any free one was requested.

    Parameters
    ----------
    take :
        Takes a trace: (function that waits for its end, levels by name) -> compressed JSON. It
        raises RuntimeError if another trace is being taken, ValueError for an invalid level.
    """

    def __init__(self, port: int, take: Callable[[Callable[[], Any], dict[str, int]], bytes]):
        over = threading.Event()

        class Handler(server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, text = _answer(self.path, self.headers.get("Host", ""), take, over)
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                """Do not log requests."""

        self._over = over
        self._server = server.ThreadingHTTPServer((HERE, port), Handler)
        # A request that still waits does not keep the program from ending.
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._serve, name="gpuarray-profiler", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._over.is_set():
            self._server.handle_request()

    def stop(self) -> None:
        """End the server; a trace that is being taken ends, too."""
        self._over.set()
        # The thread waits for a request: an empty one wakes it. `serve_forever` would look up
        # twice a second instead, and `shutdown` wait for that.
        socket.create_connection((HERE, self.port)).close()
        self._thread.join()
        self._server.server_close()


def _answer(path: str, host: str, take: Callable, over: threading.Event) -> tuple[int, bytes]:
    asked = urllib.parse.urlsplit(path)
    # A web page could send requests in the name of another host.
    if asked.path != "/trace" or host.partition(":")[0] not in (HERE, "localhost"):
        return 404, b"there is /trace?duration_in_ms=1000 here"
    try:
        levels = {k: int(v) for k, v in urllib.parse.parse_qsl(asked.query)}
        duration = levels.pop("duration_in_ms", 1000)
        if not 0 <= duration <= LONGEST:
            raise ValueError(f"duration_in_ms must be from 0 to {LONGEST}, got {duration}")
        return 200, take(lambda: over.wait(duration / 1000), levels)
    except (ValueError, AttributeError) as error:
        return 400, str(error).encode()
    except RuntimeError as error:
        return 409, str(error).encode()


def ask(host: str, port: int, duration_in_ms: int, levels: dict[str, int]) -> bytes:
    """Return another program's trace; raise RuntimeError with its server's message on failure."""
    query = urllib.parse.urlencode({"duration_in_ms": duration_in_ms, **levels})
    # The answer comes when the trace is over, and has to be packed and sent.
    connection = client.HTTPConnection(host, port, timeout=60 + duration_in_ms / 1000)
    try:
        try:
            connection.request("GET", f"/trace?{query}")
        except OSError as error:
            raise ConnectionError(
                f"no profiler server answers at {host}:{port} ({error}): the program to look at "
                f"has to call gpuarray.profiler.start_server({port})"
            ) from None
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{host}:{port} took no trace: {text.decode(errors='replace')}")
    return text
