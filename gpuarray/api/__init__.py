"""What users call: jit, the transforms, and what looks inside programs.

Floor 6. A module a concept; the public namespaces with JAX's names (`gpuarray.stages`,
`gpuarray.ref`, ...) re-export what is here.
"""
