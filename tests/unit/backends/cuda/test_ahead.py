"""Programs compiled where no GPU is: a process that starts with their folder compiles nothing."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.backends.cuda import cubins, nvrtc, sources
from gpuarray.config import config
from gpuarray.errors import CompileError
from tests.fake_cupy import installed
from tests.fake_cupy import kernels as stand_in
from tests.support.nvrtc import needed


@pytest.fixture(autouse=True)
def folder(tmp_path):
    """An empty folder of compiled code."""
    tmp_path.chmod(0o700)
    config.update("cache_dir", str(tmp_path))
    fresh()
    yield tmp_path / "cubins"
    fresh()


def fresh():
    """As in a new process."""
    cubins.forget()
    sources._seen.clear()
    ga.clear_caches()


@pytest.fixture
def compiler(monkeypatch):
    """The compiler of the stand-in in the place of NVRTC; the texts it compiled."""
    texts = []

    def compile(source, arch, options=()):
        texts.append(source)
        binary = stand_in._compiled(source, (f"--gpu-architecture={arch}",))
        return nvrtc.CompileResult(binary, "", 0.0, {})

    monkeypatch.setattr(nvrtc, "available", lambda: True)
    monkeypatch.setattr(nvrtc, "version", lambda: stand_in.VERSION)
    monkeypatch.setattr(nvrtc, "compile", compile)
    return texts


W = np.linspace(-1, 1, 30, dtype="float32").reshape(5, 6)


def loops(x):
    def body(carry, row):
        return gnp.tanh(carry + row), (carry * row).sum()

    with ga.named_scope("loops"):
        carry, sums = lax.scan(body, x[0], x @ (x.T @ x))
    return lax.cond(sums.sum() > 0, gnp.sin, gnp.sort, carry), nn.softmax(x)


def recurrent(x):
    """A loop of products, whose turns a GPU records."""
    w = x.T @ x / 9
    return lax.fori_loop(0, 8, lambda i, c: gnp.tanh(c @ w) / 2 + c.sum() / 99, x)


def constants(x):
    return x * W + gnp.cumsum(x, axis=1)


def random(x):
    return x + ga.random.normal(ga.random.key(3), x.shape)


def written(x):
    source = """extern "C" __global__ void twice(const float* x, float* out) {
        const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < OUT0_SIZE) out[i] = 2 * x[i];
    }"""
    twice = ga.cuda_op(source, "twice", out=lambda x: x, numpy=lambda x: 2 * x)
    return twice(x) + 1


@pytest.mark.parametrize(
    ("f", "donates"),
    [(loops, False), (recurrent, False), (constants, True), (random, True), (written, False)],
)
def test_a_process_that_starts_with_the_folder_compiles_nothing(compiler, folder, f, donates):
    jitted = ga.jit(f, donate_argnums=0 if donates else ())
    done = ga.compile_for(jitted, ga.ShapeDtypeStruct((5, 6), gnp.float32), arch="sm_90")
    assert done.folder == folder and done.arch == "sm_90" and done.kernels >= 1
    assert done.compiled == len(compiler) == len(list(folder.iterdir())) >= 1 and done.found == 0
    expected = [np.asarray(x) for x in ga.tree.leaves(f(gnp.asarray(W)))]
    fresh()
    with installed() as world:
        x = ga.device_put(W)
        for found, right in zip(ga.tree.leaves(jitted(x)), expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)
        assert world.counts["compile"] == 0 and world.counts["launch"] > 0
        del x, found
        fresh()
    fresh()
    again = ga.compile_for(jitted, ga.ShapeDtypeStruct((5, 6), gnp.float32), arch="sm_90")
    assert (again.compiled, again.found) == (0, done.compiled)
    # Another architecture is another code.
    assert ga.compile_for(jitted, gnp.asarray(W), arch="sm_80").compiled == done.compiled


def test_lengths_that_were_compiled_together(compiler, folder):
    """Whichever comes first in the process that starts with the folder."""
    for rows in (2001, 2003):
        ga.compile_for(nn.softmax, ga.ShapeDtypeStruct((rows, 512), gnp.float32))
    count = len(compiler)
    for rows in (2003, 2005, 2001):
        fresh()
        done = ga.compile_for(nn.softmax, ga.ShapeDtypeStruct((rows, 512), gnp.float32))
        assert done.compiled == 0
    assert count == 2


def test_what_cannot_be_compiled(monkeypatch, compiler):
    x = ga.ShapeDtypeStruct((3,), gnp.float32)
    with pytest.raises(TypeError, match="function"):
        ga.compile_for(3, x)  # pyright: ignore[reportArgumentType]
    for arch in ("9.0", "compute_90", 90, "sm_9"):
        with pytest.raises(ValueError, match="sm_90"):
            ga.compile_for(gnp.sin, x, arch=arch)  # pyright: ignore[reportArgumentType]
    config.update("enable_compilation_cache", False)
    with pytest.raises(ValueError, match="enable_compilation_cache"):
        ga.compile_for(gnp.sin, x)
    config.update("enable_compilation_cache", True)
    monkeypatch.setattr(nvrtc, "available", lambda: False)
    with pytest.raises(CompileError, match="nvidia-cuda-nvrtc"):
        ga.compile_for(gnp.sin, x)


@needed
def test_with_the_real_compiler(folder):
    done = ga.compile_for(nn.softmax, ga.ShapeDtypeStruct((64, 64), gnp.float32), arch="sm_90")
    (path,) = folder.iterdir()
    assert done.compiled == 1 and path.read_bytes().startswith(b"\x7fELF")
    with pytest.raises(CompileError, match="sm_33"):
        ga.compile_for(nn.softmax, ga.ShapeDtypeStruct((64, 64), gnp.float32), arch="sm_33")
