"""Spare threads do parts of a job, and a caller does those that none has begun."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from threading import Event, Thread, get_ident

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.system import spare_threads
from slimdex.system.spare_threads import begin, in_parallel

LONGEST = 20.0


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare_threads, "cores", lambda: 2)


@pytest.fixture
def busy() -> Iterator[None]:
    """The one spare thread has other work."""
    begun, done = Event(), Event()

    def work(_: int) -> bool:
        begun.set()
        return done.wait(LONGEST)

    (future,) = begin(work, [0])
    assert begun.wait(LONGEST)
    yield
    done.set()
    assert future.result(LONGEST)


def fail(begun: Event | None = None) -> None:
    assert begun is None or begun.wait(LONGEST)
    raise ZeroDivisionError


def test_a_spare_thread_works_beside_the_caller() -> None:
    begun = Event()

    def work(_: int) -> int:
        begun.set()
        return get_ident()

    with in_parallel(work, [0]) as results:
        assert begun.wait(LONGEST)
        assert results() != [get_ident()]


@pytest.mark.usefixtures("busy")
def test_parts_that_no_thread_has_begun_are_the_callers() -> None:
    with in_parallel(lambda part: (part, get_ident()), [1, 2]) as results:
        assert results() == [(1, get_ident()), (2, get_ident())]


@pytest.mark.usefixtures("busy")
def test_after_an_error_of_the_caller_no_part_begins() -> None:
    done = list[int]()
    with pytest.raises(ZeroDivisionError), in_parallel(done.append, [1, 2]):
        fail()
    assert not done


def test_parts_that_run_have_ended_after_an_error_of_the_caller() -> None:
    begun, ended = Event(), list[int]()

    def work(part: int) -> None:
        begun.set()
        Event().wait(0.05)
        ended.append(part)

    with pytest.raises(ZeroDivisionError), in_parallel(work, [1]):
        fail(begun)
    assert ended == [1]


def test_an_error_of_a_part_is_the_callers() -> None:
    with in_parallel(lambda part: 1 // part, [1, 0]) as results, pytest.raises(ZeroDivisionError):
        results()


def test_one_processor_has_no_spare_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare_threads, "cores", lambda: 1)
    with in_parallel(lambda _: get_ident(), [0]) as results:
        assert results() == [get_ident()]


@given(st.lists(st.integers(), max_size=9), st.integers(1, 4))
def test_many_callers_get_their_own_results(numbers: list[int], callers: int) -> None:
    found = dict[int, list[int]]()

    def call(own: int) -> None:
        with in_parallel(lambda part: part + own, numbers) as results:
            found[own] = results()

    threads = [Thread(target=call, args=(own,)) for own in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST)
    assert found == {own: [number + own for number in numbers] for own in range(callers)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    test_a_spare_thread_works_beside_the_caller()
    if not (forked := os.fork()):
        signal.alarm(20)
        try:
            test_a_spare_thread_works_beside_the_caller()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(forked, 0)[1] == 0
