"""The rest of `jax.scipy`, `jax.image`, `flatten_util`, `experimental.ode` and `checkify`.

Factors that are unique only up to signs are compared through what they reproduce.
"""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import Case, calls, expressions, over

LINALG = [
    ("block_diag", ["c64(1, 2), f32(2, 1), i32(1)", "f32(0, 2), f32(1, 1)", "[1.0], 2.0"]),
    ("cholesky", ["i32([[4, 1], [1, 3]])", "spd('f32', 3, 2), lower=True", "f32(3)"]),
    ("cho_factor", ["i32([[4, 1], [1, 3]])", "spd('c64', 3)", "f32(2, 3)"]),
    ("cho_solve", [
        "(jnp.linalg.cholesky(spd('c64', 3)), True), f32(3)", "(spd('f32', 3), True), f32(2)",
        "(spd('f32', 3), False), f32(2, 3, 2)",
    ]),
    ("circulant", ["c64(3)", "[1, 2]", "f32(0)", "3.0"]),
    ("companion", ["i32([2, 4, 6])", "c64(3)", "f32(2, 3, kind='pos')", "3.0"]),
    ("convolution_matrix", ["i32(3), 2", "f32(2, 3), 4", "c64(3), 2, 'valid'", "f32(3), 0", "f32(0), 2"]),
    ("det inv", [*over("c64 i32", "mat('D', 3)"), "mat('f32', 3, batch=2)", "f32(3)", "mat('f32', 5)"]),
    ("dft", ["1", "0", "7, 'odd'", "4, dtype='complex64'", "4, dtype='float32'"]),
    ("expm", ["mat('f32', 3) * 20", "jnp.zeros((2, 2))", "f32(2, 3, 3)", "bf16(2, 2)", "mat('f32', 2) * 1e9", "f32()"]),
    ("expm_frechet", [
        "mat('f32', 3), f32(3, 3), method='blockEnlarge'", "mat('f32', 3), f32(2, 2)",
        "f32(2, 3), f32(2, 3)",
    ]),
    ("fiedler fiedler_companion", ["i32([3, 1, 2, 5, 4])", "f32(2, 4, kind='pos')", "f32(0)"]),
    ("hadamard", ["2, dtype='complex64'", "16", "-4", "0"]),
    ("hankel toeplitz", ["f32(2, 3)", "f32(2, 3), f32(2)", "[1, 2]", "3.0"]),
    ("helmert", ["2", "5", "0", "1"]),
    ("hilbert", ["5", "0", "-1"]),
    ("invhilbert", ["2", "4", "0"]),
    ("pascal", ["2, 'odd'", "0"]),
    ("invpascal", ["2", "3", "2, 'odd'"]),
    ("leslie", ["i32(4), i32(3)", "f32(2, 3), f32(2)", "f32(1), f32(0)", "[1.0], [2.0]"]),
    ("lu", ["f32(2, 3)", "mat('c64', 3)", "i32([[1, 2], [3, 4]])", "f32(3)"]),
    ("lu_factor", ["i32([[1, 2], [3, 4]])", "f32(2, 3)", "mat('f32', 3, batch=2)"]),
    ("lu_solve", [
        "scipy.linalg.lu_factor(mat('c64', 3)), c64(3), trans=2",
        "scipy.linalg.lu_factor(mat('f32', 3)), f32(3), trans=3",
        "scipy.linalg.lu_factor(mat('f32', 3)), f32(2)",
        "scipy.linalg.lu_factor(mat('f32', 3, batch=2)), f32(2, 3)",
    ]),
    ("polar", [
        "mat('f32', 4, 2)", "mat('c64', 3)", "mat('f32', 2, 4), method='svd'", "f32(3)",
        "mat('f32', 3), 'odd'", "mat('f32', 3), method='odd'", "mat('f32', 2, 4), side='left'",
    ]),
    ("solve", [
        "mat('c64', 3), f32(3)", "mat('f32', 3, batch=2), f32(3)", "mat('f32', 3), f32(2)",
        "spd('c64', 3), c64(3), assume_a='pos', lower=True",
    ]),
    ("solve_triangular", [
        "spd('f32', 3), f32(3), trans='T'", "spd('f32', 3), f32(3), trans=5",
        "spd('f32', 3), f32(2)", "jnp.stack([spd('f32', 3)] * 2), f32(2, 3)",
    ]),
    ("solve_sylvester", [
        "spd('f32', 3), spd('f32', 2), f32(3, 2), method='eigen'", "spd('c64', 3), spd('c64', 2), c64(3, 2)",
        "jnp.eye(2), -jnp.eye(2), f32(2, 2)", "spd('f32', 3), f32(2, 3), f32(3, 2)",
        "spd('f32', 3), spd('f32', 2), f32(3, 2), method='odd'",
    ]),
    ("sqrtm", ["spd('c64', 3)", "jnp.diag(f32([4.0, 0.0]))", "i32([[4, 0], [0, 9]])", "f32(2, 3)", "spd('f32', 3), 2"]),
    ("funm", ["spd('c64', 3), jnp.square", "spd('f32', 3), jnp.sin", "spd('f32', 3), jnp.exp, False", "f32(2, 3), jnp.exp"]),
    ("qr", ["mat('f32', 3), mode='odd'", "mat('f32', 2, 4)", "i32([[1, 2], [3, 4]])", "mat('f32', 3), pivoting=True"]),
    ("qr_multiply", [
        "mat('f32', 3), f32(3)", "mat('f32', 4, 2), f32(2, 3), 'left'", "mat('f32', 3), f32(2)",
        "mat('f32', 3), f32(3), 'odd'", "mat('c64', 3), c64(3), conjugate=True",
    ]),
    ("svd", ["mat('f32', 2, 4), compute_uv=False", "i32([[1, 2], [3, 4]]), compute_uv=False", "f32(3)", "mat('c64', 3), compute_uv=False"]),
    ("eigh", ["spd('c64', 3), eigvals_only=True", "f32(2, 3)", "spd('f32', 3), type=2", "spd('f32', 3), eigvals=(0, 1)"]),
    ("eigh_tridiagonal", [
        "f32(9), f32(8), eigvals_only=True", "f32(3), f32(3)", "i32(3), i32(2)", "f32(3), c64(2)",
        "f32(4), f32(3), eigvals_only=True, select='i', select_range=(2, 1)",
        "f32(4), f32(3), eigvals_only=True, select='odd'", "c64(4) * 0 + 1, c64(3), eigvals_only=True",
    ]),
    ("hessenberg", ["mat('f32', 4)", "mat('c64', 3)", "f32(2, 3)", "mat('f32', 2)"]),
    ("rsf2csf", ["mat('f32', 3), jnp.eye(2)", "f32(3), f32(3)", "jnp.triu(mat('f32', 3, batch=2)), jnp.stack([jnp.eye(3)] * 2)"]),
]
FACTORS = [
    ("scipy.linalg.schur", [
        "(lambda t, z: z @ t @ z.T)(*scipy.linalg.schur(mat('f32', 4)))",
        "(lambda t, z: z @ t @ jnp.conj(z).T)(*scipy.linalg.schur(mat('f32', 4), output='complex'))",
        "scipy.linalg.schur(mat('f32', 3), output='odd')", "scipy.linalg.schur(i32(2, 2))",
    ]),
    ("scipy.linalg.rsf2csf", [
        "(lambda t, z: z @ t @ jnp.conj(z).T)(*scipy.linalg.rsf2csf(*scipy.linalg.schur(mat('f32', 5))))",
        "jnp.diag(scipy.linalg.rsf2csf(*scipy.linalg.schur(mat('f32', 5)))[0])",
    ]),
    ("scipy.linalg.eigh", [
        "(lambda w, v: v * w @ v.T)(*scipy.linalg.eigh(spd('f32', 4)))",
        "(lambda w, v: [w, v * w @ v.T])(*scipy.linalg.eigh(spd('f32', 4), lower=False))",
    ]),
    ("scipy.linalg.eigh_tridiagonal", [
        "(lambda w, v: [w, v * w @ v.T])(*scipy.linalg.eigh_tridiagonal(f32(5), f32(4)))",
    ]),
    ("scipy.linalg.hessenberg", [
        "(lambda h, q: q @ h @ q.T)(*scipy.linalg.hessenberg(mat('f32', 4), calc_q=True))",
    ]),
    ("scipy.linalg.svd", [
        "(lambda u, s, v: [s, u * s @ v])(*scipy.linalg.svd(mat('f32', 3)))",
        "type(scipy.linalg.svd(mat('f32', 3))).__name__",
    ]),
    ("scipy.linalg.qr", [
        "(lambda q, r: [q.shape, q @ r])(*scipy.linalg.qr(mat('f32', 4, 2)))",
        "len(scipy.linalg.qr(mat('f32', 4, 2), mode='r'))",
    ]),
    ("jax.grad", [
        "jax.grad(lambda a: scipy.linalg.expm(a).sum())(mat('f32', 3))",
        "jax.grad(lambda a, b: scipy.linalg.solve(a, b, assume_a='pos').sum())(spd('f32', 3), f32(3))",
        "jax.grad(lambda a: scipy.linalg.toeplitz(a).prod())(f32(3))",
        "jax.jacfwd(lambda a: scipy.linalg.polar(a)[0])(mat('f32', 3))",
        "jax.jit(scipy.linalg.expm)(mat('f32', 3))",
        "jax.vmap(scipy.linalg.expm)(f32(2, 3, 3))",
    ]),
]
SIGNAL = [
    ("convolve correlate", ["f32(3), f32(0)", "bf16(5), bf16(2)", "b1(4), b1(2)", "f32(3, 4), f32(4, 3), 'valid'", "f32(4), c64(2), 'same'"]),
    ("convolve correlate", ["f32(4), f32(2), method='odd'", "f32(6), f32(4), 'same', 'fft'"]),
    ("convolve2d correlate2d", ["c64(3, 4), c64(2, 2)", "c64(2, 2), c64(3, 4), 'valid'", "f32(4, 4), f32(4, 4), 'same'", "f32(2, 5), f32(5, 2), 'valid'"]),
    ("fftconvolve", ["i32(4), i32(3)", "f32(3), f32(2, 2)", "f32(3, 4), f32(2, 4), axes=0", "f32(3, 4), f32(2, 2), axes=0", "f32(4), f32(0)", "f32(3), f32(5), 'valid'", "f32(3, 3), f32(3, 3), axes=5"]),
    ("detrend", ["i32(6)", "c64(6)", "f32(9), bp=[2, 5]", "f32(4), bp=9", "f32(4), axis=3", "f32(3, 4), axis=0"]),
    ("stft", [
        "c64(32), nperseg=8", "f32(2, 32), nperseg=8", "f32(32, 2), nperseg=8, axis=0", "f32(32), nperseg=8, detrend='linear'",
        "f32(32), nperseg=8, boundary='odd'", "f32(32), nperseg=8, boundary='bad'", "f32(32), nperseg=9, nfft=16", "f32(32), nperseg=8, return_onesided=False",
    ]),
    ("istft", [
        "scipy.signal.stft(f32(32), nperseg=9)[2], nperseg=9, nfft=9", "scipy.signal.stft(f32(32), nperseg=8)[2], boundary=False", "f32(5)",
        "c64(5, 3), time_axis=0, freq_axis=0", "c64(5, 3), nfft=2", "c64(8, 3), input_onesided=False", "c64(5, 3), noverlap=8",
        "scipy.signal.stft(f32(2, 32), nperseg=8)[2], nperseg=8",
    ]),
    ("welch", ["c64(32), nperseg=8", "f32(32, 2), nperseg=8, axis=0", "f32(32), nperseg=8, average='median'", "f32(32), 4.0, 'hamming', 8", "i32(32), nperseg=8", "f32(32), nperseg=8, average='odd'", "f32(32), nperseg=64"]),
    ("csd", [
        "f32(32), None, nperseg=8", "f32(32), f32(30), nperseg=8", "f32(3, 32), f32(1, 32), nperseg=8", "f32(3, 32), f32(2, 32), nperseg=8",
        "f32(32), f32(32, s=1), nperseg=8, scaling='odd'", "f32(32), f32(32, s=1), nperseg=8, average='median'",
        "f32(32), f32(32, s=1), window=np.ones(4)", "f32(32), f32(32, s=1), nperseg=8, nfft=4", "f32(0), f32(0)",
    ]),
]
COSINES = [
    *over("f32 i32 bf16 c64", "D(6)"), "f32(1)", "f32(2, 4), axis=0", "f32(6), n=4", "f32(6), n=9", "f32(5), norm='ortho'",
    "f32(6), norm='forward'", "f32(6), type=3", "f32()", "f32(6), axis=2", "[1.0, 2.0]",
]
COSINES_ND = [
    *over("f32 i32", "D(3, 4)"), "f32(2, 3, 4), axes=(0, 2)", "f32(3, 4), s=(2, 6)", "f32(3, 4), norm='ortho'",
    "f32(3, 4), axes=(0, 0)", "f32(3, 4), type=1", "f32(3, 4), axes=1",
]
PLACES = "[f32(6, kind='big') / 9, f32(6, kind='big', s=1) / 9]"
REST = [
    ("scipy.fft.", [("dct idct", COSINES), ("dctn idctn", COSINES_ND)]),
    ("scipy.integrate.", [("trapezoid", ["f32(5)", "i32(5)", "f32(2, 5), f32(5)", "f32(2, 5), axis=0, dx=0.5", "f32(5), f32(4)", "c64(4)"])]),
    ("scipy.cluster.vq.", [("vq", ["f32(5, 2), f32(3, 2)", "f32(5), f32(3)", "i32(5, 2), f32(3, 2)", "f32(5, 2), f32(3, 3)", "f32(5), f32(3, 1)", "f32(2, 2, 2), f32(2, 2, 2)"])]),
    ("scipy.ndimage.", [("map_coordinates", [
        *[f"f32(4, 5), {PLACES}, {o}, mode='{m}', cval=2.0" for o in (0, 1) for m in ("constant", "nearest", "wrap", "mirror", "reflect")],
        f"i32(4, 5), {PLACES}, 1", f"c64(4, 5), {PLACES}, 1", f"f32(4, 5), {PLACES}, 2", f"f32(4, 5), {PLACES}, 1, mode='odd'",
        "f32(4, 5), [f32(3)], 1", "f32(4), [i32(3, kind='index')], 0", "f32(4), [3.0], 1", "f32(4), [[0.5, 1.0]], 1",
    ])]),
    ("scipy.sparse.linalg.", [
        ("cg bicgstab gmres", [
            "spd('f32', 5), f32(5), tol=1e-6", "lambda x: spd('f32', 5) @ x, f32(5), f32(5, s=1), tol=1e-6", "spd('c64', 4), c64(4), tol=1e-6",
            "f32(2, 3), f32(2)", "'a', f32(2)", "spd('f32', 3), f32(3), f32(2)", "spd('f32', 3), f32(3), [f32(3)]", "spd('f32', 3), jnp.zeros(3)",
            "lambda d: {'a': spd('f32', 4) @ d['a']}, {'a': f32(4)}, tol=1e-6", "spd('f32', 5), f32(5), M=jnp.diag(1 / jnp.diag(spd('f32', 5))), tol=1e-6",
        ]),
        ("cg", ["spd('f32', 5), f32(5), maxiter=0"]),
        ("gmres", ["spd('f32', 5), f32(5), solve_method='odd'", "spd('f32', 5), f32(5), solve_method='incremental', tol=1e-6", "mat('f32', 5), f32(5), tol=1e-6, restart=5"]),
    ]),
    ("jax.image.", [
        ("resize", [
            *[f"f32(4, 5), {s}, '{m}', antialias={a}" for m in ("nearest", "linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area") for s in ("(6, 3)", "(2, 9)") for a in (True, False)],
            "i32(4, 5), (2, 3), 'linear'", "i32(4, 5), (2, 3), 'nearest'", "c64(4, 5), (2, 3), 'linear'", "f32(4, 5, 3), (2, 3), 'linear'", "f32(4, 5), (2, 3), 'odd'", "f32(4, 5), (0, 3), 'linear'",
        ]),
        ("scale_and_translate", [
            *[f"f32(4, 5), (6, 5), (0,), f32([1.3]), f32([0.4]), '{m}', {a}" for m in ("linear", "cubic", "lanczos3", "area") for a in (True, False)],
            "f32(4, 5), (3, 3), (0, 1), f32([0.5, 2.0]), f32([0.4, -1.0]), 'linear'", "f32(4, 5), (3, 5), (0,), f32([0.5]), f32([0.4]), 'nearest'", "f32(4, 5), (3, 5), (0,), f32([0.5, 1]), f32([0.4]), 'linear'",
            "f32(4, 5), (3, 5), (7,), f32([0.5]), f32([0.4]), 'linear'", "f32(4, 5), (4, 3), (-1,), f32([0.5]), f32([0.4]), 'linear'",
        ]),
    ]),
]
ROTATION = "module('scipy.spatial.transform').Rotation"
FROM = ["from_quat(f32(5, 4))", "from_rotvec(f32(3))", "from_euler('zyx', f32(4, 3))", "from_mrp(f32(2, 3))", "from_matrix(jnp.linalg.qr(mat('f32', 3))[0] * jnp.sign(jnp.linalg.det(jnp.linalg.qr(mat('f32', 3))[0])))"]
GET = ["as_matrix()", "as_quat(canonical=True)", "as_rotvec()", "as_mrp()", "as_euler('xyz')", "as_euler('ZXZ', degrees=True)", "inv().as_matrix()", "magnitude()", "apply(f32(3))", "apply(f32(3), inverse=True)"]
MINIMIZE = "(lambda r: [r.x, r.success, r.status])(module('scipy.optimize').minimize({}))"
QUADRATIC = "lambda x: ((x - jnp.arange(3.0)) ** 2 * jnp.array([1.0, 3.0, 9.0])).sum()"
GRID = "scipy.interpolate.RegularGridInterpolator((f32([0, 1, 3, 4]), f32([-1, 0, 2])), f32(4, 3)"
ODE = "module('experimental.ode').odeint"
CHECK = "module('experimental.checkify')"
POSITIVE = f"lambda x: ({CHECK}.check((x > 0).all(), 'x is {{}}', x), jnp.log(x))[1]"
EXPRESSIONS = [
    ("scipy.spatial.transform.Rotation", [f"{ROTATION}.{f}.{g}" for f in FROM for g in GET]),
    ("scipy.spatial.transform.Rotation", [
        f"({ROTATION}.from_rotvec(f32(3)) * {ROTATION}.from_rotvec(f32(3, s=1))).as_matrix()", f"len({ROTATION}.from_quat(f32(5, 4)))", f"len({ROTATION}.from_rotvec(f32(3)))",
        f"{ROTATION}.from_rotvec(f32(3))[0]", f"{ROTATION}.from_quat(f32(5, 4))[1:3].as_matrix()", f"{ROTATION}.from_quat(f32(5, 4)).mean().as_matrix()", f"{ROTATION}.identity().as_quat()",
        f"{ROTATION}.from_euler('xx', f32(2))", f"{ROTATION}.from_euler('x', 1.0).as_matrix()", f"{ROTATION}.from_rotvec(f32(3)).as_euler('x')", f"jax.jit(lambda r: r.as_matrix())({ROTATION}.from_quat(f32(5, 4)))",
    ]),
    ("scipy.spatial.transform.Slerp", [
        f"module('scipy.spatial.transform').Slerp.init(f32([0, 1, 3]), {ROTATION}.from_rotvec(f32(3, 3)))({t}).as_matrix()" for t in ("0.5", "f32([0.0, 1.0, 2.5])", "1.0")
    ] + [f"module('scipy.spatial.transform').Slerp.init(f32([0, 1]), {ROTATION}.from_rotvec(f32({n})))" for n in ("3, 3", "3")]),
    ("scipy.optimize.minimize", [MINIMIZE.format(a) for a in (
        f"{QUADRATIC}, jnp.zeros(3), method='BFGS'", f"{QUADRATIC}, jnp.arange(3.0), method='BFGS'", f"{QUADRATIC}, jnp.zeros(3), method='CG'", f"{QUADRATIC}, jnp.zeros(3), 3, method='BFGS'",
        f"{QUADRATIC}, jnp.zeros(3), method='l-bfgs-experimental-do-not-rely-on-this'", f"{QUADRATIC}, jnp.zeros(3), method='BFGS', options={{'foo': 1}}", "lambda x: x, jnp.zeros(3), method='BFGS'",
        "lambda x, a: ((x - a) ** 2).sum(), jnp.zeros(3), (2.0,), method='BFGS'",
    )]),
    ("scipy.optimize.OptimizeResults", ["module('scipy.optimize').OptimizeResults._fields", f"type(module('scipy.optimize').minimize({QUADRATIC}, jnp.zeros(3), method='BFGS')).__name__", f"module('scipy.optimize').minimize({QUADRATIC}, jnp.zeros(3), method='BFGS').hess_inv.shape",
        f"module('scipy.optimize').minimize({QUADRATIC}, jnp.zeros(3), method='BFGS').jac.dtype", f"module('scipy.optimize').minimize({QUADRATIC}, jnp.zeros(3), method='l-bfgs-experimental-do-not-rely-on-this').hess_inv"]),
    ("scipy.interpolate.RegularGridInterpolator", [
        f"{GRID})(f32(6, 2))", f"{GRID}, method='nearest')(f32(6, 2))", f"{GRID}, fill_value=None)(f32(6, 2) * 3)", f"{GRID}, fill_value=7.0)(f32(6, 2) * 3)", f"{GRID})((1.5, 0.5))",
        f"{GRID}, method='cubic')", f"{GRID}, bounds_error=True)", f"{GRID})(f32(6, 3))", "scipy.interpolate.RegularGridInterpolator((f32([0, 1]), f32([0, 1])), f32(2))",
        "jax.grad(lambda p: scipy.interpolate.RegularGridInterpolator((f32([0, 1, 3, 4]),), f32(4))(p)[0])(f32([[2.3]]))",
    ]),
    ("jax.image.ResizeMethod", ["[m.name for m in jax.image.ResizeMethod]", *[f"jax.image.ResizeMethod.from_string('{s}').name" for s in ("bilinear", "bicubic", "area", "lanczos5", "odd")]]),
    ("jax.flatten_util.ravel_pytree", [f"jax.flatten_util.ravel_pytree({t})[0]" for t in ("{'a': f32(2, 2), 'b': [i32(3)]}", "[]", "[1, 2]", "[1.0]", "'a'", "(c64(2), b1(2))")]
        + ["(lambda f, u: u(f * 2))(*jax.flatten_util.ravel_pytree({'a': f32(2, 2), 'b': [i32(3)]}))", "jax.flatten_util.ravel_pytree([f32(2), i32(2)])[1](i32(4))", "jax.flatten_util.ravel_pytree([f32(2)])[1](f32(4))"]),
    ("jax.experimental.ode.odeint", [f"{ODE}({a})" for a in (
        "lambda y, t: -y, 1.0, jnp.linspace(0.0, 1.0, 4)", "lambda y, t: -y, f32(2, 3), jnp.linspace(0.0, 1.0, 4)", "lambda y, t: {'a': -y['a'] * t}, {'a': f32(2)}, jnp.linspace(0.0, 1.0, 4)",
        "lambda y, t, k: -k * y, f32(2), jnp.linspace(0.0, 1.0, 4), 2.0", "lambda y, t: 1j * y, c64(2), jnp.linspace(0.0, 1.0, 4)", "lambda y, t: y, f32(2), jnp.linspace(0.0, 1.0, 4), 'a'", "lambda y, t: y, f32(2), i32(3)",
        "lambda y, t: y[:1], f32(2), jnp.linspace(0.0, 1.0, 4)",
    )] + [f"jax.grad(lambda k: {ODE}(lambda y, t: -k * y, 1.0, jnp.linspace(0.0, 1.0, 4))[-1])(1.5)", f"jax.grad(lambda y, t: {ODE}(lambda y, t: -y, y, t).sum(), (0, 1))(f32(2), jnp.linspace(0.0, 1.0, 4))",
        f"jax.jit(jax.vmap(lambda y: {ODE}(lambda y, t: -y, y, jnp.linspace(0.0, 1.0, 4))))(f32(3))"]),
    ("checkify.checkify", [f"(lambda e, o: [e.get(), o])(*{CHECK}.checkify({POSITIVE})(f32([{v}])))" for v in ("1", "-1", "1, -2")]
        + [f"(lambda e, o: [e.get(), o])(*jax.jit({CHECK}.checkify({POSITIVE}))(f32([1, -2])))", f"jax.vmap({CHECK}.checkify({POSITIVE}))(f32([1, -2, -3]))[0].get()",
            f"{CHECK}.checkify(lambda x: lax.fori_loop(0, 5, lambda i, c: ({CHECK}.check(c < 3, 'c={{c}}', c=c), c + 1)[1], x))(i32())[0].get()",
            f"{CHECK}.checkify(lambda x: lax.cond(x[0] > 0, {POSITIVE}, lambda x: x, x))(f32([1, -2]))[0].get()", f"{CHECK}.checkify(jax.jit({POSITIVE}))(f32([1, -2]))[0].get()"]),
    ("checkify.nan_checks", [f"{CHECK}.checkify({f}, {CHECK}.nan_checks)({x})[0].get()" for f, x in (("jnp.log", "f32([1, -1])"), ("jnp.sin", "f32([np.inf])"), ("jnp.sin", "f32(2)"), ("lambda x: x - x", "f32([np.inf])"), ("jnp.sqrt", "f32([-1])"))]),
    ("checkify.div_checks", [f"{CHECK}.checkify(lambda x, y: {e}, {CHECK}.div_checks)({x})[0].get()" for e, x in (("x / y", "f32(2), f32([1, 0])"), ("x // y", "i32(2), i32([1, 0])"), ("x / y", "f32(2), f32([1, 2])"), ("x + y", "f32(2), f32([1, 0])"), ("x / y", "c64(2), c64([1, 0])"))]),
    ("checkify.index_checks", [f"{CHECK}.checkify(lambda x, i: {e}, {CHECK}.index_checks)({x})[0].get()" for e, x in (
        ("x[i]", "f32(3), i32([0, 7])"), ("x[i]", "f32(3), i32([0, 2])"), ("x[:, i]", "f32(2, 3), i32([5])"), ("x.at[i].set(1.0)", "f32(3), i32([4])"), ("lax.dynamic_slice(x, (i,), (2,))", "f32(3), jnp.int32(2)"), ("x.at[i].add(1.0)", "f32(2, 3), i32([1, 2])"))]),
    *[(f"checkify.{n}", [f"sorted(c.__name__ for c in {CHECK}.{n})", f"isinstance({CHECK}.{n}, frozenset)", f"len({CHECK}.{n} - {CHECK}.nan_checks)", f"{CHECK}.user_checks <= {CHECK}.{n}", f"{CHECK}.{n} <= {CHECK}.all_checks"]) for n in ("user_checks", "float_checks", "automatic_checks", "all_checks")],
    ("checkify.check", [f"{CHECK}.check({a})" for a in ("True, 'a'", "1, 'a'", "jnp.array([True]), 'a'", "False, 'a {}', 's'", "False, 'a {}'", "False, 'a {x}'", "False, 'a {}', f32(2)", "False, 'a'")]),
    ("checkify.debug_check", [f"{CHECK}.debug_check(False, 'a')", f"{CHECK}.checkify(lambda x: {CHECK}.debug_check(x > 0, 'hi {{}}', x))(-f32(()) ** 2)[0].get()", f"jax.jit(lambda x: {CHECK}.debug_check(x > 0, 'hi'))(-1.0)",
        f"{CHECK}.debug_check(3, 'a')", f"{CHECK}.debug_check(False, 'a {{}}', 's')"]),
    ("checkify.check_error", [f"{CHECK}.check_error({CHECK}.checkify({POSITIVE})(f32([{v}]))[0])" for v in ("1", "-1")] + [f"{CHECK}.check_error(3)", f"{CHECK}.check_error({CHECK}.init_error)",
        f"{CHECK}.checkify(lambda x: {CHECK}.check_error({CHECK}.checkify({POSITIVE})(x)[0]))(f32([-1]))[0].get()"]),
    ("checkify.Error", [f"{CHECK}.checkify({POSITIVE})(f32([{v}]))[0].{m}" for v in ("1", "-1") for m in ("get()", "throw()", "get_exception() is None")]),
    ("checkify.init_error", [f"{CHECK}.init_error.{m}" for m in ("get()", "throw()", "get_exception()")] + [f"isinstance({CHECK}.init_error, {CHECK}.Error)", f"type({CHECK}.init_error).__name__"]),
    ("checkify.JaxRuntimeError", [f"issubclass({CHECK}.JaxRuntimeError, {e})" for e in ("ValueError", "RuntimeError", "TypeError", "Exception")] + [f"{CHECK}.JaxRuntimeError.__name__"]),
]

CASES: list[Case] = [
    *calls("scipy.linalg", "scipy.linalg.", LINALG), *expressions("scipy.linalg", FACTORS), *calls("scipy.signal", "scipy.signal.", SIGNAL),
    *[case for prefix, table in REST for case in calls("scipy", prefix, table)], *expressions("scipy", EXPRESSIONS),
]
