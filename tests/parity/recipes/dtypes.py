"""Dtypes: promotion of every pair with and without weak types, limits, tests of kinds, canonical forms."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import calls, expressions

SECTION = "dtypes"

NAMES = "bool int4 uint4 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8_e4m3fn float8_e5m2 float16 bfloat16 float32 float64 complex64 complex128".split()
PAIRS = [(a, b) for i, a in enumerate(NAMES) for b in NAMES[i:]]
SOME = "bool int8 uint8 int32 uint32 float16 bfloat16 float32 complex64".split()
WEAK = ("True", "1", "1.0", "1j")
KINDS = "bool_ integer signedinteger unsignedinteger inexact floating complexfloating number generic".split()
LIMITS = "float16 bfloat16 float32 float64 complex64 float8_e4m3fn float8_e5m2 float8_e4m3b11fnuz float4_e2m1fn".split()
INTEGERS = "int4 uint4 int8 uint8 int16 int32 uint32 int64 uint64".split()

TABLE = [
    ("promote_types", [f"'{a}', '{b}'" for a, b in PAIRS]),
    ("promote_types", [
        "'nonsense', 'float32'", "int, float", "float, 'int8'", "complex, 'bfloat16'", "bool, int",
        "jnp.int8, np.float16", "None, 'float32'",
    ]),
    ("result_type", [f"jnp.{t.replace('bool', 'bool_')}(1), {w}" for t in SOME for w in WEAK]),
    ("result_type", [f"{a}, {b}" for a in WEAK for b in WEAK]),
    ("result_type", [
        "f32(2), i32(2)", "'int8', 2.5", "int, 'int8'", "f32(2), 1j", "w(2), i8(2)", "",
        "i8(2), u8(2), bf16(2)", "[1, 2]", "'a'", "np.ones(2), 1", "np.float64(1), f32(2)",
        "None, 'int8'",
    ]),
    ("issubdtype", [f"'{t}', jnp.{k}" for t in SOME for k in KINDS]),
    ("issubdtype", [
        "'float32', 'float32'", "jnp.bfloat16, np.floating", "key().dtype, dtypes.prng_key",
        "'float32', dtypes.prng_key", "int, np.integer", "'nonsense', np.integer",
        "jnp.int4, jnp.integer", "f32(2).dtype, float", "jnp.floating, jnp.inexact",
    ]),
    ("isdtype", [
        f"'{t}', '{k}'"
        for t in ("bool", "int8", "uint8", "bfloat16", "complex64")
        for k in (
            "bool", "signed integer", "unsigned integer", "integral", "real floating",
            "complex floating", "numeric",
        )
    ]),
    ("isdtype", [
        "'float32', ('bool', 'integral')", "'float32', 'odd'", "'float32', jnp.float32",
        "jnp.int4, 'integral'",
    ]),
    ("can_cast", [
        "'int8', 'float32'", "'float32', 'int8'", "'int32', 'float32', 'same_kind'",
        "jnp.bfloat16, 'float32'", "f32(2), 'float16'", "1, 'int8'",
    ]),
    ("finfo", [f"'{t}'" for t in LIMITS] + ["f32(2)", "1.0", "'int32'", "'nonsense'"]),
    ("iinfo", [f"'{t}'" for t in INTEGERS] + ["i32(2)", "1", "'float32'", "bool"]),
    ("array asarray", [f"1, dtype='{t}'" for t in NAMES]),
]
DTYPES = [
    (
        "canonicalize_dtype",
        [f"'{t}'" for t in NAMES]
        + [
            "int", "float", "complex", "bool", "None", "'nonsense'", "key().dtype",
            "key().dtype, allow_extended_dtype=True",
        ],
    ),
    ("issubdtype", [f"'{t}', np.{k}" for t in SOME for k in ("integer", "floating", "number")]),
    ("result_type", [
        "f32(2), 1", "1, 2.0", "1, return_weak_type_flag=True",
        "f32(2), 1j, return_weak_type_flag=True", "i8(2), 2.5, return_weak_type_flag=True", "",
    ]),
    (
        "scalar_type_of",
        ["1", "2.5", "1j", "True", "f32(2)", "i8(2)", "np.float64(1)", "'a'", "bf16(1)"],
    ),
    (
        "itemsize_bits",
        [f"'{t}'" for t in ("bool", "int4", "uint8", "bfloat16", "float32", "complex64")]
        + ["int", "'nonsense'"],
    ),
    ("finfo", [
        "'bfloat16'", "'float32'", "'float16'", "jnp.float8_e5m2", "f32(2)", "2.5", "'int8'",
        "np.float64",
    ]),
    ("iinfo", [
        "'int4'", "'int32'", "'uint8'", "jnp.uint4", "i8(2)", "2", "'float32'", "np.int64",
    ]),
]
EXPRESSIONS = [
    *[
        (f"dtypes.{n}", [f"dtypes.{n}"])
        for n in ("bfloat16", "extended", "prng_key", "float0", "TypePromotionError")
    ],
    ("dtypes.float0", ["np.zeros(2, dtypes.float0).dtype", "jax.float0 == dtypes.float0"]),
    ("dtypes.prng_key", [
        "jnp.issubdtype(dtypes.prng_key, dtypes.extended)", "key().dtype == key(1).dtype",
        "hash(key().dtype) == hash(key(1).dtype)", "key().dtype.itemsize", "key().dtype.name",
        "key().dtype.type", "repr(key().dtype)",
    ]),
    ("jnp.finfo", [
        "repr(jnp.finfo('float32'))", "str(jnp.finfo('bfloat16'))", "jnp.finfo('bfloat16').eps",
        "jnp.finfo('float32').dtype", "jnp.finfo('float16').max",
        "float(jnp.finfo('float32').tiny)",
    ]),
    ("jnp.iinfo", [
        "repr(jnp.iinfo('int8'))", "jnp.iinfo('int32').max", "jnp.iinfo('uint8').min",
        "jnp.iinfo('int4').dtype",
    ]),
    ("jnp.promote_types", [
        f"{t}(2) + {v}"
        for t in ("f32", "f16", "bf16", "i8", "u8", "i32", "b1", "c64", "f8", "i4")
        for v in ("1", "1.0", "1j", "True", "np.float32(1)", "np.int8(1)", "jnp.int16(1)")
    ]),
    ("jnp.promote_types", [
        f"({a}(2) * {b}(2)).dtype"
        for a in ("f8", "f8e5", "i4", "u4")
        for b in ("f8", "f8e5", "i4", "u4", "i8", "f16", "bf16", "f32", "b1")
    ]),
    ("jax.numpy_dtype_promotion", [
        f"(lambda c: (c.__enter__(), raises(lambda: {e}), c.__exit__(None, None, None))[1])(jax.numpy_dtype_promotion('strict'))"
        for e in (
            "f32(2) + i32(2)", "f32(2) + 1", "f32(2) + 1.0", "i32(2) + 1.0", "f32(2) + f32(2)",
            "i8(2) + i32(2)", "b1(2) + 1", "f32(2) + np.float32(1)", "f32(2) + np.float64(1)",
        )
    ]),
    ("jax.numpy_rank_promotion", [
        f"(lambda c: (c.__enter__(), raises(lambda: {e}), c.__exit__(None, None, None))[1])(jax.numpy_rank_promotion('raise'))"
        for e in (
            "f32(2, 3) + f32(3)", "f32(2, 3) + 1.0", "f32(2, 3) + f32(1, 3)", "f32(2, 3) + f32()",
        )
    ]),
    ("dtypes.TypePromotionError", [
        "dtypes.TypePromotionError.__mro__[1].__name__",
        "issubclass(dtypes.TypePromotionError, ValueError)",
        "jnp.result_type('float8_e4m3fn', 'float8_e5m2')", "jnp.promote_types('int4', 'uint4')",
        "f8(2) + f8e5(2)", "raises(lambda: jnp.add(f8(2), bf16(2)))",
    ]),
    ("dtypes.bfloat16", [
        "np.zeros(2, dtypes.bfloat16)", "jnp.zeros(2, dtypes.bfloat16)",
        "np.dtype(dtypes.bfloat16) == bf16(2).dtype",
        "jnp.issubdtype(dtypes.bfloat16, jnp.floating)", "dtypes.bfloat16(1.00390625)",
    ]),
    ("dtypes.extended", [
        "jnp.issubdtype(dtypes.extended, jnp.generic)",
        "jnp.issubdtype(dtypes.extended, np.number)", "jnp.issubdtype('float32', dtypes.extended)",
        "jnp.issubdtype(key().dtype, dtypes.extended)", "dtypes.extended.__mro__[1].__name__",
    ]),
    ("dtypes.float0", [
        "np.dtype(dtypes.float0)", "jnp.issubdtype(dtypes.float0, np.void)",
        "jax.grad(lambda x: 1.0, allow_int=True)(i32(2))",
        "jax.jvp(lambda x: x + 1, (i32(2),), (np.zeros(2, dtypes.float0),))[1].dtype == dtypes.float0",
    ]),
    ("jax.numpy_rank_promotion", [
        "jax.numpy_rank_promotion('nonsense')",
        "(lambda c: (c.__enter__(), f32(2, 3) + f32(3), c.__exit__(None, None, None))[1])(jax.numpy_rank_promotion('allow'))",
    ]),
]

# Weakly typed arrays and scalars: eager, and traced.
WEAK = [
    (name, [
        f"{jit}(lambda x: {text})({x})"
        for jit in ("", "jax.jit")
        for x in ("jnp.full((2,), 2.5)", "jnp.full((2,), 3)", "jnp.asarray(2.0)", "jnp.asarray(3)")
    ])
    for name, text in [
        *[
            (f"jnp.{f}", f"jnp.{f}(x)")
            for f in "deg2rad rad2deg sinc round sqrt square abs i0 nan_to_num floor".split()
        ],
        ("jnp.round", "jnp.round(x, 1)"),
        ("jnp.invert", "~(x < 2.0)"), ("jnp.logical_not", "jnp.logical_not(x < 2)"),
        ("jnp.power", "2**x"), ("jnp.power", "x**2"), ("jnp.power", "x**x"),
        ("jnp.gradient", "jnp.gradient(jnp.ravel(jnp.stack([x, x])))"),
        ("jnp.interp", "jnp.interp(x, jnp.ravel(x), jnp.ravel(x))"),
        ("jnp.hypot", "jnp.hypot(x, x)"), ("jnp.logaddexp2", "jnp.logaddexp2(x, x)"),
        ("scipy.special.logit", "scipy.special.logit(x)"),
    ]
]

CASES = [
    *calls(SECTION, "jnp.", TABLE), *calls(SECTION, "dtypes.", DTYPES),
    *expressions(SECTION, EXPRESSIONS), *expressions(SECTION, WEAK),
]
