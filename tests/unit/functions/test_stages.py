"""The stages of functions that are compiled before it is known on which devices they run."""

import numpy as np
import pytest

import gpuarray as ga
from gpuarray import export
from gpuarray.sharding import AxisType, NamedSharding
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices


def _abstract(axis_type, count=4):
    mesh = ga.make_mesh((count,), ("x",), axis_types=(axis_type,))
    laid = NamedSharding(mesh.abstract_mesh, P("x"))
    return mesh, laid, ga.ShapeDtypeStruct((8,), np.float32, sharding=laid)


@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
def test_devices_are_told_when_it_is_compiled(axis_type):
    mesh, laid, struct = _abstract(axis_type)
    double = lambda x: x * 2
    by_options = ga.jit(double, in_shardings=laid, out_shardings=laid)
    for jitted in (ga.jit(double), by_options):
        lowered = jitted.lower(struct)
        assert "mul" in lowered.as_text()
        for _ in range(2):
            with pytest.raises(RuntimeError, match="device_assignment cannot be `None` during"):
                lowered.compile()
            with pytest.raises(ValueError, match="size of abstract mesh 4 .* device assignment: 1"):
                lowered.compile(device_assignment=ga.devices()[:1])
            compiled = lowered.compile(device_assignment=ga.devices()[4:8])
            (found,), _ = compiled.input_shardings
            assert found == compiled.output_shardings
            assert found.spec == P("x") and list(found.mesh.devices.flat) == ga.devices()[4:8]
            x = ga.device_put(np.arange(8.0, dtype=np.float32), found)
            np.testing.assert_array_equal(compiled(x), np.arange(8.0) * 2)
    # Called, it needs the devices: those in context, if it has as many.
    with pytest.raises(ValueError, match="AbstractMesh, which has no devices"):
        by_options(np.zeros(8, np.float32))
    with ga.set_mesh(mesh):
        assert by_options(np.zeros(8, np.float32)).sharding == NamedSharding(mesh, P("x"))


def test_other_arguments_tell_the_devices():
    mesh, _, struct = _abstract(AxisType.Auto)
    put = ga.ShapeDtypeStruct((8,), np.float32, sharding=NamedSharding(mesh, P()))
    compiled = ga.jit(lambda x, y: x + y).lower(struct, put).compile()
    assert [s.spec for s in compiled.input_shardings[0]] == [P("x"), P()]
    with pytest.raises(ValueError, match="size of abstract mesh 2 .* device assignment: 4"):
        ga.jit(lambda x, y: x + y).lower(_abstract(AxisType.Auto, 2)[2], put)


def test_a_program_over_an_abstract_mesh_is_exported_for_as_many_devices():
    assert export.export(ga.jit(lambda x: x + 1))(_abstract(AxisType.Auto)[2]).nr_devices == 4
