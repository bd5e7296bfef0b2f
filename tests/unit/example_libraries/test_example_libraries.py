"""Layers and optimizers: shapes, known values, and that they learn."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.example_libraries import optimizers, stax

OPTIMIZERS = {
    "sgd": optimizers.sgd(0.05),
    "momentum": optimizers.momentum(0.02, 0.9),
    "nesterov": optimizers.nesterov(0.02, 0.9),
    "adagrad": optimizers.adagrad(0.5),
    "rmsprop": optimizers.rmsprop(0.05),
    "rmsprop_momentum": optimizers.rmsprop_momentum(0.01),
    "adam": optimizers.adam(0.1),
    "adamax": optimizers.adamax(0.1),
    "sm3": optimizers.sm3(0.5),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_find_a_minimum(name):
    init, update, get_params = OPTIMIZERS[name]
    goal = {"a": np.array([[1.0, -2.0], [0.5, 3.0]], np.float32), "b": np.float32(4)}

    def loss(params):
        off = ga.tree.map(lambda p, g: ((p - g) ** 2).sum(), params, goal)
        return sum(ga.tree.leaves(off))

    state = init(ga.tree.map(gnp.zeros_like, goal))
    before = loss(get_params(state))

    @ga.jit
    def step(i, leaves):
        state = ga.tree.unflatten(spec, leaves)
        return ga.tree.leaves(update(i, ga.grad(loss)(get_params(state)), state))

    # sm3 keeps shapes in its state, which are no arrays for jit to trace.
    if name == "sm3":
        for i in range(150):
            state = update(i, ga.grad(loss)(get_params(state)), state)
    else:
        leaves, spec = ga.tree.flatten(state)
        for i in range(150):
            leaves = step(i, leaves)
        state = ga.tree.unflatten(spec, leaves)
    assert loss(get_params(state)) < 0.05 * before
    again = optimizers.pack_optimizer_state(optimizers.unpack_optimizer_state(state))
    np.testing.assert_array_equal(get_params(again)["a"], get_params(state)["a"])


def test_adam_is_the_published_rule():
    init, update, get_params = optimizers.adam(0.01, b1=0.8, b2=0.9, eps=1e-6)
    state, x, m, v = init(gnp.float32(3)), 3.0, 0.0, 0.0
    for i in range(4):
        g = 2 * x
        state = update(i, gnp.float32(g), state)
        m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
        x -= 0.01 * (m / (1 - 0.8 ** (i + 1))) / (np.sqrt(v / (1 - 0.9 ** (i + 1))) + 1e-6)
        np.testing.assert_allclose(get_params(state), x, rtol=1e-5)


def test_schedules_and_norms():
    steps = {
        optimizers.exponential_decay(2.0, 4, 0.5): 2 * 0.5 ** (6 / 4),
        optimizers.inverse_time_decay(2.0, 4, 3.0): 2 / (1 + 3 * 6 / 4),
        optimizers.inverse_time_decay(2.0, 4, 3.0, staircase=True): 2 / 4,
        optimizers.polynomial_decay(2.0, 8, 1.0, power=2): 1 + (1 - 6 / 8) ** 2,
        optimizers.piecewise_constant([2, 6], [3.0, 2.0, 1.0]): 2.0,
        optimizers.make_schedule(0.25): 0.25,
    }
    for schedule, expected in steps.items():
        np.testing.assert_allclose(schedule(6), expected, rtol=1e-6)
    clipped = optimizers.clip_grads({"a": gnp.array([3.0, 4.0])}, 1.0)
    np.testing.assert_allclose(optimizers.l2_norm(clipped), 1, rtol=1e-6)
    with pytest.raises(ValueError, match="one shorter"):
        optimizers.piecewise_constant([1], [1.0])
    init, update, _ = optimizers.sgd(0.1)
    with pytest.raises(TypeError, match="did not match the parameter tree"):
        update(0, (1.0,), init([1.0]))


def test_a_network_learns():
    init, apply = stax.serial(
        stax.Conv(4, (3, 3), padding="SAME"), stax.Relu, stax.MaxPool((2, 2), (2, 2)),
        stax.BatchNorm(), stax.Flatten, stax.FanOut(2),
        stax.parallel(stax.serial(stax.Dense(8), stax.Tanh), stax.Dense(8)), stax.FanInSum,
        stax.Dense(2), stax.LogSoftmax,
    )  # fmt: skip
    shape, params = init(ga.random.key(0), (-1, 6, 6, 1))
    assert shape == (-1, 2)
    images = np.random.default_rng(0).standard_normal((16, 6, 6, 1)).astype(np.float32)
    labels = (images.mean((1, 2, 3)) > 0).astype(int)

    @ga.jit
    def loss(params):
        return -apply(params, images)[np.arange(16), labels].mean()

    first = loss(params)
    for _ in range(40):
        params = ga.tree.map(lambda p, g: p - 0.3 * g, params, ga.grad(loss)(params))
    assert loss(params) < 0.3 * first


def test_shapes_are_those_of_outputs():
    """What each layer says of its output is what it gives."""
    layers = {
        stax.Dense(3): (2, 5),
        stax.Conv(3, (3, 2), (2, 1)): (2, 9, 8, 4),
        stax.ConvTranspose(3, (3, 2), (2, 1)): (2, 5, 4, 4),
        stax.GeneralConv(("NCHW", "OIHW", "NCHW"), 3, (3, 3), padding="SAME"): (2, 4, 7, 8),
        stax.SumPool((2, 3), (1, 2)): (2, 7, 8, 3),
        stax.AvgPool((2, 2), padding="SAME", spec="NCHW"): (2, 3, 7, 8),
        stax.BatchNorm(axis=(0, 1), center=False): (2, 3, 4),
        stax.Flatten: (2, 3, 4),
        stax.Dropout(0.5): (2, 3),
        stax.shape_dependent(lambda shape: stax.Dense(2 * shape[-1])): (2, 3),
    }
    for (init, apply), shape in layers.items():
        out, params = init(ga.random.key(1), shape)
        given = apply(params, gnp.ones(shape), rng=ga.random.key(2))
        assert given.shape == out
        assert init(ga.random.key(1), (-1, *shape[1:]))[0] == (-1, *out[1:])
    mean = stax.AvgPool((3,), padding="SAME")[1]((), gnp.array([[[1.0], [2.0], [6.0]]]))
    np.testing.assert_allclose(mean.ravel(), [1.5, 3, 4])
    shape, _ = stax.FanInConcat(axis=1)[0](None, [(2, 3, 4), (2, 5, 4)])
    assert shape == (2, 8, 4)
    with pytest.raises(ValueError, match="PRNG key"):
        stax.Dropout(0.5)[1]((), gnp.ones(2))
