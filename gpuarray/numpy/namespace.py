"""The array API's namespace functions: version, capabilities, dtypes, devices.

Floor 6.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gpuarray.config import state
from gpuarray.core import dtypes
from gpuarray.core.sharding import Device
from gpuarray.runtime import device as devices

#: The version of the array API standard that this namespace follows.
__array_api_version__ = "2024.12"
# The standard's categories of dtypes: float16 and bfloat16, which exist here as well, are in none
# of them.
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]
# Dtypes that exist only while the setting enable_x64 is on.
_WIDE = frozenset(("int64", "uint64", "float64", "complex128"))


def array_namespace(api_version: str | None = None):
    """The array API namespace of arrays: `gpuarray.numpy`."""
    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(
            f"array API version {api_version!r} is not supported: this is {__array_api_version__}"
        )
    # Looked up, since this module is loaded before the namespace is complete.
    return sys.modules["gpuarray.numpy"]


class ArrayNamespaceInfo:
    """The capabilities of this namespace, in the standard's terms.

    >>> import gpuarray.numpy as gnp
    >>> gnp.__array_namespace_info__().default_dtypes()["real floating"]
    dtype('float32')
    """

    def capabilities(self) -> dict[str, Any]:
        """Boolean masks and results whose shape depends on values work outside `jit`."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The device that new arrays go to."""
        return devices.default_place().device

    def devices(self) -> list[Device]:
        """The devices there are."""
        return devices.devices()

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes that creation functions use: 64-bit ones with the setting enable_x64."""
        self._check(device)
        names = {
            "real floating": "float64",
            "complex floating": "complex128",
            "integral": "int64",
            "indexing": "int64",
        }
        return {kind: dtypes.canonicalize_dtype(name) for kind, name in names.items()}

    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype]:
        """The dtypes of the standard there are, by name; of some kinds only, if wanted."""
        self._check(device)
        kinds = (
            ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        )
        for word in kinds:
            if word not in _KINDS:
                raise ValueError(f"kind {word!r} is not known: expected one of {sorted(_KINDS)}")
        # A dict for the order, which a set would lose.
        names = dict.fromkeys(name for word in kinds for name in _KINDS[word])
        return {n: np.dtype(n) for n in names if state.enable_x64 or n not in _WIDE}

    def _check(self, device: Any) -> None:
        if device is not None:
            devices.place_for(device)  # raises if there is no such device


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """The capabilities of this namespace."""
    return ArrayNamespaceInfo()
