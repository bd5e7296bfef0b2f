"""The promotion lattice: which dtype two arrays of different dtypes become.

Floor 1: imports nothing of gpuarray. In: names of nodes: dtype names, and 'int*', 'float*',
'complex*' for weakly typed values (Python scalars), which give way to any array of their kind. Out:
the least node above all of them, or None where promotion would have to guess.

Two values meet at their least upper bound. In the tables below `a: (b, c)` means that `a` converts
to `b` and to `c`. 8-bit floats and narrow integers have nothing above them, so that mixing them is
an error and never a surprise. The lattice is JAX's (see its page on type promotion).
"""

from __future__ import annotations

from functools import cache

SMALL_INTS = ("int1", "int2", "int4", "uint1", "uint2", "uint4")
INTS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
SMALL_FLOATS = (
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float4_e2m1fn",
)
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")

_STANDARD: dict[str, tuple[str, ...]] = {
    "bool": ("int*",),
    "int*": ("uint8", "int8", *SMALL_INTS),
    "uint8": ("int16", "uint16"),
    "uint16": ("int32", "uint32"),
    "uint32": ("int64", "uint64"),
    "uint64": ("float*",),
    "int8": ("int16",),
    "int16": ("int32",),
    "int32": ("int64",),
    "int64": ("float*",),
    "float*": ("complex*", "float16", "bfloat16", *SMALL_FLOATS),
    "float16": ("float32",),
    "bfloat16": ("float32",),
    "float32": ("float64", "complex64"),
    "float64": ("complex128",),
    "complex*": ("complex64",),
    "complex64": ("complex128",),
}

# Strict mode: weak values adapt to an array, and nothing else converts.
_STRICT: dict[str, tuple[str, ...]] = {
    "int*": ("float*", *INTS, *SMALL_INTS),
    "float*": ("complex*", *FLOATS, *SMALL_FLOATS),
    "complex*": COMPLEX,
}

NODES = ("bool", "int*", "float*", "complex*") + SMALL_INTS + INTS + SMALL_FLOATS + FLOATS + COMPLEX


def _closure(edges: dict[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    """Return for every node the set of nodes that it converts to, itself included."""

    # The graph has no cycles, so the recursion ends; `cache` visits each node once.
    @cache
    def above(node: str) -> frozenset[str]:
        return frozenset({node}).union(*(above(up) for up in edges.get(node, ())))

    return {node: above(node) for node in NODES}


_ABOVE = {False: _closure(_STANDARD), True: _closure(_STRICT)}


def least_upper_bound(nodes: frozenset[str], strict: bool = False) -> str | None:
    """Return the least node that all `nodes` convert to; None if there is none, or no least one.

    >>> least_upper_bound(frozenset({"uint8", "int8"}))
    'int16'
    >>> least_upper_bound(frozenset({"float16", "bfloat16", "int*"}))
    'float32'
    """
    above = _ABOVE[strict]
    common = frozenset.intersection(*(above[n] for n in nodes))
    # Every common bound is above the least one.
    return next((n for n in common if common <= above[n]), None)
