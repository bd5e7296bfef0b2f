"""What the numpy namespace does with arguments: types, weak types, ranks, errors, kept plans.

In: pairs of operands. Out: the dtype and weak type they become, or the error they deserve.
"""

import enum
import warnings

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.core.promotion import TypePromotionError


class Wrapped:
    """Something that says itself how it becomes an array."""

    def __init__(self, x):
        self.x = x

    def __jax_array__(self):
        return self.x


class Number(enum.IntEnum):
    two = 2


F32, F16, I32, I8, U8, B, C64 = "float32", "float16", "int32", "int8", "uint8", "bool", "complex64"


def a(dtype):
    return gnp.ones(2, dtype)


@pytest.mark.parametrize(
    "x, y, dtype, weak",
    [
        (a(F32), a(I32), F32, False),
        (a(F16), 2.5, F16, False),
        (a(F16), np.float64(2.5), F32, False),  # NumPy scalars are strong, 64 bits narrow first
        (a(F16), a("bfloat16"), F32, False),
        (a(I8), a(U8), "int16", False),
        (a(U8), 3, U8, False),
        (a(I32), 2.5, F32, True),
        (a(I32), 1j, C64, True),
        (a(B), 2, I32, True),
        (a(B), a(I8), I8, False),
        (a(F32), True, F32, False),
        (1, 2, I32, True),
        (1, 2.0, F32, True),
        (True, True, B, False),
        (gnp.asarray(1), a(F16), F16, False),
        (gnp.asarray(1), 2.0, F32, True),
        (np.ones(2), 1, F32, False),
        (Wrapped(a(F16)), 1, F16, False),
        (Number.two, a(F16), F16, False),
        (Number.two, 1, I32, True),
    ],
)
def test_result_types(x, y, dtype, weak):
    for left, right in ((x, y), (y, x)):
        out = gnp.add(left, right)
        assert (out.dtype, out.weak_type) == (np.dtype(dtype), weak)
        again = gnp.add(left, right)  # by the plan that is kept
        assert (again.dtype, again.weak_type) == (np.dtype(dtype), weak)
    traced = ga.make_jaxpr(gnp.add)(gnp.asarray(x), gnp.asarray(y)).out_avals[0]
    assert traced.dtype == np.dtype(dtype)


@pytest.mark.parametrize(
    "x, dtype, weak",
    [
        (1, F32, True),
        (True, F32, False),
        (a(I8), F32, False),
        (a(F16), F16, False),
        (np.arange(2), F32, False),
        (2j, C64, True),
    ],
)
def test_real_functions_make_floats(x, dtype, weak):
    out = gnp.sin(x)
    assert (out.dtype, out.weak_type) == (np.dtype(dtype), weak)


def test_x64_and_strict_have_plans_of_their_own():
    x, y = a(F32), a(I32)
    assert gnp.add(x, y).dtype == np.float32
    with ga.enable_x64(True):
        assert gnp.add(np.ones(2), 1).dtype == np.float64
        assert gnp.sin(1).dtype == np.float64
        assert gnp.angle(a(I8)).dtype == np.float64
    assert gnp.add(np.ones(2), 1).dtype == np.float32
    with ga.numpy_dtype_promotion("strict"):
        assert gnp.add(x, 1).dtype == np.float32
        with pytest.raises(TypePromotionError, match="no available implicit dtype promotion path"):
            gnp.add(x, y)
    assert gnp.add(x, y).dtype == np.float32


def test_scalars_convert_as_arrays_would():
    assert gnp.add(gnp.uint8(3), -1) == 2  # wraps
    assert np.isinf(gnp.add(gnp.float16(1), 1e6))  # without a warning
    assert np.isinf(gnp.float32(1) * 1e300)
    with pytest.raises(OverflowError):
        gnp.add(gnp.int32(1), 2**40)


@pytest.mark.parametrize("bad", [[1.0], (1.0,), None, "a", {1}, range(3), object()])
def test_non_arrays_are_refused_by_name_and_place(bad):
    text = r"{} requires ndarray or scalar arguments, got <class .* at position {}"
    with pytest.raises(TypeError, match=text.format("add", 1)):
        gnp.add(a(F32), bad)
    for function in (gnp.sin, gnp.sum, gnp.mean, gnp.cumsum, gnp.median):
        with pytest.raises(TypeError, match=text.format(function.__name__, 0)):
            function(bad)


def test_the_message_for_lists_says_how_to_fix_it():
    with pytest.raises(TypeError, match=r"gpuarray.numpy.asarray"):
        gnp.sum([1.0, 2.0])


def test_permissive_takes_lists():
    ga.config.update("permissive", True)
    assert gnp.add([1.0, 2.0], 1).tolist() == [2.0, 3.0]
    assert gnp.sum([1.0, 2.0]) == 3.0


def test_rank_promotion_setting():
    x, y = a(F32), gnp.ones((3, 2))
    assert gnp.add(x, y).shape == (3, 2)
    with ga.numpy_rank_promotion("raise"):
        with pytest.raises(ValueError, match="jax_numpy_rank_promotion='raise'"):
            gnp.add(x, y)
        assert gnp.add(x, 1).shape == (2,)
    with ga.numpy_rank_promotion("warn"):
        with pytest.warns(UserWarning, match="Following NumPy automatic rank promotion for add"):
            gnp.add(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gnp.add(x, y)


def test_shapes_that_do_not_broadcast():
    with pytest.raises(TypeError, match="add got incompatible shapes for broadcasting"):
        gnp.add(gnp.ones(3), gnp.ones(4))


def test_numpy_arrays_are_not_aliased():
    given = np.ones(3, np.float32)
    out = gnp.positive(given)
    given[0] = 9
    assert out.tolist() == [1, 1, 1]


def test_traced_text():
    x, i = gnp.ones(3), gnp.arange(3)
    text = str(ga.make_jaxpr(lambda x, i: (x + i, 2 * x, x + 0.1))(x, i))
    assert "c:f32[3] = convert_element_type[new_dtype=float32 weak_type=False] b" in text
    assert "mul 2.0:f32[] a" in text
    assert "add a 0.10000000149011612:f32[]" in text


#: Which of these results of weakly typed operands are weak: of an array, of a scalar, as in JAX.
WEAK_RESULTS = {
    "not": (lambda x: ~(x < 2.0), True, True),
    "deg2rad": (gnp.deg2rad, False, True),
    "sinc": (gnp.sinc, False, True),
    "round": (gnp.round, True, True),
    "one decimal": (lambda x: gnp.round(x, 1), False, True),
    "hypot": (lambda x: gnp.hypot(x, x), False, True),
    "gradient": (lambda x: gnp.gradient(gnp.ravel(gnp.stack([x, x]))), True, True),
    "interp": (lambda x: gnp.interp(x, gnp.ravel(x), gnp.ravel(x)), True, True),
    "logit": (ga.scipy.special.logit, False, True),
}


@pytest.mark.parametrize("name", WEAK_RESULTS)
@pytest.mark.parametrize("jit", [lambda f: f, ga.jit], ids=["eager", "jit"])
def test_results_of_weak_operands(name, jit):
    function, of_arrays, of_scalars = WEAK_RESULTS[name]
    assert jit(function)(gnp.full((2,), 2.5)).weak_type == of_arrays
    assert jit(function)(gnp.asarray(2.5)).weak_type == of_scalars


def test_powers_with_a_traced_exponent_are_strong():
    assert not ga.jit(lambda n: 2**n)(3).weak_type
    assert ga.jit(lambda n: n**2)(3).weak_type
