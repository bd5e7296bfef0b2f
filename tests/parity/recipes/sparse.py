"""Sparse arrays: what they hold after each operation, and as dense arrays; shapes, dtypes, errors."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import Case, expressions

S = "module('experimental.sparse')"
D = "f32([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, -1, 0]])"
CUBE = "jnp.where(f32(2, 3, 4, s=1) > 0, f32(2, 3, 4), 0)"
M = f"{S}.BCOO.fromdense({D})"
DUP = f"{S}.BCOO((f32([1, 2, 4, 8]), i32([[2, 1], [0, 3], [2, 1], [3, 4]])), shape=(3, 4))"


def parts(x: str) -> str:
    """What is stored, and all of the array."""
    return f"(lambda x: [x.data, x.indices, x.todense(), str(x)])({x})"


def whole(x: str) -> str:
    return f"{S}.todense({x})"


LAYOUTS = [(b, d) for b in range(4) for d in range(4 - b)]
METHODS = (
    "sum()", "sum(0)", "sum(1)", "sum((0, 1))", "T", "transpose((0, 1))", "reshape(4, 3)", "reshape(12)", "reshape(2, 2, 3)", "reshape(5)", "astype('int32')",
    "sort_indices()", "sum_duplicates(nse=6)", "sum_duplicates(nse=2)", "sum_duplicates(nse=4, remove_zeros=False)", "update_layout(n_batch=1, on_inefficient=None)",
    "update_layout(n_dense=1, on_inefficient=None)", "update_layout(n_batch=1)", "update_layout(n_batch=2, n_dense=1)", "update_layout(n_batch=-1)", "transpose((0, 0))",
)
BINARY = (
    "x + x", "x - x", "x * x", "2 * x", "x / 2.0", "x * f32(4)", "x * f32(3, 1)", "f32(3, 4) + x", "x + f32(4)", "x @ f32(4)", "x @ f32(4, 2)", "f32(3) @ x", "f32(2, 3) @ x", "x @ x.T", "x.T @ x",
    "x @ i32(4)", "x @ c64(4)", "x @ f32(3)", "x ** 2", "x ** 0", "abs(x)", "-x", "+x", "x > 1", "2 / x", "x @ bf16(4)", "x[0]", "x[-1]", "x[:, 1]", "x[1:, ::2]", "x[::-1]", "x[None]", "x[..., None]", "x[i32([2, 0])]", "x[5:]", "x[0, 1]",
)
FUNCTIONS = (
    "jnp.sin(x)", "jnp.exp(x)", "jnp.sum(x, 0, keepdims=True)", "jnp.stack([x, x])", "jnp.concatenate([x, x], 1)", "jnp.squeeze(x[None])", "jnp.matmul(x, f32(4))", "jnp.sort(x)", "jnp.sqrt(x)", "jnp.log1p(x)", "jnp.mean(x)",
    "x.T + 1", "(x * 2).sum(1)", "jnp.where(x > 0, x, 0)", "lax.fori_loop(0, 3, lambda i, x: 2 * x, x)", "lax.cond(True, lambda x: 2 * x, lambda x: -x, x)", "jax.jit(lambda x: 3 * x)(x)",
)
TABLE = [
    ("sparse.BCOO", [parts(f"{S}.BCOO.fromdense({CUBE}, n_batch={b}, n_dense={d})") for b, d in LAYOUTS[::2]] + [parts(M), parts(f"{S}.BCOO.fromdense({D}, nse=2)"), parts(f"{S}.BCOO.fromdense({D}, nse=7)"),
        f"{S}.BCOO((f32(2), i32(2, 3)), shape=(2,))", f"{S}.BCOO((f32(3), i32(2, 1)), shape=(2,))", f"jax.jit({S}.BCOO.fromdense)({D})"]),
    ("sparse.methods", [whole(f"{m}.{c}") for m, cs in ((M, METHODS), (DUP, METHODS[:16])) for c in cs]),
    ("sparse.operators", [whole(f"(lambda x: {e})({m})") for m, es in ((M, BINARY), (DUP, BINARY[:8])) for e in es] + [f"str((lambda x: {e})({M}))" for e in ("x + x", "x * x", "x[0]", "x[None]", "x @ x.T", "2 * x", "x[1:, ::2]")]),
    ("sparse.sparsify", [whole(f"{S}.sparsify(lambda x: {e})({M})") for e in FUNCTIONS] + [f"{S}.sparsify(lambda x: jnp.exp({S}.todense(x)))({M})"]),
    ("sparse.layouts", [whole(f"{S}.BCOO.fromdense({CUBE}, n_batch={b}, n_dense={d}){c}") for b, d in ((0, 1), (1, 0), (1, 1), (2, 0)) for c in (".sum(0)", "[1]", "[:, 1:]", ".transpose((0, 2, 1))")]),
    ("sparse.bcoo_dot_general", [f"{S}.bcoo_dot_general({S}.BCOO.fromdense({CUBE}, n_batch={b}), {y}, dimension_numbers={n})" for b in range(2) for y, n in (
        ("f32(4, 2)", "(([2], [0]), ([], []))"), ("f32(3, 5)", "(([1], [0]), ([], []))"), ("f32(2, 4)", "(([0, 2], [0, 1]), ([], []))"), ("f32(2, 4, 2)", "(([2], [1]), ([0], [0]))"), ("f32(3)", "(([2], [0]), ([], []))"), ("i32(4)", "(([2], [0]), ([], []))"))]),
    ("sparse.bcoo_dot_general_sampled", [f"{S}.bcoo_dot_general_sampled(f32(3, 5), f32(5, 4), {M}.indices, dimension_numbers=(([1], [0]), ([], [])))", f"{S}.bcoo_dot_general_sampled(f32(3), f32(4), {M}.indices, dimension_numbers=(([], []), ([], [])))",
        f"{S}.bcoo_dot_general_sampled(f32(3, 5), f32(4, 5), {M}.indices, dimension_numbers=(([1], [1]), ([], [])))", f"{S}.bcoo_dot_general_sampled(f32(5, 3), f32(5, 4), {DUP}.indices, dimension_numbers=(([0], [0]), ([], [])))", f"{S}.bcoo_dot_general_sampled(i32(3, 5), i32(5, 4), {M}.indices, dimension_numbers=(([1], [0]), ([], [])))"]),
    ("sparse.bcoo_extract", [f"{S}.bcoo_extract({m}, f32(3, 4){a}).data" for m in (M, DUP) for a in ("", ", assume_unique=False", ", assume_unique=True")] + [f"{S}.bcoo_extract({M}, f32(4, 3))", f"{S}.bcoo_extract(f32(3), f32(3))"]),
    ("sparse.bcoo_slice", [parts(f"{S}.bcoo_slice({M}, start_indices={a})") for a in ("(0, 1), limit_indices=(2, 3)", "(0, 0), limit_indices=(3, 4), strides=(2, 3)", "(1, 1), limit_indices=(1, 4)", "(0, 1), limit_indices=(4, 3)", "(0,), limit_indices=(1,)")]),
    ("sparse.bcoo_reduce_sum", [parts(f"{S}.bcoo_reduce_sum({m}, axes={a})") for m in (M, DUP) for a in ("[0]", "[1]", "[0, 1]", "[]")]),
    ("sparse.bcoo_concatenate", [whole(f"{S}.bcoo_concatenate([{M}, {DUP}], dimension={a})") for a in (0, 1, 2)] + [f"{S}.bcoo_concatenate([{M}, f32(3, 4)], dimension=0)", whole(f"{S}.bcoo_concatenate([{M}], dimension=1)")]),
    ("sparse.bcoo_broadcast_in_dim", [parts(f"{S}.bcoo_broadcast_in_dim({M}, shape={a})") for a in ("(2, 3, 4), broadcast_dimensions=(1, 2)", "(3, 1, 4), broadcast_dimensions=(0, 2)", "(3, 2, 4), broadcast_dimensions=(0, 2)", "(3, 4, 1), broadcast_dimensions=(0, 1)", "(1, 3, 4), broadcast_dimensions=(1, 2)")]),
    ("sparse.grad", [f"{S}.grad(lambda x, y: (x @ y).sum())({M}, f32(4)).data", f"{S}.grad(lambda x, y: (x @ y).sum(), 1)({M}, f32(4))", f"str({S}.grad(lambda x, y: (x @ y).sum(), (0, 1))({M}, f32(4)))", f"{S}.value_and_grad(lambda x: (x @ f32(4)).sum())({M})[0]",
        f"{S}.jacfwd(lambda x: x @ f32(4))({M}).data", f"str({S}.jacrev(lambda x: x @ f32(4))({M}))", f"{S}.grad(lambda x: (x * x).sum())({M}).data", f"{S}.grad(lambda x: jnp.sin(x.todense()).sum())({DUP}).data", f"{S}.grad(lambda x: x.sum(), has_aux=True)({M})"]),
    ("sparse.vmap", [whole(f"jax.vmap({f})({S}.BCOO.fromdense({CUBE}, n_batch={b}))") for f in ("lambda x: x @ f32(4)", "lambda x: 2 * x", "lambda x: x.sum(0)", "lambda x: x.todense().T") for b in (1, 2)] + [f"jax.vmap(lambda x: x.sum())({M})"]),
    ("sparse.formats", [f"(lambda x: [{S}.todense(x), str(x), x @ f32(4), x @ f32(4, 2)])({S}.{k}.fromdense({D}))" for k in ("BCOO", "BCSR", "COO", "CSR", "CSC")] + [f"{S}.{k}.fromdense({D}).{a}" for k in ("BCSR", "CSR", "CSC") for a in ("data", "indices", "indptr", "T.todense()", "nse", "dtype")]),
    ("sparse.eye", [whole(f"{S}.eye({a})") for a in ("3", "3, 4", "3, 4, 1", "4, 3, -1", "3, k=5", "3, dtype='int32'", "3, n_batch=1", "3, n_dense=1", "3, sparse_format='csr'", "3, sparse_format='coo'", "3, sparse_format='csc', k=1")] + [f"str({S}.empty({a}))" for a in ("(2, 3)", "(2, 3), n_batch=1, nse=2", "(2, 3), sparse_format='csr'", "(2, 3), sparse_format='bcsr'", "(2,), sparse_format='odd'")]),
    ("sparse.random_bcoo", [parts(f"{S}.random_bcoo(jax.random.key({k}), {a})") for k in (0, 1) for a in ("(4, 5)", "(4, 5), nse=3", "(2, 4, 5), n_batch=1, nse=0.1", "(4, 5, 2), n_dense=1", "(4, 5), sorted_indices=True", "(4, 5), unique_indices=False", "(4, 5), nse=30")]),
    ("sparse.linalg.spsolve", [f"(lambda a: {S}.linalg.spsolve(a.data, a.indices, a.indptr, {b}))({S}.CSR.fromdense({m}))" for m, b in (("spd('f32', 3)", "f32(3)"), ("jnp.eye(2) * 4", "f32(2)"), ("jnp.eye(4)", "f32(4)"), ("jnp.diag(f32(4) + 9)", "f32(4)"), ("jnp.eye(4)[::-1] * 2", "f32(4)"))]),
    ("sparse.linalg.lobpcg_standard", [f"{S}.linalg.lobpcg_standard(jnp.diag(jnp.arange(20.0)), f32(20, 2), 50)[0]", f"{S}.linalg.lobpcg_standard(jnp.eye(20), f32(20, 4))", f"{S}.linalg.lobpcg_standard(jnp.diag(jnp.arange(30.0)), f32(30, 1), 50)[0]", f"{S}.linalg.lobpcg_standard(jnp.eye(20), f32(20))", f"{S}.linalg.lobpcg_standard(jnp.eye(3, 4), f32(4, 1))"]),
]

CASES: list[Case] = expressions("sparse", TABLE)
