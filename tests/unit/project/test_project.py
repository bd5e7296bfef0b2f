"""The project around the package: scripts, metadata, and what the package needs to be installed.

In: pyproject.toml, ci/, .ci/, and the imports of gpuarray/. Out: failures that name the file.
"""

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import gpuarray
from gpuarray import sites
from tests.support import ROOT
from tests.unit.project.test_floors import HEAVY, PACKAGE, modules_of_the_package

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SCRIPTS = sorted(
    p for p in [*ROOT.glob("ci/*"), *ROOT.glob(".ci/*")] if p.is_file() and not p.suffix
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.name)
def test_scripts_run_anywhere(script):
    text = script.read_text(encoding="utf-8")
    assert script.stat().st_mode & 0o111, "not executable"
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail\ncd " in text, "must stop at errors, and work from any folder"
    subprocess.run(["bash", "-n", script], check=True)


def run_setup(tmp_path: Path, **env: str) -> subprocess.CompletedProcess:
    command = ["/bin/bash", ROOT / "ci" / "setup", tmp_path / "venv"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def test_setup_refuses_a_python_that_will_not_do(tmp_path):
    result = run_setup(tmp_path, PATH="/usr/bin:/bin", PYTHON="/bin/false")
    assert result.returncode != 0
    assert "PYTHON=/bin/false is not a Python 3.11 or newer" in result.stderr


def test_setup_passes_over_shims_that_do_not_run(tmp_path):
    """python3.13 fails, python3.12 is too old, python3.11 is broken later: the next is taken."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, body in {
        "python3.13": "echo 'command not found' >&2; exit 127",
        "python3.12": "exit 1",
        "python3.11": 'case "$1" in -c) exit 0 ;; --version) echo chosen ;; *) exit 3 ;; esac',
        "python3": "echo 'should not be asked' >&2; exit 4",
    }.items():
        (tools / name).write_text(f"#!/bin/bash\n{body}\n")
        (tools / name).chmod(0o755)
    result = run_setup(tmp_path, PATH=f"{tools}:/usr/bin:/bin")
    assert "with chosen" in result.stderr
    assert result.returncode == 3, result.stderr  # the stand-in cannot make an environment


def test_version_is_the_same_everywhere():
    assert gpuarray.__version__ == PROJECT["version"]


def test_command_exists():
    module, name = PROJECT["scripts"]["gpuarray"].split(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_what_is_imported_is_declared():
    """A core dependency for whatever loads with the package; an extra may stand behind the rest."""
    declared = {re.split(r"[^\w]", d)[0] for d in PROJECT["dependencies"]}
    undeclared = {
        f"{module.path}:{i.line}: {i.target}"
        for module in modules_of_the_package().values()
        for i in module.imports
        if i.target.split(".")[0] not in {PACKAGE, *declared, *HEAVY, *sys.stdlib_module_names}
    }
    assert not undeclared, "\n".join(sorted(undeclared))


def bound_twice(source: str) -> list[str]:
    """Names that the top level of a module gives two values: the second takes the first one's."""
    seen, twice = set(), []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            names = [x.id for x in node.targets if isinstance(x, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and node.value and isinstance(node.target, ast.Name):
            names = [node.target.id]
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.decorator_list:
            names = [node.name]
        else:
            continue
        twice += [name for name in names if name in seen]
        seen.update(names)
    return twice


def test_no_module_gives_a_name_two_values():
    assert bound_twice("A = 1\nB: int = 2\ndef f(): A = 3\nA = 4\n") == ["A"]
    found = {p: bound_twice(p.read_text()) for p in (ROOT / "gpuarray").rglob("*.py")}
    assert {p: names for p, names in found.items() if names} == {}


def test_files_that_are_named_exist():
    """Whose line an error is about depends on them: a file that moves takes its name along."""
    named = [*sites._ON_THE_WAY, *sites._WRAPPERS]
    assert [p for p in named if not Path(p).exists()] == []


def test_settings_of_tests_are_made_before_any_import(tmp_path):
    """pytest imports every conftest.py before it calls a hook, and one of them the library."""
    script = "import tests.conftest, gpuarray as ga; print(ga.config.native, ga.config.strict)"
    env = {k: v for k, v in os.environ.items() if not k.startswith("GPUARRAY_")}
    found = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=env | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == ["off", "True"]
