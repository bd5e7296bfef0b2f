"""Creating arrays: constants, ranges, grids, conversion from Python and NumPy, printing, scalar types."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import NUMBERS, calls, expressions, over

SECTION = "numpy"

DTYPES_ASKED = "float32 float16 int8 uint8 int32 bool complex64 int64".split()
FILL = [
    "(2, 3)", "3", "()", "(0, 2)", "[2]", "(2,), 'int32'", "(2,), jnp.bfloat16", "(2,), dtype=bool",
    "(2,), dtype=float",
]
FILL += [
    "(2,), dtype=int", "(2,), dtype=complex", "(2,), dtype='float64'", "(-1,)", "(2.0,)", "'a'",
    "(2,), dtype='nonsense'",
]
FILL += ["np.int64(2)", "i32([2, 3])", "f32(2)", "(2,), dtype=np.uint16", "(2, 'a')"]
LIKE = [
    *over(NUMBERS + " b1", "D(2, 3)"), "f32(3), 'int32'", "i32(3), dtype=float",
    "f32(3), shape=(2,)", "2", "2.5", "w(1)", "[1, 2]", "f32(0)",
]
ARRAY = [
    "2", "2.5", "True", "1j", "[1, 2]", "[1, 2.5]", "[True, 2]", "[[1, 2], [3, 4]]", "[1.0, 1j]",
    "[]", "[[]]", "()", "(1, 2.0)", "[f32(), i32()]", "[f32(2), f32(2)]", "[f32(2), [1, 2]]",
    "f32(3)", "w(2.5)", "np.arange(3)", "np.ones(2)", "np.float64(2)", "np.float32(2)",
    "np.ones(2, np.complex128)", "[np.float64(1), 2]", "range(3)", "'a'", "['a', 'b']", "None",
    "[None]", "[[1], [2, 3]]", "2**31", "-2**31", "2**40", "[2**40]", "1e50", "np.array([2**40])",
    "np.array([1e300, 1.0])", "np.array(['a'])", "np.array([1], object)", "{1: 2}", "object()",
    "memoryview(b'ab')", "2, dtype='float32'", "2.5, dtype='int32'", "[1, 2], 'uint8'",
    "[-1, 300], dtype='uint8'", "f32(3), 'int8'", "f32([1e10, -1e10, np.nan, 2.7]), 'int32'",
    "c64(3), 'float32'", "f32(3), 'complex64'", "f32([0.0, -0.0, np.nan, 2]), bool",
    "1, dtype=float", "[1, 2], dtype=jnp.bfloat16", "f32([1, 2.5, 448, 500]), 'float8_e4m3fn'",
    "[1.5, -2], 'int4'", "1, dtype='float64'", "1, dtype='int64'", "1, dtype='str'",
    "1, dtype=object", "1, dtype='nonsense'",
]

CASTS = [
    f"{source}, '{target}'"
    for source in (
        "sp('f32')", "i32([-300, -1, 0, 70000])", "b1(3)", "sp('bf16')", "c64(2)",
        "u32([0, 2**31, 2**32 - 1])",
    )
    for target in DTYPES_ASKED
]

TABLE = [
    ("zeros ones empty", FILL),
    ("zeros_like ones_like empty_like", LIKE),
    ("full", [
        "(2, 3), 7", "(2,), 2.5", "(2,), True", "(2,), 1j", "(2,), f32()", "(2, 3), f32(3)",
        "(2,), 2.7, 'int32'", "3, -1, 'uint8'",
    ]),
    ("full", [
        "(2,), [1, 2]", "(2,), np.float64(2)", "(0,), 1", "(), 3", "(2,), f32(3)", "(2,), w(2)",
        "(-1,), 0", "(2,), np.nan, 'bfloat16'",
    ]),
    ("full_like", [
        "f32(2, 3), 7", "i32(3), 2.5", "f32(3), 1, 'int8'", "f32(3), f32(3)", "2, 3.5",
        "f32(3), 1, shape=(2, 2)", "b1(2), 2", "[1], 2",
    ]),
    ("arange", [
        "5", "5.0", "2, 5", "2, 5, 2", "0, 1, 0.3", "5, 0, -1", "0", "-3", "3.5",
        "1, 4, dtype='float32'", "5, dtype='bfloat16'", "0, 2, 0.5, 'int32'", "i32([3])[0]",
        "f32([2.5])[0], 6", "True", "5, dtype=bool", "10, 2", "0, 5, 0", "1j", "'a'", "None",
        "f32(2)", "np.int64(3)", "0.1, 1.1, 0.1", "3, dtype='uint8'", "2**31 - 2, 2**31 - 1",
        "stop=3, start=1", "3, None, 2",
    ]),
    ("linspace", [
        "0, 1, 5", "0.0, 1.0, 7", "2, 10, 4, endpoint=False", "0, 1, 4, retstep=True", "0, 1, 1",
        "0, 1, 0", "0, 1, -1", "f32(3), f32(3, s=1), 4", "f32(2), 1, 3, axis=1",
        "0, 10, 5, dtype='int32'", "-1, 1, 5, dtype='bfloat16'", "0, 1j, 3", "bf16(), 2, 5",
        "i32(), 7, 3", "0, 1, 5.0", "0, 1, 3, axis=2", "1, 1, 3", "0.1, 0.7, 11",
        "0, 255, 256, dtype='uint8'",
    ]),
    ("logspace", [
        "0, 2, 5", "0, 2, 4, endpoint=False", "0, 3, 4, base=2", "f32(2), 2, 3",
        "0, 2, 3, dtype='int32'", "0, 1, 1",
    ]),
    ("geomspace", [
        "1, 100, 5", "1, 256, 9", "1, 16, 4, endpoint=False", "-1, -8, 4", "1, 1j, 3",
        "f32([1, 2]), 9, 3", "1, 10, 1",
    ]),
    ("eye", [
        "3", "2, 3", "3, k=1", "3, 4, -1, 'int32'", "0", "3, dtype=bool", "-1", "2.5", "3, k=i32()",
        "'a'",
    ]),
    ("identity", [
        "3", "2, 'int8'", "0", "-1", "3, dtype=bool", "2.5", "np.int64(2)", "'a'", "2, 'complex64'",
        "i32([2])[0]", "None",
    ]),
    ("indices", ["(2, 3)", "(2,), dtype='float32'", "(2, 3), sparse=True", "()", "(0, 2)", "2"]),
    ("meshgrid", [
        "f32(2), f32(3)", "f32(2), i32(3), indexing='ij'", "f32(2), f32(3), sparse=True", "f32(2)",
        "", "f32(2), 1", "f32(2, 2), f32(2)",
    ]),
    (
        "meshgrid",
        ["f32(2), f32(3), f32(2), indexing='xy'", "f32(2), f32(3), indexing='zz'", "[1], [2, 3]"],
    ),
    ("fromfunction", [
        "lambda i, j: i + j, (2, 3)", "lambda i: i * 2, (3,), dtype=int",
        "jnp.add, (2, 2), dtype='float32'", "lambda i: 1, 2", "lambda i, j: (i, j), (2, 2)",
        "lambda i: i[0], (3,)", "lambda i, k: i + k, (3,), k=2", "lambda: 1, ()",
        "lambda i: i, (2,), dtype='bfloat16'", "lambda i: i, (-1,)", "lambda i: i, 'a'",
        "lambda i: i, (0,)",
    ]),
    ("frombuffer", [
        "b'abcdefgh', 'int32'", "b'abcdefgh', dtype='uint8', count=3",
        "b'abcdefgh', 'int16', offset=2", "b'abc', 'int32'", "np.arange(3.0)",
    ]),
    ("fromstring", [
        "'1 2 3', sep=' '", "'1,2', dtype='int32', sep=','", "'1 2 3', 'float32', 2, sep=' '",
        "'', sep=','", "'1.5,2', dtype='float32', sep=','", "'1 2', 'int8', sep=' '",
        "'1 2', 'nonsense', sep=' '", "'1 2'", "b'1 2', sep=' '",
    ]),
    ("fromiter", [
        "(x for x in [1, 2]), 'int32'", "iter([1.5, 2]), float, count=1", "[True], bool",
        "(x for x in []), 'float32'", "[1], 'nonsense'", "['a'], 'int32'", "5, 'int32'",
        "[1, 2], dtype='uint8'", "range(3), 'int32', 5", "[300], 'int8'",
    ]),
    ("from_dlpack", [
        "np.arange(3, dtype=np.float32)", "f32(2, 3)", "np.arange(3)", "2",
        "np.ones((2, 2), np.complex64)", "np.ones(2, bool)",
    ]),
    ("array asarray", ARRAY),
    ("array", [
        "2, ndmin=2", "f32(3), ndmin=2", "f32(3), copy=False", "[1, 2], order='F'", "[1], ndmin=0",
        "[1, 2], copy=False",
    ]),
    ("asarray", [
        "f32(3), copy=True", "[1, 2], copy=False", "np.arange(3), copy=False",
        "[[1, 2]], order='F'", "f32(2), copy=False",
    ]),
    ("astype", [
        *CASTS, "f32(3), None", "2.5, int", "[1], 'int32'", "f32(3), 'nonsense'", "f32(3), 'int4'",
        "f32(3), float, copy=True",
    ]),
    ("array_repr array_str", [
        "f32(3)", "i32(2, 3)", "f32()", "c64(2)", "b1(3)", "bf16(3)", "f32(0, 2)",
        "jnp.arange(2000)", "f32(3) * 1e-9", "w(2)",
    ]),
    ("array_repr array_str", [
        "f32([1.123456]), precision=3", "f32([1e-12, 1]), suppress_small=True",
        "f32(20), max_line_width=30", "np.ones(2)",
    ]),
    ("get_printoptions", [
        "", "1",
    ]),
]

SCALARS = "float32 bfloat16 float16 float64 int8 int32 int64 uint8 uint32 bool_ complex64 int4 uint4 float8_e4m3fn"
REST = (
    "bool uint int_ uint16 uint64 int16 float_ complex_ single double csingle cdouble complex128 int1 uint1 int2 uint2 "
    "float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2 "
    "float8_e5m2fnuz float8_e8m0fnu"
)
ABSTRACT = "character complexfloating flexible floating generic inexact integer number object_ signedinteger unsignedinteger"

SCALAR_TYPES = [
    *[
        (
            f"jnp.{t}",
            [f"jnp.{t}({v})" for v in ("1", "2.5", "True", "[1, 2]", "f32([1.5])", "", "'a'")]
            + [f"jnp.{t}.dtype", f"jnp.{t}.__name__", f"jnp.{t}"],
        )
        for t in SCALARS.split()
    ],
    *[
        (
            f"jnp.{t}",
            [
                f"jnp.{t}(1)", f"jnp.{t}.dtype", f"np.dtype(jnp.{t})", f"jnp.{t} == '{t}'",
                f"repr(jnp.{t})",
            ],
        )
        for t in REST.split()
    ],
    *[
        (
            f"jnp.{t}",
            [f"jnp.{t}", f"jnp.{t}(1)", f"jnp.zeros(2, jnp.{t})", f"f32(2).astype(jnp.{t})"]
            + [
                f"jnp.issubdtype({d}, jnp.{t})"
                for d in ("'float32'", "jnp.bfloat16", "jnp.int4", "np.uint8", "'complex64'", "bool")
            ],
        )
        for t in ABSTRACT.split()
    ],
    ("jnp.dtype", [
        "jnp.dtype('float32')", "jnp.dtype(jnp.bfloat16)", "jnp.dtype('bfloat16')",
        "jnp.dtype(int)", "jnp.dtype('nonsense')",
    ]),
    ("jnp.ComplexWarning", ["jnp.ComplexWarning"]),
    ("jnp.ndarray", [
        "isinstance(f32(3), jnp.ndarray)", "isinstance(np.ones(2), jnp.ndarray)",
        "jnp.ndarray is jax.Array", "jnp.ndarray((2,))", "isinstance(2.0, jnp.ndarray)",
        "isinstance([1], jnp.ndarray)", "jax.jit(lambda x: isinstance(x, jnp.ndarray))(f32(2))",
        "isinstance(key(), jnp.ndarray)",
        "jax.vmap(lambda x: isinstance(x, jnp.ndarray) * x)(f32(2))",
    ]),
    ("jnp.float32", [
        "jnp.float32 == np.dtype('float32')", "hash(jnp.float32) == hash(np.dtype('float32'))",
        "isinstance(1.0, jnp.float32)",
    ]),
    ("jnp.float32", [
        "isinstance(jnp.float32(1), jnp.float32)", "{jnp.float32: 1}[jnp.dtype('float32')]",
        "np.zeros(2, jnp.float32)",
    ]),
    *[(f"jnp.{c}", [f"jnp.{c}"]) for c in "e euler_gamma inf nan pi".split()],
    ("jnp.set_printoptions", [
        "jnp.set_printoptions(precision=8)",
        "(lambda c: (c.__enter__(), jnp.set_printoptions(precision=2), str(f32([1.123456, 1e-5])), c.__exit__(None, None, None))[1:3])(np.printoptions())",
        "(lambda c: (c.__enter__(), jnp.set_printoptions(suppress=True), str(f32([1.123456, 1e-5])), c.__exit__(None, None, None))[1:3])(np.printoptions())",
        "(lambda c: (c.__enter__(), jnp.set_printoptions(linewidth=8, floatmode='fixed'), str(f32([1.123456, 1e-5])), c.__exit__(None, None, None))[1:3])(np.printoptions())",
        "(lambda c: (c.__enter__(), jnp.set_printoptions(nonsense=1), str(f32([1.123456, 1e-5])), c.__exit__(None, None, None))[1:3])(np.printoptions())",
        "(lambda c: (c.__enter__(), jnp.set_printoptions(sign='+'), str(f32([1.123456, 1e-5])), c.__exit__(None, None, None))[1:3])(np.printoptions())",
        "(lambda c: (c.__enter__(), jnp.set_printoptions(precision='a'), str(f32([1.123456, 1e-5])), c.__exit__(None, None, None))[1:3])(np.printoptions())",
        "(lambda c: (c.__enter__(), jnp.set_printoptions(threshold=3, edgeitems=1), str(jnp.arange(9)), c.__exit__(None, None, None))[1:3])(np.printoptions())",
    ]),
    ("jnp.printoptions", ["[str(f32(3)) for _ in [0] if jnp.printoptions(precision=2)]"]),
    ("jnp.asarray", [
        "jnp.asarray(type('T', (), {'__jax_array__': lambda self: f32(3)})())",
        "jnp.asarray(type('T', (), {'__array__': lambda self, dtype=None, copy=None: np.ones(2, np.float32)})())",
        "jnp.asarray([f32(), 1.0, 2])", "jnp.asarray([jnp.bfloat16(1), 2.5])",
        "jnp.asarray([i8(), 300])",
    ]),
    ("jnp.printoptions", [
        "(lambda c: (c.__enter__(), str(f32(3)), c.__exit__(None, None, None))[1])(jnp.printoptions(precision=2))",
        "(lambda c: (c.__enter__(), str(f32([1.123456, 1e-5])), c.__exit__(None, None, None))[1])(jnp.printoptions(suppress=True))",
        "(lambda c: (c.__enter__(), repr(jnp.arange(9)), c.__exit__(None, None, None))[1])(jnp.printoptions(threshold=3, edgeitems=1))",
        "(lambda c: (c.__enter__(), str(f32([1.123456, 1e-5])), c.__exit__(None, None, None))[1])(jnp.printoptions(floatmode='fixed', precision=3))",
        "(lambda c: (c.__enter__(), str(f32([1.123456, 1e-5])), c.__exit__(None, None, None))[1])(jnp.printoptions(nonsense=1))",
        "(lambda c: (c.__enter__(), str(f32([1.123456, 1e-5])), c.__exit__(None, None, None))[1])(jnp.printoptions(formatter={'float': lambda v: 'x'}))",
        "(lambda c: (c.__enter__(), str(f32([np.nan, np.inf])), c.__exit__(None, None, None))[1])(jnp.printoptions(nanstr='?', infstr='!'))",
    ]),
    ("jnp.get_printoptions", [
        "jnp.get_printoptions()['precision']",
        "sorted(jnp.get_printoptions()) == sorted(np.get_printoptions())",
        "(lambda c: (c.__enter__(), jnp.get_printoptions(), c.__exit__(None, None, None))[1])(jnp.printoptions(precision=2))",
        "(lambda c: (c.__enter__(), jnp.get_printoptions(), c.__exit__(None, None, None))[1])(np.printoptions(suppress=True))",
    ]),
    # files
    ("jnp.save", [
        "(lambda f: (jnp.save(f, f32(2, 3)), f.seek(0), np.load(f))[2])(io.BytesIO())",
        "(lambda f: (jnp.save(f, w(2)), f.seek(0), np.load(f))[2])(io.BytesIO())",
        "(lambda f: (jnp.save(f, [1, 2.5]), f.seek(0), np.load(f))[2])(io.BytesIO())",
        "(lambda f: (jnp.save(f, c64(0)), f.seek(0), np.load(f))[2])(io.BytesIO())",
        "(lambda f: (jnp.save(f, i8(2, 2).T), f.seek(0), np.load(f))[2])(io.BytesIO())",
        "jnp.save(io.BytesIO(), f32(2))", "jnp.save(5, f32(2))",
        "jax.jit(lambda x: jnp.save(io.BytesIO(), x))(f32(2))",
    ]),
    ("jnp.load", [
        "(lambda f: (np.save(f, np.ones((2, 3), np.float32)), f.seek(0), jnp.load(f))[2])(io.BytesIO())",
        "(lambda f: (np.save(f, np.arange(3)), f.seek(0), jnp.load(f))[2])(io.BytesIO())",
        "(lambda f: (np.save(f, np.array(2.5)), f.seek(0), jnp.load(f))[2])(io.BytesIO())",
        "(lambda f: (np.save(f, raw('bf16', 2, 3)), f.seek(0), jnp.load(f))[2])(io.BytesIO())",
        "(lambda f: (np.save(f, raw('c64', 0)), f.seek(0), jnp.load(f))[2])(io.BytesIO())",
        "(lambda f: (np.save(f, np.array(['a'])), f.seek(0), jnp.load(f))[2])(io.BytesIO())",
        "(lambda f: (np.save(f, np.array([None])), f.seek(0), jnp.load(f))[2])(io.BytesIO())",
        "(lambda f: (np.savez(f, a=np.ones(2)), f.seek(0), jnp.load(f)['a'])[2])(io.BytesIO())",
        "jnp.load(io.BytesIO(b'abc'))", "jnp.load('/nonsense')", "jnp.load(5)",
    ]),
    ("jnp.savez", [
        "(lambda f: (jnp.savez(f, f32(2), i32(3)), f.seek(0), dict(np.load(f)))[2])(io.BytesIO())",
        "(lambda f: (jnp.savez(f, a=f32(2), b=w(3)), f.seek(0), dict(np.load(f)))[2])(io.BytesIO())",
        "(lambda f: (jnp.savez(f), f.seek(0), dict(np.load(f)))[2])(io.BytesIO())",
        "(lambda f: (jnp.savez(f, [1, 2], arr_0=f32(2)), f.seek(0), dict(np.load(f)))[2])(io.BytesIO())",
        "jnp.savez(io.BytesIO(), f32(2))", "jnp.savez(5, f32(2))",
    ]),
    ("jnp.fromfile", [
        "jnp.fromfile(io.BytesIO(b'abcd'))", "jnp.fromfile('nonsense', 'int32')", "jnp.fromfile()", "jnp.fromfile(io.BytesIO(b'abcd'), dtype='int32', count=1)", "jnp.fromfile(5)",
    ]),
]

CASES = calls(SECTION, "jnp.", TABLE) + expressions(SECTION, SCALAR_TYPES)
