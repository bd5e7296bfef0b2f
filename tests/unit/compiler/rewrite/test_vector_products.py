"""Products of vectors on GPUs: a matrix that is computed is never in memory.

In: weights kept in few bits, one query against a cache of keys. Out: launches and bytes, and the
values of the simulator against those of NumPy, for whole numbers, whose sums are exact.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from tests.golden import shape
from tests.support import simulated

simulated.need_compiler()


def whole(*lengths: int, dtype: str = "float32", least: int = -4, most: int = 5) -> np.ndarray:
    return np.random.default_rng(lengths).integers(least, most, lengths).astype(dtype)


def four_bits(x, q, scale):
    """Two weights in a byte, a scale for each 32."""
    w = gnp.stack([q & 15, q >> 4], -1).reshape(q.shape[0], -1, 32).astype("float32") - 8
    return (w * scale[..., None]).reshape(q.shape[0], -1) @ x


def halves(x, w):
    """Rounded once, as by a library."""
    return gnp.einsum("i,io->o", x.astype("bfloat16"), w.astype("bfloat16") * 2)


def one_query(q, k, v, at):
    """Attention of one query for each head, over the keys so far."""
    scores = gnp.einsum("hd,thd->ht", q, k)
    weights = nn.softmax(gnp.where(gnp.arange(k.shape[0]) < at, scores, -1e30), -1)
    return gnp.einsum("ht,thd->hd", weights, v)


PROGRAMS = {
    "8 bits": (
        lambda x, w, s: (w.astype("float32") @ x) * s,
        (whole(96), whole(40, 96, dtype="int8"), whole(40)),
        1,
    ),
    "4 bits": (
        four_bits,
        (whole(64), whole(40, 32, dtype="uint8", least=0, most=256), whole(40, 2)),
        1,
    ),
    "from the left": (
        lambda x, w: x @ (w.astype("float32") - 1), (whole(40), whole(40, 9, dtype="int8")), 1,
    ),
    "a row": (lambda x, w: x[None] @ (w * 2.0).T, (whole(40), whole(9, 40)), 1),
    "halves": (halves, (whole(40), whole(40, 9)), 1),
    "many": (lambda q, k: gnp.einsum("hd,thd->ht", q, k), (whole(3, 40), whole(9, 3, 40)), 1),
    "many, halves": (
        lambda q, k: gnp.einsum("hd,thd->ht", q.astype("bfloat16"), k.astype("bfloat16")),
        (whole(3, 40), whole(9, 3, 40)),
        1,
    ),
    "in memory": (lambda x, w: w @ x, (whole(40), whole(9, 40)), 1),
    "in memory, from the left": (lambda x, w: x @ w, (whole(40), whole(40, 9)), 1),
    "16 bits along rows": (
        lambda x, w: w.astype("bfloat16") @ x.astype("bfloat16"), (whole(40), whole(9, 40)), 1,
    ),
    "colours": (lambda x, w: x @ w, (whole(5, 7, 3), whole(3)), 1),
    "many short rows": (lambda x, w: x @ w, (whole(300, 3), whole(3, 5)), 1),
    "many short columns": (lambda x, w: w @ x.T, (whole(300, 3), whole(5, 3)), 1),
    "pairs": (lambda a, b: gnp.einsum("nd,nd->n", a, b), (whole(9, 40), whole(9, 40)), 1),
}  # fmt: skip


def test_values():
    simulated.compare([(f, xs) for f, xs, _ in PROGRAMS.values()])
    query = whole(3, 16), whole(9, 3, 16), whole(9, 3, 16), np.int32(7)
    simulated.compare([(one_query, query)], limit=32)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_library(name):
    function, arguments, launches = PROGRAMS[name]
    found = ga.explain(function, platform="cuda")(*arguments)
    assert not found.library_calls and found.launches == launches


def test_weights_are_read_as_they_lie():
    given = shape("float32", 4096), shape("uint8", 4096, 2048), shape("float32", 4096, 128)
    found = ga.explain(four_bits, platform="cuda")(*given)
    assert found.bytes_moved < 1.01 * (4096 * 2048 + 4 * 4096 * 128)


@pytest.mark.parametrize(
    "product",
    [
        lambda a, b: (a * 2) @ b,
        lambda a, b: a[:, :4] @ b[:4],
        lambda a, b: a[0].astype("bfloat16") @ lax.optimization_barrier(b.astype("bfloat16")),
    ],
)
def test_others_stay_with_the_library(product):
    matrix = shape("float32", 512, 512)
    assert ga.explain(product, platform="cuda")(matrix, matrix).library_calls
