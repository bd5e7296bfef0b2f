"""The folder in which compiled kernels are kept.

Floor 6.
"""

from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__, ("compilation_cache",))
