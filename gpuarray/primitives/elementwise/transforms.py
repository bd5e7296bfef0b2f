"""Derivatives and batching of pointwise operations: arithmetic, extremes, choice.

Floor 2. In: the operands of a rule. Out: values made of other primitives, bound by name. Which rule
belongs to which primitive is said in `gpuarray.primitives.elementwise.arithmetic`.
"""

from __future__ import annotations

from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.linear import Zero, is_undefined, is_zero, tangent_aval
from gpuarray.primitives.axes import move_axis
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import (
    broadcast_like,
    cast_like,
    constant,
    full_like,
    instantiate,
    share_of,
    zeros,
)

# ---- arithmetic ----


def add_jvp(primals, tangents):
    out = do.add(*primals)
    # A symbolic zero costs no addition, but the tangent must have the result's shape.
    t, u = tangents
    if is_zero(t) or is_zero(u):
        return out, broadcast_like(t if is_zero(u) else u, aval_of(out))
    return out, do.add(t, u)


def sub_jvp(primals, tangents):
    out = do.sub(*primals)
    t, u = tangents
    if is_zero(u):
        # The tangent of x only: there is no second term.
        return out, broadcast_like(t, aval_of(out))
    return out, broadcast_like(do.neg(u), aval_of(out)) if is_zero(t) else do.sub(t, u)


def sub_transpose(ct, x, y):
    return share_of(ct, x), do.neg(share_of(ct, y)) if is_undefined(y) else None


def mul_transpose(ct, x, y, *, out_dtype=None):
    """Multiply `ct` by the known factor, both in the wider type if there is one."""
    unknown, known = (x, y) if is_undefined(x) else (y, x)
    known = cast_like(known, aval_of(ct))
    # In the order of the operands, so that a printed graph reads alike.
    product = do.mul(ct, known) if unknown is x else do.mul(known, ct)
    share = share_of(cast_like(product, unknown.aval), unknown)
    return (share, None) if unknown is x else (None, share)


def whole_quotient(x, y):
    """x / y rounded towards zero."""
    return do.mul(do.sign(do.div(x, y)), do.floor(do.abs(do.div(x, y))))


def abs_derivative(t, out, x):
    if dtypes.kind_of(aval_of(x).dtype) != "c":
        # At 0, where there is no derivative, use that of x.
        return do.select_n(do.ge(x, constant(x, 0)), do.neg(t), t)
    # d|x| = Re(conj(x) dx) / |x|.
    conjugate = do.conj(x, input_dtype=aval_of(x).dtype)
    size = cast_like(out, aval_of(x))
    safe = do.select_n(do.eq(size, constant(x, 0)), size, full_like(x, 1))  # 0 / 0 would be nan
    return do.real(do.mul(t, do.div(conjugate, safe)))


def _where(mask, true, false, like):
    true, false = full_like(like, true), full_like(like, false)
    return do.select_n(mask, false, true)


def where_chosen(t, out, this, other):
    """The tangent where the result is this operand, and half of it where both operands are equal.

    The other operand's rule gives the other half, as in JAX.
    """
    chosen = _where(do.eq(this, out), 1, 0, out)
    count = _where(do.eq(other, out), 2, 1, out)
    return do.mul(t, do.div(chosen, count))


#: Derivatives of `max` and `min`.
EXTREME_JVP = (
    lambda t, out, x, y: where_chosen(t, out, x, y),
    lambda t, out, x, y: where_chosen(t, out, y, x),
)


def integer_pow_jvp(primals, tangents, *, y: int):
    (x,), (t,) = primals, tangents
    out = do.integer_pow(x, y=y)
    if y == 0:  # x ** 0 is constant
        return out, Zero(tangent_aval(aval_of(out)))
    if y == 1:
        return out, t
    # No power for y == 2: the graph has 2 x, not 2 x ** 1.
    power = x if y == 2 else do.integer_pow(x, y=y - 1)
    return out, do.mul(t, do.mul(constant(x, y), power))


def nextafter_jvp(primals, tangents):
    raise NotImplementedError(
        "Differentiation rule for 'nextafter' not implemented: it steps from float to float. Guard "
        "its operands with gpuarray.lax.stop_gradient if no derivative is wanted."
    )


# ---- choice and identity ----


def select_n_jvp(primals, tangents):
    out = do.select_n(*primals)
    # Zeros are materialised: the choice is made element by element.
    return out, do.select_n(primals[0], *[instantiate(t) for t in tangents[1:]])


def select_n_transpose(ct, which, *cases):
    nothing = zeros(aval_of(ct))

    def share(number, case):
        # The cotangent where this case was chosen, zero elsewhere.
        if not is_undefined(case):
            return None
        return do.select_n(which, *[ct if k == number else nothing for k in range(len(cases))])

    return None, *[share(number, case) for number, case in enumerate(cases)]


def batch_with_scalars(name: str, scalars: tuple[int, ...]):
    """Return the batch rule of an op with operands of one shape, or scalars at `scalars`.

    A scalar that is not batched stays a scalar; a batched one becomes a full operand.
    """

    def rule(axis, args, dims, **params):
        avals = [aval_of(x) for x in args]
        # The rank of the operands without the batch axis.
        whole = max((a.ndim - (d is not None) for a, d in zip(avals, dims, strict=True)))
        stays = [
            i in scalars and d is None and not a.ndim
            for i, (a, d) in enumerate(zip(avals, dims, strict=True))
        ]
        moving = [(a, d) for a, d, stay in zip(avals, dims, stays, strict=True) if not stay]
        _, dim = moving[0]
        # All batched at the same axis: no transposition. Otherwise the batch axis goes to the
        # front.
        if dim is None or any(d != dim or a.ndim != whole + 1 for a, d in moving):
            shape = next(
                a.shape if d is None else a.shape[:d] + a.shape[d + 1 :]
                for a, d in zip(avals, dims, strict=True)
                if a.ndim - (d is not None) == whole
            )
            dim = 0
            args = [
                x if stay else _stretch(x, d, (axis.size, *shape))
                for x, d, stay in zip(args, dims, stays, strict=True)
            ]
        return getattr(do, name)(*args, **params), dim

    return rule


def _stretch(x, dim: int | None, shape: tuple[int, ...]):
    """Broadcast `x` to `shape`, whose first axis is the batch axis; `dim` is where `x` has it."""
    if dim is not None:
        x = move_axis(x, dim, 0)
    if aval_of(x).shape == shape:
        return x
    # Unbatched operands align behind the batch axis.
    start = 1 if dim is None else 0
    axes = tuple(range(start, start + aval_of(x).ndim))
    return do.broadcast_in_dim(x, shape=shape, broadcast_dimensions=axes, sharding=None)


def _masked(kept, t, out):
    """Return the tangent where `kept`, 0 elsewhere."""
    return do.select_n(kept, full_like(out, 0), broadcast_like(t, aval_of(out)))


#: The tangents pass where the lower bound, the operand, or the upper bound is the result; on a
#: bound none passes, as in JAX.
CLAMP_JVP = (
    lambda t, out, low, x, high: _masked(do.and_(do.gt(low, x), do.lt(low, high)), t, out),
    lambda t, out, low, x, high: _masked(do.and_(do.gt(x, low), do.lt(x, high)), t, out),
    lambda t, out, low, x, high: _masked(do.lt(high, x), t, out),
)


def barrier(xs):
    """Pass all values through one barrier, zeros included; float0 tangents of integers stay out."""
    # float0 tangents of integers have no elements that could wait.
    values = [x if not is_zero(x) or x.aval.dtype == dtypes.float0 else zeros(x.aval) for x in xs]
    passed = iter(do.optimization_barrier(*[x for x in values if not is_zero(x)]))
    return [x if is_zero(x) else next(passed) for x in values]
