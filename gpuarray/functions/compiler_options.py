"""Options that programs written for JAX give to XLA's compiler.

Floor 6. In: `compiler_options` of jit and compile. Out: a warning, or an error for other names.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from gpuarray.sites import level_of_user
from gpuarray.util import wrong_type
from gpuarray.xla_settings import XLA_SETTINGS


def check_options(options: Mapping[str, Any] | None) -> None:
    """Take `compiler_options`: XLA's own with a warning that they have no effect, no others."""
    if options is None:
        return
    if not isinstance(options, Mapping):
        raise wrong_type(options, "a dict, of options by name")
    if not options:
        return
    for name in options:
        if not str(name).startswith("xla_") and name not in XLA_SETTINGS:
            raise ValueError(
                f"No such compile option: {name!r}. Options in compiler_options tune XLA, and have "
                "no effect here; what gpuarray has to set, such as `fusion`, is a setting: "
                "gpuarray.config.update(name, value)."
            )
    names = ", ".join(options)
    warnings.warn(
        f"compiler_options tune XLA and have no effect in gpuarray: {names}",
        stacklevel=level_of_user(),
    )
