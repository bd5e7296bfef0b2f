"""Corners of functions: empty norms, large integers, traced ends, errors that name an argument.

References: NumPy, differences (for derivatives), mathematics.
"""

import functools

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import errors


@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0, 0)])
@pytest.mark.parametrize("ord", [1, 2, np.inf, "fro", "nuc"])
def test_the_norm_of_an_empty_matrix_is_zero(shape, ord):
    assert float(gnp.linalg.matrix_norm(gnp.zeros(shape), ord=ord)) == 0
    assert float(gnp.linalg.norm(gnp.zeros(shape), ord=ord)) == 0


@pytest.mark.parametrize("ord", [1, 2, 3, np.inf])
def test_the_norm_of_an_empty_vector_is_zero(ord):
    assert float(gnp.linalg.vector_norm(gnp.zeros(0), ord=ord)) == 0


def test_norms_with_nan_and_negative_orders_stay_as_they_were():
    x = np.array([[3.0, -np.inf], [np.nan, 1.0]])
    for ord in (np.inf, -np.inf, 1, -1):
        np.testing.assert_array_equal(
            gnp.linalg.norm(x, ord=ord), np.linalg.norm(x, ord=ord).astype("float32")
        )


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 4), (5, 3, 3)])
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_pinv_has_the_derivative_of_differences(shape, kind, rng):
    with ga.enable_x64(True):
        parts = rng.normal(size=(2, 2, *shape))
        a, da = parts[0] + (1j * parts[1] if kind == "complex128" else 0)
        _, dp = ga.jvp(gnp.linalg.pinv, (gnp.asarray(a),), (gnp.asarray(da),))
        h = 1e-6
        near = (np.linalg.pinv(a + h * da) - np.linalg.pinv(a - h * da)) / (2 * h)
        np.testing.assert_allclose(dp, near, rtol=1e-5, atol=1e-6)
        # Backwards: <ct, dP> is the same number.
        ct = gnp.asarray(rng.normal(size=near.shape).astype(kind))
        p, pull = ga.vjp(gnp.linalg.pinv, gnp.asarray(a))
        assert p.shape == near.shape
        (back,) = pull(ct)
        np.testing.assert_allclose(
            (back * da).sum().real, (ct * dp).sum().real, rtol=1e-9, atol=1e-9
        )


def test_pinv_of_hermitian_matrices_has_the_derivative_of_its_values(rng):
    """Its value is that of the mean with the adjoint, whatever is given."""
    a, da = (rng.normal(size=(2, 3, 3)) + 1j * rng.normal(size=(2, 3, 3))).astype("c16")
    mean = lambda x: (x + x.conj().T) / 2
    with ga.enable_x64():
        pinv = functools.partial(gnp.linalg.pinv, hermitian=True)
        p, dp = ga.jvp(pinv, (gnp.asarray(a),), (gnp.asarray(da),))
    expected = np.linalg.inv(mean(a))
    np.testing.assert_allclose(p, expected, atol=1e-9)
    np.testing.assert_allclose(dp, -expected @ mean(da) @ expected, atol=1e-9)


def test_pinv_is_differentiable_where_singular_values_are_equal():
    # d(A⁻¹) = -A⁻¹ dA A⁻¹, of the identity -dA.
    found = ga.jacobian(gnp.linalg.pinv)(gnp.eye(3))
    expected = -np.einsum("ik,jl->ijkl", np.eye(3), np.eye(3))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    # Where the rank stays 1, too.
    second = ga.hessian(lambda x: gnp.linalg.pinv(x * gnp.ones((2, 2))).sum())(2.0)
    np.testing.assert_allclose(second, 2 / 2.0**3, rtol=1e-5)  # of 1 / x


def test_only_one_tolerance_of_a_rank():
    with pytest.raises(ValueError, match="only one of tol or rtol"):
        gnp.linalg.matrix_rank(gnp.eye(2), rtol=0.1, tol=0.1)


@pytest.mark.parametrize("method", ["set", "add", "multiply", "min", "max"])
@pytest.mark.parametrize("index", [0, slice(None), np.array([1, 0]), np.array([True, False])])
def test_a_large_python_int_fits_an_unsigned_array(method, index):
    n = 2**32 - 1
    x = np.array([3, 5], np.uint32)
    wide = x.astype(object)  # Python's ints, taken modulo 2**32 afterwards
    part = {"add": wide + n, "multiply": wide * n, "min": wide}
    expected = wide.copy()
    expected[index] = part.get(method, wide * 0 + n)[index]
    expected = (expected % 2**32).astype(np.uint32)
    update = lambda x: getattr(x.at[index], method)(n)
    for f in (update, ga.jit(update)):
        out = f(gnp.asarray(x))
        assert out.dtype == np.uint32
        np.testing.assert_array_equal(out, expected)
    with pytest.raises(OverflowError):
        getattr(gnp.asarray(x).at[index], method)(2**32)
    with pytest.raises(OverflowError):
        getattr(gnp.zeros(2, "int32").at[index], method)(n)


@pytest.mark.parametrize("k", [2**40, -(2**40), 2**100, -(2**100)])
def test_no_diagonal_is_too_far(k):
    np.testing.assert_array_equal(gnp.eye(3, k=k), np.zeros((3, 3)))
    if abs(k) < 2**64:
        np.testing.assert_array_equal(gnp.tri(3, k=k), np.full((3, 3), k > 0))


@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32"])
def test_sums_of_products_in_a_preferred_integer_type(name, dtype):
    a, b = np.arange(1, 6, dtype=dtype), np.arange(1, 3, dtype=dtype)
    out = getattr(gnp, name)(a, b, mode="full", preferred_element_type=dtype)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, getattr(np, name)(a, b, mode="full"))


@pytest.mark.parametrize("name", ["mgrid", "ogrid", "r_", "c_"])
@pytest.mark.parametrize("part", ["start", "stop", "step"])
def test_a_traced_end_of_a_grid_is_named(name, part):
    fixed = {"start": 0, "stop": 4, "step": 1}
    f = lambda x: getattr(gnp, name)[slice(*(fixed | {part: x}).values())]
    with pytest.raises(errors.ConcretizationTypeError, match=f"slice {part} of jnp.{name}"):
        ga.jit(f)(1)


def test_a_grid_of_ints_and_floats_needs_no_permission_to_mix():
    with ga.numpy_dtype_promotion("strict"):
        found = gnp.mgrid[1:6:8j, 2:4]
    np.testing.assert_allclose(found, np.mgrid[1:6:8j, 2:4], rtol=1e-6)


def test_limits_that_are_complex_are_that_error_under_any_setting():
    for setting in ("standard", "strict"):
        for limits in ({"min": -1 + 5j}, {"max": gnp.array([-1 + 5j])}):
            with ga.numpy_dtype_promotion(setting), pytest.raises(ValueError, match="no ordering"):
                gnp.clip(gnp.arange(5), **limits)


def test_where_broadcasts_ranks_under_any_setting():
    c, x, y = np.arange(3) > 0, np.ones(3), np.zeros((2, 3))
    with ga.numpy_rank_promotion("raise"):
        for args in ((c, x, y), (c, y, x), (True, x, y), (c, x, 0.0), (np.ones((2, 3)) > 0, x, 1)):
            np.testing.assert_array_equal(gnp.where(*args), np.where(*args))


def test_an_element_of_an_empty_axis_is_an_index_error():
    x = gnp.zeros((2, 0))
    for i in (0, gnp.int32(0)):
        with pytest.raises(IndexError, match="out of bounds for axis 1 with size 0"):
            ga.jit(lambda i: x[0, i])(i)


def test_what_an_array_can_contain():
    x = gnp.arange(4)
    assert 1 in x and 9 not in x and gnp.int32(2) in x
    for item in ("abc", None, [1]):
        with pytest.raises(TypeError, match="unsupported operand type"):
            _ = item in x


def test_lists_of_traced_complex_numbers_are_complex():
    seen = []
    ga.jit(lambda x: seen.append((gnp.iscomplexobj([x, 1]), gnp.iscomplexobj([[1.0], []]))))(1j)
    assert seen == [(True, False)]


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: gnp.interp(0.0, np.arange(3.0), np.arange(3.0), period=np.ones(1)),
         ValueError, "period must be a scalar"),
        (lambda: gnp.trace(gnp.zeros((2, 3, 2)), axis1=1, axis2=-2),
         ValueError, "axis1 and axis2 can not be same"),
        (lambda: gnp.tensordot(gnp.zeros(2), gnp.zeros(2), axes=(0, "a")), TypeError,
         "got axes=0 and 'a'"),
        (lambda: gnp.corrcoef(gnp.ones((2, 2)), dtype=int), ValueError, "corrcoef"),
        (lambda: ga.jit(ga.random.permutation)(ga.random.key(0), 3),
         errors.ConcretizationTypeError, "argument x of jax.random.permutation"),
        (lambda: ga.jit(lambda k: ga.random.choice(ga.random.key(0), k))(3),
         errors.ConcretizationTypeError, "argument a of jax.random.choice"),
        (lambda: ga.random.loggamma(ga.random.split(ga.random.key(0)), 1.0),
         ValueError, "loggamma accepts a single key"),
        (lambda: ga.jit(lambda x: x.tolist())(gnp.ones(2)),
         errors.ConcretizationTypeError, "tolist.. method was called on traced array"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("wrap", [ga.jit, ga.vmap])
def test_what_no_value_would_make_clear_is_said_so(wrap):
    add = (lambda x: x[None]) if wrap is ga.vmap else lambda x: x
    for python in (int, float, complex):
        with pytest.raises(TypeError, match="Only scalar arrays can be converted"):
            wrap(lambda x: python(x))(add(gnp.arange(3)))  # noqa: B023
        with pytest.raises(errors.ConcretizationTypeError, match=f"x.astype.{python.__name__}"):
            wrap(lambda x: python(x))(add(gnp.int32(3)))  # noqa: B023
    with pytest.raises(ValueError, match="more than one element is ambiguous"):
        wrap(lambda x: bool(x))(add(gnp.arange(3)))
    with pytest.raises(ValueError, match="empty array is ambiguous"):
        wrap(lambda x: bool(x))(add(gnp.arange(0)))
    with pytest.raises(errors.TracerBoolConversionError):
        wrap(lambda x: bool(x))(add(gnp.arange(1)))


class Duck:
    """An array of the user's, known by `__jax_array__` alone."""

    def __init__(self, x):
        self.x = x

    def __jax_array__(self):
        return gnp.asarray(self.x)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i, m: gnp.delete(x, i),
        lambda x, i, m: gnp.roll(x, i),
        lambda x, i, m: gnp.insert(x, i, 9),
        lambda x, i, m: gnp.stack(gnp.tril_indices_from(m)),
        lambda x, i, m: gnp.stack(gnp.triu_indices_from(m, 1)),
    ],
)
def test_arrays_of_the_users_own(call):
    x, i, m = np.arange(5), np.int32(2), np.ones((3, 4))
    np.testing.assert_array_equal(call(Duck(x), Duck(i), Duck(m)), call(x, i, m))


def test_a_roll_along_no_axis():
    x = np.arange(6.0).reshape(2, 3)
    for axes in ((), []):
        np.testing.assert_array_equal(gnp.fft.fftshift(x, axes=axes), x)
        np.testing.assert_array_equal(gnp.fft.ifftshift(x, axes=axes), x)
    np.testing.assert_array_equal(gnp.roll(x, ()), x)
    with pytest.raises(TypeError, match="integer shift"):
        gnp.roll(x, 1.5)


@pytest.mark.parametrize("solver", ["cg", "gmres", "bicgstab"])
def test_solvers_take_what_multiplies_arrays(solver):
    class Twice:
        def __matmul__(self, x):
            return 2 * x

    b = gnp.arange(9.0).reshape(3, 3)
    found, _ = getattr(ga.scipy.sparse.linalg, solver)(Twice(), b)
    np.testing.assert_allclose(found, b / 2, rtol=1e-6)
    with pytest.raises(TypeError, match="linear operator"):
        getattr(ga.scipy.sparse.linalg, solver)("text", b)


@pytest.mark.parametrize("index", [(((1, 1), (1, 0)), 2), ((1, 0), (1, 2)), (0, ((1,), (2,)))])
def test_indices_in_nested_tuples_may_be_traced(index):
    x = np.arange(42).reshape(2, 3, 7)
    np.testing.assert_array_equal(ga.jit(lambda x, i: x[i])(x, index), x[index])
    y = x.copy()
    y[index] = 0
    np.testing.assert_array_equal(ga.jit(lambda x, i: x.at[i].set(0))(x, index), y)


def test_positions_promised_in_bounds_are_not_wrapped():
    x, i = gnp.array([10, 20, 30]), gnp.array([2, 0])
    text = lambda **kw: str(ga.make_jaxpr(lambda i: gnp.take_along_axis(x, i, axis=0, **kw))(i))
    promised = {"mode": "promise_in_bounds"}
    assert " lt " not in text(**promised) and " lt " in text()
    assert " lt " in text(**promised, wrap_negative_indices=True)
    assert gnp.take_along_axis(x, i, axis=0, **promised).tolist() == [30, 10]
    assert gnp.take_along_axis(x, -i, axis=0).tolist() == [20, 10]


@pytest.mark.parametrize("shape", [(3000, 2), (2, 3000)])
def test_the_derivative_of_pinv_makes_no_large_squares(shape, rng):
    a = gnp.asarray(rng.normal(size=shape).astype("float32"))
    graph = ga.make_jaxpr(lambda a, da: ga.jvp(gnp.linalg.pinv, (a,), (da,)))(a, a)
    assert all("3000,3000" not in line for line in str(graph).splitlines())
    _, dp = ga.jvp(gnp.linalg.pinv, (a,), (a,))
    # Along a itself: pinv(t a) = pinv(a) / t.
    np.testing.assert_allclose(dp, -np.linalg.pinv(a), atol=1e-5)


def _functions():
    made = ((name, getattr(gnp, name)) for name in dir(gnp) if not name.startswith("_"))
    return [(name, f) for name, f in made if callable(f) and not isinstance(f, type)]


@pytest.mark.filterwarnings("ignore")
def test_python_numbers_inside_a_trace():
    # What a traced function computes of a Python number is traced, as what it computes of arrays.
    failed, ran = [], 0
    for name, f in _functions():
        try:
            ran += ga.eval_shape(lambda f=f: f(2.0)) is not None
        except (AttributeError, KeyError, UnboundLocalError, AssertionError) as error:
            failed.append(f"{name}: {error}")
        except Exception:  # refused: it takes other arguments, or values that are known
            continue
    assert not failed and ran > 100
