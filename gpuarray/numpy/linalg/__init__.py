"""`gpuarray.numpy.linalg`: matrix factorisations, inverses, systems of equations, norms.

Floor 6. Every public name of the modules in this folder.
"""

from gpuarray.names import explain_names as _explain_names
from gpuarray.numpy.linalg.decompositions import EighResult as EighResult
from gpuarray.numpy.linalg.decompositions import EigResult as EigResult
from gpuarray.numpy.linalg.decompositions import QRResult as QRResult
from gpuarray.numpy.linalg.decompositions import SlogdetResult as SlogdetResult
from gpuarray.numpy.linalg.decompositions import SVDResult as SVDResult
from gpuarray.numpy.linalg.decompositions import cholesky as cholesky
from gpuarray.numpy.linalg.decompositions import eig as eig
from gpuarray.numpy.linalg.decompositions import eigh as eigh
from gpuarray.numpy.linalg.decompositions import eigvals as eigvals
from gpuarray.numpy.linalg.decompositions import eigvalsh as eigvalsh
from gpuarray.numpy.linalg.decompositions import qr as qr
from gpuarray.numpy.linalg.decompositions import svd as svd
from gpuarray.numpy.linalg.decompositions import svdvals as svdvals
from gpuarray.numpy.linalg.determinants import det as det
from gpuarray.numpy.linalg.determinants import slogdet as slogdet
from gpuarray.numpy.linalg.norms import cond as cond
from gpuarray.numpy.linalg.norms import matrix_norm as matrix_norm
from gpuarray.numpy.linalg.norms import norm as norm
from gpuarray.numpy.linalg.norms import vector_norm as vector_norm
from gpuarray.numpy.linalg.products import cross as cross
from gpuarray.numpy.linalg.products import diagonal as diagonal
from gpuarray.numpy.linalg.products import matmul as matmul
from gpuarray.numpy.linalg.products import matrix_transpose as matrix_transpose
from gpuarray.numpy.linalg.products import outer as outer
from gpuarray.numpy.linalg.products import tensordot as tensordot
from gpuarray.numpy.linalg.products import trace as trace
from gpuarray.numpy.linalg.products import vecdot as vecdot
from gpuarray.numpy.linalg.systems import inv as inv
from gpuarray.numpy.linalg.systems import lstsq as lstsq
from gpuarray.numpy.linalg.systems import matrix_power as matrix_power
from gpuarray.numpy.linalg.systems import matrix_rank as matrix_rank
from gpuarray.numpy.linalg.systems import multi_dot as multi_dot
from gpuarray.numpy.linalg.systems import pinv as pinv
from gpuarray.numpy.linalg.systems import solve as solve
from gpuarray.numpy.linalg.systems import tensorinv as tensorinv
from gpuarray.numpy.linalg.systems import tensorsolve as tensorsolve

__getattr__ = _explain_names(__name__)
