"""Encoding by workers: the same index, and errors that name the documents."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from slimdex.retrieval.encoders.word_vectors.static_encoder import StaticEncoder
from slimdex.retrieval.ingest import encode
from slimdex.retrieval.sources.source import Sources
from slimdex.system.workers import PartError, Workers
from tests.building import build
from tests.encoders import ReadingEncoder, WordEncoder
from tests.system.through_pickle import ThroughPickle


def built(path: Path, documents: Sequence[Document], workers: Workers | None) -> dict[str, bytes]:
    """All files of an index but the catalog's, and those that name the process that wrote."""
    with Collection.create(path, ReadingEncoder(max_length=12), Settings(24)) as collection:
        if workers is not None:
            collection.index.workers = workers
        collection.add(documents[:700])
        collection.add([*documents[600:], Document("empty", "")])
        catalog = [(d.id, d.text) for d in collection]
    files = {
        p.name: p.read_bytes()
        for p in path.iterdir()
        if p.is_file() and not p.name.startswith(("slimdex", "writer"))
    }
    return files | {"documents": repr(catalog).encode()}


@pytest.mark.slow
def test_an_index_built_by_workers_equals_a_local_one(
    tmp_path: Path, docstrings: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With passages, documents that are there already, and one without text."""
    monkeypatch.setattr(encode, "FIRST_CHARACTERS", encode.FIRST_IN_PROCESSES)
    workers = ThroughPickle()
    here = built(tmp_path / "here", docstrings, None)
    elsewhere = built(tmp_path / "elsewhere", docstrings, workers)
    assert workers.computed == 3  # a window of each addition, and codes of the first
    assert sorted(elsewhere) == sorted(here)
    assert [name for name in here if here[name] != elsewhere[name]] == []


class Failing(ThroughPickle):
    """Fails from the second window on, as a cluster does."""

    def map(self, function, parts):  # type: ignore[no-untyped-def]
        for part in parts:
            if self.computed:
                raise PartError(part, "6 processes died on it")
            yield from super().map(function, [part])


def test_documents_that_fail_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slimdex.retrieval.encoders.encoding.WINDOW_TEXTS", 128)
    table = tmp_path / "notes.csv"
    lines = [f"n{i},number{i} of words w{i % 7} v{i % 11}" for i in range(1000)]
    table.write_text("\n".join(["id,text", *lines]))
    sources = Sources.open([str(table)])
    message = "encoding the documents 'n128' to 'n255': 6 processes"
    with pytest.raises(InputError, match=message):
        build(tmp_path / "i", sources, WordEncoder, Settings(8), workers=Failing())
    collection, _ = build(tmp_path / "i", sources, WordEncoder, Settings(8))
    with collection:
        assert len(collection) == 1000
        assert collection.search("w3 v5", limit=1)[0].text.endswith(("w3 v5", "w3 v5"))


TEXTS = ["the cat", "rain and a dog", "a " * 50]


def test_a_pickled_transformer_is_loaded_again(tiny_bert: Path) -> None:
    encoder = TransformerEncoder(
        str(tiny_bert),
        pooling="mean@1,-1",
        max_length=16,
        precision="fp32",
        document_prompt="text: ",
        batch_tokens=64,
    )
    sent = pickle.dumps(encoder)
    assert len(sent) < 2000  # its place, not its weights
    again = pickle.loads(sent)
    assert again.spec() == encoder.spec()
    assert again.batch_tokens == 64
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))


def test_pickled_word_vectors_need_no_file(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("the 1 0 2\ncat 0 3 1\nrain 2 2 2\n")
    encoder = StaticEncoder(file, pooling="sif")
    expected: Matrix = encoder.encode(TEXTS)
    sent = pickle.dumps(encoder)
    file.unlink()
    again = pickle.loads(sent)
    assert again.spec() == encoder.spec()
    np.testing.assert_array_equal(again.encode(TEXTS), expected)
