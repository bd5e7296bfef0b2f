"""Weak types of truth values: those of JAX 0.10.2, at once and compiled alike."""

import pytest

import gpuarray as ga
import gpuarray.numpy as gnp

X = gnp.array([1, 2])
C = gnp.array([True, False])
CASES = {
    # Comparisons keep the weak type of their operands.
    "one": (lambda x: x < 1.5, True),
    "complex": (lambda x: x < 1j, True),
    "complex arrays": (lambda x: (x + 1j) >= gnp.array([1j]), False),
    # What two of them promote to is strong.
    "where": (lambda x: gnp.where(C, x < 1.5, x < 2.5), False),
    "maximum": (lambda x: gnp.maximum(x < 1.5, x < 2.5), False),
    "and": (lambda x: (x < 1.5) & (x < 2.5), False),
    "add": (lambda x: (x < 1.5) + (x < 2.5), False),
    "select": (lambda x: gnp.select([C], [x < 1.5], x < 2.5), False),
    "strong": (lambda x: (x < 1.5) & C, False),
}


@pytest.mark.parametrize("name", CASES)
def test_weak_types_of_truth_values(name):
    function, weak = CASES[name]
    assert function(X).weak_type is weak
    assert ga.jit(function)(X).weak_type is weak
    assert function(X).tolist() == ga.jit(function)(X).tolist()
