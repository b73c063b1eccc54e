"""`slimdex serve` in processes of its own: commands beside it, and how it ends."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from slimdex.retrieval.collection import Collection

from .running import Running, built, serving, slimdex

TEXTS = ["the cat sat on the mat", "stocks fell sharply on monday", "a dog slept on a rug"]
NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return built(tmp_path, [{"id": str(i), "text": t, "n": i} for i, t in enumerate(TEXTS)])


def found(running: Running, query: str) -> list[str]:
    answer = running.client.post("/indexes/notes/search", json={"query": query, "limit": 3})
    assert answer.status_code == 200, answer.text
    return [hit["id"] for hit in answer.json()["queries"][0]["hits"]]


@pytest.mark.slow
def test_the_service_answers_with_what_commands_have_committed(notes: Path, tmp_path: Path) -> None:
    more, folder = tmp_path / "more.jsonl", tmp_path / "folder"
    more.write_text('{"id": "x", "text": "rain fell"}\n')
    folder.mkdir()
    (folder / "a.txt").write_text("a cat slept")
    with serving([notes]) as running:

        def documents() -> int:
            count: int = running.client.get("/indexes/notes").json()["documents"]
            return count

        assert found(running, "dog on a rug")[0] == "2"
        for words, count in (
            (("add", notes, more), 4),
            (("sync", notes, folder), 5),
            (("delete", notes, "x"), 4),
            (("compact", notes), 4),
            (("reduce", notes, "--gamma", "1"), 4),
        ):
            done = slimdex(*words)
            assert (done.returncode, documents()) == (0, count), done
        assert found(running, "a cat slept")[0] == "a.txt"
        assert running.client.get("/indexes/notes").json()["requested"]["gamma"] == 1
        assert running.stop() == 0
    assert slimdex("verify", notes).returncode == 0


@pytest.mark.slow
def test_allowed_hosts_origins_and_folders_are_those_of_the_options(
    notes: Path, tmp_path: Path
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "a.txt").write_text("rain fell on monday")
    (tmp_path / "secret.txt").write_text("the a cat")
    hosts = ("--allow-host", "notes.example.org", "--allow-host", "other.example.org")
    own = ("--cors", "https://pages.example.org", "--files", tmp_path / "shared")
    with serving([notes], *hosts, *own) as running:
        ask = running.client.get
        for name, code in (("notes", 200), ("other", 200), ("third", 403)):
            assert ask("/health", headers={"Host": f"{name}.example.org"}).status_code == code
        for site, code in (("pages", 200), ("other", 403)):
            origin = f"https://{site}.example.org"
            answer = ask("/indexes", headers={"Origin": origin})
            allowed = answer.headers.get("Access-Control-Allow-Origin")
            assert (answer.status_code, allowed) == (code, origin if code == 200 else None)
        for source, code in (("shared", 200), ("secret.txt", 403)):
            body = {"sources": [str(tmp_path / source)]}
            assert running.client.post("/indexes/notes/sync", json=body).status_code == code
        assert found(running, "rain fell on monday")[0] == "a.txt"


def test_acknowledged_documents_survive_a_kill(notes: Path) -> None:
    """kill -9 in the middle of a stream: each reported commit is there, and no half of one."""
    sent = (b'{"id": "k%d", "text": "rain on monday %d"}\n' % (i, i) for i in range(200_000))
    with serving([notes]) as running:

        def send() -> None:
            headers = NDJSON | {"Accept": NDJSON["Content-Type"]}
            with (
                suppress(httpx.HTTPError),
                running.client.stream(
                    "POST", "/indexes/notes/documents", content=sent, headers=headers
                ) as answer,
            ):
                answer.read()

        thread = threading.Thread(target=send)
        thread.start()
        end = time.monotonic() + 120
        while running.client.get("/indexes").json()["indexes"][0]["documents"] < 3000:
            assert time.monotonic() < end
        put = running.client.put("/indexes/notes/documents/last", json={"text": "a cat"})
        acknowledged = put.json()["documents"]
        running.process.kill()
        thread.join()
    with serving([notes]) as running:
        there = running.client.get("/indexes").json()["indexes"][0]["documents"]
        assert there >= acknowledged > 3000
        assert (there - len(TEXTS) - 1) % 1024 == 0  # whole commits
        assert running.client.get("/indexes/notes/documents/last").status_code == 200
    assert slimdex("verify", notes).returncode == 0


@pytest.mark.slow
def test_it_ends_when_running_requests_are_done(notes: Path) -> None:
    body = "".join(json.dumps({"id": i, "text": f"rain {i}"}) + "\n" for i in range(20_000))
    answers = []
    with serving([notes]) as running:
        thread = threading.Thread(
            target=lambda: answers.append(
                running.client.post("/indexes/notes/documents", content=body, headers=NDJSON)
            )
        )
        thread.start()
        while running.client.get("/indexes").json()["indexes"][0]["documents"] < 1000:
            time.sleep(0.01)
        assert running.stop() == 0
        thread.join()
    assert answers[0].json()["documents"] == 20_000
    with Collection.open(notes) as collection:
        assert len(collection) == 20_000 + len(TEXTS) - 3  # ids 0, 1 and 2 were replaced


@pytest.mark.slow
def test_options_that_can_not_be_served_are_refused(notes: Path, tmp_path: Path) -> None:
    tokens, nothing = tmp_path / "tokens", tmp_path / "none.index"
    tokens.write_text("read 0123456789abcdef\n")
    tokens.chmod(0o600)
    to_others = (nothing, "--host", "0.0.0.0", "--token-file", tokens)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for words in (
            (notes, notes),
            (notes, "--tls-certificate", tokens),
            to_others,
            (*to_others, "--insecure"),
            (notes, "--port", 70000),
            (notes, "--port", taken.getsockname()[1]),
            ("--root", "nosuch"),
            (notes, "--rerank", "nowhere"),
        ):
            assert slimdex("serve", *words).returncode == 2, words


@pytest.mark.slow
def test_over_tls_with_a_token(notes: Path, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}".split(),
        check=True,
        capture_output=True,
    )
    tokens = tmp_path / "tokens"
    tokens.write_text("read 0123456789abcdef\n")
    tokens.chmod(0o600)
    words = ["--token-file", tokens, "--tls-certificate", certificate, "--tls-key", key]
    with serving([notes], *words, verify=ssl.create_default_context(cafile=certificate)) as running:
        assert running.url.startswith("https://127.0.0.1:")
        assert running.client.get("/indexes").status_code == 401
        running.client.headers["Authorization"] = "Bearer 0123456789abcdef"
        assert found(running, "dog on a rug")[0] == "2"
