"""Padding of windows over operands with holes (`lax/windows.py`)."""

import numpy as np
import pytest

from gpuarray import lax


@pytest.mark.parametrize(
    # Lengths of results in JAX 0.10.2; pads are those of eight elements without holes.
    ("window", "stride", "holes", "dilation", "pads", "length"),
    [
        (3, 2, 2, 1, (0, 1), 7),
        (3, 2, 2, 2, (1, 2), 7),
        (3, 1, 2, 1, (1, 1), 15),
        (2, 3, 1, 1, (0, 0), 3),
    ],
)
def test_same_counts_no_holes_of_the_operand(window, stride, holes, dilation, pads, length):
    x = np.arange(1.0, 9.0, dtype=np.float32)
    sums = lambda padding: lax.reduce_window(
        x, 0.0, lax.add, (window,), (stride,), padding, (holes,), (dilation,)
    )
    spread = np.zeros(sum(pads) + (len(x) - 1) * holes + 1, np.float32)
    spread[pads[0] : len(spread) - pads[1] : holes] = x
    taken = [
        spread[i:][: (window - 1) * dilation + 1 : dilation] for i in range(0, len(spread), stride)
    ]
    want = [row.sum() for row in taken if len(row) == window][:length]
    np.testing.assert_array_equal(sums("SAME"), want)
    np.testing.assert_array_equal(sums((pads,)), want)
    assert len(want) == length
