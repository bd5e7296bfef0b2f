"""One process that runs cases with both libraries and sends back what it saw.

In: over a pipe, lists of case numbers. Out: one `Result` for each case, as soon as it is known,
so that the parent can tell which case was running when a worker died.
"""

import contextlib
import dataclasses
import importlib
import os
import signal
import time
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection
from types import CodeType
from typing import Any

from .compare import Outcome, accidental, capture, capture_error, difference, same_message
from .data import environment
from .recipes import Case, all_cases
from .tolerances import tolerance_for

SECONDS_PER_CALL = 60
CASES_PER_CLEARING = 1500
DEVICES = 8  # of the CPU, that both libraries have
#: The settings that `--setting` takes, with the values in which JAX starts.
DEFAULTS = {
    "jax_numpy_rank_promotion": "allow",
    "jax_numpy_dtype_promotion": "standard",
    "jax_debug_nans": False,
    "jax_debug_infs": False,
    "jax_enable_x64": False,
}
SUBMODULES = "scipy.special scipy.linalg scipy.stats scipy.signal ops image flatten_util".split()


@dataclasses.dataclass
class Result:
    """`status`: agree, differ, missing, beyond (the reference cannot), broken (a bad recipe)."""

    number: int
    status: str
    reason: str = ""
    error: str = ""
    other_words: str = ""
    seconds: float = 0.0


class Side:
    """One library with the environments its cases run in."""

    def __init__(self, package: str, chosen: dict[str, Any] | None = None):
        self.lib = importlib.import_module(package)
        self.chosen = dict(chosen or {})  # settings that all cases run under
        self.wide = self.chosen.pop("jax_enable_x64", False)  # what cases are given is wide, too
        for name in SUBMODULES:
            with contextlib.suppress(ImportError):
                importlib.import_module(f"{package}.{name}")
        self.environments: dict[bool, dict[str, Any]] = {}
        self.settings: tuple[bool, bool] | None = None

    def configure(self, x64: bool, partitionable: bool) -> dict[str, Any]:
        """Set the two global settings that cases choose; return the matching environment."""
        x64 = x64 or self.wide
        if self.settings != (x64, partitionable):
            self.lib.config.update("jax_enable_x64", x64)
            self.lib.config.update("jax_threefry_partitionable", partitionable)
            self.settings = (x64, partitionable)
        if x64 not in self.environments:
            for name in self.chosen:  # what every case is given is made without them
                self.lib.config.update(name, DEFAULTS[name])
            self.environments[x64] = environment(self.lib)
            for name, value in self.chosen.items():
                self.lib.config.update(name, value)
        return self.environments[x64]

    def has(self, name: str) -> bool:
        """Whether a dotted public name exists; the first part is a name of the environment."""
        first, *rest = name.split(".")
        value = self.environments[self.wide].get(first)
        for part in rest:
            value = getattr(value, part, None)
        return value is not None

    def run(self, case: Case, code: CodeType) -> Outcome:
        env = self.configure(case.x64, case.partitionable)
        try:
            with time_limit(SECONDS_PER_CALL):
                return capture(eval(code, env), self.lib)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            return capture_error(error)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after so many seconds."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"no answer after {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def compare_case(number: int, case: Case, reference: Side, ours: Side) -> Result:
    """Run one case on both sides."""
    for side in (reference, ours):
        side.configure(False, False)
    if reference.has(case.name) and not ours.has(case.name):
        return Result(number, "missing")
    try:
        code = compile(case.text, "<case>", "eval")
    except SyntaxError as error:
        return Result(number, "broken", str(error))
    want = reference.run(case, code)
    if want.error and want.error[0] == "NameError" and want.message.endswith("is not defined"):
        return Result(number, "broken", want.message)
    got = ours.run(case, code)
    if accidental(want) and not got.error:
        return Result(number, "beyond", want.message)
    reason = difference(want, got, tolerance_for(case.name))
    if reason:
        return Result(number, "differ", reason)
    error = want.error[0] if want.error else ""
    words = "" if not error or same_message(want, got) else f"{want.message!r} / {got.message!r}"
    return Result(number, "agree", error=error, other_words=words)


def work(pipe: Connection, ours: str, cache: str, chosen: dict[str, Any]) -> None:
    """Serve lists of case numbers until the pipe closes."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={DEVICES}".strip()
    os.environ["GPUARRAY_NUM_CPU_DEVICES"] = str(DEVICES)
    warnings.simplefilter("ignore")
    sides = Side("jax", chosen), Side(ours, chosen)
    if cache:  # nearly all of the reference's time is compilation
        update = sides[0].lib.config.update
        update("jax_compilation_cache_dir", cache)
        update("jax_persistent_cache_min_compile_time_secs", 0)
        update("jax_persistent_cache_min_entry_size_bytes", -1)
    cases = all_cases()
    pipe.send(None)  # ready for work
    done = 0
    with contextlib.suppress(EOFError):
        while True:
            for number in pipe.recv():
                done += 1
                if done % CASES_PER_CLEARING == 0:  # compiled code is never dropped by itself
                    sides[0].lib.clear_caches()
                started = time.monotonic()
                result = compare_case(number, cases[number], *sides)
                result.seconds = time.monotonic() - started
                pipe.send(result)
            pipe.send(None)
