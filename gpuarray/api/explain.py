"""`explain`: the kernels that a function is compiled to, without running it.

Floor 6. In: a Python function and the arguments it would be called with. Out: an Explanation to
read, print or draw.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gpuarray import tree
from gpuarray.backends.cuda import nvrtc
from gpuarray.backends.cuda.library import remarks
from gpuarray.backends.cuda.moved import Costs
from gpuarray.compiler.explain.costs import on_host
from gpuarray.compiler.explain.exchanges import Exchanges
from gpuarray.compiler.explain.facts import Explanation as Explanation
from gpuarray.compiler.explain.facts import explain_plan
from gpuarray.compiler.explain.source import device_facts, machine_of
from gpuarray.compiler.lower.steps import step_work
from gpuarray.compiler.partition.buckets import bucketed
from gpuarray.compiler.partition.network import Network, network_named
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.config import state
from gpuarray.core.abstract_mesh import AbstractMesh
from gpuarray.core.grid import Grid
from gpuarray.core.mesh import Mesh, NamedSharding
from gpuarray.core.mesh_context import set_mesh
from gpuarray.core.sharding import Device
from gpuarray.functions.jit import jit
from gpuarray.functions.jitted import Jitted
from gpuarray.functions.stages import Lowered, ShapeDtypeStruct
from gpuarray.runtime import processes
from gpuarray.transforms.partition.split import partition
from gpuarray.util import lazy_module, wraps

#: Loaded by the first question about native code.
native = lazy_module("gpuarray.backends.native.explained")


def explain(
    fun: Callable,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    platform: str | None = None,
    arch: str = "sm_90",
    mesh: Mesh | AbstractMesh | None = None,
    network: Network | str | None = None,
) -> Callable[..., Explanation]:
    """Return a function that reports how `fun` is fused: kernels, bytes, user lines.

    It takes the arguments of `fun`, as arrays or ShapeDtypeStructs; nothing is computed. Without
    `jit` the same operations make the same kernels if they are recorded together.

    With `platform="cuda"` each kernel has its `source`, `grid`, `block`, `grade`, `limit` (what it
    waits for most) and `roofline_seconds` on a GPU of architecture `arch`, and `registers` and
    `spills` if NVRTC is installed; no GPU is needed. Steps that run on the host even then give the
    reason as the fact `on the host`. Steps in which devices send values to each other have the
    facts `axes`, `devices`, `bytes a device` and `why`. `intermediates` tells for each value
    between kernels whether it is stored or recomputed at its uses, and why.

    With `platform="native"`, or on a CPU while the setting `native` is on, the steps are those of
    native code: the fact `call` tells which of them share one call of a compiled function, or that
    NumPy runs one, and `why`; a loop has the steps of its `body`; `source` is the C++ of a step. No
    compiler is needed.

    With `mesh`, the program is partitioned for devices that need not exist: arguments are
    ShapeDtypeStructs with shardings over it, or are replicated. With `network` (a
    `gpuarray.compiler.partition.network.Network`, or its name there), exchanges have the facts
    `predicted`, their time, and `by`, the algorithm; and the text shows the largest costs. Among
    GPUs they overlap with other steps: `uncovered` is the time in which devices wait for an
    exchange, if each step is as fast as the memory and the arithmetic of a GPU of architecture
    `arch` allow.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> def mse(a, b):
    ...     return gnp.mean((a - b) ** 2)
    >>> e = ga.explain(mse)(gnp.ones((8, 4)), gnp.zeros((8, 4)))
    >>> e.launches, e.kernels[0].ops
    (1, ('sub', 'integer_pow', 'reduce_sum', 'div'))
    """
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}")
    platform = "cuda" if platform == "gpu" else platform
    if platform not in (None, "cpu", "native", "cuda"):
        raise ValueError(
            f"platform must be None, 'cpu', 'native', 'gpu' or 'cuda', got {platform!r}"
        )
    if not (mesh is None or isinstance(mesh, Mesh | AbstractMesh)):
        raise TypeError(f"explain: mesh is a Mesh or an AbstractMesh, got {mesh!r}")
    known = None if network is None else network_named(network)
    # A function that is jitted already keeps its own options.
    jitted = (
        fun
        if isinstance(fun, Jitted)
        else jit(fun, static_argnums=static_argnums, static_argnames=static_argnames)
    )

    @wraps(fun)
    def explain_it(*args, **kwargs) -> Explanation:
        # Traced and planned, not run; a plan for a GPU cuts groups by other limits.
        if mesh is None:
            lowered = jitted.lower(*args, **kwargs)
        else:
            there = _stand_in(mesh)
            lay = functools.partial(_on_stand_ins, mesh=there)
            is_leaf = lambda x: isinstance(x, ShapeDtypeStruct)
            args, kwargs = tree.map(lay, (args, kwargs), is_leaf=is_leaf)
            # So that shardings without devices, and bare PartitionSpecs, mean this mesh.
            with set_mesh(there):
                lowered = jitted.lower(*args, **kwargs)
        plan, exchanges = _parts(lowered, mesh, known)
        plan = plan.on_device if platform == "cuda" else plan
        exchange = (lambda eqn: {}) if exchanges is None else exchanges.facts
        facts, said, cost = {}, lambda eqn: {}, on_host
        if platform == "cuda":
            # Registers and spills are known only where NVRTC can compile.
            compile = nvrtc.compile if nvrtc.available() else None
            facts, said = device_facts(plan, arch, compile), functools.partial(remarks, arch=arch)
            cost = Costs(plan, lowered._given_away).of
        if exchanges is not None and known is not None:
            # GPUs compute while values are being sent.
            if platform == "cuda" or exchanges.grid.devices[0].platform == "gpu":
                machine, plan = machine_of(arch), plan.overlapped
                exchanges.cover(plan, lambda s: cost(s).seconds(step_work(s), machine))
        asked = platform == "native" or (platform != "cuda" and state.native != "off")
        if asked and exchanges is None:
            return native.explain_native(plan, lowered.fun_name, lowered._given_away)
        found = explain_plan(plan, lowered.fun_name, facts, said, exchange, cost)
        return found if exchanges is None else found.replace(remarks=exchanges.remarks())

    return explain_it


def _parts(lowered: Lowered, mesh: Mesh | AbstractMesh | None, network: Network | None):
    """Return the plan of one device, and the exchanges in it; None for a program on one."""
    if mesh is None:
        team = lowered._team
        if team is None:
            return lowered.plan, None
        return team.plan, Exchanges(team.grid, team.parts.notes, network)
    # Partitioned for devices that need not be there, and never built.
    grid = Grid([_stand_in(mesh)])
    where, graph = lowered._where, lowered.jaxpr
    given = [None if p is None else p.sharding for p in lowered._places]
    asked: Sequence[Any] = [None] * len(graph.outvars)
    if where is not None and where.device is None:
        given = [s or g for s, g in zip(where.ins, given, strict=True)]
        asked = where.outs
    ins = [
        _spec(grid, s, v.aval.ndim) or ((),) * v.aval.ndim
        for s, v in zip(given, graph.invars, strict=True)
    ]
    outs = [_spec(grid, s, v.aval.ndim) for s, v in zip(asked, graph.outvars, strict=True)]
    parts = partition(graph, ins, outs, grid)
    local = bucketed(parts.local, grid.sizes, processes.network(grid))
    return plan_graph(local, state.fusion), Exchanges(grid, parts.notes, network)


def _stand_in(mesh: Mesh | AbstractMesh) -> Mesh:
    """Return a mesh of the same axes; where one has no devices, over some that are not here."""
    if isinstance(mesh, Mesh):
        return mesh
    devices = np.array([Device("gpu", i) for i in range(mesh.size)], dtype=object)
    return Mesh(devices.reshape(mesh.axis_sizes), mesh.axis_names, mesh.axis_types)


def _spec(grid: Grid, sharding: Any, ndim: int) -> Any:
    """Return the PartitionSpec of a sharding over a mesh of these axes; None if it cannot be
    written as one.
    """
    if not isinstance(sharding, NamedSharding):
        return None
    mesh, main = sharding.mesh, grid.main
    if (mesh.axis_names, mesh.axis_sizes) != (main.axis_names, main.axis_sizes):
        raise ValueError(
            f"explain: an argument or result lies over {dict(mesh.shape)}, and mesh= is over "
            f"{dict(main.shape)}. Give ShapeDtypeStructs with shardings over the latter."
        )
    return grid.spec(mesh, sharding.spec, ndim)


def _on_stand_ins(x: Any, mesh: Mesh) -> Any:
    """Return an argument with a sharding over a mesh without devices, moved to the stand-in
    devices.
    """
    sharding = x.sharding if isinstance(x, ShapeDtypeStruct) else None
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh):
        _spec(Grid([mesh]), sharding, x.ndim)
        return x.update(sharding=sharding.update(mesh=mesh))
    return x
