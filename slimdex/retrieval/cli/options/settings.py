"""Options of how vectors are reduced, coded and stored."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from slimdex.indexes import options as choices
from slimdex.indexes.codes import kinds
from slimdex.indexes.errors import InputError

if TYPE_CHECKING:
    from slimdex.indexes.settings import Settings

DEFAULTS = choices.Choices()
K = Annotated[
    int | None,
    "Dimensions to keep of each vector: fewer take less memory and are less accurate; "
    "default of a new index: half.",
]
NoLexical = Annotated[bool, "Leave out the lexical index: searches are by meaning alone."]
Stored = Annotated[
    str,
    "How full vectors are stored on disk: fp16, or int8 in half the bytes, which finds "
    "as much unless gamma is near 1.",
]


@dataclass(frozen=True)
class SettingsOptions:
    """Options of reducing and coding vectors; None leaves a setting unchanged."""

    k: K = None
    beta: Annotated[
        float | None, "How much of the vectors' mean to subtract: 0 none, 1 all of it."
    ] = DEFAULTS.beta
    gamma: Annotated[
        float | None,
        "How far to equalize the variances of the vectors' principal directions "
        "(whitening): 0 not at all, which keeps the model's own ranking, 1 fully.",
    ] = DEFAULTS.gamma
    kind: Annotated[
        str | None,
        f"How reduced vectors are coded in memory: {', '.join(kinds.KINDS)} or any FAISS "
        f"factory string; auto: pq, or ivf-pq from {kinds.LISTS_FROM:,} documents.",
    ] = DEFAULTS.kind
    candidates: Annotated[
        str | None,
        "How many of the nearest by their codes to rescore with their full vectors, read "
        "from disk, for ten results, and proportionally more for a larger limit: more is "
        "more accurate and slower; 0: none, and no vector is read; auto: "
        f"{choices.CANDIDATES}, or more from {choices.CANDIDATES_TO:,} documents.",
    ] = choices.AUTO
    reducer: Annotated[
        str | None,
        f"How dimensions are reduced: {', '.join(choices.REDUCERS[:-1])} or "
        f"{choices.REDUCERS[-1]}.",
    ] = DEFAULTS.reducer

    def changes(self) -> dict[str, Any]:
        """Return the settings that are given, by their names in `Settings`.

        >>> UNCHANGED.changes(), SettingsOptions(8).changes()["candidates"]
        ({}, None)
        """
        given = {name: value for name, value in asdict(self).items() if value is not None}
        if "candidates" in given:
            given["candidates"] = parsed_candidates(given["candidates"])
        return given

    def settings(self) -> Settings:
        """Return the settings of a new index."""
        from slimdex.indexes.settings import Settings

        return Settings(**self.changes())


UNCHANGED = SettingsOptions(None, None, None, None, None, None)


@dataclass(frozen=True)
class StorageOptions:
    """Options of texts and vectors in a new index."""

    vector_dtype: Stored = "fp16"
    passages: Annotated[
        str,
        "TOKENS|off",
        "Cut longer texts into passages of this many tokens, each with a vector; default: "
        "as many as the encoder reads, if it has a limit; off: only the beginning of a longer "
        "text is found.",
    ] = "auto"
    no_lexical: NoLexical = False

    @property
    def passage_tokens(self) -> int | str:
        """Parse a number of tokens, auto or off."""
        return int(self.passages) if self.passages.isdecimal() else self.passages


def parsed_candidates(text: str) -> int | None:
    """Parse a number of candidates; None for auto.

    >>> parsed_candidates("auto"), parsed_candidates("400")
    (None, 400)
    """
    if text == choices.AUTO:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise InputError(f"candidates={text!r}; expected auto or a whole number") from error
