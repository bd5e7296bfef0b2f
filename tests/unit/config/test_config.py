"""Floor 0: the settings and their overrides, the exceptions, the small helpers."""

import asyncio
import gc
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import errors, sites, util
from gpuarray.config import (
    config,
    debug_nans,
    default_device,
    default_matmul_precision,
    disable_jit,
    enable_x64,
    numpy_dtype_promotion,
    settings,
    state,
    transfer_guard,
)
from gpuarray.core.graph import subgraphs
from gpuarray.runtime import device, garbage
from gpuarray.settings import checked, from_environment

#: The module: the attribute `gpuarray.config` is the settings object.
config_module = sys.modules["gpuarray.config"]


@pytest.fixture
def restored():
    """Put the global settings back after a test that updates them."""
    before = dict(config_module._global)
    yield
    for name, value in before.items():
        if config_module._global[name] != value:
            config.update(name, value)


# -- reading and updating


def test_names_with_and_without_prefix():
    assert config.jax_enable_x64 is config.enable_x64 is config.read("jax_enable_x64") is False
    assert config.read("fusion") is True
    assert config.x64_enabled is False
    assert set(config.values) == {
        ("jax_" if row.jax else "") + name for name, row in settings.items()
    }


def test_defaults_are_valid():
    for row in settings.values():
        assert checked(row, row.default) == row.default
        assert row.doc
        assert all(other in settings for other in row.sets)


def test_threefry_default_is_the_classic_stream():
    assert settings["threefry_partitionable"].default is False


def test_update_reaches_every_thread(restored):
    seen, go, done = [], threading.Event(), threading.Event()

    def other():
        seen.append(state.enable_x64)
        done.set()
        assert go.wait(10)
        seen.append((state.enable_x64, state.trace_key))

    thread = threading.Thread(target=other)
    thread.start()
    assert done.wait(10)
    config.update("jax_enable_x64", True)
    go.set()
    thread.join()
    assert seen == [False, (True, state.trace_key)]
    assert state.enable_x64 is True


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(AttributeError, match=r"Unrecognized config option: jax_enable_x46.*x64"):
        config.update("jax_enable_x46", True)
    with pytest.raises(AttributeError, match="Unrecognized config option"):
        _ = config.jax_nonsense
    with pytest.raises(AttributeError, match="Unrecognized config option"):
        config.read("nonsense")


@pytest.mark.parametrize(
    "name, value, phrase",
    [
        ("jax_enable_x64", "maybe", "True or False"),
        ("jax_enable_x64", 2, "True or False"),
        ("jax_num_cpu_devices", "x", "an int"),
        ("jax_num_cpu_devices", -2, "from -1"),
        ("jax_default_prng_impl", "philox", "'rbg'"),
        ("num_threads", -1, "from 0"),
        ("lazy_threshold", -1, "from 0"),
        ("jax_num_cpu_devices", True, "an int"),
        ("jax_numpy_dtype_promotion", "x", "'standard', 'strict'"),
        ("jax_default_matmul_precision", "foo", "or None"),
        ("jax_default_device", 3, "platform name"),
        ("jax_default_device", "nonsense", "platform name.*'nonsense'"),
        ("jax_default_device", "cpu:1", "platform name.*'cpu:1'"),
        ("jax_dynamic_shapes", True, "static"),
        ("debug", 5, "0 to 4"),
        ("dump", 3, "a str"),
    ],
)
def test_bad_values(name, value, phrase):
    before = config.read(name)
    with pytest.raises(ValueError, match=phrase):
        config.update(name, value)
    assert config.read(name) == before


def test_assignment_says_how():
    with pytest.raises(AttributeError, match=r"config.update\('jax_enable_x64', True\)"):
        config.jax_enable_x64 = True


def test_update_hook_may_refuse(restored):
    def refuse(value):
        raise RuntimeError(f"too late for {value}")

    config.on_update("jax_random_seed_offset", refuse)
    try:
        with pytest.raises(RuntimeError, match="too late for 4"):
            config.update("jax_random_seed_offset", 4)
        assert config.jax_random_seed_offset == state.random_seed_offset != 4
    finally:
        config._hooks["random_seed_offset"].remove(refuse)


def test_settings_come_from_the_command_line(restored, monkeypatch):
    ours = ["--jax_numpy_rank_promotion=raise", "--nojax_softmax_custom_jvp", "-jax_enable_x64"]
    others = ["--steps=3", "jax_log_compiles", "--", "--jax_debug_nans=true"]
    monkeypatch.setattr("sys.argv", ["program", *ours, *others])
    config.update("softmax_custom_jvp", True)
    config.parse_flags_with_absl()
    assert config.numpy_rank_promotion == "raise" and config.jax_enable_x64
    assert not config.softmax_custom_jvp and not config.debug_nans and not config.log_compiles
    monkeypatch.setattr("sys.argv", ["program", "--jax_numpy_rank_promotion=sometimes"])
    with pytest.raises(ValueError, match="'allow'"):
        config.parse_flags_with_absl()


def test_xla_settings_are_accepted_aloud():
    with pytest.warns(UserWarning, match="no effect"):
        config.update("jax_use_shardy_partitioner", False)
    assert config.jax_use_shardy_partitioner is False


def test_enum_like_values(restored):
    class Mode:
        value = "strict"

    config.update("jax_numpy_dtype_promotion", Mode())
    assert state.numpy_dtype_promotion == "strict"


# -- overrides


def test_nested_overrides_and_exceptions():
    with enable_x64(True):
        assert state.enable_x64 and enable_x64.value
        with pytest.raises(KeyError), enable_x64(False):
            assert not state.enable_x64
            raise KeyError
        assert state.enable_x64
    assert not state.enable_x64


def test_an_override_is_reentrant_and_reusable():
    block = enable_x64(True)
    with block, enable_x64(False), block:
        assert state.enable_x64
    assert not state.enable_x64
    with block:
        assert state.enable_x64


def test_override_as_decorator():
    @enable_x64(True)
    def inner(n):
        return (state.enable_x64, inner(n - 1) if n else None)

    assert inner(1) == (True, (True, None))
    assert not state.enable_x64


def test_overrides_stay_in_their_thread():
    seen = []
    with enable_x64(True):
        thread = threading.Thread(target=lambda: seen.append(state.enable_x64))
        thread.start()
        thread.join()
    assert seen == [False]


def test_update_under_an_override_waits(restored):
    with numpy_dtype_promotion("standard"):
        config.update("jax_numpy_dtype_promotion", "strict")
        assert state.numpy_dtype_promotion == "standard"
    assert state.numpy_dtype_promotion == "strict"


def test_flags_default_to_on_and_values_are_required():
    with disable_jit(), debug_nans():
        assert state.disable_jit and state.debug_nans
    with pytest.raises(TypeError, match="needs the value"):
        default_matmul_precision()
    with pytest.raises(ValueError, match="expected one of"):
        numpy_dtype_promotion("foo")
    with pytest.raises(ValueError, match="expected one of"):
        default_matmul_precision(np.dtype("float32"))
    with pytest.raises(TypeError, match="not a flag"):
        bool(enable_x64)


def test_a_default_device_that_cannot_be_used_is_refused_at_the_call(monkeypatch):
    monkeypatch.setattr(device, "missing", lambda: "There is no GPU.")
    for name in ("gpu", "cuda"):
        for set_it in (default_device, lambda name: config.update("jax_default_device", name)):
            with pytest.raises(ValueError, match=f"got: '{name}'. There is no GPU."):
                set_it(name)
    assert state.default_device is None


def test_default_device():
    with default_device("cpu"):
        assert state.default_device == "cpu"
        with default_device(None):
            assert state.default_device is None


def test_transfer_guard_sets_all_directions():
    directions = [n for n in settings if n.startswith("transfer_guard")]
    with transfer_guard("disallow"):
        assert {getattr(state, n) for n in directions} == {"disallow"}
    assert {getattr(state, n) for n in directions} == {None}


def test_every_context_is_in_the_table():
    kind = config_module.Context
    contexts = {n: c for n, c in vars(config_module).items() if isinstance(c, kind)}
    assert len(contexts) > 30
    for name, context in contexts.items():
        assert context._row.name in settings
        assert name in repr(context) or name == "checking_leaks"


# -- the trace key


def test_trace_key_is_shared_and_follows_traced_settings_only():
    base = state.trace_key
    with enable_x64(True):
        wide = state.trace_key
        assert wide is not base
        with enable_x64(False):
            assert state.trace_key is base
    with config_module.log_compiles(True):
        assert state.trace_key is base
    with enable_x64(True):
        assert state.trace_key is wide
    assert base.differences(wide) == ["enable_x64: False -> True"]
    assert "enable_x64=True" in repr(wide) and "enable_x64" not in repr(base)


def test_threads_come_and_go():
    import gc

    def touch():
        with enable_x64(True):
            assert state.enable_x64

    for _ in range(20):
        thread = threading.Thread(target=touch)
        thread.start()
        thread.join()
    gc.collect()
    assert len(config_module._threads) < 10


def test_many_threads_update_and_override(restored):
    errors_seen = []

    def work(i):
        for _ in range(50):
            with enable_x64(i % 2 == 0):
                if state.enable_x64 is not (i % 2 == 0):
                    errors_seen.append(i)
                config.update("debug", i % 5)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors_seen
    assert state.debug == config_module._global["debug"]


# -- the environment


def test_environment_both_prefixes():
    found, unknown = from_environment(
        {
            "JAX_ENABLE_X64": "1",
            "GPUARRAY_DEBUG": "3",
            "JAX_PLATFORMS": "cpu",
            "GPUARRAY_PLATFORMS": "cuda,cpu",
            "JAX_DEBUG": "1",
            "JAX_DEFAULT_MATMUL_PRECISION": "",
            "JAX_TRANSFER_GUARD": "log",
            "XLA_FLAGS": "--foo --xla_force_host_platform_device_count=8",
        }
    )
    assert found.pop("transfer_guard") == found.pop("transfer_guard_host_to_device") == "log"
    assert {k: v for k, v in found.items() if "guard" not in k} == {
        "enable_x64": True,
        "debug": 3,
        "platforms": "cuda,cpu",
        "default_matmul_precision": None,
        "num_cpu_devices": 8,
    }
    assert unknown == []


def test_own_variable_wins_over_xla_flags():
    flags = "--xla_force_host_platform_device_count=8"
    found, _ = from_environment({"XLA_FLAGS": flags, "GPUARRAY_NUM_CPU_DEVICES": "2"})
    assert found["num_cpu_devices"] == 2


def test_bad_environment_names_the_variable():
    with pytest.raises(ValueError, match="GPUARRAY_DEBUG='x'.*0 to 4"):
        from_environment({"GPUARRAY_DEBUG": "x"})
    with pytest.raises(ValueError, match="JAX_ENABLE_X64='perhaps'"):
        from_environment({"JAX_ENABLE_X64": "perhaps"})
    with pytest.raises(ValueError, match="XLA_FLAGS"):
        from_environment({"XLA_FLAGS": "--xla_force_host_platform_device_count=many"})


def test_unknown_variable_warns_at_import():
    code = "import gpuarray.config as c; print(c.state.enable_x64)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path), "GPUARRAY_FUSOIN": "0", "JAX_ENABLE_X64": "true"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    assert run.stdout == "True\n"
    assert "GPUARRAY_FUSOIN (did you mean GPUARRAY_FUSION?)" in run.stderr


# -- errors


class _Tracer:
    class aval:
        @staticmethod
        def str_short():
            return "bool[]"

    def origin(self):
        return "It depends on the argument x of f at file.py:3."


@pytest.mark.parametrize(
    "kind, base, phrase",
    [
        (errors.TracerBoolConversionError, TypeError, "Attempted boolean conversion of traced arr"),
        (errors.TracerIntegerConversionError, TypeError, "The __index__() method was called on tr"),
        (errors.TracerArrayConversionError, TypeError, "The numpy.ndarray conversion method __arr"),
        (errors.ConcretizationTypeError, TypeError, "Abstract tracer value encountered where conc"),
        (errors.NonConcreteBooleanIndexError, IndexError, "Array boolean indices must be concrete"),
    ],
)
def test_tracer_errors(kind, base, phrase):
    error = kind(_Tracer())
    assert isinstance(error, base)
    assert str(error).startswith(phrase)
    assert "bool[]" in str(error) and "argument x of f at file.py:3" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and str(again) == str(error)


def test_error_classes_are_consistent():
    assert issubclass(errors.TracerBoolConversionError, errors.ConcretizationTypeError)
    assert issubclass(errors.OutOfMemory, MemoryError)
    assert issubclass(errors.OutOfMemory, errors.JaxRuntimeError)
    assert issubclass(errors.DeletedBufferError, RuntimeError)
    assert "item()" in str(errors.ConcretizationTypeError(_Tracer(), "item() was called"))
    classes = (v for v in vars(errors).values() if isinstance(v, type))
    own = {v.__name__ for v in classes if v.__module__ == errors.__name__}
    assert set(errors.__all__) == own


# -- helpers


def test_lazy_module():
    sys.modules.pop("colorsys", None)
    lazy = util.lazy_module("colorsys")
    assert "not loaded" in repr(lazy) and "colorsys" not in sys.modules
    with pytest.raises(AttributeError):
        _ = lazy.__wrapped__
    assert "colorsys" not in sys.modules
    assert lazy.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)
    assert "colorsys" in sys.modules and "rgb_to_hsv" in dir(lazy)
    with pytest.raises(ImportError, match="no_such_library.*Install the cuda extra"):
        _ = util.lazy_module("no_such_library", "Install the cuda extra.").f


def test_user_frame_is_here():
    def where():
        return sites.user_frame()

    site = where()
    filename, line, function = site
    assert filename == __file__ and function == "where"
    assert line == where.__code__.co_firstlineno + 1
    assert str(site) == f"test_config.py:{line} (where)"
    assert where() == site and hash(where()) == hash(site)
    with pytest.raises(AttributeError):
        site.line = 3


def test_user_frame_skips_the_package_and_libraries():
    inside = compile("def call(f):\n    return f()", sites.PACKAGE + "made_up.py", "exec")
    numpy_like = compile("def through(f):\n    return f()", "/x/site-packages/numpy/f.py", "exec")
    space = {}
    exec(inside, space)
    exec(numpy_like, space)
    site = space["call"](lambda: space["through"](sites.user_frame))
    assert site.filename == __file__
    assert space["through"](lambda: 1) == 1


def test_user_frame_in_a_coroutine():
    async def main():
        return sites.user_frame()

    assert asyncio.run(main()).function == "main"


def _lines(graph):
    found = {eqn.site.line for eqn in graph.eqns}
    return found.union(*[_lines(g) for eqn in graph.eqns for g in subgraphs(eqn)])


def test_replayed_operations_keep_their_place():
    def f(x):
        y = gnp.sin(x)
        return y * y

    def through(wrap):
        return ga.make_jaxpr(lambda x: wrap(ga.jit(f))(x))(2.0)

    def scanned(f):
        return lambda x: ga.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]

    first = f.__code__.co_firstlineno
    own, here = {first + 1, first + 2}, through.__code__.co_firstlineno + 1
    for wrap in (ga.grad, ga.checkpoint, lambda f: ga.grad(ga.checkpoint(f)), ga.hessian):
        assert own <= _lines(through(wrap)) <= own | {here}
    assert own <= _lines(through(lambda f: ga.grad(scanned(f)))) <= own | {here, here + 3}
    assert sites.replaying.site is None


def test_a_function_called_in_a_replay_has_its_own_place():
    @ga.custom_jvp
    def double(x):
        return x * 2

    @double.defjvp
    def rule(primals, tangents):
        return double(*primals), gnp.sin(tangents[0])

    graph = ga.make_jaxpr(lambda x: ga.jvp(ga.jit(double), (x,), (x,)))(1.0)
    assert rule.__code__.co_firstlineno + 2 in _lines(graph)
    with pytest.raises(FloatingPointError):
        with debug_nans(True):
            ga.grad(ga.jit(gnp.sqrt))(-1.0)
    assert sites.replaying.site is None


def test_axes():
    assert util.canonical_axis(-1, 3) == 2
    with pytest.raises(ValueError, match="axis 3 is out of bounds for array of dimension 2"):
        util.canonical_axis(3, 2)
    with pytest.raises(ValueError, match="axis 0 is out of bounds for array of dimension 0"):
        util.canonical_axis(0, 0)
    with pytest.raises(TypeError):
        util.canonical_axis(1.0, 2)
    assert util.canonical_axes([1, -3], 3) == (1, 0)
    with pytest.raises(ValueError, match=r"duplicate value in 'axis': \(0, -2\)"):
        util.canonical_axes((0, -2), 2)


def test_zips_and_prod():
    assert util.unzip2([]) == ((), ())
    assert util.safe_zip() == []
    assert util.safe_zip((x for x in "ab"), [1, 2]) == [("a", 1), ("b", 2)]
    with pytest.raises(ValueError, match=r"length mismatch: \[3, 2\]"):
        util.safe_zip([1, 2, 3], [1, 2])
    assert util.prod(()) == 1


# ---- settings that change nothing, and arrays in cycles ----


@pytest.mark.parametrize("name, value", [("thread_guard", True)])
def test_an_idle_setting_says_so(name, value):
    before = config.read(name)
    try:
        with pytest.warns(UserWarning, match=f"{name}=.* has no effect"):
            config.update(name, value)
    finally:
        config.update(name, before)


def test_arrays_in_cycles_are_reported(caplog):
    def make_cycle():
        loop = [gnp.ones(3)]
        loop.append(loop)

    gc.collect()
    make_cycle()
    gc.collect()
    assert not caplog.records
    try:
        with ga.array_garbage_collection_guard("log"):
            make_cycle()
            gc.collect()
    finally:
        gc.callbacks.remove(garbage._watch)  # tests of interrupts may follow in this process
    (record,) = caplog.records
    assert "float32[3] is part of a reference cycle" in record.getMessage()
    assert "__del__" not in type(gnp.ones(1)).__dict__


def test_an_array_in_a_cycle_can_end_the_process():
    program = (
        "import gc, gpuarray as ga; x = [ga.numpy.ones(3)]; x.append(x); del x\n"
        "with ga.array_garbage_collection_guard('fatal'): gc.collect()\nprint('alive')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode < 0 and "alive" not in ended.stdout
    assert "reference cycle" in ended.stderr


def test_a_collection_may_begin_before_a_thread_has_its_settings():
    def work():
        del state.__dict__["array_garbage_collection_guard"]
        try:
            garbage._watch("start", None)
        except BaseException as error:
            failures.append(error)

    failures = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failures
