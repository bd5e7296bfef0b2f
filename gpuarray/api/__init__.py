"""What users call that is made with arrays: derivatives, checkpoints, callbacks, their own kernels.

Floor 6, above `functions`, `lax` and `numpy`. A module a concept; the public namespaces with JAX's
names (`gpuarray.ref`, `gpuarray.debug`, ...) re-export what is here.
"""
