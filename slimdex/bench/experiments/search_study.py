"""`slimdex bench search`: searches from text to documents, compared with other stores.

Every store has the same texts and vectors, is opened in a process of its own with the same encoder,
and returns ids and texts. All are searched with a few queries in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches, normalize_rows
from slimdex.indexes.ranking import best_of
from slimdex.retrieval.encoders.base import Encoder
from slimdex.system.atomic_files import size
from slimdex.system.progress import progress

from ..datasets import Dataset, Task
from ..engines.engine import Answer, Documents, by_place
from ..engines.measured import MeasuredStore, store_process
from ..engines.processes import Contender, Subprocess, WorkerError, in_turns, replace_rows
from ..engines.registry import LIBRARIES
from ..paired_measures import AGREEMENT, Judge, depth_for
from ..rows import ResultsFile, Row, key_of
from .retrieval_study import ANSWERS

ENOUGH = 0.99
"""Agreement with exact search of the effort to find."""
QUERIES, ROUND_QUERIES = 500, 40
"""Queries whose answers are judged, and queries in each round."""
QUERIES_SECONDS, ROUND_SECONDS = 60.0, 4.0
"""Limits for all queries and for a round; a slower store gets fewer queries, at least FEWEST."""
FEWEST = 3
ROUNDS = 8
QUICK_ROUNDS = 3
CALLERS = 8
LONGEST_BUILD = 1200.0
"""Limit of the time to build a store."""
THREADS = {"one": 1, "all": None}


@dataclass(kw_only=True)
class _Asked(Contender[MeasuredStore]):
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

    def measured(self) -> Row:
        """Columns, with the rate of several callers."""
        row = super().measured()
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
        asked = list[_Asked]()
        exact = exact_rows(task)
        for done, name in enumerate(names, start=1):
            asked.append(_built(task, name, open_encoder, place / str(done), exact, stack))
            progress("building", done, len(names))
        in_turns(asked, _one_turn, "in turns", rounds)
    for store in asked:
        facts = task.facts() | {"method": store.name, "effort": store.effort}
        store.row = {"key": key_of(facts | {"with": sorted(names)})} | facts | store.row
    return replace_rows(results, asked, about)


Exact = tuple[Matrix, Rows]
"""Cosines and rows (queries, depth) of exact search over the float32 vectors."""


def exact_rows(task: Task) -> Exact:
    """Search the float32 vectors exactly."""
    queries = normalize_rows(task.queries.take(np.arange(len(task.queries))))
    chunks = zip(batches(len(task.vectors)), task.vectors.scan(), strict=True)
    parts = (
        (queries @ normalize_rows(chunk).T, np.arange(part.start, part.stop))
        for part, chunk in chunks
    )
    return best_of(parts, len(queries), depth_for(task.dataset, ANSWERS))


def _columns(task: Task, exact: Exact, asked: _Asked) -> Row:
    """Measure the answers of a store to as many queries as it is asked."""
    scores, rows = exact
    asking = task.dataset.asking(asked.queries)
    judge = Judge(asking, scores[: asked.queries], rows[: asked.queries])
    depth = depth_for(task.dataset, ANSWERS)
    answers = asked.process.remote.answers(depth, asked.queries)
    return judge.columns(*rows_of(answers, task.dataset, depth))


def _built(
    task: Task,
    name: str,
    open_encoder: Callable[[], Encoder],
    folder: Path,
    exact: Exact,
    stack: ExitStack,
) -> _Asked:
    """Build a store, and open it with the least effort that finds enough."""
    folder.mkdir()
    store = LIBRARIES[name]
    efforts = store.for_documents
    texts = task.dataset.query_texts
    with store_process(name, open_encoder, folder, texts, LONGEST_BUILD) as builder:
        asked = _Asked(name=name, row={}, process=builder, effort=efforts[0])
        try:
            asked.row["build_s"] = builder.remote.build(documents_of(task))
        except WorkerError as error:
            asked.error = str(error)
            return asked
    asked.row["disk_row_bytes"] = size(folder) / len(task.vectors)

    def started() -> Subprocess[MeasuredStore]:
        return stack.enter_context(store_process(name, open_encoder, folder, texts))

    asked.process = started()
    asked.attempt(lambda: _fit_to_its_speed(asked, task))
    asked.attempt(lambda: _find_effort(asked, efforts, task, exact))
    if store.processes and asked.effort != efforts[0]:
        # The memory of other efforts is not counted.
        asked.process.close()
        asked.process = started()
    asked.attempt(lambda: _quality(asked, task, exact))
    return asked


def documents_of(task: Task) -> Documents:
    """Documents of a set, in the form of databases."""
    return Documents(task.vectors.reopened(), task.dataset.ids, task.dataset.texts)


def _fit_to_its_speed(asked: _Asked, task: Task) -> None:
    """Choose the number of queries: an exact scan of a million rows takes a second for each."""
    count = len(task.queries)
    few = asked.process.remote.times(ANSWERS, 0, min(FEWEST, count), None)
    each = max(float(np.median(few["total"])), 1e-6)
    asked.queries = min(max(int(QUERIES_SECONDS / each), FEWEST), QUERIES, count)
    in_round = min(max(int(ROUND_SECONDS / each), FEWEST), ROUND_QUERIES)
    asked.in_round = min(in_round, max(asked.queries // ROUNDS, 1))


def _find_effort(asked: _Asked, efforts: Sequence[int], task: Task, exact: Exact) -> None:
    """Find the first effort that finds enough, or the last."""
    for effort in efforts:
        asked.effort = effort
        asked.prepare()
        if _columns(task, exact, asked)[AGREEMENT] >= ENOUGH:
            return


def _quality(asked: _Asked, task: Task, exact: Exact) -> None:
    """Measure agreement with exact search, quality by labels, and the memory of the process."""
    columns = _columns(task, exact, asked)
    asked.row |= {n: value for n, value in columns.items() if not n.startswith("recall@100")}
    whole, grown = asked.process.remote.memory()
    asked.row |= {"memory_bytes": whole.own, "memory_files_bytes": whole.files}
    asked.row |= {"store_bytes": grown.own, "store_files_bytes": grown.files}
    asked.row |= asked.process.remote.codes()
    asked.row["queries"] = asked.queries


def rows_of(answers: Sequence[Answer], dataset: Dataset, depth: int) -> tuple[Matrix, Rows]:
    """Convert answers to scores, which decrease with the place, and rows (queries, depth).

    Raises `WorkerError` if a text is neither the document of its id nor a passage of it.
    """
    row_of = {id: row for row, id in enumerate(dataset.ids)}
    for id, text in (pair for answer in answers for pair in answer):
        whole = dataset.texts[row_of[id]]
        if text not in whole or bool(text) != bool(whole):
            raise WorkerError(f"answers: id {id!r} with the text {text[:40]!r}, not its own")
    return by_place([[row_of[id] for id, _ in answer] for answer in answers], depth)


def _one_turn(asked: _Asked, turn: int) -> None:
    """Search a few queries by one caller, on one thread and on all, and by many callers."""
    remote = asked.process.remote
    start = turn * asked.in_round % asked.queries
    stop = min(start + asked.in_round, asked.queries)
    for name, threads in THREADS.items():
        for part, seconds in remote.times(ANSWERS, start, stop, threads).items():
            asked.seconds[f"{part}_{name}"] += seconds
    if LIBRARIES[asked.name].callers:
        several = [place % asked.queries for place in range(start, max(stop, start + CALLERS))]
        crowd = remote.crowd(ANSWERS, several, CALLERS)
        asked.seconds["callers_one"] += crowd.times
        asked.crowds.append(crowd.seconds)
        asked.row["faults"] = asked.row.get("faults", 0) + crowd.faults
