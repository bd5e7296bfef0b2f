"""The names of `cupy.cuda.runtime` in the stand-in.

In: numbers, as CUDA's own calls take them. Out: work on the machine's queues (world.py).
"""

from __future__ import annotations

import ctypes

import numpy as np

from tests.fake_cupy.errors import CUDARuntimeError
from tests.fake_cupy.memory import Block, block_at, pinned_at, use_of, view
from tests.fake_cupy.world import world

memcpyHostToHost, memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice, memcpyDefault = (
    range(5)
)
streamCaptureModeGlobal, streamCaptureModeThreadLocal, streamCaptureModeRelaxed = range(3)


def getDeviceCount() -> int:
    if world.devices == 0:
        raise CUDARuntimeError(100)
    return world.devices


def getDevice() -> int:
    return world.thread.device


def setDevice(device: int) -> None:
    if not 0 <= device < world.devices:
        raise CUDARuntimeError(101)
    world.thread.device = device


#: Shared memory of a block that asks for it.
SHARED = 232448


def getDeviceProperties(device: int) -> dict:
    """Those of a Hopper GPU, as far as programs ask for them."""
    if not 0 <= device < world.devices:
        raise CUDARuntimeError(101)
    return {
        "name": b"Stand-in GPU",
        "totalGlobalMem": world.memory,
        "sharedMemPerBlock": 49152,
        "sharedMemPerBlockOptin": SHARED,
        "sharedMemPerMultiprocessor": 233472,
        "regsPerBlock": 65536,
        "regsPerMultiprocessor": 65536,
        "warpSize": 32,
        "maxThreadsPerBlock": 1024,
        "maxThreadsDim": (1024, 1024, 64),
        "maxGridSize": (2147483647, 65535, 65535),
        "maxThreadsPerMultiProcessor": 2048,
        "multiProcessorCount": 132,
        "clockRate": 1785000,
        "memoryClockRate": 2619000,
        "memoryBusWidth": 5120,
        "l2CacheSize": 52428800,
        "major": 9,
        "minor": 0,
        "unifiedAddressing": 1,
    }


def deviceCanAccessPeer(device: int, peerDevice: int) -> int:
    return int(device != peerDevice)


def deviceSynchronize() -> None:
    world.finish(world.thread.device)


def streamSynchronize(stream: int) -> None:
    queue = world.find(stream)
    world.wait(queue.last, queue.device)


def memGetInfo() -> tuple[int, int]:
    return world.memory - world.taken[world.thread.device], world.memory


def runtimeGetVersion() -> int:
    return 13000


def driverGetVersion() -> int:
    return 13000


def memcpyAsync(dst: int, src: int, size: int, kind: int, stream: int) -> None:
    """A copy of bytes; pageable host memory is read, or waited for, at once, as CUDA does."""
    world.count("copy")
    if world.idle or size == 0:
        return
    with world.lock:
        if kind == memcpyDefault:  # the addresses say it
            from_device, to_device = block_at(src) is not None, block_at(dst) is not None
        elif kind in (memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice):
            from_device, to_device = kind != memcpyHostToDevice, kind != memcpyDeviceToHost
        else:
            raise CUDARuntimeError(1)
        source, uses = _side(src, size, from_device, False)
        target, more = _side(dst, size, to_device, True)
        queue = world.find(stream)
        world.report(queue.device)
        if source is None:
            source = np.frombuffer(ctypes.string_at(src, size), np.uint8)
        paged = target is None
        if target is None:
            target = np.frombuffer((ctypes.c_uint8 * size).from_address(dst), np.uint8)
            if queue.captured is not None:
                raise CUDARuntimeError(900)

        def run() -> None:
            target[...] = source

        work = world.put(queue, f"copy of {size} bytes", run, [*uses, *more])
        if work is not None and not work.done and not from_device:
            work.source = source
        if paged:
            world.wait(work, queue.device)


#: How far apart rows may lie.
PITCH = (1 << 31) - 1


def memcpy2DAsync(
    dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, stream: int
) -> None:
    """A copy of rows of bytes that do not touch, between places on devices."""
    world.count("copy")
    if world.idle or width == 0 or height == 0:
        return
    with world.lock:
        if kind not in (memcpyDeviceToDevice, memcpyDefault) or width > min(dpitch, spitch):
            raise CUDARuntimeError(1)
        if max(dpitch, spitch) > PITCH:
            raise CUDARuntimeError(12)
        sides = []
        uses = []
        for address, pitch, writes in ((src, spitch, False), (dst, dpitch, True)):
            size = (height - 1) * pitch + width
            uses.append(use_of(address, size, writes))
            flat = view(address, size)
            sides.append([flat[i * pitch : i * pitch + width] for i in range(height)])
        queue = world.find(stream)
        world.report(queue.device)

        def run() -> None:
            for source, target in zip(*sides, strict=True):
                target[...] = source

        world.put(queue, f"copy of {height} rows of {width} bytes", run, uses)


def _side(address: int, size: int, on_device: bool, writes: bool):
    """One side of a copy as bytes (None: memory that nobody watches) and its use."""
    if on_device:
        use = use_of(address, size, writes)
        return view(address, size), [use]
    block: Block | None = pinned_at(address, size)
    if block is None:
        return None, []
    start = address - block.address
    return block.memory[start : start + size], [block.use(start, start + size, writes)]


def memsetAsync(ptr: int, value: int, size: int, stream: int) -> None:
    """Bytes, all of one value."""
    world.count("copy")
    if world.idle or size == 0:
        return
    with world.lock:
        if world.find(stream).device != world.thread.device:
            world.fault("memory is set on a stream of another device than the current one")
        use, bytes_ = use_of(ptr, size, True), view(ptr, size)
        world.report(world.find(stream).device)

        def run() -> None:
            bytes_[...] = value

        world.put(world.find(stream), f"set of {size} bytes", run, [use])
