"""`python -m gpuarray bench`: runs the benchmarks of the checkout.

Floor 8. In: the options of `python -m bench`. Out: its exit status. The benchmarks are not part of
an installed wheel.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

# The folder above the package: in a checkout it holds bench/, in an installed wheel it does not.
_CHECKOUT = Path(__file__).resolve().parents[2]


def run(argv: Sequence[str]) -> int:
    """Run the benchmarks with these options, or say where to find them."""
    if not (_CHECKOUT / "bench" / "__main__.py").is_file():
        print(
            "the benchmarks are in the folder bench/ of a checkout, and there is none at "
            f"{_CHECKOUT}.\nClone the project and run `python -m bench` there.",
            file=sys.stderr,
        )
        return 2
    # In front: a bench.py in the user's own folder must not be taken for ours.
    sys.path.insert(0, str(_CHECKOUT))
    # Argument parsers name the program after sys.argv[0].
    before = sys.argv
    sys.argv = ["python -m bench", *argv]
    try:
        runpy.run_module("bench", run_name="__main__")
    except SystemExit as end:
        # As the interpreter does: None means success, an object that is not a number failure.
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv = before
    return 0
