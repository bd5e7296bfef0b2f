"""Every setting has an effect, or says that it has none: a row for each, so that a new one cannot
be forgotten.
"""

import contextlib
import pathlib
import sys
import warnings

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import errors, lax, nn, random
from gpuarray.backends.numpy import tiles
from gpuarray.backends.simulator import _fall_back
from gpuarray.backends.store import Store
from gpuarray.compiler import pipeline
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Graph
from gpuarray.sharding import AbstractMesh, AxisType, NamedSharding
from gpuarray.sharding import PartitionSpec as P

#: The module: the attribute `gpuarray.config` is the settings object.
config_module = sys.modules["gpuarray.config"]
SETTINGS = config_module.settings
UNIT = pathlib.Path(__file__).resolve().parents[1]


@contextlib.contextmanager
def within(name, value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        block = config_module.Context(name)(value)
    with block:
        yield


def raises(error, call, words=None):
    with pytest.raises(error, match=words):
        call()
    return True


def text(f, *args):
    return str(ga.make_jaxpr(f)(*args))


def half():
    return gnp.ones(3, "float16")


def key_words():
    return random.key_data(random.key(3)).tolist()


def laid_over_a_mesh():
    mesh = AbstractMesh((2, 1), ("x", "y"), (AxisType.Explicit,) * 2)
    sharding = NamedSharding(mesh, P(("x", "y")))
    return str(ga.make_jaxpr(gnp.sin)(ga.ShapeDtypeStruct((8,), "float32", sharding=sharding)))


def use_a_key_twice():
    key = random.key(0)
    random.normal(key)
    return raises(errors.KeyReuseError, lambda: random.normal(key), "random.clone")


def leak():
    kept = []
    return raises(RuntimeError, lambda: ga.jit(lambda x: kept.append(x + 1))(1.0), "Leaked trace")


def mix_what_varies():
    specs = {"in_specs": (P("x"), P()), "out_specs": P("x")}
    f = ga.shard_map(lambda x, y: x * y, mesh=ga.make_mesh((1,), ("x",)), **specs)
    return f(gnp.ones(2), gnp.ones(2))


def record_what_is_ill_typed():
    def wrong(x):
        out = x + 1
        out._trace.eqns[-1].outvars[0].aval = ShapedArray((7,), out.dtype)
        return out

    return raises(Exception, lambda: ga.make_jaxpr(wrong)(1.0), "add")


def execute():
    x, f = ga.device_put(1.0), ga.jit(lambda x: x * 3)
    with ga.no_execution(False):
        f(x)
        f(x)  # by the shortest way
    f.lower(x)
    raises(RuntimeError, lambda: x + 1, "no_execution")
    raises(RuntimeError, lambda: f(x), "no_execution")
    return raises(RuntimeError, lambda: ga.jit(lambda x: f(x) - 1)(x), "no_execution")


def copy_without_being_asked():
    ga.device_put(np.ones(3))
    return raises(errors.JaxRuntimeError, lambda: gnp.sin(np.ones(3)), "host-to-device")


def copy_on_purpose():
    raises(errors.JaxRuntimeError, lambda: ga.device_put(3.0), "explicit")
    raises(errors.JaxRuntimeError, lambda: gnp.sin(np.ones(3)), "explicit")
    return raises(errors.JaxRuntimeError, lambda: ga.device_put(np.ones(3)), "explicit")


def copy_between_devices():
    x = ga.device_put(gnp.float32(1.0), ga.Device("cpu", 5))
    ga.device_put(x, ga.Device("cpu", 6))
    return raises(errors.JaxRuntimeError, lambda: x + gnp.float32(1.0) + 1, "cpu:0 to cpu:5")


def fall_back():
    (group,) = ga.jit(lambda x: x + 1).lower(gnp.ones(3)).plan.steps
    with pytest.warns(errors.FallbackWarning):  # tests are strict, where this is an error
        _fall_back(group, TypeError("odd"))
    return True


def stored_in():
    return Store("kernels", ".x").path().parent.name


def compile_anew():
    number = np.float32(np.random.default_rng().random())
    ga.jit(lambda x: x - number)(gnp.ones(2))


def logged(words):
    def effect(caplog):
        caplog.clear()
        compile_anew()
        return any(words in record.getMessage() for record in caplog.records)

    return effect


def printed(capsys):
    compile_anew()
    return "jit <lambda>" in capsys.readouterr().out


def pass_unnoticed(monkeypatch):
    """A pass of the compiler loses an equation."""
    monkeypatch.setattr(
        pipeline,
        "exchange_products",
        lambda g: Graph(g.invars, g.outvars, g.eqns[1:]),
    )
    return pipeline.plan_graph(ga.make_jaxpr(lambda x: gnp.cos(gnp.sin(x)))(1.0)) is not None


def dumped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compile_anew()
    return any(tmp_path.glob("dumped/*.graph.txt"))


#: The first words of JAX's newer stream for key 0.
BITS = [4070199207, 4202968722, 1427181096]


#: For each setting a value and what happens under it, and not otherwise; or a test elsewhere.
def choose_an_odd_platform():
    with within("platforms", ""):  # which comes first, and which the environment may have set
        return raises(RuntimeError, ga.devices, "odd")


EFFECTS = {
    "enable_x64": (True, lambda: gnp.ones(1).dtype == np.float64),
    "default_dtype_bits": ("32", lambda: with_x64(lambda: gnp.zeros(1, float).dtype) == "float32"),
    "explicit_x64_dtypes": ("allow", lambda: gnp.ones(1, "float64").dtype == np.float64),
    "numpy_dtype_promotion": (
        "strict",
        lambda: raises(Exception, lambda: gnp.add(half(), gnp.ones(3)), "strict"),
    ),
    "numpy_rank_promotion": (
        "raise",
        lambda: raises(ValueError, lambda: gnp.ones((2, 3)) + gnp.ones(3), "rank"),
    ),
    "default_matmul_precision": (
        "highest",
        lambda: "HIGHEST" in text(gnp.dot, gnp.ones(2), gnp.ones(2)),
    ),
    "allow_f16_reductions": (
        False,
        lambda: raises(ValueError, lambda: lax.reduce_sum(half(), (0,)), "f16"),
    ),
    "auto_pcast": (False, lambda: raises(ValueError, mix_what_varies, "manual axes to match")),
    "remove_size_one_mesh_axis_from_type": (True, lambda: "[8@x]" in laid_over_a_mesh()),
    "softmax_custom_jvp": (True, lambda: "custom_jvp" in text(nn.softmax, gnp.ones(3))),
    "threefry_partitionable": (
        True,
        lambda: random.bits(random.key(0), (3,)).tolist() == BITS,
    ),
    "default_prng_impl": ("rbg", lambda: len(key_words()) == 4),
    "enable_custom_prng": (True, lambda: str(random.PRNGKey(0).dtype) == "key<fry>"),
    "legacy_prng_key": (
        "error",
        lambda: raises(ValueError, lambda: random.normal(random.PRNGKey(0)), "Legacy uint32"),
    ),
    "random_seed_offset": (5, lambda: key_words() == [0, 8]),
    "debug_nans": (True, lambda: raises(FloatingPointError, lambda: gnp.log(-1.0))),
    "debug_infs": (True, lambda: raises(FloatingPointError, lambda: gnp.log(0.0))),
    "debug_key_reuse": (True, use_a_key_twice),
    "check_tracer_leaks": (True, leak),
    "enable_checks": (True, record_what_is_ill_typed),
    "disable_jit": (True, lambda: ga.jit(float)(gnp.ones(())) == 1.0),
    "no_tracing": (True, lambda: raises(RuntimeError, compile_anew, "no_tracing")),
    "no_execution": (True, execute),
    "check_static_indices": "test_jax_settings.py::test_static_indices_are_checked",
    "high_dynamic_range_gumbel": "test_jax_settings.py::test_gumbel_mode",
    "disallow_mesh_context_manager": "test_jax_settings.py::test_mesh_as_context_manager",
    "pallas_enable_debug_checks": "test_jax_settings.py::test_debug_checks_of_pallas",
    "logging_level": "test_jax_settings.py::test_messages_are_printed",
    "debug_log_modules": "test_jax_settings.py::test_messages_are_printed",
    "log_checkpoint_residuals": "test_jax_settings.py::test_residuals_of_checkpoints_are_logged",
    "cuda_visible_devices": "test_jax_settings.py::test_gpus_are_chosen",
    "log_compiles": (True, logged("Finished tracing <lambda> for jit")),
    "explain_cache_misses": (True, logged("never seen function")),
    "array_garbage_collection_guard": "test_config.py::test_arrays_in_cycles_are_reported",
    "platforms": ("odd", lambda: raises(RuntimeError, ga.devices, "odd")),
    "platform_name": ("odd", choose_an_odd_platform),
    "num_cpu_devices": "test_simulated_devices.py::test_eight_cpu_devices_hold_arrays",
    "array_tracebacks": (True, lambda: gnp.ones(3).traceback is not None),
    "collective_timeout": (
        "mpi/test_processes.py::test_a_process_that_waits_too_long_says_where_and_ends_the_job"
    ),
    "num_gpu_devices": "test_exchanges.py::test_logical_gpus_share_one",
    "default_device": (ga.Device("cpu", 5), lambda: gnp.zeros(2).device.id == 5),
    "transfer_guard": ("disallow_explicit", copy_on_purpose),
    "transfer_guard_host_to_device": ("disallow", copy_without_being_asked),
    "transfer_guard_device_to_host": "test_driver.py::test_copies_to_the_host_are_guarded",
    "transfer_guard_device_to_device": ("disallow", copy_between_devices),
    "enable_compilation_cache": "test_cubins.py::test_without_a_cache_the_folder_is_not_made",
    "compilation_cache_dir": ("folder", lambda: stored_in() == "folder"),
    "cache_dir": ("folder", lambda: stored_in() == "folder"),
    "dynamic_shapes": "test_config.py::test_bad_values",
    "fusion": (
        False,
        lambda: len(ga.explain(lambda x: gnp.sin(x) + 1)(gnp.ones(3)).steps) == 2,
    ),
    "oob": ("raise", lambda: raises(IndexError, lambda: gnp.ones(3)[5])),
    "permissive": (True, lambda: gnp.sum([1, 2]) == 3),
    "strict": (False, fall_back),
    "debug": (2, printed),
    "check_plans": (False, pass_unnoticed),  # tests switch it on
    "dump": ("dumped", dumped),
    "traceback_filtering": "test_tracebacks.py::test_settings_of_tracebacks",
    "compile_cache_entries": "test_memory_kept.py::test_shapes_without_end",
    "compile_cache_bytes": "test_memory_kept.py::test_bytes_are_bounded_too",
    "no_custom": "test_custom_kernels.py::test_switched_off",
    "scatter_atomics": "test_device_steps.py::test_sums_of_floats_take_atomics_only",
    "cuda_graphs": "test_driver.py::test_random_schedules",
    "num_threads": (3, lambda: tiles.thread_count() == 3),
    "native": "backends/native/test_native_program.py::test_the_setting_chooses",
    "native_after": "backends/native/test_native_program.py::test_a_program_is_compiled_when",
    "lazy_threshold": (1, lambda: (gnp.ones(3) + 1)._work is not None),
}


def with_x64(f):
    with ga.enable_x64(True):
        return f()


def holds(effect, request) -> bool:
    names = effect.__code__.co_varnames[: effect.__code__.co_argcount]
    try:
        return bool(effect(*map(request.getfixturevalue, names)))
    except (Exception, pytest.fail.Exception):
        return False


def test_every_setting_has_a_row():
    idle = {name for name, row in SETTINGS.items() if row.idle}
    assert set(EFFECTS) == set(SETTINGS) - idle
    tests = [row for row in EFFECTS.values() if isinstance(row, str)]
    for file, _, name in (row.partition("::") for row in tests):
        (path,) = [p for p in UNIT.parent.rglob(pathlib.Path(file).name) if p.match(file)]
        assert f"def {name}" in path.read_text(encoding="utf-8")


@pytest.mark.on_cpu("some effects are on its programs")
@pytest.mark.parametrize("name", [n for n, row in EFFECTS.items() if not isinstance(row, str)])
def test_a_setting_has_its_effect(name, request):
    value, effect = EFFECTS[name]
    assert not holds(effect, request)
    with within(name, value):
        found = holds(effect, request)
    assert found


@pytest.mark.parametrize("name", [name for name, row in SETTINGS.items() if row.idle])
def test_an_idle_setting_says_so(name):
    row = SETTINGS[name]
    value = not row.default if row.kind is bool else row.kind[-1]
    with pytest.warns(UserWarning, match="no effect in gpuarray: .*"):
        config_module.Context(name)(value)


def test_generators_that_can_be_chosen_are_there():
    for name in SETTINGS["default_prng_impl"].kind:
        with within("default_prng_impl", name):
            assert random.key_impl(random.key(0)) == name


@pytest.mark.parametrize(
    "seed, offset, words",
    [
        (3, 5, [0, 8]),
        (-7, 5, [0, 4294967294]),
        (2**31 - 1, 5, [0, 2147483652]),
        (np.uint32(2**32 - 1), 5, [0, 4]),
        (np.int8(127), 5, [0, 4294967172]),
        (-7, -1, [0, 4294967288]),
    ],
)
def test_seeds_with_an_offset(seed, offset, words):
    with within("random_seed_offset", offset):
        assert random.key_data(random.key(seed)).tolist() == words
        assert random.key_data(ga.jit(random.key)(seed)).tolist() == words


def test_an_offset_that_is_too_large():
    with within("random_seed_offset", 2**40), pytest.raises(OverflowError):
        random.key(0)


def test_raw_keys_may_warn():
    raw = random.PRNGKey(0)
    with ga.legacy_prng_key("warn"):
        for use in (random.normal, random.split, random.bits):
            with pytest.warns(UserWarning, match="Legacy uint32"):
                use(raw)
        random.normal(random.key(0))
        random.wrap_key_data(raw)


@pytest.mark.parametrize("level", ["log", "log_explicit"])
def test_guards_may_log(level, caplog):
    with ga.transfer_guard(level):
        gnp.sin(np.ones(3))
        implicit = len(caplog.records)
        ga.device_put(np.ones(3))
    assert implicit == 1 and len(caplog.records) == 1 + (level == "log_explicit")


@pytest.mark.on_cpu("it is about that mark")
def test_tests_about_the_cpu_find_no_other_device():
    assert {d.platform for d in ga.devices()} == {"cpu"} == {gnp.ones(2).device.platform}
