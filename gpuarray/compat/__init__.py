"""Programs written for JAX, unchanged: `import jax` finds this library.

Floor 6.
"""

from gpuarray.compat.install import JAX_VERSION as JAX_VERSION
from gpuarray.compat.install import install_as_jax as install_as_jax
