"""Public sets, read by mteb's loader from a folder instead of the hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mteb
import pytest
from mteb.abstasks import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

from slimdex.bench.datasets import load_dataset, set_of_task
from slimdex.errors import InputError

CONFIGS = """---
configs:
- {config_name: default, data_files: [{split: test, path: qrels/test.jsonl}]}
- {config_name: corpus, data_files: [{split: corpus, path: corpus.jsonl}]}
- {config_name: queries, data_files: [{split: queries, path: queries.jsonl}]}
---
"""
"""Dataset card as on the hub, where labels are JSON, too."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set in BEIR's layout. One query is also a document; another one has no label."""
    found = tmp_path / "weather"
    (found / "qrels").mkdir(parents=True)
    documents = [("1", "Rain", "falls in drops"), ("2", "", "snow"), ("3", "Hail", "is ice")]
    queries = [("a", "water from above"), ("2", "snow"), ("b", "nobody judged this")]
    corpus = [{"_id": id, "title": title, "text": text} for id, title, text in documents]
    asked = [{"_id": id, "text": text} for id, text in queries]
    for name, rows in (("corpus", corpus), ("queries", asked)):
        (found / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    labels = [("a", "1", 2), ("a", "3", 0), ("2", "3", 1)]
    heads = ("query-id", "corpus-id", "score")
    lines = [json.dumps(dict(zip(heads, label, strict=True))) + "\n" for label in labels]
    (found / "qrels" / "test.jsonl").write_text("".join(lines))
    tsv = "".join(f"{query}\t{document}\t{score}\n" for query, document, score in labels)
    (found / "qrels" / "test.tsv").write_text("\t".join(heads) + "\n" + tsv)
    (found / "README.md").write_text(CONFIGS)
    return found


def task_of(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A retrieval task, declared as in mteb, that loads the folder."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", cache)

    metadata = TaskMetadata(
        name="Weather",
        description="A set of three documents",
        dataset={"path": str(folder), "revision": "main"},
        type="Retrieval",
        category="t2t",
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
    )
    return type("Weather", (AbsTaskRetrieval,), {"metadata": metadata})()


def test_a_task_of_mteb_is_the_set_in_its_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_name = set_of_task(task_of(folder, tmp_path / "cache", monkeypatch))
    local = load_dataset("weather", folder.parent)
    assert by_name.name == "Weather"
    for found in (by_name, local):
        assert found.ids == ["1", "2", "3"]
        assert found.texts == ["Rain falls in drops", "snow", "Hail is ice"]
        assert found.query_ids == ["a", "2"]
        assert found.query_texts == ["water from above", "snow"]
        assert found.qrels == {"a": {"1": 2, "3": 0}, "2": {"3": 1}}
        assert found.self_rows.tolist() == [-1, 1]


@pytest.mark.parametrize("name", ["NFCorpus", "FiQA2018", "SCIDOCS", "TRECCOVID"])
def test_held_out_sets_are_tasks_of_mteb_with_a_test_split(name: str) -> None:
    metadata = mteb.get_task(name).metadata
    assert metadata.eval_splits == ["test"]
    assert not metadata.is_multilingual


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("NFCorpus", "mteb can't load it"),
        ("STSBenchmark", "expected retrieval"),
        ("no-such-set", "expected one such as NFCorpus"),
    ],
)
def test_a_set_that_is_not_there_is_one_line(
    name: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    with pytest.raises(InputError, match=reason) as refused:
        load_dataset(name, None)
    assert str(refused.value).startswith(f"{name}: ")
    assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match="no such folder"):
        load_dataset(name, tmp_path)
