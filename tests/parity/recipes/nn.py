"""Neural-network functions and initializers."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import MOST, calls, expressions, over

SECTION = "nn"

ACTIVATION = [
    *over(MOST, "D(7)"), "sp('f32')", "f32()", "f32(0)", "w(0.5)", "2", "np.arange(2.0)", "[1.0]",
]
SOFTMAX = [
    *over("f32 f16 bf16 i32 c64", "D(2, 3)"), "f32(2, 3), axis=0", "f32(2, 3), axis=(0, 1)",
    "f32(2, 3), axis=None", "f32(2, 3), where=b1(2, 3)", "f32([1000.0, 0, -1000])",
    "f32([np.inf, 0])", "f32([-np.inf, -np.inf])", "f32([np.nan, 0])", "f32(2, 3), axis=2", "f32()",
    "f32(0)", "f32(2, 0)", "2.0", "[1.0]",
]

TABLE = [
    (
        "relu relu6 sigmoid softplus soft_sign silu log_sigmoid sparse_plus sparse_sigmoid",
        ACTIVATION,
    ),
    ("hard_tanh hard_sigmoid hard_silu selu mish identity log1mexp", ACTIVATION),
    ("swish hard_swish tanh", [
        "f32(7)", "sp('f32')", "i32(3)", "[1.0]", "bf16(3)", "w(0.5)", "f32(0)", "c64(2)", "b1(2)",
    ]),
    (
        "elu celu leaky_relu squareplus",
        [*ACTIVATION, "f32(5), 0.5", "f32(5), 2", "i32(5), 0.5", "f32(3), f32(3, s=1)"],
    ),
    ("gelu", [
        *ACTIVATION, "f32(7), approximate=False", "bf16(7), False", "sp('f32'), False",
        "i32(3), False",
    ]),
    ("glu", [
        "f32(4)", "f32(2, 3), axis=0", "f32(3)", "bf16(2, 4)", "f32(2, 4), 1", "i32(4)",
        "[1.0, 2.0]",
    ]),
    ("softmax log_softmax", SOFTMAX),
    ("standardize", [
        *SOFTMAX[:9], "f32(2, 3), mean=0.5, variance=2.0", "f32(2, 3), epsilon=0.1",
        "f32(2, 3), algorithm='two_pass'", "f32(2, 3), algorithm='odd'",
    ]),
    ("logsumexp", [
        *over("f32 bf16 i32 c64", "D(2, 3)"), "f32(2, 3), axis=0",
        "f32(2, 3), axis=(0, 1), keepdims=True", "f32(3), b=f32(3, s=1)",
        "f32(3), b=f32(3, s=1), return_sign=True", "f32(2, 3), axis=1, where=b1(2, 3)",
        "f32([np.inf, 1])", "f32([-np.inf, -np.inf])", "f32([1000, 1000])", "f32(0)",
        "f32(3), b=0.0", "2.0", "[1.0]",
    ]),
    ("logmeanexp", [
        "f32(2, 3)", "f32(2, 3), axis=0", "f32(2, 3), axis=1, where=b1(2, 3)", "i32(3)",
        "f32(2, 3), keepdims=True",
    ]),
    ("one_hot", [
        "i32([0, 2, 1]), 3", "i32([0, 5, -1]), 3", "i32(2, 2, kind='index'), 4",
        "i32([0, 2]), 3, axis=0", "2, 3", "i32([0, 2]), 3, dtype='int32'",
        "i32([0, 2]), 3, dtype=jnp.bfloat16", "f32([0, 2]), 3", "i32([0, 2]), 0", "i32([0, 2]), -1",
        "i32([0, 2]), 2.5", "[0, 2], 3", "i32(0), 3", "b1(3), 2", "u8(3), 4, axis=2",
    ]),
    ("dot_product_attention", [
        "f32(1, 4, 2, 8), f32(1, 5, 2, 8, s=1), f32(1, 5, 2, 8, s=2)",
        "f32(4, 2, 8), f32(5, 2, 8, s=1), f32(5, 2, 8, s=2)",
        "f32(1, 4, 4, 8), f32(1, 5, 2, 8, s=1), f32(1, 5, 2, 8, s=2)",
        "f32(1, 4, 2, 8), f32(1, 4, 2, 8, s=1), f32(1, 4, 2, 8, s=2), is_causal=True",
        "f32(1, 4, 2, 8), f32(1, 5, 2, 8, s=1), f32(1, 5, 2, 8, s=2), f32(1, 2, 4, 5)",
        "f32(1, 4, 2, 8), f32(1, 5, 2, 8, s=1), f32(1, 5, 2, 8, s=2), mask=b1(1, 1, 4, 5)",
        "f32(1, 4, 2, 8), f32(1, 5, 2, 8, s=1), f32(1, 5, 2, 8, s=2), scale=0.3",
        "f32(2, 4, 2, 8), f32(2, 5, 2, 8, s=1), f32(2, 5, 2, 8, s=2), query_seq_lengths=i32([4, 2]), key_value_seq_lengths=i32([3, 5])",
        "f32(1, 4, 2, 8), f32(1, 4, 2, 8, s=1), f32(1, 4, 2, 8, s=2), local_window_size=1",
        "bf16(1, 4, 2, 8), bf16(1, 4, 2, 8, s=1), bf16(1, 4, 2, 8, s=2)",
        "f32(1, 4, 2, 8), f32(1, 5, 3, 8), f32(1, 5, 3, 8)",
        "f32(1, 4, 2, 8), f32(1, 5, 2, 8), bf16(1, 5, 2, 8)",
        "f32(1, 4, 2, 8), f32(1, 4, 2, 8), f32(1, 4, 2, 8), implementation='odd'",
    ]),
]

INIT = "jax.nn.initializers."
SCALED = "glorot_normal glorot_uniform he_normal he_uniform kaiming_normal kaiming_uniform lecun_normal lecun_uniform xavier_normal xavier_uniform"
INITIALIZERS = [
    *[
        (
            INIT + n,
            [
                f"{INIT}{n}()(key(1), (3, 4))", f"{INIT}{n}()(key(1), (2, 3, 4), 'bfloat16')",
                f"{INIT}{n}()(key(1), (3,))",
            ],
        )
        for n in SCALED.split()
    ],
    *[
        (
            INIT + n,
            [
                f"{INIT}{n}(in_axis=0, out_axis=1, dtype='float16')(rawkey(1), (3, 4))",
                f"{INIT}{n}()(key(1), (3, 4), 'int32')",
            ],
        )
        for n in ("glorot_normal", "he_uniform")
    ],
    (INIT + "zeros", [f"{INIT}zeros(key(), (2, 3))", f"{INIT}zeros(key(), (2,), 'int32')"]),
    (INIT + "ones", [f"{INIT}ones(key(), (2, 3))", f"{INIT}ones(key(), (2,), jnp.bfloat16)"]),
    (
        INIT + "constant",
        [
            f"{INIT}constant(2.5)(key(), (2,))", f"{INIT}constant(f32(3))(key(), (2, 3))",
            f"{INIT}constant(1, 'int32')(key(), (2,))",
        ],
    ),
    (
        INIT + "normal",
        [
            f"{INIT}normal()(key(1), (3, 4))", f"{INIT}normal(0.5, 'bfloat16')(key(1), (3,))",
            f"{INIT}normal()(key(1), (3,), 'int32')",
        ],
    ),
    (
        INIT + "uniform",
        [f"{INIT}uniform()(key(1), (3, 4))", f"{INIT}uniform(2.0)(rawkey(1), (3,), 'float16')"],
    ),
    (
        INIT + "truncated_normal",
        [
            f"{INIT}truncated_normal()(key(1), (3, 4))",
            f"{INIT}truncated_normal(0.5, lower=-1.0, upper=0.5)(key(1), (5,))",
        ],
    ),
    (
        INIT + "orthogonal",
        [
            f"{INIT}orthogonal()(key(1), (3, 4))", f"{INIT}orthogonal(2.0, 0)(key(1), (4, 2))",
            f"{INIT}orthogonal()(key(1), (3,))",
        ],
    ),
    (
        INIT + "delta_orthogonal",
        [
            f"{INIT}delta_orthogonal()(key(1), (3, 2, 4))",
            f"{INIT}delta_orthogonal()(key(1), (3, 4, 2))",
            f"{INIT}delta_orthogonal()(key(1), (2, 2))",
        ],
    ),
    (
        INIT + "variance_scaling",
        [
            f"{INIT}variance_scaling(2.0, '{m}', '{d}')(key(1), (3, 5))"
            for m in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")
            for d in ("normal", "uniform", "truncated_normal")
        ]
        + [
            f"{INIT}variance_scaling(1.0, 'odd', 'normal')(key(1), (3, 5))",
            f"{INIT}variance_scaling(1.0, 'fan_in', 'odd')(key(1), (3, 5))",
            f"{INIT}variance_scaling(1.0, 'fan_in', 'normal', batch_axis=0)(key(1), (2, 3, 5))",
        ],
    ),
    (INIT + "Initializer", [f"isinstance({INIT}zeros, {INIT}Initializer)"]),
    ("nn.scaled_matmul", [
        "nn.scaled_matmul(f8(1, 4, 32), f8(1, 3, 32), jnp.ones((1, 4, 1), 'float8_e8m0fnu'), jnp.ones((1, 3, 1), 'float8_e8m0fnu'))"
    ]),
    (
        "nn.scaled_dot_general",
        ["nn.scaled_dot_general(f32(2, 32), f32(3, 32), (((1,), (1,)), ((), ())))"],
    ),
    ("nn.get_scaled_dot_general_config", [
        "nn.get_scaled_dot_general_config('mxfp8').mode", "nn.get_scaled_dot_general_config('odd')",
    ]),
    ("jax.nn.initializers.zeros", [
        "jax.nn.initializers.zeros(key(), ())", "jax.nn.initializers.zeros(key(), (0, 2))",
        "jax.nn.initializers.zeros(None, (2,))", "jax.nn.initializers.zeros(key(), (-1,))",
        "jax.nn.initializers.zeros(key(), (2,), 'bfloat16')", "jax.nn.initializers.zeros(key(), 2)",
    ]),
    ("jax.nn.initializers.ones", [
        "jax.nn.initializers.ones(key(), ())", "jax.nn.initializers.ones(key(), (0, 2))",
        "jax.nn.initializers.ones(key(), (2,), 'complex64')",
        "jax.nn.initializers.ones(key(), (2,), 'nonsense')",
        "jax.nn.initializers.ones(rawkey(), (2,), bool)",
    ]),
    ("jax.nn.initializers.constant", [
        "jax.nn.initializers.constant('a')(key(), (2,))",
        "jax.nn.initializers.constant(f32(3))(key(), (2,))",
        "jax.nn.initializers.constant(1j)(key(), (2,))",
        "jax.nn.initializers.constant(2.5)(key(), (0,))",
        "jax.nn.initializers.constant(np.nan, 'bfloat16')(None, (2,))",
    ]),
    ("jax.nn.initializers.normal", [
        "jax.nn.initializers.normal(2.0)(key(1), ())",
        "jax.nn.initializers.normal()(rawkey(1), (0, 2))",
        "jax.nn.initializers.normal()(key(1), (3,), 'complex64')",
        "jax.nn.initializers.normal()(1, (3,))",
        "jax.nn.initializers.normal(f32(3))(key(1), (2, 3))",
    ]),
    ("jax.nn.initializers.uniform", [
        "jax.nn.initializers.uniform()(key(1), ())", "jax.nn.initializers.uniform()(key(1), (0,))",
        "jax.nn.initializers.uniform()(key(1), (3,), 'int32')",
        "jax.nn.initializers.uniform(f32(3))(key(1), (2, 3))",
        "jax.nn.initializers.uniform()(1, (3,))",
    ]),
    ("jax.nn.initializers.truncated_normal", [
        "jax.nn.initializers.truncated_normal()(key(1), (0,))",
        "jax.nn.initializers.truncated_normal()(key(1), (3,), 'bfloat16')",
        "jax.nn.initializers.truncated_normal(1.0, lower=1.0, upper=-1.0)(key(1), (3,))",
        "jax.nn.initializers.truncated_normal()(key(1), (3,), 'int32')",
        "jax.nn.initializers.truncated_normal()(1, (3,))",
    ]),
    ("jax.nn.initializers.orthogonal", [
        "jax.nn.initializers.orthogonal()(key(1), (2, 3, 4))",
        "jax.nn.initializers.orthogonal()(key(1), (3, 3), 'bfloat16')",
        "jax.nn.initializers.orthogonal()(key(1), (3, 3), 'int32')",
        "jax.nn.initializers.orthogonal(column_axis=1)(key(1), (2, 3))",
        "jax.nn.initializers.orthogonal()(key(1), (0, 3))",
    ]),
    ("jax.nn.initializers.delta_orthogonal", [
        "jax.nn.initializers.delta_orthogonal(2.0, 0)(key(1), (3, 2, 2, 4))",
        "jax.nn.initializers.delta_orthogonal()(key(1), (3, 2, 2), 'float16')",
        "jax.nn.initializers.delta_orthogonal()(key(1), (2, 3, 2, 2, 3))",
        "jax.nn.initializers.delta_orthogonal()(key(1), (2, 2, 2, 2, 2, 2))",
        "jax.nn.initializers.delta_orthogonal(column_axis=5)(key(1), (3, 2, 4))",
    ]),
    *[
        (
            INIT + n,
            [
                f"{INIT}{n}(in_axis=0, out_axis=(1, 2), batch_axis=())(rawkey(1), (3, 2, 2))",
                f"{INIT}{n}(batch_axis=0)(key(1), (2, 3, 4), 'float16')",
                f"{INIT}{n}()(key(1), (3, 4), 'int32')",
                f"{INIT}{n}(in_axis=5)(key(1), (3, 4))",
            ],
        )
        for n in SCALED.split()
    ],
    ("jax.nn.initializers.Initializer", [
        "isinstance(jax.nn.initializers.normal(), jax.nn.initializers.Initializer)",
        "isinstance(5, jax.nn.initializers.Initializer)",
        "isinstance(lambda key, shape: 1, jax.nn.initializers.Initializer)",
        "jax.nn.initializers.Initializer.__name__", "jax.nn.initializers.Initializer()",
    ]),
    ("nn.scaled_matmul", [
        "nn.scaled_matmul(f8(2, 4, 64), f8(2, 3, 64), jnp.full((2, 4, 2), 2, 'float8_e8m0fnu'), jnp.ones((2, 3, 2), 'float8_e8m0fnu'), preferred_element_type='bfloat16')",
        "nn.scaled_matmul(f8(4, 32), f8(3, 32), jnp.ones((4, 1), 'float8_e8m0fnu'), jnp.ones((3, 1), 'float8_e8m0fnu'))",
        "nn.scaled_matmul(f8(1, 4, 32), f8(1, 3, 64), jnp.ones((1, 4, 1), 'float8_e8m0fnu'), jnp.ones((1, 3, 2), 'float8_e8m0fnu'))",
        "nn.scaled_matmul(f8(1, 4, 32), f8(1, 3, 32), jnp.ones((1, 4, 3), 'float8_e8m0fnu'), jnp.ones((1, 3, 1), 'float8_e8m0fnu'))",
        "nn.scaled_matmul(f32(1, 4, 32), f32(1, 3, 32), jnp.ones((1, 4, 1)), jnp.ones((1, 3, 1)))",
        "nn.scaled_matmul(f8(1, 4, 32), f8(2, 3, 32), jnp.ones((1, 4, 1), 'float8_e8m0fnu'), jnp.ones((2, 3, 1), 'float8_e8m0fnu'))",
    ]),
    ("nn.scaled_dot_general", [
        "nn.scaled_dot_general(f32(2, 4, 32), f32(2, 3, 32), (((2,), (2,)), ((0,), (0,))), preferred_element_type='bfloat16')",
        "nn.scaled_dot_general(f32(2, 32), f32(3, 32), (((1,), (1,)), ((), ())), configs=[])",
        "nn.scaled_dot_general(f32(2, 32), f32(3, 31), (((1,), (1,)), ((), ())))",
        "nn.scaled_dot_general(f32(2, 32), f32(3, 32), (((1,), (1,)), ((), ())), implementation='odd')",
        "nn.scaled_dot_general(f32(2, 32), f32(3, 32), (((1,), (1,)), ((), ())), configs=[nn.get_scaled_dot_general_config('mxfp8')] * 3)",
        "nn.scaled_dot_general(i32(2, 32), i32(3, 32), (((1,), (1,)), ((), ())))",
    ]),
    ("nn.get_scaled_dot_general_config", [
        "nn.get_scaled_dot_general_config('mxfp8').block_size",
        "np.dtype(nn.get_scaled_dot_general_config('mxfp8').data_type)",
        "np.dtype(nn.get_scaled_dot_general_config('nvfp4').scale_type)",
        "nn.get_scaled_dot_general_config('nvfp4', f32([2.0])).global_scale",
        "nn.get_scaled_dot_general_config('mxfp8', f32([2.0])).global_scale",
        "nn.get_scaled_dot_general_config('mxfp8').infer_only",
    ]),
]

CASES = calls(SECTION, "nn.", TABLE) + expressions(SECTION, INITIALIZERS)
