"""`gpuarray.scipy.optimize`: minima of functions.

Floor 6. Every public name of the modules in this folder.
"""

from gpuarray.names import explain_names as _explain_names
from gpuarray.scipy.optimize.minimize import OptimizeResults as OptimizeResults
from gpuarray.scipy.optimize.minimize import minimize as minimize

__getattr__ = _explain_names(__name__)
