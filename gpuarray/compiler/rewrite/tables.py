"""Very many updates of few targets: tables of the targets, each a part of the updates.

Floor 3. In: a Graph for a device. Out: one in which such a scatter is three equations: tables, in
each of which a block folds its own updates (cuda/tables.py); a reduction of the tables, in their
order; and an equation that merges it with the operand. Updates are read once, in memory order, and
every run gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuarray.compiler.rewrite.updates import in_place, is_update, updates_of, writes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.dtypes import kind_of
from gpuarray.core.graph import Atom, Eqn, Graph, Var, storage_dtype
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.target import TARGET
from gpuarray.primitives.elementwise.convert import conversion


def fold_in_tables(graph: Graph) -> Graph:
    """The graph with tables for scatters that are worth it; the same one where there are none."""
    made = [_in_tables(eqn) if eqn.primitive.update else None for eqn in graph.eqns]
    if not any(made):
        return graph
    eqns = [e for eqn, new in zip(graph.eqns, made, strict=True) for e in new or [eqn]]
    return graph.replace(eqns=eqns)


def _in_tables(eqn: Eqn) -> list[Eqn] | None:
    """The equations that replace a scatter; None if it is unchanged."""
    rule = eqn.primitive.update
    if rule.among is None or not is_update(eqn) or in_place(eqn) or not writes(eqn):
        return None
    count, (out,) = rule.count(eqn), eqn.outvars
    # Few updates are looked at by every element, and those in order are where they belong.
    if count <= TARGET.updates_looked_at or rule.ordered(eqn):
        return None
    held = _held(out.aval)
    meets = updates_of(eqn).aval.size >= TARGET.table_updates * out.aval.size
    if not meets or held.kind not in "iuf" or table_bytes(out.aval) > TARGET.table_bytes:
        return None
    # As many blocks as fill a machine, whose tables are small compared with the updates.
    each = max(TARGET.table_block_updates, TARGET.table_updates * _places(eqn, count))
    tables = min(TARGET.multiprocessors, max(1, count // each))
    folded, params = Var(out.aval.update(dtype=held)), {"of": eqn, "tables": tables}
    parts = Var(_aval(**params))
    axes = {"axes": (0,), "out_sharding": None}
    eqns = [
        Eqn(_table_p, eqn.invars[1:], [parts], params, eqn.site),
        Eqn(rule.among, [parts], [folded], axes, eqn.site),
    ]
    if held != out.aval.dtype:
        exact, folded = folded, Var(out.aval)
        eqns.append(conversion(exact, out.aval.dtype, eqn.site, folded))
    merge = rule.merge(eqn)
    return [*eqns, Eqn(merge.primitive, [eqn.invars[0], folded], eqn.outvars, {}, eqn.site)]


def _places(eqn: Eqn, count: int) -> int:
    """The number of targets: that of the scalar updates that accompany rows."""
    return eqn.outvars[0].aval.size * count // updates_of(eqn).aval.size


def table_bytes(aval: ShapedArray) -> int:
    """Bytes of a table of an array's elements, where halves are held as floats."""
    return aval.size * _held(aval).itemsize


def _held(aval: ShapedArray) -> np.dtype:
    """The type of a table's elements: halves are folded as floats, and rounded once."""
    dtype = storage_dtype(aval)
    return np.dtype(np.float32) if kind_of(dtype) == "f" and dtype.itemsize < 4 else dtype


def _aval(*_: ShapedArray, of: Eqn, tables: int) -> ShapedArray:
    aval = of.outvars[0].aval
    return ShapedArray((tables, *aval.shape), _held(aval))


# Not registered: no program contains it, only the plan of a device.
_table_p = Primitive("scatter_tables", Kind.INDEXING, aval=_aval, weight=12.0, register=False)


def is_table(eqn: Eqn) -> bool:
    """Whether an equation folds updates in tables."""
    return eqn.primitive is _table_p


def operands_of(eqn: Eqn) -> Sequence[Atom]:
    """The operands of the scatter whose updates an equation folds, without the equation's own."""
    of: Eqn = eqn.params["of"]
    return [of.invars[0], *eqn.invars]
