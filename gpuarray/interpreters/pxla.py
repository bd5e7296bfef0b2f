"""The mesh in context, where older programs of several devices look for it.

Floor 6. The parts of JAX's module that lay out programs of XLA are not here.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from gpuarray.core.mesh import Mesh
from gpuarray.core.mesh_context import entered_mesh
from gpuarray.names import explain_names as _explain_names

__all__ = ["Index", "MeshAxisName", "thread_resources"]

#: A position in an array, and the name of an axis of a mesh.
Index = tuple
MeshAxisName = Hashable


class ResourceEnv(NamedTuple):
    """The mesh that `with mesh:` has entered; one without axes otherwise."""

    physical_mesh: Mesh


class _ThreadResources:
    """`thread_resources.env` is the environment of this thread.

    >>> from gpuarray.interpreters import pxla
    >>> pxla.thread_resources.env.physical_mesh.empty
    True
    """

    @property
    def env(self) -> ResourceEnv:
        """The current environment of this thread."""
        return ResourceEnv(entered_mesh())


thread_resources = _ThreadResources()

__getattr__ = _explain_names(__name__)
