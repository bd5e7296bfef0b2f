"""The version, the only remaining part of JAX's module of this name.

Floor 6: a re-export.
"""

from gpuarray.names import explain_names as _explain_names
from gpuarray.version import __version__ as __version__

__getattr__ = _explain_names(__name__)
