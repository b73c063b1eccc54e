"""Searches of a pushed index: the same answers as the index's own by meaning, its words beside."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.cluster.milvus_push import MOST_CHARACTERS, push
from slimdex.retrieval.cluster.milvus_search import MilvusCollection
from slimdex.retrieval.cluster.milvus_server import LONGEST_TEXT, WORDS, Server
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Hit, hit_json, json_of
from slimdex.retrieval.encoders.models import DEFAULT_MODEL
from slimdex.retrieval.encoders.opening import open_encoder
from slimdex.retrieval.ingest.writer import keep_fusion
from tests.encoders import ReadingEncoder, WordEncoder

PAGES = Path(__file__).parents[3] / "docs"
QUERIES = ["word8 word3 title", "word100", "word12 word2", "word16 text"]
WHERES = {
    "n < 3": "n < 3",
    "n >= 20 and n <= 90 and year is not null": "n BETWEEN 20 AND 90 AND year IS NOT NULL",
    "year > 2000 or year is null": "year > 2000 OR year IS NULL",
    'day >= "2024-01-15"': "day >= DATE '2024-01-15'",
    'author like "Mac%" and price < 9.5': "author LIKE 'Mac%' AND price < 9.5",
    'array_contains(tags, "t1")': "list_contains(tags, 't1')",
    'id in ["d4", "d30"]': "id IN ('d4', 'd30')",
    "n < 0": "n < 0",
}
"""Conditions of Milvus, and the same ones of DuckDB."""


def sentences() -> list[str]:
    """Different sentences of slimdex's pages."""
    prose = re.compile(r"```.*?```|^[|#].*?$", re.DOTALL | re.MULTILINE)
    text = " ".join(prose.sub("", page.read_text()) for page in sorted(PAGES.glob("*.md")))
    found = dict.fromkeys(" ".join(each.split()) for each in re.split(r"(?<=\.)\s", text))
    return [each for each in found if len(each.split()) >= 5]


def agreement(ours: Sequence[Sequence[Hit]], theirs: Sequence[Sequence[Hit]]) -> float:
    shares = [
        len({hit.id for hit in mine} & {hit.id for hit in their}) / len(mine)
        for mine, their in zip(ours, theirs, strict=True)
    ]
    return float(np.mean(shares))


@pytest.mark.slow
def test_answers_agree_on_real_sentences(server: Server, tmp_path: Path) -> None:
    """An index of half of the sentences, and queries from the others: half of their words."""
    found = sentences()
    documents = [Document(str(i), text, "", {"n": i}) for i, text in enumerate(found[:600:2])]
    asked = [" ".join(text.split()[::2]) for text in found[1:80:2]]
    with Collection.create(tmp_path / "pages", open_encoder(DEFAULT_MODEL)) as own:
        own.add(documents)
        push(own.index, server, "read")
        with MilvusCollection(server.uri, "read", own.encoder) as theirs:
            few = "n < 90"
            for hybrid, where in (("off", None), ("off", few), ("auto", None), ("rrf", few)):
                answers = [
                    each.search_many(asked, 10, where, hybrid=hybrid) for each in (own, theirs)
                ]
                assert agreement(*answers) >= (0.99 if hybrid == "off" else 0.6), (hybrid, where)


@pytest.fixture(scope="module")
def own(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    """The index: exact by its full vectors, as long as all rows are candidates."""
    path = tmp_path_factory.mktemp("searched") / "notes.index"
    shutil.copytree(built, path)
    with Collection.open(path, ReadingEncoder()) as collection:
        yield collection


@pytest.fixture(scope="module")
def found(server: Server, own: Collection) -> Iterator[MilvusCollection]:
    push(own.index, server, "notes")
    with MilvusCollection(server.uri, "notes", ReadingEncoder()) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("per", ["document", "passage"])
def test_hits_are_the_indexs_own(own: Collection, found: MilvusCollection, per: str) -> None:
    expected = own.search_many(QUERIES, 7, candidates=1000, group_by=per, hybrid="off")
    hits = found.search_many(QUERIES, 7, group_by=per, hybrid="off")
    for ours, theirs in zip(expected, hits, strict=True):
        scores = [[hit.score for hit in each] for each in (ours, theirs)]
        assert scores[1] == pytest.approx(scores[0], abs=5e-3)
        by_place = {(hit.id, hit.start): hit for hit in ours}
        for hit in theirs:  # of equal texts, either may be found
            assert _shown(hit) == _shown(by_place.get((hit.id, hit.start), hit))


def _shown(hit: Hit) -> str:
    """A hit as JSON, without its scores."""
    return json_of(hit_json(hit) | {"score": 0, "similarity": 0})


@pytest.mark.slow
@pytest.mark.parametrize(("where", "sql"), WHERES.items())
def test_conditions_hold_for_the_same_documents(
    own: Collection, found: MilvusCollection, where: str, sql: str
) -> None:
    matching = {each.id for each in own.get(where=sql, limit=1000)}
    for hybrid in ("off", "auto"):
        assert {hit.id for hit in found.search(QUERIES[0], 1000, where, hybrid=hybrid)} == matching
    assert found.count(where) >= len(matching)


@pytest.mark.slow
def test_auto_is_the_choice_of_the_index(server: Server, own: Collection) -> None:
    def ids(hybrid: str | float) -> list[str]:
        with MilvusCollection(server.uri, "tuned", ReadingEncoder()) as found:
            return [hit.id for hit in found.search(QUERIES[0], hybrid=hybrid)]

    for choice in ("0.5", "off"):
        keep_fusion(own.index, choice)
        push(own.index, server, "tuned")
        assert ids("auto") == ids(choice)
    own.index_lexical(False)
    first = push(own.index, server, "tuned")
    assert first.is_new
    assert WORDS not in next(server.every(first.collection, ["*"]))
    assert ids("auto") == ids("off")
    with pytest.raises(InputError, match="'tuned' was pushed without words"):
        ids("rrf")
    own.index_lexical()


@pytest.mark.slow
def test_words_count_and_long_texts_lose_their_ends(server: Server, tmp_path: Path) -> None:
    text = " ".join(f"wörd{i}" for i in range(9000))
    with Collection.create(tmp_path / "long.index", WordEncoder(), Settings(2, kind="flat")) as own:
        own.add([Document("long", text, "", {"n": 5}), Document("b", "two"), Document("c", "six")])
        done = push(own.index, server, "long")
    row = next(row for row in server.every(done.collection, ["*"]) if row["id"] == "long")
    assert len(row[WORDS]) <= LONGEST_TEXT
    with MilvusCollection(server.uri, "long", WordEncoder()) as found:
        hit = found.search("wörd8 wörd9 wörd10", 1, hybrid=1.0)[0]
    assert hit.text == text[:MOST_CHARACTERS]
    assert hit.metadata == {"n": 5}


@pytest.mark.slow
def test_what_is_refused(found: MilvusCollection) -> None:
    with pytest.raises(InputError, match=r"^milvus [^\n]+$"):
        found.search("word", where="n is less than 3")
    with pytest.raises(InputError, match="expected a condition of Milvus, in where"):
        found.search("word", glob=["*.py"])
    with pytest.raises(InputError, match="no index 'nothing'; expected one that `slimdex push`"):
        MilvusCollection(found._server.uri, "nothing", ReadingEncoder())
