"""make_user_context: what is traced depends on the value, in each thread on its own."""

import threading

import pytest

import gpuarray as ga


def test_functions_are_traced_once_for_each_value():
    context = ga.make_user_context()
    seen = []

    @ga.jit
    def f(x):
        seen.append(context.value)
        return x

    f(1.0)
    with context(2):
        f(1.0)
    with context(3):
        f(1.0)
        with context(True), ga.make_user_context()("other"):
            f(1.0)
        f(1.0)
    with context(2):
        f(1.0)
    f(1.0)
    assert seen == [None, 2, 3, True]


def test_a_context_has_a_value_in_each_thread_and_a_default():
    context = ga.make_user_context("default")
    found = []
    with context("mine"):
        thread = threading.Thread(target=lambda: found.append(context.value))
        thread.start()
        thread.join()
        assert context.value == "mine"
    assert found == ["default"] and context.value == "default"
    with pytest.raises(TypeError, match=r"must be hashable, got \[1\] of type <class 'list'>"):
        with context([1]):
            pass
    assert context.value == "default"


def test_the_value_outside_of_blocks():
    context = ga.make_user_context(1)
    with context(2):
        assert (context.value, context.get_global()) == (2, 1)


def test_the_value_outside_of_blocks_can_be_set_for_all_threads():
    context = ga.make_user_context(1)
    f = ga.jit(lambda x: x * context.value)
    found = []

    def elsewhere():
        found.append(float(f(1.0)))
        context.set_global(3)
        found.append(float(f(1.0)))

    assert f(1.0) == 1
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [1, 3] and f(1.0) == 3 and context.get_global() == 3
    with context(2):
        context.set_global(4)
        assert f(1.0) == 2
    assert f(1.0) == 4
    context.set_global(1.0)
    assert context.value == 1.0 and f(1) == 1.0
    with pytest.raises(TypeError, match="must be hashable"):
        context.set_global([])
