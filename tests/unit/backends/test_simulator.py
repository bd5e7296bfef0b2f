"""Emitted CUDA text run on this CPU: right values, and no access that a GPU would not forgive.

In: the samples of all primitives, programs of each form a kernel takes, random programs, and
kernels with planted faults. Results are those of the NumPy driver, in every order of threads.
"""

from __future__ import annotations

import mmap
import stat
import warnings

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.backends import hostcc, simulator
from gpuarray.backends.numpy import program as host
from gpuarray.compiler.lower.kernel import NoKernel
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.config import config, strict
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.primitive import Kind, registry
from gpuarray.errors import DeviceError, FallbackError, FallbackWarning
from gpuarray.runtime import device
from tests.samples import samples, values
from tests.support import programs, simulated
from tests.support.nearness import largest, terms_of, ulps
from tests.support.simulated import SEEDS, built, run
from tests.support.targets import plan_for

simulated.need_compiler()


# ---- every primitive ----

#: Half units in the last place by which the C library may differ from NumPy; 0 for all others.
ELEMENTARY = dict.fromkeys(
    "acos acosh asin asinh atan atan2 atanh cbrt cos cosh erf erfc erf_inv exp exp2 expm1 log "
    "log1p logistic rsqrt sin sinh sqrt tan tanh abs pow integer_pow".split(),
    8,
)
LIMITS = ELEMENTARY | {
    "reduce_sum": 64, "reduce_prod": 64,  # another order
    "bessel_i0e": 8, "bessel_i1e": 8, "digamma": 16, "lgamma": 8, "polygamma": 8, "zeta": 8,
    "igamma": 64, "igammac": 64, "regularized_incomplete_beta": 64,
    "igamma_grad_a": 1024, "random_gamma_grad": 1024,  # of differences
    "gamma": 16, "expi": 64, "expn": 64, "sine_integral": 16, "cosine_integral": 256,
    "fresnel_sin": 16, "fresnel_cos": 16, "spence": 32, "dawsn": 128, "erfcx": 16, "wofz": 128,
    "owens_t": 256, "hyp1f1": 4096, "hyp2f1": 4096,  # near their zeros
    "hyp1f1_slope": 1 << 16, "hyp2f1_slope": 1 << 16,
}  # fmt: skip


#: Of the others tests/unit/compiler/lower/test_device_steps.py runs the samples.
KINDS = (Kind.POINTWISE, Kind.REDUCTION)
CHOSEN = list(samples(lambda p: p.kind in KINDS))


@pytest.fixture(scope="module")
def compiled():
    """The samples as functions, all made before any is compiled."""
    found = {}
    for s in CHOSEN:
        with ga.enable_x64(s.wide), strict(True):
            ins = [Var(a) for a in s.avals]
            outs = [Var(a) for a in s.primitive.out_avals(s.avals, s.params)]
            found[str(s)] = built(Graph(ins, outs, [Eqn(s.primitive, ins, outs, s.params)]))
    return found


@pytest.mark.parametrize("name", list(dict.fromkeys(s.primitive.name for s in CHOSEN)))
def test_primitive(name, compiled):
    for s in (s for s in CHOSEN if s.primitive.name == name):
        rule = s.primitive.numpy_function(s.avals, s.params)
        with ga.enable_x64(s.wide):
            expected = host.local.run(rule, *values(s))
            found = run(compiled[str(s)], values(s))
        listed = expected if s.primitive.multiple_results else [expected]
        for f, e, t in zip(found, map(np.asarray, listed), terms_of(s), strict=True):
            assert ulps(f, e, t) <= LIMITS.get(name, 0), f"{s}: got\n{f}\nexpected\n{e}"


# ---- every form of a kernel ----


def floats(*shape: int, dtype: str = "float32") -> np.ndarray:
    rng = np.random.default_rng(shape)
    return rng.standard_normal(shape).astype(getattr(dtypes, dtype, dtype))


def layer_norm(x, gain):
    mean = gnp.mean(x, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(gnp.var(x, -1, keepdims=True) + 1e-5) * gain


def five_point(x):
    return 0.2 * (x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])


def whole_and_row(x):
    """Values over fewer axes than the kernel has: one thread of many writes them."""
    y = gnp.sin(x[:1])
    return y, y + x


def both_ways(x):
    peak = gnp.max(x, axis=1)
    return peak, gnp.exp(x - peak[:, None])


# name: (function, arguments, half units in the last place that results may differ by)
FORMS = {
    "map, vectors": (lambda x, y: 2.0 * x + y, (floats(4096), floats(4096) + 1), 0),
    "map, one by one": (lambda x, y: 2.0 * x + y, (floats(1001), floats(1001) + 1), 0),
    "map, bfloat16": (lambda x: x * x + x, (floats(64, 48, dtype="bfloat16"),), 0),
    "map, float16": (lambda x: nn.relu(x + 1), (floats(9, 24, dtype="float16"),), 0),
    "map, complex": (lambda z: gnp.exp(z) * z, (floats(40, 2).view(np.complex64),), 16),
    "map, integers": (
        lambda a, b: (a // b) ^ (a << 3),
        (np.arange(-50, 50, dtype=np.int32), np.arange(-3, 97, dtype=np.int32)),
        0,
    ),
    "map, transposed": (lambda a, b: (a.T + b) * 3.0, (floats(33, 17), floats(17, 33)), 0),
    "map, neighbours": (five_point, (floats(20, 22),), 0),
    "map, reversed and cut": (lambda x: x[::-1] * x[:, ::2][:, :1], (floats(12, 8),), 0),
    "map, random bits": (
        lambda x: gnp.where(ga.random.bernoulli(ga.random.key(7), 0.5, x.shape), 2.0 * x, 0.0),
        (floats(50, 30),),
        0,
    ),
    "map, two sizes": (whole_and_row, (floats(6, 40),), 8),
    "rows, several a block": (nn.softmax, (floats(1001, 12),), 16),
    "rows, vectors": (nn.softmax, (floats(37, 48),), 16),
    "rows, bfloat16": (nn.softmax, (floats(37, 48, dtype="bfloat16"),), 16),
    "rows, a block each": (nn.softmax, (floats(5, 1024),), 16),
    "rows, long": (lambda x: gnp.var(x, axis=-1), (floats(2, 40000),), 16),
    "rows, odd": (lambda x: nn.logsumexp(x, axis=-1), (floats(7, 333),), 16),
    "rows, norm": (layer_norm, (floats(19, 256), floats(256)), 64),
    "rows, and more": (both_ways, (floats(11, 70),), 8),
    "rows, argmin": (lambda x: gnp.argmin(x, axis=1), (floats(100, 77, dtype="float16"),), 0),
    "columns": (lambda x: gnp.sum(x, axis=0), (floats(100, 70),), 64),
    "columns, softmax": (lambda x: nn.softmax(x, axis=0), (floats(40, 65),), 16),
    "columns, integers": (lambda x: gnp.max(x, axis=0), (np.eye(20, 30, dtype=np.int8),), 0),
    "rows, masked": (lambda x: nn.logsumexp(x, axis=1, where=x > 0), (floats(30, 12),), 64),
    "all": (lambda x: gnp.mean(x * x), (floats(40001),), 16),
    "all, vectors": (lambda x: gnp.sum(gnp.abs(x)), (floats(1 << 16),), 16),
    "all, argmax": (gnp.argmax, (floats(1 << 15),), 0),
    "all, two results": (lambda x: (gnp.max(x), gnp.min(x)), (floats(20000),), 0),
    "all, wide integers": (lambda x: gnp.sum(x), (np.arange(20000, dtype=np.int32),), 0),
    "small sum": (lambda x: gnp.sum(x * x), (floats(3),), 4),
    "a loop's body": (
        lambda x: lax.fori_loop(0, 3, lambda i, c: gnp.sin(c) + gnp.sum(c), x),
        (floats(24),),
        64,
    ),
    "library steps between": (lambda a, b: gnp.tanh(a @ b) + 1, (floats(8, 9), floats(9, 10)), 16),
}  # fmt: skip


@pytest.fixture(scope="module")
def forms():
    with strict(True):
        return {n: built(ga.jit(f).lower(*xs).jaxpr) for n, (f, xs, _) in FORMS.items()}


@pytest.mark.parametrize("name", list(FORMS))
def test_form(name, forms):
    function, inputs, limit = FORMS[name]
    expected = ga.tree.leaves(ga.jit(function)(*inputs))
    first = run(forms[name], inputs, SEEDS[0])
    for f, e in zip(first, map(np.asarray, expected), strict=True):
        assert ulps(f, e, largest(e)) <= limit
    # Neither the order of threads and blocks shows, nor that a kernel ran before.
    for seed in SEEDS[1:]:
        for f, again in zip(first, run(forms[name], inputs, seed), strict=True):
            assert f.tobytes() == again.tobytes()


# ---- random programs ----


@pytest.mark.parametrize("forms", ["as they are", "tiles and parts wherever they can be"])
def test_random_programs(forms, fuzz_count, monkeypatch):
    """200 programs, and one for a hundred of the others that --fuzz asks for."""
    count = max(200, fuzz_count // 100)
    result = lambda x: x
    if forms != "as they are":  # else arrays would have to be large
        plan_for(monkeypatch, short_run=2, long_row=4)
        result = lambda x: x.T if np.ndim(x) == 2 else x
    compute = lambda p, xp, xs: [result(x) for x in programs.run(p, xp, xs)]
    kinds: set[str] = set()
    with ga.enable_x64(True), strict(True):
        for start in range(0, count, 200):
            made = []
            for seed in range(start, min(start + 200, count)):
                program = programs.generate(seed)
                inputs = programs.inputs_of(program, seed)
                function = ga.jit(lambda *xs, p=program: compute(p, gnp, list(xs)))
                made.append((seed, program, inputs, built(function.lower(*inputs).jaxpr)))
            for seed, program, inputs, function in made:
                wrong = f"seed {seed}\n{program}"
                with np.errstate(all="ignore"):
                    expected = compute(program, np, inputs)
                first = run(function, inputs, SEEDS[0])
                for f, e in zip(first, expected, strict=True):
                    np.testing.assert_allclose(f, e, 1e-9, 1e-11, err_msg=wrong)
                for order in SEEDS[1:]:
                    again = run(function, inputs, order)
                    assert [x.tobytes() for x in first] == [x.tobytes() for x in again], wrong
                values = function.__globals__.values()
                launchers = (v for v in values if isinstance(v, simulator.Launcher))
                kinds |= {v.emitted.kernel.form for v in launchers}
            ga.clear_caches()
    expected = {"map", "rows", "columns"} if forms == "as they are" else {"tiles"}
    assert expected <= kinds


# ---- planted faults ----

TREE = """
extern "C" __global__ void __launch_bounds__(256) tree(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    __shared__ float s[256];
    __shared__ float first[1];
    const unsigned t = threadIdx.x, i = blockIdx.x * 256u + t;
    s[t] = i < 1000u ? in0[i] : 0.0f;
    if (t == 0u) first[0] = 0.0f;
    __syncthreads();
    for (unsigned o = 128u; o > 0u; o >>= 1) {
        if (t < o) s[t] += s[t + o];
        __syncthreads();  // all have added
    }
    if (t == 0u) out0[blockIdx.x] = s[0] + first[0];
}
"""
TICKET = """
extern "C" __global__ void __launch_bounds__(64) ticket(
    const float* __restrict__ in0,
    float* __restrict__ out0,
    unsigned char* work) {
    __shared__ bool last;
    __shared__ float part[2];
    const float sum = ga_block_reduce<2>(in0[blockIdx.x * 64u + threadIdx.x], part,
                                         [](float p, float q) -> float { return p + q; });
    if (threadIdx.x == 0) {
        ga_put(work, blockIdx.x, sum);
        __threadfence();  // before the ticket
        last = atomicInc((unsigned*)(work + 256u), 15u) == 15u;
    }
    __syncthreads();  // all know
    if (!last) return;
    __threadfence();  // before the reads
    if (threadIdx.x == 0) {
        float all = 0.0f;
        for (unsigned b = 0; b < 16u; ++b) all += ga_get<float>(work, b);
        out0[0] = all;
    }
}
"""
TOTAL = """
extern "C" __global__ void __launch_bounds__(32) total(const float* __restrict__ in0, float* work) {
    float v = in0[blockIdx.x * 32u + threadIdx.x];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    if (threadIdx.x == 0) atomicAdd(work, v);
}
"""
KERNELS = {"tree": TREE, "ticket": TICKET, "total": TOTAL}

# kernel, what is replaced, by what, how the fault is reported
FAULTS = {
    "out of bounds": ("tree", "i < 1000u", "i <= 1000u", "out of bounds: 4 .* at byte 4000 of in0"),
    "missing sync": (
        "tree",
        "__syncthreads();  // all have added",
        "",
        "race: the .* of s at byte",
    ),
    "shared overrun": ("tree", "s[t + o]", "s[t + o + (o == 128u)]", "out of bounds: index 256"),
    "shared overrun by pointer": (
        "ticket",
        "part[2]",
        "part[1]",
        "out of bounds: 4 bytes .* byte 4 of part",
    ),
    "beside an array of vectors": (
        "total",
        "float v = ",
        "ga_vec<float, 2> ahead[2];\n"
        "for (unsigned u = 0; u <= 2u; ++u) ahead[u] = ga_load<2>(in0 + 2 * u);\n"
        "float v = 0 * ahead[1].v[0] + ",
        "out of bounds: beside memory whose size is known",
    ),
    "beside an array of halves": (
        "total",
        "float v = ",
        "ga_f16 ahead[2];\n"
        "for (unsigned u = 0; u <= 2u; ++u) ahead[u] = ((const ga_f16*)in0)[u];\n"
        "float v = 0 * ga_value(ahead[1]) + ",
        "out of bounds: beside memory whose size is known",
    ),
    "never set": ("tree", "if (t == 0u) first[0] = 0.0f;", "", "uninitialised: .* byte 0 of first"),
    "barrier for some": (
        "tree",
        "if (t == 0u) out0",
        "if (t < 100u) __syncthreads();\nif (t == 0u) out0",
        "divergent barrier: .* 100 of 256",
    ),
    "two barriers": (
        "tree",
        "if (t == 0u) out0",
        "if (t < 100u)\n__syncthreads();\nelse\n__syncthreads();\nif (t == 0u) out0",
        "divergent barrier: threads wait at different",
    ),
    "never written": (
        "tree",
        "if (t == 0u) out0",
        "if (t == 0u && blockIdx.x) out0",
        "never written: byte 0 of out0",
    ),
    "input written": (
        "tree",
        "s[t] = i",
        "if (i == 5u) ((float*)in0)[i] = 1.0f;\ns[t] = i",
        "write to an input: byte 20",
    ),
    "misaligned": (
        "tree",
        "first[0] = 0.0f",
        "first[0] = ga_load<2>(in0 + 1).v[0]",
        "misaligned: byte 4 of in0",
    ),
    "no fence before the ticket": (
        "ticket",
        "__threadfence();  // before the ticket",
        "",
        "race: the read of work",
    ),
    "no fence before the reads": (
        "ticket",
        "__threadfence();  // before the reads",
        "",
        "race: the read of work",
    ),
    "not the last block": ("ticket", "if (!last) return;", "", "race: the .* of work"),
    "ticket without sync": (
        "ticket",
        "__syncthreads();  // all know",
        "",
        "uninitialised: .* of last|race: .* of last",
    ),
    "missing atomic": (
        "total",
        "atomicAdd(work, v)",
        "work[0] += v",
        "race: the (read|write) of work",
    ),
    "missing lanes": (
        "total",
        "if (threadIdx.x == 0)",
        "if (threadIdx.x < 16u) v += __shfl_xor_sync(0xffffffffu, v, 1);\nif (threadIdx.x == 0)",
        "deadlock: thread .* waits at line",
    ),
    "wrong mask": ("total", "0xffffffffu", "0xffffu", "warp: lane .* leaves it out|divergent warp"),
}


def launched(name: str, text: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What a kernel of KERNELS leaves behind, and what its inputs are."""
    in0 = floats(1000 if name == "tree" else 1024)
    out0 = np.empty(4 if name == "tree" else 1, np.float32)
    work = np.zeros(1 if name == "total" else 68, np.float32)
    used = [(in0, hostcc.INPUT, "in0")]
    used += [(out0, hostcc.OUTPUT, "out0")] if name != "total" else []
    used += [(work, hostcc.WORK, "work")] if name != "tree" else []
    regions = [hostcc.Region(x.ctypes.data, x.nbytes, kind, 4, what) for x, kind, what in used]
    grid, block = {"tree": (4, 256), "ticket": (16, 64), "total": (32, 32)}[name]
    library = hostcc.compile_library(simulator.complete(text), [name])
    library.launch(name, [r.address for r in regions], grid, block, regions, seed)
    return (work if name == "total" else out0), in0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", list(KERNELS))
def test_nothing_is_found_where_nothing_is_wrong(name, seed):
    found, in0 = launched(name, KERNELS[name], seed)
    np.testing.assert_allclose(found.sum(dtype=np.float64), in0.sum(dtype=np.float64), 1e-4)


@pytest.mark.parametrize("fault", list(FAULTS))
def test_planted_fault_is_found(fault):
    name, old, new, report = FAULTS[fault]
    assert KERNELS[name].count(old) == 1
    for seed in SEEDS:
        with pytest.raises(DeviceError, match=report):
            launched(name, KERNELS[name].replace(old, new), seed)


#: Accesses of 16 bytes and of 4, 2 and 1 to the same memory, in two orders: what is one place at
#: first is several later, and each keeps who came to it. Without the barrier between they race.
WIDTHS = {
    "written wide, read narrow": (
        "if (t == 0u) ga_store(s, four);",
        "out0[t] = s[t % 4u];",
    ),
    "written wide, read as bytes": (
        "if (t == 0u) ga_store(s, four);",
        "out0[t] = ((unsigned char*)s)[t % 16u];",
    ),
    "written narrow, read wide": (
        "if (t < 4u) s[t] = t;",
        "out0[t] = ga_load<4>(s).v[3];",
    ),
    "read wide, written narrow": (
        "out0[t] = ga_load<4>(s).v[0];",
        "if (t == 1u) ((unsigned short*)s)[5] = 1;",
    ),
}
WIDE_AND_NARROW = """
extern "C" __global__ void widths(float* out0) {
    alignas(16) __shared__ float s[4];
    const unsigned t = threadIdx.x;
    ga_vec<float, 4> four;
    for (unsigned k = 0; k < 4u; ++k) four.v[k] = k;
    if (t == 0u) ga_store(s, four);
    __syncthreads();
    FIRST
    BARRIER
    THEN
}
"""


@pytest.mark.parametrize("name", list(WIDTHS))
def test_accesses_of_several_widths_to_one_place(name):
    first, then = WIDTHS[name]
    text = WIDE_AND_NARROW.replace("FIRST", first).replace("THEN", then)

    def run(barrier: str, seed: int) -> None:
        out0 = np.empty(64, np.float32)
        regions = [hostcc.Region(out0.ctypes.data, out0.nbytes, hostcc.OUTPUT, 4, "out0")]
        made = simulator.complete(text.replace("BARRIER", barrier))
        library = hostcc.compile_library(made, ["widths"])
        library.launch("widths", [out0.ctypes.data], 1, 64, regions, seed)

    for seed in SEEDS:
        run("__syncthreads();", seed)
        with pytest.raises(DeviceError, match="race: the (read|write) of s at byte"):
            run("", seed)


def test_what_is_beside_a_narrow_write_was_written_by_nobody():
    """A part of 16 bytes says nothing of the rest."""
    text = WIDE_AND_NARROW.replace("if (t == 0u) ga_store(s, four);", "if (t == 0u) s[0] = 1.0f;")
    text = text.replace("FIRST", "").replace("BARRIER", "").replace("THEN", "out0[t] = s[t % 2u];")
    out0 = np.empty(64, np.float32)
    regions = [hostcc.Region(out0.ctypes.data, out0.nbytes, hostcc.OUTPUT, 4, "out0")]
    library = hostcc.compile_library(simulator.complete(text), ["widths"])
    with pytest.raises(DeviceError, match="uninitialised: .* byte 4 of s"):
        library.launch("widths", [out0.ctypes.data], 1, 64, regions, 1)


def test_a_fault_names_kernel_operation_and_line(monkeypatch):
    honest = simulator.emit

    def faulty(group):
        emitted = honest(group)
        text = emitted.text.replace("if (i >= 1001u) return;", "")
        return emitted.replace(text=text)

    monkeypatch.setattr(simulator, "emit", faulty)
    x = ga.device_put(floats(1001), ga.devices("simulator")[0])
    with pytest.raises(DeviceError, match=r"kernel .*: sin\): out of bounds: 4") as caught:
        np.asarray(ga.jit(gnp.sin)(x))
    assert "sin recorded at test_simulator.py" in caught.value.__notes__[0]


# ---- the device ----


@pytest.fixture
def on_simulator():
    config.update("platforms", "simulator")


def test_platform_is_chosen_by_settings(on_simulator):
    (only,) = ga.devices()
    assert repr(only) == "SimulatorDevice(id=0)" and ga.default_backend() == "simulator"
    assert ga.devices("cpu")[0].platform == "cpu"
    x = gnp.arange(5.0)
    y = ga.jit(lambda x: gnp.sum(x * 2))
    assert (x + 1).devices() == y(x).devices() == y(x).devices() == {only}
    assert y(x) == 20 and (x + 1).tolist() == [1, 2, 3, 4, 5]
    with ga.fusion(False):
        assert (x * x).tolist() == [0, 1, 4, 9, 16]
    with ga.debug_nans(True), pytest.raises(FloatingPointError, match=r"invalid value \(nan\)"):
        gnp.log(x - 1)


def test_a_map_with_an_update_behind_a_library_step():
    """Its body has something to overwrite, but carries nothing that it could write into."""
    with ga.default_device("simulator"):
        x = gnp.array([[2.0, 1.0, 3.0], [4.0, 6.0, 5.0]])
        found = ga.jit(lambda x: lax.map(lambda y: gnp.sort(y).at[0].add(1.0), x))(x)
    assert found.tolist() == [[2, 2, 3], [5, 5, 6]]


def test_array_moves_to_the_simulator_and_stays():
    x = ga.device_put(np.ones(3, np.float32), ga.devices("simulator")[0])
    assert ga.devices()[0].platform == "cpu"
    assert {d.platform for d in (gnp.sin(x) * 2).devices()} == {"simulator"}
    assert ga.grad(lambda x: gnp.sum(x * x))(x).tolist() == [2, 2, 2]


def test_unknown_platform_is_refused():
    config.update("platforms", "abacus")
    with pytest.raises(RuntimeError, match=r"Unable to initialize backend 'abacus'.*'simulator'"):
        ga.devices()


def test_missing_compiler_is_said_at_the_call(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(device, "_simulators", [])
    with pytest.raises(DeviceError, match=r"no C\+\+ compiler: looked for no-such-compiler, g\+\+"):
        ga.devices("simulator")


def test_what_has_no_kernel_is_refused_or_announced(monkeypatch):
    def refuse(group):
        raise NoKernel("primitive 'mul' has no CUDA rule")

    monkeypatch.setattr(simulator, "emit", refuse)
    graph = ga.jit(lambda x: x * 2).lower(floats(4)).jaxpr
    with strict(True), pytest.raises(FallbackError, match="no kernel for .*mul.*has no CUDA rule"):
        built(graph)
    with strict(False), pytest.warns(FallbackWarning, match="so NumPy runs it"):
        function = built(graph)
    assert np.array_equal(run(function, [floats(4)])[0], floats(4) * 2)


@pytest.mark.parametrize("allowed", [True, False])
def test_a_mistake_in_a_rule_is_no_missing_kernel(allowed, monkeypatch):
    """It is raised, and not taken for a refusal, with which NumPy would run the operation."""

    def wrong(avals, **_):
        return "{0} * " + len(avals)  # pyright: ignore

    monkeypatch.setattr(registry["mul"], "cuda", wrong)
    with strict(allowed), pytest.raises(TypeError, match="can only concatenate"):
        built(ga.jit(lambda x, y: x * y + allowed).lower(floats(4), floats(4)).jaxpr)


def test_host_rule_of_a_library_step_needs_no_fallback():
    with warnings.catch_warnings(), strict(False):
        warnings.simplefilter("error")
        function = built(ga.jit(gnp.sort).lower(floats(5)).jaxpr)
    assert np.array_equal(run(function, [floats(5)])[0], np.sort(floats(5)))
    assert registry["sort"].kind is Kind.SORT


# ---- what is kept on disk ----


def kernels_of(functions) -> list[simulator.Launcher]:
    space = [v for f in functions for v in f.__globals__.values()]
    return [v for v in space if isinstance(v, simulator.Launcher)]


@pytest.fixture
def cache(tmp_path):
    config.update("cache_dir", str(tmp_path))
    return tmp_path / "simulator"


def test_waiting_kernels_are_compiled_together_and_kept(cache):
    graphs = [ga.jit(lambda x, k=k: gnp.sin(x) + k).lower(floats(8)).jaxpr for k in (91, 92)]
    functions = [built(g) for g in graphs]
    kernels = kernels_of(functions)
    run(functions[0], [floats(8)])
    assert len(kernels) == 2 and kernels[0].library is kernels[1].library is not None
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    kept = sorted(cache.iterdir())
    assert len(kept) == 2 and {stat.S_IMODE(p.stat().st_mode) for p in kept} == {0o600}


def test_a_kernel_that_differs_in_its_name_is_not_compiled_again(cache):
    def first(x):
        return gnp.sin(x) * 93

    def second(x):
        return gnp.sin(x[::-1]).sum() / 94, gnp.sin(x) * 93

    functions = [built(ga.jit(f).lower(floats(8)).jaxpr) for f in (first, second)]
    one, *others = kernels_of(functions)
    (twin,) = (k for k in others if k.body == one.body)
    assert twin.emitted.text != one.emitted.text
    for function in functions:
        run(function, [floats(8)])
    assert (one.library, one.name) == (twin.library, twin.name)
    before = sorted(cache.iterdir())
    again = built(ga.jit(lambda x: gnp.sin(x) * 93 + 0 * x[0]).lower(floats(8)).jaxpr)
    (kernel,) = kernels_of([built(ga.jit(first).lower(floats(8)).jaxpr)])
    run(again, [floats(8)])
    made = sorted(cache.iterdir())
    assert len(made) == len(before) + 1  # of what waits, only what is new
    np.testing.assert_array_equal(kernel(floats(8))[0], run(functions[0], [floats(8)])[0])
    assert kernel.library is one.library and sorted(cache.iterdir()) == made


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "link"])
def test_damaged_object_is_made_again(cache, damage):
    text = KERNELS["total"].replace("32u", f"{32}u /* {damage} */")
    launched("total", text, 1)
    runtime = hostcc._runtime(hostcc.compiler())
    for path in set(cache.iterdir()) - {runtime}:
        data = path.read_bytes()
        path.unlink()  # what is loaded stays as it is
        if damage == "link":
            (cache.parent / path.name).write_bytes(data)
            path.symlink_to(cache.parent / path.name)
        elif damage == "bit":
            path.write_bytes(data[:5000] + bytes([data[5000] ^ 1]) + data[5001:])
        else:
            path.write_bytes(data[: len(data) // 2 if damage == "cut" else 0])
    launched("total", text, 1)
    assert all(p.is_file() and not p.is_symlink() and p.stat().st_size for p in cache.iterdir())


def test_folder_that_others_can_enter_is_refused(cache):
    cache.mkdir(mode=0o700)
    cache.chmod(0o755)
    with pytest.raises(DeviceError, match="must be a folder of your own, closed to others"):
        launched("total", KERNELS["total"], 1)


def test_without_a_cache_nothing_is_kept(cache):
    config.update("enable_compilation_cache", False)
    launched("total", KERNELS["total"], 1)
    assert not cache.exists()


# ---- offsets that 32 bits do not hold ----


def test_offsets_beyond_31_bits():
    """Buffers of which only the touched pages exist, and only the last blocks run."""
    n = 2**32 + 4096
    aval = ShapedArray((n,), np.dtype(np.int8))
    x, y = Var(aval), Var(aval)
    plan = plan_graph(Graph([x], [y], [Eqn(registry["not"], [x], [y], {})]))
    (group,) = plan.groups
    kernel = simulator.Launcher(simulator.emit(group))
    simulator.compile_kernels([kernel])
    library = kernel.library
    assert library is not None
    s = kernel.emitted.schedule
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
    with mmap.mmap(-1, n, flags) as given, mmap.mmap(-1, n, flags) as made:
        given[n - 3 :] = b"abc"
        regions = [
            hostcc.Region(np.frombuffer(b, np.int8).ctypes.data, n, kind, 1, name)
            for b, kind, name in ((given, hostcc.INPUT, "in0"), (made, hostcc.OUTPUT, "out0"))
        ]
        addresses = [r.address for r in regions]
        library.launch(kernel.name, addresses, s.grid, s.threads, regions, 1, (s.grid - 2, 2))
        assert bytes(~np.frombuffer(made[n - 4 :], np.int8)) == b"\0abc"
        assert made[:4] == made[4096:4100] == b"\0\0\0\0"
