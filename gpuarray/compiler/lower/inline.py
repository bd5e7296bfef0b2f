"""Inline producers into the kernels that read them, where that is cheaper than memory.

Floor 3. In: a simplified graph, its fused steps, and the forms that the target has text for. Out:
the steps of a device:

* data movement (pad, concatenate, dynamic slices, gather) and cheap pointwise groups are computed
  where they are read if that costs no more, and are separate kernels elsewhere;
* the only views that are steps are those that need no copy;
* every equation that has a kernel is a group.

Drivers that replay primitives keep the steps as fused.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from gpuarray.compiler.fuse.fuse import fuse
from gpuarray.compiler.fuse.group import (
    FusedGroup,
    Inner,
    Load,
    Member,
    Step,
    group_along,
    group_of,
    members_in_order,
)
from gpuarray.compiler.lower.costs import (
    can_emit,
    can_inline,
    is_by_windows,
    is_index_operand,
    reads_of,
)
from gpuarray.compiler.lower.decisions import (
    CHANGING,
    FOLDED,
    JOINED,
    NEEDED,
    ROUTINE,
    TOGETHER,
    UNFUSED,
    Consumer,
    Decision,
    InlineCandidate,
    Reason,
    decide,
)
from gpuarray.compiler.lower.effort import Effort, is_any_view, is_free, variables
from gpuarray.compiler.lower.kernel import FORMS, Kernel, Scan, Scatter, Sort, Top, User
from gpuarray.compiler.lower.pieces import alias_steps, as_single_view, most_joined, split_wide_join
from gpuarray.compiler.lower.scans import is_scan, read_alone
from gpuarray.compiler.lower.scatters import sorted_eqns, update_group
from gpuarray.compiler.lower.tables import table_group
from gpuarray.compiler.lower.user import custom_steps, is_custom, reads_memory
from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.compiler.rewrite.sorts import is_long_top, is_short_sort
from gpuarray.compiler.rewrite.sweep import is_sweep
from gpuarray.compiler.rewrite.tables import is_table
from gpuarray.compiler.rewrite.updates import in_place, is_update, updates_of, writes
from gpuarray.core.graph import Eqn, Graph, Var, is_view
from gpuarray.core.index import contiguous_offset
from gpuarray.core.primitive import Kind
from gpuarray.core.target import TARGET
from gpuarray.primitives.movement import build


def inline_producers(
    graph: Graph,
    steps: list[Step],
    fusion: bool = True,
    forms: Collection[type[Kernel]] = FORMS,
    serial: bool = False,
) -> tuple[list[Step], dict[Var, Decision]]:
    """The steps that a device runs, in order, and why each value between steps is stored or not.
    Without fusion nothing is inlined. Equations that would be kernels of a form not in `forms` stay
    library routines. `serial`: updates are written one after another.
    """
    inliner = _Inliner(graph, steps, fusion, forms, serial)
    return inliner.run(), inliner.decisions


# Two answers to "which value is behind this one" (`GraphIndex.base`): any view, or only those
# that need no copy.


def _shares_memory(eqn: Eqn, v: Var) -> bool:
    """Whether a result of an equation is a contiguous piece of its operand's memory."""
    return is_any_view(eqn, v) and contiguous_offset(as_single_view(eqn, v)) is not None


class _Inliner:
    """The state of one pass: the readers of each value, the inlined values, and the steps."""

    def __init__(
        self,
        graph: Graph,
        steps: list[Step],
        fusion: bool,
        forms: Collection[type[Kernel]],
        serial: bool,
    ):
        self.graph, self.fusion, self.forms, self.serial = graph, fusion, forms, serial
        self.index = GraphIndex(graph)
        self.made_by = self.index.made_by
        self.orders: dict[tuple, list[Var]] = {}  # of sorted updates, by what determines them
        self.steps: list[Step] = [new for step in steps for new in self.expand(step)]
        self.required: dict[Var, None] = {}  # values that must be in memory, in order
        self.uses: dict[Var, list[Consumer]] = {}
        self.inlined: set[Var] = set()  # values computed where they are read
        self.decisions: dict[Var, Decision] = {}  # on the results of steps
        self.effort = Effort(self.index)  # of values, as if they were inlined
        self.materialized: set[Var] = {*graph.invars, *graph.constvars}
        self.order: list[Step] = []

    def run(self) -> list[Step]:
        """The steps of a device, in order."""
        # 1. Readers. All of them have to be known before any decision.
        for step in self.steps:
            self.note_uses(step)
        for a in self.graph.outvars:
            if isinstance(a, Var):
                self.require(a)
        # 2. Inlining, producers first: the cost of an element includes its inlined operands.
        self.steps = [self.without_cheap_outputs(step) for step in self.steps]
        for step in self.steps:
            self.decide_inlining(step)
        # 3. The remaining steps. Each materialises its inputs before itself.
        for step in self.steps:
            self.emit(step)
        for a in self.graph.outvars:
            if isinstance(a, Var):
                self.materialize(a)
        return self.order

    def expand(self, step: Step) -> list[Step]:
        """The steps that a device runs for one step of the plan. Views and generators give none: if
        one is needed in memory, its reader materialises it.
        """
        if isinstance(step, FusedGroup):
            return [step]
        # Equations with dedicated kernels: users' kernels, scans, sorts, ordered scatters.
        if (is_custom(step) and User in self.forms) or is_sweep(step):
            return custom_steps(step)
        if is_table(step):
            return [table_group(step)]
        if is_scan(step) and Scan in self.forms:
            return [group_along(step)]
        if (is_short_sort(step) and Sort in self.forms) or (
            is_long_top(step) and Top in self.forms
        ):
            return [group_along(step)]
        if self.is_sorted_scatter(step):
            eqns = self.note_eqns(sorted_eqns(step, self.orders))
            given = [a for a in step.invars if isinstance(a, Var)]
            parts, _ = fuse(Graph(given, step.outvars, eqns))
            return [new for part in parts for new in self.expand(part)]
        # Each operand of a concatenation is a branch of the kernel: of very many, a few at a time.
        most = TARGET.side_by_side if self.serial else most_joined(step)
        if len(step.invars) > most and self.can_inline(step):
            return list(self.note_eqns(split_wide_join(step, most)))
        return [] if is_free(step) else [step]

    def note_eqns(self, eqns: list[Eqn]) -> list[Eqn]:
        """Note equations that replace another one, and return them."""
        self.index.add(eqns)
        return eqns

    def is_sorted_scatter(self, eqn: Eqn) -> bool:
        """Whether a scatter has to sort its updates by index first."""
        if Scatter not in self.forms or self.serial:
            return False
        return is_update(eqn) and not can_inline(eqn) and not in_place(eqn) and writes(eqn)

    def in_place(self, eqn: Eqn) -> bool:
        """Whether an update is a kernel that writes into its operand."""
        return Scatter in self.forms and in_place(eqn, self.serial)

    def can_inline(self, eqn: Eqn) -> bool:
        """Whether an element of the results can be computed where it is read. Without kernels that
        write in place, an update for which that is better is left to the library.
        """
        if self.serial and is_by_windows(eqn):
            return False
        return can_inline(eqn) and (Scatter in self.forms or not in_place(eqn, self.serial))

    # ---- readers ----
    def resolve(self, v: Var) -> Var:
        """The value behind any number of views."""
        return self.index.base(v, is_any_view)[0]

    def note_use(self, v: Var, reader: Step | None, reads: int, is_index: bool = False) -> None:
        self.uses.setdefault(self.resolve(v), []).append(Consumer(reader, reads, is_index))

    def require(self, v: Var) -> None:
        """Mark a value as needed in memory; for a view that needs no copy, its operand."""
        # A value whose memory a contiguous view shares serves both.
        base = self.memory_of(v)
        self.required[base] = None
        if self.resolve(base) is not base:
            self.note_use(base, None, base.aval.size)  # a copy

    def memory_of(self, v: Var) -> Var:
        """The value whose memory a view shares; the view itself if it needs a copy."""
        return self.index.base(v, _shares_memory)[0]

    def note_uses(self, step: Step) -> None:
        """Record a step's reads, their number, and the values it needs in memory."""
        if is_unread(step):
            return
        if isinstance(step, FusedGroup):
            if not can_emit(step) or reads_memory(step.members[0].eqn):
                # NumPy's rules and users' kernels read whole arrays.
                for v in step.inputs:
                    self.require(v)
                return
            # The same load of several members is read once, by the one with the largest space:
            # members after a reduction read once for each row.
            size = math.prod(step.axes)
            reads: dict[tuple, tuple[Load, int]] = {}
            for member in step.members:
                space = math.prod(step.axes[d] for d in member.space if d is not None)
                for x in (o for o in member.operands if isinstance(o, Load)):
                    key = (x.key, x.dims)
                    reads[key] = x, max(space, reads[key][1] if key in reads else 0)
            for load, count in reads.values():
                self.note_use(load.source, step, count)
            # An array that a loop in registers scans is read for each element at each step.
            for load, steps in step.streamed():
                self.note_use(load.source, step, size * steps)
            return
        for i, a in enumerate(step.invars):
            if not isinstance(a, Var):
                continue
            # A library reads memory; an update in place reads everything except its operand (0)
            # element by element; other equations read as their element rule says.
            if not self.can_inline(step) and not (i and self.in_place(step)):
                self.require(a)
            elif i and self.in_place(step):
                times = max(a.aval.size, updates_of(step).aval.size)
                self.note_use(a, step, times, is_index_operand(step, i))
            elif (times := reads_of(step, i)) is None:
                # None: its rule cannot read single elements of this operand.
                self.require(a)
            else:
                self.note_use(a, step, times, is_index_operand(step, i))

    # ---- decisions ----
    def decide_inlining(self, step: Step) -> None:
        """Decide whether the results of a step are computed where they are read."""
        outs = step.outputs if isinstance(step, FusedGroup) else step.outvars
        eqns = [m.eqn for m in step.members] if isinstance(step, FusedGroup) else [step]
        refused = self.why_stored(step)
        # Record the cost of elements, since decisions on later results of the same step depend on
        # it.
        if refused is None:
            for eqn in eqns:
                for v in eqn.outvars:
                    self.effort.note(v, eqn)
            computed = isinstance(step, FusedGroup) and not step.reduced
            found = {v: self.decide(v, computed) for v in outs}
            # All or none: a step that writes one of its results computes the others anyway.
            if all(d.inline for d in found.values()):
                self.inlined.update(outs)
            else:
                found = {v: Decision(TOGETHER) if d.inline else d for v, d in found.items()}
        else:
            found = dict.fromkeys(outs, Decision(refused))
        for v, decision in found.items():
            # Outputs of reductions may have been decided before.
            self.decisions.setdefault(v, decision)
            if v not in self.inlined:
                self.effort.forget(v)

    def without_cheap_outputs(self, step: Step) -> Step:
        """Copy of a reduction without the outputs over its rows that cost their readers no more to
        compute: `x - mean` is not written where x and the mean are in memory.
        """
        if not self.fusion or not isinstance(step, FusedGroup) or not step.reduced or step.joined:
            return step
        left: list[Var] = []
        for v in step.outputs:
            wide = any(d in step.reduced for d in step.made[v].dims)
            # Results over rows alone (the mean) are small; only outputs over the whole space count.
            chain = self.chain_from_rows(v, step) if wide and v not in self.required else None
            if chain is None:
                left.append(v)
                continue
            # Judge it as if it were inlined, and take that back where it is not worth it.
            made = [m.eqn.outvars[0] for m in chain]
            for u, m in zip(made, chain, strict=True):
                self.effort.note(u, m.eqn)
            self.decisions[v] = decision = self.decide(v, False)
            if not decision.inline:
                for u in made:
                    self.effort.forget(u)
                left.append(v)
                continue
            self.inlined.add(v)
            inner = (o.var for m in chain for o in m.operands if isinstance(o, Inner))
            left += [u for u in inner if u not in made]
        outputs = tuple(dict.fromkeys(left))
        return step if outputs == step.outputs else step.replace(outputs=outputs)

    def chain_from_rows(self, v: Var, group: FusedGroup) -> list[Member] | None:
        """The members that compute an output from values over rows and values in memory."""
        chain: list[Member] = []
        waiting = [v]
        while waiting:
            maker = group.made[waiting.pop()]
            chain += [maker] if maker not in chain else []
            # Values read by others are separate outputs.
            alone = maker.eqn.outvars == [v] or not any(u in self.uses for u in maker.eqn.outvars)
            simple = maker.eqn.primitive.kind is not Kind.REDUCTION and len(maker.eqn.outvars) == 1
            if not (alone and simple and self.can_inline(maker.eqn)):
                return None
            for o in maker.operands:
                # An inlined value would have to be computed a second time for each reader.
                if isinstance(o, Load) and self.resolve(o.source) in self.inlined:
                    return None
                if isinstance(o, Inner) and any(d in group.reduced for d in group.made[o.var].dims):
                    waiting.append(o.var)
        return [m for m in members_in_order(group) if m in chain]

    def why_stored(self, step: Step) -> Reason | None:
        """Why all results of a step are stored; None if they can be computed element by element,
        and none of them is needed in memory.
        """
        if not self.fusion:
            return UNFUSED
        outs = step.outputs if isinstance(step, FusedGroup) else step.outvars
        if any(v in self.required for v in outs):
            return NEEDED
        if isinstance(step, Eqn):
            return None if self.can_inline(step) else ROUTINE
        if step.joined:
            return JOINED
        if not (step.is_fused and all(self.can_inline(m.eqn) for m in step.members)):
            return FOLDED if step.has_flow else ROUTINE
        # A reduction needs whole rows, a loop its steps: neither can compute single elements,
        # except for example a sum of few products whose results outnumber its inputs.
        return FOLDED if step.reduced and not self.is_outer(step) else None

    def is_outer(self, group: FusedGroup) -> bool:
        """Whether a group folds, along a short axis, arrays that are not much larger than the
        result: distances between the rows of two matrices.
        """
        folded = math.prod(group.axes[i] for i in group.reduced)
        narrow = all(not any(d in group.reduced for d in group.made[v].dims) for v in group.outputs)
        read = sum(v.aval.size for v in {self.resolve(v) for v in group.inputs})
        made = sum(v.aval.size for v in group.outputs)
        return folded <= TARGET.folded_inline and narrow and read <= TARGET.folded_reads * made

    def decide(self, v: Var, computed: bool) -> Decision:
        """Whether a value costs no more computed where it is read than through memory, and why.

        Parameters
        ----------
        computed :
            Whether it is the result of a fused group, rather than of data movement.
        """
        effort = self.effort
        return decide(
            InlineCandidate(
                v,
                self.made_by[v],
                self.uses.get(v, ()),
                effort.work[v],
                effort.depth[v],
                effort.length(v),
                computed,
                self.serial,
                self.sources_behind,
                self.sources_read_by,
            )
        )

    # ---- producers of inlined values ----
    def is_in_memory(self, v: Var) -> bool:
        """Whether a value is read from memory by kernels that could also compute it."""
        eqn = self.made_by.get(v)
        return eqn is None or v in self.materialized

    def producers_behind(self, roots: Iterable[Var]) -> dict[Var, Eqn]:
        """The equations that compute values from memory, by their results: empty if all are in
        memory.
        """
        # Depth first with a stack, the operands in order: the order of inputs is part of the text.
        found: dict[Var, Eqn] = {}
        waiting = list(roots)
        while waiting:
            v = waiting.pop()
            if v in found or self.is_in_memory(v):
                continue
            found[v] = eqn = self.made_by[v]
            self.materialize_whole_operands(eqn)
            waiting += [a for a in reversed(eqn.invars) if isinstance(a, Var)]
        return found

    def materialize_whole_operands(self, eqn: Eqn) -> None:
        """Materialise the operands that an equation does not read element by element."""
        for i, a in enumerate(eqn.invars):
            if isinstance(a, Var) and reads_of(eqn, i) is None:
                self.materialize(a)

    def sources_behind(self, v: Var) -> set[Var]:
        """The values in memory that an inlined value would be computed from."""
        found: set[Var] = set()
        waiting, seen = [v], set()
        while waiting:
            top = waiting.pop()
            if top in seen:
                continue
            seen.add(top)
            eqn = self.made_by.get(top)
            # Follow inlined values, and members of inlined groups, to values in memory.
            if top is v or (eqn is not None and (top in self.inlined or is_free(eqn))):
                assert eqn is not None
                waiting += [a for a in eqn.invars if isinstance(a, Var)]
            elif eqn is not None and self._inside_inlined(top, eqn):
                waiting += [a for a in eqn.invars if isinstance(a, Var)]
            else:
                found.add(top)
        return found

    def _inside_inlined(self, v: Var, eqn: Eqn) -> bool:
        """Whether a value exists only inside a group whose results are inlined."""
        return eqn.primitive.kind is Kind.POINTWISE and v not in self.uses and v in self.effort.work

    def sources_read_by(self, step: Step | None) -> set[Var]:
        """The values in memory that a step reads, with the inlining so far."""
        if step is None:
            return set()
        read = step.inputs if isinstance(step, FusedGroup) else variables(step)
        found: set[Var] = set()
        for v in map(self.resolve, read):
            found |= self.sources_behind(v) if v in self.inlined else {v}
        return found

    # ---- the steps ----
    def emit(self, step: Step) -> None:
        """Append a step to the order, after materialising its inputs; nothing if it is inlined."""
        outs = step.outputs if isinstance(step, FusedGroup) else step.outvars
        # A group whose outputs are all computed by their readers does not run.
        if is_unread(step) or (outs and all(v in self.inlined for v in outs)):
            return
        if isinstance(step, FusedGroup):
            if can_emit(step) and not reads_memory(step.members[0].eqn):
                self.order.append(
                    self.with_producers_inlined(read_alone(step, (self.uses, self.required)))
                )
            else:  # NumPy's rules, or a user's text, read memory
                for v in step.inputs:
                    self.materialize(v)
                self.order.append(step)
        elif self.can_inline(step) or self.in_place(step):
            # One kernel for each result, since readers may need only some of them.
            for v in step.outvars:
                self.materialize_result(v)
            return
        else:
            for a in step.invars:
                if isinstance(a, Var):
                    self.materialize(a)
            self.order.append(step)
        self.materialized.update(outs)

    def with_producers_inlined(self, group: FusedGroup) -> FusedGroup:
        """Copy of `group` with unmaterialised inputs inlined."""
        found = self.producers_behind(group.inputs)
        if not found:
            return group
        inputs = tuple(self.inputs_of(group.inputs, found))
        return group.replace(inputs=inputs, inlined=found)

    def inputs_of(self, roots: Iterable[Var], producers: dict[Var, Eqn]) -> list[Var]:
        """The values in memory from which `producers` compute the roots, in order of first use."""
        found: dict[Var, None] = {}
        waiting, seen = list(roots)[::-1], set()
        while waiting:
            v = waiting.pop()
            if v in seen:
                continue
            seen.add(v)
            if v not in producers:
                found[v] = None
            else:
                waiting += [a for a in reversed(producers[v].invars) if isinstance(a, Var)]
        return list(found)

    def materialize(self, v: Var) -> None:
        """Append the steps that put a value into memory, unless it is there."""
        if v in self.materialized:
            return
        # First the value whose memory it shares, then the views between the two, outermost last.
        base = self.memory_of(v)
        if base not in self.materialized:
            self.materialize_result(base)
        chain: list[tuple[Eqn, Var]] = []
        while v is not base:
            eqn = self.made_by[v]
            chain.append((eqn, v))
            # A view has one operand that is a value; of several results each is a piece of it.
            (operand,) = eqn.invars
            assert isinstance(operand, Var)
            v = operand
        for eqn, result in reversed(chain):
            if result not in self.materialized:
                self.materialized.add(result)
                self.order += alias_steps(eqn, result)

    def materialize_result(self, v: Var) -> None:
        """Append a kernel that writes a value, computed as its readers would compute it."""
        if v in self.materialized or v in self.inlined:
            return
        eqn = self.made_by[v]
        if self.in_place(eqn) and self.prepare_in_place(eqn):
            self.order.append(self.with_producers_inlined(update_group(eqn)))
            self.materialized.add(v)
            return
        if not self.can_inline(eqn):  # a dtype without a type in CUDA: the NumPy rule
            self.order.append(eqn)
            self.materialized.update(eqn.outvars)
            return
        self.materialize_whole_operands(eqn)
        self.order.append(copy_kernel(v, eqn, self.producers_behind, self.inputs_of))
        self.materialized.add(v)

    def prepare_in_place(self, eqn: Eqn) -> bool:
        """Materialise the operand of an update in place; False where it cannot be in memory."""
        (operand, *others) = eqn.invars
        if not isinstance(operand, Var) or self.resolve(operand) in self.inlined:
            return False
        self.materialize(operand)
        changed = self.resolve(operand)
        for a in (a for a in others if isinstance(a, Var)):
            behind = self.inputs_of([a], self.producers_behind([a]))
            # An operand computed from the array that the update changes would be read while it
            # changes.
            if any(self.resolve(v) is changed for v in behind):
                base = self.memory_of(a)
                if base in self.inlined:
                    self.inlined.remove(base)
                    self.decisions[base] = Decision(CHANGING)
                self.materialize(a)
        return True


def copy_kernel(v: Var, eqn: Eqn, producers, inputs_of) -> FusedGroup:
    """A group of one copy that writes a value which its readers could compute instead."""
    # Dimensions of length 1 have no axis, as in all groups.
    dims = tuple(None if n == 1 else i for i, n in enumerate(v.aval.shape))
    operands = [a for a in eqn.invars if isinstance(a, Var)]
    made = producers(operands)
    # A view of memory that needs a copy: one load through the view.
    if is_view(eqn) and operands and not made:
        load = Load(operands[0], (eqn,), dims, v.aval.shape)
    else:
        # The copy reads a new variable, which represents the value before it is written.
        seen = Var(v.aval)
        renamed = eqn.replace(outvars=[seen if o is v else o for o in eqn.outvars])
        made = {**made, seen: renamed}
        load = Load(seen, (), dims, v.aval.shape)
    # The kernel copies the value into `v`; the equations of an element are in `inlined`.
    copy = build.copy(load.source, eqn.site, v)
    group = group_of(Member(copy, [load], dims, dims), v.aval.shape, [v])
    inputs = tuple(inputs_of([load.source], made))
    return group.replace(inputs=inputs, inlined=made, copy_of=eqn)


def is_unread(step: Step) -> bool:
    """Whether a group has no outputs left that are read."""
    return isinstance(step, FusedGroup) and not step.outputs
