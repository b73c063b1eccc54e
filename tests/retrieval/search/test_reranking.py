"""A cross-encoder's scores against transformers' own, and hits in their order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from slimdex import Collection, CrossEncoder, Hit, InputError
from tests.encoders import WordEncoder, make_tiny_bert


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_bert(tmp_path_factory.mktemp("cross"), labels=1)


def test_scores_equal_those_of_each_pair_alone(folder: Path) -> None:
    texts = [f"the cat {'rain ' * (i % 7)}dog {'abc' * i}" for i in range(40)]
    texts.append("the dog " * 500)  # longer than it reads
    actual = CrossEncoder(folder).scores("rain cat", texts)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    for text, score in zip(texts, actual, strict=True):
        pair = tokenizer(
            "rain cat", text, truncation="longest_first", max_length=64, return_tensors="pt"
        )
        with torch.inference_mode():
            assert score == pytest.approx(model(**pair).logits.item(), abs=1e-5)
    assert len({round(float(score), 5) for score in actual}) > 10


def test_hits_are_sorted_by_its_scores(folder: Path) -> None:
    hits = [Hit(str(i), 1 - i / 10, "dog " * i, title="cat") for i in range(8)]
    encoder = CrossEncoder(folder)
    scores = encoder.scores("rain", [f"cat {hit.text}".strip() for hit in hits])
    results = encoder.reranked("rain", hits, limit=3)
    assert [hit.id for hit in results] == [str(i) for i in np.argsort(-scores, kind="stable")[:3]]
    assert [hit.score for hit in results] == pytest.approx(sorted(scores, reverse=True)[:3])
    assert encoder.reranked("rain", []) == []


def test_a_search_takes_a_cross_encoder_or_its_name(folder: Path, tmp_path: Path) -> None:
    encoder = CrossEncoder(folder)
    texts = [f"the cat {'rain ' * (i % 7)}dog {'abc' * i}" for i in range(60)]
    with Collection.create(tmp_path / "x", WordEncoder()) as collection:
        collection.add([{"id": i, "text": text} for i, text in enumerate(texts)])
        first = collection.search("rain cat", limit=50)
        expected = encoder.reranked("rain cat", first, 9)
        for given in (encoder, str(folder)):
            hits = collection.search("rain cat", limit=5, rerank=given)
            assert [(hit.id, hit.score) for hit in hits] == [(h.id, h.score) for h in expected[:5]]
        least = expected[3].score
        hits = collection.search("rain cat", limit=9, min_score=least, rerank=encoder)
        assert hits == [hit for hit in expected if hit.score >= least]
        least = first[3].score
        assert collection.search_many(["rain cat"], 9, min_score=least) == [
            [hit for hit in collection.search("rain cat", 9) if hit.score >= least]
        ]


def test_invalid_cross_encoders_are_refused(tmp_path: Path) -> None:
    several = make_tiny_bert(tmp_path / "several", labels=3)
    damaged = make_tiny_bert(tmp_path / "damaged", labels=1)
    weights = damaged / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    (empty := tmp_path / "empty").mkdir()
    for wrong in (several, make_tiny_bert(tmp_path / "headless"), damaged, empty):
        with pytest.raises(InputError):
            CrossEncoder(wrong)
