"""Derivatives of derivatives: results beside the result, and custom rules under wrappers."""

import functools
import itertools

import numpy as np
import pytest
from numpy.polynomial import Polynomial

import gpuarray as ga
import gpuarray.numpy as gnp

# ---- has_aux: the derivative of what is returned beside the result ----


def _fwd_and_bwd(jitted):
    def both(f):
        fwd, bwd = ga.fwd_and_bwd(f, 0, has_aux=True, jitted=jitted)

        def run(x):
            _, residuals, aux = fwd(x)
            return bwd(residuals, 1.0), aux

        return run

    return both


def _jvp(f):
    return lambda x: ga.jvp(f, (x,), (gnp.ones_like(x),), has_aux=True)[1:]


def _linearize(f):
    def run(x):
        _, linear, aux = ga.linearize(f, x, has_aux=True)
        return linear(gnp.ones_like(x)), aux

    return run


def _vjp(f):
    def run(x):
        y, pull, aux = ga.vjp(f, x, has_aux=True)
        return pull(gnp.ones_like(y))[0], aux

    return run


def _value_and_grad(f):
    def run(x):
        (_, aux), gradient = ga.value_and_grad(f, has_aux=True)(x)
        return gradient, aux

    return run


#: name -> (which derivative it takes, a function of (result, aux) to one of (derivative, aux)).
WITH_AUX = {
    "grad": (1, functools.partial(ga.grad, has_aux=True)),
    "value_and_grad": (1, _value_and_grad),
    "vjp": (1, _vjp),
    "jvp": (1, _jvp),
    "linearize": (1, _linearize),
    "jacfwd": (1, functools.partial(ga.jacfwd, has_aux=True)),
    "jacrev": (1, functools.partial(ga.jacrev, has_aux=True)),
    "jacobian": (1, functools.partial(ga.jacobian, has_aux=True)),
    "hessian": (2, functools.partial(ga.hessian, has_aux=True)),
    "fwd_and_bwd": (1, _fwd_and_bwd(jitted=False)),
    "fwd_and_bwd, jitted": (1, _fwd_and_bwd(jitted=True)),
    "jit of grad": (1, lambda f: ga.jit(ga.grad(f, has_aux=True))),
    "grad of jit": (1, lambda f: ga.grad(ga.jit(f), has_aux=True)),
    "grad of checkpoint": (1, lambda f: ga.grad(ga.checkpoint(f), has_aux=True)),
}

OUTSIDE = {
    "grad": ga.grad,
    "jacfwd": ga.jacfwd,
    "jvp": lambda f: lambda x: ga.jvp(f, (x,), (gnp.ones_like(x),))[1],
    "jit of grad": lambda f: ga.jit(ga.grad(f)),
    "vmap of grad": lambda f: lambda x: ga.vmap(ga.grad(f))(x[None])[0],
}


def _summed(name, f, exact):
    """`f` through a wrapper that keeps a second result, both added; and that as a polynomial."""
    order, wrapper = WITH_AUX[name]
    wrapped = wrapper(lambda x: (f(x), {"beside": 2 * f(x)}))

    def run(x):
        derivative, aux = wrapped(x)
        return derivative + aux["beside"]

    return run, exact.deriv(order) + 2 * exact


@pytest.mark.parametrize("first", WITH_AUX)
def test_aux_carries_derivatives_of_the_traces_around(first, every):
    start, exact = (lambda x: x * x * x - x), Polynomial([0, -1, 0, 1])
    names = list(WITH_AUX)
    at = names.index(first)
    # In every run each pair in one order or the other, and a third in a seventh of them.
    pairs = [
        (first, second) for i, second in enumerate(names) if every or (i - at) % len(names) < 8
    ]
    chains = [(first,), *pairs]
    thirds = [(first, second, names[(at + i) % len(names)]) for i, second in enumerate(names)]
    chains += thirds if every else thirds[at % 7 :: 7]
    outside = itertools.cycle(OUTSIDE)
    for chain in chains:
        f, p = start, exact
        for name in chain:
            f, p = _summed(name, f, p)
        derived = next(outside)
        got = OUTSIDE[derived](f)(gnp.asarray(2.0, "float32"))
        np.testing.assert_allclose(got, p.deriv()(2.0), rtol=1e-5, err_msg=f"{derived}: {chain}")


def test_aux_may_be_anything():
    class Known:
        primal = "mine"

    known = Known()
    f = lambda x: (x**2, {"text": "a", "none": None, "object": known, "value": x})
    for transform in (ga.grad, ga.jacfwd, ga.jacrev):
        _, aux = transform(f, has_aux=True)(3.0)
        assert aux["text"] == "a" and aux["object"] is known and aux["value"] == 3.0


def test_aux_of_jacfwd_is_one_value_for_all_columns():
    sine = ga.custom_jvp(gnp.sin)
    sine.defjvp(lambda primals, tangents: (sine(*primals), tangents[0] * gnp.cos(*primals)))
    _, aux = ga.jacfwd(lambda x: (x**2, sine(gnp.arange(2.0))), has_aux=True)(gnp.arange(3.0))
    np.testing.assert_allclose(aux, np.sin(np.arange(2.0)), rtol=1e-6)


# ---- custom rules under wrappers: a function's derivatives, whatever it is wrapped in ----


def _by_jvp():
    """sin, whose derivative it says is 2 cos."""
    f = ga.custom_jvp(gnp.sin)
    f.defjvp(lambda primals, tangents: (f(*primals), 2 * gnp.cos(primals[0]) * tangents[0]))
    return f


def _by_vjp():
    f = ga.custom_vjp(gnp.sin)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (2 * gnp.cos(x) * ct,))
    return f


RULES = {"custom_jvp": _by_jvp(), "custom_vjp": _by_vjp()}


def _derivatives(x):
    """f(f(x)) and its derivatives, where f is sin and f' is 2 cos; cos' is -sin, as it should."""
    s, c, outer_s, outer_c = np.sin(x), np.cos(x), np.sin(np.sin(x)), np.cos(np.sin(x))
    return [
        outer_s,
        4 * outer_c * c,
        4 * (-2 * outer_s * c**2 - outer_c * s),
        4 * (-4 * outer_c * c**3 + 6 * outer_s * c * s - outer_c * c),
    ]


def _in_custom_jvp(f):
    wrapped = ga.custom_jvp(f)
    wrapped.defjvp(lambda primals, tangents: ga.jvp(f, primals, tangents))
    return wrapped


def _in_custom_vjp(f):
    wrapped = ga.custom_vjp(f)
    wrapped.defvjp(lambda x: ga.vjp(f, x), lambda pull, ct: pull(ct))
    return wrapped


def _in_custom_vmap(f):
    wrapped = ga.custom_batching.custom_vmap(f)
    wrapped.def_vmap(lambda size, batched, x: (ga.vmap(f)(x), True))
    return wrapped


def _in_closure_convert(f):
    def run(x):
        converted, values = ga.closure_convert(f, x)
        return converted(x, *values)

    return run


def _named(f):
    return lambda x: ga.ad_checkpoint.checkpoint_name(f(x), "kept")


policies = ga.checkpoint_policies

#: A function in something that leaves its value as it is, and its derivatives.
WRAPPERS = {
    "checkpoint": ga.checkpoint,
    "checkpoint, all kept": functools.partial(ga.checkpoint, policy=policies.everything_saveable),
    "checkpoint, a name kept": lambda f: ga.checkpoint(
        _named(f), policy=policies.save_only_these_names("kept")
    ),
    "jit": ga.jit,
    "vmap": lambda f: lambda x: ga.vmap(f)(gnp.stack([x, x]))[1],
    "scan": lambda f: lambda x: ga.lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
    "scan, stacked": lambda f: lambda x: ga.lax.map(f, x[None])[0],
    "cond": lambda f: lambda x: ga.lax.cond(x > -9, f, lambda x: x, x),
    "switch": lambda f: lambda x: ga.lax.switch(1, [gnp.cos, f], x),
    "fori_loop": lambda f: lambda x: ga.lax.fori_loop(0, 1, lambda i, c: f(c), x),
    "custom_jvp": _in_custom_jvp,
    "custom_vjp": _in_custom_vjp,
    "custom_vmap": _in_custom_vmap,
    "closure_convert": _in_closure_convert,
}

FORWARD_ONLY = {
    "while_loop": lambda f: (
        lambda x: ga.lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, f(c[1])), (0, x))[1]
    ),
}


def _forward(f):
    return lambda x: ga.jvp(f, (x,), (gnp.ones_like(x),))[1]


def _check_orders(f, first, later, what):
    x = gnp.asarray(0.7, "float32")
    for order, want in enumerate(_derivatives(0.7)):
        got = f(x)
        np.testing.assert_allclose(got, want, rtol=2e-5, err_msg=f"order {order}: {what}")
        f = (later if order else first)(f)


def _chains(first, wrappers, every, half=0):
    """One wrapper, and it in others: in every run each pair for one of the rules (`half`)."""
    names = list(wrappers)
    at = names.index(first)
    yield (first,)
    for i, second in enumerate(names):
        if not every and (at + i) % 2 == half:
            continue
        third = names[(at + 2 * i + 1) % len(names)]
        yield (first, second) if (at + i) % (3 if every else 5) else (first, second, third)


def _wrapped(chain, wrappers, f):
    for name in chain:
        f = wrappers[name](f)
    return f


@pytest.mark.parametrize("first", WRAPPERS)
@pytest.mark.parametrize("rule", RULES)
def test_custom_rules_hold_to_the_third_derivative(rule, first, every):
    f = RULES[rule]
    for chain in _chains(first, WRAPPERS, every, list(RULES).index(rule)):
        run = _wrapped(chain, WRAPPERS, lambda x: f(f(x)))
        _check_orders(run, ga.grad, ga.grad, (rule, *chain))


BOTH_MODES = {k: v for k, v in (WRAPPERS | FORWARD_ONLY).items() if k != "custom_vjp"}


@pytest.mark.parametrize("first", BOTH_MODES)
def test_custom_rules_hold_in_forward_mode(first, every):
    f, wrappers = RULES["custom_jvp"], BOTH_MODES
    for chain in _chains(first, wrappers, every):
        run = _wrapped(chain, wrappers, lambda x: f(f(x)))
        _check_orders(run, _forward, _forward, ("jvp", *chain))
        if not FORWARD_ONLY.keys() & set(chain):
            _check_orders(run, ga.grad, _forward, ("jvp of grad", *chain))


@pytest.mark.parametrize("rule", RULES)
def test_custom_rules_hold_in_exported_functions(rule):
    f = RULES[rule]
    exported = ga.export.export(ga.jit(lambda x: f(f(x))))(gnp.asarray(0.7, "float32"))
    _check_orders(exported.call, ga.grad, ga.grad, "exported")
    stored = ga.export.deserialize(exported.serialize(vjp_order=3))
    _check_orders(stored.call, ga.grad, ga.grad, "stored with derivatives")
    without = ga.export.deserialize(exported.serialize())
    np.testing.assert_allclose(without.call(0.7), _derivatives(0.7)[0], rtol=1e-6)
    with pytest.raises(ValueError, match="serialize.*vjp_order"):
        ga.grad(without.call)(0.7)


def test_a_loop_around_a_custom_rule_can_be_stored():
    f = RULES["custom_jvp"]
    twice = ga.jit(lambda x: ga.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0])
    stored = ga.export.deserialize(ga.export.export(twice)(0.7).serialize(vjp_order=1))
    np.testing.assert_allclose(stored.call(0.7), _derivatives(0.7)[0], rtol=1e-6)
    np.testing.assert_allclose(ga.grad(stored.call)(0.7), _derivatives(0.7)[1], rtol=1e-5)


def test_a_policy_sees_what_a_function_with_a_rule_returns():
    product = ga.custom_jvp(lambda x: x @ gnp.ones((3, 3)))
    product.defjvp(lambda p, t: (product(*p), product(*t)))

    def computed(policy):
        f = ga.checkpoint(lambda x: gnp.sin(gnp.cos(product(x))).sum(), policy=policy)
        return str(ga.make_jaxpr(ga.grad(f))(gnp.ones((2, 3)))).count("custom_jvp_call")

    # Once forward, and once more where nothing is kept.
    assert (computed(policies.dots_saveable), computed(policies.nothing_saveable)) == (1, 2)
