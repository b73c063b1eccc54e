"""HttpEncoder: a model in a server that speaks OpenAI's API of embeddings."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, as_matrix

from ..base import (
    FINGERPRINT_TEXTS,
    SAME_COSINE,
    Lengths,
    fingerprint,
    fingerprint_cosine,
    is_same_encoder,
    several,
)
from ..model_folder import Prompts
from ..models import known_prompts
from .connection import JsonServer, RefusedError, key_for, parse_address

AT_ONCE = 4
"""Requests that run at the same time."""
MOST_TEXTS = 32
MOST_CHARACTERS = 16_384
"""Size of a request; a text may be longer."""
TOO_LARGE = (400, 413, 422)
"""Statuses that servers give to a request with too many texts, among others."""
SHORT = 64
"""Characters of a text that no server refuses for its length."""
USUAL_LENGTH = 512
"""Tokens of a text for a server that states no limit, as most encoders have been trained with."""
FIELD = re.compile(r"(\w+)=([\w.-]+)")
"""A prompt that is a field of the request, such as input_type=query, in place of a prefix."""
BYTES_PER_TOKEN = 3
"""Bytes of UTF-8 that are counted as a token; English has 4 to 5, Chinese 3 to a character."""


class HttpEncoder:
    """Encoder that runs in a server, asked by OpenAI's API of embeddings.

    Texts are sent in batches, several at once; failures that pass are retried. Tokens are estimated
    by bytes, as the server's tokenizer is not here. Of a text that the server refuses as too long,
    only the beginning is read.

    Parameters
    ----------
    url
        of the server, ``http://HOST:PORT/v1``, perhaps with ``#MODEL``; ``/v1`` may be missing.
    model
        its name there; by default the only one.
    dimensions
        to ask the server for; by default all that the model has.
    max_length
        tokens of the passages into which texts are cut; by default what the server states, or 512.
    query_prompt
        prefix of queries, or a field of requests with queries, such as ``input_type=query``; by
        default the prefix of a well-known model.
    document_prompt
        as query_prompt, of documents.
    api_key
        by default ``OPENAI_API_KEY``, if the URL is at the host of ``OPENAI_BASE_URL``.

    Raises
    ------
    InputError
        If no server answers there, or its answers are no vectors of these texts.
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        dimensions: int | None = None,
        max_length: int | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        api_key: str | None = None,
    ) -> None:
        for name, value in (("dimensions", dimensions), ("max_length", max_length)):
            if value is not None and value < 1:
                raise InputError(f"{name}={value}; expected 1 or more")
        base, named = parse_address(url)
        self._key = key_for(base) if api_key is None else api_key
        self._server = JsonServer(base, self._key)
        self._dimensions = dimensions

        # The server says what is not given here.
        served = model or named
        if served is None or max_length is None:
            served, stated = _described(self._server, served)
            max_length = max_length or stated
        self._model = served
        self.max_length = max_length
        known = Prompts(*known_prompts(self._model))
        self.prompts = known.override(query_prompt, document_prompt)

        # The first vectors show how many dimensions they have.
        self.dim = dimensions or 0
        vectors = self._vectors(FINGERPRINT_TEXTS, self.prompts.document)
        self.dim = vectors.shape[1]
        self._fingerprint = fingerprint(vectors)

    @property
    def tokens_at_once(self) -> int:
        """Tokens in all requests that may run at the same time."""
        return AT_ONCE * MOST_CHARACTERS // BYTES_PER_TOKEN

    def encode(self, texts: str | Sequence[str]) -> Matrix:
        """Encode documents to vectors (n, dim), in order."""
        return self._encode(several(texts), self.prompts.document)[0]

    def encode_measured(self, texts: Sequence[str]) -> tuple[Matrix, Lengths]:
        """Encode documents; and (n, 2) estimates of each text's tokens, and of those read."""
        vectors, read = self._encode(texts, self.prompts.document)
        beginnings = [text[:characters] for text, characters in zip(texts, read, strict=True)]
        counts = [self.token_counts(texts), self.token_counts(beginnings)]
        lengths = np.array(counts, dtype=np.int64)
        return vectors, lengths.T

    def encode_queries(self, texts: str | Sequence[str]) -> Matrix:
        """Encode queries to vectors (n, dim), with the query prompt."""
        return self._encode(several(texts), self.prompts.query)[0]

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Estimate the tokens of each document, with special ones and prompt."""
        extra = 2 + len(self.prompts.document.encode()) // BYTES_PER_TOKEN
        return [extra + len(text.encode(errors="replace")) // BYTES_PER_TOKEN for text in texts]

    def spec(self) -> dict[str, Any]:
        """Return server, model, dimensions, prompts, and a fingerprint of its vectors."""
        spec: dict[str, Any] = {
            "type": "http",
            "url": self._server.url,
            "model": self._model,
            "dim": self.dim,
            "max_length": self.max_length,
            "fingerprint": self._fingerprint,
        }
        if self._dimensions is not None:
            spec["dimensions"] = self._dimensions
        if self.prompts != Prompts():
            spec["prompts"] = [self.prompts.query, self.prompts.document]
        return spec

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the spec and the key, for another process."""
        return _open, (self.spec(), self._key)

    def _encode(self, texts: Sequence[str], prompt: str) -> tuple[Matrix, list[int]]:
        """Vectors (n, dim), and how many characters of each text were read."""
        with ThreadPoolExecutor(AT_ONCE) as threads:
            rows = [*chain.from_iterable(threads.map(self._read, _batches(texts), repeat(prompt)))]
        vectors = np.array([vector for vector, _ in rows], np.float32).reshape(-1, self.dim)
        return vectors, [characters for _, characters in rows]

    def _read(self, texts: Sequence[str], prompt: str) -> list[tuple[NDArray[np.float32], int]]:
        """Encode a batch, in halves if the server takes fewer texts at once.

        If it refuses a single text, its first half is sent, then a quarter, and so on. Returns each
        text's vector, and how many of its characters were read.
        """
        try:
            return [*zip(self._vectors(texts, prompt), map(len, texts), strict=True)]
        except RefusedError as error:
            is_short = len(texts) == 1 and len(texts[0]) <= SHORT
            if error.status not in TOO_LARGE or is_short:
                raise
        if len(texts) == 1:
            return self._read([texts[0][: len(texts[0]) // 2]], prompt)
        half = len(texts) // 2
        return self._read(texts[:half], prompt) + self._read(texts[half:], prompt)

    def _vectors(self, texts: Sequence[str], prompt: str) -> Matrix:
        """Encode texts by one request, with a prompt.

        Raises `InputError` if the answer is not a finite vector of `dim` numbers for each text.
        """
        body: dict[str, Any] = {
            "model": self._model,
            "input": [*texts],
            "encoding_format": "base64",
        }
        field = FIELD.fullmatch(prompt)
        if field is not None:
            body[field[1]] = field[2]
        else:
            body["input"] = [prompt + text for text in texts]
        if self._dimensions is not None:
            body["dimensions"] = self._dimensions
        answer = self._server.ask("/embeddings", body)
        place = f"{self._server.url}/embeddings"
        try:
            items = sorted(answer["data"], key=lambda item: item.get("index", 0))
            rows = [_numbers(item["embedding"]) for item in items]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InputError(f"{place}: an answer without embeddings") from None
        if len(rows) != len(texts):
            raise InputError(f"{place}: {len(rows)} vectors; expected {len(texts)}, one per text")
        return as_matrix(rows, dim=self.dim or None, name=place)


def _numbers(embedding: Any) -> Any:
    """Return a list of floats unchanged, and decode little-endian float32 in base64."""
    if isinstance(embedding, str):
        return np.frombuffer(b64decode(embedding, validate=True), dtype="<f4")
    return embedding


def _described(server: JsonServer, name: str | None) -> tuple[str, int]:
    """Return the name of a server's model, by default the only one, and the most tokens of a text.

    vLLM states `max_model_len`, and llama.cpp the length that the model was trained with.

    Raises `InputError` if no model is named, and the server does not have exactly one.
    """
    models = dict[str, dict[str, Any]]()
    try:
        models = {model["id"]: model for model in server.ask("/models")["data"]}
    except (RefusedError, KeyError, TypeError) as error:  # some servers do not list their models
        if name is None:
            raise InputError(f"{server.url}: no list of models ({error}); expected #NAME") from None
    if name is None and len(models) != 1:
        raise InputError(f"{server.url}: models {', '.join(models)}; expected #NAME of one")
    name = name or next(iter(models))
    facts = models.get(name, {})
    tokens = facts.get("max_model_len") or (facts.get("meta") or {}).get("n_ctx_train")
    return name, tokens or USUAL_LENGTH


def http_from_spec(
    spec: dict[str, Any], *, model: str | None = None, api_key_file: str | Path | None = None
) -> HttpEncoder:
    """Open the encoder of an index, and verify that it gives the same vectors.

    `model` is the URL of the server, and perhaps `#NAME`, if it has moved; `api_key_file` holds the
    key, see `key_for`. Raises `InputError` if the server does not answer, or gives other vectors.
    """
    url, named = parse_address(model or spec["url"])
    moved = spec | {"url": url, "model": named or spec["model"]}
    encoder = _open(moved, key_for(url, api_key_file))
    if not is_same_encoder(encoder.spec(), spec):
        cosine = fingerprint_cosine(encoder.spec()["fingerprint"], spec["fingerprint"])
        raise InputError(
            f"model {moved['model']!r} of {url} has changed: its vectors have a cosine of "
            f"{cosine:.3f} with those of this index; expected {SAME_COSINE} or more (if the same "
            "model is elsewhere, record it with `slimdex repair DIR --model URL#NAME`)"
        )
    return encoder


def _open(spec: dict[str, Any], key: str | None) -> HttpEncoder:
    """Open the encoder of a spec."""
    query, document = spec.get("prompts", ("", ""))
    return HttpEncoder(
        spec["url"],
        spec["model"],
        dimensions=spec.get("dimensions"),
        max_length=spec["max_length"],
        query_prompt=query,
        document_prompt=document,
        api_key=key,
    )


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split texts into requests by number and characters.

    >>> [len(part) for part in _batches(["a" * 9_000] * 3 + ["b"] * 40)]
    [1, 1, 32, 9]
    """
    start = 0
    characters = 0
    for stop, text in enumerate(texts):
        characters += len(text)
        # End the batch before this text if it is full, or this text would make it too large.
        if stop > start and (stop - start == MOST_TEXTS or characters > MOST_CHARACTERS):
            yield texts[start:stop]
            start = stop
            characters = len(text)
    if texts:
        yield texts[start:]
