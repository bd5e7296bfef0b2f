"""The steps of a plan for machines that run emitted kernels: what moves data is a kernel, or none.

Floor 3. In: a simplified graph and its fused steps. Out: steps in which index maps with guards
(pad, concatenate, dynamic slices, gather) are made where they are read as far as that costs no
more, and kernels of their own elsewhere; in which no view is left but those that are memory as it
lies; and in which whatever has a kernel is one. A driver that replays primitives keeps the steps as
fused.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import NamedTuple

from gpuarray.compiler.fuse.group import FusedGroup, Inner, Load, Member, Step, group_of
from gpuarray.compiler.lower.costs import can_reach, cost_of, is_place, reads_of
from gpuarray.compiler.lower.scans import is_scan, scan_eqns, scan_group
from gpuarray.compiler.lower.scatters import (
    in_place,
    is_update,
    sorted_eqns,
    update_group,
    updates_of,
    writes,
)
from gpuarray.compiler.lower.sorts import is_short_sort, sort_group
from gpuarray.compiler.lower.user import custom_steps, is_custom
from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.compiler.target import TARGET
from gpuarray.core.dtypes import in_kernels
from gpuarray.core.graph import Atom, Eqn, Graph, Var, is_view
from gpuarray.core.index import contiguous_offset
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.movement import build


def inline_producers(graph: Graph, steps: list[Step], fusion: bool = True) -> list[Step]:
    """The steps that a GPU runs, in order. Without fusion each equation that moves data is one."""
    return _Refiner(graph, steps, fusion).run()


class Use(NamedTuple):
    """Who reads a value (None: it is copied), how many elements in all, and whether they say where
    other elements are.
    """

    reader: Step | None
    times: int
    place: bool


#: Stands for reading an element.
_READ = Eqn(Primitive("read", register=False), [], [], {})


def _variables(eqn: Eqn) -> list[Var]:
    return [a for a in eqn.invars if isinstance(a, Var)]


def _shows(eqn: Eqn, v: Var) -> bool:
    return eqn.primitive.kind is Kind.VIEW


def _shares_memory(eqn: Eqn, v: Var) -> bool:
    """Whether a result of an equation is a piece of its operand's memory as it lies."""
    return _shows(eqn, v) and contiguous_offset(as_single_view(eqn, v)) is not None


class _Refiner:
    def __init__(self, graph: Graph, steps: list[Step], fusion: bool):
        self.graph, self.fusion = graph, fusion
        self.index = GraphIndex(graph)
        self.made_by = self.index.made_by
        self.steps: list[Step] = [new for step in steps for new in self.expanded(step)]
        self.wanted: dict[Var, None] = {}  # values that must be in memory
        self.uses: dict[Var, list[Use]] = {}
        self.sunk: set[Var] = set()  # values made where they are read
        self.work: dict[Var, dict[Eqn, float]] = {}  # what it takes to make one element
        self.depth: dict[Var, int] = {}
        self.placed: set[Var] = {*graph.invars, *graph.constvars}
        self.order: list[Step] = []

    def run(self) -> list[Step]:
        for step in self.steps:
            self.note_uses(step)
        for a in self.graph.outvars:
            if isinstance(a, Var):
                self.want(a)
        self.steps = [self.lightened(step) for step in self.steps]
        for step in self.steps:
            self.decide(step)
        for step in self.steps:
            self.place(step)
        for a in self.graph.outvars:
            if isinstance(a, Var):
                self.place_value(a)
        return self.order

    def expanded(self, step: Step) -> list[Step]:
        """A step as those it is made of here. Views, and what has no operands, are steps only where
        somebody needs them in memory.
        """
        if isinstance(step, FusedGroup):
            return [step]
        if is_custom(step):
            return custom_steps(step)
        if is_scan(step):
            return [scan_group(part) for part in self.known(scan_eqns(step))]
        if is_short_sort(step):
            return [sort_group(step)]
        if self.is_sorted(step):
            return [new for e in self.known(sorted_eqns(step)) for new in self.expanded(e)]
        if len(step.invars) > TARGET.side_by_side and can_reach(step):
            return list(self.known(narrowed(step)))
        return [] if _is_free(step) else [step]

    def known(self, eqns: list[Eqn]) -> list[Eqn]:
        """Equations in the place of one, noted as what makes their results."""
        self.index.add(eqns)
        return eqns

    def is_sorted(self, eqn: Eqn) -> bool:
        """Whether a scatter is done in the order of its places."""
        return is_update(eqn) and not can_reach(eqn) and not in_place(eqn) and writes(eqn)

    # ---- who reads what ----
    def resolve(self, v: Var) -> Var:
        """The value that is seen through views."""
        return self.index.base(v, _shows)[0]

    def use(self, v: Var, reader: Step | None, times: int, place: bool = False) -> None:
        self.uses.setdefault(self.resolve(v), []).append(Use(reader, times, place))

    def want(self, v: Var) -> None:
        """Somebody needs a value in memory. A view that is memory as it lies needs its operand."""
        base = self.aliased(v)
        self.wanted[base] = None
        if self.resolve(base) is not base:
            self.use(base, None, base.aval.size)  # a copy

    def aliased(self, v: Var) -> Var:
        """The value whose memory a view is a piece of: itself where only a copy makes it one."""
        return self.index.base(v, _shares_memory)[0]

    def note_uses(self, step: Step) -> None:
        if is_idle(step):
            return
        if isinstance(step, FusedGroup):
            if not can_emit(step) or is_custom(step.members[0].eqn):
                for v in step.inputs:
                    self.want(v)
                return
            size = math.prod(step.axes)
            reads: dict[tuple, tuple[Load, int]] = {}
            for member in step.members:  # those after a reduction read once for each row
                space = math.prod(step.axes[d] for d in member.space if d is not None)
                for x in (o for o in member.operands if isinstance(o, Load)):
                    key = (x.key, x.dims)
                    reads[key] = x, max(space, reads[key][1] if key in reads else 0)
            for load, count in reads.values():
                self.use(load.source, step, count)
            for load, steps in step.streamed():
                self.use(load.source, step, size * steps)
            return
        for i, a in enumerate(step.invars):
            if not isinstance(a, Var):
                continue
            if not can_reach(step) and not (i and in_place(step)):
                self.want(a)
            elif i and in_place(step):
                times = max(a.aval.size, updates_of(step).aval.size)
                self.use(a, step, times, is_place(step, i))
            elif (times := reads_of(step, i)) is None:
                self.want(a)
            else:
                self.use(a, step, times, is_place(step, i))

    # ---- what is made where it is read ----
    def decide(self, step: Step) -> None:
        """Whether the results of a step are made by those who read them."""
        outs = step.outputs if isinstance(step, FusedGroup) else step.outvars
        eqns = [m.eqn for m in step.members] if isinstance(step, FusedGroup) else [step]
        sinks = self.can_sink(step)
        for eqn in eqns:
            for v in eqn.outvars:
                if sinks:
                    self.work[v] = self.work_of(eqn)
                    self.depth[v] = 1 + max(map(self.depths, _variables(eqn)), default=0)
        if sinks and all(self.pays(v, isinstance(step, FusedGroup)) for v in outs):
            self.sunk.update(outs)
            return
        for v in outs:
            self.work.pop(v, None)
            self.depth.pop(v, None)

    def lightened(self, step: Step) -> Step:
        """A reduction without the outputs along its rows that others make as cheaply from what it
        reads and finds: `x - mean` is not written where x and the mean are at hand.
        """
        if not self.fusion or not isinstance(step, FusedGroup) or not step.reduced:
            return step
        left: list[Var] = []
        for v in step.outputs:
            maker = step.made[v]
            wide = any(d in step.reduced for d in maker.dims)
            found = self.found_for(v, step) if wide and v not in self.wanted else None
            if found is None:
                left.append(v)
                continue
            self.work[v] = self.work_of(maker.eqn)
            self.depth[v] = 1
            if not self.pays(v, False):
                del self.work[v], self.depth[v]
                left.append(v)
                continue
            self.sunk.add(v)
            left += found
        outputs = tuple(dict.fromkeys(left))
        return step if outputs == step.outputs else dataclasses.replace(step, outputs=outputs)

    def found_for(self, v: Var, group: FusedGroup) -> list[Var] | None:
        """The values over rows alone that an output takes beside what is in memory; None where it
        takes others, too.
        """
        maker = group.made[v]
        if not can_reach(maker.eqn):
            return None
        found: list[Var] = []
        for o in maker.operands:
            if isinstance(o, Load) and self.resolve(o.source) in self.sunk:
                return None
            if isinstance(o, Inner):
                if any(d in group.reduced for d in group.made[o.var].dims):
                    return None
                found.append(o.var)
        return found

    def can_sink(self, step: Step) -> bool:
        if not self.fusion:
            return False
        if isinstance(step, FusedGroup):
            simple = (
                not step.reduced and step.is_fused and all(can_reach(m.eqn) for m in step.members)
            )
            return simple and not any(v in self.wanted for v in step.outputs)
        return can_reach(step) and not any(v in self.wanted for v in step.outvars)

    def pays(self, v: Var, computed: bool) -> bool:
        """Whether a value costs no more where it is read than in memory."""
        uses = self.uses.get(v, [])
        if not uses or any(u.reader is None for u in uses):
            return not uses
        if self.depth[v] > TARGET.depth:
            return False
        times = sum(u.times for u in uses) / max(v.aval.size, 1)
        if computed and any(_is_fused(u.reader, times) for u in uses):
            return False  # fusion had its reasons
        sources = len(self.behind(v))
        if any(len(self.read_by(u.reader)) + sources > TARGET.arguments for u in uses):
            return False
        cost = sum(self.work[v].values())
        cheap = cost <= TARGET.cheap and (
            v.aval.size <= TARGET.few_elements or all(u.place for u in uses)
        )
        if cheap or cost <= TARGET.free:
            return True
        if len({id(u.reader) for u in uses}) > 1:
            return False
        if times <= 1:
            return cost <= TARGET.once
        again = cost * (times - 1)
        return again <= TARGET.repeated or (
            cost <= TARGET.once and again * v.aval.size <= TARGET.launch_work
        )

    def work_of(self, eqn: Eqn) -> dict[Eqn, float]:
        """The equations that an element takes, each with its cost."""
        operands = [self.works(a) for a in _variables(eqn)]
        if eqn.primitive.kind is Kind.MOVEMENT:  # one of them is chosen
            return {eqn: cost_of(eqn) + max((sum(w.values()) for w in operands), default=0.0)}
        found = {eqn: cost_of(eqn)}
        for work in operands:
            found.update(work)
        return found

    def works(self, v: Var) -> dict[Eqn, float]:
        """The same for a value that is seen through views; one in memory takes a read."""
        v = self.resolve(v)
        eqn = self.made_by.get(v)
        if eqn is None or _is_free(eqn):
            return {} if eqn is not None else {_READ: 1.0}
        return self.work.get(v, {_READ: 1.0})

    def depths(self, v: Var) -> int:
        return self.depth.get(self.resolve(v), 0)

    # ---- recipes ----
    def in_memory(self, v: Var) -> bool:
        """Whether a value is read rather than made, by those steps that can do either."""
        eqn = self.made_by.get(v)
        return eqn is None or v in self.placed

    def recipes(self, roots: Iterable[Var]) -> dict[Var, Eqn]:
        """How values that are not in memory are made, from values that are."""
        found: dict[Var, Eqn] = {}
        waiting = list(roots)
        while waiting:
            v = waiting.pop()
            if v in found or self.in_memory(v):
                continue
            found[v] = eqn = self.made_by[v]
            self.place_whole(eqn)
            waiting += [a for a in reversed(eqn.invars) if isinstance(a, Var)]
        return found

    def place_whole(self, eqn: Eqn) -> None:
        """Put into memory what an equation does not read element by element, as it lies there."""
        for i, a in enumerate(eqn.invars):
            if isinstance(a, Var) and reads_of(eqn, i) is None:
                self.place_value(a)

    def behind(self, v: Var) -> set[Var]:
        """The values in memory that a value would be made of."""
        found: set[Var] = set()
        waiting, seen = [v], set()
        while waiting:
            top = waiting.pop()
            if top in seen:
                continue
            seen.add(top)
            eqn = self.made_by.get(top)
            if top is v or (eqn is not None and (top in self.sunk or _is_free(eqn))):
                assert eqn is not None
                waiting += [a for a in eqn.invars if isinstance(a, Var)]
            elif eqn is not None and self._inside_sunk(top, eqn):
                waiting += [a for a in eqn.invars if isinstance(a, Var)]
            else:
                found.add(top)
        return found

    def _inside_sunk(self, v: Var, eqn: Eqn) -> bool:
        """Whether a value exists only inside a group whose results are made elsewhere."""
        return eqn.primitive.kind is Kind.POINTWISE and v not in self.uses and v in self.work

    def read_by(self, step: Step | None) -> set[Var]:
        if step is None:
            return set()
        read = step.inputs if isinstance(step, FusedGroup) else _variables(step)
        found: set[Var] = set()
        for v in map(self.resolve, read):
            found |= self.behind(v) if v in self.sunk else {v}
        return found

    # ---- the steps ----
    def place(self, step: Step) -> None:
        outs = step.outputs if isinstance(step, FusedGroup) else step.outvars
        if is_idle(step) or (outs and all(v in self.sunk for v in outs)):
            return
        if isinstance(step, FusedGroup):
            if can_emit(step) and not is_custom(step.members[0].eqn):
                self.order.append(self.with_recipes(step))
            else:
                for v in step.inputs:
                    self.place_value(v)
                self.order.append(step)
        elif can_reach(step) or in_place(step):
            for v in step.outvars:
                self.place_made(v)
            return
        else:
            for a in step.invars:
                if isinstance(a, Var):
                    self.place_value(a)
            self.order.append(step)
        self.placed.update(outs)

    def with_recipes(self, group: FusedGroup) -> FusedGroup:
        """Copy of `group` with unmaterialised inputs inlined."""
        found = self.recipes(group.inputs)
        if not found:
            return group
        inputs = tuple(self.from_memory(group.inputs, found))
        return dataclasses.replace(group, inputs=inputs, inlined=found)

    def from_memory(self, roots: Iterable[Var], recipes: dict[Var, Eqn]) -> list[Var]:
        """The values in memory behind others, in order of first use."""
        found: dict[Var, None] = {}
        waiting, seen = list(roots)[::-1], set()
        while waiting:
            v = waiting.pop()
            if v in seen:
                continue
            seen.add(v)
            if v not in recipes:
                found[v] = None
            else:
                waiting += [a for a in reversed(recipes[v].invars) if isinstance(a, Var)]
        return list(found)

    def place_value(self, v: Var) -> None:
        """Put a value into memory before whoever needs it there."""
        if v in self.placed:
            return
        base = self.aliased(v)
        if base not in self.placed:
            self.place_made(base)
        chain: list[tuple[Eqn, Var]] = []
        while v is not base:
            eqn = self.made_by[v]
            chain.append((eqn, v))
            (operand,) = eqn.invars
            assert isinstance(operand, Var)
            v = operand
        for eqn, result in reversed(chain):
            if result not in self.placed:
                self.placed.add(result)
                self.order += alias_steps(eqn, result)

    def place_made(self, v: Var) -> None:
        """A kernel that puts a value into memory, made as those make it who read it elsewhere."""
        if v in self.placed or v in self.sunk:
            return
        eqn = self.made_by[v]
        if in_place(eqn) and self.stays(eqn):
            self.order.append(self.with_recipes(update_group(eqn)))
            self.placed.add(v)
            return
        if not can_reach(eqn):  # a dtype without a type in CUDA: the NumPy rule
            self.order.append(eqn)
            self.placed.update(eqn.outvars)
            return
        self.place_whole(eqn)
        self.order.append(own_kernel(v, eqn, self.recipes, self.from_memory))
        self.placed.add(v)

    def stays(self, eqn: Eqn) -> bool:
        """Whether the operand of an update is in memory, and put there as a piece of its own."""
        (operand, *others) = eqn.invars
        if not isinstance(operand, Var) or self.resolve(operand) in self.sunk:
            return False
        self.place_value(operand)
        changed = self.resolve(operand)
        for a in (a for a in others if isinstance(a, Var)):
            behind = self.from_memory([a], self.recipes([a]))
            if any(self.resolve(v) is changed for v in behind):  # it would be read while it changes
                self.sunk.discard(self.aliased(a))
                self.place_value(a)
        return True


def own_kernel(v: Var, eqn: Eqn, recipes, from_memory) -> FusedGroup:
    """A group that writes a value that is otherwise made where it is read."""
    dims = tuple(None if n == 1 else i for i, n in enumerate(v.aval.shape))
    operands = [a for a in eqn.invars if isinstance(a, Var)]
    made = recipes(operands)
    if is_view(eqn) and operands and not made:
        load = Load(operands[0], (eqn,), dims, v.aval.shape)
    else:
        seen = Var(v.aval)  # the same value, unwritten
        renamed = eqn.replace(outvars=[seen if o is v else o for o in eqn.outvars])
        made = {**made, seen: renamed}
        load = Load(seen, (), dims, v.aval.shape)
    copy = build.copy(load.source, eqn.site, v)
    group = group_of(Member(copy, [load], dims, dims), v.aval.shape, [v])
    inputs = tuple(from_memory([load.source], made))
    return dataclasses.replace(group, inputs=inputs, inlined=made, copy_of=eqn)


def narrowed(eqn: Eqn) -> list[Eqn]:
    """Many arrays side by side, or stacked, in steps of a few at a time."""
    joins, (out,) = eqn.primitive.rewrite.joins, eqn.outvars
    if joins is None:
        return [eqn]
    axis, eqns = joins(eqn), []
    step = eqn
    while len(step.invars) > TARGET.side_by_side:
        pieces: list[Atom] = []
        for i in range(0, len(step.invars), TARGET.side_by_side):
            some = step.invars[i : i + TARGET.side_by_side]
            (aval,) = step.primitive.out_avals([a.aval for a in some], step.params)
            pieces.append(Var(aval))
            eqns.append(step.replace(invars=some, outvars=pieces[-1:]))
        step = build.concatenate(pieces, axis, eqn.site, out)
    return [*eqns, step]


def is_idle(step: Step) -> bool:
    """Whether nobody reads what a group makes: a loop began with it that does without."""
    return isinstance(step, FusedGroup) and not step.outputs


def _is_fused(step: Step | None, times: float) -> bool:
    """Whether a step has refused what it reads, and not just because it reads pieces of it, each
    element once.
    """
    if not isinstance(step, FusedGroup) or not step.is_fused:
        return False
    return times > 1 or bool(step.reduced) or step.has_flow


def _is_free(eqn: Eqn) -> bool:
    """Whether an equation is an index map, or makes its value from nothing."""
    if eqn.primitive.kind is Kind.VIEW:
        return can_reach(eqn)
    return eqn.primitive.kind is Kind.GENERATOR and not eqn.invars and can_reach(eqn)


def can_emit(group: FusedGroup) -> bool:
    """Whether kernels can hold all elements of a group."""
    avals = (a.aval for m in group.members for a in (*m.eqn.invars, *m.eqn.outvars))
    return all(in_kernels(aval.dtype) for aval in avals)


def as_single_view(eqn: Eqn, v: Var) -> Eqn:
    """A view that shows what one of a view's results shows, but for axes of length 1."""
    if is_view(eqn):
        return eqn
    assert eqn.primitive.rewrite.piece is not None
    axis, first, length = eqn.primitive.rewrite.piece(eqn, eqn.outvars.index(v))
    return build.piece(eqn.invars[0], axis, first, length, eqn.site)


def alias_steps(eqn: Eqn, v: Var) -> list[Step]:
    """A view that is memory as it lies, as one or two equations with one result each."""
    single = as_single_view(eqn, v)
    if single is eqn:
        return [eqn]
    (cut,) = single.outvars
    if cut.aval.shape == v.aval.shape:
        return [single.replace(outvars=[v])]
    return [single, build.reshape(cut, v.aval.shape, eqn.site, v)]
