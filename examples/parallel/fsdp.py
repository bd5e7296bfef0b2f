"""Fully sharded training: parameters and the optimiser's state are cut over eight devices.

A device keeps an eighth of each matrix and of Adam's two averages. Before use the pieces are
gathered (`all_gather`); the gradients are added up and cut in one go (`psum_scatter`, which is what
`all_gather` turns into when it is differentiated); every device then updates its own pieces. Memory
for parameters and state is an eighth; what is sent is about what plain data parallelism sends.

Run: python examples/parallel/fsdp.py
"""

import numpy as np

import gpuarray as ga

ga.config.update("num_cpu_devices", 8)  # before the first array

from exchanges import show  # noqa: E402

import gpuarray.numpy as gnp  # noqa: E402
from gpuarray import lax  # noqa: E402
from gpuarray.sharding import NamedSharding  # noqa: E402
from gpuarray.sharding import PartitionSpec as P  # noqa: E402

SIZES, ROWS, STEPS = (64, 128, 128, 16), 256, 20
RATE, B1, B2, EPSILON = 1e-2, 0.9, 0.999, 1e-8


def predict(params, x):
    """The network: matrices with tanh between them."""
    *hidden, last = params
    for w in hidden:
        x = gnp.tanh(x @ w)
    return x @ last


def adam(params, gradients, state):
    """Adam's step: element by element, so it is the same for pieces as for the whole."""
    count, means, squares = state
    count = count + 1
    means = [B1 * m + (1 - B1) * g for m, g in zip(means, gradients)]
    squares = [B2 * s + (1 - B2) * g**2 for s, g in zip(squares, gradients)]
    rate = RATE * gnp.sqrt(1 - B2**count) / (1 - B1**count)
    params = [w - rate * m / (gnp.sqrt(s) + EPSILON) for w, m, s in zip(params, means, squares)]
    return params, (count, means, squares)


def plain_step(params, state, x, y):
    """A step on one device, and the loss before it."""
    loss, gradients = ga.value_and_grad(lambda p: gnp.mean((predict(p, x) - y) ** 2))(params)
    return loss, *adam(params, gradients, state)


def step_of_one_device(params, state, x, y):
    """A step of the device that has these pieces of the parameters, the state and the batch."""

    def loss_of(pieces):
        params = [lax.all_gather(w, "data", tiled=True) for w in pieces]
        # The mean over all rows is the sum of the devices' shares.
        return gnp.sum((predict(params, x) - y) ** 2) / (ROWS * SIZES[-1])

    # The cotangent of a gathered matrix comes back as this device's piece of the sum over all.
    loss, gradients = ga.value_and_grad(loss_of)(params)
    return lax.psum(loss, "data"), *adam(params, gradients, state)


def run(step, params, state, x, y):
    """The losses of all steps, and the parameters after them."""
    losses = []
    for _ in range(STEPS):
        loss, params, state = step(params, state, x, y)
        losses.append(float(loss))
    return losses, params, state


def main() -> None:
    rng = np.random.default_rng(0)
    params = [
        rng.normal(0, n**-0.5, (n, m)).astype(np.float32) for n, m in zip(SIZES[:-1], SIZES[1:])
    ]
    x = rng.normal(size=(ROWS, SIZES[0])).astype(np.float32)
    y = np.sin(x[:, : SIZES[-1]])
    state = (np.float32(0), [np.zeros_like(w) for w in params], [np.zeros_like(w) for w in params])

    mesh = ga.make_mesh((8,), ("data",))
    cut = P("data")
    of_state = (P(), cut, cut)
    step = ga.jit(
        ga.shard_map(
            step_of_one_device,
            mesh=mesh,
            in_specs=(cut, of_state, cut, cut),
            out_specs=(P(), cut, of_state),
        )
    )
    laid = [ga.device_put(w, NamedSharding(mesh, cut)) for w in params]
    show("one step", step, laid, state, x, y)

    losses, laid, moments = run(step, laid, state, x, y)
    wanted, plain, _ = run(ga.jit(plain_step), params, state, x, y)
    print(f"loss: {losses[0]:.4f} at first, {losses[-1]:.4f} after {STEPS} steps")
    print(f"losses equal to one device's: {np.allclose(losses, wanted, atol=1e-4)}")
    same = all(np.allclose(a, b, atol=1e-3) for a, b in zip(laid, plain))
    print(f"parameters equal to one device's: {same}")
    held = [w.addressable_shards[0].data.shape for w in (laid[1], moments[1][1], moments[2][1])]
    print(f"each device keeps {held[0]} of {plain[1].shape}, and so of the state: {held[1:]}")


if __name__ == "__main__":
    main()
