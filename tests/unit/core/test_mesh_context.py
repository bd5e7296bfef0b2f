"""The mesh that a thread works with (`core/mesh_context.py`).

The figures are those of JAX 0.10.2 for the same calls.
"""

import threading

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.core.mesh import contexts
from gpuarray.core.mesh_context import EMPTY, EMPTY_ABSTRACT, entered_mesh
from gpuarray.core.sharding import Device
from gpuarray.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
)

DEVICES = np.array([Device("cpu", i) for i in range(8)], dtype=object)
MESH = Mesh(DEVICES.reshape(4, 2), ("x", "y"))
OTHER = Mesh(DEVICES[:2], "z")
AXES = AbstractMesh((4, 2), ("a", "b"))


def test_nothing_is_set_at_first():
    assert get_mesh() is EMPTY is Mesh(None, ()) and get_mesh().empty
    assert get_abstract_mesh() is EMPTY_ABSTRACT is AbstractMesh((), ())
    assert entered_mesh() is EMPTY and contexts.key is None
    assert repr(EMPTY) == "Mesh(axis_sizes=(), axis_names=())" and str(EMPTY) == "Mesh()"


def test_set_mesh_in_a_block():
    assert ga.set_mesh is set_mesh
    with set_mesh(MESH) as given:
        assert given is None
        assert get_mesh() is MESH and get_abstract_mesh() is MESH.abstract_mesh
        key = contexts.key
        with set_mesh(OTHER):
            assert get_mesh() is OTHER and contexts.key not in (None, key)
        with set_mesh(None):
            assert get_mesh() is EMPTY and get_abstract_mesh() is EMPTY_ABSTRACT
            assert contexts.key is None
        assert get_mesh() is MESH and contexts.key == key
    assert get_mesh() is EMPTY and contexts.key is None


def test_set_mesh_from_now_on():
    set_mesh(MESH)
    try:
        assert get_mesh() is MESH
    finally:
        set_mesh(None)
    assert get_mesh() is EMPTY and contexts.key is None


def test_use_abstract_mesh():
    with use_abstract_mesh(AXES) as given:
        assert given is None
        assert get_abstract_mesh() is AXES and get_mesh() is EMPTY
        # Other axes for as many devices, or none at all.
        with use_abstract_mesh(AbstractMesh((2, 4), ("c", "d"))):
            assert get_abstract_mesh().axis_names == ("c", "d")
        with use_abstract_mesh(AbstractMesh((), ())):
            assert get_abstract_mesh() is EMPTY_ABSTRACT
        with pytest.raises(ValueError, match=r"size=2 and prev mesh: .* with size=8"):
            with use_abstract_mesh(AbstractMesh((2,), ("c",))):
                pass
        assert get_abstract_mesh() is AXES
    with set_mesh(MESH), use_abstract_mesh(AXES):
        assert get_abstract_mesh() is AXES and get_mesh() is MESH


def test_blocks_are_left_by_errors_too():
    with pytest.raises(KeyError):
        with set_mesh(MESH), use_abstract_mesh(AXES):
            raise KeyError
    assert contexts.key is None


def test_a_mesh_as_a_block_is_deprecated():
    with pytest.warns(DeprecationWarning, match=r"use `with set_mesh\(mesh\):`"):
        with MESH as given:
            assert given is MESH is entered_mesh()
            # It is a context of its own.
            assert get_mesh() is EMPTY and get_abstract_mesh() is EMPTY_ABSTRACT
            with OTHER:
                assert entered_mesh() is OTHER
            assert entered_mesh() is MESH and contexts.key is not None
    assert entered_mesh() is EMPTY and contexts.key is None

    @MESH
    def inside(x):
        return x, entered_mesh()

    with pytest.warns(DeprecationWarning):
        assert inside(3) == (3, MESH)


def test_contexts_are_those_of_a_thread():
    seen = []
    with set_mesh(MESH):
        thread = threading.Thread(target=lambda: seen.append((get_mesh(), contexts.key)))
        thread.start()
        thread.join()
    assert seen == [(EMPTY, None)]


def test_meshes_are_set_outside_of_transformations():
    x = gnp.ones(2)
    for transform in (ga.jit, ga.vmap, ga.make_jaxpr, lambda f: ga.grad(lambda x: f(x).sum())):
        with pytest.raises(ValueError, match="`set_mesh` can only be used outside"):
            transform(lambda x: (set_mesh(None), x)[1])(x)
        with pytest.raises(ValueError, match="`get_mesh` can only be used outside"):
            transform(lambda x: (get_mesh(), x)[1])(x)
    seen = []
    with use_abstract_mesh(AXES):
        ga.jit(lambda x: (seen.append(get_abstract_mesh()), x)[1])(x)
    assert seen == [AXES]


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: set_mesh(AXES), "Expected mesh of type `sharding.Mesh`. Got .*AbstractMesh"),
        (lambda: set_mesh("x"), "Expected mesh of type `sharding.Mesh`. Got .*str"),
        (lambda: set_mesh(Mesh(DEVICES, "x", AxisType.Manual)), "contains manual axes"),
        (lambda: use_abstract_mesh(MESH), "Expected mesh of type `sharding.AbstractMesh`"),
        (lambda: use_abstract_mesh(None), "Got type: <class 'NoneType'>"),
    ],
)
def test_misuse(make, message):
    with pytest.raises(ValueError, match=message):
        make()
    assert contexts.key is None
