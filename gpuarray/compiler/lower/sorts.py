"""Sorts of short rows as groups: which equations a block of threads can sort in shared memory.

Floor 3. In: an equation. Out: its group; cuda/sort.py writes the kernel.
"""

from __future__ import annotations

from gpuarray.compiler.fuse.group import Group, Load, Member, Operand
from gpuarray.compiler.target import TARGET
from gpuarray.compiler.text import types as ct
from gpuarray.core import dtypes
from gpuarray.core.graph import Eqn, Literal, Var

#: The longest rows that a block sorts.
LONGEST = TARGET.sorted_row


def is_short_sort(eqn: Eqn) -> bool:
    """Whether an equation sorts rows that a block holds."""
    name = eqn.primitive.name
    if name not in ("sort", "top_k") or not all(isinstance(a, Var) for a in eqn.invars):
        return False
    if not all(ct.has_type(a.aval) for a in eqn.invars):
        return False
    real = not any(isinstance(a.aval.dtype, dtypes.KeyDtype) for a in eqn.invars[: keys_of(eqn)])
    return real and 0 < length_of(eqn) <= LONGEST and eqn.outvars[0].aval.size > 0


def keys_of(eqn: Eqn) -> int:
    """How many operands decide the order."""
    return eqn.params.get("num_keys", 1)


def axis_of(eqn: Eqn) -> int:
    """The axis along which elements are put in order."""
    return eqn.params["dimension"] if eqn.primitive.name == "sort" else eqn.params["axis"]


def length_of(eqn: Eqn) -> int:
    """How many elements that are."""
    return eqn.invars[0].aval.shape[axis_of(eqn)]


def sort_group(eqn: Eqn, name: str) -> Group:
    """One of these equations as a group."""
    shape = eqn.invars[0].aval.shape
    dims = tuple(None if n == 1 else i for i, n in enumerate(shape))
    group = Group(list(shape), outputs=list(eqn.outvars), name=name, by_itself=True)
    operands: list[Operand] = [
        a if isinstance(a, Literal) else Load(a, (), dims, shape) for a in eqn.invars
    ]
    group.add(Member(eqn, operands, dims, dims))
    return group
