"""The tutorial "how primitives work": an operation of one's own gets its rules one after another,
and each transformation says which rule it misses.
"""

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import lax
from gpuarray.extend.core import Primitive, ShapedArray
from gpuarray.interpreters import ad, batching, mlir


def test_by_operations_that_exist():
    def square_add(a, b):
        return lax.add(lax.mul(a, a), b)

    assert float(square_add(2.0, 10.0)) == 14.0
    assert float(jax.grad(square_add)(2.0, 10.0)) == 4.0


class Fma:
    """x y + z as a primitive, its rules given up to a stage."""

    STAGES = ("impl", "abstract_eval", "lowering", "jvp", "transpose", "batch")

    def __init__(self, upto):
        self.prim = Primitive("own_fma")
        self.calls = []
        for stage in self.STAGES[: self.STAGES.index(upto) + 1 if upto else 0]:
            getattr(self, stage)()

    def __call__(self, x, y, z):
        return self.prim.bind(x, y, z)

    def square_add(self, a, b):
        return self(a, a, b)

    def impl(self):
        @self.prim.def_impl
        def run(x, y, z):
            self.calls.append("impl")
            return np.add(np.multiply(x, y), z)

    def abstract_eval(self):
        @self.prim.def_abstract_eval
        def shapes(x, y, z):
            self.calls.append("abstract_eval")
            assert x.shape == y.shape == z.shape
            return ShapedArray(x.shape, x.dtype)

    def lowering(self):
        mlir.register_lowering(
            self.prim, mlir.lower_fun(lambda x, y, z: x * y + z, multiple_results=False)
        )

    def jvp(self):
        def rule(primals, tangents):
            (x, y, z), (dx, dy, dz) = primals, tangents
            self.calls.append("jvp")

            def made(t):
                return lax.full_like(x, 0) if type(t) is ad.Zero else t

            dx, dy, dz = map(made, (dx, dy, dz))
            return self(x, y, z), self(dx, y, self(x, dy, dz))

        ad.primitive_jvps[self.prim] = rule

    def transpose(self):
        def rule(ct, x, y, z):
            self.calls.append("transpose")
            if ad.is_undefined_primal(x):
                return self(ct, y, lax.full_like(ct, 0)), None, ct
            return None, self(x, ct, lax.full_like(ct, 0)), ct

        ad.primitive_transposes[self.prim] = rule

    def batch(self):
        def rule(args, dims):
            self.calls.append("batch")
            self.dims = dims
            whole = next(x for x, d in zip(args, dims) if d == 0)
            return self(
                *[x if d == 0 else jnp.broadcast_to(x, whole.shape) for x, d in zip(args, dims)]
            ), 0

        batching.primitive_batchers[self.prim] = rule


def test_no_rules():
    f = Fma(None).square_add
    with pytest.raises(NotImplementedError, match="Evaluation rule for 'own_fma' not implemented"):
        f(2.0, 10.0)


def test_a_rule_for_values():
    fma = Fma("impl")
    assert float(fma.square_add(2.0, 10.0)) == 14.0 and fma.calls == ["impl"]
    with pytest.raises(NotImplementedError, match="Abstract evaluation for 'own_fma'"):
        jax.jit(fma.square_add)(2.0, 10.0)


def test_a_rule_for_shapes():
    fma = Fma("abstract_eval")
    assert str(jax.make_jaxpr(fma.square_add)(2.0, 10.0)) == (
        "{ lambda ; a:f32[] b:f32[]. let c:f32[] = own_fma a a b in (c,) }"
    )
    assert fma.calls == ["abstract_eval"]


def test_a_lowering():
    f = Fma("lowering").square_add
    assert float(jax.jit(f)(2.0, 10.0)) == 14.0
    assert float(jax.jit(f, static_argnums=1)(2.0, 10.0)) == 14.0
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'own_fma'"):
        jax.jvp(f, (2.0, 10.0), (1.0, 1.0))


def test_a_rule_for_tangents():
    fma = Fma("jvp")
    out = jax.jvp(fma.square_add, (2.0, 10.0), (1.0, 1.0))
    assert [float(v) for v in out] == [14.0, 5.0]
    jitted = jax.jit(lambda xs, ts: jax.jvp(fma.square_add, xs, ts))
    assert [float(v) for v in jitted((2.0, 10.0), (1.0, 1.0))] == [14.0, 5.0]
    with pytest.raises(
        NotImplementedError, match="Transpose rule .* for 'own_fma' not implemented"
    ):
        jax.grad(fma.square_add)(2.0, 10.0)


def test_a_rule_for_cotangents():
    fma = Fma("transpose")
    assert float(jax.grad(fma.square_add)(2.0, 10.0)) == 4.0
    assert fma.calls.count("transpose") == 2
    assert float(jax.jit(jax.grad(fma.square_add))(2.0, 10.0)) == 4.0
    assert float(jax.grad(fma.square_add, 1)(2.0, 10.0)) == 1.0
    with pytest.raises(NotImplementedError, match="Batching rule for 'own_fma' not implemented"):
        jax.vmap(fma.square_add)(jnp.ones(2), jnp.ones(2))


def test_a_rule_for_batches():
    fma = Fma("batch")
    f = fma.square_add
    xs, ys = np.array([2.0, 3.0]), np.array([10.0, 20.0])
    np.testing.assert_array_equal(jax.vmap(f)(xs, ys), [14.0, 29.0])
    assert fma.dims == (0, 0, 0) and fma.calls.count("batch") == 1
    np.testing.assert_array_equal(jax.jit(jax.vmap(f))(xs, ys), [14.0, 29.0])
    np.testing.assert_array_equal(jax.vmap(jax.grad(f))(xs, ys), [4.0, 6.0])


@pytest.mark.on_cpu("a primitive of one's own has a NumPy rule alone")
def test_several_results():
    both = Primitive("own_both")
    both.multiple_results = True
    both.def_impl(lambda x: [np.sin(x), np.cos(x)])
    both.def_abstract_eval(lambda x: [x, x])
    sin, cos = both.bind(jnp.zeros(2))
    assert (np.asarray(sin).tolist(), np.asarray(cos).tolist()) == ([0, 0], [1, 1])
    assert "own_both" in str(jax.make_jaxpr(lambda x: both.bind(x)[1])(1.0))


@pytest.mark.on_cpu("a primitive of one's own has a NumPy rule alone")
def test_parameters():
    scale = Primitive("own_scale")
    scale.def_impl(lambda x, *, by: np.multiply(x, by).astype(x.dtype))
    scale.def_abstract_eval(lambda x, *, by: x)
    assert np.asarray(scale.bind(jnp.arange(3.0), by=2)).tolist() == [0, 2, 4]
    assert "own_scale[by=2] a" in str(jax.make_jaxpr(lambda x: scale.bind(x, by=2))(1.0))
