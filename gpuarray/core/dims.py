"""Lengths that are not known yet: expressions of symbols, as axes of exported programs have them.

Floor 1. In: names, and constraints on them. Out: Dims, which compute and compare as integers do. A
comparison is decided where it holds for all values of the symbols, or for none; everything else
raises `InconclusiveDimensionOperation`, so that a program never depends on a guess. Only equality
is never an error: lengths that are not known to be equal are different.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.core import monomials
from gpuarray.core.inequalities import ONE, Contradiction, limits
from gpuarray.core.monomials import Operation, Term
from gpuarray.errors import InconclusiveDimensionOperation


class _Arrays:
    """How a length becomes an array: set by the room that makes arrays."""

    made: Callable[[Dim], Any]


arrays = _Arrays()


#: How operations are computed on numbers, or on lengths that are rewritten.
_OPERATIONS: dict[str, Any] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": lambda a, b: larger(a, b),
    "min": lambda a, b: smaller(a, b),
}


class Scope:
    """Symbols that are compared with one another, and the facts known about them.

    Attributes
    ----------
    constraints :
        As they were written.
    positive, zero :
        Expressions that are 0 or more, and those that are 0.
    rules :
        Rewrite rules: (term, n, length) means that n * term is the length.
    symbols :
        The range of each symbol for which more is known than that it is 1 or more.
    """

    def __init__(self):
        self.constraints: tuple[str, ...] = ()
        self.positive: list[Dim] = []
        self.zero: list[Dim] = []
        self.rules: list[tuple[Term, int, Any]] = []
        self.symbols: dict[str, tuple[float, float]] = {}
        self.found: dict[Dim, tuple[float, float]] = {}
        self.meanings: dict[Term, list[dict[Term, int]]] = {}

    def __repr__(self) -> str:
        lines = "".join(f"\n  {c}" for c in self.constraints)
        return f"SymbolicScope{' with constraints:' if lines else ''}{lines}"

    def learn(self, left: Any, sign: str, right: Any) -> None:
        """Take `left >= right` or `left == right` as known; Contradiction if it cannot be."""
        difference = left - right
        if isinstance(difference, int):
            if difference < 0 or (sign == "==" and difference):
                raise Contradiction
            return
        if sign == "==":
            self.zero.append(difference)
            self._rewrite(left, right)
        else:
            self.positive.append(difference)
        # Earlier results are not final: the new fact may allow stronger ones.
        self.found.clear()
        self.meanings.clear()
        self.symbols = {}
        names = symbols_in([*self.positive, *self.zero])
        self.symbols = {name: _bounds(symbol(self, name)) for name in names}
        self.meanings.clear()

    def defined(self) -> dict[str, Any]:
        """The symbols that are written as other lengths, with these."""
        return {
            term[0][0]: length
            for term, n, length in self.rules
            if n == len(term) == term[0][1] == 1 and isinstance(term[0][0], str)
        }

    def _rewrite(self, left: Any, right: Any) -> None:
        """From now on, rewrite one side of an equation as the other."""
        sides = [(x, y) for x, y in ((left, right), (right, left)) if isinstance(x, Dim)]
        # Prefer a side that is a single term with factor one.
        simplest = lambda pair: (len(pair[0].terms), max(map(abs, pair[0].terms.values())))
        for side, other in sorted(sides, key=simplest):
            for term, n in side.terms.items():
                rest = other - (side - Dim(self, {term: n}))
                if term == ONE or _holds(rest, term):
                    continue
                self.rules.append((term, abs(n), rest if n > 0 else -rest))
                operation = monomials.operation_in(term)
                if operation is not None and operation.name == "mod" and rest == 0:
                    self._divides(operation.left, operation.right)
                # Known facts may contain that term.
                self.rules = [(t, m, rewritten(d)) for t, m, d in self.rules]
                self.positive = [d for d in map(rewritten, self.positive) if isinstance(d, Dim)]
                return

    def _divides(self, left: Any, right: Any) -> None:
        """Record a division without remainder: divisor * quotient is the dividend."""
        for divisor in (right, -right):
            remainder = ((Operation("mod", left, divisor), 1),)
            self.rules.append((remainder, 1, 0))
            product = divisor * _operation(self, "floordiv", left, divisor)
            if len(product.terms) == 1:
                ((term, n),) = product.terms.items()
                self.rules.append((term, abs(n), left if n > 0 else -left))


class Dim(util.Symbolic):
    """A length: a sum of products of symbols, each with an integer factor."""

    __slots__ = ("_hash", "scope", "terms")

    def __init__(self, scope: Scope, terms: dict[Term, int]):
        self.scope = scope
        ordered = sorted(terms.items(), key=lambda p: monomials.order(p[0]), reverse=True)
        self.terms = {t: n for t, n in ordered if n}
        self._hash = hash((id(scope), *self.terms.items()))

    __array_ufunc__ = None  # NumPy's arrays leave operators to the methods below

    # ---- arithmetic ----
    def _with(self, other: Any) -> Dim | None:
        if isinstance(other, Dim):
            if other.scope is not self.scope:
                raise ValueError(
                    f"Invalid mixing of symbolic scopes: {self} and {other} were made by different "
                    "calls. Make both with one call of symbolic_shape, or give it the scope. "
                    f"Expected {self.scope!r}\nand found for {other!r} {other.scope!r}"
                )
            return other
        if isinstance(other, np.ndarray) and not other.ndim:
            other = other[()]
        # A bool is an int in Python, but no length.
        if isinstance(other, bool) or not isinstance(other, (int, np.integer)):
            return None
        return Dim(self.scope, {(): int(other)})

    def _as_array(self, name: str, other: Any) -> Any:
        """An operation with anything but a length: it computes with the value, as an array."""
        if not isinstance(other, (bool, float, complex, np.generic, np.ndarray)):
            return NotImplemented
        return getattr(arrays.made(self), name)(other)

    def __add__(self, other: Any) -> Any:
        if (length := self._with(other)) is None:
            return self._as_array("__add__", other)
        other = length
        terms = dict(self.terms)
        for t, n in other.terms.items():
            terms[t] = terms.get(t, 0) + n
        return simplified(Dim(self.scope, terms))

    __radd__ = __add__

    def __neg__(self) -> Any:
        return simplified(Dim(self.scope, {t: -n for t, n in self.terms.items()}))

    def __sub__(self, other: Any) -> Any:
        if (length := self._with(other)) is None:
            return self._as_array("__sub__", other)
        return self + -length

    def __rsub__(self, other: Any) -> Any:
        if self._with(other) is None:
            return self._as_array("__rsub__", other)
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if (length := self._with(other)) is None:
            return self._as_array("__mul__", other)
        other = length
        terms: dict[Term, int] = {}
        for a, n in self.terms.items():
            for b, m in other.terms.items():
                t = monomials.product(a, b)
                terms[t] = terms.get(t, 0) + n * m
        return simplified(Dim(self.scope, terms))

    __rmul__ = __mul__

    def __pow__(self, power: Any) -> Any:
        if isinstance(power, Dim):
            return arrays.made(self) ** power
        try:
            times = power.__index__()
        except (AttributeError, TypeError):
            raise ValueError(
                f"Symbolic dimension {self} cannot be raised to non-integer powers, got {power!r}"
            ) from None
        if times < 0:
            raise ValueError(
                f"Symbolic dimension {self} cannot be raised to negative powers, got {power}"
            )
        return math.prod([self] * times, start=1)

    def __rpow__(self, base: Any) -> Any:
        return base ** arrays.made(self)

    def __floordiv__(self, other: Any) -> Any:
        if self._with(other) is None:
            return self._as_array("__floordiv__", other)
        return self._divided(other)[0]

    def __mod__(self, other: Any) -> Any:
        if self._with(other) is None:
            return self._as_array("__mod__", other)
        return self._divided(other)[1]

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        if self._with(other) is None:
            return self._as_array("__divmod__", other)
        return self._divided(other)

    def _reversed(self, name: str, operation: Callable[[Any, Any], Any], other: Any) -> Any:
        length = self._with(other)
        return self._as_array(name, other) if length is None else operation(length, self)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._reversed("__rfloordiv__", operator.floordiv, other)

    def __rmod__(self, other: Any) -> Any:
        return self._reversed("__rmod__", operator.mod, other)

    def __rdivmod__(self, other: Any) -> Any:
        return self._reversed("__rdivmod__", divmod, other)

    # A true quotient is no length: it is a number of the program.
    def __truediv__(self, other: Any) -> Any:
        return arrays.made(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / arrays.made(self)

    def _divided(self, other: Any) -> tuple[Any, Any]:
        """The quotient and the remainder: exact where the divisor is a factor of the terms."""
        divisor: Any = self._with(other)
        if not divisor.terms:
            raise ZeroDivisionError(f"division of the symbolic dimension {self} by zero")
        (d, m), *more = divisor.terms.items()
        quotient, rest = dict[Term, int](), self.terms
        if not more:
            # A single term divides another where its powers and its factor do.
            rest = dict[Term, int]()
            for t, n in self.terms.items():
                found = monomials.quotient(t, d)
                if found is not None and n % m == 0:
                    quotient[found] = n // m
                else:
                    rest[t] = n
        else:
            # Divide a sum by its first term; if a remainder is left, it has no quotient.
            left: Any = self
            while isinstance(left, Dim):
                (t, n), *_ = left.terms.items()
                found = monomials.quotient(t, d)
                if found is None or n % m:
                    break
                quotient[found] = n // m
                left = left - divisor * Dim(self.scope, {found: n // m})
            quotient, rest = (quotient, {}) if left == 0 else ({}, self.terms)
        left = simplified(Dim(self.scope, rest))
        whole = simplified(Dim(self.scope, quotient))
        by = simplified(divisor)
        if isinstance(left, int) and isinstance(by, int):
            return whole + left // by, left % by
        if isinstance(left, int) and left == 0:
            return whole, 0
        of_rest = simplified(_operation(self.scope, "floordiv", left, by))
        return whole + of_rest, simplified(_operation(self.scope, "mod", left, by))

    # ---- comparison ----
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Dim):
            return other.scope is self.scope and other.terms == self.terms
        return False

    def __hash__(self) -> int:
        return self._hash

    def _compared(self, sign: str, other: Any, difference: Callable[[], Any]) -> Any:
        """Whether a difference is 0 or more, if it is so or not for all values of the symbols."""
        if self._with(other) is None:
            return NotImplemented
        d = difference()
        # Ranges decide most comparisons, at a fraction of the cost.
        low, high = monomials.range_of(d, self.scope.symbols)
        if low < 0 <= high:
            low, high = bounds(d)
        if low >= 0:
            return True
        if high < 0:
            return False
        using = f" Using {self.scope!r}" if self.scope.constraints else ""
        raise InconclusiveDimensionOperation(
            f"Symbolic dimension comparison '{self}' {sign} '{other}' is inconclusive: it holds "
            "for some values of the symbols and not for others. Say what holds in constraints=, "
            f"such as '{self} >= {other}'.{using}"
        )

    def __ge__(self, other: Any) -> bool:
        return self._compared(">=", other, lambda: self - other)

    def __gt__(self, other: Any) -> bool:
        return self._compared(">", other, lambda: self - other - 1)

    def __le__(self, other: Any) -> bool:
        return self._compared("<=", other, lambda: other - self)

    def __lt__(self, other: Any) -> bool:
        return self._compared("<", other, lambda: other - self - 1)

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


def simplified(d: Dim) -> Any:
    """The length without terms that are written differently; an int where no symbol is left."""
    for term, n, other in d.scope.rules:
        for t, m in d.terms.items():
            factor = monomials.quotient(t, term) if m % n == 0 else None
            if factor is not None:
                rest = Dim(d.scope, {u: k for u, k in d.terms.items() if u != t})
                return other * Dim(d.scope, {factor: m // n}) + rest
    if not d.terms:
        return 0
    return d.terms[ONE] if tuple(d.terms) == (ONE,) else d


def rewritten(d: Any) -> Any:
    """A length rewritten with all rules of its scope."""
    if not isinstance(d, Dim):
        return d
    return value_of(d, {name: symbol(d.scope, name) for name in symbols_in([d])})


def symbol(scope: Scope, name: str) -> Any:
    """The length with this name."""
    return simplified(Dim(scope, {((name, 1),): 1}))


def _operation(scope: Scope, name: str, left: Any, right: Any) -> Dim:
    return Dim(scope, {((Operation(name, left, right), 1),): 1})


def larger(a: Any, b: Any) -> Any:
    """The larger of two lengths."""
    return _one_of("max", a, b)


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two lengths."""
    return _one_of("min", a, b)


def _one_of(name: str, a: Any, b: Any) -> Any:
    if not isinstance(a, Dim) and not isinstance(b, Dim):
        return max(a, b) if name == "max" else min(a, b)
    scope = (a if isinstance(a, Dim) else b).scope
    # One of them, where it is the larger one whatever the symbols are.
    low, high = bounds(a - b)
    if low >= 0:
        return a if name == "max" else b
    if high <= 0:
        return b if name == "max" else a
    return simplified(_operation(scope, name, a, b))


# ---- bounds ----


def bounds(d: Any) -> tuple[float, float]:
    """The least and the largest value that a length may have."""
    if isinstance(d, int):
        return d, d
    scope = d.scope
    if d not in scope.found:
        try:
            scope.found[d] = _bounds(d)
        except Contradiction:
            raise ValueError(
                f"Unsatisfiable constraint: no values of the symbols fulfil {scope!r}"
            ) from None
    return scope.found[d]


def _bounds(d: Any, given: tuple[Dim, ...] = ()) -> tuple[float, float]:
    """Bounds by all that is known, and where some lengths `given` are 0 or more."""
    if isinstance(d, int):
        return d, d
    # A maximum is one of two lengths: the bounds of both cases, if there are not too many.
    for t, n in d.terms.items() if len(given) < 4 else ():
        operation = monomials.operation_in(t)
        if operation is None or operation.name not in ("max", "min"):
            continue
        left, right = operation.left, operation.right
        rest = d - Dim(d.scope, {t: n})
        over = left - right if operation.name == "max" else right - left
        found = []
        for case, condition in ((rest + n * left, over), (rest + n * right, -over)):
            try:
                found.append(_bounds(case, (*given, condition)))
            except Contradiction:
                continue  # this one is never the larger one
        if not found:
            raise Contradiction
        return min(low for low, _ in found), max(high for _, high in found)
    scope = d.scope
    rows = [monomials.row(known) for known in (*given, *scope.positive)]
    for zero in scope.zero:
        rows += _equal(zero, 0)
    for term, n, other in scope.rules:
        rows += _equal(Dim(scope, {term: n}), other)
    # A quotient with a maximum: its bounds are those of the two cases.
    for operation in filter(None, map(monomials.operation_in, d.terms)):
        if operation.name in ("floordiv", "mod") and isinstance(operation.left, Dim):
            low, high = _bounds(operation.left, given)
            rows += [monomials.row(operation.left - int(low))] if low != -math.inf else []
            rows += [monomials.row(int(high) - operation.left)] if high != math.inf else []
    # The facts about each term, and about the terms that appear in them.
    done: set[Term] = {ONE}
    pending = [t for row in (d.terms, *rows) for t in row]
    while pending:
        term = pending.pop(0)
        if term not in done:
            done.add(term)
            if term not in scope.meanings:
                scope.meanings[term] = _rows_of(term, scope)
            about = scope.meanings[term]
            rows += about
            pending += [t for row in about for t in row]
    return limits(d.terms, rows)


def _holds(d: Any, term: Term) -> bool:
    """Whether a term turns up anywhere in a length."""
    if not isinstance(d, Dim):
        return False
    inner = [(a.left, a.right) for t in d.terms for a, _ in t if isinstance(a, Operation)]
    own = any(monomials.quotient(t, term) is not None for t in d.terms)
    return own or any(_holds(x, term) for pair in inner for x in pair)


def _equal(a: Any, b: Any) -> list[dict[Term, int]]:
    """Rows that express that two lengths are equal."""
    row = monomials.row(a)
    for t, n in monomials.row(b).items():
        row[t] = row.get(t, 0) - n
    return [row, {t: -n for t, n in row.items()}]


def _rows_of(t: Term, scope: Scope) -> list[dict[Term, int]]:
    """What is known about a term, as rows that are 0 or more."""
    low, high = monomials.term_range(t, scope.symbols)
    rows: list[dict[Term, int]] = []
    if low != -math.inf:
        rows.append({t: 1, ONE: -int(low)})
    if high != math.inf:
        rows.append({t: -1, ONE: int(high)})
    operation = monomials.operation_in(t)
    if operation is None:
        return rows
    this = Dim(scope, {t: 1})
    left, right = operation.left, operation.right
    if operation.name in ("max", "min"):
        sign = 1 if operation.name == "max" else -1
        return rows + [monomials.row(sign * this - sign * x) for x in (left, right)]
    least, most = monomials.range_of(right, scope.symbols)
    if least <= 0 <= most and operation.name == "floordiv":
        raise InconclusiveDimensionOperation(
            f"Possible division by 0 in division of '{left}' by '{right}': say what holds in "
            f"constraints=, such as '{right} >= 1'."
        )
    # left == right * quotient + remainder, and 0 <= remainder < divisor.
    quotient = simplified(_operation(scope, "floordiv", left, right))
    remainder = simplified(_operation(scope, "mod", left, right))
    if least > 0:
        rows += [monomials.row(remainder), monomials.row(right - 1 - remainder)]
    elif most < 0:
        rows += [monomials.row(-remainder), monomials.row(remainder - right - 1)]
    if least > 0 or most < 0:
        rows += _equal(left - right * quotient, remainder)
    return rows


def value_of(d: Any, values: Mapping[str, int]) -> int:
    """The number that a length is for these values of symbols."""
    if isinstance(d, int):
        return d
    number = lambda atom: (
        _OPERATIONS[atom.name](value_of(atom.left, values), value_of(atom.right, values))
        if isinstance(atom, Operation)
        else values[atom]
    )
    return sum(n * math.prod(number(a) ** p for a, p in t) for t, n in d.terms.items())


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
