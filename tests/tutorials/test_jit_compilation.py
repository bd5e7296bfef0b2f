"""The tutorials "jit compilation", "ahead of time" and "donation": what is traced, which arguments
must be static, caches, and the stages on their own.
"""

import functools

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp


def test_side_effects_are_no_part_of_a_jaxpr():
    seen = []

    def log3(x):
        seen.append(x)
        return jnp.log(x) / jnp.log(3.0)

    assert str(jax.make_jaxpr(log3)(9.0)) == (
        "{ lambda ; a:f32[]. let\n"
        "    b:f32[] = log a\n"
        "    c:f32[] = log 3.0:f32[]\n"
        "    d:f32[] = div b c\n"
        "  in (d,) }"
    )
    assert len(seen) == 1


def test_only_one_branch_is_in_a_jaxpr():
    def f(x):
        return jnp.log(x) if x.ndim == 2 else x

    assert str(jax.make_jaxpr(f)(jnp.array([1, 2, 3]))) == "{ lambda ; a:i32[3]. let  in (a,) }"
    assert "log" in str(jax.make_jaxpr(f)(jnp.ones((1, 1))))


def selu(x, alpha=1.67, scale=1.05):
    return scale * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)


def test_compiled_selu():
    x = jnp.linspace(-2.0, 2.0, 9)
    h = np.linspace(-2, 2, 9)
    expected = 1.05 * np.where(h > 0, h, 1.67 * np.exp(h) - 1.67)
    np.testing.assert_allclose(jax.jit(selu)(x).block_until_ready(), expected, rtol=1e-5)


def branch(x):
    return x if x > 0 else 2 * x


def count_up(x, n):
    i = 0
    while i < n:
        i += 1
    return x + i


@pytest.mark.parametrize("f, args", [(branch, (10,)), (count_up, (10, 20))])
def test_python_control_flow_needs_values(f, args):
    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        jax.jit(f)(*args)
    assert f"while tracing the function {f.__name__}" in str(caught.value)
    assert f"the argument {'x' if f is branch else 'n'}" in str(caught.value)


def test_static_by_position_and_by_name():
    assert int(jax.jit(branch, static_argnums=0)(10)) == 10
    assert int(jax.jit(branch, static_argnums=0)(-10)) == -20
    assert int(jax.jit(count_up, static_argnames=["n"])(10, 20)) == 30
    assert int(jax.jit(count_up, static_argnames="n")(10, n=21)) == 31

    @functools.partial(jax.jit, static_argnames=["n"])
    def decorated(x, n):
        return count_up(x, n)

    @jax.jit(static_argnames=["n"])
    def called(x, n):
        return count_up(x, n)

    assert int(decorated(1, 2)) == int(called(1, 2)) == 3


def test_static_arguments_must_hash():
    with pytest.raises(ValueError, match="[Nn]on-hashable static arguments"):
        jax.jit(lambda x, n: x, static_argnums=1)(1, [2])


def test_part_of_a_function_compiled():
    @jax.jit
    def step(i):
        return i + 1

    i = 0
    while i < 5:
        i = step(i)
    assert int(i) == 5


def test_caches_go_by_function():
    traced = []

    def f(x):
        traced.append(1)
        return x + 1

    for _ in range(4):
        jax.jit(f)(1.0)
    assert len(traced) == 1
    for _ in range(4):
        jax.jit(lambda x: f(x))(1.0)
    assert len(traced) == 5


def test_caches_go_by_shape_dtype_and_weakness():
    traced = []

    @jax.jit
    def f(x):
        traced.append(jax.typeof(x))
        return x

    for x in (1.0, 2.0, jnp.float32(1), jnp.ones(2), np.zeros(2, "float32"), jnp.ones(2, "int8")):
        f(x)
    assert [str(t) for t in traced] == ["~float32[]", "float32[]", "float32[2]", "int8[2]"]
    assert [t.weak_type for t in traced] == [True, False, False, False]


def test_keyword_arguments():
    @jax.jit
    def f(x, *, scale=2):
        return x * scale

    assert (int(f(3)), int(f(3, scale=5))) == (6, 15)


def test_outputs_must_be_arrays():
    with pytest.raises(TypeError, match="not a valid JAX type"):
        jax.jit(lambda x: "text")(1)


def test_disable_jit():
    seen = []

    @jax.jit
    def f(x):
        seen.append(float(x))
        return x

    with jax.disable_jit():
        f(2.0), f(2.0)
    assert seen == [2.0, 2.0]


# ---- ahead of time ----


def affine(x, y):
    return 2 * x + y


def test_stages():
    traced = jax.jit(affine).trace(3, 4)
    assert str(traced.jaxpr) == (
        "{ lambda ; a:i32[] b:i32[]. let\n"
        "    c:i32[] = mul 2:i32[] a\n"
        "    d:i32[] = add c b\n"
        "  in (d,) }"
    )
    lowered = traced.lower()
    assert "mul" in lowered.as_text()
    compiled = lowered.compile()
    assert compiled.cost_analysis()["flops"] == 2.0
    assert int(compiled(3, 4)) == 10


def test_lowered_from_descriptions():
    spec = jax.ShapeDtypeStruct((2,), jnp.dtype("int32"))
    compiled = jax.jit(affine).lower(spec, spec).compile()
    assert compiled(jnp.arange(2), jnp.ones(2, "int32")).tolist() == [1, 3]


def test_compiled_checks_its_arguments():
    spec = jax.ShapeDtypeStruct((), jnp.dtype("int32"))
    compiled = jax.jit(affine).lower(spec, spec).compile()
    with pytest.raises(TypeError, match="Argument types differ"):
        compiled(jnp.ones(()), jnp.ones(()))
    with pytest.raises(TypeError):
        compiled(1)


def test_compiled_cannot_be_transformed():
    compiled = jax.jit(affine).lower(1.0, 2.0).compile()
    with pytest.raises(TypeError):
        jax.grad(compiled)(1.0, 2.0)


def test_static_arguments_are_built_in():
    lowered = jax.jit(affine, static_argnums=0).lower(7, 8)
    compiled = lowered.compile()
    assert int(compiled(5)) == 19
    assert str(lowered.in_tree) == "PyTreeDef(((*,), {}))"
    with pytest.raises(TypeError):
        compiled(7, 5)


def test_result_without_running():
    out = jax.eval_shape(lambda a, b: {"y": a @ b}, jnp.ones((2, 3)), jnp.ones((3, 4)))
    assert repr(out) == "{'y': ShapeDtypeStruct(shape=(2, 4), dtype=float32)}"
    assert jax.jit(affine).eval_shape(1.0, 2.0).shape == ()


# ---- donation ----


def test_donated_arguments_are_gone():
    f = jax.jit(lambda x, y: x + y, donate_argnums=0)
    x, y = jnp.ones(1000), jnp.ones(1000)
    assert float(f(x, y)[0]) == 2.0
    assert x.is_deleted() and not y.is_deleted()
    with pytest.raises((RuntimeError, ValueError), match="deleted"):
        x + 1
