"""The stages of `jit` (traced, lowered, compiled) under JAX's name: see `gpuarray.api.stages`.

Floor 6: re-exports.
"""

from gpuarray.api.stages import Compiled as Compiled
from gpuarray.api.stages import Lowered as Lowered
from gpuarray.api.stages import MemoryStats as MemoryStats
from gpuarray.api.stages import ShapeDtypeStruct as ShapeDtypeStruct
from gpuarray.api.stages import Stage as Stage
from gpuarray.api.stages import Traced as Traced
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
