"""Exact neighbours, ranks by codes and pools against brute force."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.quality import query_pools, recall_trials
from slimdex.retrieval.quality.query_pools import (
    CLOZE,
    MIXED,
    VECTORS,
    document_pool,
    sentences,
)
from slimdex.retrieval.quality.recall_trials import Pool, Trials, recalls
from tests.encoders import WordEncoder


@pytest.fixture(scope="module")
def collection(
    tmp_path_factory: pytest.TempPathFactory, docstrings: list[Document]
) -> Iterator[Collection]:
    path = tmp_path_factory.mktemp("trials") / "x"
    with Collection.create(path, WordEncoder(), Settings(k=24, gamma=0.5, beta=0.5)) as made:
        made.add([*docstrings, Document("empty", " ")])
        made.delete([d.id for d in docstrings[100:150]])
        yield made


@pytest.fixture
def trials(collection: Collection, tmp_path: Path) -> Trials:
    return Trials(collection.index.snapshot, tmp_path)


@pytest.fixture
def pool(collection: Collection) -> Pool:
    rng = np.random.default_rng(4)
    return document_pool(collection.index.snapshot, WordEncoder(), 30, rng)


def cosines(trials: Trials, pool: Pool, beta: float, gamma: float) -> NDArray[np.float64]:
    """By the definition, in float64: of all rows, those that no search finds at -inf."""
    X = trials.vectors.take(np.arange(len(trials.vectors))).astype(np.float64)
    kept = X[trials.live]
    shift = beta * kept.mean(axis=0)
    values, axes = np.linalg.eigh((kept - shift).T @ (kept - shift) / len(kept))
    turned = axes * values ** (-gamma / 2)
    unit, asked = (X - shift) @ turned, (pool.vectors - shift) @ turned
    lengths = np.maximum(np.linalg.norm(unit, axis=1), 1e-9)  # documents without text have none
    out: NDArray[np.float64] = asked @ unit.T / lengths / np.linalg.norm(asked, axis=1)[:, None]
    out[:, trials.hidden] = -np.inf
    for scores, own in zip(out, pool.held_out, strict=True):
        scores[own[own >= 0]] = -np.inf
    return out


@pytest.mark.parametrize(("beta", "gamma"), [(0.0, 0.0), (0.5, 0.5)])
def test_exact_neighbours_by_brute_force(
    trials: Trials, pool: Pool, beta: float, gamma: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall_trials, "ROWS_TOGETHER", 300)  # several blocks
    found = trials.exact(pool, Rescorer.fit(trials.moments, beta, gamma))
    scores = cosines(trials, pool, beta, gamma)
    tenth = -np.sort(-scores, axis=1)[:, 9]
    for i, rows in enumerate(found):
        assert len(set(rows.tolist())) == 10
        assert not set(rows.tolist()) & {*pool.held_out[i].tolist(), *trials.hidden.tolist()}
        assert (scores[i, rows] >= tenth[i] - 1e-4).all()


def test_ranks_are_what_a_search_with_so_many_candidates_finds(trials: Trials, pool: Pool) -> None:
    settings = Settings(k=24, beta=0.5, gamma=0.5, kind="sq4")
    index = trials.build(settings)
    truth = trials.exact(pool, Rescorer.fit(trials.moments, 0.5, 0.5))
    ranks = trials.ranks(index, pool, truth, 300)
    for candidates in (10, 20, 60, 300):
        index.asked_candidates = candidates
        shares, seconds = trials.measure(index, pool, truth)
        # Neighbours of one score may take each other's place in the answer.
        np.testing.assert_allclose(shares.mean(), recalls(ranks, candidates).mean(), atol=0.02)
        assert len(seconds) == 30
        assert min(seconds) > 0
    assert 0.2 < recalls(ranks, 10).mean() < 1


def test_documents_of_several_sentences_are_asked_by_words_of_one(
    collection: Collection, docstrings: list[Document], pool: Pool
) -> None:
    encoder = WordEncoder()
    rng = np.random.default_rng(4)
    again = document_pool(collection.index.snapshot, encoder, 30, rng)
    assert again.name == pool.name == CLOZE
    np.testing.assert_array_equal(again.vectors, pool.vectors)
    for text, (row,) in zip(encoder.encoded, pool.held_out.tolist(), strict=True):
        of = [sentence.split() for sentence in sentences(docstrings[row].content)]
        assert any(in_order(text.split(), words) for words in of)
        assert len(of) > 1
    assert not np.isin(pool.held_out, collection.index.snapshot.hidden).any()


def in_order(some: list[str], words: list[str]) -> bool:
    """Whether some of the words are left, in their order."""
    rest = iter(words)
    return all(word in rest for word in some)


def test_short_documents_are_asked_by_two(tmp_path: Path) -> None:
    texts = [f"one{i} two{i} three{i} four{i} five{i}" for i in range(50)]
    encoder = WordEncoder()
    with Collection.create(tmp_path / "x", encoder) as collection:
        collection.add([Document(str(i), text) for i, text in enumerate(texts)])
        encoder.encoded.clear()
        rng = np.random.default_rng(0)
        pool = document_pool(collection.index.snapshot, encoder, 40, rng)
    assert pool.name == MIXED
    assert (pool.held_out[:, 0] != pool.held_out[:, 1]).all()
    asked = WordEncoder().encode(encoder.encoded)
    unit = asked / np.linalg.norm(asked, axis=1, keepdims=True)
    np.testing.assert_allclose(pool.vectors, (unit[0::2] + unit[1::2]) / 2, atol=1e-6)
    for words, row in zip(encoder.encoded, pool.held_out.ravel().tolist(), strict=True):
        assert set(words.split()) <= set(texts[row].split())
    dropped = 1 - np.mean([len(words.split()) / 5 for words in encoder.encoded])
    assert dropped == pytest.approx(query_pools.DROPPED, abs=0.1)


def test_given_vectors_are_asked_by_two(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 12)).astype(np.float32)
    with Collection.create(tmp_path / "x", GivenEncoder(12)) as collection:
        collection.add([Document(str(i), "a") for i in range(60)], vectors=X)
        rng = np.random.default_rng(0)
        pool = document_pool(collection.index.snapshot, None, 25, rng)
        stored = collection.index.snapshot.vectors().take(np.arange(60))
    assert pool.name == VECTORS
    unit = stored / np.linalg.norm(stored, axis=1, keepdims=True)
    np.testing.assert_allclose(pool.vectors, unit[pool.held_out].mean(axis=1), atol=1e-6)


def test_ranks_by_hand() -> None:
    found: Rows = np.array([[9, 4, 7, 5, -1]])
    truth: Rows = np.array([[4, 5, 6, -1]])
    own: Rows = np.array([[9, -1]])
    ranks = recall_trials.ranks_of(found, truth, own, 100)
    np.testing.assert_array_equal(ranks, [[0, 2, np.inf, np.nan]])
    assert recalls(ranks, 2).tolist() == [1 / 3]
    assert recalls(ranks, 3).tolist() == [2 / 3]
