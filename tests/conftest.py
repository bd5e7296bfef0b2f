"""What every test gets: a strict package, a private kernel cache, settings put back, its options.

In: --slow, --fuzz N, and the environment. Out: GPUARRAY_STRICT and GPUARRAY_CACHE_DIR set before
gpuarray is imported (and inherited by subprocesses), tests selected by marker, shared fixtures.
"""

import gc
import os
import shutil
import tempfile

import numpy as np
import pytest
from hypothesis import settings

# What `import jax` means there is no business of the other tests: ci/ecosystem runs them.
collect_ignore = ["ecosystem"]

#: Rooms whose tests are about the CPU's ways to run a program.
CPU_ROOMS = ("unit/backends/numpy/", "unit/backends/native/", "unit/compiler/native/")
DEVICES_NEEDED = 8

# The library reads its environment when it is imported, which a conftest.py further down may do
# before pytest calls any hook.
# A fallback that is silent for a user is a failure here.
os.environ.setdefault("GPUARRAY_STRICT", "1")
# What a pass of the compiler makes is verified before the next one sees it.
os.environ.setdefault("GPUARRAY_CHECK_PLANS", "1")
# NumPy is what most tests are about; those of native code say so, and wait for no hot program.
os.environ.setdefault("GPUARRAY_NATIVE", "off")
os.environ.setdefault("GPUARRAY_NATIVE_AFTER", "0")
# Who works on the library wants its frames.
os.environ.setdefault("GPUARRAY_TRACEBACK_FILTERING", "off")
# Tests neither read nor fill the user's cache of compiled kernels.
CACHE = os.environ["GPUARRAY_CACHE_DIR"] = tempfile.mkdtemp(prefix="gpuarray-")

# The same examples in every run: a failure that CI finds is a failure that everyone finds.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run tests marked slow")
    parser.addoption("--fuzz", type=int, default=400, metavar="N", help="random programs to try")
    parser.addoption("--fuzz-from", type=int, default=0, metavar="SEED", help="the first of them")


def pytest_configure(config):
    gc.disable()  # until all tests are collected: next to nothing of it is garbage
    settings.load_profile("repeatable")
    if config.getoption("--slow"):
        os.environ.setdefault("SIMULATED_ORDERS", "3")


def pytest_unconfigure(config):
    # pytest looks ten times for garbage whose finalisers fail. Twice over all that the run has left
    # finds it, and what becomes garbage by that.
    gc.unfreeze()
    gc.collect()
    gc.collect()
    gc.freeze()
    shutil.rmtree(CACHE, ignore_errors=True)


def pytest_collection_modifyitems(config, items):
    """Leave out what this run cannot hold: slow tests without --slow, `devices` with too few."""
    devices = int(os.environ.get("GPUARRAY_NUM_CPU_DEVICES", "1"))
    skipped_markers = set() if config.getoption("--slow") else {"slow"}
    if devices < DEVICES_NEEDED:
        skipped_markers.add("devices")
    kept, left_out = [], []
    for item in items:
        if any(room in item.path.as_posix() for room in CPU_ROOMS):
            item.add_marker(pytest.mark.on_cpu("the room is the CPU's"))
        marked = any(m.name in skipped_markers for m in item.iter_markers())
        (left_out if marked else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_collection_finish():
    # Many tests ask for garbage to be collected. What stays for the whole run, and that is millions
    # of objects, is left out of it: here, and after every file.
    gc.collect()
    gc.freeze()
    gc.enable()
    # Python looks for garbage after every 700 new objects, and a trace makes thousands: that took a
    # twelfth of the time. Tests about garbage ask for a collection.
    gc.set_threshold(20_000, 20, 50)


@pytest.fixture(autouse=True, scope="module")
def caches_emptied():
    """Leave no programs to the files that follow, which would look through them for garbage."""
    import gpuarray as ga
    from gpuarray.core.layout import resolving

    yield
    ga.clear_caches()
    gc.collect()
    gc.freeze()
    assert resolving.depth == 0, "a context that is open makes later tests lenient"


@pytest.fixture(autouse=True, scope="session")
def full_precision():
    """Where there is a GPU, do not let products be rounded to TF32, which tests compare closely."""
    import gpuarray as ga
    from gpuarray.backends.cuda.availability import missing

    if not missing():
        ga.config.update("jax_default_matmul_precision", "highest")


@pytest.fixture(autouse=True)
def settings_put_back(request):
    """Undo what a test did to the global settings, ours and those of NumPy's printer, so that no
    test depends on the one before. Tests marked `on_cpu` find no other device.
    """
    # Here, not above: the library reads its environment when it is imported.
    import gpuarray as ga
    from tests.support.sampled import settings_kept

    with settings_kept():
        if request.node.get_closest_marker("on_cpu"):
            ga.config.update("jax_platforms", "cpu")
        yield


@pytest.fixture
def rng():
    """A NumPy generator with the same stream in every run."""
    return np.random.default_rng(0)


@pytest.fixture
def fuzz_count(request):
    """How many random programs a fuzz test tries: --fuzz N."""
    return request.config.getoption("--fuzz")


@pytest.fixture
def fuzz_from(request):
    """The seed of the first random program of native code: --fuzz-from SEED."""
    return request.config.getoption("--fuzz-from")


@pytest.fixture
def every(request):
    """Whether a test tries every combination (--slow, ci/long), or some of each kind."""
    return request.config.getoption("--slow")


@pytest.fixture(autouse=True, scope="session")
def plans_only():
    """Let `explain` count kernels without compiling them for their registers, which takes longer
    than most tests.
    """
    from gpuarray.api import explain
    from gpuarray.compiler.explain.source import device_facts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explain, "device_facts", lambda plan, arch, _: device_facts(plan, arch, None))
        yield


@pytest.fixture
def assembled(monkeypatch):
    """Let `explain` compile kernels, for their registers, where NVRTC is here."""
    from gpuarray.api import explain
    from gpuarray.compiler.explain.source import device_facts

    monkeypatch.setattr(explain, "device_facts", device_facts)


@pytest.fixture
def fake_gpu():
    """A GPU that is not there, with what it does and what goes wrong: see tests/fake_cupy."""
    from tests.fake_cupy import installed

    with installed() as world:
        yield world
