"""What is measured: one text for all libraries.

In: a library's namespace `m` (NumPy's names, see peers.py) and arrays. Out: arrays. bfloat16 is
widened to float32 before anything is computed and narrowed at the end, as one does by hand; for
float32 that does nothing.
"""

from __future__ import annotations

import math


def up(m, x):
    """Numbers to compute with."""
    return m.astype(x, m.float32)


# ---- pointwise ----


def saxpy(m, x, y):
    """The simplest chain that reads two arrays."""
    return 2.5 * x + y


def chain(m, x, y):
    """Seven operations, two arrays in, one out."""
    return m.sqrt(m.abs(m.sin(x) * y + x)) - y / 3.0


def gelu_residual(m, x, bias, residual):
    """bias + GELU (by tanh) + residual, as in a transformer block."""
    t = up(m, x) + up(m, bias)
    inner = math.sqrt(2 / math.pi) * (t + 0.044715 * t * t * t)
    return m.astype(0.5 * t * (1.0 + m.tanh(inner)) + up(m, residual), x.dtype)


def black_scholes(m, spot, strike, years):
    """Prices of European calls and puts: logarithm, exponential, two error functions."""
    rate, volatility = 0.02, 0.3
    spread = volatility * m.sqrt(years)
    d1 = (m.log(spot / strike) + (rate + volatility * volatility / 2) * years) / spread
    d2 = d1 - spread
    n1 = 0.5 * (1.0 + m.erf(d1 * math.sqrt(0.5)))
    n2 = 0.5 * (1.0 + m.erf(d2 * math.sqrt(0.5)))
    paid = strike * m.exp(-rate * years)
    call = spot * n1 - paid * n2
    return call, call - spot + paid


def transposed_sum(m, a, b):
    """A transposed operand: its reads and writes cannot both be in order."""
    return (a.T + b) * 1.5


def stencil(m, x):
    """The inner points of a grid, averaged with their four neighbours."""
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return 0.2 * (x[1:-1, 1:-1] + around)


# ---- loops ----


def mandelbrot(m, real, imaginary):
    """For how many of 256 steps each point stays near."""

    def step(state):
        x, y, count = state
        xx, yy = x * x, y * y
        near = m.astype(xx + yy < 4.0, m.int32)
        return xx - yy + real, 2.0 * x * y + imaginary, count + near

    return m.repeat(256, step, (real, imaginary, m.astype(real * 0.0, m.int32)))[2]


def nbody(m, at_x, at_y, at_z, x, y, z, mass):
    """The pull of all bodies on each of those at at_x, at_y, at_z."""
    dx, dy, dz = x - at_x[:, None], y - at_y[:, None], z - at_z[:, None]
    square = dx * dx + dy * dy + dz * dz + 1e-2
    pull = mass / (square * m.sqrt(square))
    return m.sum(pull * dx, axis=1), m.sum(pull * dy, axis=1), m.sum(pull * dz, axis=1)


# ---- reductions ----


def full_sum(m, x):
    """One number out of an array."""
    return m.sum(x)


def sum_of_squares(m, a, b):
    """One number out of two arrays."""
    d = a - b
    return m.sum(d * d)


def mean_squared_difference(m, a, b):
    """The mean instead."""
    d = a - b
    return m.mean(d * d)


def column_sum(m, x):
    """The sum along the strided axis."""
    return m.sum(x, axis=0)


def variance_rows(m, x):
    """The variance along the axis that lies together in memory."""
    return m.var(x, axis=1)


def variance_columns(m, x):
    """The variance along the axis that is strided in memory."""
    return m.var(x, axis=0)


def logsumexp(m, x):
    """Rows: the logarithm of the sum of exponentials, kept in range by the maximum."""
    top = m.max(x, axis=1, keepdims=True)
    return m.log(m.sum(m.exp(x - top), axis=1)) + top[:, 0]


def argmax(m, x):
    """Where the largest number of all is."""
    return m.argmax(x)


# ---- rows that are normalised ----


def softmax(m, x):
    """Rows: maximum, exponentials, sum, quotient."""
    wide = up(m, x)
    e = m.exp(wide - m.max(wide, axis=1, keepdims=True))
    return m.astype(e / m.sum(e, axis=1, keepdims=True), x.dtype)


def layer_norm(m, x, scale, shift):
    """Rows: mean and variance, then scaled and shifted by column."""
    wide = up(m, x)
    centred = wide - m.mean(wide, axis=1, keepdims=True)
    variance = m.mean(centred * centred, axis=1, keepdims=True)
    out = centred / m.sqrt(variance + 1e-5) * up(m, scale) + up(m, shift)
    return m.astype(out, x.dtype)


def layer_norm_grad(m, x, scale, shift, ct):
    """What reaches the three operands of `layer_norm` from a gradient of its result."""
    return m.vjp(lambda *args: layer_norm(m, *args), x, scale, shift)[1](ct)


def rms_norm_residual(m, x, residual, scale):
    """The sum of two arrays, and its rows with length 1 on average, scaled."""
    total = up(m, x) + up(m, residual)
    length = m.sqrt(m.mean(total * total, axis=1, keepdims=True) + 1e-6)
    return m.astype(total, x.dtype), m.astype(total / length * up(m, scale), x.dtype)


def cross_entropy(m, logits, labels):
    """The sum of minus the log-likelihoods of rows' labels, and its gradient."""

    def loss(logits):
        wide = up(m, logits)
        shifted = wide - m.max(wide, axis=1, keepdims=True)
        hot = m.arange(logits.shape[1]) == labels[:, None]
        picked = m.sum(m.where(hot, shifted, 0.0), axis=1)
        return m.sum(m.log(m.sum(m.exp(shifted), axis=1)) - picked)

    return m.value_and_grad(loss)(logits)


# ---- training ----

RATE, DECAY, DECAY2, STEP = 1e-3, 0.9, 0.999, 10


def adam_step(m, p, g, mean, square):
    """One parameter after one step of Adam, and its two averages."""
    mean = DECAY * mean + (1 - DECAY) * g
    square = DECAY2 * square + (1 - DECAY2) * g * g
    size = m.sqrt(square / (1 - DECAY2**STEP)) + 1e-8
    return p - RATE / (1 - DECAY**STEP) * mean / size, mean, square


def adam(m, p, g, mean, square):
    """All parameters in one array."""
    return adam_step(m, p, g, mean, square)


def adam_many(m, *arrays):
    """Many small parameters: first all of them, then gradients, then both averages."""
    count = len(arrays) // 4
    parts = [arrays[i * count : (i + 1) * count] for i in range(4)]
    steps = [adam_step(m, *each) for each in zip(*parts)]
    return tuple(out for kind in zip(*steps) for out in kind)


def _network(m, x, weights, biases):
    for i, (w, b) in enumerate(zip(weights, biases)):
        x = x @ w + b
        if i + 1 < len(weights):
            x = m.where(x > 0, x, 0.0)
    return x


def mlp_step(m, x, target, *parameters):
    """The loss, and weights then biases after one step of gradient descent."""
    layers = len(parameters) // 2

    def loss(*parameters):
        out = _network(m, x, parameters[:layers], parameters[layers:])
        d = up(m, out) - up(m, target)
        return m.mean(d * d)

    value, gradients = m.value_and_grad(loss, tuple(range(2 * layers)))(*parameters)
    return value, *(p - LEARNING * g for p, g in zip(parameters, gradients))


#: A power of two: the step is exact in any type.
LEARNING = 0.5


# ---- random ----


def uniform(m, key, size):
    """Evenly distributed numbers."""
    return m.uniform(key, (size,))


def dropout(m, key, x):
    """A tenth of the elements zero, the others larger accordingly."""
    return m.where(m.uniform(key, x.shape) < 0.9, x / 0.9, 0.0)


# ---- dispatch ----


def ten(m, x):
    """Ten operations on so little that only starting them takes time."""
    for _ in range(5):
        x = m.sin(x) * 1.5
    return x
