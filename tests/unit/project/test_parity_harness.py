"""The parity harness must be able to fail: planted differences are found, allowed ones pass.

JAX is not needed: a stand-in library wraps NumPy arrays.
"""

import types

import ml_dtypes
import numpy as np
import pytest

from tests.parity.__main__ import LEAST, too_few
from tests.parity.compare import Tolerance, capture, capture_error, difference, value_difference
from tests.parity.data import raw
from tests.parity.recipes import FEW, Case, all_cases
from tests.parity.tolerances import tolerance_for


class FakeArray:
    """Enough of an array for `capture`."""

    def __init__(self, value, weak=False):
        self.value = np.asarray(value)
        self.dtype, self.shape, self.weak_type = self.value.dtype, self.value.shape, weak

    def __array__(self, dtype=None, copy=None):
        return self.value


LIB = types.SimpleNamespace(Array=FakeArray, __name__="fake")
ONE = np.float32(1)
LOOSE = Tolerance()
NEXT = np.nextafter(ONE, np.float32(2))


def compared(a, b, tolerance=LOOSE):
    return difference(capture(a, LIB), capture(b, LIB), tolerance)


@pytest.mark.parametrize(
    ("want", "got"),
    [
        (FakeArray(ONE), FakeArray(np.float64(1))),
        (FakeArray(ONE), FakeArray(ONE, weak=True)),
        (FakeArray([ONE]), FakeArray([ONE, ONE])),
        (FakeArray(ONE), ONE),
        ([FakeArray(ONE)], (FakeArray(ONE),)),
        ({"a": 1}, {"b": 1}),
        (FakeArray(np.int32(1)), FakeArray(np.int32(2))),
        (1, True),
        (FakeArray(np.float32(0)), FakeArray(np.float32(-0.0))),
        (FakeArray(np.float32("nan")), FakeArray(ONE)),
        (FakeArray(np.float32("inf")), FakeArray(np.float32(3e38))),
        (FakeArray(ml_dtypes.bfloat16(1)), FakeArray(ml_dtypes.bfloat16(1.1))),
        (FakeArray(np.complex64(1 + 1j)), FakeArray(np.complex64(1 - 1j))),
    ],
)
def test_planted_difference_is_found(want, got):
    assert compared(want, got)
    assert not compared(want, want)


def test_tolerance_counts_representable_numbers():
    assert compared(FakeArray(ONE), FakeArray(NEXT), Tolerance(ulp=0))
    assert not compared(FakeArray(ONE), FakeArray(NEXT), Tolerance(ulp=1))
    small = np.array([1000.0, 1e-5], np.float32), np.array([1000.0, 2e-5], np.float32)
    assert value_difference(*small, Tolerance(ulp=4))
    assert not value_difference(*small, Tolerance(ulp=4, norm=True))


def test_subnormal_numbers_may_be_flushed():
    tiny = np.array([1e-40], np.float32)
    assert not value_difference(np.zeros(1, np.float32), tiny, Tolerance(ulp=0))


def test_error_types_decide():
    class Narrow(TypeError):
        pass

    wide, narrow, other = (capture_error(e("text")) for e in (TypeError, Narrow, ValueError))
    assert not difference(wide, narrow, Tolerance())
    assert difference(narrow, wide, Tolerance())
    assert difference(wide, other, Tolerance())
    assert difference(wide, capture(1, LIB), Tolerance())
    assert difference(capture(1, LIB), wide, Tolerance())


def test_cases_compile_and_inputs_repeat():
    cases = all_cases()
    assert len(cases) > 8000
    for case in cases:
        compile(case.text, "<case>", "eval")
    np.testing.assert_array_equal(raw("f32", 2, 3), raw("f32", 2, 3))
    assert tolerance_for("jnp.add").ulp == 0
    assert tolerance_for("jnp.sum").norm


def test_names_with_few_cases_are_found():
    names = {"lax": {"uncovered": ["none"]}}
    cases = [Case("s", name, f"{name}({i})") for name, n in (("a", 5), ("b", 4)) for i in range(n)]
    found = too_few(cases, names)
    assert found["thin"] == {"b": 4, "lax.none": 0}
    assert found["least"] == 0
    assert set(found["idle"]) == set(FEW)  # none of them has a case here, so none needs its reason
    some = next(iter(FEW))
    enough = [Case("s", some, str(i)) for i in range(LEAST)]
    assert some in too_few(enough, {})["idle"]
    assert too_few(enough[:1], {}) == {
        "thin": {},
        "idle": [n for n in FEW if n != some],
        "least": 0,
    }


def test_every_name_has_its_cases():
    found = too_few(all_cases(), {})
    assert not found["thin"]
    assert not found["idle"]
    assert found["least"] >= LEAST
