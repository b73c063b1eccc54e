"""`slimdex distill`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import listening

from ... import console
from ...options.click_commands import Argument
from ...options.opening import Json, Trust
from ...options.sources import Text, note_if_typed


def distill(
    model: Annotated[
        str,
        Argument("MODEL", "A transformer, or word vectors, as for `build --model`."),
    ],
    out: Annotated[Path, "A new folder, which `build --model` takes."],
    dim: Annotated[
        int | None, "Dimensions to keep, by PCA; default: 256, or all of word vectors."
    ] = None,
    sif: Annotated[
        bool,
        "Weight words by their frequency in --corpus, and remove what the vectors of its "
        "texts have in common.",
    ] = False,
    corpus: Annotated[
        list[str] | None, "Texts like those to be searched, a source as for build; can be repeated."
    ] = None,
    frequencies: Annotated[
        Path | None, "A file with a word and its count per line, instead of --corpus's counts."
    ] = None,
    text: Text = None,
    trust_remote_code: Trust = False,
    as_json: Json = False,
) -> None:
    """Distill a transformer into static word vectors: less accurate, and many times as fast."""
    from slimdex.retrieval.atomic_files import check_new
    from slimdex.retrieval.encoders.distillation import distill as distilled

    if sif != bool(corpus or frequencies):
        raise InputError(
            "distill: expected --sif with --corpus or --frequencies, or none of the three"
        )
    check_new(out)
    texts = _texts(corpus, text) if corpus else None
    with console.progress():
        encoder = distilled(
            model,
            out,
            dim=dim,
            texts=texts,
            frequencies=frequencies,
            trust_remote_code=trust_remote_code,
        )
    facts = {"tokens": encoder.vectors.tokens, "dimensions": encoder.dim, "folder": str(out)}
    if as_json:
        console.print_json(facts)
    else:
        console.line(f"{facts['tokens']:,} tokens of {encoder.dim} dimensions in {out}")


def _texts(corpus: list[str], text: str | None) -> Iterator[str]:
    from slimdex.retrieval.asked_sources import AskedSources

    note_if_typed(corpus)
    with listening(note=console.note):
        opened = AskedSources(corpus, text).opened()
    return (document.content for document in opened.documents())
