"""The NumPy backend: Plans as straight-line Python over NumPy.

Floor 4. In: a Plan. Out: a function on buffers, generated once. A buffer is an ndarray or a NumPy
scalar. Large groups run in cache-sized tiles (tiles.py), small ones as one NumPy call per equation.
"""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from gpuarray.backends.numpy import loops, memory, tiles
from gpuarray.backends.numpy.sums import summed_products
from gpuarray.backends.writer import (
    NOTHING,
    CompileGraph,
    ProgramWriter,
    compiled_once,
    identifier,
)
from gpuarray.compiler.fuse.group import (
    FusedGroup,
    Inner,
    Load,
    Operand,
    members_in_order,
)
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.steps import group_in
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.core.flow import Loop
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, storage_dtype, stored_constants
from gpuarray.core.primitive import Kind
from gpuarray.util import cached_property


class _Local(threading.local):
    """A context for each thread in which NumPy's floating-point warnings are off.

    Entering a prepared context costs a tenth of `np.errstate`.
    """

    def __init__(self):
        self.renew()

    def renew(self) -> None:
        # A copy of the current context, so that the user's context variables are seen inside.
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


local = _Local()


def renewed(error: Exception) -> bool:
    """Whether `error` means that this thread's context is in use; it is then replaced by a new one.

    It is in use where one computation runs inside another: in a callback, in the implementation of
    a primitive, or in a signal handler.
    """
    # Raised by the call itself, and not by something that it ran.
    raised_by_call = error.__traceback__ is not None and error.__traceback__.tb_next is None
    if not (raised_by_call and str(error).startswith("cannot enter context")):
        return False
    local.renew()
    return True


def function_of(prim, avals, params, compile: Callable | None = None) -> Callable[..., Any]:
    """Return a primitive as a function on buffers; `compile` compiles the Graphs that it holds."""
    # Operations that hold Graphs compile them by this driver.
    if prim.assemble is not None:
        return prim.assemble(avals, compile or compile_graph, **params)
    return prim.numpy_function(avals, params)


#: Python's operators on NumPy's scalars: the same as the ufuncs, in a tenth of the time.
_OPERATORS = {np.add: "+", np.subtract: "-", np.multiply: "*", np.true_divide: "/"}
_OPERATORS |= {np.less: "<", np.less_equal: "<=", np.equal: "==", np.not_equal: "!="}
_OPERATORS |= {np.greater: ">", np.greater_equal: ">="}
_OPERATORS |= {np.bitwise_and: "&", np.bitwise_or: "|", np.bitwise_xor: "^"}


def compile_graph(
    graph: Graph, donated: frozenset[int] = NOTHING, overlaps: bool = False
) -> Callable[..., list]:
    """Compile a Graph inside another (a branch, a loop body) to a function on buffers."""
    made = functools.partial(build, donated=donated)
    return compiled_once(graph, ("plan", donated), made, overlaps)


def build(
    plan: Plan,
    consts: Sequence,
    donated: frozenset[int] = NOTHING,
    inside: CompileGraph = compile_graph,
) -> Callable[..., list]:
    """Return a Python function from buffers to a list of buffers.

    With donated inputs it takes one more argument: the set of those that may be overwritten.
    `inside` compiles the Graphs that primitives hold.
    """
    return NumpyProgramWriter(plan, consts, donated, inside).function()


#: Kinds whose results have separate memory. Others may return operands.
_MAKES = (Kind.LIBRARY, Kind.SCAN, Kind.SORT, Kind.INDEXING, Kind.MOVEMENT)


class NumpyProgramWriter(ProgramWriter):
    """Writes plans whose equations are calls of NumPy."""

    def __init__(
        self,
        plan: Plan,
        consts: Sequence,
        donated: frozenset[int] = NOTHING,
        inside: CompileGraph = compile_graph,
    ):
        super().__init__(plan, donated, inside)
        graph = plan.graph
        self.names = {v: f"a{i}" for i, v in enumerate(graph.invars)}
        for i, (v, c) in enumerate(zip(graph.constvars, consts, strict=True)):
            self.names[v] = f"const{i}"
            self.space[f"const{i}"] = c
        self.overwrites = self._overwrites()

    # ---- names ----
    def name(self, v: Var) -> str:
        found = self.names.get(v)
        if found is None:
            found = self.names[v] = f"v{len(self.names)}"
        return found

    def operand(self, a: Atom) -> str:
        return self.literal(a) if isinstance(a, Literal) else self.names[a]

    def literal(self, a: Literal) -> str:
        # A NumPy scalar, of the dtype that it was recorded with.
        return self.bind("lit", np.asarray(a.val).astype(storage_dtype(a.aval))[()])

    # ---- equations ----
    def call(
        self,
        eqn: Eqn,
        operands: Iterable[str] | None = None,
        run: Callable[..., Any] | None = None,
    ) -> None:
        loop = self.short_loop(eqn)
        if loop is not None:
            self.loop(loop, eqn)
            return
        run = self.routine(eqn) if run is None else run
        if isinstance(run, np.ufunc):
            operands = [self.operand(a) for a in eqn.invars] if operands is None else [*operands]
            if self.by_operator(run, eqn, operands):
                return
        super().call(eqn, operands, run)

    def by_operator(self, function: np.ufunc, eqn: Eqn, operands: list[str]) -> bool:
        """Write a ufunc of scalars as Python's operator, if it has one; whether it was written."""
        if not any(a.aval.ndim for a in eqn.invars):
            dtypes = [a.aval.dtype for a in eqn.invars]
            plain = all(isinstance(d, np.dtype) and d.char in "?bBhHiIlLqQefd" for d in dtypes)
            sign = _OPERATORS.get(function)
            # Of bools, NumPy's scalars add and subtract otherwise than its arrays.
            if not plain or sign is None or ("?" in [d.char for d in dtypes] and sign in "+-*/"):
                return False
            self.line(f"{self.name(eqn.outvars[0])} = {f' {sign} '.join(operands)}", eqn, eqn)
            return True
        # A scalar would be made an array at every call.
        for a, name in zip(eqn.invars, operands, strict=True):
            if isinstance(a, Literal):
                self.space[name] = np.asarray(self.space[name])
        return False

    # ---- loops ----
    def short_loop(self, eqn: Eqn) -> Loop | None:
        """Return the loop that an equation is, if it is to be written out here."""
        # Other backends compile the Graphs in their programs; theirs are functions.
        flow = None if eqn.primitive.flow is None else eqn.primitive.flow(eqn)
        if not isinstance(flow, Loop) or self.inside is not compile_graph:
            return None
        return flow if len(self.indent) < 4 * loops.DEEPEST and loops.is_short(flow) else None

    def exchange(self, eqn: Eqn) -> None:
        loop = self.short_loop(eqn)
        if loop is None:
            super().exchange(eqn)
        else:
            self.loop(loop, eqn)

    def loop(self, loop: Loop, eqn: Eqn) -> None:
        """Write a loop whose iterations are so short that calling a function for each costs as
        much.
        """
        operands = [self.operand(a) for a in eqn.invars]
        consts = [operands[i] for i in loop.consts]
        # Loop invariants are computed before the loop.
        before, turn = loops.without_invariants(loop.body, len(consts))
        given = [*self.written(before, consts), *consts]
        carry = [self.bind("carry", None) for _ in loop.carry]
        for name, i in zip(carry, loop.carry, strict=True):
            self.line(f"{name} = {operands[i]}")
        # The stacked results, and the place of each row.
        out = loop.body.out_avals[len(carry) :]
        length, back = loop.length or 0, loop.reverse
        ys = [self.bind("ys", None) for _ in out]
        for y, aval in zip(ys, out, strict=True):
            dtype = self.bind("dtype", storage_dtype(aval))
            self.line(f"{y} = {self.bind('empty', memory.empty)}({(length, *aval.shape)}, {dtype})")
        # A counted loop uses Python's own iteration over rows, which is faster than an index.
        if loop.condition is None:
            rows = [self.bind("row", None) for _ in loop.xs]
            through = [f"{operands[i]}{'[::-1]' * back}" for i in loop.xs]
            if ys or not rows:
                # Count iterations only if the number is used.
                number = [self.bind("i", None)] if ys else ["_"]
                order = f"range({length - 1}, -1, -1)" if back and ys else f"range({length})"
            else:
                number, order = [], ""
            each, every = [*number, *rows], [*filter(None, [order]), *through]
            text = every[0] if len(every) == 1 else f"zip({', '.join(every)})"
            self.line(f"for {', '.join(each)} in {text}:")
        else:
            rows = []
            self.line("while True:")
        outer, self.indent = self.indent, self.indent + "    "
        if loop.condition is not None:
            asked = [*(operands[i] for i in loop.condition_consts), *carry]
            self.line(f"if not {self.written(loop.condition, asked)[0]}: break")
        results = self.written(turn, [*given, *carry, *rows])
        for y, row in zip(ys, results[len(carry) :], strict=True):
            self.line(f"{y}[{each[0]}] = {row}")
        if carry:
            # In one assignment: a new carry may depend on several old ones.
            self.line(f"{', '.join(carry)}, = {', '.join(results[: len(carry)])},")
        elif not results:
            self.line("pass")
        self.indent = outer
        for v, name in zip(eqn.outvars, [*carry, *ys], strict=True):
            self.line(f"{self.name(v)} = {name}")

    def written(self, graph: Graph, operands: Sequence[str]) -> list[str]:
        """Write the steps of a Graph as lines of this function; return its results."""
        plan = self.planned(graph)
        consts = stored_constants(plan.graph)
        body = type(self)(plan, consts, NOTHING, self.inside)
        # Its lines are lines of this function, and so are its names.
        body.lines, body.space, body.names = self.lines, self.space, self.names
        body.sites, body.ran, body.holders = self.sites, self.ran, self.holders
        body.indent = self.indent
        held = [self.bind("const", c) for c in consts]
        self.names.update(zip((*plan.graph.constvars, *plan.graph.invars), (*held, *operands)))
        body.write_steps()
        return [body.result(a) for a in plan.graph.outvars]

    def planned(self, graph: Graph) -> Plan:
        """Return the plan of a Graph that is written out where it is used."""
        plan = plan_graph(graph)
        return plan.overlapped if self.plan.overlaps else plan

    def own(self, eqn: Eqn) -> Collection[int]:
        return range(len(eqn.outvars)) if eqn.primitive.kind in _MAKES else ()

    def routine(self, eqn: Eqn) -> Callable[..., Any]:
        return function_of(eqn.primitive, [a.aval for a in eqn.invars], eqn.params, self.inside)

    def called(self, eqn: Eqn, run: Callable[..., Any]) -> str:
        # Refuse an allocation larger than the machine's memory, instead of being killed later.
        made = 0 if self.is_view(eqn) else sum(v.aval.nbytes for v in eqn.outvars)
        if made > memory.machine_bytes():
            run = memory.refusal(made)
        name = super().called(eqn, run)
        # An operand that dies here may be overwritten: always (-1), or if its input is donated.
        given_up = self.overwrites.get(id(eqn))
        if given_up is None:
            return name
        assert eqn.primitive.inplace is not None
        rule = eqn.primitive.inplace([a.aval for a in eqn.invars], **eqn.params)
        inplace = self.bind(identifier(eqn) + "_inplace", rule)
        return inplace if given_up < 0 else f"({inplace} if {given_up} in owned else {name})"

    def _overwrites(self) -> dict[int, int]:
        """Return the equations (by id) that may overwrite their first operand.

        The operand dies there, and its memory is the plan's own (-1) or that of a donated input
        (its number).
        """
        number = {v: i for i, v in enumerate(self.graph.invars)}
        found: dict[int, int] = {}
        for i, step in enumerate(self.steps):
            # Only equations with an in-place rule can overwrite an operand.
            if not isinstance(step, Eqn) or step.primitive.inplace is None:
                continue
            first, lives = step.invars[0], self.lifetimes
            # It must be all of its memory, which is not read later.
            if not isinstance(first, Var) or lives.root(first) is not first:
                continue
            # No other operand may use the memory either.
            others = (a for a in step.invars[1:] if isinstance(a, Var))
            if lives.last.get(first) != i or any(lives.root(a) is first for a in others):
                continue
            # The plan's own memory may always be overwritten, an input's only if it was donated.
            if first in lives.owned:
                found[id(step)] = -1
            elif number.get(first) in self.donated:
                found[id(step)] = number[first]
        return found

    # ---- groups ----
    def kernel(self, number: int, step: Kernel | FusedGroup) -> None:
        """Write a group: in tiles if it is large."""
        group = group_in(step)
        runner = tiles.tiled(group)
        if runner is None:
            self.group(group)
        else:
            self.tiled(group, runner)

    def group(self, group: FusedGroup) -> None:
        """Write a small group: one call per equation."""
        seen: dict[tuple, str] = {}
        # One call for a product and its sum saves the memory of the product.
        members, products = summed_products(members_in_order(group), group.outputs)
        for member in members:
            operands = [self.operand_of_group(o, seen) for o in member.operands]
            self.call(member.eqn, operands, products.get(member))

    def tiled(self, group: FusedGroup, runner: tiles.TiledGroup) -> None:
        """Write a large group: one call that runs it in tiles."""
        seen: dict[tuple, str] = {}
        # An error in a tiled group is reported for its first equation.
        loads = [self.load(load, seen) for load in runner.loads]
        outs = ", ".join(self.name(v) for v in group.outputs)
        kernel = self.bind(group.name, runner)
        self.line(f"{outs}, = {kernel}({', '.join(loads)})", group.members[0].eqn, group)

    def operand_of_group(self, operand: Operand, seen: dict[tuple, str]) -> str:
        if isinstance(operand, Literal):
            return self.literal(operand)
        if isinstance(operand, Inner):
            return self.names[operand.var] + tiles.reorder(operand.order, operand.var.aval.ndim)
        return self.load(operand, seen)

    def load(self, load: Load, seen: dict[tuple, str]) -> str:
        """Return the name of an input seen through its views."""
        if load.source not in self.names:
            self.generate(load.source)
        name = self.names[load.source]
        # Views are shared: each prefix of a chain is computed once.
        for depth, view in enumerate(load.views):
            key = load.key[1][: depth + 1]
            known = seen.get((load.source, key))
            if known is None:
                rule = view.primitive.numpy_function([view.invars[0].aval], view.params)
                function = self.bind(identifier(view), rule)
                known = f"w{len(self.space)}"
                self.space[known] = None
                self.line(f"{known} = {function}({name})", view)
                seen[(load.source, key)] = known
            name = known
        return name

    def generate(self, v: Var) -> None:
        """Write a value that depends on indices only (iota), which every reader makes anew."""
        self.call(self.made_by[v])

    @cached_property
    def made_by(self) -> dict[Var, Eqn]:
        """The equations that make the values of the Graph."""
        return {v: e for e in self.graph.eqns for v in e.outvars}
