"""The current mesh of a thread, set by `set_mesh`, `use_abstract_mesh` or `with mesh:`.

Floor 1. In: meshes. Out: context managers, and functions that return the meshes in context.
"""

from __future__ import annotations

from typing import Any

from gpuarray.core import trace
from gpuarray.core.abstract_mesh import AbstractMesh
from gpuarray.core.mesh import EMPTY, EMPTY_ABSTRACT, Mesh, NamedSharding, PartitionSpec, contexts


def get_abstract_mesh() -> AbstractMesh:
    """The axes of the mesh in context; an empty mesh if there is none.

    >>> import gpuarray as ga
    >>> with ga.set_mesh(ga.make_mesh((1,), ("x",))):
    ...     ga.sharding.get_abstract_mesh().axis_names
    ('x',)
    """
    return contexts.abstract or EMPTY_ABSTRACT


def get_mesh() -> Mesh:
    """The mesh set by `set_mesh`; an empty mesh if there is none.

    >>> import gpuarray as ga
    >>> ga.sharding.get_mesh()
    Mesh(axis_sizes=(), axis_names=())
    """
    if not trace.is_base():
        raise ValueError(
            "`get_mesh` can only be used outside of `jit` and other transformations. Maybe you "
            "want `sharding.get_abstract_mesh()`?"
        )
    return contexts.concrete or EMPTY


def entered_mesh() -> Mesh:
    """The innermost mesh of `with mesh:`; an empty mesh if there is none."""
    return contexts.entered[-1] if contexts.entered else EMPTY


def mesh_of_new_arrays() -> Mesh | None:
    """The mesh set by `set_mesh` for new arrays without a placement, if any.

    Its axes are those of `use_abstract_mesh`. None inside `shard_map`, where arrays are pieces.
    """
    mesh, axes = contexts.concrete, contexts.abstract
    if mesh is None or axes is None or axes.manual_axes:
        return None
    # `use_abstract_mesh` may have cut the same devices into other axes.
    if axes is mesh.abstract_mesh:
        return mesh
    return Mesh(mesh.devices.reshape(axes.axis_sizes), axes.axis_names, axes.axis_types)


def sharding_in_context(
    spec: PartitionSpec,
    what: str,
    argument: str,
    entered: bool = True,
    error: type[Exception] = ValueError,
) -> NamedSharding:
    """Return a PartitionSpec as a sharding over the mesh in context; an error if there is none.

    The mesh is that of `set_mesh` with the axes of `use_abstract_mesh`; else, if `entered` is true,
    that of `with mesh:`.
    """
    concrete, abstract = contexts.concrete, contexts.abstract
    # A mesh with devices, unless `use_abstract_mesh` has changed its axes since.
    mesh: Mesh | AbstractMesh = concrete or abstract or EMPTY
    if concrete is not None and abstract is not None and abstract != concrete.abstract_mesh:
        mesh = abstract
    if mesh.empty and entered:
        mesh = entered_mesh()
    if mesh.empty:
        raise error(
            f"{what} requires a non-empty mesh in context if you are passing `PartitionSpec`s to "
            f"{argument}, got {spec}. Please set a mesh via `jax.set_mesh` if a PartitionSpec is "
            f"passed to {what}, or pass NamedSharding(mesh, spec)."
        )
    return NamedSharding(mesh, spec)


class set_mesh:
    """Set the current mesh of this thread, permanently or for a `with` block; None clears it.

    >>> import gpuarray as ga
    >>> with ga.set_mesh(ga.make_mesh((1,), ("x",))):
    ...     dict(ga.sharding.get_mesh().shape)
    {'x': 1}
    """

    __slots__ = ("_before",)

    def __init__(self, mesh: Mesh | None):
        if not (mesh is None or isinstance(mesh, Mesh)):
            raise ValueError(f"Expected mesh of type `sharding.Mesh`. Got {type(mesh)}")
        if not trace.is_base():
            raise ValueError(
                "`set_mesh` can only be used outside of `jit` and other transformations."
            )
        if mesh is not None and mesh.manual_axes:
            raise ValueError(
                f"mesh {mesh} contains manual axes which is not allowed when using `set_mesh`. "
                "Axes become manual inside of `shard_map`."
            )
        # At the call, not in `__enter__`: a bare call sets the mesh for good, and a `with` block
        # undoes it.
        self._before = (contexts.abstract, contexts.concrete)
        try:
            if mesh is None or mesh.empty:
                contexts.change(abstract=None, concrete=None)
            else:
                contexts.change(abstract=mesh.abstract_mesh, concrete=mesh)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        abstract, concrete = self._before
        contexts.restore(abstract=abstract, concrete=concrete)


class use_abstract_mesh:
    """Set the axes of the mesh in context for a `with` block.

    >>> from gpuarray import sharding
    >>> with sharding.use_abstract_mesh(sharding.AbstractMesh((4,), ("x",))):
    ...     sharding.get_abstract_mesh().size
    4
    """

    __slots__ = ("_block", "_mesh")

    def __init__(self, mesh: AbstractMesh):
        if not isinstance(mesh, AbstractMesh):
            raise ValueError(
                f"Expected mesh of type `sharding.AbstractMesh`. Got type: {type(mesh)}"
            )
        self._mesh = mesh

    def __enter__(self) -> None:
        outer = get_abstract_mesh()
        if self._mesh.size != outer.size and not (self._mesh.empty or outer.empty):
            raise ValueError(
                "use_abstract_mesh cannot change the size of the mesh. Got new mesh: "
                f"{self._mesh} with size={self._mesh.size} and prev mesh: {outer} with "
                f"size={outer.size}"
            )
        # Here and not in `__init__`: the same object may be entered again, later.
        abstract = None if self._mesh is EMPTY_ABSTRACT else self._mesh
        self._block = contexts.changed(abstract=abstract)
        self._block.__enter__()

    def __exit__(self, *exc: Any) -> None:
        self._block.__exit__(*exc)
