"""Work shared by threads, and how many of them BLAS has."""

import concurrent.futures
import sys
import threading
import types
import weakref

import pytest

import gpuarray as ga
from gpuarray.core import threads


@pytest.fixture(autouse=True)
def three(monkeypatch):
    ga.config.update("num_threads", 3)
    yield
    ga.config.update("num_threads", 0)


@pytest.mark.parametrize("size, step", [(0, 4), (1, 4), (10, 4), (1000, 1)])
def test_each_part_is_done_once(size, step):
    done = []
    threads.each(lambda part: done.extend(range(size)[part]), size, step)
    assert sorted(done) == list(range(size))


def test_several_threads_take_part():
    # All parts wait for one another, so that one thread alone would not come to the second.
    together = threading.Barrier(3, timeout=30)
    seen = set()

    def work(parts):
        for _ in parts:
            together.wait()
            seen.add(threading.get_ident())

    threads.share(work, range(3))
    assert len(seen) == 3


def test_work_inside_work_ends():
    # Each worker would wait for a worker, if the one that waits did not do the work itself.
    inner = []

    def outer(part):
        threads.each(lambda some: inner.append(some.start), 40, 1)

    threads.each(outer, 12, 1)
    assert sorted(inner) == sorted(list(range(40)) * 12)


def test_an_error_of_a_thread_is_the_callers():
    def fail(part):
        raise ValueError(f"part {part.start}")

    with pytest.raises(ValueError, match="part"):
        threads.each(fail, 8, 1)


@pytest.mark.parametrize("busy", [False, True], ids=["done", "cancelled"])
def test_workers_keep_nothing_of_what_is_done(busy, monkeypatch):
    # Workers that hold what they were given for good, as real ones do for a moment.
    held = []

    class Workers(concurrent.futures.ThreadPoolExecutor):
        def submit(self, function, /, *arguments):
            held.append(arguments)
            if busy:  # never begun, so that it is cancelled
                return concurrent.futures.Future()
            return super().submit(function, *arguments)

    class Work:
        def __call__(self, parts):
            list(parts)

    class Part:
        pass

    with Workers(2) as workers:
        monkeypatch.setattr(threads, "_pool", lambda: workers)
        work, parts = Work(), [Part() for _ in range(6)]
        gone = [weakref.ref(one) for one in (work, *parts)]
        threads.share(work, parts)
        del work, parts
        assert len(held) == 2
        assert [ref() for ref in gone] == [None] * 7


class Limits:
    """What threadpoolctl keeps of the numbers that were set."""

    now = 8

    def __init__(self, count, user_api):
        assert user_api == "blas"
        self.before, Limits.now = Limits.now, count

    def restore_original_limits(self):
        Limits.now = self.before


def test_blas_has_as_many_threads(monkeypatch):
    found = [{"user_api": "blas", "internal_api": "openblas", "num_threads": 8}]
    stand_in = types.SimpleNamespace(threadpool_limits=Limits, threadpool_info=lambda: found)
    stand_in.__spec__ = types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "threadpoolctl", stand_in)
    monkeypatch.setattr(threads, "_threadpoolctl", stand_in)
    monkeypatch.setattr(threads, "_limits", None)
    ga.config.update("num_threads", 2)
    assert Limits.now == 2
    ga.config.update("num_threads", 5)
    assert Limits.now == 5
    assert list(threads.blas_threads()) == [("openblas", 8)]
    ga.config.update("num_threads", 0)
    assert Limits.now == 8


def test_without_threadpoolctl_blas_keeps_its_number(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ga.config.update("num_threads", 2)
    assert threads.thread_count() == 2 and list(threads.blas_threads()) == []
