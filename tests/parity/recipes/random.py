"""Random numbers: the Threefry stream bit by bit for both settings, then every distribution."""

# fmt: off

from .dsl import Case, calls, expressions

SECTION = "random"

SEEDS = (0, 1, 42, 2**31 - 1, -1)
SHAPES = ("()", "(1,)", "(0,)", "(7,)", "(8,)", "(3, 5)")

# --- the stream: exact equality, for both values of jax_threefry_partitionable ---
STREAM_BASE = [
    *[
        ("random.split", f"random.split(random.{k}({s}), {n})")
        for k in ("key", "PRNGKey")
        for s in SEEDS
        for n in (2, 3)
    ],
    *[
        ("random.split", f"random.split(random.key({s}), {n})")
        for s in (7, 18)
        for n in ("1", "0", "(2, 3)", "5")
    ],
    *[
        (
            "random.bits",
            f"jax.vmap(lambda k: random.bits(k, {shape}))"
            f"(random.split(random.key(7, impl='{impl}'), 3))",
        )
        for impl in ("rbg", "unsafe_rbg")
        for shape in ("(2,)", "()")
    ],
    (
        "random.split",
        "(lambda k: random.key_data(jax.vmap(random.split)(random.split(k, 3))))"
        "(random.key(7, impl='unsafe_rbg'))",
    ),
    (
        "random.fold_in",
        "(lambda k: random.key_data(jax.vmap(lambda n: random.fold_in(k, n))(u32(3))))"
        "(random.key(7, impl='unsafe_rbg'))",
    ),
    *[
        ("random.fold_in", f"random.fold_in(random.{k}({s}), {d})")
        for k in ("key", "PRNGKey")
        for s in (0, 42)
        for d in (0, 1, 2**32 - 1, "u32()")
    ],
    *[
        ("random.bits", f"random.bits(random.key({s}), {shape}, 'uint{b}')")
        for s in (0, 42)
        for shape in SHAPES
        for b in (8, 16, 32)
    ],
    *[
        ("random.uniform", f"random.uniform(random.key({s}), {shape})")
        for s in SEEDS
        for shape in SHAPES
    ],
    *[
        ("random.uniform", f"random.uniform(random.key(3), (5,), '{d}')")
        for d in ("float16", "bfloat16", "float32")
    ],
    *[
        ("random.normal", f"random.normal(random.key({s}), {shape})")
        for s in SEEDS
        for shape in SHAPES
    ],
    *[
        ("random.normal", f"random.normal(random.key(3), (5,), '{d}')")
        for d in ("float16", "bfloat16", "complex64")
    ],
    *[
        ("random.randint", f"random.randint(random.key({s}), {shape}, -5, 17)")
        for s in (0, 42)
        for shape in SHAPES
    ],
    *[
        ("random.randint", f"random.randint(random.key(3), (6,), {lo}, {hi}, '{d}')")
        for d, lo, hi in (
            ("int8", -128, 127),
            ("uint8", 0, 256),
            ("int32", 0, 2**31 - 1),
            ("uint32", 0, 2**32 - 1),
            ("int16", -3, 1000),
        )
    ],
    *[
        ("random.permutation", f"random.permutation(random.key({s}), {x})")
        for s in (0, 42)
        for x in ("0", "1", "7", "8", "jnp.arange(12).reshape(4, 3)")
    ],
    *[("random.key_data", f"random.key_data(random.split(random.key({s})))") for s in SEEDS],
]
STREAM = [
    Case("threefry", name, text, partitionable=p)
    for p in (False, True)
    for name, text in STREAM_BASE
]
STREAM += [
    Case(
        "threefry", "random.bits", f"random.bits(random.key({s}), {shape}, 'uint64')",
        x64=True,
        partitionable=p,
    )
    for p in (False, True)
    for s in (0, 42)
    for shape in SHAPES
]
STREAM += [
    Case("threefry", name, f"{name}(random.key(5), {shape}, 'float64')", x64=True, partitionable=p)
    for p in (False, True)
    for name in ("random.uniform", "random.normal")
    for shape in SHAPES
]
STREAM += [
    Case("threefry", "random.key", f"random.key_data(random.key({s}))", x64=x)
    for x in (False, True)
    for s in (0, 2**31, 2**32 - 1, 2**32, 2**40, -1, -(2**31))
]

# --- keys ---
KEYS = [
    ("random.key", [
        "random.key(0)", "random.key(42)", "random.key(i32([3])[0])", "random.key(1.5)",
        "random.key('a')", "random.key(i32(2))", "random.key(True)",
    ]
    + [
        "random.key(2**40)", "random.key(0, impl='threefry2x32')",
        "random.key(0, impl='rbg').dtype", "random.key(0, impl='odd')", "str(random.key(0))",
        "repr(random.key(0))",
    ]
    + [
        "random.key(0).shape", "random.key(0).dtype", "str(random.key(0).dtype)",
        "random.key(0) + 1", "random.key(0) == random.key(0)", "random.split(random.key(0))[0]",
    ]
    + [
        "jnp.stack([key(0), key(1)])", "random.split(key(0), 4).reshape(2, 2)",
        "jnp.issubdtype(key(0).dtype, dtypes.prng_key)", "np.asarray(random.key(0))",
        "jnp.sin(random.key(0))",
    ]),
    ("random.key", [
        text.replace("I", f"'{impl}'")
        for impl in ("philox2x32", "philox4x32", "threefry4x32")
        for text in (
            "random.key(7, impl=I)", "random.key_data(random.key(-1, impl=I))",
            "random.key_data(random.split(random.key(3, impl=I), (2, 3)))",
            "random.key_data(random.fold_in(random.key(3, impl=I), 9))",
            "random.bits(random.key(3, impl=I), (5, 2))",
            "random.bits(random.key(3, impl=I), (5,), 'uint8')",
            "random.normal(random.key(3, impl=I), (5,))",
            "random.gamma(random.key(3, impl=I), 2.5, (5,))",
            "jax.vmap(lambda k: random.uniform(k, (3,)))(random.split(random.key(3, impl=I), 4))",
            "random.PRNGKey(2**31 - 1, impl=I)", "random.poisson(random.key(3, impl=I), 2.0)",
        )
    ]),
    ("random.PRNGKey", [
        "random.PRNGKey(0)", "random.PRNGKey(18)", "random.PRNGKey(-1)", "random.PRNGKey(2**33)",
        "random.PRNGKey(1.0)", "str(random.PRNGKey(18))", "random.PRNGKey(0, impl='threefry2x32')",
    ]),
    ("random.split", [
        "random.split(random.PRNGKey(18))", "random.split(f32(2))", "random.split(u32(3))",
        "random.split(random.split(key(0)))",
        "random.split(key(0), 2.5)", "random.split(0)",
    ]),
    ("random.fold_in", [
        "random.fold_in(key(0), -1)", "random.fold_in(key(0), 1.5)",
        "random.fold_in(key(0), i32(2))", "random.fold_in(key(0), 2**33)", "random.fold_in(0, 1)",
    ]),
    ("random.key_data", [
        "random.key_data(random.PRNGKey(1))", "random.key_data(f32(2))",
        "random.key_data(random.split(key(0), 3))",
    ]),
    ("random.wrap_key_data", [
        "random.wrap_key_data(u32([1, 2]))", "random.wrap_key_data(u32([[1, 2], [3, 4]]))",
        "random.wrap_key_data(u32(3))", "random.wrap_key_data(i32(2))",
        "random.wrap_key_data(u32([1, 2]), impl='threefry2x32')",
    ]),
    ("random.key_impl", [
        "random.key_impl(key(0))", "random.key_impl(random.PRNGKey(0))",
        "str(random.key_impl(key(0)))", "random.key_impl(random.split(key(0)))",
        "random.key_impl(f32(2))", "random.key_impl(u32(4))", "random.key_impl('a')",
        "random.key_impl(random.key(0, impl='rbg'))",
        "jax.eval_shape(lambda k: (random.key_impl(k), k)[1], key(0)).shape",
    ]),
    ("random.key_dtype", [
        "random.key_dtype()", "str(random.key_dtype('threefry2x32'))", "random.key_dtype('rbg')",
        "random.key_dtype('odd')", "random.key_dtype() == key(0).dtype",
        "random.key_dtype().itemsize", "jnp.issubdtype(random.key_dtype(), dtypes.prng_key)",
        "random.key_dtype(None).name",
    ]),
    ("random.clone", [
        "random.clone(key(3))", "random.clone(random.PRNGKey(3))",
        "random.clone(random.split(key(3)))", "random.clone(f32(2))", "random.clone(3)",
        "jax.jit(random.clone)(key(3))", "jax.vmap(random.clone)(random.split(key(3), 2))",
        "random.clone('a')",
    ]),
]

# --- distributions: shapes, dtypes, broadcasting of parameters, refused arguments ---
PLAIN = [
    "key(1)", "key(1), (3, 2)", "rawkey(1), (4,)", "key(1), (4,), 'float16'",
    "key(1), (4,), jnp.bfloat16", "key(1), (0,)", "key(1), (3,), 'int32'", "key(1), -1",
    "key(1), (2.5,)", "key(1), 3", "0, (3,)",
]


def one(value: str, bad: str = "'a'") -> list[str]:
    """Argument lists of a distribution with one parameter."""
    array = f"f32([{value}, 1.5, 2.5])"
    return [
        f"key(1), {value}", f"key(1), {value}, (4,)", f"key(1), {array}",
        f"key(1), {array}, (2, 3)", f"key(1), {array}, (2,)", f"key(1), {value}, (4,), 'bfloat16'",
        f"rawkey(1), {value}, (3,), 'int32'", f"key(1), {bad}",
    ]


TABLE = [
    ("bits", [
        "key(1)", "key(1), (3,)", "key(1), (3,), 'int32'", "rawkey(1), (2, 2), 'uint8'",
        "key(1), (3,), 'uint64'", "random.split(key(1)), (3,)",
    ]),
    ("uniform", [
        *PLAIN, "key(1), (4,), minval=-2, maxval=3", "key(1), (2, 3), 'float32', f32(3), 5.0",
        "key(1), (3,), minval=2.0, maxval=1.0",
    ]),
    ("normal", [
        *PLAIN, "key(1), (4,), 'complex64'", "random.split(key(1)), (3,)", "key(1), (100,)",
        "f32(2), (3,)",
    ]),
    ("cauchy exponential gumbel laplace logistic maxwell", PLAIN),
    ("gumbel", ["key(1), (5,), mode='high'", "key(1), (50,), mode='highest'",
        "key(1), (5,), jnp.bfloat16, mode='highest'", "key(1), (5,), mode='odd'"]),
    ("rademacher", [
        "key(1), (6,)", "key(1)", "key(1), (4,), 'float32'", "key(1), (4,), 'bool'",
        "key(1), (4,), 'uint8'",
    ]),
    ("truncated_normal", [
        "key(1), -1, 1", "key(1), -1.0, 2.0, (5,)", "key(1), f32([-1, 0]), 1.0",
        "key(1), -1, 1, (4,), 'bfloat16'", "key(1), 1, -1, (3,)", "key(1), -1, 1, (2,), 'int32'",
    ]),
    ("bernoulli", [
        "key(1)", "key(1), 0.3, (6,)", "key(1), f32(5, kind='prob')", "key(1), 0.5, (4,), 'high'",
        "key(1), 1, (3,)", "key(1), f32(3, kind='prob'), (2,)", "key(1), 0.5, (4,), 'odd'",
        "key(1), bf16(4, kind='prob')", "key(1), 'a'",
    ]),
    ("randint", [
        "key(1), (5,), 0, 10", "key(1), (), 0, 10", "key(1), (2, 3), i32([0, 5, 10]), 20",
        "key(1), (3,), 5, 5", "key(1), (3,), 7, 2", "key(1), (3,), 0, 10, 'uint8'",
        "key(1), (3,), 0, 300, 'uint8'", "key(1), (3,), 0.5, 3", "key(1), (3,), 0, 3, 'float32'",
        "key(1), (4,), -200, 200, 'int8'", "key(1), 3, 0, 5", "key(1), (3,), 0, 2**33",
    ]),
    ("permutation", [
        "key(1), 6", "key(1), f32(5)", "key(1), f32(3, 4), axis=1",
        "key(1), i32(3, 4), independent=True", "key(1), i32(3, 4), 1, True", "key(1), f32(3), 1",
        "key(1), 2.5", "key(1), -2", "rawkey(1), 6", "key(1), [1, 2, 3]",
    ]),
    ("choice", [
        "key(1), 6", "key(1), 6, (4,)", "key(1), f32(6), (3,)", "key(1), 6, (3,), replace=False",
        "key(1), 6, (4,), p=f32([1, 2, 3, 4, 0, 2]) / 12",
        "key(1), 6, (3,), replace=False, p=f32([1, 2, 3, 4, 0, 2]) / 12",
        "key(1), f32(3, 4), (2,), axis=1", "key(1), f32(3, 4), (2,), False",
        "key(1), 3, (4,), replace=False", "key(1), 0", "key(1), 6, (2,), p=f32(3)",
        "key(1), 6, (0,)", "key(1), 2.5", "key(1), 6, 3", "key(1), 6, (2,), mode='high'",
    ]),
    ("categorical", [
        "key(1), f32(5)", "key(1), f32(3, 5)", "key(1), f32(3, 5), axis=0",
        "key(1), f32(5), shape=(4,)", "key(1), f32(3, 5), shape=(2, 3)",
        "key(1), f32(6), shape=(3,), replace=False", "key(1), f32(3, 5), shape=(2,)",
        "key(1), f32(5), mode='high'", "key(1), bf16(5)",
    ]),
    (
        "gamma loggamma",
        [*one("0.7"), "key(1), 100.0, (3,)", "key(1), -1.0", "key(1), 0.0", "key(1), 3, (2,)"],
    ),
    ("chisquare t", one("3.0")),
    ("pareto rayleigh wald", one("2.0")),
    ("poisson", [
        "key(1), 3.0", "key(1), 3.0, (6,)", "key(1), f32([0.5, 5, 50])", "key(1), 100.0, (4,)",
        "key(1), 0.0, (3,)", "key(1), 2, (4,), 'int32'", "key(1), 3.0, (2,), 'float32'",
        "key(1), f32([1, 2]), (3,)", "key(1), -1.0, (2,)",
    ]),
    ("geometric", [
        "key(1), 0.3", "key(1), 0.3, (5,)", "key(1), f32([0.1, 0.9])", "key(1), 0.5, (3,), 'int32'",
        "key(1), 0.5, (3,), 'float32'", "key(1), 1.0, (2,)",
    ]),
    ("binomial", [
        "key(1), 10, 0.3", "key(1), 10, 0.3, (5,)", "key(1), f32([5, 100]), 0.5",
        "key(1), 100, f32([0.1, 0.9])", "key(1), 10, 0.0, (2,)", "key(1), 10, 1.0, (2,)",
        "key(1), 10, 0.5, (3,), 'int32'", "key(1), -1, 0.5", "key(1), 10, 1.5",
    ]),
    ("multinomial", [
        "key(1), 10, f32([0.2, 0.3, 0.5])", "key(1), 10, f32([0.2, 0.3, 0.5]), shape=(2, 3)",
        "key(1), f32([3, 7]), f32([[0.5, 0.5], [0.1, 0.9]])", "key(1), 10, f32(0)",
        "key(1), 5, f32([0.5, 0.5]), dtype='float16'", "key(1), 5, f32([[0.5, 0.5]]), shape=(3,)",
        "key(1), 0, f32([0.5, 0.5])", "key(1), 5.0, f32([1.0, 0.0])",
        "key(1), 5, f32([0.2, 0.8]), unroll=2", "1, 5, f32([0.2, 0.8])",
    ]),
    ("beta", [
        "key(1), 2.0, 3.0", "key(1), 2.0, 3.0, (4,)", "key(1), f32([0.5, 2]), 1.5",
        "key(1), 2.0, 3.0, (3,), 'bfloat16'", "key(1), f32(2, kind='pos'), f32(3, kind='pos')",
        "key(1), 0.1, 0.1, (4,)", "key(1), 2, 3, (2,), 'int32'",
    ]),
    ("f", [
        "key(1), 2.0, 3.0", "key(1), 2.0, 3.0, (4,)", "key(1), f32([3, 2]), 4.5",
        "key(1), 2.0, 3.0, (3,), 'float16'", "key(1), f32(3, kind='pos'), f32(2, kind='pos')",
        "key(1), 2.0, 3.0, (0,)", "key(1), 2, 3, (2,), 'int32'",
        "key(1), f32([3, 2]), 4.5, (3,)", "rawkey(1), f32([3, 2]), 4.5, (3, 2)",
    ]),
    ("dirichlet", [
        "key(1), f32([1, 2, 3])", "key(1), f32([1, 2, 3]), (4,)", "key(1), f32(2, 3, kind='pos')",
        "key(1), f32([0.1, 0.2]), (3,), 'float32'", "key(1), 2.0", "key(1), bf16([1, 2])",
    ]),
    ("lognormal", [
        "key(1)", "key(1), 0.5, (4,)", "key(1), f32([0.1, 2])", "key(1), 1.0, (3,), 'bfloat16'",
        "key(1), f32([0.1, 2]), (3, 2)", "key(1), f32([0.1, 2]), (3,)",
        "key(1), 1.0, (2,), 'int32'", "key(1), -1.0, (2,)", "rawkey(1), 0.0, (2,)", "1, 1.0",
        "key(1), np.nan, (2,)",
    ]),
    ("double_sided_maxwell", [
        "key(1), 0.5, 2.0", "key(1), 0.5, 2.0, (4,)", "key(1), f32(3), 2.0, (2,)",
        "key(1), 0.5, 2.0, (3,), 'bfloat16'", "key(1), f32(3), f32(2, 1)",
        "key(1), 0, 1, (2,), 'int32'", "key(1), 0.5, -2.0, (0,)", "0, 0.5, 2.0",
        "key(1), f32(3), 2.0, (3,)",
    ]),
    ("weibull_min", [
        "key(1), 1.0, 2.0", "key(1), 1.0, 2.0, (4,)", "key(1), f32([1, 2]), 0.5",
        "key(1), 1.0, 2.0, (3,), 'float16'", "key(1), f32([1, 2]), 0.5, (3,)",
        "key(1), f32([1, 2]), f32([[1.0], [3]]), (2, 2)", "key(1), 1, 2, (2,), 'int32'",
        "key(1), 1.0, 0.0, (2,)", "rawkey(1), 1.0, -2.0, (0,)", "1, 1.0, 2.0",
    ]),
    ("triangular", [
        "key(1), 0.0, 0.3, 1.0", "key(1), -1, 0, 2, (4,)", "key(1), f32([0, 1]), 1.5, 2.0",
        "key(1), 0.0, 0.3, 1.0, (3,), 'bfloat16'", "key(1), f32([0, 1]), 1.5, 2.0, (3,)",
        "key(1), 1.0, 1.0, 1.0, (2,)", "key(1), 0, 1, 2, (2,), 'int32'",
        "key(1), 2.0, 1.0, 0.0, (2,)", "rawkey(1), 0.0, f32(2, 1, kind='prob'), 1.0, (2, 3)",
        "1, 0.0, 0.3, 1.0",
    ]),
    ("generalized_normal", [
        "key(1), 1.5", "key(1), 2.0, (4,)", "key(1), 1.5, (3,), 'bfloat16'", "rawkey(1), 0.5, (0,)",
        "key(1), -1.0, (2,)", "key(1), 1.5, (2,), 'int32'", "key(1), 3, (2, 2)", "key(1), 'a'",
        "0, 1.5",
    ]),
    ("ball", [
        "key(1), 3", "key(1), 3, 1.5, (2,)", "key(1), 2, shape=(3,), dtype='float32'",
        "key(1), 2, np.inf", "key(1), 0", "key(1), -1", "key(1), 2, 1.0, (2, 2), 'bfloat16'",
        "key(1), 2.5", "key(1), 2, 2, (3,), 'int32'", "1, 2",
    ]),
    ("orthogonal", [
        "key(1), 3", "key(1), 3, (2,)", "key(1), 3, m=2", "key(1), 2, (), 'complex64'",
        "key(1), 2.5",
    ]),
    ("multivariate_normal", [
        "key(1), f32(3), spd('f32', 3)", "key(1), f32(3), spd('f32', 3), (4,)",
        "key(1), f32(2, 3), spd('f32', 3)",
        "key(1), f32(3), spd('f32', 3), (2,), method='cholesky'", "key(1), f32(3), f32(2, 2)",
        "key(1), f32(), f32()", "key(1), f32(3), spd('f32', 3), method='odd'",
        "key(1), f32(3), spd('f32', 3), (2,), 'bfloat16'",
    ]),
]

# `eigh` and `svd` fix vectors up to a sign only: the spread of the samples is what can be compared.
SPREAD = [
    (
        "random.multivariate_normal",
        [
            f"random.multivariate_normal(key(1), f32(3), 2 * jnp.eye(3), (4,), method='{m}').shape"
            for m in ("eigh", "svd")
        ],
    )
]

CASES = [
    *STREAM, *expressions(SECTION, KEYS), *calls(SECTION, "random.", TABLE),
    *expressions(SECTION, SPREAD),
]
