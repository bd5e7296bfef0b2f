"""The names a case may use: the library under test and deterministic inputs made with it.

In: a library (`jax`, or `gpuarray` wearing the same face). Out: a dict for `eval`. Inputs depend
only on dtype, shape, kind and salt, so both libraries see the same bits and every run sees the
same data.
"""

import collections
import dataclasses
import functools
import importlib
import io
import itertools
import math
import operator
import typing
import zlib
from typing import Any

import ml_dtypes
import numpy as np

DTYPES = {
    "b1": np.dtype(np.bool_),
    "i2": np.dtype(ml_dtypes.int2),
    "i4": np.dtype(ml_dtypes.int4),
    "u4": np.dtype(ml_dtypes.uint4),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "f8": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e5": np.dtype(ml_dtypes.float8_e5m2),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
}

FLOAT_CODES = {"f8", "f8e5", "f16", "bf16", "f32", "f64"}
COMPLEX_CODES = {"c64", "c128"}


def raw(code: str, *shape: Any, kind: str = "", s: int = 0) -> np.ndarray:
    """A fresh NumPy array of dtype `code`; a single list argument holds the values themselves."""
    dtype = DTYPES[code]
    if len(shape) == 1 and not isinstance(shape[0], int):
        return np.array(shape[0]).astype(dtype)
    rng = np.random.default_rng(zlib.crc32(f"{code}{shape}{kind}{s}".encode()))
    if code in COMPLEX_CODES:
        value = _draw(rng, "f64", shape, kind) + 1j * _draw(rng, "f64", shape, kind)
        return np.asarray(value).astype(dtype)
    return np.asarray(_draw(rng, code, shape, kind)).astype(dtype)


def _draw(rng: np.random.Generator, code: str, shape: tuple[int, ...], kind: str) -> Any:
    """Values before the cast: floats for float codes, small integers for integer codes."""
    size = math.prod(shape)
    if kind == "distinct":
        return rng.permutation(size).reshape(shape) - (0 if code[0] in "ub" else size // 2)
    if code == "b1":
        return rng.random(shape) < 0.5
    if code not in FLOAT_CODES:
        low, high = {"u": (0, 8), "i": (-5, 6)}[code[0]]
        if code == "i2":
            low, high = -2, 2
        if kind in ("pos", "ge1", "index"):
            low, high = (0 if kind == "index" else 1), 4
        return rng.integers(low, high, shape)
    if kind == "pos":
        return rng.uniform(0.1, 4.0, shape)
    if kind == "unit":
        return rng.uniform(-0.95, 0.95, shape)
    if kind == "prob":
        return rng.uniform(0.05, 0.95, shape)
    if kind == "ge1":
        return rng.uniform(1.05, 5.0, shape)
    if kind == "ints":
        return rng.integers(-4, 5, shape)
    if kind == "big":
        return rng.normal(size=shape) * 50
    value = np.asarray(rng.normal(size=shape) * 1.5)
    if kind == "nan" and size:
        value.reshape(-1)[:: max(size // 3, 1)] = np.nan
    return value


def specials(code: str) -> np.ndarray:
    """Values at which implementations differ: signed zeros, infinities, NaN, extreme integers."""
    dtype = DTYPES[code]
    if code == "b1":
        return np.array([False, True])
    if code in COMPLEX_CODES:
        # Finite only: what an infinite or missing part means is not agreed on between C99 and XLA.
        parts = [0.0, -0.0, 1.0, -2.5, 1e-3, 40.0]
        return np.array([complex(a, b) for a, b in itertools.product(parts, parts)]).astype(dtype)
    if code in FLOAT_CODES:
        info = ml_dtypes.finfo(dtype)
        values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 2.0, 3.0, 10.25, -88.0, 89.0]
        values += [np.inf, -np.inf, np.nan, float(info.max), float(info.min), float(info.tiny)]
        return np.array(values).astype(dtype)
    info = ml_dtypes.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    values = [0, 1, 2, 3, 7, high, high - 1, low, low + 1, -1, -2, -7, 31, 32]
    return np.array([v for v in values if low <= v <= high]).astype(dtype)


def environment(lib: Any) -> dict[str, Any]:
    """The globals in which a case is evaluated with `lib`."""
    jnp = lib.numpy
    env: dict[str, Any] = {
        "jax": lib,
        "jnp": jnp,
        "np": np,
        "math": math,
        "io": io,
        "typing": typing,
        "operator": operator,
        "functools": functools,
        "partial": functools.partial,
        "collections": collections,
        "dataclasses": dataclasses,
        "ml_dtypes": ml_dtypes,
        "raw": raw,
        "module": lambda path: importlib.import_module(f"{lib.__name__}.{path}"),
    }
    for name in ("lax", "nn", "random", "tree_util", "tree", "dtypes", "scipy", "ops"):
        env[name] = getattr(lib, name, None)

    @functools.cache
    def cached(code: str, shape: tuple[int, ...], kind: str, s: int) -> Any:
        return jnp.asarray(raw(code, *shape, kind=kind, s=s))

    def maker(code: str) -> Any:
        def make(*shape: Any, kind: str = "", s: int = 0) -> Any:
            if len(shape) == 1 and not isinstance(shape[0], int):
                return jnp.asarray(raw(code, *shape))
            return cached(code, shape, kind, s)

        return make

    env.update({code: maker(code) for code in DTYPES})

    def cross(code: str, left: bool, count: int | None = None) -> Any:
        values = specials(code)[:count]
        if code in COMPLEX_CODES:
            values = values[::5]
        return jnp.asarray(np.repeat(values, len(values)) if left else np.tile(values, len(values)))

    def spd(code: str, n: int, batch: int = 0) -> Any:
        shape = (batch, n, n) if batch else (n, n)
        a = raw("c128" if code in COMPLEX_CODES else "f64", *shape)
        return jnp.asarray((a @ a.conj().mT + n * np.eye(n)).astype(DTYPES[code]))

    def mat(code: str, n: int, m: int | None = None, batch: int = 0, s: int = 0) -> Any:
        """A well-conditioned matrix."""
        shape = (batch, n, m or n) if batch else (n, m or n)
        a = raw("c128" if code in COMPLEX_CODES else "f64", *shape, s=s)
        return jnp.asarray((a + 3 * np.eye(n, m or n)).astype(DTYPES[code]))

    env.update(
        sp=lambda code: jnp.asarray(specials(code)),
        spx=lambda code, count=None: cross(code, True, count),
        spy=lambda code, count=None: cross(code, False, count),
        spd=spd,
        mat=mat,
        w=jnp.asarray,
        key=lambda seed=0: lib.random.key(seed),
        rawkey=lambda seed=0: lib.random.PRNGKey(seed),
        jaxpr=lambda f, *args, **kw: str(lib.make_jaxpr(f, **kw)(*args)),
        raises=_raises,
        within=_within,
        Point=collections.namedtuple("Point", "x y"),
        DTYPES=DTYPES,
        **_classes(lib),
    )
    return env


def _raises(call: Any) -> str:
    """The name of the error `call()` raises, for cases that look at what follows an error."""
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "nothing"


def _within(context: Any, call: Any) -> Any:
    """`call()` inside a context, which is left again whatever happens."""
    with context:
        return call()


def _classes(lib: Any) -> dict[str, Any]:
    """Registered pytree classes, one set for each library."""
    tree_util = getattr(lib, "tree_util", None)

    class Pair:
        """A registered container with one static field."""

        def __init__(self, a: Any, b: Any, tag: str = "t"):
            self.a, self.b, self.tag = a, b, tag

        def __repr__(self) -> str:
            return f"Pair({self.a!r}, {self.b!r}, {self.tag!r})"

    @dataclasses.dataclass
    class Record:
        """A registered dataclass."""

        x: Any
        y: Any
        name: str = dataclasses.field(default="n", metadata={"static": True})

    class Keyed:
        """A container registered with key paths."""

        def __init__(self, a: Any, b: Any):
            self.a, self.b = a, b

        def __repr__(self) -> str:
            return f"Keyed({self.a!r}, {self.b!r})"

    @dataclasses.dataclass(frozen=True)
    class Fixed:
        """Static: hashable, without leaves."""

        v: int

    try:
        tree_util.register_pytree_node(
            Pair, lambda p: ((p.a, p.b), p.tag), lambda tag, kids: Pair(*kids, tag)
        )
        tree_util.register_dataclass(Record)
        tree_util.register_pytree_with_keys(
            Keyed,
            lambda k: (((tree_util.GetAttrKey("a"), k.a), (tree_util.GetAttrKey("b"), k.b)), None),
            lambda _, kids: Keyed(*kids),
        )
        tree_util.register_static(Fixed)
    except AttributeError:  # the namespace is not there yet: its cases are listed as missing
        pass
    return {"Pair": Pair, "Record": Record, "Keyed": Keyed, "Fixed": Fixed}
