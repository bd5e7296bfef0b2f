"""Programs as bytes (`gpuarray.export`)."""

import collections
import copy
import hashlib
import json
import random
import struct

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import export, lax
from gpuarray.compiler.rewrite.simplify import inline_calls
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.export import exported
from gpuarray.export.values import ValueReader, ValueWriter
from tests.samples import samples
from tests.support.sampled import each_sample

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


@each_sample(samples())
def test_every_primitive_travels_or_says_why_not(sample):
    invars = [Var(a) for a in sample.avals]
    outvars = [Var(a) for a in sample.primitive.out_avals(sample.avals, sample.params)]
    graph = Graph(invars, outvars, [Eqn(sample.primitive, invars, outvars, sample.params)])
    graph = inline_calls(graph)
    writer = ValueWriter()
    try:
        written = json.loads(json.dumps(writer.graph(graph)))
    except TypeError as error:
        assert "do not travel" in str(error)
        assert sample.primitive.name in HAS_FUNCTIONS, sample.primitive
        return
    read = ValueReader([memoryview(p) for p in writer.pieces]).graph(written)
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
    with pytest.raises(ValueError, match="Cannot serialize .* unregistered type"):
        again(lambda p: p.a + p.b, Pair(X, X))
    export.register_namedtuple_serialization(Pair, serialized_name="tests.Pair")
    exported = again(lambda p: Pair(p.a + p.b, 1), Pair(X, X))
    assert type(exported.call(Pair(X, X))) is Pair
    Other = collections.namedtuple("Other", "a")
    with pytest.raises(ValueError, match="Duplicate serialization"):
        export.register_namedtuple_serialization(Other, serialized_name="tests.Pair")


@pytest.mark.parametrize(
    "args, message",
    [
        ((X[0],), r"mismatch for args\[0\]"),
        ((X.astype(int),), r"mismatch for args\[0\]"),
        ((X, X), "same pytree structure"),
    ],
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


# ---- any other bytes ----


def opened(data):
    """The header of stored programs, and what follows it."""
    head = len(exported._MAGIC) + 8
    (length,) = struct.unpack("<Q", data[head - 8 : head])
    return json.loads(bytes(data[head : head + length])), bytes(data[head + length : -32])


def sealed(header: bytes, rest: bytes) -> bytes:
    """Bytes with the right sizes and digest, whatever they say."""
    body = exported._MAGIC + struct.pack("<Q", len(header)) + header + rest
    return body + hashlib.sha256(body).digest()


STORED = {
    "pointwise": lambda x: {"y": gnp.tanh(x) * gnp.ones(3), "z": (x.sum(), [x.astype("int32")])},
    "scan": lambda x: lax.scan(lambda s, row: (s + row, s * row), gnp.ones(3), x),
    "cond": lambda x: lax.cond(x[0, 0] > 0, lambda v: v + 1, lambda v: v * 2, x),
    "while": lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (0, x)),
    "linalg": lambda x: gnp.linalg.solve(x @ x.T + gnp.eye(2), x),
    "index": lambda x: x.at[0, 1].add(5.0)[:, ::-1][:, gnp.array([0, 2])],
    "sort": lambda x: (gnp.sort(x), gnp.cumsum(x, axis=1), gnp.fft.fft(x)),
    "random": lambda x: x + ga.random.normal(ga.random.key(0), (3,)),
}

WRONG = [
    None, True, False, 0, 1, -1, 2, 5, 100, 2**31, 2**63, 2**70, 10**30, -5, 1.5, "", "x",
    "float32", "int32", "key<fry>", "*", [], {}, [0], [1, 2], [[]], {"tuple": []},
    {"float": "nan"}, {"float": "zz"}, {"dtype": "float64"}, {"dtype": "V8"}, {"dtype": "O"},
    {"primitive": "add"}, {"enum": ["Precision", "HIGH"]}, {"record": ["System", []]}, {"int": 3},
    "object", "<U3", "datetime64[s]",
]  # fmt: skip
WORDS = ["add", "mul", "sin", "dot_general", "reshape", "scan", "while", "cond", "sort", "gather",
         "iota", "float16", "int8", "bool", "complex64", "reduce_sum", "list", "dict"]  # fmt: skip


def paths(value, path=()):
    yield path
    pairs = enumerate(value) if isinstance(value, list) else ()
    for key, inner in value.items() if isinstance(value, dict) else pairs:
        yield from paths(inner, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def mutant(rng, header):
    """A header with one to three changes."""
    header = copy.deepcopy(header)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places = [p for p in paths(header) if p]
        if not places:
            break
        *above, key = rng.choice(places)
        parent = at(header, above)
        old, way = parent[key], rng.randrange(6)
        if way == 0:
            del parent[key]
        elif way == 1 and isinstance(parent, list):
            parent.insert(key, copy.deepcopy(old))
        elif way == 2:
            parent[key] = copy.deepcopy(at(header, rng.choice(places)))
        elif way == 3 and type(old) is int:
            parent[key] = old + rng.choice([-1, 1, 2, -2, 1000, 2**33])
        elif way == 4 and isinstance(old, str):
            parent[key] = rng.choice([*WORDS, old + "x"])
        else:
            parent[key] = copy.deepcopy(rng.choice(WRONG))
    return header


def tried(data) -> bool:
    """Whether bytes are a program; then it must run. All other bytes are a ValueError."""
    try:
        program = ga.export.deserialize(data)
    except ValueError:
        return False
    assert str(program) and repr(program) and program.out_avals is not None
    text = str(program)
    costly = max([a.size for a in program.in_avals], default=0) > 10**5
    if (
        "while[" not in text
        and not costly
        and ga.jit(program._plain())
        .lower(*(ga.ShapeDtypeStruct(a.shape, a.dtype) for a in program.in_avals))
        .plan.work
        < 1e7
    ):  # a loop may be one without end
        values = [gnp.ones(a.shape, a.dtype) for a in program.in_avals]
        args, kwargs = ga.tree_util.tree_unflatten(program.in_tree, values)
        ga.block_until_ready(program.call(*args, **kwargs))
    return True


@pytest.fixture(scope="module")
def stored():
    x = gnp.arange(6.0).reshape(2, 3)
    return {k: ga.export.export(ga.jit(f))(x).serialize() for k, f in STORED.items()}


@pytest.mark.parametrize("name", STORED)
def test_changed_structure_is_refused_or_runs(name, stored):
    header, rest = opened(stored[name])
    rng = random.Random(name)
    accepted = 0
    for _ in range(300):
        accepted += tried(sealed(json.dumps(mutant(rng, header)).encode(), rest))
    assert 0 < accepted < 150


@pytest.mark.parametrize("name", STORED)
def test_changed_bytes_are_refused_or_run(name, stored):
    header, rest = opened(stored[name])
    text, rng = json.dumps(header).encode(), random.Random(name)
    for _ in range(300):
        changed = bytearray(text)
        for _ in range(rng.choice([1, 1, 2, 4])):
            i = rng.randrange(len(changed))
            way = rng.randrange(3)
            changed[i : i + (way != 0)] = bytes([rng.randrange(256)]) if way < 2 else b""
        tried(sealed(bytes(changed), rest))
    for size in range(0, len(stored[name]), 7):
        assert not tried(stored[name][:size])


def nested(depth):
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    "header",
    [b"", b"[]", b"{}", b"null", b"[[],[]]", nested(100_000), b"[" + b"9" * 10_000 + b",[]]"],
    ids=["empty", "list", "dict", "null", "no program", "deep", "long number"],
)
def test_other_headers_are_refused(header):
    with pytest.raises(ValueError, match="malformed"):
        ga.export.deserialize(sealed(header, b""))


def test_wide_programs_are_loaded_with_narrow_settings():
    with ga.enable_x64(True):
        x = gnp.arange(3.0, dtype="float64")
        data = export.export(ga.jit(lambda x: x * x))(x).serialize(vjp_order=1)
    loaded = export.deserialize(data)
    assert loaded.call(x).dtype == "float64"
    (gradient,) = loaded.vjp().call(x, gnp.ones_like(x))
    assert gradient.dtype == "float64"
    np.testing.assert_array_equal(gradient, 2 * x)


def test_checks_that_were_left_out_stay_with_the_program():
    checks = [export.DisabledSafetyCheck.platform(), export.DisabledSafetyCheck.custom_call("f")]
    made = export.export(ga.jit(gnp.sin), disabled_checks=checks)(gnp.ones(2))
    read = export.deserialize(made.serialize())
    assert read.disabled_safety_checks == tuple(checks)
    assert [c.is_custom_call() for c in checks] == [None, "f"]
    low = export.minimum_supported_calling_convention_version
    assert low <= read.calling_convention_version
    assert read.calling_convention_version <= export.maximum_supported_calling_convention_version
    with pytest.raises(TypeError, match="DisabledSafetyCheck"):
        export.export(ga.jit(gnp.sin), disabled_checks=["platform"])


def test_ordered_dicts_keep_their_order():
    x = collections.OrderedDict([("b", gnp.ones(2)), ("a", gnp.zeros(3))])
    text = ga.export.export(ga.jit(lambda d: (d, {"again": d})))(x).serialize()
    first, second = ga.export.deserialize(text).call(x)
    for found in (first, second["again"]):
        assert type(found) is collections.OrderedDict and list(found) == ["b", "a"]
        assert [v.shape for v in found.values()] == [(2,), (3,)]
    assert ga.tree.structure(first) == ga.tree.structure(x)


def test_arguments_of_another_type_are_named():
    f = ga.jit(lambda a, *, b: gnp.sin(a) + gnp.cos(b))
    x = np.arange(4, dtype=np.float32)
    program = export.export(f)(x, b=x)
    for args, b, text in (
        (np.ones(6, np.float32), x, r"Shape mismatch for args\[0\]\.shape\[0\] \(expected same"),
        (x, np.ones(6, np.float32), r"Shape mismatch for kwargs\['b'\]\.shape\[0\]"),
        (x.reshape(1, 4), x, r"Rank mismatch for args\[0\]"),
        (x.astype(np.float16), x, r"Dtype mismatch for args\[0\]"),
    ):
        with pytest.raises(ValueError, match=text):
            program.call(args, b=b)


@pytest.mark.on_cpu("it calls a program for GPUs where there is none")
def test_platforms_that_are_asked_for_are_held():
    # Functions of gpuarray.numpy count as jitted.
    program = export.export(gnp.sin, platforms=("tpu", "cuda"))(1.0)
    assert program.platforms == ("tpu", "cuda")
    for p in (program, export.deserialize(program.serialize())):
        with pytest.raises(ValueError, match="was exported for platforms .* used on 'cpu'"):
            p.call(1.0)
    anywhere = [export.DisabledSafetyCheck.platform()]
    program = export.export(gnp.sin, platforms=("rocm",), disabled_checks=anywhere)(1.0)
    assert export.deserialize(program.serialize()).call(0.0) == 0
    assert export.export(gnp.sin)(1.0).call(0.0) == 0
    assert export.export(gnp.sin, platforms=["cpu", "tpu"])(1.0).call(0.0) == 0
    with pytest.raises(RuntimeError, match="Unknown backend"):
        export.export(gnp.sin, platforms=("abacus",))


def test_symbols_that_no_argument_has():
    m, n = export.symbolic_shape("m, n", constraints=["m >= k"])
    with pytest.raises(ValueError, match="Encountered dimension variable 'k'"):
        export.export(ga.jit(gnp.sin))(ga.ShapeDtypeStruct((m, n), np.float32))
    m, n = export.symbolic_shape("m, n", constraints=["k == 2*m", "k >= n"])
    program = export.export(ga.jit(gnp.sin))(ga.ShapeDtypeStruct((m, n), np.float32))
    assert program.uses_global_constants and program.call(np.zeros((2, 4), "f")).sum() == 0
    assert not export.export(gnp.sin)(1.0).uses_global_constants
    with pytest.raises(ValueError, match="Expected .* to be greater or equal to 0, but found -1"):
        program.call(np.zeros((2, 5), np.float32))
