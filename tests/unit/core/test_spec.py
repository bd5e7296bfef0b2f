"""Partition specs and the types of manual values (`core/spec.py`).

The figures are those of JAX 0.10.2 for the same calls.
"""

import copy
import pickle

import pytest

import gpuarray as ga
from gpuarray.sharding import AbstractMesh, AxisType, ManualAxisType
from gpuarray.sharding import PartitionSpec as P

U = P.UNCONSTRAINED


@pytest.mark.parametrize(
    "spec, shown",
    [
        (P(), "P()"),
        (P(None), "P(None,)"),
        (P("x"), "P('x',)"),
        (P("x", "y"), "P('x', 'y')"),
        (P("x", None, ["y"]), "P('x', None, 'y')"),
        (P((), ("x",)), "P(None, 'x')"),
        (P(["y", "z"], 3), "P(('y', 'z'), 3)"),
        (P(U, "x"), "P(UNCONSTRAINED, 'x')"),
        (P("x", unreduced={"y"}), "P('x', unreduced={'y'})"),
        (P(None, reduced=frozenset({"y"})), "P(None, reduced={'y'})"),
        (P(unreduced={"y"}, reduced={"z"}), "P(unreduced={'y'}, reduced={'z'})"),
        (P("x") + P("y", unreduced={"z"}), "P('x', 'y', unreduced={'z'})"),
        (P("x") + ("y",), "P('x', 'y')"),
        (("y",) + P("x"), "P('y', 'x')"),
        (P("x").update(partitions=("y", None)), "P('y', None)"),
        (P("x", unreduced={"y"}).update(reduced={"z"}), "P('x', unreduced={'y'}, reduced={'z'})"),
        (P("x", unreduced={"y"}).update(unreduced=frozenset()), "P('x',)"),
        (P("x", unreduced={"y"}).to_ct_spec(), "P('x', reduced={'y'})"),
        (P("x", reduced={"y"}).to_tangent_spec(), "P('x', reduced={'y'})"),
    ],
)
def test_how_specs_are_written(spec, shown):
    assert repr(spec) == str(spec) == shown


def test_equal_specs_are_one_object():
    spec = P("x", ("y", "z"), U, unreduced={"w"})
    for same in (
        P("x", ["y", "z"], U, unreduced=frozenset({"w"})),
        pickle.loads(pickle.dumps(spec)),
        copy.copy(spec),
        copy.deepcopy(spec),
    ):
        assert same is spec
    assert P("x") is P(("x",)) is not P("x", None)
    assert P("x") != ("x",) and ga.P is P
    assert P("x", unreduced=set()) is P("x")
    assert len({P("x"), P("x"), P("y")}) == 2
    assert ga.tree.leaves((P("x"), None)) == [P("x")]


def test_specs_as_sequences():
    spec = P("x", ("y", "z"), None)
    assert (len(spec), spec[1], spec[:2], spec[-1]) == (3, ("y", "z"), ("x", ("y", "z")), None)
    assert list(spec) == ["x", ("y", "z"), None] == list(spec.partitions)
    assert "x" in spec and "y" not in spec and not P()
    assert spec.index(["y", "z"]) == 1 and spec.count(None) == 1 and spec.count(("x",)) == 1
    assert P("x").to_lo() == [P("x")]
    with pytest.raises(ValueError):
        spec.index("w")


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: P("x", unreduced="y"), TypeError, "unreduced argument .* `set`, got 'y'"),
        (lambda: P("x", reduced=[]), TypeError, r"reduced argument .* `set`, got \[\]"),
        (lambda: P(unreduced={None}), ValueError, "unreduced cannot contain None"),
        (lambda: P(reduced={None}), ValueError, "reduced cannot contain None"),
        (lambda: P("x", unreduced={"x"}), ValueError, "cannot overlap with unreduced axes"),
        (lambda: P(("x", "y"), reduced={"x"}), ValueError, "cannot overlap with reduced axes"),
        (lambda: P(unreduced={"x"}, reduced={"x"}), ValueError, "`unreduced` and `reduced`"),
        (lambda: P("x", unreduced={"y"})[0], ValueError, r"use spec.partitions\[...\]"),
        (lambda: [*P("x", reduced={"y"})], ValueError, r"use \*spec.partitions"),
        (lambda: P("x", unreduced={"z"}) + ("y",), TypeError, "has unreduced in `__add__`"),
        (lambda: ("y",) + P("x", reduced={"z"}), TypeError, "has reduced in `__radd__`"),
        (lambda: P("x") + ["y"], TypeError, "unsupported operand"),
        (lambda: P({"a": 1}), TypeError, "unhashable"),
        (lambda: type("Q", (P,), {}), TypeError, "Subclassing"),
        (lambda: setattr(P("x"), "unreduced", 1), AttributeError, "assign to field 'unreduced'"),
        (lambda: setattr(P("x"), "other", 1), AttributeError, "assign to field 'other'"),
        (lambda: delattr(P("x"), "reduced"), AttributeError, "delete field 'reduced'"),
    ],
)
def test_misuse_of_specs(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_types_of_manual_values():
    one = ManualAxisType(varying={"x"}, reduced={"z"})
    assert repr(ManualAxisType(varying={"x"})) == (
        "ManualAxisType(varying=frozenset({'x'}), unreduced=frozenset(), reduced=frozenset())"
    )
    assert one is ManualAxisType(varying=frozenset({"x"}), reduced=frozenset({"z"}))
    assert pickle.loads(pickle.dumps(one)) is one
    assert one.vur == {"x", "z"} and not one.empty and ManualAxisType().empty
    assert one.update(reduced=frozenset()) is ManualAxisType(varying={"x"})
    assert one.to_ct_mat() is ManualAxisType(varying={"x"}, unreduced={"z"})
    mesh = AbstractMesh((2, 2, 2), ("x", "y", "z"), (AxisType.Manual,) * 3)
    assert one.invarying(mesh) == {"y"}
    for what in ("unreduced", "reduced"):
        with pytest.raises(ValueError, match=f"varying and {what} cannot have common mesh axes"):
            ManualAxisType(varying={"x"}, **{what: {"x"}})
    with pytest.raises(TypeError, match=r"varying argument .* got \['x'\]"):
        ManualAxisType(varying=["x"])
    with pytest.raises(AttributeError, match="'varying'"):
        one.varying = frozenset()
