"""A pipeline: eight layers on eight devices, and microbatches that go from one to the next.

In every turn of a `lax.scan` each device applies its layer to what it has, and `ppermute` hands the
result to the device behind it. The first device takes in a new microbatch each turn; the last one
puts out a finished one, from the turn on in which the first has reached it. The derivative of a
`ppermute` is one in the other direction, so gradients flow back through the same pipeline.

Run: python examples/parallel/pipeline.py
"""

import numpy as np

import gpuarray as ga

ga.config.update("num_cpu_devices", 8)  # before the first array

from exchanges import show  # noqa: E402

import gpuarray.numpy as gnp  # noqa: E402
from gpuarray import lax  # noqa: E402
from gpuarray.sharding import NamedSharding  # noqa: E402
from gpuarray.sharding import PartitionSpec as P  # noqa: E402

STAGES, MICROBATCHES, ROWS, WIDTH = 8, 16, 4, 32
TURNS = MICROBATCHES + STAGES - 1


def layer(w, x):
    """One layer: w (width, width), x (rows, width)."""
    return gnp.tanh(x @ w) + x


def plain(weights, batches):
    """All layers on one device: weights (stages, width, width), batches (m, rows, width)."""
    for w in weights:
        batches = layer(w, batches)
    return batches


def of_one_device(weights, batches):
    """The results, on every device, where this one has one layer: weights (1, width, width)."""
    stage = lax.axis_index("stage")
    onwards = [(i, i + 1) for i in range(STAGES - 1)]

    def turn(received, number):
        fresh = batches[gnp.minimum(number, MICROBATCHES - 1)]
        done = layer(weights[0], gnp.where(stage == 0, fresh, received))
        return lax.ppermute(done, "stage", onwards), done

    _, done = lax.scan(turn, gnp.zeros((ROWS, WIDTH)), gnp.arange(TURNS))
    finished = gnp.where(stage == STAGES - 1, done[STAGES - 1 :], 0.0)
    return lax.psum(finished, "stage")  # the last device's, for all


def main() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 0.1, (STAGES, WIDTH, WIDTH)).astype(np.float32)
    batches = rng.normal(size=(MICROBATCHES, ROWS, WIDTH)).astype(np.float32)

    mesh = ga.make_mesh((STAGES,), ("stage",))
    pipeline = ga.jit(
        ga.shard_map(of_one_device, mesh=mesh, in_specs=(P("stage"), P()), out_specs=P())
    )
    laid = ga.device_put(weights, NamedSharding(mesh, P("stage")))
    show("forward", pipeline, laid, batches)
    same = gnp.allclose(pipeline(laid, batches), plain(weights, batches), atol=1e-5)
    print(f"equal to one device's: {bool(same)}")
    print(f"{TURNS} turns for {MICROBATCHES} microbatches: busy {MICROBATCHES / TURNS:.0%}")

    def gradient_of(forward):
        return ga.jit(ga.grad(lambda w, x: gnp.mean(forward(w, x) ** 2)))

    gradient = gradient_of(pipeline)
    show("with gradients", gradient, laid, batches)
    got, wanted = gradient(laid, batches), gradient_of(plain)(weights, batches)
    print(f"gradients equal to one device's: {bool(gnp.allclose(got, wanted, atol=1e-6))}")
    print(f"each device has the gradient of its layer: {got.addressable_shards[0].data.shape}")


if __name__ == "__main__":
    main()
