"""Programs over several devices that NumPy runs until they are compiled in the background.

Floor 4. In: a Plan, NumPy's function of it, and how long its calls take. Out: a compiled function,
and whether it agrees with NumPy: as in `later`, but all devices of a call run the same code, since
their last digits would otherwise differ where they have to branch alike. A program with exchanges
is tried without repeating them: each device receives the values that it received when NumPy ran.
"""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpuarray.backends.native.later import background, compared, native
from gpuarray.compiler.pipeline import Plan
from gpuarray.config import config
from gpuarray.core.target import PROCESSOR

_log = logging.getLogger("gpuarray")

#: The values a device received at its exchanges, in order.
Heard = list[Any]


class CompiledLater:
    """A program over devices that is compiled when it has run for a while.

    `new` is its compiled function as soon as there is one, until the fleet takes it for a trial.
    """

    def __init__(self, plan: Plan, consts: Sequence, donated: frozenset[int], plain: Any):
        self.plan, self.consts, self.donated, self.plain = plan, consts, donated, plain
        self.new: Any = None
        self.calls, self.seconds = 0, 0.0
        self.waits = True  # until it is requested, or not worthwhile

    def count(self, seconds: float, devices: int) -> None:
        """Count a call; request compiled code when calls have taken as long as a compiler would."""
        # Threads may lose each other's counts.
        self.calls, self.seconds = self.calls + 1, self.seconds + seconds
        if self.calls > 1 and self.seconds * 1000 >= config.values["native_after"]:
            self.waits = False
            # Weakly: a program that is no longer referenced is not worth compiling.
            this: weakref.ref[CompiledLater] = weakref.ref(self)
            background.submit(lambda: _compile(this))
        elif self.calls == PROCESSOR.trial_calls:
            # Native code could save less than the rest of such a call takes.
            self.waits = self.seconds >= self.calls * devices * PROCESSOR.trial_seconds

    def agrees(self, new: Any, rows: list[tuple], wanted: list[list], heard: list[Heard]) -> bool:
        """Whether a compiled function gives NumPy's results for the operands of each device and the
        values that it received.
        """
        name, why = self.plan.graph.debug_name, "computes something else than NumPy"
        try:
            agree = self._agree(new, rows, wanted, heard)
        except Exception as error:  # NumPy has an answer: no error of the call
            agree, why = False, f"could not be tried ({error!r})"
        if not agree:
            _log.info("%s over devices: native code %s; NumPy goes on", name, why)
        return agree

    def _agree(self, new: Any, rows: list[tuple], wanted: list[list], heard: list[Heard]) -> bool:
        if new.talks != self.plain.talks:
            return False
        exact = compared.is_exact(self.plan.graph)
        for row, want, answers in zip(rows, wanted, heard, strict=True):
            count = len(self.plan.graph.invars)
            given, rest = row[:count], row[count:]
            told = [value for answer in answers for value in answer]
            found = _told(new, row, answers)
            if compared.agree(found, want, [*given, *told], exact):
                continue
            again = functools.partial(_again, self.plain, rest, answers)
            if not compared.is_unsteady(found, want, given, exact, again):
                return False
        return True


def _compile(this: weakref.ref[CompiledLater]) -> None:
    later = this()
    if later is not None:
        later.new = native.compile_behind(later.plan, later.consts, later.donated, {})


def noted(program: Iterator[Any], heard: Heard) -> Iterator[Any]:
    """Return a device's program that records the values received at its exchanges."""
    answer: Any = None
    try:
        while True:
            asked = program.send(answer)  # pyright: ignore[reportAttributeAccessIssue]
            answer = yield asked
            heard.append(answer)
    except StopIteration as end:
        return end.value
    finally:
        program.close()  # pyright: ignore[reportAttributeAccessIssue]


def _again(run: Callable[..., Any], rest: Sequence, heard: Heard, given: list) -> list:
    """Return the results of a device's function for other operands."""
    return _told(run, (*given, *rest), heard)


def _told(run: Callable[..., Any], row: Sequence, heard: Heard) -> list:
    """Return the results of a device's function for its operands and given received values."""
    program = run(*row)
    if not run.talks:  # pyright: ignore[reportFunctionMemberAccess]
        return program
    try:
        program.send(None)
        for answer in heard:
            program.send(answer)
    except StopIteration as end:
        return end.value
    finally:
        program.close()
    raise RuntimeError("it exchanges more values than NumPy did")
