"""From a place in a value to the accesses that make the element there.

Floor 3. In: equations that are index maps with guards (pad, concatenate, dynamic slices, gather),
views, generators and pointwise operations. Out: for one element of their result an access (see
core/element.py). One rule an equation: it may ask for its operands at any place, so rules compose,
and what is made of several of them is one tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from gpuarray.compiler.text import types as ct
from gpuarray.core.element import (
    Access,
    Applied,
    Below,
    Element,
    Fixed,
    Looked,
    Multiple,
    Test,
    found,
    guarded,
)
from gpuarray.core.graph import Eqn, Literal, Var, is_view, storage_dtype
from gpuarray.core.index import Index, linear, through
from gpuarray.core.primitive import Kind
from gpuarray.primitives.indexing.ops import (
    GatherScatterMode,
    default_fill,
    fill_element,
    windows_of,
)

Places = Sequence[Index]
#: Operand number and place -> its element.
Get = Callable[[int, Places], Access]
#: Equation, number of the result, place in it, operands -> the element there.
Rule = Callable[[Eqn, int, Places, Get], Access]

RULES: dict[str, Rule] = {}
#: Primitives that change an array where indices say.
SCATTERS = ("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max")


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of the primitives with these names."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def rule_of(eqn: Eqn) -> Rule | None:
    """How an element of an equation's result is made elsewhere; None if it cannot be."""
    found_rule = RULES.get(eqn.primitive.name)
    if found_rule is None and eqn.primitive.kind is Kind.VIEW:
        return _view
    if found_rule is None and eqn.primitive.kind is Kind.POINTWISE:
        return pointwise
    return found_rule


class Reach:
    """Elements of values at places; the same place in the same value is the same access."""

    def __init__(self, recipes: Mapping[Var, Eqn]):
        self.recipes = recipes
        self.known: dict[tuple, Access] = {}

    def element(self, v: Var, places: Places) -> Access:
        """The element of a value: values without a recipe are in memory."""
        key = v, *places
        access = self.known.get(key)
        if access is None:
            access = self.known[key] = self._element(v, places)
        return access

    def _element(self, v: Var, places: Places) -> Access:
        eqn = self.recipes.get(v)
        while eqn is not None and is_view(eqn):
            (a,) = eqn.invars
            if 0 in v.aval.shape or isinstance(a, Literal):
                break
            places, v = through(eqn, list(places)), a
            eqn = self.recipes.get(v)
        if 0 in v.aval.shape:  # nobody asks
            return Fixed(zero(v))
        if eqn is None:
            return Element(v, linear(places, v.aval.shape))

        def get(i: int, at: Places) -> Access:
            a = eqn.invars[i]
            if isinstance(a, Literal):
                return Fixed(ct.constant(a.val, a.aval))
            return self.element(a, at)

        makes = rule_of(eqn)
        assert makes is not None
        return makes(eqn, eqn.outvars.index(v), places, get)


def zero(v: Var) -> str:
    """A constant of a value's type."""
    return ct.constant(storage_dtype(v.aval).type(0), v.aval)


def type_of(eqn: Eqn, number: int = 0) -> str:
    """The C++ type of an element of a result."""
    return ct.value_type(eqn.outvars[number].aval)


# ---- kinds ----


def _view(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    return get(0, through(eqn, list(at)))


def stretched(shape: Sequence[int], at: Places) -> list[Index]:
    """The place in an operand of that shape which broadcasts along the axes it lacks."""
    if not shape:
        return []
    return [Index() if n == 1 else c for n, c in zip(shape, at, strict=True)]


def pointwise(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    """An operation on the elements at the same place."""
    operands = [get(i, stretched(a.aval.shape, at)) for i, a in enumerate(eqn.invars)]
    return Applied(tuple(operands), eqn=eqn, number=number, type=type_of(eqn, number))


# ---- index maps ----


@rule("pad")
def _pad(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    tests: list[Test] = []
    inner: list[Index] = []
    shape = eqn.invars[0].aval.shape
    for c, n, (low, _, holes) in zip(at, shape, eqn.params["padding_config"], strict=True):
        c = c.shifted(-low)
        tests.append(Below(c, (n - 1) * (holes + 1) + 1 if n else 0))
        if holes:
            tests.append(Multiple(c, holes + 1))
        inner.append(c.divided(holes + 1)[0])
    return guarded(tests, type_of(eqn), lambda: get(0, inner), lambda: get(1, []))


def chosen_along(
    position: Index, ends: Sequence[int], type: str, pick: Callable[[int, Index], Access]
) -> Access:
    """Pieces side by side that end at `ends`: pick(piece, position in it), found by halving."""

    def between(first: int, last: int) -> Access:
        if last - first == 1:
            return pick(first, position.shifted(-(ends[first - 1] if first else 0)))
        middle = (first + last) // 2
        # Whether the position is before the middle; that it is not negative is known.
        tests = [Below(position, ends[middle - 1])]
        return guarded(tests, type, lambda: between(first, middle), lambda: between(middle, last))

    return between(0, len(ends))


@rule("concatenate")
def _concatenate(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    axis = eqn.params["dimension"]
    full = [i for i, a in enumerate(eqn.invars) if a.aval.shape[axis]]
    ends = list(accumulate(eqn.invars[i].aval.shape[axis] for i in full))

    def pick(piece: int, position: Index) -> Access:
        return get(full[piece], [*at[:axis], position, *at[axis + 1 :]])

    return chosen_along(at[axis], ends, type_of(eqn), pick)


@rule("stack")
def _stack(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    axis = eqn.params["axis"]
    rest = [*at[:axis], *at[axis + 1 :]]
    ends = range(1, len(eqn.invars) + 1)
    return chosen_along(at[axis], ends, type_of(eqn), lambda piece, _: get(piece, rest))


@rule("unstack")
def _unstack(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    axis = eqn.params["axis"]
    return get(0, [*at[:axis], Index(constant=number), *at[axis:]])


@rule("split")
def _split(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    axis, before = eqn.params["axis"], sum(eqn.params["sizes"][:number])
    return get(0, [*at[:axis], at[axis].shifted(before), *at[axis + 1 :]])


@rule("tile")
def _tile(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    shape = eqn.invars[0].aval.shape
    return get(0, [c.divided(n)[1] for c, n in zip(at, shape, strict=True)])


# ---- places that are read ----


def start(eqn: Eqn, operand: int, most: int, get: Get, at: Places = ()) -> Index:
    """Where a window begins: an operand's element moved to 0 ... most."""
    if most == 0:
        return Index()
    a = eqn.invars[operand]
    if isinstance(a, Literal):
        return Index(constant=min(max(int(a.val), 0), most))
    return Index(((Looked(get(operand, at), most), 1),))


@rule("dynamic_slice")
def _dynamic_slice(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    shape, sizes = eqn.invars[0].aval.shape, eqn.params["slice_sizes"]
    inner = [
        c + start(eqn, i, n - size, get)
        for i, (c, n, size) in enumerate(zip(at, shape, sizes, strict=True), 1)
    ]
    return get(0, inner)


@rule("dynamic_update_slice")
def _dynamic_update_slice(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    shape, sizes = (eqn.invars[i].aval.shape for i in (0, 1))
    tests, inner = [], []
    for i, (c, n, size) in enumerate(zip(at, shape, sizes, strict=True), 2):
        c = c + start(eqn, i, n - size, get) * -1
        tests.append(Below(c, size))
        inner.append(c)
    return guarded(tests, type_of(eqn), lambda: get(1, inner), lambda: get(0, at))


@rule("gather")
def _gather(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    numbers, sizes, mode = (eqn.params[k] for k in ("dimension_numbers", "slice_sizes", "mode"))
    operand = eqn.invars[0].aval
    batch = [c for i, c in enumerate(at) if i not in numbers.offset_dims]
    removed = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    offsets = iter(at[i] for i in numbers.offset_dims)
    places = [Index() if d in removed else next(offsets) for d in range(operand.ndim)]
    for d, axis in zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    ):
        places[d] = batch[axis]
    fills = mode in (GatherScatterMode.FILL_OR_DROP, GatherScatterMode.ONE_HOT)
    tests: list[Test] = []
    for k, d in enumerate(numbers.start_index_map):
        most = operand.shape[d] - sizes[d]
        looked = Looked(get(1, [*batch, Index(constant=k)]), most)
        if fills:
            inside, test = found(looked)
            tests.append(test)
            places[d] = places[d] + inside
        elif most:
            places[d] = places[d] + Index(((looked, 1),))

    def fill() -> Access:
        value = eqn.params["fill_value"]
        if mode is GatherScatterMode.ONE_HOT:
            value = 0
        elif value is None:
            value = default_fill(operand.dtype)
        return Fixed(ct.constant(fill_element(operand, value), operand))

    return guarded(tests, type_of(eqn), lambda: get(0, places), fill)


# ---- scatter: what an update's place is ----


class Windows:
    """Where the updates of a scatter go."""

    def __init__(self, eqn: Eqn):
        operand, indices, updates = (a.aval for a in eqn.invars[:3])
        numbers = eqn.params["dimension_numbers"]
        self.eqn, self.numbers = eqn, numbers
        self.shape, self.batch = operand.shape, indices.shape[:-1]
        self.sizes = windows_of(operand.shape, updates.shape, numbers)
        self.removed = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
        self.clips = eqn.params["mode"] is GatherScatterMode.CLIP
        self.count = math.prod(self.batch)

    def starts(
        self, batch: Places, get: Get, every: bool = False
    ) -> tuple[list[Index], list[Below]]:
        """Where the window of an index vector begins, and tests of whether it counts at all:
        `every` one, or only those that do not follow where an element's place is compared with it.
        """
        numbers = self.numbers
        places: list[Index] = [Index()] * len(self.shape)
        tests: list[Below] = []
        pairs = zip(
            numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True
        )
        for d, axis in pairs:
            places[d] = batch[axis]
        for k, d in enumerate(numbers.scatter_dims_to_operand_dims):
            most = self.shape[d] - self.sizes[d]
            looked = Looked(get(1, [*batch, Index(constant=k)]), most)
            if not self.clips:
                places[d], test = found(looked)
                if every or self.sizes[d] != 1 or not most:
                    tests.append(test)
            elif most:
                places[d] = Index(((looked, 1),))
        return places, tests

    def update(self, batch: Places, window: Places) -> list[Index]:
        """The place in the updates of an element of a window."""
        inner = iter(c for d, c in enumerate(window) if d not in self.removed)
        outer = iter(batch)
        rank = len(self.batch) + len(self.numbers.update_window_dims)
        axes = self.numbers.update_window_dims
        return [next(inner) if i in axes else next(outer) for i in range(rank)]


# ---- generators ----


@rule("iota", "empty")
def _generated(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    dimension = eqn.params.get("dimension")
    place = linear(at, eqn.outvars[0].aval.shape) if dimension is None else at[dimension]
    operands = tuple(get(i, []) for i in range(len(eqn.invars)))
    return Applied(operands, (place,), eqn=eqn, type=type_of(eqn))


def reach(v: Var, places: Places, recipes: Mapping[Var, Eqn]) -> Access:
    """The element of a value at a place, for one access alone."""
    return Reach(recipes).element(v, places)
