"""Groups over large arrays, run in tiles that stay in cache, on all cores.

Floor 4. In: a FusedGroup. Out: a TiledGroup, callable with the group's loads. Each tile runs all
members one after another on scratch memory of its thread, so values between members never reach
main memory.

Where tiles cut parallel axes only, one pass does everything. Where they cut a reduced axis, there
is a pass for each level of reductions: partial results are kept per tile and merged in order, so
results do not depend on the number of threads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gpuarray.backends.numpy import memory
from gpuarray.backends.numpy.sums import function_of, inner_operands, summed_products
from gpuarray.compiler.fuse.group import Dims, FusedGroup, Inner, Load, Member
from gpuarray.compiler.lower.passes import Pass, once_each, one_pass, split_passes
from gpuarray.compiler.lower.steps import step_work
from gpuarray.core import threads
from gpuarray.core.graph import Literal, Var, storage_dtype
from gpuarray.core.primitive import Kind
from gpuarray.core.threads import thread_count as thread_count
from gpuarray.util import cached_property

#: Elements in a tile: few enough to stay in cache, many enough that threads rarely contend for
#: Python's lock.
TILE = 1 << 18
#: If one thread runs a group, tiles are this many times smaller: results and operands of several
#: operations share its core's L2 (sums of 8 arrays of 1 MiB: 687 us with 1, 582 with 4).
ALONE = 4
#: Smaller groups run without tiles: fewer, larger NumPy calls.
TILED_FROM = 1 << 17
#: Operations of this weight take longer than their memory traffic; their tiles are this many times
#: smaller.
SLOW, FINER = 32, 16
#: Multiply-adds that justify another thread, which may find its core busy: threads of BLAS spin
#: there after a matrix product, waiting for the next one.
WORTH_A_THREAD = 1 << 20
#: Rows of up to this many tiles stay whole if cutting them would mean computing values twice.
WHOLE_ROWS = 8


def reorder(order: tuple[int | None, ...], ndim: int) -> str:
    """Return the text that brings an array's dimensions into `order` (None: a new axis)."""
    if order == tuple(range(ndim)):
        return ""
    text = ""
    # Drop unwanted axes, permute, then insert new ones.
    kept = [i for i in range(ndim) if i in order]
    if len(kept) < ndim:
        text += "[" + ", ".join(":" if i in kept else "0" for i in range(ndim)) + "]"
    wanted = [kept.index(o) for o in order if o is not None]
    if wanted != sorted(wanted):
        text += f".transpose({tuple(wanted)})"
    if None in order:
        text += "[" + ", ".join("None" if o is None else ":" for o in order) + "]"
    return text


class TiledGroup:
    """A FusedGroup prepared to run in tiles."""

    def __init__(self, group: FusedGroup, chunks: list[int], passes: list[Pass]):
        self.group = group
        self.chunks = chunks
        # Each distinct load is an argument once.
        unique: dict[tuple, Load] = {}
        for load in group.loads():
            unique.setdefault((load.key, load.dims), load)
        # Equal loads share an argument, and the slices of it in a tile.
        self.loads = list(unique.values())
        self.load_number = {key: i for i, key in enumerate(unique)}
        self.cut_reduced = [i for i in sorted(group.reduced) if chunks[i] < group.axes[i]]
        self.made = group.made
        self.most_threads = max(1, int(step_work(group) / WORTH_A_THREAD))
        self.passes = [_TiledPass(self, p) for p in passes]

    @cached_property
    def tiles(self) -> list[tuple]:
        """Made at the first run, when there has been room for the results."""
        tiles = _tiles(self.group.axes, self.chunks)
        return _numbered(tiles, self.cut_reduced) if self.cut_reduced else tiles

    def __call__(self, *loads) -> list:
        values: dict[Var, Any] = {}
        # Results are allocated before tiles run, so that each writes to its place.
        for one in self.passes:
            for v in one.pass_.stored:
                values[v] = memory.empty(v.aval.shape, storage_dtype(v.aval))
            one.run(loads, values)
        return [values[v] for v in self.group.outputs]


class _TiledPass:
    """One pass over the tiles, as a generated Python function."""

    def __init__(self, owner: TiledGroup, pass_: Pass):
        self.owner = owner
        self.pass_ = pass_
        self.slots = _Slots()
        self.known: list[Var] = []  # finished values of earlier passes that tiles read
        self.space: dict[str, Any] = {}
        self.function = self._write()
        self.after = self._write_after()

    # ---- writing ----
    def _write(self) -> Callable[..., Any]:
        owner, pass_ = self.owner, self.pass_
        body: list[str] = []
        names: dict[Any, str] = {}
        # Products read only by their sums are not computed; results and values read by later
        # members stay.
        kept = [*pass_.stored, *pass_.carried, *inner_operands(pass_.after)]
        members, products = summed_products(pass_.members, kept)
        # Which member reads each value last: its scratch memory is free from there on.
        in_pass = {v for m in members for v in m.eqn.outvars}
        last: dict[Var, int] = {}
        for k, member in enumerate(members):
            for o in member.operands:
                if isinstance(o, Inner):
                    last[o.var] = k
        tile_loads: list[str] = []

        def operand(o) -> str:
            if isinstance(o, Literal):
                return self._bind("lit", np.asarray(o.val).astype(storage_dtype(o.aval))[()])
            if isinstance(o, Load):
                number = owner.load_number[(o.key, o.dims)]
                name = f"t{number}"
                # A tile reads its part of an operand; without cut axes all of it.
                cut = _cut(o.dims, owner.chunks, owner.group.axes)
                if not cut:
                    return f"L{number}"
                if name not in tile_loads:
                    tile_loads.append(name)
                    body.append(f"{name} = L{number}[{cut}]")
                return name
            if o.var not in in_pass and o.var not in self.known:
                self.known.append(o.var)
            # Made in this pass, or finished in an earlier one and read from there.
            if o.var in in_pass:
                return names[o.var] + reorder(o.order, o.var.aval.ndim)
            number = self.known.index(o.var)
            cut = _cut(owner.made[o.var].dims, owner.chunks, owner.group.axes)
            whole = f"K{number}[{cut}]" if cut else f"K{number}"
            return whole + reorder(o.order, o.var.aval.ndim)

        # Results of the pass: stored in full, or as partial results of each tile.
        stored_number = {v: i for i, v in enumerate(pass_.stored)}
        partial_number = {v: i for i, v in enumerate(pass_.partial)}
        for k, member in enumerate(members):
            eqn = member.eqn
            ins = [operand(o) for o in member.operands]
            function = products.get(member) or function_of(eqn)
            if function is np.square:  # NumPy multiplies faster than it squares, to the same bits
                function, ins = np.multiply, ins * 2
            call = f"{self._bind(eqn.primitive.name.replace('-', '_'), function)}({', '.join(ins)}"
            outs = eqn.outvars
            # One result that a ufunc can write in place.
            direct = len(outs) == 1 and not eqn.primitive.multiple_results
            freed = [
                o.var for o in member.operands if isinstance(o, Inner) and last.get(o.var) == k
            ]
            for v in outs:
                names[v] = f"v{len(names)}"
            # Three ways to receive a result: in its final place, in scratch memory, or newly
            # allocated.
            if direct and outs[0] in stored_number:
                v = outs[0]
                cut = _cut(member.dims, owner.chunks, owner.group.axes) or "..."
                body.append(f"{names[v]} = O{stored_number[v]}[{cut}]")
                if _writes_out(function, eqn):
                    body.append(f"{call}, out={names[v]})")
                else:
                    body.append(f"{names[v]}[...] = {call})")
            elif direct and eqn.primitive.kind is Kind.POINTWISE and _writes_out(function, eqn):
                slot = self.slots.take(member, owner, freed, in_pass)
                self.slots.owner_of[outs[0]] = slot
                body.append(f"{names[outs[0]]} = {call}, out=S[{slot}])")
            else:
                left = ", ".join(names[v] for v in outs) + (
                    "," if eqn.primitive.multiple_results else ""
                )
                body.append(f"{left} = {call})")
                for v in outs:
                    if v in stored_number:
                        cut = _cut(member.dims, owner.chunks, owner.group.axes) or "..."
                        body.append(f"O{stored_number[v]}[{cut}] = {names[v]}")
            for v in freed:
                self.slots.free(v)
            for v in outs:
                if v in partial_number:
                    cut = _cut(member.dims, owner.chunks, owner.group.axes)
                    index = f"[x[-1], {cut}]" if cut else "[x[-1]]"
                    body.append(f"Q{partial_number[v]}{index} = {names[v]}")
        # Arguments: loads, stored outputs, partial results, finished values of earlier passes.
        args = [f"L{i}" for i in range(len(owner.loads))]
        args += [f"O{i}" for i in range(len(pass_.stored))]
        args += [f"Q{i}" for i in range(len(pass_.partial))]
        args += [f"K{i}" for i in range(len(self.known))]
        lines = [f"def run_pass(tiles, scratch, {', '.join(args)}):"]
        lines += ["    for x in tiles:", "        S = scratch(x[-2])"]
        lines += [f"        {line}" for line in body]
        self.source = "\n".join(lines)
        exec(compile(self.source, f"<{owner.group.name}>", "exec"), self.space)  # noqa: S102 - text made here, of generated names only
        return self.space["run_pass"]

    # The function that runs after the tiles, on whole values: members that need all partial
    # results.
    def _write_after(self) -> Callable[..., Any] | None:
        if not self.pass_.after:
            return None
        owner = self.owner
        names: dict[Var, str] = {}
        self.after_reads: list[Var] = []
        body: list[str] = []
        for member in self.pass_.after:
            ins = []
            # After the tiles all values are whole: no slices.
            for o in member.operands:
                if isinstance(o, Literal):
                    ins.append(
                        self._bind("lit", np.asarray(o.val).astype(storage_dtype(o.aval))[()])
                    )
                elif isinstance(o, Load):
                    ins.append(f"L{owner.load_number[(o.key, o.dims)]}")
                else:
                    if o.var not in names:
                        names[o.var] = f"r{len(self.after_reads)}"
                        self.after_reads.append(o.var)
                    ins.append(names[o.var] + reorder(o.order, o.var.aval.ndim))
            eqn = member.eqn
            function = self._bind("f", function_of(eqn))
            for v in eqn.outvars:
                names[v] = f"e{len(names)}"
            left = ", ".join(names[v] for v in eqn.outvars)
            comma = "," if eqn.primitive.multiple_results else ""
            body.append(f"{left}{comma} = {function}({', '.join(ins)})")
        self.after_makes = [v for m in self.pass_.after for v in m.eqn.outvars]
        args = [f"L{i}" for i in range(len(owner.loads))] + [
            f"r{i}" for i in range(len(self.after_reads))
        ]
        lines = [f"def after({', '.join(args)}):", *(f"    {line}" for line in body)]
        lines.append(f"    return [{', '.join(names[v] for v in self.after_makes)}]")
        exec(compile("\n".join(lines), f"<{owner.group.name}>", "exec"), self.space)  # noqa: S102 - text made here, of generated names only
        return self.space["after"]

    def _bind(self, prefix: str, value: Any) -> str:
        name = f"{prefix}_{len(self.space)}"
        self.space[name] = value
        return name

    # ---- running ----
    def run(self, loads: tuple, values: dict[Var, Any]) -> None:
        owner, pass_ = self.owner, self.pass_
        tiles = owner.tiles
        # Positions along the cut reduced axes; 1 where none is cut.
        cuts = math.prod(-(-owner.group.axes[i] // owner.chunks[i]) for i in owner.cut_reduced)
        # Partial results: one for each position along the cut reduced axes.
        partial = [np.empty((cuts, *v.aval.shape), storage_dtype(v.aval)) for v in pass_.partial]
        arrays = [
            *loads,
            *(values[v] for v in pass_.stored),
            *partial,
            *(values[v] for v in self.known),
        ]
        # A pass may have nothing to do for each tile: all its members come after.
        if pass_.members:

            def work(some: Iterable[tuple]) -> None:
                self.function(some, self.slots.scratch(owner), *arrays)

            threads.share(work, tiles, owner.most_threads)
        # Merge in the order of tiles, so that results do not depend on threads.
        for v, parts in zip(pass_.partial, partial, strict=True):
            fold = owner.made[v].eqn.primitive.fold
            assert fold is not None
            values[v] = fold.result_ufunc.reduce(parts, axis=0, dtype=parts.dtype)
        if self.after is not None:
            out = self.after(*loads, *(values[v] for v in self.after_reads))
            values.update(zip(self.after_makes, out, strict=True))


class _Slots:
    """Scratch memory of a pass, in which values with disjoint lifetimes share a slot."""

    def __init__(self):
        self.kinds: list[tuple[Dims, Any]] = []  # per slot: dimensions and dtype
        self.idle: list[int] = []
        self.owner_of: dict[Var, int] = {}

    # A slot for a result: that of a dying operand, a free one, or a new one.
    def take(self, member: Member, owner: TiledGroup, freed: list[Var], in_pass: set[Var]) -> int:
        kind = (member.dims, storage_dtype(member.eqn.outvars[0].aval))
        # An operand that dies here may be overwritten if its elements are in the same order.
        for v in freed:
            # Elements in another order would be overwritten before they are read.
            slot = self.owner_of.get(v)
            straight = all(
                o.order == tuple(range(o.var.aval.ndim))
                for o in member.operands
                if isinstance(o, Inner) and o.var is v
            )
            if slot is not None and self.kinds[slot] == kind and straight:
                del self.owner_of[v]
                return slot
        for slot in self.idle:
            if self.kinds[slot] == kind:
                self.idle.remove(slot)
                return slot
        self.kinds.append(kind)
        return len(self.kinds) - 1

    def free(self, v: Var) -> None:
        slot = self.owner_of.pop(v, None)
        if slot is not None:
            self.idle.append(slot)

    def scratch(self, owner: TiledGroup) -> Callable[[tuple[int, ...]], list]:
        """Return, for one thread, the function from a tile's lengths to its slots as arrays."""
        # Allocated for a full tile; smaller tiles at the ends use a part. One allocation for each
        # slot of each thread, reused by all tiles.
        full = owner.chunks
        flats = [
            np.empty(math.prod(full[d] if d is not None else 1 for d in dims), dtype)
            for dims, dtype in self.kinds
        ]
        # Tiles have few different lengths: full ones, and those at the ends of axes.
        made: dict[tuple[int, ...], list] = {}

        def slots(lengths: tuple[int, ...]) -> list:
            found = made.get(lengths)
            if found is None:
                shapes = [
                    tuple(lengths[d] if d is not None else 1 for d in dims)
                    for dims, _ in self.kinds
                ]
                found = made[lengths] = [
                    flat[: math.prod(shape)].reshape(shape)
                    for flat, shape in zip(flats, shapes, strict=True)
                ]
            return found

        return slots


def _writes_out(function, eqn) -> bool:
    """Whether a function is a ufunc with exactly the result dtype, so that `out=` is safe.

    Other functions that can write to `out`, even over an operand, declare `writes_out`.
    """
    if getattr(function, "writes_out", False):
        return True
    if not isinstance(function, np.ufunc) or function.nout != 1:
        return False
    try:
        # A square was made a product: its one operand counts twice.
        given = [storage_dtype(a.aval) for a in eqn.invars] * (function.nin // len(eqn.invars))
        found = function.resolve_dtypes((*given, None))
    except TypeError:
        return False
    return found[-1] == storage_dtype(eqn.outvars[0].aval)


def _cut(dims: Dims, chunks: list[int], axes: Sequence[int]) -> str:
    """Return index text for a tile's part of a value; empty if each tile reads all of it."""
    # Trailing axes that are read in full need no index.
    parts = [f"x[{d}]" if d is not None and chunks[d] < axes[d] else ":" for d in dims]
    while parts and parts[-1] == ":":
        parts.pop()
    return ", ".join(parts)


def _tiles(axes: Sequence[int], chunks: list[int]) -> list[tuple]:
    """Return all tiles.

    Each is a slice for each axis, then the tile's lengths, then its number along the cut reduced
    axes.
    """
    per_axis = []
    for length, chunk in zip(axes, chunks, strict=True):
        starts = range(0, length, chunk)
        per_axis.append(
            [(slice(s, min(s + chunk, length)), min(chunk, length - s)) for s in starts]
        )
    return [
        (*(part[0] for part in parts), tuple(part[1] for part in parts), 0)
        for parts in itertools.product(*per_axis)
    ]


def tiled(group: FusedGroup) -> TiledGroup | None:
    """Return the group in tiles, or None if tiling does not help."""
    total = math.prod(group.axes)
    # Small groups: the cost of tiles exceeds the savings of the cache. If an element takes long,
    # smaller tiles keep all threads busy.
    slow = any(m.eqn.primitive.weight >= SLOW for m in group.members)
    several = len(group.members) > 1 and not group.reduced
    alone = several and step_work(group) < 2 * WORTH_A_THREAD
    tile = TILE // FINER if slow else TILE // ALONE if alone else TILE
    if total < (TILED_FROM // FINER if slow else TILED_FROM) or len(group.members) < 1:
        return None
    order = _axis_order(group)
    chunks = list(group.axes)
    inner = total
    whole = _row_is_kept(group)
    # Cut the slowest axes first, until the rest fits a tile.
    for axis in order:
        if whole and axis in group.reduced:
            continue
        inner //= group.axes[axis]
        if inner >= tile:
            chunks[axis] = 1
            continue
        chunks[axis] = min(group.axes[axis], max(1, tile // max(inner, 1)))
        break
    # Cutting a reduced axis takes a pass for each level of reductions, if that is possible.
    cut = [i for i in group.reduced if chunks[i] < group.axes[i]]
    # Without a cut reduced axis every tile sees whole rows: one pass.
    passes = one_pass(group) if not cut else split_passes(group)
    if passes is None:
        return None
    if cut:
        passes = once_each(group, passes, carry=lambda member: False, early=True)
    return TiledGroup(group, chunks, passes)


def _numbered(tiles: list[tuple], cut: list[int]) -> list[tuple]:
    """Each tile with its number along the cut reduced axes: where its partial results go."""
    numbers: dict[tuple, int] = {}
    numbered = []
    for tile in tiles:
        # Tiles at the same position along cut reduced axes merge into the same partial result.
        at = tuple(tile[i].start for i in cut)
        numbered.append((*tile[:-1], numbers.setdefault(at, len(numbers))))
    return numbered


def _axis_order(group: FusedGroup) -> list[int]:
    """Return axes from the slowest to the fastest in memory.

    The order is that of the widest value that the group reads or writes.
    """
    made = group.made
    candidates = [load.dims for load in group.loads()] + [made[v].dims for v in group.outputs]
    widest = max(candidates, key=lambda dims: sum(d is not None for d in dims), default=())
    order = [d for d in widest if d is not None]
    return order + [i for i in range(len(group.axes)) if i not in order]


def _row_is_kept(group: FusedGroup) -> bool:
    """Whether rows stay whole: they fit, or they cannot be cut."""
    if not group.reduced or not group.parallel:
        return False
    row = math.prod(group.axes[i] for i in group.reduced)
    order = _axis_order(group)
    # Reductions over columns: the array's rows are cut instead, where that is possible.
    strided = order[0] in group.reduced
    if strided and split_passes(group) is not None:
        return False
    return row <= TILE * WHOLE_ROWS
