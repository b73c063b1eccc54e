"""`slimdex serve`: what its options allow and refuse, and how it ends."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from slimdex.retrieval.collection import Collection
from tests.retrieval.cli.running import Runner

from .running import built, serving

TEXTS = ["the cat sat on the mat", "stocks fell sharply on monday", "a dog slept on a rug"]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return built(tmp_path, [{"id": str(i), "text": t, "n": i} for i, t in enumerate(TEXTS)])


@pytest.mark.slow
def test_it_allows_what_its_options_name_and_ends_when_running_requests_are_done(
    notes: Path, tmp_path: Path
) -> None:
    rows = [{"id": i, "text": f"rain {i}"} for i in range(4000)]
    answers = []
    with serving([notes], "--cors", "https://pages.example.org") as running:
        ask = running.client.get
        assert ask("/health", headers={"Host": "pages.example.org"}).status_code == 400
        for site, code in (("pages", 200), ("other", 403)):
            origin = f"https://{site}.example.org"
            answer = ask("/indexes", headers={"Origin": origin})
            allowed = answer.headers.get("Access-Control-Allow-Origin")
            assert (answer.status_code, allowed) == (code, origin if code == 200 else None)

        def send() -> None:
            answers.append(running.client.post("/indexes/notes/documents", json=rows))

        thread = threading.Thread(target=send)
        thread.start()
        while ask("/indexes").json()["indexes"][0]["documents"] < 500:
            time.sleep(0.01)
        assert running.stop() == 0
        thread.join()
    assert answers[0].json()["documents"] == 4000
    with Collection.open(notes) as collection:
        assert len(collection) == 4000  # the ids 0, 1 and 2 were replaced


def test_all_indexes_of_a_folder_are_served(tmp_path: Path) -> None:
    for name in ("house", "other"):
        built(tmp_path, [{"id": name, "text": "the cat sat"}], name)
    (tmp_path / "empty.index").mkdir()
    with serving([], "--root", tmp_path) as running:
        for name in ("house", "other"):
            answer = running.client.post(f"/indexes/{name}/search", json={"query": "cat"})
            assert [hit["id"] for hit in answer.json()["queries"][0]["hits"]] == [name]


def test_options_that_can_not_be_served_are_refused(
    notes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens, nothing = tmp_path / "tokens", tmp_path / "none.index"
    tokens.write_text("read 0123456789abcdef\n")
    tokens.chmod(0o600)
    to_others = ("--host", "0.0.0.0", "--token-file", tokens)
    for words, expected in (
        ((notes, notes), "each name once"),
        ((notes, "--tls-certificate", tokens), "expected a certificate with its key"),
        ((notes, *to_others), "--tls-certificate, or --insecure"),
        ((nothing, *to_others, "--insecure"), "none.index"),
        (("--root", "nosuch"), "no index given"),
    ):
        assert expected in Runner(capsys).refuses("serve", *map(str, words))
