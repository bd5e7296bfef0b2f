"""NVTX ranges of the stand-in: each thread's form a stack, and what is opened must be closed.

In: names. Out: nothing; `world.ranges` has each name with how deep it lay, in order.
"""

from __future__ import annotations

from tests.fake_cupy.world import world

available = True


def RangePush(message, id_color=-1) -> None:
    message.encode()  # a str, as CuPy's
    with world.lock:
        world.ranges.append((len(world.thread.ranges), message))
        world.thread.ranges.append(message)
        world.open_ranges += 1


def RangePop() -> None:
    if not world.thread.ranges:
        world.fault("an NVTX range is closed that this thread has not opened")
        return
    with world.lock:
        world.thread.ranges.pop()
        world.open_ranges -= 1
