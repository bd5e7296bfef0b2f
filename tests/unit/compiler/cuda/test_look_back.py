"""Scans in one kernel, whose blocks look back at what those before them tell.

In: one or a few long rows, of lengths that fill no tile, from either end, with what is done before
and behind. Out: NumPy's values, the same bits in every order of threads and blocks and at every
launch, from the simulator with its checks; words that are left as they were found.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.compiler.cuda.emit import emit
from tests import golden
from tests.support import simulated
from tests.support.targets import plan_for

simulated.need_compiler()


@pytest.fixture
def short(monkeypatch):
    """Tiles of 512 elements, so that a short row has many."""
    plan_for(monkeypatch, scan_row=1 << 10, scan_threads=64, scan_tile_items=8)


def simulate(function, *inputs) -> np.ndarray:
    made = simulated.built(ga.jit(function).lower(*inputs).jaxpr)
    (first,) = simulated.run(made, inputs)
    for seed in (1, 2, 3):  # the same workspace again, and other orders
        assert simulated.run(made, inputs, seed)[0].tobytes() == first.tobytes()
    return first


def test_it_is_one_kernel_that_reads_once():
    (group,) = ga.jit(gnp.cumsum).lower(golden.shape("float32", 1 << 26)).plan.on_device.groups
    kernel = emit(group)
    assert "look back" in kernel.text and kernel.text.count("ga_load<4>(in0 + ") == 1
    assert kernel.traffic.read[kernel.inputs[0]] == 4 << 26
    assert kernel.traffic.total < 1.01 * (8 << 26)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("length", [2048, 2049, 4001, 20_000, 150_004])
@pytest.mark.parametrize("rows", [1, 3])
def test_sums(length, rows):
    x = np.random.default_rng(length).integers(-50, 50, (rows, length)).astype("int32")
    found = simulate(lambda x: gnp.cumsum(x, 1), x)
    assert np.array_equal(found, x.cumsum(1, dtype="int32"))


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "uint16"])
def test_dtypes(dtype, reverse):
    x = np.random.default_rng(0).integers(0, 3, 9004).astype(np.dtype(dtype))
    found = simulate(lambda x: lax.cummax(x - x[0] + 1, reverse=reverse), x)
    y = (x - x[0] + 1)[:: -1 if reverse else 1]
    want = np.maximum.accumulate(y.astype("f8"))[:: -1 if reverse else 1]
    assert np.array_equal(found.astype("f8"), want)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("reverse", [False, True])
def test_floats_with_what_is_around_them(reverse):
    x = np.random.default_rng(0).normal(size=(2, 30_000)).astype("f4")
    found = simulate(lambda x: gnp.exp(-lax.cumsum(x * x, 1, reverse=reverse) / 9000) + x, x)
    way = slice(None, None, -1 if reverse else 1)
    sums = (x.astype("f8") ** 2)[:, way].cumsum(1)[:, way]
    np.testing.assert_allclose(found, np.exp(-sums / 9000) + x, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("short")
def test_what_is_no_number():
    x = np.zeros(5000, "f4")
    x[:] = -0.0
    assert np.signbit(simulate(gnp.cumsum, x)).all()
    x[700], x[4000] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(simulate(gnp.cumsum, x), np.cumsum(x))


def test_wide_partial_results_keep_two_kernels():
    with ga.enable_x64(True):
        plan = ga.jit(gnp.cumsum).lower(golden.shape("float64", 1 << 24)).plan.on_device
    assert len(plan.groups) == 2
