"""`gpuarray.scipy.sparse`: systems given as functions.

Floor 6. Its one module, `linalg`.
"""

from gpuarray.names import explain_names as _explain_names
from gpuarray.scipy.sparse import linalg as linalg

__getattr__ = _explain_names(__name__)
