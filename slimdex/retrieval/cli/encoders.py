"""Encoders: `slimdex models`, `distill` and `migrate`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from slimdex.errors import InputError

from ..encoders.pooling import MODE_NAMES
from . import console
from .click_commands import Answer, Argument
from .options import (
    ApiKeyFile,
    Dir,
    Labels,
    Text,
    Trust,
    WriteOptions,
    note_if_typed,
    open_index,
)

if TYPE_CHECKING:
    from ..encoders.base import Encoder
    from ..encoders.models import KnownModel
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


def models() -> Answer:
    """List well-known small encoders; `--model` takes their names."""
    from ..encoders.models import KNOWN  # loads subprocess and zipfile

    return Answer({name: asdict(model) for name, model in KNOWN.items()}, _show_models)


def _show_models() -> None:
    from ..encoders.models import BEIR, KNOWN, MULTILINGUAL  # loaded by `models`

    heads = ("model", "M weights", "languages", "dim", "tokens", "licence", "BEIR", "MTEB", "")
    rows = []
    for name, model in KNOWN.items():
        row = (
            name,
            f"{model.parameters}",
            model.languages,
            f"{model.dimensions}",
            f"{model.tokens:,}",
            model.licence,
            _score(model, BEIR),
            _score(model, MULTILINGUAL),
            "needs the extra torch" if model.needs_torch else "",
        )
        rows.append(row)
    console.show_table(heads, rows)
    console.line("")
    console.prose(
        "BEIR and MTEB (multilingual retrieval): published nDCG@10 times 100, where verified; "
        "--json names the sources. They are downloaded from the model hub at the first use."
    )


def _score(model: KnownModel, measure: str) -> str:
    """Format a model's published score by a measure; "" if it is unknown."""
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
) -> Answer:
    """Distill a transformer into static word vectors: less accurate, and many times as fast."""
    # Loads numpy and readers of models.
    from slimdex.system.atomic_files import check_new

    from ..encoders.distillation import distill as distilled

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
    return Answer(facts, f"{facts['tokens']:,} tokens of {encoder.dim} dimensions in {out}")


def _texts(corpus: list[str], text: str | None) -> Iterator[str]:
    """Open the sources of --corpus, and return an iterator over the texts of their documents."""
    from ..sources.source_request import SourceRequest  # only with --corpus

    note_if_typed(corpus)
    with console.progress():
        opened = SourceRequest(corpus, text).open()
    return (document.content for document in opened.documents())


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
    if minutes is not None and not go_on:
        raise InputError("migrate: --minutes without --continue; expected both")
    if (go_on or undo) and (queries or qrels or sample is not None):
        raise InputError(
            "migrate: --continue or --undo with options of the comparison; expected it alone"
        )
    if (queries is None) != (qrels is None):
        raise InputError("migrate: --queries and --qrels; expected both or neither")
    opened = open_index(index, writing=writing)
    if undo:
        drop_new_vectors(opened)
        return Answer({"undone": True}, f"{index}: the unfinished new vectors are dropped")
    if go_on:
        return _encode_again(index, opened, encoder, minutes)
    return _compare(opened, encoder, queries, qrels, sample)


def _compare(
    opened: Index,
    encoder: EncoderOptions,
    queries: Path | None,
    qrels: Path | None,
    sample: int | None,
) -> Answer:
    """Measure the gain of another encoder, for `migrate` with --model alone."""
    # Loads what measures, which --continue does without.
    from ..quality.labels import UserQueries, read_qrels
    from ..quality.migration import migrate as compare
    from ..sources.source import read_pairs

    labels = read_qrels(qrels) if qrels else None
    pairs = read_pairs(str(queries)) if queries else None
    with console.progress():
        migration = compare(opened, encoder.open(), UserQueries.of(pairs, labels), sample)
    return Answer(migration.as_dict(), partial(_show_migration, migration))


def _encode_again(
    index: Path, opened: Index, encoder: EncoderOptions, minutes: float | None
) -> Answer:
    """Encode the documents again, for `migrate --continue`, in at most `minutes`."""
    from ..ingest.replacing import next_encoder, replace_vectors  # loaded by `migrate`

    with console.progress():
        # Without --model, use the encoder of the last run.
        new_encoder = next_encoder(opened) if encoder.model is None else encoder.open()
        seconds = None if minutes is None else 60 * minutes
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
        f"by {migration.queries:,} queries ({migration.pool}) among {migration.searched:,} "
        "documents that both encoded; 95% confidence"
    )
    console.line(f"advice: {migration.advice}")
    console.line("--continue encodes all documents again")
