"""How a table of cases is written.

In: names and argument lists. Out: `Case`s. A table is a list of (names, argument lists); the
names are space separated and share the lists. `over("f32 i32", "D(3)", ...)` repeats argument
lists with `D` read as each dtype's input maker. Tables of whole expressions serve what is no
plain call.
"""

import dataclasses
import re
from collections.abc import Iterable

ALL = "f32 f16 bf16 i32 i8 u8 u32 b1 c64"
MOST = "f32 f16 bf16 i32 u8 b1 c64"
REAL = "f32 f16 bf16 i32 i8 u8 u32 b1"
NUMBERS = "f32 bf16 i32 u8 c64"
FEW = "f32 i32 b1"
FLOATS = "f32 f16 bf16"
INTS = "i32 i8 u8 u32"

Table = Iterable[tuple[str, list[str]]]


@dataclasses.dataclass(frozen=True)
class Case:
    """One expression to compare; `name` is the public name that it exercises ("jnp.sum")."""

    section: str
    name: str
    text: str
    x64: bool = False
    partitionable: bool = False

    @property
    def id(self) -> str:
        flags = (" [x64]" if self.x64 else "") + (" [partitionable]" if self.partitionable else "")
        return self.text + flags


def over(codes: str, *arguments: str) -> list[str]:
    """Each argument list with `D` standing for each dtype code in turn."""
    return [re.sub(r"\bD\b", code, text) for text in arguments for code in codes.split()]


def calls(section: str, prefix: str, table: Table, x64: bool = False) -> list[Case]:
    """Cases that call `prefix` + name with each argument list."""
    return [
        Case(section, prefix + name, f"{prefix}{name}({arguments})", x64)
        for names, rows in table
        for name in names.split()
        for arguments in rows
    ]


def expressions(section: str, table: Table, x64: bool = False) -> list[Case]:
    """Cases that are whole expressions, filed under the public name that they are about."""
    return [Case(section, name, text, x64) for name, rows in table for text in rows]
