"""Scatters: which are written in place, and which are first brought into the order of their places.

Floor 3. In: an equation. Out: groups and equations that compute it, the same in every run:

* of few updates every element of the result looks at all of them (element_folds.py);
* where no two updates meet, or their order cannot show (sums and extremes of integers), each is
  written where it belongs, into memory that holds the operand (cuda/scatter.py);
* others are sorted by place, and every element folds the updates of its own place, in their order.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray.compiler.fuse.group import Group, Load, Member, Operand
from gpuarray.compiler.lower.costs import LOOKED_AT
from gpuarray.compiler.lower.element_folds import is_scalar_graph, loop_number, merging
from gpuarray.compiler.lower.elements import SCATTERS, Get, Places, Windows, rule, start, type_of
from gpuarray.compiler.target import TARGET
from gpuarray.compiler.text import types as ct
from gpuarray.config import state
from gpuarray.core.avals import ShapedArray
from gpuarray.core.element import (
    Access,
    Address,
    Applied,
    Below,
    Element,
    Fixed,
    Folded,
    Looked,
    guarded,
)
from gpuarray.core.graph import Atom, Eqn, Literal, Var, storage_dtype
from gpuarray.core.index import Axis, Index, linear, split
from gpuarray.core.primitive import Kind, Primitive, registry

#: An operand of so many bytes, and so many times as large as its updates, is changed in place.
LARGE, TIMES = TARGET.in_place_bytes, TARGET.in_place_times


def is_update(eqn: Eqn) -> bool:
    """Whether an equation changes a part of its first operand, and has kernels."""
    name = eqn.primitive.name
    if name != "dynamic_update_slice" and name not in SCATTERS:
        return False
    body = eqn.params.get("update_jaxpr")
    written = name in _ATOMIC or body is None or is_scalar_graph(body)
    return written and all(ct.has_type(a.aval) for a in eqn.invars)


#: Scatters whose order cannot show with integers, and what does them in memory.
_ATOMIC = {"scatter-add": "add", "scatter-sub": "add", "scatter-min": "min", "scatter-max": "max"}


def atomic(eqn: Eqn) -> str:
    """The atomic operation that does a scatter, if one may."""
    name, dtype = _ATOMIC.get(eqn.primitive.name, ""), storage_dtype(eqn.outvars[0].aval)
    if dtype.kind in "iu" and dtype.itemsize >= 4:
        return name
    floats = name == "add" and dtype.kind == "f" and dtype.itemsize >= 4
    return name if floats and state.scatter_atomics else ""


def in_place(eqn: Eqn) -> bool:
    """Whether an update is written into memory that holds the operand."""
    if not is_update(eqn) or not isinstance(eqn.invars[0], Var):
        return False
    operand, updates = eqn.invars[0].aval, updates_of(eqn).aval
    if eqn.primitive.name == "dynamic_update_slice" or count_of(eqn) == 1:
        apart = True
    else:
        apart = eqn.params["unique_indices"] or bool(atomic(eqn))
    much = operand.nbytes >= LARGE and operand.size >= TIMES * updates.size
    return apart and updates.size > 0 and (much or count_of(eqn) > LOOKED_AT)


def writes(eqn: Eqn) -> bool:
    """Whether a scatter has any updates at all."""
    return updates_of(eqn).aval.size > 0 and eqn.outvars[0].aval.size > 0


def count_of(eqn: Eqn) -> int:
    """How many index vectors there are."""
    if eqn.primitive.name == "dynamic_update_slice":
        return 1
    return math.prod(eqn.invars[1].aval.shape[:-1])


def updates_of(eqn: Eqn) -> Atom:
    """The operand that holds the updates."""
    return eqn.invars[1 if eqn.primitive.name == "dynamic_update_slice" else 2]


def targets(eqn: Eqn, at: Places, get: Get) -> tuple[list[Index], list[Below]]:
    """The place of an update in the operand, and tests of its being there."""
    if eqn.primitive.name == "dynamic_update_slice":
        shape, sizes = (eqn.invars[i].aval.shape for i in (0, 1))
        pairs = zip(at, shape, sizes, strict=True)
        return [c + start(eqn, i, n - k, get) for i, (c, n, k) in enumerate(pairs, 2)], []
    w = Windows(eqn)
    axes = w.numbers.update_window_dims
    batch = [c for i, c in enumerate(at) if i not in axes]
    inner = iter(at[i] for i in axes)
    starts, tests = w.starts(batch, get, True)
    window = [Index() if d in w.removed else next(inner) for d in range(len(w.shape))]
    return [s + c for s, c in zip(starts, window, strict=True)], tests


def update_group(eqn: Eqn, name: str) -> Group:
    """An update in place as a group: its axes are those of the updates."""
    operand, shape = eqn.invars[0], updates_of(eqn).aval.shape
    assert isinstance(operand, Var)
    group = Group(list(shape), outputs=list(eqn.outvars), name=name, by_itself=True)
    operands: list[Operand] = [
        a if isinstance(a, Literal) else Load(a, (), (None,) * a.aval.ndim, a.aval.shape)
        for a in eqn.invars
    ]
    dims = tuple(None if n == 1 else i for i, n in enumerate(shape))
    group.add(Member(eqn, operands, dims, dims))
    group.aliases[eqn.outvars[0]] = operand
    others = [a for a in eqn.invars[1:] if isinstance(a, Var)]
    group.read = dict.fromkeys(dict.fromkeys(others), 1)
    return group


# ---- by sorting ----


def _looked_up(w: Windows) -> list[int]:
    """The axes along which an index decides the place."""
    return sorted({*w.numbers.scatter_dims_to_operand_dims, *w.removed})


def _inner(w: Windows) -> list[int]:
    """Those of them along which windows have a length of their own."""
    return [d for d in _looked_up(w) if d not in w.removed]


def _rows(w: Windows) -> tuple[int, ...]:
    """The shape of what is sorted: index vectors, and places in a window along those axes."""
    return (*w.batch, *(w.sizes[d] for d in _inner(w)))


_PLACES = Primitive(
    "scatter_places", Kind.INDEXING, aval=lambda indices, **_: indices, weight=4.0, register=False
)
_SORTED = Primitive(
    "scatter_sorted", Kind.INDEXING, aval=lambda x, *_, **__: x, weight=40.0, register=False
)


def sorted_eqns(eqn: Eqn) -> list[Eqn]:
    """A scatter of many updates that may meet: places, their order, and a fold at every place."""
    w = Windows(eqn)
    n = math.prod(_rows(w))
    looked_up = math.prod(w.shape[d] for d in _looked_up(w))
    number = np.dtype(np.int32 if max(n, looked_up) < 2**31 - 1 else np.int64)
    places, numbers, ordered, order = (Var(ShapedArray((n,), number)) for _ in range(4))
    iota = {"dtype": number, "shape": (n,), "dimension": 0, "sharding": None}
    sort = {"dimension": 0, "is_stable": True, "num_keys": 1}
    of = {"of": eqn, "kind": eqn.primitive.name}
    operand, indices, updates = eqn.invars[:3]
    return [
        Eqn(_PLACES, [indices], [places], of, eqn.site),
        Eqn(registry["iota"], [], [numbers], iota, eqn.site),
        Eqn(registry["sort"], [places, numbers], [ordered, order], sort, eqn.site),
        Eqn(_SORTED, [operand, ordered, order, updates], eqn.outvars, of, eqn.site),
    ]


@rule("scatter_places")
def _places(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    w = Windows(eqn.params["of"])
    rows = split(at[0], _rows(w))
    batch, offsets = rows[: len(w.batch)], rows[len(w.batch) :]
    starts, tests = w.starts(batch, lambda i, at: get(0, at), True)
    for d, offset in zip(_inner(w), offsets, strict=True):
        starts[d] = starts[d] + offset
    axes = _looked_up(w)
    place = linear([starts[d] for d in axes], [w.shape[d] for d in axes])
    beyond = math.prod(w.shape[d] for d in axes)
    kind = type_of(eqn)
    there = Applied((), (place,), f"({kind}){{0}}", type=kind)
    outside = ct.constant(beyond, eqn.outvars[0].aval)
    return guarded(tests, kind, lambda: there, lambda: Fixed(outside))


@rule("scatter_sorted")
def _sorted(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    of: Eqn = eqn.params["of"]
    w = Windows(of)
    shape, axes = _rows(w), _looked_up(w)
    n = math.prod(shape)
    plain = [Below(at[d], w.sizes[d]) for d in range(len(w.shape)) if d not in axes]
    if any(t.always is False for t in plain):
        return get(0, at)
    kind = ct.value_type(eqn.invars[1].aval)
    first = get(1, [Index()])
    assert isinstance(first, Element)
    place = linear([at[d] for d in axes], [w.shape[d] for d in axes])
    suffix = "u" if n < 2**31 else "ull"
    unsigned = "unsigned" if suffix == "u" else "unsigned long long"

    def edge(right: str) -> Access:
        text = f"ga_search<{right}, false>({{0}}, {n}{suffix}, ({kind}){{1}})"
        address = Address(first.source, first.index)
        return Applied((address,), (place,), text, type=unsigned)

    axis = Axis(loop_number(), n)
    which = Looked(get(2, [Index(((axis, 1),))]), n - 1)
    rows = split(Index(((which, 1),)), shape)
    window = list(at)
    for d, offset in zip(_inner(w), rows[len(w.batch) :], strict=True):
        window[d] = offset
    update = w.update(rows[: len(w.batch)], window)
    lines, result = merging(of)
    return Folded(
        ((type_of(eqn), get(0, at)),),
        (axis,),
        tuple(t for t in plain if t.always is None),
        (get(3, update),),
        (*lines, f"{{s0}} = {result};"),
        spans=((edge("false"), edge("true")),),
    )
