"""Second derivatives without a matrix: Hessian-vector products, and Newton's method with them.

A forward derivative of a gradient costs about as much as two gradients, whatever the number of
parameters; the matrix itself would need one for each.

Run: python examples/hessian_vector.py [PARAMETERS]
"""

import sys

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, random

PENALTY = 1e-2


def data(key, features: int):
    """A table (n, features) and labels (n,) of -1 and 1 that depend on it by chance."""
    x_key, w_key, label_key = random.split(key, 3)
    x = random.normal(x_key, (4 * features, features))
    score = x @ random.normal(w_key, (features,)) / features**0.5
    return x, gnp.where(
        random.uniform(label_key, score.shape) < ga.nn.sigmoid(2.0 * score), 1.0, -1.0
    )


def loss(w, x, y):
    """Logistic regression: the mean surprise, and a penalty for large weights (features,)."""
    return gnp.mean(gnp.logaddexp(0.0, -y * (x @ w))) + PENALTY / 2 * gnp.sum(w**2)


def times_hessian(f, w, v):
    """The product H v, H the second derivatives of f at w: d/dt grad f(w + t v)."""
    return ga.jvp(ga.grad(f), (w,), (v,))[1]


def conjugate_gradients(product, b, steps: int):
    """An approximate x with product(x) = b; the matrix behind it is symmetric and positive."""

    def step(_, state):
        x, r, p, size = state
        q = product(p)
        a = size / gnp.maximum(p @ q, 1e-30)
        x, r = x + a * p, r - a * q
        new = r @ r
        return x, r, r + new / gnp.maximum(size, 1e-30) * p, new

    return lax.fori_loop(0, steps, step, (gnp.zeros_like(b), b, b, b @ b))[0]


@ga.jit
def newton(w, x, y):
    """One step of Newton's method: the new weights, and the loss and its slope before."""
    f = lambda w: loss(w, x, y)
    value, slope = ga.value_and_grad(f)(w)
    way = conjugate_gradients(lambda v: times_hessian(f, w, v), slope, 20)
    return w - way, value, gnp.linalg.norm(slope)


@ga.jit
def steepest(w, x, y):
    """The largest second derivative in any direction, by power iteration."""
    f = lambda w: loss(w, x, y)

    def step(_, v):
        v = times_hessian(f, w, v)
        return v / gnp.linalg.norm(v)

    v = lax.fori_loop(0, 100, step, gnp.ones_like(w) / w.size**0.5)
    return v @ times_hessian(f, w, v)


def main(features: int) -> None:
    x, y = data(random.PRNGKey(0), features)
    w, v = random.normal(random.PRNGKey(1), (2, features))
    w = 0.1 * w
    product = ga.jit(lambda w, v: times_hessian(lambda w: loss(w, x, y), w, v))(w, v)
    if features <= 500:
        whole = ga.hessian(loss)(w, x, y)
        apart = float(gnp.max(gnp.abs(whole @ v - product)) / gnp.max(gnp.abs(product)))
        print(f"from the product with the whole matrix it differs by {apart:.1e}")
        print(f"largest eigenvalue: {float(gnp.linalg.eigvalsh(whole)[-1]):.5f} by the matrix")
    print(f"largest eigenvalue: {float(steepest(w, x, y)):.5f} by products")
    for i in range(6):
        w, value, slope = newton(w, x, y)
        print(
            f"Newton step {i}: loss {float(value):.6f}, length of its gradient {float(slope):.1e}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
