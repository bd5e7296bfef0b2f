"""vmap is a loop: for every primitive, over 0, 1 and 3 elements, wherever the extra axis is."""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
from tests.generic.smooth import ROWS, one_of_each
from tests.generic.test_primitives import as_array, stored
from tests.generic.transformed import (
    SIZE,
    axes_to_try,
    call,
    few_axes,
    neighbours,
    plain,
)
from tests.samples import Sample, values
from tests.support.nearness import assert_near
from tests.support.sampled import each_sample


def first_draws(sample: Sample) -> bool:
    """Whether one generator with a state makes the numbers of a batch: no loop, as in JAX.

    tests/unit/primitives/random/test_transforms.py compares those with what the first draws.
    """
    keys = {"random_bits": ("rbg",), "random_split": ("urbg",), "random_fold_in": ("urbg",)}
    kinds = [f"key<{k}>" for k in keys.get(sample.primitive.name, ())]
    return sample.primitive.name == "rng_bit_generator" or sample.operands[0][1] in kinds


LOOPS = [s for s in ROWS if not (s.operands and first_draws(s))]
FEW = {str(s) for s in one_of_each(LOOPS)}


def check(sample: Sample, size: int, all_axes: list[tuple[int | None, ...]]) -> None:
    """A batch with the extra axis here and there, against its elements one after the other."""
    sample = plain(sample)
    with ga.enable_x64(sample.wide):
        many = [values(s) for s in neighbours(sample, max(size, 1))]
        elements = [
            [as_array(x, a.dtype) for x, a in zip(xs, sample.avals, strict=True)] for xs in many
        ]
        alone: dict[tuple[int, ...], list[np.ndarray]] = {}
        for axes in all_axes:
            args = []
            for k, (axis, a) in enumerate(zip(axes, sample.avals, strict=True)):
                if axis is None:
                    args.append(elements[0][k])
                    continue
                stack = np.stack([xs[k] for xs in many], axis).take(range(size), axis)
                args.append(as_array(stack, a.dtype))
            found = ga.vmap(lambda *xs: call(sample, *xs), in_axes=axes)(*args)
            loop = []
            for i in range(max(size, 1)):
                chosen = tuple(0 if d is None else i for d in axes)
                if chosen not in alone:
                    xs = [elements[e][k] for k, e in enumerate(chosen)]
                    alone[chosen] = [stored(y) for y in call(sample, *xs)]
                loop.append(alone[chosen])
            for y, *each in zip(map(stored, found), *loop, strict=True):
                assert_near(y, np.stack(each)[:size], f"{size} elements, in_axes={axes}")


@each_sample(LOOPS)
def test_vmap_is_a_loop(sample):
    for size in (SIZE, 1, 0):
        if str(sample) in FEW:
            check(sample, size, axes_to_try(sample))
        else:
            check(sample, size, few_axes(sample)[: None if size == SIZE else 2])


@pytest.mark.slow
@pytest.mark.parametrize("size", [SIZE, 1, 0])
@pytest.mark.parametrize("sample", [s for s in LOOPS if str(s) not in FEW], ids=str)
def test_vmap_along_every_axis(sample, size):
    check(sample, size, axes_to_try(sample))


@pytest.mark.parametrize("sample", one_of_each(ROWS), ids=str)
def test_results_may_be_batched_anywhere(sample):
    """The axis of a batch stands in the results where `out_axes` says."""
    sample = plain(sample)
    with ga.enable_x64(sample.wide):
        args = [
            as_array(np.stack(xs), a.dtype)
            for xs, a in zip(zip(*map(values, neighbours(sample, SIZE))), sample.avals)
        ]

        def f(*xs):
            return call(sample, *xs)

        front = ga.vmap(f)(*args)
        for axis in (-1, *range(1, min((y.ndim for y in front), default=1))):
            for y, first in zip(ga.vmap(f, out_axes=axis)(*args), front, strict=True):
                turned = np.moveaxis(stored(first), 0, axis % y.ndim)  # of keys, not of their words
                assert_near(stored(y), turned, f"out_axes={axis}")
