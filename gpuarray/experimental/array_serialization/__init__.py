"""Arrays in files of TensorStore: `serialization`.

Floor 6: a namespace.
"""

from gpuarray.experimental.array_serialization import serialization as serialization
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
