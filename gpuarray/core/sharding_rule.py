"""Sharding rules: names that a user gives the axes of operands and results.

Floor 1. In: a text such as "i k, k j -> i j", or mappings of names. Out: `SdyShardingRule`, and the
equivalent `Factors` (core/factors.py) for operands of given shapes.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import Factors

#: Leading axes, any number of them; digits after it distinguish several such groups.
BATCHING = "…"

_TOKEN = re.compile(r"\s+|->|\.\.\.\d*|[A-Za-z]\w*|[(),]|\d\w*")


class CompoundFactor(tuple):
    """Factors that one axis consists of, the first one major: of `reshape(2 * 3)`, 2 and 3.

    >>> CompoundFactor("i", "j")
    ('i', 'j')
    """

    __slots__ = ()

    def __new__(cls, *factors: str) -> CompoundFactor:
        if len(factors) < 2:
            raise ValueError(
                f"A compound factor should contain at least two factors, got {factors}"
            )
        for name in factors:
            if not isinstance(name, str):
                raise ValueError(f"Each element of CompoundFactor must be a str, but got {name!r}")
            if _is_group(name):
                raise ValueError("Ellipsis can't be used in a compound factor")
            _check_name(name)
        return super().__new__(cls, factors)


class ArrayMapping(tuple):
    """The factor, or `CompoundFactor`, of each axis of an array; `BATCHING` may come first.

    >>> ArrayMapping(BATCHING, CompoundFactor("i", "j"), "k")
    ('…', ('i', 'j'), 'k')
    """

    __slots__ = ()

    def __new__(cls, *dim_mappings: str | CompoundFactor) -> ArrayMapping:
        for i, factor in enumerate(dim_mappings):
            if not isinstance(factor, (str, CompoundFactor)):
                raise ValueError(
                    f"Each element of ArrayMapping must be a str or CompoundFactor, got {factor!r}"
                )
            if isinstance(factor, str) and _is_group(factor):
                if i:
                    raise ValueError("Ellipsis can only be used at the beginning of a dimension")
            elif isinstance(factor, str):
                _check_name(factor)
        return super().__new__(cls, dim_mappings)


class SdyShardingRule:
    """How the axes of operands and results correspond.

    Axes of one name are cut alike. By default results have the factors of the operands; the options
    name factors of another kind.

    Parameters
    ----------
    operand_mappings, result_mappings :
        An `ArrayMapping` for each operand and each result.
    reduction_factors :
        Factors that no result has: where they are cut, the function of pieces adds up their shares.
    need_replication_factors :
        Factors that are never cut.
    permutation_factors :
        Factors along which the function of pieces passes elements on, where they are cut.
    factor_sizes :
        Lengths of factors that only compound factors have.

    Examples
    --------

    >>> SdyShardingRule((("i", "k"), ("k", "j")), (("i", "j"),), reduction_factors=("k",))
    SdyShardingRule((('i', 'k'), ('k', 'j')), (('i', 'j'),), {} reduction_factors=('k',))
    """

    def __init__(
        self,
        operand_mappings: Sequence[Sequence[Any]],
        result_mappings: Sequence[Sequence[Any]],
        *,
        reduction_factors: Sequence[str] = (),
        need_replication_factors: Sequence[str] = (),
        permutation_factors: Sequence[str] = (),
        **factor_sizes: int,
    ):
        self.operand_mappings = operand_mappings
        self.result_mappings = result_mappings
        self.reduction_factors = reduction_factors
        self.need_replication_factors = need_replication_factors
        self.permutation_factors = permutation_factors
        self.factor_sizes = factor_sizes
        # Sizes: an axis of one factor has the factor's size, so a size is given exactly for factors
        # without such an axis.
        axes = [axis for mapping in (*operand_mappings, *result_mappings) for axis in mapping]
        single = {axis for axis in axes if isinstance(axis, str)}
        compound = {name for axis in axes if not isinstance(axis, str) for name in axis}
        for name in factor_sizes:
            if name in single:
                raise ValueError(
                    f"Factor {name} represents a whole dimension; do not specify its size"
                )
            if name not in compound:
                raise ValueError(f"Factor {name} is not used in the rule, but size is provided")
        for name in sorted(compound - single):
            if name not in factor_sizes:
                raise ValueError(
                    f"Factor {name} is only used in compound factors; must specify its size"
                )
        # A factor is of one kind: freely sharded, summed, never sharded, or passed through.
        taken: set[str] = set()
        for option, names in self._special().items():
            for name in names:
                if name not in single | compound:
                    raise ValueError(f"Factor {name} in {option} is not used in the rule")
                if name in taken:
                    raise ValueError(
                        f"Factor {name} can only be in one of the reduction, need replication, or "
                        "permutation factor sets."
                    )
                taken.add(name)
        # A factor that is summed is not in the results.
        kept = {n for m in result_mappings for a in m for n in ([a] if isinstance(a, str) else a)}
        for name in reduction_factors:
            if name in kept:
                raise ValueError(
                    f"reduction factor cannot be in result mappings: {name} is in "
                    f"{tuple(result_mappings)}"
                )

    def _special(self) -> dict[str, Sequence[str]]:
        options = ("reduction_factors", "need_replication_factors", "permutation_factors")
        return {option: getattr(self, option) for option in options}

    def _fields(self) -> tuple:
        return (
            *map(tuple, (self.operand_mappings, self.result_mappings)),
            *map(tuple, self._special().values()),
            tuple(sorted(self.factor_sizes.items())),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SdyShardingRule) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        more = "".join(f" {o}={tuple(names)}" for o, names in self._special().items() if names)
        return (
            f"SdyShardingRule({self.operand_mappings}, {self.result_mappings}, "
            f"{self.factor_sizes}{more})"
        )

    def factors(self, avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Factors:
        """Return the factors of the rule for operands and results of these shapes.

        >>> f = ShapedArray((4, 3), "float32")
        >>> parse_rule("i j -> j i").factors([f], [f.update(shape=(3, 4))]).outs
        (((1,), (0,)),)
        """
        named: list[list[list]] = []
        lengths: dict[Any, int] = dict(self.factor_sizes)
        ranks: dict[str, int] = {}
        for kind, mappings, of in (
            ("operand", self.operand_mappings, avals),
            ("result", self.result_mappings, out_avals),
        ):
            # An empty text is a scalar, unless there is no array at all.
            if len(mappings) == 1 and not mappings[0] and not of:
                mappings = ()
            if len(mappings) != len(of):
                raise ValueError(
                    f"Sharding rule has {len(mappings)} {kind}s, but the operation has {len(of)} "
                    f"{kind}s"
                )
            pairs = enumerate(zip(mappings, of, strict=True))
            named.append([self._axes(f"{i}th {kind}", m, a, ranks) for i, (m, a) in pairs])
            for axes, aval in zip(named[-1], of, strict=True):
                for axis, n in zip(axes, aval.shape, strict=True):
                    if not isinstance(axis, tuple):
                        # The longest: an axis of length 1 is stretched along the others.
                        lengths[axis] = max(n, lengths.get(axis, 0))
        # Which factors stay whole: those the user named, and those whose axes do not all have
        # their length.
        whole = set(self.need_replication_factors)
        for mapped, of in zip(named, (avals, out_avals), strict=True):
            for axes, aval in zip(mapped, of, strict=True):
                for d, (axis, n) in enumerate(zip(axes, aval.shape, strict=True)):
                    size = math.prod(lengths[f] for f in axis if isinstance(axis, tuple))
                    if isinstance(axis, tuple) and size != n:
                        raise ValueError(
                            f"an axis of length {n} of {aval.str_short()} doesn't match the size "
                            f"{size} derived from the compound factors {axis}"
                        )
                    # Axes that are broadcast, or have another length, are never sharded.
                    if not isinstance(axis, tuple) and n != lengths[axis] and n != 1:
                        whole.add(axis)
                    if not isinstance(axis, tuple) and n != lengths[axis]:
                        axes[d] = None
        # Factors minor to one that is not sharded would have strided pieces: they are not sharded
        # either.
        axes_of_several = [x for m in named for axes in m for x in axes if isinstance(x, tuple)]
        before = -1
        # One whole factor may make others whole: repeat until none is added.
        while len(whole) > before:
            before = len(whole)
            for axis in axes_of_several:
                whole.update(axis[len(_leading(whole, axis)) :])
        cuttable = [[[_unless(whole, axis) for axis in axes] for axes in m] for m in named]
        return Factors.named(avals, out_avals, *cuttable, sizes=lengths)

    def _axes(
        self, what: str, mapping: Sequence[Any], aval: ShapedArray, ranks: dict[str, int]
    ) -> list:
        """Return a name for each axis of one array, or a tuple of them."""
        # A group such as `...` means the remaining axes before the names that follow it.
        rest, lead = list(mapping), []
        if rest and isinstance(rest[0], str) and _is_group(rest[0]):
            group = rest.pop(0)
            count = aval.ndim - len(rest)
            # Groups of one name have the same number of axes everywhere.
            if count >= 0 and ranks.setdefault(group, count) != count:
                raise ValueError(
                    "Ellipsis represents different number of leading dimensions "
                    f"{ranks[group]} and {count}"
                )
            lead = [f"{group}.{d}" for d in range(count)]
        if len(lead) + len(rest) != aval.ndim:
            raise ValueError(
                f"Sharding rule {what} has rank {len(rest)}, but the operation {what} has rank "
                f"{aval.ndim}"
            )
        return lead + [axis if isinstance(axis, str) else tuple(axis) for axis in rest]


def parse_rule(rule: Any, **options: Any) -> SdyShardingRule:
    """Return a rule from its text, in which `(i j)` is an axis of two factors.

    >>> parse_rule("... (i j) -> ... i", j=3)
    SdyShardingRule((('…', ('i', 'j')),), (('…', 'i'),), {'j': 3})
    """
    if not isinstance(rule, str):
        raise TypeError(f"rule must be a str, but got {type(rule)}")
    if rule.count("->") != 1:
        raise ValueError(f"There is no -> in rule: {rule!r}; it needs one, as in 'i j -> j i'")
    operands, results = rule.split("->")
    return SdyShardingRule(_mappings(operands), _mappings(results), **options)


def _mappings(text: str) -> tuple[ArrayMapping, ...]:
    """Return the mappings of several arrays, with commas between them; of a scalar for no text."""
    found: list[list] = [[]]
    inside: list[str] | None = None
    at = 0
    while at < len(text):
        # One pass over the tokens; `inside` is the compound factor whose bracket is open.
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"Unknown character {text[at]!r} in {text!r}")
        token, at = match.group(), match.end()
        if token.isspace():
            continue
        if token.startswith("..."):
            token = BATCHING + token[3:]
        if token == "(":
            if inside is not None:
                raise ValueError(
                    "Compound factors should be one level, nested brackets are not allowed"
                )
            inside = []
        elif token == ")":
            if inside is None:
                raise ValueError(f"Brackets are not balanced in rule: {text!r}")
            if len(inside) < 2:
                raise ValueError("Brackets should contain at least two factors")
            found[-1].append(CompoundFactor(*inside))
            inside = None
        elif inside is not None and token != ",":
            inside.append(token)
        elif token == ",":
            found.append([])
        else:
            found[-1].append(token)
    if inside is not None:
        raise ValueError(f"Brackets are not balanced in rule: {text!r}")
    return tuple(ArrayMapping(*axes) for axes in found)


def _is_group(name: str) -> bool:
    return name.startswith(BATCHING)


def _check_name(name: str) -> None:
    if not name[:1].isalpha():
        raise ValueError(f"Factor names have to start with a letter, but got {name!r}")


def _unless(whole: set, axis: Any) -> Any:
    """An axis's name, or those of its factors that can be sharded; None if none can."""
    if isinstance(axis, tuple):
        return _leading(whole, axis) or None
    return None if axis in whole else axis


def _leading(whole: set, axis: tuple) -> tuple:
    """Return the major factors of an axis, up to the first one that is not cut."""
    return tuple(itertools.takewhile(lambda name: name not in whole, axis))
