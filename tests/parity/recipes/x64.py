"""The same namespaces with 64-bit types switched on: a smaller set."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import calls, expressions, over

SECTION = "x64"

UNARY = [*over("f64 i64 c128", "D(5)"), "3", "sp('f64')"]
BINARY = [
    *over("f64 i64 c128", "D(4), D(4, s=1)"), "f32(3), 2.5", "i64(3), f32(3)", "u64(3), i64(3)",
    "2, 3", "spx('f64'), spy('f64')",
]
REDUCTION = [*over("f64 i64 c128 i32 b1", "D(2, 3)"), "f64(2, 3), axis=0", "2"]

TABLE = [
    (
        "sin cos exp log sqrt tanh arctan expm1 abs sign square reciprocal cbrt log1p sinh isfinite negative floor",
        UNARY,
    ),
    (
        "add subtract multiply divide floor_divide remainder power maximum arctan2 equal less logaddexp hypot",
        BINARY,
    ),
    (
        "sum prod mean var std max argmax cumsum all any median count_nonzero sort argsort",
        REDUCTION,
    ),
    ("arange", ["5", "5.0", "0, 1, 0.25", "3, dtype='int32'", "i32([3])[0]"]),
    ("linspace", ["0, 1, 5", "0, 1, 3, dtype='float32'", "f32(), 1, 3"]),
    ("zeros ones", ["(2,)", "2, int", "(2,), 'float32'", "(2,), complex"]),
    ("full", ["(2,), 1", "(2,), 1.5", "(2,), f32()"]),
    ("eye", ["2", "2, dtype=int"]),
    ("array asarray", [
        "2", "2.5", "[1, 2.5]", "1j", "True", "np.ones(2)", "np.arange(2)", "2**40", "2**63",
        "f32(2)", "1, dtype='float64'", "np.float32(1)",
    ]),
    ("matmul dot", over("f64 c128 i64", "D(2, 3), D(3, 2)") + ["f64(2, 3), f32(3)"]),
    ("einsum", ["'ij,jk->ik', f64(2, 3), f64(3, 2)", "'ii', i64(2, 2)"]),
    ("where", ["b1(3), f64(3), 1", "b1(3), 1, 2", "b1(3), f32(3), f64(3)", "b1(3)"]),
    ("nonzero searchsorted", ["b1(5)", "jnp.sort(f64(5)), f64(3)"]),
    ("result_type promote_types", [
        f"'{a}', '{b}'"
        for a in ("int64", "uint64", "float64", "float32", "complex64")
        for b in ("int32", "int64", "uint64", "float64", "bfloat16", "bool")
    ]),
    ("result_type", [
        f"{t}, {v}"
        for t in (
            "jnp.float32(1)", "jnp.int8(1)", "jnp.int64(1)", "jnp.uint64(1)", "np.float64(1)",
        )
        for v in ("1", "1.0", "1j", "True")
    ]),
    (
        "linalg.inv linalg.det linalg.cholesky linalg.eigvalsh linalg.svdvals",
        ["spd('f64', 3)", "spd('c128', 3)"],
    ),
    ("linalg.solve", ["mat('f64', 3), f64(3)", "mat('f64', 3), f32(3)"]),
    ("fft.fft fft.rfft", ["f64(6)", "f32(6)"]),
    ("take", ["f64(5), i64([0, 9])", "f64(5), i32([1])"]),
    ("astype", [
        f"f64([1.5, -2.5, 1e10, 1e300]), '{t}'"
        for t in ("int64", "int32", "float32", "float16", "bool", "uint8")
    ]
    + ["i64([2**40, -1]), 'int32'", "i64([2**40, -1]), 'float64'"],
),
("interp clip", ["f64(3), f64([-1, 1]), f64([0, 1])", "i64(3), f64([0, 2]), i32(2)"]),
("unique bincount", ["i64([1, 2, 1])", "i32([1, 2, 1])"]),
]
LAX = [
("add mul pow", ["f64(3), f64(3, s=1)", "f64(3), f32(3)", "1, 1.0", "i64(3), 2", "1, 2"]),
("iota", ["int, 3", "float, 3", "'int32', 3"]),
("erf lgamma digamma erf_inv logistic rsqrt", ["f64(4, kind='prob')", "f32(4, kind='prob')"]),
(
    "convert_element_type",
    ["f64(3), 'float32'", "f32(3), 'float64'", "2.5, int", "f32(3), float"],
),
("bitcast_convert_type", ["f64(2), 'int64'", "i32(2, 2), 'int64'"]),
("top_k", ["f64(5), 2"]),
("argmax", ["f64(5), 0, 'int64'"]),
("population_count clz bitwise_not", ["i64(4)", "u64(4)"]),
("fori_loop", ["0, 5, lambda i, x: x + i, 0", "0, i32([3])[0], lambda i, x: x + i, 0"]),
("scan", ["lambda c, x: (c + x, c), 0.0, f64(3)", "lambda c, x: (c + x, c), 0, i32(3)"]),
]
OTHER = [
(
    "nn.softmax",
    ["nn.softmax(f64(4))", "nn.gelu(f64(4))", "nn.one_hot(i64([0, 1]), 3)", "nn.relu(2)"],
),
(
    "random.normal",
    [
        f"random.{e}"
        for e in (
            "normal(key(1), (3,))", "uniform(key(1), (3,))", "randint(key(1), (3,), 0, 2**40)",
            "randint(key(1), (3,), 0, 5)", "normal(key(1), (3,), 'float32')", "bits(key(1), (3,))",
            "bits(key(1), (2,), 'uint64')", "permutation(key(1), 5)", "gamma(key(1), 2.0, (2,))",
            "exponential(key(1), (2,))", "choice(key(1), 5, (3,))", "categorical(key(1), f64(4))",
            "key(2**40)", "key(-1)", "beta(key(1), 2.0, 3.0)", "poisson(key(1), 3.0, (3,))",
            "split(key(2**33))", "truncated_normal(key(1), -1, 1, (2,))",
            "bernoulli(key(1), 0.5, (3,))", "gumbel(key(1), (3,))", "PRNGKey(2**40 + 3)",
        )
    ]),
    ("jax.Array.operators", [
        "f64(3) + 1", "f32(3) + 1.0", "i32(3) + 1.5", "i64(3) / 2", "2 * f64(3)",
        "f32(3) * np.float64(2)", "i32(3) + np.int64(2)", "f64(3)[1:]", "f64(3)[i64([0])]",
        "repr(f64([1.5]))", "str(f64([0.1]))", "repr(i64([1]))", "f64(3).sum()",
        "f64(3).astype('float32')", "f64(3).at[0].set(1)", "f64(3).tolist()",
        "float(f64([0.1])[0])", "w(2)", "w(2.5)", "repr(w(2.5))",
    ]),
    ("jax.grad", [
        "jax.grad(jnp.sin)(1.0)", "jax.grad(lambda x: jnp.sum(x**3))(f64(3))",
        "jax.jit(lambda x: x)(2)", "jax.jit(lambda x: x)(2.5)", "jax.vmap(jnp.sin)(f64(3))",
        "jax.hessian(lambda x: jnp.sum(jnp.exp(x)))(f64(2))", "jaxpr(lambda x: x + 1, 1.0)",
        "jaxpr(lambda x: jnp.sum(x * 2), f64(3))", "jaxpr(jnp.arange, 3)",
    ]),
    (
        "dtypes.canonicalize_dtype",
        [f"dtypes.canonicalize_dtype('{t}')" for t in ("float64", "int64", "complex128", "uint64")]
        + [
            "jnp.int_", "jnp.float_", "jnp.complex_", "jnp.uint", "jnp.finfo(float)",
            "jnp.iinfo(int)", "jnp.float64(1)", "jnp.int64(1)", "jnp.int_(1).dtype",
        ],
    ),
    ("jnp.linalg.eig", ["jnp.abs(jnp.sort(jnp.linalg.eigvals(mat('f64', 3))))"]),
]

CASES = [
    *calls(SECTION, "jnp.", TABLE, x64=True), *calls(SECTION, "lax.", LAX, x64=True),
    *expressions(SECTION, OTHER, x64=True),
]
