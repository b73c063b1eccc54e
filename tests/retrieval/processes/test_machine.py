"""Three processes change and search one index and are killed, against every order of commits."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest.repairing import verify
from tests.chance import CHANCE, sweep
from tests.conftest import Report
from tests.encoders import WordEncoder
from tests.retrieval.crashes.faults import KILLS, compiled

from . import orders
from .orders import Orders, State
from .worker import DIM, SETTINGS, Order, Workers

FIRST = ("first", "tea and cake")
IDS = [f"id{i}" for i in range(10)]
LINES = range(5)
"""Documents of a synced file."""
TEXTS = st.lists(st.sampled_from(["tea", "cake", "rain", "ship"]), min_size=1, max_size=5).map(
    " ".join
)
ANY_IDS = st.lists(
    st.sampled_from([*IDS, *(f"file{w}-{i}" for w in range(3) for i in LINES)]),
    min_size=1,
    max_size=3,
    unique=True,
)
PLACES = st.integers(0, 2)
MANY = 100
"""Possible states above which all processes say what they see: each kill may double them."""
CHANGES = st.one_of(
    st.tuples(st.just("put"), st.dictionaries(st.sampled_from(IDS), TEXTS, min_size=1, max_size=4)),
    st.tuples(
        st.just("sync"), st.dictionaries(st.sampled_from(LINES), TEXTS, min_size=1, max_size=4)
    ),
    st.tuples(st.just("delete"), ANY_IDS),
    st.tuples(st.just("delete where"), st.integers(8, 30)),
    st.tuples(st.just("compact")),
    st.tuples(st.just("reduce"), st.integers(0, len(SETTINGS) - 1)),
    st.tuples(st.just("words"), st.booleans()),
)
READS = st.one_of(
    st.tuples(st.just("search"), st.none() | st.integers(4, 20).map("n >= {}".format)),
    st.tuples(st.just("search words"), st.sampled_from(["tea", "cake", "rain", "ship"])),
    st.tuples(st.just("get"), ANY_IDS),
    st.tuples(st.just("count"), st.integers(4, 20)),
    st.tuples(st.sampled_from(["see", "see copy"])),
    st.tuples(st.just("reopen")),
)
DEATHS: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    st.tuples(
        st.just("call"),
        st.tuples(st.integers(1, 120), st.sampled_from([int(kill.action) for kill in KILLS])),
    ),
    st.tuples(st.just("delay"), st.floats(0, 0.15)),
)


class ProcessMachine(RuleBasedStateMachine):
    """Whatever three processes do at once, some order of their commits explains what they see."""

    workers: ClassVar[Workers]
    can_kill_at_calls: ClassVar[bool]
    counts: ClassVar[dict[str, int]]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "x.index"
        with Collection.create(self.path, WordEncoder(DIM), SETTINGS[0]) as collection:
            collection.add([Document(*FIRST, metadata={"n": len(FIRST[1])})])
        self.orders = Orders(State((FIRST,), True))
        self.at = [self.workers.started(self.path) for _ in range(3)]
        self.under_way = dict[int, tuple[int, int]]()

    @rule(place=PLACES, order=CHANGES)
    def change(self, place: int, order: Order) -> None:
        self._begin(place, order, None, None)

    @rule(place=PLACES, order=CHANGES, death=DEATHS)
    def killed_change(self, place: int, order: Order, death: tuple[str, Any]) -> None:
        """The process is killed at a call that changes a file, or at any moment."""
        how, when = death
        if len(self.orders.possible) > MANY:
            self.settle()
        if how == "call" and self.can_kill_at_calls:
            self._begin(place, order, when, None)
        elif how == "delay":
            self._begin(place, order, None, when)

    @rule(place=PLACES, order=READS)
    def read(self, place: int, order: Order) -> None:
        self._begin(place, order, None, None)

    @rule(place=PLACES)
    def end(self, place: int) -> None:
        """Wait, so that a call that begins later comes after."""
        self._end(place)

    @rule()
    def settle(self) -> None:
        """With nothing under way, all processes see the same."""
        for order in (("see",), ("search", None)):
            for place in range(3):
                self._begin(place, order, None, None)
        for place in range(3):
            self._end(place)

    def _begin(
        self, place: int, order: Order, kill: tuple[int, int] | None, delay: float | None
    ) -> None:
        self._end(place)
        for other in [*self.under_way]:
            if self.at[other].has_ended():
                self._end(other)
        if order[0] == "sync":
            name = f"file{place}"
            order = ("sync", name, {f"{name}-{line}": text for line, text in order[1].items()})
        self.under_way[place] = self.orders.begin(order)
        self.at[place].begin(order, kill, delay)
        self.counts["changes" if order[0] in orders.CHANGES else "searches"] += 1

    def _end(self, place: int) -> None:
        if place not in self.under_way:
            return
        worker, (number, least) = self.at[place], self.under_way.pop(place)
        answer = worker.end()
        if answer is None:
            self.orders.die(number)
        else:
            self.orders.end(number, least, answer)
        if worker.is_gone:
            self.counts["kills"] += 1
            worker.close()
            self.at[place] = self.workers.started(self.path)

    def teardown(self) -> None:
        try:
            self.settle()
            with Collection.open(self.path) as collection, collection.index.change():
                pass  # the turn ends what a kill has interrupted
            assert verify(self.path) == [], self.orders.message("verify")
        finally:
            for worker in self.at:
                worker.close()
            shutil.rmtree(self.folder)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    try:
        library: Path | None = compiled(tmp_path)
    except FileNotFoundError:
        library = None
    started = Workers(tmp_path, library)
    ProcessMachine.workers = started
    ProcessMachine.can_kill_at_calls = library is not None
    ProcessMachine.counts = {"changes": 0, "searches": 0, "kills": 0}
    yield started
    started.end()


def run(examples: int, steps: int) -> dict[str, int]:
    """Try random steps; shrinking would take minutes, and other orders of commits."""
    run_state_machine_as_test(
        ProcessMachine,
        settings=settings(
            max_examples=CHANCE.examples(examples),
            stateful_step_count=steps,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
            phases=[Phase.generate],
        ),
    )
    return ProcessMachine.counts


@pytest.mark.slow
@pytest.mark.usefixtures("workers")
def test_some_order_of_commits_explains_what_three_processes_see() -> None:
    assert run(examples=2, steps=20)["searches"] > 0


@sweep
@pytest.mark.usefixtures("workers")
def test_processes_killed_at_any_step_lose_nothing(report: Report) -> None:
    examples = CHANCE.count(600, 3)
    counts = run(examples, steps=50)
    said = ", ".join(f"{count} {name}" for name, count in counts.items())
    report(f"three processes: {said}", **counts)
    assert counts["kills"] > examples
