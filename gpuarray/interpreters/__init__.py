"""The rules of primitives as tables, the way the ecosystem gives them.

Floor 6. `ad.primitive_jvps[p] = rule` and its like put a rule in its slot on the Primitive.
"""

from gpuarray.interpreters import ad as ad
from gpuarray.interpreters import batching as batching
from gpuarray.interpreters import mlir as mlir
from gpuarray.interpreters import partial_eval as partial_eval
from gpuarray.interpreters import pxla as pxla
from gpuarray.interpreters import xla as xla
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
