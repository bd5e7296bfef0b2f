"""The array object: operators, methods, attributes, conversion to Python and NumPy, printing."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import expressions

SECTION = "arrays"

OPERATORS = "+ - * / // % ** @ & | ^ << >> == != < <= > >=".split()
LEFT = [
    ("f32(3)", "f32(3, s=1)"),
    ("i32(3)", "i32(3, kind='pos')"),
    ("b1(3)", "b1(3, s=1)"),
    ("f32(3)", "2"),
    ("2", "i32(3, kind='pos')"),
    ("f32(3)", "[1.0, 2.0, 3.0]"),
    ("f32(3)", "np.ones(3)"),
    ("np.ones(3, np.float32)", "f32(3)"),
    ("f32(3)", "'a'"),
    ("f32(3)", "None"),
    ("i32(3)", "2.5"),
    ("f32(2, 3)", "f32(2)"),
]
METHODS = {
    "all": ["", "axis=0"], "any": ["", "axis=1, keepdims=True"], "argmax": ["", "1"], "argmin": ["", "axis=0"], "argsort": ["", "axis=0, descending=True"],
    "argpartition": ["1"], "astype": ["'int32'", "jnp.bfloat16", "bool", "'nonsense'"], "block_until_ready": [""], "choose": ["[1, 2]"], "clip": ["0, 1", "min=0.5"],
    "compress": ["[True, False]"], "conj": [""], "conjugate": [""], "copy": [""], "cumprod": ["", "axis=1"], "cumsum": ["", "axis=0, dtype='int32'"], "diagonal": ["", "1"],
    "dot": ["f32(3)", "f32(2)"], "flatten": ["", "order='F'"], "is_deleted": [""], "is_ready": [""], "item": ["", "0", "1, 2"], "max": ["", "axis=0"], "mean": ["", "axis=1, keepdims=True"],
    "min": ["", "initial=-9"], "nonzero": [""], "prod": ["", "axis=0"], "ptp": ["", "axis=0"], "ravel": ["", "'F'"], "repeat": ["2", "2, axis=0"], "reshape": ["3, 2", "(3, 2)", "-1", "4, 2", "(3, 2), order='F'", "2.5"],
    "round": ["", "1"], "searchsorted": ["0.5"], "sort": ["", "axis=0", "descending=True"], "squeeze": ["", "0"], "std": ["", "ddof=1"], "sum": ["", "axis=0", "axis=5", "dtype='int32'"], "swapaxes": ["0, 1"],
    "take": ["i32([0, 5])", "1, axis=1"], "tobytes": [""], "tolist": [""], "trace": ["", "offset=1"], "transpose": ["", "1, 0", "(1, 0)", "(0, 0)"], "var": ["", "axis=0"], "view": ["'int32'", "'int8'", "'float64'", "'nonsense'"],
    "byteswap": [""], "copy_to_host_async": [""], "devices": [""], "to_device": ["jax.devices()[0]"],
}  # fmt: skip
# Whole calls of methods and attributes, on arrays of other kinds.
CALLS = {
    "all": [
        "b1(0).all()", "f32(2, 3, kind='nan').all(-1, keepdims=True)",
        "b1(2, 3).all(where=b1(2, 3, s=1))", "f32(2, 3).all(axis=(0, 1))", "c64(2).all(axis=3)",
    ],
    "any": [
        "b1(0).any()", "f32([np.nan, 0]).any()", "b1(2, 3).any(where=b1(2, 3, s=1), axis=-1)",
        "f32(2, 3).any(2)", "f32(2, 3).any(axis='a')",
    ],
    "argmax": [
        "f32([1, np.nan, 2]).argmax()", "f32(2, 3).argmax(-1, keepdims=True)", "f32(0).argmax()",
        "b1(3).argmax(0)", "f32(2, 3).argmax(axis=2)", "f32(2, 3).argmax(axis=1.5)",
    ],
    "argmin": [
        "f32([1, np.nan, -2]).argmin()", "f32(2, 3).argmin(-2, keepdims=True)",
        "f32(2, 0).argmin(axis=1)", "u8(3).argmin(0)", "i8(2, 3).argmin(axis=-3)",
    ],
    "argsort": [
        "f32([1, np.nan, -0.0, 0]).argsort()", "i32([2, 1, 2]).argsort(stable=False)",
        "f32(2, 3).argsort(axis=None)", "f32(2, 3).argsort(axis=2)", "f32(0).argsort()",
        "f32(3).argsort(kind='stable')", "f32().argsort()",
    ],
    "argpartition": [
        "f32(2, 3).argpartition(1, axis=0)", "f32(3).argpartition(-1)", "f32(3).argpartition(5)",
        "f32(2, 3).argpartition(0, axis=None)", "b1(3).argpartition(1)",
    ],
    "block_until_ready": [
        "w(2).block_until_ready()", "f32(0).block_until_ready()", "key(1).block_until_ready()",
        "f32(2).block_until_ready(1)",
    ],
    "byteswap": ["u8(2).byteswap()", "i32(0).byteswap()", "f32(2).byteswap(inplace=True)"],
    "choose": [
        "i32([0, 1, 1]).choose([f32(3), f32(3, s=1)])",
        "i32([0, 5]).choose([f32(2), f32(2, s=1)], mode='clip')",
        "i32([0, -1]).choose([1, 2], mode='wrap')", "i32([0, 5]).choose([1, 2])",
        "i32([0, 1]).choose((1, 2.5))", "b1(2).choose([1, 2])", "i32([0]).choose([1], mode='odd')",
    ],
    "clip": [
        "i32(3).clip(0.5)", "f32([np.nan, 5]).clip(0, 1)", "f32(2, 3).clip(f32(3), f32(2, 1))",
        "f32(3).clip(max=0, min=1)", "u8(3).clip(-1, 3)", "f32(3).clip(None, None)",
        "c64(2).clip(0, 1)", "f32(3).clip('a')",
    ],
    "compress": [
        "f32(2, 3).compress([True, False, True], axis=1)", "f32(3).compress(b1(3))",
        "f32(3).compress([True] * 5)", "f32(2, 3).compress([0, 1], axis=-2)",
        "f32(2, 3).compress([True], size=2, fill_value=7)", "f32(3).compress(f32([1, 0, 2]))",
    ],
    "conj": ["c64(2).conj()", "b1(2).conj()", "w(1j).conj()", "c64(0).conj()"],
    "conjugate": [
        "c64(2).conjugate()", "bf16(2).conjugate()", "w(2).conjugate()", "c64(2).conjugate(1)",
    ],
    "copy": ["w(2.5).copy()", "f32(0).copy()", "key(1).copy()", "f32(2).copy('F')"],
    "copy_to_host_async": [
        "w(2).copy_to_host_async()", "f32(0).copy_to_host_async()", "key(1).copy_to_host_async()",
        "f32(2).copy_to_host_async(1)",
    ],
    "cumprod": [
        "f32(2, 3).cumprod(-1, dtype='bfloat16')", "b1(3).cumprod()",
        "f32([1, np.nan, 2]).cumprod()", "f32(0).cumprod()", "f32(2, 3).cumprod(axis=2)",
    ],
    "cumsum": [
        "f32(2, 3).cumsum(-1)", "b1(3).cumsum()", "f32([1, np.inf, -np.inf]).cumsum()",
        "u8(3).cumsum()", "f32(2, 3).cumsum(axis=2)",
    ],
    "delete": [
        "(lambda a: (a.delete(), a.delete(), a.is_deleted()))(f32(2) * 1)",
        "(lambda a: (a.delete(), repr(a)))(f32(2) * 1)",
        "(lambda a: (a.delete(), a.dtype, a.shape))(f32(2) * 1)",
        "(lambda a: (a.delete(), a.sum()))(f32(2) * 1)", "jax.jit(lambda x: x.delete())(f32(2))",
    ],
    "devices": [
        "len(f32(2).devices())", "len(w(2).devices())", "f32(2).devices() == f32(3).devices()",
        "key(1).devices() == f32(2).devices()",
    ],
    "diagonal": [
        "f32(2, 3, 4).diagonal(0, 1, 2)", "f32(2, 3, 4).diagonal(axis1=-1, axis2=0, offset=-1)",
        "f32(2, 3).diagonal(5)", "f32(3).diagonal()", "f32(2, 3).diagonal(0, 1, 1)",
        "f32(2, 3).diagonal(0, 0, 2)",
    ],
    "dot": [
        "f32(3).dot(2)", "f32(2, 3).dot(i32(3, 2))", "f32(3).dot([1.0, 2, 3])",
        "f32(0, 3).dot(f32(3))", "bf16(3).dot(bf16(3), preferred_element_type='float32')",
        "b1(3).dot(b1(3))",
    ],
    "flatten": [
        "f32().flatten()", "f32(0, 2).flatten()", "f32(2, 3).flatten('C')",
        "f32(2, 3).flatten(order='A')", "f32(2, 3).flatten('odd')",
    ],
    "is_deleted": [
        "w(2).is_deleted()", "f32(0).is_deleted()", "key(1).is_deleted()",
        "(lambda a: (a.delete(), a.is_deleted())[1])(f32(2) * 1)",
    ],
    "is_ready": [
        "w(2).is_ready()", "f32(0).is_ready()", "f32(2).is_ready(1)", "(f32(2) * 1).block_until_ready().is_ready()",
    ],
    "item": [
        "f32(1, 1).item()", "b1(3).item(2)", "c64(2).item(0)", "f32(2, 3).item(6)",
        "f32(2, 3).item(-1)", "f32(2, 3).item((1, 0))", "bf16(1).item()", "f32(0).item()",
        "key(1).item()",
    ],
    "max": [
        "f32(2, 3, kind='nan').max(axis=-1, keepdims=True)", "f32(0).max()",
        "f32(0).max(initial=2)", "f32(2, 3).max(where=b1(2, 3), initial=0)", "c64(3).max()",
        "b1(3).max()", "f32(2, 3).max(axis=(0, -1))",
    ],
    "mean": [
        "i32(2, 3).mean(dtype='bfloat16')", "f32(0).mean()", "f32(2, 3).mean(where=b1(2, 3))",
        "c64(2).mean()", "b1(3).mean()", "f16(2, 3).mean((-1, 0))", "f32(2, 3).mean(axis=2)",
    ],
    "min": [
        "f32(2, 3, kind='nan').min(axis=-1, keepdims=True)", "f32(0).min()",
        "u8(2, 3).min(where=b1(2, 3), initial=3)", "f32(2, 3).min(where=b1(2, 3))",
        "f32(2, 3).min(0, None, True)",
    ],
    "nonzero": [
        "f32([0, np.nan, -0.0]).nonzero()", "b1(2, 3).nonzero(size=4, fill_value=9)",
        "f32().nonzero()", "f32(0).nonzero()", "jax.jit(lambda x: x.nonzero())(f32(2))",
        "jax.jit(lambda x: x.nonzero(size=1))(f32(2))",
    ],
    "prod": [
        "f32(2, 3).prod((0, 1), keepdims=True)", "f32(0).prod()", "b1(3).prod()",
        "i8(3).prod(dtype='float32')", "f32(2, 3).prod(where=b1(2, 3), initial=2.0)",
        "f32(2).prod(axis=-2)",
    ],
    "ptp": [
        "f32(2, 3, kind='nan').ptp(-1, keepdims=True)", "u8(3).ptp()", "f32(0).ptp()",
        "b1(3).ptp()", "f32(2, 3).ptp(axis=2)",
    ],
    "ravel": [
        "f32().ravel()", "f32(0, 2).ravel()", "f32(2, 3).ravel(order='K')",
        "f32(2, 3).ravel(order='odd')", "key(1).ravel()",
    ],
    "real": ["f32(2).real", "c64(2).real", "b1(2).real", "w(1j).real", "key(1).real"],
    "imag": ["f32(2).imag", "c64(2).imag", "b1(2).imag", "w(1j).imag", "i8(2).imag"],
    "T": [
        "f32().T", "f32(2, 3, 4).T", "key(1).T", "f32(0, 2).T", "jax.jit(lambda x: x.T)(f32(2, 3))",
    ],
    "mT": [
        "f32().mT", "f32(2, 3, 4).mT", "f32(3).mT", "f32(0, 2).mT",
        "jax.jit(lambda x: x.mT)(f32(2, 3))",
    ],
    "aval": [
        "str(f32(2, 3).aval)", "w(2).aval", "key(1).aval", "i4(2).aval",
        "f32(2).aval == f32(2, s=1).aval", "f32(0, 2).aval.shape",
    ],
    "dtype": [
        "bf16(2).dtype", "w(2).dtype", "key(1).dtype", "i4(2).dtype", "b1(2).dtype == bool",
        "jax.jit(lambda x: x.astype(x.dtype))(f16(2))",
    ],
    "shape": [
        "f32().shape", "f32(0, 2).shape", "random.split(key(1)).shape",
        "setattr(f32(2), 'shape', (2, 1))", "jax.jit(lambda x: x.shape)(f32(2, 3))",
    ],
    "ndim": [
        "f32().ndim", "f32(0, 2).ndim", "key(1).ndim", "setattr(f32(2), 'ndim', 2)",
        "jax.vmap(lambda x: x * x.ndim)(f32(2, 3))",
    ],
    "size": [
        "f32().size", "f32(0, 2).size", "random.split(key(1)).size", "f32(2, 3).size",
        "jax.vmap(lambda x: x * x.size)(f32(2, 3))",
    ],
    "itemsize": [
        "f32(2).itemsize", "bf16(2).itemsize", "i4(2).itemsize", "c64(0).itemsize",
        "key(1).itemsize",
    ],
    "nbytes": [
        "f32(2, 3).nbytes", "bf16(2).nbytes", "i4(3).nbytes", "c64(0).nbytes", "key(1).nbytes",
    ],
    "flat": ["f32(2, 2).flat", "list(f32(2, 2).flat)", "f32(0).flat", "len(f32(2, 2).flat)", "f32(2, 2).flat[1]"],
    "weak_type": [
        "w(2).weak_type", "f32(2).weak_type", "(w(2) + 1.5).weak_type", "(w(2) + f32(2)).weak_type",
        "jnp.asarray(True).weak_type",
    ],
    "committed": [
        "f32(2).committed", "w(2).committed", "jax.device_put(f32(2)).committed",
        "jax.device_put(f32(2), jax.devices()[0]).committed",
        "(jax.device_put(f32(2), jax.devices()[0]) + 1).committed",
    ],
    "device": [
        "f32(2).device == jax.devices()[0]", "f32(2).device.platform", "f32(2).device.id",
        "key(1).device == f32(2).device", "jax.jit(lambda x: x.device)(f32(2))",
    ],
    "sharding": [
        "f32(2).sharding", "w(2).sharding == f32(2).sharding", "len(f32(2).sharding.device_set)",
        "f32(2).sharding.is_fully_replicated", "f32(2, 3).sharding.shard_shape((2, 3))",
    ],
    "is_fully_addressable": [
        "f32(2).is_fully_addressable", "w(2).is_fully_addressable", "f32(0).is_fully_addressable",
        "key(1).is_fully_addressable", "setattr(f32(2), 'is_fully_addressable', False)",
    ],
    "is_fully_replicated": [
        "f32(2).is_fully_replicated", "w(2).is_fully_replicated", "f32(0).is_fully_replicated",
        "key(1).is_fully_replicated", "setattr(f32(2), 'is_fully_replicated', False)",
    ],
    "addressable_data": [
        "f32(2).addressable_data(0)", "w(2).addressable_data(0)", "f32(2).addressable_data(1)",
        "f32(2).addressable_data(-1)", "f32(0).addressable_data(0)",
    ],
    "addressable_shards": [
        "len(f32(2).addressable_shards)", "f32(2).addressable_shards[0].data",
        "f32(2, 3).addressable_shards[0].index", "f32(2).addressable_shards[0].replica_id",
        "f32(2).addressable_shards[0].device == jax.devices()[0]",
    ],
    "global_shards": [
        "len(f32(2).global_shards)", "f32(2).global_shards[0].data",
        "f32(2, 3).global_shards[0].index", "f32(2).global_shards[0].replica_id",
        "f32(2).global_shards[0].device == jax.devices()[0]",
    ],
    "on_device_size_in_bytes": [
        "f32(2, 3).on_device_size_in_bytes()", "bf16(2).on_device_size_in_bytes()",
        "f32(0).on_device_size_in_bytes()", "b1(3).on_device_size_in_bytes()",
        "w(2).on_device_size_in_bytes()",
    ],
    "unsafe_buffer_pointer": [
        "f32(2).unsafe_buffer_pointer() > 0",
        "(lambda a: a.unsafe_buffer_pointer() == a.unsafe_buffer_pointer())(f32(2))",
        "type(f32(2).unsafe_buffer_pointer()).__name__",
        "(lambda a: (a.delete(), a.unsafe_buffer_pointer()))(f32(2) * 1)",
        "f32(2).unsafe_buffer_pointer(1)",
    ],
    "repeat": [
        "i32(3).repeat(i32([0, 1, 2]))", "f32(2, 3).repeat([1, 2], axis=-2)",
        "f32(3).repeat(2, total_repeat_length=4)", "f32(3).repeat(-1)", "f32().repeat(3)",
        "f32(3).repeat(2.5)", "f32(2).repeat(0)",
    ],
    "round": [
        "f32([0.5, 1.5, np.nan]).round()", "f32([123.456]).round(-1)", "i32(3).round(2)",
        "bf16(3).round(1)", "c64(2).round(decimals=1)",
    ],
    "searchsorted": [
        "f32([1, 2, 2, 3]).searchsorted(2, side='right')",
        "f32([3, 1, 2]).searchsorted(f32(2), sorter=i32([1, 2, 0]))",
        "i32([1, 2]).searchsorted(1.5)", "f32([1, np.nan]).searchsorted(np.nan)",
        "f32(0).searchsorted(1)", "f32([1, 2]).searchsorted(f32(2, 2), method='sort')",
        "f32([1, 2]).searchsorted(1, side='odd')",
    ],
    "sort": [
        "f32([1, np.nan, -np.inf, 0]).sort()", "f32(2, 3).sort(axis=None)", "f32(0).sort()",
        "c64(3).sort()", "f32(2, 3).sort(axis=2)", "f32(2, 3).sort(-2, stable=False)",
        "b1(3).sort(descending=True)",
    ],
    "squeeze": [
        "f32(1, 2, 1).squeeze()", "f32(1, 2, 1).squeeze(-1)", "f32(1, 1).squeeze((0, 1))",
        "f32(1, 1).squeeze((0, 0))", "f32(1, 2).squeeze(axis=5)", "f32().squeeze()",
    ],
    "std": [
        "f32(2, 3).std(axis=-1, keepdims=True, correction=1)", "f32(0).std()", "c64(3).std()",
        "f32(3).std(ddof=5)", "f32(2, 3).std(where=b1(2, 3))", "i32(3).std(dtype='bfloat16')",
    ],
    "sum": [
        "f32(2, 3).sum((0, -1), keepdims=True)", "f32(2, 3).sum(where=b1(2, 3), initial=2)",
        "b1(3).sum()", "f32(0).sum()", "f32([np.nan, 1]).sum()",
    ],
    "swapaxes": [
        "f32(2, 3, 4).swapaxes(-1, 0)", "f32(2, 3).swapaxes(0, 0)", "f32(2, 3).swapaxes(0, 2)",
        "f32(0, 2).swapaxes(axis1=0, axis2=1)",
    ],
    "take": [
        "f32(3).take(i32([9, -9]))", "f32(3).take(i32([9, -9]), mode='clip')",
        "f32(3).take(i32([9, -1]), mode='wrap')",
        "i32(3).take(i32([9]), mode='fill', fill_value=7)",
        "f32(2, 3).take(i32([[0], [1]]), axis=-1)", "f32(3).take(1.0)", "f32(2, 3).take([0, 1])",
    ],
    "to_device": [
        "w(2).to_device(jax.devices()[0])", "f32(0).to_device(jax.devices()[0])",
        "f32(2).to_device(jax.devices()[0], stream=None)", "f32(2).to_device()",
        "f32(2).to_device(jax.sharding.SingleDeviceSharding(jax.devices()[0]))",
    ],
    "tobytes": [
        "w(2).tobytes()", "bf16([1.5]).tobytes()", "f32(0).tobytes()",
        "b1([True, False]).tobytes()", "f32(2, 3).tobytes('F')",
    ],
    "tolist": [
        "w(2).tolist()", "c64(2).tolist()", "f32(0, 2).tolist()", "bf16(2).tolist()",
        "jax.jit(lambda x: x.tolist())(f32(2))", "b1(2, 2).tolist()",
    ],
    "trace": [
        "f32(2, 3, 4).trace(0, 1, 2)", "i8(2, 2).trace(dtype='float32')", "f32(3).trace()",
        "f32(2, 2).trace(offset=-1)", "b1(2, 2).trace()", "f32(2, 3).trace(axis1=-1, axis2=0)",
    ],
    "transpose": [
        "f32(2, 3, 4).transpose(-1, 0, 1)", "f32().transpose()", "f32(2, 3).transpose(None)",
        "f32(2, 3).transpose([1, 0])", "f32(2, 3).transpose(0)",
    ],
    "var": [
        "f32(2, 3).var(axis=-1, keepdims=True, ddof=1)", "f32(0).var()", "c64(3).var()",
        "f32(3).var(correction=5)", "f32(2, 3).var(where=b1(2, 3))",
        "bf16(2, 3).var(dtype='float32')",
    ],
    "view": [
        "f32(2).view()", "c64(2).view('float32')", "u8(8).view('int32')", "i32(3).view(jnp.uint32)",
        "f32(0).view('int16')", "f32().view('int8')", "b1(4).view('uint8')",
    ],
    "astype": [
        "f32([np.nan, np.inf, -300]).astype('int8')", "c64(2).astype('float32')",
        "w(2).astype('float32')", "f32(2).astype(None)", "f32(2).astype('int32', copy=True)",
        "f32(2).astype('int32', device=jax.devices()[0])", "i32(2).astype(float)",
    ],
    "reshape": [
        "f32(2, 3).reshape(-1, -1)", "f32(0, 2).reshape(0, -1)", "f32().reshape(())",
        "f32(2, 3).reshape(None)", "f32(2, 3).reshape(3, -2)", "f32(2, 3).reshape(i32([6])[0])",
        "f32(2, 3).reshape((6,), copy=True)",
    ],
}
ATTRIBUTES = "T aval dtype flat imag itemsize mT nbytes ndim real shape size weak_type is_fully_addressable is_fully_replicated committed sharding device".split()
WEAK = [
    "w(2) + 1", "w(2.0) * f32(2)", "w(2) + i8(2)", "w(1) / 2", "-w(2)", "w(2).astype('int8')",
    "w(2).sum()", "w(2.5).reshape(1)", "jnp.where(True, 1, 2)", "w(1)[None]", "w(True)",
    "jnp.abs(w(-2))", "w(2) == 2", "jnp.stack([w(1), w(2)])",
]
CONVERT = [
    "float({})", "int({})", "complex({})", "bool({})", "operator.index({})", "len({})", "list({})",
    "hash({})", "{}.tolist()", "{}.item()", "np.asarray({})", "np.array({}, dtype='float64')",
    "round({})", "round({}, 1)", "format({}, '.2f')", "f'{{{}}}'", "repr({})", "str({})", "[*{}]",
    "abs({})", "iter({}).__next__()",
]
OBJECTS = [
    "f32()", "i32()", "f32(1)", "f32(3)", "b1()", "c64()", "w(2)", "f32(0)", "f32(2, 2)", "bf16()",
]
NUMPY = [
    "np.sin(f32(3))", "np.add(f32(3), 1)", "np.sum(f32(2, 3), axis=0)",
    "np.concatenate([f32(2), f32(2)])", "np.ones(3) + f32(3)", "np.float32(2) * f32(3)",
    "np.asarray(f32(3)).flags.writeable", "np.array(bf16(2))", "np.stack([f32(2), f32(2)])",
    "np.mean(f32(3))",
]
PRINT = [
    "f32([1.0, 2.5, -3.25])", "f32([[1, 2], [3, 4]])", "i32([1, 20, 300])", "b1([True, False])",
    "c64([1 + 2j])", "bf16([1.5, 2])", "f16([0.1])", "f32([np.nan, np.inf, -0.0])",
    "f32([1e-10, 1e10])", "f32(0)", "f32(0, 3)", "f32()", "jnp.arange(1001)", "jnp.zeros((30, 40))",
    "w(2)", "w(2.5)", "key(0)", "random.split(key(0))", "i8([1])", "u32([1, 2**32 - 1])",
    "f8([1.5])", "i4([1, -2])", "f32(2, 2, 2)", "jnp.float32(1.5)", "jnp.ones(3) * 0.1",
    "jnp.linspace(0, 1, 7)",
]

EXPRESSIONS = [
    *[("jax.Array.operators", [f"{a} {op} {b}" for a, b in LEFT]) for op in OPERATORS],
    ("jax.Array.operators", [
        f"{op}{x}"
        for op in ("-", "+", "~")
        for x in ("f32(3)", "i32(3)", "b1(3)", "u8(3)", "c64(2)")
    ]),
    ("jax.Array.operators", [
        "divmod(f32(3), 2)", "divmod(7, i32(3, kind='pos'))", "pow(f32(3), 2)", "pow(i32(3), 2, 5)",
        "2 in f32([1, 2])", "f32(3) in f32(3)", "f32(3) @ 2.0", "f32(2, 3) @ f32(3)", "not f32(3)",
        "f32(1) and 2", "f32([0]) or 3",
    ]),
    ("jax.Array.operators", [
        "f32(3) == None", "f32(3) != 'a'", "f32(3) == [1, 2, 3]", "f32(3) == (1,)",
        "(lambda a: a.__iadd__(1))(f32(2))", "f32(3) ** 2", "i32(3) ** -1",
        "2 ** i32(3, kind='pos')", "f32(3) ** 0.5", "i32(3) ** 2", "2.0 ** f32(3)", "b1(2) ** 2",
    ]),
    *[
        (
            f"jax.Array.{m}",
            [f"f32(2, 3).{m}({a})" for a in args] + [f"i32(2, 3).{m}({a})" for a in args[:1]],
        )
        for m, args in METHODS.items()
        if args
    ],
    *[(f"jax.Array.{m}", rows) for m, rows in CALLS.items()],
    *[
        (
            "jax.Array.attributes",
            [f"f32(2, 3).{a}" for a in ATTRIBUTES]
            + [f"w(2).{a}" for a in ("dtype", "weak_type", "aval", "shape")],
        )
        for _ in (0,)
    ],
    ("jax.Array.attributes", [
        "c64(2).real", "c64(2).imag", "f32(2).imag", "i32(2).real", "f32(3).T", "f32(3).mT",
        "f32(2).nonsense", "f32(2, 3).at", "str(f32(2, 3).aval)", "f32(2).aval.str_short()",
        "type(f32(2)).__name__", "isinstance(f32(2), jax.Array)", "isinstance(2.0, jax.Array)",
    ]),
    ("jax.Array.attributes", [
        "f32(2).__array_namespace__().__name__.split('.')[-1]", "f32(2).__array_priority__",
        "setattr(f32(2), 'shape', (1,))", "f32(2).__dlpack_device__()",
        "list(f32(2).devices())[0].platform", "f32(2).devices() == {jax.devices()[0]}",
        "len(f32(2).addressable_shards)", "f32(2).addressable_data(0)",
    ]),
    ("jax.Array.weak_type", WEAK),
    *[("jax.Array.conversion", [c.format(x) for c in CONVERT]) for x in OBJECTS],
    ("jax.Array.conversion", [
        "math.sqrt(f32([4.0])[0])", "[1, 2, 3][i32([1])[0]]", "range(i32([3])[0])",
        "'ab' * i32([2])[0]", "bool(f32([]))", "if_ if (if_ := f32(2)) is None else 1",
        "sum(f32(3))", "max(f32(3))", "sorted(f32(3))", "any(b1(3))", "np.zeros(i32([2])[0])",
        "zip(f32(2), f32(2)).__next__()", "dict([(1, f32(2))])", "enumerate(f32(2)).__next__()",
    ]),
    ("jax.Array.numpy", NUMPY),
    ("jax.Array.__repr__", [f"repr({x})" for x in PRINT]),
    ("jax.Array.__str__", [f"str({x})" for x in PRINT]),
    ("jax.Array.copying", [
        "__import__('copy').copy(f32(2))", "__import__('copy').deepcopy(f32(2))",
        "__import__('pickle').loads(__import__('pickle').dumps(f32(2)))",
        "__import__('copy').copy(w(2))", "__import__('copy').deepcopy({'a': key(1)})",
        "__import__('pickle').loads(__import__('pickle').dumps(bf16(2)))",
        "__import__('pickle').loads(__import__('pickle').dumps((w(2), f32(0))))",
        "__import__('copy').deepcopy(random.split(key(1)))",
    ]),
]

CASES = [case for row in EXPRESSIONS for case in expressions(SECTION, [row])]
