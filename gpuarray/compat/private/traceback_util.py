"""`jax._src.traceback_util`: which frames of a traceback are the user's.

Floor 6. In: files that a library takes for its own. Out: whether a frame is in none of them.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from typing import Any

from gpuarray.core.tracebacks import boundary

_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_excluded: set[str] = set()


def register_exclusion(path: str) -> None:
    """Take a file's frames, or those of all files in a folder, for a library's."""
    _excluded.add(path)


def include_frame(frame: types.FrameType) -> bool:
    """Whether a frame is neither of this library nor of an excluded file."""
    name = frame.f_code.co_filename
    # By prefix: an excluded path may be a file or a folder.
    return not name.startswith((_HERE, *_excluded))


def api_boundary(fun: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    """The function, whose errors show no frames of this library."""
    return boundary(fun)
