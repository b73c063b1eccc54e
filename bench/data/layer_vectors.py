"""Layers: every layer's pooled vector of every sentence, from one pass, kept on disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, batches
from slimdex.indexes.progress import progress
from slimdex.indexes.vector_file import VectorFile
from slimdex.retrieval.encoders.opened import OpenedEncoder
from slimdex.retrieval.encoders.pooling import WK

from .cached_vectors import WINDOW, content_key
from .pairs import Pairs

OWN = "own"
"""Stands for the model's own pooling with all that follows it, in place of a mode."""
WHOLE = (OWN, WK)
"""Modes that give one vector a text, not one a layer."""


@dataclass(frozen=True)
class Layers:
    """Pooled vectors by sentence and layer.

    Attributes
    ----------
    vectors : (sentences, layers + 1, width), layer 0 the embedding output; memory-mapped. Of modes
        that are `WHOLE` there is one layer only, which stands for all.
    """

    sentences: dict[str, int]
    vectors: NDArray[np.float32]

    @property
    def count(self) -> int:
        """Layers, the embeddings among them."""
        return int(self.vectors.shape[1])

    def of(self, sentences: Sequence[str], layers: Iterable[int]) -> Matrix:
        """Vectors (n, width): the average of some layers, for each sentence."""
        rows = np.array([self.sentences[sentence] for sentence in sentences], dtype=np.intp)
        chosen = [layer % self.count for layer in layers]
        total = self.vectors[rows, chosen[0]].astype(np.float32)
        for layer in chosen[1:]:
            total += self.vectors[rows, layer]
        out: Matrix = total / len(chosen)
        return out

    def of_pairs(self, pairs: Pairs, layers: Sequence[int]) -> tuple[Matrix, Matrix]:
        """The vectors (n, width) of the first and of the second sentences."""
        return self.of(pairs.first, layers), self.of(pairs.second, layers)


def encoded_layers(
    encoder: OpenedEncoder, sentences: Sequence[str], mode: str, folder: Path
) -> Layers:
    """Every layer of every sentence, pooled by `mode`; if that is `WHOLE`, by the encoder.

    What is in the folder already is not encoded again; a run that was killed goes on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shape = (1, encoder.dim) if mode in WHOLE else (encoder.layers + 1, encoder.width)
    size = int(np.prod(shape))
    path = folder / f"{content_key(encoder, sentences)}-{mode}.f32"
    row_bytes = size * np.dtype(np.float32).itemsize
    file = VectorFile(path, size, path.stat().st_size // row_bytes if path.exists() else 0, "f4")
    for part in batches(len(sentences), WINDOW, len(file)):
        texts = sentences[part]
        found = encoder.encode(texts) if mode in WHOLE else encoder.encode_layers(texts, mode)
        file.append(found.reshape(len(texts), size))
        progress(f"encoding ({mode})", part.stop, len(sentences))
    array = np.memmap(path, np.float32, "r", shape=(len(sentences), *shape))
    return Layers({sentence: i for i, sentence in enumerate(sentences)}, array)
