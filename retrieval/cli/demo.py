"""The demonstration: the standard library's docstrings, searched in a fraction of the memory."""

from __future__ import annotations

from slimdex.indexes.ranking import agreement

from ..collection.collection import Collection
from ..collection.query_pools import encoded
from ..documents import Hit
from ..evaluation import timed
from ..exact_search import ExactSearch, OwnMetricSearch

SOURCE = "python:"
QUERIES = (
    "remove a directory tree",
    "parse a date from a string",
    "run a command and capture its output",
    "find the most common elements",
    "wait until several threads have finished",
)
MEASURED = 200
"""Queries behind the table: first sentences of documents spread over the collection."""


def answers(collection: Collection) -> list[list[Hit]]:
    """Three hits for each of the five queries."""
    return collection.search_many(QUERIES, limit=3)


def comparison(collection: Collection) -> dict[str, dict[str, float]]:
    """Bytes a vector and agreement of the first ten answers with exact search, for both.

    Which is faster depends on the processor at so few documents, and is left to `slimdex eval`.
    Whitening changes the order on purpose, so agreement is told twice: with exact search over
    the encoder's vectors, and over the same vectors whitened, where only compression differs.
    """
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
            "bytes once, whatever the size": resident["ram_bytes_fixed"],
            "agreement with exact search": float(agreement(results.rows, exact.rows, 10).mean()),
            "agreement with it, whitened": float(agreement(results.rows, whitened, 10).mean()),
        }
    return table
