"""`gpuarray.scipy.sparse`: systems given as functions.

Floor 6. Its one module, `linalg`.
"""

from gpuarray.scipy.sparse import linalg as linalg
