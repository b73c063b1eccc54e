"""Encoders: `slimdex models` and `migrate`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from slimdex.errors import InputError

from ..encoders.pooling import MODE_NAMES
from . import console
from .click_commands import Answer
from .options import (
    ApiKeyFile,
    Dir,
    Labels,
    Trust,
    WriteOptions,
    open_index,
    user_queries,
)

if TYPE_CHECKING:
    from ..encoders.base import Encoder
    from ..index import Index
    from ..quality.migration import Migration

Pooling = Annotated[
    str | None,
    f"How token vectors are pooled: {MODE_NAMES}, + to join vectors, and @ with the layers to "
    "average: mean@1,-1; default: the model's own, or mean@-1. For word vectors: mean or sif.",
]
MaxLength = Annotated[
    int | None, "Most tokens to read of a text; default: the model's own, or 256."
]


@dataclass(frozen=True)
class EncoderOptions:
    """The encoder of a new index."""

    model: Annotated[
        str | None,
        "The encoder's model: a folder, a file of word vectors, a hub id, a name of "
        "`slimdex models`, or a server's http://HOST/v1#NAME; default: all-MiniLM-L6-v2, or none "
        "with --vectors.",
    ] = None
    pooling: Pooling = None
    max_length: MaxLength = None
    precision: Annotated[str, "Precision to encode in: auto, fp32, bf16, fp16 or int8."] = "auto"
    query_prompt: Annotated[
        str | None, "Text before each query; default: the model's own prompt."
    ] = None
    document_prompt: Annotated[
        str | None, "Text before each document; default: the model's own prompt."
    ] = None
    trust_remote_code: Trust = False
    dimensions: Annotated[
        int | None, "Dimensions to ask a server for; default: all that its model has."
    ] = None
    api_key_file: ApiKeyFile = None

    def open(self) -> Encoder:
        """Load the encoder."""
        # Loads numpy, and what downloads models.
        from ..encoders.models import DEFAULT_MODEL
        from ..encoders.opening import open_encoder

        model = DEFAULT_MODEL if self.model is None else self.model
        return open_encoder(**asdict(self) | {"model": model})


def models(
    distill: Annotated[
        str | None,
        "MODEL",
        "Instead, make static word vectors of a transformer, or of others: less accurate, and "
        "many times as fast.",
    ] = None,
    *,
    out: Annotated[Path | None, "A new folder for them, which `build --model` takes."] = None,
    dim: Annotated[
        int | None, "Dimensions to keep, by PCA; default: 256, or all of word vectors."
    ] = None,
    corpus: Annotated[
        list[str] | None,
        "Weight words by their frequency in texts like those to be searched, a source as for "
        "build, and remove what their vectors have in common (SIF); can be repeated.",
    ] = None,
    frequencies: Annotated[Path | None, "For SIF, a file with a word and its count per line."] = (
        None
    ),
    trust_remote_code: Trust = False,
) -> Answer:
    """List well-known small encoders, whose names `--model` takes; or make one."""
    if (distill is None) != (out is None):
        raise InputError("models: expected both --distill and --out, or neither")
    if distill is None or out is None:
        from ..encoders.models import KNOWN  # loads subprocess and zipfile

        return Answer({name: asdict(model) for name, model in KNOWN.items()}, _show_models)

    # Loads numpy and readers of models.
    from slimdex.system.atomic_files import check_new

    from ..encoders.distillation import distill as distilled
    from ..sources.source import Sources

    check_new(out)
    with console.progress():
        texts = (each.content for each in Sources.open(corpus).documents()) if corpus else None
        encoder = distilled(
            distill,
            out,
            dim=dim,
            texts=texts,
            frequencies=frequencies,
            trust_remote_code=trust_remote_code,
        )
    facts = {"tokens": encoder.vectors.tokens, "dimensions": encoder.dim, "folder": str(out)}
    return Answer(facts, f"{facts['tokens']:,} tokens of {encoder.dim} dimensions in {out}")


def _show_models() -> None:
    from ..encoders.models import KNOWN  # loaded by `models`

    heads = ("model", "M weights", "languages", "dim", "tokens", "licence", "nDCG@10", "")
    rows = []
    for name, model in KNOWN.items():
        row = (
            name,
            f"{model.parameters}",
            model.languages,
            f"{model.dimensions}",
            f"{model.tokens:,}",
            model.licence,
            "" if model.score is None else f"{model.score:.2f} ({model.measure})",
            "needs the extra torch" if model.needs_torch else "",
        )
        rows.append(row)
    console.show_table(heads, rows)
    console.line("")
    console.prose(
        "nDCG@10 times 100, as published; --json names the sources. Models are downloaded from the "
        "hub at the first use."
    )


def migrate(
    index: Dir,
    *,
    encoder: EncoderOptions,
    queries: Annotated[Path | None, "Queries that have labels: any source with ids."] = None,
    qrels: Labels = None,
    sample: Annotated[
        int | None,
        "Documents to encode for the comparison, besides those that queries ask for; default: "
        "5,000.",
    ] = None,
    go_on: Annotated[
        bool, "--continue", "Encode all documents again, by MODEL or that of the last run."
    ] = False,
    minutes: Annotated[
        float | None, "With --continue: end after so many minutes; the next run goes on."
    ] = None,
    undo: Annotated[bool, "Drop unfinished new vectors."] = False,
    writing: WriteOptions,
) -> Answer:
    """Measure what another encoder would give; change to it by encoding all documents again."""
    # Loads numpy and FAISS, as the two functions below do.
    from ..ingest.replacing import undo as drop_new_vectors

    # Exactly one of the three options, except that --continue accepts --model.
    encodes = go_on or encoder.model is not None
    if undo == encodes:
        raise InputError("migrate: expected --model, --continue or --undo")
    is_comparison = not (go_on or undo)
    if (minutes is not None and not go_on) or ((queries or sample) and not is_comparison):
        raise InputError(
            "migrate: expected --minutes with --continue; --queries and --sample with --model alone"
        )
    if is_comparison and (queries is None or qrels is None):
        raise InputError("migrate: expected --queries and --qrels to compare by, or --continue")
    labelled = user_queries(queries, qrels)
    opened = open_index(index, writing=writing)
    if undo:
        drop_new_vectors(opened)
        return Answer({"undone": True}, f"{index}: the unfinished new vectors are dropped")
    if go_on:
        return _encode_again(index, opened, encoder, minutes)
    # Loads what measures, which --continue does without.
    from ..quality.migration import migrate as compare

    with console.progress():
        migration = compare(opened, encoder.open(), labelled, sample)
    return Answer(migration.as_dict(), partial(_show_migration, migration))


def _encode_again(
    index: Path, opened: Index, encoder: EncoderOptions, minutes: float | None
) -> Answer:
    """Encode the documents again, for `migrate --continue`, in at most `minutes`."""
    from ..ingest.replacing import next_encoder, replace_vectors  # loaded by `migrate`

    with console.progress():
        # Without --model, use the encoder of the last run.
        new_encoder = next_encoder(opened) if encoder.model is None else encoder.open()
        seconds = inf if minutes is None else 60 * minutes
        replaced = replace_vectors(opened, new_encoder, seconds)
    for text in replaced.notes:
        console.note(text)
    text = f"{index} has the new encoder and its vectors"
    if not replaced.finished:
        text = f"{replaced.rows:,} of {replaced.total:,} encoded again; --continue goes on"
    return Answer(asdict(replaced), text)


def _show_migration(migration: Migration) -> None:
    """Print a row for each option, then the advice and its reason."""
    rows = []
    for option in migration.options:
        row = (
            option.name,
            f"{100 * option.estimate:.1f}",
            f"{100 * option.bound:.1f}",
            "" if option.gain is None else f"{100 * option.gain:+.1f}",
            "" if option.gain_bound is None else f"{100 * option.gain_bound:+.1f}",
            f"{option.hours:.2f}",
        )
        rows.append(row)
    console.show_table(["option", "nDCG@10", "at least", "gain", "gain at least", "hours"], rows)
    console.line("")
    console.line(
        f"by {migration.queries:,} queries with labels among {migration.searched:,} documents that "
        "both encoded; to encode again is advised if a gain is certain (95%)"
    )
    console.line(f"advice: {migration.advice}")
    console.line("--continue encodes all documents again")
