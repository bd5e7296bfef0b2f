"""Random programs over all dtypes, with views, updates, folds and loops: made from a seed.

In: a seed and a number of steps. Out: a function of arrays, arrays for it, and for each result
whether it is exact: made by operations that IEEE arithmetic rounds alone, so that every way of
running finds the same bits. Others are known to some digits. What jumps (comparisons, casts to
integers, orders) is applied to exact values only. A program of fewer steps is the beginning of the
longer one of the same seed.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import ml_dtypes
import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.support.mixed_functions import FunctionSteps
from tests.support.mixed_values import (
    DTYPES,
    INTEGERS,
    LARGEST,
    LENGTHS,
    NEAR,
    SHORT,
    Value,
    but,
    spread,
)


class Drawn(NamedTuple):
    seed: int
    steps: int
    inputs: list[np.ndarray]

    def __call__(self, *xs):
        """The results, and whether they are exact."""
        made = _Maker(self.seed, xs).run(self.steps)
        return [v.x for v in made], [v.exact for v in made]


def draw(seed: int, steps: int = 0) -> Drawn:
    """The program of a seed."""
    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    steps = steps or rng.choice((4, 8, 12, 20))
    rank = rng.choice((1, 2, 2, 3))
    shape = tuple(rng.choice(LENGTHS) for _ in range(rank))
    if rng.random() < 0.06:
        shape = (rng.choice((70_001, 131_072)),) if rank == 1 else (rng.choice((3, 40_000)), 37)
    shapes = [shape]
    for _ in range(rng.randint(0, 2)):
        shapes.append(tuple(1 if rng.random() < 0.3 else n for n in shape))
    return Drawn(seed, steps, [_input(rng, numbers, s) for s in shapes])


def _input(rng: random.Random, numbers: np.random.Generator, shape: tuple) -> np.ndarray:
    dtype = rng.choice(DTYPES)
    if dtype == "bool":
        return numbers.random(shape) < 0.5
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        wide = rng.random() < 0.3
        low, high = (info.min, info.max) if wide else (max(info.min, -9), 9)
        return numbers.integers(low, high, shape, dtype=dtype, endpoint=True)
    x = numbers.uniform(-2, 2, shape)
    if rng.random() < 0.3 and x.size > 3:
        at = numbers.integers(0, x.size, 3)
        x.reshape(-1)[at] = [np.inf, np.nan, -0.0] if rng.random() < 0.5 else [0.0, -0.0, 1.0]
    if dtype.startswith("complex"):
        return (x + 1j * numbers.uniform(-2, 2, shape)).astype(dtype)
    return x.astype(np.dtype(getattr(ml_dtypes, dtype, None) or dtype))


class _Maker(FunctionSteps):
    """Applies the steps of a seed to values."""

    def __init__(self, seed: int, xs):
        self.rng = random.Random(seed ^ 0x5EED)
        self.values = [Value(gnp.asarray(x), True) for x in xs]
        self.depth = 0

    def run(self, steps: int) -> list[Value]:
        given = len(self.values)
        for _ in range(steps):
            # The numbers that a step draws do not depend on the steps after it.
            rng, self.rng = self.rng, random.Random(self.rng.random())
            made = self.step()
            self.rng = rng
            if made is not None and made.x.size <= max(LARGEST, self.values[0].x.size):
                self.values.append(made)
        rng = random.Random(steps)
        made = self.values[given:] or self.values
        return [made[-1], *rng.sample(made[:-1], min(2, len(made) - 1))]

    # ---- drawing ----
    def pick(self, kinds: str = "biufc", exact: bool | None = None) -> Value | None:
        found = [v for v in self.values if v.kind in kinds and exact in (None, v.exact)]
        if not found:
            return None
        return found[-1] if self.rng.random() < 0.5 else self.rng.choice(found)

    def axis(self, x) -> int:
        return self.rng.randrange(x.ndim)

    def axes(self, x):
        if self.rng.random() < 0.3:
            return None
        return tuple(i for i in range(x.ndim) if self.rng.random() < 0.5)

    def partner(self, v: Value) -> Value:
        """A value of this dtype that spreads over this one, or the other way."""
        fits = [o for o in self.values if spread(v.x.shape, o.x.shape) is not None]
        o = self.rng.choice(fits)
        if o.x.dtype == v.x.dtype:
            return o
        return self.cast(o, v.x.dtype) or v

    def cast(self, v: Value, dtype) -> Value | None:
        name = np.dtype(dtype).name
        if v.kind == "c" and not name.startswith("complex"):
            v = Value(gnp.real(v.x), v.exact)
        if name in INTEGERS and v.kind == "f":
            if not v.exact:
                return None
            low = 0 if name.startswith("u") else -100
            return Value(gnp.clip(gnp.nan_to_num(v.x), low, 100).astype(dtype), True)
        if name == "bool" and not v.exact:
            return None
        return Value(v.x.astype(dtype), v.exact)

    def places(self, length: int, count: int):
        """Indices into an axis, some repeated, as a constant or as values of the program."""
        v = self.pick("iu", True)
        if v is not None and v.x.size and self.rng.random() < 0.5:
            flat = gnp.ravel(v.x)[:count]
            return (
                (flat % np.asarray(length).astype(flat.dtype)).astype("int32")
                if length < 120
                else None
            )
        return gnp.asarray([self.rng.randrange(length) for _ in range(count)], "int32")

    # ---- steps ----
    def step(self) -> Value | None:
        kinds = (
            (self.pointwise, 6), (self.binary, 8), (self.compared, 2), (self.chosen, 3),
            (self.moved, 8), (self.joined, 3), (self.folded, 6), (self.cumulative, 2),
            (self.gathered, 4), (self.updated, 4), (self.converted, 4), (self.ordered, 3),
            (self.product, 1), (self.made_of_indices, 1), (self.indexed, 3),
            (self.product_of_mixed, 1), (self.folded_by_function, 1), (self.windows_by_function, 1),
            (self.scanned_by_function, 1), (self.applied, 1), (self.derivative, 2),
            (self.loop, 2), (self.branch, 1),
        )  # fmt: skip
        if self.depth:
            kinds = kinds[:-2] if self.depth > 1 else kinds
        step = self.rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
        return step()

    def pointwise(self) -> Value | None:
        v = self.pick()
        assert v is not None
        x, rng = v.x, self.rng
        if v.kind == "b":
            return Value(~x, v.exact)
        if v.kind in "iu":
            return rng.choice([
                lambda: Value(~x, True), lambda: Value(abs(x), True), lambda: Value(-x, True),
                lambda: Value(x << rng.randrange(8), True),
                lambda: Value(x >> rng.randrange(8), True),
                lambda: Value(x * 3 + 1, True), lambda: Value(gnp.sign(x), True),
                lambda: Value(lax.population_count(x), True), lambda: Value(lax.clz(x), True),
                lambda: Value(x // rng.choice((2, 3, 7)), True), lambda: Value(x % 5, True),
                lambda: Value(gnp.clip(x, 1, 7), True), lambda: Value(lax.integer_pow(x, 3), True),
            ])()  # fmt: skip
        if v.kind == "c":
            return rng.choice([
                lambda: Value(gnp.conj(x), v.exact), lambda: Value(-x, v.exact),
                lambda: Value(gnp.real(x), v.exact), lambda: Value(gnp.imag(x), v.exact),
                lambda: Value(gnp.tanh(gnp.abs(x)), False), lambda: Value(x * (0.5 + 0.25j), False),
            ])()  # fmt: skip
        exact = [
            abs, lambda x: -x, lambda x: x * 0.75 + 0.3, lambda x: x - 1.25, gnp.floor, gnp.ceil,
            gnp.round, gnp.trunc, gnp.sign, lambda x: gnp.clip(x, -0.8, 0.9),
            lambda x: 1 / (abs(x) + 1),
            lambda x: gnp.sqrt(abs(x)), gnp.nan_to_num, lambda x: x * x,
            lambda x: lax.reduce_precision(x, 5, 7), lambda x: gnp.maximum(x, 0),
        ]  # fmt: skip
        smooth = [
            gnp.sin, gnp.cos, gnp.tanh, lambda x: gnp.exp(-abs(x)), lambda x: gnp.log1p(abs(x)),
            lambda x: gnp.arctan(x), lambda x: lax.logistic(x), lambda x: lax.erf(x),
            lambda x: lax.rsqrt(abs(x) + 0.5), lambda x: gnp.cbrt(gnp.clip(x, 0.25, 2)),
            lambda x: (abs(x) + 0.5) ** 0.3, lambda x: gnp.tanh(x) ** 3,
        ]  # fmt: skip
        if rng.random() < 0.6:
            # Jumps are for values of which every bit is known.
            f = rng.choice(exact if v.exact else [exact[i] for i in (0, 1, 2, 3, 9, 15)])
            return Value(f(x), v.exact)
        return Value(rng.choice(smooth)(gnp.clip(gnp.nan_to_num(x), -30, 30)), False)

    def binary(self) -> Value | None:
        v = self.pick()
        assert v is not None
        o = self.partner(v)
        if o.x.dtype != v.x.dtype:
            return None
        x, y, exact = v.x, o.x, v.exact and o.exact
        if v.kind == "b":
            return Value(self.rng.choice([lambda: x & y, lambda: x | y, lambda: x ^ y])(), exact)
        if v.kind == "c":
            f = self.rng.choice(["+", "-", "*"])
            made = x + y if f == "+" else x - y if f == "-" else x * y * 0.25
            return Value(made, exact and f != "*")
        plain = [lambda: x + y, lambda: x - y, lambda: x * y, lambda: gnp.maximum(x, y)]
        plain.append(lambda: gnp.minimum(x, y))
        if v.kind in "iu":
            plain += [lambda: x & y, lambda: x | y, lambda: x ^ y]
            plain += [lambda: x // gnp.maximum(y & 7, 1), lambda: x % gnp.maximum(y & 7, 1)]
            return Value(self.rng.choice(plain)(), True)
        plain += [lambda: x / (1.5 + abs(y)), lambda: gnp.where(abs(y) < 1, x, y * 0.5)][
            : 1 + o.exact
        ]
        return Value(gnp.clip(self.rng.choice(plain)(), -1e4, 1e4), exact)

    def compared(self) -> Value | None:
        v = self.pick("biuf", True)
        if v is None:
            return None
        o = self.partner(v)
        if not o.exact or o.x.dtype != v.x.dtype:
            return None
        ops = [gnp.less, gnp.less_equal, gnp.equal, gnp.not_equal, gnp.greater, gnp.greater_equal]
        return Value(self.rng.choice(ops)(v.x, o.x), True)

    def chosen(self) -> Value | None:
        c, v = self.pick("b", True), self.pick()
        assert v is not None
        if c is None:
            return None
        o = self.partner(v)
        if o.x.dtype != v.x.dtype:
            return None
        shape = spread(c.x.shape, spread(v.x.shape, o.x.shape))
        if shape is None or np.prod(shape, initial=1) > LARGEST:
            return None
        return Value(gnp.where(c.x, v.x, o.x), v.exact and o.exact)

    def moved(self) -> Value | None:
        v, rng = self.pick(), self.rng
        assert v is not None
        x = v.x
        if not x.ndim:
            return Value(gnp.broadcast_to(x, (rng.choice(LENGTHS),)), v.exact)
        axis = self.axis(x)
        n = x.shape[axis]
        way = rng.randrange(12)
        if way == 0:
            made = gnp.transpose(x, rng.sample(range(x.ndim), x.ndim))
        elif way == 1:
            made = gnp.reshape(x, rng.choice([(-1,), (1, *x.shape), (*x.shape[::-1],)]))
        elif way == 2:
            made = gnp.flip(x, axis)
        elif way == 3:
            start = rng.randrange(n)
            cut = slice(start, rng.randint(start + 1, n), rng.choice((1, 1, 2, 3)))
            made = x[(slice(None),) * axis + (cut,)]
        elif way == 4:
            made = x[(slice(None),) * axis + (slice(None, None, -rng.choice((1, 2))),)]
        elif way == 5:
            widths = [(rng.randrange(3), rng.randrange(3)) for _ in x.shape]
            made = gnp.pad(x, widths, mode=rng.choice(["constant", "edge", "wrap"]))
        elif way == 6:
            made = lax.pad(
                x,
                x.dtype.type(1),
                [(rng.randint(-1, 2), rng.randrange(3), rng.randrange(2)) for _ in x.shape],
            )
        elif way == 7:
            made = gnp.roll(x, rng.randint(-3, 3), axis)
        elif way == 8:
            made = gnp.broadcast_to(x, (rng.choice((1, 2, 3)), *x.shape))
        elif way == 9:
            made = gnp.repeat(x, rng.choice((2, 3)), axis)
        elif way == 10:
            made = gnp.swapaxes(gnp.expand_dims(x, axis), 0, -1)
        else:
            start = self.pick("iu", True)
            size = rng.randint(1, n)
            at = gnp.ravel(start.x)[0].astype("int32") if start and start.x.size else 1
            made = lax.dynamic_slice_in_dim(x, at, size, axis)
        return Value(made, v.exact) if made.size else None

    def joined(self) -> Value | None:
        v = self.pick()
        assert v is not None
        if not v.x.ndim:
            return None
        axis = self.axis(v.x)
        fits = [
            o for o in self.values
            if o.x.ndim == v.x.ndim and but(o.x.shape, axis) == but(v.x.shape, axis)
        ]  # fmt: skip
        o = self.cast(self.rng.choice(fits), v.x.dtype)
        if o is None:
            return None
        parts = [v.x, o.x, v.x[(slice(None),) * axis + (slice(0, 1),)]]
        return Value(gnp.concatenate(parts[: self.rng.choice((2, 3))], axis), v.exact and o.exact)

    def folded(self) -> Value | None:
        v, rng = self.pick(), self.rng
        assert v is not None
        x, keep = v.x, self.rng.random() < 0.5
        axes = self.axes(x)
        if v.kind == "b":
            return Value(rng.choice([gnp.any, gnp.all, gnp.sum])(x, axis=axes, keepdims=keep), True)
        if v.kind == "c":
            return Value(gnp.mean(x, axis=axes, keepdims=keep), False)
        found = [gnp.max, gnp.min]
        if v.kind in "iu":
            found += [gnp.sum, gnp.prod]
            return Value(rng.choice(found)(x, axis=axes, keepdims=keep), True)
        if rng.random() < 0.2 and v.exact and x.ndim:
            which = rng.choice([gnp.argmax, gnp.argmin])
            return Value(which(x, axis=self.axis(x), keepdims=keep), True)
        if rng.random() < 0.4:
            return Value(rng.choice(found)(x, axis=axes, keepdims=keep), v.exact)
        x = gnp.clip(gnp.nan_to_num(x), -100, 100)
        smooth = [
            gnp.mean,
            gnp.var,
            lambda x, axis, keepdims: gnp.sum(x, axis=axis, keepdims=keepdims) / 8,
        ]
        smooth.append(
            lambda x, axis, keepdims: gnp.log(
                gnp.sum(gnp.exp(-abs(x)), axis=axis, keepdims=keepdims)
            )
        )
        return Value(rng.choice(smooth)(x, axis=axes, keepdims=keep), False)

    def cumulative(self) -> Value | None:
        v, rng = self.pick("iuf"), self.rng
        if v is None or not v.x.ndim:
            return None
        axis, back = self.axis(v.x), rng.random() < 0.3
        if rng.random() < 0.5:
            return Value(
                rng.choice([lax.cummax, lax.cummin])(v.x, axis=axis, reverse=back), v.exact
            )
        x = v.x if v.kind in "iu" else gnp.clip(gnp.nan_to_num(v.x), -4, 4) / 8
        return Value(lax.cumsum(x, axis=axis, reverse=back), v.kind in "iu")

    def gathered(self) -> Value | None:
        v, rng = self.pick(), self.rng
        assert v is not None
        if not v.x.ndim:
            return None
        axis = self.axis(v.x)
        n = v.x.shape[axis]
        at = self.places(n, rng.choice((1, 3, 6)))
        if at is None:
            return None
        way = rng.randrange(3)
        if way == 0:
            return Value(gnp.take(v.x, at, axis=axis), v.exact)
        if way == 1:
            outside = at + rng.randint(-2, 2)
            return Value(
                gnp.take(v.x, outside, axis=axis, mode=rng.choice(["clip", "wrap"])), v.exact
            )
        other = gnp.broadcast_to(at[:1], v.x.shape) if v.x.size <= LARGEST else None
        return None if other is None else Value(gnp.take_along_axis(v.x, other, axis), v.exact)

    def updated(self) -> Value | None:
        v, rng = self.pick(), self.rng
        assert v is not None
        if not v.x.ndim or v.kind == "b":
            return None
        at = self.places(v.x.shape[0], rng.choice((1, 2, 5)))
        if at is None:
            return None
        way = rng.choice(["set", "add", "max", "min", "slice", "window"])
        if v.kind == "c" and way in ("max", "min"):
            way = "add"
        new = Value(v.x[:1] * 2, v.exact) if rng.random() < 0.5 else None
        given = 1 if new is None else new.x
        if way == "slice":
            step = rng.choice((1, 2))
            return Value(v.x.at[rng.randrange(v.x.shape[0]) :: step].add(given), v.exact)
        if way == "window":
            window = v.x[tuple(slice(0, max(1, n // 2)) for n in v.x.shape)] * 2
            return Value(lax.dynamic_update_slice(v.x, window, [at[0]] * v.x.ndim), v.exact)
        made = getattr(v.x.at[at], way)(given)
        # Sums meet in the order of the updates, or in another.
        return Value(made, v.exact and (way != "add" or v.kind in "iu" or at.size == 1))

    def converted(self) -> Value | None:
        v = self.pick()
        assert v is not None
        return self.cast(v, np.dtype(getattr(ml_dtypes, (n := self.rng.choice(DTYPES)), None) or n))

    def ordered(self) -> Value | None:
        v = self.pick("iuf", True)
        if v is None or not v.x.ndim:
            return None
        x, axis, rng = v.x, self.axis(v.x), self.rng
        k = rng.randint(1, x.shape[axis])
        o = self.partner(v)
        fits = o.exact and spread(o.x.shape, x.shape) == x.shape
        other = gnp.broadcast_to(o.x, x.shape) if fits else x
        at = lax.broadcasted_iota("int32", x.shape, axis)
        made = rng.choice([
            lambda: gnp.sort(x, axis=axis), lambda: gnp.argsort(x, axis=axis),
            lambda: gnp.argsort(x, axis=axis, descending=True),
            lambda: lax.top_k(x, k, axis=axis)[0], lambda: lax.top_k(x, k, axis=axis)[1],
            lambda: lax.sort((x, other, at), dimension=axis, num_keys=2)[rng.randrange(3)],
        ])()  # fmt: skip
        return Value(made, True)

    def product(self) -> Value | None:
        v = self.pick("iuf")
        if v is None or v.x.ndim < 2:
            return None
        x = v.x if v.kind in "iu" else gnp.tanh(gnp.nan_to_num(v.x))
        return Value(x @ gnp.swapaxes(x, -1, -2), v.kind in "iu")

    def made_of_indices(self) -> Value | None:
        v, rng = self.pick("biuf"), self.rng
        if v is None or not v.x.ndim:
            return None
        if v.x.ndim > 1 and rng.random() < 0.5:
            return Value(rng.choice([gnp.triu, gnp.tril])(v.x, rng.randint(-1, 1)), v.exact)
        i = lax.broadcasted_iota("int32", v.x.shape, self.axis(v.x))
        return Value(gnp.where(i % 3 == 1, v.x, gnp.zeros_like(v.x)), v.exact)

    # ---- loops and branches ----
    def body(self, seed: float, xs, steps: int, like) -> Value | None:
        """A few steps on values, made to be like another one."""
        maker = _Maker(0, xs)
        maker.rng, maker.depth = random.Random(seed), self.depth + 1
        if maker.values[-1].kind in "fc":
            # What it was made of in the turn before may be inexact.
            maker.values[-1] = maker.values[-1]._replace(exact=False)
        last = maker.run(steps)[0]
        exact, x = last.exact, last.x
        if last.kind == "c" and np.dtype(like.dtype).kind != "c":
            x = gnp.real(x)
        if x.shape != like.shape:
            # Something of it, where the shape is another.
            x = gnp.sum(x > 0) if exact and last.kind in "iu" else x.size
        if (
            np.dtype(like.dtype).name in (*INTEGERS, "bool")
            and gnp.asarray(x).dtype.kind not in "iub"
        ):
            return None
        if not isinstance(x, int) and np.dtype(like.dtype).name not in INTEGERS:
            x = gnp.clip(x, -50, 50) if gnp.asarray(x).dtype.kind == "f" else x
        return Value(
            (like + gnp.asarray(x).astype(like.dtype)) if like.dtype != bool else like, exact
        )

    def loop(self) -> Value | None:
        v, rng = self.pick("iuf"), self.rng
        if v is None or v.x.size > LARGEST:
            return None
        if v.x.dtype in (ml_dtypes.bfloat16, np.dtype("float16")):
            return None
        seed, steps, turns, way = (
            rng.random(),
            rng.randint(1, 4),
            rng.randint(0, 4),
            rng.randrange(4),
        )
        others = [o.x for o in rng.sample(self.values, min(2, len(self.values))) if o.exact]

        def one(x, i):
            made = self.body(seed, [*others, gnp.asarray(i), x], steps, x)
            if made is None:
                return x * x.dtype.type(3)
            return made.x if v.kind in "iu" else made.x * x.dtype.type(0.25)

        if way == 0:
            made = lax.fori_loop(0, turns, lambda i, c: one(c, i), v.x)
        elif way == 1 and v.x.ndim:

            def row(c, x):
                if not x.ndim:
                    return one(c, x), c
                return one(c, gnp.sum(x) * 0), one(c, gnp.max(x)) + x[..., :1].astype(c.dtype) * 0

            made, ys = lax.scan(row, v.x[0], v.x, reverse=rng.random() < 0.5)
            made = ys if rng.random() < 0.5 else made
        elif way == 2:
            made = lax.while_loop(
                lambda s: s[0] < turns, lambda s: (s[0] + 1, one(s[1], s[0])), (0, v.x)
            )[1]
        else:
            made = lax.scan(lambda c, i: (one(c, i), c), v.x, gnp.arange(turns))[1 if turns else 0]
        # The loops' bodies hold inexact steps as like as not, but none that makes integers of them.
        return Value(made, v.kind in "iu")

    def branch(self) -> Value | None:
        v, c, rng = self.pick(), self.pick("biuf", True), self.rng
        assert v is not None
        if c is None or not c.x.size or v.kind == "b":
            return None
        seeds = rng.random(), rng.random()
        which = gnp.ravel(c.x)[0] > 0

        def way(seed):
            def taken(x):
                made = self.body(seed, [x], 3, x)
                return x if made is None else made.x

            return taken

        made = lax.cond(which, way(seeds[0]), way(seeds[1]), v.x)
        return Value(made, False) if v.kind in "fc" else None


def graph_of(drawn: Drawn):
    """The graph of a program, and of each result how far it may be off: 0 where it is exact, else
    as far as the shortest of the program's floats allow.
    """
    exact: list[bool] = []

    def f(*xs):
        made, known = drawn(*xs)
        exact[:] = known
        return made

    with ga.enable_x64(True):
        graph = ga.jit(f).lower(*drawn.inputs).jaxpr
    text = str(graph)
    near = max([NEAR[n] for n, s in SHORT.items() if f":{s}[" in text], default=0.0)
    return graph, [0.0 if e else near for e in exact]
