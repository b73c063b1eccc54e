"""Options that experiments share, and parsers of their values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from slimdex.errors import InputError
from slimdex.retrieval.cli.encoders import MaxLength, Pooling

MEASURED = Path("bench-results")
"""Default folder of new rows, also for the report."""
Models = Annotated[str, "Models, as for `slimdex build --model`, separated by commas."]
Out = Annotated[Path, "Folder for the rows of results."]
Quick = Annotated[bool, "--quick", "Measure a small part, in under 3 minutes."]
CACHE = Path("bench-cache")
"""Folder where encoded vectors are kept."""


@dataclass(frozen=True)
class SetOptions:
    """Options of sets, models, and the folders of rows and vectors."""

    data: Annotated[Path | None, "Folder with sets in BEIR's layout."] = None
    sets: Annotated[
        str,
        "Sets, separated by commas: folders in DATA; docstrings: without DATA; all: "
        "all folders; tasks of mteb, such as NFCorpus, which are downloaded: without DATA; "
        "NAME-identifiers asks for the codes and names in a set's documents.",
    ] = "docstrings"
    models: Models = "all-MiniLM-L6-v2"
    out: Out = MEASURED
    precision: Annotated[
        str | None,
        "Precision to encode in: auto, fp32, bf16, fp16 or int8; default: fp32, but auto "
        "where encoding is timed.",
    ] = None
    pooling: Pooling = None
    max_length: MaxLength = None
    quick: Quick = False


def parse_names(option: str, words: str, known: list[str]) -> list[str]:
    """Parse names separated by commas; "" means all known names."""
    names = words.split(",") if words else known
    if unknown := [name for name in names if name not in known]:
        raise InputError(f"{option} {unknown[0]!r}; expected some of {', '.join(known)}")
    return names
