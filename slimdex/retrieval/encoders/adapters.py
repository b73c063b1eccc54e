"""Encoders from functions, from other libraries' models, and of given vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, as_matrix
from slimdex.system.json_text import dump_json, parse_json

from .base import FINGERPRINT_TEXTS, Encoder, check_encoder, fingerprint

VECTORS_ONLY = "given"
"""Encoder type of an index without an encoder."""


def as_encoder(encoder: Any) -> Encoder:
    """Return a caller's encoder as an `Encoder`: wrap a sentence-transformers model or a function.

    Anything else must be an encoder already. Raises `InputError` if it is not.

    >>> lengths = as_encoder(lambda texts: [[len(text), 1.0] for text in texts])
    >>> lengths.dim, lengths.encode(["four"]).tolist()
    (2, [[4.0, 1.0]])
    """
    if isinstance(encoder, type):  # a class is callable, but not on texts
        return check_encoder(encoder)
    # Recognise a sentence-transformers model without importing the library.
    if all(hasattr(encoder, name) for name in ("encode_query", "state_dict", "max_seq_length")):
        return SentenceTransformersEncoder(encoder)
    if callable(encoder) and not hasattr(encoder, "encode"):
        return CallableEncoder(encoder)
    return check_encoder(encoder)


class CallableEncoder:
    """Encoder from any function of a list of texts that returns vectors (n, dim).

    An index records its module and name, and a fingerprint of its vectors: the caller passes the
    same function again when opening the index.

    Raises `InputError` if the function does not return a numeric matrix with one row per text.
    """

    def __init__(self, function: Callable[[list[str]], Any]) -> None:
        self._function = function
        kind = type(function).__name__  # for a callable object without a name
        module = getattr(function, "__module__", kind)
        self._name = f"{module}.{getattr(function, '__qualname__', kind)}"
        vectors = self.encode(FINGERPRINT_TEXTS)
        self.dim = vectors.shape[1]
        self._fingerprint = fingerprint(vectors)

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Vectors (n, dim), in the order of the texts."""
        vectors = as_matrix(self._function(list(texts)), name=f"encoder {self._name}")
        if len(vectors) != len(texts):
            raise InputError(
                f"encoder {self._name}: {len(vectors)} vectors for {len(texts)} texts; "
                "expected one per text"
            )
        return vectors

    def spec(self) -> dict[str, Any]:
        """Return the function's module and name, and a fingerprint of its vectors."""
        return {
            "type": "callable",
            "name": self._name,
            "dim": self.dim,
            "fingerprint": self._fingerprint,
        }


class SentenceTransformersEncoder:
    """Encoder from a `sentence_transformers.SentenceTransformer`, on its device.

    `TransformerEncoder` loads the same folders and is faster on a CPU; this class supports every
    model of the library. An index records the SHA-256 of its weights.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        get_dim = getattr(model, "get_embedding_dimension", None)  # its name from release 6 on
        self.dim = int((get_dim or model.get_sentence_embedding_dimension)())

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Vectors (n, dim), in the order of the texts."""
        return as_matrix(self._model.encode_document(list(texts), show_progress_bar=False))

    def encode_queries(self, texts: Sequence[str]) -> Matrix:
        """Encode queries to vectors (n, dim), with the model's query prompt, if any."""
        return as_matrix(self._model.encode_query(list(texts), show_progress_bar=False))

    @property
    def max_length(self) -> int | None:
        """Maximum length of a text in tokens; None if the model states none."""
        length = self._model.max_seq_length
        can_count = callable(self._model.tokenizer)  # the limit is useless without counting
        return int(length) if length and can_count else None

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, including special ones, without truncation.

        Raises `InputError` if the model's tokenizer is not callable.
        """
        if not callable(self._model.tokenizer):
            raise InputError(
                f"tokenizer {type(self._model.tokenizer).__name__}; expected one that counts tokens"
            )
        # The prompt that `encode_document` prepends.
        prompts = self._model.prompts
        names = ("document", "passage", "corpus")
        prompt = next((prompts[name] for name in names if prompts.get(name)), "")
        encodings = self._model.tokenizer(
            [prompt + text for text in texts], truncation=False, verbose=False
        )
        return [len(ids) for ids in encodings["input_ids"]]

    def spec(self) -> dict[str, Any]:
        """Return the SHA-256 of all weights and their names, the maximum length and the prompts."""
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


class GivenEncoder:
    """Placeholder encoder of an index whose vectors came from the caller; it can't encode."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Raise `InputError`: the vectors come from outside."""
        raise InputError(
            f"text {texts[0]!r}: this index was built from given vectors and has no encoder; "
            f"expected vectors of {self.dim} dimensions"
        )

    def spec(self) -> dict[str, Any]:
        """Return the dimensions, the only known property."""
        return {"type": VECTORS_ONLY, "dim": self.dim}


def plain_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a spec as an index reads it back from JSON, with lists in place of tuples.

    Raises `InputError` if JSON can't represent it.
    """
    try:
        stored: dict[str, Any] = parse_json(dump_json(spec))
    except (TypeError, ValueError) as error:
        raise InputError(f"an encoder's spec: {error}") from error
    return stored
