"""`jax._src.dispatch`: the wait at the end of a process.

Floor 6.
"""

from gpuarray.runtime.transfer import effects_barrier as wait_for_tokens

__all__ = ["wait_for_tokens"]
