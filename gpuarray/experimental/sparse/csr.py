"""`jax.experimental.sparse.csr`: the matrix types CSR and CSC, and their functions.

Floor 6. Re-exports names of neighbouring modules, where JAX has them.
"""

from gpuarray.experimental.sparse.matrices import CSC as CSC
from gpuarray.experimental.sparse.matrices import CSR as CSR
from gpuarray.experimental.sparse.matrices import csr_fromdense as csr_fromdense
from gpuarray.experimental.sparse.matrices import csr_matmat as csr_matmat
from gpuarray.experimental.sparse.matrices import csr_matvec as csr_matvec
from gpuarray.experimental.sparse.matrices import csr_todense as csr_todense
from gpuarray.experimental.sparse.primitives import csr_fromdense_p as csr_fromdense_p
from gpuarray.experimental.sparse.primitives import csr_matmat_p as csr_matmat_p
from gpuarray.experimental.sparse.primitives import csr_matvec_p as csr_matvec_p
from gpuarray.experimental.sparse.primitives import csr_todense_p as csr_todense_p
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
