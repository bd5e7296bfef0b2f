"""What calls cost beside their kernels: copies that hold nothing up, memory of scalars, launches.

In: programs on the stand-in for CuPy, which counts, or does nothing. Out: nobody waits without
need, and a pool without fragments of ours.
"""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.backends.cuda.device import SCALARS, gpus
from tests.fake_cupy import installed, streams
from tests.support import simulated

if "cuda" in os.environ.get("GPUARRAY_PLATFORMS", ""):
    pytest.skip("CuPy itself, with a GPU, is in use here", allow_module_level=True)
simulated.need_compiler()

V = np.arange(64, dtype=np.float32)


def test_later_work_does_not_wait_for_a_copy_to_the_host(fake_gpu, monkeypatch):
    waiting = []
    honest = streams.Stream.wait_event
    monkeypatch.setattr(
        streams.Stream,
        "wait_event",
        lambda self, event: (waiting.append(self.ptr), honest(self, event))[1],
    )
    (gpu,) = gpus()
    fake_gpu.eager = 0.0  # nothing runs before somebody waits
    x = ga.device_put(V) * 2
    x.copy_to_host_async()
    y = x + 1
    y.block_until_ready()
    assert gpu.downloads.ptr in waiting and gpu.stream.ptr not in waiting
    assert np.array_equal(x, V * 2) and np.array_equal(y, V * 2 + 1)
    del x, y


def test_memory_that_is_read_is_not_handed_out(fake_gpu):
    """In 200 orders of execution; the machine's clocks see who writes where a copy still reads."""
    f = ga.jit(lambda x: x * 3 + 1, donate_argnums=0)
    for seed in range(200):
        fake_gpu.reseed(seed)
        x = ga.device_put(V + seed)
        x.copy_to_host_async()
        if seed % 2:
            y = f(x)  # donated: written elsewhere, or after the copy
        else:
            del x
            y = ga.device_put(V + seed) * 3 + 1  # its memory may be wanted
        assert np.array_equal(y, (V + seed) * 3 + 1)
        assert not fake_gpu.faults, f"seed {seed}: {fake_gpu.faults[0]}"
        x = y = None
    assert len(gpus()[0]._reads) <= 2


def test_scalars_that_are_kept_share_a_piece_of_memory(fake_gpu):
    (gpu,) = gpus()
    before = fake_gpu.counts["allocation"]
    kept = [gpu.upload(np.float32(i)) for i in range(SCALARS - 1)]
    assert fake_gpu.counts["allocation"] - before <= 2
    assert gpu.upload(np.float32(3)) is kept[3]
    again = [gpu.upload(np.float64(i)) for i in range(8)]  # another piece
    for i, b in [*enumerate(kept)][::97]:
        assert float(np.asarray(b)) == i
    for i, b in enumerate(again):
        assert float(np.asarray(b)) == i
    # One in the list of a program's operands is never written over.
    f = ga.jit(lambda x: x + 1, donate_argnums=0)
    one = gnp.float32(5)
    f(ga.device_put(one))
    assert float(np.asarray(gpu.upload(np.float32(5)))) == 5
    del kept, again, b, one


def test_the_pool_says_how_many_blocks_it_keeps(fake_gpu):
    x = [ga.device_put(V + i) for i in range(5)]
    for a in x:
        a.block_until_ready()
    before = ga.memory_stats("cuda")
    assert before["bytes_in_use"] > 0 and before["peak_bytes_in_use"] >= before["bytes_in_use"]
    del x, a
    after = ga.memory_stats("cuda")
    assert after["blocks_kept"] >= before["blocks_kept"] + 4
    assert after["bytes_kept"] > before["bytes_kept"]


def chain(x):
    for i in range(130):
        x = (x - x.sum(i % 2, keepdims=True)) % 7
        x = (x + x.max(1 - i % 2, keepdims=True)) % 11
    return x


def test_a_hundred_launches_cost_little_more_than_one():
    """Host time of calls whose launches do nothing; a ratio, since machines differ."""
    with installed(idle=True) as world:

        def microseconds(f, *args) -> float:
            for _ in range(5):
                f(*args)
            found = []
            for _ in range(7):
                started = time.thread_time()
                for _ in range(200):
                    f(*args)
                found.append((time.thread_time() - started) / 200 * 1e6)
            return min(found)

        def measure() -> tuple[float, float, float]:
            x = ga.device_put(np.ones((64, 64), np.float32))
            one, many = ga.jit(lambda x: x * 2 + 1), ga.jit(chain)
            took = microseconds(one, x), microseconds(many, x)
            before = world.counts["graph"]
            many(x)
            assert world.counts["graph"] == before + 1
            ga.config.update("cuda_graphs", False)
            try:
                return *took, microseconds(many, x)
            finally:
                ga.config.update("cuda_graphs", True)

        one, many, singly = measure()
        assert many < 4 * one, f"{one:.1f} us for one kernel, {many:.1f} for a graph of 131"
        assert many < singly, f"{many:.1f} us as a graph, {singly:.1f} one by one"
