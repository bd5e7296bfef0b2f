"""What `explain` says that library steps, loops and branches start on a GPU.

In: programs whose steps are no kernels alone. Out: launches as `ga.explain(..., platform="cuda")`
says, without a GPU, against the count of what the stand-in for CuPy was asked for.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.ops import segment_sum
from tests.fake_cupy import installed
from tests.fake_cupy.world import World
from tests.support import simulated

simulated.need_compiler()

RANDOM = np.random.default_rng(0)


def normal(*lengths: int) -> np.ndarray:
    return RANDOM.standard_normal(lengths).astype(np.float32)


def definite(*lengths: int) -> np.ndarray:
    """Symmetric positive definite matrices."""
    a = normal(*lengths)
    return a @ a.swapaxes(-1, -2) + 4 * np.eye(lengths[-1], dtype=np.float32)


def convolved(x, w):
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)


def recurrent(x, w):
    return lax.scan(lambda h, _: (gnp.tanh(h @ w), h.sum()), x, None, length=7)


def powers(x):
    """Sixteen turns, which is what is guessed of a loop whose length nobody knows."""
    going = lambda state: state[0] < 16
    return lax.while_loop(going, lambda state: (state[0] + 1, state[1] @ state[1]), (0, x))


def written(x, i, v):
    return x.at[i].set(v, unique_indices=True)


PLACES = np.arange(10)
PROGRAMS = {
    "product": (lambda a, b: a @ b, normal(32, 32), normal(32, 32)),
    "product, bias, GELU": (
        lambda a, b, c: nn.gelu(a @ b + c),
        normal(32, 32),
        normal(32, 32),
        normal(32),
    ),
    "product of 8 bits": (
        lambda a, b: lax.dot(a, b, preferred_element_type=np.int32),
        *(normal(32, 64).astype(np.int8), normal(64, 32).astype(np.int8)),
    ),
    "convolution": (convolved, normal(2, 8, 8, 16), normal(1, 2, 16, 16)),
    "convolution, uneven padding": (convolved, normal(2, 8, 8, 16), normal(2, 2, 16, 16)),
    "convolution backwards": (
        ga.grad(lambda x, w: convolved(x, w).sum(), (0, 1)),
        *(normal(2, 8, 8, 16), normal(3, 3, 16, 16)),
    ),
    "sort": (gnp.sort, normal(5000)),
    "argsort": (gnp.argsort, normal(5000)),
    "sort of rows": (lambda x: gnp.sort(x, 1), normal(4, 3000)),
    "sort by two keys": (lambda x, y: lax.sort((x, y), num_keys=2), normal(3000), normal(3000)),
    "largest of long rows": (lambda x: lax.top_k(x, 3), normal(4, 3000)),
    "transform": (gnp.fft.fft, normal(4, 300)),
    "cholesky": (gnp.linalg.cholesky, definite(40, 40)),
    "cholesky, stacked": (gnp.linalg.cholesky, definite(5, 40, 40)),
    "solve": (gnp.linalg.solve, definite(40, 40), normal(40)),
    "solve, stacked": (gnp.linalg.solve, definite(5, 40, 40), normal(5, 40, 1)),
    "eigenvalues, stacked": (gnp.linalg.eigh, definite(3, 20, 20)),
    "scan with stacked results": (recurrent, normal(8, 16), normal(16, 16)),
    "scan of rows": (
        lambda x, w: lax.scan(lambda h, row: (gnp.tanh(h @ w) + row, None), x, w),
        *(normal(16, 16), normal(16, 16)),
    ),
    "while": (powers, normal(8, 8) / 10),
    "branch": (lambda x: lax.cond(x[0, 0] > 0, lambda x: x @ x, lambda x: x, x), definite(8, 8)),
    "update of a copy": (written, normal(100_000), PLACES, normal(10)),
    "two updates, one copy": (
        lambda x, i, v: written(written(x, i, v), i + 10, v),
        *(normal(100_000), PLACES, normal(10)),
    ),
    "sums of segments": (
        lambda x, i: segment_sum(x, i, 100),
        *(normal(10_000), RANDOM.integers(0, 100, 10_000)),
    ),
}
#: What a GPU is asked for, by the labels of the stand-in.
WORK = (
    "kernel ", "copy of ", "library call ", "matrix product", "product with", "convolution ",
)  # fmt: skip
#: Of that what costs nothing: views, and arrays that are contiguous already.
FREE = ("library call <lambda>", "library call ascontiguousarray")


@pytest.fixture
def asked(monkeypatch):
    """The labels of all work that was asked for."""
    found: list[str] = []
    put = World.put

    def noted(self, queue, label, *args, **kwargs):
        found.append(label)
        return put(self, queue, label, *args, **kwargs)

    monkeypatch.setattr(World, "put", noted)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_launches_are_those_that_the_library_is_asked_for(name, asked):
    function, *arguments = PROGRAMS[name]
    # What graphs replay is counted one by one.
    ga.config.update("cuda_graphs", False)
    with installed(seed=0):
        said = ga.explain(function, platform="cuda")(*arguments)
        jitted = ga.jit(function)
        inputs = [ga.device_put(x, ga.devices("gpu")[0]) for x in arguments]
        ga.block_until_ready(jitted(*inputs))
        asked.clear()
        ga.block_until_ready(jitted(*inputs))
        made = [x for x in asked if x.startswith(WORK) and x not in FREE]
        del jitted, inputs
    assert said.launches == len(made), f"{said}\n{made}"
