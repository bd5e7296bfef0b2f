"""Checkpointing and its policies under JAX's name: see `gpuarray.api.checkpoint`.

Floor 6: re-exports.
"""

from gpuarray.api.checkpoint import Offloadable as Offloadable
from gpuarray.api.checkpoint import Recompute as Recompute
from gpuarray.api.checkpoint import Saveable as Saveable
from gpuarray.api.checkpoint import checkpoint as checkpoint
from gpuarray.api.checkpoint import checkpoint_name as checkpoint_name
from gpuarray.api.checkpoint import checkpoint_policies as checkpoint_policies
from gpuarray.api.checkpoint import print_saved_residuals as print_saved_residuals
from gpuarray.api.checkpoint import remat as remat
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
