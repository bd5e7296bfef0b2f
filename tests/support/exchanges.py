"""Bodies of `shard_map` with every collective, and what they must give.

In: a mesh of one axis "x" on any platform. Out: results of each body on the devices, beside those
of `vmap(axis_name="x")` on the CPU, which is what collectives mean.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.config import config
from gpuarray.sharding import Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P
from tests.fake_cupy import installed
from tests.support.nearness import assert_near

#: How many elements each device has.
PIECE = 8


def _ring(v, n):
    return lax.ppermute(v, "x", [(i, (i + 1) % n) for i in range(n)])


def _rounded(v, dtype):
    return lax.psum(gnp.round(v).astype(dtype), "x").astype("float32")


def _tiled(v):
    return lax.all_gather(v, "x", axis=1, tiled=True).sum(0)[:4]


def _traded(v):
    return lax.all_to_all(v, "x", 1, 0, tiled=True)


def _scan(v, n):
    def step(carry, row):
        carry = lax.psum(carry, "x") / n + row
        return carry, _ring(carry, n)

    carry, rows = lax.scan(step, v, gnp.stack([v, 2 * v, 3 * v]))
    return carry + rows.sum(0)


def _while(v, n):
    def more(state):
        return lax.pmax(gnp.max(state[0]), "x") < 100

    def step(state):
        return state[0] * 2 + lax.pmean(state[0], "x"), state[1] + 1

    return lax.while_loop(more, step, (gnp.abs(v) + 1, 0))[0]


def _cond(v, n):
    positive = lax.psum(v.sum(), "x") > 0
    return lax.cond(positive, lambda u: lax.psum(u, "x") + u, lambda u: lax.pmax(u, "x"), v)


def _gradient(v, n):
    def loss(u):
        return (lax.psum(gnp.sin(u), "x") * _ring(u, n) * u).sum()

    return ga.grad(loss)(v)


def _gathers(v, n):
    """Small ones that need nothing of each other, along several axes: sent as one."""
    a = lax.all_gather(v, "x").sum(0)
    b = lax.all_gather(2 * v.reshape(2, -1), "x", axis=1, tiled=True).sum(0)[: PIECE // 2]
    c = lax.all_gather(v.sum(), "x")
    return a + gnp.tile(b, 2) + c.sum() * v


def _scatters(v, n):
    """Likewise, of sums."""
    a = lax.psum_scatter(v * gnp.arange(1.0, n + 1)[:, None], "x")
    b = lax.psum_scatter(v[:, None] * gnp.arange(2.0 * n), "x", scatter_dimension=1, tiled=True)
    return a + b[:, 0] - b[:, 1]


#: (piece of float32, number of devices) -> result, or several.
BODIES: dict[str, Callable] = {
    "psum": lambda v, n: lax.psum(v, "x") * v,
    "psum_several": lambda v, n: lax.psum((v, v.astype("int32"), v.sum()), "x")[1] + v,
    "psum_bfloat16": lambda v, n: _rounded(v, "bfloat16") + v,
    "psum_complex": lambda v, n: gnp.abs(lax.psum(v + 2j * v, "x")) + v,
    "psum_int16": lambda v, n: lax.psum(v.astype("int16"), "x") + v,
    "pmean": lambda v, n: lax.pmean(v, "x") - v,
    "pmax": lambda v, n: lax.pmax(v, "x") + v,
    "pmin_int": lambda v, n: lax.pmin(v.astype("int32"), "x") + v,
    "pmax_bool": lambda v, n: lax.pmax((v > 3).astype("bool"), "x") + v,
    "pmax_nan": lambda v, n: lax.pmax(gnp.where(v > 2.5, gnp.nan, v), "x") + v,
    "all_gather": lambda v, n: lax.all_gather(v, "x").sum(0) + v,
    "all_gather_behind": lambda v, n: lax.all_gather(v[None], "x", axis=1).sum((0, 1)) + v,
    "all_gather_tiled": lambda v, n: _tiled(v.reshape(2, -1)),
    "all_gather_bool": lambda v, n: lax.all_gather(v > 0, "x").sum(0) + v,
    "psum_scatter": lambda v, n: lax.psum_scatter(v * gnp.arange(1.0, n + 1)[:, None], "x") + v,
    "psum_scatter_tiled": lambda v, n: lax.psum_scatter(
        v[:, None] * gnp.arange(2.0 * n), "x", scatter_dimension=1, tiled=True
    ),
    "gathers_together": _gathers,
    "scatters_together": _scatters,
    "all_to_all": lambda v, n: _traded(v[:, None] + gnp.arange(2.0 * n)),
    "all_to_all_front": lambda v, n: lax.all_to_all(gnp.arange(1.0 * n)[:, None] * v, "x", 0, 0),
    "ppermute": lambda v, n: _ring(v, n) + v,
    "ppermute_holes": lambda v, n: lax.ppermute(v, "x", [(0, 1), (1, n - 1)]) + 1,
    "axis_index": lambda v, n: v * lax.axis_index("x"),
    "in_turn": lambda v, n: _ring(lax.psum(gnp.sin(_ring(v, n)), "x") + v, n) * 2,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "gradient": _gradient,
}  # fmt: skip


def operand(n: int, seed: int = 0) -> np.ndarray:
    """What the devices are given, one behind the other."""
    return np.random.default_rng(seed).uniform(-4, 4, n * PIECE).astype(np.float32)


def meant(name: str, n: int) -> np.ndarray:
    """What a body gives by `vmap` on one CPU device, results of devices one behind the other."""
    body = BODIES[name]
    with ga.default_device(ga.devices("cpu")[0]):
        x = gnp.asarray(operand(n).reshape(n, PIECE))
        out = np.asarray(ga.jit(ga.vmap(lambda v: body(v, n), axis_name="x"))(x))
    return out.reshape(-1, *out.shape[2:])


def check(name: str, mesh: Mesh) -> None:
    """Run a body on the devices of a mesh, and compare it with what it means."""
    body, n = BODIES[name], mesh.size
    f = ga.shard_map(
        lambda v: body(v, n), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False
    )
    found = np.asarray(ga.jit(f)(operand(n)))
    assert_near(found, meant(name, n), units=64)


# ---- GPUs that are not there ----
@contextlib.contextmanager
def machine(engine: str, count: int, seed: int = 0, **given):
    """GPUs of a kind, and a mesh of one axis "x" over all of them."""
    logical = engine == "logical"
    config.update("num_gpu_devices", count if logical else -1)
    try:
        with installed(seed, 1 if logical else count, nccl=engine != "copies", **given) as world:
            yield world, Mesh(np.array(ga.devices("gpu")), ("x",))
    finally:
        config.update("num_gpu_devices", -1)


def sharded(x, mesh, *spec):
    return ga.device_put(x, NamedSharding(mesh, P(*spec)))
