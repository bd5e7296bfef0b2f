"""The benchmarks as a program: what they compare, how they judge, what they say of absent peers."""

import dataclasses
import importlib.util
import json
import re
import subprocess
import sys

import numpy as np
import pytest

import gpuarray as ga
from bench import (
    clocks,
    cpu,
    cpu_torch,
    floors,
    host,
    limits,
    measure,
    parallel,
    peers,
    results,
    suite,
    versions,
    worker,
    workloads,
)
from bench.__main__ import main
from bench.measure import Record
from gpuarray.backends.cuda import nvrtc
from gpuarray.cli.timing import Samples
from tests.gpu import golden, ulps
from tests.support import ROOT

OURS = ("fused", "unfused", "numpy")


WORKLOADS = pytest.mark.parametrize("workload", workloads.WORKLOADS, ids=lambda w: w.name)


@WORKLOADS
def test_every_workload_is_right_fused_and_unfused(workload):
    arrays = workload.arrays(workload.small)
    for peer in peers.gather(OURS)[0].values():
        call = measure.finished(workload, peer, arrays, workload.small)
        with peer.around():
            got = measure.to_host(call(), peer)
        error = measure.error_of(workload, got, arrays, workload.small)
        assert error <= workload.tolerance, peer.name


@WORKLOADS
def test_some_rows_of_a_result_are_compared_as_all_of_it(workload):
    """What a GPU computes in bfloat16, of which only samples are compared when it is large."""
    if not workload.sample:
        return
    peer = peers.gather(("fused",))[0]["fused"]
    arrays = workload.arrays(workload.small, workload.dtype)
    result = measure.finished(workload, peer, arrays, workload.small)()
    allowed = workload.allowed(workload.dtype)

    def error(result):
        return measure.sampled_error(workload, result, arrays, workload.small, peer)

    assert error(result) <= allowed
    if workload.judge is None:  # and a wrong row is noticed
        many = isinstance(result, tuple)
        outputs = (0,) if workload.sample == "all" else workload.sample[1]
        i = next(i for i, axis in enumerate(outputs) if axis is not None)
        worse = (result[i] if many else result) + 3.0
        assert error((*result[:i], worse, *result[i + 1 :]) if many else worse) > allowed


def test_a_nan_is_the_worst_error():
    want = np.ones((3, 4))
    assert not measure.worst_error(np.full((3, 4), np.nan), want) <= 1.0
    with pytest.raises(ValueError, match="shape"):
        measure.worst_error(np.ones(3), want)


def test_versions_of_a_workload_exist_under_its_name():
    names = {w.function.__name__ for w in workloads.WORKLOADS}
    assert {name for name, _ in versions.LEFT_OUT} <= set(workloads.BY_NAME)
    assert all(set(table) <= names for table in versions.VERSIONS.values())
    assert {name for name, _ in versions.NOTES} <= names


@pytest.mark.parametrize("cost", host.HOST, ids=lambda c: c.name)
def test_host_costs_run(cost):
    peer = peers.gather(("fused",))[0]["fused"]
    call = cost.call(peer)
    assert call is not None
    call()


def test_host_calls_compute_the_same_everywhere():
    here = peers.gather(("fused", "numpy"))[0]
    for cost in host.HOST:
        ours, plain = (cost.call(p) for p in here.values())
        if plain is None:
            continue
        mine, theirs = ours(), plain()
        if isinstance(mine, dict):
            mine, theirs = list(mine.values()), list(theirs.values())
        np.testing.assert_allclose(
            np.asarray(mine), np.asarray(theirs), rtol=1e-6, err_msg=cost.name
        )


@pytest.mark.parametrize("native", ["auto", "off"])
def test_the_null_driver_runs_nothing_and_goes_away(native):
    from gpuarray.backends.numpy import program as driver

    before = driver.build, ga.config.read("native")
    ga.config.update("native", native)
    try:
        with host.null_driver():
            for name in host.OVERHEADS:
                call, operations = host.overhead(name)
                result = np.asarray(call())
                assert operations >= 1 and not result.any(), name  # its buffers hold zeros
        assert ga.config.read("native") == native
    finally:
        ga.config.update("native", before[1])
    assert driver.build is before[0]


@pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
def test_first_calls_end_in_machine_code(monkeypatch):
    compiled = []
    compile = nvrtc.compile
    monkeypatch.setattr(nvrtc, "compile", lambda *a: compiled.append(a) or compile(*a))
    for name, times in (("first_cuda", 2), ("first_cuda_disk", 1)):
        compiled.clear()
        with host.first_call(name) as call:
            assert call()[:4] == call()[:4] == b"\x7fELF"
        assert len(compiled) == times, name


def test_absent_peers_are_named_with_a_reason(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    here, missing = peers.gather()
    assert list(here) == ["fused", "unfused", "numpy"]
    assert missing == {"jax": "not installed", "torch": "not installed"}


def record(name, **seconds):
    samples = {peer: Samples([s]) for peer, s in seconds.items()}
    return Record(name, name, "throughput", samples, dict.fromkeys(samples, 1e-07), 1e-5)


def test_floors_are_kept_missed_or_not_judged():
    kept = record("chain_jit", fused=1.0, numpy=2.5, jax=1.5)
    assert floors.exit_status(floors.judge([kept])) == 0
    missed = record("chain_jit", fused=1.0, numpy=1.5, jax=1.5)
    assert floors.exit_status(floors.judge([missed])) == 1
    assert "MISSED" in str(floors.judge([missed])[1])
    absent = record("chain_jit", fused=1.0, numpy=2.5)
    assert floors.exit_status(floors.judge([absent])) == 2
    assert "jax is absent" in str(floors.judge([absent])[0])
    assert floors.judge([record("another", fused=1.0)]) == []


def test_every_floor_names_something_that_is_measured():
    names = {w.name for w in workloads.WORKLOADS} | {c.name for c in host.HOST} | {"import_time"}
    assert {f.workload for f in floors.FLOORS} <= names


def test_only_our_wrong_results_count_against_us():
    around = {"peers": {"fused": "1", "numpy": "2"}, "copy_bytes_per_second": 1e9}
    r = record("x", fused=1.0, numpy=2.0)
    r.errors["numpy"] = 1.0
    assert "peers that are less exact" in results.table([r], around)
    assert "WRONG" not in results.table([r], around)
    r.errors["fused"] = float("nan")
    assert "WRONG RESULTS\nx: fused" in results.table([r], around)


def test_a_quick_run_writes_figures_table_and_picture(tmp_path, capsys):
    out = tmp_path / "results"
    arguments = ["--quick", "--only", "^(chain_jit|slice)$", "--peers", "fused,numpy"]
    assert main([*arguments, "--out", str(out), "--json", str(tmp_path / "b.json")]) == 0
    text = capsys.readouterr().out
    assert "chain_jit" in text and "x[1:3]" in text and "QUICK" in text
    figures = json.loads((out / "bench.json").read_text())
    assert set(figures["workloads"]) == {"chain_jit", "slice"}
    chain = figures["workloads"]["chain_jit"]
    assert chain["launches"] == 1 and chain["bytes"] < chain["bytes_unfused"]
    assert set(chain["seconds"]) == {"fused", "numpy"}
    assert json.loads((tmp_path / "b.json").read_text()) == figures
    assert (out / "bench.svg").read_text().startswith("<svg")


def test_a_broken_workload_costs_the_run_but_not_the_others(monkeypatch, capsys):
    def broken(peer):
        raise RuntimeError("no luck")

    costs = (host.HostCost("bad", "bad", broken), *host.HOST)
    monkeypatch.setattr(host, "HOST", costs)
    assert main(["--quick", "--only", "^(bad|slice)$", "--peers", "fused"]) == 1
    text = capsys.readouterr().out
    assert "FAILED bad: RuntimeError: no luck" in text and "x[1:3]" in text


def test_a_peer_that_cannot_is_named_and_costs_nobody_else(monkeypatch):
    def broken(x):
        raise RuntimeError("no room")

    bad = dataclasses.replace(peers.gather(("numpy",))[0]["numpy"], array=broken)
    here = peers.gather(("fused",))[0] | {"numpy": bad}
    saxpy = workloads.BY_NAME["saxpy"]
    found = measure.throughput(saxpy, here, True, measure.Effort(0.01, (3, 3)))
    assert set(found.samples) == {"fused"} and found.failed == {"numpy": "RuntimeError: no room"}
    around = {"peers": {"fused": "1", "numpy": "2"}, "copy_bytes_per_second": 1e9}
    assert "could not\nsaxpy: numpy: RuntimeError: no room" in results.table([found], around)


def test_an_option_that_matches_nothing_says_what_there_is(capsys):
    assert main(["--only", "nothing_of_the_sort"]) == 2
    assert "softmax" in capsys.readouterr().err


# ---- the suite on a GPU ----


class Inside:
    """A worker in this process."""

    def __init__(self, *names, gpu=True):
        self.worker, self.asked = worker.Worker(names, gpu), []

    def start(self):
        pass

    stop = start

    def ask(self, limit, **request):
        self.asked.append(request)
        return json.loads(json.dumps(self.worker.answer(json.loads(json.dumps(request)))))


def run_suite(monkeypatch, out, process, only, budget=300.0):
    monkeypatch.setattr(suite, "TIMED", 0.001)
    monkeypatch.setattr(suite, "commit", lambda: "0123456789")  # whoever edits files meanwhile
    monkeypatch.setattr(clocks, "PLUG_SPEED", 1.0)  # a stand-in does not run ahead of its host
    processes = {("fused", "unfused"): process, ("jax",): Inside("jax")}
    run = suite.Suite(processes, out, budget, only, True, processes, [].append)
    run.run()
    return run


def test_the_suite_on_a_gpu_measures_compares_and_goes_on(fake_gpu, monkeypatch, tmp_path):
    cuda = sys.modules["cupy"].cuda
    monkeypatch.setattr(cuda, "get_elapsed_time", lambda start, end: 2.0, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", without("jax"))
    process = Inside("fused", "unfused")
    run = run_suite(monkeypatch, tmp_path, process, "^(saxpy|dispatch_eager|slice)$")
    data = json.loads(run.path.read_text())
    assert data["circumstances"]["missing"] == {"jax": "not installed"}
    assert data["circumstances"]["machine"] == "Stand-in GPU" and not run.left
    saxpy = data["workloads"]["saxpy"]
    mine = saxpy["details"]["fused"]
    assert saxpy["failed"] == {} and set(saxpy["details"]) == {"fused", "unfused"}
    # Two milliseconds between any two events of the stand-in, and as many calls as took about ten.
    calls = round(2e-3 / mine["device"][0])
    assert 1 <= calls <= clocks.QUEUED and mine["device"] == [2e-3 / calls] * 5
    assert mine["bytes"] == 3 * 4 * (1 << 17) and mine["memory"] >= 4 * (1 << 17)
    assert max(mine["errors"].values()) <= saxpy["tolerance"] and set(mine["errors"]) == {
        "small",
        "large",
    }
    assert saxpy["floor"] > 0 and mine["first"] > 0 and mine["first_cached"] > 0
    assert set(data["workloads"]["slice"]["details"]) == {"fused"}
    table = run.path.with_suffix(".txt").read_text()
    assert "absent: jax (not installed)" in table and "saxpy: a*x+y, 2^17, float32" in table
    assert run.path.with_suffix(".roofline.svg").read_text().count("saxpy") >= 1
    # The same again: everything is there, so nothing is measured.
    again = Inside("fused", "unfused")
    run_suite(monkeypatch, tmp_path, again, "^(saxpy|dispatch_eager|slice)$")
    assert {r["do"] for r in again.asked} == {"hello", "roofs"}


def without(*names):
    """`find_spec` on a machine where these are not installed."""
    real = importlib.util.find_spec
    return lambda name, package=None: None if name in names else real(name, package)


def test_a_step_that_fails_is_written_down_with_its_reason(fake_gpu, monkeypatch, tmp_path):
    process = Inside("fused")
    monkeypatch.setattr(measure, "error_of", lambda *args: 1 / 0)
    run = run_suite(monkeypatch, tmp_path, process, "^saxpy$")
    assert run.records["saxpy"].failed == {"fused": "ZeroDivisionError: division by zero"}
    assert "saxpy: fused: ZeroDivisionError" in run.path.with_suffix(".txt").read_text()


def test_without_time_everything_is_left_and_said_to_be(fake_gpu, monkeypatch, tmp_path):
    run = run_suite(monkeypatch, tmp_path, Inside("fused"), "^saxpy$", budget=0.0)
    assert {s.name for s in run.left} == {"saxpy"}
    assert "step left for want of time" in run.path.with_suffix(".txt").read_text()


def test_a_worker_answers_hangs_and_dies(tmp_path):
    """In a process of its own, on the CPU: what matters here is the conversation."""
    process = suite.Process(("fused",), {"GPUARRAY_PLATFORMS": "cpu"}, tmp_path / "log")
    hello = process.ask(120.0, do="hello")["result"]
    assert set(hello["peers"]) == {"fused"} and hello["missing"] == {}
    found = process.ask(60.0, do="host", cost="jit_two", peer="fused", seconds=0.001)
    assert len(found["result"]["wall"]) >= 5
    assert "KeyError" in process.ask(60.0, do="host", cost="slice", peer="x", seconds=0.1)["failed"]
    assert process.ask(0.0, do="hello") == {"failed": "gave no answer within 0 s"}
    process.start()
    process._process.kill()
    assert "its process ended with status -9" in process.ask(60.0, do="hello")["failed"]
    process.stop()


def test_a_clock_measures_calls_and_waits_once_a_round():
    waited = []
    found = clocks.timed(lambda: 1, waited.append, None, 0.001, (3, 3))
    assert len(found["wall"]) == 3 and "device" not in found
    assert all(s > 0 for s in found["wall"])
    assert clocks.how_many_sets(1) == clocks.SETS and clocks.how_many_sets(1 << 30) == 1


def test_golden_programs_agree_on_a_gpu_and_repeat(fake_gpu):
    assert golden.compare("saxpy_odd")["ok"] and golden.compare("many")["ok"]
    assert golden.repeat("softmax_short", 3) == {
        "name": "softmax_short",
        "ok": True,
        "differing": 0,
    }
    wrong = [np.ones(3, np.float32)], [np.full(3, 1.5, np.float32)]
    assert golden.distance(*wrong) > golden.ULPS


def test_errors_in_units_in_the_last_place():
    wanted = np.array([1.0, 1.0, np.nan, 1e300, 0.0, 3e-45])
    found = np.array([1.0, 1.0 + 2**-22, np.nan, np.inf, 0.0, 0.0], np.float32)
    error, differ = ulps.off(found, wanted, np)
    np.testing.assert_allclose(error[:5], [0, 2, 0, 0, 0])
    assert 2 <= error[5] < 2.2 and not differ.any()
    assert ulps.off(np.float32([np.nan]), np.ones(1), np)[1].all()


def test_functions_are_measured_on_some_of_their_operands(monkeypatch):
    monkeypatch.setattr(ulps, "CHUNK", 1 << 12)
    some = range(0x3F00 << 4, (0x3F00 << 4) + 2)  # from 0.5 on
    for name in ulps.FUNCTIONS:
        found = ulps.measure(name, None, some)
        assert found["ok"], found


def test_calls_over_devices_are_measured_and_right(tmp_path):
    """In a process of its own, which makes eight devices."""
    path = tmp_path / "figures.json"
    only = "^(jit_add|psum_4B|psum_loop|first_pmap)$"
    arguments = ["-m", "bench.parallel", "--quick", "--only", only, "--json", str(path)]
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 devices of the CPU" in done.stdout and "budget" in done.stdout
    figures = json.loads(path.read_text())
    assert figures["circumstances"]["devices"] == 8
    assert set(figures["workloads"]) == {"jit_add", "psum_4B", "psum_loop", "first_pmap"}
    for record in figures["workloads"].values():
        assert record["median"]["fused"] > 0 and record["errors"]["fused"] <= record["tolerance"]


def test_the_network_model_is_fitted_to_devices():
    done = subprocess.run(
        [sys.executable, "-m", "bench.network", "--rounds", "1"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exchanges among 8 devices, devices of one process" in done.stdout
    for kind in ("gather, scatter", "all_to_all", "permute"):
        assert len(re.findall(rf"^{kind} .* us +\d+\.\d\d$", done.stdout, re.M)) == 3
    assert re.search(r"^\d+ of 13 within a factor of 1.3; worst \d", done.stdout, re.M)
    found = re.search(r"alpha=(\S+), bytes_per_s=(\S+), shared=True", done.stdout)
    assert found and 0 < float(found[1]) < 1 < float(found[2])


def test_unknown_calls_over_devices_are_refused(capsys):
    assert parallel.main(["--only", "nothing_of_the_sort"]) == 2
    assert "psum_1MiB" in capsys.readouterr().err


# ---- python -m bench --cpu ----


def test_the_rows_for_cpus_are_many_and_of_all_kinds():
    names = [row.name for row in cpu.rows("")]
    assert len(names) == len(set(names)) >= 60
    kinds = "while scan kalman hmc beam_search lbfgs ctc ppo odeint cloth embedding_gradient bf16"
    kinds += " top_k segment_sum segment_rows conv_norm_gradient softmax mandelbrot digamma erf"
    kinds += " map_coordinates solve_2x2 expm interp searchsorted nuts gather normal boolean_chain"
    assert all(any(name.startswith(kind) for name in names) for kind in kinds.split())


def test_texts_for_pytorch_are_of_rows():
    named = {*cpu_torch.WHOLE, *cpu_torch.TURNS}
    assert named <= {row.name for row in cpu.rows("")} and len(named) >= 75


@pytest.mark.parametrize("row", cpu.rows("segment|kalman|^scan|^while$|top_k|interp|bf16_chain"))
def test_a_row_is_timed_and_compared(row):
    here = peers.gather(("fused", "numpy"))[0]
    record = cpu.measured(row, here, True, measure.Effort(0.001, (1, 1)))
    assert not record.failed and not record.wrong
    assert len(record.samples["fused"].seconds) == 1


@pytest.mark.slow
@pytest.mark.parametrize("row", cpu.rows(""), ids=lambda row: row.name)
def test_every_row_runs_as_its_numpy_text(row):
    here = peers.gather(("fused", "numpy", "jax"))[0]
    record = cpu.measured(row, here, True, measure.Effort(0.001, (1, 1)))
    assert not record.failed and not record.wrong


def test_a_wrong_row_is_told(capsys, monkeypatch):
    (row,) = cpu.rows("^exp$")
    wrong = dataclasses.replace(row, numpy=lambda x: np.exp(x) + 1)
    monkeypatch.setattr(cpu, "ROWS", (wrong,))
    monkeypatch.setattr(cpu, "PROGRAMS", ())
    assert main(["--cpu", "--quick", "--peers", "fused,numpy"]) == 1
    out = capsys.readouterr().out
    assert "WRONG exp" in out and "geometric mean" in out
    assert main(["--cpu", "--only", "no such row"]) == 2


def test_a_chart_and_a_busy_machine_are_told(capsys, monkeypatch):
    monkeypatch.setattr("gpuarray.cli.timing.Neighbours.share", lambda self: 0.5)
    line = ["--cpu", "--quick", "--peers", "fused,numpy", "--only", "^exp$"]
    assert main([*line, "--chart"]) == 0
    out = capsys.readouterr().out
    assert "took 50 % of the machine" in out
    assert re.search(r"times of numpy over ours\n  exp  █*\|[█▏▎▍▌▋▊▉]* +\d", out)
    assert main([*line]) == 0  # no terminal, no chart
    assert "times of numpy over ours" not in capsys.readouterr().out


def test_limits_are_measured_and_judged(capsys, monkeypatch):
    assert limits.main(["--quick", "shapes"]) in (0, 1, 2)
    words = r"shapes: [\w ]+: -?[\d.]+ KiB for each of 200 shapes, \d+ units loaded, "
    assert re.match(words, capsys.readouterr().out)
    # One of which nobody can say anything, and one that is not kept.
    for kept, status, verdict in ((None, 2, "not judged"), (False, 1, "NOT KEPT")):
        monkeypatch.setitem(limits.LIMITS, "disk", lambda _, k=kept: limits.Finding("so", k))
        assert limits.main(["disk"]) == status
        assert capsys.readouterr().out == f"disk: {verdict}: so\n"
    assert limits.main(["speed"]) == 2
    assert "no such limit: speed; there are busy, streaming" in capsys.readouterr().err


def test_burners_end():
    with limits.burners(1) as running:
        (burner,) = running
        assert burner.poll() is None
    assert burner.poll() is not None
