"""What happens where a GPU has no memory left: what nobody uses is given back, then it is told.

In: the stand-in for CuPy with little memory, and with failures of each library. Out: results where
there was memory to give back, an OutOfMemory that names the operation and its line elsewhere.
"""

from __future__ import annotations

import contextlib
import os

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.errors import DeviceError, OutOfMemory
from tests.fake_cupy import installed
from tests.fake_cupy.errors import (
    CUBLASError,
    CUDADriverError,
    CUDARuntimeError,
    CuFFTError,
    CUSOLVERError,
    OutOfMemoryError,
)
from tests.fake_cupy.kernels import Module
from tests.support import simulated

if "cuda" in os.environ.get("GPUARRAY_PLATFORMS", ""):
    pytest.skip("CuPy itself, with a GPU, is in use here", allow_module_level=True)
simulated.need_compiler()

HERE = os.path.basename(__file__)
LINE = np.random.default_rng(0).uniform(-1, 1, 600).astype(np.float32)
#: A quarter of a megabyte: kernels go over all memory of the stand-in, element by element.
PART = 1 << 18


@contextlib.contextmanager
def little(parts: int):
    """A GPU of so many parts of memory, with an array on it that takes eight."""
    with installed(seed=3, memory=parts * PART) as world:
        x = np.random.default_rng(0).uniform(-1, 1, 2 * PART).astype(np.float32)
        yield world, x
        ga.clear_caches()


LIBRARY_CALLS = {
    "sort": (gnp.sort, np.sort),
    "fft": (gnp.fft.fft, np.fft.fft),
    "matmul": (lambda x: x.reshape(512, -1) @ x.reshape(-1, 512), None),
}


@pytest.mark.parametrize("name", list(LIBRARY_CALLS))
def test_idle_memory_of_our_pool_is_there_for_libraries(name):
    function, expected = LIBRARY_CALLS[name]
    with little(60) as (_, value):
        x = gnp.asarray(value)
        gnp.zeros(12 * PART, "float32").block_until_ready()  # 48 that the pool keeps
        y = np.asarray(ga.jit(function)(x))
        if expected is not None:
            np.testing.assert_allclose(y, expected(value), 1e-3, 1e-3 * np.abs(y).max())
        del x


def test_plans_of_transforms_and_memory_of_libraries_are_there_for_plans():
    with little(64) as (_, value):
        x = gnp.asarray(value)
        for f in (gnp.fft.fft, gnp.fft.rfft, gnp.sort):
            ga.jit(f)(x).block_until_ready()
        big = gnp.zeros(12 * PART, "float32") + 1  # 48 of the 56 beside x
        assert float(big[-1]) == 1
        del big, x


def test_libraries_take_memory_where_it_is_counted():
    with little(256) as (_, value):
        (device,) = ga.devices("cuda")
        x = gnp.asarray(value)
        before = ga.memory_stats(device)["bytes_in_use"]
        y = gnp.sort(x)
        y.block_until_ready()
        assert ga.memory_stats(device)["bytes_in_use"] - before == y.nbytes
        del x, y


def out_of_memory_errors() -> dict:
    return {
        "cublas": CUBLASError(3),
        "cusolver": CUSOLVERError(2),
        "cufft": CuFFTError(2),
        "runtime": CUDARuntimeError(2),
        "pool": OutOfMemoryError(512, 0),
    }


#: A call of each library.
CALLS = {
    "matmul": lambda x: x.reshape(20, 30) @ x.reshape(30, 20),
    "eigh": lambda x: gnp.linalg.eigh(x[:36].reshape(6, 6))[0],
    "eig": lambda x: gnp.abs(gnp.linalg.eig(x[:36].reshape(6, 6))[0]).sum(),
    "fft": lambda x: gnp.fft.fft(x),
    "sort": lambda x: gnp.sort(gnp.tile(x, 20)),
}


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize("name", list(out_of_memory_errors()))
def test_a_library_without_memory_is_called_again_and_then_told(fake_gpu, name, call):
    f, x = ga.jit(CALLS[call]), gnp.asarray(LINE)
    expected = np.asarray(f(x))
    fake_gpu.fail("library", 0, out_of_memory_errors()[name])
    np.testing.assert_array_equal(np.asarray(f(x)), expected)
    fake_gpu.fail("library", 0, out_of_memory_errors()[name], times=np.inf)
    with pytest.raises(OutOfMemory, match=rf"Out of memory in \w+ recorded at {HERE}"):
        f(x)
    fake_gpu.repair()
    np.testing.assert_array_equal(np.asarray(f(x)), expected)


@pytest.mark.parametrize("kind, number", [(CUBLASError, 13), (CUSOLVERError, 6), (CuFFTError, 6)])
def test_another_failure_of_a_library_is_told_with_its_line(fake_gpu, kind, number):
    f, x = ga.jit(CALLS["fft"]), gnp.asarray(LINE)
    f(x).block_until_ready()
    count = fake_gpu.counts["library"]
    fake_gpu.fail("library", 0, kind(number))
    with pytest.raises(DeviceError, match="EXEC") as caught:
        f(x)
    assert fake_gpu.counts["library"] == count + 1, "it is not called again"
    assert f"recorded at {HERE}" in "".join(caught.value.__notes__)


def test_kernels_are_loaded_again_where_there_was_no_memory(fake_gpu, monkeypatch):
    load, failures = Module.load, [CUDADriverError(2)]

    def failing(self, cubin):
        if failures:
            raise failures.pop()
        load(self, cubin)

    monkeypatch.setattr(Module, "load", failing)
    x = gnp.asarray(LINE)
    np.testing.assert_array_equal(np.asarray(ga.jit(lambda x: x * 3 - 2)(x)), LINE * 3 - 2)
    assert not failures
