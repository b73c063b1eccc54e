"""A model's folder that has moved: what counts is the weights, not where they lie."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from slimdex.command_line import app
from slimdex.errors import InputError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.base import is_same_encoder
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from slimdex.retrieval.ingest.repairing import verify
from slimdex.system import user_cache
from tests.encoders import make_tiny_model

QUERY = "the cat"


@pytest.fixture
def moved(tmp_path: Path, tiny_bert: Path) -> Path:
    """An index "i" beside "new", where its model is now; "old" is where it was."""
    shutil.copytree(tiny_bert, tmp_path / "old")
    with Collection.create(tmp_path / "i", TransformerEncoder(str(tmp_path / "old"))) as made:
        made.add([Document("1", "the cat"), Document("2", "the dog"), Document("3", "rain")])
    (tmp_path / "old").rename(tmp_path / "new")
    return tmp_path


def test_a_moved_model_is_named_once_or_for_good(moved: Path) -> None:
    new = str(moved / "new")
    for opened in (
        Collection.open(moved / "i", TransformerEncoder(new)),
        Collection.open(moved / "i", model=new),
    ):
        with opened as collection:
            assert collection.search(QUERY)[0].id == "1"
    with pytest.raises(InputError, match="no such file or folder"):
        Collection.open(moved / "i").search(QUERY)
    done = CliRunner().invoke(app, ["repair", str(moved / "i"), "--model", new])
    assert (done.exit_code, done.stdout) == (0, f"{moved / 'i'}: nothing to repair\n")
    assert Collection.open(moved / "i").search(QUERY)[0].id == "1"
    assert Collection.open(moved / "i").index.state.encoder["model"] == new


def test_other_weights_are_refused(moved: Path, tmp_path: Path) -> None:
    make_tiny_model("roberta", tmp_path / "other")
    other = str(tmp_path / "other")
    with pytest.raises(InputError, match="this index was built with"):
        Collection.open(moved / "i", TransformerEncoder(other))
    with pytest.raises(InputError, match=r"has sha256 .*; the index was built with"):
        Collection.open(moved / "i", model=other).search_many(QUERY)
    done = CliRunner().invoke(app, ["repair", str(moved / "i"), "--model", other])
    assert "the index was built with" in str(done.exception)
    assert Collection.open(moved / "i").index.state.encoder["model"] != other


def test_encoders_are_the_same_by_weights_and_pooling() -> None:
    spec = {"type": "transformer", "model": "/a", "sha256": "1", "revision": None, "pooling": "x"}
    assert is_same_encoder(spec, spec | {"model": "/b", "revision": "c"})
    assert not is_same_encoder(spec, spec | {"sha256": "2"})
    assert not is_same_encoder(spec, spec | {"pooling": "y"})
    assert not is_same_encoder({"type": "own", "model": "a"}, {"type": "own", "model": "b"})


def test_verify_reads_the_weights_in_full(moved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest is remembered from before, and the file looks unchanged."""
    monkeypatch.setattr(user_cache, "LARGE", 0)
    monkeypatch.setattr(user_cache, "RACY", 0)
    (moved / "new").rename(moved / "old")
    path = moved / "old" / "model.safetensors"
    assert verify(moved / "i") == []
    facts = path.stat()
    monkeypatch.setattr(user_cache, "_stamp", lambda _: [facts.st_size, 1, 1, 1, 1])
    known = user_cache.known_sha256(path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert user_cache.known_sha256(path) == known
    (line,) = verify(moved / "i")
    assert line.startswith(f"model '{moved / 'old'}' has sha256")
    path.unlink()
    (line,) = verify(moved / "i")
    assert "no model.safetensors in that folder" in line
    shutil.rmtree(moved / "old")
    assert verify(moved / "i") == []
