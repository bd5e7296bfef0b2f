"""Row kernels of several passes: what one of them computes, later ones do not compute again.

In: chains of normalisations over rows of many lengths. Out: texts that name each operation once
where a row fits registers or shared memory, and the values of the NumPy driver everywhere.
"""

import re

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import nn
from gpuarray.compiler.cuda.emit import KernelSource, emit
from tests import golden
from tests.support import simulated
from tests.support.targets import plan_for

simulated.need_compiler()


def normal_twice(x):
    """Results from the first, a middle and the last of six levels."""
    raised = gnp.exp(x)
    once = nn.softmax(raised - raised.mean(-1, keepdims=True), -1)
    again = gnp.tanh(once * 3) - once.max(-1, keepdims=True)
    return raised, once, again / (again * again).sum(-1, keepdims=True)


def emitted(function, *avals) -> KernelSource:
    (group,) = ga.jit(function).lower(*avals).plan.on_device.groups
    return emit(group)


def calls(text: str, name: str) -> int:
    return len(re.findall(rf"\b{name}\(", text))


@pytest.mark.parametrize(
    "dtype, shape, held",
    [
        ("float32", (7, 5), "registers"),
        ("float32", (64, 48), "registers"),
        ("float32", (9, 1000), "registers"),
        ("float32", (300, 12000), "registers"),
        ("bfloat16", (3, 9001), "shared memory"),
    ],
)
def test_each_operation_is_written_once_where_rows_are_held(dtype, shape, held):
    kernel = emitted(normal_twice, golden.shape(dtype, *shape))
    assert f"held in {held}" in kernel.text
    assert calls(kernel.text, "ga_exp") == 2 and calls(kernel.text, "ga_tanh") == 1
    assert kernel.text.count("in0 + ") + kernel.text.count("in0[") == 1  # the row is read once


def test_rows_that_are_too_long_are_computed_again(monkeypatch):
    plan_for(monkeypatch, launch_bytes=1 << 40)
    text = emitted(normal_twice, golden.shape("float32", 300, 50000)).text
    assert "held" not in text and calls(text, "ga_exp") > 2


def test_outputs_are_stored_where_they_are_made():
    def text(rows):
        return emitted(normal_twice, golden.shape("float32", rows, 256)).text

    first, last = (text(n).index("out0 + row") for n in (64, 61))
    assert first < text(64).index("pass 2") and last > text(61).index("return;")


def test_slots_are_taken_again():
    def deep(x):
        for _ in range(8):
            x = gnp.tanh(x - x.mean(-1, keepdims=True))
        return x

    text = emitted(deep, golden.shape("float32", 64, 256)).text
    assert calls(text, "ga_tanh") == 8
    assert len(set(re.findall(r"\bkept\d+", text))) <= 3


def check(function, inputs) -> None:
    """A function on the simulator against the NumPy driver, and the same in every order."""
    made = simulated.built(ga.jit(function).lower(*inputs).jaxpr)
    found = simulated.run(made, inputs)
    exact = inputs[0].dtype == np.float32
    for one, want in zip(found, ga.jit(function)(*inputs), strict=True):
        tolerance = {"rtol": 1e-5, "atol": 2e-6} if exact else {"rtol": 0.02, "atol": 0.02}
        np.testing.assert_allclose(one.astype("f4"), np.asarray(want).astype("f4"), **tolerance)
    for seed in (2, 3):
        again = simulated.run(made, inputs, seed)
        assert [x.tobytes() for x in again] == [x.tobytes() for x in found]


@pytest.mark.parametrize(
    "dtype, shape",
    [("f4", (7, 5)), ("f4", (64, 48)), ("f4", (33, 40)), ("f4", (3, 1000)), ("f4", (2, 2050))]
    + [("f4", (1, 9000)), ("f4", (2, 50000)), ("bfloat16", (33, 48)), ("bfloat16", (2, 9001))],
)
def test_values(dtype, shape):
    x = np.random.default_rng(0).normal(size=shape).astype(np.dtype(dtype))
    check(normal_twice, (x,))


def test_values_that_are_only_kept_to_be_stored():
    def centred(x):
        less = x - x[0, 0]
        return less, less.sum(-1)

    check(centred, (np.arange(27, dtype="f4").reshape(3, 9),))


@pytest.mark.parametrize("shape", [(40, 64), (40, 33), (700, 32)])
def test_values_of_columns(shape):
    def centred(x):
        raised = gnp.exp(x)
        return raised, raised - raised.mean(0), nn.softmax(x, 0)

    check(centred, (np.random.default_rng(0).normal(size=shape).astype("f4"),))
