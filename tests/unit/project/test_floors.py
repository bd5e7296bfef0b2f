"""The layout law: who may import whom, and what no module may do.

In: the syntax trees of every module under gpuarray/ (nothing is imported). Out: one assertion that
lists every violation as "file:line what, and what to do".

Floors: a module imports strictly lower floors, or its own package; never in a circle. The public
floor is the one wide one: its rooms may stand on one another (numpy on functions, api on numpy),
never in a circle.
"""

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support import ROOT

PACKAGE = "gpuarray"

FLOORS = {
    "settings": -1,  # tables that config reads
    "xla_settings": -1,
    "config": 0,
    "errors": 0,
    "missing": 0,
    "sites": 0,
    "util": 0,
    "names": 1,
    "pytree": 1,
    "core": 1,
    "primitives": 2,
    "transforms": 3,
    "compiler": 3,
    "control": 4,
    "backends": 4,
    "runtime": 5,
    # every other name is PUBLIC
    "__init__": 7,
    "cli": 8,
    "__main__": 9,
}
PUBLIC = 6

# Inside the compiler the rooms are floors too: a module imports rooms before its own, or its own.
ROOMS = (
    "rewrite",
    "partition",
    "fuse",
    "lower",
    "text",
    "cuda",
    "native",
    "check",
    "pipeline",
    "explain",
)

# Third-party modules that load on first use, through util.lazy_module, never by importing gpuarray.
HEAVY = {"scipy", "cupy", "cupyx", "matplotlib", "mpi4py", "tensorstore", "threadpoolctl"}
CUPY = {"cupy", "cupyx", "cupy_backends"}
CUPY_IMPORTER = f"{PACKAGE}.backends.cuda"
DYNAMIC_IMPORTS = {"lazy_module", "import_module", "__import__"}

MAX_LINES = 650


@dataclass(frozen=True)
class Import:
    """One import of `target`: where, and whether it runs when the module is imported."""

    target: str
    line: int
    at_load: bool
    by_name: bool = False  # through lazy_module("x") or import_module("x")


@dataclass
class Module:
    """One parsed file: its dotted name, its shown path, and its imports."""

    name: str
    path: str
    lines: int
    is_package: bool = False
    imports: list[Import] = field(default_factory=list)

    @property
    def unit(self) -> str:
        """The part of the package that has a floor: a top-level module or subpackage."""
        return self.name.split(".")[1] if "." in self.name else "__init__"

    @property
    def floor(self) -> int:
        return FLOORS.get(self.unit, PUBLIC)

    @property
    def room(self) -> int:
        """Which room of the compiler it is in; -1 for what is outside them."""
        parts = self.name.split(".")
        return ROOMS.index(parts[2]) if len(parts) > 2 and parts[2] in ROOMS else -1


# ---- reading

#: Nodes that hold no others.
LEAVES = ast.expr_context, ast.Name, ast.Constant, ast.operator, ast.cmpop


@functools.cache
def modules_of_the_package() -> dict[str, Module]:
    files = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / PACKAGE).rglob("*.py"))
    }
    assert files, "no modules found"
    return read_modules(files)


def read_modules(files: dict[str, str]) -> dict[str, Module]:
    """Parse {"gpuarray/util.py": source} into {"gpuarray.util": Module}."""
    modules = {}
    for path, source in files.items():
        parts = list(Path(path).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules[name] = Module(name, path, source.count("\n"), is_package)
    for path, module in zip(files, modules.values(), strict=True):
        module.imports = list(find_imports(ast.parse(files[path], path), module, modules.keys()))
    return modules


def find_imports(tree: ast.Module, module: Module, known: Iterable[str]) -> Iterator[Import]:
    """Yield the imports of one file. Those for type checkers count: readers follow them too."""
    stack: list[tuple[ast.AST, bool]] = [(tree, True)]
    while stack:
        node, at_load = stack.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, at_load)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, module)
            for alias in node.names:
                submodule = f"{base}.{alias.name}"
                yield Import(submodule if submodule in known else base, node.lineno, at_load)
        elif isinstance(node, ast.Call) and (target := imported_by_name(node, module)):
            yield Import(target, node.lineno, at_load, by_name=True)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            at_load = False
        # Not by `iter_child_nodes`: names and constants are half of a million nodes.
        for value in vars(node).values():
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, ast.AST) and not isinstance(child, LEAVES):
                    stack.append((child, at_load))


def absolute(node: ast.ImportFrom, module: Module) -> str:
    """The dotted name that `from X import …` means, relative forms included."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    parts = parts[: len(parts) - node.level + module.is_package]
    return ".".join(parts + ([node.module] if node.module else []))


def imported_by_name(call: ast.Call, module: Module) -> str | None:
    """The module that a call such as lazy_module("scipy.special") names, if it is such a call."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else None
    function = call.func.id if isinstance(call.func, ast.Name) else function
    if function not in DYNAMIC_IMPORTS or not call.args:
        return None
    name = call.args[0]
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return None
    return PACKAGE + name.value if name.value.startswith(".") else name.value


# ---- the laws


def violations(modules: dict[str, Module]) -> list[str]:
    """Every breach of the layout law, in file order, circles last."""
    found = []
    for module in modules.values():
        if module.lines > MAX_LINES:
            found.append(f"{module.path}: {module.lines} lines, over {MAX_LINES}: split it")
        for imported in sorted(module.imports, key=lambda i: i.line):
            reason = breach(module, imported)
            if reason:
                found.append(f"{module.path}:{imported.line}: {reason}")
    return found + circles(modules)


def breach(module: Module, imported: Import) -> str | None:
    """Why `module` may not import this, or None."""
    top = imported.target.split(".")[0]
    if top in CUPY and not module.name.startswith(CUPY_IMPORTER):
        return f"imports {imported.target}: only {CUPY_IMPORTER} knows CuPy"
    if top in HEAVY and imported.at_load and not imported.by_name:
        return f'imports {imported.target} at load: use util.lazy_module("{imported.target}")'
    if top != PACKAGE:
        return None
    if not imported.at_load:
        # The package's own __init__ may load a public namespace on first use; nobody else may.
        if imported.by_name and module.name == PACKAGE:
            return None
        return f"imports {imported.target} inside a function: move what is shared to a lower floor"
    target = Module(imported.target, "", 0)
    if module.unit == target.unit == "compiler" and module.room < target.room:
        return f"room {ROOMS[module.room]!r} imports {imported.target} of a later one"
    if target.unit == module.unit or target.floor < module.floor:
        return None
    if target.floor == module.floor == PUBLIC:
        return None
    return f"floor {module.floor} imports {imported.target} of floor {target.floor}"


def circles(modules: dict[str, Module]) -> list[str]:
    """Circles among modules, and among the public namespaces each taken as a whole."""
    edges = {
        name: sorted({i.target for i in m.imports if i.at_load and i.target in modules} - {name})
        for name, m in modules.items()
    }
    units: dict[str, set[str]] = {}
    for name, targets in edges.items():
        ends = {modules[target].unit for target in targets} - {modules[name].unit}
        units.setdefault(modules[name].unit, set()).update(ends)
    found = [f"circle of modules: {' -> '.join(c)}" for c in strongly_connected(edges)]
    packages = {unit: sorted(ends) for unit, ends in units.items()}
    return found + [f"circle of packages: {' -> '.join(c)}" for c in strongly_connected(packages)]


def strongly_connected(edges: dict[str, list[str]]) -> list[list[str]]:
    """The groups of two or more nodes that reach one another."""

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        stack = list(edges.get(start, ()))
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                stack.extend(edges.get(node, ()))
        return seen

    reached = {node: reach(node) for node in edges}
    groups = []
    for node in edges:
        group = sorted(m for m in reached[node] if m in edges and node in reached[m])
        if len(group) > 1 and group not in groups:
            groups.append(group)
    return groups


# ---- the tests


def test_the_tests_mirror_the_package():
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("*.py")}
    assert Path(".") not in folders, "a test stands in the folder of what it tests"
    package = ROOT / PACKAGE
    for folder in folders - {Path("project")}:
        of_a_file = (package / folder).with_suffix(".py")
        assert (package / folder).is_dir() or of_a_file.is_file(), f"no {folder} in {PACKAGE}/"


def test_the_package_keeps_the_layout_law():
    found = violations(modules_of_the_package())
    assert not found, f"{len(found)} violations of the layout law:\n" + "\n".join(found)


# Planted packages, {"core/graph": its source}: what passes, and what each law must find.

ALLOWED = {
    "lower floors and the own package": {
        "util": "import numpy as np",
        "core/graph": "from gpuarray import util\nfrom gpuarray.core import avals",
        "core/avals": "import gpuarray.util as util",
        "primitives/reduce": "from ..core.graph import x\nfrom . import elementwise",
        "primitives/elementwise": "",
    },
    "public namespaces on one another": {
        "nn/__init__": "import gpuarray.numpy",
        "numpy/__init__": "from . import linalg",
        "numpy/linalg": "from ..lax import dot",
        "lax": "",
    },
    "a namespace loaded on first use by the package itself": {
        "__init__": "def __getattr__(name):\n    return import_module('gpuarray.scipy')",
    },
    "heavy modules on first use": {
        "lax": "sp = lazy_module('scipy.special')",
        "draw": "def draw():\n    import matplotlib.pyplot",
        "backends/cuda": "cupy = lazy_module('cupy')",
    },
}

REFUSED = {
    "floor 1 imports gpuarray.primitives.reduce of floor 2": [
        {"core/graph": "from gpuarray.primitives import reduce", "primitives/reduce": ""},
        {"core/graph": "import gpuarray.primitives.reduce", "primitives/reduce": ""},
        {"core/graph": "from ..primitives.reduce import x", "primitives/reduce": ""},
        {
            "core/graph": "try:\n    from ..primitives import reduce\nfinally:\n    pass",
            "primitives/reduce": "",
        },
        {"core/__init__": "from ..primitives import reduce", "primitives/reduce": ""},
        {
            "core/graph": "if TYPE_CHECKING:\n    from gpuarray.primitives import reduce",
            "primitives/reduce": "",
        },
    ],
    "floor 1 imports gpuarray of floor 7": [
        {"core/graph": "import gpuarray", "__init__": ""},
        {"core/graph": "from gpuarray import Array", "__init__": ""},
    ],
    "floor 6 imports gpuarray of floor 7": [{"numpy": "from . import jit", "__init__": ""}],
    "floor 3 imports gpuarray.transforms.jvp of floor 3": [
        {"compiler/fuse": "from gpuarray.transforms import jvp", "transforms/jvp": ""},
    ],
    "floor 3 imports gpuarray.compiler.fuse of floor 3": [
        {"transforms/jvp": "from gpuarray.compiler import fuse", "compiler/fuse": ""},
    ],
    "imports gpuarray.util inside a function": [
        {"jit": "def f():\n    from gpuarray import util", "util": ""},
        {"jit": "class A:\n    def f(self):\n        import gpuarray.util", "util": ""},
        {"jit": "f = lambda: import_module('gpuarray.util')", "util": ""},
        {"jit": "def f():\n    importlib.import_module('.util', 'gpuarray')", "util": ""},
    ],
    "room 'fuse' imports gpuarray.compiler.lower.inline of a later one": [
        {
            "compiler/fuse/merge": "from gpuarray.compiler.lower import inline",
            "compiler/lower/inline": "",
        },
    ],
    "room 'partition' imports gpuarray.compiler.fuse.groups of a later one": [
        {
            "compiler/partition/split": "from gpuarray.compiler.fuse import groups",
            "compiler/fuse/groups": "",
        },
    ],
    "room 'rewrite' imports gpuarray.compiler.partition.network of a later one": [
        {
            "compiler/rewrite/simplify": "from gpuarray.compiler.partition import network",
            "compiler/partition/network": "",
        },
    ],
    "circle of modules: gpuarray.core.a -> gpuarray.core.b": [
        {"core/a": "import gpuarray.core.b", "core/b": "from . import a"},
        {"core/a": "from .b import x", "core/b": "from .c import x", "core/c": "from .a import x"},
    ],
    "circle of packages: functions -> numpy": [
        {
            "functions/jit": "",
            "functions/grad": "from gpuarray.numpy import eye",
            "numpy/eye": "from gpuarray.functions.jit import jit",
        },
    ],
    "circle of packages: api -> lax": [
        {
            "api/grad": "import gpuarray.lax.shapes",
            "api/vmap": "",
            "lax/shapes": "",
            "lax/scans": "from gpuarray.api.vmap import vmap",
        },
    ],
    "circle of packages: lax -> numpy": [
        {
            "lax/a": "import gpuarray.numpy.b",
            "numpy/b": "",
            "numpy/c": "from ..lax.d import x",
            "lax/d": "",
        },
    ],
    "only gpuarray.backends.cuda knows CuPy": [
        {"runtime/memory": "cupy = lazy_module('cupy')"},
        {"runtime/memory": "def f():\n    import cupyx.scipy.fft"},
    ],
    "at load: use util.lazy_module": [
        {"lax": "import scipy.special"},
        {"lax": "class A:\n    from scipy import special"},
        {"backends/cuda": "try:\n    import cupy\nexcept ImportError:\n    cupy = None"},
        {"draw": "from matplotlib import pyplot"},
        {"parallel/mpi": "if True:\n    import mpi4py"},
    ],
    f"{MAX_LINES + 1} lines, over {MAX_LINES}": [{"util": "x = 1\n" * (MAX_LINES + 1)}],
}


def planted(files: dict[str, str]) -> list[str]:
    return violations(read_modules({f"{PACKAGE}/{name}.py": text for name, text in files.items()}))


@pytest.mark.parametrize("what", ALLOWED)
def test_allowed(what):
    assert planted(ALLOWED[what]) == []


@pytest.mark.parametrize(
    ("message", "files"), [(message, files) for message, rows in REFUSED.items() for files in rows]
)
def test_refused(message, files):
    found = planted(files)
    assert any(message in violation for violation in found), found


def test_a_violation_names_its_file_and_line():
    assert planted(
        {"core/graph": "x = 1\nfrom gpuarray.primitives import reduce", "primitives/reduce": ""}
    ) == ["gpuarray/core/graph.py:2: floor 1 imports gpuarray.primitives.reduce of floor 2"]
