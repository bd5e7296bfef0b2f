"""What may go wrong about compiling: NumPy goes on, with one warning, and no call fails.

In: no compiler, broken and slow ones, folders that cannot be written, files that are damaged, many
processes. Out: the right values, in processes of their own: each says but once what is wrong.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from gpuarray.backends import store
from gpuarray.backends.native import library
from tests.support import natively

natively.need_compiler()

#: Prints what the function returns, what kernels it has, and the warnings.
PROGRAM = """
import warnings
import numpy as np
import gpuarray as ga, gpuarray.numpy as gnp
from gpuarray.backends import hostcc
from gpuarray.backends.native import background, library
library.PATIENCE = hostcc.PATIENCE = {patience}
{before}
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
print("kernels", library.loaded())
for w in seen:
    print("warned", w.category.__name__, str(w.message).replace(chr(10), " "))
"""

#: In every run in the background; the other mode takes the same way to the same faults.
MODES = pytest.mark.parametrize("mode", ["auto", pytest.param("wait", marks=pytest.mark.slow)])


def start(
    place: pathlib.Path, mode: str, patience: float = 60.0, before: str = "", **environment: str
):
    """The program in a process of its own, with a cache of its own; `before` does what is to go
    wrong.
    """
    settings = {"GPUARRAY_NATIVE": mode, "GPUARRAY_CACHE_DIR": str(place), **environment}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(patience=patience, before=before)],
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


#: Goes on to the name of what is to be made.
TO_THE_NAME = 'while [ "$1" != -o ]; do shift; done'
GARBAGE = f'case "$*" in *.cpp*) {TO_THE_NAME}; echo garbage > "$2";; *) echo odd;; esac'
EMPTY = (
    f'case "$*" in *.cpp*) {TO_THE_NAME}; exec c++ -shared -fPIC -x c++ /dev/null -o "$2";; '
    "*) echo odd;; esac"
)
HALF = f"""case "$*" in *.cpp*)
    c++ "$@"; {TO_THE_NAME}; head -c 4000 "$2" > "$2.half"; mv "$2.half" "$2"; kill -9 $$;;
    *) echo odd;; esac"""


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
        GARBAGE,
        EMPTY,
        pytest.param("echo broken >&2; exit 3", marks=pytest.mark.slow),
        pytest.param("kill -9 $$", marks=pytest.mark.slow),
        pytest.param("echo odd", marks=pytest.mark.slow),
        pytest.param(r"printf '\\377\\376' >&2; exit 1", marks=pytest.mark.slow),
        pytest.param(HALF, marks=pytest.mark.slow),
    ],
    ids=[
        *("killed at work", "makes garbage", "makes a library without functions", "fails"),
        *("killed", "makes nothing", "says what is no text", "killed half-way"),
    ],
)
def test_a_broken_compiler(mode, script, tmp_path, cache):
    units, warned = ended(start(cache, mode, CXX=compiler(tmp_path, script)))
    assert units == 0
    assert len(warned) == 1
    assert "NumPy runs a program" in warned[0]


@MODES
def test_no_compiler(mode, tmp_path, cache):
    """Said where it was asked for; nobody asked for what is done by default."""
    units, warned = ended(start(cache, mode, PATH=str(tmp_path), CXX=""))
    assert units == 0
    assert len(warned) == (mode == "wait")
    assert all("no C++ compiler" in w for w in warned)


def test_a_compiler_with_arguments(tmp_path, cache):
    """Such as that of ccache."""
    other = compiler(tmp_path, 'echo "$1" >> "$(dirname "$0")/called"; shift; exec c++ "$@"')
    units, warned = ended(start(cache, "wait", CXX=f"{other} gxx"))
    assert (units, warned) == (2, [])
    assert set((tmp_path / "called").read_text().split()) == {"gxx"}


@MODES
def test_a_compiler_that_takes_too_long(mode, tmp_path, cache):
    slow = compiler(tmp_path, 'case "$*" in *.cpp*) sleep 100;; *) echo slow;; esac')
    units, warned = ended(start(cache, mode, patience=0.5, CXX=slow))
    assert units == 0
    assert len(warned) == 1
    assert "took more than" in warned[0]


def test_a_compiler_that_never_says_what_it_is(tmp_path, cache):
    units, warned = ended(start(cache, "auto", patience=0.5, CXX=compiler(tmp_path, "sleep 100")))
    assert units == 0
    assert len(warned) == 1
    assert "took more than" in warned[0]


def test_a_compiler_that_always_fails_is_asked_no_more(tmp_path, cache):
    script = f'echo "$*" >> {tmp_path}/asked; case "$*" in *.cpp*) exit 1;; *) echo odd;; esac'
    more = """
ga.jit(lambda x: x * 2)(np.ones(4))
for n in range(2, 9):
    assert np.asarray(ga.jit(lambda x: x * n + 1)(np.ones(4))).tolist() == [n + 1.0] * 4
"""
    units, warned = ended(start(cache, "wait", before=more, CXX=compiler(tmp_path, script)))
    assert (units, warned) == (0, [])  # the warning came before
    asked = [line for line in (tmp_path / "asked").read_text().splitlines() if ".cpp" in line]
    assert len(asked) == 3


#: What the system says of a folder that is full, or that nothing can be written to.
DENIED = """
import errno, os
def deny(name, code, when=lambda *a, **k: True):
    real = getattr(os, name)
    def denied(*args, **kwargs):
        if when(*args, **kwargs):
            raise OSError(code, os.strerror(code))
        return real(*args, **kwargs)
    setattr(os, name, denied)
in_folder = lambda *args, dir_fd=None, **kwargs: dir_fd is not None
new = lambda path, flags, *args, dir_fd=None: dir_fd is not None and flags & os.O_CREAT
"""


@MODES
@pytest.mark.parametrize(
    "fault",
    [
        'deny("open", errno.EROFS, new)',
        pytest.param('deny("open", errno.ENOSPC, new)', marks=pytest.mark.slow),
        'deny("fchmod", errno.ENOSPC)',
        'deny("rename", errno.ENOSPC)',
        pytest.param('deny("mkdir", errno.EROFS)', marks=pytest.mark.slow),
        pytest.param('deny("scandir", errno.EIO)', marks=pytest.mark.slow),
    ],
    ids=["read-only", "full", "full at write", "full at rename", "no folders", "no list"],
)
def test_a_folder_that_refuses(mode, fault, cache):
    """No file can be made in any folder: the one that would be kept, and the temporary one."""
    units, warned = ended(start(cache, mode, before=DENIED + fault))
    assert units in (0, 2)
    assert len(warned) <= 2  # of the folder, and that NumPy goes on
    assert all("cannot be" in w or "could not be" in w for w in warned)


@MODES
def test_a_cache_that_cannot_be_written(mode, cache):
    """What was made serves this process from a temporary folder."""
    at = (
        DENIED
        + f"""
there = os.stat({str(cache)!r})
inside = lambda *a, dir_fd=None, **k: (
    dir_fd is not None and os.readlink(f"/proc/self/fd/{{dir_fd}}").startswith({str(cache)!r})
)
deny("rename", errno.EROFS, lambda *a, src_dir_fd=None, **k: inside(dir_fd=src_dir_fd))
"""
    )
    units, warned = ended(start(cache, mode, before=at))
    assert units == 2
    assert len(warned) == 1
    assert "cannot be kept" in warned[0]


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


def test_files_that_are_no_libraries_of_this_machine_are_made_again(cache):
    """Complete, and for this key, but of another kind of CPU, or without a function."""
    ended(start(cache, "wait"))
    files = sorted((cache / "native").glob("*.so"))
    for path, damage in zip(files, (b"\xb7\0", b"\xf3\0", None), strict=True):
        data = path.read_bytes()
        _, code, note, key = store._SIZES.unpack_from(data, len(data) - 32 - store._SIZES.size)
        text, rest = data[:code], data[code : code + note + key]
        text = b"no library" if damage is None else text[:18] + damage + text[20:]
        path.write_bytes(store._packed(text, rest[:note], rest[note:]))
    units, warned = ended(start(cache, "wait"))
    assert (units, warned) == (2, [])


def test_a_cpu_takes_no_file_of_another(cache):
    ended(start(cache, "wait"))
    before = set((cache / "native").iterdir())
    other = 'library._processor = lambda: "model name : another"'
    units, warned = ended(start(cache, "wait", before=other))
    assert (units, warned) == (2, [])
    assert len(set((cache / "native").iterdir()) - before) == 3


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


def test_partial_results_on_the_stack_are_aligned(cache):
    """A fold of 12 columns side by side, copied 16 bytes at a time: g++ 12 did not align it."""
    program = """
import numpy as np
import gpuarray as ga, gpuarray.numpy as gnp

def f(x, a, b, y):
    both = gnp.stack([y, y * a + b])
    return gnp.stack([x, x * a + b]), gnp.min(gnp.tanh(gnp.repeat(both, 2, axis=2)), axis=1)

x, y = np.float32([[[1, 2]]]), np.linspace(-2, 2, 36, dtype=np.float32).reshape(6, 6)
_, found = ga.jit(f)(x, np.float32(0.5), np.float32(1), y)
expected = np.tanh(np.repeat(np.stack([y, y * 0.5 + 1]), 2, axis=2)).min(axis=1)
np.testing.assert_allclose(found, expected, rtol=1e-5)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "GPUARRAY_NATIVE": "wait", "GPUARRAY_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_mistake_in_the_writer(cache):
    """Whatever it raises, NumPy goes on."""
    before = """
from gpuarray.backends.native import program
def mistaken(*_, **__):
    raise KeyError("a mistake")
program.NativeProgramWriter.write_steps = mistaken
"""
    for mode in ("auto", "wait"):
        units, warned = ended(start(cache, mode, before=before, GPUARRAY_STRICT="0"))
        assert units == 0
        assert len(warned) == 1
        assert "a mistake" in warned[0]


def test_functions_of_c_that_a_process_lacks_are_linked(monkeypatch):
    """Else a unit is linked with none of C's libraries, and finds them when it is loaded."""
    monkeypatch.setattr(library, "_OF_C", ("malloc", "no_such_function"))
    assert library._libraries_of_c.__wrapped__() == ("-lm", "-lc")
