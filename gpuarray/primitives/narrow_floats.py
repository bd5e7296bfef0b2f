"""Functions of narrow floats by way of float32, in blocks that stay in cache.

Floor 2. In: a NumPy function. Out: the function of floats below 32 bits, computed in float32 and
rounded once. ml_dtypes' own loops for bfloat16 do the same for one element after another; here each
step, the conversion too, is a few vector instructions. NumPy's loops for float16 are as fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

#: Elements of a block; fewer are left to the type's own loops.
BLOCK = 1 << 13

#: Functions of the bits alone are faster without a conversion.
_OF_BITS = {np.abs, np.negative, np.signbit, np.copysign, np.isnan, np.isfinite, np.isinf}


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` for narrow floats: computed in float32 and rounded once.

    >>> half = np.array([1.0, 2.0], np.float16)
    >>> in_float32(np.exp)(half)
    array([2.719, 7.39 ], dtype=float16)
    """
    if function in _OF_BITS:
        return function
    own = isinstance(function, np.ufunc)

    def rule(*xs):
        arrays = [x for x in xs if x.ndim]
        size = max((x.size for x in arrays), default=1)
        # Few, or not contiguous: the type's own loops, or a single block.
        if size < BLOCK or any(x.size != size or not x.flags.c_contiguous for x in arrays):
            if own:
                return function(*xs)
            return function(*[x.astype(np.float32) for x in xs]).astype(xs[0].dtype)
        flat = [x.reshape(-1) if x.ndim else x.astype(np.float32) for x in xs]
        out = None
        for start in range(0, size, BLOCK):
            part = slice(start, start + BLOCK)
            result = function(*[x[part].astype(np.float32) if x.ndim else x for x in flat])
            if out is None:
                # A comparison gives bools, which are not converted.
                bools = own and result.dtype == np.bool_
                out = np.empty(size, np.bool_ if bools else xs[0].dtype)
            out[part] = result
        assert out is not None
        return out.reshape(arrays[0].shape)

    return rule
