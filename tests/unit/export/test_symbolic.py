"""Programs exported for symbols: called with arrays of any length, the same as without them.
Lengths compute and compare as integers do, or say that the answer depends on the symbols.
"""

import itertools

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import export, lax, random
from gpuarray.core.dims import Dim, bounds, larger, smaller, value_of
from gpuarray.errors import InconclusiveDimensionOperation

RNG = np.random.default_rng(0)
a, b = export.symbolic_shape("a, b")


# ---- lengths ----

LENGTHS = {
    "a": a,
    "sum": 2 * a + b - 3,
    "product": a * b + a * a,
    "quotient": (a + b) // 3,
    "whole": (6 * a * b) // (2 * a),
    "remainder": (a + 5) % 4,
    "nested": (a // 2 + b) // 2 * 2,
    "larger": larger(a, b) - smaller(a, 4),
    "slice": smaller(larger(a - 3, 0), b),
    "divisor": (2 * a + b) // (b + 1),
}


def _by_hand(name, a, b):
    return {
        "a": a,
        "sum": 2 * a + b - 3,
        "product": a * b + a * a,
        "quotient": (a + b) // 3,
        "whole": 3 * b,
        "remainder": (a + 5) % 4,
        "nested": (a // 2 + b) // 2 * 2,
        "larger": max(a, b) - min(a, 4),
        "slice": min(max(a - 3, 0), b),
        "divisor": (2 * a + b) // (b + 1),
    }[name]


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_compute_as_integers_do(name):
    length = LENGTHS[name]
    low, high = bounds(length)
    for x, y in itertools.product((1, 2, 3, 4, 7, 12), repeat=2):
        value = value_of(length, {"a": x, "b": y})
        assert value == _by_hand(name, x, y)
        assert low <= value <= high
    # As text and back.
    again = export.symbolic_shape(str(length), scope=a.scope)[0]
    assert str(again) == str(length) and again == length and hash(again) == hash(length)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda: a >= 1, True),
        (lambda: a > 0, True),
        (lambda: a + 1 < a, False),
        (lambda: a * b >= a, None),
        (lambda: a >= 2, None),
        (lambda: a <= b, None),
        (lambda: a == b, False),
        (lambda: a == 1, False),
        (lambda: 2 * a - a == a, True),
        (lambda: a - a, 0),
        (lambda: (4 * a) % 2, 0),
        (lambda: smaller(2, b) <= b, True),
        (lambda: a // 2 <= a, True),
        (lambda: a % 5 < 5, True),
        (lambda: larger(a, b) >= a, True),
        (lambda: int(a), None),
        (lambda: range(a), None),
        (lambda: [0] * a, None),
    ],
)
def test_what_depends_on_the_symbols_is_no_answer(answer, expected):
    if expected is None:
        with pytest.raises(InconclusiveDimensionOperation):
            answer()
    else:
        assert answer() == expected and type(answer()) is type(expected)


def test_constraints_are_known():
    scope = export.SymbolicScope(["a >= 8", "mod(a, 2) == 0", "b <= a", "c <= 5"])
    x, y, z = export.symbolic_shape("a, b, c", scope=scope)
    assert x >= 8 and x > 7 and x >= y and x - y >= 0 and z <= 5
    assert x % 2 == 0 and x // 2 * 2 == x
    with pytest.raises(InconclusiveDimensionOperation):
        _ = x >= 9
    with pytest.raises(ValueError, match="mixing of symbolic scopes"):
        _ = x + a


@pytest.mark.parametrize(
    ("text", "like", "message"),
    [
        ("a b", None, "expected ','"),
        ("2a", None, "expected ','"),
        ("a//2", None, "unexpected '/'"),
        ("_", None, "no 'like' shape"),
        ("...", None, "no 'like' shape"),
        ("..., a", (2, 3), "at the end"),
        ("3", (4,), "different size 3"),
        ("a", (3, 4), "1 lengths"),
        ("f(a, 2)", None, "unknown operation"),
        ("max(a)", None, "expected ','"),
        ("a^b", None, "power"),
        ("a,,b", None, "expected a length"),
        ("_", (None,), "no 'like' shape"),
    ],
)
def test_shapes_that_are_no_shapes(text, like, message):
    with pytest.raises(ValueError, match=message):
        export.symbolic_shape(text, like=like)


def test_other_arguments_of_shapes():
    assert export.symbolic_shape(None, like=(2, 3)) == (2, 3)
    assert export.symbolic_shape("(a,)", scope=a.scope) == (a,)
    assert export.symbolic_shape("a, _, ...", like=(1, 2, 3, 4), scope=a.scope) == (a, 2, 3, 4)
    with pytest.raises(ValueError, match="polymorphic shape spec should be None or a string"):
        export.symbolic_shape(3)
    with pytest.raises(ValueError, match="both"):
        export.symbolic_shape("a", scope=a.scope, constraints=["a >= 2"])
    with pytest.raises(ValueError, match="must contain one of"):
        export.SymbolicScope(["a"])
    with pytest.raises(ValueError, match="sequence of strings"):
        export.SymbolicScope("a >= 2")
    with pytest.raises(ValueError, match="holds for no value"):
        export.SymbolicScope(["2 >= 3"])
    specs = export.symbolic_args_specs(
        {"x": np.ones((3, 4)), "y": np.ones(4, np.int32)}, {"x": "a, _", "y": None}
    )
    assert str(specs["x"].shape) == "(a, 4)" and specs["y"].shape == (4,)
    assert specs["y"].dtype == np.int32


# ---- programs ----

PROGRAMS = {
    "elementwise": lambda x: gnp.sin(x) * x + 1,
    "row added": lambda x: x + x[0],
    "mean": lambda x: x.mean() + x.var(1).sum(),
    "softmax": ga.nn.softmax,
    "product": lambda x: x @ x.T,
    "einsum": lambda x: gnp.einsum("ij,kj->ik", x, x),
    "flat": lambda x: x.reshape(-1),
    "product of lengths": lambda x: x.reshape(x.shape[0] * x.shape[1]),
    "concatenate": lambda x: gnp.concatenate([x, x[1:]]),
    "stack": lambda x: gnp.stack([x, x]),
    "slices": lambda x: x[1:, :2].sum() + x[::2].sum() + x[-1].sum() + x[:, ::-1][:, 0].sum(),
    "negative ends": lambda x: x[:-1],
    "ones": lambda x: gnp.ones(x.shape[0]) * x.shape[1],
    "arange": lambda x: gnp.arange(x.shape[0]) + gnp.arange(1, x.shape[1] + 1)[:, None],
    "a length as a value": lambda x: x.sum(0) / x.shape[0] - x.shape[0] % 3 + x.shape[1] // 2,
    "pad": lambda x: gnp.pad(x, ((0, 1), (2, 0))),
    "where": lambda x: gnp.where(x > 0, x, 0),
    "broadcast": lambda x: gnp.broadcast_to(x, (3, *x.shape)),
    "argmax": lambda x: x.argmax(1),
    "cumsum": lambda x: gnp.cumsum(x, 0),
    "sort": lambda x: gnp.sort(x),
    "gather": lambda x: x[gnp.array([0, -1])],
    "scan": lambda x: lax.scan(lambda c, r: (c + r, c.sum()), gnp.zeros(x.shape[1]), x),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2 + i, x),
    "while": lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + x.shape[0], x),
    "cond": lambda x: lax.cond(x[0, 0] > 0, lambda x: x, lambda x: -x, x),
    "jit inside": lambda x: ga.jit(lambda y: y.T)(x),
    "vmap inside": lambda x: ga.vmap(lambda r: r.sum() * r.shape[0])(x),
    "gradient": lambda x: ga.grad(lambda x: (gnp.tanh(x) ** 2).mean())(x),
    "relu": ga.nn.relu,
    "triangle": lambda x: gnp.tril(x @ x.T),
    "random": lambda x: x + random.uniform(random.key(0), x.shape),
    "cumulative max": lambda x: lax.cummax(x, axis=1),
}
SHAPES = [(1, 1), (2, 3), (5, 4), (3, 1)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_the_same_for_every_length(name):
    f = PROGRAMS[name]
    spec = ga.ShapeDtypeStruct(export.symbolic_shape("a, b"), np.float32)
    program = export.export(ga.jit(f))(spec)
    stored = export.deserialize(program.serialize())
    assert [str(x) for x in stored.out_avals] == [str(x) for x in program.out_avals]
    for shape in SHAPES:
        x = RNG.standard_normal(shape).astype(np.float32)
        expected = ga.tree.leaves(f(gnp.asarray(x)))
        for p in (program, stored):
            for found, want in zip(ga.tree.leaves(p.call(x)), expected, strict=True):
                assert found.shape == want.shape and found.dtype == want.dtype
                np.testing.assert_allclose(found, want, 1e-5, 1e-6)
        # What the types said is what comes out.
        values = dict(zip("ab", shape, strict=True))
        for aval, want in zip(program.out_avals, expected, strict=True):
            assert tuple(value_of(n, values) for n in aval.shape) == want.shape


def test_a_program_that_depends_on_the_length_is_refused():
    spec = ga.ShapeDtypeStruct((a, b), np.float32)
    for f in (
        lambda x: x if x.shape[0] > 3 else -x,
        lambda x: x.reshape(2, -1),
        lambda x: x + gnp.ones((3, 1)),
        lambda x: sum(x[i] for i in range(x.shape[0])),
    ):
        with pytest.raises((InconclusiveDimensionOperation, TypeError)):
            export.export(ga.jit(f))(spec)
    even = export.symbolic_args_specs((spec,), "_, _", constraints=())
    assert even[0].shape == (a, b)
    spec = export.symbolic_args_specs((np.ones((4, 3)),), ("a, b",), constraints=["a >= 4"])
    found = export.export(ga.jit(lambda x: x if x.shape[0] > 3 else -x))(*spec)
    assert found.call(np.ones((4, 2))).sum() == 8


def test_several_arguments_share_symbols():
    specs = export.symbolic_args_specs(
        ({"w": np.ones((3, 4)), "b": np.ones(4)}, np.ones((2, 3))),
        ({"w": "n, m", "b": "m"}, "batch, n"),
    )
    f = lambda p, x: gnp.tanh(x @ p["w"] + p["b"])
    program = export.deserialize(export.export(ga.jit(f))(*specs).serialize(vjp_order=1))
    w, bias, x = np.ones((2, 5), "f"), np.arange(5, dtype="f"), np.ones((7, 2), "f")
    np.testing.assert_allclose(program.call({"w": w, "b": bias}, x), np.tanh(x @ w + bias), 1e-6)
    loss = lambda p: program.call(p, x).sum()
    found = ga.grad(loss)({"w": w, "b": bias})
    expected = (1 - np.tanh(x @ w + bias) ** 2).sum(0)
    np.testing.assert_allclose(found["b"], expected, 1e-5, 1e-6)
    with pytest.raises(ValueError, match=r"args\[1\]\.shape\[1\] \(= 3\).*'n' \(= 2\)"):
        program.call({"w": w, "b": bias}, np.ones((7, 3), "f"))
    with pytest.raises(ValueError, match="exported for"):
        program.call({"w": w, "b": bias}, np.ones(7, "f"))


@pytest.mark.parametrize(
    ("shape", "given", "message"),
    [
        ("a, a", (2, 3), "inconsistency"),
        ("2*a + 1", (4,), "remainder 1"),
        ("a", (0,), "Expected value >= 1"),
        ("a - 3", (-0,), None),
        ("a*b", (6,), "Cannot solve"),
        ("a, floordiv(a, 2)", (5, 3), "inconsistency"),
    ],
)
def test_arrays_that_do_not_fit(shape, given, message):
    spec = ga.ShapeDtypeStruct(export.symbolic_shape(shape), np.float32)
    program = export.export(ga.jit(lambda x: x + 1))(spec)
    if message is None:
        assert program.call(np.zeros(given, np.float32)).shape == given
    else:
        with pytest.raises(ValueError, match=message):
            program.call(np.zeros(given, np.float32))


def test_constraints_are_checked_at_the_call_and_stored():
    spec = export.symbolic_args_specs(
        (np.ones((8, 4)),), ("a, b",), constraints=["a >= 8", "b <= a", "mod(a, 4) == 0"]
    )
    program = export.export(ga.jit(lambda x: x[:8].reshape(-1, 4, x.shape[1])))(*spec)
    stored = export.deserialize(program.serialize())
    for p in (program, stored):
        assert p.call(np.ones((12, 3))).shape == (2, 4, 3)
        for shape in ((4, 3), (8, 9), (10, 3)):
            with pytest.raises(ValueError, match="Expected .* to be (greater or equal|equal) to 0"):
                p.call(np.ones(shape))


def test_a_program_with_symbols_inside_of_another():
    inner = export.export(ga.jit(lambda x: x.sum(0) * x.shape[0]))(
        ga.ShapeDtypeStruct(export.symbolic_shape("n, m"), np.float32)
    )
    outer = export.export(ga.jit(lambda x: inner.call(gnp.concatenate([x, x])) + 1))(
        ga.ShapeDtypeStruct(export.symbolic_shape("p, 3"), np.float32)
    )
    assert outer.call(np.ones((2, 3), np.float32)).tolist() == [17.0] * 3
    assert ga.vmap(inner.call)(np.ones((5, 2, 3), np.float32)).shape == (5, 3)
    assert ga.jit(inner.call)(np.ones((4, 2), np.float32)).tolist() == [16.0] * 2


def test_types_without_running():
    found = ga.eval_shape(lambda x: gnp.concatenate([x, x]).T, ga.ShapeDtypeStruct((a, b), "f"))
    assert found.shape == (b, 2 * a) and export.is_symbolic_dim(found.shape[1])
    assert not export.is_symbolic_dim(3) and isinstance(a, Dim)
    assert "f32[a,b]" in str(ga.make_jaxpr(gnp.sin)(ga.ShapeDtypeStruct((a, b), "f")))
