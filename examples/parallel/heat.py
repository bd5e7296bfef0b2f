"""The heat equation on a rod cut into eight parts, with an exchange of borders in every step.

A point's next temperature needs its neighbours'. Those of a part's first and last point lie on the
devices beside it: `lax.ppermute` brings them, and nothing else is sent. At the ends of the rod,
where there is no such device, it gives zeros: the temperature at which the ends are held.

Run: python examples/parallel/heat.py
"""

import gpuarray as ga

ga.config.update("num_cpu_devices", 8)  # before the first array

from exchanges import show  # noqa: E402

import gpuarray.numpy as gnp  # noqa: E402
from gpuarray import lax  # noqa: E402
from gpuarray.sharding import NamedSharding  # noqa: E402
from gpuarray.sharding import PartitionSpec as P  # noqa: E402

POINTS, STEPS, DEVICES = 256, 400, 8
RATE = 0.25  # diffusivity * time step / distance^2; at most 1/2, or it runs away


def next_temperature(u, left, right):
    """One step of a part u (n,), between the points to its left (1,) and right (1,)."""
    around = gnp.concatenate([left, u, right])
    return u + RATE * (around[:-2] - 2.0 * u + around[2:])


def plain(u):
    """All steps, on one device."""
    zero = gnp.zeros(1)
    return lax.fori_loop(0, STEPS, lambda _, u: next_temperature(u, zero, zero), u)


def of_one_device(u):
    """All steps of one device's part of the rod."""
    to_the_right = [(i, i + 1) for i in range(DEVICES - 1)]
    to_the_left = [(i + 1, i) for i in range(DEVICES - 1)]

    def step(_, u):
        left = lax.ppermute(u[-1:], "rod", to_the_right)
        right = lax.ppermute(u[:1], "rod", to_the_left)
        return next_temperature(u, left, right)

    return lax.fori_loop(0, STEPS, step, u)


def main() -> None:
    place = (gnp.arange(POINTS) + 1.0) / (POINTS + 1)
    u = gnp.sin(gnp.pi * place) + 0.5 * gnp.sin(8 * gnp.pi * place)

    mesh = ga.make_mesh((DEVICES,), ("rod",))
    over_devices = ga.jit(
        ga.shard_map(of_one_device, mesh=mesh, in_specs=P("rod"), out_specs=P("rod"))
    )
    laid = ga.device_put(u, NamedSharding(mesh, P("rod")))
    show(f"{STEPS} steps", over_devices, laid)

    end = over_devices(laid)
    print(f"each device has {end.addressable_shards[0].data.shape[0]} of {POINTS} points")
    far = float(gnp.max(gnp.abs(end - ga.jit(plain)(u))))
    print(f"equal to one device's: {far < 1e-6}")
    # A sine stays a sine: in each step it shrinks by a factor that its wave length gives.
    factor = [1 - 4 * RATE * gnp.sin(k * gnp.pi / (2 * (POINTS + 1))) ** 2 for k in (1, 8)]
    exact = factor[0] ** STEPS * gnp.sin(gnp.pi * place)
    exact += factor[1] ** STEPS * 0.5 * gnp.sin(8 * gnp.pi * place)
    print(f"equal to the solution in closed form: {bool(gnp.allclose(end, exact, atol=1e-4))}")


if __name__ == "__main__":
    main()
