"""What is known about a traced function, for messages.

Floor 1. In: names. Out: a record of them, under JAX's name and with its fields.
"""

from __future__ import annotations

from typing import NamedTuple


class DebugInfo(NamedTuple):
    """How messages name a traced function, its arguments and its results."""

    traced_for: str
    func_src_info: str
    arg_names: tuple[str, ...] | None
    result_paths: tuple[str, ...] | None = None

    @property
    def func_name(self) -> str:
        """The function's name, without its source location."""
        return self.func_src_info.split(" ")[0]

    @property
    def func_filename(self) -> str | None:
        """The file that defines the function."""
        place = self.func_src_info.partition(" at ")[2]
        return place.rpartition(":")[0] or None

    @property
    def func_lineno(self) -> int | None:
        """The line on which it begins."""
        line = self.func_src_info.rpartition(":")[2]
        return int(line) if line.isdigit() else None
