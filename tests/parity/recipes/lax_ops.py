"""First-order operations of `lax`: strict about dtypes and shapes where the NumPy namespace promotes."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import ALL, FLOATS, MOST, NUMBERS, REAL, calls, expressions, over

SECTION = "lax"

UNARY = [
    *over(MOST, "D(5)"), *over("f32 i32", "sp('D')"), "f32(0, 3)", "w(0.5)", "0.5", "2",
    "np.arange(2)", "[1.0]",
]
UNARY_C = [*UNARY, "sp('c64')"]
UNIT = over("f32 bf16", "D(7, kind='unit')")
POS = over("f32 bf16", "D(7, kind='pos')")

BINARY = [
    *over(MOST, "D(4), D(4, s=1)"), "f32(4), i32(4)", "f32(4), 2", "2.5, bf16(4)", "i32(4), 2",
    "i32(4), 2.5", "2, 3", "1, 1.0", "True, 2", "w(2.0), f32(3)", "w(2), w(2.5)",
    "f32(2, 3), f32(3)", "f32(2, 3), f32(1, 3)", "f32(), f32(3)", "f32(0), f32(0)",
    "spx('f32'), spy('f32')", "spx('i32'), spy('i32')", "spx('u8'), spy('u8')", "[1.0], [1.0]",
    "np.float64(2), f32(3)",
]
SHIFTS = [
    *over("i32 i8 u8 u32 f32 b1", "D(4), D(4, kind='pos', s=1)"), "spx('i32'), spy('i32')",
    "spx('u8'), spy('u8')", "i32(3), 2", "i32(3), u8(3)", "5, 2",
]
AXES = [
    "f32(2, 3), (0,)", "f32(2, 3), axes=(0, 1)", "f32(2, 3), [1]", "f32(2, 3), (-1,)",
    "f32(2, 3), (2,)", "f32(2, 3), (0, 0)", "f32(2, 3), ()", "f32(0, 3), (0,)", "f32(2, 3), 0",
    "f32(), ()", "2.0, ()", "sp('f32'), (0,)", "[1.0], (0,)",
]
CUM = [
    *over("f32 bf16 i32 u8 c64 b1", "D(5)"), "f32(2, 3), 1", "f32(2, 3), axis=0, reverse=True",
    "f32(2, 3), -1", "f32(2, 3), 2", "f32(0)", "f32()", "sp('f32')", "[1.0]",
]

TABLE = [
    ("cos sin tan exp exp2 log log1p expm1 sqrt rsqrt cbrt tanh logistic", UNARY_C),
    ("acos asin atanh", UNARY_C + UNIT),
    ("acosh asinh atan cosh sinh", UNARY_C),
    ("log sqrt rsqrt log1p", POS),
    ("abs neg sign square reciprocal", UNARY_C),
    ("ceil floor is_finite", UNARY),
    ("round", [
        *UNARY, *over(FLOATS, "D(5), lax.RoundingMethod.TO_NEAREST_EVEN"),
        "f32([0.5, 1.5, -2.5]), lax.RoundingMethod.TO_NEAREST_EVEN", "f32([0.5, 1.5, -2.5])",
    ]),
    ("real imag conj", UNARY_C),
    ("bitwise_not population_count clz", UNARY),
    ("erf erfc erf_inv lgamma digamma bessel_i0e bessel_i1e", UNARY),
    ("erf_inv", UNIT),
    ("lgamma digamma", POS),
    ("integer_pow", [
        *over(NUMBERS + " b1", "D(4), 2", "D(4), 3"), "f32(4), -2", "f32(4), 0", "i32(4), -1",
        "f32(4), 5", "f32(4), 2.0", "f32(4), 1", "sp('f32'), 3", "sp('f32'), -1",
    ]),
    ("stop_gradient", ["f32(3)", "i32(3)", "{'a': f32(2)}", "2.0", "'a'"]),
    ("stage optimization_barrier dce_sink", [
        "f32(3)", "(f32(2), i32(3))", "w(2)", "2.5", "f32(0)", "{'a': f32(2), 'b': None}", "'a'",
        "key(1)", "[1.0, i32(2)]",
    ]),
    # two and three operands
    ("add sub mul div rem max min pow", BINARY),
    ("atan2 nextafter", BINARY),
    ("eq ne lt le gt ge", BINARY),
    ("bitwise_and bitwise_or bitwise_xor", BINARY),
    ("complex", BINARY),
    ("shift_left shift_right_arithmetic shift_right_logical", SHIFTS),
    ("mulhi", [
        *over("i32 u32 i8 u8 f32", "D(4), D(4, s=1)"), "spx('i32'), spy('i32')",
        "spx('u32'), spy('u32')", "i32(3), 2",
    ]),
    ("mul", ["f32(3), f32(3), out_dtype='int32'", "i8(3), i8(3), out_dtype='int32'"]),
    ("igamma igammac igamma_grad_a random_gamma_grad", [
        "f32(5, kind='pos'), f32(5, kind='pos', s=1)",
        "bf16(3, kind='pos'), bf16(3, kind='pos', s=1)", "i32(3), i32(3)", "f32(3), 2.0",
        "f32([0, 1, 1, 2, -1, np.nan]), f32([1, 0, np.inf, -1, 1, 1])",
    ]),
    ("zeta polygamma", [
        "f32(5, kind='ge1'), f32(5, kind='pos', s=1)", "f32([1, 2, 3]), f32(3, kind='pos')",
        "f32(3), f32(2)", "i32(3), i32(3)", "f32([0, 1, 2]), f32([0.0, -1.5, np.inf])",
        "f32([np.nan]), f32([1.0])", "1.0, f32([2.0])", "bf16([1, 2]), bf16([2, 3])",
        "f32(0), f32(0)", "f32([1.5]), f32([2.0])",
    ]),
    ("betainc", [
        "f32(5, kind='pos'), f32(5, kind='pos', s=1), f32(5, kind='prob')",
        "f32(3), f32(3), f32(2)", "i32(2), i32(2), i32(2)", "1.0, 2.0, 0.5",
        "bf16(3, kind='pos'), bf16(3, kind='pos'), bf16(3, kind='prob')",
        "f32([1, 2]), f32([2, 3]), f32([0.0, 1.0])", "f32([-1.0]), f32([1.0]), f32([0.5])",
        "f32([1.0]), f32([1.0]), f32([np.nan])", "f32(0), f32(0), f32(0)",
        "f32([1.0]), f32([1.0]), f32([1.5])",
    ]),
    ("clamp", [
        *over(ALL, "D(), D(4), D(s=3)"), "0.0, f32(4), 1.0", "0, i32(4), 3", "0, f32(4), 1",
        "f32(4), f32(4, s=1), f32(4, s=2)", "f32(2), f32(4), 1.0", "-1.0, sp('f32'), 1.0",
        "1.0, f32(4), 0.0", "i32(), f32(4), i32()",
    ]),
    ("select", [
        *over(NUMBERS, "b1(4), D(4), D(4, s=1)"), "b1(), f32(4), f32(4, s=1)",
        "b1(4), f32(4), i32(4)", "i32(4), f32(4), f32(4)", "b1(3), f32(4), f32(4)",
        "True, 1.0, 2.0", "b1(4), f32(4), 0.0",
    ]),
    ("select_n", [
        "b1(4), f32(4), f32(4, s=1)", "i32([0, 2, 1]), f32(3), f32(3, s=1), f32(3, s=2)",
        "b1(), f32(4), f32(4, s=1)", "i32([0, 5, -1]), f32(3), f32(3, s=1), f32(3, s=2)",
    ]),
    ("select_n", [
        "b1(4), f32(4)", "b1(4), f32(4), i32(4)", "f32(4), f32(4), f32(4)", "b1(4)",
        "b1(4), f32(4), f32(4), f32(4)",
    ]),
    # dtypes and bits
    ("convert_element_type", [
        *[
            f"{x}, '{t}'"
            for x in ("sp('f32')", "i32([-300, -1, 0, 70000])", "c64(2)", "b1(3)")
            for t in "int8 uint8 int32 uint32 float16 bfloat16 bool complex64".split()
        ],
        "f32(3), float", "i32(3), int", "w(2), 'float32'", "2.5, 'int32'", "2, 'float64'",
        "f32(3), 'nonsense'", "[1], 'float32'", "f32(3), None",
    ]),
    ("bitcast_convert_type", [
        "f32(3), 'int32'", "i32(3), 'float32'", "f32(3), 'uint8'", "u8(2, 4), 'float32'",
        "f32(3), 'int16'", "bf16(3), 'uint16'", "b1(3), 'int8'", "u8(2, 3), 'float32'",
        "2.0, 'int32'", "sp('f32'), 'uint32'",
    ]),
    ("reduce_precision", [
        "f32(5), 5, 10", "f32(5), 8, 7", "f32(5), 4, 3", "bf16(4), 5, 2", "sp('f32'), 5, 10",
        "i32(3), 5, 10", "f32(3), 0, 3",
    ]),
    ("dtype", [
        "f32(3)", "2.5", "np.ones(2)", "w(2)", "True", "1j", "np.float64(2)", "'a'", "[1]",
        "key(1)", "i4(2)", "None",
    ]),
    ("random_gamma_grad", ["2.0, 3.0"]),
    # creation
    ("iota", [
        "'int32', 5", "'float32', 3", "int, 0", "jnp.bfloat16, 4", "'bool', 2", "'int32', -1",
        "'complex64', 3", "'nonsense', 2", "float, 2.5", "'uint8', 300",
    ]),
    ("broadcasted_iota", [
        "'int32', (2, 3), 0", "'float32', (2, 3), 1", "int, (2,), 1", "'int32', (2, 3), -1",
        "'int8', (0, 2), 0",
    ]),
    ("full", [
        "(2, 3), 7", "(2,), 2.5, 'int32'", "(), True", "(2,), f32()", "(2,), f32(2)", "2, 1.0",
        "(2,), 1, 'bfloat16'", "(-1,), 0",
    ]),
    ("full_like", [
        "f32(3), 2", "i32(2, 2), 2.5", "f32(3), 1, 'int8'", "2.0, 3", "f32(3), 1, shape=(2,)",
        "w(2.0), 1",
    ]),
    ("empty", [
        "(2, 3), 'float32'", "(0,), 'int8'", "(), 'bfloat16'", "(2,), bool", "(-1,), 'float32'",
        "(2,), 'nonsense'", "2, 'int32'", "(2,), None", "(2.5,), 'int8'",
    ]),
    ("shape_as_value", [
        "(2, 3)", "()", "(0, 5)", "(3,)", "(-1,)", "(2.5,)", "5", "[2, 3]",
    ]),
    # movement
    ("reshape", [
        *over(NUMBERS, "D(2, 3), (3, 2)"), "f32(2, 3), (6,)", "f32(2, 3), (2, 2)",
        "f32(2, 3), (-1,)", "f32(2, 3), (3, 2), dimensions=(1, 0)", "f32(0, 3), (3, 0)",
        "2.0, (1,)", "f32(4), (2.0, 2)",
    ]),
    ("transpose", [
        *over(NUMBERS, "D(2, 3), (1, 0)"), "f32(2, 3, 4), (2, 0, 1)", "f32(2, 3), (0,)",
        "f32(2, 3), (0, 0)", "f32(), ()", "f32(2, 3), (-1, 0)",
    ]),
    ("rev", [
        "f32(2, 3), (0,)", "f32(2, 3), (0, 1)", "f32(2, 3), (2,)", "f32(2, 3), (0, 0)",
        "f32(0), (0,)", "i32(4), [0]", "f32(3), (-1,)", "f32(3), ()",
    ]),
    ("squeeze", [
        "f32(1, 3), (0,)", "f32(1, 3), (1,)", "f32(1, 3, 1), (0, -1)", "f32(1), (0, 0)",
        "f32(1, 3), (5,)", "f32(1, 3), ()",
    ]),
    ("expand_dims", [
        "f32(3), (0,)", "f32(3), (0, -1)", "f32(3), (2,)", "f32(3), (0, 0)", "f32(), (0,)",
        "f32(3), (3,)", "f32(3), 0",
    ]),
    ("broadcast", [
        "f32(3), (2,)", "f32(3), (2, 0)", "f32(), (3,)", "2.0, (2,)", "f32(3), ()", "f32(3), (-1,)",
    ]),
    ("broadcast_in_dim", [
        "f32(3), (2, 3), (1,)", "f32(1, 3), (2, 3), (0, 1)", "f32(), (2,), ()",
        "f32(3), (3, 2), (0,)", "f32(3), (2, 2), (1,)", "f32(3), (2, 3), (2,)",
        "f32(2, 3), (2, 3), (1, 0)", "f32(3), (2, 3), ()", "2.0, (2,), ()", "w(2.0), (2,), ()",
    ]),
    ("broadcast_like", [
        "f32(3), f32(2, 3)", "f32(), i32(2)", "f32(2, 1), i32(2, 3)", "2.5, f32(2)",
        "f32(3), f32(2)", "f32(2, 3), f32(3)", "i8(0), f32(2, 0)", "[1.0], f32(2)",
    ]),
    ("broadcast_shapes", [
        "(2, 1), (3,)", "(2,), (3,)", "", "(1,), (0,)", "(0,), (2, 1)", "(2, 3), (3,), (1, 1)",
        "(-1,)", "5", "(2.5,), (1,)", "[2, 1], [3]",
    ]),
    ("broadcast_to_rank", [
        "f32(3), 3", "f32(2, 3), 2", "f32(2, 3), 1", "2.0, 1", "f32(3), 1", "f32(0), 2", "i32(), 2",
        "f32(3), 2.0", "[1.0], 2",
    ]),
    ("collapse", [
        "f32(2, 3, 4), 0, 2", "f32(2, 3, 4), 1", "f32(2, 3, 4), -2, None", "f32(2, 3), 0, 0",
        "f32(2, 3), 1, 1", "f32(2, 3, 4), 2, 1",
    ]),
    ("concatenate", [
        *over(NUMBERS, "[D(2, 3), D(2, 3, s=1)], 0"), "[f32(2, 3), f32(2, 1)], 1",
        "[f32(2), i32(2)], 0", "[f32(2), f32(2)], 1", "[], 0", "[f32(2)], 0",
        "[f32(2, 3), f32(3, 2)], 0", "[f32(0), f32(2)], 0", "[f32(), f32()], 0", "[f32(2), 1.0], 0",
        "[f32(2, 2), f32(2, 2)], -1",
    ]),
    ("stack", [
        "[f32(2), f32(2)]", "[f32(2), f32(2)], axis=1", "[f32(2), i32(2)]", "[]",
        "[f32(2, 3)], axis=-1", "f32(2, 3)", "[f32(), 1.0]", "[f32(2), f32(3)]",
        "[f32(0), f32(0)], axis=2", "(b1(2), b1(2))",
    ]),
    ("unstack", [
        "f32(2, 3)", "f32(2, 3), axis=1", "f32(2, 3), axis=-1", "f32()", "f32(0, 2)",
        "f32(2, 3), 2", "i8(3)", "[1.0, 2.0]",
    ]),
    ("split", [
        "f32(6), (2, 4)", "f32(2, 3), (1, 2), axis=1", "f32(6), (2, 3)", "f32(6), (7, -1)",
        "f32(0), (0, 0)", "f32(3), (3,), 1",
    ]),
    ("tile", ["f32(3), (2,)", "f32(2, 3), (2, 1)", "f32(3), (0,)", "f32(3), (2, 2)", "f32(), ()"]),
    ("pad", [
        *over(NUMBERS, "D(3), D(), [(1, 2, 1)]"), "f32(3), 0.0, [(-1, 0, 0)]",
        "f32(2, 3), 0.0, [(0, 1, 0), (1, 0, 2)]", "f32(3), 0, [(1, 1, 0)]",
        "i32(3), 0, [(-2, -2, 0)]", "f32(3), i32(), [(1, 1, 0)]", "f32(3), 0.0, [(1, 1, -1)]",
        "f32(2, 3), 0.0, [(1, 1, 0)]", "f32(0), 1.0, [(1, 1, 0)]", "f32(3), f32(1), [(1, 1, 0)]",
        "f32(5), 0.0, [(-1, -1, 1)]",
    ]),
    ("slice", [
        "f32(5), (1,), (4,)", "f32(5), (0,), (5,), (2,)", "f32(2, 3), (0, 1), (2, 3)",
        "f32(5), (1,), (9,)", "f32(5), (3,), (2,)", "f32(5), (-1,), (4,)",
        "f32(5), (0,), (5,), (0,)", "f32(2, 3), (0,), (2,)", "f32(5), (5,), (5,)",
        "b1(5), [1], [3], [1]",
    ]),
    ("slice_in_dim", [
        "f32(5), 1, 4", "f32(5), None, -1", "f32(2, 5), 0, 5, 2, axis=1", "f32(5), -3, None",
        "f32(5), 0, 9", "f32(2, 3), 1, 2, axis=-1", "f32(5), 4, 2",
    ]),
    ("index_in_dim", [
        "f32(5), 1", "f32(2, 3), -1, axis=1", "f32(2, 3), 1, 0, False", "f32(5), 7", "f32(5), -6",
        "f32(5), 1.5",
    ]),
    ("dynamic_slice", [
        *over(NUMBERS, "D(5), (1,), (3,)"), "f32(5), (9,), (3,)", "f32(5), (-1,), (2,)",
        "f32(5), (-9,), (2,)", "f32(5), [i32()], (2,)", "f32(2, 3), (0, 2), (2, 2)",
        "f32(2, 3), i32([1, 1]), (1, 2)", "f32(5), (1,), (6,)", "f32(5), (1.5,), (2,)",
        "f32(5), (1, 1), (2,)", "f32(5), (u8(),), (2,)",
        "f32(5), (-1,), (2,), allow_negative_indices=False", "f32(5), (0,), (-1,)",
    ]),
    ("dynamic_slice_in_dim", [
        "f32(5), 1, 3", "f32(2, 5), 4, 2, axis=1", "f32(5), -2, 2", "f32(5), i32(), 2",
        "f32(5), 0, 6",
    ]),
    ("dynamic_index_in_dim", [
        "f32(5), 1", "f32(2, 3), 2, axis=1, keepdims=False", "f32(5), -1", "f32(5), 9",
        "f32(5), i32()",
    ]),
    ("dynamic_update_slice", [
        *over(NUMBERS, "D(5), D(2, s=1), (1,)"), "f32(5), f32(2), (9,)", "f32(5), f32(2), (-1,)",
        "f32(2, 3), f32(1, 2), (1, 2)", "f32(5), i32(2), (0,)", "f32(5), f32(6), (0,)",
        "f32(5), f32(2, 1), (0,)", "f32(5), 2.0, (0,)", "f32(5), f32(0), (0,)",
        "f32(5), f32(2), (0, 0)",
    ]),
    ("dynamic_update_slice_in_dim", [
        "f32(5), f32(2), 1, 0", "f32(2, 5), f32(2, 2), 4, axis=1", "f32(5), 7.0, 1, 0",
        "f32(5), f32(2), -1, 0", "f32(2, 5), f32(2, 2), 9, -1", "f32(5), f32(6), 0, 0",
        "f32(5), i32(2), 0, 0", "f32(5), f32(2), i8([1])[0], 0", "f32(5), f32(2), 1.5, 0",
        "f32(5), f32(2), -2, 0, allow_negative_indices=False", "f32(5), f32(2), 0, 1",
    ]),
    ("dynamic_update_index_in_dim", [
        "f32(5), 7.0, 1, 0", "f32(2, 3), f32(2), 1, 1", "f32(2, 3), f32(2, 1), 1, 1",
        "f32(5), f32(1), -1, 0", "f32(5), 1.0, 9, 0",
    ]),
    ("index_take", [
        "f32(4, 3), (i32([0, 2]),), (0,)", "f32(4, 3), (i32([0, 2]), i32([1, 1])), (0, 1)",
        "f32(4, 3), (i32([9, -1]),), (1,)", "i8(4), (u8([3, 0]),), (0,)",
        "f32(4, 3), (i32([0]), i32([1, 2])), (0, 1)", "f32(4, 3), (f32([0.0]),), (0,)",
        "f32(4), (i32([[0, 1]]),), (0,)", "f32(0, 3), (i32([0]),), (0,)",
    ]),
    # reductions and scans along an axis
    ("reduce_sum reduce_prod reduce_max reduce_min", over(REAL + " c64", "D(2, 3), (1,)") + AXES),
    ("reduce_and reduce_or reduce_xor", [
        *over("b1 i32 u8 f32", "D(2, 3), (1,)"), "b1(2, 3), (0, 1)", "i32(2, 3), ()",
        "b1(0, 3), (0,)", "b1(2), (1,)",
    ]),
    ("argmax argmin", [
        *over(REAL + " c64", "D(6), 0, 'int32'"), "f32(2, 3), 1, jnp.int8", "f32(2, 3), 2, 'int32'",
        "f32(0), 0, 'int32'", "sp('f32'), 0, 'uint32'", "f32(2, 3), -1, 'int32'",
        "f32(3), 0, 'float32'",
    ]),
    ("cumsum cumprod cummax cummin", CUM),
    ("cumlogsumexp", [*CUM, "f32([-np.inf, -np.inf, 0])", "f32([1000, 1000])"]),
    ("sort", [
        *over(REAL + " c64", "D(6)"), "f32(2, 3), dimension=0", "f32(2, 3), 1, False",
        "(i32(5), f32(5))", "(i32([1, 1, 0]), f32([3, 2, 1]))",
        "(i32([1, 1, 0]), f32([3, 2, 1])), num_keys=2", "f32(3), 1", "sp('f32')",
        "(i32(3), f32(2))", "f32()", "[f32(3)]", "f32(0)",
    ]),
    ("sort_key_val", [
        "i32([2, 1, 2, 0]), f32(4)", "f32(2, 3), i32(2, 3), 0", "i32(3), f32(2)",
        "f32(3), i32(3), is_stable=False", "f32([np.nan, 1, -np.inf]), i32(3)",
        "i32([1, 1, 0]), f32([1, 2, 3]), is_stable=True", "f32(2, 3), f32(2, 3), dimension=2",
        "f32(0), i32(0)", "b1(4), i32(4)", "[2, 1], [3, 4]",
    ]),
    ("top_k", [
        *over(REAL, "D(6), 3"), "f32(2, 4), 2", "f32(2, 4), 1, axis=0", "f32(4), 5", "f32(4), 0",
        "f32(4), -1", "sp('f32'), 4", "f32(), 1", "i32([2, 2, 1, 2]), 3", "c64(3), 1",
    ]),
    ("approx_max_k approx_min_k", [
        "f32(8), 3", "f32(2, 8), 2", "i32(8), 2", "f32(8), 9",
        "f32(4, 8), 2, reduction_dimension=0",
    ]),
    # contractions
    ("dot", [
        *over(NUMBERS, "D(2, 3), D(3, 2)"), "f32(3), f32(3)", "f32(2, 3), f32(2)",
        "f32(2, 3), i32(3)", "f32(), f32(3)", "f32(2, 2, 2), f32(2)",
        "bf16(3), bf16(3), preferred_element_type='float32'",
    ]),
    ("dot_general", [
        *over(NUMBERS + " i8 b1", "D(2, 3), D(3, 2), (((1,), (0,)), ((), ()))"),
        "f32(2, 3, 4), f32(2, 4, 5), (((2,), (1,)), ((0,), (0,)))",
        "f32(2, 3), f32(2, 3), (((0, 1), (0, 1)), ((), ()))",
        "f32(2), f32(3), (((), ()), ((), ()))", "f32(2, 3), f32(2, 3), (((1,), (0,)), ((), ()))",
        "f32(2, 3), bf16(3, 2), (((1,), (0,)), ((), ()))",
        "f32(2, 3), i32(3), (((1,), (0,)), ((), ()))",
        "i8(2, 3), i8(3, 2), (((1,), (0,)), ((), ())), preferred_element_type='int32'",
        "f32(2, 3), f32(3), (((5,), (0,)), ((), ()))",
        "f32(2, 3), f32(3, 2), (((1,), (0,)), ((), ())), precision=lax.Precision.HIGHEST",
        "f32(2, 3), f32(3, 2), (((1,), (0,)), ((), ())), precision=('default', 'high')",
        "f32(0, 3), f32(3, 2), (((1,), (0,)), ((), ()))",
        "f32(2, 0), f32(0, 2), (((1,), (0,)), ((), ()))",
        "f32(3, 2), f32(3, 2), (((1,), (1,)), ((0,), (0,)))",
    ]),
    ("batch_matmul", [
        "f32(2, 2, 3), f32(2, 3, 2)", "f32(2, 3), f32(3, 2)", "f32(2, 2, 3), f32(3, 3, 2)",
        "i32(2, 2, 3), i32(2, 3, 1)", "f32(2, 2, 3), i32(2, 3, 2)", "f32(0, 2, 3), f32(0, 3, 2)",
        "f32(3), f32(3)", "bf16(2, 2, 2), bf16(2, 2, 2), precision='highest'",
        "f32(2, 2, 3, 2), f32(2, 2, 2, 1)",
    ]),
    ("ragged_dot", [
        "f32(5, 3), f32(2, 3, 4), i32([2, 3])", "f32(5, 3), f32(2, 3, 4), i32([2, 1])",
        "f32(5, 3), f32(2, 2, 4), i32([2, 3])", "f32(5, 3), f32(2, 3, 4), i32([0, 5])",
        "bf16(5, 3), bf16(2, 3, 4), i32([3, 2]), preferred_element_type='float32'",
        "f32(5, 3), f32(2, 3, 4), i32([4, 4])", "f32(5, 3), f32(2, 3, 4), f32([2, 3])",
        "f32(5, 3), i32(2, 3, 4), i32([2, 3])", "f32(5, 3), f32(2, 3, 4), i32([2, 2, 1])",
        "f32(0, 3), f32(2, 3, 4), i32([0, 0])",
        "f32(5, 3), f32(2, 3, 4), i32([2, 3]), precision='highest'",
        "f32(5, 3), f32(2, 3, 4), i32([2, 3]), group_offset=i32([0])",
    ]),
    ("padtype_to_pads", [
        "(5, 5), (3, 2), (2, 1), 'SAME'", "(5,), (3,), (2,), 'VALID'",
        "(5,), (3,), (1,), 'SAME_LOWER'", "(5,), (3,), (1,), 'odd'", "(5,), (3,), (1,), [(1, 1)]",
        "(0,), (3,), (1,), 'SAME'", "(5, 5), (3,), (1,), 'VALID'",
        "(5,), (3,), (2,), 'same'", "(), (), (), 'SAME'",
    ]),
    ("fft", [
        "c64(4), 'FFT', (4,)", "c64(4), lax.FftType.IFFT, 4", "f32(4), 'RFFT', (4,)",
        "c64(3), 'IRFFT', (4,)", "f32(4), 'FFT', (4,)", "c64(2, 4), 'FFT', (2, 4)",
        "f32(4), 'odd', (4,)", "f32(4), 'RFFT', (3,)",
    ]),
    ("rng_bit_generator", [
        "u32([1, 2]), (5,), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY", "f32(4), (3,)",
        "u32([1, 2, 3, 4]), (3,), algorithm=lax.RandomAlgorithm.RNG_DEFAULT",
        "u32([1, 2]), (0,), 'uint8', algorithm=lax.RandomAlgorithm.RNG_THREE_FRY",
        "u32([1, 2]), (3,), 'float32', algorithm=lax.RandomAlgorithm.RNG_THREE_FRY",
        "u32([1, 2]), (3,), 'uint16', algorithm=lax.RandomAlgorithm.RNG_THREE_FRY",
        "u32([1, 2, 3]), (2,)", "u32([1, 2]), (-1,), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY",
        "key(1), (2,)",
    ]),
    ("create_token", ["", "1"]),
    ("after_all", ["", "lax.create_token()", "lax.create_token(), lax.create_token()"]),
    ("conv_shape_tuple", [
        "(1, 2, 5), (3, 2, 3), (1,), [(0, 0)]", "(4, 2, 5), (3, 2, 3), (2,), [(1, 1)]",
        "(4, 2, 5), (4, 2, 3), (1,), [(0, 0)], batch_group_count=2",
        "(1, 3, 5), (3, 2, 3), (1,), [(0, 0)]",
        "(1, 2, 2), (3, 2, 3), (1,), [(0, 0)]", "(0, 2, 5, 5), (3, 2, 1, 2), (1, 2), 'SAME'",
        "(1, 2, 5), (3, 2, 3), (1,), 'VALID'",
    ]),
    ("conv_dimension_numbers", [
        "(1, 2, 5), (3, 2, 3), ('NCH', 'OIH', 'NCH')",
        "(1, 5, 2), (3, 2, 3), ('NHC', 'HIO', 'NHC')", "(1, 2), (3, 2), None",
        "(1, 2, 5), (3, 2, 3), ('NCH', 'OIH')", "(1, 2, 5), (3, 2, 3), ('NCX', 'OIX', 'NCX')",
        "(1, 2, 5), (3, 2), None", "(1, 2, 5), (3, 2, 3), ('NCH', 'OIH', 'NCZ')",
        "(1, 2, 5), (3, 2, 3), lax.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))",
        "(1, 2, 5), (3, 2, 3), ('NCHW', 'OIHW', 'NCHW')", "(1, 2, 5), (3, 2, 3), 5",
    ]),
]

ENUMS = "AccuracyMode DotAlgorithmPreset FftType GatherScatterMode Precision RandomAlgorithm RoundingMethod"
EXPRESSIONS = [
    *[
        (
            f"lax.{n}",
            [
                f"[m.name for m in lax.{n}]", f"[m.value for m in lax.{n}]", f"repr([*lax.{n}][0])",
                f"str([*lax.{n}][-1])", f"lax.{n}['NONSENSE']", f"lax.{n}(987)",
                f"[*lax.{n}][0] == [*lax.{n}][1]",
            ],
        )
        for n in ENUMS.split()
    ],
    ("lax.Precision", [
        "lax.Precision('highest')", "lax.Precision('nonsense')", "str(lax.Precision.DEFAULT)",
        "repr(lax.Precision.HIGH)",
    ]),
    ("lax.GatherScatterMode", [
        "[lax.GatherScatterMode.from_any(s) for s in ('clip', 'fill', 'drop', 'promise_in_bounds')]",
        "lax.GatherScatterMode.from_any('odd')",
    ]),
    ("lax.platform_dependent", [
        "lax.platform_dependent(f32(3), cpu=lambda x: x + 1, default=lambda x: x - 1)",
        "lax.platform_dependent(f32(3), default=lambda x: x - 1)",
        "lax.platform_dependent(f32(3), tpu=lambda x: x * 5, default=lambda x: x)",
        "lax.platform_dependent(f32(3), tpu=lambda x: x)",
        "lax.platform_dependent(2.0, i32(2), cpu=lambda a, b: (a, b))",
        "jax.jit(lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos))(f32(2))",
        "jax.grad(lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos))(1.0)",
        "jax.vmap(lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos))(f32(2))",
        "lax.platform_dependent(f32(3))",
    ]),
    ("lax.composite", [
        "lax.composite(lambda x: x * 2, 'my.double')(f32(3))",
        "lax.composite(lambda x: x * 2, 'my.double')(f32(3))",
        "lax.composite(lambda x, y: (x + y, x), 'a.b', version=1)(f32(3), 1.0)",
        "jax.jit(lax.composite(lambda x, scale=1.0: x * scale, 'my.scale'))(f32(2))",
        "lax.composite(lambda x, *, n: x * n, 'my.times')(f32(2), n=3)",
        "jax.grad(lax.composite(lambda x: x * 2, 'my.double'))(2.0)",
        "jax.vmap(lax.composite(lambda x: x * 2, 'my.double'))(f32(2))",
        "lax.composite(5, 'a')(1.0)", "lax.composite(lambda x: 'a', 'b')(1.0)",
    ]),
    ("lax.rng_uniform", [
        "lax.rng_uniform(0.0, 1.0, (3,)).shape", "lax.rng_uniform(f32(2), 1.0, (3,))",
        "lax.rng_uniform(0.0, 1.0, (0,))", "lax.rng_uniform(2.0, 2.0, (3,)).dtype",
        "lax.rng_uniform(0, 5, (2, 3)).shape", "lax.rng_uniform(0.0, 1, (3,))",
        "lax.rng_uniform(0.0, 1.0, (-1,))",
        "(lambda r: bool(((r >= -1) & (r < 1)).all()))(lax.rng_uniform(-1.0, 1.0, (50,)))",
    ]),
    # descriptions of arithmetic, which the CPU takes and ignores
    ("lax.DotAlgorithm", [
        "lax.DotAlgorithm(np.dtype('float32'), np.dtype('float32'), np.dtype('float32'))",
        "lax.DotAlgorithm(np.dtype('float32'), np.dtype('float32'), np.dtype('float32')) == lax.DotAlgorithm(np.dtype('float32'), np.dtype('float32'), np.dtype('float32'))",
        "hash(lax.DotAlgorithm(np.dtype('float32'), np.dtype('float32'), np.dtype('float32'))) == hash(lax.DotAlgorithm(np.dtype('float32'), np.dtype('float32'), np.dtype('float32')))",
        "lax.DotAlgorithm(np.dtype('float32'), np.dtype('float32'), np.dtype('float32'))._replace(num_primitive_operations=3)",
        "lax.DotAlgorithm()",
        "lax.dot(f32(2, 3), f32(3), precision=lax.DotAlgorithm(np.dtype('float32'), np.dtype('float32'), np.dtype('float32')))",
    ]),
    ("lax.DotAlgorithmPreset", [
        "lax.dot(f32(2, 3), f32(3), precision=lax.DotAlgorithmPreset.F32_F32_F32)",
        "lax.dot(f32(2, 3), f32(3), precision='F32_F32_F32')",
        "lax.dot(f32(2, 3), f32(3), precision=lax.DotAlgorithmPreset.DEFAULT)",
        "lax.dot(i32(2, 3), i32(3), precision=lax.DotAlgorithmPreset.F32_F32_F32)",
    ]),
    ("lax.Tolerance", [
        "lax.Tolerance()", "lax.Tolerance(-1)", "lax.Tolerance(1e-3, 1e-4, 2).ulps",
        "lax.Tolerance(rtol=1e-3).atol",
        "lax.exp(f32(3), accuracy=lax.Tolerance(1e-3))", "lax.Tolerance(ulps=2.5).ulps",
    ]),
    ("lax.AccuracyMode", [
        "lax.exp(f32(3), accuracy=lax.AccuracyMode.HIGHEST)", "lax.exp(f32(3), accuracy='highest')",
    ]),
    ("lax.RaggedDotDimensionNumbers", [
        "lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])",
        "lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0]) == lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))",
        "hash(lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])) == 1",
        "lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], []).rhs_group_dimensions",
        "lax.RaggedDotDimensionNumbers()",
    ]),
    ("lax.ragged_dot_general", [
        "lax.ragged_dot_general(f32(5, 3), f32(2, 3, 4), i32([2, 3]), lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0]))",
        "lax.ragged_dot_general(f32(5, 3), f32(2, 4, 3), i32([2, 2]), lax.RaggedDotDimensionNumbers((((1,), (2,)), ((), ())), [0], [0]))",
        "lax.ragged_dot_general(f32(5, 3), f32(5, 4), i32([2, 3]), lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], []))",
        "lax.ragged_dot_general(f32(2, 5, 3), f32(2, 5, 4), i32([1, 1]), lax.RaggedDotDimensionNumbers((((1,), (1,)), ((0,), (0,))), [0], []))",
        "lax.ragged_dot_general(f32(5, 3), f32(2, 3, 4), i32([2, 3]), lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0, 1], [0]))",
        "lax.ragged_dot_general(f32(5, 3), f32(2, 3, 4), i32([2, 3]), lax.RaggedDotDimensionNumbers((((1,), (2,)), ((), ())), [0], [0]))",
    ]),
    ("lax.scaled_dot", [
        "lax.scaled_dot(f8(4, 32), f8(32, 3))",
        "lax.scaled_dot(f32(4, 32), f32(32, 3), preferred_element_type='float32')",
        "lax.scaled_dot(f8(4, 32), f8(32, 3), lhs_scale=jnp.ones((4, 1), 'float8_e8m0fnu'), rhs_scale=jnp.ones((1, 3), 'float8_e8m0fnu'))",
        "lax.scaled_dot(f8(4, 32), f8(31, 3))",
        "lax.scaled_dot(f8(4, 32), f8(3, 32), dimension_numbers=(((1,), (1,)), ((), ())))",
        "lax.scaled_dot(f8(4, 32), f8(32, 3), lhs_scale=jnp.ones((4, 3), 'float8_e8m0fnu'))",
    ]),
]

CASES = calls(SECTION, "lax.", TABLE) + expressions(SECTION, EXPRESSIONS)
