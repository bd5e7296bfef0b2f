"""Sorts of short rows as groups: which equations a block of threads can sort in shared memory.

Floor 3. In: an equation. Out: its group; cuda/sort.py writes the kernel.
"""

from __future__ import annotations

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Var, storage_dtype
from gpuarray.core.primitive import Kind, Order
from gpuarray.core.target import TARGET


def is_short_sort(eqn: Eqn) -> bool:
    """Whether an equation sorts rows that a block holds."""
    return has_kernel(eqn) and length_of(eqn) <= TARGET.sorted_row


def is_long_top(eqn: Eqn) -> bool:
    """Whether an equation takes a few elements of rows that are longer."""
    if not (has_kernel(eqn) and takes_largest(eqn)):
        return False
    # An element and its position are one number of 64 bits.
    count = eqn.outvars[0].aval.shape[axis_of(eqn)]
    few = count <= TARGET.largest_kept and length_of(eqn) < 2**32 - 1
    return few and is_narrow(eqn.invars[0].aval)


def is_narrow(aval: ShapedArray) -> bool:
    """Whether 32 bits tell the order of elements: one number of 64 has room for a position too."""
    return storage_dtype(aval).itemsize <= 4 and dtypes.kind_of(aval.dtype) in "biuf"


def has_kernel(eqn: Eqn) -> bool:
    """Whether rows are put in order that kernels can read."""
    # A literal has no memory to load from; the library's rule takes it.
    if eqn.primitive.kind is not Kind.SORT or not all(isinstance(a, Var) for a in eqn.invars):
        return False
    if not all(dtypes.in_kernels(a.aval.dtype) for a in eqn.invars):
        return False
    # A random key is several words: there is no one value to compare.
    real = not any(
        isinstance(a.aval.dtype, dtypes.ExtendedDType) for a in eqn.invars[: keys_of(eqn)]
    )
    return real and length_of(eqn) > 0 and eqn.outvars[0].aval.size > 0


def order_of(eqn: Eqn) -> Order:
    """The sort order of an equation."""
    # Every primitive of Kind.SORT has one.
    order = eqn.primitive.order
    assert order is not None
    return order


def keys_of(eqn: Eqn) -> int:
    """How many operands decide the order."""
    keys = order_of(eqn).keys
    return 1 if keys is None else eqn.params[keys]


def takes_largest(eqn: Eqn) -> bool:
    """Whether only the largest elements are kept, with their positions."""
    return order_of(eqn).takes is not None


def axis_of(eqn: Eqn) -> int:
    """The axis along which elements are put in order."""
    return eqn.params[order_of(eqn).axis]


def length_of(eqn: Eqn) -> int:
    """The number of elements along that axis."""
    return eqn.invars[0].aval.shape[axis_of(eqn)]
