"""`gpuarray.scipy.optimize`: minima of functions.

Floor 6. Every public name of the modules in this folder.
"""

from gpuarray.scipy.optimize.minimize import OptimizeResults as OptimizeResults
from gpuarray.scipy.optimize.minimize import minimize as minimize
