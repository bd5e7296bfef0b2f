"""The hand-written CUDA C++ that kernels call, and the blocks of it that a text needs.

Floor 3. In: kernel text. Out: that text after the blocks of kernels/prelude that it uses; native
code has some of its own, in kernels/native. No header is included, which keeps compile times at
tens of milliseconds.

A block starts with a line `//@ names` and ends at the next one. It provides these names, and is
added if one of them is used. A block `//@ name if others` is added if all of the others are: it
defines one of them for the type of another.
"""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Collection
from typing import NamedTuple

from gpuarray.core.target import TARGET

# Names of the prelude start with ga_ or GA_; no other name needs to be looked up.
_NAME = re.compile(r"\b(?:ga_\w+|GA_\w+)\b")


class Block(NamedTuple):
    """A piece of the prelude, and the names in it that may collide with others."""

    order: int
    provides: tuple[str, ...]
    needs: tuple[str, ...]
    text: str
    calls: frozenset[str]


def folder() -> pathlib.Path:
    """The folder of the hand-written kernels: in the installed package, or next to it in a
    checkout.
    """
    # A wheel has the kernels inside the package, a checkout next to it.
    package = pathlib.Path(__file__).parents[2]
    for candidate in (package / "_kernels", package.parent / "kernels"):
        if (candidate / "prelude").is_dir():
            return candidate
    raise FileNotFoundError(
        f"the folder of CUDA kernels is missing: looked for it in {package / '_kernels'} and "
        f"{package.parent / 'kernels'}. Install gpuarray-runtime again."
    )


@functools.cache
def blocks(native: bool = False) -> dict[str, Block]:
    """All blocks by the names they provide. Native code has some of its own, which replace those of
    the same names.
    """
    own = _read("native") if native else []
    replaced = {name for _, block in own for name in block.provides}
    # In the order of the files' numbers, whichever folder they are in: a text that is always the
    # same is the key of the compile cache.
    others = []
    for file, block in _read("prelude"):
        kept = [name for name in block.provides if name not in replaced]
        if len(kept) == len(block.provides):
            others.append((file, block))
        # Otherwise all of its names are native, or one collides with another name.
        elif kept:
            raise ValueError(
                f"kernels: {file} provides {' '.join(block.provides)}, of which native code has "
                f"all but {' '.join(kept)}: rename what is not the same, or write the others too."
            )
    found: dict[str, Block] = {}
    for order, (_, block) in enumerate(sorted([*own, *others], key=lambda read: read[0])):
        for name in block.provides:
            if name in found:
                raise ValueError(f"kernels: {name} is provided twice")
            found[name] = block._replace(order=order)
    return found


@functools.cache
def for_many() -> frozenset[str]:
    """The functions that have a form for many elements in native code: `f_for_many` beside `f`."""
    found = blocks(native=True)
    return frozenset(name for name in found if f"{name}_for_many" in found)


@functools.cache
def _read(place: str) -> list[tuple[str, Block]]:
    """The blocks of a folder, each with the name of its file."""
    found: list[tuple[str, Block]] = []
    for path in sorted((folder() / place).glob("*.cuh")):
        for part in re.split(r"^//@ ", path.read_text(), flags=re.MULTILINE)[1:]:
            header, _, text = part.partition("\n")
            names, _, needs = header.partition(" if ")
            text = text.rstrip() + "\n"
            calls = frozenset(names_in(text))
            block = Block(0, tuple(names.split()), tuple(needs.split()), text, calls)
            found.append((path.name, block))
    return found


def names_in(text: str) -> set[str]:
    """The names that a text has and the prelude may provide."""
    return set(_NAME.findall(text))


def complete(text: str, native: bool = False) -> str:
    """The text after the blocks that it uses."""
    return prelude_of(text, native) + "\n" + text


def prelude_of(text: str, native: bool = False) -> str:
    """The blocks a text needs, each once, in their fixed order."""
    table = blocks(native)
    conditional = [b for b in table.values() if b.needs]
    # Blocks use other blocks: scan each one that is added. Conditional ones come last, since they
    # depend on the blocks present, and may need more themselves.
    needed: dict[int, Block] = {}
    waiting: list[Collection[str]] = [names_in(text)]
    while waiting:
        for name in waiting.pop():
            block = table.get(name)
            if block is not None and block.order not in needed:
                needed[block.order] = block
                waiting.append(block.calls)
        # Once no more is called: blocks that go with several others, if all of those are there.
        for block in [] if waiting else conditional:
            if block.order not in needed and all(table[n].order in needed for n in block.needs):
                needed[block.order] = block
                waiting.append(block.calls)
    return "\n".join(_inlined_or_called(needed[order].text, text) for order in sorted(needed))


def _inlined_or_called(block: str, source: str) -> str:
    """A block, with its function marked as not to be inlined if the source calls it often.

    Many inlined copies of a long function take long to compile, and miss in the instruction cache.
    """
    long = re.match(r"GA_LONG(?:_DOUBLE)?\((\w+),", block)
    if long and len(re.findall(rf"\b{long[1]}\(", source)) > TARGET.inlined_calls:
        return block.replace("GA_LONG", "GA_LONG_CALLED", 1)
    return block
