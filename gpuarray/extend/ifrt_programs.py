"""Programs of a Pathways runtime, of which there is none here.

Floor 6. Libraries import the name and use it on such a runtime alone; using it says so.
"""

from __future__ import annotations

from typing import Any


class _Programs:
    """Says of each of its names that it is not there."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"ifrt_programs.{name} is not in gpuarray: it makes programs of a Pathways runtime, "
            "and devices are those of CUDA and the CPU here."
        )


ifrt_programs = _Programs()
