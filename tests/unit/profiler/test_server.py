"""The server that takes traces of a running program, and who asks it. Loopback only."""

import gzip
import http.client
import json
import threading

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import collect_profile, profiler
from gpuarray.api import profile_server


@pytest.fixture
def server():
    yield profiler.start_server(0)
    profiler.stop_server()


@pytest.fixture
def busy():
    """A program that runs until the test ends."""
    over, f = threading.Event(), ga.jit(lambda x: gnp.sin(x) + 1)

    def work():
        x = gnp.asarray(np.ones(10, "float32"))
        while not over.is_set():
            with profiler.TraceAnnotation("turn"):
                f(x).block_until_ready()

    thread = threading.Thread(target=work)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.on_cpu("the program is traced there")
def test_a_trace_of_a_running_program(server, busy, tmp_path, capsys):
    collect_profile.collect_profile(server.port, 100, log_dir=tmp_path)
    (path,) = [p for p in tmp_path.rglob("*.gz") if p.name != "perfetto_trace.json.gz"]
    assert str(path) in capsys.readouterr().out
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    assert {"turn", "jit <lambda>"} <= {e["name"] for e in events if e["ph"] == "X"}


@pytest.mark.on_cpu("the program is traced there")
def test_the_command_and_its_levels(server, busy, tmp_path, capsys):
    words = [str(server.port), "50", "--log_dir", str(tmp_path), "--host_tracer_level", "1"]
    collect_profile.main([*words, "--device_tracer_level=0"])
    assert "trace.json.gz" in capsys.readouterr().out
    (path,) = tmp_path.rglob("perfetto_trace.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    assert {e["name"] for e in events if e["ph"] == "X"} == {"turn"}


def test_one_trace_at_a_time(server, tmp_path):
    with profiler.trace(tmp_path), pytest.raises(RuntimeError, match="stop_trace"):
        profile_server.ask("127.0.0.1", server.port, 10, {})
    # A trace of the server's that the program stops is the program's.
    found = []

    def asked():
        try:
            profile_server.ask("127.0.0.1", server.port, 60_000, {})
        except RuntimeError as error:
            found.append(str(error))

    thread = threading.Thread(target=asked)
    thread.start()
    while not profiler.TraceAnnotation.is_enabled():
        pass
    profiler._end()
    profiler.stop_server()
    profiler.start_server(0)  # the fixture stops it
    thread.join()
    assert "stopped in the program" in found[0]


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/", "127.0.0.1", 404),
        ("/trace?duration_in_ms=1", "evil.example", 404),
        ("/trace?duration_in_ms=-1", "localhost", 400),
        ("/trace?duration_in_ms=9999999999", "localhost", 400),
        ("/trace?duration_in_ms=x", "localhost", 400),
        ("/trace?duration_in_ms=1&enable_hlo_proto=1", "localhost", 400),
        ("/trace?duration_in_ms=1&host_tracer_level=9", "localhost", 400),
        ("/trace?duration_in_ms=1", "localhost:9", 200),
    ],
)
def test_what_is_answered(server, path, host, status):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", path, headers={"Host": host})
    assert connection.getresponse().status == status
    connection.close()
    assert not profiler.TraceAnnotation.is_enabled()


def test_one_server_at_a_time(server):
    with pytest.raises(ValueError, match="Only one profiler server"):
        profiler.start_server(0)


def test_what_cannot_be_asked(tmp_path):
    with pytest.raises(ValueError, match="No active profiler server"):
        profiler.stop_server()
    with pytest.raises(TypeError, match="number"):
        profiler.start_server("9999")  # pyright: ignore[reportArgumentType]
    found = profiler.start_server(0)
    profiler.stop_server()
    with pytest.raises(ConnectionError, match="start_server"):
        collect_profile.collect_profile(found.port, 10, log_dir=tmp_path)
    with pytest.raises(NotImplementedError, match="perfetto"):
        collect_profile.collect_profile(found.port, 10, no_perfetto_link=False)
