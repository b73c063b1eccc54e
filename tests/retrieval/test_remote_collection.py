"""A program moves from a folder to a URL: the same methods, the same answers, the same errors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

from slimdex import Collection, Document, Hit, InputError, RemoteCollection
from slimdex.retrieval.search.options import SearchKeywords
from tests.retrieval.server.running import built, serving

ROWS = [
    {"id": "a/b c?", "title": "Cat", "text": "the cat sat on the mat", "year": 1990},
    {"id": "2", "text": "stocks fell sharply on monday", "year": 2001},
    {"id": "3", "text": "a dog slept on a rug", "year": 2010},
]
YOUNG = "year < 2005"
TOKENS = {"read": "0123456789abcdef", "write": "fedcba9876543210"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("remote")


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    built(folder, ROWS, "local")
    tokens = folder / "tokens"
    tokens.write_text("".join(f"{right} {token}\n" for right, token in TOKENS.items()))
    tokens.chmod(0o600)
    with serving([built(folder, ROWS)], "--token-file", tokens) as running:
        yield f"{running.url}/indexes/notes"


@pytest.fixture
def pair(url: str, folder: Path) -> Iterator[tuple[Collection, RemoteCollection]]:
    """The same documents, in a folder and behind a URL."""
    with (
        Collection.open(folder / "local.index") as local,
        RemoteCollection.open(url, TOKENS["write"]) as remote,
    ):
        yield local, remote


def test_shared_methods_have_the_same_signatures() -> None:
    shared = [name for name in dir(RemoteCollection) if name in dir(Collection)]
    methods = [n for n in shared if callable(getattr(Collection, n)) and n not in ("open",)]
    own = {"add", "delete", "get", "count", "info", "compact", "close", "related"}
    assert own <= {*methods}
    for name in {*methods} - {"__init__", "__doc__", "__module__", "__abstractmethods__"}:
        mine, theirs = getattr(RemoteCollection, name), getattr(Collection, name)
        if inspect.isfunction(mine):
            assert inspect.signature(mine) == inspect.signature(theirs), name


def assert_same(mine: list[Hit], theirs: list[Hit]) -> None:
    plain = [
        [replace(hit, score=0, similarity=0, headings=()) for hit in hits]
        for hits in (mine, theirs)
    ]
    assert plain[0] == plain[1]
    np.testing.assert_allclose([h.score for h in mine], [h.score for h in theirs], atol=1e-5)


def test_searches_and_reads_answer_the_same(
    pair: tuple[Collection, RemoteCollection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slimdex.retrieval.remote_collection.PAGE", 2)
    local, remote = pair
    vector = local.encoder.encode(["a dog on a rug"])[0]
    ways: list[tuple[Any, str | None, Any]] = [(vector, None, "auto"), (vector, YOUNG, "off")]
    ways += [("a dog on a rug", YOUNG, way) for way in ("auto", "off", "rrf", 0.3, 1.0)]
    for query, where, hybrid in ways:
        mine, theirs = (each.search(query, 2, where, hybrid=hybrid) for each in (remote, local))
        assert_same(mine, theirs)
    options: list[SearchKeywords] = [
        {"regex": "^The"},
        {"min_score": 0.3, "hybrid": "off"},
        {"group_by": "passage", "candidates": 1},
    ]
    for asked in options:
        assert_same(*(each.search("a dog on a rug", 2, **asked) for each in (remote, local)))
    both = [each.search_many(["cat", "monday"], 1) for each in (remote, local)]
    assert [[h.id for h in hits] for hits in both[0]] == [[h.id for h in hits] for hits in both[1]]
    for where in (None, "year > 1995"):
        assert_same(*(each.related("a/b c?", 2, where) for each in (remote, local)))
    assert [*remote] == local.get(limit=9)
    assert remote.get("a/b c?") == local.get("a/b c?")
    assert remote.get(["3", "2"]) == local.get(["3", "2"])
    for given in ({"limit": 2}, {"limit": 1, "after": "2"}, {"limit": 0}, {"after": 2}):
        assert remote.get(**given) == local.get(**given)
    assert remote.get(where="year > 1995") == local.get(where="year > 1995", limit=9)
    with pytest.raises(InputError, match="vectors=True"):
        remote.get("2", vectors=True)
    assert (len(remote), remote.count("year > 1995")) == (3, 2)
    assert "2" in remote
    assert "nobody" not in remote
    assert 1.5 not in remote
    assert remote.info()["documents"] == 3


def test_changes_are_the_same(pair: tuple[Collection, RemoteCollection]) -> None:
    local, remote = pair
    before = remote.version
    new = [
        Document("4", "rain", "", {"year": 7}),
        {"id": 5, "text": "snow", "at": date(2024, 5, 1)},
    ]
    added = remote.add(new)
    assert (added.documents, added.replaced, added.encoded) == (2, 0, 2)
    assert remote.version > before
    assert remote.get("5").metadata["at"] == "2024-05-01"
    again = remote.add(new[:1])
    assert (again.documents, again.unchanged) == (0, 1)
    assert remote.add({"id": 4, "text": "rain fell"}).replaced == 1
    assert remote.delete([4]) == 1
    assert remote.delete(where="id = '5'") == 1
    assert remote.delete([]) == 0
    assert remote.compact() == 3
    assert [*remote] == local.get(limit=9)


def test_changes_between_pages_hide_and_repeat_nothing(
    pair: tuple[Collection, RemoteCollection],
) -> None:
    for collection in pair:
        untouched = {f"n{i}" for i in range(10, 99)}
        collection.add([{"id": id, "text": id} for id in sorted(untouched)])
        seen = list[str]()
        while page := collection.get(where="true", limit=7, after=seen[-1] if seen else ""):
            seen += [document.id for document in page]
            # Change the last document seen and a later one, delete another two, close gaps.
            changed = {seen[-1], f"n{9 + len(seen)}"} & untouched
            gone = {seen[0], f"n{11 + len(seen)}"} & untouched - changed
            collection.add([{"id": id, "text": f"after {len(seen)}"} for id in sorted(changed)])
            collection.delete(sorted(gone))
            collection.compact()
            untouched -= changed | gone
        assert len(untouched) > 50
        assert [id for id in seen if id in untouched] == sorted(untouched)
        collection.delete(where="id LIKE 'n%'")


def test_large_additions_are_sent_in_parts(
    pair: tuple[Collection, RemoteCollection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slimdex.retrieval.remote_collection.SENT_BYTES", 100)
    _, remote = pair
    rows = [{"id": f"part {i}", "text": "it was snow " * 4} for i in range(5)]
    before = remote.version
    assert remote.add(rows).documents == 5
    assert remote.version >= before + 5  # a commit for each
    remote.delete([str(row["id"]) for row in rows])


def test_a_service_encodes_what_was_only_entered(
    pair: tuple[Collection, RemoteCollection],
) -> None:
    """By itself; a folder waits for `encode`."""
    local, remote = pair
    late = [{"id": f"late{n}", "text": f"rain{n} fell on monday", "year": n} for n in range(5)]
    for collection in pair:
        added = collection.add(late, encode=False)
        assert (added.documents, added.encoded) == (5, 0)
        assert collection.get("late3").text == late[3]["text"]
    local.encode()
    end = monotonic() + 60
    while remote.info()["encoded"] < local.info()["encoded"]:
        assert monotonic() < end
        sleep(0.02)
    answers = [collection.search("rain on monday", 5) for collection in pair]
    for collection in pair:
        collection.delete([f"late{n}" for n in range(5)])
    assert_same(*answers)


def test_errors_are_those_of_a_collection(pair: tuple[Collection, RemoteCollection]) -> None:
    wrong: list[tuple[str, tuple[Any, ...]]] = [
        ("search", ("x", 0)),
        ("search", ("x", 1, "nope = 1")),
        ("get", ("nobody",)),
        ("delete", (["2", "nobody"],)),
        ("delete", ()),
        ("add", ([{"id": 9, "text": "x"}, {"id": 9, "text": "y"}],)),
        ("add", ("text",)),
        ("search", ("\ud83d",)),
        ("get", ("\ud83d",)),
        ("add", ([{"id": 9, "text": "x", "tags": {"\ude00": 1}}],)),
    ]
    for each in pair:
        assert "\ud83d" not in each
        for method, arguments in wrong:
            with pytest.raises(InputError):
                getattr(each, method)(*arguments)
        assert len(each) == 3


def test_a_service_refuses_wrong_tokens_names_and_urls(url: str) -> None:
    with pytest.raises(InputError, match="401"):
        RemoteCollection.open(url)
    reader = RemoteCollection.open(url, TOKENS["read"])
    assert len(reader) == 3
    with pytest.raises(InputError, match="403") as refused:
        reader.add({"id": 1, "text": "x"})
    assert TOKENS["read"] not in str(refused.value)
    with pytest.raises(InputError, match="404"):
        RemoteCollection.open(url.replace("notes", "other"), TOKENS["read"])
    with pytest.raises(InputError, match="vectors for a service; expected none"):
        reader.add({"id": 1, "text": "x"}, vectors=np.ones((1, 24)))
    with pytest.raises(InputError, match="refused"):
        RemoteCollection.open("http://127.0.0.1:9/indexes/notes")
    for wrong in ("notes.index", "ftp://h/indexes/n", "http://u:p@h/indexes/n", "http://h/"):
        with pytest.raises(InputError, match=r"^url "):
            RemoteCollection.open(wrong)
