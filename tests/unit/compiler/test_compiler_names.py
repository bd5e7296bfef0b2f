"""The compiler names no operation: what is particular to one is a rule of its primitive.

In: the modules of gpuarray/compiler, and the names in the registry. Out: every literal that is such
a name, every comparison of a primitive's name, every look-up in the registry. Words for people (in
docstrings and messages) and names of forms of kernels are none of these. And C++ is written where
kernels are: every literal elsewhere that looks like it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

import gpuarray.scipy.special  # noqa: F401  # registers primitives of its own
from gpuarray.core.primitive import registry
from tests.support import ROOT

PACKAGE = ROOT / "gpuarray"
COMPILER = PACKAGE / "compiler"

#: Words that are names of forms of kernels, or of what HTML writes, and of operations by chance.
WORDS = {
    "cuda/scan.py": {"scan", "tile"},
    "cuda/sort.py": {"sort"},
    "cuda/tiles.py": {"tile"},
    "explain/drawings.py": {"lt", "gt"},
    "explain/tables.py": {"scan", "sort", "scatter"},
    "lower/kernel.py": {"scan", "sort", "scatter"},
}


def operations_named(source: str, words: frozenset[str] | set[str] = frozenset()) -> list[str]:
    """Where a module names operations, as 'line: what'."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value in registry and node.value not in words and id(node) not in docstrings:
                found.append((node.lineno, repr(node.value)))
        elif isinstance(node, ast.Compare) and any(map(is_name_of_one, operands(node))):
            # A comment is left out where the text shows the name already.
            if not any(isinstance(x, ast.Name) and x.id == "text" for x in node.comparators):
                found.append((node.lineno, ast.unparse(node)))
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "registry":
            found.append((node.lineno, ast.unparse(node)))
        elif isinstance(node, ast.ImportFrom):
            found += [(node.lineno, a.name) for a in node.names if a.name.endswith("_p")]
    return [f"{line}: {what}" for line, what in sorted(found)]


def operands(node: ast.Compare) -> Iterator[ast.expr]:
    yield node.left
    yield from node.comparators


def is_name_of_one(node: ast.expr) -> bool:
    """Whether an expression is the name of a primitive."""
    if not isinstance(node, ast.Attribute) or node.attr != "name":
        return False
    return ast.unparse(node.value).rpartition(".")[2] in ("prim", "primitive", "select_prim")


def test_the_compiler_names_no_operation():
    named = {}
    for path in sorted(COMPILER.rglob("*.py")):
        name = path.relative_to(COMPILER).as_posix()
        found = operations_named(path.read_text(encoding="utf-8"), WORDS.get(name, frozenset()))
        if found:
            named[name] = found
    assert not named, "make these rules of the primitive (element=, update=, rewrite=, ...)"


# ---- text ----

#: Rooms that hold no C++.
WITHOUT_TEXT = ("core", "compiler/rewrite", "compiler/fuse", "compiler/lower")

#: Calls of our own functions, types, suffixes of numbers, statements.
_TEXT = re.compile(
    r"\bga_\w+[<(]|\bsigned char\b|\blong long\b|^unsigned$"
    r"|\b\d+u(ll)?\b|\bconst \w+ |\{T\}|[\w}] = .*;$"
)


def text_in(source: str) -> list[str]:
    """Where a module holds C++, as 'line: what'."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        f"{node.lineno}: {node.value!r}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) not in docstrings and _TEXT.search(node.value)
    ]


def test_text_stands_only_where_kernels_are_written():
    found = {
        path.relative_to(PACKAGE).as_posix(): text_in(path.read_text(encoding="utf-8"))
        for room in WITHOUT_TEXT
        for path in sorted((PACKAGE / room).rglob("*.py"))
    }
    holding = {name: lines for name, lines in found.items() if lines}
    assert not holding


@pytest.mark.parametrize(
    "source",
    [
        'access = Fixed("0u")',
        'kind = "unsigned long long" if wide else "int"',
        'text = f"ga_search<{side}>({{0}}, {n})"',
        'steps = ("{s0} = {t0};",)',
        'text = "({T}){0}"',
    ],
)
def test_text_is_found(source):
    assert text_in(source)


def test_other_literals_are_no_text():
    source = '"""const int x = 1;"""\nx = "dtype {name} is no type", "k0a_rows", "uint32"'
    assert text_in(source) == []


# ---- what the tests find ----


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ('if eqn.primitive.name == "pad": pass', "1: 'pad'"),
        ("x = prim.name in _LOOKUPS", "1: prim.name in _LOOKUPS"),
        ("def f(eqn):\n    return registry[name]", "2: registry[name]"),
        ('NAMES = ("gather", "other")', "1: 'gather'"),
        ('def f():\n    """Doc."""\n    return {"scatter-add": 1}', "3: 'scatter-add'"),
    ],
)
def test_a_name_is_found(source, what):
    assert what in operations_named(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""gather"""',
        'raise TypeError(f"{eqn.primitive.name} moves elements, as gather does")',
        "said = what.primitive.name in text",
        'x = "a gather"',
    ],
)
def test_words_for_people_are_none(source):
    assert operations_named(source) == []
