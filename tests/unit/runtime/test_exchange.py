"""Arrays and functions of other libraries: `dlpack`, `ffi`, and what is said to logs."""

import ctypes
import logging

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.sharding import SingleDeviceSharding

LIST = ctypes.POINTER(ctypes.c_void_p)
FLOATS = ctypes.POINTER(ctypes.c_float)


@ctypes.CFUNCTYPE(None, FLOATS, LIST)
def axpy(out, operands):
    """out = a x + y, for 4 elements."""
    a, x, y = (ctypes.cast(operands[i], FLOATS) for i in range(3))
    for i in range(4):
        out[i] = a[0] * x[i] + y[i]


@ctypes.CFUNCTYPE(None, LIST, LIST)
def parts(out, operands):
    x = ctypes.cast(operands[0], FLOATS)
    for k in range(2):
        ctypes.cast(out[k], FLOATS)[0] = x[k]


def test_types_of_pythons_c_functions_stay_as_they_were():
    """`ctypes.pythonapi` is shared by the whole process: another library may have set types."""
    names = ("PyCapsule_New", "PyCapsule_GetName", "PyCapsule_GetPointer")
    shared = [getattr(ctypes.pythonapi, name) for name in names]
    before = [f.argtypes for f in shared]
    try:
        for f in shared:
            f.argtypes = (ctypes.c_double,)  # a call with these would be refused
        ga.ffi.register_ffi_target("test_types", ga.ffi.pycapsule(axpy), api_version=0)
        assert [f.argtypes for f in shared] == [(ctypes.c_double,)] * len(shared)
    finally:
        for f, types in zip(shared, before, strict=True):
            f.argtypes = types


def test_c_functions_in_programs():
    ga.ffi.register_ffi_target("test_axpy", ga.ffi.pycapsule(axpy), api_version=0)
    ga.ffi.register_ffi_target("test_parts", parts, api_version=0)
    four = ga.ShapeDtypeStruct((4,), np.float32)
    call = ga.ffi.ffi_call("test_axpy", four, vmap_method="sequential")
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    np.testing.assert_array_equal(
        ga.jit(lambda a: 2 * call(a, x, y))(np.float32(3)), 2 * (3 * x + 1)
    )
    many = ga.vmap(call, in_axes=(0, None, None))(np.arange(3, dtype=np.float32), x, y)
    np.testing.assert_array_equal(many, np.arange(3)[:, None] * x + y)
    one = ga.ShapeDtypeStruct((), np.float32)
    first, second = ga.ffi.ffi_call("test_parts", (one, one))(np.array([5, 7], np.float32))
    assert (float(first), float(second)) == (5, 7)
    effect = ga.ffi.ffi_call("test_parts", [one, one], has_side_effect=True)
    assert [float(v) for v in ga.jit(effect)(x[:2])] == [0, 1]


@pytest.mark.on_cpu("handlers are functions of the host")
def test_what_is_not_taken_says_so():
    with pytest.raises(NotImplementedError, match="api_version=2"):
        ga.ffi.register_ffi_target("later", axpy, api_version=2)
    ga.ffi.register_ffi_target("gpu", axpy, platform="CUDA", api_version=0)
    with pytest.raises(NotImplementedError, match="run on the host"):
        ga.ffi.ffi_call("gpu", [])()
    with pytest.raises(TypeError, match="a C function"):
        ga.ffi.register_ffi_target("python", lambda: None, api_version=0)
    with pytest.raises(ValueError, match="no function 'nobody' is registered"):
        ga.ffi.ffi_call("nobody", [])()
    ga.ffi.register_ffi_target("test_axpy", axpy, api_version=0)
    with pytest.raises(NotImplementedError, match="attributes"):
        ga.ffi.ffi_call("test_axpy", ga.ShapeDtypeStruct((4,), "float32"))(scale=2)


@pytest.mark.on_cpu("NumPy takes the host's memory")
def test_dlpack():
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(ga.dlpack.from_dlpack(x), x)
    np.testing.assert_array_equal(np.from_dlpack(ga.dlpack.from_dlpack(gnp.array(x))), x)
    device = ga.devices()[0]
    there = ga.dlpack.from_dlpack(x, device=SingleDeviceSharding(device))
    assert there.devices() == {device}
    assert ga.dlpack.is_supported_dtype(np.float64) and ga.dlpack.is_supported_dtype("bool")
    assert not ga.dlpack.is_supported_dtype(gnp.float8_e5m2)
    with pytest.raises(TypeError, match="dtype=None"):
        ga.dlpack.is_supported_dtype(None)
    with pytest.raises(TypeError, match="__dlpack__"):
        ga.dlpack.from_dlpack([1, 2])


def test_logs(caplog):
    @ga.jit
    def f(x):
        ga.debug.log("x = {}, {y}", x, y=2 * x)
        return x

    with caplog.at_level(logging.INFO, "gpuarray.debug"):
        f(1.5)
        ga.effects_barrier()
    assert caplog.messages == ["x = 1.5, 3.0"]
    with pytest.raises(ValueError, match="Unused positional"):
        ga.debug.log("x", 1)


def test_gumbel_in_both_tails():
    """64 bits a number: the distribution function holds far out."""
    x = np.sort(np.asarray(ga.random.gumbel(ga.random.key(0), (200_000,), mode="highest")))
    for at in (-2.3, -1.0, 0.0, 2.0, 6.0, 9.0):
        expected = np.exp(-np.exp(-at))
        spread = np.sqrt(expected * (1 - expected) / x.size)
        assert abs((x <= at).mean() - expected) < 5 * spread
    assert np.isfinite(x).all() and np.unique(x).size > 0.95 * x.size
