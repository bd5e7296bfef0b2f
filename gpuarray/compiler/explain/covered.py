"""How much of each exchange overlaps with other work, by walking through a plan in its order.

Floor 3. In: a plan whose exchanges are split into start and wait (compiler/lower/overlap.py), and
the seconds of steps and exchanges. Out: for each exchange the seconds in which devices wait for it.
One device represents all: they run the same steps.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuarray.compiler.lower.kernel import DeviceStep
from gpuarray.compiler.pipeline import Plan


def waits(
    plan: Plan,
    work: Callable[[DeviceStep], float],
    sent: Callable[[DeviceStep], float],
) -> dict[int, float]:
    """Return the seconds that devices wait for the exchanges of a plan, by the id of a step.

    Parameters
    ----------
    plan :
        The steps, as an engine runs them that exchanges values while devices compute.
    work :
        The seconds that a step computes.
    sent :
        The seconds of the exchanges of a step; 0 for one that has none.
    """
    now = link = 0.0  # when the device, and the network, have finished their work
    ends: dict[int, float] = {}  # of exchanges that are under way
    waited: dict[int, float] = {}

    # A device waits when it reaches the first step that reads the results of an exchange.
    def wait(before: int) -> None:
        nonlocal now
        for key in [k for k in ends if plan.halves[k].until <= before]:
            end = ends.pop(key)
            waited[key] = max(0.0, end - now)
            now = max(now, end)

    # Two clocks: the device computes while the network sends, one exchange after the other.
    for i, step in enumerate(plan.steps):
        wait(i)
        if id(step) in plan.halves:  # one exchange after another
            link = max(link, now) + sent(step)
            ends[id(step)] = link
            continue
        now += work(step)
        if seconds := sent(step):  # inside a loop or branch: the overlap is not known
            now = link = max(now, link) + seconds
            waited[id(step)] = seconds
    wait(len(plan.steps))
    return waited
