"""One program on eight devices, in the four ways there are: `pmap`, `shard_map`, `jit`, and both.

A laptop has one CPU; the setting `num_cpu_devices` makes eight devices of it, on which everything
runs as it would on eight GPUs: pieces of arrays on each, collectives between them.

Run: python examples/many_devices.py
"""

import numpy as np

import gpuarray as ga

ga.config.update("num_cpu_devices", 8)  # before the first array

import gpuarray.numpy as gnp  # noqa: E402
from gpuarray import lax, random  # noqa: E402
from gpuarray.sharding import NamedSharding  # noqa: E402
from gpuarray.sharding import PartitionSpec as P  # noqa: E402


def by_pmap() -> None:
    """A product on each device of matrices that it has drawn itself, and a mean over all."""
    keys = random.split(random.key(0), 8)
    matrices = ga.pmap(lambda key: random.normal(key, (200, 300)))(keys)
    products = ga.pmap(lambda x: gnp.dot(x, x.T))(matrices)
    print(f"pmap: products {products.shape} over {len(products.devices())} devices")
    print("      means", np.asarray(ga.pmap(gnp.mean)(products)).round(2))
    normalised = ga.pmap(lambda x: x / lax.psum(x, "devices"), axis_name="devices")
    print("      shares", np.asarray(normalised(gnp.arange(8.0))).round(3))
    # Derivatives go through the collective: every element is in every sum.
    slope = ga.pmap(ga.grad(lambda x: lax.psum(gnp.sin(x), "i") ** 2), axis_name="i")
    print("      slopes", np.asarray(slope(gnp.arange(8.0))).round(3))


def by_shard_map(mesh) -> None:
    """A matrix product of blocks: each device multiplies its own, and sums go along an axis."""
    a = gnp.arange(8.0 * 16).reshape(8, 16) / 100
    b = gnp.arange(16.0 * 4).reshape(16, 4) / 100

    def of_blocks(a_block, b_block):
        partial = gnp.dot(a_block, b_block)
        return lax.psum(partial, "y")

    product = ga.shard_map(
        of_blocks, mesh=mesh, in_specs=(P("x", "y"), P("y", None)), out_specs=P("x", None)
    )
    c = product(a, b)
    print(f"shard_map: {c.shape} as {c.sharding.spec}, pieces {c.addressable_shards[0].data.shape}")
    print("           largest difference", float(abs(c - gnp.dot(a, b)).max()))


def by_jit(mesh) -> None:
    """The plain program on arrays that lie over the mesh: the compiler adds what is sent."""
    x = ga.device_put(gnp.ones((8, 16)), NamedSharding(mesh, P("x", None)))
    w = ga.device_put(gnp.ones((16, 32)), NamedSharding(mesh, P(None, "y")))

    @ga.jit
    def layer(x, w):
        return gnp.tanh(x @ w / 16)

    y = layer(x, w)
    print(f"jit: {y.shape} as {y.sharding.spec}, without a word in the program")
    total = ga.jit(lambda y: y.sum())(y)
    print(f"     sum {float(total):.3f}, the same on all devices: {total.is_fully_replicated}")
    print("     the array over the mesh:")
    ga.debug.visualize_array_sharding(y, use_color=False)


def by_both(mesh) -> None:
    """By hand along one axis of the mesh, left to the compiler along the other."""
    x = ga.device_put(gnp.arange(32.0).reshape(8, 4), NamedSharding(mesh, P("x", "y")))

    @ga.jit
    def step(x):
        centred = ga.shard_map(
            lambda v: v - lax.pmean(v, "x"),
            mesh=mesh,
            in_specs=P("x"),
            out_specs=P("x"),
            axis_names={"x"},
        )
        return centred(x * 2.0).std()

    print(f"both: {float(step(x)):.4f}")


def main() -> None:
    mesh = ga.make_mesh((4, 2), ("x", "y"))
    by_pmap()
    by_shard_map(mesh)
    by_jit(mesh)
    by_both(mesh)


if __name__ == "__main__":
    main()
