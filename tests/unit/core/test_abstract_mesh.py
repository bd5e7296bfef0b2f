"""Meshes without devices (`core/abstract_mesh.py`).

The figures are those of JAX 0.10.2 for the same calls.
"""

import copy
import pickle
from collections import OrderedDict

import pytest

from gpuarray.sharding import AbstractDevice, AbstractMesh, AxisType

AUTO, EXPLICIT, MANUAL = AxisType.Auto, AxisType.Explicit, AxisType.Manual
MESH = AbstractMesh((4, 2), ("x", "y"))
CPU = AbstractDevice("cpu", None, "cpu")


def test_types_of_axes():
    assert list(AxisType) == [AUTO, EXPLICIT, MANUAL]
    assert [t.value for t in AxisType] == [1, 2, 3]
    assert (repr(AUTO), str(AUTO)) == ("Auto", "AxisType.Auto")


def test_attributes():
    assert MESH.shape == OrderedDict([("x", 4), ("y", 2)])
    assert MESH.shape_tuple == (("x", 4), ("y", 2))
    assert (MESH.axis_sizes, MESH.axis_names, MESH.axis_types) == ((4, 2), ("x", "y"), (AUTO, AUTO))
    assert (MESH.size, MESH.empty, MESH.abstract_device) == (8, False, None)
    assert MESH.abstract_mesh is MESH
    nothing = AbstractMesh((), ())
    assert (nothing.size, nothing.empty) == (0, True)
    assert not (nothing.are_all_axes_auto or nothing.are_all_axes_manual)
    mixed = MESH.update_axis_types({"x": MANUAL})
    assert mixed.manual_axes == ("x",) and mixed.auto_axes == ("y",) and mixed.explicit_axes == ()
    assert not (mixed.are_all_axes_manual or mixed.are_all_axes_auto)
    assert MESH.are_all_axes_auto
    assert AbstractMesh((4,), "x", EXPLICIT).are_all_axes_explicit
    assert AbstractMesh((4,), "x", MANUAL).are_all_axes_manual


@pytest.mark.parametrize(
    "value, shown",
    [
        (MESH, "AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto))"),
        (AbstractMesh((), ()), "AbstractMesh((), axis_types=())"),
        (AbstractMesh((4,), ("x",), MANUAL), "AbstractMesh('x': 4, axis_types=(Manual,))"),
        (
            MESH.update(abstract_device=CPU),
            "AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto), device_kind=cpu, "
            "num_cores=None, platform=cpu)",
        ),
        (CPU, "AbstractDevice(device_kind=cpu, num_cores=None, platform=cpu)"),
    ],
)
def test_how_they_are_written(value, shown):
    assert repr(value) == str(value) == shown


def test_equal_ones_are_one_object():
    same = AbstractMesh([4, 2], ["x", "y"], (AUTO, AUTO))
    assert MESH is same is pickle.loads(pickle.dumps(MESH)) is copy.deepcopy(MESH)
    assert MESH.update(axis_sizes=(2, 4)) is AbstractMesh((2, 4), ("x", "y"))
    assert MESH.update(axis_names=("a", "b")) is AbstractMesh((4, 2), ("a", "b"))
    kept = MESH.update(abstract_device=CPU)
    assert kept.update(axis_sizes=(2, 2)).abstract_device is CPU
    assert kept.update(abstract_device=None) is MESH is not kept
    assert pickle.loads(pickle.dumps(kept)) is kept
    assert CPU is AbstractDevice("cpu", None, "cpu") is pickle.loads(pickle.dumps(CPU))


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: AbstractMesh((4,), ("x", "y")), ValueError, "a length for each name"),
        (lambda: AbstractMesh((4, 2), ("x", "x")), ValueError, "names of their own"),
        (lambda: AbstractMesh((4,), (None,)), ValueError, "cannot be None"),
        (lambda: AbstractMesh((-1,), ("x",)), ValueError, "not negative"),
        (lambda: AbstractMesh((1.5,), ("x",)), TypeError, "float"),
        (lambda: AbstractMesh((4,), ("x",), "m"), TypeError, r"must be of type .* \('m',\)"),
        (lambda: AbstractMesh((4,), "x", (AUTO,) * 2), ValueError, "should match the number"),
        (lambda: AbstractMesh((4,), "x", abstract_device="cpu"), TypeError, "AbstractDevice"),
        (lambda: setattr(CPU, "num_cores", 1), AttributeError, "assign to field 'num_cores'"),
        (lambda: setattr(MESH, "size", 3), AttributeError, "assign to field 'size'"),
        (lambda: MESH.update(other=3), TypeError, "other"),
        *[
            (lambda name=name: getattr(MESH, name), ValueError, f"does not implement {name}")
            for name in ("devices", "device_ids", "is_multi_process", "local_devices", "local_mesh")
        ],
        (lambda: MESH.__enter__(), ValueError, "does not implement __enter__"),
    ],
)
def test_misuse(make, error, message):
    with pytest.raises(error, match=message):
        make()
