"""Expressions as operands of others, bracketed where a sign before them would bind tighter; folds
that one thread computes.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.compiler.text.reader import bracketed

ATOMS = ["x", "v1", "1.5f", "in0[i]", "(float)x", "f(x)", "ga_round<ga_f16>(x)", "(a + b)"]
ATOMS += ["ga_max(ga_abs(x), y)"]


@pytest.mark.parametrize("text", ATOMS)
def test_atoms_have_no_brackets(text):
    assert bracketed(text) == text


@pytest.mark.parametrize(
    "sign", ["<", ">", "<=", ">=", "==", "+", "-", "*", "/", "%", "&", "|", "?"]
)
def test_operations_have_brackets(sign):
    """A comparison with a call looks like a template with arguments."""
    for text in (f"a {sign} b", f"a {sign} f(b)", f"f(a) {sign} b", f"in0[a] {sign} f(b)"):
        assert bracketed(text) == f"({text})"


@pytest.mark.parametrize("where", ["cpu", "simulator"])
def test_a_comparison_that_is_negated_where_it_is_read(where):
    """Within a guard values have no names: the negation stands before the comparison."""
    x = np.linspace(-2, 2, 16).astype(np.float16)
    places = np.array([0, 3, -2, 40, 9], np.int32)

    def function(x, places, at):
        raised = x.at[at].min(1.0)
        return gnp.take(~(raised > x), places, mode="fill", fill_value=True)

    with ga.default_device(where):
        found = np.asarray(ga.jit(function)(x, places, np.array([2], np.int32)))
    assert found.tolist() == [True] * 5


@pytest.mark.parametrize("where", ["cpu", "simulator"])
@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("length", [9, 70])
def test_a_fold_of_at_most_one_element_skips_nothing_else(where, stride, length):
    """Of windows side by side each element is in one, with gaps in one or none: no loop goes over
    them, so an element in none is left out without leaving what is around.
    """
    x = np.random.default_rng(0).permutation(6 * length).astype(np.float32).reshape(6, length)

    def largest(x):
        window = (2, length), (stride, length)
        return (lax.reduce_window(x, -np.inf, lax.max, *window, "VALID") ** 2).sum()

    expected = np.zeros_like(x)
    for first in range(0, 5, stride):
        pair = x[first : first + 2]
        expected[first : first + 2] = np.where(pair == pair.max(), 2 * pair, 0)
    pooled = ga.grad(largest)
    for function in (pooled, lambda x: pooled(x) + 1):
        with ga.default_device(where):
            found = np.asarray(ga.jit(function)(x))
        assert found.tolist() == (expected + (function is not pooled)).tolist()
