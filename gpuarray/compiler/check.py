"""Verify the output of a compiler pass: a Graph, or the steps that compute it.

Floor 3. In: the name of the pass, and its output. Out: nothing, or a `BrokenPass` that names the
pass and the equation or kernel, and shows its context. pipeline.py calls it after every pass while
the setting `check_plans` or `debug` is on, as it is in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from gpuarray.compiler.fuse.group import Dims, FusedGroup, Inner, Load, Member
from gpuarray.compiler.lower.costs import can_inline
from gpuarray.compiler.lower.kernel import Batch, DeviceStep
from gpuarray.compiler.lower.pieces import as_single_view
from gpuarray.compiler.lower.steps import group_in, step_inputs, step_outputs
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var
from gpuarray.core.index import contiguous_offset
from gpuarray.core.layout import unclear_is_whole
from gpuarray.core.primitive import Kind


class BrokenPass(AssertionError):
    """A pass of the compiler made a Graph or steps that break the rules."""


#: Results of these kinds are compared with the primitive's rule: cheap rules, and equations that
#: passes write.
_RULED = (Kind.POINTWISE, Kind.REDUCTION, Kind.VIEW, Kind.MOVEMENT)


def check_graph(stage: str, graph: Graph) -> None:
    """Every value is defined once, before it is read, and has the aval of its equation's rule."""
    say = _Report(stage, graph, graph.eqns)
    if len(graph.constvars) != len(graph.consts):
        say(None, f"there are {len(graph.constvars)} constvars, and {len(graph.consts)} constants")
    known: set[Var] = set()
    _define(known, (*graph.constvars, *graph.invars), say)
    for place, eqn in enumerate(graph.eqns):
        say.place = place
        for a in eqn.invars:
            if isinstance(a, Var) and a not in known:
                say(eqn, f"it reads {say.name(a)}, which nothing before it defines")
        _check_avals(eqn, say)
        _define(known, eqn.outvars, say)
    say.place = len(graph.eqns)
    for a in graph.outvars:
        if isinstance(a, Var) and a not in known:
            say(None, f"the result {say.name(a)} of the program is defined nowhere")


def _check_avals(eqn: Eqn, say: _Report) -> None:
    if eqn.primitive.kind not in _RULED:
        return
    avals = [a.aval for a in eqn.invars]
    # In a plan a pointwise equation may mix scalars and arrays: its rule sees them broadcast.
    if eqn.primitive.kind is Kind.POINTWISE:
        shape = max((a.shape for a in avals), key=len, default=())
        avals = [a if a.shape or not shape else a.update(shape=shape) for a in avals]
    try:
        with unclear_is_whole():  # the user's own operations were checked when they were traced
            rule = eqn.primitive.out_avals(avals, eqn.params)
    except Exception as error:
        say(eqn, f"its operands are refused: {error}")
    if len(rule) != len(eqn.outvars):
        say(eqn, f"it has {len(eqn.outvars)} results, and {len(rule)} by its rule")
    for want, v in zip(rule, eqn.outvars, strict=True):
        # Weak types may differ, since rewrites do not keep them.
        if (want.shape, want.dtype) != (v.aval.shape, v.aval.dtype):
            say(eqn, f"{say.name(v)} is {want.str_short()} by its rule")


def check_steps(
    stage: str,
    graph: Graph,
    steps: Sequence[DeviceStep],
    before: Sequence[DeviceStep] = (),
    lowered: bool = False,
) -> None:
    """Each step reads only values in memory at that point, each value is written once, and the
    parts of each group fit together.

    Parameters
    ----------
    before :
        Steps that have been checked; a group of them that stayed is not looked into again.
    lowered :
        Whether these are the steps of a device, where a view is a step only if it shares its
        operand's memory.
    """
    say = _Report(stage, graph, steps)
    # Groups that the pass left alone were checked after the one that made them.
    sound = {id(group_in(s)) for s in before if not isinstance(s, Eqn)}
    known: set[Var] = set()
    _define(known, (*graph.constvars, *graph.invars), say)
    for place, step in enumerate(steps):
        say.place = place
        single = isinstance(step, Eqn)
        for v in step_inputs(step):
            # Until producers are inlined, groups may read values that they make for themselves.
            if v not in known and (lowered or single or v not in _free(graph)):
                say(step, f"it reads {say.name(v)}, which is not in memory by then")
        # The content of the step: the parts of a batch, a group, or a view that must not need a
        # copy.
        if isinstance(step, Batch):
            _check_batch(step, say)
        elif not single:
            if id(group_in(step)) not in sound:
                _check_group(group_in(step), say)
        # A view that stays a step must share its operand's memory: nothing runs for it.
        elif lowered and step.primitive.kind is Kind.VIEW and can_inline(step):
            if contiguous_offset(as_single_view(step, step.outvars[0])) is None:
                say(step, "it is a view that is not memory as it lies")
        _define(known, step_outputs(step), say)
    say.place = len(steps)
    # Results must be in memory when the last step has run.
    for a in graph.outvars:
        if isinstance(a, Var) and a not in known:
            say(None, f"the result {say.name(a)} of the program is never in memory")


def _free(graph: Graph) -> set[Var]:
    """Values that depend on nothing in memory: they depend on their index alone, or repeat one
    constant, and groups compute them themselves.
    """
    kinds = (Kind.GENERATOR, Kind.VIEW)
    found: set[Var] = set()
    for eqn in graph.eqns:
        # A view of a literal is a broadcast constant.
        if eqn.primitive.kind in kinds and all(isinstance(a, Literal) for a in eqn.invars):
            found.update(eqn.outvars)
    return found


def _define(known: set[Var], values: Iterable[Var], say: _Report) -> None:
    for v in values:
        # SSA: a value has one definition, so a second one is an error of the pass.
        if v in known:
            say(None, f"{say.name(v)} is defined twice")
        known.add(v)


# ---- groups ----


def _check_batch(batch: Batch, say: _Report) -> None:
    for part in batch.parts:
        _check_group(part, say)
    # The backend binds a batch's arguments part by part, in the order of `outputs`.
    if tuple(v for p in batch.parts for v in p.outputs) != batch.outputs:
        say(batch, "its outputs are not those of its parts")


def _check_group(group: FusedGroup, say: _Report) -> None:
    # Inlined producers need inputs, or other inlined producers.
    read = set(group.inputs)
    for v, eqn in group.inlined.items():
        if v not in eqn.outvars:
            say(group, f"{say.name(v)} is to be made by {say.equation(eqn)}, which does not")
        for a in eqn.invars:
            if isinstance(a, Var) and a not in read and a not in group.inlined:
                say(group, f"{say.equation(eqn)} needs {say.name(a)}, neither read nor made here")
    # Every operand is read or computed in the group, and runs along the space of its member.
    members = {id(m) for m in group.members}
    for member in group.members:
        eqn = member.eqn
        for load in (o for o in member.operands if isinstance(o, Load)):
            if load.source not in read and load.source not in group.inlined:
                say(group, f"{say.equation(eqn)} loads {say.name(load.source)}, which is not read")
        for inner in (o for o in member.operands if isinstance(o, Inner)):
            if id(group.made.get(inner.var)) not in members:
                say(group, f"{say.equation(eqn)} needs {say.name(inner.var)}, not made here")
        if group.is_fused:  # kernels of other kinds have their own spaces
            _check_member(group, member, say)
    _check_order(group, say)
    # Each output is in a register at the end, or written by a loop at each step.
    for v in group.stored:
        if v not in group.made and v not in group.aside:
            say(group, f"its output {say.name(v)} is not made by it")


def _check_member(group: FusedGroup, member: Member, say: _Report) -> None:
    """Check that an equation's operands and results run along axes of the right lengths."""
    eqn, space, axes = member.eqn, member.space, group.axes
    reduces = eqn.primitive.kind is Kind.REDUCTION

    def wrong(what: str) -> None:
        say(group, f"{what}, in {say.equation(eqn)} over axes {group.axes}")

    def runs(dims: Dims, shape: tuple[int, ...], what: str, v: Var | None = None) -> None:
        # A dimension without an axis has length 1.
        if tuple([1 if d is None else axes[d] for d in dims]) != shape:
            who = "" if v is None else f" {say.name(v)}"
            wrong(f"its {what}{who} of shape {shape} runs along {dims}")

    # No axis twice: an element would be combined with itself along a diagonal.
    labels = [d for d in space if d is not None]
    if len(labels) != len(set(labels)):
        wrong(f"its space {space} meets itself")
    # A loop or branch has its own space, and is checked while it is built.
    if member.flow is not None:
        runs(space, member.flow.shape, "space")
        return
    # The space of a reduction is that of its operand, otherwise that of the result.
    whole = eqn.invars[0] if reduces else eqn.outvars[0]
    runs(space, whole.aval.shape, "space")
    for v in eqn.outvars:
        runs(member.dims, v.aval.shape, "result", v)
    # The axes that a reduction removes are reduced axes of the group, and the result has none.
    if reduces:
        gone = {space[d] for d in eqn.params["axes"]} - {None}
        if not gone <= group.reduced or gone & set(member.dims):
            wrong(f"{sorted(gone)} are reduced, but of the group {sorted(group.reduced)}")
    # Operands: each has the shape that it claims, and axes of the equation's own space.
    if len(member.operands) != len(eqn.invars):
        wrong(f"it has {len(member.operands)} operands")
    for a, o in zip(eqn.invars, member.operands, strict=True):
        if isinstance(o, Load):
            runs(o.dims, o.shape, "operand", o.source)
            shown = o.views[-1].outvars[0] if o.views else o.source
            if shown.aval.shape != o.shape:
                wrong(f"its operand {say.name(o.source)} is seen as {shown.aval.shape}")
            # Its dimensions may be in another order: results of another pass over the group are
            # read in that pass's order.
            fits = set(o.dims) <= {None, *space}
            dims: Dims = o.dims
        # Its dimensions are those of the member that makes it, permuted by `order`.
        elif isinstance(o, Inner):
            made = group.made[o.var].dims
            dims = tuple(None if k is None else made[k] for k in o.order)
            # A scalar fits any space; otherwise each dimension is at its position or of length 1.
            fits = len(dims) in (0, len(space))
            fits = fits and all(d in (None, s) for d, s in zip(dims, space, strict=False))
        else:
            continue
        if not fits:
            wrong(f"its operand {say.name(a)} runs along {dims}, itself along {space}")


def _check_order(group: FusedGroup, say: _Report) -> None:
    """No member needs its own result, directly or through others."""
    done: set[int] = set()
    # Most members are in order already: each needs only members that are done.
    for member in group.members:
        if all(id(group.made[o.var]) in done for o in member.operands if isinstance(o, Inner)):
            done.add(id(member))
            continue
        # Not in order: search for its dependencies; a member on its own path is a cycle.
        path: dict[int, None] = {}
        stack = [member]
        while stack:
            top = stack[-1]
            path[id(top)] = None
            needed = [group.made[o.var] for o in top.operands if isinstance(o, Inner)]
            if any(id(m) in path for m in needed):
                say(group, f"{say.equation(top.eqn)} needs its own result")
            waiting = [m for m in needed if id(m) not in done]
            if waiting:
                stack.append(waiting[0])
                continue
            # All its dependencies are done, so it is too: return to the member that needed it.
            done.add(id(top))
            path.pop(id(stack.pop()))


# ---- messages ----


class _Report:
    """Raises the error about one step or equation among others, with names for values."""

    # The values of a graph are named when an error needs them: `say` is made for every pass.
    def __init__(self, stage: str, graph: Graph, around: Sequence[DeviceStep]):
        self.stage, self.graph, self.around = stage, graph, around
        self.place = 0
        self._names: dict[Var, str] | None = None

    def __call__(self, where: DeviceStep | None, what: str, around: int = 3) -> NoReturn:
        subject = "" if where is None else f"{self._subject(where)}: "
        # The lines around the place, with an arrow at it.
        shown = [
            f"{'->' if k == self.place else '  '} {self._line(self.around[k])}"
            for k in range(max(self.place - around, 0), len(self.around))
            if k <= self.place + around
        ]
        raise BrokenPass(
            f"the pass {self.stage!r} broke a program. {subject}{what}.\n"
            + "\n".join(shown)
            + "\nThis is a mistake in gpuarray, not in the program: please report both."
        )

    def name(self, a: Atom) -> str:
        """A value: its number in the graph, and its type."""
        if isinstance(a, Literal):
            return f"{a.val}"
        if self._names is None:
            every = [*self.graph.constvars, *self.graph.invars]
            every += [v for e in self.graph.eqns for v in e.outvars]
            self._names = {v: f"v{k}" for k, v in enumerate(dict.fromkeys(every))}
        name = self._names.setdefault(a, f"w{len(self._names)}")  # made by the pass
        return f"{name}:{a.aval.str_short(True)}"

    def equation(self, eqn: Eqn) -> str:
        """An equation on one line."""
        outs, ins = (", ".join(map(self.name, vs)) for vs in (eqn.outvars, eqn.invars))
        return f"{outs} = {eqn.primitive.name}({ins})"

    def _subject(self, step: DeviceStep) -> str:
        return self.equation(step) if isinstance(step, Eqn) else step.name or "a group"

    def _line(self, step: DeviceStep) -> str:
        if isinstance(step, Eqn):
            return self.equation(step)
        outs, ins = (", ".join(map(self.name, vs)) for vs in (step.outputs, step.inputs))
        return f"{outs} = {step.name or 'group'}({ins})"
