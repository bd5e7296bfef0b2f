"""Whose memory a GPU's kernels write, and when it is filled.

In: every primitive, random programs, loops, branches, other libraries, the stand-in for CuPy. Out:
the values that NumPy's rules give, with and without donation; no race, and nothing written that
somebody else can see.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import weakref

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends.cuda import program as build
from gpuarray.backends.cuda.device import gpus
from gpuarray.compiler.lower.kernel import Batch
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.primitive import Kind, registry
from tests.fake_cupy import installed
from tests.fake_cupy.memory import view
from tests.fake_cupy.world import world
from tests.samples import Sample, samples, values
from tests.support import programs, simulated

if "cuda" in os.environ.get("GPUARRAY_PLATFORMS", ""):
    pytest.skip("CuPy itself, with a GPU, is in use here", allow_module_level=True)
simulated.need_compiler()

# What is given away is not always of use: these are about what becomes of it.
pytestmark = pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")


@pytest.fixture(scope="module")
def machine():
    with installed(seed=7) as world:
        yield world


@pytest.fixture
def gpu(machine):
    """A GPU that lags behind: nothing runs before somebody waits for it. What one test broke is
    whole for the next.
    """
    machine.eager = 0.0
    yield machine
    faults = list(machine.faults)
    machine.faults.clear()
    machine.repair()
    assert not faults, faults[0]


def agrees(world, f, *args, donate=(0,)) -> None:
    """Whether a program gives on the GPU what it gives on the CPU, its operands given away or
    not; what is not given away stays as it was.
    """
    with ga.default_device(ga.devices("cpu")[0]):
        expected = [np.asarray(x) for x in ga.tree.leaves(ga.jit(f)(*args))]
    for given in ((), donate):
        arrays = [gnp.asarray(x) for x in args]
        out = ga.tree.leaves(ga.jit(f, donate_argnums=given)(*arrays))
        found = [np.asarray(x) for x in out]
        assert not world.faults, (given, world.faults)
        for x, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, e, 1e-5, 1e-5 * np.abs(e).max(initial=1))
        for i, (a, x) in enumerate(zip(arrays, args, strict=True)):
            if i not in given:
                np.testing.assert_array_equal(np.asarray(a), x)


# ---- every primitive ----


def beside(sample: Sample) -> Graph:
    """A call of a primitive, and its results together with every operand that fits them: kernels
    then read operands at more than one place.
    """
    ins = [Var(a) for a in sample.avals]
    outs = [Var(a) for a in sample.primitive.out_avals(sample.avals, sample.params)]
    eqns = [Eqn(sample.primitive, ins, list(outs), sample.params)]
    for k, out in enumerate(outs):
        for v in ins:
            same = (v.aval.shape, v.aval.dtype) == (out.aval.shape, out.aval.dtype)
            if same and out.aval.dtype.kind in "biuf":
                both = Var(out.aval)
                eqns.append(Eqn(registry["max"], [out, v], [both], {}))
                out = outs[k] = both
    return Graph(ins, outs, eqns)


#: What need not give the same twice.
ANY = {"empty", "rng_uniform"}
#: What is not compared: kinds that call Python, or other devices.
LEFT_OUT = (Kind.COLLECTIVE,)


def moving() -> list[Sample]:
    """The first sample, with several elements, of each primitive that reads not only where it
    writes.
    """
    found: dict[str, Sample] = {}
    for sample in every():
        if sample.primitive.kind is not Kind.POINTWISE:
            found[sample.primitive.name] = sample
    return list(found.values())


def every() -> list[Sample]:
    listed = samples(lambda p: p.kind not in LEFT_OUT and p.name not in ANY)
    return [s for s in listed if all(np.prod(shape) > 1 for shape, _ in s.operands[:1])]


def bits(buffers: list) -> list[bytes]:
    return [np.asarray(b).tobytes() for b in buffers]


def check_donation(world, sample: Sample) -> None:
    """Whether kernels of a primitive give the same bits where all operands are given away."""
    with contextlib.ExitStack() as stack:
        if sample.wide:
            stack.enter_context(ga.enable_x64(True))
        (there,) = gpus()
        graph = beside(sample)
        numbers = frozenset(range(len(graph.invars)))
        given = [np.asarray(x) for x in values(sample)]
        plan = plan_graph(graph)
        consts = [np.asarray(c) for c in plan.graph.consts]
        found = []
        for donated in (frozenset(), numbers):
            run = build.build(plan, consts, donated, gpu=there)
            # Copies: single values are kept on the GPU, and belong to nobody.
            buffers = [there.copy(there.upload(x)) for x in given]
            out = run(*buffers, *([numbers] if donated else []))
            found.append(bits(out))
            assert not world.faults, f"{sample}: {world.faults[0]}"
            if not donated:
                assert bits(buffers) == [x.tobytes() for x in given], f"{sample}: operands changed"
        assert found[0] == found[1], f"{sample}: other values where operands are given away"


@pytest.mark.parametrize("sample", moving(), ids=str)
def test_primitive(gpu, sample):
    check_donation(gpu, sample)


@pytest.mark.slow
def test_every_sample(gpu):
    for sample in every():
        check_donation(gpu, sample)


def test_random_programs(gpu, fuzz_count):
    for seed in range(max(fuzz_count // 20, 1)):
        program = programs.generate(seed)
        inputs = [x.astype(np.float32) for x in programs.inputs_of(program, seed)]

        def f(*xs, program=program):
            return programs.run(program, gnp, list(xs))

        found = []
        for donated in ((), tuple(range(len(inputs)))):
            arrays = [gnp.asarray(x) + 0 for x in inputs]
            out = ga.tree.leaves(ga.jit(f, donate_argnums=donated)(*arrays))
            found.append([np.asarray(x).tobytes() for x in out])
            assert not gpu.faults, f"seed {seed}: {gpu.faults[0]}\n{program}"
        assert found[0] == found[1], f"seed {seed}\n{program}"


# ---- what is given away ----

N = 600
LINE = np.random.default_rng(0).uniform(-1, 1, N).astype(np.float32)
TABLE = np.random.default_rng(1).uniform(-1, 1, (300, 100)).astype(np.float32)
SHUFFLED = np.random.default_rng(2).permutation(N).astype(np.int32)
DRAWN = np.random.default_rng(3).integers(0, N, N // 2).astype(np.int32)
SOME = SHUFFLED[: N // 2]
AT = np.int32(3)

#: Programs that read what they are given elsewhere than where they write.
READS_ELSEWHERE = {
    "a neighbour set": lambda c: (c * 2).at[1].set(c[0]),
    "rolled beside itself": lambda c: gnp.roll(c, 1) + c,
    "gathered": lambda c: c[SHUFFLED] + 1,
    "padded": lambda c: gnp.pad(c[:-1], (1, 0)) + c,
    "halves exchanged": lambda c: gnp.concatenate([c[N // 2 :], c[: N // 2]]) * 3,
    "reversed": lambda c: c[::-1] * 2,
    "a slice over another": lambda c: lax.dynamic_update_slice(c * 2, c[:3], (5,)),
    "one for all": lambda c: c * c[0],
    "a shift where positive": lambda c: gnp.where(c > 0, gnp.roll(c, -1), c),
    "added to itself": lambda c: c.at[DRAWN].add(c[SOME]),
    "set from itself": lambda c: c.at[SOME].set(c[DRAWN], unique_indices=True),
    "set from a view": lambda c: c.at[1:].set(c[:-1]),
    "seen through a view": lambda c: c.reshape(20, 30)[::-1].reshape(N) + c,
    "two results": lambda c: (c * 2, gnp.roll(c, 1)),
    "one along a row, one along both": lambda c: (c[:30] * 2, c[:30] + c[:10, None]),
    "searched": lambda c: gnp.searchsorted(gnp.sort(c), c).astype(c.dtype) + c,
}
#: Loops whose steps read their carry elsewhere than where they write.
LOOPS = {
    "a row from the one before": lambda c: lax.fori_loop(
        1, 6, lambda i, s: s.at[i].set(s[i - 1] + 1), c
    ),
    "a neighbour of a change": lambda c: lax.fori_loop(
        0, 3, lambda i, s: (s * 2).at[i].set(s[i - 1]), c
    ),
    "rolled": lambda c: lax.fori_loop(0, 3, lambda i, s: gnp.roll(s, 1, 0) + 1, c),
    "slices": lambda c: lax.fori_loop(
        0,
        4,
        lambda i, s: lax.dynamic_update_slice(
            s, lax.dynamic_slice(s, (i * 7, 0), (10, 100)) * 2, (i * 5, 0)
        ),
        c,
    ),
    "scattered": lambda c: lax.fori_loop(
        0,
        3,
        lambda i, s: s.at[SOME % 300].set(s[DRAWN % 300] + i, unique_indices=False),
        c,
    ),
    "kept as rows": lambda c: lax.scan(
        lambda s, i: (s.at[i].set(s[i - 1]), s[i]), c, gnp.arange(1, 4)
    ),
}


@pytest.mark.parametrize("name", list(READS_ELSEWHERE))
def test_what_is_read_elsewhere_is_not_written_over(gpu, name):
    agrees(gpu, READS_ELSEWHERE[name], LINE)


@pytest.mark.parametrize("name", list(LOOPS))
def test_loops_read_their_carry_elsewhere(gpu, name):
    agrees(gpu, LOOPS[name], TABLE)


#: Programs whose results may lie where their operand was.
OVERWRITES = {
    "a map": (lambda c: c * 2 + 1, LINE),
    "a map of another shape": (lambda c: c.reshape(20, 30) * 2, LINE),
    "a guard where it writes": (lambda c: c.at[3].set(7.0) * c, LINE),
    "an update": (lambda c: c.at[AT].set(2.0), TABLE),
    "a row from another": (lambda c: c.at[AT].set(c[AT - 1] * 2), TABLE),
    "one element from another": (lambda c: c.at[AT, 0].set(c[AT - 1, 5] + c[0, 0]), TABLE),
}


@pytest.mark.parametrize("name", list(OVERWRITES))
def test_what_is_read_where_it_is_written_is_written_over(gpu, name):
    function, value = OVERWRITES[name]
    agrees(gpu, function, value)
    given = gnp.asarray(value) + 0
    there = given._buffer().pointer
    assert ga.jit(function, donate_argnums=0)(given)._buffer().pointer == there


def many(scale: float) -> list[np.ndarray]:
    """Arrays of many sizes."""
    sizes = (300,), (41,), (2000,), (7, 9), (1,), (5000, 3)
    return [np.arange(1, math.prod(s) + 1, dtype=np.float32).reshape(s) * scale for s in sizes]


def lengthened(params, grads):
    """A step, and the length of each array."""
    after = [p - 0.1 * g for p, g in zip(params, grads, strict=True)]
    return after, [gnp.sqrt(gnp.sum(p * p)) for p in after]


def crossed(params, grads):
    """Two results of two arrays."""
    pairs = list(zip(params, grads, strict=True))
    return [p - g for p, g in pairs], [gnp.maximum(p * 1.5, g) for p, g in pairs]


def doubled(params, grads):
    """Two results of each array, of which one may take its place."""
    return [p * 2 for p in params], [p + g for p, g in zip(params, grads, strict=True)]


@pytest.mark.parametrize("function", [lengthened, crossed, doubled])
def test_many_arrays_of_one_launch_are_written_over(gpu, function):
    with ga.default_device(ga.devices("cpu")[0]):
        expected = ga.tree.leaves(ga.jit(function)(many(1), many(2)))
    params, grads = ([gnp.asarray(x) + 0 for x in many(s)] for s in (1, 2))
    there = [p._buffer().pointer for p in params]
    plan = ga.jit(function).lower(params, grads).plan.on_device
    assert any(isinstance(g, Batch) for g in plan.groups)
    out = ga.jit(function, donate_argnums=(0, 1) if function is crossed else 0)(params, grads)
    for found, e in zip(ga.tree.leaves(out), map(np.asarray, expected), strict=True):
        np.testing.assert_allclose(np.asarray(found), e, 1e-5)
    assert not gpu.faults
    if function is lengthened:
        assert [x._buffer().pointer for x in out[0]] == there


# ---- what is handed on ----


def sorted_if_large(x, after):
    """A branch that hands on its operand, and work that would use its memory again."""
    y = gnp.cumsum(x, 0)
    z = lax.cond(x[0, 0] > 100, lambda s: gnp.sort(s, 0), lambda s: s, y)
    return after(x) + z


#: Calls whose results are their operands.
HANDED_ON = {
    "a branch, then others": lambda c: sorted_if_large(
        c, lambda x: gnp.cumsum(gnp.cumsum(gnp.cumsum(x * 3, 0), 1), 0)
    ),
    "a branch": lambda c: (
        c * 2,
        gnp.cumsum(lax.cond(c[0, 0] > 100, lambda s: gnp.sort(s, 0), lambda s: s, c), 0),
    ),
    "a loop of no steps": lambda c: (
        c * 2,
        gnp.cumsum(lax.while_loop(lambda s: s[0, 0] > 1e9, lambda s: gnp.sort(s, 0), c), 0),
    ),
    "a barrier": lambda c: (c * 2, gnp.cumsum(lax.optimization_barrier(c), 0)),
    "a branch in a loop": lambda c: lax.fori_loop(
        0,
        3,
        lambda i, s: lax.cond(i < 1, lambda s: s, lambda s: gnp.sort(s, 0).at[i].set(5.0), s),
        c,
    ),
    "a loop of no steps in a loop": lambda c: lax.fori_loop(
        0,
        3,
        lambda i, s: (
            lax.while_loop(lambda t: t[0, 0] > 1e9, lambda t: gnp.sort(t, 0), s[1]).at[i].set(1.0),
            s[0],
        ),
        (c, c + 1),
    ),
}


@pytest.mark.parametrize("name", list(HANDED_ON))
def test_a_result_that_is_an_operand_keeps_its_memory(gpu, name):
    agrees(gpu, HANDED_ON[name], np.round(TABLE * 4))


# ---- what is exported ----


def told_by_dlpack(x):
    import cupy

    return cupy.from_dlpack(x)


def told_by_interface(x):
    """What consumers do with it: they keep the array, and read at the address."""
    return x.__cuda_array_interface__["data"][0], x


def told_by_pointer(x):
    return x.unsafe_buffer_pointer(), x


def seen(told) -> np.ndarray:
    """What the consumer finds."""
    if not isinstance(told, tuple):
        return told.get()
    address, array = told
    world.finish()
    return view(address, N * 4).view(np.float32).copy()


@pytest.mark.parametrize("through", ["itself", "a view"])
@pytest.mark.parametrize("tell", [told_by_dlpack, told_by_interface, told_by_pointer])
def test_exported_memory_is_neither_written_nor_used_again(gpu, tell, through):
    x = gnp.asarray(LINE) + 0
    told = tell(x)
    given = x if through == "itself" else x.reshape(20, 30)
    out = ga.jit(lambda v: v * 0 + 99, donate_argnums=0)(given)
    assert given.is_deleted()
    others = [gnp.asarray(LINE) + i for i in range(8)]  # who would get the memory if it were free
    np.testing.assert_array_equal(np.asarray(out).reshape(N), np.full(N, 99, np.float32))
    np.testing.assert_array_equal(np.asarray(others[3]), LINE + 3)
    np.testing.assert_array_equal(seen(told), LINE)


@pytest.mark.parametrize("tell", [told_by_dlpack, told_by_interface, told_by_pointer])
def test_memory_that_a_consumer_let_go_is_used_again(gpu, tell):
    x = gnp.asarray(LINE) + 0
    told = tell(x)
    there = x._buffer().pointer
    y = x.reshape(20, 30)
    del told, x
    assert ga.jit(lambda v: v * 2, donate_argnums=0)(y)._buffer().pointer == there


def test_a_deletion_leaves_exported_memory_alone(gpu):
    x = gnp.asarray(LINE) + 0
    told = told_by_pointer(x)
    x.delete()
    others = [gnp.asarray(LINE) + i for i in range(8)]
    assert x.is_deleted() and all(o._buffer().pointer != told[0] for o in others)
    np.testing.assert_array_equal(seen(told), LINE)


# ---- when results are there ----


def steps_of_libraries() -> list[Sample]:
    """A sample of each primitive whose plan has a step without a kernel."""
    found: dict[str, Sample] = {}
    for sample in every():
        if sample.primitive.kind is not Kind.LIBRARY or sample.primitive.name in found:
            continue
        with ga.enable_x64(sample.wide):
            plan = plan_graph(beside(sample))
        if any(isinstance(s, Eqn) and s.primitive.kind is not Kind.VIEW for s in plan.device_steps):
            found[sample.primitive.name] = sample
    return list(found.values())


@pytest.mark.parametrize("sample", steps_of_libraries(), ids=str)
def test_a_result_is_not_ready_before_it_is_there(gpu, sample):
    """A result that is read at once is what it is when everything has run."""
    with ga.enable_x64(sample.wide):
        (there,) = gpus()
        ins = [Var(a) for a in sample.avals]
        outs = [Var(a) for a in sample.primitive.out_avals(sample.avals, sample.params)]
        plan = plan_graph(Graph(ins, outs, [Eqn(sample.primitive, ins, outs, sample.params)]))
        run = build.build(plan, [np.asarray(c) for c in plan.graph.consts], gpu=there)
        before = there.launched()
        out = run(*[there.copy(there.upload(np.asarray(x))) for x in values(sample)])
        ours = [b for b in out if b.nbytes and b.shape]
        assert all(before < b.ticket <= there.latest for b in ours)
        early = bits(out)
        gpu.finish()
        assert early == [b.cupy().get().tobytes() for b in out]


@pytest.mark.parametrize("batch", [(), (4,)])
def test_a_product_that_leaves_as_it_is_comes_after_its_work(gpu, batch):
    a = np.random.default_rng(0).uniform(-1, 1, (*batch, 16, 16)).astype(np.float32)
    c = ga.jit(lambda a, b: a @ b)(gnp.asarray(a), gnp.asarray(a))
    assert not c._buffer().ticket <= gpus()[0]._reached
    np.testing.assert_allclose(np.asarray(c), a @ a, 1e-4, 1e-4)


COPIES = {
    "asarray": np.asarray,
    "array": np.array,
    "device_get": ga.device_get,
    "frombuffer": lambda x: np.frombuffer(np.asarray(x), x.dtype),
}


@pytest.mark.parametrize("name", list(COPIES))
def test_a_copy_on_the_host_keeps_no_memory_of_the_gpu(gpu, name):
    x = gnp.arange(4096.0) + 1
    kept = COPIES[name](x)
    array = weakref.ref(x)
    del x
    gc.collect()
    assert array() is None and kept[-1] == 4096


def test_memory_of_a_gpu_is_no_buffer(gpu):
    # Before Python 3.12, classes have no buffers at all.
    with pytest.raises((BufferError, TypeError), match="numpy.asarray|bytes-like"):
        memoryview(gnp.arange(3.0))
