"""Options of quality targets, and of the queries that measure quality."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from ...quality.evaluation.labels import Qrels
    from ...quality.tuning.targets import Target


@dataclass(frozen=True)
class TargetOptions:
    """Target of tuning, and limits of cost."""

    agreement: Annotated[
        float | None,
        "SHARE",
        "Agreement with exact search: the share of its ten nearest, in the index's own "
        "metric, that a search is to find; proved with 95% confidence.",
    ] = None
    ram: Annotated[str | None, "SIZE", "Most memory that the index may take: 200MB."] = None
    p99_ms: Annotated[
        float | None,
        "MS",
        "Longest that 99 of 100 searches may take on this machine, from a vector to rows.",
    ] = None

    def target(self) -> Target:
        """Return the checked target."""
        from ...quality.tuning.targets import Target
        from .sizes import parsed_size

        return Target(
            Target.agreement if self.agreement is None else self.agreement,
            None if self.ram is None else parsed_size(self.ram),
            self.p99_ms,
        ).checked()


Labels = Annotated[Path | None, "Labels of the queries: query, document, score (BEIR or TREC)."]


@dataclass(frozen=True)
class LabelOptions:
    """Queries to measure quality with: labelled, or made of the documents."""

    queries: Annotated[Path | None, "Queries that have labels: any source with ids."] = None
    qrels: Labels = None
    drop_self: Annotated[bool, "Leave out the document that has the query's own id."] = False
    sample: Annotated[int, "Without labels: how many queries to make of the documents."] = 500

    def read(self) -> tuple[list[tuple[str, str]], Qrels] | None:
        """Read the queries and their labels; None without --queries or without --qrels."""
        from ...quality.evaluation.labels import read_qrels
        from ...sources.source import read_pairs

        if self.queries is None or self.qrels is None:
            return None
        return read_pairs(str(self.queries)), read_qrels(self.qrels)
