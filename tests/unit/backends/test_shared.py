"""Collectives between devices of one memory: what `vmap` makes of them, for each group."""

import functools

import numpy as np
import pytest

import gpuarray as ga
from gpuarray import lax
from gpuarray.backends.shared import SharedMemory, groups_of
from gpuarray.core.axes import NamedAxis, named_axes
from gpuarray.core.graph import Eqn
from gpuarray.primitives.collective.ops import all_gather_p

SIZES = {"x": 2, "y": 3}


def equation(fun, value) -> Eqn:
    """The collective that a function binds, along an axis of some length."""
    with named_axes({n: NamedAxis(s) for n, s in SIZES.items()}):
        graph = ga.make_jaxpr(fun)(value).jaxpr
    (eqn,) = graph.eqns
    return eqn


CASES = {
    "psum": lambda n: lambda x: lax.psum(x, n),
    "pmax": lambda n: lambda x: lax.pmax(x, n),
    "pmin": lambda n: lambda x: lax.pmin(x, n),
    "gather": lambda n: lambda x: lax.all_gather(x, n),
    "gather tiled": lambda n: lambda x: lax.all_gather(x, n, axis=1, tiled=True),
    "scatter": lambda n: lambda x: lax.psum_scatter(x, n, scatter_dimension=1, tiled=True),
    "to_all": lambda n: lambda x: lax.all_to_all(x, n, 1, 0, tiled=True),
    "permute": lambda n: lambda x: lax.ppermute(x, n, [(0, 1), (1, 0)]),
    "partly": lambda n: lambda x: lax.ppermute(x, n, [(1, 0)]),
}


@pytest.mark.parametrize("shape", [(4, 6), (64, 96)], ids=["stacked", "added"])
@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize("case", CASES)
def test_each_group_gets_what_vmap_gives(case, name, shape):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, *shape)).astype(np.float32)
    fun = CASES[case](name)
    found = SharedMemory(SIZES)(equation(fun, values[0]), [[v] for v in values])
    for group in groups_of(SIZES, (name,)):
        wanted = np.asarray(ga.vmap(fun, axis_name=name)(values[group]))
        for device, want in zip(group, wanted, strict=True):
            np.testing.assert_allclose(found[device][0], want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64", "float16"])
@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_scattered_sum_loses_its_axis(axis, name, dtype):
    shape = [96, 96]
    shape[axis] = SIZES[name]
    values = np.arange(6 * 96 * SIZES[name]).reshape(6, *shape).repeat(24, 2 - axis) % 13
    values = values.astype(dtype)
    assert values[0].size >= 4096
    eqn = equation(lambda x: lax.psum_scatter(x, name, scatter_dimension=axis), values[0])
    found = SharedMemory(SIZES)(eqn, [[v] for v in values])
    for group in groups_of(SIZES, (name,)):
        for i, device in enumerate(group):
            got = found[device][0]
            np.testing.assert_array_equal(got, values[group].sum(0).take(i, axis))
            assert got.dtype == dtype


def test_several_names_are_one_axis_with_the_first_major():
    values = np.arange(6, dtype=np.float32)
    for names, order in ((("x", "y"), range(6)), (("y", "x"), (0, 3, 1, 4, 2, 5))):
        params = {"all_gather_dimension": 0, "axis_index_groups": None, "tiled": False}
        gather = functools.partial(all_gather_p.bind, axis_name=names, axis_size=6, **params)
        eqn = equation(gather, values[0])
        found = SharedMemory(SIZES)(eqn, [[v] for v in values])
        for row in found:
            np.testing.assert_array_equal(row[0], values[list(order)])


def test_groups():
    assert groups_of(SIZES, ("x",)) == [[0, 3], [1, 4], [2, 5]]
    assert groups_of(SIZES, ("y",)) == [[0, 1, 2], [3, 4, 5]]
    assert groups_of(SIZES, ("y", "x")) == [[0, 3, 1, 4, 2, 5]]
    assert groups_of({"x": 4}, ("x",), [[0, 3], [2, 1]]) == [[0, 3], [2, 1]]
    assert groups_of({"x": 4, "y": 2}, ("x",), [[0, 3], [2, 1]]) == [
        [0, 6], [4, 2], [1, 7], [5, 3],
    ]  # fmt: skip


def test_narrow_floats_are_rounded_once():
    ones = np.array([2048.0, 1.0, 1.0], np.float16)
    eqn = equation(lambda x: lax.psum(x, "y"), ones[:1])
    found = SharedMemory({"x": 1, "y": 3})(eqn, [[v[None]] for v in ones])
    # One after another in 16 bits they are 2048: 2049 is no float16.
    assert float(found[0][0][0]) == 2050.0
