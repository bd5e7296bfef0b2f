"""A selective state space layer learns to remember; its recurrence is one kernel, and its gradient.

Each sequence holds numbers, a few of them marked; wanted at each place is the last marked number.
The layer is h[i] = keep[i] h[i - 1] + (1 - keep[i]) x[i], where what is kept depends on the input:
a linear recurrence with weights of its own at each place, by `lax.associative_scan`.

Run: python examples/state_space.py [STEPS]
"""

import sys

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn, random

BATCH, LENGTH, STATES = 16, 256, 8


def examples(key):
    """Sequences with the number and its mark at each place, and the last marked number."""
    numbers, marks = random.split(key)
    x = random.normal(numbers, (BATCH, LENGTH))
    marked = random.bernoulli(marks, 0.05, (BATCH, LENGTH)).at[:, 0].set(True)

    def later(one, two):
        return gnp.where(two[1], two[0], one[0]), one[1] | two[1]

    wanted, _ = lax.associative_scan(later, (x, marked), axis=1)
    return gnp.stack([x, marked.astype(x.dtype)], -1), wanted


def recurrence(keep, new):
    """h[i] = keep[i] h[i - 1] + new[i] along the second axis."""

    def after(one, two):
        return one[0] * two[0], two[0] * one[1] + two[1]

    return lax.associative_scan(after, (keep, new), axis=1)[1]


def layer(weights, inputs):
    keep = nn.sigmoid(inputs @ weights["keep"] + weights["bias"])
    new = (1 - keep) * (inputs @ weights["in"])
    return recurrence(keep, new) @ weights["out"]


def loss(weights, inputs, wanted):
    return gnp.mean((layer(weights, inputs) - wanted) ** 2)


@ga.jit
def step(weights, moments, key, number):
    """A step of Adam on new sequences."""
    value, slope = ga.value_and_grad(loss)(weights, *examples(key))
    first = ga.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], slope)
    second = ga.tree.map(lambda m, g: 0.99 * m + 0.01 * g * g, moments[1], slope)

    def moved(w, m, v):
        m, v = m / (1 - 0.9**number), v / (1 - 0.99**number)
        return w - 0.05 * m / (gnp.sqrt(v) + 1e-8)

    return ga.tree.map(moved, weights, first, second), (first, second), value


def main(steps: int) -> None:
    keys = random.split(random.key(0), steps + 3)
    weights = {
        "keep": random.normal(keys[0], (2, STATES)),
        "bias": gnp.zeros(STATES),
        "in": random.normal(keys[1], (2, STATES)) * 0.5,
        "out": random.normal(keys[2], (STATES,)) * 0.5,
    }
    given = [ga.ShapeDtypeStruct((BATCH, LENGTH, STATES), "float32")] * 2
    print(ga.explain(recurrence, platform="cuda")(*given), "\n")
    zeros = ga.tree.map(gnp.zeros_like, weights)
    moments = (zeros, zeros)
    for number, key in enumerate(keys[3:], 1):
        weights, moments, value = step(weights, moments, key, float(number))
        if number % (steps // 5) == 0:
            print(f"step {number}: mean squared error {value:.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
