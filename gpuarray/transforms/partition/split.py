"""The Graph of one device: a Graph evaluated on pieces of its values.

Floor 3. In: a Graph, and how its inputs are cut along the axes of a grid of devices. Out: the Graph
that each device runs on its pieces, with collectives where pieces of others are needed, and how its
outputs are cut.

An equation's axes share factors (core/factors.py). A factor is cut as the operands are that have
it, the largest operand first; every operand is moved to the cut of its factors, and so the results
are cut. What has no factors is gathered and computed by every device: always right, and noted with
the user's line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuarray import sites
from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import Factors
from gpuarray.core.flow import ByDevice, Choice, Loop
from gpuarray.core.graph import Eqn, Graph, Literal, Var, called
from gpuarray.core.grid import Grid, Spec
from gpuarray.core.primitive import Kind
from gpuarray.core.spec import UNCONSTRAINED
from gpuarray.primitives.collective import ops
from gpuarray.primitives.factors import factors_of
from gpuarray.transforms.partition.moves import moved, start_of, summed
from gpuarray.transforms.tracing import TracedFunction, stage


class Piece(NamedTuple):
    """One device's part of a value, traced, and how the value is cut."""

    value: Any
    spec: Spec


class Note(NamedTuple):
    """A move that an equation needed: what was sent, of which value, where, and why."""

    sent: str
    aval: ShapedArray
    site: Any
    why: str


class Partitioned(NamedTuple):
    """The Graph of one device, how its inputs and outputs are cut, and the moves in it."""

    local: Graph
    ins: tuple[Spec, ...]
    outs: tuple[Spec, ...]
    notes: tuple[Note, ...]


def uncut(aval: ShapedArray) -> Spec:
    """Return the layout of a value that every device has whole."""
    return ((),) * aval.ndim


def partition(
    graph: Graph, ins: Sequence[Spec], outs: Sequence[Spec | None], grid: Grid
) -> Partitioned:
    """Return the Graph that each device of a grid runs.

    Parameters
    ----------
    graph :
        The program as a whole. Its constants are on every device.
    ins :
        How each input is cut.
    outs :
        How each output is to be cut; None leaves it as it comes.
    """
    splitter = _Splitter(grid)
    found: tuple[Spec, ...] = ()

    def fun(*pieces):
        nonlocal found
        results = splitter.graph(graph, [Piece(*p) for p in zip(pieces, ins, strict=True)])
        results = [
            piece if want is None else splitter.to(piece, want, v.aval, "the layout asked for")
            for piece, want, v in zip(results, outs, graph.outvars, strict=True)
        ]
        found = tuple(piece.spec for piece in results)
        return [piece.value for piece in results]

    avals = [local_aval(v.aval, s, grid) for v, s in zip(graph.invars, ins, strict=True)]
    local = stage(fun, avals, TracedFunction(fun, "partitioning"))
    local.debug_name = graph.debug_name
    return Partitioned(local, tuple(ins), found, tuple(splitter.notes))


def local_aval(aval: ShapedArray, spec: Spec, grid: Grid) -> ShapedArray:
    """Return the aval of one device's piece."""
    shape = tuple(n // grid.size(names) for n, names in zip(aval.shape, spec, strict=True))
    return aval.update(shape=shape, sharding=None)


class _Splitter:
    """Evaluates Graphs on pieces, in the current trace."""

    def __init__(self, grid: Grid):
        self.grid = grid
        self.sizes = grid.sizes
        self.notes: list[Note] = []
        # Inside a Graph of one device: which axes of the grid each of its names consists of.
        self.inside: dict[Any, tuple] = {}

    # ---- Graphs ----
    @sites.replays
    def graph(self, graph: Graph, pieces: Sequence[Piece]) -> list[Piece]:
        """Return the results of a Graph, one equation after another."""
        env: dict[Var, Piece] = dict(zip(graph.invars, pieces, strict=True))
        for v, c in zip(graph.constvars, graph.consts, strict=True):
            env[v] = Piece(c, uncut(v.aval))

        def read(a: Any) -> Piece:
            return Piece(a.operand, uncut(a.aval)) if isinstance(a, Literal) else env[a]

        before = sites.replaying.site
        try:
            for eqn in graph.eqns:
                sites.replaying.site = eqn.site
                env.update(zip(eqn.outvars, self.eqn(eqn, [*map(read, eqn.invars)]), strict=True))
        finally:
            sites.replaying.site = before
        return [read(a) for a in graph.outvars]

    def eqn(self, eqn: Eqn, pieces: list[Piece]) -> list[Piece]:
        """Return the results of one equation."""
        prim = eqn.primitive
        told = getattr(eqn.params.get("callback"), "laid", None)
        if told is not None:
            # It asks how a value lies, and nothing else.
            told(self.grid.sharding(pieces[0].spec))
            return []
        # What has factors of its own stays one equation, on pieces.
        inline = prim.inline if prim.factors is None else None
        whole = None if inline is None else inline(eqn)
        if whole is not None:
            return self.graph(whole, pieces)
        if prim.kind is Kind.COLLECTIVE:
            return self.collective(eqn, pieces)
        flow = None if prim.flow is None else prim.flow(eqn)
        if isinstance(flow, ByDevice):
            return self.by_device(eqn, flow, pieces)
        if isinstance(flow, Loop):
            return self.loop(eqn, flow, pieces)
        if isinstance(flow, Choice):
            return self.choice(eqn, flow, pieces)
        if called(eqn) is not None:
            return self.call(eqn, pieces)
        if prim.kind is Kind.CALL or not any(any(p.spec) for p in pieces):
            # Every device has all of it.
            return self.whole(eqn, pieces)
        return self.by_factors(eqn, pieces)

    # ---- one equation ----
    def to(self, piece: Piece, want: Spec, aval: ShapedArray, why: str) -> Piece:
        """Move a piece to another layout, and note what is sent for it."""
        value, sent = moved(piece.value, piece.spec, want, self.sizes)
        self.notes += [Note(what, aval, sites.replaying.site, why) for what in sent]
        return Piece(value, want)

    def bound(self, eqn: Eqn, values: Sequence[Any], params: dict) -> list:
        out = eqn.primitive.bind(*values, **params)
        return list(out) if eqn.primitive.multiple_results else [out]

    def whole(self, eqn: Eqn, pieces: Sequence[Piece]) -> list[Piece]:
        """Gather the operands: every device computes the whole."""
        why = f"{eqn.primitive.name} needs it whole"
        values = [
            self.to(p, uncut(a.aval), a.aval, why).value
            for a, p in zip(eqn.invars, pieces, strict=True)
        ]
        out = self.bound(eqn, values, self.with_local_graphs(eqn.params))
        return [Piece(x, uncut(v.aval)) for x, v in zip(out, eqn.outvars, strict=True)]

    def with_local_graphs(self, params: dict) -> dict:
        """Return params in which Graphs are those of one device, with everything whole."""

        def local(value: Any) -> Any:
            if isinstance(value, Graph):
                return self.staged(value, [uncut(v.aval) for v in value.invars])[0]
            if isinstance(value, tuple) and any(isinstance(x, Graph) for x in value):
                return tuple(map(local, value))
            return value

        return {name: local(value) for name, value in params.items()}

    def by_factors(self, eqn: Eqn, pieces: list[Piece]) -> list[Piece]:
        """Evaluate an equation on pieces whose factors are cut alike."""
        params = eqn.params
        factors = factors_of(
            eqn.primitive, [a.aval for a in eqn.invars], [v.aval for v in eqn.outvars], params
        )
        cut = self.cut_of(factors, eqn, pieces)
        if not cut:
            return self.whole(eqn, pieces)
        cuts = {f: self.grid.size(names) for f, names in cut.items()}
        why = f"{eqn.primitive.name} needs it so"
        # Every operand as the factors of its axes are cut.
        values = []
        for a, piece, axes in zip(eqn.invars, pieces, factors.ins, strict=True):
            want = tuple(tuple(n for f in axis for n in cut.get(f, ())) for axis in axes)
            values.append(self.to(piece, want, a.aval, why).value)
        local = factors.local(params, cuts)
        if factors.piece is None:
            out = self.bound(eqn, values, local)
        else:
            starts = {
                f: start_of(names, factors.sizes[f] // cuts[f], self.sizes)
                for f, names in cut.items()
            }
            out = factors.piece(values, local, starts)
        # What was summed over on pieces only is owed the others' share.
        for f, names in cut.items():
            if f in factors.owed:
                out = [summed(x, factors.owed[f], names, self.sizes) for x in out]
                for v in eqn.outvars:
                    why = f"{eqn.primitive.name} along a cut axis"
                    self.notes.append(Note("psum", v.aval, sites.replaying.site, why))
        specs = [
            tuple(tuple(n for f in axis for n in cut.get(f, ())) for axis in axes)
            for axes in factors.outs
        ]
        return [Piece(x, s) for x, s in zip(out, specs, strict=True)]

    def cut_of(self, factors: Factors, eqn: Eqn, pieces: list[Piece]) -> dict[int, tuple]:
        """Return the grid's axes that cut each factor: as the largest operand says first."""
        cut: dict[int, tuple] = {}
        used: set = set()
        order = sorted(
            range(len(pieces)), key=lambda i: -eqn.invars[i].aval.size * any(pieces[i].spec)
        )
        for i in order:
            for axis, names in zip(factors.ins[i], pieces[i].spec, strict=True):
                if not names or used.intersection(names):
                    continue
                given = _given_to(factors, axis, names, self.sizes)
                # Pieces of an axis of several factors are runs of it only so.
                if given is None or any(f in cut for f in given):
                    continue
                trial = cut | given
                if all(_are_runs(factors, axes, trial, self.grid) for axes in _all_axes(factors)):
                    cut = trial
                    used.update(names)
        return cut

    # ---- collectives ----
    def collective(self, eqn: Eqn, pieces: list[Piece]) -> list[Piece]:
        """Bind a collective of a Graph of one device, with the grid's names for the mesh's."""
        if eqn.primitive is ops.pcast_p:
            return pieces
        # Along axes that are not the Graph's own, values may be cut too.
        values = [
            self.to(p, uncut(a.aval), a.aval, f"{eqn.primitive.name} needs it whole").value
            for a, p in zip(eqn.invars, pieces, strict=True)
        ]
        out = self.renamed(eqn, values)
        return [Piece(x, uncut(v.aval)) for x, v in zip(out, eqn.outvars, strict=True)]

    def renamed(self, eqn: Eqn, values: list) -> list:
        params = eqn.params
        if eqn.primitive is ops.axis_index_p:
            names = self.inside[params["axis_name"]]
            return [_index(names, self.sizes)]
        mine = tuple(m for n in ops.names_in(params) for m in self.inside[n])
        if "axes" in params:
            numbers = tuple(a for a in params["axes"] if isinstance(a, int))
            if not mine and not numbers:
                return values  # along axes of one device
            return self.bound(eqn, values, params | {"axes": (*numbers, *mine)})
        return self.bound(eqn, values, params | {"axis_name": mine})

    # ---- Graphs inside ----
    def by_device(self, eqn: Eqn, flow: ByDevice, pieces: list[Piece]) -> list[Piece]:
        """Run the Graph of one device on pieces that are cut as it says."""
        grid, mesh = self.grid, flow.mesh
        if len(pieces) == 1 and UNCONSTRAINED in flow.in_specs[0].partitions:
            return [self.constrained(mesh, flow.in_specs[0], eqn.invars[0].aval, pieces[0])]
        values = []
        for a, spec, piece in zip(eqn.invars, flow.in_specs, pieces, strict=True):
            want = self.manual(mesh, spec, a.aval.ndim)
            moved_piece = self.to(piece, want, a.aval, "in_specs ask for it so")
            values.append(Piece(moved_piece.value, uncut(a.aval)))
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
            value = self.to(piece, uncut(inner.aval), inner.aval, "a result of shard_map").value
            results.append(Piece(value, self.manual(mesh, spec, v.aval.ndim)))
        return results

    def constrained(self, mesh: Any, spec: Any, aval: ShapedArray, piece: Piece) -> Piece:
        """Lay a value as a constraint asks; an UNCONSTRAINED axis stays as it is."""
        want = self.manual(mesh, spec, aval.ndim)
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
        self, graph: Graph, ins: Sequence[Spec], outs: Sequence[Spec | None] | None = None
    ) -> tuple[Graph, list[Spec]]:
        """Return a Graph inside an equation as that of one device, and how its results are cut."""
        found: list[Spec] = []
        wanted = [None] * len(graph.outvars) if outs is None else outs

        def fun(*values):
            results = self.graph(graph, [Piece(*p) for p in zip(values, ins, strict=True)])
            results = [
                piece if want is None else self.to(piece, want, v.aval, "carried so by a loop")
                for piece, want, v in zip(results, wanted, graph.outvars, strict=True)
            ]
            found[:] = [piece.spec for piece in results]
            return [piece.value for piece in results]

        avals = [local_aval(v.aval, s, self.grid) for v, s in zip(graph.invars, ins, strict=True)]
        made = stage(fun, avals, TracedFunction(fun, "partitioning"))
        made.debug_name = graph.debug_name
        return made, found

    def call(self, eqn: Eqn, pieces: list[Piece]) -> list[Piece]:
        """Run a Graph that stays apart, such as a recomputation, on pieces."""
        body, specs = self.staged(eqn.params["jaxpr"], [p.spec for p in pieces])
        out = self.bound(eqn, [p.value for p in pieces], eqn.params | {"jaxpr": body})
        return [Piece(x, s) for x, s in zip(out, specs, strict=True)]

    def loop(self, eqn: Eqn, loop: Loop, pieces: list[Piece]) -> list[Piece]:
        """Run a loop on pieces: what it carries is cut at every step as it is at the first."""
        pieces = list(pieces)
        # The axis that is gone through is whole; the others stay cut.
        for i in loop.xs:
            piece, aval = pieces[i], eqn.invars[i].aval
            want = ((), *piece.spec[1:])
            pieces[i] = self.to(piece, want, aval, f"{eqn.primitive.name} goes along this axis")
        body_consts = [pieces[i].spec for i in loop.consts]
        xs = [pieces[i].spec[1:] for i in loop.xs]
        carry = [pieces[i].spec for i in loop.carry]
        # A step may cut what it was given whole: then it is cut from the start, if it stays so.
        notes = list(self.notes)
        _, found = self.staged(loop.body, [*body_consts, *carry, *xs])
        self.notes = notes
        if found[: len(carry)] != carry:
            tried = found[: len(carry)]
            _, found = self.staged(loop.body, [*body_consts, *tried, *xs])
            self.notes = notes
            if found[: len(carry)] == tried:
                carry = tried
        ys = found[len(carry) :]
        body, _ = self.staged(loop.body, [*body_consts, *carry, *xs], [*carry, *ys])
        graphs = {id(loop.body): body}
        if loop.condition is not None:
            condition_consts = [pieces[i].spec for i in loop.condition_consts]
            (test,) = loop.condition.outvars
            graphs[id(loop.condition)] = self.staged(
                loop.condition, [*condition_consts, *carry], [uncut(test.aval)]
            )[0]
        for i, spec in zip(loop.carry, carry, strict=True):
            pieces[i] = self.to(pieces[i], spec, eqn.invars[i].aval, "carried so by a loop")
        params = {k: graphs.get(id(v), v) for k, v in eqn.params.items()}
        out = self.bound(eqn, [p.value for p in pieces], params)
        specs = [*carry, *(((), *spec) for spec in ys)]
        return [Piece(x, s) for x, s in zip(out, specs, strict=True)]

    def choice(self, eqn: Eqn, choice: Choice, pieces: list[Piece]) -> list[Piece]:
        """Run a branch on pieces: the results of all branches are cut as the first one's."""
        pieces = list(pieces)
        number = eqn.invars[0].aval
        pieces[0] = self.to(pieces[0], uncut(number), number, "which branch runs")
        ins = [p.spec for p in pieces[1:]]
        first, outs = self.staged(choice.branches[0], ins)
        others = [self.staged(branch, ins, outs)[0] for branch in choice.branches[1:]]
        graphs = dict(zip(map(id, choice.branches), (first, *others), strict=True))
        params = {
            k: tuple(graphs.get(id(x), x) for x in v) if isinstance(v, tuple) else v
            for k, v in eqn.params.items()
        }
        out = self.bound(eqn, [p.value for p in pieces], params)
        return [Piece(x, s) for x, s in zip(out, outs, strict=True)]


def _index(names: tuple, sizes: dict) -> Any:
    return (
        start_of(names, 1, sizes) if len(names) != 1 else ops.axis_index_p.bind(axis_name=names[0])
    )


def _all_axes(factors: Factors) -> list[tuple[tuple[int, ...], ...]]:
    return [*factors.ins, *factors.outs]


def _given_to(
    factors: Factors, axis: tuple[int, ...], names: tuple, sizes: dict
) -> dict[int, tuple] | None:
    """Return the grid's axes for each factor of an axis that is cut by `names`, major first.

    None where the pieces are no pieces of its factors.
    """
    given: dict[int, list] = {}
    rest = list(axis)
    left = factors.sizes[rest[0]] if rest else 0
    for name in names:
        # A factor that is cut into single positions: the next one is cut.
        while left == 1 and len(rest) > 1:
            rest.pop(0)
            left = factors.sizes[rest[0]]
        if not rest or left % sizes[name]:
            return None
        given.setdefault(rest[0], []).append(name)
        left //= sizes[name]
    return {f: tuple(names) for f, names in given.items()}


def _are_runs(
    factors: Factors, axes: tuple[tuple[int, ...], ...], cut: dict[int, tuple], grid: Grid
) -> bool:
    """Whether the pieces of every axis are equal runs of it, and no axis of the grid cuts twice."""
    cuts = {f: grid.size(names) for f, names in cut.items()}
    seen: set = set()
    for axis in axes:
        if factors.parts_of(axis, cuts) is None:
            return False
        for f in axis:
            names = cut.get(f, ())
            if seen.intersection(names):
                return False
            seen.update(names)
    return True


#: What splitting a Graph is: the signature that callers know.
Split = Callable[[Graph, Sequence[Spec], Sequence[Spec | None], Grid], Partitioned]
