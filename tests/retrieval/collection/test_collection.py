from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import normalize_rows
from slimdex.indexes.reducers.linear import Whitening
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.quality.evaluation import nearest_of
from slimdex.system.atomic_files import OUR_FILES
from tests.conftest import Copies
from tests.encoders import WordEncoder
from tests.slow import slow

SMALL = [
    Document("cat", "the cat sat on the mat", metadata={"year": 2001, "kind": "pet"}),
    Document("dog", "the dog chased the cat", metadata={"year": 2002, "kind": "pet"}),
    Document("rain", "rain fell on the roof", title="weather", metadata={"year": 2003}),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "my.index"


@pytest.fixture
def large(path: Path, copied: Copies) -> Collection:
    return Collection.open(copied(path), WordEncoder())


def ours(path: Path) -> set[str]:
    return {p.name for p in path.iterdir() if OUR_FILES.fullmatch(p.name)}


def test_hits_carry_the_document(path: Path, encoder: WordEncoder) -> None:
    collection = Collection.create(path, encoder)
    added = collection.add(SMALL)
    assert (added.documents, added.replaced) == (3, 0)
    assert added.notes == []
    (hits,) = collection.search_many("rain on the roof", limit=2)
    assert (hits[0].id, hits[0].title, hits[0].text) == ("rain", "weather", SMALL[2].text)
    assert hits[0].metadata == {"year": 2003, "kind": None}
    assert hits[0].score > hits[1].score
    assert len(collection.search_many(["cat", "dog"], limit=10)[1]) == 3


def test_scores_are_the_cosines_of_the_definition(
    large: Collection, docstrings: list[Document]
) -> None:
    large.reduce(Settings(gamma=0.25))
    vectors = large.index.snapshot.vectors().take(np.arange(len(docstrings)))
    whitening = Whitening(48, 0.0, 0.25).fit(vectors)
    queries = ["remove a directory tree", "parse a date"]
    encoded = WordEncoder().encode(queries)
    cosines = (
        normalize_rows(whitening.transform(encoded))
        @ normalize_rows(whitening.transform(vectors)).T
    )
    for row, hits in zip(cosines, large.search_many(queries, limit=10, hybrid="off"), strict=True):
        cosine_of = {docstrings[i].id: row[i] for i in range(len(row))}
        np.testing.assert_allclose(
            [h.score for h in hits], [cosine_of[h.id] for h in hits], atol=1e-5
        )
        best = set(np.argsort(-row)[:10].tolist())
        assert len(best & {i for i, d in enumerate(docstrings) if d.id in {h.id for h in hits}}) > 7


@pytest.mark.slow
def test_adding_in_parts_equals_adding_at_once(tmp_path: Path, docstrings: list[Document]) -> None:
    whole = Collection.create(tmp_path / "whole", WordEncoder())
    whole.add(docstrings)
    parts = Collection.create(tmp_path / "parts", WordEncoder())
    for low in range(0, 1200, 250):
        parts.add(docstrings[low : low + 250])
    assert parts.index.snapshot.moments().n == whole.index.snapshot.moments().n
    scatter = whole.index.snapshot.moments().scatter
    limit = 1e-6 * scatter.max()  # of rounding to float32
    np.testing.assert_allclose(parts.index.snapshot.moments().scatter, scatter, atol=limit)
    parts.reduce(Settings())
    queries = ["parse a date", "send an email"]
    results = [{h.id for h in hits} for hits in parts.search_many(queries)]
    expected = [{h.id for h in hits} for hits in whole.search_many(queries)]
    assert results == expected


def test_a_small_collection_grows_into_the_requested_settings(
    path: Path, docstrings: list[Document]
) -> None:
    collection = Collection.create(path, WordEncoder(), Settings(gamma=0.25))
    (note,) = collection.add(docstrings[:10]).notes
    assert note.startswith("small index, fitted again as it grows")
    assert collection.index.state.settings == Settings(10, 0.0, 0.0, "flat", None, "whitening")
    assert collection.add(docstrings[10:300]).notes == []  # said once
    assert collection.index.state.settings == Settings(24, 0.0, 0.25, "flat", None, "whitening")
    collection.add(docstrings[300:])
    assert collection.index.state.settings == Settings(24, 0.0, 0.25, "pq", None, "whitening")
    state = collection.index.state
    assert ours(path) == state.file_names
    assert len(state.file_names) == 13


def test_delete(large: Collection, path: Path, docstrings: list[Document]) -> None:
    victim = large.search_many("remove a directory tree", limit=1)[0][0].id
    assert large.delete([victim]) == 1
    assert victim not in {h.id for h in large.search_many("remove a directory tree", limit=100)[0]}
    module = docstrings[0].metadata["module"]
    gone = sum(d.metadata["module"] == module and d.id != victim for d in docstrings)
    assert large.delete(where=f"module = '{module}'") == gone
    assert len(large) == large.index.snapshot.moments().n == 1199 - gone
    kept = np.setdiff1d(np.arange(1200), large.index.snapshot.deleted)
    from slimdex.indexes.reducers.moments import Moments

    expected = Moments(48).update(large.index.snapshot.vectors().take(kept))
    np.testing.assert_allclose(
        large.index.snapshot.moments().covariance(), expected.covariance(), atol=1e-4
    )
    large.close()
    with Collection.open(path, WordEncoder()) as again:
        assert len(again.search_many("anything", limit=2000)[0]) == len(again) == 1199 - gone


def test_the_working_directory_may_change(
    tmp_path: Path, encoder: WordEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    made = Collection.create("x.index", encoder)
    monkeypatch.chdir("elsewhere")
    made.add(SMALL)
    made.close()
    monkeypatch.chdir("..")
    with Collection.open("x.index", WordEncoder()) as opened:
        monkeypatch.chdir("elsewhere")
        assert len(opened.search_many("rain on the roof", limit=3)[0]) == 3
        opened.delete(["cat"])
        opened.add([Document("snow", "snow fell")])
        opened.compact()
        opened.delete(["dog"])
        assert {hit.id for hit in opened.search_many("roof", limit=2)[0]} == {"rain", "snow"}
    assert list(Path.cwd().iterdir()) == []
    assert verify(tmp_path / "x.index") == []
    with Collection.open(tmp_path / "x.index", WordEncoder()) as opened:
        assert {hit.id for hit in opened.search_many("roof", limit=2)[0]} == {"rain", "snow"}


def test_delete_with_an_unknown_id_deletes_nothing(path: Path, encoder: WordEncoder) -> None:
    collection = Collection.create(path, encoder)
    collection.add(SMALL)
    with pytest.raises(InputError, match="unknown id 'nope'"):
        collection.delete(["cat", "nope"])
    with pytest.raises(InputError, match="either ids or a condition"):
        collection.delete()
    assert len(collection) == 3
    assert collection.delete(where="year > 9999") == 0


@pytest.mark.parametrize(
    "settings",
    [
        Settings(kind="sq8", k=12, beta=1.0, gamma=1.0),
        *slow([Settings(kind="ivf-pq"), Settings(kind="hnsw", candidates=50)]),
        *slow([Settings(reducer="identity", kind="fp16", gamma=0.0)]),
    ],
    ids=lambda settings: settings.kind,
)
def test_reduce_without_encoding(
    large: Collection, path: Path, docstrings: list[Document], settings: Settings
) -> None:
    query = docstrings[77].content
    best = docstrings[77].id
    encoded = len(large.encoder.encoded)  # type: ignore[attr-defined]
    large.reduce(settings)
    assert large.search_many(query, limit=1)[0][0].id == best
    assert len(large.encoder.encoded) == encoded + 1  # type: ignore[attr-defined]
    assert large.index.state.requested == settings
    assert ours(path) == large.index.state.file_names
    large.close()
    with Collection.open(path, WordEncoder()) as again:
        assert again.search_many(query, limit=1)[0][0].id == best


@pytest.mark.parametrize(
    "documents",
    [
        [],
        [Document("b", "x"), Document("a", "x"), Document("a", "y")],
        [Document("a", None)],  # type: ignore[arg-type]
        [Document(0.5, "x")],  # type: ignore[arg-type]
        ["text"],
    ],
)
def test_invalid_documents_are_refused(
    path: Path, encoder: WordEncoder, documents: list[Document]
) -> None:
    collection = Collection.create(path, encoder)
    with pytest.raises(InputError):
        collection.add(documents)
    assert [*collection.index.store.records()] == []
    collection.add(SMALL)
    with pytest.raises(InputError):
        collection.add(documents)
    assert len(collection) == 3


def test_k_may_exceed_the_rank_of_the_vectors(path: Path) -> None:
    words = [f"w{i}" for i in range(30)]  # 700 texts of 30 directions in 48 dimensions
    documents = [Document(str(i), " ".join(words[i % 25 : i % 25 + 4])) for i in range(700)]
    with Collection.create(path, WordEncoder(), Settings(k=48)) as collection:
        added = collection.add(documents)
        assert (collection.index.state.settings, added.notes) == (Settings(k=48, kind="pq"), [])
        vectors = collection.encoder.encode(["w3 w4 w5 w6"])
        _, rows = nearest_of(collection.index, vectors, 28)
    assert {row % 25 for row in rows[0].tolist()} == {3}


@pytest.mark.parametrize(
    "change",
    [
        lambda X: np.where(X[0, 3] == X, np.float32(np.nan), X),
        lambda X: np.where(X[0, 3] == X, np.float32(1e6), X),
        lambda X: X[:, :10],
        lambda X: X[:2],
    ],
)
def test_invalid_vectors_are_refused(
    path: Path, encoder: WordEncoder, change: Callable[[Any], Any]
) -> None:
    whole = encoder.encode
    encoder.encode = lambda texts: change(whole(texts))  # type: ignore[method-assign]
    with pytest.raises(InputError):
        Collection.create(path, encoder).add(SMALL)
    assert not (path / "vectors-000001.f16").exists()


def test_a_folder_without_an_index_is_refused(tmp_path: Path, encoder: WordEncoder) -> None:
    with pytest.raises(InputError, match=r"no slimdex index there"):
        Collection.open(tmp_path)
    with pytest.raises(InputError, match="exists; expected a new folder"):
        Collection.create(tmp_path, encoder)
    with pytest.raises(InputError, match="k=99; expected 1 to the encoder's 48"):
        Collection.create(tmp_path / "x", encoder, Settings(k=99))
    assert not (tmp_path / "x").exists()


def test_another_encoder_is_refused(path: Path, encoder: WordEncoder) -> None:
    Collection.create(path, encoder).close()
    with pytest.raises(InputError, match="this index was built with"):
        Collection.open(path, WordEncoder(dim=7))
    with (
        Collection.open(path) as collection,
        pytest.raises(InputError, match=r"pass that encoder to open\(\)"),
    ):
        _ = collection.encoder


def test_stray_files_are_removed_and_foreign_ones_kept(path: Path, encoder: WordEncoder) -> None:
    with Collection.create(path, encoder) as collection:
        collection.add(SMALL)
    for name in ("codes-000099.faiss", "reducer-000099.safetensors.tmp", "notes.txt"):
        (path / name).write_text("x")
    with Collection.open(path, encoder) as collection:
        collection.delete("cat")
        assert ours(path) == collection.index.state.file_names
    assert (path / "notes.txt").exists()


def test_a_str_is_one_id_and_a_document_is_one_document(path: Path) -> None:
    with Collection.create(path, WordEncoder()) as collection:
        collection.add([Document(id, f"text {id}") for id in ("1", "2", "12")])
        assert collection.delete("12") == 1
        assert {hit.id for hit in collection.search_many("text", limit=9)[0]} == {"1", "2"}
        with pytest.raises(InputError, match="unknown id '21'"):
            collection.delete("21")
        assert collection.add(Document("3", "text 3")).documents == 1
        assert len(collection) == 3


class WithoutDim:
    def encode(self, texts: Any) -> Any: ...


@pytest.mark.parametrize("encoder", ["all-MiniLM-L6-v2", WithoutDim()])
def test_invalid_encoders_are_refused(path: Path, encoder: Any) -> None:
    with pytest.raises(InputError):
        Collection.create(path, encoder)
    assert not path.exists()
    Collection.create(path, WordEncoder()).close()
    with pytest.raises(InputError):
        Collection.open(path, encoder)
