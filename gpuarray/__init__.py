"""gpuarray: array math for NVIDIA GPUs with the face of JAX."""

from gpuarray import errors as errors
from gpuarray.core.value import Array as Array
from gpuarray.jit import jit as jit
from gpuarray.staging import (
    ShapeDtypeStruct as ShapeDtypeStruct,
)
from gpuarray.staging import (
    ensure_compile_time_eval as ensure_compile_time_eval,
)
from gpuarray.staging import eval_shape as eval_shape
from gpuarray.staging import make_jaxpr as make_jaxpr

# Last: the package attribute `config` is the settings object, no longer the module of that name.
from gpuarray.config import config as config  # isort: skip

__version__ = "0.1.0"
