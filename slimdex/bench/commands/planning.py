"""`slimdex plan`: what an index will take."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from slimdex.indexes import options as choices
from slimdex.indexes.errors import InputError
from slimdex.retrieval.cli.options.opening import Json
from slimdex.retrieval.cli.options.settings import K, NoLexical, Stored

if TYPE_CHECKING:
    from ..planning.workload import Workload


@dataclass(frozen=True)
class WorkloadOptions:
    """Documents to plan for, and settings of their index."""

    documents: Annotated[float, "How many, as 1e9; count passages if texts are cut into them."]
    dim: Annotated[int, "Dimensions of the encoder's vectors."] = 384
    tokens: Annotated[float, "Tokens of a document, of 4 bytes each."] = 100
    columns: Annotated[float, "Bytes of a document's title and metadata."] = 0
    k: K = None
    kind: Annotated[str, "How vectors are coded: pq, ivf-pq or auto."] = choices.AUTO
    vector_dtype: Stored = "fp16"
    no_lexical: NoLexical = False

    def workload(self) -> Workload:
        """Return the checked workload."""
        from ..planning.workload import LEAST, MOST, Workload, check_range

        check_range("--documents", self.documents, LEAST, MOST)
        return Workload(
            round(self.documents),
            self.dim,
            self.tokens,
            self.columns,
            self.k,
            self.kind,
            self.vector_dtype,
            not self.no_lexical,
        )


def plan(
    workload: WorkloadOptions,
    tokens_per_s: Annotated[
        float | None,
        "Tokens that one machine encodes per second, as `slimdex bench encode` measures; "
        "default: encoding is not timed.",
    ] = None,
    ram: Annotated[str | None, "SIZE", "Memory of one machine: 64GB; default: this one's."] = None,
    machines: Annotated[
        int | None, "Machines to divide the documents among; default: as many as it takes."
    ] = None,
    build_hours: Annotated[float, "Longest that one machine may encode."] = 8,
    as_json: Json = False,
) -> None:
    """Estimate what an index will take, on one machine or several: memory, disk, encoding."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.cli.options.sizes import parsed_size

    from ..planning import report as telling
    from ..planning.plan import Plan

    planned = workload.workload()
    memory = _memory() if ram is None else parsed_size(ram, "--ram")
    made = Plan(planned, memory, machines, build_hours, tokens_per_s)
    if as_json:
        console.print_json(made.as_dict())
        return
    console.line(telling.title(made))
    console.show_table(telling.heads(made), telling.lines(made))
    for line in telling.advice(made):
        console.line(line)


def _memory() -> int:
    """Memory of this machine in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError) as error:
        raise InputError("--ram: the memory of this system is unknown; expected a size") from error
