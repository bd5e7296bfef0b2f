"""Trees of containers: what is a node, how a tree is taken apart and put together again.

Floor 1. kinds.py knows the types, structure.py flattens, registration.py takes the users'
own types, tree.py has what is built on these (map, paths, prefixes) and is what others import.
"""
