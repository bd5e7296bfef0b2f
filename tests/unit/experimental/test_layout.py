"""Layouts of memory: what is taken, what is refused, and what arrays and programs say of them."""

from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.experimental.layout import Format, Layout, with_layout_constraint
from gpuarray.sharding import AxisType, NamedSharding, SingleDeviceSharding
from gpuarray.sharding import PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(8, 4)
ROWS, COLUMNS = Layout((0, 1)), Layout((1, 0))


def one() -> SingleDeviceSharding:
    return SingleDeviceSharding(ga.devices()[0])


def test_layouts_are_plain_data():
    tiled: Any = Layout([1, 0], tiling=[[8, 128]], sub_byte_element_size_in_bits=4)
    assert (tiled.major_to_minor, tiled.tiling) == ((1, 0), ((8, 128),))
    assert repr(COLUMNS) == (
        "Layout(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0)"
    )
    assert COLUMNS.update(major_to_minor=(0, 1)) == ROWS != COLUMNS
    assert hash(ROWS) == hash(Layout((0, 1))) and Layout((0, 1), ()) != ROWS
    assert repr(Layout.AUTO) == "AUTO"
    with pytest.raises(ValueError, match="rank of the value should match"):
        ROWS.check_compatible_aval((3,))


def test_formats_are_checked():
    assert Format().layout is None and Format(Layout.AUTO).sharding is None
    assert Format(ROWS, one()) == Format(ROWS, one())
    assert hash(Format(ROWS, one())) == hash(Format(ROWS, one()))
    assert repr(Format(None, one())) == f"Format(layout=None, sharding={one()})"
    bad: list[tuple[Any, Any, type, str]] = [
        (ROWS, None, ValueError, "Sharding has to be concrete"),
        (3, one(), TypeError, "for the layout argument"),
        (ROWS, 3, TypeError, "for the sharding argument"),
        (None, ROWS, TypeError, "for the sharding argument"),
    ]
    for layout, sharding, error, said in bad:
        with pytest.raises(error, match=said):
            Format(layout, sharding)


def test_arrays_say_how_they_lie():
    x: Any = gnp.asarray(X)
    assert x.format == Format(Layout((0, 1), ()), x.sharding)
    assert gnp.float32(1).format.layout == Layout((), ())
    assert not hasattr(x, "layout")
    assert not hasattr(ga.random.key(0), "format")
    x.delete()
    assert x.format.layout is None


def test_device_put_takes_formats():
    for given in (Format(ROWS, one()), Format(None, one()), Format(), gnp.asarray(X).format):
        np.testing.assert_array_equal(ga.device_put(X, given), X)
    for layout in (COLUMNS, Layout((0, 1), tiling=((2, 2),))):
        with pytest.raises(ValueError, match="arrays lie row by row here"):
            ga.device_put(X, Format(layout, one()))
    with pytest.raises(ValueError, match=r"incompatible .* rank of the value should match"):
        ga.device_put(X, Format(Layout((0, 1, 2)), one()))
    with pytest.raises(ValueError, match="must be concrete for device_put"):
        ga.device_put(X, Format(Layout.AUTO, one()))
    with pytest.raises(ValueError, match=r"Format\(layout, sharding\)"):
        ga.device_put(X, ROWS)


def test_jit_takes_formats():
    for given in (Format(ROWS, one()), Format(Layout.AUTO, one()), Format(Layout.AUTO), Format()):
        f = ga.jit(lambda x: x + 1, in_shardings=given, out_shardings=given)
        np.testing.assert_array_equal(f(X), X + 1)
    with pytest.raises(ValueError, match=r"jit outputs .* result cannot lie as"):
        ga.jit(lambda x: x + 1, out_shardings=Format(COLUMNS, one()))(X)
    with pytest.raises(ValueError, match=r"jit arguments .* x cannot lie as"):
        ga.jit(lambda x: x + 1, in_shardings=Format(COLUMNS, one()))(X)
    with pytest.raises(ValueError, match="does not accept a Layout without a sharding"):
        ga.jit(lambda x: x + 1, out_shardings=ROWS)


def test_compiled_programs_say_how_arrays_lie():
    made = ga.jit(lambda x, *, k: {"a": x.T, "k": k}).lower(gnp.asarray(X), k=gnp.ones(3)).compile()
    args, kwargs = made.input_formats
    assert args[0].layout.major_to_minor == (0, 1)
    assert kwargs["k"].layout.major_to_minor == (0,)
    assert made.output_formats["a"] == Format(Layout((0, 1), ()), one())


def test_structs_take_formats():
    given = Format(ROWS, one())
    struct: Any = ga.ShapeDtypeStruct((8, 4), np.float32, sharding=given)
    assert (struct.sharding, struct.format) == (one(), given)
    assert struct.update(shape=(2, 4)).format == given
    assert "format=Layout(major_to_minor=(0, 1)" in repr(struct)
    assert struct != ga.ShapeDtypeStruct((8, 4), np.float32, sharding=one())
    assert ga.ShapeDtypeStruct((2,), np.float32).format == Format()
    with pytest.raises(TypeError, match=r"Layout\.AUTO"):
        ga.ShapeDtypeStruct((8, 4), np.float32, sharding=Format(Layout.AUTO, one()))
    np.testing.assert_array_equal(ga.jit(lambda x: x + 1).lower(struct).compile()(X), X + 1)


def test_constraints_hold_or_raise():
    x = gnp.asarray(X)
    np.testing.assert_array_equal(with_layout_constraint(x, ROWS), X)
    a, b = with_layout_constraint([x, x + 1], ROWS)
    np.testing.assert_array_equal(b - a, np.ones_like(X))
    inside = ga.jit(lambda x: with_layout_constraint(x + 1, ROWS))
    np.testing.assert_array_equal(inside(x), X + 1)
    np.testing.assert_array_equal(ga.vmap(lambda r: with_layout_constraint(r, Layout((0,))))(x), X)
    with pytest.raises(ValueError, match="arrays lie row by row here"):
        ga.jit(lambda x: with_layout_constraint(x, COLUMNS))(x)
    with pytest.raises(ValueError, match="rank of the value should match"):
        with_layout_constraint(x, Layout((0, 1, 2)))
    for bad in (None, Layout.AUTO, Format(ROWS, one())):
        with pytest.raises(ValueError, match="must be of type `Layout`"):
            with_layout_constraint(x, bad)
    with pytest.raises(ValueError, match="only be applied to arrays"):
        with_layout_constraint(X, ROWS)


@pytest.mark.devices
def test_formats_over_devices():
    mesh = ga.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    cut = Format(ROWS, NamedSharding(mesh, P("x", "y")))
    x = ga.device_put(X, cut)
    assert x.format == Format(Layout((0, 1), ()), cut.sharding)
    f = ga.jit(lambda x: x + 1, in_shardings=cut, out_shardings=cut)
    assert f(X).sharding == cut.sharding
    transposed = ga.jit(lambda x: x.T).lower(x).compile()
    assert transposed.output_formats.sharding.spec == P("y", "x")
    with pytest.raises(ValueError, match="rank at least"):
        ga.device_put(X[0], Format(Layout((0,)), cut.sharding))
