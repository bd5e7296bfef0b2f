"""`python -m gpuarray launch`: the command that it writes. tests/mpi runs it."""

import os
import sys

import pytest

from gpuarray.cli import launch, main


def test_the_settings_of_many_processes():
    found = launch.environment(1000, 3, {"OMP_NUM_THREADS": "7", "UCX_TLS": "all"})
    assert found["OPENBLAS_NUM_THREADS"] == "1"
    assert found["MPIR_CVAR_POLLS_BEFORE_YIELD"] == "0"
    assert found["GPUARRAY_NUM_CPU_DEVICES"] == "3"
    # What the user set stays.
    assert "OMP_NUM_THREADS" not in found and "UCX_TLS" not in found


def test_one_process_has_all_cores():
    found = launch.environment(1, None, {})
    assert int(found["OMP_NUM_THREADS"]) >= 1
    assert "MPIR_CVAR_POLLS_BEFORE_YIELD" not in found
    assert "GPUARRAY_NUM_CPU_DEVICES" not in found


def test_the_command(monkeypatch, capsys):
    monkeypatch.setattr(launch, "find_mpiexec", lambda: "/opt/mpiexec")
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: object())
    line = ["launch", "-n", "2", "--dry-run", "train.py", "--rate", "1", "-n", "9"]
    assert main.run(line) == 0
    words = capsys.readouterr().out.split()
    assert words[-8:] == ["-n", "2", sys.executable, "train.py", "--rate", "1", "-n", "9"]
    assert words[-9] == "/opt/mpiexec"
    assert main.run(["launch", "-n", "2", "--dry-run", "-m", "train", "x"]) == 0
    assert f"{sys.executable} -m train x" in capsys.readouterr().out


@pytest.mark.parametrize("lacking", ["mpiexec", "mpi4py"])
def test_without_mpi(monkeypatch, capsys, lacking):
    found = None if lacking == "mpiexec" else "/opt/mpiexec"
    monkeypatch.setattr(launch, "find_mpiexec", lambda: found)
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None)
    assert main.run(["launch", "-n", "2", "train.py"]) == 2
    words = capsys.readouterr().err
    assert lacking in words and "gpuarray-runtime[mpi]" in words


@pytest.mark.parametrize("line", [["train.py"], ["-n", "0", "train.py"], ["-n", "2"]])
def test_a_command_that_lacks_something(line, capsys):
    with pytest.raises(SystemExit) as info:
        launch.run(line)
    assert info.value.code == 2 and "usage" in capsys.readouterr().err
    assert os.environ.get("PMI_RANK") is None
