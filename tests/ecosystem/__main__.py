"""`python -m tests.ecosystem [--only RE] [--long]`: programs of libraries, and the tests they ship;
`python -m tests.ecosystem --in-jax`: what the same tests give under JAX, into suites.json.

In: an environment with the libraries but without JAX (with it for `--in-jax`), and the failures
that are known, with their reasons (known.toml). Out: a line a suite; exit status 1 where a test
fails that is not known to.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

HERE = Path(__file__).parent
KNOWN = HERE / "known.toml"
#: What JAX gives: {suite: {"jax": version, "passed": n, "failed": [names], "skipped": n}}.
IN_JAX = HERE / "suites.json"


class Suite(NamedTuple):
    """Tests of one library."""

    name: str
    package: str
    paths: tuple[str, ...]  # below the package; "!x" leaves x out
    environment: dict[str, str] = {}
    long: bool = False  # run with --long alone


#: They switch 64-bit types on for the whole process.
DISTRAX_64 = (
    "_src/distributions/normal_float64_test.py",
    "_src/distributions/uniform_float64_test.py",
    "_src/bijectors/rational_quadratic_spline_float64_test.py",
)
SUITES = (
    Suite("imports and programs", "tests.ecosystem", ("test_programs.py",)),
    Suite("einops", "einops", ("tests",), {"EINOPS_TEST_BACKENDS": "numpy,jax"}),
    Suite("optax losses", "optax", ("losses",)),
    Suite("optax projections", "optax", ("projections",)),
    Suite("optax, the rest", "optax", (".", "!losses", "!projections"), long=True),
    Suite("chex", "chex", (".",), long=True),
    Suite("haiku", "haiku", (".",), long=True),
    Suite("distrax", "distrax", (".", *(f"!{p}" for p in DISTRAX_64)), long=True),
    Suite("distrax, 64 bits", "distrax", DISTRAX_64, long=True),
    Suite("jmp", "jmp", (".",)),
    Suite("jraph", "jraph", ("_src",)),
    Suite("jaxtyping", "tests.ecosystem", ("test_jaxtyping.py",)),
)


class Known(NamedTuple):
    """Tests that fail, and why: `name` is a regular expression, searched in the test's name."""

    suite: str
    name: str
    reason: str
    jax_too: bool


def known_failures() -> list[Known]:
    """The entries of known.toml."""
    entries = tomllib.loads(KNOWN.read_text(encoding="utf-8"))["failure"]
    return [Known(e["suite"], e["name"], e["reason"], e.get("jax_too", False)) for e in entries]


class Outcome(NamedTuple):
    passed: int
    failures: dict[str, str]  # the tests that failed, with the first line of why
    skipped: int


class Verdict(NamedTuple):
    """The failures of a suite, sorted: those of each entry, and those that no entry has."""

    known: list[tuple[Known, list[str]]]
    unknown: list[str]


def judge(suite: str, failures: list[str], entries: list[Known]) -> Verdict:
    """Sort failures; an entry without any comes with an empty list."""
    own = [e for e in entries if e.suite == suite]
    found = [(e, [f for f in failures if re.search(e.name, f)]) for e in own]
    return Verdict(found, [f for f in failures if not any(f in names for _, names in found)])


def run(suite: Suite, in_jax: bool = False) -> Outcome:
    """The suite in a process of its own."""
    spec = importlib.util.find_spec(suite.package)
    if spec is None or spec.origin is None:
        return Outcome(0, {suite.package: "is not installed"}, 0)
    root = Path(spec.origin).parent
    chosen = [str(root / p) for p in suite.paths if not p.startswith("!")]
    left_out = [f"--ignore={root / p[1:]}" for p in suite.paths if p.startswith("!")]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [
            sys.executable, "-m", "pytest", "-q",
            *([] if in_jax else ["-p", "tests.ecosystem.plugin"]), "-p", "tests.ecosystem.flags",
            "-p", "no:cacheprovider", "--continue-on-collection-errors", "-c", os.devnull,
            "--rootdir", folder, "-o", "python_files=*_test.py test_*.py",
            f"--junitxml={report}", *left_out, *chosen,
        ]  # fmt: skip
        done = subprocess.run(
            command,
            env=os.environ | suite.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if not report.exists():
            return Outcome(0, {suite.name: (done.stdout + done.stderr)[-2000:]}, 0)
        return read(report)


def read(report: Path) -> Outcome:
    """A report that pytest wrote."""
    passed = skipped = 0
    failures = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            why = next(c for c in case if c.tag in ("failure", "error")).get("message") or "?"
            name = f"{case.get('classname')}.{case.get('name')}"
            failures[name] = why.splitlines()[0][:150]
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    return Outcome(passed, failures, skipped)


def line(suite: Suite, found: Outcome, verdict: Verdict, in_jax: dict) -> str:
    """What the run of a suite comes to, beside what JAX gives."""
    text = (
        f"{'MISSED' if verdict.unknown or not found.passed else 'ok    '} {suite.name:20} "
        f"{found.passed:5} passed, {len(found.failures) - len(verdict.unknown):3} known to fail, "
        f"{len(verdict.unknown):3} others failed, {found.skipped:3} skipped"
    )
    if suite.name in in_jax:
        there = in_jax[suite.name]
        text += f"   (JAX {there['jax']}: {there['passed']} passed, {len(there['failed'])} failed)"
    return text


def measure_jax(only: str) -> int:
    """Run the libraries' own suites under JAX, and keep what comes."""
    kept = json.loads(IN_JAX.read_text(encoding="utf-8")) if IN_JAX.exists() else {}
    for suite in SUITES:
        if suite.package == "tests.ecosystem" or not re.search(only, suite.name):
            continue
        found = run(suite, in_jax=True)
        kept[suite.name] = {
            "jax": importlib.metadata.version("jax"),
            "passed": found.passed,
            "failed": sorted(found.failures),
            "skipped": found.skipped,
        }
        print(
            f"{suite.name:20} {found.passed:5} passed, {len(found.failures):3} failed", flush=True
        )
        IN_JAX.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0


def main() -> int:
    """Run the suites; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.ecosystem")
    parser.add_argument("--only", default="", metavar="RE", help="suites whose name matches")
    parser.add_argument("--long", action="store_true", help="the suites that take long, too")
    parser.add_argument("--failures", action="store_true", help="list what failed, and why")
    parser.add_argument("--in-jax", action="store_true", help="run them under JAX, and keep that")
    args = parser.parse_args()
    if args.in_jax:
        return measure_jax(args.only)
    entries = known_failures()
    in_jax = json.loads(IN_JAX.read_text(encoding="utf-8"))
    missed = 0
    for suite in SUITES:
        if not re.search(args.only, suite.name) or (suite.long and not args.long):
            continue
        found = run(suite)
        verdict = judge(suite.name, list(found.failures), entries)
        missed += bool(verdict.unknown) or not found.passed
        print(line(suite, found, verdict, in_jax), flush=True)
        for name in verdict.unknown:
            print(f"    {name}: {found.failures[name]}", flush=True)
        for entry, names in verdict.known:
            if not names:
                print(f"    none fails any more of {entry.name!r} in known.toml", flush=True)
            elif args.failures:
                also = ", and under JAX" if entry.jax_too else ""
                print(f"    {len(names)} known{also}: {entry.name}: {entry.reason}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
