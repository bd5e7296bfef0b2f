"""What a user reads when something fails: their own lines, one error, nothing twice."""

import os
import subprocess
import sys
import textwrap
import threading
import traceback

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax

HERE = os.path.dirname(os.path.abspath(ga.__file__))


class Mine(Exception):
    pass


def deepest(x):
    raise Mine("an error of the user's")


def bad(x, *rest):
    return deepest(x * 2)


def mismatched(x, *rest):
    return gnp.dot(x, gnp.ones(7)).sum()


def _custom_jvp(f):
    wrapped = ga.custom_jvp(lambda x: gnp.sum(x))
    wrapped.defjvp(lambda primals, tangents: (f(*primals), gnp.sum(*tangents)))
    return lambda x: ga.jvp(wrapped, (x,), (x,))


def _custom_vjp(f):
    wrapped = ga.custom_vjp(lambda x: gnp.sum(x))
    wrapped.defvjp(lambda x: (gnp.sum(x), x), lambda x, ct: (f(x),))
    return lambda x: ga.grad(wrapped)(x)


def _custom_vmap(f):
    wrapped = ga.custom_batching.custom_vmap(gnp.sin)
    wrapped.def_vmap(lambda size, batched, x: (f(x), True))
    return ga.vmap(wrapped)


#: What calls a function of the user's: each takes one and gives a function of an array.
ENTRIES = {
    "jit": ga.jit,
    "jit.lower": lambda f: lambda x: ga.jit(f).lower(x),
    "jit.trace": lambda f: lambda x: ga.jit(f).trace(x),
    "grad": ga.grad,
    "value_and_grad": ga.value_and_grad,
    "jvp": lambda f: lambda x: ga.jvp(f, (x,), (x,)),
    "vjp": lambda f: lambda x: ga.vjp(f, x),
    "linearize": lambda f: lambda x: ga.linearize(f, x),
    "linear_transpose": lambda f: lambda x: ga.linear_transpose(f, x),
    "jacfwd": ga.jacfwd,
    "jacrev": ga.jacrev,
    "hessian": ga.hessian,
    "vmap": lambda f: lambda x: ga.vmap(lambda y: f(x))(x),
    "checkpoint": ga.checkpoint,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2),
    "map": lambda f: lambda x: lax.map(lambda _: f(x), x),
    "associative_scan": lambda f: lambda x: lax.associative_scan(f, x),
    "cond": lambda f: lambda x: lax.cond(True, f, f, x),
    "switch": lambda f: lambda x: lax.switch(0, [f, f], x),
    "while_loop": lambda f: lambda x: lax.while_loop(lambda _: True, f, x),
    "fori_loop": lambda f: lambda x: lax.fori_loop(0, 3, lambda _, c: f(c), x),
    "custom_jvp": _custom_jvp,
    "custom_vjp": _custom_vjp,
    "custom_vmap": _custom_vmap,
    "custom_root": lambda f: lambda x: lax.custom_root(f, x, f, f),
    "closure_convert": lambda f: lambda x: ga.closure_convert(f, x),
    "eval_shape": lambda f: lambda x: ga.eval_shape(f, x),
    "make_jaxpr": ga.make_jaxpr,
    "vectorize": lambda f: gnp.vectorize(f, signature="(n)->()"),
    "apply_along_axis": lambda f: lambda x: gnp.apply_along_axis(f, 0, x),
}


@pytest.fixture(autouse=True)
def quiet():
    ga.config.update("traceback_filtering", "quiet_remove_frames")


def _caught(f, *args):
    try:
        f(*args)
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


def _own(error):
    """The library's frames in a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f for f in frames if f.filename.startswith(HERE + os.sep)]


def _check(error, last, what):
    assert _own(error) == [], what
    assert traceback.extract_tb(error.__traceback__)[-1].name == last, what
    text = traceback.format_exception(error)
    assert sum(part.startswith("Traceback") for part in text) == 1, what
    assert sum("left its own frames out" in part for part in text) == 1, what
    assert len("".join(text).splitlines()) < 45, what


@pytest.mark.parametrize("name", ENTRIES)
def test_only_the_users_frames_are_shown(name):
    x = gnp.ones(3)
    _check(_caught(ENTRIES[name](bad), x), "deepest", name)
    _check(_caught(ENTRIES[name](mismatched), x), "mismatched", name)


@pytest.mark.parametrize("outer", ["jit", "grad", "vmap", "scan", "checkpoint", "cond", "jvp"])
def test_to_any_depth(outer):
    for middle in ENTRIES:
        f = ENTRIES[outer](lambda x, m=middle: gnp.sum(ENTRIES[m](ENTRIES["jit"](bad))(x)))
        _check(_caught(f, gnp.ones(3)), "deepest", (outer, middle))


def test_operators_and_ufuncs_show_no_frames_of_theirs():
    x = gnp.ones(3)
    four = gnp.ones(4)
    for f in (
        *(lambda: gnp.add(x, four), lambda: gnp.logaddexp(x, four), lambda: gnp.sin("a")),
        *(lambda: x + four, lambda: 1 + x @ four, lambda: x + [1]),
        *(lambda: x.sum(axis=3), lambda: x.dot(four), lambda: x[0, 0]),
    ):
        error = _caught(f)
        assert _own(error) == [] and len("".join(traceback.format_exception(error))) < 900


def test_errors_the_user_handles_stay_in_the_chain():
    def handled(x):
        try:
            bad(x)
        except Mine as error:
            raise KeyError("after it") from error

    error = _caught(ga.jit(handled), gnp.ones(3))
    assert isinstance(error.__cause__, Mine) and _own(error.__cause__) == []
    assert "direct cause" in "".join(traceback.format_exception(error))


def test_settings_of_tracebacks():
    f, x = ga.jit(ga.grad(mismatched)), gnp.ones(3)
    ga.config.update("traceback_filtering", "off")
    whole = len(traceback.extract_tb(_caught(f, x).__traceback__))
    assert whole > 15

    ga.config.update("traceback_filtering", "tracebackhide")
    error = _caught(f, x)
    assert len(traceback.extract_tb(error.__traceback__)) == whole
    hidden = [
        bool(frame.f_locals.get("__tracebackhide__"))
        for frame, _ in traceback.walk_tb(error.__traceback__)
    ]
    assert sum(hidden) == len(_own(error)) and not hidden[0]

    ga.config.update("traceback_filtering", "remove_frames")
    error = _caught(f, x)
    assert _own(error) == []
    whole_one = error.__cause__.__traceback__  # pyright: ignore[reportOptionalMemberAccess]
    assert len(traceback.extract_tb(whole_one)) == whole - 1  # the test's own
    assert len("".join(traceback.format_exception(error)).split("UnfilteredStackTrace")) == 2

    ga.config.update("traceback_filtering", "auto")
    assert _own(_caught(f, x)) == []


def _printed(source, filtering="auto"):
    made = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        capture_output=True,
        text=True,
        env=os.environ | {"GPUARRAY_TRACEBACK_FILTERING": filtering},
    )
    return made.stderr.splitlines()


EAGER = """
    import gpuarray as ga, gpuarray.numpy as gnp, threading
    def f(x):
        return {}
    {}
"""


OPERATIONS = (
    "gnp.stack([x, gnp.ones(4)])",
    "x.reshape(7)",
    "x + gnp.ones(4)",
    "gnp.dot(x, gnp.eye(4))",
    "gnp.linalg.solve(gnp.eye(3), gnp.ones(4))",
    "gnp.einsum('ij', x)",
    "x[0, 0]",
    "ga.random.normal(x)",
    "ga.scipy.special.gammaln('a')",
    "ga.nn.one_hot(x, -1)",
)
#: Each operation ends a process of its own; to fork costs far less than to start one.
EACH_ENDS_A_PROGRAM = """
    import gpuarray as ga, gpuarray.numpy as gnp, os, sys
    for operation in {}:
        sys.stderr.write("====\\n")
        sys.stderr.flush()
        if os.fork() == 0:
            exec("def f(x):\\n    return " + operation)
            f(gnp.ones(3))
        os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="starts its programs by fork")
def test_what_ends_a_program_shows_no_frames_of_the_library():
    source = EACH_ENDS_A_PROGRAM.format(OPERATIONS)
    programs = "\n".join(_printed(source)).split("====\n")[1:]
    whole = "\n".join(_printed(source, "off")).split("====\n")[1:]
    assert len(programs) == len(whole) == len(OPERATIONS)
    for operation, program, long in zip(OPERATIONS, programs, whole, strict=True):
        lines = program.splitlines()
        assert HERE not in program and lines[0].startswith("Traceback"), operation
        assert program.count("Traceback") == 1 and len(lines) < 16, operation
        assert "GPUARRAY_TRACEBACK_FILTERING=off" in lines[-1], operation
        assert HERE in long, operation


def test_what_ends_a_thread():
    start = "threading.Thread(target=f, args=[gnp.ones(3)]).start()"
    lines = _printed(EAGER.format("gnp.stack([x, gnp.ones(4)])", start))
    assert not any(HERE in line for line in lines)
    assert threading.excepthook is not None


def test_leak_checks_do_not_hide_the_error():
    with ga.checking_leaks():
        for transform in (ga.jit, ga.grad, ga.make_jaxpr, lambda f: ga.jit(ga.jit(f))):
            assert isinstance(_caught(transform(bad), gnp.ones(3)), Mine)
        kept = []
        with pytest.raises(RuntimeError, match="Leaked trace"):
            ga.jit(lambda x: kept.append(x * 1))(gnp.ones(3))


def test_vmap_names_the_arguments_of_unequal_sizes():
    def f(x, y, z=0):
        return 1.0

    three, four = gnp.ones(3), np.ones((4, 3), "float32")
    cases = [
        ((three, four), {}, {}, ["axis 0 of argument x of type float32[3]", "argument y of"]),
        (({"a": three}, four), {}, {}, ["axis 0 of argument x['a'] of type float32[3]"]),
        ((three, three), {}, {"z": four}, ["most axes (2 of them) had size 3", "kwargs['z']"]),
        ((three,), {"axis_size": 5}, {"y": three}, ["`axis_size` argument was 5"]),
        ((three, four), {"in_axes": (0, 0)}, {}, ["one axis had size 4: axis 0"]),
    ]
    for args, options, kwargs, wanted in cases:
        with pytest.raises(ValueError, match="inconsistent sizes for array axes") as caught:
            ga.vmap(f, **options)(*args, **kwargs)
        assert all(text in str(caught.value) for text in wanted), caught.value


def test_solve_hints_at_batches_only_for_batches():
    with pytest.raises(ValueError, match="a has 3 rows, and b has 4.$"):
        gnp.linalg.solve(gnp.eye(3), gnp.ones(4))
    with pytest.raises(ValueError, match="For a batch of vectors"):
        gnp.linalg.solve(gnp.ones((2, 3, 3)), gnp.ones((2, 3)))
