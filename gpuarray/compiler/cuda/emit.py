"""Kernels as CUDA C++ text, meant to be read.

Floor 3. In: a Group. Out: an `Emitted`: the text of one `extern "C"` kernel, its launch numbers and
its arguments. Text depends on the graph alone: no names of the user's, no ids, no order of
building. What every kernel may call (`ga_*`) is in kernels/; the forms that kernels have are in
modules beside this one.
"""

from __future__ import annotations

import math

from gpuarray.compiler.cuda.batch import Many
from gpuarray.compiler.cuda.collapse import joined
from gpuarray.compiler.cuda.columns import Columns
from gpuarray.compiler.cuda.form import Emitted as Emitted
from gpuarray.compiler.cuda.form import Form
from gpuarray.compiler.cuda.loop import Loops
from gpuarray.compiler.cuda.rows import LongRows, Rows
from gpuarray.compiler.cuda.scan import Scan
from gpuarray.compiler.cuda.scatter import Update
from gpuarray.compiler.cuda.sort import Sort
from gpuarray.compiler.cuda.tiles import Tiles
from gpuarray.compiler.cuda.user import custom_kernel
from gpuarray.compiler.fuse.group import Group, Load, Member
from gpuarray.compiler.lower.passes import split_passes
from gpuarray.compiler.lower.user import Source
from gpuarray.compiler.target import TARGET
from gpuarray.compiler.text.expressions import NoCudaRule as NoCudaRule
from gpuarray.core.graph import Eqn, Var
from gpuarray.core.primitive import Combine, registry


def emit(group: Group, user_lines: bool = False, aligned: bool = True) -> Emitted:
    """The kernel of a group.

    user_lines: comments say where the user wrote what a line does
    aligned: whether all buffers begin where vectors of 16 bytes may; if not, elements are read and
    written one by one
    """
    if group.parts:
        return Many(group.parts[0], user_lines, aligned).many(group)
    if group.has_flow:
        return Loops(group, user_lines, aligned).kernel()
    if group.by_itself:
        source = group.members[0].eqn.primitive.cuda
        if isinstance(source, Source):
            return custom_kernel(source, group)
        sorts = group.members[0].eqn.primitive.name in ("sort", "top_k")
        form = Update if group.aliases else Sort if sorts else Scan
        return form(group, user_lines, aligned).kernel()
    group = joined(group)
    if not group.reduced:
        return Tiles(group, user_lines, aligned).kernel()
    passes = split_passes(group, _splits)
    if passes is None:
        raise NoCudaRule("a reduction without a Combine rule cannot be split over threads")
    rows = math.prod(group.axes[i] for i in group.parallel)
    length = math.prod(group.axes[i] for i in group.reduced)
    simple = len(passes) == 1 and not passes[0].stored
    if Form(group).reads_along_columns():
        return Columns(group, user_lines, aligned).kernel(passes, rows, length)
    if rows < TARGET.multiprocessors and simple and length > TARGET.long_row:
        return LongRows(group, user_lines, aligned).kernel(passes[0], rows, length)
    return Rows(group, user_lines, aligned).kernel(passes, rows, length)


def emit_view(eqn: Eqn, user_lines: bool = False, name: str = "view") -> Emitted:
    """The kernel that puts what a view shows into memory of its own: a transpose, a slice."""
    (source,) = eqn.invars
    assert isinstance(source, Var)
    return emit(_copy(source, (eqn,), eqn, name, {}), user_lines)


def _copy(
    source: Var, views: tuple[Eqn, ...], eqn: Eqn, name: str, generators: dict[Var, Eqn]
) -> Group:
    """A group that writes the result of an equation as it is read from a source through views."""
    shape = eqn.outvars[0].aval.shape
    dims = tuple(None if n == 1 else i for i, n in enumerate(shape))
    seen, result = Var(eqn.outvars[0].aval), Var(eqn.outvars[0].aval)
    copy = Eqn(registry["copy"], [seen], [result], {}, eqn.site)
    group = Group(list(shape), outputs=[result], name=name, generators=generators)
    group.add(Member(copy, [Load(source, views, dims, shape)], dims, dims))
    return group


def _splits(member: Member) -> bool:
    """On a GPU partial results are never rounded, so whatever has a rule can be split."""
    return isinstance(member.eqn.primitive.cuda, Combine)
