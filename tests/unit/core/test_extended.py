"""Extended dtypes of users: elements made of numbers, by the rules of the dtype."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import numpy as np
import pytest

import gpuarray as ga
from gpuarray import dtypes, export, lax
from gpuarray import numpy as gnp
from gpuarray.core.extended import ExtendedDType
from gpuarray.extend.core import Primitive
from gpuarray.interpreters import mlir


class angle(dtypes.extended):
    pass


def made_of(shape, number, **rules) -> Any:
    """An extended dtype whose elements are numbers of a shape."""
    element = types.SimpleNamespace(shape=shape, dtype=number)

    @dataclasses.dataclass(frozen=True)
    class Made(ExtendedDType):
        name: str = f"made_of_{number}{list(shape)}"
        type: Any = angle
        _rules = types.SimpleNamespace(
            physical_element_aval=lambda dtype: element, allow_conversion=True, **rules
        )

    return Made()


# Stored as integers, as a complex number, and as bytes.
ELEMENTS = [
    ((), "int8", True),
    ((), "float32", False),
    ((2, 2), "float32", True),
    ((3,), "int32", False),
]


@pytest.mark.on_cpu("kernels have no type for elements of three words")
@pytest.mark.parametrize("shape,number,jit", ELEMENTS)
def test_elements_move_like_numbers(shape, number, jit):
    dtype = made_of(shape, number)
    numbers = np.arange(4 * 5 * np.prod(shape, dtype=int)).reshape(4, 5, *shape).astype(number)
    run = ga.jit if jit else lambda f: f
    x = run(lambda n: lax.convert_element_type(n, dtype))(numbers)
    assert x.shape == (4, 5) and x.dtype == dtype and dtypes.issubdtype(x.dtype, angle)

    def opened(y):
        return np.asarray(lax.convert_element_type(y, number))

    assert np.array_equal(opened(x), numbers)
    moves = {
        "row": (lambda y: y[1], lambda n: n[1]),
        "slices": (lambda y: y[1:3, ::2], lambda n: n[1:3, ::2]),
        "transpose": (lambda y: y.T, lambda n: n.swapaxes(0, 1)),
        "gather": (lambda y: y[np.array([2, 0])], lambda n: n[np.array([2, 0])]),
        "reshape": (lambda y: y.reshape(20), lambda n: n.reshape(20, *shape)),
        "concatenate": (lambda y: gnp.concatenate([y, y]), lambda n: np.concatenate([n, n])),
        "vmap": (ga.vmap(lambda y: y[0]), lambda n: n[:, 0]),
        "scan": (lambda y: lax.scan(lambda c, v: (c, v[::-1]), 0, y)[1], lambda n: n[:, ::-1]),
        "set": (lambda y: y.at[0].set(y[3]), lambda n: np.concatenate([n[3:], n[1:]])),
        "select": (lambda y: gnp.where(gnp.arange(5) < 2, y, y[:, ::-1]), None),
    }
    pick = (np.arange(5) < 2).reshape(5, *(1 for _ in shape))
    for name, (ours, theirs) in moves.items():
        want = np.where(pick, numbers, numbers[:, ::-1]) if theirs is None else theirs(numbers)
        assert np.array_equal(opened(run(ours)(x)), want), name
    same = run(lambda y: (y == y.at[0].set(y[1]), y != y[0, 0]))(x)
    moved = np.concatenate([numbers[1:2], numbers[1:]])
    over = tuple(range(2, 2 + len(shape)))
    assert np.array_equal(same[0], (moved == numbers).all(over))
    assert np.array_equal(same[1], (numbers != numbers[0, 0]).any(over))
    assert "made_of" in repr(x) and "made_of" in str(ga.make_jaxpr(lambda y: y)(x))


def test_elements_are_opaque():
    x = lax.convert_element_type(np.float32(1), made_of((), "float32"))
    for wrong in (np.asarray, float, lambda y: y + y, gnp.sum, lambda y: lax.exp(y)):
        with pytest.raises((TypeError, ValueError)):
            wrong(x)
    other = made_of((), "int8")
    with pytest.raises(ValueError, match="cannot directly convert"):
        lax.convert_element_type(x, other)
    with pytest.raises(ValueError, match="can only convert"):
        lax.convert_element_type(x, "int32")
    with pytest.raises(ValueError, match="can only convert"):
        lax.convert_element_type(np.float32([1, 2]), made_of((3,), "float32"))
    closed = dataclasses.replace(made_of((), "int8"))
    type(closed)._rules.allow_conversion = False
    with pytest.raises(ValueError, match="do not allow"):
        lax.convert_element_type(np.int8(1), closed)

    class Silent(ExtendedDType):
        name, type = "silent", angle

    with pytest.raises(NotImplementedError, match="physical_element_aval"):
        ga.eval_shape(lambda x: x, ga.ShapeDtypeStruct((3,), Silent()))


def test_cotangents_add_by_the_rule_of_their_dtype():
    # The largest of both, as scales of 8-bit training add up.
    def add(dtype, x, y):
        numbers = (lax.convert_element_type(v, "float32") for v in (x, y))
        return lax.convert_element_type(lax.max(*numbers), dtype)

    scale = made_of(
        (),
        "float32",
        add=add,
        zero=lambda dtype: lax.convert_element_type(np.float32(-np.inf), dtype),
        tangent_dtype=lambda dtype: dtype,
    )

    @ga.custom_vjp
    def use(x, s):
        return x

    use.defvjp(lambda x, s: (x, s), lambda s, ct: (ct, s))

    def loss(x, s):
        small, large = (lax.convert_element_type(k * s, scale) for k in (1, 5))
        return (
            use(x, small)
            + use(x, large)
            + lax.scan(lambda c, _: (use(c, large), None), x, None, 2)[0]
        )

    # d/ds of max-accumulated scales: each conversion passes its own back.
    x_bar, s_bar = ga.grad(loss, (0, 1))(3.0, 2.0)
    assert x_bar == 3
    assert s_bar == 1 * 2 + 5 * 10  # small: its scale 2; large: max(10, max(10, 10)) = 10


def test_tangents_have_the_dtype_that_the_rules_say():
    dtype = ga.experimental.primal_tangent_dtype("int8", "float32")
    assert dtype == ga.experimental.primal_tangent_dtype("int8", "float32")
    assert dtype != ga.experimental.primal_tangent_dtype("int8", "float32", "other")

    @ga.custom_vjp
    def quantized(x):
        return x.astype("int8").astype(dtype)

    quantized.defvjp(lambda x: (quantized(x), None), lambda _, ct: (ct,))

    @ga.custom_vjp
    def times(q, x):
        return q.astype("int8").astype("float32") * x

    def backward(kept, ct):
        q, x = kept
        return ct * x, ct * times(q, gnp.float32(1))

    times.defvjp(lambda q, x: (times(q, x), (q, x)), backward)
    w, x = gnp.float32([1.7, -2.2]), gnp.float32([10, 20])
    got = ga.jit(ga.grad(lambda w, x: times(quantized(w), x).sum(), (0, 1)))(w, x)
    assert np.array_equal(got[0], x) and np.array_equal(got[1], [1, -2])


def test_primitives_of_users_return_the_numbers_of_elements():
    pair = made_of((2,), "uint32")
    make_p, turn_p = Primitive("make_pairs"), Primitive("turn_pairs")
    make_p.def_abstract_eval(lambda *, shape: ga.core.ShapedArray(shape, pair))
    turn_p.def_abstract_eval(lambda x: x.update(shape=x.shape[::-1]))
    mlir.register_lowering(
        make_p,
        mlir.lower_fun(lambda *, shape: gnp.arange(12, dtype="uint32").reshape(*shape, 2), False),
    )
    mlir.register_lowering(turn_p, mlir.lower_fun(lambda x: x.T, False))
    x = ga.jit(lambda: turn_p.bind(make_p.bind(shape=(2, 3))))()
    assert x.shape == (3, 2) and x.dtype == pair
    numbers = np.arange(12, dtype="uint32").reshape(2, 3, 2)
    assert np.array_equal(lax.convert_element_type(x, "uint32"), numbers.swapaxes(0, 1))


def test_programs_with_a_users_dtype_are_not_written():
    dtype = made_of((), "int8")
    exported = export.export(ga.jit(lambda n: lax.convert_element_type(n, dtype)))
    with pytest.raises(TypeError, match=r"dtype made_of_int8\[\] cannot be written.*Convert"):
        exported(ga.ShapeDtypeStruct((3,), "int8")).serialize()
    # Of keys the meaning is known everywhere.
    exported = export.export(ga.jit(lambda n: ga.random.key(n)))
    data = exported(ga.ShapeDtypeStruct((), "int32")).serialize()
    assert export.deserialize(data).call(np.int32(3)) == ga.random.key(3)
