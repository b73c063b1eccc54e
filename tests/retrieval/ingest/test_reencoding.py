"""Lost vectors are encoded again from the texts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from slimdex.errors import CorruptError
from slimdex.indexes.vectors.row_formats import STORED
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.ingest.repairing import encode_lost, repair, verify
from slimdex.system.append_only import BLOCK_BYTES
from tests.encoders import WordEncoder, failing
from tests.slow import slow

DIM = 1000
ROWS_A_BLOCK = -(-BLOCK_BYTES // (2 * DIM))  # the last of them lies in two blocks
COUNT = 5000  # three blocks, the last one short


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "i"
    with Collection.create(path, WordEncoder(DIM)) as collection:
        collection.add(
            [Document(str(i), f"w{i % 97} v{i % 89}" if i != 7 else "") for i in range(COUNT)]
        )
        collection.delete(["4", "4000"])
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "i"))


def vectors_of(path: Path) -> Path:
    (paths,) = path.glob("vectors-*.f16")
    return paths


def mend(path: Path, encoder: WordEncoder) -> None:
    with Collection.open(path, encoder) as collection:
        encode_lost(collection.index)


def answers(path: Path) -> list[tuple[str, float]]:
    with Collection.open(path, WordEncoder(DIM)) as collection:
        (hits,) = collection.search_many("w3 v3", limit=30)
    return [(hit.id, round(hit.score, 4)) for hit in hits]


@pytest.mark.parametrize("loss", slow(["gone", "short", "second", "first and last"]))
def test_only_lost_vectors_are_encoded_again(path: Path, loss: str) -> None:
    before, content, file = answers(path), vectors_of(path).read_bytes(), vectors_of(path)
    if loss == "gone":
        file.unlink()
    elif loss == "short":
        os.truncate(file, BLOCK_BYTES + 5)
    else:
        damaged = bytearray(content)
        for block in [1] if loss == "second" else [0, 2]:
            damaged[block * BLOCK_BYTES + 1000] ^= 0xFF
        file.write_bytes(damaged)
    assert verify(path)
    with pytest.raises(CorruptError, match=r"`slimdex repair .* --encode` encodes these"):
        repair(path)
    encoder = WordEncoder(DIM)
    mend(path, encoder)
    assert verify(path) == []
    assert vectors_of(path).read_bytes() == content
    assert answers(path) == before
    texts = {"gone": COUNT + 1, "short": 2905, "second": ROWS_A_BLOCK + 1}
    assert len(encoder.encoded) == pytest.approx(texts.get(loss, ROWS_A_BLOCK + 805), abs=3)


@pytest.mark.slow
def test_an_interruption_costs_one_block(path: Path) -> None:
    content, file = vectors_of(path).read_bytes(), vectors_of(path)
    file.unlink()
    with pytest.raises(KeyboardInterrupt):
        mend(path, failing(WordEncoder(DIM), after=ROWS_A_BLOCK))
    assert len(verify(path)) == 2
    encoder = WordEncoder(DIM)
    mend(path, encoder)
    assert len(encoder.encoded) <= COUNT - ROWS_A_BLOCK + 2
    assert verify(path) == []
    assert vectors_of(path).read_bytes() == content


def test_lost_given_vectors_are_not_encoded(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", GivenEncoder(4)) as collection:
        collection.add([Document("1", "a"), Document("2", "b")], vectors=np.eye(2, 4))
    vectors_of(tmp_path / "i").unlink()
    for encode in (False, True):
        with pytest.raises(CorruptError, match="given vectors: it can't be rebuilt"):
            repair(tmp_path / "i", encode=encode)
    assert list((tmp_path / "i").glob("vectors-*")) == []


@pytest.mark.parametrize("stored", STORED)
def test_rewritten_blocks_have_the_same_bytes(tmp_path: Path, stored: str) -> None:
    rng, format = np.random.default_rng(0), STORED[stored]
    half = {
        "fp16": BLOCK_BYTES // 4 - 1,
        "int8": BLOCK_BYTES * 8 // 17 - 5,
        "int4": BLOCK_BYTES * 8 // 9 - 9,
    }
    X = rng.normal(size=(5, half[stored])).astype(np.float32)  # rows of half a block, less
    file = VectorFile(tmp_path / "v", X.shape[1], 0, format)
    assert 0 < BLOCK_BYTES // 2 - file.row_bytes < 10
    file.append(X)
    content = (tmp_path / "v").read_bytes()
    assert [file.rows_of_block(block) for block in range(3)] == [
        range(0, 3),
        range(2, 5),
        range(4, 5),
    ]
    digests = file.checksums()
    (tmp_path / "v").unlink()
    again = VectorFile(tmp_path / "v", X.shape[1], 0, format).preallocate(5)
    for block in (1, 0, 2):
        rows = again.rows_of_block(block)
        assert again.overwrite(block, X[rows.start : rows.stop]) == digests[block]
    assert (tmp_path / "v").read_bytes() == content
