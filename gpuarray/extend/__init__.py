"""Extending the library: user-defined primitives, and Graphs as data.

Floor 6.
"""

from gpuarray.extend import core as core
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
