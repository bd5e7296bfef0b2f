"""The stages of a jitted function: traced, lowered, compiled.

Floor 6. In: a Graph and the structures of a function's arguments and result. Out: objects to look
at and to run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuarray import config
from gpuarray.compiler.explain import source
from gpuarray.compiler.explain.costs import on_host, total
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.core.avals import aval_of
from gpuarray.core.formats import format_of
from gpuarray.core.graph import Graph
from gpuarray.core.mesh import NamedSharding
from gpuarray.core.sharding import Device, Place, laid_out
from gpuarray.core.trace import Tracer
from gpuarray.functions.compiler_options import check_options
from gpuarray.functions.donation import given_away
from gpuarray.functions.shardings import (
    Where,
    delete_moved,
    run,
    same_pieces,
    team_for,
    with_devices,
)
from gpuarray.functions.structs import ShapeDtypeStruct as ShapeDtypeStruct
from gpuarray.functions.structs import check_stated as check_stated
from gpuarray.functions.structs import struct_of as struct_of
from gpuarray.pytree import tree
from gpuarray.runtime import cache, host
from gpuarray.runtime import device as devices
from gpuarray.runtime.execute import Constants, Executable
from gpuarray.runtime.moves import to_place
from gpuarray.runtime.spread import Team
from gpuarray.transforms.passing import taken_out
from gpuarray.transforms.references import Ref, values_of, write_back
from gpuarray.transforms.tracing import check_alive
from gpuarray.util import cached_property, lazy_module

#: Loaded by the first question about native code.
native = lazy_module("gpuarray.backends.native.explained")


@dataclasses.dataclass(frozen=True)
class ArgInfo:
    """The type of one array argument, and whether it is donated."""

    struct: ShapeDtypeStruct
    donated: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        return self.struct.shape

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.struct.dtype


class MemoryStats(NamedTuple):
    """Bytes a compiled program needs."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    alias_size_in_bytes: int = 0
    generated_code_size_in_bytes: int = 0


class Stage:
    """Base class of the three stages."""

    def __init__(
        self,
        graph: Graph,
        in_spec,
        out_spec,
        donated: frozenset[int],
        fun_name: str,
        where: Where | None = None,
        places: tuple[Place | None, ...] = (),
        arg_names: tuple[str, ...] = (),
        promised: tuple[NamedSharding | None, ...] = (),
    ):
        self.jaxpr = graph
        self._where = where
        self.fun_name = fun_name
        self._in_spec = in_spec
        self._out_spec = out_spec
        self._donated = donated
        # The place of each flat argument, if known.
        self._places = places or (None,) * len(graph.invars)
        self._arg_names = arg_names
        # Its sharding along axes whose devices are not known yet.
        self._promised = promised
        #: For a function of mutable references: those it closes over. Its program takes the values
        #: of references before the arguments, and returns their new values before the result.
        self.touched: list[Ref] | None = None

    @property
    def in_tree(self):
        """The structure of (args, kwargs)."""
        return tree.from_raw(self._in_spec)

    @property
    def out_tree(self):
        """The structure of the result."""
        return tree.from_raw(self._out_spec)

    @property
    def in_avals(self):
        """The avals of (args, kwargs)."""
        return tree.unflatten_raw(self._in_spec, self.jaxpr.in_avals)

    @property
    def out_avals(self):
        """The avals of the flat results."""
        return self.jaxpr.out_avals

    @property
    def args_info(self):
        """Shapes and dtypes of (args, kwargs), and which of them are donated.

        >>> import gpuarray as ga
        >>> (info,), _ = ga.jit(lambda x: x + 1, donate_argnums=0).lower(1.0).args_info
        >>> info.shape, info.donated
        ((), True)
        """
        infos = [
            ArgInfo(struct_of(a), i in self._donated) for i, a in enumerate(self.jaxpr.in_avals)
        ]
        return tree.unflatten_raw(self._in_spec, infos)

    @property
    def out_info(self):
        """Shapes and dtypes of the result, and its `out_shardings`."""
        structs = [struct_of(a) for a in self.jaxpr.out_avals]
        for i, laid in enumerate(() if self._where is None else self._where.outs):
            if laid is not None:
                structs[i] = structs[i].update(sharding=laid)
        info = tree.unflatten_raw(self._out_spec, structs)
        return info if self.touched is None else info[1]  # after the values of references

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Which flat arguments are given away."""
        return tuple(sorted(self._donated))

    @cached_property
    def _given_away(self) -> frozenset[int]:
        """Which flat arguments give their memory to a result."""
        return given_away(self.jaxpr, self._donated, warn=False)

    def _next(self, kind: type) -> Any:
        # The information known so far is passed to the next stage.
        about = (self._in_spec, self._out_spec, self._donated, self.fun_name, self._where)
        new = kind(self.jaxpr, *about, self._places, self._arg_names, self._promised)
        new.touched = self.touched
        return new

    def _of(self, args: tuple, kwargs: dict, names: Sequence[str]) -> Any:
        """Return this stage for a function of other arguments, which have the same leaves."""
        about = (self._out_spec, self._donated, self.fun_name, self._where, self._places)
        in_spec = tree.flatten_raw((args, kwargs))[1]
        return type(self)(self.jaxpr, in_spec, *about, tuple(names), self._promised)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.fun_name}>"


class Traced(Stage):
    """A function traced for given arguments: `.jaxpr` is its Graph."""

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """The plan of this function: simplified, and grouped into kernels.

        Parameters
        ----------
        lowering_platforms :
            Where it is to run, of "cpu", "cuda" and "gpu". One plan is for all of them; others are
            refused.
        """
        for name in lowering_platforms or ():
            if name not in ("cpu", "cuda", "gpu"):
                raise ValueError(
                    f"lowering_platforms={tuple(lowering_platforms or ())}: there are programs for "
                    f"'cpu' and 'cuda' (or 'gpu'), not for {name!r}."
                )
        given_away(self.jaxpr, self._donated)  # warns
        lowered = self._next(Lowered)
        # Where other arguments tell the devices, it is known now whether they are as many.
        if lowered._abstract and lowered._put is not None:
            lowered._over(lowered._put)  # raises
        return lowered


class Lowered(Stage):
    """A traced function and its plan."""

    def compile(
        self,
        compiler_options: dict[str, Any] | None = None,
        *,
        device_assignment: Sequence[Device] | None = None,
    ) -> Compiled:
        """The function compiled for these argument types, to be called.

        `device_assignment` gives the devices if arguments and shardings are over an AbstractMesh;
        else it must match those of the arguments.
        """
        check_options(compiler_options)
        if self._abstract:
            return self._over(device_assignment).compile()
        compiled = self._next(Compiled)
        if device_assignment is not None and tuple(device_assignment) != compiled._devices():
            raise ValueError(
                "device_assignment passed to `.compile` must match the device_assignment "
                "calculated from array shardings and out_shardings, which is "
                f"{list(compiled._devices())}; got {list(device_assignment)}"
            )
        return compiled

    @property
    def _abstract(self) -> list[NamedSharding]:
        """The shardings of arguments and results that name no devices."""
        return [
            *(s for s in self._promised if s is not None),
            *(() if self._where is None else self._where.abstract),
        ]

    @property
    def _put(self) -> tuple[Device, ...] | None:
        """The devices of committed arguments; None if none is committed."""
        put = (p for p in self._places if p is not None and p.committed)
        return next((p.all_devices for p in put), None)

    def _over(self, given: Sequence[Device] | None) -> Lowered:
        """Return this stage over devices: these, or else those of other arguments."""
        given = self._put if given is None else given
        if given is None:
            raise RuntimeError(
                "device_assignment cannot be `None` during compilation of a function that was "
                f"lowered for {self._abstract[0]}: that is over an AbstractMesh, which has no "
                "devices. Give it to `.compile`, as in device_assignment=tuple(mesh.devices.flat)."
            )
        promised = self._promised or (None,) * len(self._places)
        places = tuple(
            p if s is None else laid_out(with_devices(s, given))
            for p, s in zip(self._places, promised, strict=True)
        )
        where = self._where and self._where.over(given)
        about = (self._in_spec, self._out_spec, self._donated, self.fun_name, where, places)
        new = Lowered(self.jaxpr, *about, self._arg_names)
        new.touched = self.touched
        return new

    @property
    def plan(self):
        """The plan: groups and library steps in order; one device's, where it is for several."""
        if self._team is not None:
            return self._team.plan
        # The program may have been made from another graph of this structure, with other lines.
        executable, _ = self._program
        fusion = config.state.fusion
        if executable.graph is self.jaxpr and executable.plan.fusion == fusion:
            return executable.plan
        return plan_graph(self.jaxpr, fusion=fusion)

    @cached_property
    def _program(self) -> tuple[Executable, Constants]:
        return cache.compiled_graph(self.jaxpr, self.fun_name, donated=self._given_away)

    @cached_property
    def _team(self) -> Team | None:
        """The program of several devices; None for one."""
        if self._abstract:
            return None
        executable, constants = self._program
        return team_for(executable, self._places, self._where, constants)

    def as_text(self, dialect: str | None = None) -> str:
        """The plan in words: one block for each group or step."""
        if dialect is not None:
            raise ValueError(
                f"as_text has no dialects, got {dialect!r}: leave it out for the plan in words, or "
                "take cuda_source()."
            )
        return str(self.plan)

    def cuda_source(self) -> str:
        """The CUDA C++ of every kernel, with all it calls and the user's lines as comments.

        >>> import gpuarray as ga, gpuarray.numpy as gnp
        >>> text = ga.jit(lambda x: gnp.sin(x) + 1).lower(gnp.ones(3)).cuda_source()
        >>> "ga_sin(x0)" in text
        True
        """
        return source.cuda_source(self.plan)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The compiler's representation: the Graph, or for the dialect "cuda" its text.

        >>> import gpuarray as ga
        >>> print(ga.jit(lambda x: x + 1).lower(1.0).compiler_ir())
        { lambda ; a:f32[]. let b:f32[] = add a 1.0:f32[] in (b,) }
        """
        if dialect is None:
            return self.jaxpr
        if dialect == "cuda":
            return self.cuda_source()
        raise ValueError(
            f"unknown dialect: {dialect!r}. Programs are no MLIR here: leave it out for the Graph, "
            "or take 'cuda'."
        )

    def cpp_source(self) -> str:
        """The C++ that native code runs on a CPU, with the user's lines as comments.

        Apart from these comments, `GPUARRAY_NATIVE` compiles this text; no compiler is needed to
        look at it. Steps that NumPy runs appear as comments.

        >>> import gpuarray as ga, gpuarray.numpy as gnp
        >>> text = ga.jit(lambda x: gnp.sin(x) + 1).lower(gnp.ones(3)).cpp_source()
        >>> "for (ga_index i0 = first; i0 < last; ++i0)" in text
        True
        """
        return native.cpp_source(self.plan, self._given_away)

    def cost_analysis(self) -> dict[str, float]:
        """Floating-point operations and bytes moved, by the plan."""
        plan = self.plan
        moved = total(plan, on_host)
        return {"flops": float(plan.work), "bytes accessed": float(moved.read + moved.written)}


class Compiled(Lowered):
    """A compiled function, callable with arguments of exactly the kind it was made for."""

    def __init__(self, graph: Graph, in_spec, out_spec, donated, fun_name: str, *about):
        super().__init__(graph, in_spec, out_spec, donated, fun_name, *about)
        # Compiled now, so that an error comes from `compile` and not from the first call.
        self._executable, self._constants = self._program

    @property
    def plan(self):
        return self._executable.plan if self._team is None else self._team.plan

    @property
    def input_shardings(self):
        """The shardings of (args, kwargs).

        >>> import gpuarray as ga, gpuarray.numpy as gnp
        >>> ga.jit(lambda x: x + 1).lower(gnp.ones(3)).compile().input_shardings[0]
        (SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device),)
        """
        places = self._on_one() * len(self._places) if self._team is None else self._team.in_places
        shardings = [p.sharding for p in places[: len(self._places)]]
        return tree.unflatten_raw(self._in_spec, shardings)

    @property
    def output_shardings(self):
        """The shardings of the result.

        >>> import gpuarray as ga, gpuarray.numpy as gnp
        >>> ga.jit(lambda x: x + 1).lower(gnp.ones(3)).compile().output_shardings
        SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)
        """
        return tree.unflatten_raw(self._out_spec, [p.sharding for p in self._out_places()])

    @property
    def input_formats(self):
        """The shardings and memory layouts of (args, kwargs)."""
        shardings = tree.flatten_raw(self.input_shardings)[0]
        pairs = zip(self.jaxpr.in_avals, shardings, strict=True)
        return tree.unflatten_raw(self._in_spec, [format_of(a.ndim, s) for a, s in pairs])

    @property
    def output_formats(self):
        """The shardings and memory layouts of the result.

        >>> import gpuarray as ga, gpuarray.numpy as gnp
        >>> ga.jit(lambda x: x + 1).lower(gnp.ones(3)).compile().output_formats.layout
        Layout(major_to_minor=(0,), tiling=(), sub_byte_element_size_in_bits=0)
        """
        pairs = zip(self.jaxpr.out_avals, self._out_places(), strict=True)
        formats = [format_of(a.ndim, p.sharding) for a, p in pairs]
        return tree.unflatten_raw(self._out_spec, formats)

    @property
    def out_info(self):
        """Shapes, dtypes and shardings of the result."""
        places = self._out_places()
        return tree.unflatten_raw(
            self._out_spec,
            [
                struct_of(a).update(sharding=p.sharding)
                for a, p in zip(self.jaxpr.out_avals, places, strict=True)
            ],
        )

    def _devices(self) -> tuple[Device, ...]:
        return self._on_one()[0].devices if self._team is None else self._team.grid.devices

    def _on_one(self) -> list[Place]:
        """Return the place of a program for one device, in a list."""
        # The program's own device, the one given by options, or that of a committed argument.
        given = [self._executable.device, self._where and self._where.device]
        given += [p.device for p in self._places if p is not None and p.committed]
        found = next((d for d in given if d is not None), None)
        return [devices.default_place() if found is None else devices.place_for(found)]

    def _out_places(self) -> list[Place]:
        if self._team is not None:
            return self._team.out_places
        if self._where is not None and self._where.device is not None:
            return list(self._where.places(self.jaxpr.out_avals))
        (place,) = self._on_one()
        return [place.holding(a) for a in self.jaxpr.out_avals]

    def memory_analysis(self) -> MemoryStats:
        """Bytes of arguments, results and temporaries; on each device, where there are several."""
        graph = self.jaxpr if self._team is None else self._team.parts.local
        arguments = sum(a.nbytes for a in graph.in_avals)
        results = sum(a.nbytes for a in graph.out_avals)
        return MemoryStats(arguments, results, self.plan.temporary_bytes)

    def runtime_executable(self):
        """The executable itself."""
        return self._executable

    def __call__(self, *args, **kwargs):
        if self.touched is None:
            return self._run(args, kwargs)
        # References are operands and results of the program: their values enter, and the new ones
        # are stored.
        passed, (args, kwargs) = taken_out((args, kwargs))
        refs = [*passed, *self.touched]
        values, result = self._run((values_of(refs), *args), kwargs)
        write_back(refs, values)
        return result

    def _run(self, args: tuple, kwargs: dict) -> Any:
        # The structure decides which leaf is which, so it is compared first.
        leaves, spec = tree.flatten_raw((args, kwargs))
        if spec != self._in_spec:
            raise TypeError(
                "Function compiled with input pytree does not match the input pytree it was called "
                f"with: {self.fun_name} was made for arguments of structure {self.in_tree}, and "
                f"was called with {tree.from_raw(spec)}"
            )
        for x in leaves:
            if isinstance(x, Tracer):
                check_alive(x)
                raise TypeError(
                    "Cannot apply JAX transformations to a function lowered and compiled for a "
                    f"particular signature. Detected argument of type {type(x).__name__}: "
                    f"transform the function that {self.fun_name} was made from."
                )
        # Weak types do not matter to a compiled program.
        kinds = [(a.shape, a.dtype) for a in map(aval_of, leaves)]
        if kinds != [(a.shape, a.dtype) for a in self.jaxpr.in_avals]:
            raise self._types_differ(leaves)
        # The arguments as arrays; resharded copies are kept separate from the originals.
        inputs: list = [host.from_host(x) for x in leaves]
        laid = list(inputs)
        if self._team is not None:
            self._lay(laid, self._team)
        arrays = run(self._executable, laid, self._given_away, self._where, self._constants)
        delete_moved(inputs, laid, self._given_away)
        return tree.unflatten_raw(self._out_spec, arrays)

    def _name(self, i: int) -> str:
        return self._arg_names[i] if i < len(self._arg_names) else f"number {i}"

    def _types_differ(self, leaves: list) -> TypeError:
        rows = [
            f"Argument {self._name(i)!r} compiled with {aval.str_short()} and called with "
            f"{given.str_short()}"
            for i, (given, aval) in enumerate(
                zip(map(aval_of, leaves), self.jaxpr.in_avals, strict=True)
            )
            if (given.shape, given.dtype) != (aval.shape, aval.dtype)
        ]
        return TypeError(
            "Argument types differ from the types for which this computation was compiled. The "
            "mismatches are:\n" + "\n".join(rows)
        )

    def _lay(self, inputs: list, team: Team) -> None:
        """Lay arguments as they were when this was compiled; refuse those put somewhere else."""
        rows = []
        for i, x in enumerate(inputs):
            wanted, known = team.in_places[i], self._places[i]
            # The usual case, by identity: places are made once for each layout.
            if x._place is known or x._place is wanted:
                continue
            if x._place.committed and not same_pieces(x._place, wanted, x.shape):
                rows.append(
                    f"Argument {self._name(i)} with {x.aval.str_short()} compiled for "
                    f"{wanted.sharding} and called with {x.sharding}"
                )
            # Not committed: it may move to the place it had when this was compiled.
            elif known is not None and known.committed:
                inputs[i] = to_place(x, known)
        if rows:
            raise ValueError(
                "Computation was compiled for input shardings that disagree with the shardings of "
                f"arguments passed to it. Here are the {len(rows)} mismatches:\n" + "\n".join(rows)
            )

    call = __call__
