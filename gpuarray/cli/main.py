"""The commands: report, doctor, demo, bench, launch.

Floor 8. In: the command line's words. Out: text on standard output, and an exit status (0: all is
well).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import gpuarray as ga
from gpuarray.cli import benchmark, checks, demo, launch, machine


def run(argv: Sequence[str]) -> int:
    """Run one command; the exit status."""
    # Before argparse, which would not pass unknown options on.
    if argv and argv[0] == "bench":
        return benchmark.run(argv[1:])  # it parses its own options
    if argv and argv[0] == "launch":
        return launch.run(argv[1:])
    args = _parser().parse_args(argv)
    try:
        if args.command == "demo":
            return demo.run(args.out, args.size, args.only)
        return _report(advise=args.command == "doctor")
    except BrokenPipeError:  # the reader of a pipe went away: `python -m gpuarray | head`
        # Suppress the interpreter's message about the broken pipe at exit.
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gpuarray",
        description="Say what is here and check that it works (no command), or run one of:",
    )
    parser.add_argument("--version", action="version", version=f"gpuarray {ga.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("doctor", help="the same, with advice")
    shown = commands.add_parser("demo", help="fuse real programs, time them, draw the result")
    shown.add_argument("--out", type=Path, default=Path("gpuarray-demo"), help="folder to write to")
    shown.add_argument(
        "--size",
        type=_positive,
        default=demo.SIZE,
        metavar="N",
        help="elements in the largest arrays (default: %(default)s)",
    )
    shown.add_argument("--only", metavar="NAME", choices=demo.NAMES, help=", ".join(demo.NAMES))
    commands.add_parser("bench", help="the benchmarks of a checkout; `bench --help` for options")
    commands.add_parser("launch", help="a program as several processes; `launch --help`")
    return parser


def _positive(text: str) -> int:
    # `--size 1e6` reads better than its zeros.
    number = int(float(text)) if "e" in text.lower() else int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a positive number of elements, got {text}")
    return number


def _report(advise: bool) -> int:
    """Print the report on the installation, the self-check, and with `advise` some advice."""
    print(f"gpuarray {ga.__version__}")
    found = machine.look()
    for section in found.sections:
        print(f"\n{section.title}")
        for name, value in section.rows:
            print(f"  {name:<16}  {value}")
    print(f"\nself-check: programs with known results, on {', '.join(map(str, ga.devices()))}")
    # Last, because it takes longest: the facts are on the screen by then.
    failures = 0
    for result in checks.run_all():
        print(f"  {result.name:<16}  {result.text}")
        failures += not result.ok
    if advise:
        print("\nadvice")
        lines = machine.advice(found)
        for line in lines or ["nothing to improve that can be seen from here"]:
            print(f"  - {line}")
    elif failures == 0:
        print("\nall well; `python -m gpuarray doctor` looks for what could be better")
    if failures:
        print(f"\n{failures} of the checks failed: results on this machine cannot be trusted.")
    return 1 if failures else 0
