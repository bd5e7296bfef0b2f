"""Accesses that make random keys and bits, and that read the same bits as another type.

Floor 3. In: equations on keys, key words and seeds. Out: the rules of elements.py for them: each
element by itself, from a key and its place, so random numbers are made wherever they are read.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray.compiler.lower.elements import Get, Places, chosen_along, rule, stretched, type_of
from gpuarray.compiler.lower.elements import pointwise as elementwise
from gpuarray.compiler.text import types as ct
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.element import Access, Applied
from gpuarray.core.graph import Eqn
from gpuarray.core.index import Index, linear
from gpuarray.primitives import cuda_rules
from gpuarray.primitives.random.host import pair_layout


def implementation(aval: ShapedArray) -> str:
    """The name of the generator of typed keys."""
    return aval.dtype.impl.name if isinstance(aval.dtype, dtypes.KeyDtype) else ""


def has_text(eqn: Eqn) -> bool:
    """Whether a key or bits of this generator can be made in a kernel."""
    name = eqn.primitive.name
    if name == "rng_bit_generator":
        return True
    if name == "random_gamma_grad":
        return True
    keys = (eqn.outvars if name in ("random_seed", "random_wrap") else eqn.invars)[0].aval
    if name in ("random_seed", "random_wrap", "random_unwrap", "random_clone"):
        return True
    if name == "random_bits":
        old = not eqn.params.get("partitionable", False)
        many = math.prod(eqn.params["shape"]) >= 2**32 - 1
        return not (implementation(keys) == "threefry2x32" and old and many)
    return implementation(keys) in ("threefry2x32", "rbg", "unsafe_rbg")


def _applied(eqn: Eqn, template: str, operands, places=(), number: int = 0) -> Access:
    return Applied(tuple(operands), tuple(places), template, type=type_of(eqn, number))


def _four(aval: ShapedArray) -> bool:
    """Whether keys have four words."""
    return aval.dtype.impl.key_shape == (4,)


# ---- keys ----


@rule("random_wrap")
def _wrap(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    four = _four(eqn.outvars[0].aval)
    words = [get(0, [*at, Index(constant=j)]) for j in range(4 if four else 2)]
    return _applied(
        eqn, "ga_key({})".format(", ".join(f"{{{j}}}" for j in range(len(words)))), words
    )


@rule("random_unwrap")
def _unwrap(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    return _applied(eqn, "ga_key_word({0}, {1})", [get(0, at[:-1])], [at[-1]])


@rule("random_seed")
def _seed(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    keys = "ga_seed4" if _four(eqn.outvars[0].aval) else "ga_seed"
    return _applied(eqn, f"{keys}({{0}})", [get(0, at)])


@rule("random_split")
def _split(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    keys, shape = eqn.invars[0].aval, eqn.params["shape"]
    place = linear(at[keys.ndim :], shape)
    text = f"{_splitter(eqn, math.prod(shape))}({{0}}, {{1}})"
    return _applied(eqn, text, [get(0, at[: keys.ndim])], [place])


def _splitter(eqn: Eqn, count: int) -> str:
    """What makes one of the `count` keys that a key is split into."""
    if implementation(eqn.invars[0].aval) == "unsafe_rbg":
        return "ga_unsafe_split"
    if eqn.params.get("partitionable", False):
        return "ga_split"
    return f"ga_old_split<{count}u>"


@rule("random_fold_in")
def _fold_in(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    operands = [get(i, stretched(a.aval.shape, at)) for i, a in enumerate(eqn.invars)]
    unsafe = implementation(eqn.invars[0].aval) == "unsafe_rbg"
    return _applied(eqn, f"ga_{'unsafe_' if unsafe else ''}fold_in({{0}}, {{1}})", operands)


# ---- bits ----


@rule("random_bits")
def _bits(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    keys, shape = eqn.invars[0].aval, eqn.params["shape"]
    kind = type_of(eqn)
    place = linear(at[keys.ndim :], shape)
    if implementation(keys) != "threefry2x32":
        text = f"ga_philox_bits<{kind}>({{0}}, {{1}})"
    elif eqn.params.get("partitionable", False):
        text = f"ga_random_bits<{kind}>({{0}}, {{1}})"
    else:
        text = f"ga_random_old_bits<{kind}, {math.prod(shape)}>({{0}}, {{1}})"
    return _applied(eqn, text, [get(0, at[: keys.ndim])], [place])


@rule("rng_bit_generator")
def _generator(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    state, bits = eqn.invars[0].aval, eqn.outvars[1].aval
    lead = list(at[: state.ndim - 1])
    shape = bits.shape[state.ndim - 1 :]
    wide = bits.dtype.itemsize == 8
    counted = eqn.params["algorithm"].name == "RNG_THREE_FRY"
    size = math.prod(shape)
    axis, padded = (0, shape) if wide or not shape else pair_layout(shape)
    if counted:
        taken = size if wide or not shape else math.prod(padded) // 2
    else:
        taken = -(-(2 * size if wide else size) // 4)
    words = [get(0, [*lead, Index(constant=j)]) for j in range(state.shape[-1])]
    if number == 0:
        return _state_after(eqn, at, words, taken)
    call = "ga_key({})".format(", ".join(f"{{{j}}}" for j in range(len(words))))
    if len(words) == 2:
        call = "ga_key4({0}, {1})"
    key = Applied(tuple(words), template=call, type="ga_c128")
    kind, place = type_of(eqn, 1), at[state.ndim - 1 :]
    if not counted:
        text, where = f"ga_philox_bits<{kind}>({{0}}, {{1}})", [linear(place, shape)]
    elif wide:
        text, where = f"ga_counted_bits<{kind}>({{0}}, {{1}}, 2)", [linear(place, shape)]
    elif not shape:
        text, where = f"ga_counted_bits<{kind}>({{0}}, 0, 0)", []
    else:
        half, rest = place[axis].divided(2)
        halves = [n // 2 if d == axis else n for d, n in enumerate(padded)]
        pair = linear([half if d == axis else c for d, c in enumerate(place)], halves)
        text, where = f"ga_counted_bits<{kind}>({{0}}, {{1}}, {{2}})", [pair, rest]
    return _applied(eqn, text, [key], where, 1)


def _state_after(eqn: Eqn, at: Places, words: list[Access], taken: int) -> Access:
    """The same words, but for the counter in the second half."""
    kind = type_of(eqn)
    if len(words) == 2:
        pieces = [words[0], _applied(eqn, f"{{0}} + {taken}ull", words[1:])]
    else:
        counter = f"(((unsigned long long){{1}} << 32 | {{0}}) + {taken}ull)"
        pieces = [
            *words[:2],
            _applied(eqn, f"(unsigned){counter}", words[2:]),
            _applied(eqn, f"(unsigned)({counter} >> 32)", words[2:]),
        ]
    return chosen_along(at[-1], range(1, len(pieces) + 1), kind, lambda piece, _: pieces[piece])


@rule("random_gamma")
def _gamma(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    """Rejection for each element, from a key of its own."""
    keys, alpha = (a.aval for a in eqn.invars)
    own = alpha.shape[keys.ndim :]
    place = linear(at[keys.ndim :], own) if own else Index(constant=0)
    stream = int(eqn.params.get("partitionable", False))
    if implementation(keys) == "unsafe_rbg":
        stream = 2
    info = dtypes.finfo(alpha.dtype)
    drawn = np.dtype(f"uint{8 if info.nmant < 8 else info.bits}")
    kinds = f"{ct.memory_type(alpha)}, {ct.memory_type(ShapedArray((), drawn))}, {info.nmant}"
    draw = f"ga_random_gamma<{kinds}, {stream}, {str(eqn.params['log_space']).lower()}>"
    text = f"{draw}({_splitter(eqn, math.prod(own))}({{0}}, {{2}}), {{1}})"
    return _applied(eqn, text, [get(0, at[: keys.ndim]), get(1, at)], [place])


# ---- the same bits as another type ----


@rule("bitcast_convert_type")
def _bitcast(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    old, new = eqn.invars[0].aval, eqn.outvars[0].aval
    if old.ndim == new.ndim and old.dtype.itemsize == new.dtype.itemsize:
        return elementwise(eqn, number, at, get)
    piece = np.dtype(f"u{min(old.dtype.itemsize, new.dtype.itemsize)}")
    bits = 8 * piece.itemsize
    part = ct.value_type(ShapedArray((), piece))
    if old.ndim < new.ndim:
        word = cuda_rules.word_of(old.dtype, "{0}")
        text = cuda_rules.from_word(new.dtype, f"({part})({word} >> {{1}} * {bits}u)")
        return _applied(eqn, text.replace("{T}", type_of(eqn)), [get(0, at[:-1])], [at[-1]])
    count = old.shape[-1]
    whole = ct.value_type(ShapedArray((), np.dtype(f"u{new.dtype.itemsize}")))
    words = [
        f"({whole}){cuda_rules.word_of(old.dtype, f'{{{j}}}')} << {j * bits}" for j in range(count)
    ]
    text = cuda_rules.from_word(new.dtype, f"({whole})({' | '.join(words)})")
    operands = [get(0, [*at, Index(constant=j)]) for j in range(count)]
    return _applied(eqn, text.replace("{T}", type_of(eqn)), operands)
