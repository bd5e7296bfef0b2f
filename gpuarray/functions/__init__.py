"""Function transformations: jit, vmap, users' own rules, and the programs they make.

Floor 6, below the namespaces of arrays, which use them. One module for each concept.
"""
