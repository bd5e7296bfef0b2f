"""Primitives of sparse arrays, bound to the arrays that a format is made of."""

# ruff: noqa: E501 (an expression stays on one line)

from .dsl import Case, expressions

S = "module('experimental.sparse')"
DENSE = (
    "f32([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, -1, 0]])",
    "i32([[1, 0], [0, 4]])",
    "jnp.eye(3)",
    "jnp.zeros((2, 3))",
    "jnp.where(f32(3, 4, s=1) > 0, f32(3, 4), 0)",
)
INFO = "type('Info', (), {{'shape': {shape}, 'indices_sorted': False, 'unique_indices': False, 'rows_sorted': True, 'cols_sorted': False}})()"
PARTS = {
    "bcoo": "(x.data, x.indices)",
    "bcsr": "(x.data, x.indices, x.indptr)",
    "coo": "(x.data, x.row, x.col)",
    "csr": "(x.data, x.indices, x.indptr)",
}


def bound(kind: str, name: str, dense: str, params: str, more: str = "") -> str:
    """A primitive bound to the parts of an array; `x` is it, `I` what is known of it."""
    return f"(lambda x: (lambda I: {S}.{name}.bind(*{PARTS[kind]}{more}, {params}))({INFO.format(shape='x.shape')}))({S}.{kind.upper()}.fromdense({dense}))"


def over(kind: str, name: str, params: str, more: str = "") -> list[str]:
    return [bound(kind, name, dense, params, more) for dense in DENSE]


DOT = "(((1,), (0,)), ((), ()))"
TABLE = [
    ("sparse.bcoo_todense_p", over("bcoo", "bcoo_todense_p", "spinfo=I")),
    ("sparse.bcoo_sort_indices_p", over("bcoo", "bcoo_sort_indices_p", "spinfo=I")),
    ("sparse.bcoo_sum_duplicates_p", over("bcoo", "bcoo_sum_duplicates_p", "spinfo=I, nse=x.nse")),
    ("sparse.bcoo_transpose_p", over("bcoo", "bcoo_transpose_p", "spinfo=I, permutation=(1, 0)")),
    ("sparse.bcoo_extract_p", [f"(lambda x: {S}.bcoo_extract_p.bind(x.indices, 3 * {d} + 1, assume_unique={u}))({S}.BCOO.fromdense({d}))" for d in DENSE for u in (True, False)]),
    ("sparse.bcoo_fromdense_p", [f"{S}.bcoo_fromdense_p.bind({d}, nse={n}, n_batch={b}, n_dense=0, index_dtype=jnp.dtype('int32'))" for d in DENSE for n, b in ((4, 0), (2, 1))]),
    ("sparse.bcoo_dot_general_p", over("bcoo", "bcoo_dot_general_p", f"dimension_numbers={DOT}, preferred_element_type=None, lhs_spinfo=I", ", jnp.ones((x.shape[1], 2), x.dtype)")),
    ("sparse.bcoo_spdot_general_p", [f"(lambda x, T, info: (lambda a: jnp.sort(a[0])[::-1][:3])({S}.bcoo_spdot_general_p.bind(x.data, x.indices, T.data, T.indices, dimension_numbers={DOT}, preferred_element_type=None, lhs_spinfo=info(x.shape), rhs_spinfo=info(T.shape))))(*(lambda x: (x, x.T))({S}.BCOO.fromdense({d})), lambda shape: {INFO.format(shape='shape')})" for d in DENSE]),
    ("sparse.bcoo_dot_general_sampled_p", [f"{S}.bcoo_dot_general_sampled_p.bind(i32(3, {k}), i32({k}, 4), i32({i}), dimension_numbers={DOT})" for k in (1, 2, 5) for i in ("[[0, 1], [2, 3]]", "[[1, 1]]")]),
    ("sparse.bcsr_todense_p", over("bcsr", "bcsr_todense_p", "spinfo=I")),
    ("sparse.bcsr_extract_p", [f"(lambda x: {S}.bcsr_extract_p.bind(x.indices, x.indptr, 3 * {d} + 1))({S}.BCSR.fromdense({d}))" for d in DENSE]),
    ("sparse.bcsr_fromdense_p", [f"{S}.bcsr_fromdense_p.bind({d}, nse=4, n_batch=0, n_dense=0, index_dtype=jnp.dtype('int32'))" for d in DENSE]),
    ("sparse.bcsr_dot_general_p", over("bcsr", "bcsr_dot_general_p", f"dimension_numbers={DOT}, preferred_element_type=None, lhs_spinfo=I", ", jnp.ones((x.shape[1], 2), x.dtype)")),
    *[(f"sparse.{k}_{name}", over(k, f"{k}_{name}", params, more)) for k, known in (("coo", "spinfo=I"), ("csr", "shape=x.shape")) for name, params, more in (
        ("todense_p", known, ""), ("matvec_p", f"{known}, transpose=False", ", jnp.ones(x.shape[1], x.dtype)"), ("matmat_p", f"{known}, transpose=True", ", jnp.ones((x.shape[0], 2), x.dtype)"))],
    *[(f"sparse.{k}_fromdense_p", [f"{S}.{k}_fromdense_p.bind({d}, nse=int(({d} != 0).sum()), index_dtype=jnp.dtype('int32'))" for d in DENSE]) for k in ("coo", "csr")],
    ("sparse.todense_p", [f"(lambda leaves, tree: {S}.todense_p.bind(*leaves, tree=tree))(*jax.tree_util.tree_flatten({S}.{k}.fromdense({DENSE[i]})))" for k, i in (("BCOO", 0), ("BCOO", 1), ("BCSR", 0), ("CSR", 2), ("COO", 0), ("CSC", 4))]),
    ("sparse.linalg.spsolve_p", [f"(lambda a: {S}.linalg.spsolve_p.bind(a.data, a.indices, a.indptr, f32({n}), tol=1e-6, reorder=1))({S}.CSR.fromdense({m}))" for n, m in ((2, "jnp.eye(2) * 4"), (4, "jnp.eye(4)"), (4, "jnp.diag(f32(4) + 9)"), (4, "jnp.eye(4)[::-1] * 2"), (3, "spd('f32', 3)"))]),
]  # fmt: skip

CASES: list[Case] = expressions("sparse primitives", TABLE)
