"""Pictures of how an array lies on devices (`api/visualize.py`).

The tables are those that JAX 0.10.2 prints, with the library rich, where they are not wider than
it allows.
"""

import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.api import visualize
from gpuarray.core.sharding import Device
from gpuarray.sharding import AbstractMesh, Mesh, NamedSharding, SingleDeviceSharding
from gpuarray.sharding import PartitionSpec as P

CPUS = np.array([Device("cpu", i) for i in range(16)], dtype=object)
MESH = Mesh(CPUS[:8].reshape(4, 2), ("x", "y"))

TABLES = [
    ((8, 8), P("x", "y"), {}, """
┌──────────┬──────────┐
│  CPU 0   │  CPU 1   │
├──────────┼──────────┤
│  CPU 2   │  CPU 3   │
├──────────┼──────────┤
│  CPU 4   │  CPU 5   │
├──────────┼──────────┤
│  CPU 6   │  CPU 7   │
└──────────┴──────────┘
"""),
    ((8, 8), P("y"), {}, """
┌───────────────────────┐
│                       │
│      CPU 0,2,4,6      │
│                       │
│                       │
├───────────────────────┤
│                       │
│      CPU 1,3,5,7      │
│                       │
│                       │
└───────────────────────┘
"""),
    ((8,), P(("x", "y")), {}, """
┌───────┬───────┬───────┬───────┬───────┬───────┬───────┬───────┐
│ CPU 0 │ CPU 1 │ CPU 2 │ CPU 3 │ CPU 4 │ CPU 5 │ CPU 6 │ CPU 7 │
└───────┴───────┴───────┴───────┴───────┴───────┴───────┴───────┘
"""),
    ((8,), P("y"), {}, """
┌───────────┬───────────┐
│CPU 0,2,4,6│CPU 1,3,5,7│
└───────────┴───────────┘
"""),
    ((8, 8), P("x", "y"), {"scale": 0.5}, """
┌───────┬───────┐
│ CPU 0 │ CPU 1 │
├───────┼───────┤
│ CPU 2 │ CPU 3 │
├───────┼───────┤
│ CPU 4 │ CPU 5 │
├───────┼───────┤
│ CPU 6 │ CPU 7 │
└───────┴───────┘
"""),
    ((8, 8), P(None, "y"), {"min_width": 20, "scale": 0.3}, """
┌──────────────────┬──────────────────┐
│   CPU 0,2,4,6    │   CPU 1,3,5,7    │
│                  │                  │
└──────────────────┴──────────────────┘
"""),
]  # fmt: skip


@pytest.mark.parametrize("shape, spec, options, want", TABLES)
def test_tables(shape, spec, options, want, capsys):
    ga.debug.visualize_sharding(shape, NamedSharding(MESH, spec), **options)
    assert "\n" + capsys.readouterr().out == want


@pytest.mark.on_cpu("its name is drawn")
def test_an_array_on_one_device(capsys):
    ga.debug.visualize_array_sharding(gnp.zeros((4, 4)), scale=0.2)
    one = capsys.readouterr().out
    assert one == "┌───────┐\n│ CPU 0 │\n└───────┘\n"
    ga.debug.visualize_sharding((4, 4), SingleDeviceSharding(ga.devices()[0]), scale=0.2)
    assert capsys.readouterr().out == one


def test_a_table_that_is_too_wide_goes_on_in_the_next_line():
    wide = visualize.table((16,), NamedSharding(Mesh(CPUS, "x"), P("x")), max_width=80)
    lines = wide.splitlines()
    assert len(lines) == 4 and {len(line) for line in lines} == {65}
    assert lines[1].startswith("│CPU│CPU│") and lines[2].endswith("│13 │14 │15 │")
    everywhere = visualize.table((8, 8), NamedSharding(Mesh(CPUS, "x"), P()), max_width=30)
    assert max(map(len, everywhere.splitlines())) == 30
    assert "0,1,2,3,4,5,6,7," in everywhere
    assert "8,9,10,11,12,13,14,15 " in everywhere


def test_colours(monkeypatch, capsys):
    sharding = NamedSharding(MESH, P("x", "y"))
    asked = []

    def red(x):
        asked.append(x)
        return (1.0, 0.0, 0.0, 1.0)

    # Into a file or a pipe there are none.
    ga.debug.visualize_sharding((8, 8), sharding, color_map=red)
    assert "\x1b" not in capsys.readouterr().out and not asked
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    ga.debug.visualize_sharding((8, 8), sharding, color_map=red)
    out = capsys.readouterr().out
    assert out.count("48;2;255;0;0m") == 4 * 3 * 2 and "│" not in out
    # Each cell has a value of its own between 0 and 1.
    assert sorted(asked) == [i / 7 for i in range(8)]
    ga.debug.visualize_sharding((8, 8), sharding, color_map=lambda x: "#0000ff")
    assert "38;2;255;255;255;48;2;0;0;255m" in capsys.readouterr().out
    ga.debug.visualize_sharding((8, 8), sharding, use_color=False)
    assert "\x1b" not in capsys.readouterr().out
    colours = visualize._colours(None, 9, 9)
    for i, j in np.ndindex(8, 8):
        assert colours[9 * i + j] not in (colours[9 * i + j + 1], colours[9 * i + j + 9])


def test_svg():
    image = ET.fromstring(ga.debug.sharding_svg((8, 4), NamedSharding(MESH, P("x", "y")), 100))
    assert (image.get("width"), image.get("height")) == ("100", "200")
    cells = image.findall("{*}rect")
    assert [c.get("x") for c in cells] == ["0", "50"] * 4
    assert [c.get("y") for c in cells] == ["0", "0", "50", "50", "100", "100", "150", "150"]
    assert [t.text for t in image.findall("{*}text")] == [f"CPU {i}" for i in range(8)]
    row = ET.fromstring(ga.debug.sharding_svg((8,), NamedSharding(MESH, P("y"))))
    assert [t.text for t in row.findall("{*}text")] == ["CPU 0,2,4,6", "CPU 1,3,5,7"]


@pytest.mark.parametrize(
    "shape, sharding, error, message",
    [
        ((), NamedSharding(MESH, P()), ValueError, "only works for shapes with 1 and 2 dimensions"),
        ((2, 2, 2), NamedSharding(MESH, P()), ValueError, "only works for shapes with 1 and 2"),
        ((7,), NamedSharding(MESH, P("x")), ValueError, "should evenly divide the shape"),
        ((8,), P("x"), TypeError, r"takes a Sharding, got P\('x',\)"),
        ((8,), NamedSharding(AbstractMesh((4,), "x"), P()), ValueError, "has no devices"),
        ((8,), NamedSharding(Mesh(None, ()), P()), ValueError, "has no devices"),
    ],
)
def test_misuse(shape, sharding, error, message):
    for show in (ga.debug.visualize_sharding, ga.debug.sharding_svg):
        with pytest.raises(error, match=message):
            show(shape, sharding)
