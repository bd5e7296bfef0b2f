"""Programs of a Pathways runtime, which does not exist here.

Floor 6. Libraries import the name and use it only on such a runtime; using it raises an error.
"""

from __future__ import annotations

from typing import Any


class _Programs:
    """Raises an error for each attribute."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"ifrt_programs.{name} is not in gpuarray: it makes programs of a Pathways runtime, "
            "and devices are those of CUDA and the CPU here."
        )


ifrt_programs = _Programs()
