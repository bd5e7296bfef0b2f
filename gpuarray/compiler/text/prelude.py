"""The hand-written CUDA C++ that emitted kernels call, and which of it a text needs.

Floor 3. In: kernel text. Out: that text with exactly the blocks of kernels/prelude in front that it
uses, in a fixed order. Nothing is included from elsewhere, which keeps a compile at tens of
milliseconds.

A block starts with a line `//@ names` and ends at the next one; it provides these names, and comes
along where one of them is used. `//@ name if others` comes along where all the others do: it is
what one of them means for another.
"""

from __future__ import annotations

import functools
import pathlib
import re
from typing import NamedTuple

from gpuarray.compiler.target import TARGET

_NAME = re.compile(r"\b(?:ga_\w+|GA_\w+)\b")


class Block(NamedTuple):
    """A piece of the prelude."""

    order: int
    provides: tuple[str, ...]
    needs: tuple[str, ...]
    text: str


def folder() -> pathlib.Path:
    """Where the hand-written kernels are: in the installed package, or beside it in a checkout."""
    package = pathlib.Path(__file__).parents[2]
    for candidate in (package / "_kernels", package.parent / "kernels"):
        if (candidate / "prelude").is_dir():
            return candidate
    raise FileNotFoundError(
        f"the folder of CUDA kernels is missing: looked for it in {package / '_kernels'} and "
        f"{package.parent / 'kernels'}. Install gpuarray-runtime again."
    )


@functools.cache
def blocks() -> dict[str, Block]:
    """All blocks by the names they provide."""
    found: dict[str, Block] = {}
    order = 0
    for path in sorted((folder() / "prelude").glob("*.cuh")):
        for part in re.split(r"^//@ ", path.read_text(), flags=re.MULTILINE)[1:]:
            header, _, text = part.partition("\n")
            names, _, needs = header.partition(" if ")
            block = Block(order, tuple(names.split()), tuple(needs.split()), text.rstrip() + "\n")
            order += 1
            for name in block.provides:
                if name in found:
                    raise ValueError(f"{path.name}: {name} is provided twice")
                found[name] = block
    return found


def complete(text: str) -> str:
    """The text with what it uses in front."""
    return prelude_of(text) + "\n" + text


def prelude_of(text: str) -> str:
    """The blocks a text needs, each once, in their fixed order."""
    table = blocks()
    conditional = [b for b in table.values() if b.needs]
    needed: dict[int, Block] = {}
    waiting = [text]
    while waiting:
        for name in sorted(set(_NAME.findall(waiting.pop()))):
            block = table.get(name)
            if block is not None and block.order not in needed:
                needed[block.order] = block
                waiting.append(block.text)
        for block in [] if waiting else conditional:
            if block.order not in needed and all(table[n].order in needed for n in block.needs):
                needed[block.order] = block
                waiting.append(block.text)
    return "\n".join(_inlined_or_called(needed[order].text, text) for order in sorted(needed))


def _inlined_or_called(block: str, source: str) -> str:
    """A block as a source gets it: what it calls often is not inlined."""
    long = re.match(r"GA_LONG\((\w+),", block)
    if long and len(re.findall(rf"\b{long[1]}\(", source)) > TARGET.inlined_calls:
        return block.replace("GA_LONG(", "GA_LONG_CALLED(", 1)
    return block
