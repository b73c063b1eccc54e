"""The fusion for `auto`: by rule without labels, and off if labels show no significant gain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.lexical.fusion import Fusion
from slimdex.retrieval.quality import hybrid_choice
from slimdex.retrieval.quality.hybrid_choice import FUSIONS, fusion_ndcg
from slimdex.retrieval.quality.labels import LabelledQuery
from slimdex.retrieval.quality.query_pools import FROM_USER
from slimdex.retrieval.quality.tuning_targets import Target
from tests.encoders import WordEncoder

COUNT = 400
WORDS = [f"w{i}" for i in range(60)]
NAMES = [f"lib{i}-dev" for i in range(COUNT)]
EASY = Target(agreement=0.5)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    """Documents whose few dimensions hold no names: the encoder is as bad at them as real ones."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("choice") / "x.index"
    with Collection.create(path, WordEncoder(dim=12)) as made:
        texts = [" ".join(rng.choice(WORDS, 12)) for _ in range(COUNT)]
        made.add([Document(name, text) for name, text in zip(NAMES, texts, strict=True)])
        yield made


def test_labels_that_words_find_better_turn_fusion_on(collection: Collection) -> None:
    labels = {name: {name: 1} for name in NAMES}
    asked = [(n, f"{n} w1") for n in NAMES]
    tuned = collection.tune(EASY, queries=asked, labels=labels, apply=True)
    assert collection.hybrid == tuned.hybrid
    first = [collection.search(f"{name} w1", 1, hybrid="auto")[0].id for name in NAMES[:50]]
    assert first == NAMES[:50]
    assert collection.info()["lexical"]["hybrid"] == tuned.hybrid


@pytest.mark.slow
def test_a_fusion_takes_no_proof_of_agreement(collection: Collection) -> None:
    """225 queries can't prove .99; the default target is proved by queries made of documents."""
    asked = [(name, f"{name} w1") for name in NAMES[:225]]
    labels = {name: {name: 1} for name in NAMES}
    tuned = collection.tune(queries=asked, labels=labels)
    assert tuned.words is not None
    assert "225 queries with labels gain" in tuned.words
    assert tuned.hybrid is not None
    assert tuned.certificate is not None
    assert tuned.certificate.pool != FROM_USER
    assert tuned.certificate.bound >= 0.99
    assert "169 of 225 queries prove 0.97" in str(tuned.asked)
    assert tuned.asked in tuned.said
    with pytest.raises(InputError, match="169 of 225 queries prove"):
        collection.tune(queries=asked)


@pytest.mark.slow
def test_labels_that_meaning_finds_alone_turn_fusion_off(collection: Collection) -> None:
    """Labels are the exact search's own best, which nothing beats."""
    rng = np.random.default_rng(1)
    queries = [(str(i), " ".join(rng.choice(WORDS, 4))) for i in range(300)]
    labels = {id: {collection.search(text, 1, hybrid="off")[0].id: 1} for id, text in queries}
    tuned = collection.tune(EASY, queries=queries, labels=labels, apply=True)
    assert tuned.hybrid == "off"
    assert tuned.words is not None
    assert "off, 300 queries with labels show no clear gain" in tuned.words
    assert collection.hybrid == "off"


@pytest.mark.slow
def test_few_labels_change_nothing_and_a_new_index_of_words_forgets(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With the rule, which finds such names, nothing could be forgotten.
    monkeypatch.setattr(hybrid_choice, "FUSIONS", [Fusion(0.5), Fusion(None)])
    asked = [(n, f"{n} w1") for n in NAMES]
    collection.tune(EASY, queries=asked, labels={n: {n: 1} for n in NAMES}, apply=True)
    known = collection.hybrid
    assert known not in ("off", "auto")
    labels = {name: {name: 1} for name in NAMES[:50]}
    tuned = collection.tune(EASY, queries=asked[:50], labels=labels, apply=True)
    assert (tuned.hybrid, collection.hybrid) == (known, known)
    collection.index_lexical(False)
    assert collection.hybrid == "off"
    collection.index_lexical()
    assert collection.hybrid == "auto"


def test_each_fusion_is_measured_as_it_searches(collection: Collection) -> None:
    collection.index_lexical(False)
    collection.index_lexical()  # without the choice of another test
    snapshot = collection.index.snapshot
    rows = {id: row for row, id in enumerate(collection.index.store.ids_by_row())}
    for text, right in (("lib7-dev w1 w2", "lib7-dev"), ("w3 w4 lib9-dev", "lib11-dev")):
        query = WordEncoder(dim=12).encode([text])
        found = fusion_ndcg(snapshot, query, LabelledQuery(text, {rows[right]: 1}))
        ways = ["off", *map(str, FUSIONS)]
        for way, ndcg in zip(ways, found, strict=True):
            ids = [hit.id for hit in collection.search(text, 10, hybrid=way)]
            expected = 1 / np.log2(ids.index(right) + 2) if right in ids else 0.0
            assert ndcg == pytest.approx(expected), way
