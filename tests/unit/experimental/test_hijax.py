"""Operations and types of a user's own (`gpuarray.experimental.hijax`), and colocated functions."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.experimental import colocated_python as cp
from gpuarray.experimental import hijax
from gpuarray.extend.core import ShapedArray


class Double(hijax.HiPrimitive):
    """With a jvp of its own, which says thrice."""

    def abstract_eval(self, aval):
        return aval, set()

    def to_lojax(self, x):
        return x + x

    def jvp(self, primals, tangents):
        return self.bind(*primals), 3 * tangents[0]


class Norm(hijax.HiPrimitive):
    def abstract_eval(self, aval):
        return ShapedArray((), aval.dtype), set()

    def to_lojax(self, x):
        return gnp.sum(x * x)


def test_operations_of_arrays():
    bind = Double("double").bind
    assert bind(2.0) == ga.jit(bind)(2.0) == 4.0
    assert ga.grad(bind)(2.0) == 3.0  # by the rule, not by what it is made of
    # A batch of its parts would lose the rule; one without a rule is batched by its parts.
    with pytest.raises(TypeError, match="Batching rule"):
        ga.vmap(bind)(gnp.arange(3.0))
    sum_bind = Norm("norm").bind
    np.testing.assert_array_equal(ga.vmap(sum_bind, 1)(gnp.ones((2, 3))), [2, 2, 2])
    assert ga.grad(lambda x: sum_bind(x))(gnp.ones(2)).tolist() == [2, 2]


class Pair:
    """A value made of two arrays."""

    def __init__(self, a, b):
        self.a, self.b = a, b


class PairType(hijax.HiType):
    def lo_ty(self):
        return [ShapedArray((), "float32")] * 2


class BoxType(hijax.MutableHiType):
    pass


class Box:
    def __init__(self, value):
        self.value = value


hijax.register_hitype(Pair, lambda _: PairType())
hijax.register_hitype(Box, lambda _: BoxType())


class MakePair(hijax.HiPrimitive):
    def abstract_eval(self, a, b):
        return PairType(), set()

    def to_lojax(self, a, b):
        return Pair(a, b)


class First(hijax.HiPrimitive):
    def abstract_eval(self, pair):
        return pair.lo_ty()[0], set()

    def to_lojax(self, pair):
        return pair.a


class PutIn(hijax.HiPrimitive):
    multiple_results = True

    def abstract_eval(self, box, value):
        return [], set()

    def to_lojax(self, box, value):
        box.value = value
        return []


def test_values_made_of_arrays():
    make, first, put = MakePair("make").bind, First("first").bind, PutIn("put").bind
    assert first(make(2.0, 3.0)) == 2.0
    f = lambda x: first(make(x * x, x))
    assert ga.jit(f)(3.0) == 9.0 and ga.grad(f)(3.0) == 6.0
    box = Box(1.0)
    put(box, 5.0)
    assert box.value == 5.0
    # A value that changes would keep what is traced.
    with pytest.raises(TypeError, match="mutable"):
        ga.jit(lambda x: put(box, x))(1.0)


def test_what_a_subclass_leaves_out():
    with pytest.raises(TypeError, match="abstract_eval"):
        hijax.HiPrimitive("bare").bind(1.0)

    class Bare(hijax.VJPHiPrimitive):
        def __init__(self):
            super().__init__()

    with pytest.raises(AttributeError, match="in_avals"):
        Bare()


class Hypot(hijax.VJPHiPrimitive):
    def __init__(self, aval, scale):
        self.in_avals, self.out_aval, self.params = ({"x": aval}, aval), aval, {"scale": scale}
        super().__init__()

    def expand(self, d, y):
        return self.scale * gnp.sqrt(d["x"] ** 2 + y**2)

    def vjp_fwd(self, nonzero, d, y):
        return self(d, y), (d["x"], y)

    def vjp_bwd_retval(self, res, ct):
        x, y = res
        r = gnp.sqrt(x**2 + y**2)
        return {"x": self.scale * ct * x / r}, self.scale * ct * y / r


def test_operations_of_trees():
    hypot = Hypot(ga.typeof(gnp.float32(0)), 2.0)
    three, four = gnp.float32(3), gnp.float32(4)
    assert hypot({"x": three}, four) == 10.0
    found = ga.jit(ga.grad(lambda x, y: hypot({"x": x}, y), (0, 1)))(three, four)
    np.testing.assert_allclose(found, (1.2, 1.6), rtol=1e-6)
    with pytest.raises(TypeError, match="was made for"):
        hypot({"x": gnp.ones(2)}, four)


def test_parts_of_references_have_a_type():
    ref = ga.new_ref(gnp.arange(6).reshape(2, 3))
    part = ref.at[1, 1:]
    assert isinstance(part, hijax.TransformedRef) and not isinstance(ref, hijax.TransformedRef)
    assert part.shape == (2,) and part[...].tolist() == [4, 5]


def test_effects():
    from gpuarray.extend.core import Effect

    class Noise(Effect):
        pass

    kinds = hijax._EffectTypes()
    assert not kinds.contains(Noise())
    kinds.add_type(Noise)
    assert kinds.contains(Noise()) and list(kinds) == [Noise]


def test_colocated_functions():
    add = cp.colocated_python(lambda x, y: np.asarray(x) + y)
    np.testing.assert_array_equal(add(gnp.arange(3), 1), [1, 2, 3])
    with pytest.raises(ValueError, match="No devices found"):
        add(1, 2)
    assert add.specialize(devices=ga.devices("cpu"))(1, 2) == 3
    checked = add.specialize(out_specs_fn=lambda x, y: x)
    with pytest.raises(TypeError, match="specialised"):
        checked(gnp.arange(3), 1.5)
    taken = add.specialize(in_specs=((gnp.arange(3), 1), {}))
    np.testing.assert_array_equal(taken(gnp.arange(3), 1), [1, 2, 3])
    with pytest.raises(TypeError, match="specialised for arguments"):
        taken(gnp.arange(4), 1)
    with pytest.raises(ValueError, match="in_specs already"):
        taken.specialize(in_specs=((), {}))
    mesh = ga.sharding.Mesh(np.array(ga.devices("cpu")[:1]), ("x",))
    assert cp.colocated_cpu_devices(mesh) == mesh
    assert cp.colocated_python_class(Box) is Box
    with pytest.raises(TypeError):
        cp.colocated_python_class(3)
