"""ops.segment_*, flatten_util.ravel_pytree, experimental.ode.odeint."""

import numpy as np
import pytest
import scipy.integrate

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import ops
from gpuarray.experimental.ode import odeint
from gpuarray.flatten_util import ravel_pytree
from gpuarray.test_util import check_grads

rng = np.random.default_rng(4)
FOLDS = {
    "segment_sum": (np.add, 0),
    "segment_prod": (np.multiply, 1),
    "segment_max": (np.maximum, -np.inf),
    "segment_min": (np.minimum, np.inf),
}


def by_hand(name, data, ids, count):
    ufunc, start = FOLDS[name]
    if data.dtype.kind == "i" and np.isinf(start):
        info = np.iinfo(data.dtype)
        start = info.min if start < 0 else info.max
    out = np.full((count, *data.shape[ids.ndim :]), start, data.dtype)
    for at in np.ndindex(ids.shape):
        if 0 <= ids[at] < count:
            out[ids[at]] = ufunc(out[ids[at]], data[at])
    return out


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("dtype", ["f4", "i4"])
@pytest.mark.parametrize("shape", [(9,), (9, 2), (3, 3), (0,)])
def test_segments(name, dtype, shape):
    f = getattr(ops, name)
    data = rng.integers(-4, 5, shape).astype(dtype)
    for rank in range(1, len(shape) + 1):
        ids = rng.integers(-1, 6, shape[:rank])
        expected = by_hand(name, data, ids, 4)
        for options in ({}, {"bucket_size": 2}):
            np.testing.assert_array_equal(np.asarray(f(data, ids, 4, **options)), expected)
            jitted = ga.jit(lambda d, i, options=options: f(d, i, 4, **options))(data, ids)
            np.testing.assert_array_equal(np.asarray(jitted), expected)
    ids = np.sort(rng.integers(0, 5, shape[:1]))
    count = ids.max(initial=-1) + 1
    found = f(data, ids, indices_are_sorted=True)
    np.testing.assert_array_equal(np.asarray(found), by_hand(name, data, ids, count))


def test_segments_under_transforms():
    data, ids = rng.standard_normal((3, 8)), rng.integers(0, 3, (3, 8))
    with ga.enable_x64(True):
        for name in ("segment_sum", "segment_max", "segment_min"):
            f = lambda x, name=name: getattr(ops, name)(x, ids[0], 3)
            check_grads(f, (data[0],), order=1)
        one_by_one = [ops.segment_sum(d, i, 3) for d, i in zip(data, ids, strict=True)]
        mapped = ga.vmap(lambda d, i: ops.segment_sum(d, i, 3))(data, ids)
        np.testing.assert_allclose(np.asarray(mapped), np.stack(one_by_one))


def test_segments_of_booleans_and_clipped_numbers():
    x, ids = np.array([True, False, False]), np.array([0, 0, 1])
    assert ops.segment_max(x, ids, 3).tolist() == [True, False, False]
    assert ops.segment_min(x, ids, 3).tolist() == [False, False, True]
    found = ops.segment_sum(gnp.ones(3), gnp.array([0, 9, -4]), 3, mode="clip")
    assert found.tolist() == [2.0, 0.0, 1.0]
    assert ops.segment_sum(3.0, 1, 2).tolist() == [0.0, 3.0]


def test_one_value_for_all_segments():
    """References: JAX 0.10.2."""
    ids = gnp.array([0, 0, 2])
    assert ops.segment_sum(2.0, ids).tolist() == [4.0, 0.0, 2.0]
    assert ops.segment_prod(3, ids, num_segments=3).tolist() == [9, 1, 3]
    assert ops.segment_max(gnp.float32(2), ids).tolist() == [2.0, -np.inf, 2.0]
    assert ops.segment_sum(gnp.ones((1, 2)), ids).tolist() == [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
    assert ops.segment_min(gnp.ones(1), ids, bucket_size=2).tolist() == [1.0, np.inf, 1.0]
    assert ga.grad(lambda x: ops.segment_sum(x, ids).sum())(2.0) == 3.0


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (TypeError, "ndarray or scalar", lambda: ops.segment_sum([1.0], [0])),
        (TypeError, "Only integer", lambda: ops.segment_sum(gnp.ones(2), gnp.ones(2), 2)),
        (TypeError, "bool", lambda: ops.segment_sum(gnp.ones(2, bool), gnp.zeros(2, int), 2)),
        (ValueError, "non-negative", lambda: ops.segment_sum(gnp.ones(2), gnp.zeros(2, int), -1)),
        (ValueError, "Incompatible", lambda: ops.segment_sum(gnp.ones(2), gnp.zeros(3, int), 2)),
        (ValueError, "mode", lambda: ops.segment_sum(gnp.ones(2), gnp.zeros(2, int), 2, mode="x")),
        (
            ga.errors.ConcretizationTypeError,
            "num_segments",
            lambda: ga.jit(ops.segment_sum)(gnp.ones(2), gnp.zeros(2, int)),
        ),
    ],
)
def test_segments_refuse(error, words, call):
    with pytest.raises(error, match=words):
        call()


# ---- ravel_pytree


def test_ravel_pytree_there_and_back():
    tree = {"a": gnp.arange(6.0).reshape(2, 3), "b": (gnp.float32(7), None, gnp.zeros((0, 2)))}
    flat, unravel = ravel_pytree(tree)
    assert flat.tolist() == [0, 1, 2, 3, 4, 5, 7] and flat.dtype == np.float32
    back = unravel(flat * 2)
    assert ga.tree.structure(back) == ga.tree.structure(tree)
    assert back["a"].tolist() == [[0, 2, 4], [6, 8, 10]] and back["b"][2].shape == (0, 2)
    assert unravel(flat.astype("float16"))["a"].dtype == np.float16
    assert ga.jit(lambda t: ravel_pytree(t)[0])(tree).tolist() == flat.tolist()
    grads = ga.grad(lambda t: (ravel_pytree(t)[0] ** 2).sum())(tree)
    assert grads["a"].tolist() == (2 * tree["a"]).tolist()


def test_ravel_pytree_of_several_dtypes():
    flat, unravel = ravel_pytree([gnp.float32(1.5), gnp.int32(2)])
    assert flat.dtype == np.float32
    assert [x.dtype for x in unravel(flat)] == [np.float32, np.int32]
    with pytest.raises(TypeError, match="expected dtype float32"):
        unravel(gnp.array([1, 2]))
    with pytest.raises(ValueError, match="Sum of sizes 2"):
        unravel(gnp.ones(3))
    assert ravel_pytree([])[0].shape == (0,) and ravel_pytree([])[1](gnp.ones(0)) == []
    with pytest.raises(TypeError):
        ravel_pytree("a")


# ---- odeint


def pendulum(y, t, drag, drive):
    return gnp.stack([y[1], -gnp.sin(y[0]) - drag * y[1] + drive["a"] * gnp.cos(t)])


TIMES = np.array([0.0, 0.3, 1.0, 2.5, 2.6])


def test_odeint_is_scipys():
    with ga.enable_x64(True):
        found = odeint(
            pendulum, gnp.array([1.0, 0.2]), TIMES, 0.3, {"a": 0.5}, rtol=1e-10, atol=1e-10
        )
        drive = lambda y, t: np.array([y[1], -np.sin(y[0]) - 0.3 * y[1] + 0.5 * np.cos(t)])
        expected = scipy.integrate.odeint(drive, [1.0, 0.2], TIMES, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(np.asarray(found), expected, atol=1e-8)
        rough = odeint(
            pendulum, gnp.array([1.0, 0.2]), TIMES, 0.3, {"a": 0.5}, rtol=1e-3, atol=1e-3
        )
        worst = abs(np.asarray(rough) - expected).max()
        assert 1e-8 < worst < 1e-2


def test_odeint_of_pytrees_and_numbers():
    f = lambda y, t: {"a": -y["a"], "b": (y["a"].sum(),)}
    out = odeint(f, {"a": gnp.ones((2, 3)), "b": (0.0,)}, gnp.array([0.0, 1.0]))
    assert out["a"].shape == (2, 2, 3) and out["b"][0].shape == (2,)
    np.testing.assert_allclose(np.asarray(out["b"][0][1]), 6 * (1 - np.exp(-1)), rtol=1e-5)
    turn = odeint(lambda y, t: 1j * y, gnp.ones(1, complex), gnp.array([0.0, np.pi / 2]))
    np.testing.assert_allclose(np.asarray(turn[1]), [1j], atol=1e-5)
    assert odeint(lambda y, t: -y, 1.0, gnp.array([0.5])).tolist() == [1.0]


def test_derivatives_of_odeint():
    with ga.enable_x64(True):

        def final(y0, drag, a, end):
            times = gnp.stack([gnp.zeros_like(end), end / 2, end])
            return odeint(pendulum, y0, times, drag, {"a": a}, rtol=1e-10, atol=1e-10)[1:]

        args = gnp.array([1.0, 0.2]), 0.3, 0.5, gnp.float64(1.5)
        check_grads(final, args, order=1, modes=("rev",), atol=1e-5, rtol=1e-5)

        def closed(k):  # what the function closes over, and a second derivative
            return odeint(lambda y, t: -k * y, 1.0, gnp.array([0.0, 1.0]), rtol=1e-10, atol=1e-10)[
                -1
            ]

        assert float(ga.grad(closed)(2.0)) == pytest.approx(-np.exp(-2), rel=1e-7)
        assert float(ga.grad(ga.grad(closed))(2.0)) == pytest.approx(np.exp(-2), rel=1e-6)
        power = lambda n: odeint(lambda y, t, n: -y * n, 1.0, gnp.array([0.0, 1.0]), n)[-1]
        assert float(power(2)) == pytest.approx(np.exp(-2), rel=1e-6)


def test_odeint_under_jit_and_vmap():
    times = gnp.array([0.0, 0.5, 1.0])
    f = lambda y, k: odeint(lambda y, t, k: -k * y, y, times, k)
    ys, ks = gnp.array([1.0, 2.0]), gnp.array([0.5, 9.0])
    expected = np.asarray(ys)[:, None] * np.exp(-np.asarray(ks)[:, None] * np.asarray(times))
    np.testing.assert_allclose(np.asarray(ga.jit(ga.vmap(f))(ys, ks)), expected, atol=1e-5)
    grads = ga.vmap(ga.grad(lambda y, k: f(y, k)[-1], argnums=1))(ys, ks)
    np.testing.assert_allclose(np.asarray(grads), -expected[:, -1], atol=1e-4)


def test_odeint_limits():
    decay = lambda y, t: -y
    few = odeint(decay, 1.0, gnp.array([0.0, 9.0]), mxstep=2)
    assert abs(float(few[1]) - np.exp(-9)) > 1e-3
    fine = odeint(decay, 1.0, gnp.array([0.0, 1.0]), rtol=1.0, atol=1.0, hmax=0.01)
    assert float(fine[1]) == pytest.approx(np.exp(-1), rel=1e-5)
    assert np.isnan(odeint(decay, 1.0, gnp.array([1.0, 0.0]))[1])  # times must ascend


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("args must be arrays", lambda: odeint(lambda y, t, a: y, 1.0, gnp.ones(2), "a")),
        ("array of floats", lambda: odeint(lambda y, t: y, 1.0, gnp.arange(2))),
        ("as much as y0", lambda: odeint(lambda y, t: y[:1], gnp.ones(2), gnp.ones(2))),
    ],
)
def test_odeint_refuses(words, call):
    with pytest.raises(TypeError, match=words):
        call()


def test_unravelling_is_equal_for_equal_structures():
    (flat, back), (_, again) = [ravel_pytree((gnp.arange(2), {"a": gnp.ones(3)})) for _ in "ab"]
    other = ravel_pytree((gnp.arange(3), {"a": gnp.ones(2)}))[1]
    assert back == again and hash(back) == hash(again) and back != other
    traced = []
    run = ga.jit(lambda x, f: traced.append(x) or f(x + 1), static_argnums=1)
    for each in (back, again):
        assert run(flat, each)[1]["a"].tolist() == [2.0, 2.0, 2.0]
    assert len(traced) == 1 and ga.tree.leaves(back) == [back]
