"""Encoders: `slimdex models` and `distill`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import listening

from ... import console
from ...options.click_commands import Argument
from ...options.opening import Json, Trust
from ...options.sources import Text, note_if_typed

if TYPE_CHECKING:
    from slimdex.retrieval.encoders.choice.known_models import KnownModel


def models(as_json: Json = False) -> None:
    """List well-known small encoders; `--model` takes their names."""
    from slimdex.retrieval.encoders.choice.known_models import BEIR, KNOWN, MULTILINGUAL

    if as_json:
        console.print_json({name: asdict(model) for name, model in KNOWN.items()})
        return
    heads = ("model", "M weights", "languages", "dim", "tokens", "licence", "BEIR", "MTEB", "")
    rows = [
        (
            name,
            f"{model.parameters}",
            model.languages,
            f"{model.dimensions}",
            f"{model.tokens:,}",
            model.licence,
            *(_score(model, measure) for measure in (BEIR, MULTILINGUAL)),
            "needs the extra torch" if model.needs_torch else "",
        )
        for name, model in KNOWN.items()
    ]
    console.show_table(heads, rows)
    console.line("")
    console.prose(
        "BEIR and MTEB (multilingual retrieval): published nDCG@10 times 100, where verified; "
        "--json names the sources. They are downloaded from the model hub at the first use."
    )


def _score(model: KnownModel, measure: str) -> str:
    is_known = model.score is not None and model.measure == measure
    return f"{model.score:.2f}" if is_known else ""


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
    text = f"{facts['tokens']:,} tokens of {encoder.dim} dimensions in {out}"
    console.show_result(facts, text, as_json)


def _texts(corpus: list[str], text: str | None) -> Iterator[str]:
    from slimdex.retrieval.sources.asked_sources import AskedSources

    note_if_typed(corpus)
    with listening(note=console.note):
        opened = AskedSources(corpus, text).opened()
    return (document.content for document in opened.documents())
