"""A debugger for running programs: `gpuarray.debug.breakpoint()`.

Floor 6. In: the frames that were on the stack when a breakpoint was traced, and, when the program
reaches it, the values of the arrays in them. Out: a prompt in which they can be looked at.
"""

from __future__ import annotations

import cmd
import inspect
import linecache
import os
import sys
from collections.abc import Callable
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple

from gpuarray import util
from gpuarray.api import callbacks
from gpuarray.core.trace import Tracer
from gpuarray.pytree import tree
from gpuarray.sites import is_inside

# Programs such as pytest: code that starts a user's program is not part of it.
_COMMANDS = os.path.join(sys.base_prefix, "bin") + os.sep


class Frame(NamedTuple):
    """One frame of the user's program: its location, and the values of its names."""

    filename: str
    line: int
    function: str
    names: dict[str, Any]
    globals: dict[str, Any]

    def source(self, context: int = 0) -> list[str]:
        """The lines around the current one, which is marked; one line if the source is not
        available.
        """
        lines = linecache.getlines(self.filename)
        if not lines:
            return ["    <no source>"]
        # linecache's lines are numbered from 1.
        first = max(1, self.line - context)
        numbered = range(first, min(len(lines), self.line + context) + 1)
        mark = {True: "-> ", False: "   "}
        return [f"{mark[n == self.line]}{n:5}  {lines[n - 1].rstrip()}" for n in numbered]


class Debugger(cmd.Cmd):
    """The prompt, with pdb's commands for inspection."""

    prompt = "(debug) "
    intro = "Stopped at a breakpoint; `help` lists the commands."

    def __init__(self, frames: list[Frame], stdin=None, stdout=None):
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None and stdout is None
        self.frames = frames
        self.at = 0  # the innermost
        self.stopped = False

    @property
    def frame(self) -> Frame:
        """The current frame."""
        return self.frames[self.at]

    def say(self, text: Any) -> None:
        print(text, file=self.stdout)

    def where(self, frame: Frame) -> str:
        return f"> {frame.filename}({frame.line}) {frame.function}"

    def evaluate(self, text: str) -> None:
        """Print the value of an expression in this frame."""
        try:
            code = compile(text.strip(), "<debugger>", "eval")
            # Copies: an expression with := must not write to the program's names.
            space = dict(self.frame.globals)
            value = eval(code, space, dict(self.frame.names))  # noqa: S307 - what a debugger is for
            self.say(repr(value))
        except Exception as error:  # whatever the user's expression raises is shown, not raised
            self.say(f"*** {type(error).__name__}: {error}")

    def do_p(self, arg: str) -> None:
        """p EXPRESSION: print its value in this frame."""
        self.evaluate(arg)

    do_pp = do_p

    def default(self, line: str) -> bool | None:
        if line == "EOF":
            return self.do_continue("")
        self.evaluate(line)
        return None

    # cmd would repeat the last command.
    def emptyline(self) -> bool:
        return False

    def do_args(self, _: str) -> None:
        """args: the names of this frame and their values."""
        for name, value in self.frame.names.items():
            self.say(f"{name} = {value!r}")

    do_a = do_args

    def do_list(self, _: str) -> None:
        """list: the lines around the current one."""
        for line in self.frame.source(5):
            self.say(line)

    do_l = do_list

    def do_where(self, _: str) -> None:
        """where: all frames, the innermost last."""
        for number, frame in reversed(list(enumerate(self.frames))):
            self.say(f"{'*' if number == self.at else ' '} {self.where(frame)}")
            self.say(frame.source()[0])

    do_bt = do_w = do_where

    def do_up(self, _: str) -> None:
        """up: look at the frame that called this one."""
        self.move(1)

    do_u = do_up

    def do_down(self, _: str) -> None:
        """down: look at the frame that this one called."""
        self.move(-1)

    do_d = do_down

    def move(self, by: int) -> None:
        if not 0 <= self.at + by < len(self.frames):
            self.say("*** no frame there")
            return
        self.at += by
        self.say(self.where(self.frame))

    def do_continue(self, _: str) -> bool:
        """continue: go on with the program."""
        return True

    do_c = do_cont = do_continue

    def do_quit(self, _: str) -> bool:
        """quit: end the program."""
        self.stopped = True
        return True

    do_q = do_exit = do_quit


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    stdin: Any = None,
    stdout: Any = None,
) -> Any:
    """Stop a running program here and open a prompt for looking at values.

    Inside a jitted function too: names then mean the values of this call. Under vmap it stops once
    for each element.

    Parameters
    ----------
    filter_frames :
        Whether to leave the library's own frames out.
    num_frames :
        The most frames to show, from the innermost.
    ordered :
        Whether several breakpoints keep the order of the program.
    stdin, stdout :
        Where to talk; default: the terminal.

    Examples
    --------

    >>> import io, gpuarray as ga
    >>> talk = io.StringIO()
    >>> @ga.jit
    ... def f(x):
    ...     y = 2 * x
    ...     ga.debug.breakpoint(stdin=io.StringIO("p y + 1"), stdout=talk)
    ...     return y
    >>> _ = f(3.0)
    >>> "Array(7., dtype=float32" in talk.getvalue()
    True
    """
    if backend not in (None, "cli"):
        raise ValueError(f"Debugger backend {backend!r} is not known: expected 'cli' or None")
    most = None if num_frames is None else util.index(num_frames)
    # Taken while the function is traced: these frames no longer exist when the program runs.
    frames = _frames(inspect.currentframe(), filter_frames)[:most]
    leaves, rebuild = _flat([frame.names for frame in frames])
    # Arrays are shown with their value at the time of the request; one that cannot be computed does
    # not stop the debugger. Only traced values go through the callback; everything else has its
    # value from when the breakpoint was traced.
    numbers = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tracer)]

    def stop(*values: Any) -> None:
        filled = list(leaves)
        for number, value in zip(numbers, values, strict=True):
            filled[number] = value
        shown = [
            frame._replace(names=known)
            for frame, known in zip(frames, rebuild(filled), strict=True)
        ]
        debugger = Debugger(shown, stdin, stdout)
        debugger.cmdloop()
        if debugger.stopped:
            # Ends the program as Ctrl-C does, through every handler of Exception.
            raise KeyboardInterrupt("stopped at a breakpoint")

    callbacks.debug_callback(stop, *(leaves[i] for i in numbers), ordered=ordered)
    return token


def _flat(names: list[dict[str, Any]]) -> tuple[list, Callable[[list], list[dict[str, Any]]]]:
    """The leaves of all values, and how to put others in their place.

    A value that cannot be flattened is a leaf.
    """
    leaves: list = []
    specs: list[dict[str, tuple[Any, int]]] = []
    for known in names:
        specs.append({})
        for name, value in known.items():
            try:
                flat, spec = tree.flatten_raw(value)
            except Exception:  # a local variable can be anything
                flat, spec = [value], None
            specs[-1][name] = (spec, len(flat))
            leaves += flat

    def rebuild(filled: list) -> list[dict[str, Any]]:
        rest = iter(filled)
        return [
            {
                name: next(rest) if spec is None else tree.unflatten_raw(spec, [*islice(rest, n)])
                for name, (spec, n) in known.items()
            }
            for known in specs
        ]

    return leaves, rebuild


def _frames(frame: FrameType | None, filtered: bool) -> list[Frame]:
    """The stack from the innermost frame of the user's outward."""
    found = []
    while frame is not None:
        name = frame.f_code.co_filename
        if name != __file__ and not (filtered and (is_inside(name) or name.startswith(_COMMANDS))):
            names = {k: v for k, v in frame.f_locals.items() if not k.startswith("__")}
            if frame.f_locals is frame.f_globals:
                names = {}  # a module's names are its globals
            found.append(Frame(name, frame.f_lineno, frame.f_code.co_name, names, frame.f_globals))
        frame = frame.f_back
    return found
