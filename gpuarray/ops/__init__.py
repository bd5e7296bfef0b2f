"""Values folded by group, by JAX's name `jax.ops`.

Floor 6. Out: the public functions of segment.py.
"""

from gpuarray.names import explain_names as _explain_names
from gpuarray.ops.segment import segment_max as segment_max
from gpuarray.ops.segment import segment_min as segment_min
from gpuarray.ops.segment import segment_prod as segment_prod
from gpuarray.ops.segment import segment_sum as segment_sum

__getattr__ = _explain_names(__name__)
