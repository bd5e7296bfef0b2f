"""Profiles: traces read back from their files, NVTX ranges on the stand-in for a GPU, pprof."""

import gzip
import itertools
import json
import os
import threading
import time

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, profiler
from gpuarray.core import ranges

X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)


@pytest.fixture(autouse=True)
def no_trace_is_left():
    yield
    assert ranges.session is None
    assert profiler._running is None


def events(folder):
    """The ranges of the one trace below a folder, in the order of their starts."""
    return rows_and_events(folder)[1]


def rows_and_events(folder):
    """The names of the rows by their numbers, and the ranges."""
    (path,) = folder.rglob("*.trace.json.gz")
    with gzip.open(path) as file:
        made = json.load(file)
    assert set(made) == {"displayTimeUnit", "traceEvents"}
    found = [e for e in made["traceEvents"] if e["ph"] == "X"]
    named = [e for e in made["traceEvents"] if e["name"] == "thread_name"]
    named = {e["tid"]: e["args"]["name"] for e in named}
    assert {e["tid"] for e in found} <= {*named}
    assert all(e["pid"] == os.getpid() and e["ts"] >= 0 and e["dur"] >= 0 for e in found)
    assert found == sorted(found, key=lambda e: e["ts"])
    return named, found


def end(e):
    return round(e["ts"] + e["dur"], 3)


def around(found, e):
    """The names of the ranges around one, from the outermost; none may overlap it in part."""
    names = []
    for other in found[: found.index(e)]:
        if other["tid"] == e["tid"] and end(other) > e["ts"]:
            assert end(other) >= end(e), (other, e)
            names.append(other["name"])
    return names


def of_kind(found, kind):
    return [e for e in found if e["cat"] == kind]


def paths(found, kind):
    return ["/".join([*around(found, e), e["name"]]) for e in of_kind(found, kind)]


def traced(folder, fun, *args, **options):
    """The ranges of one call, with everything that it starts."""
    with profiler.trace(folder, **options):
        fun(*args)
    return events(folder)


@ga.jit
def model(x):
    with ga.named_scope("model"):
        for i in range(2):
            with ga.named_scope(f"layer{i}"):
                with ga.named_scope("mix"):
                    x = x @ x.T @ x
                x = gnp.tanh(x)
    return x + 1


def run_model():
    return model(X).block_until_ready()


def test_a_trace_has_calls_programs_scopes_and_steps(tmp_path):
    run_model()
    found = traced(tmp_path, run_model)
    (call,) = of_kind(found, "jit")
    assert call["name"] == "jit model" and "test_profiler.py" in call["args"]["called at"]
    assert paths(found, "step") == [
        "jit model/model/model/layer0/mix/dot_general",
        "jit model/model/model/layer0/mix/dot_general",
        "jit model/model/model/layer0/tanh",
        "jit model/model/model/layer1/mix/dot_general",
        "jit model/model/model/layer1/mix/dot_general",
        "jit model/model/model/layer1/tanh",
        "jit model/model/add",
    ]
    first = of_kind(found, "step")[0]
    assert "test_profiler.py" in first["args"]["recorded at"]
    assert first["args"]["bytes"] == 4 * (12 + 9)  # both operands are one array


def test_tracing_and_compiling_are_ranges_of_their_own(tmp_path):
    @ga.jit
    def fresh(x):
        return gnp.cos(x) * 2

    found = traced(tmp_path, fresh, gnp.asarray(X))
    assert [e["name"] for e in of_kind(found, "compile")] == [
        "trace fresh",
        "compile fresh",
        "build fresh",
    ]


def test_steps_in_loops_and_branches(tmp_path):
    @ga.jit
    def f(x):
        def body(i, c):
            with ga.named_scope("turn"):
                return lax.cond(i < 1, lambda c: c @ c, lambda c: gnp.linalg.inv(c), c)

        return lax.fori_loop(0, 2, body, x)

    x = gnp.eye(3) * 2
    expected = np.asarray(f(x))
    found = traced(tmp_path, lambda: np.testing.assert_array_equal(f(x), expected))
    of_turn = [p for p in paths(found, "step") if "/turn/" in p]
    assert any(p.endswith("dot_general") for p in of_turn), of_turn
    assert any("cond" in p.split("/") for p in of_turn), of_turn


def test_large_work_on_its_own_thread(tmp_path):
    @ga.jit
    def heavy(x):
        with ga.named_scope("twice"):
            return gnp.sin(x) * 2 + gnp.exp(x).sum()

    x = gnp.ones((1200, 1200))
    heavy(x).block_until_ready()
    found = traced(tmp_path, lambda: heavy(x).block_until_ready())
    (call,), (run,) = of_kind(found, "jit"), of_kind(found, "run")
    assert call["tid"] != run["tid"]
    steps = paths(found, "step")
    assert steps and all(p.startswith("heavy/twice/k") for p in steps)
    assert any("reduce_sum" in e["args"]["operations"] for e in of_kind(found, "step"))


def test_operations_outside_of_jit(tmp_path):
    x, large = gnp.asarray(X), gnp.ones(100_000)

    def run():
        with ga.named_scope("small"):
            _ = x + 1
        with ga.named_scope("large"):
            (large * 2 + 1).block_until_ready()

    run()
    found = traced(tmp_path, run)
    assert paths(found, "operation") == ["small/add"]
    assert "test_profiler.py" in of_kind(found, "operation")[0]["args"]["recorded at"]
    steps = [p for p in paths(found, "step") if p.startswith("large/")]
    assert len(steps) == 2 and all("/eager/large/" in p for p in steps), steps


def test_programs_of_one_structure_have_their_own_scopes(tmp_path):
    def named(name):
        def f(x):
            with ga.named_scope(name):
                return gnp.sin(x) + 3

        return f

    first, second = ga.jit(named("first")), ga.jit(named("second"))
    large = gnp.ones(100_000)

    def run():
        for f in (first, second):
            f(X).block_until_ready()
        for name in ("first", "second"):
            named(name)(large).block_until_ready()

    run()
    found = traced(tmp_path, run)
    of_jit = [p for p in paths(found, "step") if p.startswith("jit f/")]
    assert of_jit == [f"jit f/f/{n}/{op}" for n in ("first", "second") for op in ("sin", "add")]
    eager = ["/".join(p.split("/")[:2]) for p in paths(found, "step") if p.startswith("eager/")]
    assert list(dict.fromkeys(eager)) == ["eager/first", "eager/second"]


def test_annotations(tmp_path):
    @profiler.annotate_function
    def double(x):
        return 2 * x

    with profiler.trace(tmp_path):
        with profiler.TraceAnnotation("load", batch=3, what=np.float32(0.5)) as outer:
            assert profiler.TraceAnnotation.is_enabled()
            for number in range(2):
                with profiler.StepTraceAnnotation("train", step_num=number):
                    assert double(3) == 6
            outer.set_metadata(rows=7)
        with pytest.raises(KeyError), profiler.TraceAnnotation("fails"):
            raise KeyError
        profiler.annotate_function(double, name="again")(1)
    assert not profiler.TraceAnnotation.is_enabled()
    found = events(tmp_path)
    name = double.__qualname__
    assert paths(found, "annotation") == [
        "load", "load/train", f"load/train/{name}", "load/train", f"load/train/{name}", "fails",
        "again", f"again/{name}",
    ]  # fmt: skip
    assert found[0]["args"] == {"batch": 3, "what": "0.5", "rows": 7}
    assert [e["args"] for e in found if e["name"] == "train"] == [{"step_num": 0}, {"step_num": 1}]


def test_what_is_open_at_the_ends_is_not_in_the_trace(tmp_path):
    with profiler.TraceAnnotation("before"):
        profiler.start_trace(tmp_path)
    with profiler.TraceAnnotation("inside"):
        pass
    with profiler.TraceAnnotation("after"):
        profiler.stop_trace()
    assert [e["name"] for e in events(tmp_path)] == ["inside"]


def test_threads_have_rows_of_their_own(tmp_path):
    barrier = threading.Barrier(3)

    def work(number):
        barrier.wait()
        for _ in range(20):
            with profiler.TraceAnnotation(f"outer{number}"), profiler.TraceAnnotation("inner"):
                run_model()

    run_model()
    with profiler.trace(tmp_path):
        threads = [threading.Thread(target=work, args=(i,), name=f"w{i}") for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = events(tmp_path)
    rows = {}
    for e in of_kind(found, "annotation"):
        rows.setdefault(e["tid"], set()).add(e["name"])
    assert sorted(map(sorted, rows.values())) == [["inner", f"outer{i}"] for i in range(3)]
    assert len(of_kind(found, "step")) == 60 * 7
    starts = [p.split("/")[:3] for p in paths(found, "step")]
    assert all(outer.startswith("outer") and x == ["inner", "jit model"] for outer, *x in starts)


def test_one_trace_at_a_time(tmp_path):
    with profiler.trace(tmp_path / "a"):
        with pytest.raises(RuntimeError, match="stop_trace"):
            profiler.start_trace(tmp_path / "b")
        with profiler.TraceAnnotation("still"):
            pass
    with pytest.raises(RuntimeError, match="start_trace"):
        profiler.stop_trace()
    assert [e["name"] for e in events(tmp_path / "a")] == ["still"]
    assert not (tmp_path / "b").exists()


def test_an_error_in_the_block_is_raised_and_the_trace_written(tmp_path):
    with pytest.raises(ZeroDivisionError), profiler.trace(tmp_path):
        with profiler.TraceAnnotation("half"):
            raise ZeroDivisionError
    assert [e["name"] for e in events(tmp_path)] == ["half"]


def test_files_are_written_at_the_end_only(tmp_path):
    folder = tmp_path / "new"
    with profiler.trace(folder):
        run_model()
        assert not folder.exists()
    assert [p.suffix for p in folder.rglob("*") if p.is_file()] == [".gz"]
    with profiler.trace(folder, create_perfetto_trace=True):
        pass
    names = [p.name for p in folder.rglob("*.gz")]
    assert len(names) == 3 and "perfetto_trace.json.gz" in names  # two traces, within a second


def test_a_trace_that_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(NotADirectoryError, match="file"):
        profiler.start_trace(file)
    with pytest.raises(OSError), profiler.trace(tmp_path / "later"):
        (tmp_path / "later").write_text("")
    with pytest.raises(RuntimeError):
        profiler.stop_trace()


def test_what_has_no_effect_is_refused(tmp_path):
    with pytest.raises(NotImplementedError, match="create_perfetto_trace"):
        profiler.start_trace(tmp_path, create_perfetto_link=True)
    with pytest.raises(TypeError, match="ProfileOptions"):
        profiler.start_trace(tmp_path, profiler_options={"host_tracer_level": 1})
    with pytest.raises(TypeError):
        profiler.start_trace(3)
    with pytest.raises(NotImplementedError, match="trace"):
        profiler.register_subprocess(1, 9999)
    options = profiler.ProfileOptions()
    for name, value in {"python_tracer_level": 1, "host_tracer_level": 3}.items():
        with pytest.raises(ValueError, match=name):
            setattr(options, name, value)
    with pytest.raises(AttributeError, match="host_tracer_level"):
        options.enable_hlo_proto = True
    with pytest.raises(AttributeError, match="JSON"):
        _ = profiler.ProfileData
    with pytest.raises(TypeError, match="string"):
        profiler.TraceAnnotation(3)
    with pytest.raises(TypeError, match="function"):
        profiler.annotate_function("f")


@pytest.mark.parametrize(
    ("name", "level", "kinds"),
    [
        ("host_tracer_level", 0, {"run", "step", "scope"}),
        ("host_tracer_level", 1, {"run", "step", "scope", "annotation"}),
        ("device_tracer_level", 0, {"annotation", "jit", "copy", "scope"}),
    ],
)
def test_options_say_what_a_trace_contains(tmp_path, name, level, kinds):
    run_model()
    options = profiler.ProfileOptions()
    setattr(options, name, level)

    def run():
        with profiler.TraceAnnotation("a"), ga.named_scope("s"):
            run_model()

    assert {e["cat"] for e in traced(tmp_path, run, profiler_options=options)} == kinds


def test_a_step_that_fails_is_named_and_its_ranges_end(tmp_path):
    def boom(x):
        raise ArithmeticError("boom")

    @ga.jit
    def f(x):
        with ga.named_scope("outer"):
            return ga.pure_callback(boom, ga.ShapeDtypeStruct(x.shape, x.dtype), gnp.sin(x))

    with profiler.trace(tmp_path), profiler.TraceAnnotation("a"):
        with pytest.raises(Exception) as caught:
            f(X).block_until_ready()
    notes = "".join(getattr(caught.value, "__notes__", ())) + str(caught.value)
    assert "pure_callback" in notes and "test_profiler.py" in notes
    steps = paths(events(tmp_path), "step")
    assert [p.split("/")[-2:] for p in steps] == [["outer", "sin"], ["outer", "pure_callback"]]


def test_values_and_donation_are_those_without_a_trace(tmp_path):
    f = ga.jit(lambda x, y: (x.at[0].set(5.0) @ y, gnp.sort(y)), donate_argnums=0)
    make = lambda: (gnp.asarray(np.ones((3, 3), "f")), gnp.asarray(np.eye(3, dtype="f")))
    expected = [np.asarray(a) for a in f(*make())]
    args = make()
    with profiler.trace(tmp_path):
        found = f(*args)
    assert args[0].is_deleted()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_calls_after_a_trace_are_as_fast_as_before(tmp_path):
    f, x = ga.jit(lambda x: x + 1), gnp.asarray(X)
    f(x)
    (fast,) = f._fast.values()
    with profiler.trace(tmp_path):
        f(x)
    assert [*f._fast.values()] == [fast]
    assert len(of_kind(events(tmp_path), "jit")) == 1


def test_a_trace_of_too_many_ranges_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(ranges, "LIMIT", 3)
    with pytest.warns(UserWarning, match="first 3 ranges; 2 that"), profiler.trace(tmp_path):
        for i in range(5):
            with profiler.TraceAnnotation(str(i)):
                pass
    assert [e["name"] for e in events(tmp_path)] == ["0", "1", "2"]


def test_a_forked_child_takes_no_trace(tmp_path):
    with profiler.trace(tmp_path):
        child = os.fork()
        if child == 0:
            ok = ranges.session is None and profiler._running is None
            os._exit(0 if ok else 1)
        deadline = time.monotonic() + 60
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert status == 0


def test_on_the_simulator(tmp_path):
    with ga.default_device("simulator"):
        f = ga.jit(lambda x: ga.named_call(gnp.sin, name="wave")(x) * 2)
        x = gnp.asarray(X)
        f(x).block_until_ready()
        found = traced(tmp_path, lambda: f(x).block_until_ready())
    (path,) = [p for p in paths(found, "step") if "<lambda>" in p]
    assert "sin, mul" in path


@pytest.mark.devices
def test_each_device_has_a_row_of_its_own(tmp_path):
    mesh = ga.make_mesh((4,), ("x",), devices=ga.devices()[:4])
    sharding = ga.NamedSharding(mesh, ga.P("x"))
    x = ga.device_put(gnp.arange(8.0), sharding)

    @ga.jit
    def f(x):
        with ga.named_scope("part"):
            y = gnp.sin(x) * 2
        return y - y.sum()

    f(x)
    with profiler.trace(tmp_path):
        f(x).block_until_ready()
    rows, found = rows_and_events(tmp_path)
    steps = {}
    for e in of_kind(found, "step"):
        steps.setdefault(rows[e["tid"]], []).append(e["name"])
    assert [*steps] == [f"cpu:{i}" for i in range(4)]
    assert len({*map(tuple, steps.values())}) == 1
    kinds = [e["args"]["kind"] for e in of_kind(found, "step")]
    assert kinds.count("exchange") == 4 and len(kinds) > 4
    assert {path.split("/")[1] for path in paths(found, "step")} >= {"part"}


# ---- a GPU ----
def test_nvtx_ranges_nest_and_are_closed(fake_gpu, tmp_path):
    x = gnp.asarray(X)
    model(x).block_until_ready()
    assert fake_gpu.ranges == []  # nothing without a trace
    with profiler.trace(tmp_path), profiler.TraceAnnotation("user"):
        model(x).block_until_ready()
    names = [name for _, name in fake_gpu.ranges]
    assert names[:3] == ["user", "jit model", "model"]
    assert [depth for depth, name in fake_gpu.ranges if name.startswith("layer")] == [4, 4]
    assert [depth for depth, name in fake_gpu.ranges if name == "mix"] == [5, 5]
    steps = paths(events(tmp_path), "step")
    assert sum(p.endswith("mix/dot_general") for p in steps) == 4
    assert any("/layer0/" in p and p.endswith(": tanh") for p in steps), steps
    del fake_gpu.ranges[:]
    model(x).block_until_ready()
    assert fake_gpu.ranges == []


def test_nvtx_ranges_are_closed_after_a_failed_launch(fake_gpu, tmp_path):
    x = gnp.asarray(X)
    model(x).block_until_ready()
    fake_gpu.fail("launch", 0)
    with pytest.raises(ga.errors.DeviceError), profiler.trace(tmp_path):
        model(x).block_until_ready()
    *_, failed = paths(events(tmp_path), "step")
    assert failed.endswith(": tanh")
    assert fake_gpu.ranges and not fake_gpu.open_ranges
    fake_gpu.failing.clear()


def test_annotations_are_nvtx_ranges_without_a_trace(fake_gpu):
    gnp.ones(3).block_until_ready()
    with profiler.TraceAnnotation("user"):
        pass
    assert fake_gpu.ranges == [(0, "user")]


def test_programs_replayed_as_graphs(fake_gpu, tmp_path):
    f = ga.jit(lambda x: [gnp.cumsum(gnp.sin(x) * i).sum() for i in range(12)])
    x = gnp.asarray(X)
    f(x)
    found = traced(tmp_path, lambda: f(x)[0].block_until_ready())
    assert any(p.endswith("/CUDA graph") for p in paths(found, "step")), paths(found, "step")


def test_steps_as_the_gpu_ran_them_have_a_row_of_their_own(fake_gpu, tmp_path):
    x = gnp.asarray(X)
    model(x).block_until_ready()

    def run():
        gnp.asarray(model(gnp.asarray(X))).block_until_ready()

    with profiler.trace(tmp_path):
        run()
    rows, found = rows_and_events(tmp_path)
    launched = [e["name"] for e in of_kind(found, "step")]
    ran = of_kind(found, "kernel")
    assert [e["name"] for e in ran] == launched
    assert {rows[e["tid"]] for e in ran} == {"cuda:0 stream"}
    # In the order of the stream: one begins when the one before it is over.
    assert all(end(a) <= b["ts"] for a, b in itertools.pairwise(ran))
    kinds = {e["args"]["kind"] for e in ran}
    assert kinds == {"kernel", "library"}
    assert all("test_profiler.py" in e["args"]["recorded at"] for e in ran)


def test_copies_are_ranges(fake_gpu, tmp_path):
    with profiler.trace(tmp_path):
        np.asarray(ga.device_put(X))
    names = [e["name"] for e in of_kind(events(tmp_path), "copy")]
    assert names[-2:] == ["copy from the host to cuda:0", "copy from cuda:0 to the host"]


# ---- memory ----
def varint(data, i):
    """The number that begins at a byte, and where the next begins."""
    value = shift = 0
    while True:
        value |= (data[i] & 0x7F) << shift
        shift += 7
        i += 1
        if data[i - 1] < 0x80:
            return value, i


def fields(data):
    """A message of protocol buffers as pairs (number of the field, value)."""
    i = 0
    while i < len(data):
        tag, i = varint(data, i)
        value, i = varint(data, i)
        if tag & 7 == 2:
            value, i = data[i : i + value], i + value
        yield tag >> 3, value


def test_a_memory_profile_counts_the_arrays_alive(tmp_path):
    held = [gnp.asarray(np.ones((123, 7), "float32")) for _ in range(3)]
    profiler.save_device_memory_profile(tmp_path / "memory.prof")
    profile = list(fields(gzip.decompress((tmp_path / "memory.prof").read_bytes())))
    texts = [value.decode() for number, value in profile if number == 6]
    assert texts[0] == ""
    units = [tuple(texts[n] for _, n in fields(v)) for number, v in profile if number == 1]
    assert units == [("objects", "count"), ("space", "bytes")]
    functions = {}
    for _, value in (p for p in profile if p[0] == 5):
        found = dict(fields(value))
        functions[found[1]] = texts[found[2]]
    locations = {}
    for _, value in (p for p in profile if p[0] == 4):
        found = dict(fields(value))
        locations[found[1]] = functions[dict(fields(found[4]))[1]]
    samples = {}
    for _, value in (p for p in profile if p[0] == 2):
        found = dict(fields(value))
        count, i = varint(found[2], 0)
        samples[tuple(locations[i] for i in found[1])] = count, varint(found[2], i)[0]
    (stack,) = [s for s in samples if s[0] == "float32[123,7]"]
    assert stack[1] == str(held[0].device)
    assert samples[stack] == (3, 3 * 123 * 7 * 4)
    assert profiler.device_memory_profile("cpu")
    del held
