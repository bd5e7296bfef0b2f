"""Names that libraries import from below `jax._src` and that do not exist elsewhere here.

Floor 6.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.extended import ExtendedDType
from gpuarray.core.sharding import Device
from gpuarray.core.value import Array
from gpuarray.extend.core import Primitive
from gpuarray.numpy import promotion
from gpuarray.numpy.construct import asarray
from gpuarray.pytree.kinds import kinds
from gpuarray.runtime import processes
from gpuarray.runtime.array import ArrayImpl, rebuild
from gpuarray.runtime.client import Client
from gpuarray.runtime.device import in_use

#: Never bound, in JAX neither; lineax defines its transpose.
stop_gradient_p = Primitive("stop_gradient")


def unpickled(make: Callable, args: tuple, state: Any, aval: dict[str, Any]) -> ArrayImpl:
    """Restore an array from a JAX pickle: the pickle of a NumPy array, and further attributes."""
    value = make(*args)
    value.__setstate__(state)
    return rebuild(value, aval["weak_type"])


class _Node(NamedTuple):
    """How one level of a pytree is taken apart, and built again."""

    to_iter: Callable[[Any], tuple[Iterable, Any]]  # the children, and what else to know
    from_iter: Callable[[Any, Iterable], Any]


class _Registry:
    """The classes that are pytree nodes: `kind in registry`, `registry[kind].to_iter(x)`."""

    def __contains__(self, kind: type) -> bool:
        return kinds[kind] is not None

    def __getitem__(self, kind: type) -> _Node:
        if (node := kinds[kind]) is None:
            raise KeyError(kind)
        return _Node(lambda x: node.open(x)[:2], node.close)


registry = _Registry()


class _Platforms(Mapping):
    """The client of each platform in use, by its name, at the time of the lookup."""

    def _now(self) -> dict[str, Client]:
        clients = [device.client for device in in_use()]
        return {client.platform: client for client in clients}

    def __getitem__(self, name: str) -> Client:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


platforms = _Platforms()


class _GlobalState:
    """This process among those that `distributed.initialize` joined."""

    @property
    def process_id(self) -> int:
        """The number of this process."""
        return Device.here

    @property
    def num_processes(self) -> int:
        """The number of processes."""
        world = processes.world()
        return 1 if world is None else world.size

    @property
    def client(self) -> Any:
        """The other processes, as joined; None if there are none."""
        return processes.world()

    @property
    def service(self) -> None:
        """None: no process serves the others."""


global_state = _GlobalState()

#: The result of a checkified function, in annotations.
Out = TypeVar("Out")
#: A NumPy dtype, or one that NumPy does not know.
DType = np.dtype | ExtendedDType


def _arrays(promote: Callable[..., list[Any]]) -> Callable[..., list[Array]]:
    @functools.wraps(promote)
    def promoted(*xs: Any) -> list[Array]:
        # Ours hands known numbers on as they are.
        return [asarray(x) for x in promote(*xs)]

    return promoted


promote_dtypes = _arrays(promotion.promote_dtypes)
promote_dtypes_inexact = _arrays(promotion.promote_dtypes_inexact)
promote_dtypes_complex = _arrays(promotion.promote_dtypes_complex)


def physical_aval(aval: ShapedArray) -> ShapedArray:
    """The aval of an array's stored form: for keys, their words.

    >>> import gpuarray as ga
    >>> physical_aval(ga.typeof(ga.random.key(0)))
    ShapedArray(uint32[2])
    """
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        shape, dtype = aval.dtype.element
        return ShapedArray((*aval.shape, *shape), dtype)
    return aval
