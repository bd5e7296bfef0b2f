"""Shapes with symbolic lengths, as text: the argument shapes of exported programs.

Floor 6. In: text such as "a, 2*b, ...", and constraints on the symbols. Out: shapes of ints and
Dims (`core/dims.py`), and the values that symbols have where a program is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core.avals import stated_aval
from gpuarray.core.dims import (
    Dim,
    Operation,
    Scope,
    arrays,
    larger,
    simplified,
    smaller,
    symbol,
    symbols_in,
    value_of,
)
from gpuarray.core.inequalities import Contradiction
from gpuarray.functions.inspect import ShapeDtypeStruct
from gpuarray.lax.lengths import as_scalar
from gpuarray.pytree import tree
from gpuarray.util import elements

# Lengths of symbols exist once this module does: here they get a value in programs.
arrays.made = as_scalar

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_][A-Za-z0-9_]*)|(\.\.\.)|([-+*^(),]))")
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": larger,
    "min": smaller,
}


class SymbolicScope(Scope):
    """Symbols that belong together, and the facts known about them.

    Parameters
    ----------
    constraints :
        Texts `e1 >= e2`, `e1 <= e2` or `e1 == e2`.

    Examples
    --------

    >>> import gpuarray as ga
    >>> scope = ga.export.SymbolicScope(["a >= 8", "mod(a, 2) == 0"])
    >>> a, = ga.export.symbolic_shape("a", scope=scope)
    >>> a >= 4, a % 2
    (True, 0)
    """

    def __init__(self, constraints: Sequence[str] = ()):
        super().__init__()
        if isinstance(constraints, str):
            raise ValueError(
                "The symbolic constraints should be a sequence of strings. Got "
                f"{constraints!r}: write [{constraints!r}]."
            )
        for text in elements(constraints, "a sequence of str"):
            self._add(text)

    def _add(self, text: Any) -> None:
        if not isinstance(text, str):
            raise ValueError(f"A constraint is a str such as 'a >= 2', got {text!r}.")
        parts = re.split(r"(>=|<=|==)", text)
        if len(parts) != 3:
            raise ValueError(
                f"Constraint parsing error: must contain one of '==' or '>=' or '<=', got {text!r}."
            )
        left, sign, right = parts
        # All constraints have one form: an expression is at least 0, or equals 0.
        ends = _parsed(left, self), _parsed(right, self)
        if sign == "<=":
            ends = ends[::-1]
        try:
            self.learn(ends[0], "==" if sign == "==" else ">=", ends[1])
        except Contradiction:
            raise ValueError(self._unsatisfiable(text)) from None
        self.constraints += (text,)

    def _unsatisfiable(self, text: str) -> str:
        alone = " explicit" if not self.constraints else ""
        given = f" together with {list(self.constraints)}" if self.constraints else ""
        return (
            f"Unsatisfiable{alone} constraint: {text}{given}. It holds for no value of the "
            "symbols, which are 1 or more each."
        )


class _Parser:
    """A shape as text, read from left to right."""

    def __init__(self, text: str, scope: Scope):
        self.text, self.scope, self.at = text, scope, 0
        # Split into tokens first, each with its place in the text, which messages point at.
        self.tokens: list[tuple[str, int]] = []
        while text[self.at :].strip():
            found = _TOKEN.match(text, self.at)
            if found is None:
                raise self.error(f"unexpected {text[self.at :].strip()[0]!r}")
            self.tokens.append((found.group().strip(), self.at))
            self.at = found.end()
        self.at = 0

    def error(self, why: str) -> ValueError:
        tokens = getattr(self, "tokens", [])
        at = tokens[self.at][1] if self.at < len(tokens) else len(self.text)
        return ValueError(
            f"syntax error in symbolic shape {self.text!r}: {why}. Parsed {self.text[:at]!r}, "
            f"remaining {self.text[at:]!r}."
        )

    @property
    def next(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self, wanted: str) -> None:
        if self.next != wanted:
            raise self.error(f"expected {wanted!r} but found {self.next or 'the end'!r}")
        self.at += 1

    # By precedence: a sum of products of powers of atoms, one method each.
    def sum(self) -> Any:
        sign = -1 if self.next == "-" else 1
        if self.next in ("-", "+"):
            self.at += 1
        total = sign * self.product()
        while self.next in ("+", "-"):
            sign = 1 if self.next == "+" else -1
            self.at += 1
            total = total + sign * self.product()
        return total

    def product(self) -> Any:
        found = self.power()
        while self.next == "*":
            self.at += 1
            found = found * self.power()
        return found

    def power(self) -> Any:
        found = self.atom()
        if self.next == "^":
            self.at += 1
            if not self.next.isdigit():
                raise self.error("a power is a number")
            found = found ** int(self.next)
            self.at += 1
        return found

    def atom(self) -> Any:
        token = self.next
        if token == "-":  # behind a comma of mod and its like
            self.at += 1
            return -self.atom()
        if token == "(":
            self.at += 1
            found = self.sum()
            self.take(")")
            return found
        if token.isdigit():
            self.at += 1
            return int(token)
        if not token or not (token[0].isalpha() or (token[0] == "_" and token != "_")):
            raise self.error(f"expected a length but found {token or 'the end'!r}")
        self.at += 1
        if self.next != "(":
            return symbol(self.scope, token)
        if token not in _FUNCTIONS:
            raise self.error(f"unknown operation {token!r}, one of {', '.join(_FUNCTIONS)}")
        self.take("(")
        left = self.sum()
        self.take(",")
        right = self.sum()
        self.take(")")
        return _FUNCTIONS[token](left, right)


def _parsed(text: str, scope: Scope) -> Any:
    parser = _Parser(text, scope)
    found = parser.sum()
    if parser.next:
        raise parser.error(f"unexpected {parser.next!r}")
    return found


def dim_of(text: str, scope: Scope) -> Any:
    """Parse a length from its printed form."""
    return _parsed(text, scope)


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> tuple[Any, ...]:
    """A shape from text: numbers, symbols and `+ - * ^ floordiv mod max min` of them.

    Parameters
    ----------
    constraints :
        Constraints on the symbols, for a new scope.
    scope :
        The scope of the symbols: those of one scope can be computed with.
    like :
        The shape from which "_" (one length) and "..." (all others) are taken.

    Examples
    --------

    >>> import gpuarray as ga
    >>> a, twice, n = ga.export.symbolic_shape("a, 2*a, _", like=(None, None, 7))
    >>> a + twice, n, a >= 1
    (3*a, 7, True)
    """
    text = "..." if shape_spec is None else shape_spec
    if not isinstance(text, str):
        raise ValueError(
            "A polymorphic shape spec should be None or a string. "
            f"Found {shape_spec!r} of {type(shape_spec)}."
        )
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ValueError("Cannot specify both a `scope` and `constraints`.")
    if not isinstance(scope, Scope):
        raise TypeError(f"scope must be a SymbolicScope, got {scope!r}.")
    like = None if like is None else elements(like, "a sequence of ints, None where one is open")
    bare = text.strip()
    # As a tuple prints: the brackets, and the comma of a single length.
    if bare.startswith("(") and bare.endswith(")"):
        bare = bare[1:-1].strip().removesuffix(",")
    parser = _Parser(bare, scope)
    out: list[Any] = []
    while parser.next:
        # The length that `like` has at this place, for `_` and for a check.
        given = None if like is None or len(out) >= len(like) else like[len(out)]
        if parser.next == "...":
            if like is None:
                raise parser.error("spec contains ... but no 'like' shape was given")
            if len(out) > len(like):
                raise parser.error(_too_short(out, like))
            parser.at += 1
            if parser.next:
                raise parser.error("'...' stands at the end only")
            out.extend(like[len(out) :])
        elif parser.next == "_":
            if given is None:
                if like is not None and len(out) >= len(like):
                    raise parser.error(_too_short(out, like))
                raise parser.error("spec contains '_' but no 'like' shape was given for it")
            parser.at += 1
            out.append(given)
        else:
            found = parser.sum()
            if isinstance(found, int) and given is not None and found != given:
                raise parser.error(f"different size {found} for known dimension; like={like}")
            out.append(found)
        if parser.next:
            parser.take(",")
    if like is not None and len(out) != len(like):
        raise ValueError(
            f"symbolic shape {text!r} has {len(out)} lengths, and like={tuple(like)} {len(like)}."
        )
    if None in out:
        raise ValueError(f"symbolic shape {text!r}: 'like' has no length there: {like}.")
    return tuple(out)


def _too_short(out: list, like: Sequence) -> str:
    return f"because we parsed {len(out)} already and 'like' shape has only {len(like)} dimensions"


def symbolic_args_specs(
    args: Any,
    shapes_specs: Any,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """ShapeDtypeStructs like arguments, with shapes from text, to be exported for.

    Parameters
    ----------
    shapes_specs :
        A text for all, or a pytree of them that is a prefix of `args`; None does not change a
        shape.
    constraints, scope :
        As for `symbolic_shape`.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> specs = ga.export.symbolic_args_specs((gnp.ones((3, 4)), gnp.ones(4)), ("a, b", "b"))
    >>> program = ga.export.export(ga.jit(lambda x, y: x @ y))(*specs)
    >>> program.call(gnp.ones((2, 5)), gnp.ones(5))
    Array([5., 5.], dtype=float32)
    """
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ValueError("Cannot use both `scope` and `constraints`")
    if isinstance(args, tuple) and isinstance(shapes_specs, list):
        # Arguments are a tuple; as in JAX a list of texts is accepted for it.
        shapes_specs = tuple(shapes_specs)
    leaves, spec = tree.flatten(args)
    ends = lambda x: x is None or isinstance(x, str)
    texts = tree.prefix_broadcast(shapes_specs, args, ends, "export.symbolic_args_specs")
    made = []
    for x, text in zip(leaves, texts, strict=True):
        aval = stated_aval(x if hasattr(x, "dtype") else np.asarray(x))
        shape = symbolic_shape(text, scope=scope, like=aval.shape)
        made.append(ShapeDtypeStruct(shape, aval.dtype))
    return tree.unflatten(spec, made)


def is_symbolic_dim(p: Any) -> bool:
    """Whether a length has symbols in it.

    >>> import gpuarray as ga
    >>> a, n = ga.export.symbolic_shape("a, 3")
    >>> ga.export.is_symbolic_dim(a), ga.export.is_symbolic_dim(n)
    (True, False)
    """
    return isinstance(p, Dim)


# ---- values ----


def scope_of(shapes: Sequence[tuple]) -> Scope | None:
    """The scope of the symbols in shapes; None if there are none."""
    return next((n.scope for s in shapes for n in s if isinstance(n, Dim)), None)


def solved(
    wanted: Sequence[tuple], given: Sequence[tuple[int, ...]], names: Sequence[str]
) -> dict[str, int]:
    """The values of symbols for which shapes are those that were given, or ValueError."""
    about = "Input shapes do not match the polymorphic shapes specification."
    # Every length of every argument: expected and actual.
    rows = [
        (f"{name}.shape[{i}]", length, n)
        for name, lengths, sizes in zip(names, wanted, given, strict=True)
        for i, (length, n) in enumerate(zip(lengths, sizes, strict=True))
    ]
    values: dict[str, int] = {}
    obtained: list[str] = []
    specs = ", ".join(f"{name}.shape = {shape}" for name, shape in zip(names, wanted, strict=True))
    using = f" Using the following polymorphic shapes specifications: {specs}."

    def found_so_far() -> str:
        return (
            f"{using} Obtained dimension variables: {', '.join(obtained)}." if obtained else using
        )

    # A row with only one unknown symbol, in the first power, determines it.
    left = [row for row in rows if isinstance(row[1], Dim)]
    while left:
        for row in left:
            if (found := _one_left(row[1], values)) is not None:
                break
        else:
            unknown = {s for s in symbols_in([r[1] for r in left]) if s not in values}
            rest = ", ".join(f"'{length}' for dimension size {where}" for where, length, _ in left)
            raise ValueError(
                f"Cannot solve for values of dimension variables {unknown or '{}'}. We can only "
                f"solve linear uni-variate constraints.{found_so_far()} Unprocessed "
                f"specifications: {rest}. Export an argument one of whose axes has such a symbol "
                "alone."
            )
        left.remove(row)
        where, length, n = row
        name, factor, constant = found
        # Its symbols are known by now: checked below.
        if name is None:
            continue
        value, rest = divmod(n - constant, factor)
        if rest:
            raise ValueError(
                f"{about} Division had remainder {rest} when computing the value of {name!r}."
                f"{found_so_far()} It is from {where} = {length} (= {n})."
            )
        obtained.append(
            f"{name!r} = {value} from specification '{length}' for dimension {where} (= {n})"
        )
        # Symbols are lengths of at least 1: comparisons were decided on that assumption.
        if value < 1:
            raise ValueError(
                f"{about} Expected value >= 1 for dimension variable {name!r}.{found_so_far()}"
            )
        values[name] = value
    # All symbols are known: every length has to come out as it was given.
    for where, length, n in rows:
        if value_of(length, values) != n:
            raise ValueError(
                f"{about} Found inconsistency between dimension size {where} (= {n}) and the "
                f"specification {str(length)!r} (= {value_of(length, values)}).{found_so_far()}"
            )
    scope = scope_of(wanted)
    if scope is None:
        return values
    # And the constraints have to hold, for symbols too that are written as others.
    values |= {name: value_of(d, values) for name, d in scope.defined().items()}
    for known, sign in _known(scope):
        value = value_of(known, values)
        if value < 0 or (sign == "==" and value):
            wanted_value = "equal to" if sign == "==" else "greater or equal to"
            raise ValueError(
                f"{about} Expected '{known}' to be {wanted_value} 0, but found {value}. The "
                f"constraints are {list(scope.constraints)}.{found_so_far()}"
            )
    return values


def _known(scope: Scope) -> list[tuple[Dim, str]]:
    return [(d, ">=") for d in scope.positive] + [(d, "==") for d in scope.zero]


def _one_left(length: Dim, values: dict[str, int]) -> tuple[str | None, int, int] | None:
    """The symbol without a value, its factor, and the rest, if there is at most one such symbol."""
    name, factor, constant = None, 0, 0
    for term, n in length.terms.items():
        unknown = symbols_in([simplified(Dim(length.scope, {term: 1}))])
        unknown = [s for s in unknown if s not in values]
        if not unknown:
            constant += value_of(Dim(length.scope, {term: n}), values)
            continue
        # Only `n * known + ...` can be solved: no second unknown, no power, no `mod` of one.
        atoms = [(a, p) for a, p in term if a in unknown or isinstance(a, Operation)]
        if atoms != [(unknown[0], 1)] or (name is not None and name != unknown[0]):
            return None
        name = unknown[0]
        known = [(a, p) for a, p in term if a != name]
        factor += value_of(Dim(length.scope, {tuple(known): n}), values)
    return (name, factor, constant) if name is None or factor else None
