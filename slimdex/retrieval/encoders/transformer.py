"""TransformerEncoder: transformers run by OpenVINO or torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix

from .base import Lengths, check_unchanged, several
from .model_folder import Prompts, read_folder
from .models import DEFAULT_MODEL, find_model, known_prompts
from .pooling import parse_pooling
from .runtimes.network_loader import NetworkLoader
from .runtimes.openvino_runtime import PRECISIONS, Batch
from .tokens import Tokenizer, groups, resolve_length, token_batches

if TYPE_CHECKING:
    from .runtimes.torch_runtime import SentenceNetwork


class TransformerEncoder:
    """Encoder from any transformers or sentence-transformers model with hidden states.

    Batches are filled to a token budget, longest texts first, which minimises padding and makes
    memory independent of the mix of lengths.

    Parameters
    ----------
    model
        a folder, the name of a packaged model, or a hub id.
    pooling
        see `parse_pooling`. By default that of a sentence-transformers folder, with its head
        (Dense, Normalize), or ``mean@-1`` for other models.
    max_length
        tokens after which texts are truncated; by default the folder's setting or 256, at most the
        model's positions.
    precision
        ``fp32``; ``bf16`` or ``fp16``, 16-bit matrix products if the processor has them, else fp32;
        ``int8``; or ``auto``, bf16 if the processor multiplies it faster, else fp32.
    query_prompt
        prefix of queries; by default the folder's, or those of a well-known model.
    document_prompt
        prefix of documents; by default the folder's, or those of a well-known model.
    batch_tokens
        tokens in a batch, including padding; the default suits the processor.
    trust_remote_code
        run Python code that comes with the model; only for authors you trust.

    Attributes
    ----------
    dim
        dimensions of the vectors.
    width
        width of the model's hidden states.
    layers
        number of layers without the embeddings.
    max_length
        of a text in tokens.
    pad_id
        padding token.
    folder
        contents of the model's folder; without the head if the user chose a pooling.
    pooling
        of hidden states.
    prompts
        prefixes of queries and documents.

    Raises
    ------
    InputError
        For an unknown model or precision, an unsupported pooling, or a max_length beyond the
        model's positions.
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        pooling: str | None = None,
        max_length: int | None = None,
        precision: str = "auto",
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        batch_tokens: int | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        if precision not in PRECISIONS:
            raise InputError(f"precision={precision!r}; expected {', '.join(PRECISIONS)}")
        chosen = None if pooling is None else parse_pooling(pooling)
        self._files = find_model(model, with_code=trust_remote_code)
        # A chosen pooling replaces the folder's pooling and the modules after it.
        self.folder = read_folder(self._files.folder, skip_pooling=chosen is not None)
        self.pooling = chosen or parse_pooling(self.folder.pooling)
        self._loader = NetworkLoader(
            self._files, self.folder, self.pooling, trusted=trust_remote_code
        )
        self._trusted = trust_remote_code

        # The prompts given, or else the folder's, or else those known for the model.
        prompts = self.folder.prompts
        if prompts == Prompts():
            prompts = Prompts(*known_prompts(self._files.name))
        self.prompts = prompts.override(query_prompt, document_prompt)

        self._runtime, facts, tokenizer = self._loader.load(precision)
        self.dim = facts.dim
        self.width = facts.width
        self.layers = facts.layers
        self.pad_id = facts.pad_id
        self.max_length = resolve_length(max_length, self.folder.max_length, facts.longest)
        self._batch_tokens = batch_tokens
        self._tokenizer = Tokenizer(
            tokenizer, self.pad_id, self.max_length, lower_case=self.folder.lower_case
        )

    @property
    def precision(self) -> str:
        """Precision in use: fp32, bf16, int8, or on some GPUs fp16."""
        return self._runtime.precision

    @property
    def batch_tokens(self) -> int:
        """Tokens in a batch, including padding."""
        return self._batch_tokens or self._runtime.batch_tokens

    @property
    def tokens_at_once(self) -> int:
        """Tokens in all batches that may run concurrently."""
        return self.batch_tokens * self._runtime.streams

    @property
    def runtime(self) -> str:
        """Library, processor and precision in use."""
        return f"{self._runtime.name}, {self._runtime.precision}"

    @property
    def tokenizer(self) -> Any:
        """Tokenizer of `tokenizers`, or of transformers if it is written in Python."""
        return self._tokenizer.backend

    def plain_tokenizer(self) -> str:
        """Return the tokenizer as JSON; it adds no special tokens to a text.

        Raises `InputError` if it is written in Python.
        """
        if not hasattr(self.tokenizer, "to_str"):
            raise InputError(
                f"model {self._files.name!r}: its tokenizer is written in Python; expected one of "
                "the library tokenizers"
            )
        return self._tokenizer.plain()

    def network(self) -> SentenceNetwork:
        """Load the network in torch, on the CPU, in float32."""
        return self._loader.network()

    def count_tokens(self, texts: str | Sequence[str]) -> int:
        """Count the encoded tokens of texts, including special ones."""
        texts = several(texts)
        count = 0
        for group in groups(texts):
            count += sum(map(len, self._tokenizer.ids(texts[group])))
        return count

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each document, with special ones and prompt, without truncation."""
        counts = list[int]()
        for group in groups(texts):
            counts += self._tokenizer.counts(texts[group], self.prompts.document)
        return counts

    def spec(self) -> dict[str, Any]:
        """Return model, weights, pooling, maximum length, precision and prompts, if any."""
        spec: dict[str, Any] = {
            "type": "transformer",
            "model": self._files.name,
            "sha256": self._loader.sha256,
            "revision": self._files.revision,
            "pooling": str(self.pooling),
            "max_length": self.max_length,
            "precision": self.precision,
        }
        if self.folder.head:
            spec["head"] = [str(part) for part in self.folder.head]
        if self.prompts != Prompts():
            spec["prompts"] = [self.prompts.query, self.prompts.document]
        if self._trusted:
            spec["trust_remote_code"] = True
        return spec

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the spec only: another process loads the model from its folder."""
        open_again = partial(
            encoder_from_spec, trust_remote_code=self._trusted, batch_tokens=self._batch_tokens
        )
        return open_again, (self.spec(),)

    def in_precision(self, precision: str) -> TransformerEncoder:
        """Return the encoder in another precision except auto.

        Raises `InputError` for int8 if OpenVINO can't convert the network.
        """
        if precision == self.precision:
            return self
        return encoder_from_spec(
            self.spec() | {"precision": precision},
            trust_remote_code=self._trusted,
            batch_tokens=self._batch_tokens,
        )

    def encode(self, texts: str | Sequence[str]) -> Matrix:
        """Encode documents to vectors (n, dim), in order; (1, dim) for one text."""
        return self._encode(several(texts), self.prompts.document)

    def encode_measured(self, texts: Sequence[str]) -> tuple[Matrix, Lengths]:
        """Encode documents; return vectors (n, dim), and (n, 2) with tokens and encoded tokens.

        Both counts include special tokens.
        """
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        lengths = np.zeros((len(texts), 2), dtype=np.int64)
        return self._run(texts, self.prompts.document, out, lengths), lengths

    def encode_ids(self, ids: Sequence[list[int]]) -> Matrix:
        """Encode token ids, including special ones, to vectors (n, dim)."""
        out = np.empty((len(ids), self.dim), dtype=np.float32)
        batches = list(token_batches([len(text_ids) for text_ids in ids], self.batch_tokens))
        outputs = self._runtime.run(self._pad_batches(ids, batches))
        for vectors, batch in zip(outputs, batches, strict=True):
            out[batch] = vectors
        return out

    def encode_queries(self, texts: str | Sequence[str]) -> Matrix:
        """Encode queries to vectors (n, dim), with the query prompt."""
        return self._encode(several(texts), self.prompts.query)

    def _encode(self, texts: Sequence[str], prompt: str) -> Matrix:
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        return self._run(texts, prompt, out)

    def _run(
        self, texts: Sequence[str], prompt: str, out: Matrix, lengths: Lengths | None = None
    ) -> Matrix:
        """Fill `out` (n, dim) with the vectors of texts, and return it.

        `lengths` (n, 2), if given, is filled with each text's numbers of tokens and encoded tokens.
        """
        # All tokens of a prompt are pooled, or none.
        not_pooled = 0 if self.pooling.with_prompt else self._tokenizer.prompt_length(prompt)
        for group in groups(texts):
            ids_and_lengths = list(self._tokenizer.ids_and_lengths(texts[group], prompt))
            ids = [text_ids for text_ids, _ in ids_and_lengths]
            if lengths is not None:
                lengths[group] = [(tokens, len(text_ids)) for text_ids, tokens in ids_and_lengths]

            # Each batch has the positions of its texts in the group.
            batches = list(token_batches([len(text_ids) for text_ids in ids], self.batch_tokens))
            outputs = self._runtime.run(self._pad_batches(ids, batches, not_pooled))
            for vectors, batch in zip(outputs, batches, strict=True):
                out[group.start + np.array(batch)] = vectors
        return out

    def _pad_batches(
        self, ids: Sequence[list[int]], rows: Sequence[list[int]], not_pooled: int = 0
    ) -> Iterator[Batch]:
        """Yield the padded ids and mask of each batch; `rows` has the indices of its texts."""
        for batch in rows:
            yield self._tokenizer.pad([ids[i] for i in batch], not_pooled)


def encoder_from_spec(
    spec: dict[str, Any],
    *,
    model: str | None = None,
    trust_remote_code: bool = False,
    batch_tokens: int | None = None,
) -> TransformerEncoder:
    """Load the encoder that an index was built with, and verify that it is the same.

    `model` is the model's location if it has moved. Raises `InputError` if its weights differ, or
    it has custom code that must be trusted again.
    """
    if spec.get("trust_remote_code") and not trust_remote_code:
        raise InputError(
            f"model {spec['model']!r} has custom code; expected trust_remote_code=True, "
            "for authors you trust"
        )

    # Naming a pooling would skip the folder's head, so name none if the index has a head.
    query, document = spec.get("prompts", ("", ""))
    encoder = TransformerEncoder(
        model or spec["model"],
        pooling=None if "head" in spec else spec["pooling"],
        max_length=spec["max_length"],
        precision=spec["precision"],
        query_prompt=query,
        document_prompt=document,
        trust_remote_code=bool(spec.get("trust_remote_code")),
        batch_tokens=batch_tokens,
    )
    check_unchanged(
        encoder, spec, "sha256", "pooling", "head", *(["revision"] if model is None else [])
    )
    return encoder
