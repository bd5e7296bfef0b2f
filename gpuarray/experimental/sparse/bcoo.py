"""`jax.experimental.sparse.bcoo`: the array type BCOO and its functions.

Floor 6. Re-exports names of neighbouring modules, where JAX has them.
"""

from gpuarray.experimental.sparse.coordinates import BCOO as BCOO
from gpuarray.experimental.sparse.coordinates import bcoo_eliminate_zeros as bcoo_eliminate_zeros
from gpuarray.experimental.sparse.coordinates import bcoo_extract as bcoo_extract
from gpuarray.experimental.sparse.coordinates import bcoo_fromdense as bcoo_fromdense
from gpuarray.experimental.sparse.coordinates import bcoo_sort_indices as bcoo_sort_indices
from gpuarray.experimental.sparse.coordinates import bcoo_sum_duplicates as bcoo_sum_duplicates
from gpuarray.experimental.sparse.coordinates import bcoo_todense as bcoo_todense
from gpuarray.experimental.sparse.coordinates import bcoo_transpose as bcoo_transpose
from gpuarray.experimental.sparse.layouts import bcoo_broadcast_in_dim as bcoo_broadcast_in_dim
from gpuarray.experimental.sparse.layouts import bcoo_concatenate as bcoo_concatenate
from gpuarray.experimental.sparse.layouts import bcoo_reduce_sum as bcoo_reduce_sum
from gpuarray.experimental.sparse.layouts import bcoo_reshape as bcoo_reshape
from gpuarray.experimental.sparse.layouts import bcoo_rev as bcoo_rev
from gpuarray.experimental.sparse.layouts import bcoo_squeeze as bcoo_squeeze
from gpuarray.experimental.sparse.layouts import bcoo_update_layout as bcoo_update_layout
from gpuarray.experimental.sparse.primitives import bcoo_dot_general_p as bcoo_dot_general_p
from gpuarray.experimental.sparse.primitives import (
    bcoo_dot_general_sampled_p as bcoo_dot_general_sampled_p,
)
from gpuarray.experimental.sparse.primitives import bcoo_extract_p as bcoo_extract_p
from gpuarray.experimental.sparse.primitives import bcoo_fromdense_p as bcoo_fromdense_p
from gpuarray.experimental.sparse.primitives import bcoo_sort_indices_p as bcoo_sort_indices_p
from gpuarray.experimental.sparse.primitives import bcoo_spdot_general_p as bcoo_spdot_general_p
from gpuarray.experimental.sparse.primitives import bcoo_sum_duplicates_p as bcoo_sum_duplicates_p
from gpuarray.experimental.sparse.primitives import bcoo_todense_p as bcoo_todense_p
from gpuarray.experimental.sparse.primitives import bcoo_transpose_p as bcoo_transpose_p
from gpuarray.experimental.sparse.products import (
    bcoo_conv_general_dilated as bcoo_conv_general_dilated,
)
from gpuarray.experimental.sparse.products import bcoo_dot_general as bcoo_dot_general
from gpuarray.experimental.sparse.products import (
    bcoo_dot_general_sampled as bcoo_dot_general_sampled,
)
from gpuarray.experimental.sparse.products import bcoo_multiply_dense as bcoo_multiply_dense
from gpuarray.experimental.sparse.products import bcoo_multiply_sparse as bcoo_multiply_sparse
from gpuarray.experimental.sparse.slices import bcoo_dynamic_slice as bcoo_dynamic_slice
from gpuarray.experimental.sparse.slices import bcoo_gather as bcoo_gather
from gpuarray.experimental.sparse.slices import bcoo_slice as bcoo_slice
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
