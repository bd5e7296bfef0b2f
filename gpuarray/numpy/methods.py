"""The implementations of the methods and operators of Array, which is defined on a lower floor.

Floor 6. core/value.py declares each method and looks its function up in `surface`; this module
fills `surface`. Operators get the plain functions, not the ufunc objects, to save a call.
"""

from gpuarray.core.value import surface
from gpuarray.numpy import (
    arithmetic,
    axes,
    comparison,
    construct,
    dispatch,
    functions,
    index_tricks,
    indexing,
    joining,
    namespace,
    products,
    reductions,
    selection,
    shapes,
    sorting,
    statistics,
    updates,
)
from gpuarray.runtime import transfer

_HOMES = {
    arithmetic: "abs add divmod floor_divide mod multiply negative positive power subtract "
    "true_divide",
    axes: "flip matrix_transpose swapaxes transpose",
    comparison: "bitwise_and bitwise_or bitwise_xor equal greater greater_equal invert left_shift "
    "less less_equal not_equal right_shift",
    construct: "asarray astype",
    dispatch: "array_function array_ufunc",
    functions: "clip conj imag real round",
    index_tricks: "take",
    indexing: "getitem",
    joining: "repeat unstack",
    namespace: "array_namespace",
    products: "diagonal dot matmul trace",
    reductions: "all any argmax argmin max min prod ptp sum",
    selection: "choose compress nonzero",
    shapes: "byteswap copy ravel reshape squeeze view",
    sorting: "argpartition argsort searchsorted sort",
    statistics: "cumprod cumsum mean std var",
    transfer: "device_put",
    updates: "at",
}

for _home, _names in _HOMES.items():
    for _name in _names.split():
        setattr(surface, _name, getattr(_home, _name))
