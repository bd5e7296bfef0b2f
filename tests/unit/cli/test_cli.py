"""The command line: what it prints, what it writes, how it ends."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from gpuarray.__main__ import main
from gpuarray.cli import charts, checks, machine, timing
from gpuarray.cli.progress import Progress
from tests.support import ROOT


def test_the_report_ends_well_and_names_what_matters(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    for word in ("gpuarray", "Python", "NumPy", "devices", "cpu:0", "threads", "CuPy", "driver"):
        assert word in text
    assert "NVRTC" in text and "kernel cache" in text and "self-check" in text
    assert "FAILED" not in text


def test_without_a_driver_nobody_is_told_to_install_cupy(capsys, monkeypatch):
    nothing = {"text": "not found", "library": False, "gpus": [], "cuda": 0, "error": ""}
    monkeypatch.setattr(machine, "_driver", lambda: nothing)
    monkeypatch.setattr(machine, "gpus_missing", lambda: "CuPy is not installed.")
    rows = dict(machine._nvidia({}))
    assert rows["used by gpuarray"].endswith("CPU: this machine has no driver of NVIDIA's")


def test_settings_that_differ_are_listed(capsys, settings_put_back):
    from gpuarray.config import config

    config.update("fusion", False)
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"fusion +False", text)
    assert "GPUARRAY_FUSION=1" in text  # the advice


def test_a_failed_check_says_what_helps(monkeypatch, capsys):
    def broken():
        raise ValueError("off by 3")

    monkeypatch.setattr(
        checks, "CHECKS", (checks.Check("sums", "1 + 1", broken, "Turn it round."),)
    )
    assert main([]) == 1
    text = capsys.readouterr().out
    words = " ".join(text.split())
    assert "sums FAILED 1 + 1 ValueError: off by 3 Turn it round." in words


def test_every_check_says_what_it_compares_with_what(capsys):
    assert main([]) == 0
    lines = capsys.readouterr().out.split("\nself-check: ")[1].splitlines()
    assert lines[0] == "programs with known results, on cpu:0"
    for line, check in zip(lines[1:], checks.CHECKS, strict=False):
        assert re.match(rf"  {check.name} +ok +{re.escape(check.what)}", line)


def test_the_check_itself_can_fail():
    with pytest.raises(ValueError, match="off by"):
        checks._expect([1.0], [1.1])
    with pytest.raises(ValueError, match="expected shape"):
        checks._expect([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="off by nan"):
        checks._expect([float("nan")], [1.0])


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert re.fullmatch(r"gpuarray \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_a_wrong_size_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["demo", "--size", "0"])
    assert "expected a positive number of elements, got 0" in capsys.readouterr().err


def test_importing_the_package_loads_no_command_line():
    program = (
        "import sys, gpuarray; sys.exit(any(m.startswith('gpuarray.cli') for m in sys.modules))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == 0


def test_the_demo_writes_what_it_shows(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gpuarray.cli.demo._SECONDS", 0.01)
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out), "--size", "6000", "--only", "softmax"]) == 0
    text = capsys.readouterr().out
    assert "reduce_max" in text and "k0_rows" in text and "against NumPy" in text
    assert re.search(r"softmax: 1 kernel", text)
    assert "programs.py:" in text  # operations name lines of the user's copy
    figures = json.loads((out / "demo.json").read_text())
    assert figures["programs"]["softmax"]["launches"] == 1
    assert set(figures["programs"]["softmax"]["seconds"]) >= {"fused, jit", "unfused", "NumPy"}
    for name in ("demo.svg", "softmax.svg", "softmax_unfused.svg"):
        ElementTree.parse(out / name)
    assert "<html" in (out / "softmax.html").read_text()
    assert "import numpy as np\n" in (out / "programs_numpy.py").read_text()
    assert "gpuarray.numpy" not in (out / "programs_numpy.py").read_text().split('"""')[2]


# ---- what the report is made of ----


@pytest.mark.parametrize(
    ("facts", "advice"),
    [
        ({}, ""),
        ({"cupys": [("cupy-cuda12x", "1"), ("cupy-cuda13x", "1")]}, "hide one another"),
        ({"cupy": True}, "driver is not"),
        ({"library": True, "gpus": ["V100"], "cupy": True, "too_old": ["V100: sm_70"]}, "sm_70"),
        ({"library": True, "gpus": ["H100 MIG 1g.10gb"], "cupy": True}, "MIG mode"),
        ({"library": True, "cuda": 13000, "gpus": ["H200"]}, "extra `cuda13`"),
        ({"library": True, "cuda": 12040, "gpus": ["H200"]}, "extra `cuda12`"),
        ({"library": True, "error": "cuInit gave error 100"}, "cuInit gave error 100"),
        (
            {
                "library": True,
                "cuda": 12040,
                "gpus": ["T4"],
                "cupy": True,
                "cupys": [("cupy-cuda13x", "14")],
            },
            "older than CUDA 13",
        ),
    ],
)
def test_advice_about_gpus(facts, advice):
    nothing = {"cupys": [], "cupy": False, "library": False, "gpus": [], "cuda": 0, "error": ""}
    lines = machine._gpu_advice(nothing | facts)
    assert advice in " ".join(lines)
    assert bool(lines) == bool(advice)


def test_the_cache_folder_follows_the_settings(settings_put_back, tmp_path):
    from gpuarray.config import config

    config.update("cache_dir", str(tmp_path / "a"))
    assert machine.cache_folder() == tmp_path / "a"
    config.update("jax_compilation_cache_dir", str(tmp_path / "b"))
    assert machine.cache_folder() == tmp_path / "b"


def test_without_platformdirs_the_doctor_says_what_helps(monkeypatch):
    def absent():
        raise ImportError("GPUARRAY_CACHE_DIR names a folder without it.")

    monkeypatch.setattr(machine, "cache_folder", absent)
    facts = {}
    assert machine._folders(facts) == [
        ("kernel cache", "none: GPUARRAY_CACHE_DIR names a folder without it.")
    ]
    assert not facts["cache"].is_dir()


# ---- progress, timing, charts ----


class _Out:
    def __init__(self, terminal):
        self.terminal, self.text = terminal, ""

    def isatty(self):
        return self.terminal

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_progress_on_a_terminal_redraws_and_clears():
    out = _Out(True)
    with Progress(2, "measuring", out) as progress:
        progress.step("a long name")
        progress.step("b")
    assert "measuring 2/2: b" in out.text and out.text.endswith("\r")
    assert "\n" not in out.text


def test_progress_counts_what_a_step_is_made_of():
    out = _Out(True)
    with Progress(2, "demo", out) as progress:
        progress.step("first")
        progress.step("timing")
        progress.within(3, 4, "round")
        before = out.text.rsplit("\r", 1)[1]
        progress.clear()
        cleared = out.text.rsplit("\r", 2)[1]
    assert "demo 2/2: timing, round 3/4" in before
    assert before.count("=") == 21  # one step and a half of two, of 28 cells
    assert cleared.isspace() and len(cleared) == len(before)


def test_the_demo_counts_every_step(tmp_path, monkeypatch, capsys):
    told = []

    class Told(Progress):
        def step(self, name):
            told.append(name)
            super().step(name)

        def __exit__(self, *exc):
            told.append((self._done, self.steps))

    monkeypatch.setattr("gpuarray.cli.demo._SECONDS", 0.01)
    monkeypatch.setattr("gpuarray.cli.demo.Progress", Told)
    monkeypatch.setattr("gpuarray.cli.timing.Neighbours.share", lambda self: 0.4)
    assert main(["demo", "--out", str(tmp_path), "--size", "6000", "--only", "mse"]) == 0
    assert told == ["compiling mse", "timing mse", "writing reports and pictures", (3, 3)]
    assert "BUSY: other processes took 40 % of the machine" in capsys.readouterr().out


def test_progress_in_a_log_is_silent_for_short_work():
    out = _Out(False)
    with Progress(1, "measuring", out) as progress:
        progress.step("a")
    assert out.text == ""


def test_progress_in_a_log_tells_after_a_second(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    out = _Out(False)
    with Progress(3, "measuring", out) as progress:
        for name in "abc":
            progress.step(name)
            now[0] += 0.7
    assert out.text == "measuring 3/3: c\n"


def test_candidates_take_turns_in_both_directions():
    order = []
    candidates = {n: timing.Candidate(lambda n=n: order.append(n)) for n in "ab"}
    samples = timing.take_turns(candidates, seconds=0.0, rounds=(4, 4), sample=0.0)
    assert order[6:] == list("abbaabba")  # after a call to warm up and two to size the sample
    rounds = []
    one = {"a": candidates["a"]}
    timing.take_turns(one, 0.0, (2, 2), 0.0, begins=lambda i, count: rounds.append((i, count)))
    assert rounds == [(1, 2), (2, 2)]
    assert [len(s.seconds) for s in samples.values()] == [4, 4]


def test_a_slow_moment_leaves_the_ratio_alone():
    slow = timing.Samples([4.0, 400.0, 4.0])
    fast = timing.Samples([2.0, 200.0, 2.0])
    assert timing.ratio(slow, fast) == 2.0
    assert (slow.median, slow.best) == (4.0, 4.0)


def test_what_others_took_of_the_machine(monkeypatch):
    clock, used, own = [0.0], [100.0], [5.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(timing, "_used", lambda: used[0])
    monkeypatch.setattr(timing, "_own", lambda: own[0])
    monkeypatch.setattr(timing.os, "cpu_count", lambda: 2)
    neighbours = timing.Neighbours()
    clock[0], used[0], own[0] = 0.1, 100.2, 5.0
    assert neighbours.share() is None  # too short to say
    clock[0], used[0], own[0] = 10.0, 116.0, 11.0  # 16 s of 20 were used, 6 of them by us
    assert neighbours.share() == pytest.approx(0.5)
    assert "took 50 % of the machine" in timing.busy(0.5)
    assert timing.busy(0.01) == timing.busy(None) == ""
    monkeypatch.undo()
    share = timing.Neighbours().share()
    assert share is None or share >= 0


def test_bars_in_a_terminal():
    panel = charts.Panel("time", [("a", [1.0, 8.0]), ("bc", [None, 3.0])], "{:g} s".format)
    lines = charts.text(["ours", "x"], [panel], width=4).splitlines()
    assert lines == [
        "time",
        "  a   ours  ▌ 1 s",
        "      x     ████ 8 s",
        "  bc  x     ████ 3 s",
    ]
    assert charts.text([], []) == ""
    lines = charts.ratios("t", [("a", 8.0), ("b", 1.0), ("c", 0.5)], width=6).splitlines()
    assert lines == ["t", "  a    |██████ 8.00x", "  b    |▏      1.00x", "  c  ██|       0.50x"]


def test_charts_scale_each_row_and_name_each_bar():
    panel = charts.Panel("time", [("a", [1.0, 2.0]), ("b", [None, 8.0])], "{:g} s".format)
    svg = charts.bars("title", "a long subtitle " * 20, ["one", "two"], [panel])
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    tips = {t.text: r for r in root.iter(f"{space}rect") for t in r.iter(f"{space}title") if t.text}
    widths = {tip: float(r.get("width")) for tip, r in tips.items()}
    assert widths["a, two: 2 s"] == widths["b, two: 8 s"] == 2 * widths["a, one: 1 s"]
    assert len(tips) == 3


def test_the_doctor_speaks_of_native_code(capsys):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    section = text.split("\nnative code\n")[1].split("\n\n")[0]
    for word in ("compiler", "mode", "libraries"):
        assert word in section
    assert "NumPy runs everything" in section
    assert re.search(
        r"native code +ok +a C\+\+ program, .*: (compiled or found in|not used:)", text
    )


def test_the_doctor_without_a_compiler(capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "none: found no C++ compiler: looked for g++, clang++." in text
    assert "apt install g++" in text


def test_the_doctor_with_a_compiler_that_does_not_work(capsys, monkeypatch, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no licence >&2; exit 1\n")
    broken.chmod(0o700)
    monkeypatch.setenv("CXX", str(broken))
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "it does not work: broken refused a kernel: no licence" in text


def test_native_code_that_answers_wrongly_is_a_failed_check(capsys, monkeypatch):
    from gpuarray.backends.native import program

    monkeypatch.setattr(program, "build_now", lambda plan: lambda x: (0.0, x[::-1].repeat(2)))
    assert main(["doctor"]) == 1
    assert re.search(r"native code +FAILED", capsys.readouterr().out)
