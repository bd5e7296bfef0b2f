"""Programs of 2 and 4 processes (tests/mpi/jobs.py), started by mpiexec as users start them.

Nothing here depends on time: a job that hangs is ended after LIMIT seconds, and fails.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest

from gpuarray.cli import launch
from tests.support import ROOT

LIMIT = 60


def _missing() -> str:
    """Why nothing can be started here, or nothing."""
    mpiexec = launch.find_mpiexec()
    if mpiexec is None or shutil.which("timeout") is None:
        return "no mpiexec here: pip install 'gpuarray-runtime[mpi]'"
    said = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False)
    # `launch` starts MPICH's. Open MPI's wants leave to run as root, and a network for each rank.
    other = re.search("Open ?MPI|OpenRTE", said.stdout + said.stderr)
    return f"{mpiexec} is Open MPI's, not MPICH's" if other else ""


pytestmark = pytest.mark.skipif(bool(_missing()), reason=_missing())
pytest.importorskip("mpi4py", reason="mpi4py is not installed: pip install 'gpuarray-runtime[mpi]'")


@pytest.fixture(scope="module")
def isolation():
    """Options of `launch`: a network namespace of their own, where the system permits it."""
    unshare = shutil.which("unshare")
    permitted = unshare and not subprocess.run([unshare, "-rn", "true"], check=False).returncode
    return ["--isolated"] if permitted else []


@pytest.fixture
def job(isolation):
    """Run a job; its exit status and what it wrote."""

    def run(name, *arguments, ranks=2, devices=1, **settings):
        options = ["-n", str(ranks), "--local-devices", str(devices), *isolation]
        words = launch.parser().parse_args(
            [*options, "-m", "tests.mpi.jobs", name, *map(str, arguments)]
        )
        # Plans are checked where the tests of one process run them.
        given = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "GPUARRAY_CHECK_PLANS": "0"}
        given |= {**os.environ, "PYTHONPATH": str(ROOT), **settings}
        return subprocess.run(
            ["timeout", "-k", "5", str(LIMIT), *launch.command(words)],
            cwd=ROOT,
            env=given | launch.environment(ranks, devices, given),
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def passed(done):
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_arrays_over_two_processes(job):
    passed(job("arrays", devices=2))


def test_collectives_of_every_dtype_are_those_of_vmap(job):
    passed(job("collectives", devices=4))


def test_collectives_of_four_processes_are_those_of_vmap(job):
    passed(job("collectives", "float32,float16,int8", ranks=4))


def test_collectives_in_loops_and_in_small_messages(job):
    passed(job("loops", devices=2))


@pytest.mark.parametrize("ranks", [2, 4])
def test_exchanges_overlap(job, ranks):
    out = passed(job("overlap", ranks=ranks, devices=4 // ranks))
    assert int(out.split(" at a time")[0].split()[-1]) > 1


def test_training_is_that_of_one_process(job):
    out = passed(job("training", devices=2))
    # Who prints on one process only holds nobody up.
    assert out.count("step 0: loss") == 3 and out.count("trained") == 2


def test_a_checkpoint_is_restored_on_another_number_of_processes(job, tmp_path):
    passed(job("save", tmp_path, ranks=4))
    assert len(list(tmp_path.glob("*.npz"))) == 4
    passed(job("restore", tmp_path, ranks=2, devices=1))


@pytest.mark.parametrize("threshold", [0, 1 << 16], ids=["recorded", "at once"])
def test_eager_and_compiled_operations_in_turn(job, threshold):
    """Operations that send nothing may wait, in one process for longer than in another."""
    out = passed(job("mixed", devices=2, GPUARRAY_LAZY_THRESHOLD=str(threshold)))
    assert "mean 12.0 300000.0" in out and out.count("mixed done") == 2


def test_multihost_utils(job):
    passed(job("helpers", devices=2))


@pytest.mark.parametrize("ranks, devices", [(2, 1), (2, 2)])
def test_pmap_over_processes(job, ranks, devices):
    passed(job("mapped", ranks=ranks, devices=devices))


def test_an_error_in_one_process_ends_the_job(job):
    done = job("raises")
    assert done.returncode == 1, done.stderr
    assert "process 1 of 2:" in done.stderr
    assert "ArithmeticError: process 1 gives up" in done.stderr


def test_a_killed_process_ends_the_job(job):
    assert job("killed").returncode == 9


def test_a_process_that_waits_too_long_says_where_and_ends_the_job(job):
    done = job("stuck")
    assert done.returncode == 70, done.stderr
    said = r"process 0 of 2 has waited \d+ s for other processes in exchange number \d+: psum"
    assert re.search(said, done.stderr)
    line = 1 + next(
        i
        for i, text in enumerate((ROOT / "tests/mpi/jobs.py").read_text().splitlines())
        if "the line that is named" in text
    )
    assert f"jobs.py:{line}:" in done.stderr
    assert "collective_timeout" in done.stderr


def test_python_functions_run_once(job):
    out = passed(job("callbacks"))
    assert out.count("the sum is 28.0") == 1


def test_processes_that_run_different_programs_are_told(job):
    # Sets of strings have another order in each process: it must not matter.
    out = passed(job("different", PYTHONHASHSEED="random"))
    assert out.count("found different programs") == 2


def test_the_exit_status_of_the_program_is_that_of_launch(isolation):
    line = ["launch", "-n", "2", *isolation, "-m", "tests.mpi.jobs", "leaves"]
    done = subprocess.run(
        ["timeout", "-k", "5", str(LIMIT), sys.executable, "-m", "gpuarray", *line],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 5, done.stderr
