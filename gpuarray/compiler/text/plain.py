"""The part of a source that a compiler reads: its text without comments.

Floor 3. In: C++ text. Out: the same lines without comments, so that two texts that differ only in
comments for readers (shapes, the user's lines) are the same to the compiler and to its cache.
"""

from __future__ import annotations

import functools
import re

# Strings and characters come first: a comment marker inside them is not a comment.
_TOKEN = re.compile(
    r"""R"(?P<end>[^()\s\\]*)\(.*?\)(?P=end)" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'"""
    r"""| (?P<comment>[ \t]*(?://(?:\\\n|[^\n])*|/\*.*?\*/))""",
    re.DOTALL | re.VERBOSE,
)


# Cached briefly: a program requests each of its texts several times in a row, as keys of forms and
# of files.
@functools.lru_cache(maxsize=64)
def without_comments(text: str) -> str:
    r"""Return C++ text without comments; every line keeps its number.

    >>> without_comments('int i;  // f32[2000]\nputs("// no comment");')
    'int i;\nputs("// no comment");'
    """
    return _TOKEN.sub(_kept, text)


def _kept(found: re.Match[str]) -> str:
    comment = found["comment"]
    if comment is None:
        return found[0]
    # A comment inside a line separates words, as a space does.
    return "\n" * comment.count("\n") or (" " if comment.endswith("*/") else "")
