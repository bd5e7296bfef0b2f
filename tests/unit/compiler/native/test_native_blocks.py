"""Native text is written from top to bottom: nested blocks, and facts that are noted on the way."""

from __future__ import annotations

import ast
import pathlib

import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.compiler import native
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.native.code import Code
from gpuarray.compiler.native.emit import emit
from tests import golden


def test_blocks_nest():
    code = Code(depth=0)
    with code.block("for (;;) {"):
        with code.block("if (x) {", ""):
            code.line("a();")
        with code.block("} else {"):
            code.line("b();")
    assert code.lines == [
        "for (;;) {", "    if (x) {", "        a();", "    } else {", "        b();", "    }", "}"
    ]  # fmt: skip


def test_what_is_written_apart_is_indented_where_it_is_put():
    code = Code()
    with code.apart() as turn:
        with code.block("if (x) {"):
            code.line("a();")
        work = len(turn)
    assert code.lines == []
    with code.block(f"for (int i = 0; i < {work}; ++i) {{"):
        code.put(turn)
    assert code.lines == [
        "    for (int i = 0; i < 3; ++i) {",
        "        if (x) {", "            a();", "        }",
        "    }",
    ]  # fmt: skip


def misplaced(text: str) -> list[str]:
    """The lines of a text that are not as deep as their braces."""
    found, depth, brackets, alone = [], 0, 0, False
    for line in text.splitlines():
        code = line.partition("//")[0].strip()
        if not code or code.startswith("#"):
            continue
        expected = 4 * (depth - code.startswith("}") + alone)
        # Lines that go on are indented as they read best.
        if not brackets and code[0] not in "?:" and len(line) - len(line.lstrip()) != expected:
            found.append(line)
        # Brackets around a lambda are open while its body is written.
        opened = "[&]" in code and code.endswith("{")
        brackets = 0 if opened or code == "});" else brackets + code.count("(") - code.count(")")
        depth += code.count("{") - code.count("}")
        alone = code.startswith("if (") and code.endswith(")")
    return found


LOOPS = {
    "spans of blocks": lambda x: lax.fori_loop(0, 300, lambda _, y: gnp.sin(y) * 0.9, x),
    "blocks until": lambda x: lax.while_loop(
        lambda s: gnp.any(s[0] > 1), lambda s: (s[0] / 2, s[1] + 1), (x, 0)
    ),
    "turns": lambda x: lax.scan(lambda c, y: (c + y, c[0]), x[0], x),
    "branches": lambda x: lax.switch(2, [gnp.sin, gnp.cos, gnp.tan], x),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_are_as_deep_as_their_braces(name):
    shape = ga.ShapeDtypeStruct((1024, 1024), "float32")
    source = ga.jit(LOOPS[name]).lower(shape).cpp_source()
    own = source[source.index("// routine") if "// routine" in source else 0 :]
    assert not misplaced(own)


def kernels():
    for name in golden.programs():
        function, arguments = golden.programs()[name]
        steps = ga.jit(function).lower(*arguments).plan.on_native.steps
        yield from (s for s in steps if isinstance(s, Kernel))


def test_kernels_are_as_deep_as_their_braces():
    for kernel in kernels():
        assert not misplaced(emit(kernel).text)


def test_arguments_are_those_that_the_lines_name():
    for kernel in kernels():
        for function in emit(kernel).body:
            names = {name for _, name in function.given}
            text = "\n".join(function.lines)
            assert all(name in text for name in names)
            assert not any(f"{other}[" in text for other in ({"in0", "in1", "out0"} - names))


#: Where text is what comes in: names of a unit's functions, of functions with a shorter way, and of
#: the values that a line of a turn reads.
OF_TEXT = {"emit", "writer", "halves"}


def test_no_module_searches_what_it_wrote():
    """What decides how text is written is noted when it is written (facts.py)."""
    folder = pathlib.Path(native.__file__).parent
    searching = set()
    for path in folder.glob("*.py"):
        tree = ast.parse(path.read_text())
        modules = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
        searching |= {path.stem} & {path.stem if "re" in modules else ""}
    assert searching == OF_TEXT


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        (lambda x: x.sum(1), False),
        (lambda x: x[:, ::-1].sum(1), True),  # from the end
        (lambda x: gnp.pad(x, ((0, 0), (0, 3))).sum(1), False),  # split where the condition ends
        (lambda x: gnp.where(gnp.arange(8) % 3 == 1, x, 0).sum(1), False),  # read in any case
        (lambda x: lax.pad(x, 0.0, ((0, 0, 0), (0, 0, 1))).sum(1), True),  # under a condition
    ],
)
def test_which_short_loops_stay_loops(function, kept):
    """g++ 12 makes wrong vectors of the loop around some, once they are unrolled."""
    (kernel,) = ga.jit(function).lower(golden.shape("float32", 1000, 8)).plan.on_native.steps
    assert ("#pragma GCC unroll 1\n        for" in emit(kernel).text) == kept
