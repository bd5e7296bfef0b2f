"""Structs that stand for arrays and for mutable references: printed forms, equality, tracing."""

import pytest

import gpuarray as ga
import gpuarray.numpy as gnp

PLAIN = ga.ShapeDtypeStruct((2,), "float32")
REF = ga.ShapeDtypeStruct((2,), "float32", is_ref=True)


def bump(ref):
    ref[...] += 1.0
    return ref[...].sum()


def test_a_struct_of_a_reference():
    assert repr(REF) == "ShapeDtypeStruct(shape=(2,), dtype=float32, is_ref=True)"
    assert REF.is_ref and not PLAIN.is_ref and REF != PLAIN and hash(REF) != hash(PLAIN)
    assert REF == ga.ShapeDtypeStruct((2,), "float32", is_ref=True)
    assert REF.update(shape=(3,)).is_ref and not REF.update(is_ref=False).is_ref
    assert repr(ga.typeof(REF)) == "Ref{float32[2]}"


def test_tracing_for_references():
    assert ga.eval_shape(bump, REF) == ga.ShapeDtypeStruct((), "float32")
    assert ga.eval_shape(lambda pair: bump(pair[1]), (PLAIN, REF)).shape == ()
    stated, made = ga.make_jaxpr(bump)(REF), ga.make_jaxpr(bump)(ga.new_ref(gnp.zeros(2)))
    assert str(stated) == str(made)


def test_a_program_lowered_for_a_reference_writes_to_one():
    compiled = ga.jit(bump).lower(REF).compile()
    ref = ga.new_ref(gnp.ones(2))
    assert float(compiled(ref)) == 4.0
    assert ref[...].tolist() == [2.0, 2.0]


def test_a_reference_is_not_returned():
    with pytest.raises(ValueError, match="returned a mutable array reference"):
        ga.eval_shape(lambda ref: ref, REF)


def test_what_a_struct_cannot_be():
    with pytest.raises(ValueError, match="sharding should be an instance"):
        ga.ShapeDtypeStruct((2,), "float32", sharding=3)
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        ga.ShapeDtypeStruct((2, 2.5), "float32")
