"""Settings of JAX: those that act here act, the others are listed and warn."""

from __future__ import annotations

import logging
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import gpuarray as ga
from gpuarray import numpy as gnp
from gpuarray import random
from gpuarray.backends.cuda import device as gpus
from gpuarray.errors import DeviceError
from gpuarray.experimental import pallas as pl
from gpuarray.settings import settings
from gpuarray.xla_settings import IDLE, XLA_SETTINGS

config = ga.config
DIFFERENCES = pathlib.Path(ga.__file__).parents[1] / "docs" / "differences.md"


@pytest.fixture
def setting():
    """A function that sets a setting for the rest of the test."""
    before = {}

    def change(name, value):
        before.setdefault(name, config.read(name))
        config.update(name, value)

    yield change
    for name, value in before.items():
        config.update(name, value)


def test_settings_without_effect_are_listed_once():
    assert sum(len(group.defaults) for group in IDLE) == len(XLA_SETTINGS)
    assert not XLA_SETTINGS.keys() & settings.keys()
    text = DIFFERENCES.read_text(encoding="utf-8")
    section = text.partition("## Settings of JAX without effect\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert rows == [f"| {g.why} | {', '.join(f'`{n}`' for n in g.defaults)} |" for g in IDLE]


def test_static_indices_are_checked(setting):
    x = gnp.arange(3)
    assert x[7] == 2
    setting("jax_check_static_indices", True)
    for index in (7, -4, (None, 7)):
        with pytest.raises(IndexError, match="index (7|-4) .*check_static_indices"):
            x[index]
    # Beside index arrays, windows that move, new axes and an Ellipsis; in programs too.
    y = gnp.zeros((2, 3, 5))
    array, key = np.arange(2), gnp.int32(1)
    for index, axis in [
        ((slice(None), [1, 2], 6), 2),
        ((array, 6, None), 1),
        ((..., key, -6), 2),
        ((None, 2, key), 0),
        ((gnp.ones((2, 3), bool), -6), 2),
    ]:
        for read in (lambda y, i=index: y[i], lambda y, i=index: y.at[i].get()):
            with pytest.raises(IndexError, match=f"index -?. out of bounds for axis {axis} with"):
                read(y)
            with pytest.raises(IndexError, match=f"index -?. out of bounds for axis {axis} with"):
                ga.eval_shape(read, y)
    assert x[-3] == 0 and ga.jit(lambda i: x[i])(7) == 2
    assert x.at[7].set(5).tolist() == [0, 1, 2]  # of reads only, as in JAX


def test_gumbel_mode(setting):
    key = random.key(3)
    low, high = (np.asarray(random.gumbel(key, (50,), mode=m)) for m in ("low", "high"))
    assert np.array_equal(random.gumbel(key, (50,)), low)
    setting("jax_high_dynamic_range_gumbel", True)
    assert np.array_equal(random.gumbel(key, (50,)), high)
    assert np.array_equal(random.gumbel(key, (50,), mode="low"), low)


def test_mesh_as_context_manager(setting):
    mesh = ga.make_mesh((1,), ("x",))
    setting("jax_disallow_mesh_context_manager", True)
    with pytest.raises(RuntimeError, match="set_mesh"), mesh:
        pass


def test_debug_checks_of_pallas(setting):
    pl.debug_check(False, "off")
    setting("jax_pallas_enable_debug_checks", True)
    with pytest.raises(Exception, match="now on"):
        pl.debug_check(False, "now on")


def test_residuals_of_checkpoints_are_logged(setting, caplog):
    f = ga.grad(ga.checkpoint(lambda x: gnp.sin(gnp.sin(x))))
    f(1.0)
    assert not caplog.records
    setting("jax_log_checkpoint_residuals", True)
    ga.grad(ga.checkpoint(lambda x: gnp.cos(gnp.sin(x))))(1.0)
    assert "saving inputs with shapes" in caplog.text


@pytest.mark.on_cpu("GPUs are chosen before the first is used")
def test_gpus_are_chosen(setting, monkeypatch):
    monkeypatch.setattr(gpus, "_gpus", [])
    setting("jax_cuda_visible_devices", "2,0")
    assert gpus._visible(3) == [2, 0]
    with pytest.raises(DeviceError, match="there are 2 GPUs"):
        gpus._visible(2)
    setting("jax_cuda_visible_devices", "all")
    assert gpus._visible(2) == [0, 1]
    with pytest.raises(ValueError, match="numbers of GPUs"):
        config.update("jax_cuda_visible_devices", "first")


def test_options_of_xla_are_taken_aloud():
    options = {"xla_gpu_autotune_level": 2, "exec_time_optimization_effort": 0.5}
    with pytest.warns(UserWarning, match="no effect in gpuarray: xla_gpu_autotune_level, exec"):
        f = ga.jit(lambda x: 2 * x, compiler_options=options)
    assert f(2) == 4
    with pytest.warns(UserWarning, match="no effect in gpuarray: xla_dump_to"):
        assert f.lower(2).compile({"xla_dump_to": "somewhere"})(2) == 4
    for name in ("nonsense", "fusion"):
        with pytest.raises(ValueError, match=f"No such compile option: '{name}'"):
            ga.jit(lambda x: x, compiler_options={name: 1})


def test_messages_are_printed():
    program = (
        "import gpuarray as ga, logging; log = logging.getLogger('gpuarray');"
        "log.info('first'); ga.config.update('jax_logging_level', 'INFO'); log.info('second');"
        "log.debug('third'); ga.config.update('jax_debug_log_modules', 'jax._src.dispatch');"
        "log.debug('fourth'); ga.config.update('jax_debug_log_modules', '');"
        "ga.config.update('jax_logging_level', 'NOTSET'); log.info('fifth')"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stderr.split() == ["second", "fourth"], run.stderr
    assert logging.getLogger("gpuarray").level == logging.NOTSET
