"""`ci/gpu`: its parts, what they leave out, how they go on, and what they write when.

In: the stand-in for CuPy, commands that end in every way. Out: answers, files, lines.
"""

import json
import subprocess
import sys

import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from bench import clocks
from gpuarray.backends.cuda import device
from tests.fake_cupy import installed
from tests.gpu import __main__ as parts
from tests.gpu import devices, first, golden, least, shard
from tests.least_bytes import measured, pointwise
from tests.least_bytes.workload import Workload
from tests.support import simulated
from tests.support.exchanges import BODIES, machine

simulated.need_compiler()


@pytest.mark.parametrize("part", parts.PARTS)
def test_every_part_has_things_to_try_under_names_of_their_own(part, monkeypatch, tmp_path):
    monkeypatch.setattr(parts.shutil, "which", lambda name: f"/bin/{name}")
    todo = parts.phases(part, tmp_path, 500.0, 4)
    names = [item.name for _, each in todo for item in each]
    assert names and len(set(names)) == len(names)
    if part == "sanitize":  # one program for each kind of kernel
        kinds = golden.kinds()
        assert {"map", "rows", "rows_shared", "columns", "tiles", "scan", "loop", "batch"} <= set(
            kinds
        )
        assert {f"memcheck-{kind}" for kind in kinds} <= set(names)


#: Questions about many kernels, which take long to compile for a CPU.
LONG = {"attention", "blocks", "routines", "threads"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in first.QUESTIONS],
)
def test_first_questions_are_answered(name, monkeypatch):
    monkeypatch.setattr(first, "SIZE", 24)
    monkeypatch.setattr(first, "TIMES", 5)
    monkeypatch.setattr(first, "REPEATS", 2)
    # Another process has no stand-in.
    monkeypatch.setattr(first, "ENDS", "print('last line')")
    with installed(seed=4, memory=24 << 20):
        found = first.QUESTIONS[name]()
        ga.clear_caches()
    assert found["ok"], found


@pytest.mark.parametrize("logical", [False, True])
def test_programs_over_several_gpus_are_tried(logical):
    engine, count = ("logical", 4) if logical else ("nccl", 2)
    with machine(engine, count):
        found = devices.answers("programs")
    assert all(x["ok"] for x in found), found
    assert {(x["engine"], x["gpus"]) for x in found} == {("Peers" if logical else "Nccl", count)}


def test_every_body_is_in_one_group():
    assert sorted(n for names in devices.GROUPS.values() for n in names) == sorted(BODIES)


def test_a_ticket_that_is_too_early_is_an_answer(fake_gpu, monkeypatch):
    monkeypatch.setattr(first, "SIZE", 24)
    empty = device.Gpu.empty

    def filled(self, shape, dtype):
        buffer = empty(self, shape, dtype)
        buffer.ticket = 0
        return buffer

    monkeypatch.setattr(device.Gpu, "empty", filled)
    fake_gpu.eager = 0.0
    assert not first.products()["ok"]
    fake_gpu.faults.clear()


def test_programs_run_without_a_pool(fake_gpu):
    golden.without_pool()
    assert golden.compare("saxpy_odd")["ok"]
    assert ga.memory_stats(ga.devices()[0])["bytes_in_use"] == 0


def test_programs_of_trees_and_keys_are_compared(fake_gpu, monkeypatch):
    shapes = [ga.ShapeDtypeStruct((5 + i,), "float32") for i in range(2)]
    summed = lambda xs, key: [x + ga.random.bits(key, x.shape) % 2 for x in xs]
    monkeypatch.setattr(
        golden, "all_programs", lambda: {"tree": (summed, (shapes, ga.random.key(0)))}
    )
    assert golden.compare("tree")["ok"]


LEAST = {
    ("Maps", name): Workload(
        lambda x, i: x * 2 + i, [ga.ShapeDtypeStruct((40,), d) for d in "fi"], 480
    )
    for name in ("a x + y", "other", "broken")
}


def test_programs_are_timed_once(fake_gpu, monkeypatch, tmp_path, capsys):
    one = LEAST["Maps", "broken"]
    broken = one._replace(function=lambda x, i: x @ gnp.ones((3, 4)))
    monkeypatch.setattr(least, "workloads", lambda: LEAST | {("Maps", "broken"): broken})
    monkeypatch.setattr(least, "TIMED", 1e-3)
    # The GPU that is not there writes memory a thousandth as fast as one.
    monkeypatch.setattr(clocks, "PLUG_SPEED", clocks.PLUG_SPEED / 1000)
    results = tmp_path / "ours-0.jsonl"
    for share, names in (("0/2", ["a x + y", "broken"]), ("0/1", ["a x + y", "broken", "other"])):
        monkeypatch.setattr(sys, "argv", ["least", f"--share={share}", f"--results={results}"])
        assert least.main() == (share == "0/2")  # what failed once is not tried again
        lines = shard.results_in(results)
        assert [x["name"] for x in lines] == names
    assert "broken: TypeError" in capsys.readouterr().out
    assert all((x["wall"] > 0 and x["first"] > 0) != ("failed" in x) for x in lines if "wall" in x)
    assert parts._counts(results)["passed"] == 2 and len(parts._counts(results)["failed"]) == 1


def test_the_times_of_jax_are_those_of_its_modules(monkeypatch):
    names = ["jax", *(f"jax.{n}" for n in ("numpy", "lax", "nn", "ops", "random"))]
    for name in names:
        monkeypatch.setitem(sys.modules, name, type(sys)(name))
    for module in least.FILES:
        for name, value in list(vars(module).items()):
            monkeypatch.setattr(module, name, value)  # put back afterwards
    assert least.library(True) is sys.modules["jax"] and pointwise.ga is sys.modules["jax"]
    assert pointwise.gnp is sys.modules["jax.numpy"]
    assert not any(v.__name__.startswith("gpuarray") for v in vars(pointwise).values()
                   if isinstance(v, type(sys)))  # fmt: skip


def test_times_become_a_table():
    lines = [
        {"chapter": "Rows", "name": "of no workload", "least": 1, "jax": False, "failed": "so"},
        {"chapter": "Maps", "name": "a x + y", "least": 300, "jax": False, "device": 3e-6,
         "wall": 4e-6},
        {"chapter": "Maps", "name": "a x + y", "least": 300, "jax": True, "wall": 6e-6},
        {"chapter": "Rows", "name": "sums", "least": 100, "jax": False, "wall": 4e-6},
        {"chapter": "Rows", "name": "sums", "least": 100, "jax": True, "failed": "so"},
    ]  # fmt: skip
    rows = [line.split(" | ") for line in measured.table(lines).splitlines()]
    assert ["| a x + y", "3.0", "3.0", "4.0", "6.0", "1.50 |"] in rows
    assert ["| sums", "1.0", "", "4.0", "", " |"] in rows
    assert ["| of no workload", "0.0", "", "", "", " |"] in rows
    assert ["## Rows"] in rows


def test_times_of_all_shares_come_back_as_one_file(tmp_path, monkeypatch):
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    (tmp_path / "out").mkdir()
    line = {"chapter": "Maps", "name": "a x + y", "least": 1, "jax": False, "wall": 1.0}
    write = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
    items = []
    for name in ("ours-0", "jax-0"):
        report = tmp_path / f"{name}.jsonl"
        text = json.dumps(line | {"jax": name == "jax-0"})
        items.append(
            parts.Item(name, [sys.executable, "-c", write, str(report), text + "\n"], report)
        )
    said = []
    assert parts.run("least", [(1, items)], tmp_path, 60.0, said.append) == 0
    assert "ours-0: ok, 1 passed, 0 failed" in said[0]
    found = json.loads((tmp_path / "out" / "least.json").read_text())
    assert sorted(x["jax"] for x in found) == [False, True]
    assert "| a x + y |" in measured.table(measured.lines_in(tmp_path / "out" / "least.json"))


def test_files_that_launch_nothing_are_left_out():
    files = sorted((parts.ROOT / "tests" / "unit").rglob("test_*.py"))
    launching = {path.stem.removeprefix("test_"): parts.launches(path) for path in files}
    assert launching["lazy"] and launching["random"]
    for name in "project fake_cupy simulator cuda_text written_loops native_loops".split():
        assert not launching[name]
    names = [path.stem.removeprefix("test_") for path in files]
    assert all(names.count(name) == 1 for name in parts.NOTHING)


SHARED = """
import pytest

@pytest.mark.parametrize("i", range(7))
def test_some(i):
    assert i != 3

def test_numpy_rule_by_itself():
    pass
"""


def test_shares_are_all_tests_once_and_go_on(tmp_path):
    (tmp_path / "test_shared.py").write_text(SHARED)
    (tmp_path / "conftest.py").write_text("")

    def run(share: str) -> list[dict]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        options = ["-p", "tests.gpu.shard", f"--share={share}", f"--results={results}"]
        subprocess.run(
            [*command, *options, f"--rootdir={tmp_path}", str(tmp_path)],
            cwd=parts.ROOT, check=False, capture_output=True, timeout=120,
        )  # fmt: skip
        return shard.results_in(results)

    found = []
    for share in ("0/2", "1/2"):
        results = tmp_path / f"{share[0]}.jsonl"
        found += run(share)
    assert len({line["id"] for line in found}) == len(found) == 7
    (bad,) = (line for line in found if line["outcome"] == "failed")
    assert bad["id"].endswith("[3]") and "assert 3 != 3" in bad["why"]
    with results.open("a") as out:
        out.write('{"id": "cut o')  # the process ended while it wrote
    assert len(run("1/2")) == 3  # nothing is tried again
    counts = parts._counts(results)
    assert (counts["passed"], len(counts["failed"]), counts["idle"]) == (2, 1, 3)


def test_results_are_there_before_the_end(tmp_path, monkeypatch):
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    (tmp_path / "out").mkdir()
    seen = []
    look = "import json, sys; print(sorted(json.load(open(sys.argv[1]))['results']))"
    summary = str(tmp_path / "out" / "gpu-quick.json")
    items = [
        parts.Item("one", [sys.executable, "-c", "pass"]),
        parts.Item("two", [sys.executable, "-c", look, summary]),
    ]
    assert parts.run("quick", [(1, items)], tmp_path / "kept", 60.0, seen.append) == 0
    assert "['one']" in (tmp_path / "kept" / "two.log").read_text()


def test_a_part_is_at_most_nine_minutes(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu", "first", "--budget", "900"])
    with pytest.raises(SystemExit):
        parts.main()
    assert "at most 540 seconds, got 900" in capsys.readouterr().err


def test_parts_go_on_where_they_ended(tmp_path):
    good = parts.Item("good", [sys.executable, "-c", "print('fine')"])
    bad = parts.Item("bad", [sys.executable, "-c", "raise SystemExit(7)"])
    more = parts.Item("more", [sys.executable, "-c", f"raise SystemExit({parts.MORE})"])
    said: list[str] = []
    todo = [(1, [good, bad]), (1, [more])]
    assert parts.run("tests", todo, tmp_path, 60.0, said.append) == 1
    assert "1 ok, 1 failed, 1 left: ['more']" in said[-1]
    assert sorted(p.name for p in tmp_path.glob("*.json")) == [
        "bad.json",
        "good.json",
        "gpu-tests.json",
    ]
    said.clear()
    assert parts.run("tests", [(1, [good])], tmp_path, 60.0, said.append) == 0
    assert len(said) == 1  # it is not tried again
