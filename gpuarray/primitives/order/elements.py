"""Element rule of `searchsorted`.

Floor 2. In: equations. Out: accesses, as in core/element_rules.py.
"""

from __future__ import annotations

import numpy as np

from gpuarray.core.avals import ShapedArray
from gpuarray.core.element import Access, Address, Applied, Constant
from gpuarray.core.element_rules import ElementRule, Get, Places
from gpuarray.core.graph import Eqn
from gpuarray.core.index import Index
from gpuarray.primitives.cuda_rules import is_held


def _searchsorted(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    ordered = eqn.invars[0].aval
    if not ordered.size:  # nothing to search
        return Constant(0, eqn.outvars[0].aval)
    # The row begins at the element whose last coordinate is 0.
    first = Address.of(get(0, [*at[: ordered.ndim - 1], Index()]))
    # Floats of 16 bits and fewer are compared as float, by a flag of the helper.
    side, half = eqn.params["side"] == "right", is_held(ordered.dtype)
    # The row is searched in memory, from its first element on.
    count = ShapedArray((), np.dtype(np.uint32 if ordered.size < 2**31 else np.uint64))
    length = Constant(ordered.shape[-1], count)
    how = f"<{str(side).lower()}, {str(half).lower()}>"
    return Applied(
        (first, length, get(1, at)),
        eqn.outvars[0].aval,
        template=f"({{T}})ga_search{how}({{0}}, {{1}}, {{2}})",
        each=f"ga_search_each{how}",
    )


# The sorted array must be in memory (None); each query is read once.
SEARCHSORTED = ElementRule(
    _searchsorted, reads=lambda eqn, operand: eqn.outvars[0].aval.size if operand else None
)
