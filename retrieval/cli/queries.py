"""Queries: what the command line is asked to look for, in words, from a file or as vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError

from ..sources.given_vectors import read_query_vectors
from ..sources.source import read_pairs

WAYS = "QUERY, --query, --queries or --query-vector"


@dataclass(frozen=True)
class Queries:
    """Texts, or vectors in place of them.

    Attributes
    ----------
    names : how each is named in the answers: the text itself, or the vector's number.
    ids : of queries from a file.
    """

    names: Sequence[str]
    vectors: Matrix | None = None
    ids: Sequence[str] | None = None

    @classmethod
    def asked(
        cls,
        words: Sequence[str] | None = None,
        texts: Sequence[str] | None = None,
        file: Path | None = None,
        vectors: str | None = None,
    ) -> Self:
        """The queries of a command line: the words are one, and each of `texts` is one.

        Raises
        ------
        InputError
            If there are none, or they come in several ways; if the file can't be read.
        """
        given = {"QUERY": words, "--query": texts, "--queries": file, "--query-vector": vectors}
        ways = [name for name, value in given.items() if value]
        if len(ways) != 1:
            raise InputError(f"search: {' and '.join(ways) or 'no query'}; expected {WAYS}")
        if vectors:
            matrix = read_query_vectors(vectors)
            return cls([f"vector {i + 1}" for i in range(len(matrix))], matrix)
        if not file:
            queries = [" ".join(words)] if words else list(texts or ())
            if any(not query.strip() for query in queries):
                raise InputError("search: a query without words; expected some to look for")
            return cls(queries)
        pairs = read_pairs(str(file))
        if not pairs:
            raise InputError(f"{file}: no queries; expected at least one")
        return cls([text for _, text in pairs], ids=[id for id, _ in pairs])

    @property
    def texts(self) -> Sequence[str] | None:
        """What is to be encoded."""
        return self.names if self.vectors is None else None
