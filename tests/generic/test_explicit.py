"""Every primitive over a mesh with Explicit axes: types say how results lie, or it is an error.

In: the samples of every primitive, and random ways to cut their operands along a mesh of 4 x 2, of
which all axes are Explicit, one is Auto, or to which Explicit axes of one device are added.
Out: the values of one device, laid as the types say that tracing found; where a layout does not
follow, a ShardingTypeError at the call, and `auto_axes` as the way out. The reference is the same
program on one device, which other tests compare with NumPy.
"""

import zlib

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.core.layout import cuts_of, in_space
from gpuarray.core.mesh import cuts_along
from gpuarray.errors import ShardingTypeError
from gpuarray.sharding import AxisType, Mesh, NamedSharding, auto_axes
from gpuarray.sharding import PartitionSpec as P
from tests.generic.test_partition import SAMPLES, array_of, assert_like, drawn_spec
from tests.samples import Sample, values

pytestmark = pytest.mark.devices


EXPLICIT, AUTO = AxisType.Explicit, AxisType.Auto

#: The types of the axes; those of one device come last.
MESHES = {
    "explicit": ((4, 2), (EXPLICIT,) * 2),
    "mixed": ((4, 2), (EXPLICIT, AUTO)),
    "mixed, the other one": ((4, 2), (AUTO, EXPLICIT)),
    "of one device": ((4, 2, 1), (EXPLICIT, EXPLICIT, EXPLICIT)),
}


def mesh(kind: str) -> Mesh:
    sizes, types = MESHES[kind]
    return Mesh(np.array(ga.devices()).reshape(sizes), ("x", "y", "z")[: len(sizes)], types)


def assert_lies_as_typed(array) -> None:
    """The type of an array and the layout of its pieces say the same."""
    cuts = cuts_along(array.sharding.mesh.abstract_mesh, array.sharding.spec, array.ndim)
    assert (cuts_of(array.aval.layout) or ((),) * array.ndim) == cuts


def without_layout(array):
    """The same values on one device, whose type says nothing of a layout."""
    kept = in_space(None, array.aval.memory_space)
    return array_of(np.asarray(array._value), array.aval.update(layout=kept))


def _name(sample: Sample) -> str:
    return sample.primitive.name


# The first samples of each primitive always; the others take a minute more.
_seen: dict[str, int] = {}
PARAMS = []
for _sample in SAMPLES:
    _seen[_name(_sample)] = _seen.get(_name(_sample), 0) + 1
    for _kind in MESHES:
        _often = 2 if _kind == "explicit" else 1
        _marks = [pytest.mark.slow] if _seen[_name(_sample)] > _often else []
        PARAMS.append(pytest.param(_sample, _kind, marks=_marks, id=f"{_sample} {_kind}"))


def named_alone(spec: P, rng, names) -> P:
    """A spec with an axis of one device for some axis of the value."""
    parts = [*spec.partitions]
    if parts and "z" in names:
        d = rng.integers(len(parts))
        part = parts[d] if isinstance(parts[d], tuple) else (parts[d],) if parts[d] else ()
        parts[d] = (*part, "z")
    return P(*parts)


@pytest.mark.parametrize(("sample", "kind"), PARAMS)
def test_types_say_how_results_lie(sample: Sample, kind: str):
    prim, params = sample.primitive, sample.params
    rng = np.random.default_rng(zlib.crc32(str(sample).encode()) + 1)
    grid = mesh(kind)
    fun = lambda *xs: prim.bind(*xs, **params)
    with ga.enable_x64(sample.wide):
        plain = [array_of(v, a) for v, a in zip(values(sample), sample.avals, strict=True)]
        wanted = ga.tree.leaves(ga.jit(fun)(*plain))
        specs = [named_alone(drawn_spec(rng, x.shape), rng, grid.axis_names) for x in plain]
        cut = [ga.device_put(x, NamedSharding(grid, s)) for x, s in zip(plain, specs, strict=True)]
        if not cut:
            return
        for x in cut:
            assert_lies_as_typed(x)
        what = f"{prim.name} {specs}"
        try:
            found = ga.tree.leaves(fun(*cut))
        except ShardingTypeError:
            # So it is when it is traced; the compiler decides where the user lets it.
            with pytest.raises(ShardingTypeError):
                ga.jit(fun)(*cut)
            decided = auto_axes(fun, out_sharding=NamedSharding(grid, P()))
            for x, want in zip(ga.tree.leaves(decided(*cut)), wanted, strict=True):
                assert_lies_as_typed(x)
                assert_like(without_layout(x), want, what)
            return
        typed = [v.aval for v in ga.make_jaxpr(fun)(*cut).jaxpr.outvars]
        jitted = ga.tree.leaves(ga.jit(fun)(*cut))
        for x, y, aval, want in zip(found, jitted, typed, wanted, strict=True):
            assert_lies_as_typed(x)
            assert_lies_as_typed(y)
            assert x.aval is y.aval is aval, what
            assert_like(without_layout(x), want, what)
            assert_like(without_layout(y), want, what)


#: Several operations in a row, of which some leave parts of an axis that are no even pieces.
CHAINS = {
    "roll": lambda a: gnp.roll(a, 3, 0),
    "diff": lambda a: gnp.diff(a, axis=0),
    "scan": lambda a: lax.associative_scan(gnp.maximum, a),
    "thirds": lambda a: a[1::3] * 2,
    "reflected": lambda a: gnp.pad(a, ((3, 5), (1, 1)), mode="reflect"),
    "smoothed": lambda a: (a[:-2] + a[1:-1] + a[2:])[1:-1] / 3,
    "reversed": lambda a: a[::-1] - a,
    "softmax": lambda a: ga.nn.softmax(a, 0) + ga.nn.softmax(a, 1),
    "added to": lambda a: a.at[gnp.arange(10) * 3].add(1.0),
    "variance": lambda a: a.var(0) + a.mean(0),
}


@pytest.mark.parametrize("kind", MESHES)
@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_operations(name: str, kind: str):
    fun, grid = CHAINS[name], mesh(kind)
    values = np.random.default_rng(3).standard_normal((64, 16)).astype(np.float32)
    want = np.asarray(fun(gnp.asarray(values)))
    with ga.set_mesh(grid):
        for spec in (P("x"), P("y", "x"), P(("x", "y")), P(None, "x"), P(("y", "x"))):
            a = ga.device_put(values, NamedSharding(grid, spec))
            for how in (lambda f: f, ga.jit):
                try:
                    out = how(fun)(a)
                except ShardingTypeError:
                    out = auto_axes(fun, out_sharding=P())(a)
                assert_lies_as_typed(out)
                np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)
