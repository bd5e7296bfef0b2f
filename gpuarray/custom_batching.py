"""Functions with a batching rule of the user's own, by JAX's name: see `gpuarray.api.custom_vmap`.

Floor 6: re-exports.
"""

from gpuarray.api.custom_vmap import custom_vmap as custom_vmap
from gpuarray.api.custom_vmap import sequential_vmap as sequential_vmap
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
