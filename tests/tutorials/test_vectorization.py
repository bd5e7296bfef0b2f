"""The tutorials "automatic vectorization" and "vectorised log-probabilities": vmap by hand and by
machine, its axes, and what it composes with.
"""

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import grad, jit, lax, vmap


def close(got, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got), expected, rtol=rtol, atol=atol)


def smooth(x, w):
    """Weighted sums over windows of three, written for one vector."""
    return jnp.array([jnp.dot(x[i - 1 : i + 2], w) for i in range(1, len(x) - 1)])


X, W = jnp.arange(6), jnp.array([1.0, 2.0, 4.0])
ONE = [10.0, 17.0, 24.0, 31.0]


def test_one_example():
    assert smooth(X, W).tolist() == ONE


def test_three_ways_to_batch():
    xs, ws = jnp.stack([X, 2 * X]), jnp.stack([W, W])
    expected = [ONE, [2 * v for v in ONE]]
    assert jnp.stack([smooth(x, w) for x, w in zip(xs, ws)]).tolist() == expected
    columns = [jnp.sum(xs[:, i - 1 : i + 2] * ws, axis=1) for i in range(1, 5)]
    assert jnp.stack(columns, axis=1).tolist() == expected
    assert vmap(smooth)(xs, ws).tolist() == expected
    assert jit(vmap(smooth))(xs, ws).tolist() == expected


def test_axes():
    xs, ws = jnp.stack([X, X]).T, jnp.stack([W, W]).T
    assert vmap(smooth, in_axes=1, out_axes=1)(xs, ws).T.tolist() == [ONE, ONE]
    assert vmap(smooth, in_axes=[0, None])(xs.T, W).tolist() == [ONE, ONE]
    assert vmap(smooth, in_axes=(-1, None), out_axes=-1)(xs, W).shape == (4, 2)
    assert vmap(lambda x: 3.0, out_axes=None)(X) == 3.0


def test_every_pair():
    def pairwise(f, xs):
        return vmap(lambda x: vmap(lambda y: f(x, y))(xs))(xs)

    points = jnp.array([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]])
    out = pairwise(lambda a, b: jnp.sqrt(jnp.sum((a - b) ** 2)), points)
    close(out, [[0, 5, 4], [5, 0, 3], [4, 3, 0]])


def test_axes_of_dicts():
    f = lambda p, x: p["k"] * x["a"] + x["b"]
    xs = {"a": jnp.arange(3.0), "b": 10.0}
    assert vmap(f, in_axes=(None, {"a": 0, "b": None}))({"k": 2.0}, xs).tolist() == [10, 12, 14]
    assert vmap(f, in_axes=(None, 0))({"k": 2.0}, {"a": xs["a"], "b": xs["a"]}).tolist() == [
        0,
        3,
        6,
    ]


def test_keyword_arguments_map_their_first_axis():
    assert vmap(lambda x, y: x + y)(jnp.arange(2), y=jnp.arange(2) * 10).tolist() == [0, 11]


def test_named_axes():
    x = jnp.arange(4.0)
    close(vmap(lambda v: v / lax.psum(v, "i"), axis_name="i")(x), np.arange(4) / 6)
    close(vmap(lambda v: v - lax.pmean(v, "i"), axis_name="i")(x), np.arange(4) - 1.5)
    assert vmap(lambda v: lax.axis_index("i"), axis_name="i")(x).tolist() == [0, 1, 2, 3]
    assert vmap(lambda _: jnp.ones(2), axis_size=3, in_axes=None)(1.0).shape == (3, 2)


@pytest.mark.parametrize(
    "run, error, phrase",
    [
        (lambda: vmap(jnp.add)(jnp.ones(2), jnp.ones(3)), ValueError, "inconsistent sizes"),
        (lambda: vmap(jnp.sin)(1.0), ValueError, "rank should be at least 1"),
        (
            lambda: vmap(jnp.sin, in_axes=2)(jnp.ones((2, 2))),
            ValueError,
            "rank should be at least 3",
        ),
        (lambda: vmap(jnp.sin, in_axes=(0, 0))(jnp.ones(2)), ValueError, "in_axes"),
        (lambda: vmap(jnp.sin, in_axes=None)(jnp.ones(2)), ValueError, "non-None"),
        (lambda: vmap(lambda x: x, out_axes=None)(jnp.ones(2)), ValueError, "out_axes"),
        (lambda: vmap(jnp.sin, in_axes="a")(jnp.ones(2)), TypeError, "in_axes"),
    ],
)
def test_mistakes(run, error, phrase):
    with pytest.raises(error, match=phrase):
        run()


def test_python_branches_see_one_tracer():
    with pytest.raises(jax.errors.TracerBoolConversionError):
        vmap(lambda x: x if x > 0 else -x)(jnp.arange(3.0) - 1)
    close(vmap(lambda x: jnp.where(x > 0, x, -x))(jnp.arange(3.0) - 1), [1, 0, 1])


def test_indexing_and_sorting_by_example():
    x = jnp.array([[3, 1, 2], [9, 8, 7]])
    assert vmap(jnp.sort)(x).tolist() == [[1, 2, 3], [7, 8, 9]]
    assert vmap(lambda row, i: row[i])(x, jnp.array([0, 2])).tolist() == [3, 7]
    assert vmap(lambda row, i: row.at[i].set(0))(x, jnp.array([0, 2])).tolist() == [
        [0, 1, 2],
        [9, 8, 0],
    ]
    assert vmap(jnp.dot)(x, x).tolist() == [14, 194]
    assert jnp.vectorize(smooth, signature="(n),(k)->(m)")(jnp.stack([X, X]), W).tolist() == [
        ONE,
        ONE,
    ]


# ---- log-probabilities by hand and by machine ----

DATA = jnp.array([[0.5, -1.0], [1.5, 0.3], [-0.2, 2.0], [0.7, 0.7], [-1.1, 0.1]])
SIGNS = jnp.array([1, 0, 1, 1, 0])


def log_joint(beta):
    prior = jnp.sum(-0.5 * beta**2)
    return prior + jnp.sum(-jnp.log(1 + jnp.exp(-(2 * SIGNS - 1) * jnp.dot(DATA, beta))))


def log_joint_batched_by_hand(betas):
    scores = jnp.dot(DATA, betas.T).T
    prior = jnp.sum(-0.5 * betas**2, axis=1)
    return prior + jnp.sum(-jnp.log(1 + jnp.exp(-(2 * SIGNS - 1) * scores)), axis=1)


def test_log_probabilities():
    betas = jax.random.normal(jax.random.key(10), (10, 2))
    close(vmap(log_joint)(betas), log_joint_batched_by_hand(betas), rtol=1e-4)
    close(vmap(log_joint)(betas), [log_joint(b) for b in betas], rtol=1e-4)


def test_variational_inference_climbs():
    def bound(location, log_scale, noise):
        betas = location + jnp.exp(log_scale) * noise
        return jnp.mean(vmap(log_joint)(betas), 0) + jnp.sum(log_scale)

    climb = jit(jax.value_and_grad(bound, argnums=(0, 1)))
    location, log_scale = jnp.zeros(2), jnp.zeros(2)
    noise = jax.random.normal(jax.random.key(3), (64, 2))
    values = []
    for _ in range(30):
        value, (dl, ds) = climb(location, log_scale, noise)
        location, log_scale = location + 0.1 * dl, log_scale + 0.1 * ds
        values.append(float(value))
    assert all(b > a - 1e-4 for a, b in zip(values, values[1:]))
    assert values[-1] > values[0] + 0.3


def test_gradients_an_example():
    f = lambda w, x, y: (jnp.dot(w, x) - y) ** 2
    w, ys = jnp.array([1.0, -1.0]), jnp.arange(5.0)
    each = jit(vmap(grad(f), in_axes=(None, 0, 0)))(w, DATA, ys)
    close(each, 2 * (np.asarray(DATA @ w) - np.arange(5.0))[:, None] * np.asarray(DATA), rtol=1e-4)
