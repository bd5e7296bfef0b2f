"""What programs compute on a GPU that is not there: every primitive, and what the driver does with
memory, views, loops, libraries, keys, callbacks and other libraries' arrays.

In: one sample of every primitive, small programs, the stand-in for CuPy. Out: what the NumPy driver
gives, from kernels and routines and not from the host, but for what a table of the driver lists.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn, random
from gpuarray.backends.cuda import library
from gpuarray.config import config, strict
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.errors import FallbackError, FallbackWarning
from tests.fake_cupy import installed, runtime
from tests.generic.test_primitives import as_array, stored
from tests.samples import Sample, samples, values
from tests.support import simulated
from tests.support.nearness import assert_near
from tests.support.targets import plan_for

simulated.need_compiler()


@pytest.fixture(scope="module")
def gpu():
    """One GPU for all tests here; at the end nothing may be wrong, nor memory be taken."""
    with installed(seed=5) as world:
        yield world


def on_cpu(f, *args):
    """The leaves of a result as the CPU computes it."""
    with ga.default_device(ga.devices("cpu")[0]):
        return [np.asarray(x) for x in ga.tree.leaves(f(*map(gnp.asarray, args)))]


# ---- every primitive ----

#: Results that are not unique: signs, order, or any numbers at all.
MANY = {"eigh", "eig", "svd", "qr", "schur", "empty", "rng_uniform"}


def chosen() -> list[Sample]:
    """The first sample of each primitive with several elements in it, or with any."""
    found: dict[str, Sample] = {}
    listed = samples(lambda p: p.kind is not Kind.COLLECTIVE)
    for least in (2, 1):
        for sample in listed:
            if all(np.prod(shape) >= least for shape, _ in sample.operands):
                found.setdefault(sample.primitive.name, sample)
    return list(found.values())


@pytest.mark.parametrize("sample", chosen(), ids=str)
def test_primitive(gpu, sample):
    with ga.enable_x64(True) if sample.wide else contextlib.nullcontext():

        def f(*xs):
            out = sample.primitive.bind(*xs, **sample.params)
            return list(out) if sample.primitive.multiple_results else [out]

        def arrays() -> list:
            pairs = zip(values(sample), sample.avals, strict=True)
            return [as_array(x, a.dtype) for x, a in pairs]

        with ga.default_device(ga.devices("cpu")[0]):
            expected = [stored(x) for x in f(*arrays())]

        with strict(True):
            found = ga.jit(f)(*arrays())
        for x, e in zip(found, expected, strict=True):
            assert x.devices() == set(ga.devices("cuda"))
            if sample.primitive.name not in MANY:
                assert_near(stored(x), e, units=4096)


# ---- programs ----

A = np.arange(24, dtype=np.float32).reshape(4, 6)


def pieces(x):
    return x.reshape(6, 4), x.T, x[1:3], x[:, ::2], x[0], x[1:2].reshape(6) + 1


def empty_and_single(x):
    return x[:0].sum(0), x[:0] * 2, gnp.zeros((0, 3)).reshape(3, 0), x[0, 0] + 1


def scanned(x):
    there = lax.scan(lambda c, r: (c + r, c * 2), gnp.zeros(6), x)
    back = lax.scan(lambda c, r: (c + r.sum(), c * r[0]), 0.0, x, reverse=True)
    return there, back


def looped(x):
    doubled = lax.while_loop(lambda c: c.sum() < 1000, lambda c: c * 2, x)
    updated = lax.fori_loop(0, 5, lambda i, c: c.at[i % 4].set(c.sum()), x)
    mapped = ga.vmap(
        lambda r: lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 2 + c.mean(), r)
    )(x + 1)
    return doubled, updated, mapped


def branched(x):
    pick = [lambda x: x.sum(0), lambda x: x[0] * 2, lambda x: gnp.sort(x[1])]
    return [lax.switch(gnp.int32(i), pick, x) for i in (-1, 1, 7)]


def keys(x):
    one, two = random.split(random.key(3))
    again = random.fold_in(random.PRNGKey(1), 7)
    return random.normal(one, (5,)), random.bits(two, (3,)), random.uniform(again, (2, 3))


def products(x):
    low = x.astype("bfloat16")
    cubes = x.reshape(2, 2, 6)
    return (
        x @ x.T, x.T @ x, x[0] @ x[1], x @ x[0], low @ low.T, x.astype("float16") @ x[0],
        gnp.einsum("bij,bkj->bik", cubes, cubes), x.astype("int32") @ x.T.astype("int32"),
        (x > 3) @ (x.T > 3), x[:, :0] @ x.T[:0],
    )  # fmt: skip


def convolved(x):
    ones = gnp.ones((2, 1, 3, 3))
    turned = lax.conv_general_dilated(
        x.reshape(1, 3, 2, 4), gnp.ones((2, 2, 4, 4)), (1, 2), [(1, 1), (2, 0)], (2, 1), (1, 1),
        ("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    return lax.conv_general_dilated(x.reshape(1, 1, 4, 6), ones, (1, 2), "SAME"), turned


def ordered(x):
    low = (x % 5 - 2).astype("bfloat16")
    return (
        gnp.sort(x, 0),
        gnp.argsort(-x, 1),
        lax.top_k(x, 3),
        lax.sort([x % 3, x], num_keys=2),
        gnp.sort(low),
    )


def solved(x):
    a = x @ x.T + 5 * gnp.eye(4)
    return (
        gnp.linalg.cholesky(a / 100),
        gnp.linalg.solve(a / 100, x),
        gnp.fft.rfft(x),
        gnp.linalg.svd(x)[1],
    )


def derived(x):
    loss = lambda x: ga.nn.softmax(x @ x.T).sum() + gnp.tanh(x).mean()
    carried = lambda x: lax.scan(lambda c, r: (gnp.sin(c + r), c * 2), gnp.zeros(6), x)[1].sum()
    return ga.grad(loss)(x / 24), ga.grad(carried)(x)


def asked(x):
    twice = ga.pure_callback(
        lambda v: np.asarray(v) * 2, ga.ShapeDtypeStruct(x.shape, x.dtype), x + 1
    )
    return twice - 1


PROGRAMS = (
    pieces, empty_and_single, scanned, looped, branched, keys, products, convolved, ordered, solved,
    derived, asked,
)  # fmt: skip


@pytest.mark.parametrize("how", ["recorded", "jitted", "unfused"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_program(gpu, program, how):
    expected = on_cpu(program, A)
    f = ga.jit(program) if how == "jitted" else program
    with strict(True), ga.fusion(how != "unfused"):
        found = ga.tree.leaves(f(gnp.asarray(A)))
    for x, e in zip(found, expected, strict=True):
        assert x.devices() == set(ga.devices("gpu"))
        assert_near(np.asarray(x), e, units=4096)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_products_are_rounded_to_tf32_unless_refused(gpu, dtype):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 48)) + (1j * rng.normal(size=(40, 48)) if dtype is np.complex64 else 0)
    x = x.astype(dtype)
    exact = x.astype(np.complex128) @ x.T
    worst = lambda made: abs(np.asarray(made) - exact[:, : made.shape[1]]).max() / abs(exact).max()
    with ga.default_matmul_precision(None):
        assert 1e-5 < worst(ga.jit(lambda x: x @ x.T)(x)) < 1e-2
        # Reading the matrix takes longer than any product with a vector.
        assert worst(ga.jit(lambda x: x @ x[:1].T)(x)) < 1e-5
    assert worst(ga.jit(lambda x: lax.dot(x, x.T, precision="highest"))(x)) < 1e-5


# ---- devices and memory ----


@pytest.mark.parametrize("most", [232448, 12 << 10])
def test_launches_set_shared_memory_aside(most, monkeypatch):
    """As much as a row needs, or as a GPU has; launches of a graph too."""
    small = {"threads_held": 128, "row_vectors": 1, "row_bytes": 32, "row_shared_bytes": 64}
    plan_for(monkeypatch, shared_held=24 << 10, launch_bytes=1 << 40, graph_kernels=4, **small)
    monkeypatch.setattr(runtime, "SHARED", most)

    def f(x):
        for _ in range(4):
            x = nn.softmax(x, -1).T.copy().T * 3
        return x

    x = np.random.default_rng(0).normal(size=(2, 4800)).astype("f4")
    expected = on_cpu(f, x)
    with installed(seed=3):
        wrapped = ga.jit(f)
        for _ in range(3):
            (found,) = [np.asarray(wrapped(gnp.asarray(x)))]
            np.testing.assert_allclose(found, expected[0], rtol=1e-4)
        assert wrapped.lower(x).compile().cuda_source().count("GA_ROOM(room, ") > 1


def test_devices_are_named_as_jax_names_them(gpu):
    (device,) = ga.devices()
    assert ga.devices("gpu") == ga.devices("cuda") == [device]
    assert (repr(device), str(device), device.platform) == ("CudaDevice(id=0)", "cuda:0", "gpu")
    assert ga.default_backend() == "gpu" and "GPU" in device.device_kind


def test_arrays_move_between_platforms(gpu):
    x = gnp.asarray(A)
    there = ga.device_put(x, ga.devices("cpu")[0])
    back = ga.device_put(there, "cuda")
    assert (there.device.platform, back.device.platform) == ("cpu", "gpu")
    assert (there + 1).device.platform == "cpu" and (back + x).device.platform == "gpu"
    for name in ("cuda", "gpu"):
        assert any(a is back for a in ga.live_arrays(name))
    with pytest.raises(RuntimeError, match="Unknown backend tpu"):
        ga.live_arrays("tpu")
    with pytest.raises(ValueError, match="Use 'cuda' or 'rocm'"):
        ga.lax.platform_dependent(x, gpu=gnp.sin)
    assert ga.lax.platform_dependent(x, cuda=lambda x: x[0], cpu=lambda x: x).shape == A.shape[1:]
    moved = ga.device_put(there.sum(), "cuda")
    np.testing.assert_array_equal(np.asarray(back + moved), A + A.sum())
    with pytest.raises(ValueError, match="incompatible devices"):
        np.asarray(there + back)


def test_a_donated_buffer_is_written_over(gpu):
    f = ga.jit(lambda a, b: a * 2 + b, donate_argnums=0)
    for held in (False, True):
        a = gnp.asarray(A) + 1
        address = a.block_until_ready()._buffer().pointer
        keep = ga.device_put(a, ga.devices()[0]) if held else None
        out = f(a, gnp.asarray(A))
        assert a.is_deleted()
        assert (out.unsafe_buffer_pointer() == address) == (not held)
        np.testing.assert_array_equal(np.asarray(out), (A + 1) * 2 + A)
        if keep is not None:  # its memory was somebody else's too
            np.testing.assert_array_equal(np.asarray(keep), A + 1)


def test_memory_is_told_of(gpu):
    (device,) = ga.devices()
    before = ga.memory_stats(device)
    x = gnp.ones(1 << 16).block_until_ready()
    after = ga.memory_stats(device)
    assert device.memory_stats()["bytes_in_use"] == after["bytes_in_use"]
    assert after["bytes_in_use"] - before["bytes_in_use"] >= x.nbytes
    assert after["bytes_limit"] > after["bytes_in_use"] <= after["peak_bytes_in_use"]
    del x
    assert ga.memory_stats(device)["bytes_in_use"] < after["bytes_in_use"]


def test_results_are_waited_for_in_any_way(gpu):
    f = ga.jit(lambda x: gnp.sin(x) + 1)
    x = gnp.asarray(A)
    f(x).block_until_ready()
    y = f(x)
    y.is_ready()
    y.copy_to_host_async()
    assert y.block_until_ready().is_ready()
    np.testing.assert_allclose(np.asarray(y), np.sin(A) + 1, 1e-6)


def test_other_libraries_share_the_memory(gpu):
    import cupy

    x = gnp.asarray(A) * 2
    assert x.__dlpack_device__() == (2, 0)
    theirs = cupy.from_dlpack(x)
    assert theirs.data.ptr == x.unsafe_buffer_pointer()
    ours = gnp.from_dlpack(theirs)
    assert ours.unsafe_buffer_pointer() == theirs.data.ptr
    interface = x.__cuda_array_interface__
    assert (interface["shape"], interface["typestr"]) == ((4, 6), "<f4")
    assert interface["data"][0] == x.unsafe_buffer_pointer()
    np.testing.assert_array_equal(np.asarray(ours + 1), A * 2 + 1)
    np.testing.assert_array_equal(np.from_dlpack(ga.device_put(x, "cpu")), A * 2)
    del theirs
    assert not hasattr(ga.device_put(x, "cpu"), "__cuda_array_interface__")


# ---- kernels that users wrote ----

AXPY = """
extern "C" __global__ void __launch_bounds__(128)
axpy(const T* __restrict__ x, const T* y,
     T* out) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < OUT0_SIZE) out[i] = A * x[i] + y[i];
}
"""
TYPES = {
    "int8": "signed char",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "int64": "long long",
    "float32": "float",
}


@pytest.mark.parametrize("dtype", list(TYPES))
def test_kernels_of_users(gpu, dtype):
    """Neighbouring bytes are written by different threads: that is no race."""
    f = ga.cuda_op(
        AXPY.replace("T*", f"{TYPES[dtype]}*"),
        "axpy",
        out=lambda x, y, A: x,
        block=128,
        numpy=lambda x, y, A: (A * x + y).astype(x.dtype),
    )
    with ga.enable_x64(True):
        x = np.arange(300).astype(dtype) % 19
        for donated in ((), (0,)):
            twice = ga.jit(lambda v: f(f(v + 1, v, A=2), v, A=3), donate_argnums=donated)
            found = twice(gnp.asarray(x) + 0)
            np.testing.assert_array_equal(np.asarray(found), (3 * (2 * (x + 1) + x) + x))
    assert not gpu.faults


# ---- what is said ----


def test_what_has_no_kernel_is_refused_or_told(gpu):
    mine = Primitive("mine", aval=lambda x: x, numpy=np.flip, register=False)
    x = gnp.asarray(A)
    with strict(True), pytest.raises(FallbackError, match="NumPy runs mine on the host"):
        np.asarray(mine.bind(x))
    with strict(False), pytest.warns(FallbackWarning, match="NumPy runs mine on the host"):
        found = np.asarray(mine.bind(x + 0))
    np.testing.assert_array_equal(found, A[::-1, ::-1])


@pytest.mark.parametrize("table", ["ROUTINES", "PARTS"])
def test_a_mistake_in_a_rule_is_no_refusal(gpu, table, monkeypatch):
    """Operands that a library does not take are refused by NoKernel; any other error is told."""

    def rule(*operands, **params):
        return operands + 1  # type: ignore[operator]

    monkeypatch.delitem(library.ROUTINES, "cholesky", raising=False)
    monkeypatch.setitem(getattr(library, table), "cholesky", rule)
    with pytest.raises(TypeError, match="can only concatenate tuple"):
        ga.jit(gnp.linalg.cholesky)(np.eye(3, dtype="f4"))


def test_nans_are_found(gpu):
    with ga.debug_nans(True), pytest.raises(FloatingPointError, match="log"):
        ga.jit(lambda x: gnp.log(x))(gnp.asarray(A) - 1)


def test_source_and_machine_code_are_shown(gpu, capsys, tmp_path):
    config.update("debug", 4)
    config.update("dump", str(tmp_path))
    ga.jit(lambda x: gnp.cos(x) * 1.25)(gnp.asarray(A))
    text = capsys.readouterr().out
    assert "# launch k0_map: cos, mul" in text and "__global__" in text
    assert {p.suffix for p in tmp_path.iterdir()} >= {".cu", ".cubin", ".py"}


def test_without_cupy_the_reason_is_told():
    program = """if True:
        import sys
        sys.modules["cupy"] = None  # as if it were not installed
        import gpuarray as ga
        for wanted in ("gpu", None):
            try:
                ga.devices(wanted)
            except ga.errors.DeviceError as error:
                print(error)
        try:
            ga.devices("abacus")
        except RuntimeError as error:
            print(error)
    """
    environment = os.environ | {"GPUARRAY_PLATFORMS": "cuda"}
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    first, second, third = said.stdout.splitlines()
    assert "gpuarray-runtime[cuda13]" in first and "CuPy" in first
    assert "GPUARRAY_PLATFORMS" in second and "gpuarray-runtime[cuda12]" in second
    assert "Available backends are ['cpu', 'simulator']. 'gpu' cannot be used here: CuPy" in third


def test_an_unknown_platform_is_told_what_there_is(gpu):
    with pytest.raises(RuntimeError, match=r"backend abacus. .* \['cpu', 'gpu', 'simulator'\]"):
        ga.devices("abacus")
