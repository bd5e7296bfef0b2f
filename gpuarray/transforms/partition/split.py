"""The Graph of one device: a Graph evaluated on pieces of its values.

Floor 3. In: a Graph, and how its inputs are cut along the axes of a grid of devices. Out: the Graph
that each device runs on its pieces, with collectives where pieces of others are needed, and how its
outputs are cut.

An equation's axes share factors (core/factors.py). A factor is cut as in the operands that have it,
the largest operand first; every operand is moved to the cut of its factors, which determines the
sharding of the results. An operand without factors is gathered and computed by every device: always
right, and noted with the user's line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import sites
from gpuarray.core.avals import ShapedArray
from gpuarray.core.flow import ByDevice, ByRule, Choice, Loop
from gpuarray.core.graph import Eqn, Graph, Literal, Var, called
from gpuarray.core.grid import Grid, Spec
from gpuarray.core.layout import cuts_of
from gpuarray.core.primitive import Kind
from gpuarray.core.spec import UNCONSTRAINED
from gpuarray.primitives.collective import ops
from gpuarray.primitives.collective.once import once
from gpuarray.primitives.collective.sums import CASTS, of_device, unreduced_psum_p
from gpuarray.primitives.factors import runs_once
from gpuarray.transforms.partition import loops, terms
from gpuarray.transforms.partition.cuts import as_type_says, wanted_of_operands
from gpuarray.transforms.partition.divide import division, wants
from gpuarray.transforms.partition.halos import evened, slid
from gpuarray.transforms.partition.inside import beside, by_rule, only, through
from gpuarray.transforms.partition.joining import joined
from gpuarray.transforms.partition.made import Made
from gpuarray.transforms.partition.moves import moved, position, settled, start_of
from gpuarray.transforms.partition.pieces import (
    PLACES,
    Note,
    Owed,
    Piece,
    is_cut,
    live,
    local_aval,
    owed_by_all,
    static_value,
    uncut,
    uncut_results,
)
from gpuarray.transforms.partition.windows import realised, windowed
from gpuarray.transforms.tracing import TracedFunction, stage, stage_aux
from gpuarray.util import tuple_like


class Partitioned(NamedTuple):
    """The Graph of one device, the shardings of its inputs and outputs, and the moves in it."""

    local: Graph
    ins: tuple[Spec, ...]
    outs: tuple[Spec, ...]
    notes: tuple[Note, ...]


def partition(
    graph: Graph,
    ins: Sequence[Spec],
    outs: Sequence[Spec | None],
    grid: Grid,
    held: Sequence[frozenset] | None = None,
    kept: Sequence[frozenset | None] | None = None,
    fixed: Mapping[Var, Spec] | None = None,
) -> Partitioned:
    """Return the Graph that each device of a grid runs.

    Parameters
    ----------
    graph :
        The program as a whole. Its constants are on every device.
    ins :
        How each input is cut.
    outs :
        The wanted sharding of each output; None keeps the one it has.
    held, kept :
        The axes of the grid along which devices hold terms of inputs, and are to hold terms of
        outputs; None: as types say.
    fixed :
        How results of equations of the program are cut, where that is known already.
    """
    splitter = _Splitter(grid, fixed or {})

    def fun(*pieces):
        given = [Piece(*p) for p in zip(pieces, ins, strict=True)]
        for i, (v, names) in enumerate(zip(graph.invars, held or (), strict=False)):
            typed = terms.names_of(v.aval, splitter)
            if names != typed:
                given[i] = terms.as_terms(given[i], names, typed, ins[i], v.aval, "", splitter)
        results = splitter.graph(graph, given, outs)
        wanted = outs
        if grid.main.explicit_axes:  # along which types record the sharding of results
            rows = zip(outs, results, graph.outvars, strict=True)
            wanted = [as_type_says(v.aval, p.spec, grid) if s is None else s for s, p, v in rows]
        results = splitter.laid(graph, results, wanted, "the layout asked for", kept)
        return [piece.value for piece in results], tuple(piece.spec for piece in results)

    # The Graph of one device is traced like any other: the collectives that it needs are bound
    # while its equations are evaluated.
    avals = [local_aval(v.aval, s, grid) for v, s in zip(graph.invars, ins, strict=True)]
    local, found = stage_aux(fun, avals, TracedFunction(fun, "partitioning"))
    local.debug_name = graph.debug_name
    return Partitioned(local, tuple(ins), found, tuple(splitter.notes))


class _Splitter:
    """Evaluates Graphs on pieces, in the current trace."""

    def __init__(self, grid: Grid, fixed: Mapping[Var, Spec]):
        self.grid, self.fixed = grid, fixed
        self.sizes = grid.sizes
        self.notes: list[Note] = []
        # Inside a Graph of one device: the axes of the grid that each of its names consists of.
        self.inside: dict[Any, tuple] = {}
        # Values that were shifted along an axis, so that each is only once (windows.py).
        self.shifts: dict[tuple, tuple[Any, Any]] = {}

    # ---- Graphs ----
    @sites.replays
    def graph(
        self, graph: Graph, pieces: Sequence[Piece], outs: Sequence[Spec | None] | None = None
    ) -> list[Piece]:
        """Return the results of a Graph, one equation after another.

        `outs` is the sharding that readers of the results prefer; the results may have another.
        """
        # Backwards first: an equation that could cut its results in several ways does it as their
        # readers want them.
        wanted = self.wanted(graph, outs or [None] * len(graph.outvars))
        eqns, reads = live(graph)
        env: dict[Var, Piece] = dict(zip(graph.invars, pieces, strict=True))
        for v, c in zip(graph.constvars, graph.consts, strict=True):
            env[v] = Piece(c, uncut(v.aval))

        def read(a: Any) -> Piece:
            if not isinstance(a, Literal):
                return env[a]
            piece = Piece(a.operand, uncut(a.aval))
            # Some rules need constants at planning time, such as the start of an update.
            piece.static = np.asarray(a.val)
            return piece

        def evaluate(eqn: Eqn, outs: list[Spec | None]) -> None:
            sites.replaying.site = eqn.site
            given = [read(a) for a in eqn.invars]
            found = self.eqn(eqn, given, outs)
            self.as_typed(eqn, found)
            for i, v in enumerate(eqn.outvars):
                if (want := self.fixed.get(v)) is not None:
                    laid = self.to(found[i], want, v.aval, "where it was computed it lay so")
                    found[i] = Piece(laid.value, want)
            if eqn.primitive.name in PLACES:
                found[0].static = static_value(eqn, given)
            for v, piece in zip(eqn.outvars, found, strict=True):
                piece.site = piece.site or eqn.site
                # An equation may return its operand unchanged: a piece then has several names.
                piece.read_once &= reads[v] <= 1
                env[v] = piece

        # Equations bound for an equation carry its user line, also in notes of what is sent.
        before = sites.replaying.site
        made = Made(self, env, wanted, evaluate)
        try:
            for eqn in eqns:
                if not self.inside and made.waits(eqn):
                    continue
                made.needed(eqn.invars, eqn)
                evaluate(eqn, [wanted.get(v) for v in eqn.outvars])
            made.needed(graph.outvars)
        finally:
            sites.replaying.site = before
        return [read(a) for a in graph.outvars]

    def wanted(self, graph: Graph, outs: Sequence[Spec | None]) -> dict[Var, Spec]:
        """Return the preferred sharding of values: that of all their readers, from the results
        backwards.
        """
        asked: dict[Any, Spec | None] = {}

        def ask(atoms: Sequence[Any], specs: Sequence[Spec | None]) -> None:
            for a, spec in zip(atoms, specs, strict=True):
                if isinstance(a, Var):
                    # If readers do not agree, keep the sharding.
                    asked[a] = spec if asked.get(a, spec) == spec else None

        ask(graph.outvars, outs)
        for eqn in reversed(live(graph)[0]):
            for v in eqn.outvars:
                if cuts_of(v.aval.layout) is not None:
                    asked[v] = as_type_says(v.aval, asked.get(v), self.grid)
            ask(eqn.invars, self.wanted_by(eqn, [asked.get(v) for v in eqn.outvars]))
        return {v: spec for v, spec in asked.items() if spec is not None and any(spec)}

    def wanted_by(self, eqn: Eqn, outs: list[Spec | None]) -> Sequence[Spec | None]:
        """Return how one equation wants its operands."""
        prim = eqn.primitive
        flow = None if prim.flow is None else prim.flow(eqn)
        if isinstance(flow, ByRule) and flow.factors is not None and not self.inside:
            return wanted_of_operands(flow.factors(self.grid.main), outs, self.grid)
        if isinstance(flow, ByDevice):
            return [
                self.manual(flow.mesh, spec, a.aval.ndim)
                for spec, a in zip(flow.in_specs, eqn.invars, strict=True)
            ]
        # An inlined call prefers what the equations inside it prefer.
        whole = None if prim.inline is None else prim.inline(eqn)
        if whole is not None:
            found = self.wanted(whole, outs)
            return [found.get(v) for v in whole.invars]
        if isinstance(flow, (Loop, Choice)):
            return through(flow, eqn, outs, self.wanted)
        # Nothing is known about a call as such; and where no result is sharded, operands keep their
        # sharding.
        if prim.kind in (Kind.CALL, Kind.COLLECTIVE) or not any(map(is_cut, outs)):
            return [None] * len(eqn.invars)
        return wants(eqn, outs, self.grid)

    def eqn(self, eqn: Eqn, pieces: list[Piece], wanted: list[Spec | None]) -> list[Piece]:
        """Return the results of one equation."""
        if terms.concerned(eqn):
            return terms.applied(eqn, pieces, wanted, self)
        return self.plain(eqn, pieces, wanted)

    def plain(self, eqn: Eqn, pieces: list[Piece], wanted: list[Spec | None]) -> list[Piece]:
        """Return the results of one equation whose operands already have the right form."""
        prim = eqn.primitive
        # A callback of `inspect_array_sharding`: it is answered while planning, and is no step of
        # the program.
        told = getattr(eqn.params.get("callback"), "laid", None)
        if told is not None:
            # It only inspects the sharding of a value.
            told(self.grid.sharding(pieces[0].spec))
            return []
        flow = None if prim.flow is None else prim.flow(eqn)
        if isinstance(flow, ByDevice):
            return self.by_device(eqn, flow, pieces)
        # In a Graph of one device there is nothing to shard.
        if isinstance(flow, ByRule) and not self.inside:
            pieces = [self.as_is(p, a.aval) for p, a in zip(pieces, eqn.invars, strict=True)]
            ins, outs = [p.spec for p in pieces], [uncut(v.aval) for v in eqn.outvars]
            return self.by_device(eqn, by_rule(eqn, flow, ins, outs, wanted, self.grid), pieces)
        # A call with its own factors stays one equation, on pieces.
        inline = prim.inline if prim.factors is None else None
        whole = None if inline is None else inline(eqn)
        if whole is not None:
            return self.graph(whole, pieces, wanted)
        if prim.kind is Kind.COLLECTIVE:
            return self.collective(eqn, pieces)
        if isinstance(flow, Loop):
            return loops.looped(eqn, flow, pieces, self)
        if isinstance(flow, Choice):
            return loops.chosen(eqn, flow, pieces, wanted, self)
        if called(eqn) is not None:
            return self.call(eqn, pieces)
        if runs_once(prim) and not self.inside:
            return self.once(eqn, pieces)
        if prim.kind is Kind.CALL:
            return self.whole(eqn, pieces)
        # First parts of sharded axes and windows over them, which exchange rims, and
        # concatenations, whose pieces change devices. Everything else follows its factors.
        found = windowed(eqn, pieces, self) or slid(eqn, pieces, self) or joined(eqn, pieces, self)
        return self.by_factors(eqn, pieces, wanted) if found is None else found

    def as_typed(self, eqn: Eqn, pieces: Sequence[Piece]) -> None:
        """Reshard results as their types say, if they do; pending sums wait for their readers."""
        for i, (v, piece) in enumerate(zip(eqn.outvars, pieces, strict=False)):
            if cuts_of(v.aval.layout) is None or piece.owed is not None:
                continue
            want = as_type_says(v.aval, piece.spec, self.grid)
            if piece.spec != want or piece.frame:
                moved_piece = self.to(piece, want, v.aval, "its type says so")
                pieces[i] = Piece(moved_piece.value, want)  # pyright: ignore[reportIndexIssue]

    # ---- one equation ----
    def to(self, piece: Piece, want: Spec, aval: ShapedArray, why: str) -> Piece:
        """Return a piece in another sharding, and note what is sent for it."""
        # In this order: a part is resharded evenly, pending sums are combined, and only then can it
        # move.
        if piece.frame:
            self.realise(piece, aval, want)
        if piece.owed is not None:
            self.settle(piece, want, aval)
        piece.asked.add(want)
        # The requests of readers show afterwards whether a loop's operand should be moved before
        # the loop.
        if piece.spec == want:
            return piece
        # Moved once for all readers that want it so.
        if want not in piece.also:
            value, sent = moved(piece.value, piece.spec, want, self.sizes)
            site = sites.replaying.site or piece.site
            self.notes += [Note(what, aval, site, why) for what in sent]
            piece.also[want] = Piece(value, want)
        return piece.also[want]

    def settle(self, piece: Piece, want: Spec, aval: ShapedArray) -> None:
        """Combine partial results: all of them, or only those that `want` needs here."""
        assert piece.owed is not None
        how, names, site, why = piece.owed
        # A sum that is wanted in pieces is a reduce-scatter: each device gets its piece of the
        # result only.
        piece.value, piece.spec, sent = settled(
            piece.value, how, names, piece.spec, want, self.sizes
        )
        self.notes += [Note(what, aval, site, why) for what in sent]
        piece.owed = None

    def as_is(self, piece: Piece, aval: ShapedArray) -> Piece:
        """Return a piece without pending sums, and sharded evenly."""
        if piece.frame:
            self.realise(piece, aval)
        return self.to(piece, piece.spec, aval, "")

    def realise(self, piece: Piece, aval: ShapedArray, want: Spec | None = None) -> None:
        """Cut a part of a longer axis evenly, or gather it where no even pieces make it."""
        evened(piece, aval, want, self)
        piece.value, piece.spec, sent = realised(piece, aval, self.sizes)
        piece.frame = {}
        site, why = sites.replaying.site or piece.site, "part of an axis that is cut"
        self.notes += [Note(what, aval, site, why) for what in sent]

    @sites.replays
    def laid(
        self,
        graph: Graph,
        pieces: Sequence[Piece],
        outs: Sequence[Spec | None],
        why: str,
        kept: Sequence[frozenset | None] | None = None,
    ) -> list[Piece]:
        """Return the results of a Graph in the requested shardings; None: as they are."""
        before, found = sites.replaying.site, []
        sums = kept or [None] * len(outs)
        try:
            for piece, want, v, names in zip(pieces, outs, graph.outvars, sums, strict=True):
                have = terms.names_of(v.aval, self)
                if names is not None and names != have:
                    piece = terms.as_terms(piece, have, names, want, v.aval, why, self)
                # A pending sum is attributed to the line that left it pending.
                owed = piece.site if piece.owed is None else piece.owed.site
                sites.replaying.site = before or owed
                asked = want is not None
                found.append(
                    self.to(piece, want, v.aval, why) if asked else self.as_is(piece, v.aval)
                )
        finally:
            sites.replaying.site = before
        return found

    def bound(self, eqn: Eqn, values: Sequence[Any], params: dict) -> list:
        out = eqn.primitive.bind(*values, **params)
        return list(out) if eqn.primitive.multiple_results else [out]

    def all_of(self, eqn: Eqn, pieces: Sequence[Piece]) -> list:
        """Return operands that are gathered, for an equation that needs them whole."""
        # `explain` shows the note with the user's line.
        why = f"{eqn.primitive.name} needs it whole"
        return [
            self.to(p, uncut(a.aval), a.aval, why).value
            for a, p in zip(eqn.invars, pieces, strict=True)
        ]

    def whole(self, eqn: Eqn, pieces: Sequence[Piece]) -> list[Piece]:
        """Gather the operands: every device computes the whole."""
        out = self.bound(eqn, self.all_of(eqn, pieces), self.with_local_graphs(eqn.params))
        return uncut_results(eqn, out)

    def once(self, eqn: Eqn, pieces: Sequence[Piece]) -> list[Piece]:
        """Gather the operands: one device computes the whole, for all of them."""
        out = once(eqn.primitive, self.all_of(eqn, pieces), eqn.params, tuple(self.sizes))
        return uncut_results(eqn, out)

    def with_local_graphs(self, params: dict) -> dict:
        """Return params in which Graphs are those of one device, with everything replicated."""

        def local(value: Any) -> Any:
            if isinstance(value, Graph):
                whole = [uncut(v.aval) for v in value.outvars]
                return self.staged(value, [uncut(v.aval) for v in value.invars], whole).graph
            if isinstance(value, tuple) and any(isinstance(x, Graph) for x in value):
                return tuple_like(value, map(local, value))
            return value

        return {name: local(value) for name, value in params.items()}

    def by_factors(
        self, eqn: Eqn, pieces: list[Piece], wanted: Sequence[Spec | None]
    ) -> list[Piece]:
        """Evaluate an equation on pieces whose factors are cut alike."""
        for a, piece in zip(eqn.invars, pieces, strict=True):
            if piece.frame:
                self.realise(piece, a.aval)
        if not any(any(p.spec) for p in pieces) and not any(map(is_cut, wanted)):
            # Every device has all of it.
            owed = owed_by_all(eqn, pieces)
            if owed is None:
                return self.whole(eqn, pieces)
            out = self.bound(eqn, [p.value for p in pieces], eqn.params)
            return [Piece(x, uncut(v.aval), owed) for x, v in zip(out, eqn.outvars, strict=True)]
        specs = [p.spec for p in pieces]
        done = division(eqn, specs, wanted, self.grid)
        if done is None:
            return self.whole(eqn, pieces)
        # A linear operation on partial results gives partial results: postpone their sum, which may
        # save it.
        owed = owed_by_all(eqn, pieces)
        if owed is not None and (done.ins != specs or done.owed):
            owed = None
        values = [p.value for p in pieces]
        if owed is None:
            why = f"{eqn.primitive.name} needs it so"
            values = [
                self.to(p, want, a.aval, why).value
                for a, p, want in zip(eqn.invars, pieces, done.ins, strict=True)
            ]
        # Most operations are the same on a piece; one that counts positions is given the piece's
        # start.
        if done.piece is None:
            out = self.bound(eqn, values, done.params)
        else:
            starts = {f: start_of(names, size, self.sizes) for f, names, size in done.starts}
            out = done.piece(values, done.params, starts)
        made = [Piece(x, spec, owed) for x, spec in zip(out, done.outs, strict=True)]
        # A fold of pieces has a pending sum over the devices.
        why = f"{eqn.primitive.name} along a cut axis"
        for how, names in done.owed:
            for piece, v in zip(made, eqn.outvars, strict=True):
                if piece.owed is not None:
                    self.settle(piece, piece.spec, v.aval)
                piece.owed = Owed(how, names, eqn.site, why)
        return made

    # ---- collectives ----
    def collective(self, eqn: Eqn, pieces: list[Piece]) -> list[Piece]:
        """Bind a collective of a Graph of one device, with the grid's axes for the mesh's."""
        # A cast changes a type's varying axes, and no value.
        if eqn.primitive in CASTS:
            return pieces
        # Along axes that are not the Graph's own, values may be cut too.
        if ops.is_elementwise(eqn):
            ready = [self.as_is(p, a.aval) for p, a in zip(pieces, eqn.invars, strict=True)]
            out = self.renamed(eqn, [p.value for p in ready])
            return [Piece(x, p.spec) for x, p in zip(out, ready, strict=True)]
        return uncut_results(eqn, self.renamed(eqn, self.all_of(eqn, pieces)))

    def renamed(self, eqn: Eqn, values: list) -> list:
        params = eqn.params
        if eqn.primitive is ops.axis_index_p:
            return [position(self.inside[params["axis_name"]], self.sizes)]
        mine = tuple(m for n in ops.names_in(params) for m in self.inside[n])
        if "axes" in params:
            # Axes of the value itself (under vmap) are reduced here, axes of the mesh between
            # devices.
            numbers = tuple(a for a in params["axes"] if isinstance(a, int))
            if not mine and not numbers:
                return values  # along axes of one device
            if eqn.primitive is unreduced_psum_p:
                return list(ops.psum_p.bind(*values, axes=mine, axis_index_groups=None))
            return self.bound(eqn, values, params | {"axes": (*numbers, *mine)})
        out = of_device(eqn.primitive).bind(*values, **(params | {"axis_name": mine}))
        return list(out) if eqn.primitive.multiple_results else [out]

    # ---- Graphs inside ----
    def by_device(self, eqn: Eqn, flow: ByDevice, pieces: list[Piece]) -> list[Piece]:
        """Run the Graph of one device on pieces sharded by its specs."""
        grid, mesh = self.grid, flow.mesh
        pieces = [
            self.summed_as(mesh, spec, a.aval, piece)
            for a, spec, piece in zip(eqn.invars, flow.in_specs, pieces, strict=True)
        ]
        # Only a sharding constraint leaves an axis open.
        if len(pieces) == 1 and UNCONSTRAINED in flow.in_specs[0].partitions:
            return [self.constrained(mesh, flow.in_specs[0], eqn.invars[0].aval, pieces[0])]
        # Axes that do not belong to the Graph: along them its values keep their sharding, and it is
        # partitioned like any other.
        others = {m for n in flow.automatic for m in grid.names(mesh, (n,))}
        values = []
        for a, spec, piece in zip(eqn.invars, flow.in_specs, pieces, strict=True):
            want = self.manual(mesh, spec, a.aval.ndim)
            want = beside(want, piece.spec, a.aval.shape, others, self.sizes)
            moved_piece = self.to(piece, want, a.aval, "in_specs ask for it so")
            values.append(Piece(moved_piece.value, only(want, others)))
        outer, self.inside = self.inside, {n: grid.names(mesh, (n,)) for n in mesh.axis_names}
        self.inside = outer | self.inside
        try:
            out = self.graph(flow.body, values)
        finally:
            self.inside = outer
        results = []
        for piece, spec, v, inner in zip(
            out, flow.out_specs, eqn.outvars, flow.body.outvars, strict=True
        ):
            rest = only(piece.spec, others)
            value = self.to(piece, rest, inner.aval, "a result of shard_map").value
            own = self.manual(mesh, spec, v.aval.ndim)
            results.append(Piece(value, tuple(a + b for a, b in zip(own, rest, strict=True))))
        return results

    def summed_as(self, mesh: Any, spec: Any, aval: ShapedArray, piece: Piece) -> Piece:
        """Return a value as terms along the axes that a spec lists as unreduced."""
        have, want = terms.names_of(aval, self), frozenset(self.grid.names(mesh, spec.unreduced))
        if not (have or want):
            return piece
        open_axis = UNCONSTRAINED in spec.partitions
        cut = None if open_axis else self.manual(mesh, spec, aval.ndim)
        return terms.as_terms(piece, have, want, cut, aval, "a spec asks for it so", self)

    def constrained(self, mesh: Any, spec: Any, aval: ShapedArray, piece: Piece) -> Piece:
        """Reshard a value as a constraint requests; an UNCONSTRAINED axis keeps its sharding."""
        want = self.manual(mesh, spec, aval.ndim)
        # An open axis keeps its cut unless the constraint needs those mesh axes elsewhere.
        taken = {name for names in want for name in names}
        free = [i for i, part in enumerate(spec.partitions) if part is UNCONSTRAINED]
        kept = tuple(
            piece.spec[i] if i in free and not taken.intersection(piece.spec[i]) else names
            for i, names in enumerate(want)
        )
        return self.to(piece, kept, aval, "a constraint asks for it so")

    def manual(self, mesh: Any, spec: Any, ndim: int) -> Spec:
        return self.grid.spec(mesh, spec, ndim)

    def staged(
        self,
        graph: Graph,
        ins: Sequence[Spec],
        outs: Sequence[Spec | None] | None = None,
        wanted: Sequence[Spec | None] | None = None,
    ) -> loops.LocalGraph:
        """Return a Graph inside an equation as that of one device.

        Its results are sharded as `outs` says; None leaves them as they come, if possible as
        `wanted`.
        """
        found: list[Spec] = []
        given: list[Piece] = []
        forced = [None] * len(graph.outvars) if outs is None else outs

        def fun(*values):
            # Kept for the caller: which layouts a loop's body asked of its constants.
            given[:] = [Piece(*p) for p in zip(values, ins, strict=True)]
            results = self.graph(graph, given, forced if wanted is None else wanted)
            results = self.laid(graph, results, forced, "a loop or branch has it so")
            found[:] = [piece.spec for piece in results]
            return [piece.value for piece in results]

        avals = [local_aval(v.aval, s, self.grid) for v, s in zip(graph.invars, ins, strict=True)]
        made = stage(fun, avals, TracedFunction(fun, "partitioning"))
        made.debug_name = graph.debug_name
        return loops.LocalGraph(made, given, found)

    def call(self, eqn: Eqn, pieces: list[Piece]) -> list[Piece]:
        """Run a Graph that stays separate, such as a recomputation, on pieces."""
        pieces = [self.as_is(p, a.aval) for p, a in zip(pieces, eqn.invars, strict=True)]
        body = self.staged(eqn.params["jaxpr"], [p.spec for p in pieces])
        out = self.bound(eqn, [p.value for p in pieces], eqn.params | {"jaxpr": body.graph})
        return [Piece(x, s) for x, s in zip(out, body.outs, strict=True)]
