"""Indexing: reading by every kind of index, and the `.at` updates with their modes."""

# fmt: off

from .dsl import expressions

SECTION = "indexing"

ONE_D = [
    "0", "-1", "7", "-9", "i32([1])[0]", "1:4", ":", "::-1", "::2", "4:1:-1", "4:1", "-3:", ":-2",
    "10:20", "-100:100", "...", "None", "None, 1:3", "()", "[0, 2]", "True", "False",
]
ONE_D += [
    "i32([0, 2, -1])", "i32([[0], [2]])", "i32([9, -9])", "i32([])", "np.array([1, 1])",
    "np.array([], int)", "b1(6)", "[True, False] * 3", "b1(5)", "jnp.zeros(6, bool)", "u8([1, 2])",
]
ONE_D += [
    "1.0", "1.5", "f32(2)", "f32()", "'a'", "2, 3", "slice(1, 2.5)", "np.int64(2)",
    "np.bool_(True)", "1j", "{}", "..., ...", "i8(3, kind='index')", "[0, True]",
    "[[0, 1], [2, 3]]",
]
ONE_D += [
    "i32()", "slice(i32([1])[0], None)", "::0", "(0,)", "([0, 2],)", "None, ..., None", "range(3)",
    "[]", "[0, 2], None", "np.array([True])", "key()",
]
TWO_D = [
    "0", "-1", "0, 1", "1, -1", "1:, ::-1", "..., 0", "0, ...", ":, None, 1", "None, ..., None",
    "[0, 1], [2, 3]", "[0, 2], :", ":, [0, 3]", "i32([[0], [2]]), i32([[1, 2]])", "i32([0, 1]), 2",
]
TWO_D += [
    "b1(3, 4)", "b1(3)", ":, b1(4)", "b1(3), 1", "b1(3), [0]", "b1(4)", "b1(3, 4), None",
    "[0, 1], None, [2, 3]", "[0, 1], 1:3", "0, [1, 2]", "i32([0, 9]), i32([9, 0])", "5", "0, 9",
    "0, 0, 0",
]
TWO_D += [
    "True", "True, 0", "jnp.ix_(i32([0, 2]), i32([1, 3]))", "::2, ::2", "1:1", "[[0, 1], [1, 0]]",
    "i32(2, 2, kind='index'), i32(2, 2, kind='index', s=1)", "[0, 1, 2], [0, 1]", "b1(3), b1(4)",
    "None", "..., None, [0]", "slice(None), slice(-2, None)",
]
THREE_D = [
    "0", ":, 0", "..., 0", "[0, 1], :, [1, 2]", ":, [0, 1], [1, 2]", "[0, 1], [1, 2]",
    "0, :, [1, 2]", "[0, 1], 0, :", ":, i32([[0], [1]]), [0, 1]", "1, ..., ::-1", "b1(2), ..., 0",
    "b1(2, 3)", ":, b1(3, 4)", "0, b1(3)",
]
THREE_D += [
    "None, 0, None, [0, 1]", "[0, 1], None, :, [1, 2]", ":, 1:, [0, 3]",
    "i32([0, 1]), ..., i32([2, 3])", "..., b1(4)", "0, 1, 2", "0, 1, 2, 3",
]

READ = [
    ("jax.Array.__getitem__", [f"f32(6)[{i}]" for i in ONE_D]),
    ("jax.Array.__getitem__", [f"f32(3, 4)[{i}]" for i in TWO_D]),
    ("jax.Array.__getitem__", [f"f32(2, 3, 4)[{i}]" for i in THREE_D]),
    ("jax.Array.__getitem__", [
        f"f32()[{i}]"
        for i in (
            "()", "...", "None", "0", "True", "False", "[]", "b1(1)[0]", "jnp.array(True)",
        )
    ]),
    (
        "jax.Array.__getitem__",
        [f"f32(0, 3)[{i}]" for i in ("0", ":, 1", "i32([])", "i32([0])", "::-1", "b1(0)", "...")],
    ),
    ("jax.Array.__getitem__", [
        f"{d}(6)[{i}]"
        for d in ("i32", "u8", "b1", "bf16", "c64", "f16", "i8")
        for i in ("1", "::-2", "i32([0, 9])", "b1(6)")
    ]),
    ("jax.Array.__getitem__", [
        f"jax.jit(lambda x, i: x[i])(f32(6), {i})"
        for i in ("1", "-1", "7", "-9", "i32([0, 9])", "b1(6)", "1.5")
    ]),
    ("jax.Array.__getitem__", [
        "jax.jit(lambda x: x[i32([0, 9])])(f32(6))", "jax.jit(lambda x: x[1:x.sum()])(f32(6))",
        "jax.jit(lambda x: x[::2])(f32(6))", "random.split(key(), 3)[1]",
        "random.split(key(), 3)[::-1]",
    ]),
    ("jax.Array.__setitem__", [
        "f32(3).__setitem__(0, 1)", "i32(2, 3).__setitem__((0, 1), 2)",
        "jax.jit(lambda x: x.__setitem__(0, 1))(f32(2))", "operator.setitem(f32(3), 0, 1.0)",
        "operator.delitem(f32(3), 0)", "jax.vmap(lambda x: operator.setitem(x, 0, 1.0))(f32(2, 2))",
    ]),
]

AT_INDEX = [
    "0", "-1", "9", "-9", "1:4", "::-2", "i32([0, 2, 0])", "i32([9, 1])", "b1(6)", "...", "i32([])",
]
OPS = [
    "set(9.0)", "add(2.0)", "multiply(3.0)", "divide(2.0)", "power(2.0)", "min(0.0)", "max(0.5)",
    "subtract(1.0)", "mul(2.0)", "apply(jnp.sin)", "get()",
]
MODES = ["clip", "drop", "fill", "promise_in_bounds", "wrap", "odd"]
WRITE = [
    ("jax.Array.at", [f"f32(6).at[{i}].{op}" for i in AT_INDEX for op in OPS]),
    ("jax.Array.at", [
        f"f32(6).at[i32([0, 9, -2])].{op}, mode='{m}')"
        for op in ("set(7.0", "add(f32(3)", "max(1.0", "multiply(2.0")
        for m in MODES
    ]),
    (
        "jax.Array.at",
        [f"f32(6).at[i32([0, 9, -2])].get(mode='{m}')" for m in MODES]
        + [
            f"f32(6).at[i32([0, 9])].get(mode='fill', fill_value={v})"
            for v in ("7", "np.nan", "-1.5")
        ],
    ),
    (
        "jax.Array.at",
        [f"i32(6).at[i32([0, 9])].get(mode='{m}')" for m in ("fill", "clip")]
        + [
            "b1(6).at[9].get(mode='fill')", "u8(6).at[9].get(mode='fill')",
            "i32(6).at[9].get(mode='fill', fill_value=3)",
        ],
    ),
    ("jax.Array.at", [
        f"f32(3, 4).at[{i}].set({v})"
        for i, v in (
            ("0", "1.0"),
            ("0", "f32(4)"),
            (":, 1", "f32(3)"),
            ("1:, ::2", "f32(2, 2)"),
            ("[0, 1], [2, 3]", "f32(2)"),
            ("b1(3, 4)", "0.0"),
            ("b1(3)", "f32(4)"),
            ("i32([[0], [2]]), i32([[1, 2]])", "7"),
        )
    ]),
    ("jax.Array.at", [
        f"f32(3, 4).at[{i}].add({v})"
        for i, v in (
            (":, [0, 0, 1]", "1.0"),
            ("...", "f32(4)"),
            ("None, 0", "1.0"),
            ("0", "f32(3)"),
            ("0, 0, 0", "1"),
            ("b1(4)", "1"),
            ("0", "'a'"),
            ("b1(3, 4)", "f32(3)"),
        )
    ]),
    ("jax.Array.at", [
        f"{d}(5).at[1].{op}"
        for d in ("i32", "u8", "b1", "bf16", "c64")
        for op in (
            "set(2)", "add(1)", "set(2.5)", "multiply(2)", "max(1)", "apply(lambda v: -v)",
        )
    ]),
    ("jax.Array.at", [
        "f32(5).at[1]", "f32(5).at[1].set(f32(2))", "f32(5).at[0].set(1j)",
        "i32(5).at[0].add(f32())", "f32(5).at[b1(5)].add(f32(5))", "f32(5).at[0].set(None)",
        "f32(5).at[0].set([1.0])", "f32(5).at['a'].set(1)", "f32(5).at[1.5].set(1)",
    ]),
    ("jax.Array.at", [
        "f32(5).at[i32([0, 1])].set(f32(2), indices_are_sorted=True, unique_indices=True)",
        "f32(5).at[-1].set(1.0, wrap_negative_indices=False)",
        "f32(5).at[-1].get(wrap_negative_indices=False)", "f32(5).at[0].set(w(2))",
    ]),
    ("jax.Array.at", [
        f"jax.jit(lambda x: x.at[{i}].set(9.0))(f32(6))"
        for i in ("0", "9", "1:3", "x > 0", "i32([0, 9])")
    ]
    + ["jax.jit(lambda x, i: x.at[i].add(1.0))(f32(6), i32([1, 1, 9]))"],
),
(
    "jax.Array.at",
    [
        "f32().at[()].set(1.0)", "f32(0).at[0].set(1.0)", "f32(0).at[:].add(1.0)",
        "f32(3).at[None].set(1.0)", "random.split(key(), 3).at[1].set(key(5))",
        "f32(2, 3, 4).at[:, [0, 1], [1, 2]].add(f32(2, 2))",
        "f32(2, 3, 4).at[[0, 1], :, 1].set(f32(2, 3))",
    ]),
]

CASES = expressions(SECTION, READ + WRITE)
