"""Random numbers are made where they are read: each device makes its piece, of any stream."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.core.graph import subgraphs
from gpuarray.sharding import AxisType, Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P
from tests.support.devices import mesh_of
from tests.unit.transforms.partition.test_split import normal, split

pytestmark = pytest.mark.devices


def largest_made(graph):
    """Return the most elements that one equation of a Graph makes, at any depth."""
    sizes = [v.aval.size for e in graph.eqns for v in e.outvars]
    return max([*sizes, *(largest_made(g) for e in graph.eqns for g in subgraphs(e))])


def noisy(x):
    return x + ga.random.normal(ga.random.key(3), x.shape)


def dropped(x, w):
    h = x @ w
    kept = ga.random.bernoulli(ga.random.key(1), 0.5, h.shape)
    return (gnp.where(kept, h / 0.5, 0.0) ** 2).sum()


def in_a_loop(x):
    def step(x, key):
        return x + ga.random.uniform(key, x.shape), None

    return ga.lax.scan(step, x, ga.random.split(ga.random.key(0), 3))[0]


def read_twice(x):
    noise = ga.random.normal(ga.random.key(3), x.shape)
    return (x + noise).sum(1) * noise.sum()


@pytest.mark.parametrize("partitionable", [False, True])
@pytest.mark.parametrize("spec", [P("x"), P("x", "y"), P(None, ("x", "y"))])
def test_each_device_makes_its_piece(spec, partitionable):
    x, w = normal(16, 64), normal(64, 64)
    with ga.threefry_partitionable(partitionable):
        for fun, given in ((noisy, [x]), (dropped, [x, w]), (in_a_loop, [x]), (read_twice, [x])):
            cut = [spec, *[P()] * (len(given) - 1)]
            on_devices = [
                ga.device_put(a, NamedSharding(mesh_of((4, 2)), s))
                for a, s in zip(given, cut, strict=True)
            ]
            found, want = ga.jit(fun)(*on_devices), ga.jit(fun)(*given)
            np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-5)
            if fun in (noisy, in_a_loop):
                assert largest_made(split(fun, given, cut)[0].local) < x.size


@pytest.mark.parametrize("width", ["uint8", "uint16", "uint32", "uint64"])
def test_the_bits_of_pieces_are_those_of_the_whole(width):
    # An odd number of numbers has a stream without a last partner: over 3 devices there is one.
    for shape, count in (((9, 15), 3), ((16, 5), 8), ((2, 24), 8)):
        over = Mesh(np.array(ga.devices()[:count]), "x", (AxisType.Auto,))
        with ga.enable_x64(True):
            bits = lambda key, s=shape: ga.random.bits(key, s, width)
            many = ga.vmap(bits)
            for fun, key, axis in (
                (bits, ga.random.key(7), 0),
                (many, ga.random.split(ga.random.key(7), 2), 1),
            ):
                parts = [None] * 3
                parts[axis + (shape[0] % count > 0)] = "x"
                laid = NamedSharding(over, P(*parts[: len(shape) + axis]))
                found = ga.jit(fun, out_shardings=laid)(key)
                np.testing.assert_array_equal(found, fun(key))
                assert found.sharding == laid
