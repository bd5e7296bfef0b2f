"""The ratios that are promised, and whether a run kept them.

In: Records. Out: a Verdict for each promise: kept, missed, or not to be judged because a peer is
absent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bench.measure import Record
from bench.peers import JAX, NUMPY


class Floor(NamedTuple):
    """Ours (fused) is at least `ratio` times as fast as `peer`."""

    workload: str
    peer: str
    ratio: float


FLOORS = (
    Floor("jit_two", JAX, 1.0),
    Floor("jit_dict", JAX, 1.0),
    Floor("eager_ten", JAX, 1.0),
    Floor("slice", JAX, 2.0),
    Floor("at_set", JAX, 2.0),
    Floor("import_time", JAX, 2.0),
    Floor("first_call", JAX, 3.0),
    Floor("chain_jit", JAX, 1.0),
    Floor("chain_eager", JAX, 3.0),
    Floor("sum_squares", JAX, 0.8),
    Floor("softmax", JAX, 0.5),
    Floor("layer_norm", JAX, 0.5),
    Floor("chain_jit", NUMPY, 2.0),
    Floor("chain_eager", NUMPY, 2.0),
)


class Verdict(NamedTuple):
    """A promise and what was measured; `measured` is None where the peer is absent."""

    floor: Floor
    measured: float | None

    @property
    def kept(self) -> bool:
        """Whether the promise was kept."""
        return self.measured is not None and self.measured >= self.floor.ratio

    def __str__(self) -> str:
        f = self.floor
        promise = f"{f.workload} against {f.peer}: at least {f.ratio:g}x"
        if self.measured is None:
            return f"?     {promise}, {f.peer} is absent"
        return f"{'ok   ' if self.kept else 'MISSED'} {promise}, measured {self.measured:.2f}x"


def judge(records: Iterable[Record]) -> list[Verdict]:
    """A verdict for every promise about what was run."""
    by_name = {r.name: r for r in records}
    return [
        Verdict(f, by_name[f.workload].speedup(f.peer)) for f in FLOORS if f.workload in by_name
    ]


def exit_status(verdicts: list[Verdict]) -> int:
    """0: all kept. 1: one was missed. 2: none missed, but a peer to judge by was absent."""
    if any(v.measured is not None and not v.kept for v in verdicts):
        return 1
    return 2 if any(v.measured is None for v in verdicts) else 0
