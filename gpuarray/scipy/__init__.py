"""The functions of SciPy on our arrays, by SciPy's names: `gpuarray.scipy.linalg`, `.signal`, ...

Floor 6. In: the name of a part. Out: that module, loaded when it is first asked for.
"""

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


def __getattr__(name: str):
    if name in _PARTS:
        import importlib

        return importlib.import_module(f"gpuarray.scipy.{name}")
    raise AttributeError(f"module 'gpuarray.scipy' has no attribute {name!r}")


def __dir__():
    return [*globals(), *_PARTS]
