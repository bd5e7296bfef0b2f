"""Programs over several GPUs that are not there: with NCCL, by copies, and on logical GPUs.

In: bodies with every collective, sharded arrays. Out: what one device computes, without a fault.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends.cuda import boxes, device
from gpuarray.config import config
from gpuarray.sharding import NamedSharding
from gpuarray.sharding import PartitionSpec as P
from tests.fake_cupy import installed, runtime
from tests.support import simulated
from tests.support.exchanges import BODIES, check, machine, sharded

simulated.need_compiler()

#: By which engine, and on how many GPUs.
MACHINES = [("nccl", 4), ("copies", 4), ("logical", 4), ("nccl", 8)]


@pytest.fixture(scope="module", params=MACHINES, ids=lambda p: f"{p[0]}-{p[1]}")
def mesh(request):
    with machine(*request.param, seed=7) as (_, found):
        yield found


# ---- values ----
@pytest.mark.parametrize("name", BODIES)
def test_every_collective_is_what_vmap_says(mesh, name):
    check(name, mesh)


def test_pmap(mesh):
    n = mesh.size
    x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
    found = ga.pmap(lambda v: v / lax.psum(v, "i"), axis_name="i")(x)
    assert found.devices() == set(mesh.devices)
    np.testing.assert_allclose(np.asarray(found), x / x.sum(0), rtol=1e-6)


def test_groups_of_an_axis(mesh):
    n = mesh.size
    groups = [list(range(n // 2)), list(range(n // 2, n))]
    f = ga.shard_map(
        lambda v: lax.psum(v, "x", axis_index_groups=groups),
        mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False,
    )  # fmt: skip
    found = np.asarray(ga.jit(f)(np.arange(n, dtype=np.float32)))
    sums = np.arange(n).reshape(2, -1).sum(1)
    assert np.array_equal(found, np.repeat(sums, n // 2))


def loss(w, x):
    return (gnp.tanh(x @ w) ** 2).sum()


def test_programs_over_sharded_arrays(mesh):
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (16, 8)).astype(np.float32)
    w = rng.uniform(-1, 1, (8, 8)).astype(np.float32)
    with ga.default_device(ga.devices("cpu")[0]):
        plain = [np.asarray(v) for v in ga.jit(ga.value_and_grad(loss))(w, x)]
    for spec_w, spec_x in (((), ("x",)), (("x",), ()), ((None, "x"), ("x",))):
        value, slope = ga.jit(ga.value_and_grad(loss))(
            sharded(w, mesh, *spec_w), sharded(x, mesh, *spec_x)
        )
        np.testing.assert_allclose(np.asarray(value), plain[0], rtol=1e-4)
        np.testing.assert_allclose(np.asarray(slope), plain[1], rtol=1e-3, atol=1e-4)
    y = sharded(x, mesh, "x")
    assert np.allclose(np.asarray((y * 2 + 1).sum(0)), (x * 2 + 1).sum(0), atol=1e-4)


# ---- arrays ----
LAYOUTS = [(), ("x",), (None, "x"), (None, None, "x")]


@pytest.mark.parametrize("new", LAYOUTS)
@pytest.mark.parametrize("old", LAYOUTS)
def test_arrays_move_between_layouts_without_the_host(mesh, old, new, monkeypatch):
    x = np.arange(8 * 16 * 8, dtype=np.float32).reshape(8, 16, 8)
    a = sharded(x, mesh, *old)
    with monkeypatch.context() as patch:
        patch.setattr(device, "Download", None)
        patch.setattr(device.Gpu, "upload", None)
        b = ga.device_put(a, NamedSharding(mesh, P(*new)))
        one = ga.device_put(b, mesh.devices[-1])
    assert np.array_equal(np.asarray(b), x) and np.array_equal(np.asarray(one), x)
    for shard in b.addressable_shards:
        assert np.array_equal(np.asarray(shard.data), x[shard.index])
        assert shard.data._buffer().gpu.index == shard.device.id


def test_arrays_of_pieces(mesh):
    n = mesh.size
    x = np.arange(6.0 * n, dtype=np.float32).reshape(2 * n, 3)
    layout = NamedSharding(mesh, P("x"))
    made = ga.make_array_from_callback(x.shape, layout, lambda index: x[index])
    pieces = [s.data for s in made.addressable_shards]
    again = ga.make_array_from_single_device_arrays(x.shape, layout, pieces[::-1])
    assert [b.pointer for b in again._bufs] == [b.pointer for b in made._bufs]
    assert np.array_equal(np.asarray(again + 1), x + 1)
    host = ga.device_put(made, ga.devices("cpu")[0])
    assert np.array_equal(np.asarray(host), x) and host.device.platform == "cpu"


def test_donated_pieces_are_written_over(mesh):
    x = sharded(np.arange(4096, dtype=np.float32), mesh, "x")
    before = [b.pointer for b in x._buffers()]
    y = ga.jit(lambda v: v * 2 + 1, donate_argnums=0)(x)
    assert x.is_deleted() and [b.pointer for b in y._buffers()] == before
    assert np.array_equal(np.asarray(y), np.arange(4096) * 2 + 1)


# ---- one of several GPUs ----
def test_a_chosen_gpu_is_not_the_current_one_of_threads():
    """Programs, loops, transfers and library calls on the second GPU alone."""
    try:
        with installed(seed=3, devices=2):
            config.update("jax_cuda_visible_devices", "1")  # no GPU is in use yet
            x = np.arange(400, dtype=np.float32).reshape(20, 20) % 5

            def f(x):
                c = lax.fori_loop(0, 20, lambda i, c: (c + c.sum()) % 7, x)
                return gnp.sort(c @ c.T % 11, axis=0), lax.cumsum(x, axis=1)

            for _ in range(3):
                found = ga.jit(f)(ga.device_put(x))
                assert {b.gpu.ordinal for v in found for b in v._buffers()} == {1}
            c = x
            for _ in range(20):
                c = (c + c.sum()) % 7
            assert np.array_equal(np.asarray(found[0]), np.sort(c @ c.T % 11, axis=0))
            assert np.array_equal(np.asarray(found[1]), np.cumsum(x, 1))
            del found
    finally:
        config.update("jax_cuda_visible_devices", "all")


def test_rows_that_lie_too_far_apart_are_copied_one_by_one(fake_gpu, monkeypatch):
    """CUDA copies rows of a box in one call if they are less than 2 GB apart."""
    for module, name in ((boxes, "_PITCH"), (runtime, "PITCH")):
        monkeypatch.setattr(module, name, 100)
    x = np.arange(40 * 50, dtype=np.float32).reshape(40, 50)
    (gpu,) = device.gpus()
    found = boxes.part(gpu.upload(x), (3, 4), (30, 20))
    assert np.array_equal(np.asarray(found), x[3:33, 4:24])
