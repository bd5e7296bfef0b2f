"""The functions of SciPy on our arrays, by SciPy's names: `gpuarray.scipy.linalg`, `.signal`, ...

Floor 6. In: the name of a part. Out: that module, loaded on first use.
"""

from gpuarray.names import explain_names as _explain_names
from gpuarray.names import list_names as _list_names

_PARTS = (
    "cluster",
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
)

__getattr__ = _explain_names(__name__, _PARTS)
__dir__ = _list_names(__name__, _PARTS)
