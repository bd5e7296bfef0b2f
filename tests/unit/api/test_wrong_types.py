"""Every keyword of every public function, given a value of the wrong type: an error of ours that
says what is meant, or a result.
"""

import contextlib
import io
import re
import traceback
import warnings

from gpuarray.sites import is_inside
from tests.support.keywords import examples, given, names_in

#: How Python, not this library, says that a value is of the wrong type: who reads it does not know
#: which argument of which function is meant.
PYTHONS_OWN = re.compile(
    r"unsupported operand|unhashable|cannot be interpreted as an integer|not supported between|"
    r"not iterable|not subscriptable|can't multiply|real number|indices must be|no attribute|"
    r"not callable|invalid literal|cannot unpack|bad operand|no len\(\)|could not convert|"
    r"to unpack|can only concatenate|out of range$|not a (?:string|mapping)|expected string"
)
#: Own words, and those of arrays beside things that are none, which are NumPy's and JAX's too.
NAMED = re.compile(
    r"\b\w+`? must be|expected (?:a|an) |^Non-hashable static arguments|'ArrayImpl'|Tracer'|"
    r"an Array and a list"
)
#: What arithmetic, a library or a function of the user's takes; these say what they do not take.
HANDED_ON = """
    debug.breakpoint: stdin stdout
    lax.composite: attributes
    names.explain_names: parts
    numpy.array_repr numpy.array_str: max_line_width precision
    numpy.cov: ddof fweights aweights
    numpy.einsum numpy.einsum_path: optimize
    numpy.interp: period
    numpy.linalg.lstsq numpy.polyfit: rcond
    numpy.mask_indices: k
    numpy.take numpy.take_along_axis numpy.histogramdd numpy.histogram2d: fill_value range
    random.ball: p
    experimental.ode.odeint: atol
    scipy.signal.convolve2d scipy.signal.correlate2d: fillvalue
    scipy.signal.csd scipy.signal.periodogram scipy.signal.welch scipy.signal.stft: fs
    test_util.*: eps rtol atol
"""
WRONG = ("a", [1], {"k": 1}, 1.5, object())


def _error_of(code, places) -> BaseException | None:
    """What an example raises; None if nothing, or if the example cannot use the result."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code, names_in(places))
    except Exception as error:
        trace = error.__traceback__
        inside = [t for t in traceback.walk_tb(trace) if is_inside(t[0].f_code.co_filename)]
        return error if inside else None
    return None


def test_a_value_of_the_wrong_type_gets_an_error_of_ours(tmp_path, monkeypatch):
    """A keyword takes a value or says so itself: no message from inside that names nothing."""
    monkeypatch.chdir(tmp_path)
    handed_on = [
        (re.compile(re.escape(f).replace(r"\*", r"\w+")), keywords.split())
        for line in HANDED_ON.strip().splitlines()
        for functions, _, keywords in [line.partition(":")]
        for f in functions.split()
    ]
    found, count = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function, places, label, code, keywords in examples():
            for keyword in keywords if code else ():
                if any(f.fullmatch(label) and keyword in names for f, names in handed_on):
                    continue
                for wrong in WRONG:
                    count += 1
                    with given(function, places, keyword, wrong):
                        error = _error_of(code, places)
                    words = str(error).splitlines()[0] if str(error or "") else ""
                    if PYTHONS_OWN.search(words) and not NAMED.search(words):
                        found.append(
                            f"{label} {keyword}={wrong!r}: {type(error).__name__}: {words}"
                        )
    assert not found, "\n".join(found)
    assert count > 7000
