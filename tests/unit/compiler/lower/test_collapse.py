"""Axes that lie together wherever they are used are one axis to a kernel.

In: programs whose arrays share some neighbouring axes and not others. The simulator runs their
kernels against NumPy.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.compiler.cuda.emit import KernelSource
from tests import golden
from tests.support import simulated
from tests.unit.compiler.cuda.test_tiles import filled, kernels

simulated.need_compiler()


def one(function, *arrays) -> KernelSource:
    (kernel,) = kernels(function, *arrays)
    return kernel


def axes_named(kernel: KernelSource) -> int:
    """How many positions along axes a kernel has names for."""
    return sum(f" {name} = " in kernel.text for name in ("batch", "i0", "i1", "i2", "i3"))


def test_turned_pairs_of_axes_are_a_plain_transpose():
    kernel = one(lambda x: gnp.transpose(x, (2, 0, 1)) * 2, filled("float32", 20, 7, 60))
    assert kernel.kernel.form == "tiles" and "i1 * 60u + i0" in kernel.text
    assert "7u" not in kernel.text and "batch" not in kernel.text  # 20 x 7 are 140


def test_height_and_width_are_one_axis_when_channels_move():
    x = filled("float32", 4, 64, 56, 56)
    kernel = one(lambda x: gnp.transpose(x, (0, 2, 3, 1)) + 1, x)
    assert kernel.kernel.form == "tiles" and "56u" not in kernel.text and "3136u" in kernel.text


def test_rows_of_a_batch_of_matrices_are_counted_once():
    x = filled("float32", 4, 8, 16, 96)
    kernel = one(lambda x: x - gnp.max(x, -1, keepdims=True), x)
    assert kernel.kernel.form == "rows" and axes_named(kernel) == 0


def test_axes_that_one_operand_lacks_stay_apart():
    x, bias = filled("float32", 16, 24, 40), filled("float32", 24)
    kernel = one(lambda x, b: x.T + b[None, :, None], x, bias)
    assert axes_named(kernel) == 3
    image = filled("float32", 6, 10, 12)
    padded = one(lambda x: gnp.pad(x, ((0, 0), (0, 0), (2, 2))).swapaxes(0, 1) * 2, image)
    assert axes_named(padded) == 3


def test_reduced_axes_are_joined_with_each_other_only():
    x = filled("float32", 5, 6, 7, 8)
    kernel = one(lambda x: gnp.sum(x, (2, 3)), x)
    assert "// " in kernel.text and "30 rows of 56" in kernel.text and axes_named(kernel) == 0


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_every_order_of_four_axes(dtype):
    x = filled(dtype, 3, 18, 5, 20)
    simulated.compare(
        (lambda x, order=order: gnp.transpose(x, order) * 2, (x,))
        for order in itertools.permutations(range(4))
    )


def test_folds_in_every_order_of_axes():
    x = filled("int32", 6, 10, 4, 9)
    pairs = list(itertools.combinations(range(4), 2))
    orders = list(itertools.permutations(range(4)))[::5]
    cases = [
        (lambda x, order=order, axes=axes: gnp.max(gnp.transpose(x, order) * 3, axes), (x,))
        for order in orders
        for axes in [*pairs, (1,), (0, 1, 3)]
    ]
    cases += [(lambda x, a=a: gnp.argmax(x.reshape(6, 40, 9) * 3, a), (x,)) for a in range(3)]
    cases += [(lambda x: gnp.argmin(x.transpose(1, 0, 2, 3)), (x,))]
    simulated.compare(cases)


def test_several_outputs_places_and_parts():
    x, y = filled("float32", 6, 20, 4, 18), filled("float32", 20, 4)
    rows = gnp.asarray([3, 1, 2])
    cases = [
        (lambda x, y: (x.transpose(0, 3, 1, 2) * 2, x + 1, gnp.max(x, (1, 2))), (x, y)),
        (lambda x, y: x.transpose(0, 3, 1, 2) + y, (x, y)),
        (lambda x, y: x.transpose(3, 0, 1, 2)[:, 1:4] + y[::-1], (x, y)),
        (lambda x, y: gnp.concatenate([x, x * 2], 2).transpose(0, 3, 1, 2), (x, y)),
        (lambda x, y: (x[rows] + y[:, :, None]).transpose(3, 0, 1, 2), (x, y)),
        (lambda x, y: gnp.arange(80.0).reshape(20, 4) + x.transpose(3, 0, 1, 2), (x, y)),
        (lambda x, y: x.reshape(120, 72).T.reshape(4, 18, 6, 20) * 2, (x, y)),
        (lambda x, y: (x - x.max((1, 2), keepdims=True)).transpose(0, 3, 1, 2), (x, y)),
    ]
    simulated.compare(cases)


def test_the_golden_one_has_two_axes_and_a_batch():
    (kernel,) = golden.kernels("channels_last")
    assert kernel.text.count("batch") == 3


def test_shown_kernels_are_those_that_run():
    function, arguments = golden.programs()["channels_last"]
    (shown,) = ga.explain(function, platform="cuda")(*arguments).kernels
    assert "3136u" in shown.source and shown.grid == 32 * 98 * 2


def test_what_lies_together_is_found_whatever_the_lengths():
    rng = np.random.default_rng(0)
    cases = []
    for _ in range(12):
        shape = tuple(int(n) for n in rng.integers(1, 9, rng.integers(2, 6)))
        order = tuple(int(k) for k in rng.permutation(len(shape)))
        other = tuple(int(k) for k in rng.permutation(len(shape)))
        x = filled("float32", *shape)
        y = filled("float32", *(shape[k] for k in order))
        cases.append((lambda x, y, o=order: gnp.transpose(x, o) - y, (x, y)))
        cases.append(
            (lambda x, y, o=order, p=other: (gnp.transpose(x, o) - y).transpose(p) * 2, (x, y))
        )
    simulated.compare(cases)
