"""The primitives, by kind, each in one place with all its rules; and, for users, sums by segment.

Floor 2. Out: the public functions of segment.py.
"""

from gpuarray.ops.segment import segment_max as segment_max
from gpuarray.ops.segment import segment_min as segment_min
from gpuarray.ops.segment import segment_prod as segment_prod
from gpuarray.ops.segment import segment_sum as segment_sum
