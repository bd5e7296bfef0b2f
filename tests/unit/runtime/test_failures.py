"""What a failure leaves behind: errors, interrupts and signals at every step of lazy work.

In: recorded operations of which one fails, or an exception raised at one line of the library after
another. Out: the values that need what failed raise, every other value is what NumPy says, at once
and later, in this thread and in others.
"""

import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.backends.numpy import memory
from gpuarray.core.layout import resolving, unclear_is_whole
from gpuarray.core.trace import current
from gpuarray.errors import JaxRuntimeError
from gpuarray.extend.core import Primitive

PACKAGE = str(Path(ga.__file__).parent)
#: Recorded and run on the caller's thread; recorded and run by a worker.
SIZES = (100_000, 1 << 21)


class Injected(RuntimeError):
    """Raised by the tests."""


def boom(*_):
    raise Injected("on purpose")


def like(x):
    return ga.ShapeDtypeStruct(x.shape, x.dtype)


def ask(x):
    """What the first elements are, or the kind of error."""
    try:
        return np.asarray(x)[:2].tolist()
    except JaxRuntimeError:
        return "failed"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("order", range(5))
def test_a_failed_callback_reaches_the_values_that_need_it(size, order):
    x = gnp.zeros(size).block_until_ready()
    w = x + 3.0
    y = ga.pure_callback(boom, like(x), x)
    v = w * y
    u = w * 2.0
    later = [(w, [3, 3]), (y, "failed"), (v, "failed"), (u, [6, 6]), (w + u, [9, 9])]
    for array, expected in later[order:] + later[:order]:
        assert ask(array) == expected
    # New work in the same thread takes nothing for something else.
    t = x + 1000.0
    assert ask(w * 2.0) == [6, 6] and ask(t) == [1000, 1000]
    assert ask(y + t) == "failed" and ask(y) == "failed"


@pytest.mark.parametrize("size", SIZES)
def test_nobody_else_hears_of_a_failure(size):
    """Neither the operation that fills the recording up, nor a jitted call, nor a barrier."""
    x = gnp.zeros(size).block_until_ready()
    y = ga.pure_callback(boom, like(x), x)
    z = x
    for _ in range(300):
        z = z + 1.0
    assert float(ga.jit(lambda a: a.sum())(x)) == 0
    ga.effects_barrier()
    assert y.is_ready() in (True, False)
    assert ask(z) == [300, 300] and ask(y) == "failed"
    y.delete()
    assert y.is_deleted()


@pytest.mark.parametrize("size", SIZES)
def test_what_failed_for_a_while_is_computed_when_asked_again(size):
    fails = [True]

    def sometimes(v):
        if fails[0]:
            raise MemoryError("not now")
        return np.asarray(v) + 1

    x = gnp.zeros(size).block_until_ready()
    y = ga.pure_callback(sometimes, like(x), x)
    z = y * 2.0
    assert ask(z) == "failed"
    fails[0] = False
    assert ask(z) == [2, 2] and ask(y) == [1, 1]


@pytest.mark.parametrize("size", SIZES)
def test_failures_in_other_threads(size):
    x = gnp.zeros(size).block_until_ready()
    made, seen = {}, []

    def work(n):
        w = x + float(n)
        y = ga.pure_callback(boom, like(x), x + float(n))
        made[n] = (w, y, w * 2.0, y * 2.0)

    def look(n):
        w, y, u, v = made[n]
        seen.append(
            [ask(v), ask(u), ask(w + x), ask(y)] == ["failed", [2 * n] * 2, [n] * 2, "failed"]
        )

    for task in (work, look):
        threads = [threading.Thread(target=task, args=(n,)) for n in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
    assert seen == [True] * 8


def test_a_deleted_operand_is_not_taken_for_the_next_one():
    x, y = gnp.zeros(100_000).block_until_ready(), gnp.ones(100_000).block_until_ready()
    x.delete()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="deleted"):
            x + 1.0
        assert ask(y + 1.0) == [2, 2]


@pytest.mark.parametrize("donate", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_what_is_deleted_in_flight_is_still_read_by_what_came_before(size, donate):
    f = ga.jit(lambda a: gnp.sin(a) + 1.0)
    for _ in range(20):
        x = f(gnp.zeros(size))
        y = x * 2.0
        z = gnp.ones(size) + x
        if donate:
            ga.jit(lambda a: a.at[:].set(9.0), donate_argnums=0)(x)
        else:
            x.delete()
        assert ask(y) == [2, 2] and ask(z + y) == [4, 4]


# ---- a failure at every step ----


def next_to(v):
    return np.asarray(v) + 1


def program(size):
    """Recorded work with a dead value, two results and a callback; what each array must hold."""
    x = gnp.full((size,), 2.0)
    yield x, 2
    a = x + 1.0
    yield a, 3
    b = (a * 4.0) - x
    yield b, 10
    c = ga.pure_callback(next_to, like(x), b)
    yield c, 11
    yield np.asarray(a).sum(), 3 * size
    yield c * a, 33
    yield gnp.sort(a)[::-1] + c, 14


def raise_at(count, error, run):
    """Call `run`, raising `error` at the `count`-th line of the library it comes to; False where it
    has fewer lines.

    No collection of garbage meanwhile: what it calls would be counted too, and Python drops an
    exception that is raised there.
    """
    left = [count]

    def trace(frame, event, arg):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                sys.settrace(None)
                raise error("injected")
        return trace

    old = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        run()
    except (error, JaxRuntimeError):  # the second from within a callback
        pass
    finally:
        sys.settrace(old)
        gc.enable()
    return left[0] <= 0


@pytest.mark.parametrize(
    ("error", "compiled", "stride"),
    [
        (KeyboardInterrupt, True, 1),
        (MemoryError, True, 3),
        (Injected, True, 3),
        (KeyboardInterrupt, False, 97),
    ],
)
def test_an_exception_at_any_line_leaves_right_values(error, compiled, stride):
    """Each line of recording and running, and some of compiling."""
    size = 50_000
    for array, _ in list(program(size)):
        np.asarray(array)
    count, reached = 1, True
    while reached:
        made = []
        if not compiled:
            ga.clear_caches()

        def run(made=made):
            for pair in program(size):
                made.append(pair)
            for array, _ in made:
                np.asarray(array)

        reached = raise_at(count, error, run)
        for array, expected in made:
            np.testing.assert_array_equal(np.asarray(array), expected, err_msg=f"line {count}")
        fresh = gnp.full((size,), 5.0) * 2.0
        np.testing.assert_array_equal(np.asarray(fresh + 1.0), 11)
        count += stride
    assert count > 500  # the program has so many lines, or nothing was tried


def nested(x):
    """Traces inside traces: a jitted loop and a branch under vmap and grad."""
    step = lambda c, v: (c * 2.0 + v, c)
    loop = ga.jit(lambda y: ga.lax.scan(step, y, gnp.ones(3))[0])
    branch = lambda y: ga.lax.cond(y > 0, lambda z: z * 2.0, lambda z: z - 2.0, y)
    return ga.vmap(ga.grad(lambda y: ga.checkpoint(loop)(branch(y)) ** 2))(x)


def test_an_interrupt_leaves_no_trace_behind(stride=9973):
    """Neither at any call of the library's, nor where a block that changes the trace is left."""
    expected = np.asarray(nested(gnp.ones(3)))
    double = lambda x: x * 2.0
    outermost = {
        "stage_aux": lambda: ga.jit(lambda x: x * 2.0)(1.0),
        "batch_aux": lambda: ga.vmap(double)(gnp.ones(3)),
        "jvp_aux": lambda: ga.jvp(double, (1.0,), (1.0,)),
        "linearize_flat": lambda: ga.grad(double)(1.0),
    }
    for name, run in outermost.items():
        hit = []

        def at_exit(frame, event, _, name=name, hit=hit):
            back = frame.f_back
            leaves = event == "call" and frame.f_code is current.__exit__.__code__
            if leaves and back is not None and back.f_code.co_name == name:
                sys.settrace(None)
                hit.append(name)
                raise KeyboardInterrupt

        sys.settrace(at_exit)
        try:
            run()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        assert hit == [name]  # or nothing was tried
        np.testing.assert_array_equal(gnp.ones(3) + 1.0, 2.0)
        np.testing.assert_array_equal(nested(gnp.ones(3)), expected)
    count, reached = 1, True
    while reached:
        ga.clear_caches()
        reached = raise_at(count, KeyboardInterrupt, lambda: nested(gnp.ones(3)))
        np.testing.assert_array_equal(gnp.ones(3) + 1.0, 2.0)
        np.testing.assert_array_equal(nested(gnp.ones(3)), expected)
        assert resolving.depth == 0
        count += stride
    assert count > 2 * stride


def test_an_interrupt_does_not_make_unclear_layouts_whole():
    """Where a context is left that derived programs are in, none is left behind."""
    at_end = type(unclear_is_whole()).__exit__.__code__

    def at_exit(frame, event, _):
        if event == "call" and frame.f_code is at_end:
            sys.settrace(None)
            raise KeyboardInterrupt

    sys.settrace(at_exit)
    try:
        with unclear_is_whole():
            assert resolving.depth == 1
    except KeyboardInterrupt as error:
        assert error.__traceback__ is not None
    finally:
        sys.settrace(None)
    assert resolving.depth == 0


def test_an_interrupt_is_heard_and_loses_nothing():
    """A real signal, in the middle of long work."""

    def handler(*_):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, handler)
    try:
        for delay in (0.001, 0.003, 0.01, 0.03):
            x = gnp.ones(3_000_000)
            values = [x]
            try:
                signal.setitimer(signal.ITIMER_REAL, delay)
                for _ in range(40):
                    values.append(gnp.sqrt(values[-1] * values[-1]) + 1.0)
                    if len(values) % 9 == 0:
                        values[-1].block_until_ready()
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            for i, v in enumerate(values):
                np.testing.assert_allclose(np.asarray(v)[::100_000], i + 1, rtol=1e-5)
    finally:
        signal.signal(signal.SIGALRM, old)


# ---- work inside work ----


@pytest.mark.parametrize("size", SIZES)
def test_a_callback_may_read_what_is_computed_beside_it(size):
    x = gnp.zeros(size).block_until_ready()
    p = x + 5.0
    q = ga.pure_callback(lambda v: np.asarray(p * 2.0) + np.asarray(v), like(x), x)
    assert ask(q + p) == [15, 15] and ask(p) == [5, 5]


# A small jitted call is over before anybody has its result.
@pytest.mark.parametrize(
    ("size", "jitted"), [(SIZES[0], False), (SIZES[1], False), (SIZES[1], True)]
)
def test_a_value_that_needs_itself_is_an_error(size, jitted):
    x = gnp.zeros(size).block_until_ready()
    cell, go = [], threading.Event()

    def circular(v):
        go.wait(10)
        return np.asarray(cell[0]) + v

    f = lambda a: ga.pure_callback(circular, like(x), a)
    y = ga.jit(f)(x) if jitted else f(x)
    cell.append(y)
    go.set()
    with pytest.raises(JaxRuntimeError, match="depends on itself"):
        y.block_until_ready()
    assert ask(x + 1.0) == [1, 1]


def test_a_callback_may_wait_for_work_behind_its_own():
    size = SIZES[1]
    x = gnp.zeros(size).block_until_ready()
    cell, go = [], threading.Event()

    def waits(v):
        go.wait(10)
        return np.asarray(cell[0]) + np.asarray(v)

    first = ga.jit(lambda a: ga.pure_callback(waits, like(x), a) * 2.0)(x)
    second = ga.jit(lambda a: gnp.cos(a) + 1.0)(x)
    cell.append(second)
    go.set()
    assert ask(first) == [4, 4]


def test_programs_run_inside_callbacks_and_implementations():
    f = ga.jit(lambda a: gnp.sin(a) * 2.0 + gnp.arange(3.0))
    expected = np.sin(1) * 2 + np.arange(3)
    g = ga.jit(lambda a: ga.pure_callback(lambda v: f(v) + 0.0, like(a), a))
    np.testing.assert_allclose(g(gnp.ones(3)), expected, rtol=1e-6)
    prim = Primitive("written_with_gnp")
    prim.def_impl(lambda a: f(a) + gnp.zeros(3))
    np.testing.assert_allclose(prim.bind(gnp.ones(3)), expected, rtol=1e-6)


def test_a_signal_handler_may_compute():
    seen, wrong, over = [], [], False

    def handler(*_):
        seen.append(float((gnp.ones(100_000) * 2.0).sum()) + float(gnp.ones(3).sum()))
        if not over:  # a last signal may be heard after the timer was stopped
            signal.setitimer(signal.ITIMER_REAL, 0.0007)

    f = ga.jit(lambda a: a * 2.0 + 1.0)
    f(gnp.ones(3))  # a handler that interrupts the trace of a function computes inside of it
    old = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            a = gnp.ones(50_000) * 3.0
            b = a + 1.0
            got = [float((b * a)[7]), float(f(gnp.ones(3))[1]), float((gnp.ones(3) * 2.0)[0])]
            if got != [12, 3, 2]:
                wrong.append(got)
    finally:
        over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert not wrong and len(seen) > 10 and set(seen) == {200_003.0}


# ---- processes ----


def in_child(check) -> bool:
    """Whether `check()` is true in a forked child that ends within a minute."""
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = bool(check())
        finally:
            os._exit(0 if good else 1)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_computes():
    big = gnp.ones(3_000_000).block_until_ready()
    recorded, small = gnp.sin(big) + 1.0, gnp.cos(gnp.ones(50_000)) * 2.0
    f = ga.jit(lambda a: gnp.exp(a) - 1.0)
    in_flight = f(big)

    def check():
        values = [recorded[5], small[5], in_flight[5], (big * 2.0).sum(), f(big)[3]]
        product = (gnp.ones((400, 400)) @ gnp.ones((400, 400)))[0, 0]
        expected = [np.sin(1) + 1, 2 * np.cos(1), np.e - 1, 6e6, np.e - 1, 400]
        return np.allclose([float(v) for v in (*values, product)], expected, rtol=1e-5)

    assert in_child(check)
    assert check()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_while_other_threads_work():
    """Locks that another thread holds at the fork are open in the child."""
    stop = threading.Event()
    x = gnp.ones(60_000).block_until_ready()

    def busy(n):
        k = 0
        while not stop.is_set():
            k += 1
            ((x + float(n)) * 2.0).block_until_ready()
            ga.jit(lambda a, k=k: a + k)(x).block_until_ready()  # compiles each time

    threads = [threading.Thread(target=busy, args=(n,), daemon=True) for n in range(3)]
    for t in threads:
        t.start()
    try:
        for _ in range(8):
            assert in_child(
                lambda: float(ga.jit(lambda a: gnp.tanh(a * 0.0 + 3.0))(x + 1.0)[0]) > 0
            )
    finally:
        stop.set()
        for t in threads:
            t.join(60)


# ---- results that no memory holds ----

TOO_LARGE = [
    lambda n: gnp.ones(n) + gnp.arange(n),
    lambda n: gnp.cumsum(gnp.ones(n)),
    lambda n: gnp.sort(gnp.ones(n)),
    lambda n: gnp.concatenate([gnp.ones(n), gnp.zeros(n)]),
    lambda n: gnp.zeros(n).at[3].set(1.0),
    lambda n: gnp.ones((n // 1000, 1)) @ gnp.ones((1, 1000)),
    lambda n: ga.random.normal(ga.random.key(0), (n,)),
    lambda n: ga.jit(lambda: gnp.arange(n) * 2.0)(),
    lambda n: ga.vmap(lambda i: i * 2)(gnp.arange(n)),
]


@pytest.mark.parametrize("number", range(len(TOO_LARGE)))
def test_what_no_memory_holds_is_refused_before_any_work(number, monkeypatch):
    memory.free()
    monkeypatch.setattr(memory, "machine_bytes", lambda: 1 << 21)
    with pytest.raises(ga.errors.OutOfMemory, match="bytes; this machine has 2,097,152"):
        TOO_LARGE[number](1_000_003).block_until_ready()


def test_what_was_not_made_is_not_among_the_arrays_alive(monkeypatch):
    memory.free()
    held = gnp.ones(100_003).block_until_ready()
    monkeypatch.setattr(memory, "machine_bytes", lambda: 1 << 21)
    with pytest.raises(ga.errors.OutOfMemory) as caught:
        (gnp.arange(1_000_003) * 2).block_until_ready()
    listed = str(caught.value).split("The largest live arrays:")[1]
    assert "float32[100003]" in listed and "1000003" not in listed
    assert held.shape == (100_003,)


def test_arrays_that_are_being_made_are_not_counted():
    """By other threads, at any moment: nobody hears of them before they are whole."""
    kept = gnp.ones(100_003).block_until_ready()
    fields = {name: getattr(kept, name) for name in ("aval", "_place", "_bufs")}
    for count in range(len(fields) + 1):
        part = type(kept).__new__(type(kept))
        for name in list(fields)[:count]:
            setattr(part, name, fields[name])
        assert all(a is not part for a in ga.live_arrays())
        assert ga.memory_stats()["arrays"] == len(ga.live_arrays())
        del part


def test_what_is_never_held_may_be_larger_than_memory(monkeypatch):
    """A fold takes its operand tile by tile; a view of one number takes no memory."""
    memory.free()
    monkeypatch.setattr(memory, "machine_bytes", lambda: 1 << 22)
    n = 3_000_017
    # Outside of `assert`, which keeps the arrays that it meets: native code would write them out.
    total, one = gnp.ones(n).sum(), gnp.ones(n)[5]
    assert float(total) == n and one == 1
    assert ga.jit(lambda: (gnp.ones(n) * 2).max())() == 2
