"""Products and the bias and activation behind them are one step, where a library does both.

In: programs with a product, and what comes behind it. Out: which steps a plan for a GPU has, the
bytes that `explain` counts; on the simulator the values of NumPy.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from tests.golden import shape
from tests.support import simulated

X, W, B = shape("float32", 256, 64), shape("float32", 64, 128), shape("float32", 128)
HALF = tuple(shape("bfloat16", *a.shape) for a in (X, W, B))


def by_hand(x):
    """GELU as people write it."""
    return 0.5 * x * (1 + gnp.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


#: Programs that are one step, with its name.
ONE = {
    "bias": (lambda x, w, b: x @ w + b, "product_add"),
    "bias in front": (lambda x, w, b: b + x @ w, "product_add"),
    "bias as a row": (lambda x, w, b: x @ w + b[None], "product_add"),
    "ReLU": (lambda x, w, b: nn.relu(x @ w), "product_relu"),
    "bias, ReLU": (lambda x, w, b: nn.relu(x @ w + b), "product_relu"),
    "bias, maximum": (lambda x, w, b: gnp.maximum(0, b + x @ w), "product_relu"),
    "GELU": (lambda x, w, b: nn.gelu(x @ w), "product_gelu"),
    "bias, GELU": (lambda x, w, b: nn.gelu(x @ w + b), "product_gelu"),
    "GELU by hand": (lambda x, w, b: by_hand(x @ w + b), "product_gelu"),
    "three axes": (lambda x, w, b: nn.relu(x.reshape(4, 64, 64) @ w + b), "product_relu"),
    "stacks": (
        lambda x, w, b: x.reshape(4, 64, 64) @ w.reshape(1, 64, 128).repeat(4, 0) + b,
        "product_add",
    ),
}


def steps(f, *args):
    """The names of the operations of each step that runs on a GPU."""
    found = ga.explain(f, platform="cuda")(*args)
    return [" ".join(o.name for o in s.operations) for s in found.steps]


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("args", [(X, W, B), HALF], ids=["float32", "bfloat16"])
def test_one_step(name, args):
    function, step = ONE[name]
    assert steps(function, *args)[-1] == step
    assert "dot_general" not in " ".join(steps(function, *args))


#: Programs whose product stays a step of its own.
APART = {
    "the GELU of erf": lambda x, w, b: nn.gelu(x @ w + b, approximate=False),
    "another number": lambda x, w, b: by_hand(x @ w + b) * 1.5,
    "another activation": lambda x, w, b: nn.silu(x @ w + b),
    "leaky": lambda x, w, b: nn.leaky_relu(x @ w + b),
    "maximum with 1": lambda x, w, b: gnp.maximum(x @ w + b, 1),
    "ReLU before the bias": lambda x, w, b: nn.relu(x @ w) + b,
    "bias taken away": lambda x, w, b: x @ w - b,
    "a column": lambda x, w, b: x @ w + gnp.concatenate([b, b])[:, None],
    "every second of a column": lambda x, w, b: w.T @ w + b[:, None],
    "a residual": lambda x, w, b: x @ w + gnp.outer(x[:, 0], b),
    "the sum is wanted as well": lambda x, w, b: (x @ w, nn.relu(x @ w + b)),
    "the biased sum is wanted as well": lambda x, w, b: (x @ w + b, nn.relu(x @ w + b)),
    "it is read again": lambda x, w, b: nn.relu(x @ w + b) + (x @ w)[::-1],
    "more behind it": lambda x, w, b: nn.relu(x @ w + b) * 2,
    "a fold behind it": lambda x, w, b: nn.gelu(x @ w + b).sum(1),
    "float64 has none": lambda x, w, b: lax.dot(x, w, preferred_element_type="float64") + 1.0,
}


@pytest.mark.parametrize("name", APART)
def test_apart(name):
    with ga.enable_x64(True):
        found = " ".join(steps(APART[name], X, W, B))
    assert "dot_general" in found and "product_" not in found


def test_a_bias_of_another_dtype_stays_apart():
    found = steps(lambda x, w, b: x @ w + b, *HALF[:2], B)
    assert "product_add" not in found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_matrix_is_added(dtype):
    """The residual of a network; one of another dtype is not."""
    x, w, b, c = (shape(dtype, *s) for s in ((256, 64), (64, 128), (128,), (256, 128)))
    assert steps(lambda x, w, b, c: c + nn.relu(x @ w + b), x, w, b, c) != ["product_relu"]
    assert steps(lambda x, w, b, c: c + (x @ w + b), x, w, b, c) == ["product_add"]
    assert steps(lambda x, w, c: nn.relu(x @ w + c), x, w, c) == ["product_relu"]
    assert steps(lambda x, w, c: x @ w + c, x, w, shape("float16", 256, 128)) != ["product_add"]


def test_of_two_products_that_are_added_one_adds_the_other():
    assert steps(lambda x, w: x @ w + x[::-1] @ w, X, W)[-1] == "product_add"


def test_two_layers():
    """Each product has its own epilogue."""
    layers = lambda x, w, b, v, c: nn.relu(nn.gelu(x @ w + b) @ v + c)
    args = X, W, B, shape("float32", 128, 32), shape("float32", 32)
    assert steps(layers, *args) == ["product_gelu", "product_relu"]


def test_heads():
    """The bias has an element for each of several axes that only the right operand has."""
    f = lambda x, w, b: gnp.einsum("nd,dhk->nhk", x, w) + b
    assert steps(f, X, shape("float32", 64, 8, 16), shape("float32", 8, 16)) == ["product_add"]
    turned = lambda x, w, b: f(x, w, b.T)
    assert "dot_general" in steps(turned, X, shape("float32", 64, 8, 8), shape("float32", 8, 8))


def test_bytes_are_the_least():
    found = ga.explain(lambda x, w, b: nn.gelu(x @ w + b), platform="cuda")(X, W, B)
    least = 4 * (256 * 64 + 64 * 128 + 128 + 256 * 128)
    assert (found.bytes_moved, found.launches) == (least, 1)


def test_values():
    """As NumPy computes them step by step."""
    simulated.need_compiler()
    rng = np.random.default_rng(0)
    args = tuple(rng.normal(size=a.shape).astype(np.float32) for a in (X, W, B))
    simulated.compare([(function, args) for function, _ in ONE.values()], limit=16)
