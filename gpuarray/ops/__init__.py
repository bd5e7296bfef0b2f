"""Values folded by group, by JAX's name `jax.ops`.

Floor 6. Out: the public functions of segment.py.
"""

from gpuarray.ops.segment import segment_max as segment_max
from gpuarray.ops.segment import segment_min as segment_min
from gpuarray.ops.segment import segment_prod as segment_prod
from gpuarray.ops.segment import segment_sum as segment_sum
