"""The version of JAX whose names are followed, where libraries look for it.

Floor 6.
"""

from gpuarray.compat.install import JAX_VERSION as __version__

__version_info__ = tuple(map(int, __version__.split(".")))
