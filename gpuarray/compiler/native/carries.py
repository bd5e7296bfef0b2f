"""Carries of loops: how an iteration's results are passed to the next one.

Floor 3. In: a carry, its initial value and the place of its last value. Out: a `MemoryCarry`, which
writes its lines before the loop, in an iteration, and after the loop. There are three ways: updates
of one array, a copy at the end of each iteration, and two alternating buffers.
"""

from __future__ import annotations

import abc

from gpuarray.compiler.native.routine import StepsWriter
from gpuarray.compiler.text import types as ct
from gpuarray.core.avals import ShapedArray
from gpuarray.core.flow import Loop
from gpuarray.core.graph import storage_dtype
from gpuarray.core.target import PROCESSOR


class MemoryCarry(abc.ABC):
    """A carry of a loop that completes an iteration before the next one.

    Attributes
    ----------
    result :
        Where the last value is wanted.
    at :
        Where an iteration finds the value.
    """

    def __init__(self, code: StepsWriter, aval: ShapedArray, result: str):
        self.code, self.aval, self.result = code, aval, result
        self.kind = ct.memory_type(aval)
        self.at = ""

    @abc.abstractmethod
    def begin(self, first: str, loop: Loop) -> None:
        """In front of the loop: memory for the value, which begins as `first`."""

    @abc.abstractmethod
    def following(self) -> str | None:
        """In an iteration: where it writes the next value, or None for the place of the current
        one.
        """

    @abc.abstractmethod
    def advance(self, following: str) -> None:
        """At the end of an iteration: the next value replaces the value."""

    @abc.abstractmethod
    def end(self) -> None:
        """After the loop: the last value is the result."""


class Updated(MemoryCarry):
    """A carry that every iteration updates in place: the result holds it throughout."""

    def begin(self, first: str, loop: Loop) -> None:
        self.at = self.result
        self.code.copy(self.at, first, self.aval.size)

    def following(self) -> None:
        return None

    def advance(self, following: str) -> None:
        pass

    def end(self) -> None:
        pass


class Copied(MemoryCarry):
    """A small carry: a local array, into which an iteration copies the next value at its end."""

    def begin(self, first: str, loop: Loop) -> None:
        self.at = self.code.new("c")
        self.code.line(f"GA_LOCAL {self.kind} {self.at}[{max(1, self.aval.size)}];")
        self.code.copy(self.at, first, self.aval.size)

    def following(self) -> str:
        return self.code.buffer_for(self.aval)

    def advance(self, following: str) -> None:
        self.code.copy(self.at, following, self.aval.size)

    def end(self) -> None:
        self.code.copy(self.result, self.at, self.aval.size)


class Alternating(MemoryCarry):
    """A large carry: pointers to the result and to a spare buffer; an iteration reads one and
    writes the other.
    """

    def begin(self, first: str, loop: Loop) -> None:
        code = self.code
        self.at, self.spare, self.next = code.new("c"), code.buffer_for(self.aval), code.new("n")
        # If the number of iterations is known, the last one writes into the result.
        is_even = loop.length is not None and loop.length % 2 == 0
        code.line(f"const {self.kind}* {self.at} = {first};")
        code.line(f"{self.kind}* {self.next} = {self.spare if is_even else self.result};")

    def following(self) -> str:
        return self.next

    def advance(self, following: str) -> None:
        n = self.next
        self.code.line(f"{self.at} = {n};")
        self.code.line(f"{n} = {n} == {self.result} ? {self.spare} : {self.result};")

    def end(self) -> None:
        # A loop with an unknown number of iterations may end on the spare buffer.
        with self.code.block(f"if ({self.at} != {self.result})", ""):
            self.code.copy(self.result, self.at, self.aval.size)
        self.code.room.free(self.spare)


def way_of(aval: ShapedArray, is_updated: bool) -> type[MemoryCarry]:
    """The class for passing a carry from iteration to iteration."""
    if is_updated:
        return Updated
    small = aval.size * storage_dtype(aval).itemsize <= PROCESSOR.carried_bytes
    return Copied if small else Alternating
