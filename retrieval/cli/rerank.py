"""Rerank: the hits of a search are looked at again by a cross-encoder, in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from slimdex.indexes.errors import InputError

from ..documents import content
from ..reranking import CrossEncoder
from . import console
from .queries import Queries


@dataclass(frozen=True)
class Rerank:
    """A cross-encoder, what was asked, and how many hits of each query it looks at."""

    model: CrossEncoder
    queries: list[str]
    depth: int

    @classmethod
    def asked(
        cls, model: str | None, depth: int, queries: Queries, *, trust_remote_code: bool = False
    ) -> Self | None:
        """What `--rerank` asks for; None if it does not.

        Raises
        ------
        InputError
            If there is no such model, the depth is less than 1, or queries are vectors.
        """
        if model is None:
            return None
        if depth < 1:
            raise InputError(f"--rerank-depth {depth}; expected 1 or more")
        if queries.texts is None:
            raise InputError("--rerank with vectors; expected queries in words")
        opened = CrossEncoder(model, trust_remote_code=trust_remote_code)
        return cls(opened, list(queries.texts), depth)

    def hits(self, wanted: int) -> int:
        """How many the search has to find of each query."""
        return max(self.depth, wanted)

    def reordered(self, answer: dict[str, Any], wanted: int) -> dict[str, Any]:
        """An answer of `commands.Search`, its hits by the cross-encoder's scores, best first."""
        found = list[list[dict[str, Any]]]()
        with console.progress() as progress:
            for query, hits in zip(self.queries, answer["hits"], strict=True):
                texts = [content(hit["title"], hit["text"]) for hit in hits]
                scores = self.model.scores(query, texts).tolist()
                scored = [hit | {"score": s} for hit, s in zip(hits, scores, strict=True)]
                found.append(sorted(scored, key=lambda hit: -hit["score"])[:wanted])
                progress("reranking", len(found), len(self.queries))
        return answer | {"hits": found, "chance_score": None}
