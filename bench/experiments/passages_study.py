"""`slimdex bench passages`: long pages cut off, and cut into passages, asked for what is in them.

Each way builds an index of the pages in a process of its own, as `slimdex build` does, and is asked
by the first sentence of docstrings: whether the page is found, and whether the passage that is
shown holds the anchor of what was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.progress import Progress, silent
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.encoders.opened import open_encoder

from ..data.python_pages import Pages, Question
from ..machine import peak_memory
from ..rows import ResultsFile, Row, key_of
from .paired_measures import interval

WAYS: dict[str, str | int] = {"cut off": "off", "passages": "auto"}
"""What is measured -> what a collection is created with."""
ANSWERS = 10
MEASURES = ("recall@10", "mrr@10")


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
    rows, found = dict[str, Row](), dict[str, Asked]()
    for number, (way, passages) in enumerate(WAYS.items(), start=1):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            rows[way], found[way] = alone.submit(measured, folder, model, passages).result()
        progress("building and asking", number, len(WAYS))
    usual = found["cut off"].points()
    made = list[Row]()
    for way, asked in found.items():
        points = asked.points()
        low, high = interval(points - usual)
        known: Row = {"what": "pages", "model": Path(model).name, "way": way} | rows[way]
        for i, name in enumerate(MEASURES):
            known |= {name: float(points[i].mean())}
            known |= {f"{name}_delta": float((points[i] - usual[i]).mean())}
            known |= {f"{name}_low": float(low[i]), f"{name}_high": float(high[i])}
        if way != "cut off":
            known |= {"anchor_share": float(np.nanmean(asked.holds))}
            known |= {"section_share": float(np.nanmean(asked.meets))}
        key = {name: known[name] for name in ("what", "model", "way", "documents")}
        made.append({"key": key_of(key)} | known | about)
    results.replace(made)


def measured(folder: Path, model: str, passages: str | int) -> tuple[Row, Asked]:
    """What a build takes, and what its index finds."""
    pages = Pages.read(folder)
    with TemporaryDirectory(prefix="slimdex-bench-") as where:
        start = perf_counter()
        path = Path(where) / "pages.index"
        with Collection.create(path, open_encoder(model), passages=passages) as index:
            index.add(pages.documents)
            seconds = perf_counter() - start
            size = sum(file.stat().st_size for file in path.iterdir())
            asked = ask(index, pages.questions)
            row: dict[str, Any] = {"documents": len(index), "rows": index._state.rows}
    row |= {"queries": len(pages.questions), "build_s": seconds, "peak_bytes": peak_memory()}
    return row | {"disk_bytes": size}, asked


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
