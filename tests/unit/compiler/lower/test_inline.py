"""Values along rows that a reduction leaves for another kernel are made there if that is as cheap.

In: normalisations whose second half is a kernel of its own. The simulator runs both.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from tests import golden
from tests.support import simulated
from tests.unit.compiler.cuda.test_tiles import filled

simulated.need_compiler()


def group_norm(x, gain, offset, groups: int = 8):
    """Channels last, in groups."""
    y = x.reshape(*x.shape[:3], groups, -1)
    mean = y.mean((1, 2, 4), keepdims=True)
    y = (y - mean) * lax.rsqrt(y.var((1, 2, 4), keepdims=True) + 1e-5)
    return y.reshape(x.shape) * gain + offset


def shown(function, *shapes):
    return ga.explain(function, platform="cuda")(*(golden.shape("float32", *s) for s in shapes))


def normed_sums(x):
    """Sums over rows that each have mean 0 and variance 1: other axes, so another kernel."""
    y = x - x.mean(1, keepdims=True)
    return (y * lax.rsqrt(y.var(1, keepdims=True) + 1e-5)).sum(0)


def test_the_difference_from_the_mean_is_not_written():
    found = shown(normed_sums, (8192, 1024))
    whole = 4 * 8192 * 1024
    # The mean, then the variance, in one kernel; then what both are for.
    assert [k.bytes_written // whole for k in found.kernels] == [0, 0]
    assert [k.bytes_read // whole for k in found.kernels] == [1, 1]
    assert "sub" in found.kernels[1].ops


def test_what_is_dear_or_wanted_is_written():
    def dear(x):
        y = gnp.exp(x - x.max(1, keepdims=True))
        return y.sum(1), y.T.reshape(-1)[:1000]

    def wanted(x):
        y = x - x.mean(1, keepdims=True)
        return y, (y * y).sum(1)

    assert shown(dear, (2000, 3000)).kernels[0].bytes_written > 4 * 2000 * 3000
    assert shown(wanted, (2000, 3000)).kernels[0].bytes_written > 4 * 2000 * 3000


def neighbours(f):
    """A function of each element, and then of its neighbours along both axes."""

    def made(x):
        y = f(x[1:] - x[:-1])
        return (y[:, 2:] + 2 * y[:, 1:-1] + y[:, :-2]) ** 2

    return made


def test_neighbours_are_computed_again_where_that_takes_less_than_memory():
    shape = (4096, 4096)
    cheap, dear = shown(neighbours(abs), shape), shown(neighbours(lax.lgamma), shape)
    assert len(cheap.kernels) == 1 and cheap.bytes_moved < 2.01 * 4 * 4096**2
    assert len(dear.kernels) == 2
    x = filled("float32", 19, 40)
    simulated.compare([(neighbours(abs), (x,))], limit=4)


def test_values_are_those_of_the_whole():
    x, gain = filled("float32", 2, 6, 5, 32), filled("float32", 32)

    def several(x):
        mean, top = x.mean((1, 2)), x.max((1, 2))
        wide = x - mean[:, None, None]
        high = x * top[:, None, None]
        folded = (wide.reshape(2, 30, 32) * high.reshape(2, 30, 32)).transpose(2, 0, 1)
        return folded, (wide * wide).sum((1, 2)), mean

    cases = [
        (group_norm, (x, gain, gain)),
        (normed_sums, (filled("float32", 9, 40),)),
        (several, (x,)),
        (ga.grad(lambda *a: (group_norm(*a) ** 2).sum(), (0, 1, 2)), (x, gain, gain)),
    ]
    for function, inputs in cases:
        made = simulated.built(ga.jit(function).lower(*inputs).jaxpr)
        expected = [np.asarray(e) for e in ga.tree.leaves(ga.jit(function)(*inputs))]
        for found, e in zip(simulated.run(made, inputs), expected, strict=True):
            scale = np.abs(e).max()
            np.testing.assert_allclose(found / scale, e / scale, atol=2e-5)


# ---- labels: one update or one pick of each row ----


def of_label(logits, label):
    """Minus the log-likelihood of each row's label, by its number."""
    log = nn.log_softmax(logits, axis=-1)
    return -gnp.mean(gnp.take_along_axis(log, label[:, None], -1))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_cross_entropy_of_labels_writes_no_array_but_the_gradient(dtype):
    logits, label = golden.shape(dtype, 512, 50257), golden.shape("int32", 512)
    loss = ga.explain(of_label, platform="cuda")(logits, label)
    whole = 512 * 50257 * np.dtype(dtype).itemsize
    assert not loss.library_calls and len(loss.kernels) == 2
    assert sum(k.bytes_written for k in loss.kernels) < whole / 1000
    # The update of each row is a choice in the kernel that reads it: no sort, no array of zeros.
    slope = ga.explain(ga.grad(of_label), platform="cuda")(logits, label)
    assert not slope.library_calls and len(slope.kernels) <= 2
    assert whole <= sum(k.bytes_written for k in slope.kernels) < 1.001 * whole


def test_updates_of_each_row_are_those_of_its_own_index():
    def picked(x, at, new):
        rows = gnp.arange(x.shape[0])
        chosen = lambda x, i, v: x.at[i].add(v)
        return ga.vmap(chosen)(x, at, new), x.at[rows, at[:, 0]].set(7.0)

    at = np.array([[3, 3], [0, -1], [9, 40], [5, 2], [1, 7]], np.int32)
    simulated.compare([(picked, (filled("float32", 5, 10), at, filled("float32", 5, 2)))])
