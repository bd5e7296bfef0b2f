"""Compiled functions as bytes: they compute the same where they are loaded, or say why not."""

import subprocess
import sys

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.experimental import serialize_executable as se


def step(state, *, rate):
    return {"w": state["w"] - rate * gnp.tanh(state["w"]), "n": state["n"] + 1}


ARGUMENTS = {"w": np.arange(3, dtype=np.float32), "n": np.int32(4)}


def stored():
    return se.serialize(ga.jit(step).lower(ARGUMENTS, rate=0.5).compile())


def test_a_loaded_program_computes_the_same():
    loaded = se.deserialize_and_load(*stored())
    found = loaded(ARGUMENTS, rate=0.5)
    w = ARGUMENTS["w"]
    np.testing.assert_allclose(found["w"], w - 0.5 * np.tanh(w), 1e-6)
    assert found["n"] == 5
    assert loaded.as_text() and loaded.input_shardings
    with pytest.raises(TypeError):
        loaded({"w": np.zeros(4, np.float32), "n": np.int32(4)}, rate=0.5)


def test_a_program_is_loaded_where_its_code_is_not(tmp_path):
    data, _, _ = se.serialize(ga.jit(lambda x: gnp.sin(x) * 2).lower(np.ones(3, "f")).compile())
    (tmp_path / "program").write_bytes(data)
    code = (
        "import sys, gpuarray as ga, numpy as np\n"
        "from gpuarray.experimental import serialize_executable as se\n"
        "trees = [ga.tree.structure(((0,), {})), ga.tree.structure(0)]\n"
        "f = se.deserialize_and_load(open(sys.argv[1], 'rb').read(), *trees)\n"
        "print(np.asarray(f(np.ones(3, 'f'))).tolist())"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "program")]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    np.testing.assert_allclose(eval(out), np.sin(np.ones(3)) * 2, 1e-6)


def test_it_is_compiled_for_the_device_that_is_asked_for():
    loaded = se.deserialize_and_load(*stored(), backend="simulator")
    assert loaded(ga.device_put(ARGUMENTS, "simulator"), rate=0.5)["w"].device.platform == (
        "simulator"
    )
    (device,) = ga.devices("cpu")[:1]
    loaded = se.deserialize_and_load(*stored(), execution_devices=[device])
    assert loaded(ARGUMENTS, rate=0.5)["n"] == 5


def test_what_cannot_be_stored_or_loaded_says_so():
    data, ins, outs = stored()
    with pytest.raises(ValueError, match="damaged"):
        se.deserialize_and_load(data[:-1] + b"x", ins, outs)
    with pytest.raises(ValueError, match="structures that `serialize` returned"):
        se.deserialize_and_load(data, outs, ins)
    with pytest.raises(ValueError, match="other than `backend`"):
        se.deserialize_and_load(data, ins, outs, "simulator", ga.devices("cpu")[:1])
    with pytest.raises(ValueError, match="one device"):
        se.deserialize_and_load(data, ins, outs, None, [])
    with pytest.raises(TypeError, match="compiled function"):
        se.serialize(step)
    ref = ga.new_ref(gnp.zeros(2))
    compiled = ga.jit(lambda: ref[...] + 1).lower().compile()
    with pytest.raises(ValueError, match="mutable references"):
        se.serialize(compiled)
