"""`profile`: which steps it names, how often they run, what they move; never how long they take."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends import copies
from gpuarray.core import ranges


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A few calls, and copies that are as fast as the test says."""
    monkeypatch.setattr("gpuarray.api.profile.SECONDS", 0.0)
    monkeypatch.setattr("gpuarray.api.profile.copy_bandwidth", lambda device, nbytes: 1e9)
    yield
    assert ranges.session is None


def model(x):
    y = gnp.tanh(x @ x)
    carry, sums = lax.scan(lambda c, _: (gnp.sin(c @ x), c.sum()), y, None, length=5)
    return gnp.sort(carry.sum(0)), sums


X = np.linspace(-1, 1, 400 * 400, dtype="float32").reshape(400, 400)


def test_steps_loops_and_what_is_in_them():
    found = ga.profile(model)(X)
    steps = {(s.name, s.depth): s for s in found.steps}
    assert list(dict.fromkeys(s.name for s in found.steps if not s.depth))[:3] == [
        "dot_general", "k0_map", "scan",
    ]  # fmt: skip
    # 640 kB each: the product reads one array for both operands.
    one = X.nbytes
    assert steps["dot_general", 0].calls == 1 and steps["dot_general", 0].nbytes == 2 * one
    assert steps["dot_general", 1].calls == 5 and steps["dot_general", 1].nbytes == 5 * 3 * one
    assert steps["scan", 0].kind == "loop" and steps["k0_map", 0].kind == "kernel"
    assert all("test_profile.py:" in s.lines for s in found.steps if s.name == "dot_general")
    inside = sum(s.seconds for s in found.steps if s.depth)
    # Medians of several calls: those of parts need not add up to that of the whole.
    assert 0 < inside and steps["scan", 0].seconds > 0 and found.seconds > 0


def test_the_share_is_that_of_a_copy_of_as_many_bytes():
    found = ga.profile(lambda x: gnp.exp(x) + 1)(X)
    (step,) = found.steps
    assert step.share == pytest.approx(2 * X.nbytes / 1e9 / step.seconds)
    shown = str(found).splitlines()
    assert shown[0].startswith("<lambda> on cpu:0: ") and "1.0 GB/s" in shown[0]
    assert shown[2].split() == ["step", "runs", "time", "of", "all", "moves", "of", "a", "copy's",
                                "speed", "lines"]  # fmt: skip
    assert shown[3].startswith("k0_map") and "1.3 MB" in shown[3]
    assert shown[4].startswith("between steps")


def test_donated_arguments_can_be_used_again():
    f = ga.jit(lambda x: x * 2, donate_argnums=0)
    x = gnp.ones((300, 300))
    assert len(ga.profile(f)(x).steps) >= 1
    assert not x.is_deleted() and float(x.sum()) == 90000


def test_static_arguments_and_keywords():
    def f(x, n, *, scale):
        return x * scale + n

    found = ga.profile(f, static_argnums=1)(X, 3, scale=2.0)
    assert found.name == "f" and found.steps


def test_what_cannot_be_profiled(tmp_path):
    with pytest.raises(TypeError, match="function"):
        ga.profile(3)  # pyright: ignore[reportArgumentType]
    with ga.profiler.trace(tmp_path), pytest.raises(RuntimeError, match="stop_trace"):
        ga.profile(model)(X)

    def fails(x):
        return ga.pure_callback(lambda x: 1 / 0, ga.ShapeDtypeStruct((), "float32"), x)

    with pytest.raises(Exception, match="zero"):
        ga.profile(fails)(1.0)


def test_on_a_gpu_times_are_its_own(fake_gpu):
    def f(x):
        return gnp.sort(gnp.tanh(x @ x), axis=None)[0]

    found = ga.profile(f)(gnp.asarray(X[:40, :40]))
    assert found.device == "cuda:0"
    kinds = [s.kind for s in found.steps]
    assert "kernel" in kinds and "library" in kinds and all(s.calls == 1 for s in found.steps)
    assert found.steps[0].name == "dot_general" and found.steps[0].nbytes == 2 * 40 * 40 * 4


@pytest.mark.devices
def test_several_devices_count_together():
    mesh = ga.make_mesh((4,), ("x",), devices=ga.devices()[:4])
    x = ga.device_put(X, ga.NamedSharding(mesh, ga.P("x")))
    found = ga.profile(lambda x: gnp.exp(x) - x.sum())(x)
    assert {s.calls for s in found.steps} == {4}
    assert "exchange" in [s.kind for s in found.steps]


@pytest.mark.parametrize("nbytes", [0, 1, 1 << 20, 1 << 23])
def test_copies_have_a_speed(nbytes, fake_gpu):
    for device in (*ga.devices("cpu"), *ga.devices("gpu")):
        assert 0 < copies.copy_bandwidth(device, nbytes) < 1e15
    copies._measured.cache_clear()
