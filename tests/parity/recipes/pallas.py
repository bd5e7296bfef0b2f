"""Kernels of blocks, beside JAX's interpreter; slices with traced starts, of arrays and references."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import Case, expressions

P = "module('experimental.pallas')"


def call(kernel: str, out: str, arguments: str, inputs: str) -> str:
    """A call of a kernel; `kernel` is an expression that may use pl, S (shapes) and w (writes)."""
    return (
        "(lambda pl, S, w: "
        f"pl.pallas_call({kernel}, {out}, interpret=True, {arguments})({inputs}))"
        f"({P}, jax.ShapeDtypeStruct, lambda ref, value, at=...: ref.__setitem__(at, value))"
    )


X, V = "f32(8, 12)", "f32(10)"
ROWS = "pl.BlockSpec((2, 12), lambda i: (i, 0))"
LIKE = "S((8, 12), 'float32')"
COPY = "lambda x, o: w(o, x[...])"
DOUBLE = "lambda x, o: w(o, x[...] * 2 + pl.program_id(0))"
SUM = "lambda x, o: (pl.when(pl.program_id(0) == 0)(lambda: w(o, jnp.zeros_like(o))), w(o, o[...] + x[...].sum(0)))[2:] or None"
TILED = f"grid=(4,), in_specs=[{ROWS}], out_specs={ROWS}"
FOUR = "pl.BlockSpec((4,), lambda i: (i,))"

COSTS = ("x + x", "jnp.exp(x) * 2", "x @ x.T", "lax.integer_pow(x, 5)", "lax.integer_pow(x, 1)", "jnp.sin(x).sum()", "jax.jit(lambda x: x * x - x)(x)", "jnp.einsum('ab,cb->ac', x, x)", "-lax.sqrt(x)")
TABLE = [
    ("jax.experimental.pallas.estimate_cost", [f"(lambda c: [c.flops, c.transcendentals, c.bytes_accessed])({P}.estimate_cost(lambda x: {e}, f32(3, 4)))" for e in COSTS]),
    ("jax.experimental.pallas.hints", [
        call(COPY, LIKE, f"grid=(4,), in_specs=[pl.BlockSpec((2, 12), lambda i: (i, 0), pipeline_mode=pl.Buffered(2))], out_specs={ROWS}", X),
        *(f"{P}.{t}" for t in ("Buffered(2).use_lookahead", "Buffered(3, revisit=None).buffer_count", "RevisitMode.ANY.value", "DeviceIdType.MESH.value", "HOST.value", "enable_debug_checks.value", "enable_poison_buffers.value")),
        *(f"module('experimental.pallas.triton').{t}" for t in ("CompilerParams(num_warps=4).num_warps", "CompilerParams().num_stages", "CompilerParams(num_stages=2) == module('experimental.pallas.triton').CompilerParams(num_stages=2)")),
    ]),
    ("jax.experimental.pallas.pallas_call", [
        call(COPY, LIKE, "grid=()", X),
        call(DOUBLE, LIKE, TILED, X),
        call(DOUBLE, LIKE, f"grid=(2,), in_specs=[{ROWS}], out_specs={ROWS}", X),
        call(DOUBLE, LIKE, f"grid=(6,), in_specs=[{ROWS}], out_specs={ROWS}", X),
        call(COPY, LIKE, f"grid=(4,), in_specs=[{ROWS}], out_specs=pl.BlockSpec((2, 12), lambda i: (3 - i, 0))", X),
        call(COPY, LIKE, f"grid=(4,), in_specs=[pl.BlockSpec((2, 12), lambda i: ((i * 3) % 4, 0))], out_specs={ROWS}", X),
        call(COPY, LIKE, "grid=(2,), in_specs=[pl.BlockSpec((2, 4), lambda i: (3, i))], out_specs=pl.BlockSpec((2, 4), lambda i: (i, 1))", X),
        call(SUM, "S((12,), 'float32')", f"grid=(4,), in_specs=[{ROWS}], out_specs=pl.BlockSpec((12,), lambda i: (0,))", X),
        call("lambda x, o: w(o, jnp.where(jnp.isnan(x[...]), -1, x[...]))", "S((12,), 'float32')", f"grid=(3,), in_specs=[{FOUR}], out_specs={FOUR}", V),
        call("lambda x, o: w(o, x[...] == jnp.iinfo('int32').min)", "S((12,), 'bool')", f"grid=(3,), in_specs=[{FOUR}], out_specs={FOUR}", "i32(10)"),
        call(COPY, "S((10,), 'float32')", f"grid=(3,), in_specs=[{FOUR}], out_specs={FOUR}", V),
        call("lambda x, o: w(o, x[...].sum()[None])", "S((6,), 'float32')", "grid=(6,), in_specs=[pl.BlockSpec((pl.Element(5),), lambda i: (i,))], out_specs=pl.BlockSpec((1,), lambda i: (i,))", V),
        call("lambda x, o: w(o, jnp.nansum(x[...])[None])", "S((10,), 'float32')", "grid=(10,), in_specs=[pl.BlockSpec((pl.Element(3, (1, 1)),), lambda i: (i,))], out_specs=pl.BlockSpec((1,), lambda i: (i,))", V),
        call("lambda x, o: w(o, x[...] + pl.program_id(1))", "S((12, 8), 'float32')", "grid=(8, 3), in_specs=[pl.BlockSpec((None, 4), lambda i, j: (i, j))], out_specs=pl.BlockSpec((4, pl.squeezed), lambda i, j: (j, i))", X),
        call("lambda x, o: (w(x, x[...] + 1), w(o, x[...]))[2:] or None", "S((10,), 'float32')", "grid=(3,), out_specs=pl.BlockSpec((10,), lambda i: (0,))", V),
        call("lambda x, o: w(o, o[...] + x[0])", LIKE, f"grid=(2,), in_specs=[{ROWS}], out_specs={ROWS}, input_output_aliases={{0: 0}}", X),
        call("lambda o, p, q: None", "[S((3,), 'float32'), S((3,), 'int8'), S((3,), 'bool')]", "grid=()", ""),
        call("lambda x, o, s: (pl.when(pl.program_id(0) == 0)(lambda: w(s, jnp.zeros_like(s))), w(s, s[...] + x[...]), w(o, s[...]))[3:] or None", LIKE, f"{TILED}, scratch_shapes=[pl.ANY((2, 12), 'float32')]", X),
        call("lambda x, o: 3", LIKE, "grid=()", X),
        call(COPY, LIKE, f"grid=(4,), in_specs=[{FOUR}]", X),
        call(COPY, LIKE, "grid=(4,), in_specs=[pl.BlockSpec((2, 12), lambda i: (i,))]", X),
        call(COPY, LIKE, "grid=(4,), in_specs=[pl.BlockSpec((2, 12), lambda i: (i, 0.5))]", X),
        call(COPY, LIKE, "in_specs=[]", X),
        call(COPY, LIKE, "input_output_aliases={1: 0}", X),
        f"jax.vmap(lambda x: {call(DOUBLE, 'S((12,), jnp.float32)', f'grid=(3,), in_specs=[{FOUR}], out_specs={FOUR}', 'x')})({X})",
        f"jax.jit(lambda x: {call(DOUBLE, LIKE, TILED, 'x + 1')} * 2)({X})",
        f"jax.jit(lambda x, n: {call(DOUBLE, LIKE, f'grid=(n,), in_specs=[{ROWS}], out_specs={ROWS}', 'x')})({X}, 3)",
        f"jax.jvp(lambda x: {call('lambda x, o: w(o, jnp.sin(x[...]))', LIKE, TILED, 'x')}, ({X},), ({X},))",
        call("lambda x, o: (w(o, jnp.zeros_like(o)), pl.loop(0, 8, step=3)(lambda i: w(o, o[...] + x[i])))[2:] or None", "S((12,), 'float32')", "grid=()", X),
        call("lambda x, o: pl.run_scoped(lambda s: (w(s, x[...] * 2), w(o, s[...]))[2:] or None, pl.ANY((10,), 'float32'))", "S((10,), 'float32')", "grid=()", V),
    ]),
    ("jax.experimental.pallas.cdiv", [f"[{P}.cdiv(a, 4) for a in (0, 1, 4, 5)]", f"{P}.cdiv(i32([1, 8]), 4)", f"{P}.align_to(5, 4)", f"{P}.next_power_of_2(5)", f"{P}.next_power_of_2(-1)", f"{P}.strides_from_shape((2, 3, 4))", f"{P}.reciprocal({V})", f"{P}.broadcast_to(5, (2,))"]),
    ("jax.ds", [f"{X}[{i}]" for i in (
        "jax.ds(1, 2)", "jax.ds(-1, 1)", "jax.ds(0, 2, 2)", "jax.ds(jnp.int32(-1), 2)", "jax.ds(jnp.int32(7), 3)", "jax.ds(jnp.int32(0), 2, 3)", "jax.ds(jnp.int32(1), 2), 1", "jax.ds(jnp.int32(1), 2), i32([0, 1])",
        "..., jax.ds(jnp.int32(1), 2)", "jax.ds(jnp.int32(1), 2), ::-1", "jax.ds(jnp.int32(1), 2), None", "None, jax.ds(1, 2)", "jax.ds(1, 9)", "jax.ds(3)", "jax.ds(None)",
    )] + [
        f"{X}.at[jax.ds(jnp.int32(6), 3)].set(7.0)", f"{X}.at[jax.ds(jnp.int32(1), 2), 1].add(7.0)", f"{X}.at[jax.ds(2, 2)].mul(2)", f"jax.jit(lambda x, i: x[jax.ds(i, 2)])({X}, 3)", "jax.ds(1, 2)", "jax.ds(4)", "jax.ds(1, 2) == jax.ds(1, 2)",
        f"jax.jit(lambda x, i: (lambda r: (r.__setitem__(jax.ds(i, 2), jnp.ones((2, 12))), r[...]))(jax.new_ref(x)))({X}, 7)[1]", f"jax.jit(lambda x, i: (lambda r: (r.__setitem__(i, jnp.ones(12)), r[...]))(jax.new_ref(x)))({X}, 9)[1]",
        f"jax.jit(lambda x, i: (lambda r: (r.__setitem__((0, jax.ds(i, 3)), jnp.ones(3)), r[1, jax.ds(i, 2)]))(jax.new_ref(x)))({X}, 11)[1]", f"jax.new_ref({X})[jax.ds(7, 2)]",
    ]),
]


CASES: list[Case] = expressions("pallas", TABLE)
