"""GPUARRAY_NUM_CPU_DEVICES gives the process that many CPU devices; parallel tests rely on it."""

import numpy as np
import pytest

import gpuarray as ga


@pytest.mark.devices
def test_eight_cpu_devices_hold_arrays():
    devices = ga.devices("cpu")
    assert len(devices) == 8 and len(set(devices)) == 8
    for i, device in enumerate(devices):
        x = ga.device_put(np.full(3, i, np.float32), device)
        assert x.devices() == {device}
        assert np.array_equal(np.asarray(x + x), np.full(3, 2.0 * i))
