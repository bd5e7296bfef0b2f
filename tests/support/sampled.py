"""Tests that walk the samples of every primitive: one test a primitive, not one a sample.

A test costs pytest about a millisecond before it begins; most samples take less than that.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.config import config, settings, state
from tests.samples import Sample


def profiling_ended() -> None:
    """End the profiler's server and the trace that somebody began and did not end."""
    if ga.profiler._server is not None:
        ga.profiler.stop_server()
    ga.profiler._end()


@contextmanager
def settings_kept() -> Iterator[None]:
    """Undo what is done to the global settings, ours and those of NumPy's printer."""
    # Two dicts are compared, not a hundred settings one by one: this runs for every sample.
    before, printing = dict(vars(state)), np.get_printoptions()
    yield
    profiling_ended()
    if np.get_printoptions() != printing:
        np.set_printoptions(**printing)
    if vars(state) != before:
        for name in settings:
            if getattr(state, name) != before[name]:
                config.update(name, before[name])


def each_sample(found: Iterable[Sample]) -> Callable[[Callable], Any]:
    """Make a check of one sample a test of each primitive; it says which samples failed.

    64-bit samples run with enable_x64.
    """
    samples: dict[str, list[Sample]] = {}
    for s in found:
        samples.setdefault(s.primitive.name, []).append(s)

    def decorate(check: Callable[[Sample], None]) -> Callable:
        def test(name: str) -> None:
            failed = []
            for sample in samples[name]:
                with settings_kept(), ga.enable_x64(sample.wide or ga.config.jax_enable_x64):
                    try:
                        check(sample)
                    except Exception as error:
                        error.add_note(f"the sample: {sample}")
                        failed.append(error)
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(samples[name])} samples", failed)

        test.__name__, test.__doc__, test.__module__ = (
            check.__name__,
            check.__doc__,
            check.__module__,
        )
        test.check = check  # for those who have a sample  # pyright: ignore
        return pytest.mark.parametrize("name", samples)(test)

    return decorate
