"""Hybrid search against brute force over all documents, after any change."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import normalize_rows
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Hit, Part
from slimdex.retrieval.ingest.repairing import repair, verify
from slimdex.retrieval.lexical.word_index import WordIndex
from slimdex.retrieval.search.request import SearchRequest
from tests.encoders import ReadingEncoder, WordEncoder

EXACT = Settings(kind="flat", reducer="identity", gamma=0.0, beta=0.0)
COLOURS = ["red", "green", "blue", "grey"]
DOCUMENTS = [
    Document(
        f"pkg-{i}", f"{COLOURS[i % 4]} libfoo{i % 9} cat {COLOURS[i % 3]} dog", metadata={"n": i}
    )
    for i in range(48)
]
QUERIES = ["a red cat", "libfoo7", "pkg-13", "blue libfoo2 dog", "nothing of it"]


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.create(tmp_path / "x.index", WordEncoder(), EXACT) as made:
        made.add(DOCUMENTS)
        yield made


class Expected(NamedTuple):
    """Fused score, cosine, and how lexical search finds it, of a document."""

    fused: float
    cosine: float
    is_worded: bool


def brute_force(
    collection: Collection, query: str, weight: float | None, path: Path
) -> dict[str, Expected]:
    """Fuse the scores of every document by id, with BM25 of an index made just for it."""
    every = list(collection)
    cosines = collection.search_many(query, limit=1000, hybrid="off")[0]
    near = {hit.id: hit.score for hit in cosines}
    index = WordIndex.create(path, [(d.id, d.content) for d in every])
    words = index.search(query, 1000)
    scores = {every[row].id: s for row, s in zip(words.rows, words.scores, strict=True)}
    best_near, best_words = max(near.values()), max(scores.values(), default=1.0)
    rows = WordEncoder().encode([d.content for d in every])
    (vector,) = normalize_rows(WordEncoder().encode([query]))
    mean = float(vector @ rows.mean(axis=0) / np.sqrt((rows**2).sum(axis=1).mean()))
    by_meaning, by_words = (
        sorted((d.id for d in every if d.id in own), key=lambda id: -own[id])
        for own in (near, scores)
    )

    def fused(id: str) -> float:
        if weight is None:
            ranks = [own.index(id) for own in (by_meaning, by_words) if id in own]
            return float(sum(1 / (61 + rank) for rank in ranks) + 100 * (id == query))
        meaning = (near[id] - mean) / (best_near - mean)
        words = float(scores.get(id, 0)) / best_words
        return (1 - weight) * meaning + weight * words + 100 * (id == query)

    return {d.id: Expected(fused(d.id), near[d.id], d.id in scores) for d in every}


def check(hits: list[Hit], expected: dict[str, Expected], query: str) -> None:
    """Compare hits with brute force: their scores, their cosines, how they are found."""
    best = sorted((each.fused for each in expected.values()), reverse=True)
    bounded = [x if x <= 0.9 else 1 - 0.01 / (x - 0.8) for x in best]
    assert [hit.score for hit in hits] == pytest.approx(bounded[: len(hits)], abs=2e-3)
    for hit in hits:
        assert hit.similarity == pytest.approx(expected[hit.id].cosine, abs=2e-3)
        assert (hit.found_by == "name") == (hit.id == query)
        if hit.id != query:
            assert (hit.found_by in ("both", "words")) == expected[hit.id].is_worded


@pytest.mark.parametrize("weight", [0.2, 1.0])
def test_answers_equal_brute_force(collection: Collection, tmp_path: Path, weight: float) -> None:
    for query in QUERIES:
        every = brute_force(collection, query, weight, tmp_path / query)
        for where, ids in ((None, [*every]), ("n % 5 = 0", [f"pkg-{i}" for i in range(0, 48, 5)])):
            expected = {id: every[id] for id in ids}
            hits = collection.search(query, 48, where, hybrid=weight)
            assert len(hits) == len(expected)
            check(hits, expected, query)


def test_many_queries_have_the_answers_of_each_alone(collection: Collection) -> None:
    queries = [*QUERIES, *(f"libfoo{i} {COLOURS[i % 4]} dog" for i in range(40))]
    for options in ({}, {"where": "n % 3 = 0"}, {"group_by": "passage"}, {"candidates": 0}):
        many = collection.search_many(queries, 7, hybrid=0.3, **options)
        for query, hits in zip(queries, many, strict=True):
            one = collection.search(query, 7, hybrid=0.3, **options)
            assert [hit.id for hit in hits] == [hit.id for hit in one]
            np.testing.assert_allclose(
                [hit.score for hit in hits], [hit.score for hit in one], atol=1e-5
            )


def test_min_score_leaves_out_lower_scores(collection: Collection) -> None:
    for hybrid in (0.5, "rrf"):
        every = collection.search("a red cat", 48, hybrid=hybrid)
        least = sorted(hit.score for hit in every)[24]
        request = SearchRequest(texts="a red cat", limit=48, hybrid=hybrid, min_score=least)
        assert collection.answer(request)[0] == [hit for hit in every if hit.score >= least]
    assert all(-1 <= hit.score <= 1 for hit in collection.search("pkg-13", 48, hybrid=1.0))


def test_how_a_hit_is_found_depends_on_neither_limit_nor_filter(collection: Collection) -> None:
    seen = set[str]()
    for query in QUERIES:
        ways = {hit.id: hit.found_by for hit in collection.search(query, 48)}
        seen |= {*ways.values()}
        for limit, where in ((1, None), (5, None), (20, None), (48, "n % 5 = 0")):
            for hit in collection.search(query, limit, where=where):
                assert hit.found_by == ways[hit.id]
    assert seen == {"meaning", "words", "both", "name"}


@pytest.mark.slow
@pytest.mark.parametrize("hybrid", [0.4, "rrf"])
def test_hits_found_by_words_alone_have_their_cosines(
    collection: Collection, tmp_path: Path, hybrid: str | float
) -> None:
    weight, ways = None if hybrid == "rrf" else float(hybrid), set[str]()
    for query in [*QUERIES, "red grey grey libfoo3"]:
        expected = brute_force(collection, query, weight, tmp_path / query)
        hits = collection.search(query, 4, hybrid=hybrid, candidates=1)
        assert len(hits) == 4
        for hit in hits:
            assert hit.similarity == pytest.approx(expected[hit.id].cosine, abs=2e-3)
        ways |= {hit.found_by for hit in hits}
    assert "words" in ways


def scored(collection: Collection, query: str) -> dict[str, float]:
    """Ids of the rows that have words of a query, and their BM25 scores."""
    found = rows_of_words(collection, query)
    ids = collection.index.snapshot.store.ids_by_row()
    return {ids[row]: score for row, score in found}


def rows_of_words(collection: Collection, query: str) -> list[tuple[int, float]]:
    """Rows that have words of a query and are not hidden, with their BM25 scores."""
    snapshot = collection.index.snapshot
    assert snapshot.words is not None
    hits = snapshot.words.search(query, 1000, snapshot.hidden)
    return [*zip(hits.rows.tolist(), hits.scores.tolist(), strict=True)]


def test_words_of_few_last_rows_score_as_those_of_an_index_made_at_once(
    collection: Collection, tmp_path: Path
) -> None:
    new = [Document(f"new-{i}", f"red libfoo{i} cat zebra{i % 3}") for i in range(20)]
    queries = [*QUERIES, "zebra1 cat", "new-7", "new-11x"]

    def check(count: int) -> None:
        folder = tmp_path / f"{count}.index"
        with Collection.create(folder, WordEncoder(), EXACT) as whole:
            whole.add([*DOCUMENTS, *new[:count]])
            with Collection.open(collection.path, WordEncoder()) as again:
                for query in queries:
                    assert scored(again, query) == scored(collection, query)
                    assert scored(again, query) == scored(whole, query)

    def late() -> int:
        return collection.index.state.rows - collection.index.state.lexical_rows

    for document in new[:9]:
        collection.add(document)
    assert late() == 9
    check(9)
    collection.add(new[9:15])  # more than a fourth are late
    assert late() == 0
    check(15)
    collection.add(new[15])
    collection.add(new[16:])
    assert late() == 5
    collection.undo()
    assert late() == 5
    assert scored(collection, "zebra0 zebra1 zebra2").keys() == {d.id for d in new[:16]}
    assert collection.verify() == []
    collection.compact()
    assert late() == 0
    check(16)


def test_a_late_row_that_is_deleted_is_not_found(collection: Collection) -> None:
    """In each process, and once its words would be written."""
    collection.add(Document("late", "zebra"))
    assert scored(collection, "zebra").keys() == {"late"}
    collection.delete(["late"])
    assert scored(collection, "zebra") == {}
    with Collection.open(collection.path, WordEncoder()) as again:
        assert scored(again, "red cat") == scored(collection, "red cat")
    collection.add([Document(f"more-{i}", "gnu") for i in range(40)])
    assert collection.index.state.lexical_rows == 89
    assert scored(collection, "zebra") == {}


def test_late_words_of_passages_are_those_of_each_passage(tmp_path: Path) -> None:
    """Also with headings, with deleted rows, and in a collection that is opened later."""
    long = " ".join(f"Sentence {i} of word{i}." for i in range(9))
    new = [
        Document("cut", long, "title", parts=(Part(0, ("Birds",)), Part(60, ("Birds", "Owls")))),
        Document("plain", "word3 zebra", "title"),
        Document("gone", long.replace("word", "term")),
        Document("last", long, origin=f"{'0' * 32}/1"),
    ]

    queries = ["word3", "title zebra", "birds owls", "term7", "sentence of", "cut"]
    words = list[list[list[tuple[int, float]]]]()

    def check(collection: Collection) -> None:
        with Collection.open(collection.path, ReadingEncoder()) as again:
            words.append([rows_of_words(collection, query) for query in queries])
            assert [rows_of_words(again, query) for query in queries] == words[-1]
        assert collection.verify() == []

    with Collection.create(tmp_path / "late", ReadingEncoder(), EXACT, passages=16) as late:
        late.add(DOCUMENTS)
        for document in new:
            late.add(document)
        assert late.index.state.lexical_rows == len(DOCUMENTS)
        check(late)
        late.delete(["gone"])
        check(late)
    with Collection.create(tmp_path / "once", ReadingEncoder(), EXACT, passages=16) as once:
        once.add([*DOCUMENTS, *new])
        assert once.index.state.lexical_rows == once.index.state.rows
        check(once)
    before, after, at_once = words
    assert before == at_once
    assert [row for row, _ in before[3]] == [55]
    gone = {53, 54, 55}
    for rows, remaining in zip(before, after, strict=True):
        assert {row for row, _ in remaining} == {row for row, _ in rows} - gone


def test_undoing_keeps_the_words_of_rows_that_were_late(collection: Collection) -> None:
    collection.add(Document("late", "zebra"))
    assert collection.index.state.lexical_rows == 48
    collection.add([Document(f"more-{i}", "gnu") for i in range(40)])
    assert collection.index.state.lexical_rows == 89
    collection.undo()
    assert scored(collection, "zebra gnu").keys() == {"late"}
    assert collection.verify() == []


def test_passages_are_found_by_their_words(tmp_path: Path) -> None:
    long = " ".join(f"Sentence {i} of chapter{i} here." for i in range(12))
    with Collection.create(tmp_path / "x", ReadingEncoder(), EXACT) as collection:
        collection.add([Document("long", long), Document("short", "a chapter of its own")])
        for i in (2, 9):
            hit, *rest = collection.search(f"chapter{i}", hybrid=0.5)
            assert f"chapter{i}" in hit.text
            assert [hit.id, *(each.id for each in rest)] == ["long", "short"]
        assert collection.search("chapter2", 3, where="id = 'none'", hybrid=0.5) == []
        hits = collection.search("chapter2 chapter9", 3, hybrid=0.8, group_by="passage")
        assert {hit.id for hit in hits[:2]} == {"long"}
        assert len({hit.start for hit in hits if hit.id == "long"}) >= 2


def test_an_index_without_words_refuses_hybrid_search(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "x", WordEncoder(), EXACT, lexical=False) as collection:
        collection.index_lexical()
        collection.add(DOCUMENTS)  # words were turned on before there were any
        assert collection.search("pkg-13", 1)[0].found_by == "name"
        collection.index_lexical(False)
        with pytest.raises(InputError, match=r"no lexical index; expected one \(`slimdex reduce"):
            collection.search("cat", hybrid=0.5)
        plain = collection.search("cat", 3)
        assert collection.search("cat", 3, hybrid="auto") == plain
        assert collection.search("cat", 3, hybrid=0.0) == plain
        assert collection.info()["lexical"] is None
        collection.index_lexical()
        assert collection.info()["lexical"]["disk_bytes_per_vector"] > 0
        collection.index_lexical(False)
        collection.delete(ids=[DOCUMENTS[0].id])  # until then, `undo` needs the words
        assert not [path for path in collection.path.iterdir() if "words" in path.name]


def test_hybrid_search_of_vectors_requires_texts(collection: Collection) -> None:
    (vector,) = WordEncoder().encode(["pkg-13"])
    with pytest.raises(InputError, match="with vectors; expected texts"):
        collection.search(vector, hybrid=0.5)
    assert len(collection.search(vector, hybrid="auto")) == 10
    (hits,) = collection.answer(
        SearchRequest(texts=["pkg-13"], vectors=vector[None], limit=3, hybrid=0.5)
    )
    assert hits == collection.search("pkg-13", 3, hybrid=0.5)


@pytest.mark.slow
def test_repair_rebuilds_words(collection: Collection) -> None:
    expected = collection.search("blue libfoo2", 9, hybrid=0.5)
    collection.close()
    spoils: tuple[Callable[[Path], object], ...] = (without_a_file, shutil.rmtree)
    for spoil in spoils:
        (words,) = (path for path in collection.path.iterdir() if "words" in path.name)
        spoil(words)
        assert any("words" in fault for fault in verify(collection.path)), spoil
        repair(collection.path)
        assert verify(collection.path) == []
        with Collection.open(collection.path, WordEncoder()) as again:
            assert again.search("blue libfoo2", 9, hybrid=0.5) == expected


def without_a_file(words: Path) -> None:
    next(words.glob("*.term")).unlink()


def test_links_in_the_words_folder_are_refused(collection: Collection, tmp_path: Path) -> None:
    collection.close()
    (words,) = (path for path in collection.path.iterdir() if "words" in path.name)
    (words / "extra").symlink_to(tmp_path)
    with pytest.raises(CorruptError, match="expected a plain file"):
        Collection.open(collection.path, WordEncoder())
