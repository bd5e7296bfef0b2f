"""What the transforms make of every primitive: programs that any platform can run.

In: samples. Out: `Program`s, the derivatives of the smooth ones (`derivatives`) and the batches of
all (`batches`), each as a Graph and the buffers to run it on. Whether they are right is checked on
NumPy; elsewhere it is enough that they compute the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

import gpuarray as ga
from gpuarray.core.graph import Graph
from tests.generic.smooth import CONSTANT, CONSTANT_TWICE, Curve, is_inexact
from tests.samples import Sample, values

#: Elements of a batch.
SIZE = 3
#: Numbers of which second derivatives are taken, at most: there are as many as their square.
MANY = 64


class Program(NamedTuple):
    """A transform of a sample, ready to be traced."""

    sample: Sample
    transform: str
    function: Callable[..., Any]
    avals: list[Any]
    inputs: list[np.ndarray]

    def __str__(self) -> str:
        return f"{self.transform} of {self.sample}"

    def graph(self) -> Graph:
        return ga.jit(self.function).lower(*self.avals).jaxpr


def program(sample: Sample, transform: str, function, dtypes_of, inputs) -> Program:
    avals = [ga.ShapeDtypeStruct(x.shape, d) for x, d in zip(inputs, dtypes_of, strict=True)]
    return Program(sample, transform, function, avals, list(inputs))


# ---- derivatives ----


def _jvp(f, xs, vs):
    return ga.jvp(f, tuple(xs), tuple(vs))


def _twice(f, xs, vs, ws):
    return ga.jvp(lambda *ys: _jvp(f, ys, vs)[1], tuple(xs), tuple(ws))[1]


def _vjp(f, xs, cts):
    return ga.vjp(f, *xs)[1](list(cts))


def _grad(f, xs):
    return ga.grad(f.total, _each(xs))(*xs)


def _grad_of_jit(f, xs):
    return ga.grad(ga.jit(f.total), _each(xs))(*xs)


def _hessian(f, parts):
    return ga.hessian(f.height, _each(parts))(*parts)


def _vmap_of_grad(f, many):
    return ga.vmap(ga.grad(f.total, _each(many)))(*many)


def _grad_of_vmap(f, many):
    return ga.grad(lambda *ys: ga.vmap(f.total)(*ys).sum(), _each(many))(*many)


def _each(xs) -> tuple[int, ...]:
    return tuple(range(len(xs)))


#: By name: a function of a Curve and of lists of arrays, and which lists these are.
TRANSFORMS: dict[str, tuple[Callable, str]] = {
    "jvp": (_jvp, "start direction"),
    "jvp of jvp": (_twice, "start direction direction"),
    "vjp": (_vjp, "start cotangents"),
    "grad": (_grad, "start"),
    "grad of jit": (_grad_of_jit, "start"),
    "hessian": (_hessian, "parts"),
    "vmap of grad": (_vmap_of_grad, "several"),
    "grad of vmap": (_grad_of_vmap, "several"),
}
#: Those of second order, which fewer operands have.
TWICE = ("jvp of jvp", "hessian")


def derivatives(sample: Sample, transforms: Iterable[str] = TRANSFORMS) -> Iterator[Program]:
    """The derivatives of a smooth sample (see smooth.py), also those that it refuses."""
    for name in transforms:
        f = Curve(sample, CONSTANT_TWICE if name in TWICE else CONSTANT)
        function, wanted = TRANSFORMS[name]
        lists = [_arrays(f, what) for what in wanted.split()]
        if lists[0] and (name != "hessian" or is_small(sample)):
            yield _program(sample, name, f, function, lists)


def is_small(sample: Sample) -> bool:
    """Whether there are few enough numbers for all of their second derivatives."""
    sizes = [
        math.prod(shape) * (1 + name.startswith("complex"))
        for shape, name in sample.operands
        if is_inexact(name)
    ]
    return sum(sizes) <= MANY


def _arrays(f: Curve, what: str) -> list[np.ndarray]:
    if what == "direction":
        return f.direction(f.start)
    if what == "parts":
        return f.parts(f.start)
    if what == "several":
        each = [Curve(s).start for s in neighbours(f.sample, SIZE)]
        return [np.stack(xs) for xs in zip(*each, strict=True)]
    if what == "cotangents":
        out = ga.eval_shape(f, *f.start)
        return f.direction([np.empty(a.shape, a.dtype) for a in out])
    return f.start


def _program(sample: Sample, name: str, f: Curve, function, lists) -> Program:
    """A program of all operands and then of the lists, one array after the other."""
    fixed = values(sample)
    more = [np.asarray(x) for xs in lists for x in xs]

    def flat(*args):
        rest = iter(args[len(fixed) :])
        given = [[next(rest) for _ in xs] for xs in lists]
        return function(f.beside(args[: len(fixed)]), *given)

    kinds = [*(a.dtype for a in sample.avals), *(x.dtype for x in more)]
    return program(sample, name, flat, kinds, [*fixed, *more])


def neighbours(sample: Sample, count: int) -> list[Sample]:
    """Samples that differ in their numbers: the seed of values is a sample's own name."""
    return [sample._replace(number=1000 * i) for i in range(count)]


# ---- batches ----


def few_axes(sample: Sample) -> list[tuple[int | None, ...]]:
    """Where the extra axis may be: in front, at the end, in front of some operands alone."""
    n = len(sample.operands)
    found: list[tuple[int | None, ...]] = [(0,) * n, tuple(len(s) for s, _ in sample.operands)]
    if n <= 3:
        found += [d for d in itertools.product((0, None), repeat=n) if any(x == 0 for x in d)]
    else:
        found += [tuple(0 if i == k else None for i in range(n)) for k in range(n)]
    return list(dict.fromkeys(found))


def axes_to_try(sample: Sample) -> list[tuple[int | None, ...]]:
    """Where the extra axis is: in front, at the end, in some operands alone, and for each operand
    in every place that it has, with the others batched in front or not at all.
    """
    ranks = [len(shape) for shape, _ in sample.operands]
    n = len(ranks)
    found = [*few_axes(sample), (-1,) * n]
    for k, rank in enumerate(ranks):
        for axis in range(rank + 1):
            for others in (None, 0):
                found.append(tuple(axis if i == k else others for i in range(n)))
    return list(dict.fromkeys(found))


def call(sample: Sample, *xs) -> list:
    out = sample.primitive.bind(*xs, **sample.params)
    return list(out) if sample.primitive.multiple_results else [out]


def batches(sample: Sample, sizes=(SIZE, 1, 0), places=axes_to_try) -> Iterator[Program]:
    """A sample over an extra axis, of several lengths, in every place."""
    sample = plain(sample)
    many = [values(s) for s in neighbours(sample, SIZE)]
    kinds = [a.dtype for a in sample.avals]
    for size in sizes:
        for axes in places(sample):
            inputs = [
                many[0][k]
                if axis is None
                else np.stack([xs[k] for xs in many], axis).take(range(size), axis)
                for k, axis in enumerate(axes)
            ]

            def f(*xs, axes=axes):
                return ga.vmap(lambda *ys: call(sample, *ys), in_axes=axes)(*xs)

            yield program(sample, f"vmap {size} in {axes}", f, kinds, inputs)


def plain(sample: Sample) -> Sample:
    """Without special values where NumPy itself is of two minds about them: complex numbers."""
    complexes = any(name.startswith("complex") for _, name in sample.operands)
    return sample._replace(domain=None) if complexes and sample.domain == "any" else sample


# ---- results ----
