"""`install_as_jax`: in a process of its own, as it changes what `import jax` means."""

import pytest

from tests.support.forks import forks


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with forks(tmp_path_factory.mktemp("programs")) as run:
        yield run


def test_modules_are_the_very_same(run):
    out = run(
        """
        gpuarray.install_as_jax()
        gpuarray.install_as_jax()
        import importlib, importlib.metadata, jax, jax.numpy as jnp, jax.tree_util, pickle
        from jax import core, lax, random
        from jax.nn.initializers import lecun_normal
        import gpuarray.numpy, gpuarray.nn
        assert jnp is gpuarray.numpy and jax.nn is gpuarray.nn and lax is gpuarray.lax
        assert jnp.__name__ == "gpuarray.numpy" == jnp.__spec__.name
        assert isinstance(jnp.ones(2), jax.Array) and not isinstance(jnp.ones(2), core.Tracer)
        assert importlib.reload(jax.dtypes) is gpuarray.dtypes
        # Libraries such as cloudpickle write functions with the modules that these use.
        from jax._src import core as private
        assert pickle.loads(pickle.dumps((jax, private))) == (jax, private)
        version = importlib.metadata.version
        print(jax.__version__, version("jax"), version("jaxlib"))
        """
    )
    version = out.split()[0]
    assert out == f"{version} {version} {version}" and version.count(".") == 2


def test_a_program_written_for_jax_runs(run):
    out = run(
        """
        gpuarray.install_as_jax()
        import jax
        import jax.numpy as jnp
        from jax import grad, jit, vmap

        @jit
        def loss(w, x):
            return jnp.mean(jnp.tanh(x @ w) ** 2)

        print(vmap(grad(loss), (None, 0))(jnp.ones(3), jnp.eye(3)[None]).shape)
        """
    )
    assert out == "(1, 3)"


@pytest.mark.parametrize(
    "statement, error",
    [
        ("import jax.no_such_module", "ModuleNotFoundError"),
        ("import jax.compiler", "ModuleNotFoundError"),
        ("import jax; jax.no_such_name", "AttributeError"),
        ("from jax.numpy import no_such_name", "ImportError"),
    ],
)
def test_what_is_missing_says_so(run, statement, error):
    run(
        f"""
        gpuarray.install_as_jax()
        try:
            {statement}
        except {error} as e:
            assert "no_such" in str(e) or "compiler" in str(e)
        else:
            raise SystemExit("no error")
        """
    )


def test_what_libraries_take_from_private_modules(run):
    run(
        """
        gpuarray.install_as_jax()
        import sys, jax._src.dispatch
        from jax._src import traceback_util
        from jax._src.ad_util import stop_gradient_p
        from jax._src.dtypes import TypePromotionError
        from jax._src.flatten_util import ravel_pytree
        from jax.extend.core.primitives import add_p
        import jax.extend.core
        assert issubclass(TypePromotionError, ValueError)
        assert ravel_pytree is gpuarray.flatten_util.ravel_pytree
        assert add_p is jax.extend.core.primitives.add_p and stop_gradient_p.name == "stop_gradient"
        jax._src.dispatch.wait_for_tokens()
        here = sys._getframe()
        assert traceback_util.include_frame(here)
        traceback_util.register_exclusion(here.f_code.co_filename)
        assert not traceback_util.include_frame(here)
        assert traceback_util.api_boundary(lambda: 1)() == 1
        try:
            from jax._src import tpu_custom_call
        except ImportError:
            pass
        else:
            raise SystemExit("no error")
        """
    )


def test_modules_below_src_are_jaxs_by_name(run):
    out = run(
        """
        gpuarray.install_as_jax()
        import jax, jax._src.state.types, jax._src.distributed, numpy
        from jax._src import core, dtypes, checkify, compiler, tree_util, api_util, xla_bridge
        from jax._src.interpreters import partial_eval
        assert dtypes.__name__ == "jax._src.dtypes" == dtypes.__spec__.name
        assert dtypes.issubdtype is jax.dtypes.issubdtype
        assert issubclass(type(jax.random.key(0).dtype), dtypes.ExtendedDType)
        assert isinstance(numpy.dtype("float32"), dtypes.DType)
        assert core.trace_state_clean() and core.ShapedArray is jax.core.ShapedArray
        assert jax.jit(lambda x: x + core.trace_state_clean())(1) == 1
        assert dict in tree_util._registry and int not in tree_util._registry
        assert api_util.infer_argnums_and_argnames is gpuarray.api_util.infer_argnums_and_argnames
        assert jax._src.distributed.global_state.process_id == 0
        assert jax._src.distributed.global_state.client is None
        assert xla_bridge._backends["cpu"] is jax.devices("cpu")[0].client
        assert isinstance(jax.typeof(jax.new_ref(1.0)), jax._src.state.types.AbstractRef)
        assert jax.core.max_dim(2, 3) == 3 and not jax.core.is_concrete.__doc__ is None
        assert partial_eval.PartialVal is jax.interpreters.partial_eval.PartialVal
        assert jax.version.__version_info__ == jax.__version_info__ and jax.lib.__version__
        try:
            dtypes.no_such_name
        except AttributeError as e:
            print(e)
        """
    )
    assert "no_such_name" in out and "private to JAX" in out


def test_modules_of_jaxlib_and_of_other_devices(run):
    out = run(
        """
        gpuarray.install_as_jax()
        import jax, jax.numpy as jnp, jaxlib, jaxlib.version
        from jaxlib import xla_client
        from jaxlib._jax import PjitFunction
        from jax._src.lax.control_flow import scan
        from jax._src.numpy.util import promote_dtypes_complex, promote_dtypes_inexact
        from jax._src.pjit import jit_p
        from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel
        assert jaxlib.__version__ == jaxlib.version.__version__ == jax.__version__
        assert isinstance(jnp.ones(2), xla_client.ArrayImpl)
        assert isinstance(jax.devices()[0], xla_client.Device)
        assert isinstance(jax.jit(jnp.sin), PjitFunction) and scan is jax.lax.scan
        assert issubclass(xla_client.XlaRuntimeError, RuntimeError) and jit_p.name == "jit"
        a, b = promote_dtypes_complex(1, jnp.ones(2))
        assert isinstance(a, jax.Array) and a.dtype == b.dtype == "complex64" and a.shape == ()
        assert promote_dtypes_inexact(1j)[0].dtype == "complex64"
        for module in (splash_attention_kernel, xla_client):
            try:
                module.make_splash_mha
            except AttributeError as e:
                print(e)
        """
    )
    assert "kernels in other languages" in out and "private to JAX" in out


def test_nodes_of_the_registry_of_trees(run):
    run(
        """
        gpuarray.install_as_jax()
        from collections import namedtuple
        from jax._src.tree_util import _registry
        Pair = namedtuple("Pair", "a b")
        for x in ((1, [2]), [1, 2], {"b": 1, "a": 2}, Pair(1, 2)):
            children, about = _registry[type(x)].to_iter(x)
            again = _registry[type(x)].from_iter(about, list(children))
            assert again == x and type(again) is type(x)
        try:
            _registry[int]
        except KeyError:
            pass
        else:
            raise SystemExit("no error")
        """
    )


def test_numpys_functions_give_numpys_arrays(run):
    # As under JAX: libraries write into them. Operators give arrays of ours.
    run(
        """
        gpuarray.install_as_jax()
        import jax, jax.numpy as jnp, numpy as np
        x, n = jnp.arange(3.0), np.arange(3.0)
        for made in (
            *(np.zeros_like(x), np.sqrt(x), np.add(n, x), np.concatenate([x, n])),
            *(np.where(x > 1, x, n), np.add(n, x, out=n.copy()), np.linalg.norm(x)),
        ):
            assert isinstance(made, np.ndarray | np.generic), made
        found = np.ones_like(x)
        found[0] = 5
        np.testing.assert_equal(found, [5, 1, 1])
        kept = n
        n += x
        for made in (kept * x, x - kept, np.float32(2) * x, kept @ x, kept < x, n):
            assert isinstance(made, jax.Array), made
        assert kept is not n and (kept == np.arange(3.0)).all()
        # What is traced has no values to give to NumPy.
        assert jax.jit(lambda x: np.sin(x) + kept * x)(x).shape == (3,)
        """
    )


def test_modules_of_classes(run):
    # By these, opt_einsum and autoray choose the functions for an array.
    out = run(
        """
        gpuarray.install_as_jax()
        import copy, jax, jax.numpy as jnp, opt_einsum, pickle
        x = jnp.ones((2, 2))
        names = [type(x).__module__, jax.Array.__module__]
        jax.jit(lambda x: names.append(type(x).__module__))(x)
        jax.grad(lambda x: names.append(type(x).__module__) or x.sum())(x)
        jax.vmap(lambda x: names.append(type(x).__module__))(x)
        print(*names)
        assert isinstance(opt_einsum.contract("ij,jk,kl->il", x, x, x), jax.Array)
        assert (pickle.loads(pickle.dumps(x)) == copy.deepcopy(x)).all()
        """
    )
    assert [name.partition(".")[0] for name in out.split()] == ["jaxlib", *["jax"] * 4]


def test_xla_flags_count_until_devices_are_used(run):
    # Programs, and chex.set_n_cpu_devices, set them after importing.
    run(
        """
        gpuarray.install_as_jax()
        import os
        import jax, jax._src.xla_bridge, jax.numpy
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=3"
        assert not jax._src.xla_bridge._backends
        assert len(jax.devices()) == 3 and list(jax._src.xla_bridge._backends) == ["cpu"]
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
        assert len(jax.devices()) == 3
        """
    )


def test_what_is_known_inside_derivatives(run):
    run(
        """
        gpuarray.install_as_jax()
        import jax, jax.numpy as jnp
        from jax.core import concrete_or_error, is_concrete
        found = []
        def f(x):
            found.append(is_concrete(x) and float(concrete_or_error(None, x)))
            return 2.0 * x
        jax.grad(f)(1.0), jax.hessian(f)(1.0), jax.jit(f)(1.0), jax.vmap(f)(jnp.ones(2))
        assert found == [1.0, 1.0, False, False], found
        """
    )


#: What JAX 0.10.2 writes for pickle.dumps({"w": jnp.ones(3), "h": jnp.ones(2, jnp.bfloat16)}).
PICKLED = (
    "gASVNwEAAAAAAAB9lCiMAXeUjA5qYXguX3NyYy5hcnJheZSMEl9yZWNvbnN0cnVjdF9hcnJheZSTlCiMFm51bXB5"
    "Ll9jb3JlLm11bHRpYXJyYXmUjAxfcmVjb25zdHJ1Y3SUk5SMBW51bXB5lIwHbmRhcnJheZSTlEsAhZRDAWKUh5Qo"
    "SwFLA4WUaAiMBWR0eXBllJOUjAJmNJSJiIeUUpQoSwOMATyUTk5OSv////9K/////0sAdJRiiUMMAACAPwAAgD8A"
    "AIA/lHSUfZSMCXdlYWtfdHlwZZSJc3SUUpSMAWiUaAQoaAdoCksAhZRoDIeUKEsBSwKFlGgQjAltbF9kdHlwZXOU"
    "jAhiZmxvYXQxNpSTlImIh5RSlChLA2gUTk5OSwJLAktAdJRiiUMEgD+AP5R0lH2UaBmJc3SUUpR1Lg=="
)


def test_arrays_that_jax_pickled(run):
    out = run(
        f"""
        gpuarray.install_as_jax()
        import base64, pickle, jax
        found = pickle.loads(base64.b64decode({PICKLED!r}))
        assert all(isinstance(x, jax.Array) for x in found.values())
        print(found["w"].tolist(), found["w"].dtype, found["h"].tolist(), found["h"].dtype)
        """
    )
    assert out.strip() == "[1.0, 1.0, 1.0] float32 [1.0, 1.0] bfloat16"


def test_a_function_that_a_library_replaces_is_the_one_that_runs(run):
    run(
        """
        gpuarray.install_as_jax()
        import jax, jax.numpy as jnp
        from jax._src import compiler
        inner = compiler.backend_compile_and_load
        def refused(backend, *args, **kwargs):
            raise RuntimeError(f"no programs for {backend.platform}")
        compiler.backend_compile_and_load = refused
        try:
            jax.jit(lambda x: jnp.sin(x) + 1)(jnp.ones(3)).block_until_ready()
        except RuntimeError as e:
            assert "no programs for cpu" in str(e)
        else:
            raise SystemExit("no error")
        compiler.backend_compile_and_load = inner
        jax.jit(lambda x: jnp.sin(x) + 1)(jnp.ones(3)).block_until_ready()
        """
    )


@pytest.mark.parametrize("chosen", [True, False, None])
def test_the_stream_of_random_numbers(run, chosen):
    run(
        f"""
        gpuarray.install_as_jax(threefry_partitionable={chosen})
        import jax
        assert jax.config.jax_threefry_partitionable is {bool(chosen)}
        # The values are JAX's, with the setting on and off.
        drawn = jax.random.bits(jax.random.key(0), (2,)).tolist()
        assert drawn == {[4070199207, 4202968722] if chosen else [928981903, 3453687069]}, drawn
        """
    )


def test_too_late_is_an_error(run):
    run(
        """
        import sys, types
        sys.modules["jax"] = types.ModuleType("jax")
        try:
            gpuarray.install_as_jax()
        except RuntimeError as e:
            assert "already imported" in str(e)
        else:
            raise SystemExit("no error")
        """
    )


def test_nothing_before_the_call(run):
    run(
        """
        import importlib.util, sys
        assert "jax" not in sys.modules
        assert not any(type(f).__module__.startswith("gpuarray") for f in sys.meta_path)
        """
    )


def test_jitted_functions_are_told_by_the_name_of_their_class(run):
    out = run(
        """
        gpuarray.install_as_jax()
        import jax
        import pickle
        kind = type(jax.jit(lambda x: x))
        assert pickle.loads(pickle.dumps(kind)) is kind
        print(kind)
        """
    )
    assert "PjitFunction'>" in out
