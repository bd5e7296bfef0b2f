"""All thresholds of the compiler are fields of one Target, with the reason for each.

In: the source of the compiler. Out: no number under an upper-case name but there; a comment above
every field; plans that follow a target which differs.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import pytest

import gpuarray
import gpuarray as ga
import gpuarray.numpy as gnp
from bench.workloads import WORKLOADS
from gpuarray import nn
from gpuarray.core.target import TARGET, Processor, Target
from tests.golden import shape
from tests.support.targets import plan_for

COMPILER = Path(gpuarray.__file__).parent / "compiler"
SOURCE = (COMPILER.parent / "core" / "target.py").read_text()


def numbers(source: str) -> list[str]:
    """The upper-case names of a module that are numbers, or several of them."""
    found = []
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not is_number(node.value):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        found += [name for name in names if name.isupper()]
    return found


def is_number(value: ast.expr | None) -> bool:
    """Whether an expression is made of numbers alone."""
    if isinstance(value, ast.Tuple | ast.List):
        return any(map(is_number, value.elts))
    if isinstance(value, ast.Call):
        return bool(value.args) and all(map(is_number, value.args))
    if isinstance(value, ast.BinOp):
        return is_number(value.left) or is_number(value.right)
    if isinstance(value, ast.UnaryOp):
        return is_number(value.operand)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def test_thresholds_are_in_the_target():
    programs = COMPILER.parent / "backends" / "native" / "program.py"
    found = {
        path.name: names
        for path in (*COMPILER.rglob("*.py"), programs)
        if (names := numbers(path.read_text()))
    }
    assert found == {}, "make it a field of core/target.py"


@pytest.mark.parametrize(
    "line",
    ["LONG = 48", "A, B = 4, 1 << 3", "_MOST: int = 2**31 - 1", "W = float(1 << 25)", "X = 2 * Y"],
)
def test_numbers_are_seen(line):
    assert numbers(line)


@pytest.mark.parametrize("line", ['A = "x"', "A = TARGET.depth", "NAMES = {1: 2}", "a = 3"])
def test_other_names_are_not(line):
    assert numbers(line) == []


def comments(kind: type) -> dict[str, str]:
    """What stands above each field of a class; fields that follow one another share it."""
    found: dict[str, str] = {}
    text: list[str] = []
    behind = False  # a field
    for line in SOURCE.partition(f"class {kind.__name__}(Struct):\n")[2].splitlines():
        if line and not line.startswith(" "):
            break
        words = line.strip()
        name, colon, _ = words.partition(": ")
        if words.startswith("#:"):
            text = [*([] if behind else text), words[2:].strip()]
            behind = False
        elif colon and " = " in words and name.isidentifier():
            found[name] = " ".join(text)
            behind = True
        elif not words:
            text, behind = [], False
    return found


@pytest.mark.parametrize("kind", [Target, Processor])
def test_every_threshold_has_its_reason(kind):
    said = comments(kind)
    assert list(said) == list(kind.__match_args__)
    assert [name for name, text in said.items() if len(text) < 20] == []


def test_every_threshold_has_an_effect():
    """Some module asks the target for it, or another field is derived from it."""
    files = [path for path in COMPILER.parent.rglob("*.py") if path.name != "target.py"]
    sources = SOURCE + "".join(p.read_text(encoding="utf-8") for p in files)
    read = set(re.findall(r"\b(?:TARGET|PROCESSOR|self)\.(\w+)", sources))
    idle = {*Target.__match_args__, *Processor.__match_args__} - read
    assert not idle, "a number that nothing reads"


def test_measurements_name_workloads():
    """A word with an underscore behind `Measure:` is a workload of bench."""
    names = {w.name for w in WORKLOADS}
    words = {
        word.strip(",.")
        for text in comments(Target).values()
        for word in text.partition("Measure:")[2].split()
        if "_" in word
    }
    assert len(words) > 10 and words <= names | {"dynamic_update_slice"}


def test_the_default_is_a_large_gpu_of_today():
    assert (TARGET.full_grid, TARGET.column_grid, TARGET.many_blocks) == (264, 1056, 8448)
    assert (TARGET.narrowest, TARGET.batch_grid) == (8, 4224)
    with pytest.raises(dataclasses.FrozenInstanceError):
        TARGET.depth = 3  # pyright: ignore[reportAttributeAccessIssue]


def kernels(function, *arguments) -> int:
    return len(ga.explain(function, platform="cuda")(*arguments).kernels)


def test_plans_follow_the_target(monkeypatch):
    def long_rows(x):
        return nn.softmax(x)

    few = shape("float32", 2, 1_000_000)
    assert kernels(long_rows, few) == 2
    plan_for(monkeypatch, launch_bytes=1 << 40)  # as if a launch took seconds
    assert kernels(lambda x: long_rows(x), few) == 1


def test_grids_follow_the_multiprocessors(monkeypatch):
    x = shape("float32", 1 << 24)

    def grid():
        (kernel,) = ga.explain(lambda x: gnp.sum(x), platform="cuda")(x).kernels
        return kernel.grid

    assert grid() == 264
    plan_for(monkeypatch, multiprocessors=20)
    assert grid() == 40
