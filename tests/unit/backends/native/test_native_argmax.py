"""argmax and argmin as native code: the first of equal elements, nan before all, as NumPy finds it.

In: rows and columns of every length around the number of lanes; some with nothing but the number
that a fold starts from. Out: positions.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.core.target import PROCESSOR
from tests.support import natively

natively.need_compiler()

LENGTHS = [1, 2, 15, 31, 32, 40, 63, 64, 71, 100, 200]
#: Each width and kind once; `test_native_places.py` has all dtypes, of a few lengths.
FINDS = [("argmax", "float32"), ("argmin", "float32"), ("argmin", "float64"), ("argmax", "float16")]
FINDS += [("argmax", "int8"), ("argmin", "int64"), ("argmax", "bool")]


def drawn(kind: str, shape: tuple[int, ...], rng) -> np.ndarray:
    """Few different numbers; rows of one number, the lowest and the highest among them."""
    dtype = np.dtype(kind)
    x = rng.integers(0, 3, shape).astype(dtype)
    if dtype.kind == "b":
        x[1], x[2] = False, True
        return x
    ends = [-np.inf, np.inf] if dtype.kind == "f" else [np.iinfo(dtype).min, np.iinfo(dtype).max]
    x[1], x[2], x[3] = *ends, 1
    if dtype.kind == "f":
        x[4:8] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], x[4:8].shape)
        x[8] = np.nan
    return x


@pytest.mark.parametrize("name, kind", FINDS)
def test_positions(name, kind, rng):
    xs = [drawn(kind, (12, n), rng) for n in LENGTHS]
    columns = [np.ascontiguousarray(x.T) for x in xs]
    # Behind something that is computed, with another fold beside it.
    shifted = drawn(kind, (12, 120), rng).reshape(12, 3, 40)

    def function(*xs):
        *plain, last = xs
        half = len(plain) // 2
        find = getattr(gnp, name)
        found = [find(x, axis=1) for x in plain[:half]] + [find(x, axis=0) for x in plain[half:]]
        flat = last.reshape(12, -1)
        return [*found, find(flat, axis=1), flat.max(axis=1)]

    with ga.enable_x64(True):
        program = natively.written(ga.jit(function).lower(*xs, *columns, shifted).jaxpr)
    assert not program.writer.by_host
    natively.compile_all([program])
    find = getattr(np, name)
    flat = shifted.reshape(12, -1)
    expected = [*(find(x, 1) for x in xs), *(find(x, 1) for x in xs), find(flat, 1), flat.max(1)]
    for found, wanted in zip(program(*xs, *columns, shifted), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("at", [0, 5, PROCESSOR.piece, 3 * PROCESSOR.piece + 1])
def test_rows_in_pieces(at):
    """The first of two that are equal, in whichever pieces they are."""
    n = 4 * PROCESSOR.piece + 3
    low, high, none = np.zeros((3, n), np.float32)
    low[[at, n - 1]], high[[at, n - 1]], none[[at, n - 1]] = -1, 1, np.nan
    infinite = np.full(n, -np.inf, np.float32)
    function = lambda *xs: [f(x) for x in xs for f in (gnp.argmax, gnp.argmin)]
    program = natively.written(ga.jit(function).lower(low, high, none, infinite).jaxpr)
    assert not program.writer.by_host
    natively.compile_all([program])
    found = [int(x) for x in program(low, high, none, infinite)]
    first = int(at == 0)
    assert found == [first, at, at, first, at, at, 0, 0]
