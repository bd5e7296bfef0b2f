"""`lax` operations with structure: gather and scatter, windows, convolutions, control flow, collectives."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import calls, expressions, over

SECTION = "lax"

GDN = "lax.GatherDimensionNumbers"
SDN = "lax.ScatterDimensionNumbers"
POINT_G = f"{GDN}(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))"
ROW_G = f"{GDN}(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))"
WINDOW_G = f"{GDN}(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1))"
BATCH_G = f"{GDN}(offset_dims=(), collapsed_slice_dims=(1,), start_index_map=(1,), operand_batching_dims=(0,), start_indices_batching_dims=(0,))"
POINT_S = (
    f"{SDN}(update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))"
)
ROW_S = (
    f"{SDN}(update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))"
)
WINDOW_S = f"{SDN}(update_window_dims=(0, 1), inserted_window_dims=(), scatter_dims_to_operand_dims=(0, 1))"

GATHER = [
    *over("f32 i32 b1 c64", f"D(5), i32([[0], [3], [1]]), {POINT_G}, (1,)"),
    *[
        f"f32(5), i32([[0], [9], [-2]]), {POINT_G}, (1,), mode='{m}'"
        for m in ("clip", "fill", "drop")
    ],
    f"f32(5), i32([[9]]), {POINT_G}, (1,), mode='fill', fill_value=7",
    f"i32(5), i32([[9]]), {POINT_G}, (1,)", f"f32(4, 3), i32([[2], [0]]), {ROW_G}, (1, 3)",
    f"f32(4, 3), i32([[2], [0]]), {ROW_G}, (1, 2)",
    f"f32(4, 5), i32([[2, 1], [0, 4]]), {WINDOW_G}, (2, 2), mode='clip'",
    f"f32(4, 5), i32([[2, 1], [0, 4]]), {WINDOW_G}, (2, 2), mode='fill'",
    f"f32(2, 4), i32([[[0], [3]], [[1], [1]]]), {BATCH_G}, (1, 1)",
    f"f32(5), i32(3), {POINT_G}, (1,)", f"f32(5), i32([[0]]), {POINT_G}, (2,)",
    f"f32(5), f32([[0]]), {POINT_G}, (1,)", f"f32(5), u8([[0], [4]]), {POINT_G}, (1,)",
    f"f32(0), i32([[0]]), {POINT_G}, (1,)",
]
SCATTER = [
    *over("f32 i32 c64", f"D(5), i32([[0], [3], [0]]), D(3, s=1), {POINT_S}"),
    *[
        f"f32(5), i32([[0], [9], [-2]]), f32(3), {POINT_S}, mode='{m}'"
        for m in ("clip", "drop", "fill")
    ],
    f"f32(4, 3), i32([[2], [0]]), f32(2, 3), {ROW_S}",
    f"f32(4, 5), i32([2, 1]), f32(2, 2), {WINDOW_S}",
    f"f32(4, 5), i32([3, 4]), f32(2, 2), {WINDOW_S}, mode='clip'",
    f"f32(4, 5), i32([3, 4]), f32(2, 2), {WINDOW_S}", f"f32(5), i32([[0]]), i32(1), {POINT_S}",
    f"f32(5), i32([[0]]), f32(2), {POINT_S}",
    f"f32(5), i32([[0], [1]]), f32(2), {POINT_S}, unique_indices=True, indices_are_sorted=True",
    f"f32(5), f32([[0]]), f32(1), {POINT_S}",
]
WINDOW = [
    *over("f32 i32 bf16", "D(6), {init}, {op}, (2,), (1,), 'VALID'"),
    "f32(6), {init}, {op}, (3,), (2,), 'SAME'", "f32(8), {init}, {op}, (3,), (2,), 'SAME', (2,)",
    "f32(8), {init}, {op}, (3,), (2,), 'SAME_LOWER', (3,), (2,)",
    "f32(4, 5), {init}, {op}, (2, 3), (1, 2), ((0, 1), (1, 1))",
    "f32(8), {init}, {op}, (2,), (2,), 'VALID', (1,), (2,)",
    "f32(5), {init}, {op}, (2,), (1,), 'VALID', (2,), (1,)",
    "f32(6), {init}, {op}, (2, 2), (1,), 'VALID'", "f32(3), {init}, {op}, (4,), (1,), 'VALID'",
    "f32(0), {init}, {op}, (1,), (1,), 'VALID'",
]
CONV = [
    *over("f32 bf16 f16 c64 i32", "D(1, 2, 6), D(3, 2, 3), (1,), 'VALID'"),
    "f32(2, 3, 5, 6), f32(4, 3, 3, 2), (1, 1), 'SAME'",
    "f32(2, 3, 5, 6), f32(4, 3, 3, 2), (2, 1), [(1, 0), (0, 2)]",
    "f32(1, 2, 6), f32(3, 2, 3), (1,), 'VALID', rhs_dilation=(2,)",
    "f32(1, 2, 6), f32(3, 2, 3), (1,), 'SAME', lhs_dilation=(2,)",
    "f32(1, 6, 2), f32(3, 2, 4), (1,), 'SAME', dimension_numbers=('NHC', 'HIO', 'NHC')",
    "f32(1, 4, 5, 2), f32(3, 3, 2, 4), (1, 1), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC')",
    "f32(1, 4, 6), f32(6, 2, 3), (1,), 'VALID', feature_group_count=2",
    "f32(1, 3, 6), f32(3, 1, 3), (1,), 'VALID', feature_group_count=3",
    "f32(4, 2, 6), f32(4, 2, 3), (1,), 'VALID', batch_group_count=2",
    "f32(1, 2, 3, 4, 5), f32(2, 2, 2, 2, 2), (1, 1, 1), 'VALID'",
    "f32(1, 2), f32(3, 2), (), 'VALID'", "f32(1, 2, 6), f32(3, 2, 3), (1,), 'SAME_LOWER'",
    "f32(1, 2, 6), f32(3, 2, 3), (1,), [(-1, 0)]", "f32(1, 2, 6), f32(3, 1, 3), (1,), 'VALID'",
    "f32(1, 2, 6), i32(3, 2, 3), (1,), 'VALID'", "f32(1, 2, 6), f32(3, 2, 3), (1, 1), 'VALID'",
    "f32(1, 2, 6), f32(3, 2), (1,), 'VALID'", "f32(1, 2, 6), f32(3, 2, 3), (1,), 'odd'",
    "f32(1, 2, 2), f32(3, 2, 3), (1,), 'VALID'", "f32(0, 2, 6), f32(3, 2, 3), (1,), 'VALID'",
    "f32(1, 3, 6), f32(4, 2, 3), (1,), 'VALID', feature_group_count=2",
    "f32(1, 2, 6), f32(3, 2, 3), (1,), 'VALID', preferred_element_type='float32', precision='highest'",
    "bf16(1, 2, 6), bf16(3, 2, 3), (1,), 'VALID', preferred_element_type='float32'",
]

TABLE = [
    ("gather", GATHER),
    ("scatter scatter_add scatter_mul scatter_min scatter_max scatter_sub", SCATTER),
    ("scatter_apply", [
        f"f32(5), i32([[0], [3]]), jnp.sin, {POINT_S}",
        f"f32(5), i32([[0], [9]]), lambda x: x * 2, {POINT_S}, mode='drop'",
        f"i32(5), i32([[0], [0]]), lambda x: x + 1, {POINT_S}",
        f"f32(5), i32([[1]]), lambda x: x + 1.5, {POINT_S}, unique_indices=True",
        f"f32(5), f32([[1.0]]), jnp.sin, {POINT_S}", f"f32(5), i32([[1]]), 5, {POINT_S}",
        f"f32(4, 3), i32([[2], [0]]), jnp.abs, {ROW_S}, update_shape=(2, 3)",
    ]),
    ("reduce_window", [
        t.replace("{init}", i).replace("{op}", o)
        for t in WINDOW
        for i, o in (("0", "lax.add"), ("-np.inf", "lax.max")) if "i32" not in t or o == "lax.add"
    ]),
    ("reduce_window", [
        "f32(6), 1.0, lax.mul, (2,), (1,), 'VALID'",
        "i32(6), jnp.iinfo('int32').max, lax.min, (3,), (1,), 'VALID'",
        "i32(6), 0, lax.add, (2,), (2,), 'SAME'",
    ]),
    ("reduce_window", [
        "f32(6), 0.0, lambda a, b: a + 2 * b, (2,), (1,), 'VALID'",
        "(f32(4), i32(4)), (0.0, 0), lambda a, b: (a[0] + b[0], a[1] + b[1]), (2,), (1,), 'VALID'",
    ]),
    ("reduce_window_shape_tuple", [
        "(6,), (2,), (1,), [(0, 0)]", "(6, 5), (2, 3), (1, 2), [(0, 1), (1, 1)]",
        "(6,), (2,), (2,), [(0, 0)], base_dilation=(2,)", "(6,), (3,), (1,), [(0, 0)], (1,), (2,)",
        "(2,), (5,), (1,), [(0, 0)]", "(0,), (1,), (1,), [(0, 0)]", "(6,), (2,), (0,), [(0, 0)]",
        "(6,), (2,), (1,), 'SAME'",
    ]),
    ("reduce", [
        "f32(2, 3), 0.0, lax.add, (0,)", "i32(2, 3), 1, lax.mul, (0, 1)",
        "f32(2, 3), -np.inf, lax.max, (1,)", "b1(2, 3), False, lax.bitwise_or, (1,)",
        "b1(2, 3), True, lax.bitwise_and, (0,)",
    ]),
    ("reduce", [
        "(f32(4), i32(4)), (-np.inf, 0), lambda a, b: (lax.max(a[0], b[0]), a[1] + b[1]), (0,)",
        "f32(3), 0, lax.add, (0,)", "f32(2, 3), 0.0, lax.add, (2,)",
        "f32(3), 0.0, lambda a, b: a + b * 1, (0,)",
    ]),
    ("conv_general_dilated", CONV),
    ("conv", [
        "f32(1, 2, 6), f32(3, 2, 3), (1,), 'SAME'",
        "f32(1, 2, 5, 5), f32(3, 2, 3, 3), (2, 2), 'VALID'",
        "f32(1, 2, 6), f32(3, 2, 3), (1,), 'odd'",
        "bf16(1, 2, 6), bf16(3, 2, 3), (2,), 'VALID', preferred_element_type='float32'",
        "f32(1, 2, 6), i32(3, 2, 3), (1,), 'SAME'", "f32(1, 2, 6), f32(3, 1, 3), (1,), 'SAME'",
        "f32(0, 2, 6), f32(3, 2, 3), (1,), 'SAME'",
        "f32(1, 2, 6), f32(3, 2, 3), (1,), 'SAME', precision='highest'",
        "i32(1, 2, 6), i32(3, 2, 3), (1,), 'SAME_LOWER'",
    ]),
    ("conv_with_general_padding", [
        "f32(1, 2, 6), f32(3, 2, 3), (1,), [(1, 1)], (1,), (2,)",
        "f32(1, 2, 6), f32(3, 2, 3), (1,), 'SAME', None, None",
        "f32(1, 2, 6), f32(3, 2, 3), (1,), [(-1, 2)], (2,), (1,)",
        "bf16(1, 2, 6), bf16(3, 2, 3), (1,), 'VALID', None, (2,), preferred_element_type='float32'",
        "f32(1, 2, 6), f32(3, 2, 3), (1,), [(1, 1), (0, 0)], None, None",
        "f32(1, 2, 6), f32(3, 2, 3), (1,), 'odd', None, None",
        "c64(1, 2, 6), c64(3, 2, 3), (2,), [(0, 0)], (1,), (1,)",
    ]),
    ("conv_transpose", [
        *[
            f"f32(1, 5, 2), f32(3, 2, 4), ({s},), '{p}'"
            for s in (1, 2, 3)
            for p in ("SAME", "VALID")
        ],
        "f32(1, 5, 2), f32(3, 2, 4), (2,), [(1, 2)]",
        "f32(1, 4, 5, 2), f32(3, 3, 2, 4), (2, 2), 'SAME'",
        "f32(1, 5, 2), f32(3, 4, 2), (2,), 'SAME', transpose_kernel=True",
        "f32(1, 5, 2), f32(3, 2, 4), (2,), 'VALID', rhs_dilation=(2,)",
        "f32(1, 2, 5), f32(2, 4, 3), (2,), 'SAME', dimension_numbers=('NCH', 'IOH', 'NCH')",
        "f32(1, 5, 2), f32(3, 2, 4), (2,), 'SAME', use_consistent_padding=True",
    ]),
    ("conv_general_dilated_patches", [
        "f32(1, 2, 6), (3,), (1,), 'VALID'", "f32(1, 2, 5, 5), (2, 2), (2, 2), 'SAME'",
        "f32(1, 6, 2), (3,), (1,), 'VALID', dimension_numbers=('NHC', 'HIO', 'NHC')",
        "bf16(1, 2, 6), (3,), (2,), [(1, 1)]",
        "f32(1, 2, 6), (2,), (1,), 'VALID', rhs_dilation=(2,)",
        "f32(1, 2, 6), (2,), (1,), 'SAME', lhs_dilation=(2,)", "i32(1, 2, 6), (3,), (1,), 'VALID'",
        "f32(1, 2, 6), (3, 3), (1,), 'VALID'", "f32(1, 2, 6), (7,), (1,), 'VALID'",
        "f32(1, 2, 6), (3,), (1,), 'VALID', precision=lax.Precision.HIGHEST",
    ]),
    ("conv_general_dilated_local", [
        "f32(1, 2, 5), f32(4, 6, 3), (1,), 'VALID', (3,)",
        "f32(2, 2, 5), f32(4, 6, 5), (1,), 'SAME', (3,)",
        "f32(1, 2, 5), f32(4, 6, 2), (2,), 'VALID', (3,)",
        "f32(1, 5, 2), f32(3, 6, 4), (1,), 'VALID', (3,), dimension_numbers=('NHC', 'HIO', 'NHC')",
        "f32(1, 2, 5), f32(4, 5, 3), (1,), 'VALID', (3,)",
        "bf16(1, 2, 5), bf16(4, 6, 3), (1,), 'VALID', (3,), precision='highest'",
        "f32(1, 2, 5), i32(4, 6, 3), (1,), 'VALID', (3,)",
        "f32(1, 2, 7), f32(4, 6, 3), (1,), 'VALID', (3,), rhs_dilation=(2,)",
    ]),
    ("conv_general_permutations", [
        "('NCH', 'OIH', 'NCH')", "('NHC', 'HIO', 'NHC')", "('NCHW', 'OIHW', 'NHWC')",
        "('NHC', 'OIH', 'NCH')", "('NCH', 'OIH', 'NCZ')", "('NCH', 'OIH')", "('NNH', 'OIH', 'NCH')",
        "5",
    ]),
    ("conv_general_shape_tuple", [
        "(1, 2, 6), (3, 2, 3), (1,), 'SAME', ('NCH', 'OIH', 'NCH')",
        "(1, 6, 2), (3, 2, 4), (2,), 'VALID', ('NHC', 'HIO', 'NHC')",
        "(1, 2, 6, 7), (3, 2, 3, 2), (1, 2), [(1, 0), (0, 0)], ('NCHW', 'OIHW', 'NHWC')",
        "(1, 2, 6), (3, 1, 3), (1,), 'SAME', ('NCH', 'OIH', 'NCH')",
        "(0, 2, 6), (3, 2, 3), (1,), 'SAME', ('NCH', 'OIH', 'NCH')",
        "(1, 2, 6), (3, 2, 3), (1,), 'odd', ('NCH', 'OIH', 'NCH')",
    ]),
    ("conv_transpose_shape_tuple", [
        "(1, 5, 2), (3, 2, 4), (2,), 'SAME', ('NHC', 'HIO', 'NHC')",
        "(1, 5, 2), (3, 2, 4), (2,), 'VALID', ('NHC', 'HIO', 'NHC')",
        "(1, 5, 2), (3, 2, 4), (3,), [(1, 2)], ('NHC', 'HIO', 'NHC')",
        "(1, 2, 5), (2, 4, 3), (1,), 'SAME', ('NCH', 'IOH', 'NCH')",
        "(0, 5, 2), (3, 2, 4), (2,), 'SAME', ('NHC', 'HIO', 'NHC')",
        "(1, 5, 2), (3, 2, 4), (2,), 'odd', ('NHC', 'HIO', 'NHC')",
    ]),
    ("associative_scan", [
        *over("f32 i32 c64", "lax.add, D(5)"), "lax.mul, f32(2, 7), axis=1",
        "lax.max, f32(6), reverse=True",
        "lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (f32(5), f32(5, s=1))", "lax.add, f32(1)",
        "lax.add, f32(0)", "lax.add, f32()", "jnp.matmul, f32(5, 2, 2)",
    ]),
    ("scan", [
        "lambda c, x: (c + x, c * x), 0.0, f32(4)", "lambda c, x: (c + x, c), f32(), f32(4)",
        "lambda c, x: (c * 2, None), 1, None, length=3",
        "lambda c, x: (c + x['a'], x), f32(2), {'a': f32(3, 2), 'b': i32(3)}",
        "lambda c, x: (c + x, c), f32(), f32(5), reverse=True",
        "lambda c, x: (c + x, c), f32(), f32(5), unroll=2",
        "lambda c, x: (c + x, c), f32(), f32(5), unroll=True",
        "lambda c, x: (c + x, c), f32(), f32(0)",
        "lambda c, x: ((c[1], c[0] + c[1]), c[0]), (0, 1), None, length=8",
        "lambda c, x: (x, c), f32(), i32(3)", "lambda c, x: (jnp.stack([c, x]), c), f32(), f32(3)",
        "lambda c, x: c, f32(), f32(3)", "lambda c, x: (c, x), f32()",
        "lambda c, x: (c, x), f32(), f32(3), length=4",
        "lambda c, x: (c, x), f32(), (f32(3), f32(2))", "lambda c, x: ((c, c), x), f32(), f32(3)",
        "lambda c, x: (c + 1, x), 0, f32(3)", "lambda c, x: (c + 1.5, x), 0, f32(3)",
        "lambda c, x: (c + x, c), f32(), 2.0", "lambda c, x: (c + x, c), f32(2, 2), f32(3, 2, 2)",
    ]),
    ("fori_loop", [
        "0, 5, lambda i, x: x + i, 0", "0, 5, lambda i, x: x * 1.5, f32(3)",
        "2, 2, lambda i, x: x + 1, 7", "5, 2, lambda i, x: x + 1, 7",
        "0, i32([4])[0], lambda i, x: x + i, 0.0", "0, 3, lambda i, x: (x[1], x[0]), (1, 2.0)",
        "0, 3, lambda i, x: x.at[i].set(i), i32(4)", "0, 4, lambda i, x: x + i, f32(), unroll=2",
        "0, 3, lambda i, x: x + 0.5, 0", "0, 3, lambda i, x: (x, x), 0",
        "0.0, 3, lambda i, x: x, 0", "0, u8([3])[0], lambda i, x: x + i, 0",
        "f32(2), 3, lambda i, x: x, 0",
    ]),
    ("while_loop", [
        "lambda x: x < 10, lambda x: x * 2, 1",
        "lambda x: x[0] < 5, lambda x: (x[0] + 1, x[1] * 0.5), (0, f32(3))",
        "lambda x: x < 0, lambda x: x + 1, f32()",
        "lambda x: jnp.all(x < 5), lambda x: x + 1, f32(3)",
        "lambda x: x < 5, lambda x: x + 1, f32(3)", "lambda x: x, lambda x: x - 1, 3",
        "lambda x: x < 3, lambda x: (x, x), 0", "lambda x: x < 3, lambda x: x + 0.5, 0",
        "lambda x: x < 3, lambda x: x.astype('int8'), i32()",
        "lambda x: (x < 3, x), lambda x: x + 1, 0",
        "lambda s: s['n'] > 0, lambda s: {'n': s['n'] - 1, 'v': s['v'] * s['n']}, {'n': 5, 'v': 1}",
    ]),
    ("cond", [
        "True, lambda x: x + 1, lambda x: x - 1, f32(3)",
        "b1(1)[0], lambda x: x + 1, lambda x: x - 1, f32(3)",
        "f32() > 0, lambda x, y: x + y, lambda x, y: x - y, 1.0, f32(2)", "1, lambda: 1, lambda: 2",
        "0.0, lambda: 1, lambda: 2", "b1(3), lambda: 1, lambda: 2",
        "True, lambda x: x, lambda x: (x, x), 1", "True, lambda x: x, lambda x: x * 1.5, 1",
        "True, lambda x: x, lambda x: x[:2], f32(3)",
        "True, lambda x: {'a': x}, lambda x: {'a': -x}, 2.0", "'a', lambda: 1, lambda: 2",
        "None, lambda: 1, lambda: 2", "True, lambda x: x, lambda x: -x, operand=3", "True, 1, 2",
        "True, lambda x: 1, lambda x: 1.0, 0",
    ]),
    ("switch", [
        "1, [lambda x: x, lambda x: x * 2, lambda x: x * 3], f32(2)",
        "7, [lambda x: x, lambda x: x * 2], f32(2)", "-3, [lambda x: x, lambda x: x * 2], f32(2)",
        "i32(), [lambda: 1, lambda: 2]", "0, [lambda: 1]", "0, []", "1.5, [lambda: 1, lambda: 2]",
        "i32(2), [lambda: 1, lambda: 2]", "0, [lambda: 1, lambda: 2.0]",
        "True, [lambda: 1, lambda: 2]",
    ]),
    ("map", [
        "lambda x: x * 2, f32(3)", "lambda x: x.sum(), f32(3, 2)",
        "lambda x: (x['a'], 1), {'a': f32(3)}", "lambda x: x * 2, f32(5), batch_size=2",
        "lambda x: x, f32(0)", "lambda x: x, f32()", "lambda x: x, (f32(2), f32(3))",
    ]),
    ("custom_root", [
        "lambda x: x**2 - 2.0, 1.0, lambda f, x0: lax.fori_loop(0, 20, lambda i, x: x - f(x) / (2 * x), x0), lambda g, y: y / g(1.0)",
        "lambda x: x**2 - 2.0, 1.0, lambda f, x0: (x0 + 0.4142135, 7), lambda g, y: y / g(1.0), has_aux=True",
        "lambda x: x - f32(3), f32(3, s=1), lambda f, x0: x0 - f(x0), lambda g, y: y",
        "lambda x: (x, x), 1.0, lambda f, x0: x0, lambda g, y: y",
        "lambda x: x, 1.0, lambda f, x0: (x0, x0), lambda g, y: y",
        "5, 1.0, lambda f, x0: x0, lambda g, y: y",
    ]),
    ("custom_linear_solve", [
        "lambda x: 2.0 * x, f32(3), lambda mv, b: b / 2.0, lambda vm, b: b / 2.0",
        "lambda x: 2.0 * x, f32(3), lambda mv, b: b / 2.0, symmetric=True",
        "lambda x: x, f32(3), lambda mv, b: (b, 5), symmetric=True, has_aux=True",
        "lambda x: {'a': 2.0 * x['a']}, {'a': f32(2)}, lambda mv, b: {'a': b['a'] / 2.0}",
        "lambda x: x[:2], f32(3), lambda mv, b: b", "lambda x: x, f32(3), lambda mv, b: b[:1]",
        "lambda x: x, i32(3), lambda mv, b: b, symmetric=True", "5, f32(3), lambda mv, b: b",
    ]),
]

AX = "axis_name='i'"
COLLECTIVES = [
    *[
        (
            f"lax.{n}",
            [
                f"jax.vmap(lambda x: lax.{n}(x, 'i'), {AX})({d}(4, 2))"
                for d in ("f32", "i32", "bf16")
            ],
        )
        for n in ("psum", "pmean", "pmax", "pmin")
    ],
    *[
        (
            f"lax.{n}",
            [f"lax.{n}(f32(2), 'i')", f"jax.vmap(lambda x: lax.{n}(x, 'j'), {AX})(f32(4))"],
        )
        for n in ("psum", "pmean", "pmax", "all_gather")
    ],
    ("lax.psum", [
        f"jax.vmap(lambda x: lax.psum(1, 'i') * x, {AX})(f32(4))",
        f"jax.vmap(lambda x: lax.psum((x, 2 * x), 'i'), {AX})(f32(4))",
    ]),
    ("lax.psum", [
        f"jax.vmap(lambda x: lax.psum(x, 'i', axis_index_groups=[[0, 1], [2, 3]]), {AX})(f32(4))",
        f"jax.vmap(lambda x: lax.psum(x, ()), {AX})(f32(4))",
    ]),
    ("lax.psum", [
        "jax.vmap(jax.vmap(lambda x: lax.psum(x, ('i', 'j')), axis_name='j'), axis_name='i')(f32(2, 3))"
    ]),
    (
        "lax.axis_index",
        [f"jax.vmap(lambda x: x + lax.axis_index('i'), {AX})(f32(3))", "lax.axis_index('i')"],
    ),
    (
        "lax.axis_size",
        [f"jax.vmap(lambda x: x * lax.axis_size('i'), {AX})(f32(3))", "lax.axis_size('i')"],
    ),
    ("lax.all_gather", [
        f"jax.vmap(lambda x: lax.all_gather(x, 'i'), {AX})(f32(3, 2))",
        f"jax.vmap(lambda x: lax.all_gather(x, 'i', axis=1), {AX})(f32(3, 2))",
        f"jax.vmap(lambda x: lax.all_gather(x, 'i', tiled=True), {AX})(f32(3, 2))",
    ]),
    ("lax.all_to_all", [
        f"jax.vmap(lambda x: lax.all_to_all(x, 'i', 0, 0), {AX})(f32(3, 3))",
        f"jax.vmap(lambda x: lax.all_to_all(x, 'i', 0, 0, tiled=True), {AX})(f32(2, 4))",
        f"jax.vmap(lambda x: lax.all_to_all(x, 'i', 0, 0), {AX})(f32(3, 2))",
    ]),
    ("lax.ppermute", [
        f"jax.vmap(lambda x: lax.ppermute(x, 'i', [(0, 1), (1, 2), (2, 0)]), {AX})(f32(3))",
        f"jax.vmap(lambda x: lax.ppermute(x, 'i', [(0, 1)]), {AX})(f32(3))",
        f"jax.vmap(lambda x: lax.ppermute(x, 'i', [(0, 1), (2, 1)]), {AX})(f32(3))",
    ]),
    ("lax.pshuffle", [
        f"jax.vmap(lambda x: lax.pshuffle(x, 'i', [2, 0, 1]), {AX})(f32(3))",
        f"jax.vmap(lambda x: lax.pshuffle(x, 'i', [2, 0]), {AX})(f32(3))",
    ]),
    ("lax.pswapaxes", [f"jax.vmap(lambda x: lax.pswapaxes(x, 'i', 0), {AX})(f32(3, 3))"]),
    ("lax.psum_scatter", [
        f"jax.vmap(lambda x: lax.psum_scatter(x, 'i'), {AX})(f32(3, 3))",
        f"jax.vmap(lambda x: lax.psum_scatter(x, 'i', tiled=True), {AX})(f32(2, 4))",
    ]),
    ("lax.pbroadcast", [
        f"jax.vmap(lambda x: lax.pbroadcast(x, 'i', 1), {AX})(f32(3))",
        "jax.vmap(lambda x: lax.pbroadcast(x, 'i', 0), axis_name='i')(f32(3, 2))",
        "jax.vmap(lambda x: lax.pbroadcast(x, 'j', 0), axis_name='i')(f32(3))",
        "lax.pbroadcast(f32(2), 'i', 0)",
        "jax.vmap(lambda x: lax.pbroadcast({'a': x}, 'i', 2), axis_name='i')(i32(3))",
    ]),
    ("lax.pmin", [
        "jax.vmap(lambda x: lax.pmin(x, 'j'), axis_name='i')(f32(4))",
        "jax.vmap(lambda x: lax.pmin((x, -x), 'i'), axis_name='i')(f32([1, np.nan, 2]))",
        "jax.vmap(lambda x: lax.pmin(x, 'i', axis_index_groups=[[0, 1], [2, 3]]), axis_name='i')(f32(4))",
        "jax.vmap(lambda x: lax.pmin(x, 'i'), axis_name='i')(c64(3))", "lax.pmin(f32(2), 'i')",
    ]),
    ("lax.axis_index", [
        "jax.vmap(lambda x: lax.axis_index('j'), axis_name='i')(f32(3))",
        "jax.vmap(jax.vmap(lambda x: lax.axis_index(('i', 'j')), axis_name='j'), axis_name='i')(f32(2, 3))",
        "jax.vmap(lambda x: lax.axis_index('i') * x, axis_name='i')(i8(3))",
        "jax.vmap(lambda x: lax.axis_index(5), axis_name='i')(f32(3))",
    ]),
    ("lax.axis_size", [
        "jax.vmap(lambda x: x * lax.axis_size('j'), axis_name='i')(f32(3))",
        "jax.vmap(jax.vmap(lambda x: x * lax.axis_size(('i', 'j')), axis_name='j'), axis_name='i')(f32(2, 3))",
        "jax.vmap(lambda: lax.axis_size('i') * 1.0, axis_size=4, axis_name='i')()",
        "jax.vmap(lambda x: x * lax.axis_size(()), axis_name='i')(f32(3))",
    ]),
    ("lax.all_to_all", [
        "jax.vmap(lambda x: lax.all_to_all(x, 'i', 1, 0), axis_name='i')(f32(3, 2, 3))",
        "jax.vmap(lambda x: lax.all_to_all(x, 'i', 0, 1, tiled=True), axis_name='i')(i32(2, 4, 3))",
        "jax.vmap(lambda x: lax.all_to_all(x, 'j', 0, 0), axis_name='i')(f32(3, 3))",
        "jax.vmap(lambda x: lax.all_to_all((x, x), 'i', 0, 0), axis_name='i')(f32(2, 2))",
        "jax.vmap(lambda x: lax.all_to_all(x, 'i', 2, 0), axis_name='i')(f32(3, 3))",
    ]),
    ("lax.ppermute", [
        "jax.vmap(lambda x: lax.ppermute(x, 'i', []), axis_name='i')(f32(3))",
        "jax.vmap(lambda x: lax.ppermute(x, 'i', [(0, 5)]), axis_name='i')(f32(3))",
        "jax.vmap(lambda x: lax.ppermute((x, 2 * x), 'i', [(2, 0)]), axis_name='i')(i32(3))",
        "jax.vmap(lambda x: lax.ppermute(x, 'j', [(0, 1)]), axis_name='i')(f32(3))",
        "jax.grad(lambda v: jax.vmap(lambda x: lax.ppermute(x, 'i', [(0, 1), (1, 2)]), axis_name='i')(v).sum())(f32(3))",
    ]),
    ("lax.pshuffle", [
        "jax.vmap(lambda x: lax.pshuffle(x, 'i', [0, 0, 1]), axis_name='i')(f32(3))",
        "jax.vmap(lambda x: lax.pshuffle(x, 'i', [1, 0]), axis_name='i')(f32(2, 2))",
        "jax.vmap(lambda x: lax.pshuffle(x, 'j', [0, 1, 2]), axis_name='i')(f32(3))",
        "jax.vmap(lambda x: lax.pshuffle((x, 1 * x), 'i', [1, 2, 0]), axis_name='i')(b1(3))",
    ]),
    ("lax.pswapaxes", [
        "jax.vmap(lambda x: lax.pswapaxes(x, 'i', 1), axis_name='i')(f32(3, 2, 3))",
        "jax.vmap(lambda x: lax.pswapaxes(x, 'i', 0), axis_name='i')(f32(3, 2))",
        "jax.vmap(lambda x: lax.pswapaxes((x, x), 'i', 0), axis_name='i')(i32(2, 2))",
        "jax.vmap(lambda x: lax.pswapaxes(x, 'j', 0), axis_name='i')(f32(3, 3))",
        "jax.vmap(lambda x: lax.pswapaxes(x, 'i', -1), axis_name='i')(f32(3, 2, 3))",
    ]),
    ("lax.psum_scatter", [
        "jax.vmap(lambda x: lax.psum_scatter(x, 'i', scatter_dimension=1), axis_name='i')(f32(3, 2, 3))",
        "jax.vmap(lambda x: lax.psum_scatter(x, 'i', axis_index_groups=[[0, 1], [2, 3]]), axis_name='i')(f32(4, 2))",
        "jax.vmap(lambda x: lax.psum_scatter(x, 'i'), axis_name='i')(f32(3, 2))",
        "jax.vmap(lambda x: lax.psum_scatter((x, x), 'i'), axis_name='i')(i32(2, 2))",
        "jax.vmap(lambda x: lax.psum_scatter(x, 'j'), axis_name='i')(f32(3, 3))",
        "jax.vmap(lambda x: lax.psum_scatter(x, 'i', tiled=True), axis_name='i')(f32(2, 3))",
    ]),
]
OTHER = [
    (
        "lax.GatherDimensionNumbers",
        [POINT_G, f"hash({POINT_G}) == hash({POINT_G})", f"{POINT_G} == {ROW_G}"],
    ),
    ("lax.GatherDimensionNumbers", [f"{POINT_G}.offset_dims", f"{GDN}()"]),
    ("lax.ScatterDimensionNumbers", [
        POINT_S, f"hash({POINT_S}) == hash({POINT_S})", f"{POINT_S} == {ROW_S}",
        f"{ROW_S}.update_window_dims", f"{SDN}()",
    ]),
    ("lax.ConvDimensionNumbers", [
        "lax.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))",
        "lax.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2)).lhs_spec",
        "lax.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2)) == lax.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))",
        "hash(lax.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))) == hash(lax.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2)))",
        "lax.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))._replace(out_spec=(0, 2, 1))",
        "lax.ConvDimensionNumbers()",
    ]),
    ("lax.with_sharding_constraint", [
        "lax.with_sharding_constraint(f32(3), jax.sharding.SingleDeviceSharding(jax.devices()[0]))",
        "lax.with_sharding_constraint({'a': f32(2), 'b': 1}, jax.sharding.SingleDeviceSharding(jax.devices()[0]))",
        "jax.jit(lambda x: lax.with_sharding_constraint(x * 2, jax.sharding.SingleDeviceSharding(jax.devices()[0])))(f32(2))",
        "lax.with_sharding_constraint(f32(2, 3), jax.NamedSharding(jax.make_mesh((1,), ('i',), axis_types=(jax.sharding.AxisType.Auto,)), jax.P('i')))",
        "jax.grad(lambda x: lax.with_sharding_constraint(x * 2, jax.sharding.SingleDeviceSharding(jax.devices()[0])))(1.0)",
        "lax.with_sharding_constraint(f32(2), jax.NamedSharding(jax.make_mesh((1,), ('i',)), jax.P('i', None)))",
        "lax.with_sharding_constraint(f32(2), 5)",
        "lax.with_sharding_constraint(f32(2), jax.P('i'))",
    ]),
    ("lax.ragged_all_to_all", [
        "lax.ragged_all_to_all(f32(2), f32(2), i32(2), i32(2), i32(2), i32(2), axis_name='i')",
        "lax.ragged_all_to_all(f32(2), i32(2), i32(2), i32(2), i32(2), i32(2), axis_name='i')",
    ]),
]

CASES = (
    calls(SECTION, "lax.", TABLE) + expressions(SECTION, COLLECTIVES) + expressions(SECTION, OTHER)
)
