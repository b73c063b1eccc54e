"""`slimdex demo`: the standard library's docstrings, searched in a fraction of the memory."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

SOURCE = "python:"
QUERIES = (
    "remove a directory tree",
    "parse a date from a string",
    "run a command and capture its output",
    "find the most common elements",
    "wait until several threads have finished",
)
SAMPLE = 200
"""Sentences of docstrings that are searched for the table."""
READING = (
    "Answers to five questions, best first, found by meaning and by words together. The number is "
    "the similarity of meaning, at most 1; (words) marks answers that owe their place to words."
)


def demo(out: Annotated[Path, "Folder for the demo's index."] = Path("slimdex-demo.index")) -> None:
    """Index the docstrings of Python's standard library, search them, and compare the memory."""
    from slimdex.retrieval.collection import Collection
    from slimdex.retrieval.quality.evaluation.measures import evaluate_self

    from ... import answers, console, reports

    if not _is_complete(out):
        _build(out)
    with Collection.open(out) as collection:
        cut = collection.info()["passages"]["documents_cut"]
        passages = f", {cut:,} long ones as several passages" if cut else ""
        console.line(f"{len(collection):,} docstrings in {out}{passages}")
        console.prose(READING)
        console.line("")
        answered = collection.search_many(QUERIES, limit=3)
        for query, hits in zip(QUERIES, answered, strict=True):
            answers.show_hits(query, hits)
        with console.progress():
            report = evaluate_self(collection.index, sample=SAMPLE)
        console.line("")
        reports.show_evaluation(report)
        console.line("")
        console.line(f"Try your own: {_command()} search {out} sort a list")


def _command() -> str:
    """Return the command as the user can type it: its path if the shell does not find it."""
    called = Path(sys.argv[0])
    is_hidden = called.name == "slimdex" and shutil.which("slimdex") is None
    return str(called) if is_hidden else "slimdex"


def _build(out: Path) -> None:
    from slimdex.indexes.settings import Settings
    from slimdex.retrieval.encoders.transformer import TransformerEncoder
    from slimdex.retrieval.operations.building import Sources
    from slimdex.retrieval.operations.building import build as build_index

    from ... import console

    with console.progress():
        sources = Sources.open([SOURCE])
        collection, _ = build_index(out, sources, TransformerEncoder, Settings())
        collection.close()


def _is_complete(path: Path) -> bool:
    from slimdex.retrieval.collection import Collection

    if not path.exists():
        return False
    with Collection.open(path) as collection:
        return collection.index.state.settings is not None
