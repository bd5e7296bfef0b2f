"""`export`: a jitted function, traced once, that can be stored and called again.

Floor 6. In: a jitted function and its arguments. Out: an `Exported`; as bytes it is a header in
JSON and the memory of its constants, under a digest of both. Reading it back runs no code of it:
the Graph is made of known parts, and checked like any other before it is used.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.api.vjp import vjp
from gpuarray.backends.numpy import program as numpy_program
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.compiler.rewrite.simplify import inline_calls
from gpuarray.control.call import jit_p
from gpuarray.control.custom_jvp import custom_jvp_call_p
from gpuarray.control.custom_vjp import custom_vjp_call_p
from gpuarray.core.abstract_mesh import AbstractMesh
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.dims import Dim, symbols_in
from gpuarray.core.graph import Graph, evaluate, stored_constants, subgraphs, verify
from gpuarray.core.linear import is_inexact
from gpuarray.core.mesh import Mesh
from gpuarray.export.laid import Laid, Shardings, constrained, laid_of, over
from gpuarray.export.shapes import SymbolicScope, scope_of, solved
from gpuarray.export.symbolic import evaluated
from gpuarray.export.values import ValueReader, ValueWriter
from gpuarray.functions.custom_vjp import custom_vjp
from gpuarray.functions.jit import jit
from gpuarray.functions.stages import struct_of
from gpuarray.pytree import tree
from gpuarray.runtime.device import default_backend, platform_named
from gpuarray.runtime.execute import separated
from gpuarray.util import elements, wrong_type

#: The versions of the format that are read and written.
minimum_supported_calling_convention_version = 1
maximum_supported_calling_convention_version = 1
# The first bytes of a file: its type, and the version of the format.
_MAGIC = f"gpuarray program {maximum_supported_calling_convention_version}\n".encode()
# The length of a SHA-256 digest, with which the file ends.
_DIGEST = 32
#: Platforms that programs may be meant for and that are not run on here.
_ELSEWHERE = ("rocm", "tpu")


class DisabledSafetyCheck:
    """A check of JAX's to leave out when a program is exported, as listed by `Exported`.

    Programs here run on every platform and contain no compiler calls, so there is nothing to leave
    out.

    >>> from gpuarray.export import DisabledSafetyCheck
    >>> DisabledSafetyCheck.platform(), DisabledSafetyCheck.custom_call("f").is_custom_call()
    (platform, 'f')
    """

    def __init__(self, _impl: str):
        self._impl = _impl

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """That it runs on a platform that it was exported for."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """That a call of the compiler's with this name is the same in later versions."""
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The name of the unchecked call, or None."""
        kind, _, name = self._impl.partition(":")
        return name if kind == "custom_call" and name else None

    def __repr__(self) -> str:
        return self._impl

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DisabledSafetyCheck) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash(self._impl)


class Exported:
    """A traced program, callable and storable.

    `in_avals`, `out_avals`: flat; `in_tree` is the structure of (args, kwargs), `out_tree` of the
    result
    """

    def __init__(
        self, graph: Graph, in_tree: Any, out_tree: Any, name: str, backward: Exported | None = None
    ):
        self.graph = graph
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.fun_name = name
        self._backward = backward  # computes cotangents, if it was exported with the program
        self._rules_lost = False  # bytes carry no rules of the user's for derivatives
        self._call: Callable[..., Any] | None = None
        self._laid = Laid(1, (None,) * len(graph.invars), (None,) * len(graph.outvars))

    #: Every platform, unless `export` was given some: other platforms are refused then.
    platforms: tuple[str, ...] = ("cpu", "cuda")
    calling_convention_version = maximum_supported_calling_convention_version
    disabled_safety_checks: tuple[DisabledSafetyCheck, ...] = ()

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        """The avals of the flat arguments."""
        return tuple(self.graph.in_avals)

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        """The avals of the flat results."""
        return tuple(self.graph.out_avals)

    @property
    def nr_devices(self) -> int:
        """Over how many devices it runs; a program for one takes arrays over any number, too."""
        return self._laid.devices

    def in_shardings_jax(self, mesh: Mesh | AbstractMesh) -> Shardings:
        """The shardings of flat arguments over a mesh whose axes have the names of the exported
        program's.

        None where nothing was specified.
        """
        return over(mesh, self._laid.ins)

    def out_shardings_jax(self, mesh: Mesh | AbstractMesh) -> Shardings:
        """Likewise of flat results."""
        return over(mesh, self._laid.outs)

    @property
    def uses_global_constants(self) -> bool:
        """Whether the program depends on something besides its arguments: lengths with symbols."""
        return scope_of([a.shape for a in self.graph.in_avals]) is not None

    def __str__(self) -> str:
        return str(self.graph)

    def __repr__(self) -> str:
        return f"<Exported {self.fun_name}>"

    # ---- running ----
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program; under `jit`, `grad` and `vmap` like any other function."""
        self._check_platform()
        leaves, given = tree.tree_flatten((args, kwargs))
        # A program has one structure and one set of shapes: nothing is converted or broadcast.
        if given != self.in_tree:
            raise ValueError(
                "The invocation args and kwargs must have the same pytree structure as those the "
                f"function {self.fun_name!r} was exported with: {given} given, {self.in_tree} "
                "expected"
            )
        for number, (x, want) in enumerate(zip(leaves, self.graph.in_avals, strict=True)):
            have = aval_of(x)
            # A Python number takes the dtype that the program expects.
            scalar = isinstance(x, (bool, int, float, complex))
            if wrong := _mismatch(have, want, scalar):
                what, where = wrong
                name = self._argument_names()[number]
                raise ValueError(
                    f"{what} mismatch for {name}{where}: it is {have.str_short()}, but "
                    f"{self.fun_name!r} was exported for {want.str_short()}"
                )
        self._values([aval_of(x).shape for x in leaves])
        self._laid.check_called_with(leaves, self.fun_name)
        # Made at the first call, and kept: its cache belongs to it.
        if self._call is None:
            # Other programs are differentiated by the rules of their operations, as under `jit`.
            own = self._backward is not None or self._rules_lost
            self._call = self._differentiable() if own else self._plain()
        return tree.tree_unflatten(self.out_tree, self._call(*leaves))

    def _check_platform(self) -> None:
        here = default_export_platform()
        allowed = here in self.platforms or self.platforms is Exported.platforms
        if not allowed and DisabledSafetyCheck.platform() not in self.disabled_safety_checks:
            raise ValueError(
                f"Function {self.fun_name!r} was exported for platforms {self.platforms} but it is "
                f"used on {here!r}. Export it without platforms=, or with disabled_checks=["
                "DisabledSafetyCheck.platform()]: it runs on any."
            )

    def _values(self, shapes: list[tuple[int, ...]]) -> dict[str, int]:
        """The values of symbols for arguments of these shapes, or ValueError."""
        wanted = [a.shape for a in self.graph.in_avals]
        if scope_of(wanted) is None:
            return {}
        return solved(wanted, shapes, self._argument_names())

    def _argument_names(self) -> list[str]:
        """The flat arguments as `args[0]`, `kwargs['scale']`."""
        args, kwargs = tree.tree_unflatten(self.in_tree, self.graph.in_avals)
        names = [f"args{p}" for p in tree.leaf_paths(args)]
        return names + [f"kwargs{p}" for p in tree.leaf_paths(kwargs)]

    def _plain(self) -> Callable[..., list]:
        return jit(self._evaluated)

    def _evaluated(self, *leaves: Any) -> list:
        """The flat results for flat arguments, recorded by the trace that is running."""
        given = constrained(leaves, self._laid.ins)
        if scope_of([a.shape for a in self.graph.in_avals]) is None:
            found = evaluate(self.graph, *given)
        else:
            # Traced again for each combination of lengths, as any jitted function.
            values = self._values([aval_of(x).shape for x in leaves])
            found = evaluated(self.graph, values, given)
        return constrained(found, self._laid.outs)

    def _differentiable(self) -> Callable[..., list]:
        """The program with its stored derivative, if it has one."""
        run, backward = self._plain(), self._backward
        call = custom_vjp(run)

        # The stored derivative computes everything from the arguments: they are all that is kept.
        def forward(*leaves):
            if backward is None:
                raise ValueError(
                    f"No VJP is available for {self.fun_name!r}: its functions have derivative "
                    "rules of their own, which are not stored. Give `serialize` a vjp_order."
                )
            return run(*leaves), leaves

        def back(leaves, cotangents):
            assert backward is not None
            # Only floats have cotangents: the stored program takes and gives no others.
            wanted = [
                ct for ct, a in zip(cotangents, self.graph.out_avals, strict=True) if is_inexact(a)
            ]
            # Its results are in the order of the arguments that are floats; the others get None.
            found = iter(backward.call(*leaves, *wanted))
            return tuple(next(found) if is_inexact(a) else None for a in self.graph.in_avals)

        call.defvjp(forward, back)
        return call

    # ---- derivatives ----
    def has_vjp(self) -> bool:
        """Whether a derivative came with the program."""
        return self._backward is not None

    def vjp(self) -> Exported:
        """The program of cotangents: (*args, *cotangents of the results) -> those of the args."""
        if self._backward is None:
            self._backward = self._traced_backward()
        return self._backward

    def _traced_backward(self) -> Exported:
        inputs, outputs = self.graph.in_avals, self.graph.out_avals

        def backward(*given):
            leaves, cotangents = list(given[: len(inputs)]), given[len(inputs) :]
            # Differentiate with respect to the floats; integers are not changed.
            smooth = [i for i, a in enumerate(inputs) if is_inexact(a)]

            # The program as a function of its floats alone, to its results that are floats.
            def smooth_part(*xs):
                filled = list(leaves)
                for i, x in zip(smooth, xs, strict=True):
                    filled[i] = x
                results = self._evaluated(*filled)
                return [r for r, a in zip(results, outputs, strict=True) if is_inexact(a)]

            pull = vjp(smooth_part, *(leaves[i] for i in smooth))[1]
            return list(pull(list(cotangents)))

        avals = [*inputs, *(a for a in outputs if is_inexact(a))]
        # A program like any other, so it can be stored and differentiated in turn.
        return export(jit(backward))(*map(_struct, avals))

    def _constraints(self) -> list[str]:
        scope = scope_of([a.shape for a in self.graph.in_avals])
        return [] if scope is None else list(scope.constraints)

    # ---- as bytes ----
    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The program as bytes, with derivatives up to an order.

        >>> import gpuarray as ga, gpuarray.numpy as gnp
        >>> data = ga.export.export(ga.jit(gnp.sin))(gnp.ones(2)).serialize(vjp_order=1)
        >>> ga.grad(lambda x: ga.export.deserialize(data).call(x).sum())(gnp.zeros(2))
        Array([1., 1.], dtype=float32)
        """
        writer = ValueWriter()
        programs: list[Exported] = [self]
        # Each order is a separate program, the derivative of the previous one.
        for _ in range(vjp_order):
            programs.append(programs[-1].vjp())
        header = [
            {
                "name": p.fun_name,
                "arguments": writer.tree(p.in_tree),
                "results": writer.tree(p.out_tree),
                "graph": writer.graph(p.graph),
                "constraints": p._constraints(),
                "rules": _has_rules(p.graph),
                "unchecked": [str(check) for check in p.disabled_safety_checks],
                "platforms": None if p.platforms is Exported.platforms else p.platforms,
                "laid": writer.value(tuple(p._laid)),
            }
            for p in programs
        ]
        text = json.dumps([header, [len(p) for p in writer.pieces]], separators=(",", ":")).encode()
        # Magic, length of the header, header, memory of the constants, digest.
        body = b"".join([_MAGIC, struct.pack("<Q", len(text)), text, *writer.pieces])
        return bytearray(body + hashlib.sha256(body).digest())


def _mismatch(have: ShapedArray, want: ShapedArray, scalar: bool) -> tuple[str, str] | None:
    """The part in which an argument's type differs from that of the exported program, and its
    place.
    """
    if len(have.shape) != len(want.shape):
        return "Rank", ""
    if have.dtype != want.dtype and not scalar:
        return "Dtype", ""
    for i, (n, m) in enumerate(zip(have.shape, want.shape, strict=True)):
        # Lengths with symbols are compared all together, afterwards.
        if n != m and not isinstance(m, Dim):
            return "Shape", f".shape[{i}] (expected same constant)"
    return None


def default_export_platform() -> str:
    """The platform for which JAX would export by default: "cpu" or "cuda".

    >>> from gpuarray import export
    >>> export.default_export_platform() in ("cpu", "cuda")
    True
    """
    return {"gpu": "cuda"}.get(default_backend(), "cpu")


def export(
    fun: Callable[..., Any],
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[Any] = (),
) -> Callable[..., Exported]:
    """Return a function that exports a jitted function for given arguments (arrays or
    ShapeDtypeStructs).

    Arguments may be ShapeDtypeStructs with symbols for lengths (`symbolic_args_specs`): the program
    is then called with arrays of any length that fits them.

    Programs run on every platform. With `platforms`, of "cpu", "cuda", "rocm" and "tpu", they are
    refused on others, unless `disabled_checks` has `DisabledSafetyCheck.platform()`.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> f = ga.jit(lambda x, scale: {"y": gnp.tanh(x) * scale})
    >>> stored = ga.export.export(f)(gnp.ones(3), 2.0).serialize()
    >>> ga.export.deserialize(stored).call(gnp.zeros(3), 1.0)
    {'y': Array([0., 0., 0.], dtype=float32)}
    """
    if not hasattr(fun, "trace") and getattr(fun, "__module__", "").startswith("gpuarray."):
        fun = jit(fun)  # as in JAX, where the functions of jax.numpy are jitted
    if not hasattr(fun, "trace"):
        raise ValueError(
            f"Function to be exported must be the result of `jit`, got {fun!r}: wrap it as "
            "export(jit(fun))."
        )

    chosen = tuple(
        name if name in _ELSEWHERE else {"gpu": "cuda"}.get(found, found)
        for name in elements(platforms or (), "a sequence of names of platforms")
        if (found := name if name in _ELSEWHERE else platform_named(name))
    )
    unchecked = _disabled(disabled_checks)

    def traced(*args: Any, **kwargs: Any) -> Exported:
        # Traced for these shapes and dtypes only: another call of `traced` makes another program.
        stage = fun.trace(*args, **kwargs)
        # Calls of jit are opened: a stored program has one level.
        graph = inline_calls(stage.jaxpr, only=(jit_p,))
        exported = Exported(graph, stage.in_tree, stage.out_tree, stage.fun_name)
        exported.disabled_safety_checks = unchecked
        if chosen:
            exported.platforms = chosen
        exported._laid = laid_of(stage)
        _check_symbols(graph)
        return exported

    return traced


def _check_symbols(graph: Graph) -> None:
    """Refuse constraints on symbols whose value no argument determines."""
    shapes = [a.shape for a in graph.in_avals]
    if (scope := scope_of(shapes)) is not None:
        known = {*symbols_in([n for shape in shapes for n in shape]), *scope.defined()}
        for name in symbols_in([*scope.positive, *scope.zero]):
            if name not in known:
                raise ValueError(
                    f"Encountered dimension variable {name!r} that is not appearing in the shapes "
                    f"of the function arguments: a constraint has it, {list(scope.constraints)}"
                )


def _disabled(checks: Any) -> tuple[DisabledSafetyCheck, ...]:
    found = elements(checks, "a sequence of DisabledSafetyChecks")
    for check in found:
        if not isinstance(check, DisabledSafetyCheck):
            raise wrong_type(check, "a DisabledSafetyCheck")
    return found


def _struct(aval: ShapedArray) -> Any:
    """Return the struct for an argument of this type, without layouts."""
    return struct_of(ShapedArray(aval.shape, aval.dtype, layout=aval.layout))


def _has_rules(graph: Graph) -> bool:
    """Whether a function in it has a custom derivative rule."""
    own = (custom_jvp_call_p, custom_vjp_call_p)
    return any(
        e.primitive in own or any(_has_rules(inner) for inner in subgraphs(e)) for e in graph.eqns
    )


def deserialize(data: bytes | bytearray | memoryview) -> Exported:
    """The program in bytes that `serialize` made. Damaged or foreign bytes are a ValueError."""
    view = memoryview(data).cast("B")
    head = len(_MAGIC) + 8
    if len(view) < head + _DIGEST or bytes(view[: len(_MAGIC)]) != _MAGIC:
        raise ValueError("these bytes are no exported program, or one of another version")
    # Damage is found before anything is read.
    if hashlib.sha256(view[:-_DIGEST]).digest() != bytes(view[-_DIGEST:]):
        raise ValueError("the exported program is damaged: its digest does not fit its bytes")
    # The header, then the pieces in order: there must be no bytes left.
    (length,) = struct.unpack("<Q", view[len(_MAGIC) : head])
    try:
        header, sizes = json.loads(bytes(view[head : head + length]))
        pieces, at = [], head + length
        for size in sizes:
            pieces.append(view[at : at + size])
            at += size
        if at != len(view) - _DIGEST:
            raise ValueError("sizes do not add up")
        reader = ValueReader(pieces)
        # A program and its derivatives have the same symbols.
        reader.scope = SymbolicScope(header[0].get("constraints", ()))
        exported: Exported | None = None
        # The highest derivative first, since each program holds the next one.
        for part in reversed(header):
            # Structures and Graph are made of known parts, then checked against each other.
            graph = reader.graph(part["graph"])
            in_tree, out_tree = reader.tree(part["arguments"]), reader.tree(part["results"])
            if not isinstance(part["name"], str):
                raise ValueError(f"not a name: {part['name']!r}")
            exported = Exported(graph, in_tree, out_tree, part["name"], exported)
            exported._rules_lost = bool(part.get("rules"))
            exported.disabled_safety_checks = tuple(
                DisabledSafetyCheck(str(name)) for name in part.get("unchecked", ())
            )
            if chosen := part.get("platforms"):
                if any(name not in (*Exported.platforms, *_ELSEWHERE) for name in chosen):
                    raise ValueError(f"not platforms: {chosen!r}")
                exported.platforms = tuple(chosen)
            if "laid" in part:
                exported._laid = Laid(*reader.value(part["laid"])).checked(graph)
            _verify(exported)
        if exported is None:
            raise ValueError("it is empty")
        return exported
    except Exception as error:  # whatever a malformed file makes a rule say
        raise ValueError(f"the exported program is malformed: {error}") from None


def _verify(exported: Exported) -> None:
    """Raise an error if a program that was read is invalid. It is traced and planned, and the
    function of every operation is made, as before a run: missing parameters are found here.
    """
    graph, backward = exported.graph, exported._backward
    # Types first: the following checks need a well-formed Graph.
    verify(graph)
    # The arguments must be ((args...), {kwargs...}), whatever the file contains.
    structure = exported.in_tree.node_data()
    sides = exported.in_tree.children()
    if structure is None or structure[0] is not tuple or len(sides) != 2:
        raise ValueError("its arguments are no (args, kwargs)")
    kinds = [side.node_data() for side in sides]
    if [kind and kind[0] for kind in kinds] != [tuple, dict]:
        raise ValueError("its arguments are no (args, kwargs)")
    for spec, avals in ((exported.in_tree, graph.in_avals), (exported.out_tree, graph.out_avals)):
        if spec.num_leaves != len(avals):
            raise ValueError(f"{len(avals)} values in a structure of {spec.num_leaves}")
        # There and back: a structure may be written that no value has.
        if tree.tree_structure(tree.tree_unflatten(spec, avals)) != spec:
            raise ValueError(f"no value has the structure {spec}")
    # The derivative takes the arguments and a cotangent for each float result.
    if backward is not None:
        cotangents = [a for a in graph.out_avals if is_inexact(a)]
        wanted = [a for a in graph.in_avals if is_inexact(a)]
        for found, like in (
            (backward.graph.in_avals, [*graph.in_avals, *cotangents]),
            (backward.graph.out_avals, wanted),
        ):
            if [(a.shape, a.dtype) for a in found] != [(a.shape, a.dtype) for a in like]:
                raise ValueError("its derivative is one of another program")
    # Every shape rule runs, and the program is planned, so that errors are found now.
    traced = exported._plain().trace(*map(_struct, graph.in_avals))
    # A program with symbols is planned when they are numbers, one for several devices when it is
    # known how these are connected.
    if scope_of([a.shape for a in graph.in_avals]) is None and exported.nr_devices == 1:
        plain, _ = separated(traced.jaxpr)
        plan = plan_graph(plain)
        numpy_program.build(plan, stored_constants(plan.graph))
    # Printing reads all parameters, some of which no other check reads.
    str(graph)
