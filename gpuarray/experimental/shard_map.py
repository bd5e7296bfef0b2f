"""`shard_map` with the words it had first: `check_rep`, and `auto` for axes that are not manual.

Floor 6. Programs written before `gpuarray.shard_map` import it from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray.api.shard_map import shard_map as _shard_map
from gpuarray.names import explain_names as _explain_names
from gpuarray.util import elements as _elements


def shard_map(
    f: Callable,
    mesh: Any,
    in_specs: Any,
    out_specs: Any,
    check_rep: bool = True,
    auto: frozenset = frozenset(),
) -> Any:
    """Map a function over the pieces that the devices of a mesh hold.

    Parameters
    ----------
    f, mesh, in_specs, out_specs :
        As in `gpuarray.shard_map`.
    check_rep :
        The same as `check_vma` there.
    auto :
        The axes of the mesh along which values are laid out automatically.

    Examples
    --------

    >>> import numpy as np, gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.sharding import Mesh, PartitionSpec as P
    >>> mesh = Mesh(np.array(ga.devices()[:1]), ("x",))
    >>> shard_map(lambda v: v + 1, mesh, in_specs=P("x"), out_specs=P("x"))(gnp.arange(3))
    Array([1, 2, 3], dtype=int32)
    """
    auto = frozenset(_elements(auto, "a set of names of axes"))
    unknown = auto.difference(mesh.axis_names)
    if unknown:
        raise ValueError(
            f"shard_map auto={set(auto)} has axes that the mesh does not: {mesh.axis_names}"
        )
    return _shard_map(
        f,
        mesh=mesh,
        in_specs=in_specs,
        out_specs=out_specs,
        axis_names=frozenset(mesh.axis_names).difference(auto),
        check_vma=check_rep,
    )


__getattr__ = _explain_names(__name__)
