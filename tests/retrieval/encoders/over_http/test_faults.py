"""Faults between an encoder and its server: what passes is retried, the rest is one line."""

from __future__ import annotations

import os
import signal
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.over_http import connection
from slimdex.retrieval.encoders.over_http.http_encoder import HttpEncoder

from .conftest import TEXTS
from .proxy import Fault, Proxy, Vectors, changed, page, reset, slow, status, too_long, truncated

PASSING: dict[str, Fault] = {
    "429": status(429),
    "500": status(500),
    "slow": slow(0.2),
    "truncated": truncated,
    "reset": reset,
}


@pytest.fixture
def encoder(proxy: Proxy) -> HttpEncoder:
    made = HttpEncoder(proxy.url)
    proxy.asked.clear()
    return made


@pytest.mark.parametrize("name", PASSING)
def test_a_passing_fault_is_retried(
    proxy: Proxy, encoder: HttpEncoder, expected: Matrix, name: str
) -> None:
    proxy.faults = [PASSING[name]] * 2
    assert np.allclose(encoder.encode(TEXTS), expected, atol=1e-6)
    assert len(proxy.asked) == 3


def test_tries_end(proxy: Proxy, encoder: HttpEncoder) -> None:
    proxy.always = status(503)
    with pytest.raises(InputError, match=r"/v1/embeddings: 503 try later$"):
        encoder.encode(TEXTS)
    assert len(proxy.asked) == 6


WRONG: dict[str, Fault] = {
    "redirect": status(307, Location="http://127.0.0.1:1/"),
    "400": status(400),
    "page": page,
    "dimension": changed(lambda answer: {"data": [{"embedding": [1.0]} for _ in answer["data"]]}),
    "nan": changed(lambda answer: {"data": [{"embedding": [float("nan")] * 24}] * 4}),
    "too few": changed(lambda answer: {"data": answer["data"][:3]}),
    "other": changed(lambda answer: {"object": "list"}),
    "text": changed(lambda answer: {"data": [{"embedding": "!"}] * 4}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_one_line_and_not_retried(
    proxy: Proxy, encoder: HttpEncoder, name: str
) -> None:
    proxy.always = WRONG[name]
    with pytest.raises(InputError) as error:
        encoder.encode(TEXTS[:1] if name in ("400", "redirect") else TEXTS)
    assert str(error.value).startswith(proxy.url)
    assert "\n" not in str(error.value)
    assert len(proxy.asked) == 1


TOO_LONG = {
    "vLLM": (400, "This model's maximum context length is 512 tokens."),
    "OpenAI": (400, "Invalid 'input[0]': maximum input length is 8192 tokens."),
    "TEI": (413, "`inputs` must have less than 512 tokens. Given: 912"),
    "llama.cpp": (500, "input (912 tokens) is too large to process. increase the batch size"),
}


@pytest.mark.parametrize("server", TOO_LONG)
def test_a_text_that_the_server_refuses_is_read_in_part(
    proxy: Proxy, encoder: HttpEncoder, expected: Matrix, server: str
) -> None:
    table = "stocks fell rain cat " * 50
    assert len(table) == 1050
    read = table[:262]
    alone = encoder.encode([read])
    proxy.asked.clear()
    proxy.always = too_long(*TOO_LONG[server], limit=300)
    vectors, lengths = encoder.encode_measured([*TEXTS, table])
    assert np.allclose(vectors, [*expected, *alone], atol=1e-6)
    assert (lengths[:4, 0] == lengths[:4, 1]).all()
    assert lengths[4].tolist() == encoder.token_counts([table, read])
    bodies = [tuple(body["input"]) for _, _, body in proxy.asked]
    assert len(set(bodies)) == len(bodies), "none is retried"
    proxy.asked.clear()
    encoder.encode(TEXTS * 8)
    assert len(proxy.asked) == 1, "batches stay as large"


def test_a_document_that_was_read_in_part_is_named(proxy: Proxy, tmp_path: Path) -> None:
    with Collection.create(tmp_path / "x.index", HttpEncoder(proxy.url)) as collection:
        proxy.always = too_long(*TOO_LONG["vLLM"], limit=300)
        table = {"id": "meter", "text": "cat " * 250}
        added = collection.add([*({"id": text, "text": text} for text in TEXTS), table])
        assert len(collection) == 5
        [named] = [note for note in added.notes if "meter" in note]
        assert not any(text in named for text in TEXTS)
        assert collection.search("stocks fell")[0].id == "stocks fell"


def test_a_server_says_when_to_try_again(proxy: Proxy, encoder: HttpEncoder) -> None:
    proxy.faults = [status(429, Retry_After="1")]
    began = time.monotonic()
    encoder.encode(TEXTS)
    assert time.monotonic() - began >= 1


def test_batches_by_number_and_characters_several_at_once(
    proxy: Proxy, encoder: HttpEncoder, expected: Matrix
) -> None:
    def late(rows: Vectors) -> Vectors:
        time.sleep(0.05)
        return rows

    proxy.change = late
    texts = [TEXTS[i % 4] for i in range(100)]
    assert np.allclose(encoder.encode(texts), expected[np.arange(100) % 4], atol=1e-6)
    assert sorted(len(body["input"]) for _, _, body in proxy.asked) == [4, 32, 32, 32]
    assert 2 <= proxy.most_running <= 4
    proxy.asked.clear()
    encoder.encode(["cat " * 3000, "dog " * 3000, "rain"])
    assert sorted(len(body["input"]) for _, _, body in proxy.asked) == [1, 2]


def test_a_server_that_takes_fewer_texts_gets_smaller_batches(
    proxy: Proxy, encoder: HttpEncoder, expected: Matrix
) -> None:
    proxy.limit = 10
    texts = [TEXTS[i % 4] for i in range(50)]
    assert np.allclose(encoder.encode(texts), expected[np.arange(50) % 4], atol=1e-6)


def test_the_environments_proxy_is_used(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets whole URLs, of a host that nobody could find."""
    monkeypatch.setenv("http_proxy", proxy.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert HttpEncoder("http://nowhere.invalid").spec()["model"] == "notes"
    assert proxy.asked[0][0] == "http://nowhere.invalid/v1/models"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_opens_connections_of_its_own(proxy: Proxy) -> None:
    """On the parent's, answers would be mixed up."""
    server = connection.JsonServer(proxy.url)
    server.ask("/v1/models")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, about threads
        child = os.fork()
    if not child:  # pragma: no cover - another process
        signal.alarm(30)
        server.ask("/v1/models")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    server.ask("/v1/models")
    mine, other, again = proxy.ports
    assert mine == again != other
