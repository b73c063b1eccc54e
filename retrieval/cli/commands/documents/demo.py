"""`slimdex demo`: the standard library's docstrings, searched in a fraction of the memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from collections.abc import Callable

    from slimdex.indexes.arrays import Matrix, Rows

    from ....collection import Collection

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


def demo(out: Annotated[Path, "Folder for the demo's index."] = Path("slimdex-demo.index")) -> None:
    """Index the docstrings of Python's standard library, search them, and compare the memory."""
    from ....collection import Collection
    from ... import answers, console

    if not _is_complete(out):
        _build(out)
    with Collection.open(out, read_only=True) as collection:
        console.line(f"{len(collection):,} docstrings in {out}")
        found = collection.search_many(QUERIES, limit=3)
        for query, hits in zip(QUERIES, found, strict=True):
            answers.show_hits(query, hits)
        with console.progress():
            table = comparison(collection)
        console.line("")
        console.show_measures(table)
        console.line("")
        console.line(f"Try your own: slimdex search {out} sort a list")


def _build(out: Path) -> None:
    from slimdex.indexes.settings import Settings

    from ....encoders.transformer import TransformerEncoder
    from ....operations.building import Sources
    from ....operations.building import build as build_index
    from ... import console

    with console.progress():
        sources = Sources.open([SOURCE])
        collection, added = build_index(
            out, sources, TransformerEncoder, Settings(), passages="off"
        )
        collection.close()
    for line in added.notes:
        console.note(line)


def _is_complete(path: Path) -> bool:
    from ....collection import Collection

    if not path.exists():
        return False
    with Collection.open(path, read_only=True) as collection:
        return collection.core.state.settings is not None


def comparison(collection: Collection) -> dict[str, dict[str, float | None]]:
    """Measure bytes per vector, and how often documents are found by their name and by some words.

    Speed is left to `slimdex eval`: with so few documents, the processor decides which is faster.
    """
    from ....quality.evaluation.exact_search import ExactSearch
    from ....quality.info import word_bytes
    from ....trials.query_pools import encoded

    core = collection.core
    step = max(core.state.rows // MEASURED, 1)
    asked = core.store.documents.read(range(0, core.state.rows, step))
    exact, words = ExactSearch(core), core.snapshot.words
    assert words is not None
    ours, disk = collection.info()["memory"], word_bytes(core.snapshot)
    queries = {
        "documents found by name": [document.id for document in asked.values()],
        "by every second word": [
            " ".join(document.text.split(". ")[0].split()[::2]) for document in asked.values()
        ],
    }
    table: dict[str, dict[str, float | None]] = {
        name: {"bytes a vector in RAM": ram, "bytes a vector of words on disk": lexical}
        for name, ram, lexical in (
            ("slimdex", ours["ram_bytes_per_vector"], disk),
            ("meaning alone", ours["ram_bytes_per_vector"], None),
            ("float32, exact", exact.memory()["ram_bytes_per_vector"], None),
            ("BM25", None, disk),
        )
    }
    for measure, texts in queries.items():
        vectors = encoded(core.encoder, texts)[:, None]
        searches: dict[str, Callable[[str, Matrix], Rows]] = {
            "slimdex": lambda text, vector: core.ranked(text, vector, 10)[1],
            "meaning alone": lambda _, vector: core.nearest(vector, 10)[1],
            "float32, exact": lambda _, vector: exact(vector, 10)[1],
            "BM25": lambda text, _: words.search(text, 10).rows,
        }
        for name, search in searches.items():
            found = [search(*each) for each in zip(texts, vectors, strict=True)]
            hits = [row in rows for row, rows in zip(asked, found, strict=True)]
            table[name][measure] = sum(hits) / len(hits)
    return table
