"""Programs that NumPy runs until they are compiled in the background.

Floor 4. In: a Plan. Out: a function on NumPy buffers that measures its calls. When they have taken
long enough it is compiled in the background. In one more call NumPy gives the result, and the
compiled code is run for comparison: if they agree it is used from then on, and if they do not
(compilers have bugs) NumPy continues. The compiler is loaded when first needed: most programs end
before.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.backends.numpy import program as host
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.config import config
from gpuarray.core.graph import Graph, has_effect, stored_constants
from gpuarray.core.target import PROCESSOR
from gpuarray.util import function_of_text, lazy_module

background: Any = lazy_module("gpuarray.backends.native.background")
compared: Any = lazy_module("gpuarray.backends.native.compared")
native: Any = lazy_module("gpuarray.backends.native.program")

_log = logging.getLogger("gpuarray")


class _TimedWriter(host.NumpyProgramWriter):
    """Writes plans for NumPy that report how long each call takes."""

    def measure(self, count: Callable[[float], None]) -> None:
        """Have `count` called with the seconds of each call."""
        self.timer, self.count = self.bind("timer", time.perf_counter), self.bind("count", count)
        self.line(f"begun = {self.timer}()")

    def write_return(self) -> None:
        """Write the line that returns the results, after the one that counts."""
        if hasattr(self, "count"):
            self.line(f"{self.count}({self.timer}() - begun)")
        super().write_return()


def build_later(plan: Plan, consts: Sequence, donated: frozenset[int]) -> Callable[..., list]:
    """Return the function for NumPy, which is replaced when it has run for a while.

    As a rule, a program that has taken as long as a compiler would is going to run again; one that
    is called once or twice costs no compiler.
    """
    writer = _TimedWriter(plan, consts, donated)
    calls, seconds = 0, 0.0

    def count(spent: float) -> None:
        # Threads may lose each other's counts.
        nonlocal calls, seconds
        calls, seconds = calls + 1, seconds + spent
        if calls > 1 and seconds * 1000 >= config.values["native_after"]:
            # Calls that come before the compiler is done are counted no more.
            writer.space[writer.count] = _nothing
            background.submit(compile)
        elif calls == PROCESSOR.trial_calls and seconds < calls * PROCESSOR.trial_seconds:
            # Most of the time of so short a call is not NumPy's, and counting takes its share.
            become(plainly())

    def plainly() -> Any:
        plain = host.NumpyProgramWriter(plan, consts, donated)
        # The names in this space must not change: the function may be running.
        writer.space.update(plain.space)
        plain.space = writer.space
        return plain.function()

    def become(new: Any) -> None:
        # Holders of the function run the new code from the next call on; the globals are the same,
        # since both were written into one space.
        old: Any = this()
        if old is not None:
            old.__dict__.pop("profiled", None)
            old.__dict__.update(new.__dict__)
            old.__code__ = new.__code__

    def compile() -> None:
        # The program may have been freed by the time it is compiled.
        if this() is not None:
            new = native.compile_behind(plan, consts, donated, writer.space) if twice else None
            become(plainly() if new is None else trial(new))

    def trial(new: Any) -> Any:
        """Return a function that runs a call both ways, and then becomes one of them."""
        plain = plainly()

        def both(buffers: list, *owned: frozenset[int]) -> list:
            why = "computes something else than NumPy"
            found = agree = None

            def again(other: list) -> list:
                return plain(*other, *(frozenset() for _ in owned))

            try:
                # First, and without permission to overwrite anything.
                found = new(*buffers, *(frozenset() for _ in owned))
            except Exception as error:  # NumPy has an answer: no error of the call
                why = f"raised {error!r}"
            wanted = plain(*buffers, *owned)
            try:
                if found is not None:
                    exact = compared.is_exact(plan.graph)
                    agree = compared.agree(found, wanted, buffers, exact)
                    agree = agree or compared.is_unsteady(found, wanted, buffers, exact, again)
            except Exception as error:  # our own bug, or no memory: NumPy's results stay right
                why = f"could not be compared with NumPy ({error!r})"
            if not agree:
                _log.info("%s: native code %s; NumPy goes on", name, why)
            become(new if agree else plain)
            return wanted

        names = [f"a{i}" for i in range(len(plan.graph.invars))]
        owned = ["owned"] * bool(donated)
        call = (
            f"{writer.bind('both', both)}([{', '.join(names)}]{''.join(f', {o}' for o in owned)})"
        )
        text = f"def plan({', '.join([*names, *owned])}):\n    return {call}"
        made: Any = function_of_text(text, "<plan>", writer.space)
        made.__dict__.update(plain.__dict__)
        made.source, made.sites = text, {}
        return made

    writer.measure(count)
    function: Any = writer.function()
    name = plan.graph.debug_name
    # A program that prints, or waits for other devices, cannot be run twice: NumPy keeps it.
    twice = not function.talks and not any(map(has_effect, plan.graph.eqns))
    # Weakly: a program that is no longer referenced is not worth compiling, and must not be kept
    # alive by the queue.
    this = weakref.ref(function)
    return function


def compile_graph(graph: Graph) -> Callable[..., list]:
    """Compile a Graph alone, such as the computation inside a collective, to a function on
    buffers.
    """
    plan = plan_graph(graph)
    return build_later(plan, stored_constants(plan.graph), frozenset())


def _nothing(seconds: float) -> None:
    """Take the place of a counter that has counted enough."""
