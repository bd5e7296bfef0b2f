"""Rewrite rules of `dot_general` (exchanging or transposing operands, or multiplication and sum)
and of convolution (the windows it sums over).

Floor 2. In: an equation. Out: as in core/rewrite.py.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray.core.dtypes import kind_of
from gpuarray.core.graph import Atom, Eqn, Var, storage_dtype
from gpuarray.core.rewrite import Extents, Product, Roles, WindowAxis, WindowedProduct
from gpuarray.primitives.contract.epilogues import epilogues
from gpuarray.primitives.contract.precision import DotAlgorithm, rounded_types, rounding_of
from gpuarray.primitives.elementwise.arithmetic import mul_p
from gpuarray.primitives.elementwise.convert import conversion
from gpuarray.primitives.movement import build
from gpuarray.primitives.reduce.ops import reduce_sum_p


def _extents(eqn: Eqn) -> Extents:
    # Axes by role: batch, rows (free axes of lhs), columns (those of rhs), and the summed ones.
    (gone, also_gone), (batch, also_batch) = eqn.params["dimension_numbers"]
    left, right = (a.aval.shape for a in eqn.invars)
    rows = tuple(n for d, n in enumerate(left) if d not in (*gone, *batch))
    columns = tuple(n for d, n in enumerate(right) if d not in (*also_gone, *also_batch))
    return Extents(tuple(left[d] for d in batch), rows, columns, tuple(left[d] for d in gone))


def _roles(eqn: Eqn) -> tuple[Roles, Roles]:
    summed, both = eqn.params["dimension_numbers"]
    left, right = (
        Roles(tuple(b), tuple(d for d in range(a.aval.ndim) if d not in (*b, *s)), tuple(s))
        for a, b, s in zip(eqn.invars, both, summed, strict=True)
    )
    return left, right


def _exchanged(eqn: Eqn, order: tuple[int | None, ...], out: Var) -> Eqn | None:
    """Exchange the operands, and so rows and columns of the result; batch axes stay in front."""
    batch, rows, columns, _ = map(len, _extents(eqn))
    # The order that a transpose needs: batch axes, then columns, then rows.
    end = batch + rows + columns
    exchanged = (*range(batch), *range(batch + rows, end), *range(batch, batch + rows))
    if not rows or not columns or order != exchanged:
        return None
    (left, right), (both, other) = eqn.params["dimension_numbers"]
    # A pair of precisions is one for each operand.
    precision = eqn.params["precision"]
    if isinstance(precision, tuple) and len(precision) == 2:
        precision = precision[::-1]
    numbers = ((right, left), (other, both))
    params = {**eqn.params, "dimension_numbers": numbers, "precision": precision}
    return eqn.replace(invars=eqn.invars[::-1], outvars=[out], params=params)


def _turned(eqn: Eqn, side: int, order: tuple[int, ...], operand: Var) -> Eqn | None:
    """Number the axes as `operand` has them; matrices may be stored either way round."""
    summed, both = ([tuple(axes) for axes in of] for of in eqn.params["dimension_numbers"])
    own = _roles(eqn)[side].own
    batch, steps, rest = (tuple(order[d] for d in of) for of in (both[side], summed[side], own))
    # Batch axes in front, then rows and summed axes in either order: a library takes it as a matrix
    # or its transpose.
    if tuple(range(len(order))) not in ((*batch, *rest, *steps), (*batch, *steps, *rest)):
        return None
    summed[side], both[side] = steps, batch
    invars = list(eqn.invars)
    invars[side] = operand
    params = {**eqn.params, "dimension_numbers": (tuple(summed), tuple(both))}
    return eqn.replace(invars=invars, params=params)


def _laid(eqn: Eqn, side: int) -> list[Eqn]:
    """Transpose an operand to batch axes, own axes and steps, and number its axes so."""
    batch, own, steps = _roles(eqn)[side]
    copy = build.transpose(eqn.invars[side], (*batch, *own, *steps), eqn.site)
    summed, both = ([tuple(axes) for axes in of] for of in eqn.params["dimension_numbers"])
    both[side] = tuple(range(len(batch)))
    summed[side] = tuple(range(len(batch) + len(own), copy.outvars[0].aval.ndim))
    invars = list(eqn.invars)
    invars[side] = copy.outvars[0]
    params = {**eqn.params, "dimension_numbers": (tuple(summed), tuple(both))}
    return [copy, eqn.replace(invars=invars, params=params)]


def _expanded(eqn: Eqn) -> list[Eqn]:
    """Broadcast both operands to (batch, rows, columns, steps), multiply, and sum the steps: short
    floats as float32, of which products are exact, and rounded once.
    """
    batch, rows, columns, steps = _extents(eqn)
    shape = (*batch, *rows, *columns, *steps)
    end = len(shape) - len(steps)
    made: list[Eqn] = []

    def add(new: Eqn) -> Var:
        made.append(new)
        return new.outvars[0]

    def converted(a: Atom, dtype: np.dtype, out: Var | None = None) -> Atom:
        if a.aval.dtype == dtype:
            return a
        return add(conversion(a, dtype, eqn.site, out))

    def along(a: Atom, summed: tuple[int, ...], both: tuple[int, ...], own: int) -> Var:
        """Broadcast an operand; the axes that only it has begin at `own`."""
        rest = iter(range(own, end))
        # Batch axes in front, summed axes at the end, own axes between them.
        places = [
            both.index(d) if d in both else end + summed.index(d) if d in summed else next(rest)
            for d in range(a.aval.ndim)
        ]
        # broadcast_in_dim takes increasing axes, so bring them in order first.
        order = tuple(sorted(range(len(places)), key=places.__getitem__))
        if order != tuple(range(len(order))):
            a = add(build.transpose(a, order, eqn.site))
        return add(build.broadcast(converted(a, held), shape, tuple(sorted(places)), eqn.site))

    (gone, also_gone), (shared, also_shared) = eqn.params["dimension_numbers"]
    left, right = eqn.invars
    (out,) = eqn.outvars
    short = kind_of(out.aval.dtype) == "f" and storage_dtype(out.aval).itemsize < 4
    held = np.dtype(np.float32) if short else out.aval.dtype
    exact = out.aval.update(dtype=held)
    x = along(left, tuple(gone), tuple(shared), len(batch))
    y = along(right, tuple(also_gone), tuple(also_shared), len(batch) + len(rows))
    # Nothing to sum: an outer product.
    if not steps:
        made.append(Eqn(mul_p, [x, y], [Var(exact) if short else out], {}, eqn.site))
    else:
        product = add(Eqn(mul_p, [x, y], [Var(exact.update(shape=shape))], {}, eqn.site))
        params = {"axes": tuple(range(end, len(shape))), "out_sharding": None}
        total = Var(exact) if short else out
        made.append(Eqn(reduce_sum_p, [product], [total], params, eqn.site))
    if short:
        converted(made[-1].outvars[0], out.aval.dtype, out)
    return made


def _split(eqn: Eqn, side: int) -> list[Eqn]:
    """Take the rows of an operand one by one."""
    own, operand, (out,) = _roles(eqn)[side].own, eqn.invars[side], eqn.outvars
    (axis,) = (d for d in own if operand.aval.shape[d] > 1)
    # Batch axes come first in the result, then those of the left operand.
    batch, rows, _, _ = map(len, _extents(eqn))
    place = batch + own.index(axis) + (rows if side else 0)
    # A row has no such axis, and later ones have other numbers.
    summed, both = ([tuple(axes) for axes in of] for of in eqn.params["dimension_numbers"])
    for of in (summed, both):
        of[side] = tuple(d - (d > axis) for d in of[side])
    params = {**eqn.params, "dimension_numbers": (tuple(summed), tuple(both))}
    shape, kept = (
        tuple(n for d, n in enumerate(x.aval.shape) if d != gone)
        for x, gone in ((out, place), (operand, axis))
    )
    made, parts = [], []
    for k in range(operand.aval.shape[axis]):
        piece = build.piece(operand, axis, k, 1, eqn.site)
        row = build.reshape(piece.outvars[0], kept, eqn.site)
        invars = [row.outvars[0] if i == side else a for i, a in enumerate(eqn.invars)]
        parts.append(Var(out.aval.update(shape=shape)))
        made += [piece, row, eqn.replace(invars=invars, outvars=parts[-1:], params=params)]
    return [*made, build.stack(parts, place, eqn.site, out)]


def rounded_operands(eqn: Eqn) -> list[Eqn] | None:
    """The conversions that an algorithm asks for, and the product of what they give; None if it
    asks for none.
    """
    given = [a.aval.dtype for a in eqn.invars]
    rounded = rounded_types(eqn.params["precision"], *given)
    if rounded == [None, None]:
        return None
    # A product is of operands of one type: rounded ones of two types are converted back.
    several = len({to or dtype for dtype, to in zip(given, rounded, strict=True)}) > 1
    made: list[Eqn] = []
    operands = list(eqn.invars)
    for side, (dtype, to) in enumerate(zip(given, rounded, strict=True)):
        for wanted in () if to is None else (to, dtype) if several else (to,):
            made.append(conversion(operands[side], wanted, eqn.site))
            (operands[side],) = made[-1].outvars
    out = eqn.outvars[0].aval.dtype
    left, right = (a.aval.dtype for a in operands)
    algorithm = DotAlgorithm(left, right, rounding_of(eqn.params["precision"])[2] or out)
    params = {**eqn.params, "precision": algorithm, "preferred_element_type": out}
    return [*made, eqn.replace(invars=operands, params=params)]


PRODUCT = Product(_extents, _roles, _exchanged, _turned, _expanded, _split, _laid, epilogues)


# ---- convolution ----


def windows(eqn: Eqn) -> WindowedProduct:
    """Return the sums over windows that a convolution is."""
    p = eqn.params
    lhs, rhs = (a.aval.shape for a in eqn.invars)
    out = eqn.outvars[0].aval.shape
    numbers = p["dimension_numbers"]
    by_feature, by_batch = p["feature_group_count"], p["batch_group_count"]
    groups = max(by_feature, by_batch)
    images, channels = lhs[numbers.lhs_spec[0]] // by_batch, rhs[numbers.rhs_spec[1]]
    features = rhs[numbers.rhs_spec[0]] // groups
    space = tuple(
        WindowAxis(lhs[a], rhs[b], out[c], stride, dilation, low, spread)
        for a, b, c, stride, dilation, (low, _), spread in zip(
            numbers.lhs_spec[2:],
            numbers.rhs_spec[2:],
            numbers.out_spec[2:],
            p["window_strides"],
            p["rhs_dilation"],
            p["padding"],
            p["lhs_dilation"],
            strict=True,
        )
    )
    # The stride of each axis, named as in WindowedProduct.
    n, c, *left = _distances(lhs, numbers.lhs_spec)
    f, d, *right = _distances(rhs, numbers.rhs_spec)
    m, h, *result = _distances(out, numbers.out_spec)
    # A group of features has its own channels, a group of the batch its own images.
    group = images * n if by_batch > 1 else channels * c
    return WindowedProduct(
        groups,
        images,
        features,
        channels,
        space,
        (group, n, c, *left),
        (features * f, f, d, *right),
        (features * h, m, h, *result),
    )


def _distances(shape: tuple[int, ...], axes: tuple[int, ...]) -> list[int]:
    """Return the strides of some axes, in elements."""
    return [math.prod(shape[d + 1 :]) for d in axes]
