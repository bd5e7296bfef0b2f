"""cuBLASLt in the stand-in: products that lie columns first, with epilogues.

In: what the C functions take. Out: NumPy's results, as work of the stream given; statuses as the
library documents them for what it has no code for, and faults for what no caller may do.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from tests.fake_cupy.c_library import CLibrary, Wrong
from tests.fake_cupy.libraries import _turned
from tests.fake_cupy.memory import use_of, view
from tests.fake_cupy.world import world

INVALID, INTERNAL, UNSUPPORTED = 7, 14, 15
library = CLibrary("cuBLASLt", INTERNAL)

TYPES = {
    0: np.float32, 2: np.float16, 3: np.int8, 10: np.int32, 14: ml_dtypes.bfloat16,
    28: ml_dtypes.float8_e4m3fn, 29: ml_dtypes.float8_e5m2,
}  # fmt: skip
#: Bytes of each attribute's value.
_OF_PRODUCT = {3: 4, 4: 4, 7: 4, 8: 8, 26: 4}
_OF_LAYOUT = {5: 4, 6: 8}
_OF_PREFERENCE = {1: 8, 5: 4, 6: 4, 7: 4, 8: 4}
_EPILOGUES = {1: (0, 0), 2: (2, 0), 4: (0, 1), 6: (2, 1), 32: (32, 0), 36: (32, 1)}
#: A workspace that the larger products want.
WORKSPACE = 1 << 12


@dataclass
class Handle:
    device: int


@dataclass
class Product:
    compute: int
    scale: int
    values: dict = field(default_factory=lambda: {3: 0, 4: 0, 7: 1})


@dataclass
class Layout:
    type: int
    rows: int
    columns: int
    lead: int
    values: dict = field(default_factory=lambda: {5: 1, 6: 0})

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(TYPES[self.type])

    def use(self, address: int, writes: bool):
        """What work at an address touches, and a function that gives it as an array."""
        batch, step = self.values[5], self.values[6]
        size = (batch - 1) * step + (self.columns - 1) * self.lead + self.rows
        dtype = self.dtype
        strides = tuple(s * dtype.itemsize for s in (step, 1, self.lead))
        shape = (batch, self.rows, self.columns)
        nbytes = size * dtype.itemsize
        array = np.ndarray(shape, dtype, view(address, nbytes).data, 0, strides)
        return use_of(address, nbytes, writes), array


@dataclass
class Preference:
    values: dict = field(default_factory=lambda: {1: 0, 5: 256, 6: 256, 7: 256, 8: 256})


@library.function(c_void_p)
def cublasLtCreate(out):
    library.make(out, Handle(world.thread.device))


@library.function(c_void_p)
def cublasLtDestroy(handle):
    library.destroy(handle, Handle)


@library.function(c_void_p, c_int, c_int)
def cublasLtMatmulDescCreate(out, compute, scale):
    if (compute, scale) not in ((68, 0), (77, 0), (72, 10)):
        raise Wrong(INVALID)
    library.make(out, Product(compute, scale))


@library.function(c_void_p, c_int, c_uint64, c_uint64, c_int64)
def cublasLtMatrixLayoutCreate(out, type, rows, columns, lead):
    if type not in TYPES or not rows or not columns or lead < rows:
        raise Wrong(INVALID)
    library.make(out, Layout(type, rows, columns, lead))


@library.function(c_void_p)
def cublasLtMatmulPreferenceCreate(out):
    library.make(out, Preference())


@library.function(c_void_p)
def cublasLtMatmulDescDestroy(made):
    library.destroy(made, Product)


@library.function(c_void_p)
def cublasLtMatrixLayoutDestroy(made):
    library.destroy(made, Layout)


@library.function(c_void_p)
def cublasLtMatmulPreferenceDestroy(made):
    library.destroy(made, Preference)


def _set(made, kind, sizes, attribute, at, size):
    thing = library.find(made, kind)
    if sizes.get(attribute) != size:
        raise Wrong(INVALID)
    thing.values[attribute] = int.from_bytes(ctypes.string_at(at, size), "little")


@library.function(c_void_p, c_int, c_void_p, c_size_t)
def cublasLtMatmulDescSetAttribute(made, attribute, at, size):
    _set(made, Product, _OF_PRODUCT, attribute, at, size)


@library.function(c_void_p, c_int, c_void_p, c_size_t)
def cublasLtMatrixLayoutSetAttribute(made, attribute, at, size):
    _set(made, Layout, _OF_LAYOUT, attribute, at, size)


@library.function(c_void_p, c_int, c_void_p, c_size_t)
def cublasLtMatmulPreferenceSetAttribute(made, attribute, at, size):
    _set(made, Preference, _OF_PREFERENCE, attribute, at, size)


def _check(product: Product, a: Layout, b: Layout, c: Layout, d: Layout) -> None:
    """Raise for what does not fit, or what the library has no code for."""
    values = product.values
    m, k = (a.columns, a.rows) if values[3] else (a.rows, a.columns)
    k2, n = (b.columns, b.rows) if values[4] else (b.rows, b.columns)
    batches = {x.values[5] for x in (a, b, c, d)}
    if (d.rows, d.columns, k) != (m, n, k2) or len(batches) != 1 or c != d:
        raise Wrong(INVALID)
    if batches != {1} and any(x.values[6] < x.rows * x.columns for x in (c, d)):
        raise Wrong(INVALID)
    activation, bias = _EPILOGUES.get(values[7], (None, None))
    if activation is None or (bias and values.get(26) != d.type):
        raise Wrong(UNSUPPORTED)
    types = a.type, b.type, d.type
    if 3 in types or {28, 29} & {*types}:
        # Rows of both operands lie along the sum, and begin at multiples of 16 bytes.
        wanted = (72, (3, 3, 10)) if 3 in types else (68, None)
        right = wanted[1] is None or (types == wanted[1] and values[7] == 1)
        floats = wanted[1] is not None or (
            {a.type, b.type} <= {28, 29} and 28 in (a.type, b.type) and d.type in (0, 2, 14)
        )
        turned = values[3] and not values[4]
        wide = not any(x.lead * x.dtype.itemsize % 16 for x in (a, b, d))
        if not (right and floats and turned and wide and product.compute == wanted[0]):
            raise Wrong(UNSUPPORTED)
        return
    same = a.type == b.type and d.type in (a.type, 0)
    if not same or product.compute == 72 or (product.compute == 77 and a.type):
        raise Wrong(UNSUPPORTED)


@library.function(*(c_void_p,) * 7, c_int, c_void_p, c_void_p)
def cublasLtMatmulAlgoGetHeuristic(handle, product, a, b, c, d, preference, many, results, count):
    library.find(handle, Handle)
    product = library.find(product, Product)
    layouts = [library.find(x, Layout) for x in (a, b, c, d)]
    wanted = library.find(preference, Preference)
    if _EPILOGUES.get(product.values[7], (0, 0))[1] and not product.values.get(8):
        world.fault("cuBLASLt is asked for an algorithm with a bias, and not told of one")
    ctypes.c_int.from_address(count).value = 0
    if many < 1:
        raise Wrong(INVALID)
    _check(product, *layouts)
    aligned = max(wanted.values[k] for k in (5, 6, 7, 8))
    if aligned > 16:
        world.fault(f"cuBLASLt may expect addresses aligned to {aligned} bytes")
    d = layouts[3]
    size = WORKSPACE if d.rows * d.columns >= 64 else 0
    size = size if size <= wanted.values[1] else 0
    # The algorithm, 64 bytes, of which the first tell what it is for.
    ctypes.memset(results, 0, 96)
    ctypes.c_uint64.from_address(results).value = _number(product, layouts)
    ctypes.c_size_t.from_address(results + 64).value = size
    ctypes.c_int.from_address(count).value = 1


def _number(product: Product, layouts: list[Layout]) -> int:
    """A number of what an algorithm was made for."""
    values = {k: v for k, v in product.values.items() if k != 8}
    return hash((product.compute, str(values), str(layouts))) & 0xFFFFFFFF | 1 << 40


@library.function(*(c_void_p,) * 14, c_size_t, c_void_p)
def cublasLtMatmul(
    handle, product, alpha, A, a, B, b, beta, C, c, D, d, algorithm, space, size, stream
):
    world.count("library")
    handle = library.find(handle, Handle)
    product = library.find(product, Product)
    a, b, c, d = (library.find(x, Layout) for x in (a, b, c, d))
    _check(product, a, b, c, d)
    if handle.device != world.thread.device:
        raise ValueError(f"the handle is of device {handle.device}")
    if ctypes.c_uint64.from_address(algorithm).value != _number(product, [a, b, c, d]):
        raise ValueError("the algorithm is for another product")
    if size != ctypes.c_size_t.from_address(algorithm + 64).value or (size and not space):
        raise ValueError(f"a workspace of {size} bytes at {space}")
    scale = np.dtype(TYPES[product.scale])
    factors = [np.frombuffer(ctypes.string_at(p, scale.itemsize), scale)[0] for p in (alpha, beta)]
    if factors not in ([1, 0], [1, 1]) or (C == D) == bool(factors[1]):
        raise ValueError(f"alpha and beta are {factors}, C and D {C} and {D}")
    if world.idle:
        return
    with world.lock:
        uses, (left, right, out) = [], [None] * 3
        (use_a, left), (use_b, right), (use_d, out) = (
            x.use(p, w) for x, p, w in ((a, A, False), (b, B, False), (d, D, True))
        )
        uses += [use_a, use_b, use_d]
        activation, biased = _EPILOGUES[product.values[7]]
        bias = None
        if biased:
            at, nbytes = product.values[8], d.rows * d.dtype.itemsize
            uses.append(use_of(at, nbytes, False))
            bias = view(at, nbytes).view(d.dtype)
        added = None
        if factors[1]:
            use, added = c.use(C, False)
            uses.append(use)
        if size:
            uses.append(use_of(space, size, True))
        turns = product.values[3], product.values[4]
        coarse = product.compute == 77

        def run() -> None:
            x, y = (
                _turned(v.astype(scale), t, coarse)
                for v, t in zip((left, right), turns, strict=True)
            )
            with np.errstate(all="ignore"):
                made = np.matmul(x, y)
                if added is not None:
                    made = made + added.astype(scale)
                if bias is not None:
                    made = made + bias.astype(scale)[:, None]
                if activation == 2:
                    made = np.maximum(made, 0)
                if activation == 32:
                    inner = np.sqrt(np.float32(2 / np.pi)) * (made + 0.044715 * made**3)
                    made = made / 2 * (1 + np.tanh(inner))
                out[...] = made.astype(d.dtype)

        world.put(world.find(stream), "product with an epilogue", run, uses)
