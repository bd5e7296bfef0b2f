"""What is no argument for a function: a typed error at the call, at once, and never one of ours.

A walk over the public functions with things they do not take. Errors that only say how the inside
went wrong (an index of a tuple, a missing attribute, ...) are none a user can act on.
"""

import collections
import importlib
import inspect
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import errors, lax, nn, random, scipy
from gpuarray.util import AxisError

# ---- errors of the inside ----

INSIDE = (
    IndexError,
    AssertionError,
    NameError,
    AttributeError,
    RecursionError,
    KeyError,
    ZeroDivisionError,
    StopIteration,
    SystemError,
)
# AxisError is a ValueError, too; so is UnboundAxisError, a NameError as in JAX.
TYPED = (AxisError, errors.UnboundAxisError)

#: What JAX and NumPy raise by design, with a text of their own.
BY_DESIGN = {
    ("numpy.take", IndexError),
    ("numpy.array_split", ZeroDivisionError),
    ("numpy.split", ZeroDivisionError),
    ("numpy.hsplit", ZeroDivisionError),
    ("numpy.vsplit", ZeroDivisionError),
    ("numpy.dsplit", ZeroDivisionError),
    ("lax.index_in_dim", IndexError),
    ("nn.glu", IndexError),
    ("nn.glu", AssertionError),
    ("nn.standardize", IndexError),
    ("scipy.signal.detrend", IndexError),
    ("scipy.stats.sem", IndexError),
    ("scipy.sparse.linalg.gmres", IndexError),
    ("random.categorical", IndexError),
}

#: They take files, talk to a debugger or to other processes, or take any object at all.
NOT_WALKED = {"save", "savez", "load", "fromfile", "set_printoptions", "printoptions", "frompyfunc"}

MODULES = """numpy numpy.fft numpy.linalg lax lax.linalg nn scipy.special scipy.linalg scipy.signal
scipy.fft scipy.stats scipy.ndimage scipy.cluster.vq scipy.integrate scipy.interpolate
scipy.sparse.linalg random image ops""".split()


def _values():
    return {
        "scalar": gnp.array(1.5),
        "vector": gnp.arange(3.0),
        "matrix": gnp.ones((2, 2)),
        "empty": gnp.zeros(0),
        "bool": gnp.array([True, False]),
        "two": 2,
        "minus": -1,
        "half": 0.5,
        "text": "hello",
        "none": None,
        "list": [],
        "pair": [1, 2],
        "dict": {},
        "key": random.key(0),
        "arrays": [gnp.ones(3), gnp.ones(3)],
        "object": object(),
        "huge": 2**70,
    }


FIRST = ["scalar", "vector", "matrix", "two", "text", "none", "list", "dict", "key", "arrays"]
FIRST += ["object", "huge", "empty", "bool", "minus", "half", "pair"]
SECOND = ["scalar", "vector", "two", "minus", "text", "none", "list", "pair", "half", "huge"]
PLACES = [()] + [(a,) for a in FIRST]
PLACES += [(a, b) for a in ("scalar", "vector", "matrix", "key", "two") for b in SECOND]
PLACES += [(a, b, c) for a in ("vector", "key") for b in ("vector", "none") for c in SECOND[2:6]]
BY_NAME = [("axis", v) for v in ("text", "list", "half", "two", "huge")]
BY_NAME += [("shape", "minus"), ("shape", "text"), ("dtype", "text"), ("axes", "pair")]
BY_NAME += [("num", "minus"), ("size", "minus"), ("mode", "text"), ("n", "minus"), ("k", "half")]
BY_NAME += [("length", "minus"), ("where", "list"), ("initial", "list"), ("trim", "two")]


class _Late(BaseException):
    pass


def _late(*_):
    raise _Late


def _calls(function):
    try:
        named = inspect.signature(function).parameters
    except (TypeError, ValueError):
        named = {}
    yield from ((place, {}) for place in PLACES)
    for name, value in BY_NAME:
        if name in named:
            for first in ("scalar", "vector", "matrix"):
                yield (first,), {name: value}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer")
@pytest.mark.parametrize("module", MODULES)
def test_no_error_of_the_inside(module):
    space = importlib.import_module(f"gpuarray.{module}")
    values = _values()
    found = collections.defaultdict(list)
    before = signal.signal(signal.SIGALRM, _late)
    try:
        for name in sorted(dir(space)):
            function = getattr(space, name)
            if name.startswith("_") or name in NOT_WALKED or name.endswith("_p"):
                continue
            if not callable(function) or inspect.ismodule(function) or inspect.isclass(function):
                continue
            for place, named in _calls(function):
                args = [values[p] for p in place]
                error = _error_of(function, args, {k: values[v] for k, v in named.items()})
                if isinstance(error, TYPED) or (f"{module}.{name}", type(error)) in BY_DESIGN:
                    continue
                if isinstance(error, (*INSIDE, _Late)):
                    found[name].append((place, named, repr(error)[:120]))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not found, "\n".join(f"{k}: {v[0]}" for k, v in found.items())


def _error_of(function, args, kwargs):
    signal.setitimer(signal.ITIMER_REAL, 5)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            function(*args, **kwargs)
    except BaseException as error:
        return error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.mark.parametrize("name", ["sum", "max", "mean", "any", "prod", "std", "nanmin"])
def test_a_named_axis_that_nothing_binds(name):
    with pytest.raises(ValueError, match="unbound axis name: hello"):
        getattr(gnp, name)(gnp.ones(3), axis="hello")
    with pytest.raises(NameError, match="unbound axis name: hello"):
        lax.psum(gnp.ones(3), "hello")


def test_a_collective_over_no_axis():
    assert float(lax.pmax(gnp.array(2.0), [])) == 2.0


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: gnp.array_split(gnp.array(1.0), 2), "axis 0 is out of bounds"),
        (lambda: gnp.unwrap(gnp.array(1.0)), "axis -1 is out of bounds"),
        (lambda: gnp.polyadd(gnp.array(1.0), gnp.ones(2)), "takes the coefficients"),
        (lambda: gnp.polyint(gnp.array(1.0)), "takes the coefficients"),
        (lambda: gnp.polydiv(gnp.ones(2), gnp.zeros(0)), "nothing to divide by"),
        (lambda: gnp.histogram(gnp.ones(3), -1), "must be positive"),
        (lambda: gnp.histogram(gnp.ones(3), []), "no edges"),
        (lambda: gnp.linalg.cross(gnp.ones((2, 2)), gnp.ones(2)), "along axis -1"),
    ],
)
def test_values_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_fill_values_that_no_integer_type_holds():
    assert gnp.full_like(gnp.array([True, False]), 2**70).tolist() == [True, True]
    assert complex(gnp.full_like(gnp.array(1j), 2**70)) == 2**70


# ---- sizes ----

#: Each is more than any machine addresses, or a number that no axis has.
TOO_LARGE = """
gnp.ones({n}); gnp.zeros({n}); gnp.full(({n},), 1); gnp.empty({n}); gnp.arange({n}); gnp.eye({n})
gnp.linspace(0, 1, {n}); gnp.logspace(0, 1, {n}); gnp.geomspace(1, 2, {n}); gnp.tri({n})
gnp.identity({n}); gnp.broadcast_to(1.0, ({n},)); gnp.tile(x, {n}); gnp.repeat(x, {n})
gnp.pad(x, {n}); gnp.resize(x, {n}); gnp.indices(({n},)); gnp.diag_indices({n}); gnp.diag(x, {n})
gnp.tril_indices({n}); gnp.triu_indices({n}); gnp.mask_indices({n}, gnp.tril); gnp.vander(x, {n})
gnp.fft.fft(x, {n}); gnp.fft.ifft(x, {n}); gnp.fft.rfft(x, {n}); gnp.fft.irfft(x, {n})
gnp.fft.fftfreq({n}); gnp.fft.rfftfreq({n}); gnp.bartlett({n}); gnp.blackman({n})
gnp.hamming({n}); gnp.hanning({n}); gnp.kaiser({n}, 1.0); gnp.bincount(i, length={n})
gnp.histogram(x, {n}); gnp.nonzero(x, size={n}); gnp.unique(x, size={n})
gnp.fromfunction(lambda i: i, ({n},)); float(gnp.ones({n}).sum()); gnp.array(1.0, ndmin={n})
gnp.polyint(x, {n})
lax.iota("int32", {n}); lax.full(({n},), 1); lax.broadcast(1.0, ({n},))
lax.pad(x, 0.0, [({n}, 0, 0)]); lax.pad(x, 0.0, [(0, 0, {n})]); ga.jit(lambda: gnp.ones({n}))()
lax.scan(lambda c, _: (c, c), 1.0, length={n}); nn.one_hot(i, {n})
random.normal(k, ({n},)); random.gumbel(k, ({n},)); random.bits(k, ({n},)); random.split(k, {n})
random.randint(k, ({n},), 0, 9); random.permutation(k, {n}); random.choice(k, {n}, (3,))
random.gamma(k, 1.0, ({n},)); random.poisson(k, 1.0, ({n},)); random.ball(k, {n})
random.orthogonal(k, {n}); random.categorical(k, x, shape=({n},))
scipy.linalg.pascal({n}); scipy.linalg.invpascal({n}); scipy.linalg.hilbert({n})
scipy.linalg.invhilbert({n}); scipy.linalg.helmert({n}); scipy.linalg.dft({n})
scipy.special.multigammaln(5.0, {n}); scipy.special.bernoulli({n}); scipy.fft.dct(x, n={n})
ga.ops.segment_sum(x, i, {n}); ga.image.resize(gnp.ones((3, 3)), ({n}, 3), "linear")
""".replace("\n", ";")
CALLS = [c.strip() for c in TOO_LARGE.split(";") if c.strip()]


@pytest.mark.parametrize("n", ["10**15", "2**62", "2**70", "-1"])
def test_sizes_that_no_machine_has(n):
    """In a process of its own, which is ended if one of them begins to work."""
    program = f"""
        import warnings; warnings.simplefilter("ignore")
        import gpuarray as ga, gpuarray.numpy as gnp, gpuarray.image, gpuarray.ops
        from gpuarray import lax, nn, random, scipy
        import gpuarray.scipy.fft
        x, i, k = gnp.ones(3), gnp.arange(3), random.key(0)
        for call in {CALLS!r}:
            text = call.replace("{{n}}", "({n})")
            try:
                ga.block_until_ready(eval(text))
            except (ValueError, TypeError, OverflowError, MemoryError) as error:
                if not str(error):
                    print("says nothing:", text)
            except Exception as error:
                print(text, repr(error))
            else:
                if {n} > 0:
                    print("accepted:", text)
        print("done")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    out = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert out.stdout == "done\n", out.stdout + out.stderr[-500:]


def test_what_is_too_large_is_named():
    with pytest.raises(errors.OutOfMemory, match=r"shape \(1000000000000000,\).*4,000,000,000,0"):
        gnp.ones(10**15)
    with pytest.raises(OverflowError, match="an axis has at most"):
        ga.ShapeDtypeStruct((2**70,), "float32") and gnp.ones(2**70)
    with pytest.raises(errors.OutOfMemory, match="the host would work out an array of shape"):
        scipy.linalg.pascal(10**6)
    assert gnp.ones((2**40, 0)).size == 0


def test_numbers_that_are_no_sizes():
    x = gnp.array([1.0, 2.5])
    for decimals in (2**70, -(2**70)):
        with pytest.raises(OverflowError, match="decimals"):
            gnp.round(x, decimals)
    assert gnp.round(gnp.array([7, -7]), -(2**70)).tolist() == [0, 0]
    assert gnp.diff(x, 2**70).shape == gnp.polyder(x, 2**70).shape == (0,)
    # Ones integrated so often that every coefficient is 1 over a number beyond all floats.
    assert not gnp.polyint(x, 400)[:2].any()
    np.testing.assert_allclose(gnp.polyint(x, 3), np.polyint([1.0, 2.5], 3), rtol=1e-6)
    expected = [1, -1 / 2, 1 / 6, 0, -1 / 30, 0, 1 / 42, 0, -1 / 30, 0, 5 / 66, 0, -691 / 2730]
    np.testing.assert_allclose(scipy.special.bernoulli(12), expected, rtol=1e-6)
    assert scipy.special.bernoulli(3).shape == (4,) and nn.one_hot(gnp.arange(2), 0).shape == (2, 0)


# ---- interrupts ----


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer")
def test_an_interrupt_is_always_heard():
    """Interrupts arrive all over the work, in collections of the garbage collector above all."""
    program = """
        import gc, signal, time
        import gpuarray as ga, gpuarray.numpy as gnp
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        gc.set_threshold(1)
        x = gnp.ones(8)
        heard = 0
        for n in range(300):
            until = time.monotonic() + 2
            try:
                # Inside: on a busy machine it may be over before the next line.
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + n * 1e-6)
                while time.monotonic() < until:
                    cycle = [x + 1.0, gnp.sin(x)]
                    cycle.append(cycle)
                    del cycle
                    gc.collect(0)
            except KeyboardInterrupt:
                heard += 1
        print(heard)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    out = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (out.stdout, out.stderr) == ("300\n", "")


def test_what_vmap_cannot_return():
    for wrong in ("hello", object(), object):
        with pytest.raises(TypeError, match="Output from batched function .* is not a valid JAX"):
            ga.vmap(lambda x, wrong=wrong: [x, wrong])(gnp.arange(3))


def test_convolutions_of_different_ranks():
    numbers = lax.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
    with pytest.raises(ValueError, match="lhs and rhs must have the same number of dimensions"):
        lax.conv_general_dilated(
            gnp.ones((1, 1, 3)), gnp.ones((1, 1, 3, 3)), (1,), ((0, 0),), dimension_numbers=numbers
        )
