"""Bools in short loops of much work: read before the loop, as numbers as wide as the others.

Floor 3. In: the lines of a kernel. Out: lines that do the same. A loop that reads bytes is
vectorised for as many elements as a vector has bytes: of a short one, most elements would be what
is left over, and computed one by one.
"""

from __future__ import annotations

import re

from gpuarray.core.target import PROCESSOR

_FLAG = re.compile(r"^( +)const bool (\w+) = ga_flag\((in\d+)\[([i\d *+-]+)\]\);(.*)")


def read_flags_before(lines: list[str], axis: str, length: int) -> list[str]:
    """The lines of a kernel whose innermost loop goes along `axis`, of `length` elements."""
    if length * 4 > PROCESSOR.local_bytes or length % PROCESSOR.line == 0:
        return lines
    heads = [n for n, line in enumerate(lines) if re.match(rf" +for \(ga_index {axis} = ", line)]
    if len(heads) != 1:
        return lines
    (head,) = heads
    depth = len(lines[head]) - len(lines[head].lstrip())
    before: list[str] = []
    made = lines[:]
    for n in range(head + 1, len(lines)):
        # What stands deeper is read under a condition.
        found = _FLAG.match(lines[n])
        if found and len(found[1]) == depth + 4:
            # Four lines for each flag: an array, and the loop that fills it.
            flags, indent = f"flags{len(before) // 4}", " " * depth
            before += [
                f"{indent}GA_LOCAL int {flags}[{length}];",
                lines[head],
                f"{indent}    {flags}[{axis}] = ga_flag({found[3]}[{found[4]}]);",
                f"{indent}}}",
            ]
            made[n] = f"{found[1]}const bool {found[2]} = {flags}[{axis}] != 0;{found[5]}"
    # A pragma belongs to its loop.
    at = head - 1 if head and lines[head - 1].startswith("#pragma") else head
    return [*made[:at], *before, *made[at:]] if before else lines
