"""Iterations of a loop with halves, in blocks: CPUs convert them to floats and back a vector at a
time.

Floor 3. In: the lines of an iteration of an innermost loop. Out: the lines of as many iterations as
a vector has floats. Compilers do not vectorise such conversions, so each is a call for the whole
block, and the lines between them are loops over it. g++ makes each of these one vector, and keeps
values between them in registers.
"""

from __future__ import annotations

import re

from gpuarray.compiler.text.reader import commented
from gpuarray.util import Struct

#: The beginning of the text that reads a half, rounds a value to one, or stores one.
READ, ROUNDED, STORED = "ga_value(", "ga_round<ga_f16>(", "ga_exact<ga_f16>("

_WORD = re.compile(r"\w+")
_NAMED = re.compile(r"const ([\w ]+) (\w+) = .*;")
_STORE = re.compile(r"\w+\[[^=]*\] = .*;")

#: Types as wide as floats, and those of comparisons and counters: compilers do not vectorise such
#: short loops with other types.
_KINDS = {"float", "int", "unsigned", "bool", "ga_index"}


class HalfLine(str):
    """A line that reads, rounds or stores a half; reads and stores along neighbours in memory.

    Attributes
    ----------
    how :
        READ, ROUNDED or STORED.
    variable :
        The value that it names or stores.
    what :
        The place in memory, or the expression that is rounded.
    """

    __slots__ = ("how", "variable", "what")

    how: str
    variable: str
    what: str

    def __new__(cls, text: str, how: str, variable: str, what: str) -> HalfLine:
        made = super().__new__(cls, text)
        made.how, made.variable, made.what = how, variable, what
        return made


class _Line(Struct):
    """A line of a stage, and the value that it makes, if any."""

    text: str
    comment: str
    name: str = ""
    is_rounded: bool = False


class Block:
    """A block of iterations: stages, each a loop over the block, and conversions between them."""

    def __init__(self, position: str):
        self._position = position
        self._stages: list[list[_Line]] = []
        # Of values: their types, the first stage that can read them, and the stages that do.
        self._kinds: dict[str, str] = {}
        self._first: dict[str, int] = {}
        self._readers: dict[str, set[int]] = {}
        self._reads: list[HalfLine] = []
        self._stores: list[HalfLine] = []

    @property
    def converts(self) -> bool:
        """Whether halves are converted; a copy moves them unchanged."""
        lines = [line for stage in self._stages for line in stage]
        return any(line.is_rounded for line in lines) or bool(self._reads and lines)

    def add(self, line: str) -> bool:
        """Add a line of an iteration; return whether that is possible."""
        half = line if isinstance(line, HalfLine) else None
        if half is not None and half.how == READ:
            self._reads.append(half)
            self._made(half.variable, "float", 0)
            return True
        if half is not None and half.how == STORED:
            self._stores.append(half)
            return half.variable in self._kinds
        text, _, comment = (part.strip() for part in line.partition("  // "))
        named = _NAMED.fullmatch(text)
        if not (named[1] in _KINDS if named else _STORE.fullmatch(text)) or "ga_flag(" in text:
            return False
        # In the first stage in which all that it reads is there.
        read = set(_WORD.findall(text)) & set(self._kinds)
        if named is None and any(self._kinds[v] == "bool" for v in read):
            return False  # a store of bytes
        stage = max((self._first[v] for v in read), default=0)
        for v in read:
            self._readers[v].add(stage)
        name = named[2] if named else ""
        if half is not None:
            text = f"{name}_[l] = {half.what};"
        if len(self._stages) == stage:
            self._stages.append([])
        self._stages[stage].append(_Line(text, comment, name, half is not None))
        if named:
            self._made(name, named[1], stage + (half is not None))
        return True

    def _made(self, name: str, kind: str, stage: int) -> None:
        """Note a value."""
        self._kinds[name], self._first[name], self._readers[name] = kind, stage, set()

    def lines(self, depth: int) -> list[str]:
        """The block as text."""
        begin, at = "    " * depth, self._position
        lines = [line for stage in self._stages for line in stage]
        # Values that are converted, or read by later stages, are in an array.
        held = {x.variable for x in (*self._reads, *self._stores)}
        held |= {line.name for line in lines if line.is_rounded}
        held |= {v for v, readers in self._readers.items() if readers - {self._first[v]}}
        made: list[str] = []
        # Bools as numbers: a loop that reads conditions from memory as bytes is not vectorised.
        kinds = {v: "int" if k == "bool" else k for v, k in self._kinds.items() if v in held}
        for kind in dict.fromkeys(kinds.values()):
            arrays = [f"{v}_[GA_HALVES]" for v, k in kinds.items() if k == kind]
            made.append(f"{begin}GA_LOCAL {kind} {', '.join(arrays)};")
        made += [f"{begin}ga_widen({x.variable}_, &{x.what});" for x in self._reads]
        for number, stage in enumerate(self._stages):
            made.append(f"{begin}ga_each_half({at}, [&](ga_index {at}, int l) GA_STEP {{")
            own = {line.name for line in stage}
            made += [
                f"{begin}    const {kind} {v} = {v}_[l]{' != 0' if kind == 'bool' else ''};"
                for v, kind in self._kinds.items()
                if number in self._readers[v] and v not in own
            ]
            for line in stage:
                made.append(commented(f"{begin}    {line.text}", line.comment))
                if line.name in held and not line.is_rounded:
                    made.append(f"{begin}    {line.name}_[l] = {line.name};")
            made.append(f"{begin}}});")
            # A store rounds values that are not read otherwise.
            rounded = [x.name for x in stage if x.is_rounded and self._readers[x.name]]
            made += [f"{begin}ga_as_halves({v}_);" for v in rounded]
        return made + [f"{begin}ga_narrow(&{x.what}, {x.variable}_);" for x in self._stores]


def in_block(position: str, turn: list[str]) -> Block | None:
    """The lines of an iteration as a block of iterations; None if they have other forms, or convert
    nothing.
    """
    block = Block(position)
    return block if all(map(block.add, turn)) and block.converts else None
