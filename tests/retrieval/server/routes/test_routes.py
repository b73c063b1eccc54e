"""Each route: its answers, its refusals, and who may call it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import hit_json, json_of
from slimdex.retrieval.server.access import Right, Tokens
from slimdex.retrieval.server.routes import search
from slimdex.retrieval.server.service import Service
from tests.conftest import Copies
from tests.encoders import WordEncoder

from ..asking import DOCUMENTS, asking, made

JSON = {"Content-Type": "application/json"}
AT = "/indexes/notes/documents"
SEARCH = "/indexes/notes/search"


@pytest.fixture
def notes(tmp_path: Path) -> dict[str, Path]:
    return {"notes": made(tmp_path / "secret-place" / "notes.index")}


async def loaded(service: Service) -> None:
    while not service.is_ready:
        await asyncio.sleep(0.01)


def ids(answer: httpx.Response) -> list[str]:
    """Ids of the first query's hits."""
    assert answer.status_code == 200, answer.text
    return [hit["id"] for hit in answer.json()["queries"][0]["hits"]]


def assert_same(hits: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """The same hits; sums of a batch round otherwise than those of one query."""
    unscored = {"score": 0, "similarity": 0}
    assert [hit | unscored for hit in hits] == [hit | unscored for hit in expected]
    for name in unscored:
        scores = [hit[name] for hit in expected]
        assert [hit[name] for hit in hits] == pytest.approx(scores, abs=2e-6)


async def test_concurrent_searches_answer_as_the_collection_does(
    tmp_path: Path, copied: Copies
) -> None:
    """Of 1,200 documents, by text and by vector, alone and at once, with conditions and without."""
    path = copied(tmp_path / "i")
    texts = ["sort a list", "open a file", "parse a date", "send mail", "compress data"]
    vectors = WordEncoder().encode(texts)
    with Collection.open(path, WordEncoder()) as collection:
        expected = {
            where: [
                [json.loads(json_of(hit_json(hit))) for hit in hits]
                for hits in collection.search_many(texts, 5, where, hybrid="off")
            ]
            for where in (None, "id < 'json'")
        }

    async with asking({"i": path}) as (client, _):
        bodies: list[dict[str, Any]] = []
        for where in expected:
            bodies += [{"query": text, "where": where, "hybrid": "off"} for text in texts]
            bodies += [{"vector": row.tolist(), "where": where} for row in vectors]
        answers = await asyncio.gather(
            *(client.post("/indexes/i/search", json=body | {"limit": 5}) for body in bodies)
        )
        for number, (body, answer) in enumerate(zip(bodies, answers, strict=True)):
            assert answer.status_code == 200, answer.text
            first = answer.json()["queries"][0]
            assert_same(first["hits"], expected[body["where"]][number % 5])
            assert first["query"] == body.get("query", "vector 1")
        several = {"queries": texts, "limit": 5, "hybrid": "off"}
        answer = (await client.post("/indexes/i/search", json=several)).json()
        for each, hits in zip(answer["queries"], expected[None], strict=True):
            assert_same(each["hits"], hits)
        assert [each["query"] for each in answer["queries"]] == texts
        assert answer["milliseconds"]["scan"] >= 0
        metrics = (await client.get("/metrics")).text
        assert 'slimdex_batch_queries_count{index="i",step="encode"}' in metrics
        assert 'slimdex_documents{index="i"} 1200.0' in metrics


async def test_documents_are_put_read_and_deleted(notes: dict[str, Path]) -> None:
    async with asking(notes) as (client, _):
        put = await client.put(f"{AT}/new", json={"text": "rain fell", "title": "T", "year": 7})
        assert put.json() == {"id": "new", "documents": 4}
        new = (await client.get(f"{AT}/new")).json()
        assert (new["text"], new["title"]) == ("rain fell", "T")
        assert new["metadata"] == {"year": 7}  # not "kind", which others have
        again = await client.put(f"{AT}/new", json={"text": "snow fell"})
        assert again.json() == {"id": "new", "documents": 4}
        assert (await client.get(f"{AT}/a%2Fb%20c%3F")).json()["text"] == DOCUMENTS[2]["text"]
        assert (await client.delete(f"{AT}/1")).json() == {"deleted": 1, "documents": 3}
        assert (await client.get(f"{AT}/1")).status_code == 404
        some = await client.post("/indexes/notes/delete", json={"where": "year > 2000"})
        assert some.json() == {"deleted": 2, "documents": 1}
        assert (await client.post("/indexes/notes/compact")).json() == {"freed": 4, "documents": 1}
        not_a_number = '{"text": "x", "year": NaN}'
        assert (await client.put(f"{AT}/7", content=not_a_number, headers=JSON)).status_code == 200
        assert (await client.get(f"{AT}/7")).json()["metadata"] == {}
        put = await client.put(f"{AT}/%E2%82%AC%EF%BF%BD", json={"text": "x"})
        assert put.json() == {"id": "€\ufffd", "documents": 3}
    with Collection.open(notes["notes"]) as collection:
        assert collection.get("new").text == "snow fell"


async def test_metrics_count_changes_errors_and_bytes(notes: dict[str, Path]) -> None:
    async with asking(notes) as (client, _):
        await client.put(f"{AT}/new", json={"text": "rain fell"})
        await client.delete(f"{AT}/new")
        for _ in range(3):
            assert (await client.get(f"{AT}/new")).status_code == 404
        metrics = (await client.get("/metrics")).text
    values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line[0] != "#")
    assert values['slimdex_changes_total{index="notes"}'] == "2.0"
    of_documents = 'route="/indexes/{name}/documents/{id:path}"'
    assert values[f'slimdex_requests_total{{method="GET",{of_documents},status="404"}}'] == "3.0"
    files = [file for file in notes["notes"].rglob("*") if file.is_file()]
    stored = sum(file.stat().st_size for file in files)
    assert float(values['slimdex_index_bytes{index="notes"}']) == stored


async def test_an_index_is_described(notes: dict[str, Path], tmp_path: Path) -> None:
    async with asking(notes | {"empty": made(tmp_path / "empty", None)}) as (client, service):
        listed = (await client.get("/indexes")).json()["indexes"]
        assert listed == [{"name": "notes", "documents": 3}, {"name": "empty", "documents": 0}]
        info = (await client.get("/indexes/notes")).json()
        assert (info["path"], info["documents"], info["dimensions"]) == ("notes", 3, 48)
        columns = (await client.get("/indexes/notes/columns")).json()["columns"]
        assert columns[1] == {
            "name": "kind",
            "type": "VARCHAR",
            "values": [{"value": "pets", "documents": 2}, {"value": "money", "documents": 1}],
        }
        assert (await client.get("/health")).json() == {"status": "alive"}
        await loaded(service)
        assert (await client.get("/ready")).json() == {"status": "ready"}
        found = await client.post("/indexes/empty/search", json={"query": "x"})
        assert (found.status_code, found.json()["queries"][0]["hits"]) == (200, [])


async def test_folders_of_models_are_not_told(
    notes: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"type": "static", "model": "/secret-place/words.txt"}
    facts = {"encoder": spec, "next_encoder": {"encoder": spec, "encoded": 1, "of": 3}}
    monkeypatch.setattr(search, "facts_of", lambda _: dict(facts))
    async with asking(notes) as (client, _):
        info = (await client.get("/indexes/notes")).json()
    assert info["next_encoder"]["encoder"] == info["encoder"] == spec | {"model": "words.txt"}


async def test_documents_are_listed_in_pages(notes: dict[str, Path]) -> None:
    pages: list[tuple[dict[str, Any], list[str], int, bool]] = [
        ({"limit": 2}, ["1", "2"], 3, True),
        ({"limit": 2, "after": "2"}, ["a/b c?"], 3, False),
        ({"limit": 1, "where": "kind = 'pets'"}, ["1"], 2, True),
        ({"limit": 0}, [], 3, True),
        ({"after": "1z"}, ["2", "a/b c?"], 3, False),
    ]
    async with asking(notes) as (client, _):
        for params, expected, count, more in pages:
            page = (await client.get(AT, params=params)).json()
            assert [document["id"] for document in page["documents"]] == expected
            assert (page["count"], page["more"]) == (count, more), params
        assert (await client.get(AT, params={"where": "nope = 1"})).status_code == 400


HALF = r"\ud800"
SEARCHES_REFUSED: list[tuple[dict[str, Any], int]] = [
    ({}, 400),
    ({"query": "a", "vector": [1.0]}, 400),
    ({"query": " "}, 400),
    ({"query": "a", "limit": 0}, 422),
    ({"query": "a", "limit": 2000}, 422),
    ({"query": "a", "k": 3}, 422),
    ({"query": "a" * 200_000}, 413),
    ({"query": "a", "where": "1; DROP TABLE x"}, 400),
    ({"query": "a", "where": 5}, 422),
    ({"query": "a", "regex": "("}, 400),
    ({"vector": [1e39] + [0.0] * 47}, 400),
    ({"vector": [0.1] * 48, "hybrid": 0.5}, 400),
    ({"query": "a", "group_by": "word"}, 422),
    ({"query": "a", "rerank": True}, 400),  # without a model
]
REFUSED: list[tuple[str, str, int]] = [
    *[("POST search", json.dumps(body), status) for body, status in SEARCHES_REFUSED],
    ("POST search", "{", 422),
    ("POST search", f'{{"query": "{HALF}"}}', 400),
    ("POST search", "[" * 100_000, 400),
    ("PUT documents/7", "{}", 422),
    ("PUT documents/7", '{"id": "8", "text": "x"}', 400),
    ("PUT documents/7", '{"text": "x", "year": [1, -1e999]}', 400),
    ("PUT documents/%20", '{"text": "x"}', 400),
    ("POST documents", '{"id": "7", "text": "x"}', 422),
    ("POST documents", '[{"id": "7", "text": "x"}, {"id": "8"}]', 422),
    ("POST documents", '[{"id": "7", "text": "x"}, {"id": 7, "text": "y"}]', 400),
    ("POST delete", '{"ids": ["1"], "where": "true"}', 400),
    ("POST reduce", '{"k": 99}', 400),
    ("GET related/none", "", 404),
    ("GET related/2?limit=2000", "", 422),
    ("PUT documents/7", f'{{"text": "x", "{HALF}": 1}}', 422),
    ("POST documents", f'[{{"id": "7", "text": "x", "tags": ["{HALF}"]}}]', 400),
    ("POST documents", f'[{{"id": "7", "text": "x", "n": {"9" * 5000}}}]', 400),
    ("GET documents?%ed%a0%bd=1", "", 422),
    ("GET documents?limt=1", "", 422),
    ("GET /nowhere", "", 404),
    ("GET search", "", 405),
    ("GET /mcp", "", 405),  # a stream of agents that never ends would hold up the service's end
]


async def test_wrong_requests_are_refused_in_one_line_without_paths(notes: dict[str, Path]) -> None:
    async with asking(notes) as (client, _):
        for request, body, status in REFUSED:
            method, place = request.split()
            url = place if place.startswith("/") else f"/indexes/notes/{place}"
            answer = await client.request(method, url, content=body, headers=JSON)
            assert answer.status_code == status, (request, body[:100], answer.text)
            assert "\n" not in str(answer.json()["error"])
            assert "secret-place" not in answer.text
        assert (await client.post(SEARCH, content=b"{}")).status_code == 415
        assert (await client.get(f"{AT}/7")).status_code == 404
    Collection.open(notes["notes"], WordEncoder()).close()


WRONG_NAMES: list[tuple[str, str, Any, str]] = [
    ("POST", SEARCH, {"query": "a", "k": 3}, "k=3"),
    ("POST", "/indexes/notes/delete", {"id": ["1"]}, "id="),
    ("GET", f"{AT}?limt=3", None, "parameter 'limt'"),
    ("GET", f"{AT}?where=yeer=3", None, "column 'yeer' not found"),
    ("GET", "/indexes/note", None, "index 'note'"),
]
"""Requests with a wrong name, and what the error states."""


async def test_a_wrong_name_is_stated(notes: dict[str, Path]) -> None:
    async with asking(notes) as (client, _):
        for method, url, body, wrong in WRONG_NAMES:
            answer = await client.request(method, url, json=body)
            assert 400 <= answer.status_code < 500
            assert wrong in str(answer.json()["error"])


async def test_an_index_without_its_encoder_is_searched_by_vectors(notes: dict[str, Path]) -> None:
    """Only Python can pass a function, or an encoder of the user's own."""
    cat = WordEncoder().encode(["a cat on a mat"])[0].tolist()
    async with asking(notes, encoder=None) as (client, service):
        await loaded(service)
        assert ids(await client.post(SEARCH, json={"vector": cat}))[0] == "1"
        body = {"vector": cat, "where": "year > 2000"}
        assert {*ids(await client.post(SEARCH, json=body))} == {"2", "a/b c?"}
        for method, path, sent in (
            ("POST", SEARCH, {"query": "a cat"}),
            ("POST", SEARCH, {"query": "a cat", "where": "year > 2000"}),
            ("PUT", f"{AT}/7", {"text": "a dog"}),
            ("POST", "/v1/embeddings", {"model": "notes", "input": "a cat"}),
        ):
            assert (await client.request(method, path, json=sent)).status_code == 400
        assert (await client.delete(f"{AT}/1")).status_code == 200


async def test_a_token_gives_its_rights(notes: dict[str, Path]) -> None:
    read, write = "r" * 20, "w" * 20
    tokens = Tokens({read.encode(): Right.READ, write.encode(): Right.WRITE})

    async with asking(notes, tokens=tokens) as (client, service):
        await loaded(service)
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
        search = await client.post(SEARCH, json={"query": "a cat"}, headers=reader)
        assert search.status_code == 200
        for method, place in (
            ("PUT", "/indexes/notes/documents/9"),
            ("DELETE", "/indexes/notes/documents/1"),
            ("POST", "/indexes/notes/documents"),
            ("PUT", "/indexes/notes/files/a.md"),
            ("POST", "/indexes/notes/delete"),
            ("POST", "/indexes/notes/compact"),
            ("POST", "/indexes/notes/reduce"),
        ):
            refused = await client.request(method, place, json={"text": "x"}, headers=reader)
            assert (refused.status_code, place) == (403, place), refused.text
        writer = {"Authorization": f"Bearer {write}"}
        put = await client.put("/indexes/notes/documents/9", json={"text": "x"}, headers=writer)
        assert put.status_code == 200


async def test_unknown_hosts_and_origins_are_refused(notes: dict[str, Path]) -> None:
    async with asking(notes, pages=["https://page.example.org"]) as (client, _):
        for host, status in (
            ("127.0.0.1:8000", 200),
            ("[::1]", 200),
            ("evil.example.org", 400),
            ("localhost.evil.org", 400),
            ("", 400),
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
        assert first.status_code == 200
        assert first.headers["access-control-allow-origin"] == page["Origin"]
        foreign = await client.options("/indexes/notes/search", headers=page | {"Origin": "null"})
        assert "access-control-allow-origin" not in foreign.headers


async def test_an_internal_error_goes_to_the_log_alone(
    notes: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"at {notes['notes']}")

    monkeypatch.setattr(search, "facts_of", broken)

    async with asking(notes) as (client, _):
        answer = await client.get("/indexes/notes")
    assert (answer.status_code, "RuntimeError" in answer.text) == (500, False)
    assert "RuntimeError: at " in caplog.text


async def test_an_index_that_cant_be_loaded_is_logged_and_tried_again(
    notes: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no such model")

    monkeypatch.setattr(WordEncoder, "encode", broken)

    async with asking(notes) as (client, service):
        await asyncio.sleep(0.2)
        assert (await client.get("/ready")).status_code == 503
        monkeypatch.undo()
        await asyncio.wait_for(loaded(service), 60)
        assert (await client.get("/ready")).status_code == 200
    assert "no such model" in caplog.text
