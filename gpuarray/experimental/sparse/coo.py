"""`jax.experimental.sparse.coo`: the matrix type COO and its functions.

Floor 6. Re-exports names of neighbouring modules, where JAX has them.
"""

from gpuarray.experimental.sparse.matrices import COO as COO
from gpuarray.experimental.sparse.matrices import coo_fromdense as coo_fromdense
from gpuarray.experimental.sparse.matrices import coo_matmat as coo_matmat
from gpuarray.experimental.sparse.matrices import coo_matvec as coo_matvec
from gpuarray.experimental.sparse.matrices import coo_todense as coo_todense
from gpuarray.experimental.sparse.primitives import coo_fromdense_p as coo_fromdense_p
from gpuarray.experimental.sparse.primitives import coo_matmat_p as coo_matmat_p
from gpuarray.experimental.sparse.primitives import coo_matvec_p as coo_matvec_p
from gpuarray.experimental.sparse.primitives import coo_todense_p as coo_todense_p
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
