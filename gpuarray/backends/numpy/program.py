"""The NumPy backend: Plans as straight-line Python over NumPy.

Floor 4. In: a Plan. Out: a function on buffers, generated once. A buffer is an ndarray or a NumPy
scalar. Large groups run in cache-sized tiles (tiles.py), small ones as one NumPy call per equation.
"""

from __future__ import annotations

import contextvars
import operator
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.backends import lockstep
from gpuarray.backends.numpy import memory, tiles
from gpuarray.backends.numpy.sums import summed_products
from gpuarray.backends.profiled import Steps
from gpuarray.compiler.fuse.group import (
    FusedGroup,
    Inner,
    Load,
    Operand,
    members_in_order,
)
from gpuarray.compiler.lower.kernel import DeviceStep, Kernel
from gpuarray.compiler.lower.overlap import Halves, last_reads
from gpuarray.compiler.lower.steps import group_in, step_inputs
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.core.flow import Loop
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, storage_dtype, talks
from gpuarray.core.primitive import Kind


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
    """Whether `error` says that this thread's context is in use; it is then replaced by a new one.

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


#: What Python does to NumPy's scalars: the same as the ufuncs, in a tenth of the time.
_OPERATORS = {np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul}
_OPERATORS |= {np.less: operator.lt, np.less_equal: operator.le, np.equal: operator.eq}
_OPERATORS |= {np.greater: operator.gt, np.greater_equal: operator.ge, np.not_equal: operator.ne}


def compile_graph(graph: Graph, donated: frozenset[int] = frozenset()) -> Callable[..., list]:
    """Compile a Graph inside another (a branch, a loop body) to a function on buffers."""
    # Kept with the graph: a loop body is compiled once, whatever calls it.
    key = ("plan", donated)
    if key not in graph.derived:
        plan = plan_graph(graph)
        consts = [np.asarray(c) for c in plan.graph.consts]
        graph.derived[key] = build(plan, consts, donated)
    return graph.derived[key]


class ProgramWriter:
    """Writes the function of a plan line by line; `space` holds the values of its names."""

    def __init__(self):
        self.lines: list[str] = []
        self.indent = "    "
        # Exchanges in progress (by id): the variable that holds one, and its equation.
        self.going: dict[int, tuple[str, Eqn]] = {}
        # The generated function's globals, by name.
        self.space: dict[str, Any] = {}
        self.names: dict[Any, str] = {}
        self.sites: dict[int, Eqn] = {}  # line number -> equation, for error messages
        self.steps: dict[int, DeviceStep | str] = {}  # line number -> what it runs, for profiles
        self.holders: dict[str, Eqn] = {}  # name -> the equation with Graphs that it runs

    def name(self, v: Var) -> str:
        found = self.names.get(v)
        if found is None:
            found = self.names[v] = f"v{len(self.names)}"
        return found

    def bind(self, prefix: str, value: Any) -> str:
        name = f"{prefix}_{len(self.space)}"
        self.space[name] = value
        return name

    def atom(self, a: Atom) -> str:
        return self.literal(a) if isinstance(a, Literal) else self.names[a]

    def literal(self, a: Literal) -> str:
        # A NumPy scalar, of the dtype that it was recorded with.
        return self.bind("lit", np.asarray(a.val).astype(storage_dtype(a.aval))[()])

    def line(self, text: str, eqn: Eqn | None = None, step: DeviceStep | None = None) -> None:
        self.lines.append(self.indent + text)
        if eqn is not None:
            self.sites[len(self.lines)] = eqn
        if step is not None:
            self.steps[len(self.lines)] = step

    def call(self, eqn: Eqn, operands: list[str], function: Callable | None = None) -> None:
        if talks(eqn):
            return self.exchange(eqn, operands)
        name, avals = _safe(eqn.primitive.name), [a.aval for a in eqn.invars]
        if function is None:
            function = function_of(eqn.primitive, avals, eqn.params, self.compile_graph)
            if isinstance(function, np.ufunc):
                function = self.sooner(function, eqn, operands)
        made = 0 if eqn.primitive.kind is Kind.VIEW else sum(v.aval.nbytes for v in eqn.outvars)
        if made > memory.machine_bytes():
            function = memory.refusal(made)
        called = self.bind(name, function)
        if eqn.primitive.assemble is not None:
            self.holders[called] = eqn
        # An operand that dies here may be overwritten: always (-1), or if its input is donated.
        given_up = self.overwrites.get(id(eqn))
        if given_up is not None:
            assert eqn.primitive.inplace is not None
            inplace = self.bind(name + "_inplace", eqn.primitive.inplace(avals, **eqn.params))
            called = (
                inplace if given_up < 0 else f"({inplace} if {given_up} in owned else {called})"
            )
        outs = ", ".join(self.name(v) for v in eqn.outvars)
        comma = "," if eqn.primitive.multiple_results else ""
        target = f"{outs}{comma} = " if outs else ""  # run for its effect only
        step = None if eqn.primitive.kind is Kind.VIEW else eqn
        self.line(f"{target}{called}({', '.join(operands)})", eqn, step)

    def sooner(self, function: np.ufunc, eqn: Eqn, operands: list[str]) -> Callable[..., Any]:
        """Return what does the same as a ufunc, in less time where the operands are small."""
        dtypes = [a.aval.dtype for a in eqn.invars]
        if not any(a.aval.ndim for a in eqn.invars):
            plain = all(isinstance(d, np.dtype) and d.char in "bBhHiIlLqQefd" for d in dtypes)
            return _OPERATORS.get(function, function) if plain else function
        # A scalar would be made an array at every call.
        for a, name in zip(eqn.invars, operands, strict=True):
            if isinstance(a, Literal):
                self.space[name] = np.asarray(self.space[name])
        return function

    def exchange(self, eqn: Eqn, operands: list[str]) -> None:
        """Write a collective: the program of a device stops there until all have come to it.

        A loop or branch that holds one is a program of the same kind, which this one runs.
        """
        given = ", ".join(operands)
        outs = ", ".join(self.name(v) for v in eqn.outvars)
        target = f"{outs}, = " if outs else ""
        if id(eqn) in self.halves:
            asked = self.bind(_safe(eqn.primitive.name), self.halves[id(eqn)].start)
            going = f"h{len(self.space)}"
            self.line(f"{going} = yield {asked}, [{given}]", eqn, eqn)
            self.going[id(eqn)] = going, eqn
            return
        if eqn.primitive.kind is Kind.COLLECTIVE:
            asked = self.bind(_safe(eqn.primitive.name), eqn)
            self.line(f"{target}yield {asked}, [{given}]", eqn, eqn)
            return
        loop = None if eqn.primitive.flow is None else eqn.primitive.flow(eqn)
        if isinstance(loop, Loop) and _is_short(loop, eqn):
            return self.loop(loop, eqn, operands)
        run = lockstep.steps(eqn, self.compile_graph or compile_graph)
        called = self.bind(_safe(eqn.primitive.name), run)
        self.line(f"{target}yield from {called}({given})", eqn, eqn)

    def arrive(self, i: int) -> None:
        """Write the waits for exchanges in progress that have to end before step i."""
        for number in [n for n in self.going if self.halves[n].until <= i]:
            going, eqn = self.going.pop(number)
            outs = ", ".join(self.name(v) for v in eqn.outvars)
            asked = self.bind(_safe(eqn.primitive.name), self.halves[number].wait)
            self.line(f"{outs}, = yield {asked}, {going}", eqn, eqn)

    def loop(self, loop: Loop, eqn: Eqn, operands: list[str]) -> None:
        """Write a loop whose steps are so short that calling a function for each costs as much."""
        plan = self.planned(loop.body)
        around = self.made_by, self.overwrites, self.halves
        consts = [self.bind("const", np.asarray(c)) for c in plan.graph.consts]
        given = [operands[i] for i in loop.consts]
        carry = [self.bind("carry", None) for _ in loop.carry]
        for name, i in zip(carry, loop.carry, strict=True):
            self.line(f"{name} = {operands[i]}")
        self.line(f"for _ in range({loop.length}):")
        self.indent += "    "
        results = self.program(plan, consts, [*given, *carry], frozenset())
        self.line(f"{', '.join(carry)}, = {', '.join(results)},")
        self.indent = self.indent[4:]
        self.made_by, self.overwrites, self.halves = around
        for v, name in zip(eqn.outvars, carry, strict=True):
            self.line(f"{self.name(v)} = {name}")

    def program(
        self, plan: Plan, consts: list[str], inputs: list[str], donated: frozenset[int]
    ) -> list[str]:
        """Write the steps of a plan, given the names of its values; return those of its results."""
        graph = plan.graph
        self.made_by = {v: e for e in graph.eqns for v in e.outvars}
        self.overwrites, self.halves = _overwrites(plan, donated), plan.halves
        self.names.update(zip((*graph.constvars, *graph.invars), (*consts, *inputs), strict=True))
        # One or more lines for each step.
        for i, step in enumerate(plan.steps):
            if self.halves:
                self.arrive(i)
            if isinstance(step, Eqn):
                self.call(step, [self.atom(a) for a in step.invars])
            else:
                self.fused(step)
        if self.halves:
            self.arrive(len(plan.steps))
        return [self.atom(a) for a in graph.outvars]

    def fused(self, step: Kernel | FusedGroup) -> None:
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
            operands = [self.operand(o, seen) for o in member.operands]
            self.call(member.eqn, operands, products.get(member))

    def tiled(self, group: FusedGroup, runner: tiles.TiledGroup) -> None:
        """Write a large group: one call that runs it in tiles."""
        seen: dict[tuple, str] = {}
        # An error in a tiled group is reported for its first equation.
        loads = [self.load(load, seen) for load in runner.loads]
        outs = ", ".join(self.name(v) for v in group.outputs)
        kernel = self.bind(group.name, runner)
        self.line(f"{outs}, = {kernel}({', '.join(loads)})", group.members[0].eqn, group)

    def operand(self, operand: Operand, seen: dict[tuple, str]) -> str:
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
                function = self.bind(
                    _safe(view.primitive.name),
                    view.primitive.numpy_function([view.invars[0].aval], view.params),
                )
                known = f"w{len(self.space)}"
                self.space[known] = None
                self.line(f"{known} = {function}({name})", view)
                seen[(load.source, key)] = known
            name = known
        return name

    def generate(self, v: Var) -> None:
        """Write a value that depends on indices only (iota), which every reader makes anew."""
        eqn = self.made_by[v]
        self.call(eqn, [self.atom(a) for a in eqn.invars])

    def planned(self, graph: Graph) -> Plan:
        """Return the plan of a Graph that is written out where it is used."""
        return plan_graph(graph)

    # Compiles the Graphs that primitives hold; None: this module's function.
    compile_graph: Callable | None = None
    made_by: dict[Var, Eqn]
    # Equations (by id) that may overwrite their first operand: the number of the input, or -1.
    overwrites: dict[int, int]
    # Exchanges (by id) that others run beside.
    halves: dict[int, Halves]


#: The bytes that a step of a loop may make, for the loop to be written out.
_SHORT = 1 << 16


def _is_short(loop: Loop, eqn: Eqn) -> bool:
    """Whether a loop does so little in a step that it is written out; it keeps its last values."""
    plain = loop.condition is None and not loop.xs and len(eqn.outvars) == len(loop.carry) > 0
    return plain and sum(v.aval.nbytes for e in loop.body.eqns for v in e.outvars) <= _SHORT


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def build(
    plan: Plan,
    consts: list,
    donated: frozenset[int] = frozenset(),
    writer: ProgramWriter | None = None,
) -> Callable[..., list]:
    """Return a Python function from buffers to a list of buffers.

    With donated inputs it takes one more argument: the set of those that may be overwritten. Other
    backends bring their own `writer`.
    """
    graph = plan.graph
    writer = ProgramWriter() if writer is None else writer
    names = [f"const{i}" for i in range(len(consts))]
    writer.space.update(zip(names, consts, strict=True))
    inputs = [f"a{i}" for i in range(len(graph.invars))]
    head = f"def plan({', '.join(inputs + (['owned'] if donated else []))}):"
    results = writer.program(plan, names, inputs, donated)
    writer.line(f"return [{', '.join(results)}]")
    source = "\n".join([head, *writer.lines])
    # Straight-line code: at each call nothing is looked up or decided again.
    function: Any = util.function_of_text(source, "<plan>", writer.space)
    function.source = source
    function.sites = writer.sites
    inside = writer.compile_graph or compile_graph
    function.steps = Steps(graph.debug_name, source, writer.steps, writer.holders, inside)
    function.fresh = _fresh_outputs(plan)
    function.talks = any(map(talks, graph.eqns))  # then it is a generator
    return function


def _overwrites(plan: Plan, donated: frozenset[int]) -> dict[int, int]:
    """Return the equations that may overwrite their first operand.

    The operand dies there, and its memory is the plan's own (-1) or that of a donated input (its
    number).
    """
    graph = plan.graph
    root, fresh = _roots(plan), _fresh(plan)
    number = {v: i for i, v in enumerate(graph.invars)}
    # The last step that reads each value's memory.
    last: dict[Var, int] = {}
    for i, step in enumerate(plan.steps):
        for v in step_inputs(step):
            last[root(v)] = i
    for a in graph.outvars:
        if isinstance(a, Var):
            last[root(a)] = len(plan.steps)
    for v, i in last_reads(plan.halves, plan.steps).items():
        last[root(v)] = max(last[root(v)], i)
    found: dict[int, int] = {}
    for i, step in enumerate(plan.steps):
        # Only equations with an in-place rule can overwrite an operand.
        if not isinstance(step, Eqn) or step.primitive.inplace is None:
            continue
        first = step.invars[0]
        if not isinstance(first, Var) or last.get(first) != i or root(first) is not first:
            continue
        # Read by another operand too.
        if any(isinstance(a, Var) and root(a) is first for a in step.invars[1:]):
            continue
        # The plan's own memory may always be overwritten, an input's only if it was donated.
        if first in fresh:
            found[id(step)] = -1
        elif number.get(first) in donated:
            found[id(step)] = number[first]
    return found


#: Kinds whose results are in memory of their own.
_MAKES = (Kind.LIBRARY, Kind.SCAN, Kind.SORT, Kind.INDEXING, Kind.MOVEMENT)


def _fresh(plan: Plan) -> set[Var]:
    """The values whose memory the plan itself makes."""
    fresh = {v for s in plan.steps if not isinstance(s, Eqn) for v in s.outputs}
    for s in plan.steps:
        if isinstance(s, Eqn) and s.primitive.kind in _MAKES:
            fresh.update(s.outvars)
    return fresh


def _roots(plan: Plan) -> Callable[[Var], Var]:
    """Return the function from a value to the one whose memory it is a view of."""
    made_by = {v: e for e in plan.graph.eqns for v in e.outvars}

    # Views of views: go back to the memory.
    def root(v: Var) -> Var:
        while v in made_by and made_by[v].primitive.kind is Kind.VIEW:
            source = made_by[v].invars[0]
            if not isinstance(source, Var):
                break
            v = source
        return v

    return root


def _fresh_outputs(plan: Plan) -> frozenset[int]:
    """Return the numbers of outputs whose memory is the plan's own and no other output's."""
    root, fresh = _roots(plan), _fresh(plan)
    # Two outputs in one memory cannot both be handed out as the caller's own.
    roots = [root(a) if isinstance(a, Var) else None for a in plan.graph.outvars]
    return frozenset(i for i, v in enumerate(roots) if v in fresh and roots.count(v) == 1)
