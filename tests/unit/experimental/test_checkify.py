"""checkify: the first failure is reported, through every transform and every kind of loop."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.experimental import checkify as ck
from gpuarray.sharding import Mesh
from gpuarray.sharding import PartitionSpec as P


def logarithm(x):
    ck.check(x > 0, "x must be positive, got {}", x)
    return gnp.log(x)


MESSAGE = "x must be positive, got -1.0 (`check` failed)"


def message(f, *args, errors=ck.user_checks):
    """The message of eager checkify, which that of a jitted one must equal, as must the results."""
    checked = ck.checkify(f, errors)
    error, out = checked(*args)
    jitted, jitted_out = ga.jit(checked)(*args)
    assert jitted.get() == error.get()
    for x, y in zip(ga.tree.leaves(out), ga.tree.leaves(jitted_out), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    return error.get()


def test_a_check_becomes_a_value():
    error, out = ck.checkify(logarithm)(-1.0)
    assert error.get() == MESSAGE and np.isnan(out)
    assert (
        type(error.get_exception()) is ck.FailedCheckError and str(error.get_exception()) == MESSAGE
    )
    with pytest.raises(ck.JaxRuntimeError, match="positive"):
        error.throw()
    error, out = ck.checkify(logarithm)(1.0)
    assert error.get() is None and error.get_exception() is None and out == 0
    error.throw()


def test_a_check_raises_where_nothing_collects_it():
    for call in (logarithm, ga.jit(logarithm), ga.grad(logarithm)):
        with pytest.raises(ck.JaxRuntimeError, match="positive, got -1.0"):
            call(-1.0)
        assert np.isfinite(call(1.0))
    ck.debug_check(False, "only under checkify")
    ga.jit(lambda x: ck.debug_check(x > 0, "only under checkify"))(-1.0)
    assert message(lambda x: ck.debug_check(x > 0, "found"), -1.0) == "found (`check` failed)"


@pytest.mark.parametrize(
    "f",
    [
        ga.jit(logarithm),
        ga.checkpoint(logarithm),
        ga.grad(logarithm),
        ga.jit(ga.jit(logarithm)),
        lambda x: ga.jvp(logarithm, (x,), (1.0,)),
        lambda x: lax.cond(x < 0, logarithm, lambda x: x, x),
        lambda x: lax.switch(1, [lambda x: x, logarithm], x),
        lambda x: lax.fori_loop(0, 3, lambda i, y: logarithm(y) * 0 - 1.0, x),
        lambda x: lax.scan(lambda c, y: (logarithm(c), y), x, gnp.arange(2.0))[0],
        lambda x: lax.map(logarithm, x[None]),
        lambda x: ga.vmap(logarithm)(gnp.stack([x + 5, x - 5, x])),  # the last, as in JAX
        lambda x: ga.vmap(ga.vmap(logarithm))(gnp.stack([x + 5, x])[None]),
        lambda x: ck.check_error(ck.checkify(logarithm)(x)[0]),
    ],
    ids="jit checkpoint grad jit-jit jvp cond switch fori scan map vmap vmap-vmap again".split(),
)
def test_checks_inside_transforms_and_control_flow(f):
    assert message(f, -1.0) == MESSAGE


@pytest.mark.parametrize(
    "f",
    [
        logarithm,
        ga.jit(logarithm),
        ga.checkpoint(logarithm),
        lambda x: lax.cond(x < 0, logarithm, lambda x: x, x),
        lambda x: lax.while_loop(lambda x: x < 1, lambda x: logarithm(x) * 0 + 2, x),
        lambda x: lax.scan(lambda c, y: (logarithm(c), y), x, gnp.arange(2.0))[0],
        lambda x: ga.jit(ga.vmap(logarithm))(x[None]),
    ],
    ids="plain jit checkpoint cond while scan vmap".split(),
)
def test_checks_that_are_not_asked_for_are_left_out_everywhere(f):
    error, _ = ck.checkify(f, ck.div_checks)(gnp.float32(-1.0))
    assert error.get() is None


def test_branches_that_are_not_taken_do_not_fail():
    assert message(lambda x: lax.cond(x > 0, logarithm, lambda x: x, x), -1.0) is None


def test_custom_rules():
    @ga.custom_jvp
    def f(x):
        return logarithm(x)

    f.defjvps(lambda t, out, x: t / x)
    assert message(f, -1.0) == MESSAGE

    for optimize in (False, True):
        g = ga.custom_vjp(logarithm)
        g.defvjp(lambda x: (logarithm(x), x), lambda x, ct: (ct / x,), optimize_remat=optimize)
        assert message(g, -1.0) == MESSAGE
        assert message(ga.grad(g), -1.0) == MESSAGE
        assert message(ga.grad(ga.jit(g)), -1.0) == MESSAGE  # staged before its rule is applied


def test_loops_report_the_first_failure():
    def until(x):
        def body(i, c):
            ck.check(c < 3, "c={c}", c=c)
            return c + 1

        return lax.fori_loop(0, 5, body, x)

    assert message(until, 0) == "c=3 (`check` failed)"
    error, out = ck.checkify(until)(0)
    assert out == 5  # what comes out is what would come out anyway

    def condition(x):
        ck.check(x < 3, "condition at {}", x)
        return x < 5

    loop = lambda x: lax.while_loop(condition, lambda x: x + 1, x)
    assert message(loop, 0) == "condition at 3 (`check` failed)"
    assert message(loop, 7) == "condition at 7 (`check` failed)"


def test_the_first_of_several_checks_is_reported():
    def f(x):
        ck.check(x > -5, "first")
        ck.check(x > 0, "second {}", x)
        ck.check(x > 1, "third {} {y}", x, y={"a": x}["a"] * gnp.ones(2))

    assert message(f, -1.0) == "second -1.0 (`check` failed)"
    assert message(f, 0.5) == "third 0.5 [0.5 0.5] (`check` failed)"
    assert message(f, -9.0) == "first (`check` failed)"
    assert message(f, 9.0) is None
    assert message(lambda: ck.check(False, "always")) == "always (`check` failed)"


def test_vmap_of_checkify_names_the_elements():
    error, _ = ga.vmap(ck.checkify(logarithm))(gnp.array([1.0, -1.0, -2.0]))
    assert error.get() == (
        "at mapped index 1: x must be positive, got -1.0 (`check` failed)\n"
        "at mapped index 2: x must be positive, got -2.0 (`check` failed)"
    )
    error, _ = ga.jit(ga.vmap(ga.vmap(ck.checkify(logarithm))))(gnp.array([[1.0, -1.0]]))
    assert error.get() == f"at mapped index 0, 1: {MESSAGE}"
    assert ga.vmap(ck.checkify(logarithm))(gnp.ones(3))[0].get() is None


def test_errors_go_on_through_programs():
    error = ga.jit(lambda e: ga.tree.map(lambda x: x, e))(ck.checkify(logarithm)(-1.0)[0])
    assert error.get() == MESSAGE and repr(error) == f"Error({MESSAGE!r})"
    with pytest.raises(ck.JaxRuntimeError, match="positive"):
        ck.check_error(error)
    with pytest.raises(ck.JaxRuntimeError, match="positive"):
        ga.jit(lambda e: ck.check_error(e))(error)
    ck.check_error(ck.init_error)
    assert ck.init_error.get() is None
    assert ga.grad(lambda x: ck.checkify(logarithm)(x)[1])(2.0) == 0.5


X = gnp.arange(3.0)
AUTOMATIC = [
    (ck.nan_checks, gnp.sin, (np.inf,), "nan generated by primitive: sin."),
    (ck.nan_checks, lambda x: gnp.log(x) + 1, (-1.0,), "nan generated by primitive: log."),
    (ck.nan_checks, lambda x: ga.jit(gnp.log)(x) + 1, (-1.0,), "nan generated by primitive: log."),
    (ck.nan_checks, gnp.sin, (1.0,), None),
    (ck.nan_checks, lambda x: x - x, (np.inf,), "nan generated by primitive: sub."),
    (ck.nan_checks, lambda x: lax.scan(lambda c, _: (c - 1e38, 0), x, None, length=3)[0] * 0,
     (-2.5e38,), "nan generated by primitive: mul."),
    (ck.div_checks, lambda x, y: x / y, (1.0, 0.0), "division by zero"),
    (ck.div_checks, lambda x, y: x // y, (1, 0), "division by zero"),
    (ck.div_checks, lambda x, y: x / y, (X, X + 1), None),
    (ck.float_checks, lambda x, y: x / y, (X, X), "division by zero"),
    (ck.index_checks, lambda x, i: x[i], (X, 2), None),
    (ck.user_checks, lambda x, i: x[i], (X, 9), None),
    *[(ck.index_checks, f, args, "out-of-bounds indexing for array of shape " + words) for
      f, args, words in [
        (lambda x, i: x[i], (X, 5), "(3,): index 5 is out of bounds for axis 0 with size 3. "),
        (lambda x, i: x[i], (X, gnp.array([0, 7])),
         "(3,): index 7 is out of bounds for axis 0 with size 3. "),
        (lambda x, i: x[:, i], (gnp.ones((2, 3)), -9),
         "(2, 3): index -6 is out of bounds for axis 1 with size 3. "),
        (lambda x, i: x.at[i].set(1.0), (X, 5),
         "(3,): index 5 is out of bounds for axis 0 with size 3. "),
        (lambda x, i: x.at[i].add(1.0), (gnp.ones((2, 3)), gnp.array([1, 4])),
         "(2, 3): index 4 is out of bounds for axis 0 with size 2. "),
        (lambda x, i: lax.dynamic_slice(x, (i,), (2,)), (X, 2),
         "(3,): index 2 is out of bounds for axis 0 with size 3. "),
        (lambda x, i: lax.dynamic_update_slice(x, x[:2], (i,)), (X, 2),
         "(3,): index 2 is out of bounds for axis 0 with size 3. "),
    ]],
]  # fmt: skip


@pytest.mark.parametrize(("errors", "f", "args", "expected"), AUTOMATIC)
def test_automatic_checks(errors, f, args, expected):
    assert message(f, *args, errors=errors) == expected
    assert message(f, *args, errors=errors | ck.all_checks) is not None or expected is None
    assert errors <= ck.all_checks


def test_kinds_of_errors():
    kinds = [
        (ck.NaNError, ck.checkify(gnp.log, ck.nan_checks)(-1.0)),
        (ck.DivisionByZeroError, ck.checkify(lambda x: 1 / x, ck.div_checks)(0.0)),
        (ck.OOBError, ck.checkify(lambda i: X[i], ck.index_checks)(5)),
    ]
    for kind, (error, _) in kinds:
        assert type(error.get_exception()) is kind
    assert ck.all_checks == ck.automatic_checks | ck.user_checks


def test_pytrees_and_keywords():
    f = lambda d, *, k: {"out": logarithm(d["x"] * k)}
    error, out = ck.checkify(f)({"x": 1.0}, k=-1.0)
    assert error.get() == MESSAGE and np.isnan(out["out"])


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (TypeError, "scalar pred", lambda: ck.check(gnp.array([True]), "a")),
        (TypeError, "scalar pred", lambda: ck.check(1, "a")),
        (TypeError, "PyTrees of arrays", lambda: ck.check(True, "a {}", "s")),
        (IndexError, "out of range", lambda: ck.check(True, "a {}")),
        (KeyError, "x", lambda: ck.check(True, "a {x}")),
        (TypeError, "takes an Error", lambda: ck.check_error(3)),
        (TypeError, "callable", lambda: ck.checkify(3)),
        (
            ValueError,
            "batched while-loops",
            lambda: ck.checkify(
                ga.vmap(lambda x: lax.while_loop(lambda x: x < 5, lambda x: x + 1.0, x)),
                ck.all_checks,
            )(gnp.arange(3.0)),
        ),
    ],
)
def test_misuse_is_an_error(error, words, call):
    with pytest.raises(error, match=words):
        call()


def test_flags_and_objects_stay_as_they_are():
    def f(x, flag, mode):
        ck.check(x > 0, "x is {}", x)
        return {"twice": 2 * x, "same": x}[mode] if flag else -x

    error, out = ck.checkify(f)(gnp.float32(3), True, "twice")
    assert error.get() is None and out == 6
    error, out = ga.jit(ck.checkify(f), static_argnums=(1, 2))(gnp.float32(-3), False, "any")
    assert error.get().startswith("x is -3") and out == 3


@pytest.mark.parametrize(
    "index", [(((1, 1), (1, 20)), 3), (((1, 1), (1, 20)), 0), ((1, 20), (1, 4)), (5, 0)]
)
def test_nested_indices_are_checked(index):
    x = gnp.ones((2, 3, 7))
    run = ck.checkify(ga.jit(lambda x, i: x[i]), errors=ck.index_checks)
    assert run(x, index)[0].get().startswith("out-of-bounds indexing")


def test_a_message_has_arrays_and_keys_as_the_user_has_them():
    """References: what JAX 0.10.2 prints for the same."""

    def f(x, key):
        ck.check(x.sum() < 0, "bad {a} {b!r} {b:.2f} {c}", a=x, b=x[0], c=key)
        return x

    found = ga.jit(ck.checkify(f))(gnp.ones(3), ga.random.key(3))[0].get()
    key = "Array((), dtype=key<fry>) overlaying:\n[0 3]"
    assert found == f"bad [1. 1. 1.] Array(1., dtype=float32) 1.00 {key} (`check` failed)"

    def loop(x, key):
        def body(i, x):
            ck.check(i < 3, "turn {} {}", i, key)
            return x + 1

        return ga.lax.fori_loop(0, 5, body, x)

    found = ga.jit(ck.checkify(loop))(1.0, ga.random.key(3))[0].get()
    assert found == f"turn 3 {key} (`check` failed)"


@pytest.mark.devices
@pytest.mark.parametrize("check_vma", [True, False])
def test_each_device_has_an_error_of_its_own(check_vma):
    mesh = Mesh(np.array(ga.devices()), ("i",))
    by_device = lambda f, *specs: ga.shard_map(
        f, mesh=mesh, in_specs=specs, out_specs=P("i"), check_vma=check_vma
    )
    # As JAX says it: which devices, and what they found.
    ratio = by_device(lambda x, y: lax.axis_index("i") * x / y, P("i"), P("i"))
    ones = np.tile(np.arange(4), 2)
    found = "at mapped index 0: division by zero\nat mapped index 4: division by zero"
    assert message(ratio, ones, ones, errors=ck.float_checks) == found
    assert message(ratio, ones, ones + 1, errors=ck.float_checks) is None

    # Through loops and branches, beside collectives; the first failure of each device stays.
    def total(x, limit):
        def step(carry, _):
            ck.check((carry < limit).all(), "{} of {}", carry[0], limit)
            return carry + x, lax.psum(carry, "i")

        carry, _ = lax.scan(step, x * 0, None, length=3)
        return lax.cond(carry[0] > 40, lambda c: c * 0, lambda c: c, carry)

    x = np.arange(8.0, dtype="float32")
    totals = by_device(total, P("i"), P())
    found = message(totals, x, 14.0)
    assert found == "at mapped index 7: 14.0 of 14.0 (`check` failed)"
    after = lambda x: (ck.check(x[0] > 0, "before"), totals(x, 14.0))[1]
    assert message(after, x) == "before (`check` failed)"
    # Derivatives, and what comes after.
    checked = lambda x: ck.checkify(totals)(x, 99.0)[1].sum()
    np.testing.assert_array_equal(ga.grad(checked)(x), np.full(8, 3.0))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ga.vmap(ck.checkify(logarithm))(x)[0],
        lambda x: lax.scan(lambda c, y: (c, ck.checkify(logarithm)(y)[0]), 0, x)[1],
        lambda x: ga.vmap(ga.vmap(ck.checkify(logarithm)))(x[None])[0],
    ],
    ids="vmap scan vmap-vmap".split(),
)
def test_the_first_error_of_many_is_one_of_the_traced_function_around(call):
    checked = ck.checkify(ga.jit(lambda x: (ck.check_error(call(x)), x.sum())[1]))
    error, total = checked(gnp.array([1.0, -2.0, -3.0]))
    assert error.get() == "x must be positive, got -2.0 (`check` failed)" and total == -4
    assert checked(gnp.ones(3))[0].get() is None


@pytest.mark.devices
def test_pmap_gives_the_errors_of_its_devices():
    checked = ck.checkify(ga.pmap(logarithm))
    error, out = checked(np.array([1.0, -1.0]))
    assert error.get() == f"at mapped index 1: {MESSAGE}"
    assert type(error.get_exception()) is ck.FailedCheckError and np.isnan(out[1])
    with pytest.raises(ck.JaxRuntimeError, match="^x must be positive, got -1.0"):
        error.throw()
    assert checked(np.array([1.0, 2.0]))[0].get() is None
