"""Samples of random keys, their bits and the generators with a state."""

from __future__ import annotations

from gpuarray.core import dtypes
from gpuarray.primitives.random.ops import RandomAlgorithm, implementations
from tests.samples import Table

SAMPLES: Table = {}

_SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (2, 3)]
_KEYS = ("key<fry>", "key<rbg>")


def add(name: str, operands, domain=None, **params) -> None:
    SAMPLES.setdefault(name, []).append((operands, params, domain))


for _impl in implementations.values():
    for _shape in _SHAPES:
        add("random_wrap", [((*_shape, *_impl.key_shape), "uint32")], "any", impl=_impl)
        for _kind in ("int32", "uint32", "uint8", "int64"):
            if _kind == "int32" or _shape == (2, 3):
                add("random_seed", [(_shape, _kind)], "any", impl=_impl)

# Conversions to and from an extended dtype, here that of keys of two words.
_DTYPE = dtypes.KeyDtype(implementations["threefry2x32"])
for _shape in _SHAPES:
    add("to_edtype", [((*_shape, 2), "uint32")], "any", edtype=_DTYPE)
    add("from_edtype", [(_shape, "key<fry>")], dtype=dtypes.uint32)

for _key in _KEYS:
    for _shape in _SHAPES:
        add("random_unwrap", [(_shape, _key)])
        add("random_clone", [(_shape, _key)])
        add("random_fold_in", [(_shape, _key), (_shape, "uint32")], "any")
        for _more in [(2,), (0,), (2, 2)]:
            for _part in (False, True):
                add("random_split", [(_shape, _key)], shape=_more, partitionable=_part)
    for _width in (8, 16, 32, 64):
        for _shape in [(), (0,), (1,), (7,), (3, 4)]:
            for _part in (False, True):
                add(
                    "random_bits",
                    [((), _key)],
                    bit_width=_width,
                    shape=_shape,
                    partitionable=_part,
                )
    for _lead in [(0,), (1,), (2, 2)]:
        add("random_bits", [(_lead, _key)], bit_width=32, shape=(3,), partitionable=False)

# The unsafe generator splits and mixes keys in a way of its own.
for _shape in [(), (2, 3)]:
    add("random_fold_in", [(_shape, "key<urbg>"), (_shape, "uint32")], "any")
    add("random_split", [(_shape, "key<urbg>")], shape=(2, 2), partitionable=False)

for _algorithm in RandomAlgorithm:
    for _kind in ("uint32", "uint8", "uint16", "uint64"):
        for _shape in _SHAPES:
            add(
                "rng_bit_generator",
                [((4,), "uint32")],
                "any",
                shape=_shape,
                dtype=dtypes.as_dtype(_kind),
                algorithm=_algorithm,
                out_sharding=None,
            )

for _log in (False, True):
    for _key in _KEYS:
        for _lead, _shape in [((), ()), ((), (0,)), ((1,), (1,)), ((), (2, 3)), ((2,), (2, 3))]:
            for _kind in ("float32", "bfloat16"):
                add(
                    "random_gamma",
                    [(_lead, _key), (_shape, _kind)],
                    [None, (0.1, 4)],
                    log_space=_log,
                    partitionable=False,
                )
