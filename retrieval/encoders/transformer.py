"""TransformerEncoder: any transformer, run by OpenVINO or torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError

from ..atomic_files import sha256
from .base import Lengths, several
from .cache import (
    Conversion,
    Facts,
    conversion_key,
    keep_conversion,
    load_conversion,
    remember_refusal,
    was_refused,
)
from .hub import DEFAULT_MODEL, find_model, weights_sha256
from .openvino_runtime import PRECISIONS, OpenVinoRuntime, Runtime
from .pooling import POOLER, WK, Pooling, parse_pooling
from .precision_choice import Measured, measured
from .processor import has_gpu, may_have_gpu
from .sentence_folder import Dense, Normalize, Prompts, SentenceFolder, read_folder
from .streams import Batch
from .tokens import Tokenizer, fast_tokenizer, groups, token_batches

if TYPE_CHECKING:
    from .torch_runtime import SentenceNetwork, Transformer

DEFAULT_LENGTH = 256
"""Tokens of a text that are read where the model's folder does not say."""
SHORTEST_LENGTH = 3
"""A token between two special ones."""
SAMPLE_TOKENS = 128
"""Tokens of a batch that precisions are timed on, padding included."""


class TransformerEncoder:
    """Any transformers or sentence-transformers model that gives hidden states.

    Batches are filled to a budget of tokens, longest texts first, so that little is padding
    and memory does not depend on the mix of lengths.

    Parameters
    ----------
    model : a folder, the name of a packaged model, or a hub id.
    pooling : see `parse_pooling`. By default that of a sentence-transformers folder with what
        follows it there (Dense, Normalize), or ``mean@-1`` for other models.
    max_length : tokens of a text that are read, the rest is cut; by default what the folder says,
        or 256, or as many as the model has positions for.
    precision : ``fp32``; ``bf16`` or ``fp16``, matrix products in 16 bits where the processor has
        such, and else fp32; ``int8``, in 8 bits; ``auto``, bf16 where the processor multiplies that
        faster and else fp32. A new collection takes `fastest`, which may be int8, in place of it.
    query_prompt, document_prompt : written before each text; by default what the folder says.
    batch_tokens : tokens in a batch, padding included; by default what suits the processor.
    trust_remote_code : run Python code that comes with the model. Only for authors you trust.

    Raises
    ------
    InputError
        For an unknown model or precision, a pooling that it can't do, or a max_length beyond its
        positions.
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
        given = None if pooling is None else parse_pooling(pooling)
        self._files = find_model(model, with_code=trust_remote_code)
        self._folder = read_folder(self._files.folder, pooling_given=given is not None)
        self._pooling = given or parse_pooling(self._folder.pooling)
        self._sha256 = _combined_sha256(self._folder.transformer, self._folder.head)
        self._requested, self._trusted = precision, trust_remote_code
        self._measured: Measured | None = None
        self._prompts = Prompts(
            self._folder.prompts.query if query_prompt is None else query_prompt,
            self._folder.prompts.document if document_prompt is None else document_prompt,
        )
        self._layer_runtimes: dict[str, Runtime] = {}
        self._runtime, self._facts, tokenizer = self._prepared()
        self._batch_tokens = batch_tokens
        self._tokenizer = Tokenizer(
            tokenizer,
            self._facts.pad_id,
            _length(max_length, self._folder.max_length, self._facts.longest),
            lower_case=self._folder.lower_case,
        )

    @property
    def dim(self) -> int:
        """Of the vectors."""
        return self._facts.dim

    @property
    def layers(self) -> int:
        """Transformer layers of the model; its embeddings are not counted."""
        return self._facts.layers

    @property
    def width(self) -> int:
        """Of the model's hidden states."""
        return self._facts.width

    @property
    def precision(self) -> str:
        """That its vectors have: fp32, bf16, int8, or on some GPUs fp16."""
        return self._runtime.precision

    @property
    def batch_tokens(self) -> int:
        """Tokens in a batch, padding included."""
        return self._batch_tokens or self._runtime.batch_tokens

    @property
    def tokens_at_once(self) -> int:
        """Tokens in all batches that may be under way at a time."""
        return self.batch_tokens * self._runtime.streams

    @property
    def max_length(self) -> int:
        """Tokens of a text that are read."""
        return self._tokenizer.max_length

    @property
    def runtime(self) -> str:
        """What computes: the library, the processor and the precision in use."""
        return f"{self._runtime.name}, {self._runtime.precision}"

    @property
    def flops_per_token(self) -> int:
        """Two for each weight that a token is multiplied with; attention's own are left out."""
        return self._facts.flops_per_token

    @property
    def tokenizer(self) -> Any:
        """A tokenizer of `tokenizers`, or of transformers if it is written in Python."""
        return self._tokenizer.wrapped

    @property
    def pad_id(self) -> int:
        """The token that fills up batches."""
        return self._facts.pad_id

    @property
    def pooling(self) -> Pooling:
        """How hidden states become one vector."""
        return self._pooling

    @property
    def prompts(self) -> Prompts:
        """What is written before queries and documents."""
        return self._prompts

    @property
    def folder(self) -> SentenceFolder:
        """What its model's folder says; where a pooling was given, without what follows its own."""
        return self._folder

    def network(self) -> SentenceNetwork:
        """What computes, by torch on the CPU, in float32; loaded anew."""
        from .torch_runtime import build_network, load_transformer

        place = self._folder.transformer
        loaded = load_transformer(self._files, place, trust_remote_code=self._trusted)
        return build_network(loaded, self._pooling, self._folder.head)

    @property
    def lower_case(self) -> bool:
        """Whether texts are put in lower case before the tokenizer sees them."""
        return self._folder.lower_case

    def count_tokens(self, texts: str | Sequence[str]) -> int:
        """Tokens that are read of the texts, special ones included."""
        texts = several(texts)
        parts = (self._tokenizer.ids(texts[group]) for group in groups(texts))
        return sum(len(ids) for part in parts for ids in part)

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each document, special ones and the prompt included, none cut off."""
        counts = list[int]()
        for group in groups(texts):
            found = self._tokenizer.ids_and_lengths(texts[group], self._prompts.document)
            counts += [length for _, length in found]
        return counts

    def spec(self) -> dict[str, Any]:
        """Model, weights, pooling, length, precision and, where there are any, prompts.

        Where `fastest` chose int8, also what it measured.
        """
        spec: dict[str, Any] = {
            "type": "transformer",
            "model": self._files.name,
            "sha256": self._sha256,
            "revision": self._files.revision,
            "pooling": str(self._pooling),
            "max_length": self.max_length,
            "precision": self.precision,
        }
        if self._measured is not None:
            spec["measured"] = {name: round(x, 4) for name, x in asdict(self._measured).items()}
        if self._folder.head:
            spec["head"] = [type(part).__name__ for part in self._folder.head]
        if self._prompts != Prompts():
            spec["prompts"] = [self._prompts.query, self._prompts.document]
        if self._trusted:
            spec["trust_remote_code"] = True
        return spec

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process loads the model by itself, from where it is: it is not sent there."""
        made = partial(
            encoder_from_spec,
            trust_remote_code=self._trusted,
            batch_tokens=self._batch_tokens,
        )
        return made, (self.spec(),)

    def fastest(self) -> TransformerEncoder:
        """This encoder; or the same in int8, if that is faster here and its vectors hold.

        It is measured once for each model and processor, in a second or two, and remembered; see
        `precision_choice` for the bound. Only what was made with ``precision="auto"``, and runs on
        a CPU, becomes another.
        """
        if self._requested != "auto" or not isinstance(self._runtime, OpenVinoRuntime):
            return self
        found, runtime = measured(self._runtime, self._sample)
        if not found.is_worth_it:
            return self
        other = self._with(runtime or OpenVinoRuntime(self._runtime.model, "int8", self._key))
        other._measured = found
        return other

    def in_precision(self, precision: str) -> TransformerEncoder:
        """The same encoder in another precision, any but auto.

        Raises
        ------
        InputError
            For int8 and a network that OpenVINO can't convert.
        """
        if precision == self.precision:
            return self
        if isinstance(self._runtime, OpenVinoRuntime):
            return self._with(OpenVinoRuntime(self._runtime.model, precision, self._key))
        other = self._with(self._runtime)
        other._requested = precision
        other._runtime, other._facts, _ = other._prepared()
        return other

    def _with(self, runtime: Runtime) -> TransformerEncoder:
        other = copy(self)
        other._requested, other._runtime = runtime.precision, runtime
        other._measured, other._layer_runtimes = None, {}
        return other

    def _sample(self, texts: Sequence[str]) -> list[Batch]:
        """Batches small enough for several to be timed."""
        ids = self._tokenizer.ids(texts)
        rows = token_batches([len(one) for one in ids], SAMPLE_TOKENS)
        return list(self._padded(ids, list(rows)))

    def encode(self, texts: str | Sequence[str]) -> Matrix:
        """Vectors (n, dim) of documents, in the order of the texts; of one text, (1, dim)."""
        return self._encode(several(texts), self._prompts.document)

    def encode_measured(self, texts: Sequence[str]) -> tuple[Matrix, Lengths]:
        """Vectors (n, dim) of documents; and (n, 2), the tokens of each and those that were read.

        Special tokens are counted in both.
        """
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        lengths = np.zeros((len(texts), 2), dtype=np.int64)
        return self._run(self._runtime, texts, self._prompts.document, out, lengths), lengths

    def encode_ids(self, ids: Sequence[list[int]]) -> Matrix:
        """Vectors (n, dim) of texts that are token ids already, special ones included."""
        out = np.empty((len(ids), self.dim), dtype=np.float32)
        rows = list(token_batches([len(one) for one in ids], self.batch_tokens))
        for vectors, batch in zip(self._runtime.run(self._padded(ids, rows)), rows, strict=True):
            out[batch] = vectors
        return out

    def encode_queries(self, texts: str | Sequence[str]) -> Matrix:
        """Vectors (n, dim) of queries, which a model may prompt otherwise than documents."""
        return self._encode(several(texts), self._prompts.query)

    def encode_layers(self, texts: str | Sequence[str], mode: str = "mean") -> NDArray[np.float32]:
        """The pooled vectors of all layers, (n, layers + 1, width), from one pass.

        Layer 0 is the embedding output. The folder's own pooling and what follows are left out.

        Raises
        ------
        InputError
            If `mode` is no mode of `slimdex.retrieval.encoders.pooling`, or the pooler's.
        """
        pooling = parse_pooling(mode)
        if pooling != Pooling(mode) or mode in (POOLER, WK):
            raise InputError(f"mode={mode!r}; expected cls, mean, max or last")
        texts = several(texts)
        out = np.empty((len(texts), self.layers + 1, self._facts.width), dtype=np.float32)
        return self._run(self._layers_runtime(mode), texts, self._prompts.document, out)

    def _encode(self, texts: Sequence[str], prompt: str) -> Matrix:
        if len(texts) == 1:
            return self._one(texts[0], prompt)
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        return self._run(self._runtime, texts, prompt, out)

    def _one(self, text: str, prompt: str = "") -> Matrix:
        """A query: no batches to fill, nothing to sort, nothing padded."""
        ids = np.array(self._tokenizer.ids([text], prompt), dtype=np.int64)
        (vector,) = self._runtime.run([(ids, np.ones_like(ids))])
        return vector

    def _run(
        self,
        runtime: Runtime,
        texts: Sequence[str],
        prompt: str,
        out: NDArray[np.float32],
        lengths: Lengths | None = None,
    ) -> NDArray[np.float32]:
        """Fill `out` (n, ...) with the runtime's output for each text."""
        for group in groups(texts):
            found = list(self._tokenizer.ids_and_lengths(texts[group], prompt))
            ids = [one for one, _ in found]
            if lengths is not None:
                lengths[group] = [(length, len(one)) for one, length in found]
            rows = list(token_batches([len(one) for one in ids], self.batch_tokens))
            for vectors, batch in zip(runtime.run(self._padded(ids, rows)), rows, strict=True):
                out[group.start + np.array(batch)] = vectors
        return out

    def _padded(self, ids: Sequence[list[int]], rows: Sequence[list[int]]) -> Iterator[Batch]:
        for batch in rows:
            yield self._tokenizer.padded([ids[i] for i in batch])

    def _prepared(self) -> tuple[Runtime, Facts, Any]:
        """What computes, what is to be known of it, and a tokenizer; kept from last time, or made.

        torch, transformers and their import are for the second case only.
        """
        head = ",".join(type(part).__name__ for part in self._folder.head)
        self._key = key = conversion_key(
            self._files.folder, self._sha256, f"{self._pooling} {head}"
        )
        on_gpu = self._requested != "int8" and may_have_gpu() and has_gpu()
        if not self._trusted and not on_gpu and (kept := load_conversion(key)):
            return OpenVinoRuntime(kept.model, self._requested, key), kept.facts, kept.tokenizer

        from .torch_runtime import build_network, openvino_model, torch_runtime

        network = build_network(self._transformer, self._pooling, self._folder.head)
        facts = self._transformer.facts(network.dim)
        tokenizer = fast_tokenizer(self._transformer.tokenizer)
        refused = was_refused(key) and self._requested != "int8"
        model = None if refused else openvino_model(network, self._requested, self._transformer)
        if model is None:
            if not on_gpu:
                remember_refusal(key)
            return torch_runtime(network, self._requested), facts, tokenizer
        if not self._trusted and hasattr(tokenizer, "save"):
            keep_conversion(key, Conversion(facts, tokenizer, model))
            # What was written and read rounds a little otherwise: later processes have that one.
            kept = load_conversion(key)
            model = kept.model if kept else model
        return OpenVinoRuntime(model, self._requested, key), facts, tokenizer

    def _layers_runtime(self, mode: str) -> Runtime:
        if mode not in self._layer_runtimes:
            from .torch_runtime import LayersNetwork, openvino_model, torch_runtime

            network = LayersNetwork(self._transformer.module, mode).eval()
            model = openvino_model(network, self.precision, self._transformer)
            self._layer_runtimes[mode] = (
                torch_runtime(network, self.precision)
                if model is None
                else OpenVinoRuntime(model, self.precision)
            )
        return self._layer_runtimes[mode]

    @cached_property
    def _transformer(self) -> Transformer:
        from .torch_runtime import load_transformer

        return load_transformer(
            self._files, self._folder.transformer, trust_remote_code=self._trusted
        )


def encoder_from_spec(
    spec: dict[str, Any],
    *,
    model: str | None = None,
    trust_remote_code: bool = False,
    batch_tokens: int | None = None,
) -> TransformerEncoder:
    """The encoder that an index was built with, checked to be the same.

    Parameters
    ----------
    model : where its model is now, if that has moved.

    Raises
    ------
    InputError
        If its weights are not the ones that the index was built with, or its code would have to
        be trusted anew.
    """
    if spec.get("type") != "transformer":
        raise InputError(f"this index was built with {spec!r}: pass that encoder to open()")
    if spec.get("trust_remote_code") and not trust_remote_code:
        raise InputError(
            f"model {spec['model']!r} comes with code of its own; expected trust_remote_code=True, "
            "for authors you trust"
        )
    query, document = spec.get("prompts", ("", ""))
    if model is None and Path(spec["model"]).is_absolute() and not Path(spec["model"]).is_dir():
        raise InputError(
            f"model {spec['model']!r}: no such folder; if it has moved, say where it is now by "
            "model=PATH (for good by `move_model`)"
        )
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
    found = encoder.spec()
    for key in ("sha256", "pooling", "head", *(["revision"] if model is None else [])):
        if spec.get(key) is not None and found.get(key) != spec[key]:
            raise InputError(
                f"model {found['model']!r} has {key} {found.get(key)}; "
                f"the index was built with {spec[key]}"
            )
    return encoder


def _length(given: int | None, own: int | None, longest: int) -> int:
    """Tokens of a text to read: as given, as the folder says, or 256, within the model's limit."""
    length = min(own or DEFAULT_LENGTH, longest) if given is None else given
    if not SHORTEST_LENGTH <= length <= longest:
        raise InputError(f"max_length={given}; expected {SHORTEST_LENGTH} to the model's {longest}")
    return length


def _combined_sha256(transformer: Path, head: Sequence[Dense | Normalize]) -> str:
    """The SHA-256 of the transformer's weights, and of a Dense's where there is one."""
    found = weights_sha256(transformer)
    dense = [sha256(part.weights) for part in head if isinstance(part, Dense)]
    return hashlib.sha256("".join([found, *dense]).encode()).hexdigest() if dense else found
