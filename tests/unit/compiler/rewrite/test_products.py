"""Transposed products are products the other way round, where nobody else reads them."""

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
KEPT = {
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


@pytest.mark.parametrize("name", list(KEPT))
def test_kept(name):
    function, arguments = KEPT[name]
    graph = ga.jit(function).lower(*arguments).plan.graph
    assert exchange_products(graph) is graph
