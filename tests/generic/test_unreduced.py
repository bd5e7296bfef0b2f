"""Every primitive of operands that are unreduced: it gives the right value, or it is an error.

In: the samples of every primitive, with operands of which the devices hold terms of a sum. Out:
the values of one device after `reshard`, or an error at the call; and always the right values in a
program that is derived from a user's, where terms are summed up first. The reference is the same
program on one device, which other tests compare with NumPy.
"""

import functools
import zlib

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.core import dtypes
from gpuarray.core.layout import unclear_is_whole, unreduced_of
from gpuarray.core.primitive import Kind
from gpuarray.errors import ShardingTypeError
from gpuarray.primitives.sums import FACTORS, LINEAR_IN
from gpuarray.sharding import AxisType, Mesh, NamedSharding, reshard
from gpuarray.sharding import PartitionSpec as P
from tests.generic.test_explicit import without_layout
from tests.generic.test_partition import SAMPLES, array_of, assert_like
from tests.samples import Sample, values

pytestmark = pytest.mark.devices


@functools.cache
def mesh() -> Mesh:
    return Mesh(np.array(ga.devices()).reshape(4, 2), ("x", "y"), (AxisType.Explicit,) * 2)


def in_terms(x: np.ndarray, rng: np.random.Generator):
    """An array of which each element is on one device along `x`, and zero on the others."""
    holder = rng.integers(4, size=x.shape)
    terms = np.stack([np.where(holder == i, x, np.zeros((), x.dtype)) for i in range(4)])
    stacked = ga.device_put(terms, NamedSharding(mesh(), P("x")))
    return ga.shard_map(
        lambda v: v.reshape(v.shape[1:]),
        mesh=mesh(),
        in_specs=P("x"),
        out_specs=P(unreduced={"x"}),
        check_vma=False,
    )(stacked)


def summed(x):
    """The value of an array, as one on one device whose type says nothing of a layout."""
    kind = x.sharding.memory_kind
    return without_layout(reshard(x, NamedSharding(mesh(), P(), memory_kind=kind)))


# One sample of each primitive always, of elementwise ones a tenth; the others take some minutes.
_seen: set[str] = set()
PARAMS = []
for _sample in SAMPLES:
    _prim = _sample.primitive
    _first = _prim.name not in _seen and any(a.size > 1 for a in _sample.avals)
    if _first:
        _seen.add(_prim.name)
        _plain = _prim.kind is Kind.POINTWISE and _prim.name not in (*LINEAR_IN, *FACTORS)
        _first = not _plain or zlib.crc32(_prim.name.encode()) % 10 == 0
    PARAMS.append(
        pytest.param(_sample, marks=[] if _first else [pytest.mark.slow], id=str(_sample))
    )


@pytest.mark.parametrize("sample", PARAMS)
def test_right_or_an_error(sample: Sample):
    prim, params = sample.primitive, sample.params
    rng = np.random.default_rng(zlib.crc32(str(sample).encode()) + 2)
    fun = lambda *xs: prim.bind(*xs, **params)
    with ga.enable_x64(sample.wide):
        # A sum of zeros has no sign.
        signed = lambda v: dtypes.kind_of(np.asarray(v).dtype) in "fc"
        given = [v + np.zeros((), v.dtype) if signed(v) else v for v in values(sample)]
        if prim.name in FACTORS:
            # A device may have nothing of an element: times infinity or over zero it is no number.
            given = [np.where(np.isfinite(v) & (v != 0), v, np.ones((), v.dtype)) for v in given]
        fit = [i for i, a in enumerate(sample.avals) if dtypes.kind_of(a.dtype) in "iufc"]
        if not fit:
            return
        plain = [array_of(v, a) for v, a in zip(given, sample.avals, strict=True)]
        wanted = ga.tree.leaves(ga.jit(fun)(*plain))
        for some in ([int(rng.choice(fit))], fit)[: 1 + (len(fit) > 1)]:
            xs = list(plain)
            for i in some:
                x = in_terms(np.asarray(given[i]), rng)
                xs[i] = array_of_type(x, sample.avals[i])
                assert unreduced_of(xs[i].aval.layout) == {"x"}
            what = f"{prim.name}, operands {some} unreduced"
            try:
                found = ga.tree.leaves(ga.jit(fun)(*xs))
            except (ShardingTypeError, NotImplementedError):
                with pytest.raises((ShardingTypeError, NotImplementedError)):
                    fun(*xs)

                def derived(*xs):
                    with unclear_is_whole():
                        return fun(*xs)

                found = ga.tree.leaves(ga.jit(derived)(*xs))
            for y, want in zip(found, wanted, strict=True):
                assert_like(summed(y), want, what)


def array_of_type(x, aval):
    """The same array with the weak type of an aval."""
    x.aval = x.aval.update(weak_type=aval.weak_type)
    return x
