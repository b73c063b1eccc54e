"""Reranking: a cross-encoder reads query and document together and scores their match.

It takes some milliseconds per document, so it is applied only to the first hits of a search
(Nogueira and Cho 2019, "Passage Re-ranking with BERT").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.system.extras import require

from ..documents import Hit, content
from ..encoders.models import find_model

MOST_TOKENS = 512
"""Tokens of a pair that are read at most."""
TRAINED = ("ForSequenceClassification", "ForCausalLM")
"""Endings of architectures whose weights include those of the score."""


@lru_cache(maxsize=1)
def cross_encoder(model: str) -> CrossEncoder:
    """Load a cross-encoder, or return the one loaded last if it has this name."""
    return CrossEncoder(model)


class CrossEncoder:
    """A cross-encoder of sentence-transformers, with one score for a pair of texts.

    Parameters
    ----------
    model
        a folder, or a hub id.
    trust_remote_code
        run Python code that comes with it.

    Attributes
    ----------
    name
        the model.

    Raises
    ------
    InputError
        If there is no such model or, like a classifier, it does not have exactly one score.
    """

    def __init__(self, model: str | Path, *, trust_remote_code: bool = False) -> None:
        require(f"cross-encoder {model}", "torch")
        # Loads torch, of the extra, in seconds.
        import sentence_transformers
        from torch.nn import Identity

        self.name = str(model)
        try:
            folder = find_model(self.name, with_code=trust_remote_code).folder
            self._model: Any = sentence_transformers.CrossEncoder(
                str(folder),
                trust_remote_code=trust_remote_code,
                local_files_only=True,
                model_kwargs={"use_safetensors": True},
                activation_fn=Identity(),
            )
        except Exception as error:  # the library raises anything for a broken folder
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"cross-encoder {self.name}: none found ({reason})") from error

        # Weights that the folder lacks would be random.
        architecture = (self._model.config.architectures or [""])[0]
        count = self._model.num_labels
        if count != 1 or not architecture.endswith(TRAINED):
            raise InputError(
                f"cross-encoder {self.name}: {architecture} with {count} scores for a pair of "
                "texts; expected a model trained for 1, like cross-encoders for search"
            )
        self._model.max_seq_length = min(self._model.max_seq_length or MOST_TOKENS, MOST_TOKENS)

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Score how well each text (n,) answers a query; higher is better.

        The scale is the model's own. Texts are truncated to the tokens that it reads.
        """
        pairs = [(query, text) for text in texts]
        return np.asarray(self._model.predict(pairs, show_progress_bar=False), dtype=np.float32)

    def reranked(self, query: str, hits: Sequence[Hit], limit: int | None = None) -> list[Hit]:
        """Sort hits by the model's scores, best first."""
        scores = self.scores(query, [content(hit.title, hit.text) for hit in hits])
        order = np.argsort(-scores, kind="stable")[:limit]
        return [replace(hits[i], score=float(scores[i])) for i in order.tolist()]
