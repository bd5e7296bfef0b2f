"""LSTM networks against a loop over time, layer, direction and element of the batch."""

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.experimental import rnn

BATCH, TIME, FEATURES, HIDDEN = 3, 5, 4, 2


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_loops(x, h0, c0, parts, lengths, layers, directions):
    last_h, last_c = np.array(h0), np.array(c0)
    values = np.asarray(x)
    for layer in range(layers):
        out = np.zeros((BATCH, TIME, directions * HIDDEN), np.float32)
        for d in range(directions):
            k = layer * directions + d
            W, U, b, a = (np.asarray(p[k]) for p in parts)
            for n in range(BATCH):
                h, c = last_h[k, n], last_c[k, n]
                times = range(lengths[n])
                for t in reversed(times) if d else times:
                    i, f, g, o = np.split(W @ values[n, t] + b + U @ h + a, 4)
                    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                    h = sigmoid(o) * np.tanh(c)
                    out[n, t, d * HIDDEN : (d + 1) * HIDDEN] = h
                last_h[k, n], last_c[k, n] = h, c
        values = out
    return values, last_h, last_c


@pytest.mark.parametrize(("layers", "both"), [(1, False), (2, False), (2, True)])
def test_lstm(layers, both):
    rng = np.random.default_rng(0)
    sizes = (FEATURES, HIDDEN, layers, both)
    weights = rnn.init_lstm_weight(ga.random.key(0), *sizes)
    count = (1 + both) * layers
    x = rng.standard_normal((BATCH, TIME, FEATURES)).astype(np.float32)
    h0, c0 = rng.standard_normal((2, count, BATCH, HIDDEN)).astype(np.float32)
    lengths = np.array([5, 3, 1], np.int32)
    parts = rnn.unpack_lstm_weights(weights, *sizes)
    expected = by_loops(x, h0, c0, parts, lengths, layers, 1 + both)
    got = rnn.lstm(x, h0, c0, weights, lengths, *sizes[:3], 0.0, both)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    again = rnn.lstm_ref(x, h0, c0, *parts, lengths, *sizes[:3], 0.0, both)
    for one, other in zip(got, again, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    # A slope against a difference.
    loss = lambda w: (rnn.lstm(x, h0, c0, w, lengths, *sizes[:3], 0.0, both)[0] ** 2).sum()
    way = rng.standard_normal(weights.shape).astype(np.float32)
    step = 1e-2
    difference = (loss(weights + step * way) - loss(weights - step * way)) / (2 * step)
    slope = (ga.jit(ga.grad(loss))(weights) * way).sum()
    np.testing.assert_allclose(slope, difference, rtol=2e-2)


def test_weights_in_another_order():
    sizes = (FEATURES, HIDDEN, 2, True)
    weights = rnn.init_lstm_weight(ga.random.key(1), *sizes)
    swapped = rnn.swap_lstm_gates(weights, *sizes)
    np.testing.assert_array_equal(rnn.swap_lstm_gates(swapped, *sizes), weights)
    before, after = (rnn.unpack_lstm_weights(w, *sizes)[0][3] for w in (weights, swapped))
    gates = np.asarray(before).reshape(4, HIDDEN, -1)
    np.testing.assert_array_equal(after, gates[[0, 1, 3, 2]].reshape(after.shape))
    zero = np.zeros((2, 3, 2), np.float32)
    with pytest.raises(NotImplementedError, match="dropout"):
        rnn.lstm(zero, zero, zero, weights, np.ones(2, np.int32), *sizes[:3], 0.5, True)
    with pytest.raises(ValueError, match="a vector of"):
        rnn.unpack_lstm_weights(weights[1:], *sizes)


def test_forward_and_backward_are_those_of_derivatives():
    rng = np.random.default_rng(1)
    sizes = (FEATURES, HIDDEN, 2, 0.0, True, None)
    w = rnn.init_lstm_weight(ga.random.key(0), FEATURES, HIDDEN, 2, True)
    x, h, c = rng.normal(size=(BATCH, TIME, FEATURES)), *rng.normal(size=(2, 4, BATCH, HIDDEN))
    lengths = np.array([5, 3, 0], np.int32)
    given = tuple(ga.numpy.float32(v) for v in (x, h, c, w))
    out, kept = rnn.lstm_fwd(*given, lengths, *sizes)
    expected, pull = ga.vjp(lambda *a: rnn.lstm(*a, lengths, *sizes), *given)
    for mine, theirs in zip(out, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    *cts, none = rnn.lstm_bwd(*sizes, kept, out)
    assert none is None
    for mine, theirs in zip(cts, pull(out), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    avals = [ga.typeof(v) for v in (*given, ga.numpy.asarray(lengths))]
    assert [a.shape for a in rnn.rnn_abstract_eval(*avals, *sizes[:5], True)[:3]] == [
        v.shape for v in out
    ]
    back = [ga.typeof(v) for v in (*out, *given, out[0], np.zeros(0, np.float32), lengths)]
    assert rnn.rnn_bwd_abstract_eval(*back, *sizes[:5], True) == tuple(avals[:4])
