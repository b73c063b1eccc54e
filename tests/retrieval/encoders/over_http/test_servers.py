"""Encoders over HTTP against real servers, in each API."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.encoders.over_http import connection
from slimdex.retrieval.encoders.over_http.http_encoder import HttpEncoder
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from tests.retrieval.server.running import DIM

from .conftest import TEXTS
from .proxy import Proxy


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1#notes"])
def test_slimdex_serves_its_own_encoder(own_service: str, expected: Matrix, end: str) -> None:
    encoder = HttpEncoder(own_service + end)
    spec = encoder.spec()
    assert (spec["url"], spec["api"], spec["model"]) == (f"{own_service}/v1", "openai", "notes")
    assert (encoder.dim, encoder.max_length) == (DIM, 512)
    assert np.array_equal(encoder.encode(TEXTS), expected)  # base64 loses nothing
    assert np.array_equal(encoder.encode_queries(TEXTS[0]), expected[:1])
    assert encoder.encode([]).shape == (0, DIM)


def test_dimensions_are_the_servers_to_accept(own_service: str) -> None:
    assert HttpEncoder(own_service, dimensions=4).encode(TEXTS).shape == (4, 4)
    with pytest.raises(InputError, match=r"400 .*dimensions=5; expected 24 or 4"):
        HttpEncoder(own_service, dimensions=5)
    with pytest.raises(InputError, match="dimensions=0; expected 1 or more"):
        HttpEncoder(own_service, dimensions=0)


def test_a_model_that_the_server_lacks_is_refused(own_service: str) -> None:
    with pytest.raises(InputError, match="404"):
        HttpEncoder(own_service, "x")


@pytest.mark.parametrize(
    ("speaks", "model", "length"),
    [("openai", "notes", 128), ("ollama", "notes:latest", 256), ("tei", "org/notes", 64)],
)
@pytest.mark.parametrize("end", ["", "/v1"])
def test_an_api_is_found_by_asking(
    proxy: Proxy, expected: Matrix, speaks: str, model: str, length: int, end: str
) -> None:
    proxy.speaks = speaks
    encoder = HttpEncoder(proxy.url + end)
    spec = encoder.spec()
    assert (spec["api"], spec["model"], spec["max_length"]) == (speaks, model, length)
    assert np.allclose(encoder.encode(TEXTS), expected, atol=1e-6)
    path, _, body = proxy.asked[-1]
    assert path == {"openai": "/v1/embeddings", "ollama": "/api/embed", "tei": "/embed"}[speaks]
    sent = {"model": model, "truncate": True}
    assert (
        body
        == {
            "openai": {"model": model, "encoding_format": "base64", "input": TEXTS},
            "ollama": sent | {"input": TEXTS},
            "tei": sent | {"inputs": TEXTS},
        }[speaks]
    )
    proxy.asked.clear()
    again = pickle.loads(pickle.dumps(encoder))
    assert again.spec() == spec
    assert len(proxy.asked) == 1, "a known API is asked at once"


def test_an_address_without_vectors_is_refused(proxy: Proxy) -> None:
    with pytest.raises(InputError, match=r"^http://127.0.0.1:9: ConnectionRefusedError .*server"):
        HttpEncoder("http://127.0.0.1:9")
    proxy.speaks = "tei"
    with pytest.raises(InputError, match=r"^no vectors: .*/v2/api/embed: 404 File Not Found"):
        HttpEncoder(f"{proxy.url}/v2", "x")


@pytest.mark.slow
def test_llama_cpp_encodes_as_slimdex_does(
    llama_service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FIRST_WAIT", 0.01)
    texts = [*TEXTS, "naïve café, Zürich", "日本語", "for i in range(3): pass", "word " * 30]
    encoder = HttpEncoder(llama_service)
    found = encoder.encode(texts)
    assert (encoder.spec()["api"], encoder.max_length) == ("openai", 512)
    own = TransformerEncoder(precision="fp32").encode(texts)
    unit = found / np.linalg.norm(found, axis=1, keepdims=True)
    assert np.vecdot(own, unit).min() > 1 - 1e-5
    text = "word " * 5000
    vectors, ((tokens, read),) = encoder.encode_measured([text])  # refused until halved four times
    assert 15 * read < tokens < 17 * read
    beginning = TransformerEncoder(precision="fp32", max_length=512).encode(
        [text[: len(text) // 16]]
    )
    assert np.vecdot(vectors / np.linalg.norm(vectors), beginning).item() > 0.999
