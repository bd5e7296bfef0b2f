"""The platforms of this process, and its caches of compiled programs.

Floor 6. In: names of platforms. Out: their clients (`Device.client`).
"""

from __future__ import annotations

from typing import Any

from gpuarray.core.sharding import Device
from gpuarray.functions.jit import clear_caches
from gpuarray.names import explain_names as _explain_names
from gpuarray.runtime import device as devices
from gpuarray.runtime.cache import watch
from gpuarray.runtime.client import Client

__all__ = [
    "backend_xla_version",
    "backends",
    "clear_backends",
    "clear_in_memory_compilation_cache",
    "get_backend",
    "get_default_device",
    "register_backend_cache",
]


def backends() -> dict[str, Client]:
    """The client of each platform that there is, by its name.

    >>> from gpuarray.extend import backend
    >>> "cpu" in backend.backends()
    True
    """
    found = {d.platform: d.client for name in _platforms() for d in devices.devices(name)[:1]}
    return {client.platform: client for client in found.values()}


def backend_xla_version(platform: str | Client | None = None) -> int | None:
    """The version of XLA that a platform compiles with: always None.

    >>> from gpuarray.extend import backend
    >>> backend.backend_xla_version("cpu") is None
    True
    """
    get_backend(platform)  # an unknown name is an error
    return None


def _platforms() -> list[str]:
    return list(dict.fromkeys([devices.default_backend(), "cpu"]))


def get_backend(platform: str | Client | None = None) -> Client:
    """The client of a platform, at first of the default one.

    >>> from gpuarray.extend import backend
    >>> backend.get_backend("cpu").platform
    'cpu'
    """
    if isinstance(platform, Client):
        return platform
    return devices.devices(platform)[0].client


def get_default_device() -> Device:
    """The device of new arrays without another placement.

    >>> import gpuarray as ga
    >>> from gpuarray.extend import backend
    >>> backend.get_default_device() in ga.devices()
    True
    """
    return devices.default_place().device


class _Watched:
    """A cache of a library's, as those here are: emptied by `clear_caches`."""

    def __init__(self, cache: Any):
        self._cache = cache

    def turn(self) -> None:
        """No effect: libraries manage their own caches."""

    def clear(self) -> None:
        self._cache.cache_clear()


_watched: list[_Watched] = []


def register_backend_cache(cache: Any, for_what: str) -> None:
    """Empty a cache of a library's own, by its `cache_clear()`, whenever caches are cleared.

    >>> import functools
    >>> import gpuarray as ga
    >>> from gpuarray.extend import backend
    >>> @functools.cache
    ... def table(n):
    ...     return list(range(n))
    >>> _ = backend.register_backend_cache(table, "tables"), table(3)
    >>> ga.clear_caches(); table.cache_info().currsize
    0
    """
    if not callable(getattr(cache, "cache_clear", None)):
        raise TypeError(f"the cache for {for_what} must have a method cache_clear, got {cache!r}")
    # Caches are watched weakly, and this one is only known here.
    _watched.append(_Watched(cache))
    watch(_watched[-1])


def clear_in_memory_compilation_cache() -> None:
    """Drop the traced and compiled programs of all functions."""
    clear_caches()


def clear_backends() -> None:
    """Drop compiled programs; devices and arrays stay valid, since no platform's client ends
    here.
    """
    clear_caches()


__getattr__ = _explain_names(__name__)
