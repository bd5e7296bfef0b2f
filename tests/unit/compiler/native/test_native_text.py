"""Native text: the golden programs, and what the compiler makes of their loops.

In: the golden programs, elementary functions. Out: texts as they are kept; machine code with packed
instructions and no call inside its loops.
"""

from __future__ import annotations

import platform
import re
import subprocess

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.backends import hostcc
from gpuarray.backends.native import library
from gpuarray.backends.native.program import planned
from gpuarray.compiler.lower.kernel import Kernel, NoKernel
from gpuarray.compiler.native.emit import emit, unit
from gpuarray.compiler.native.loops import RoutineWriter
from gpuarray.compiler.native.schedule import FORMS, cut_axes, pieces_of
from gpuarray.compiler.text import prelude
from tests import golden
from tests.support import natively

natively.need_compiler()

needs_packed = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the names of packed instructions are those of x86"
)


@pytest.mark.parametrize("name", golden.NATIVE)
def test_golden_text(name):
    kept = golden.native_path(name)
    assert kept.exists(), "run `python -m tests.golden`"
    assert golden.native_text(name) == kept.read_text(), (
        "if this is meant: `python -m tests.golden`"
    )


def test_golden_files_belong_to_programs():
    assert {p.stem for p in golden.HERE.glob("*.cpp")} == set(golden.NATIVE)


def test_arrays_on_the_stack_say_their_alignment():
    """Those of hand-written text, too; `compile_all` asks it of what tests compile."""
    texts = {name: golden.native_text(name) for name in golden.NATIVE}
    texts |= {p.name: p.read_text() for p in (prelude.folder() / "native").iterdir()}
    assert {
        name: found for name, t in texts.items() if (found := natively.UNALIGNED.findall(t))
    } == {}
    assert sum(t.count("GA_LOCAL") for t in texts.values()) > 30
    for text in ("    float kept[4];", "    T a[N], b[2 * N];"):
        assert natively.UNALIGNED.search(text)


# ---- machine code ----


def steps_of(function, *arguments):
    return ga.jit(function).lower(*arguments).plan.on_native.steps


def assembly(function, *arguments) -> str:
    """The machine code of a function's kernels, as the library compiles them."""
    return compiled(unit([emit(s) for s in steps_of(function, *arguments)])[0])


def compiled(text: str) -> str:
    cxx = hostcc.compiler()
    command = [cxx, *library._FLAGS, *library._tuned(cxx), "-S", "-o", "-", "-x", "c++", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout


FUNCTIONS = {
    "exp": gnp.exp, "expm1": gnp.expm1, "log": gnp.log, "log1p": gnp.log1p, "tanh": gnp.tanh,
    "logistic": nn.sigmoid, "erf": lax.erf, "sin": gnp.sin, "cos": gnp.cos, "gelu": nn.gelu,
    "exp2": gnp.exp2, "sinh": gnp.sinh, "cosh": gnp.cosh, "asinh": gnp.arcsinh,
    "acosh": gnp.arccosh, "atanh": gnp.arctanh, "erfc": lax.erfc, "pow": lambda x: x**x,
    "tan": gnp.tan, "atan": gnp.arctan, "asin": gnp.arcsin, "acos": gnp.arccos,
    "atan2": lambda x: gnp.arctan2(x, x + 1), "cbrt": gnp.cbrt,
    "whole": lambda x: gnp.floor(x).astype("int32") < 7,
    "chain": lambda x: (x * 2 + 1) / 3, "choice": nn.relu,
    "size": lambda x: gnp.abs(lax.complex(x, x + 1)),
    "sum": gnp.sum, "softmax": nn.softmax, "largest": gnp.max,
}  # fmt: skip


def calls_in(code: str) -> set[str]:
    """The functions of other libraries that machine code calls; memory between phases is theirs."""
    return set(re.findall(r"\b(?:call|jmp)\s+(\w+)@PLT", code)) - {"malloc", "free"}


@needs_packed
def test_loops_are_packed():
    """All in one text: arithmetic on vectors, and no call of the C library."""
    functions = list(FUNCTIONS.values())
    arguments = [golden.shape("float32", 1 << 20)] * len(functions)
    code = assembly(lambda *xs: [f(x) for f, x in zip(functions, xs, strict=True)], *arguments)
    assert not calls_in(code)
    assert len(re.findall(r"\bv?mulps\b|\bvfn?m(?:add|sub)\d+ps\b", code)) > 100


@needs_packed
@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_loop_is_packed(name):
    code = assembly(FUNCTIONS[name], golden.shape("float32", 1 << 20))
    assert not calls_in(code)
    assert re.search(r"\bv?(?:mul|add|max)ps\b", code)


@needs_packed
@pytest.mark.parametrize("length", [40, 100, 3000])
def test_positions_of_extremes_are_packed(length):
    """In lanes, and of the rest behind them: a number compared alone would be a branch."""
    code = assembly(lambda x: gnp.argmax(x, 1), golden.shape("float32", 1000, length))
    assert len(re.findall(r"\bv?cmp\w*ps\b", code)) > len(re.findall(r"\bv?u?comiss\b", code))


@needs_packed
@pytest.mark.parametrize("function", [lambda x: lax.top_k(x, 8), lambda x: gnp.argsort(x, 1)])
def test_sorts_of_rows_are_packed(function):
    """Keys are made and compared many at a time."""
    lowered = ga.jit(function).lower(golden.shape("float32", 1000, 64))
    written = natively.written(lowered.jaxpr)
    code = compiled(unit(written.kernels)[0])
    # Without AVX-512 the largest of two unsigned numbers takes part in their comparison.
    assert len(re.findall(r"\bv?pcmp(?:gt|eq|u)?d\b|\bv?pcmpud\b|\bv?pm(?:in|ax)ud\b", code)) >= 2
    assert not calls_in(code)


# ---- what has no text ----


def test_forms_without_text_say_so():
    (kernel,) = golden.plan("sort_rows").groups
    assert isinstance(kernel, Kernel)
    assert type(kernel) not in FORMS
    with pytest.raises(NoKernel, match="'sort' have no native text yet"):
        emit(kernel)


def test_what_has_no_text_stays_a_step_of_its_own():
    """A sort of many values is NumPy's, which is not worse than before."""
    f = lambda x: (gnp.cumsum(x * 2, 0), gnp.sort(x, 1))
    steps = steps_of(f, golden.shape("float32", 4096, 8))
    assert [s.primitive.name for s in steps if not isinstance(s, Kernel)] == ["sort"]


# ---- loops that were not packed ----


@needs_packed
@pytest.mark.parametrize("find", [gnp.argmax, gnp.argmin])
def test_places_in_short_rows_are_packed(find):
    """No comparison of one number, behind which a branch would be."""
    code = assembly(lambda x: find(x, 1), golden.shape("float32", 4096, 4))
    assert not re.search(r"\bv?u?comiss\b", code)


@needs_packed
@pytest.mark.parametrize(
    "joined",
    [
        lambda i, x: (i % 2 == 0) & (x > 0),
        lambda i, x: (i % 2 != 0) | ~(x > 0),
        lambda i, x: ((i & 1) == 1) ^ (x > 0) & (x < 1),
    ],
)
def test_tests_of_parity_and_of_floats_are_packed(joined):
    """Joined, g++ makes a loop over single elements of them; it does not of choices."""
    function = lambda i, x, y: gnp.where(joined(i, x), x * y, y)
    arguments = golden.shape("int32", 1 << 20), *[golden.shape("float32", 1 << 20)] * 2
    code = assembly(function, *arguments)
    assert len(re.findall(r"\bv?mulps\b", code)) > 0


def test_bools_in_memory_are_joined_as_they_are():
    """Choices between them would be branches."""
    function = lambda a, b: ((a & b) | (a ^ b)) & (~b | a)
    (step,) = steps_of(function, *[golden.shape("bool", 1 << 20)] * 2)
    assert " ? " not in emit(step).functions


@needs_packed
def test_rows_that_are_looked_up_are_packed():
    """The place of a row is looked up once, before the loops along it."""
    rows = lambda x, i: nn.log_softmax(x[i])
    arguments = golden.shape("float32", 200, 200), golden.shape("int32", 4)
    (step,) = steps_of(rows, *arguments)
    assert emit(step).functions.count("ga_clip") + emit(step).functions.count("ga_find") == 1
    code = assembly(rows, *arguments)
    # The exponentials' are on vectors, the logarithm's, one a row, on numbers.
    vectors, numbers = (len(re.findall(rf"\b(?:v?mul|vfn?m\w+){k}\b", code)) for k in ("ps", "ss"))
    assert vectors > 2 * numbers


@needs_packed
def test_zeta_functions_are_packed():
    functions = (lambda x: lax.polygamma(1.0, x), lambda x: lax.zeta(x + 1, x))
    code = assembly(lambda x: [f(x) for f in functions], golden.shape("float32", 1 << 20))
    # What calls the C library is the way for numbers that are far.
    assert calls_in(code) <= {"pow", "fmod"}
    assert len(re.findall(r"\bv?divpd\b", code)) >= 8


@needs_packed
def test_windows_are_summed_by_fused_operations_on_vectors():
    """In registers, whatever the flags say of products and sums that stand beside each other."""
    numbers = ("NHWC", "HWIO", "NHWC")
    f = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)
    arguments = golden.shape("float32", 4, 16, 16, 8), golden.shape("float32", 3, 3, 8, 32)
    (step,) = steps_of(f, *arguments)
    routine = RoutineWriter("conv", planned).routine([step], step.outvars)
    text, _ = unit([routine])
    cxx = hostcc.compiler()
    command = [cxx, *library._FLAGS, "-march=x86-64-v3", "-S", "-o", "-", "-x", "c++", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    assert len(re.findall(r"\bvfmadd\d+ps\b.*%ymm", done.stdout)) >= 12
    assert not re.search(r"\bvmulps\b", done.stdout)


@pytest.mark.parametrize("alone", [True, False])
def test_what_is_read_under_conditions_does_not_keep_much_work_from_being_packed(alone):
    """Padding and joined values are in memory before a loop of exponentials and logarithms."""

    def step(x):
        left = gnp.pad(x, ((0, 0), (1, 0)), constant_values=-1.0)[:, :-1]
        joined = gnp.concatenate([x[:, 4:], x[:, :4]], 1)
        return gnp.logaddexp(left, x) if alone else gnp.logaddexp(left, joined)

    shape = golden.shape("float32", 8, 31)
    kernels = steps_of(step, shape)
    assert len(kernels[-1].order) == 1  # one loop over all elements
    code = assembly(step, shape)
    assert len(re.findall(r"\bvfn?m(?:add|sub)\d+ps\b", code)) > 10
    # A few lines of cheap work stay one kernel.
    assert len(steps_of(lambda x: gnp.pad(x, ((0, 0), (1, 0)))[:, :-1] * 2 + x, shape)) == 1


# ---- tasks ----


def test_axes_are_cut_where_there_are_few():
    assert cut_axes([2000, 3000]) == (1, 0)
    assert cut_axes([900, 5, 3]) == (1, 0)
    outer, cut = cut_axes([2, 8_000_000])
    assert outer == 1
    assert 0 < cut < 100_000


def test_rows_are_cut_where_they_are_few():
    assert pieces_of(1000, [100_000]) == (1, 100_000)
    pieces, length = pieces_of(1, [8_000_000])
    assert pieces > 30
    assert (pieces - 1) * length < 8_000_000 <= pieces * length


def arities(block, name: str) -> set[int]:
    """With how many arguments a block defines a function; empty if it is none."""
    found = re.findall(rf"\b{name}\(([^()]*)\)\s*\{{", block.text)
    counts = {len(x.split(",")) if x.strip() else 0 for x in found}
    # A pack of parameters takes any number of them.
    return counts | (set(range(max(counts), 10)) if any("..." in x for x in found) else set())


def test_what_takes_the_place_of_the_prelude_is_called_alike():
    # A name that is the prelude's by accident hides a function that other blocks call.
    theirs, ours = prelude.blocks(), prelude.blocks(native=True)
    shared = [n for n in theirs if n in ours and theirs[n].text != ours[n].text]
    assert len(shared) > 10
    for name in shared:
        before, now = arities(theirs[name], name), arities(ours[name], name)
        assert not before or not now or before & now, name
        # A variable of that name hides a function.
        assert not re.search(rf"\b{name} = ", ours[name].text), name


def test_a_block_is_replaced_whole(monkeypatch):
    def block(names):
        return [("9.cuh", prelude.Block(0, tuple(names.split()), (), names, frozenset()))]

    texts = {"native": block("ga_one ga_two"), "prelude": block("ga_two ga_three")}
    monkeypatch.setattr(prelude, "_read", texts.__getitem__)
    with pytest.raises(ValueError, match="native code has all but ga_three"):
        prelude.blocks.__wrapped__(native=True)


# ---- values chosen by position ----


def lorenz(s):
    x, y, z = s
    return gnp.stack([10 * (y - x), x * (28 - z) - y, x * y - z])


@needs_packed
def test_rows_that_are_stacked_are_computed_together():
    code = assembly(lorenz, golden.shape("float32", 3, 1000))
    text, _ = unit([emit(s) for s in steps_of(lorenz, golden.shape("float32", 3, 1000))])
    assert "ga_each<3>(" in text
    # One loop, in which each row is read once and written once.
    assert len(re.findall(r"\bvsubps\b", code)) >= 4
    assert not calls_in(code)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("lengths", [(40, 50), (1, 3), (3, 1)])
def test_stacks_of_any_axis(axis, lengths):
    function = lambda x, y: gnp.stack([x * y, x - y, gnp.abs(x), y], axis) * 2
    xs = [
        np.arange(n * 1.0, n + np.prod(lengths), dtype=np.float32).reshape(lengths) for n in (3, 5)
    ]
    program = natively.written(ga.jit(function).lower(*xs).jaxpr)
    natively.compile_all([program])
    (found,) = program(*xs)
    x, y = xs
    np.testing.assert_array_equal(found, np.stack([x * y, x - y, np.abs(x), y], axis) * 2)
    assert "ga_each<4>(" in program.kernels[0].text


def test_blocks_use_what_some_block_provides():
    """A function that another block defines without providing it is there by accident only."""
    table = prelude.blocks(native=True)
    always = "".join(
        (prelude.folder() / place).read_text() for place in ("host/names.h", "native/tasks.h")
    )
    known = set(table) | set(re.findall(r"\b(?:ga|GA)_\w+", always))
    known.add("ga_value")  # comes with the type that it reads
    for block in {b.order: b for b in table.values()}.values():
        code = re.sub(r"//.*", "", block.text)
        own = set(re.findall(r"(?:struct|class|union) (ga_\w+)|#define (GA_\w+)", code))
        own = {name for pair in own for name in pair} | set(re.findall(r"[\w>&*] (ga_\w+)\(", code))
        assert set(re.findall(r"\b(?:ga|GA)_\w+\b", code)) <= known | own, block.provides


COMPLEX = {
    "arithmetic": lambda a, b: a * b + a,
    "a choice": lambda a, b: gnp.where(a.real > 0, a - b, b),
    "by a size": lambda a, b: gnp.where(abs(a) < 2, a + b, a),
}


@needs_packed
@pytest.mark.parametrize("name", COMPLEX)
def test_loops_of_complex_numbers_are_packed(name):
    """Both parts in vectors."""
    code = assembly(COMPLEX[name], *[golden.shape("complex64", 1 << 20)] * 2)
    packed, alone = (len(re.findall(rf"\bv?(?:mul|add|sub){k}\b", code)) for k in ("ps", "ss"))
    assert packed > alone, (packed, alone)
