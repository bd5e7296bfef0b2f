"""Composites, platforms, tokens, placement, and the polar decomposition."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax


def test_composite_is_a_named_unit_under_every_transform():
    scaled = lax.composite(lambda x, *, by: by * x * x, "my.scaled", version=2)
    assert (scaled.name, scaled.version) == ("my.scaled", 2)
    assert float(scaled(3.0, by=2.0)) == 18.0
    assert "name=my.scaled" in str(ga.make_jaxpr(lambda x: scaled(x, by=2.0))(1.0))
    assert float(ga.grad(lambda x: scaled(x, by=2.0))(3.0)) == 12.0
    assert ga.vmap(lambda x: scaled(x, by=2.0))(gnp.arange(3.0)).tolist() == [0.0, 2.0, 8.0]
    by = gnp.array([1.0, 2.0])  # an array is an attribute too
    assert scaled(by, by=by).tolist() == [1.0, 8.0]
    with pytest.raises(TypeError, match="name of a composite must be a string"):
        lax.composite(lambda x: x, 3)


@pytest.mark.on_cpu("its branch is taken")
def test_platform_dependent():
    run = lambda x: lax.platform_dependent(x, cpu=lambda v: v + 1, cuda=lambda v: v + 2)
    assert float(run(1.0)) == float(ga.jit(run)(1.0)) == 2.0
    assert float(lax.platform_dependent(1.0, cuda=lambda v: v, default=lambda v: v - 1)) == 0.0
    with pytest.raises(NotImplementedError, match="none for cpu: give one, or a `default`"):
        lax.platform_dependent(1.0, cuda=lambda v: v)


def test_tokens_and_sinks():
    token = lax.after_all(lax.create_token(), gnp.ones(2))
    assert token.shape == (0,)
    assert lax.dce_sink({"a": 1.0}) is None
    sunk = ga.make_jaxpr(lambda x: (lax.dce_sink(x * 2), x)[1])(1.0)
    assert [e.primitive.name for e in sunk.eqns] == ["mul", "debug_callback"]
    assert float(ga.jit(lambda x: (lax.dce_sink(x * 2), x)[1])(1.0)) == 1.0


def test_with_sharding_constraint():
    here = ga.sharding.SingleDeviceSharding(ga.devices()[0])
    x = gnp.ones(3)
    placed = lambda v: lax.with_sharding_constraint(v, here)
    assert placed(x).tolist() == ga.jit(placed)(x).tolist() == [1.0] * 3
    tree = lax.with_sharding_constraint({"a": x, "b": x}, {"a": here, "b": here})
    assert tree["a"].sharding == here
    P = ga.sharding.PartitionSpec
    mesh = ga.sharding.Mesh(np.array(ga.devices()[:1]), ("x",))
    cases = [
        (None, ValueError, "got sharding None"),
        (P("x"), RuntimeError, "non-empty mesh"),
        (3, TypeError, "got 3"),
        (ga.sharding.NamedSharding(mesh, P("x", None)), ValueError, "rank at least 2"),
    ]
    for sharding, error, words in cases:
        with pytest.raises(error, match=words):
            lax.with_sharding_constraint(x, sharding)


@pytest.mark.parametrize("shape", [(3, 3), (5, 2), (1, 1)])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_qdwh(shape, dtype):
    rng = np.random.default_rng(0)
    a = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype == "complex64" else 0)
    a = a.astype(dtype)
    u, h, steps, converged = ga.jit(lax.linalg.qdwh)(a)
    assert bool(converged) and int(steps) <= 6
    eye = np.eye(shape[1])
    np.testing.assert_allclose(np.asarray(u).conj().T @ np.asarray(u), eye, atol=2e-6)
    np.testing.assert_allclose(np.asarray(u) @ np.asarray(h), a, atol=5e-6)
    np.testing.assert_allclose(np.asarray(h), np.asarray(h).conj().T)
    assert (np.linalg.eigvalsh(np.asarray(h)) > -1e-5).all()


def test_qdwh_arguments():
    a = gnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    u, _, steps, converged = lax.linalg.qdwh(a, max_iterations=1)
    assert int(steps) == 1 and not bool(converged)
    u, *_ = lax.linalg.qdwh(a, dynamic_shape=(2, 2))
    small, *_ = lax.linalg.qdwh(a[:2])
    np.testing.assert_allclose(u[:2], small, atol=1e-6)
    assert u[2].tolist() == [0.0, 0.0]
    for bad, words in ((a.T, "must have M >= N"), (a[None], "one matrix"), (a > 0, "not inexact")):
        with pytest.raises(ValueError, match=words):
            lax.linalg.qdwh(bad)
