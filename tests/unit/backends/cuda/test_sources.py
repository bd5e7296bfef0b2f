"""What is compiled for a plan: each text once, for as many lengths as may be, in few sources."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import nn
from gpuarray.backends.cuda import cubins, kernels, nvrtc, sources
from gpuarray.compiler.cuda.emit import emit
from gpuarray.compiler.text.plain import without_comments
from gpuarray.config import config
from gpuarray.core.graph import Eqn


@pytest.fixture(autouse=True)
def nothing_kept(tmp_path):
    """An empty folder, and no memory of what was compiled."""
    tmp_path.chmod(0o700)
    config.update("cache_dir", str(tmp_path))
    cubins.forget()
    sources._seen.clear()
    yield
    cubins.forget()
    sources._seen.clear()


class Compiler:
    """Counts what it compiles."""

    def __init__(self):
        self.texts = []

    def __call__(self, source, arch, options):
        self.texts.append(source)
        return nvrtc.CompileResult(source.encode(), "", 0.0, {})


def emitted(f, *shapes, dtype="float32"):
    plan = ga.jit(f).lower(*[ga.ShapeDtypeStruct(s, dtype) for s in shapes]).plan
    return [emit(s) for s in plan.on_device.steps if not isinstance(s, Eqn)]


def compile(compiler, f, *shapes):
    return kernels.compiled(emitted(f, *shapes), "sm_90", (13, 0), compiler)


# ---- comments ----
@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a // b", "a"),
        ("a /* b */ c", "a  c"),
        ("a/*\n*/c", "a\nc"),
        ("// a \\\nstill\nb", "\n\nb"),
        ('x = "// no"; // yes', 'x = "// no";'),
        (r'x = "\"// no"; // yes', r'x = "\"// no";'),
        ("c = '\"'; // yes", "c = '\"';"),
        ('R"x(// no )" // no)x" // yes', 'R"x(// no )" // no)x"'),
        ("a / b * c", "a / b * c"),
        ("1'000 // yes", "1'000"),
    ],
)
def test_comments_go_and_lines_stay(text, plain):
    found = without_comments(text)
    assert found == plain and found.count("\n") == text.count("\n")


def test_what_only_readers_see_is_no_reason_to_compile():
    compiler = Compiler()
    for rows in (2000, 2008, 4096):  # multiples of the rows of a block
        compile(compiler, nn.softmax, (rows, 512))
    assert len(compiler.texts) == 1 and "//" not in compiler.texts[0]
    (kernel,) = emitted(nn.softmax, (2000, 512))
    assert "2000" in kernel.text  # the text that is shown still says it


# ---- lengths ----
LENGTHS = {
    "map": lambda x: gnp.tanh(x) * 2,
    "softmax": nn.softmax,
    "norm": lambda x: (x - x.mean(-1, keepdims=True)) / gnp.sqrt(x.var(-1, keepdims=True) + 1e-5),
    "several": lambda x: (nn.relu(x), nn.softmax(x).max(-1)),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_a_thousand_lengths_of_a_batch_compile_four_times_at_most(name, every):
    compiler, f = Compiler(), LENGTHS[name]
    for rows in range(1, 1001, 1 if every else 41):
        compile(compiler, f, (rows, 512))
    assert 1 <= len(compiler.texts) <= 4


def test_a_program_of_one_length_has_it_as_a_constant():
    compiler, f = Compiler(), LENGTHS["softmax"]
    for _ in range(2):
        form, _ = compile(compiler, f, (2001, 512))
        assert "2001u" in form.text and "length0" not in form.text
        assert [*form.calls.values()] == [("k0_rows", ())]
    form, _ = compile(compiler, f, (2002, 512))
    assert "2002u" not in form.text and [*form.calls.values()] == [("k0_rows", (2002,))]
    assert "const unsigned length0) {" in form.text
    assert compile(compiler, f, (2003, 512))[0].calls["k0_rows"] == ("k0_rows", (2003,))
    # What was compiled with a constant is found again, whatever came later.
    assert compile(compiler, f, (2001, 512))[0].calls["k0_rows"] == ("k0_rows", ())
    assert len(compiler.texts) == 2


def test_a_length_that_anything_else_depends_on_stays():
    compiler = Compiler()
    for rows in (1001, 1003):
        form, _ = compile(compiler, lambda x: x.mean(0), (rows, 512))
        assert str(rows) in form.sources[0].text.partition("__global__")[2]
    assert len(compiler.texts) == 2


# ---- distinct texts, several sources ----
def test_kernels_of_one_text_are_one():
    def f(*xs):
        return [nn.softmax(x) for x in xs]

    compiler = Compiler()
    form, _ = compile(compiler, f, *[(n, 512) for n in (2000, 2008, 2001, 3001)])
    assert len(compiler.texts) == 1 and compiler.texts[0].count("__global__") == 2
    assert [*form.calls.values()] == [
        ("k0_rows", ()), ("k0_rows", ()), ("k2_rows", (2001,)), ("k2_rows", (3001,)),
    ]  # fmt: skip
    assert "// k1_rows is k0_rows, too" in form.text


def test_many_kernels_are_several_sources(monkeypatch):
    monkeypatch.setattr(sources, "TOGETHER", 3)

    def f(*xs):
        return [nn.softmax(x) for x in xs]

    compiler, shapes = Compiler(), [(64, 512 + 64 * i) for i in range(7)]
    form, made = compile(compiler, f, *shapes)
    assert [len(s.names) for s in form.sources] == [2, 2, 3] and len(made) == 3
    assert sorted(without_comments(s.text) for s in form.sources) == sorted(compiler.texts)
    compile(compiler, f, *shapes)
    assert len(compiler.texts) == 3


# ---- on the stand-in ----
def test_lengths_on_a_gpu(fake_gpu, rng, monkeypatch):
    monkeypatch.setattr(sources, "TOGETHER", 1)

    def f(x):
        return nn.softmax(x), gnp.tanh(x[:, :7]) * 2

    for rows in (5, 13, 9, 5, 8, 21):
        x = rng.normal(size=(rows, 100)).astype("float32")
        e = np.exp(x.astype("float64"))
        first, second = ga.jit(f)(gnp.asarray(x))
        np.testing.assert_allclose(first, e / e.sum(1, keepdims=True), rtol=1e-5)
        np.testing.assert_allclose(second, np.tanh(x[:, :7]) * 2, rtol=1e-5)
    # Constants, arguments, and a number of rows without a remainder.
    assert fake_gpu.counts["compile"] <= 7


def test_hand_written_kernels_keep_their_parameters():
    source = """
    extern "C" __global__ void twice(const float* x, float* out) {
        const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= 7u) return;
        out[i] = 2 * x[i];  // f32
    }
    """
    twice = ga.cuda_op(source, "twice", out=lambda x: x, numpy=lambda x: 2 * x)
    (kernel,) = emitted(twice, (7,))
    assert sources.general([kernel]).calls == {kernel.name: (kernel.name, ())}
