"""Small libraries on top of arrays, to learn from: layers of networks, and optimizers.

Floor 6. `optax` and `flax` are what programs use; both run here.
"""

from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__, ("optimizers", "stax"))
