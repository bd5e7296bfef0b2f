"""`gpuarray.scipy.spatial`: geometry.

Floor 6. Its one module, `transform`.
"""

from gpuarray.scipy.spatial import transform as transform
