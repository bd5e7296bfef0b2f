"""Public functions that are built on arrays: derivatives, checkpoints, callbacks, users' own
kernels.

Floor 6, above `functions`, `lax` and `numpy`. One module for each concept; the public namespaces
with JAX's names (`gpuarray.ref`, `gpuarray.debug`, ...) re-export them.
"""
