"""Lengths that are not known yet: expressions of symbols, as axes of exported programs have them.

Floor 1. In: names, and constraints on them. Out: Dims, which compute and compare as integers do. A
comparison is decided where it holds for all values of the symbols, or for none; everything else
raises `InconclusiveDimensionOperation`, so that a program never depends on a guess. Only equality
is never an error: lengths that are not known to be equal are different.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from gpuarray.errors import InconclusiveDimensionOperation

#: A product of atoms, each with its power, in a fixed order; an atom is a name or an operation.
Term = tuple[tuple[Any, int], ...]


class _Arrays:
    """How a length becomes an array: set by the room that makes arrays."""

    made: Callable[[Dim], Any]


arrays = _Arrays()


class Operation:
    """A quotient, remainder, maximum or minimum of two lengths."""

    __slots__ = ("key", "left", "name", "right")

    def __init__(self, name: str, left: Any, right: Any):
        self.name, self.left, self.right = name, left, right
        # By text: equal lengths print alike, since terms have one order, and a text hashes fast.
        self.key = (name, str(left), str(right))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operation) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return f"{self.name}({self.left}, {self.right})"

    def value(self, values: Mapping[str, int]) -> int:
        """The number for these values of symbols."""
        return _OPERATIONS[self.name](value_of(self.left, values), value_of(self.right, values))


_OPERATIONS: dict[str, Any] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": lambda a, b: larger(a, b),
    "min": lambda a, b: smaller(a, b),
}


class Scope:
    """Symbols that are compared with one another, and what is known of them.

    Attributes
    ----------
    constraints :
        As they were written.
    known :
        Expressions that are 0 or more, and those that are 0.
    """

    def __init__(self):
        self.constraints: tuple[str, ...] = ()
        self.positive: list[Dim] = []
        self.zero: list[Dim] = []

    def __repr__(self) -> str:
        lines = "".join(f"\n  {c}" for c in self.constraints)
        return f"SymbolicScope{' with constraints:' if lines else ''}{lines}"


class Dim:
    """A length: a sum of products of symbols, each with an integer factor."""

    __slots__ = ("_hash", "scope", "terms")

    def __init__(self, scope: Scope, terms: dict[Term, int]):
        self.scope = scope
        ordered = sorted(terms.items(), key=lambda p: _order(p[0]), reverse=True)
        self.terms = {t: n for t, n in ordered if n}
        self._hash = hash(tuple(self.terms.items()))

    # ---- arithmetic ----
    def _with(self, other: Any) -> Dim | None:
        if isinstance(other, Dim):
            if other.scope is not self.scope:
                raise ValueError(
                    f"Invalid mixing of symbolic scopes: {self} and {other} were made by different "
                    "calls. Make both with one call of symbolic_shape, or give it the scope."
                )
            return other
        # A bool is an int in Python, but no length.
        if isinstance(other, bool) or not isinstance(other, (int, np.integer)):
            return None
        return Dim(self.scope, {(): int(other)})

    def __add__(self, other: Any) -> Any:
        if (other := self._with(other)) is None:
            return NotImplemented
        terms = dict(self.terms)
        for t, n in other.terms.items():
            terms[t] = terms.get(t, 0) + n
        return simplified(Dim(self.scope, terms))

    __radd__ = __add__

    def __neg__(self) -> Any:
        return simplified(Dim(self.scope, {t: -n for t, n in self.terms.items()}))

    def __sub__(self, other: Any) -> Any:
        if (other := self._with(other)) is None:
            return NotImplemented
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if (other := self._with(other)) is None:
            return NotImplemented
        terms: dict[Term, int] = {}
        for a, n in self.terms.items():
            for b, m in other.terms.items():
                t = _product(a, b)
                terms[t] = terms.get(t, 0) + n * m
        return simplified(Dim(self.scope, terms))

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Any:
        return math.prod([self] * power, start=1)

    def __floordiv__(self, other: Any) -> Any:
        return self._divided(other)[0]

    def __mod__(self, other: Any) -> Any:
        return self._divided(other)[1]

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self._divided(other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._whole(other) // self

    def __rmod__(self, other: Any) -> Any:
        return self._whole(other) % self

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return divmod(self._whole(other), self)

    def __truediv__(self, other: Any) -> Any:
        return NotImplemented

    def _whole(self, other: Any) -> Dim:
        found = self._with(other)
        if found is None:
            raise TypeError(f"a length has to do with integers only, got {other!r}")
        return found

    def _divided(self, other: Any) -> tuple[Any, Any]:
        """The quotient and the remainder: exact where the divisor is a factor of every term."""
        divisor = self._whole(other)
        quotient, rest = dict[Term, int](), dict[Term, int]()
        # A single term divides another where its powers and its factor do; a sum of terms only
        # itself.
        if len(divisor.terms) == 1:
            ((d, m),) = divisor.terms.items()
            for t, n in self.terms.items():
                found = _quotient(t, d)
                if found is not None and n % m == 0:
                    quotient[found] = n // m
                else:
                    rest[t] = n
        else:
            rest = self.terms
            if not (self - divisor):
                return 1, 0
        left = simplified(Dim(self.scope, rest))
        whole = simplified(Dim(self.scope, quotient))
        if isinstance(left, int) and isinstance(simplified(divisor), int):
            return whole + left // other, left % other
        if isinstance(left, int) and left == 0:
            return whole, 0
        # What is left may still divide by a constraint of the user's.
        for zero in self.scope.zero:
            # mod(a, 2) == 0 says that 2 is a factor of a.
            if str(zero) == str(_operation(self.scope, "mod", left, other)):
                return whole + _operation(self.scope, "floordiv", left, other), 0
        parts = (_operation(self.scope, name, left, other) for name in ("floordiv", "mod"))
        quotient_of_rest, remainder = parts
        return whole + quotient_of_rest, remainder

    # ---- comparison ----
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Dim):
            return other.scope is self.scope and other.terms == self.terms
        return False

    def __hash__(self) -> int:
        return self._hash

    def __ge__(self, other: Any) -> bool:
        # Decided where the difference has one sign for all values of the symbols.
        low, high = bounds(self - other)
        if low >= 0:
            return True
        if high < 0:
            return False
        raise InconclusiveDimensionOperation(
            f"Symbolic dimension comparison '{self}' >= '{other}' is inconclusive: it holds for "
            "some values of the symbols and not for others. Say what holds in constraints=, such "
            f"as '{self} >= {other}'."
        )

    def __gt__(self, other: Any) -> bool:
        return self >= other + 1

    def __le__(self, other: Any) -> bool:
        return -self >= -other

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __bool__(self) -> bool:
        return True  # a length that is 0 is an int

    def __jax_array__(self) -> Any:
        return arrays.made(self)

    def __index__(self) -> int:
        raise InconclusiveDimensionOperation(
            f"Symbolic dimension '{self}' used in a context that requires a constant. The program "
            "has to hold for every value of the symbols: compute with x.shape, or export it for "
            "known shapes."
        )

    __int__ = __index__
    __float__ = __index__  # type: ignore[assignment]

    def __str__(self) -> str:
        parts = []
        for t, n in self.terms.items():
            text = "*".join(str(a) if p == 1 else f"{a}^{p}" for a, p in t)
            factor = str(abs(n)) if abs(n) != 1 or not t else ""
            sign = ("- " if n < 0 else "") if not parts else (" - " if n < 0 else " + ")
            parts.append(sign + "*".join(filter(None, (factor, text))))
        return "".join(parts) or "0"

    __repr__ = __str__

    def __reduce__(self) -> Any:
        raise TypeError("symbolic dimensions are stored by `export` only")


def _order(t: Term) -> tuple:
    """Terms of higher degree stand before others, the constant last."""
    factors = [(isinstance(a, Operation), str(a), p) for a, p in t]
    return sum(p for _, p in t), len(t), factors[::-1]


def _product(a: Term, b: Term) -> Term:
    powers = dict(a)
    for atom, p in b:
        powers[atom] = powers.get(atom, 0) + p
    return tuple(sorted(powers.items(), key=lambda p: (isinstance(p[0], Operation), str(p[0]))))


def _quotient(t: Term, d: Term) -> Term | None:
    powers = dict(t)
    for atom, p in d:
        if powers.get(atom, 0) < p:
            return None
        powers[atom] -= p
    return tuple((a, p) for a, p in powers.items() if p)


def simplified(d: Dim) -> Any:
    """An int where no symbol is left."""
    if not d.terms:
        return 0
    # A quotient times its divisor is exact where no remainder is known to be left.
    for t, n in d.terms.items() if d.scope.zero else ():
        if len(t) == 1 and t[0][1] == 1 and isinstance(t[0][0], Operation):
            left, right = t[0][0].left, t[0][0].right
            exact = t[0][0].name == "floordiv" and isinstance(right, int) and n % right == 0
            if exact and any(str(z) == f"mod({left}, {right})" for z in d.scope.zero):
                others = Dim(d.scope, {u: m for u, m in d.terms.items() if u != t})
                return n // right * left + others
    return d.terms[()] if tuple(d.terms) == ((),) else d


def symbol(scope: Scope, name: str) -> Dim:
    """The length with this name."""
    return Dim(scope, {((name, 1),): 1})


def _operation(scope: Scope, name: str, left: Any, right: Any) -> Dim:
    return Dim(scope, {((Operation(name, left, right), 1),): 1})


def larger(a: Any, b: Any) -> Any:
    """The larger of two lengths."""
    return _one_of("max", a, b)


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two lengths."""
    return _one_of("min", a, b)


def _one_of(name: str, a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b) if name == "max" else min(a, b)
    scope = (a if isinstance(a, Dim) else b).scope
    # One of them, where it is the larger one whatever the symbols are.
    low, high = bounds(a - b)
    if low >= 0:
        return a if name == "max" else b
    if high <= 0:
        return b if name == "max" else a
    return _operation(scope, name, a, b)


def broadcast(*shapes: tuple) -> tuple:
    """The shape that arrays of these shapes have together; ValueError where they have none."""
    if all(type(n) is not Dim for s in shapes for n in s):
        return np.broadcast_shapes(*shapes)
    rank = max(map(len, shapes))
    out = []
    for lengths in zip(*((1,) * (rank - len(s)) + tuple(s) for s in shapes), strict=True):
        # A symbol is taken to be other than 1, as `==` says: what stretches is decided now.
        others = {n for n in lengths if n != 1}
        if len(others) > 1:
            raise ValueError(f"shapes {shapes} do not broadcast: {lengths} differ")
        out.append(others.pop() if others else 1)
    return tuple(out)


def slice_ends(entry: slice, n: Any) -> tuple[Any, Any, int]:
    """What `entry.indices(n)` is for a length that may be symbolic."""
    if isinstance(n, int) and not any(isinstance(e, Dim) for e in (entry.start, entry.stop)):
        return entry.indices(n)
    step = 1 if entry.step is None else entry.step.__index__()
    if step == 0:
        raise ValueError("slice step cannot be zero")

    def end(given: Any, default: Any) -> Any:
        if given is None:
            return default
        given = given if isinstance(given, Dim) else given.__index__()
        at = given + n if given < 0 else given
        # Cut off at the ends of the axis.
        return smaller(larger(at, 0 if step > 0 else -1), n if step > 0 else n - 1)

    if step > 0:
        return end(entry.start, 0), end(entry.stop, n), step
    return end(entry.start, n - 1), end(entry.stop, -1), step


def count_between(start: Any, stop: Any, step: int) -> Any:
    """How many numbers there are from `start` up to `stop`, `step` apart."""
    if isinstance(start, int) and isinstance(stop, int):
        return len(range(start, stop, step))
    # Rounded up, away from `start`: a last step that is cut short counts.
    sign = 1 if step > 0 else -1
    return larger((stop - start + step - sign) // step, 0)


# ---- what is known ----


def bounds(d: Any, deep: bool = True) -> tuple[float, float]:
    """The least and the largest value that a length may have."""
    if isinstance(d, int):
        return d, d
    low = high = 0.0
    for t, n in d.terms.items():
        # Interval arithmetic, term by term: safe, and loose where a symbol stands in several
        # terms.
        least, most = _term_bounds(t, d.scope)
        low += n * (least if n > 0 else most)
        high += n * (most if n > 0 else least)
    # Refinements below ask for bounds again; those of the second round are the plain ones, so
    # that this ends.
    if not deep:
        return low, high
    for t, n in d.terms.items():
        if len(t) == 1 and t[0][1] == 1 and isinstance(t[0][0], Operation):
            least, most = _unfolded(d, t, n, t[0][0])
            low, high = max(low, least), min(high, most)
    # What is 0 or more may be taken away: d - c >= 0 says that d is no less than c.
    for known in (*d.scope.positive, *d.scope.zero, *(-z for z in d.scope.zero)):
        for factor in (1, 2, -1, -2):
            rest = d - factor * known
            least, most = bounds(rest, False)
            if factor > 0:
                low = max(low, least)
            else:
                high = min(high, most)
    # Lengths are whole numbers.
    whole = math.ceil(low) if math.isfinite(low) else low
    return whole, math.floor(high) if math.isfinite(high) else high


def _unfolded(d: Dim, t: Term, n: int, operation: Operation) -> tuple[float, float]:
    """Bounds of a length one of whose terms is an operation, from what the operation means."""
    rest = d - Dim(d.scope, {t: n})
    left, right = operation.left, operation.right
    if operation.name in ("max", "min"):
        # It is one of the two, and no less (no more) than either.
        (a, b), (c, e) = bounds(rest + n * left), bounds(rest + n * right)
        if (operation.name == "max") == (n > 0):
            return max(a, c), max(b, e)
        return min(a, c), min(b, e)
    if operation.name == "floordiv" and isinstance(right, int) and right > 0:
        # right * floordiv(left, right) is left, or up to right - 1 less.
        scaled = right * rest + n * left
        loose = scaled - n * (right - 1)
        least, most = (loose, scaled) if n > 0 else (scaled, loose)
        return bounds(least)[0] / right, bounds(most)[1] / right
    return -math.inf, math.inf


def _term_bounds(t: Term, scope: Scope) -> tuple[float, float]:
    low, high = 1.0, 1.0
    for atom, power in t:
        least, most = _atom_bounds(atom, scope)
        if least < 0:
            # A factor that may be negative: nothing is known of the sign of the product.
            return -math.inf, math.inf
        # Zero times infinity is zero here: a factor of 0 makes the whole term 0.
        low, high = low * least**power, high * most**power if high and most else 0.0
    return low, high


def _atom_bounds(atom: Any, scope: Scope) -> tuple[float, float]:
    if not isinstance(atom, Operation):
        low, high = 1.0, math.inf
        for known in scope.positive:
            # a - 8 >= 0, or 8 - a >= 0.
            factor = known.terms.get(((atom, 1),))
            if factor is None or set(known.terms) - {((atom, 1),), ()}:
                continue
            constant = known.terms.get((), 0)
            if factor > 0:
                low = max(low, math.ceil(-constant / factor))
            else:
                high = min(high, math.floor(constant / -factor))
        return low, high
    (a, b), (c, e) = bounds(atom.left, False), bounds(atom.right, False)
    if atom.name == "max":
        return max(a, c), max(b, e)
    if atom.name == "min":
        return min(a, c), min(b, e)
    # A divisor that may be 0 or negative: nothing is known.
    if c < 1:
        return -math.inf, math.inf
    if atom.name == "mod":
        return 0.0, min(e - 1, b) if a >= 0 else e - 1
    low = -math.inf if a == -math.inf else a // (e if a >= 0 and e != math.inf else c)
    return (0.0 if a >= 0 and e == math.inf else low), (math.inf if b == math.inf else b // c)


def value_of(d: Any, values: Mapping[str, int]) -> int:
    """The number that a length is for these values of symbols."""
    if isinstance(d, int):
        return d
    return sum(
        n
        * math.prod((a.value(values) if isinstance(a, Operation) else values[a]) ** p for a, p in t)
        for t, n in d.terms.items()
    )


def symbols_in(ds: Iterable[Any]) -> list[str]:
    """The names of the symbols in lengths, in the order in which they appear."""
    found: dict[str, None] = {}

    def visit(d: Any) -> None:
        if isinstance(d, Dim):
            for t in d.terms:
                for atom, _ in t:
                    if isinstance(atom, Operation):
                        visit(atom.left)
                        visit(atom.right)
                    else:
                        found[atom] = None

    for d in ds:
        visit(d)
    return list(found)
