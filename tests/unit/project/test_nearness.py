"""What tests take for equal: sums by their terms, everything else by itself."""

import numpy as np
import pytest

from tests.samples import samples, values
from tests.support.nearness import SUMS, assert_near, largest, terms_of, ulps

EPS = float(np.finfo(np.float32).eps)


def f32(*x: float) -> np.ndarray:
    return np.array(x, np.float32)


def test_sums_are_measured_by_their_terms():
    """1e4 + 1e-4 - 1e4 in another order: one unit of the terms, and nothing of the sum is right."""
    terms = f32(1e4, 1e-4, -1e4)
    left, right = (terms[0] + terms[1]) + terms[2], (terms[0] + terms[2]) + terms[1]
    found, expected = f32(left), f32(right)
    assert ulps(found, expected) > 1e6
    assert ulps(found, expected, np.abs(terms).sum()) < 1
    assert ulps(found, expected, largest(terms)) < 1


@pytest.mark.parametrize("wrong", [f32(1 + 300 * EPS), f32(np.nan), f32(np.inf)])
def test_what_is_wrong_is_far(wrong):
    assert ulps(wrong, f32(1.0)) >= 200
    with pytest.raises(AssertionError):
        assert_near(wrong, f32(1.0))


def test_what_is_no_float_is_equal_or_not():
    assert ulps(np.array([1]), np.array([1])) == 0 and ulps(np.array([1]), np.array([2])) > 1e300
    with pytest.raises(AssertionError):
        assert_near(np.array([1]), np.array([2]))


def test_terms_are_no_smaller_than_sums():
    """The samples whose numbers are real."""
    for name in SUMS:
        for sample in samples(lambda p, name=name: p.name == name):
            if sample.operands[0][1] == "float32":
                rule = sample.primitive.numpy_function(sample.avals, sample.params)
                (terms,) = terms_of(sample)
                assert np.all(terms * (1 + 64 * EPS) >= np.abs(rule(*values(sample)))), sample
