"""Compiling while NumPy answers: one thread that takes programs in the order of their asking.

Floor 4. In: a job. Out: nothing; it is done some time later. The thread starts with the first job.
When the process ends, running jobs are ended: compilers too, whose files are then removed.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import os
import threading
from collections.abc import Callable

from gpuarray.backends import hostcc

#: Seconds that the end of the process waits for the thread to clean up.
_PATIENCE = 2.0


class _Worker:
    """The thread, and the jobs that wait for it."""

    def __init__(self):
        self.jobs: collections.deque[Callable[[], None]] = collections.deque()
        self.changed = threading.Condition()
        self.thread: threading.Thread | None = None
        self.busy = self.ended = False

    def submit(self, job: Callable[[], None]) -> None:
        with self.changed:
            self.jobs.append(job)
            if self.thread is None:
                # A daemon: the end of the process does not wait for a compiler.
                self.thread = threading.Thread(target=self.run, name="gpuarray-native", daemon=True)
                self.thread.start()
            self.changed.notify_all()

    def run(self) -> None:
        while True:
            with self.changed:
                self.busy = False
                self.changed.notify_all()
                while not self.jobs and not self.ended:
                    self.changed.wait()
                if self.ended:
                    return
                job, self.busy = self.jobs.popleft(), True
            # A warning that the user has turned into an error, for example: continue with the next
            # job.
            with contextlib.suppress(Exception):
                job()
            del job  # it holds a program

    def wait(self, timeout: float | None) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: not self.jobs and not self.busy, timeout)

    def end(self) -> None:
        with self.changed:
            self.ended = True
            self.jobs.clear()
            self.changed.notify_all()
        hostcc.stop()
        if self.thread is not None:
            self.thread.join(_PATIENCE)


_worker = _Worker()


def submit(job: Callable[[], None]) -> None:
    """Run a job on the thread; its errors are ignored."""
    _worker.submit(job)


def wait(timeout: float | None = None) -> bool:
    """Wait until no job is left; return whether that is so."""
    return _worker.wait(timeout)


def _renew() -> None:
    """Begin anew in a forked child, where the thread does not live."""
    global _worker
    _worker = _Worker()


os.register_at_fork(after_in_child=_renew)
atexit.register(lambda: _worker.end())
