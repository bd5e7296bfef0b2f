"""Put steps in an order in which each comes behind those it needs.

Floor 3. In: numbers, and what each needs. Out: the numbers in order, the same for the same input.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator


def in_order(numbers: Iterable[int], needs: Callable[[int], Iterable[int]]) -> Iterator[int]:
    """Each number behind those it needs, otherwise by size: as if one went through all of them
    again and again, and each time took those whose turn has come.

    >>> list(in_order([1, 2, 3, 4], {1: [3], 2: [], 3: [], 4: [1]}.__getitem__))
    [2, 3, 1, 4]
    """
    missing: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for number in numbers:
        before = set(needs(number))
        missing[number] = len(before)
        for other in before:
            readers.setdefault(other, []).append(number)
    now = sorted(n for n, count in missing.items() if not count)
    while now:
        later: list[int] = []
        while now:
            number = heapq.heappop(now)
            yield number
            for reader in readers.get(number, ()):
                missing[reader] -= 1
                if not missing[reader]:
                    heapq.heappush(now if reader > number else later, reader)
        now = later
    if any(missing.values()):
        raise AssertionError("the steps of a plan wait for one another")
