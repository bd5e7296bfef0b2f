"""Equations and folds as C++ expressions, from the `cuda` rules of their primitives.

Floor 3. In: equations, and the texts of their operands. Out: C++ expressions. No operation is
named here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.compiler.lower.kernel import NoKernel
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.types import ROUNDED_AT_ONCE, TYPES
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.fold import ELEMENT, POSITION, Identity, State, state_bytes
from gpuarray.core.graph import Eqn, storage_dtype
from gpuarray.core.primitive import Primitive, Sentinel


def expression(eqn: Eqn, operands: Sequence[str]) -> list[str]:
    """The results of a pointwise equation as text, each a value of its declared dtype."""
    out = eqn.outvars[0].aval
    templates = _templates(eqn.primitive.cuda, eqn, [a.aval for a in eqn.invars])
    # {T} and {M} in a template: the types of the first result in a register and in memory.
    types = {"T": ct.value_type(out), "M": ct.memory_type(out)}
    texts = []
    for template, v in zip(templates, eqn.outvars, strict=True):
        given, exact = operands, _is_exact(template)
        # Registers hold 16-bit floats as float: no cast is needed, only rounding.
        if template == "({T}){0}" and [ct.value_type(a.aval) for a in eqn.invars] == [types["T"]]:
            template = "{0}"
        if types["M"] == TYPES["bfloat16"] and template in ROUNDED_AT_ONCE:
            template, exact = ROUNDED_AT_ONCE[template], True
        if template.startswith("-"):  # --1 would be a decrement
            given = [f"({o})" if o.startswith("-") else o for o in operands]
        text = template.format(*given, **types)
        texts.append(text if exact else ct.rounded(text, v.aval))
    return texts


def repeated(eqn: Eqn, operands: int) -> list[int]:
    """The numbers of the operands that the text of the results names more than once."""
    marks = [f"@{k}@" for k in range(operands)]
    texts = expression(eqn, marks)
    return [k for k, mark in enumerate(marks) if any(text.count(mark) > 1 for text in texts)]


def chooses(eqn: Eqn) -> bool:
    """Whether the text of an equation is a choice between operands."""
    templates = _templates(eqn.primitive.cuda, eqn, [a.aval for a in eqn.invars])
    return any("? " in template for template in templates)


def unrounded(eqn: Eqn, operands: Sequence[str]) -> str:
    """The one result of a pointwise equation, as exact as registers hold it."""
    (template,) = _templates(eqn.primitive.cuda, eqn, [a.aval for a in eqn.invars])
    out = eqn.outvars[0].aval
    return template.format(*operands, T=ct.value_type(out), M=ct.memory_type(out))


def _is_exact(template: str) -> bool:
    """Whether a result is one of the operands up to its sign, so that it needs no rounding."""
    return (
        template in ("{0}", "-{0}")
        or " ? " in template
        or template.startswith(("ga_max(", "ga_min(", "ga_abs(", "ga_from_half_word"))
    )


def _templates(rule: Any, eqn: Eqn, avals: list[ShapedArray]) -> list[str]:
    if isinstance(rule, Sentinel):
        raise NoKernel(f"primitive {eqn.primitive.name!r} has no CUDA rule: {rule.why}")
    if callable(rule):
        # Some rules depend on dtypes or parameters: they are functions that return the text.
        rule = rule(avals, **eqn.params)
    return [rule] if isinstance(rule, str) else list(rule)


class Reducer:
    """The Fold of an equation as text: from elements over partial results to the result.

    16-bit floats come as float, and partial results stay float, so that only the result is rounded.
    """

    def __init__(self, eqn: Eqn):
        fold = eqn.primitive.fold
        if fold is None or not eqn.primitive.has_fold:
            why = "it has no Fold" if fold is None else "a part of its Fold has no CUDA text"
            raise NoKernel(f"reduction {eqn.primitive.name!r} has no CUDA rule: {why}")
        self.eqn, self.fold = eqn, fold
        self.element = eqn.invars[0].aval
        self.type = ct.value_type(self.element)
        self.state = self._type_of(fold.state)

    @property
    def has_position(self) -> bool:
        """Whether a partial result is an element with its position."""
        return isinstance(self.fold.state, tuple) and self.fold.state[1] is POSITION

    @property
    def bytes(self) -> int:
        """The size of a partial result."""
        # Halves are held as float, so their partial results take 4 bytes rather than 2.
        held = 4 if ct.is_half(self.element) else storage_dtype(self.element).itemsize
        return state_bytes(self.fold.state, held)

    @property
    def identity(self) -> str:
        """The value that a partial result starts from."""
        return self._constant(self.fold.identity, self.fold.state)

    @property
    def nothing(self) -> str:
        """The fold of no elements: the identity, but for the imaginary part of an extreme."""
        dtype = self.element.dtype
        if not self.plain or dtypes.kind_of(dtype) != "c":
            return self.identity
        return ct.constant(self.fold.of_nothing(dtype), self.element)

    @property
    def neutral(self) -> str:
        """The value that a running fold starts from: merging it changes nothing, not even -0.0."""
        return self._constant(self.fold.neutral, self.fold.state)

    def _type_of(self, state: State) -> str:
        if state is ELEMENT:
            return self.type
        if isinstance(state, tuple):
            # ga_arg is a value with its position in the row (argmax), ga_complex two values of one
            # type.
            pair = "ga_arg" if state[1] is POSITION else "ga_complex"
            return f"{pair}<{self._type_of(state[0])}>"
        return ct.value_type(_scalar(state))

    def _constant(self, identity: Any, state: State) -> str:
        if isinstance(state, tuple):
            parts = map(self._constant, identity, state)
            return f"{self._type_of(state)}{{{', '.join(parts)}}}"
        if state is POSITION:
            # ~0ull is larger than every position: a real element always comes before it.
            return "~0ull" if identity is Identity.ALL_BITS else f"{identity.of(_POSITION)}ull"
        value = identity.held(self.element.dtype if state is ELEMENT else state)
        return ct.constant(value, _scalar(value.dtype))

    def lift(self, element: str, position: str) -> str:
        """An element as a partial result."""
        return self._template(self.fold.lift).format(element, position, T=self.type)

    @property
    def function(self) -> str | None:
        """The name of the function that merges two partial results, if it is one call."""
        name, bracket, given = self._template(self.fold.merge, 2).partition("(")
        return name if bracket and given == "{0}, {1})" and name.isidentifier() else None

    def merge(self, one: str, two: str) -> str:
        """Two partial results as one."""
        return self._template(self.fold.merge, 2).format(one, two, T=self.state)

    def _template(self, part: Any, arity: int = 1) -> str:
        # A primitive has the text of its own pointwise rule; a string is a template already.
        rule = part.cuda if isinstance(part, Primitive) else part
        return rule if isinstance(rule, str) else rule([self.element] * arity)

    @property
    def merger(self) -> str:
        """`merge` as a C++ lambda, for the functions that merge over warps and blocks."""
        # States, not elements: for a sum of halves these are floats.
        args = f"{self.state} p, {self.state} q"
        return f"[]({args}) -> {self.state} {{ return {self.merge('p', 'q')}; }}"

    @property
    def plain(self) -> bool:
        """Whether partial results are like elements."""
        return self.fold.plain

    def lift_all(self, elements: Sequence[str], position: str) -> str:
        """One element of each operand as a partial result."""
        (element,) = elements
        return self.lift(element, position)

    def results(self, state: str) -> list[str]:
        """All results of the equation, from the last partial result."""
        return [self.finish(state)]

    def finish(self, state: str) -> str:
        """The result, from the last partial result."""
        text = self._template(self.fold.finish).format(state, T=self.type)
        return ct.rounded(text, self.eqn.outvars[0].aval)


# Positions are 64 bits wide in partial results, whatever the length of the row.
_POSITION = np.dtype(np.uint64)


def _scalar(dtype: np.dtype) -> ShapedArray:
    return ShapedArray((), dtype)
