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


def test_a_transposed_function_is_a_pytree():
    scale = gnp.arange(3.0)
    made = ga.jit(lambda x, s: ga.linear_transpose(lambda x: s * x, x))(gnp.ones(3), scale)
    assert len(ga.tree_util.tree_leaves(made)) == 1
    (out,) = ga.jit(lambda f, ct: f(ct))(made, gnp.ones(3))
    np.testing.assert_array_equal(out, scale)
    with pytest.raises(TypeError, match="cotangent tree does not match"):
        made((1.0, 2.0))


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit], ids=["eager", "jit"])
def test_the_transpose_of_a_loop_over_values_and_tangents(wrap):
    """x, sin(x), sin(sin(x)) by a loop: the values are known, and only the tangents transposed."""

    def powers(x):
        return ga.lax.scan(lambda c, _: (gnp.sin(c), c), x, None, length=3)[1]

    @wrap
    def pulled(x, ct):
        pushed = lambda v: ga.jvp(powers, (x,), (v,))[1]
        return ga.linear_transpose(pushed, x)(ct)[0]

    x, ct = 0.7, np.array([1.0, -2.0, 3.0], np.float32)
    slopes = [1, np.cos(x), np.cos(np.sin(x)) * np.cos(x)]
    np.testing.assert_allclose(pulled(x, ct), ct @ slopes, rtol=1e-6)


def test_names_of_transformed_functions():
    def step(x):
        return x + 1

    graph = ga.make_jaxpr(step)
    assert graph.__name__ == "make_jaxpr(step)" and graph.__qualname__.endswith("<locals>.step)")
    assert repr(ga.jit(step)) == f"<PjitFunction of {step!r}>"

    class Mute:
        def __call__(self):
            return 1

        def __repr__(self):
            raise ValueError("no name")

    assert repr(ga.jit(Mute())) == "<PjitFunction>"


def test_derivatives_of_integers_take_no_part_in_arithmetic():
    zero = ga.grad(lambda x: x + 0.0, allow_int=True)(1)
    with pytest.raises(TypeError, match="float0s do not support any operations by design"):
        ga.lax.add(zero, gnp.zeros(()))
    with pytest.raises(TypeError, match="float0s do not support any operations by design"):
        gnp.add(zero, gnp.zeros(()))


def test_what_is_not_wanted_is_not_computed():
    x, y = gnp.arange(3.0), gnp.arange(1.0, 4.0)
    f = lambda x, y: (gnp.sin(x) * y + x * x, x - 2 * y)
    _, pull = ga.vjp(f, x, y)
    both = pull((gnp.ones(3), gnp.ones(3)))
    unwanted, wanted = ga.ad.DontWant(), ga.ad.GradValue()
    for number in (0, 1):
        wish = [unwanted, unwanted]
        wish[number] = wanted
        found = pull.with_refs(*wish)((gnp.ones(3), gnp.ones(3)))
        assert found[1 - number] == ga.ad.DidntWant()
        np.testing.assert_array_equal(found[number], both[number])
    _, pull = ga.vjp(lambda x, y: x * y, x, y)
    ones = gnp.ones(3)
    one = ga.jit(lambda: pull.with_refs(unwanted, wanted)(ones))
    assert [e.primitive.name for e in one.trace().jaxpr.eqns] == ["mul"]


def test_a_pullback_keeps_nothing_for_dead_operations():
    def f(x):
        _ = x * np.zeros(300)  # nobody reads it
        return 2 * x

    _, pull = ga.vjp(f, 3.0)
    assert "300" not in str(pull) and all(x.size < 300 for x in ga.tree.leaves(pull))
    assert float(pull(1.0)[0]) == 2


def test_shardings_of_results_are_known_before_they_are_computed():
    laid = ga.sharding.SingleDeviceSharding(ga.devices()[0])
    f = ga.jit(lambda x: (2 * x, x), out_shardings=(laid, None))
    out = f.eval_shape(np.arange(8))
    assert (out[0].sharding, out[1].sharding, out[0].shape) == (laid, None, (8,))


def test_a_mapped_function_says_what_it_maps():
    def superfun(a):
        """Does things with stuff."""

    words = ga.vmap(superfun).__doc__
    assert words is not None and words.startswith("Vectorized version of superfun")
    assert words.endswith("Original documentation:\n\nDoes things with stuff.")
    assert ga.vmap(lambda x: x).__doc__ is None
