"""Indexes whose encoder runs in a server: recorded, verified, resumed; keys stay outside."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from slimdex.command_line import app
from slimdex.errors import InputError
from slimdex.langchain import SlimdexVectorStore
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.over_http.connection import key_for, parse_address
from slimdex.retrieval.encoders.over_http.http_encoder import HttpEncoder
from slimdex.retrieval.ingest import adding, encode
from slimdex.retrieval.remote_collection import RemoteCollection
from tests.retrieval.server.running import serving

from .conftest import TEXTS
from .proxy import Proxy, Vectors, changed, proxied, status

KEY = "sk-a-secret-of-mine"
MALFORMED = ["http://", "http://a b/v1", "ftp://h/v1", "http://h:x/v1", "http://[::1", "http://h\n"]


@pytest.fixture
def index(proxy: Proxy, tmp_path: Path) -> Path:
    """An index of `TEXTS` by the proxy's model."""
    path = tmp_path / "notes.index"
    with Collection.create(path, HttpEncoder(proxy.url, document_prompt="was ")) as made:
        made.add({"id": text, "text": text} for text in TEXTS)
    proxy.asked.clear()
    return path


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def slimdex(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


def rounded(rows: Vectors) -> Vectors:
    return [[round(x, 2) for x in row] for row in rows]


def turned(rows: Vectors) -> Vectors:
    return [row[1:] + row[:1] for row in rows]


def test_a_changed_model_is_noticed_before_an_answer(proxy: Proxy, index: Path) -> None:
    proxy.change = rounded  # as servers differ by their arithmetic
    with Collection.open(index) as opened:
        assert opened.search("stocks fell")[0].text == TEXTS[1]
    proxy.change = turned
    with (
        Collection.open(index) as opened,
        pytest.raises(InputError, match=r"'notes' of http://\S+ has changed: .* --model URL"),
    ):
        opened.search("stocks fell")
    with Collection.open(index) as opened, pytest.raises(InputError, match="has changed"):
        opened.add([{"id": "5", "text": "one more"}])
    with pytest.raises(InputError, match="this index was built with"):
        Collection.open(index, HttpEncoder(proxy.url, document_prompt="was "))


def test_opening_alone_asks_nobody(proxy: Proxy, index: Path) -> None:
    with Collection.open(index) as opened:
        assert len(opened) == 4
        assert opened.search(np.ones(24, dtype=np.float32))
    assert proxy.asked == []


def test_an_index_follows_a_moved_server(
    proxy: Proxy, index: Path, own_service: str, tmp_path: Path
) -> None:
    with proxied(Proxy(own_service, "notes")) as other:
        moved = f"{other.url}#elsewhere"
        with Collection.open(index, model=moved) as opened:
            assert opened.search("stocks fell")[0].text == TEXTS[1]
        assert proxy.asked == []
        assert slimdex("repair", index, "--model", moved).exit_code == 0
        spec = json.loads(slimdex("info", index, "--json").stdout)["encoder"]
        assert (spec["url"], spec["model"]) == (f"{other.url}/v1", "elsewhere")
        assert spec["prompts"] == ["", "was "]
        found = slimdex("search", index, "stocks fell", "--json")
        assert json.loads(found.stdout)["queries"][0]["hits"][0]["text"] == TEXTS[1]


@pytest.mark.slow
def test_prompts_reach_the_server(proxy: Proxy, tmp_path: Path, lines: Path) -> None:
    url, path = f"{proxy.url}/v1#notes", tmp_path / "i"
    prompts = ("--query-prompt", "rain ", "--document-prompt", "snow ")
    assert slimdex("build", lines, "--model", url, "--out", path, *prompts).exit_code == 0
    assert set(proxy.texts()) > {f"snow {text}" for text in TEXTS}
    proxy.asked.clear()
    assert slimdex("search", path, "what a cat does").exit_code == 0  # also shows excerpts
    with serving([path]) as running:
        remote = RemoteCollection.open(f"{running.url}/indexes/{path.stem}")
        assert remote.search("what a cat eats")
        assert {text for text in proxy.texts() if "what" in text} == {
            "rain what a cat does",
            "rain what a cat eats",
        }
        remote.add([{"id": "new", "text": "what a dog does"}])
    assert proxy.texts()[-1] == "snow what a dog does"
    assert SlimdexVectorStore(path).max_marginal_relevance_search("what a bird eats")
    assert proxy.texts()[-1] == "rain what a bird eats"


def test_long_texts_are_cut(proxy: Proxy, tmp_path: Path) -> None:
    text = "".join(f"The cat sat on mat {n}. " for n in range(100))
    with Collection.create(tmp_path / "i", HttpEncoder(proxy.url, max_length=100)) as made:
        made.add([{"id": "1", "text": text}])
    sent = [each for each in proxy.texts() if ". The cat" in each]
    assert max(map(len, sent)) <= 3 * 100
    assert sum(map(len, sent)) >= len(text) - len(sent)


@pytest.mark.slow
def test_an_interrupted_build_resumes(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adding, "MOST_ENCODED_FIRST", -1)
    monkeypatch.setattr(encode, "LEAST_ROWS", 256)
    monkeypatch.setattr(encode, "FIRST_CHARACTERS", 1)
    monkeypatch.setattr(encode, "GROWTH", 1)
    texts = [f"{a} {b} {n}" for a in ("cat", "dog") for b in ("sat", "fell") for n in range(300)]
    source, path = tmp_path / "many.txt", tmp_path / "i"
    source.write_text("\n".join(texts) + "\n")
    words = ("build", source, "--model", proxy.url, "--out", path)
    proxy.faults = [None] * (1 + 1024 // 32)
    proxy.always = status(500)
    assert "500 try later" in str(slimdex(*words).exception)
    before = set(proxy.texts())
    proxy.always, proxy.faults = None, []
    proxy.asked.clear()
    done = slimdex(*words)
    assert done.exit_code == 0, done.exception
    assert "resumed after 1,200 documents" in done.stderr
    again = [text for text in proxy.texts() if text in texts]
    assert len(again) <= len(texts) - 1024 + 300  # and its own sample, to prove its settings
    assert {*again, *before} >= {*texts}
    found = slimdex("search", path, "dog fell 17", "--json")
    assert json.loads(found.stdout)["queries"][0]["hits"][0]["text"] == "dog fell 17"


def test_options_of_other_kinds_are_refused(proxy: Proxy, tmp_path: Path, lines: Path) -> None:
    for words in (("--pooling", "cls"), ("--precision", "int8")):
        done = slimdex("build", lines, "--model", proxy.url, "--out", tmp_path / "i", *words)
        assert isinstance(done.exception, InputError)
    done = slimdex("build", lines, "--dimensions", 8, "--out", tmp_path / "i")
    assert isinstance(done.exception, InputError)


@pytest.fixture
def environment(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{proxy.url}/v1")


@pytest.mark.usefixtures("environment")
def test_a_key_goes_to_its_server_and_nowhere_else(
    proxy: Proxy, index: Path, own_service: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with Collection.open(index) as opened:
        opened.search("stocks fell")
    assert {headers["Authorization"] for _, headers, _ in proxy.asked} == {f"Bearer {KEY}"}
    with proxied(Proxy(own_service, "notes")) as other:
        with Collection.open(index, model=other.url) as opened:
            opened.search("stocks fell")
        assert not any("Authorization" in headers for _, headers, _ in other.asked)
    assert not any(KEY.encode() in file.read_bytes() for file in index.rglob("*") if file.is_file())
    assert KEY not in caplog.text


@pytest.mark.usefixtures("environment")
def test_no_error_shows_a_key(proxy: Proxy) -> None:
    for answer in (f"wrong key {KEY}", {"message": KEY}):
        proxy.always = changed(lambda _: {"error": answer}, status=401)  # noqa: B023
        with pytest.raises(InputError, match=r": 401 .*\*\*\*$") as error:
            HttpEncoder(f"{proxy.url}/v1")
        assert KEY not in repr(vars(error.value))


@pytest.mark.slow
def test_a_key_is_read_from_a_file(proxy: Proxy, index: Path, lines: Path, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    assert slimdex("search", index, "cat", "--api-key-file", file).exit_code == 0
    new = ("--model", proxy.url, "--out", tmp_path / "j", "--api-key-file", file)
    assert slimdex("build", lines, *new).exit_code == 0
    for command in ("add", "sync"):
        proxy.asked.clear()
        with lines.open("a") as more:
            more.write(f"a text for {command}\n")
        assert slimdex(command, index, lines, "--api-key-file", file).exit_code == 0
        assert {headers["Authorization"] for _, headers, _ in proxy.asked} == {f"Bearer {KEY}"}
    for content in ("", "two words", "two\nlines", "clé"):
        file.write_text(content)
        with pytest.raises(InputError, match=r"key: expected one line with a key, in ASCII$"):
            key_for(proxy.url, file)
    with pytest.raises(InputError, match="expected a file with a key"):
        key_for(proxy.url, tmp_path / "none")


def test_the_environments_key_is_openais(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert key_for("https://api.openai.com/v1") == key_for("https://api.openai.com:443/x") == KEY
    for other in ("http://api.openai.com/v1", "https://api.openai.com.evil.org/v1"):
        assert key_for(other) is None


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        *((url, "expected http://HOST/PATH#NAME$") for url in MALFORMED),
        ("http://me:pass@h/v1", "a URL with a password or a query"),
        ("http://h/v1?key=pass", "a URL with a password or a query"),
    ],
)
def test_malformed_addresses_are_refused_and_their_secrets_not_shown(url: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as error:
        parse_address(url)
    assert not re.search("pass@|=pass", str(error.value))
