"""What every primitive is tried on: operands, parameters and where their values come from.

In: the `SAMPLES` tables of tests/samples_*.py, `{primitive name: [(operands, params, domain),
...]}`
with operands as `[(shape, dtype name), ...]`. Out: `samples()`, a list of `Sample`, and
`values(sample)`, NumPy arrays that are the same in every run.

A domain says where values come from, for all operands or as a list with one for each:
None          numbers around 0, different from one another where there are few
"any"         everything the dtype has: nan, inf, -0.0, subnormals, the ends of the integers
(low, high)   evenly from low to high
a function    (rng, shape, dtype) -> array
"""

from __future__ import annotations

import importlib
import pathlib
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.primitive import Primitive, registry
from gpuarray.primitives.random.ops import implementation, implementations

Operands = list[tuple[tuple[int, ...], str]]
Row = tuple[Operands, dict[str, Any], Any]
Table = dict[str, list[Row]]

_KEYS = {f"key<{impl.tag}>": name for name, impl in implementations.items()}


class Sample(NamedTuple):
    """One way to call a primitive."""

    primitive: Primitive
    number: int
    operands: Operands
    params: dict[str, Any]
    domain: Any

    @property
    def wide(self) -> bool:
        """Whether it needs the setting enable_x64."""
        text = f"{[d for _, d in self.operands]} {self.params}"
        return any(name in text for name in ("int64", "float64", "complex128"))

    @property
    def avals(self) -> list[ShapedArray]:
        return [ShapedArray(shape, dtype_named(name)) for shape, name in self.operands]

    def __str__(self) -> str:
        what = "-".join(f"{d}{list(s)}".replace(" ", "") for s, d in self.operands)
        return f"{self.primitive.name}.{self.number}-{what}"


def dtype_named(name: str) -> Any:
    """The dtype of this name; `key<fry>` and the like are those of random keys."""
    if name in _KEYS:
        return dtypes.KeyDtype(implementation(_KEYS[name]))
    return np.dtype(getattr(dtypes, name, name))


def tables() -> Table:
    """All rows of tests/samples_*.py, by the name of their primitive."""
    rows: Table = {}
    for path in sorted(pathlib.Path(__file__).parent.glob("samples_*.py")):
        module = importlib.import_module(f"tests.{path.stem}")
        for name, more in module.SAMPLES.items():
            rows.setdefault(name, []).extend(more)
    return rows


def samples(keep: Callable[[Primitive], bool] = lambda p: True) -> list[Sample]:
    """The samples of the primitives for which `keep` holds."""
    return [
        Sample(registry[name], number, *row)
        for name, rows in tables().items()
        if name in registry and keep(registry[name])
        for number, row in enumerate(rows)
    ]


# ---- values ----


def values(sample: Sample) -> list[np.ndarray]:
    """Operands of a sample as NumPy arrays (random keys as what stores them)."""
    rng = np.random.default_rng(zlib.crc32(str(sample).encode()))
    domain = sample.domain
    each = domain if isinstance(domain, list) else [domain] * len(sample.operands)
    return [
        np.asarray(_draw(rng, shape, dtype_named(name), d))
        for (shape, name), d in zip(sample.operands, each, strict=True)
    ]


def _draw(rng, shape, dtype, domain) -> Any:
    if callable(domain):
        return np.asarray(domain(rng, shape, dtype)).astype(dtype).reshape(shape)
    if isinstance(dtype, dtypes.KeyDtype):
        words = rng.integers(0, 2**32, (*shape, *dtype.impl.key_shape), np.uint32)
        return words.reshape(-1).view(dtype.storage).reshape(shape)
    kind = dtypes.kind_of(dtype)
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind == "c":
        part = dtypes.to_real_dtype(dtype)
        out = np.empty(shape, dtype)
        out.real, out.imag = _draw(rng, shape, part, domain), _draw(rng, shape, part, domain)
        return out
    if domain == "any":
        pool = _special(dtype)
        some = rng.integers(0, len(pool), shape)
        plain = _draw(rng, shape, dtype, None)
        return np.where(rng.random(shape) < 0.6, pool[some], plain)
    if kind in "iu":
        low, high = domain or (0 if kind == "u" else -4, 5)
        return rng.integers(low, high, shape, endpoint=True).astype(dtype)
    low, high = domain or (-2, 2)
    return rng.uniform(low, high, shape).astype(dtype)


def _special(dtype) -> np.ndarray:
    kind = dtypes.kind_of(dtype)
    if kind in "iu":
        info = dtypes.iinfo(dtype)
        pool = [int(info.min), int(info.max), 0, 1, int(info.max) - 1, int(info.min) + 1]
        return np.array(pool, np.uint64 if kind == "u" else np.int64).astype(dtype)
    info = dtypes.finfo(dtype)
    pool = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5]
    pool += [float(info.max), float(info.tiny), -float(info.tiny) / 2, float(info.eps)]
    with np.errstate(all="ignore"):
        return np.array(pool).astype(dtype)


# ---- what rows are made of ----


def scalar_graph(*primitives: str, dtype: str = "float32") -> Graph:
    """A function of scalars that folds two of them: (a, b) -> p(a, b), one pair a primitive."""
    aval = ShapedArray((), dtype_named(dtype))
    ins = [Var(aval) for _ in range(2 * len(primitives))]
    outs = [Var(aval) for _ in primitives]
    eqns = [
        Eqn(registry[name], [ins[i], ins[i + len(primitives)]], [outs[i]], {})
        for i, name in enumerate(primitives)
    ]
    return Graph(ins, outs, eqns)


def positive_definite(rng, shape, dtype):
    """Symmetric (Hermitian) matrices with eigenvalues of at least 1."""
    x = rng.normal(size=shape)
    if dtypes.kind_of(dtype) == "c":
        x = x + 1j * rng.normal(size=shape)
    return x @ np.swapaxes(x, -1, -2).conj() + np.eye(shape[-1])


def triangular(rng, shape, dtype):
    """Matrices whose triangles are far from singular: a full one with a heavy diagonal."""
    x = rng.uniform(-0.5, 0.5, shape)
    if dtypes.kind_of(dtype) == "c":
        x = x + 0.5j * rng.uniform(-0.5, 0.5, shape)
    return x + 2 * np.eye(shape[-1])


def ordered(rng, shape, dtype):
    """Values that do not fall along the last axis."""
    return np.sort(rng.integers(-9, 9, shape), axis=-1)


def distinct(rng, shape, dtype):
    """Values no two of which are equal."""
    n = int(np.prod(shape, dtype=int))
    return (rng.permutation(n) - n // 2).reshape(shape)
