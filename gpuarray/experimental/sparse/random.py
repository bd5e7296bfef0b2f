"""`jax.experimental.sparse.random`: arrays with random elements at random places.

Floor 6. Re-exports names of neighbouring modules, where JAX has them.
"""

from gpuarray.experimental.sparse.creation import random_bcoo as random_bcoo
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
