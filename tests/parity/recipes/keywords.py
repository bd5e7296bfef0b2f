"""Keyword arguments that no other table uses: what each does, and what it refuses."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import calls, expressions

WHERE = [
    "f32(3), f32(3, s=1), where=b1(3)", "f32(3), f32(3, s=1), out=None, where=None",
]

NUMPY = [
    ("add subtract multiply maximum minimum logaddexp logaddexp2 bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor", WHERE),
    ("negative", ["f32(3), where=b1(3)", "f32(3), out=None", "f32(3), where=None"]),
    ("allclose", ["f32([1.0]), f32([1.1]), rtol=0.2", "f32([1.0]), f32([1.1]), atol=0.2", "f32([0.0]), f32([1e-9]), atol=0", "i32([1]), i32([2]), 0.5", "f32([1.0]), f32([1.1]), rtol='a'"]),
    ("argsort", ["f32([2, 1, 2]), stable=False", "f32([2, 1]), kind='quicksort'", "f32([2, 1]), order='a'", "f32([2, 1]), dtype='int8'", "i32([2, 2, 1]), stable=True, descending=True"]),
    ("sort", ["f32([2, 1]), order='a'", "f32([2, 1]), kind='mergesort'"]),
    ("convolve correlate", ["f32(5), f32(3), precision='highest'", "f32(5), f32(3), precision='odd'"]),
    ("corrcoef", ["f32(2, 3), dtype='bfloat16'", "i32(2, 3), dtype='float32'", "f32(2, 3), dtype='int32'"]),
    ("cumulative_prod cumulative_sum", ["i32(3), dtype='float32'", "f32(3), dtype='int8'", "f32(2, 3), axis=-1, dtype='bfloat16', include_initial=True"]),
    ("einsum", ["'ij,jk', f32(2, 3), f32(3, 2), precision='highest'", "'ij,jk', f32(2, 3), f32(3, 2), precision='odd'", "'ij->i', f32(2, 3), precision='high'", "'ij,jk', f32(2, 3), f32(3, 2), preferred_element_type='bfloat16'"]),
    # Not of NumPy's with copy=False: JAX takes such memory only where it happens to be aligned.
    ("from_dlpack", ["np.ones(2, np.float32), copy=True", "f32(2), copy=False"]),
    ("geomspace", ["1, 100, 3, dtype='int32'", "f32([1, 2]), f32([4, 8]), 3, axis=-1", "1.0, 8.0, 4, dtype='bfloat16'", "f32([1, 2]), 4, 3, axis=2"]),
    ("logspace", ["f32([1, 2]), f32([3, 4]), 3, axis=1", "0, 1, 3, axis=-1", "0, 1, 3, True, f32([2, 3])"]),
    ("histogramdd", ["f32(5, 2), bins=2, range=[(-1, 1), (0, 2)]", "f32(5, 2), bins=2, weights=f32(5, kind='pos')", "f32(5, 2), 2, None, f32(4)", "f32(5, 2), bins=2, range=[(-1, 1)]"]),
    ("inner vdot vecdot", ["bf16(3), bf16(3), preferred_element_type='float32'", "f32(3), f32(3), precision='highest'", "f32(3), f32(3), precision='odd'"]),
    ("tensordot", ["bf16(2, 3), bf16(3, 2), 1, preferred_element_type='float32'", "f32(2, 3), f32(3, 2), 1, precision='highest'", "f32(2, 3), f32(3, 2), 1, precision='odd'"]),
    ("isin", ["i32(3), i32([1, 2]), assume_unique=True", "i32([3, 1]), i32([1]), assume_unique=True, invert=True", "i32(3), i32(2), method='odd'", "i32(3), i32(2), method='sort'"]),
    ("median nanmedian", ["f32(3), overwrite_input=True", "f32(2, 3), 0, None, False, True"]),
    ("percentile nanpercentile", ["f32(3), 50, overwrite_input=True", "f32(3), 50, method='odd'"]),
    ("quantile nanquantile", ["f32(3), 0.5, overwrite_input=True", "f32(4), 0.3, method='inverted_cdf', weights=f32(4, kind='pos')", "f32(4), 0.3, weights=f32(4, kind='pos')", "f32(4), 0.3, method='inverted_cdf', weights=f32(3, kind='pos')"]),
    ("meshgrid", ["f32(2), f32(3), copy=True", "f32(2), f32(3), copy=False"]),
    ("nanmean", ["f32([1, np.nan]), dtype='bfloat16'", "f32([1, np.nan]), dtype='int32'", "i32(3), dtype='float16'"]),
    ("nanstd nanvar", ["f32([1, np.nan, 4]), ddof=1", "f32([1, np.nan, 4]), dtype='bfloat16'", "f32([1, np.nan, 4]), ddof=2, keepdims=True", "f32([1, np.nan, 4]), mean=2.5", "f32([1, np.nan]), where=b1(2)"]),
    ("polyfit", ["f32([0, 1, 2]), f32([1, 3, 5]), 1, rcond=0.5, w=f32([1, 2, 1])"]),
    ("ravel_multi_index", ["(i32([1, 0]), i32([2, 1])), (2, 3), order='F'", "(i32([1, 9]), i32([2, 1])), (2, 3), mode='clip'", "(i32([1, 9]), i32([2, 1])), (2, 3), mode='odd'"]),
    ("take", ["f32(3), i32([0, 2]), unique_indices=True", "f32(3), i32([0, 2]), indices_are_sorted=True", "f32(3), i32([0, 9]), mode='fill', fill_value=2.5, unique_indices=True"]),
    ("take_along_axis", ["f32(2, 3), i32([[-1], [0]]), 1, wrap_negative_indices=False", "f32(2, 3), i32([[-1], [0]]), 1, mode='clip', wrap_negative_indices=False", "f32(2, 3), i32([[9], [0]]), 1, fill_value=7", "f32(2, 3), i32([[9], [0]]), 1, mode='odd'"]),
    ("trim_zeros", ["f32([[0, 0], [1, 0]]), axis=0", "f32([[0, 0], [1, 0]]), axis=-1", "f32([[0, 0], [1, 0]]), 'f', axis=(0, 1)", "f32([0, 1]), 'odd'"]),
    ("linalg.multi_dot", ["[f32(2, 3), f32(3, 2)], precision='highest'", "[f32(2, 3), f32(3, 2)], precision='odd'"]),
    ("linalg.svd", ["f32(2, 3), compute_uv=False, subset_by_index=(0, 1)", "f32(2, 3), True, False, True"]),
]

ACCURATE = "cbrt cos exp2 expm1 log log1p rsqrt sin sqrt tan tanh"
LAX = [
    (ACCURATE, ["f32(3, kind='pos'), accuracy=lax.AccuracyMode.DEFAULT", "f32(3, kind='pos'), accuracy='odd'"]),
    ("logistic", ["f32(3, kind='pos'), accuracy=lax.AccuracyMode.DEFAULT", "f32(3), accuracy=lax.Tolerance(1e-3)"]),
    ("approx_max_k approx_min_k", ["f32(8), 2, recall_target=0.5", "f32(8), 2, recall_target=2.0", "f32(8), 2, aggregate_to_topk=False", "f32(8), 2, reduction_input_size_override=16"]),
    ("conv_general_dilated_local", ["f32(1, 2, 5), f32(7, 6, 7), (1,), 'VALID', (3,), lhs_dilation=(2,)"]),
    ("conv_general_dilated_patches", ["bf16(1, 2, 6), (3,), (1,), 'VALID', preferred_element_type='float32'"]),
    ("conv_transpose", ["bf16(1, 5, 2), bf16(3, 2, 4), (2,), 'SAME', preferred_element_type='float32'", "f32(1, 5, 2), f32(3, 2, 4), (2,), 'SAME', precision='highest'", "f32(1, 5, 2), f32(3, 2, 4), (2,), 'SAME', precision='odd'"]),
    ("conv_with_general_padding", ["f32(1, 2, 6), f32(3, 2, 3), (1,), 'SAME', None, None, precision='highest'"]),
    ("dce_sink", ["f32(3), prevent_mlir_dce=True"]),
    ("dot", ["f32(2, 3), f32(2, 4), dimension_numbers=(((0,), (0,)), ((), ()))", "f32(2, 3), f32(3), dimension_numbers=(((0,), (0,)), ((), ()))"]),
    ("dynamic_index_in_dim", ["f32(5), -1, allow_negative_indices=False", "f32(2, 3), -1, 1, keepdims=False, allow_negative_indices=True"]),
    ("dynamic_slice_in_dim", ["f32(5), -2, 2, allow_negative_indices=False", "f32(2, 5), -2, 2, axis=-1"]),
    ("dynamic_update_index_in_dim", ["f32(5), 7.0, -1, 0, allow_negative_indices=False", "f32(2, 3), f32(2), -1, 1"]),
    ("dynamic_update_slice", ["f32(5), f32(2), (-1,), allow_negative_indices=False", "f32(2, 3), f32(1, 1), (-1, -1), allow_negative_indices=(False, True)"]),
    ("full", ["(2,), 1.0, sharding=jax.sharding.SingleDeviceSharding(jax.devices()[0])", "(2,), 1.0, 'int8', sharding=5"]),
    ("full_like", ["f32(2), 1.0, sharding=jax.sharding.SingleDeviceSharding(jax.devices()[0])", "f32(2), 3, 'int8', (3,)"]),
    ("ragged_dot_general", [
        "bf16(5, 3), bf16(2, 3, 4), i32([2, 3]), lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0]), preferred_element_type='float32'",
        "f32(5, 3), f32(2, 3, 4), i32([2, 3]), lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0]), precision='highest'",
        "f32(5, 3), f32(2, 3, 4), i32([2, 3]), lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0]), group_offset=i32([0])",
    ]),
    ("switch", ["1, [lambda x: x, lambda x: x * 2], operand=f32(2)"]),
    ("linalg.eigh", ["spd('f32', 2), implementation=lax.linalg.EighImplementation.QR", "spd('f32', 2), implementation='odd'", "spd('f32', 2), lower=False, symmetrize_input=False, sort_eigenvalues=True"]),
    ("linalg.qr", ["mat('f32', 2), use_magma=False", "mat('f32', 2), use_magma=True"]),
    ("linalg.tridiagonal_solve", ["f32([0, 1]), f32([4, 5]), f32([1, 0]), f32(2, 1), perturb_singular=True"]),
]
SCHUR = "lax.linalg.schur(mat('f32', 3), sort_eig_vals=True, select_callable=lambda *v: v[0] > 0)"

SCIPY = [
    ("special.factorial", ["i32([0, 3, 5]), exact=True", "f32([3.5]), exact=False", "5, exact=True"]),
    ("special.log_ndtr", ["f32([-30, 0, 30.0]), series_order=1", "f32([0.0]), series_order=0", "f32([0.0]), series_order=99", "f32([0.0]), series_order=2.5"]),
    ("linalg.cho_factor", ["spd('f32', 3), overwrite_a=True, check_finite=False", "spd('f32', 3), lower=True"]),
    ("linalg.cho_solve", ["(jnp.linalg.cholesky(spd('f32', 3)), True), f32(3), overwrite_b=True, check_finite=False"]),
    ("linalg.cholesky", ["spd('f32', 3), overwrite_a=True, check_finite=False", "f32([[np.nan, 0], [0, 1]]), check_finite=True"]),
    ("linalg.det linalg.inv linalg.lu_factor", ["mat('f32', 3), overwrite_a=True, check_finite=False"]),
    ("linalg.lu", ["mat('f32', 3), overwrite_a=True, check_finite=False", "mat('f32', 3), permute_l=True"]),
    ("linalg.lu_solve", ["jax.scipy.linalg.lu_factor(mat('f32', 3)), f32(3), overwrite_b=True, check_finite=False", "jax.scipy.linalg.lu_factor(mat('f32', 3)), f32(3), trans=1", "jax.scipy.linalg.lu_factor(mat('f32', 3)), f32(3), trans=3"]),
    ("linalg.eigh", ["spd('f32', 3), eigvals_only=True, overwrite_a=True, turbo=False, check_finite=False", "spd('f32', 3), b=spd('f32', 3), eigvals_only=True", "spd('f32', 3), eigvals_only=True, type=2", "spd('f32', 3), eigvals_only=True, eigvals=(0, 1)"]),
    ("linalg.eigh_tridiagonal", ["f32([1, 2, 3]), f32([0.5, 0.5]), eigvals_only=True, tol=1e-6", "f32([1, 2, 3]), f32([0.5, 0.5]), eigvals_only=True, select='i', select_range=(0, 1)", "f32([1, 2, 3]), f32([0.5, 0.5]), eigvals_only=True, select='v', select_range=(0.0, 2.0)"]),
    ("linalg.expm", ["f32(2, 2), max_squarings=4"]),
    ("linalg.hessenberg", ["mat('f32', 3), overwrite_a=True, check_finite=False", "mat('f32', 3), calc_q=True"]),
    ("linalg.polar", ["mat('f32', 3), eps=1e-3", "mat('f32', 3), max_iterations=20", "mat('f32', 3), side='left'", "mat('f32', 3), method='svd'", "mat('f32', 3), method='odd'"]),
    ("linalg.qr", ["mat('f32', 3), overwrite_a=True, check_finite=False", "mat('f32', 3), mode='r', lwork=5", "mat('f32', 3), mode='raw'"]),
    ("linalg.qr_multiply", ["mat('f32', 3), f32(3), overwrite_a=True, overwrite_c=True", "mat('f32', 3), f32(3), pivoting=True"]),
    ("linalg.rsf2csf", ["mat('f32', 2), jnp.eye(2), check_finite=False"]),
    ("linalg.solve", ["mat('f32', 3), f32(3), overwrite_a=True, overwrite_b=True, check_finite=False", "mat('f32', 3), f32(3), debug=True", "spd('f32', 3), f32(3), lower=True, assume_a='pos'", "spd('f32', 3), f32(3), assume_a='odd'"]),
    ("linalg.solve_triangular", ["mat('f32', 3), f32(3), overwrite_b=True, check_finite=False", "mat('f32', 3), f32(3), debug=True", "mat('f32', 3), f32(3), trans=2, unit_diagonal=True", "mat('f32', 3), f32(3), trans='odd'"]),
    ("linalg.solve_sylvester", ["mat('f32', 2), mat('f32', 2), f32(2, 2), tol=1e-6", "mat('f32', 2), mat('f32', 2), f32(2, 2), method='odd'"]),
    ("linalg.svd", ["mat('f32', 3, 2), full_matrices=False, compute_uv=False, overwrite_a=True, check_finite=False", "mat('f32', 3), compute_uv=False, lapack_driver='gesvd'", "mat('f32', 3), compute_uv=False, lapack_driver='odd'"]),
    ("signal.convolve signal.correlate", ["f32(5), f32(3), precision='highest'", "f32(5), f32(3), method='direct'", "f32(5), f32(3), method='odd'"]),
    ("signal.convolve2d signal.correlate2d", ["f32(3, 4), f32(2, 2), boundary='fill', fillvalue=0", "f32(3, 4), f32(2, 2), boundary='wrap'", "f32(3, 4), f32(2, 2), fillvalue=1", "f32(3, 4), f32(2, 2), precision='highest'"]),
    ("signal.csd", ["f32(16, 2), f32(16, 2, s=1), fs=2.0, nperseg=8, noverlap=2, detrend='linear', return_onesided=False, axis=0"]),
    ("signal.detrend", ["f32(6), overwrite_data=True", "f32(6), type='constant'", "f32(6), bp=[3]", "f32(6), type='odd'"]),
    ("signal.istft", ["c64(5, 4), fs=2.0", "c64(5, 4), window='boxcar'", "c64(5, 4), nperseg=8, noverlap=4, boundary=False"]),
    ("signal.welch", ["f32(16), nperseg=8, noverlap=2, nfft=16, return_onesided=False"]),
    ("cluster.vq.vq", ["f32(4, 2), f32(2, 2, s=1), check_finite=False"]),
    ("sparse.linalg.cg sparse.linalg.bicgstab sparse.linalg.gmres", ["lambda v: 2.0 * v, f32(3), atol=1e-3, maxiter=1"]),
]
TREE = [
    ("tree_reduce_associative", ["max, [(1, 2), (3,)], is_leaf=lambda t: isinstance(t, tuple)"]),
]
LEAF = "is_leaf=lambda t: isinstance(t, tuple)"
SHORT = [
    ("flatten leaves structure", [f"((1, 2), [3]), {LEAF}", f"[(1, 2), None], {LEAF}"]),
    ("flatten_with_path leaves_with_path", [f"[(1, 2), [3]], {LEAF}", "((1, 2), 3), is_leaf=lambda p, t: len(p) == 1, is_leaf_takes_path=True"]),
    ("reduce_associative", [f"max, [(1, 2), (3,)], {LEAF}"]),
]
INITIALIZERS = [
    ("glorot_uniform he_normal kaiming_normal kaiming_uniform lecun_normal lecun_uniform xavier_normal xavier_uniform orthogonal truncated_normal uniform", ["dtype='bfloat16')(key(1), (3, 4)"]),
    ("delta_orthogonal", ["dtype='bfloat16')(key(1), (3, 2, 4)"]),
    ("variance_scaling", ["2.0, 'fan_in', 'normal', in_axis=0, out_axis=1, dtype='bfloat16')(key(1), (3, 4)", "2.0, 'fan_avg', 'uniform', in_axis=(0, 1), out_axis=-1)(key(1), (2, 2, 3)", "0.0, 'fan_in', 'normal')(key(1), (2, 3)", "-1.0, 'fan_in', 'uniform')(key(1), (2, 3)"]),
]

GROUPS = "axis_index_groups=[[0, 1], [2, 3]]"
AX = "axis_name='i'"
EXPRESSIONS = [
    *[(f"lax.{n}", [f"jax.vmap(lambda x: lax.{n}(x, 'i', {GROUPS}), {AX})(f32(4))"]) for n in ("pmax", "pmean", "all_gather")],
    ("lax.all_to_all", [f"jax.vmap(lambda x: lax.all_to_all(x, 'i', 0, 0, {GROUPS}), {AX})(f32(4, 2))"]),
    ("lax.pswapaxes", [f"jax.vmap(lambda x: lax.pswapaxes(x, 'i', 0, {GROUPS}), {AX})(f32(4, 2))"]),
    ("lax.linalg.schur", [f"jnp.diag({SCHUR}[0])[0] > 0", "len(lax.linalg.schur(mat('f32', 3), compute_schur_vectors=True))"]),
    ("lax.linalg.eig", [
        "jnp.sort(jnp.abs(lax.linalg.eig(mat('f32', 3), compute_left_eigenvectors=False, compute_right_eigenvectors=False, use_magma=False)[0]))",
        "jnp.abs(lax.linalg.eig(mat('f32', 2), enable_eigvec_derivs=True)[0]).sum()",
        "lax.linalg.eig(mat('f32', 2), implementation='odd')",
    ]),
    ("lax.linalg.qdwh", ["lax.linalg.qdwh(mat('f32', 3), eps=1e-3)[0]"]),
    ("jax.checkpoint", ["jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)), prevent_cse=False))(1.0)", "jax.grad(jax.checkpoint(lambda x, n=1: x**n, static_argnames='n'))(2.0, n=3)", "jax.checkpoint(jnp.sin, concrete=True)(1.0)"]),
    ("jax.device_put", [
        "jax.device_put(f32(2), jax.devices()[0], donate=False)", "jax.device_put(f32(2), jax.devices()[0], may_alias=True)",
        "(lambda a: (jax.device_put(a, jax.devices()[0], may_alias=False), a.is_deleted())[1])(f32(2) * 1)",
        "jax.device_put([f32(2), 1.0], [jax.devices()[0], None])", "jax.device_put(f32(2), donate=True, may_alias=True)",
    ]),
    ("jax.hessian", ["jax.hessian(lambda z: (z**3).sum(), holomorphic=True)(c64(2))", "jax.hessian(lambda z: (z**3).sum())(c64(2))", "jax.hessian(lambda x: (x.sum()**2, x), has_aux=True)(f32(2))"]),
    ("jax.grad", ["jax.grad(lambda x: x, reduce_axes=('i',))(1.0)"]),
    ("jax.jit", [
        "(lambda a: (jax.jit(lambda x: x + 1, donate_argnums=0)(a), a.is_deleted()))(f32(2) * 1)",
        "(lambda a: (jax.jit(lambda x, y: x + y, donate_argnames='y')(1.0, y=a), a.is_deleted()))(f32(2) * 1)",
        "jax.jit(lambda x, y: x, keep_unused=True)(f32(2), 1)", "jax.jit(lambda x: x + 1, inline=True)(f32(2))",
        "jax.jit(lambda x: x + 1, backend='cpu')(f32(2))", "jax.jit(lambda x: x + 1, compiler_options={})(f32(2))",
        "jax.jit(lambda x: x + 1, out_shardings=jax.sharding.SingleDeviceSharding(jax.devices()[0]))(f32(2))",
        "jax.jit(lambda x: x + 1, in_shardings=jax.sharding.SingleDeviceSharding(jax.devices()[0]))(f32(2))",
        "jax.jit(lambda x: x, donate_argnums=3)(1.0)", "jax.jit(lambda x: x, donate_argnums=0, static_argnums=0)(1)",
        "jax.jit(lambda x, n: x * n, static_argnums=-1)(f32(2), 3)", "jax.jit(lambda x, n: x * n, static_argnums=(1,), static_argnames=('n',))(f32(2), n=3)",
        "jax.jit(static_argnames='n')(lambda x, n: x * n)(f32(2), n=3)",
    ]),
    ("jax.make_jaxpr", ["len(jax.make_jaxpr(lambda x, n: x * n, static_argnums=1)(1.0, 2).jaxpr.invars)", "jax.make_jaxpr(lambda x: x, axis_env=[('i', 2)])(1.0).out_avals"]),
    ("jax.vmap", ["jax.vmap(lambda x: x * lax.axis_size('i'), axis_name='i', spmd_axis_name='i')(f32(2))", "jax.vmap(lambda x: x, axis_name='i', axis_size=2)(f32(2))"]),
    ("jax.pure_callback", ["jax.pure_callback(lambda x: np.asarray(x) * 2, f32(2), f32(2), sharding=jax.sharding.SingleDeviceSharding(jax.devices()[0]))"]),
    ("jax.vjp", ["jax.vjp(lambda x: 2 * x, 1.0, reduce_axes=())[1](1.0)"]),
    ("jax.value_and_grad", ["jax.value_and_grad(lambda z: z**2, holomorphic=True)(1j)", "jax.value_and_grad(lambda x: x, allow_int=True)(1)"]),
    ("random.key", ["random.key(0, impl='rbg')", "random.key(0, dtype='int8')"]),
    ("random.wrap_key_data", ["random.wrap_key_data(u32(4), impl='rbg').dtype", "random.wrap_key_data(u32(2), dtype=key().dtype)"]),
    ("jax.image.resize", ["jax.image.resize(f32(4), (2,), 'linear', precision='highest')", "jax.image.resize(f32(4), (2,), 'linear', antialias=False, precision=lax.Precision.DEFAULT)"]),
    ("jax.image.scale_and_translate", ["jax.image.scale_and_translate(f32(4), (2,), (0,), f32([0.5]), f32([0.0]), 'linear', precision='highest')"]),
    ("scipy.optimize.minimize", [
        "module('scipy.optimize').minimize(lambda x: (x**2).sum(), f32(2), method='BFGS', tol=1e-3).success",
        "module('scipy.optimize').minimize(lambda x: (x**2).sum(), f32(2), method='odd')",
        "module('scipy.optimize').minimize(lambda x: (x**2).sum(), f32(2), method='BFGS', options={'maxiter': 1}).nit",
    ]),
    ("nn.dot_product_attention", ["nn.dot_product_attention(f32(1, 4, 2, 8), f32(1, 5, 2, 8, s=1), f32(1, 5, 2, 8, s=2), return_residual=True)"]),
    *[(f"ops.segment_{n}", [f"ops.segment_{n}(f32(3), i32([0, 1, 2]), 3, unique_indices=True)", f"ops.segment_{n}(f32(3), i32([0, 1, 9]), 3, mode='clip')", f"ops.segment_{n}(f32(3), i32([0, 0, 1]), 2, indices_are_sorted=True, bucket_size=2)"]) for n in ("max", "min", "prod", "sum")],
]

CASES = [
    *calls("numpy", "jnp.", NUMPY), *calls("lax", "lax.", LAX), *calls("scipy", "scipy.", SCIPY),
    *calls("tree", "tree_util.", TREE), *calls("tree", "tree.", SHORT),
    *calls("nn", "jax.nn.initializers.", INITIALIZERS),
    *[case for row in EXPRESSIONS for case in expressions("keywords", [row])],
]
