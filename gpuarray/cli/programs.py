"""The programs that `python -m gpuarray demo` fuses. Change them, and run the demo's copy yourself.

Floor 8. In: arrays. Out: arrays. The demo writes this file to its folder twice: unchanged, and with
the import line below changed to plain NumPy, the reference of its measurements.
"""

import gpuarray.numpy as np


def chain(a, b, c):
    """Pointwise work on three arrays: one pass over memory is enough."""
    wave = np.sin(a) * b + c
    return np.sqrt(np.abs(wave)) - a / 3.0


def mse(prediction, target):
    """The mean of squared differences: pointwise work that ends in one number."""
    return np.mean((prediction - target) ** 2)


def softmax(x):
    """Each row: maximum, exponentials, sum, quotient."""
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def layer_norm(x, scale, shift):
    """Each row: mean, variance, then scaled and shifted by a value for each column."""
    centred = x - np.mean(x, axis=1, keepdims=True)
    variance = np.mean(centred**2, axis=1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * scale + shift
