"""The tutorial "sharp bits": impure functions, updates out of place, methods under jit, indices
out of bounds, lists, control flow by shape, nans, double precision, corners of dtypes.
"""

import functools

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import jit, lax

# ---- pure functions ----


def test_a_print_happens_while_tracing_only(capsys):
    @jit
    def f(x):
        print("traced")
        return x

    assert (float(f(4.0)), float(f(5.0))) == (4.0, 5.0)
    assert capsys.readouterr().out == "traced\n"
    assert f(jnp.array([5.0])).tolist() == [5.0]
    assert capsys.readouterr().out == "traced\n"


offset = 0.0


def test_a_global_is_read_while_tracing_only():
    global offset
    offset = 0.0

    def f(x):
        return x + offset

    assert float(jit(f)(4.0)) == 4.0
    offset = 10.0
    assert float(jit(f)(5.0)) == 5.0
    assert jit(f)(jnp.array([4.0])).tolist() == [14.0]


def test_a_global_that_is_written_holds_a_tracer():
    kept = []

    def f(x):
        kept.append(x)
        return x

    assert float(jit(f)(4.0)) == 4.0
    assert str(kept[0]) == "JitTracer(~float32[])"
    with pytest.raises(jax.errors.UnexpectedTracerError):
        jnp.sin(kept[0])


def test_state_inside_is_fine():
    def f(x):
        sums = {"even": 0, "odd": 0}
        for i in range(10):
            sums["odd" if i % 2 else "even"] += x
        return sums["even"] - sums["odd"] / 5

    assert float(jit(f)(5.0)) == 20.0


def test_iterators_are_used_up_while_tracing():
    array = jnp.arange(8)
    assert int(lax.fori_loop(0, 8, lambda i, x: x + array[i], 0)) == 28
    iterator = iter(range(8))
    assert int(lax.fori_loop(0, 8, lambda i, x: x + next(iterator), 0)) == 0
    with pytest.raises(TypeError):
        lax.cond(True, lambda x: x + 1, lambda x: x - 1, iter(range(3)))


# ---- updates ----


def test_item_assignment():
    host = np.zeros((3, 3), "float32")
    host[1, :] = 1
    device = jnp.zeros((3, 3))
    with pytest.raises(TypeError, match="immutable"):
        device[1, :] = 1.0
    np.testing.assert_array_equal(device.at[1, :].set(1.0), host)
    assert not device.any()


def test_augmented_assignment_rebinds():
    x = jnp.array([10, 20])
    y = x
    y += 10
    assert (x.tolist(), y.tolist()) == ([10, 20], [20, 30])


def test_updates_by_slices():
    x = jnp.ones((5, 6)).at[::2, 3:].add(7.0)
    expected = np.ones((5, 6))
    expected[::2, 3:] += 7
    np.testing.assert_array_equal(x, expected)
    assert jit(lambda x: x.at[0].multiply(3.0))(x)[0].tolist() == [3, 3, 3, 24, 24, 24]


# ---- methods ----


class Scaled:
    def __init__(self, x, on):
        self.x, self.on = x, on


class Unhelped(Scaled):
    @jit
    def calc(self, y):
        return self.x * y if self.on else y


class StaticSelf(Scaled):
    @functools.partial(jit, static_argnums=0)
    def calc(self, y):
        return self.x * y if self.on else y


class Comparable(Scaled):
    @functools.partial(jit, static_argnums=0)
    def calc(self, y):
        return self.x * y if self.on else y

    def __hash__(self):
        return hash((self.x, self.on))

    def __eq__(self, other):
        return isinstance(other, Comparable) and (self.x, self.on) == (other.x, other.on)


class Node(Scaled):
    @jit
    def calc(self, y):
        return self.x * y if self.on else y


jax.tree_util.register_pytree_node(
    Node, lambda n: ((n.x,), n.on), lambda on, children: Node(*children, on)
)


def test_a_method_of_an_unknown_class():
    with pytest.raises(TypeError, match="as an abstract array"):
        Unhelped(2, True).calc(3)


def test_jit_of_a_helper_function():
    @functools.partial(jit, static_argnums=0)
    def calc(on, x, y):
        return x * y if on else y

    assert (int(calc(True, 2, 3)), int(calc(False, 2, 3))) == (6, 3)


def test_static_self_does_not_see_mutation():
    c = StaticSelf(2, True)
    assert int(c.calc(3)) == 6
    c.on = False
    assert int(c.calc(3)) == 6


def test_static_self_with_hash_and_eq():
    assert int(Comparable(2, True).calc(3)) == 6
    assert int(Comparable(2, False).calc(3)) == 3
    with pytest.raises((TypeError, ValueError), match="[Hh]ashable"):
        Comparable(jnp.array(2), True).calc(3)


def test_self_as_a_pytree():
    c = Node(2, True)
    assert int(c.calc(3)) == 6
    c.on = False
    assert int(c.calc(3)) == 3
    assert int(Node(jnp.array(2), True).calc(3)) == 6


# ---- indices out of bounds ----


def test_reading_clamps():
    x = jnp.arange(10)
    assert int(x[11]) == 9 and int(x[-15]) == 0
    assert float(jnp.arange(10.0).at[11].get()) == 9.0
    assert np.isnan(jnp.arange(10.0).at[11].get(mode="fill", fill_value=jnp.nan))
    assert np.isnan(jnp.arange(10.0).at[11].get(mode="fill"))
    assert int(x.at[11].get(mode="fill")) == np.iinfo("int32").min


def test_writing_drops():
    x = jnp.arange(4)
    assert x.at[7].set(9).tolist() == [0, 1, 2, 3]
    assert x.at[7].set(9, mode="clip").tolist() == [0, 1, 2, 9]


def test_numpy_raises_where_we_clamp():
    with pytest.raises(IndexError):
        np.arange(10)[11]


def test_gradients_out_of_bounds():
    g = jax.grad(lambda i, x: x[i], argnums=1)
    assert g(11, jnp.arange(3.0)).tolist() == [0.0, 0.0, 1.0]
    h = jax.grad(lambda i, x: x.at[i].get(mode="fill", fill_value=0), argnums=1)
    assert h(11, jnp.arange(3.0)).tolist() == [0.0, 0.0, 0.0]


# ---- lists, dynamic shapes ----


def test_lists_are_refused():
    with pytest.raises(
        TypeError, match=r"sum requires ndarray or scalar arguments, got <class 'li"
    ):
        jnp.sum([1, 2, 3])
    assert np.sum([1, 2, 3]) == 6 and int(jnp.sum(jnp.array([1, 2, 3]))) == 6


def test_a_list_becomes_an_operand_an_element():
    graph = jax.make_jaxpr(lambda xs: jnp.sum(jnp.array(xs)))(list(range(10)))
    assert len(graph.jaxpr.invars) == 10 and len(graph.jaxpr.eqns) > 10
    assert len(jax.make_jaxpr(jnp.sum)(jnp.arange(10)).jaxpr.eqns) == 1


def test_masks_change_shapes():
    def total(x):
        return x[~jnp.isnan(x)].sum()

    x = jnp.array([1, 2, jnp.nan, 3, 4])
    assert float(total(x)) == 10.0
    with pytest.raises(jax.errors.NonConcreteBooleanIndexError, match=r"bool\[5\]"):
        jit(total)(x)
    assert float(jit(lambda x: jnp.where(~jnp.isnan(x), x, 0).sum())(x)) == 10.0


# ---- numbers ----


def test_single_precision_unless_asked():
    with pytest.warns(UserWarning, match="float64"):
        x = jax.random.uniform(jax.random.key(0), (8,), dtype=jnp.float64)
    assert x.dtype == jnp.float32
    jax.config.update("jax_enable_x64", True)
    assert jax.random.uniform(jax.random.key(0), (8,), dtype=jnp.float64).dtype == jnp.float64
    assert jnp.arange(3).dtype == jnp.int64 and jnp.ones(3).dtype == jnp.float64


def test_scalars_of_python_are_weak():
    assert (jnp.arange(3, dtype="int8") + 1).dtype == jnp.int8
    assert (jnp.arange(3, dtype="int8") + 1.5).dtype == jnp.float32
    assert (jnp.ones(3, "bfloat16") * 2.0).dtype == jnp.bfloat16
    assert (jnp.ones(3, "float16") + jnp.ones(3, "bfloat16")).dtype == jnp.float32
    assert (jnp.ones(3) + np.float64(1)).dtype == jnp.float32


def test_strict_promotion():
    with jax.numpy_dtype_promotion("strict"):
        assert (jnp.ones(3) + 1).dtype == jnp.float32
        with pytest.raises(ValueError, match="no available implicit dtype promotion path"):
            jnp.ones(3) + jnp.arange(3)


def test_rank_promotion_can_be_refused():
    with jax.numpy_rank_promotion("raise"):
        with pytest.raises(ValueError, match="rank_promotion"):
            jnp.ones((2, 3)) + jnp.ones(3)


def test_conversion_to_narrow_integers_saturates():
    assert jnp.arange(254.0, 258.0).astype("uint8").tolist() == [254, 255, 255, 255]


def test_nans_found():
    jax.config.update("jax_debug_nans", True)
    with pytest.raises(FloatingPointError, match="nan"):
        jnp.divide(0.0, 0.0)


def test_overflow_of_python_ints():
    with pytest.raises(OverflowError):
        jnp.add(jnp.int32(1), 2**40)
