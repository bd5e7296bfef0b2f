"""Steps of random programs that take functions, and functions for them with loops and branches.

In: a maker of programs (mixed_programs.py), which draws values. Out: its steps: folds, windows,
scans and updates by a function, mixed indices, products of a wider result, derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.support.mixed_values import Value

#: Elements that are folded by a function: NumPy calls it for each.
FEW = 400


# ---- functions of one element, which round as IEEE says ----
def doubled_often(x):
    return lax.fori_loop(0, 3, lambda i, c: c * 2 + i.astype(c.dtype), x)


def halved_while_large(x):
    turn = lambda s: (s[0] + 1, gnp.where(s[1] > 7, s[1] - 5, s[1]))
    return lax.while_loop(lambda s: (s[0] < 4) & gnp.any(s[1] > 7), turn, (0, x))[1]


def less_what_is_scanned(x):
    return lax.scan(lambda c, k: (c - k.astype(c.dtype), k), x, np.arange(3, dtype=np.int8))[0]


def one_way_or_another(x):
    return gnp.vectorize(lambda v: lax.cond(v > 1, lambda v: v + 3, lambda v: v * 2, v))(x)


def loops_in_a_branch(x):
    way = lambda v: lax.switch(
        (v > 1).astype("int32") + (v > 3),
        [lambda v: v, doubled_often, less_what_is_scanned],
        v,
    )
    return gnp.vectorize(way)(x)


APPLIED: tuple[Callable[[Any], Any], ...] = (
    doubled_often, halved_while_large, less_what_is_scanned, one_way_or_another, loops_in_a_branch
)  # fmt: skip


# ---- associative functions of two elements; in any order where they commute ----
def larger(a, b):
    return lax.cond(a < b, lambda: b, lambda: a)


def larger_by_scan(a, b):
    return lax.scan(lambda c, x: (gnp.maximum(c, x), None), a, gnp.stack([b, a, b]))[0]


def sum_in_a_loop(a, b):
    return lax.fori_loop(0, 3, lambda i, c: gnp.where(i == 1, c + b, c), a)


def sum_in_a_branch(a, b):
    added = lambda: lax.fori_loop(0, 2, lambda i, c: c + b * i.astype(b.dtype), a)
    return lax.cond(b == 0, lambda: a, added)


def sum_by_carries(a, b):
    turn = lambda s: (s[0] ^ s[1], (s[0] & s[1]) << 1)
    return lax.while_loop(lambda s: gnp.any(s[1] != 0), turn, (a, b))[0]


def divisor(a, b):
    def turn(s):
        a, b = s
        return gnp.where(b == 0, a, b), gnp.where(b == 0, b, a % gnp.maximum(b, 1))

    return lax.while_loop(lambda s: gnp.any(s[1] != 0), turn, (a, b))[0]


#: With what they start, and whether floats are folded exactly.
FOLDED: dict[str, tuple[tuple[Callable, Any, bool], ...]] = {
    "f": (
        (larger, -100, True), (larger_by_scan, -100, True),
        (sum_in_a_loop, 0, False), (sum_in_a_branch, 0, False),
    ),
    "i": (
        (larger, 0, True), (larger_by_scan, 0, True), (divisor, 0, True),
        (sum_in_a_loop, 0, True), (sum_in_a_branch, 0, True), (sum_by_carries, 0, True),
    ),
}  # fmt: skip


def largest_with_place(a, b):
    (x, i), (y, k) = a, b
    second = (x < y) | ((x == y) & (k < i))
    return lax.cond(second, lambda: (y, k), lambda: (x, i))


def product_of_pairs(a, b):
    """Of complex numbers whose parts are integers."""
    return lax.fori_loop(
        0, 1, lambda i, _: (a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]), a
    )


def one_map_after_another(a, b):
    """x -> p x + q; does not commute."""
    return lax.scan(lambda s, _: ((s[0] * b[0], s[1] * b[0] + b[1]), None), a, None, length=1)[0]


class FunctionSteps:
    """Steps of `_Maker`, which draws what they work on."""

    rng: Any
    pick: Callable[..., Value | None]
    partner: Callable[[Value], Value]
    axis: Callable[[Any], int]
    places: Callable[[int, int], Any]

    def few(self, exact: bool | None = None) -> Value | None:
        """A value of a few elements, whose numbers are small."""
        v = self.pick("iuf", exact)
        if v is None or not v.x.ndim or not 0 < v.x.size <= FEW:
            return None
        x = v.x & 127 if v.kind in "iu" else gnp.clip(gnp.nan_to_num(v.x), -4, 4)
        return Value(x, v.exact)

    def function(self, v: Value) -> tuple[Callable, Any, bool]:
        f, start, exact = self.rng.choice(FOLDED["f" if v.kind == "f" else "i"])
        return f, v.x.dtype.type(start), v.exact and exact

    def pair(self, v: Value, ordered: bool = False):
        """Two arrays, a function of pairs of their elements, with what it starts, and whether the
        first result is exact.
        """
        if v.kind == "f" or self.rng.random() < 0.4:
            at = lax.broadcasted_iota("int32", v.x.shape, self.axis(v.x))
            start = (v.x.dtype.type(0 if v.kind == "u" else -100), np.int32(999))
            return (v.x, at), largest_with_place, start, v.exact
        f = one_map_after_another if ordered and self.rng.random() < 0.5 else product_of_pairs
        return (v.x, v.x * 3 + 1), f, (v.x.dtype.type(1), v.x.dtype.type(0)), True

    def folded_by_function(self) -> Value | None:
        v, rng = self.few(), self.rng
        if v is None:
            return None
        axes = tuple(i for i in range(v.x.ndim) if rng.random() < 0.7)
        if v.exact and rng.random() < 0.4:
            xs, f, start, exact = self.pair(v)
            return Value(lax.reduce(xs, start, f, axes)[rng.randrange(2)], exact)
        f, start, exact = self.function(v)
        return Value(lax.reduce(v.x, start, f, axes), exact)

    def windows_by_function(self) -> Value | None:
        v, rng = self.few(), self.rng
        if v is None:
            return None
        some = lambda most: [rng.randint(1, most) for _ in v.x.shape]
        window, inner = some(3), some(2)
        pads: Any = rng.choice(["SAME", [(rng.randrange(3), rng.randrange(3)) for _ in window]])
        pads = [(2, 2)] * len(window) if pads == "SAME" and rng.random() < 0.5 else pads
        geometry = (window, some(2), pads, some(2), inner)
        if v.exact and rng.random() < 0.4:
            xs, f, start, exact = self.pair(v)
            made = lax.reduce_window(xs, start, f, *geometry)[rng.randrange(2)]
        else:
            f, start, exact = self.function(v)
            made = lax.reduce_window(v.x, start, f, *geometry)
        return Value(made, exact) if made.size else None

    def scanned_by_function(self) -> Value | None:
        v, rng = self.few(), self.rng
        if v is None:
            return None
        axis, back = self.axis(v.x), rng.random() < 0.3
        if v.exact and rng.random() < 0.4:
            xs, f, _, exact = self.pair(v, ordered=True)
            each = gnp.vectorize(lambda *n: f(n[:2], n[2:]))
            made = lax.associative_scan(lambda a, b: each(*a, *b), xs, back, axis)
            return Value(made[rng.randrange(2)], exact)
        f, _, exact = self.function(v)
        whole = f not in (larger, sum_in_a_branch) and rng.random() < 0.5
        each = f if whole else gnp.vectorize(f)
        return Value(lax.associative_scan(each, v.x, back, axis), exact)

    def applied(self) -> Value | None:
        v = self.few(True)
        if v is None:
            return None
        at, f = self.index(v.x), self.rng.choice(APPLIED)
        return Value(v.x.at[at].apply(f), True)

    # ---- indices ----
    def index(self, x) -> tuple:
        """Numbers, slices, arrays of indices, new axes, and an ellipsis, in any order."""
        rng = self.rng
        here = rng.randint(0, x.ndim)  # where the ellipsis is
        there = rng.randint(here, x.ndim)
        count, made = rng.choice((1, 2, 4)), []
        for i, n in enumerate(x.shape):
            if i == here:
                made.append(...)
            if here <= i < there:
                continue
            if rng.random() < 0.1:
                made.append(None)
            at = self.places(n, count) if rng.random() < 0.5 else None
            if at is not None and at.size < count:
                at = None
            if at is not None and rng.random() < 0.3:
                at = at - n  # from the end
            start = rng.randrange(n)
            others = (start, start - n, slice(start, None, rng.choice((1, 2))), slice(None))
            others += (slice(None, None, -1), np.arange(n) % 2 == 0)
            made.append(rng.choice(others) if at is None else at)
        if rng.random() < 0.3:
            # Arrays that spread over one another.
            made = [m[:, None] if hasattr(m, "dtype") and not isinstance(m, np.ndarray) else m
                    for m in made]  # fmt: skip
        # A mask is as many indices as it has ones.
        if sum(hasattr(m, "dtype") for m in made) > 1:
            made = [slice(None) if isinstance(m, np.ndarray) else m for m in made]
        return tuple(made)

    def indexed(self) -> Value | None:
        v = self.pick()
        if v is None or not 0 < v.x.size <= FEW * 4:
            return None
        at = self.index(v.x)
        taken = v.x[at]
        if not taken.size or self.rng.random() < 0.6 or v.kind == "b":
            return Value(taken, v.exact) if taken.size else None
        # Of two elements that go to one place, either may be last.
        way = self.rng.choice(("add", "multiply") if v.kind in "iu" else ("add",))
        return Value(getattr(v.x.at[at], way)(taken), v.kind in "iu")

    # ---- products ----
    def product_of_mixed(self) -> Value | None:
        v = self.few()
        if v is None or v.x.ndim < 2:
            return None
        rng, x = self.rng, v.x
        kinds = ("int8", "uint8", "int16", "int32") if v.kind in "iu" else (
            "bfloat16", "float16", "float32", "float64"
        )  # fmt: skip
        a, b, result = (rng.choice(kinds) for _ in range(3))
        if v.kind in "iu":
            result = rng.choice(("int32", "int64"))
        axes = rng.sample(range(x.ndim), rng.randint(1, x.ndim - 1))
        batch = axes[1:] if rng.random() < 0.5 else []
        contracted = axes[:1] if batch else axes
        free = x.ndim - len(contracted) - len(batch)
        if x.size * np.prod([n for i, n in enumerate(x.shape) if i not in axes]) > 4000 * free:
            return None
        made = lax.dot_general(
            x.astype(a), x.astype(b), ((contracted, contracted), (batch, batch)),
            preferred_element_type=result,
        )  # fmt: skip
        return Value(made, v.kind in "iu")

    # ---- derivatives ----
    def derivative(self) -> Value | None:
        v, rng = self.few(True), self.rng
        if v is None:
            return None
        # Of large numbers sin(sin(x) x) has no digits left.
        x = gnp.clip(v.x.astype(rng.choice(("float32", "float64"))), -2, 2)
        axis, at = self.axis(x), self.index(x)
        window = [rng.randint(1, 2) for _ in x.shape]
        start = x.dtype.type(0)
        ways = [
            lambda x: x[at],
            lambda x: x.at[at].add(gnp.sin(x[at])),
            lambda x: lax.reduce(gnp.sin(x), start, sum_in_a_loop, (axis,)),
            lambda x: lax.reduce(x, start - 100, larger, (axis,)),
            lambda x: lax.reduce_window(gnp.sin(x), start, sum_in_a_loop, window),
            lambda x: lax.reduce_window(x, start - 100, lax.max, window),
            lambda x: lax.associative_scan(sum_in_a_loop, gnp.sin(x), axis=axis),
            lambda x: lax.associative_scan(
                lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (gnp.tanh(x), x), axis=axis
            )[1],
            lambda x: lax.dot_general(
                gnp.tanh(x), x.astype("float32"), (((axis,), (axis,)), ((), ())),
                preferred_element_type="float64",
            ),
            lambda x: lax.scan(lambda c, row: (gnp.tanh(c + row), c * row), x[0], x)[1],
            lambda x: lax.fori_loop(0, 3, lambda i, c: gnp.sin(c) * x, x),
        ]  # fmt: skip
        way = rng.choice(ways)
        of = lambda x: gnp.sum(gnp.cos(way(x)))
        if rng.random() < 0.3:
            return Value(ga.jvp(ga.grad(of), (x,), (gnp.cos(x),))[1], False)
        return Value(ga.grad(of)(x), False)
