"""Expressions as operands of others: bracketed where a sign before them would bind tighter."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
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
