"""Element rules of random keys and bits: each element is computed from a key and its own index.

Floor 2. In: equations on keys, key words and seeds. Out: accesses, as in core/element_rules.py.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.element import Access, Applied, Constant
from gpuarray.core.element_rules import ElementRule, Get, Places, stretched
from gpuarray.core.graph import Eqn
from gpuarray.core.index import Index, linear
from gpuarray.primitives.elements import called, chosen_along
from gpuarray.primitives.random.host import pair_layout

#: Generators of keys of Threefry-2x32, or of two of them.
_OF_THREEFRY = ("threefry2x32", "rbg", "unsafe_rbg")
#: Operations of a hash, roughly.
HASH = 80.0
#: Generators made from one hash: the prefix of their functions' names.
_HASHES = {"philox2x32": "ga_phx2", "philox4x32": "ga_phx4", "threefry4x32": "ga_fry4"}


def _implementation(aval: ShapedArray) -> str:
    """Return the name of the generator of typed keys."""
    return aval.dtype.impl.name if isinstance(aval.dtype, dtypes.KeyDtype) else ""


def is_known(keys: ShapedArray) -> bool:
    """Whether the generator of keys has CUDA text: one of a user's own has none."""
    return _implementation(keys) in (*_OF_THREEFRY, *_HASHES)


def _is_known(eqn: Eqn) -> bool:
    """Rule `when`: whether the operand's generator has CUDA text."""
    return is_known(eqn.invars[0].aval)


def _four(aval: ShapedArray) -> bool:
    """Whether keys have four words."""
    return aval.dtype.impl.key_shape == (4,)


def _fits(eqn: Eqn) -> bool:
    """Rule `when`: whether kernels have a type for keys: one, two or four words along one axis."""
    keys = (eqn.invars[0].aval, eqn.outvars[0].aval)
    (dtype,) = (a.dtype for a in keys if isinstance(a.dtype, dtypes.KeyDtype))
    return dtype.impl.key_shape in ((1,), (2,), (4,))


def _key_of(words: int) -> str:
    """Return the call that builds a key from its words; a single word is the key itself."""
    if words == 1:
        return "{0}"
    # Templates are formatted later: the braces of the places have to survive this f-string.
    return f"ga_key({', '.join(f'{{{j}}}' for j in range(words))})"


# ---- keys ----


def _wrap(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    # The words of a key are along the last axis of the operand.
    (words,) = eqn.outvars[0].aval.dtype.impl.key_shape
    operands = [get(0, [*at, Index(constant=j)]) for j in range(words)]
    return called(eqn, _key_of(words), operands)


def _unwrap(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    text = "{0}" if eqn.invars[0].aval.dtype.impl.key_shape == (1,) else "ga_key_word({0}, {1})"
    return called(eqn, text, [get(0, at[:-1])], [at[-1]])


def _seed(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    keys = "ga_seed4" if _four(eqn.outvars[0].aval) else "ga_seed"
    if prefix := _HASHES.get(_implementation(eqn.outvars[0].aval)):
        keys = f"{prefix}_seed"
    return called(eqn, f"{keys}({{0}})", [get(0, at)])


def _seed_cost(eqn: Eqn) -> float:
    """The cost of a key from a seed: for most generators the seed's words, some hash them."""
    return HASH if _implementation(eqn.outvars[0].aval) in _HASHES else eqn.primitive.weight


def _split(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    keys, shape = eqn.invars[0].aval, eqn.params["shape"]
    # The number of a new key, in row-major order, is its counter.
    text = f"{_splitter(eqn, math.prod(shape))}({{0}}, {{1}})"
    return called(eqn, text, [get(0, at[: keys.ndim])], [linear(at[keys.ndim :], shape)])


def _splitter(eqn: Eqn, count: int) -> str:
    """Return the function that computes one of the `count` keys a key is split into."""
    if _implementation(eqn.invars[0].aval) == "unsafe_rbg":
        return "ga_unsafe_split"
    if prefix := _HASHES.get(_implementation(eqn.invars[0].aval)):
        return f"{prefix}_split"
    if eqn.params.get("partitionable", False):
        return "ga_split"
    # The older scheme needs the number of keys: it hashes counters in pairs.
    return f"ga_old_split<{count}u>"


def _fold_in(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    operands = [get(i, stretched(a.aval.shape, at)) for i, a in enumerate(eqn.invars)]
    name = _implementation(eqn.invars[0].aval)
    prefix = _HASHES.get(name, "ga_unsafe" if name == "unsafe_rbg" else "ga")
    return called(eqn, f"{prefix}_fold_in({{0}}, {{1}})", operands)


WRAP = ElementRule(_wrap, when=_fits)
UNWRAP = ElementRule(_unwrap, when=_fits)
SEED = ElementRule(_seed, when=lambda eqn: is_known(eqn.outvars[0].aval), cost=_seed_cost)
SPLIT = ElementRule(_split, when=_is_known)
FOLD_IN = ElementRule(_fold_in, when=_is_known)


# ---- bits ----


def _has_bits(eqn: Eqn) -> bool:
    """Rule `when`: whether the stream has CUDA text; the older one only where it is short."""
    # The original stream is made in pairs half a stream apart, by 32-bit counters.
    older = not eqn.params.get("partitionable", False)
    many = math.prod(eqn.params["shape"]) >= 2**32 - 1
    too_many = _implementation(eqn.invars[0].aval) == "threefry2x32" and older and many
    return _is_known(eqn) and not too_many


def _bits(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    keys, shape = eqn.invars[0].aval, eqn.params["shape"]
    more = {}
    if prefix := _HASHES.get(_implementation(keys)):
        text = f"{prefix}_bits<{{T}}>({{0}}, {{1}})"
    elif _implementation(keys) != "threefry2x32":
        text = "ga_philox_bits<{T}>({0}, {1})"
    elif eqn.params.get("partitionable", False):
        text = "ga_random_bits<{T}>({0}, {1})"
    else:
        size = math.prod(shape)
        text = f"ga_random_old_bits<{{T}}, {size}>({{0}}, {{1}})"
        # A block of the hash is a word of each half; elements of 64 bits are both words already.
        if eqn.params["bit_width"] < 64 and size % (64 // eqn.params["bit_width"]) == 0:
            more = {"halved": f"ga_random_half_bits<{{T}}, {size}>({{0}}, {{1}}, u)", "count": size}
    return called(eqn, text, [get(0, at[: keys.ndim])], [linear(at[keys.ndim :], shape)], **more)


def _generator(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    # Leading axes are those of the states: each has its own stream.
    state, bits = eqn.invars[0].aval, eqn.outvars[1].aval
    lead = list(at[: state.ndim - 1])
    shape = bits.shape[state.ndim - 1 :]
    wide = bits.dtype.itemsize == 8
    counted = eqn.params["algorithm"].name == "RNG_THREE_FRY"
    size = math.prod(shape)
    # `taken`: how far the counter moves. Threefry counts pairs of words, Philox blocks of four.
    axis, padded = (0, shape) if wide or not shape else pair_layout(shape)
    if counted:
        taken = size if wide or not shape else math.prod(padded) // 2
    else:
        taken = -(-(2 * size if wide else size) // 4)
    # Result 0 is the state afterwards, result 1 the bits.
    words = [get(0, [*lead, Index(constant=j)]) for j in range(state.shape[-1])]
    if number == 0:
        return _state_after(eqn, at, words, taken)
    call = "ga_key4({0}, {1})" if len(words) == 2 else _key_of(len(words))
    # A key of four words is stored as a complex number.
    key = Applied(tuple(words), ShapedArray((), dtypes.complex128), template=call)
    place = at[state.ndim - 1 :]
    if not counted:
        text, where = "ga_philox_bits<{T}>({0}, {1})", [linear(place, shape)]
    elif wide:
        text, where = "ga_counted_bits<{T}>({0}, {1}, 2)", [linear(place, shape)]
    elif not shape:
        text, where = "ga_counted_bits<{T}>({0}, 0, 0)", []
    else:
        # Two words of 32 bits for each count: neighbours along `axis`.
        half, rest = place[axis].divided(2)
        halves = [n // 2 if d == axis else n for d, n in enumerate(padded)]
        pair = linear([half if d == axis else c for d, c in enumerate(place)], halves)
        text, where = "ga_counted_bits<{T}>({0}, {1}, {2})", [pair, rest]
    return called(eqn, text, [key], where, 1)


def _state_after(eqn: Eqn, at: Places, words: list[Access], taken: int) -> Access:
    """Return a word of the state afterwards: the counter, its second half, has moved."""
    # The counter moves by as much as the call has used.
    more = Constant(taken, ShapedArray((), dtypes.uint64))
    if len(words) == 2:
        pieces = [words[0], called(eqn, "{0} + {1}", [words[1], more])]
    else:
        counter = "((({uint64}){1} << 32 | {0}) + {2})"
        pieces = [
            *words[:2],
            called(eqn, f"({{T}}){counter}", [*words[2:], more]),
            called(eqn, f"({{T}})({counter} >> 32)", [*words[2:], more]),
        ]
    aval = eqn.outvars[0].aval
    return chosen_along(at[-1], range(1, len(pieces) + 1), aval, lambda piece, _: pieces[piece])


BITS = ElementRule(_bits, when=_has_bits)
GENERATOR = ElementRule(_generator)


# ---- numbers ----


def _gamma(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    """Marsaglia and Tsang's rejection method, with a key for each element."""
    keys, alpha = (a.aval for a in eqn.invars)
    # Elements that share a key get a key each, split from it.
    own = alpha.shape[keys.ndim :]
    place = linear(at[keys.ndim :], own) if own else Index(constant=0)
    # How keys are split further, and bits drawn from them.
    name = _implementation(keys)
    stream = "ga_new" if eqn.params.get("partitionable", False) else "ga_old"
    stream = _HASHES.get(name, "ga_unsafe" if name == "unsafe_rbg" else stream)
    info = dtypes.finfo(alpha.dtype)
    drawn = np.dtype(f"uint{8 if info.nmant < 8 else info.bits}")
    log_space = str(eqn.params["log_space"]).lower()
    draw = f"ga_random_gamma<{{M}}, {{{drawn.name}}}, {info.nmant}, {stream}_keys, {log_space}>"
    text = f"{draw}({_splitter(eqn, math.prod(own))}({{0}}, {{2}}), {{1}})"
    return called(eqn, text, [get(0, at[: keys.ndim]), get(1, at)], [place])


GAMMA = ElementRule(_gamma, when=_is_known)
