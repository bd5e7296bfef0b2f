"""`gpuarray.debug.breakpoint`: the prompt, and what it shows of a compiled program."""

import io
import threading

import pytest

import gpuarray as ga
import gpuarray.numpy as gnp


def talk(commands: str, run, **options) -> str:
    """What the debugger says to commands, at the breakpoint that `run(stop)` reaches."""
    out = io.StringIO()
    given = "up\n" + commands  # the innermost frame is the lambda below
    run(lambda: ga.debug.breakpoint(stdin=io.StringIO(given), stdout=out, **options))
    ga.effects_barrier()
    return out.getvalue()


def program(transform):
    def outer(stop):
        scale = 10

        def f(x):
            parts = {"twice": 2 * x, "lock": threading.Lock()}
            odd = {1: x, "a": x}  # no pytree: its keys cannot be sorted
            stop()
            return parts["twice"] + scale + odd[1]

        return transform(f)

    return outer


JITTED = program(lambda f: ga.jit(f)(gnp.float32(3)))


def test_values_of_this_call():
    said = talk("p x\nparts['twice'] + 1\np scale\nc\n", JITTED, num_frames=2)
    assert "Array(3., dtype=float32)" in said and "Array(7., dtype=float32)" in said
    assert "(debug) 10\n" in said


def test_moving_between_frames():
    said = talk(
        "where\nu\nu\np transform\np no_such\n" + 200 * "u\n" + "d\nlist\nargs\nc\n", JITTED
    )
    assert ") outer" in said and ") f" in said and "*** no frame there" in said
    assert "<function" in said
    assert "*** NameError: name 'no_such' is not defined" in said
    assert "->" in said and "stop()" in said


def test_end_of_input_goes_on():
    assert "Stopped at a breakpoint" in talk("", JITTED)


def test_eager_and_once_for_each_element():
    assert "Array(3." in talk("p x\nc\n", program(lambda f: f(gnp.float32(3))))
    said = talk("p x\nc\n", program(lambda f: ga.vmap(f)(gnp.arange(2.0))))
    assert "Array(0., dtype=float32)" in said and said.count("Stopped at") == 2


def test_under_grad():
    assert "Array(3." in talk("p x\nc\n", program(lambda f: ga.grad(f)(3.0)))


def test_quit_ends_the_program():
    with pytest.raises(KeyboardInterrupt):
        talk("q\n", program(lambda f: f(gnp.float32(3))))


def test_unknown_backend():
    with pytest.raises(ValueError, match="'web' is not known"):
        ga.debug.breakpoint(backend="web")
