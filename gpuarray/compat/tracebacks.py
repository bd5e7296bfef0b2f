"""Which frames of a traceback are the user's, for libraries.

Floor 6. In: frames, functions. Out: whether a frame belongs neither to this library nor to one that
registered its files as its own (`sites.excluded`).
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from gpuarray import sites
from gpuarray.core.tracebacks import boundary
from gpuarray.extend.source_info_util import register_exclusion as register_exclusion

#: The excluded files, which a library may also take from the list again.
_exclude_paths = sites.excluded


def include_frame(frame: types.FrameType) -> bool:
    """Whether a frame belongs neither to this library nor to an excluded file."""
    return not sites.is_hidden(frame.f_code.co_filename)


def api_boundary(fun: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    """The function, whose errors show no frames of this library."""
    return boundary(fun)
