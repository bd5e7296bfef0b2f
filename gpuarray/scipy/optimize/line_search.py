"""How far to go along a direction: the strong Wolfe conditions, by bracketing and zooming.

Floor 6. In: a function with its gradient, a place and a direction. Out: the place it ends at, in
one loop that can be traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.numpy.linalg.decompositions import product

# The constants of the Wolfe conditions, as Nocedal and Wright suggest for quasi-Newton methods.
DECREASE, CURVATURE = 1e-4, 0.9
#: Places that are tried between two that hold the answer between them.
ZOOMS = 30


class Point(NamedTuple):
    """A step, and value, gradient and slope where it leads."""

    step: Array
    value: Array
    gradient: Array
    slope: Array


class Search(NamedTuple):
    """The state of a search: once `zooming`, the answer is between `low` and `high`. `left` is the
    number of remaining trials.
    """

    count: Array
    left: Array
    trial: Array
    low: Point
    high: Point
    zooming: Array
    done: Array
    found: Point


def _where(condition: Array, x: Any, y: Any) -> Any:
    return Point(*(gnp.where(condition, a, b) for a, b in zip(x, y, strict=True)))


def _between(low: Point, high: Point) -> Array:
    """The minimum of the cubic through both ends, or the middle where that is too close to one."""
    width = high.step - low.step
    safe = gnp.where(width == 0, 1, width)
    # The minimum of the cubic through both values and slopes; the middle where it is of no use.
    a = low.slope + high.slope - 3 * (high.value - low.value) / safe
    square = a * a - low.slope * high.slope
    b = gnp.sign(width) * gnp.sqrt(gnp.maximum(square, 0))
    divisor = high.slope - low.slope + 2 * b
    at = 1 - (high.slope + b - a) / gnp.where(divisor == 0, 1, divisor)
    good = (square >= 0) & (divisor != 0) & (at > 0.1) & (at < 0.9)
    return low.step + width * gnp.where(good, at, 0.5)


def line_search(
    fun: Callable, x: Array, value: Array, gradient: Array, direction: Array, most: int
) -> tuple[Point, Array, Array]:
    """Where to stop, how many values that took, and whether it failed (then the step is 0).

    Parameters
    ----------
    most :
        The most steps that are tried until two of them hold the answer between them; up to `ZOOMS`
        more come after that.
    """
    start = Point(gnp.zeros_like(value), value, gradient, product(gradient, direction))
    # Close to a minimum values differ by rounding errors alone.
    slack = 2 * float(dtypes.finfo(value.dtype).eps) * abs(value)

    def going(s: Search) -> Array:
        return ~s.done & (s.left > 0)

    def step(s: Search) -> Search:
        value, gradient = fun(x + s.trial * direction)
        here = Point(s.trial, value, gradient, product(gradient, direction))
        # The two conditions of Wolfe: enough of a decrease, and a slope flat enough.
        limit = start.value + DECREASE * here.step * start.slope + slack
        # Not `<=`: a value that is NaN is too high as well.
        high = ~(here.value <= limit) | ((here.value >= s.low.value + slack) & (s.count > 0))
        flat = ~high & (abs(here.slope) <= -CURVATURE * start.slope)
        # Beyond the minimum: it is between here and the lower end.
        rising = gnp.where(s.zooming, here.slope * (s.high.step - s.low.step) >= 0, here.slope >= 0)
        bracketed = s.zooming | high | rising
        new_high = _where(high, here, _where(rising, s.low, s.high))
        new_low = _where(high, s.low, here)
        # Until the answer is bracketed the step doubles.
        trial = gnp.where(bracketed, _between(new_low, new_high), 2 * here.step)
        found = _where(flat, here, new_low)
        left = gnp.where(bracketed & ~s.zooming, ZOOMS, s.left - 1)
        return Search(s.count + 1, left, trial, new_low, new_high, bracketed, flat, found)

    no, one = gnp.asarray(False), gnp.ones_like(value)
    first = Search(gnp.asarray(0), gnp.asarray(most), one, start, start, no, no, start)
    end = lax.while_loop(going, step, first)
    # The lowest place with enough of a decrease will do when the slope would not get flat.
    failed = ~end.done & ~((end.found.step > 0) & (end.found.value < start.value))
    return _where(failed, start, end.found), end.count, failed
