"""Data parallel training: every device has all parameters and a part of the batch.

The training step is that of `examples/mnist.py`, written for one device and unchanged. Its
arguments say how it is to run: images and targets are cut along the mesh, parameters lie whole on
every device. A device's gradient is that of its images; the compiler adds the sums over devices.

Run: python examples/parallel/data_parallel.py
"""

import sys
from pathlib import Path

import numpy as np

import gpuarray as ga

ga.config.update("num_cpu_devices", 8)  # before the first array
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import mnist  # noqa: E402
from exchanges import show  # noqa: E402

import gpuarray.numpy as gnp  # noqa: E402
from gpuarray import random  # noqa: E402
from gpuarray.sharding import AxisType, NamedSharding  # noqa: E402
from gpuarray.sharding import PartitionSpec as P  # noqa: E402

SIZES = [784, 64, 10]
STEPS, BATCH = 20, 256


def step(params, images, targets):
    """The loss before a step downhill, and the parameters after it."""
    return mnist.loss(params, images, targets), mnist.update(params, images, targets)


def train(params, batches, sharding=None):
    """The losses of all steps, and the parameters after them; batches lie as `sharding` says."""
    compiled = ga.jit(step)
    losses = []
    for images, targets in batches:
        if sharding is not None:
            images, targets = ga.device_put((images, targets), sharding)
        loss, params = compiled(params, images, targets)
        losses.append(float(loss))
    return losses, params


def main() -> None:
    images, labels = mnist.drawn(random.key(2), 1024)
    images, targets = np.asarray(images), np.asarray(mnist.one_hot(labels))
    chosen = [slice(i * BATCH % 1024, i * BATCH % 1024 + BATCH) for i in range(STEPS)]
    batches = [(images[c], targets[c]) for c in chosen]
    params = mnist.init_network_params(SIZES, random.key(0))

    mesh = ga.make_mesh((8,), ("batch",), axis_types=(AxisType.Auto,))
    cut, whole = NamedSharding(mesh, P("batch")), NamedSharding(mesh, P())
    laid = ga.device_put(params, whole)
    first = ga.device_put(batches[0], cut)
    show("one step", ga.jit(step), laid, *first)

    plain, _ = train(params, batches)
    losses, laid = train(laid, batches, cut)
    print(f"loss: {losses[0]:.4f} at first, {losses[-1]:.4f} after {STEPS} steps")
    far = max(abs(a - b) for a, b in zip(losses, plain))
    print(f"equal to one device's: {far < 1e-3}")
    print(f"each device has {first[0].addressable_shards[0].data.shape[0]} of {BATCH} images")
    same = all(w.is_fully_replicated for layer in laid for w in layer)
    print(f"parameters are whole on every device: {same}")
    share = mnist.accuracy(laid, gnp.asarray(images), labels)
    print(f"accuracy: {float(share):.2f}")


if __name__ == "__main__":
    main()
