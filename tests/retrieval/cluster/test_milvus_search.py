"""Searches of what was pushed: the same hits as the index's own, and the same refusals."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slimdex.indexes.errors import InputError
from slimdex.retrieval.cluster.milvus_push import PushOptions, push
from slimdex.retrieval.cluster.milvus_search import MilvusCollection
from slimdex.retrieval.cluster.milvus_server import Server
from slimdex.retrieval.collection import Collection
from tests.encoders import ReadingEncoder

QUERIES = ["word8 word3 title", "word100", "word12 word2", "word16 text"]
WHERES = [None, "n < 3", "n BETWEEN 20 AND 90 AND year IS NOT NULL", "NOT (year > 2000)", "n < 0"]
KIND = "FLAT"
"""So that all candidates are the right ones, and every hit has to be the same."""


@pytest.fixture(scope="module")
def folder(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("searched") / "notes.index"
    shutil.copytree(built, path)
    return path


@pytest.fixture(scope="module")
def own(folder: Path) -> Iterator[Collection]:
    """The index: exact by its full vectors, as long as all rows are candidates."""
    with Collection.open(folder, ReadingEncoder()) as collection:
        yield collection


@pytest.fixture(scope="module")
def here(server: Server, own: Collection) -> Iterator[MilvusCollection]:
    push(own, server, "kept_here", PushOptions(KIND))
    with MilvusCollection(server.uri, "kept_here", own.path, ReadingEncoder()) as found:
        yield found


@pytest.fixture(scope="module")
def there(server: Server, own: Collection) -> Iterator[MilvusCollection]:
    push(own, server, "kept_there", PushOptions(KIND, "there"))
    with MilvusCollection(server.uri, "kept_there", encoder=ReadingEncoder()) as found:
        yield found


ALL = 1000
"""Candidates: all rows."""


@pytest.mark.slow
@pytest.mark.parametrize("where", WHERES)
@pytest.mark.parametrize("per", ["document", "passage"])
def test_the_same_hits_with_the_folder_and_without(
    own: Collection, here: MilvusCollection, there: MilvusCollection, where: str | None, per: str
) -> None:
    expected = own.search_many(QUERIES, 7, where, candidates=ALL, group_by=per, hybrid="off")
    for searched in (here, there):
        found = searched.search_many(QUERIES, 7, where, candidates=ALL, group_by=per, hybrid="off")
        for ours, theirs in zip(expected, found, strict=True):
            assert [hit.score for hit in theirs] == pytest.approx(
                [hit.score for hit in ours], abs=2e-5
            )
            # Passages of equal text have equal scores, in either order.
            assert sorted(map(_shown, theirs)) == sorted(map(_shown, ours)) or per == "passage"
    assert len(expected[0]) == (0 if where == "n < 0" else 3 if where == "n < 3" else 7) or per


def _shown(hit: object) -> str:
    values = {**vars(hit), "score": 0}
    return repr({**values, "headings": list(values["headings"])})


def test_candidates_that_few_are_the_nearest_by_reduced_vectors(
    own: Collection, here: MilvusCollection
) -> None:
    expected = own.search_many(QUERIES, 5, candidates=0, hybrid="off")
    found = here.search_many(QUERIES, 5, candidates=0, hybrid="off")
    near = [
        len({h.id for h in a} & {h.id for h in b}) for a, b in zip(expected, found, strict=True)
    ]
    assert sum(near) >= 18  # the index's own codes have eight bits


def test_order_of_codes_alone(server: Server, own: Collection) -> None:
    push(own, server, "no_rescoring", PushOptions(KIND, "off"))
    with MilvusCollection(server.uri, "no_rescoring", encoder=ReadingEncoder()) as found:
        hits = found.search("word8 word3 title", 5, hybrid="off")
        with MilvusCollection(server.uri, "no_rescoring", own.path, ReadingEncoder()) as beside:
            same = beside.search("word8 word3 title", 5, candidates=0, hybrid="off")
            assert [h.id for h in same] == [h.id for h in hits]
        with pytest.raises(InputError, match="pushed without full vectors; expected 0"):
            found.search("word8", candidates=10)
    assert hits[0].text
    assert hits[0].metadata["tags"] == ["t" + str(int(hits[0].id[1:]) % 3)]


def test_milvus_own_filter_selects_what_a_condition_cannot(
    own: Collection, here: MilvusCollection, there: MilvusCollection
) -> None:
    where, expression = "id LIKE 'd1%'", 'id like "d1%"'
    for below, both in ((None, where), ("n < 80", f"{where} AND n < 80")):
        expected = own.search_many(QUERIES, 9, both, candidates=ALL, hybrid="off")
        for searched in (here.filtered(expression), there.filtered(expression)):
            hits = searched.search_many(QUERIES, 9, below, candidates=ALL, hybrid="off")
            assert [{hit.id for hit in each} for each in hits] == [
                {hit.id for hit in each} for each in expected
            ]
    assert here.count() == there.count() > len(own)
    assert there.filtered("n == 4 or n == 7").count("n < 5") == 1
    with pytest.raises(InputError):
        here.search("word8", where=where)
    with pytest.raises(InputError, match=r"^milvus "):
        here.filtered("n is less than 3").search("word8")


def test_what_is_refused_is_refused_as_by_an_index(own: Collection, here: MilvusCollection) -> None:
    refused: list[dict[str, Any]] = [
        {"query": 5},
        {"query": "word", "limit": 0},
        {"query": "word", "group_by": "line"},
        {"query": "word", "where": "colour = 1"},
        {"query": "word", "where": "n > 1; DROP TABLE documents"},
        {"query": "word", "where": "n > 'soon'"},
    ]
    for words in refused:
        with pytest.raises(InputError) as ours:
            own.search(**words)
        with pytest.raises(InputError) as theirs:
            here.search(**words)
        assert str(theirs.value)[:20] == str(ours.value)[:20]


def test_what_was_pushed_for_a_folder_needs_it(server: Server, here: MilvusCollection) -> None:
    with pytest.raises(InputError, match=r"pushed for rescoring here; expected index=DIR"):
        MilvusCollection(server.uri, "kept_here", encoder=ReadingEncoder())
    with pytest.raises(InputError, match="no index 'nothing'; expected one that `slimdex push`"):
        MilvusCollection(server.uri, "nothing", encoder=ReadingEncoder())
    with pytest.raises(InputError, match="neither name nor index"):
        MilvusCollection(server.uri)


def test_documents_that_have_gone_since_the_push_are_not_found(
    server: Server, built: Path, tmp_path: Path
) -> None:
    shutil.copytree(built, tmp_path / "index")
    with Collection.open(tmp_path / "index", ReadingEncoder()) as collection:
        push(collection, server, "stale", PushOptions(KIND))
        assert collection.search("word8 word3 title", 1)[0].id == "d8"
        collection.delete(["d8"])
    with MilvusCollection(server.uri, "stale", tmp_path / "index", ReadingEncoder()) as found:
        assert "d8" not in {hit.id for hit in found.search("word8 word3 title", 50)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["IVF_SQ8", "HNSW", "HNSW_SQ", "IVF_FLAT"])
def test_every_kind_of_the_server_finds_most(server: Server, own: Collection, kind: str) -> None:
    push(own, server, "kinds", PushOptions(kind))
    with MilvusCollection(server.uri, "kinds", own.path, ReadingEncoder()) as found:
        theirs = found.search_many(QUERIES, 10, hybrid="off")
        below = found.search_many(QUERIES, 10, "n < 40", hybrid="off")
    ours, ours_below = (
        own.search_many(QUERIES, 10, hybrid="off"),
        own.search_many(QUERIES, 10, "n < 40", hybrid="off"),
    )
    shared = [len({h.id for h in a} & {h.id for h in b}) for a, b in zip(ours, theirs, strict=True)]
    assert sum(shared) >= 36
    assert [[h.id for h in hits] for hits in below] == [[h.id for h in hits] for hits in ours_below]
