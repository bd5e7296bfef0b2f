"""Transformations of transformations, and control flow: structures, odd axes, errors."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import expressions

SECTION = "transforms"

# Functions of one float32[3] that go through control flow.
BODIES = {
    "cond": "lambda x: lax.cond(x[0] > 0, lambda v: jnp.sin(v), lambda v: v * v, x)",
    "cond_consts": "lambda x: lax.cond(x.sum() > 0, lambda: x * 2, lambda: jnp.cos(x))",
    "switch": "lambda x: lax.switch(1, [lambda v: v, lambda v: v**3, lambda v: -v], x)",
    "switch_traced": "lambda x: lax.switch(jnp.int32(x[0] > 0), [lambda v: v, lambda v: v**3], x)",
    "scan_carry": "lambda x: lax.scan(lambda c, v: (c * v + 1.0, None), 1.0, x)[0]",
    "scan_ys": "lambda x: lax.scan(lambda c, v: (c + v, jnp.sin(c) * v), 0.5, x)[1]",
    "scan_tree": "lambda x: lax.scan(lambda c, v: ({'a': c['b'], 'b': c['a'] * v}, c['a']), {'a': x[0], 'b': x[1]}, x)[0]['b']",
    "scan_reverse": "lambda x: lax.scan(lambda c, v: (c * 0.5 + v, c), 0.0, x, reverse=True)[1]",
    "scan_matrix": "lambda x: lax.scan(lambda c, _: (jnp.tanh(jnp.outer(x, x) @ c), None), x, None, length=3)[0]",
    "scan_unroll": "lambda x: lax.scan(lambda c, v: (c * v, c), 1.0, x, unroll=2)[1]",
    "fori": "lambda x: lax.fori_loop(0, 3, lambda i, c: c * x + i, x)",
    "fori_pair": "lambda x: lax.fori_loop(0, 4, lambda i, c: (c[1], c[0] * x), (x, x + 1))[0]",
    "while_bounded": "lambda x: lax.fori_loop(0, 2, lambda i, c: jnp.where(c > 1, c, c * 2 + x), x)",
    "map": "lambda x: lax.map(lambda v: jnp.sin(v) * v, x)",
    "associative": "lambda x: lax.associative_scan(lambda a, b: a * b, x)",
    "nested": "lambda x: lax.scan(lambda c, v: (lax.fori_loop(0, 2, lambda i, d: d * v + c, c), c), 1.0, x)[0]",
    "cond_in_scan": "lambda x: lax.scan(lambda c, v: (lax.cond(v > 0, lambda: c + v, lambda: c * v), c), 1.0, x)[1]",
    "checkpoint": "lambda x: jax.checkpoint(lambda v: jnp.sin(jnp.cos(v) * v))(x)",
    "jit": "lambda x: jax.jit(lambda v: v * jnp.exp(v))(x)",
    "linear_solve": "lambda x: lax.custom_linear_solve(lambda v: 2.0 * v + 0.5 * v[::-1], x, lambda mv, b: jnp.linalg.solve(jax.jacobian(mv)(b), b), symmetric=True)",
}
ALL = list(BODIES.values())

DERIVATIVES = [
    ("jax.grad", [f"jax.grad(lambda x: jnp.sum(({f})(x) * f32([1, 2, 3])))(f32(3, kind='prob'))" for f in ALL]),
    ("jax.jvp", [f"jax.jvp({f}, (f32(3, kind='prob'),), (f32(3),))" for f in ALL]),
    ("jax.vmap", [f"jax.vmap({f})(f32(4, 3, kind='prob'))" for f in ALL]),
    ("jax.vmap", [f"jax.vmap({f}, in_axes=1)(f32(3, 2, kind='unit'))" for f in ALL[::3]]),
    ("jax.jit", [f"jax.jit({f})(f32(3, kind='unit'))" for f in ALL[::2]]),
    ("jax.jacrev", [f"jax.jacrev({f})(f32(3, kind='prob'))" for f in ALL[::2]]),
    ("jax.jacfwd", [f"jax.jacfwd({f})(f32(3, kind='prob'))" for f in ALL[1::2]]),
    ("jax.linearize", [f"(lambda r: (r[0], r[1](f32(3))))(jax.linearize({f}, f32(3, kind='prob')))" for f in ALL[::2]]),
    ("jax.hessian", [f"jax.hessian(lambda x: jnp.sum(({f})(x)))(f32(3, kind='prob'))" for f in ALL[::3]]),
    ("jax.vmap", [f"jax.vmap(jax.grad(lambda x: jnp.sum(({f})(x))))(f32(2, 3, kind='prob'))" for f in ALL[::3]]),
    ("jax.grad", [f"jax.grad(lambda x: jnp.sum(jax.vmap({f})(x)))(f32(2, 3, kind='prob'))" for f in ALL[1::3]]),
    ("jax.jit", [f"jax.jit(jax.grad(lambda x: jnp.sum(({f})(x))))(f32(3, kind='prob'))" for f in ALL[2::3]]),
    ("jax.value_and_grad", [
        "jax.value_and_grad(lambda p, x: jnp.sum(jnp.tanh(x @ p['w'] + p['b'])))({'w': f32(3, 2), 'b': f32(2)}, f32(4, 3))",
        "jax.value_and_grad(lambda p: (p[0] * p[1][0], {'aux': p[0]}), has_aux=True)((2.0, [3.0]))",
        "jax.value_and_grad(lambda x, y: x * y, argnums=(1, 0))(2.0, 3.0)",
        "jax.value_and_grad(lambda x, y: x * y, argnums=(0, 2))(2.0, 3.0)",
        "jax.value_and_grad(lambda x, y: x * y, argnums=-1)(2.0, 3.0)",
        "jax.value_and_grad(lambda x: x.sum())(bf16(3))",
        "jax.value_and_grad(lambda x: x.sum(), allow_int=True)(i32(3))",
        "jax.value_and_grad(lambda x: jnp.sum(x['a']) * x['n'], allow_int=True)({'a': f32(2), 'n': 3})",
        "jax.value_and_grad(lambda z: z * z, holomorphic=True)(1 + 2j)",
        "jax.value_and_grad(lambda z: z * z, holomorphic=True)(1.0)",
        "jax.value_and_grad(lambda x: (x, x, x), has_aux=True)(1.0)",
        "jax.value_and_grad(lambda x, *, k: x * k)(2.0, k=3.0)",
    ]),
    ("jax.grad", [
        "jax.grad(lambda t: t.x * t.y)(Point(2.0, 3.0))", "jax.grad(lambda r: r.x * r.y)(Record(2.0, 3.0))",
        "jax.grad(lambda p: p.a * p.b)(Pair(2.0, 3.0))", "jax.grad(lambda x: x[0] * 2)([3.0, None])",
        "jax.grad(lambda x: jnp.sum(x))(None)", "jax.grad(lambda x: None)(1.0)",
        "jax.grad(lambda x: x * jax.grad(lambda y: x * y * y)(x))(2.0)",
        "jax.grad(lambda x: jax.jvp(lambda y: y**3, (x,), (x,))[1])(2.0)",
        "jax.grad(lambda x: jax.vjp(lambda y: y**3, x)[1](x)[0])(2.0)",
        "jax.grad(lambda x: jnp.sum(jax.vmap(lambda a: a * x)(f32(3))))(2.0)",
        "jax.grad(lambda x: jnp.sum(jax.vmap(lambda a, b: a * b, in_axes=(None, 0))(x, f32(3))))(2.0)",
        "jax.grad(lambda x: lax.psum(x, 'i'))(2.0)", "jax.grad(lambda x: x.real)(1.0)",
        "jax.grad(lambda x: jnp.sum(x.at[jnp.array([0, 0])].add(x[:2])))(f32(3))",
        "jax.grad(lambda x: jnp.sum(jnp.sort(x) * f32([1, 2, 3])))(f32(3, kind='distinct'))",
        "jax.grad(lambda x, y: x * y, argnums=(0, 0))(2.0, 3.0)", "jax.grad(lambda x: x * 2, argnums=())(2.0)",
        "jax.grad(lambda x: jnp.where(x > 0, x, jnp.nan))(2.0)", "jax.grad(lambda x: x, has_aux=True)((1.0, 2.0))",
        "jax.grad(jax.jit(lambda x, n: x**n, static_argnums=1))(2.0, 3)", "jax.grad(lambda x: float(x) * x)(2.0)",
        "jax.grad(lambda x: int(x) * x)(2.0)", "jax.grad(lambda x: x if x else -x)(2.0)",
    ]),
    ("jax.jacfwd", [
        "jax.jacfwd(lambda p: {'s': p['a'] * p['b'], 't': p['a'].sum()})({'a': f32(2), 'b': f32(2, s=1)})",
        "jax.jacfwd(lambda x, y: (x * y, y), argnums=(1, 0))(f32(2), f32(2))", "jax.jacfwd(lambda x: x**2)(2.0)",
        "jax.jacfwd(jax.jacfwd(lambda x: x[0] * x**2))(f32(2))", "jax.jacfwd(lambda x: 3.0)(f32(2))",
        "jax.jacfwd(lambda z: z**2, holomorphic=True)(c64(2))", "jax.jacfwd(lambda x: x**2)(c64(2))",
        "jax.jacfwd(lambda x: (x * 2, [x]), has_aux=True)(f32(2))", "jax.jacfwd(lambda x, y: x, argnums=2)(1.0, 2.0)",
        "jax.jacfwd(lambda x: x.T @ x)(f32(2, 2))", "jax.jacfwd(lambda x: x)(f32(0))",
    ]),
    ("jax.jacrev", [
        "jax.jacrev(lambda p: {'s': p['a'] * p['b'], 't': p['a'].sum()})({'a': f32(2), 'b': f32(2, s=1)})",
        "jax.jacrev(lambda x, y: (x * y, y), argnums=(1, 0))(f32(2), f32(2))", "jax.jacrev(lambda x: x**2)(2.0)",
        "jax.jacrev(jax.jacrev(lambda x: x[0] * x**2))(f32(2))", "jax.jacrev(lambda x: x * 2, allow_int=True)(i32(2))",
        "jax.jacrev(lambda z: z**2, holomorphic=True)(c64(2))", "jax.jacrev(lambda x: x + 0j)(f32(2))",
        "jax.jacrev(lambda x: (x * 2, [x]), has_aux=True)(f32(2))", "jax.jacrev(lambda x: x.T @ x)(f32(2, 2))",
    ]),
    ("jax.hessian", [
        "jax.hessian(lambda x: x @ mat('f32', 3) @ x)(f32(3))", "jax.hessian(lambda x: x**3)(2.0)",
        "jax.hessian(lambda x, y: x**2 * y, argnums=1)(2.0, 3.0)", "jax.hessian(lambda x: x**2)(f32(2))",
        "jax.hessian(lambda x: (jnp.sum(x**2), x), has_aux=True)(f32(2))", "jax.hessian(lambda x: x)(i32(2))",
        "jax.hessian(lambda p: jnp.sum(p['a'] * p['b'] ** 2))({'a': f32(2), 'b': f32(2, s=1)})",
    ]),
    ("jax.linearize", [
        "(lambda r: r[1]({'a': 1.0, 'b': f32(2)}))(jax.linearize(lambda d: (d['a'] * d['b'], d['a']), {'a': 2.0, 'b': f32(2)}))",
        "jax.linearize(lambda x: (x**2, {'k': x}), 2.0, has_aux=True)[2]", "jax.linearize(lambda x: 5.0, 2.0)[1](1.0)",
        "jax.linearize(lambda x: x, 2.0)[1](1)", "jax.linearize(lambda x: x, i32(2))[0]",
        "jax.vmap(jax.linearize(jnp.sin, 2.0)[1])(f32(3))", "jax.jit(lambda t: jax.linearize(jnp.sin, 2.0)[1](t))(3.0)",
        "jax.linearize(lambda x: x, 2.0)[1](1.0, 2.0)", "jax.linearize(lambda x: x if x > 0 else -x, 2.0)[0]",
    ]),
    ("jax.vjp", [
        "jax.vjp(lambda d: {'o': d['a'] * d['b']}, {'a': 2.0, 'b': f32(2)})[1]({'o': f32(2)})",
        "jax.vjp(lambda d: {'o': d['a']}, {'a': 2.0})[1]({'p': 1.0})", "jax.vjp(lambda x: [x, x], 2.0)[1]((1.0, 1.0))",
        "jax.vjp(lambda x: x, f32(2))[1](f16(2))", "jax.vjp(lambda x, n: x * n, f32(2), 3)[1](f32(2))",
        "jax.vjp(lambda x: x.astype('int32'), f32(2))[1](np.zeros(2, jax.float0))", "jax.vjp(lambda: 1.0)[1](1.0)",
        "jax.vmap(jax.vjp(jnp.sin, 2.0)[1])(f32(3))", "jax.jit(lambda x: jax.vjp(jnp.sin, x)[1](1.0))(2.0)",
        "jax.vjp(lambda x: (x, {'k': x}), 2.0, has_aux=True)[0]", "jax.vjp(lambda z: z.real, c64(2))[1](f32(2))",
        "jax.vjp(jnp.matmul, f32(2, 3), f32(3, 2))[1](f32(2, 2))", "jax.vjp(lambda x: x, 2.0)[1](None)",
    ]),
    ("jax.jvp", [
        *[f"jax.jvp({f}, (1.0,), (2.0,))" for f in ("jnp.asarray", "jnp.squeeze", "lambda x: x.reshape(())", "lambda x: +x", "jax.device_put", "lambda x: x")],
        "jax.jvp(lambda d: d['a'] * d['b'], ({'a': 2.0, 'b': 3.0},), ({'a': 1.0, 'b': 1.0},))",
        "jax.jvp(lambda d: d['a'], ({'a': 2.0},), ({'b': 1.0},))", "jax.jvp(lambda x: x, [1.0], [2.0])",
        "jax.jvp(lambda x, n: x * n, (f32(2), 3), (f32(2), np.zeros((), jax.float0)))",
        "jax.jvp(lambda x: x > 0, (1.0,), (1.0,))", "jax.jvp(lambda x: (x > 0, x), (f32(2),), (f32(2),))",
        "jax.jvp(lambda x: jax.jvp(jnp.sin, (x,), (1.0,))[1], (2.0,), (1.0,))", "jax.jvp(jnp.sin, (1,), (1,))",
        "jax.jvp(lambda x: x, (1.0,), (1,))", "jax.jvp(lambda x: 4.0, (1.0,), (1.0,))", "jax.jvp(3, (1.0,), (1.0,))",
        "jax.jvp(jax.vmap(lambda x: x**2), (f32(3),), (f32(3),))", "jax.jvp(lambda x: x * 2, (bf16(2),), (bf16(2),))",
    ]),
    ("jax.linear_transpose", [
        "jax.linear_transpose(lambda d: d['a'] + 2 * d['b'], {'a': f32(2), 'b': f32(2)})(f32(2))",
        "jax.linear_transpose(lambda x: lax.scan(lambda c, v: (c + v, c * 2), 0.0, x)[1], f32(3))(f32(3))",
        "jax.linear_transpose(lambda x: jnp.cumsum(x), f32(3))(f32(3))", "jax.linear_transpose(lambda x: x, i32(3))(i32(3))",
        "jax.linear_transpose(lambda x: x.T @ f32(2, 3), f32(2, 3))(f32(3, 3))",
    ]),
]

JVP = "(lambda f: (f.defjvp(lambda p, t: ({out}, {tangent})), {use})[1])(jax.custom_jvp({f}{more}))"
VJP = "(lambda f: (f.defvjp(lambda *a: ({out}, {kept}), lambda r, g: {back}), {use})[1])(jax.custom_vjp({f}{more}))"


def _jvp(use: str, f: str = "lambda x: x * 2", out: str = "f(*p)", tangent: str = "5.0 * t[0]", more: str = "") -> str:
    return JVP.format(use=use, f=f, out=out, tangent=tangent, more=more)


def _vjp(use: str, f: str = "lambda x: x * 2", out: str = "f(*a)", kept: str = "a", back: str = "(g * r[0],)", more: str = "") -> str:
    return VJP.format(use=use, f=f, out=out, kept=kept, back=back, more=more)


RULES = [
    ("jax.custom_jvp", [
        _jvp("jax.jvp(f, (2.0,), (3.0,))"), _jvp("jax.grad(f)(2.0)"), _jvp("jax.jit(jax.grad(f))(2.0)"),
        _jvp("jax.vmap(f)(f32(3))"), _jvp("jax.hessian(f)(2.0)"), _jvp("jax.jacfwd(f)(f32(2))"),
        _jvp("jax.linearize(f, 2.0)[1](1.0)"), _jvp("f(f32(2))"), _jvp("jax.grad(lambda x: lax.scan(lambda c, v: (f(c) * v, None), 1.0, x)[0])(f32(3))"),
        _jvp("jax.grad(f)(2.0)", tangent="t[0], t[0]"), _jvp("jax.grad(lambda x: f(x).sum())(f32(3))", tangent="t[0].sum()"),
        _jvp("jax.grad(f)(2.0)", out="p[0], p[0]"), _jvp("jax.jvp(f, (2.0, 3.0), (1.0, 1.0))", f="lambda x, y: x * y", tangent="t[0] * p[1]"),
        _jvp("jax.grad(lambda x: f(x)['a'])(2.0)", f="lambda x: {'a': x}", tangent="{'a': 7.0 * t[0]}"),
        _jvp("jax.grad(f)(2.0, 3)", f="lambda x, n: x**n", tangent="5.0 * t[0]"),
        "(lambda f: (f.defjvp(lambda n, p, t: (f(p[0], n), n * t[0])), jax.grad(f)(2.0, 3))[1])(jax.custom_jvp(lambda x, n: x * n, nondiff_argnums=(1,)))",
        "(lambda f: (f.defjvps(None, lambda t, ans, x, y: t * x), jax.grad(f, (0, 1))(2.0, 3.0))[1])(jax.custom_jvp(lambda x, y: x * y))",
        "(lambda f: (f.defjvp(lambda p, t: (f(*p), t[0]), symbolic_zeros=True), jax.grad(f)(2.0))[1])(jax.custom_jvp(lambda x: x * 2))",
        "jax.custom_jvp(3)", "jax.custom_jvp(lambda x: x)(2.0)",
    ]),
    ("jax.custom_vjp", [
        _vjp("jax.grad(f)(2.0)"), _vjp("jax.vjp(f, 2.0)[1](3.0)"), _vjp("jax.jit(jax.grad(f))(2.0)"), _vjp("f(f32(2))"),
        _vjp("jax.vmap(jax.grad(f))(f32(3))"), _vjp("jax.jacrev(f)(f32(2))"), _vjp("jax.jacfwd(f)(f32(2))"),
        _vjp("jax.grad(jax.grad(f))(2.0)"), _vjp("jax.grad(lambda x: lax.scan(lambda c, v: (f(c) * v, None), 1.0, x)[0])(f32(3))"),
        _vjp("jax.grad(f, (0, 1))(2.0, 3.0)", f="lambda x, y: x * y", back="(g * r[1], None)"),
        _vjp("jax.grad(f)(2.0)", back="g"), _vjp("jax.grad(f)(2.0)", back="(g, g)"), _vjp("jax.grad(f)(2.0)", back="[g]"),
        _vjp("jax.grad(lambda x: f(x).sum())(f32(2))", back="(g.sum(),)"), _vjp("jax.grad(f)(2.0)", kept="None", back="(g,)"),
        _vjp("jax.grad(f)({'a': 2.0})", f="lambda d: d['a'] * 2", back="({'a': g},)"),
        _vjp("jax.grad(f)({'a': 2.0})", f="lambda d: d['a'] * 2", back="({'b': g},)"),
        _vjp("jax.jvp(f, (2.0,), (1.0,))"), _vjp("jax.linearize(f, 2.0)[1](3.0)"),
        "(lambda f: (f.defvjp(lambda x, n: (f(x, n), x), lambda n, r, g: (g * n,)), jax.grad(f)(2.0, 3))[1])(jax.custom_vjp(lambda x, n: x * n, nondiff_argnums=(1,)))",
        "(lambda f: (f.defvjp(lambda x: f(x), lambda r, g: (g,)), jax.grad(f)(2.0))[1])(jax.custom_vjp(lambda x: x * 2))",
        "jax.grad(jax.custom_vjp(lambda x: x * 2))(2.0)", "jax.custom_vjp(3)",
    ]),
    ("jax.checkpoint", [
        f"jax.grad(jax.checkpoint(lambda x: jnp.sum(jnp.sin(jnp.sin(x @ x))), policy=jax.checkpoint_policies.{p}))(f32(2, 2))"
        for p in ("nothing_saveable", "dots_saveable", "everything_saveable", "dots_with_no_batch_dims_saveable", "checkpoint_dots")
    ] + [
        "jax.vmap(jax.grad(jax.checkpoint(lambda x: jnp.sin(x) ** 2)))(f32(3))",
        "jax.hessian(jax.checkpoint(lambda x: jnp.sum(jnp.sin(x) ** 2)))(f32(3))",
        "jax.grad(lambda x: lax.scan(jax.checkpoint(lambda c, v: (jnp.sin(c) * v, c)), 1.0, x)[0])(f32(3))",
        "jax.checkpoint(lambda d: {'k': d['a'] * 2})({'a': 2.0})", "jax.checkpoint(lambda x: x, static_argnums=3)(1.0)",
        "jax.grad(jax.checkpoint(lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x)))(2.0)", "jax.checkpoint(lambda x: 'a')(1.0)",
        "jax.grad(jax.checkpoint(lambda x: __import__('importlib').import_module(jax.__name__ + '.ad_checkpoint').checkpoint_name(jnp.sin(x), 's') ** 2, policy=jax.checkpoint_policies.save_only_these_names('s')))(2.0)",
    ]),
]

AXES = [
    ("jax.vmap", [
        "jax.vmap(lambda x, y: x @ y, in_axes=(2, -1), out_axes=1)(f32(2, 3, 4), f32(3, 4))",
        "jax.vmap(lambda x: x, in_axes=1, out_axes=2)(f32(2, 3, 4))", "jax.vmap(lambda x: x, in_axes=-2, out_axes=-1)(f32(2, 3, 4))",
        "jax.vmap(lambda x: {'a': x, 'b': x.sum()}, out_axes={'a': 1, 'b': 0})(f32(3, 2))",
        "jax.vmap(lambda x: (x, x), out_axes=(0, 1))(f32(3, 2))", "jax.vmap(lambda x: (x, x), out_axes=[0, 1])(f32(3, 2))",
        "jax.vmap(lambda x: x, out_axes=3)(f32(3, 2))", "jax.vmap(lambda x: x, out_axes=-3)(f32(3, 2))", "jax.vmap(lambda x: x, in_axes=-3)(f32(3, 2))",
        "jax.vmap(lambda x, y: (x, y), in_axes=(0, None), out_axes=(0, None))(f32(3), 2.0)",
        "jax.vmap(lambda x, y: x + y['a'], in_axes=(0, {'a': 1}))(f32(3), {'a': f32(2, 3)})",
        "jax.vmap(lambda x, y: x, in_axes=(0, {'b': 1}))(f32(3), {'a': f32(2, 3)})", "jax.vmap(lambda *a: sum(a), in_axes=(0, 1))(f32(3), f32(3, 3))",
        "jax.vmap(lambda x, *, k: x * k)(f32(3), k=f32(3))", "jax.vmap(lambda x, *, k: x * k)(f32(3), k=2.0)",
        "jax.vmap(lambda t: t.x * t.y)(Point(f32(3), f32(3)))", "jax.vmap(lambda r: r.x * 2, in_axes=(Record(0, None),))(Record(f32(3), 2.0))",
        "jax.vmap(lambda x: lax.psum(x, 'i'), axis_name='i')(f32(3))", "jax.vmap(lambda x: x / lax.psum(1, 'i'), axis_name='i')(f32(3))",
        "jax.vmap(lambda x: lax.axis_index('i') * 1.5, axis_name='i')(f32(3))", "jax.vmap(lambda x: lax.pmean(x, 'j'), axis_name='i')(f32(3))",
        "jax.vmap(lambda x: lax.all_gather(x, 'i'), axis_name='i')(f32(3))", "jax.vmap(lambda x: lax.ppermute(x, 'i', [(0, 1), (1, 2), (2, 0)]), axis_name='i')(f32(3))",
        "jax.vmap(jax.vmap(lambda x: lax.psum(x, ('i', 'j')), axis_name='j'), axis_name='i')(f32(2, 3))",
        "jax.vmap(jax.vmap(lambda x, y: x * y, in_axes=(0, None)), in_axes=(None, 0), out_axes=1)(f32(2), f32(3))",
        "jax.vmap(jax.jit(lambda x, y: x @ y), in_axes=(0, None))(f32(2, 3), f32(3))", "jax.vmap(jax.jacfwd(lambda x: x**2))(f32(2, 3))",
        "jax.vmap(lambda x: jnp.sum(x), spmd_axis_name='i')(f32(2, 3))", "jax.vmap(lambda x: x, in_axes=(0, 0))(f32(3))",
        "jax.vmap(lambda x: x, in_axes=[0])(f32(3))", "jax.vmap(lambda x: x, in_axes=1.5)(f32(3))", "jax.vmap(lambda x: x, out_axes='a')(f32(3))",
        "jax.vmap(lambda x: None)(f32(3))", "jax.vmap(lambda x: x)({})", "jax.vmap(lambda k: random.bits(k))(random.split(key(), 2))",
        "jax.vmap(lambda x: jnp.linalg.eigvalsh(x))(spd('f32', 3, 2))", "jax.vmap(lambda x, y: jnp.searchsorted(x, y))(f32([[1, 2], [3, 4]]), f32([1.5, 5]))",
        "jax.vmap(lambda x: x.at[0].set(1))(i32(2, 3))", "jax.vmap(lambda x: x[::-1])(f32(2, 3))", "jax.vmap(lambda i: jnp.eye(3)[i])(i32([0, 2]))",
        "jax.vmap(lambda x: jnp.nonzero(x, size=2)[0])(f32(2, 3))", "jax.vmap(lambda x: jnp.unique(x))(i32(2, 3))",
    ]),
]

FLOW = [
    ("lax.cond", [
        "lax.cond(True, lambda d: {'o': d['a']}, lambda d: {'o': -d['a']}, {'a': 2.0})", "lax.cond(False, lambda x: (x, x), lambda x: (x, -x), 1.0)",
        "lax.cond(True, lambda x: x, lambda x: (x,), 1.0)", "lax.cond(True, lambda x: x, lambda x: x.astype('int32'), f32(2))",
        "lax.cond(True, lambda x: x, lambda x: x[:1], f32(2))", "lax.cond(True, lambda: None, lambda: None)", "lax.cond(f32(2), lambda: 1, lambda: 2)",
        "lax.cond('a', lambda: 1, lambda: 2)", "lax.cond(2.0, lambda: 1, lambda: 2)", "lax.cond(0, lambda: 1, lambda: 2)", "lax.cond(1j, lambda: 1, lambda: 2)",
        "lax.cond(True, lambda x: x, lambda x: x)", "lax.cond(True, 1, 2)", "lax.cond(True, lambda x: 1, lambda x: 2.0, 1.0)",
        "lax.cond(True, lambda x, y: x, lambda x, y: y, 1.0, 2.0)", "lax.cond(True, lambda x: x['a'], lambda x: x['b'], {'a': 1, 'b': 2})",
        "lax.cond(True, lambda t: t, lambda t: Point(t.y, t.x), Point(1.0, 2.0))", "lax.cond(True, lambda: {'a': 1}, lambda: {'b': 1})",
        "jax.jit(lambda p, x: lax.cond(p, lambda v: v + 1, lambda v: v - 1, x))(True, f32(2))", "lax.cond(None, lambda: 1, lambda: 2)",
        "jax.vmap(lambda p, x: lax.cond(p, lambda v: v + 1, lambda v: v - 1, x))(b1(3), f32(3))", "lax.cond(True, lambda: 'a', lambda: 'b')",
        "lax.cond(True, lambda: jnp.float32(1), lambda: 2.0)", "lax.cond(True, lambda: 2.0, lambda: jnp.float32(1))", "lax.cond(True, lambda: 2.0, lambda: jnp.float32(1)) + bf16()",
        "jax.vmap(lambda p: lax.cond(p, lambda: 1.0, lambda: jnp.asarray(2.0)))(b1(3))", "jax.jvp(lambda x: lax.cond(x > 0, lambda: x, lambda: jnp.asarray(2.0)), (1.5,), (1.0,))",
    ]),
    ("lax.switch", [
        "lax.switch(-1, [lambda: 1, lambda: 2])", "lax.switch(7, [lambda: 1, lambda: 2])", "lax.switch(0, [])", "lax.switch(0, [lambda x: x], 2.0)",
        "lax.switch(1.0, [lambda: 1, lambda: 2])", "lax.switch(i32(2), [lambda: 1, lambda: 2])", "lax.switch(0, [lambda: 1, 2])", "lax.switch(True, [lambda: 1, lambda: 2])",
        "lax.switch(1, [lambda x: x, lambda x: (x,)], 1.0)", "lax.switch(1, [lambda x: {'a': x}, lambda x: {'a': x * 2}], 1.0)",
        "jax.vmap(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos], x))(i32([0, 1, 5]), f32(3))", "lax.switch(u8([1])[0], [lambda: 1, lambda: 2])",
    ]),
    ("lax.scan", [
        "lax.scan(lambda c, x: (c, x), 0, {'a': f32(3), 'b': i32(3, 2)})", "lax.scan(lambda c, x: (c + x['a'], None), 0.0, {'a': f32(3)})",
        "lax.scan(lambda c, x: ([c[1], c[0]], c), [1.0, 2.0], None, length=3)", "lax.scan(lambda c, x: (c + 1, c), 0, length=3)", "lax.scan(lambda c, x: (c, c), 0)",
        "lax.scan(lambda c, x: c, 0, f32(3))", "lax.scan(lambda c, x: (c, x, x), 0, f32(3))", "lax.scan(lambda c, x: ((c, c), x), 0, f32(3))",
        "lax.scan(lambda c, x: (c[:1], x), f32(2), f32(3))", "lax.scan(lambda c, x: (c.astype('int32'), x), f32(2), f32(3))", "lax.scan(lambda c, x: (c, x), 0, (f32(3), f32(2)))",
        "lax.scan(lambda c, x: (c, x), 0, f32(3), length=2)", "lax.scan(lambda c, x: (c, x), 0, 2.0)", "lax.scan(3, 0, f32(3))", "lax.scan(lambda c, x: (c, x), 0, f32(0))",
        "lax.scan(lambda c, x: (c + x, c), 0.0, f32(0, 2)[:, 0])", "lax.scan(lambda c, x: (c + x, c), bf16()[()], bf16(3))", "lax.scan(lambda c, x: (c, x), Point(1, 2), f32(2))",
        "lax.scan(lambda c, x: (c + x, x), 0, f32(3), reverse=True)", "lax.scan(lambda c, x: (c + x, x), 0.0, f32(5), unroll=2)", "lax.scan(lambda c, x: (c + x, x), 0.0, f32(5), unroll=True)",
        "lax.scan(lambda c, x: (c + x, x), 0.0, f32(5), unroll=-1)", "lax.scan(lambda c, x: (random.split(c)[0], random.bits(c)), key(1), None, length=2)",
        "lax.scan(lambda c, x: (c, None), None, f32(3))", "lax.scan(lambda c, x: (c * 1.5, None), 1, f32(3))", "lax.scan(lambda c, x: (c | (x > 0), c), False, f32(3))",
        "lax.scan(lambda c, x: (2.0, c), jnp.float32(1), None, length=2)", "lax.scan(lambda c, x: (2.0, c), jnp.float32(1), None, length=0)[0] + bf16()",
        "jax.vmap(lambda v: lax.scan(lambda c, x: (jnp.asarray(2.0) * 3, c), v, None, length=2))(f32(2))",
    ]),
    ("lax.fori_loop", [
        "lax.fori_loop(0, 3, lambda i, c: {'a': c['b'], 'b': c['a'] + i}, {'a': 1, 'b': 2})", "lax.fori_loop(3, 0, lambda i, c: c + 1, 5)", "lax.fori_loop(-2, 2, lambda i, c: c + i, 0)",
        "lax.fori_loop(0, 3, lambda i, c: (c,), 1.0)", "lax.fori_loop(0, 3, lambda i, c: c[:1], f32(3))", "lax.fori_loop(0, 3, lambda i, c: c.at[i].set(i), i32(3))",
        "lax.fori_loop(0, 2.5, lambda i, c: c, 0)", "lax.fori_loop(0, f32(2), lambda i, c: c, 0)", "lax.fori_loop(0, 3, 3, 0)", "jax.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c + i, 0))(4)",
        "jax.jit(lambda n, x: lax.fori_loop(0, n, lambda i, c: c * x, 1.0))(3, 2.0)", "jax.grad(lambda x: lax.fori_loop(0, i32([3])[0], lambda i, c: c * x, 1.0))(2.0)",
        "jax.jit(jax.grad(lambda x, n: lax.fori_loop(0, n, lambda i, c: c * x, 1.0)))(2.0, 3)", "jax.jvp(lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, 1.0), (2.0,), (1.0,))",
        "lax.fori_loop(0, 3, lambda i, c: c + i.astype('float32'), 0.0)", "lax.fori_loop(i8([0])[0], i8([3])[0], lambda i, c: c + i, 0)", "lax.fori_loop(0, 3, lambda i, c: c * 2, bf16(2), unroll=2)",
        "lax.fori_loop(0, 3, lambda i, c: 2.0, jnp.float32(1))", "jax.jit(lambda n: lax.fori_loop(0, n, lambda i, c: 2.0, jnp.float32(1)))(3)",
    ]),
    ("lax.while_loop", [
        "lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, 1.0))", "lax.while_loop(lambda c: c['i'] < 3, lambda c: {'i': c['i'] + 1}, {'i': 0})",
        "lax.while_loop(lambda c: c, lambda c: c, 1.0)", "lax.while_loop(lambda c: (c < 3,), lambda c: c + 1, 0)", "lax.while_loop(lambda c: c < 3, lambda c: (c,), 0)",
        "lax.while_loop(lambda c: c < f32(2), lambda c: c + 1, f32(2))", "lax.while_loop(lambda c: False, lambda c: c + 1, 0)", "lax.while_loop(1, lambda c: c, 0)",
        "lax.while_loop(lambda c: c.sum() < 50, lambda c: c * 2, f32(3, kind='pos'))", "jax.vmap(lambda x: lax.while_loop(lambda c: c < 10, lambda c: c * 2, x))(f32([1, 3, 20]))",
        "jax.jvp(lambda x: lax.while_loop(lambda c: c < 10, lambda c: c * x, x), (2.0,), (1.0,))", "jax.grad(lambda x: lax.while_loop(lambda c: c < 10, lambda c: c * x, x))(2.0)",
        "jax.jit(lambda x: lax.while_loop(lambda c: c[1] < 5, lambda c: (c[0] * x, c[1] + 1), (x, 0)))(2.0)", "lax.while_loop(lambda c: c < 3, lambda c: c + 1.0, i32())", "lax.while_loop(lambda c: c < 3, lambda c: 4.0, jnp.float32(1))",
        "jax.vmap(lambda n, x: lax.while_loop(lambda c: c[1] < n, lambda c: (c[0] + x, c[1] + 1), (0.0, 0)))(i32([1, 4]), f32(2))",
    ]),
    ("lax.map", [
        "lax.map(lambda d: d['a'] + d['b'], {'a': f32(3), 'b': i32(3)})", "lax.map(lambda x: {'s': x.sum(), 'x': x}, f32(3, 2))", "lax.map(lambda x: x, f32(5, 2), batch_size=2)",
        "lax.map(lambda x: (x * 2, 1), f32(5), batch_size=3)", "lax.map(lambda x: x, f32(4), batch_size=9)", "lax.map(lambda x: x, (f32(3), f32(2)))", "lax.map(lambda x: x, 2.0)",
        "lax.map(lambda x: None, f32(3))", "lax.map(3, f32(3))", "lax.map(lambda x: x, f32(0))", "jax.grad(lambda x: lax.map(jnp.sin, x).sum())(f32(3))",
    ]),
    ("lax.associative_scan", [
        "lax.associative_scan(jnp.maximum, f32(7))", "lax.associative_scan(jnp.matmul, f32(5, 2, 2))", "lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (f32(6), f32(6, s=1)))",
        "lax.associative_scan(jnp.add, f32(3, 4), axis=1)", "lax.associative_scan(jnp.add, f32(3, 4), axis=-1, reverse=True)", "lax.associative_scan(jnp.add, i32(1))", "lax.associative_scan(jnp.add, f32(0))",
        "lax.associative_scan(lambda a, b: {'k': a['k'] + b['k']}, {'k': f32(5)})", "lax.associative_scan(3, f32(3))", "lax.associative_scan(jnp.add, (f32(3), f32(2)))", "lax.associative_scan(jnp.add, f32())",
        "jax.vmap(lambda x: lax.associative_scan(jnp.add, x))(f32(2, 5))", "jax.jacfwd(lambda x: lax.associative_scan(jnp.multiply, x))(f32(4))",
    ]),
    ("lax.custom_root", [
        "jax.grad(lambda y: lax.custom_root(lambda x: x**2 - y, 1.0, lambda f, x: lax.fori_loop(0, 20, lambda i, v: v - f(v) / (2 * v), x), lambda g, y: y / g(1.0)))(4.0)",
    ]),
]

CASES = expressions(SECTION, DERIVATIVES + RULES + AXES + FLOW)
