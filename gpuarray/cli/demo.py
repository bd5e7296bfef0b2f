"""`python -m gpuarray demo`: programs, the kernels they fuse into, and measured times.

Floor 8. In: a folder and a size. Out: graphs, groups and measured times as text; in the folder
the programs, their explanations, the figures as JSON and a picture of them. Every figure shown
was measured in this run.
"""

from __future__ import annotations

import importlib.util
import json
import platform
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.cli import charts, programs, timing
from gpuarray.cli.progress import Progress
from gpuarray.compiler.explain.facts import Explanation
from gpuarray.compiler.explain.tables import columns, plural, size
from gpuarray.core.threads import thread_count

#: Elements in the largest arrays: too many for any cache.
SIZE = 8_000_000
# Elements in a row of the programs that work row by row, as wide as a layer of a small network.
_ROW = 3000
NAMES = ("chain", "mse", "softmax", "layer_norm")
# The order of the bars and their colours.
# Files rather than strings: the user may read, change and run them.
VARIANTS = ("fused, jit", "fused, eager", "unfused", "NumPy")
_SECONDS = 1.2  # for each variant


class Outcome(NamedTuple):
    """The measurements of one program."""

    name: str
    explanation: Explanation
    unfused: Explanation
    samples: dict[str, timing.Samples]
    error: float


def run(out: Path, elements: int, only: str | None = None) -> int:
    """Run the demo; the exit status is 1 if a fused result is wrong."""
    out.mkdir(parents=True, exist_ok=True)
    # The same source twice, with two import lines.
    ours, plain = _copies(out)
    names = [n for n in NAMES if only in (None, n)]
    print(
        f"gpuarray {ga.__version__} on {', '.join(map(str, ga.devices()))}, "
        f"{plural(thread_count(), 'thread')}; arrays of {elements:,} float32"
    )
    outcomes = []
    wrong = 0
    neighbours = timing.Neighbours()
    with Progress(len(names) * 2 + 1, "demo") as progress:
        for name in names:
            # Show the compiled form, then measure it.
            arrays = _data(name, elements)
            progress.step(f"compiling {name}")
            function = getattr(ours, name)
            ready = [gnp.asarray(a) for a in arrays]
            text = _program(name, function, ready)
            progress.clear()
            print(text)
            progress.step(f"timing {name}")
            outcome = _measure(name, function, getattr(plain, name), arrays, ready, progress)
            progress.clear()
            _show_times(outcome)
            wrong += outcome.error > 1e-4
            outcomes.append(outcome)
        if told := timing.busy(neighbours.share()):
            print(f"\n{told}")
        progress.step("writing reports and pictures")
        files = _write(out, outcomes, elements)
    print("\nwritten: " + ", ".join(map(str, files)))
    if wrong:
        print(
            f"{plural(wrong, 'program')} gave a wrong result: `python -m gpuarray doctor` says more"
        )
    return 1 if wrong else 0


def _copies(out: Path) -> tuple[ModuleType, ModuleType]:
    """The programs as files of the user's own, for gpuarray and for NumPy."""
    text = Path(programs.__file__).read_text(encoding="utf-8")
    import_line, numpy_line = "import gpuarray.numpy as np", "import numpy as np"
    (out / "programs.py").write_text(text, encoding="utf-8")
    (out / "programs_numpy.py").write_text(text.replace(import_line, numpy_line), encoding="utf-8")
    return _load(out / "programs.py"), _load(out / "programs_numpy.py")


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _data(name: str, elements: int) -> list[np.ndarray]:
    """Random float32 arguments of a program."""
    # A fixed seed: two runs of the demo measure the same data.
    draw = np.random.default_rng(0).standard_normal
    if name in ("chain", "mse"):
        return [draw(elements, dtype=np.float32) for _ in range(3 if name == "chain" else 2)]
    # Matrices of about as many elements as the vectors above have.
    width = min(_ROW, elements)
    x = draw((max(1, elements // width), width), dtype=np.float32)
    if name == "softmax":
        return [x]
    return [x, draw(width, dtype=np.float32), draw(width, dtype=np.float32)]


def _program(name: str, function: Callable, arrays: list) -> str:
    """The program's graph, and the groups it becomes."""
    # The stages from top to bottom: docstring, recorded graph, summary, then each kernel.
    e = ga.explain(function)(*arrays)
    lines = [f"\n== {name}: {(function.__doc__ or '').strip()}\n"]
    lines.append("the graph that is recorded (make_jaxpr):")
    lines.append(_indented(str(ga.make_jaxpr(function)(*arrays))))
    lines.append("\nwhat it becomes (explain):")
    lines.append(_indented(str(e)))
    lines += ["\n" + _indented(str(kernel)) for kernel in e.steps]
    return "\n".join(lines)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.splitlines())


def _measure(
    name: str,
    function: Callable,
    plain: Callable,
    arrays: list[np.ndarray],
    ready: list,
    progress: Progress,
) -> Outcome:
    """Time the four variants in turns, and compare the fused result with float64."""
    jitted = ga.jit(function)
    # Without fusion it is compiled again: the setting is part of the cache's key.
    candidates = {
        # Calls return before the work is done: each candidate waits for its result.
        "fused, jit": timing.Candidate(lambda: jitted(*ready).block_until_ready()),
        "fused, eager": timing.Candidate(lambda: function(*ready).block_until_ready()),
        "unfused": timing.Candidate(
            lambda: jitted(*ready).block_until_ready(), lambda: ga.fusion(False)
        ),
        "NumPy": timing.Candidate(lambda: plain(*arrays)),
    }
    samples = timing.take_turns(
        candidates,
        seconds=_SECONDS,
        rounds=(3, 15),
        begins=lambda i, rounds: progress.within(i, rounds, "round"),
    )
    # NumPy in double precision is the truth.
    want = plain(*[a.astype(np.float64) for a in arrays])
    worst = 0.0
    for got in (jitted(*ready), function(*ready)):
        difference = np.abs(np.asarray(got) - want)
        worst = max(worst, float(np.max(difference / np.maximum(1.0, np.abs(want)))))
    with ga.fusion(False):
        unfused = ga.explain(function)(*ready)
    return Outcome(name, ga.explain(function)(*ready), unfused, samples, worst)


def _show_times(outcome: Outcome) -> None:
    e = outcome.explanation
    # NumPy, too, makes one pass over memory for each operation.
    moved = {"unfused": e.bytes_unfused, "NumPy": e.bytes_unfused}
    launches = {"unfused": e.launches_unfused, "NumPy": e.launches_unfused}
    base = outcome.samples["NumPy"]
    rows = [("", "launches", "memory moved", "median", "best", "against NumPy")]
    for variant, samples in outcome.samples.items():
        rows.append(
            (
                variant,
                str(launches.get(variant, e.launches)),
                size(moved.get(variant, e.bytes_moved)),
                timing.duration(samples.median),
                timing.duration(samples.best),
                f"{timing.ratio(base, samples):.2f}x",
            )
        )
    print("\nmeasured now:")
    print(_indented("\n".join(columns(rows, right=range(1, 6)))))
    verdict = "ok" if outcome.error <= 1e-4 else "WRONG"
    print(f"  against float64: off by at most {outcome.error:.1e}, {verdict}")


# ---- files ----


def _write(out: Path, outcomes: list[Outcome], elements: int) -> list[Path]:
    """The explanations, the figures and their picture; the paths written."""
    # For each program, its report, and drawings of its groups with and without fusion.
    files = [out / "programs.py"]
    for outcome in outcomes:
        path = out / f"{outcome.name}.html"
        path.write_text(outcome.explanation.to_html(), encoding="utf-8")
        (out / f"{outcome.name}.svg").write_text(outcome.explanation.to_svg(), encoding="utf-8")
        unfused = out / f"{outcome.name}_unfused.svg"
        unfused.write_text(outcome.unfused.to_svg(), encoding="utf-8")
        files.append(path)
    # The figures of all programs, for other tools to read.
    (out / "demo.json").write_text(
        json.dumps(_figures(outcomes, elements), indent=1), encoding="utf-8"
    )
    # The same figures as a picture.
    title = "gpuarray: fused, unfused, and NumPy"
    subtitle = f"{elements:,} float32, {plural(thread_count(), 'thread')}; shorter is better"
    panels = [
        charts.Panel(
            "time of one call (median)",
            [(o.name, [o.samples[v].median for v in VARIANTS]) for o in outcomes],
            timing.duration,
        ),
        charts.Panel("memory read and written", [(o.name, _moved(o)) for o in outcomes], size),
    ]
    (out / "demo.svg").write_text(
        charts.bars(title, subtitle, list(VARIANTS), panels), encoding="utf-8"
    )
    files += [out / "demo.json", out / "demo.svg"]
    if charts.can_write_png():
        charts.write_png(out / "demo.png", title, subtitle, list(VARIANTS), panels)
        files.append(out / "demo.png")
    return files


def _moved(o: Outcome) -> list[float | None]:
    fused, unfused = float(o.explanation.bytes_moved), float(o.explanation.bytes_unfused)
    # In the order of VARIANTS.
    return [fused, fused, unfused, unfused]


def _figures(outcomes: list[Outcome], elements: int) -> dict[str, Any]:
    return {
        "gpuarray": ga.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": thread_count(),
        "elements": elements,
        "programs": {
            o.name: {
                "launches": o.explanation.launches,
                "launches_unfused": o.explanation.launches_unfused,
                "bytes": o.explanation.bytes_moved,
                "bytes_unfused": o.explanation.bytes_unfused,
                "seconds": {v: s.seconds for v, s in o.samples.items()},
                "error": o.error,
            }
            for o in outcomes
        },
    }
