"""Trees of containers: which types are nodes, and how trees are flattened and rebuilt.

Floor 1. kinds.py has the node types, structure.py flattens, registration.py registers users' types,
differences.py finds where two trees differ, and tree.py builds on these (map, paths, prefixes); it
is the module that others import.
"""
