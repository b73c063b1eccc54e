"""`slimdex bench code`: which files answer questions about repositories, by each rule of ranking.

Questions are those of semble's benchmark (https://github.com/MinishLab/semble, ``benchmarks/``): a
file of JSON for each repository, with the files that answer each question. As there, the measure is
NDCG@10, here of files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.building import build
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.base import Encoder
from slimdex.retrieval.quality.labels import ndcg
from slimdex.retrieval.search.answer import nearest, rows_for, vectors_of
from slimdex.retrieval.search.code_ranking import RULES, CodeRanking
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.sources.source import Sources
from slimdex.system.progress import progress

from ..datasets import PerQuery
from ..paired_measures import compare
from ..rows import ResultsFile, Row, key_of

EVERY = "every"
"""Name of all repositories together in the rows."""
FUSION = "fusion"
ALL = "all"
"""Ways: the order of the fusion, and all rules."""
LIMIT = 10


def _ways() -> dict[str, tuple[str, ...]]:
    """Map each way to rank to the rules it applies: none, all, one, or all but one."""
    ways: dict[str, tuple[str, ...]] = {FUSION: (), ALL: tuple(RULES)}
    for rule in RULES:
        ways[rule] = (rule,)
    for rule in RULES:
        ways[f"without {rule}"] = tuple(other for other in RULES if other != rule)
    return ways


WAYS = _ways()


class Question(NamedTuple):
    """A question, and the ends of the paths of the files that answer it."""

    text: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class Repository:
    """Questions about the files of a folder."""

    name: str
    folder: Path
    questions: Sequence[Question]

    @classmethod
    def read(cls, named: str) -> Repository:
        """Read ``QUESTIONS.json=FOLDER``; raises `InputError` if it is something else."""
        file, _, folder = named.partition("=")
        if not folder or not Path(folder).is_dir():
            raise InputError(f"{named!r}; expected QUESTIONS.json=FOLDER")
        try:
            tasks = json.loads(Path(file).read_bytes())
            questions = [_question(task) for task in tasks]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{file}: {error}; expected questions of semble's form") from error
        return cls(Path(file).stem, Path(folder), questions)


def _question(task: dict[str, Any]) -> Question:
    """Read a question in semble's form; each answer is a path, or an object with one."""
    paths = []
    for target in (*task["relevant"], *task.get("secondary", ())):
        paths.append(target if isinstance(target, str) else target["path"])
    return Question(task["query"], tuple(paths))


def measure_code(
    repositories: Sequence[Repository],
    model: str,
    open_encoder: Callable[[], Encoder],
    results: ResultsFile,
    about: Row,
) -> None:
    """Replace the rows of a model: each way to rank, by repository and for all together."""
    rows = list[Row]()
    points = dict[str, list[PerQuery]]()
    for repository in repositories:
        # Index the files, and measure each way to rank.
        with TemporaryDirectory(prefix="slimdex-bench-") as folder:
            start = perf_counter()
            sources = Sources.open([str(repository.folder)])
            index, _ = build(Path(folder) / "x.index", sources, open_encoder, Settings())
            with Collection(index) as collection:
                state = collection.index.state
                facts: Row = {
                    "set": repository.name,
                    "documents": len(collection),
                    "rows": state.rows,
                    "build_s": perf_counter() - start,
                }
                ndcg_by_way = dict(_by_way(collection, repository.questions))
        rows += _rows(facts, ndcg_by_way)
        for way, values in ndcg_by_way.items():
            points.setdefault(way, []).append(values)

    # Add the rows for all repositories together.
    together = {way: np.concatenate(values) for way, values in points.items()}
    rows += _rows({"set": EVERY}, together)
    for row in rows:
        row["model"] = model
        row["key"] = key_of({name: row[name] for name in ("set", "model", "way")})
    results.replace([row | about for row in rows])


def _by_way(
    collection: Collection, questions: Sequence[Question]
) -> Iterator[tuple[str, PerQuery]]:
    """Yield each way to rank, with its nDCG@10 times 100 for each question (q,).

    Questions without an answer in the index are left out.
    """
    # Collect the questions' texts, and for each the rows of the documents that answer it.
    snapshot = collection.index.open_snapshot()
    documents = snapshot.store.documents(snapshot.live_documents().tolist())
    texts = []
    labels = []
    for question in questions:
        labels_by_row = {}
        for row, document in documents.items():
            if any(_is_same(document.id, answer) for answer in question.answers):
                labels_by_row[row] = 1
        if labels_by_row:
            texts.append(question.text)
            labels.append(labels_by_row)

    # Compute only once what is the same for every way.
    request = SearchRequest(texts=texts, limit=LIMIT)
    vectors = vectors_of(request, lambda: collection.index.encoder)
    searched = rows_for(snapshot, request)
    scales = searched.fusion_scales(texts, vectors)
    for number, (way, rules) in enumerate(WAYS.items()):
        ranked = replace(searched, code=CodeRanking(snapshot, rules))
        best = nearest(ranked, request, vectors, scales)
        orders = snapshot.document_rows.documents(best.rows).tolist()
        yield way, 100 * np.array([*map(ndcg, orders, labels)])
        progress("judging", number + 1, len(WAYS))


def _is_same(path: str, answer: str) -> bool:
    """Return whether one path is the end of the other.

    The indexed folder may be inside the folder of the answers, or contain it.
    """
    return f"/{path}".endswith(f"/{answer}") or f"/{answer}".endswith(f"/{path}")


def _rows(facts: Row, ndcg_by_way: dict[str, PerQuery]) -> Iterator[Row]:
    """Yield a row for each way to rank, with its difference from a base.

    The base is the fusion for all rules and for a single rule, and all rules for all but one.
    """
    for way, values in ndcg_by_way.items():
        base = ndcg_by_way[ALL if way.startswith("without") else FUSION]
        quality = compare("ndcg@10", values, base)
        yield facts | {"way": way, "queries": len(values)} | quality
