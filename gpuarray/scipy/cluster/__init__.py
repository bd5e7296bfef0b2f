"""`gpuarray.scipy.cluster`: finding groups of points.

Floor 6. Its one module, `vq`.
"""

from gpuarray.names import explain_names as _explain_names
from gpuarray.scipy.cluster import vq as vq

__getattr__ = _explain_names(__name__)
