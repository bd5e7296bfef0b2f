"""checkpoint: the same derivatives, fewer values kept; policies say which."""

import io
import logging
from contextlib import redirect_stdout
from functools import partial

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.api.checkpoint import checkpoint_name, print_saved_residuals
from gpuarray.core.graph import subgraphs

P = ga.checkpoint_policies
W = np.linspace(-1, 1, 9).reshape(3, 3).astype(np.float32)
X = np.array([0.1, 0.2, 0.3], np.float32)


def layer(w, x):
    y = checkpoint_name(gnp.sin(w @ x), "a")
    return checkpoint_name(gnp.sin(y), "b")


def loss(w, x):
    return gnp.sum(gnp.sin(layer(w, layer(w, x))))


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=1e-6)


POLICIES = [
    None,
    P.everything_saveable,
    P.nothing_saveable,
    P.dots_saveable,
    P.dots_with_no_batch_dims_saveable,
    P.save_only_these_names("a"),
    P.save_any_names_but_these("a"),
    P.save_anything_except_these_names("a"),
    P.save_from_both_policies(P.dots_saveable, P.save_only_these_names("b")),
    P.save_and_offload_only_these_names(
        names_which_can_be_saved=["a"],
        names_which_can_be_offloaded=["b"],
        offload_src="device",
        offload_dst="pinned_host",
    ),
]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("prevent_cse", [True, False])
def test_derivatives_are_the_same(policy, prevent_cse):
    f = ga.checkpoint(loss, policy=policy, prevent_cse=prevent_cse)
    expected = ga.grad(loss, (0, 1))(W, X)
    for made in [
        ga.grad(f, (0, 1)),
        ga.jit(ga.grad(f, (0, 1))),
        ga.grad(ga.jit(f), (0, 1)),
        ga.grad(ga.checkpoint(f), (0, 1)),
    ]:
        for a, b in zip(made(W, X), expected, strict=True):
            close(a, b)
    close(f(W, X), loss(W, X))
    close(ga.jvp(f, (W, X), (W, X))[1], ga.jvp(loss, (W, X), (W, X))[1])


def test_under_vmap_and_second_order():
    f = ga.checkpoint(loss)
    xs = np.stack([X, 2 * X])
    expected = np.stack([np.asarray(ga.grad(loss)(W, x)) for x in xs])
    close(ga.vmap(ga.grad(f), in_axes=(None, 0))(W, xs), expected)
    close(ga.grad(lambda w: ga.vmap(f, in_axes=(None, 0))(w, xs).sum())(W), expected.sum(0))
    close(ga.hessian(f, 1)(W, X), ga.hessian(loss, 1)(W, X))
    close(ga.jit(ga.hessian(f, 1))(W, X), ga.hessian(loss, 1)(W, X))


def saved(f, *args):
    text = io.StringIO()
    with redirect_stdout(text):
        print_saved_residuals(f, *args)
    return [line.split(" from ")[0] for line in text.getvalue().splitlines()]


def h(x):
    y = checkpoint_name(gnp.sin(x), "a")
    return gnp.sin(checkpoint_name(gnp.sin(y), "b"))


@pytest.mark.parametrize(
    "policy, kept",
    [
        (None, ["f32[]"]),
        (P.save_only_these_names("a"), ["f32[]", "f32[] named 'a'"]),
        (P.save_any_names_but_these("a"), ["f32[]", "f32[] named 'b'"]),
        (P.save_anything_except_these_names("a"), ["f32[] output of cos"] * 3),
    ],
)
def test_what_is_kept(policy, kept):
    assert saved(ga.checkpoint(h, policy=policy), 1.0) == kept


def test_policy_sees_primitives_avals_and_params():
    seen = set()

    def policy(prim, *avals, **params):
        seen.add((prim.name, avals[0].shape, "dimension_numbers" in params))
        return prim.name == "sin"

    ga.grad(ga.checkpoint(loss, policy=policy))(W, X)
    assert ("dot_general", (3, 3), True) in seen and ("sin", (3,), False) in seen


def test_second_computation_stays_apart():
    def chain(x):
        for _ in range(5):
            x = gnp.sin(x)
        return x.sum()

    x = gnp.ones(1000)
    apart = ga.jit(ga.grad(ga.checkpoint(chain))).lower(x).compile().as_text()
    merged = ga.jit(ga.grad(ga.checkpoint(chain, prevent_cse=False))).lower(x).compile().as_text()
    assert "remat2" in apart and "remat2" not in merged


def test_graph_of_the_gradient():
    text = str(ga.make_jaxpr(ga.grad(ga.checkpoint(lambda x: gnp.sin(gnp.sin(x)))))(1.0))
    assert text == (
        "{ lambda ; a:f32[]. let\n"
        "    b:f32[] = sin a\n"
        "    _:f32[] = sin b\n"
        "    c:f32[] = remat2[\n"
        "      differentiated=True\n"
        "      jaxpr={ lambda ; d:f32[] e:f32[]. let\n"
        "          f:f32[] = sin d\n"
        "          g:f32[] = cos d\n"
        "          h:f32[] = cos f\n"
        "          i:f32[] = mul e h\n"
        "          j:f32[] = mul i g\n"
        "        in (j,) }\n"
        "      policy=None\n"
        "      prevent_cse=True\n"
        "    ] a 1.0:f32[]\n"
        "  in (c,) }"
    )


def test_static_arguments_pytrees_and_closures():
    f = ga.checkpoint(lambda p, n: p["x"] ** n if n > 1 else p["x"], static_argnums=(1,))
    close(ga.grad(f)({"x": 3.0}, 2)["x"], 6.0)
    g = ga.checkpoint(lambda x, mode: x * (2 if mode == "a" else 3), static_argnames="mode")
    close(g(2.0, mode="b"), 6.0)
    close(g(2.0, "b"), 6.0)
    decorated = ga.checkpoint(policy=P.everything_saveable)(lambda x: gnp.sin(x))
    close(ga.grad(decorated)(1.0), np.cos(1.0))
    close(ga.grad(lambda y: ga.checkpoint(lambda x: gnp.sin(x * y))(2.0))(0.5), 2 * np.cos(1.0))
    close(
        ga.jit(ga.grad(lambda y: ga.checkpoint(lambda x: gnp.sin(x * y))(2.0)))(0.5),
        2 * np.cos(1.0),
    )
    assert ga.remat is ga.checkpoint


def test_errors():
    with pytest.raises(ga.errors.TracerBoolConversionError, match="argument x"):
        ga.checkpoint(lambda x: x if x > 0 else -x)(1.0)
    with pytest.raises(ValueError, match="static_argnums"):
        ga.checkpoint(lambda x: x, static_argnums=(3,))(1.0)
    with pytest.raises(TypeError, match="Expected a callable"):
        ga.checkpoint(3)
    with pytest.raises(ValueError, match="exclusive"):
        P.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"],
            names_which_can_be_offloaded=["a"],
            offload_src="device",
            offload_dst="pinned_host",
        )


# ---- traced once ----


def test_a_checkpointed_function_is_traced_once_for_each_kind_of_call():
    traced = []

    @partial(ga.checkpoint, static_argnums=1)
    def f(x, power):
        traced.append(power)
        return gnp.sin(x) ** power

    for _ in range(3):
        assert f(0.0, 2) == 0.0 and f(0.0, 3) == 0.0
        ga.grad(lambda x: f(x, 2))(1.0)
    assert traced == [2, 3]
    assert f(gnp.zeros(2), 2).shape == (2,) and f(0.0, 2.0) == 0.0 and len(traced) == 4
    assert f(0.0, np.array(2)) == 0.0  # no hash: traced every time


def test_what_is_traced_inside_of_another_trace_is_not_kept():
    def outer(y):
        inner = ga.checkpoint(times)
        times.y = y
        return inner(2.0)

    def times(x):
        return x * times.y

    assert [float(ga.jit(outer)(y)) for y in (3.0, 4.0)] == [6.0, 8.0]
    assert float(ga.grad(outer)(5.0)) == 2.0


# ---- policies inside loops and branches ----


def operations(graph) -> list[str]:
    found = []
    for eqn in graph.eqns:
        inner = list(subgraphs(eqn))
        found += [n for g in inner for n in operations(g)] if inner else [eqn.primitive.name]
    return found


def scanned(f, x):
    return ga.lax.scan(lambda c, w: (f(c * w), gnp.sin(c)), x, gnp.linspace(0.5, 1.5, 3))


def chosen_by(f, x):
    return ga.lax.switch(1, [gnp.exp, f, lambda x: x], x) * x


def in_both(f, x):
    return scanned(lambda c: ga.lax.cond(c > 0, f, lambda c: c, c), x)[0]


LAYER = lambda x: gnp.tanh(checkpoint_name(gnp.sin(x) * 2.0, "here"))
POLICIES = {
    "none": None,
    "all": ga.checkpoint_policies.everything_saveable,
    "nothing": ga.checkpoint_policies.nothing_saveable,
    "tanh": lambda prim, *_, **__: prim.name == "tanh",
    "sin": lambda prim, *_, **__: prim.name == "sin",
    "name": ga.checkpoint_policies.save_only_these_names("here"),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("program", [scanned, chosen_by, in_both], ids=lambda f: f.__name__)
def test_derivatives_under_policies_inside_loops_and_branches(program, policy):
    total = lambda x: sum(v.sum() for v in ga.tree_util.tree_leaves(program(LAYER, x)))
    f = ga.checkpoint(total, policy=POLICIES[policy])
    with ga.enable_x64(True):
        for x in (0.3, np.array([0.2, -0.4]) if program is not in_both else 0.4):
            want, second = ga.grad(lambda x: total(x).sum())(x), ga.jacfwd(ga.grad(total))
            for g in (ga.grad(f), ga.jit(ga.grad(f)), ga.grad(ga.jit(f))):
                np.testing.assert_allclose(g(x), want, rtol=1e-12)
            np.testing.assert_allclose(ga.jacfwd(ga.grad(f))(x), second(x), rtol=1e-10)
            batch = ga.vmap(ga.grad(f))(np.stack([x, x]))
            np.testing.assert_allclose(batch, np.stack([want, want]), rtol=1e-12)


@pytest.mark.parametrize("program", [scanned, chosen_by, in_both], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "policy, again",
    # Of a layer, sin(x) * 2 and tanh: derivatives read x, and what tanh gave.
    [("all", 0), ("tanh", 0), ("name", 1), ("none", 1)],
)
def test_what_a_policy_keeps_inside_is_not_computed_again(program, policy, again):
    f = ga.checkpoint(lambda x: program(LAYER, x), policy=POLICIES[policy])
    out, pull = ga.vjp(f, 0.3)
    later = operations(ga.make_jaxpr(pull)(out).jaxpr)
    assert later.count("tanh") == again
    # The name is behind sin: where it is kept, sin is not computed for tanh.
    if policy == "name" and program is chosen_by:
        assert "sin" not in later


@pytest.mark.parametrize(
    "policy, inputs, values",
    [
        (None, True, []),
        (lambda *_, **__: True, False, ["cos", "sin"]),
        (lambda prim, *_, **__: prim.name == "cos", True, ["cos"]),
    ],
)
def test_what_is_saved_is_logged_for_debuggers(caplog, policy, inputs, values):
    f = ga.checkpoint(lambda x: gnp.cos(gnp.sin(x).sum()), policy=policy)
    with caplog.at_level(logging.DEBUG, "gpuarray"):
        ga.grad(f)(gnp.arange(3.0))
    (text,) = [m for r in caplog.records if "remat-decorated" in (m := r.getMessage())]
    assert ("saving inputs with shapes:\n  f32[3]" in text) == inputs
    assert ("these intermediates:" in text) == bool(values)
    assert [w for w in ("cos", "sin") if f" {w} from test_checkpoint.py:" in text] == values


def _with_rule(w):
    """A function whose rule closes over `w`, and gives three times the derivative."""
    f = ga.custom_vjp(lambda x: gnp.sin(x * w))
    f.defvjp(lambda x: (gnp.sin(x * w), x), lambda x, g: (3 * g * w * gnp.cos(x * w),))
    return f


def test_rules_inside_may_close_over_traced_values():
    slope = ga.grad(lambda x, w: ga.checkpoint(lambda x: _with_rule(w)(x) * x)(x))
    by_w = ga.grad(slope, 1)
    known = lambda x, w: 3 * x * w * np.cos(x * w) + np.sin(x * w)
    known_by_w = lambda x, w: 4 * x * np.cos(x * w) - 3 * x * x * w * np.sin(x * w)
    x, w, several = 0.7, 1.3, np.float32([0.2, 0.5])
    for f, want in ((slope, known), (by_w, known_by_w)):
        for g in (f, ga.jit(f)):
            np.testing.assert_allclose(g(x, w), want(x, w), rtol=1e-5)
        for axes, args in (((None, 0), (x, several)), ((0, 0), (several, several))):
            np.testing.assert_allclose(ga.vmap(f, axes)(*args), want(*args), rtol=1e-5)
            np.testing.assert_allclose(ga.jit(ga.vmap(f, axes))(*args), want(*args), rtol=1e-5)
