"""Shapes, joining, splitting, padding of the numpy namespace, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import errors

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
M = np.arange(6, dtype=np.float32).reshape(2, 3)
V = np.arange(10, dtype=np.int32)
E = np.zeros((0, 3), np.float32)


def same(got, want):
    """Equal values and shapes; sequences element by element."""
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w)
        return
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    assert np.shape(got) == np.shape(want)


#: Calls that mean the same with xp = numpy and xp = gpuarray.numpy.
CALLS = {
    "reshape": lambda xp, X=X, M=M, V=V: xp.reshape(X, (4, -1)),
    "reshape F": lambda xp, X=X, M=M, V=V: xp.reshape(X, (4, 6), order="F"),
    "reshape F rank": lambda xp, X=X, M=M, V=V: xp.reshape(X, (2, 2, 6), order="F"),
    "reshape scalar": lambda xp, X=X, M=M, V=V: xp.reshape(np.float32(3), (1, 1)),
    "reshape empty": lambda xp, X=X, M=M, V=V: xp.reshape(E, (3, 0)),
    "ravel": lambda xp, X=X, M=M, V=V: xp.ravel(X),
    "ravel F": lambda xp, X=X, M=M, V=V: xp.ravel(X, order="F"),
    "transpose": lambda xp, X=X, M=M, V=V: xp.transpose(X),
    "transpose axes": lambda xp, X=X, M=M, V=V: xp.transpose(X, (1, -1, 0)),
    "transpose the axis": lambda xp, X=X, M=M, V=V: xp.asarray(V).transpose(np.int64(0)),
    "transpose array of axes": lambda xp, X=X, M=M, V=V: xp.asarray(X).transpose(
        np.array([1, 2, 0])
    ),
    "permute_dims": lambda xp, X=X, M=M, V=V: xp.permute_dims(X, (2, 0, 1)),
    "matrix_transpose": lambda xp, X=X, M=M, V=V: xp.matrix_transpose(X),
    "swapaxes": lambda xp, X=X, M=M, V=V: xp.swapaxes(X, 0, -1),
    "moveaxis": lambda xp, X=X, M=M, V=V: xp.moveaxis(X, 0, -1),
    "moveaxis several": lambda xp, X=X, M=M, V=V: xp.moveaxis(X, (0, 1), (-1, 0)),
    "rollaxis": lambda xp, X=X, M=M, V=V: xp.rollaxis(X, 2),
    "rollaxis start": lambda xp, X=X, M=M, V=V: xp.rollaxis(X, 0, 2),
    "rollaxis end": lambda xp, X=X, M=M, V=V: xp.rollaxis(X, 0, 3),
    "squeeze": lambda xp, X=X, M=M, V=V: xp.squeeze(X[:1, :, :1]),
    "squeeze axis": lambda xp, X=X, M=M, V=V: xp.squeeze(X[:1, :, :1], axis=(0, -1)),
    "expand_dims": lambda xp, X=X, M=M, V=V: xp.expand_dims(M, (0, -1)),
    "atleast_1d": lambda xp, X=X, M=M, V=V: xp.atleast_1d(np.float32(2)),
    "atleast_2d": lambda xp, X=X, M=M, V=V: xp.atleast_2d(V),
    "atleast_3d": lambda xp, X=X, M=M, V=V: [xp.atleast_3d(a) for a in (np.float32(1), V, M, X)],
    "atleast several": lambda xp, X=X, M=M, V=V: xp.atleast_2d(V, M),
    "flip": lambda xp, X=X, M=M, V=V: xp.flip(X),
    "flip axes": lambda xp, X=X, M=M, V=V: xp.flip(X, (0, -1)),
    "fliplr": lambda xp, X=X, M=M, V=V: xp.fliplr(M),
    "flipud": lambda xp, X=X, M=M, V=V: xp.flipud(M),
    "rot90": lambda xp, X=X, M=M, V=V: [xp.rot90(M, k) for k in range(-1, 5)],
    "rot90 axes": lambda xp, X=X, M=M, V=V: xp.rot90(X, 1, (2, 1)),
    "roll": lambda xp, X=X, M=M, V=V: [xp.roll(V, k) for k in (0, 3, -3, 23)],
    "roll flat": lambda xp, X=X, M=M, V=V: xp.roll(M, 2),
    "roll axis": lambda xp, X=X, M=M, V=V: xp.roll(X, -1, axis=1),
    "roll axes": lambda xp, X=X, M=M, V=V: xp.roll(X, (1, 2), axis=(0, 2)),
    "roll one shift": lambda xp, X=X, M=M, V=V: xp.roll(X, 1, axis=(0, 2)),
    "roll shifts": lambda xp, X=X, M=M, V=V: xp.roll(M, (1, 1), axis=1),
    "roll empty": lambda xp, X=X, M=M, V=V: xp.roll(E, 2, axis=0),
    "broadcast_to": lambda xp, X=X, M=M, V=V: xp.broadcast_to(M[:, :1], (4, 2, 3)),
    "broadcast_arrays": lambda xp, X=X, M=M, V=V: xp.broadcast_arrays(M, M[0], np.float32(1)),
    "broadcast_shapes": lambda xp, X=X, M=M, V=V: np.array(
        xp.broadcast_shapes((2, 1), 3, (1, 1, 1))
    ),
    "copy": lambda xp, X=X, M=M, V=V: xp.copy(M),
    "shape": lambda xp, X=X, M=M, V=V: np.array(
        [*xp.shape(M), xp.ndim(M), xp.size(M), xp.size(M, 1)]
    ),
    "concatenate": lambda xp, X=X, M=M, V=V: xp.concatenate([M, M[:1]]),
    "concatenate axis": lambda xp, X=X, M=M, V=V: xp.concatenate((M, M[:, :1]), axis=-1),
    "concatenate flat": lambda xp, X=X, M=M, V=V: xp.concatenate(
        [M, V.astype(np.float32)], axis=None
    ),
    "concatenate array": lambda xp, X=X, M=M, V=V: xp.concatenate(X, axis=1),
    "concatenate dtype": lambda xp, X=X, M=M, V=V: xp.concatenate([V, V[:2]], dtype="float32"),
    "concat": lambda xp, X=X, M=M, V=V: xp.concat([V, V]),
    "stack": lambda xp, X=X, M=M, V=V: [xp.stack([M, M], axis=a) for a in (0, 1, -1)],
    "stack scalars": lambda xp, X=X, M=M, V=V: xp.stack([np.float32(1), np.float32(2)]),
    "stack array": lambda xp, X=X, M=M, V=V: xp.stack(X, axis=1),
    "unstack": lambda xp, X=X, M=M, V=V: xp.unstack(X, axis=1),
    "hstack": lambda xp, X=X, M=M, V=V: [xp.hstack([V, V]), xp.hstack([M, M])],
    "vstack": lambda xp, X=X, M=M, V=V: [xp.vstack([V, V]), xp.vstack([M, M[0]])],
    "dstack": lambda xp, X=X, M=M, V=V: [xp.dstack([V, V]), xp.dstack([M, M])],
    "column_stack": lambda xp, X=X, M=M, V=V: xp.column_stack([M[:, 0], M]),
    "block": lambda xp, X=X, M=M, V=V: xp.block([[M, M[:, :1]], [M[:1], np.float32([[7]])]]),
    "block row": lambda xp, X=X, M=M, V=V: xp.block([V, V]),
    "split": lambda xp, X=X, M=M, V=V: xp.split(V, 5),
    "split at": lambda xp, X=X, M=M, V=V: xp.split(V, [3, 7]),
    "split axis": lambda xp, X=X, M=M, V=V: xp.split(X, [1], axis=2),
    "array_split": lambda xp, X=X, M=M, V=V: xp.array_split(V, 4),
    "array_split more": lambda xp, X=X, M=M, V=V: xp.array_split(V[:2], 3),
    "hsplit": lambda xp, X=X, M=M, V=V: [*xp.hsplit(M, 3), *xp.hsplit(V, 2)],
    "vsplit": lambda xp, X=X, M=M, V=V: xp.vsplit(M, 2),
    "dsplit": lambda xp, X=X, M=M, V=V: xp.dsplit(X, [1, 3]),
    "tile": lambda xp, X=X, M=M, V=V: [xp.tile(M, r) for r in (2, (2, 1), (1, 2, 1), ())],
    "tile scalar": lambda xp, X=X, M=M, V=V: xp.tile(np.float32(2), (2, 2)),
    "repeat": lambda xp, X=X, M=M, V=V: xp.repeat(M, 2),
    "repeat axis": lambda xp, X=X, M=M, V=V: xp.repeat(M, 3, axis=1),
    "repeat counts": lambda xp, X=X, M=M, V=V: xp.repeat(M, np.array([2, 0, 1]), axis=1),
    "repeat none": lambda xp, X=X, M=M, V=V: xp.repeat(M, 0, axis=0),
    "append": lambda xp, X=X, M=M, V=V: [
        xp.append(M, V.astype(np.float32)),
        xp.append(M, M, axis=0),
    ],
    "delete": lambda xp, X=X, M=M, V=V: [
        xp.delete(V, i) for i in (0, -1, slice(2, 8, 3), slice(None, None, -4))
    ],
    "delete several": lambda xp, X=X, M=M, V=V: xp.delete(X, np.array([0, -1, 0]), axis=2),
    "delete mask": lambda xp, X=X, M=M, V=V: xp.delete(V, V % 3 == 0),
    "delete flat": lambda xp, X=X, M=M, V=V: xp.delete(M, 1),
    "insert": lambda xp, X=X, M=M, V=V: [xp.insert(V, i, 7) for i in (0, 3, -1, 10)],
    "insert several": lambda xp, X=X, M=M, V=V: xp.insert(
        V, np.array([3, 1, 3]), np.array([10, 20, 30])
    ),
    "insert slice": lambda xp, X=X, M=M, V=V: xp.insert(V, slice(0, 6, 2), 5),
    "insert axis": lambda xp, X=X, M=M, V=V: xp.insert(M, 1, M[0], axis=0),
    "insert columns": lambda xp, X=X, M=M, V=V: xp.insert(M, np.array([0, 1]), M[:, :2], axis=1),
    "insert one array": lambda xp, X=X, M=M, V=V: xp.insert(M, np.array([1]), M[:1], axis=0),
    "insert flat": lambda xp, X=X, M=M, V=V: xp.insert(M, 2, 9),
    "resize": lambda xp, X=X, M=M, V=V: [xp.resize(V, s) for s in ((3, 5), 4, (2, 2), ())],
    "resize empty": lambda xp, X=X, M=M, V=V: xp.resize(E, (2, 2)),
    "trim_zeros": lambda xp, X=X, M=M, V=V: [
        xp.trim_zeros(np.array([0, 0, 3, 0, 4, 0]), t) for t in ("fb", "f", "b")
    ],
    "trim all": lambda xp, X=X, M=M, V=V: [xp.trim_zeros(np.zeros(3), t) for t in ("fb", "f", "b")],
    "apply_along_axis": lambda xp, X=X, M=M, V=V: xp.apply_along_axis(xp.cumsum, 1, X),
    "apply_along_axis drops": lambda xp, X=X, M=M, V=V: xp.apply_along_axis(xp.sum, 0, X),
    "apply_along_axis adds": lambda xp, X=X, M=M, V=V: xp.apply_along_axis(
        lambda v: xp.stack([v, v]), 1, X
    ),
    "apply_over_axes": lambda xp, X=X, M=M, V=V: xp.apply_over_axes(xp.sum, X, [0, 2]),
}


@pytest.mark.parametrize("name", CALLS)
def test_as_numpy(name):
    call = CALLS[name]
    same(call(gnp), call(np))


#: What needs the values, or gives no arrays.
NOT_TRACED = ("shape", "broadcast_shapes", "trim_zeros", "trim all", "delete mask")


@pytest.mark.parametrize("name", [n for n in CALLS if n not in NOT_TRACED])
def test_on_traced_arrays(name):
    call = CALLS[name]
    same(ga.jit(lambda *arrays: call(gnp, *arrays))(X, M, V), call(np))


def test_joining_promotes():
    assert gnp.concatenate([M[0], V]).dtype == np.float32
    assert gnp.stack([np.int8(1), np.uint8(1)]).dtype == np.int16
    assert gnp.hstack([V, M[0]]).dtype == np.float32
    assert gnp.append(V, 2.5).dtype == np.float32
    assert gnp.stack([1, 2]).weak_type and not gnp.stack([1, V[0]]).weak_type
    assert gnp.insert(V, 0, 2.7)[0] == 2


#: Every mode of pad, against NumPy.
PADS = {
    "constant": ((2, 1), {}),
    "one": (1, {"constant_values": 5}),
    "ends": (((1, 2), (3, 0)), {"constant_values": ((1, 2), (3, 4))}),
    "edge": (((1, 2), (3, 0)), {"mode": "edge"}),
    "wrap": (((1, 2), (7, 5)), {"mode": "wrap"}),
    "reflect": (((1, 1), (5, 7)), {"mode": "reflect"}),
    "reflect odd": (((1, 1), (2, 2)), {"mode": "reflect", "reflect_type": "odd"}),
    "symmetric": (((3, 5), (7, 8)), {"mode": "symmetric"}),
    "symmetric odd": (((1, 2), (2, 3)), {"mode": "symmetric", "reflect_type": "odd"}),
    "linear_ramp": (((2, 2), (3, 1)), {"mode": "linear_ramp", "end_values": ((5, -5), (0, 2))}),
    "maximum": (((2, 2), (3, 1)), {"mode": "maximum"}),
    "minimum": (((2, 2), (3, 1)), {"mode": "minimum", "stat_length": ((1, 2), (2, 3))}),
    "mean": (((2, 2), (3, 1)), {"mode": "mean"}),
    "median": (((2, 2), (3, 1)), {"mode": "median", "stat_length": 2}),
    "nothing": (0, {"mode": "wrap"}),
}


@pytest.mark.parametrize("name", PADS)
def test_pad(name):
    widths, options = PADS[name]
    want = np.pad(M, widths, **options)
    got = gnp.pad(M, widths, **options)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)
    assert got.dtype == np.float32 and got.shape == want.shape
    np.testing.assert_allclose(ga.jit(lambda x: gnp.pad(x, widths, **options))(M), want, rtol=1e-6)


def test_pad_by_a_function():
    def numpys(vector, widths, axis, kwargs):
        vector[: widths[0]] = vector[widths[0] : widths[0] + 1] * kwargs["by"]

    def ours(vector, widths, axis, kwargs):
        return vector.at[: widths[0]].set(vector[widths[0] : widths[0] + 1] * kwargs["by"])

    same(gnp.pad(M, ((1, 0), (2, 0)), ours, by=3), np.pad(M, ((1, 0), (2, 0)), numpys, by=3))


def test_roll_by_a_traced_shift():
    for shift in (0, 2, -3, 25):
        same(ga.jit(lambda x, k: gnp.roll(x, k))(V, shift), np.roll(V, shift))
    shifts = np.array([1, -2])
    same(ga.jit(lambda x, k: gnp.roll(x, k, axis=(0, 1)))(M, shifts), np.roll(M, shifts, (0, 1)))


def test_traced_repeat_insert_delete():
    counts = np.array([2, 0, 3])
    repeat = ga.jit(lambda x, n: gnp.repeat(x, n, axis=1, total_repeat_length=5))
    same(repeat(M, counts), np.repeat(M, counts, axis=1))
    same(gnp.repeat(V[:2], 2, total_repeat_length=6), [0, 0, 1, 1, 1, 1])
    same(gnp.repeat(V[:2], 2, total_repeat_length=3), [0, 0, 1])
    for where in (np.array([3, 1, 3]), np.array([-1, 0, 10])):
        values = np.array([10, 20, 30])
        insert = ga.jit(lambda x, i, v: gnp.insert(x, i, v))
        same(insert(V, where, values), np.insert(V, where, values))
    delete = ga.jit(lambda x, i: gnp.delete(x, i, assume_unique_indices=True))
    same(delete(V, np.array([0, -1, 4])), np.delete(V, np.array([0, -1, 4])))


def test_view():
    same(gnp.array([1.0, -2.0]).view("int32"), np.array([1, -2], np.float32).view(np.int32))
    same(M[0].view(np.int8), gnp.asarray(M[0]).view("int8"))
    same(gnp.asarray(M[0].view(np.int8)).view("float32"), M[0])
    pairs = np.array([1 + 2j, 3 - 4j], np.complex64)
    same(gnp.asarray(pairs).view("float32"), pairs.view(np.float32))
    same(gnp.asarray(pairs.view(np.float32)).view("complex64"), pairs)
    same(gnp.array([0, 7], dtype="uint8").view(bool), [False, True])
    same(gnp.array([True, False]).view("uint8"), [1, 0])


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "float32", "complex64", "bfloat16"])
def test_byteswap(dtype):
    x = gnp.asarray(M).astype(dtype)
    for swapped in (x.byteswap(), ga.jit(lambda x: x.byteswap())(x)):
        assert swapped.dtype == dtype
        same(swapped, np.asarray(x).byteswap())
        same(swapped.byteswap(), x)


def test_views_of_bytes_stay_behind_the_bitcast():
    """A slice of what a bitcast to another width makes is no slice of what it reads."""
    last = lambda x: ga.lax.bitcast_convert_type(x, np.uint8)[:, 1, 2:]
    same(ga.jit(last)(M), M.view(np.uint8).reshape(2, 3, 4)[:, 1, 2:])
    ones = lambda: ga.lax.bitcast_convert_type(gnp.full((4,), 1, "uint8"), np.int32)
    same(ga.jit(ones)(), 0x01010101)


def test_vectorize():
    f = gnp.vectorize(lambda a, b: (a + b, a * b))
    same(f(M, V[:3]), [M + V[:3], M * V[:3]])
    dot = gnp.vectorize(gnp.dot, signature="(n),(n)->()")
    same(dot(X, X[0, 0]), X @ X[0, 0])
    outer = gnp.vectorize(
        lambda a, b, scale: scale * a[:, None] * b, signature="(m),(n)->(m,n)", excluded={2}
    )
    same(outer(M, M[0], 2), 2 * M[:, :, None] * M[0])
    with pytest.raises(ValueError, match="inconsistent size for core dimension 'n'"):
        dot(X, V)
    with pytest.raises(ValueError, match="not a valid gufunc signature"):
        gnp.vectorize(gnp.dot, signature="(n,(n)->()")


def test_views_in_a_graph():
    """Rearranging records views alone: no gather, no copy."""
    text = str(ga.make_jaxpr(lambda x: gnp.moveaxis(x[None], 0, -1).reshape(4, 6).T)(X))
    assert "gather" not in text and "copy" not in text
    assert str(ga.make_jaxpr(gnp.ravel)(X)) == (
        "{ lambda ; a:f32[2,3,4]. let\n"
        "    b:f32[24] = reshape[dimensions=None new_sizes=(24,) sharding=None] a\n"
        "  in (b,) }"
    )


#: A call that fails, its error and words of the message.
ERRORS = {
    "reshape size": (lambda: gnp.reshape(M, (4, 2)), TypeError, "cannot reshape array of shape"),
    "reshape unknowns": (lambda: gnp.reshape(M, (-1, -1)), TypeError, "only specify one unknown"),
    "reshape uneven": (lambda: gnp.reshape(M, (4, -1)), TypeError, "does not evenly divide 6"),
    "reshape order": (lambda: gnp.reshape(M, 6, order="K"), ValueError, "Unexpected value"),
    "reshape float": (lambda: gnp.reshape(M, (2.0, 3)), TypeError, "Shapes must be 1D sequences"),
    "reshape traced": (
        lambda: ga.jit(lambda x, n: x.reshape(n))(M, 6),
        TypeError,
        "Shapes must be 1D sequences of concrete values of integer type",
    ),
    "list": (lambda: gnp.ravel([1, 2]), TypeError, "ravel requires ndarray or scalar arguments"),
    "transpose": (lambda: gnp.transpose(M, (0, 0)), TypeError, "isn't a permutation"),
    "moveaxis": (lambda: gnp.moveaxis(X, (0, 1), (0,)), ValueError, "Inconsistent number"),
    "squeeze": (lambda: gnp.squeeze(M, 0), ValueError, "size not equal to one"),
    "axis": (lambda: gnp.flip(M, 2), ValueError, "axis 2 is out of bounds"),
    "rot90": (lambda: gnp.rot90(V), ValueError, "ndim at least two"),
    "rot90 axes": (lambda: gnp.rot90(M, axes=(1, 1)), ValueError, "Axes must be different"),
    "broadcast_to": (lambda: gnp.broadcast_to(M, (3,)), ValueError, "fewer dimensions"),
    "broadcast_shapes": (
        lambda: gnp.broadcast_shapes((2,), (3,)),
        ValueError,
        "Incompatible shapes for broadcasting",
    ),
    "concatenate none": (lambda: gnp.concatenate([]), ValueError, "Need at least one array"),
    "concatenate scalars": (lambda: gnp.concatenate([1, 2]), ValueError, "Zero-dimensional"),
    "concatenate ranks": (lambda: gnp.concatenate([M, V]), TypeError, "Cannot concatenate"),
    "concatenate list": (lambda: gnp.concatenate([V, [1]]), TypeError, "at position 1"),
    "stack ranks": (lambda: gnp.stack([M, V]), ValueError, "Cannot stack arrays"),
    "block tuple": (lambda: gnp.block((1, 2)), ValueError, "does not allow tuples"),
    "block depth": (lambda: gnp.block([[1], 2]), ValueError, "Mismatched list depths"),
    "split": (lambda: gnp.split(V, 3), ValueError, "equal division"),
    "split beyond": (lambda: gnp.split(V, [3, 20]), ValueError, "must be nonnegative"),
    "repeat": (lambda: gnp.repeat(M, np.array([1, 2, 3]), axis=0), ValueError, "broadcast"),
    "repeat traced": (
        lambda: ga.jit(gnp.repeat)(M, 2),
        errors.ConcretizationTypeError,
        "total number of repeats must be static",
    ),
    "delete": (lambda: gnp.delete(V, 20), ValueError, "out of bounds"),
    "delete float": (lambda: gnp.delete(V, 1.5), ValueError, "must be integer or bool"),
    "insert float": (lambda: gnp.insert(V, 1.5, 0), ValueError, "must be integer typed"),
    "resize": (lambda: gnp.resize(V, (-1,)), ValueError, "non-negative"),
    "pad mode": (lambda: gnp.pad(V, 1, "x"), NotImplementedError, "Unimplemented padding mode"),
    "pad negative": (lambda: gnp.pad(V, -1), ValueError, "can't contain negative values"),
    "pad width": (lambda: gnp.pad(M, (1, 2, 3)), ValueError, "unsupported shape"),
    "pad option": (lambda: gnp.pad(V, 1, "edge", constant_values=3), ValueError, "unsupported"),
    "pad empty": (lambda: gnp.pad(E, 1, "edge"), ValueError, "empty axis"),
    "view": (lambda: gnp.asarray(V[:3]).view("complex64"), ValueError, "larger"),
    "trim traced": (
        lambda: ga.jit(gnp.trim_zeros)(V),
        errors.ConcretizationTypeError,
        "trim_zeros",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, error, words = ERRORS[name]
    with pytest.raises(error, match=words):
        call()


def test_methods_take_what_they_should():
    x = gnp.array([1.0, 2.0, 3.0])
    same(x.compress(x != 2), np.array([1.0, 3.0]))
    same(gnp.array(M).compress(gnp.array([False, True]), axis=0), M[1:])
    with pytest.raises(TypeError):
        x.copy("F")
    with pytest.raises(TypeError):
        x.reshape((3, 1), copy=True)


def test_permute_dims_counts_from_either_end():
    same(gnp.permute_dims(gnp.array(M), (-1, 0)), M.T)
    for axes in ((2, 0), (-3, 0)):
        with pytest.raises(TypeError, match="isn't a permutation"):
            gnp.permute_dims(gnp.array(M), axes)


@pytest.mark.parametrize("transform", [ga.jvp, lambda f, x, t: ga.grad(lambda *x: f(*x)[0])(*x)])
def test_a_number_that_is_differentiated_says_where_to_split(transform):
    seen = []

    def f(n):
        parts = gnp.split(gnp.zeros((12, 2)), n)
        seen.append([p.shape for p in parts])
        seen.append([p.shape for p in gnp.split(gnp.zeros(4), (1, n.astype(int)))])
        return n, n

    transform(f, (gnp.float32(2.0),), (1.0,) if transform is not ga.jvp else (gnp.float32(1.0),))
    assert seen == [[(6, 2), (6, 2)], [(1,), (1,), (2,)]]
    with pytest.raises(errors.ConcretizationTypeError, match="`indices_or_sections` argument"):
        ga.jit(lambda n: gnp.split(gnp.zeros(4), n))(2)


@pytest.mark.parametrize("name", ["ndim", "shape", "size"])
def test_lists_are_asked_for_their_shape_with_a_warning(name):
    with pytest.warns(DeprecationWarning, match=f"{name} requires ndarray or scalar .* <class 'l"):
        assert getattr(gnp, name)([1, 2, 3]) == getattr(np, name)([1, 2, 3])


@pytest.mark.parametrize(
    "index, instead",
    [
        ([0, 1], "array"),
        (range(2), "array"),
        ([0, slice(1)], "tuple"),
        ([None, 0], "tuple"),
        ([[0], [1]], "tuple"),
        ([np.arange(2), 1], "tuple"),
    ],
)
def test_lists_as_indices_name_what_to_write(index, instead):
    for use in (lambda i: gnp.ones((3, 2))[i], lambda i: gnp.ones((3, 2)).at[i].set(0)):
        with pytest.raises(TypeError, match=rf"use `arr\[{instead}\(seq\)\]` instead"):
            use(index)


def test_integers_that_do_not_fit_and_positions_that_are_not_known():
    with pytest.raises(OverflowError, match="Python int 2147483648 too large to convert to int32"):
        gnp.array(2**31)
    words = "because ravel_multi_index was jit-compiled with mode='raise'. Use mode='wrap' or"
    with pytest.raises(errors.ConcretizationTypeError, match=words):
        ga.jit(lambda i: gnp.ravel_multi_index((i, i), (2, 3)))(gnp.arange(2))


@pytest.mark.parametrize("signature", [None, "(),()->()", "(n),(n)->()"])
def test_vectorize_asks_about_ranks(signature):
    f = gnp.vectorize(gnp.dot if signature and "n" in signature else gnp.add, signature=signature)
    a, b = gnp.ones((4, 2, 3)), gnp.ones((2, 3))
    with ga.numpy_rank_promotion("raise"):
        with pytest.raises(ValueError, match="rank_promotion='raise'"):
            f(a, b)
        assert f(a, a).shape == f(a, gnp.ones((1, 2, 3))).shape
    with ga.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="rank promotion"):
        f(a, b)
