"""The benchmarks as a program: what they compare, how they judge, what they say of absent peers."""

import json

import numpy as np
import pytest

from bench import floors, host, measure, peers, results, workloads
from bench.__main__ import main
from bench.measure import Record
from gpuarray.cli.timing import Samples

OURS = ("fused", "unfused", "numpy")


def pieces(workload, side=420):
    """Squares (which fit each other transposed too), large enough to be cut in tiles."""
    arrays = workload.arrays(quick=False)
    if arrays[0].ndim == 1:
        return [a[: side * side] for a in arrays]
    return [a[:side, :side] if a.ndim == 2 else a[:side] for a in arrays]


@pytest.mark.parametrize("workload", workloads.WORKLOADS, ids=lambda w: w.name)
def test_every_workload_is_right_fused_and_unfused(workload):
    arrays = pieces(workload)
    want = measure.reference(workload, arrays)
    for peer in peers.gather(OURS)[0].values():
        with peer.around():
            got = measure.bound(workload, peer, arrays)()
        assert measure.worst_error(got, want) <= workload.tolerance, peer.name


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


def test_the_null_driver_runs_nothing_and_goes_away():
    from gpuarray.drivers import numpy as driver

    before = driver.build
    with host.null_driver():
        for name in host.OVERHEADS:
            call, operations = host.overhead(name)
            result = np.asarray(call())
            assert operations >= 1 and not result.any(), name  # its buffers hold zeros
    assert driver.build is before


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


def test_an_option_that_matches_nothing_says_what_there_is(capsys):
    assert main(["--only", "nothing_of_the_sort"]) == 2
    assert "softmax" in capsys.readouterr().err
