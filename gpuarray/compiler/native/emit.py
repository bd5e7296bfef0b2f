"""Kernels as C++ text for a CPU, meant to be read, and units of several for the compiler.

Floor 3. In: Kernels. Out: a `NativeSource` of each, and the text of a unit: the parts of
kernels/native and of the prelude that it needs, then each kernel. Forms without native text raise
NoKernel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gpuarray.compiler.lower.kernel import (
    Columns,
    Kernel,
    Map,
    NoKernel,
    Rows,
    Scan,
    Scatter,
    Tiles,
)
from gpuarray.compiler.native.columns import ColumnsWriter
from gpuarray.compiler.native.map import MapWriter
from gpuarray.compiler.native.rows import RowsWriter
from gpuarray.compiler.native.scan import scan_writer
from gpuarray.compiler.native.scatter import ScatterWriter, begun
from gpuarray.compiler.native.schedule import is_narrow, is_short
from gpuarray.compiler.native.tiles import TilesWriter
from gpuarray.compiler.native.writer import NativeSource
from gpuarray.compiler.text.prelude import complete, folder


def emit(kernel: Kernel, user_lines: bool = False) -> NativeSource:
    """The native text of a kernel. If it has none, NoKernel gives the reason. With `user_lines`,
    which is for readers, comments name the lines that recorded its operations.
    """
    match kernel:
        case Map():
            return MapWriter(kernel, user_lines).source()
        case Tiles():
            return TilesWriter(kernel, user_lines).source()
        case Rows():
            # Short rows are processed side by side, like columns: vectors go over the rows.
            writer = ColumnsWriter if is_short(kernel) else RowsWriter
            return writer(kernel, user_lines).source()
        case Columns():
            # A few long columns are processed as rows with strided elements.
            writer = RowsWriter if is_narrow(kernel) else ColumnsWriter
            return writer(kernel, user_lines).source()
        case Scan():
            return scan_writer(kernel, user_lines).source()
        case Scatter():
            return ScatterWriter(kernel, user_lines).source()
    raise NoKernel(f"kernels of the form {kernel.form!r} have no native text yet")


def emit_alone(kernel: Kernel, user_lines: bool = False) -> NativeSource:
    """The native text of a kernel that is a separate call."""
    return begun(emit(kernel, user_lines))


def unit(sources: Sequence[Any]) -> tuple[str, list[str]]:
    """The text of a unit for the compiler, and the name of the function to call for each kernel or
    routine.

    Kernels that differ only in their names and comments are in it once.
    """
    texts: dict[str, str] = {}  # without comments -> text
    numbers: dict[str, int] = {}
    called: list[str] = []
    for source in sources:
        # Names are replaced, since those of several plans are the same.
        name = rf"\b(call_)?{source.name}(?=_k\d|_copy\b|_of\b|_pieces\b|_merge\b|_steps\b|\b)"
        # Comments name lines of the user: kernels from different lines may still be equal.
        body = re.sub(r"^ *//.*\n| +// [^\"\n]*$", "", source.text, flags=re.MULTILINE)
        key = re.sub(name, r"\1NAME", body)
        number = numbers.setdefault(key, len(numbers))
        new = f"k{number}_{source.form}"
        texts.setdefault(key, re.sub(name, rf"\1{new}", source.text))
        called.append(f"call_{new}")
    return whole("\n".join(texts.values())), called


def whole(text: str) -> str:
    """Functions after all their helpers, as passed to the compiler."""
    host = [folder() / "host" / "names.h", folder() / "native" / "tasks.h"]
    return "\n".join([*(path.read_text() for path in host), complete(text, native=True)])
