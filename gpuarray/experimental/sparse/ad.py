"""`jax.experimental.sparse.ad`: derivatives with respect to stored elements.

Floor 6. Re-exports names of neighbouring modules, where JAX has them.
"""

from gpuarray.experimental.sparse.base import is_sparse as is_sparse
from gpuarray.experimental.sparse.derivatives import grad as grad
from gpuarray.experimental.sparse.derivatives import jacfwd as jacfwd
from gpuarray.experimental.sparse.derivatives import jacobian as jacobian
from gpuarray.experimental.sparse.derivatives import jacrev as jacrev
from gpuarray.experimental.sparse.derivatives import value_and_grad as value_and_grad
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
