"""Mutable references: read and written eagerly, in jitted functions, in loops, under grad."""

import copy
import pickle

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax

LOOPS = {
    "scan": lambda step: lax.scan(lambda c, _: (step(c), None), 0, None, length=3)[0],
    "fori_loop": lambda step: lax.fori_loop(0, 3, lambda i, c: step(c), 0),
    "while_loop": lambda step: lax.while_loop(lambda c: c < 3, step, 0),
    "map": lambda step: lax.map(step, gnp.arange(3)).sum(),
    "nested": lambda step: lax.fori_loop(
        0, 1, lambda i, c: lax.scan(lambda c, _: (step(c), None), c, None, length=3)[0], 0
    ),
    "jit in a loop": lambda step: lax.fori_loop(0, 3, lambda i, c: ga.jit(step)(c), 0),
    "branches": lambda step: lax.fori_loop(
        0, 3, lambda i, c: lax.cond(i < 3, step, lambda c: c, c), 0
    ),
    "checkpoint": lambda step: [ga.checkpoint(step)(i) for i in range(3)][-1],
}


def test_reading_and_writing():
    r = ga.new_ref(gnp.arange(5))
    r[0] = 10
    r[1:3] += 5
    assert repr(r) == "Ref([10,  6,  7,  3,  4], dtype=int32)"
    assert (r.shape, r.dtype, r.ndim, r.size, len(r)) == ((5,), np.int32, 1, 5, 5)
    assert isinstance(r[...], ga.Array) and r[gnp.array([0, -1])].tolist() == [10, 4]
    before = r[...]
    ga.ref.addupdate(r, gnp.array([1, 1]), gnp.array([100, 100]))
    assert int(r[1]) == 206 and int(before[1]) == 6
    assert int(ga.ref.swap(r, 0, 3)) == 10 and int(ga.ref.get(r, 0)) == 3
    ga.ref.set(r, None, gnp.zeros(5, int))
    assert ga.freeze(r).tolist() == [0] * 5 and str(ga.typeof(r)) == "Ref{int32[5]}"
    assert ga.tree.leaves({"a": r}) == [r] and r.sharding == r[...].sharding
    small = ga.new_ref(gnp.zeros(2, "bfloat16"))
    small[0] = 1.0
    assert small.dtype == "bfloat16"
    for other in (copy.deepcopy(r), pickle.loads(pickle.dumps(r))):
        other[0] = 1
        assert int(r[0]) == 0 and int(other[0]) == 1
    assert ga.free_ref(r) is None
    for use in (lambda: r[0], lambda: r.__setitem__(0, 1), lambda: ga.free_ref(r)):
        with pytest.raises(RuntimeError, match="used after free_ref"):
            use()


@pytest.mark.parametrize(
    ("index", "value", "phrase"),
    [
        (0, 2.5, "Invalid dtype for `swap`. Ref dtype: int32. Value dtype: float32"),
        (slice(1, 3), 7, r"Expected shape: \(2,\). Value shape: \(\)"),
        (..., np.zeros((1, 5), np.int32), r"Value shape: \(1, 5\)"),
        (5, 1, "Out of bound indexer: idx=5, dim=5"),
    ],
)
def test_what_cannot_be_written(index, value, phrase):
    r = ga.new_ref(gnp.arange(5))
    with pytest.raises(ValueError, match=phrase):
        r[index] = value
    assert r[...].tolist() == [0, 1, 2, 3, 4]


def test_wrong_uses():
    r = ga.new_ref(1.0)
    with pytest.raises(TypeError, match="new_ref takes an array"):
        ga.new_ref(r)
    with pytest.raises(TypeError, match="interpreting argument to new_ref"):
        ga.new_ref([1, 2])
    with pytest.raises(ValueError, match="Can only call `ref_get` on a `Ref`"):
        ga.ref.get(gnp.ones(2), 0)
    for use in (
        gnp.sin,
        lambda r: ga.grad(lambda r: r[...])(r),
        lambda r: lax.scan(max, r, None, 3),
    ):
        with pytest.raises(TypeError, match="Ref"):
            use(r)
    with pytest.raises(ValueError, match="mutable array references cannot be returned"):
        ga.jit(lambda: ga.new_ref(1.0))()
    with pytest.raises(ValueError, match="only one reference.*appeared at both a and b"):
        ga.jit(lambda a, b: a[...] + b[...])(r, r)
    with pytest.raises(ValueError, match="both closed over and passed"):
        ga.jit(lambda a: a[...] + r[...])(r)
    with pytest.raises(ValueError, match="cond_fun of while_loop writes"):
        lax.while_loop(lambda c: r.__setitem__(..., 2.0) or c < 3, lambda c: c + 1, 0)
    box = []
    ga.jit(lambda x: box.append(ga.new_ref(x)))(1.0)
    with pytest.raises(ga.errors.UnexpectedTracerError, match="escaped"):
        _ = box[0][...]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit, ga.grad, lambda f: ga.jit(ga.grad(f))])
def test_in_loops(loop, wrap):
    count = ga.new_ref(0)

    def step(c):
        count[...] += 1
        return c + 1

    result = wrap(lambda x: LOOPS[loop](step) * x)(2.0)
    plain = wrap(lambda x: LOOPS[loop](lambda c: c + 1) * x)(2.0)
    assert int(count[...]) == 3 and float(result) == float(plain)


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit])
def test_derivatives_go_through_what_is_written(wrap):
    def total(x):
        acc = ga.new_ref(0.0)

        def body(_, v):
            acc[...] += v * v
            return None, acc[...]

        ys = lax.scan(body, None, x)[1]
        return acc[...] * ys[0]

    x = gnp.array([1.0, 2.0, 3.0])
    expected = lambda x: (x * x).sum() * x[0] ** 2
    for derivative in (ga.grad, ga.jacfwd, ga.hessian, lambda f: ga.vmap(ga.grad(f))):
        given = x if derivative in (ga.grad, ga.jacfwd, ga.hessian) else gnp.stack([x, 2 * x])
        found = wrap(derivative(total))(given)
        np.testing.assert_allclose(found, derivative(expected)(given), rtol=1e-5)


def test_jitted_functions_take_references_along():
    r, traced = ga.new_ref(gnp.zeros(3)), []

    @ga.jit
    def f(d, x, *, by=1.0):
        traced.append(1)
        d["r"][1] += x * by
        return d["r"][...].sum()

    for want in (2.0, 4.0, 6.0):
        assert float(f({"r": r}, 2.0)) == want
    other = ga.new_ref(gnp.ones(3))
    assert float(f({"r": other}, 2.0)) == 5.0 and len(traced) == 1
    assert float(f({"r": other}, 2.0, by=3.0)) == 11.0 and r[...].tolist() == [0, 6, 0]

    g = ga.jit(lambda x: r.__setitem__(0, x + other[0]))
    g(1.0), g(5.0)
    assert r[...].tolist() == [6, 6, 0]
    h = ga.jit(lambda n, q: q.__setitem__(0, n), static_argnums=0)
    h(7.0, r)
    assert float(r[0]) == 7.0
    assert float(ga.jit(lambda q: q[1], static_argnums=0)(r)) == 6.0
    twice = ga.jit(lambda q: ga.jit(lambda p: p.__setitem__(..., p[...] * 2))(q))
    twice(r)
    assert r[...].tolist() == [14, 12, 0]


def test_references_of_an_earlier_trace_are_forgotten():
    class Counter:
        pass

    counter = Counter()
    inner = ga.jit(lambda x: counter.ref.__setitem__(..., counter.ref[...] + x))

    def outer(x):
        counter.ref = ga.new_ref(x)
        inner(1.0)
        inner(1.0)
        return counter.ref[...]

    assert float(ga.jit(outer)(1.0)) == 3.0
    assert ga.jit(outer)(gnp.ones(2))[0] == 3.0 and float(outer(5.0)) == 7.0


def test_under_vmap():
    r = ga.new_ref(1.0)
    assert ga.vmap(lambda x: r[...] + x)(gnp.arange(2.0)).tolist() == [1.0, 2.0]
    for wrap in (lambda f: f, ga.jit):
        with pytest.raises(ValueError, match="vmapped value on an unbatched array reference"):
            ga.vmap(wrap(lambda x: r.__setitem__(..., x)))(gnp.ones(2))
    with pytest.raises(ValueError, match="differentiated value on a non-differentiated"):
        ga.grad(lambda x: (r.__setitem__(..., x), x)[1])(2.0)
    ga.grad(lambda x: (r.__setitem__(..., lax.stop_gradient(x)), x)[1])(2.0)
    assert float(r[...]) == 2.0

    def own(x):
        ref = ga.new_ref(0.0)
        lax.fori_loop(0, 3, lambda i, _: ref.__setitem__(..., ref[...] + x), None)
        return ref[...]

    assert ga.vmap(own)(gnp.arange(3.0)).tolist() == [0.0, 3.0, 6.0]


def test_where_references_cannot_be_taken_along():
    r = ga.new_ref(1.0)
    f = ga.custom_vjp(lambda x: x * r[...])
    f.defvjp(lambda x: (x, None), lambda _, g: (g,))
    for wrap in (ga.jit, lambda f: ga.jit(ga.vmap(f))):
        with pytest.raises(ValueError, match="custom_vjp.*from outside"):
            wrap(f)(gnp.ones(2))
    with pytest.raises(ValueError, match="from outside"):
        lax.custom_root(lambda x: x - r[...], 0.0, lambda f, x: x - f(x), lambda g, y: y / g(1.0))
    assert float(r[...]) == 1.0


def test_on_the_simulator():
    with ga.default_device("simulator"):
        r = ga.new_ref(gnp.zeros(4))
        step = ga.jit(lambda x: ga.ref.addupdate(r, ..., x))
        for _ in range(3):
            step(gnp.ones(4))
        assert r[...].tolist() == [3.0] * 4


# ---- as arguments ----


@ga.custom_vjp
def _custom(ref, x):
    ref[...] += 1
    return x


_custom.defvjp(lambda ref, x: (_custom(ref, x), ref), lambda ref, g: (None, g))


def _bump(ref, x):
    ref[...] += 1
    return x


#: Calls that give `_bump` a reference to three numbers.
AS_ARGUMENT = {
    "jit": ga.jit(_bump),
    "jit of jit": ga.jit(ga.jit(_bump)),
    "checkpoint": ga.checkpoint(_bump),
    "cond": lambda ref, x: lax.cond(True, _bump, lambda ref, x: -x, ref, x),
    "switch": lambda ref, x: lax.switch(1, [lambda ref, x: -x, _bump], ref, x),
    "vmap": lambda ref, x: ga.vmap(_bump, (0, None), None)(ref, x),
    "scan": lambda ref, x: lax.scan(lambda c, r: (_bump(r, c), None), x, ref)[0],
    "vjp": lambda ref, x: ga.vjp(_bump, ref, x)[0],
    "grad": lambda ref, x: ga.grad(_bump, 1)(ref, x) + 1,
}


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", AS_ARGUMENT)
def test_as_an_argument(name, wrap):
    ref = ga.new_ref(gnp.arange(3.0))
    for n in (1, 2):
        assert float(wrap(AS_ARGUMENT[name])(ref, 2.0)) == 2.0
        assert ref[...].tolist() == [n, n + 1, n + 2]


def test_as_an_argument_of_a_custom_rule():
    ref = ga.new_ref(gnp.arange(3.0))
    assert float(_custom(ref, 2.0)) == 2.0 and ref[0] == 1.0
    assert float(ga.grad(_custom, 1)(ref, 2.0)) == 1.0 and ref[0] == 2.0


def test_each_element_has_its_part():
    ref = ga.new_ref(gnp.arange(6.0).reshape(3, 2))

    def step(total, pair):
        part, x = pair
        total += part[...]
        part[0] = x
        return total, part[1]

    total, seconds = lax.scan(step, gnp.zeros(2), (ref, gnp.array([7.0, 8.0, 9.0])))
    assert total.tolist() == [6.0, 9.0] and seconds.tolist() == [1.0, 3.0, 5.0]
    assert ref[:, 0].tolist() == [7.0, 8.0, 9.0]

    def mapped(part, x):
        part[0] = x
        return part[1]

    assert ga.vmap(mapped, (1, 0))(ref, gnp.array([1.0, 2.0])).tolist() == [8.0, 3.0]
    assert ref[0].tolist() == [1.0, 2.0]


def test_parts_by_at():
    ref = ga.new_ref(gnp.arange(5.0))
    middle = ref.at[1:4]
    middle[...] *= 2.0
    middle.at[1:][0] = 10.0
    ga.ref.addupdate(middle, 0, 1.0)
    assert ref[...].tolist() == [0.0, 3.0, 10.0, 6.0, 4.0]
    assert (middle.shape, middle.dtype) == ((3,), np.float32)
    total = lambda x: (lambda r: (r.at[1:3].__setitem__(..., x), r[...].sum())[1])(
        ga.new_ref(gnp.ones(4))
    )
    assert ga.grad(total)(gnp.array([2.0, 3.0])).tolist() == [1.0, 1.0]


def test_looking_inside_and_calling_what_was_compiled():
    outer = ga.new_ref(gnp.zeros(2))

    def f(ref, x):
        outer[...] += x
        ref[...] = x
        return 2 * x

    ref = ga.new_ref(gnp.zeros(2))
    graph = ga.make_jaxpr(f)(ref, gnp.ones(2))
    assert len(graph.invars) == 3 and outer[0] == 0.0  # both references and x
    shape = ga.ShapeDtypeStruct((2,), "float32")
    assert ga.eval_shape(f, ref, gnp.ones(2)) == shape
    assert ga.make_jaxpr(f, return_shape=True)(ref, gnp.ones(2))[1] == shape
    compiled = ga.jit(f).lower(ref, gnp.ones(2)).compile()
    for n in (1.0, 2.0):
        assert compiled(ref, gnp.ones(2)).tolist() == [2.0, 2.0]
        assert outer[0] == n and ref[0] == 1.0


@pytest.mark.parametrize(
    "call",
    [
        lambda f, r: ga.jit(f)(r, r),
        lambda f, r: lax.cond(True, f, f, r, r),
        lambda f, r: ga.vmap(f)(r, r),
        lambda f, r: ga.vjp(f, r, r),
        lambda f, r: _with_rule(f)(r, r),
    ],
    ids=["jit", "cond", "vmap", "vjp", "custom_vjp"],
)
def test_one_reference_is_one_argument(call):
    with pytest.raises(ValueError, match=r"only one reference .* appeared at both "):
        call(lambda one, two: 0.0, ga.new_ref(gnp.zeros(2)))


def _with_rule(f):
    made = ga.custom_vjp(f)
    made.defvjp(f, f)
    return made


def test_messages_name_the_argument():
    ref = ga.new_ref(0.0)
    with pytest.raises(ValueError, match="appeared at both one and two"):
        ga.jit(lambda one, two: one[...])(ref, ref)
    with pytest.raises(ValueError, match="closed over and passed as the argument mine"):
        ga.jit(lambda mine: mine[...] + ref[...])(ref)
    kept = ga.new_ref(1.0)
    f = _with_rule(lambda r, x: x)
    f.defvjp(lambda r, x: (x, kept), lambda r, g: (None, g))
    with pytest.raises(ValueError, match="custom_vjp fwd function"):
        ga.vjp(f, ref, 1.0)
    with pytest.raises(ValueError, match="returned a mutable array"):
        _with_rule(lambda r: r)(ref)


def through_cond(body):
    return lambda v: ga.lax.cond(gnp.int32(1) > 0, body, lambda v: None, v)


@pytest.mark.parametrize("outer", [lambda f: f, ga.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "transform",
    [lambda f: f, ga.jit, ga.remat, through_cond, lambda f: lambda v: ga.vjp(f, v)[0]],
    ids=["plain", "jit", "remat", "cond", "vjp"],
)
def test_parts_are_arguments(transform, outer):
    def double(v):
        v[...] = 2 * v[...] + gnp.ones_like(v)

    def program(i, places):
        ref = ga.new_ref(gnp.arange(10.0))
        transform(double)(ref.at[2:7])
        transform(double)(ref.at[i])  # an index that is traced
        transform(lambda d: double(d["part"]))({"part": ref.at[places]})
        transform(double)(ref.at[2:].at[::3])  # a part of a part
        return ref[...]

    x = np.arange(10.0)
    for index in (slice(2, 7), 1, np.array([8, 9]), slice(2, None, 3)):
        x[index] = 2 * x[index] + 1
    np.testing.assert_array_equal(outer(program)(1, np.array([8, 9])), x)


def test_a_part_is_a_pytree():
    ref = ga.new_ref(gnp.arange(6.0).reshape(3, 2))
    part = ref.at[gnp.int32(1), None, ::-1]
    leaves, spec = ga.tree_util.tree_flatten(part)
    assert leaves[0] is ref and leaves[1] == 1 and len(leaves) == 2
    again = ga.tree_util.tree_unflatten(spec, leaves)
    again[0, 0] = 7.0
    assert ref[1].tolist() == [2.0, 7.0] and (part.ndim, part.size) == (2, 2)
    assert hash(spec) == hash(ga.tree_util.tree_structure(ref.at[gnp.int32(0), None, ::-1]))
    with pytest.raises(TypeError, match="vmap cannot map over ref.at"):
        ga.vmap(lambda v: v[...])(ref.at[1:])


def stashing():
    """An identity whose rule for cotangents writes what arrives to a reference."""

    @ga.custom_vjp
    def stash(ref, x):
        return x

    def bwd(ref, g):
        ref[...] = g
        return None, g

    stash.defvjp(lambda ref, x: (x, ref), bwd)
    return stash


def _twice(ref, x):
    stash = stashing()
    return stash(ref, gnp.sin(stash(ref, gnp.sin(x))))  # the inner one writes last


def _in_a_loop(ref, x):
    stash = stashing()
    body = lambda c, _: (gnp.sin(stash(ref, gnp.sin(c))), ())
    return lax.scan(body, x, None, length=1)[0]


def _recomputed_in_a_loop(ref, x):
    stash = stashing()
    body = ga.checkpoint(lambda c, _: (gnp.sin(stash(ref, gnp.sin(c))), ()))
    return lax.scan(body, x, None, length=1)[0]


def _in_a_function_inside(ref, x):
    inner = ga.jit(lambda r, y: gnp.sin(stashing()(r, gnp.sin(y))))
    return ga.jit(inner)(ref, x)


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit])
@pytest.mark.parametrize("fun", [_twice, _in_a_loop, _recomputed_in_a_loop, _in_a_function_inside])
def test_rules_write_to_references(fun, wrap):
    fun = wrap(fun)
    inside = np.cos(np.sin(1.0))
    for _ in range(2):  # each call has a reference of its own
        ref = ga.new_ref(gnp.float32(0.0))
        slope = ga.grad(fun, 1)(ref, gnp.float32(1.0))
        np.testing.assert_allclose(ref[...], inside, rtol=1e-6)
        np.testing.assert_allclose(slope, inside * np.cos(1.0), rtol=1e-6)
    ref = ga.new_ref(gnp.float32(0.0))
    _, pull = ga.vjp(lambda x: fun(ref, x), gnp.float32(1.0))
    assert float(ref[...]) == 0
    ga.jit(pull)(gnp.float32(2.0))
    np.testing.assert_allclose(ref[...], 2 * inside, rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit])
def test_rules_collect_in_each_step(wrap):
    @ga.custom_vjp
    def counted(ref, x):
        return 2 * x

    def bwd(ref, g):
        ref[...] += 1
        return None, 2 * g

    counted.defvjp(lambda ref, x: (2 * x, ref), bwd)
    count = ga.new_ref(0)
    f = wrap(lambda x: lax.scan(lambda c, _: (counted(count, c), None), x, None, length=5)[0])
    assert float(ga.grad(f)(1.0)) == 32 and int(count[...]) == 5
    assert float(ga.jit(ga.grad(f))(1.0)) == 32 and int(count[...]) == 10


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit])
def test_rules_read_references_and_give_cotangents_of_what_they_hold(wrap):
    @ga.custom_vjp
    def cube(ref):
        return ref[...] ** 3

    cube.defvjp(lambda ref: (cube(ref), ref[...]), lambda x, g: (3 * x * x * g,))
    assert float(wrap(cube)(ga.new_ref(2.0))) == 8
    assert float(ga.grad(lambda x: wrap(cube)(ga.new_ref(x)))(2.0)) == 12


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit])
def test_no_derivative_of_what_is_written(wrap):
    total = ga.new_ref(1.0, kind="no_grad_no_remat")

    @ga.checkpoint
    def f(y):
        total[...] += y * y
        return y * y

    assert float(ga.grad(wrap(f))(2.0)) == 4 and float(total[...]) == 5
    other = copy.deepcopy(total)
    ga.grad(wrap(lambda y, ref: (ref.__setitem__(..., y), y * ref[...])[1]))(3.0, other)
    assert float(other[...]) == 3
    plain = ga.new_ref(0.0)
    with pytest.raises(ValueError, match="with a differentiated value"):
        ga.grad(lambda y: plain.__setitem__(..., y) or y)(2.0)
    with pytest.raises(ValueError, match="`kind` must be None or 'no_grad_no_remat', got 'odd'"):
        ga.new_ref(1.0, kind="odd")


def many(refs, x):
    """Adds to all references, each by way of the one before it."""
    for ref in refs:
        x = ref[...] = ref[...] + x
    return x


@pytest.mark.parametrize(
    "call",
    [
        lambda f: ga.jit(f)(1.0),
        lambda f: ga.checkpoint(f)(1.0),
        lambda f: lax.scan(lambda c, _: (f(c), None), 1.0, None, length=1)[0],
        lambda f: lax.cond(True, f, lambda x: x, 1.0),
        lambda f: ga.jit(lambda x: lax.fori_loop(0, 1, lambda _, y: f(y), x))(1.0),
        lambda f: ga.jit(f).trace(1.0) and ga.jit(f)(1.0),
    ],
    ids="jit checkpoint scan cond nested traced".split(),
)
def test_number_of_traces_does_not_depend_on_the_number_of_references(call):
    def traced(count):
        times = []
        refs = [ga.new_ref(float(i)) for i in range(count)]
        assert float(call(lambda x: (times.append(0), many(refs, x))[1])) == 1 + sum(range(count))
        assert [float(r[...]) for r in refs] == [1 + i * (i + 1) / 2 for i in range(count)]
        return len(times)

    assert traced(5) == traced(1)


def test_a_function_that_fails_leaves_references_as_they_were():
    first, second = ga.new_ref(1.0), ga.new_ref(2.0)

    @ga.jit
    def f(x):
        first[...], second[...] = second[...] * x, first[...]
        raise KeyError("of the user's own")

    with pytest.raises(KeyError, match="of the user's own"):
        f(3.0)
    assert (float(first[...]), float(second[...])) == (1.0, 2.0)
    first[...] = 5.0
    assert float(ga.jit(lambda x: first[...] + x)(1.0)) == 6.0


def test_a_value_that_python_needs_says_so():
    first, second = ga.new_ref(1.0), ga.new_ref(2.0)
    with pytest.raises(ga.errors.TracerBoolConversionError):
        ga.jit(lambda x: first[...] + x if second[...] > 0 else x)(1.0)
    assert float(first[...] + second[...]) == 3.0


@pytest.mark.parametrize(
    "call",
    [
        lambda r: lax.scan(lambda y, _: (r[...] + y[...], None), r, None, length=1),
        lambda r: lax.while_loop(lambda y: False, lambda y: (r[...], y)[1], r),
        lambda r: lax.cond(True, lambda y: r[...], lambda y: y[...], r),
    ],
)
def test_a_reference_is_passed_or_closed_over(call):
    with pytest.raises(ValueError, match="both closed over and passed as the argument y"):
        call(ga.new_ref(0.0))


def test_a_carry_has_no_reference_twice():
    r = ga.new_ref(0.0)
    with pytest.raises(ValueError, match=r"only one reference.*appeared at both c\[0\] and c\[1\]"):
        lax.scan(lambda c, _: (None, None), (r, r), None, length=1)
