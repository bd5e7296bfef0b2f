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
    "byteswap": [""], "copy_to_host_async": [""], "devices": [""], "delete": [], "to_device": ["jax.devices()[0]"],
}  # fmt: skip
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
    ]),
]

CASES = [case for row in EXPRESSIONS for case in expressions(SECTION, [row])]
