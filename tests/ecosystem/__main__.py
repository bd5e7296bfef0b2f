"""`python -m tests.ecosystem [--only RE] [--long]`: programs of libraries, and the tests they ship.

In: an environment with the libraries but without JAX. Out: a line a suite with how many of its
tests pass and how many have to; exit status 1 where that is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree


class Suite(NamedTuple):
    """Tests of one library, and the share of them that has to pass."""

    name: str
    package: str
    paths: tuple[str, ...]  # below the package; "!x" leaves x out
    share: float
    environment: dict[str, str] = {}
    without: str = ""  # a test that is left out
    long: bool = False  # run with --long alone


SUITES = (
    Suite("imports and programs", "tests.ecosystem", ("test_programs.py",), 1.0),
    # The test of flax layers calls jax.tree_map, which JAX itself no longer has.
    Suite(
        "einops",
        "einops",
        ("tests",),
        1.0,
        {"EINOPS_TEST_BACKENDS": "numpy,jax"},
        without="test_flax_layers",
    ),
    Suite("optax losses", "optax", ("losses",), 1.0),
    Suite("optax projections", "optax", ("projections",), 1.0),
    Suite("optax, the rest", "optax", (".", "!losses", "!projections"), 0.9),
    Suite("chex", "chex", (".",), 0.97, long=True),
    Suite("jaxtyping", "tests.ecosystem", ("test_jaxtyping.py",), 1.0),
)


class Outcome(NamedTuple):
    passed: int
    failed: int
    skipped: int
    failures: list[str]

    @property
    def share(self) -> float:
        run = self.passed + self.failed
        return self.passed / run if run else 0.0


def run(suite: Suite) -> Outcome:
    """The suite in a process of its own."""
    spec = importlib.util.find_spec(suite.package)
    if spec is None or spec.origin is None:
        return Outcome(0, 1, 0, [f"{suite.package} is not installed"])
    root = Path(spec.origin).parent
    chosen = [str(root / p) for p in suite.paths if not p.startswith("!")]
    left_out = [f"--ignore={root / p[1:]}" for p in suite.paths if p.startswith("!")]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "tests.ecosystem.plugin",
            "-p", "no:cacheprovider", "--continue-on-collection-errors", "-c", os.devnull,
            "--rootdir", folder, "-o", "python_files=*_test.py test_*.py",
            f"--junitxml={report}", *left_out, *chosen,
            *(["-k", f"not {suite.without}"] if suite.without else []),
        ]  # fmt: skip
        done = subprocess.run(
            command,
            env=os.environ | suite.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if not report.exists():
            return Outcome(0, 1, 0, [(done.stdout + done.stderr)[-2000:]])
        return _read(report)


def _read(report: Path) -> Outcome:
    passed = failed = skipped = 0
    failures = []
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed += 1
            why = next(c for c in case if c.tag in ("failure", "error")).get("message") or "?"
            name = f"{case.get('classname')}.{case.get('name')}"
            failures.append(f"{name}: {why.splitlines()[0][:150]}")
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    return Outcome(passed, failed, skipped, failures)


def main() -> int:
    """Run the suites; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.ecosystem")
    parser.add_argument("--only", default="", metavar="RE", help="suites whose name matches")
    parser.add_argument("--long", action="store_true", help="the suites that take long, too")
    parser.add_argument("--failures", action="store_true", help="list what failed")
    args = parser.parse_args()
    missed = 0
    for suite in SUITES:
        if not re.search(args.only, suite.name) or (suite.long and not args.long):
            continue
        found = run(suite)
        enough = found.share >= suite.share
        missed += not enough
        print(
            f"{'ok    ' if enough else 'MISSED'} {suite.name:20} {found.passed:5} passed, "
            f"{found.failed:4} failed, {found.skipped:4} skipped: {found.share:7.2%} of "
            f"{suite.share:.0%}",
            flush=True,
        )
        if args.failures or not enough:
            print("".join(f"    {f}\n" for f in found.failures), end="", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
