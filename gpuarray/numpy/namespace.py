"""What the array API standard asks of a namespace.

Floor 6.
"""

from __future__ import annotations

import sys

#: The version of the array API standard that this namespace follows.
__array_api_version__ = "2024.12"


def array_namespace(api_version: str | None = None):
    """The namespace that goes with arrays: `gpuarray.numpy`."""
    if api_version is not None and api_version not in ("2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(
            f"array API version {api_version!r} is not supported: this is {__array_api_version__}"
        )
    return sys.modules["gpuarray.numpy"]
