"""Histograms of samples and weights of different dtypes, against NumPy and JAX 0.10.2."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp

HISTOGRAMS = {
    "histogram": lambda xp, x, w, bins: xp.histogram(x, bins, weights=w),
    "histogram2d": lambda xp, x, w, bins: xp.histogram2d(x, x, [bins, bins], weights=w),
    "histogramdd": lambda xp, x, w, bins: xp.histogramdd(x[:, None], [bins], weights=w),
}


@pytest.mark.parametrize("name", HISTOGRAMS)
@pytest.mark.parametrize(
    ("samples", "weights", "dtype"),
    [
        # The dtypes are those of JAX: what samples and weights have in common, as floats.
        ("int32", "int8", "float32"),
        ("float32", "uint8", "float32"),
        ("float32", "bool", "float32"),
        ("bfloat16", "float32", "float32"),
        ("float16", "int32", "float16"),
        ("int8", "bfloat16", "bfloat16"),
    ],
)
def test_sums_of_weights_do_not_overflow(name, samples, weights, dtype):
    x = np.array([0, 1, 1, 1, 2, 2, -1])
    w = np.array([100, 100, 101, 100, 1, 0, 3])
    if weights == "bool":
        w = w > 0
    expected = HISTOGRAMS[name](np, x.astype(float), w.astype(float), 2)
    given = gnp.asarray(x).astype(samples), gnp.asarray(w).astype(weights)
    found = ga.tree.leaves(HISTOGRAMS[name](gnp, *given, 2))
    eps = float(gnp.finfo(dtype).eps)
    for got, exact in zip(found, ga.tree.leaves(expected), strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(np.asarray(got).astype(float), exact, rtol=eps)
