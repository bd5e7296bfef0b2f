"""Small libraries on top of arrays, to learn from: layers of networks, and optimizers.

Floor 6. Real programs use `optax` and `flax`, which both run here.
"""

from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__, ("optimizers", "stax"))
