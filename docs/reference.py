"""The API reference as Markdown, made of signatures and docstrings.

In: the public namespaces. Out: a page each in a folder, and an index of them, for the site; and
`names.md`, one line for each function, which is kept here: `python docs/reference.py` writes it.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import shutil
import textwrap
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpuarray

#: All functions on one page.
NAMES = Path(__file__).with_name("names.md")
#: What differs from JAX, with the reasons.
EXCEPTIONS = Path(__file__).resolve().parents[1] / "tests" / "parity" / "exceptions.toml"
#: The public namespaces in the order of the index, with what each is.
NAMESPACES = {
    "gpuarray": "transforms, devices, settings",
    "gpuarray.numpy": "NumPy's functions on immutable arrays",
    "gpuarray.numpy.linalg": "linear algebra",
    "gpuarray.numpy.fft": "Fourier transforms",
    "gpuarray.lax": "the operations below `numpy`, and control flow",
    "gpuarray.lax.linalg": "matrix decompositions",
    "gpuarray.random": "random numbers from explicit keys",
    "gpuarray.nn": "activations and attention",
    "gpuarray.nn.initializers": "random starts for weights",
    "gpuarray.scipy.special": "special functions",
    "gpuarray.scipy.stats": "distributions",
    "gpuarray.scipy.linalg": "matrix functions",
    "gpuarray.scipy.signal": "filters and spectra",
    "gpuarray.scipy.fft": "cosine transforms",
    "gpuarray.scipy.ndimage": "images as functions of coordinates",
    "gpuarray.scipy.optimize": "minima of functions",
    "gpuarray.scipy.sparse.linalg": "linear systems by iteration",
    "gpuarray.scipy.integrate": "integrals of samples",
    "gpuarray.scipy.interpolate": "functions between samples",
    "gpuarray.scipy.cluster.vq": "nearest codes",
    "gpuarray.scipy.spatial.transform": "rotations",
    "gpuarray.image": "images in other sizes",
    "gpuarray.tree_util": "nested containers",
    "gpuarray.tree": "nested containers, short names",
    "gpuarray.flatten_util": "containers as one vector",
    "gpuarray.debug": "looking at programs that run",
    "gpuarray.profiler": "what runs when, what holds memory",
    "gpuarray.collect_profile": "profiles of another program",
    "gpuarray.monitoring": "events to listen to",
    "gpuarray.export": "programs as bytes",
    "gpuarray.ref": "mutable references",
    "gpuarray.dlpack": "arrays of other libraries",
    "gpuarray.example_libraries.optimizers": "optimizers of first order",
    "gpuarray.example_libraries.stax": "networks from pairs of functions",
    "gpuarray.experimental": "what may still change",
    "gpuarray.experimental.buffer_callback": "Python functions that write to memory they are given",
    "gpuarray.experimental.checkify": "checks inside compiled functions",
    "gpuarray.experimental.compilation_cache.compilation_cache": "where compiled kernels are kept",
    "gpuarray.experimental.compute_on": "where parts of programs are said to run",
    "gpuarray.experimental.scheduling_groups": "functions that are said to run together",
    "gpuarray.experimental.xla_metadata": "notes on what is recorded",
    "gpuarray.experimental.jet": "Taylor mode",
    "gpuarray.experimental.pallas": "kernels over blocks of arrays",
    "gpuarray.experimental.pallas.triton": "masked reads and atomic updates in them",
    "gpuarray.experimental.mesh_utils": "grids of devices",
    "gpuarray.experimental.ode": "ordinary differential equations",
    "gpuarray.experimental.rnn": "LSTM networks",
    "gpuarray.experimental.roofline": "operations and bytes of functions, from shapes",
    "gpuarray.experimental.serialize_executable": "compiled functions as bytes",
    "gpuarray.experimental.sparse": "arrays of which only some elements are stored",
    "gpuarray.experimental.sparse.linalg": "solvers and eigenvalues for them",
    "gpuarray.experimental.topologies": "devices as one thing",
    "gpuarray.ffi": "functions in C",
    "gpuarray.extend.core": "primitives from outside",
    "gpuarray.interpreters.ad": "their derivatives",
    "gpuarray.interpreters.batching": "their batching",
    "gpuarray.interpreters.mlir": "what they are made of",
    "gpuarray.sharding": "devices in meshes",
    "gpuarray.dtypes": "element types",
    "gpuarray.errors": "what is raised",
    "gpuarray.stages": "what `jit` goes through",
    "gpuarray.test_util": "checking derivatives",
}


def write(folder: Path) -> None:
    """All pages, afresh."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows = []
    for name, what in NAMESPACES.items():
        module = importlib.import_module(name)
        (folder / f"{name}.md").write_text(page(module, name), encoding="utf-8")
        rows.append(f"| [`{name}`]({name}.md) | {what} |")
    (folder / "parity.md").write_text(differences(EXCEPTIONS), encoding="utf-8")
    rows.append("| [Differences from JAX](parity.md) | call by call, each with its reason |")
    contents = "\n".join([*NAMESPACES, "parity"])
    table = "\n".join(["| | |", "|---|---|", *rows])
    text = f"# Reference\n\n{table}\n\n```{{toctree}}\n:hidden:\n\n{contents}\n```\n"
    (folder / "index.md").write_text(text, encoding="utf-8")


def names() -> str:
    """Every function and class of the public namespaces: its arguments, and its first sentence."""
    parts = [
        "# Every name\n\nThe public namespaces, name by name. `help(name)` shows the whole text, "
        "with an example;\n`./ci/docs` builds it as a site.\n"
    ]
    for space, what in NAMESPACES.items():
        rows = []
        for member, value in members(importlib.import_module(space)):
            if callable(value) and str(getattr(value, "__module__", "")).startswith("gpuarray"):
                rows.append(f"| `{member}{_arguments(value)}` | {_sentence(value)} |")
        parts.append(f"## {space}\n\n{what[0].upper()}{what[1:]}.\n")
        parts.append("\n".join(["| | |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _arguments(value: Any) -> str:
    """The names of a function's parameters; nothing for a class."""
    if isinstance(value, type):
        return ""
    # Of a member of an enum, Python 3.12 gives the arguments of the class.
    called = value.__call__ if isinstance(value, enum.Enum) else value
    try:
        found = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return "(...)"
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return f"({', '.join(stars.get(p.kind, '') + p.name for p in found if p.name[:1] != '_')})"


def _sentence(value: Any) -> str:
    """The first paragraph of a docstring, or its first sentence if it is long."""
    first = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    end = re.match(r".*?[.:;](?= |$)", first) if len(first) > 140 else None
    return _escaped((end[0] if end else first).rstrip(".:;"))


def differences(path: Path) -> str:
    """What `ci/parity` knows to differ from JAX, and why."""
    with path.open("rb") as file:
        entries = tomllib.load(file)["exception"]
    rows = [
        f"| {_code(e['name'])} | {_code(e['cases']) if 'cases' in e else 'all'} | "
        f"{_escaped(e['reason'])} |"
        for e in entries
    ]
    head = (
        "# Differences from JAX\n\n`./ci/parity` calls every public function here and in JAX, five "
        "times and more, and fails\nwhen more than 2 of 100 calls differ. It prints a difference "
        "that is not in this list. Names\nand cases are regular expressions.\n\n"
        "| functions | cases | reason |\n|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def page(module: types.ModuleType, name: str) -> str:
    """One namespace."""
    parts = [f"# {name}\n", markdown(inspect.getdoc(module) or "", first=True)]
    values = []
    for member, value in members(module):
        if callable(value):
            parts.append(entry(name, member, value))
        else:
            values.append(f"| `{member}` | `{_short(value)}` |")
    if values:
        parts.append("## Values\n\n| | |\n|---|---|\n" + "\n".join(values) + "\n")
    return "\n".join(parts)


def members(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """What a namespace offers: no modules, nothing private."""
    said = getattr(module, "__all__", None)
    for member in sorted(said or (n for n in dir(module) if not n.startswith("_")), key=str.lower):
        value = getattr(module, member, None)
        borrowed = getattr(value, "__module__", "") in ("typing", "collections.abc", "__future__")
        # Modules import the class of arrays for their annotations.
        borrowed |= not said and member == "Array" and module is not gpuarray
        if not isinstance(value, types.ModuleType) and not borrowed:
            yield member, value


def entry(space: str, member: str, value: Any) -> str:
    """One function or class."""
    try:
        signature = re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(value)))
    except (TypeError, ValueError):
        signature = "(...)"
    if isinstance(value, type) and issubclass(value, BaseException):
        signature = ""
    head = f"## {member}\n\n```python\n{space.removeprefix('gpuarray.')}.{member}{signature}\n```\n"
    return f"{head}\n{markdown(inspect.getdoc(value) or '')}"


def markdown(doc: str, first: bool = False) -> str:
    """A docstring: paragraphs stay, examples become blocks; `first`: only the first paragraph."""
    out = []
    for block in re.split(r"\n\s*\n", doc.strip()):
        if block.lstrip().startswith((">>>", "...")) or re.match(r"\s{4}", block):
            out.append(f"```python\n{textwrap.dedent(block)}\n```")
        elif block.lstrip().startswith("```"):
            out.append(block)
        elif not block.startswith("Floor "):
            out.append(_escaped(block))
        if first:
            break
    return "\n\n".join(out) + "\n"


def _escaped(text: str) -> str:
    """Prose whose signs mean themselves, but for what is in backquotes."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text)
    pieces = re.split(r"(`[^`]*`)", text)
    for i in range(0, len(pieces), 2):
        pieces[i] = re.sub(r"([*_<>\[\]|$#])", r"\\\1", pieces[i])
    return "".join(pieces)


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return (text if len(text) <= 60 else text[:57] + "...").replace("|", "\\|")


if __name__ == "__main__":
    NAMES.write_text(names(), encoding="utf-8")
