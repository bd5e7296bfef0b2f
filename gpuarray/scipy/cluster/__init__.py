"""`gpuarray.scipy.cluster`: finding groups of points.

Floor 6. Its one module, `vq`.
"""

from gpuarray.scipy.cluster import vq as vq
