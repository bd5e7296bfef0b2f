"""The version of this library.

Floor 0.
"""

__version__ = "0.1.0"
__version_info__ = tuple(map(int, __version__.split(".")))
