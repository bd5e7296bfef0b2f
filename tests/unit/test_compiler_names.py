"""The compiler names no operation: what is particular to one is a rule of its primitive.

In: the modules of gpuarray/compiler, and the names in the registry. Out: every literal that is such
a name, every comparison of a primitive's name, every look-up in the registry. Words for people (in
docstrings and messages) and names of forms of kernels are none of these.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuarray.scipy.special  # noqa: F401  # registers primitives of its own
from gpuarray.core.primitive import registry

COMPILER = Path(__file__).resolve().parents[2] / "gpuarray" / "compiler"

#: Modules that name operations still. One that no longer does must go from here.
STILL = {
    "cuda/emit.py",
    "cuda/scan.py",
    "cuda/sort.py",
    "lower/inline.py",
    "lower/scans.py",
    "lower/sorts.py",
    "lower/user.py",
    "pipeline.py",
    "rewrite/products.py",
    "rewrite/simplify.py",
    "rewrite/small_axes.py",
}

#: Words that are names of forms of kernels, or of what HTML writes, and of operations by chance.
WORDS = {
    "cuda/scan.py": {"scan", "tile"},
    "cuda/sort.py": {"sort"},
    "cuda/tiles.py": {"tile"},
    "explain/drawings.py": {"lt", "gt"},
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
    new = {name: found for name, found in named.items() if name not in STILL}
    assert not new, "make these rules of the primitive (element=, update=, ...)"
    assert not STILL - set(named), "these name no operation any more: take them out of STILL"


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
