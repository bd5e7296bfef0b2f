"""Containers in callbacks: results in any that have the right leaves; printed values are arrays."""

import re

import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.experimental import io_callback

OUT = ga.ShapeDtypeStruct((), "float32")
ONE = gnp.float32(1)

#: What is promised, and what the function returns for it.
ALIKE = {
    "list for tuple": ((OUT, OUT), lambda x: [x, x + 1]),
    "tuple for list": ([OUT, OUT], lambda x: (x, x + 1)),
    "other names": ({"a": OUT, "b": OUT}, lambda x: {"c": x, "d": x + 1}),
    "deeper": ({"a": OUT, "b": [OUT]}, lambda x: [[x], x + 1]),
}


@pytest.mark.parametrize("call", [ga.pure_callback, io_callback])
@pytest.mark.parametrize(("promised", "f"), ALIKE.values(), ids=ALIKE)
def test_results_get_the_containers_that_were_promised(call, promised, f):
    for run in (lambda x: call(f, promised, x), ga.jit(lambda x: call(f, promised, x))):
        found = run(ONE)
        assert ga.tree.structure(found) == ga.tree.structure(promised)
        assert [float(x) for x in ga.tree.leaves(found)] == [1.0, 2.0]


@pytest.mark.parametrize("f", [lambda x: [x], lambda x: None, lambda x: (x, x, x)])
def test_another_number_of_results_is_refused(f):
    with pytest.raises(ga.errors.JaxRuntimeError, match="leaves instead of 2"):
        ga.pure_callback(f, (OUT, OUT), ONE)


#: A format, a value, and the text that JAX 0.10.2 prints.
PRINTED = [
    ("{}", {"a": gnp.arange(2), "b": (ONE, 2)},
     "{'a': Array([0, 1], dtype=int32), 'b': (Array(1., dtype=float32), Array(2, dtype=int32, "
     "weak_type=True))}"),
    ("{}", gnp.arange(3.0), "[0. 1. 2.]"),
    ("{!r}", gnp.arange(2), "Array([0, 1], dtype=int32)"),
    ("{:.2f}", gnp.float32(1.234), "1.23"),
    ("{:>5}", gnp.int32(3), "    3"),
    ("{0.shape} {0[1]}", gnp.arange(3), "(3,) 1"),
]  # fmt: skip


@pytest.mark.parametrize(("fmt", "value", "text"), PRINTED)
def test_printed_values_are_arrays(fmt, value, text, capsys):
    ga.debug.print(fmt, value)
    ga.effects_barrier()
    assert re.sub(r"\s+", " ", capsys.readouterr().out.rstrip()) == re.sub(r"\s+", " ", text)
