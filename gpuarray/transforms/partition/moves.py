"""Moves: a value cut in one way becomes the same value cut in another.

Floor 3. In: a device's piece, traced, and its sharding before and after. Out: the other piece, by
collectives that are bound in the current trace. A move is planned first, as plain data that has a
price: the bytes it sends. Cutting an axis further is free, a mesh axis that moves to another array
axis is an exchange, pieces that only change devices are permuted, and the rest is gathered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray.core.avals import aval_of
from gpuarray.core.grid import Spec
from gpuarray.primitives.collective import ops
from gpuarray.primitives.define import do
from gpuarray.util import prod


class Step(NamedTuple):
    """One step of a move along some axes of the grid.

    Attributes
    ----------
    how :
        "slice", "all_to_all", "all_gather" or "ppermute".
    names :
        The axes of the grid, major first.
    axis, other :
        The value's axis that is sliced or gathered, or that was cut before an exchange; and the one
        that is cut after it.
    pairs :
        For a permutation, the (source, destination) of pieces among the devices along `names`.
    """

    how: str
    names: tuple
    axis: int = 0
    other: int = 0
    pairs: tuple = ()


def steps_between(old: Spec, new: Spec, sizes: Mapping[Any, int]) -> list[Step]:
    """Return the steps from one layout to another.

    >>> [s.how for s in steps_between((("x",), ()), ((), ("x",)), {"x": 4})]
    ['all_to_all']
    """
    # Cheapest step first; each one brings a layout closer to the new one, so the loop ends.
    have = [tuple(names) for names in old]
    found: list[Step] = []
    while tuple(have) != tuple(new):
        found.append(
            _slice(have, new, _begins)
            or _permutation(have, new, sizes)
            or _exchange(have, new, _begins)
            # In any order: the pieces are passed on at the end.
            or _slice(have, new, _belongs)
            or _exchange(have, new, _belongs)
            or _reordering(have, new, sizes)
            or _gather(have, new)
        )
    return found


def _begins(names: tuple, wanted: tuple) -> bool:
    """Whether the cuts of an axis are the wanted ones, apart from minor ones."""
    return wanted[: len(names)] == names


def _belongs(names: tuple, wanted: tuple) -> bool:
    """Whether the cuts of an axis are among those it is to have, in any order."""
    return set(names) <= set(wanted)


def _slice(have: list, new: Spec, fits: Callable[[tuple, tuple], bool]) -> Step | None:
    """Cut an axis further, along axes of the grid that are not in use."""
    # A device has all of it along those axes, so it takes its piece and receives nothing.
    used = {n for names in have for n in names}
    for i, (names, wanted) in enumerate(zip(have, new, strict=True)):
        more: tuple = ()
        for n in wanted:
            if n not in used and fits((*names, *more, n), wanted):
                more += (n,)
        if more:
            have[i] = names + more
            return Step("slice", more, i)
    return None


def _permutation(have: list, new: Spec, sizes: Mapping[Any, int]) -> Step | None:
    """Permute pieces that are right but on the wrong devices."""
    size = lambda names: prod(sizes[n] for n in names)
    # Only pieces of the same shapes can just change devices.
    if any(size(a) != size(b) for a, b in zip(have, new, strict=True)):
        return None
    changed = [(a, b) for a, b in zip(have, new, strict=True) if a != b]
    names = tuple(dict.fromkeys(n for a, b in changed for n in (*a, *b)))
    pairs = _pairs(changed, names, sizes)
    have[:] = new
    return Step("ppermute", names, pairs=pairs)


def _pairs(changed: Sequence, names: tuple, sizes: Mapping[Any, int]) -> tuple:
    """Return (sender, receiver) pairs, for axes that are cut by other axes of the grid than
    before.
    """
    holders: dict[tuple, list[int]] = {}
    wanting: dict[tuple, list[int]] = {}
    for device, place in enumerate(itertools.product(*(range(sizes[n]) for n in names))):
        # The piece that this device has now, and the one it should have, each by its number along
        # the changing axes.
        at = dict(zip(names, place, strict=True))
        held = tuple(_number(cut, at, sizes) for cut, _ in changed)
        wanted = tuple(_number(cut, at, sizes) for _, cut in changed)
        holders.setdefault(held, []).append(device)
        wanting.setdefault(wanted, []).append(device)
    pairs = []
    for piece, there in wanting.items():
        # As many devices hold a piece as want it; pieces already in place stay.
        here = holders[piece]
        stay = set(here) & set(there)
        pairs += [(d, d) for d in stay]
        sources = [d for d in here if d not in stay]
        pairs += zip(sources, [d for d in there if d not in stay], strict=True)
    return tuple(sorted(pairs))


def _number(names: tuple, at: Mapping[Any, int], sizes: Mapping[Any, int]) -> int:
    number = 0
    for n in names:
        number = number * sizes[n] + at[n]
    return number


def _exchange(have: list, new: Spec, fits: Callable[[tuple, tuple], bool]) -> Step | None:
    """Let the minor cuts of one axis cut another axis instead, as wanted there (all-to-all)."""
    for i, names in enumerate(have):
        # The longest run of minor cuts first.
        for keep in range(len(names)):
            leaving = names[keep:]
            for j, wanted in enumerate(new):
                if i != j and not set(leaving) & set(new[i]) and fits(have[j] + leaving, wanted):
                    have[i], have[j] = names[:keep], have[j] + leaving
                    return Step("all_to_all", leaving, i, j)
    return None


def _reordering(have: list, new: Spec, sizes: Mapping[Any, int]) -> Step | None:
    """Make cuts major that stay, so that only the others leave."""
    for i, names in enumerate(have):
        order = tuple(n for n in new[i] if n in names)
        order += tuple(n for n in names if n not in order)
        if order != names and not _belongs(names, new[i]):
            have[i] = order
            return Step("ppermute", names, pairs=_pairs([(names, order)], names, sizes))
    return None


def _gather(have: list, new: Spec) -> Step:
    """Gather an axis that need not be sharded."""
    for i, names in enumerate(have):
        if not _belongs(names, new[i]):
            # From the first cut that has to go: minor ones after it are interleaved, and are
            # gathered with it.
            keep = next(k for k, n in enumerate(names) if n not in new[i])
            have[i] = names[:keep]
            return Step("all_gather", names[keep:], i)
    raise AssertionError(f"{have} cannot become {new}")


def received(old: Spec, new: Spec, elements: int, sizes: Mapping[Any, int]) -> float:
    """Return how many elements a device receives when a value of `elements` elements moves."""
    # The same steps as the program takes, so that the price is that of the actual move.
    held = elements / prod(sizes[n] for names in old for n in names)
    total = 0.0
    for step in steps_between(old, new, sizes):
        count = prod(sizes[n] for n in step.names)
        if step.how == "slice":
            held /= count
        elif step.how == "all_gather":
            total += held * (count - 1)
            held *= count
        else:
            # An exchange leaves a device's own share where it is; a permutation sends the whole
            # piece on.
            total += held * (count - 1) / count if step.how == "all_to_all" else held
    return total


# ---- in the current trace ----


def moved(x: Any, old: Spec, new: Spec, sizes: Mapping[Any, int]) -> tuple[Any, list[str]]:
    """Return a device's piece of the same value sharded as `new`, and what was sent."""
    steps = [] if old == new else steps_between(old, new, sizes)
    for step in steps:
        if step.how == "slice":
            x = sliced(x, step.axis, step.names, sizes)
        elif step.how == "all_to_all":
            x = exchanged(x, step.axis, step.other, step.names, sizes)
        elif step.how == "all_gather":
            x = gathered(x, step.axis, step.names, sizes)
        else:
            x = ops.ppermute_p.bind(x, axis_name=step.names, perm=step.pairs)
    return x, [step.how for step in steps if step.how != "slice"]


def position(names: tuple, sizes: Mapping[Any, int]) -> Any:
    """Return this device's number along some axes taken together, the first one major."""
    total: Any = None
    for name in names:
        index = ops.axis_index_p.bind(axis_name=name)
        total = index if total is None else do.add(do.mul(total, np.int32(sizes[name])), index)
    return np.int32(0) if total is None else total


def start_of(names: tuple, length: int, sizes: Mapping[Any, int]) -> Any:
    """Return where this device's piece of `length` elements begins."""
    return do.mul(position(names, sizes), np.int32(length))


def _along(names: tuple, sizes: Mapping[Any, int]) -> dict:
    """Return the parameters that say between which devices a collective is."""
    size = prod(sizes[n] for n in names)
    return {"axis_name": names, "axis_size": size, "axis_index_groups": None}


def gathered(x: Any, axis: int, names: tuple, sizes: Mapping[Any, int]) -> Any:
    """Return the concatenated pieces along an axis."""
    return ops.all_gather_p.bind(x, all_gather_dimension=axis, tiled=True, **_along(names, sizes))


def sliced(x: Any, axis: int, names: tuple, sizes: Mapping[Any, int]) -> Any:
    """Return this device's piece of a value that all devices along some axes have."""
    shape = list(aval_of(x).shape)
    shape[axis] //= prod(sizes[n] for n in names)
    starts: list[Any] = [np.int32(0)] * len(shape)
    starts[axis] = start_of(names, shape[axis], sizes)
    return do.dynamic_slice(x, *starts, slice_sizes=tuple(shape))


def exchanged(x: Any, old: int, new: int, names: tuple, sizes: Mapping[Any, int]) -> Any:
    """Return a value that was cut along axis `old` cut along `new` instead."""
    return ops.all_to_all_p.bind(
        x, split_axis=new, concat_axis=old, tiled=True, **_along(names, sizes)
    )


def scattered(x: Any, axis: int, names: tuple, sizes: Mapping[Any, int]) -> Any:
    """Return this device's piece of the sum over all devices along some axes."""
    return ops.reduce_scatter_p.bind(x, scatter_dimension=axis, tiled=True, **_along(names, sizes))


def summed(x: Any, how: str, names: tuple, sizes: Mapping[Any, int]) -> tuple[Any, str]:
    """Return the combined partial results of all devices along some axes, and what was sent."""
    if how == "pick":
        x, name = _by_bits(x, lambda bits: summed(bits, "sum", names, sizes))
        return x, name
    aval = aval_of(x)
    # Reductions that every backend has a collective for.
    named = {"sum": ops.psum_p, "max": ops.pmax_p, "min": ops.pmin_p}.get(how)
    if named is not None and aval.dtype != np.bool_:
        return named.bind(x, axes=names, axis_index_groups=None)[0], named.name
    # Others are few and small: all partial results, reduced on each device.
    parts = ops.all_gather_p.bind(x, all_gather_dimension=0, tiled=False, **_along(names, sizes))
    fold = {"prod": "reduce_prod", "and": "reduce_and", "or": "reduce_or"}
    if aval.dtype == np.bool_:
        fold |= {"max": "reduce_or", "min": "reduce_and"}
    more = {"out_sharding": None} if how == "prod" else {}
    return getattr(do, fold[how])(parts, axes=(0,), **more), "all_gather"


def _by_bits(x: Any, combined: Callable[[Any], tuple]) -> tuple:
    """Apply a sum to the bits of a value, given that all terms but one have zero bits."""
    aval = aval_of(x)
    if aval.dtype.kind == "c":
        # Both halves alike.
        real, *rest = _by_bits(do.real(x), combined)
        imag, *_ = _by_bits(do.imag(x), combined)
        return (do.complex(real, imag), *rest)
    # Adding bits to zero bits keeps nan payloads and -0.0, which adding floats would not.
    bits = np.dtype(f"uint{8 * aval.dtype.itemsize}")
    x = do.bitcast_convert_type(x, new_dtype=bits)
    if bits.itemsize == 2:
        # Not all backends can add two-byte words.
        x = do.convert_element_type(
            x, new_dtype=np.dtype(np.uint32), weak_type=False, sharding=None
        )
    x, *rest = combined(x)
    if bits.itemsize == 2:
        x = do.convert_element_type(x, new_dtype=bits, weak_type=False, sharding=None)
    return (do.bitcast_convert_type(x, new_dtype=aval.dtype), *rest)


def settled(
    x: Any, how: str, owed: tuple, old: Spec, new: Spec, sizes: Mapping[Any, int]
) -> tuple[Any, Spec, list[str]]:
    """Combine partial results, each device keeping only its piece under `new`.

    Returns the value, its sharding now, and what was sent.
    """
    if how == "pick":
        x, spec, sent = _by_bits(x, lambda bits: settled(bits, "sum", owed, old, new, sizes))
        return x, spec, sent
    # A sum over an axis of the grid that will shard the result is scattered; the rest is summed for
    # all.
    spec, left, sent = list(old), set(owed), []
    if how == "sum" and aval_of(x).dtype != np.bool_:
        for i, wanted in enumerate(new):
            # The new cuts must be minor to those there are: pieces of pieces.
            if wanted[: len(spec[i])] != spec[i]:
                continue
            more = tuple(itertools.takewhile(lambda n: n in left, wanted[len(spec[i]) :]))
            if more:
                x = scattered(x, i, more, sizes)
                spec[i] += more
                left.difference_update(more)
                sent.append("reduce_scatter")
    if left:
        x, name = summed(x, how, tuple(n for n in owed if n in left), sizes)
        sent.append(name)
    return x, tuple(spec), sent
