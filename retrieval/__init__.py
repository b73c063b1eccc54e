"""Documents: text in, hits out.

Files import only files above them: documents, columns, sql, vocabulary, where, files, pooling,
model_folder, models, sentence_folder, tokens, runtimes, conversions, network, encoder, passages,
given, docstrings, text_files, readers, tables, sources, queries, state, journal, folder_lock,
database, migrations, schema, own_columns, agreement, store, origins, derived, fit_advice, ledger,
ingest, reencoding, snapshot, changes, collection, building, facts, integrity, exact, evaluation,
demo, visible, console, answers, exits, options, cli.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .collection import Collection as Collection
    from .documents import Document as Document
    from .documents import Hit as Hit
    from .encoder import TransformerEncoder as TransformerEncoder
    from .given import GivenEncoder as GivenEncoder

__all__ = ["Collection", "Document", "GivenEncoder", "Hit", "TransformerEncoder"]

_HOMES = {
    "Collection": "collection",
    "Document": "documents",
    "GivenEncoder": "given",
    "Hit": "documents",
    "TransformerEncoder": "encoder",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for: `slimdex --help` must not wait for FAISS and DuckDB."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
