"""`jax.experimental.sparse.util`: errors and warnings of sparse arrays.

Floor 6. Re-exports names of neighbouring modules, where JAX has them.
"""

from gpuarray.experimental.sparse.base import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from gpuarray.experimental.sparse.base import SparseEfficiencyError as SparseEfficiencyError
from gpuarray.experimental.sparse.base import SparseEfficiencyWarning as SparseEfficiencyWarning
from gpuarray.experimental.sparse.base import SparseInfo as SparseInfo
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
