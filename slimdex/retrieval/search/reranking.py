"""Reranking: a cross-encoder reads query and document together and scores their match.

It takes some milliseconds per document, so it is applied only to the first hits of a search
(Nogueira and Cho 2019, "Passage Re-ranking with BERT").
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError, SlimdexError
from slimdex.indexes.arrays import batches
from slimdex.system.extras import require

from ..documents import Hit, content
from ..encoders.models import find_model

BATCH = 32
"""Pairs per batch."""
DEFAULT_TOKENS = 512
"""Tokens of a pair, if the model states no limit."""


@lru_cache(maxsize=1)
def cross_encoder(model: str) -> CrossEncoder:
    """Load a cross-encoder, or return the one loaded last if it has this name."""
    return CrossEncoder(model)


class CrossEncoder:
    """A transformer with one score for a pair of texts.

    Parameters
    ----------
    model : a folder, or a hub id.
    trust_remote_code : run Python code that comes with it.

    Attributes
    ----------
    name : the model.

    Raises
    ------
    InputError
        If there is no such model or, like a classifier, it does not have exactly one score.
    """

    def __init__(self, model: str | Path, *, trust_remote_code: bool = False) -> None:
        require(f"cross-encoder {model}", "torch")
        # Loads torch, of the extra, in seconds.
        from safetensors import SafetensorError
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        self.name = str(model)
        self._model: Any
        try:
            folder = find_model(self.name, with_code=trust_remote_code).folder
            options = {"trust_remote_code": trust_remote_code, "local_files_only": True}
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, **options)
            self._model, loaded = AutoModelForSequenceClassification.from_pretrained(
                folder, output_loading_info=True, **options
            )
        except (
            SlimdexError,
            OSError,
            ValueError,
            KeyError,
            RuntimeError,
            SafetensorError,
        ) as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"cross-encoder {self.name}: none found ({reason})") from error
        self._model.eval()
        self._check(loaded["missing_keys"])

    def _check(self, missing: Collection[str]) -> None:
        """Raise `InputError` unless the model has one trained score; set its maximum length.

        `missing` are the weights that its files lack.
        """
        labels = self._model.config.num_labels
        if missing:
            raise InputError(
                f"cross-encoder {self.name}: no trained score ({min(missing)} is missing); "
                "expected one"
            )
        if labels != 1:
            raise InputError(
                f"cross-encoder {self.name}: {labels} scores for a pair of texts; expected 1, like "
                "cross-encoders for search"
            )

        # Tokenizers without a limit report a huge one.
        limit = getattr(self._model.config, "max_position_embeddings", DEFAULT_TOKENS)
        self._length = min(int(self._tokenizer.model_max_length), int(limit), DEFAULT_TOKENS)

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Score how well each text (n,) answers a query; higher is better.

        The scale is the model's own. Texts are truncated to the tokens that it reads.
        """
        import torch  # loaded with the model

        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # little padding
        out = np.empty(len(texts), dtype=np.float32)
        for part in batches(len(order), BATCH):
            numbers = order[part]
            pairs = self._tokenizer(
                [query] * len(numbers),
                [texts[i] for i in numbers],
                padding=True,
                truncation="longest_first",
                max_length=self._length,
                return_tensors="pt",
            )
            with torch.inference_mode():
                out[numbers] = self._model(**pairs).logits[:, 0].float().numpy()
        return out

    def reranked(self, query: str, hits: Sequence[Hit], limit: int | None = None) -> list[Hit]:
        """Sort hits by the model's scores, best first."""
        scores = self.scores(query, [content(hit.title, hit.text) for hit in hits])
        order = np.argsort(-scores, kind="stable")[:limit]
        return [replace(hits[i], score=float(scores[i])) for i in order.tolist()]
