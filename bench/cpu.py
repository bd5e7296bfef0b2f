"""`python -m bench --cpu`: operations and whole programs beside NumPy, JAX and PyTorch, in one run.

In: rows of `cpu_operations.py`, `cpu_matrices.py`, `cpu_programs.py` and `cpu_simulations.py`, and
`cpu_torch.py` with those that PyTorch has a text of. Out: Records and a table of medians, ranges
and ratios, each measured in turns.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.ndimage
import scipy.special

import gpuarray as ga
from bench import cpu_torch, peers
from bench.cpu_matrices import MATRICES
from bench.cpu_operations import ROWS, Row
from bench.cpu_programs import PROGRAMS
from bench.cpu_simulations import SIMULATIONS
from bench.measure import Effort, Record
from bench.peers import FUSED, JAX, NUMPY, TORCH_COMPILE
from gpuarray.backends.numpy.tiles import thread_count
from gpuarray.cli.timing import Candidate, duration, take_turns
from gpuarray.compiler.explain.tables import columns

ALL = (FUSED, NUMPY, JAX, TORCH_COMPILE)
#: Whoever compiles programs; the best of them at a row is what ours is held against.
COMPILED = (JAX, TORCH_COMPILE)

PARTS = {"np": "numpy", "lax": "lax", "random": "random", "nn": "nn"}
PARTS |= {"special": "scipy.special", "linalg": "scipy.linalg", "ndimage": "scipy.ndimage"}
PARTS |= {"ode": "experimental.ode", "ops": "ops"}


def library(package: str) -> SimpleNamespace:
    """gpuarray or JAX: the same names."""
    parts = {k: importlib.import_module(f"{package}.{name}") for k, name in PARTS.items()}
    return SimpleNamespace(top=importlib.import_module(package), **parts)


def numpy_library() -> SimpleNamespace:
    """NumPy and SciPy, under those names that they have."""
    return SimpleNamespace(np=np, special=scipy.special, linalg=scipy.linalg, ndimage=scipy.ndimage)


def rows(pattern: str) -> list[Row]:
    """The rows whose name matches."""
    return [
        row for row in (*ROWS, *MATRICES, *PROGRAMS, *SIMULATIONS) if re.search(pattern, row.name)
    ]


def _call(row: Row, peer: peers.Peer, arrays: Sequence[np.ndarray]) -> Callable[[], Any]:
    """The row on one peer, as a call that returns when its result is there."""
    if peer.name == NUMPY:
        function = row.numpy or row.make(numpy_library())
        return lambda: function(*arrays)
    if peer.name == TORCH_COMPILE:
        return _torch_call(row, peer, arrays)
    function = peer.jit(row.make(library("gpuarray" if peer.name == FUSED else "jax")))
    own = [peer.array(a) for a in arrays]
    return lambda: peer.wait(function(*own))


class NoTextError(Exception):
    """A peer has no natural text for a row."""


def _torch_call(row: Row, peer: peers.Peer, arrays: Sequence[np.ndarray]) -> Callable[[], Any]:
    torch = importlib.import_module("torch")
    function = cpu_torch.function(torch, row.name, peer.jit)
    if function is None:
        raise NoTextError(f"no natural text in {peer.name}")
    torch.set_num_threads(thread_count())
    own = [peer.array(a) for a in arrays]

    def call():
        with torch.no_grad():
            return function(*own)

    for _ in range(2):  # which compiles
        call()
    return call


def _leaves(result: Any) -> list[np.ndarray]:
    """Results as arrays in double precision."""
    if isinstance(result, (tuple, list)):
        return [leaf for r in result for leaf in _leaves(r)]
    if hasattr(result, "detach"):  # of PyTorch, whose bfloat16 NumPy has no name for
        result = result.detach()
        result = result.float() if str(result.dtype) == "torch.bfloat16" else result
    found = np.asarray(result)
    return [found.astype(np.complex128 if found.dtype.kind == "c" else np.float64)]


def _error(got: list[np.ndarray], want: list[np.ndarray]) -> float:
    """The mean error of an element, relative to the largest: a few may choose differently. Infinite
    where a shape is another.
    """
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        if g.shape != w.shape:
            return np.inf
        scale = max(1e-30, float(np.max(np.abs(w), initial=0.0)))
        worst = float(np.maximum(worst, np.mean(np.abs(g - w)) / scale if w.size else 0.0))
    return worst


def measured(row: Row, here: dict[str, peers.Peer], small: bool, effort: Effort) -> Record:
    """Time one row on all peers; compare the results with JAX's, or else with NumPy's."""
    arrays = row.data(np.random.default_rng(0), small)
    record = Record(row.name, row.title, "cpu", tolerance=row.tolerance)
    candidates: dict[str, Candidate] = {}
    results: dict[str, list[np.ndarray]] = {}
    for name, peer in here.items():
        try:
            call = _call(row, peer, arrays)
            with peer.around():
                results[name] = _leaves(call())
        except Exception as error:  # one that cannot does not cost the others
            # NumPy has nothing of the sort for most programs: no fault to report.
            absent = isinstance(error, NoTextError) or (name == NUMPY and row.numpy is None)
            if not absent:
                record.failed[name] = f"{type(error).__name__}: {error}"
        else:
            candidates[name] = Candidate(call, peer.around)
    reference = next((n for n in (JAX, NUMPY) if n in results), None)
    for name in (FUSED, TORCH_COMPILE) if reference and not row.random else ():
        if name in results:
            record.errors[name] = _error(results[name], results[reference])
    if candidates:
        record.samples = take_turns(candidates, effort.seconds, effort.rounds)
    return record


# ---- the table ----


def _time(r: Record, name: str) -> str:
    if name not in r.samples:
        return "-"
    s = r.samples[name]
    return f"{duration(s.median)} ({duration(min(s.seconds))} to {duration(max(s.seconds))})"


def table(records: Sequence[Record], around: dict[str, Any]) -> str:
    """Medians, in brackets the range; ours against NumPy and JAX; the geometric means."""
    names = [n for n in ALL if n in around["peers"]]
    others = [n for n in names if n != FUSED]
    lines = [["", *names, *(f"vs {n}" for n in others), "vs best"]]
    for r in records:
        ratios = [*(r.speedup(n) for n in others), _to_best(r)]
        shown = ["-" if x is None else f"{x:.2f}x" for x in ratios]
        lines.append([f"{r.name}: {r.title}", *(_time(r, n) for n in names), *shown])
    means = [_mean([r.speedup(n) for r in records]) for n in others]
    means.append(_mean([_to_best(r) for r in records]))
    lines.append(["geometric mean", *[""] * len(names), *means])
    blocks = ["\n".join(columns(lines, right=range(1, len(lines[0]))))]
    blocks += [f"WRONG {r.name}: off by {r.errors[n]:.1e}" for r in records for n in r.wrong]
    blocks += [f"behind: {r.name}: {_why(r)}" for r in records if _is_behind(r)]
    blocks += [f"could not: {r.name}: {n}: {w[:160]}" for r in records for n, w in r.failed.items()]
    return "\n".join(blocks)


def _to_best(r: Record) -> float | None:
    """How many times faster ours is than the best that compiles."""
    return min((x for n in COMPILED if (x := r.speedup(n)) is not None), default=None)


def _is_behind(r: Record) -> bool:
    """Whether a row is slower than JAX's, or by more than a tenth than the best."""
    to_jax, to_best = r.speedup(JAX), _to_best(r)
    return (to_jax is not None and to_jax < 1) or (to_best is not None and to_best < 0.9)


def _why(r: Record) -> str:
    """Why another library is ahead."""
    return next((row.behind for row in rows(f"^{r.name}$")), "") or "no reason is known"


def _mean(ratios: Sequence[float | None]) -> str:
    found = [x for x in ratios if x is not None]
    ahead = sum(x >= 1 for x in found)
    return f"{np.exp(np.mean(np.log(found))):.2f}x, {ahead} of {len(found)}" if found else "-"


def picture(
    records: Sequence[Record], around: dict[str, Any]
) -> tuple[str, list[tuple[str, float]]]:
    """A heading, and for each row how many times faster ours is than JAX, or else than NumPy."""
    other = JAX if JAX in around["peers"] else NUMPY
    found = [(r.name, x) for r in records if (x := r.speedup(other)) is not None]
    return f"times of {other} over ours", sorted(found, key=lambda row: -row[1])


def settings() -> dict[str, Any]:
    """The settings that decide what runs on a CPU."""
    return {name: ga.config.read(name) for name in ("native", "num_threads")}
