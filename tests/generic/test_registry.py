"""The table of samples covers the registry, and no primitive has a hole where a rule should be."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

import gpuarray.scipy.special  # noqa: F401  # registers primitives of its own
from gpuarray.core.element_rules import ElementRule, UpdateRule
from gpuarray.core.index import ViewRule
from gpuarray.core.primitive import UNWRITTEN, Kind, Primitive, Sentinel, registry
from tests.samples import samples, tables

_LIST = (
    "import gpuarray, gpuarray.scipy.special; "
    "from gpuarray.core.primitive import registry; print(*registry)"
)
#: What the library itself registers: asked of a fresh process, since tests define primitives too.
NAMES = subprocess.run(
    [sys.executable, "-c", _LIST], capture_output=True, text=True, check=True
).stdout.split()

#: Never called by themselves: collectives need a named axis (tests/unit/lax/test_collectives.py),
#: custom_lin exists to be transposed, and these need devices (tests/unit/control, .../functions).
ON_MESHES = {"shard_map", "reshard", "sharding_constraint"}
APART = {n for n in NAMES if registry[n].kind is Kind.COLLECTIVE} | {"custom_lin", *ON_MESHES}

#: Slots that hold a function, or a Sentinel which says why there is none.
RULES = ("aval", "numpy", "jvp", "transpose", "batch")

#: No row with an empty operand: why.
NEVER_EMPTY = {
    "jit": "its Graph is one of scalars here; what it holds has rows of its own",
    "argmax": "there is no largest of no elements (an empty batch has a row)",
    "argmin": "there is no smallest of no elements (an empty batch has a row)",
    "cholesky_update": "one vector a matrix",
    "rng_bit_generator": "its operand is the state; empty results have a row",
    "rng_uniform": "its operands are the bounds; empty results have a row",
    "iota": "no operands; empty results have a row",
    "empty": "no operands; empty results have a row",
    "tridiagonal_solve": "a system has at least one equation",
    "approx_top_k": "k is at least 1",
}


def is_rule(x) -> bool:
    return callable(x) or isinstance(x, Sentinel)


def each_says(rules: tuple) -> bool:
    """Whether there is a rule for each operand, or None: it never has a tangent."""
    return any(map(callable, rules)) and all(f is None or is_rule(f) for f in rules)


def holes(p) -> list[str]:
    """The slots of a primitive with neither a function nor a reason; a missing NumPy rule."""
    missing = [
        slot
        for slot in RULES
        if not (is_rule(rule := getattr(p, slot)) or isinstance(rule, tuple) and each_says(rule))
    ]
    if p.cuda is None:
        missing.append("cuda")
    if isinstance(p.aval, Sentinel):
        missing.append("aval: every primitive says what its results are")
    no_numpy = isinstance(p.numpy, Sentinel) and p.numpy_pick is None
    # A Graph of one device is split over all of them before anything runs.
    split = p is registry["shard_map"]
    if no_numpy and not (p.kind is Kind.CALL and (split or p.decompose is not None)):
        missing.append("numpy: no rule, no numpy_pick, no decompose")
    if not isinstance(p.kind, Kind):
        missing.append("kind")
    return missing


def element_holes(p) -> list[str]:
    """What is missing for an element of the results to be made where it is read."""
    if p.kind is Kind.VIEW and not p.multiple_results:
        return [] if isinstance(p.view, ViewRule) else ["view: which index map it is"]
    if p.kind not in (Kind.VIEW, Kind.MOVEMENT, Kind.INDEXING, Kind.GENERATOR):
        return []  # a step of its own, unless it has a rule
    if isinstance(p.element, ElementRule) or (isinstance(p.element, Sentinel) and p.element.why):
        return []
    return ["element: how an element is made, or a Sentinel that says why it cannot be"]


def test_whatever_moves_or_makes_elements_says_how_one_is_read():
    found = {name: element_holes(registry[name]) for name in NAMES}
    assert {name: what for name, what in found.items() if what} == {}


def test_a_missing_element_rule_is_found():
    moves = Primitive("moves", Kind.MOVEMENT, register=False)
    assert "element" in element_holes(moves)[0]
    assert "view" in element_holes(Primitive("looks", Kind.VIEW, register=False))[0]
    moves.element = UNWRITTEN
    assert element_holes(moves) == []


def test_updates_say_where_they_go():
    updating = [p for p in map(registry.__getitem__, NAMES) if p.update is not None]
    assert all(isinstance(p.update, UpdateRule) for p in updating)
    assert all(isinstance(p.element, ElementRule) for p in updating)


def test_every_primitive_has_samples_and_every_sample_a_primitive():
    table = set(tables())
    assert set(NAMES) - table == APART, "primitives without a row in tests/samples_*.py"
    assert table - set(NAMES) == set(), "rows for names that are no primitives"


def test_no_rule_is_missing():
    found = {name: holes(registry[name]) for name in NAMES}
    assert {name: what for name, what in found.items() if what} == {}


def test_holes_are_seen():
    def rule(*_):
        return None

    whole = dict.fromkeys(RULES, rule)
    good = SimpleNamespace(**whole, cuda="x", kind=Kind.POINTWISE, numpy_pick=None, decompose=None)
    assert holes(good) == []
    good.jvp = None
    good.numpy = UNWRITTEN
    assert [h.split(":")[0] for h in holes(good)] == ["jvp", "numpy"]
    for rules, whole_again in (((rule, None), True), ((rule, "x"), False), ((None,), False)):
        good.jvp, good.numpy = rules, rule
        assert (holes(good) == []) is whole_again


def test_registry_knows_itself():
    for name in NAMES:
        p = registry[name]
        assert (p.name, repr(p)) == (name, name)
        assert p.weight >= 0
    with pytest.raises(ValueError, match="already defined"):
        Primitive("add")


def test_names_of_samples_are_unique():
    names = [str(s) for s in samples()]
    assert len(names) == len(set(names))


def test_small_shapes_have_rows():
    """Every primitive is tried on an empty array and on one of a single element."""
    empty, single = set(), set()
    for s in samples():
        sizes = {a.size for a in (*s.avals, *s.primitive.out_avals(s.avals, s.params))}
        if 0 in sizes:
            empty.add(s.primitive.name)
        if 1 in sizes:
            single.add(s.primitive.name)
    exempt = set(NEVER_EMPTY) | APART
    assert set(NAMES) - empty - exempt == set(), "no row with an empty operand or result"
    assert set(NAMES) - single == APART, "no row with an operand or result of one element"
    assert exempt <= set(NAMES), "exemptions for what is no primitive"
