"""Retrieval tasks that mteb evaluates, beside `slimdex eval` on the same documents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import mteb
import pytest
from datasets import Dataset
from mteb.models import SearchProtocol

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.mteb import SlimdexSearch, folder_task
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.quality.evaluation import evaluate
from slimdex.retrieval.quality.labels import read_qrels
from slimdex.retrieval.sources.source import read_pairs

from ...encoders import ReadingEncoder, WordEncoder

COUNT = 640
MEASURES = {
    "ndcg@10": "ndcg_at_10",
    "mrr@10": "mrr_at_10",
    "recall@10": "recall_at_10",
    "recall@100": "recall_at_100",
}
"""Ours -> mteb's."""
ROUNDED = 6e-6
"""mteb rounds to five digits."""


def make_set(folder: Path, documents: Sequence[Document], *, asks_by_ids: bool = False) -> Path:
    """A labelled folder: a document's first words ask for it, and, less so, for the next one. The
    queries' ids are documents' if so wanted."""
    (folder / "qrels").mkdir(parents=True)
    rows = [{"_id": d.id, "title": d.title, "text": d.text} for d in documents]
    asked = [*range(0, len(documents) - 1, 16)]
    names = [documents[i].id if asks_by_ids else f"q{i}" for i in asked]
    texts = [" ".join(documents[i].content.split()[:12]) for i in asked]
    queries = [{"_id": name, "text": text} for name, text in zip(names, texts, strict=True)]
    write_lines(folder / "corpus.jsonl", rows)
    write_lines(folder / "queries.jsonl", queries)
    labels = ["query-id\tcorpus-id\tscore"]
    for name, i in zip(names, asked, strict=True):
        labels += [f"{name}\t{documents[i].id}\t2", f"{name}\t{documents[i + 1].id}\t1"]
    (folder / "qrels" / "test.tsv").write_text("\n".join(labels))
    return folder


def write_lines(path: Path, rows: Iterable[dict[str, str]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def evaluated(search: SlimdexSearch, task: Any, cache: Any = None) -> dict[str, float]:
    """Scores of `mteb.evaluate`, by the names of `slimdex eval`."""
    result = mteb.evaluate(search, task, cache=cache, show_progress_bar=False, co2_tracker=False)
    ((scores,),) = result.task_results[0].scores.values()
    return {ours: scores[theirs] for ours, theirs in MEASURES.items()}


@pytest.mark.parametrize(
    ("encoder", "settings", "drop_self"),
    [
        (WordEncoder(), Settings(), False),
        (ReadingEncoder(max_length=32), Settings(candidates=110, kind="pq"), True),
    ],
)
def test_figures_are_those_of_eval(
    tmp_path: Path, docstrings: list[Document], encoder: Any, settings: Settings, drop_self: bool
) -> None:
    """Also for texts of several passages, and if documents with a query's id are dropped."""
    folder = make_set(tmp_path / "set", docstrings[:COUNT], asks_by_ids=drop_self)
    search = SlimdexSearch(encoder, settings, folder=tmp_path / "indexes")
    assert isinstance(search, SearchProtocol)
    task = folder_task(folder)
    task.ignore_identical_ids = drop_self
    cache = mteb.ResultCache(tmp_path / "results")
    found = evaluated(search, task, cache)
    with Collection.open(tmp_path / "indexes" / "set-test-default.index", encoder) as collection:
        queries, qrels = read_pairs(str(folder)), read_qrels(folder / "qrels" / "test.tsv")
        report = evaluate(collection.index, queries, qrels, drop_self=drop_self)["default"]
    assert found == pytest.approx({name: report[name] for name in MEASURES}, abs=ROUNDED)
    assert found["recall@10"] > 0.05
    (loaded,) = cache.load_results(models=[search.mteb_model_meta]).model_results
    assert loaded.model_meta.experiment_kwargs["kind"] == settings.kind


def test_a_corpus_without_texts_is_refused() -> None:
    search = SlimdexSearch(WordEncoder(), lexical=False)
    asked: dict[str, Any] = {"hf_split": "s", "hf_subset": "d"}
    asked["task_metadata"] = mteb.get_task("NFCorpus").metadata
    with pytest.raises(InputError, match="text=None; expected a str"):
        search.index(Dataset.from_dict({"id": ["1"], "image": ["a"]}), **asked)
    search.index(Dataset.from_dict({"id": ["1", "2"], "text": ["a cat", "a dog"]}), **asked)
    query = Dataset.from_dict({"id": ["7"], "text": ["a"], "instruction": ["cat"]})
    (found,) = search.search(query, top_k=3).values()
    assert [*found] == ["1", "2"]
    with pytest.raises(InputError, match="lists to rerank"):
        search.search(query, top_k=3, top_ranked={"7": ["2"]})
    search.close()
