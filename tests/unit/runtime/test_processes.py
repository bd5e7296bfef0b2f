"""Several processes, as far as one can tell: tests/mpi starts real ones."""

import os
import subprocess
import sys

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.backends import mpi_numbers
from gpuarray.core.avals import ShapedArray
from gpuarray.core.sharding import Device, SingleDeviceSharding, place_of
from gpuarray.primitives.collective import ops
from gpuarray.runtime import device as devices
from gpuarray.sharding import Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P
from tests.support import ROOT


def elsewhere(count=2):
    """Devices of another process."""
    return [Device("cpu", 100 + i, process_index=7, local_hardware_id=i) for i in range(count)]


def over_two():
    """The sharding of rows over a device of ours and one of another process."""
    return NamedSharding(Mesh(np.array([ga.devices("cpu")[0], *elsewhere(1)]), ("x",)), P("x"))


def test_one_process():
    assert (ga.process_index(), ga.process_count(), ga.process_indices()) == (0, 1, [0])
    for old in (ga.host_id, ga.host_count, ga.host_ids):
        with pytest.warns(DeprecationWarning, match="renamed to process_"):
            old()
    assert ga.local_devices(process_index=0) == ga.devices()
    with pytest.raises(ValueError, match="Unknown process_index 3"):
        ga.local_devices(process_index=3)
    assert not ga.distributed.is_initialized()
    ga.distributed.shutdown()


def test_initialize_after_devices_were_used():
    ga.devices("cpu")
    with pytest.raises(RuntimeError, match="devices were first asked for at"):
        ga.distributed.initialize(num_processes=1)
    assert not ga.distributed.is_initialized()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cluster_detection_method": "slurm"}, "'mpi4py' or None"),
        ({"slice_index": 1}, "no slices"),
        ({"initialization_timeout": 0}, "must be positive"),
        ({"coordinator_address": 3}, "must be a str"),
    ],
)
def test_what_initialize_refuses(given, words):
    with pytest.raises((TypeError, ValueError), match=words):
        ga.distributed.initialize(**given)


def test_initialize_without_a_launcher():
    text = """
import sys, gpuarray as ga
for given in ({}, {"num_processes": 4, "process_id": 1}):
    try:
        ga.distributed.initialize(**given)
    except RuntimeError as error:
        assert "python -m gpuarray launch -n 4 script.py" in str(error), error
    else:
        raise AssertionError(given)
ga.distributed.initialize(coordinator_address="localhost:1234", num_processes=1, process_id=0)
assert ga.distributed.is_initialized() and "mpi4py" not in sys.modules
try:
    ga.distributed.initialize(num_processes=1)
except RuntimeError as error:
    assert "called once" in str(error)
assert float(ga.numpy.ones(3).sum()) == 3
"""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI", "MPI"))}
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, env=clean, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "coordinator_address='localhost:1234' has no effect" in done.stderr


def test_devices_of_another_process():
    other = elsewhere(1)[0]
    assert not other.is_addressable and ga.devices("cpu")[0].is_addressable
    for target in (other, SingleDeviceSharding(other)):
        with pytest.raises(ValueError, match="non-addressable device .* process 7"):
            ga.device_put(np.ones(3), target)
    place = place_of(other, True)
    assert place.devices == () and place.spans and place.all_devices == (other,)


def test_an_array_whose_other_half_is_elsewhere():
    x = ga.make_array_from_callback((4, 2), over_two(), lambda i: np.ones((2, 2), np.float32))
    assert not x.is_fully_addressable and len(x.addressable_shards) == 1
    assert [s.data is None for s in x.global_shards] == [False, True]
    assert repr(x) == "Array(shape=(4, 2), dtype=float32)"
    for read in (np.asarray, float, str, lambda x: x.tolist(), ga.device_get):
        if read is float:
            continue
        with pytest.raises(RuntimeError, match=r"process_allgather.*addressable_shards"):
            read(x)
    whole = NamedSharding(x.sharding.mesh, P())
    y = ga.make_array_from_callback((2,), whole, lambda i: np.arange(2.0, dtype=np.float32))
    assert y.tolist() == [0, 1] and y.is_fully_replicated


def test_local_data_of_a_part():
    made = ga.make_array_from_process_local_data
    x = made(over_two(), np.arange(6, dtype=np.float32).reshape(2, 3))
    assert x.shape == (4, 3)
    assert x.addressable_shards[0].data.tolist() == [[0, 1, 2], [3, 4, 5]]
    x = made(over_two(), np.arange(12, dtype=np.float32).reshape(4, 3), (4, 3))
    assert x.shape == (4, 3) and x.addressable_shards[0].data.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match="do not make axis 0"):
        made(over_two(), np.ones((3, 2)), (5, 2))
    with pytest.raises(ValueError, match="has 2 axes"):
        made(over_two(), np.ones((3, 2)), (6,))


def test_the_number_of_devices_is_settled():
    before = devices._counts
    devices._counts = (3,)
    try:
        with pytest.raises(RuntimeError, match="there are 3 already"):
            ga.config.update("num_cpu_devices", 2)
    finally:
        devices._counts = before


# ---- how floats are reduced as integers ----


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("prim", "best"), [(ops.pmax_p, np.max), (ops.pmin_p, np.min)])
def test_floats_as_integers_in_the_same_order(dtype, prim, best):
    values = [0.0, 1.5, -1.5, np.inf, -np.inf, 1e-310, -1e-30, 3e38, 7.0]
    values = np.array(values, dtype)
    code = mpi_numbers.code_of(prim, ShapedArray((9,), np.dtype(dtype)))
    assert code is not None
    coded = code.encoded(values)
    assert coded.dtype.kind == "i"
    np.testing.assert_array_equal(code.decoded(coded), values)
    np.testing.assert_array_equal(np.argsort(coded), np.argsort(values))
    # A nan is found, whichever of the two is asked for.
    with_nan = np.append(values, np.array(np.nan, dtype))
    assert np.isnan(code.decoded(best(code.encoded(with_nan), keepdims=True))).all()
    assert np.isnan(code.decoded(code.encoded(np.array(np.nan, dtype))))


def test_what_mpi_does_not_reduce():
    assert mpi_numbers.code_of(ops.pmax_p, ShapedArray((), np.dtype("complex64"))) is None
    assert mpi_numbers.code_of(ops.psum_p, ShapedArray((), np.dtype(bool))) is None
    narrow = mpi_numbers.code_of(ops.psum_p, ShapedArray((), ga.dtypes.bfloat16))
    assert narrow is not None and narrow.dtype == np.float32
