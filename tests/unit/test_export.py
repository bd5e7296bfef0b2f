"""Programs as bytes (`gpuarray.export`)."""

import collections
import hashlib
import json
import random
import struct

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import export, lax
from gpuarray.compiler.simplify import inline_calls
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.export.values import Reader, Writer
from tests.samples import samples

X = gnp.linspace(-1.0, 1.0, 12).reshape(3, 4)


def again(f, *args, order=0, **kwargs):
    """A function that went through bytes."""
    return export.deserialize(export.export(ga.jit(f))(*args, **kwargs).serialize(order))


def spread(tree):
    return [np.asarray(ga.random.key_data(v) if "key<" in str(v.dtype) else v)
            for v in ga.tree_util.tree_leaves(tree)]  # fmt: skip


PROGRAMS = {
    "pointwise": (lambda x: gnp.tanh(x) * 2 + np.float32(np.inf), X),
    "closure": (lambda x: x + np.arange(4, dtype=np.float32) + X[0], X),
    "dict": (lambda t: {"b": t["a"] + 1, "c": (t["a"], None, [t["z"]])}, {"a": X, "z": 2}),
    "softmax": (lambda x: ga.nn.softmax(x), X),
    "product": (lambda x: x @ x.T, X),
    "gather": (lambda x: x[gnp.array([2, 0]), 1:3].at[0].add(5), X),
    "sort": (lambda x: gnp.argsort(x, axis=0), X),
    "loop": (lambda x: lax.fori_loop(0, 5, lambda i, c: c * 0.9 + i, x), X),
    "while": (lambda x: lax.while_loop(lambda c: c.sum() < 50, lambda c: c + 1, x), X),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x), X),
    "branch": (lambda x: lax.cond(x[0, 0] > 0, gnp.sin, gnp.cos, x), X),
    "custom": (lambda x: ga.nn.relu(x) + ga.nn.silu(x), X),
    "random": (lambda k: (ga.random.normal(k, (3,)), ga.random.split(k)), ga.random.key(3)),
    "raw key": (lambda k: ga.random.bernoulli(k, shape=(8,)), ga.random.PRNGKey(1)),
    "fft": (lambda x: gnp.fft.rfft(x), X),
    "linalg": (lambda x: gnp.linalg.svd(x)[1], X),
    "window": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (1, 1), "VALID"), X),
    "half": (lambda x: (x.astype(gnp.bfloat16) * 2, x.astype(gnp.float16)), X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_there_and_back(name):
    f, x = PROGRAMS[name]
    exported = again(f, x)
    want, got = ga.jit(f)(x), exported.call(x)
    assert ga.tree_util.tree_structure(want) == ga.tree_util.tree_structure(got)
    for a, b in zip(ga.tree_util.tree_leaves(want), ga.tree_util.tree_leaves(got), strict=True):
        assert a.dtype == b.dtype and a.weak_type == b.weak_type
    for a, b in zip(spread(want), spread(got), strict=True):
        np.testing.assert_array_equal(a, b)
    assert exported.in_avals and exported.fun_name


@pytest.mark.parametrize("sample", samples(), ids=str)
def test_every_primitive_travels_or_says_why_not(sample):
    invars = [Var(a) for a in sample.avals]
    with ga.enable_x64(sample.wide):
        outvars = [Var(a) for a in sample.primitive.out_avals(sample.avals, sample.params)]
        graph = Graph(invars, outvars, [Eqn(sample.primitive, invars, outvars, sample.params)])
        graph = inline_calls(graph)
        writer = Writer()
        try:
            written = json.loads(json.dumps(writer.graph(graph)))
        except TypeError as error:
            assert "do not travel" in str(error)
            assert sample.primitive.name in HAS_FUNCTIONS, sample.primitive
            return
        read = Reader([memoryview(p) for p in writer.pieces]).graph(written)
        assert read.key == graph.key


#: Primitives that hold functions of Python, or Graphs that are not theirs alone.
HAS_FUNCTIONS = {
    "custom_lin", "custom_vmap_call", "debug_callback", "debug_print", "io_callback",
    "linear_call", "pure_callback", "remat2",
}  # fmt: skip


def test_derivatives_travel():
    f = lambda x, n: gnp.sum(gnp.sin(x) ** 3) * n
    exported = again(f, X, 2, order=2)
    assert exported.has_vjp() and exported.vjp().has_vjp()
    want = ga.grad(f)(X, 2)
    np.testing.assert_allclose(ga.grad(exported.call)(X, 2), want, rtol=1e-6)
    np.testing.assert_allclose(
        ga.grad(lambda x: ga.grad(exported.call)(x, 2).sum())(X),
        ga.grad(lambda x: ga.grad(f)(x, 2).sum())(X),
        rtol=1e-5,
    )
    np.testing.assert_allclose(ga.grad(again(f, X, 2).call)(X, 2), want, rtol=1e-6)


def test_inside_other_transforms():
    call = again(lambda x: gnp.exp(x) - 1, X[0]).call
    np.testing.assert_allclose(ga.jit(ga.vmap(call))(X), np.expm1(np.asarray(X)), atol=1e-6)


def test_structures_of_the_user():
    Pair = collections.namedtuple("Pair", "a b")
    with pytest.raises(ValueError, match="unregistered pytree node"):
        again(lambda p: p.a + p.b, Pair(X, X))
    export.register_namedtuple_serialization(Pair, serialized_name="tests.Pair")
    exported = again(lambda p: Pair(p.a + p.b, 1), Pair(X, X))
    assert type(exported.call(Pair(X, X))) is Pair
    Other = collections.namedtuple("Other", "a")
    with pytest.raises(ValueError, match="Duplicate serialization"):
        export.register_namedtuple_serialization(Other, serialized_name="tests.Pair")


@pytest.mark.parametrize(
    "args, message",
    [((X[0],), "argument 0"), ((X.astype(int),), "argument 0"), ((X, X), "same structure")],
)
def test_misuse(args, message):
    with pytest.raises(ValueError, match=message):
        again(gnp.sin, X).call(*args)


def test_what_does_not_travel():
    with pytest.raises(TypeError, match="do not travel"):
        again(lambda x: (ga.debug.print("{}", x), x)[1], X)
    with pytest.raises(ValueError, match=r"export\(jit\(fun\)\)"):
        export.export(gnp.sin.__call__)


DATA = bytes(export.export(ga.jit(lambda x: gnp.sin(x) + X))(X).serialize())


def test_damage_is_noticed():
    rng = random.Random(0)
    for _ in range(2000):
        damaged = bytearray(DATA)
        damaged[rng.randrange(len(DATA))] ^= 1 << rng.randrange(8)
        with pytest.raises(ValueError, match=r"exported program"):
            export.deserialize(damaged)
    for n in range(0, len(DATA), 7):
        with pytest.raises(ValueError, match=r"exported program"):
            export.deserialize(DATA[:n])


def forged(change) -> bytes:
    """The bytes with a header that was changed, under a digest that fits."""
    start = DATA.index(b"\n") + 9
    (length,) = struct.unpack("<Q", DATA[start - 8 : start])
    header = json.loads(DATA[start : start + length])
    change(header)
    text = json.dumps(header).encode()
    body = DATA[: start - 8] + struct.pack("<Q", len(text)) + text
    body += DATA[start + length : -32]
    return body + hashlib.sha256(body).digest()


def _equation(header):
    return header[0][0]["graph"]["equations"][0]


FORGERIES = {
    "unknown operation": lambda h: _equation(h).__setitem__(0, "os.system"),
    "wrong shape": lambda h: _equation(h)[3][0].__setitem__(1, [7, 7]),
    "wrong dtype": lambda h: _equation(h)[3][0].__setitem__(0, "float64"),
    "variable not there": lambda h: _equation(h)[1].__setitem__(0, 99),
    "variable of later": lambda h: _equation(h)[1].__setitem__(0, 2),
    "negative variable": lambda h: _equation(h)[1].__setitem__(0, -1),
    "no such tag": lambda h: _equation(h)[2].append(["x", {"eval": "1"}]),
    "private method": lambda h: _equation(h)[2].append(["x", {"_init_": "1"}]),
    "piece not there": lambda h: h[0][0]["graph"]["values"][0].__setitem__(2, 5),
    "piece too small": lambda h: h[0][0]["graph"]["values"][0].__setitem__(1, [1000]),
    "sizes": lambda h: h[1].__setitem__(0, 1),
    "no programs": lambda h: h[0].clear(),
    "unknown tree": lambda h: h[0][0].__setitem__("arguments", ["node", ["x", ""], []]),
    "not a dtype": lambda h: _equation(h)[3][0].__setitem__(0, "nonsense"),
    "deep": lambda h: h[0][0].__setitem__("results", None),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgery_is_refused(name):
    with pytest.raises(ValueError):
        export.deserialize(forged(FORGERIES[name]))
