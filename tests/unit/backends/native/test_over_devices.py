"""Programs over devices that native code takes over from NumPy, when it has computed the same.

In: programs that exchange nothing, exchange values, and loop over exchanges. Out: NumPy's results
in every call, one code for all devices of a call, and no takeover by code that is wrong.
"""

from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends.native import background
from gpuarray.backends.native import program as native
from gpuarray.runtime import fleet
from gpuarray.util import function_of_text
from tests.support import natively

natively.need_compiler()
pytestmark = pytest.mark.devices

X = np.linspace(-2, 2, 64 * 2048, dtype=np.float32).reshape(64, 2048)
P = ga.P


@pytest.fixture
def fleets(monkeypatch):
    """What runs programs over devices; those are compiled at their second call."""
    made: list[fleet.HostFleet] = []
    begin = fleet.HostFleet.__init__

    def noted(self, *args):
        begin(self, *args)
        made.append(self)

    monkeypatch.setattr(fleet.HostFleet, "__init__", noted)
    monkeypatch.setattr(background, "submit", lambda job: job())
    ga.config.update("native_after", 0)
    ga.config.update("native", "auto")
    ga.clear_caches()
    return made


def cut(x, *spec):
    mesh = ga.make_mesh((8,), ("x",), axis_types=(ga.sharding.AxisType.Auto,))
    return ga.device_put(x, ga.sharding.NamedSharding(mesh, P(*spec)))


def shifted(x):
    """Devices hand a row on and add up what they have, three times."""
    ring = [(i, (i + 1) % 8) for i in range(8)]

    def turn(_, c):
        return gnp.sin(c) + lax.ppermute(c, "x", ring) + lax.pmean(c, "x")

    return lax.fori_loop(0, 3, turn, x)


def shifted_by_numpy(x):
    c = x.reshape(8, 8, -1)
    for _ in range(3):
        c = np.sin(c) + np.roll(c, 1, 0) + c.mean(0)
    return c.reshape(x.shape)


def looped(x):
    mesh = ga.make_mesh((8,), ("x",), axis_types=(ga.sharding.AxisType.Auto,))
    return ga.shard_map(shifted, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(x)


#: What is computed, the same by NumPy, and whether its devices exchange values.
PROGRAMS: dict[str, tuple[Any, Any, bool]] = {
    "silent": (lambda x: gnp.exp(x) * 2, lambda x: np.exp(x) * 2, False),
    "talks": (
        lambda x: gnp.exp(x - x.max(0)) / abs(x).sum(0, keepdims=True).at[0, 0].set(9.0),
        lambda x: np.exp(x - x.max(0)) / np.r_[9.0, abs(x).sum(0)[1:]],
        True,
    ),
    "loops": (looped, shifted_by_numpy, True),
}


@pytest.mark.parametrize("setting, from_call", [("auto", 2), ("wait", 0), ("off", 9)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_takes_over(fleets, name, setting, from_call):
    f, by_numpy, talks = PROGRAMS[name]
    ga.config.update("native", setting)
    g = ga.jit(f, donate_argnums=0) if name == "talks" else ga.jit(f)
    for call in range(4):
        x = cut(X, "x")
        # The third call ran both ways.
        np.testing.assert_allclose(g(x), by_numpy(X), rtol=1e-4, atol=1e-5)
        assert x.is_deleted() == (name == "talks")
        (found,) = [a for a in fleets if a.run.talks == talks and a.plan.graph.eqns]
        assert hasattr(found.run, "kernels") == (call >= from_call)


@pytest.mark.parametrize("name", ["silent", "talks"])
@pytest.mark.parametrize("change", [lambda out: [out[0] + 1], lambda out: 1 // 0])
def test_code_that_is_wrong_does_not(fleets, monkeypatch, caplog, name, change):
    right = native.compile_behind

    def compile_behind(*args):
        made: Any = right(*args)
        space = {"changed": change, "made": made}
        given = "def plan(*buffers): return changed((yield from made(*buffers)))"
        text = given if made.talks else "def plan(*buffers): return changed(made(*buffers))"
        wrong: Any = function_of_text(text, "<plan>", space)
        wrong.__dict__.update(made.__dict__)
        return wrong

    monkeypatch.setattr(native, "compile_behind", compile_behind)
    f, by_numpy, _ = PROGRAMS[name]
    g = ga.jit(f)
    with caplog.at_level("INFO", logger="gpuarray"):
        for _ in range(4):
            np.testing.assert_allclose(g(cut(X, "x")), by_numpy(X), rtol=1e-4, atol=1e-5)
    assert not any(hasattr(a.run, "kernels") for a in fleets)
    (said,) = [r.message for r in caplog.records if "over devices" in r.message]
    assert said.endswith("NumPy goes on")
    assert "could not be tried (ZeroDivisionError" in said or "computes something else" in said


def test_devices_agree_to_the_last_digit(fleets):
    g = ga.jit(lambda x: (gnp.exp(x).sum(0), gnp.tanh(x).mean()), out_shardings=cut(X).sharding)
    for _ in range(4):
        for result in g(cut(X, "x")):
            first, *others = [np.asarray(s.data) for s in result.addressable_shards]
            for other in others:
                np.testing.assert_array_equal(first, other)


def test_what_prints_is_left_to_numpy(fleets, capsys):
    def f(x):
        ga.debug.print("{}", x[0, 0])
        return gnp.exp(x)

    g = ga.jit(f)
    for _ in range(4):
        np.testing.assert_allclose(g(cut(X, "x")), np.exp(X), rtol=1e-6)
    assert capsys.readouterr().out == "-2.0\n" * 4
    assert not any(hasattr(a.run, "kernels") for a in fleets)
