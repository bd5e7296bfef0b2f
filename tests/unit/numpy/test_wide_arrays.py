"""Arrays of 64-bit types used where the setting that makes them is off: no operation cuts them.

In: calls of NumPy's functions (`support/numpy_calls.py`) and the transforms, on values that 32 bits
do not hold. Out: NumPy's results, in NumPy's dtypes and to their last digits.
"""

import contextlib
import inspect
import itertools
import re
import warnings
from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.support.numpy_calls import CALLS, UFUNCS, VALUES
from tests.unit.numpy.test_namespace import rows

WIDE = {"f": np.float64, "c": np.complex128, "i": np.int64, "u": np.uint64, "b": np.bool_}
#: Numbers a little off those of the table, so that float32 cannot hold them.
EXACT = {
    name: v.astype(WIDE[v.dtype.kind]) * (1 + 1e-9 if v.dtype.kind in "fc" else True)
    for name, v in VALUES.items()
}


def wide(x):
    with ga.enable_x64():
        return gnp.asarray(x)


def leaves(x) -> list[Any]:
    return [y for part in x for y in leaves(part)] if isinstance(x, (list, tuple)) else [x]


#: Calls whose results NumPy makes 64 bits wide of other things than the arrays in them, and those
#: about the bits of narrow integers.
OTHERWISE = "|".join([
    *("dtype", "like=", "float32", "f4", "int32", r"np\.(float|int)", "unpackbits", "histogram.*d"),
    *(r"bincount\(i, weights", r"atleast_2d\(x, 3.0\)", r"percentile\(\[3"),
])  # fmt: skip
#: Lists of numbers come in as arrays of 32 bits do.
LISTS = r"aweights=|\(10, 90\)"


@pytest.mark.parametrize("line", [x for x in rows(CALLS + UFUNCS) if not re.search(OTHERWISE, x)])
def test_results_are_those_of_numpy_in_64_bits(line):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = eval(line, {"np": np, **{k: v.copy() for k, v in EXACT.items()}})
        found = eval(line, {"np": np, **{k: wide(v) for k, v in EXACT.items()}})
    for f, w in zip(leaves(found), leaves(wanted), strict=True):
        if getattr(w, "dtype", np.dtype(bool)).kind not in "fciu":
            continue
        if w.dtype.kind in "fc":
            assert f.dtype == w.dtype
        scale = np.abs(w[np.isfinite(w)]).max(initial=1) if np.size(w) else 1
        off = 1e-6 if re.search(LISTS, line) else 1e-12
        np.testing.assert_allclose(np.asarray(f), w, rtol=0, atol=off * scale)


X, M = np.array([1e300, -2.0, 3.0]), np.array([[2.0, 1e-9], [1e-9, 3.0]])
I, U, C = np.array([2**40, -7]), np.array([2**63, 5], np.uint64), np.array([1e200 + 2j, 3j])


def _grown(x):
    return lax.scan(lambda c, v: (c + v, c), x[0], x)[0]


#: A function of the arrays above, what it gives, by mathematics, and in which dtype.
ROWS: list[Any] = [
    (lambda x: x + 1, X, X + 1),
    (lambda x: 1.5 * x, X, 1.5 * X),
    (lambda x: x * 0.1, X, X * 0.1),
    (lambda x: x + np.float64(0.1), M, M + 0.1),
    (lambda x: x + np.full(2, 0.1), M, M + 0.1),
    (lambda x: x + gnp.ones(3), X, X + 1),
    (lambda x: -x, X, -X),
    (abs, C, np.abs(C)),
    (lambda x: x.real, C, np.real(C)),
    (lambda x: x.sum(), X, X.sum()),
    (lambda x: x.sum(), I, I.sum()),
    (lambda x: x.cumsum(), I, I.cumsum()),
    (lambda x: x + 1, I, I + 1),
    (lambda x: x // 2, U, U // np.uint64(2)),
    (lambda x: x ^ gnp.int32(1), I, I ^ 1),
    (lambda x: gnp.max(x), U, U.max()),
    (lambda x: x[0], I, I[0]),
    (lambda x: x[gnp.array([1, 0])], X, X[[1, 0]]),
    (lambda x: x.at[1].set(7), I, np.array([2**40, 7])),
    (lambda x: x.at[1].add(0.5), X, X + [0, 0.5, 0]),
    (lambda x: gnp.where(x > 0, x, 0), X, np.where(X > 0, X, 0)),
    (lambda x: gnp.stack([x, x]), X, np.stack([X, X])),
    (lambda x: gnp.array([x, [1, 2, 3]]), X, np.array([X, [1, 2, 3]])),
    (lambda x: gnp.full_like(x, 1e250), X, np.full(3, 1e250)),
    (lambda x: x @ x, M, M @ M),
    (lambda x: gnp.var(x), M, np.var(M)),
    (lambda x: gnp.linalg.cholesky(x), M, np.linalg.cholesky(M)),
    (lambda x: gnp.fft.fft(x, norm="ortho"), M, np.fft.fft(M, norm="ortho")),
    (lambda x: gnp.quantile(x, 0.3), M, np.quantile(M, 0.3)),
    (lambda x: ga.nn.softmax(x), np.array([1, 2]), np.exp([0, 1]) / (1 + np.e)),
    (lambda x: ga.ops.segment_sum(x, gnp.array([0, 0, 1])), X, np.array([X[0] + X[1], X[2]])),
    (lambda x: lax.add(x, x), X, X + X),
    (lambda x: ga.jit(lambda y: y * 2 + 1)(x), I, I * 2 + 1),
    (lambda x: ga.grad(lambda y: (y * y).sum())(x), M, 2 * M),
    (lambda x: ga.jvp(gnp.triu, (x,), (x,))[1], M, np.triu(M)),
    (lambda x: ga.vmap(gnp.triu)(x[None])[0], M, np.triu(M)),
    (lambda x: ga.vmap(lambda y: gnp.pad(y, 1))(x), M, np.pad(M, ((0, 0), (1, 1)))),
    (lambda x: ga.jacrev(_grown)(x), M[0], np.array([2.0, 1.0])),
    (lambda x: lax.cond(True, lambda y: y + 1, lambda y: y, x), I, I + 1),
    (lambda x: lax.fori_loop(0, 2, lambda i, y: y + i, x), I, I + 1),
    (lambda x: np.add(x, 1), I, I + 1),
]


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_values_beyond_32_bits_stay(number):
    run, x, wanted = ROWS[number]
    found = run(wide(x))
    wanted = np.asarray(wanted)
    assert found.dtype == wanted.dtype
    scale = np.abs(wanted).max()
    off = 1e-13 if wanted.dtype.kind in "fc" else 0
    np.testing.assert_allclose(np.asarray(found) / scale, wanted / scale, rtol=0, atol=off)


def test_what_was_recorded_with_64_bits_runs_without_them():
    with ga.enable_x64():
        x = gnp.full(100_000, 2.0) + 1e300 * gnp.ones(100_000)
        y = x + 1e250
    assert (y.dtype, float(y[0])) == ("float64", 1e300 + 1e250)


def test_a_program_traced_with_64_bits_runs_without_them():
    with ga.enable_x64():
        traced = ga.make_jaxpr(lambda x: gnp.where(x > 0, x * 1e250, np.float64(1e300)))(wide(X))
    (out,) = ga.core.eval_jaxpr(traced.jaxpr, traced.consts, wide(np.array([-1.0, 1.0, 2.0])))
    assert np.asarray(out).tolist() == [1e300, 1e250, 2e250]


def _calls(space):
    """The functions of a namespace with each parameter that is a dtype."""
    for name in sorted(dir(space)):
        f = getattr(space, name)
        if not name.startswith("_") and callable(f) and not isinstance(f, type):
            with contextlib.suppress(TypeError, ValueError):
                for word in inspect.signature(f).parameters:
                    if word.endswith("dtype") or word == "preferred_element_type":
                        yield f, word


SPACES = {
    "numpy": gnp,
    "numpy.linalg": gnp.linalg,
    "numpy.fft": gnp.fft,
    "lax": lax,
    "nn": ga.nn,
    "nn.initializers": ga.nn.initializers,
    "random": ga.random,
    "scipy.linalg": ga.scipy.linalg,
}


@pytest.mark.parametrize("space", SPACES)
def test_a_64_bit_type_asked_for_by_name_is_cut(space):
    key, x, m = ga.random.key(0), gnp.ones(3), gnp.eye(3)
    forms = [(x,), (m,), (3,), ((3,),), (x, x), (m, m), (key,), (key, (3,)), (x, 3), (key, x)]
    forms += [(key, x, x), (gnp.arange(3), 3), (key, x, m), ([x, x],), ((3,), 1.0), (0.0, 1.0)]
    forms += [(key, (3,), 0, 9), (key, 2, (3,))]
    tried = 0
    for f, word in _calls(SPACES[space]):
        for form, name in itertools.product(forms, ("float64", np.int64, np.dtype("complex128"))):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    out = f(*form, **{word: name})
                    out = out(key, (3, 3)) if callable(out) else out
                except Exception:
                    continue  # it takes no such arguments
            found = [x.dtype.name for x in leaves(out) if isinstance(x, ga.Array)]
            assert not set(found) & {"float64", "int64", "complex128"}, (f, form, name)
            tried += len(found)
    assert tried


def test_methods_and_positions_cut_a_64_bit_type_asked_for_by_name():
    x, made = gnp.ones(3), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("float64", np.float64, np.dtype("float64"), gnp.float64):
            made += [x.astype(name), x.sum(dtype=name), x.mean(dtype=name)]
            made += [lax.full((2,), 1, name), lax.iota(name, 3), gnp.add.reduce(x, dtype=name)]
            made += [lax.convert_element_type(x, name), lax.full_like(x, 1, name)]
    made += [gnp.asarray(1.5), gnp.asarray(np.ones(3)), gnp.zeros(2), gnp.arange(3), x * np.pi]
    assert {x.dtype.itemsize for x in made} == {4}


def test_a_64_bit_type_asked_for_is_cut_with_a_warning():
    with pytest.warns(UserWarning, match="float64 requested in zeros is not available"):
        assert gnp.zeros(2, "float64").dtype == "float32"
    with pytest.warns(UserWarning, match="float64 requested in astype is not available"):
        assert gnp.ones(2).astype("float64").dtype == "float32"


F, I = "float64", "int64"
IMAGE, KERNEL = np.ones((1, 1, 4), np.float32), np.ones((1, 1, 2), np.float32)
EYE, PRODUCT = np.eye(4, dtype=np.float32), (((1,), (0,)), ((), ()))
# Public functions that hand a dtype of the user's on to others of this library.
HANDED_ON = {
    "fromfunction": lambda: gnp.fromfunction(lambda i: i, (3,), dtype=I),
    "indices": lambda: gnp.indices((2, 2), dtype=I)[0],
    "identity": lambda: gnp.identity(3, F),
    "geomspace": lambda: gnp.geomspace(1, 2, 3, dtype=F),
    "var": lambda: gnp.var(EYE, dtype=F),
    "conv": lambda: lax.conv(IMAGE, KERNEL, (1,), "SAME", preferred_element_type=F),
    "conv_general_dilated": lambda: lax.conv_general_dilated(
        IMAGE, KERNEL, (1,), "SAME", preferred_element_type=F
    ),
    "conv_with_general_padding": lambda: lax.conv_with_general_padding(
        IMAGE, KERNEL, (1,), [(1, 0)], None, (2,), preferred_element_type=F
    ),
    "conv_transpose": lambda: lax.conv_transpose(
        IMAGE.reshape(1, 4, 1), KERNEL.reshape(2, 1, 1), (1,), "SAME", preferred_element_type=F
    ),
    "conv_general_dilated_patches": lambda: lax.conv_general_dilated_patches(
        IMAGE, (2,), (1,), "SAME", preferred_element_type=F
    ),
    "dot_general": lambda: lax.dot_general(EYE, EYE, PRODUCT, preferred_element_type=F),
    "scaled_dot_general": lambda: ga.nn.scaled_dot_general(
        EYE, EYE, PRODUCT, preferred_element_type=F
    ),
    "randint": lambda: ga.random.randint(ga.random.key(0), (3,), 0, 10, I),
    "initializers": lambda: ga.nn.initializers.he_normal()(ga.random.key(0), (3, 3), F),
}


@pytest.mark.parametrize("name", HANDED_ON)
def test_dtypes_asked_for_by_width_obey_the_settings(name):
    make = HANDED_ON[name]
    wide = I if name in ("fromfunction", "indices", "randint") else F
    with pytest.warns(UserWarning, match=f"requested dtype {wide}.* truncated") as found:
        assert str(make().dtype) == wide.replace("64", "32")
    # The warning is about the user's line: Python shows it once for each.
    assert {w.filename for w in found} == {__file__}
    try:
        ga.config.update("jax_explicit_x64_dtypes", "allow")
        assert str(make().dtype) == wide
        ga.config.update("jax_explicit_x64_dtypes", "error")
        with pytest.raises(ValueError, match=f"requested dtype {wide}"):
            make()
    finally:
        ga.config.update("jax_explicit_x64_dtypes", "warn")


def test_wide_integers_asked_for_are_drawn_in_full():
    with ga.enable_x64(True):
        expected = ga.random.randint(ga.random.key(3), (5,), 0, 2**40, "int64").tolist()
    try:
        ga.config.update("jax_explicit_x64_dtypes", "allow")
        top = gnp.array(2**40, "int64")
        assert ga.random.randint(ga.random.key(3), (5,), 0, top, "int64").tolist() == expected
        wide = gnp.array([1.0, 3.0], "float64")
        assert (wide / 3 + wide.mean()).tolist() == [1 / 3 + 2, 3.0]
        assert ga.jit(lambda x: x.astype("float64") / 3)(gnp.ones(1)).tolist() == [1 / 3]
    finally:
        ga.config.update("jax_explicit_x64_dtypes", "warn")
