"""How many kernels programs become on a GPU: what the library promises, so that it stays true.

In: programs as people write them. Out: counts by `ga.explain(..., platform="cuda")`, without a GPU.
"""

from __future__ import annotations

import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from tests.golden import chain, nearest, shape


def variance(x):
    return gnp.var(x, axis=-1)


def layer_norm(x, gain, bias):
    mean = gnp.mean(x, -1, keepdims=True)
    var = gnp.var(x, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * gain + bias


def rms_norm_residual(x, residual, gain):
    h = x + residual
    return h * lax.rsqrt(gnp.mean(gnp.square(h), -1, keepdims=True) + 1e-6) * gain, h


def mean_squared(a, b):
    return gnp.mean((a - b) ** 2)


def cross_entropy(logits, labels):
    logp = nn.log_softmax(logits, axis=-1)
    return -gnp.mean(gnp.take_along_axis(logp, labels[:, None], axis=-1))


def cross_entropy_one_hot(logits, labels):
    return -gnp.mean(gnp.sum(nn.one_hot(labels, logits.shape[-1]) * nn.log_softmax(logits), -1))


def dropout(key, x):
    keep = ga.random.bernoulli(key, 0.9, x.shape)
    return gnp.tanh(gnp.where(keep, x / 0.9, 0.0)) + x


def mandelbrot(c):
    def step(_, state):
        z, n = state
        near = gnp.abs(z) < 2
        return gnp.where(near, z * z + c, z), n + near

    return lax.fori_loop(0, 256, step, (gnp.zeros_like(c), gnp.zeros(c.shape, "int32")))[1]


def mandelbrot_grid(size):
    """With the grid made on the way, and the colours after."""
    x = gnp.arange(size) * (3 / size) - 2
    y = gnp.arange(size) * (3 / size) - 1.5
    return mandelbrot(x[None, :] + 1j * y[:, None]) / 256


def n_body(position, velocity, mass):
    """Pairwise differences, summed over all others."""
    d = position[None, :, :] - position[:, None, :]
    r2 = gnp.sum(d * d, axis=-1) + 1e-3
    force = gnp.sum(d * (mass[None, :] * r2**-1.5)[:, :, None], axis=1)
    velocity = velocity + 0.01 * force
    return position + 0.01 * velocity, velocity


def black_scholes(spot, strike, years, rate, volatility):
    root = volatility * gnp.sqrt(years)
    d1 = (gnp.log(spot / strike) + (rate + volatility**2 / 2) * years) / root
    d2 = d1 - root
    discount = strike * gnp.exp(-rate * years)
    call = spot * _normal(d1) - discount * _normal(d2)
    return call, call - spot + discount


def _normal(x):
    return 0.5 * (1 + lax.erf(x / gnp.sqrt(2.0)))


def vjp_of(function):
    """The cotangents of all arguments."""
    return lambda ct, *args: ga.vjp(function, *args)[1](ct)


WIDE = shape("float32", 4096, 1024)
BFLOAT = shape("bfloat16", 4096, 1024)
ROW = shape("float32", 1024)
PRICES = shape("float32", 1 << 20)

# name: (function, arguments, kernels at most)
PROGRAMS = {
    "chain of 30": (chain, (PRICES,), 1),
    "softmax": (nn.softmax, (WIDE,), 1),
    "softmax, bfloat16": (nn.softmax, (BFLOAT,), 1),
    "softmax, along columns": (lambda x: nn.softmax(x, axis=0), (WIDE,), 2),
    "layer norm": (layer_norm, (WIDE, ROW, ROW), 1),
    "logsumexp": (lambda x: nn.logsumexp(x, axis=-1), (WIDE,), 1),
    "variance": (variance, (WIDE,), 1),
    "variance of all": (gnp.var, (WIDE,), 1),
    "RMS norm and residual": (rms_norm_residual, (BFLOAT, BFLOAT, shape("bfloat16", 1024)), 1),
    "mean squared": (mean_squared, (WIDE, WIDE), 1),
    "cross-entropy": (cross_entropy, (WIDE, shape("int32", 4096)), 2),
    "cross-entropy, one hot": (cross_entropy_one_hot, (WIDE, shape("int32", 4096)), 2),
    "dropout": (dropout, (ga.random.key(0), WIDE), 1),
    "mandelbrot": (mandelbrot, (shape("complex64", 1024, 1024),), 1),
    "mandelbrot with its grid": (lambda: mandelbrot_grid(1024), (), 2),
    "n-body": (n_body, (shape("float32", 4096, 3),) * 2 + (shape("float32", 4096),), 2),
    "black-scholes": (black_scholes, (PRICES,) * 3 + (shape("float32"),) * 2, 1),
    "nearest of few centres": (nearest, (shape("float32", 100_000, 8), shape("float32", 64, 8)), 1),
    "softmax, backwards": (vjp_of(nn.softmax), (WIDE, WIDE), 2),
    "layer norm, backwards": (vjp_of(layer_norm), (WIDE, WIDE, ROW, ROW), 2),
    "gelu, backwards": (vjp_of(nn.gelu), (WIDE, WIDE), 2),
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_kernels(name):
    function, arguments, most = PROGRAMS[name]
    e = ga.explain(function, platform="cuda")(*arguments)
    assert e.library_calls == [], e
    assert len(e.kernels) <= most, e


def test_adam_over_hundreds_of_small_parameters(every):
    count = 1000 if every else 250

    def adam(params, grads, first, second, step):
        t = step + 1
        one, two = 1 - 0.9**t, 1 - 0.999**t

        def update(p, g, m, v):
            m = 0.9 * m + 0.1 * g
            v = 0.999 * v + 0.001 * g * g
            return p - 1e-3 * (m / one) / (gnp.sqrt(v / two) + 1e-8), m, v

        return [update(*x) for x in zip(params, grads, first, second, strict=True)], t

    shapes = [shape("float32", 1 + i % 7, 16 + i % 33) for i in range(count)]
    assert ga.explain(adam, platform="cuda")(*(shapes,) * 4, shape("float32")).launches <= 8
    same = [shape("float32", 4096)] * count
    assert ga.explain(adam, platform="cuda")(*(same,) * 4, shape("float32")).launches <= 8


@pytest.mark.parametrize("layers", [2, 4])
def test_training_step_of_a_multilayer_perceptron(layers):
    def loss(params, x, labels):
        *hidden, (w, b) = params
        for u, c in hidden:
            x = nn.relu(x @ u + c)
        return cross_entropy_one_hot(x @ w + b, labels)

    def step(params, x, labels):
        value, grads = ga.value_and_grad(loss)(params, x, labels)
        return value, ga.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    layer = shape("float32", 2048, 2048), shape("float32", 2048)
    e = ga.explain(step, platform="cuda")(
        [layer] * layers, shape("float32", 512, 2048), shape("int32", 512)
    )
    assert {k.ops for k in e.library_calls} <= {("dot_general",)}, e
    assert len(e.kernels) <= 4 + 3 * layers, e


def test_gradients_of_weights_are_made_the_way_they_are_read():
    def step(w, x):
        return w - 0.1 * ga.grad(lambda w: gnp.sum(gnp.tanh(x @ w)))(w)

    e = ga.explain(step, platform="cuda")(shape("float32", 64, 32), shape("float32", 16, 64))
    (update,) = [k for k in e.kernels if "sub" in k.ops and "tanh" not in k.ops]
    assert "transpose" not in str(update)
    assert [k.ops for k in e.library_calls] == [("dot_general",)] * 2
