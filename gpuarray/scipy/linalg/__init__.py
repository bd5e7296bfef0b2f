"""`gpuarray.scipy.linalg`: factorisations, functions of matrices, matrices of known structure.

Floor 6. Every public name of the modules in this folder.
"""

from gpuarray.names import explain_names as _explain_names
from gpuarray.scipy.linalg.factors import cho_factor as cho_factor
from gpuarray.scipy.linalg.factors import cho_solve as cho_solve
from gpuarray.scipy.linalg.factors import cholesky as cholesky
from gpuarray.scipy.linalg.factors import det as det
from gpuarray.scipy.linalg.factors import eigh as eigh
from gpuarray.scipy.linalg.factors import hessenberg as hessenberg
from gpuarray.scipy.linalg.factors import inv as inv
from gpuarray.scipy.linalg.factors import lu as lu
from gpuarray.scipy.linalg.factors import lu_factor as lu_factor
from gpuarray.scipy.linalg.factors import lu_solve as lu_solve
from gpuarray.scipy.linalg.factors import qr as qr
from gpuarray.scipy.linalg.factors import qr_multiply as qr_multiply
from gpuarray.scipy.linalg.factors import solve as solve
from gpuarray.scipy.linalg.factors import solve_triangular as solve_triangular
from gpuarray.scipy.linalg.factors import svd as svd
from gpuarray.scipy.linalg.functions import expm as expm
from gpuarray.scipy.linalg.functions import expm_frechet as expm_frechet
from gpuarray.scipy.linalg.functions import funm as funm
from gpuarray.scipy.linalg.functions import polar as polar
from gpuarray.scipy.linalg.functions import rsf2csf as rsf2csf
from gpuarray.scipy.linalg.functions import schur as schur
from gpuarray.scipy.linalg.functions import solve_sylvester as solve_sylvester
from gpuarray.scipy.linalg.functions import sqrtm as sqrtm
from gpuarray.scipy.linalg.structured import block_diag as block_diag
from gpuarray.scipy.linalg.structured import circulant as circulant
from gpuarray.scipy.linalg.structured import companion as companion
from gpuarray.scipy.linalg.structured import convolution_matrix as convolution_matrix
from gpuarray.scipy.linalg.structured import dft as dft
from gpuarray.scipy.linalg.structured import fiedler as fiedler
from gpuarray.scipy.linalg.structured import fiedler_companion as fiedler_companion
from gpuarray.scipy.linalg.structured import hadamard as hadamard
from gpuarray.scipy.linalg.structured import hankel as hankel
from gpuarray.scipy.linalg.structured import helmert as helmert
from gpuarray.scipy.linalg.structured import hilbert as hilbert
from gpuarray.scipy.linalg.structured import invhilbert as invhilbert
from gpuarray.scipy.linalg.structured import invpascal as invpascal
from gpuarray.scipy.linalg.structured import leslie as leslie
from gpuarray.scipy.linalg.structured import pascal as pascal
from gpuarray.scipy.linalg.structured import toeplitz as toeplitz
from gpuarray.scipy.linalg.tridiagonal import eigh_tridiagonal as eigh_tridiagonal

__getattr__ = _explain_names(__name__)
