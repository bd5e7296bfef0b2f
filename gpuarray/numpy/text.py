"""Arrays as text and in files: printing options, `save` and `load`.

Floor 6. In: Arrays, file names. Out: strings, files in NumPy's formats; nothing is pickled, and
what is pickled is read only where the caller says so.
"""

from __future__ import annotations

import os
from typing import IO, Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.numpy.construct import asarray

_RAW_HALF = np.dtype("V2")

get_printoptions = np.get_printoptions
printoptions = np.printoptions
set_printoptions = np.set_printoptions


def array_repr(arr, max_line_width=None, precision=None, suppress_small=None) -> str:
    """The text of an array with its dtype, as `repr` gives it.

    >>> import gpuarray.numpy as gnp
    >>> gnp.array_repr(gnp.array([1.0, 0.3333333]), precision=2)
    'Array([1.  , 0.33], dtype=float32)'
    """
    options = {"linewidth": max_line_width, "precision": precision, "suppress": suppress_small}
    # NumPy's print options hold here too.
    given: Any = {name: v for name, v in options.items() if v is not None}
    with np.printoptions(**given):
        return repr(asarray(arr))


def array_str(a, max_line_width=None, precision=None, suppress_small=None) -> str:
    """The elements of an array as text, as `str` gives them.

    >>> import gpuarray.numpy as gnp
    >>> gnp.array_str(gnp.arange(3))
    '[0 1 2]'
    """
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)


def save(file: str | os.PathLike | IO[bytes], arr, allow_pickle: bool = True) -> None:
    """Write an array to a file in NumPy's .npy format.

    >>> import gpuarray.numpy as gnp
    >>> gnp.save("x.npy", gnp.arange(3))
    >>> gnp.load("x.npy")
    Array([0, 1, 2], dtype=int32)
    """
    np.save(file, np.asarray(arr), allow_pickle=False)


def savez(file: str | os.PathLike | IO[bytes], *args, allow_pickle: bool = True, **kwds) -> None:
    """Write arrays to one file in NumPy's .npz format, by keyword or as arr_0, arr_1 and so on.

    >>> import gpuarray.numpy as gnp
    >>> gnp.savez("xs.npz", a=gnp.arange(3))
    >>> gnp.load("xs.npz")["a"]
    array([0, 1, 2], dtype=int32)
    """
    named: Any = {name: np.asarray(x) for name, x in kwds.items()}
    np.savez(file, *map(np.asarray, args), allow_pickle=False, **named)


def load(file: str | os.PathLike | IO[bytes], *args: Any, **kwargs: Any) -> Any:
    """Read an array from a .npy file, or the archive of a .npz file; arguments are NumPy's.

    With `allow_pickle=True`, arrays of objects are read, which remain NumPy arrays. Reading a
    pickle runs arbitrary code in it: use it only for files that you trust.

    >>> import gpuarray.numpy as gnp
    >>> gnp.save("x.npy", gnp.ones(2))
    >>> gnp.load("x.npy")
    Array([1., 1.], dtype=float32)
    """
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    if found.dtype == _RAW_HALF:  # NumPy writes bfloat16 as two bytes without a name
        found = found.view(dtypes.bfloat16)
    elif found.dtype.kind == "V" and found.dtype.names is None:
        raise TypeError(
            f"the elements in this file have {found.dtype.itemsize} bytes and no type that NumPy "
            "knows. Say what they are: gpuarray.numpy.asarray(numpy.load(file).view("
            "'float8_e4m3fn')), for example."
        )
    return found if found.dtype.kind in "USMmO" else asarray(found)  # text stays with NumPy
