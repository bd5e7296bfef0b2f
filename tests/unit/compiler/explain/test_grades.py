"""Grades: the kernels that are kept as text take little more than the least time that they could.

In: the programs of tests/golden. Out: 0.85 of the floor for each kernel, as planned and as it was
assembled, but for those that are named with the reason; and what lowers a grade.
"""

from __future__ import annotations

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import nn
from gpuarray.compiler.explain.grades import grade, limit
from gpuarray.compiler.text.prelude import complete
from tests import golden
from tests.golden import shape
from tests.support import nvrtc

ENOUGH = 0.85
#: Kernels below it, and why.
REASONS = {
    ("channels_last", "k0_tiles"): "a block asks for one tile of 4 KB at a time",
    ("cumsum", "k0_scan"): "a thread asks for one vector, and there is nothing else to read",
    ("groups", "k1_columns"): "132 tables of 100 places: done before the launch is over",
    ("in_blocks", "k0_rows"): "a thread asks for one vector, and a row is eight threads",
    ("integers", "k0_map"): "four blocks: 4096 elements are done before the launch is over",
    ("transmitted", "k0_scan"): "a thread asks for one vector, and then for the same again",
    ("ema_scan", "k0_loop"): "8192 chains of steps, each of which waits for the one before",
}
#: Those whose instructions take longer than the program's arithmetic and memory, and why.
ASSEMBLED = {
    ("chain", "k0_map"): "ten sines, each 60 instructions with the way for large numbers",
    ("groups", "k0_tables"): "each warp looks which of its updates have one place",
    ("softmax_odd", "k0_rows"): "a row of odd length that a block holds is read number by number",
    ("largest", "k0_top"): "each number is compared with the least of those that are kept",
    ("ranks", "k0_sort"): "a network compares each number about fifty times",
    ("sort_rows", "k0_sort"): "a network compares each number about fifty times",
}


def test_golden_kernels_are_near_their_floor():
    grades = {(n, k.name): grade(k) for n in golden.programs() for k in golden.kernels(n)}
    assert all(0 < g <= 1 for g in grades.values())
    low = {key for key, g in grades.items() if g < ENOUGH}
    assert low == set(REASONS), {key: round(grades[key], 2) for key in low ^ set(REASONS)}


@nvrtc.needed
def test_golden_kernels_are_near_their_floor_as_assembled():
    low = {}
    for name in golden.programs():
        kernels = golden.kernels(name)
        source = complete("\n".join(k.text for k in kernels))
        code = nvrtc.compiled(source, "sm_90").instructions
        for k in kernels:
            if grade(k, code[k.name]) < ENOUGH:
                low[name, k.name] = f"{grade(k, code[k.name]):.2f} {limit(k, code[k.name])}"
    assert low.keys() == REASONS.keys() | ASSEMBLED.keys(), low


def graded(function, *arguments) -> float:
    (step,) = ga.explain(function, platform="cuda")(*arguments).kernels
    return float(step.facts["grade"])


def test_what_is_read_again_lowers_the_grade():
    """Rows that no block can hold are read by each pass."""
    held, long = shape("bfloat16", 2640, 8192), shape("bfloat16", 2640, 262144)
    assert graded(nn.softmax, held) > 0.9
    assert graded(nn.softmax, long) < 0.7


def test_idle_multiprocessors_lower_the_grade():
    """One block more than there are multiprocessors takes a second turn."""
    rows = lambda n: shape("float32", n, 4096)
    assert graded(nn.softmax, rows(2640)) > graded(nn.softmax, rows(133))


def test_narrow_reads_lower_the_grade():
    """What begins at different places within a vector is read element by element: too little is
    under way. A length that no vector divides is not enough for that.
    """
    add = lambda x: gnp.sin(x) + 1.0
    assert graded(add, shape("float32", 1 << 26)) > 0.95
    assert graded(add, shape("bfloat16", (1 << 26) + 1)) > 0.95
    neighbours = lambda x: gnp.sin(x[1:]) + x[:-1]
    assert graded(neighbours, shape("bfloat16", (1 << 26) + 1)) < 0.85


def test_small_kernels_are_as_fast_as_their_launch():
    assert graded(lambda x: x * 2.0, shape("float32", 100)) > ENOUGH
