"""No option is taken and ignored: every parameter of every public function has an effect or is
refused. What only promises or hints is listed here, with the reason.
"""

import ast
import contextlib
import io
import pathlib
import re
import warnings

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.extend.core
import gpuarray.numpy as gnp
from gpuarray import lax, random, scipy
from gpuarray.experimental import roofline, sparse
from gpuarray.extend import linear_util
from gpuarray.interpreters import batching, mlir
from tests.support.keywords import INTERNAL, examples, given, names_in

ROOT = pathlib.Path(ga.__file__).parent

#: Parameters by whose meaning no result can change, or that only repeat what is known anyway.
HINTS = {
    "arrays are immutable: nothing is overwritten, and a copy is as good as its original": """
        scipy.linalg.*: overwrite_a overwrite_b overwrite_c
        numpy.nan_to_num: copy""",
    "JAX's default is True, and checks nothing: values are not known while tracing": """
        scipy.linalg.*: check_finite
        scipy.cluster.vq.vq: check_finite""",
    "which routine of LAPACK runs, and with how much memory": """
        scipy.linalg.*: lwork turbo debug lapack_driver""",
    "a promise about the values, which saves work where it is used": """
        numpy.isin numpy.intersect1d numpy.setxor1d: assume_unique
        lax.linalg.qdwh lax.polar.qdwh: is_hermitian""",
    "results are sorted, and so satisfy either": "numpy.unique: sorted",
    "NumPy has it for estimators of bins that take weights, and there are none": """
        numpy.histogram_bin_edges: weights""",
    "how often a loop is unrolled": "numpy.polyval: unroll",
    "arrays of numbers are never pickled": "numpy.save numpy.savez: allow_pickle",
    "the vectors come from a method without a random start": "scipy.linalg.eigh_tridiagonal: key",
    "how devices are wired as a grid; of others every layout has what these ask for": """
        experimental.topologies.make_mesh: contiguous_submeshes
        experimental.mesh_utils.create_device_mesh: contiguous_submeshes allow_split_physical_axes
        experimental.mesh_utils.create_hybrid_device_mesh: allow_split_physical_axes""",
    "colours, which only terminals show": "debug.visualize_sharding: color_map",
    "which of XLA's or JAX's ways to do something is meant, and there is one": """
        experimental.sparse.sparsify: use_tracer
        experimental.compute_on.compute_on2: compiler_options
        experimental.pallas.pallas_call: metadata cost_estimate
        experimental.buffer_callback.buffer_callback: command_buffer_compatible
        experimental.rnn.rnn_abstract_eval experimental.rnn.rnn_bwd_abstract_eval: cudnn_allow_tf32
        interpreters.partial_eval.trace_to_jaxpr_dynamic: lower
        extend.core.get_opaque_trace_state extend.tracing.get_opaque_trace_state: convention
        extend.core.new_jaxpr_eqn: ctx""",
    "a program has the effects of its equations": """
        extend.core.Jaxpr extend.core.Jaxpr.__init__: effects""",
    "an operation has one place: there are no more frames of it": """
        extend.source_info_util.summarize: num_frames""",
    "how much is read at a time: arrays are read one after another": """
        experimental.array_serialization.serialization.run_deserialization: concurrent_gb""",
    "elements of sparse operands are always multiplied in full": """
        experimental.sparse.bcoo_conv_general_dilated: precision""",
    "what windows beyond the array would have, and none may be": """
        experimental.sparse.bcoo_gather: fill_value""",
    "C functions run on the host": "ffi.register_ffi_type: platform",
    "words of a message": """
        util.index util.indices util.elements util.pair util.number util.function: wanted
        util.lazy_module: hint
        experimental.multihost_utils.assert_equal: fail_message""",
    "what JAX does with programs that are no MLIR here": """
        lax.dce_sink: prevent_mlir_dce
        export.export: disabled_checks
        export.register_pytree_node_serialization: from_children""",
}


class Touched(Exception):
    """Somebody looked at a `Poison`."""


def _touched(*args, **kwargs):
    raise Touched


#: A value that cannot be used without notice.
Poison = type(
    "Poison",
    (),
    {
        f"__{name}__": _touched
        for name in (
            "bool eq ne lt gt le ge hash index int float complex iter len getitem call str repr "
            "format array add radd mul rmul sub rsub truediv neg contains enter fspath"
        ).split()
    },
)


def _hints():
    for text in HINTS.values():
        for line in text.strip().splitlines():
            functions, _, keywords = line.partition(":")
            for function in functions.split():
                yield re.compile(re.escape(function).replace(r"\*", r"\w+")), keywords.split()


def _is_hint(function: str, keyword: str) -> bool:
    return any(f.fullmatch(function) and keyword in keywords for f, keywords in _hints())


def _differ(f, *options):
    """Each of the options makes `f` return something else than it does without."""
    plain = _value(f())
    for option in options:
        assert _value(f(**option)) != plain, option


def _value(x):
    return str(ga.tree.map(np.asarray, x)) if not isinstance(x, str) else x


def _refused(f, error=Exception):
    with pytest.raises(error):
        f()


# ---- options that act under conditions which the function's example does not meet ----

_INDEX = gnp.array([1, 5])


def _gather(**options):
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    start = _INDEX[:, None]
    return lax.gather(gnp.arange(3.0), start, numbers, (1,), mode="fill", **options)


def _choice(**options):
    return random.choice(random.key(0), gnp.arange(24.0).reshape(4, 6), (4,), **options)


def _breakpoint_token():
    assert ga.debug.breakpoint(token=5, stdin=io.StringIO("c"), stdout=io.StringIO()) == 5


def _from_dlpack():
    x = gnp.ones(3)
    assert gnp.from_dlpack(x).unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert gnp.from_dlpack(x, copy=True).unsafe_buffer_pointer() != x.unsafe_buffer_pointer()


def _exchanged():
    x = gnp.ones(3)
    pointer = lambda **o: ga.dlpack.from_dlpack(x, **o).unsafe_buffer_pointer()
    assert pointer() == x.unsafe_buffer_pointer() != pointer(copy=True)


def _device_put():
    x = gnp.ones(3)
    assert ga.device_put(x).unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert ga.device_put(x, may_alias=False).unsafe_buffer_pointer() != x.unsafe_buffer_pointer()


def _reshape():
    x = gnp.ones(3)
    assert x.reshape(3) is x
    assert gnp.reshape(x, 3, copy=True) is not x


def _delete():
    traced = lambda **o: ga.jit(lambda i: gnp.delete(gnp.arange(3), i, **o))(gnp.array([1]))
    _refused(traced, TypeError)
    assert traced(assume_unique_indices=True).tolist() == [0, 2]


def _lowering():
    prim = ga.extend.core.Primitive("options_lowering")
    rule = mlir.lower_fun(lambda x: [x], multiple_results=True)
    _refused(lambda: mlir.register_lowering(prim, rule), ValueError)


def _allow_int(of):
    # A whole number has no derivative, unless that is wanted.
    _refused(lambda: of(lambda x: 2.0 * x)(3), TypeError)
    of(lambda x: 2.0 * x, allow_int=True)(3)


def _negative(f, x):
    f(x, -1)  # the last one
    _refused(lambda: f(x, -1, allow_negative_indices=False), ValueError)


def _explained(**options):
    f = ga.explain(lambda x: 2 * x, platform="cuda", **options)
    return str(f(gnp.ones(1 << 20)).kernels[0].roofline_seconds)


def _cuda_op():
    spec = ga.ShapeDtypeStruct((3,), "float32")
    source = 'extern "C" __global__ void f(const float* x, float* y) { y[threadIdx.x] = x[0]; }'
    for option in ({"vjp": 3}, {"vmap": 3}):
        _refused(lambda option=option: ga.cuda_op(source, out=spec, **option))


def _correlated(**options):
    return scipy.signal.correlate2d(gnp.eye(3), gnp.ones((2, 2)), **options)


def _detrended(**options):
    return scipy.signal.detrend(gnp.array([1.0, 2.0, 6.0, 3.0, 1.0]), **options)


def _transposed(**options):
    x, kernel = gnp.ones((1, 5, 1)), gnp.ones((3, 1, 1))
    return lax.conv_transpose(x, kernel, (2,), [(0, 1)], **options)


def _extended():
    dtype = random.key(0).dtype
    assert ga.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True) is dtype
    _refused(lambda: ga.dtypes.canonicalize_dtype(dtype), ValueError)


def _global_scale():
    of = ga.nn.get_scaled_dot_general_config
    _differ(lambda **o: str(of("nvfp4", **o).global_scale), {"global_scale": gnp.full(1, 2.0)})
    _refused(lambda: of("mxfp8", gnp.ones(1)), ValueError)


def _prefix(**options):
    """What is said of axes that are no prefix of a structure, here of (args, kwargs)."""
    whole = ga.tree.structure(((1,), {}))
    with pytest.raises(ValueError) as error:
        ga.api_util.flatten_axes("in_axes", whole, ([1, 2], {}), **options)
    return str(error.value)


def _refused_precision(product, lhs):
    # Of dense arrays it is lax.dot_general.
    numbers = ([1], [0]), ([], [])
    _refused(lambda: product(lhs, gnp.ones(2), dimension_numbers=numbers, precision="odd"))


def _other_effects():
    new, prim = ga.extend.core.new_jaxpr_eqn, ga.extend.core.primitives.sin_p
    _refused(lambda: new([], [], prim, {"accuracy": None}, effects={"print"}), ValueError)


def _untraced(**options):
    with pytest.raises(ga.errors.ConcretizationTypeError) as error:
        ga.jit(lambda x: ga.extend.core.concrete_or_error(int, x, **options))(1)
    return str(error.value)


def _wrapped(**options):
    return str(linear_util.wrap_init(gnp.sin, **options).debug_info)


def _debug_info(**options):
    return str(ga.api_util.debug_info("jit", gnp.sin, (1.0,), {}, **options))


_INFO = linear_util.DebugInfo("jit", "f at file.py:3", ("x",))
_MATRIX = gnp.arange(24.0).reshape(4, 6)


def _roofline():
    """The three are given together."""
    mesh, spec = ga.sharding.Mesh(np.array(ga.devices()[:1]), ("x",)), ga.P("x")
    struct = ga.ShapeDtypeStruct((4,), "float32")
    shapes, _ = roofline.roofline(gnp.sin, mesh, spec, spec)(struct)
    assert shapes.sharding.spec == spec and roofline.roofline(gnp.sin)(struct)[0].sharding is None


ROWS = {
    "grad allow_int": lambda: _allow_int(ga.grad),
    "value_and_grad allow_int": lambda: _allow_int(ga.value_and_grad),
    "jacrev allow_int": lambda: _allow_int(ga.jacrev),
    "jacobian allow_int": lambda: _allow_int(ga.jacobian),
    "explain arch": lambda: _differ(_explained, {"arch": "sm_80"}),
    "device_put may_alias": _device_put,
    "debug.breakpoint token": _breakpoint_token,
    "dtypes.canonicalize_dtype allow_extended_dtype": _extended,
    "nn.get_scaled_dot_general_config global_scale": _global_scale,
    "lax.conv_transpose use_consistent_padding": lambda: _differ(
        _transposed, {"use_consistent_padding": True}
    ),
    "lax.gather fill_value": lambda: _differ(_gather, {"fill_value": 7.0}),
    "lax.composite version": lambda: _differ(
        lambda **o: str(lax.composite(gnp.sin, "s", **o).version), {"version": 2}
    ),
    "lax.platform_dependent default": lambda: _differ(
        lambda default=lambda: gnp.ones(2): lax.platform_dependent(tpu=gnp.eye, default=default),
        {"default": lambda: gnp.zeros(2)},
    ),
    "lax.dynamic_slice_in_dim allow_negative_indices": lambda: _negative(
        lambda x, i, **o: lax.dynamic_slice_in_dim(x, i, 1, **o), gnp.arange(3)
    ),
    "lax.dynamic_update_slice_in_dim allow_negative_indices": lambda: _negative(
        lambda x, i, **o: lax.dynamic_update_slice_in_dim(x, gnp.array([9]), i, 0, **o),
        gnp.arange(3),
    ),
    "lax.dynamic_update_index_in_dim allow_negative_indices": lambda: _negative(
        lambda x, i, **o: lax.dynamic_update_index_in_dim(x, 9, i, 0, **o), gnp.arange(3)
    ),
    "numpy.from_dlpack copy": _from_dlpack,
    "numpy.delete assume_unique_indices": _delete,
    "interpreters.mlir.lower_fun multiple_results": _lowering,
    "numpy.reshape copy": _reshape,
    "numpy.frompyfunc identity": lambda: _differ(
        lambda **o: str(gnp.frompyfunc(lambda a, b: a + b, 2, 1, **o).identity), {"identity": 0}
    ),
    "random.choice axis": lambda: _differ(_choice, {"axis": 1}),
    "random.choice mode": lambda: _refused(
        lambda: _choice(p=np.ones(4) / 4, replace=False, mode="odd")
    ),
    "random.permutation independent": lambda: _differ(
        lambda **o: random.permutation(random.key(0), _MATRIX, **o), {"independent": True}
    ),
    "scipy.linalg.eigh_tridiagonal select_range": lambda: _refused(
        lambda: scipy.linalg.eigh_tridiagonal(gnp.ones(3), gnp.ones(2), select_range=(0, 1))
    ),
    "scipy.signal.correlate2d boundary": lambda: _differ(_correlated, {"boundary": "wrap"}),
    "scipy.signal.correlate2d fillvalue": lambda: _differ(_correlated, {"fillvalue": 2.0}),
    "scipy.signal.detrend bp": lambda: _differ(_detrended, {"bp": 3}),
    "dlpack.from_dlpack copy": _exchanged,
    "api_util.debug_info result_paths_thunk": lambda: _differ(
        _debug_info, {"result_paths_thunk": ("out",)}
    ),
    "api_util.flatten_axes tupled_args": lambda: _differ(_prefix, {"tupled_args": True}),
    "api_util.flatten_axes kws": lambda: _differ(
        lambda **o: _prefix(tupled_args=True, **o), {"kws": True}
    ),
    "experimental.sparse.bcoo_dot_general precision": lambda: _refused_precision(
        sparse.bcoo_dot_general, gnp.eye(2)
    ),
    "experimental.sparse.bcsr_dot_general precision": lambda: _refused_precision(
        sparse.bcsr_dot_general, gnp.eye(2)
    ),
    "extend.core.concrete_or_error context": lambda: _differ(_untraced, {"context": "steps"}),
    "extend.core.new_jaxpr_eqn effects": _other_effects,
    "extend.linear_util.wrap_init debug_info": lambda: _differ(_wrapped, {"debug_info": _INFO}),
    "interpreters.batching.bdim_at_front mesh_axis": lambda: _refused(
        lambda: batching.bdim_at_front(gnp.ones(2), None, 3, mesh_axis="x"), ValueError
    ),
    **{f"experimental.roofline.roofline {k}": _roofline for k in ("mesh", "in_specs", "out_specs")},
    "cuda_op grid": _cuda_op,
    "cuda_op vjp": _cuda_op,
    "cuda_op vmap": _cuda_op,
}


@pytest.mark.parametrize("name", ROWS)
def test_an_option_that_acts_under_conditions(name):
    ROWS[name]()


# ---- the walk ----


def _runs(code, places) -> bool:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code, names_in(places))
    except Exception:
        return False
    return True


@pytest.mark.on_cpu("keywords for the NumPy rules count")
def test_every_keyword_is_looked_at(tmp_path, monkeypatch):
    """A keyword that the function's own example can be given anything for is ignored."""
    monkeypatch.chdir(tmp_path)  # some examples write files
    ignored, unseen, count = set(), [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function, places, label, code, keywords in examples():
            # It takes JAX's place in this process: tests/unit/compat tries it in others.
            if label == "install_as_jax":
                continue
            if code is None:
                unseen.append(f"{label}: has no example")
                continue
            # It starts MPI: tests/unit/runtime/test_processes.py tries its arguments.
            if label == "distributed.initialize":
                continue
            for keyword in keywords:
                count += 1
                with given(function, places, keyword, Poison()) as calls:
                    if not _runs(code, places):
                        continue
                if calls:
                    ignored.add((label, keyword))
                else:
                    unseen.append(f"{label}: its example does not call it")
    assert not unseen
    assert count > 1400
    assert {f"{f} {k}" for f, k in ignored if not _is_hint(f, k)} <= set(ROWS)


def _functions(tree, owner=""):
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield owner + node.name, node
            yield from _functions(node, f"{owner}{node.name}.")
        else:
            inner = f"{owner}{node.name}." if isinstance(node, ast.ClassDef) else owner
            yield from _functions(node, inner)


def _unused(node):
    given = node.args
    names = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    used = {n.id for s in node.body for n in ast.walk(s) if isinstance(n, ast.Name)
            and isinstance(n.ctx, ast.Load)}  # fmt: skip
    for name in (a.arg for a in names if a is not None):
        if name not in used and not name.startswith("_") and name not in ("self", "cls"):
            yield name


def _refuses_all(node) -> bool:
    """Whether a function does nothing but raise."""
    plain = [s for s in node.body if not isinstance(s, ast.Expr)]
    never = isinstance(node.returns, ast.Name) and node.returns.id == "NoReturn"
    return never or all(isinstance(s, ast.Raise) for s in plain)


#: Files of inner floors with functions and methods that users call.
METHODS = {"core/value.py", "runtime/array.py", "runtime/transfer.py"}
#: Functions whose parameters are those of a protocol: others call them so.
PROTOCOLS = {
    "api/callbacks.py _Check.format_field",
    "config.py _Override.__exit__",
    "core/value.py _ArrayUfunc.__get__",
    "api/custom_vmap.py sequential_vmap.rule",
    "experimental/jet.py zero_prop",
    "experimental/rnn.py rnn_abstract_eval",
    "experimental/rnn.py rnn_bwd_abstract_eval",
    "example_libraries/stax.py BatchNorm.apply_fun",
    "example_libraries/stax.py Dense.apply_fun",
    "example_libraries/stax.py Dropout.apply_fun",
    "example_libraries/stax.py FanInConcat.init_fun",
    "example_libraries/stax.py _convolution.apply_fun",
    "example_libraries/stax.py _pool.apply_fun",
    "example_libraries/stax.py _pool.init_fun",
    "experimental/checkify/errors.py CheckCallback.__call__",
    "experimental/sparse/base.py JAXSparse.__init__",
    "functions/inspect.py named_scope.__exit__",
    "functions/jitted.py Jitted.__get__",
    "lax/programs.py _sink",
    "names.py _Finder.find_spec",
    "nn/initializers.py constant.init",
    "numpy/dispatch.py array_function",
    "numpy/ufuncs.py _Logical._elements",
    "random/arguments.py array",
    "runtime/array.py ArrayImpl.__buffer__",
    "runtime/array.py ArrayImpl.__deepcopy__",
    "scipy/stats/kde.py gaussian_kde.tree_unflatten",
}


def test_every_parameter_is_used():
    """In the code of public namespaces, helpers and methods as well: what is passed on arrives."""
    found = set()
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT)
        public = file.parts[0] not in INTERNAL or file.parts[0] in ("functions", "api")
        if not public and file.as_posix() not in METHODS:
            continue
        module = ".".join(file.with_suffix("").parts)
        for name, node in _functions(ast.parse(path.read_text(encoding="utf-8"))):
            for parameter in () if _refuses_all(node) else _unused(node):
                place = f"{file.as_posix()} {name}"
                chapter = module.rpartition(".")[0]
                hint = any(_is_hint(f"{m}.{name}", parameter) for m in (module, chapter))
                if place not in PROTOCOLS and not hint:
                    found.add(f"{place}: {parameter}")
    assert not found


# ---- one device: what shardings mean today ----


def _here():
    return ga.sharding.SingleDeviceSharding(ga.devices()[0])


def _named(devices, *spec, explicit=False):
    kind = ga.sharding.AxisType.Explicit if explicit else ga.sharding.AxisType.Auto
    mesh = ga.sharding.Mesh(np.array(devices), ("x",), (kind,))
    return ga.sharding.NamedSharding(mesh, ga.P(*spec))


#: Calls that take a sharding, each for a vector; the result, or results, lie there.
PLACED = {
    "jit in_shardings": lambda x, s: ga.jit(gnp.sin, in_shardings=s)(x),
    "jit in_shardings, as a tuple": lambda x, s: ga.jit(gnp.sin, in_shardings=(s,))(x),
    "jit out_shardings": lambda x, s: ga.jit(lambda x: [x, x], out_shardings=[s, None])(x)[0],
    "a jitted function in another": lambda x, s: ga.jit(ga.jit(gnp.sin, out_shardings=s))(x),
    "compiled before": lambda x, s: ga.jit(gnp.sin, out_shardings=s).lower(x).compile()(x),
    "constraint": lambda x, s: lax.with_sharding_constraint(x, s),
    "constraint in jit": lambda x, s: ga.jit(lambda x: lax.with_sharding_constraint(x, s) + 1)(x),
    "constraint in grad": lambda x, s: ga.grad(lambda x: lax.with_sharding_constraint(x, s).sum())(
        x
    ),
    "constraint in scan": lambda x, s: ga.jit(
        lambda x: lax.scan(lambda c, _: (lax.with_sharding_constraint(c, s), None), x, None, 2)[0]
    )(x),
    "device_put in jit": lambda x, s: ga.jit(lambda x: ga.device_put(x, s))(x),
    "device_put in vmap": lambda x, s: ga.vmap(lambda x: ga.device_put(x, s))(x),
    "einsum": lambda x, s: gnp.einsum("i,j->ij", x, x, out_sharding=s),
    "dot": lambda x, s: gnp.dot(x[None], x, out_sharding=s),
    "dot in jit": lambda x, s: ga.jit(lambda x: gnp.dot(x[None], x, out_sharding=s))(x),
    "matmul": lambda x, s: gnp.matmul(x[None], x, out_sharding=s),
    "tensordot": lambda x, s: gnp.tensordot(x[None], x, 1, out_sharding=s),
    "a sparse product": lambda x, s: sparse.bcoo_dot_general(
        sparse.eye(x.size), x, dimension_numbers=(([1], [0]), ([], [])), out_sharding=s
    ),
    "lax.dot_general": lambda x, s: lax.dot(x[None], x, out_sharding=s),
    "reshape": lambda x, s: x.reshape(3, 1, out_sharding=s),
    "ravel": lambda x, s: gnp.ravel(x[None], out_sharding=s),
    "repeat": lambda x, s: gnp.repeat(x, 2, out_sharding=s),
    "broadcast_to": lambda x, s: gnp.broadcast_to(x, (2, 3), out_sharding=s),
    "bincount": lambda x, s: gnp.bincount(x.astype(int), out_sharding=s),
    "at.get": lambda x, s: x.at[:2].get(out_sharding=s),
    "at.set": lambda x, s: x.at[:2].set(0.0, out_sharding=s),
    "zeros": lambda x, s: gnp.zeros(3, out_sharding=s),
    "lax.full": lambda x, s: lax.full((3,), 1.0, sharding=s),
    "lax.reduce_sum": lambda x, s: lax.reduce_sum(x[None], (0,), out_sharding=s),
    "random": lambda x, s: random.normal(random.key(0), (3,), out_sharding=s),
    "initializer": lambda x, s: ga.nn.initializers.ones(None, (3,), "float32", out_sharding=s),
    "segment_sum": lambda x, s: ga.ops.segment_sum(x, gnp.arange(3), 3, out_sharding=s),
    "pure_callback": lambda x, s: ga.pure_callback(np.sin, x, x, sharding=s),
}


@pytest.mark.parametrize("name", PLACED)
def test_a_sharding_on_one_device(name):
    x = gnp.arange(3.0)
    out = PLACED[name](x, _here())
    assert out.device is ga.devices()[0] and out.committed
    assert PLACED[name](x, _named(ga.devices()[:1])).device is ga.devices()[0]


#: Those of them whose result's first axis is as long as the vector.
_STARTS = ("jit", "a jitted", "compiled", "constraint", "device_put in jit", "einsum", "ravel")
CUT = [name for name in PLACED if name.startswith(_STARTS)]
#: Types say how the results of `out_sharding=` lie.
TYPED = ("einsum", "ravel", "repeat", "at.set")
CUT = [*CUT, "repeat", "at.set"]


@pytest.mark.devices
@pytest.mark.parametrize("name", [n for n in PLACED if n != "pure_callback"])
def test_a_value_that_all_devices_have(name):
    x = gnp.arange(3.0)
    sharding = _named(ga.devices())
    out = PLACED[name](x, sharding)
    assert out.sharding.is_equivalent_to(sharding, out.ndim)
    np.testing.assert_allclose(out, PLACED[name](x, _here()), rtol=1e-6)


@pytest.mark.devices
@pytest.mark.parametrize("name", CUT)
def test_a_sharding_over_several_devices(name):
    x = gnp.arange(8.0)
    sharding = _named(ga.devices(), "x", explicit=name in TYPED)
    out = PLACED[name](x, sharding)
    assert out.sharding.is_equivalent_to(sharding, out.ndim)
    np.testing.assert_allclose(out, PLACED[name](x, _here()), rtol=1e-6)


@pytest.mark.devices
@pytest.mark.parametrize("name", [n for n in CUT if n != "repeat"])
def test_a_mesh_that_does_not_divide_the_vector(name):
    sharding = _named(ga.devices(), "x", explicit=name in TYPED)
    inside = (" in jit", " in grad", " in scan")
    if name.endswith(inside):
        # A constraint inside a program leaves such an axis whole.
        assert PLACED[name](gnp.arange(3.0), sharding).is_fully_replicated
        return
    with pytest.raises(ValueError, match="evenly divide"):
        PLACED[name](gnp.arange(3.0), sharding)


@pytest.mark.devices
def test_a_callback_runs_on_one_device():
    with pytest.raises(NotImplementedError, match="over 8 devices"):
        PLACED["pure_callback"](gnp.arange(8.0), _named(ga.devices(), "x"))


@pytest.mark.devices
@pytest.mark.parametrize("name", PLACED)
def test_a_sharding_on_another_device(name):
    there = ga.sharding.SingleDeviceSharding(ga.devices()[3])
    assert PLACED[name](gnp.arange(3.0), there).device is ga.devices()[3]


@pytest.mark.devices
@pytest.mark.parametrize("name", ["in_shardings", "out_shardings", "constraint", "nested", "both"])
def test_devices_that_contradict(name):
    here, there = (ga.sharding.SingleDeviceSharding(d) for d in ga.devices()[:2])
    put = ga.device_put(gnp.arange(3.0), here)
    calls = {
        "out_shardings": lambda: ga.jit(gnp.sin, out_shardings=there)(put),
        "constraint": lambda: ga.jit(lambda x: lax.with_sharding_constraint(x, there))(put),
        "nested": lambda: ga.jit(ga.jit(gnp.sin, in_shardings=there))(put),
        "both": lambda: ga.jit(gnp.sin, in_shardings=here, out_shardings=there)(put),
    }
    if name == "in_shardings":  # arguments go where they are said to be
        assert ga.jit(gnp.sin, in_shardings=there)(put).device is ga.devices()[1]
        moved = ga.jit(lambda x, y: x + y, in_shardings=(there, None))
        assert moved(put, gnp.ones(3)).device is ga.devices()[1]
        calls[name] = lambda: moved(put, put)
    with pytest.raises(ValueError, match="incompatible devices"):
        calls[name]()


@pytest.mark.devices
def test_a_compiled_function_runs_where_its_arguments_are():
    x = ga.device_put(gnp.arange(3.0), ga.devices()[2])
    assert ga.jit(gnp.sin).lower(x).compile()(x).device is ga.devices()[2]


def test_results_have_the_sharding_that_was_asked_for():
    named = _named(ga.devices()[:1], "x")
    assert ga.jit(gnp.sin, out_shardings=named)(gnp.ones(2)).sharding == named
    # A product's layout is part of its type: such axes are Explicit.
    with pytest.raises(ValueError, match="'x', which is Auto"):
        gnp.dot(gnp.ones((2, 2)), gnp.ones(2), out_sharding=named)
    typed = ga.sharding.NamedSharding(ga.make_mesh((1,), ("x",)), ga.P("x"))
    assert gnp.dot(gnp.ones((2, 2)), gnp.ones(2), out_sharding=typed).sharding == typed


def _jit(**options):
    return lambda: ga.jit(lambda *xs, **kw: (*xs, *kw.values()), **options)(gnp.ones(2))


def _sparse_product(**options):
    numbers = ([1], [0]), ([], [])
    return sparse.bcoo_dot_general(
        sparse.eye(2), sparse.eye(2), dimension_numbers=numbers, **options
    )


def _spread(name, what):
    """A vmap spread along an axis, of what has a mesh of one device with the axis x."""
    named = _named(ga.devices()[:1], "x")
    f = {
        "constraint": lambda x: lax.with_sharding_constraint(x, named),
        "shard_map": ga.shard_map(
            gnp.sin, mesh=named.mesh, in_specs=ga.P("x"), out_specs=ga.P("x")
        ),
    }[what]
    return lambda: ga.vmap(f, spmd_axis_name=name)(gnp.ones((2, 2)))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (_jit(in_shardings=3), TypeError, "in_shardings leaf specifications"),
        (_jit(out_shardings="cpu"), TypeError, "out_shardings leaf specifications"),
        (_jit(in_shardings=ga.P("x")), RuntimeError, "non-empty mesh in context"),
        (_jit(in_shardings=_named(ga.devices()[:1], None, "x")), ValueError, "rank at least 2"),
        (_jit(in_shardings=(_here(), _here())), ValueError, "in_shardings"),
        (_jit(out_shardings=[_here()]), ValueError, "out_shardings"),
        (_jit(compiler_options={"nonsense": 1}), ValueError, "No such compile option"),
        (_jit(device="cpu", backend="cpu"), ValueError, "both a device and a backend"),
        (
            lambda: ga.jit(lambda x: x, in_shardings=_here())(x=gnp.ones(2)),
            ValueError,
            "kwargs when in_shardings",
        ),
        (lambda: _sparse_product(out_sharding=_here()), NotImplementedError, "sparse result"),
        (lambda: gnp.dot(1, 1, out_sharding=ga.P()), ValueError, "not under a mesh context"),
        (lambda: gnp.zeros(2, device="cpu", out_sharding=_here()), ValueError, "not both"),
        (lambda: ga.vmap(gnp.sin, spmd_axis_name=("x", "x")), ValueError, "spmd_axis_name.*twice"),
        (_spread("y", "constraint"), ValueError, "'y' is not an axis of the mesh"),
        (_spread("y", "shard_map"), ValueError, "'y' is not an axis of the mesh"),
        (_spread("x", "constraint"), ValueError, "spmd_axis_name cannot appear"),
        (_spread("x", "shard_map"), ValueError, "spmd_axis_name cannot appear"),
        (lambda: ga.vmap(gnp.sin, in_axes=True), TypeError, "got True"),
        (lambda: ga.vmap(gnp.sin, in_axes=(True,)), TypeError, "got .True"),
        (lambda: ga.vmap(gnp.sin, in_axes=({"a": False},)), TypeError, "in_axes must be an int"),
        (lambda: ga.vmap(gnp.sin, out_axes=True), TypeError, "out_axes must be an int"),
        (
            lambda: ga.linear_transpose(gnp.sin, 1.0, reduce_axes="i"),
            NotImplementedError,
            "psum",
        ),
        (lambda: ga.make_jaxpr(gnp.sin, abstracted_axes={0: "n"}), NotImplementedError, "static"),
        (lambda: ga.new_ref(1.0, memory_space="host"), NotImplementedError, "memory_space"),
        (lambda: ga.jit(gnp.sin).lower(1.0).as_text("hlo"), ValueError, "dialects"),
        (
            lambda: gnp.linalg.pinv(gnp.eye(2), rtol=0.1, rcond=0.1),
            ValueError,
            "only one of rtol and rcond",
        ),
        (lambda: gnp.ones(2).to_device("cpu", stream=1), NotImplementedError, "stream=1"),
        (lambda: scipy.linalg.polar(gnp.eye(2), method="svd", eps=0.1), ValueError, "no steps"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.on_cpu("a message names it")
def test_device_put_checks_where_arrays_come_from():
    x = ga.device_put(np.ones(2), ga.devices()[0])
    assert ga.device_put(x, src=ga.devices()[0]) is x
    with pytest.raises(ValueError, match="on cpu:0"):
        ga.device_put(x, src=ga.Device("cpu", 9))
    # An array that nobody has put anywhere may be said to come from any device.
    ga.device_put(gnp.ones(2), src=ga.Device("cpu", 9))


# ---- masked arrays, donation ----

_MASKED = np.ma.array([1.0, 2.0], mask=[False, True])
MASKED = {
    "asarray": lambda: gnp.asarray(_MASKED),
    "array in a list": lambda: gnp.array([_MASKED, _MASKED]),
    "ufunc": lambda: gnp.sin(_MASKED),
    "operator": lambda: gnp.ones(2) + _MASKED,
    "reduction": lambda: gnp.sum(_MASKED),
    "lax": lambda: lax.sin(_MASKED),
    "jit": lambda: ga.jit(gnp.sin)(_MASKED),
    "vmap": lambda: ga.vmap(gnp.sin)(_MASKED),
    "grad": lambda: ga.grad(gnp.sum)(_MASKED),
    "jvp": lambda: ga.jvp(gnp.sin, (_MASKED,), (_MASKED,)),
    "device_put": lambda: ga.device_put(_MASKED),
    "pure_callback": lambda: ga.pure_callback(np.sin, gnp.ones(2), _MASKED),
    "inside jit": lambda: ga.jit(lambda x: x + _MASKED)(gnp.ones(2)),
    "result of jit": lambda: ga.jit(lambda x: _MASKED)(1.0),
    "scan": lambda: lax.scan(lambda c, x: (c, x), 0, _MASKED),
}


@pytest.mark.parametrize("name", MASKED)
def test_masked_arrays_are_refused(name):
    with pytest.raises(ValueError, match=r"masked arrays are not supported.*filled\(\)"):
        MASKED[name]()


@pytest.mark.parametrize("size", [3, 100_000])
def test_an_array_is_donated_once(size):
    x = gnp.arange(float(size))
    add = lambda a, b: (a["x"] + b, b - 1.0)
    with pytest.raises(ValueError, match="argument 0 is donated.*is argument 1 .donated, too"):
        ga.jit(add, donate_argnums=(0, 1))({"x": x}, x)
    with pytest.raises(ga.errors.JaxRuntimeError, match="argument 1 is donated.*is argument 0:"):
        ga.jit(add, donate_argnums=1)({"x": x}, x)
    assert not x.is_deleted()
    assert ga.jit(add, donate_argnums=1)({"x": x}, x.copy())[0][1] == 2.0


# ---- named scopes ----


def _model(x):
    with ga.named_scope("model"):
        y = gnp.sin(x)
        with ga.named_scope("layer"):
            return _twice(y) + 1


@ga.jit
def _twice(x):
    with ga.named_scope("inner"):
        return x * 2


def test_equations_have_the_names_of_their_scopes():
    graph = ga.make_jaxpr(_model)(gnp.ones(3))
    found = {e.primitive.name: e.source_info.name_stack for e in graph.eqns}
    assert found == {"sin": "model", "jit": "model/layer", "add": "model/layer"}
    # A function is traced once, for calls from everywhere.
    (inner,) = [e.params["jaxpr"] for e in graph.eqns if e.primitive.name == "jit"]
    assert [e.source_info.name_stack for e in inner.eqns] == ["inner"]
    derived = ga.make_jaxpr(ga.grad(lambda x: _model(x).sum()))(gnp.ones(3))
    assert {"cos": "jvp(model)"}.items() <= {
        e.primitive.name: e.source_info.name_stack for e in derived.eqns
    }.items()


def test_transformations_stand_around_the_names_of_scopes():
    @ga.named_scope("outer")
    def f(x):
        with ga.named_scope("a"):
            return gnp.sin(x) * 2

    def names(f, *args):
        return [str(e.source_info.name_stack) for e in ga.make_jaxpr(f)(*args).eqns]

    x = gnp.ones(3)
    assert names(f, x) == ["outer/a"] * 2
    assert names(ga.vmap(f), x) == ["vmap(outer)/a"] * 2
    forward, back = "jvp(outer)/a", "transpose(jvp(outer))/a"
    assert names(lambda x: ga.vjp(f, x)[1](x), x) == [forward] * 3 + [back] * 2
    inside = names(ga.vmap(lambda x: ga.vjp(f, x)[1](x)), x)
    assert inside == ["vmap(jvp(outer))/a"] * 3 + ["vmap(transpose(jvp(outer)))/a"] * 2
    around = names(lambda x: ga.vjp(ga.vmap(f), x)[1](x), x)
    assert around == ["jvp(vmap(outer))/a"] * 3 + ["transpose(jvp(vmap(outer)))/a"] * 2

    # What was entered outside stays as it is.
    def g(x):
        with ga.named_scope("out"):
            return ga.vmap(f)(x)

    assert names(g, x) == ["out/vmap(outer)/a"] * 2
    # A jitted function has names of its own.
    (call,) = ga.make_jaxpr(ga.vmap(ga.jit(f)))(x).eqns
    assert [e.source_info.name_stack for e in call.params["jaxpr"].eqns] == ["outer/a"] * 2
    text = ga.make_jaxpr(f)(x).pretty_print(name_stack=True)
    assert text.endswith("# [outer/a]") and "#" not in ga.make_jaxpr(f)(x).pretty_print()


def test_explain_and_source_show_scopes():
    e = ga.explain(_model)(gnp.ones(3))
    assert e.kernels[0].scopes == ("model", "model/layer/inner", "model/layer")
    assert [o.origin.partition(" ")[2] for o in e.kernels[0].operations] == [
        "in model",
        "in model/layer/inner",
        "in model/layer",
    ]
    assert "in model, model/layer/inner" in str(e)
    source = ga.jit(_model).lower(gnp.ones(3)).cuda_source()
    assert re.search(r"ga_sin.*// test_options.py:\d+ in model\n", source)


def test_errors_show_scopes():
    def f(x):
        with ga.named_scope("model"):
            return gnp.log(x)

    with ga.debug_nans(), pytest.raises(FloatingPointError, match="in model"):
        f(gnp.array([-1.0]))


def test_a_scope_ends():
    @ga.named_scope("outer")
    def f(x):
        with contextlib.suppress(KeyError), ga.named_scope("inner"):
            raise KeyError
        return gnp.sin(x)

    name = lambda: ga.make_jaxpr(f)(1.0).eqns[0].source_info.name_stack
    assert name() == name() == "outer"
    assert ga.make_jaxpr(gnp.sin)(1.0).eqns[0].source_info.name_stack == ""
    with pytest.raises(TypeError, match="must be a string"):
        ga.named_scope(3)
