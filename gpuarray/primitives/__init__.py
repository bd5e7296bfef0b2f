"""The primitives: every operation, defined once with all its rules.

Floor 2. Each family is a folder: elementwise, reduce, movement, indexing, contract, linalg, random,
order, collective. In it `ops` has the definitions, `shapes` the shape rules, `transforms` the rules
of differentiation and batching, and `host` longer NumPy rules. Modules that families share are next
to the folders.
"""
