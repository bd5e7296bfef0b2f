"""What may go wrong about compiling: NumPy goes on, with one warning, and no call fails.

In: no compiler, broken and slow ones, folders that cannot be written, files that are damaged, many
processes. Out: the right values, in processes of their own: each says but once what is wrong.
"""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys

import pytest

from tests.support import natively

natively.need_compiler()

#: Prints what the function returns, what kernels it has, and the warnings.
PROGRAM = """
import warnings
import numpy as np
import gpuarray as ga, gpuarray.numpy as gnp
from gpuarray.backends.native import background, library
library.PATIENCE = {patience}
f = ga.jit(lambda x: gnp.sum(x * 2 + 1))
g = ga.jit(lambda x: x * 3 - 1)
x = gnp.arange(8.0, dtype="float32")
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(3):
        assert float(f(x)) == 64.0
        assert np.asarray(g(x)).tolist() == [3.0 * i - 1 for i in range(8)]
    background.wait(60)
    assert float(f(x)) == 64.0
    assert np.asarray(g(x)).tolist() == [3.0 * i - 1 for i in range(8)]
print("kernels", len(library._units))
for w in seen:
    print("warned", w.category.__name__, str(w.message).replace(chr(10), " "))
"""

#: In every run in the background; the other mode takes the same way to the same faults.
MODES = pytest.mark.parametrize("mode", ["auto", pytest.param("wait", marks=pytest.mark.slow)])


def start(place: pathlib.Path, mode: str, patience: float = 60.0, **environment: str):
    """The program in a process of its own, with a cache of its own."""
    settings = {"GPUARRAY_NATIVE": mode, "GPUARRAY_CACHE_DIR": str(place), **environment}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(patience=patience)],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process) -> tuple[int, list[str]]:
    """How many units it has loaded, and its warnings."""
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    head, *warned = out.splitlines()
    return int(head.removeprefix("kernels ")), warned


def compiler(place: pathlib.Path, script: str) -> str:
    """A program in the place of a compiler."""
    path = place / "cxx"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return str(path)


@pytest.fixture
def cache(tmp_path):
    made = tmp_path / "cache"
    made.mkdir(mode=0o700)
    return made


@MODES
def test_no_fault(mode, cache):
    units, warned = ended(start(cache, mode))
    assert (units, warned) == (2, [])


@MODES
@pytest.mark.parametrize(
    "script",
    [
        'case "$*" in *.cpp*) kill -9 $$;; *) echo odd;; esac',
        pytest.param("echo broken >&2; exit 3", marks=pytest.mark.slow),
        pytest.param("kill -9 $$", marks=pytest.mark.slow),
        pytest.param("echo odd", marks=pytest.mark.slow),
    ],
    ids=["killed at work", "fails", "killed", "makes nothing"],
)
def test_a_broken_compiler(mode, script, tmp_path, cache):
    units, warned = ended(start(cache, mode, CXX=compiler(tmp_path, script)))
    assert units == 0
    assert len(warned) == 1
    assert "NumPy runs a program" in warned[0]


@MODES
def test_no_compiler(mode, tmp_path, cache):
    units, warned = ended(start(cache, mode, PATH=str(tmp_path), CXX=""))
    assert units == 0
    assert len(warned) == 1
    assert "no C++ compiler" in warned[0]


@MODES
def test_a_compiler_that_takes_too_long(mode, tmp_path, cache):
    slow = compiler(tmp_path, 'case "$*" in *.cpp*) sleep 100;; *) echo slow;; esac')
    units, warned = ended(start(cache, mode, patience=0.5, CXX=slow))
    assert units == 0
    assert len(warned) == 1
    assert "took more than" in warned[0]


@MODES
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_that_cannot_be_written(mode, cache):
    (cache / "native").mkdir(mode=0o700)
    (cache / "native").chmod(stat.S_IRUSR | stat.S_IXUSR)
    units, warned = ended(start(cache, mode))
    assert units == 2
    assert all("cannot be kept" in w for w in warned)


@MODES
def test_a_cache_that_others_may_write(mode, cache):
    (cache / "native").mkdir()
    (cache / "native").chmod(0o777)
    units, warned = ended(start(cache, mode))
    assert units == 0
    assert len(warned) == 1
    assert "must be a folder of your own" in warned[0]


@MODES
def test_a_full_disk(mode, tmp_path, cache):
    """No file may be longer than some bytes, wherever it is."""
    cxx = compiler(tmp_path, 'ulimit -f 1; exec c++ "$@"')
    units, warned = ended(start(cache, mode, CXX=cxx))
    assert units == 0
    assert len(warned) == 1


def test_damaged_files_are_made_again(cache):
    ended(start(cache, "wait"))
    files = sorted((cache / "native").glob("*.so"))
    assert len(files) == 3  # two units and the pool
    for path, damage in zip(files, (b"", b"\x7fELF damaged", None), strict=True):
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] + data[-100:] if damage is None else damage)
    units, warned = ended(start(cache, "wait"))
    assert (units, warned) == (2, [])


def test_kept_files_serve_the_next_process(cache):
    ended(start(cache, "wait"))
    before = {p.name: p.stat().st_ino for p in (cache / "native").iterdir()}
    units, warned = ended(start(cache, "wait"))
    assert (units, warned) == (2, [])
    assert {p.name: p.stat().st_ino for p in (cache / "native").iterdir()} == before


@pytest.mark.slow
def test_many_processes_at_once(cache):
    running = [start(cache, ("wait", "auto")[i % 2]) for i in range(32)]
    found = [ended(p) for p in running]
    assert found == [(2, [])] * 32


def test_the_end_of_a_process_ends_its_compilers(tmp_path, cache):
    """And what they were making is removed."""
    program = """
import sys, gpuarray as ga, gpuarray.numpy as gnp
x = gnp.arange(8.0)
f = ga.jit(lambda x: x * 2 + 1)
f(x), f(x), f(x)
import time; time.sleep(1)
"""
    slow = compiler(
        tmp_path, f'case "$*" in *.cpp*) echo $$ > {tmp_path}/pid; sleep 100;; *) echo slow;; esac'
    )
    (tmp_path / "work").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "GPUARRAY_NATIVE": "auto",
            "GPUARRAY_CACHE_DIR": str(cache),
            "CXX": slow,
            "TMPDIR": str(tmp_path / "work"),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "pid").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert list((tmp_path / "work").iterdir()) == []
