"""The tutorial "gradient checkpointing": what is kept for the backward pass, policies, names,
recursion, and layers in a scan.
"""

import functools
import re

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray.ad_checkpoint import checkpoint_name, print_saved_residuals

POLICIES = jax.checkpoint_policies


def close(got, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got), expected, rtol=rtol, atol=atol)


@pytest.fixture
def kept(capsys):
    """What the derivative of a function keeps, without where each value was made."""

    def read(f, *args):
        print_saved_residuals(f, *args)
        lines = capsys.readouterr().out.splitlines()
        return [re.sub(r" from \S+ \(.*\)$", "", line) for line in lines]

    return read


def layer(w, x):
    return jnp.sin(jnp.dot(w, x))


def network(w1, w2, w3, x):
    return layer(w3, layer(w2, layer(w1, x)))


ARGS = jnp.ones((5, 4)), jnp.ones((6, 5)), jnp.ones((7, 6)), jnp.ones(4)
ARGUMENTS = [
    "f32[5,4] from the argument w1",
    "f32[6,5] from the argument w2",
    "f32[7,6] from the argument w3",
    "f32[4] from the argument x",
]


def test_without_checkpoint(kept):
    assert kept(network, *ARGS) == ARGUMENTS + [
        "f32[5] output of sin",
        "f32[5] output of cos",
        "f32[6] output of sin",
        "f32[6] output of cos",
        "f32[7] output of cos",
    ]


def test_each_layer(kept):
    def f(w1, w2, w3, x):
        g = jax.checkpoint(layer)
        return g(w3, g(w2, g(w1, x)))

    assert kept(f, *ARGS) == ARGUMENTS + ["f32[5] output of sin", "f32[6] output of sin"]


def test_products_kept(kept):
    f = jax.checkpoint(network, policy=POLICIES.dots_with_no_batch_dims_saveable)
    assert kept(f, *ARGS) == ARGUMENTS + [f"f32[{n}] output of dot_general" for n in (5, 6, 7)]


def test_names_kept(kept):
    def f(w1, w2, w3, x):
        for name, w in zip("abc", (w1, w2, w3)):
            x = checkpoint_name(layer(w, x), name=name)
        return x

    one = jax.checkpoint(f, policy=POLICIES.save_only_these_names("a"))
    assert kept(one, *ARGS) == ARGUMENTS + ["f32[5] named 'a'"]
    rest = jax.checkpoint(f, policy=POLICIES.save_any_names_but_these("a"))
    assert kept(rest, *ARGS) == ARGUMENTS + ["f32[6] named 'b'"]


def test_nothing_and_everything(kept):
    nothing = jax.checkpoint(network, policy=POLICIES.nothing_saveable)
    assert kept(nothing, *ARGS) == kept(jax.checkpoint(network), *ARGS) == ARGUMENTS
    everything = jax.checkpoint(network, policy=POLICIES.everything_saveable)
    assert kept(everything, *ARGS) == kept(network, *ARGS)


def test_trees_of_parameters(kept):
    def loss(params, x, y):
        *rest, last = params
        for w in rest:
            x = layer(w, x)
        return jnp.sum((jnp.dot(last, x) - y) ** 2)

    w = jnp.ones((4, 4))
    lines = kept(loss, [w, w, w], jnp.ones(4), jnp.ones(4))
    assert lines[:4] == [f"f32[4,4] from the argument params[{i}]" for i in range(3)] + [
        "f32[4] from the argument x"
    ]
    assert lines[4:] == ["f32[4] output of sin", "f32[4] output of cos"] * 2 + [
        "f32[4] output of mul"
    ]


@pytest.mark.parametrize(
    "policy",
    [
        None,
        POLICIES.dots_saveable,
        POLICIES.everything_saveable,
        POLICIES.save_only_these_names("q"),
    ],
)
def test_gradients_stay_the_same(policy):
    f = jax.checkpoint(network, policy=policy)
    total = lambda f: lambda *args: jnp.sum(f(*args))
    expected = jax.grad(total(network), argnums=(0, 1, 2, 3))(*ARGS)
    for run in (
        jax.grad(total(f), argnums=(0, 1, 2, 3)),
        jax.jit(jax.grad(total(f), (0, 1, 2, 3))),
    ):
        for got, want in zip(run(*ARGS), expected):
            close(got, want)


def test_computed_twice():
    def f(x):
        return jnp.exp(jnp.sin(jnp.sin(x)))

    def sines(f):
        return str(jax.make_jaxpr(jax.grad(f))(2.0)).count("= sin ")

    assert sines(f) == 2 and sines(jax.checkpoint(f)) == 4


def test_by_hand():
    g, h = jnp.sin, lambda y: y**3

    def by_hand(x):
        y = g(x)
        _, pull_h = jax.vjp(h, y)
        (y_bar,) = pull_h(1.0)
        _, pull_g = jax.vjp(g, x)
        return pull_g(y_bar)[0]

    close(by_hand(0.5), jax.grad(lambda x: h(jax.checkpoint(g)(x)))(0.5))


def chain(functions):
    return lambda x: functools.reduce(lambda v, f: f(v), functions, x)


def halved(functions):
    if len(functions) == 1:
        return functions[0]
    if len(functions) == 2:
        outer, inner = functions
        return lambda x: outer(inner(x))
    outer, inner = (halved(part) for part in np.array_split(functions, 2))
    return lambda x: outer(jax.checkpoint(inner)(x))


@pytest.mark.parametrize("n, extra", [(8, 1), (16, 2)])
def test_recursion_keeps_a_logarithm(kept, n, extra):
    assert kept(chain([jnp.sin] * n), 3.0) == ["f32[] output of cos"] * n
    lines = kept(halved([jnp.sin] * n), 3.0)
    assert lines == (
        ["f32[] from the argument x"]
        + ["f32[] output of sin"] * extra
        + ["f32[] output of cos"] * 2
    )
    close(jax.grad(halved([jnp.sin] * n))(3.0), jax.grad(chain([jnp.sin] * n))(3.0))


def test_layers_in_a_scan():
    params = jnp.array([[[0.5, 0.5], [1.0, 1.0]]] * 3), jnp.full((3, 2), 0.5)

    def net(step):
        return lambda params, x: jnp.sum(jax.lax.scan(step, x, params)[0])

    def step(x, p):
        w, b = p
        return jnp.maximum(jnp.dot(x, w) + b, 0.0), None

    x = jnp.array([1.0, -0.25])
    expected = jax.grad(net(step))(params, x)
    for policy in (None, POLICIES.dots_with_no_batch_dims_saveable):
        lean = jax.checkpoint(step, policy=policy, prevent_cse=False)
        for got, want in zip(jax.jit(jax.grad(net(lean)))(params, x), expected):
            close(got, want)


def test_static_arguments():
    @functools.partial(jax.checkpoint, static_argnums=(1,))
    def f(x, train):
        return jnp.sin(x) if train else x

    assert float(jax.grad(f)(0.0, True)) == float(jax.grad(f)(0.0, False)) == 1.0
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.checkpoint(lambda x, train: x if train else -x)(1.0, True)


def test_in_a_jaxpr():
    text = str(jax.make_jaxpr(jax.checkpoint(jnp.sin))(1.0))
    for part in ("remat2[", "differentiated=False", "policy=None", "prevent_cse=True", "sin"):
        assert part in text
    assert "name[name=here] a" in str(jax.make_jaxpr(lambda x: checkpoint_name(x, "here"))(1.0))


def test_offloading():
    policy = POLICIES.save_and_offload_only_these_names(
        names_which_can_be_saved=["y"],
        names_which_can_be_offloaded=["z"],
        offload_src="device",
        offload_dst="pinned_host",
    )

    @functools.partial(jax.checkpoint, policy=policy)
    def f(x):
        y = checkpoint_name(jnp.sin(x), "y")
        return jnp.sum(checkpoint_name(jnp.sin(y), "z"))

    x = jnp.arange(3.0)
    close(jax.grad(f)(x), np.cos(np.sin(np.arange(3.0))) * np.cos(np.arange(3.0)))
