"""Transposes around products are gone: of results that nobody else reads, and of operands."""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends import simulator
from gpuarray.backends.numpy import program as driver
from gpuarray.compiler.cuda.emit import emit
from gpuarray.compiler.rewrite.products import exchange_products
from gpuarray.core.graph import Eqn, is_view
from tests.support import simulated
from tests.support.targets import plan_for

simulated.need_compiler()


def numbers(*lengths: int) -> np.ndarray:
    return np.random.default_rng(lengths).integers(-4, 5, lengths).astype("float32")


def batched(a, b, order):
    return gnp.transpose(lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,)))), order)


def precise(a, b):
    one, two = lax.Precision.DEFAULT, lax.Precision.HIGHEST
    return lax.dot(a, b, precision=(one, two)).T


TURNED = {
    "plain": (lambda a, b: (a @ b).T, (numbers(3, 4), numbers(4, 5))),
    "batched": (lambda a, b: batched(a, b, (0, 2, 1)), (numbers(2, 3, 4), numbers(2, 4, 5))),
    "several axes": (
        lambda a, b: gnp.transpose(gnp.tensordot(a, b, 1), (2, 3, 0, 1)),
        (numbers(2, 3, 4), numbers(4, 5, 6)),
    ),
    "precision of each operand": (precise, (numbers(3, 4), numbers(4, 5))),
}
ABSORBED = {
    "left": (lambda a, b: a.T @ b, (numbers(4, 3), numbers(4, 5))),
    "right": (lambda a, b: a @ b.T, (numbers(3, 4), numbers(5, 4))),
    "both": (lambda a, b: a.T @ b.T, (numbers(4, 3), numbers(5, 4))),
    "all three": (lambda a, b: (a.T @ b.T).T, (numbers(4, 3), numbers(5, 4))),
    "with itself": (lambda a, b: a.T @ a + b, (numbers(4, 3), numbers(3, 3))),
    "of a product": (lambda a, b: (a @ b).T @ a, (numbers(4, 3), numbers(3, 5))),
    "of a product, twice": (
        lambda a, b: ((t := (a @ b).T) @ a, t @ a * 2),
        (numbers(4, 3), numbers(3, 5)),
    ),
    "a stack": (lambda a, b: gnp.swapaxes(a, 1, 2) @ b, (numbers(2, 4, 3), numbers(2, 4, 5))),
    "behind arithmetic": (lambda a, b: (a * 2).T @ b, (numbers(4, 3), numbers(4, 5))),
    "precision of each operand": (
        lambda a, b: lax.dot(a.T, b, precision=(lax.Precision.HIGH, lax.Precision.DEFAULT)),
        (numbers(4, 3), numbers(4, 5)),
    ),
}
KEPT = {
    "heads": (
        lambda a, b: gnp.swapaxes(a, 1, 2) @ b,  # a library would copy them again
        (numbers(2, 3, 4, 5), numbers(2, 4, 5, 6)),
    ),
    "read by others": (lambda a, b: ((c := a @ b).T, c), (numbers(3, 4), numbers(4, 5))),
    "batches moved": (lambda a, b: batched(a, b, (1, 0, 2)), (numbers(2, 3, 4), numbers(2, 4, 5))),
    "not a product": (lambda a, b: (a + b).T, (numbers(3, 4), numbers(3, 4))),
}


@pytest.mark.parametrize("name", list(TURNED))
def test_turned(name):
    function, arguments = TURNED[name]
    graph = ga.jit(function).lower(*arguments).plan.graph
    other = exchange_products(graph)
    assert [e.primitive.name for e in other.eqns if e.primitive.name == "transpose"] == []
    (found,) = driver.compile_graph(other)(*arguments)
    assert np.array_equal(found, function(*arguments))


@pytest.mark.parametrize("name", list(ABSORBED))
def test_transposed_operands_are_read_as_they_lie(name):
    function, arguments = ABSORBED[name]
    graph = ga.jit(function).lower(*arguments).plan.graph
    assert not any(e.primitive.name == "transpose" for e in graph.eqns)
    with ga.fusion(False):  # without any rewrite
        expected = function(*arguments)
    assert np.array_equal(ga.jit(function)(*arguments), expected)


def test_a_transpose_that_others_read_stays():
    a, b = numbers(4, 3), numbers(4, 5)
    one, two = ga.jit(lambda a, b: ((t := a.T) @ b, t))(a, b)
    assert np.array_equal(one, a.T @ b) and np.array_equal(two, a.T)


@pytest.mark.parametrize("name", list(KEPT))
def test_kept(name):
    function, arguments = KEPT[name]
    graph = ga.jit(function).lower(*arguments).plan.graph
    assert exchange_products(graph) is graph


# ---- a few vectors with matrices that a library would copy ----

# name: (einsum, shapes)
FEW = {
    "heads of a cache": ("bhgd,bthd->bhgt", (2, 3, 4, 24), (2, 40, 3, 24)),
    "its values": ("bhgt,bthd->bhgd", (2, 8, 2, 40), (2, 40, 8, 24)),
    "matrices on the left": ("bthd,bhgd->bhtg", (2, 40, 8, 24), (2, 8, 5, 24)),
    "a token": ("bqhgd,bthd->bhqgt", (2, 1, 8, 3, 24), (2, 40, 8, 24)),
    "one batch axis": ("hgd,thd->hgt", (16, 8, 12), (40, 16, 12)),
}
MANY = {
    "in front": ("bgd,btd->bgt", (16, 4, 24), (16, 40, 24)),  # a library reads it as it is
    "many vectors": ("bhgd,bthd->bhgt", (2, 8, 9, 24), (2, 40, 8, 24)),
    "small matrices": ("bhgd,bthd->bhgt", (2, 8, 4, 24), (2, 6, 8, 24)),
    "integers": ("bhgd,bthd->bhgt", (2, 8, 4, 24), (2, 40, 8, 24)),
}


def summed(name, table, dtype):
    """The function of an entry, and its operands."""
    text, *shapes = table[name]
    rng = np.random.default_rng(1)
    operands = [rng.integers(-8, 9, s).astype(dtype) for s in shapes]
    return (lambda a, b: gnp.einsum(text, a, b)), text, operands


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("name", FEW)
def test_a_few_vectors_share_one_reading_of_the_matrices(name, dtype, monkeypatch):
    plan_for(monkeypatch, launch_work=0.0)
    with ga.enable_x64(True):
        function, text, operands = summed(name, FEW, dtype)
        steps = ga.jit(function).lower(*operands).plan.on_device.steps
        # Axes of length 1 may be added to the result, which is a view.
        (kernel,) = (emit(s) for s in steps if not (isinstance(s, Eqn) and is_view(s)))
        assert kernel.traffic.least == kernel.traffic.total
        (found,) = simulator.Launcher(kernel)(*operands)
    # Small integers: sums are exact but for one rounding.
    want = np.einsum(text, *(x.astype("f8") for x in operands)).astype(dtype)
    np.testing.assert_allclose(
        found.reshape(want.shape).astype("f8"), want.astype("f8"), rtol=2**-7
    )


@pytest.mark.parametrize("name", MANY)
def test_other_products_stay_with_the_library(name):
    function, _, operands = summed(name, MANY, "int32" if name == "integers" else "float32")
    steps = ga.jit(function).lower(*operands).plan.on_device.steps
    assert any(isinstance(s, Eqn) for s in steps)
