"""What the documentation shows, runs: every docstring example, and every Python block in Markdown.

In: the modules under gpuarray/, README.md, CONTRIBUTING.md and docs/. Out: one test for each file
that holds examples. The blocks of a Markdown file run in order and share their names; a block that
opens with "python no-run" is only shown, one that opens with "python simulator" runs where there is
a C++ compiler, and those with "python devices" run in the run of the tests with eight devices.
"""

import doctest
import importlib
import linecache
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.keywords import registrations_put_back

pytestmark = pytest.mark.on_cpu("examples show its devices, and its last digits")

ROOT = Path(__file__).resolve().parents[1]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
COMPILER = any(map(shutil.which, ("g++", "clang++")))
FENCE = re.compile(r"^( *)```(\w*)([^\n`]*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """One Python block of a Markdown file: its text, and the line its first line stands on."""

    text: str
    line: int


def module_names() -> list[str]:
    """The dotted names of all modules whose text has an example in it."""
    names = []
    for path in sorted((ROOT / "gpuarray").rglob("*.py")):
        if ">>>" in path.read_text(encoding="utf-8"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def python_blocks(text: str, devices: bool = False) -> list[Block]:
    """The blocks fenced as python, without those that are only to be read, here or at all; those
    for eight devices, or all others.
    """
    blocks = []
    for match in FENCE.finditer(text):
        indent, language, info, body = match.groups()
        runs = "no-run" not in info and (COMPILER or "simulator" not in info)
        runs = runs and devices == ("devices" in info)
        if language == "python" and runs:
            body = "".join(line.removeprefix(indent) for line in body.splitlines(keepends=True))
            blocks.append(Block(body, text.count("\n", 0, match.start(4)) + 1))
    return blocks


def run_blocks(blocks: list[Block], path: str) -> None:
    """Run blocks in order in one namespace; those written as a session are compared with it."""
    names: dict = {"__name__": "__main__"}
    for text, line in blocks:
        if ">>>" in text:
            test = doctest.DocTestParser().get_doctest(text, names, path, path, line - 1)
            runner = doctest.DebugRunner(optionflags=FLAGS)
            runner.run(test, clear_globs=False)
            names.update(test.globs)
        else:
            # Blank lines in front make the line numbers of errors those of the file.
            exec(compile("\n" * (line - 1) + text, path, "exec"), names)


@pytest.fixture(autouse=True)
def files_stay(monkeypatch):
    """Each run of a docstring asks the disk whether any file with lines in memory has changed."""
    monkeypatch.setattr(linecache, "checkcache", lambda filename=None: None)


def markdown_files(devices: bool = False) -> list[str]:
    """The Markdown files, as paths in the checkout, that have a block to run; docs/api, which the
    site is built with, is made of docstrings.
    """
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    return [
        str(p.relative_to(ROOT))
        for p in sorted(paths)
        if python_blocks(p.read_text("utf-8"), devices)
    ]


@pytest.mark.parametrize("name", module_names())
def test_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with registrations_put_back():
        result = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples in {name} failed"


@pytest.mark.parametrize("path", markdown_files())
def test_markdown(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_blocks(python_blocks((ROOT / path).read_text(encoding="utf-8")), path)


@pytest.mark.devices
@pytest.mark.parametrize("path", markdown_files(devices=True))
def test_markdown_with_eight_devices(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_blocks(python_blocks((ROOT / path).read_text(encoding="utf-8"), devices=True), path)


def test_every_section_about_an_error_raises_it():
    sections = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8").split("\n### ")[1:]
    assert len(sections) >= 30
    for section in sections:
        assert "Traceback (most recent call last)" in section, section.splitlines()[0]


MARKDOWN = """
```python
x = 2
```

1. In a list:

   ```python
   >>> x + 1
   3
   ```

```python no-run
raise SystemExit
```

```sh
./ci/test
```
"""


def test_blocks_are_found_with_their_lines():
    assert python_blocks(MARKDOWN) == [("x = 2\n", 3), (">>> x + 1\n3\n", 9)]


def test_blocks_share_names():
    run_blocks(python_blocks(MARKDOWN), "example.md")


def test_a_wrong_session_fails():
    with pytest.raises(doctest.DocTestFailure):
        run_blocks(python_blocks(MARKDOWN.replace("3\n", "4\n")), "example.md")


def test_an_error_in_a_block_names_its_line():
    with pytest.raises(NameError) as caught:
        run_blocks(python_blocks("\n\n```python\ny = 1\nundefined\n```\n"), "example.md")
    assert caught.traceback[-1].lineno + 1 == 5
