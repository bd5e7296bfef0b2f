"""The primitives: every operation, defined once with all its rules.

Floor 2. A family is a folder: elementwise, reduce, movement, indexing, contract, linalg, random,
order, collective. In it `ops` defines, `shapes` checks, `transforms` derives and batches, `host`
computes with NumPy; what families share lies beside them.
"""
