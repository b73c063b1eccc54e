"""The encoder with the reducer, read back by sentence-transformers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from slimdex import (
    Collection,
    GivenEncoder,
    InputError,
    Settings,
    StaticEncoder,
    TransformerEncoder,
    export,
)
from slimdex.indexes.reducers.reducer import reduce_rows
from slimdex.retrieval.encoders.base import Encoder, encode_queries
from tests.encoders import WIDTH, make_tiny_model
from tests.slow import slow

from ..encoders.word_vectors.written_files import glove

TO = "sentence-transformers"
TOLERANCE = 1e-5
"""Of numbers of unit vectors: OpenVINO computes in slimdex, torch in sentence-transformers."""
WORDS = ["the", "cat", "dog", "rain", "a", "sun", "and", "field", "xyz", "ink"]
TEXTS = [
    " ".join(np.random.default_rng(i).choice(WORDS, 1 + i % 9).tolist()) for i in range(60)
] + ["The Cat " * 40]
"""Of one word to many, and one that is longer than what the tiny models read."""


def made(folder: Path, encoder: Encoder, settings: Settings) -> Collection:
    collection = Collection.create(folder, encoder, settings, passages="off")
    collection.add([{"id": str(i), "text": text} for i, text in enumerate(TEXTS)])
    return collection


def check_same(collection: Collection, folder: Path) -> SentenceTransformer:
    """The library's vectors are slimdex's, in batches with padding, and find the same."""
    done = export(collection, folder, TO)
    assert (done.rows, done.dim) == (None, collection.index.snapshot.index.reducer.n_components)
    model = SentenceTransformer(str(folder), device="cpu")
    queries = encode_queries(collection.encoder, TEXTS)
    found = model.encode_query(TEXTS, batch_size=7)
    expected = reduce_rows(collection.index.snapshot.index.reducer, queries)
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)
    rows = model.encode_document(TEXTS)
    scores = found[:9] @ rows.T
    hits = collection.search_many(TEXTS[:9], 3, candidates=0, hybrid="off")
    for own, best in zip(scores, hits, strict=True):
        np.testing.assert_allclose(
            np.sort(own)[::-1][:3], [hit.score for hit in best], atol=2 * TOLERANCE + 1e-3
        )  # what is kept on disk is float16
    return model


@pytest.mark.parametrize(
    ("architecture", "pooling", "settings"),
    [
        ("bert", "mean", Settings(8, kind="flat")),
        ("bert", "cls+weightedmean", Settings(8, kind="flat")),
        *slow(
            [
                ("bert", "max", Settings(8, kind="flat", reducer="autoencoder")),
                ("gpt2", "last", Settings(8, beta=1.0, gamma=1.0, kind="flat")),
                ("t5", "mean", Settings(kind="flat", reducer="identity")),
            ]
        ),
    ],
)
def test_it_gives_the_reduced_vectors(
    tmp_path: Path, architecture: str, pooling: str, settings: Settings
) -> None:
    side = "left" if architecture == "gpt2" else "right"
    folder = make_tiny_model(architecture, tmp_path / "model", side)
    encoder = TransformerEncoder(str(folder), pooling=pooling, precision="fp32")
    with made(tmp_path / "i", encoder, settings) as collection:
        check_same(collection, tmp_path / "x")


@pytest.mark.slow
def test_the_models_own_head_and_settings_are_kept(tiny_bert: Path, tmp_path: Path) -> None:
    """Its Dense and Normalize, prompts, the length that is read, lower case; and it goes on."""
    with made(
        tmp_path / "first", TransformerEncoder(str(tiny_bert), precision="fp32"), Settings(12)
    ) as collection:
        export(collection, tmp_path / "model", TO)
    limits = {"max_seq_length": 16, "do_lower_case": True}
    (tmp_path / "model" / "sentence_bert_config.json").write_text(json.dumps(limits))
    encoder = TransformerEncoder(
        str(tmp_path / "model"), precision="fp32", query_prompt="the ", document_prompt="ink "
    )
    assert (encoder.dim, encoder.max_length) == (12, 16)
    with made(tmp_path / "i", encoder, Settings(6, kind="flat")) as collection:
        model = check_same(collection, tmp_path / "x")
        assert export(collection, tmp_path / "full", TO, vectors="full").dim == 12
    assert model.prompts == {"query": "the ", "document": "ink "}
    full = SentenceTransformer(str(tmp_path / "full"), device="cpu")
    np.testing.assert_allclose(
        full.encode_query(TEXTS), encoder.encode_queries(TEXTS), atol=TOLERANCE
    )


@pytest.mark.parametrize("pooling", ["mean", "sif"])
def test_word_vectors_are_a_static_embedding(tmp_path: Path, pooling: str) -> None:
    """With words that are not known, whose number makes no difference to what has unit length."""
    rng = np.random.default_rng(0)
    path = glove(tmp_path / "words", WORDS[:8], rng.normal(size=(8, 10)).astype(np.float32))
    encoder = StaticEncoder(path, pooling=pooling, query_prompt="the cat ")
    with made(tmp_path / "i", encoder, Settings(4)) as collection:
        check_same(collection, tmp_path / "x")
        collection.reduce(Settings(4, beta=1.0))
        for vectors in ("reduced", "full"):
            with pytest.raises(InputError, match="unknown words"):
                export(collection, tmp_path / "y", TO, vectors=vectors)


def test_an_index_that_the_library_has_no_modules_for_is_refused(
    tiny_bert: Path, tmp_path: Path
) -> None:
    encoder = TransformerEncoder(str(tiny_bert), pooling="mean@1,-1", precision="fp32")
    with made(tmp_path / "i", encoder, Settings(8, kind="flat")) as collection:
        with pytest.raises(InputError, match="pooling"):
            export(collection, tmp_path / "x", TO)
        collection.reduce(Settings(4, kind="flat", reducer="flow"))
        with pytest.raises(InputError, match="reducer 'flow'"):
            export(collection, tmp_path / "x", TO)
    with Collection.create(tmp_path / "g", GivenEncoder(WIDTH), Settings(4)) as given:
        with pytest.raises(InputError, match="holds no documents; expected some"):
            export(given, tmp_path / "x", TO)
        given.add([{"id": "1", "text": "a"}], vectors=np.ones((1, WIDTH), np.float32))
        with pytest.raises(InputError, match="encoder 'given'"):
            export(given, tmp_path / "x", TO)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g", "i"]
