"""Kinds of memory, by JAX's name.

Floor 6: a re-export.
"""

from gpuarray.core.memories import Space as Space
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
