"""Adapters: what others have made that turns texts into vectors, as an Encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Matrix, as_matrix
from slimdex.indexes.errors import InputError

from .base import Encoder, checked_encoder


class CallableEncoder:
    """Any function from a list of texts to their vectors (n, dim).

    An index knows it by its module and name: whoever opens it passes the function again, and has to
    see to it that it is the same.

    Raises
    ------
    InputError
        If it gives no matrix of numbers, a row for each text.
    """

    def __init__(self, function: Callable[[list[str]], Any]) -> None:
        self._function = function
        self._name = ".".join(
            str(getattr(function, part, type(function).__name__))
            for part in ("__module__", "__qualname__")
        )
        self.dim = self.encode(["a text"]).shape[1]

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Vectors (n, dim), in the order of the texts."""
        found = as_matrix(self._function(list(texts)), name=f"encoder {self._name}")
        if len(found) != len(texts):
            raise InputError(
                f"encoder {self._name}: {len(found)} vectors for {len(texts)} texts; expected one "
                "for each"
            )
        return found

    def spec(self) -> dict[str, Any]:
        """The function's module and name."""
        return {"type": "callable", "name": self._name, "dim": self.dim}


class SentenceTransformersEncoder:
    """A `sentence_transformers.SentenceTransformer` as it is, on the device that it is on.

    `TransformerEncoder` reads the same folders, faster on a CPU; this one takes any model that the
    library can build. An index knows it by the SHA-256 of its weights.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        told = getattr(model, "get_embedding_dimension", None)  # its name from release 6 on
        self.dim = int((told or model.get_sentence_embedding_dimension)())

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Vectors (n, dim), in the order of the texts."""
        return as_matrix(self._model.encode_document(list(texts), show_progress_bar=False))

    def encode_queries(self, texts: Sequence[str]) -> Matrix:
        """Vectors (n, dim) with the model's own prompt for queries, if it has one."""
        return as_matrix(self._model.encode_query(list(texts), show_progress_bar=False))

    @property
    def max_length(self) -> int | None:
        """Tokens of a text that are read; None if the model says nothing."""
        length = self._model.max_seq_length
        return int(length) if length and callable(self._model.tokenizer) else None

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, special ones included, none cut off.

        Raises
        ------
        InputError
            If the model's tokenizer is none that can be called.
        """
        if not callable(self._model.tokenizer):
            raise InputError(
                f"tokenizer {type(self._model.tokenizer).__name__}; expected one that counts tokens"
            )
        prompt = self._document_prompt
        found = self._model.tokenizer(
            [prompt + text for text in texts], truncation=False, verbose=False
        )
        return [len(ids) for ids in found["input_ids"]]

    @property
    def _document_prompt(self) -> str:
        """What `encode_document` puts before a text."""
        prompts = self._model.prompts
        names = ("document", "passage", "corpus")
        return next((prompts[name] for name in names if prompts.get(name)), "")

    def spec(self) -> dict[str, Any]:
        """The SHA-256 of all weights and their names, how many tokens are read, and the prompts."""
        digest = hashlib.sha256()
        for name, value in sorted(self._model.state_dict().items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(value.detach().float().cpu().numpy()).tobytes())
        return {
            "type": "sentence-transformers",
            "sha256": digest.hexdigest(),
            "dim": self.dim,
            "max_length": self._model.max_seq_length,
            "prompts": dict(self._model.prompts),
        }


def as_encoder(given: Any) -> Encoder:
    """What a caller gives for an encoder: one of ours, of sentence-transformers, or a function.

    Raises
    ------
    InputError
        If it can't be one.

    >>> lengths = as_encoder(lambda texts: [[len(text), 1.0] for text in texts])
    >>> lengths.dim, lengths.encode(["four"]).tolist()
    (2, [[4.0, 1.0]])
    """
    if not isinstance(given, type):
        if all(hasattr(given, name) for name in ("encode_query", "state_dict", "max_seq_length")):
            return SentenceTransformersEncoder(given)
        if callable(given) and not hasattr(given, "encode"):
            return CallableEncoder(given)
    return checked_encoder(given)
