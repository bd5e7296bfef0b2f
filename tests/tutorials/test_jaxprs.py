"""The tutorials "understanding jaxprs" and "writing custom interpreters": the text of traced
programs, and programs that walk over them.
"""

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import lax
from gpuarray.extend.core import Literal


def text_of(f, *args):
    return str(jax.make_jaxpr(f)(*args))


# ---- texts ----

WEIGHTED = (
    "{ lambda ; a:f32[4] b:f32[4]. let\n"
    "    c:f32[4] = cos b\n"
    "    d:f32[4] = mul c 2.0:f32[]\n"
    "    e:f32[4] = sub a d\n"
    "    f:f32[] = reduce_max[axes=(0,)] e\n"
    "  in (f,) }"
)


def test_python_is_gone():
    def inner(x):
        return jnp.cos(x) if x.shape[0] > 3 else x

    def direct(x, y):
        return jnp.max(x - jnp.cos(y) * 2.0)

    def nested(pair):
        return jnp.max(pair[0] - inner(pair[1]) * 2.0)

    x, y = jnp.zeros(4), jnp.ones(4)
    assert text_of(direct, x, y) == text_of(nested, (x, y)) == WEIGHTED


def test_switch_and_cond():
    def chosen(i, x):
        return lax.switch(i, [lambda x: x + 1.0, lambda x: x * 4.0], x)

    assert text_of(chosen, 1, 5.0) == (
        "{ lambda ; a:i32[] b:f32[]. let\n"
        "    c:i32[] = convert_element_type[new_dtype=int32 weak_type=False] a\n"
        "    d:i32[] = clamp 0:i32[] c 1:i32[]\n"
        "    e:f32[] = cond[\n"
        "      branches=(\n"
        "        { lambda ; f:f32[]. let g:f32[] = add f 1.0:f32[] in (g,) }\n"
        "        { lambda ; h:f32[]. let i:f32[] = mul h 4.0:f32[] in (i,) }\n"
        "      )\n"
        "    ] d b\n"
        "  in (e,) }"
    )

    def either(x):
        return lax.cond(x >= 0.0, lambda x: x + 3.0, lambda x: x - 3.0, x)

    assert text_of(either, 5.0) == (
        "{ lambda ; a:f32[]. let\n"
        "    b:bool[] = ge a 0.0:f32[]\n"
        "    c:i32[] = convert_element_type[new_dtype=int32 weak_type=False] b\n"
        "    d:f32[] = cond[\n"
        "      branches=(\n"
        "        { lambda ; e:f32[]. let f:f32[] = sub e 3.0:f32[] in (f,) }\n"
        "        { lambda ; g:f32[]. let h:f32[] = add g 3.0:f32[] in (h,) }\n"
        "      )\n"
        "    ] c a\n"
        "  in (d,) }"
    )


def test_scan():
    def sums(x, extra):
        return lax.scan(lambda c, v: (v * 2.0 + extra, c), 0.0, x)

    assert text_of(sums, np.ones(16, "float32"), 5.0) == (
        "{ lambda ; a:f32[16] b:f32[]. let\n"
        "    c:f32[] d:f32[16] = scan[\n"
        "      jaxpr={ lambda ; e:f32[] f:f32[] g:f32[]. let\n"
        "          h:f32[] = mul g 2.0:f32[]\n"
        "          i:f32[] = convert_element_type[new_dtype=float32 weak_type=False] e\n"
        "          j:f32[] = add h i\n"
        "        in (j, f) }\n"
        "      length=16\n"
        "      num_carry=1\n"
        "      num_consts=1\n"
        "      reverse=False\n"
        "      unroll=1\n"
        "    ] b 0.0:f32[] a\n"
        "  in (c, d) }"
    )


def test_while():
    def f(x, n):
        return lax.fori_loop(0, n, lambda i, c: c * 3.0 + x, x)

    text = text_of(f, np.ones(16, "float32"), 5)
    for part in (
        "_:i32[] _:i32[] c:f32[16] = while[",
        "body_nconsts=1",
        "cond_nconsts=0",
        "cond_jaxpr={ lambda ;",
        "bool[] = lt ",
    ):
        assert part in text


def test_jit_inside():
    @jax.jit
    def inner(x):
        return jnp.sin(x) * 2.0

    assert text_of(lambda x: inner(x) + x, 1.0) == (
        "{ lambda ; a:f32[]. let\n"
        "    b:f32[] = jit[\n"
        "      name=inner\n"
        "      jaxpr={ lambda ; a:f32[]. let\n"
        "          c:f32[] = sin a\n"
        "          b:f32[] = mul c 2.0:f32[]\n"
        "        in (b,) }\n"
        "    ] a\n"
        "    d:f32[] = add b a\n"
        "  in (d,) }"
    )


def test_of_a_gradient():
    assert text_of(jax.grad(lambda x: jnp.sin(x) * 2.0), 1.0) == (
        "{ lambda ; a:f32[]. let\n"
        "    b:f32[] = sin a\n"
        "    c:f32[] = cos a\n"
        "    _:f32[] = mul b 2.0:f32[]\n"
        "    d:f32[] = mul 1.0:f32[] 2.0:f32[]\n"
        "    e:f32[] = mul d c\n"
        "  in (e,) }"
    )


def test_constants_and_shapes():
    table = jnp.arange(3)
    graph = jax.make_jaxpr(lambda x: x + table)(jnp.ones(3))
    assert str(graph).startswith("{ lambda a:i32[3]; b:f32[3]. let") and len(graph.consts) == 1
    assert graph.literals is graph.consts or len(graph.literals) == 1
    graph, shape = jax.make_jaxpr(lambda x: {"y": x * 2}, return_shape=True)(jnp.ones(3))
    assert shape["y"].shape == (3,) and graph.out_avals[0].str_short() == "float32[3]"


# ---- interpreters ----


def test_parts_of_a_jaxpr():
    graph = jax.make_jaxpr(lambda w, x: (w @ x + 1.0, x))(jnp.ones((2, 3)), jnp.ones(3)).jaxpr
    assert [v.aval.shape for v in graph.invars] == [(2, 3), (3,)]
    assert graph.outvars[1] is graph.invars[1] and graph.constvars == []
    product, plus = graph.eqns
    assert (product.primitive.name, plus.primitive.name) == ("dot_general", "add")
    assert product.params["dimension_numbers"] == (((1,), (0,)), ((), ()))
    assert isinstance(plus.invars[1], Literal) and plus.invars[1].val == 1.0


def evaluate(jaxpr, consts, *args):
    env = {}

    def read(atom):
        return atom.val if isinstance(atom, Literal) else env[atom]

    env.update(zip(jaxpr.invars, args))
    env.update(zip(jaxpr.constvars, consts))
    for eqn in jaxpr.eqns:
        out = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
    return [read(v) for v in jaxpr.outvars]


def test_an_evaluator():
    f = lambda x: jnp.exp(jnp.tanh(x))
    closed = jax.make_jaxpr(f)(jnp.ones(3))
    (out,) = evaluate(closed.jaxpr, closed.literals, jnp.ones(3))
    np.testing.assert_allclose(out, np.exp(np.tanh(np.ones(3))), rtol=1e-6)
    (out,) = jax.jit(lambda x: evaluate(closed.jaxpr, closed.literals, x))(jnp.zeros(3))
    assert out.tolist() == [1, 1, 1]


INVERSES = {lax.exp_p: jnp.log, lax.tanh_p: jnp.arctanh, lax.neg_p: jnp.negative}


def inverse(f):
    def inverted(*args):
        closed = jax.make_jaxpr(f)(*args)
        env = dict(zip(closed.jaxpr.outvars, args))
        for eqn in reversed(closed.jaxpr.eqns):
            if eqn.primitive not in INVERSES:
                raise NotImplementedError(f"{eqn.primitive} does not have registered inverse.")
            (y,), (x,) = eqn.outvars, eqn.invars
            env[x] = INVERSES[eqn.primitive](env[y])
        (out,) = [env[v] for v in closed.jaxpr.invars]
        return out

    return inverted


def test_an_inverter():
    f = lambda x: jnp.exp(jnp.tanh(x))
    np.testing.assert_allclose(inverse(f)(f(1.0)), 1.0, rtol=1e-5)
    assert text_of(inverse(f), f(1.0)) == (
        "{ lambda ; a:f32[]. let b:f32[] = log a; c:f32[] = atanh b in (c,) }"
    )
    slopes = jax.jit(jax.vmap(jax.grad(inverse(f))))((jnp.arange(5) + 1.0) / 5.0)
    np.testing.assert_allclose(
        slopes, [-3.1440797, 15.584931, 2.2551253, 1.3155028, 1.0], rtol=1e-4
    )
    with pytest.raises(NotImplementedError, match="sin does not have"):
        inverse(jnp.sin)(0.5)
