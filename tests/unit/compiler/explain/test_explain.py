"""`explain`: what it says of kernels whose form is known beforehand, and how it shows it."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.compiler.explain.facts import OperationRecord, StepFacts, Value, tables

ROWS, COLUMNS = 200, 300
X = ga.ShapeDtypeStruct((ROWS, COLUMNS), "float32")
BYTES = ROWS * COLUMNS * 4


def softmax(x):
    e = gnp.exp(x - gnp.max(x, axis=1, keepdims=True))
    return e / gnp.sum(e, axis=1, keepdims=True)


def two_directions(x):
    return gnp.sum(softmax(x), axis=0)


def test_softmax_is_one_kernel_that_reads_once_and_writes_once():
    e = ga.explain(softmax)(X)
    assert e.name == "softmax"
    assert e.launches == 1 and not e.library_calls and not e.why_not_fused
    (kernel,) = e.kernels
    assert kernel.kind == "rows"
    assert kernel.ops == ("reduce_max", "sub", "exp", "reduce_sum", "div")
    assert (kernel.space, kernel.inner) == ((ROWS,), (COLUMNS,))
    assert (kernel.bytes_read, kernel.bytes_written) == (BYTES, BYTES)
    assert e.bytes_moved == 2 * BYTES
    assert e.temporary_bytes == 0


def test_unfused_softmax_moves_what_five_passes_move():
    with ga.fusion(False):
        e = ga.explain(softmax)(X)
    column = ROWS * 4
    moved = [
        (BYTES, column),  # maximum
        (BYTES + column, BYTES),  # difference
        (BYTES, BYTES),  # exponential
        (BYTES, column),  # sum
        (BYTES + column, BYTES),  # quotient
    ]
    assert [(k.bytes_read, k.bytes_written) for k in e.kernels] == moved
    assert e.bytes_unfused == e.bytes_moved == ga.explain(softmax)(X).bytes_unfused
    assert {b.reason for b in e.why_not_fused} == {"fusion is switched off"}


def test_user_lines_are_the_lines_of_this_file():
    first = softmax.__code__.co_firstlineno
    (kernel,) = ga.explain(softmax)(X).kernels
    assert kernel.user_lines == (f"test_explain.py:{first + 1}", f"test_explain.py:{first + 2}")
    assert tables.line_ranges(kernel) == f"test_explain.py:{first + 1}-{first + 2}"
    assert {o.function for o in kernel.operations} == {"softmax"}


def test_two_reductions_over_different_axes_are_two_kernels_with_a_reason():
    e = ga.explain(two_directions)(X)
    assert [k.kind for k in e.kernels] == ["rows", "columns"]
    (boundary,) = e.why_not_fused
    assert (boundary.first, boundary.second) == (e.kernels[0].name, e.kernels[1].name)
    assert "axes" in boundary.reason
    # The array between them is one value: written by the first, read by the second.
    assert e.kernels[0].outputs == e.kernels[1].inputs


def test_library_steps_are_told_apart():
    e = ga.explain(lambda a, b: gnp.sin(a) @ b + 1.0)(
        X, ga.ShapeDtypeStruct((COLUMNS, 8), "float32")
    )
    assert [s.kind for s in e.steps] == ["map", "library", "map"]
    assert [s.ops for s in e.library_calls] == [("dot_general",)]
    assert e.launches == 3
    assert len(e.why_not_fused) == 2
    assert all("dot_general" in b.reason for b in e.why_not_fused)


def test_nothing_to_do_is_explained_too():
    e = ga.explain(lambda x: x)(X)
    assert (e.launches, e.bytes_moved) == (0, 0)
    assert "0 kernels" in str(e)
    ElementTree.fromstring(e.to_svg())


# ---- what is stored and what is computed where it is read ----


def padded(x):
    y = gnp.cumsum(x, axis=1)
    padded = lax.pad(y, 0.0, [(1, 1, 0), (0, 0, 0)])
    return padded[1:] - padded[:-1]


def by_operation(e):
    return {(i.operation.name, i.text): i for i in e.intermediates}


def test_intermediates_are_stored_or_computed_for_a_reason():
    e = ga.explain(padded, platform="cuda")(X)
    found = by_operation(e)
    stored = found["cumsum", f"f32[{ROWS},{COLUMNS}]"]
    computed = found["pad", f"f32[{ROWS + 2},{COLUMNS}]"]
    assert (stored.stored, stored.steps) == (True, (e.kernels[0].name,))
    assert (computed.stored, computed.steps) == (False, (e.kernels[1].name,))
    assert "kernel of its own" in stored.reason and "reading it" in computed.reason
    assert computed.thresholds == ("Target.free",)
    # Half of the elements are read twice, the rest once and never.
    assert (computed.cost, round(computed.times or 0)) == (2.0, 2)
    line = padded.__code__.co_firstlineno + 2
    text = f"pad f32[{ROWS + 2},{COLUMNS}] (test_explain.py:{line}) is computed in k1_map: "
    assert str(computed).startswith(text)
    # The same in native code. NumPy runs steps as they were fused: nothing was decided.
    assert by_operation(ga.explain(padded, platform="native")(X)).keys() == found.keys()
    assert ga.explain(padded)(X).intermediates == ()


@pytest.mark.parametrize("platform", ["cuda", "native"])
def test_intermediates_are_where_they_are_said_to_be(platform):
    def program(x, w):
        y = gnp.tanh(x) * 2
        z = gnp.pad(y, 1)
        return gnp.sum(z[1:] * z[:-1], axis=0), y @ w, gnp.cumsum(y[::2], axis=1)[3]

    e = ga.explain(program, platform=platform)(X, ga.ShapeDtypeStruct((COLUMNS, 8), "float32"))
    steps = {s.name: s for s in e.steps}
    written = {v.text for s in e.steps for v in s.outputs}
    assert {i.stored for i in e.intermediates} == {True, False}
    for i in e.intermediates:
        assert i.steps and steps.keys() >= set(i.steps)
        assert i.stored == (i.text in written)
        assert all(i.operation.name in steps[name].ops for name in i.steps)


def test_a_jitted_function_keeps_its_options():
    @ga.jit
    def f(x):
        return x + 1.0

    assert ga.explain(f)(X).name == "f"
    power = ga.jit(lambda x, n: x**n, static_argnums=1)
    assert ga.explain(power)(X, 3).kernels[0].ops == ("integer_pow",)
    assert ga.explain(lambda x, n: x**n, static_argnames="n")(X, n=2).launches == 1


def test_what_is_not_a_function_is_refused():
    with pytest.raises(TypeError, match="Expected a callable value, got 3"):
        ga.explain(3)


# ---- how it is shown ----


def test_the_table_has_a_row_a_step_and_the_reasons():
    text = str(ga.explain(two_directions)(X))
    head, _, columns, *rows = text.splitlines()
    assert head.startswith("two_directions: 2 kernels, ")
    assert columns.split() == "step space operations reads writes mul-adds lines".split()
    assert rows[0].split()[1:4] == [str(ROWS), "x", f"[{COLUMNS}]"]
    assert "not fused:" in rows


def test_a_kernel_prints_its_operations_with_their_lines():
    text = str(ga.explain(softmax)(X).kernels[0])
    head, *body = text.splitlines()
    assert head.endswith("240 kB read, 240 kB written")
    assert len(body) == 5
    assert all("# test_explain.py:" in line for line in body)
    assert "=> out" in body[-1]


def test_the_picture_is_svg_with_a_box_a_step_and_an_arrow_a_value():
    e = ga.explain(two_directions)(X)
    root = ElementTree.fromstring(e.to_svg())
    space = "{http://www.w3.org/2000/svg}"
    boxes = [r for r in root.iter(f"{space}rect") if r.get("rx") == "6"]
    arrows = [p for p in root.iter(f"{space}path") if p.get("marker-end")]
    assert (len(boxes), len(arrows)) == (2, 1)
    words = [t.text for t in root.iter(f"{space}text")]
    assert f"f32[{ROWS},{COLUMNS}] 240 kB" in words
    assert e.to_svg() == ga.explain(two_directions)(X).to_svg()


def test_long_kernels_are_cut_in_the_picture_only():
    def long(x):
        for _ in range(40):
            x = gnp.sin(x) + 1.0
        return x

    e = ga.explain(long)(X)
    assert len(e.kernels[0].operations) == 80
    assert "more ..." in e.to_svg()
    assert "v79 = add" in str(e.kernels[0])


def test_the_page_shows_the_users_lines_and_escapes_them():
    def compare(x):
        return gnp.where(x < 1.0, x, 1.0)  # a sign that HTML gives a meaning

    page = ga.explain(compare)(X).to_html()
    assert "gnp.where(x &lt; 1.0, x, 1.0)" in page
    assert "x < 1.0" not in page


def test_facts_of_a_target_are_shown_by_name():
    operation = OperationRecord("sin", "v0 = sin(in0)  => out")
    value = Value(0, "f32[4]", 16)
    kernel = StepFacts(
        "k0_map", "map", (operation,), (value,), (value,), 4.0, (4,), (), {"registers": 32}
    )
    assert "    registers: 32" in str(kernel)
    assert kernel.user_lines == ()


@pytest.mark.parametrize(
    ("nbytes", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (123_456_789, "123 MB")]
)
def test_sizes(nbytes, text):
    assert tables.size(nbytes) == text


def test_columns_line_up():
    rows = [("a", "1"), ("long", "1000")]
    assert tables.columns(rows, right=[1]) == ["a        1", "long  1000"]
    assert tables.columns([]) == []


def test_explaining_computes_nothing():
    x = gnp.ones((4, 4))
    seen = []

    def f(x):
        seen.append(type(x).__name__)
        return x + 1

    ga.explain(f)(x)
    ga.explain(f)(np.ones((4, 4), np.float32))
    assert all("Tracer" in name for name in seen)
