"""The dtypes, their names and canonical forms, and the promotion table."""

import enum
import itertools
import pickle
import warnings

import ml_dtypes
import numpy as np
import pytest

from gpuarray.config import config, enable_x64, numpy_dtype_promotion, state
from gpuarray.core import dtypes, lattice, promotion
from gpuarray.core.promotion import TypePromotionError, promote2, result_type

ALL = {n: dtypes.BY_NAME[n] for n in lattice.NODES if "*" not in n}

# What every pair becomes with x64 on; i*, f*, c* are Python numbers (weak).
TABLE = """
     bool  u8    u16   u32   u64   i8    i16   i32   i64   bf16  f16   f32   f64   c64   c128  i*    f*    c*
bool bool  u8    u16   u32   u64   i8    i16   i32   i64   bf16  f16   f32   f64   c64   c128  i*    f*    c*
u8   u8    u8    u16   u32   u64   i16   i16   i32   i64   bf16  f16   f32   f64   c64   c128  u8    f*    c*
u16  u16   u16   u16   u32   u64   i32   i32   i32   i64   bf16  f16   f32   f64   c64   c128  u16   f*    c*
u32  u32   u32   u32   u32   u64   i64   i64   i64   i64   bf16  f16   f32   f64   c64   c128  u32   f*    c*
u64  u64   u64   u64   u64   u64   f*    f*    f*    f*    bf16  f16   f32   f64   c64   c128  u64   f*    c*
i8   i8    i16   i32   i64   f*    i8    i16   i32   i64   bf16  f16   f32   f64   c64   c128  i8    f*    c*
i16  i16   i16   i32   i64   f*    i16   i16   i32   i64   bf16  f16   f32   f64   c64   c128  i16   f*    c*
i32  i32   i32   i32   i64   f*    i32   i32   i32   i64   bf16  f16   f32   f64   c64   c128  i32   f*    c*
i64  i64   i64   i64   i64   f*    i64   i64   i64   i64   bf16  f16   f32   f64   c64   c128  i64   f*    c*
bf16 bf16  bf16  bf16  bf16  bf16  bf16  bf16  bf16  bf16  bf16  f32   f32   f64   c64   c128  bf16  bf16  c64
f16  f16   f16   f16   f16   f16   f16   f16   f16   f16   f32   f16   f32   f64   c64   c128  f16   f16   c64
f32  f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f64   c64   c128  f32   f32   c64
f64  f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   c128  c128  f64   f64   c128
c64  c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c128  c64   c128  c64   c64   c64
c128 c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128
i*   i*    u8    u16   u32   u64   i8    i16   i32   i64   bf16  f16   f32   f64   c64   c128  i*    f*    c*
f*   f*    f*    f*    f*    f*    f*    f*    f*    f*    bf16  f16   f32   f64   c64   c128  f*    f*    c*
c*   c*    c*    c*    c*    c*    c*    c*    c*    c*    c64   c64   c64   c128  c64   c128  c*    c*    c*
"""  # noqa: E501
WEAK = {"i*": dtypes.int64, "f*": dtypes.float64, "c*": dtypes.complex128}


def _typed(short):
    if short in WEAK:
        return WEAK[short], True
    return next(d for d in ALL.values() if dtypes.short_name(d) == short), False


def _rows():
    head, *lines = TABLE.strip("\n").splitlines()
    columns = head.split()
    for line in lines:
        row, *cells = line.split()
        yield from ((row, column, cell) for column, cell in zip(columns, cells, strict=True))


def test_promotion_table():
    with enable_x64(True):
        for row, column, cell in _rows():
            assert promote2(*_typed(row), *_typed(column)) == _typed(cell), (row, column)


def test_promotion_table_in_32_bits():
    """Without x64 the answer is the table's, made 32-bit."""
    for row, column, cell in _rows():
        if any(name in ("i64", "u64", "f64", "c128") for name in (row, column)):
            continue
        narrow = [(dtypes.canonicalize_dtype(d), w) for d, w in map(_typed, (row, column, cell))]
        assert promote2(*narrow[0], *narrow[1]) == narrow[2], (row, column)


def test_promotion_is_a_join():
    """Order never matters: commutative and associative, errors included."""

    def join(*nodes):
        return None if None in nodes else lattice.least_upper_bound(frozenset(nodes))

    nodes = ["bool", "int*", "uint8", "int8", "uint32", "int64", "uint64", "float*", "bfloat16"]
    nodes += ["float16", "float64", "complex*", "complex64", "int4", "float8_e5m2"]
    for a, b, c in itertools.product(nodes, repeat=3):
        once = lattice.least_upper_bound(frozenset((a, b, c)))
        assert join(join(a, b), c) == join(a, join(b, c)) == once
    for a in lattice.NODES:
        assert lattice.least_upper_bound(frozenset((a,))) == a


@pytest.mark.parametrize("small", lattice.SMALL_FLOATS)
def test_small_floats_do_not_mix(small):
    d = ALL[small]
    assert promote2(d, False, dtypes.int32, False) == (d, False)
    assert promote2(d, False, dtypes.float32, True) == (d, False)
    for other in (dtypes.float32, dtypes.bfloat16, dtypes.complex64, dtypes.int4):
        with pytest.raises(TypePromotionError, match="no available implicit dtype promotion path"):
            promote2(d, False, other, False)


@pytest.mark.parametrize("small", lattice.SMALL_INTS)
def test_small_ints_do_not_mix(small):
    d = ALL[small]
    assert promote2(d, False, dtypes.bool_, False) == (d, False)
    assert promote2(d, False, dtypes.int32, True) == (d, False)
    for other in (dtypes.int8, dtypes.float32):
        with pytest.raises(TypePromotionError, match="integers of 4 bits and less do not mix"):
            promote2(d, False, other, False)


@pytest.mark.parametrize(
    "a, b, expected",
    [
        # among weak values widths still count
        (("int8", True), ("int8", True), ("int8", True)),
        (("int8", True), ("uint8", True), ("int16", True)),
        (("float16", True), ("int32", True), ("float16", True)),
        (("float16", True), ("bfloat16", True), ("float32", True)),
        # next to a strong value only their kind does
        (("int8", True), ("bool", False), ("int32", True)),
        (("float16", True), ("int32", False), ("float32", True)),
        (("float32", True), ("float16", False), ("float16", False)),
        (("float16", True), ("float16", False), ("float16", False)),
        (("bool", True), ("bool", True), ("bool", False)),
        (("bool", True), ("int8", True), ("int8", True)),
    ],
)
def test_weak_types(a, b, expected):
    (da, wa), (db, wb) = (ALL[a[0]], a[1]), (ALL[b[0]], b[1])
    assert promote2(da, wa, db, wb) == promote2(db, wb, da, wa) == (ALL[expected[0]], expected[1])


def test_strict_promotion():
    with numpy_dtype_promotion("strict"):
        assert result_type(np.ones(2, np.float32), 1, 2.0) == dtypes.float32
        assert result_type(1, 1.0, return_weak_type_flag=True) == (dtypes.float32, True)
        for bad in [(np.float32(1), np.int32(1)), (True, 1), (np.int32(1), 1.0)]:
            with pytest.raises(TypePromotionError, match="jax_numpy_dtype_promotion=strict"):
                result_type(*bad)
    assert result_type(np.float32(1), np.int32(1)) == dtypes.float32


def test_memos_follow_the_settings():
    pair = (dtypes.int32, False, dtypes.float32, True)
    assert promote2(*pair) == (dtypes.float32, True)
    with enable_x64(True):
        assert promote2(*pair) == (dtypes.float64, True)
        assert dtypes.canonicalize_dtype(float) == dtypes.float64
    with numpy_dtype_promotion("strict"), pytest.raises(TypePromotionError):
        promote2(*pair)
    assert promote2(*pair) == (dtypes.float32, True)
    assert pair in state.trace_key.promotions


def test_result_type_arguments():
    assert result_type(np.int8(1), 300, np.uint8(1)) == dtypes.int16
    assert result_type(None) == dtypes.float32
    assert result_type(float, return_weak_type_flag=True) == (dtypes.float32, True)
    assert result_type(True, return_weak_type_flag=True) == (dtypes.bool_, False)
    assert result_type("bfloat16", 1.5) == dtypes.bfloat16
    with pytest.raises(ValueError, match="at least one array or dtype is required"):
        result_type()
    with pytest.raises(TypeError, match=r"Cannot determine dtype of \[1, 2\]"):
        result_type([1, 2])
    with pytest.raises(TypeError, match="is not a valid JAX type"):
        result_type(np.array(["a"]))
    with pytest.raises(ValueError, match="not a valid dtype for type promotion"):
        result_type(np.zeros(1, dtypes.float0), 1.0)


def test_result_type_of_things_with_avals():
    class Value:
        class aval:
            dtype, weak_type = dtypes.float32, True

    assert dtypes.is_weakly_typed(Value())
    assert promotion.dtype_and_weak(Value()) == (dtypes.float32, True)
    assert result_type(Value(), np.float16(1)) == dtypes.float16


def test_promote_types():
    assert promotion.promote_types(int, float) == np.float64
    assert promotion.promote_types("float32", float) == dtypes.float32
    assert promotion.promote_types("uint32", "int32") == dtypes.int32
    with enable_x64(True):
        assert promotion.promote_types("uint32", "int32") == dtypes.int64
    with pytest.raises(TypeError, match="Cannot interpret"):
        promotion.promote_types(dtypes.KeyDtype(_Impl), "int32")
    with pytest.raises(ValueError, match="not a valid dtype"):
        promotion.promote_types("float32", object)


# -- canonical forms and arguments


def test_canonicalize():
    narrow = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}
    for name, d in ALL.items():
        assert dtypes.canonicalize_dtype(d) == ALL[narrow.get(name, name)]
        assert dtypes.canonicalize_dtype(name) == ALL[narrow.get(name, name)]
        with enable_x64(True):
            assert dtypes.canonicalize_dtype(d) == d
    with pytest.raises(ValueError, match="extended dtype key<fry>"):
        dtypes.canonicalize_dtype(dtypes.KeyDtype(_Impl))
    with pytest.raises(TypeError, match="foo"):
        dtypes.canonicalize_dtype("foo")


def test_defaults():
    kinds = (dtypes.default_int, dtypes.default_uint, dtypes.default_float, dtypes.default_complex)
    assert [f().name for f in kinds] == ["int32", "uint32", "float32", "complex64"]
    with enable_x64(True):
        assert [f().name for f in kinds] == ["int64", "uint64", "float64", "complex128"]
        assert dtypes.python_scalar_dtypes_now() == dtypes.python_scalar_dtypes


def test_default_dtype_bits():
    try:
        config.update("jax_default_dtype_bits", "32")
        with enable_x64(True):
            assert dtypes.canonicalize_dtype(float) == dtypes.float32
            assert dtypes.canonicalize_dtype("float64") == dtypes.float64
            assert promote2(dtypes.int32, False, dtypes.float32, True) == (dtypes.float32, True)
    finally:
        config.update("jax_default_dtype_bits", "64")


def test_user_dtype_truncation_warns():
    for given in ("float64", np.float64, dtypes.float64, np.dtype("f8")):
        with pytest.warns(
            UserWarning, match="Explicitly requested dtype float64 requested in f is"
        ):
            assert dtypes.check_user_dtype(given, "f") == dtypes.float32
    with pytest.warns(UserWarning, match="dtype int64 is not available"):
        dtypes.check_user_dtype("int64")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dtypes.check_user_dtype(int, "f") == dtypes.int32
        with enable_x64(True):
            assert dtypes.check_user_dtype("float64", "f") == dtypes.float64


def test_explicit_64_bit_types_as_the_setting_says():
    assert config.read("explicit_x64_dtypes") == "warn"
    try:
        config.update("jax_explicit_x64_dtypes", "error")
        with pytest.raises(ValueError, match="float64 requested in f is not available.*'allow'"):
            dtypes.check_user_dtype("float64", "f")
        config.update("jax_explicit_x64_dtypes", "allow")
        assert dtypes.check_user_dtype("float64", "f") == dtypes.float64
        assert dtypes.check_user_dtype(float, "f") == dtypes.float32
        assert dtypes.canonicalize_dtype("float64") == dtypes.float32
    finally:
        config.update("jax_explicit_x64_dtypes", "warn")
    with pytest.raises(ValueError, match="explicit_x64_dtypes"):
        config.update("jax_explicit_x64_dtypes", "perhaps")


def test_user_dtype_errors():
    for bad in (object, str, "M8[s]", [("a", "f4")], ">f4", np.longdouble, np.void):
        with pytest.raises(TypeError, match="only supports number and bool dtypes.* in zeros"):
            dtypes.check_user_dtype(bad, "zeros")
    for bad in ("foo", 3, np.floating, np.ones(2)):
        with pytest.raises(TypeError):
            dtypes.check_user_dtype(bad, "zeros")
    with pytest.raises(ValueError, match="dtype must be specified in zeros"):
        dtypes.check_user_dtype(None, "zeros")

    class Array:
        aval, dtype, shape = None, dtypes.float32, ()

    with pytest.raises(ValueError, match="Passing an array as a dtype argument"):
        dtypes.check_user_dtype(Array(), "zeros")


def test_scalar_constructor_objects():
    class f16:  # shaped as gpuarray.numpy.float16 is
        dtype = dtypes.float16

    assert dtypes.check_user_dtype(f16, "zeros") == dtypes.float16
    assert dtypes.issubdtype(f16, np.floating) and dtypes.isdtype(f16, f16)
    assert promotion.promote_types(f16, f16) == dtypes.float16


def test_dtype_of_values():
    class Colour(enum.IntEnum):
        RED = 1

    class Metre(float):
        pass

    assert dtypes.dtype(Colour.RED) == dtypes.int32
    assert dtypes.dtype(Metre(2)) == dtypes.float32
    assert dtypes.dtype(np.float64(1)) == dtypes.float32
    assert dtypes.dtype(2**80) == dtypes.int32
    with pytest.raises(ValueError, match="Invalid argument to dtype: None"):
        dtypes.dtype(None)
    assert dtypes.scalar_type_of(dtypes.bfloat16) is float
    with pytest.raises(TypeError, match="Invalid scalar value"):
        dtypes.scalar_type_of(np.zeros(1, dtypes.float0))


# -- questions


def test_short_names():
    expected = "bool i1 i2 i4 u1 u2 u4 u8 u16 u32 u64 i8 i16 i32 i64 f8_e3m4 f8_e4m3 "
    expected += "f8_e4m3b11fnuz f8_e4m3fn f8_e4m3fnuz f8_e5m2 f8_e5m2fnuz f8_e8m0fnu f6_e2m3fn "
    expected += "f6_e3m2fn f4_e2m1fn f16 bf16 f32 f64 c64 c128"
    assert " ".join(dtypes.short_name(d) for d in ALL.values()) == expected
    assert dtypes.short_name(dtypes.float0) == "float0"
    assert dtypes.short_name(dtypes.KeyDtype(_Impl)) == "key<fry>"


@pytest.mark.parametrize("name", ALL)
def test_kinds(name):
    d = ALL[name]
    kind = "f" if name == "bfloat16" else name[0]
    assert dtypes.kind_of(d) == kind
    abstract = {
        "b": np.bool_,
        "i": np.signedinteger,
        "u": np.unsignedinteger,
        "f": np.floating,
        "c": np.complexfloating,
    }
    assert [k for k, t in abstract.items() if dtypes.issubdtype(d, t)] == [kind]
    assert dtypes.issubdtype(d, np.number) == (kind != "b")
    assert dtypes.issubdtype(d, np.generic) and not dtypes.issubdtype(d, dtypes.extended)
    assert dtypes.issubdtype(d, name) and dtypes.isdtype(d, name)
    assert dtypes.isdtype(d, "numeric") == (kind != "b")
    assert dtypes.isdtype(d, ("integral", "real floating")) == (kind in "iuf")
    assert dtypes.scalar_type_of(np.zeros(2, d)).__name__.startswith(kind.replace("u", "i"))
    bits = int("".join(c for c in name.split("_")[0] if c.isdigit()) or 8)
    assert dtypes.itemsize_bits(d) == bits
    if kind in "iu":
        assert dtypes.iinfo(d).bits == bits
    if kind == "f":
        assert dtypes.finfo(d).dtype == d
        overflowed = float(np.array(np.inf).astype(d)) if dtypes.supports_inf(d) else np.inf
        assert overflowed == np.inf


def test_isdtype_errors():
    with pytest.raises(ValueError, match="Unrecognized kind='foo' expected one of"):
        dtypes.isdtype("float32", ("real floating", "foo"))
    with pytest.raises(
        TypeError, match="Expected kind to be a dtype, string, or tuple; got kind=1"
    ):
        dtypes.isdtype("float32", 1)
    with pytest.raises(TypeError, match="Cannot interpret"):
        dtypes.issubdtype(1, np.floating)


def test_neighbours():
    with enable_x64(True):
        for name, d in ALL.items():
            inexact = dtypes.to_inexact_dtype(d)
            assert dtypes.kind_of(inexact) in "fc"
            assert (inexact == d) == (dtypes.kind_of(d) in "fc")
            assert dtypes.kind_of(dtypes.to_floating_dtype(d)) == "f"
            wide = name in ("int64", "uint64", "float64", "complex128")
            assert dtypes.to_complex_dtype(d) == (dtypes.complex128 if wide else dtypes.complex64)
    assert dtypes.to_inexact_dtype(dtypes.float0) == dtypes.float0
    with pytest.raises(ValueError, match="not inexact"):
        dtypes.to_floating_dtype(dtypes.float0)


# -- keys


class _Impl:
    tag = "fry"
    key_shape = (2,)


class _Other(_Impl):
    tag = "rbg"
    key_shape = (4,)


def test_key_dtype():
    key = dtypes.KeyDtype(_Impl)
    assert str(key) == repr(key) == key.name == "key<fry>"
    assert key.itemsize == 8 and dtypes.KeyDtype(_Other).itemsize == 16
    assert key == dtypes.KeyDtype(_Impl) != dtypes.KeyDtype(_Other)
    assert hash(key) == hash(dtypes.KeyDtype(_Impl))
    assert pickle.loads(pickle.dumps(key)) == key
    assert dtypes.issubdtype(key, dtypes.prng_key) and dtypes.issubdtype(key, dtypes.extended)
    assert dtypes.issubdtype(key, np.generic) and not dtypes.issubdtype(key, np.number)
    assert dtypes.canonicalize_dtype(key, allow_extended_dtype=True) is key
    assert dtypes.check_user_dtype(key, "zeros") is key
    assert result_type(key, key) == key
    assert dtypes.kind_of(key) == "k"
    with pytest.raises(ValueError, match="not a valid dtype for type promotion"):
        result_type(key, 1)
    with pytest.raises(AttributeError):
        key.impl = _Other


def test_scalar_types_come_from_ml_dtypes():
    assert dtypes.bfloat16 == np.dtype(ml_dtypes.bfloat16)
    assert set(ALL) <= set(dir(dtypes)) | {"bool"}
