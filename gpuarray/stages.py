"""The stages of `jit` (traced, lowered, compiled) by JAX's name: see `gpuarray.functions.stages`.

Floor 6: re-exports.
"""

from gpuarray.functions.stages import ArgInfo as ArgInfo
from gpuarray.functions.stages import Compiled as Compiled
from gpuarray.functions.stages import Lowered as Lowered
from gpuarray.functions.stages import MemoryStats as MemoryStats
from gpuarray.functions.stages import ShapeDtypeStruct as ShapeDtypeStruct
from gpuarray.functions.stages import Stage as Stage
from gpuarray.functions.stages import Traced as Traced
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
