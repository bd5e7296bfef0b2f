"""Layouts on one device, and what all layouts share (`core/sharding.py`).

The figures are those of JAX 0.10.2 for the same calls.
"""

import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.core.sharding import Device, pieces
from gpuarray.sharding import Sharding, SingleDeviceSharding, make_single_device_sharding

HERE, THERE = Device("cpu", 0), Device("cpu", 1, process_index=1)
ALL = slice(None)


def test_one_device():
    here = SingleDeviceSharding(HERE)
    assert (
        here == SingleDeviceSharding(HERE, memory_kind="device") == here.with_memory_kind("device")
    )
    assert here == make_single_device_sharding(HERE) != SingleDeviceSharding(THERE)
    assert len({here, make_single_device_sharding(HERE, memory_kind="device")}) == 1
    assert repr(here) == "SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)"
    assert here.device_set == here.addressable_devices == {HERE}
    assert (here.num_devices, here.memory_kind) == (1, "device")
    assert here.is_fully_replicated and here.is_fully_addressable and here.has_addressable_devices
    assert here.shard_shape((3, 4)) == (3, 4)
    assert here.devices_indices_map((3, 4)) == {HERE: (ALL, ALL)}
    assert here.addressable_devices_indices_map((3, 4)) == {HERE: (ALL, ALL)}
    assert pieces(here, (3,)) == ((HERE, (ALL,), 0),)
    here.check_compatible_aval((3, 4))
    assert gnp.arange(3).sharding == SingleDeviceSharding(ga.devices()[0])


def test_a_device_of_another_process():
    there = SingleDeviceSharding(THERE)
    assert not there.is_fully_addressable and not there.has_addressable_devices
    assert there.addressable_devices == set() and there.device_set == {THERE}
    assert there.addressable_devices_indices_map((3,)) == {}


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: SingleDeviceSharding("cpu"), TypeError, "takes a Device, .* got 'cpu'"),
        (lambda: SingleDeviceSharding(None), TypeError, "takes a Device, .* got None"),
        (lambda: SingleDeviceSharding(HERE, memory_kind="foo"), ValueError, "kind: foo"),
        (lambda: SingleDeviceSharding(HERE).with_memory_kind("foo"), ValueError, "kind: foo"),
        (lambda: Sharding().device_set, NotImplementedError, "which devices it uses"),
        (lambda: Sharding().devices_indices_map((3,)), NotImplementedError, "which devices"),
        (lambda: Sharding().with_memory_kind("device"), NotImplementedError, "memory"),
    ],
)
def test_misuse(make, error, message):
    with pytest.raises(error, match=message):
        make()
