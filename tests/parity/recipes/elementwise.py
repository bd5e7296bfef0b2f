"""Elementwise functions of the NumPy namespace: one operand, two operands, odd ones."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import ALL, FEW, FLOATS, MOST, REAL, calls, expressions, over

SECTION = "numpy"

# One operand. Every function sees every dtype (the wrong ones must raise alike), every special value,
# scalars, an empty array and things that are no arrays.
UNARY = [
    *over(MOST, "D(7)"), *over("f32 i32 c64", "sp('D')"), "f32(0, 3)", "w(0.5)", "0.5", "3", "True",
    "np.arange(3)", "[1.0, 2.0]", "'a'",
]
UNARY_SHORT = ["f32(7)", "i32(7)", "sp('f32')", "0.5", "[1.0]"]

# Argument ranges in which an inverse function is real, beside the general values above.
UNIT = over("f32 bf16", "D(7, kind='unit')")
GE1 = over("f32 bf16", "D(7, kind='ge1')")
POSITIVE = over("f32 bf16", "D(7, kind='pos')")

# Two operands: equal and mixed dtypes, weak scalars on either side, broadcasting, special values crossed.
MIXED = [
    "f32(4), i32(4)", "bf16(4), f16(4)", "u8(4), i8(4)", "i32(4), u32(4)", "b1(4), i8(4)",
    "i8(4), bf16(4)",
]
SCALARS = [
    "f32(3), 2", "2.5, bf16(3)", "i32(3), 2.5", "u8(3), 2", "f32(3), 1j", "2, 3", "True, False",
    "w(2.0), i32(3)", "f32(3), np.arange(3)", "np.float64(2.5), f32(3)",
]
BROADCAST = [
    "f32(2, 3), f32(3)", "i32(2, 1, 2), i32(3, 1, s=1)", "f32(0, 3), f32(1, 3)",
    "f32(2, 3), f32(2)",
]
CROSSED = ["spx('f32'), spy('f32')", "spx('i32'), spy('i32')", "spx('u8'), spy('u8')"]
NOT_ARRAYS = ["f32(3), [1.0, 2.0, 3.0]", "f32(3)", "None, f32(3)"]
BINARY = [*over(MOST, "D(5), D(5, s=1)"), *MIXED, *SCALARS, *BROADCAST, *CROSSED, *NOT_ARRAYS]
BINARY_SHORT = [
    "f32(5), f32(5, s=1)", "i32(5), f32(5)", "spx('f32'), spy('f32')", "i32(3), 2.5", "2, 3",
    "f32(3), [1.0]", "b1(3), b1(3, s=1)", "c64(2), 1", "w(2), u8(3, kind='pos')",
]
BITWISE = [
    *over("i32 i8 u8 u32 b1 f32", "D(5), D(5, s=1)"), "u8(4), i8(4)", "b1(4), i8(4)", "i32(3), 2",
    "u8(3), True", "i32(3), 2.5", "spx('i32'), spy('i32')", "spx('u8'), spy('u8')",
    "i32(2, 3), i32(3)", "i32(0), i32(1)", "5, 3", "True, False", "[1], [2]",
]

TABLE = [
    # --- one operand ---
    ("acos asin atanh", UNARY + UNIT),
    ("arccos arcsin arctanh", UNARY_SHORT + UNIT),
    ("acosh", UNARY + GE1),
    ("arccosh", UNARY_SHORT + GE1),
    ("log log2 log10 log1p sqrt cbrt", UNARY + POSITIVE),
    ("asinh atan cos cosh exp exp2 expm1 i0 sin sinh tan tanh sinc", UNARY),
    ("arcsinh arctan", UNARY_SHORT),
    ("deg2rad rad2deg", UNARY),
    ("degrees radians", UNARY_SHORT),
    ("abs sign negative positive square reciprocal fabs", UNARY),
    ("absolute conjugate bitwise_not", UNARY_SHORT),
    ("ceil floor trunc rint signbit spacing", UNARY),
    ("isfinite isinf isnan isneginf isposinf iscomplex isreal", UNARY),
    ("conj real imag angle logical_not", UNARY),
    ("invert bitwise_count", UNARY),
    ("bitwise_invert", UNARY_SHORT),
    ("modf frexp", [*over(FLOATS, "D(5)"), "sp('f32')", "i32(3)", "c64(3)", "2.5"]),
    ("angle", ["c64(4), deg=True", "f32(4), True", "sp('c64')"]),
    (
        "nan_to_num",
        [*UNARY, "sp('f32'), nan=1.0", "sp('f32'), posinf=2.0, neginf=-3", "sp('f16'), True, 7"],
    ),
    ("round around", [
        *over(ALL, "D(7)"), "sp('f32')", "f32(7), 2", "f32(7), decimals=-1", "i32(7), -1",
        "i32([15, 25, -15, 1250]), -1", "c64(3), 1", "f32([0.5, 1.5, 2.5, -0.5])", "bf16(7), 1",
        "2.567, 2", "3", "True", "[1.5]",
    ]),
    (
        "iscomplexobj isrealobj",
        ["f32(3)", "c64(3)", "1j", "2", "i32()", "[1j]", "None", "np.ones(2)"],
    ),
    ("isscalar", ["2", "f32()", "f32(1)", "'a'", "None", "np.float32(1)", "1j", "[1]", "True"]),
    ("iterable", ["2", "f32()", "f32(1)", "'a'", "[1]"]),
    # --- two operands ---
    ("add subtract multiply", BINARY),
    ("divide", BINARY),
    ("true_divide", BINARY_SHORT),
    ("floor_divide remainder fmod", BINARY),
    ("mod", BINARY_SHORT),
    ("divmod", BINARY_SHORT + over("i32 u8 f16", "D(5), D(5, s=1)")),
    ("power", [*BINARY, *over(FLOATS + " i32 u8", "D(5, kind='pos'), D(5, kind='pos', s=1)")]),
    ("power", [
        "i32(4), -1", "f32(4), 3", "f32(4), -2", "i32(4), 3", "c64(4), 2", "bf16(4), 2",
        "f32(4), 0.5",
    ]),
    (
        "pow float_power",
        BINARY_SHORT + ["f32(5, kind='pos'), f32(5, s=1)", "i32(4), 2", "c64(3), 2"],
    ),
    ("arctan2", BINARY),
    ("atan2", BINARY_SHORT),
    ("maximum minimum fmax fmin", BINARY),
    ("hypot copysign heaviside nextafter logaddexp logaddexp2", BINARY),
    ("equal not_equal less less_equal greater greater_equal", BINARY),
    ("logical_and logical_or logical_xor", BINARY),
    ("bitwise_and bitwise_or bitwise_xor left_shift right_shift", BITWISE),
    ("bitwise_left_shift bitwise_right_shift", BITWISE[:8]),
    # Not with the smallest integer: JAX's gcd does not end on it.
    (
        "gcd lcm",
        [row for row in BITWISE if "spx" not in row]
        + ["i32([0, 0, 12, -18]), i32([0, 5, 18, 12])"],
    ),
    ("ldexp", [
        "f32(4), i32(4)", "f16(4), i8(4)", "f32(4), 2", "f32(4), f32(4)", "i32(3), i32(3)",
        "2.5, 3",
    ]),
    ("ldexp", ["sp('f32'), 2", "f32([1.0, 1.5]), i32([127, -126])", "c64(2), 1", "b1(2), 1"]),
    ("isclose", [
        *over("f32 bf16 i32 b1 c64", "D(4), D(4)", "D(4), D(4, s=1)"), "spx('f32'), spy('f32')",
        "spx('f32'), spy('f32'), equal_nan=True", "f32(3), f32(3) + 1e-4, rtol=1e-3",
        "f32(3), f32(3) + 1e-4, atol=1e-3", "f32(3), 1", "f32(2, 3), f32(3)", "[1.0], f32(1)",
    ]),
    (
        "allclose",
        ["f32(4), f32(4)", "f32(4), f32(4, s=1)", "f32([np.nan]), f32([np.nan])", "[1.0], [1.0]"],
    ),
    ("allclose", ["f32([np.nan]), f32([np.nan]), equal_nan=True", "i32(3), 1", "f32(0), f32(0)"]),
    (
        "array_equal array_equiv",
        ["f32(4), f32(4)", "f32(4), i32(4)", "f32(4), f32(3)", "f32(2, 3), f32(3)"],
    ),
    (
        "array_equal array_equiv",
        ["f32(1, 3), f32(3)", "2, 2", "[1, 2], i32([1, 2])", "f32([np.nan]), f32([np.nan])"],
    ),
    ("array_equal", ["f32([np.nan]), f32([np.nan]), equal_nan=True", "sp('f32'), sp('f32'), True"]),
    # --- three operands and choices ---
    ("where", [
        *over(ALL, "b1(4), D(4), D(4, s=1)"), "b1(4), f32(4), i32(4)", "b1(4), 1, 2.5",
        "b1(4), f32(4), 0", "b1(4), bf16(4), 1e3", "i32(4), f32(4), 0.0", "f32(4), 1, 0",
        "b1(2, 1), f32(3), 0", "b1(), f32(3), i32()", "True, 1, 2", "b1(4)", "b1(2, 3)",
        "i32(2, 3)", "b1(4), size=2, fill_value=-1", "b1(4), size=6", "b1(4), f32(4)",
        "b1(4), f32(3), 0", "b1(4), [1.0], 0.0", "sp('f32') > 0, sp('f32'), -1.0",
    ]),
    ("select", [
        "[b1(4), b1(4, s=1)], [f32(4), i32(4)], 9", "[b1(4), b1(4, s=1)], [f32(4), f32(4, s=1)]",
        "[b1(4)], [1], 2.5", "[b1(2, 1), b1(3)], [f32(2, 3), i32(3)]", "[b1(4)], [f32(4), f32(4)]",
        "[], []", "[i32(4)], [f32(4)]",
    ]),
    ("piecewise", [
        "f32(5), [f32(5) < 0, f32(5) >= 0], [-1, 1]",
        "f32(5), [f32(5) < 0], [lambda x: -x, lambda x: x * 2]",
        "f32(5), [f32(5) < -1, f32(5) > 1], [lambda x: x, 7, 0]", "i32(5), [i32(5) < 0], [1.5]",
        "f32(5), f32(5) < 0, [lambda x, a: a * x, 0.0], 2.0", "f32(5), [f32(5) < 0], [1, 2, 3]",
    ]),
    ("clip", [
        *over(REAL, "D(7), 0, 1", "D(7), max=1"), "c64(3), 0, 1", "f32(7), -0.5, None",
        "f32(7), None, 0.5", "f32(7)", "sp('f32'), -1, 1", "i32(7), -1.5, 1.5", "u8(7), -1, 3",
        "f32(2, 3), f32(3), 2", "f32(3), 1, 0", "2.5, 0, 1", "f32(3), min=0, max=i32(3)",
        "[1.0], 0, 1",
    ]),
    ("choose", ["i32(3, kind='index'), [f32(3), f32(3, s=1), f32(3, s=2), 0.0]"]),
    (
        "choose",
        ["i32([0, 5, -1]), [1, 2, 3], mode='clip'", "i32([0, 5, -1]), [1, 2, 3], mode='wrap'"],
    ),
    (
        "choose",
        ["i32([0, 5]), [1, 2]", "f32(3), [1, 2]", "i32([0, 1]), [f32(2), i32(2)], mode='wrap'"],
    ),
    ("unwrap", [
        "f32(6, kind='big')", "f32(2, 4, kind='big'), axis=0", "i32([0, 5, 1]), period=4",
        "f32(5), 2.0",
    ]),
    ("unwrap", ["c64(3)", "f32(0)", "f32(1)"]),
    ("interp", ["f32(5), f32([-1, 0, 2]), f32([3, 1, 5])", "0.5, f32([0, 1]), f32([3, 4])"]),
    ("interp", [
        "f32(5), f32([0, 1]), i32([3, 4]), left=-9, right=9",
        "f32(5), f32([0, 1, 3]), f32(3), period=2.5",
    ]),
    ("interp", [
        "i32(5), i32([-2, 2]), f32(2)", "f32(5), f32([0, 1]), f32(2), 'extrapolate'",
        "f32(3), f32(2), f32(3)",
    ]),
    ("interp", ["sp('f32'), f32([-1, 0, 2]), f32([3, 1, 5])", "f32(3), f32([0, 1]), c64(2)"]),
]

VECTORIZED = [
    ("jnp.vectorize", [
        "jnp.vectorize(lambda x: x * 2)(f32(3))",
        "jnp.vectorize(lambda x, y: x + y)(f32(2, 1), i32(3))",
        "jnp.vectorize(jnp.vdot, signature='(n),(n)->()')(f32(2, 3), f32(3))",
        "jnp.vectorize(lambda x: x, signature='(n)->(m)')(f32(2, 3))",
        "jnp.vectorize(jnp.dot, signature='(n,m),(m)->(n)')(f32(2, 3), f32(2))",
        "jnp.vectorize(lambda x, y: x * y, excluded={1})(f32(3), 2)",
        "jnp.vectorize(lambda x: x, signature='n->m')(f32(3))",
    ]),
    ("jnp.frompyfunc", [
        "jnp.frompyfunc(lambda x, y: x + y, 2, 1)(f32(3), f32(3, s=1))",
        "jnp.frompyfunc(jnp.add, nin=2, nout=1, identity=0).reduce(f32(5))",
        "jnp.frompyfunc(jnp.maximum, 2, 1).accumulate(i32(5))",
        "jnp.frompyfunc(jnp.multiply, 2, 1).outer(f32(2), f32(3))",
        "isinstance(jnp.frompyfunc(jnp.multiply, 2, 1), jnp.ufunc)",
    ]),
]

# Methods of the functions that are ufuncs.
UFUNC = [
    *over(
        FEW,
        "reduce(D(2, 3))", "reduce(D(2, 3), axis=1, keepdims=True)", "accumulate(D(2, 3), axis=1)",
    ),
    "reduce(f32(0))", "reduce(f32(2, 3), axis=None)", "reduce(f32(4), initial=2.0)",
    "reduce(f32(4), where=b1(4), initial=1.0)", "outer(f32(2), f32(3))",
    "at(f32(4), i32([0, 1, 0]), 2.0, inplace=False)", "at(f32(4), 1, 2.0)",
    "reduceat(f32(5), i32([0, 3, 1]))", "nin", "nout", "nargs", "identity", "__name__",
]
UFUNCS = "add multiply maximum logical_and bitwise_xor logaddexp subtract"

CASES = [
    *calls(SECTION, "jnp.", TABLE), *expressions(SECTION, VECTORIZED),
    *expressions(
        SECTION, [("jnp." + n, [f"jnp.{n}.{row}" for row in UFUNC]) for n in UFUNCS.split()]
    ),
    *expressions(
        SECTION, [("jnp.ufunc", [f"isinstance(jnp.{n}, jnp.ufunc)" for n in UFUNCS.split()])]
    ),
]
