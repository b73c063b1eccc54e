"""Fused searches in Milvus, compared with the index's own: the sentences of slimdex's pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymilvus import MilvusClient

from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import listening
from slimdex.indexes.settings import Settings
from slimdex.retrieval.cluster.milvus_fields import LONGEST_TEXT, WORDS
from slimdex.retrieval.cluster.milvus_push import PushOptions, push
from slimdex.retrieval.cluster.milvus_search import MilvusCollection
from slimdex.retrieval.cluster.milvus_server import Server
from slimdex.retrieval.cluster.milvus_verification import pushed_faults
from slimdex.retrieval.cluster.milvus_words import fitting, query_texts, words_text
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Hit
from slimdex.retrieval.ingest.writer import keep_fusion
from slimdex.retrieval.lexical.tokens import id_terms, stems_of, words_in, words_of
from tests.chance import sweep
from tests.encoders import WordEncoder

from .servers import core_process

PAGES = Path(__file__).parents[3] / "docs"
SENTENCES = 200
EXACT = 40
"""Tantivy rounds the lengths of texts with more words."""
ALL = 300
"""Candidates: all rows."""
QUERIES = [
    "index of deleted documents",
    "`slimdex compact`",
    "how much memory?",
    "the",
    "",
    "zebra",
]
MEMORY = "the memory"
SETTINGS = Settings(k=24, kind="sq8", candidates=60)
FLAT = PushOptions("FLAT")
NAMED = ("notes/Usage.md", "libssl-dev")


texts = st.text(st.characters(codec="utf-8") | st.sampled_from("ab.- 向量Äß_"), max_size=60)


def sentences() -> list[str]:
    """Different sentences of the pages, each of few words."""
    prose = re.compile(r"```.*?```|^[|#].*?$", re.DOTALL | re.MULTILINE)
    text = " ".join(prose.sub("", page.read_text()) for page in sorted(PAGES.glob("*.md")))
    found = dict.fromkeys(" ".join(each.split()) for each in re.split(r"(?<=\.)\s", text))
    return [each for each in found if 5 <= len(words_of(each)) <= EXACT][:SENTENCES]


def documents() -> list[Document]:
    """With numbers as ids, which are not names."""
    return [Document(str(i), text, "", {"n": i}) for i, text in enumerate(sentences())]


def created(path: Path, documents: list[Document]) -> Collection:
    made = Collection.create(path, WordEncoder(), SETTINGS)
    made.add(documents)
    made.index_lexical()
    return made


def ids(collection: Collection | MilvusCollection, query: str, **options: float | str) -> list[str]:
    return [hit.id for hit in collection.search(query, **options)]  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    path = tmp_path_factory.mktemp("fused") / "pages.index"
    created(path, documents()).close()
    with Collection.open(path, WordEncoder()) as collection:
        yield collection


@pytest.fixture(scope="module")
def here(server: Server, own: Collection) -> Iterator[MilvusCollection]:
    push(own, server, "fused_here", FLAT)
    with MilvusCollection(server.uri, "fused_here", own.path, WordEncoder()) as found:
        yield found


@pytest.fixture(scope="module")
def there(server: Server, own: Collection) -> Iterator[MilvusCollection]:
    push(own, server, "fused_there", replace(FLAT, rescored="there"))
    with MilvusCollection(server.uri, "fused_there", encoder=WordEncoder()) as found:
        yield found


@pytest.mark.parametrize(
    ("hybrid", "where"), [(0.1, None), (0.5, "n < 70"), (1.0, None), ("rrf", "n >= 70")]
)
def test_the_order_is_the_indexs_own(
    own: Collection,
    here: MilvusCollection,
    there: MilvusCollection,
    hybrid: str | float,
    where: str | None,
) -> None:
    """On exact lengths of texts; with other words the scores are equal but for rounding."""
    expected = own.search_many(QUERIES, 10, where, candidates=ALL, hybrid=hybrid)
    for searched in (here, there):
        found = searched.search_many(QUERIES, 10, where, candidates=ALL, hybrid=hybrid)
        if hybrid == "rrf":  # ranks of equal BM25 scores are those of the rows, or of the keys
            for ours, theirs in zip(expected, found, strict=True):
                assert {hit.id for hit in theirs[:5]} <= {hit.id for hit in ours}
        else:
            assert _ids(found) == _ids(expected)
        for ours, theirs in zip(expected, found, strict=True):
            by = {hit.id: hit.found_by for hit in ours}
            assert all(hit.found_by == by.get(hit.id, hit.found_by) for hit in theirs)
        cosines = searched.search_many(QUERIES, 200, where, candidates=ALL, hybrid="off")
        for hits, near in zip(found, cosines, strict=True):
            by_id = {hit.id: hit.score for hit in near}
            assert [hit.score for hit in hits] == pytest.approx(
                [by_id[hit.id] for hit in hits], abs=2e-5
            )
    assert len({tuple(hit.id for hit in hits) for hits in expected}) > 3


def test_reduced_vectors_alone_and_words(server: Server, own: Collection) -> None:
    push(own, server, "fused_off", replace(FLAT, rescored="off"))
    with MilvusCollection(server.uri, "fused_off", encoder=WordEncoder()) as found:
        theirs = found.search_many(QUERIES, 10, hybrid=1.0)
        with MilvusCollection(server.uri, "fused_off", own.path, WordEncoder()) as beside:
            both = beside.search_many(QUERIES, 10, hybrid=0.5, candidates=0)
            assert _ids(both) == _ids(found.search_many(QUERIES, 10, hybrid=0.5))
    ours = own.search_many(QUERIES, 10, hybrid=1.0)
    for query, mine, their in zip(QUERIES, ours, theirs, strict=True):
        matching = [hit.id for hit in mine if {*stems_of(query)} & {*stems_of(hit.text)}]
        same = {*matching} & {hit.id for hit in their}
        assert len(same) >= 0.7 * len(matching)  # the cosines of equal BM25 scores differ


def test_names_come_first_and_passages_are_found_by_their_words(
    server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "named.index"
    named = [Document(id, "A page on something else entirely.") for id in NAMED]
    with created(path, documents() + named) as own:
        push(own, server, "named", replace(FLAT, rescored="there"))
        assert ids(own, "usage.md", hybrid=0.1)[0] == NAMED[0]
    with (
        MilvusCollection(server.uri, "named", encoder=WordEncoder()) as there,
        MilvusCollection(server.uri, "named", path, WordEncoder()) as here,
    ):
        for query, id in zip(["usage.md", "Libssl-dev?"], NAMED, strict=True):
            for searched in (here, there):
                for hybrid in (0.01, 0.1, "rrf"):
                    first = searched.search(query, hybrid=hybrid)[0]
                    assert (first.id, first.found_by) == (id, "name")
                assert ids(searched, query, hybrid=0.1, where="n > 5")[0] != id
        passages = there.search(NAMED[0], 2, group_by="passage", hybrid=0.1)
        assert passages[0].id == NAMED[0]


def test_auto_is_the_choice_of_the_index(server: Server, tmp_path: Path) -> None:
    with created(tmp_path / "tuned.index", documents()) as own:
        keep_fusion(own, "0.5")
        push(own, server, "tuned", replace(FLAT, rescored="there"))
        with MilvusCollection(server.uri, "tuned", encoder=WordEncoder()) as found:
            assert ids(found, MEMORY, hybrid="auto") == ids(own, MEMORY, hybrid=0.5)
        keep_fusion(own, "off")
        assert push(own, server, "tuned", replace(FLAT, rescored="there")).sent == 0
        with MilvusCollection(server.uri, "tuned", encoder=WordEncoder()) as found:
            assert ids(found, MEMORY, hybrid="auto") == ids(own, MEMORY, hybrid="off")
            vectors = WordEncoder().encode([MEMORY])
            assert found.search_many(vectors, hybrid="auto") == found.search_many(
                vectors, hybrid="off"
            )


def test_a_server_without_bm25_searches_by_meaning(server: Server, own: Collection) -> None:
    can, notes = server.can, list[str]()
    try:
        server.can = replace(can, version="v2.3.5", bm25=False)
        with listening(note=notes.append):
            push(own, server, "wordless", FLAT)
    finally:
        server.can = can
    assert len(notes) == 1
    with MilvusCollection(server.uri, "wordless", own.path, WordEncoder()) as found:
        assert ids(found, MEMORY, hybrid="auto") == ids(found, MEMORY, hybrid="off")
        for hybrid in (0.1, "rrf"):
            with pytest.raises(InputError, match="'wordless' was pushed without words; "):
                found.search(MEMORY, hybrid=hybrid)
    assert push(own, server, "wordless", FLAT).is_new  # as if the server had been upgraded
    with MilvusCollection(server.uri, "wordless", own.path, WordEncoder()) as found:
        assert ids(found, MEMORY, hybrid=1.0) == ids(own, MEMORY, hybrid=1.0)


def test_an_index_without_words_pushes_none(server: Server, tmp_path: Path) -> None:
    with created(tmp_path / "plain.index", documents()[:50]) as own:
        own.index_lexical(False)
        first = push(own, server, "plain", FLAT)
        assert WORDS not in next(server.every(first.collection, ["*"]))[0]
        own.index_lexical()
        assert push(own, server, "plain", FLAT).is_new
        assert push(own, server, "plain", FLAT).sent == 0


@sweep
def test_the_core_of_milvus_2_5(
    own: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As milvus-lite 2.5.1 has it, with neither aliases nor a version, which the test keeps."""
    aliases, collection_of = dict[str, str](), Server.collection_of
    monkeypatch.setattr(MilvusClient, "get_server_version", lambda _, **__: "2.5.1")
    monkeypatch.setattr(Server, "point", lambda _, alias, name: aliases.update({alias: name}))

    def aliased(self: Server, name: str) -> str | None:
        return collection_of(self, aliases.get(name, name))

    monkeypatch.setattr(Server, "collection_of", aliased)
    with core_process(tmp_path) as uri, Server(uri) as server:
        assert (server.can.dtype, server.can.bm25) == ("float16", True)
        push(own, server, "there", replace(FLAT, rescored="there"))
        push(own, server, "here", FLAT)
        with (
            MilvusCollection(uri, "here", own.path, WordEncoder()) as here,
            MilvusCollection(uri, "there", encoder=WordEncoder()) as there,
        ):
            for hybrid, where in ((0.1, None), (0.5, "n < 70"), (1.0, None)):
                expected = own.search_many(QUERIES, 10, where, candidates=ALL, hybrid=hybrid)
                by_folder = here.search_many(QUERIES, 10, where, candidates=ALL, hybrid=hybrid)
                assert _ids(by_folder) == _ids(expected)
                by_float16 = there.search_many(QUERIES, 10, where, candidates=ALL, hybrid=hybrid)
                for ours, theirs in zip(_ids(expected), _ids(by_float16), strict=True):
                    assert len({*ours} & {*theirs}) >= 0.9 * len(ours)
        for name in aliases:
            assert pushed_faults(own.path, uri, name) == []


def _ids(found: list[list[Hit]]) -> list[list[str]]:
    return [[hit.id for hit in hits] for hits in found]


@given(texts, texts)
def test_each_word_is_one_that_every_analyzer_keeps(id: str, text: str) -> None:
    words = words_text(id, text).split()
    assert all(re.fullmatch("[a-z0-9]{1,40}", word) for word in words)
    names, words_of_id = id_terms(id)
    assert len(words) == len(names) + len(words_in(text).split()) + len(words_of_id.split())


@given(texts, texts)
def test_the_words_of_a_query_are_those_of_texts_that_it_matches(text: str, query: str) -> None:
    words, row = " ".join(query_texts(query)[:1]), words_text("7", text)
    shared = set(stems_of(query)) & set(stems_of(text))
    assert len({*words.split()} & {*row.split()}) == len(shared)


def test_a_name_is_told_from_the_same_word_in_a_text() -> None:
    named, mentioned = words_text("libssl-dev", "a library"), words_text("7", "libssl-dev")
    words, names = query_texts("Libssl-dev!")
    assert {*names.split()} & {*named.split()}
    assert not {*names.split()} & {*mentioned.split()}
    assert {*words.split()} & {*mentioned.split()}
    assert query_texts("7")[1] in query_texts("7")[0]


def test_a_text_that_is_too_long_loses_its_last_words() -> None:
    text = words_text("a/name.md", " ".join(f"word{i}" for i in range(9000)))
    kept = fitting(text)
    assert LONGEST_TEXT - 9 <= len(kept) <= LONGEST_TEXT < len(text)
    assert text.startswith(f"{kept} ")
    assert fitting(kept) == kept
    exact = "a" * (LONGEST_TEXT - 2) + " b"
    assert fitting(f"{exact} c") == exact
