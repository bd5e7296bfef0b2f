"""Modules of `experimental.sparse` under JAX's names: the same objects as in the package."""

import importlib
import inspect

import pytest

from gpuarray.experimental import sparse

#: Names that libraries import from the modules of `jax.experimental.sparse` (JAX 0.10.2).
WHERE = {
    "ad": "grad is_sparse jacfwd jacobian jacrev value_and_grad",
    "api": "empty eye todense todense_p",
    "bcoo": "BCOO bcoo_broadcast_in_dim bcoo_concatenate bcoo_conv_general_dilated"
    " bcoo_dot_general bcoo_dot_general_p bcoo_dot_general_sampled bcoo_dot_general_sampled_p"
    " bcoo_dynamic_slice bcoo_eliminate_zeros bcoo_extract bcoo_extract_p bcoo_fromdense"
    " bcoo_fromdense_p bcoo_gather bcoo_multiply_dense bcoo_multiply_sparse bcoo_reduce_sum"
    " bcoo_reshape bcoo_rev bcoo_slice bcoo_sort_indices bcoo_sort_indices_p bcoo_spdot_general_p"
    " bcoo_squeeze bcoo_sum_duplicates bcoo_sum_duplicates_p bcoo_todense bcoo_todense_p"
    " bcoo_transpose bcoo_transpose_p bcoo_update_layout",
    "coo": "COO coo_fromdense coo_fromdense_p coo_matmat coo_matmat_p coo_matvec coo_matvec_p"
    " coo_todense coo_todense_p",
    "csr": "CSC CSR csr_fromdense csr_fromdense_p csr_matmat csr_matmat_p csr_matvec csr_matvec_p"
    " csr_todense csr_todense_p",
    "random": "random_bcoo",
    "util": "CuSparseEfficiencyWarning SparseEfficiencyError SparseEfficiencyWarning SparseInfo",
}


@pytest.mark.parametrize("name", WHERE)
def test_names(name):
    module = importlib.import_module(f"gpuarray.experimental.sparse.{name}")
    assert getattr(sparse, name) is module
    for each in WHERE[name].split():
        found = getattr(module, each)
        assert found is getattr(sparse, each, found)
        assert callable(found) or inspect.isclass(found) or each.endswith("_p")
