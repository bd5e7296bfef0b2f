"""Products of matrices of integers, which no library has, as calls of functions of native code.

Floor 3. In: an equation that sums products. Out: the calls that copy both operands and multiply the
copies (kernels/native/45_integers.cuh), and the bytes of the copies.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gpuarray.compiler.native.products import cut_in_pieces, strides_of
from gpuarray.compiler.text import types as ct
from gpuarray.core.graph import Eqn, storage_dtype
from gpuarray.core.target import PROCESSOR


class IntegerCall(NamedTuple):
    """A function, its tasks, and how many of them a thread takes at a time."""

    function: str
    tasks: int
    grain: int


class IntegerProduct(NamedTuple):
    """The calls that copy the left operand, copy the right one and multiply; the bytes of the two
    copies; multiply-adds.
    """

    left: IntegerCall
    right: IntegerCall
    product: IntegerCall
    left_bytes: int
    right_bytes: int
    work: float


def integer_product(eqn: Eqn) -> IntegerProduct | None:
    """The calls that compute a product of integers; None for other numbers, or if it is so small
    that loops without copies are faster.
    """
    avals = [a.aval for a in (*eqn.invars, eqn.outvars[0])]
    types = [storage_dtype(a) for a in avals]
    rules = eqn.primitive.rewrite.product
    assert rules is not None
    whole = tuple(map(math.prod, rules.extents(eqn)))
    if any(t.kind not in "iu" for t in types) or math.prod(whole) < PROCESSOR.integer_product:
        return None
    # With few rows or columns the copies cost more than they save.
    batches, left, right = strides_of(eqn)
    rows, columns, steps = left.length, right.length, whole[3]
    if min(rows, columns) < PROCESSOR.integer_rows:
        return None
    kinds = [ct.memory_type(a) for a in avals]
    how, size = _multiplied(types, kinds, steps)
    count = math.prod(b.length for b in batches)
    along = [f"ga_along<{', '.join(map(str, b))}>" for b in batches]

    def call(name: str, numbers: tuple, tasks: int, work: int) -> IntegerCall:
        text = f"{name}<{', '.join(map(str, (how, *numbers, *along)))}>"
        return IntegerCall(text, tasks, max(1, PROCESSOR.product_task // max(1, work)))

    # Three calls: both operands are copied into panels with grouped steps, in the order in which
    # the multiplying instructions read them, then pieces of the result are tasks.
    some = PROCESSOR.product_rows
    down, across = cut_in_pieces(count, rows, columns, steps, copied=True)
    # A piece has whole panels; copies are padded with zeros, which do not change a sum.
    across = -(-across // PROCESSOR.panel_columns) * PROCESSOR.panel_columns
    pieces = -(-rows // down) * -(-columns // across)
    filled, padded = (
        -(-steps // PROCESSOR.panel_group) * PROCESSOR.panel_group,
        -(-columns // PROCESSOR.panel_columns) * PROCESSOR.panel_columns,
    )
    x, y, out = kinds
    return IntegerProduct(
        call(
            "ga_pack_left",
            (x, some, rows, columns, steps, left.own, left.step),
            count * -(-rows // some),
            some * steps,
        ),
        call(
            "ga_pack_right",
            (y, PROCESSOR.panel_columns, columns, steps, right.own, right.step),
            count * padded // PROCESSOR.panel_columns,
            PROCESSOR.panel_columns * steps,
        ),
        call(
            "ga_integer_product",
            (out, down, across, rows, columns, steps, whole[2]),
            count * pieces,
            down * across * steps // 4,
        ),
        count * rows * (filled + PROCESSOR.panel_group) * size,
        count * padded * filled * size,
        float(math.prod(whole)),
    )


def _multiplied(types: list, kinds: list[str], steps: int) -> tuple[str, int]:
    """How numbers are multiplied, and the bytes of a number in the copies at most."""
    x, y, out = types
    # The largest sum: 64-bit results of narrow numbers do not exceed it.
    most = steps << sum(8 * t.itemsize - (t.kind == "i") for t in (x, y))
    if out.itemsize < 8 or most < 1 << 31:
        if x.itemsize == y.itemsize == 1:
            return f"ga_bytes<{kinds[0]}, {kinds[1]}>", 2
        if all(t.itemsize == 1 or t.name == "int16" for t in (x, y)):
            return "ga_pairs", 2
        return "ga_wholes<int>", 4
    return "ga_wholes<long long>", 8
