"""Factors: how the axes of an equation correspond, so that it can be evaluated on pieces.

Floor 1. In: names that a rule gives the axes of operands and results. Out: `Factors`, plain data.

A factor is a length that axes share: the factors of a matrix product are its rows, its columns and
the summed axis. When a factor is cut, every axis that has it is cut alike; the primitive, applied
to the pieces, gives pieces of its results. An axis may consist of several factors, major first (a
reshape splits and merges axes), or of none: then it must stay whole. The remaining length of an
axis beyond its factors is minor to them and is never cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuarray.core.avals import ShapedArray
from gpuarray.core.layout import Cuts
from gpuarray.core.primitive import Sentinel

#: The factors of each axis, major first.
Axes = tuple[tuple[int, ...], ...]
Shapes = list[tuple[int, ...]]

WHOLE = Sentinel("WHOLE", "every element of a result may depend on every element of the operands")
BY_GRAPH = Sentinel("BY_GRAPH", "the operation holds Graphs, whose equations have factors")
BY_NAME = Sentinel("BY_NAME", "the operation works along axes of a mesh, on pieces already")

#: How partial results are combined: these operations on them give the result of the whole. Of a
#: "pick" all but one have no bit set, and that one is the result.
COMBINED_BY = ("sum", "prod", "max", "min", "and", "or", "pick")


def whole(why: str) -> Sentinel:
    """Return a `WHOLE` with a specific reason."""
    return Sentinel("WHOLE", why)


def once(why: str) -> Sentinel:
    """Return the sentinel for an operation that runs once, whatever the devices."""
    return Sentinel("ONCE", why)


class Factors(NamedTuple):
    """How the axes of an equation correspond.

    Attributes
    ----------
    ins, outs :
        For each operand and each result, the factors of each axis, by number.
    sizes :
        The length of each factor.
    in_shapes, out_shapes :
        Shapes of the operands and results as a whole.
    owed :
        Factors that no result has, and the operation (one of `COMBINED_BY`) that makes the results
        of the pieces that of the whole.
    resize : (params, in_shapes, out_shapes) -> params
        Parameters for operands and results of other shapes; None where they do not depend on them.
    piece : (operands, params, starts) -> list of results
        Evaluates a piece where its elements depend on its place in the whole: `params` are local
        ones, and `starts` holds, for each factor that is cut, a scalar: the piece's first position
        along it. None: the primitive itself does, with local parameters.
    """

    ins: tuple[Axes, ...]
    outs: tuple[Axes, ...]
    sizes: tuple[int, ...]
    in_shapes: tuple[tuple[int, ...], ...]
    out_shapes: tuple[tuple[int, ...], ...]
    owed: Mapping[int, str]
    resize: Callable[[dict, Shapes, Shapes], dict] | None
    piece: Callable[[Sequence[Any], dict, Mapping[int, Any]], list[Any]] | None

    @staticmethod
    def named(
        avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        ins: Sequence[Sequence[Hashable]],
        outs: Sequence[Sequence[Hashable]],
        *,
        sizes: Mapping[Any, int] | None = None,
        owed: Mapping[Any, str] | None = None,
        resize: Callable[[dict, Shapes, Shapes], dict] | None = None,
        piece: Callable[[Sequence[Any], dict, Mapping[Any, Any]], list[Any]] | None = None,
    ) -> Factors:
        """Return factors from a name for each axis: axes of one name are cut alike.

        An axis of several factors has a tuple of names, which `sizes` must know; None keeps an axis
        whole. `owed` and `starts` are by name too.
        """
        numbers: dict[Any, int] = {}
        lengths: list[int] = []
        known = sizes or {}

        def axis(given: Hashable, length: int) -> tuple[int, ...]:
            names = () if given is None else given if isinstance(given, tuple) else (given,)
            for name in names:
                # The first axis with a name defines its length; the check below compares the others
                # with it.
                if name not in numbers:
                    numbers[name] = len(lengths)
                    lengths.append(known.get(name, length))
            found = tuple(numbers[name] for name in names)
            size = math.prod(lengths[f] for f in found)
            if found and (length % size if size else length):
                raise ValueError(
                    f"factors {given!r} have {size} positions, and an axis of length {length} "
                    "does not consist of so many equal parts"
                )
            return found

        def axes(given: Sequence[Sequence[Hashable]], of: Sequence[ShapedArray]):
            return tuple(
                tuple(axis(n, length) for n, length in zip(names, a.shape, strict=True))
                for names, a in zip(given, of, strict=True)
            )

        # Operands first, so that factors are numbered in the order in which they are read.
        in_axes, out_axes = axes(ins, avals), axes(outs, out_avals)
        names = list(numbers)
        # Rules think in names and callers in numbers: translate at this one seam.
        placed = piece and (
            lambda operands, params, starts: piece(
                operands, params, {names[f]: start for f, start in starts.items()}
            )
        )
        return Factors(
            in_axes,
            out_axes,
            tuple(lengths),
            tuple(a.shape for a in avals),
            tuple(a.shape for a in out_avals),
            {numbers[n]: how for n, how in (owed or {}).items() if n in numbers},
            resize,
            placed,
        )

    def shapes(self, cuts: Mapping[int, int]) -> tuple[Shapes, Shapes]:
        """Return the shapes of operands and results on a piece.

        `cuts` says into how many parts factors are cut, which must divide them.
        """

        def cut(axes: Axes, shape: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(
                n // math.prod(cuts.get(f, 1) for f in axis)
                for axis, n in zip(axes, shape, strict=True)
            )

        return (
            [cut(a, s) for a, s in zip(self.ins, self.in_shapes, strict=True)],
            [cut(a, s) for a, s in zip(self.outs, self.out_shapes, strict=True)],
        )

    def local(self, params: dict, cuts: Mapping[int, int]) -> dict:
        """Return the equation's parameters on a piece."""
        return params if self.resize is None else self.resize(params, *self.shapes(cuts))

    def cuts_of(self, axis: tuple[int, ...], parts: int) -> dict[int, int] | None:
        """Return the number of parts of each factor if an axis of them is cut into equal runs.

        A minor factor can be cut only where the major ones are cut into single positions. Returns
        None if no cut of factors makes these runs.

        >>> f = Factors(((), ), ((), ), (3, 4), ((), ), ((), ), {}, None, None)
        >>> f.cuts_of((0, 1), 6), f.cuts_of((0, 1), 3), f.cuts_of((0, 1), 2)
        ({0: 3, 1: 2}, {0: 3}, None)
        """
        cuts: dict[int, int] = {}
        for f in axis:
            if parts == 1:
                break
            cut = math.gcd(parts, self.sizes[f])
            if cut > 1:
                cuts[f] = cut
            # The part that does not divide the major factor goes to the next one, but only where
            # pieces of this one are single positions: otherwise they would be strided.
            parts //= cut
            if cut != self.sizes[f]:
                break
        return cuts if parts == 1 else None

    def parts_of(self, axis: tuple[int, ...], cuts: Mapping[int, int]) -> int | None:
        """Return the number of equal runs into which an axis of factors is cut; None if pieces are
        not contiguous.

        >>> f = Factors(((), ), ((), ), (3, 4), ((), ), ((), ), {}, None, None)
        >>> f.parts_of((0, 1), {0: 3, 1: 2}), f.parts_of((0, 1), {}), f.parts_of((0, 1), {1: 2})
        (6, 1, None)
        """
        parts, single = 1, True
        for f in axis:
            cut = cuts.get(f, 1)
            # Every other factor after one that is not cut into single positions: pieces have gaps.
            if cut > 1 and not single:
                return None
            parts *= cut
            single = single and cut == self.sizes[f]
        return parts


# ---- how mesh axes cut factors ----

#: The mesh axes that cut each factor, major first.
Cut = dict[int, tuple]


def spec_of(axes: Axes, cut: Cut) -> Cuts:
    """Return how an operand or result is cut whose axes have these factors."""
    return tuple(tuple(n for f in axis for n in cut.get(f, ())) for axis in axes)


def given_to(
    factors: Factors, axis: tuple[int, ...], names: tuple, sizes: Mapping[Any, int]
) -> Cut | None:
    """Return the mesh axes for each factor of an axis that is cut by `names`, major first.

    None if the pieces are not pieces of its factors.
    """
    given: dict[int, list] = {}
    rest = list(axis)
    left = factors.sizes[rest[0]] if rest else 0
    for name in names:
        # A factor that is cut into single positions: the next one is cut.
        while left == 1 and len(rest) > 1:
            rest.pop(0)
            left = factors.sizes[rest[0]]
        # No factor is left to cut, or this one does not divide evenly.
        if not rest or left % sizes[name]:
            return None
        given.setdefault(rest[0], []).append(name)
        left //= sizes[name]
    return {f: tuple(names) for f, names in given.items()}


def are_runs(factors: Factors, axes: Axes, cut: Cut, sizes: Mapping[Any, int]) -> bool:
    """Whether the pieces of every axis are equal runs of it, and no axis of the mesh cuts twice."""
    cuts = {f: math.prod(sizes[n] for n in names) for f, names in cut.items()}
    names = [n for axis in axes for f in axis for n in cut.get(f, ())]
    return len(names) == len(set(names)) and all(
        factors.parts_of(axis, cuts) is not None for axis in axes
    )


# ---- rules that many primitives have ----


def nothing(avals, out_avals, params) -> Factors:
    """No factors: every operand is needed whole."""
    return Factors.named(
        avals, out_avals, [[None] * a.ndim for a in avals], [[None] * a.ndim for a in out_avals]
    )


def elementwise(avals, out_avals, params, resize=None, piece=None) -> Factors:
    """Axes correspond one to one; those of length 1 that are broadcast are not cut.

    Where operand and result differ by a last axis, as in bitcasts, that one is whole.
    """
    shape = out_avals[0].shape
    ins = [
        [d if d < len(shape) and n == shape[d] else None for d, n in enumerate(a.shape)]
        for a in avals
    ]
    # Without operands, as in generators, every axis can be cut.
    carried = {d for names in ins for d in names} if avals else set(range(len(shape)))
    outs = [[d if d in carried else None for d in range(a.ndim)] for a in out_avals]
    return Factors.named(avals, out_avals, ins, outs, resize=resize, piece=piece)


def each_alone(avals, out_avals, params) -> Factors:
    """Result i has the axes of operand i, independent of the other operands."""
    names = [[f"{i}.{d}" for d in range(a.ndim)] for i, a in enumerate(avals)]
    return Factors.named(avals, out_avals, names, names)


def all_but(axes: Sequence[int], avals, out_avals, resize=None) -> Factors:
    """Operands and results have the same axes, some of which stay whole."""

    def names(a: ShapedArray) -> list[int | None]:
        return [None if d in axes else d for d in range(a.ndim)]

    ins, outs = [names(a) for a in avals], [names(a) for a in out_avals]
    return Factors.named(avals, out_avals, ins, outs, resize=resize)


def leading(*ranks: int, resize=None) -> Callable[..., Factors]:
    """Return the rule of stacks: all operands have the same leading axes, and so have the results.

    `ranks` is the number of axes of each operand that belong to one member of the stack.
    """

    def rule(avals, out_avals, params) -> Factors:
        stack = avals[0].ndim - ranks[0]

        def names(a: ShapedArray) -> list[int | None]:
            return [d if d < stack else None for d in range(a.ndim)]

        ins, outs = [names(a) for a in avals], [names(a) for a in out_avals]
        return Factors.named(avals, out_avals, ins, outs, resize=resize)

    return rule
