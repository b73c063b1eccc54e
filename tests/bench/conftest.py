"""A small task that is measured for real: words of a seeded vocabulary, encoded as bags."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest

from slimdex.bench.datasets import Dataset, Task, encode_texts
from slimdex.bench.engines.measuring import MeasuredEngine
from slimdex.bench.machine import limit_threads
from slimdex.retrieval.documents import Document
from tests.encoders import WordEncoder

VERSIONS = {"python": "3", "faiss-cpu": "1", "torch": "2", "numpy": "2"}
SHORT = {
    "paired_measures.RESAMPLES": 300,
    "experiments.peers_study.BUILDS": 1,
    "experiments.fusion_study.NAMES": 60,
    "experiments.fusion_study.TIMED": 5,
    "experiments.points_study.FEWEST": 3,
    "experiments.points_study.TIMED_S": 0.0,
}
ABOUT = {"versions": VERSIONS, "processor": "P", "threads": 2, "seed": 0}


class Here:
    """In place of a `Subprocess`: the object in this process, as another takes seconds to start."""

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        self.remote = make(*arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        limit_threads(None)
        if isinstance(self.remote, MeasuredEngine):
            self.remote._folder.cleanup()  # as its process would


@pytest.fixture(scope="session")
def dataset() -> Dataset:
    """800 documents of 30 words; queries are 8 words of a document, which is the answer."""
    rng = np.random.default_rng(11)
    letters = list("abcdefghijklmnopqrstuvwxyz")  # which the tiny BERT knows
    words = np.array(["".join(rng.choice(letters, 5)) for _ in range(400)])
    texts = [" ".join(rng.choice(words, 30)) for _ in range(800)]
    documents = [Document(f"d{i}", text) for i, text in enumerate(texts)]
    queries = [(f"q{i}", " ".join(rng.choice(texts[i].split(), 8))) for i in range(60)]
    return Dataset.of("words", documents, queries, {f"q{i}": {f"d{i}": 1} for i in range(60)})


@pytest.fixture(scope="module", autouse=True)
def short() -> Iterator[None]:
    """Build once, time few searches, ask for few names, and take fewer samples."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SHORT.items():
            patch.setattr(f"slimdex.bench.{name}", value)
        yield


@pytest.fixture
def library(docstrings: list[Document], monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard library has 1,200 docstrings; to read all of them takes seconds."""
    source = SimpleNamespace(batches=lambda: [docstrings])
    monkeypatch.setattr("slimdex.bench.datasets.open_source", lambda _: source)


@pytest.fixture(scope="session")
def task(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Task:
    cache, encoder = tmp_path_factory.mktemp("cache"), WordEncoder()
    vectors = encode_texts(encoder, dataset.texts, cache)
    return Task(dataset, "words", vectors, encode_texts(encoder, dataset.query_texts, cache))


@pytest.fixture
def beir(tmp_path: Path, dataset: Dataset) -> Path:
    """The same in BEIR's layout; the folder is the `--data` of a set called words."""
    import json

    folder = tmp_path / "data" / "words"
    (folder / "qrels").mkdir(parents=True)
    pairs = {
        "corpus": zip(dataset.ids, dataset.texts, strict=True),
        "queries": zip(dataset.query_ids, dataset.query_texts, strict=True),
    }
    for name, rows in pairs.items():
        lines = [json.dumps({"_id": id, "text": text}) + "\n" for id, text in rows]
        (folder / f"{name}.jsonl").write_text("".join(lines))
    labels = "".join(f"q{i}\td{i}\t1\n" for i in range(60))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + labels)
    return folder.parent
