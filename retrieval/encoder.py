"""Encoders: texts in, vectors out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from indexes.arrays import Matrix
from indexes.errors import InputError

from .models import DEFAULT_MODEL, ModelFiles, find_model, hub_reachable
from .pooling import parse_pooling, pool

PRECISIONS = ("fp32", "bf16")
"""bf16: matrix products in bfloat16, all else in float32 (torch's autocast)."""
DEFAULT_LENGTH = 256
"""Tokens of a text that are read."""
TOKENIZED_TEXTS = 4096
"""Texts tokenised at a time, which bounds the memory of a call with many texts."""


class Encoder(Protocol):
    """Anything with these three can be given to `Collection`."""

    @property
    def dim(self) -> int: ...

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Vectors (n, dim), in the order of the texts, not normalised."""
        ...

    def spec(self) -> dict[str, Any]:
        """What must be equal for vectors to be comparable, as JSON can hold it."""
        ...


class TransformerEncoder:
    """Any transformers model that gives hidden states.

    Batches are filled to a budget of tokens, longest texts first, so that little is padding
    and memory does not depend on the mix of lengths.

    Parameters
    ----------
    model : a folder, the name of a packaged model, or a hub id.
    pooling : see `retrieval.pooling`.
    max_length : tokens of a text that are read, the rest is cut; by default 256, or as many as
        the model has positions for.
    precision : fp32, or bf16 where the processor multiplies that faster.
    batch_tokens : tokens in a batch, padding included.

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
        pooling: str = "mean@-1",
        max_length: int | None = None,
        precision: str = "fp32",
        batch_tokens: int = 4096,
    ) -> None:
        if precision not in PRECISIONS:
            raise InputError(f"precision={precision!r}; expected {' or '.join(PRECISIONS)}")
        self.precision = precision
        self._pooling = parse_pooling(pooling)
        self._files = find_model(model)
        self._tokenizer, self._model = _load(self._files)
        config = self._model.config
        self.dim: int = config.hidden_size
        self._pooling.check_layers(config.num_hidden_layers)
        positions = getattr(config, "max_position_embeddings", self._tokenizer.model_max_length)
        longest = min(self._tokenizer.model_max_length, positions)
        self.max_length = min(DEFAULT_LENGTH, longest) if max_length is None else max_length
        if not 3 <= self.max_length <= longest:
            raise InputError(f"max_length={max_length}; expected 3 to the model's {longest}")
        self.batch_tokens = batch_tokens

    def spec(self) -> dict[str, Any]:
        """Model, weights, pooling, length and precision."""
        return {
            "type": "transformer",
            "model": self._portable_name(),
            "sha256": self._files.sha256,
            "revision": getattr(self._model.config, "_commit_hash", None),
            "pooling": str(self._pooling),
            "max_length": self.max_length,
            "precision": self.precision,
        }

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Vectors (n, dim), in the order of the texts, not normalised."""
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        for low in range(0, len(texts), TOKENIZED_TEXTS):
            part = list(texts[low : low + TOKENIZED_TEXTS])
            tokens = self._tokenizer(part, truncation=True, max_length=self.max_length)
            lengths = [len(ids) for ids in tokens["input_ids"]]
            for batch in token_batches(lengths, self.batch_tokens):
                rows = [low + i for i in batch]
                out[rows] = self._forward({k: [v[i] for i in batch] for k, v in tokens.items()})
        return out

    def _forward(self, tokens: dict[str, list[list[int]]]) -> Matrix:
        import torch

        inputs = self._tokenizer.pad(tokens, return_tensors="pt")
        half = torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bf16")
        with torch.inference_mode(), half:
            output = self._model(**inputs, output_hidden_states=self._pooling.needs_all_layers)
            states = output.hidden_states or [output.last_hidden_state]
            vectors = pool(states, inputs["attention_mask"], self._pooling)
        array: Matrix = vectors.float().numpy()
        return array

    def _portable_name(self) -> str:
        """A folder by its path; a packaged model or hub id by its name, which holds anywhere."""
        return self._files.location if os.path.isdir(self._files.name) else self._files.name


def token_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices in batches, longest first, each batch's longest x size within `budget`.

    >>> list(token_batches([3, 9, 4, 8], budget=18))
    [[1, 3], [2, 0]]
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    while order:
        size = max(1, budget // max(lengths[order[0]], 1))
        yield order[:size]
        order = order[size:]


def encoder_from_spec(spec: dict[str, Any]) -> TransformerEncoder:
    """The encoder that an index was built with, checked to be the same.

    Raises
    ------
    InputError
        If its weights are not the ones that the index was built with.
    """
    if spec.get("type") != "transformer":
        raise InputError(f"this index was built with {spec!r}: pass that encoder to open()")
    encoder = TransformerEncoder(
        spec["model"],
        pooling=spec["pooling"],
        max_length=spec["max_length"],
        precision=spec["precision"],
    )
    found = encoder.spec()
    for key in ("sha256", "revision"):
        if found[key] != spec.get(key):
            raise InputError(
                f"model {spec['model']!r} has {key} {found[key]}; "
                f"the index was built with {spec.get(key)}"
            )
    return encoder


def _load(files: ModelFiles) -> tuple[Any, Any]:
    """Tokenizer and model in evaluation mode, float32, from safetensors only."""
    # transformers takes over a second to import and is not needed to look at an index.
    import huggingface_hub
    import transformers
    from safetensors import SafetensorError

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    huggingface_hub.logging.set_verbosity_error()
    on_hub = not files.is_local and hub_reachable(huggingface_hub.constants.ENDPOINT)
    options = {"local_files_only": not on_hub, "trust_remote_code": False}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(files.location, **options)
        model = transformers.AutoModel.from_pretrained(
            files.location, use_safetensors=True, dtype="float32", **options
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        if files.is_local or on_hub:
            reason = str(error).strip().splitlines()[0]
        else:
            reason = "the hub can't be reached"
        raise InputError(
            f"model {files.name!r}: {reason}; expected a folder with a transformers model, "
            f"{DEFAULT_MODEL} (the extra 'minilm') or a hub id"
        ) from error
    if model.config.is_encoder_decoder:
        raise InputError(f"model {files.name!r}: has a decoder too; expected an encoder")
    if tokenizer.pad_token is None:  # decoders have none; what pads is masked anyway
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    return tokenizer, model.eval()
