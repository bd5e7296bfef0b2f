"""Where arrays were made, and what devices say of themselves and of their memory."""

import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.config import Context
from gpuarray.sharding import AxisType, NamedSharding
from gpuarray.sharding import PartitionSpec as P


@contextmanager
def noting() -> Iterator[None]:
    ga.config.update("array_tracebacks", True)
    try:
        yield
    finally:
        ga.config.update("array_tracebacks", False)


def double(x):
    return 2 * x


def test_arrays_know_their_calls_while_the_setting_is_on():
    assert gnp.ones(3).traceback is None
    with noting():
        made = double(gnp.ones(3))
        compiled = ga.jit(double)(made)
    assert gnp.ones(3).traceback is None
    here = made.traceback.frames
    assert [f.function_name for f in here[:2]] == [
        "double",
        "test_arrays_know_their_calls_while_the_setting_is_on",
    ]
    first = double.__code__.co_firstlineno
    assert here[0] == (__file__, "double", first, first + 1)
    assert str(made.traceback).splitlines()[0] == f"{__file__}:{first + 1} (double)"
    # The calls of a compiled program are those that led to it.
    assert compiled.traceback.frames[0].line_num == here[1].line_num + 1
    shown = traceback.extract_tb(made.traceback.as_python_traceback())
    assert [(f.filename, f.lineno, f.name) for f in shown][-2:] == [
        (__file__, f.line_num, f.function_name) for f in (here[1], here[0])
    ]


def test_the_setting_is_of_a_thread_and_of_a_block():
    noted = Context("array_tracebacks")
    with noted(True):
        assert gnp.ones(3).traceback is not None
        with ThreadPoolExecutor(1) as other:
            assert other.submit(lambda: gnp.ones(3).traceback).result() is None
        ga.config.update("array_tracebacks", False)  # for all threads but this block
        assert gnp.ones(3).traceback is not None
    assert gnp.ones(3).traceback is None


def test_traced_values_have_no_traceback():
    with pytest.raises(ga.errors.ConcretizationTypeError, match="traceback property"):
        ga.jit(lambda x: x.traceback)(gnp.ones(3))


@pytest.mark.on_cpu("it has several devices")
def test_devices_share_a_client():
    device = ga.devices("cpu")[0]
    client = device.client
    assert all(d.client is client for d in ga.devices("cpu"))
    assert client.devices() == client.local_devices() == ga.devices("cpu")
    assert client.device_count() == client.local_device_count() == len(ga.devices("cpu"))
    assert (client.platform, client.platform_version) == ("cpu", "cpu")
    assert client.process_index() == client.host_id() == device.host_id == device.task_id == 0
    assert client.device_from_local_hardware_id(0) is device
    with pytest.raises(ValueError, match="no cpu device has number 99 here"):
        client.device_from_local_hardware_id(99)
    x = gnp.ones(3) + 1
    assert any(a is x for a in client.live_arrays())


def test_memories():
    device = ga.devices("cpu")[0]
    assert device.memory_stats() is None
    memory = device.default_memory()
    assert device.addressable_memories()[0] == memory == device.memory("device")
    kinds = [memory.kind for memory in device.addressable_memories()]
    assert kinds == ["device", "pinned_host", "unpinned_host"]
    assert device.memory("pinned_host").kind == "pinned_host"
    assert (memory.kind, memory.platform, memory.process_index) == ("device", "cpu", 0)
    assert memory.addressable_by_devices() == [device]
    with pytest.raises(ValueError, match="Got memory kind: hbm"):
        device.memory("hbm")


def over(*spec: Any):
    mesh = ga.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    return ga.device_put(np.zeros((64, 32), np.float32), NamedSharding(mesh, P(*spec)))


@pytest.mark.devices
def test_arrays_over_devices_are_counted_by_their_pieces():
    devices = ga.devices()
    for spec, each, together in (
        (("x", "y"), 1024, 8192),  # pieces
        (("x",), 2048, 8192),  # replicas of four pieces, which share memory
        ((), 8192, 8192),
    ):
        before = [ga.memory_stats(d)["bytes_in_use"] for d in (None, devices[5])]
        x = over(*spec)
        after = [ga.memory_stats(d)["bytes_in_use"] for d in (None, devices[5])]
        assert [b - a for a, b in zip(before, after, strict=True)] == [together, each]
        # Not only where no platform is named.
        assert any(a is x for a in ga.live_arrays("cpu"))
        with pytest.warns(DeprecationWarning, match="live_buffers"):
            assert any(a is x for a in devices[5].live_buffers())
        del x
    alone = gnp.ones(3) + 1
    with pytest.warns(DeprecationWarning, match="live_buffers"):
        assert not any(a is alone for a in devices[5].live_buffers())
