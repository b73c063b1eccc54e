"""`slimdex demo`: the standard library's docstrings, searched in a fraction of the memory."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from collections.abc import Callable

    from slimdex.indexes.arrays import Matrix, Rows
    from slimdex.retrieval.collection import Collection

SOURCE = "python:"
QUERIES = (
    "remove a directory tree",
    "parse a date from a string",
    "run a command and capture its output",
    "find the most common elements",
    "wait until several threads have finished",
)
MEASURED = 200
"""Documents searched for the table, from all over the collection."""
READING = (
    "Answers to five questions, best first, found by meaning and by words together. The number is "
    "the similarity of meaning, at most 1; (words) marks answers that owe their place to words."
)
COMPARED = (
    "Is the right docstring among the first ten answers? For {count} docstrings, asked for by name "
    "and by every second word of their first sentence, with the memory that a vector takes:"
)


def demo(out: Annotated[Path, "Folder for the demo's index."] = Path("slimdex-demo.index")) -> None:
    """Index the docstrings of Python's standard library, search them, and compare the memory."""
    from slimdex.retrieval.collection import Collection

    from ... import answers, console

    if not _is_complete(out):
        _build(out)
    with Collection.open(out) as collection:
        cut = collection.info()["passages"]["documents_cut"]
        passages = f", {cut:,} long ones as several passages" if cut else ""
        console.line(f"{len(collection):,} docstrings in {out}{passages}")
        console.prose(READING)
        console.line("")
        found = collection.search_many(QUERIES, limit=3)
        for query, hits in zip(QUERIES, found, strict=True):
            answers.show_hits(query, hits)
        with console.progress():
            count, rows = comparison(collection)
        console.line("")
        console.prose(COMPARED.format(count=count))
        console.show_table(["", "bytes in memory", "by name", "by words"], rows)
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
        return collection.state.settings is not None


def comparison(collection: Collection) -> tuple[int, list[list[str]]]:
    """Return how many documents are searched for, and a row for each kind of search.

    A row has its name, bytes per vector, and shares of documents found by name and by some words.
    Speed is left to `slimdex eval`: with so few documents, the processor decides which is faster.
    """
    from slimdex.retrieval.quality.evaluation.exact_search import ExactSearch
    from slimdex.retrieval.trials.query_pools import encoded

    core = collection
    ids = core.store.ids.by_row(core.state.rows)
    step = max(len(ids) // MEASURED, 1)
    asked = [*core.store.documents.read(range(0, len(ids), step)).values()]
    exact, words = ExactSearch(core), core.snapshot.words
    assert words is not None
    ours = collection.info()["memory"]["ram_bytes_per_vector"]
    searches: dict[str, tuple[float | None, Callable[[str, Matrix], Rows]]] = {
        "slimdex": (ours, lambda text, vector: core.ranked(text, vector, 10)[1]),
        "slimdex, meaning alone": (ours, lambda _, vector: core.nearest(vector, 10)[1]),
        "uncompressed vectors": (
            exact.memory()["ram_bytes_per_vector"],
            lambda _, vector: exact(vector, 10)[1],
        ),
        "words alone (BM25)": (None, lambda text, _: words.search(text, 10).rows),
    }
    table = {
        name: [name, "on disk" if size is None else f"{size:,.0f}"]
        for name, (size, _) in searches.items()
    }
    for texts in (
        [document.id for document in asked],
        [" ".join(document.text.split(". ")[0].split()[::2]) for document in asked],
    ):
        vectors = encoded(core.encoder, texts)[:, None]
        for name, (_, search) in searches.items():
            found = [search(*each) for each in zip(texts, vectors, strict=True)]
            hits = [
                document.id in {ids[row] for row in rows.ravel() if row >= 0}
                for document, rows in zip(asked, found, strict=True)
            ]
            table[name].append(f"{sum(hits) / len(hits):.0%}")
    return len(asked), [*table.values()]
