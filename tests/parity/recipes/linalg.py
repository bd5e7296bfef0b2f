"""Linear algebra and Fourier transforms: `jnp.linalg`, `jnp.fft`, `lax.linalg`.

Factors that are unique only up to signs or phases are compared through what they reproduce.
"""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import calls, expressions, over

KINDS = "f32 c64"
SQUARE = [
    *over(KINDS + " bf16 i32", "mat('D', 3)"), "mat('f32', 3, batch=2)", "mat('f32', 1)",
    "f32(0, 0)", "f32(2, 3)", "f32(3)", "f32()", "jnp.zeros((2, 2))", "[[1.0]]",
]
NORM = [
    *over("f32 bf16 i32 c64", "D(3)", "D(2, 3)"),
    *[
        f"f32(5), {o}"
        for o in ("0", "1", "2", "3", "-1", "np.inf", "-np.inf", "0.5", "'fro'", "'nuc'")
    ],
    *[
        f"f32(2, 3), {o}"
        for o in ("1", "-1", "2", "-2", "np.inf", "-np.inf", "'fro'", "'nuc'", "3", "0")
    ],
    "f32(2, 3), axis=0", "f32(2, 3), 1, 1, True", "f32(2, 3, 4), 'fro', (0, 2)", "f32(2, 3, 4)",
    "f32(2, 3), keepdims=True", "f32()", "f32(0)", "f32(3), axis=1", "[1.0, 2.0]",
]

LINALG = [
    ("cholesky", [
        *over(KINDS, "spd('D', 3)", "spd('D', 2, 2)"), "spd('f32', 3), upper=True", "mat('f32', 3)",
        "mat('f32', 3), symmetrize_input=False",
    ]),
    ("cholesky", [
        "-jnp.eye(2)", "f32(2, 3)", "f32(3)", "f32(0, 0)", "i32([[4, 1], [1, 3]])",
        "spd('bf16', 3)", "f32([[np.nan, 1], [1, 2]])", "[[1.0]]",
    ]),
    ("det inv slogdet", SQUARE),
    (
        "slogdet",
        ["mat('f32', 3), method='qr'", "mat('f32', 3), method='lu'", "mat('f32', 3), method='odd'"],
    ),
    ("det", ["mat('f32', 2)", "mat('f32', 4)", "mat('f32', 6)", "mat('c64', 2)"]),
    ("eigvals eigvalsh svdvals", SQUARE),
    ("eigvalsh", [
        "spd('f32', 3), 'U'", "mat('f32', 3), UPLO='L', symmetrize_input=False",
        "mat('f32', 3), 'X'",
    ]),
    ("solve", [
        *over(KINDS, "mat('D', 3), D(3)", "mat('D', 3), D(3, 2)"),
        "mat('f32', 3, batch=2), f32(2, 3, 1)", "mat('f32', 3, batch=2), f32(3)",
    ]),
    ("solve", [
        "mat('f32', 3), f32(4)", "f32(2, 3), f32(2)", "i32([[2, 0], [0, 4]]), i32([2, 4])",
        "jnp.zeros((2, 2)), f32(2)", "f32(0, 0), f32(0)", "mat('f32', 2), i32(2)",
    ]),
    ("lstsq", [
        *over(KINDS, "mat('D', 4, 2), D(4)"), "mat('f32', 4, 2), f32(4, 3)",
        "mat('f32', 2, 4), f32(2)", "mat('f32', 4, 2), f32(4), rcond=0.5",
    ]),
    ("lstsq", [
        "mat('f32', 4, 2), f32(4), numpy_resid=True", "mat('f32', 4, 2), f32(3)", "f32(3), f32(3)",
        "jnp.ones((3, 2)), f32(3)",
    ]),
    ("pinv", [
        *SQUARE, "mat('f32', 4, 2)", "mat('f32', 2, 4)", "jnp.ones((2, 2))",
        "spd('f32', 3), hermitian=True", "mat('f32', 3), rtol=0.4", "mat('f32', 3), rcond=0.4",
    ]),
    ("matrix_rank", [
        "mat('f32', 3)", "jnp.ones((3, 3))", "f32(3)", "mat('f32', 3, batch=2)",
        "mat('f32', 3), rtol=0.9", "mat('f32', 3), tol=1", "spd('f32', 3), hermitian=True", "f32()",
    ]),
    ("matrix_power", [
        *[f"mat('f32', 3), {n}" for n in (0, 1, 2, 3, 5, -1, -2)], "f32(2, 3), 2",
        "mat('f32', 2), 1.5", "i32(2, 2), 3", "mat('f32', 2, batch=2), 2",
    ]),
    ("norm", NORM),
    ("vector_norm", [
        "f32(3)", "f32(2, 3)", "f32(2, 3), axis=1", "f32(2, 3), ord=1, keepdims=True", "c64(3)",
        "f32(3), ord=np.inf", "f32(2, 3, 4), axis=(0, 1)", "f32(3), ord=0", "i32(3)",
    ]),
    ("matrix_norm", [
        "f32(2, 3)", "f32(2, 2, 3)", "f32(2, 3), ord=1", "f32(2, 3), keepdims=True, ord='nuc'",
        "f32(3)", "f32(2, 3), ord=-2", "c64(2, 2), ord=2",
    ]),
    ("cond", [
        "mat('f32', 3)", "mat('f32', 3), 1", "mat('f32', 3), 'fro'", "mat('f32', 3), -2",
        "mat('f32', 3), np.inf", "f32(2, 3)", "f32(3)", "jnp.zeros((2, 2))", "f32(0, 2)",
    ]),
    ("cross", [
        "f32(3), f32(3, s=1)", "f32(2, 3), f32(3)", "f32(2), f32(2)",
        "f32(3, 2), f32(3, 2), axis=0", "i8(3), f32(3)", "f32(3), f32(2)",
        "[1.0, 0, 0], [0, 1.0, 0]", "f32(3, 2), f32(3, 2), axis=-2", "f32(3), f32(3), axis=1",
        "c64(3), f32(3)",
    ]),
    ("outer", [
        "f32(2), f32(3)", "f32(2, 2), f32(2)", "c64(2), f32(2)", "f32(0), i32(2)", "[1.0], [2.0]",
        "b1(2), b1(3)", "bf16(2), 3.0",
    ]),
    ("diagonal", [
        "f32(2, 3)", "f32(2, 3, 4)", "f32(3, 3), offset=1", "f32(3)", "f32(3, 3), offset=-1",
        "c64(0, 3)", "f32(3, 3), offset=5", "[[1.0]]", "b1(2, 2)",
    ]),
    ("trace", [
        "f32(2, 3)", "f32(2, 3, 4)", "f32(3, 3), offset=1", "i8(3, 3), dtype='float32'",
        "f32(3, 2), offset=-1", "f32(0, 0)", "c64(2, 2)", "[[1.0]]", "f32(3)", "b1(2, 2)",
        "i8(2, 2), dtype=bool",
    ]),
    ("matmul", [
        "f32(2, 3), f32(3, 2)", "f32(2, 3), f32(2)", "i32(2, 2), f32(2, 2)", "f32(0, 2), f32(2, 3)",
        "[1.0], [2.0]", "f32(2, 3), bf16(4, 3, 2)", "f32(), f32(2)",
        "f32(2), f32(2), precision='highest'",
        "bf16(2, 2), bf16(2), preferred_element_type='float32'",
    ]),
    ("matrix_transpose", [
        "f32(2, 3)", "f32(3)", "c64(2, 3, 4)", "i8(0, 2)", "[[1]]", "2.0",
    ]),
    ("tensordot", [
        "f32(2, 3), f32(3, 2), axes=1", "f32(2, 3), f32(2, 3)",
        "f32(2, 3), f32(3, 2), axes=([1], [0]), precision='high'", "f32(2, 3), i32(4), axes=0",
        "f32(2, 3), f32(2, 3), axes=((-1,), (-1,))", "[1.0], [2.0], axes=1",
        "f32(2, 2), f32(2, 2), axes=3",
        "bf16(2, 3), bf16(3), axes=1, preferred_element_type='float32'",
    ]),
    ("vecdot", [
        "c64(2, 3), c64(3)", "f32(3), f32(2)", "f32(2, 3), f32(2, 3), axis=0", "i32(3), f32(3)",
        "f32(3), f32(3), axis=1", "[1.0], [2.0]",
        "bf16(3), bf16(3), preferred_element_type='float32'", "c64(0), c64(0)",
        "f32(3), f32(3), precision='high'",
    ]),
    ("multi_dot", [
        "[f32(2, 3), f32(3, 4), f32(4, 2)]", "[f32(3), f32(3, 4), f32(4)]", "[f32(2, 3)]",
        "[f32(2, 3), f32(2, 3)]", "[f32(2, 3), i32(3, 2)]", "[]",
    ]),
    ("tensorinv", [
        "mat('f32', 4).reshape(2, 2, 2, 2)", "mat('f32', 6).reshape(6, 2, 3), 1", "f32(2, 3, 4)",
        "mat('f32', 2), 0", "f32(2, 2), ind=-1", "jnp.zeros((2, 2)), 1", "[[1.0]], 1",
        "i32([[2, 0], [0, 4]]), ind=1", "mat('c64', 4).reshape(2, 2, 4)",
    ]),
    ("tensorsolve", [
        "mat('f32', 4).reshape(2, 2, 4), f32(2, 2)", "mat('f32', 6).reshape(2, 3, 6), f32(2, 3)",
        "f32(2, 3, 4), f32(2, 3)", "mat('f32', 4).reshape(2, 4, 2), f32(4), axes=(0,)",
        "mat('f32', 4).reshape(2, 4, 2), f32(4), axes=(-1,)", "mat('f32', 2), f32(3)",
        "[[1.0]], [2.0]", "mat('c64', 2), f32(2)", "mat('f32', 4).reshape(4, 2, 2), f32(4)",
        "i32([[2, 0], [0, 4]]), i32(2)",
    ]),
    ("eigh eig svd qr", ["f32(3)", "[[1.0]]", "f32()"]),
    ("eigh eig", ["f32(2, 3)", "mat('f32', 1)"]),
    ("eigh", ["mat('f32', 3), 'X'"]),
    ("qr", ["f32(2, 3), mode='odd'", "f32(2, 3), mode='raw'", "f32(3, 2), mode='r'"]),
]

# `same(q @ r)`: factors are compared by their product and by being orthogonal.
FACTORS = [
    (
        "jnp.linalg.eigh",
        over(
            "f32 c64",
            "(lambda r: [r.eigenvalues, r.eigenvectors * r.eigenvalues @ jnp.conj(r.eigenvectors).mT])(jnp.linalg.eigh(spd('D', 4)))",
            "(lambda r: [r.eigenvalues, jnp.conj(r.eigenvectors).mT @ r.eigenvectors])(jnp.linalg.eigh(mat('D', 3, batch=2)))",
        ),
    ),
    ("jnp.linalg.eigh", [
        "jnp.linalg.eigh(spd('f32', 3), UPLO='U').eigenvalues",
        "jnp.linalg.eigh(mat('f32', 3), symmetrize_input=False)[0]",
    ]),
    (
        "jnp.linalg.eig",
        over(
            "f32 c64",
            "(lambda w, v: jnp.abs((v * w[None]) @ jnp.linalg.inv(v)))(*jnp.linalg.eig(mat('D', 3)))",
        ),
    ),
    (
        "jnp.linalg.svd",
        over(
            "f32 c64",
            "(lambda u, s, vt: [s, u * s @ vt])(*jnp.linalg.svd(mat('D', 4, 3), full_matrices=False))",
            "(lambda u, s, vt: [s, jnp.conj(u).mT @ u, vt @ jnp.conj(vt).mT])(*jnp.linalg.svd(mat('D', 2, 4)))",
        ),
    ),
    ("jnp.linalg.svd", [
        "jnp.linalg.svd(f32(3, 2), compute_uv=False)",
        "jnp.linalg.svd(spd('f32', 3), hermitian=True, compute_uv=False)",
        "type(jnp.linalg.svd(f32(2, 2))).__name__",
    ]),
    ("jnp.linalg.svd", [
        "jnp.linalg.svd(f32(2, 3, 2), compute_uv=False)",
        "jnp.linalg.svd(i32(2, 2), compute_uv=False)",
        "jnp.linalg.svd(f32(0, 2), compute_uv=False)",
    ]),
    (
        "jnp.linalg.qr",
        over(
            "f32 c64", "(lambda q, r: [q @ r, jnp.conj(q).mT @ q])(*jnp.linalg.qr(mat('D', 4, 3)))",
            "jnp.linalg.qr(mat('D', 3))", "jnp.linalg.qr(mat('D', 2, 4))",
        ),
    ),
    ("jnp.linalg.qr", [
        "jnp.linalg.qr(mat('f32', 4, 2), mode='complete')",
        "jnp.linalg.qr(mat('f32', 3), mode='r')", "jnp.linalg.qr(mat('f32', 3, batch=2))",
    ]),
    ("lax.linalg.cholesky", [
        "lax.linalg.cholesky(spd('f32', 3))",
        "lax.linalg.cholesky(spd('c64', 3), symmetrize_input=False)",
        "lax.linalg.cholesky(i32(2, 2))", "lax.linalg.cholesky(-jnp.eye(2))",
        "lax.linalg.cholesky(spd('f32', 2, 2))", "lax.linalg.cholesky(f32(0, 0))",
        "lax.linalg.cholesky(mat('f32', 3), symmetrize_input=False)",
        "lax.linalg.cholesky(f32(2, 3))", "lax.linalg.cholesky(f32(3))",
        "lax.linalg.cholesky([[1.0]])", "lax.linalg.cholesky(f32([[np.nan, 1], [1, 2]]))",
        "lax.linalg.cholesky(bf16([[4, 1], [1, 3]]))",
    ]),
    ("lax.linalg.cholesky_update", [
        "lax.linalg.cholesky_update(jnp.linalg.cholesky(spd('f32', 3)).T, f32(3))",
        "lax.linalg.cholesky_update(jnp.eye(3), jnp.zeros(3))",
        "lax.linalg.cholesky_update(jnp.eye(3), f32(2))",
        "lax.linalg.cholesky_update(i32([[1]]), i32([1]))",
        "lax.linalg.cholesky_update(f32(2, 3), f32(3))",
        "lax.linalg.cholesky_update(c64(2, 2), c64(2))",
        "lax.linalg.cholesky_update(jnp.eye(1), f32([np.nan]))",
    ]),
    ("lax.linalg.eig", [
        "jnp.sort(lax.linalg.eig(mat('f32', 3), compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0])",
        "jnp.sort(lax.linalg.eig(mat('c64', 3), compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0])",
        "len(lax.linalg.eig(mat('f32', 3)))",
        "len(lax.linalg.eig(mat('f32', 3), compute_left_eigenvectors=False))",
        "(lambda w, v: jnp.abs((v * w[None]) @ jnp.linalg.inv(v)))(*lax.linalg.eig(mat('f32', 3), compute_left_eigenvectors=False))",
        "(lambda w, l: jnp.abs(jnp.conj(l).T @ mat('f32', 3) - w[:, None] * jnp.conj(l).T) < 1e-4)(*lax.linalg.eig(mat('f32', 3), compute_right_eigenvectors=False))",
        "lax.linalg.eig(f32(2, 3))", "lax.linalg.eig(i32(2, 2))", "lax.linalg.eig(f32(0, 0))",
        "lax.linalg.eig(f32(3))",
    ]),
    ("lax.linalg.eigh", [
        "lax.linalg.eigh(spd('f32', 3))[1]",
        "(lambda v, w: v * w @ v.T)(*lax.linalg.eigh(spd('f32', 3)))", "lax.linalg.eigh(f32(2, 3))",
        "lax.linalg.eigh(f32(0, 0))", "lax.linalg.eigh(i32(2, 2))",
        "lax.linalg.eigh(mat('f32', 3), lower=False, symmetrize_input=False)[1]",
        "lax.linalg.eigh(spd('c64', 3, 2))[1]", "lax.linalg.eigh(f32(3))",
        "lax.linalg.eigh(jnp.diag(f32([3, 1, 2])), sort_eigenvalues=True)[1]",
        "lax.linalg.eigh(spd('f32', 3), subset_by_index=(0, 3))",
        "lax.linalg.eigh(spd('f32', 3), subset_by_index=(0, 2))",
    ]),
    (
        "lax.linalg.lu",
        [f"lax.linalg.lu(mat('{d}', 3))" for d in ("f32", "c64")]
        + [
            "lax.linalg.lu(f32(3, 2))", "lax.linalg.lu(f32(2, 3))",
            "lax.linalg.lu(mat('f32', 3, batch=2))",
        ],
    ),
    ("lax.linalg.lu_pivots_to_permutation", [
        "lax.linalg.lu_pivots_to_permutation(i32([2, 2, 2]), 3)",
        "lax.linalg.lu_pivots_to_permutation(i32([1, 3, 2]), 4)",
        "lax.linalg.lu_pivots_to_permutation(i32([0, 1]), 2)",
        "lax.linalg.lu_pivots_to_permutation(i32([[0, 1], [1, 1]]), 2)",
        "lax.linalg.lu_pivots_to_permutation(i32([1, 1]), 2)",
        "lax.linalg.lu_pivots_to_permutation(f32([0, 1]), 2)",
        "lax.linalg.lu_pivots_to_permutation(i32(0), 2)",
        "lax.linalg.lu_pivots_to_permutation(i32([0, 1, 2]), 2)",
    ]),
    ("lax.linalg.qr", [
        "lax.linalg.qr(mat('f32', 3), full_matrices=False)", "lax.linalg.qr(mat('f32', 3, 2))",
        "lax.linalg.qr(mat('f32', 3), pivoting=True)[2]",
        "(lambda q, r: [q @ r, jnp.conj(q).mT @ q])(*lax.linalg.qr(mat('c64', 4, 3), full_matrices=False))",
        "lax.linalg.qr(mat('f32', 2, 4))", "lax.linalg.qr(mat('f32', 3, batch=2))",
        "lax.linalg.qr(f32(3))", "lax.linalg.qr(i32(2, 2))", "lax.linalg.qr(f32(0, 2))",
        "lax.linalg.qr(f32(2, 0), full_matrices=False)",
        "lax.linalg.qr(f32([[np.nan, 1], [1, 2]]))",
    ]),
    ("lax.linalg.svd", [
        "lax.linalg.svd(mat('f32', 3), compute_uv=False)",
        "(lambda u, s, v: u[:, :2] * s @ v)(*lax.linalg.svd(mat('f32', 3, 2)))",
        "lax.linalg.svd(mat('c64', 2, 3), compute_uv=False)",
        "lax.linalg.svd(f32(0, 2), compute_uv=False)",
        "lax.linalg.svd(mat('f32', 2, batch=2), compute_uv=False)", "lax.linalg.svd(f32(3))",
        "lax.linalg.svd(i32(2, 2), compute_uv=False)",
        "(lambda u, s, v: u * s @ v)(*lax.linalg.svd(mat('f32', 3, 2), full_matrices=False))",
        "lax.linalg.svd(mat('f32', 3), compute_uv=False, algorithm=lax.linalg.SvdAlgorithm.QR)",
        "lax.linalg.svd(mat('f32', 3), compute_uv=False, subset_by_index=(0, 2))",
        "lax.linalg.svd(f32([[np.nan, 1], [1, 2]]), compute_uv=False)",
    ]),
    ("lax.linalg.schur", [
        "(lambda t, q: q @ t @ q.T)(*lax.linalg.schur(mat('f32', 3)))",
        "lax.linalg.schur(f32(2, 3))", "jnp.diag(lax.linalg.schur(jnp.triu(mat('f32', 3)))[0])",
        "(lambda t, q: q @ t @ jnp.conj(q).T)(*lax.linalg.schur(mat('c64', 3)))",
        "(lambda t, q: q.T @ q)(*lax.linalg.schur(mat('f32', 3)))",
        "len(lax.linalg.schur(mat('f32', 3), compute_schur_vectors=False))",
        "lax.linalg.schur(f32(3))", "lax.linalg.schur(i32(2, 2))",
        "lax.linalg.schur(mat('f32', 1))",
    ]),
    ("lax.linalg.hessenberg", [
        "lax.linalg.hessenberg(mat('f32', 3))", "lax.linalg.hessenberg(mat('c64', 3))",
        "lax.linalg.hessenberg(mat('f32', 4, batch=2))", "lax.linalg.hessenberg(f32(2, 3))",
        "lax.linalg.hessenberg(f32(0, 0))", "lax.linalg.hessenberg(i32(2, 2))",
        "lax.linalg.hessenberg(mat('f32', 1))", "lax.linalg.hessenberg(f32(3))",
    ]),
    ("lax.linalg.householder_product", [
        "lax.linalg.householder_product(*lax.linalg.hessenberg(mat('f32', 3)))",
        "lax.linalg.householder_product(mat('f32', 3, 2), f32(2, kind='prob'))",
        "lax.linalg.householder_product(jnp.eye(3), jnp.zeros(3))",
        "lax.linalg.householder_product(f32(2, 3), f32(2))",
        "lax.linalg.householder_product(mat('c64', 3), c64(2))",
        "lax.linalg.householder_product(f32(2, 3, 2), f32(2, 2))",
        "lax.linalg.householder_product(f32(3, 3), i32(3))",
        "lax.linalg.householder_product(f32(3), f32(1))",
    ]),
    ("lax.linalg.ormqr", [
        "lax.linalg.ormqr(*lax.linalg.hessenberg(mat('f32', 4))[:2], mat('f32', 4)[:, :2])",
        "lax.linalg.ormqr(jnp.eye(3), jnp.zeros(3), mat('f32', 3))",
        "lax.linalg.ormqr(mat('f32', 3, 2), f32(2, kind='prob'), mat('f32', 3), transpose=True)",
        "lax.linalg.ormqr(mat('f32', 3, 2), f32(2, kind='prob'), f32(2, 3), left=False)",
        "lax.linalg.ormqr(mat('c64', 3), c64(2), c64(3, 1))",
        "lax.linalg.ormqr(mat('f32', 3), f32(2), f32(2, 2))",
        "lax.linalg.ormqr(mat('f32', 3), i32(2), f32(3, 2))",
    ]),
    ("lax.linalg.tridiagonal", [
        "lax.linalg.tridiagonal(spd('f32', 3))[1]", "lax.linalg.tridiagonal(spd('f32', 3))[2]",
        "lax.linalg.tridiagonal(spd('f32', 4), lower=False)[1]",
        "lax.linalg.tridiagonal(spd('f32', 4), lower=True)",
        "lax.linalg.tridiagonal(spd('c64', 3))[1]", "lax.linalg.tridiagonal(f32(2, 3))",
        "lax.linalg.tridiagonal(i32(2, 2))", "lax.linalg.tridiagonal(spd('f32', 3, 2))[1]",
        "lax.linalg.tridiagonal(f32(3))",
    ]),
    ("lax.linalg.tridiagonal_solve", [
        "lax.linalg.tridiagonal_solve(f32([0, 1, 1]), f32([4, 5, 6]), f32([1, 1, 0]), f32(3, 2))",
        "lax.linalg.tridiagonal_solve(f32([0, 1]), f32([4, 5]), f32([1, 0]), f32(2, 1))",
        "lax.linalg.tridiagonal_solve(f32([0, 1]), f32([4, 5]), f32([1, 0]), f32(2))",
        "lax.linalg.tridiagonal_solve(f32([0, 1]), f32([4, 5]), f32([1, 0]), f32(3, 1))",
        "lax.linalg.tridiagonal_solve(f32([0, 1]), f32([4, 5]), i32([1, 0]), f32(2, 1))",
        "lax.linalg.tridiagonal_solve(f32(2, 3), f32(2, 3, kind='ge1') + 9, f32(2, 3, s=1), f32(2, 3, 2))",
        "lax.linalg.tridiagonal_solve(f32([0, 0]), f32([0, 0]), f32([0, 0]), f32(2, 1))",
        "lax.linalg.tridiagonal_solve(c64([0, 1]), c64([4, 5j]), c64([1, 0]), c64(2, 1))",
        "lax.linalg.tridiagonal_solve(f32(0), f32(0), f32(0), f32(0, 1))",
    ]),
    ("lax.linalg.triangular_solve", [
        f"lax.linalg.triangular_solve(spd('{d}', 3), {d}(3, 2), left_side=True, {o})"
        for d in ("f32", "c64")
        for o in (
            "lower=True", "lower=False", "lower=True, transpose_a=True",
            "transpose_a=True, conjugate_a=True", "unit_diagonal=True",
        )
    ]
    + [
        "lax.linalg.triangular_solve(spd('f32', 3), f32(2, 3))",
        "lax.linalg.triangular_solve(f32(2, 3), f32(2, 3))",
    ]),
    ("lax.linalg.symmetric_product", [
        "lax.linalg.symmetric_product(f32(3, 2), spd('f32', 3), alpha=2.0, beta=0.5, symmetrize_output=True)",
        "lax.linalg.symmetric_product(f32(3, 2), spd('f32', 3))",
        "lax.linalg.symmetric_product(bf16(3, 2), spd('bf16', 3), alpha=0.5)",
        "lax.linalg.symmetric_product(f32(3, 2), f32(2, 2))",
        "lax.linalg.symmetric_product(f32(3), f32(3, 3))",
        "lax.linalg.symmetric_product(i32(3, 2), i32(3, 3))",
        "lax.linalg.symmetric_product(f32(2, 3, 2), spd('f32', 3, 2), beta=1.0, symmetrize_output=True)",
    ]),
    ("lax.linalg.qdwh", [
        "lax.linalg.qdwh(mat('f32', 3))[0]", "lax.linalg.qdwh(mat('f32', 3))[1]",
        "lax.linalg.qdwh(mat('f32', 4, 3))[0]",
        "lax.linalg.qdwh(spd('f32', 3), is_hermitian=True)[0]", "lax.linalg.qdwh(mat('c64', 3))[0]",
        "lax.linalg.qdwh(f32(2, 3))", "lax.linalg.qdwh(mat('f32', 3), max_iterations=1)[3]",
        "lax.linalg.qdwh(mat('f32', 3))[2]", "lax.linalg.qdwh(f32(3))",
    ]),
    *[
        (
            f"lax.linalg.{n}",
            [
                f"[m.name for m in lax.linalg.{n}]", f"[m.value for m in lax.linalg.{n}]",
                f"[str(m) for m in lax.linalg.{n}]", f"[repr(m) for m in lax.linalg.{n}]",
                f"lax.linalg.{n}('nonsense')", f"[*lax.linalg.{n}][0] == [*lax.linalg.{n}][1]",
            ],
        )
        for n in ("SvdAlgorithm", "EigImplementation", "EighImplementation")
    ],
]

ONE_D = [
    *over("f32 bf16 i32 c64 b1", "D(6)"), "f32(5)", "f32(2, 4)", "f32(2, 4), axis=0", "f32(6), 4",
    "f32(6), n=8", "f32(6), norm='ortho'", "f32(6), norm='forward'",
]
ONE_D += [
    "f32(6), norm='odd'", "f32(6), axis=2", "f32()", "f32(0)", "f32(6), 0", "c64(2, 3, 4), axis=1",
    "f32(7), 7, -1, 'backward'", "[1.0]", "f16(4)",
]
N_D = [
    *over("f32 c64", "D(3, 4)"), "f32(2, 3, 4)", "f32(3, 4), (2, 6)", "f32(3, 4), norm='ortho'",
    "f32(2, 3, 4), axes=(0, 1)", "f32(2, 3, 4), s=(2, 2), axes=(0, 2)",
]
N_D += [
    "f32(4)", "f32(3, 4), axes=(0, 0)", "f32(3, 4), (2,)", "f32(2, 2, 2, 2)",
    "f32(3, 4), axes=(5,)", "f32(3, 5)",
]
SHIFT = [
    "f32(5)", "f32(4)", "f32(2, 3)", "f32(2, 3), 1", "f32(2, 3), (0, 1)", "f32(3), 2", "i32(4)",
    "[1, 2]",
]
FREQ = [
    "5", "6", "6, 0.5", "5, d=2", "6, dtype='float32'", "6, dtype='bfloat16'", "0",
    "6, d=f32()", "6, dtype='int32'",
]

FFT = [
    ("fft ifft rfft irfft hfft ihfft", ONE_D),
    ("fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn", N_D),
    ("fftshift ifftshift", SHIFT),
    ("fftfreq rfftfreq", FREQ),
]

CASES = [
    *calls("numpy.linalg", "jnp.linalg.", LINALG),
    *[
        case
        for name, rows in FACTORS
        for case in expressions("numpy.linalg" if name[0] == "j" else "lax.linalg", [(name, rows)])
    ],
    *calls("numpy.fft", "jnp.fft.", FFT),
]
