"""Why a value is stored or computed where it is read: each reason, and what it reads of the target.

In: candidates as plain data. Out: the names of the reasons; no programs, no kernels.
"""

from __future__ import annotations

import dis
import math
from types import CodeType, FunctionType

import numpy as np
import pytest

from gpuarray.compiler.fuse.group import FusedGroup
from gpuarray.compiler.lower import decisions
from gpuarray.compiler.lower.decisions import RULES, Consumer, InlineCandidate, Reason, decide
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Var
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.target import PROCESSOR, TARGET
from tests.support.targets import plan_for

N = 1 << 20


def value(size: int = N) -> Var:
    return Var(ShapedArray((size,), np.dtype("float32")))


def eqn(kind: Kind = Kind.POINTWISE) -> Eqn:
    return Eqn(Primitive("made", kind=kind, register=False), [value()], [value()], {})


X, Y, VALUE = value(), value(), value()
MAP, OTHER, SUM = FusedGroup((N,)), FusedGroup((N,)), FusedGroup((N,), reduced=frozenset({0}))
LOOKUP = eqn(Kind.INDEXING)


def uses(*readers: object, times: float = 1.0, is_index: bool = False) -> list:
    return [Consumer(r, int(times * N), is_index) for r in readers]  # pyright: ignore


def candidate(**changes) -> InlineCandidate:
    """A value of data movement that a kernel reads once, and whose elements take 10."""
    fields = {
        "value": VALUE,
        "made_by": eqn(),
        "uses": uses(MAP),
        "work": {eqn(): 10.0},
        "depth": 1,
        "length": 1,
        "computed": False,
        "serial": False,
        "sources_behind": lambda v: {X},
        "sources_read_by": lambda step: {X, Y},
    }
    return InlineCandidate(**(fields | changes))


def named(name: str) -> Reason:
    return next(r for r in RULES if r.name == name)


MANY = {value() for _ in range(TARGET.arguments)}
#: What a value has to be like for each reason to be the first that holds.
EXAMPLES: dict[str, dict] = {
    "unread": {"uses": []},
    "copied": {"uses": uses(MAP, None)},
    "deep": {"depth": TARGET.depth + 1},
    "long": {"length": TARGET.written + 1},
    "vectors": {"uses": uses(LOOKUP), "serial": True},
    "refused": {"uses": uses(MAP, SUM), "computed": True},
    "arguments": {"sources_read_by": lambda step: MANY},
    "tiny": {"value": value(TARGET.few_elements)},
    "free": {"work": {eqn(): TARGET.free}, "uses": uses(MAP, OTHER, times=9)},
    "bytes": {"uses": uses(MAP, OTHER)},
    "several": {"uses": uses(MAP, OTHER, times=9)},
    "read once": {"work": {eqn(): TARGET.once}},
    "costly": {"work": {eqn(): TARGET.once + 1}},
    "repeated": {"uses": uses(MAP, times=1 + TARGET.repeated / 10)},
    "launch": {"uses": uses(MAP, times=4)},
    "often": {"uses": uses(MAP, times=5)},
}


def test_each_reason_has_an_example():
    assert list(EXAMPLES) == [reason.name for reason in RULES]


@pytest.mark.parametrize("name", EXAMPLES)
def test_reasons(name):
    found = decide(candidate(**EXAMPLES[name]))
    assert found.reason is named(name)
    assert found.inline == named(name).inline


@pytest.mark.parametrize(
    ("name", "changes", "then"),
    [
        ("deep", {"depth": 1000}, "read once"),
        ("long", {"written": 1000}, "read once"),
        ("long", {"written_large": 1000, "launch_bytes": 0}, "read once"),
        ("arguments", {"arguments": 1000}, "read once"),
        ("tiny", {"few_elements": 0}, "launch"),
        ("tiny", {"cheap": 0}, "launch"),
        ("free", {"free": 0}, "bytes"),
        ("bytes", {"instructions_a_byte": 0}, "repeated"),
        ("several", {"instructions_a_byte": math.inf}, "bytes"),
        ("read once", {"once": 0}, "costly"),
        ("costly", {"once": math.inf}, "read once"),
        ("repeated", {"repeated": 0}, "launch"),
        ("launch", {"launch_work": 0}, "often"),
        ("launch", {"once": 0}, "often"),
        ("often", {"launch_work": math.inf}, "launch"),
        ("often", {"repeated": math.inf}, "repeated"),
    ],
)
def test_thresholds_decide(monkeypatch, name, changes, then):
    plan_for(monkeypatch, **changes)
    assert decide(candidate(**EXAMPLES[name])).reason.name == then
    assert {f"Target.{field}" for field in changes} <= set(named(name).thresholds)


def test_another_kernel_costs_a_cpu_next_to_nothing():
    assert decide(candidate(**EXAMPLES["launch"], serial=True)).reason.name == "often"


# ---- the table says what the code reads ----


def fields_read(function: FunctionType) -> set[str]:
    """The thresholds that a function reads, with those of what it calls in its module and of the
    properties of candidates.
    """
    found: set[str] = set()
    waiting: list[tuple[CodeType, dict]] = [(function.__code__, function.__globals__)]
    seen: set[CodeType] = set()
    while waiting:
        code, names = waiting.pop()
        if code in seen:
            continue
        seen.add(code)
        waiting += [(c, names) for c in code.co_consts if isinstance(c, CodeType)]
        machine = ""
        for instruction in dis.get_instructions(code):
            name = instruction.argval
            if machine and instruction.opname == "LOAD_ATTR":
                found.add(f"{machine}.{name}")
            machine = {"TARGET": "Target", "PROCESSOR": "Processor"}.get(str(name), "")
            if "GLOBAL" in instruction.opname and isinstance(names.get(name), FunctionType):
                waiting.append((names[name].__code__, names[name].__globals__))
            of_candidate = vars(InlineCandidate).get(name) if isinstance(name, str) else None
            getter = getattr(of_candidate, "fget", None) or getattr(of_candidate, "func", None)
            if isinstance(getter, FunctionType):
                waiting.append((getter.__code__, getter.__globals__))
    return found


#: What is left where the reasons above them do not hold, by what those read.
REST = {"several", "costly", "often"}


@pytest.mark.parametrize("reason", RULES, ids=lambda r: r.name)
def test_reasons_name_the_thresholds_that_they_read(reason):
    read = fields_read(reason.holds)
    told = set(reason.thresholds)
    assert read == told or (reason.name in REST and read <= told)


def test_all_thresholds_exist():
    reasons = [r for r in vars(decisions).values() if isinstance(r, Reason)]
    for reason in (*RULES, *reasons):
        for name in reason.thresholds:
            machine, field = name.split(".")
            assert hasattr({"Target": TARGET, "Processor": PROCESSOR}[machine], field)
