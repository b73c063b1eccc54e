"""Retrieval tasks that mteb evaluates, beside `slimdex eval` on the same documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pytest
from datasets import Dataset
from mteb.models import SearchEncoderWrapper, SearchProtocol

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.mteb import SlimdexIndex, SlimdexSearch, SlimdexSearchWrapper, folder_task
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.integrations.mteb_search import Place
from slimdex.system.atomic_files import FIXED

from ...encoders import ReadingEncoder, WordEncoder
from .mteb_sets import ROUNDED, WordModel, make_set, measured, scores_of

OWN, COUNT = "docstrings", 640


@pytest.fixture(scope="module")
def own_set(tmp_path_factory: pytest.TempPathFactory, docstrings: list[Document]) -> Path:
    return make_set(tmp_path_factory.mktemp("sets") / OWN, docstrings[:COUNT])


def evaluated(search: Any, tasks: Any, cache: Any = None, **options: Any) -> Any:
    return mteb.evaluate(
        search, tasks, cache=cache, show_progress_bar=False, co2_tracker=False, **options
    )


def test_figures_are_those_of_eval(own_set: Path, tmp_path: Path) -> None:
    """By slimdex as a whole, and by its index of the vectors that a model of mteb's makes."""
    folder, encoder = own_set, WordEncoder()
    search = SlimdexSearch(encoder, folder=tmp_path / "indexes")
    assert isinstance(search, SearchProtocol)
    found = scores_of(evaluated(search, folder_task(folder)))
    (index,) = (tmp_path / "indexes").iterdir()
    assert index.name == f"{OWN}-test-default.index"
    (sizes,) = search.sizes.values()
    with Collection.open(index, encoder) as collection:
        assert found == pytest.approx(measured(collection, folder), abs=ROUNDED)
        info = collection.info()
        assert sizes.ram_bytes == collection.index.snapshot.index.nbytes
        assert sizes.ram_bytes_per_vector == info["memory"]["ram_bytes_per_vector"] == 3
        others = ("doc", "off", "segment", *FIXED)
        vectors = {n: b for n, b in info["files"].items() if not n.startswith(others)}
        assert sizes.disk_bytes == sum(vectors.values())
        assert sizes.settings == info["settings"]
    assert found["ndcg@10"] > 0.05
    by_vectors = evaluated(SlimdexSearchWrapper(WordModel()), folder_task(folder))
    by_meaning = evaluated(SlimdexSearch(encoder, lexical=False), folder_task(folder))
    assert scores_of(by_vectors) == scores_of(by_meaning)


@pytest.mark.slow
def test_own_ids_passages_and_few_candidates(tmp_path: Path, docstrings: list[Document]) -> None:
    """Documents with a query's id are dropped, and one more is searched for in their place."""
    folder = make_set(tmp_path / "set", docstrings[:COUNT], asks_by_ids=True)
    encoder, settings = ReadingEncoder(max_length=32), Settings(candidates=110, kind="pq")
    search = SlimdexSearch(encoder, settings, folder=tmp_path / "indexes", vector_dtype="int8")
    found = scores_of(evaluated(search, folder_task(folder, drop_self=True)))
    ((place, sizes),) = search.sizes.items()
    assert place == ("set", "test", "default")
    assert sizes.vectors > sizes.documents == COUNT
    assert (sizes.candidates, sizes.stored) == (110, "int8")
    with Collection.open(tmp_path / "indexes" / "set-test-default.index", encoder) as collection:
        expected = measured(collection, folder, drop_self=True)
        assert sizes.vectors == collection.info()["passages"]["rows"]
    assert found == pytest.approx(expected, abs=ROUNDED)
    assert found["recall@10"] > 0.05


@pytest.mark.slow
def test_results_are_stored_apart_from_the_plain_models(own_set: Path, tmp_path: Path) -> None:
    """Of which those of exact search differ by what fp16 rounds."""
    cache, task, model = mteb.ResultCache(tmp_path), folder_task(own_set), WordModel()
    plain = scores_of(evaluated(model, task, cache))
    flat = SlimdexIndex(Settings(kind="flat", reducer="identity", candidates=0))
    exact = scores_of(evaluated(SearchEncoderWrapper(model, index_backend=flat), task))
    assert exact == pytest.approx(plain, abs=1e-3)
    search = SlimdexSearchWrapper(model, Settings(gamma=0.25, kind="sq8"))
    ours = scores_of(evaluated(search, task, cache))
    assert ours != plain
    (told,) = [*(tmp_path / "results").rglob("experiments/*/")]
    assert told.name == (
        "beta_0.0__candidates_auto__gamma_0.25__index_slimdex__k_auto__kind_sq8"
        "__reducer_whitening__stored_fp16"
    )
    assert (told / f"{OWN}.json").is_file()
    for meta, expected in ((model.mteb_model_meta, plain), (search.mteb_model_meta, ours)):
        (loaded,) = cache.load_results(models=[meta]).model_results
        assert scores_of(loaded) == pytest.approx(expected, abs=1e-6)
    ((place, sizes),) = search.sizes.items()
    assert place == (OWN, "test", "default")
    assert sizes.ram_bytes_per_vector == 24  # k = 24 dimensions, a byte each
    assert sizes.float32_bytes == 4 * COUNT * 48
    with pytest.raises(InputError, match="model tests/words: its experiment has beta, candidates"):
        SlimdexSearchWrapper(search)


@pytest.mark.slow
def test_one_search_takes_many_tasks_and_leaves_nothing(
    own_set: Path, tmp_path: Path, docstrings: list[Document]
) -> None:
    """Also after a task that failed, and one whose corpus is small or empty."""
    few = make_set(tmp_path / "few", docstrings[900:930])
    tasks = [folder_task(own_set), folder_task(few)]
    alone = [scores_of(evaluated(SlimdexSearchWrapper(WordModel()), task)) for task in tasks]
    search = SlimdexSearchWrapper(WordModel(), folder=tmp_path)
    asked: dict[str, Any] = {"hf_split": "test", "hf_subset": "default", "encode_kwargs": {}}
    tasks[1].load_data()
    corpus = tasks[1].dataset["default"]["test"]["corpus"]
    search.index(corpus, task_metadata=tasks[1].metadata, **asked)  # and no search
    result = evaluated(search, [folder_task(own_set), folder_task(few)])
    assert [scores_of(result, i) for i in (0, 1)] == alone
    assert [*tmp_path.glob("slimdex-mteb-*")] == []
    small = search.sizes[Place("few", "test", "default")]
    assert small.settings["kind"] == "flat"
    assert "kind pq needs 624 vectors" in small.notes[0]


def test_a_corpus_without_texts_is_refused(own_set: Path, tmp_path: Path) -> None:
    task, search = folder_task(own_set), SlimdexSearch(WordEncoder())
    asked: dict[str, Any] = {"task_metadata": task.metadata, "hf_split": "s", "hf_subset": "d"}
    with pytest.raises(InputError, match="no corpus; expected `index` before"):
        search.search(Dataset.from_dict({"id": ["1"], "text": ["a"]}), top_k=3)
    with pytest.raises(InputError, match="document '1' has no text"):
        search.index(Dataset.from_dict({"id": ["1"], "image": ["a"]}), **asked)
    search.index(Dataset.from_dict({"id": [], "text": []}), **asked)
    query = Dataset.from_dict({"id": ["7"], "text": ["a"]})
    assert search.search(query, top_k=3) == {"7": {}}
    corpus = Dataset.from_dict({"id": ["1", "2"], "text": ["a cat", "a dog"]})
    search.index(corpus, **asked)
    with pytest.raises(
        InputError, match="query '7' is not text; expected a text, not a conversation"
    ):
        search.search(Dataset.from_dict({"id": ["7"], "text": [["a", "b"]]}), top_k=3)
    asking = Dataset.from_dict({"id": ["7"], "text": ["a"], "instruction": ["cat"]})
    (found,) = search.search(asking, top_k=3).values()
    assert [*found] == ["1", "2"]
    search.index(corpus, **asked)
    with pytest.raises(InputError, match="lists to rerank"):
        search.search(query, top_k=3, top_ranked={"7": ["2"]})
    with pytest.raises(InputError, match=r"no corpus.jsonl there"):
        folder_task(tmp_path)


@pytest.mark.slow
def test_names_of_models(tiny_bert: Path) -> None:
    meta = SlimdexSearch(tiny_bert).mteb_model_meta
    assert meta.name == f"local/{tiny_bert.name}"
    assert str(meta.experiment_kwargs).count("'passages'") == 1
    default = SlimdexSearch().mteb_model_meta
    assert default.name == "sentence-transformers/all-MiniLM-L6-v2"
    assert default.training_datasets  # what mteb knows of the model
    own = SlimdexSearch(lambda texts: np.ones((len(texts), 4))).mteb_model_meta
    assert str(own.name).startswith("local/tests.retrieval")
