"""`python -m gpuarray` and the command `gpuarray`: report on the installation, check it, show it at
work.

Floor 9. In: the command line. Out: an exit status, 0 when all is well.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gpuarray.cli.main import run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with `argv`, or with the process's arguments if None."""
    return run(sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
