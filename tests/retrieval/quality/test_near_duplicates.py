"""Near-duplicates: the same as by numpy's brute force, and what a deletion leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.quality import near_duplicates
from slimdex.retrieval.quality.near_duplicates import delete_near_duplicates
from slimdex.retrieval.store.snapshot import Snapshot
from tests.encoders import ReadingEncoder, WordEncoder

Groups = dict[str, dict[str, float]]


def brute(vectors: list[Matrix], least: float) -> Groups:
    """Stars by numpy, in float64: a document's passages are rows of its matrix."""
    rows = np.concatenate(vectors).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    starts = np.cumsum([0, *map(len, vectors[:-1])])
    best = np.maximum.reduceat(rows @ rows.T, starts, axis=1)  # of each row in each document
    covered = np.minimum.reduceat(best, starts, axis=0)
    scores = np.minimum(covered, covered.T)
    groups: Groups = {}
    gone = set[int]()
    for kept, own in enumerate(scores):
        near = [other for other in np.flatnonzero(own >= least).tolist() if other > kept]
        if kept not in gone and (new := [other for other in near if other not in gone]):
            groups[str(kept)] = {str(other): float(own[other]) for other in new}
            gone.update(new)
    return groups


def found(collection: Collection, least: float) -> Groups:
    groups = collection.near_duplicates(least)
    return {group.kept: dict(group.others) for group in groups}


def stored(collection: Collection) -> Matrix:
    """The vectors as they are on disk, in float16."""
    vectors = collection.index.snapshot.index.vectors
    return vectors.take(np.arange(len(vectors)))


def clustered(count: int, dim: int, seed: int) -> Matrix:
    """Chains, exact duplicates and vectors that are near nothing."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(count // 4, dim))
    X = centres[rng.integers(len(centres), size=count)]
    X = X + rng.normal(size=X.shape) * rng.choice([0, 0.1, 0.3, 2.0], size=(count, 1))
    return normalize_rows(X.astype(np.float32))


def same(some: Groups, others: Groups) -> None:
    assert {kept: [*group] for kept, group in some.items()} == {
        kept: [*group] for kept, group in others.items()
    }
    for kept, group in some.items():
        assert [*group.values()] == pytest.approx([*others[kept].values()], abs=2e-6)


@pytest.fixture(autouse=True)
def _several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_duplicates, "BLOCK_ROWS", 150)


@pytest.mark.parametrize(("dim", "least"), [(32, 0.9), (200, 0.5), (200, 1.0)])
def test_the_pairs_are_those_of_brute_force(tmp_path: Path, dim: int, least: float) -> None:
    X = clustered(1000, dim, seed=dim)
    settings = Settings(k=16, kind="flat", candidates=0)  # codes and metric do not matter
    with Collection.create(tmp_path / "i", GivenEncoder(dim), settings) as collection:
        collection.add([Document(str(i), "a text") for i in range(len(X))], vectors=X)
        collection.delete(["7", "999"])
        rows = [*stored(collection)[:, None]]
        kept = [i for i in range(len(X)) if i not in (7, 999)]
        expected = brute([rows[i] for i in kept], least - 1e-6)
        named = {
            str(kept[int(first)]): {str(kept[int(i)]): score for i, score in group.items()}
            for first, group in expected.items()
        }
        assert 10 < len(named) < 1000
        same(found(collection, least), named)


def test_documents_of_several_passages(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(30)]
    texts = list[str]()
    for _ in range(300):
        base = texts[rng.integers(len(texts))].split() if texts and rng.random() < 0.7 else []
        text = [*base, *rng.choice(words, 40)] if rng.random() < 0.3 or not base else base
        if rng.random() < 0.5:
            text = [*text[10:], *text[:10]]
        texts.append(" ".join(text))
    encoder = ReadingEncoder()
    with Collection.create(tmp_path / "i", encoder, passages=16) as collection:
        collection.add([{"id": str(i), "text": text} for i, text in enumerate(texts)])
        snapshot = collection.index.snapshot
        firsts = snapshot.live_documents()
        counts = snapshot.document_rows.counts_of(firsts)
        assert counts.max() > 5
        rows = np.split(stored(collection), np.cumsum(counts)[:-1])
        for least in (0.97, 0.8):
            expected = brute(rows, least - 1e-6)
            assert len(expected) > 20
            same(found(collection, least), expected)


def test_all_but_the_first_are_deleted_in_one_commit(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        texts = ["a cat", "stocks fell", "a cat", "cat a", "", "stocks fell", "", "rain"]
        collection.add([{"id": str(i), "text": text} for i, text in enumerate(texts)])
        before = collection.version
        groups = delete_near_duplicates(collection.index)
        assert {g.kept: [other.id for other in g.others] for g in groups} == {
            "0": ["2", "3"],
            "1": ["5"],
        }
        assert collection.version == before + 1
        assert [document.id for document in collection] == ["0", "1", "4", "6", "7"]
        assert delete_near_duplicates(collection.index) == []
        assert collection.version == before + 1


def test_a_document_deleted_by_others_meanwhile_keeps_no_duplicates(tmp_path: Path) -> None:
    """Documents that another process deletes after the search are left out of the groups."""
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add([{"id": str(i), "text": "a cat"} for i in range(3)])
        index, read = collection.index, collection.index.read
        with (
            Collection.open(tmp_path / "i", WordEncoder()) as other,
            pytest.MonkeyPatch.context() as p,
        ):

            def then_deleted(given: Callable[[Snapshot], Any]) -> Any:
                answer = read(given)
                if "0" in other:
                    other.delete("0")
                return answer

            p.setattr(index, "read", then_deleted)
            groups = delete_near_duplicates(index)
        assert [group.kept for group in groups] == ["1"]
        assert [document.id for document in collection] == ["1"]


def test_a_least_score_that_is_no_cosine_is_refused(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add([{"id": "1", "text": "a cat"}])
        assert collection.near_duplicates(0.5) == []
        for least in (0.0, 1.01, -1, float("nan")):
            with pytest.raises(InputError, match="expected more than 0, and 1 at most"):
                collection.near_duplicates(least)
