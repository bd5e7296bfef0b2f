"""Programs over eight devices: pmap, shard_map, jit on arrays that are cut; values and errors."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import expressions

SECTION = "devices"

MESH = "jax.make_mesh((4, 2), ('x', 'y'), axis_types=(jax.sharding.AxisType.Auto,) * 2)"
LINE = "jax.make_mesh((8,), ('x',), axis_types=(jax.sharding.AxisType.Auto,))"
X, Y, XY = "jax.P('x')", "jax.P('y')", "jax.P('x', 'y')"


def put(array: str, spec: str) -> str:
    """An array cut over the mesh."""
    return f"jax.device_put({array}, jax.NamedSharding({MESH}, jax.P({spec})))"


def mapped(body: str, arrays: str, ins: str = X, outs: str = X, mesh: str = LINE, more: str = "") -> str:
    """A shard_map of a lambda."""
    return f"jax.shard_map(lambda {body}, mesh={mesh}, in_specs={ins}, out_specs={outs}{more})({arrays})"


def pmapped(body: str, arrays: str, more: str = "") -> str:
    """A pmap of a lambda over the axis "i"."""
    return f"jax.pmap(lambda {body}, axis_name='i'{more})({arrays})"


REDUCTIONS = ["psum", "pmean", "pmax", "pmin"]
A, B = "f32(8, 6)", "f32(6, 4, s=1)"
EIGHT = "[jax.device_put(np.full((1, 2), i, 'f4'), d) for i, d in enumerate(jax.devices())]"
ROW, WIDE = "f32(8, 3)", "f32(8, 8, 2)"

EXPRESSIONS = [
    ("jax.pmap", [
        *[pmapped(f"x: lax.{f}(x, 'i')", a) for f in REDUCTIONS for a in (ROW, "i32(8, 3)")],
        pmapped("x: lax.all_gather(x, 'i')", ROW), pmapped("x: lax.all_gather(x, 'i', tiled=True)", ROW),
        pmapped("x: lax.psum_scatter(x, 'i')", WIDE), pmapped("x: lax.all_to_all(x, 'i', 0, 1)", WIDE),
        pmapped("x: lax.ppermute(x, 'i', [(j, (j + 1) % 8) for j in range(8)])", ROW),
        pmapped("x: lax.ppermute(x, 'i', [(0, 1)])", ROW), pmapped("x: x + lax.axis_index('i')", ROW),
        pmapped("x: lax.psum(x, 'i', axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]])", ROW), pmapped("x: lax.psum(1, 'i') * x", "f32(3, 2)"),
        pmapped("x, y: x @ y", f"{WIDE}, f32(2, 3)", ", in_axes=(0, None)"), pmapped("x: x.T", "f32(3, 8)", ", in_axes=1, out_axes=1"),
        pmapped("x: (x, lax.psum(x, 'i'))", ROW, ", out_axes=(0, None)"), pmapped("t: {'b': t['a'] * 2}", f"{{'a': {ROW}}}"),
        pmapped("x, n: x * n", f"{ROW}, 3", ", static_broadcasted_argnums=1"), pmapped("x: jax.grad(lambda x: lax.psum(jnp.sin(x), 'i') ** 2)(x)", "f32(8)"),
        pmapped("k: jax.random.normal(k, (3,))", "jax.random.split(jax.random.key(0), 8)"), f"jax.jit({pmapped('x: x + 1', 'x').join(['lambda x: ', ''])})({ROW})",
        f"jax.vmap({pmapped('x: lax.psum(x, chr(105))', 'x').join(['lambda x: ', ''])})(f32(2, 8, 3))", f"len({pmapped('x: x', ROW)}.addressable_shards)",
        pmapped("x: x", "f32(8, 2), f32(7, 2)"), pmapped("x, y: x", "f32(8, 2), f32(7, 2)"), pmapped("x: x", ROW, ", in_axes=None"), pmapped("x: lax.psum(x, 'j')", ROW),
    ]),
    ("jax.shard_map", [
        mapped("v: v * 2", ROW), mapped("v: v.sum(0, keepdims=True)", A), mapped("v: lax.axis_index('x') + v", ROW),
        *[mapped(f"v: lax.{f}(v, 'x')", ROW, outs="jax.P()") for f in REDUCTIONS],
        *[mapped(f"v: lax.{f}(v, {axes})", "f32(8, 4)", XY, outs, MESH) for f in REDUCTIONS[::2] for axes, outs in (("'x'", "jax.P(None, 'y')"), ("('x', 'y')", "jax.P()"))],
        mapped("v: lax.all_gather(v, 'x', tiled=True)", ROW), mapped("v: lax.all_gather(v, 'x', tiled=True)", ROW, outs="jax.P()", more=", check_vma=False"),
        mapped("v: lax.psum_scatter(v[0], 'x', tiled=True)", "f32(8, 16)"), mapped("v: lax.all_to_all(v, 'x', 1, 0, tiled=True)", "f32(8, 16)"),
        mapped("v: lax.ppermute(v, 'x', [(j, (j + 3) % 8) for j in range(8)])", ROW),
        mapped("a, b: lax.psum(a @ b, 'y')", f"{A}, {B}", f"({XY}, {Y})", X, MESH), mapped("a, b: a @ b", f"{A}, {B}", f"({X}, jax.P())"),
        mapped("v: (v, lax.pmax(v.max(), 'x'))", ROW, outs=f"({X}, jax.P())"), mapped("t: {'s': t['a'] + t['b']}", f"{{'a': {ROW}, 'b': {ROW}}}"),
        mapped("v: lax.fori_loop(0, 3, lambda _, c: c + lax.ppermute(c, 'x', [(j, (j + 1) % 8) for j in range(8)]), v)", ROW),
        mapped("v: lax.cond(lax.psum(v.sum(), 'x') > 0, lambda: v, lambda: -v)", ROW), mapped("v: jax.vmap(lambda r: r - r.mean())(v)", A),
        mapped("v: v - lax.pmean(v, 'x')", "f32(8, 4)", mesh=MESH, more=", axis_names={'x'}").join(["jax.jit(lambda: ", ")()"]),
        f"jnp.round(jax.grad(lambda w: {mapped('w, v: lax.psum((jnp.sin(v @ w) ** 2).sum(), chr(120))', f'w, {A}', f'(jax.P(), {X})', 'jax.P()')})({B}), 4)",
        f"jax.grad(lambda v: {mapped('v: lax.psum((v ** 3).sum(), chr(120))', 'v', X, 'jax.P()')})({ROW})",
        f"jax.jvp(lambda v: {mapped('v: lax.psum(v ** 2, chr(120))', 'v', X, 'jax.P()')}, ({ROW},), ({ROW},))[1]",
        f"jax.vmap(lambda v: {mapped('v: lax.psum(v, chr(120))', 'v', X, 'jax.P()')})(f32(2, 8, 3))",
        f"repr({mapped('v: v', ROW)}.sharding.spec)", f"{mapped('v: v', ROW)}.addressable_shards[2].data",
        mapped("v: v", "f32(7, 3)"), mapped("v: v", ROW, outs="jax.P()"), mapped("v: v", ROW, "jax.P('z')"), mapped("v: v", "f32()"), mapped("v: v", ROW, f"({X}, {X})"),
        mapped("v: lax.psum(v, 'z')", ROW), mapped("v: lax.ppermute(v, 'x', [(0, 1), (0, 2)])", ROW), mapped("v: v[:, 0]", ROW, outs="jax.P('x', None, None)"),
    ]),
    ("jax.jit", [
        f"jax.jit(lambda a, b: jnp.tanh(a @ b))({put(A, repr('x'))}, {B})", f"jax.jit(lambda a: a.sum(0))({put(A, repr('x'))})",
        f"jax.jit(lambda a: jnp.sort(a, axis=0))({put(A, repr('x'))})", f"jax.jit(lambda a: jnp.cumsum(a, axis=0))({put(A, repr('x'))})",
        f"jax.jit(lambda a: a.reshape(16, 3).T)({put(A, repr('x'))})", f"jax.jit(lambda a: nn.softmax(a, axis=0))({put(A, repr('x'))})",
        f"jax.jit(lambda a: a[::-1, 1:])({put(A, repr('x'))})", f"jax.jit(lambda a: jnp.concatenate([a, 2 * a]))({put(A, repr('x'))})",
        f"jnp.round(jax.jit(jax.grad(lambda b, a: (jnp.sin(a @ b) ** 2).mean()))({B}, {put(A, repr('x'))}), 4)", f"jax.jit(lambda a: lax.scan(lambda c, r: (c + r, c), jnp.zeros(6), a)[1])({put(A, repr('x'))})",
        f"repr(jax.jit(lambda a: a * 2)({put(A, repr('x'))}).sharding.spec)", f"jax.jit(lambda a: a + 1, out_shardings=jax.NamedSharding({MESH}, {X}))({A}).addressable_shards[2].data",
        f"repr(jax.jit(lambda a: a.T, in_shardings=jax.NamedSharding({MESH}, {X}), out_shardings=jax.NamedSharding({MESH}, {Y}))({A}).sharding.spec)",
        f"repr(jax.jit(lambda a: lax.with_sharding_constraint(a, jax.NamedSharding({MESH}, {Y})))({A}).sharding.spec)",
        f"jax.jit(lambda a: a, in_shardings=jax.NamedSharding({MESH}, {Y}))({put(A, repr('x'))})", f"jax.jit(lambda a: a, out_shardings=jax.NamedSharding({MESH}, {X}))(f32(7))",
        f"jax.jit(lambda a, b: a + b)({put(A, repr('x'))}, jax.device_put({A}, jax.devices()[3]))",
    ]),
    ("jax.device_put", [
        f"repr({put(A, repr('x'))}.sharding.spec)", f"{put('f32(8, 4)', 'None, (chr(120),)')}.addressable_shards[4].data", f"{put('f32(8, 4)', '(chr(120), chr(121))')}.addressable_shards[5].data",
        f"{put(A, repr('x'))}.is_fully_replicated", f"[s.replica_id for s in {put(A, repr('x'))}.addressable_shards]", f"[s.index for s in {put(A, repr('x'))}.addressable_shards]",
        f"{put(A, repr('x'))} + 1", f"np.asarray({put(A, repr('x'))})", f"{put(A, repr('x'))}[3]", f"{put(A, repr('x'))}.sum()", put("f32(7)", repr("x")), put("f32()", repr("x")),
    ]),
    ("jax.make_array_from_callback", [
        f"jax.make_array_from_callback((8, 2), jax.NamedSharding({MESH}, {X}), lambda i: np.arange(16, dtype='f4').reshape(8, 2)[i])",
        f"jax.make_array_from_callback((8, 2), jax.NamedSharding({MESH}, {X}), lambda i: np.zeros((3, 3), 'f4'))",
        f"jax.make_array_from_callback((7,), jax.NamedSharding({MESH}, {X}), lambda i: np.zeros(7, 'f4')[i])",
        f"jax.make_array_from_callback((), jax.NamedSharding({MESH}, jax.P()), lambda i: np.float32(3))",
        f"jax.make_array_from_callback((8,), jax.NamedSharding({MESH}, {X}), lambda i: np.arange(8)[i], dtype=np.int8)",
        f"repr(jax.make_array_from_callback((8, 2), jax.NamedSharding({MESH}, {XY}), lambda i: np.ones((8, 2), 'f4')[i]).sharding.spec)",
    ]),
    ("jax.make_array_from_single_device_arrays", [
        f"jax.make_array_from_single_device_arrays((8, 2), jax.NamedSharding({LINE}, {X}), {EIGHT})",
        f"repr(jax.make_array_from_single_device_arrays((8, 2), jax.NamedSharding({LINE}, {X}), {EIGHT}).sharding.spec)",
        f"jax.make_array_from_single_device_arrays((1, 2), jax.NamedSharding({LINE}, jax.P()), {EIGHT}[:1] * 8)",
        f"jax.make_array_from_single_device_arrays((8, 2), jax.NamedSharding({LINE}, {X}), {EIGHT}[:7])",
        f"jax.make_array_from_single_device_arrays((16, 2), jax.NamedSharding({LINE}, {X}), {EIGHT})",
        f"jax.make_array_from_single_device_arrays((8, 2), jax.NamedSharding({LINE}, {X}), {EIGHT}).addressable_shards[3].data",
    ]),
    ("jax.make_array_from_process_local_data", [
        f"jax.make_array_from_process_local_data(jax.NamedSharding({MESH}, {X}), np.arange(16, dtype='f4').reshape(8, 2))",
        f"jax.make_array_from_process_local_data(jax.NamedSharding({MESH}, {X}), np.ones((8, 2), 'f4'), (8, 2)).addressable_shards[1].data",
        f"repr(jax.make_array_from_process_local_data(jax.NamedSharding({MESH}, {XY}), np.ones((8, 2), 'i4')).sharding.spec)",
        f"jax.make_array_from_process_local_data(jax.NamedSharding({MESH}, jax.P()), np.arange(3))",
        f"jax.make_array_from_process_local_data(jax.NamedSharding({MESH}, {X}), np.ones((7, 2), 'f4'))",
    ]),
]

CASES = [case for row in EXPRESSIONS for case in expressions(SECTION, [row])]
