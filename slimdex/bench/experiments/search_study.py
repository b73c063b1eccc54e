"""`slimdex bench search`: searches from text to documents, compared with other stores.

Every store has the same texts and vectors, is opened in a process of its own with the same encoder,
and returns ids and texts. All are searched with a few queries in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.retrieval.encoders.base import Encoder
from slimdex.system.atomic_files import size
from slimdex.system.progress import progress

from ..datasets import Dataset, Task
from ..engines.engine import Answer, Documents, by_place
from ..engines.measuring import MeasuredStore, store_process
from ..engines.processes import Contender, Subprocess, WorkerError, in_turns, replace_rows
from ..engines.registry import LIBRARIES
from ..paired_measures import AGREEMENT, ANSWERS, Judge, depth_for
from ..rows import ResultsFile, Row, key_of
from .peers_study import exact_answers, without_deep

ENOUGH = 0.99
"""Agreement with exact search of the effort to find."""
QUERIES = 500
ROUND_QUERIES = 40
"""Queries whose answers are judged, and queries in each round."""
QUERIES_SECONDS = 60.0
ROUND_SECONDS = 4.0
"""Limits for all queries and for a round; a slower store gets fewer queries, at least FEWEST."""
FEWEST = 3
ROUNDS = 8
QUICK_ROUNDS = 3
CALLERS = 8
LONGEST_BUILD = 1200.0
"""Limit of the time to build a store."""
THREADS = {"one": 1, "all": None}


@dataclass(kw_only=True)
class StoreContender(Contender[MeasuredStore]):
    """A store at one effort, in a separate process unless only one may have the store open.

    Attributes
    ----------
    queries, in_round : number of queries that are judged, and of those in a round.
    crowds : seconds of several callers together.
    """

    effort: int = 0
    queries: int = QUERIES
    in_round: int = ROUND_QUERIES
    crowds: list[float] = field(default_factory=list)

    def prepare(self) -> None:
        """Open the store and set the effort."""
        self.process.remote.use(self.effort)

    def columns(self) -> Row:
        """Columns, with the rate of several callers."""
        row = super().columns()
        if self.crowds and self.error is None:
            count = len(self.seconds["callers_one"])
            row |= {"callers": CALLERS, "searches_per_s_one": count / sum(self.crowds)}
        return row


def measure_search(
    task: Task,
    open_encoder: Callable[[], Encoder],
    names: Sequence[str],
    results: ResultsFile,
    about: Row,
    *,
    folder: Path,
    rounds: int = ROUNDS,
) -> list[str]:
    """Write a row for each store at the least effort that finds enough; returns failures.

    Parameters
    ----------
    names : of databases in `LIBRARIES`.
    open_encoder : makes the encoder of the task, in another process.
    folder : on a disk, for the stores' files; empty again afterwards.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory(dir=folder)))
        contenders = list[StoreContender]()

        # Build each store in its own process, then search all of them in turns.
        exact = exact_answers(task, depth_for(task.dataset, ANSWERS))
        for done, name in enumerate(names, start=1):
            contender = _build_contender(
                task,
                name,
                open_encoder=open_encoder,
                folder=place / str(done),
                exact=exact,
                stack=stack,
            )
            contenders.append(contender)
            progress("building", done, len(names))
        in_turns(contenders, _one_turn, "in turns", rounds)

    # Figures measured beside other stores are not comparable, so they have other keys.
    for store in contenders:
        facts = task.facts() | {"method": store.name, "effort": store.effort}
        store.row = {"key": key_of(facts | {"with": sorted(names)})} | facts | store.row
    return replace_rows(results, contenders, about)


Exact = tuple[Matrix, Rows]
"""Cosines and rows (queries, depth) of exact search over the float32 vectors."""


def _columns(task: Task, exact: Exact, contender: StoreContender) -> Row:
    """Measure the answers of a store to as many queries as it is asked."""
    scores, rows = exact
    asking = task.dataset.asking(contender.queries)
    judge = Judge(asking, scores[: contender.queries], rows[: contender.queries])
    depth = depth_for(task.dataset, ANSWERS)
    answers = contender.process.remote.answers(depth, contender.queries)
    return judge.columns(*rows_of(answers, task.dataset, depth))


def _build_contender(
    task: Task,
    name: str,
    open_encoder: Callable[[], Encoder],
    folder: Path,
    exact: Exact,
    stack: ExitStack,
) -> StoreContender:
    """Build a store, and open it with the least effort that finds enough."""
    folder.mkdir()
    store = LIBRARIES[name]
    efforts = store.for_documents
    texts = task.dataset.query_texts
    with store_process(name, open_encoder, folder, texts, LONGEST_BUILD) as builder:
        contender = StoreContender(name=name, row={}, process=builder, effort=efforts[0])
        try:
            contender.row["build_s"] = builder.remote.build(documents_of(task))
        except WorkerError as error:
            contender.error = str(error)
            return contender
    contender.row["disk_row_bytes"] = size(folder) / len(task.vectors)

    def start() -> Subprocess[MeasuredStore]:
        return stack.enter_context(store_process(name, open_encoder, folder, texts))

    # Search it in another process, so that memory of the build is not counted.
    contender.process = start()
    contender.attempt(lambda: _fit_to_its_speed(contender, task))
    contender.attempt(lambda: _find_effort(contender, efforts, task, exact))
    if store.processes and contender.effort != efforts[0]:
        # The memory of other efforts is not counted.
        contender.process.close()
        contender.process = start()
    contender.attempt(lambda: _quality(contender, task, exact))
    return contender


def documents_of(task: Task) -> Documents:
    """Documents of a set, in the form of databases."""
    return Documents(task.vectors.reopen(), task.dataset.ids, task.dataset.texts)


def _fit_to_its_speed(contender: StoreContender, task: Task) -> None:
    """Choose the number of queries: an exact scan of a million rows takes a second for each."""
    count = len(task.queries)
    few = contender.process.remote.times(ANSWERS, 0, min(FEWEST, count), None)
    seconds_each = max(float(np.median(few["total"])), 1e-6)

    # Ask as many as fit in the time, in total and in a round.
    contender.queries = min(max(int(QUERIES_SECONDS / seconds_each), FEWEST), QUERIES, count)
    in_round = min(max(int(ROUND_SECONDS / seconds_each), FEWEST), ROUND_QUERIES)
    contender.in_round = min(in_round, max(contender.queries // ROUNDS, 1))


def _find_effort(
    contender: StoreContender, efforts: Sequence[int], task: Task, exact: Exact
) -> None:
    """Set the first effort that finds enough, or the last."""
    for effort in efforts:
        contender.effort = effort
        contender.prepare()
        if _columns(task, exact, contender)[AGREEMENT] >= ENOUGH:
            return


def _quality(contender: StoreContender, task: Task, exact: Exact) -> None:
    """Measure agreement with exact search, quality by labels, and the memory of the process."""
    columns = _columns(task, exact, contender)
    contender.row |= without_deep(columns)
    memory, growth = contender.process.remote.memory()
    contender.row |= {"memory_bytes": memory.private, "memory_files_bytes": memory.files}
    contender.row |= {"store_bytes": growth.private, "store_files_bytes": growth.files}
    contender.row |= contender.process.remote.codes()
    contender.row["queries"] = contender.queries


def rows_of(answers: Sequence[Answer], dataset: Dataset, depth: int) -> tuple[Matrix, Rows]:
    """Convert answers to scores, which decrease with the place, and rows (queries, depth).

    Raises `WorkerError` if a text is neither the document of its id nor a passage of it.
    """
    row_of = {id: row for row, id in enumerate(dataset.ids)}
    for id, text in chain.from_iterable(answers):
        document = dataset.texts[row_of[id]]
        is_left_out = bool(document) and not text  # "" is part of every text
        if text not in document or is_left_out:
            raise WorkerError(f"answers: id {id!r} with the text {text[:40]!r}, not its own")
    rows = []
    for answer in answers:
        rows.append([row_of[id] for id, _ in answer])
    return by_place(rows, depth)


def _one_turn(contender: StoreContender, turn: int) -> None:
    """Search a few queries by one caller, on one thread and on all, and by many callers."""
    remote = contender.process.remote
    start = turn * contender.in_round % contender.queries
    stop = min(start + contender.in_round, contender.queries)
    for name, threads in THREADS.items():
        for part, seconds in remote.times(ANSWERS, start, stop, threads).items():
            contender.seconds[f"{part}_{name}"] += seconds
    if LIBRARIES[contender.name].callers:
        # Ask at least one query for each caller; start again after the last query.
        numbers = range(start, max(stop, start + CALLERS))
        several = [number % contender.queries for number in numbers]
        crowd = remote.crowd(ANSWERS, several, CALLERS)
        contender.seconds["callers_one"] += crowd.times
        contender.crowds.append(crowd.seconds)
        contender.row["faults"] = contender.row.get("faults", 0) + crowd.faults
