"""What tests of mteb share: labelled folders, and a model of mteb's that needs no hub."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mteb.models import ModelMeta
from mteb.models.model_meta import ScoringFunction
from mteb.similarity_functions import cos_sim, pairwise_cos_sim

from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.quality.evaluation import evaluate
from slimdex.retrieval.quality.labels import read_qrels
from slimdex.retrieval.sources.source import read_pairs

from ...encoders import WordEncoder

MEASURES = {
    "ndcg@10": "ndcg_at_10",
    "mrr@10": "mrr_at_10",
    "recall@10": "recall_at_10",
    "recall@100": "recall_at_100",
}
"""Ours -> mteb's."""
ROUNDED = 6e-6
"""mteb rounds to five digits."""


class WordModel:
    """A bag of words as mteb has encoders."""

    def __init__(self, dim: int = 48) -> None:
        self._encoder = WordEncoder(dim)
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": "tests/words",
                "revision": "1",
                "embed_dim": dim,
                "similarity_fn_name": ScoringFunction.COSINE,
            }
        )

    def encode(self, inputs: Iterable[Any], **kwargs: Any) -> Matrix:
        return self._encoder.encode([text for batch in inputs for text in batch["text"]])

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        return cos_sim(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        return pairwise_cos_sim(embeddings1, embeddings2)


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


def measured(collection: Collection, folder: Path, *, drop_self: bool = False) -> dict[str, float]:
    """Measures that `slimdex eval` reports of a default search."""
    queries, qrels = read_pairs(str(folder)), read_qrels(folder / "qrels" / "test.tsv")
    report = evaluate(collection.index, queries, qrels, drop_self=drop_self)["default"]
    return {name: report[name] for name in MEASURES}


def scores_of(result: Any, task: int = 0) -> dict[str, float]:
    """The same measures of a result of `mteb.evaluate`."""
    ((scores,),) = result.task_results[task].scores.values()
    return {ours: scores[theirs] for ours, theirs in MEASURES.items()}
