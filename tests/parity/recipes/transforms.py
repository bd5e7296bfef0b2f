"""Transformations: derivatives, vectorisation, staging, callbacks, devices; values and errors."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import expressions

SECTION = "transforms"

SCALAR = [
    "sin", "cos", "tan", "arcsin", "arctan", "sinh", "cosh", "tanh", "arcsinh", "exp", "expm1",
    "log1p", "exp2", "sqrt", "cbrt", "square", "abs", "sign", "floor", "reciprocal", "log", "log2",
    "log10", "sinc", "i0",
]
REDUCE = [
    "sum", "prod", "max", "min", "mean", "var", "std", "median", "linalg.norm", "cumsum", "cumprod",
    "sort", "ptp", "nansum", "nanmean", "diff", "trapezoid",
]
SHAPES = [
    "jnp.reshape(x, (3, 2))", "x.T", "jnp.flip(x)", "jnp.roll(x, 1)", "jnp.pad(x, 1)",
    "jnp.concatenate([x, 2 * x])", "jnp.stack([x, x])", "x[::2]", "x[:, 1]",
    "x[jnp.array([1, 0, 1])]", "jnp.tile(x, 2)", "jnp.repeat(x, 2)",
    "jnp.broadcast_to(x, (2, 2, 3))", "jnp.squeeze(x[None])", "jnp.triu(x)",
    "jnp.where(x > 0, x, 0.5 * x)", "jnp.clip(x, -1, 1)", "jnp.maximum(x, 0)", "x.at[0].set(1.0)",
    "x.at[:, 1].add(2 * x[:, 0])", "x.at[0].multiply(x[1])",
    "jnp.take_along_axis(x, i32([[0], [1]]), 1)", "jnp.diagonal(x)", "x @ x.T",
    "jnp.einsum('ij,ik->jk', x, x)", "jnp.outer(x, x)", "jnp.kron(x, x)",
    "lax.stop_gradient(x) * x", "x.astype('bfloat16')", "jnp.split(x, 3, axis=1)[1]",
    "jnp.max(x, axis=1)", "jnp.logaddexp(x, 2 * x)", "x ** 3", "2.0 ** x", "jnp.arctan2(x, x + 3)",
    "jnp.hypot(x, x)", "lax.top_k(x, 2)[0]",
    "lax.reduce_window(x, -jnp.inf, lax.max, (1, 2), (1, 1), 'VALID')", "lax.cumlogsumexp(x, 1)",
    "jnp.mod(x, 0.7)",
]
NN = [
    "relu", "gelu", "silu", "softplus", "sigmoid", "elu", "selu", "celu", "leaky_relu",
    "log_sigmoid", "softmax", "log_softmax", "logsumexp", "mish", "hard_tanh", "relu6", "soft_sign",
    "squareplus", "standardize",
]
LAX = ["erf", "erfc", "logistic", "rsqrt", "lgamma", "digamma", "bessel_i0e", "bessel_i1e"]
LOOP = "lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * x, x)"
SCAN = "lambda x: lax.scan(lambda c, v: (c * v, c + v), 1.0, x)[1]"
COND = "lambda x: lax.cond(x.sum() > 0, lambda v: v**2, lambda v: -v, x)"
WHILE = "lambda x: lax.while_loop(lambda c: jnp.sum(c) < 100, lambda c: c * 2.0 + 1, x)"

GRADS = [
    ("jax.grad", [f"jax.grad(lambda x: jnp.sum(jnp.{f}(x)))(f32(5, kind='prob'))" for f in SCALAR]),
    ("jax.grad", [f"jax.grad(jax.grad(jnp.{f}))(0.37)" for f in SCALAR[:12]]),
    ("jax.grad", [
        f"jax.grad(lambda x: jnp.sum(jnp.{f}(x) * 1.5))(f32(6, kind='distinct') * 0.7 + 0.1)"
        for f in REDUCE
    ]),
    ("jax.grad", [f"jax.grad(lambda x: jnp.sum(jnp.cos({e})))(f32(2, 3))" for e in SHAPES]),
    ("jax.jvp", [f"jax.jvp(lambda x: {e}, (f32(2, 3),), (f32(2, 3, s=1),))" for e in SHAPES[::2]]),
    ("jax.vmap", [f"jax.vmap(lambda x: {e})(f32(4, 2, 3))" for e in SHAPES]),
    ("jax.grad", [f"jax.grad(lambda x: jnp.sum(nn.{f}(x) * f32(5, s=3)))(f32(5))" for f in NN]),
    ("jax.grad", [f"jax.grad(lambda x: jnp.sum(lax.{f}(x)))(f32(5, kind='pos'))" for f in LAX]),
    (
        "jax.grad",
        [f"jax.grad(lambda x: jnp.sum(({f})(x)))(f32(4, kind='prob'))" for f in (LOOP, SCAN, COND)],
    ),
    (
        "jax.jvp",
        [f"jax.jvp({f}, (f32(4, kind='prob'),), (f32(4),))" for f in (LOOP, SCAN, COND, WHILE)],
    ),
    ("jax.vmap", [f"jax.vmap({f})(f32(3, 4, kind='prob'))" for f in (LOOP, SCAN, COND, WHILE)]),
    ("jax.grad", [
        "jax.grad(lambda x: x**2)(3.0)", "jax.grad(lambda x: x**2)(3)",
        "jax.grad(lambda x: x * 2, allow_int=True)(3)", "jax.grad(lambda x: x)(f32(3))",
        "jax.grad(lambda x: 'a')(1.0)", "jax.grad(lambda x: (x, x))(1.0)",
        "jax.grad(lambda x: x.astype('int32'))(f32())",
        "jax.grad(lambda x, y: x * y, argnums=(0, 1))(2.0, 3.0)",
        "jax.grad(lambda x, y: x * y, argnums=1)(2.0, 3.0)",
        "jax.grad(lambda x, y: x * y, argnums=2)(2.0, 3.0)",
        "jax.grad(lambda x, y: x * y)(2.0, y=3.0)",
        "jax.grad(lambda x: (x**2, {'a': x}), has_aux=True)(2.0)",
        "jax.grad(lambda x: x**2, has_aux=True)(2.0)",
        "jax.grad(lambda p: p['w'] * p['b'][0])({'w': 2.0, 'b': [3.0]})",
        "jax.grad(lambda z: z**2, holomorphic=True)(1.0 + 2j)",
        "jax.grad(lambda z: z**2)(1.0 + 2j)", "jax.grad(lambda z: jnp.abs(z)**2)(c64([1 + 2j])[0])",
        "jax.grad(lambda z: jnp.real(z**2))(1.0 + 2j)", "jax.grad(lambda x: 3.0)(2.0)",
        "jax.grad(lambda x: jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0)))(f32([-1.0, 4.0]))",
        "jax.grad(lambda x: x if x > 0 else -x)(-2.0)",
        "jax.grad(lambda x: jnp.max(x))(f32([1, 1, 0]))", "jax.grad(jnp.abs)(0.0)",
        "jax.grad(jnp.linalg.norm)(f32([3.0, 4.0]))",
        "jax.grad(lambda x: jnp.linalg.det(x))(mat('f32', 3))",
        "jax.grad(lambda x: jnp.sum(jnp.linalg.inv(x)))(mat('f32', 3))",
        "jax.grad(lambda x: jnp.sum(jnp.linalg.solve(x, f32(3))))(mat('f32', 3))",
        "jax.grad(lambda x: jnp.sum(jnp.linalg.cholesky(x)))(spd('f32', 3))",
        "jax.grad(lambda x: jnp.sum(jnp.linalg.eigvalsh(x) * f32(3)))(spd('f32', 3))",
        "jax.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.fft(x))))(f32(5))",
        "jax.grad(lambda x: jnp.sum(jnp.convolve(x, f32(3))))(f32(6))",
        "jax.grad(lambda x: jnp.sum(lax.conv(x, f32(3, 2, 3), (1,), 'SAME') ** 2))(f32(1, 2, 6))",
        "jax.grad(lambda k: jnp.sum(lax.conv_general_dilated(f32(1, 2, 8), k, (2,), 'SAME', rhs_dilation=(2,)) ** 2))(f32(3, 2, 3))",
        "jax.grad(lambda x: jnp.sum(random.normal(key(1), (3,)) * x))(2.0)",
        "jax.grad(lambda x: lax.while_loop(lambda c: c < 10.0, lambda c: c * 2, x))(1.0)",
        "jax.grad(lambda x: jnp.sum(x))('a')", "jax.grad(lambda x: jnp.sum(x))([1.0, 2.0])",
        "jax.grad(5)(1.0)", "jax.grad(lambda x: x)", "jax.grad(jnp.sum)(b1(3))",
        "jax.grad(jnp.sum)(i32(3))", "jax.grad(lambda x: jnp.sum(x) * 2)(bf16(3))",
        "jax.grad(lambda x: jnp.prod(x))(f32([0.0, 2.0, 3.0]))",
        "jax.grad(lambda x: jnp.sum(x ** 2.0))(f32([0.0, 1.0]))",
        "jax.grad(lambda x: jnp.power(x, x))(2.0)",
        "jax.grad(jax.grad(jax.grad(lambda x: x**4)))(2.0)",
    ]),
    ("jax.value_and_grad", [
        "jax.value_and_grad(lambda x: x**2)(3.0)",
        "jax.value_and_grad(lambda x, y: (x * y, y), argnums=1, has_aux=True)(2.0, 3.0)",
        "jax.value_and_grad(lambda x: x)(f32(2))",
    ]),
    ("jax.jvp", [
        "jax.jvp(jnp.sin, (1.0,), (2.0,))", "jax.jvp(lambda x: x, (f32(3),), (f32(2),))",
        "jax.jvp(lambda x: x, (i32(3),), (np.zeros(3, jax.float0),))",
        "jax.jvp(lambda x: x, (f32(3),), (i32(3),))",
        "jax.jvp(lambda x, y: x * y, (1.0, 2.0), (3.0, 4.0))", "jax.jvp(lambda x: x, 1.0, 1.0)",
        "jax.jvp(lambda x: (x, 2 * x), (1.0,), (1.0,), has_aux=True)",
        "jax.jvp(lambda x, y: x, (1.0,), (1.0,))",
    ]),
    ("jax.vjp", [
        "jax.vjp(lambda x: x**2, 3.0)[1](1.0)",
        "jax.vjp(lambda x, y: x @ y, f32(2, 3), f32(3))[1](f32(2))",
        "jax.vjp(lambda x: (x, 2 * x), 3.0)[1]((1.0, 1.0))",
        "jax.vjp(lambda x: x, f32(3))[1](f32(2))", "jax.vjp(lambda x: x, f32(3))[1](i32(3))",
        "jax.vjp(lambda x: (x, x), 1.0)[1](1.0)", "jax.vjp(lambda x: (x, 5), 1.0, has_aux=True)[2]",
        "jax.vjp(lambda d: d['a'] * 2, {'a': f32(2)})[1](f32(2))",
    ]),
    ("jax.linearize", [
        "(lambda r: [r[0], r[1](2.0)])(jax.linearize(lambda x: x**3, 2.0))",
        "jax.linearize(jnp.sin, f32(3))[1](f32(3))", "jax.linearize(jnp.sin, f32(3))[1](f32(2))",
        "jax.linearize(lambda x, y: x * y, 2.0, 3.0)[1](1.0, 1.0)",
    ]),
    ("jax.linear_transpose", [
        "jax.linear_transpose(lambda x: 2 * x, f32(3))(f32(3, s=1))",
        "jax.linear_transpose(lambda x: x[::2], f32(5))(f32(3))",
        "jax.linear_transpose(lambda x: x * x, f32(3))(f32(3))",
        "jax.linear_transpose(lambda x: x + 1, f32(3))(f32(3))",
        "jax.linear_transpose(jnp.sum, f32(2, 3))(1.0)",
    ]),
    ("jax.jacfwd", [
        "jax.jacfwd(lambda x: x**2)(f32(3))",
        "jax.jacfwd(lambda x, y: x @ y, argnums=(0, 1))(f32(2, 3), f32(3))",
        "jax.jacfwd(lambda x: {'a': x, 'b': x.sum()})(f32(2))", "jax.jacfwd(lambda x: x)(i32(3))",
        "jax.jacfwd(lambda x: (x**2, x), has_aux=True)(f32(2))",
    ]),
    ("jax.jacrev", [
        "jax.jacrev(lambda x: x**2)(f32(3))",
        "jax.jacrev(lambda x, y: x @ y, argnums=(0, 1))(f32(2, 3), f32(3))",
        "jax.jacrev(lambda x: {'a': x, 'b': x.sum()})(f32(2))", "jax.jacrev(lambda x: x)(i32(3))",
    ]),
    ("jax.jacobian", ["jax.jacobian(lambda x: x**3)(f32(2))"]),
    ("jax.hessian", [
        "jax.hessian(lambda x: jnp.sum(x**3))(f32(3))",
        "jax.hessian(lambda x, y: jnp.sum(x * y), argnums=(0, 1))(f32(2), f32(2))",
        "jax.hessian(lambda p: p['a']**2 * p['b'])({'a': 2.0, 'b': 3.0})",
    ]),
    ("jax.custom_jvp", [
        "(lambda f: (f.defjvps(lambda t, ans, x: 7.0 * t), jax.grad(f)(2.0))[1])(jax.custom_jvp(lambda x: x * 2))",
        "jax.grad(jax.custom_jvp(lambda x: x * 2))(2.0)",
        "(lambda f: (f.defjvp(lambda p, t: (f(*p), 5.0 * t[0])), jax.vmap(jax.grad(f))(f32(3)))[1])(jax.custom_jvp(lambda x: x * 2))",
    ]),
    ("jax.custom_vjp", [
        "(lambda f: (f.defvjp(lambda x: (f(x), x), lambda r, g: (9.0 * g * r,)), jax.grad(f)(2.0))[1])(jax.custom_vjp(lambda x: x * 2))",
        "jax.custom_vjp(lambda x: x * 2)(2.0)",
        "(lambda f: (f.defvjp(lambda x: (f(x), x), lambda r, g: (g, g)), jax.grad(f)(2.0))[1])(jax.custom_vjp(lambda x: x * 2))",
        "(lambda f: (f.defvjp(lambda x: (f(x), x), lambda r, g: (g,)), jax.jvp(f, (2.0,), (1.0,)))[1])(jax.custom_vjp(lambda x: x * 2))",
    ]),
    (
        "jax.custom_gradient",
        ["jax.grad(jax.custom_gradient(lambda x: (x**2, lambda g: (g * x,))))(3.0)"],
    ),
    ("jax.checkpoint", [
        "jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))))(1.0)",
        "jax.grad(jax.checkpoint(lambda x, n: x**n, static_argnums=1))(2.0, 3)",
        "jax.grad(jax.checkpoint(jnp.sin, policy=jax.checkpoint_policies.everything_saveable))(1.0)",
    ]),
    ("jax.remat", ["jax.grad(jax.remat(jnp.sin))(1.0)"]),
    ("jax.closure_convert", ["jax.closure_convert(lambda x: x * 2, 1.0)[0](3.0)"]),
    ("jax.fwd_and_bwd", ["jax.fwd_and_bwd(lambda x: x**2, 0)[0](3.0)[0]"]),
]
VMAP = [
    ("jax.vmap", [
        "jax.vmap(lambda x: x + 1)(f32(3))", "jax.vmap(jnp.add, in_axes=(0, None))(f32(3), 2.0)",
        "jax.vmap(jnp.dot, in_axes=(1, 0))(f32(3, 2), f32(2, 3))",
        "jax.vmap(jnp.sum, in_axes=-1)(f32(2, 3))", "jax.vmap(lambda x: x, out_axes=1)(f32(3, 2))",
        "jax.vmap(lambda x: (x, 1), out_axes=(0, None))(f32(3))",
        "jax.vmap(lambda x: x, out_axes=None)(f32(3))",
        "jax.vmap(lambda d: d['a'] * d['b'], in_axes=({'a': 0, 'b': None},))({'a': f32(3), 'b': 2.0})",
        "jax.vmap(lambda x: x)(2.0)", "jax.vmap(lambda x, y: x)(f32(3), f32(2))",
        "jax.vmap(lambda x: x, in_axes=1)(f32(3))", "jax.vmap(lambda x: x, in_axes=None)(f32(3))",
        "jax.vmap(lambda x: x, in_axes='a')(f32(3))",
        "jax.vmap(lambda x, y: x, in_axes=(0,))(f32(3), f32(3))", "jax.vmap(lambda: 1)()",
        "jax.vmap(lambda: 1, axis_size=3)()", "jax.vmap(lambda x: x, axis_size=4)(f32(3))",
        "jax.vmap(lambda x, y=2: x * y)(f32(3), y=f32(3))",
        "jax.vmap(jax.vmap(jnp.add, (None, 0)), (0, None))(f32(2), f32(3))",
        "jax.vmap(jnp.matmul)(f32(4, 2, 3), f32(4, 3))",
        "jax.vmap(lambda x, i: x[i])(f32(3, 4), i32([0, 3, 9]))",
        "jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,)))(f32(3, 4), i32([0, 1, 9]))",
        "jax.vmap(lambda x, i: x.at[i].set(0.0))(f32(3, 4), i32([0, 3, 9]))",
        "jax.vmap(lambda k: random.normal(k, (2,)))(random.split(key(), 3))",
        "jax.vmap(lambda k: random.split(k))(random.split(key(), 3))",
        "jax.vmap(jnp.sort)(f32(3, 4))", "jax.vmap(jnp.argmax)(f32(3, 4))",
        "jax.vmap(lambda x: jnp.linalg.solve(x, f32(2)))(mat('f32', 2, batch=3))",
        "jax.vmap(lambda x: jnp.where(x > 0, x, -x))(f32(3))",
        "jax.vmap(lambda x: x if x > 0 else -x)(f32(3))",
        "jax.vmap(lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x))(f32(3))",
        "jax.vmap(lambda n: lax.fori_loop(0, n, lambda i, c: c + i, 0))(i32([1, 3, 5]))",
        "jax.vmap(lambda x: lax.conv(x, f32(3, 2, 3), (1,), 'SAME'))(f32(2, 1, 2, 6))",
        "jax.vmap(lambda x, k: lax.conv(x, k, (1,), 'SAME'))(f32(2, 1, 2, 6), f32(2, 3, 2, 3))",
        "jax.vmap(lambda x: x * 2)(f32(0, 2))", "jax.vmap(lambda x: 'a')(f32(3))", "jax.vmap(5)",
        "jax.vmap(jnp.fft.fft)(f32(2, 4))",
        "jax.vmap(lambda x: lax.switch(x, [lambda: 1, lambda: 2, lambda: 3]))(i32([0, 2, 1]))",
        "jax.vmap(lambda x: jnp.interp(x, f32([0, 1]), f32([1, 3])))(f32(3))",
    ]),
]
STAGE = [
    ("jax.jit", [
        "jax.jit(lambda x: x + 1)(f32(3))",
        "jax.jit(lambda x, n: x * n, static_argnums=1)(f32(3), 2)",
        "jax.jit(lambda x, n: x * n, static_argnames='n')(f32(3), n=2)",
        "jax.jit(lambda x, n: x * n, static_argnums=1)(f32(3), [2])",
        "jax.jit(lambda x: x if x > 0 else -x)(2.0)", "jax.jit(lambda x: float(x))(2.0)",
        "jax.jit(lambda x: int(x))(2)", "jax.jit(lambda x: np.asarray(x))(f32(2))",
        "jax.jit(lambda x: x[x > 0])(f32(3))", "jax.jit(lambda n: jnp.zeros(n))(3)",
        "jax.jit(lambda x: x.reshape(jnp.array(x.shape).prod()))(f32(2, 3))",
        "jax.jit(lambda x: jnp.arange(x))(3)", "jax.jit(lambda x: range(x))(3)",
        "jax.jit(lambda x: [1, 2][x])(1)", "jax.jit(lambda x: x)('a')",
        "jax.jit(lambda x: 'a')(1.0)", "jax.jit(lambda x: None)(1.0)",
        "jax.jit(lambda d: {'s': d['a'] + 1, 'd': d['b']})({'a': 1, 'b': f32(2)})",
        "jax.jit(lambda x: x)(2)", "jax.jit(lambda x: x)(2.5)", "jax.jit(lambda x: x)(True)",
        "jax.jit(lambda x: x + 1)(w(2))", "jax.jit(lambda x: (x, x, 3))(f32(2))", "jax.jit(5)",
        "jax.jit(lambda x: x, static_argnums=3)(1.0)",
        "jax.jit(lambda x: x, static_argnames='zz')(1.0)",
        "jax.jit(lambda x: jax.jit(lambda y: y * 2)(x) + 1)(f32(2))",
        "jax.jit(lambda x: len(x))(f32(3))", "jax.jit(lambda x: str(x))(f32(3))",
        "jax.jit(lambda x: [v * 2 for v in x])(f32(3))",
        "jax.jit(lambda x: jnp.nonzero(x))(f32(3))", "jax.jit(lambda x: jnp.unique(x))(f32(3))",
        "jax.jit(lambda x: jnp.unique(x, size=2))(i32(3))", "jax.jit(lambda x: x.tolist())(f32(3))",
        "jax.jit(lambda x: x.item())(f32())", "jax.jit(lambda k: random.normal(k, (2,)))(key(3))",
        "jax.jit(lambda *a, **k: a[0] + k['z'])(1, z=2)",
        "jax.jit(lambda x: lax.scan(lambda c, v: (c + v, c), 0.0, x))(f32(4))",
        "jax.jit(lambda x: jnp.sum(x, axis=x))(1)", "jax.jit(lambda x: {x: 1})(1)",
        "jax.jit(jnp.linalg.svd, static_argnames='compute_uv')(f32(2, 2), compute_uv=False)",
        "jax.jit(lambda x: jnp.repeat(x, x.astype('int32')))(f32([1, 2]))",
    ]),
    ("jax.eval_shape", [
        "jax.eval_shape(lambda x: x @ x.T, f32(2, 3))",
        "jax.eval_shape(jnp.sum, jax.ShapeDtypeStruct((2, 3), jnp.float32))",
        "jax.eval_shape(lambda x: {'a': x, 'b': 1}, 2.0)",
        "jax.eval_shape(jnp.dot, f32(2), f32(3))",
    ]),
    ("jax.ShapeDtypeStruct", [
        "jax.ShapeDtypeStruct((2, 3), 'float32')",
        "jax.ShapeDtypeStruct((2,), jnp.bfloat16) == jax.ShapeDtypeStruct((2,), jnp.bfloat16)",
        "jax.ShapeDtypeStruct((2,), None)", "jax.ShapeDtypeStruct((2, 3), int).size",
        "jax.ShapeDtypeStruct((2, 3), int).dtype", "len(jax.ShapeDtypeStruct((2, 3), int))",
    ]),
    ("jax.make_jaxpr", [
        "jax.make_jaxpr(lambda x: x, return_shape=True)(f32(3))[1]",
        "len(jax.make_jaxpr(lambda x: x + 1)(1.0).eqns)",
        "jax.make_jaxpr(lambda x: x + 1)(1.0).jaxpr.eqns[0].primitive.name",
        "jax.make_jaxpr(lambda x: x)('a')",
        "[str(v.aval) for v in jax.make_jaxpr(lambda x: x + 1)(f32(3)).jaxpr.invars]",
    ]),
    (
        "jax.typeof",
        ["jax.typeof(f32(3))", "jax.typeof(2.0)", "str(jax.typeof(w(2)))", "jax.typeof('a')"],
    ),
    ("jax.device_put", [
        "jax.device_put(np.ones((2, 3)))", "jax.device_put(2.0)",
        "jax.device_put({'a': [1, f32(2)]})", "jax.device_put('a')",
        "jax.device_put(f32(2), jax.devices()[0])",
    ]),
    (
        "jax.device_get",
        ["jax.device_get(f32(2))", "jax.device_get({'a': f32(2), 'b': 3})", "jax.device_get('a')"],
    ),
    ("jax.block_until_ready", ["jax.block_until_ready((f32(2), 1))", "jax.block_until_ready('a')"]),
    ("jax.devices", [
        "len(jax.devices())", "jax.devices()[0].platform", "jax.devices('nonsense')",
        "jax.device_count()", "jax.local_device_count()", "jax.process_index()",
        "jax.process_count()", "jax.default_backend()", "jax.devices()[0].id",
        "str(jax.devices()[0])", "repr(jax.devices()[0])",
    ]),
    ("jax.pure_callback", [
        "jax.pure_callback(lambda x: np.asarray(x) * 2, f32(3), f32(3))",
        "jax.jit(lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((3,), 'float32'), x))(f32(3))",
        "jax.vmap(lambda x: jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct((), 'float32'), x, vmap_method='sequential'))(f32(3))",
    ]),
    ("jax.ensure_compile_time_eval", [
        "(lambda c: (c.__enter__(), f32(2) + 1, c.__exit__(None, None, None))[1])(jax.ensure_compile_time_eval())"
    ]),
    ("jax.named_call", ["jax.named_call(lambda x: x + 1, name='n')(1.0)"]),
    ("jax.disable_jit", [
        "(lambda c: (c.__enter__(), jax.jit(lambda x: x if x > 0 else -x)(-2.0), c.__exit__(None, None, None))[1])(jax.disable_jit())"
    ]),
    ("jax.pmap", [
        "jax.pmap(lambda x: x + 1)(f32(1, 3))",
        "jax.pmap(lambda x: lax.psum(x, 'i'), axis_name='i')(f32(1, 3))",
        "jax.pmap(lambda x: x)(f32(9, 3))", "jax.pmap(lambda x: x)(2.0)",
    ]),
    ("jax.live_arrays", ["isinstance(jax.live_arrays(), list)"]),
    ("jax.config", [
        "jax.config.update('nonsense', 1)", "jax.config.jax_enable_x64", "jax.config.nonsense",
        "jax.config.read('jax_enable_x64')",
    ]),
    ("jax.errors", [
        f"[c.__name__ for c in jax.errors.{e}.__mro__ if c.__name__[0] != '_']"
        for e in "ConcretizationTypeError TracerArrayConversionError TracerBoolConversionError TracerIntegerConversionError NonConcreteBooleanIndexError UnexpectedTracerError KeyReuseError JaxRuntimeError".split()
    ]),
    ("jax.new_ref", [
        "(lambda r: (r.__setitem__(0, 5.0), r[...])[1])(jax.new_ref(f32(3)))",
        "jax.new_ref(f32(3))[0]", "jax.freeze(jax.new_ref(f32(2)))", "str(jax.new_ref(i32(3)))",
        "jax.new_ref([1, 2])", "jax.new_ref(f32(3)).__setitem__(0, 1)", "jax.new_ref(f32(3))[3]",
        "jax.new_ref(f32(3)).__setitem__(slice(2), 1.0)", "jax.new_ref(f32(3)) + 1",
        "(lambda r: (jax.jit(lambda r, x: r.__setitem__(0, x))(r, 5.0), r[...])[1])(jax.new_ref(f32(3)))",
        "(lambda r: (jax.jit(lambda x: r.__setitem__(0, x))(5.0), r[...])[1])(jax.new_ref(f32(3)))",
        "(lambda r: jax.jit(lambda a, b: a[0] + b[0])(r, r))(jax.new_ref(f32(3)))",
        "jax.jit(lambda: jax.new_ref(f32(3)))()",
        "(lambda r: (lax.scan(lambda c, x: (c, jax.ref.addupdate(r, 0, x)), 0, f32(4)), r[...])[1])(jax.new_ref(f32(3)))",
        "jax.grad(lambda x: (lambda r: (lax.fori_loop(0, 2, lambda i, c: r.__setitem__(..., r[...] * x), None), r[...])[1])(jax.new_ref(x)))(2.0)",
    ]),
    ("jax.ref.swap", ["(lambda r: (jax.ref.swap(r, 0, 5.0), r[...]))(jax.new_ref(f32(3)))"]),
    ("jax.ref.get", ["jax.ref.get(jax.new_ref(f32(3)), 1)", "jax.ref.get(f32(3), 1)"]),
    ("jax.ref.set", ["(lambda r: (jax.ref.set(r, 0, 5.0), r[...])[1])(jax.new_ref(f32(3)))"]),
    ("jax.ref.addupdate", [
        "(lambda r: (jax.ref.addupdate(r, np.array([1, 1]), f32(2)), r[...])[1])(jax.new_ref(f32(3)))",
        "jax.ref.addupdate(jax.new_ref(f32(3)), 0, 1)",
    ]),
    ("jax.flatten_util", [
        "__import__('importlib').import_module(jax.__name__ + '.flatten_util').ravel_pytree({'a': f32(2), 'b': i32(2, 2)})[0]",
        "(lambda r: r[1](r[0] * 2))(__import__('importlib').import_module(jax.__name__ + '.flatten_util').ravel_pytree([f32(2), (f32(1, 2),)]))",
    ]),
    ("jax.image.resize", [
        f"jax.image.resize(f32(4, 5), (6, 3), '{m}')"
        for m in ("nearest", "linear", "cubic", "lanczos3", "odd")
    ]
    + [
        "jax.image.resize(f32(4, 5), (2, 5), 'linear', antialias=False)",
        "jax.image.resize(f32(4), (2, 2), 'linear')",
    ]),
]

CASES = expressions(SECTION, GRADS + VMAP + STAGE)
