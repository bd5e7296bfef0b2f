"""What else goes on in a process while it has native code: threads, forks, signals, callbacks, many
programs, its end.

In: programs in processes of their own. Out: NumPy's values all the time, and nothing left behind.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tests.support import natively

natively.need_compiler()

HEAD = """
import os, signal, sys, threading, time, warnings
import numpy as np
import gpuarray as ga, gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends.native import background, library, program
"""


def run(text: str, place: pathlib.Path, mode: str = "wait", **environment: str) -> str:
    """What a program prints."""
    (place / "work").mkdir(exist_ok=True)
    settings = {
        "GPUARRAY_NATIVE": mode,
        "GPUARRAY_CACHE_DIR": str(place / "cache"),
        "TMPDIR": str(place / "work"),
        "GPUARRAY_NUM_THREADS": "3",
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-c", HEAD + text],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list((place / "work").iterdir()) == []
    return done.stdout


def slow_compiler(place: pathlib.Path, seconds: float) -> str:
    """A compiler that takes its time."""
    path = place / "cxx"
    path.write_text(f'#!/bin/sh\ncase "$*" in *.cpp*) sleep {seconds};; esac\nexec c++ "$@"\n')
    path.chmod(0o700)
    return str(path)


LARGE = """
x = np.random.default_rng(0).standard_normal(1 << 19).astype("float32")
f = ga.jit(lambda x: gnp.sum(x * 2 + 1))
def right(y):
    return abs(float(y) - float((x.astype(float) * 2 + 1).sum())) < 1.0
"""


def test_a_child_forked_when_the_pool_works(tmp_path):
    """Both go on computing, while other threads of the parent do."""
    run(
        LARGE
        + """
assert right(f(x))
stop = False
def go_on():
    while not stop:
        assert right(f(x))
        time.sleep(0.002)  # the children want the cores too
threads = [threading.Thread(target=go_on) for _ in range(3)]
for t in threads: t.start()
children = []
warnings.simplefilter("ignore")
for _ in range(5):
    child = os.fork()
    if child == 0:
        ok = all(right(f(x)) for _ in range(3)) and right(ga.jit(lambda x: gnp.sum(1 + x * 2))(x))
        os._exit(0 if ok else 1)
    children.append(child)
    assert right(f(x))
assert [os.waitpid(c, 0)[1] for c in children] == [0] * 5
stop = True
for t in threads: t.join()
""",
        tmp_path,
    )


def test_a_child_forked_while_a_compiler_runs(tmp_path):
    """It ends without ending the compiler of its parent, or removing what that is making."""
    out = run(
        LARGE
        + """
for _ in range(3): assert right(f(x))
time.sleep(0.7)
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    assert right(f(x))
    sys.exit(0)  # by the way of atexit
assert os.waitpid(child, 0)[1] == 0
warnings.simplefilter("error")
assert background.wait(60)
assert right(f(x))
print(library.loaded())
""",
        tmp_path,
        "auto",
        CXX=slow_compiler(tmp_path, 1.5),
    )
    assert out.split() == ["1"]


def test_threads_call_while_a_program_is_replaced(tmp_path):
    out = run(
        """
sys.setswitchinterval(1e-5)
x = np.arange(12.0, dtype="float32").reshape(3, 4)
programs = [ga.jit(lambda x, n=n: (x * n + 1, gnp.sum(x) * n, x.T - n)) for n in range(6)]
wrong, stop = [], False
def go_on(k):
    while not stop:
        for n, f in enumerate(programs):
            a, b, c = f(x)
            ok = (np.asarray(a) == x * n + 1).all() and float(b) == 66 * n
            if not (ok and (np.asarray(c) == x.T - n).all()):
                wrong.append((k, n))
        time.sleep(0.002)  # the compiler wants the cores too
threads = [threading.Thread(target=go_on, args=(k,)) for k in range(4)]
for t in threads: t.start()
for _ in range(600):  # on a busy machine the threads begin late
    time.sleep(0.1)
    if background.wait(120) and library.loaded():
        break
time.sleep(0.2)
stop = True
for t in threads: t.join()
print(len(wrong), library.loaded() > 0)
""",
        tmp_path,
        "auto",
    )
    assert out.split() == ["0", "True"]


def test_warnings_that_are_errors_stay_in_the_background(tmp_path):
    """And later programs are compiled all the same."""
    out = run(
        LARGE
        + """
warnings.simplefilter("error")
load, fails = library.load, True
def failing(text):
    if fails:
        raise OSError("odd")
    return load(text)
library.load = failing
for _ in range(4): assert right(f(x))
assert background.wait(60)
program._possible, fails = True, False
g = ga.jit(lambda x: gnp.sum(x * 2 + 1) * 1)
for _ in range(4): assert right(g(x))
assert background.wait(60)
assert right(g(x)) and right(f(x))
print(library.loaded())
""",
        tmp_path,
        "auto",
    )
    assert out.split() == ["1"]


def test_the_settings_of_the_caller_hold_in_the_background(tmp_path):
    run(
        """
def f(x):
    y = lax.fori_loop(0, 3, lambda i, c: c * 2 + gnp.sum(c) + i, x)
    return gnp.mean(y, keepdims=True) + y, gnp.argmax(y), gnp.dot(y, y)
for wide in (True, False):
    with ga.enable_x64(wide):
        x = gnp.arange(5) / 3
        g = ga.jit(f)
        before = g(x)
        for _ in range(3): g(x)
        assert background.wait(120)
        after = g(x)
        for a, b in zip(before, after):
            assert a.dtype == b.dtype, (a.dtype, b.dtype)
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-13 if wide else 1e-5)
assert library.loaded()
""",
        tmp_path,
        "auto",
    )


@pytest.mark.skipif(not pathlib.Path("/proc/self/maps").exists(), reason="the system has no /proc")
def test_programs_that_are_gone_leave_nothing_loaded(tmp_path):
    out = run(
        """
def maps():
    return sum(".so" in line and "cache" in line for line in open("/proc/self/maps"))
for round in range(3):
    fs = [ga.jit(lambda x, n=n: gnp.sum(x * n + 1)) for n in range(8)]
    for n in range(1, 4):
        for k, f in enumerate(fs):
            assert float(f(np.ones(n, "float32"))) == (k + 1) * n
    print(library.loaded(), maps())
    del fs, f
    ga.clear_caches()
    import gc; gc.collect()
    print(library.loaded(), maps())
""",
        tmp_path,
    )
    rows = [tuple(map(int, line.split())) for line in out.splitlines()]
    assert rows[0][0] >= 20
    assert rows[1::2] == [rows[1]] * 3
    assert rows[1][0] == 0
    assert rows[1][1] <= 8  # the pool's


def test_more_programs_than_may_be_loaded(tmp_path):
    """Those that come later are NumPy's, until others are gone; no word is said."""
    out = run(
        """
warnings.simplefilter("error")
library.PROCESSOR = library.PROCESSOR.replace(units=5)
fs = [ga.jit(lambda x, n=n: gnp.sum(x * n + 1)) for n in range(12)]
x = np.ones(3, "float32")
for _ in range(2): assert [float(f(x)) for f in fs] == [3.0 * (n + 1) for n in range(12)]
print(library.loaded())
del fs
ga.clear_caches()
import gc; gc.collect()
g = ga.jit(lambda x: gnp.sum(x * 3 - 1))
assert float(g(x)) == 6
print(library.loaded())
""",
        tmp_path,
    )
    assert out.split() == ["5", "1"]


def test_a_program_that_goes_while_a_thread_is_in_it(tmp_path):
    run(
        """
x = np.ones(1 << 22, "float32")
def one(n):
    f = ga.jit(lambda x: gnp.sum(gnp.sin(x * n)) * 0 + n)
    def call():
        assert float(f(x)) == n
    return threading.Thread(target=call)
for n in range(4):
    t = one(n)
    t.start()
    ga.clear_caches()
    import gc; gc.collect()
    t.join()
""",
        tmp_path,
    )


def test_ctrl_c_during_kernels(tmp_path):
    """It comes when the kernel is done; the next call is as if nothing had been."""
    out = run(
        """
x = np.linspace(0, 1, 1 << 22).astype("float32")
def body(x):
    for _ in range(12): x = gnp.sin(x) + gnp.exp(-x) * gnp.tanh(x)
    return x
f = ga.jit(body)
expected = np.asarray(f(x))
seen = 0
for k in range(6):
    signal.setitimer(signal.ITIMER_REAL, 0.01 + 0.01 * k)
    try:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        end = time.time() + 5
        while time.time() < end: f(x).block_until_ready()
    except KeyboardInterrupt:
        seen += 1
    assert (np.asarray(f(x)) == expected).all()
print(seen)
""",
        tmp_path,
    )
    assert out.split() == ["6"]


def test_a_handler_that_computes_within_a_loop(tmp_path):
    """A signal's handler calls the very program that it has interrupted."""
    out = run(
        """
f = ga.jit(lambda n, x: lax.fori_loop(0, n, lambda i, c: c * 0.5 + 1, x))
x = np.ones(1000, "float32")
expected = np.asarray(f(10, x))
inner = []
signal.signal(signal.SIGALRM, lambda *_: inner.append(np.asarray(f(10, x))))
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
end = time.time() + 20
while len(inner) < 3 and time.time() < end:
    y = np.asarray(f(1 << 18, x))
    assert (abs(y - 2) < 1e-5).all()
signal.setitimer(signal.ITIMER_REAL, 0)
assert all((y == expected).all() for y in inner)
print(len(inner) >= 3)
""",
        tmp_path,
    )
    assert out.split() == ["True"]


def test_callbacks_that_call_the_program_they_are_in(tmp_path):
    out = run(
        """
def host(n, x):
    return np.asarray(f(int(n) - 1, x)) if n > 0 else np.asarray(x)
@ga.jit
def f(n, x):
    y = x * 2 + 1
    y = ga.pure_callback(host, ga.ShapeDtypeStruct(x.shape, x.dtype), n, y)
    return gnp.cumsum(y) * 0 + y - 0.5
x = np.arange(5.0, dtype="float32")
expected = x
for _ in range(5): expected = expected * 2 + 1
expected = expected - 5 * 0.5
for _ in range(3): assert np.allclose(np.asarray(f(4, x)), expected), f(4, x)
def turn(c, _):
    c = ga.pure_callback(lambda c: np.asarray(g(c)), ga.ShapeDtypeStruct(c.shape, c.dtype), c)
    return c, c.sum()
g = ga.jit(lambda c: c * 2 + 1)
c, sums = ga.jit(lambda c: lax.scan(turn, c, None, length=3))(x)
assert np.allclose(c, ((x * 2 + 1) * 2 + 1) * 2 + 1)
print(library.loaded() > 0)
""",
        tmp_path,
    )
    assert out.split() == ["True"]


def test_the_end_of_a_process_while_it_computes(tmp_path):
    """Daemon threads are in the middle of native loops."""
    run(
        """
f = ga.jit(lambda n, x: lax.fori_loop(0, n, lambda i, c: c * 0.5 + 1, x))
x = np.ones(1000, "float32")
f(3, x).block_until_ready()
def go_on():
    while True: f(1 << 16, x).block_until_ready()
for _ in range(3): threading.Thread(target=go_on, daemon=True).start()
g = ga.jit(lambda x: gnp.sum(x * 3))
y = np.ones(1 << 20, "float32")
def sums():
    while True: g(y)
for _ in range(2): threading.Thread(target=sums, daemon=True).start()
time.sleep(0.3)
""",
        tmp_path,
    )


def test_threads_with_a_small_stack(tmp_path):
    """Transforms have registers on the stack, chains their blocks, LAPACK its matrix: where that is
    too small, another thread makes the call.
    """
    out = run(
        """
x = np.random.default_rng(0).standard_normal((1024, 16)).astype("float32")
long = np.random.default_rng(0).standard_normal(1 << 18)
def transform(x): return gnp.fft.fft(x, axis=0)
def chain(long):
    y = gnp.floor(long * 9).astype("int32") % 1000
    return long[y] + long[y + 7] * (long - y)
def factors(x): return lax.fori_loop(0, 3, lambda _, c: gnp.linalg.qr(c + 1)[0], x[:200])
functions = [(ga.jit(transform), x), (ga.jit(chain), long), (ga.jit(factors), x)]
def results(): return [np.asarray(f(a)).tobytes() for f, a in functions]
calls, helped = [], library.with_stack
library.with_stack = lambda call: calls.append(call) or helped(call)
expected = results()
assert not calls
found = []
for kilobytes in (64, 128, 1024):
    before = threading.stack_size(kilobytes << 10)
    thread = threading.Thread(target=lambda: found.append(results()))
    thread.start()
    thread.join()
    assert threading.stack_size(before) == kilobytes << 10
    assert found.pop() == expected
print(len(calls))
""",
        tmp_path,
    )
    assert out.split() == ["9"]
