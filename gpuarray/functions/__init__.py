"""Functions made of functions: jit, vmap, rules of the user's own, and the programs behind them.

Floor 6, below the namespaces of arrays, which use them. One module for each concept.
"""
