"""Put steps in an order in which each comes after those it needs.

Floor 3. In: numbers, and the dependencies of each. Out: the numbers in order, the same for the same
input.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator


def in_order(numbers: Iterable[int], needs: Callable[[int], Iterable[int]]) -> Iterator[int]:
    """Each number after its dependencies, and otherwise in ascending order: repeated scans over the
    numbers, each taking those whose dependencies are done.

    >>> list(in_order([1, 2, 3, 4], {1: [3], 2: [], 3: [], 4: [1]}.__getitem__))
    [2, 3, 1, 4]
    """
    # Count the dependencies of each number, and record its dependents.
    missing: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for number in numbers:
        # A value read twice is waited for once.
        before = set(needs(number))
        missing[number] = len(before)
        for other in before:
            readers.setdefault(other, []).append(number)
    # One heap for this scan, a list for the next: a number that is freed by a larger one has been
    # passed, and comes in the next scan. Ascending order keeps steps close to the program's order.
    now = sorted(n for n, count in missing.items() if not count)
    while now:
        later: list[int] = []
        while now:
            number = heapq.heappop(now)
            yield number
            for reader in readers.get(number, ()):
                missing[reader] -= 1
                if not missing[reader]:  # the last that it waited for
                    heapq.heappush(now if reader > number else later, reader)
        now = later
    # A cycle: fuse.py refuses every merge that would close one.
    if any(missing.values()):
        raise AssertionError("the steps of a plan wait for one another")
