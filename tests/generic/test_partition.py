"""Every primitive over eight devices: whatever the layout of its operands, the result is the same.

In: the samples of every primitive, and random ways to cut their operands along a mesh of 4 x 2.
Out: jitted and operation by operation, the values of one device. The reference is the same program
on one device, which other tests compare with NumPy.
"""

import zlib

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.core.avals import ShapedArray
from gpuarray.core.dtypes import KeyDtype
from gpuarray.core.primitive import Kind
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.device import default_place
from gpuarray.sharding import Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P
from tests.samples import Sample, samples, values
from tests.support.sampled import each_sample

pytestmark = pytest.mark.devices

#: Layouts tried for each sample.
TRIALS = 3
#: Not `rng_uniform`, which draws something else at every call.
SAMPLES = samples(
    lambda p: (
        p.kind not in (Kind.CALL, Kind.COLLECTIVE) and not p.effect and p.name != "rng_uniform"
    )
)


def mesh() -> Mesh:
    return Mesh(np.array(ga.devices()).reshape(4, 2), ("x", "y"))


def drawn_spec(rng: np.random.Generator, shape: tuple[int, ...]) -> P:
    """A random way to cut an array of this shape evenly."""
    cuts = {("x",): 4, ("y",): 2, ("x", "y"): 8, ("y", "x"): 8}
    parts: list = [None] * len(shape)
    free = {"x", "y"}
    for axis in rng.permutation(len(shape)):
        fitting = [n for n, c in cuts.items() if set(n) <= free and shape[axis] % c == 0]
        if fitting and shape[axis] and rng.random() < 0.8:
            names = fitting[rng.integers(len(fitting))]
            parts[axis] = names
            free -= set(names)
    return P(*parts)


def array_of(value: np.ndarray, aval: ShapedArray) -> ArrayImpl:
    return ArrayImpl(aval, default_place(), [value])


def assert_like(found, wanted, what: str) -> None:
    assert found.aval is wanted.aval, what
    a, b = np.asarray(found._value), np.asarray(wanted._value)
    if isinstance(found.dtype, KeyDtype):
        assert a.tobytes() == b.tobytes(), what
        return
    if a.dtype.kind not in "fcV":
        np.testing.assert_array_equal(a, b, err_msg=what)
        return
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    eps = float(ga.numpy.finfo(found.dtype).eps)
    a, b = a.astype(wide), b.astype(wide)
    # Sums of pieces are in another order: near in terms of the largest value.
    finite = np.abs(b[np.isfinite(b)])
    largest = finite.max() if finite.size else 0.0
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(a, b, rtol=64 * eps, atol=64 * eps * largest, err_msg=what)


@each_sample(SAMPLES)
def test_any_layout_gives_the_same(sample: Sample):
    prim, params = sample.primitive, sample.params
    rng = np.random.default_rng(zlib.crc32(str(sample).encode()))
    grid = mesh()
    plain = [array_of(v, a) for v, a in zip(values(sample), sample.avals, strict=True)]
    call = ga.jit(lambda *xs: prim.bind(*xs, **params))
    wanted = ga.tree.leaves(call(*plain))
    for trial in range(TRIALS):
        specs = [drawn_spec(rng, x.shape) for x in plain]
        cut = [ga.device_put(x, NamedSharding(grid, s)) for x, s in zip(plain, specs, strict=True)]
        if not cut:
            continue
        run = call if trial else lambda *xs: prim.bind(*xs, **params)
        for found, want in zip(ga.tree.leaves(run(*cut)), wanted, strict=True):
            assert_like(found, want, f"{specs} {'jitted' if trial else 'eager'}")


def test_something_is_cut():
    """The random layouts are not all whole, or nothing was tried."""
    rng = np.random.default_rng(0)
    assert sum(drawn_spec(rng, (8, 4)) != P(None, None) for _ in range(20)) > 12
