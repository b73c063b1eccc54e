"""`slimdex demo`: the standard library's docstrings, searched in a fraction of the memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
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
"""Queries measured for the table: first sentences of documents throughout the collection."""


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
        console.out.print()
        console.show_measures(table)
        console.out.print()
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


def comparison(collection: Collection) -> dict[str, dict[str, float]]:
    """Measure bytes per vector, and agreement of the first ten hits with exact search.

    Speed is left to `slimdex eval`: with so few documents, the processor decides which is faster.
    Whitening changes the order on purpose, so there are two agreements: with exact search over
    the encoder's vectors, and over the same vectors whitened, where only compression differs.
    """
    from slimdex.indexes.ranking import agreement

    from ....quality.evaluation.exact_search import ExactSearch, OwnMetricSearch
    from ....quality.evaluation.measures import timed
    from ....trials.query_pools import encoded

    core = collection.core
    step = max(core.state.rows // MEASURED, 1)
    stored = core.store.documents.read(range(0, core.state.rows, step))
    texts = [document.text.split(". ")[0] for document in stored.values()][:MEASURED]
    vectors = encoded(core.encoder, texts)
    exact_search = ExactSearch(core)
    ours = timed(core.nearest, vectors, 10)
    exact = timed(exact_search, vectors, 10)
    _, whitened = OwnMetricSearch(core)(vectors, 10)
    table = {}
    for name, results, resident in (
        ("slimdex", ours, collection.info()["memory"]),
        ("float32, exact", exact, exact_search.memory()),
    ):
        table[name] = {
            "bytes a vector in RAM": resident["ram_bytes_per_vector"],
            "fixed bytes in RAM": resident["ram_bytes_fixed"],
            "agreement with exact search": float(agreement(results.rows, exact.rows, 10).mean()),
            "agreement with it, whitened": float(agreement(results.rows, whitened, 10).mean()),
        }
    return table
