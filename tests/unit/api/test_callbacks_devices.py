"""Callbacks in programs over several devices.

In: functions with callbacks, and arrays over eight devices of the CPU. Out: what NumPy computes.
"""

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.experimental import io_callback
from gpuarray.sharding import NamedSharding, SingleDeviceSharding
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices
CALLS = {"pure": ga.pure_callback, "io": io_callback}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("device", [0, 5])
def test_results_go_on_in_the_program_around(name, device):
    mesh = ga.make_mesh((8,), ("i",))
    x = ga.device_put(np.arange(16.0, dtype=np.float32), NamedSharding(mesh, P("i")))

    def f(x):
        of = ga.ShapeDtypeStruct(x.shape, x.dtype)
        there = SingleDeviceSharding(ga.devices("cpu")[device])
        return CALLS[name](lambda a: np.asarray(a) * 2, of, x, sharding=there) + x

    np.testing.assert_array_equal(ga.jit(f)(x), 3 * np.arange(16))


@pytest.mark.parametrize("name", CALLS)
def test_outside_of_one_they_lie_where_they_are_asked_for(name):
    there = SingleDeviceSharding(ga.devices("cpu")[3])
    of = ga.ShapeDtypeStruct((), np.float32)
    assert CALLS[name](lambda: np.float32(7), of, sharding=there).sharding == there
