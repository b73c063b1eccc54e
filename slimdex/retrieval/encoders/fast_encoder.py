"""FastEncoder: word vectors distilled from the default model, made once for each user."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from slimdex.system.progress import note
from slimdex.system.user_cache import cached_folder

from .distillation import distilled
from .models import DEFAULT_MODEL, FAST_MODEL, PACKAGED
from .word_vectors.folder import write_static
from .word_vectors.static_encoder import StaticEncoder

RECIPE = 1
"""Increased with every change of how the vectors are made."""
DIMENSIONS = 384
"""All of the model's: vectors made on different machines are comparable then."""
PASSAGE_TOKENS = 128
"""Tokens of a passage: the mean of more words says little of each."""
SHA256 = hashlib.sha256(f"{PACKAGED[DEFAULT_MODEL].sha256} {RECIPE}".encode()).hexdigest()
"""Identity of the vectors: the weights that they are made from, and how. Their last bits may differ
between machines, as those of the default model's do."""


class FastEncoder(StaticEncoder):
    """Encoder by word vectors of the default model, many times as fast as that.

    The vectors are kept in the user's cache folder, and made again if they are missing there.

    Attributes
    ----------
    max_length : tokens of a passage by default; longer texts are read whole.

    Raises `InputError` if the vectors are missing and the default model can't be found.
    """

    max_length = PASSAGE_TOKENS

    def __init__(self) -> None:
        super().__init__(cached_folder(f"distilled-{SHA256[:32]}", _distill))

    def spec(self) -> dict[str, Any]:
        """Return the model's name, and the identity of its vectors."""
        return super().spec() | {"model": FAST_MODEL, "sha256": SHA256}


def _distill(folder: Path) -> None:
    note(f"distilling {DEFAULT_MODEL} into word vectors, only this once")
    write_static(folder, distilled(DEFAULT_MODEL, dim=DIMENSIONS, precision="auto").vectors)
