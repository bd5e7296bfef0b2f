"""Emitted CUDA text: it compiles everywhere, is the same in every process, and is what was agreed.

In: the samples of all primitives and the golden programs. NVRTC compiles without a GPU; what the
kernels compute is checked where they run, on the simulator and on GPUs.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import nn
from gpuarray.backends.cuda import nvrtc as compiler
from gpuarray.compiler.cuda.emit import KernelSource, Options, emit
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.compiler.text import prelude, types
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.primitive import Kind, registry
from gpuarray.core.target import TARGET
from tests import golden
from tests.samples import Sample, samples
from tests.support import nvrtc
from tests.support.kernels import has_kernel

ROOT = str(golden.HERE.parent.parent)
#: Programs that take several kernels: what waits for all threads of the one before.
SEVERAL = {
    "scatter_add": ["k0_map", "k1_map", "k2_map"],
    "bincount": ["k0_map", "k1_scatter"],
    "groups": ["k0_tables", "k1_columns"],
    "batch_norm": ["k0_columns", "k1_map"],
    "softmax_columns": ["k0_columns", "k1_map"],
    "layer_norm_backwards": ["k0_rowcolumns", "k1_columns"],
    "rms_norm_backwards": ["k0_rowcolumns", "k1_columns"],
    "attention_gradient": [
        *("k0_sweep", "k1_map", "k2_sweep", "k3_map", "k4_sweep", "k5_sweep", "k6_sweep")
    ],
    "clipped_gradients": ["k0_batch", "k1_map", "k2_batch"],
    "recurrent": [],  # its kernels are those of the loop's body
}


def kernels_of(sample: Sample) -> list[KernelSource]:
    """The kernels of one call of a primitive."""
    ins = [Var(a) for a in sample.avals]
    outs = [Var(a) for a in sample.primitive.out_avals(sample.avals, sample.params)]
    eqn = Eqn(sample.primitive, ins, outs, sample.params)
    return [emit(g) for g in plan_graph(Graph(ins, outs, [eqn])).on_device.groups]


@functools.cache
def all_kernels() -> dict[str, str]:
    """The distinct kernels of all samples."""
    return nvrtc.distinct((str(s), k) for s in samples(has_kernel) for k in kernels_of(s))


def one_for_each_primitive(types: bool) -> list[str]:
    """The longest kernel of each primitive, or of each primitive and class of types."""
    best: dict[tuple[str, str], str] = {}
    for body, origin in all_kernels().items():
        name = origin.partition(".")[0]
        key = name, re.sub(r"\d", "", re.sub(r"\[.*", "", origin.partition("-")[2])) * types
        if len(body) > len(best.get(key, "")):
            best[key] = body
    return list(best.values())


# ---- rules ----


@pytest.mark.parametrize("kind", [Kind.POINTWISE, Kind.REDUCTION, Kind.SCAN], ids=lambda k: k.value)
def test_every_primitive_has_a_cuda_rule(kind):
    rule = (lambda p: p.cuda) if kind is Kind.POINTWISE else (lambda p: p.has_fold)
    # An associative scan has a Graph instead of a Fold.
    others = [n for n, p in registry.items() if p.kind is kind and not rule(p)]
    assert others == (["associative_scan"] if kind is Kind.SCAN else [])


def test_a_type_without_a_cuda_type_is_refused_with_advice():
    with pytest.raises(TypeError, match="no CUDA type here: keep it on the CPU"):
        types.memory_type(ShapedArray((8,), dtypes.float0))


def test_what_kernels_hold_has_a_type():
    known = {d for d in vars(dtypes).values() if isinstance(d, np.dtype)}
    assert {d.name for d in known if dtypes.in_kernels(d)} == set(types.TYPES)


# ---- the prelude ----


def test_prelude_blocks_come_once_in_order_and_only_if_used():
    text = prelude.prelude_of("ga_shift_left(ga_min(x, y), z)")
    assert "ga_max" in text and text.count("ga_word(int x)") == 1
    assert text.index("#define GA_INLINE") < text.index("ga_min(") < text.index("ga_shift_left(")
    assert "ga_threefry" not in text and "//@" not in text


def test_prelude_conditional_blocks_need_all_their_conditions():
    position = prelude.prelude_of("ga_warp_reduce ga_argmax")
    assert "ga_arg<T> ga_shuffle" in position
    assert "ga_arg<T> ga_shuffle" not in prelude.prelude_of("ga_warp_reduce ga_c64")
    assert "ga_shuffle" not in prelude.prelude_of("ga_argmax")


def test_prelude_needs_nothing_from_elsewhere():
    for block in prelude.blocks().values():
        assert "#include" not in block.text
        code = re.sub(r"//.*", "", block.text)
        known = set(prelude.blocks()) | {"GA_HOST", "ga_value"}  # 16-bit types bring ga_value
        assert set(re.findall(r"\b(?:ga_\w+|GA_[A-Z]+)\b", code)) <= known


def test_long_functions_are_called_where_a_source_uses_them_often():
    assert "GA_LONG(ga_tan, tan)" in prelude.prelude_of("ga_tan(a); " * TARGET.inlined_calls)
    often = prelude.prelude_of("ga_tan(a); " * (TARGET.inlined_calls + 1) + "ga_asin(b);")
    assert "GA_LONG_CALLED(ga_tan, tan)" in often and "GA_LONG(ga_asin, asin)" in often
    # Of some only the one for double is long.
    often = prelude.prelude_of("ga_sin(a); " * (TARGET.inlined_calls + 1) + "ga_cos(b);")
    assert "GA_LONG_CALLED_DOUBLE(ga_sin, sin)" in often and "GA_LONG_DOUBLE(ga_cos, cos)" in often


# ---- compiling ----


@nvrtc.needed
@pytest.mark.parametrize("arch", ["compute_75", "compute_90"])
def test_every_kernel_is_valid(arch):
    bodies = all_kernels()
    assert len(bodies) > 1000
    for source in nvrtc.sources(bodies, 500):
        nvrtc.check(source, arch)


@nvrtc.needed
def test_a_kernel_that_is_not_valid_is_found():
    *bodies, last = all_kernels()
    for wrong in ("ga_no_such_function(x0)", "float y = ga_add(1.0f, ", "int* y = 1.0f;"):
        (source,) = nvrtc.sources([bodies[0], last.replace("{\n", "{\n    " + wrong + ";\n", 1)])
        with pytest.raises(compiler.CompileError):
            nvrtc.check(source, "compute_75")


@nvrtc.needed
@pytest.mark.parametrize("arch", nvrtc.FEWEST_ARCHS)
def test_every_primitive_assembles(arch, every):
    count = 0
    for source in nvrtc.sources(one_for_each_primitive(every)):
        made = nvrtc.compiled(source, arch)
        assert made.binary[:4] == b"\x7fELF"
        assert all(r.registers > 0 for r in made.kernels.values())
        count += len(made.kernels)
    assert count > (400 if every else 120)


@nvrtc.needed
@pytest.mark.slow
@pytest.mark.parametrize("arch", nvrtc.ARCHS)
def test_every_kernel_assembles(arch):
    for source in nvrtc.sources(all_kernels()):
        assert nvrtc.compiled(source, arch).binary[:4] == b"\x7fELF"


@nvrtc.needed
def test_a_text_with_a_mistake_is_refused_with_the_log():
    with pytest.raises(compiler.CompileError, match='identifier "nonsense" is undefined'):
        compiler.compile("__global__ void k(int* x) { *x = nonsense; }", "compute_90")


# ---- what the text says ----


@pytest.mark.parametrize("name", list(golden.programs()))
def test_golden_text(name):
    kept = golden.path(name)
    assert kept.exists(), "run `python -m tests.golden`"
    assert golden.text(name) == kept.read_text(), "if this is meant: `python -m tests.golden`"


def test_golden_files_belong_to_programs():
    assert {p.stem for p in golden.HERE.glob("*.cu")} == set(golden.programs())


@pytest.mark.parametrize("name", list(golden.programs()))
def test_golden_programs_are_one_kernel_each(name):
    plan = golden.plan(name)
    if name in SEVERAL:
        assert [g.name for g in plan.groups] == SEVERAL[name]
        return
    assert len(plan.groups) == 1
    others = [s for s in plan.device_steps if isinstance(s, Eqn)]
    assert all(s.primitive.kind is Kind.VIEW for s in others)


def test_text_is_the_same_in_every_process():
    program = (
        "import hashlib\nfrom tests import golden\n"
        "texts = ''.join(golden.text(n) for n in golden.programs())\n"
        "print(hashlib.sha256(texts.encode()).hexdigest())"
    )
    # The files, which another process wrote, are what this one makes: see above. A third one:
    env = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": ROOT}
    run = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    texts = "".join(golden.path(n).read_text() for n in golden.programs())
    assert run.stdout.strip() == hashlib.sha256(texts.encode()).hexdigest()


@nvrtc.needed
@pytest.mark.parametrize(
    ("name", "loads", "stores"),
    [("saxpy", 2, 1), ("gelu_bias", 2, 1), ("softmax", 4, 4), ("mean_squared", 2, 0)],
)
def test_memory_is_accessed_16_bytes_at_a_time(name, loads, stores):
    (kernel,) = golden.kernels(name)
    text = nvrtc.ptx(kernel)
    wide = r"ld\.global(?:\.nc)?\.(?:L1::\w+\.)?v(?:4\.[fbu]32|2\.[fbu]64)"
    assert len(re.findall(wide, text)) >= loads
    assert len(re.findall(r"st\.global\.v(?:4\.[fbu]32|2\.[fbu]64)", text)) >= stores


@nvrtc.needed
def test_odd_sizes_are_accessed_one_by_one():
    (kernel,) = golden.kernels("saxpy_odd")
    assert kernel.schedule.width == 1
    assert ".v4." not in nvrtc.ptx(kernel)


def test_an_offset_view_is_not_read_in_vectors_it_is_not_aligned_for():
    def shifted(x):
        return x[1:1025] + 1.0

    (group,) = ga.jit(shifted).lower(golden.shape("float32", 2048)).plan.groups
    assert emit(group).schedule.width == 1


def test_kernels_say_what_they_need_of_a_launch():
    softmax, odd = golden.kernels("softmax")[0], golden.kernels("saxpy_odd")[0]
    assert (softmax.alignment, softmax.threads_meet) == (16, True)
    assert (odd.alignment, odd.threads_meet) == (1, False)


def test_values_that_are_results_have_kernels_of_their_own():
    def counts(x):
        return gnp.arange(5), gnp.arange(7) * x

    text = ga.jit(counts).lower(golden.shape("int32", 7)).cuda_source()
    assert text.count("__global__") == 2 and "iota" in text


def test_a_generator_is_made_where_it_is_read():
    (group,) = golden.plan("cross_entropy").groups
    kernel = emit(group)
    assert len(kernel.inputs) == 2 and re.search(r"x\d = \(int\)\(j \+ e\)", kernel.text)


def test_bits_that_two_kernels_read_are_made_once():
    def twice(key, x):
        bits = ga.random.bits(key, (1 << 20,))
        return gnp.sum(bits), x[:, None] + bits.astype("float32")

    plan = ga.jit(twice).lower(ga.random.key(0), golden.shape("float32", 3)).plan
    made = [
        g
        for g in plan.on_device.groups
        if (c := g.group.copy_of) and c.primitive.name == "random_bits"
    ]
    assert len(made) == (len(plan.groups) > 1)


@pytest.mark.parametrize(
    ("shape", "axis", "kind", "lanes", "splits"),
    [
        ((1000, 8), 1, "rows", 2, 1),  # several rows in a warp
        ((1000, 1024), 1, "rows", 64, 1),
        ((1000, 65536), 1, "rows", 1024, 1),  # a block a row
        ((4, 1 << 20), 1, "rows", 256, 66),  # several blocks a row
        ((1, 1 << 24), 1, "rows", 256, 264),
        ((4096, 64), 0, "columns", 8, 32),  # several blocks a column
        ((256, 1 << 17), 0, "columns", 8, 1),
    ],
)
def test_reductions_fill_the_machine(shape, axis, kind, lanes, splits):
    argument = golden.shape("float32", *shape)
    (group,) = ga.jit(lambda x: gnp.sum(x, axis=axis)).lower(argument).plan.groups
    kernel = emit(group)
    s = kernel.schedule
    assert (kernel.kernel.form, s.lanes, s.splits) == (kind, lanes, splits)
    assert (kernel.workspace > 0) == (splits > 1)
    assert s.threads % 32 == 0 and s.threads <= 1024


def test_workspace_holds_partial_results_and_tickets():
    (kernel,) = golden.kernels("column_sum")
    s = kernel.schedule
    slots, tickets = 1024 * s.splits * 16, 4 * (1024 // 32)
    assert kernel.workspace == slots + tickets
    assert f"tickets = {slots}u" in kernel.text and "ga_put(work, " in kernel.text


def test_user_lines_are_comments_of_shown_text_only():
    (group,) = golden.plan("rms_norm").groups
    assert ".py:" not in emit(group).text
    shown = emit(group, Options(user_lines=True)).text
    assert re.search(r"// .*__init__\.py:\d+", shown)


def test_constants_are_written_out_to_the_bit():
    def f(x):
        return gnp.where(x > 0, -0.0, gnp.nan) + gnp.where(x < 1, -gnp.inf, 1e-45)

    (group,) = ga.jit(f).lower(golden.shape("float32", 8)).plan.groups
    text = emit(group).text
    for constant in ("-0.0f", "GA_NANF", "-GA_INFF", "e-45f"):
        assert constant in text


def test_cuda_source_holds_all_kernels_and_what_they_call():
    def two(x):
        return (x - gnp.sum(gnp.exp(x), axis=0)) @ x.T

    text = ga.jit(two).lower(golden.shape("float32", 8, 4)).cuda_source()
    assert text.index("ga_exp, exp") < text.index("k0_columns(")
    assert "// library dot_general(f32[8,4]" in text
    assert "test_cuda_text.py:" in text and "//@" not in text


@nvrtc.needed
def test_explain_knows_the_kernel_on_a_gpu(assembled):
    def f(x):
        return nn.softmax(x, axis=-1)

    x = golden.shape("float32", 4096, 4096)
    (kernel,) = ga.explain(f, platform="cuda", arch="sm_90")(x).kernels
    assert (kernel.grid, kernel.block, kernel.spills) == (4096, 256, 0)
    assert kernel.registers is not None and 16 <= kernel.registers <= 64
    # 2 x 64 MB at 4.3 TB/s
    assert kernel.roofline_seconds == pytest.approx(2 * 4096 * 4096 * 4 / 4.3e12)
    assert "k0_rows(" in kernel.source
    assert "registers" in str(ga.explain(f, platform="cuda")(x))
    assert ga.explain(f)(x).kernels[0].registers is None


def test_explain_refuses_targets_it_does_not_know():
    with pytest.raises(ValueError, match="platform must be"):
        ga.explain(gnp.sin, platform="metal")
    with pytest.raises(ValueError, match="arch must be one of sm_75"):
        ga.explain(gnp.sin, platform="cuda", arch="sm_10")(golden.shape("float32", 3))
