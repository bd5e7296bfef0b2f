"""Every function of NumPy's namespaces that hands over to other arrays, given ours.

In: a table of calls (`support/numpy_calls.py`), as programs for NumPy have them: lists among the
arrays, keywords, positions. The same line runs on NumPy arrays and on ours. Out: equal values,
shapes and kinds of result (array, tuple, list, bool), dtypes as narrow as arrays here are; and no
fallback, except where the table says so.
"""

import re
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing.overrides import get_overridable_numpy_array_functions

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.config import strict
from gpuarray.core.dtypes import canonicalize_dtype
from tests.support.numpy_calls import CALLS, FALLS_BACK, HOST, UFUNCS, VALUES


def rows(text):
    return [line for line in text.split("\n") if line and _exists(line)]


def _exists(line):
    """Whether this NumPy has the functions of a line."""
    return all(
        _reach(name) is not None for name in re.findall(r"\bnp\.([a-z_0-9.]*[a-z_0-9])", line)
    )


def _reach(name):
    space = np
    for word in name.split("."):
        space = getattr(space, word, None)
    return space


def run(line, make):
    with np.errstate(all="ignore"):
        return eval(line, {"np": np, **{name: make(v) for name, v in VALUES.items()}})


def check(found, wanted: Any, line):
    """Values, shapes, dtypes and kinds of result."""
    if isinstance(wanted, (tuple, list)):
        assert isinstance(found, type(wanted).__mro__[-2]), f"{type(found)}, not {type(wanted)}"
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            check(f, w, line)
    elif isinstance(wanted, (np.ndarray, np.generic)) and wanted.dtype.kind in "biufc":
        assert isinstance(found, ga.Array), f"{line} gave {type(found)}"
        assert found.shape == wanted.shape
        assert found.dtype == canonicalize_dtype(wanted.dtype)
        tolerance = 1e-4 if wanted.dtype.kind in "fc" else 0
        np.testing.assert_allclose(
            np.asarray(found), np.asarray(wanted), rtol=tolerance, atol=tolerance / 5
        )
    elif isinstance(wanted, int) and not isinstance(wanted, bool):
        assert np.shape(found) == () and int(found) == wanted
    elif isinstance(wanted, np.dtype):
        assert found == canonicalize_dtype(wanted)
    else:
        assert type(found) is type(wanted)
        assert found == wanted


@pytest.mark.parametrize("line", rows(CALLS + UFUNCS))
def test_ours_answers_as_numpy_does(line):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = run(line, np.copy)
    check(run(line, gnp.asarray), wanted, line)


@pytest.mark.parametrize("line", rows(FALLS_BACK))
def test_numpy_answers_with_a_warning_and_strict_mode_refuses(line):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = run(line, np.copy)
    with pytest.raises(ga.errors.FallbackError, match="strict"):
        run(line, gnp.asarray)
    with strict(False), pytest.warns(ga.errors.FallbackWarning, match="NumPy runs np.* host"):
        found = run(line, gnp.asarray)
    check(found, wanted, line)


@pytest.mark.parametrize("line", rows(HOST))
def test_numpys_own_without_a_warning(line):
    found, wanted = run(line, gnp.asarray), run(line, np.copy)
    assert not isinstance(found, ga.Array)
    assert found == wanted


#: Not in the tables, and why.
ELSEWHERE = {
    "copyto place put put_along_axis putmask fill_diagonal": "they write: test_dispatch.py",
    "save savez savez_compressed savetxt": "files: test_dispatch.py",
    "fromfile fromiter fromstring genfromtxt loadtxt": "like= only, from files and text",
    "busday_count busday_offset datetime_as_string is_busday": "dates are no arrays of ours",
}
OF_NO_NUMBERS = ("char.", "lib.recfunctions.", "strings.")


def test_every_ufunc_is_answered_by_ours():
    """With operands of a type that NumPy and arrays here have."""
    for name in {f.__name__ for f in vars(np).values() if isinstance(f, np.ufunc)} - {"isnat"}:
        ufunc = getattr(np, name)
        loop = min(ufunc.types, key=lambda t: "fi?bBhHIe".find(t[0]) % 99)
        operands = [np.ones((2, 2), t) for t in loop[: ufunc.nin]]
        with np.errstate(all="ignore"):
            check(ufunc(*map(gnp.asarray, operands)), ufunc(*operands), f"np.{name}")


def test_every_function_has_a_row_or_a_reason():
    """All that NumPy hands over, in the version at hand."""
    text = CALLS + UFUNCS + FALLS_BACK + HOST
    missing = []
    for function in get_overridable_numpy_array_functions():
        name = ".".join([*(function.__module__ or "numpy").split(".")[1:], function.__name__])
        name = name.replace("lib.scimath.", "emath.")
        known = f"np.{name}(" in text or any(name in names.split() for names in ELSEWHERE)
        if not known and not name.startswith(OF_NO_NUMBERS):
            missing.append(name)
    assert not missing, sorted(missing)
