"""HttpEncoder: a model in a server that speaks OpenAI's API, Ollama's or TEI's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix

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
from .apis import find_model
from .connection import NEVER, Address, RefusedError, key_for, parse_address

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
BYTES_PER_TOKEN = 3
"""Bytes of UTF-8 that are counted as a token; English has 4 to 5, Chinese 3 to a character."""


class HttpEncoder:
    """Encoder that runs in a server, asked over HTTP.

    Texts are sent in batches, several at once; failures that pass are retried. Tokens are estimated
    by bytes, as the server's tokenizer is not here. Of a text that the server refuses as too long,
    only the beginning is read.

    Parameters
    ----------
    url : of the server: ``http://HOST:PORT``, with or without ``/v1``, and perhaps ``#MODEL``.
    model : its name there; by default the only one.
    api : openai, ollama or tei (text-embeddings-inference); by default found by asking.
    dimensions : to ask the server for; by default all that the model has.
    max_length : tokens of the passages into which texts are cut; by default what the server states,
        or 512.
    query_prompt, document_prompt : prefixes of texts; by default those of a well-known model.
    api_key : by default ``OPENAI_API_KEY``, if the URL is at the host of ``OPENAI_BASE_URL``.

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
        api: str | None = None,
        dimensions: int | None = None,
        max_length: int | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        api_key: str | None = None,
    ) -> None:
        for name, value in (("dimensions", dimensions), ("max_length", max_length)):
            if value is not None and value < 1:
                raise InputError(f"{name}={value}; expected 1 or more")
        place = parse_address(url)
        self._key = key_for(place.url) if api_key is None else api_key

        # Find the API, and the model if there is only one.
        self._model, vectors = find_model(
            place.url,
            FINGERPRINT_TEXTS,
            model=model or place.model,
            api=api,
            dimensions=dimensions,
            key=self._key,
        )

        # The rest comes from its vectors, the server's answer, and the table of known prompts.
        self.dim = vectors.shape[1]
        self._fingerprint = fingerprint(vectors)
        self._most_texts = MOST_TEXTS
        self.max_length = max_length or self._model.longest() or USUAL_LENGTH
        known = Prompts(*known_prompts(self._model.name))
        self.prompts = known.override(query_prompt, document_prompt)

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
            "url": self._model.server.url,
            "api": self._model.api,
            "model": self._model.name,
            "dim": self.dim,
            "max_length": self.max_length,
            "fingerprint": self._fingerprint,
        }
        if self._model.dimensions is not None:
            spec["dimensions"] = self._model.dimensions
        if self.prompts != Prompts():
            spec["prompts"] = [self.prompts.query, self.prompts.document]
        return spec

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the spec and the key, for another process."""
        return _open, (self.spec(), self._key)

    def _encode(self, texts: Sequence[str], prompt: str) -> tuple[Matrix, list[int]]:
        """Vectors (n, dim), and how many characters of each text were read."""
        vectors, read = self._in_batches([prompt + text for text in texts])
        return vectors, [max(0, characters - len(prompt)) for characters in read]

    def _in_batches(self, texts: Sequence[str]) -> tuple[Matrix, list[int]]:
        """Encode texts in concurrent requests; return the same as `_read`."""
        parts = list(_batches(texts))
        if not parts:
            return np.empty((0, self.dim), np.float32), []
        if len(parts) == 1:
            return self._read(parts[0])
        stopped = Event()
        with ThreadPoolExecutor(AT_ONCE) as threads:
            futures = [threads.submit(self._read, part, stopped) for part in parts]

            # The first failure stops the other batches.
            try:
                for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                    future.result()  # raises the error of a failed batch
                return _join([future.result() for future in futures])
            except BaseException:
                stopped.set()
                for future in futures:
                    future.cancel()
                raise

    def _read(self, texts: Sequence[str], stopped: Event = NEVER) -> tuple[Matrix, list[int]]:
        """Encode a batch, in halves if the server takes fewer texts at once.

        If it refuses a single text, its first half is sent, then a quarter, and so on. Returns the
        vectors, and how many characters of each text were read.
        """
        lengths = [len(text) for text in texts]
        half = len(texts) // 2
        if len(texts) <= self._most_texts:
            try:
                return self._vectors(texts, stopped), lengths
            except RefusedError as error:
                is_short = half == 0 and lengths[0] <= SHORT
                if error.status not in TOO_LARGE or is_short:
                    raise

        # Send only the first half of a single text, which is too long; halve a larger batch.
        if half == 0:
            return self._read([texts[0][: lengths[0] // 2]], stopped)
        first = self._read(texts[:half], stopped)
        second = self._read(texts[half:], stopped)
        vectors, read = _join([first, second])
        # If both halves were read in full, no text was too long: the batch had too many texts.
        if read == lengths:
            self._most_texts = min(self._most_texts, half)
        return vectors, read

    def _vectors(self, texts: Sequence[str], stopped: Event) -> Matrix:
        """Encode texts by one request; raise `InputError` if the dimensions have changed."""
        vectors = self._model.encode(texts, stopped)
        if vectors.shape[1] != self.dim:
            raise InputError(
                f"{self._model.server.url}: vectors of {vectors.shape[1]} dimensions; "
                f"expected {self.dim}, as before"
            )
        return vectors


def _join(batches: Sequence[tuple[Matrix, list[int]]]) -> tuple[Matrix, list[int]]:
    """Join the results of batches: the vectors, and the characters read of each text."""
    vectors = np.concatenate([rows for rows, _ in batches])
    characters_read = list[int]()
    for _, of_batch in batches:
        characters_read += of_batch
    return vectors, characters_read


def http_from_spec(
    spec: dict[str, Any], *, model: str | None = None, api_key_file: str | Path | None = None
) -> HttpEncoder:
    """Open the encoder of an index, and verify that it gives the same vectors.

    `model` is the URL of the server, and perhaps `#NAME`, if it has moved; `api_key_file` holds the
    key, see `key_for`. Raises `InputError` if the server does not answer, or gives other vectors.
    """
    place = Address(spec["url"]) if model is None else parse_address(model)
    moved = spec | {"url": place.url, "model": place.model or spec["model"]}
    if model is not None:  # another server may have another API
        del moved["api"]
    encoder = _open(moved, key_for(place.url, api_key_file))
    if not is_same_encoder(encoder.spec(), spec):
        cosine = fingerprint_cosine(encoder.spec()["fingerprint"], spec["fingerprint"])
        raise InputError(
            f"model {moved['model']!r} of {place.url} has changed: its vectors have a cosine of "
            f"{cosine:.3f} with those that this index was built with; expected {SAME_COSINE} or "
            "more (if the same model is elsewhere, pass model=URL#NAME; otherwise build the index "
            "again)"
        )
    return encoder


def _open(spec: dict[str, Any], key: str | None) -> HttpEncoder:
    """Open the encoder of a spec; detect the API if the spec does not name it."""
    query, document = spec.get("prompts", ("", ""))
    return HttpEncoder(
        spec["url"],
        spec["model"],
        api=spec.get("api"),
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
