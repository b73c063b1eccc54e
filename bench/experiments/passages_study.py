"""`slimdex bench passages`: long pages cut off, and cut into passages, asked for what is in them.

Each way builds an index of the pages in a process of its own, as `slimdex build` does, and is asked
by the first sentence of docstrings: whether the page is found, and whether the passage that is
shown holds the anchor of what was asked for. Sets with labels are asked by their own queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.progress import Progress, silent
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.collection.query_pools import encoded
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.opened import open_encoder
from slimdex.retrieval.evaluation import DEPTH, Qrels, drop_rows, labelled, per_query
from slimdex.retrieval.sources.source import open_source

from ..data.datasets import load_dataset
from ..data.python_pages import Pages, Question
from ..machine import peak_memory
from ..rows import ResultsFile, Row, key_of
from .paired_measures import interval

Found = TypeVar("Found")
CUT_OFF = "cut off"
WAYS: dict[str, str | int] = {CUT_OFF: "off", "passages": "auto"}
"""What is measured -> what a collection is created with."""
ANSWERS = 10
MEASURES = ("recall@10", "mrr@10")
"""Of pages."""
SET_MEASURES = ("ndcg@10", "recall@10")
"""Of sets with labels."""


@dataclass(frozen=True)
class Asked:
    """What became of each question.

    Attributes
    ----------
    ranks : (q,), of the page among the answers, from 1; infinite if it is none.
    holds : (q,), whether its passage has the anchor in it; NaN if the page was not found.
    meets : (q,), whether it has something of the anchor's section.
    """

    ranks: NDArray[np.float64]
    holds: NDArray[np.float64]
    meets: NDArray[np.float64]

    def points(self) -> NDArray[np.float64]:
        """`MEASURES` of each question, of 100: (2, q)."""
        return 100 * np.stack([np.isfinite(self.ranks), 1 / self.ranks])


def measure_passages(
    folder: Path, model: str, results: ResultsFile, about: Row, progress: Progress = silent
) -> None:
    """A row for each way; a run replaces those of the one before."""
    rows, found = both_ways(pages_asked, folder, model, progress)
    points = {way: asked.points() for way, asked in found.items()}
    known: Row = {"what": "pages", "model": Path(model).name}
    made = compared(known, rows, MEASURES, points)
    for row in made:
        if row["way"] != CUT_OFF:
            row |= {"anchor_share": float(np.nanmean(found[row["way"]].holds))}
            row |= {"section_share": float(np.nanmean(found[row["way"]].meets))}
    results.replace([row | about for row in made])


def measure_set(
    folder: Path, model: str, results: ResultsFile, about: Row, progress: Progress = silent
) -> None:
    """The same of a set in BEIR's layout and its test queries."""
    rows, points = both_ways(set_asked, folder, model, progress)
    known: Row = {"what": "set", "set": folder.name, "model": Path(model).name}
    results.replace([row | about for row in compared(known, rows, SET_MEASURES, points)])


def both_ways(
    measured: Callable[[Path, str, str | int], tuple[Row, Found]],
    folder: Path,
    model: str,
    progress: Progress,
) -> tuple[dict[str, Row], dict[str, Found]]:
    """Way -> columns, and way -> what was found, each measured in a process of its own."""
    rows, found = dict[str, Row](), dict[str, Found]()
    for number, (way, passages) in enumerate(WAYS.items(), start=1):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            rows[way], found[way] = alone.submit(measured, folder, model, passages).result()
        progress("building and asking", number, len(WAYS))
    return rows, found


def compared(
    known: Row,
    rows: Mapping[str, Row],
    measures: Sequence[str],
    points: Mapping[str, NDArray[np.float64]],
) -> list[Row]:
    """A row for each way, with means, differences from the cut-off texts and their intervals.

    Parameters
    ----------
    known : what all rows say first.
    rows : way -> its other columns, `documents` among them.
    points : way -> (measures, q), of 100, of the same queries.
    """
    usual, made = points[CUT_OFF], list[Row]()
    for way, values in points.items():
        low, high = interval(values - usual)
        key = known | {"way": way, "documents": rows[way]["documents"]}
        row: Row = {"key": key_of(key)} | known | {"way": way} | rows[way]
        for i, name in enumerate(measures):
            row |= {name: float(values[i].mean())}
            row |= {f"{name}_delta": float((values[i] - usual[i]).mean())}
            row |= {f"{name}_low": float(low[i]), f"{name}_high": float(high[i])}
        made.append(row)
    return made


def pages_asked(folder: Path, model: str, passages: str | int) -> tuple[Row, Asked]:
    """What a build of pages takes, and what its index finds."""
    pages = Pages.read(folder)
    row, asked = built(pages.documents, model, passages, lambda index: ask(index, pages.questions))
    return row | {"queries": len(pages.questions)}, asked


def set_asked(folder: Path, model: str, passages: str | int) -> tuple[Row, NDArray[np.float64]]:
    """What a build of a set takes, and `SET_MEASURES` of each query (2, q), of 100."""
    judged = JudgedSet.read(folder)
    row, points = built(judged.documents, model, passages, judged.points)
    return row | {"queries": points.shape[1]}, points


def built(
    documents: Sequence[Document],
    model: str,
    passages: str | int,
    asked: Callable[[Collection], Found],
) -> tuple[Row, Found]:
    """What it takes to build an index, in seconds, rows and bytes, and what is found in it."""
    with TemporaryDirectory(prefix="slimdex-bench-") as where:
        start = perf_counter()
        path = Path(where) / "passages.index"
        with Collection.create(path, open_encoder(model), passages=passages) as index:
            index.add(documents)
            seconds = perf_counter() - start
            size = sum(file.stat().st_size for file in path.iterdir())
            row: Row = {"documents": len(index), "rows": index._state.rows, "build_s": seconds}
            found = asked(index)
    return row | {"disk_bytes": size, "peak_bytes": peak_memory()}, found


@dataclass(frozen=True)
class JudgedSet:
    """Documents with their titles, and queries with labels.

    Attributes
    ----------
    queries : (id, text) of those that have labels.
    own : of each query the id of the document that it is itself, which is no answer; "" for none.
    """

    documents: Sequence[Document]
    queries: Sequence[tuple[str, str]]
    own: Sequence[str]
    qrels: Qrels

    @classmethod
    def read(cls, folder: Path) -> Self:
        """A folder in BEIR's layout; `InputError` if it is none."""
        asked = load_dataset(folder.name, folder.parent)
        source = open_source(str(folder))
        documents = [document for batch in source.batches() for document in batch]
        own = [asked.ids[row] if row >= 0 else "" for row in asked.own_rows]
        queries = list(zip(asked.query_ids, asked.query_texts, strict=True))
        return cls(documents, queries, own, asked.qrels)

    def points(self, index: Collection) -> NDArray[np.float64]:
        """`SET_MEASURES` of each query (2, q), of 100, by an index of the documents."""
        judged, ids = labelled(index, self.queries, self.qrels)
        vectors = encoded(index.encoder, [text for _, text in judged])
        scores, rows = index._search_vectors(vectors, DEPTH + 1)
        known = {id: row for row, id in enumerate(ids)}
        own = np.array([known.get(id, -1) if id else -1 for id in self.own])
        scores, rows = drop_rows(scores, rows, index._snapshot.document_rows.documents(own))
        found = per_query(scores, rows, [id for id, _ in judged], ids, self.qrels)
        return 100 * np.stack([found[name] for name in SET_MEASURES])


def ask(index: Collection, questions: Sequence[Question]) -> Asked:
    """Each question's page among the answers, and what is shown of it."""
    ranks = np.full(len(questions), np.inf)
    holds, meets = np.full((2, len(questions)), np.nan)
    answers = index.search_many([question.text for question in questions], ANSWERS)
    for i, (question, hits) in enumerate(zip(questions, answers, strict=True)):
        for rank, hit in enumerate(hits, start=1):
            if hit.id == question.page:
                ranks[i] = rank
                holds[i] = hit.start <= question.start < hit.end
                meets[i] = hit.start < question.end and hit.end > question.start
    return Asked(ranks, holds, meets)
