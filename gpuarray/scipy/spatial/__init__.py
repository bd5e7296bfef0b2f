"""`gpuarray.scipy.spatial`: geometry.

Floor 6. Its one module, `transform`.
"""

from gpuarray.names import explain_names as _explain_names
from gpuarray.scipy.spatial import transform as transform

__getattr__ = _explain_names(__name__)
