"""`slimdex bench functions`: described functions found in code, by each way of cutting it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.execution.progress import progress
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Hit
from slimdex.retrieval.encoders.base import Encoder
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.sources.files.formats.definitions.by_keywords import by_keywords
from slimdex.retrieval.sources.files.formats.definitions.definition import Definition
from slimdex.retrieval.sources.files.formats.source_code import definitions, divided

from ..data.paired_measures import interval
from ..rows import ResultsFile, Row, key_of
from .trees import Question, Tree

BASE = "keywords"
WAYS: dict[str, Callable[[str, str], Iterable[Definition]]] = {
    "text": lambda text, ending: (),
    BASE: lambda text, ending: by_keywords(text.split("\n"), ending),
    "grammar": definitions,
}
"""Way -> definitions in a text of an ending: none, by rules, by grammar (of Python, by `ast`)."""
SEARCHES = {"meaning": "off", "default": "auto"}
"""Search -> `hybrid`: by meaning alone, and as users get it."""


def measure_code(
    tree: Tree, encoder: Encoder, model: str, results: ResultsFile, about: Row
) -> None:
    """Replace the rows of a tree, one for each way and search."""
    found: dict[tuple[str, str], tuple[Row, NDArray[np.float64]]] = {}
    for way in WAYS:
        for search, (costs, points) in _measured(tree, way, encoder).items():
            found[way, search] = costs, points
    rows = []
    for (way, search), (costs, points) in found.items():
        known: Row = {"set": tree.name, "model": model, "way": way, "what": search}
        known |= {"documents": len(tree.files), "queries": len(tree.questions)}
        row = known | {"key": key_of(known)} | costs | about
        differences = points - found[BASE, search][1]
        low, high = interval(differences)
        for i, name in enumerate(("file", "function")):
            row[f"{name} recall@10"] = float(points[i].mean())
            row[f"{name} recall@10_delta"] = float(differences[i].mean())
            row[f"{name} recall@10_low"] = float(low[i])
            row[f"{name} recall@10_high"] = float(high[i])
        rows.append(row)
    results.replace(rows)


def _measured(tree: Tree, way: str, encoder: Encoder) -> dict[str, tuple[Row, NDArray[np.float64]]]:
    """Passages of an index, and for each search the points (file and function, questions)."""
    texts = [question.text for question in tree.questions]
    with (
        TemporaryDirectory(prefix="slimdex-bench-") as folder,
        Collection.create(Path(folder) / "x.index", encoder) as collection,
    ):
        collection.add([_document(path, text, way) for path, text in tree.files.items()])
        costs: Row = {"rows": collection.snapshot.state.rows}
        found = {}
        for number, (search, hybrid) in enumerate(SEARCHES.items()):
            progress(f"searching, {way}", number, len(SEARCHES))
            asked = SearchRequest(texts=texts, hybrid=hybrid)
            files = collection.answer(asked)
            passages = collection.answer(replace(asked, group_by="passage"))
            points = [*map(_points, tree.questions, files, passages)]
            found[search] = (costs, 100 * np.array(points, dtype=np.float64).T)
    return found


def _document(path: str, text: str, way: str) -> Document:
    """Document of a file, as `FileSource` makes it, with the parts of a way."""
    pure = PurePath(path)
    extract = divided(text, WAYS[way](text, pure.suffix))
    return Document(path, extract.text, title=pure.stem, parts=extract.parts)


def _points(
    question: Question, files: Sequence[Hit], passages: Sequence[Hit]
) -> tuple[float, float]:
    """Return if the file is among the files found, and the function among the passages found."""
    return (
        any(hit.id == question.path for hit in files),
        any(_is_of(hit, question) for hit in passages),
    )


def _is_of(hit: Hit, question: Question) -> bool:
    """Return if half of a passage's lines are a function's, or half of the function's are in it."""
    last = hit.line + hit.text.count("\n")
    shared = min(last, question.last) - max(hit.line, question.first) + 1
    shorter = min(last - hit.line, question.last - question.first) + 1
    return hit.id == question.path and 2 * shared >= shorter
