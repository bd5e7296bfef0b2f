"""The version of this library, and the version of JAX whose names and behaviour it follows.

Floor 0.
"""

__version__ = "0.1.0"
__version_info__ = tuple(map(int, __version__.split(".")))

JAX_VERSION = "0.10.2"
