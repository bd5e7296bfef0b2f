"""Indexing: `x[...]`, `x.at[...]`, take, where and their kin: against NumPy and their own rules."""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import errors, lax
from gpuarray.config import oob

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
V = np.arange(10, dtype=np.int32)
I = np.array([1, 0, 1])
MASK = X[:, :, 0] > 3


def same(got, want):
    """Equal values and shapes; tuples and lists element by element."""
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w)
        return
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    assert np.shape(got) == np.shape(want)


#: Indices of X that NumPy reads as we do, in and out of `jit`.
INDICES = {
    "int": 1,
    "negative": -1,
    "ints": (1, -2, 3),
    "slice": slice(0, 1),
    "from the end": (slice(None), slice(-2, None)),
    "beyond": (0, slice(1, 99)),
    "empty": (0, slice(2, 1)),
    "step": (slice(None), slice(None), slice(None, None, 3)),
    "back": (slice(None), slice(None, None, -1)),
    "back by two": (0, slice(2, 0, -1), slice(None, 0, -2)),
    "new axes": (None, 1, None, slice(None), None),
    "ellipsis": (Ellipsis, 1),
    "ellipsis between": (0, Ellipsis, slice(1, 3)),
    "everything": (),
    "numpy int": (np.int64(1), np.uint8(2)),
    "array": I,
    "array later": (slice(None), I),
    "negative array": np.array([-1, -2]),
    "empty array": np.array([], int),
    "two arrays": (I, np.array([0, 2, 1])),
    "two that broadcast": (I[:, None], np.array([0, 2])),
    "apart": (I, slice(None), np.array([0, 3, 1])),
    "adjacent": (slice(None), I, np.array([0, 3, 1])),
    "apart by an ellipsis of nothing": (slice(None), I, Ellipsis, np.array([0, 3, 1])),
    "int apart by an ellipsis of nothing": (slice(None), 1, Ellipsis, I),
    "ellipsis of nothing at the end": (slice(None), I, I, Ellipsis),
    "int and array": (0, slice(None), I),
    "int beside array": (slice(None), 2, I),
    "array and step": (I, slice(None, None, 2)),
    "array and back": (I, slice(None, None, -1), slice(1, 3)),
    "array and new axes": (None, I, None),
    "2-D array": (slice(None), np.array([[0, 1], [2, 0]])),
    "list": ([0, 1], slice(None)),
    "mask": MASK,
    "mask of all": X > 20,
    "mask of one axis": (slice(None), np.array([True, False, True])),
    "mask and int": (np.array([True, False]), 1),
    "true": True,
    "false": (Ellipsis, False),
    "true and array": (True, I),
}


@pytest.mark.parametrize("name", INDICES)
def test_getitem(name):
    index = INDICES[name]
    same(gnp.asarray(X)[index], X[index])
    same(ga.jit(lambda x: x[index])(X), X[index])


@pytest.mark.parametrize("name", INDICES)
def test_set(name):
    index = INDICES[name]
    want = X.copy()
    want[index] = -1
    same(gnp.asarray(X).at[index].set(-1.0), want)
    same(ga.jit(lambda x: x.at[index].set(-1.0))(X), want)
    values = np.arange(X[index].size, dtype=np.float32).reshape(X[index].shape)
    distinct = np.full_like(X, -1)
    distinct[index] = values
    if (distinct == values.max(initial=-2)).sum() == 1:  # positions that do not repeat
        want[index] = values
        same(gnp.asarray(X).at[index].set(values), want)


def traced(index):
    """The index with its ints and integer arrays as arguments of a jitted function."""
    parts = index if isinstance(index, tuple) else (index,)
    chosen = [isinstance(p, (int, np.ndarray)) and np.asarray(p).dtype.kind == "i" for p in parts]
    given = [np.asarray(p) for p, c in zip(parts, chosen, strict=True) if c]

    def rebuild(values):
        rest = iter(values)
        return tuple(next(rest) if c else p for p, c in zip(parts, chosen, strict=True))

    return given, rebuild


@pytest.mark.parametrize("name", [n for n in INDICES if traced(INDICES[n])[0]])
def test_traced_positions(name):
    given, rebuild = traced(INDICES[name])
    same(ga.jit(lambda x, *i: x[rebuild(i)])(X, *given), X[INDICES[name]])
    want = X.copy()
    want[INDICES[name]] = 7
    same(ga.jit(lambda x, *i: x.at[rebuild(i)].set(7.0))(X, *given), want)


@pytest.mark.parametrize(
    "x64, dtype", [(False, "int8"), (False, "uint32"), (True, "uint8"), (True, "int32")]
)
def test_traced_positions_of_every_width(x64, dtype):
    """Positions known while tracing are as wide as the traced one beside them."""
    with ga.enable_x64(x64):
        i = gnp.asarray(1, dtype)
        reads = [lambda x, i: x[i], lambda x, i: x[0, i, ::-1], lambda x, i: x[i, 1:3, None]]
        for read, want in zip(reads, [X[1], X[0, 1, ::-1], X[1, 1:3, None]], strict=True):
            same(ga.jit(read)(X, i), want)
            both = np.stack([want, read(X, 0)])
            same(ga.vmap(read, (None, 0))(gnp.asarray(X), gnp.stack([i, i * 0])), both)
            slope = ga.grad(lambda x, read=read: (read(x, i) ** 2).sum())(gnp.asarray(X))
            same(np.sort(slope[slope > 0]), np.sort(2 * want[want > 0]))
            moved = ga.jit(lambda x, i, read=read: x.at[i, 0].set(read(x, i).max(), mode="clip"))
            same(moved(X, i)[1, 0], np.full(4, want.max()))


UPDATES = {
    "add": (np.add.at, 2),
    "subtract": (np.subtract.at, 2),
    "multiply": (np.multiply.at, 3),
    "min": (np.minimum.at, 5),
    "max": (np.maximum.at, 5),
}


@pytest.mark.parametrize("method", UPDATES)
@pytest.mark.parametrize(
    "index", [2, slice(1, 4), np.array([3, 3, 0]), V > 6, slice(None, None, 3)]
)
def test_updates(method, index):
    update, value = UPDATES[method]
    want = V.copy()
    update(want, index, value)
    same(getattr(gnp.asarray(V).at[index], method)(value), want)
    same(ga.jit(lambda x: getattr(x.at[index], method)(value))(V), want)


def test_divide_power_and_apply():
    x = gnp.asarray(V)
    same(x.at[2:4].divide(2), [0, 1, 1, 1.5, *range(4, 10)])
    same(x.at[np.array([2, 2])].power(2), [0, 1, 16, *range(3, 10)])
    same(x.at[np.array([0, 0])].apply(lambda v: v + 1), [2, *range(1, 10)])
    same(x.at[x > 7].apply(lambda v: -v), [*range(8), -8, -9])


def test_masks_work_while_tracing_where_the_count_does_not_matter():
    @ga.jit
    def f(x):
        x = x.at[x > 5].set(0.0)
        x = x.at[:, x[1, :, 0] < 3].add(1.0)
        return x.at[..., x[0, 0] > 1].multiply(3.0)

    want = np.where(X > 5, 0, X)
    want[:, want[1, :, 0] < 3] += 1
    want[..., want[0, 0] > 1] *= 3
    same(f(X), want)
    rows = np.array([1, 2, 3, 4], np.float32)
    want = X.copy()
    want[MASK] = rows
    same(ga.jit(lambda x, m: x.at[m].set(rows))(X, MASK), want)
    same(ga.jit(lambda x, m: x.at[m].set(rows[None]))(X, MASK), want)


#: Beside an int, or with a value for each element, the count matters.
@pytest.mark.parametrize(
    "call",
    [
        lambda x: x[x > 5],
        lambda x: x.at[x > 5].get(),
        lambda x: x.at[x[:, 0, 0] > 1, :, 2].min(9.0),
        lambda x: x.at[x > 5].set(np.arange(18.0)),
        lambda x: x[x[0, 0, 0] > 1],
    ],
)
def test_masks_need_their_values(call):
    with pytest.raises(errors.NonConcreteBooleanIndexError, match="must be concrete"):
        ga.jit(call)(X)
    call(gnp.asarray(X))


#: A call, and its result: what is out of bounds.
BOUNDS = {
    "read": (lambda v: v[10], 9),
    "read before": (lambda v: v[-11], 0),
    "read array": (lambda v: v[gnp.array([30, -30, -1])], [9, 0, 9]),
    "read traced": (lambda v: ga.jit(lambda v, i: v[i])(v, 30), 9),
    "write": (lambda v: v.at[10].set(1), V),
    "write before": (lambda v: v.at[-11].add(1), V),
    "write array": (lambda v: v.at[gnp.array([30, 0])].set(7), [7, *V[1:]]),
    "clip": (lambda v: v.at[gnp.array([30])].set(7, mode="clip"), [*V[:9], 7]),
    "clip static": (lambda v: v.at[30].set(7, mode="clip"), [*V[:9], 7]),
    "fill": (lambda v: v.at[gnp.array([1, 30])].get(mode="fill", fill_value=-5), [1, -5]),
    "fill int": (lambda v: v.at[30].get(mode="fill"), -(2**31)),
    "fill float": (lambda v: (v * 1.0).at[30].get(mode="fill"), np.nan),
    "drop": (lambda v: v.at[gnp.array([30])].add(7, mode="drop"), V),
    "no wrapping": (lambda v: v.at[gnp.array([-1])].set(7, wrap_negative_indices=False), V),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_out_of_bounds(name):
    call, want = BOUNDS[name]
    same(call(gnp.asarray(V)), want)


def test_config_oob_raise_names_the_index():
    v = gnp.asarray(V)
    with oob("raise"):
        for read in (lambda: v[10], lambda: v[gnp.array([1, -11])], lambda: v.at[10].set(1)):
            with pytest.raises(IndexError, match=r"index -?1\d is out of bounds for axis 0"):
                read()
        same(v[-10], 0)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (0, 0)])
def test_a_mask_without_elements_takes_nothing(shape):
    x, mask = np.ones((3, 4)), np.ones(shape, bool)
    same(gnp.asarray(x)[gnp.asarray(mask)], x[mask])
    same(gnp.asarray(x).at[mask].set(2), x)


#: A call that fails, its error and words of the message.
ERRORS = {
    "list": (lambda v: v[[1, 2]], TypeError, "non-tuple sequence for multidimensional indexing"),
    "float": (lambda v: v[1.5], TypeError, "must have integer or boolean type"),
    "float array": (lambda v: v[gnp.ones(2)], TypeError, "must have integer or boolean type"),
    "string": (lambda v: v["a"], TypeError, "string indexing"),
    "object": (lambda v: v[object()], IndexError, "only integers, slices"),
    "too many": (lambda v: v[0, 0], IndexError, "Too many indices: array is 1-dimensional"),
    "too many beside a mask": (lambda v: v.at[v > 0, :].set(1), IndexError, "but 2 were indexed"),
    "too many slices": (lambda v: v[:, 0], IndexError, "but 2 were indexed"),
    "ellipses": (lambda v: v[..., ...], IndexError, "single ellipsis"),
    "empty axis": (lambda v: v[:0][0], IndexError, "axis 0 with size 0"),
    "mask shape": (lambda v: v[gnp.ones(3, bool)], IndexError, "boolean index did not match"),
    "empty mask": (lambda v: v[None][gnp.ones((2, 0), bool)], IndexError, "did not match"),
    "step 0": (lambda v: v[::0], ValueError, "step cannot be zero"),
    "traced slice": (
        lambda v: ga.jit(lambda v, i: v[i:])(v, 1),
        IndexError,
        "Slice entries must be static integers",
    ),
    "assignment": (lambda v: v.__setitem__(0, 1), TypeError, r"\.at\["),
    "values too big": (lambda v: v.at[0].set(v), ValueError, "Cannot broadcast"),
    "values of another length": (lambda v: v.at[:2].set(v[:3]), ValueError, "broadcasting"),
    "mode": (lambda v: v.at[0].set(1, mode="x"), ValueError, "Unknown gather mode"),
    "no number": (lambda v: v.at[0].set("a"), TypeError, "not a valid"),
    "no method": (lambda v: v.at[0].sub(1), AttributeError, "sub"),
    "index shapes": (lambda v: v[None][I, I[:2]], ValueError, "Incompatible shapes"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, error, words = ERRORS[name]
    with pytest.raises(error, match=words):
        call(gnp.asarray(V))


def test_dtype_of_updates():
    with pytest.warns(FutureWarning, match="cannot safely cast"):
        out = gnp.arange(3).at[0].set(2.7)
    assert out.dtype == np.int32 and out[0] == 2
    with pytest.warns(FutureWarning):
        out = ga.jit(lambda x: x.at[gnp.array([0, 1])].add(1.5))(np.arange(3))
    same(out, [1, 2, 2])
    with pytest.warns(FutureWarning):
        assert gnp.zeros(2).at[0].set(1 + 2j)[0] == 1
    assert gnp.zeros(3, "bfloat16").at[0].set(1).dtype == gnp.bfloat16
    weak = gnp.full(3, 1.0).at[0].set(2.0)
    assert weak.weak_type and weak[0] == 2


def test_narrow_index_types_reach_far():
    v = gnp.arange(300)
    same(v[gnp.array([-1, 127], "int8")], [299, 127])
    same(v[gnp.array([200], "uint8")], [200])
    same(v[gnp.array(-1, "int8")], 299)


def test_reprs():
    x = gnp.arange(2)
    assert repr(x.at) == "_IndexUpdateHelper(Array([0, 1], dtype=int32))"
    assert repr(x.at[0]) == "_IndexUpdateRef(Array([0, 1], dtype=int32), 0)"


def test_static_indices_are_slices_in_a_graph():
    text = str(ga.make_jaxpr(lambda x: x[1, ::-1, None])(X))
    assert [op for op in ("gather", "dynamic_slice") if op in text] == []
    assert "slice[" in text and "rev[dimensions=(1,)]" in text


#: Functions of the namespace on NumPy's own terms: xp is numpy or gpuarray.numpy.
FUNCTIONS = {
    "take": lambda xp, x: xp.take(x, np.array([[0, -1], [5, 2]])),
    "take axis": lambda xp, x: xp.take(x, np.array([2, 0]), axis=1),
    "take one": lambda xp, x: xp.take(x, 1, axis=-1),
    "take clip": lambda xp, x: xp.take(x, np.array([-7, 99]), mode="clip"),
    "take wrap": lambda xp, x: xp.take(x, np.array([-7, 99]), mode="wrap"),
    "take_along_axis": lambda xp, x: xp.take_along_axis(x, xp.argsort(-x, axis=1), axis=1),
    "take_along_axis flat": lambda xp, x: xp.take_along_axis(x, np.array([3, -1]), axis=None),
    "take_along_axis spread": lambda xp, x: xp.take_along_axis(x, np.array([[[3, 0]]]), axis=2),
    "where": lambda xp, x: xp.where(x > 5, x, -x),
    "where spread": lambda xp, x: xp.where(x[0] > 5, x, x[:, :1]),
    "where alone": lambda xp, x: xp.where(x > 20),
    "where numbers": lambda xp, x: xp.where(x, np.float32(1), np.float32(0)),
    "select": lambda xp, x: xp.select([x < 2, x < 9], [x, 2 * x], np.float32(-1)),
    "choose": lambda xp, x: xp.choose(np.array([0, 1, 1, 0]), [x, -x]),
    "choose wrap": lambda xp, x: xp.choose(np.array([0, 3, 2, 5]), [x, -x], mode="wrap"),
    "choose clip": lambda xp, x: xp.choose(np.array([0, 3, -2, 1]), [x, -x, 0 * x], mode="clip"),
    "nonzero": lambda xp, x: xp.nonzero(x % 3),
    "flatnonzero": lambda xp, x: xp.flatnonzero(x % 5),
    "argwhere": lambda xp, x: xp.argwhere(x > 20),
    "compress": lambda xp, x: xp.compress(np.array([True, False, True]), x, axis=1),
    "compress flat": lambda xp, x: xp.compress(np.array([True, False, True]), x),
    "extract": lambda xp, x: xp.extract(x % 2 == 0, x),
    "piecewise": lambda xp, x: xp.piecewise(x, [x < 3, x > 7], [lambda v: -v, 5, lambda v: 2 * v]),
    "unravel_index": lambda xp, x: xp.unravel_index(np.array([0, 5, 23]), (2, 3, 4)),
    "ravel_multi_index": lambda xp, x: xp.ravel_multi_index((I[:2], 2 * I[:2]), (2, 3)),
    "ravel_multi_index F": lambda xp, x: xp.ravel_multi_index(
        (I[:2], 2 * I[:2]), (2, 3), order="F"
    ),
    "ravel wrap": lambda xp, x: xp.ravel_multi_index((9 * I - 4, 7 * I), (2, 3), mode="wrap"),
    "ravel clip": lambda xp, x: xp.ravel_multi_index((9 * I - 4, 7 * I), (2, 3), mode="clip"),
    "diag_indices": lambda xp, x: xp.diag_indices(3, 3),
    "diag_indices_from": lambda xp, x: xp.diag_indices_from(x[:, :2, 0]),
    "tril_indices": lambda xp, x: xp.tril_indices(3, 1, 4),
    "triu_indices_from": lambda xp, x: xp.triu_indices_from(x[0], -1),
    "tril_indices_from": lambda xp, x: xp.tril_indices_from(x[0], -1),
    "mask_indices": lambda xp, x: xp.mask_indices(3, xp.triu, 1),
    "ix_": lambda xp, x: xp.ix_(np.array([0, 1]), np.array([2, 0])),
    "indices": lambda xp, x: xp.indices((2, 3)),
    "indices sparse": lambda xp, x: xp.indices((2, 3), sparse=True),
    "r_": lambda xp, x: xp.r_[0, x[0, 0], 1:4],
    "r_ steps": lambda xp, x: xp.r_[0:1:5j],
    "r_ axis": lambda xp, x: xp.r_["-1", x, x],
    "r_ rank": lambda xp, x: xp.r_["0,3,1", x[0, 0], x[0, 1]],
    "c_": lambda xp, x: xp.c_[x[0, 0], x[0, 1]],
    "s_": lambda xp, x: x[xp.s_[1, ..., ::2]],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    call = FUNCTIONS[name]
    got, want = call(gnp, gnp.asarray(X)), call(np, X)
    if isinstance(want, (tuple, list)):
        want = [np.asarray(w) for w in want]
        same([np.asarray(g) for g in got], want)
    else:
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)
        assert got.shape == want.shape


#: In place in NumPy, a new array here.
IN_PLACE = {
    "put": lambda xp, x, **k: xp.put(x, np.array([0, -1, 5]), np.array([7, 8], x.dtype), **k),
    "put wrap": lambda xp, x, **k: xp.put(x, np.array([30, -30]), 7, mode="wrap", **k),
    "put clip": lambda xp, x, **k: xp.put(x, np.array([30]), 7, mode="clip", **k),
    "place": lambda xp, x, **k: xp.place(x, x > 20, np.array([1, 2], x.dtype), **k),
    "put_along_axis": lambda xp, x, **k: xp.put_along_axis(x, np.array([[[1, 2]]]), 9, 2, **k),
    "fill_diagonal": lambda xp, x, **k: xp.fill_diagonal(x[:, :, 0], 5, **k),
    "fill_diagonal values": lambda xp, x, **k: xp.fill_diagonal(x[0], np.array([5, 6]), **k),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_functions(name):
    call = IN_PLACE[name]
    want = X.copy()
    call(np, want)
    x = gnp.asarray(X)
    got = call(gnp, x, inplace=False)
    pick = {"fill_diagonal": np.s_[:, :, 0], "fill_diagonal values": 0}.get(name, ())
    same(got, want[pick])
    with pytest.raises((ValueError, NotImplementedError), match="immutable"):
        call(gnp, x)


#: With `size`, the same functions run while tracing; missing places are filled.
SIZED = {
    "nonzero": (lambda x: gnp.nonzero(x, size=3)[0], [1, 3, 0]),
    "nonzero fill": (lambda x: gnp.nonzero(x, size=3, fill_value=-1)[0], [1, 3, -1]),
    "nonzero cut": (lambda x: gnp.nonzero(x, size=1)[0], [1]),
    "nonzero none": (lambda x: gnp.nonzero(x, size=0)[0], []),
    "where": (lambda x: gnp.where(x, size=3, fill_value=4)[0], [1, 3, 4]),
    "flatnonzero": (lambda x: gnp.flatnonzero(x, size=2), [1, 3]),
    "argwhere": (lambda x: gnp.argwhere(x, size=3, fill_value=9), [[1], [3], [9]]),
    "extract": (lambda x: gnp.extract(x > 0, 10 * x, size=3, fill_value=-2), [50, 60, -2]),
    "compress": (lambda x: gnp.compress(x > 0, 10 * x, size=4, fill_value=-2), [50, 60, -2, -2]),
    "place": (lambda x: gnp.place(x, x > 0, gnp.array([7, 8, 9]), inplace=False), [0, 7, 0, 8]),
}


@pytest.mark.parametrize("name", SIZED)
def test_sized(name):
    call, want = SIZED[name]
    x = np.array([0, 5, 0, 6], np.int32)
    same(call(gnp.asarray(x)), want)
    same(ga.jit(call)(x), want)


FUNCTION_ERRORS = {
    "where two": (lambda: gnp.where(V > 1, V), TypeError, "where requires ndarray or scalar"),
    "where size": (lambda: gnp.where(V > 1, V, V, size=2), ValueError, "three-term"),
    "where list": (lambda: gnp.where([True], 1, 2), TypeError, "<class 'list'> at position 0"),
    "nonzero scalar": (lambda: gnp.nonzero(gnp.array(1)), ValueError, "0d arrays"),
    "nonzero traced": (lambda: ga.jit(gnp.nonzero)(V), errors.ConcretizationTypeError, "size"),
    "choose range": (lambda: gnp.choose(V, [1, 2]), ValueError, "invalid entry"),
    "take float": (lambda: gnp.take(V, 1.5), ValueError, "integer type"),
    "take mode": (lambda: gnp.take(V, 1, mode="x"), ValueError, "Invalid mode"),
    "take empty": (lambda: gnp.take(V[:0], gnp.array([0])), IndexError, "empty axis"),
    "take out": (lambda: gnp.take(V, 1, out=V), NotImplementedError, "'out' argument"),
    "along ranks": (lambda: gnp.take_along_axis(X, I, 1), ValueError, "same number of dim"),
    "ravel range": (lambda: gnp.ravel_multi_index((5, 0), (2, 3)), ValueError, "invalid entry"),
    "ix_ mask": (lambda: gnp.ix_(V > 1), NotImplementedError, "Boolean arguments"),
    "piecewise": (lambda: gnp.piecewise(V, [V > 1], [1, 2, 3]), ValueError, "functions are exp"),
}


@pytest.mark.parametrize("name", FUNCTION_ERRORS)
def test_function_errors(name):
    call, error, words = FUNCTION_ERRORS[name]
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32"])
@pytest.mark.parametrize("jit", [False, True])
def test_unravel_index_keeps_the_dtype_of_the_indices(kind, jit):
    """Where it holds every length; those that are arrays are promoted with it, as in JAX."""
    f = ga.jit(gnp.unravel_index) if jit else gnp.unravel_index
    found = f(gnp.array([3, 50, 119], kind), (20, 20))
    assert {x.dtype.name for x in found} == {kind}
    np.testing.assert_array_equal(np.stack(found), np.unravel_index([3, 50, 119], (20, 20)))
    rows, columns = f(gnp.array([3, 50], kind), (gnp.int32(20), 20))
    assert (rows.dtype.name, columns.dtype.name) == ("int32", kind)


def test_unravel_index_of_narrow_indices_and_long_axes():
    rows, columns = gnp.unravel_index(gnp.array([-1], "int8"), (2, 1000))
    assert (int(rows[0]), int(columns[0])) == (1, 999) and columns.dtype == "int32"


def test_piecewise_gives_functions_one_element():
    x = gnp.array([0.35, -0.8, 1.2])

    def pieces(x):
        # Functions branch and reduce: over one element, not over all of them.
        first, second = lambda v: v - v.mean() + v.ndim, lambda v: lax.cond(v > 1, gnp.sqrt, abs, v)
        return gnp.piecewise(x, [x < 0, x > 1], [first, second, 0.5])

    expected = np.array([0.5, 0.0, np.sqrt(1.2)], np.float32)
    for f in (pieces, ga.jit(pieces)):
        np.testing.assert_allclose(f(x), expected, rtol=1e-6)
    np.testing.assert_allclose(pieces(x[:, None]), expected[:, None], rtol=1e-6)
    with pytest.raises(TypeError, match="returned shape"):
        gnp.piecewise(x, [x > 0], [lambda v: gnp.stack([v, v])])


@pytest.mark.on_cpu("small arrays run at once there; elsewhere they are recorded")
def test_piecewise_traces_the_same_functions_once():
    traced = []

    def double(v):
        traced.append(v.shape)
        return 2 * v

    for number in range(3):
        x = gnp.arange(4.0) + number
        want = np.piecewise(np.asarray(x), [np.asarray(x) > 2], [lambda v: 2 * v, 7])
        np.testing.assert_array_equal(gnp.piecewise(x, [x > 2], [double, 7]), want)
    assert traced == [()]
    # With more arguments, and functions without a hash, at each call.
    found = gnp.piecewise(gnp.arange(4.0), [gnp.arange(4) > 2], [lambda v, a, b: v * a + b], 3, b=1)
    assert found.tolist() == [0, 0, 0, 10]

    class Halved:
        __hash__ = None

        def __call__(self, v):
            return v / 2

    assert gnp.piecewise(gnp.arange(2.0), [gnp.arange(2) > 0], [Halved(), 5]).tolist() == [5, 0.5]


TRACED_SEQUENCES = {
    "roll": lambda xp, x, k, f: xp.roll(x, (k, 1), (0, 1)),
    "roll along one": lambda xp, x, k, f: xp.roll(x, [k, 1], 0),
    "pad": lambda xp, x, k, f: xp.pad(x, 1, constant_values=(f, 2.0)),
    "pad each": lambda xp, x, k, f: xp.pad(x, 1, constant_values=[[f, 1.0], [2.0, f]]),
    "pad with ramps": lambda xp, x, k, f: xp.pad(x, 2, "linear_ramp", end_values=(f, 1.0)),
    "histogram": lambda xp, x, k, f: xp.histogram(x, bins=[0.0, f, 9.0])[0],
}


@pytest.mark.parametrize("name", TRACED_SEQUENCES)
def test_sequences_with_traced_numbers(name):
    f = TRACED_SEQUENCES[name]
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    expected = f(np, x, 2, 1.25)
    given = (gnp.asarray(x), gnp.array(2), gnp.array(1.25))
    run = lambda x, k, v: f(gnp, x, k, v)
    np.testing.assert_allclose(ga.jit(run)(*given), expected, rtol=1e-6)
    rows = ga.vmap(run, (None, 0, 0))(given[0], given[1][None], given[2][None])
    np.testing.assert_allclose(rows[0], expected, rtol=1e-6)


def test_traced_fill_of_positions():
    mask = gnp.array([0, 1, 0, 1])
    found = ga.jit(lambda k: gnp.nonzero(mask, size=3, fill_value=k)[0])(7)
    assert found.tolist() == [1, 3, 7]


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("at", [[-1], [0, -1], [-1, 0], [-7, 6], [50, -50], [0, -1, 50, 3]])
def test_modes_mean_what_they_do_in_numpy(mode, at):
    """For positions below 0 and beyond the end; `clip` takes the former to the first element."""
    x, v = np.arange(6.0, dtype=np.float32), np.array([7.0, 8.0], np.float32)
    i, other = np.array(at), np.arange(len(at))
    put = x.copy()
    np.put(put, i, v, mode=mode)
    choices = [np.arange(len(at)) + 10 * n for n in range(3)]
    for given in (i, gnp.asarray(i)):
        np.testing.assert_array_equal(gnp.put(x, given, v, mode=mode, inplace=False), put)
        np.testing.assert_array_equal(gnp.take(x, given, mode=mode), np.take(x, i, mode=mode))
        found = gnp.choose(given, choices, mode=mode)
        np.testing.assert_array_equal(found, np.choose(i, choices, mode=mode))
        found = gnp.ravel_multi_index((given, other), (6, 5), mode=mode)
        np.testing.assert_array_equal(found, np.ravel_multi_index((i, other), (6, 5), mode=mode))
