"""Build an index: `slimdex build`, and `demo` of the standard library's docstrings."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from slimdex.errors import InputError, SlimdexError

from . import console
from .click_commands import Answer
from .default_index import INDEX_FOLDER, INDEX_VARIABLE, new_index
from .encoders import EncoderOptions
from .facts import facts_after, show_evaluation
from .interrupts import STOPPED_MESSAGE, say_when_stopped
from .options import NoEncode, RayOptions, SourceOptions, Vectors, WriteOptions
from .settings import SettingsOptions, StorageOptions

if TYPE_CHECKING:
    from ..encoders.base import Encoder

DEMO_QUERIES = (
    "remove a directory tree",
    "parse a date from a string",
    "run a command and capture its output",
    "find the most common elements",
    "wait until several threads have finished",
)
DEMO_SAMPLE = 200
"""Sentences of docstrings that are searched for the table."""


def build(
    sources: SourceOptions,
    encoder: EncoderOptions,
    settings: SettingsOptions,
    storage: StorageOptions,
    cluster: RayOptions,
    writing: WriteOptions,
    out: Annotated[
        Path | None,
        f"A new folder for the index; default: {INDEX_VARIABLE}, or {INDEX_FOLDER} here.",
    ] = None,
    vectors: Vectors = None,
    no_encode: NoEncode = False,
    fast: Annotated[
        bool,
        "Encode by word vectors of the default model, in a fraction of the time: as good for "
        "source code, worse for other texts; `migrate` changes to the model itself later.",
    ] = False,
) -> Answer:
    """Build an index. If it is interrupted, run the same command to continue."""
    # Loads numpy, FAISS and readers of files, a third of a second.
    from slimdex.system.atomic_files import offer

    from ..building import build as build_index
    from ..building import choose_settings
    from ..encoders.adapters import GivenEncoder
    from ..encoders.models import FAST_MODEL
    from ..sources.source_request import remember_sources

    if fast and (encoder != EncoderOptions() or vectors is not None):
        raise InputError("build: --fast beside another encoder or vectors; expected one of them")
    wanted = settings.settings()

    # Where to build the index, and from which sources.
    path = out or new_index()
    offer(path.absolute())  # for temporary files, if no other folder is writable
    source_request = sources.collect(vectors)
    with console.progress():
        opened = source_request.open()

    def make_encoder() -> Encoder:
        if fast:
            return replace(encoder, model=FAST_MODEL).open()
        if encoder.model is None and opened.vectors is not None:
            return GivenEncoder(opened.vectors.dim)
        return encoder.open()

    # Build it.
    is_default = encoder == EncoderOptions() and vectors is None and not fast
    faster = " (with --fast, about a twentieth of that)" if is_default else ""
    complete = f"stopped; all documents are in {path} and can be searched"
    say_when_stopped(lambda: complete if _is_built(path) else STOPPED_MESSAGE)
    with cluster.start() as workers, console.progress(faster=faster):
        index, added = build_index(
            path,
            opened,
            make_encoder,
            wanted,
            vector_dtype=storage.vector_dtype,
            passages=storage.passage_tokens,
            lexical=not storage.no_lexical,
            workers=workers,
            encode=not no_encode,
            **vars(writing),
        )
    remember_sources(index.path, [source_request], index.state.origins)
    with closing(index), console.progress():
        notes = choose_settings(index, keep_metric=settings.has_metric)
        facts = facts_after(index, replace(added, notes=[*added.notes, *notes]))

    def show() -> None:
        console.line(console.index_line(facts))
        console.line("Search them:")
        console.line(f"  {console.search_command(path)}")

    return Answer(facts, show, min(added.unread, 1))


def _is_built(path: Path) -> bool:
    """Return whether a folder has an index that contains all documents of its build."""
    from ..store.manifest import Manifest  # loaded by the build

    with suppress(OSError, SlimdexError):
        state = Manifest.read(path).state
        return state.settings is not None and not state.building and not state.waits
    return False


def demo(out: Annotated[Path, "Folder for the demo's index."] = Path("slimdex-demo.index")) -> None:
    """Index the docstrings of Python's standard library, search them, and compare the memory."""
    # Loads numpy, FAISS and what builds, searches and measures.
    from slimdex.indexes.settings import Settings

    from ..building import build as build_index
    from ..encoders.transformer import TransformerEncoder
    from ..index import Index
    from ..quality.evaluation import evaluate_self
    from ..search.request import SearchRequest, answer
    from ..sources.source import Sources
    from .answers import show_hits

    if not _is_built(out):
        with console.progress():
            sources = Sources.open(["python:"])
            built, _ = build_index(out, sources, TransformerEncoder, Settings())
            built.close()
    with closing(Index.open(out)) as index:
        console.line(f"{len(index.snapshot):,} docstrings in {out}")
        console.line("")
        hits_of_queries = answer(SearchRequest(texts=DEMO_QUERIES, limit=3), index.find)
        for query, hits in zip(DEMO_QUERIES, hits_of_queries, strict=True):
            show_hits(query, hits)
        with console.progress():
            report = evaluate_self(index, sample=DEMO_SAMPLE)
        console.line("")
        show_evaluation(report)
        console.line("")
        console.line(f"Try your own: {console.shell_command('search', out, 'sort', 'a', 'list')}")
