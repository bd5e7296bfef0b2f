"""What a program is told when a GPU fails, refuses, is too old, or is not there.

In: the errors that CUDA and CuPy raise, on the stand-in. Out: sentences that say what to do, at use
and from the doctor; waits that end.
"""

import importlib.machinery
import sys
import types

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.backends.cuda import availability, failures
from gpuarray.cli import machine
from gpuarray.errors import DeviceError
from tests.fake_cupy import installed, runtime
from tests.fake_cupy.errors import CUDADriverError, CUDARuntimeError


# ---- errors of work ----
@pytest.mark.parametrize("seed", range(5))
def test_waiting_for_a_gpu_that_failed_ends(seed):
    with installed(seed) as world:
        x = gnp.ones((4, 4)).block_until_ready()
        world.fail("execution", 0, CUDARuntimeError(700))
        y = ga.jit(lambda x: gnp.sin(x) + 1)(x)
        for _ in range(10_000):
            if y.is_ready():
                break
        else:
            raise AssertionError("is_ready() never says that nothing is left to wait for")
        with pytest.raises(DeviceError, match="stays unusable"):
            y.block_until_ready()
        with pytest.raises(DeviceError, match="illegal memory access"):
            np.asarray(y)
        assert y.is_ready()
        world.repair()
        del x, y


@pytest.mark.parametrize("status", [1, 701])
def test_a_call_that_was_refused_leaves_the_gpu_as_it_is(fake_gpu, status):
    f = ga.jit(lambda x: gnp.sin(x) + 1)
    x = gnp.ones((4, 4))
    right = np.asarray(f(x))
    fake_gpu.fail("launch", 0, CUDADriverError(status))
    with pytest.raises(DeviceError, match="can be used as before") as caught:
        f(x)
    assert "unusable" not in str(caught.value) and "please report it" in str(caught.value)
    assert "sin recorded at" in "".join(caught.value.__notes__)
    np.testing.assert_array_equal(f(x), right)


def test_which_errors_end_a_process():
    named = lambda kind, status: type(kind, (Exception,), {"status": status})()
    says = lambda error: failures.explained(error, ["k0"])
    for status in (700, 716, 719, 999):
        for kind in ("CUDARuntimeError", "CUDADriverError"):
            assert "unusable" in says(named(kind, status)) and "k0" in says(named(kind, status))
    for status in (1, 98, 209, 222, 400, 701, 801):
        assert "as before" in says(named("CUDARuntimeError", status))
    assert "cuda12" in says(named("CUDADriverError", 222))
    # A library says that something failed on the GPU, by a number of its own.
    assert "unusable" in says(named("CUBLASError", 13))
    # CuPy hands on what Thrust says of its kernels, and of memory.
    said = "radix_sort: failed on 2nd step: cudaErrorIllegalAddress: an illegal memory access"
    assert failures.is_failure(RuntimeError(said)) and "unusable" in says(RuntimeError(said))
    assert not failures.is_failure(RuntimeError("geev is not available"))
    assert failures.is_out_of_memory(MemoryError("std::bad_alloc"))


# ---- no GPU ----
@pytest.fixture
def broken(monkeypatch):
    """CuPy whose count of GPUs fails in a way that the test chooses; nothing else is there."""
    availability.missing.cache_clear()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = types.SimpleNamespace(error=None, count=0)

    def count():
        if found.error is not None:
            raise found.error
        return found.count

    runtime = types.SimpleNamespace(getDeviceCount=count)
    cupy = types.ModuleType("cupy")
    cupy.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    cupy.cuda = types.SimpleNamespace(runtime=runtime)  # pyright: ignore
    monkeypatch.setattr(availability, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(availability, "has_driver", lambda: True)
    monkeypatch.setattr(availability, "distributions", lambda: [("cupy-cuda13x", "14.0")])
    yield found
    availability.missing.cache_clear()


def raised(status, text="an error"):
    error = type("CUDARuntimeError", (RuntimeError,), {})(text)
    error.status = status
    return error


NO_GPU = {
    "no driver": (ImportError("libcuda.so.1"), {"driver": False}, "--gpus all"),
    "no driver, says CUDA": (raised(35), {"driver": False}, "driver is not here"),
    "a broken CuPy": (ImportError("no core"), {}, "CuPy cannot be imported .*no core"),
    "an old driver": (raised(35), {}, "gpuarray-runtime\\[cuda12\\]"),
    "no device": (raised(100), {}, "nvidia-smi -L"),
    "none counted": (None, {}, "nvidia-smi -L"),
    "MIG without an instance": (raised(100), {}, "MIG mode needs an instance"),
    "all hidden": (raised(100), {"visible": ""}, "'', which hides all GPUs: unset it"),
    "hidden by -1": (raised(100), {"visible": "-1"}, "hides all GPUs"),
    "another number": (raised(100), {"visible": "7"}, "'7', and none of these is here"),
    "another instance": (raised(100), {"visible": "MIG-1"}, "MIG instances are named by"),
    "two wheels": (ImportError("x"), {"two": True}, "pip uninstall cupy-cuda12x cupy-cuda13x"),
    "no fabric": (raised(802), {}, "nvidia-fabricmanager"),
    "anything else": (ValueError("odd"), {}, "ValueError: odd"),
}


@pytest.mark.parametrize("name", NO_GPU)
def test_why_there_is_no_gpu(name, broken, monkeypatch):
    error, given, sentence = NO_GPU[name]
    broken.error = error
    if not given.get("driver", True):
        monkeypatch.setattr(availability, "has_driver", lambda: False)
    if "visible" in given:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given["visible"])
    if given.get("two"):
        wheels = [("cupy-cuda12x", "14.0"), ("cupy-cuda13x", "14.0")]
        monkeypatch.setattr(availability, "distributions", lambda: wheels)
    with pytest.raises(DeviceError, match=sentence):
        ga.devices("gpu")
    # The report says the same.
    rows = dict(machine._nvidia({}))
    assert rows["used by gpuarray"].startswith("no, it computes on the CPU")
    assert availability.missing() in rows["used by gpuarray"]


def test_a_driver_whose_library_does_not_load(monkeypatch):
    monkeypatch.setattr(availability, "DRIVER", "libnothing-of-this-name.so.1")
    assert not availability.has_driver()
    monkeypatch.setattr(availability, "DRIVER", None)  # the program itself, which is loaded
    assert availability.has_driver()


# ---- a GPU that is too old ----
def test_a_gpu_that_the_compiler_no_longer_knows(fake_gpu, monkeypatch):
    properties = runtime.getDeviceProperties
    volta = lambda device: properties(device) | {"name": b"Volta", "major": 7, "minor": 0}
    monkeypatch.setattr(sys.modules["cupy"].cuda.runtime, "getDeviceProperties", volta)
    with pytest.raises(DeviceError, match=r"sm_70.*sm_75 and later.*cuda12") as caught:
        float(gnp.sin(gnp.ones(3)).sum())
    assert "JAX_PLATFORMS=cpu" in str(caught.value)
    facts = {}
    machine._nvidia(facts)
    assert ["Volta" in line and "cuda12" in line for line in facts["too_old"]] == [True]


def test_a_compiler_that_does_not_answer_is_said(fake_gpu, monkeypatch):
    def fails():
        raise RuntimeError("libnvrtc.so.13: cannot open shared object file")

    monkeypatch.setattr(sys.modules["cupy"].cuda.nvrtc, "getSupportedArchs", fails)
    facts = {}
    machine._nvidia(facts)
    assert "libnvrtc.so.13" in facts["too_old"][0] and "cuda13" in facts["too_old"][0]
