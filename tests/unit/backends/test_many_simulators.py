"""Programs over eight simulators: kernels of every device run, and are checked, on this CPU.

In: bodies with every collective. Out: what `vmap` says; where kernels run in other orders, too.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends import simulator
from gpuarray.sharding import Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P
from tests.support import simulated
from tests.support.exchanges import BODIES, check

simulated.need_compiler()
pytestmark = pytest.mark.devices


@pytest.fixture
def mesh():
    return Mesh(np.array(ga.devices("simulator")), ("x",))


def test_there_are_as_many_as_cpu_devices(mesh):
    assert mesh.size == 8 and len(set(ga.devices("simulator"))) == 8


@pytest.mark.parametrize("name", BODIES)
def test_every_collective_is_what_vmap_says(mesh, name):
    with simulator.order_drawn_from(3):
        check(name, mesh)


def test_collectives_are_kernels_too(mesh, monkeypatch):
    launched = []
    call = simulator.Launcher.__call__
    monkeypatch.setattr(
        simulator.Launcher, "__call__", lambda self, *a: launched.append(self) or call(self, *a)
    )
    f = ga.shard_map(lambda v: lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    assert np.array_equal(np.asarray(ga.jit(f)(np.ones(16, np.float32))), [8.0, 8.0])
    assert launched


def test_sharded_arrays(mesh):
    x = np.arange(64, dtype=np.float32).reshape(16, 4)
    a = ga.device_put(x, NamedSharding(mesh, P("x")))
    assert a.devices() == set(mesh.devices)
    y = ga.jit(lambda v: gnp.cumsum(v * 2, axis=0) + v.sum(0))(a)
    np.testing.assert_allclose(np.asarray(y), np.cumsum(x * 2, axis=0) + x.sum(0), rtol=1e-6)
