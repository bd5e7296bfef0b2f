"""For those who extend the library: primitives of their own, and Graphs as data.

Floor 6.
"""

from gpuarray.extend import core as core
