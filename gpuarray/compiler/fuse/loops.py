"""Loops and branches in registers: those in which no element needs another one.

Floor 3. In: an equation whose primitive describes how it runs its Graphs (`Primitive.flow`). Out: a
`Flow`, which a kernel runs for each element: statements on registers and on elements of memory,
every value labelled with the axes of one space that it runs along. None if elements depend on one
another: then the equation stays a separate step.

Axes are found by unification: every dimension of every value starts with a separate label, and each
statement unites the labels of dimensions that it combines. The labels of the largest result are the
axes of the space; a value that needs another axis is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gpuarray.compiler.fuse.flows import (
    Carry,
    Choose,
    Compute,
    Flow,
    Picked,
    Register,
    Repeat,
    Seen,
    Statement,
    Turn,
    Value,
)
from gpuarray.compiler.fuse.group import Dims, GroupBuilder, Load, Member, Operand
from gpuarray.compiler.fuse.merge import view_order
from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.compiler.rewrite.simplify import drop_dead, simplify
from gpuarray.core.avals import ShapedArray
from gpuarray.core.dtypes import in_kernels
from gpuarray.core.element_rules import has_text
from gpuarray.core.flow import Choice, Loop
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, is_view
from gpuarray.core.primitive import Kind
from gpuarray.core.target import TARGET

# ---- from an equation to a group ----


def flow_group(eqn: Eqn, used: Iterable[Var], index: GraphIndex) -> GroupBuilder | None:
    """A group of one member that runs a loop or a branch in registers; None if that is impossible.

    Parameters
    ----------
    used :
        The results that are read.
    index :
        The index of the graph that contains it.
    """
    wanted = {k for k, v in enumerate(eqn.outvars) if v in used}
    operands = [_fill_scalar(a, index) for a in eqn.invars]
    in_memory: set[int] = set()
    # 1. Build the flow. At first every operand is assumed to be a register. If a thread needs more
    # than its own element of one, that is left in memory, and building starts again.
    while True:
        # Building is cheap, and each new start has one operand more in memory, so this ends.
        try:
            flow = _FlowBuilder(eqn, operands, in_memory).flow(wanted)
            break
        except _InMemory as found:
            in_memory.add(found.operand)
        except NotElementwise:
            return None
    # 2. The space of the group: the axes of the flow that are longer than 1.
    axes: list[int] = []
    space: list[int | None] = []
    for n in flow.shape:
        space.append(None if n == 1 else len(axes))
        if n != 1:
            axes.append(n)

    def load(a: Atom, dims: Dims) -> Operand:
        if isinstance(a, Literal):
            return a
        labels = tuple(None if d is None else space[d] for d in dims)
        return Load(*index.base(a), labels, a.aval.shape)

    # 3. Operands: those in registers are loads, those in memory belong to the flow.
    values = [load(operands[k], register.dims) for k, register in flow.values.items()]
    for k in sorted({x.operand for x in flow.seen}):
        a = operands[k]
        assert isinstance(a, Var)
        flow.memory[k] = Load(*index.base(a), (), a.aval.shape)
    group = GroupBuilder(axes)
    group.add(Member(eqn, values, tuple(space), tuple(space), flow))
    return group


def _fill_scalar(a: Atom, index: GraphIndex) -> Atom:
    """The constant that an array is filled with, or the array itself."""
    eqn = index.maker(a)
    if eqn is not None and is_view(eqn) and isinstance(eqn.invars[0], Literal):
        return eqn.invars[0]
    return a


class NotElementwise(Exception):
    """A loop or branch cannot run in registers: elements need one another, or something that
    kernels do not have.
    """


class _InMemory(Exception):
    """An operand must stay in memory: a thread needs more than its own element of it."""

    def __init__(self, operand: int):
        self.operand = operand


class _FlowBuilder:
    """Builds the flow of one equation, and finds the axes of its values."""

    def __init__(self, eqn: Eqn, operands: list[Atom], in_memory: set[int]):
        self.eqn = eqn
        self.operands = operands
        self.in_memory = in_memory
        # Every register and element made, so that `flow` can turn their labels into axes at the
        # end.
        self.all: list[Register | Seen] = []
        # Labels: a union-find forest, with a length for each root.
        self.parent: list[int] = []
        self.length: list[int] = []
        self.real: list[bool] = []  # whether elements along it may differ
        # Loops so far, to number their iterations, and totals for limits and the cost model.
        self.loops = 0
        self.weight = 0.0
        self.statements = 0

    # ---- labels ----
    def fresh(self, aval: ShapedArray, real: bool = False) -> list[int | None]:
        """New labels for the dimensions of a value; None for those of length 1."""
        labels: list[int | None] = []
        for n in aval.shape:
            labels.append(None if n == 1 else len(self.parent))
            if n != 1:
                self.parent.append(len(self.parent))
                self.length.append(n)
                self.real.append(real)
        return labels

    def find(self, label: int) -> int:
        """The root of a label, with the paths to it halved on the way."""
        while self.parent[label] != label:
            # Path halving: each label points at its grandparent, so later searches are short.
            self.parent[label] = self.parent[self.parent[label]]
            label = self.parent[label]
        return label

    def tie(self, ours: Sequence[int | None], theirs: Sequence[int | None]) -> None:
        """Unite the labels of two values, dimension by dimension; None fits any."""
        for one, two in zip(ours, theirs, strict=True):
            if one is None or two is None:
                continue
            a, b = self.find(one), self.find(two)
            if a != b:
                if self.length[a] != self.length[b]:
                    raise NotElementwise("lengths differ")
                # The root of the second set joins the first; elements along both may differ if
                # either may.
                self.parent[b] = a
                self.real[a] |= self.real[b]

    def register(self, aval: ShapedArray, real: bool = False) -> Register:
        made = Register(aval, self.fresh(aval, real))
        self.all.append(made)
        return made

    def assign(self, register: Register, value: Value) -> None:
        """Let a register take a value, which must have its dtype and run along its axes."""
        # A loop's next value takes the register of the value before: C++ would convert between
        # dtypes silently.
        # A scalar may fill a register that runs along axes, an array not.
        if register.aval.dtype != value.aval.dtype:
            raise NotElementwise("dtypes differ")
        if not isinstance(value, Literal) and value.aval.ndim:
            self.tie(register.labels, value.labels)

    # ---- the whole ----
    def flow(self, wanted: set[int]) -> Flow:
        """The flow that computes these results."""
        # 1. Statements, from the operands.
        given = [self.operand_value(k, a) for k, a in enumerate(self.operands)]
        statement, results = self.structure(self.eqn, given, wanted)
        if not results:
            raise NotElementwise("nobody reads it")
        # 2. The dimensions of each result. One step of a stacked result has one axis less.
        stacked = statement.stacked if isinstance(statement, Repeat) else {}
        labels: dict[int, list[int | None]] = {}
        shapes: dict[int, tuple[int, ...]] = {}
        for k in results:
            aval = self.eqn.outvars[k].aval
            shapes[k] = aval.shape[1:] if k in stacked else aval.shape
            labels[k] = self.fresh(ShapedArray(shapes[k], aval.dtype))
            value = results[k]
            if not isinstance(value, Literal) and value.aval.ndim:
                self.tie(labels[k], value.labels)
        # 3. The largest result gives the space; others of its shape run along the same axes.
        first = max(results, key=lambda k: (math.prod(shapes[k]), -k))
        if not all(math.prod(s) for s in shapes.values()):
            raise NotElementwise("there is nothing to do")
        for k in results:
            if shapes[k] == shapes[first]:
                self.tie(labels[first], labels[k])
        # 4. Labels of the space become its axes, and all values that are read run along them.
        axis_of: dict[int, int] = {}
        for d, label in enumerate(labels[first]):
            if label is not None:
                # Two dimensions of the result with one label would be its diagonal.
                if self.find(label) in axis_of:
                    raise NotElementwise("an axis meets itself")
                axis_of[self.find(label)] = d
        for value in self.all:
            if value.read:
                _check_type(value.aval)
                value.dims = tuple(self.axis(x, axis_of) for x in value.labels)
        dims = {k: tuple(self.axis(x, axis_of, True) for x in labels[k]) for k in results}
        values = {k: v for k, v in enumerate(given) if isinstance(v, Register) and v.read}
        seen = [v for v in self.all if isinstance(v, Seen) and v.read]
        return Flow(statement, shapes[first], values, {}, seen, dims, self.weight)

    def axis(self, label: int | None, axis_of: dict[int, int], needed: bool = False) -> int | None:
        """The axis of the space for a label. A label outside the space is None if elements along it
        are all the same (a broadcast constant), and an error otherwise.
        """
        if label is None:
            return None
        root = self.find(label)
        if root not in axis_of and (needed or self.real[root]):
            raise NotElementwise("it runs along other axes as well")
        return axis_of.get(root)

    def operand_value(self, k: int, a: Atom) -> Value:
        """Operand `k` as a value of the flow: a constant, a register or an element of memory."""
        if isinstance(a, Literal):
            return a
        made: Register | Seen
        # A second building: this operand was found to be needed beyond the thread's own element.
        if k in self.in_memory:
            made = Seen(a.aval, self.fresh(a.aval, True), k, ())
        else:
            made = Register(a.aval, self.fresh(a.aval, True), k)
        self.all.append(made)
        return made

    # ---- structure ----
    def structure(
        self, eqn: Eqn, given: Sequence[Value | None], wanted: set[int]
    ) -> tuple[Repeat | Choose, dict[int, Value]]:
        """A loop or a branch, and the values of its results that are wanted."""
        assert eqn.primitive.flow is not None
        form = eqn.primitive.flow(eqn)
        if isinstance(form, Loop):
            return self.loop(eqn, form, given, wanted)
        assert isinstance(form, Choice)
        which, *operands = given
        results = {k: self.register(eqn.outvars[k].aval) for k in sorted(wanted)}
        branches = []
        # Every branch assigns its values to the same registers, so their axes are united.
        for graph in form.branches:
            # Only results that are wanted: values that a branch computes for others are dropped.
            flat = drop_dead(_with_outputs(simplified(graph), sorted(wanted)))
            statements, out = self.block(flat, operands)
            for k, value in zip(sorted(wanted), out, strict=True):
                self.assign(results[k], value)
            branches.append((statements, out))
        return Choose(eqn, self.read_value(which), branches, results), dict(results)

    def read_value(self, value: Value | None) -> Value:
        """The value, noted as one that is read: only those are loaded or declared."""
        if value is None:
            raise NotElementwise("it reads what a loop inside it stacks")
        if isinstance(value, Register):
            value.base.read = True
        if not isinstance(value, Literal):
            value.read = True
        return value

    def loop(
        self, eqn: Eqn, form: Loop, given: Sequence[Value | None], wanted: set[int]
    ) -> tuple[Repeat, dict[int, Value]]:
        """A loop, and the values of its results that are wanted."""
        # 1. Which carries are needed: those that wanted results and the condition depend on.
        body = simplified(form.body)
        test = None if form.condition is None else simplified(form.condition)
        count = len(form.carry)
        live = _live_carries(form, body, test, wanted)
        stacked = sorted(k for k in wanted if k >= count)
        # 2. Steps, if they are counted. The number is negative, unlike those of axes.
        turn = None
        if form.length is not None:
            if not form.length:
                raise NotElementwise("it takes no step")
            self.loops += 1
            turn = Turn(-self.loops, form.length)
        # 3. A register for each carry, which takes the start.
        carries: dict[int, Carry] = {}
        for k in live:
            start = self.read_value(given[form.carry[k]])
            inside = self.register(body.invars[len(form.consts) + k].aval)
            self.assign(inside, start)
            carries[k] = Carry(start, inside)
        # The body's cost is the increase of the weight from here on.
        made = Repeat(eqn, turn, form.reverse, carries)
        before = self.weight
        carried = [carries[k].inside if k in carries else None for k in range(count)]
        # 4. The condition, on the carries.
        if test is not None:
            consts = [given[k] for k in form.condition_consts]
            made.test, (going,) = self.block(test, [*consts, *carried])
            made.going = going
            # A condition with axes is one for each element along them: elements may stop at
            # different steps, and the carries run along these axes.
            for carry in carries.values():
                if not isinstance(going, Literal):
                    self.tie(going.labels, carry.inside.labels[: len(going.labels)])
        # 5. The body. An array that the loop scans is read at the step, if it is read.
        flat = drop_dead(_with_outputs(body, [*live, *stacked]))
        read = {*(a for e in flat.eqns for a in e.invars), *flat.outvars}
        ins: list[Value | None] = [*(given[k] for k in form.consts), *carried]
        for k, v in zip(form.xs, flat.invars[len(ins) :], strict=True):
            ins.append(self.element(given[k], turn) if v in read else None)
        # 6. Its values: the next carries, then the elements stacked at each step.
        made.body, out = self.block(flat, ins)
        for k, value in zip(live, out[: len(live)], strict=True):
            self.assign(carries[k].inside, value)
            carries[k].next = value
        made.stacked = dict(zip(stacked, out[len(live) :], strict=True))
        # The cost of the condition and the body, once for each step.
        rounds = TARGET.guessed_steps if form.length is None else float(form.length)
        self.weight = before + (self.weight - before) * rounds
        results: dict[int, Value] = {k: carries[k].inside for k in live if k in wanted}
        return made, results | made.stacked

    def element(self, value: Value | None, turn: Turn | None) -> Value | None:
        """The slice of an array along its first axis that a step of a loop reads."""
        assert turn is not None
        # A constant is the same at every step, and an unread value needs no element.
        if value is None or isinstance(value, Literal):
            return value
        aval = ShapedArray(value.aval.shape[1:], value.aval.dtype, value.aval.weak_type)
        if isinstance(value, Seen):
            made: Register | Seen = Seen(aval, value.labels[1:], value.operand, (*value.path, turn))
        elif value.labels[0] is None:  # the same at every step
            made = Register(aval, value.labels[1:], value.operand, value)
        elif value.operand is not None:
            raise _InMemory(value.operand)  # start again, with this operand in memory
        else:
            raise NotElementwise("it goes through an array that it made itself")
        self.all.append(made)
        return made

    # ---- statements ----
    def block(
        self, graph: Graph, ins: Sequence[Value | None]
    ) -> tuple[list[Statement], list[Value]]:
        """The statements of a Graph, and the values of its outputs."""
        env: dict[Var, Value | None] = dict(zip(graph.invars, ins, strict=True))
        for v, c in zip(graph.constvars, graph.consts, strict=True):
            # An array would be an input of the kernel, and the equation has no operand for it.
            if v.aval.shape:
                raise NotElementwise("it holds a constant array")
            env[v] = Literal(c, v.aval)  # a scalar is a literal in the kernel's text

        def read(a: Atom) -> Value:
            return self.read_value(a if isinstance(a, Literal) else env[a])

        found: list[Statement] = []
        used = {a for e in graph.eqns for a in e.invars if isinstance(a, Var)}
        used |= {a for a in graph.outvars if isinstance(a, Var)}
        for eqn in graph.eqns:
            prim = eqn.primitive
            self.statements += 1
            if self.statements > TARGET.statements:
                raise NotElementwise("it is too long")
            # An inner loop or branch. Stacked results of an inner loop exist only in memory (None).
            if prim.flow is not None:
                wanted = {k for k, v in enumerate(eqn.outvars) if v in used}
                inside = [env[a] if isinstance(a, Var) else a for a in eqn.invars]
                made, results = self.structure(eqn, inside, wanted)
                for k, v in enumerate(eqn.outvars):
                    is_stacked = isinstance(made, Repeat) and k in made.stacked
                    env[v] = None if is_stacked else results.get(k)
                found.append(made)
            elif is_view(eqn):
                a = eqn.invars[0]
                env[eqn.outvars[0]] = self.view(eqn, a if isinstance(a, Literal) else env[a])
            # Each element of the result from those at the same index.
            elif prim.kind is Kind.POINTWISE:
                found.append(self.compute(eqn, list(map(read, eqn.invars)), env))
            # Values that depend on the index alone: elements along every axis may differ.
            elif prim.kind is Kind.GENERATOR and has_text(eqn) and _of_scalars(eqn):
                found.append(self.generate(eqn, list(map(read, eqn.invars)), env))
            # A slice or gather at an index that the flow computes.
            elif prim.element and len(eqn.outvars) == 1:
                a = eqn.invars[0]
                first = None if isinstance(a, Literal) else env[a]
                others = {k: read(a) for k, a in enumerate(eqn.invars) if k}
                env[eqn.outvars[0]] = self.picked(eqn, first, others)
            else:
                raise NotElementwise(f"{prim.name} is not pointwise")
        return found, list(map(read, graph.outvars))

    def view(self, eqn: Eqn, value: Value | None) -> Value | None:
        """A view of a value. Of registers only dimensions can be permuted, added and dropped; of
        memory any view may be read.
        """
        aval = eqn.outvars[0].aval
        if value is None or isinstance(value, Literal):
            return value
        order = view_order((eqn,), value.aval.ndim)
        made: Register | Seen
        if isinstance(value, Seen):
            # A reshape or slice moves elements: the labels are new, and the path records the move.
            if order is None:
                labels = self.fresh(aval, True)
            else:
                labels = [None if o is None else value.labels[o] for o in order]
            made = Seen(aval, labels, value.operand, (*value.path, eqn))
        elif order is not None:
            labels = [None if o is None else value.labels[o] for o in order]
            # A new dimension has length 1 or is a broadcast: elements along it are the same.
            made = Register(aval, labels, value.operand, value)
        elif value.operand is not None:
            raise _InMemory(value.operand)
        else:
            raise NotElementwise(f"{eqn.primitive.name} moves elements")
        self.all.append(made)
        return made

    def picked(self, eqn: Eqn, value: Value | None, others: dict[int, Value]) -> Seen:
        """Elements of memory at an index that is the same for all of them."""
        # A thread can look anything up in memory, but only its own element in a register.
        if isinstance(value, Register) and value.operand is not None:
            raise _InMemory(value.operand)
        if not isinstance(value, Seen) or any(v.aval.size > 1 for v in others.values()):
            raise NotElementwise(f"{eqn.primitive.name} is not pointwise")
        aval = eqn.outvars[0].aval
        path = (*value.path, Picked(eqn, others))
        made = Seen(aval, self.fresh(aval, True), value.operand, path)
        self.all.append(made)
        return made

    def compute(self, eqn: Eqn, operands: list[Value], env: dict) -> Compute:
        """A pointwise equation: its operands and results run along the same axes."""
        out = eqn.outvars[0].aval
        results = [self.register(v.aval) for v in eqn.outvars]
        for a, value in zip(eqn.invars, operands, strict=True):
            # Operands are scalars, or have the result's rank with lengths that broadcast.
            if a.aval.ndim not in (0, out.ndim) or any(
                n not in (1, m) for n, m in zip(a.aval.shape, out.shape, strict=False)
            ):
                raise NotElementwise("it changes the width of elements")
            if a.aval.ndim and not isinstance(value, Literal):
                self.tie(results[0].labels, value.labels)
        for other in results[1:]:
            self.tie(results[0].labels, other.labels)
        _check_text(eqn)
        self.weight += eqn.primitive.weight
        env.update(zip(eqn.outvars, results, strict=True))
        return Compute(eqn, operands, results)

    def generate(self, eqn: Eqn, operands: list[Value], env: dict) -> Compute:
        """An equation that computes elements from their index, such as an iota."""
        (v,) = eqn.outvars
        result = self.register(v.aval, real=True)
        _check_text(eqn)
        self.weight += eqn.primitive.weight
        env[v] = result
        return Compute(eqn, operands, [result])


def _check_text(eqn: Eqn) -> None:
    """Raise where an equation has no CUDA text, since the whole kernel could not be emitted."""
    if not has_text(eqn):
        raise NotElementwise(f"{eqn.primitive.name} has no CUDA text for these operands")
    for a in (*eqn.invars, *eqn.outvars):
        _check_type(a.aval)


def _check_type(aval: ShapedArray) -> None:
    if not in_kernels(aval.dtype):
        raise NotElementwise(f"kernels hold no elements of dtype {aval.dtype.name}")


def _of_scalars(eqn: Eqn) -> bool:
    return not any(a.aval.ndim for a in eqn.invars)


def simplified(graph: Graph) -> Graph:
    """The simplified graph, kept with the original: building may start several times."""
    if "simplified" not in graph.derived:
        graph.derived["simplified"] = simplify(graph)
    return graph.derived["simplified"]


def _with_outputs(graph: Graph, numbers: Sequence[int]) -> Graph:
    outs = [graph.outvars[k] for k in numbers]
    return Graph(graph.invars, outs, graph.eqns, graph.constvars, graph.consts, graph.debug_name)


def _live_carries(form: Loop, body: Graph, test: Graph | None, wanted: set[int]) -> list[int]:
    """The carries that wanted results or the condition depend on, after any number of steps."""
    count, first = len(form.carry), len(form.consts)
    number = {v: k for k, v in enumerate(body.invars[first : first + count])}
    live = {k for k in wanted if k < count}
    if test is not None:
        behind = len(form.condition_consts)
        needed = _needed(test, test.outvars)
        live |= {k for k, v in enumerate(test.invars[behind:]) if v in needed}
    # Elements stacked at each step depend on carries as well.
    ys = [body.outvars[k] for k in wanted if k >= count]
    # A carry that is needed needs others at the step before: repeat until there are no more.
    while True:
        needed = _needed(body, [*(body.outvars[k] for k in live), *ys])
        grown = live | {k for v, k in number.items() if v in needed}
        if grown == live:
            return sorted(live)
        live = grown


def _needed(graph: Graph, outputs: Iterable[Atom]) -> set[Atom]:
    """All values that some of a graph's values depend on, themselves included."""
    # Backwards, since a value's operands are defined before it.
    needed: set[Atom] = set(outputs)
    for eqn in reversed(graph.eqns):
        if any(v in needed for v in eqn.outvars):
            needed.update(eqn.invars)
    return needed
