"""Listeners to events, and what is told to them; the environment's report."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import monitoring
from gpuarray.backends.cuda import cubins

KINDS = {
    "event": (
        monitoring.record_event,
        (),
        monitoring.register_event_listener,
        monitoring.unregister_event_listener,
    ),
    "duration": (
        monitoring.record_event_duration_secs,
        (0.5,),
        monitoring.register_event_duration_secs_listener,
        monitoring.unregister_event_duration_listener,
    ),
    "span": (
        monitoring.record_event_time_span,
        (1.0, 2.0),
        monitoring.register_event_time_span_listener,
        monitoring.unregister_event_time_span_listener,
    ),
    "scalar": (
        monitoring.record_scalar,
        (3,),
        monitoring.register_scalar_listener,
        monitoring.unregister_scalar_listener,
    ),
}


@pytest.fixture(autouse=True)
def no_listener_is_left():
    yield
    monitoring.clear_event_listeners()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_listeners_of_its_own(kind):
    seen = {k: [] for k in KINDS}
    for k, (*_, register, _) in KINDS.items():
        register(lambda event, *values, k=k, **about: seen[k].append((event, values, about)))
    record, values, register, unregister = KINDS[kind]
    record("/mine", *values, why="x")
    assert seen == {k: [("/mine", values, {"why": "x"})] if k == kind else [] for k in KINDS}
    more = []
    listen = lambda *args, **about: more.append(args)
    register(listen)
    register(listen)
    record("/mine", *values)
    unregister(listen)
    record("/mine", *values)
    assert len(more) == 3
    monitoring.clear_event_listeners()
    record("/mine", *values)
    assert len(more) == 3 and len(seen[kind]) == 3
    with pytest.raises(ValueError, match="not registered"):
        unregister(listen)
    with pytest.raises(TypeError, match="callable"):
        register(3)
    with pytest.raises(TypeError, match="string"):
        record(3, *values)


def test_a_listener_may_go_while_it_is_called():
    seen = []

    def once(event):
        seen.append(event)
        monitoring.unregister_event_listener(once)

    monitoring.register_event_listener(once)
    monitoring.register_event_listener(seen.append)
    monitoring.record_event("a")
    monitoring.record_event("b")
    assert seen == ["a", "a", "b"]


def durations():
    seen = []
    monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **about: seen.append((event.rpartition("/")[2], about, seconds >= 0))
    )
    return seen


def test_compiling_is_told_and_calls_are_not():
    @ga.jit
    def told(x):
        return gnp.cos(x) * 3

    seen = durations()
    about = {"fun_name": "told"}
    expected = [
        ("jaxpr_trace_duration", about, True),
        ("jaxpr_to_mlir_module_duration", about, True),
        ("backend_compile_duration", about, True),
    ]
    told(np.ones(3, "float32"))
    assert seen == expected
    told(np.ones(3, "float32"))
    assert seen == expected
    told(np.ones(4, "float32"))
    assert seen == expected * 2


def test_hits_and_misses_of_the_folder_of_compiled_code(fake_gpu, tmp_path):
    tmp_path.chmod(0o700)
    ga.config.update("cache_dir", str(tmp_path))
    seen, times = [], durations()
    monitoring.register_event_listener(lambda event: seen.append(event.rpartition("/")[2]))

    def fresh():
        cubins.forget()
        ga.clear_caches()
        x = gnp.ones((40, 50))
        float(ga.jit(lambda x: gnp.sum(gnp.sin(x) / 7))(x))

    fresh()
    assert seen[:2] == ["compile_requests_use_cache", "cache_misses"]
    seen.clear()
    times.clear()
    fresh()
    assert set(seen) == {"compile_requests_use_cache", "cache_hits"}
    assert "cache_retrieval_time_sec" in [name for name, *_ in times]


def test_the_environment(capsys, monkeypatch):
    monkeypatch.setenv("GPUARRAY_DEBUG", "0")
    text = ga.print_environment_info(return_string=True)
    assert text is not None and capsys.readouterr().out == ""
    rows = dict(line.partition(": ")[::2] for line in text.splitlines() if ": " in line)
    assert rows["gpuarray"] == ga.__version__ and rows["numpy"].strip() == np.__version__
    assert rows["devices"].startswith(f"{len(ga.devices())} x ")
    assert "GPUARRAY_DEBUG=0" in text.splitlines()
    assert ga.print_environment_info() is None and capsys.readouterr().out == text + "\n"
