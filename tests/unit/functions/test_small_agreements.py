"""Arguments and results as JAX's users know them, where one could expect something else."""

from functools import partial

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, random
from gpuarray.interpreters import ad

X = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)

#: Two axes, as any kind of sequence.
AXES = [(0, 2), [0, 2], range(0, 3, 2), np.array([0, 2]), np.array([0, -1], np.int8)]


@pytest.mark.parametrize("axis", AXES, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("name", ["sum", "max", "mean", "prod", "all", "median", "std", "ptp"])
def test_axes_are_any_sequence(name, axis):
    got = getattr(gnp, name)(gnp.asarray(X), axis=axis)
    np.testing.assert_allclose(got, getattr(np, name)(X, axis=(0, 2)), rtol=1e-5)


@pytest.mark.parametrize("axis", AXES[1:-1], ids=lambda a: type(a).__name__)
def test_axes_of_movements_are_any_sequence(axis):
    assert gnp.expand_dims(X, axis).shape == np.expand_dims(X, (0, 2)).shape
    assert gnp.squeeze(X[:1, :, :1], axis).shape == (3,)
    assert gnp.moveaxis(X, axis, range(2)).shape == np.moveaxis(X, (0, 2), (0, 1)).shape
    assert gnp.sum(X, np.array(1)).shape == gnp.sum(X, gnp.array(1)).shape == (2, 4)


@pytest.mark.parametrize("wrong", [np.array([0.5]), "a", np.array([0, 0])])
def test_wrong_axes(wrong):
    with pytest.raises((TypeError, ValueError)):
        gnp.sum(X, wrong)


@pytest.mark.parametrize("x", [np.float32, "f4" and np.dtype("float32"), gnp.float32, 1.5, X])
def test_the_dtype_of_a_dtype(x):
    assert lax.dtype(x) == np.float32


def test_disable_jit_by_name():
    traced = []
    f = ga.jit(lambda x: traced.append(x) or x)
    with ga.disable_jit(disable=True):
        f(1.0), f(1.0)
    assert traced == [1.0, 1.0]
    with ga.disable_jit(disable=False):
        f(1.0), f(1.0)
    assert len(traced) == 3
    with pytest.raises(TypeError, match="takes one value, disable, got"):
        ga.disable_jit(enable=True)


def test_eval_shape_traces_once():
    traced = []

    def f(x):
        traced.append(x)
        return ga.ShapeDtypeStruct((2,), "int8"), x

    for _ in range(3):
        assert ga.eval_shape(f, X)[0] == ga.ShapeDtypeStruct((2,), "int8")
    assert len(traced) == 1
    with pytest.raises(TypeError, match="ShapeDtypeStruct does not have a value"):
        ga.jit(f)(X)


# ---- keys ----


def test_keys_where_numbers_are():
    key = random.key(7)
    assert random.key_data(gnp.zeros(3, key.dtype)).tolist() == [[0, 0]] * 3
    assert random.key_data(gnp.full((2,), 5, key.dtype)).tolist() == [[5, 5]] * 2
    assert random.key_data(gnp.full((2,), key)).tolist() == [[0, 7]] * 2
    both = random.split(key)
    assert gnp.isclose(both, both).all() and not gnp.isclose(both[0], both[1])
    assert gnp.allclose(both, both)
    with pytest.raises(TypeError, match="filled with a random key"):
        gnp.full((2,), key, "float32")


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit])
def test_keys_are_printed_as_words(wrap, capsys):
    wrap(lambda k: ga.debug.print("{}", k))(random.key(7))
    ga.effects_barrier()
    assert capsys.readouterr().out == "[0 7]\n"


# ---- arrays ----


def test_digits_are_labels():
    a = np.arange(6.0).reshape(2, 3)
    assert gnp.einsum("a1->1a", a).tolist() == a.T.tolist()
    assert gnp.einsum("12,23->13", a, a.T).tolist() == (a @ a.T).tolist()
    with pytest.raises(ValueError, match="not a valid symbol"):
        gnp.einsum("a*->a", a)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16"])
def test_infinity_starts_a_fold_of_integers(dtype):
    x = np.array([3, 1, 2, 5], dtype)
    windows = partial(lax.reduce_window, window_dimensions=(2,), window_strides=(1,))
    assert windows(x, -np.inf, lax.max).tolist() == [3, 2, 5]
    assert windows(x, np.inf, lax.min).tolist() == [1, 1, 2]
    assert lax.reduce(x, -float("inf"), lax.max, (0,)) == 5
    got = windows(x, -np.inf, lax.max, padding="SAME")
    assert got.dtype == dtype and got.tolist() == [3, 2, 5, 5]


def test_unravel_index_of_a_traced_shape():
    got = ga.jit(gnp.unravel_index)(np.array([5, 1, -1]), (2, 3))
    want = np.unravel_index([5, 1, 5], (2, 3))
    assert [g.tolist() for g in got] == [w.tolist() for w in want]


def test_vectorize_passes_none_on():
    seen = []

    def f(x, y, z):
        seen.append(y)
        return x + z

    x = np.arange(3.0)
    assert gnp.vectorize(f)(x, None, 1.0).tolist() == [1, 2, 3]
    summed = gnp.vectorize(lambda x, y: x.sum(), signature="(n),()->()")
    assert summed(X, None).tolist() == X.sum(-1).tolist()
    assert seen == [None]
    with pytest.raises(ValueError, match="Cannot pass None at locations"):
        summed(None, X)


def test_a_symbolic_zero_has_no_leaves():
    zero = ad.Zero(ga.core.ShapedArray((3,), "float32"))
    assert ga.tree.leaves([zero, 1]) == [1]
    leaves, spec = ga.tree.flatten({"a": zero})
    assert ga.tree.unflatten(spec, leaves)["a"].aval is zero.aval


@pytest.mark.parametrize(
    ("shape", "dx", "axis"),
    [
        ((3, 5), (3, 1), -1),
        ((2, 3), (3,), 0),
        ((3, 4, 5), (4, 5), 0),
        ((3, 4, 5), (3, 5), 1),
        ((3, 4, 5), (5,), 1),
        ((2, 3, 4, 5), (2, 1, 3, 5), 2),
        ((3, 4, 5), (2, 4, 5), 0),
    ],
)
def test_trapezoids_with_widths(shape, dx, axis):
    y = np.sin(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)
    widths = np.cos(np.arange(np.prod(dx), dtype=np.float32)).reshape(dx)
    steps = [slice(None)] * len(shape)
    left, right = list(steps), list(steps)
    left[axis], right[axis] = slice(None, -1), slice(1, None)
    want = (widths * (y[tuple(right)] + y[tuple(left)]) / 2).sum(axis)  # NumPy's definition
    np.testing.assert_allclose(gnp.trapezoid(y, dx=widths, axis=axis), want, rtol=1e-5, atol=1e-6)


def test_trapezoids_with_positions_of_fewer_axes():
    y, x = np.ones((2, 10, 2), np.float32), np.arange(20.0, dtype=np.float32).reshape(10, 2)
    assert gnp.trapezoid(y, x, axis=-2).tolist() == [[18.0, 18.0]] * 2
    assert gnp.trapezoid(y, x[:, 0], axis=1).tolist() == [[18.0, 18.0]] * 2


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (lambda: gnp.ones(2, 3), TypeError, r"Did you accidentally write .*ones\(2, 3\)"),
        (lambda: gnp.r_["asdf", [1]], ValueError, "could not understand directive 'asdf'"),
        (lambda: gnp.arange(2j), ValueError, "Passing complex start/stop/step to jnp.arange"),
        (lambda: gnp.size(X, (0, 0)), ValueError, "repeated axis"),
        (lambda: 1 in gnp.array(1), ValueError, "search array must be one-dimensional"),
        (
            lambda: ga.linear_transpose(lambda x: gnp.stack([x, x]), 1.0)(1.0),
            TypeError,
            "cotangent type does not match function output",
        ),
        (
            lambda: ga.grad(lambda x: x, has_aux=True)(1.0),
            TypeError,
            "two-element tuple",
        ),
    ],
)
def test_messages(call, error, phrase):
    with pytest.raises(error, match=phrase):
        call()


def test_the_name_of_what_make_jaxpr_returns():
    def foo(x):
        return x

    assert ga.make_jaxpr(foo).__name__ == "make_jaxpr(foo)"


@pytest.mark.parametrize("x", [np.arange(2), np.float32(1.0), np.zeros(0, np.int32)])
@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit])
def test_indices_are_integer_scalars(x, wrap):
    with pytest.raises(TypeError, match="Only integer scalar arrays can be converted to a scalar"):
        wrap(lambda x: range(3)[x])(gnp.asarray(x))


def test_large_integers_as_floats():
    assert lax.convert_element_type(2**100, "float32") == np.float32(2.0**100)
    with pytest.raises(OverflowError, match="too large to convert to int32"):
        lax.convert_element_type(2**100, "int32")


def test_copies_to_the_host_are_started_by_what_can():
    class Other:
        started = 0

        def copy_to_host_async(self):
            self.started += 1

    given = [object(), 1, Other(), gnp.ones(2)]
    assert ga.copy_to_host_async(given) is given and given[2].started == 1


def test_tangents_of_integers_are_equal():
    zero = np.zeros(3, ga.dtypes.float0)
    f = lambda x, i: x[i].sum()
    _, got = ga.jit(ga.grad(f, argnums=(0, 1), allow_int=True))(np.ones(4), np.array([0, 1, 3]))
    assert got.dtype == ga.dtypes.float0 and got.shape == (3,)
    assert (got == zero).all() and not (got != zero).any() and (zero == got).all()
    _, pull = ga.vjp(lambda x, y: x + y, 2, 1)
    for ct in ga.jit(pull)(np.zeros((), ga.dtypes.float0)):
        assert bool(ct == np.zeros((), ga.dtypes.float0))


@pytest.mark.parametrize("where", ["eager", "jit", "jit, made inside"])
def test_numbers_closed_over_are_constants_in_the_order_of_their_use(where):
    """Converted or not, so that programs of equal functions have equal constants (as in JAX)."""
    number, vector, found = gnp.array(2), gnp.ones(3), []

    def outer(number, vector):
        inner = lambda y: (gnp.arange(3) + number, vector + y, number + 1)
        found.extend(v.aval.shape for v in ga.make_jaxpr(inner)(0.0).jaxpr.constvars)
        return number

    if where == "jit, made inside":
        ga.jit(lambda vector: outer(gnp.array(2), vector))(vector)
    else:
        (ga.jit(outer) if where == "jit" else outer)(number, vector)
    assert found == [(), (3,)]
    assert not ga.make_jaxpr(lambda y: gnp.asarray(2.0) * y)(vector).consts  # made while tracing
