"""A note for the user about documents in languages that the encoder does not know."""

from __future__ import annotations

import numpy as np

from ..encoders.choice.known_models import ENGLISH, FOR_OTHER_LANGUAGES, named_like
from ..encoders.choice.languages import other_languages
from ..storage.snapshot import Snapshot

SAMPLE = 200
"""Documents whose language is detected."""


def language_notes(snapshot: Snapshot, first: int) -> list[str]:
    """A note if most of the documents from row `first` on are in unknown languages.

    Only models whose name is that of one that knows English alone are spoken of.
    """
    model = named_like(str(snapshot.state.encoder.get("model")))
    if model is None or model.languages != ENGLISH:
        return []
    rows = snapshot.live_documents()
    rows = rows[rows >= first]
    if not len(rows):
        return []
    sample = rows[np.unique(np.linspace(0, len(rows) - 1, SAMPLE).astype(np.int64))]
    share, language = other_languages(snapshot.store.documents.contents_of(sample))
    if share <= 0.5:
        return []
    return [
        f"{share:.0%} of these texts are not in English (most often {language}), the only language "
        f"of {model.name}: build a new index with the model {FOR_OTHER_LANGUAGES}, or another of "
        "`slimdex models`"
    ]
