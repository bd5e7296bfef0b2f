"""The options `device`, `in_shardings` and `out_shardings` of `jit`.

Floor 6. In: those options. Out: the device or devices that the compiled function runs on, which
arguments may be moved to them, and the declared sharding of each result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from gpuarray.control.call import same_device
from gpuarray.core.abstract_mesh import AbstractMesh
from gpuarray.core.avals import ShapedArray
from gpuarray.core.formats import Format
from gpuarray.core.formats import Layout as MemoryLayout
from gpuarray.core.graph import Graph
from gpuarray.core.mesh import Mesh, NamedSharding, PartitionSpec, contexts
from gpuarray.core.mesh_context import EMPTY, entered_mesh, get_mesh, sharding_in_context
from gpuarray.core.sharding import Device, Place, Sharding, laid_out, one_device, place_of
from gpuarray.core.spec import UNCONSTRAINED, names_of
from gpuarray.pytree import tree
from gpuarray.runtime import device as devices
from gpuarray.runtime import lazy, pieces, spread
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.execute import Constants, Executable, launch
from gpuarray.runtime.moves import to_place
from gpuarray.transforms.tracing import TracedFunction


class _Unspecified:
    """The default of in_shardings and out_shardings, which None is not: see `Prefix`."""

    def __repr__(self) -> str:
        return "UNSPECIFIED"


UNSPECIFIED = _Unspecified()


class Prefix(NamedTuple):
    """Shardings as a prefix of a pytree, in a form that can be hashed."""

    name: str
    leaves: tuple[Sharding | PartitionSpec | Format | None, ...]
    spec: Any

    def over(
        self, full: Any, avals: Sequence[ShapedArray], what: str, names: Sequence[str]
    ) -> list[Sharding | None]:
        """The sharding of every leaf of `full`; a ValueError if it does not fit."""
        prefix = tree.tree_unflatten(self.spec, [self._meant(leaf, what) for leaf in self.leaves])
        if self.name == "in_shardings":
            _check_tuple(prefix, full, f"{what} {self.name}")
        # None is a leaf here, not an empty container.
        found = tree.prefix_broadcast(prefix, full, _ends, f"{what} {self.name}")
        kind = "arguments" if self.name == "in_shardings" else "outputs"
        for i, (sharding, aval, name) in enumerate(zip(found, avals, names, strict=True)):
            if isinstance(sharding, Format):
                one = f"One of {what} {kind} with pytree key path {name}"
                sharding = found[i] = self._meant(sharding.sharding_of(aval.shape, one), what)
            if isinstance(sharding, NamedSharding):
                _check_fits(sharding, aval, f"{what} {kind}", name)
        return found

    def _meant(self, leaf: Any, what: str) -> Any:
        """Return a leaf as a sharding over devices; the sharding of a Format is read later."""
        if leaf is None:
            # `pjit` under `with mesh:` reads it as the same on all devices, all else as open.
            mesh = entered_mesh() if what == "pjit" else EMPTY
            return None if mesh.empty else NamedSharding(mesh, PartitionSpec())
        if isinstance(leaf, PartitionSpec):
            with_mesh = what == "pjit"
            leaf = sharding_in_context(leaf, what, self.name, with_mesh, RuntimeError)
        if is_abstract(leaf):
            # Of the devices in context; or of those that `Lowered.compile` is given later.
            mesh = get_mesh() if contexts.concrete else None
            if mesh is not None and mesh.abstract_mesh.shape_tuple == leaf.mesh.shape_tuple:
                leaf = leaf.update(mesh=mesh)
        return leaf


class ShardingOptions(NamedTuple):
    """Where a jitted function runs according to its options: part of its cache key.

    `device` comes from `device=` or `backend=`, which move every argument, even committed ones.
    """

    device: Device | None
    ins: Prefix | None = None
    outs: Prefix | None = None
    what: str = "jit"

    def for_arguments(
        self, args: tuple, kwargs: dict, avals: Sequence[ShapedArray], names: Sequence[str]
    ) -> list[Sharding | None]:
        """The shardings of arguments of this structure; None where the options leave them open."""
        if self.ins is None:
            return [None] * len(avals)
        # in_shardings are a prefix of the positional arguments: there is no place for names in
        # it.
        if kwargs:
            raise ValueError(
                f"{self.what} does not support kwargs when in_shardings is specified: pass all "
                "arguments by position."
            )
        return self.ins.over(args, avals, self.what, names)

    def for_call(
        self, args: tuple, kwargs: dict, result: Any, graph: Graph, names: Sequence[str]
    ) -> Where | None:
        """Shardings of arguments and results of these structures; None if the options leave them
        open.
        """
        ins = self.for_arguments(args, kwargs, graph.in_avals, names)
        outs: list[Sharding | None] = [None] * len(graph.outvars)
        if self.outs is not None:
            paths = [f"result{path}" for path in tree.leaf_paths(result)]
            outs = self.outs.over(result, graph.out_avals, self.what, paths)
        # One device, or one set of devices, for all requests: by `device=`, by shardings, and by
        # the mesh in context.
        named = [s for s in (*ins, *outs) if s is not None]
        if any(map(is_abstract, named)):
            return Where(None, False, tuple(ins), tuple(outs), _mesh_of(self.what))
        device = self.device
        around = _mesh_of(self.what, spread=False)
        if device is not None and around is not None:
            raise ValueError(
                "Mesh context manager should not be used with jit when backend or device is also "
                f"specified as an argument to jit: got {device} and {around}"
            )
        mesh = _mesh_of(self.what)
        if device is None and not named and mesh is None:
            return None
        # Shardings may list the devices in any order, but they must be the same ones.
        sets = {frozenset(s.device_set): s for s in named}
        # Several single devices are checked below: `same_device` names the two.
        if len(sets) > 1 and any(len(devices) > 1 for devices in sets):
            raise ValueError(
                f"Received incompatible devices for jitted computation: its shardings ask "
                f"for {' and for '.join(map(str, sets.values()))}"
            )
        if (device is None and mesh is not None) or any(s.num_devices > 1 for s in named):
            device = None
        else:
            # All that is named has to be one and the same device.
            for sharding in named:
                device = same_device(device, one_device(sharding, self.what))
        return Where(device, self.device is not None, tuple(ins), tuple(outs), mesh)


class Where(NamedTuple):
    """For one kind of call the device (None: several), whether arguments are moved there from any
    other device, the given shardings of flat arguments and results, and the mesh in context.
    """

    device: Device | None
    moved: bool
    ins: tuple[Sharding | None, ...]
    outs: tuple[Sharding | None, ...]
    mesh: Mesh | None

    @property
    def abstract(self) -> list[NamedSharding]:
        """The shardings without devices: such a program can be lowered, not run."""
        return [s for s in (*self.ins, *self.outs) if is_abstract(s)]

    def check_runs(self) -> None:
        """Refuse to run a program if some of its shardings have no devices."""
        if abstract := self.abstract:
            raise ValueError(
                f"jit got the sharding {abstract[0]} over an AbstractMesh, which has no devices. "
                "Set the mesh of devices that it stands for with gpuarray.set_mesh(mesh), or give "
                "them to jit(f).lower(...).compile(device_assignment=devices)."
            )

    def over(self, given: Sequence[Device]) -> Where:
        """Return the same with these devices for those that no sharding names."""
        ins, outs = (tuple(with_devices(s, given) for s in row) for row in (self.ins, self.outs))
        return self._replace(device=given[0] if len(given) == 1 else None, ins=ins, outs=outs)

    def places(self, avals: Sequence[ShapedArray]) -> list[Place]:
        """Return the Place of each result, of these types, of a program for one device."""
        assert self.device is not None
        there = devices.place_for(self.device)
        return [
            there.holding(a) if s is None else devices.place_for(s)
            for s, a in zip(self.outs, avals, strict=True)
        ]


def is_abstract(sharding: Any) -> TypeGuard[NamedSharding]:
    """Whether a sharding is over the axes of a mesh, and names no devices."""
    return isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh)


def with_devices(sharding: Any, given: Sequence[Device]) -> Any:
    """Return a sharding without devices over the given ones; any other one unchanged."""
    if not is_abstract(sharding):
        return sharding
    mesh = sharding.mesh
    if mesh.size != len(given):
        raise ValueError(
            f"The size of abstract mesh {mesh.size} in {mesh} must match the length of device "
            f"assignment: {len(given)}"
        )
    shaped = np.array(given, dtype=object).reshape(mesh.axis_sizes)
    return sharding.update(mesh=Mesh(shaped, mesh.axis_names, mesh.axis_types))


def run(
    executable: Executable,
    inputs: list[ArrayImpl],
    donated: frozenset[int],
    where: Where | None,
    constants: Constants,
    info: TracedFunction | None = None,
) -> list[ArrayImpl]:
    """The results of a program: where its inputs are, or where `where` and the program say."""
    if where is None:
        return _run(executable, inputs, donated, where, constants, info)
    # Move only arguments with a given sharding; donated originals are deleted.
    laid = [
        x if s is None else _given_as(x, s, i)
        for i, (x, s) in enumerate(zip(inputs, where.ins, strict=True))
    ]
    found = _run(executable, laid, donated, where, constants, info)
    delete_moved(inputs, laid, donated)
    return found


def delete_moved(given: Sequence[Any], laid: Sequence[Any], donated: frozenset[int]) -> None:
    """Delete donated arguments that the program received as resharded copies."""
    for i in donated:
        if type(given[i]) is ArrayImpl and given[i] is not laid[i]:
            given[i]._bufs = None


def _run(
    executable: Executable,
    inputs: list[ArrayImpl],
    donated: frozenset[int],
    where: Where | None,
    constants: Constants,
    info: TracedFunction | None,
) -> list[ArrayImpl]:
    mesh = _mesh_of("jit", spread=False) if where is None else where.mesh
    if mesh is not None:
        _check_in_context(inputs, mesh, info)
    # The common place of the inputs, apart from those that may be moved.
    place = None
    device = same_device(executable.device, None if where is None else where.device)
    for x in inputs:
        # With device= every argument is moved, so their places do not matter.
        if where is None or not where.moved:
            if place is None:
                place = x._place
            elif x._place is not place:
                if x._place.committed and place.committed and x._place.devices != place.devices:
                    raise _incompatible(inputs, info)
                place = lazy.common_place(place, x._place)
    # A requested device wins, unless an input is committed to another one.
    if device is not None:
        chosen = place_of(device, True)
        if place is not None:
            lazy.common_place(place, chosen)  # raises
        place = chosen
    # No inputs, or all moved, or none committed: the mesh in context decides.
    else:
        place = spread.place_of_work(place)
    # Deleted inputs raise here, before anything is launched.
    for x in inputs:
        if x.is_deleted():
            x._buffers()  # raises
    over = [m for m in executable.meshes if isinstance(m, Mesh) and m.is_spread]
    if where is not None and where.device is not None and over:
        raise ValueError(
            "Received incompatible devices for jitted computation. Got explicit output sharding "
            f"with device ids [{where.device.id}], by an option of jit, and a part of the "
            "function, such as shard_map or sharding_constraint inside jit with device ids "
            f"{[d.id for d in over[0].devices.flat]}. Leave device= (or the sharding on one "
            "device) out."
        )
    # Run pending operations first: the program may donate their inputs.
    lazy.flush_all()
    if constants.over is not None:
        constants = constants.beside(_settled(executable, where, place))
    if _spreads(executable, constants, where, place):
        wanted = [None] * len(executable.out_avals) if where is None else where.outs
        try:
            return spread.run(executable, inputs, wanted, donated, constants.values)
        except spread.OnOtherDevices as error:
            # A constant of the program, which no argument of the user's is to blame for.
            if error.number >= len(inputs):
                raise
            raise ValueError(
                "Received incompatible devices for jitted computation. Got "
                f"{_named(error.number, inputs[error.number], info)} and {error.program}"
            ) from None
    # Results are placed as requested, or like the inputs, in the memory space of their types.
    avals = executable.out_avals
    places = [place.holding(a) for a in avals] if where is None else where.places(avals)
    # Results exist immediately, without buffers; the launch fills them in.
    arrays = [ArrayImpl(p.typed(a), p, None) for a, p in zip(avals, places, strict=True)]
    launch(executable, inputs, arrays, place, donated, constants=constants)
    return arrays


def _settled(executable: Executable, where: Where | None, place: Place) -> tuple[Device, ...]:
    """Return the devices of a program if they do not depend on its constants; () otherwise."""
    if where is not None and where.device is not None:
        return (where.device,)
    if place.committed:
        return place.all_devices
    said = () if where is None else (*where.ins, *where.outs)
    meshes = [s.mesh for s in said if isinstance(s, NamedSharding)]
    meshes += [] if where is None or where.mesh is None else [where.mesh]
    return next((m._flat for m in (*meshes, *executable.meshes) if isinstance(m, Mesh)), ())


def _spreads(
    executable: Executable, constants: Constants, where: Where | None, place: Place
) -> bool:
    """Whether a program runs over several devices, given the place its inputs agree on."""
    if executable.meshes or place.is_spread:
        return True
    if where is not None:
        return where.device is None
    if constants.over is not None:
        return True
    # `set_mesh` determines where programs with uncommitted inputs run.
    return _mesh_of("jit") is not None and not place.committed and executable.device is None


def team_for(
    executable: Executable,
    places: Sequence[Place | None],
    where: Where | None,
    constants: Constants,
) -> spread.Team | None:
    """Return the Team that runs a program over several devices for inputs in these places; None for
    one.
    """
    places = list(places)
    wanted: Sequence[Sharding | None] = [None] * len(executable.out_avals)
    if where is not None:
        wanted = where.outs
        places = [
            p if s is None or where.device is not None else laid_out(s)
            for p, s in zip(places, where.ins, strict=True)
        ]
    # The same decision as in `_run`, from places alone: there are no arrays yet.
    common = devices.default_place()
    for place in places:
        common = common if place is None else lazy.common_place(common, place)
    if constants.over is not None:
        constants = constants.beside(_settled(executable, where, common))
    if not _spreads(executable, constants, where, common):
        return None
    behind = spread.places_of_constants(constants.values)
    return spread.team_of(executable, (*places, *behind), wanted)


def _incompatible(inputs: Sequence[ArrayImpl], info: TracedFunction | None) -> ValueError:
    """Return the error for arguments that were put on different devices: it names two of them."""
    put = [i for i, x in enumerate(inputs) if x._place.committed]
    first = put[0]
    other = next(i for i in put if inputs[i]._place.devices != inputs[first]._place.devices)
    return ValueError(
        "Received incompatible devices for jitted computation. Got "
        f"{_named(first, inputs[first], info)} and {_named(other, inputs[other], info)}. Move one "
        "of them with gpuarray.device_put."
    )


def _check_in_context(inputs: Sequence[ArrayImpl], mesh: Mesh, info: TracedFunction | None) -> None:
    """Refuse arguments committed to other devices than those of the mesh in context."""
    for i, x in enumerate(inputs):
        if x._place.committed and {*x._place.all_devices} != {*mesh._flat}:
            raise ValueError(
                "Received incompatible devices for jitted computation. Got "
                f"{_named(i, x, info)} and the mesh in context with device ids "
                f"{[d.id for d in mesh._flat]}. Move it with gpuarray.device_put, or call the "
                "function outside of set_mesh."
            )


def _named(i: int, x: ArrayImpl, info: TracedFunction | None) -> str:
    """Return an argument's name in messages, with its place."""
    name = info.arg_names[i] if info is not None else f"number {i}"
    function = "" if info is None else f" of {info.name}"
    return (
        f"argument {name}{function} with shape {x.aval.str_short()} and device ids "
        f"{[d.id for d in x._place.devices]} on platform {x._place.device.platform.upper()}"
    )


def sharding_options(
    target: Any, in_shardings: Any, out_shardings: Any, what: str = "jit"
) -> ShardingOptions | None:
    """The options of `jit`, checked and combined; None if none is given."""
    device = None if target is None else devices.place_for(target).device
    # The arguments are a tuple.
    ins = _prefix(
        "in_shardings", tuple(in_shardings) if type(in_shardings) is list else in_shardings, what
    )
    outs = _prefix("out_shardings", out_shardings, what)
    for given in (ins, outs):
        if given is None or target is None:
            continue
        raise ValueError(
            f"If backend or device is specified on jit, then {given.name} should not be specified. "
            f"Got device or backend {target!r}"
        )
    if device is None and ins is None and outs is None and what == "jit":
        return None
    return ShardingOptions(device, ins, outs, what)


def same_pieces(a: Place, b: Place, shape: tuple[int, ...]) -> bool:
    """Whether two places hold the same piece of an array of this shape on every device."""
    if a.sharding._is_terms or b.sharding._is_terms:
        return a.sharding.is_equivalent_to(b.sharding, len(shape))
    return a.all_devices == b.all_devices and pieces.regions(a, shape) == pieces.regions(b, shape)


def _given_as(x: ArrayImpl, sharding: Sharding, number: int) -> ArrayImpl:
    """Return an argument with the sharding of in_shardings: uncommitted arrays are moved, and
    arrays on one device to another.
    """
    place = laid_out(sharding)
    if x._place.committed and x._place.kind != place.kind:
        raise _other_memory(place.kind, x)
    if not x._place.committed or (x._place.is_single and place.is_single):
        return to_place(x, place)
    if not same_pieces(x._place, place, x.shape):
        raise ValueError(
            "Sharding passed to jit does not match the sharding on the respective arg. Got "
            f"sharding: {sharding}, and arg sharding: {x.sharding}, with arg shape: {x.shape}, "
            f"flat argument {number}. Move it with gpuarray.device_put(x, sharding), or leave its "
            "in_shardings None."
        )
    return x


def _other_memory(kind: str, x: Any) -> ValueError:
    return ValueError(
        "Memory kinds passed to jax.jit does not match memory kind on the respective arg. Got jit "
        f"memory kind: {kind}, arg memory kind: {x._place.kind} for arg type: "
        f"{x.aval.str_short()}. Move it with gpuarray.device_put, or leave its in_shardings None."
    )


def _ends(x: Any) -> bool:
    return x is None or isinstance(x, (Sharding, PartitionSpec, Format, MemoryLayout))


def _prefix(name: str, shardings: Any, what: str) -> Prefix | None:
    if shardings is UNSPECIFIED:
        return None
    # Checked when `jit` is called, before any argument is known.
    leaves, spec = tree.tree_flatten(shardings, _ends)
    # The default of all arguments may be given explicitly for some of them.
    leaves = [None if leaf is UNSPECIFIED else leaf for leaf in leaves]
    for leaf in leaves:
        if isinstance(leaf, MemoryLayout):
            raise ValueError(
                f"`{what}` does not accept a Layout without a sharding in {name}: wrap it, as in "
                f"Format(layout, sharding). Got {leaf}"
            )
        if not _ends(leaf):
            raise TypeError(
                f"{name} leaf specifications are expected to be PartitionSpec instances or None, "
                f"but got {leaf}. A Sharding is right, too."
            )
        if isinstance(leaf, NamedSharding) and leaf.mesh.empty:
            raise ValueError(
                f"One of {name} leaf specifications got an empty NamedSharding: {leaf} which is "
                "not allowed. Its mesh has no devices."
            )
        parts = leaf.spec if isinstance(leaf, NamedSharding) else leaf
        if isinstance(leaf, PartitionSpec):
            _check_once(leaf, name)
        if isinstance(parts, PartitionSpec) and UNCONSTRAINED in parts.partitions:
            raise ValueError(
                f"Unconstrained dims are not allowed when passed to {what} {name}: {leaf}. "
                "with_sharding_constraint takes them."
            )
    return Prefix(name, tuple(leaves), spec)


def _check_tuple(prefix: Any, args: tuple, name: str) -> None:
    """Refuse in_shardings that are not a tuple with an element for each argument."""
    if _ends(prefix) or (type(prefix) is tuple and len(prefix) == len(args)):
        return
    if type(prefix) is not tuple:
        problem = f"is not a tuple: got {type(prefix)} instead."
    else:
        problem = (
            f"is the wrong length: got a tuple or list of length {len(prefix)} for an args tuple "
            f"of length {len(args)}."
        )
    if len(args) == 1:
        problem += (
            f" It looks like {name} might need to be wrapped in a singleton tuple: (in_shardings,)."
        )
    raise ValueError(
        f"{name} specification must be a tree prefix of the positional arguments tuple. In "
        f"particular, {name} must either be a Sharding, a PartitionSpec, or a tuple of length "
        f"equal to the number of positional arguments. But {name} {problem}"
    )


def _check_once(spec: PartitionSpec, name: str) -> None:
    """Refuse a spec that no mesh makes right, before there is one."""
    names = [n for part in spec.partitions for n in names_of(part)]
    twice = sorted({f"`{n}`" for n in names if names.count(n) > 1})
    if twice:
        raise ValueError(
            f"A single {name} specification can map every mesh axis to at most one positional "
            f"dimension, but {spec} has duplicate entries for {', '.join(twice)}"
        )


def _mesh_of(what: str, spread: bool = True) -> Mesh | None:
    """Return the mesh in context for programs that nothing else places; None if there is none.

    One of a single device counts where types name its axes, and always with `spread=False`.
    """
    mesh = contexts.concrete
    if mesh is None and what == "pjit":
        mesh = entered_mesh()
    return mesh if mesh is not None and (mesh.is_spread if spread else mesh.size) else None


def _check_fits(sharding: NamedSharding, aval: ShapedArray, what: str, name: str) -> None:
    try:
        sharding.check_compatible_aval(aval.shape)
        sharding.shard_shape(aval.shape)
    except ValueError as error:
        raise ValueError(
            f"One of {what} with path {name} and type {aval.str_short()} has a sharding that does "
            f"not fit it. {error}"
        ) from None
