"""Making arrays: from values, ranges, grids, special matrices, files; and the scalar types.

In: values NumPy takes. Out: the arrays NumPy makes, in the default dtypes here.
"""

import pickle
import warnings

import ml_dtypes
import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.core.graph import params_key


def same(got, want, rtol=1e-6, atol=1e-6):
    want = np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    "value, dtype, weak",
    [
        (3, "int32", True),
        (3.5, "float32", True),
        (1j, "complex64", True),
        (True, "bool", False),
        ([1, 2], "int32", False),
        ([1, 2.5], "float32", False),
        ([True, 2], "int32", False),
        ([[1, 2], [3, 4.0]], "float32", False),
        ((1, (2, 3)[0]), "int32", False),
        ([], "float32", False),
        ([[], []], "float32", False),
        (range(3), "int32", False),
        (np.arange(3), "int32", False),
        (np.float64(2), "float32", False),
        ([np.float16(1), 2.5], "float16", False),
        ([np.int8(1), np.uint8(2)], "int16", False),
        (np.ones(2, ml_dtypes.bfloat16), "bfloat16", False),
        (bytearray(b"ab"), "uint8", False),
        (memoryview(b"ab"), "uint8", False),
    ],
    ids=str,
)
def test_asarray(value, dtype, weak):
    out = gnp.asarray(value)
    assert (out.dtype.name, out.weak_type) == (dtype, weak)
    want = (
        np.asarray(list(value)) if isinstance(value, (bytearray, memoryview)) else np.asarray(value)
    )
    same(out.astype("complex64"), want.astype(complex))


def test_arrays_in_lists():
    x = gnp.arange(3.0)
    same(gnp.array([x, x + 1]), [[0, 1, 2], [1, 2, 3]])
    same(gnp.array([x[0], 1, 2.5]), [0, 1, 2.5])
    same(gnp.array([[x[2], 1], [0, x[1]]]), [[2, 1], [0, 1]])
    assert gnp.array([x[0], 1]).dtype == np.float32
    assert ga.jit(lambda a: gnp.array([a, 2 * a]))(x).shape == (2, 3)
    with pytest.raises(TypeError, match="different numbers of dimensions"):
        gnp.array([x, 1.0])


def test_copies():
    x = gnp.arange(3.0)
    assert gnp.asarray(x) is x and gnp.array(x) is not x
    assert gnp.array(x, copy=False) is x and gnp.asarray(x, "float32") is x
    assert gnp.asarray(x, copy=True) is not x
    given = np.zeros(3, np.float32)
    taken = gnp.asarray(given)
    given[0] = 1
    assert taken.tolist() == [0, 0, 0]
    assert gnp.array(3, ndmin=2).shape == (1, 1)
    with pytest.warns(DeprecationWarning, match="copy, order, and ndmin"):
        assert gnp.array(x, None, False) is x
    with pytest.warns(DeprecationWarning, match="copy, order, and ndmin"):
        assert gnp.array(3, None, True, ndmin=2).shape == (1, 1)
    with pytest.raises(TypeError, match="multiple values for argument 'copy'"):
        gnp.array(x, None, True, copy=False)
    with pytest.raises(TypeError, match="at most 5 positional arguments but 6"):
        gnp.array(x, None, True, "K", 0, 1)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="NumPy did not ask")
def test_an_array_for_a_dtype_is_deprecated():
    with pytest.warns(DeprecationWarning, match="Implicit conversion of an array to a dtype"):
        assert np.dtype(gnp.arange(3)) == np.int32


@pytest.mark.parametrize(
    "value, error, message",
    [
        ("a", TypeError, "is not a valid JAX array type"),
        (["a"], TypeError, "is not a valid JAX array type"),
        (b"a", TypeError, "is not a valid JAX array type"),
        (object(), TypeError, "is not a valid JAX array type"),
        ({1: 2}, TypeError, "is not a valid JAX array type"),
        (None, ValueError, "None is not a valid value for jnp.array"),
        ([1, None], ValueError, "None is not a valid value for jnp.array"),
        ([[1, 2], [3]], ValueError, "inhomogeneous"),
        (2**40, OverflowError, "out of bounds|too large"),
        ([2**31], OverflowError, "out of bounds"),
    ],
    ids=str,
)
def test_what_is_no_array(value, error, message):
    with pytest.raises(error, match=message):
        gnp.asarray(value)


def test_integers_must_fit_their_dtype():
    for dtype in ("uint8", "int4"):
        with pytest.raises(OverflowError):
            gnp.array(300, dtype=dtype)
    assert gnp.array([1.9, -1.9], dtype=int).tolist() == [1, -1]
    with pytest.raises(NotImplementedError, match="order='K'"):
        gnp.array(1, order="F")


def test_constants():
    same(gnp.zeros((2, 3)), np.zeros((2, 3)))
    same(gnp.ones(3, int), [1, 1, 1])
    assert gnp.full(2, 3).weak_type and not gnp.full(2, 3, float).weak_type
    same(gnp.full((2, 3), gnp.arange(3)), [[0, 1, 2]] * 2)
    x = gnp.ones((2, 2), "int8")
    assert gnp.zeros_like(x).dtype == np.int8 and gnp.ones_like(x, float).dtype == np.float32
    assert gnp.full_like(x, 2.7).tolist() == [[2, 2], [2, 2]]
    assert gnp.zeros_like(3).weak_type and gnp.empty_like(x, shape=3).shape == (3,)
    assert gnp.zeros_like(ga.ShapeDtypeStruct((4,), "float32")).shape == (4,)
    assert gnp.empty((2, 0)).shape == (2, 0)
    for bad in (2.5, (2, "a"), None, gnp.ones(2)):
        with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete values"):
            gnp.zeros(bad)
    with pytest.raises(TypeError, match="zeros_like requires ndarray or scalar"):
        gnp.zeros_like([1])


RANGES = [(5,), (5.0,), (2.5,), (-3,), (2, 7), (0.5, 3), (0, 1, 0.25), (5, 0, -2), (0, 10, 3.0)]


@pytest.mark.parametrize("args", [*RANGES, (7, 2), (0, 0)], ids=str)
def test_arange(args):
    same(gnp.arange(*args), np.arange(*args))
    assert (
        gnp.arange(*args).dtype == np.float32 if any(type(a) is float for a in args) else np.int32
    )


def test_more_of_arange():
    assert gnp.arange(3, dtype="int8").dtype == np.int8
    assert gnp.arange(np.int16(3)).dtype == np.int16
    assert gnp.arange(4, step=2).tolist() == [0, 2]
    assert gnp.arange(0, 5, dtype=complex).dtype == np.complex64
    assert "iota" in str(ga.make_jaxpr(lambda: gnp.arange(1_000_000))())
    for bad, error in (
        ("a", TypeError),
        (1j, ValueError),
        (gnp.ones(2), ValueError),
        (True, TypeError),
    ):
        with pytest.raises(error):
            gnp.arange(bad)
    with pytest.raises(ga.errors.ConcretizationTypeError, match="jnp.arange argument 'stop'"):
        ga.jit(gnp.arange)(3)


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 2, 7])
def test_spaces(num, endpoint):
    for start, stop in ((0, 1), (-2.5, 3), (1, 1j), (np.array([0.0, 1.0]), 10)):
        want = np.linspace(start, stop, num, endpoint)
        same(gnp.linspace(start, stop, num, endpoint), want, rtol=1e-5)
    want = np.logspace(0, 3, num, endpoint, base=2)
    same(gnp.logspace(0, 3, num, endpoint, base=2), want, rtol=1e-5)
    for start, stop in ((1, 1000), (-2, -8)):
        want = np.geomspace(start, stop, num, endpoint)
        same(gnp.geomspace(start, stop, num, endpoint), want, rtol=1e-4)


def test_more_of_spaces():
    out, step = gnp.linspace(0, 1, 5, retstep=True)
    assert step == 0.25 and out[-1] == 1
    assert gnp.linspace(-5, 3, 4, dtype=int).tolist() == [-5, -3, 0, 3]
    assert gnp.linspace(gnp.zeros(2), 1, 3, axis=1).shape == (2, 3)
    assert gnp.linspace(0.1, 0.3, 50)[-1] == np.float32(0.3)  # the end itself, not a sum of steps
    with pytest.raises(ValueError, match="must be non-negative"):
        gnp.linspace(0, 1, -1)


def test_grids():
    x, y = np.arange(3.0), np.arange(2)
    for options in ({}, {"indexing": "ij"}, {"sparse": True}, {"indexing": "ij", "sparse": True}):
        for got, want in zip(
            gnp.meshgrid(x, y, **options), np.meshgrid(x, y, **options), strict=True
        ):
            same(got, want)
    assert gnp.meshgrid() == []
    same(gnp.mgrid[:2, 1:3], np.mgrid[:2, 1:3])
    same(gnp.mgrid[0:1:5j], np.mgrid[0:1:5j])
    for got, want in zip(gnp.ogrid[:2, 0:1:3j], np.ogrid[:2, 0:1:3j], strict=True):
        same(got, want)
    with pytest.raises(ValueError, match="Valid values for indexing"):
        gnp.meshgrid(x, indexing="a")
    with pytest.raises(ValueError, match="must be 1D"):
        gnp.meshgrid(np.ones((2, 2)))


@pytest.mark.parametrize("k", [-3, -1, 0, 1, 2])
def test_matrices(k):
    m = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    same(gnp.eye(3, 4, k), np.eye(3, 4, k))
    same(gnp.tri(3, 4, k), np.tri(3, 4, k))
    for name in ("tril", "triu"):
        same(getattr(gnp, name)(gnp.asarray(m), k), getattr(np, name)(m, k))
        batch = np.stack([m, m + 1])
        same(getattr(gnp, name)(gnp.asarray(batch), k), getattr(np, name)(batch, k))
    same(gnp.diag(gnp.arange(3), k), np.diag(np.arange(3), k))
    same(gnp.diag(gnp.asarray(m), k), np.diag(m, k))
    same(gnp.diagflat(gnp.asarray(m), k), np.diagflat(m, k))


def test_more_of_matrices():
    same(gnp.identity(2, int), np.identity(2))
    for options in ({}, {"N": 2}, {"increasing": True}, {"N": 5, "increasing": True}):
        same(gnp.vander(gnp.array([1, 2, 3]), **options), np.vander([1, 2, 3], **options))
    with pytest.raises(ValueError, match="must be at least 2D"):
        gnp.tril(gnp.ones(3))
    with pytest.raises(ValueError, match="negative dimensions"):
        gnp.eye(-1)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
def test_windows(name):
    for m in (-1, 0, 1, 2, 5, 12):
        same(getattr(gnp, name)(m), getattr(np, name)(m), atol=2e-6)
    same(gnp.kaiser(6, 3.5), np.kaiser(6, 3.5), atol=2e-6)


def test_buffers_functions_and_files(tmp_path):
    same(gnp.frombuffer(b"\x01\x00\x02\x00", "int16"), [1, 2])
    same(gnp.frombuffer(b"abcd", "uint8", count=2, offset=1), [98, 99])
    same(gnp.fromstring("1, 2.5", sep=","), [1, 2.5])
    same(gnp.fromfunction(lambda i, j: i - j, (2, 3)), np.fromfunction(lambda i, j: i - j, (2, 3)))
    same(gnp.fromfunction(lambda i, j: gnp.float32(7), (2, 3)), np.full((2, 3), 7))
    for function in (gnp.fromfile, gnp.fromiter):
        with pytest.raises(NotImplementedError, match="may be non-pure"):
            function("x")
    gnp.save(tmp_path / "x.npy", gnp.arange(3))
    assert gnp.load(tmp_path / "x.npy").tolist() == [0, 1, 2]
    gnp.savez(tmp_path / "x.npz", gnp.ones(2), b=gnp.zeros(1))
    with gnp.load(tmp_path / "x.npz") as archive:
        assert archive["arr_0"].tolist() == [1, 1] and archive["b"].tolist() == [0]
    np.save(tmp_path / "pickled.npy", np.array({"w": 1}, object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        gnp.load(tmp_path / "pickled.npy")
    assert gnp.load(tmp_path / "pickled.npy", allow_pickle=True).item() == {"w": 1}
    assert type(gnp.load(tmp_path / "x.npy", allow_pickle=True)) is type(gnp.arange(3))


def test_astype():
    x = gnp.array([1.7, -1.7, 1e10, np.nan])
    info = np.iinfo(np.int32)
    assert x.astype(int).tolist() == [1, -1, info.max, 0]
    assert x.astype(None).dtype == np.float32 and x.astype("float32") is x
    assert gnp.astype(x, x.dtype, copy=True) is not x
    assert gnp.asarray(3).astype("int32").weak_type is False
    z = gnp.array([1j, 0, 2])
    assert z.astype(bool).tolist() == [True, False, True]
    with pytest.warns(np.exceptions.ComplexWarning):
        assert z.astype(float).tolist() == [0, 0, 2]


# ---- scalar types ----


def test_scalar_types_make_arrays_and_stand_for_dtypes():
    assert repr(gnp.float32(3)) == "Array(3., dtype=float32)"
    assert gnp.int8([1, 2]).dtype == np.int8 and gnp.bool_(2).tolist() is True
    assert np.dtype(gnp.float32) == np.float32 and gnp.dtype(gnp.bfloat16) == ml_dtypes.bfloat16
    assert gnp.float32 == np.float32 and np.float32 == gnp.float32 and gnp.float32 != np.float64
    assert {np.float32: 1}[gnp.float32] == 1
    assert gnp.float32 == np.dtype("float32") and gnp.float32 != "float32"
    assert gnp.zeros(2, gnp.float16).dtype == np.float16
    assert isinstance(np.float32(1), gnp.float32) and not isinstance(1.0, gnp.float32)
    assert gnp.single is gnp.float32 and gnp.int_ is gnp.int64 and gnp.double is gnp.float64
    assert pickle.loads(pickle.dumps(gnp.bfloat16)) is gnp.bfloat16
    assert repr(gnp.float32) == "<class 'gpuarray.numpy.float32'>"
    with pytest.raises(OverflowError):
        gnp.int8(300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="float64"):
            gnp.float64(1)


def test_questions_about_dtypes():
    assert gnp.issubdtype(gnp.bfloat16, gnp.floating) and not gnp.issubdtype(gnp.int8, gnp.inexact)
    assert gnp.promote_types(gnp.int8, gnp.uint8) == np.int16
    assert gnp.result_type(gnp.float16(1), 2.5) == np.float16
    assert gnp.finfo(gnp.bfloat16).bits == 16 and gnp.iinfo(gnp.uint8).max == 255
    assert gnp.can_cast(gnp.int8, gnp.int16) and not gnp.can_cast(gnp.ones(1), gnp.int8)
    assert gnp.iscomplexobj(1j) and gnp.isrealobj(gnp.ones(1))
    assert [gnp.isscalar(v) for v in (1, "a", np.array(1), gnp.array(1), [1], gnp.ones(1))] == [
        *[True] * 4,
        *[False] * 2,
    ]
    with pytest.raises(ValueError, match="not inexact"):
        gnp.finfo(int)


@pytest.mark.parametrize("name", ["eps", "max", "min", "tiny", "smallest_normal"])
def test_limits_of_float32_are_numpys_scalars_and_pythons(name):
    limit, plain = getattr(gnp.finfo("float32"), name), getattr(np.finfo("float32"), name)
    assert isinstance(limit, float) and isinstance(limit, np.float32)
    assert repr(limit) == repr(plain) and limit.dtype == np.float32 and limit == plain
    assert pickle.loads(pickle.dumps(limit)) == plain
    # It promotes as NumPy's scalar does: a Python float would give way.
    narrow = gnp.ones(2, "bfloat16")
    assert gnp.result_type(limit, "bfloat16") == (narrow * limit).dtype == np.float32
    assert gnp.where(True, narrow, limit).dtype == np.float32
    with ga.enable_x64(True):
        assert gnp.asarray(limit).dtype == gnp.full(2, limit).dtype == np.float32
    assert not ga.jit(lambda x: x)(limit).weak_type
    assert params_key({"limit": limit}) != params_key({"limit": float(limit)})


def test_the_limits_of_float32():
    found = gnp.finfo(gnp.complex64)
    assert repr(found) == repr(np.finfo(np.float32)) and isinstance(found, np.finfo)
    assert found.bits == 32 and found.dtype == np.float32
    assert gnp.finfo(gnp.ones(2)) is found


def test_text():
    x = gnp.array([1.0, 2.5])
    assert gnp.array_repr(x) == repr(x) and gnp.array_str(x) == "[1.  2.5]"
    with gnp.printoptions(precision=1):
        assert repr(gnp.array([1.26])) == "Array([1.3], dtype=float32)"


def test_fromfunction_maps_over_places():
    i, j = gnp.fromfunction(lambda i, j: (i, j), (2, 3))
    assert i.shape == j.shape == (2, 3)
    assert gnp.fromfunction(lambda i: gnp.arange(2) * i, (3,), dtype=int).tolist()[2] == [0, 2]
    assert gnp.fromfunction(lambda i, k: i + k, (2,), k=gnp.array([5.0, 6.0])).tolist() == [5, 7]
    assert gnp.fromfunction(lambda: 1, ()) == 1
    with pytest.raises(ga.errors.TracerBoolConversionError):
        gnp.fromfunction(lambda i: i if i > 0 else -i, (2,))


def test_load_gives_back_bfloat16_and_leaves_text(tmp_path):
    gnp.save(tmp_path / "half.npy", gnp.array([1.5, 2], "bfloat16"))
    got = gnp.load(tmp_path / "half.npy")
    assert (got.dtype, got.tolist()) == (ml_dtypes.bfloat16, [1.5, 2])
    gnp.save(tmp_path / "eighth.npy", gnp.ones(2, "float8_e4m3fn"))
    with pytest.raises(TypeError, match=r"1 bytes and no type.*\.view\('float8_e4m3fn'\)"):
        gnp.load(tmp_path / "eighth.npy")
    np.save(tmp_path / "text.npy", np.array(["a"]))
    assert isinstance(gnp.load(tmp_path / "text.npy"), np.ndarray)


def test_positions_are_of_arrays():
    for function in (gnp.tril_indices_from, gnp.triu_indices_from):
        with pytest.raises(TypeError, match=function.__name__):
            function([[1, 2], [3, 4]])


def test_what_has_a_place_of_its_own_is_not_weak():
    here = ga.devices()[0]
    assert gnp.full((2,), 1.0).weak_type
    assert not gnp.full((2,), 1.0, device=here).weak_type
    assert not gnp.zeros_like(2.0, device=here).weak_type
    assert not ga.lax.full((2,), 1, sharding=ga.sharding.SingleDeviceSharding(here)).weak_type


def test_none_in_a_tree_of_devices_is_any_device():
    a, (b, c) = ga.device_put((gnp.ones(2), (1.0, 2)), (ga.devices()[0], None))
    assert (a.committed, b.committed, c.committed) == (True, False, False)
    with pytest.raises(ValueError, match="may_alias and donate"):
        ga.device_put(gnp.ones(2), donate=True, may_alias=True)


def test_a_range_from_zero_is_an_iota_alone():
    names = lambda *args: [
        e.primitive.name for e in ga.make_jaxpr(lambda: gnp.arange(*args))().eqns
    ]
    assert names(5) == names(0, 5) == ["iota"] and names(1, 5) == ["iota", "add"]
    for args in ((0, 5), (0.0, 2.5), (0, 5, 2), (-1, 2)):
        np.testing.assert_array_equal(gnp.arange(*args), np.arange(*args))
