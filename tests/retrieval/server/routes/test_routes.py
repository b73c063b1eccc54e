"""Each route: what it answers, and the one line for what it can't do."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from slimdex.indexes.errors import InputError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import MOST_COLUMNS, hit_json
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.server.access.hosts import Hosts
from slimdex.retrieval.server.access.tokens import Right, Tokens
from slimdex.retrieval.server.limits import Limits
from slimdex.retrieval.server.service import Service
from tests.conftest import Copies
from tests.encoders import WordEncoder

from ..asking import DOCUMENTS, asking, made

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def notes(tmp_path: Path) -> dict[str, Path]:
    return {"notes": made(tmp_path / "secret-place" / "notes.index")}


def lines(documents: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(document) + "\n" for document in documents)


def assert_same(hits: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """The same hits; sums of a batch round otherwise than those of one query."""
    assert [hit | {"score": 0} for hit in hits] == [hit | {"score": 0} for hit in expected]
    scores = [hit["score"] for hit in expected]
    assert [hit["score"] for hit in hits] == pytest.approx(scores, abs=2e-6)


async def test_searches_find_what_the_collection_does(tmp_path: Path, copied: Copies) -> None:
    """Of 1,200 documents, by text and by vector, alone and at once, with conditions and without."""
    path = copied(tmp_path / "i")
    texts = ["sort a list", "open a file", "parse a date", "send mail", "compress data"]
    vectors = WordEncoder().encode(texts)
    with Collection.open(path, WordEncoder()) as collection:
        expected = {
            where: [
                [hit_json(hit) for hit in hits]
                for hits in collection.search_many(texts, 5, where, hybrid="off")
            ]
            for where in (None, "id < 'json'")
        }
        chance = collection.chance_score()

    async with asking({"i": path}) as (client, _):
        bodies: list[dict[str, Any]] = []
        for where in expected:
            bodies += [{"query": text, "where": where, "hybrid": "off"} for text in texts]
            bodies += [{"vector": row.tolist(), "where": where} for row in vectors]
        answers = await asyncio.gather(
            *(client.post("/indexes/i/search", json=body | {"limit": 5}) for body in bodies)
        )
        for body, answer in zip(bodies, answers, strict=True):
            assert answer.status_code == 200, answer.text
            found = answer.json()
            number = bodies.index(body) % 5
            assert_same(found["queries"][0]["hits"], expected[body["where"]][number])
            assert found["queries"][0]["query"] == body.get("query", "vector 1")
            assert found["milliseconds"]["scan"] >= 0
        several = {"queries": texts, "limit": 5, "hybrid": "off"}
        found = (await client.post("/indexes/i/search", json=several)).json()
        for one, hits in zip(found["queries"], expected[None], strict=True):
            assert_same(one["hits"], hits)
        assert [one["query"] for one in found["queries"]] == texts
        assert found["chance_score"] == pytest.approx(chance)
        sizes = (await client.get("/metrics")).text
        assert 'slimdex_batch_queries_count{index="i",step="encode"}' in sizes


async def test_searches_within_patterns(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "text": "the cat sat", "path": "pets/cat.md"},
        {"id": "2", "text": "the cat fell", "path": "pets/cat.py"},
        {"id": "3", "text": "a dog fell", "path": "dog.py"},
    ]
    places = {"notes": made(tmp_path / "notes.index", rows)}
    async with asking(places) as (client, _):
        for asked, ids in (
            ({"glob": ["*.py"]}, {"2", "3"}),
            ({"glob": ["cat.*"], "where": {"type": "ne", "key": "id", "value": "1"}}, {"2"}),
            ({"glob": ["dog*", "*.md"]}, {"1", "3"}),
            ({"regex": "fell$", "where": "id < '3' OR false"}, {"2"}),
        ):
            answer = await client.post("/indexes/notes/search", json={"query": "cat", **asked})
            assert {hit["id"] for hit in answer.json()["queries"][0]["hits"]} == ids, asked
        wrong = await client.post("/indexes/notes/search", json={"query": "cat", "regex": "("})
        assert (wrong.status_code, "missing )" in wrong.json()["error"]) == (400, True)


async def test_related_documents(notes: dict[str, Path]) -> None:
    with Collection.open(notes["notes"], WordEncoder()) as collection:
        expected = [hit_json(hit) for hit in collection.related("a/b c?", 2)]
    async with asking(notes, limits=Limits(hits=2)) as (client, _):
        at = "/indexes/notes/related/a%2Fb%20c%3F"
        assert_same((await client.get(at, params={"limit": 2})).json()["hits"], expected)
        some = await client.get(at, params={"limit": 1, "where": "kind = 'money'"})
        assert [hit["id"] for hit in some.json()["hits"]] == ["2"]
        refused: list[tuple[str, dict[str, int | str], int]] = [
            ("none", {"limit": 1}, 404),
            ("2", {"limit": 3}, 413),
            ("2", {"limit": 0}, 422),
            ("2", {"limit": 1, "where": "yer > 1"}, 400),
        ]
        for place, asked, status in refused:
            answer = await client.get(f"/indexes/notes/related/{place}", params=asked)
            assert answer.status_code == status, answer.text


async def test_documents_come_are_read_and_go(notes: dict[str, Path]) -> None:
    async with asking(notes) as (client, _):
        at = "/indexes/notes/documents/"
        put = await client.put(f"{at}new", json={"text": "rain fell", "title": "T", "year": 7})
        assert put.json() == {"id": "new", "documents": 4}
        new = (await client.get(f"{at}new")).json()
        assert (new["text"], new["title"], new["metadata"]) == (
            "rain fell",
            "T",
            {"year": 7, "kind": None},
        )
        again = await client.put(f"{at}new", json={"text": "snow fell"})
        assert again.json() == {"id": "new", "documents": 4}
        odd = await client.get(f"{at}a%2Fb%20c%3F")
        assert odd.json()["text"] == DOCUMENTS[2]["text"]
        assert (await client.delete(f"{at}1")).json() == {"deleted": 1, "documents": 3}
        gone = await client.get(f"{at}1")
        assert (gone.status_code, gone.json()["error"]) == (
            404,
            "unknown id '1'; expected the id of a document",
        )
        body = {"where": "year > 2000"}
        some = await client.post("/indexes/notes/delete", json=body)
        assert some.json() == {"deleted": 2, "documents": 1}
        assert (await client.post("/indexes/notes/compact")).json() == {"freed": 4, "documents": 1}
        both = await client.post("/indexes/notes/delete", json={"ids": ["new"], "where": "true"})
        assert both.status_code == 400
    with Collection.open(notes["notes"]) as collection:
        assert [document.text for document in collection] == ["snow fell"]


async def test_many_come_as_lines(notes: dict[str, Path]) -> None:
    body = lines([{"id": i, "text": f"text number {i}", "year": i} for i in range(5)])

    async with asking(notes, limits=Limits(commit=2)) as (client, service):
        at = "/indexes/notes/documents"
        plain = await client.post(at, content=body, headers=NDJSON)
        assert plain.json() == {
            "lines": 5,
            "documents": 5,
            "replaced": 1 + 1,
            "unchanged": 0,
            "encoded": 5,
        }
        told = await client.post(
            at, content=body, headers=NDJSON | {"Accept": NDJSON["Content-Type"]}
        )
        each = [json.loads(line) for line in told.text.splitlines()]
        assert [(one["lines"], one["unchanged"]) for one in each] == [(2, 2), (4, 4), (5, 5)]
        wrong = await client.post(at, content=body + "{}\n", headers=NDJSON)
        assert wrong.status_code == 400
        assert wrong.json()["error"].startswith("line 6: expected a JSON object")
        assert wrong.json()["durable"]["lines"] == 4
        untyped = await client.post(at, content=body, headers={"Content-Type": "text/csv"})
        assert untyped.status_code == 415
        service.indexes["notes"].senders = 8
        full = await client.post(at, content=body, headers=NDJSON)
        assert (full.status_code, full.headers["retry-after"]) == (503, "1")
        service.indexes["notes"].senders = 0


async def test_what_is_told_of_an_index(notes: dict[str, Path], tmp_path: Path) -> None:
    places = notes | {"empty": made(tmp_path / "empty", None)}

    async with asking(places) as (client, _):
        names = (await client.get("/indexes")).json()["indexes"]
        assert names == [{"name": "notes", "documents": 3}, {"name": "empty", "documents": 0}]
        info = (await client.get("/indexes/notes")).json()
        assert (info["path"], info["documents"], info["dimensions"]) == ("notes", 3, 48)
        columns = (await client.get("/indexes/notes/columns")).json()["columns"]
        assert columns[1] == {
            "name": "kind",
            "type": "VARCHAR",
            "values": [{"value": "pets", "documents": 2}, {"value": "money", "documents": 1}],
        }
        assert (await client.get("/health")).json() == {"status": "alive"}
        ready = await client.get("/ready")
        assert ready.json()["status"] in ("ready", "loading")
        none = await client.post("/indexes/empty/search", json={"query": "x"})
        assert (none.status_code, none.json()["error"]) == (400, "empty holds no documents yet")
        assert (await client.get("/openapi.json")).json()["info"]["title"] == "slimdex"


SEARCHES_REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({}, 400, "expected one of query, queries, vector and vectors"),
    ({"query": "a", "vector": [1.0]}, 400, "expected one of query"),
    ({"query": " "}, 400, "a blank text; expected words"),
    ({"query": "a", "limit": 0}, 422, "limit=0: Input should be greater than or equal to 1"),
    ({"query": "a", "limit": 2000}, 413, "limit=2,000; expected 1,000 or less"),
    ({"query": "a", "limit": "3"}, 422, "limit='3': "),
    ({"query": "a", "k": 3}, 422, "k=3: Extra inputs are not permitted"),
    ({"query": "a" * 200_000}, 413, "a text of 200,000 characters; expected 100,000"),
    ({"queries": ["a"] * 300}, 413, "300 texts; expected 256 or fewer"),
    ({"query": "a", "where": "yer > 3"}, 400, "where 'yer > 3': "),
    ({"query": "a", "where": "1; DROP TABLE x"}, 400, "where '1; DROP TABLE x': "),
    ({"query": "a", "where": {"type": "eq", "key": "no"}}, 400, "filter key 'no'; expected"),
    ({"query": "a", "where": 5}, 422, "where=5: "),
    ({"vector": [1.0, 2.0]}, 400, "2 dimensions; expected 48"),
    ({"vector": [1e39] + [0.0] * 47}, 400, "expected finite numbers"),
    ({"vectors": [[1.0], [1.0, 2.0]]}, 400, "vectors of [1, 2] dimensions"),
    ({"query": "a", "candidates": -1}, 422, "candidates=-1: "),
    ({"query": "a", "group_by": "word"}, 422, "group_by='word': "),
]


async def test_searches_that_are_refused(notes: dict[str, Path]) -> None:
    async with asking(notes) as (client, _):
        for body, status, line in SEARCHES_REFUSED:
            answer = await client.post("/indexes/notes/search", json=body)
            said = answer.json()["error"]
            assert (answer.status_code, line in said) == (status, True), said
            assert "\n" not in said
            assert "secret-place" not in said


HALF = r"\ud800"
TWICE = "twice in an object; expected it once"
SEARCH, PUT, POST = "POST search", "PUT documents/7", "POST documents"
BODIES_REFUSED: list[tuple[str, str, int, str]] = [
    (SEARCH, "{", 422, "JSON decode error"),
    (SEARCH, "[]", 422, "the body=[]: "),
    (SEARCH, '{"query": 5}', 422, "query=5: "),
    (SEARCH, f'{{"query": "{HALF}"}}', 422, "half a character"),
    (SEARCH, '{"query": "cat", "limit": 1, "limit": 9}', 422, TWICE),
    (SEARCH, "x" * 3000, 413, "a body of 3,000 bytes"),
    (PUT, "{}", 422, "text="),
    (PUT, '{"text": "x", "text": "y"}', 422, TWICE),
    *[
        (PUT, f'{{"text": "x", "year": {value}}}', 400, "column 'year'")
        for value in ("Infinity", "1e999", "[1, -Infinity]")
    ],
    ("PUT documents/%20", '{"text": "x"}', 400, "an empty id"),
    ("PUT documents/%ff%fe", '{"text": "x"}', 400, "expected UTF-8"),
    ("GET documents/%ff%fe", "", 400, "expected UTF-8"),
    (POST, '{"id": "7", "text": "x", "year": {"a": 1, "a": 2}}', 400, TWICE),
    ("POST delete", f'{{"ids": ["{HALF}"]}}', 422, "half a character"),
    ("POST reduce", '{"k": 99}', 400, "k=99; expected 1 to"),
    ("POST reduce", '{"kind": "no"}', 400, "kind"),
    ("POST reduce", f'{{"kind": "{HALF}"}}', 422, "half a character"),
    ("POST reduce", f'{{"candidates": {10**30}}}', 400, "candidates=1000"),
    ("POST sync", '{"sources": ["/a\\u0000"]}', 403, "expected an absolute path"),
    ("POST sync", f'{{"sources": ["/{HALF}"]}}', 422, "half a character"),
    ("POST /v1/embeddings", f'{{"model": "notes", "input": "{HALF}"}}', 422, "half a character"),
    ("POST /v1/vector_stores/notes/search", f'{{"query": "{HALF}"}}', 422, "half a character"),
    ("GET /nowhere", "", 404, "Not Found"),
    ("GET /indexes/other", "", 404, "index 'other'; expected one of notes"),
    ("GET search", "", 405, "Method Not Allowed"),
]


async def test_bodies_that_are_refused(notes: dict[str, Path]) -> None:
    async with asking(notes, limits=Limits(body=2000)) as (client, _):
        for asked, body, status, line in BODIES_REFUSED:
            method, place = asked.split()
            url = place if place.startswith("/") else f"/indexes/notes/{place}"
            answer = await client.request(method, url, content=body, headers=JSON)
            said = str(answer.json()["error"])
            assert (answer.status_code, line in said) == (status, True), (asked, said)
            assert "secret-place" not in said
        search, documents = "/indexes/notes/search", "/indexes/notes/documents"
        twice = '{"id": "7", "text": "x", "text": "y"}'
        assert TWICE in (await client.post(documents, content=twice, headers=NDJSON)).text
        assert (await client.post(search, content=b"{}")).status_code == 415
        # a stream of agents that never ends would hold up the service's end
        stream = {"Accept": "text/event-stream"}
        assert (await client.get("/mcp", headers=stream)).status_code == 405

        async def endless() -> Any:
            for _ in range(5):
                yield b'{"query": "' + b"x" * 900

        long = await client.post(search, content=endless())
        assert (long.status_code, "over 2,000 bytes" in long.text) == (413, True)
        assert (await client.get(f"{documents}/7")).status_code == 404
    Collection.open(notes["notes"], WordEncoder()).close()


async def test_odd_values_that_are_kept(notes: dict[str, Path]) -> None:
    async with asking(notes) as (client, _):
        at = "/indexes/notes/documents/"
        put = await client.put(f"{at}7", content='{"text": "x", "year": NaN}', headers=JSON)
        assert put.status_code == 200, put.text
        found = (await client.get(f"{at}7")).json()
        assert found["metadata"] == {"year": None, "kind": None}
        put = await client.put(f"{at}%E2%82%AC%EF%BF%BD", json={"text": "x"})
        assert put.json() == {"id": "€\ufffd", "documents": 5}


async def test_a_body_of_too_many_columns_is_refused(notes: dict[str, Path]) -> None:
    async with asking(notes) as (client, _):
        at, wide = "/indexes/notes/documents", {f"c{i}": i for i in range(MOST_COLUMNS + 1)}
        put = client.put(f"{at}/7", json={"text": "x"} | wide)
        other = client.put(f"{at}/8", json={"text": "x"})
        refused, kept = await asyncio.gather(put, other)
        assert (refused.status_code, kept.status_code) == (400, 200), refused.text
        assert refused.json()["error"].startswith("the body: 10,001 columns; expected 10,000")
        post = await client.post(at, json=[{"id": "7", "text": "x"} | wide])
        assert post.status_code == 400, post.text
        assert (await client.get(f"{at}/7")).status_code == 404


async def test_a_key_twice_is_refused(notes: dict[str, Path]) -> None:
    async with asking(notes) as (client, _):
        at = "/indexes/notes/documents/7"
        for body in ('{"id": "7", "id": "8", "text": "x"}', '{"text": "x", "n": 1, "n": 1}'):
            put = await client.put(at, content=body, headers=JSON)
            assert (put.status_code, TWICE in put.text) == (422, True), put.text
        put = await client.put(at, json={"id": "8", "text": "x"})
        assert put.status_code == 400, put.text
        many = ", ".join(f'"c{i}": 1' for i in range(100_000))
        put = await client.put(at, content=f'{{"text": "x", {many}, "c99999": 1}}', headers=JSON)
        assert TWICE in put.text
        assert (await client.get(at)).status_code == 404


async def test_settings_are_changed_for_all_who_search(tmp_path: Path, copied: Copies) -> None:
    async with asking({"i": copied(tmp_path / "i")}) as (client, _):
        before = (await client.get("/indexes/i")).json()["settings"]
        assert before["k"] == 24
        answer = await client.post("/indexes/i/reduce", json={"k": 8, "gamma": 1.0})
        assert answer.json()["requested"]["k"] == 8
        settings = (await client.get("/indexes/i")).json()["settings"]
        assert (settings["k"], settings["gamma"], settings["beta"]) == (8, 1.0, before["beta"])


async def test_files_are_read_only_where_it_is_allowed(
    notes: dict[str, Path], tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "one.txt").write_text("A file of the server's.")
    (tmp_path / "other.txt").write_text("Not for everybody.")
    (shared / "link.txt").symlink_to(tmp_path / "other.txt")
    (shared / "within.txt").symlink_to(shared / "one.txt")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "two.txt").write_text("Not for everybody, either.")
    (shared / "folder").symlink_to(elsewhere)
    (elsewhere / "one.sqlite").touch()
    (shared / "link.sqlite").symlink_to(elsewhere / "one.sqlite")
    (shared / ".set").mkdir()
    (shared / ".set" / "corpus.jsonl").symlink_to(elsewhere / "two.txt")

    async with asking(notes, folders=(shared,)) as (client, _):
        for source in (
            "/etc/hostname",
            str(tmp_path / "other.txt"),
            str(shared / ".." / "other.txt"),
            str(shared / "link.txt"),
            f"{shared / 'link.sqlite'}#notes",
            str(shared / ".set"),
            "/\0",
            "shared",
            "sql:SELECT 1",
            "python:json",
            "-",
        ):
            answer = await client.post("/indexes/notes/sync", json={"sources": [source]})
            assert answer.status_code == 403, (source, answer.text)
        answer = await client.post(
            "/indexes/notes/sync", json={"sources": [str(shared / "one.txt")]}
        )
        assert answer.json()["added"] == 1, answer.text
        answer = await client.post("/indexes/notes/sync", json={"sources": [str(shared)]})
        assert answer.json()["added"] == 1, answer.text
        assert "link.txt" in "".join(answer.json()["notes"]), answer.text
        for unknown in ("link.txt", "folder/two.txt"):
            answer = await client.get(f"/indexes/notes/documents/{unknown}")
            assert answer.status_code == 404, answer.text


async def test_documents_as_json_are_one_commit(notes: dict[str, Path]) -> None:
    async with asking(notes) as (client, _):

        async def post(body: Any) -> httpx.Response:
            return await client.post("/indexes/notes/documents", json=body)

        one = await post({"id": 8, "text": "a red fox"})
        assert one.json() == {
            "lines": 1, "documents": 1, "replaced": 0, "unchanged": 0, "encoded": 1,
            "refitted": False, "notes": one.json()["notes"],
        }  # fmt: skip
        two = await post([{"id": "8", "text": "a blue fox"}, {"id": "9", "text": "a hen"}])
        assert (two.json()["documents"], two.json()["replaced"]) == (2, 1)
        for wrong, said in (
            ([{"id": "10", "text": "x"}, {"id": "11"}], "document 2: expected a JSON object with"),
            (
                [{"id": "10", "text": "x"}, {"id": True, "text": ""}],
                "document 2: id True; expected",
            ),
            ([], "no documents; expected at least one"),
            (
                [{"id": 10, "text": "x"}, {"id": "12", "text": ""}, {"id": "10", "text": "y"}],
                "id '10' occurs 2 times; expected each id once",
            ),
            ("x", "document 1: expected a JSON object with an id and a text"),
        ):
            answer = await post(wrong)
            assert answer.status_code == 400, answer.text
            assert said in answer.json()["error"]
        assert (await client.get("/indexes/notes/documents/10")).status_code == 404
        gone = await client.post("/indexes/notes/delete", json={"ids": [8, "9"]})
        assert gone.json()["deleted"] == 2


async def test_a_view_reads_no_file_that_callers_may_not_have_read(
    notes: dict[str, Path], tmp_path: Path
) -> None:
    shared, secret = tmp_path / "shared", tmp_path / "secret.csv"
    shared.mkdir()
    secret.write_text("id,text\n1,Not for everybody.\n")
    with duckdb.connect(str(shared / "x.duckdb")) as connection:
        connection.execute("CREATE TABLE plain AS SELECT 'p' AS id, 'For everybody.' AS text")
        connection.execute(f"CREATE VIEW sly AS SELECT * FROM '{secret}'")

    async with asking(notes, folders=(shared,)) as (client, _):
        body = {"sources": [f"{shared / 'x.duckdb'}#sly"]}
        answer = await client.post("/indexes/notes/sync", json=body)
        assert answer.status_code == 400, answer.text
        body = {"sources": [f"{shared / 'x.duckdb'}#plain"]}
        answer = await client.post("/indexes/notes/sync", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["added"] == 1


def test_folders_for_sync_have_to_exist(notes: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        Service.open(notes, folders=[tmp_path / "nowhere"])


async def test_without_its_encoder_an_index_is_searched_by_vectors(notes: dict[str, Path]) -> None:
    """Only Python can pass a function, or an encoder of the user's own."""
    cat = WordEncoder().encode(["a cat on a mat"])[0].tolist()
    async with asking(notes, encoder=None) as (client, service):
        while not service.is_ready:
            await asyncio.sleep(0.01)
        found = await client.post("/indexes/notes/search", json={"vector": cat})
        assert found.json()["queries"][0]["hits"][0]["id"] == "1"
        body = {"vector": cat, "where": "year > 2000"}
        found = await client.post("/indexes/notes/search", json=body)
        assert {hit["id"] for hit in found.json()["queries"][0]["hits"]} == {"2", "a/b c?"}
        assert (await client.get("/indexes/notes/documents/2")).json()["metadata"]["year"] == 2001
        assert (await client.get("/indexes/notes")).json()["documents"] == 3

        line = "built with {'type': 'words', 'dim': 48}: pass that encoder to open(), or vectors"
        for method, path, sent in (
            ("POST", "/indexes/notes/search", {"query": "a cat"}),
            ("POST", "/indexes/notes/search", {"query": "a cat", "where": "year > 2000"}),
            ("PUT", "/indexes/notes/documents/7", {"text": "a dog"}),
            ("POST", "/v1/embeddings", {"model": "notes", "input": "a cat"}),
        ):
            answer = await client.request(method, path, json=sent)
            assert answer.status_code == 400
            assert line in answer.text
        assert (await client.delete("/indexes/notes/documents/1")).status_code == 200
        assert (await client.get("/indexes/notes")).json()["documents"] == 2


async def test_who_may(notes: dict[str, Path]) -> None:
    read, write = "r" * 20, "w" * 20
    tokens = Tokens({read.encode(): Right.READ, write.encode(): Right.WRITE})

    async with asking(notes, tokens=tokens) as (client, service):
        while not service.is_ready:
            await asyncio.sleep(0.01)
        for token in (None, "x" * 20, read[:-1]):
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            answers = [
                await client.get(place, headers=headers)
                for place in ("/indexes", "/indexes/notes", "/indexes/none", "/nowhere", "/metrics")
            ]
            assert {(a.status_code, a.text) for a in answers} == {(401, answers[0].text)}
            for place in ("/", "/health", "/ready", "/docs", "/page/page.js"):
                assert (await client.get(place, headers=headers)).status_code == 200
        reader = {"Authorization": f"Bearer {read}"}
        body = {"query": "a cat"}
        found = await client.post("/indexes/notes/search", json=body, headers=reader)
        assert found.status_code == 200
        for method, place in (
            ("PUT", "/indexes/notes/documents/9"),
            ("DELETE", "/indexes/notes/documents/1"),
            ("POST", "/indexes/notes/documents"),
            ("POST", "/indexes/notes/delete"),
            ("POST", "/indexes/notes/compact"),
            ("POST", "/indexes/notes/reduce"),
            ("POST", "/indexes/notes/sync"),
        ):
            refused = await client.request(method, place, json={"text": "x"}, headers=reader)
            assert (refused.status_code, place) == (403, place), refused.text
        writer = {"Authorization": f"Bearer {write}"}
        put = await client.put("/indexes/notes/documents/9", json={"text": "x"}, headers=writer)
        assert put.status_code == 200


async def test_names_and_pages_that_are_not_known(notes: dict[str, Path]) -> None:
    hosts = Hosts(["search.example.org"], ["https://page.example.org"])
    async with asking(notes, hosts=hosts) as (client, _):
        for host, status in (
            ("127.0.0.1:8000", 200),
            ("[::1]", 200),
            ("search.example.org", 200),
            ("evil.example.org", 403),
            ("localhost.evil.org", 403),
            ("", 403),
        ):
            answer = await client.get("/indexes", headers={"Host": host})
            assert (answer.status_code, host) == (status, host)
        for origin, status in (
            ("http://localhost", 200),
            ("https://page.example.org", 200),
            ("http://evil.org", 403),
            ("null", 403),
            ("http://[", 403),
        ):
            answer = await client.get("/indexes", headers={"Origin": origin})
            assert (answer.status_code, origin) == (status, origin)
            allowed = answer.headers.get("access-control-allow-origin")
            assert allowed == (origin if "page." in origin else None)
        page = {"Origin": "https://page.example.org", "Access-Control-Request-Method": "POST"}
        first = await client.options("/indexes/notes/search", headers=page)
        assert (first.status_code, first.headers["access-control-allow-origin"]) == (
            200,
            "https://page.example.org",
        )


async def test_a_fault_of_ours_is_told_to_the_log_alone(
    notes: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"at {notes['notes']}")

    monkeypatch.setattr(Collection, "info", broken)

    async with asking(notes) as (client, _):
        answer = await client.get("/indexes/notes")
    assert (answer.status_code, answer.json()) == (
        500,
        {"error": "internal error; see the server's log"},
    )
    assert "RuntimeError: at " in caplog.text


async def test_a_long_condition_holds_up_nobody(
    notes: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other searches are answered meanwhile, and it is given up when its time is over."""
    let_go = threading.Event()
    answer = Collection.answer

    def slow(self: Collection, request: SearchRequest) -> Any:
        if request.where is not None:
            assert let_go.wait(60)
        return answer(self, request)

    monkeypatch.setattr(Collection, "answer", slow)

    async with asking(notes, limits=Limits(seconds=1)) as (client, _):
        body = {"query": "a cat", "where": "year > 1"}
        long = [
            asyncio.create_task(client.post("/indexes/notes/search", json=body)) for _ in "12345"
        ]
        await asyncio.sleep(0.05)
        for _ in range(3):
            found = await client.post("/indexes/notes/search", json={"query": "a cat"})
            assert found.status_code == 200
        assert not any(task.done() for task in long)
        for response in await asyncio.gather(*long):
            assert (response.status_code, response.json()["error"]) == (
                504,
                "no answer after 1 s; expected one by then",
            )
        let_go.set()


async def test_who_goes_in_the_middle_of_a_body_is_no_fault_of_ours(
    notes: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    async with asking(notes) as (client, service):
        messages = [
            {"type": "http.request", "body": b'{"id": "x", "te', "more_body": True},
            {"type": "http.disconnect"},
        ]

        async def receive() -> Any:
            return messages.pop(0)

        async def send(message: Any) -> None:
            pass

        headers = [(b"host", b"localhost"), (b"content-type", NDJSON["Content-Type"].encode())]
        scope: dict[str, Any] = {"type": "http", "method": "POST"}
        scope |= {"path": "/indexes/notes/documents", "query_string": b"", "root_path": ""}
        scope["headers"] = headers
        transport: Any = client._transport
        await transport.app(scope, receive, send)
        answer = service.indexes["notes"].senders
    assert answer == 0
    assert not caplog.text


def test_it_is_ready_however_long_models_take(notes: dict[str, Path]) -> None:
    """What loads for longer than a search may take; and an index beside one that can't load."""

    class Slow(WordEncoder):
        def encode(self, texts: Any) -> Any:
            time.sleep(0.3)
            return super().encode(texts)

    async def ready(service: Service) -> bool:
        async with service.life():
            for _ in range(200):
                await asyncio.sleep(0.01)
                if service.is_ready:
                    break
        return service.is_ready

    def opened(path: Path) -> Collection:
        return Collection.open(path, Slow())

    service = Service.open(notes, Limits(seconds=0.1), open_one=opened)
    assert asyncio.run(ready(service))


async def test_what_cant_be_loaded_is_told_to_the_log(
    notes: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no such model")

    monkeypatch.setattr(WordEncoder, "encode", broken)

    async with asking(notes) as (client, _):
        await asyncio.sleep(0.2)
        assert (await client.get("/ready")).status_code == 503
    assert "index notes can't be loaded: no such model" in caplog.text
    Collection.open(notes["notes"], WordEncoder()).close()  # it was let go of, all the same


async def test_bodies_of_all_requests_have_a_limit(notes: dict[str, Path]) -> None:
    """However many come at once: what waits is held in memory."""
    may = threading.Event()

    async with asking(notes, limits=Limits(bodies=3500)) as (client, service):
        waiting = asyncio.create_task(
            service.indexes["notes"].change(lambda collection: _held(collection, may))
        )
        await asyncio.sleep(0.1)
        puts = [
            asyncio.create_task(
                client.put(f"/indexes/notes/documents/{i}", json={"text": "x" * 1000})
            )
            for i in range(5)
        ]
        await asyncio.sleep(0.5)
        may.set()
        await waiting
        answers = await asyncio.gather(*puts)
        assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 503, 503]
        again = await client.put("/indexes/notes/documents/9", json={"text": "x" * 1000})
        assert again.status_code == 200  # there is room again


def _held(collection: Collection, may: threading.Event) -> None:
    with collection.change():
        assert may.wait(20)


async def test_large_answers_hold_up_nobody(
    notes: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[threading.Thread]()

    def seen(hit: Any) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return hit_json(hit)

    monkeypatch.setattr("slimdex.retrieval.server.routes.search.hit_json", seen)

    async with asking(notes) as (client, _):
        for count, is_large in ((1, False), (100, True)):
            threads.clear()
            answer = await client.post("/indexes/notes/search", json={"queries": ["a cat"] * count})
            assert len(answer.json()["queries"]) == count
            assert (threading.main_thread() not in threads) == is_large
