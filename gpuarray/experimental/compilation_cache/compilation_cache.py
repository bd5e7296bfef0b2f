"""Where compiled kernels are kept from one process to the next.

Floor 6. In: a folder. Out: the equivalent setting `jax_compilation_cache_dir`.
"""

from __future__ import annotations

import os
from typing import Any

from gpuarray import util
from gpuarray.config import config
from gpuarray.names import explain_names as _explain_names


def set_cache_dir(path: Any) -> None:
    """Keep compiled kernels in this folder, which is made when the first one is compiled.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental.compilation_cache import compilation_cache
    >>> compilation_cache.set_cache_dir("kernels")
    >>> ga.config.jax_compilation_cache_dir
    'kernels'
    >>> compilation_cache.reset_cache()
    """
    if not isinstance(path, (str, os.PathLike)):
        raise util.wrong_type(path, "the path of a folder")
    config.update("jax_compilation_cache_dir", os.fspath(path))


def reset_cache() -> None:
    """Go back to the folder without `set_cache_dir`: the setting cache_dir, or the user's cache
    folder.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental.compilation_cache import compilation_cache
    >>> compilation_cache.reset_cache()
    >>> ga.config.jax_compilation_cache_dir is None
    True
    """
    config.update("jax_compilation_cache_dir", None)


__getattr__ = _explain_names(__name__)
