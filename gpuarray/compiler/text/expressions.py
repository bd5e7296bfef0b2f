"""The `cuda` rules of primitives, with everything filled in.

Floor 3. In: equations, and the texts of their operands. Out: C++ expressions. Nothing here knows an
operation by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuarray.compiler.text import types as ct
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, storage_dtype
from gpuarray.core.primitive import Combine, Sentinel, state_bytes
from gpuarray.primitives.reduce.ops import extreme


class NoCudaRule(TypeError):
    """An operation that has no CUDA rule was to be emitted."""


def expression(eqn: Eqn, operands: Sequence[str]) -> list[str]:
    """The results of a pointwise equation as text, each a value of its declared dtype."""
    out = eqn.outvars[0].aval
    templates = _templates(eqn.primitive.cuda, eqn, [a.aval for a in eqn.invars])
    types = {"T": ct.value_type(out), "M": ct.memory_type(out)}
    texts = []
    for template, v in zip(templates, eqn.outvars, strict=True):
        given = operands
        if template.startswith("-"):  # --1 would be something else
            given = [f"({o})" if o.startswith("-") else o for o in operands]
        text = template.format(*given, **types)
        texts.append(text if _is_exact(template) else ct.rounded(text, v.aval))
    return texts


def _is_exact(template: str) -> bool:
    """Whether a result has no more digits than the operands, so that nothing is left to round."""
    return (
        template in ("{0}", "-{0}")
        or " ? " in template
        or template.startswith(("ga_max(", "ga_min(", "ga_abs(", "ga_from_half_word"))
    )


def _templates(rule: Any, eqn: Eqn, avals: list[ShapedArray]) -> list[str]:
    if isinstance(rule, Sentinel):
        raise NoCudaRule(f"primitive {eqn.primitive.name!r} has no CUDA rule: {rule.why}")
    if callable(rule):
        rule = rule(avals, **eqn.params)
    return [rule] if isinstance(rule, str) else list(rule)


class Reducer:
    """A reduction equation as text: from elements over partial results to the result.

    16-bit floats come as float, and partial results stay float.
    """

    def __init__(self, eqn: Eqn):
        rule = eqn.primitive.cuda
        if not isinstance(rule, Combine):
            why = rule.why if isinstance(rule, Sentinel) else "its rule is not a Combine"
            raise NoCudaRule(f"reduction {eqn.primitive.name!r} has no CUDA rule: {why}")
        self.eqn, self.rule = eqn, rule
        self.element = eqn.invars[0].aval
        self.type = ct.value_type(self.element)
        self.state = rule.state.format(T=self.type)

    @property
    def bytes(self) -> int:
        """The size of a partial result."""
        return state_bytes(self.state)

    @property
    def identity(self) -> str:
        """What a partial result starts from."""
        constants = {"T": self.type, "ZERO": self._constant(0), "ONE": self._constant(1)}
        if "{ONES}" in self.rule.identity:
            constants["ONES"] = self._constant(-1)
        if "{LOW}" in self.rule.identity or "{HIGH}" in self.rule.identity:
            constants["LOW"], constants["HIGH"] = self._end(False), self._end(True)
        return self.rule.identity.format(**constants)

    def _constant(self, value) -> str:
        return ct.constant(value, self.element)

    def _end(self, largest: bool) -> str:
        if storage_dtype(self.element).kind == "c":
            infinity = float("inf" if largest else "-inf")
            return self._constant(complex(infinity, infinity))
        return self._constant(extreme(self.element.dtype, largest))

    def lift(self, element: str, position: str) -> str:
        """An element as a partial result."""
        return self.rule.lift.format(element, position, T=self.type)

    def merge(self, one: str, two: str) -> str:
        """Two partial results as one."""
        rule: Any = self.rule.merge
        template: str = rule if isinstance(rule, str) else rule([self.element] * 2)
        return template.format(one, two, T=self.state)

    @property
    def merger(self) -> str:
        """`merge` as a function."""
        args = f"{self.state} p, {self.state} q"
        return f"[]({args}) -> {self.state} {{ return {self.merge('p', 'q')}; }}"

    def finish(self, state: str) -> str:
        """The result, from the last partial result."""
        text = self.rule.finish.format(state, T=self.type)
        return ct.rounded(text, self.eqn.outvars[0].aval)
