"""A gradient for every example at once, and what it tells: wrong labels pull hardest.

`grad` of the loss of one example, and `vmap` over the examples. After training, the examples with
the largest gradients are those whose labels were flipped. The same gradients, cut to a length and
summed, are the step of differentially private training.

Run: python examples/per_example_gradients.py [EXAMPLES]
"""

import sys
import time

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import random, tree

FLIPPED = 10


def spirals(key, count: int):
    """Points (count, 2) on two arms, and which arm (count,), 0.0 or 1.0."""
    angle_key, noise_key, arm_key = random.split(key, 3)
    arm = random.bernoulli(arm_key, 0.5, (count,)).astype(gnp.float32)
    angle = 0.5 + 4.0 * random.uniform(angle_key, (count,))
    turned = angle + gnp.pi * arm
    points = 0.3 * angle[:, None] * gnp.stack([gnp.cos(turned), gnp.sin(turned)], axis=1)
    return points + 0.03 * random.normal(noise_key, points.shape), arm


def init(key, width: int = 32):
    """A network 2 -> width -> width -> 1."""
    keys = random.split(key, 3)
    sizes = [(2, width), (width, width), (width, 1)]
    return [
        {"w": random.normal(k, (m, n)) / m**0.5, "b": gnp.zeros(n)}
        for k, (m, n) in zip(keys, sizes)
    ]


def loss(params, point, arm):
    """The surprise at the label of one example: point (2,), arm ()."""
    x = point
    for layer in params[:-1]:
        x = gnp.tanh(x @ layer["w"] + layer["b"])
    score = (x @ params[-1]["w"] + params[-1]["b"])[0]
    return gnp.logaddexp(0.0, score) - arm * score


def mean_loss(params, points, arms):
    return gnp.mean(ga.vmap(loss, in_axes=(None, 0, 0))(params, points, arms))


#: Leaves with a leading axis: one gradient for each example.
gradients = ga.jit(ga.vmap(ga.grad(loss), in_axes=(None, 0, 0)))


def lengths(grads):
    """The length (n,) of each example's gradient over all parameters."""
    squares = [gnp.sum(g**2, axis=tuple(range(1, g.ndim))) for g in tree.leaves(grads)]
    return gnp.sqrt(sum(squares))


def clipped_mean(grads, longest: float):
    """The mean of the gradients after each was cut to a length."""
    scale = gnp.minimum(1.0, longest / lengths(grads))
    return tree.map(lambda g: gnp.tensordot(scale, g, 1) / len(scale), grads)


@ga.jit
def step(params, points, arms):
    slopes = ga.grad(mean_loss)(params, points, arms)
    return tree.map(lambda p, g: p - 0.5 * g, params, slopes)


def main(examples: int) -> None:
    points, arms = spirals(random.PRNGKey(0), examples)
    wrong = arms.at[:FLIPPED].set(1.0 - arms[:FLIPPED])
    params = init(random.PRNGKey(1))
    for _ in range(1000):
        params = step(params, points, wrong)
    print(f"mean loss {float(mean_loss(params, points, wrong)):.4f}")

    grads = gradients(params, points, wrong)
    start = time.perf_counter()
    ga.block_until_ready(gradients(params, points, wrong))
    together = time.perf_counter() - start
    start = time.perf_counter()
    one = ga.jit(ga.grad(loss))
    each = [one(params, p, a) for p, a in zip(points, wrong)]
    ga.block_until_ready(each)
    print(
        f"{examples} gradients: {1e3 * together:.1f} ms by vmap, "
        f"{1e3 * (time.perf_counter() - start):.1f} ms one by one"
    )
    stacked = tree.map(lambda *leaves: gnp.stack(leaves), *each)
    apart = max(
        float(gnp.max(gnp.abs(a - b))) for a, b in zip(tree.leaves(grads), tree.leaves(stacked))
    )
    print(f"largest difference between the two: {apart:.1e}")

    found = gnp.argsort(-lengths(grads))[:FLIPPED]
    hits = int(gnp.sum(found < FLIPPED))
    print(f"of the {FLIPPED} largest gradients, {hits} belong to the {FLIPPED} flipped labels")
    cut = clipped_mean(grads, 0.1)
    length = float(gnp.sqrt(sum(gnp.sum(g**2) for g in tree.leaves(cut))))
    print(f"each cut to 0.1, their mean has length {length:.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
