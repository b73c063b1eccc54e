"""Encoders over HTTP against real servers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.encoders.base import FINGERPRINT_TEXTS
from slimdex.retrieval.encoders.over_http.http_encoder import HttpEncoder
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from tests.retrieval.server.running import DIM

from .conftest import TEXTS
from .proxy import Proxy


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1#notes"])
def test_slimdex_serves_its_own_encoder(own_service: str, expected: Matrix, end: str) -> None:
    encoder = HttpEncoder(own_service + end)
    spec = encoder.spec()
    assert (spec["url"], spec["model"]) == (f"{own_service}/v1", "notes")
    assert (encoder.dim, encoder.max_length) == (DIM, 512)
    assert pickle.loads(pickle.dumps(encoder)).spec() == spec
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


def test_a_list_of_floats_is_read_and_the_length_that_the_server_states(
    proxy: Proxy, expected: Matrix
) -> None:
    encoder = HttpEncoder(proxy.url)
    assert encoder.max_length == 128
    assert np.allclose(encoder.encode(TEXTS), expected, atol=1e-6)
    sent = {"model": "notes", "encoding_format": "base64", "input": TEXTS}
    path, _, body = proxy.asked[-1]
    assert (path, body) == ("/v1/embeddings", sent)


def test_a_prompt_is_a_prefix_or_a_field_of_the_request(proxy: Proxy) -> None:
    encoder = HttpEncoder(
        proxy.url, query_prompt="input_type=query", document_prompt="input_type=document"
    )
    encoder.encode(["a cat"])
    pickle.loads(pickle.dumps(encoder)).encode_queries(["a cat?"])
    HttpEncoder(proxy.url, query_prompt="query: ").encode_queries(["a cat?"])
    sent = [(body["input"], body.get("input_type")) for _, _, body in proxy.asked if body]
    fixed = [*FINGERPRINT_TEXTS]
    assert sent == [
        (fixed, "document"),
        (["a cat"], "document"),
        (fixed, "document"),
        (["a cat?"], "query"),
        (fixed, None),
        (["query: a cat?"], None),
    ]
    assert encoder.spec()["prompts"] == ["input_type=query", "input_type=document"]


def test_an_address_without_vectors_is_refused(proxy: Proxy) -> None:
    with pytest.raises(InputError, match=r"^http://127.0.0.1:9/v1/models: .*refused"):
        HttpEncoder("http://127.0.0.1:9", "x")
    with pytest.raises(InputError, match=r"/v2/embeddings: 404 File Not Found"):
        HttpEncoder(f"{proxy.url}/v2", "x")


@pytest.mark.slow
def test_llama_cpp_encodes_as_slimdex_does(llama_service: str) -> None:
    texts = [*TEXTS, "naïve café, Zürich", "日本語", "for i in range(3): pass", "word " * 30]
    encoder = HttpEncoder(llama_service)
    found = encoder.encode(texts)
    assert encoder.max_length == 512
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
