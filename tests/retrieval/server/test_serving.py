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

from .running import Running, built, says, serving, slimdex

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
def test_commands_work_beside_the_service_which_sees_what_they_did(
    notes: Path, tmp_path: Path
) -> None:
    alone = slimdex("search", notes, "dog on a rug", "-n", "2", "--json")
    told = slimdex("info", notes, "--json")
    with serving([notes]) as running:
        assert found(running, "dog on a rug")[0] == "2"
        held = slimdex("search", notes, "dog on a rug", "-n", "2", "--json")
        assert json.loads(held.stdout) == json.loads(alone.stdout)
        info = json.loads(slimdex("info", notes, "--json").stdout)
        without_files = {name: fact for name, fact in info.items() if name != "files"}
        assert without_files == {k: v for k, v in json.loads(told.stdout).items() if k != "files"}
        shown = slimdex("search", notes, "dog on a rug", "-n", "1", "--show", "n")
        assert "a dog slept on a rug" in shown.stdout

        more = tmp_path / "more.jsonl"
        more.write_text('{"id": "x", "text": "rain fell"}\n')
        added = slimdex("add", notes, more)
        assert "4 documents in" in added.stdout, added
        piped = slimdex("add", notes, "-", stdin='{"id": "y", "text": "snow fell"}\n')
        assert "5 documents in" in piped.stdout, piped
        assert found(running, "rain fell")[0] == "x"
        assert "snow fell" in slimdex("open", notes, "y").stdout
        folder = tmp_path / "folder"
        folder.mkdir()
        (folder / "a.txt").write_text("a cat slept")
        synced = slimdex("sync", notes, folder, "--json")
        assert json.loads(synced.stdout)["added"] == 1, synced
        assert json.loads(slimdex("delete", notes, "x", "y", "--json").stdout)["documents"] == 4
        assert "2 rows freed" in slimdex("compact", notes).stdout
        reduced = slimdex("reduce", notes, "--gamma", "1", "--json")
        assert json.loads(reduced.stdout)["requested"]["gamma"] == 1, reduced
        assert "documents" in slimdex("health", notes, "--sample", "10").stdout
        assert says(slimdex("delete", notes, "x")) == (
            "error: unknown id 'x'; expected the id of a document"
        )
        assert "no such file" in says(slimdex("add", notes, tmp_path / "none.jsonl"))
        assert "yer" in says(slimdex("search", notes, "cat", "--where", "yer > 3"))
        assert running.stop() == 0
    assert slimdex("verify", notes).returncode == 0
    assert json.loads(slimdex("info", notes, "--json").stdout)["documents"] == 4


@pytest.mark.slow
def test_names_origins_and_folders_that_it_was_started_with(notes: Path, tmp_path: Path) -> None:
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


def test_what_was_acknowledged_outlives_a_kill(notes: Path) -> None:
    """kill -9 in the middle of a stream: each commit that was told is there, and no half of one."""
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
def test_it_ends_when_what_was_begun_is_done(notes: Path) -> None:
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
def test_starts_that_are_refused(notes: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("read 0123456789abcdef\n")
    assert "a second index 'notes'" in says(slimdex("serve", notes, notes))
    assert "no certificate with its key" in says(
        slimdex("serve", notes, "--tls-certificate", tokens)
    )
    tokens.chmod(0o600)
    to_others = ("serve", tmp_path / "none.index", "--host", "0.0.0.0", "--token-file", tokens)
    assert "unencrypted; expected --tls-certificate" in says(slimdex(*to_others))
    assert "none.index" in says(slimdex(*to_others, "--insecure"))
    assert "--port 70000; expected 0 to 65535" in says(slimdex("serve", notes, "--port", 70000))
    assert "--root nosuch: no such folder" in says(slimdex("serve", "--root", "nosuch"))
    unranked = says(slimdex("serve", notes, "--rerank", "nowhere"))
    assert "cross-encoder nowhere: none found" in unranked
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = says(slimdex("serve", notes, "--port", port))
        assert f"127.0.0.1, port {port}: Address already in use" in said


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
        assert json.loads(slimdex("search", notes, "cat", "--json").stdout)["queries"]
