"""The elementwise functions of the numpy namespace, with NumPy as the oracle, and ufunc objects.

In: tables of functions, operands with special values. Out: values, dtypes, errors. The examples of
all public functions run here, too: many are made by factories, where doctest does not find them.
"""

import doctest
import math
import pickle

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp

F = np.array(
    [-2.5, -1.0, -0.5, -0.0, 0.0, 0.3, 1.0, 2.0, 7.75, np.inf, -np.inf, np.nan], np.float32
)
POSITIVE = np.array([0.01, 0.5, 1.0, 2.0, 10.0, 1000.0, np.inf], np.float32)
UNIT = np.array([-1.0, -0.5, -0.0, 0.0, 0.25, 1.0], np.float32)
I = np.array([-7, -2, -1, 0, 1, 2, 3, 100], np.int32)
U = np.array([0, 1, 2, 200, 255], np.uint8)
B = np.array([False, True])
C = np.array([1 + 2j, -1.5 - 0.5j, 3j, -2.0, 0.25 - 1j], np.complex64)


def same(got, want, rtol=2e-6, atol=1e-6):
    want = np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, rtol=rtol, atol=atol)


def quiet(function, *args):
    with np.errstate(all="ignore"):
        return function(*args)


UNARY = [
    ("exp exp2 expm1 sin cos tan arctan sinh cosh tanh arcsinh cbrt fabs rint sinc", F),
    ("sqrt log log2 log10 log1p", POSITIVE),
    ("arcsin arccos arctanh arctan deg2rad rad2deg degrees radians", UNIT),
    ("arccosh", POSITIVE[POSITIVE >= 1]),
    ("negative positive absolute abs square sign ceil floor trunc conj real imag", F),
    ("isnan isfinite isinf isposinf isneginf signbit logical_not iscomplex isreal", F),
    ("negative absolute square sign invert bitwise_not logical_not signbit isnan", I),
    ("ceil floor trunc positive conjugate isfinite isinf bitwise_count", I),
    ("negative square invert sign absolute bitwise_count", U),
    ("logical_not invert absolute", B),
    ("exp sin cos tan sqrt log log10 log2 sinh cosh tanh arctan arcsin arccosh", C),
    ("negative square absolute conj real imag angle isfinite isnan reciprocal rint", C),
    ("i0", UNIT),
]


@pytest.mark.parametrize(
    "name, x", [(n, x) for names, x in UNARY for n in names.split()], ids=lambda v: str(v)[:12]
)
def test_unary(name, x):
    if name == "i0":
        want = [sum((v / 2) ** (2 * k) / math.factorial(k) ** 2 for k in range(20)) for v in x]
    elif name == "square" and x.dtype == np.uint8:
        want = x * x
    else:
        want = quiet(getattr(np, name), x)
    got = getattr(gnp, name)(gnp.asarray(x))
    # 2e-5: single-precision functions of single-precision arguments, compared with NumPy's own
    same(got, want, rtol=2e-5, atol=2e-6)
    assert np.asarray(want).dtype.kind == got.dtype.kind


BINARY = [
    ("add subtract multiply true_divide divide maximum minimum arctan2 copysign hypot", F, F),
    ("fmax fmin equal not_equal less less_equal greater greater_equal heaviside", F, F),
    ("logical_and logical_or logical_xor nextafter", F, F),
    ("remainder mod fmod floor_divide", F, np.array([2.0, -0.75, np.inf, -1e20], np.float32)),
    ("add subtract multiply maximum minimum power bitwise_and bitwise_or bitwise_xor", U, U),
    ("bitwise_and bitwise_or bitwise_xor equal less greater_equal gcd lcm", I, I),
    ("remainder floor_divide fmod mod", I, np.array([3, -3, 1, 100], np.int32)),
    (
        "left_shift right_shift bitwise_left_shift bitwise_right_shift",
        I,
        np.array([0, 1, 5], np.int32),
    ),
    ("power float_power", POSITIVE[:6], np.array([0.0, 0.5, -1.5, 3.0], np.float32)),
    ("power", I, np.array([0, 1, 2, 3, 4], np.int32)),
    ("add multiply logical_and logical_or logical_xor bitwise_or maximum", B, B),
    ("add subtract multiply true_divide equal not_equal power", C, C),
    ("less less_equal greater greater_equal", C, C),
    ("logaddexp logaddexp2", F[:-1], F[:-1]),
]


@pytest.mark.parametrize(
    "name, x, y",
    [(n, x, y) for names, x, y in BINARY for n in names.split()],
    ids=lambda v: str(v)[:12],
)
def test_binary(name, x, y):
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x[:, None], y[None, :])
    got = getattr(gnp, name)(gnp.asarray(x)[:, None], gnp.asarray(y))
    same(got, want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint16"])
def test_integer_division_of_all_pairs(dtype):
    info = np.iinfo(dtype)
    x = np.array(
        [info.min, info.min + 1, -1 % 256 if info.min == 0 else -1, 0, 1, 2, 7, info.max], dtype
    )
    y = x[x != 0]
    for name in ("floor_divide", "remainder", "fmod"):
        with np.errstate(all="ignore"):
            want = getattr(np, name)(x[:, None], y)
        got = np.asarray(getattr(gnp, name)(gnp.asarray(x)[:, None], gnp.asarray(y)))
        if name == "floor_divide" and info.min:  # INT_MIN // -1 wraps
            want[0, y == -1] = info.min
        np.testing.assert_array_equal(got, want, err_msg=name)


def test_division_by_zero_is_no_error():
    x, zero = gnp.array([5, -5, 0]), gnp.array(0)
    assert gnp.remainder(x, zero).tolist() == [0, 0, 0]
    assert gnp.floor_divide(x, zero).shape == (3,)
    assert gnp.true_divide(x, zero).tolist()[:2] == [np.inf, -np.inf]


def test_minus_zero_stays():
    x = gnp.array([-0.0])
    for out in (
        x - 0,
        x * 1,
        gnp.round(x),
        gnp.trunc(x),
        gnp.abs(x) * -1,
        gnp.sqrt(x),
        gnp.maximum(x, x),
    ):
        assert np.signbit(np.asarray(out)).all(), out


def test_divmod_is_both():
    x, y = gnp.array([7.0, -7.0, 0.5]), gnp.array([2.0, 2.0, -0.3])
    quotient, rest = gnp.divmod(x, y)
    same(quotient, np.asarray(gnp.floor_divide(x, y)))
    same(rest, np.asarray(gnp.remainder(x, y)))
    same(divmod(x, y)[0], np.divmod(np.asarray(x), np.asarray(y))[0])


@pytest.mark.parametrize(
    "base, exponent, dtype, text",
    [
        ("float32", 2, "float32", "integer_pow[y=2] a"),
        ("float32", -2, "float32", "integer_pow[y=-2] a"),
        ("float16", np.int32(3), "float16", "integer_pow[y=3] a"),
        ("int8", np.array(2), "int8", "integer_pow[y=2] a"),
        ("float32", gnp.array(2), "float32", "integer_pow[y=2] a"),
        ("bool", 2, "int32", "integer_pow[y=2] b"),
        ("float32", 2.0, "float32", "pow a 2.0:f32[]"),
        ("int32", 0.5, "float32", "pow b 0.5:f32[]"),
        ("float32", True, "float32", "integer_pow[y=1] a"),
    ],
)
def test_powers_with_known_exponents(base, exponent, dtype, text):
    x = gnp.ones(2, base)
    assert gnp.power(x, exponent).dtype == np.dtype(dtype)
    assert text in str(ga.make_jaxpr(lambda x: x**exponent)(x))


def test_integers_to_negative_powers():
    with pytest.raises(TypeError, match="Integers cannot be raised to negative powers"):
        gnp.arange(3) ** -1
    out = gnp.power(gnp.array([1, -1, 2, 0]), gnp.array([-1, -3, -1, 0]))
    assert out.tolist() == [1, -1, 0, 1]


@pytest.mark.parametrize("decimals", [-2, -1, 0, 1, 3])
def test_round(decimals):
    x = np.array([0.5, 1.5, 2.5, -0.5, 1234.5678, -1250.0, 1350.0], np.float32)
    same(gnp.round(gnp.asarray(x), decimals), np.round(x, decimals), rtol=1e-6)
    ints = np.array([0, 5, 15, 25, -5, -15, 149, 150, 151, -1250], np.int32)
    assert gnp.round(gnp.asarray(ints), decimals).tolist() == np.round(ints, decimals).tolist()
    z = (x + 1j * x[::-1]).astype(np.complex64)
    same(gnp.round(gnp.asarray(z), decimals), np.round(z, decimals), rtol=1e-6)


def test_round_of_small_integers_does_not_overflow():
    # The nearest hundred of 99 is in int8; twice the rest is not.
    assert gnp.round(gnp.array([99, 50, -99, -51], "int8"), -2).tolist() == [100, 0, -100, -100]


def test_round_of_half_precision_does_not_overflow():
    assert gnp.round(gnp.array([1000.0], "float16"), 2).tolist() == [1000.0]


def test_frexp_and_ldexp_are_inverse():
    x = np.array([0.0, -0.0, 1.0, -3.5, 1e-40, 1e-45, 3e38, np.inf, -np.inf, np.nan], np.float32)
    mantissa, exponent = gnp.frexp(gnp.asarray(x))
    want = np.frexp(x)
    same(mantissa, want[0])
    finite = np.isfinite(x)
    assert np.asarray(exponent)[finite].tolist() == want[1][finite].tolist()
    np.testing.assert_array_equal(np.asarray(gnp.ldexp(mantissa, exponent))[finite], x[finite])
    powers = np.array([-200, -149, -10, 0, 127, 128, 400], np.int32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            np.asarray(gnp.ldexp(gnp.float32(1.5), gnp.asarray(powers))),
            np.ldexp(np.float32(1.5), powers),
        )
    with pytest.raises(ValueError, match="ldexp not supported for input types"):
        gnp.ldexp(gnp.ones(2), gnp.ones(2))


def test_modf():
    x = np.array([1.25, -1.25, 3.0, -0.5], np.float32)
    for got, want in zip(gnp.modf(gnp.asarray(x)), np.modf(x), strict=True):
        same(got, want)


def test_spacing_and_nextafter():
    x = np.array([1.0, -1.0, 1e30, 3.0], np.float32)
    np.testing.assert_array_equal(np.asarray(gnp.spacing(gnp.asarray(x))), np.spacing(x))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nextafter_of_equal_zeros_is_the_second(dtype):
    with ga.enable_x64(True):
        zeros, towards = gnp.array([0, 0, -0.0, -0.0], dtype), gnp.array([0, -0.0, 0, -0.0], dtype)
        found = gnp.nextafter(zeros, towards)
        assert gnp.signbit(found).tolist() == [False, True, False, True]
        assert not found.any()


def test_clip():
    x = gnp.array([-1.0, 0.5, 3.0, np.nan])
    same(gnp.clip(x, 0, 1), [0, 0.5, 1, np.nan])
    same(gnp.clip(x, min=0), [0, 0.5, 3, np.nan])
    same(x.clip(max=gnp.array([0, 0, 0, 0])), [-1, 0, 0, np.nan])
    assert gnp.clip(gnp.arange(3), 2, 1).tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="No input was provided to the clip function"):
        gnp.clip()
    with pytest.raises(ValueError, match="Clip received a complex value"):
        gnp.clip(gnp.array(1j), 0, 1)


def test_hypot_and_logaddexp_do_not_overflow():
    assert gnp.hypot(gnp.float32(1e30), gnp.float32(1e30)) == np.float32(1.4142135e30)
    assert gnp.logaddexp(gnp.float32(1000), gnp.float32(-1000)) == 1000
    inf = gnp.inf
    assert [float(gnp.logaddexp(x, x)) for x in (inf, -inf)] == [inf, -inf]


def test_nan_to_num_and_closeness():
    x = gnp.array([1.0, gnp.nan, gnp.inf, -gnp.inf])
    big = float(np.finfo(np.float32).max)
    assert gnp.nan_to_num(x).tolist() == [1, 0, big, -big]
    assert gnp.nan_to_num(x, nan=5, posinf=6, neginf=7).tolist() == [1, 5, 6, 7]
    assert gnp.isclose(x, x).tolist() == [True, False, True, True]
    assert gnp.isclose(x, x, equal_nan=True).all()
    assert not gnp.isclose(gnp.inf, -gnp.inf)
    assert gnp.allclose(gnp.ones(3), gnp.ones(3) + 1e-7) and not gnp.allclose(1.0, 1.1)
    assert gnp.array_equal(gnp.arange(3), [0, 1, 2]) and not gnp.array_equal(gnp.arange(3), 0)
    assert gnp.array_equal(x, x, equal_nan=True) and not gnp.array_equal(x, x)
    assert gnp.array_equiv(gnp.ones((2, 3)), gnp.ones(3)) and not gnp.array_equiv(
        gnp.ones(2), gnp.ones(3)
    )


@pytest.mark.parametrize(
    "function, error, message",
    [
        (lambda: gnp.subtract(gnp.array(True), True), TypeError, "sub does not accept dtype bool"),
        (lambda: gnp.negative(gnp.array(True)), TypeError, "neg does not accept dtype bool"),
        (lambda: gnp.bitwise_and(1.0, 1), TypeError, "and does not accept dtype float32"),
        (lambda: gnp.left_shift(1.0, 1), TypeError, "shift_left does not accept dtype float32"),
        (lambda: gnp.gcd(1.0, 1), ValueError, "must be integers"),
        (lambda: gnp.floor(1j), TypeError, "floor does not accept dtype complex64"),
        (lambda: gnp.signbit(1j), ValueError, "not well defined"),
        (lambda: gnp.isposinf(1j), ValueError, "not well defined for complex"),
        (lambda: gnp.hypot(1j, 1), ValueError, "not well defined for complex"),
        (lambda: gnp.fabs(1j), TypeError, "does not support complex"),
        (lambda: gnp.i0(1j), ValueError, "Unsupported input type"),
        (lambda: gnp.round(gnp.ones(2), out=1), NotImplementedError, "'out' argument to jnp.round"),
        (lambda: gnp.sin(1, 2), TypeError, "positional argument"),
        (lambda: gnp.add(1), TypeError, "positional argument"),
    ],
)
def test_errors(function, error, message):
    with pytest.raises(error, match=message):
        function()


def test_composites_do_the_same_recorded_compiled_and_traced():
    x = np.linspace(-3, 3, 70_000, dtype=np.float32)  # big: recorded, not compiled
    big, small = gnp.asarray(x), gnp.asarray(x[:100])
    for f in (
        lambda v: v % 0.7,
        lambda v: v // 0.7,
        gnp.sinc,
        lambda v: gnp.clip(v, -1, 1),
        gnp.std,
    ):
        want = f(small)
        same(ga.jit(f)(small), np.asarray(want))
        if want.ndim:
            same(f(big)[:100], np.asarray(want))
    assert "jit[" in str(ga.make_jaxpr(lambda v: v % 2)(small))


# ---- ufunc objects ----


def test_ufunc_attributes():
    assert repr(gnp.add) == "<jnp.ufunc 'add'>"
    assert isinstance(gnp.add, gnp.ufunc)
    assert (gnp.add.nin, gnp.add.nout, gnp.add.nargs, gnp.add.identity) == (2, 1, 2, 0)
    assert gnp.maximum.identity is None and gnp.logical_and.identity is True
    assert pickle.loads(pickle.dumps(gnp.multiply)) is gnp.multiply
    with pytest.raises(NotImplementedError, match="out argument of <jnp.ufunc 'add'>"):
        gnp.add(1, 2, out=gnp.ones(()))
    with pytest.raises(ValueError, match="only supported for binary ufuncs"):
        gnp.negative.reduce(gnp.ones(3))


REDUCING = (
    "add multiply subtract maximum minimum logical_and logical_or logical_xor bitwise_and "
    "bitwise_or bitwise_xor logaddexp logaddexp2"
).split()


@pytest.mark.parametrize("name", REDUCING)
def test_ufunc_methods(name):
    ours, theirs = getattr(gnp, name), getattr(np, name)
    x = np.array([[3, 1, 2, 5], [6, 7, 4, 8], [1, 1, 0, 2]], np.int32)
    if name.startswith("logaddexp"):
        x = x.astype(np.float32)
    for axis in (0, 1, -1):
        same(ours.reduce(gnp.asarray(x), axis=axis), theirs.reduce(x, axis=axis), rtol=1e-5)
        same(ours.accumulate(gnp.asarray(x), axis=axis), theirs.accumulate(x, axis=axis), rtol=1e-5)
        kept = ours.reduce(gnp.asarray(x), axis=axis, keepdims=True)
        same(kept, theirs.reduce(x, axis=axis, keepdims=True), rtol=1e-5)
    if theirs.identity is not None:
        same(ours.reduce(gnp.asarray(x), axis=None), theirs.reduce(x, axis=None), rtol=1e-5)
    indices = np.array([0, 2, 1])
    same(
        ours.reduceat(gnp.asarray(x), gnp.asarray(indices), axis=1),
        theirs.reduceat(x, indices, axis=1),
        1e-5,
    )
    same(ours.outer(gnp.asarray(x[0]), gnp.asarray(x)), theirs.outer(x[0], x), rtol=1e-5)
    if not name.startswith("logical"):
        want = x.copy()
        theirs.at(want, (0, np.array([1, 1, 2])), 3)
        got = ours.at(gnp.asarray(x), (0, gnp.array([1, 1, 2])), 3, inplace=False)
        same(got, want, rtol=1e-5)


def test_ufunc_reduce_with_initial_and_where():
    x = gnp.arange(6).reshape(2, 3)
    assert gnp.add.reduce(x, axis=1, initial=10).tolist() == [13, 22]
    assert gnp.subtract.reduce(x, initial=5).tolist() == [2, -0, -2]
    assert gnp.add.reduce(x, where=x > 1).tolist() == [3, 4, 7]
    assert gnp.subtract.reduce(x, where=x > 1, initial=0).tolist() == [-3, -4, -7]
    with pytest.raises(ValueError, match="does not have an identity"):
        gnp.maximum.reduce(x, where=x > 1)
    with pytest.raises(ValueError, match="zero-size array to reduction operation subtract"):
        gnp.subtract.reduce(gnp.zeros((0, 3)))


def test_frompyfunc():
    digits = gnp.frompyfunc(lambda a, b: 10 * a + b, 2, 1, identity=0)
    x = gnp.array([[1, 2, 3], [4, 5, 6]])
    assert digits.reduce(x, axis=1).tolist() == [123, 456]
    assert digits.accumulate(x, axis=1).tolist() == [[1, 12, 123], [4, 45, 456]]
    assert digits.reduce(gnp.zeros((0, 2), int)).tolist() == [0, 0]
    assert digits.reduceat(x, gnp.array([0, 2]), axis=1).tolist() == [[12, 3], [45, 6]]
    assert digits.at(x, (0, gnp.array([1, 1])), 5, inplace=False).tolist()[0] == [1, 255, 3]
    traced = ga.jit(lambda x, i: digits.at(x, i, 5, inplace=False))
    assert traced(gnp.array([1, 2, 3]), gnp.array([1, 1])).tolist() == [1, 255, 3]
    with pytest.raises(NotImplementedError, match="inplace=False"):
        gnp.add.at(x, 0, 1)


# ---- every public example ----


def _is_ours(value) -> bool:
    return getattr(value, "__module__", "").startswith("gpuarray")


PUBLIC = [
    name
    for name, value in vars(gnp).items()
    if callable(value) and ">>>" in (value.__doc__ or "") and _is_ours(value)
]


@pytest.mark.parametrize("name", PUBLIC)
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function = getattr(gnp, name)
    names = dict(getattr(function, "__globals__", {}))
    example = doctest.DocTestParser().get_doctest(function.__doc__, names, name, None, None)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    out: list[str] = []
    runner.run(example, out=out.append)
    assert not runner.failures, "".join(out)


def test_every_public_function_has_an_example():
    functions = [n for n, v in vars(gnp).items() if callable(v) and _is_ours(v)]
    without = {n for n in functions if n not in PUBLIC and not n.startswith("_")}
    types = {n for n in without if isinstance(getattr(gnp, n), type)}
    assert without - types == {"fromfile", "fromiter"}


def test_derivatives_where_formulas_divide_by_zero():
    grad = ga.grad
    zero = gnp.float32(0)
    assert grad(gnp.sinc)(zero) == 0 and np.isfinite(grad(lambda x: gnp.hypot(x, 0.0))(zero))
    np.testing.assert_allclose(grad(grad(gnp.sinc))(zero), -(np.pi**2) / 3, rtol=1e-6)
    assert grad(lambda x: gnp.logaddexp(x, x))(gnp.float32(3)) == 1
    assert grad(lambda x: gnp.remainder(x, 2))(gnp.float32(3.5)) == 1


# ---- folds, weak types and corners ----


def test_general_folds_are_scans():
    digits = gnp.frompyfunc(lambda a, b: 10 * a + b, 2, 1, identity=0)
    x = gnp.arange(100)
    for run in (digits.reduce, digits.accumulate, lambda v: digits.at(v, v, 1, inplace=False)):
        graph = ga.make_jaxpr(run)(x)
        assert "scan" in str(graph) and len(graph.eqns) < 20
    halves = gnp.frompyfunc(lambda a, b: a / b, 2, 1)
    assert halves.accumulate(gnp.array([7, 2, 2])).tolist() == [7.0, 3.5, 1.75]
    assert halves.at(gnp.array([4, 5]), gnp.array([0, 0]), 2, inplace=False).tolist() == [1.0, 5.0]
    assert digits.reduce(gnp.array([7, 2]), initial=1.5).tolist() == 172
    with pytest.raises(ValueError, match="multiple axes"):
        digits.accumulate(gnp.ones((2, 2)), axis=None)
    np.testing.assert_allclose(
        ga.grad(lambda v: gnp.subtract.reduce(v * v))(gnp.array([1.0, 2.0])), [2.0, -4.0]
    )


def test_folds_of_truth():
    x = gnp.array([1.0, 2.0, 0.5])
    assert bool(gnp.logical_and.reduce(x, initial=2.0))
    assert not bool(gnp.logical_and.reduce(x, initial=0.0))
    assert bool(gnp.logical_or.reduce(x * 0, initial=2.0))
    assert gnp.logical_and.at(x, gnp.array([0]), 0, inplace=False).tolist() == [False, True, True]
    assert gnp.maximum.accumulate(gnp.array([False, True, False])).tolist() == [False, True, True]
    with pytest.raises(ValueError, match="integer argument required; got dtype=float32"):
        gnp.bitwise_xor.reduce(x)


def test_what_stays_weak():
    weak = gnp.broadcast_to(2.5, (3,))
    assert weak.weak_type and gnp.add(weak, weak).weak_type
    strong = {
        "isinf": (2.5,),
        "isposinf": (2.5,),
        "signbit": (2,),
        "spacing": (0.5,),
        "rint": (3,),
        "angle": (0.5,),
        "hypot": (weak, 2.5),
        "heaviside": (weak, 2.5),
        "logical_and": (weak, 2.5),
        "logaddexp2": (weak, 2.5),
        "diagflat": (2.0,),
        "power": (2, gnp.arange(3)),
        "gcd": (2, gnp.ones(3, bool)),
        "isin": (2.5, 2.5),
    }
    for name, args in strong.items():
        assert not getattr(gnp, name)(*args).weak_type, name
    for name in ("hypot", "heaviside", "logical_and", "logaddexp2"):
        assert getattr(gnp, name)(2.5, 2.5).weak_type, name


def test_corners():
    assert float(gnp.nanmax(gnp.zeros(0), initial=3)) == 3.0
    assert float(gnp.nanmin(gnp.array([gnp.nan]), initial=3)) == 3.0
    for name in ("nanmean", "nanvar", "nanstd"):
        with pytest.raises(ValueError, match="where must be None or a boolean array"):
            getattr(gnp, name)(gnp.ones(3), where=gnp.ones(3))
    with pytest.raises(ValueError, match="dtype argument to jnp.std must be inexact"):
        gnp.std(gnp.ones(3), dtype="int32")
    with pytest.raises(ValueError, match="Incompatible types for broadcasting"):
        gnp.full((2,), gnp.ones(3))
    assert gnp.fft.fft(gnp.zeros(0)).shape == gnp.fft.irfft(gnp.zeros(0)).shape == (0,)
    assert gnp.fft.fft(gnp.zeros((2, 0))).dtype == "complex64"
    assert gnp.fft.fftfreq(6, 0.1, dtype=int).tolist() == [0, 1, 3, -5, -3, -1]
    assert [x.dtype for x in gnp.ogrid[-1:1:3j, 0:2]] == ["float32"] * 2
    assert gnp.roots(gnp.array([0.0, 1, -3, 2, 0])).real.round(3).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(NameError, match="unbound axis name: a"):
        gnp.sum(gnp.ones(3), axis="a")
    with pytest.raises(TypeError, match="unsupported format string"):
        format(gnp.ones(3), ".2f")
    assert f"{gnp.float32(1.25):.1f} {gnp.arange(2)}" == "1.2 [0 1]"
    assert repr(gnp.array([1, -2], "int4")) == "Array([1, -2], dtype=int4)"
    with pytest.raises(ValueError, match="query value must be a scalar"):
        assert gnp.ones(3) in gnp.ones(3)
    assert gnp.iinfo(1).bits == 64
    with pytest.raises(ValueError, match="not inexact"):
        gnp.finfo("nonsense")


# ---- functions of elements and lanes ----


def test_vectorize_and_lanes_are_traced_once():
    calls = []

    def once(a, b):
        calls.append(1)
        return {"sum": a + b, "one": 1}

    out = gnp.vectorize(once)(gnp.ones((4, 1)), gnp.arange(3))
    assert len(calls) == 1 and out["sum"].shape == out["one"].shape == (4, 3)
    assert gnp.vectorize(once)(gnp.ones((1, 1)), gnp.zeros(3))["sum"].shape == (1, 3)
    assert gnp.vectorize(once)(gnp.ones((0, 2)), 1.0)["sum"].shape == (0, 2)
    lanes = gnp.apply_along_axis(
        lambda r: calls.append(1) or gnp.outer(r, r), 1, gnp.ones((2, 3, 4))
    )
    assert len(calls) == 4 and lanes.shape == (2, 3, 3, 4)
    assert gnp.apply_along_axis(gnp.sum, 0, gnp.ones((3, 0))).shape == (0,)
    wrong = gnp.vectorize(lambda a, b: a @ b, signature="(m,n),(n)->(n)")
    with pytest.raises(ValueError, match="inconsistent size for core dimension 'n'"):
        wrong(gnp.ones((2, 3)), gnp.ones(3))
    with pytest.raises(TypeError, match="wrong number of output arguments"):
        gnp.vectorize(lambda a: (a, a), signature="(n)->(n)")(gnp.ones(3))
    with pytest.raises(TypeError, match="output must be a tuple"):
        gnp.vectorize(lambda a: a, signature="(n)->(n),()")(gnp.ones(3))
    with pytest.raises(ga.errors.TracerBoolConversionError):
        gnp.vectorize(lambda a: a if a > 0 else -a)(gnp.ones(3))


# ---- functions of scalars ----


def _scalar_sum(a, b):
    assert np.shape(a) == np.shape(b) == ()
    return a + b


def test_frompyfunc_calls_its_function_with_scalars():
    u = gnp.frompyfunc(_scalar_sum, 2, 1, identity=0)
    x = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    assert u(x, x[0]).tolist() == (x + x[0]).tolist()
    for wrap in (lambda f: f, ga.jit):
        for axis in (0, 1, -1, None):
            got = wrap(lambda x, axis=axis: u.reduce(x, axis=axis))(x)
            assert got.tolist() == np.add.reduce(x, axis=axis).tolist()
        assert wrap(u.accumulate)(x).tolist() == np.add.accumulate(x).tolist()
        assert wrap(u.outer)(x, x).tolist() == np.add.outer(x, x).tolist()
    assert u.reduce(x, where=x > 2).tolist() == np.add.reduce(x, where=x > 2).tolist()
    for starts in ([0, 2], [1, 1, 3], []):
        starts = np.array(starts, int)
        assert u.reduceat(x, starts).tolist() == np.add.reduceat(x, starts).tolist()
    assert u.at(gnp.zeros(3), np.array([0, 0]), 1.0, inplace=False).tolist() == [2.0, 0.0, 0.0]


def test_ufuncs_are_equal_by_what_they_are_made_of_and_do_not_change():
    u = gnp.frompyfunc(_scalar_sum, 2, 1, identity=0)
    same, other = (gnp.frompyfunc(_scalar_sum, 2, 1, identity=i) for i in (0, None))
    assert u == same and hash(u) == hash(same) and u != other and gnp.add != gnp.multiply
    assert gnp.add == gnp.add and len({u, same, other}) == 2
    for made in (u, gnp.add):
        for name in ("nin", "nout", "nargs", "identity"):
            with pytest.raises(AttributeError, match="read-only"):
                setattr(made, name, None)
