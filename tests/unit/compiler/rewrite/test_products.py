"""Transposes around products are gone: of results that nobody else reads, and of operands."""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends.numpy import program as driver
from gpuarray.compiler.rewrite.products import exchange_products


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
