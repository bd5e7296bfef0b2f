"""How the site is built: `ci/docs`, or `python -m sphinx -W docs build/docs`.

In: the Markdown here and the docstrings of the package. Out: HTML; any warning is an error.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import reference  # noqa: E402

import gpuarray  # noqa: E402

project = "gpuarray"
author = "the gpuarray developers"
release = version = gpuarray.__version__
extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"gpuarray {release}"
html_static_path = ["assets"]
html_show_sphinx = False
exclude_patterns = ["*.py"]
myst_heading_anchors = 3
# Blocks of documentation are doctests and plain Python: the lexer need not accept every line.
suppress_warnings = ["misc.highlighting_failure"]


def setup(app):
    """Write the reference before Sphinx looks for files."""
    reference.write(HERE / "api")
