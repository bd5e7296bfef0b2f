"""`jax.experimental.sparse.api`: functions for every sparse type.

Floor 6. Re-exports names of neighbouring modules, where JAX has them.
"""

from gpuarray.experimental.sparse.creation import empty as empty
from gpuarray.experimental.sparse.creation import eye as eye
from gpuarray.experimental.sparse.creation import todense as todense
from gpuarray.experimental.sparse.primitives import todense_p as todense_p
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
