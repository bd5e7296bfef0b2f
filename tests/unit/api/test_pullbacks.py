"""What `vjp` returns: which arguments it keeps, and cotangents that go elsewhere."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp

X, W = gnp.ones((3, 4)), gnp.arange(16.0).reshape(4, 4)


def layer(x, w):
    return (1.0 * x @ w) * 2.0


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit], ids=["eager", "jit"])
def test_arguments_are_taken_out_and_put_back(wrap):
    y, f_vjp = wrap(lambda x, w: ga.vjp(layer, x, w))(X, W)
    f_vjp = ga.vjp(layer, X, W)[1] if wrap is not ga.jit else f_vjp
    want = [a.tolist() for a in ga.vjp(layer, X, W)[1](y)]
    if wrap is not ga.jit:  # under jit the arguments were tracers
        assert f_vjp.args_res[0] == ga.vjp(layer, X, W)[1].args_res[0]
        assert f_vjp.args_res[1] is W and len(f_vjp.opaque_residuals) == 1
    kept = f_vjp.args_res
    f_vjp.args_res = [None, None]
    with pytest.raises(ValueError, match="layer needs the arguments that were taken out"):
        f_vjp(y)
    f_vjp.args_res = kept
    assert [a.tolist() for a in f_vjp(y)] == want
    # Through jit and back, in halves.
    half = ga.jit(lambda f: f)(f_vjp)
    assert [a.tolist() for a in ga.jit(lambda f, ct: f(ct))(half, y)] == want


def test_pytrees_of_arguments():
    _, f_vjp = ga.vjp(lambda d: d["a"] * d["b"], {"a": X, "b": 2 * X})
    assert f_vjp.args_res[0]["a"] is X and not f_vjp.opaque_residuals
    f_vjp.args_res = [{"a": 5 * X, "b": 7 * X}]  # other values: another point
    (got,) = f_vjp(X)
    assert got["a"][0, 0] == 7.0 and got["b"][0, 0] == 5.0


def test_arguments_that_are_not_read():
    _, f_vjp = ga.vjp(gnp.sin, X)
    assert type(f_vjp.args_res[0]).__name__ == "NotNeeded" and f_vjp.opaque_residuals
    np.testing.assert_allclose(f_vjp(X)[0], np.cos(X), rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit], ids=["eager", "jit"])
def test_cotangents_are_added_to_references(wrap):
    total = ga.new_ref(gnp.ones((4, 4)))
    y, f_vjp = ga.vjp(layer, X, W)
    add = f_vjp.with_refs(ga.ad.DontWant(), total)
    expected = np.asarray(f_vjp(y)[1])
    for n in (1, 2):
        one, two = wrap(lambda: add(y))()
        assert (one, two) == (ga.ad.DidntWant(), ga.ad.GradRef())
        np.testing.assert_allclose(total[...], 1 + n * expected, rtol=1e-6)
    one, two = f_vjp.with_refs(ga.ad.GradValue(), ga.ad.GradValue())(y)
    assert one.shape == X.shape and two.tolist() == expected.tolist()
    with pytest.raises(ValueError, match="with_refs takes what to do with the cotangents of all"):
        f_vjp.with_refs(total)


def test_arguments_that_are_none_are_no_values():
    w = gnp.arange(3.0)
    # One more argument is kept, whose number must not be moved by those that are None.
    f = lambda none, x, tree, w: (x * w).sum() if none is None else none
    out, f_vjp = ga.vjp(f, None, w, {"a": None, "b": 2.0}, w + 1)
    none, x, rest, last = f_vjp(1.0)
    assert none is None and rest["a"] is None and rest["b"] == 0
    np.testing.assert_array_equal(x, w + 1)
    np.testing.assert_array_equal(last, w)
    kept, f_vjp.args_res = f_vjp.args_res, [None, None, {"a": None, "b": None}, None]
    with pytest.raises(ValueError, match="were taken out"):
        f_vjp(1.0)
    f_vjp.args_res = kept
    np.testing.assert_array_equal(f_vjp(1.0)[1], w + 1)


@pytest.mark.parametrize("ct", [5, np.int32(5), 2.5, np.zeros((), ga.dtypes.float0)])
def test_any_cotangent_of_an_integer_result_will_do(ct):
    _, f_vjp = ga.vjp(lambda x: (2 * x, gnp.int32(3)), 1.0)
    assert f_vjp((1.0, ct)) == (2.0,)
    with pytest.raises(ValueError, match="unexpected JAX type"):
        f_vjp((1.0, np.zeros(2)))
